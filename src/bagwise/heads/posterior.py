"""Posterior head: draws of the weights and scales, and the predictions of each draw."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise._utils.work import one_thread
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import Design, Response, Task
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import diagnose
from bagwise.inference.draws import Draws, normal_pairs
from bagwise.inference.marginal_mode import find_marginal_mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.settings import NUTS
from bagwise.inference.shrinkage import LEAST_NOISE, ShrinkageProblem
from bagwise.inference.transport import Transport
from bagwise.predictions.latent import Latent

# Draws that a prediction averages over; more would take memory and change nothing.
MAX_COMPONENTS = 2000


@dataclass(frozen=True, eq=False)
class PosteriorHead:
    """Posterior of the weights given that of the embedding, as draws: the full model.

    Attributes
    ----------
    start : ShrinkageHead at which the search began; its model is that of the draws
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
        """Go from the point estimate to the posterior: at its mode, by Laplace or with JAX.

        With inference="nuts" there are as many draws as are needed, with NUTS as many as it says.
        """
        problem = ShrinkageProblem(
            start.model,
            stats.counted(start.sampling),
            task.labels,
            task.design,
            task.weights,
            start.likelihood,
        )
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
            draws = _draws_by_jax(problem, resolved, transport, inference, rng)
        return cls(start, draws, resolved, mode.loss)

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at τ and the η of each of some draws."""
        scale = self.draws.thinned(MAX_COMPONENTS).scale("prior_scale", 1.0)
        return self.start.model.posterior(stats, scale, self.start.sampling)

    def latent(self, posterior: EmbeddingPosterior, design: Design) -> Latent:
        """Predict from the posterior of each bag's embedding, under each of some draws."""
        draws = self.draws.thinned(MAX_COMPONENTS)
        w, gamma = (part.reshape(-1, part.shape[2]) for part in (draws.w, draws.gamma))
        mean, var = posterior.linear(w)
        mean += gamma @ design.T
        fixed = self.start.likelihood.fixed_noise
        noise = self._noise_var(draws) if fixed is None else np.zeros(len(w))
        return Latent(mean, var, posterior.var_of, np.zeros(len(posterior)), noise)

    def response(self, posterior: EmbeddingPosterior, design: Design) -> Response:
        """Return the average over the draws of v = W (1 − κ) P w, for the bag's size."""
        model, draws = self.start.model, self.draws.thinned(MAX_COMPONENTS)
        w, gamma = (part.reshape(-1, part.shape[2]) for part in (draws.w, draws.gamma))
        slope = posterior.slope(w @ model.function_map.T)
        return Response(slope, model.prior_mean, 0.0, gamma.mean(axis=0))

    @property
    def noise_var(self) -> float:
        """Posterior mean of the noise variance; of classes that of the link."""
        return float(self._noise_var(self.draws).mean())

    def _noise_var(self, draws: Draws) -> Float64[np.ndarray, " m"]:
        fixed = self.start.likelihood.fixed_noise
        if fixed is not None:
            return np.full(draws.shape[0] * draws.shape[1], fixed)
        return draws.scale("noise", 0.0) ** 2 + LEAST_NOISE


def _draws_by_jax(
    problem: ShrinkageProblem,
    priors: ScalePriors,
    transport: Transport,
    inference: NUTS | str,
    rng: np.random.Generator,
) -> Draws:
    """Return draws of NUTS or of the variational approximation."""
    from bagwise.inference import density, nuts, variational  # bring JAX, which no other needs

    model = density.Model(problem.likelihood, transport.rigid, problem.shrinks)
    data = density.prepare(problem, priors, transport)
    if inference != "variational":
        adapts = not isinstance(inference, NUTS)
        settings = inference if isinstance(inference, NUTS) else NUTS()
        starts = rng.standard_normal((settings.chains, transport.size))
        seeds = rng.integers(2**31, size=settings.chains).tolist()

        def made(found: nuts.Sampled) -> Draws:
            return Draws.of(transport, priors.names, *found)

        def enough(found: nuts.Sampled) -> bool:
            draws = made(found)
            weights = draws.w @ problem.start_embedding.model.weight_map.T
            return diagnose(draws.scales | {"weights": weights}, found[1]).are_enough()

        return made(nuts.sample(model, data, starts, settings, seeds, enough if adapts else None))
    e = normal_pairs(transport.size, rng)
    z, pareto_k = variational.sample(model, data, e, len(transport.scales))
    return Draws.of(transport, priors.names, z[None], pareto_k=pareto_k)
