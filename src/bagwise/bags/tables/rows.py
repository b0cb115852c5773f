"""Rows: one table as arrays, and the errors that name a row of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Shaped

from bagwise.bags.grouping import show
from bagwise.bags.tables.frames import composite_ids
from bagwise.bags.validation import first_unusable
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

SHOWN = 5  # bags, columns or categories that a message names before it only counts the others


@dataclass(frozen=True, eq=False)
class Rows:
    """One table, or one batch of a table, as arrays in the order of its rows; nothing is grouped.

    Attributes
    ----------
    ids : tuple of arrays (n_rows,)
        One per bag column; see :func:`bagwise.bags.tables.frames.group_columns`.
    points : array (n_rows, n_features)
        One-hot encoded and imputed. Rows that are not kept may hold NaN.
    covariates : float64 array (n_rows, n_covariates)
        Likewise; without columns if there are no covariates.
    weights : float64 array (n_rows,) or None
    labels : array (n_rows,) or None
    keep : bool array (n_rows,)
        Rows to use: all, unless the schema leaves out those with missing values.
    gaps : dict of int
        Number of missing values of each column that has any.
    """

    ids: tuple[Shaped[np.ndarray, " n_rows"], ...]
    points: Float[np.ndarray, "n_rows n_features"]
    covariates: Float64[np.ndarray, "n_rows n_covariates"]
    weights: Float64[np.ndarray, " n_rows"] | None
    labels: Shaped[np.ndarray, " n_rows"] | None
    keep: Bool[np.ndarray, " n_rows"]
    gaps: dict[str, int]

    def kept(self) -> Rows:
        """Return the rows that are kept; no copy if all are."""
        if self.keep.all():
            return self
        keep = self.keep
        return replace(
            self,
            ids=tuple(column[keep] for column in self.ids),
            points=self.points[keep],
            covariates=self.covariates[keep],
            weights=None if self.weights is None else self.weights[keep],
            labels=None if self.labels is None else self.labels[keep],
            keep=keep[keep],
        )


@dataclass(frozen=True, eq=False)
class Place:
    """Where a row is, for messages: its bag, and its number.

    Attributes
    ----------
    ids : tuple of arrays (n_rows,)
        One per bag column.
    first_row : int, array (n_rows,) or None
        Number of the first row, or of each, in a larger table; None to number them within bags.

    Examples
    --------
    >>> ids = (np.array(["a", "b", "b"]),)
    >>> Place(ids).of(2), Place(ids, 1000).of(2)
    ("bag 'b', row 1", "bag 'b', row 1002 of the table")
    """

    ids: tuple[Shaped[np.ndarray, " n_rows"], ...]
    first_row: int | Int[np.ndarray, " n_rows"] | None = None

    def of(self, row: int) -> str:
        """Name the bag and the number of a row."""
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
    array: Float[np.ndarray, "n_rows n_columns"],
    keep: Bool[np.ndarray, " n_rows"],
    names: tuple[str, ...],
    place: Place,
) -> None:
    """Raise if a row that is kept has an infinite value; missing ones were seen to before."""
    everything = bool(keep.all())
    found = first_unusable(array if everything else array[keep])
    if found is not None:
        row, column = found
        row = row if everything else int(np.flatnonzero(keep)[row])
        raise InvalidBagsError.because(
            f"{place.of(row)}, column {names[column]!r} is {array[row, column]}",
            "a finite number",
            "Drop the point or correct the value.",
        )


def check_labels(
    labels: Shaped[np.ndarray, " n_rows"],
    keep: Bool[np.ndarray, " n_rows"],
    name: str,
    place: Place,
) -> None:
    """Raise if a label of a row that is kept is infinite; missing ones were seen to before."""
    if labels.dtype.kind != "f":
        return
    odd = np.flatnonzero(np.isinf(labels) & keep)
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
