"""Shrinkage model: what regressors and classifiers share that know the posterior of a bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.prior import ConvolvedPrior, Prior, learnt_prior
from bagwise.embedding.sums import BagStats
from bagwise.estimators.base import BagEstimator, Pooled
from bagwise.estimators.embeddings import COVARIANCE_FLOOR
from bagwise.estimators.parameters import choice, number_or, positive
from bagwise.features.maps import Features
from bagwise.heads.base import AnyHead, Task, for_each_class, heads_of, of_each_class
from bagwise.heads.shrinkage import ShrinkageHead

# Prior covariances of the embedding, by name.
PRIORS: dict[str, Callable[[Features, BagStats, float], Prior]] = {
    "kernel": kernel_prior,
    "convolved": ConvolvedPrior,
    "learnt": learnt_prior,
}


class ShrinkageModel(BagEstimator):
    """Fits the point estimate of the weights, and shows it in the label's units."""

    needs_covariance: ClassVar[bool] = True
    takes_function_landmarks: ClassVar[bool] = True

    prior: str
    head_: Any

    def _fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        weight_var = number_or("weight_var", getattr(self, "weight_var", "evidence"), "evidence")
        floor = getattr(self, "covariance_floor", COVARIANCE_FLOOR)
        floor = positive("covariance_floor", floor)
        make = PRIORS[choice("prior", self.prior, tuple(PRIORS))]
        made: Prior = make(pooled.features, pooled.stats, floor)
        return for_each_class(
            task,
            lambda each: ShrinkageHead.fit(made, pooled.stats, each, weight_var, self.likelihood),
        )

    @property
    def weights_(self) -> Float64[np.ndarray, "*k s"]:
        """Weights α of the function f, in units of the label; of many classes a row for each."""
        unit = self.label_scale_
        return of_each_class(self.head_, lambda head: head.model.weight_map @ head.w * unit)

    @property
    def intercept_(self) -> Any:
        """Label of the average bag, at covariates zero; of many classes (k,)."""
        constant = of_each_class(self.head_, lambda head: self.effects_.unmix(head.gamma)[0])
        return self.label_center_ + self.label_scale_ * constant

    @property
    def covariate_weights_(self) -> Float64[np.ndarray, "*k c"]:
        """Change of the label per unit of each covariate; of many classes a row for each."""
        slopes = of_each_class(self.head_, lambda head: self.effects_.unmix(head.gamma)[1])
        return self.label_scale_ * slopes

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label; of classes that of the link."""
        return heads_of(self.head_)[0].noise_var * self.label_scale_**2

    @property
    def prior_scale_(self) -> Any:
        """Prior scale η; of many classes (k,)."""
        return of_each_class(self.head_, lambda head: head.prior_scale)

    @property
    def weight_var_(self) -> Any:
        """Weight variance ρ² that was used, for standardised labels; of many classes (k,)."""
        return of_each_class(self.head_, lambda head: head.mode.weight_var)

    @property
    def length_scale_(self) -> Any:
        """Length ℓ of the convolved prior, in standardised features; None for other priors."""
        return of_each_class(self.head_, lambda head: head.length)
