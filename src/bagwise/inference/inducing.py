"""Gaussian processes of many bags: some of them, the basis, stand for all.

F ≈ K_nm K_mm^-1 F_m. With K_mm = L L^T and Ψ = K_nm L^-T the process is linear, F = Ψ v with
v ~ N(0, I), so time and memory are linear in the number of bags. With all bags in the basis it is
the process itself.

References
----------
Quiñonero-Candela and Rasmussen (2005), A unifying view of sparse approximate Gaussian process
regression: deterministic training conditional.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cholesky, eigh, solve_triangular

from bagwise.inference.gp_evidence import (
    JITTER,
    NEWTON_STEPS,
    NEWTON_TOLERANCE,
)
from bagwise.likelihoods.base import Likelihood

Vector = Float64[np.ndarray, " n"]
Cross = Float64[np.ndarray, "n m"]


@dataclass(frozen=True, eq=False)
class Induced:
    """What the labels of all bags say of the basis.

    Attributes
    ----------
    alpha : (m,); the mean at a new bag is k·α
    precision : (m, m), P; the variance at a new bag falls by k^T P k
    mean : (n,), at the training bags;  leverage : (n,), share of its own label in each
    """

    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]
    mean: Vector
    leverage: Vector


def induce_labels(
    gram: Float64[np.ndarray, "m m"], cross: Cross, noise: Vector, labels: Vector
) -> Induced:
    """Condition on real labels with a noise variance for each.

    Examples
    --------
    >>> found = induce_labels(np.eye(1), np.ones((1, 1)), np.ones(1), np.array([2.0]))
    >>> found.alpha.round(6), found.mean.round(6)
    (array([1.]), array([1.]))
    """
    features, back = _features(gram, cross)
    return _solved(features, back, 1.0 / noise, labels / noise)


def induce_classes(
    gram: Float64[np.ndarray, "m m"],
    cross: Cross,
    bag_var: Vector,
    weights: Vector,
    labels: Vector,
    likelihood: Likelihood,
) -> Induced:
    """Condition on classes ±1: Newton's method in v, with the bag integrated over by the link."""
    features, back = _features(gram, cross)
    v, var, before = np.zeros(features.shape[1]), 1.0 + bag_var, np.inf
    for _ in range(NEWTON_STEPS):
        latent = features @ v
        terms = likelihood.terms(labels, latent, var)
        value = 0.5 * float(v @ v) + float(weights @ terms.value)
        if before - value < NEWTON_TOLERANCE * len(labels):
            break
        before, curve = value, weights * terms.mean_mean
        target = curve * latent - weights * terms.by_mean
        hessian = features.T @ (curve[:, None] * features)
        hessian[np.diag_indices_from(hessian)] += 1.0
        v = np.linalg.solve(hessian, features.T @ target)
    return _solved(features, back, curve, target)


def _features(
    gram: Float64[np.ndarray, "m m"], cross: Cross
) -> tuple[Cross, Float64[np.ndarray, "m m"]]:
    """Return Ψ and L^-T."""
    matrix = gram.copy()
    matrix[np.diag_indices_from(matrix)] += JITTER * max(1.0, float(np.diagonal(gram).mean()))
    factor = cholesky(matrix, lower=True, check_finite=False)
    back = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False).T
    return cross @ back, back


def _solved(
    features: Cross, back: Float64[np.ndarray, "m m"], precision: Vector, target: Vector
) -> Induced:
    """Solve (I + Ψ^T P Ψ) v = Ψ^T target, and carry v and its covariance back to the basis."""
    values, vectors = eigh(features.T @ (precision[:, None] * features), check_finite=False)
    values = np.maximum(values, 0.0)
    v = vectors @ ((vectors.T @ (features.T @ target)) / (1.0 + values))
    turned = features @ vectors
    leverage = precision * np.sum(turned**2 / (1.0 + values), axis=1)
    root = (back @ vectors) * np.sqrt(values / (1.0 + values))
    return Induced(back @ v, root @ root.T, features @ v, np.minimum(leverage, 1.0 - 1e-9))
