"""Counts that vary more than Poisson's: y ~ Poisson(t e^f g), g ~ Gamma(mean 1, variance a)."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.special import betainc, digamma, expit, gammaln

from bagwise.likelihoods.base import Bend, Vector
from bagwise.likelihoods.counts import CountLikelihood, exp, log_normal_moments, log_rate

# Less dispersion than this is none; beyond, the gamma functions would lose their digits.
LEAST = 1e-8


class NegativeBinomial(CountLikelihood):
    """Overdispersed counts: of variance μ + aμ², μ = t e^f; a is the noise level.

    −log p = (y + 1/a) log(1 + aμ) − y log(aμ) − log Γ(y + 1/a) + log Γ(1/a) + log y!

    Examples
    --------
    >>> law = NegativeBinomial(np.ones(1))
    >>> law.bend(np.array([3.0]), np.zeros(1), np.ones(1)).first  # (μ − y)/(1 + aμ)
    array([-1.])
    """

    name = "negative-binomial"
    target = "log rate"
    has_noise = True

    def center(self, y: Vector, weights: Vector) -> float:
        """Return the log of the average rate."""
        return log_rate(y, self.totals, weights)

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p, without log y!, and its derivatives."""
        a = np.maximum(noise, LEAST)
        r, log_mean = 1.0 / a, latent + np.log(self.totals)
        mean = exp(log_mean)
        odds = np.log(a) + log_mean  # of aμ/(1 + aμ)
        grown, share, rest = np.logaddexp(0.0, odds), expit(odds), expit(-odds)
        return Bend(
            value=(y + r) * grown - y * odds - gammaln(y + r) + gammaln(r),
            first=(mean - y) * rest,
            second=(y + r) * share * rest,
            third=(y + r) * share * rest * (rest - share),
            noise_value=r**2 * (digamma(y + r) - digamma(r) - grown) + r * (mean - y) * rest,
            noise_first=-(mean - y) * r * share * rest,
            noise_second=(y * rest - 2.0 * share * (y + r) * rest) * r * share,
        )

    def rate(self, latent: Any) -> Any:
        """Return e^f."""
        return exp(latent)

    def steep(self, k: Any, totals: Any, noise: Any) -> tuple[Any, Any]:
        """Return log of (k + ½)/t, and the width of such counts there."""
        return np.log((k + 0.5) / totals), np.sqrt(1.0 / (k + 0.5) + noise)

    def cdf(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return P(y ≤ k | f)."""
        a = np.maximum(noise, LEAST)
        log_odds = np.log(a * totals) + latent
        return betainc(1.0 / a, k + 1.0, expit(-log_odds))

    def log_prob(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return log P(y = k | f)."""
        a = np.maximum(noise, LEAST)
        r, odds = 1.0 / a, np.log(a * totals) + latent
        chosen = gammaln(k + r) - gammaln(r) - gammaln(k + 1.0)
        return chosen + k * odds - (k + r) * np.logaddexp(0.0, odds)

    def moments(self, mean: Vector, var: Vector, noise: Vector) -> tuple[Vector, Vector, Vector]:
        """Return E μ, Var μ and E [μ + aμ²]."""
        first, second = log_normal_moments(mean, var, self.totals)
        return first, second * -np.expm1(-var), first + noise * second

    def draw(self, rng: Any, latent: Any, noise: Vector) -> Float64[np.ndarray, "..."]:
        """Return counts."""
        mean = self.totals * exp(latent)
        shape = np.broadcast_to(1.0 / np.maximum(noise, LEAST), mean.shape)
        return rng.poisson(np.minimum(mean * rng.gamma(shape) / shape, 1e18)).astype(np.float64)
