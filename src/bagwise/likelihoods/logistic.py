"""Two classes by the logistic link: P(y = 1) = 1/(1 + e^−ξ), of a point embedding: no ν.

References
----------
Monahan and Stefanski (1992), Normal scale mixture approximations to F*(z) and computation of the
logistic-normal integral.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, ndtr

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.likelihoods.base import Bend, ClassLikelihood, Terms, Vector

# 1/(1 + e^−x) as a mixture of probits, Σ share Φ(slope x), to 3e-9 (Monahan and Stefanski 1992).
PROBIT_SHARES = np.array(
    [
        0.003246343272134,
        0.051517477033972,
        0.195077912673858,
        0.315569823632818,
        0.274149576158423,
        0.131076880695470,
        0.027912418727972,
        0.001449567805354,
    ]
)
PROBIT_SLOPES = np.array(
    [
        1.365340806296348,
        1.059523971016916,
        0.830791313765644,
        0.650732166639391,
        0.508135425366489,
        0.396313345166341,
        0.308904252267995,
        0.238212616409306,
    ]
)


class Logistic(ClassLikelihood):
    """Classes by the logistic link: −log p = log(1 + e^−yξ)."""

    name = "logistic"
    fixed_noise = 0.0

    def log_prob(self, y: Any, mean: Any, var: Any, library: ArrayLibrary = NUMPY) -> Any:
        """Return −log(1 + e^−yξ), for a latent value without variance."""
        return -library.xp.logaddexp(0.0, -y * mean)

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ) and its derivatives; those in ν are zero.

        Examples
        --------
        >>> Logistic().terms(np.array([-1.0]), np.array([0.0]), np.array([0.0])).value.round(3)
        array([0.693])
        """
        none = np.zeros_like(mean)
        curvature = expit(mean) * expit(-mean)
        return Terms(
            value=np.logaddexp(0.0, -y * mean),
            by_mean=-y * expit(-y * mean),
            by_var=none,
            mean_mean=curvature,
            mean_var=none,
            var_var=none,
            fisher_mean=curvature,
            fisher_cross=none,
            fisher_var=none,
        )

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return log(1 + e^−yf) and its derivatives; with p = 1/(1 + e^−f), p(1 − p)(1 − 2p) last.

        Examples
        --------
        >>> bend = Logistic().bend(np.array([1.0]), np.zeros(1), np.zeros(1))
        >>> float(bend.first[0]), float(bend.second[0]), float(bend.third[0])
        (-0.5, 0.25, 0.0)
        """
        terms, p = self.terms(y, latent, noise), expit(latent)
        third = terms.mean_mean * (1.0 - 2.0 * p)
        return Bend(terms.value, terms.by_mean, terms.mean_mean, third)

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return the integral of 1/(1 + e^−f) over N(f; ξ, v), to 3e-9; exact where v is zero.

        Examples
        --------
        >>> Logistic().probability(np.array([2.0, 2.0]), np.array([0.0, 4.0])).round(4)
        array([0.8808, 0.7752])
        """
        at_mean = expit(mean)
        if not np.any(var):
            return at_mean
        total = np.zeros(np.broadcast(mean, var).shape)
        for share, slope in zip(PROBIT_SHARES, PROBIT_SLOPES, strict=True):
            total += share * ndtr(slope * mean / np.sqrt(1.0 + slope**2 * var))
        return np.where(np.asarray(var) > 0.0, total, at_mean)
