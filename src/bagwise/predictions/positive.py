"""A prediction of positive labels: log-normal."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bagwise.bags.per_bag import PerBag
from bagwise.predictions.gaussian import Prediction, Seed, check_targets
from bagwise.predictions.linked import LinkedPrediction

__all__ = ["PositivePrediction"]

# A log beyond is taken to be there: its exponential, and of the largest the square, are numbers.
LEAST_LOG, LARGEST_LOG = -700.0, 300.0


class PositivePrediction(LinkedPrediction):
    """Log-normal predictive distribution of each label.

    log y_i ~ N(m_i, v_i),   median e^m,   mean e^(m + v/2),   variance mean² (e^v − 1)

    The parts of the variance have the shares that they have in v.

    Parameters
    ----------
    latent : Prediction of the logs

    Examples
    --------
    >>> from bagwise.predictions.parts import VarianceParts
    >>> p = PositivePrediction(Prediction([0.0], VarianceParts.broadcast(1, noise=1.0)))
    >>> p.mean.round(3), p.quantile(0.5), p.interval(0.9).round(2)
    (array([1.649]), array([1.]), array([[0.19, 5.18]]))
    """

    target = "log label"

    def __init__(self, latent: Prediction) -> None:
        mean = _exp(latent.mean + 0.5 * latent.var)
        logs = 2.0 * latent.mean + latent.var
        var = _exp(np.minimum(logs, LARGEST_LOG)) * np.expm1(np.minimum(latent.var, LARGEST_LOG))
        noise = np.divide(latent.parts.noise, latent.var, out=np.zeros(len(mean)), where=var > 0)
        super().__init__(latent, mean, (1.0 - noise) * var, noise * var)

    def _of(self, latent: Prediction, rows: Any) -> PositivePrediction:
        return PositivePrediction(latent)

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        return _exp(self._latent.quantile(q))

    def cdf(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or an array (n,)."""
        y = check_targets(y, len(self), self._ids, scalar=True)
        return np.where(y > 0, self._latent.cdf(_log(y)), 0.0)

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log density at ``y`` (n,): that of log y, minus log y; −∞ unless y > 0."""
        y = check_targets(y, len(self), self._ids)
        return np.where(y > 0, self._latent.log_prob(_log(y)) - _log(y), -np.inf)

    def crps(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y`` (n,).

        y {2Φ(z) − 1} − 2 mean {Φ(z − s) + Φ(s/√2) − 1},  z = (log y − m)/s,  s = √v

        References
        ----------
        Baran and Lerch (2015), Log-normal distribution based EMOS models for probabilistic wind
        speed forecasting.
        """
        y = check_targets(y, len(self), self._ids)
        m, s = self._latent.mean, self._latent.std
        z = np.divide(_log(y) - m, s, out=np.where(_log(y) >= m, np.inf, -np.inf), where=s > 0)
        z = np.where(y > 0, z, -np.inf)
        gap = ndtr(z - s) - ndtr(-s / np.sqrt(2.0))
        return np.maximum(y * (2.0 * ndtr(z) - 1.0) - 2.0 * self._mean * gap, 0.0)

    def sample(self, size: int = 1, random_state: Seed = None) -> Float[np.ndarray, "size n"]:
        """Independent draws of the labels: (size, n)."""
        return _exp(self._latent.sample(size, random_state))


def _exp(logs: Any) -> Any:
    return np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))


def _log(y: Any) -> Any:
    return np.log(np.where(y > 0, y, 1.0))
