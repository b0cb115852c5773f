"""The command on real files: from a file to an answer."""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as library
from bagwise.cli.inputs import _setting
from cli_runs import QUICK, QUICK_GP, bagwise, done, in_process, make_rows, refused, write

FIT = ("--bag", "person", "--label", "age", "--features", "a,b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with points as Parquet, and two models fitted to them by the command."""
    folder = tmp_path_factory.mktemp("cli")
    write(make_rows(), folder / "points.parquet")
    write(make_rows(10, seed=1).drop_columns(["age"]), folder / "new.parquet")
    done(in_process("fit", "points.parquet", *FIT, "--out", "age.bagwise", cwd=folder))
    done(bagwise("fit", "points.parquet", *FIT, *QUICK, "--out", "quick.bagwise", cwd=folder))
    return folder


def rows_of(path):
    opened = gzip.open(path, "rt") if path.suffix == ".gz" else path.open()
    with opened as file:
        return list(csv.DictReader(file))


def test_fit_says_what_it_did(folder):
    fit = ("fit", "points.parquet", *FIT, "--out", "x.bagwise")
    assert done(bagwise(*fit, *QUICK_GP, cwd=folder)).startswith(
        "DistributionGPRegressor fitted to 40 bags of 2 to 20 points (440 in all)"
    )
    facts = done(bagwise(*fit, *QUICK, "--json", cwd=folder))
    assert facts["bags"] == 40 and facts["out"] == "x.bagwise" and facts["label_least"] > 1


def test_predictions_are_those_of_the_library(folder):
    done(in_process("predict", "age.bagwise", "new.parquet", "--out", "p.csv", cwd=folder))
    rows = rows_of(folder / "p.csv")
    bags, y = library.Bags.from_parquet(
        folder / "points.parquet", bag="person", features=["a", "b"], label="age"
    )
    new = library.Bags.from_parquet(folder / "new.parquet", bag="person", features=["a", "b"])
    p = library.DistributionGPRegressor().fit(bags, y).predict_dist(new)
    assert [row["person"] for row in rows] == new.ids.tolist()
    for name, expected in {
        "mean": p.mean,
        "sd": p.std,
        "lower": p.interval(0.95)[:, 0],
        "upper": p.interval(0.95)[:, 1],
        "bag_sd": np.sqrt(p.parts.bag),
        "weights_sd": np.sqrt(p.parts.weights),
        "noise_sd": np.sqrt(p.parts.noise),
        "size": new.sizes,
    }.items():
        np.testing.assert_array_equal([float(row[name]) for row in rows], expected)


@pytest.mark.parametrize("name", ["p.csv.gz", "p.tsv", "p.parquet", "p.json"])
def test_the_ending_says_how_predictions_are_written(folder, name):
    done(bagwise("predict", "age.bagwise", "new.parquet", "--out", name, cwd=folder))
    path = folder / name
    if name.endswith(".parquet"):
        rows = pq.read_table(path).to_pylist()
    elif name.endswith(".json"):
        rows = json.loads(path.read_text())
    elif name.endswith(".tsv"):
        rows = [line.split("\t") for line in path.read_text().splitlines()[1:]]
    else:
        rows = rows_of(path)
    assert len(rows) == 10


@pytest.mark.parametrize("name", ["points.csv", "points.csv.gz"])
def test_text_files_give_what_parquet_gives(folder, name, tmp_path):
    write(make_rows(), tmp_path / name)
    done(bagwise("fit", name, *FIT, *QUICK, "--out", "m.bagwise", cwd=tmp_path))
    new = folder / "new.parquet"
    done(bagwise("predict", "m.bagwise", new, "--out", "p.csv", cwd=tmp_path))
    done(bagwise("predict", folder / "quick.bagwise", new, "--out", "q.csv", cwd=tmp_path))
    assert (tmp_path / "p.csv").read_bytes() == (tmp_path / "q.csv").read_bytes()


def test_streaming_gives_what_memory_gives(folder, tmp_path):
    """Of a model that sees bags as they are: in memory a default one may take deviations."""
    fit = ("fit", folder / "points.parquet", *FIT, *QUICK_GP, "--out")
    done(bagwise(*fit, "m", "--stream", cwd=tmp_path))
    done(bagwise(*fit, "kept", cwd=tmp_path))
    predict = ("predict", tmp_path / "m", "new.parquet", "--json")
    streamed = done(bagwise(*predict, "--stream", cwd=folder))
    kept = done(bagwise("predict", tmp_path / "kept", "new.parquet", "--json", cwd=folder))
    assert streamed["columns"]["person"] == kept["columns"]["person"]
    np.testing.assert_allclose(streamed["columns"]["mean"], kept["columns"]["mean"], rtol=1e-7)


def test_evaluate_scores_by_size_with_labels_in_either_file(folder, tmp_path):
    table = make_rows(12, seed=2)
    write(table, tmp_path / "test.parquet")
    labels = table.group_by("person").aggregate([("age", "max")]).rename_columns(["person", "age"])
    write(table.drop_columns(["age"]), tmp_path / "points.parquet")
    write(labels, tmp_path / "labels.csv")
    model = folder / "age.bagwise"
    one = done(bagwise("evaluate", model, "test.parquet", "--json", cwd=tmp_path))
    two = done(
        bagwise(
            "evaluate", model, "points.parquet", "--labels", "labels.csv", "--json", cwd=tmp_path
        )
    )
    assert [row["group"] for row in one["rows"]] == ["all", "2", "20"]
    for a, b in zip(one["rows"], two["rows"], strict=True):
        assert a["nll"] == pytest.approx(b["nll"], rel=1e-9)
    shown = done(bagwise("evaluate", model, "test.parquet", cwd=tmp_path))
    assert "coverage" in shown.splitlines()[0]


def test_explain_adds_up_and_draws(folder):
    run = ("explain", "age.bagwise", "new.parquet", "--id", "p003")
    told = done(bagwise(*run, "--json", cwd=folder))
    assert told["baseline"] + sum(told["points"]) + sum(told["covariates"]) == pytest.approx(
        told["prediction"], abs=1e-9
    )
    text = done(bagwise(*run, "--picture", "why.png", cwd=folder))
    assert "push" in text and (folder / "why.png").stat().st_size > 5000
    refused(bagwise(*run[:-1], "p999", cwd=folder), "no bag 'p999'", "an id such as")


def test_info_of_a_model_of_a_table_and_of_the_program(folder):
    header = done(bagwise("info", "age.bagwise", "--json", cwd=folder))
    assert "DistributionGPRegressor" in json.dumps(header) and "person" in json.dumps(header)
    assert "DistributionGPRegressor" in done(bagwise("info", "age.bagwise", cwd=folder))
    table = done(bagwise("info", "points.parquet", "--json", cwd=folder))
    assert table["rows"] == 440 and table["columns"]["a"] == "double"
    assert "numpy" in done(bagwise("info", cwd=folder))


def test_classes_composite_ids_categories_and_missing_values(tmp_path):
    table = make_rows(40, seed=3)
    wide = ["wide" if age > 1.5 else "narrow" for age in table["age"].to_pylist()]
    number = [int(person[1:]) for person in table["person"].to_pylist()]
    a = table["a"].to_pylist()
    a[0] = None
    table = table.append_column("wide", pa.array(wide)).append_column("n", pa.array(number))
    table = table.set_column(table.column_names.index("a"), "a", pa.array(a))
    write(table, tmp_path / "t.parquet")
    roles = ("--bag", "person", "--bag", "n", "--label", "wide", "--features", "a", "--features")
    fit = ("fit", "t.parquet", *roles, "site", "--one-hot", "site", *QUICK, "--out", "m.bagwise")
    refused(bagwise(*fit, cwd=tmp_path), "'a' is missing", "drop")
    result = bagwise(*fit, "--missing", "drop", "--json", cwd=tmp_path)
    assert done(result)["classes"].keys() == {"narrow", "wide"}
    assert "1" in result.stderr and "note" in result.stderr
    done(bagwise("predict", "m.bagwise", "t.parquet", "--out", "p.csv", cwd=tmp_path))
    first = rows_of(tmp_path / "p.csv")[0]
    assert {"person", "n", "predicted", "probability", "bag_sd"} <= first.keys()


def test_two_numbers_are_classes_unless_told_otherwise(tmp_path):
    table = make_rows(30, seed=4)
    flag = pa.array([int(age > 1.5) for age in table["age"].to_pylist()])
    write(table.append_column("flag", flag), tmp_path / "t.parquet")
    fit = ("fit", "t.parquet", "--bag", "person", "--label", "flag", "--features", "a", *QUICK_GP)
    fit = (*fit, "--out", "m")
    result = bagwise(*fit, "--json", cwd=tmp_path)
    assert done(result)["model"] == "DistributionGPClassifier"
    assert "taken as classes" in result.stderr
    assert done(bagwise(*fit, "--json", "--task", "numbers", cwd=tmp_path))["model"] == (
        "DistributionGPRegressor"
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("support=(0, inf)", (0, np.inf)),
        ("support=(-inf,1)", (-np.inf, 1)),
        ("bandwidth=inf", np.inf),
        ("inference=nuts", "nuts"),
        ("likelihood=poisson(inf)", "poisson(inf)"),
        ("names=('inf', 'info')", ("inf", "info")),
        ("center=False", False),
    ],
)
def test_values_of_settings(text, value):
    assert _setting(text)[1] == value


def test_settings_of_a_model_and_of_its_sampler(folder):
    fit = ("fit", "points.parquet", *FIT, "--out", "b.bagwise", "--model", "bdr", "--json")
    done(bagwise(*fit, "--set", "inference=laplace", "--set", "n_landmarks=10", cwd=folder))
    header = json.dumps(done(bagwise("info", "b.bagwise", "--json", cwd=folder)))
    assert "laplace" in header
    refused(bagwise(*fit, "--set", "landmarks_n=3", cwd=folder), "'landmarks_n'", "n_landmarks")
    refused(bagwise(*fit, "--set", "n_landmarks", cwd=folder), "parameter=value")


def test_the_seed_decides_everything(folder):
    fit = ("fit", "points.parquet", *FIT, *QUICK_GP, "--out")
    for name, seed in {"s1": 1, "s2": 1, "s3": 2}.items():
        done(bagwise(*fit, f"{name}.bagwise", "--seed", seed, cwd=folder))
    told = [
        done(bagwise("predict", f"{name}.bagwise", "new.parquet", "--json", cwd=folder))
        for name in ("s1", "s2", "s3")
    ]
    assert told[0] == told[1] != told[2]


@pytest.mark.usefixtures("undrawn")
def test_report_writes_a_page_for_numbers_and_for_classes(tmp_path):
    table = make_rows(24, seed=5)
    flag = pa.array([int(age > 1.5) for age in table["age"].to_pylist()])
    write(table.append_column("flag", flag), tmp_path / "t.parquet")
    run = ("report", "t.parquet", "--bag", "person", "--features", "a", "--folds", "2", "--label")
    told = done(bagwise(*run, "age", "--model", "blr", "--json", cwd=tmp_path))
    assert told == {"out": "report.html", "bags": 24}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "age by person" in page and "blr" in page and "RMSE" in page
    assert "<li><strong>flag</strong>: not named on the line</li>" in page
    assert "is from a sample" not in page
    done(bagwise(*run, "age", "--model", "blr", "--stream", "--out", "s.html", cwd=tmp_path))
    assert "is from a sample" in (tmp_path / "s.html").read_text(encoding="utf-8")
    done(bagwise(*run, "flag", "--model", "blr", "--out", "c.html", cwd=tmp_path))
    assert "log loss" in (tmp_path / "c.html").read_text(encoding="utf-8").lower()
    done(bagwise(*run, "flag", "--task", "numbers", "--model", "rbf", cwd=tmp_path))
    assert "RMSE" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_model_saved_from_python_is_told_which_column_is_the_bag(folder, tmp_path):
    path = folder / "points.parquet"
    bags, y = library.Bags.from_parquet(path, bag="person", features=["a", "b"], label="age")
    embedding = library.KernelEmbedding(6, bandwidth=1.0)
    model = library.ShrinkageRegressor(embedding.set_params(random_state=0)).fit(bags, y)
    library.save(model, tmp_path / "m.bagwise")
    run = ("predict", tmp_path / "m.bagwise", folder / "new.parquet", "--json")
    refused(bagwise(*run, cwd=tmp_path), "saved from Python", "Add --bag COLUMN")
    told = done(bagwise(*run, "--bag", "person", cwd=tmp_path))
    kept = done(bagwise("predict", "quick.bagwise", "new.parquet", "--json", cwd=folder))
    assert told == kept
    score = ("evaluate", tmp_path / "m.bagwise", path, "--bag", "person", "--json")
    refused(bagwise(*score, cwd=tmp_path), "no label column", "--label")
    assert done(bagwise(*score, "--label", "age", cwd=tmp_path))["rows"][0]["bags"] == 40
