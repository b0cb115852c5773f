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
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize

from bagwise.inference.coordinates import LEAST_RELATIVE, bend_of, relative_scales
from bagwise.inference.information import Information, information_at
from bagwise.inference.posterior_mode import GRADIENT_TOLERANCE, MAX_STEPS, Mode
from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage_objective import Evaluation, ShrinkageProblem, likelihood_at

# Steps in φ: for the gradient of the search, and for the curvature at the end.
GRADIENT_STEP = 1e-2
CURVATURE_STEP = 0.05

# The search ends when a step would gain less than about the square of this in log density.
SEARCH_TOLERANCE = 0.05

# Scales are never taken to be less certain than this, relative to their mode.
MAX_RELATIVE_SD = 3.0

# Scales outside e^±this are not tried.
MAX_LOG = 60.0


class _GivenScales:
    """J as a function of v alone; remembers the last v, for which optimisers ask thrice."""

    def __init__(
        self,
        problem: ShrinkageProblem,
        scales: Float64[np.ndarray, " k"],
        precision: Float64[np.ndarray, " j"],
    ) -> None:
        self.problem, self.scales, self.precision = problem, scales, precision
        self._last: tuple[np.ndarray, Evaluation] | None = None

    def at(self, v: Float64[np.ndarray, " j"]) -> Evaluation:
        if self._last is None or not np.array_equal(self._last[0], v):
            theta = np.concatenate([v, self.scales])
            self._last = v.copy(), likelihood_at(self.problem, theta)
        return self._last[1]

    def value(self, v: Float64[np.ndarray, " j"]) -> float:
        return self.at(v).value + 0.5 * float(np.sum(self.precision * v**2))

    def gradient(self, v: Float64[np.ndarray, " j"]) -> Float64[np.ndarray, " j"]:
        return self.at(v).gradient[: len(v)] + self.precision * v

    def hessian(self, v: Float64[np.ndarray, " j"]) -> Float64[np.ndarray, "j j"]:
        return self.at(v).hessian[: len(v), : len(v)] + np.diag(self.precision)


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

    def weights_at(self, phi: Float64[np.ndarray, " k"]) -> Evaluation:
        """Move to v̂(φ) and return minus the log likelihood there, with derivatives in all of θ."""
        given = _GivenScales(self.problem, phi[:-1], self.precision(phi))
        found = minimize(
            given.value,
            self.v,
            jac=given.gradient,
            hess=given.hessian,
            method="trust-exact",
            options={
                "gtol": GRADIENT_TOLERANCE * len(self.problem.labels),
                "maxiter": MAX_STEPS,
            },
        )
        self.v = found.x
        return given.at(found.x)

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
    found = minimize(
        posterior,
        phi,
        method="BFGS",
        options={"eps": GRADIENT_STEP, "gtol": SEARCH_TOLERANCE},
    )
    value = posterior(found.x)
    hessian, v = posterior.information(found.x).matrix, posterior.v
    center, scale_cov = _coordinates(posterior, found.x)
    return MarginalMode(
        phi=found.x,
        v=v,
        n_weights=posterior.n_weights,
        effect_sd=priors.effect_sd,
        hessian=hessian,
        power=priors.power,
        folded=priors.folded,
        bend=bend_of(np.exp(priors.power * found.x), priors.scale),
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

    found = minimize(
        value,
        np.zeros(len(phi)),
        method="BFGS",
        options={"eps": GRADIENT_STEP, "gtol": SEARCH_TOLERANCE},
    )
    return found.x, _inverse_hessian(value, found.x)


def _inverse_hessian(
    value: Callable[[np.ndarray], float], c: Float64[np.ndarray, " k"]
) -> Float64[np.ndarray, "k k"]:
    """Return the inverse of the Hessian at c, by differences."""
    k, h = len(c), CURVATURE_STEP
    steps, middle = h * np.eye(k), value(c)
    ahead = np.array([value(c + step) for step in steps])
    back = np.array([value(c - step) for step in steps])
    hessian = np.diag((ahead - 2.0 * middle + back) / h**2)
    for i in range(k):
        for j in range(i):
            both = value(c + steps[i] + steps[j]) + value(c - steps[i] - steps[j])
            mixed = both - ahead[i] - back[i] - ahead[j] - back[j] + 2.0 * middle
            hessian[i, j] = hessian[j, i] = mixed / (2.0 * h**2)
    values, vectors = np.linalg.eigh(hessian)
    return (vectors / np.maximum(values, MAX_RELATIVE_SD**-2)) @ vectors.T
