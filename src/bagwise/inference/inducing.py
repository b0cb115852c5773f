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

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cholesky, eigh, solve_triangular

from bagwise.inference.conditional import (
    JITTER,
    SWEEP_TOLERANCE,
    SWEEPS,
    Pace,
    Place,
    bend_of,
    sites_at_mode,
    to_mode,
)
from bagwise.inference.sites import LEAST_LEFT, change, sites_of
from bagwise.likelihoods.base import Linked
from bagwise.likelihoods.probit import Probit

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
    moved : how far the last sweep of expectation propagation would still have moved a label's part
    """

    alpha: Float64[np.ndarray, " m"]
    precision: Float64[np.ndarray, "m m"]
    mean: Vector
    leverage: Vector
    moved: float = 0.0


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


def induce_latent(
    gram: Float64[np.ndarray, "m m"],
    cross: Cross,
    bag_var: Vector,
    noise: Vector,
    weights: Vector,
    labels: Vector,
    likelihood: Linked,
) -> Induced:
    """Condition on counts, by Laplace's approximation.

    Latent values are Ψv + Db with D = diag(bag_var) and b ~ N(0, D^-1), which is integrated over
    as v is: with W the curvature of −log p, bags have the precision W/(1 + WD).

    Parameters
    ----------
    noise, weights, labels, likelihood : as in :func:`bagwise.inference.conditional.laplace`
    """
    features, back = _features(gram, cross)
    m, n = features.shape[1], len(labels)
    bend_at = partial(bend_of, likelihood, labels, noise)
    at, latent, bend, _ = to_mode(
        bend_at, weights, BasisAndBags(features, bag_var), np.zeros(m + n)
    )
    curve = weights * bend.second
    widened = 1.0 + curve * bag_var
    target = (curve * latent - weights * bend.first) / widened
    found = _solved(features, back, curve / widened, target)
    return replace(found, alpha=back @ at[:m], mean=features @ at[:m])


def induce_classes(
    gram: Float64[np.ndarray, "m m"],
    cross: Cross,
    bag_var: Vector,
    weights: Vector,
    labels: Vector,
    likelihood: Probit,
) -> Induced:
    """Condition on classes, by expectation propagation.

    With the sites s and ν of :func:`bagwise.inference.conditional.propagate`, and what a bag varies
    integrated over, bags have the precision s/(1 + sD).
    """
    features, back = _features(gram, cross)
    none, m = np.zeros(len(labels)), features.shape[1]
    bend_at = partial(bend_of, likelihood, labels, none)
    start = np.zeros(m + len(labels))
    _, latent, bend, _ = to_mode(bend_at, weights, BasisAndBags(features, bag_var), start)
    sites, pace = sites_at_mode(bend, weights, latent), Pace()
    prior_var = np.sum(features**2, axis=1)
    for _ in range(SWEEPS):
        curve, pull = sites
        widened = 1.0 + curve * bag_var
        precision, target = curve / widened, pull / widened
        hessian = features.T @ (precision[:, None] * features)
        hessian[np.diag_indices_from(hessian)] += 1.0
        factor = cholesky(hessian, lower=True, check_finite=False)
        half = solve_triangular(factor, features.T, lower=True, check_finite=False)
        var, mean = np.sum(half**2, axis=0), half.T @ (half @ target)
        # what is known of f_i without its label: no less than before there were any labels
        left = np.maximum(1.0 - precision * var, var / np.maximum(prior_var, JITTER))
        left = np.maximum(left, LEAST_LEFT)
        around, spread = (mean - var * target) / left, var / left + bag_var + JITTER
        _, new = sites_of(likelihood, labels, weights, around, spread)
        moved = change(sites, new)
        if moved < SWEEP_TOLERANCE:
            break
        sites = pace.ahead(sites, new, moved)
    return replace(_solved(features, back, precision, target), moved=moved)


@dataclass(frozen=True, eq=False)
class BasisAndBags:
    """Latent values Ψv + Db, in the coordinates (v, b), with the prior ½ |v|² + ½ b^T D b."""

    features: Cross
    bag_var: Vector

    def latent(self, at: Place) -> tuple[Vector, float]:
        """Return the latent values, and −log of their prior."""
        v, b = self._parts(at)
        penalty = 0.5 * float(v @ v) + 0.5 * float(self.bag_var @ b**2)
        return self.features @ v + self.bag_var * b, penalty

    def newton(self, at: Place, slope: Vector, curve: Vector) -> Place:
        """Return the step, of v first and then of b, which are independent but for v."""
        (v, b), widened = self._parts(at), 1.0 + curve * self.bag_var
        left, precision = -slope - b, curve / widened
        hessian = self.features.T @ (precision[:, None] * self.features)
        hessian[np.diag_indices_from(hessian)] += 1.0
        rest = -v - self.features.T @ (slope + precision * self.bag_var * left)
        step = np.linalg.solve(hessian, rest)
        return np.concatenate([step, (left - curve * (self.features @ step)) / widened])

    def _parts(self, at: Place) -> tuple[np.ndarray, Vector]:
        m = self.features.shape[1]
        return at[:m], at[m:]


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
