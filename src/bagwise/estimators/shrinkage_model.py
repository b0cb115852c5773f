"""Shrinkage model: what regressors and classifiers share that know the posterior of a bag."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.prior import ConvolvedPrior, FixedPrior, Prior
from bagwise.embedding.sums import BagStats
from bagwise.estimators.base import BagEstimator, Embedding
from bagwise.estimators.parameters import choice, number_or, positive
from bagwise.exceptions import InvalidBagsError
from bagwise.heads.base import Head
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.heads.task import Task

# Relative floor of the within-bag covariance; see bagwise.embedding.model.with_floor.
COVARIANCE_FLOOR = 0.01


class ShrinkageModel(BagEstimator):
    """Fits the point estimate of the weights, and shows it in the label's units."""

    needs_covariance: ClassVar[bool] = True

    prior: str
    head_: Any

    def _fit_head(self, embedding: Embedding, task: Task) -> Head:
        within_cov_of(embedding.stats)
        weight_var = number_or("weight_var", getattr(self, "weight_var", "evidence"), "evidence")
        floor = getattr(self, "covariance_floor", COVARIANCE_FLOOR)
        floor = positive("covariance_floor", floor)
        prior = choice("prior", self.prior, ("kernel", "convolved"))
        make = FixedPrior.kernel if prior == "kernel" else ConvolvedPrior
        made: Prior = make(embedding.features, embedding.stats, floor)
        return ShrinkageHead.fit(made, embedding.stats, task, weight_var, self.likelihood)

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
        """Length ℓ of the convolved prior, in standardised features; None for prior="kernel"."""
        return self.head_.length


def within_cov_of(stats: BagStats) -> Float64[np.ndarray, "d d"]:
    """Return the covariance within bags, or say why there is none."""
    if stats.within_cov is None:
        raise InvalidBagsError.because(
            "every bag has one point",
            "some bags with two points or more, to see how much points of a bag differ",
            "Use BayesianLinearRegressor or BayesianLogisticClassifier, which do not ask.",
        )
    return stats.within_cov
