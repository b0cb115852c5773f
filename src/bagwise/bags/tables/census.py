"""What rows in any order, as they come, say: of their bags (Census), and to a schema (Lessons)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from itertools import compress, repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int, Int64, Shaped

from bagwise.bags.grouping import (
    Grouping,
    Numbers,
    composite_ids,
    first_appearance,
    group_columns,
    rows_of,
)
from bagwise.bags.per_bag import id_array, keys, missing
from bagwise.bags.tables.frames import Table
from bagwise.bags.tables.read_report import Constancy, Extremes, Sample, grown, numbers_after
from bagwise.bags.validation import bad_weight, is_weight, locate, no_weight, show
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

if TYPE_CHECKING:
    from bagwise.bags.tables.schema import Schema

# Numbers of columns whose medians are taken together: to begin takes longer than a short column.
MEDIAN_NUMBERS = 1 << 20
# Numbers of a sample that stands for all rows when medians are learnt.
SAMPLE_NUMBERS = 1 << 24

Category = str | int | float | bool


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table, or of a batch of one, that are used, as arrays; nothing is grouped.

    Attributes
    ----------
    ids : one array per bag column; see :func:`bagwise.bags.grouping.group_columns`
    points, covariates : one-hot encoded and imputed; there may be no column of covariates
    left_out : ids of rows that the schema leaves out, as they have missing values
    gaps : number of missing values of each column that has any
    grouping : of the rows by bag, once somebody has looked at it
    look : at the points, once somebody has had it
    """

    ids: tuple[Shaped[np.ndarray, " n_rows"], ...]
    points: Float[np.ndarray, "n_rows n_features"]
    covariates: Float64[np.ndarray, "n_rows n_covariates"]
    weights: Float64[np.ndarray, " n_rows"] | None
    labels: Shaped[np.ndarray, " n_rows"] | None
    left_out: tuple[Shaped[np.ndarray, " n_left_out"], ...]
    gaps: dict[str, int]

    grouping: Grouping | None = None
    look: Look | None = None

    def grouped(self) -> Rows:
        """Return the same with the grouping, unless there are no rows."""
        if self.grouping is not None or not len(self.points):
            return self
        return replace(self, grouping=group_columns(self.ids))

    def by_bag(self) -> GroupedPoints | None:
        """Return points and weights with their grouping, as they came; None if there are none."""
        grouping = self.grouped().grouping
        return None if grouping is None else GroupedPoints(self.points, self.weights, grouping)

    def looked_at(self) -> Rows:
        """Return the same with a look at the points, unless there are no rows."""
        if self.look is not None or not len(self.points):
            return self
        return replace(self, look=Look.of(self.points, self.weights))


@dataclass(frozen=True, eq=False)
class GroupedPoints:
    """Points and weights of some rows, and which are of which bag; there is at least one."""

    points: Float[np.ndarray, "n_rows n_features"]
    weights: Float64[np.ndarray, " n_rows"] | None
    grouping: Grouping

    def sorted(self) -> GroupedPoints:
        """Return the same in the order of the bags."""
        if self.grouping.order is None:
            return self
        return self._taken(replace(self.grouping, order=None), self.grouping.sort)

    def numbered(self, codes: Int64[np.ndarray, " k"]) -> GroupedPoints:
        """Return the same with numbers of the bags for ids; bags of number -1 are left out.

        Examples
        --------
        >>> two = Grouping(np.array(["a", "b"]), np.array([0, 1, 3]), None)
        >>> points = GroupedPoints(np.array([[1.0], [2.0], [3.0]]), None, two)
        >>> points.numbered(np.array([-1, 7])).points.ravel()
        array([2., 3.])
        """
        pieces = np.flatnonzero(codes >= 0)
        if len(pieces) == len(codes):
            return replace(self, grouping=replace(self.grouping, ids=codes))
        there = self.sorted()
        rows, offsets = rows_of(pieces, self.grouping.offsets)
        chosen = Grouping(codes[pieces], offsets, None)
        return there._taken(chosen, replace(chosen, order=rows).sort)

    def _taken(self, grouping: Grouping, sort: Callable[..., Any]) -> GroupedPoints:
        weights = None if self.weights is None else sort(self.weights)
        return GroupedPoints(sort(self.points), weights, grouping)


class Spread:
    """Mean of points and Σ (x − center)², both (p,), and their number n, as batches come."""

    def __init__(self) -> None:
        self.n = 0
        self.center = self.squares = np.zeros(0)

    def add(self, points: Float[np.ndarray, "m p"]) -> None:
        """Merge mean and squares of these points with those before (Chan, Golub, LeVeque 1983)."""
        if len(points):
            center = points.mean(axis=0, dtype=np.float64)
            gaps = (column - middle for column, middle in zip(points.T, center, strict=True))
            squares = np.array([np.einsum("i,i->", gap, gap, dtype=np.float64) for gap in gaps])
            self._merge(len(points), center, squares)

    def merge(self, other: Spread) -> None:
        """Add mean and squares of other points."""
        if other.n:
            self._merge(other.n, other.center, other.squares)

    def _merge(
        self, m: int, center: Float64[np.ndarray, " p"], squares: Float64[np.ndarray, " p"]
    ) -> None:
        n = self.n
        if n:
            gap = center - self.center
            center = self.center + gap * (m / (n + m))
            squares = self.squares + squares + gap**2 * (n * m / (n + m))
        self.center, self.squares, self.n = center, squares, n + m


@dataclass(frozen=True, eq=False)
class Look:
    """What some points look like, found beside whoever puts that together.

    Attributes
    ----------
    ends : (2, p), least and largest value of each column
    spread : of the points that have weight
    """

    ends: Float64[np.ndarray, "2 p"]
    spread: Spread

    @classmethod
    def of(
        cls, points: Float[np.ndarray, "m p"], weights: Float64[np.ndarray, " m"] | None = None
    ) -> Look:
        """Look at points, at least one.

        Examples
        --------
        >>> look = Look.of(np.array([[1.0], [3.0]]))
        >>> look.ends.tolist(), look.spread.center, look.spread.squares
        ([[1.0], [3.0]], array([2.]), array([2.]))
        """
        ends = np.array([points.min(axis=0), points.max(axis=0)], dtype=np.float64)
        spread = Spread()
        spread.add(points if weights is None else points[weights > 0])
        return cls(ends, spread)


@dataclass(frozen=True, eq=False)
class Place:
    """Where a row is, for messages: its bag, and its number.

    Attributes
    ----------
    ids : one array per bag column
    first_row : number of the first row, or of each, in a larger table; None to number them in bags
    kept : the rows that are spoken of, if some are left out

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
        if isinstance(self.first_row, np.ndarray):
            return f"{bag}, row {self.first_row[row]} of the table"
        if self.first_row is not None:
            return f"{bag}, row {self.first_row + row} of the table"
        same = np.all([column[:row] == column[row] for column in self.ids], axis=0)
        return f"{bag}, row {same.sum()}"

    def first(self, mask: Bool[np.ndarray, " n"]) -> str:
        """Name the first row that is in a mask."""
        return self.of(int(np.flatnonzero(mask)[0]))

    def bags(self, mask: Bool[np.ndarray, " n_rows"]) -> list[object]:
        """Return the bags that have a row in the mask, in order of appearance."""
        return list(dict.fromkeys(composite_ids(self.ids, np.flatnonzero(mask)).tolist()))


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows cut into one piece per bag.

    Attributes
    ----------
    grouping : of the rows, into k pieces
    codes : (k,) numbers of the bags;  new : (k,) whether they come for the first time
    seen : (k,) rows of the bags that came before
    """

    grouping: Grouping
    codes: Int64[np.ndarray, " k"]
    seen: Int64[np.ndarray, " k"]
    new: Bool[np.ndarray, " k"]

    @property
    def sizes(self) -> Int64[np.ndarray, " k"]:
        """Number of rows of each piece."""
        return np.diff(self.grouping.offsets)

    def first_rows(self) -> Int64[np.ndarray, " n_new"]:
        """Return the first row of each bag that comes for the first time."""
        order = self.grouping.sort(np.arange(self.grouping.offsets[-1]))
        return order[self.grouping.offsets[:-1]][self.new]

    def constant(
        self,
        rows: Shaped[np.ndarray, " m"],
        known: Shaped[np.ndarray, " n"],
        name: str,
        error: type[BagwiseError] = InvalidBagsError,
    ) -> None:
        """Write the value of each new bag to ``known``; raise if a row differs from its bag's."""
        rows = self.grouping.sort(rows)
        known[self.codes[self.new]] = rows[self.grouping.offsets[:-1]][self.new]
        self.grouping.check_constant(rows, known[self.codes], self.seen, name, error)


class BagCounts:
    """Ids and sizes of bags, numbered by first appearance, as rows come.

    Attributes
    ----------
    codes : key of a bag, see :func:`bagwise.bags.per_bag.keys`, ↦ its number
    """

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}
        self._numbers = Numbers(self.codes)
        self._ids: list[Shaped[np.ndarray, " k"]] = []
        self._sizes = np.zeros(0, dtype=np.int64)

    def add(self, grouping: Grouping) -> Pieces:
        """Count rows that are grouped by bag."""
        n = len(self.codes)
        codes = self._numbers.of(grouping.ids)
        unknown = np.flatnonzero(codes < 0)
        codes[unknown] = self._numbered(keys(grouping.ids[unknown]))
        if len(self.codes) > 1.1 * self._numbers.n_known:
            self._numbers = Numbers(self.codes)
        self._ids.append(grouping.ids[codes >= n])
        self._sizes = grown(self._sizes, len(self.codes))
        pieces = Pieces(grouping, codes, self._sizes[codes], codes >= n)
        self._sizes[codes] += pieces.sizes
        return pieces

    def merge(self, other: BagCounts) -> Int64[np.ndarray, " k"]:
        """Add the bags of other rows, which come after these; return their numbers here."""
        n = len(self.codes)
        codes = self._numbered(other.codes)
        if len(codes):
            self._ids.append(other.ids[codes >= n])
        self._sizes = grown(self._sizes, len(self.codes))
        self._sizes[codes] += other.sizes
        return codes

    def _numbered(self, own: Collection[Any]) -> Int64[np.ndarray, " k"]:
        """Return the numbers of keys, all different; new ones get the next, without a loop here."""
        n, codes = len(self.codes), np.fromiter(map(self.codes.get, own, repeat(-1)), np.int64)
        new = codes < 0
        codes[new] = n + np.arange(np.count_nonzero(new))
        self.codes.update(zip(compress(own, new), codes[new].tolist(), strict=True))
        return codes

    @property
    def ids(self) -> Shaped[np.ndarray, " n"]:
        """Id of each bag."""
        if len({part.dtype for part in self._ids if part.dtype.kind in "iuO"}) > 1:
            return id_array([bag for part in self._ids for bag in part.tolist()])
        return np.concatenate(self._ids)

    @property
    def sizes(self) -> Int64[np.ndarray, " n"]:
        """Number of rows of each bag."""
        return self._sizes[: len(self.codes)]


class Census:
    """Ids, sizes, weights, covariates and labels of bags, and what their points look like.

    Rows are added in batches, in the order of the table.

    Attributes
    ----------
    n_points;  gaps : number of missing values by column;  weighted : whether points have weights
    spread : mean and squares of the points that count, if that is asked for
    extremes, constancy : for outliers and, if watched, for columns that are constant in bags
    """

    def __init__(
        self,
        covariates: tuple[str, ...] = (),
        label: str | None = None,
        *,
        watch: bool = False,
        spread: bool = False,
        skip: int = 0,
    ) -> None:
        self.bags = BagCounts()
        self.extremes, self.constancy = Extremes(skip), Constancy() if watch else None
        self.spread = Spread() if spread else None
        self.n_points, self.weighted = 0, False
        self.gaps = Counter[str]()
        self._covariate_names, self._label = covariates, label
        self._left_out: dict[Any, Any] = {}
        self._weights = np.zeros((0, 3))  # largest w, Σ w/largest, Σ (w/largest)²
        self._covariates = np.zeros((0, len(covariates)))
        self._labels: Any = None

    def add(self, rows: Rows) -> Pieces | None:
        """Count some rows; return how they were cut into pieces, None if there are none."""
        self.gaps.update(rows.gaps)
        if len(rows.left_out[0]):
            ids = group_columns(rows.left_out).ids
            self._left_out |= dict(zip(keys(ids), ids.tolist(), strict=True))
        grouping = rows.grouped().grouping
        if grouping is None:
            return None
        pieces = self.bags.add(grouping)
        self.n_points += len(rows.points)
        if self.spread is None:
            self.extremes.add(rows.points)
        else:
            look = rows.looked_at().look
            assert look is not None
            self.extremes.add(rows.points, look.ends)
            self.spread.merge(look.spread)
        if self.constancy is not None and self.constancy.possible:
            bag_of_rows = pieces.grouping.unsort(np.repeat(pieces.codes, pieces.sizes))
            self.constancy.add(rows.points, bag_of_rows)
        self._covariates = grown(self._covariates, len(self.bags.codes))
        for j, name in enumerate(self._covariate_names):
            known = self._covariates[:, j]
            pieces.constant(rows.covariates[:, j], known, f"covariate column {name!r}")
        if rows.labels is not None:
            self._add_labels(rows.labels, pieces)
        if rows.weights is not None:
            self._add_weights(rows.weights, pieces)
        return pieces

    def merge(self, other: Census) -> Int64[np.ndarray, " k"]:
        """Add what is known of other rows, which come after these; return their bags' numbers."""
        self.gaps.update(other.gaps)
        self._left_out |= other._left_out
        if not other.n_points:
            return np.zeros(0, dtype=np.int64)
        before = len(self.bags.codes)
        codes = self.bags.merge(other.bags)
        new, n = codes >= before, len(self.bags.codes)
        self.n_points += other.n_points
        self.weighted |= other.weighted
        self.extremes.merge(other.extremes)
        if self.spread is not None and other.spread is not None:
            self.spread.merge(other.spread)
        if self.constancy is not None and other.constancy is not None:
            self.constancy.merge(other.constancy, codes)
        self._covariates = grown(self._covariates, n)
        for j, name in enumerate(self._covariate_names):
            known, given = self._covariates[:, j], other._covariates[: len(codes), j]
            _same_in_both(known, given, codes, new, (f"covariate column {name!r}", other.bags.ids))
        if other._labels is not None:
            given = other._labels[: len(codes)]
            known = given[:0] if self._labels is None else self._labels
            self._labels = grown(known, n, given.dtype)
            what = f"label column {self._label!r}", other.bags.ids
            _same_in_both(self._labels, given, codes, new, what, InvalidLabelsError)
        if other.weighted:
            self._merge_weights(other._weights[: len(codes)], codes)
        return codes

    def _merge_weights(
        self, other: Float64[np.ndarray, "k 3"], codes: Int64[np.ndarray, " k"]
    ) -> None:
        self._weights = grown(self._weights, len(self.bags.codes))
        before, total, squares = self._weights[codes].T
        there, more, more_squares = other.T
        largest = np.maximum(before, there)
        unit = np.where(largest > 0, largest, 1.0)
        total = total * (before / unit) + more * (there / unit)
        squares = squares * (before / unit) ** 2 + more_squares * (there / unit) ** 2
        self._weights[codes] = np.column_stack([largest, total, squares])

    @property
    def lost_bags(self) -> tuple[Any, ...]:
        """Ids of the bags of which every row was left out."""
        return tuple(bag for key, bag in self._left_out.items() if key not in self.bags.codes)

    def _add_weights(self, weights: Float64[np.ndarray, " m"], pieces: Pieces) -> None:
        """Add up weights and their squares, scaled by the largest of the bag so far."""
        self.weighted = True
        weights, starts = pieces.grouping.sort(weights), pieces.grouping.offsets[:-1]
        bad = np.flatnonzero(~is_weight(weights))
        if len(bad):
            piece, within = locate(int(bad[0]), pieces.grouping.offsets)
            row = int(pieces.seen[piece]) + within
            raise bad_weight(pieces.grouping.ids[piece], row, weights[bad[0]])
        self._weights = grown(self._weights, len(self.bags.codes))
        before, total, squares = self._weights[pieces.codes].T
        largest = np.maximum(before, np.maximum.reduceat(weights, starts))
        unit = np.where(largest > 0, largest, 1.0)
        scaled = weights / np.repeat(unit, pieces.sizes)
        total = total * (before / unit) + np.add.reduceat(scaled, starts)
        squares = squares * (before / unit) ** 2 + np.add.reduceat(scaled**2, starts)
        self._weights[pieces.codes] = np.column_stack([largest, total, squares])

    def _add_labels(self, labels: Shaped[np.ndarray, " m"], pieces: Pieces) -> None:
        if labels.dtype.kind not in "fiubmM":  # text of any length
            labels = labels.astype(object)
        known = labels[:0] if self._labels is None else self._labels
        self._labels = grown(known, len(self.bags.codes), labels.dtype)
        pieces.constant(labels, self._labels, f"label column {self._label!r}", InvalidLabelsError)

    @property
    def covariates(self) -> dict[str, Float64[np.ndarray, " n"]]:
        """Covariates of each bag, by name."""
        n_bags = len(self.bags.codes)
        return dict(zip(self._covariate_names, self._covariates[:n_bags].T, strict=True))

    @property
    def labels(self) -> Shaped[np.ndarray, " n"] | None:
        """Label of each bag, None if they have none."""
        return None if self._labels is None else self._labels[: len(self.bags.codes)]

    def weight_sums(self) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Return Σ w of each bag and its effective size (Σ w)² / Σ w²."""
        if not self.weighted:
            sizes = self.bags.sizes.astype(np.float64)
            return sizes, sizes
        largest, total, squares = self._weights[: len(self.bags.codes)].T
        empty = np.flatnonzero(largest == 0)
        if len(empty):
            raise no_weight(self.bags.ids[empty[0]])
        return largest * total, total**2 / squares


def _same_in_both(
    known: Shaped[np.ndarray, " n"],
    given: Shaped[np.ndarray, " k"],
    codes: Int64[np.ndarray, " k"],
    new: Bool[np.ndarray, " k"],
    what: tuple[str, Shaped[np.ndarray, " k"]],
    error: type[BagwiseError] = InvalidBagsError,
) -> None:
    """Write the values of new bags to ``known``; raise if a known bag has another elsewhere."""
    known[codes[new]] = given[new]
    differs = np.flatnonzero(known[codes] != given)
    if len(differs):
        (name, ids), first = what, differs[0]
        raise error.because(
            f"{name} changes within bag {show(ids[first])}: {show(known[codes[first]])} and then "
            f"{show(given[first])}",
            "one value for the whole bag",
            "Aggregate it to one value per bag first.",
        )


class Lessons:
    """What rows teach a schema, as batches come: categories and medians.

    Attributes
    ----------
    n_rows, n_kept : rows that came, and those of them that are not dropped
    gaps : missing values by column
    """

    def __init__(self, schema: Schema, sample_rows: float, skip: int = 0) -> None:
        self._schema, self._bags = schema, BagCounts()
        self.n_rows, self.n_kept, self.gaps = 0, 0, Counter[str]()
        impute = schema.numeric if schema.missing == "impute" else []
        self._per_bag = [name for name in impute if name in schema.covariates]
        self._per_row = [name for name in impute if name not in schema.covariates]
        if sample_rows < math.inf:
            sample_rows = min(sample_rows, SAMPLE_NUMBERS // max(1, len(self._per_row)))
        self._sample = Sample(sample_rows, numbers_after(skip))
        self._of_bags = Sample(math.inf, numbers_after(0))
        self._categories: dict[str, dict[Any, None]] = {
            name: {} for name, categories in schema.one_hot.items() if not categories
        }

    def prepare(self, used: Any) -> Table:
        """Take of the rows that are used their table alone."""
        return used.table

    def add(self, table: Table) -> None:
        """Learn from the rows of a table that are not dropped."""
        gaps = self._schema.gaps(table)
        rows = np.flatnonzero(~self._schema.dropped(gaps, len(table)))
        self.gaps.update({name: int(mask.sum()) for name, mask in gaps.items()})
        self.n_rows, self.n_kept = self.n_rows + len(table), self.n_kept + len(rows)
        if len(rows):
            self._add(table, rows)

    def merge(self, other: Lessons) -> None:
        """Add what other rows teach, which come after these."""
        self.gaps.update(other.gaps)
        self.n_rows, self.n_kept = self.n_rows + other.n_rows, self.n_kept + other.n_kept
        self._sample.merge(other._sample)
        if self._per_bag and other._bags.codes:
            before = len(self._bags.codes)
            new = self._bags.merge(other._bags) >= before
            self._of_bags.add(other._of_bags.rows()[new])
        for name, found in self._categories.items():
            found |= other._categories[name]

    def _add(self, table: Table, rows: Int64[np.ndarray, " k"]) -> None:
        if self._per_row:
            self._sample.add(self._numbers(table, self._per_row, rows))
        if self._per_bag:
            ids = tuple(column[rows] for column in table.ids(self._schema.bag))
            first = rows[self._bags.add(group_columns(ids)).first_rows()]
            self._of_bags.add(self._numbers(table, self._per_bag, first))
        for name, found in self._categories.items():
            column = self._schema.values(table, name)[rows]
            found |= dict.fromkeys(column[first_appearance(column)[1]].tolist())

    def _numbers(
        self, table: Table, names: list[str], rows: Int64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, "k q"]:
        columns = [self._schema.numbers(table, name)[rows] for name in names]
        return np.column_stack(columns).astype(np.float64, copy=False)

    def one_hot(self) -> dict[str, tuple[Category, ...]]:
        """Return the categories of the columns that had none, in order."""
        known = {}
        for name, seen in self._categories.items():
            found = np.array([*seen, None], dtype=object)
            found = found[~missing(found)]
            if not len(found):
                raise InvalidBagsError.because(
                    f"column {name!r} has no value at all",
                    "at least one category to encode",
                    "Leave it out of one_hot and of the features.",
                )
            known[name] = tuple(sorted(check_categories(found.tolist(), name)))
        return known

    def fill(self) -> dict[str, float]:
        """Return what to put in place of missing values."""
        found: dict[str, float] = {}
        for names, sample in ((self._per_row, self._sample), (self._per_bag, self._of_bags)):
            found |= zip(names, medians(names, sample.rows()) if names else (), strict=True)
        return found


def medians(names: list[str], rows: Float64[np.ndarray, "n q"]) -> list[float]:
    """Return the medians of the finite numbers of columns, to put in place of missing ones."""
    found: list[float] = []
    step = max(1, MEDIAN_NUMBERS // max(1, len(rows)))
    for start in range(0, len(names), step):
        columns = np.array(rows[:, start : start + step].T, order="C")
        columns[np.isinf(columns)] = np.nan
        empty = np.isnan(columns).all(axis=1)
        if empty.any():
            raise InvalidBagsError.because(
                f"column {names[start + int(np.argmax(empty))]!r} has no value at all",
                "at least one number to take the median of",
                "Leave it out of the features and covariates.",
            )
        columns *= 0.5  # or the sum of the two in the middle may be too large for a number
        found += (2.0 * np.nanmedian(columns, axis=1)).tolist()
    return found


def check_categories(categories: Any, name: str) -> tuple[Category, ...]:
    """Return categories as a tuple of distinct strings, numbers or truth values, all of one kind.

    Whole numbers are integers, whatever the column's type: a library that has no missing integers
    makes floats of them.
    """
    plain = [value.item() if isinstance(value, np.generic) else value for value in categories]
    plain = [int(v) if isinstance(v, float) and v.is_integer() else v for v in plain]
    kinds = {type(value) for value in plain}
    if not (kinds <= {str} or kinds <= {bool} or kinds <= {int, float}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidBagsError.because(
            f"column {name!r} has categories of type{'s' if len(kinds) > 1 else ''} {names}",
            "only text, only numbers or only truth values",
            "Convert the column to text.",
        )
    repeated = [value for value, times in Counter(plain).items() if times > 1]
    if repeated:
        raise InvalidBagsError.because(
            f"column {name!r} has the category {repeated[0]!r} twice",
            "every category once",
            "Remove one of the two.",
        )
    return tuple(plain)
