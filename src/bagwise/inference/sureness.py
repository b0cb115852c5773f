"""Sureness: how much surer of classes a model may be than it says, learnt from labels left out.

The posterior of a linear model spreads its weights over directions that tell classes apart and over
those that do not; what the latter add to a bag's latent value by chance is counted as variance. On
simulated bags, whose true probabilities are known, that variance was twice what it should be for
bags of a thousand points and about right for bags of five, by expectation propagation and by NUTS
alike: it is the model that is not sure enough, not the approximation. Elsewhere it is the other way
round: where the points of a bag are all there is, its variance says of small bags what is not so.
So each label is predicted from all others, and four numbers say how sure to be: one for all bags,
two for their size, and one for how much the variance of a bag counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.likelihoods.base import ClassLikelihood

Vector = Float64[np.ndarray, " n"]
Theta = Float64[np.ndarray, " 4"]

# Mean and variance of the standardised latent value of each bag, without what its own label says,
# and the variance ν by which it is standardised.
LeftOut = tuple[Vector, Vector, Vector]

# Standard deviations of the priors of θ: level, slope in log N, power of ν, and the log by which
# few points make the variance of a usual bag larger. A factor of e^½ for all bags is no surprise,
# one of e^½ for bags of e times the size neither, nor that ν does not count at all.
PRIOR_SD = (0.5, 0.5, 1.0, 1.0)

# Bounds of θ: more points do not make less sure, by their number or by what they leave of ν.
LOWER = np.array([-np.inf, 0.0, -np.inf, 0.0])
UPPER = np.array([np.inf, np.inf, 1.0, np.inf])

# Step of the differences that give the derivatives in log s.
DIFFERENCE = 1e-3

# The search ends when it moves less than this; steps this short are taken unseen, as rounding would
# decide whether they help.
TOLERANCE, SHORT = 1e-9, 1e-3
MAX_STEPS, MAX_HALVINGS = 200, 20

# Logs that differ by less are equal.
ROUNDING = 1e-9

# Least probability of a label that is told from 0.
LEAST = 1e-300


@dataclass(frozen=True)
class Sureness:
    """P(y = 1) is the link's at s times the latent value over the standard deviation √ν of its bag.

    log s = level + by_size x + by_bag z + ½ few − ½ log{1 + (e^few − 1) e^−x}
    x = log N − log_size,   z = ½ log ν − log_sd

    The last two terms are those of a variance κ/N beside that of the link, 1: they are
    ½ log{(1 + κ/N̄)/(1 + κ/N)} with log N̄ = log_size and few = log(1 + κ/N̄).

    Attributes
    ----------
    level : log s of a usual bag
    by_size : slope in log N, ≥ 0
    by_bag : slope in log √ν, ≤ 1: 0 if ν is what the model says, 1 if it does not count
    few : ≥ 0: 0 if few points are no reason for doubt, but for ``by_size``
    log_size, log_sd : weighted means of log N and log √ν over the training bags
    least, most : N counts as no less and no more, the range of the sizes of the training bags

    Examples
    --------
    >>> surer = Sureness(0.1, 0.5, 0.0, 0.0, 2.0, 0.0, 1.0, 1000.0)
    >>> surer(np.exp([2.0, 4.0])).round(3)
    array([1.105, 3.004])
    """

    level: float
    by_size: float
    by_bag: float
    few: float
    log_size: float
    log_sd: float
    least: float
    most: float

    def __call__(self, sizes: ArrayLike, var: ArrayLike = 1.0) -> Vector:
        """Return s at sizes (n,) and ν (n,), which is 1 where the bag is taken for known."""
        sizes = np.clip(np.asarray(sizes, dtype=np.float64), self.least, self.most)
        var = np.broadcast_to(np.asarray(var, dtype=np.float64), sizes.shape)
        x, z = np.log(sizes) - self.log_size, 0.5 * np.log(var) - self.log_sd
        return np.exp(_log_s(np.array([self.level, self.by_size, self.by_bag, self.few]), x, z))

    def factors(self, posterior: EmbeddingPosterior, bag_var: Float64[np.ndarray, "s l"]) -> Vector:
        """Return s of bags (n,), given the variance of each size that is asked for by each draw."""
        var = 1.0 + bag_var.mean(axis=0)
        return self(posterior.asked_sizes, var[posterior.var_of])

    @classmethod
    def of(
        cls,
        likelihood: ClassLikelihood,
        labels: Vector,
        weights: Vector,
        sizes: Vector,
        left_out: LeftOut,
    ) -> Self:
        """Find s such that labels are likely when they are predicted from all others.

        Parameters
        ----------
        labels : (n,), −1 and +1;  weights, sizes : (n,), of the bags
        left_out : see :mod:`.class_weights`
        """
        logs = np.column_stack([np.log(sizes), 0.5 * np.log(left_out[2])])
        middle = np.average(logs, axis=0, weights=weights)
        gaps = logs - middle
        gaps[np.abs(gaps) < ROUNDING] = 0.0
        theta = _search(_Loss(likelihood, labels, weights, left_out), *gaps.T)
        counts = weights > 0
        ends = [float(sizes[counts].min()), float(sizes[counts].max())]
        numbers: list[float] = [*theta.tolist(), *middle.tolist(), *ends]
        return cls(*numbers)


def _log_s(theta: Theta, x: Vector, z: Vector) -> Vector:
    """Return log s at x and z."""
    level, by_size, by_bag, few = theta
    return level + by_size * x + by_bag * z + 0.5 * (few - np.log1p(np.expm1(few) * np.exp(-x)))


class _Loss:
    """−log probability of each label left out, as a function of log s of each bag."""

    def __init__(
        self, likelihood: ClassLikelihood, labels: Vector, weights: Vector, left_out: LeftOut
    ) -> None:
        self.likelihood, self.weights = likelihood, weights
        self.mean, self.var = labels * left_out[0], left_out[1]

    def __call__(self, log_s: Vector) -> Vector:
        s = np.exp(log_s)
        p = self.likelihood.probability(s * self.mean, s**2 * self.var)
        return -self.weights * np.log(np.maximum(p, LEAST))

    def slopes(self, log_s: Vector) -> tuple[Vector, Vector]:
        """Return the first and second derivatives."""
        above, at, below = (self(log_s + step) for step in (DIFFERENCE, 0.0, -DIFFERENCE))
        return (above - below) / (2.0 * DIFFERENCE), (above - 2.0 * at + below) / DIFFERENCE**2


def _search(loss: _Loss, x: Vector, z: Vector) -> Theta:
    """Return θ of the least penalised loss within its bounds.

    By Newton's method for the numbers that are not at a bound beyond which it is less; steps are
    halved while they do not help.
    """
    precision = np.array(PRIOR_SD) ** -2.0
    theta = np.zeros(len(precision))

    def value(theta: Theta) -> float:
        return float(loss(_log_s(theta, x, z)).sum()) + 0.5 * float(precision @ theta**2)

    for _ in range(MAX_STEPS):
        first, second = loss.slopes(_log_s(theta, x, z))
        # the slope of log{1 + (e^few − 1) e^−x} in few, whose own is doubt (1 − doubt)
        doubt = 1.0 / (1.0 + np.expm1(x) * np.exp(-theta[3]))
        columns = np.column_stack([np.ones(len(x)), x, z, 0.5 * (1.0 - doubt)])
        gradient = columns.T @ first + precision * theta
        held = ((theta <= LOWER) & (gradient > 0)) | ((theta >= UPPER) & (gradient < 0))
        hessian = (columns.T * np.maximum(second, 0.0)) @ columns + np.diag(precision)
        hessian[3, 3] += max(0.0, -0.5 * float(first @ (doubt * (1.0 - doubt))))
        step = np.zeros(len(theta))
        step[~held] = np.linalg.solve(hessian[np.ix_(~held, ~held)], gradient[~held])
        ahead = np.clip(theta - step / max(float(np.abs(step).max()), 1.0), LOWER, UPPER)
        far, before = float(np.abs(ahead - theta).max()), value(theta)
        for _ in range(MAX_HALVINGS):
            if far < SHORT or value(ahead) < before:
                break
            ahead = 0.5 * (theta + ahead)
        theta = ahead
        if far < TOLERANCE:
            break
    return theta
