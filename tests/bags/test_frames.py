"""Bags from pandas, polars and pyarrow."""

import datetime
import warnings

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

from bagwise.bags.bags import Bags
from bagwise.bags.tables.frames import FEW, open_frame
from bagwise.exceptions import BagwiseWarning, InvalidBagsError, InvalidLabelsError

COLUMNS = {
    "patient": ["p2", "p1", "p2", "p1", "p3"],
    "cd3": [1.0, 2.0, 3.0, 4.0, 5.0],
    "cd19": [1, 2, 3, 4, 5],
    "age": [60, 50, 60, 50, 70],
    "weight": [1.0, 0.5, 2.0, 1.0, 1.0],
    "outcome": [0.5, 1.5, 0.5, 1.5, 2.5],
    "note": ["a", "b", "c", "d", "e"],
}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}


@pytest.fixture(params=LIBRARIES)
def make(request):
    """Make a data frame of one of the libraries from columns, by default COLUMNS with changes."""
    library = LIBRARIES[request.param]
    return lambda **changes: library({**COLUMNS, **changes})


def test_from_frame(make):
    bags, y = Bags.from_frame(
        make(),
        bag="patient",
        features=["cd3", "cd19"],
        covariates=["age"],
        weights="weight",
        label="outcome",
    )
    assert bags.ids.tolist() == ["p2", "p1", "p3"]
    assert [bag.tolist() for bag in bags] == [[[1, 1], [3, 3]], [[2, 2], [4, 4]], [[5, 5]]]
    assert bags.feature_names == ("cd3", "cd19")
    assert bags.covariate_names == ("age",)
    assert_array_equal(bags.covariates, [[60.0], [50.0], [70.0]], strict=True)
    assert bags.weights.tolist() == [1, 2, 0.5, 1, 1]
    assert y.tolist() == [0.5, 1.5, 2.5]
    assert_array_equal(labels_of(make(), "outcome"), y, strict=True)


def test_features_default_to_the_numeric_columns_without_another_role(make):
    left_out = r"Left out 1 column: 'note' \(text, such as 'a'\)"
    with pytest.warns(BagwiseWarning, match=left_out):
        bags = Bags.from_frame(make(), bag="patient", covariates="age", weights="weight")
    assert isinstance(bags, Bags)
    assert bags.feature_names == ("cd3", "cd19", "outcome")
    with pytest.warns(BagwiseWarning, match=left_out):
        bags, _ = Bags.from_frame(make(), bag="patient", covariates="age", label="outcome")
    assert bags.feature_names == ("cd3", "cd19", "weight")


def labels_of(frame, label):
    return Bags.from_frame(frame, bag="patient", features=["cd3"], label=label)[1]


def test_same_bags_as_from_groups(make):
    frame = Bags.from_frame(make(), bag="patient", features=["cd3"])
    groups = Bags.from_groups(np.array(COLUMNS["cd3"])[:, None], COLUMNS["patient"])
    assert_array_equal(frame.points, groups.points, strict=True)
    assert_array_equal(frame.offsets, groups.offsets, strict=True)
    assert_array_equal(frame.ids, groups.ids, strict=True)


def test_types_of_features_and_bags(make):
    frame = make(
        patient=[3, 1, 3, 1, 2],
        cd3=np.arange(5, dtype=np.float32),
        cd19=[True, False, True, False, True],
    )
    single = Bags.from_frame(frame, bag="patient", features=["cd3"])
    assert single.points.dtype == np.float32
    assert_array_equal(single.ids, np.array([3, 1, 2]), strict=True)
    double = Bags.from_frame(frame, bag="patient", features=["cd3", "cd19"])
    assert double.points.dtype == np.float64
    assert double[0].tolist() == [[0, 1], [2, 1]]


def test_labels_keep_their_type(make):
    labels = ["yes", "no", "yes", "no", "no"]
    assert labels_of(make(outcome=labels), "outcome").tolist() == ["yes", "no", "no"]
    counts = labels_of(make(), "age")
    assert_array_equal(counts, np.array([60, 50, 70]), strict=True)


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"b": pd.Categorical(["v", "u", "v"]), "x": [1, 2, 3]}),
        pl.DataFrame({"b": pl.Series(["v", "u", "v"], dtype=pl.Categorical), "x": [1, 2, 3]}),
        pl.DataFrame({"b": pl.Series(["v", "u", "v"], dtype=pl.Enum(["u", "v"])), "x": [1, 2, 3]}),
        pa.table({"b": pa.array(["v", "u", "v"]).dictionary_encode(), "x": [1, 2, 3]}),
    ],
    ids=["pandas", "polars", "polars enum", "pyarrow"],
)
def test_categories_become_strings(frame):
    bags = Bags.from_frame(frame, bag="b")
    assert_array_equal(bags.ids, np.array(["v", "u"]), strict=True)
    twice = nw.from_native(frame).with_columns(nw.col("b").alias("y")).to_native()
    assert Bags.from_frame(twice, bag="b", features="x", label="y")[1].tolist() == ["v", "u"]


def test_dates_as_bags(make):
    days = [datetime.date(2020, 1, day) for day in (2, 1, 2, 1, 3)]
    assert Bags.from_frame(make(patient=days), bag="patient", features=["cd3"]).n_bags == 3


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize("gap", [None, float("nan")])
@pytest.mark.parametrize("column", ["cd3", "cd19"])
def test_missing_feature(make, gap, column):
    values = [1.0, 2.0, 3.0, gap, 5.0] if gap is not None else [1, 2, 3, None, 5]
    text = f"bag 'p1', row 1, column '{column}' is missing .1 missing value: 1 in column '{column}'"
    with pytest.raises(InvalidBagsError, match=text):
        Bags.from_frame(make(**{column: values}), bag="patient", features=["cd3", "cd19"])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "int64[pyarrow]"])
def test_missing_feature_in_pandas_extension_types(dtype):
    values = pd.array([1, 0, 1, pd.NA, 1], dtype=dtype)
    frame = pd.DataFrame({**COLUMNS, "cd3": values})
    with pytest.raises(InvalidBagsError, match="bag 'p1', row 1, column 'cd3' is missing"):
        Bags.from_frame(frame, bag="patient", features=["cd3"])
    full = pd.DataFrame({**COLUMNS, "cd3": values.fillna(values[0])})
    assert Bags.from_frame(full, bag="patient", features=["cd3"])[1].tolist() == [[0], [1]]


def test_missing_bag_covariate_weight_and_label(make):
    roles = {"bag": "patient", "features": ["cd3"]}
    frame = make(patient=["p2", None, "p2", "p1", "p3"])
    with pytest.raises(InvalidBagsError, match="row 1 of the data frame has no bag: column 'pat"):
        Bags.from_frame(frame, **roles)
    frame = make(age=[60, 50, None, 50, 70])
    with pytest.raises(InvalidBagsError, match="bag 'p2', row 1, covariate column 'age' is missi"):
        Bags.from_frame(frame, **roles, covariates=["age"])
    frame = make(weight=[1.0, 1.0, None, 1.0, 1.0])
    with pytest.raises(
        InvalidBagsError, match="bag 'p2', row 1, weight column 'weight' is missing"
    ):
        Bags.from_frame(frame, **roles, weights="weight")
    for gaps in ([0, 1, None, 1, 2], ["a", "b", None, "b", "c"]):
        with pytest.raises(
            InvalidLabelsError, match="bag 'p2', row 1, label column 'outcome' is m"
        ):
            Bags.from_frame(make(outcome=gaps), **roles, label="outcome")


def test_covariates_and_labels_are_constant_within_bags(make):
    frame = make(age=[60, 50, 61, 50, 70])
    text = r"covariate column 'age' changes within bag 'p2': 60.0 in row 0 but 61.0 in row 1"
    with pytest.raises(InvalidBagsError, match=text):
        Bags.from_frame(frame, bag="patient", features=["cd3"], covariates=["age"])
    text = r"label column 'note' changes within bag 'p2': 'a' in row 0 but 'c' in row 1"
    with pytest.raises(InvalidLabelsError, match=text):
        labels_of(make(), "note")


def test_columns_that_are_not_numbers(make):
    with pytest.raises(
        InvalidBagsError, match=r"column 'note' has type String; expected numbers\. L"
    ):
        Bags.from_frame(make(), bag="patient", features=["cd3", "note"])
    with pytest.raises(InvalidBagsError, match="column 'note' has type String"):
        Bags.from_frame(make(), bag="patient", features=["cd3"], covariates=["note"])
    with pytest.raises(InvalidBagsError, match="column 'note' has type String"):
        Bags.from_frame(make(), bag="patient", features=["cd3"], weights="note")
    dates = make(cd3=[datetime.datetime(2020, 1, 1)] * 5)
    with pytest.raises(InvalidBagsError, match=r"column 'cd3' has type Datetime.*number of days"):
        Bags.from_frame(dates, bag="patient", features=["cd3"])


def test_columns_that_do_not_exist_or_have_two_roles(make):
    with pytest.raises(InvalidBagsError, match="no column 'id'; expected one of its columns: 'pat"):
        Bags.from_frame(make(), bag="id")
    with pytest.raises(InvalidBagsError, match=r"no column 'cd4', 'cd5'.*Check the spelling"):
        Bags.from_frame(make(), bag="patient", features=["cd3", "cd4", "cd5"])
    with pytest.raises(InvalidBagsError, match="no column 'y'"):
        labels_of(make(), "y")
    with pytest.raises(InvalidBagsError, match="column 'outcome' is used twice"):
        Bags.from_frame(make(), bag="patient", features=["cd3", "outcome"], label="outcome")
    with pytest.raises(InvalidBagsError, match="column 'cd3' is used twice"):
        Bags.from_frame(make(), bag="patient", features=["cd3"], ignore="cd3")
    with pytest.raises(InvalidBagsError, match="no column 'cd4'"):
        Bags.from_frame(make(), bag="patient", ignore=["cd4"])


def test_columns_to_be_ignored_are_no_features(make):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = Bags.from_frame(make(), bag="patient", label="outcome")[0].feature_names
        fewer = Bags.from_frame(make(), bag="patient", label="outcome", ignore="cd3")[0]
    assert "cd3" in whole and fewer.feature_names == tuple(n for n in whole if n != "cd3")


def test_no_features_are_left(make):
    for features in ([], None):
        roles = {"covariates": ["cd3", "cd19", "age"], "weights": "weight", "label": "outcome"}
        with pytest.raises(
            InvalidBagsError, match=r"no feature columns are left.*features=\[\.\.\.\]"
        ):
            Bags.from_frame(make(), bag="patient", features=features, **roles)


def test_frame_without_rows():
    with pytest.raises(InvalidBagsError, match="there are no bags at all"):
        Bags.from_frame(pd.DataFrame(COLUMNS)[:0], bag="patient", features=["cd3"])


def test_things_that_are_no_frames():
    with pytest.raises(InvalidBagsError, match=r"got a LazyFrame.*Call \.collect\(\) on it first"):
        Bags.from_frame(pl.LazyFrame(COLUMNS), bag="patient")
    with pytest.raises(InvalidBagsError, match=r"got a ndarray as data frame.*Bags.from_groups"):
        Bags.from_frame(np.ones((2, 2)), bag="patient")
    twice = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    with pytest.raises(InvalidBagsError, match=r"cannot be read .*'a' 2 times.*Rename or drop"):
        Bags.from_frame(twice, bag="a")


# ---------------------------------------------------------------- few rows and many

GAPS = {"x": [1.5, None, 2.5], "y": [None, 0.1, 0.2], "z": [1.0, 2.0, 3.0], "n": [1, None, 3]}
SINGLE = pa.schema(
    [("x", pa.float32()), ("y", pa.float64()), ("z", pa.float32()), ("n", pa.int64())]
)
WITH_GAPS = {
    "pyarrow": lambda: pa.table(GAPS, schema=SINGLE),
    "pyarrow in pieces": lambda: pa.concat_tables([pa.table(GAPS, schema=SINGLE)] * 2),
    "polars": lambda: pl.from_arrow(pa.table(GAPS, schema=SINGLE)),
    "pandas": lambda: pa.table(GAPS, schema=SINGLE).to_pandas(),
    "pandas, nullable": lambda: pd.DataFrame(GAPS).convert_dtypes(),
    "pandas, of pyarrow": lambda: pa.table(GAPS, schema=SINGLE).to_pandas(
        types_mapper=pd.ArrowDtype
    ),
    "pandas, both": lambda: pd.DataFrame(GAPS).astype({"x": "Float64", "z": "float64"}),
    "pandas, numbered": lambda: pd.DataFrame(GAPS).set_axis([3, 2, 1, 0], axis=1),
}


@pytest.mark.parametrize("kind", WITH_GAPS)
def test_few_rows_are_read_as_many_are(kind):
    """Columns of short tables become floats together, those of long ones one by one."""
    short = open_frame(WITH_GAPS[kind]())
    times = FEW // len(short) + 1
    long = short.take(np.tile(np.arange(len(short)), times))
    assert len(short) <= FEW < len(long)
    for name in short.columns:
        found = short.floats(name)
        again = long.floats(name)
        assert_array_equal(np.tile(found, times), again, strict=True)
        assert found.dtype == np.float32 if short.dtype(name) == nw.Float32 else np.float64
