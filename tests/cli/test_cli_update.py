"""``bagwise update``: points that keep coming, and processes that are killed."""

import os
import random
import subprocess
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bagwise as library
from bagwise._utils.atomic import locked
from bagwise.cli import update
from bagwise.exceptions import SavedModelError
from cli_runs import bagwise, command_line, done, make_rows, refused, write

FIT = ("fit", "t.parquet", "--bag", "person", "--label", "age", "--features", "a,b")
FIT += ("--out", "m.bagwise", "--sums", "s.bagwise", "--set", "n_landmarks=8")
UPDATE = ("update", "m.bagwise", "s.bagwise")


def cut(rows, n):
    """Cut a table into parts of about the same number of rows."""
    ends = np.linspace(0, len(rows), n + 1).astype(int)
    return [rows.slice(a, b - a) for a, b in pairwise(ends)]


@pytest.fixture
def folder(tmp_path):
    """A model of half of the rows, its sums, and the rest of the rows in five files."""
    rows = make_rows(60)
    half = len(rows) // 2
    write(rows.slice(0, half), tmp_path / "t.parquet")
    for i, part in enumerate(cut(rows.slice(half), 5)):
        write(part, tmp_path / f"{i}.parquet")
    write(rows, tmp_path / "all.parquet")
    done(bagwise(*FIT, "--model", "shrinkage", cwd=tmp_path))
    return tmp_path


def means(folder, what):
    told = done(bagwise("predict", "m.bagwise", what, "--json", cwd=folder))
    return dict(zip(told["columns"]["person"], told["columns"]["mean"], strict=True))


def test_points_come_in_files_and_predictions_follow(folder):
    for i in range(5):
        told = done(bagwise(*UPDATE, f"{i}.parquet", "--json", cwd=folder))
        assert told["added"] and told["refitted"]
    assert (told["bags"], told["labels"], told["batches"]) == (60, 60, 6)
    known, expected = means(folder, "s.bagwise"), means(folder, "all.parquet")
    assert known.keys() == expected.keys()
    assert_allclose([known[k] for k in expected], list(expected.values()), rtol=1e-10)

    # the model is that of all points with the features of the first fit
    model = library.load(folder / "m.bagwise")
    bags, y = library.Bags.from_parquet(
        folder / "all.parquet", bag="person", label="age", features=["a", "b"]
    )
    at_once = library.load(folder / "m.bagwise")
    at_once.partial_fit(at_once.sums(bags, y))
    assert_allclose(model.predict(bags), at_once.predict(bags), rtol=1e-10)


def test_fit_says_where_sums_are_and_how_they_go_on(folder):
    told = bagwise(*FIT, "--model", "blr", "--force", cwd=folder)
    assert "bagwise update m.bagwise s.bagwise NEW_POINTS" in told.stdout
    told = done(bagwise(*FIT, "--model", "blr", "--json", "--force", cwd=folder))
    assert told["sums"] == "s.bagwise"


def test_a_file_that_comes_again_is_noticed(folder):
    done(bagwise(*UPDATE, "0.parquet", cwd=folder))
    before = (folder / "s.bagwise").read_bytes(), (folder / "m.bagwise").read_bytes()
    (folder / "0.parquet").rename(folder / "other name.parquet")
    for name in ("other name.parquet", "t.parquet"):  # the training file is known too
        again = bagwise(*UPDATE, name, "--json", cwd=folder)
        assert done(again)["added"] is False
        assert "was added to s.bagwise before; nothing is added" in again.stderr
    assert ((folder / "s.bagwise").read_bytes(), (folder / "m.bagwise").read_bytes()) == before
    done(bagwise(*UPDATE, "1.parquet", "--batch", "monday", cwd=folder))
    again = bagwise(*UPDATE, "1.parquet", "--batch", "monday", "--json", cwd=folder)
    assert done(again)["added"] is False and "was added before" in again.stderr


def test_new_bags_without_labels_and_labels_in_a_second_file(folder):
    rows = make_rows(6, seed=5)
    names = [f"new {name}" for name in rows["person"].to_pylist()]
    rows = rows.set_column(0, "person", [names])
    write(rows.drop_columns(["age"]), folder / "new.parquet")
    told = done(bagwise(*UPDATE, "new.parquet", "--json", cwd=folder))
    assert told["bags"] - told["labels"] == 6
    assert len(means(folder, "s.bagwise")) == told["bags"]
    labels = rows.select(["person", "age"]).group_by("person").aggregate([("age", "max")])
    write(labels.rename_columns(["person", "age"]), folder / "labels.csv")
    write(rows.slice(0, 30).drop_columns(["age"]), folder / "more.parquet")
    result = bagwise(*UPDATE, "more.parquet", "--labels", "labels.csv", "--json", cwd=folder)
    assert done(result)["labels"] > told["labels"]


def test_no_refit_leaves_the_model_behind_and_the_next_update_sees_it(folder):
    before = (folder / "m.bagwise").read_bytes()
    told = done(bagwise(*UPDATE, "0.parquet", "--no-refit", "--json", cwd=folder))
    assert told["added"] and not told["refitted"]
    assert (folder / "m.bagwise").read_bytes() == before
    told = done(bagwise(*UPDATE, "0.parquet", "--json", cwd=folder))
    assert not told["added"] and told["refitted"]


def test_what_is_wrong_changes_no_file(folder):
    before = (folder / "s.bagwise").read_bytes(), (folder / "m.bagwise").read_bytes()
    rows = make_rows(60)
    wrong = rows.set_column(rows.column_names.index("age"), "age", [np.zeros(len(rows))])
    write(wrong, folder / "wrong.parquet")
    refused(bagwise(*UPDATE, "wrong.parquet", cwd=folder), "has the label", "now is given")
    line = ("update", "s.bagwise", "m.bagwise", "0.parquet")
    refused(bagwise(*line, cwd=folder), "holds sums of bags", "expected a model")
    refused(bagwise("update", "m.bagwise", "no", "0.parquet", cwd=folder), "no file no")
    with locked(folder / "s.bagwise"):
        sentence = "is being changed by another process"
        refused(bagwise(*UPDATE, "0.parquet", cwd=folder), sentence)
    assert ((folder / "s.bagwise").read_bytes(), (folder / "m.bagwise").read_bytes()) == before
    told = done(bagwise("info", "s.bagwise", "--json", cwd=folder))
    assert (told["batches"], told["refit"]) == (1, True)


def test_models_that_need_their_points_are_refused_before_the_fit(tmp_path):
    write(make_rows(20), tmp_path / "t.parquet")
    refused(bagwise(*FIT, "--model", "kernel-ridge", cwd=tmp_path), "--set exact=False")
    result = bagwise(*FIT, cwd=tmp_path)
    done(result)
    assert "bags are not centred" in result.stderr
    assert done(bagwise(*UPDATE, "t.parquet", "--json", cwd=tmp_path))["added"] is False


@pytest.mark.long
def test_killed_at_any_moment_nothing_is_lost_or_counted_twice(folder):
    """Each batch is sent until a run of it ends well; kill -9 comes at random moments."""
    rng, kills = random.Random(0), 0
    own = os.environ | {"PYTHONPATH": str(Path(library.__file__).parents[1])}
    options = {"cwd": folder, "env": own, "stderr": subprocess.DEVNULL}
    options["stdout"] = subprocess.DEVNULL
    usual = 10.0
    for i in range(5):
        for attempt in range(2):
            start = time.perf_counter()
            process = subprocess.Popen(command_line(*UPDATE, f"{i}.parquet"), **options)
            delay = 0.1 if i == 0 else usual * rng.uniform(0.4, 1.0)  # the first one surely dies
            try:
                process.wait(delay if attempt == 0 else 120)
                usual = min(usual, time.perf_counter() - start)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                kills += 1
            for name in ("m.bagwise", "s.bagwise"):
                library.load(folder / name)  # whole, whenever it was
        assert process.returncode == 0
    assert kills
    check_all_there(folder)


@pytest.mark.parametrize("step", [0, 1, 2])
def test_killed_before_between_and_after_the_two_files(folder, monkeypatch, step):
    replace, done_steps = update._replace, []

    def killed(path, data):
        if len(done_steps) == step:
            raise KeyboardInterrupt
        done_steps.append(path)
        replace(path, data)

    for i in range(5):
        with monkeypatch.context() as patch:
            patch.setattr(update, "_replace", killed)
            done_steps.clear()
            result = bagwise(*UPDATE, f"{i}.parquet", cwd=folder)
            assert result.returncode == (0 if step == 2 else 130)
        told = done(bagwise(*UPDATE, f"{i}.parquet", "--json", cwd=folder))
        assert (told["added"], told["refitted"]) == (step == 0, step < 2)
    check_all_there(folder)


def check_all_there(folder):
    """Sums and model are those of all rows, with the features of the first fit."""
    sums = library.load(folder / "s.bagwise")
    bags, y = library.Bags.from_parquet(
        folder / "all.parquet", bag="person", label="age", features=["a", "b"]
    )
    assert sums.n_points == bags.n_points
    model = library.load(folder / "m.bagwise")
    at_once = model.sums(bags, y)
    order = sums.places(bags.ids)
    assert_allclose(sums.sums[order], at_once.sums, rtol=1e-12)
    assert_allclose(sums.scatter[order], at_once.scatter, rtol=1e-9, atol=1e-12)
    expected = library.load(folder / "m.bagwise").partial_fit(at_once)
    assert_allclose(model.predict(bags), expected.predict(bags), rtol=1e-10)


def test_sums_are_no_model_and_a_model_is_no_sums(folder):
    with pytest.raises(SavedModelError, match="no saved model"):
        library.save(library.load(folder / "m.bagwise"), folder / "s.bagwise")
    with pytest.raises(SavedModelError, match="no saved sums"):
        library.save(library.load(folder / "s.bagwise"), folder / "m.bagwise")
