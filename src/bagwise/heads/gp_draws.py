"""GP draws: a Gaussian process at each of several scales, which were drawn from their posterior."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import Response
from bagwise.heads.gp import GPHead
from bagwise.inference.gp_nuts import ScaleDraws
from bagwise.inference.second_level import Inputs, Scales
from bagwise.predictions.latent import Latent


@dataclass(frozen=True, eq=False)
class Drawn:
    """What of a process depends on its scales.

    Attributes
    ----------
    scales : Scales;  basis : Inputs;  alpha : (m,);  precision : (m, m)
    """

    scales: Scales
    basis: Inputs
    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]

    @classmethod
    def of(cls, head: GPHead) -> Drawn:
        """Take it from a process."""
        return cls(head.scales, head.basis, head.alpha, head.precision)


@dataclass(frozen=True, eq=False)
class GPDraws:
    """Processes on the same bags, equally probable; a prediction is their mixture.

    Attributes
    ----------
    mode : GPHead at the scales of the largest evidence, which has all that the draws share
    drawn : of some of the draws
    draws : ScaleDraws, all of them
    """

    mode: GPHead
    drawn: tuple[Drawn, ...]
    draws: ScaleDraws

    @cached_property
    def heads(self) -> list[GPHead]:
        """The process of each draw."""
        return [replace(self.mode, **vars(each)) for each in self.drawn]

    @property
    def loss(self) -> float:
        """−log evidence per bag, at the mode."""
        return self.mode.loss

    @property
    def dof(self) -> float:
        """Degrees of freedom of Student's t, or infinity."""
        return self.mode.dof

    @property
    def scales(self) -> Scales:
        """Posterior means of the scales."""
        means = {name: float(x.mean()) for name, x in self.draws.scales.items()}
        return replace(self.mode.scales, **means)

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ of the mode; each draw puts its own in their place."""
        return self.mode.embed(stats)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from the posterior of each bag's embedding, under each draw."""
        each = [head.latent(head.seen(posterior), design) for head in self.heads]
        return Latent(
            np.concatenate([one.mean for one in each]),
            np.concatenate([one.bag_var for one in each]),
            each[0].bag_of,
            np.stack([one.weights_var for one in each]),
            np.concatenate([one.noise_var for one in each]),
        )

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Return the average over the draws."""
        each = [head.response(head.seen(posterior), design) for head in self.heads]
        return Response(
            np.mean([one.slope for one in each], axis=0),
            self.mode.model.prior_mean,
            float(np.mean([one.level for one in each])),
            np.mean([one.gamma for one in each], axis=0),
        )
