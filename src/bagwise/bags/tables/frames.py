"""Data frames as plain arrays: pandas, polars and pyarrow, all through narwhals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, KeysView, Sequence
from datetime import date, time, timedelta
from functools import cached_property
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Int, Shaped

from bagwise.bags.grouping import check_single, show
from bagwise.bags.tables.cells import Cells, Tally, hashable
from bagwise.bags.validation import Names
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

PLAIN = Cells()
# Rows up to which columns are kept as floats once they are: tables of many columns have few rows,
# and converting takes longer than to look at the numbers. Of very few, all columns are converted
# together: to take one from its frame takes as long as to copy 10,000 numbers.
SHORT = 1 << 14
FEW = 1 << 10

# Why columns of a type are no features, in words; and objects, by the type of the first.
KINDS: dict[str, Any] = {
    "dates": (nw.Date, nw.Datetime, date),
    "times of day": (nw.Time, time),
    "durations": (nw.Duration, timedelta),
    "complex numbers": complex,
    "lists": (nw.List, nw.Array, list, tuple, np.ndarray),
    "records": (nw.Struct, dict),
    "bytes": (nw.Binary, bytes),
}


class Table:
    """A data frame whose columns are found by name at once, however many there are.

    Attributes
    ----------
    frame : DataFrame of narwhals
    """

    def __init__(self, frame: nw.DataFrame[Any]) -> None:
        self.frame = frame
        self._floats: dict[str, Float[np.ndarray, " n_rows"]] = {}
        self._ids: dict[str, Shaped[np.ndarray, " n_rows"]] = {}
        self._full: set[str] = set()  # columns of floats of which it is known that all are there

    @cached_property
    def _types(self) -> dict[str, Any]:
        return {str(name): dtype for name, dtype in self.frame.schema.items()}

    @cached_property
    def _own_names(self) -> dict[str, Any]:
        """Name ↦ what the frame calls the column, which may be a number in pandas."""
        return {str(name): name for name in self.frame.columns}

    @property
    def columns(self) -> KeysView[str]:
        """Names of the columns, in order."""
        return self._types.keys()

    def get_column(self, name: str) -> nw.Series[Any]:
        """Return a column."""
        return self.frame.get_column(self._own_names[name])

    def dtype(self, name: str) -> Any:
        """Return the type of a column."""
        return self._types[name]

    def floats(self, name: str) -> Float[np.ndarray, " n_rows"]:
        """Return a column of a numeric type as floats; float32 stays."""
        if name in self._floats:
            return self._floats[name]
        dtype = self._types[name]
        is_float = isinstance(dtype, nw.Float32 | nw.Float64)
        if is_float and len(self) <= FEW:
            self._convert(dtype)
            return self._floats[name]
        column = self.get_column(name)
        found = (column if is_float else column.cast(nw.Float64)).to_numpy()
        if len(self) <= SHORT:
            self._floats[name] = found
        return found

    def is_full(self, name: str) -> bool:
        """Whether it is known of a column, or soon found out, that no number of it is missing."""
        dtype = self._types[name]
        if isinstance(dtype, nw.Float32 | nw.Float64):
            if name not in self._floats and len(self) <= FEW:
                self._convert(dtype)
            return name in self._full
        return is_number(dtype) and not self.get_column(name).null_count()

    def _convert(self, dtype: Any) -> None:
        """Make floats of all columns of a type of floats together."""
        places = {name: k for k, (name, own) in enumerate(self._types.items()) if own == dtype}
        chosen = self.frame[:, list(places.values())]
        block = chosen.to_numpy()
        if block.dtype.kind != "f":  # objects, from pandas where pyarrow is below it
            block = np.column_stack([column.to_numpy() for column in chosen.iter_columns()])
        self._floats |= zip(places, block.T, strict=True)
        gaps = np.count_nonzero(np.isnan(block), axis=0)
        self._full |= {name for name, gap in zip(places, gaps, strict=True) if not gap}

    def ids(self, bag: Sequence[str]) -> tuple[Shaped[np.ndarray, " n_rows"], ...]:
        """Return the columns of the bag id; raise if one holds what cannot be an id, as lists."""
        for name in bag:
            if name not in self._ids:
                self._ids[name] = values(self.get_column(name))
                check_single(self._ids[name], f"the bag column {name!r}")
        return tuple(self._ids[name] for name in bag)

    def __len__(self) -> int:
        return len(self.frame)

    def take(self, rows: Int[np.ndarray, " k"]) -> Table:
        """Return some rows."""
        return Table(self.frame[rows])


def open_frame(frame: Any, what: str = "data frame") -> Table:
    """Wrap a data frame, its columns named by strings, or say which can be read."""
    if isinstance(frame, Table):
        return frame
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
    check_different(table.columns, f"the {what}")
    return Table(table)


def check_different(names: Iterable[Any], what: str) -> None:
    """Raise if two columns have the same name, once names are strings."""
    name, times = next(iter(Counter(map(str, names)).most_common(1)), ("", 1))
    if times > 1:
        raise InvalidBagsError.because(
            f"{what} cannot be read (it has a column named {name!r} {times} times)",
            "a frame whose column names are all different",
            "Rename or drop columns.",
        )


def _arrow_values(frame: Any) -> Any:
    """Return a pyarrow table or batch with dictionaries as the values they stand for."""
    if type(frame).__module__.partition(".")[0] != "pyarrow":
        return frame
    import pyarrow as pa

    if isinstance(frame, pa.RecordBatch):
        frame = pa.Table.from_batches([frame])
    if isinstance(frame, pa.Table) and any(map(pa.types.is_dictionary, frame.schema.types)):
        columns = [
            column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            for column in frame.itercolumns()
        ]
        frame = pa.table(columns, names=frame.column_names)
    return frame


def name_list(names: Any) -> list[str]:
    """Return one name, several or none as a list of strings.

    Examples
    --------
    >>> name_list("x"), name_list(("x", "y")), name_list([0, 1]), name_list(None)
    (['x'], ['x', 'y'], ['0', '1'], [])
    """
    if names is None or isinstance(names, str):
        return [] if names is None else [names]
    try:
        return [str(name) for name in names]
    except TypeError:
        raise BagwiseError.because(
            f"{show(names)} is given as the name of a column",
            "a name, or a list of names",
            "Give names of columns as strings.",
        ) from None


def listing(names: Any) -> str:
    """Write names for a message: quoted, with commas."""
    return ", ".join(map(repr, names)) or "none"


def check_present(table: Table, names: Any, what: str = "data frame") -> None:
    """Raise unless a table has all these columns."""
    absent = [name for name in names if name not in table.columns]
    if absent:
        index = getattr(getattr(table.frame.to_native(), "index", None), "names", ())
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
    if column.dtype.is_integer() and column.null_count():
        return np.array(column.to_list(), dtype=object)  # floats would round ids beyond 2^53
    array = column.to_numpy()
    if array.ndim > 1:  # records, and lists of one length, from polars
        return np.fromiter(column.to_list(), dtype=object, count=len(column))
    if array.dtype.kind == "O" and len(array) and all(type(value) is date for value in array):
        return array.astype("datetime64[D]")
    if array.dtype.kind == "M" and array.dtype != np.dtype("datetime64[D]"):
        micro = array.astype("datetime64[us]")
        exact = (micro.astype(array.dtype) == array) | np.isnat(array)
        return micro if exact.all() else array
    return array


def numbers(
    table: Table, name: str, cells: Cells = PLAIN, error: type[BagwiseError] = InvalidBagsError
) -> Float[np.ndarray, " rows"]:
    """Return a column of numbers as floats, missing values as NaN; float32 stays.

    Truth values are 0 and 1; text and objects are numbers if all of them are.
    """
    if is_number(table.dtype(name)):
        found = table.floats(name)
    else:
        tally = check_numbers(table, name, tally_of(table, name, cells), error)
        found = tally.floats(values(table.get_column(name)))
    return without_codes(found, cells, name)


def check_numbers(
    table: Table, name: str, tally: Tally | None, error: type[BagwiseError] = InvalidBagsError
) -> Tally:
    """Return the tally of a column whose cells are all numbers or missing; raise if not."""
    refusal = None if tally is None else tally.refusal(error)
    if refusal is not None:
        raise refusal
    if tally is None or tally.odd is not None:
        raise error.because(
            f"column {name!r} has type {table.dtype(name)}",
            "numbers",
            "Leave it out of the features, or encode it as numbers (dates as a number of days, "
            f"categories with one_hot={name!r}, text with a numeric cast).",
        )
    return tally


def is_number(dtype: Any) -> bool:
    """Whether every value of a type is a number, or a truth value."""
    return bool(dtype.is_numeric()) or isinstance(dtype, nw.Boolean)


def tally_of(table: Table, name: str, cells: Cells) -> Tally | None:
    """Count the numbers among the cells of a column, or None if its type cannot hold any."""
    if not may_hold_numbers(table.dtype(name)):
        return None
    tally = Tally(name, cells)
    tally.add(values(table.get_column(name)))
    return tally


def may_hold_numbers(dtype: Any) -> bool:
    """Whether a type that is not numeric may hold numbers: text, objects, and types unknown."""
    return isinstance(dtype, nw.String | nw.Object | nw.Unknown | nw.Categorical | nw.Enum)


def why_no_numbers(table: Table, name: str, tally: Tally | None) -> str | None:
    """Say why a column is no feature unless it is named; None if it is one."""
    dtype = table.dtype(name)
    if is_number(dtype):
        return None
    if tally is None:
        return next((words for words, kind in KINDS.items() if isinstance(dtype, kind)), str(dtype))
    if tally.n_cells == 0:
        return "no value at all"
    if tally.code is not None and tally.odd is None:
        return f"codes, such as {show(tally.code)}"
    if tally.odd is None:
        return None
    odd = tally.odd[1]
    known = next((words for words, kind in KINDS.items() if isinstance(odd, kind)), None)
    return known or f"{'text' if isinstance(odd, str) else 'objects'}, such as {show(odd)}"


def is_coded(
    column: Shaped[np.ndarray, " rows"], cells: Cells, name: str
) -> Shaped[np.ndarray, " rows"] | None:
    """Which values stand for missing ones, by na_values; None if none does."""
    texts, codes = cells.codes(name)
    if not texts and not codes:
        return None
    if column.dtype.kind in "fiub":
        # In the column's own precision: a code is written as it is shown.
        coded = np.isin(column, np.array(codes, dtype=np.float64).astype(column.dtype))
    elif column.dtype.kind in "OUT":
        known = {*texts, *codes}
        coded = np.array([value in known for value in hashable(column.tolist())], dtype=bool)
    else:
        return None
    return coded if coded.any() else None


def without_codes(
    column: Shaped[np.ndarray, " rows"], cells: Cells, name: str
) -> Shaped[np.ndarray, " rows"]:
    """Return a column with None, or NaN among floats, where a value stands for a missing one."""
    coded = is_coded(column, cells, name)
    if coded is None:
        return column
    if column.dtype.kind == "f":
        return np.where(coded, column.dtype.type(np.nan), column)
    column = column.astype(object)
    column[coded] = None
    return column


def label_values(table: Table, name: str, cells: Cells = PLAIN) -> Shaped[np.ndarray, " n_rows"]:
    """Return labels row by row: numbers as they are (floats if any is missing), others as values.

    Examples
    --------
    >>> import pyarrow as pa
    >>> label_values(open_frame(pa.table({"y": [1, None]})), "y")
    array([ 1., nan])
    """
    column = table.get_column(name)
    if table.dtype(name).is_numeric():
        rows = None if column.null_count() else values(column)
        if rows is None or rows.dtype.kind == "O" or is_coded(rows, cells, name) is not None:
            return numbers(table, name, cells, InvalidLabelsError)
        return rows
    rows = values(column)
    check_single(rows, f"label column {name!r}", InvalidLabelsError)
    return without_codes(rows, cells, name)


def frame_matrix(frame: Any) -> tuple[Float[np.ndarray, "rows columns"], Names]:
    """Return numeric columns side by side, float32 if all of them are, and their names if text."""
    table = open_frame(frame)
    names = list(table.columns)
    single = bool(names) and all(isinstance(table.dtype(name), nw.Float32) for name in names)
    out = np.empty((len(table), len(names)), dtype=np.float32 if single else np.float64)
    for position, name in enumerate(names):
        out[:, position] = numbers(table, name)
    named = all(isinstance(name, str) for name in table.frame.columns)
    return out, tuple(names) if named else None
