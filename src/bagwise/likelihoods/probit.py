"""Two classes by the probit link: P(y = 1) = Φ(ξ/√ν), with ν = variance of the bag + 1."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx, log_ndtr, ndtr, ndtri

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.likelihoods.base import Bend, ClassLikelihood, Terms, Vector
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.mixture import MixturePrediction

LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))


class Probit(ClassLikelihood):
    """Classes by the probit link: −log p = −log Φ(yu), u = ξ/√ν.

    The link is the sign of a latent value with noise of variance 1, so a Gaussian bag is integrated
    over in closed form: its variance adds to the 1.
    """

    name = "probit"
    fixed_noise = 1.0

    def log_prob(self, y: Any, mean: Any, var: Any, library: ArrayLibrary = NUMPY) -> Any:
        """Return log Φ(yξ/√ν)."""
        return library.log_ndtr(y * mean / library.xp.sqrt(var))

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives, stable for any u.

        Examples
        --------
        >>> Probit().terms(np.array([1.0]), np.array([0.0]), np.array([1.0])).value.round(3)
        array([0.693])
        """
        root = np.sqrt(var)
        u = mean / root
        ratio = np.sqrt(2.0 / np.pi) / erfcx(-y * u / np.sqrt(2.0))  # φ(u)/Φ(yu)
        first, second = -y * ratio, ratio * (ratio + y * u)
        log_phi = -0.5 * u**2 - LOG_ROOT_TWO_PI
        expected = np.exp(2.0 * log_phi - log_ndtr(u) - log_ndtr(-u))
        u_mean, u_var = 1.0 / root, -0.5 * u / var
        return Terms(
            value=-log_ndtr(y * u),
            by_mean=first * u_mean,
            by_var=first * u_var,
            mean_mean=second * u_mean**2,
            mean_var=second * u_mean * u_var - 0.5 * first * u_mean / var,
            var_var=second * u_var**2 + 0.75 * first * u / var**2,
            fisher_mean=expected * u_mean**2,
            fisher_cross=expected * u_mean * u_var,
            fisher_var=expected * u_var**2,
        )

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log Φ(yf) and its derivatives; there is no noise beside the link's own.

        With u = yf and r = φ(u)/Φ(u) the third is y r {1 − (r + u)(2r + u)}.
        """
        terms, u = self.terms(y, latent, np.ones_like(latent)), y * latent
        r = -y * terms.by_mean
        third = y * r * (1.0 - (r + u) * (2.0 * r + u))
        return Bend(terms.value, terms.by_mean, terms.mean_mean, third)

    def take(self, bags: Any) -> Self:
        """Return the same link."""
        return self

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return Φ(ξ/√(1 + v)), the integral of Φ over N(ξ, v)."""
        return ndtr(mean / np.sqrt(1.0 + var))


def of_probabilities(
    proba: Float[np.ndarray, "n k"], classes: np.ndarray, **known: Any
) -> ClassPrediction | ManyClassPrediction:
    """Return a prediction with these probabilities, strictly between 0 and 1.

    Nothing else is known of the bags than ``known``, such as their sizes.

    Examples
    --------
    >>> of_probabilities(np.array([[0.2, 0.5, 0.3]]), np.arange(3), sizes=None).proba.round(3)
    array([[0.2, 0.5, 0.3]])
    """

    def of_two(p: Float[np.ndarray, " n"], two: Any) -> ClassPrediction:
        latent = MixturePrediction(ndtri(p)[None], np.zeros(1), **known)
        return ClassPrediction(latent, Probit(), two)

    if len(classes) == 2:
        return of_two(proba[:, 1], classes)
    # of one class against the rest, the p whose p/√(1 − p) is the share
    each = 0.5 * (proba * np.sqrt(proba**2 + 4.0) - proba**2)
    return ManyClassPrediction([of_two(p, [False, True]) for p in each.T], classes)
