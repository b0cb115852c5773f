"""Cells that hold lists or records: refused by the name of their column, whatever is wrong too."""

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.bags.bags import Bags
from bagwise.exceptions import BagwiseError

NESTED = {
    "lists": [[1], [1], [2, 3], [2, 3]],
    "lists of a length": [[1, 2], [1, 2], [3, 4], [3, 4]],
    "records": [{"u": 1}, {"u": 1}, {"u": 2}, {"u": 2}],
    "lists, one missing": [[1], None, [2, 3], [2, 3]],
}
COLUMNS = {
    "bag": ["a", "a", "b", "b"],
    "n": [1, 1, 2, 2],
    "x": [1.0, 2.0, 3.0, 4.0],
    "c": [0.5, 0.5, 1.5, 1.5],
    "y": [0.5, 0.5, 1.5, 1.5],
}
ROLES = {
    "bag": {"features": ["x"], "label": "y"},
    "y": {"features": ["x"], "label": "y"},
    "c": {"features": ["x"], "covariates": "c", "one_hot": "c"},
    "x": {"features": ["x", "n"], "one_hot": {"x": [1, 2]}},
}
# What else may be wrong, and would be said of a bag by its id.
TROUBLE = {
    "nothing": {},
    "feature": {"x": [1.0, None, 3.0, None]},
    "infinite": {"x": [1.0, 2.0, 3.0, float("inf")]},
    "label": {"y": [0.5, 0.5, None, None]},
    "label that changes": {"y": [0.5, 0.6, 1.5, 1.5]},
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
    for name, dtype in frame.schema.items():
        lengths = frame[name].list.len().unique() if dtype == pl.List else []
        if len(lengths) == 1:
            frame = frame.cast({name: pl.Array(pl.Int64, lengths[0])})
    return frame


def tables(column, trouble=TROUBLE):
    for cells in NESTED.values():
        for changes in trouble.values():
            yield pa.table({**COLUMNS, **changes, column: cells})


def refuses(column, read, *arguments, **options):
    """A missing cell may be found first, of this column or of the label."""
    words = rf"column '{column}' (holds values of type|is missing)|label column 'y' is missing"
    with pytest.raises(BagwiseError, match=words):
        read(*arguments, **ROLES[column], **options)


@pytest.mark.crossed
@pytest.mark.parametrize("options", [{}, {"na_values": ["-", 9]}], ids=["plain", "codes"])
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("column", ROLES)
def test_frames(column, library, missing, options):
    trouble = TROUBLE if column == "bag" else {"nothing": {}}
    for table in tables(column, trouble):
        frame = LIBRARIES[library](table)
        refuses(column, Bags.from_frame, frame, bag="bag", missing=missing, **options)
        if column == "bag":
            refuses(column, Bags.from_frame, frame, bag=["n", "bag"], missing=missing, **options)


@pytest.mark.crossed
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
@pytest.mark.parametrize("read", [Bags.from_parquet, Bags.scan_parquet])
@pytest.mark.parametrize("column", ROLES)
def test_files(column, read, missing, tmp_path):
    path = tmp_path / "t.parquet"
    for table in tables(column, TROUBLE if column == "bag" else {"nothing": {}}):
        pq.write_table(table, path)
        refuses(column, read, path, bag="bag", missing=missing)
        if column in ("bag", "y"):
            labels = table.select(["bag", "y"]).take([0, 2])
            pq.write_table(table.drop_columns(["y"]), path)
            refuses(column, read, path, bag="bag", missing=missing, labels=labels)


@pytest.mark.parametrize("column", ROLES)
def test_one_odd_value_among_others(column):
    """A list beside words, and a pair that holds a list beside pairs of numbers."""
    frame = pd.DataFrame(COLUMNS)
    for odd in (["u", "u", ["v"], "v"], [(1, 2), (1, 2), (1, [2]), (1, [2])]):
        frame[column] = pd.Series(odd, dtype=object)
        refuses(column, Bags.from_frame, frame, bag="bag")
