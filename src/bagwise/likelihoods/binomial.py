"""Successes out of a known number of trials: y ~ Binomial(t, 1/(1 + e^−f))."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float64
from scipy.special import betainc, expit, gammaln, log_expit, logit, xlogy

from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseError
from bagwise.likelihoods.base import Bend, Vector
from bagwise.likelihoods.counts import CountLikelihood, refuse
from bagwise.predictions.counts import averages
from bagwise.predictions.parts import brief


class Binomial(CountLikelihood):
    """Successes in t trials by the logistic link: −log p = t log(1 + e^f) − y f − log (t over y).

    Examples
    --------
    >>> bend = Binomial(np.array([4.0])).bend(np.array([1.0]), np.zeros(1), np.zeros(1))
    >>> bend.first, bend.second
    (array([1.]), array([1.]))
    """

    name = "binomial"
    target = "log odds of success"
    needs_totals = True

    def check_totals(self, ids: Any) -> None:
        """Raise unless there are whole numbers of trials."""
        super().check_totals(ids)
        refuse(
            self.totals != np.floor(self.totals),
            lambda i: f"the total of bag {show(ids[i])} (position {i}) is {self.totals[i]:g}",
            "a whole number of trials",
            "Correct the column of totals.",
        )

    def check(self, y: Vector, ids: Any) -> None:
        """Raise unless there are no more successes than trials."""
        super().check(y, ids)
        refuse(
            y > self.totals,
            lambda i: (
                f"the label of bag {show(ids[i])} (position {i}) is {y[i]:g}, and its total "
                f"{self.totals[i]:g}"
            ),
            "no more successes than trials",
            "Correct one of the two.",
        )

    def at_total(self, totals: Vector) -> Self:
        """Return the likelihood of the same bags with other numbers of trials."""
        if (totals != np.floor(totals)).any():
            raise BagwiseError.because(
                f"totals are {brief(totals)}", "whole numbers of trials", "Round them."
            )
        return super().at_total(totals)

    def possible(self, y: Vector) -> Bool[np.ndarray, " n"]:
        """Return whether there are no more successes than trials."""
        return super().possible(y) & (y <= self.totals)

    def center(self, y: Vector, weights: Vector) -> float:
        """Return the log odds of the average rate; half a trial is supposed either way."""
        return float(logit((weights @ y + 0.5) / (weights @ self.totals + 1.0)))

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p and its derivatives, beside the value at a rate of y/t."""
        t, p, q = self.totals, expit(latent), expit(-latent)
        best = xlogy(y, y / t) + xlogy(t - y, (t - y) / t)
        value = best - y * log_expit(latent) - (t - y) * log_expit(-latent)
        return Bend(value, (t - y) * p - y * q, t * p * q, t * p * q * (q - p))

    def rate(self, latent: Any) -> Any:
        """Return the probability of a success."""
        return expit(latent)

    def steep(self, k: Any, totals: Any, noise: Any) -> tuple[Any, Any]:
        """Return the log odds of (k + ½)/(t + 1), and the width of binomial counts there."""
        yes, no = k + 0.5, np.maximum(totals - k, 0.0) + 0.5
        return np.log(yes / no), np.sqrt(1.0 / yes + 1.0 / no)

    def cdf(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return P(y ≤ k | f)."""
        inside = betainc(np.maximum(totals - k, 0.5), k + 1.0, expit(-latent))
        return np.where(k < totals, inside, 1.0)

    def log_prob(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return log P(y = k | f)."""
        rest = totals - k
        chosen = gammaln(totals + 1.0) - gammaln(k + 1.0) - gammaln(rest + 1.0)
        return chosen + k * log_expit(latent) + rest * log_expit(-latent)

    def moments(self, mean: Vector, var: Vector, noise: Vector) -> tuple[Vector, Vector, Vector]:
        """Return t E p, t² Var p and t E p(1 − p), by quadrature."""
        p, square = averages(mean, var, [expit, lambda f: expit(f) ** 2])
        t = self.totals
        return t * p, t**2 * np.maximum(square - p**2, 0.0), t * np.maximum(p - square, 0.0)

    def draw(self, rng: Any, latent: Any, noise: Vector) -> Float64[np.ndarray, "..."]:
        """Return counts."""
        return rng.binomial(self.totals.astype(np.int64), expit(latent)).astype(np.float64)
