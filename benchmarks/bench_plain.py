"""The shrinkage objective as the paper writes it, with R + Σ/N_i factorised for every bag.

What the benchmark compares the diagonal coordinates with, and an oracle for value and gradient:
nothing here comes from :mod:`bagwise.embedding` or :mod:`bagwise.inference`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cho_factor, cho_solve, solve_triangular

Vector = Float64[np.ndarray, " n"]
Matrix = Float64[np.ndarray, "d d"]
Sides = Float64[np.ndarray, "n d 2"]
Solver = Callable[[Matrix, Matrix, Vector, Sides], Sides]


def cholesky_per_bag(R: Matrix, within_cov: Matrix, sizes: Vector, sides: Sides) -> Sides:
    """Solve (R + Σ/N_i) x = side_i with one Cholesky factorisation per bag."""
    solved = np.empty_like(sides)
    for i, size in enumerate(sizes):
        factor = cho_factor(R + within_cov / size, lower=True, overwrite_a=True, check_finite=False)
        solved[i] = cho_solve(factor, sides[i], check_finite=False)
    return solved


def batched_cholesky(R: Matrix, within_cov: Matrix, sizes: Vector, sides: Sides) -> Sides:
    """Solve the same with all bags' factorisations in one call of NumPy's."""
    factors = np.linalg.cholesky(R + within_cov / sizes[:, None, None])
    solved = np.empty_like(sides)
    for i, factor in enumerate(factors):
        half = solve_triangular(factor, sides[i], lower=True, check_finite=False)
        solved[i] = solve_triangular(factor, half, lower=True, trans="T", check_finite=False)
    return solved


def cholesky_per_size(R: Matrix, within_cov: Matrix, sizes: Vector, sides: Sides) -> Sides:
    """Solve the same with one factorisation per distinct size: no help if all bags differ."""
    solved = np.empty_like(sides)
    for size in np.unique(sizes):
        bags = sizes == size
        factor = cho_factor(R + within_cov / size, lower=True, check_finite=False)
        columns = sides[bags].transpose(1, 0, 2).reshape(len(R), -1)
        answer = cho_solve(factor, columns, check_finite=False)
        solved[bags] = answer.reshape(len(R), -1, 2).transpose(1, 0, 2)
    return solved


@dataclass(frozen=True, eq=False)
class PlainObjective:
    """J = ½ Σ_i {log ν_i + (y_i − ξ_i)²/ν_i} + α^T K α/2ρ² + priors on log σ², log η, for z = u.

    With R = ηK, A_i = R + Σ/N_i, c_i = A_i^-1 (μ̂_i − m0) and v_i = A_i^-1 Rα

        ξ_i = α^T R c_i + α·m0 + b                 ν_i = α^T Rα − (Rα)·v_i + σ²
        ∂ξ_i/∂α = R c_i + m0                       ∂ν_i/∂α = 2R (α − v_i)
        ∂ξ_i/∂log η = (Rα − R v_i)·c_i             ∂ν_i/∂log η = (α − v_i)^T R (α − v_i)

    Attributes
    ----------
    mean : (n, d), μ̂;  sizes, labels : (n,)
    within_cov : (d, d), Σ;  gram : (d, d), K
    weight_var : ρ²
    prior_logs, prior_sd : centres (2,) and standard deviation of the priors on log σ², log η
    least_noise : variance added to σ²
    solve : how the n systems are solved

    Reference
    ---------
    Law et al. (2018), sections 3 and 4.
    """

    mean: Float64[np.ndarray, "n d"]
    sizes: Vector
    labels: Vector
    within_cov: Matrix
    gram: Matrix
    weight_var: float
    prior_logs: Float64[np.ndarray, "2"]
    prior_sd: float
    least_noise: float = 0.0
    solve: Solver = cholesky_per_bag

    def __call__(
        self, alpha: Float64[np.ndarray, " d"], intercept: float, logs: Float64[np.ndarray, "2"]
    ) -> tuple[float, Float64[np.ndarray, " k"]]:
        """Return J and its gradient in (α, b, log σ², log η)."""
        m0, (noise, eta) = self.mean.mean(axis=0), np.exp(logs)
        R = eta * self.gram
        pull = R @ alpha
        sides = np.stack([self.mean - m0, np.broadcast_to(pull, self.mean.shape)], axis=2)
        solved = self.solve(R, self.within_cov, self.sizes, sides)
        c, rest = solved[:, :, 0], alpha - solved[:, :, 1]
        R_rest = rest @ R
        residual = self.labels - (c @ pull + alpha @ m0 + intercept)
        var = alpha @ pull - solved[:, :, 1] @ pull + noise + self.least_noise
        by_mean = -residual / var
        by_var = 0.5 * (1.0 / var - residual**2 / var**2)
        away = (logs - self.prior_logs) / self.prior_sd
        norm = self.gram @ alpha / self.weight_var
        value = 0.5 * np.sum(np.log(var) + residual**2 / var)
        value += 0.5 * (alpha @ norm + away @ away)
        by_alpha = R @ (c.T @ by_mean) + m0 * by_mean.sum() + 2.0 * R_rest.T @ by_var + norm
        by_noise = noise * by_var.sum() + away[0] / self.prior_sd
        by_eta = by_mean @ np.sum(R_rest * c, axis=1) + by_var @ np.sum(R_rest * rest, axis=1)
        by_eta += away[1] / self.prior_sd
        return float(value), np.concatenate([by_alpha, [by_mean.sum(), by_noise, by_eta]])


@dataclass(frozen=True, eq=False)
class Whitened:
    """A plain objective in the library's coordinates θ = (w, γ, log σ², log η).

    α = T w and b = sγ − α·m0, with s = ±1 the intercept's column. Optimisers need far fewer
    steps in these coordinates than in α, so this is the kinder comparison.
    """

    plain: PlainObjective
    weight_map: Float64[np.ndarray, "d q"]
    sign: float

    def __call__(self, theta: Float64[np.ndarray, " k"]) -> tuple[float, Float64[np.ndarray, " k"]]:
        """Return J and its gradient in θ."""
        q, m0 = self.weight_map.shape[1], self.plain.mean.mean(axis=0)
        alpha = self.weight_map @ theta[:q]
        value, slopes = self.plain(alpha, self.sign * theta[q] - alpha @ m0, theta[q + 1 :])
        d = len(alpha)
        by_w = self.weight_map.T @ (slopes[:d] - slopes[d] * m0)
        return value, np.concatenate([by_w, [self.sign * slopes[d]], slopes[d + 1 :]])
