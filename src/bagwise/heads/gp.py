"""GP head: a Gaussian process on the posterior of the embedding, linear and nonlinear in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.model import EmbeddingModel
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import MIN_NOISE, Response
from bagwise.heads.task import Task
from bagwise.inference.gp_evidence import GPProblem, Sizing
from bagwise.inference.second_level import Coordinates, Inputs, Scales, SecondLevelKernel
from bagwise.inference.spread import Spread
from bagwise.predictions.latent import Latent


@dataclass(frozen=True, eq=False)
class GPHead:
    """f ~ GP(0, κ) on embeddings known up to N(a_i, C_i); κ has expectations in closed form.

    mean_i = k_i·α,   var_i = κ(i, i) − ‖R^T k_i‖²,   k_i = E κ(i, basis)

    Attributes
    ----------
    model : EmbeddingModel;  scales : Scales;  sizing : Sizing
    basis : Inputs, the bags that predictions are made of
    alpha : (m,);  root : (m, m), R
    spread : Spread
    loss : −log evidence per bag
    """

    model: EmbeddingModel
    scales: Scales
    sizing: Sizing
    basis: Inputs
    alpha: Float64[np.ndarray, " m"]
    root: Float64[np.ndarray, "m m"]
    spread: Spread
    loss: float
    of_classes: bool

    @classmethod
    def fit(cls, problem: GPProblem, *, rounds: int = 2, spread: bool = True) -> GPHead:
        """Find the scales, then the process; again, with the bags' slopes of the one before."""
        head = cls.at(problem, *problem.maximise())
        for _ in range(rounds):
            problem = replace(
                problem,
                start=head.scales,
                center=problem.center or problem.start,
                slopes=head.own_slopes(),
            )
            head = cls.at(problem, *problem.maximise())
        return head._with_spread(problem) if spread else head

    @classmethod
    def at(cls, problem: GPProblem, scales: Scales, loss: float) -> GPHead:
        """Return the process at some scales."""
        state, found = problem.fit(scales)
        none = Spread(np.zeros(2), np.ones(2), np.zeros(6))
        return cls(
            problem.model,
            scales,
            problem.sizing,
            state.inputs,
            found.alpha,
            found.root,
            none,
            loss,
            problem.likelihood is not None,
        )

    def own_slopes(self) -> Float64[np.ndarray, "m c"]:
        """Return the gradient of the mean at each bag of the basis, in coordinates e."""
        kernel = SecondLevelKernel(self.scales)
        units = Coordinates(self.model.spectrum, self.scales).units
        return kernel.slope(self.basis, self.basis, self.alpha) * units

    def _with_spread(self, problem: GPProblem) -> GPHead:
        """Fit the spread to what each label is away from its mean given the others.

        With P = (A + V)^-1 that is α_i/P_ii, of variance 1/P_ii.
        """
        if self.of_classes:
            return self
        precision = np.sum(self.root**2, axis=1)
        away = self.alpha / precision
        mean = problem.labels - away
        return replace(
            self,
            spread=Spread.fit(mean, self.basis.log_size, away**2 * precision, problem.weights),
        )

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ."""
        posterior = self.model.posterior(stats, self.scales.prior_scale)
        return replace(posterior, sampling=self.scales.sampling)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from the posterior of each bag's embedding.

        The part of the variance by the bag is that of the mean function over the bag's posterior,
        to first order: Σ_k g_k² C_k, with g the gradient of the mean.
        """
        inputs, kernel = self._inputs(posterior, design), SecondLevelKernel(self.scales)
        cross = kernel.between(inputs, self.basis)
        mean = cross @ self.alpha
        prior = kernel.variance(inputs) - kernel.nugget(inputs)
        weights = np.maximum(prior - np.sum((cross @ self.root) ** 2, axis=1), 0.0)
        squares = kernel.slope(inputs, self.basis, self.alpha) ** 2
        coordinates = Coordinates(self.model.spectrum, self.scales)
        asked = coordinates.var_of(posterior)[posterior.var_of]
        sizes = posterior.sizes[posterior.size_of]
        noise = self.scales.noise + self.scales.size_noise * self.sizing.smallness(sizes)
        factor = self.spread(mean, inputs.log_size)
        return Latent(
            mean[None],
            (factor * np.sum(squares * asked, axis=1))[None],
            np.arange(len(mean)),
            factor * weights,
            np.maximum(factor * noise, MIN_NOISE)[None],
        )

    def _inputs(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Inputs:
        coordinates = Coordinates(self.model.spectrum, self.scales)
        sizes = posterior.sizes[posterior.size_of]
        return Inputs(
            coordinates.mean(posterior),
            coordinates.var(posterior.slack),
            posterior.size_of,
            self.sizing(sizes),
            design,
        )
