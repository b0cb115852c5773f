"""Priors of the embedding: r = k, which is one model, or the convolved kernel, one for each ℓ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.model import (
    EmbeddingModel,
    general_model,
    kernel_model,
    whitening,
    with_floor,
)
from bagwise.embedding.sums import BagStats
from bagwise.features.maps import Features, LandmarkFeatures, PriorGram


class Prior(Protocol):
    """Models of the embedding as a function of log ℓ; a prior without ℓ has one."""

    @property
    def start_length(self) -> float | None:
        """Where to start ℓ, or None if there is none."""
        ...

    def at(self, log_length: float | None) -> EmbeddingModel:
        """Return the model at log ℓ."""
        ...

    def slope(self, log_length: float) -> PriorSlope:
        """Return the derivative of r in log ℓ, in the coordinates of the model there."""
        ...


@dataclass(frozen=True, eq=False)
class PriorSlope:
    """Derivative of r in log ℓ, in the coordinates of a model.

    Attributes
    ----------
    uu : (c, c), W^T ṙ(u,u) W;  uz : (c, q), W^T ṙ(u,z) T;  zz : (q, q), T^T ṙ(z,z) T
    """

    uu: Float64[np.ndarray, "c c"]
    uz: Float64[np.ndarray, "c q"]
    zz: Float64[np.ndarray, "q q"]

    @classmethod
    def of(cls, model: EmbeddingModel, slope: PriorGram) -> PriorSlope:
        """Carry a derivative of r into the coordinates."""
        left, right = model.projection.T, model.weight_map
        return cls(left @ slope.uu @ left.T, left @ slope.uz @ right, right.T @ slope.zz @ right)


@dataclass(frozen=True, eq=False)
class FixedPrior:
    """A prior with nothing left to learn but η."""

    model: EmbeddingModel
    start_length: None = None

    @classmethod
    def kernel(cls, features: Features, stats: BagStats, floor: float) -> FixedPrior:
        """Return r = k, for the covariance within bags with this floor."""
        assert stats.within_cov is not None
        prior_mean = stats.mean.mean(axis=0)
        within_cov, prior = with_floor(stats.within_cov, floor), features.kernel_prior()
        if features.same_landmarks:
            return cls(kernel_model(prior_mean, within_cov, prior.uu, float(stats.sizes.max())))
        weight_map = whitening(features.weight_gram())
        return cls(general_model(prior_mean, within_cov, prior, weight_map, same_landmarks=False))

    def at(self, log_length: float | None) -> EmbeddingModel:
        """Return the model."""
        return self.model

    def slope(self, log_length: float) -> PriorSlope:
        """Raise: there is no length to differentiate by."""
        raise TypeError("a fixed prior has no length scale")


class ConvolvedPrior:
    """The convolved prior: a model for each length ℓ of its measure.

    Starts at the root mean square norm of the landmarks, which is the spread of the data.
    """

    def __init__(self, features: Features, stats: BagStats, floor: float) -> None:
        features.convolved_prior(1.0)  # raises unless the features have such a prior
        assert stats.within_cov is not None and isinstance(features, LandmarkFeatures)
        self.start_length = float(np.sqrt(np.mean(np.sum(features.landmarks**2, axis=1)))) or 1.0
        self._features, self._prior_mean = features, stats.mean.mean(axis=0)
        self._within_cov = with_floor(stats.within_cov, floor)
        self._weight_map = whitening(features.weight_gram())
        self._last: tuple[float, EmbeddingModel, PriorGram] | None = None

    def at(self, log_length: float | None) -> EmbeddingModel:
        """Return the model at log ℓ; the last one is remembered."""
        assert log_length is not None
        if self._last is None or self._last[0] != log_length:
            prior, slope = self._features.convolved_prior(float(np.exp(log_length)))
            model = general_model(
                self._prior_mean,
                self._within_cov,
                prior,
                self._weight_map,
                same_landmarks=self._features.same_landmarks,
            )
            self._last = (log_length, model, slope)
        return self._last[1]

    def slope(self, log_length: float) -> PriorSlope:
        """Return the derivative of r in log ℓ, in the coordinates of the model there."""
        model = self.at(log_length)
        assert self._last is not None
        return PriorSlope.of(model, self._last[2])
