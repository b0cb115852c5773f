"""GP head: a Gaussian process on the posterior of the embedding, linear and nonlinear in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cholesky, solve_triangular

from bagwise.embedding.model import EmbeddingModel
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import MIN_NOISE, Response
from bagwise.heads.task import Task
from bagwise.inference.gp_evidence import JITTER, MAX_STEPS, GPProblem, Sizing
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

    @classmethod
    def fit(
        cls, problem: GPProblem, max_steps: int = MAX_STEPS, spread: bool = True, rounds: int = 2
    ) -> GPHead:
        """Find the scales, then the process; again, with the bags' slopes of the one before."""
        head = cls._at(problem, *problem.maximise(max_steps), spread=spread)
        for _ in range(rounds):
            slopes = head._own_slopes()
            problem = replace(problem, slopes=slopes)
            object.__setattr__(problem, "begin", head.scales)
            head = cls._at(problem, *problem.maximise(max_steps), spread=spread)
        return head

    def _own_slopes(self):
        kernel = SecondLevelKernel(self.scales)
        coordinates = Coordinates(self.model.spectrum, self.scales)
        return kernel.slope(self.basis, self.basis, self.alpha) * coordinates.units

    @classmethod
    def _at(cls, problem, scales, loss, spread):
        kernel = SecondLevelKernel(scales)
        basis, kappa = problem.inputs(scales)
        gram = kernel.between(basis, basis)
        own = kernel.nugget(basis) if problem.slopes is None else problem.bag_var(kappa, scales)
        gram[np.diag_indices_from(gram)] += own + problem.noise(scales) + JITTER
        factor = cholesky(gram, lower=True, check_finite=False)
        root = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False).T
        alpha = root @ (root.T @ problem.labels)
        left_out = np.sum(root**2, axis=1)  # diagonal of A^-1
        away = alpha / left_out  # y_i − its mean given the others, of variance 1/left_out
        mean = problem.labels - away
        squares = away**2 * left_out
        chosen = Spread.fit(mean, basis.log_size, squares, problem.weights)
        if not spread:
            chosen = replace(chosen, coefficients=np.zeros(6))
        return cls(problem.model, scales, problem.sizing, basis, alpha, root, chosen, loss)

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
