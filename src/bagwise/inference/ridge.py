"""Ridge regression, exactly and for all penalties at once, with unpenalised fixed effects.

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

Vector = Float64[np.ndarray, " n"]

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

# Residuals of a bag that the fixed effects determine say nothing; 1 − H_ii is kept above this,
# which is less than the least penalty leaves to any other bag.
MIN_SLACK = 1e-13


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
    effects: Float64[np.ndarray, "n r"]
    effects_basis: Float64[np.ndarray, "n r"]
    raw_target: Vector

    @classmethod
    def from_features(
        cls,
        X: Float64[np.ndarray, "n d"],
        F: Float64[np.ndarray, "n r"],
        y: Vector,
        weights: Vector,
    ) -> RidgeProblem:
        """Set the problem up from features X, by one singular value decomposition."""
        root = np.sqrt(weights)
        effects, Q = _effects(F, root)
        rows = _project_out(_unit(root), root[:, None] * X)
        scale = float(np.linalg.norm(rows, 2)) ** 2
        vectors, singular, right = np.linalg.svd(_project_out(Q, rows), full_matrices=False)
        real = singular**2 > NO_VARIANCE * scale
        return cls(
            vectors=_project_out(Q, vectors[:, real]),
            values=singular[real] ** 2,
            scale=scale,
            loadings=singular[real, None] * right[real],
            target=_project_out(Q, root * y),
            root_weights=root,
            effects=effects,
            effects_basis=Q,
            raw_target=root * y,
        )

    @classmethod
    def from_gram(
        cls,
        K: Float64[np.ndarray, "n n"],
        F: Float64[np.ndarray, "n r"],
        y: Vector,
        weights: Vector,
    ) -> RidgeProblem:
        """Set the problem up from a Gram matrix K of the bags, by one eigendecomposition."""
        root = np.sqrt(weights)
        effects, Q = _effects(F, root)
        whole = root[:, None] * K * root
        values, vectors = np.linalg.eigh(_project_twice(Q, whole))
        real = values > NO_VARIANCE * np.trace(whole)
        return cls(
            vectors=_project_out(Q, vectors[:, real]),
            values=values[real],
            scale=float(np.linalg.norm(_project_twice(_unit(root), whole), 2)),
            loadings=None,
            target=_project_out(Q, root * y),
            root_weights=root,
            effects=effects,
            effects_basis=Q,
            raw_target=root * y,
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
        taken = np.sum(self.effects_basis**2, axis=1) + np.sum(vectors**2, axis=1)
        slack = np.maximum(1.0 - taken, 0.0) + vectors**2 @ left
        return residual / np.maximum(slack, MIN_SLACK)

    def leave_one_out_mse(self, penalty: float) -> float:
        """Return the weighted mean square of the residuals of fits without bag i."""
        return float(np.sum(self.leave_one_out(penalty) ** 2) / np.sum(self.root_weights**2))

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
        return float(min(told, key=self.leave_one_out_mse))


def _effects(F: Float64[np.ndarray, "n r"], root: Vector) -> tuple[np.ndarray, np.ndarray]:
    effects = root[:, None] * F
    return effects, np.linalg.qr(effects)[0]


def _unit(root: Vector) -> Float64[np.ndarray, "n 1"]:
    """Return the direction of the intercept."""
    return (root / np.linalg.norm(root))[:, None]


def _project_twice(Q: Float64[np.ndarray, "n r"], gram: Float64[np.ndarray, "n n"]) -> np.ndarray:
    return _project_out(Q, _project_out(Q, gram).T)


def _project_out(Q: Float64[np.ndarray, "n r"], rows: np.ndarray) -> np.ndarray:
    return rows - Q @ (Q.T @ rows)
