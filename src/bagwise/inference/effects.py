"""Fixed effects: the intercept and the bag-level covariates, linear beside the embedding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

# A combination of covariates is taken to be one of the others below this share of the largest.
COLLINEAR = 1e-9


@dataclass(frozen=True, eq=False)
class FixedEffects:
    """Columns for the intercept and the covariates, free of collinearity.

    F_i = [1, (c_i − center)/scale] A, with A such that the training columns, weighted as the bags
    are, are orthogonal and have mean square 1. Dummy variables that add up to 1, a constant column,
    or one that varies only in bags of weight 0 so do no harm.

    Attributes
    ----------
    center, scale : (c,), weighted means and standard deviations of the covariates; of constants,
        their size, or 1
    mixing : (1 + c, r), A
    """

    center: Float64[np.ndarray, " c"]
    scale: Float64[np.ndarray, " c"]
    mixing: Float64[np.ndarray, "c+1 r"]

    @classmethod
    def fit(
        cls, covariates: Float64[np.ndarray, "n c"] | None, weights: Float64[np.ndarray, " n"]
    ) -> FixedEffects:
        """Learn the columns from the covariates, if any, and the weights of the training bags.

        Examples
        --------
        >>> dummies = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> FixedEffects.fit(dummies, np.ones(3)).design(dummies, 3).shape
        (3, 2)
        """
        covariates = np.zeros((len(weights), 0)) if covariates is None else covariates
        share = weights / weights.sum()
        center = share @ covariates
        scale = np.sqrt(share @ (covariates - center) ** 2)
        size = np.maximum(np.abs(center), 1.0)  # of constants, beside which rounding is nothing
        scale = np.where(scale > COLLINEAR * np.abs(center), scale, size)
        raw = np.column_stack([np.ones(len(weights)), (covariates - center) / scale])
        _, values, rows = np.linalg.svd(np.sqrt(share)[:, None] * raw, full_matrices=False)
        keep = values > COLLINEAR * values[0]
        return cls(center, scale, rows[keep].T / values[keep])

    def design(
        self, covariates: Float64[np.ndarray, "n c"] | None, n_bags: int
    ) -> Float64[np.ndarray, "n r"]:
        """Return the columns F for some bags."""
        covariates = np.zeros((n_bags, 0)) if covariates is None else covariates
        raw = np.column_stack([np.ones(n_bags), (covariates - self.center) / self.scale])
        return raw @ self.mixing

    def without(self, column: int) -> FixedEffects:
        """Return effects in which a covariate, constant in training, has no part at all."""
        mixing = self.mixing.copy()
        mixing[1 + column] = 0.0
        return FixedEffects(self.center, self.scale, mixing)

    def unmix(
        self, coefficients: Float64[np.ndarray, " r"]
    ) -> tuple[float, Float64[np.ndarray, " c"]]:
        """Return the intercept and the coefficients of the covariates in their own units."""
        raw = self.mixing @ coefficients
        slopes = raw[1:] / self.scale
        return float(raw[0] - slopes @ self.center), slopes
