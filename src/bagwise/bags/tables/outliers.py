"""Outliers: values so far from all others of their column that they are hardly meant as numbers.

A fill value, such as 9.97e36 or -9999, blinds whatever is scaled by the column. Heavy tails do not
look like that: beyond its largest values the tail of an honest column goes on at the pace at which
they follow each other. With distances d₁ ≥ d₂ ≥ … of the other values from the median, Hill's
estimate γ of that pace (the mean of log dᵢ/dₖ₊₁ over i ≤ k, the largest over several k) gives a
value at distance d the chance (d/d₁)^(−1/γ) of being next. It is an outlier if that is below e⁻²⁴.

B. M. Hill (1975), A simple general approach to inference about the tail of a distribution.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64

from bagwise.bags.tables.sample import Sample

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
CHUNK_NUMBERS = 1 << 18  # that are looked at together, so that memory stays small

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
class Outlier:
    """A value that lies far from all others of its column.

    Attributes
    ----------
    column : int;  value : float;  count : int, how often it occurs
    low, high : float, between which the others lie, or a sample of them
    """

    column: int
    value: float
    count: int
    low: float
    high: float


class Extremes:
    """Least and largest values of columns, and a sample of their rows, as batches come.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(size=(6700, 2))
    >>> x[17, 1] = 1e6
    >>> extremes = Extremes()
    >>> for batch in np.array_split(x, 10):
    ...     extremes.add(batch)
    >>> [(found.column, found.value, found.count) for found in extremes.outliers()]
    [(1, 1000000.0, 1)]
    """

    def __init__(self) -> None:
        self._n = 0
        self._sample: Sample | None = None
        self._ends = np.zeros((2, 0))  # least and largest value of each column
        self._counts = np.zeros((2, 0), dtype=np.int64)

    def add(self, rows: Float[np.ndarray, "m p"]) -> None:
        """Look at some rows of finite numbers."""
        if not rows.size:
            return
        step = max(256, CHUNK_NUMBERS // rows.shape[1])
        for start in range(0, len(rows), step):
            self._add(rows[start : start + step])

    def _add(self, rows: Float[np.ndarray, "m p"]) -> None:
        if self._sample is None:
            p = rows.shape[1]
            size = min(SAMPLE_ROWS, max(2 * FEWEST, SAMPLE_NUMBERS // p))
            self._sample = Sample(size, np.random.default_rng(0))
            self._ends = np.array([[np.inf], [-np.inf]]).repeat(p, axis=1)
            self._counts = np.zeros((2, p), dtype=np.int64)
        self._n += len(rows)
        self._sample.add(rows)
        ends = np.array([rows.min(axis=0), rows.max(axis=0)], dtype=np.float64)
        for side, further in enumerate((ends[0] < self._ends[0], ends[1] > self._ends[1])):
            self._counts[side, further] = 0
            self._ends[side, further] = ends[side, further]
            met = np.flatnonzero(ends[side] == self._ends[side])  # soon no column, or few
            here = rows[:, met] == ends[side, met].astype(rows.dtype)
            self._counts[side, met] += here.sum(axis=0)

    def outliers(self) -> list[Outlier]:
        """Return the outliers of all columns, at most one on each side of a column."""
        if self._sample is None:
            return []
        rows = self._sample.rows().astype(np.float64)
        found, step = [], max(1, CHUNK_NUMBERS // len(rows))
        for start in range(0, rows.shape[1], step):
            columns = slice(start, start + step)
            out = _lies_out(rows[:, columns], self._ends[:, columns], self._n)
            for side, column in np.argwhere(out).tolist():
                found.append(self._outlier(rows[:, start + column], start + column, side))
        return sorted(found, key=lambda outlier: (outlier.column, outlier.value))

    def _outlier(self, sample: Float64[np.ndarray, " m"], column: int, side: int) -> Outlier:
        value = float(self._ends[side, column])
        others = sample[sample != value]
        count = int(self._counts[side, column])
        return Outlier(column, value, count, float(others.min()), float(others.max()))


def find_outliers(array: Float[np.ndarray, "rows columns"]) -> list[Outlier]:
    """Return the values of finite columns that lie far from all others, such as fill values.

    Examples
    --------
    >>> find_outliers(np.append(np.linspace(0, 30, 100), -9999.0)[:, None])
    [Outlier(column=0, value=-9999.0, count=1, low=0.0, high=30.0)]
    """
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
