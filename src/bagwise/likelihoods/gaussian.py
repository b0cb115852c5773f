"""Real labels: y ~ N(ξ, ν), where ν is the variance of the bag and the noise σ²."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.likelihoods.base import Likelihood, Terms, Vector
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query
from bagwise.predictions.mixture import MixturePrediction


class Gaussian(Likelihood):
    """Real labels: −log p = ½ {log ν + (y − ξ)²/ν}, up to a constant."""

    name = "gaussian"
    fixed_noise = None

    def log_prob(self, y: Any, mean: Any, var: Any, library: ArrayLibrary = NUMPY) -> Any:
        """Return −½ {log ν + (y − ξ)²/ν}."""
        return -0.5 * (library.xp.log(var) + (y - mean) ** 2 / var)

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives.

        Examples
        --------
        >>> Gaussian().terms(np.array([2.0]), np.array([0.0]), np.array([1.0])).value
        array([2.])
        """
        r = y - mean
        return Terms(
            value=0.5 * (np.log(var) + r**2 / var),
            by_mean=-r / var,
            by_var=0.5 * (1.0 / var - r**2 / var**2),
            mean_mean=1.0 / var,
            mean_var=r / var**2,
            var_var=r**2 / var**3 - 0.5 / var**2,
            fisher_mean=1.0 / var,
            fisher_cross=np.zeros_like(var),
            fisher_var=0.5 / var**2,
        )

    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Prediction:
        """Return a Gaussian for each bag, or a mixture over the draws if there are several."""
        latent = query.latent()
        kind = Prediction if len(latent.mean) == 1 else MixturePrediction
        return kind.from_latent(latent, sizes=sizes, ids=ids, query=query)
