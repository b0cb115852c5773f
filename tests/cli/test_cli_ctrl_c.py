"""Ctrl-C stops a command in one line, with 130, and says truly what was written.

Nothing here waits for a time: an interrupt comes when a certain module is imported, or when the
terminal shows that the work has begun.
"""

import contextlib
import os
import pty
import signal
import subprocess
import sys
import time

import pytest

from bagwise.__main__ import _is_deaf
from bagwise._utils import atomic
from bagwise.cli import shell
from bagwise.exceptions import BagwiseError
from cli_runs import bagwise, command_line, done, in_process, make_rows, refused, write

FIT = ("fit", "points.parquet", "--bag", "person", "--label", "age", "--features", "a,b")
FIT = (*FIT, "--task", "numbers", "--model", "shrinkage")
PREDICT = ("predict", "m.bagwise", "points.parquet")

# Python runs this file first. It tells what is looked for to be imported, one name a line, or
# sends the process an interrupt at one of them.
HOOK = """
import os, signal, sys

class Watch:
    seen = 0

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        cls.seen += 1
        if "TELL" in os.environ:
            print("import", name, file=sys.stderr)
        if os.environ.get("STOP_AT") in (name, str(cls.seen)):
            os.environ.pop("STOP_AT")
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Watch)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ctrl-c")
    write(make_rows(), folder / "points.parquet")
    done(bagwise(*FIT, "--out", "m.bagwise", cwd=folder))
    (folder / "sitecustomize.py").write_text(HOOK)
    return folder


def watched(folder, *line, **env):
    path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])
    return in_process(*line, cwd=folder, env={"PYTHONPATH": path, **env})


def check_stopped(folder, *line, at):
    """Stop a command that writes x.bagwise at an import, and compare what it says with what is."""
    (folder / "x.bagwise").unlink(missing_ok=True)
    before = set(folder.iterdir())
    result = watched(folder, *line, STOP_AT=str(at))
    new = [path.name for path in set(folder.iterdir()) - before]
    said = f"bagwise: stopped; {new[0] if new else 'nothing'} was written"
    assert (result.returncode, result.stderr.splitlines()[-1:]) == (130, [said]), (at, result)
    assert "Traceback" not in result.stderr and new in ([], ["x.bagwise"]), (at, result)
    return result


@pytest.mark.parametrize(
    ("name", "deaf"), [("x/threadpoolctl.py", True), ("<frozen importlib>", True), ("a.py", False)]
)
def test_where_an_interrupt_would_be_lost(name, deaf):
    frame = eval(compile("__import__('sys')._getframe()", name, "eval"))
    assert _is_deaf(frame) == deaf


@pytest.mark.parametrize(
    ("error", "code"), [(TypeError("of a library"), 130), (BagwiseError("ours"), 1)]
)
def test_what_a_library_makes_of_an_interrupt_is_one(monkeypatch, error, code):
    assert shell._verdict(TypeError("by itself"))[0] == 70
    monkeypatch.setattr(shell, "_was_interrupted", lambda: True)
    assert shell._verdict(error)[0] == code


# The first of ours; a library of the command, of arrays, of tables and of models.
@pytest.mark.parametrize("module", ["bagwise.cli", "typer", "numpy", "pyarrow", "scipy.linalg"])
def test_in_an_import_before_anything_is_read(folder, module):
    result = check_stopped(folder, *FIT, "--out", "x.bagwise", at=module)
    assert (result.stdout, len(result.stderr.splitlines())) == ("", 1)
    assert not (folder / "x.bagwise").exists()


@pytest.mark.parametrize(
    "module",
    [
        "container",
        pytest.param("codec", marks=pytest.mark.long),
        pytest.param("saving", marks=pytest.mark.long),
    ],
)
def test_in_the_last_imports_of_a_command(folder, module):
    """Some milliseconds before the file is in its place: it may be there, and then is named."""
    at = f"bagwise.estimators.saving.{module}"
    check_stopped(folder, *FIT, "--out", "x.bagwise", at=at)


@pytest.mark.long
def test_in_any_import(folder, places=40):
    """Until draws are made: who stops then keeps those that there are."""
    line = (*FIT[:-1], "bdr", "--out", "x.bagwise")
    told = watched(folder, *line, "--set", "draws=20", "--set", "warmup=20", TELL="1")
    names = [words[7:] for words in told.stderr.splitlines() if words.startswith("import ")]
    assert told.returncode == 0 and {"jax", "sklearn"} <= set(names), told.stderr
    first, last = (names.index(f"bagwise.{name}") + 1 for name in ("cli", "inference.nuts"))
    for number in range(first, last + 1, (last - first) // places):
        check_stopped(folder, *line, at=number)


def test_while_a_model_is_fitted(folder):
    """As soon as the bar is seen; there is work for seconds after that."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        command_line(*FIT, "--tune", "--out", "y.bagwise"),
        cwd=folder,
        stderr=follower,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(follower)
    seen = b""
    while "━".encode() not in seen:
        seen += os.read(leader, 65536)
    process.send_signal(signal.SIGINT)
    try:
        while piece := os.read(leader, 65536):
            seen += piece
    except OSError:  # closed, as the process has ended
        pass
    os.close(leader)
    assert process.wait(60) == 130
    assert b"stopped; nothing was written" in seen and b"Traceback" not in seen
    assert not (folder / "y.bagwise").exists()


def test_an_import_is_not_torn_apart(tmp_path):
    """An interrupt within a module that swallows it, or makes another error of it, is not lost."""
    (tmp_path / "swallows.py").write_text(
        "import os, signal\n"
        "try:\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    sum(range(1000))\n"
        "except BaseException as error:\n"
        "    raise ImportError('torn apart') from error\n"
    )
    program = (
        "import sys, time, bagwise.cli, bagwise.__main__\n"
        "def run(*_):\n"
        "    import swallows\n"
        "    time.sleep(10)\n"
        "bagwise.cli.main = run\n"
        "bagwise.__main__.main()\n"
    )
    start = time.monotonic()
    result = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stderr) == (130, "bagwise: stopped; nothing was written\n")
    assert time.monotonic() - start < 9.5


def test_nothing_is_imported_before_ctrl_c_is_seen_to(folder):
    """But what Python needs to begin with, and what the module of signals does."""
    told = watched(folder, "--version", TELL="1").stderr.split()[1::2]
    before = told[told.index("bagwise") : told.index("bagwise.cli")]
    assert set(before) <= {"bagwise", "bagwise.__main__", "__future__", "signal", "enum"}, before


def test_a_command_that_ignores_it_goes_on_ignoring_it(folder):
    """As in a shell that has put it into the background."""
    line = f"trap '' INT; {sys.executable} -m bagwise info & sleep 0.3; kill -INT $!; wait $!"
    result = subprocess.run(["bash", "-c", line], cwd=folder, capture_output=True, timeout=120)
    assert result.returncode == 0 and b"numpy" in result.stdout


def test_who_stops_late_is_told_what_was_written(folder, tmp_path, monkeypatch):
    def stops(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bagwise.cli.predict.answer", stops)
    result = bagwise(*PREDICT, "--out", tmp_path / "p.csv", cwd=folder)
    refused(result, f"stopped; {tmp_path / 'p.csv'} was written", code=130)


@pytest.mark.parametrize("in_place", [False, True])
def test_who_stops_the_last_step_is_told_which_file_is_there(
    folder, tmp_path, monkeypatch, in_place
):
    """The file is flushed, moved to its place, and then its folder is flushed."""
    flush = os.fsync
    steps = iter([False, True])

    def stops(descriptor):
        if next(steps) == in_place:
            raise KeyboardInterrupt
        flush(descriptor)

    monkeypatch.setattr("bagwise._utils.atomic.os.fsync", stops)
    result = bagwise(*PREDICT, "--out", tmp_path / "p.csv", cwd=folder)
    what = tmp_path / "p.csv" if in_place else "nothing"
    refused(result, f"stopped; {what} was written", code=130)
    assert (tmp_path / "p.csv").exists() == in_place
    assert len(list(tmp_path.iterdir())) == in_place


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # not closed in time
def test_between_any_two_steps_of_writing(tmp_path, monkeypatch):
    """What is said is what is there, and no part stays, wherever an interrupt comes."""
    files = (contextlib.__file__, atomic.__file__, shell.__file__)
    path = tmp_path / "p.csv"
    monkeypatch.setattr(shell, "_outputs", {})

    def write_stopped_at(number):
        """Write, with an interrupt at that step; return what is said, and whether it came."""
        steps = iter(range(number))

        def stops(frame, event, _):
            frame.f_trace_opcodes = frame.f_code.co_filename in files
            if frame.f_trace_opcodes and event == "opcode" and next(steps, None) is None:
                sys.settrace(None)
                raise KeyboardInterrupt
            return stops

        before = sys.gettrace()
        try:
            sys.settrace(stops)
            with shell.Output(path).opened() as file:
                file.write(b"new")
        except KeyboardInterrupt as stopped:  # it holds on to the generators that did not end
            return shell._verdict(stopped)[1]
        finally:
            sys.settrace(before)
        return ""

    for number in range(100_000):
        path.unlink(missing_ok=True)
        said = write_stopped_at(number)
        new = list(tmp_path.iterdir())
        if not said:
            break
        assert new in ([], [path]), number
        assert said == f"stopped; {path if new else 'nothing'} was written", number
    assert number > 300 and path.read_bytes() == b"new"
