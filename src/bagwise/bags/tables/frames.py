"""Data frames as plain arrays: pandas, polars and pyarrow, all through narwhals."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Float64, Int, Shaped
from narwhals.dependencies import is_into_dataframe

from bagwise.bags.grouping import Grouping, group_rows, id_array, missing, plain
from bagwise.bags.validation import Names, matrix
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

is_frame = is_into_dataframe


def open_frame(frame: Any, what: str = "data frame") -> nw.DataFrame[Any]:
    """Wrap a data frame for narwhals, its columns named by strings, or say which can be read.

    Examples
    --------
    >>> import pyarrow as pa
    >>> open_frame(pa.table({"x": [1, 2]})).columns
    ['x']
    """
    try:
        table = nw.from_native(_arrow_values(frame), eager_only=True)
    except TypeError:
        lazy = type(frame).__name__ == "LazyFrame"
        raise InvalidBagsError.because(
            f"got a {type(frame).__name__} as {what}",
            "a pandas or polars DataFrame or a pyarrow Table",
            "Call .collect() on it first." if lazy else "Use Bags.from_groups for arrays.",
        ) from None
    except ValueError as error:  # narwhals: column names that repeat
        raise InvalidBagsError.because(
            f"the {what} cannot be read ({' '.join(str(error).split())})",
            "a frame whose column names are all different",
            "Rename or drop columns.",
        ) from error
    odd = {name: str(name) for name in table.columns if not isinstance(name, str)}
    return table.rename(odd) if odd else table


def _arrow_values(frame: Any) -> Any:
    """Return a pyarrow table or batch with dictionaries as the values they stand for."""
    if type(frame).__module__.partition(".")[0] != "pyarrow":
        return frame
    import pyarrow as pa

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table):
        for position, field in enumerate(frame.schema):
            if pa.types.is_dictionary(field.type):
                column = frame.column(position).cast(field.type.value_type)
                frame = frame.set_column(position, field.name, column)
    return frame


def name_list(names: Any) -> list[str]:
    """Return one name or several as a list of strings.

    Examples
    --------
    >>> name_list("x"), name_list(("x", "y")), name_list([0, 1])
    (['x'], ['x', 'y'], ['0', '1'])
    """
    return [names] if isinstance(names, str) else [str(name) for name in names]


def listing(names: Any) -> str:
    """Write names for a message: quoted, with commas."""
    return ", ".join(map(repr, names)) or "none"


def check_present(table: nw.DataFrame[Any], names: Any, what: str = "data frame") -> None:
    """Raise unless a table has all these columns."""
    absent = [name for name in names if name not in table.columns]
    if absent:
        index = getattr(getattr(table.to_native(), "index", None), "names", ())
        raise InvalidBagsError.because(
            f"the {what} has no column {listing(absent)}",
            f"one of its columns: {listing(table.columns)}",
            "Call .reset_index() first: it is in the index."
            if absent[0] in index
            else "Check the spelling.",
        )


def values(column: nw.Series[Any]) -> Shaped[np.ndarray, " n_rows"]:
    """Return a column of any type: categories as what they stand for, dates as datetime64.

    The same values come back whichever library the column is from; see also
    :func:`bagwise.bags.grouping.missing`.
    """
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        native = getattr(column.to_native(), "dtype", None)
        if getattr(native, "name", "") != "category":  # pandas has categories of any type
            column = column.cast(nw.String)
    array = column.to_numpy()
    if array.dtype.kind == "O" and len(array) and all(type(value) is date for value in array):
        return array.astype("datetime64[D]")
    if array.dtype.kind == "M" and array.dtype != np.dtype("datetime64[D]"):
        micro = array.astype("datetime64[us]")
        exact = (micro.astype(array.dtype) == array) | np.isnat(array)
        return micro if exact.all() else array
    return array


def numbers(
    table: nw.DataFrame[Any], name: str, error: type[BagwiseError] = InvalidBagsError
) -> Float[np.ndarray, " rows"]:
    """Return a numeric or boolean column as floats, missing values as NaN; float32 stays."""
    column = table.get_column(name)
    if isinstance(column.dtype, nw.Object | nw.Unknown):
        found = _object_numbers(column.to_numpy())
        if found is not None:
            return found
    if not (column.dtype.is_numeric() or isinstance(column.dtype, nw.Boolean)):
        raise error.because(
            f"column {name!r} has type {column.dtype}",
            "numbers",
            "Leave it out of the features, or encode it as numbers (dates as a number of days, "
            f"categories with one_hot={name!r}, text with a numeric cast).",
        )
    single = isinstance(column.dtype, nw.Float32)
    return column.cast(nw.Float32 if single else nw.Float64).to_numpy()


def _object_numbers(array: Shaped[np.ndarray, " rows"]) -> Float64[np.ndarray, " rows"] | None:
    """Return objects that are all numbers, truth values or missing as floats; None if not."""
    absent = missing(array)
    if not all(isinstance(value, bool | int | float | np.number) for value in array[~absent]):
        return None
    out = np.full(len(array), np.nan)
    out[~absent] = array[~absent].astype(np.float64)
    return out


def label_values(table: nw.DataFrame[Any], name: str) -> Shaped[np.ndarray, " n_rows"]:
    """Return labels row by row: numbers as they are (floats if any is missing), others as values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> label_values(open_frame(pa.table({"y": [1, None]})), "y")
    array([ 1., nan])
    """
    column = table.get_column(name)
    gaps = column.dtype.is_numeric() and column.is_null().any()
    return numbers(table, name, InvalidLabelsError) if gaps else values(column)


def group_columns(columns: tuple[Shaped[np.ndarray, " n_rows"], ...]) -> Grouping:
    """Group rows by one or several id columns; the ids of several are tuples.

    Examples
    --------
    >>> group_columns((np.array([1, 1, 2]), np.array(["a", "b", "a"]))).ids.tolist()
    [(1, 'a'), (1, 'b'), (2, 'a')]
    """
    if len(columns) == 1:
        return group_rows(columns[0])
    codes = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        part = group_rows(column)
        within = np.repeat(np.arange(len(part.ids)), np.diff(part.offsets))
        own = np.empty(len(codes), dtype=np.int64)
        own[slice(None) if part.order is None else part.order] = within
        # Numbered anew after every column, so that the products cannot overflow.
        codes = np.unique(codes * len(part.ids) + own, return_inverse=True)[1].astype(np.int64)
    grouping = group_rows(codes)
    return replace(
        grouping,
        ids=composite_ids(columns, grouping.sort(np.arange(len(codes)))[grouping.offsets[:-1]]),
    )


def composite_ids(
    columns: tuple[Shaped[np.ndarray, " n_rows"], ...], rows: Int[np.ndarray, " n_ids"]
) -> Shaped[np.ndarray, " n_ids"]:
    """Return the ids of some rows: tuples of plain Python values if there are several columns.

    Examples
    --------
    >>> columns = (np.array([1, 2]), np.array(["2020-01-01", "2020-01-02"], dtype="M8[D]"))
    >>> composite_ids(columns, np.array([1]))
    array([(2, datetime.date(2020, 1, 2))], dtype=object)
    """
    if len(columns) == 1:
        return plain(columns[0][rows])
    # A list of datetime64[ns] would be one of integers.
    parts = [
        list(chosen) if chosen.dtype.str.endswith("[ns]") else chosen.tolist()
        for chosen in (column[rows] for column in columns)
    ]
    return id_array(list(zip(*parts, strict=True)))


def bag_labels(frame: Any, bag: str, label: str) -> Shaped[np.ndarray, " n_bags"]:
    """Return one label per bag, in the order in which bags first appear in the frame.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bag_labels(pa.table({"bag": ["b", "a", "b"], "y": [1.0, 2.0, 1.0]}), "bag", "y")
    array([1., 2.])
    """
    table = open_frame(frame)
    check_present(table, [bag, label])
    grouping = group_rows(values(table.get_column(bag)))
    rows = label_values(table, label)
    return plain(grouping.constant(rows, f"label column {label!r}", InvalidLabelsError))


def to_matrix(rows: Any, what: str) -> tuple[Float[np.ndarray, "rows columns"], Names]:
    """Return a 2-D float array and its column names, from a data frame or anything array-like.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_matrix(pa.table({"x": [1, 2]}), "bag 0")
    (array([[1.], [2.]]), ('x',))
    """
    if not is_frame(rows):
        return matrix(rows, what), None
    table = open_frame(rows)
    named = all(isinstance(name, str) for name in nw.from_native(rows).columns)
    array = matrix(_matrix(table, list(table.columns)), what)
    return array, tuple(table.columns) if named else None


def _matrix(table: nw.DataFrame[Any], names: list[Any]) -> Float[np.ndarray, "rows columns"]:
    """Return numeric columns side by side: float32 if all of them are, else float64."""
    single = bool(names) and all(
        isinstance(table.get_column(name).dtype, nw.Float32) for name in names
    )
    out = np.empty((len(table), len(names)), dtype=np.float32 if single else np.float64)
    for position, name in enumerate(names):
        out[:, position] = numbers(table, name)
    return out
