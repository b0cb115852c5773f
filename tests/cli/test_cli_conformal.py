"""``bagwise fit --conformal``: calibrated models from the command line."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import bagwise as library
from bagwise import Bags, BagwiseWarning, Conformal, KernelEmbedding, ShrinkageRegressor
from bagwise.cli.inputs import of_conformal
from cli_runs import bagwise, done, refused

QUICK = ("--model", "shrinkage", "--set", "n_landmarks=6", "--set", "bandwidth=1.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("conformal")
    rng = np.random.default_rng(0)
    y, sizes = rng.uniform(1, 2, 60), rng.choice([3, 20], 60)
    rows = np.repeat(np.arange(60), sizes)
    frame = pd.DataFrame({"bag": rows, "x": rng.normal(0, y[rows]), "y": y[rows]})
    frame["c"] = np.where(frame["y"] > 1.5, "high", "low")
    frame.to_parquet(place / "t.parquet")
    return place


def fit(folder, label, *more):
    columns = ("--bag", "bag", "--label", label, "--features", "x", "--out", "m.bagwise", "--force")
    return bagwise("fit", "t.parquet", *columns, *QUICK, "--conformal", *more, cwd=folder)


def test_a_calibrated_model_is_that_of_python(folder):
    told = done(fit(folder, "y", "--set", "cv=3"))
    assert "ShrinkageRegressor fitted to 60 bags" in told
    assert "calibrated (cv+); share of bags that 90 % intervals" in told
    done(
        bagwise(
            "predict",
            "m.bagwise",
            "t.parquet",
            "--out",
            "p.csv",
            "--level",
            "0.8",
            "--force",
            cwd=folder,
        )
    )
    found = pd.read_csv(folder / "p.csv")
    bags, y = Bags.from_parquet(folder / "t.parquet", bag="bag", features=["x"], label="y")
    model = ShrinkageRegressor(KernelEmbedding(6, bandwidth=1.0, random_state=0))
    expected = Conformal(model, cv=3).fit(bags, y).predict_dist(bags)
    assert_allclose(found[["lower", "upper"]], expected.interval(0.8))
    scores = done(bagwise("evaluate", "m.bagwise", "t.parquet", "--level", "0.8", cwd=folder))
    assert "coverage: share of labels inside their 80 % interval" in scores
    assert done(bagwise("info", "m.bagwise", "--json", cwd=folder))["estimator"] == "Conformal"
    assert "predicted label of bag 7" in done(
        bagwise("explain", "m.bagwise", "t.parquet", "--id", "7", cwd=folder)
    )


def test_settings_of_the_calibration(folder):
    settings = ("--set", "method=split", "--set", "by_size=(1,10)")
    told = done(fit(folder, "y", *settings, "--json"))
    assert told["model"] == "ShrinkageRegressor" and told["conformal"]["method"] == "split"
    assert [row["group"] for row in told["conformal"]["rows"]] == ["all", "3", "20"]
    model = library.load(folder / "m.bagwise")
    assert (model.method, model.by_size, model.model.embedding.n_landmarks) == ("split", (1, 10), 6)
    assert of_conformal(["symmetric=False", "n_landmarks=3"]) == (
        {"symmetric": False},
        ["n_landmarks=3"],
    )


def test_sets_of_classes(folder):
    done(fit(folder, "c", "--set", "cv=3"))
    done(
        bagwise(
            "predict",
            "m.bagwise",
            "t.parquet",
            "--out",
            "c.csv",
            "--level",
            "0.9",
            "--force",
            cwd=folder,
        )
    )
    found = pd.read_csv(folder / "c.csv", keep_default_na=False)
    assert set(found["set"]) <= {"", "high", "low", "high|low"}
    told = done(bagwise("evaluate", "m.bagwise", "t.parquet", "--level", "0.9", cwd=folder))
    assert "share of labels in their 90 % set; set_size: of classes" in told


@pytest.mark.long
def test_tuned_and_then_calibrated(folder):
    told = fit(folder, "y", "--set", "cv=3", "--tune")
    assert "chosen by cross-validation" in told.stderr and "calibrated (cv+)" in done(told)


def test_too_few_bags_are_said_and_infinite_ends_written(folder):
    done(fit(folder, "y", "--set", "method=split"))
    told = bagwise("predict", "m.bagwise", "t.parquet", "--out", "i.csv", "--force", cwd=folder)
    assert "60 of 60 intervals at level 0.95 are infinite" in told.stderr
    assert np.isinf(pd.read_csv(folder / "i.csv")["lower"]).all()
    with pytest.warns(BagwiseWarning, match="19 are the least"):
        library.load(folder / "m.bagwise").predict_dist(
            Bags.from_parquet(folder / "t.parquet", bag="bag", features=["x"])
        ).interval()


def test_mistakes_are_told(folder):
    assert "add --conformal" in refused(
        bagwise(
            "fit",
            "t.parquet",
            "--bag",
            "bag",
            "--label",
            "y",
            "--features",
            "x",
            "--out",
            "q",
            *QUICK,
            "--set",
            "method=split",
            cwd=folder,
        )
    )
    assert "by_size" in refused(fit(folder, "y", "--set", "no_such=1"))
    assert "method is 'loo'" in refused(fit(folder, "y", "--set", "method=loo"))


def test_files_that_stay_on_disk_are_calibrated_as_in_memory(folder):
    streamed, kept = (fit(folder, "y", *more) for more in (("--stream",), ("--in-memory",)))
    assert streamed.returncode == kept.returncode == 0
    assert streamed.stdout.splitlines()[1:] == kept.stdout.splitlines()[1:]  # but for the seconds
