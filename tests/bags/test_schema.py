"""Tables as bags: composite ids, two tables, categories, missing values, and the stored schema."""

import datetime
import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from bagwise.bags.bags import Bags
from bagwise.bags.grouping import group_columns
from bagwise.bags.tables.reader import read_bags
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}


@pytest.fixture(params=LIBRARIES)
def convert(request):
    return LIBRARIES[request.param]


def points(seed=0, n_rows=120):
    rng = np.random.default_rng(seed)
    clinic, patient = rng.integers(0, 4, n_rows), rng.integers(0, 5, n_rows)
    return pd.DataFrame(
        {
            "clinic": clinic,
            "patient": [f"p{k}" for k in patient],
            "x": rng.normal(size=n_rows),
            "z": rng.integers(-9, 9, n_rows).astype(float),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
            "grade": rng.choice([1, 2, 10], n_rows),
            "age": 40.0 + clinic * 10 + patient,
            "sex": np.where(patient % 2, "f", "m"),
            "y": clinic - patient / 3,
        }
    )


BAG = ["clinic", "patient"]


def by_bag(table):
    """Return the points of each bag as a set of rows: what must not depend on the order."""
    return {
        bag: (sorted(rows.tolist()), cov.tolist(), label)
        for bag, rows, cov, label in zip(
            table.bags.ids.tolist(), table.bags, table.bags.covariates, table.labels, strict=True
        )
    }


def test_shuffled_rows_give_the_same_bags_up_to_order(convert):
    roles = {"bag": BAG, "label": "y", "covariates": ["age", "sex"]}
    roles["one_hot"] = ["colour", "grade", "sex"]
    table = points()
    table.loc[3:8, "x"] = np.nan
    first = read_bags(convert(table), **roles, missing="impute")
    shuffled = table.sample(frac=1, random_state=1, ignore_index=True)
    other = read_bags(convert(shuffled), **roles, missing="impute")
    assert by_bag(first) == by_bag(other)
    assert first.schema == other.schema
    assert first.report == other.report


def test_composite_ids_group_as_their_concatenation(convert):
    table = points()
    table["both"] = table["clinic"].astype(str) + "/" + table["patient"]
    composite = Bags.from_frame(convert(table), bag=BAG, features=["x", "z"])
    single = Bags.from_frame(convert(table), bag="both", features=["x", "z"])
    assert_array_equal(composite.points, single.points, strict=True)
    assert_array_equal(composite.offsets, single.offsets, strict=True)
    assert [f"{clinic}/{patient}" for clinic, patient in composite.ids] == single.ids.tolist()
    assert {type(part) for bag in composite.ids for part in bag} == {int, str}
    assert Bags.concatenate([composite[:2], composite[2:]]).ids.tolist() == composite.ids.tolist()
    assert Bags.from_frame(convert(table), bag=["both"], features="x").ids.dtype == single.ids.dtype


def test_ids_of_any_type(convert):
    days = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]
    times = [datetime.datetime(2020, 1, 1, hour) for hour in (5, 4, 5)]
    table = pd.DataFrame({"day": days, "time": times, "flag": [True, False, True], "x": [1, 2, 3]})
    bags = Bags.from_frame(convert(table), bag=["day", "time", "flag"], features="x")
    assert bags.ids.tolist() == [(days[0], times[0], True), (days[1], times[1], False)]
    assert bags.sizes.tolist() == [2, 1]
    day = Bags.from_frame(convert(table), bag="day", features="x")
    assert_array_equal(day.ids, np.array(days[:2], dtype="M8[D]"), strict=True)


def test_categories_of_numbers_are_numbers():
    values = pd.Categorical([7, 3, 7])
    for table in (
        pd.DataFrame({"bag": values, "x": [1, 2, 3]}),
        pa.table({"bag": pa.array([7, 3, 7]).dictionary_encode(), "x": [1, 2, 3]}),
    ):
        assert_array_equal(Bags.from_frame(table, bag="bag").ids, np.array([7, 3]), strict=True)
    gap = pa.table({"bag": pa.array(["a", None]).dictionary_encode(), "x": [1, 2]})
    with pytest.raises(InvalidBagsError, match="row 1 of the data frame has no bag"):
        Bags.from_frame(gap, bag="bag")


def test_many_columns_do_not_overflow():
    rng = np.random.default_rng(0)
    columns = tuple(rng.integers(0, 2**40, 300) for _ in range(9))
    grouping = group_columns(columns)
    assert grouping.ids.tolist() == list(zip(*(column.tolist() for column in columns), strict=True))


# ---- two tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["error", "impute", "drop"])
def test_one_table_equals_two(convert, missing):
    table = points()
    if missing != "error":
        table["age"] = table["age"].where(table["clinic"] != 2)
        table["x"] = table["x"].mask(table.index % 7 == 0)
    bags = table.groupby(BAG, as_index=False)[["age", "sex", "y"]].first()
    roles = {"bag": BAG, "covariates": ["age", "sex"], "label": "y", "missing": missing}
    roles |= {"one_hot": ["sex", "colour"], "features": ["x", "z", "colour"]}
    one = read_bags(convert(table), **roles)
    alone = table.drop(columns=["age", "sex", "y"])
    two = read_bags(convert(alone), labels=convert(bags[::-1]), **roles)
    mixed = read_bags(convert(table.drop(columns="y")), labels=bags[[*BAG, "y"]], **roles)
    for other in (two, mixed):
        assert_array_equal(other.bags.points, one.bags.points, strict=True)
        assert_array_equal(other.bags.covariates, one.bags.covariates, strict=True)
        assert other.bags.ids.tolist() == one.bags.ids.tolist()
        assert_array_equal(other.labels, one.labels, strict=True)
        assert other.schema == one.schema


def test_unmatched_bags_are_named_and_counted(convert):
    table = pd.DataFrame({"bag": list("aabcd"), "x": [1.0, 2, 3, 4, 5]})
    labels = pd.DataFrame({"bag": list("eafb"), "y": [1, 2, 3, 4]})
    text = (
        "Left out 2 bags without a row in the labels table: 'c', 'd'. "
        "Left out 2 bags of the labels table without points: 'e', 'f'."
    )
    with pytest.warns(BagwiseWarning, match=text):
        bags, y = Bags.from_frame(convert(table), bag="bag", label="y", labels=convert(labels))
    assert bags.ids.tolist() == ["a", "b"]
    assert bags.points.ravel().tolist() == [1, 2, 3]
    assert y.tolist() == [2, 4]
    report = read_bags(convert(table), bag="bag", label="y", labels=convert(labels)).report
    assert (report.n_rows, report.n_dropped_rows) == (5, 0)
    assert (report.unmatched_bags, report.unmatched_labels) == (("c", "d"), ("e", "f"))
    many = pd.DataFrame({"bag": np.arange(1000), "x": 1.0})
    with pytest.warns(BagwiseWarning, match="Left out 998 bags .* 1, 3, 4, 5, 6 and 993 more"):
        Bags.from_frame(many, bag="bag", label="y", labels=pd.DataFrame({"bag": [2, 0], "y": 1}))


def test_ids_are_equal_across_types_of_numbers_and_dates():
    table = pd.DataFrame({"bag": [1, 2], "x": [1.0, 2.0]})
    labels = pd.DataFrame({"bag": [2.0, 1.0], "y": [5, 6]})
    assert Bags.from_frame(table, bag="bag", labels=labels, label="y")[1].tolist() == [6, 5]
    table["bag"] = pd.to_datetime(["2020-01-01", "2020-01-02"])
    labels["bag"] = [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]
    assert Bags.from_frame(table, bag="bag", labels=labels, label="y")[1].tolist() == [6, 5]


def test_labels_tables_that_cannot_be_used(convert):
    table = convert(pd.DataFrame({"bag": [1, 1, 2], "x": [1.0, 2, 3]}))

    def fails(text, labels, **roles):
        with pytest.raises(BagwiseError, match=text):
            Bags.from_frame(table, bag="bag", labels=convert(pd.DataFrame(labels)), **roles)

    fails(
        "bag 2 has two rows in the labels table: rows 0 and 2",
        {"bag": [2, 1, 2], "y": 1},
        label="y",
    )
    text = (
        r"none of 2 bags .* points have bag 1 \(int\), the labels have bag '1' \(str\); .*convert"
    )
    fails(text, {"bag": ["1", "2"], "y": 1}, label="y")
    fails("the labels table has no column 'bag'", {"id": [1], "y": 1}, label="y")
    fails("no column 'q'", {"bag": [1], "y": 1}, label="q")
    fails("no column of it is asked for", {"bag": [1], "y": 1})
    fails("bag 1, row 0, label column 'y' is missing", {"bag": [2, 1], "y": [1, None]}, label="y")
    fails("row 1 .* has no bag", {"bag": [1, None], "y": 1}, label="y")
    fails(
        "every row of the labels table that has",
        {"bag": [1], "y": [np.nan]},
        label="y",
        missing="drop",
    )


# ---- categories ---------------------------------------------------------------------------------


def test_one_hot_equals_get_dummies(convert):
    table = points()
    bags = Bags.from_frame(
        convert(table), bag=BAG, features=["colour", "x", "grade"], one_hot=["colour", "grade"]
    )
    dummies = pd.get_dummies(
        table[["colour", "grade"]], columns=["colour", "grade"], prefix_sep="="
    )
    names = [name for name in dummies if "colour" in name]
    names += ["x", *(name for name in dummies if "grade" in name)]
    oracle = dummies.assign(x=table["x"])[names].to_numpy(float)
    groups = list(zip(table["clinic"].tolist(), table["patient"], strict=True))
    assert bags.feature_names == tuple(names)
    assert_array_equal(bags.points, Bags.from_groups(oracle, groups).points, strict=True)


def test_categories_can_be_given_and_single_precision_stays():
    table = pd.DataFrame({"bag": [1, 2], "x": np.float32([1, 2]), "colour": ["red", "blue"]})
    given = {"colour": ["red", "blue", "green"]}
    bags = Bags.from_frame(table, bag="bag", one_hot=given)
    assert bags.feature_names == ("x", "colour=red", "colour=blue", "colour=green")
    assert bags.points.tolist() == [[1, 1, 0, 0], [2, 0, 1, 0]]
    assert bags.points.dtype == np.float32
    with pytest.raises(InvalidBagsError, match=r"bag 2, row 0, column 'colour' is 'blue'"):
        Bags.from_frame(table, bag="bag", one_hot={"colour": ["red"]})


def test_a_category_that_training_did_not_have(convert):
    schema = read_bags(convert(points()), bag=BAG, label="y", one_hot=["colour", "grade"]).schema
    later = points(seed=1, n_rows=5)
    assert read_bags(convert(later), schema=schema).bags.feature_names == schema.feature_names
    later.loc[2, "colour"] = "mauve"
    bag = (int(later.loc[2, "clinic"]), later.loc[2, "patient"])
    text = (
        rf"bag \({bag[0]}, '{bag[1]}'\), row \d, column 'colour' is 'mauve', a category that was "
        "not there in training; expected one of 'blue', 'green', 'red'. Drop these rows"
    )
    with pytest.raises(InvalidBagsError, match=text):
        read_bags(convert(later), schema=schema.without_label())


def test_columns_that_cannot_be_encoded():
    table = pd.DataFrame(
        {"bag": [1, 2], "x": [1, 2], "c": ["a", "b"], "d": [datetime.date.today()] * 2}
    )

    def fails(text, **roles):
        with pytest.raises(InvalidBagsError, match=text):
            Bags.from_frame(table, bag="bag", **roles)

    fails("'c' is to be one-hot encoded but is neither a feature nor", features="x", one_hot="c")
    fails("no column 'q'", one_hot="q")
    fails("column 'd' has categories of type date; .* Convert the column to text", one_hot="d")
    fails("one_hot has 'red' for column 'c'; .*a list", one_hot={"c": "red"})
    fails("column 'c' has the category 'a' twice", one_hot={"c": ["a", "a"]})
    fails(r"column 'c' has type String; .* one_hot='c'", features="c")
    table["bag"] = 1
    fails("covariate column 'c=a' changes within bag 1", covariates="c", one_hot="c")
    table["c=a"] = 1.0
    fails("the feature name 'c=a' appears twice", one_hot="c")


# ---- the stored schema --------------------------------------------------------------------------


def test_a_schema_survives_json():
    roles = {"bag": BAG, "label": "y", "covariates": ["age"], "one_hot": ["colour", "grade"]}
    schema = read_bags(points(), **roles, missing="drop").schema
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema
    assert again.feature_names == (
        "x",
        "z",
        "colour=blue",
        "colour=green",
        "colour=red",
        "grade=1",
        "grade=2",
        "grade=10",
    )
    assert again.covariate_names == ("age",)
    assert again.without_label().columns == (*BAG, "x", "z", "colour", "grade", "age")


def test_how_cells_are_written_and_what_was_left_out_survive_json():
    written = {"na_values": {"x": [-999, "n.d."]}, "decimal": ",", "thousands": ".", "sep": ";"}
    table = points().assign(note="late", x=["1.234,5"] * len(points()))
    schema = read_bags(table, bag=BAG, **written).schema
    assert schema.left_out["note"] == "text, such as 'late'"
    again = Schema.from_dict(json.loads(json.dumps(schema.to_dict())))
    assert again == schema and again.cells.codes("x") == (frozenset({"n.d."}), (-999.0,))
    before = {k: v for k, v in schema.to_dict().items() if k not in ("cells", "left_out")}
    assert Schema.from_dict(before).left_out == {}  # as files of before are


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"bag": []}, "has bag = .* expected a list of at least one column name"),
        ({"bag": "id"}, "has bag = 'id'"),
        ({"features": [1]}, "has features"),
        ({"features": []}, "expected at least one column name"),
        ({"covariates": None}, "has covariates"),
        ({"weights": 3}, "has weights"),
        ({"label": ["y"]}, "has label"),
        ({"label": "x"}, "uses a column twice"),
        ({"one_hot": {"x": []}}, "has one_hot"),
        ({"one_hot": {"x": [None]}}, "has one_hot"),
        ({"one_hot": {"x": [["a"]]}}, "has one_hot"),
        ({"one_hot": {"q": ["a"]}}, "encodes 'q'"),
        ({"one_hot": {"x": ["a", "a"]}}, "twice"),
        ({"one_hot": {"x": ["a", 1]}}, "categories of types int, str"),
        ({"missing": "skip"}, "has missing = 'skip'; expected one of error, drop, impute"),
        ({"missing": ["drop"]}, "has missing"),
        ({"missing": "impute"}, "has values to impute for no column"),
        ({"fill": {"x": 1.0}}, "has values to impute for 'x'"),
        ({"missing": "impute", "fill": {"x": float("nan")}}, "has fill"),
        ({"missing": "impute", "fill": {"x": True}}, "has fill"),
        ({"missing": "impute", "fill": [1]}, "has fill"),
        ({"cells": {}}, "has cells"),
        ({"cells": {"sep": 1, "decimal": ".", "thousands": None, "na_values": []}}, "has cells"),
        ({"cells": {"sep": None, "decimal": ".", "thousands": None, "na_values": 1}}, "has cells"),
        ({"left_out": {"note": 3}}, "has left_out"),
        ({"left_out": ["note"]}, "has left_out"),
        ({"surprise": 1}, "surprise.*expected the entries bag, features"),
    ],
)
def test_nonsense_in_a_stored_schema(changes, text):
    data = Schema(("id",), ("x",), label="y").to_dict()
    with pytest.raises(BagwiseError, match=text):
        Schema.from_dict({**data, **changes})
    with pytest.raises(BagwiseError, match="the stored schema is list"):
        Schema.from_dict([])
