"""A prediction with heavy tails: Student's t with the mean and the variance of a Gaussian."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.special import betaln, stdtr, stdtrit

from bagwise.predictions.gaussian import FARTHEST, Generator, Prediction
from bagwise.predictions.linked import ReshapedPrediction


class StudentPrediction(ReshapedPrediction):
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
        self._dof = dof
        self._made(plain, plain.mean, plain.parts)
        self._scale = np.sqrt(self.var * (dof - 2.0) / dof)

    @property
    def dof(self) -> float:
        """Degrees of freedom ν."""
        return self._dof

    def _of(self, plain: Prediction, rows: Any) -> StudentPrediction:
        return StudentPrediction(plain, dof=self._dof)

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return self._mean[:, None] + self._scale[:, None] * stdtrit(self._dof, q)

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return stdtr(self._dof, self._away(y))

    def _away(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        """Return (y − mean)/s, within what can be squared."""
        error = y - self._mean
        step = np.where(error >= 0, FARTHEST, -FARTHEST)  # the limit s -> 0
        away = np.divide(error, self._scale, out=step, where=self._scale > 0)
        return np.clip(away, -FARTHEST, FARTHEST)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        self._require_density(self.var)
        return _log_density(self._away(y), self._dof) - np.log(self._scale)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the scores in closed form.

        s {z (2F(z) − 1) + 2f(z)(ν + z²)/(ν − 1) − 2√ν B(½, ν − ½)/((ν − 1) B(½, ν/2)²)}

        with F and f of the standard t, z = (y − mean)/s.

        References
        ----------
        Jordan, Krüger and Lerch (2019), Evaluating probabilistic forecasts with scoringRules.
        """
        nu, z = self._dof, np.abs(self._away(y))
        spread = np.exp(betaln(0.5, nu - 0.5) - 2.0 * betaln(0.5, 0.5 * nu))
        density = np.exp(_log_density(z, nu) + np.log(nu + z**2)) / (nu - 1.0)
        rest = 2.0 * density - 2.0 * np.sqrt(nu) / (nu - 1.0) * spread
        error = np.abs(y - self._mean)
        score = error * (1.0 - 2.0 * stdtr(nu, -z)) + self._scale * rest
        return np.where(self._scale > 0, score, error)

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        return self._mean + self._scale * rng.standard_t(self._dof, (size, len(self)))


def _log_density(z: Float[np.ndarray, " n"], nu: float) -> Float[np.ndarray, " n"]:
    """Return the log density of the standard t."""
    return -0.5 * np.log(nu) - betaln(0.5, 0.5 * nu) - 0.5 * (nu + 1.0) * np.log1p(z**2 / nu)
