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

# Points used to find out where ordinary values lie, if no sample is given.
FENCE_POINTS = 20_000

# Values so many ordinary standard deviations away are fill values (9.97e36, 1e6, -999999) or slips
# of a unit: they have no say in what is ordinary, and count as lying here. Of a Gaussian column no
# value is beyond 10, of a heavy-tailed one (three degrees of freedom, a million points) none
# beyond 100.
FENCE = 100.0

# Central shares of the values by which the ordinary spread is measured: the first that is not 0,
# as more than half of a column may be equal; and half its width for a standard normal.
SHARES = ((0.5, 0.6745), (0.98, 2.3263), (0.998, 3.0902))

# Spread below this share of a column's size is rounding error: the column is constant.
CONSTANT = 1e-12


@dataclass(frozen=True, eq=False)
class Scaling:
    """Affine map of points, x ↦ (x − center) / scale, to float64, after x is brought within reach.

    Attributes
    ----------
    center, scale : (p,)
    reach : (p,), the largest |x − center|; beyond it, values count as lying there

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 5.0]], [[3.0, 5.0]]])
    >>> Scaling.fit(bags)(bags.points)
    array([[-1.,  0.], [ 1.,  0.]])
    """

    center: Float64[np.ndarray, " p"]
    scale: Float64[np.ndarray, " p"]
    reach: Float64[np.ndarray, " p"]

    @classmethod
    def of(
        cls, center: Float64[np.ndarray, " p"], scale: Float64[np.ndarray, " p"] | None = None
    ) -> Scaling:
        """Return the map with this center and scale (1 if none) that reaches as far as numbers do.

        Examples
        --------
        >>> Scaling.of(np.zeros(1))(np.array([[1e9]]))
        array([[1.e+09]])
        """
        ones = np.ones_like(center)
        return cls(center, ones if scale is None else scale, ones * np.finfo(np.float64).max)

    @classmethod
    def fit(
        cls,
        bags: Bags,
        *,
        standardize: bool = True,
        sample: Float[np.ndarray, "m p"] | None = None,
    ) -> Scaling:
        """Take the mean and standard deviation of all points; only the mean if not standardize.

        Values far beyond the ordinary ones of a sample of the points (see :data:`FENCE`) are left
        out. Constant columns are left at scale 1. If all are constant there is nothing to learn
        from.
        """
        if sample is None:
            sample = bags.points[:: -(-bags.n_points // FENCE_POINTS)]
        center, scale = _moments(bags, *ordinary_range(sample.astype(np.float64)))
        constant = scale <= CONSTANT * np.abs(center)
        if constant.all():
            raise InvalidBagsError.because(
                "every feature is constant: all points are equal",
                "at least one feature that varies",
                "Check the columns; if only the bag sizes vary, use bags.with_log_size() and an "
                "ordinary regression on bags.covariates.",
            )
        scale = np.where(constant, 1.0, scale)
        return cls(center, scale if standardize else np.ones_like(scale), FENCE * scale)

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n p"]:
        """Return the scaled points (n, p)."""
        return np.clip(points - self.center, -self.reach, self.reach) / self.scale


def ordinary_range(
    points: Float64[np.ndarray, "m p"],
) -> tuple[Float64[np.ndarray, " p"], Float64[np.ndarray, " p"]]:
    """Return, for each column, the least and the largest value that is not a gross outlier.

    median ± 100 s, with s the width of the middle half of the values, in units of a standard
    normal's; or of more of them, where half of the values are equal. A column of which nearly all
    values are equal has no ordinary spread, hence no limits.

    Examples
    --------
    >>> ordinary_range(np.array([[0.0], [1.0], [2.0], [3.0], [9.97e36]]))[1].round()
    array([150.])
    """
    middle, spread = np.median(points, axis=0), np.zeros(points.shape[1])
    for share, width in SHARES:
        low, high = np.quantile(points, [(1.0 - share) / 2.0, (1.0 + share) / 2.0], axis=0)
        spread = np.where(spread > 0, spread, (high - low) / (2.0 * width))
    reach = np.where(spread > 0, FENCE * spread, np.inf)
    return middle - reach, middle + reach


Column = Float64[np.ndarray, " p"]


def _moments(bags: Bags, low: Column, high: Column) -> tuple[Column, Column]:
    """Return the mean and standard deviation of all points within limits.

    Of a stream they are known, and only if some points lie outside is it read once more.
    """
    if isinstance(bags, BagStream):
        least, largest = bags.feature_range
        if (least >= low).all() and (largest <= high).all():
            return bags.feature_mean, bags.feature_std
    total, counts = 0.0, 0
    for block in _blocks(bags):
        inside = (block >= low) & (block <= high)
        total, counts = (
            total + np.where(inside, block, 0.0).sum(axis=0),
            counts + inside.sum(axis=0),
        )
    center = np.asarray(total / counts)
    squares = 0.0
    for block in _blocks(bags):
        inside = (block >= low) & (block <= high)
        squares = squares + (np.where(inside, block - center, 0.0) ** 2).sum(axis=0)
    return center, np.sqrt(np.asarray(squares) / counts)


def _blocks(bags: Bags) -> Iterator[Float64[np.ndarray, "n p"]]:
    if isinstance(bags, BagStream):
        for batch in bags.batches("measuring columns"):
            yield batch.points.astype(np.float64)
        return
    rows = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // bags.n_features))
    for start in range(0, bags.n_points, rows):
        yield bags.points[start : start + rows].astype(np.float64)
