"""Posterior head: draws of the weights and scales, and the predictions of each draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise._utils.work import one_thread
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import Design, FixedEffects, Response, Task
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics, diagnose
from bagwise.inference.draws import Draws, normal_pairs
from bagwise.inference.marginal_mode import find_marginal_mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.settings import NUTS
from bagwise.inference.shrinkage import LEAST_NOISE, ShrinkageProblem
from bagwise.inference.sureness import Sureness
from bagwise.inference.transport import Transport
from bagwise.likelihoods.base import ClassLikelihood
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
    sureness : of classes, how much surer to be than the draws say; else None, as for a mode alone,
        which does not say how unsure its weights are
    """

    start: ShrinkageHead
    draws: Draws
    priors: ScalePriors
    loss: float
    sureness: Sureness | None = None

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
        """Go from the point estimate to the posterior: at its mode, by Laplace or with JAX."""
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
            settings = NUTS() if inference == "nuts" else inference

            def shown(draws: Draws) -> dict[str, np.ndarray]:
                return in_label_units(draws, start, task.effects, task.center, task.scale)

            draws = _draws_by_jax(problem, resolved, transport, settings, rng, shown)
        sureness = None
        if isinstance(problem.likelihood, ClassLikelihood) and inference != "map":
            assert mode.left_out is not None
            sureness = Sureness.of(
                problem.likelihood, task.labels, task.weights, stats.sizes, mode.left_out
            )
        return cls(start, draws, resolved, mode.loss, sureness)

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
        found = Latent(mean, var, posterior.var_of, np.zeros(len(posterior)), noise)
        if self.sureness is None:
            return found
        return found.times(self.sureness.factors(posterior, var))

    def response(self, posterior: EmbeddingPosterior, design: Design) -> Response:
        """Return the average over the draws of v = W (1 − κ) P w, for the bag's size."""
        model, draws = self.start.model, self.draws.thinned(MAX_COMPONENTS)
        w, gamma = (part.reshape(-1, part.shape[2]) for part in (draws.w, draws.gamma))
        slope = posterior.slope(w @ model.function_map.T)
        found = Response(slope, model.prior_mean, 0.0, gamma.mean(axis=0))
        if self.sureness is None:
            return found
        first = posterior.take(np.array([0]))
        return found.times(self.sureness.factors(first, first.linear(w)[1]))

    @property
    def noise_var(self) -> float:
        """Posterior mean of the noise variance; of classes that of the link."""
        return float(self._noise_var(self.draws).mean())

    def _noise_var(self, draws: Draws) -> Float64[np.ndarray, " m"]:
        fixed = self.start.likelihood.fixed_noise
        if fixed is not None:
            return np.full(draws.shape[0] * draws.shape[1], fixed)
        return draws.scale("noise", 0.0) ** 2 + LEAST_NOISE


def in_label_units(
    draws: Draws, start: ShrinkageHead, effects: FixedEffects, center: float, unit: float
) -> dict[str, np.ndarray]:
    """Return draws (chains, draws, ...) of what users are shown, by name.

    Parameters
    ----------
    draws : labels standardised;  start : head whose model is that of the draws
    effects : of the labels, whose mean is ``center`` and whose standard deviation is ``unit``
    """
    raw = draws.gamma @ effects.mixing.T
    slopes = raw[:, :, 1:] / effects.scale
    constant = raw[:, :, 0] - slopes @ effects.center
    shown = {
        "weights": draws.w @ start.model.weight_map.T * unit,
        "intercept": center + unit * constant,
    }
    if slopes.shape[2]:
        shown["covariate_weights"] = unit * slopes
    if "noise" in draws.scales:
        shown["noise_sd"] = unit * draws.scales["noise"]
    if "prior_scale" in draws.scales:
        shown["prior_scale"] = draws.scales["prior_scale"]
    return shown | {"weight_sd": draws.scales["weight_var"]}


def _draws_by_jax(
    problem: ShrinkageProblem,
    priors: ScalePriors,
    transport: Transport,
    settings: NUTS | str,
    rng: np.random.Generator,
    shown: Callable[[Draws], dict[str, np.ndarray]],
) -> Draws:
    """Return draws of NUTS or of the variational approximation.

    Draws of NUTS are judged by what is shown of them.
    """
    from bagwise.inference import density, nuts, variational  # bring JAX, which no other needs

    model = density.Model(problem.likelihood, transport.rigid, problem.shrinks)
    data = density.prepare(problem, priors, transport)
    if isinstance(settings, NUTS):
        starts = rng.standard_normal((settings.chains, transport.size))
        seeds = rng.integers(2**31, size=settings.chains).tolist()

        def made(found: nuts.Sampled) -> Draws:
            return Draws.of(transport, priors.names, *found)

        def judge(found: nuts.Sampled) -> Diagnostics:
            return diagnose(shown(made(found)), found[1])

        return made(nuts.sample(model, data, starts, settings, seeds, judge))
    e = normal_pairs(transport.size, rng)
    z, pareto_k = variational.sample(model, data, e, len(transport.scales))
    return Draws.of(transport, priors.names, z[None], pareto_k=pareto_k)
