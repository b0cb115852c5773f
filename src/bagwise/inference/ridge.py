"""Ridge regression, exactly and for all penalties at once, and Bayesian linear regression.

Minimise Σ_i w_i (y_i − x_i·β − f_i·γ)² + λ‖β‖². With Q an orthonormal basis of the columns √w F,
the rows X̃ = (I − QQ^T) √w X and ỹ likewise, and the spectrum X̃X̃^T = U diag(e) U^T,

    weights   β(λ) = X̃^T U diag(1/(e + λ)) U^T ỹ
    dual      a(λ) = U diag(1/(e + λ)) U^T ỹ        β = X^T √w a
    leverage  H = QQ^T + U diag(e/(e + λ)) U^T      leave-one-out residual (ỹ_i − ŷ_i)/(1 − H_ii)

The same spectrum comes from a Gram matrix in place of XX^T: kernel ridge regression.

What the fixed effects explain of X leaves rounding error behind, not zeros. A direction counts only
if its variance is a share of that *before* covariates are projected out, and penalties are shares
of that too: relative to what is left, rounding error would be the largest direction there is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.optimize import brentq, minimize_scalar

Vector = Float64[np.ndarray, " n"]
Effects = Float64[np.ndarray, "n r"]


# Share of the largest eigenvalue below which a direction counts as having no variance.
NO_VARIANCE = 1e-14

# Penalties tried, as shares of the largest eigenvalue: from none to where nothing is left.
PENALTY_SHARES = np.logspace(-12, 2, 113)

# Directions, or share of all, among which residuals have to be spread for their size to say
# something. In simulations (10 to 60 bags, 0.7 to 2 features per bag) this changes few choices.
# With noise of a fifth of the signal or more nearly all are for the better, and errors 5 % less on
# the whole; without noise some are for the worse, with no difference on the whole. A limit of 10
# and a half would gain 15 % with noise, and cost 50 % without.
ENOUGH_FREEDOM = 4.0
FREE_SHARE = 0.25

# Share of the leave-one-out error that features have to take for their penalty to be told by it;
# else they get one, as a share of the largest eigenvalue, that leaves nothing of them. An error as
# large with them as without is no reason for any slope, and the least penalty lets through the
# largest.
LEAST_GAIN = 0.005
# No bag, however heavy, has more of the say in that choice than one of so many equal ones.
LEAST_BAGS_ASKED = 4
NOTHING_LEFT = 1e12

# Half the width, in the log of a penalty, of what is searched again by the slope of the evidence.
NEAR = 1e-3

# What the fixed effects leave of a bag below which they determine it: its residual says nothing. A
# bag that outweighs all others a billion times is not among them.
DETERMINED = 1e-10
# Rounding error of 1 − H_ii, where features determine a bag.
ROUNDING = 1e-13

# Least noise variance, as a share of the variance of the labels: labels have finite digits.
MIN_NOISE = 1e-10

# Noise variances tried when the weight variance is given, as shares of that of the labels.
NOISE_SHARES = np.logspace(-10, 1, 89)

# How finely log λ is found.
LOG_TOLERANCE = 1e-10


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """Spectrum of a ridge problem after the fixed effects are projected out.

    Attributes
    ----------
    vectors : (n, k), U;  values : (k,), e, without the directions that are rounding error
    scale : largest eigenvalue before the covariates are projected out: of the intercept alone
    loadings : (k, d), U^T X̃, or None if the problem comes from a Gram matrix
    target : (n,), ỹ
    root_weights : (n,), √w
    effects : (n, r), √w F;  effects_basis : (n, r), Q
    raw_target : (n,), √w y
    """

    vectors: Float64[np.ndarray, "n k"]
    values: Float64[np.ndarray, " k"]
    scale: float
    loadings: Float64[np.ndarray, "k d"] | None
    target: Vector
    root_weights: Vector
    effects: Effects
    effects_basis: Effects
    raw_target: Vector

    @classmethod
    def from_features(
        cls,
        X: Float64[np.ndarray, "n d"],
        F: Effects,
        y: Vector,
        weights: Vector,
    ) -> RidgeProblem:
        """Set the problem up from features X, by one singular value decomposition."""
        root, Q, rest = _without_effects(F, y, weights)
        rows = _project_out(_unit(root), root[:, None] * X)
        scale = float(np.linalg.norm(rows, 2)) ** 2
        vectors, singular, right = np.linalg.svd(_project_out(Q, rows), full_matrices=False)
        real = singular**2 > NO_VARIANCE * scale
        return cls(
            vectors=_project_out(Q, vectors[:, real]),
            values=singular[real] ** 2,
            scale=scale,
            loadings=singular[real, None] * right[real],
            **rest,
        )

    @classmethod
    def from_gram(
        cls,
        K: Float64[np.ndarray, "n n"],
        F: Effects,
        y: Vector,
        weights: Vector,
    ) -> RidgeProblem:
        """Set the problem up from a Gram matrix K of the bags, by one eigendecomposition."""
        root, Q, rest = _without_effects(F, y, weights)
        whole = root[:, None] * K * root
        values, vectors = np.linalg.eigh(_project_twice(Q, whole))
        real = values > NO_VARIANCE * np.trace(whole)
        return cls(
            vectors=_project_out(Q, vectors[:, real]),
            values=values[real],
            scale=float(np.linalg.norm(_project_twice(_unit(root), whole), 2)),
            loadings=None,
            **rest,
        )

    def penalties(self) -> Float64[np.ndarray, " m"]:
        """Return the penalties worth trying: every order of magnitude of the spectrum."""
        return PENALTY_SHARES * (self.scale or 1.0)

    def _shrunk(self, penalty: float) -> Float64[np.ndarray, " k"]:
        return (self.vectors.T @ self.target) / (self.values + penalty)

    def beta(self, penalty: float) -> Float64[np.ndarray, " d"]:
        """Return β(λ); with no penalty, that of the least norm."""
        assert self.loadings is not None
        return self._shrunk(penalty) @ self.loadings

    def dual(self, penalty: float) -> Vector:
        """Return √w a(λ), the weights of the training bags in β = X^T √w a."""
        return self.root_weights * (self.vectors @ self._shrunk(penalty))

    def effects_for(self, fitted: Vector) -> Float64[np.ndarray, " r"]:
        """Return γ given the fitted values x_i·β: least squares of what is left on F."""
        rest = self.raw_target - self.root_weights * fitted
        return np.linalg.lstsq(self.effects, rest, rcond=None)[0]

    def leave_one_out(self, penalty: float) -> Vector:
        """Return the residuals √w (y_i − ŷ_i) of fits without bag i."""
        # Residual and 1 − H_ii as sums of what is left, not as differences of what is fitted: with
        # as many features as bags both vanish with the penalty, and their quotient does not.
        vectors, left = self.vectors, penalty / (self.values + penalty)
        coordinates = vectors.T @ self.target
        residual = self.target - vectors @ coordinates + vectors @ (left * coordinates)
        free = 1.0 - np.sum(self.effects_basis**2, axis=1)
        outside = free - np.sum(vectors**2, axis=1)
        slack = np.where(outside > ROUNDING, outside, 0.0) + vectors**2 @ left
        said = free > DETERMINED
        return np.divide(residual, slack, out=np.zeros_like(residual), where=said & (slack > 0))

    def leave_one_out_mse(self, penalty: float) -> float:
        """Return the weighted mean square of the residuals of fits without bag i."""
        return float(np.sum(self.leave_one_out(penalty) ** 2) / np.sum(self.root_weights**2))

    def choice_error(self, penalty: float) -> float:
        """Return the mean square by which fits are compared: no bag has more than a quarter of it.

        It is the one above unless a bag has more of the weight than that: the fits without one
        single bag would then decide, and it says nothing of how they are for all others.
        """
        weights = self.root_weights**2
        say = _limited(weights)
        shares = np.divide(say, weights, out=np.zeros_like(say), where=weights > 0)
        return float(np.sum(shares * self.leave_one_out(penalty) ** 2) / np.sum(say))

    def freedom(self, penalty: float) -> float:
        """Return among how many directions residuals are spread, (Σ l)²/Σ l² with l = λ/(e + λ).

        With as many features as bags and next to no penalty, all that is left lies in the direction
        of least variance. One number, what the labels are there, then decides the leave-one-out
        errors of all bags, and may be small by chance.
        """
        left = penalty / (self.values + penalty)
        rest = self._n_free - len(left)  # directions without variance, where nothing is fitted
        return float((left.sum() + rest) ** 2 / (left @ left + rest))

    @property
    def _n_free(self) -> int:
        """Number of bags that count, less that of the fixed effects."""
        return int(np.count_nonzero(self.root_weights)) - self.effects_basis.shape[1]

    def best_penalty(self) -> float:
        """Return the penalty with the least leave-one-out error, where that says something."""
        enough = min(ENOUGH_FREEDOM, FREE_SHARE * self._n_free)
        told = [penalty for penalty in self.penalties() if self.freedom(penalty) >= enough]
        best = float(min(told, key=self.choice_error))
        without = NOTHING_LEFT * (self.scale or 1.0)
        # As weighed, and as bags: one that outweighs all others, and is unlike them, gains nothing
        # by a slope, but they do, as it leaves the intercept to them.
        gained = all(
            error(best) < (1.0 - LEAST_GAIN) * error(without)
            for error in (self.choice_error, self.leave_one_out_mse)
        )
        return best if gained else without


def _limited(weights: Vector) -> Vector:
    """Return the weights cut off where the largest have no more than their share of what is left.

    Examples
    --------
    >>> _limited(np.array([1.0, 1e9, 1.0, 1.0, 2.0]))
    array([1. , 1.5, 1. , 1. , 1.5])
    """
    falling = np.sort(weights[weights > 0])[::-1]
    for k in range(min(LEAST_BAGS_ASKED, len(falling))):  # the largest k are cut off
        cut = falling[k:].sum() / (LEAST_BAGS_ASKED - k)
        if falling[k] <= cut:
            return np.minimum(weights, cut)
    return np.minimum(weights, falling[-1])  # so few that they count alike


def _without_effects(
    F: Effects, y: Vector, weights: Vector
) -> tuple[Vector, Effects, dict[str, np.ndarray]]:
    """Return √w, Q, and the fields of a problem that do not depend on the features."""
    root = np.sqrt(weights)
    effects = root[:, None] * F
    Q = np.linalg.qr(effects)[0]
    labels = {"target": _project_out(Q, root * y), "raw_target": root * y}
    return root, Q, {"root_weights": root, "effects": effects, "effects_basis": Q, **labels}


def _unit(root: Vector) -> Float64[np.ndarray, "n 1"]:
    """Return the direction of the intercept."""
    return (root / np.linalg.norm(root))[:, None]


def _project_twice(Q: Effects, gram: Float64[np.ndarray, "n n"]) -> np.ndarray:
    return _project_out(Q, _project_out(Q, gram).T)


def _project_out(Q: Effects, rows: np.ndarray) -> np.ndarray:
    return rows - Q @ (Q.T @ rows)


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

    y_i ~ N(x_i·β + f_i·γ, σ²/w_i), β ~ N(0, ρ²I), γ flat. With c = U^T ỹ, n' = n − r degrees of
    freedom (n counts the bags whose weight is not 0) and λ = σ²/ρ², the (restricted) evidence is,
    with σ² at its best, a function of one variable:

    σ²(λ) = (‖ỹ‖² − Σ_k c_k² e_k/(e_k + λ)) / n'
    −2 log p(y | λ) = n' log σ²(λ) + Σ_k log(1 + e_k/λ) + constant

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
    return evidence_at(problem, float(np.exp(_refined(problem, found.x, weight_var))), weight_var)


def _refined(problem: RidgeProblem, log: float, weight_var: float | None) -> float:
    """Return the place where the slope of the loss is 0, if it is near.

    A minimum is known to half the digits only, as the loss is flat there; its slope is not.
    """

    def slope(log: float) -> float:
        return evidence_slope(problem, float(np.exp(log)), weight_var)

    low, high = log - NEAR, log + NEAR
    if not slope(low) < 0.0 < slope(high):  # at the edge of what is tried
        return log
    return float(brentq(slope, low, high, xtol=1e-15))


def evidence_slope(problem: RidgeProblem, penalty: float, weight_var: float | None = None) -> float:
    """Return the derivative, in the log of the penalty, of 2n times the loss.

    misfit' = Σ c² λ v/(v + λ)²,  (Σ log(1 + v/λ))' = −Σ v/(v + λ)
    """
    evidence, values = evidence_at(problem, penalty, weight_var), problem.values
    coordinates = problem.vectors.T @ problem.target
    n_bags = int(np.count_nonzero(problem.root_weights))
    freedom = max(n_bags - problem.effects.shape[1], 1)
    kept = values / (values + penalty)
    slope = np.sum(coordinates**2 * kept * penalty / (values + penalty)) / evidence.noise_var
    if weight_var is not None:  # σ² = λρ² moves too
        outside = np.sum((problem.target - problem.vectors @ coordinates) ** 2)
        misfit = np.sum(coordinates**2 * penalty / (values + penalty)) + outside
        slope += freedom - misfit / evidence.noise_var
    return float(slope - np.sum(kept))


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
