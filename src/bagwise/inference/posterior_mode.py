"""The MAP of the shrinkage model: objective, gradient, Fisher information and evidence.

y_i ~ N(ξ_i, ν_i) with the parts of :mod:`bagwise.shrinkage` and σ² the noise:

    ξ_i = f_i·γ + Σ_k ηNκ_k t_ik h_k         ν_i = Σ_k ηλ_kκ_k g_k² + η w^T S w + σ²
    J = ½ Σ_i {log ν_i + (y_i − ξ_i)²/ν_i} + ‖w‖²/2ρ² + weak priors on log σ², log η, log ℓ

The parameters are θ = (w, γ, log σ², log η[, log ℓ]). The Fisher information, positive definite
everywhere, takes the Hessian's place: J_ξ^T diag(1/ν) J_ξ + J_ν^T diag(1/2ν²) J_ν + prior.
When ℓ moves, so do R and its basis. The derivatives are those of (R + Σ/N)^-1, written in the
basis; eigenvectors are never differentiated.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from jaxtyping import Float64
from scipy.optimize import minimize

from bagwise.shrinkage import BasisSlope, ShrinkageBasis

Vector = Float64[np.ndarray, " n"]

# Standard deviation of the log-normal priors on σ², η and ℓ²: a factor of e^4 up or down is not
# surprising. They keep the optimum finite where the data say nothing, as on η if all bags are large.
LOG_SCALE_SD = 4.0

# Noise at the start, as a share of the variance of the (standardised) labels.
START_NOISE = 0.5

# The weight variance is sought in this range (labels standardised) and to this precision in logs.
WEIGHT_VAR_RANGE = (1e-4, 1e6)
LOG_WEIGHT_VAR_TOLERANCE = 0.02
MAX_ROUNDS = 50

GRADIENT_TOLERANCE = 1e-7
MAX_STEPS = 500


class BasisFamily(Protocol):
    """Bases as a function of log ℓ; a family without ℓ has one member."""

    @property
    def start_length(self) -> float | None:
        """Where to start ℓ, or None if there is none."""
        ...

    def at(self, log_length: float | None) -> tuple[ShrinkageBasis, Float64[np.ndarray, "n d"]]:
        """Return the basis and the projected bags t."""
        ...

    def slope(self, log_length: float) -> BasisSlope:
        """Return the derivative of r in log ℓ, in the basis there."""
        ...


@dataclass(frozen=True, eq=False)
class ShrinkageProblem:
    """Data of one fit: bags in a basis family, labels, fixed effects, weights of bags.

    Attributes
    ----------
    family : BasisFamily
    sizes : (m,) distinct sizes;  size_of : (n,) position of each bag's size among them
    labels : (n,), standardised
    effects : (n, r), F
    sample_weight : (n,), mean 1
    """

    family: BasisFamily
    sizes: Float64[np.ndarray, " m"]
    size_of: np.ndarray
    labels: Vector
    effects: Float64[np.ndarray, "n r"]
    sample_weight: Vector

    @property
    def n_scales(self) -> int:
        """Number of scale parameters at the end of θ."""
        return 2 if self.family.start_length is None else 3

    def start(self) -> Float64[np.ndarray, " k"]:
        """Return θ of the constant function, with a bag of median size halfway shrunk."""
        length = self.family.start_length
        basis, _ = self.family.at(None if length is None else np.log(length))
        seen = basis.spectrum[basis.spectrum > 0]
        typical = float(np.exp(np.mean(np.log(seen)))) if len(seen) else 1.0
        median = float(np.median(self.sizes[self.size_of]))
        scales = [np.log(START_NOISE), -np.log(typical * median)]
        scales += [] if length is None else [np.log(length)]
        n_weights = basis.mean_map.shape[1] + self.effects.shape[1]
        return np.concatenate([np.zeros(n_weights), scales])


@dataclass(frozen=True, eq=False)
class Evaluation:
    """J, its gradient and the Fisher information at one θ."""

    value: float
    gradient: Float64[np.ndarray, " k"]
    fisher: Float64[np.ndarray, "k k"]


class Objective:
    """J(θ) for one weight variance ρ²; remembers the last θ, which optimisers ask for thrice."""

    def __init__(self, problem: ShrinkageProblem, weight_var: float) -> None:
        self.problem = problem
        self.weight_var = weight_var
        self.center = problem.start()[-problem.n_scales :]
        self._theta: np.ndarray | None = None

    def __call__(self, theta: Float64[np.ndarray, " k"]) -> Evaluation:
        """Evaluate at θ."""
        if self._theta is None or not np.array_equal(theta, self._theta):
            self._theta, self._evaluation = theta.copy(), self._evaluate(theta)
        return self._evaluation

    def _evaluate(self, theta: Float64[np.ndarray, " k"]) -> Evaluation:
        problem = self.problem
        scales = theta[-problem.n_scales :]
        mean, d_mean, var, d_var = self._moments(theta)
        n_weights = len(theta) - problem.n_scales - problem.effects.shape[1]
        weight, residual = problem.sample_weight, problem.labels - mean
        value = 0.5 * np.sum(weight * (np.log(var) + residual**2 / var))
        gradient = d_mean.T @ (-weight * residual / var)
        gradient += d_var.T @ (0.5 * weight * (1.0 / var - residual**2 / var**2))
        fisher = (d_mean * (weight / var)[:, None]).T @ d_mean
        fisher += (d_var * (0.5 * weight / var**2)[:, None]).T @ d_var
        # priors
        precision = np.zeros(len(theta))
        precision[:n_weights] = 1.0 / self.weight_var
        precision[-problem.n_scales :] = 1.0 / LOG_SCALE_SD**2
        away = theta.copy()
        away[-problem.n_scales :] = scales - self.center
        value += 0.5 * np.sum(precision * away**2)
        gradient += precision * away
        fisher[np.diag_indices(len(theta))] += precision
        return Evaluation(float(value), gradient, fisher)

    def _moments(self, theta: Float64[np.ndarray, " k"]) -> tuple[np.ndarray, ...]:
        """Return ξ (n,), ∂ξ/∂θ (n, k), ν (n,), ∂ν/∂θ (n, k)."""
        problem = self.problem
        length = theta[-1] if problem.n_scales == 3 else None
        basis, t = problem.family.at(length)
        q = basis.mean_map.shape[1]
        w, gamma = theta[:q], theta[q : -problem.n_scales]
        noise, eta = np.exp(theta[len(theta) - problem.n_scales :][:2])
        kappa = basis.slack(problem.sizes, eta)
        h, g = basis.mean_map @ w, basis.spread_map @ w
        gain = eta * problem.sizes[:, None] * kappa  # ηNκ
        left = eta * basis.spectrum * kappa  # ηλκ
        of = problem.size_of
        shrunk = t * gain[of]
        d_mean = np.zeros((len(t), len(theta)))
        d_var = np.zeros((len(problem.sizes), len(theta)))
        d_mean[:, :q] = shrunk @ basis.mean_map
        d_mean[:, q : q + len(gamma)] = problem.effects
        mean = d_mean[:, : q + len(gamma)] @ theta[: q + len(gamma)]
        unseen = eta * basis.unseen_variance(w)
        var = left @ g**2 + unseen + noise
        d_var[:, :q] = 2.0 * (left * g) @ basis.spread_map
        if basis.unseen is not None:
            d_var[:, :q] += 2.0 * eta * basis.unseen @ w
        at_noise = len(theta) - problem.n_scales
        d_var[:, at_noise] = noise
        d_mean[:, at_noise + 1] = np.sum(t * ((gain * kappa) * h)[of], axis=1)
        d_var[:, at_noise + 1] = (left * kappa) @ g**2 + unseen
        if length is not None:
            slope = problem.family.slope(length)
            pull = slope.uz @ w - ((1.0 - kappa) * g) @ slope.uu
            d_mean[:, -1] = np.sum(t * (gain * pull)[of], axis=1)
            shrunk_g = (1.0 - kappa) * g
            d_var[:, -1] = eta * (
                w @ slope.zz @ w
                - 2.0 * shrunk_g @ (slope.uz @ w)
                + np.sum((shrunk_g @ slope.uu) * shrunk_g, axis=1)
            )
        return mean, d_mean, var[of], d_var[of]


@dataclass(frozen=True, eq=False)
class Mode:
    """The optimum: θ, ρ², the loss (−log evidence per bag, up to a constant) and how it went."""

    theta: Float64[np.ndarray, " k"]
    weight_var: float
    value: float
    loss: float
    gradient_norm: float
    n_steps: int
    converged: bool


def find_mode(
    problem: ShrinkageProblem, weight_var: float, start: Float64[np.ndarray, " k"] | None = None
) -> Mode:
    """Minimise J at one weight variance, by trust-region Fisher scoring."""
    objective = Objective(problem, weight_var)
    start = problem.start() if start is None else start
    found = minimize(
        lambda theta: objective(theta).value,
        start,
        jac=lambda theta: objective(theta).gradient,
        hess=lambda theta: objective(theta).fisher,
        method="trust-exact",
        options={"gtol": GRADIENT_TOLERANCE * len(problem.labels), "maxiter": MAX_STEPS},
    )
    at = objective(found.x)
    n_weights = len(found.x) - problem.n_scales - problem.effects.shape[1]
    _, log_det = np.linalg.slogdet(at.fisher)
    loss = at.value + 0.5 * log_det + 0.5 * n_weights * np.log(weight_var)
    norm = float(np.linalg.norm(at.gradient))
    return Mode(
        theta=found.x,
        weight_var=weight_var,
        value=at.value,
        loss=float(loss) / len(problem.labels),
        gradient_norm=norm,
        n_steps=int(found.nit),
        converged=bool(norm <= 10 * GRADIENT_TOLERANCE * len(problem.labels)),
    )


def find_mode_by_evidence(problem: ShrinkageProblem, start: float = 1.0) -> Mode:
    """Choose ρ² by the Laplace evidence, in MacKay's fixed-point form, and return the mode there.

    ρ² ← ‖w‖²/(q − tr(A_ww)/ρ²) with A the inverse of the Fisher information: the weights' size,
    over the number of them that the data determine.

    References
    ----------
    MacKay (1992), Bayesian interpolation.
    """
    weight_var, theta, steps = start, None, 0
    for _ in range(MAX_ROUNDS):
        mode = find_mode(problem, weight_var, theta)
        theta, steps = mode.theta, steps + mode.n_steps
        fisher = Objective(problem, weight_var)(theta).fisher
        q = len(theta) - problem.n_scales - problem.effects.shape[1]
        determined = q - np.trace(np.linalg.inv(fisher)[:q, :q]) / weight_var
        update = float(np.clip(theta[:q] @ theta[:q] / max(determined, 1e-3), *WEIGHT_VAR_RANGE))
        if abs(np.log(update / weight_var)) < LOG_WEIGHT_VAR_TOLERANCE:
            break
        weight_var = update
    return replace(mode, n_steps=steps)
