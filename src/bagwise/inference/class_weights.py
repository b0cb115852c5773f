"""The weights of models of two classes given the scales, by expectation propagation.

The posterior of v = (w, γ) is skewed where classes are clear: its mean is further out than its
mode. A Gaussian around the mode has the spread of the posterior without its middle, and gives
probabilities that are not as sure as they should be. Here each label is replaced by a Gaussian site
exp(n_i u_i − ½ s_i u_i²) in its standardised latent value u_i = ξ_i/√ν̄_i (:mod:`.sites`), such that
mean and variance of u_i are those with the label itself in its place, all others being replaced.

ξ_i = x_i·v is linear in v. Where the embedding shrinks, ν_i = 1 + w^T C_i w is not: it is taken at
its mean ν̄_i, and to first order around it, with b_i the slope in ν of −log of what the label
integrates to. With D the prior precision and Λ that of the posterior

    Λ = D + Σ_i (s_i/ν̄_i) x_i x_i^T + 2 Σ_i b_i C_i,   v̄ = Λ^-1 Σ_i (n_i/√ν̄_i) x_i
    log p(y) ≈ Σ_i {c_i + b_i E[w^T C_i w]} + ½ v̄·Λv̄ + ½ log|D| − ½ log|Λ|

In the coordinates of the embedding C_i is diagonal. Where Σ_i b_i C_i is negative, labels would
have ν larger than it is: then it moves the mean, but Λ, which is to stay a precision, has none of
it.

References
----------
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 3.6.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cho_solve
from scipy.optimize import brentq

from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.inference.priors import usual_weights
from bagwise.inference.shrinkage import (
    LOG_SCALE_SD,
    LOG_WEIGHT_VAR_TOLERANCE,
    LabelMoments,
    Mode,
    ShrinkageProblem,
    find_mode,
)
from bagwise.inference.sites import (
    LEAST_LEFT,
    MUCH,
    Sites,
    change,
    log_of_sites,
    moved_to,
    sites_of,
)
from bagwise.likelihoods.base import ClassLikelihood

PerWeight = Float64[np.ndarray, " j"]
PerSize = Float64[np.ndarray, " m"]

# Sweeps, at most, and the largest change of a site, or of a log ν̄, after which they end.
SWEEPS = 200
TOLERANCE = 1e-6

# Where a sweep changes sites more than the last one did, the next go less far; at least this share.
LEAST_SHARE = 0.01

# The log weight variance is sought by steps of this length at first.
STEP = 3.0

# Weights that are so many times as large as those of the start have run away.
RUN_AWAY = 1e4

# What is added to a diagonal of ones where rounding error has made a matrix indefinite, in turn.
JITTERS = (0.0, 1e-14, 1e-12, 1e-10, 1e-8)

# Prior precision of fixed effects that have a flat prior.
FLAT = 1e-6

# The positive part of Σ b_i is made smooth over this share of its standard deviation, as searches
# for the scales need a smooth evidence.
BLUR = 0.2


@dataclass(frozen=True, eq=False)
class ClassWeights:
    """What the labels say of v = (w, γ) at given scales.

    Attributes
    ----------
    mean : (j,), v̄;  precision : (j, j), Λ
    sites : s and n of each label;  var : (m,), ν̄ of each size;  pressed : (d,), Σ b C
    loss : −log p(y)
    moved : how far the last sweep still moved sites or log ν̄
    left_out : mean and variance (n,) of each u_i without its own label, and ν̄_i
    """

    mean: PerWeight
    precision: Float64[np.ndarray, "j j"]
    sites: Sites
    var: PerSize
    pressed: Float64[np.ndarray, " d"]
    loss: float
    moved: float
    left_out: tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]

    @cached_property
    def cov(self) -> Float64[np.ndarray, "j j"]:
        """Λ^-1, in units of its diagonal, which may differ by more digits than numbers have."""
        units = np.sqrt(np.diagonal(self.precision))
        both = np.multiply.outer(units, units)
        return np.linalg.inv(self.precision / both) / both

    def sites_in_latent(self, problem: ShrinkageProblem) -> Sites:
        """Return s and n for ξ itself."""
        root = np.sqrt(self.var[problem.size_of])
        return self.sites[0] / root**2, self.sites[1] / root


class _Sweeper:
    """One sweep over all labels, at given scales."""

    def __init__(
        self, problem: ShrinkageProblem, at: LabelMoments, precision: PerWeight, moves: bool = True
    ) -> None:
        assert isinstance(problem.likelihood, ClassLikelihood)
        self.problem, self.at, self.prior = problem, at, precision
        self.moves = moves and problem.shrinks  # or the variances of labels stay those of `at`
        self.likelihood = problem.likelihood
        self.rows = at.d_mean[:, : len(precision)]
        self.spread = at.model.function_map
        self.var = at.var.copy() if problem.shrinks else np.ones(len(at.bag_var))
        self.pressed = self.positive = np.zeros(len(self.spread))
        self.mean = self.anchor = np.concatenate([at.w, at.gamma])
        self.units = problem.units[: len(self.mean)]
        # the sites of Laplace's approximation there
        u = at.mean / np.sqrt(self.var[problem.size_of])
        bend = self.likelihood.bend(problem.labels, u, np.zeros_like(u))
        weights = problem.sample_weight
        self.sites = weights * bend.second, weights * (bend.second * u - bend.first)

    def begin(self, start: ClassWeights) -> None:
        """Start from what was found at other scales."""
        self.sites, self.var, self.pressed = start.sites, start.var, start.pressed
        self.mean = self.anchor = start.mean
        self.positive = np.maximum(start.pressed, 0.0)

    @property
    def largest(self) -> float:
        """The largest of the weights, in their units."""
        return float(np.abs(self.mean / self.units).max())

    def posterior(self) -> None:
        """Bring v̄ and Λ up to date with the sites."""
        q, (curve, pull) = self.spread.shape[1], self.sites
        self.slopes = self.rows / np.sqrt(self.var[self.problem.size_of])[:, None]
        self.precision = (self.slopes.T * curve) @ self.slopes + np.diag(self.prior)
        self.pull = self.slopes.T @ pull
        self.shift = np.zeros_like(self.mean)
        if self.moves:
            self.precision[:q, :q] += self._pressure(self.positive)
            self.shift[:q] = self._pressure(self.positive - self.pressed) @ self.anchor[:q]
        self.pull += self.shift
        self.factor = _factor(self.precision), True
        self.mean = cho_solve(self.factor, self.pull)

    def _pressure(self, pressed: Float64[np.ndarray, " d"]) -> Float64[np.ndarray, "q q"]:
        """Return 2 Σ_i b_i C_i, given Σ_i b_i C_i of each direction."""
        return 2.0 * (self.spread.T * pressed) @ self.spread

    def sweep(self, share: float) -> float:
        """Move all a share of the way to what follows from it; return how far it is."""
        self.posterior()
        half = np.linalg.inv(np.tril(self.factor[0]))
        mean = self.slopes @ self.mean
        var = np.sum((self.slopes @ half.T) ** 2, axis=1)
        curve, pull = self.sites
        # what is known without the label is no more than before there were any
        before = np.sum(self.slopes**2 / self.prior, axis=1)
        left = np.maximum(1.0 - curve * var, np.maximum(var / before, LEAST_LEFT))
        self.around, self.left_var = (mean - var * pull) / left, var / left
        labels, weights = self.problem.labels, self.problem.sample_weight
        self.value, new = sites_of(self.likelihood, labels, weights, self.around, self.left_var)
        far = change(self.sites, new)
        if self.moves:
            far = max(far, self._variances(half, share))
        self.found, self.sites = self.sites, moved_to(self.sites, new, share)
        return far

    def _variances(self, half: np.ndarray, share: float) -> float:
        """Move ν̄ and b; return how far log ν̄ is."""
        q, of = self.spread.shape[1], self.problem.size_of
        squares = (self.spread @ self.mean[:q]) ** 2
        squares += np.sum((self.spread @ half.T[:q]) ** 2, axis=1)
        self.squares, self.used = squares, self.positive
        var = self.var[of]
        labels, around = self.problem.labels, self.around * np.sqrt(var)
        terms = self.likelihood.terms(labels, around, var * (1.0 + self.left_var))
        pressed = self.at.by_size(terms.by_var) @ self.at.bag_var
        blur = BLUR * np.sqrt(self.at.by_size(terms.fisher_var) @ self.at.bag_var**2)
        positive = 0.5 * (pressed + np.hypot(pressed, blur))
        # Labels that are the likelier the less their bag is known would make weights grow for ever.
        self.pressed = self.pressed + share * (np.maximum(pressed, 0.0) - self.pressed)
        self.positive = self.positive + share * (positive - self.positive)
        self.anchor = self.anchor + share * (self.mean - self.anchor)
        step = np.log((self.at.noise + self.at.bag_var @ squares) / self.var)
        self.var = self.var * np.exp(share * step)
        return float(np.abs(step).max())

    def loss(self) -> float:
        """Return −log p(y), where the last sweep was."""
        total = float(np.sum(self.value + log_of_sites(self.found, self.around, self.left_var)))
        total -= 0.5 * float(self.pull @ self.mean) - float(self.shift @ self.mean)
        total += float(np.sum(np.log(np.diagonal(self.factor[0]))))
        total -= 0.5 * float(np.sum(np.log(self.prior)))
        if self.moves:
            total -= float(self.used @ self.squares)
        return total


def _factor(precision: Float64[np.ndarray, "j j"]) -> Float64[np.ndarray, "j j"]:
    """Return the Cholesky factor of a precision, of which rounding may have taken the definiteness.

    Scales far off make some weights known by 20 digits better than others: the matrix is factorised
    in units of its diagonal, if need be with a little more on it.
    """
    units = np.sqrt(np.diagonal(precision))
    unit = precision / np.multiply.outer(units, units)
    for more in JITTERS:
        with suppress(np.linalg.LinAlgError):
            return units[:, None] * np.linalg.cholesky(unit + more * np.eye(len(unit)))
    raise np.linalg.LinAlgError("the precision of the weights is not that of a distribution")


class EndlessError(BagwiseError, np.linalg.LinAlgError):
    """Expectation propagation runs away, from wherever it starts."""


def propagate_weights(
    problem: ShrinkageProblem,
    scales: Float64[np.ndarray, " s"],
    precision: PerWeight,
    start: ClassWeights | PerWeight | None = None,
) -> ClassWeights:
    """Return the posterior of v at given log scales.

    Parameters
    ----------
    scales : (s,), log η and so on, as at the end of θ
    precision : (j,), of the prior of v
    start : what was found at scales nearby, or the mode of v at about these
    """
    known = start if isinstance(start, ClassWeights) else None
    mean = known.mean if known else np.zeros(len(precision)) if start is None else start
    at = LabelMoments(problem, np.concatenate([mean, scales]))
    sweeper = _Sweeper(problem, at, precision)
    if known:
        sweeper.begin(known)
    found = _swept(sweeper)
    if found is None:
        # Where some labels are the likelier the less their bag is known, weights can run away. With
        # variances of labels as they are at the start, nothing can.
        found = _swept(_Sweeper(problem, at, precision, moves=False))
    if found is None:
        raise EndlessError.because(
            "expectation propagation of the labels finds no end",
            "labels and sample weights by which it settles",
            "Take sample weights that differ less, fewer landmarks or a larger bandwidth.",
        )
    return found


def _swept(sweeper: _Sweeper) -> ClassWeights | None:
    """Sweep until little moves; return where that ends, or None if it runs away."""
    before, share, far = np.inf, 1.0, np.inf
    reach = RUN_AWAY * (1.0 + sweeper.largest)
    for _ in range(SWEEPS):
        try:
            far = sweeper.sweep(share)
        except (np.linalg.LinAlgError, ValueError):  # indefinite, or not finite
            return None
        if not (far < np.inf and sweeper.largest < reach):
            return None
        if far < TOLERANCE:
            break
        # in doubt slower, and little by little faster again
        share = min(1.1 * share, 1.0) if far < before else max(0.5 * share, LEAST_SHARE)
        before = far
    return ClassWeights(
        sweeper.mean,
        sweeper.precision,
        sweeper.found,
        sweeper.var,
        sweeper.pressed,
        sweeper.loss(),
        far,
        (sweeper.around, sweeper.left_var, sweeper.var[sweeper.problem.size_of]),
    )


def warn_if_moving(known: ClassWeights) -> None:
    """Warn in plain language if expectation propagation ended before it had converged."""
    if known.moved > MUCH:
        warnings.warn(
            f"expectation propagation ended after {SWEEPS} sweeps, of which the last still moved "
            f"labels' parts by {known.moved:.2g}. Probabilities can be used, but fewer landmarks, "
            'a larger bandwidth or inference="nuts" are safer.',
            BagwiseWarning,
            stacklevel=2,
        )


def find_class_weights(
    problem: ShrinkageProblem, weight_var: float | None
) -> tuple[Mode, ClassWeights]:
    """Find scales and weights of two classes; ρ², if not given, is that of the largest evidence.

    The evidence above has the slope ½ {q − tr(Λ^-1_ww)/ρ² − ‖w̄‖²/ρ²} in −log ρ², to which ρ²/2s²
    comes by the half-normal prior of ρ: where classes are clear ρ would have no end. By Laplace's
    evidence ρ² is too small there: with 82 molecules (Musk) 5 where the posterior has 50 to 150.
    """
    if weight_var is not None:
        mode = find_mode(problem, weight_var)
        known = _at_mode(problem, mode)
        return _with_loss(problem, mode, known), known
    scale = usual_weights(problem)
    seen: dict[float, tuple[Mode, ClassWeights]] = {}
    steps = 0

    @cache
    def slope(log_var: float) -> float:
        nonlocal steps
        weight_var = float(np.exp(log_var))
        last = next(reversed(seen.values()), None)  # from which it is not far
        mode = find_mode(problem, weight_var, None if last is None else last[0].theta)
        known = _at_mode(problem, mode, None if last is None else last[1])
        steps += mode.n_steps
        seen[log_var] = mode, known
        q = len(problem.split(mode.theta)[0])
        spread = float(np.trace(known.cov[:q, :q]))
        size = spread + float(known.mean[:q] @ known.mean[:q])
        return q - size / weight_var + weight_var / scale**2

    least, most = np.log(problem.weight_var_range)
    low = high = float(np.log(problem.start_weight_var))
    below = above = slope(low)
    while below > 0.0 and low > least:
        high, above, low = low, below, low - STEP
        below = slope(low)
    while above < 0.0 and high < most:
        low, below, high = high, above, high + STEP
        above = slope(high)
    if below < 0.0 < above:
        brentq(slope, low, high, xtol=LOG_WEIGHT_VAR_TOLERANCE)
    mode, known = min(seen.values(), key=lambda at: at[1].loss + 0.5 * at[0].weight_var / scale**2)
    return replace(_with_loss(problem, mode, known), n_steps=steps), known


def _with_loss(problem: ShrinkageProblem, mode: Mode, known: ClassWeights) -> Mode:
    """Return a mode with −log of this evidence, times the priors of the scales."""
    away = problem.split(mode.theta)[2] - problem.split(problem.start)[2]
    loss = known.loss + 0.5 * float(away @ away) / LOG_SCALE_SD**2
    return replace(mode, loss=loss / len(problem.labels))


def _at_mode(
    problem: ShrinkageProblem, mode: Mode, start: ClassWeights | None = None
) -> ClassWeights:
    """Return the posterior of the weights at the scales of a mode."""
    w, gamma, scales = problem.split(mode.theta)
    precision = np.r_[np.full(len(w), 1.0 / mode.weight_var), np.full(len(gamma), FLAT)]
    begin = np.concatenate([w, gamma]) if start is None else start
    return propagate_weights(problem, scales, precision, begin)
