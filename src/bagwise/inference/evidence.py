"""Bayesian linear regression with its two variances chosen by maximising the evidence.

y_i ~ N(x_i·β + f_i·γ, σ²/w_i), β ~ N(0, ρ²I), γ flat. With the spectrum e, U and the target ỹ of
the ridge problem, c = U^T ỹ, n' = n − r degrees of freedom (n counts the bags whose weight is not
0) and λ = σ²/ρ², the (restricted) evidence is, with σ² at its best,

    σ²(λ) = (‖ỹ‖² − Σ_k c_k² e_k/(e_k + λ)) / n'
    −2 log p(y | λ) = n' log σ²(λ) + Σ_k log(1 + e_k/λ) + constant

a function of one variable.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize_scalar

from bagwise.inference.ridge import RidgeProblem

# Least noise variance, as a share of the variance of the labels: labels have finite digits.
MIN_NOISE = 1e-10

# Noise variances tried when the weight variance is given, as shares of that of the labels.
NOISE_SHARES = np.logspace(-10, 1, 89)

# How finely log λ is found.
LOG_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class Evidence:
    """The variances at the evidence's maximum.

    Attributes
    ----------
    penalty : λ = σ²/ρ²
    noise_var : σ²
    loss : −log evidence per bag, up to a constant that depends on the labels only
    """

    penalty: float
    noise_var: float
    loss: float

    @property
    def weight_var(self) -> float:
        """Variance ρ² of the weights."""
        return self.noise_var / self.penalty


def maximise_evidence(problem: RidgeProblem, weight_var: float | None = None) -> Evidence:
    """Find the penalty with the largest evidence: on a grid, then exactly.

    Parameters
    ----------
    problem : RidgeProblem
    weight_var : ρ² if it is given, so that only σ² = λρ² is sought

    Examples
    --------
    >>> x = np.linspace(-1, 1, 50)[:, None]
    >>> y = 2 * x[:, 0] + 0.1 * np.cos(40 * x[:, 0])
    >>> problem = RidgeProblem.from_features(x, np.ones((50, 1)), y, np.ones(50))
    >>> round(maximise_evidence(problem).noise_var, 3)
    0.005
    """
    if weight_var is None:
        logs = np.log(problem.penalties())
    else:
        logs = np.log(_label_var(problem) * NOISE_SHARES / weight_var)

    def loss(log: float) -> float:
        return evidence_at(problem, float(np.exp(log)), weight_var).loss

    best = int(np.argmin([loss(log) for log in logs]))
    found = minimize_scalar(
        loss,
        bounds=(logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]),
        method="bounded",
        options={"xatol": LOG_TOLERANCE},
    )
    return evidence_at(problem, float(np.exp(found.x)), weight_var)


def evidence_at(problem: RidgeProblem, penalty: float, weight_var: float | None = None) -> Evidence:
    """Return σ² and the loss at one penalty; σ² = λρ² if ρ² is given, else its best value."""
    values, target = problem.values, problem.target
    coordinates = problem.vectors.T @ target
    n_bags = int(np.count_nonzero(problem.root_weights))
    freedom = max(n_bags - problem.effects.shape[1], 1)
    # The residual in two sums of squares, neither of which can be negative.
    inside = np.sum(coordinates**2 * penalty / (values + penalty))
    outside = np.sum((target - problem.vectors @ coordinates) ** 2)
    misfit = float(inside + outside)
    if weight_var is None:
        noise_var = max(misfit / freedom, MIN_NOISE * _label_var(problem))
    else:
        noise_var = penalty * weight_var
    loss = freedom * np.log(noise_var) + misfit / noise_var + np.sum(np.log1p(values / penalty))
    return Evidence(float(penalty), noise_var, float(loss) / (2 * n_bags))


def _label_var(problem: RidgeProblem) -> float:
    """Return the variance of the labels about the fixed effects, or 1 if they explain all."""
    return float(np.mean(problem.target**2)) or 1.0


@dataclass(frozen=True, eq=False)
class WeightPosterior:
    """Posterior covariance of (β, γ), as a variance of predictions.

    var(x·β + f·γ) = σ² { x̄^T (X̃^T X̃ + λI)^-1 x̄ + f^T (F^T w F)^-1 f },   x̄ = x − B^T f

    with B the coefficients of the training features on the fixed effects.

    Attributes
    ----------
    factor : (d, d), a square root of σ² (X̃^T X̃ + λI)^-1
    effects_factor : (r, r), a square root of σ² (F^T w F)^-1
    adjustment : (r, d), B
    """

    factor: Float64[np.ndarray, "d d"]
    effects_factor: Float64[np.ndarray, "r r"]
    adjustment: Float64[np.ndarray, "r d"]

    @classmethod
    def of(
        cls, problem: RidgeProblem, evidence: Evidence, X: Float64[np.ndarray, "n d"]
    ) -> WeightPosterior:
        """Compute the posterior for features X of the training bags."""
        rows = problem.root_weights[:, None] * X
        adjustment = np.linalg.lstsq(problem.effects, rows, rcond=None)[0]
        centred = rows - problem.effects @ adjustment
        values, vectors = np.linalg.eigh(centred.T @ centred)
        scale = np.sqrt(evidence.noise_var / (np.maximum(values, 0.0) + evidence.penalty))
        triangle = np.linalg.qr(problem.effects, mode="r")
        effects_factor = np.linalg.inv(triangle) * np.sqrt(evidence.noise_var)
        return cls(vectors * scale, effects_factor, adjustment)

    def variance(
        self, X: Float64[np.ndarray, "m d"], F: Float64[np.ndarray, "m r"]
    ) -> Float64[np.ndarray, " m"]:
        """Return the variance of the prediction due to the weights."""
        rows = (X - F @ self.adjustment) @ self.factor
        return np.sum(rows**2, axis=1) + np.sum((F @ self.effects_factor) ** 2, axis=1)
