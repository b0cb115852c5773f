"""Check annotated shapes and types while the tests run, in the first calls of each test.

The hook has to be there before bagwise is first imported. pytest reads this file before it collects
anything, doctests included.
"""

import signal
import sys

import jaxtyping
import pytest

import shapecheck

assert "bagwise" not in sys.modules, "bagwise was imported before its shapes could be checked"
jaxtyping.jaxtyped = shapecheck.first_calls(jaxtyping.jaxtyped)
jaxtyping.install_import_hook("bagwise", "shapecheck.checked")


# A shell that runs tests in the background has them ignore Ctrl-C, and so would the programs that
# they start; some of these are to be stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup():
    shapecheck.begin_test()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter):
    """Say last of all which tests were left out for want of a browser, and what to install."""
    yield
    skipped = terminalreporter.stats.get("skipped", [])
    left_out = [test for test in skipped if "no browser" in str(test.longrepr)]
    if left_out:
        files = ", ".join(sorted({test.nodeid.split("::")[0] for test in left_out}))
        terminalreporter.line(
            f"Left out for want of a browser: {len(left_out)} tests of {files}. "
            "On Debian: apt-get install chromium chromium-driver"
        )
