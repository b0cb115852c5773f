"""Data frames as plain arrays (pandas, polars, pyarrow), and which of their cells are numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time, timedelta
from decimal import Decimal
from functools import cached_property
from numbers import Real
from typing import Any, Self

import narwhals as nw
import numpy as np
from jaxtyping import Float, Float64, Int, Shaped

from bagwise.bags.per_bag import check_single, missing
from bagwise.bags.validation import Names, show
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

# What stands for a missing number. Text is only missing if it is empty: "NA" may be Namibia.
NO_NUMBER = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")
# Other ways to write numbers, to be suggested where the given one does not fit: (decimal,
# thousands).
STYLES = ((".", ","), (",", None), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "\u00a0"))
# Cells that are tried in other ways; they decide only which remedy is named.
TRIED = 1000
# So many different numbers in a column of labels are codes of classes; more are measurements.
CLASS_CODES = 10
CODE = re.compile(r"[+-]?0[0-9]")  # 007: a code, of which a number would lose the zeros

NaCode = str | float


@dataclass(frozen=True)
class Cells:
    """How the cells of a table are written.

    Attributes
    ----------
    sep : str or None
        Between the fields of a CSV file; None: as the file's name says.
    decimal, thousands : str, str or None
        The marks in numbers that are text, such as ``1.234,5``.
    na_values : dict of tuples
        Column, or None for all but the bag, ↦ what stands for a missing value there.

    Examples
    --------
    >>> cells = Cells.of(decimal=",", thousands=".", na_values=[-999, "n.d."])
    >>> [cells.number(text) for text in ("1.234,5", "-3", "1.23", "n.d.")]
    [1234.5, -3.0, None, None]
    >>> cells.codes("x")
    (frozenset({'n.d.'}), (-999.0,))
    """

    sep: str | None = None
    decimal: str = "."
    thousands: str | None = None
    na_values: dict[str | None, tuple[NaCode, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sep: str | None = None,
        decimal: str = ".",
        thousands: str | None = None,
        na_values: Any = (),
    ) -> Self:
        """Check what a user says; na_values are one value, several, or a dict of columns."""
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep) if isinstance(sep, str) else sep
        for name, mark in (("sep", sep), ("decimal", decimal), ("thousands", thousands)):
            given = mark is not None or name == "decimal"
            if given and not (isinstance(mark, str) and len(mark) == 1 and _is_mark(mark, name)):
                raise BagwiseError.because(
                    f"{name} = {mark!r}",
                    "one character that is no digit, letter, sign or quotation mark",
                    f'For example {name}="{";" if name == "sep" else ","}".',
                )
        if decimal == thousands:
            raise BagwiseError.because(
                f"decimal and thousands are both {decimal!r}", "two marks", "Change one of them."
            )
        return cls(sep, decimal, thousands, _na_values(na_values))

    def codes(self, name: str) -> tuple[frozenset[str], tuple[float, ...]]:
        """Return what stands for a missing value in a column: as text, and as numbers."""
        if not self.na_values:
            return frozenset(), ()
        given = (*self.na_values.get(None, ()), *self.na_values.get(name, ()))
        texts = frozenset(code for code in given if isinstance(code, str))
        # A code may be written as numbers are in the table, or as they are here.
        values = {cells.number(code): None for code in given for cells in (self, Cells())}
        return texts, tuple(value for value in values if value is not None)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = rf"(?:[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+)"
        mark = re.escape(self.decimal)
        return re.compile(
            rf"[+-]?(?:(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)",
            re.IGNORECASE,
        )

    def number(self, cell: Any) -> float | None:
        """Return the number that a cell is or says, or None."""
        if isinstance(cell, str):
            text = cell.strip()
            if not self._pattern.fullmatch(text):
                return None
            if self.thousands is not None:
                text = text.replace(self.thousands, "")
            return float(text.replace(self.decimal, "."))
        if isinstance(cell, Real | Decimal | np.bool_):
            try:
                return float(cell)
            except OverflowError:  # an integer of more than 308 digits
                return None
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return these in types that JSON has."""
        return {
            "sep": self.sep,
            "decimal": self.decimal,
            "thousands": self.thousands,
            "na_values": [[column, list(codes)] for column, codes in self.na_values.items()],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return what :meth:`to_dict` wrote; raise a ValueError or TypeError for anything else."""
        given = {column: tuple(codes) for column, codes in data["na_values"]}
        return cls.of(data["sep"], data["decimal"], data["thousands"], given)


def _is_mark(mark: str, name: str) -> bool:
    quotes = '"' if name == "thousands" else "\"'"  # Switzerland writes 1'234
    return (
        mark not in quotes + "+-\r\n\0" and not mark.isalnum() and (name != "sep" or mark < "\x80")
    )


def _na_values(given: Any) -> dict[str | None, tuple[NaCode, ...]]:
    """Return codes by column, None for all columns."""
    if isinstance(given, Mapping):
        return {n if n is None else str(n): _codes(codes) for n, codes in given.items()}
    codes = () if given is None else _codes(given)
    return {None: codes} if codes else {}


def _codes(given: Any) -> tuple[NaCode, ...]:
    several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
    codes = [c.item() if isinstance(c, np.generic) else c for c in (given if several else [given])]
    for code in codes:
        if isinstance(code, bool) or not isinstance(code, str | int | float):
            raise BagwiseError.because(
                f"na_values has {show(code)}",
                "text or numbers that stand for a missing value",
                'For example na_values=[-999, "n.d."], or {"age": 99} for one column.',
            )
    return tuple(codes)


class Tally:
    """How many cells of a column are numbers, as batches of it come.

    Attributes
    ----------
    n_cells, n_numbers : cells that are not missing; those of them that are numbers
    odd : the first cell that is no number, with its row; None if there is none
    code : the first number that would lose zeros in front, such as ``"007"``
    """

    def __init__(self, name: str, cells: Cells) -> None:
        self._name, self._cells, self._n_rows = name, cells, 0
        self._texts, _ = cells.codes(name)
        self._distinct: set[float] = set()
        self._tried: list[str] = []
        self.n_cells, self.n_numbers = 0, 0
        self.odd: tuple[int, Any] | None = None
        self.code: str | None = None

    def add(self, column: Shaped[np.ndarray, " n_rows"]) -> None:
        """Count the cells of some rows."""
        counts: dict[Any, int] = Counter(hashable(column[~missing(column)].tolist()))
        for cell, count in counts.items():
            if self._is_missing(cell):
                continue
            self.n_cells += count
            value = self._cells.number(cell)
            if value is None:
                if self.odd is None:
                    rows = column.tolist()
                    where = list(hashable(rows)).index(cell)
                    self.odd = self._n_rows + where, rows[where]
                if isinstance(cell, str) and len(self._tried) < TRIED:
                    self._tried += [cell] * min(count, TRIED)
                continue
            self.n_numbers += count
            if len(self._distinct) <= CLASS_CODES:
                self._distinct.add(value)
            if self.code is None and isinstance(cell, str) and CODE.match(cell.strip()):
                self.code = cell
        self._n_rows += len(column)

    def merge(self, other: Tally) -> None:
        """Add the count of other rows, which come after these."""
        self.n_cells += other.n_cells
        self.n_numbers += other.n_numbers
        if self.odd is None and other.odd is not None:
            self.odd = self._n_rows + other.odd[0], other.odd[1]
        self.code = self.code or other.code
        self._tried += other._tried[: max(0, TRIED - len(self._tried))]
        self._distinct |= other._distinct
        self._n_rows += other._n_rows

    def _is_missing(self, cell: Any) -> bool:
        return isinstance(cell, str) and (cell.strip() in NO_NUMBER or cell in self._texts)

    @property
    def all_numbers(self) -> bool:
        """Whether every cell that is not missing is a number."""
        return 0 < self.n_cells == self.n_numbers

    @property
    def measured(self) -> bool:
        """Whether the numbers are too many to be codes of classes."""
        return len(self._distinct) > CLASS_CODES

    def floats(self, column: Shaped[np.ndarray, " n_rows"]) -> Float64[np.ndarray, " n_rows"]:
        """Return the cells of a column that are all numbers or missing."""
        absent, cells = missing(column), column.tolist()
        known = {
            cell: np.nan if self._is_missing(cell) else self._cells.number(cell)
            for cell in {c for c, gap in zip(cells, absent, strict=True) if not gap}
        }
        return np.array(
            [np.nan if gap else known[c] for c, gap in zip(cells, absent, strict=True)],
            dtype=np.float64,
        )

    def refusal(self, error: type[BagwiseError] = InvalidBagsError) -> BagwiseError | None:
        """Return the error for a column of which most cells, but not all, are numbers."""
        if self.odd is None:
            return None
        style = self._other_style()
        if self.n_numbers * 2 <= self.n_cells and style is None:
            return None
        row, cell = self.odd
        return error.because(
            f"column {self._name!r}: {self.n_numbers:,} of {self.n_cells:,} are numbers; "
            f"row {row:,} is {show(cell)}",
            "numbers only",
            f"If it is a number, say {style}."
            if style
            else f"Correct the cell, or say na_values={show(cell)} (--na) if it stands for a "
            "missing value; to leave the column out, name the others with features=[...].",
        )

    def _other_style(self) -> str | None:
        """Return the marks with which most cells would be numbers; two if both would do."""
        found: dict[str, float] = {}
        for decimal, thousands in STYLES:
            style = replace(self._cells, decimal=decimal, thousands=thousands)
            parsed = [style.number(cell) is not None for cell in self._tried]
            share = sum(parsed) / max(1, len(parsed))
            rest = self.n_cells - self.n_numbers
            if share > 0.5 and self.n_numbers + share * rest > self.n_cells / 2:
                says = [f"decimal={decimal!r}"] if decimal != self._cells.decimal else []
                says += [f"thousands={thousands!r}"] if thousands else []
                found[" and ".join(says)] = share
        best = [marks for marks, share in found.items() if share == max(found.values())]
        fewest = min((marks.count("=") for marks in best), default=0)
        return " or ".join(marks for marks in best if marks.count("=") == fewest) or None


def hashable(cells: list[Any]) -> Iterator[Any]:
    """Return cells as they are, or as text if they cannot be hashed."""
    for cell in cells:
        try:
            hash(cell)
        except TypeError:
            yield repr(cell)
        else:
            yield cell


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
    """Write names for a message: quoted, with commas; of many or endless ones the first.

    >>> listing(["a", "b"])
    "'a', 'b'"
    """
    names = list(names)
    said = [f"{text[:40]}…" if len(text := repr(name)) > 50 else text for name in names[:15]]
    more = [f"and {len(names) - 15:,} more"] if len(names) > 15 else []
    return ", ".join(said + more) or "none"


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
    :func:`bagwise.bags.per_bag.missing`.
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
