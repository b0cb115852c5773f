"""Residuals left out: how the width of predictions varies, and how heavy their tails are.

A Gaussian process has one noise level; real labels are often surer at one end than at the other.
The variance of bag i's prediction is multiplied by exp(φ_i·b), where φ is quadratic in the
predicted mean and log N, and b fits the leave-one-out residuals with a ridge penalty. What is left
is compared with Student's t of variance c and ν degrees of freedom, and with a Gaussian of variance
c. How much of either is believed, or none, is decided by leaving out parts of the residuals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize
from scipy.special import betaln

Vector = Float64[np.ndarray, " n"]

# Prior standard deviations of b that are tried, beside 0.
RIDGES = (0.03, 0.1, 0.3, 1.0)

# Parts of the residuals left out in turn.
FOLDS = 10

# Inputs beyond so many standard deviations of those seen count as that far.
CLIP = 2.5

# Least and largest factor of a variance.
LARGEST_LOG = 3.0

# Degrees of freedom: at least so many, as the variance is to be a number that can be estimated;
# with the most of them t is a Gaussian.
LEAST_DOF, MOST_DOF = 3.0, 100.0

# Log odds, over all residuals, at which a spread or heavy tails are believed: 20 to 1. With few
# bags the best of some spreads gains a little by chance, and costs more where intervals are narrow.
CLEAR = 3.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Factors of variances, exp(φ·b).

    Attributes
    ----------
    center, scale : (2,), of predicted means and log sizes
    coefficients : (6,), b of 1, m, s, m², s², ms
    """

    center: Float64[np.ndarray, " 2"]
    scale: Float64[np.ndarray, " 2"]
    coefficients: Float64[np.ndarray, " 6"]

    @classmethod
    def fit(
        cls,
        mean: Vector,
        log_size: Vector,
        squares: Vector,
        weights: Vector,
    ) -> Spread:
        """Fit to squares of standardised residuals.

        Parameters
        ----------
        mean, log_size : (n,), at which they were predicted
        squares : (n,), (y − mean)²/variance;  weights : (n,), of the bags
        """
        both = np.column_stack([mean, log_size])
        scale = both.std(axis=0)
        none = cls(both.mean(axis=0), np.where(scale > 0, scale, 1.0), np.zeros(6))
        phi, fold = none._columns(mean, log_size), folds(len(mean))

        def held_out(ridge: float) -> float:
            total = 0.0
            for k in range(FOLDS):
                rest, out = fold != k, fold == k
                b = _fit(phi[rest], squares[rest], weights[rest], ridge)
                total += _loss(phi[out] @ b, squares[out], weights[out])
            return total

        if len(mean) < 5 * FOLDS:
            return none
        losses = {ridge: held_out(ridge) for ridge in RIDGES}
        best = min(losses, key=losses.__getitem__)
        if _loss(np.zeros(len(mean)), squares, weights) - losses[best] <= CLEAR:
            return none
        return cls(none.center, none.scale, _fit(phi, squares, weights, best))

    def scaled(self, factor: float) -> Spread:
        """Return the spread of variances that are larger by a factor."""
        more = np.array([np.log(factor), 0.0, 0.0, 0.0, 0.0, 0.0])
        return Spread(self.center, self.scale, self.coefficients + more)

    def __call__(self, mean: Vector, log_size: Vector) -> Vector:
        """Return the factors of the variances."""
        logs = self._columns(mean, log_size) @ self.coefficients
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))

    def _columns(self, mean: Vector, log_size: Vector) -> Float64[np.ndarray, "n 6"]:
        both = (np.column_stack([mean, log_size]) - self.center) / self.scale
        m, s = np.clip(both, -CLIP, CLIP).T
        return np.column_stack([np.ones_like(m), m, s, m**2 - 1.0, s**2 - 1.0, m * s])


def folds(n: int) -> np.ndarray:
    """Return which part each residual is in, always the same."""
    return np.random.default_rng(0).permutation(n) % FOLDS


def _loss(
    logs: Vector,
    squares: Vector,
    weights: Vector,
) -> float:
    """Return −log density of the residuals if their variances are exp(logs), up to a constant."""
    return 0.5 * float(weights @ (logs + squares * np.exp(-logs)))


def _fit(
    phi: Float64[np.ndarray, "n 6"],
    squares: Vector,
    weights: Vector,
    ridge: float,
) -> Float64[np.ndarray, " 6"]:
    def objective(b: np.ndarray) -> tuple[float, np.ndarray]:
        logs = np.clip(phi @ b, -20.0, 20.0)
        slope = 0.5 * weights * (1.0 - squares * np.exp(-logs))
        penalty = b / ridge**2
        return _loss(logs, squares, weights) + 0.5 * float(b @ penalty), phi.T @ slope + penalty

    return minimize(objective, np.zeros(phi.shape[1]), jac=True, method="L-BFGS-B").x


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
            return _heavy(squares, weights)
        if len(squares) < 5 * FOLDS:
            return cls()
        gain, fold = 0.0, folds(len(squares))
        for k in range(FOLDS):
            rest, out = fold != k, fold == k
            seen = squares[rest], weights[rest]
            heavy, plain = _heavy(*seen), _plain(*seen)
            gain += plain.loss(squares[out], weights[out]) - heavy.loss(squares[out], weights[out])
        return _heavy(squares, weights) if gain > CLEAR else cls()

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


def _heavy(squares: Vector, weights: Vector) -> Tails:
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
