"""No column of a table vanishes unnamed, whatever its type and whatever reads it."""

import datetime
import decimal
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.bags.bags import Bags
from bagwise.bags.tables.reader import read_bags, scan_bags
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError

N = 60
BAG = [f"b{i % 6}" for i in range(N)]
NUMBERS = [((37 * i) % 101) / 8 for i in range(N)]
DAY = datetime.date(2020, 1, 1)


def objects(values):
    return pd.Series(values, dtype=object)


# A column, and the numbers it is; or why it is left out; or what the refusal says.
NUMERIC = {
    "floats": (NUMBERS, NUMBERS),
    "integers": (list(range(N)), list(range(N))),
    "truth values": ([i % 7 == 0 for i in range(N)], [float(i % 7 == 0) for i in range(N)]),
    "decimals": ([decimal.Decimal(str(x)) for x in NUMBERS], NUMBERS),
    "text of numbers": ([str(x) for x in NUMBERS], NUMBERS),
    "text with blanks": ([f" {x} " for x in NUMBERS], NUMBERS),
}
LEFT_OUT = {
    "text": ([f"word {i}" for i in range(N)], "text, such as 'word 0'"),
    "some numbers": (["low" if i % 3 else "7" for i in range(N)], "text, such as 'low'"),
    "dates": ([DAY + datetime.timedelta(days=i) for i in range(N)], "dates"),
    "times": ([datetime.datetime(2020, 1, 1, 12, i) for i in range(N)], "dates"),
    "nothing": ([None] * N, "no value at all"),
}
ODD = {
    "n.d.": ("n.d.", "na_values='n.d.'"),
    "thousands": ("1,234.5", "thousands=','"),
    "decimal": ("3,7", "decimal=','"),
    "question": ("?", "na_values='?'"),
}
READERS = ("pandas", "polars", "pyarrow", "csv", "csv.gz", "csv folder", "parquet", "stream")


def read(reader, column, folder, name="x", **roles):
    """Read bags with one column of interest beside a plain one, through one of the readers."""
    columns = {"bag": BAG, "plain": np.arange(N) / 7, name: column}
    roles = {"bag": "bag", **roles}
    if reader == "pandas":
        return read_bags(pd.DataFrame({**columns, name: objects(column)}), **roles)
    if reader == "polars":
        return read_bags(pl.DataFrame(columns), **roles)
    table = pa.table(columns)
    if reader == "pyarrow":
        return read_bags(table, **roles)
    if reader in ("parquet", "stream"):
        pq.write_table(table, folder / "t.parquet", row_group_size=16)
        opened = read_bags if reader == "parquet" else scan_bags
        return opened(folder / "t.parquet", **roles)
    frame = table.to_pandas()
    if reader == "csv folder":
        (folder / "parts").mkdir(exist_ok=True)
        for part, rows in enumerate(np.array_split(np.arange(N), 3)):
            frame.iloc[rows].to_csv(folder / "parts" / f"{part}.csv", index=False)
        return read_bags(folder / "parts", **roles)
    frame.to_csv(folder / f"t.{reader}", index=False)
    return read_bags(folder / f"t.{reader}", **roles)


def points(table):
    """The stacked points, read in a pass if they are on disk."""
    if hasattr(table.bags, "rows_at"):
        return table.bags.rows_at(np.arange(table.bags.n_points))[0]
    return table.bags.points


@pytest.mark.crossed
@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", NUMERIC)
@pytest.mark.parametrize("named", [False, True])
def test_what_is_safely_a_number_is_one(tmp_path, reader, kind, named):
    column, expected = NUMERIC[kind]
    table = read(reader, column, tmp_path, **({"features": ["plain", "x"]} if named else {}))
    assert table.bags.feature_names == ("plain", "x")
    assert table.schema.left_out == {} and table.report.lines() == []
    by_bag = np.argsort([int(bag[1]) for bag in BAG], kind="stable")
    np.testing.assert_array_equal(points(table)[:, 1], np.array(expected, dtype=float)[by_bag])


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", LEFT_OUT)
def test_what_is_left_out_is_named_with_the_reason(tmp_path, reader, kind):
    column, reason = LEFT_OUT[kind]
    table = read(reader, column, tmp_path)
    assert table.bags.feature_names == ("plain",)
    assert table.schema.left_out == {"x": reason} == table.report.left_out
    (line,) = table.report.lines()
    assert f"Left out 1 column: 'x' ({reason})" in line and "features=[...]" in line
    named = read(reader, column, tmp_path, features=["plain"])
    assert named.schema.left_out == {} and named.report.lines() == []


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("role", ["default", "features", "covariates", "weights"])
def test_what_is_nearly_a_number_is_refused_with_the_cell(tmp_path, reader, kind, role):
    cell, remedy = ODD[kind]
    column = [str(1 + i % 6) for i in range(N)]
    column[17] = cell
    roles = {"default": {}, "features": {"features": ["x"]}, "weights": {"weights": "x"}}
    roles["covariates"] = {"features": ["plain"], "covariates": ["x"]}
    with pytest.raises(InvalidBagsError) as caught:
        read(reader, column, tmp_path, **roles[role])
    text = str(caught.value)
    assert f"column 'x': 59 of 60 are numbers; row 17 is {cell!r}; expected numbers" in text
    assert remedy in text


def test_the_csv_file_of_the_issue(tmp_path):
    rows = [f"{i % 40},{i / 7:.3f},{i % 11}" for i in range(3146)]
    path = tmp_path / "t.csv"
    for cell in ("n.d.", "1,234.5"):
        rows[17] = f'17,"{cell}",6'
        path.write_text("bag,x,z\n" + "\n".join(rows) + "\n")
        text = f"column 'x': 3,145 of 3,146 are numbers; row 17 is '{cell}'"
        with pytest.raises(InvalidBagsError, match=text):
            Bags.from_csv(path, bag="bag")
    assert Bags.from_csv(path, bag="bag", thousands=",").n_features == 2
    assert Bags.from_csv(path, bag="bag", features=["z"]).n_features == 1


@pytest.mark.parametrize("reader", ["pandas", "polars", "pyarrow", "csv", "parquet", "stream"])
def test_na_values_make_a_column_of_numbers(tmp_path, reader):
    column = [str(x) for x in NUMBERS]
    column[17] = column[30] = "n.d."
    table = read(reader, column, tmp_path, na_values="n.d.", missing="drop")
    assert table.bags.n_points == N - 2 and table.report.gaps == {"x": 2}
    numbers = np.array(NUMBERS)
    numbers[[3, 4]] = -999
    for codes in (-999, [-999.0], ["-999"], {"x": -999}, np.array([-999])):
        table = read(reader, numbers, tmp_path, na_values=codes, missing="drop")
        assert table.report.gaps == {"x": 2}
    assert read(reader, numbers, tmp_path, na_values={"plain": -999}).report.gaps == {}


def test_na_values_among_categories_labels_and_not_among_ids():
    table = pa.table(
        {
            "bag": [99, 99, 2, 2, 3, 3],
            "x": [1.0, 2.0, 3.0, 99.0, 4.0, 5.0],
            "colour": ["red", "none", "red", "red", "blue", "blue"],
            "y": [1, 1, 2, 2, 99, 99],
        }
    )
    roles = {"bag": "bag", "one_hot": "colour", "label": "y", "missing": "drop"}
    with pytest.warns(BagwiseWarning, match="1 in column 'x', 1 in column 'colour', 2 in col"):
        bags, y = Bags.from_frame(table, **roles, na_values=["none", 99])
    assert bags.ids.tolist() == [99, 2] and y.tolist() == [1, 2]
    assert bags.feature_names == ("x", "colour=red")


def test_fill_values_of_single_precision():
    x = np.linspace(0, 1, 60, dtype=np.float32)
    x[5] = 9.969209968386869e36
    table = pa.table({"bag": BAG, "x": x})
    found = read_bags(table, bag="bag")
    (line,) = found.report.lines()
    assert "na_values=9.969209968386869e+36" in line
    fixed = read_bags(table, bag="bag", na_values=9.969209968386869e36, missing="drop")
    assert fixed.bags.n_points == 59 and fixed.bags.points.dtype == np.float32


def test_mixed_objects_nullable_and_dictionary_encoded_numbers():
    frame = pd.DataFrame(
        {
            "bag": BAG,
            "mixed": objects([1, 2.5, True, decimal.Decimal("1.5"), "7"] * 12),
            "nullable": pd.array([1, 2, 3, 4] * 15, dtype="Int64"),
            "coded": pd.Categorical([3, 4, 5, 6] * 15),
            "coded text": pd.Categorical(["3", "4", "5", "6"] * 15),
            "sparse": pd.arrays.SparseArray([0.0, 0.0, 1.0, 1.0] * 15),
        }
    )
    bags = Bags.from_frame(frame, bag="bag")
    assert bags.feature_names == ("mixed", "nullable", "coded", "coded text", "sparse")
    assert bags[0][0].tolist() == [1, 1, 3, 3, 0]
    arrow = pa.table({"bag": BAG, "x": pa.array([3, 4, 5, 6] * 15).dictionary_encode()})
    assert Bags.from_frame(arrow, bag="bag").points.max() == 6


@pytest.mark.parametrize(
    ("column", "reason"),
    [
        (pa.array([[1]] * N), "lists"),
        (pa.array([{"a": 1}] * N), "records"),
        (pa.array([b"1"] * N), "bytes"),
        (pa.array([1] * N, pa.time32("s")), "times of day"),
        (pa.array([1] * N, pa.duration("s")), "durations"),
        (pa.array(["007", "010"] * 30), "codes, such as '007'"),
        (objects([1j] * N), "complex numbers"),
        (objects([[1]] * N), "lists"),
        (pd.period_range("2020-01-01", periods=N), "objects, such as Period('2020-01-01', 'D')"),
    ],
)
def test_other_types_are_left_out_by_name(tmp_path, column, reason):
    if isinstance(column, pa.Array):
        table = pa.table({"bag": BAG, "plain": np.arange(N) / 7, "x": column})
        pq.write_table(table, tmp_path / "t.parquet")
        sources = (table, tmp_path / "t.parquet")
        assert scan_bags(sources[1], bag="bag").schema.left_out == {"x": reason}
    else:
        sources = (pd.DataFrame({"bag": BAG, "plain": np.arange(N) / 7, "x": column}),)
    for source in sources:
        assert read_bags(source, bag="bag").schema.left_out == {"x": reason}


def test_the_warning_names_all_columns_and_can_be_silenced():
    frame = pd.DataFrame({"bag": BAG, "x": NUMBERS, "day": DAY, "note": "late"})
    with pytest.warns(BagwiseWarning, match=r"Left out 2 columns: 'day' \(dates\), 'note' \(te"):
        Bags.from_frame(frame, bag="bag")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bags.from_frame(frame, bag="bag", features=["x"])


def test_columns_of_the_labels_table_that_nobody_asks_for():
    labels = pa.table({"bag": sorted(set(BAG)), "y": np.arange(6.0), "age": np.arange(6)})
    table = pa.table({"bag": BAG, "x": NUMBERS})
    found = read_bags(table, bag="bag", label="y", labels=labels)
    assert found.report.left_out == {"age": "of the labels table, not named as a covariate"}
    named = read_bags(table, bag="bag", label="y", labels=labels, covariates="age")
    assert named.report.lines() == []


@pytest.mark.parametrize("reader", READERS)
def test_labels_that_are_nearly_numbers(tmp_path, reader):
    column = [str(i) for i in range(N)]
    column[17] = "n.d."
    with pytest.raises(InvalidLabelsError, match="column 'x': 59 of 60 are numbers; row 17 is"):
        read(reader, column, tmp_path, label="x")
    classes = [["1", "2", "3b"][int(bag[1]) % 3] for bag in BAG]  # few different ones: classes
    assert set(read(reader, classes, tmp_path, label="x").labels) == {"1", "2", "3b"}


def test_numbers_are_read_in_the_same_way_when_predicting(tmp_path):
    column = [f"1.{i:03d},5" for i in range(N)]
    table = pa.table({"bag": BAG, "x": column})
    trained = read_bags(table, bag="bag", decimal=",", thousands=".")
    assert trained.bags.points.min() == 1000.5
    later = read_bags(table, schema=trained.schema)
    np.testing.assert_array_equal(later.bags.points, trained.bags.points)


# ---- constant in every bag -----------------------------------------------------------------------


@pytest.mark.parametrize("reader", ["pandas", "polars", "pyarrow", "csv", "parquet", "stream"])
def test_a_column_that_is_constant_in_every_bag_is_pointed_out(tmp_path, reader):
    age = [30.0 + int(bag[1]) for bag in BAG]
    table = read(reader, age, tmp_path, name="age")
    assert table.report.constant == ("age",)
    (line,) = table.report.lines()
    assert "Column 'age' has one value in every bag: a covariate" in line
    assert read(reader, age, tmp_path, name="age", covariates=["age"]).report.lines() == []
    named = read(reader, age, tmp_path, name="age", features=["plain", "age"])
    assert named.report.lines() == []
    changed = [*age[:-1], 0.0]
    assert read(reader, changed, tmp_path, name="age").report.constant == ()


def test_categories_that_are_constant_in_every_bag():
    site = ["north" if int(bag[1]) % 2 else "south" for bag in BAG]
    table = pa.table({"bag": BAG, "plain": np.arange(N) / 7, "site": site})
    assert read_bags(table, bag="bag", one_hot="site").report.constant == ("site",)


def test_no_hint_where_chance_could_do_it():
    rng = np.random.default_rng(0)
    for sizes in ([1] * 50, [2] + [1] * 50, [2, 2, 2]):
        bag = np.repeat(np.arange(len(sizes)), sizes)
        for column in (bag % 2, bag, np.ones(len(bag)), bag == 3):
            table = pa.table({"bag": bag, "x": rng.normal(size=len(bag)), "z": column * 1.0})
            assert read_bags(table, bag="bag").report.constant == ()
    rare = np.zeros(2000)
    rare[7] = 1.0  # in a bag of one point
    bag = np.concatenate([np.arange(1000), np.arange(1000)])
    bag[7] = 5000
    table = pa.table({"bag": bag, "x": rng.normal(size=2000), "rare": rare})
    assert read_bags(table, bag="bag").report.constant == ()


# ---- names and ids ------------------------------------------------------------------------------


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_none_for_covariates_is_none(library):
    frame = library({"bag": BAG, "x": NUMBERS})
    roles = {"bag": "bag", "covariates": None, "one_hot": None, "na_values": None}
    assert Bags.from_frame(frame, **roles).n_covariates == 0
    with pytest.raises(BagwiseError, match="3 is given as the name of a column"):
        Bags.from_frame(frame, bag="bag", features=3)
    with pytest.raises(BagwiseError, match="no bag column is named"):
        Bags.from_frame(frame, bag=None)


def test_columns_of_one_name(tmp_path):
    twice = pa.Table.from_arrays([pa.array([1, 2])] * 3, names=["bag", "x", "x"])
    text = r"cannot be read .*'x' 2 times.*names are all different"
    pq.write_table(twice, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("bag,x,x\n1,2,3\n")
    for read_it in (
        lambda: Bags.from_frame(twice, bag="bag"),
        lambda: Bags.from_parquet(tmp_path / "t.parquet", bag="bag"),
        lambda: Bags.scan_parquet(tmp_path / "t.parquet", bag="bag"),
        lambda: Bags.from_csv(tmp_path / "t.csv", bag="bag"),
    ):
        with pytest.raises(BagwiseError, match=text):
            read_it()
    with pytest.raises(BagwiseError, match="'1' 2 times"):
        Bags.from_frame(pd.DataFrame(np.ones((2, 2)), columns=[1, "1"]), bag="1")


BIG = [2**63 + 1, 2**63 + 2, 2**53 + 1, 2**53 + 2, 7, 2**64 - 1]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
@pytest.mark.parametrize("gap", [False, True])
def test_ids_beyond_doubles_stay_exact(tmp_path, library, gap):
    ids = pa.array([*BIG, *BIG, None] if gap else [*BIG, *BIG], pa.uint64())
    table = pa.table({"bag": ids, "x": np.arange(len(ids)) * 1.0})
    frame = library(table.to_pydict() if library is pl.DataFrame else {"bag": ids, "x": table["x"]})
    if library is pd.DataFrame:
        frame = table.to_pandas(types_mapper={pa.uint64(): pd.UInt64Dtype()}.get)
    labels = pa.table({"bag": pa.array(BIG, pa.uint64()), "y": np.arange(6.0)})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=4)
    sources = [lambda **roles: read_bags(frame, **roles)]
    sources += [
        lambda how=how, **roles: how(tmp_path / "t.parquet", **roles)
        for how in (read_bags, scan_bags)
    ]
    for source in sources:
        found = source(bag="bag", label="y", labels=labels, missing="drop")
        assert found.bags.ids.tolist() == BIG and found.labels.tolist() == [0, 1, 2, 3, 4, 5]
        assert found.bags.sizes.tolist() == [2] * 6
        assert source(bag="bag", missing="drop").bags.ids.tolist() == BIG


def test_lists_of_big_ids():
    bags = Bags.from_list([[[1.0]]] * 6, ids=BIG)
    assert bags.ids.tolist() == BIG and bags.ids.dtype == np.uint64
    mixed = [2**63 + 1, -1]
    assert Bags.from_list([[[1.0]]] * 2, ids=mixed).ids.tolist() == mixed
