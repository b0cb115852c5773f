"""Information: how well weights are known given the scales, beyond a second derivative.

Weights that hardly move a bag's mean may still be known, because they move its variance ν: this
grows with their square, so that at zero its derivative, and with it the Fisher information, says
nothing. What says something is the density averaged over the weights' own spread V. With δ_s the
variance that V adds to bags of size s, and τ_i what it adds to the variance of ξ_i,

    δ_s = tr(P V P^T diag(v_s)),   τ_i = x_i^T V x_i,   V^-1 = F(ν + δ) + 2 Σ_i b_i P^T diag(v_s) P

where v_s is the variance of the embedding, F the Fisher information and b_i = ∂(−log p)/∂ν at ν +
δ, less ½τ_i/ν for each unit of information in ξ: positive where ν + δ is more than the labels call
for. δ is found by iteration.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

from bagwise.inference.shrinkage_objective import LabelMoments, ShrinkageProblem

MAX_ROUNDS = 30

# Relative change of ν + δ at which the iteration ends. Over a thousand bags it adds up to some 1e-5
# in log density, of which searches for the scales take second differences.
TOLERANCE = 1e-7

# The positive part of Σ b_i is made smooth over this share of its standard deviation, as searches
# for the scales need a smooth density.
BLUR = 0.2

# Of log(ν + δ) that follows in log(ν + δ) that was put in, less one.
MAX_SLOPE = 50.0


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
    added: Float64[np.ndarray, " m"]


def information_at(
    problem: ShrinkageProblem,
    theta: Float64[np.ndarray, " k"],
    precision: Float64[np.ndarray, " j"],
    added: Float64[np.ndarray, " m"],
) -> Information:
    """Return the information at θ, for weights of prior precision (j,)."""
    at = LabelMoments(problem, theta)
    base = at.var if problem.shrinks else np.ones(len(at.var))  # where ν is not used
    log_var, log_added = np.log(base), np.log(base + added)
    last: tuple[np.ndarray, np.ndarray] | None = None
    for _ in range(MAX_ROUNDS):
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
    at: LabelMoments, precision: Float64[np.ndarray, " j"], var: Float64[np.ndarray, " m"]
) -> tuple[tuple[np.ndarray, float], Float64[np.ndarray, " m"]]:
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
