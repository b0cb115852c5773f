"""What a head is: a fitted regression from the posterior of a bag's embedding to its label.

Labels are standardised here; estimators bring predictions back to their units. Every head has a
``loss``, comparable between fits of one kind to the same labels: the smaller the better.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.predictions.latent import Latent

# Noise variance of standardised labels is never taken to be less: a density needs one.
MIN_NOISE = 1e-10


@dataclass(frozen=True, eq=False)
class Response:
    """How the mean of one bag's prediction depends on its embedding μ̂, labels standardised.

    mean = level + v·(μ̂ − m0) + F γ

    v is exact for heads that are linear in μ̂; for others it is the gradient, averaged over the
    straight way from the average bag m0 to μ̂, for which the same holds.

    Attributes
    ----------
    slope : (d,), v;  center : (d,), m0;  level : mean at m0 without effects;  gamma : (r,)
    """

    slope: Float64[np.ndarray, " d"]
    center: Float64[np.ndarray, " d"]
    level: float
    gamma: Float64[np.ndarray, " r"]


class Head(Protocol):
    """A fitted head."""

    @property
    def loss(self) -> float:
        """Criterion by which fits to other features are compared with this one."""
        ...

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior of the embeddings of bags, as this head sees them."""
        ...

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict bags from the posterior of their embeddings and their fixed effects F."""
        ...

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Say how the mean of the first bag depends on its embedding."""
        ...
