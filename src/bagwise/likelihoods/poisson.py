"""Counts by the log link: y ~ Poisson(t e^f), with t what they are in proportion to."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import gammaincc, gammaln

from bagwise.likelihoods.base import Bend, Vector
from bagwise.likelihoods.counts import CountLikelihood, exp, log_normal_moments, log_rate


class Poisson(CountLikelihood):
    """Counts in proportion to an exposure: −log p = μ − y log μ + log y!, μ = t e^f.

    Examples
    --------
    >>> bend = Poisson(np.ones(2)).bend(np.array([1.0, 3.0]), np.zeros(2), np.zeros(2))
    >>> bend.value.round(3), bend.first  # beside that of μ = y
    (array([0.   , 1.296]), array([ 0., -2.]))
    """

    name = "poisson"
    target = "log rate"

    def center(self, y: Vector, weights: Vector) -> float:
        """Return the log of the average rate."""
        return log_rate(y, self.totals, weights)

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p and its derivatives, beside the value at μ = y.

        y (e^d − 1 − d) with d = log μ − log y: of huge counts no digits cancel.
        """
        log_mean = latent + np.log(self.totals)
        mean, some = exp(log_mean), y > 0
        d = log_mean - np.log(np.where(some, y, 1.0))
        value = np.where(some, y * (np.expm1(np.minimum(d, 300.0)) - d), mean)
        return Bend(value, mean - y, mean, mean)

    def rate(self, latent: Any) -> Any:
        """Return e^f."""
        return exp(latent)

    def steep(self, k: Any, totals: Any, noise: Any) -> tuple[Any, Any]:
        """Return log of (k + ½)/t, and the width of Poisson counts there."""
        return np.log((k + 0.5) / totals), 1.0 / np.sqrt(k + 0.5)

    def cdf(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return P(y ≤ k | f)."""
        return gammaincc(k + 1.0, totals * exp(latent))

    def log_prob(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return log P(y = k | f)."""
        log_mean = latent + np.log(totals)
        return k * log_mean - exp(log_mean) - gammaln(k + 1.0)

    def moments(self, mean: Vector, var: Vector, noise: Vector) -> tuple[Vector, Vector, Vector]:
        """Return E μ, Var μ and E μ."""
        first, second = log_normal_moments(mean, var, self.totals)
        return first, second * -np.expm1(-var), first

    def draw(self, rng: Any, latent: Any, noise: Vector) -> Float64[np.ndarray, "..."]:
        """Return counts."""
        return rng.poisson(np.minimum(self.totals * exp(latent), 1e18)).astype(np.float64)
