"""Posterior head: draws of the weights and scales, and the predictions of each draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise._utils.threads import one_thread
from bagwise.embedding.prior import OneBasis
from bagwise.embedding.sums import BagStats
from bagwise.heads.point import (
    DrawMoments,
    Effects,
    Response,
    ShrinkageHead,
    distinct_sizes,
    problem_of,
)
from bagwise.heads.task import Task
from bagwise.inference.draws import Draws
from bagwise.inference.marginal_mode import find_marginal_mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.settings import NUTS
from bagwise.inference.shrinkage_objective import LEAST_NOISE
from bagwise.inference.transport import Transport
from bagwise.predictions.mixture import SizeCurves

# Draws that a prediction averages over; more would take memory and change nothing.
MAX_COMPONENTS = 2000


@dataclass(frozen=True, eq=False)
class PosteriorHead:
    """Posterior of the weights given that of the embedding, as draws: the full model.

    Attributes
    ----------
    start : ShrinkageHead at which the search began; its basis is that of the draws
    draws : Draws, labels standardised
    priors : ScalePriors that were used
    loss : −log evidence per bag, by Laplace
    """

    start: ShrinkageHead
    draws: Draws
    priors: ScalePriors
    loss: float

    @classmethod
    def fit(
        cls,
        start: ShrinkageHead,
        stats: BagStats,
        task: Task,
        *,
        inference: NUTS | str,
        priors: Priors,
        rng: np.random.Generator,
    ) -> PosteriorHead:
        """Go from the point estimate to the posterior: at its mode, by Laplace or by NUTS."""
        t = start.basis.project(stats.mean, start.prior_mean)
        family = OneBasis(start.basis, start.prior_mean, t, shrinks=start.shrinks)
        problem = problem_of(family, stats, task, start.likelihood)
        resolved = ScalePriors.of(problem, priors)
        begin = start.mode
        if start.length is not None:  # which stays there
            begin = replace(begin, theta=begin.theta[:-1])
        with one_thread("blas"):  # as for any other head
            mode = find_marginal_mode(problem, resolved, begin)
            transport = Transport.of(problem, mode)
        if inference == "map":
            draws = Draws.at_mode(mode, resolved.names)
        elif inference == "laplace":
            draws = Draws.from_gaussian(transport, resolved.names, rng)
        else:
            assert isinstance(inference, NUTS)
            from bagwise.inference import density, nuts  # bring JAX, which nothing else needs

            z, trajectories = nuts.sample(
                density.Model(start.likelihood.name, transport.rigid),
                density.prepare(problem, resolved, transport),
                rng.standard_normal((inference.chains, transport.size)),
                inference,
                rng.integers(2**31, size=inference.chains).tolist(),
            )
            draws = Draws.of(transport, resolved.names, z, trajectories)
        return cls(start, draws, resolved, mode.loss)

    def moments(self, stats: BagStats, effects: Effects) -> DrawMoments:
        """Predict from the posterior of each bag's embedding, under each of some draws."""
        basis, draws = self.start.basis, self.draws.thinned(MAX_COMPONENTS)
        w, gamma = (part.reshape(-1, part.shape[2]) for part in (draws.w, draws.gamma))
        eta = draws.scale("prior_scale", 1.0)
        t = basis.project(stats.mean, self.start.prior_mean)
        sizes, size_of = distinct_sizes(stats.sizes, self.start.shrinks)
        h = w @ basis.mean_map.T
        spectrum = eta[:, None] * basis.spectrum
        mean = gamma @ effects.T
        for s, size in enumerate(sizes):
            bags = np.flatnonzero(size_of == s)
            mean[:, bags] += (size * eta[:, None] / (1.0 + size * spectrum) * h) @ t[bags].T
        curves = SizeCurves((w @ basis.spread_map.T) ** 2, spectrum)
        return DrawMoments(mean, self._noise_var(draws), curves)

    def response(self, stats: BagStats) -> Response:
        """Return the average over the draws of v = W diag(ηN/(1 + ηλN)) h, for the bag's size N."""
        basis, draws = self.start.basis, self.draws.thinned(MAX_COMPONENTS)
        w, gamma = (part.reshape(-1, part.shape[2]) for part in (draws.w, draws.gamma))
        eta = draws.scale("prior_scale", 1.0)[:, None]
        (size,), _ = distinct_sizes(stats.sizes[:1], self.start.shrinks)
        pull = (size * eta / (1.0 + size * eta * basis.spectrum)) * (w @ basis.mean_map.T)
        slope = basis.projection @ pull.mean(axis=0)
        return Response(slope, self.start.prior_mean, 0.0, gamma.mean(axis=0))

    @property
    def noise_var(self) -> float:
        """Posterior mean of the noise variance; of classes that of the link."""
        return float(self._noise_var(self.draws).mean())

    def _noise_var(self, draws: Draws) -> Float64[np.ndarray, " m"]:
        fixed = self.start.likelihood.fixed_noise
        if fixed is not None:
            return np.full(draws.shape[0] * draws.shape[1], fixed)
        return draws.scale("noise", 0.0) ** 2 + LEAST_NOISE
