"""Scales of a process that labels leave open, by importance sampling around the most probable.

With a hundred bags a dozen scales are not known well, and a process at those of the largest
evidence is too sure. Scales are drawn from Student's t with the curvature of the evidence there,
each is weighted by how much more probable it is than the draw was, and some are taken, in
proportion to their weights: w_m ∝ p(θ_m | y)/q(θ_m). No weight is more than 1/√M of all, so that
one draw cannot stand for the whole.

References
----------
Ionides (2008), Truncated importance sampling.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.stats import multivariate_t

from bagwise.inference.gp_evidence import BOUND, HOPELESS, GPProblem
from bagwise.inference.gp_nuts import Place, Whitened
from bagwise.inference.second_level import Scales
from bagwise.inference.settled import Settled, settle

# Draws that are weighted, in pairs on both sides of the mode; those that are taken; and the degrees
# of freedom of what they are drawn from, of heavier tails than a posterior is likely to have.
WEIGHTED = 64
TAKEN = 16
DOF = 8


def draw_scales(problem: GPProblem, rng: np.random.Generator) -> list[tuple[Scales, Settled]]:
    """Draw scales given real labels, and return the settled process at each.

    Parameters
    ----------
    problem : GPProblem, whose start has the scales of the largest evidence
    """
    low, high = problem.bounds
    bag = settle(problem, problem.start).bag

    def process(theta: Place) -> Settled:
        return settle(problem, problem.start.moved(problem.free, theta), bag)

    def potential(theta: Place) -> tuple[float, Place]:
        value, slope = problem.minus_log_prior(theta)
        at = process(theta)
        by_scale = at.gradient()
        return value + at.loss, slope + np.array([by_scale[name] for name in problem.free])

    def log_density(theta: Place) -> float:
        if not ((theta >= low) & (theta <= high)).all():
            return -HOPELESS
        try:
            return -problem.minus_log_prior(theta)[0] - process(theta).loss
        except np.linalg.LinAlgError:
            return -HOPELESS

    mode = np.clip(problem.start.vector(problem.free), low, high)
    units = Whitened.at(potential, mode, (high - low) / (2.0 * BOUND))
    x = _around(len(mode), rng)
    theta = mode + x @ units.root.T
    drawn_with = multivariate_t.logpdf(x, np.zeros(len(mode)), np.eye(len(mode)), df=DOF)
    taken = resampled(np.array([log_density(each) for each in theta]) - drawn_with)
    return [(problem.start.moved(problem.free, theta[i]), process(theta[i])) for i in taken]


def _around(n_scales: int, rng: np.random.Generator) -> Float64[np.ndarray, "m h"]:
    """Draw from Student's t around 0, in pairs x and −x."""
    half = rng.standard_normal((WEIGHTED // 2, n_scales))
    half *= np.sqrt(DOF / rng.chisquare(DOF, WEIGHTED // 2))[:, None]
    return np.concatenate([half, -half])


def resampled(log_weights: Float64[np.ndarray, " m"]) -> list[int]:
    """Return which draws are taken, some of them more than once, evenly over their weights.

    Examples
    --------
    >>> len(set(resampled(np.zeros(64)))), len(set(resampled(np.arange(64.0))))
    (16, 5)
    """
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights / weights.sum(), 1.0 / np.sqrt(len(weights)))
    steps = (np.arange(TAKEN) + 0.5) / TAKEN
    return np.searchsorted(np.cumsum(weights / weights.sum()), steps).tolist()
