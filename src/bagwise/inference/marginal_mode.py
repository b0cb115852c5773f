"""The mode of the scales with the weights integrated out, and a Gaussian around it.

The joint density of weights and scales is highest where the weights' variance is smallest, which is
the edge of a funnel and far from where the mass is. So the scales φ = (log σ², log η, log ρ²) are
taken at the mode of their own posterior, with the weights v = (w, γ) integrated out by a Gaussian:

    −log p(φ | y) = E_V J(v, φ) + ½ log det V^-1 + constant,     v ~ N(v̂(φ), V)

v̂ is the mode of v given φ, and V^-1 its information, averaged over V itself where that matters: see
:mod:`bagwise.inference.information`. Where V is small this is Laplace's approximation.

A scale that could well be zero has a long tail in its log. So the Gaussian around the mode is one
of coordinates c that are nearer to x = (σ, η, ρ) itself: see :mod:`bagwise.inference.coordinates`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Bool, Float64
from scipy.linalg import cho_factor, cho_solve

from bagwise.inference.coordinates import LEAST_RELATIVE, bend_of, relative_scales
from bagwise.inference.information import Information, information_at
from bagwise.inference.posterior_mode import MAX_STEPS, Mode
from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage_objective import Evaluation, ShrinkageProblem, likelihood_at

# Step of the differences that give gradient and curvature in the scales.
DIFFERENCE = 0.05

# The search ends when a step would gain less than this in log density: 0.05 standard deviations.
SEARCH_GAIN = 1e-3
MAX_SEARCH_STEPS = 30

# Longest step of the search: a factor of e² in the scales.
LONGEST_STEP = 2.0

# Scales are never taken to be less certain than this, relative to their mode.
MAX_RELATIVE_SD = 3.0

# The weights given the scales are found when a step would gain less than this in log density.
LEAST_GAIN = 1e-6
MAX_HALVINGS = 30

# Scales outside e^±this are not tried.
MAX_LOG = 60.0


class ScalePosterior:
    """−log p(φ | y), up to a constant; remembers the last v̂ as the start of the next search."""

    def __init__(
        self, problem: ShrinkageProblem, priors: ScalePriors, v: Float64[np.ndarray, " j"]
    ) -> None:
        self.problem, self.priors = problem, priors
        self.v = v
        self.n_weights = len(v) - problem.effects.shape[1]
        self.added = np.zeros(len(problem.sizes))

    def precision(self, phi: Float64[np.ndarray, " k"]) -> Float64[np.ndarray, " j"]:
        """Return the prior precision of each entry of v."""
        n_effects = len(self.v) - self.n_weights
        effects = np.full(n_effects, self.priors.effect_sd**-2)
        return np.concatenate([np.full(self.n_weights, np.exp(-phi[-1])), effects])

    def weights_at(self, phi: Float64[np.ndarray, " k"]) -> None:
        """Move to v̂(φ), by Newton's method with the step halved while it does not help."""
        precision = self.precision(phi)
        at = self._given(phi, precision, self.v)
        for _ in range(MAX_STEPS):
            step = _downhill(at, len(self.v))
            gain = 0.5 * float(at.gradient[: len(self.v)] @ step)
            if gain < LEAST_GAIN:
                return
            for _ in range(MAX_HALVINGS):
                ahead = self._given(phi, precision, self.v - step)
                if ahead.value < at.value:
                    break
                step = 0.5 * step
            else:
                return  # as far as rounding lets it
            self.v, at = self.v - step, ahead

    def _given(
        self, phi: Float64[np.ndarray, " k"], precision: np.ndarray, v: Float64[np.ndarray, " j"]
    ) -> Evaluation:
        """Return J as a function of v alone: what it says of the scales is not used."""
        at = likelihood_at(self.problem, np.concatenate([v, phi[:-1]]))
        pull = np.concatenate([precision * v, np.zeros(len(phi) - 1)])
        return replace(
            at,
            value=at.value + 0.5 * float(np.sum(precision * v**2)),
            gradient=at.gradient + pull,
            precision=np.concatenate([precision, np.zeros(len(phi) - 1)]),
        )

    def information(self, phi: Float64[np.ndarray, " k"]) -> Information:
        """Move to v̂(φ) and return the information on v there."""
        self.weights_at(phi)
        theta = np.concatenate([self.v, phi[:-1]])
        found = information_at(self.problem, theta, self.precision(phi), self.added)
        self.added = found.added
        return found

    def __call__(self, phi: Float64[np.ndarray, " k"]) -> float:
        """Evaluate at φ: the average of J over the weights' spread V, less the entropy of V."""
        beyond = np.maximum(np.abs(phi) - MAX_LOG, 0.0)
        if beyond.any():  # finite, as searches take differences
            return self(np.clip(phi, -MAX_LOG, MAX_LOG)) + float(beyond @ beyond)
        found, precision = self.information(phi), self.precision(phi)
        factor = np.linalg.cholesky(found.matrix)
        spread = np.sum(np.linalg.inv(factor) ** 2, axis=0)  # the diagonal of V
        return (
            found.value
            + 0.5 * float(np.sum(precision * (self.v**2 + spread) - np.log(precision)))
            + float(np.sum(np.log(np.diag(factor))))
            - self.priors.log_density(phi)
        )


def _downhill(at: Evaluation, j: int) -> Float64[np.ndarray, " j"]:
    """Return the Newton step of v, with the Fisher information where J is not convex."""
    gradient = at.gradient[:j]
    try:
        return cho_solve(cho_factor(at.hessian[:j, :j]), gradient)
    except np.linalg.LinAlgError:
        return cho_solve(cho_factor(at.fisher[:j, :j]), gradient)


@dataclass(frozen=True, eq=False)
class MarginalMode:
    """The scales at their mode, the weights at theirs, and the curvatures there.

    Attributes
    ----------
    phi : (k,), log scales of the problem, then log ρ², at the mode of their logs
    v : (j,), (w, γ);  n_weights : q;  effect_sd : prior standard deviation of γ
    hessian : (j, j), the information on v at φ̂, prior included
    power : (k,), with x = exp(power φ)
    folded, bend : (k,), which say what the coordinates of each scale are
    center, scale_cov : (k,) and (k, k), mode and covariance of the coordinates c
    loss : −log evidence per bag, up to a constant that depends on the labels only
    """

    phi: Float64[np.ndarray, " k"]
    v: Float64[np.ndarray, " j"]
    n_weights: int
    effect_sd: float
    hessian: Float64[np.ndarray, "j j"]
    power: Float64[np.ndarray, " k"]
    folded: Bool[np.ndarray, " k"]
    bend: Float64[np.ndarray, " k"]
    center: Float64[np.ndarray, " k"]
    scale_cov: Float64[np.ndarray, "k k"]
    loss: float


def find_marginal_mode(problem: ShrinkageProblem, priors: ScalePriors, start: Mode) -> MarginalMode:
    """Search from the mode that was found with log-normal priors at one weight variance."""
    at_scales = len(start.theta) - problem.n_scales
    posterior = ScalePosterior(problem, priors, start.theta[:at_scales])
    phi = np.append(start.theta[at_scales:], np.log(start.weight_var))
    phi = np.minimum(phi, np.log(priors.scale) / priors.power)  # where the prior is not yet steep
    phi, _ = search(posterior, phi)
    value = posterior(phi)
    hessian, v = posterior.information(phi).matrix, posterior.v
    center, scale_cov = _coordinates(posterior, phi)
    return MarginalMode(
        phi=phi,
        v=v,
        n_weights=posterior.n_weights,
        effect_sd=priors.effect_sd,
        hessian=hessian,
        power=priors.power,
        folded=priors.folded,
        bend=bend_of(np.exp(priors.power * phi), priors.scale),
        center=center,
        scale_cov=scale_cov,
        loss=value / len(problem.labels),
    )


def _coordinates(
    posterior: ScalePosterior, phi: Float64[np.ndarray, " k"]
) -> tuple[Float64[np.ndarray, " k"], Float64[np.ndarray, "k k"]]:
    """Return the mode and the covariance of c."""
    priors = posterior.priors
    bend = bend_of(np.exp(priors.power * phi), priors.scale)

    def value(c: np.ndarray) -> float:
        u, log_slope = relative_scales(c, priors.folded, bend)
        u = np.maximum(np.abs(u), LEAST_RELATIVE)
        log_jacobian = float(np.sum(log_slope - np.log(u)))
        return posterior(phi + np.log(u) / priors.power) - log_jacobian

    center, hessian = search(value, np.zeros(len(phi)))
    values, vectors = _positive(hessian)
    return center, (vectors / values) @ vectors.T


def search(
    value: Callable[[np.ndarray], float], c: Float64[np.ndarray, " k"]
) -> tuple[Float64[np.ndarray, " k"], Float64[np.ndarray, "k k"]]:
    """Return a minimum of a smooth function of few numbers, and the Hessian there.

    Newton's method by central differences, which are wide: the function is right to some digits
    only, as iterations within it end. The Hessian is what is needed in the end, anyway.

    Examples
    --------
    >>> found, hessian = search(lambda x: 3.0 * (x[0] - 1.0) ** 2 + x[1] ** 2, np.zeros(2))
    >>> found.round(6), hessian.round(6)
    (array([1., 0.]), array([[6., 0.], [0., 2.]]))
    """
    for _ in range(MAX_SEARCH_STEPS):
        middle, gradient, hessian = _differences(value, c)
        values, vectors = _positive(hessian)
        step = -(vectors / values) @ (vectors.T @ gradient)
        if -0.5 * float(gradient @ step) < SEARCH_GAIN:
            break
        step *= min(1.0, LONGEST_STEP / float(np.linalg.norm(step)))
        while value(c + step) > middle:
            step *= 0.5
            if np.max(np.abs(step)) < 0.1 * DIFFERENCE:  # as far as its digits let it
                return c, hessian
        c = c + step
    return c, hessian


def _positive(hessian: Float64[np.ndarray, "k k"]) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, made positive and not too small, and eigenvectors."""
    values, vectors = np.linalg.eigh(hessian)
    return np.maximum(np.abs(values), MAX_RELATIVE_SD**-2), vectors


def _differences(
    value: Callable[[np.ndarray], float], c: Float64[np.ndarray, " k"]
) -> tuple[float, Float64[np.ndarray, " k"], Float64[np.ndarray, "k k"]]:
    """Return value, gradient and Hessian at c, by differences."""
    k, h = len(c), DIFFERENCE
    steps, middle = h * np.eye(k), value(c)
    ahead = np.array([value(c + step) for step in steps])
    back = np.array([value(c - step) for step in steps])
    hessian = np.diag((ahead - 2.0 * middle + back) / h**2)
    for i in range(k):
        for j in range(i):
            both = value(c + steps[i] + steps[j]) + value(c - steps[i] - steps[j])
            mixed = both - ahead[i] - back[i] - ahead[j] - back[j] + 2.0 * middle
            hessian[i, j] = hessian[j, i] = mixed / (2.0 * h**2)
    return middle, (ahead - back) / (2.0 * h), hessian
