"""Processes that are settled: the bag part that they are fitted with is that of their own slopes.

What a bag leaves open of its label, bag_i = Σ_k g_ik² C_ik, has slopes g of the mean that is fitted
with it. At given scales there is one such bag part, found by repetition; the evidence with it,
L(θ) = −log p(y | θ, bag(θ)), is a function of the scales alone, and the derivative of bag(θ)
belongs to its gradient. With α = A^-1 y, R_ij = ∂bag_i/∂α_j, P = A^-1 and w = ∂L/∂bag,

    dL = ∂L + λ·∂bag − p^T (dA) α,      (I + diag(α) P R^T) λ = w,      p = P R^T λ

where ∂ is at fixed bag and α, and dA what A changes by but for its bag part.

Searched with slopes that are held instead, scales need not come to rest: on real labels they go in
circles, between "all is noise" and "all is what bags leave open", and where such a search ends the
bag part of its last fit can be three times that of its own slopes: predictions are too sure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from scipy.linalg import solve
from scipy.linalg.lapack import dposv

from bagwise.inference.conditional import JITTER, Conditional, Matrix, Vector
from bagwise.inference.gp_evidence import HOPELESS, GPProblem, State
from bagwise.inference.second_level import Scales, SecondLevelKernel

# Repetitions until slopes and bag part agree, at most, and the largest change of a variance after
# which they do, labels standardised. Of what is found a part is taken: a larger bag part has a
# smoother mean, which has a smaller bag part, so that whole steps swing.
MOST_REPETITIONS = 50
TOLERANCE = 1e-5
TAKEN = 0.6

Slopes = Float64[np.ndarray, "n c"]


@dataclass(frozen=True, eq=False)
class Settled:
    """A process at some scales, with the bag part of its own slopes.

    Attributes
    ----------
    problem : GPProblem;  kernel : SecondLevelKernel, at the scales
    state : State, what it sees;  gauss : (n, n), its Gaussian part
    bag : (n,);  slopes : (n, c), g
    found : Conditional
    """

    problem: GPProblem
    kernel: SecondLevelKernel
    state: State
    gauss: Matrix
    bag: Vector
    slopes: Slopes
    found: Conditional

    @property
    def in_what_is_said(self) -> Slopes:
        """The slopes in what each bag says."""
        return self.slopes * self.state.coordinates.units * (1.0 - self.state.slack)

    @property
    def loss(self) -> float:
        """−log evidence."""
        return self.found.loss

    def gradient(self) -> dict[str, float]:
        """Return the derivatives of the loss in all scales, of real labels."""
        kernel, state, found = self.kernel, self.state, self.found
        x, alpha, var = state.inputs, found.alpha, _own_var(state)
        way = 2.0 * self.slopes * var
        PR = found.precision @ kernel.along(x, way, self.gauss).T
        system = alpha[:, None] * PR
        system[np.diag_indices_from(system)] += 1.0
        by_bag = solve(system, np.diagonal(found.slope), check_finite=False)
        p = PR @ by_bag
        by_alpha = np.multiply.outer(0.5 * p, alpha)
        found = replace(
            found, slope=found.slope - by_alpha - by_alpha.T, by_noise=found.by_noise - p * alpha
        )
        by_input = kernel.gradient(x, found.slope, self.gauss)
        by_input += kernel.along_gradient(x, by_bag[:, None] * way, alpha, self.gauss)
        by_scale = self.problem.chained(kernel.scales, state, by_input, found)
        # and of C itself, at the bag's own size: κ − 1 in log η, 1 − κ in log τ
        left = by_bag[:, None] * self.slopes**2 * var
        by_size = float(np.sum(left * (1.0 - state.slack)))
        by_scale["prior_scale"] -= by_size
        by_scale["sampling"] += by_size
        by_scale["tilt"] += float(left.sum(axis=0) @ state.coordinates.tilting)
        return by_scale


def settle(problem: GPProblem, scales: Scales, bag: Vector | None = None) -> Settled:
    """Return the process with the bag part of its own slopes.

    Parameters
    ----------
    problem : GPProblem;  scales : Scales
    bag : (n,), where to begin; by default that of the problem's slopes, or the nugget
    """
    state, kernel = problem.state(scales), SecondLevelKernel(scales)
    gauss = kernel.gauss(state.inputs, state.inputs)
    gram = gauss + kernel.exact_part(state.inputs, state.inputs)
    if problem.together is not None:
        gram += scales.group * problem.together
    average, var = np.diagonal(gram).copy(), _own_var(state)
    bag = problem.bag_var(state) if bag is None else bag
    slopes_by, before, share = kernel.slopes(state.inputs, state.inputs, gauss), np.inf, TAKEN
    for _ in range(MOST_REPETITIONS):
        gram.flat[:: len(gram) + 1] = average + bag
        slopes = slopes_by(_alpha(problem, gram, scales))
        change = np.sum(slopes**2 * var, axis=1) - bag
        largest = float(np.abs(change).max())
        if largest < TOLERANCE:
            break
        share, before = share if largest < before else 0.5 * share, largest  # in doubt, slower
        bag = bag + share * change
    gram.flat[:: len(gram) + 1] = average + bag
    return Settled(problem, kernel, state, gauss, bag, slopes, problem.condition(gram, scales))


def maximise_settled(
    problem: GPProblem, max_steps: int, least_gain: float
) -> tuple[Scales, float, Slopes]:
    """Return scales of the largest evidence of settled processes, of real labels.

    Returns
    -------
    Scales, −log evidence per bag, and the slopes in what each bag says
    """
    order = problem.by_group
    first, bag = problem.take(order), None

    def loss(theta: Float64[np.ndarray, " h"]) -> tuple[float, Float64[np.ndarray, " h"]]:
        nonlocal bag
        value, slope = first.minus_log_prior(theta)
        try:
            at = settle(first, first.start.moved(first.free, theta), bag)
        except np.linalg.LinAlgError:
            return HOPELESS, np.zeros_like(theta)
        bag, by_scale = at.bag, at.gradient()
        return value + at.loss, slope + np.array([by_scale[name] for name in first.free])

    if problem.free:
        scales, least = problem.searched(loss, max_steps, least_gain)
        found = settle(first, scales, bag)
    else:
        scales, found = problem.start, settle(first, problem.start)
        least = found.loss / len(problem.labels)
    slopes = np.empty_like(found.slopes)
    slopes[order] = found.in_what_is_said
    return scales, least, slopes


def _own_var(state: State) -> Float64[np.ndarray, "n c"]:
    """Return C of each bag at its own size."""
    return state.coordinates.var(state.slack)


def _alpha(problem: GPProblem, gram: Matrix, scales: Scales) -> Vector:
    """Return α alone, which of real labels is found sooner."""
    if problem.likelihood is not None:
        return problem.condition(gram, scales).alpha
    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += problem.noise(scales) + JITTER
    _, alpha, info = dposv(matrix.T, problem.labels, lower=True, overwrite_a=True)
    if info:
        raise np.linalg.LinAlgError
    return alpha
