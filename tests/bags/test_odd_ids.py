"""Bag ids that are lists or records: refused by the name of their column, whatever is wrong too."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.bags.bags import Bags
from bagwise.exceptions import BagwiseError

IDS = {
    "lists": [[1], [1], [2, 3], [2, 3]],
    "lists of a length": [[1, 2], [1, 2], [3, 4], [3, 4]],
    "records": [{"u": 1}, {"u": 1}, {"u": 2}, {"u": 2}],
    "lists, one missing": [[1], None, [2, 3], [2, 3]],
}
COLUMNS = {"x": [1.0, 2.0, 3.0, 4.0], "y": [0.5, 0.5, 1.5, 1.5]}
# What else may be wrong, and would be said of a bag by its id.
ODD_COLUMNS = {
    "nothing": {},
    "feature": {"x": [1.0, None, 3.0, None]},
    "infinite": {"x": [1.0, 2.0, 3.0, float("inf")]},
    "label": {"y": [0.5, 0.5, None, None]},
    "label that changes": {"y": [0.5, 0.6, 1.5, 1.5]},
    "labels that are lists": {"y": [[1], [1], [2], [2]]},
}
LIBRARIES = {
    "pandas": lambda table: table.to_pandas(),
    "pandas, lists": lambda table: pd.DataFrame(table.to_pydict()),
    "polars": pl.from_arrow,
    "polars, of one length": lambda table: as_arrays(pl.from_arrow(table)),
    "pyarrow": lambda table: table,
}


def as_arrays(frame):
    """Return lists of one length as polars' own type for them."""
    lengths = frame["bag"].list.len().unique() if frame["bag"].dtype == pl.List else []
    return frame.cast({"bag": pl.Array(pl.Int64, lengths[0])}) if len(lengths) == 1 else frame


def refuses(read, *arguments, **options):
    words = r"the bag column 'bag' holds values of type|column 'bag' is missing"
    with pytest.raises(BagwiseError, match=words):
        read(*arguments, label="y", **options)


def tables():
    for ids in IDS.values():
        for changes in ODD_COLUMNS.values():
            yield pa.table({"bag": ids, "n": [1, 1, 2, 2], **COLUMNS, **changes})


@pytest.mark.parametrize("bag", ["bag", ["n", "bag"]], ids=["one", "two"])
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_frames(library, missing, bag):
    for table in tables():
        refuses(Bags.from_frame, LIBRARIES[library](table), bag=bag, missing=missing)


@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
@pytest.mark.parametrize("read", [Bags.from_parquet, Bags.scan_parquet])
def test_files(read, missing, tmp_path):
    path, points = tmp_path / "t.parquet", tmp_path / "points.parquet"
    for table in tables():
        pq.write_table(table, path)
        refuses(read, path, bag="bag", missing=missing)
        pq.write_table(table.select(["bag", "x"]), points)
        labels = table.select(["bag", "y"]).take([0, 2])
        refuses(read, points, bag="bag", missing=missing, labels=labels)


@pytest.mark.parametrize("column", ["bag", "y"])
def test_one_odd_value_among_others(column):
    """A list beside words, and a pair that holds a list beside pairs of numbers."""
    frame = pd.DataFrame({"bag": ["a", "a", "b", "b"], **COLUMNS})
    for odd in (["u", "u", ["v"], "v"], [(1, 2), (1, 2), (1, [2]), (1, [2])]):
        frame[column] = pd.Series(odd, dtype=object)
        with pytest.raises(BagwiseError, match=f"column '{column}' holds values of type"):
            Bags.from_frame(frame, bag="bag", label="y", features=["x"])
