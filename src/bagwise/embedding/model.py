"""Embedding model: the prior of the embedding, in coordinates that make every posterior diagonal.

W solves W^T Σ W = I, W^T r(u,u) W = diag(λ); :mod:`bagwise.embedding.posterior` has what follows
for a bag. A function f = Σ_l α_l k(·, z_l) has the weights α = T w, with T^T K_z T = I: its squared
RKHS norm is ‖w‖². In the coordinates e_i of a bag, its mean over the bag is

    ⟨f, μ_i⟩ = ⟨f, m0⟩ + (P w)·e_i + (what u cannot see, of variance η w^T S w)

with P = diag(1/λ) W^T r(u,z) T; if z = u then P = W^-1 T and S = 0. The constant ⟨f, m0⟩ belongs
to the intercept, which is the label at the prior mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float64
from scipy.linalg import eigh

from bagwise.embedding.posterior import EmbeddingPosterior, distinct_sizes
from bagwise.embedding.sums import BagStats
from bagwise.features.maps import PriorGram

# Features of bags that differ by less, as a share of the largest, are equal.
ROUNDING = 1e-14

# Directions whose share of the largest eigenvalue is below this are rounding error.
NULL = 1e-10

# A direction is hidden if the largest bag tells less of it, relative to its prior, than this share
# of what one point tells of the direction that is best known.
HIDDEN = 1e-3


@dataclass(frozen=True, eq=False)
class EmbeddingModel:
    """Prior of the embeddings, learnt once from the training bags.

    Attributes
    ----------
    prior_mean : (d,), m0
    projection : (d, c), W;  landmark_map : (d, c), ΣW, its inverse transposed
    spectrum : (c,), λ: prior variance over the variance of one point, at η = 1
    function_map : (c, q), P
    unseen : (q, q), S, or None if z = u
    weight_map : (s, q), T
    shrinks : False if bags are taken for points: μ_i = μ̂_i, without variance
    """

    prior_mean: Float64[np.ndarray, " d"]
    projection: Float64[np.ndarray, "d c"]
    landmark_map: Float64[np.ndarray, "d c"]
    spectrum: Float64[np.ndarray, " c"]
    function_map: Float64[np.ndarray, "c q"]
    unseen: Float64[np.ndarray, "q q"] | None
    weight_map: Float64[np.ndarray, "s q"]
    shrinks: bool = field(default=True)

    def coordinates(self, mean: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        """Return t_i = W^T (μ̂_i − m0) for every bag; 0 where it would be rounding error."""
        gaps = mean - self.prior_mean
        gaps[np.abs(gaps) < ROUNDING * np.abs(self.prior_mean).max()] = 0.0
        return gaps @ self.projection

    def posterior(
        self, stats: BagStats, scale: float | Float64[np.ndarray, " s"] = 1.0
    ) -> EmbeddingPosterior:
        """Return the posterior of bags with these statistics; η may have several values."""
        sizes, size_of = distinct_sizes(stats.sizes, self.shrinks)
        t = self.coordinates(stats.mean)
        return EmbeddingPosterior(self, t, sizes, size_of, np.atleast_1d(np.float64(scale)))

    def typical(self) -> float:
        """Return the geometric mean of λ, over the directions in which it is not rounding error."""
        seen = self.spectrum[self.spectrum > NULL * self.spectrum.max(initial=0.0)]
        return float(np.exp(np.mean(np.log(seen)))) if len(seen) else 1.0

    def unseen_variance(self, w: Float64[np.ndarray, "s q"]) -> Float64[np.ndarray, " s"]:
        """Return w^T S w, to be multiplied by η, for each row of weights."""
        if self.unseen is None:
            return np.zeros(len(w))
        return np.sum((w @ self.unseen) * w, axis=1)


def point_model(mean: Float64[np.ndarray, "n d"]) -> EmbeddingModel:
    """Take mean embeddings μ̂ for the truth: ⟨f, μ_i⟩ = w·(μ̂_i − m0), with no variance.

    Examples
    --------
    >>> mean = np.array([[1.0, 2.0], [3.0, 4.0]])
    >>> point_model(mean).posterior(BagStats(mean, np.ones(2))).mean
    array([[-1., -1.], [ 1.,  1.]])
    """
    eye = np.eye(mean.shape[1])
    return EmbeddingModel(
        mean.mean(axis=0), eye, eye, np.zeros(len(eye)), eye, None, eye, shrinks=False
    )


def with_floor(within_cov: Float64[np.ndarray, "d d"], floor: float) -> Float64[np.ndarray, "d d"]:
    """Return Σ + floor · (average variance) · I.

    Features hardly vary in some directions, which a bag would otherwise pin down with its first
    point. Where no feature varies at all, the identity takes the place of the average.
    """
    average = np.trace(within_cov) / len(within_cov)
    return within_cov + floor * (average or 1.0) * np.eye(len(within_cov))


def whitening(gram: Float64[np.ndarray, "s s"]) -> Float64[np.ndarray, "s q"]:
    """Return T with T^T K T = I, without the directions in which K vanishes.

    Examples
    --------
    >>> whitening(np.array([[4.0, 0.0], [0.0, 0.0]]))
    array([[0.5], [0. ]])
    """
    values, vectors = np.linalg.eigh(gram)
    keep = values > NULL * values[-1]
    return vectors[:, keep] / np.sqrt(values[keep])


def kernel_model(
    prior_mean: Float64[np.ndarray, " d"],
    within_cov: Float64[np.ndarray, "d d"],
    gram: Float64[np.ndarray, "d d"],
    largest_bag: float,
) -> EmbeddingModel:
    """Return the model of r = k and z = u, without the directions that no bag can see.

    W diagonalises the RKHS norm as well, so T = W diag(λ)^(-1/2) and P = diag(λ)^(-1/2). In a
    direction of small λ the floor of Σ hides what varies between bags. A point estimate puts no
    weight there, but a posterior would add the spread of every such weight to the variance of every
    bag, and there may be more of them than bags.

    Parameters
    ----------
    prior_mean : (d,), m0
    within_cov : (d, d), Σ, positive definite: see :func:`with_floor`
    gram : (d, d), K = k(u, u);  largest_bag : N of the bag that sees most

    Examples
    --------
    >>> kernel_model(np.zeros(2), np.eye(2), np.diag([4.0, 1e-6]), 100.0).spectrum
    array([4.])
    """
    spectrum, projection = eigh(gram, within_cov)
    seen = largest_bag * spectrum > HIDDEN * spectrum[-1]
    spectrum, projection = spectrum[seen], projection[:, seen]
    root = np.sqrt(spectrum)
    return EmbeddingModel(
        prior_mean,
        projection,
        within_cov @ projection,
        spectrum,
        np.diag(1.0 / root),
        None,
        projection / root,
    )


def general_model(
    prior_mean: Float64[np.ndarray, " d"],
    within_cov: Float64[np.ndarray, "d d"],
    prior: PriorGram,
    weight_map: Float64[np.ndarray, "s q"],
    *,
    same_landmarks: bool = True,
) -> EmbeddingModel:
    """Return the model of any r, and of landmarks z ≠ u of the function.

    Parameters
    ----------
    prior_mean : (d,), m0
    within_cov : (d, d), Σ, positive definite: see :func:`with_floor`
    prior : PriorGram of r between u and z
    weight_map : (s, q), T
    same_landmarks : whether z = u, where S = 0 and P = W^-1 T needs no division by λ
    """
    spectrum, projection = eigh(prior.uu, within_cov)
    spectrum = np.maximum(spectrum, 0.0)
    back = within_cov @ projection
    if same_landmarks:
        return EmbeddingModel(
            prior_mean, projection, back, spectrum, back.T @ weight_map, None, weight_map
        )
    crossed = projection.T @ prior.uz @ weight_map
    seen = spectrum > NULL * spectrum[-1]
    function_map = np.zeros_like(crossed)
    function_map[seen] = crossed[seen] / spectrum[seen, None]
    unseen = weight_map.T @ prior.zz @ weight_map - crossed.T @ function_map
    values, vectors = np.linalg.eigh((unseen + unseen.T) / 2.0)
    unseen = (vectors * np.maximum(values, 0.0)) @ vectors.T  # rounding must not make it negative
    return EmbeddingModel(prior_mean, projection, back, spectrum, function_map, unseen, weight_map)
