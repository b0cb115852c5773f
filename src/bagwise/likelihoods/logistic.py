"""Two classes by the logistic link: P(y = 1) = 1/(1 + e^−ξ), of a point embedding: no ν."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.likelihoods.base import Bend, ClassLikelihood, Terms, Vector


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
        """Return 1/(1 + e^−ξ); a point embedding has no variance, so v is zero."""
        return expit(mean)
