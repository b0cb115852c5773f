"""The progress bar is seen in a terminal, never in a log; one thread where it was asked for."""

import io
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import bagwise
from bagwise._utils import work
from bagwise._utils.work import (
    Progress,
    imported_meanwhile,
    one_thread,
    progress_shown,
    wanted,
)


class Terminal(io.StringIO):
    """Where rich would show a bar."""

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "80")

    def enter():  # in the test itself, as pytest takes stderr back after a fixture
        screen = Terminal()
        monkeypatch.setattr(sys, "stderr", screen)
        return screen

    return enter


def count(n, **options):
    with Progress("counting", n, **options) as progress:
        for _ in range(n):
            progress.advance()


def test_nothing_is_written_where_nobody_watches(capfd):
    count(3)
    assert capfd.readouterr() == ("", "")


def test_nothing_is_written_to_a_file(monkeypatch, tmp_path):
    path = tmp_path / "log.txt"
    with path.open("w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        count(3)
    assert path.read_text() == ""


def test_a_process_without_stderr_can_do_without(monkeypatch):
    monkeypatch.setattr(sys, "stderr", None)
    count(3)


def test_nothing_is_written_when_switched_off(terminal, capsys):
    screen = terminal()
    count(3, shown=False)
    assert screen.getvalue() == ""
    assert capsys.readouterr().out == ""


def test_a_bar_in_a_terminal(terminal, capsys):
    screen = terminal()
    count(3)
    shown = screen.getvalue()
    assert "counting" in shown and "3/3" in shown
    assert capsys.readouterr().out == ""  # it goes to stderr, as results may be piped on
    assert shown.rstrip().endswith("\x1b[2K")  # and takes itself away


def test_the_bar_goes_and_the_cursor_comes_back_after_an_error(terminal):
    screen = terminal()
    with pytest.raises(ZeroDivisionError), Progress("dividing", 3) as progress:
        progress.advance()
        raise ZeroDivisionError
    shown = screen.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")  # shown after it was hidden
    assert "dividing" in shown


def test_steps_may_be_reported_from_threads_and_in_batches(terminal):
    screen = terminal()
    with Progress("counting", 400) as progress, ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: progress.advance(20), range(20)))
    assert "400/400" in screen.getvalue()


def test_more_steps_than_were_announced_do_no_harm(terminal):
    screen = terminal()
    with Progress("counting", 3) as progress:
        progress.advance(5)
    assert "counting" in screen.getvalue()


SCRIPT = """
from bagwise._utils.work import Progress, progress_shown, wanted
with Progress("counting", 3) as progress:
    for _ in range(3):
        progress.advance()
print("result")
"""


def run(stderr):
    source = str(Path(bagwise.__file__).parents[1])
    keep = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return subprocess.run(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=keep | {"PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "80"},
        check=True,
    )


def test_a_process_in_a_pseudo_terminal_shows_a_bar():
    pty = pytest.importorskip("pty", reason="Windows has no pseudo-terminals")
    ours, theirs = pty.openpty()
    try:
        done = run(theirs)
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(theirs)
        os.close(ours)
    assert "counting" in shown and "3/3" in shown
    assert done.stdout == b"result\n"


def test_a_process_with_a_pipe_shows_nothing():
    done = run(subprocess.PIPE)
    assert (done.stdout, done.stderr) == (b"result\n", b"")


def test_a_bar_within_a_bar_is_a_further_line_of_one_display(terminal):
    screen = terminal()
    with Progress("outer", 2) as outer:
        for _ in range(2):
            count(3)
            outer.advance()
        assert Progress._display is not None
    assert Progress._display is None
    assert "outer" in screen.getvalue()


def test_an_error_within_takes_the_bar_away(terminal):
    terminal()
    with pytest.raises(KeyError), Progress("outer", 1), Progress("inner", 1):
        raise KeyError
    assert Progress._display is None


def test_progress_is_wanted_only_where_somebody_said_so():
    assert not wanted()
    with progress_shown():
        assert wanted()
        with progress_shown(False):
            assert not wanted()
    assert not wanted()


np.linalg.eigh(np.eye(2))  # so that there is a BLAS to look at


def counts(*kinds):
    return {
        library["filepath"]: library["num_threads"]
        for library in threadpool_info()
        if library["user_api"] in kinds
    }


def test_one_thread_within_and_as_before_afterwards():
    before = counts("blas", "openmp")
    with one_thread():
        assert set(counts("blas", "openmp").values()) == {1}
        with one_thread("blas"):
            assert set(counts("blas").values()) == {1}
    assert counts("blas", "openmp") == before
    with pytest.raises(KeyError), one_thread("blas"):
        raise KeyError
    assert counts("blas", "openmp") == before


def test_libraries_are_looked_for_again_only_after_an_import():
    found = work._controller(1)
    assert work._controller(1) is found
    assert work._controller(2) is not found


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_what_is_imported_meanwhile(tmp_path, monkeypatch, error):
    """It is there afterwards, also after an error; a fault of it is raised where it is used."""
    (tmp_path / "slow_module.py").write_text("import time\ntime.sleep(0.3)\ndone = True\n")
    (tmp_path / "faulty_module.py").write_text("import slow_module\nraise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(error) if error else nullcontext(), imported_meanwhile("faulty_module"):
        assert not hasattr(sys.modules.get("slow_module"), "done")
        if error is not None:
            raise error
    # Who interrupts does not wait.
    assert hasattr(sys.modules.get("slow_module"), "done") == (error is not KeyboardInterrupt)
    import slow_module

    assert slow_module.done
    with pytest.raises(RuntimeError, match="no"):
        import_module("faulty_module")
    del sys.modules["slow_module"]
