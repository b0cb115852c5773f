"""Grouping: which rows belong to which bag."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from bagwise.bags.per_bag import checked_ids, id_array, keys, missing, plain
from bagwise.bags.validation import locate, no_bags, show, sizes_to_offsets
from bagwise.exceptions import BagwiseError, InvalidBagsError

# Integers from which they are numbered by hashing: sorting takes six times as long, and importing
# pyarrow as long as sorting some hundred thousand.
MANY_VALUES = 1 << 15

# Integer ids have a table if it has at most so many entries for each.
SPARSE = 4


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
    groups = checked_ids(groups)
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
