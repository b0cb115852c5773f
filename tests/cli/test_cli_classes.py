"""The command on labels of more than two classes."""

import csv

import numpy as np
import pyarrow as pa
import pytest

from bagwise import KernelEmbedding, ShrinkageClassifier
from cli_runs import bagwise, done, make_rows, refused, write

FIT = ("fit", "t.csv", "--bag", "person", "--label", "width", "--features", "a")
SMALL = ("--model", "shrinkage", "--set", "n_landmarks=5", "--set", "bandwidth=1.0")
WORDS = np.array(["narrow", "some", "wide"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of three classes as text, and a model of them."""
    path = tmp_path_factory.mktemp("classes")
    rows = make_rows(45)
    age = rows["age"].to_numpy()
    code = np.digitize(age, [1.33, 1.67])
    rows = rows.append_column("width", pa.array(WORDS[code])).append_column("code", pa.array(code))
    write(rows, path / "t.csv")
    done(bagwise(*FIT, *SMALL, "--set", "weight_var=10.0", "--out", "m.bagwise", cwd=path))
    return path


def test_predictions_have_a_column_for_each_class(folder):
    done(bagwise("predict", "m.bagwise", "t.csv", "--out", "p.csv", cwd=folder))
    with (folder / "p.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 45 and {row["predicted"] for row in rows} <= set(WORDS)
    p = np.array([[float(row[f"probability_{word}"]) for word in WORDS] for row in rows])
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert [row["predicted"] for row in rows] == WORDS[p.argmax(axis=1)].tolist()
    told = done(bagwise("predict", "m.bagwise", "t.csv", cwd=folder))
    assert "probability_narrow" in told


def test_scores(folder):
    told = done(bagwise("evaluate", "m.bagwise", "t.csv", "--json", cwd=folder))
    scores = told["rows"][0]
    assert scores["bags"] == 45 and scores["accuracy"] > 0.5
    assert scores["log_loss"] < np.log(3)


def test_the_predicted_class_is_explained_or_the_one_asked_for(folder):
    line = ("explain", "m.bagwise", "t.csv", "--id", "p001", "--json")
    assert done(bagwise(*line, cwd=folder))["target"].startswith("latent value for class")
    told = done(bagwise(*line, "--class", "some", cwd=folder))
    assert told["target"] == "latent value for class 'some'"
    total = told["baseline"] + sum(told["columns"].values()) + told["reference"]
    assert told["prediction"] == pytest.approx(total)
    refused(bagwise(*line, "--class", "huge", cwd=folder), "'huge'", "narrow, some, wide")


def test_what_is_saved_says_which_classes(folder):
    assert "narrow" in done(bagwise("info", "m.bagwise", cwd=folder))


def test_whole_numbers_are_classes_if_so_said(folder):
    line = ("fit", "t.csv", "--bag", "person", "--label", "code", "--features", "a", *SMALL)
    line += ("--task", "classes", "--set", "weight_var=10.0", "--out", "codes.bagwise")
    done(bagwise(*line, cwd=folder))
    told = done(bagwise("evaluate", "codes.bagwise", "t.csv", "--json", cwd=folder))
    assert told["rows"][0]["accuracy"] > 0.5
    line = ("explain", "codes.bagwise", "t.csv", "--id", "p001", "--class", "2")
    assert "class 2" in done(bagwise(*line, cwd=folder))


def test_a_page(folder, monkeypatch):
    quick = ShrinkageClassifier(KernelEmbedding(5, bandwidth=1.0), weight_var=10.0)
    monkeypatch.setattr("bagwise.cli.report.estimator", lambda *_, classes, **__: quick)
    line = ("report", *FIT[1:], "--model", "shrinkage", "--folds", "2", "--out", "r.html")
    done(bagwise(*line, cwd=folder))
    assert "of class narrow" in (folder / "r.html").read_text()


def test_classes_are_not_for_models_of_numbers(folder):
    refused(bagwise("explain", "m.bagwise", "t.csv", "--id", "nobody", cwd=folder), "no bag")
    write(make_rows(20), folder / "n.csv")
    line = ("fit", "n.csv", "--bag", "person", "--label", "age", "--features", "a", *SMALL)
    done(bagwise(*line, "--set", "weight_var=1.0", "--out", "n.bagwise", cwd=folder))
    line = ("explain", "n.bagwise", "n.csv", "--id", "p001", "--class", "a")
    refused(bagwise(*line, cwd=folder), "--class is 'a'", "labels are numbers", "Leave --class out")
