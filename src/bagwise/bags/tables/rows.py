"""Rows: one table, or a batch of one, as arrays; a sample of rows; errors that name a row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int64, Shaped

from bagwise.bags.grouping import composite_ids, show
from bagwise.bags.validation import first_unusable
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

SHOWN = 5  # bags, columns or categories that a message names before it only counts the others


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, or of a batch of one, that are used, as arrays; nothing is grouped.

    Attributes
    ----------
    ids : tuple of arrays (n_rows,)
        One per bag column; see :func:`bagwise.bags.tables.frames.group_columns`.
    points : array (n_rows, n_features)
        One-hot encoded and imputed.
    covariates : float64 array (n_rows, n_covariates)
        Likewise; without columns if there are no covariates.
    weights : float64 array (n_rows,) or None
    labels : array (n_rows,) or None
    left_out : tuple of arrays (n_left_out,)
        Ids of rows that the schema leaves out, as they have missing values.
    gaps : dict of int
        Number of missing values of each column that has any.
    """

    ids: tuple[Shaped[np.ndarray, " n_rows"], ...]
    points: Float[np.ndarray, "n_rows n_features"]
    covariates: Float64[np.ndarray, "n_rows n_covariates"]
    weights: Float64[np.ndarray, " n_rows"] | None
    labels: Shaped[np.ndarray, " n_rows"] | None
    left_out: tuple[Shaped[np.ndarray, " n_left_out"], ...]
    gaps: dict[str, int]


@dataclass(frozen=True, eq=False)
class Place:
    """Where a row is, for messages: its bag, and its number.

    Attributes
    ----------
    ids : tuple of arrays (n_rows,)
        One per bag column.
    first_row : int, array (n_rows,) or None
        Number of the first row, or of each, in a larger table; None to number them within bags.
    kept : array (n_kept,), optional
        The rows that are spoken of, if some are left out.

    Examples
    --------
    >>> ids = (np.array(["a", "b", "b"]),)
    >>> Place(ids).of(2), Place(ids, 1000).of(2)
    ("bag 'b', row 1", "bag 'b', row 1002 of the table")
    """

    ids: tuple[Shaped[np.ndarray, " n_rows"], ...]
    first_row: int | Int[np.ndarray, " n_rows"] | None = None
    kept: Int64[np.ndarray, " n_kept"] | None = None

    def of(self, row: int) -> str:
        """Name the bag and the number of a row."""
        row = row if self.kept is None else int(self.kept[row])
        bag = f"bag {show(composite_ids(self.ids, np.array([row]))[0])}"
        if self.first_row is not None:
            return f"{bag}, row {self.number(row)} of the table"
        same = np.ones(row, dtype=bool)
        for column in self.ids:
            same &= column[:row] == column[row]
        return f"{bag}, row {same.sum()}"

    def number(self, row: int) -> int:
        """Return the number of a row in the larger table, or in this one if there is none."""
        if isinstance(self.first_row, np.ndarray):
            return int(self.first_row[row])
        return row + (self.first_row or 0)

    @property
    def so_far(self) -> str:
        """What follows a count, if more rows are to be read."""
        return "" if self.first_row is None else " so far"

    def bags(self, mask: Bool[np.ndarray, " n_rows"]) -> list[object]:
        """Return the bags that have a row in the mask, in order of appearance."""
        return list(dict.fromkeys(composite_ids(self.ids, np.flatnonzero(mask)).tolist()))


class Sample:
    """A random sample of rows of numbers of which nobody knows how many will come.

    Every row is given a random number, and the k rows with the smallest are kept.

    Examples
    --------
    >>> sample = Sample(2, np.random.default_rng(0))
    >>> for start in (0.0, 10.0):
    ...     sample.add(np.arange(start, start + 5)[:, None])
    >>> sample.rows().shape
    (2, 1)
    """

    def __init__(self, k: float, rng: np.random.Generator) -> None:
        self._k, self._rng, self._below = k, rng, 1.0
        self._drawn = np.zeros(0)
        self._rows: Any = None

    def add(self, rows: Float[np.ndarray, "m q"]) -> None:
        """Add rows, of which some may be kept."""
        drawn = self._rng.random(len(rows))
        mask = drawn < self._below
        self._drawn = np.concatenate([self._drawn, drawn[mask]])
        rows = rows if mask.all() else rows[mask]
        self._rows = rows if self._rows is None else np.vstack([self._rows, rows])
        if len(self._drawn) > 2 * self._k:
            self._cut()

    def _cut(self) -> None:
        k = int(self._k)
        best = np.argpartition(self._drawn, k)[:k]
        self._drawn, self._rows = self._drawn[best], self._rows[best]
        self._below = float(self._drawn.max())

    def rows(self) -> Float[np.ndarray, "k q"]:
        """Return the sample: all rows, if there were no more than k."""
        if len(self._drawn) > self._k:
            self._cut()
        return self._rows


def some(names: Iterable[object], shown: int = SHOWN) -> str:
    """Write the first few of some values, and how many more there are.

    Examples
    --------
    >>> some(["a", "b", "c"]), some([1, 2, 3], shown=1)
    ("'a', 'b', 'c'", '1 and 2 more')
    """
    written = [show(name) for name in names]
    rest = len(written) - shown
    return ", ".join(written[:shown]) + (f" and {rest} more" if rest > 0 else "")


def count(number: int, noun: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> count(1, "row"), count(12345, "row")
    ('1 row', '12,345 rows')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def by_column(counts: Mapping[str, int]) -> str:
    """Write how many of something each column has.

    Examples
    --------
    >>> by_column({"age": 2, "dose": 1})
    "2 in column 'age', 1 in column 'dose'"
    """
    parts = [f"{number:,} in column {name!r}" for name, number in counts.items()]
    rest = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f" and some in {rest} more columns" if rest > 0 else "")


def check_finite(
    array: Float[np.ndarray, "n_rows n_columns"], names: tuple[str, ...], place: Place
) -> None:
    """Raise if a row has an infinite value; missing ones were seen to before."""
    found = first_unusable(array)
    if found is not None:
        row, column = found
        raise InvalidBagsError.because(
            f"{place.of(row)}, column {names[column]!r} is {array[row, column]}",
            "a finite number",
            "Drop the point or correct the value.",
        )


def check_labels(labels: Shaped[np.ndarray, " n_rows"], name: str, place: Place) -> None:
    """Raise if a label is infinite; missing ones were seen to before."""
    if labels.dtype.kind != "f":
        return
    odd = np.flatnonzero(np.isinf(labels))
    if len(odd):
        value = float(labels[odd[0]])
        raise InvalidLabelsError.because(
            f"{place.of(int(odd[0]))}, label column {name!r} is {value}",
            "a finite number",
            f"Correct it; or leave such bags out: na_values={str(value)!r} (--na) with "
            'missing="drop".',
        )


def no_bag_id(name: str, mask: Bool[np.ndarray, " n_rows"], place: Place) -> InvalidBagsError:
    """Return the error for rows whose bag is not known."""
    row = place.number(int(np.flatnonzero(mask)[0]))
    return InvalidBagsError.because(
        f"row {row} of the data frame has no bag: column {name!r} is missing there"
        + (f" and in {count(int(mask.sum()) - 1, 'more row')}" if mask.sum() > 1 else ""),
        "a bag id in every row",
        'Give these rows an id, or leave them out with missing="drop".',
    )


def missing_value(
    role: str, gaps: Mapping[str, Bool[np.ndarray, " n_rows"]], name: str, place: Place
) -> BagwiseError:
    """Return the error for a missing feature, covariate or weight, with the count of all."""
    row = int(np.flatnonzero(gaps[name])[0])
    counts = {column: int(mask.sum()) for column, mask in gaps.items()}
    return InvalidBagsError.because(
        f"{place.of(row)}, {role} {name!r} is missing "
        f"({count(sum(counts.values()), 'missing value')}{place.so_far}: {by_column(counts)})",
        "a value in every row",
        'Leave such rows out with missing="drop", or put the median of the column there with '
        'missing="impute".',
    )


def missing_label(mask: Bool[np.ndarray, " n_rows"], name: str, place: Place) -> InvalidLabelsError:
    """Return the error for missing labels, with the bags that have none."""
    bags = place.bags(mask)
    counted = f"{count(int(mask.sum()), 'row')} of {count(len(bags), 'bag')}{place.so_far}"
    return InvalidLabelsError.because(
        f"{place.of(int(np.flatnonzero(mask)[0]))}, label column {name!r} is missing "
        f"({counted}: {some(bags)})",
        "a label for every bag",
        'Fill it in, or leave these bags out with missing="drop".',
    )
