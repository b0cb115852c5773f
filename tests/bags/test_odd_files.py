"""Paths that are no plain file, or that may not be read: a sentence, never a wait."""

import contextlib
import os
import shutil
import socket
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bagwise.bags.bags import Bags
from bagwise.exceptions import BagwiseError
from cli_runs import QUICK, bagwise, done, in_process, make_rows, refused, write

FIT = ("--bag", "person", "--label", "age", "--features", "a,b", *QUICK, "--out", "m.bagwise")
READERS = {"csv": Bags.from_csv, "parquet": Bags.from_parquet, "stream": Bags.scan_parquet}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device"])
def test_what_is_no_plain_file_is_refused(tmp_path, reader, kind, monkeypatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    path = Path("t.csv" if reader == "csv" else "t.parquet")
    with contextlib.ExitStack() as stack:
        if kind == "pipe":
            os.mkfifo(path)
        elif kind == "socket":
            stack.enter_context(socket.socket(socket.AF_UNIX)).bind(str(path))
        else:
            path.symlink_to("/dev/zero")
        with pytest.raises(BagwiseError, match=f"is a {kind}; expected a plain file"):
            READERS[reader](path, bag="bag")
        table = pd.DataFrame({"bag": [1, 2], "x": [1.0, 2.0]})
        table.to_csv("points.csv", index=False)
        with pytest.raises(BagwiseError, match=f"is a {kind}"):
            Bags.from_csv("points.csv", bag="bag", label="y", labels=path)


def test_a_pipe_in_a_folder_is_passed_over(tmp_path):
    pd.DataFrame({"bag": [1, 2], "x": [1.0, 2.0]}).to_csv(tmp_path / "a.csv", index=False)
    os.mkfifo(tmp_path / "b.csv")
    assert Bags.from_csv(tmp_path, bag="bag").n_points == 2


def test_pipes_at_a_shell(tmp_path):
    for name in ("p.csv", "p.parquet", "p.bagwise"):
        os.mkfifo(tmp_path / name)
    write(make_rows(), tmp_path / "t.parquet")
    refused(in_process("fit", "p.csv", *FIT, cwd=tmp_path), "p.csv is a pipe", "to a file first")
    done(bagwise("fit", "t.parquet", *FIT, cwd=tmp_path))
    for line in (
        ("fit", "p.parquet", *FIT),
        ("fit", "p.parquet", *FIT, "--stream"),
        ("fit", "t.parquet", "--labels", "p.csv", *FIT),
        ("report", "p.csv", "--bag", "person", "--label", "age"),
        ("predict", "m.bagwise", "p.csv"),
        ("evaluate", "m.bagwise", "p.parquet"),
        ("explain", "m.bagwise", "p.csv", "--id", "p001"),
        ("info", "p.csv"),
        ("info", "p.parquet"),
    ):
        refused(bagwise(*line, cwd=tmp_path), "is a pipe", "plain file")
    refused(bagwise("predict", "p.bagwise", "t.parquet", cwd=tmp_path), "no plain file")
    refused(bagwise("info", "p.bagwise", cwd=tmp_path), "no plain file")
    refused(bagwise("predict", ".", "t.parquet", cwd=tmp_path), "is a folder")


def test_names_that_no_file_can_have(tmp_path):
    for name in ("x" * 300 + ".csv", "zero\0.csv"):
        with pytest.raises(BagwiseError, match="cannot be opened"):
            Bags.from_csv(name, bag="bag")
    (tmp_path / "a.csv").symlink_to("a.csv")
    with pytest.raises(BagwiseError, match="cannot be opened"):
        Bags.from_csv(tmp_path / "a.csv", bag="bag")
    (tmp_path / "t.csv").write_text("bag,x\n1,2\n")
    with pytest.raises(BagwiseError, match="there is no file"):
        Bags.from_csv(tmp_path / "t.csv" / "t.csv", bag="bag")


# ---- permissions --------------------------------------------------------------------------------


@contextlib.contextmanager
def somebody_else():
    """Be a user who is not root, who may read everything."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture(scope="module")
def locked():
    """A folder that others may enter, with files and folders that they may not read."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o777)
    table = make_rows()
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        write(table, folder / name)
        write(table, folder / f"locked-{name}").chmod(0)
    for name, mode in (("no-list", 0o311), ("no-entry", 0o644), ("holds-locked", 0o755)):
        (folder / name).mkdir()
        write(table, folder / name / "t.csv").chmod(0 if name == "holds-locked" else 0o644)
        (folder / name).chmod(mode)
    done(bagwise("fit", "t.csv", *FIT, cwd=folder))
    done(bagwise("fit", "t.parquet", *FIT, "--stream", cwd=folder))
    shutil.copy(folder / "m.bagwise", folder / "locked.bagwise")
    (folder / "locked.bagwise").chmod(0)
    yield folder
    for path in folder.iterdir():
        path.chmod(0o700)
    shutil.rmtree(folder)


def test_what_may_not_be_read_is_said_and_exits_with_1(locked):
    with somebody_else():
        for name in (
            "locked-t.csv",
            "locked-t.csv.gz",
            "locked-t.parquet",
            "no-list",
            "no-entry/t.csv",
            "no-entry/nothing.csv",
            "holds-locked",
        ):
            for line in (
                ("fit", name, *FIT),
                ("fit", "t.csv", "--labels", name, *FIT),
                ("predict", "m.bagwise", name),
                ("info", name),
            ):
                refused(bagwise(*line, cwd=locked), "may not be read by this user", "chmod")
        line = ("fit", "locked-t.parquet", *FIT, "--stream")
        refused(bagwise(*line, cwd=locked), "may not be read by this user")
        for line in (("predict", "locked.bagwise", "t.csv"), ("info", "locked.bagwise")):
            refused(bagwise(*line, cwd=locked), "locked.bagwise")
        assert done(bagwise("info", "t.csv", "--json", cwd=locked))["rows"] == 440


def test_what_may_not_be_read_in_python(locked):
    with somebody_else():
        for name, reader in (("t.csv", Bags.from_csv), ("t.parquet", Bags.from_parquet)):
            with pytest.raises(BagwiseError, match="may not be read by this user"):
                reader(locked / f"locked-{name}", bag="person")
        with pytest.raises(BagwiseError, match="may not be read by this user"):
            Bags.scan_parquet(locked / "locked-t.parquet", bag="person")


# ---- infinite labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_an_infinite_label_at_a_shell(tmp_path, ending):
    table = make_rows().to_pandas()
    table.loc[table.person == "p003", "age"] = np.inf
    table["age2"] = np.where(table.person < "p020", 1.0, -np.inf)
    if ending == "csv":
        table.to_csv(tmp_path / "t.csv", index=False)
    else:
        table.to_parquet(tmp_path / "t.parquet")
    write(make_rows(), tmp_path / "good.csv")
    done(bagwise("fit", "good.csv", *FIT, cwd=tmp_path))
    roles = (f"t.{ending}", "--bag", "person", "--features", "a", "--label")
    expected = ("label column 'age' is inf", "finite number", "--na")
    refused(bagwise("fit", *roles, "age", "--out", "m", cwd=tmp_path), "bag 'p003'", *expected)
    refused(bagwise("report", *roles, "age", cwd=tmp_path), "bag 'p003'", *expected)
    refused(bagwise("evaluate", "m.bagwise", f"t.{ending}", cwd=tmp_path), *expected)
    for task in ("auto", "classes", "numbers"):
        line = ("fit", *roles, "age2", "--out", "m", "--task", task)
        refused(bagwise(*line, cwd=tmp_path), "label column 'age2' is -inf")
    codes = ("--na", "inf", "--missing", "drop", "--json")
    line = ("fit", *roles, "age", "--out", "m", *QUICK, *codes)
    assert done(bagwise(*line, cwd=tmp_path))["bags"] == 39


@pytest.mark.parametrize("batch_rows", [1, 2, 100])
def test_ids_that_differ_by_null_characters_at_their_end_are_two(tmp_path, batch_rows):
    table = pd.DataFrame(
        {"bag": ["a\0", "a", "b", "a"], "x": [1.0, 2.0, 3.0, 4.0], "y": [2, 3, 4, 3]}
    )
    table.to_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_bytes(b"bag,x,y\na\x00,1,2\na,2,3\nb,3,4\na,4,3\n")
    for name, read in READERS.items():
        path = tmp_path / ("t.csv" if name == "csv" else "t.parquet")
        bags, y = read(path, bag="bag", label="y")
        assert (list(bags.ids), list(bags.sizes), list(y)) == (
            ["a\0", "a", "b"],
            [1, 2, 1],
            [2, 3, 4],
        )
    bags, y = Bags.scan_parquet(tmp_path / "t.parquet", bag="bag", label="y", batch_rows=batch_rows)
    assert (list(bags.ids), list(bags.sizes), list(y)) == (["a\0", "a", "b"], [1, 2, 1], [2, 3, 4])
