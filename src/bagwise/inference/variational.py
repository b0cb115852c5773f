"""Variational inference: the Gaussian of z, seen through the transport map, nearest the posterior.

    z = m + U ε,   ε ~ N(0, I);   m, U maximise  E[log p(y, z(ε))] + log det U        (the ELBO)

U is upper triangular, so that the weights, which come first in z, follow the scales, which come
last. Where there are many coordinates U has its diagonal and the columns of the scales only: the
covariance is diagonal but for what the scales have in common. Laplace's approximation is m = 0,
U = I, and is where the search begins.

The expectation is over a fixed set of ε, so it is an ordinary function, for L-BFGS with exact
gradients. The ε are quasi-random, in pairs that mirror each other, and have the second moments of
a standard normal to the last digit: where the posterior is Gaussian, so is the answer, exactly.

References
----------
Giordano, Ingram and Broderick (2024), Black box variational inference with a deterministic
objective: faster, more accurate, and even more black box.
Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work? Evaluating variational inference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.optimize import minimize
from scipy.special import ndtri
from scipy.stats import qmc

from bagwise._utils.work import Progress, one_thread, wanted
from bagwise.inference.density import Data, Model, Potential
from bagwise.inference.diagnostics import pareto_k

# Coordinates up to which all covariances are sought; beyond, U would have too many entries.
MAX_DENSE = 100

# Fewest pairs of ε. There are twice as many as coordinates, as a full U could otherwise follow the
# draws, and of many coordinates as many.
LEAST_PAIRS = 128

# The search ends where the ELBO's slope is less than this, per standard deviation of Laplace's.
SLOPE_TOLERANCE = 5e-3
MAX_STEPS = 300

# What the search takes a place for where the density cannot be computed.
NOWHERE = 1e10


# z (m, i) ↦ −log density (m,), up to a constant, and its gradients (m, i).
AnyPotential = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class Approximation:
    """The Gaussian N(m, U U^T) of z.

    Attributes
    ----------
    mean : (i,), m;  factor : (i, i), U
    """

    mean: Float64[np.ndarray, " i"]
    factor: Float64[np.ndarray, "i i"]

    def __call__(self, e: Float64[np.ndarray, "m i"]) -> Float64[np.ndarray, "m i"]:
        """Return z of standard normals."""
        return self.mean + e @ self.factor.T

    @property
    def log_det(self) -> float:
        """Log det U."""
        return float(np.sum(np.log(np.diag(self.factor))))

    def log_weights(
        self, potential: AnyPotential, e: Float64[np.ndarray, "m i"]
    ) -> Float64[np.ndarray, " m"]:
        """Return log p(y, z)/q(z) at draws z(e), up to the constant of p; their mean: ELBO."""
        log_q = -0.5 * np.sum(e**2 + np.log(2.0 * np.pi), axis=1) - self.log_det
        log_p = -potential(self(e))[0]
        return np.where(np.isnan(log_p), -np.inf, log_p) - log_q


def sample(
    model: Model, data: Data, e: Float64[np.ndarray, "m i"], n_scales: int
) -> tuple[Float64[np.ndarray, "m i"], float]:
    """Return the draws z(e) of the best Gaussian, and Pareto's k of their importance weights."""
    potential = Potential(model, data)
    with one_thread("blas"):
        found = approximate(potential, e.shape[1], n_scales)
        return found(e), pareto_k(found.log_weights(potential, e))


def approximate(potential: AnyPotential, size: int, n_scales: int) -> Approximation:
    """Find the Gaussian of the largest ELBO; the last ``n_scales`` coordinates are of scales."""
    free = _pattern(size, n_scales)
    e = quasi_normals(size)
    start = np.zeros(size + int(free.sum()))

    def unpack(theta: np.ndarray) -> Approximation:
        factor = np.zeros((size, size))
        factor[free] = theta[size:]
        np.fill_diagonal(factor, np.exp(np.diag(factor)))
        return Approximation(theta[:size], factor)

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        at = unpack(theta)
        values, slopes = potential(at(e))
        if not (np.isfinite(values).all() and np.isfinite(slopes).all()):
            return NOWHERE, np.zeros(len(theta))
        by_factor = slopes.T @ e / len(e)
        diagonal = np.diag(by_factor) * np.diag(at.factor) - 1.0  # the entries are logs
        np.fill_diagonal(by_factor, diagonal)
        gradient = np.concatenate([slopes.mean(axis=0), by_factor[free]])
        return float(values.mean()) - at.log_det, gradient

    with Progress("approximating", None, wanted()) as progress:
        found = minimize(
            loss,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=lambda _: progress.advance(),
            options={"gtol": SLOPE_TOLERANCE, "ftol": 0.0, "maxiter": MAX_STEPS, "maxcor": 20},
        )
    return unpack(found.x)


def _pattern(size: int, n_scales: int) -> Bool[np.ndarray, "i i"]:
    """Return which entries of U are sought."""
    free = np.triu(np.ones((size, size), dtype=bool))
    if size > MAX_DENSE:
        free[:, : size - n_scales] = False
        np.fill_diagonal(free, True)
    return free


def quasi_normals(size: int) -> Float64[np.ndarray, "m i"]:
    """Return quasi-random standard normals, each with its mirror image, of unit second moments.

    Examples
    --------
    >>> e = quasi_normals(3)
    >>> bool(np.allclose(e.mean(axis=0), 0.0)), bool(np.allclose(e.T @ e / len(e), np.eye(3)))
    (True, True)
    """
    wished = max(LEAST_PAIRS, 2 * min(size, MAX_DENSE), size)
    points = qmc.Sobol(size, seed=0).random_base2(int(np.ceil(np.log2(wished))))
    half = ndtri(np.clip(points, 1e-12, 1.0 - 1e-12))
    values, vectors = np.linalg.eigh(half.T @ half / len(half))
    half = half @ (vectors / np.sqrt(values)) @ vectors.T
    return np.concatenate([half, -half])
