"""Constancy: columns of points that have one value in every bag, as covariates have."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float, Int64

# Chance below which rows of a bag do not agree by accident.
BY_CHANCE = 1e-6
CHUNK_NUMBERS = 1 << 18  # that are compared together, so that most columns are soon out
# Numbers to remember from which on nobody is told: nearly every bag has one point.
TOO_MANY = 1 << 24


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
        if n > len(self._seen):
            room = max(n, 2 * len(self._seen)) - len(self._seen)
            if (len(self._seen) + room) * len(self._left) > TOO_MANY:
                self._left = self._left[:0]
                return
            self._seen = np.concatenate([self._seen, np.zeros(room, dtype=bool)])
            blank = np.zeros((room, len(self._left)), self._first.dtype)
            self._first = np.concatenate([self._first, blank])
        found, rows = np.unique(bags, return_index=True)
        new = ~self._seen[found]
        self._first[found[new]] = points[rows[new]]
        self._seen[found[new]] = True
        same = (points == self._first[bags]).all(axis=0)
        if not same.all():
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
