"""Sample: rows drawn at random from batches of which nobody knows how many will come."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float


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

    def __init__(self, k: int, rng: np.random.Generator) -> None:
        self._k, self._rng, self._below = k, rng, 1.0
        self._drawn = np.zeros(0)
        self._rows: Any = None

    def add(self, rows: Float[np.ndarray, "m q"]) -> None:
        """Add rows, of which some may be kept."""
        drawn = self._rng.random(len(rows))
        mask = drawn < self._below
        self._drawn = np.concatenate([self._drawn, drawn[mask]])
        self._rows = rows[mask] if self._rows is None else np.vstack([self._rows, rows[mask]])
        if len(self._drawn) > 2 * self._k:
            self._cut()

    def _cut(self) -> None:
        best = np.argpartition(self._drawn, self._k)[: self._k]
        self._drawn, self._rows = self._drawn[best], self._rows[best]
        self._below = float(self._drawn.max())

    def rows(self) -> Float[np.ndarray, "k q"]:
        """Return the sample: all rows, if there were no more than k."""
        if len(self._drawn) > self._k:
            self._cut()
        return self._rows
