"""ReadReport: what was left out or filled in while a table was read, and what looks wrong.

Two things look wrong: a feature that is constant in every bag, as a covariate is
(:class:`Constancy`), and an outlier (:class:`Extremes`).

Outliers are values so far from all others of their column that they are hardly meant as numbers.

A fill value, such as 9.97e36 or -9999, blinds whatever is scaled by the column. Heavy tails do not
look like that: beyond its largest values the tail of an honest column goes on at the pace at which
they follow each other. With distances d₁ ≥ d₂ ≥ … of the other values from the median, Hill's
estimate γ of that pace (the mean of log dᵢ/dₖ₊₁ over i ≤ k, the largest over several k) gives a
value at distance d the chance (d/d₁)^(−1/γ) of being next. It is an outlier if that is below e⁻²⁴.

B. M. Hill (1975), A simple general approach to inference about the tail of a distribution.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, Shaped

from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseWarning

SHOWN = 5  # bags, columns or categories that a message names before it only counts the others
NAMED = 100  # columns left out that are named before the others are only counted
# Chance below which rows of a bag do not agree by accident.
BY_CHANCE = 1e-6
# Numbers to remember from which on nobody is told: nearly every bag has one point.
TOO_MANY = 1 << 24

# Minus the log of the chance below which a value is an outlier: so small that 20,000 columns of the
# heaviest tails raise no alarm. Less is asked of numbers that are known as fill values.
SURE, SURE_OF_KNOWN = 24.0, 7.0
# Pace of tails that are taken for granted, between those of a normal and of Student's t with 4
# degrees of freedom; without it, columns of a few whole numbers would have none.
LEAST_PACE = 0.25
# Values by which the pace of a tail is estimated: 10, 20, 40, ... up to a share of those there are.
FIRST_TAIL, TAIL_SHARE = 10, 0.05
# Other values, besides those equal to the median, without which nothing is said.
FEWEST = 40
# Different values that may lie out together on both sides.
TOGETHER = 3
# Rows, and numbers, of the sample from which tails are estimated.
SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 1 << 22
CHUNK_NUMBERS = 1 << 18  # looked at together: little memory, and most columns soon vary

# Fill values of netCDF, GDAL, well logs, SPSS, and the ends of the ranges of numbers.
KNOWN = np.unique(
    np.concatenate(
        [
            [sign * (10.0**k - 1) for k in range(3, 8) for sign in (-1, 1)],
            [-999.25, -999.9, -9999.25, -9999.9, 9.969209968386869e36, -9.969209968386869e36],
            [1e20, -1e20, 1e30, -1e30, 1e35, -1e35, 1e36, -1e36],
            [2.0**k - end for k in (15, 16, 31, 32) for end in (0, 1)],
            [end - 2.0**k for k in (15, 31) for end in (0, 1)],
            [np.finfo(np.float32).max, np.finfo(np.float32).min],
        ]
    ).astype(np.float32)
)


@dataclass(frozen=True)
class ReadReport:
    """What was left out or filled in while a table was read.

    Attributes
    ----------
    n_rows, n_dropped_rows : of the table of points; left out because a value is missing
    gaps : missing values by column, if rows with missing values were left out
    n_imputed : missing values by column that were filled in
    dropped_bags : bags that lost all their points to missing values, or have no label
    unmatched_bags, unmatched_labels : without a row in the labels table; there, but without points
    left_out : columns that are no features because they are not numbers, and why
    constant : features that have one value in every bag, as covariates do
    outliers : values far from all others of their column, each in a sentence

    Examples
    --------
    >>> ReadReport(n_rows=9, n_imputed={"x": 2}, unmatched_bags=("ann",)).lines()
    ["Filled in 2 missing values by the median of their column (2 in column 'x').",
     "Left out 1 bag without a row in the labels table: 'ann'."]
    """

    n_rows: int = 0
    n_dropped_rows: int = 0
    gaps: dict[str, int] = field(default_factory=dict)
    n_imputed: dict[str, int] = field(default_factory=dict)
    dropped_bags: tuple[Any, ...] = ()
    unmatched_bags: tuple[Any, ...] = ()
    unmatched_labels: tuple[Any, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)
    constant: tuple[str, ...] = ()
    outliers: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Say in one sentence each what somebody who reads a table should know."""
        lines = []
        if self.gaps:
            rows = f"{self.n_dropped_rows:,} of {count(self.n_rows, 'row')}"
            lines.append(f"Left out {rows} for missing values ({by_column(self.gaps)}).")
        if self.n_imputed:
            total = count(sum(self.n_imputed.values()), "missing value")
            where = by_column(self.n_imputed)
            lines.append(f"Filled in {total} by the median of their column ({where}).")
        for bags, reason in (
            (self.dropped_bags, "with a missing value in every row"),
            (self.unmatched_bags, "without a row in the labels table"),
            (self.unmatched_labels, "of the labels table without points"),
        ):
            if bags:
                lines.append(f"Left out {count(len(bags), 'bag')} {reason}: {some(bags)}.")
        if self.left_out:
            named = [f"{name!r} ({why})" for name, why in self.left_out.items()]
            number, rest = count(len(named), "column"), len(named) - NAMED
            named = named[:NAMED] + ([f"and {rest:,} more"] if rest > 0 else [])
            lines.append(
                f"Left out {number}: {', '.join(named)}. Name the columns to use with "
                "features=[...], encode categories with one_hot=[...], or say ignore=[...]."
            )
        if self.constant:
            plural = len(self.constant) > 1
            lines.append(
                f"Column{'s' if plural else ''} {some(self.constant)} "
                f"{'have' if plural else 'has'} one value in every bag: a covariate, or the label? "
                "Say so with covariates=[...] or label=..., or name the features."
            )
        shown = list(self.outliers[:SHOWN])
        rest = len(self.outliers) - SHOWN
        more = [f"There are such values in {count(rest, 'more column')}."] if rest > 0 else []
        return [*lines, *shown, *more]

    def warn(self, stacklevel: int) -> None:
        """Warn of what was left out, filled in or looks wrong, if anything was."""
        lines = self.lines()
        if lines:
            warnings.warn(" ".join(lines), BagwiseWarning, stacklevel=stacklevel + 1)


def tell(found: Sequence[Outlier], names: Sequence[str], what: str = "Column") -> tuple[str, ...]:
    """Say in one sentence each what outliers there are, and what to do if they are not meant."""
    return tuple(
        f"{what} {names[outlier.column]!r} has {count(outlier.count, 'value')} of "
        f"{outlier.value!r}, far from all others ({outlier.low:.4g} to {outlier.high:.4g}): if it "
        f"stands for a missing value, say na_values={outlier.value!r} (--na), and "
        'missing="drop" or "impute".'
        for outlier in found
    )


def numbers_after(skip: int) -> np.random.Generator:
    """Return the generator of rows that come after so many others: of all rows the same numbers."""
    return np.random.Generator(np.random.PCG64(0).advance(skip))


class Sample:
    """A random sample of rows of numbers of which nobody knows how many will come.

    Every row is given a random number, and the k rows with the smallest are kept.
    """

    def __init__(self, k: float, rng: np.random.Generator) -> None:
        self._k, self._rng, self._below = k, rng, 1.0
        self._drawn = np.zeros(0)
        self._rows: Any = None

    def merge(self, other: Sample) -> None:
        """Add the sample of other rows."""
        if other._rows is None:
            return
        self._drawn = np.concatenate([self._drawn, other._drawn])
        self._rows = other._rows if self._rows is None else np.vstack([self._rows, other._rows])
        if len(self._drawn) > 2 * self._k:
            self._cut()

    def add(self, rows: Float[np.ndarray, "m q"]) -> None:
        """Add rows, of which some may be kept."""
        drawn = self._rng.random(len(rows))
        kept = np.flatnonzero(drawn < self._below)
        self._drawn = np.concatenate([self._drawn, drawn[kept]])
        rows = rows if len(kept) == len(rows) else rows[kept]
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


@dataclass(frozen=True)
class Outlier:
    """A value that lies far from all others of its column."""

    column: int
    value: float
    count: int  # how often it occurs
    low: float  # between these lie the others, or a sample of them
    high: float


class Extremes:
    """Least and largest values of columns, and a sample of their rows, as batches come."""

    def __init__(self, skip: int = 0) -> None:
        self._n, self._skip = 0, skip
        self._sample: Sample | None = None
        self.ends = np.zeros((2, 0))  # least and largest value of each column
        self._counts = np.zeros((2, 0), dtype=np.int64)

    def add(
        self, rows: Float[np.ndarray, "m p"], ends: Float64[np.ndarray, "2 p"] | None = None
    ) -> None:
        """Look at some rows of finite numbers, of which least and largest may be known."""
        step = max(256, CHUNK_NUMBERS // max(1, rows.shape[1]))
        for start in range(0, len(rows) if rows.size else 0, step):
            part = rows[start : start + step]
            self._add(part)
            if ends is None:
                own = np.array([part.min(axis=0), part.max(axis=0)], dtype=np.float64)
                self._compare(part, own)
        if ends is not None and rows.size:
            self._compare(rows, ends)

    def _add(self, rows: Float[np.ndarray, "m p"]) -> None:
        if self._sample is None:
            p = rows.shape[1]
            size = min(SAMPLE_ROWS, max(2 * FEWEST, SAMPLE_NUMBERS // p))
            self._sample = Sample(size, numbers_after(self._skip))
            self.ends = np.array([[np.inf], [-np.inf]]).repeat(p, axis=1)
            self._counts = np.zeros((2, p), dtype=np.int64)
        self._n += len(rows)
        self._sample.add(rows)

    def _compare(self, rows: Float[np.ndarray, "m p"], ends: Float64[np.ndarray, "2 p"]) -> None:
        """Count how often the ends of rows are those of all."""
        for side, further in enumerate((ends[0] < self.ends[0], ends[1] > self.ends[1])):
            self._counts[side, further] = 0
            self.ends[side, further] = ends[side, further]
            met = np.flatnonzero(ends[side] == self.ends[side])  # soon no column, or few
            here = rows[:, met] == ends[side, met].astype(rows.dtype)
            self._counts[side, met] += here.sum(axis=0)

    def merge(self, other: Extremes) -> None:
        """Add what other rows look like."""
        if self._sample is None or other._sample is None:
            if other._sample is not None:
                self.__dict__.update(vars(other))
            return
        self._n += other._n
        self._sample.merge(other._sample)
        for side, beyond in enumerate((np.less, np.greater)):
            equal = other.ends[side] == self.ends[side]
            further = beyond(other.ends[side], self.ends[side])
            self._counts[side] += np.where(equal, other._counts[side], 0)
            self._counts[side, further] = other._counts[side, further]
            self.ends[side, further] = other.ends[side, further]

    def outliers(self) -> list[Outlier]:
        """Return the outliers of all columns, at most one on each side of a column."""
        if self._sample is None:
            return []
        rows = self._sample.rows().astype(np.float64)
        found, step = [], max(1, CHUNK_NUMBERS // len(rows))
        for start in range(0, rows.shape[1], step):
            columns = slice(start, start + step)
            out = _lies_out(rows[:, columns], self.ends[:, columns], self._n)
            for side, column in np.add(np.argwhere(out), (0, start)).tolist():
                value, times = float(self.ends[side, column]), int(self._counts[side, column])
                others = rows[rows[:, column] != value, column]
                low, high = float(others.min()), float(others.max())
                found.append(Outlier(column, value, times, low, high))
        return sorted(found, key=lambda outlier: (outlier.column, outlier.value))


def find_outliers(array: Float[np.ndarray, "rows columns"]) -> list[Outlier]:
    """Return the values of finite columns that lie far from all others, such as fill values."""
    extremes = Extremes()
    extremes.add(array)
    return extremes.outliers()


def _lies_out(
    rows: Float64[np.ndarray, "m p"], ends: Float64[np.ndarray, "2 p"], n: int
) -> Bool[np.ndarray, "2 p"]:
    """Which ends of the columns lie far beyond the tails, of which rows are a sample of n."""
    with np.errstate(over="ignore"):  # distances that are infinite are far enough
        center = np.median(rows, axis=0)
        distance = np.abs(rows - center)
        ends_out = np.abs(ends - center)
    tail = Tail(distance)
    out = np.zeros(ends.shape, dtype=bool)
    # The farthest value of each column first; then without it, and so on.
    edge = ends_out.max(axis=0)
    for _ in range(TOGETHER):
        surprise = tail.surprise(edge, n / len(rows))
        far = surprise > SURE
        for column in np.flatnonzero((surprise > SURE_OF_KNOWN) & ~far):
            beyond = rows[distance[:, column] >= edge[column], column]
            values = np.append(beyond, ends[ends_out[:, column] >= edge[column], column])
            far[column] = np.isin(values.astype(np.float32), KNOWN).all()
        out |= far & (ends_out >= edge)
        edge = np.maximum(np.where(ends_out < edge, ends_out, 0.0).max(axis=0), tail.below(edge))
    return out


class Tail:
    """Distances from the median, farthest first; those of 0 say nothing of the tail."""

    def __init__(self, distance: Float64[np.ndarray, "m p"]) -> None:
        self._tail = -np.sort(-distance, axis=0)
        positive = self._tail > 0
        self._n = positive.sum(axis=0)
        self._logs = np.log(self._tail, out=np.zeros_like(distance), where=positive)
        self._sums = np.vstack([np.zeros(distance.shape[1]), np.cumsum(self._logs, axis=0)])

    def below(self, edge: Float64[np.ndarray, " p"]) -> Float64[np.ndarray, " p"]:
        """Return the farthest distance that is less than an edge, of each column; 0 if none is."""
        return np.where(self._tail < edge, self._tail, 0.0).max(axis=0)

    def surprise(self, edge: Float64[np.ndarray, " p"], fold: float) -> Float64[np.ndarray, " p"]:
        """Return minus the log of the chance that the tail below an edge goes on to that edge.

        The distances are one in so many (``fold``) of all that there are.
        """
        start = (self._tail >= edge).sum(axis=0)
        n = self._n - start
        pace = np.full(len(edge), LEAST_PACE)
        k = FIRST_TAIL
        while k < n.max(initial=0) and k <= max(FIRST_TAIL, TAIL_SHARE * n.max()):
            enough = (n > k) & (k <= np.maximum(FIRST_TAIL, TAIL_SHARE * n))
            last = np.where(enough, start + k, 0)
            total = _at(self._sums, last) - _at(self._sums, np.where(enough, start, 0))
            pace = np.maximum(pace, np.where(enough, total / k - _at(self._logs, last), 0.0))
            k *= 2
        judged = (n >= FEWEST) & (edge > 0)
        beyond = np.log(np.where(judged, edge, 1.0)) - _at(self._logs, np.where(judged, start, 0))
        return np.where(judged, beyond / pace - np.log(fold), 0.0)


def _at(array: Float64[np.ndarray, "m p"], row: Int64[np.ndarray, " p"]) -> Any:
    """Return one entry of each column."""
    return array[row, np.arange(array.shape[1])]


def grown(array: Shaped[np.ndarray, "m ..."], n: int, dtype: Any = None) -> Any:
    """Return an array of n entries or more, the new ones 0, of a type with room for dtype too.

    It doubles when it is full, so that one which grows bit by bit is seldom copied.

    Examples
    --------
    >>> grown(np.array([1, 2]), 3, np.float64)
    array([1., 2., 0., 0.])
    """
    array = array.astype(np.result_type(array.dtype, dtype or array.dtype), copy=False)
    n_new = 0 if n <= len(array) else max(n, 2 * len(array)) - len(array)
    new = np.zeros((n_new, *array.shape[1:]), array.dtype)
    return np.concatenate([array, new]) if n_new else array


class Constancy:
    """Which columns are constant in every bag and differ between bags, as rows come.

    The value of the first row of each bag is remembered, for columns that are still constant.

    Examples
    --------
    >>> bag = np.repeat(np.arange(10), 5)
    >>> watch = Constancy()
    >>> watch.add(np.column_stack([np.arange(50.0), 20.0 + bag, np.ones(50)]), bag)
    >>> watch.columns(np.full(10, 5))
    [1]
    """

    def __init__(self) -> None:
        self._left: Any = None  # columns that are constant so far
        self._first = np.zeros((0, 0))
        self._seen = np.zeros(0, dtype=bool)

    @property
    def possible(self) -> bool:
        """Whether some column may still be constant."""
        return self._left is None or len(self._left) > 0

    def add(self, points: Float[np.ndarray, "m p"], bags: Int64[np.ndarray, " m"]) -> None:
        """Look at some rows, and the number of the bag of each."""
        if self._left is None:
            self._left = np.arange(points.shape[1])
            self._first = np.zeros((0, points.shape[1]), points.dtype)
        start = 0
        while start < len(points) and len(self._left):
            stop = start + max(1, CHUNK_NUMBERS // len(self._left))
            self._add(points[start:stop][:, self._left], bags[start:stop])
            start = stop

    def _add(self, points: Float[np.ndarray, "m q"], bags: Int64[np.ndarray, " m"]) -> None:
        n = int(bags.max()) + 1
        if n * len(self._left) > TOO_MANY:
            self._left = self._left[:0]
            return
        self._seen, self._first = grown(self._seen, n), grown(self._first, n)
        found, rows = np.unique(bags, return_index=True)
        new = ~self._seen[found]
        self._first[found[new]] = points[rows[new]]
        self._seen[found[new]] = True
        same = (points == self._first[bags]).all(axis=0)
        if not same.all():
            self._left, self._first = self._left[same], self._first[:, same]

    def merge(self, other: Constancy, bags: Int64[np.ndarray, " k"]) -> None:
        """Add what is known of other rows; ``bags`` are the numbers here of the bags there."""
        if other._left is None:
            return
        if self._left is None:
            self._left, self._first = other._left, np.zeros((0, len(other._left)))
        both = np.intersect1d(self._left, other._left)
        if not len(both):
            self._left = both
            return
        mine, theirs = np.isin(self._left, both), np.isin(other._left, both)
        n = int(bags.max()) + 1
        if n * len(both) > TOO_MANY:
            both, mine[:], theirs[:] = both[:0], False, False
        first = other._first[: len(bags), theirs]
        self._left, self._first = both, grown(self._first[:, mine], n, first.dtype)
        self._seen = grown(self._seen, n)
        new = ~self._seen[bags]
        self._first[bags[new]] = first[new]
        self._seen[bags[new]] = True
        same = (first == self._first[bags]).all(axis=0)
        self._left, self._first = self._left[same], self._first[:, same]

    def columns(self, sizes: Int64[np.ndarray, " n_bags"]) -> list[int]:
        """Return the columns that bags of these sizes, in the order of their numbers, agree on."""
        if self._left is None:
            return []
        n_pairs, shares = sizes.sum() - len(sizes), sizes / sizes.sum()
        found = []
        for column, first in zip(self._left.tolist(), self._first[: len(sizes)].T, strict=True):
            _, codes = np.unique(first, return_inverse=True)
            alike = float((np.bincount(codes, weights=shares) ** 2).sum())  # of two rows at random
            if alike < 1 and n_pairs * np.log(alike) < np.log(BY_CHANCE):
                found.append(column)
        return found


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
    """Write how many of something each column has."""
    parts = [f"{number:,} in column {name!r}" for name, number in counts.items()]
    rest = len(parts) - SHOWN
    return ", ".join(parts[:SHOWN]) + (f" and some in {rest} more columns" if rest > 0 else "")
