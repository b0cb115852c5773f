"""Grouping: which rows belong to which bag."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from bagwise.exceptions import BagwiseError, InvalidBagsError

# Characters of a value that a message shows: an id or a cell may be a page of text.
LONGEST_SHOWN = 80

# Integers from which they are numbered by hashing: sorting takes six times as long, and importing
# pyarrow as long as sorting some hundred thousand.
MANY_VALUES = 1 << 15

# Integer ids have a table if it has at most so many entries for each.
SPARSE = 4

# NumPy's scalars have Python's own types, by which ids are compared.
PYTHON_TYPES = ((bool, np.bool_), (int, np.integer), (str, np.str_), (float, np.floating))
MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})  # by name: pandas may not be installed


def missing(values: Shaped[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which values are missing: NaN, NaT, None or pandas.NA.

    Examples
    --------
    >>> missing(np.array(["a", None], dtype=object))
    array([False,  True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    suspects = set(map(type, values)) if values.dtype.kind == "O" else set()
    if not any(kind.__name__ in MISSING_TYPES or issubclass(kind, float) for kind in suspects):
        return np.zeros(len(values), dtype=bool)
    absent = (
        type(value).__name__ in MISSING_TYPES or (isinstance(value, float) and value != value)
        for value in values
    )
    return np.fromiter(absent, dtype=bool, count=len(values))


class CountedIds(np.ndarray):
    """Ids that nobody gave: they number the bags as they were made, and name none of them.

    Parts of such an array are of this class too, so that it is still known of some of the bags.
    """

    @classmethod
    def of(cls, n_bags: int) -> CountedIds:
        """Return 0, 1, 2, ..."""
        return np.arange(n_bags, dtype=np.int64).view(cls)


def id_array(values: Any) -> Shaped[np.ndarray, " n"]:
    """Return ids of one hashable type as a 1-D array.

    Integers become int64 and strings a NumPy string array; other types are kept as objects.

    Examples
    --------
    >>> id_array(["a", "b"])
    array(['a', 'b'], dtype='<U1')
    """
    return values if isinstance(values, CountedIds) else plain(_checked_ids(values))


def check_distinct(ids: Shaped[np.ndarray, " n"]) -> None:
    """Raise if two bags have the same id."""
    first: dict[Any, int] = {}
    for position, bag in enumerate(ids.tolist()):
        if first.setdefault(bag, position) != position:
            raise InvalidBagsError.because(
                f"two bags have the id {show(bag)}: positions {first[bag]} and {position}",
                "an id of its own for every bag",
                "Rename one; if their points are one bag, use Bags.from_groups(X, groups).",
            )


def plain(array: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Give objects that are all numbers or strings the NumPy dtype they could have had.

    Integers beyond 64 bits stay: NumPy would make floats of them, and two ids may become one.
    """
    if array.dtype.kind == "O" and len(array) and _kind(type(array[0])) in (int, float, str, bool):
        if _kinds(array) == {int}:
            low, high = array.min(), array.max()
            for dtype in (np.int64, np.uint64):
                if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                    return array.astype(dtype)
            return array
        converted = np.array(array.tolist())
        array = converted if converted.dtype.kind in "iufUb" else array
    small_integer = array.dtype.kind in "iu" and array.dtype != np.uint64
    return array.astype(np.int64, copy=False) if small_integer else array


def _checked_ids(values: Any) -> Shaped[np.ndarray, " n"]:
    """Return ids as a 1-D array with none missing and, if they are objects, of one type."""
    if isinstance(values, list | tuple):  # of which NumPy would merge different types
        array = np.fromiter(values, dtype=object, count=len(values))
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidBagsError.because(
            f"the bag ids have shape {array.shape}", "one dimension", "Pass a 1-D array or a list."
        )
    array = array.astype(object) if array.dtype.kind == "T" else array  # variable-width strings
    absent = missing(array)
    if absent.any():
        position = int(np.flatnonzero(absent)[0])
        raise InvalidBagsError.because(
            f"the bag id at position {position} is missing ({array[position]})",
            "an id for every bag and every row",
            "Drop these rows or give them an id.",
        )
    if array.dtype.kind == "O" and len(array):
        _check_one_type(array)
    return array


def _check_one_type(array: Shaped[np.ndarray, " n"]) -> None:
    """Raise unless all objects have one hashable type."""
    first = _kind(type(array[0]))
    if len(_kinds(array)) > 1:
        odd = next(i for i, value in enumerate(array) if _kind(type(value)) is not first)
        raise InvalidBagsError.because(
            f"bag ids mix types: position 0 is {first.__name__} ({show(array[0])}) "
            f"but position {odd} is {type(array[odd]).__name__} ({show(array[odd])})",
            "ids of one type",
            "Convert them all, for example with [str(i) for i in ids].",
        )
    position = first_unhashable(array)
    if position is not None:
        raise InvalidBagsError.because(
            f"the bag id at position {position} is a {first.__name__}, which cannot be hashed",
            "a hashable type, such as int, str or tuple",
            "Turn the ids into strings or tuples.",
        )


def first_unhashable(values: Shaped[np.ndarray, " n"]) -> int | None:
    """Return the position of the first value that no set can hold, such as a list."""
    doubtful = values.dtype.kind == "O" and not _kinds(values) <= {bool, int, str, float}
    for position, value in enumerate(values) if doubtful else ():
        try:
            hash(value)
        except TypeError:
            return position
    return None


def check_single(
    rows: Shaped[np.ndarray, " n_rows"], name: str, error: type[BagwiseError] = InvalidBagsError
) -> None:
    """Raise if a row of a column holds several values, as a list or a record does."""
    odd = first_unhashable(rows)
    if odd is not None:
        raise error.because(
            f"{name} holds values of type {type(rows[odd]).__name__}, such as {show(rows[odd])}",
            "one number, word, date or truth value in a row",
            "Take one out of them first, or name another column.",
        )


def _kind(kind: type) -> type:
    """Return Python's own type for NumPy's scalars of that type."""
    return next((both[0] for both in PYTHON_TYPES if issubclass(kind, both)), kind)


def _kinds(values: Shaped[np.ndarray, " n"]) -> set[type]:
    return set(map(_kind, set(map(type, values))))


@dataclass(frozen=True, eq=False)
class Grouping:
    """The bag of every row: bags in order of first appearance, rows in their own order.

    Attributes
    ----------
    ids : array (n_bags,)
    offsets : int64 array (n_bags + 1,)
        After sorting, bag i has the rows offsets[i] to offsets[i+1].
    order : int64 array (n_rows,) or None
        Puts the rows in bag order; None if they already are.
    """

    ids: Shaped[np.ndarray, " n_bags"]
    offsets: Int64[np.ndarray, " n_bags+1"]
    order: Int64[np.ndarray, " n_rows"] | None

    def sort(self, rows: Shaped[np.ndarray, "n_rows ..."]) -> Shaped[np.ndarray, "n_rows ..."]:
        """Put rows in bag order; no copy if they already are. Columns that are stored as such stay.

        NumPy takes rows four times as fast as it indexes by them.
        """
        if self.order is None:
            return rows
        if rows.ndim == 1 or rows.flags.c_contiguous:
            return rows.take(self.order, axis=0)
        found = np.empty((len(self.order), *rows.shape[1:]), rows.dtype, order="F")
        for column, there in zip(rows.T, found.T, strict=True):
            column.take(self.order, out=there, mode="clip")  # else it would be buffered
        return found

    def unsort(self, rows: Shaped[np.ndarray, " n_rows"]) -> Shaped[np.ndarray, " n_rows"]:
        """Put rows in bag order back where they were."""
        if self.order is None:
            return rows
        back = np.empty_like(rows)
        back[self.order] = rows
        return back

    def constant(
        self,
        rows: Shaped[np.ndarray, " n_rows"],
        name: str,
        error: type[BagwiseError] = InvalidBagsError,
    ) -> Shaped[np.ndarray, " n_bags"]:
        """Return the value of each bag of a column that must be constant within bags."""
        rows = self.sort(rows)
        absent = np.flatnonzero(missing(rows))
        if len(absent):
            bag, within = locate(int(absent[0]), self.offsets)
            raise error.because(
                f"bag {show(self.ids[bag])}, row {within}, {name} is missing",
                "a value in every row",
                "Fill it in or drop the bag.",
            )
        first = rows[self.offsets[:-1]]
        self.check_constant(rows, first, np.zeros(len(first), dtype=np.int64), name, error)
        return first

    def check_constant(
        self,
        rows: Shaped[np.ndarray, " n_rows"],
        expected: Shaped[np.ndarray, " n_bags"],
        seen: Int64[np.ndarray, " n_bags"],
        name: str,
        error: type[BagwiseError],
    ) -> None:
        """Raise unless sorted rows are as expected of their bags, of which some rows were seen."""
        differs = np.flatnonzero(rows != np.repeat(expected, np.diff(self.offsets)))
        if len(differs):
            bag, within = locate(int(differs[0]), self.offsets)
            raise error.because(
                f"{name} changes within bag {show(self.ids[bag])}: {show(expected[bag])} in row 0 "
                f"but {show(rows[differs[0]])} in row {seen[bag] + within}",
                "one value for the whole bag",
                "Aggregate it to one value per bag first.",
            )


def group_rows(groups: Any) -> Grouping:
    """Group rows by the bag id of each: bags come in order of first appearance.

    Examples
    --------
    >>> grouping = group_rows(["b", "a", "b"])
    >>> grouping.ids, grouping.offsets, grouping.order
    (array(['b', 'a'], dtype='<U1'), array([0, 2, 3]), array([0, 2, 1]))
    """
    groups = _checked_ids(groups)
    if len(groups) == 0:
        raise no_bags()
    changes = groups[1:] != groups[:-1]
    n_runs = 1 + int(np.count_nonzero(changes))
    if 2 * n_runs > len(groups):  # rows are shuffled
        codes, heads = first_appearance(groups)
    else:  # runs of equal ids first: there are far fewer of them
        starts = np.flatnonzero(np.concatenate([[True], changes]))
        run_codes, heads = first_appearance(groups[starts])
        codes, heads = np.repeat(run_codes, np.diff(starts, append=len(groups))), starts[heads]
    offsets = sizes_to_offsets(np.bincount(codes))
    order = None if len(heads) == n_runs else stable_order(codes, len(heads))
    return Grouping(ids=plain(groups[heads]), offsets=offsets, order=order)


def stable_order(codes: Int64[np.ndarray, " n"], n_codes: int) -> Int64[np.ndarray, " n"]:
    """Return the order that sorts codes from 0 to n_codes, equal ones as they come.

    By 16 bits at a time, which NumPy sorts by counting: twelve times as fast as 64 at once.

    Examples
    --------
    >>> stable_order(np.array([70_000, 3, 70_000, 0]), 70_001)
    array([3, 1, 0, 2])
    """
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    for shift in range(16, int(n_codes).bit_length(), 16):
        digit = (codes >> shift).astype(np.uint16).take(order)
        order = order.take(np.argsort(digit, kind="stable"))
    return order.astype(np.int64, copy=False)


def first_appearance(
    values: Shaped[np.ndarray, " n"],
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " k"]]:
    """Return the number of each value by first appearance, and where each appears first.

    Examples
    --------
    >>> first_appearance(np.array(["b", "a", "b"]))
    (array([0, 1, 0]), array([0, 1]))
    """
    if values.dtype.kind == "O":  # need not be sortable
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in values], np.int64)
        return codes, _first_places(codes)
    if values.dtype.kind in "iu" and values.dtype.isnative and len(values) >= MANY_VALUES:
        low, high = int(values.min()), int(values.max())
        if high - low < SPARSE * len(values):
            return _first_appearance_by_table(values, low, high)
        import pyarrow as pa  # whose hash table numbers values by first appearance

        codes = pa.array(values).dictionary_encode().indices.to_numpy().astype(np.int64)
        return codes, _first_places(codes)
    _, first, codes = np.unique(values, return_index=True, return_inverse=True)
    by_appearance = np.argsort(first)
    rank = np.empty(len(first), dtype=np.int64)
    rank[by_appearance] = np.arange(len(first))
    return rank[codes], first[by_appearance].astype(np.int64)


def _first_appearance_by_table(
    values: Shaped[np.ndarray, " n"], low: int, high: int
) -> tuple[Int64[np.ndarray, " n"], Int64[np.ndarray, " k"]]:
    """Find both of integers between two that are not far apart: faster than by hashing."""
    unsigned = values.dtype == np.uint64  # of which only differences surely fit
    places = (values - np.uint64(low)).astype(np.int64) if unsigned else values.astype(np.int64)
    places, table = places if unsigned else places - low, np.full(high - low + 1, -1)
    # Of several that are written to one place the last stays: the first, as they come backwards.
    table[places[::-1]] = np.arange(len(places) - 1, -1, -1)
    first = np.sort(table[table >= 0])
    table[places[first]] = np.arange(len(first))
    return table.take(places), first


def _first_places(codes: Int64[np.ndarray, " n"]) -> Int64[np.ndarray, " k"]:
    """Return where each number comes first, of numbers given by first appearance."""
    if not len(codes):
        return codes
    largest = np.maximum.accumulate(codes)
    return np.flatnonzero(np.concatenate([[True], largest[1:] > largest[:-1]])).astype(np.int64)


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
        own = part.unsort(np.repeat(np.arange(len(part.ids)), np.diff(part.offsets)))
        # Numbered anew after every column, so that the products cannot overflow.
        codes = np.unique(codes * len(part.ids) + own, return_inverse=True)[1].astype(np.int64)
    grouping = group_rows(codes)
    return replace(
        grouping,
        ids=composite_ids(columns, grouping.sort(np.arange(len(codes)))[grouping.offsets[:-1]]),
    )


def composite_ids(
    columns: tuple[Shaped[np.ndarray, " n_rows"], ...], rows: Int64[np.ndarray, " n_ids"]
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


def keys(ids: Shaped[np.ndarray, " n_bags"]) -> list[Hashable]:
    """Return ids as values that are equal where the ids are, whatever table they come from.

    Examples
    --------
    >>> keys(np.array([1, 2])) == keys(np.array([1.0, 2.0]))
    True
    """
    return ids.astype("M8[ns]").tolist() if ids.dtype.kind == "M" else ids.tolist()


class Numbers:
    """Numbers of bags by id, looked up many at once.

    Integers that lie close together are looked up in a table, others in a dictionary.

    Examples
    --------
    >>> Numbers({"b": 0, "a": 1}).of(np.array(["a", "c", "b"]))
    array([ 1, -1,  0])
    """

    def __init__(self, codes: Mapping[Any, int]) -> None:
        self._codes, self._low, self.n_known = codes, 0, len(codes)
        self._table: Int64[np.ndarray, " m"] | None = None
        if codes and set(map(type, codes)) == {int}:
            low, high = min(codes), max(codes)
            if high - low < SPARSE * len(codes) and abs(low) < 2**62:
                self._low, self._table = low, np.full(high - low + 1, -1)
                places = np.fromiter(codes, np.int64, len(codes)) - low
                self._table[places] = np.fromiter(codes.values(), np.int64, len(codes))

    def of(self, ids: Shaped[np.ndarray, " k"]) -> Int64[np.ndarray, " k"]:
        """Return the number of each id, -1 of those that are not known."""
        if self._table is None or ids.dtype != np.int64:
            found = map(self._codes.get, keys(ids), repeat(-1))
            return np.fromiter(found, np.int64, len(ids))
        places = ids - self._low
        if len(ids) and 0 <= places.min() and places.max() < len(self._table):
            return self._table.take(places)
        inside = (places >= 0) & (places < len(self._table))
        return np.where(inside, self._table[np.where(inside, places, 0)], -1)


def sizes_to_offsets(sizes: Any) -> Int64[np.ndarray, " n_offsets"]:
    """Return where each bag starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def locate(row: int, offsets: Int64[np.ndarray, " n_offsets"]) -> tuple[int, int]:
    """Return the bag that holds a stacked row, and the row's number within that bag."""
    bag = int(np.searchsorted(offsets, row, side="right")) - 1
    return bag, int(row - offsets[bag])


def rows_of(
    positions: Int64[np.ndarray, " n_chosen"], offsets: Int64[np.ndarray, " n_offsets"]
) -> tuple[Int64[np.ndarray, " n_rows"], Int64[np.ndarray, " n_chosen+1"]]:
    """Return the stacked rows of the chosen bags, and the offsets of those bags once chosen.

    Examples
    --------
    >>> rows_of(np.array([2, 0]), np.array([0, 2, 3, 6]))
    (array([3, 4, 5, 0, 1]), array([0, 3, 5]))
    """
    sizes = np.diff(offsets)[positions]
    chosen = sizes_to_offsets(sizes)
    rows = np.repeat(offsets[positions] - chosen[:-1], sizes) + np.arange(chosen[-1])
    return rows, chosen


def bag_positions(key: Any, n_bags: int) -> Int64[np.ndarray, " n_chosen"]:
    """Return the positions that a mask, a list of integers or a slice chooses among the bags.

    Examples
    --------
    >>> bag_positions([True, False, True], 3), bag_positions([-1], 3)
    (array([0, 2]), array([2]))
    """
    if isinstance(key, slice):
        return np.arange(*key.indices(n_bags), dtype=np.int64)
    key = np.asarray(key)
    if key.ndim != 1:
        raise IndexError(f"bags have one axis, but the index has shape {key.shape}")
    if key.dtype.kind == "b":
        if len(key) != n_bags:
            raise IndexError(
                f"the mask has {len(key)} entries for {n_bags} bags: one is needed each"
            )
        return np.flatnonzero(key).astype(np.int64)
    if key.dtype.kind not in "iu" and key.size:
        raise IndexError(f"bags are indexed by integers, slices or masks, not by {key.dtype}")
    key = key.astype(np.int64)
    outside = (key < -n_bags) | (key >= n_bags)
    if outside.any():
        raise IndexError(f"bag {key[outside][0]} is out of range: there are {n_bags} bags")
    return np.where(key < 0, key + n_bags, key)


def show(value: object) -> str:
    """Write a value as Python would, without NumPy's type around it; the start of a long one.

    Examples
    --------
    >>> show(np.int64(3)), show(np.str_("a")), show("x" * 1000)[-3:]
    ('3', "'a'", 'xx…')
    """
    text = repr(value.tolist() if isinstance(value, np.generic | np.ndarray) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def no_bags() -> InvalidBagsError:
    """Return the error for an input without any bags."""
    return InvalidBagsError.because(
        "there are no bags at all", "at least one bag", "Check the filter that made this input."
    )
