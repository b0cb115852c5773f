"""Tails: whether labels lie further out than a Gaussian lets them, and how far.

Residuals left out, in units of what was predicted, are compared with Student's t of variance c and
ν degrees of freedom, and with a Gaussian of variance c. Which of the two is believed is decided by
leaving out parts of the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import betaln

from bagwise.inference.spread import FOLDS, folds

Vector = Float64[np.ndarray, " n"]

# Degrees of freedom: at least so many, as the variance is to be a number that can be estimated;
# with the most of them t is a Gaussian.
LEAST_DOF, MOST_DOF = 3.0, 100.0

# Log odds, over all residuals, at which heavy tails are believed: 20 to 1.
CLEAR = 3.0


@dataclass(frozen=True)
class Tails:
    """Student's t of standardised residuals.

    Attributes
    ----------
    dof : ν, or infinity: Gaussian
    factor : c, of the variances that were predicted
    """

    dof: float = np.inf
    factor: float = 1.0

    @classmethod
    def fit(cls, squares: Vector, weights: Vector, *, always: bool = False) -> Tails:
        """Fit to squares of standardised residuals.

        Parameters
        ----------
        squares : (n,), (y − mean)²/variance;  weights : (n,), of the bags
        always : whether tails are heavy whatever the residuals say

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> Tails.fit(rng.normal(size=200) ** 2, np.ones(200))
        Tails(dof=inf, factor=1.0)
        """
        if always:
            return _fit(squares, weights)
        if len(squares) < 5 * FOLDS:
            return cls()
        gain, fold = 0.0, folds(len(squares))
        for k in range(FOLDS):
            rest, out = fold != k, fold == k
            heavy, plain = _fit(squares[rest], weights[rest]), _plain(squares[rest], weights[rest])
            gain += plain.loss(squares[out], weights[out]) - heavy.loss(squares[out], weights[out])
        return _fit(squares, weights) if gain > CLEAR else cls()

    def loss(self, squares: Vector, weights: Vector) -> float:
        """Return −log density of the residuals, up to what is the same for all tails."""
        squares = squares / self.factor
        if np.isinf(self.dof):
            value = 0.5 * (squares + np.log(2.0 * np.pi))
        else:
            nu = self.dof
            value = 0.5 * (nu + 1.0) * np.log1p(squares / (nu - 2.0))
            value += 0.5 * np.log(nu - 2.0) + betaln(0.5, 0.5 * nu)
        return float(weights @ (value + 0.5 * np.log(self.factor)))


def _plain(squares: Vector, weights: Vector) -> Tails:
    """Return the Gaussian of the largest density."""
    return Tails(factor=max(float(np.average(squares, weights=weights)), 1e-12))


def _fit(squares: Vector, weights: Vector) -> Tails:
    """Return the t of the largest density; ν has the prior ν e^(−ν/10), which few cannot outvote.

    References
    ----------
    Juárez and Steel (2010), Model-based clustering of non-Gaussian panel data based on skew-t
    distributions.
    """
    start = _plain(squares, weights).factor

    def at(theta: np.ndarray) -> Tails:
        return Tails(float(np.exp(theta[0])), start * float(np.exp(theta[1])))

    def objective(theta: np.ndarray) -> float:
        return at(theta).loss(squares, weights) - theta[0] + 0.1 * float(np.exp(theta[0]))

    bounds = [(np.log(LEAST_DOF), np.log(MOST_DOF)), (-3.0, 3.0)]
    return at(minimize(objective, np.array([np.log(8.0), 0.0]), bounds=bounds).x)
