"""The mode of the scales with the weights integrated out, and a Gaussian around it.

The joint density of weights and scales is highest where the weights' variance is smallest, which is
the edge of a funnel and far from where the mass is. So the scales φ = (log σ², log η, log ρ²) are
taken at the mode of their own posterior, with the weights v = (w, γ) integrated out by a Gaussian:

    −log p(φ | y) = E_V J(v, φ) + ½ log det V^-1 + constant,     v ~ N(v̂(φ), V)

v̂ is the mode of v given φ, and V^-1 its information, averaged over V itself where that matters: see
:func:`information_at`. Where V is small this is Laplace's approximation. Of classes, whose weights
are skewed, v̂, V and −log p(y | φ) are by expectation propagation (:mod:`.class_weights`).

A scale that could well be zero has a long tail in its log. So the Gaussian around the mode is one
of coordinates c that are nearer to x = (σ, η, ρ) itself: see :func:`relative_scales`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64
from scipy.linalg import cho_factor, cho_solve

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.inference.class_weights import ClassWeights, propagate_weights
from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage import (
    MAX_STEPS,
    Evaluation,
    LabelMoments,
    Mode,
    ShrinkageProblem,
    likelihood_at,
)
from bagwise.likelihoods.base import ClassLikelihood

PerScale = Float64[np.ndarray, " k"]
Square = Float64[np.ndarray, "k k"]
PerWeight = Float64[np.ndarray, " j"]
PerSize = Float64[np.ndarray, " m"]

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

# Scales farther than a factor of e^±this from where the search for them begins are not tried.
MAX_LOG = 60.0

# Rounds in which δ is found, at most, and the relative change of ν + δ at which they end. Over a
# thousand bags it adds up to some 1e-5 in log density, of which searches for the scales take second
# differences.
INFORMATION_ROUNDS = 30
TOLERANCE = 1e-7

# The positive part of Σ b_i is made smooth over this share of its standard deviation, as searches
# for the scales need a smooth density.
BLUR = 0.2

# Of log(ν + δ) that follows in log(ν + δ) that was put in, less one.
MAX_SLOPE = 50.0

# Relative scales below this are not told from zero.
LEAST_RELATIVE = 1e-3


def bend_of(scales: PerScale, prior: PerScale) -> PerScale:
    """Return a at the mode, where log(1 + e^a) is the mode over the scale of the prior.

    Examples
    --------
    >>> bend_of(np.array([1e-3, 1.0, 100.0]), np.ones(3)).round(2)
    array([ -6.91,   0.54, 100.  ])
    """
    ratio = scales / prior
    return ratio + np.log(-np.expm1(-ratio))


def relative_scales(
    c: Any, folded: Any, bend: Any, library: ArrayLibrary = NUMPY
) -> tuple[Any, Any]:
    """Return u(c) and log u'(c), for c (..., k) of either library: x = x̂ u(c), u(0) = u'(0) = 1.

    In the coordinates c the posterior of x is nearly Gaussian. The priors of x are normals folded
    at zero. σ² is smooth in x, so the density simply goes on beyond zero: u = 1 + c, of either sign
    ("folded"). The posteriors of η and ρ may have a wall at zero, where all bags are shrunk to one
    or all weights vanish, and must not cross it. There x is a multiple of log(1 + e^a), with a
    linear in c: like an exponential far below the scale of the prior, where its size is unknown,
    and linear above, where the prior ends it.

    Examples
    --------
    >>> u, _ = relative_scales(np.full(3, -2.0), np.array([True, False, False]), np.zeros(3))
    >>> u.round(2)
    array([-1.  ,  0.09,  0.09])
    """
    xp = library.xp
    middle = xp.logaddexp(0.0, bend)
    a = bend + middle * (1.0 + xp.exp(-bend)) * c
    u = xp.where(folded, 1.0 + c, xp.logaddexp(0.0, a) / middle)
    return u, xp.where(folded, 0.0, xp.logaddexp(0.0, -bend) - xp.logaddexp(0.0, -a))


@dataclass(frozen=True, eq=False)
class Information:
    """The information on v = (w, γ), prior included, and what follows from it.

    Attributes
    ----------
    matrix : (j, j), V^-1
    value : −log p(y | v) averaged over V, to second order in ξ
    added : (m,), δ, for the next search to start from
    """

    matrix: Float64[np.ndarray, "j j"]
    value: float
    added: PerSize


def information_at(
    problem: ShrinkageProblem,
    theta: Float64[np.ndarray, " k"],
    precision: PerWeight,
    added: PerSize,
) -> Information:
    """Return the information at θ, for weights of prior precision (j,).

    Weights that hardly move a bag's mean may still be known, because they move its variance ν: this
    grows with their square, so that at zero its derivative, and with it the Fisher information,
    says nothing. What says something is the density averaged over the weights' own spread V. With
    δ_s the variance that V adds to bags of size s, and τ_i what it adds to the variance of ξ_i,

    δ_s = tr(P V P^T diag(v_s)),   τ_i = x_i^T V x_i,   V^-1 = F(ν + δ) + 2 Σ_i b_i P^T diag(v_s) P

    where v_s is the variance of the embedding, F the Fisher information and b_i = ∂(−log p)/∂ν at
    ν + δ, less ½τ_i/ν for each unit of information in ξ: positive where ν + δ is more than the
    labels call for. δ is found by iteration.
    """
    at = LabelMoments(problem, theta)
    base = at.var if problem.shrinks else np.ones(len(at.var))  # where ν is not used
    log_var, log_added = np.log(base), np.log(base + added)
    last: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(INFORMATION_ROUNDS):
        found, again = _round(at, precision, np.exp(log_added))
        step = np.log(base + again) - log_added
        if np.max(np.abs(step)) < TOLERANCE:
            break
        # The next δ falls when this one rises: a secant step, half way at first.
        slope = np.full(len(step), -1.0)
        if last is not None:
            moved = log_added - last[0]
            turned = step - last[1]
            np.divide(turned, moved, out=slope, where=np.abs(moved) > TOLERANCE**2)
            slope = np.clip(slope, -MAX_SLOPE, -1.0)
        else:
            slope = np.full(len(step), -2.0)
        last = log_added, step
        log_added = np.maximum(log_added - step / slope, log_var)
    return Information(*found, np.exp(log_added) - base)


def _round(
    at: LabelMoments, precision: PerWeight, var: PerSize
) -> tuple[tuple[np.ndarray, float], PerSize]:
    """Return the information and the average with variances ν + δ, and the δ that follows."""
    problem, q, j = at.problem, len(at.w), len(precision)
    of, spread = problem.size_of, at.model.function_map
    terms = problem.likelihood.terms(problem.labels, at.mean, var[of])
    matrix = at.products(terms.fisher_mean, terms.fisher_cross, terms.fisher_var)[:j, :j]
    matrix = matrix + np.diag(precision)
    # τ needs V, for which the Fisher information will do: both see the same of the mean.
    tau = _quadratic(at.d_mean[:, :j], np.linalg.inv(matrix))
    pressed = at.by_size(terms.by_var - 0.5 * tau * terms.fisher_mean / var[of])
    blur = BLUR * np.sqrt(at.by_size(terms.fisher_var))
    positive = 0.5 * (pressed + np.hypot(pressed, blur))
    matrix[:q, :q] += 2.0 * (spread.T * (positive @ at.bag_var)) @ spread
    value = float(problem.sample_weight @ (terms.value + 0.5 * tau * terms.fisher_mean))
    return (matrix, value), at.bag_var @ _quadratic(spread, np.linalg.inv(matrix)[:q, :q])


def _quadratic(rows: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Return row^T matrix row for each row."""
    return np.sum((rows @ matrix) * rows, axis=1)


class ScalePosterior:
    """−log p(φ | y), up to a constant; remembers the last v̂ as the start of the next search."""

    def __init__(self, problem: ShrinkageProblem, priors: ScalePriors, v: PerWeight) -> None:
        self.problem, self.priors = problem, priors
        self.v = v
        self.n_weights = len(v) - problem.effects.shape[1]
        self.around = np.append(problem.start[len(v) :], np.log(problem.start_weight_var))
        self.added = np.zeros(len(problem.sizes))
        self.of_classes = isinstance(problem.likelihood, ClassLikelihood)
        self.known: ClassWeights | None = None

    def classes(self, phi: PerScale) -> ClassWeights:
        """Return what labels of two classes say of v at φ."""
        precision = self.precision(phi)
        self.known = propagate_weights(self.problem, phi[:-1], precision, self.known)
        return self.known

    def precision(self, phi: PerScale) -> PerWeight:
        """Return the prior precision of each entry of v."""
        n_effects = len(self.v) - self.n_weights
        effects = np.full(n_effects, self.priors.effect_sd**-2)
        return np.concatenate([np.full(self.n_weights, np.exp(-phi[-1])), effects])

    def weights_at(self, phi: PerScale) -> None:
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

    def _given(self, phi: PerScale, precision: np.ndarray, v: PerWeight) -> Evaluation:
        """Return J as a function of v alone: what it says of the scales is not used."""
        at = likelihood_at(self.problem, np.concatenate([v, phi[:-1]]))
        pull = np.concatenate([precision * v, np.zeros(len(phi) - 1)])
        return replace(
            at,
            value=at.value + 0.5 * float(np.sum(precision * v**2)),
            gradient=at.gradient + pull,
            precision=np.concatenate([precision, np.zeros(len(phi) - 1)]),
        )

    def information(self, phi: PerScale) -> Information:
        """Move to v̂(φ) and return the information on v there."""
        self.weights_at(phi)
        theta = np.concatenate([self.v, phi[:-1]])
        found = information_at(self.problem, theta, self.precision(phi), self.added)
        self.added = found.added
        return found

    def __call__(self, phi: PerScale) -> float:
        """Evaluate at φ: the average of J over the weights' spread V, less the entropy of V."""
        within = np.clip(phi, self.around - MAX_LOG, self.around + MAX_LOG)
        beyond = phi - within
        if beyond.any():  # finite, as searches take differences
            return self(within) + float(beyond @ beyond)
        if self.of_classes:
            return self.classes(phi).loss - self.priors.log_density(phi)
        found, precision = self.information(phi), self.precision(phi)
        factor = np.linalg.cholesky(found.matrix)
        spread = np.sum(np.linalg.inv(factor) ** 2, axis=0)  # the diagonal of V
        return (
            found.value
            + 0.5 * float(np.sum(precision * (self.v**2 + spread) - np.log(precision)))
            + float(np.sum(np.log(np.diag(factor))))
            - self.priors.log_density(phi)
        )


def _downhill(at: Evaluation, j: int) -> PerWeight:
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
    v : (j,), the middle of (w, γ);  n_weights : q;  effect_sd : prior standard deviation of γ
    hessian : (j, j), the information on v at φ̂, prior included
    peak : (j,), the mode of (w, γ) given φ̂; of real labels, v
    curve, pull : (n,), of each label's log density in ξ, pull·ξ − ½ curve·ξ²; with its weight
    power : (k,), with x = exp(power φ)
    folded, bend : (k,), which say what the coordinates of each scale are
    center, scale_cov : (k,) and (k, k), mode and covariance of the coordinates c
    loss : −log evidence per bag, up to a constant that depends on the labels only
    left_out : of classes, mean and variance (n,) of the standardised latent value of each bag
        without its own label, and ν̄ of each; else None
    """

    phi: PerScale
    v: PerWeight
    n_weights: int
    effect_sd: float
    hessian: Float64[np.ndarray, "j j"]
    peak: PerWeight
    curve: Float64[np.ndarray, " n"]
    pull: Float64[np.ndarray, " n"]
    power: PerScale
    folded: Bool[np.ndarray, " k"]
    bend: PerScale
    center: PerScale
    scale_cov: Square
    loss: float
    left_out: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None


def find_marginal_mode(problem: ShrinkageProblem, priors: ScalePriors, start: Mode) -> MarginalMode:
    """Search from the mode that was found with log-normal priors at one weight variance."""
    at_scales = len(start.theta) - problem.n_scales
    posterior = ScalePosterior(problem, priors, start.theta[:at_scales])
    phi = np.append(start.theta[at_scales:], np.log(start.weight_var))
    phi = np.minimum(phi, np.log(priors.scale) / priors.power)  # where the prior is not yet steep
    phi, _ = search(posterior, phi)
    value, left_out = posterior(phi), None
    if posterior.of_classes:
        known = posterior.classes(phi)
        left_out = known.left_out
        hessian, v, (curve, pull) = known.precision, known.mean, known.sites_in_latent(problem)
        posterior.weights_at(phi)
    else:
        hessian, v = posterior.information(phi).matrix, posterior.v
        curve, pull = _working(problem, np.concatenate([v, phi[:-1]]))
    peak = posterior.v
    center, scale_cov = _coordinates(posterior, phi)
    return MarginalMode(
        phi=phi,
        v=v,
        n_weights=posterior.n_weights,
        effect_sd=priors.effect_sd,
        hessian=hessian,
        peak=peak,
        curve=curve,
        pull=pull,
        power=priors.power,
        folded=priors.folded,
        bend=bend_of(np.exp(priors.power * phi), priors.scale),
        center=center,
        scale_cov=scale_cov,
        loss=value / len(problem.labels),
        left_out=left_out,
    )


def _working(
    problem: ShrinkageProblem, theta: Float64[np.ndarray, " k"]
) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
    """Return curvature and pull of the log density of each label in ξ, at θ."""
    at = LabelMoments(problem, theta)
    terms = problem.likelihood.terms(problem.labels, at.mean, at.var[problem.size_of])
    curve = problem.sample_weight * terms.mean_mean
    return curve, curve * at.mean - problem.sample_weight * terms.by_mean


def _coordinates(posterior: ScalePosterior, phi: PerScale) -> tuple[PerScale, Square]:
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


def search(value: Callable[[np.ndarray], float], c: PerScale) -> tuple[PerScale, Square]:
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


def _positive(hessian: Square) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, made positive and not too small, and eigenvectors."""
    values, vectors = np.linalg.eigh(hessian)
    return np.maximum(np.abs(values), MAX_RELATIVE_SD**-2), vectors


def _differences(
    value: Callable[[np.ndarray], float], c: PerScale
) -> tuple[float, PerScale, Square]:
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
