"""Missing values of a table: an error, rows left out, or medians in their place."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from bagwise.bags.bags import Bags
from bagwise.bags.tables.reader import read_bags
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
BAG = ["clinic", "patient"]


@pytest.fixture(params=LIBRARIES)
def convert(request):
    return LIBRARIES[request.param]


def gappy(seed=0, n_rows=120):
    """Points of 20 bags, a tenth of the values missing."""
    rng = np.random.default_rng(seed)
    clinic, patient = rng.integers(0, 4, n_rows), rng.integers(0, 5, n_rows)
    table = pd.DataFrame(
        {
            "clinic": clinic,
            "patient": [f"p{k}" for k in patient],
            "x": rng.normal(size=n_rows),
            "z": rng.integers(-9, 9, n_rows).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "y": clinic - patient / 3,
        }
    )
    for name in ("x", "z", "colour"):
        table[name] = table[name].mask(rng.random(n_rows) < 0.1)
    return table


def test_impute_equals_fillna_with_the_median(convert):
    table = gappy()
    with pytest.warns(BagwiseWarning) as warned:
        bags = Bags.from_frame(convert(table), bag=BAG, features=["x", "z"], missing="impute")
    filled = table.fillna({name: table[name].median() for name in ("x", "z")})
    assert_array_equal(bags.points, Bags.from_frame(filled, bag=BAG, features=["x", "z"]).points)
    counts = table[["x", "z"]].isna().sum()
    assert str(warned[0].message) == (
        f"Filled in {counts.sum()} missing values by the median of their column "
        f"({counts['x']} in column 'x', {counts['z']} in column 'z')."
    )
    schema = read_bags(table, bag=BAG, features=["x", "z"], missing="impute").schema
    assert schema.fill == {name: table[name].median() for name in ("x", "z")}
    later = pd.DataFrame({"clinic": [0], "patient": ["p"], "x": [np.nan], "z": [1.0]})
    assert read_bags(convert(later), schema=schema).bags.points[0, 0] == schema.fill["x"]


@pytest.mark.parametrize("n_rows", [39, 40])  # one value in the middle, or two
@pytest.mark.parametrize("place", ["features", "covariates"])
def test_medians_of_the_largest_numbers_are_refused_without_a_raw_warning(n_rows, place):
    table = pd.DataFrame({"bag": np.arange(n_rows) // 8, "x": 1.0, "z": 1e308})
    table.loc[3, "z"] = np.nan
    roles = {"features": ["x", "z"]} if place == "features" else {"covariates": ["z"]}
    with pytest.raises(BagwiseError, match=r"column 'z' is 1e\+308; expected a finite number"):
        Bags.from_frame(table, bag="bag", missing="impute", **roles)


def test_drop_equals_dropna(convert):
    table = gappy()
    table.loc[table["clinic"] == 3, "z"] = np.nan
    roles = {"bag": BAG, "features": ["x", "z", "colour"], "one_hot": "colour", "label": "y"}
    complete = table.dropna()
    lost = {*map(tuple, table[BAG].to_numpy())} - {*map(tuple, complete[BAG].to_numpy())}
    text = f"Left out {len(lost)} bags with a missing value in every row"
    with pytest.warns(BagwiseWarning, match=text):
        bags, y = Bags.from_frame(convert(table), **roles, missing="drop")
    oracle, y_oracle = Bags.from_frame(complete, **roles)
    assert_array_equal(bags.points, oracle.points, strict=True)
    assert bags.ids.tolist() == oracle.ids.tolist()
    assert_array_equal(y, y_oracle, strict=True)
    report = read_bags(convert(table), **roles, missing="drop").report
    assert report.gaps == {name: n for name, n in table.isna().sum().items() if n}
    assert (report.n_rows, report.n_dropped_rows) == (120, 120 - len(complete))
    assert set(report.dropped_bags) == lost


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_bags_without_a_label_are_left_out(convert, missing):
    table = gappy().dropna(ignore_index=True)
    table["y"] = table["y"].mask(table["clinic"] == 1)
    n_rows = int((table["clinic"] == 1).sum())
    counts = (
        rf"Left out {n_rows} of {len(table)} rows for missing values \({n_rows} in column 'y'\)"
    )
    text = rf"{counts}. Left out 5 bags"
    with pytest.warns(BagwiseWarning, match=text):
        bags, y = Bags.from_frame(convert(table), bag=BAG, features="x", label="y", missing=missing)
    assert len(y) == bags.n_bags == 15
    with pytest.raises(InvalidLabelsError, match=rf"is missing \({n_rows} rows of 5 bags: \(1, 'p"):
        Bags.from_frame(convert(table), bag=BAG, features="x", label="y")


def test_missing_ids_weights_and_categories(convert):
    table = pd.DataFrame({"bag": ["a", None, "b", "b"], "x": [1.0, 2, 3, 4], "w": [1, 1, None, 3]})
    table["c"] = ["u", "v", "u", None]
    with pytest.warns(BagwiseWarning, match="1 in column 'bag', 1 in column 'w'"):
        bags = Bags.from_frame(convert(table), bag="bag", weights="w", features="x", missing="drop")
    assert (bags.ids.tolist(), bags.weights.tolist()) == (["a", "b"], [1, 3])
    with pytest.raises(InvalidBagsError, match="row 1 of the data frame has no bag"):
        Bags.from_frame(convert(table), bag="bag", features="x", missing="impute")
    whole = convert(table.iloc[[0, 2, 3]])
    with pytest.warns(BagwiseWarning, match="1 in column 'w'"):
        bags = Bags.from_frame(whole, bag="bag", weights="w", features="x", missing="impute")
    assert bags.weights.tolist() == [1, 2, 3]
    with pytest.raises(
        InvalidBagsError, match=r"bag 'b', row 1, column 'c' is missing, and it has c"
    ):
        Bags.from_frame(whole, bag="bag", features="c", one_hot="c", missing="impute")


def test_no_row_has_a_bag(convert):
    table = convert(pd.DataFrame({"bag": pd.Series([None, None], dtype=object), "x": [1.0, 2.0]}))
    labels = convert(pd.DataFrame({"bag": ["a"], "y": [1.0]}))
    text = "every one of 2 rows has a missing value .2 in column 'bag'"
    for options in ({}, {"labels": labels, "label": "y"}):
        with pytest.raises(InvalidBagsError, match=text):
            Bags.from_frame(table, bag="bag", features="x", missing="drop", **options)


def test_nothing_is_left_and_other_errors(convert):
    table = convert(pd.DataFrame({"bag": [1, 2], "x": [1.0, np.nan], "z": [np.nan, 2.0]}))
    text = r"every one of 2 rows has a missing value \(1 in column 'x', 1 in column 'z'\)"
    with pytest.raises(InvalidBagsError, match=text):
        Bags.from_frame(table, bag="bag", missing="drop")
    with pytest.raises(BagwiseError, match="missing = 'skip'; expected one of 'error', 'drop'"):
        Bags.from_frame(table, bag="bag", missing="skip")
    with pytest.raises(BagwiseError, match="no bag column is named"):
        Bags.from_frame(table, bag=[])
    infinite = convert(pd.DataFrame({"bag": [1, 2, 2], "x": [np.nan, 1, np.inf]}))
    for missing in ("drop", "impute"):
        with pytest.raises(InvalidBagsError, match="bag 2, row 1, column 'x' is inf"):
            Bags.from_frame(infinite, bag="bag", missing=missing)
    schema = read_bags(pd.DataFrame({"bag": [1], "x": [1.0]}), bag="bag").schema
    with pytest.raises(
        InvalidBagsError, match=r"bag 1, row 0, column 'x' is missing.*missing=\"dr"
    ):
        read_bags(infinite, schema=schema)


def test_batches_equal_the_whole_and_name_rows_of_the_table():
    table = pa.Table.from_pandas(gappy())
    schema = read_bags(table, bag=BAG, one_hot="colour", missing="drop", label="y").schema
    whole = schema.arrays(table)
    parts = [schema.arrays(batch, first_row=0) for batch in table.to_batches(max_chunksize=50)]
    assert len(parts) == 3
    for name in ("points", "labels"):
        together = np.concatenate([getattr(part, name) for part in parts])
        assert_array_equal(together, getattr(whole, name), strict=True)
    for name in ("ids", "left_out"):
        for column, clinic_or_patient in enumerate(getattr(whole, name)):
            together = np.concatenate([getattr(part, name)[column] for part in parts])
            assert_array_equal(together, clinic_or_patient, strict=True)
    assert len(whole.points) + len(whole.left_out[0]) == len(table)
    bad = pa.table({"bag": [4, 5], "x": [1.0, None]})
    with pytest.raises(
        InvalidBagsError, match="bag 5, row 1001 of the table, column 'x' is missing"
    ):
        Schema(("bag",), ("x",)).arrays(bad, first_row=1000)
