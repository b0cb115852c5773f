"""Shrinkage model: what regressors and classifiers share that know the posterior of a bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.prior import ConvolvedPrior, FixedPrior, Prior
from bagwise.embedding.sums import BagStats
from bagwise.estimators.base import BagEstimator, Pooled
from bagwise.estimators.embeddings import COVARIANCE_FLOOR
from bagwise.estimators.parameters import choice, number_or, positive
from bagwise.features.maps import Features
from bagwise.heads.base import Head
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.heads.task import Task

# Prior covariances of the embedding, by name.
PRIORS: dict[str, Callable[[Features, BagStats, float], Prior]] = {
    "kernel": FixedPrior.kernel,
    "convolved": ConvolvedPrior,
    "learnt": FixedPrior.learnt,
}


class ShrinkageModel(BagEstimator):
    """Fits the point estimate of the weights, and shows it in the label's units."""

    needs_covariance: ClassVar[bool] = True
    takes_function_landmarks: ClassVar[bool] = True

    prior: str
    head_: Any

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        weight_var = number_or("weight_var", getattr(self, "weight_var", "evidence"), "evidence")
        floor = getattr(self, "covariance_floor", COVARIANCE_FLOOR)
        floor = positive("covariance_floor", floor)
        make = PRIORS[choice("prior", self.prior, tuple(PRIORS))]
        made: Prior = make(pooled.features, pooled.stats, floor)
        return ShrinkageHead.fit(made, pooled.stats, task, weight_var, self.likelihood)

    @property
    def weights_(self) -> Float64[np.ndarray, " s"]:
        """Weights α of the function f, in units of the label."""
        return self.head_.model.weight_map @ self.head_.w * self.label_scale_

    @property
    def intercept_(self) -> float:
        """Label of the average bag, at covariates zero."""
        return self.label_center_ + self.label_scale_ * self.effects_.unmix(self.head_.gamma)[0]

    @property
    def covariate_weights_(self) -> Float64[np.ndarray, " c"]:
        """Change of the label per unit of each covariate."""
        return self.label_scale_ * self.effects_.unmix(self.head_.gamma)[1]

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label; of classes that of the link."""
        return self.head_.noise_var * self.label_scale_**2

    @property
    def prior_scale_(self) -> float:
        """Prior scale η."""
        return self.head_.prior_scale

    @property
    def weight_var_(self) -> float:
        """Weight variance ρ² that was used, for standardised labels."""
        return self.head_.mode.weight_var

    @property
    def length_scale_(self) -> float | None:
        """Length ℓ of the convolved prior, in standardised features; None for other priors."""
        return self.head_.length
