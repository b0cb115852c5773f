"""A prediction with heavy tails: Student's t with the mean and the variance of a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import betaln, stdtr, stdtrit

from bagwise.bags.per_bag import PerBag
from bagwise.predictions.gaussian import (
    FARTHEST,
    Prediction,
    Seed,
    check_probabilities,
    check_sampling,
    check_targets,
)

__all__ = ["StudentPrediction"]


class StudentPrediction(Prediction):
    """Student's t predictive distribution of the label of each bag.

    y_i = mean_i + s_i T,   T ~ t of ν degrees of freedom,   s_i² = var_i (ν − 2)/ν

    Mean and variance, and the parts of the variance, are those of the Gaussian prediction.

    Parameters
    ----------
    plain : Prediction with these moments
    dof : ν > 2

    Examples
    --------
    >>> from bagwise.predictions.parts import VarianceParts
    >>> plain = Prediction([0.0], VarianceParts.broadcast(1, noise=1.0))
    >>> p = StudentPrediction(plain, dof=3.0)
    >>> p.std, p.interval(0.5).round(2), p.interval(0.999).round(1)
    (array([1.]), array([[-0.44,  0.44]]), array([[-7.5,  7.5]]))
    """

    def __init__(self, plain: Prediction, *, dof: float) -> None:
        self._dof, self._plain = dof, plain
        super().__init__(
            plain.mean, plain.parts, sizes=plain.sizes, ids=plain.ids, query=plain._query
        )
        self._scale = np.sqrt(self.var * (dof - 2.0) / dof)

    @property
    def dof(self) -> float:
        """Degrees of freedom ν."""
        return self._dof

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        away = stdtrit(self._dof, check_probabilities(q))
        if away.ndim == 0:
            return self._mean + self._scale * away
        return self._mean[:, None] + self._scale[:, None] * away

    def cdf(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or an array (n,). A step if var is zero."""
        return stdtr(self._dof, self._away(check_targets(y, len(self), self._ids, scalar=True)))

    def _away(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        """Return (y − mean)/s, within what can be squared."""
        error = y - self._mean
        step = np.where(error >= 0, FARTHEST, -FARTHEST)  # the limit s -> 0
        away = np.divide(error, self._scale, out=step, where=self._scale > 0)
        return np.clip(away, -FARTHEST, FARTHEST)

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log density at ``y`` (n,)."""
        y = check_targets(y, len(self), self._ids)
        self._require_density(self.var)
        return _log_density(self._away(y), self._dof) - np.log(self._scale)

    def crps(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y`` (n,).

        s {z (2F(z) − 1) + 2f(z)(ν + z²)/(ν − 1) − 2√ν B(½, ν − ½)/((ν − 1) B(½, ν/2)²)}

        with F and f of the standard t, z = (y − mean)/s.

        References
        ----------
        Jordan, Krüger and Lerch (2019), Evaluating probabilistic forecasts with scoringRules.
        """
        y = check_targets(y, len(self), self._ids)
        nu, z = self._dof, np.abs(self._away(y))
        spread = np.exp(betaln(0.5, nu - 0.5) - 2.0 * betaln(0.5, 0.5 * nu))
        density = np.exp(_log_density(z, nu) + np.log(nu + z**2)) / (nu - 1.0)
        rest = 2.0 * density - 2.0 * np.sqrt(nu) / (nu - 1.0) * spread
        error = np.abs(y - self._mean)
        score = error * (1.0 - 2.0 * stdtr(nu, -z)) + self._scale * rest
        return np.where(self._scale > 0, score, error)

    def sample(self, size: int = 1, random_state: Seed = None) -> Float[np.ndarray, "size n"]:
        """Independent draws of the labels: (size, n)."""
        rng = check_sampling(size, random_state)
        return self._mean + self._scale * rng.standard_t(self._dof, (size, len(self)))

    def at_size(self, n_points: ArrayLike) -> StudentPrediction:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        With the same tails; see `Prediction.at_size`.
        """
        return StudentPrediction(self._plain.at_size(n_points), dof=self._dof)

    def __getitem__(self, index: Any) -> StudentPrediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        return StudentPrediction(self._plain[self._rows(index)], dof=self._dof)


def _log_density(z: Float[np.ndarray, " n"], nu: float) -> Float[np.ndarray, " n"]:
    """Return the log density of the standard t."""
    return -0.5 * np.log(nu) - betaln(0.5, 0.5 * nu) - 0.5 * (nu + 1.0) * np.log1p(z**2 / nu)
