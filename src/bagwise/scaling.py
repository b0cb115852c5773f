"""Scaling: the shift and scale of each feature, so that no unit drowns the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Float64

from bagwise.bags import Bags, BagStream
from bagwise.exceptions import InvalidBagsError

# Points worked on at once: so many rows, or fewer if these are long.
BLOCK_ROWS = 1 << 16
BLOCK_NUMBERS = 1 << 22

# Spread below this share of a column's size is rounding error: the column is constant.
CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class Scaling:
    """Affine map of points, x ↦ (x − center) / scale, to float64.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 5.0]], [[3.0, 5.0]]])
    >>> Scaling.fit(bags)(bags.points)
    array([[-1.,  0.], [ 1.,  0.]])
    """

    center: Float64[np.ndarray, " p"]
    scale: Float64[np.ndarray, " p"]

    @classmethod
    def fit(cls, bags: Bags, *, standardize: bool = True) -> Scaling:
        """Take the mean and standard deviation of all points; only the mean if not standardize.

        Constant columns are left at scale 1. If all are constant there is nothing to learn from.
        """
        center, scale = _moments(bags)
        constant = scale <= CONSTANT * np.abs(center)
        if constant.all():
            raise InvalidBagsError.because(
                "every feature is constant: all points are equal",
                "at least one feature that varies",
                "Check the columns; if only the bag sizes vary, use bags.with_log_size() and an "
                "ordinary regression on bags.covariates.",
            )
        return cls(center, np.where(constant, 1.0, scale) if standardize else np.ones_like(scale))

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n p"]:
        """Return the scaled points (n, p)."""
        return (points - self.center) / self.scale


def _moments(bags: Bags) -> tuple[Float64[np.ndarray, " p"], Float64[np.ndarray, " p"]]:
    """Return the mean and standard deviation of all points; of a stream they are known."""
    if isinstance(bags, BagStream):
        return bags.feature_mean, bags.feature_std
    total = sum(block.sum(axis=0) for block in _blocks(bags))
    center = np.asarray(total / bags.n_points)
    squares = sum(((block - center) ** 2).sum(axis=0) for block in _blocks(bags))
    return center, np.sqrt(np.asarray(squares) / bags.n_points)


def _blocks(bags: Bags) -> Iterator[Float64[np.ndarray, "n p"]]:
    rows = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // bags.n_features))
    for start in range(0, bags.n_points, rows):
        yield bags.points[start : start + rows].astype(np.float64)
