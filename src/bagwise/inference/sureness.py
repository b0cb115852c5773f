"""Sureness: how much surer of classes a model may be than it says, learnt from labels left out.

The posterior of a linear model spreads its weights over directions that tell classes apart and over
those that do not; what the latter add to a bag's latent value by chance is counted as variance. On
simulated bags, whose true probabilities are known, that variance was twice what it should be for
bags of a thousand points and about right for bags of five, by expectation propagation and by NUTS
alike: it is the model that is not sure enough, not the approximation. So each label is predicted
from all others, and one number for all bags and one for their size say how sure to be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from jaxtyping import Float64
from numpy.typing import ArrayLike

from bagwise.likelihoods.base import ClassLikelihood

Vector = Float64[np.ndarray, " n"]

# Standard deviation of the priors of level and slope of log s: a factor of e^½ is no surprise, and
# a few dozen labels move it by less than that.
PRIOR_SD = 0.5

# Step of the differences that give the derivatives in log s.
DIFFERENCE = 1e-3

# The search ends when it moves less than this; steps this short are taken unseen, as rounding would
# decide whether they help.
TOLERANCE, SHORT = 1e-9, 1e-3
MAX_STEPS, MAX_HALVINGS = 50, 20

# Least probability of a label that is told from 0.
LEAST = 1e-300


@dataclass(frozen=True)
class Sureness:
    """P(y = 1) is the link's at s(N) times the latent value over the standard deviation of its bag.

    log s(N) = level + by_size (log N − log_size),  N no less than ``least``, no more than ``most``

    Attributes
    ----------
    level : log s of a bag of the usual size, exp(log_size)
    by_size : its slope in log N, never negative: more points do not make less sure
    log_size : weighted mean of the log sizes of the training bags;  least, most : their range

    Examples
    --------
    >>> Sureness(0.1, 0.5, 2.0, 1.0, 1000.0)(np.exp([2.0, 4.0])).round(3)
    array([1.105, 3.004])
    """

    level: float
    by_size: float
    log_size: float
    least: float
    most: float

    def __call__(self, sizes: ArrayLike) -> Vector:
        """Return s at sizes (n,)."""
        logs = np.log(np.clip(np.asarray(sizes, dtype=np.float64), self.least, self.most))
        return np.exp(self.level + self.by_size * (logs - self.log_size))

    @classmethod
    def of(
        cls,
        likelihood: ClassLikelihood,
        labels: Vector,
        weights: Vector,
        sizes: Vector,
        left_out: tuple[Vector, Vector],
    ) -> Self:
        """Find s such that labels are likely when they are predicted from all others.

        Parameters
        ----------
        labels : (n,), −1 and +1;  weights, sizes : (n,), of the bags
        left_out : mean and variance (n,) of the standardised latent value of each bag, without what
            its own label says (:mod:`.class_weights`)
        """
        logs = np.log(sizes)
        middle = float(np.average(logs, weights=weights))
        columns = np.column_stack([np.ones(len(logs)), logs - middle])
        loss = _Loss(likelihood, labels, weights, left_out)
        level, by_size = _search(loss, columns)
        if by_size < 0.0:
            (level,), by_size = _search(loss, columns[:, :1]), 0.0
        counts = weights > 0
        ends = float(sizes[counts].min()), float(sizes[counts].max())
        return cls(float(level), float(by_size), middle, *ends)


class _Loss:
    """−log probability of each label left out, as a function of log s of each bag."""

    def __init__(
        self,
        likelihood: ClassLikelihood,
        labels: Vector,
        weights: Vector,
        left_out: tuple[Vector, Vector],
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


def _search(loss: _Loss, columns: Float64[np.ndarray, "n k"]) -> Float64[np.ndarray, " k"]:
    """Return θ of the least penalised loss, log s = columns θ, by Newton's method."""
    precision = PRIOR_SD**-2
    theta = np.zeros(columns.shape[1])

    def value(theta: np.ndarray) -> float:
        return float(loss(columns @ theta).sum()) + 0.5 * precision * float(theta @ theta)

    for _ in range(MAX_STEPS):
        first, second = loss.slopes(columns @ theta)
        hessian = (columns.T * np.maximum(second, 0.0)) @ columns
        hessian += precision * np.eye(len(theta))
        step = np.linalg.solve(hessian, columns.T @ first + precision * theta)
        far = float(np.abs(step).max())
        step /= max(far, 1.0)
        before = value(theta)
        for _ in range(MAX_HALVINGS):
            if far < SHORT or value(theta - step) < before:
                break
            step = 0.5 * step
        theta = theta - step
        if far < TOLERANCE:
            break
    return theta
