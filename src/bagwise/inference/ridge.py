"""Ridge regression, exactly and for all penalties at once, with unpenalised fixed effects.

Minimise Σ_i w_i (y_i − x_i·β − f_i·γ)² + λ‖β‖². With Q an orthonormal basis of the columns √w F,
the rows X̃ = (I − QQ^T) √w X and ỹ likewise, and the spectrum X̃X̃^T = U diag(e) U^T,

    dual      a(λ) = U diag(1/(e + λ)) U^T ỹ        β = X^T √w a
    leverage  H = QQ^T + U diag(e/(e + λ)) U^T      leave-one-out residual (ỹ_i − ŷ_i)/(1 − H_ii)

The same spectrum comes from a Gram matrix in place of XX^T: kernel ridge regression.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

Vector = Float64[np.ndarray, " n"]

# Penalties tried, as shares of the largest eigenvalue: from none to where nothing is left.
PENALTY_SHARES = np.logspace(-12, 2, 113)

# Residuals of a bag that the fixed effects determine say nothing; 1 − H_ii is kept above this,
# which is less than the least penalty leaves to any other bag.
MIN_SLACK = 1e-13


@dataclass(frozen=True, eq=False)
class RidgeProblem:
    """Spectrum of a ridge problem after the fixed effects are projected out.

    Attributes
    ----------
    vectors : (n, k), U;  values : (k,), e
    target : (n,), ỹ
    root_weights : (n,), √w
    effects : (n, r), √w F;  effects_basis : (n, r), Q
    raw_target : (n,), √w y
    """

    vectors: Float64[np.ndarray, "n k"]
    values: Float64[np.ndarray, " k"]
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
        rows = _project_out(Q, root[:, None] * X)
        vectors, singular, _ = np.linalg.svd(rows, full_matrices=False)
        target = _project_out(Q, root * y)
        return cls(vectors, singular**2, target, root, effects, Q, root * y)

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
        half = _project_out(Q, root[:, None] * K * root)
        values, vectors = np.linalg.eigh(_project_out(Q, half.T))
        # Rounding error is no direction: with a small penalty its dual weights would be huge.
        real = values > NO_VARIANCE * np.sum(weights * np.diag(K))
        target = _project_out(Q, root * y)
        return cls(vectors[:, real], values[real], target, root, effects, Q, root * y)

    def penalties(self) -> Float64[np.ndarray, " m"]:
        """Return the penalties worth trying: every order of magnitude of the spectrum."""
        return PENALTY_SHARES * (float(self.values.max(initial=0.0)) or 1.0)

    def dual(self, penalty: float) -> Vector:
        """Return √w a(λ), the weights of the training bags in β = X^T √w a."""
        coordinates = self.vectors.T @ self.target
        shrunk = np.divide(
            coordinates,
            self.values + penalty,
            out=np.zeros_like(coordinates),
            # With no penalty at all, directions without variance are left out: least norm.
            where=self.values + penalty > NO_VARIANCE * self.values.max(initial=0.0),
        )
        return self.root_weights * (self.vectors @ shrunk)

    def effects_for(self, fitted: Vector) -> Float64[np.ndarray, " r"]:
        """Return γ given the fitted values x_i·β: least squares of what is left on F."""
        rest = self.raw_target - self.root_weights * fitted
        return np.linalg.lstsq(self.effects, rest, rcond=None)[0]

    def leave_one_out(self, penalty: float) -> Vector:
        """Return the residuals √w (y_i − ŷ_i) of fits without bag i."""
        # Residual and 1 − H_ii as sums of what is left, not as differences of what is fitted: with
        # as many features as bags both vanish with the penalty, and their quotient does not.
        seen = self.values > NO_VARIANCE * self.values.max(initial=0.0)
        vectors, left = self.vectors[:, seen], penalty / (self.values[seen] + penalty)
        coordinates = vectors.T @ self.target
        residual = self.target - vectors @ coordinates + vectors @ (left * coordinates)
        taken = np.sum(self.effects_basis**2, axis=1) + np.sum(vectors**2, axis=1)
        slack = np.maximum(1.0 - taken, 0.0) + vectors**2 @ left
        return residual / np.maximum(slack, MIN_SLACK)

    def leave_one_out_mse(self, penalty: float) -> float:
        """Return the weighted mean square of the residuals of fits without bag i."""
        return float(np.sum(self.leave_one_out(penalty) ** 2) / np.sum(self.root_weights**2))

    def best_penalty(self) -> float:
        """Return the penalty with the least leave-one-out error."""
        return float(min(self.penalties(), key=self.leave_one_out_mse))


# Share of the largest eigenvalue below which a direction counts as having no variance.
NO_VARIANCE = 1e-14


def _effects(F: Float64[np.ndarray, "n r"], root: Vector) -> tuple[np.ndarray, np.ndarray]:
    effects = root[:, None] * F
    return effects, np.linalg.qr(effects)[0]


def _project_out(Q: Float64[np.ndarray, "n r"], rows: np.ndarray) -> np.ndarray:
    return rows - Q @ (Q.T @ rows)
