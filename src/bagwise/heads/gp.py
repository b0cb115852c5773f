"""GP head: a Gaussian process on the posterior of the embedding, linear and nonlinear in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtri

from bagwise.embedding.model import EmbeddingModel
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import MIN_NOISE, Response
from bagwise.inference.gp_evidence import GPProblem, Sizing
from bagwise.inference.inducing import induce_classes, induce_labels
from bagwise.inference.second_level import Coordinates, Inputs, Scales, SecondLevelKernel
from bagwise.inference.spread import Spread
from bagwise.predictions.latent import Latent

# Bags on which kernels and bandwidths are compared, and steps of the search for scales there.
TRIAL_BAGS = 300
TRIAL_STEPS = 15

# Bags up to which the process is exact; of more, so many find the scales and are the basis.
EXACT_BAGS = 2000
BASIS_BAGS = 1000

# Steps of the last search for scales, which starts near them.
STEPS = 40

# Equally probable values that stand for the spread of a latent value left open by the regression.
QUANTILES = 64

# Nodes on the way from the average bag to a bag, over which the gradient is averaged.
NODES = 32

NO_SPREAD = Spread(np.zeros(2), np.ones(2), np.zeros(6))


@dataclass(frozen=True, eq=False)
class GPHead:
    """f ~ GP(0, κ) on embeddings known up to N(a_i, C_i); κ has expectations in closed form.

    mean_i = k_i·α,   weights_i = K_ii − k_i^T P k_i,   bag_i = Σ_k g_ik² C_ik

    with k_i = E κ(i, basis), K_ii = E κ for two bags like i, and g_i the gradient of the mean.

    Attributes
    ----------
    model : EmbeddingModel;  scales : Scales;  sizing : Sizing
    basis : Inputs, the bags that predictions are made of
    alpha : (m,);  precision : (m, m), P
    spread : Spread
    loss : −log evidence per bag
    of_classes : whether latent values are those of classes
    """

    model: EmbeddingModel
    scales: Scales
    sizing: Sizing
    basis: Inputs
    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]
    spread: Spread
    loss: float
    of_classes: bool

    @classmethod
    def at(cls, problem: GPProblem, scales: Scales, loss: float) -> GPHead:
        """Return the exact process at some scales."""
        state, found = problem.fit(scales)
        return cls(
            problem.model,
            scales,
            problem.sizing,
            state.inputs,
            found.alpha,
            found.precision,
            NO_SPREAD,
            loss,
            problem.likelihood is not None,
        )

    @classmethod
    def try_out(cls, problem: GPProblem) -> GPHead:
        """Fit to some of the bags, to see what the features are worth."""
        some = problem.take(some_of(len(problem.labels), TRIAL_BAGS))
        head = cls.at(some, *some.maximise(TRIAL_STEPS))
        return head._again(problem, some, TRIAL_STEPS)

    def _again(self, problem: GPProblem, part: GPProblem, steps: int) -> GPHead:
        """Fit to a part of the bags, starting here and with the slopes found here."""
        known = replace(part, start=self.scales, center=problem.start, slopes=self._slopes_at(part))
        return self.at(known, *known.maximise(steps))

    def on_all(self, problem: GPProblem, steps: int = TRIAL_STEPS) -> GPHead:
        """Fit to all bags, or to those of the basis, starting here."""
        return self._again(problem, _basis(problem), steps)

    def refined(self, problem: GPProblem, *, spread: bool = True) -> GPHead:
        """Fit to all bags until little changes, and then the spread."""
        head = self.on_all(problem, STEPS)
        if len(problem.labels) > EXACT_BAGS:
            return head._induced(problem, spread)
        return head._with_spread(problem) if spread else head

    def _slopes_at(self, problem: GPProblem) -> Float64[np.ndarray, "n c"]:
        """Return the slopes of the mean at the bags of a problem, in what they say."""
        state = problem.state(self.scales)
        slope = SecondLevelKernel(self.scales).slope(state.inputs, self.basis, self.alpha)
        return slope * state.coordinates.units * (1.0 - state.slack)

    def _with_spread(self, problem: GPProblem) -> GPHead:
        """Fit the spread to what each label is away from its mean given the others.

        That is α_i/P_ii, of variance 1/P_ii.
        """
        if self.of_classes:
            return self
        precision = np.diagonal(self.precision)
        away = self.alpha / precision
        return self._fit_spread(problem, problem.labels - away, away**2 * precision)

    def _fit_spread(
        self,
        problem: GPProblem,
        mean: Float64[np.ndarray, " n"],
        squares: Float64[np.ndarray, " n"],
    ) -> GPHead:
        """Fit the spread to the squares of standardised residuals."""
        log_size = self.sizing(problem.sizes)
        return replace(self, spread=Spread.fit(mean, log_size, squares, problem.weights))

    def _induced(self, problem: GPProblem, spread: bool) -> GPHead:
        """Return the process of all bags on the basis of those that this one has."""
        problem = replace(problem, slopes=self._slopes_at(problem))
        kernel, state = SecondLevelKernel(self.scales), problem.state(self.scales)
        gram = kernel.between(self.basis, self.basis)
        cross, bag = kernel.between(state.inputs, self.basis), problem.bag_var(state)
        if problem.likelihood is not None:
            found = induce_classes(
                gram, cross, bag, problem.weights, problem.labels, problem.likelihood
            )
            return replace(self, alpha=found.alpha, precision=found.precision)
        noise = bag + problem.noise(self.scales)
        found = induce_labels(gram, cross, noise, problem.labels)
        head = replace(self, alpha=found.alpha, precision=found.precision)
        if not spread:
            return head
        # left out, a residual is 1/(1 − leverage) as far away, of variance noise/(1 − leverage)
        away = (problem.labels - found.mean) / (1.0 - found.leverage)
        squares = away**2 * (1.0 - found.leverage) / noise
        return head._fit_spread(problem, problem.labels - away, squares)

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ."""
        posterior = self.model.posterior(stats, self.scales.prior_scale)
        return replace(posterior, sampling=self.scales.sampling)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from the posterior of each bag's embedding."""
        inputs, kernel = self._inputs(posterior, design), SecondLevelKernel(self.scales)
        cross = kernel.between(inputs, self.basis)
        mean = cross @ self.alpha
        prior = kernel.variance(inputs) - kernel.nugget(inputs)
        weights = np.maximum(prior - np.sum((cross @ self.precision) * cross, axis=1), 0.0)
        left = Coordinates(self.model.spectrum, self.scales).var_of(posterior)[posterior.var_of]
        bag = np.sum(kernel.slope(inputs, self.basis, self.alpha) ** 2 * left, axis=1)
        own = np.arange(len(mean))
        if self.of_classes:
            values = mean + np.multiply.outer(_normal_values(), np.sqrt(weights))
            none = np.zeros(len(values))
            return Latent(values, np.tile(bag, (len(values), 1)), own, np.zeros(len(mean)), none)
        sizes = posterior.sizes[posterior.size_of]
        noise = self.scales.noise + self.scales.size_noise * self.sizing.smallness(sizes)
        factor = self.spread(mean, inputs.log_size)
        return Latent(
            mean[None],
            (factor * bag)[None],
            own,
            factor * weights,
            np.maximum(factor * noise, MIN_NOISE)[None],
        )

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Return the gradient, averaged over the straight way from the average bag to the first.

        The bag keeps its size on that way; covariates go along with the embedding.
        """
        bag = self._inputs(posterior.take([0]), design[:1])
        nodes, shares = np.polynomial.legendre.leggauss(NODES)
        way, shares = (1.0 + nodes) / 2.0, shares / 2.0
        start = self.basis.design.mean(axis=0)  # F of the average bag
        on_way = Inputs(
            way[:, None] * bag.mean,
            bag.var,
            np.zeros(NODES, dtype=np.int64),
            np.tile(bag.log_size, NODES),
            start + way[:, None] * (bag.design - start),
        )
        kernel = SecondLevelKernel(self.scales)
        slope = shares @ kernel.slope(on_way, self.basis, self.alpha)
        gamma = shares @ kernel.design_slope(on_way, self.basis, self.alpha)
        mean = float((kernel.between(bag, self.basis) @ self.alpha)[0])
        coordinates = Coordinates(self.model.spectrum, self.scales)
        said = coordinates.mean(posterior.take([0]))[0]  # of which a part may be out of reach
        share = np.divide(bag.mean[0], said, out=np.ones_like(said), where=said != 0)
        level = mean - float(slope @ bag.mean[0]) - float(gamma @ bag.design[0])
        slope = posterior.slope((slope * share * coordinates.units)[None])
        return Response(slope, self.model.prior_mean, level, gamma)

    @property
    def _reach(self) -> tuple[Float64[np.ndarray, " c"], Float64[np.ndarray, " c"]]:
        """How far embeddings may be from those of the basis: once more the range that these have.

        Beyond, the linear part would extrapolate without end from what may be two bags.
        """
        low, high = self.basis.mean.min(axis=0), self.basis.mean.max(axis=0)
        return 2.0 * low - high, 2.0 * high - low

    def _inputs(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Inputs:
        coordinates = Coordinates(self.model.spectrum, self.scales)
        sizes = posterior.sizes[posterior.size_of]
        return Inputs(
            np.clip(coordinates.mean(posterior), *self._reach),
            coordinates.var(posterior.slack),
            posterior.size_of,
            self.sizing(sizes),
            design,
        )


def _basis(problem: GPProblem) -> GPProblem:
    """Return the problem of the bags that predictions are made of."""
    n = len(problem.labels)
    return problem if n <= EXACT_BAGS else problem.take(some_of(n, BASIS_BAGS))


def some_of(n: int, most: int) -> np.ndarray:
    """Return the places of some bags, chosen at random but always the same, in order."""
    return np.sort(np.random.default_rng(0).permutation(n)[:most])


def _normal_values() -> Float64[np.ndarray, " q"]:
    """Return equally probable values of a standard normal, of variance 1."""
    values = ndtri((np.arange(QUANTILES) + 0.5) / QUANTILES)
    return values / values.std()
