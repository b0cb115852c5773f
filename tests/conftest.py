"""Check every annotated shape and type while the tests run.

The hook has to be there before bagwise is first imported. pytest reads this file before it collects
anything, doctests included.
"""

import sys

from jaxtyping import install_import_hook

assert "bagwise" not in sys.modules, "bagwise was imported before its shapes could be checked"
install_import_hook("bagwise", "shapecheck.checked")


def pytest_terminal_summary(terminalreporter):
    """Say at the end which tests were left out for want of a browser, and what to install."""
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [test for test in skipped if "no browser" in str(test.longrepr)]
    if left_out:
        files = sorted({test.nodeid.split("::")[0] for test in left_out})
        terminalreporter.section("left out")
        terminalreporter.line(
            f"{len(left_out)} tests of {', '.join(files)}: no browser. On Debian, install it with "
            "apt-get install chromium chromium-driver"
        )
