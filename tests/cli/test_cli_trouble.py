"""What goes wrong at a terminal: each in one sentence with the remedy, and nothing lost."""

import os
import pty
import shutil
import subprocess

import numpy as np
import pyarrow as pa
import pytest

from cli_runs import bagwise, command_line, done, in_process, make_rows, refused, write

FIT = ("--bag", "person", "--label", "age", "--features", "a,b", "--model", "shrinkage")
FIT = (*FIT, "--out", "m.bagwise")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trouble")
    write(make_rows(), folder / "points.parquet")
    done(bagwise("fit", "points.parquet", *FIT, cwd=folder))
    return folder


def fit(cwd, points, *options):
    return bagwise("fit", points, *FIT, *options, cwd=cwd)


def test_files_that_cannot_be_read(folder, tmp_path):
    refused(fit(folder, "point.parquet"), "point.parquet", "points.parquet")
    refused(fit(tmp_path, "."), "arquet")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    refused(fit(tmp_path, "a.xlsx"), ".xlsx")
    (tmp_path / "empty.csv").write_text("")
    refused(fit(tmp_path, "empty.csv"), "empty.csv")
    whole = (folder / "points.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(whole[: len(whole) // 2])
    refused(fit(tmp_path, "cut.parquet"), "cut.parquet")
    (tmp_path / "ragged.csv").write_text("person,a,b,age\nx,1,2,3\ny,1,2\n")
    refused(fit(tmp_path, "ragged.csv"), "ragged.csv")


def test_tables_that_do_not_fit(tmp_path):
    table = make_rows()
    write(table.drop_columns(["age"]), tmp_path / "t.parquet")
    refused(fit(tmp_path, "t.parquet"), "'age'")
    changing = table.set_column(4, "age", pa.array(np.arange(len(table), dtype=float)))
    write(changing, tmp_path / "t.parquet")
    refused(fit(tmp_path, "t.parquet"), "'age' changes within bag")
    a = table["a"].to_numpy().copy()
    a[7] = np.inf
    write(table.set_column(1, "a", pa.array(a)), tmp_path / "t.parquet")
    refused(fit(tmp_path, "t.parquet"), "'a'", "inf")
    text = table.set_column(1, "a", pa.array(["x"] * len(table)))
    write(text, tmp_path / "t.parquet")
    refused(fit(tmp_path, "t.parquet"), "'a'", "numbers")


def test_labels_of_a_second_file_that_do_not_match(folder, tmp_path):
    points = make_rows().drop_columns(["age"])
    write(points, tmp_path / "points.parquet")
    people = sorted(set(points["person"].to_pylist()))
    labels = pa.table({"person": [*people[1:], "nobody"], "age": np.linspace(1, 2, len(people))})
    write(labels, tmp_path / "labels.csv")
    result = fit(tmp_path, "points.parquet", "--labels", "labels.csv")
    done(result)
    assert "'p000'" in result.stderr and "'nobody'" in result.stderr
    numbers = pa.table({"person": np.arange(5), "age": np.arange(5.0)})
    write(numbers, tmp_path / "labels.csv")
    refused(fit(tmp_path, "points.parquet", "--labels", "labels.csv"), "p0")


def test_models_that_cannot_be_loaded(folder, tmp_path):
    def predict(name):
        return bagwise("predict", tmp_path / name, "points.parquet", cwd=folder)

    refused(predict("nothing.bagwise"), "nothing.bagwise")
    whole = (folder / "m.bagwise").read_bytes()
    (tmp_path / "cut.bagwise").write_bytes(whole[:-100])
    refused(predict("cut.bagwise"), "cut.bagwise")
    changed = bytearray(whole)
    changed[len(whole) // 2] ^= 1
    (tmp_path / "changed.bagwise").write_bytes(changed)
    refused(predict("changed.bagwise"), "changed.bagwise")
    (tmp_path / "text.bagwise").write_text("hello")
    refused(predict("text.bagwise"), "text.bagwise")


def test_points_that_do_not_fit_the_model(folder, tmp_path):
    write(make_rows(5).drop_columns(["b"]), tmp_path / "new.parquet")
    refused(bagwise("predict", folder / "m.bagwise", "new.parquet", cwd=tmp_path), "'b'")
    write(make_rows(5).drop_columns(["age"]), tmp_path / "new.parquet")
    refused(bagwise("evaluate", folder / "m.bagwise", "new.parquet", cwd=tmp_path), "'age'")


def test_places_that_cannot_be_written_to(folder):
    predict = ("predict", "m.bagwise", "points.parquet", "--out")
    refused(bagwise(*predict, "nowhere/p.csv", cwd=folder), "no folder")
    refused(bagwise(*predict, ".", cwd=folder), "is a folder")
    refused(bagwise(*predict, "p.docx", cwd=folder), ".csv")
    refused(bagwise(*predict, "/proc/p.csv", cwd=folder), "cannot be written")


def test_wrong_lines_exit_with_2(folder):
    assert bagwise("fit", "points.parquet", cwd=folder).returncode == 2
    assert bagwise("foretell", cwd=folder).returncode == 2
    assert bagwise("fit", "points.parquet", *FIT, "--model", "magic", cwd=folder).returncode == 2


def test_debug_shows_where_an_error_arose(folder):
    for line in (("--debug", "fit", "no.csv", *FIT), ("fit", "no.csv", *FIT, "--debug")):
        result = bagwise(*line, cwd=folder)
        assert result.returncode == 1 and "Traceback" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(folder, shell):
    result = in_process(cwd=folder, env={"_BAGWISE_COMPLETE": f"source_{shell}"})
    assert "bagwise" in result.stdout and result.returncode == 0


def test_columns_are_completed_from_the_file(folder):
    line = "bagwise fit points.parquet --bag pe"
    words = {"_BAGWISE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": "4"}
    assert "person" in in_process(cwd=folder, env=words).stdout


def test_progress_is_seen_in_a_terminal_and_not_in_a_log(folder, tmp_path):
    line = ("fit", folder / "points.parquet", *FIT)
    assert "━" not in bagwise(*line, cwd=tmp_path).stderr
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(command_line(*line), cwd=tmp_path, stderr=follower, env=environment)
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    assert process.wait(60) == 0
    assert "fitting" in seen.decode(errors="replace")


@pytest.mark.long  # two savers: test_persistence_writing.py
def test_two_processes_saving_to_one_path_leave_one_whole_model(folder, tmp_path):
    points = folder / "points.parquet"
    lines = [command_line("fit", points, *FIT, "--seed", seed) for seed in (1, 2)]
    running = [subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.DEVNULL) for line in lines]
    assert [process.wait(120) for process in running] == [0, 0]
    done(bagwise("predict", "m.bagwise", points, cwd=tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["m.bagwise"]


@pytest.fixture
def small_disk(tmp_path):
    """A disk of 64 kB, where the machine lets us make one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = shutil.which("mount")
    made = mount is not None and os.geteuid() == 0
    if (
        not made
        or subprocess.run([mount, "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]).returncode
    ):
        pytest.skip("no small disk can be made here: that takes root and tmpfs")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_leaves_what_was_there(folder, small_disk):
    old = (folder / "m.bagwise").read_bytes()
    (small_disk / "old.bagwise").write_bytes(old)
    free = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(bytes(free.f_bavail * free.f_frsize))
    options = [*FIT[:-1], small_disk / "old.bagwise"]
    result = bagwise("fit", folder / "points.parquet", *options, cwd=folder)
    refused(result, "cannot be written", "space")
    assert (small_disk / "old.bagwise").read_bytes() == old
    predict = ("predict", "m.bagwise", "points.parquet", "--out", small_disk / "p.csv")
    refused(bagwise(*predict, cwd=folder), "cannot be written", "space")
    assert sorted(path.name for path in small_disk.iterdir()) == ["filler", "old.bagwise"]
