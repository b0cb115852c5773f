"""``bagwise fit --groups``: bags that err together, from the command line."""

import numpy as np
import pandas as pd
import pytest

from bagwise import load
from cli_runs import QUICK_GP, bagwise, done, refused

QUICK = (*QUICK_GP, "--set", "center=False")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("groups")
    rng = np.random.default_rng(0)
    n, year = 60, np.repeat(np.arange(2001, 2013), 5)
    y = rng.normal(size=n) + rng.normal(size=12)[year - 2001]
    rows = np.repeat(np.arange(n), rng.choice([3, 20], n))
    frame = pd.DataFrame({"bag": rows, "x": rng.normal(y[rows], 1), "y": y[rows]})
    frame["year"], frame["clinic"] = year[rows], np.array([f"c{k}" for k in year])[rows]
    frame.to_csv(place / "t.csv", index=False)
    return place


def fit(folder, *more):
    columns = ("--bag", "bag", "--label", "y", "--out", "m.bagwise", "--force")
    return bagwise("fit", "t.csv", *columns, *more, cwd=folder)


@pytest.mark.parametrize("column", ["year", "clinic"])
def test_groups_by_a_column(folder, column):
    done(fit(folder, "--features", "x", "--groups", column, *QUICK))
    model = load(folder / "m.bagwise")
    assert len(model.groups_) == 12 and model.head_.scales.group > 0
    done(bagwise("predict", "m.bagwise", "t.csv", "--out", "p.csv", "--force", cwd=folder))
    assert len(pd.read_csv(folder / "p.csv")) == 60


def test_the_column_of_groups_is_no_feature(folder):
    """A year is a number, and would be one; what is to be ignored is not spoken of."""
    done(fit(folder, "--groups", "year", "--one-hot", "clinic", *QUICK))
    model = load(folder / "m.bagwise")
    assert len(model.groups_) == 12 and "year" not in model.feature_names_in_
    assert len(model.feature_names_in_) == 13
    ended = fit(folder, "--groups", "year", "--ignore", "clinic", *QUICK)
    done(ended)
    assert load(folder / "m.bagwise").feature_names_in_.tolist() == ["x"]
    assert "clinic" not in ended.stderr


def test_notes_name_options_of_the_command(folder):
    told = fit(folder, "--ignore", "year", *QUICK).stderr
    assert "'clinic'" in told and "encode categories with --one-hot" in told
    assert "features=" not in told


def test_what_groups_do_not_go_with(folder):
    told = refused(fit(folder, "--features", "x", "--groups", "year", "--sums", "s.sums"), code=2)
    assert "--sums with --groups" in told
    told = refused(fit(folder, "--features", "x", "--groups", "year", "--model", "shrinkage"))
    assert "groups of bags with a ShrinkageRegressor" in told
