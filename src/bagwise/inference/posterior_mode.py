"""The mode of the shrinkage model's posterior (MAP), and the weight variance by its evidence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64
from scipy.linalg import pinvh
from scipy.optimize import minimize

from bagwise.exceptions import BagwiseWarning
from bagwise.inference.shrinkage_objective import Objective, ShrinkageProblem

# The weight variance is sought in this range (labels standardised) and to this precision in logs.
WEIGHT_VAR_RANGE = (1e-4, 1e6)
LOG_WEIGHT_VAR_TOLERANCE = 0.02
MAX_ROUNDS = 50

# Norm of the gradient at which the mode is found, per bag.
GRADIENT_TOLERANCE = 1e-8

# Log density that may be missing at the end before we warn. Unlike the gradient, which is steep
# where labels leave almost no noise, it does not depend on the scale of the parameters.
SHORTFALL_WARNING = 0.1
MAX_STEPS = 500


@dataclass(frozen=True, eq=False)
class Mode:
    """The optimum and how it was found.

    Attributes
    ----------
    theta : (k,), (w, γ, log σ², log η[, log ℓ])
    weight_var : ρ²
    value : J at the optimum
    loss : −log evidence per bag, up to a constant that depends on the labels only
    gradient_norm, n_steps : of the optimisation
    shortfall : ½ g^T F^+ g, the log density by which the optimum is missed, but for directions of
        which the labels say nothing
    """

    theta: Float64[np.ndarray, " k"]
    weight_var: float
    value: float
    loss: float
    gradient_norm: float
    n_steps: int
    shortfall: float


def find_mode(
    problem: ShrinkageProblem, weight_var: float, start: Float64[np.ndarray, " k"] | None = None
) -> Mode:
    """Minimise J at one weight variance, by a trust-region Newton method.

    The loss is Laplace's approximation to −log p(y | ρ²), with the Fisher information in place of
    the Hessian: J + ½ log det F + ½ q log ρ².
    """
    objective = Objective(problem, weight_var)
    found = minimize(
        lambda theta: objective(theta).value,
        problem.start if start is None else start,
        jac=lambda theta: objective(theta).gradient,
        hess=objective.hessian,
        method="trust-exact",
        options={"gtol": GRADIENT_TOLERANCE * len(problem.labels), "maxiter": MAX_STEPS},
    )
    at = objective(found.x)
    n_weights = len(problem.split(found.x)[0])
    loss = at.value + 0.5 * np.linalg.slogdet(at.fisher)[1] + 0.5 * n_weights * np.log(weight_var)
    return Mode(
        theta=found.x,
        weight_var=weight_var,
        value=at.value,
        # Where the information is singular there is no evidence to prefer these features for.
        loss=float(loss) / len(problem.labels) if np.isfinite(loss) else np.inf,
        gradient_norm=float(np.linalg.norm(at.gradient)),
        n_steps=int(found.nit),
        shortfall=0.5 * float(at.gradient @ pinvh(at.fisher) @ at.gradient),
    )


def find_mode_by_evidence(problem: ShrinkageProblem, start: float = 1.0) -> Mode:
    """Choose ρ² by the evidence, in MacKay's fixed-point form, and return the mode there.

    ρ² ← ‖w‖²/(q − tr(A_ww)/ρ²) with A the inverse of the Fisher information: the size of the
    weights over the number of them that the data determine.

    References
    ----------
    MacKay (1992), Bayesian interpolation.
    """
    mode = find_mode(problem, start)
    steps = mode.n_steps
    for _ in range(MAX_ROUNDS):
        weight_var = _updated_weight_var(problem, mode)
        if abs(np.log(weight_var / mode.weight_var)) < LOG_WEIGHT_VAR_TOLERANCE:
            break
        mode = find_mode(problem, weight_var, mode.theta)
        steps += mode.n_steps
    return replace(mode, n_steps=steps)


def _updated_weight_var(problem: ShrinkageProblem, mode: Mode) -> float:
    w, _, _ = problem.split(mode.theta)
    fisher = Objective(problem, mode.weight_var)(mode.theta).fisher
    spread = np.trace(_inverse(fisher)[: len(w), : len(w)])
    determined = max(len(w) - spread / mode.weight_var, 1e-3)
    return float(np.clip(w @ w / determined, *WEIGHT_VAR_RANGE))


def _inverse(fisher: Float64[np.ndarray, "k k"]) -> Float64[np.ndarray, "k k"]:
    """Return F^-1; without the directions of which labels say nothing, if there are such."""
    try:
        return np.linalg.inv(fisher)
    except np.linalg.LinAlgError:
        return pinvh(fisher)


def warn_if_unfinished(mode: Mode) -> None:
    """Warn in plain language if the optimisation stopped short of the mode."""
    if mode.shortfall > SHORTFALL_WARNING:
        warnings.warn(
            f"the fit stopped after {mode.n_steps} steps before it had converged (log density "
            f"{mode.shortfall:.1e} short). Its predictions can be used, but a smaller "
            "bandwidth, fewer landmarks or a larger covariance_floor fit more cleanly.",
            BagwiseWarning,
            stacklevel=2,
        )
