"""The streams of a process: pipes, closed and full outputs, and fifos."""

import inspect
import os
import pkgutil
import subprocess
import sys
import time
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import bagwise as library
from bagwise._utils.levels import LEVEL
from cli_runs import bagwise, command_line, done, make_rows, refused, write

FIT = ("--bag", "person", "--label", "age", "--features", "a,b", "--task", "numbers")
FIT = (*FIT, "--model", "shrinkage")
PREDICT = ("predict", "m.bagwise", "points.parquet")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    write(make_rows(), folder / "points.parquet")
    done(bagwise("fit", "points.parquet", *FIT, "--out", "m.bagwise", cwd=folder))
    return folder


def shell(line, cwd):
    """Run a line of bash in which $BAGWISE is the command."""
    environment = os.environ | {"BAGWISE": f"{sys.executable} -m bagwise"}
    return subprocess.run(
        ["bash", "-c", line], cwd=cwd, env=environment, capture_output=True, text=True, timeout=120
    )


# ---------------------------------------------------------------- outputs that take nothing


@pytest.mark.parametrize(
    "option",
    [
        pytest.param("--out -", id="table"),
        pytest.param("--json", id="json", marks=pytest.mark.long),
        pytest.param("", id="text", marks=pytest.mark.long),
    ],
)
def test_nobody_reads_the_answer(folder, option):
    line = f"$BAGWISE {' '.join(PREDICT)} {option} | true; exit ${{PIPESTATUS[0]}}"
    result = shell(line, folder)
    assert result.returncode in (0, 141)  # 0 if the pipe was still open
    assert "rror" not in result.stderr and "Traceback" not in result.stderr


@pytest.mark.parametrize("line", [*(" ".join(PREDICT) + o for o in (" --out -", "")), "--help"])
def test_a_broken_pipe_is_no_fault(folder, line):
    read, wrote = os.pipe()
    os.close(read)  # so that nobody reads for sure
    result = subprocess.run(
        command_line(*line.split()), cwd=folder, stdout=wrote, stderr=subprocess.PIPE, text=True
    )
    os.close(wrote)
    said = [line for line in result.stderr.splitlines() if "bags predicted" not in line]
    assert result.returncode == 141 and said == []


@pytest.mark.crossed
@pytest.mark.parametrize("option", ["--out -", "--json", ""], ids=["table", "json", "text"])
@pytest.mark.parametrize(("place", "words"), [("/dev/full", "No space left"), ("&-", "is closed")])
def test_standard_output_that_takes_nothing(folder, option, place, words):
    result = shell(f"$BAGWISE {' '.join(PREDICT)} {option} >{place}", folder)
    refused(result, "standard output", words)
    assert len(result.stderr.splitlines()) == 1


def test_closed_streams_do_not_become_files_of_ours(folder):
    """Else what a library prints would end up in a table."""
    result = shell(f"$BAGWISE {' '.join(PREDICT)} --out p.csv 2>&- <&-", folder)
    assert result.returncode == 0 and (folder / "p.csv").read_text().startswith("person,size")
    assert shell("$BAGWISE info no.csv 2>&-", folder).returncode == 1
    assert shell("$BAGWISE info no.csv 2>/dev/full", folder).returncode == 1


# ---------------------------------------------------------------- places


def test_fifos_and_folders_are_refused_at_once(folder, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")
    start = time.monotonic()
    refused(
        bagwise(*PREDICT, "--out", tmp_path / "pipe.csv", cwd=folder), "no plain file", "--out -"
    )
    model = ("predict", tmp_path / "pipe.csv", "points.parquet")
    refused(bagwise(*model, cwd=folder), "pipe.csv is no plain file")
    refused(bagwise("predict", tmp_path, "points.parquet", cwd=folder), "is a folder")
    refused(bagwise("info", tmp_path / "no.bagwise", cwd=folder), "no file")
    fit = ("fit", "points.parquet", *FIT, "--out")
    refused(bagwise(*fit, tmp_path, cwd=folder), "is a folder")
    refused(bagwise(*fit, "/dev/null", cwd=folder), "no plain file")
    refused(bagwise(*fit, tmp_path / ("x" * 300), cwd=folder), "too long")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(bagwise(*fit, tmp_path / "loop", cwd=folder), "loop cannot be written")
    assert time.monotonic() - start < 30 and (tmp_path / "pipe.csv").is_fifo()


@contextmanager
def without_rights():
    """As a user who may not do everything, if the tests are run by one who may."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_places_that_this_user_may_not_use(folder):
    with TemporaryDirectory() as place:  # that of pytest is closed to others
        closed = Path(place)
        for name in ("points.parquet", "m.bagwise"):
            (closed / name).write_bytes((folder / name).read_bytes())
            (closed / name).chmod(0o444)
        (closed / "secret.csv").write_text("person,a\n")
        (closed / "secret.csv").chmod(0)
        closed.chmod(0o555)
        with without_rights():
            written = bagwise(*PREDICT, "--out", "p.csv", cwd=closed)
            saved = bagwise("fit", "points.parquet", *FIT, "--out", "x.bagwise", cwd=closed)
            points = bagwise("predict", "m.bagwise", "secret.csv", cwd=closed)
            model = bagwise("predict", "secret.csv", "points.parquet", cwd=closed)
            info = bagwise("info", "secret.csv", cwd=closed)
        closed.chmod(0o755)
    for result in (written, saved):
        refused(result, "cannot be written", "closed to this user")
    refused(points, "secret.csv may not be read by this user")
    refused(model, "secret.csv cannot be read (Permission denied)")
    refused(info, "secret.csv may not be read by this user")


# ---------------------------------------------------------------- one level


def defaults_of_level():
    """Every function and method of the package that has a level, and its default."""
    for module in pkgutil.walk_packages(library.__path__, "bagwise."):
        if module.name.startswith(("bagwise.experiments", "bagwise.__main__")):
            continue
        found = vars(import_module(module.name))
        for owner in [v for v in found.values() if getattr(v, "__module__", "") == module.name]:
            members = vars(owner).values() if inspect.isclass(owner) else [owner]
            for function in filter(inspect.isfunction, members):
                level = inspect.signature(function).parameters.get("level")
                if level is not None and level.default is not level.empty:
                    yield f"{module.name}.{function.__qualname__}", level.default


def test_there_is_one_default_level():
    found = dict(defaults_of_level())
    assert {"bagwise.predictions.gaussian.Prediction.interval"} < set(found)
    assert {"bagwise.inspection.report.make"} < set(found)
    assert {"bagwise.cli.predict.predict", "bagwise.cli.report.report"} < set(found)
    assert set(found.values()) == {LEVEL}, found
