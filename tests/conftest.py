"""Check annotated shapes and types while the tests run, in the first calls of each test.

The hook has to be there before bagwise is first imported. pytest reads this file before it collects
anything, doctests included.
"""

import gc
import importlib.metadata
import itertools
import os
import shutil
import signal
import sys
import tempfile

# Before anything reads them: for these tests, and for the programs that they start.
#
# Tests run side by side and their problems are small: threads of BLAS would stand in each other's
# way. JAX compiles for longer than it computes: with little effort then, and once for all processes
# of a run. A flag that XLA does not know is fatal, so versions that were not tried compile as ever.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
if importlib.metadata.version("jaxlib").startswith("0.10."):
    os.environ.setdefault(
        "XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0"
    )
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import jaxtyping  # noqa: E402
import pytest  # noqa: E402

import shapecheck  # noqa: E402

assert "bagwise" not in sys.modules, "bagwise was imported before its shapes could be checked"
jaxtyping.jaxtyped = shapecheck.first_calls(jaxtyping.jaxtyped)
jaxtyping.install_import_hook("bagwise", "shapecheck.checked")


# What is imported and collected stays until the end: looking through it for garbage takes a fifth
# of the time of collecting, and finds nothing.
gc.disable()


def pytest_collection_finish():
    gc.enable()
    gc.freeze()


# A shell that runs tests in the background has them ignore Ctrl-C, and so would the programs that
# they start; some of these are to be stopped by it.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Give all processes of a run one place for what JAX has compiled."""
    if "PYTEST_XDIST_WORKER" not in os.environ:  # which have it from the process above them
        folder = tempfile.mkdtemp(prefix="bagwise-tests-")
        os.environ["JAX_COMPILATION_CACHE_DIR"] = folder
        config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))


def pytest_collection_modifyitems(config, items):
    """Of tests whose cases are crossed, keep enough cases that each value is met, or all if asked.

    With ``-m "long or not long"`` (``make test-all``) every combination is run.
    """
    if config.getoption("markexpr") != "not long":
        return
    crossed = {}
    for item in items:
        if item.get_closest_marker("crossed"):
            crossed.setdefault((item.path, item.cls, item.originalname), []).append(item)
    left_out = {item for cases in crossed.values() for item in _not_needed(cases)}
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=sorted(left_out, key=lambda item: item.nodeid))


def _not_needed(cases):
    """Return the cases without which each value of each parameter, or pair, is still met by one."""
    many = cases[0].get_closest_marker("crossed").kwargs.get("together", 1)
    values = {case: [(name, id(of)) for name, of in case.callspec.params.items()] for case in cases}
    met = {case: set(itertools.combinations(values[case], many)) for case in cases}
    to_meet, left = set().union(*met.values()), list(cases)
    while to_meet:
        best = max(left, key=lambda case: len(met[case] & to_meet))
        to_meet -= met[best]
        left.remove(best)
    return left


def pytest_runtest_setup(item):
    shapecheck.begin_test((item.path, getattr(item, "originalname", item.name)))


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


@pytest.fixture(scope="session", autouse=True)
def _files_are_read_in_every_pass():
    """Have streams read their files again, however short, but for tests of what is kept."""
    from bagwise.bags.tables import reader

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "KEPT_BYTES", 0)
        yield


@pytest.fixture
def kept_streams(monkeypatch):
    """Let streams keep the rows of short files, as they do for users."""
    from bagwise.bags.tables import reader

    monkeypatch.setattr(reader, "KEPT_BYTES", 1 << 29)


@pytest.fixture
def undrawn(monkeypatch):
    """Leave the pictures of pages blank but for their names: drawing them takes longest."""
    from markupsafe import Markup

    from bagwise.inspection.report import pictures

    blank = Markup('<svg role="img" aria-label="{}"></svg>')
    monkeypatch.setattr(pictures, "element", lambda ax, name: blank.format(name))
