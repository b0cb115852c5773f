"""Shrinkage basis: one basis in which every bag's embedding posterior is diagonal.

The embedding μ_i of a bag has the prior GP(m0, ηr) and is seen as μ̂_i ~ N(μ_i(u), Σ/N_i). All
bags share Σ, so one generalised eigenproblem, W^T Σ W = I and W^T r(u,u) W = diag(λ), serves every
bag size and every η:

    (ηr + Σ/N)^-1 = N W diag(κ) W^T,      κ_k = 1/(1 + N η λ_k)

A function f = Σ_l α_l k(·, z_l) has the weights α = T w, with T^T K_z T = I: its squared RKHS norm
is ‖w‖². In these coordinates the mean of f over bag i has the posterior

    mean      w·T^T m0(z) + Σ_k ηN κ_k t_ik h_k           t_i = W^T (μ̂_i − m0),  h = H w
    variance  Σ_k ηλ_k κ_k g_k² + η w^T S w               g = P w

where H = W^T r(u,z) T, P = H/λ, and S is the part of r(z,z) that u cannot see (0 if z = u). The
constant w·T^T m0(z) belongs to the intercept, which is the label at the prior mean.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import eigh

from bagwise.embedding.sums import BagStats
from bagwise.features.maps import Features, LandmarkFeatures, PriorGram

# Features of bags that differ by less, as a share of the largest, are equal.
ROUNDING = 1e-14

# Directions whose share of the largest eigenvalue is below this are rounding error.
NULL = 1e-10

# A direction is hidden if the largest bag tells less of it, relative to its prior, than this share
# of what one point tells of the direction that is best known.
HIDDEN = 1e-3


@dataclass(frozen=True, eq=False)
class ShrinkageBasis:
    """The basis of the module's docstring.

    Attributes
    ----------
    projection : (d, c), W
    spectrum : (c,), λ: prior variance over the variance of one point, at η = 1
    mean_map : (c, q), H
    spread_map : (c, q), P
    unseen : (q, q), S, or None if z = u
    weight_map : (s, q), T
    """

    projection: Float64[np.ndarray, "d c"]
    spectrum: Float64[np.ndarray, " c"]
    mean_map: Float64[np.ndarray, "c q"]
    spread_map: Float64[np.ndarray, "c q"]
    unseen: Float64[np.ndarray, "q q"] | None
    weight_map: Float64[np.ndarray, "s q"]

    def project(
        self, mean: Float64[np.ndarray, "n d"], prior_mean: Float64[np.ndarray, " d"]
    ) -> Float64[np.ndarray, "n c"]:
        """Return t_i = W^T (μ̂_i − m0) for every bag; 0 where it would be rounding error."""
        gaps = mean - prior_mean
        gaps[np.abs(gaps) < ROUNDING * np.abs(prior_mean).max()] = 0.0
        return gaps @ self.projection

    def slack(
        self, sizes: Float64[np.ndarray, " m"], prior_scale: float
    ) -> Float64[np.ndarray, "m c"]:
        """Return κ = 1/(1 + N η λ): the share of the prior variance left after N points."""
        return 1.0 / (1.0 + np.multiply.outer(sizes, prior_scale * self.spectrum))

    def typical(self) -> float:
        """Return the geometric mean of λ, over the directions in which it is not rounding error."""
        seen = self.spectrum[self.spectrum > NULL * self.spectrum[-1]]
        return float(np.exp(np.mean(np.log(seen)))) if len(seen) else 1.0

    def unseen_variance(self, w: Float64[np.ndarray, " q"]) -> float:
        """Return w^T S w, to be multiplied by η."""
        return 0.0 if self.unseen is None else float(w @ self.unseen @ w)


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


def shrinkage_basis(
    within_cov: Float64[np.ndarray, "d d"],
    prior: PriorGram,
    weight_map: Float64[np.ndarray, "s q"],
    *,
    same_landmarks: bool = True,
) -> ShrinkageBasis:
    """Solve the eigenproblem and carry the function's weights into the basis.

    Parameters
    ----------
    within_cov : (d, d), Σ, positive definite: see :func:`with_floor`
    prior : PriorGram of r between u and z
    weight_map : (s, q), T
    same_landmarks : whether z = u, where S = 0 and P = W^-1 T need no division by λ
    """
    spectrum, projection = eigh(prior.uu, within_cov)
    spectrum = np.maximum(spectrum, 0.0)
    if same_landmarks:
        spread_map = projection.T @ within_cov @ weight_map
        mean_map = spectrum[:, None] * spread_map
        return ShrinkageBasis(projection, spectrum, mean_map, spread_map, None, weight_map)
    mean_map = projection.T @ prior.uz @ weight_map
    seen = spectrum > NULL * spectrum[-1]
    spread_map = np.zeros_like(mean_map)
    spread_map[seen] = mean_map[seen] / spectrum[seen, None]
    unseen = weight_map.T @ prior.zz @ weight_map - mean_map.T @ spread_map
    values, vectors = np.linalg.eigh((unseen + unseen.T) / 2.0)
    unseen = (vectors * np.maximum(values, 0.0)) @ vectors.T  # rounding must not make it negative
    return ShrinkageBasis(projection, spectrum, mean_map, spread_map, unseen, weight_map)


def kernel_basis(
    within_cov: Float64[np.ndarray, "d d"], gram: Float64[np.ndarray, "d d"], largest_bag: float
) -> ShrinkageBasis:
    """Return the basis for r = k and z = u, without the directions that no bag can see.

    W diagonalises the RKHS norm as well, so T = W diag(λ)^(-1/2), H = diag(λ)^(1/2) and
    P = diag(λ)^(-1/2). In a direction of small λ the floor of Σ hides what varies between bags.
    A point estimate puts no weight there, but a posterior would add the spread of every such weight
    to the variance of every bag, and there may be more of them than bags.

    Parameters
    ----------
    within_cov : (d, d), Σ, positive definite: see :func:`with_floor`
    gram : (d, d), K = k(u, u);  largest_bag : N of the bag that sees most

    Examples
    --------
    >>> kernel_basis(np.eye(2), np.diag([4.0, 1e-6]), 100.0).spectrum
    array([4.])
    """
    spectrum, projection = eigh(gram, within_cov)
    seen = largest_bag * spectrum > HIDDEN * spectrum[-1]
    spectrum, projection = spectrum[seen], projection[:, seen]
    root = np.sqrt(spectrum)
    return ShrinkageBasis(
        projection, spectrum, np.diag(root), np.diag(1.0 / root), None, projection / root
    )


@dataclass(frozen=True, eq=False)
class BasisSlope:
    """Derivative of r in a parameter such as log ℓ, in a basis.

    Attributes
    ----------
    uu : (d, d), W^T ṙ(u,u) W;  uz : (d, q), W^T ṙ(u,z) T;  zz : (q, q), T^T ṙ(z,z) T
    """

    uu: Float64[np.ndarray, "d d"]
    uz: Float64[np.ndarray, "d q"]
    zz: Float64[np.ndarray, "q q"]

    @classmethod
    def of(cls, basis: ShrinkageBasis, slope: PriorGram) -> BasisSlope:
        """Carry a derivative of r into the basis."""
        left, right = basis.projection.T, basis.weight_map
        return cls(left @ slope.uu @ left.T, left @ slope.uz @ right, right.T @ slope.zz @ right)


class OneBasis:
    """Basis family of one member: a basis that is there already, and the bags projected on it."""

    start_length = None

    def __init__(
        self,
        basis: ShrinkageBasis,
        prior_mean: Float64[np.ndarray, " d"],
        bags: Float64[np.ndarray, "n c"],
        *,
        shrinks: bool = True,
    ) -> None:
        self.basis, self.prior_mean, self.shrinks = basis, prior_mean, shrinks
        self._bags = bags

    @staticmethod
    def point(mean: Float64[np.ndarray, "n d"]) -> OneBasis:
        """Take mean embeddings μ̂ for the truth: f_i = w·(μ̂_i − m0), with no variance.

        This is the algebra above at λ = 0, W = H = T = I, N = η = 1 and P = 0.

        Examples
        --------
        >>> family = OneBasis.point(np.array([[1.0, 2.0], [3.0, 4.0]]))
        >>> family.at(None)[1]
        array([[-1., -1.],
               [ 1.,  1.]])
        """
        d, center = mean.shape[1], mean.mean(axis=0)
        gaps = mean - center
        gaps[np.abs(gaps) < ROUNDING * np.abs(mean).max()] = 0.0
        eye, none = np.eye(d), np.zeros((d, d))
        basis = ShrinkageBasis(eye, np.zeros(d), eye, none, None, eye)
        return OneBasis(basis, center, gaps, shrinks=False)

    def at(self, log_length: float | None) -> tuple[ShrinkageBasis, Float64[np.ndarray, "n d"]]:
        """Return the basis and the projected training bags."""
        return self.basis, self._bags

    def slope(self, log_length: float) -> BasisSlope:
        """Raise: there is no length to differentiate by."""
        raise TypeError("a fixed basis has no length scale")


class KernelPrior(OneBasis):
    """Basis family of the prior r = k: one basis, whatever the scales.

    Parameters
    ----------
    features : Features;  stats : BagStats with within_cov;  floor : see :func:`with_floor`
    """

    def __init__(self, features: Features, stats: BagStats, floor: float) -> None:
        prior_mean = stats.mean.mean(axis=0)
        assert stats.within_cov is not None
        within_cov, prior = with_floor(stats.within_cov, floor), features.kernel_prior()
        if features.same_landmarks:
            basis = kernel_basis(within_cov, prior.uu, float(stats.sizes.max()))
        else:
            weight_map = whitening(features.weight_gram())
            basis = shrinkage_basis(within_cov, prior, weight_map, same_landmarks=False)
        super().__init__(basis, prior_mean, basis.project(stats.mean, prior_mean))


class ConvolvedPrior:
    """Basis family of the convolved prior: a basis for each length ℓ of its measure.

    Starts at the root mean square norm of the landmarks, which is the spread of the data.
    """

    shrinks = True

    def __init__(self, features: Features, stats: BagStats, floor: float) -> None:
        features.convolved_prior(1.0)  # raises unless the features have such a prior
        assert stats.within_cov is not None and isinstance(features, LandmarkFeatures)
        self.prior_mean = stats.mean.mean(axis=0)
        self.start_length = float(np.sqrt(np.mean(np.sum(features.landmarks**2, axis=1)))) or 1.0
        self._features = features
        self._gaps = stats.mean - self.prior_mean
        self._within_cov = with_floor(stats.within_cov, floor)
        self._weight_map = whitening(features.weight_gram())
        self._last: tuple[float, ShrinkageBasis, np.ndarray, PriorGram] | None = None

    def at(self, log_length: float | None) -> tuple[ShrinkageBasis, Float64[np.ndarray, "n d"]]:
        """Return the basis at log ℓ and the training bags projected on it."""
        assert log_length is not None
        if self._last is None or self._last[0] != log_length:
            prior, slope = self._features.convolved_prior(float(np.exp(log_length)))
            basis = shrinkage_basis(
                self._within_cov,
                prior,
                self._weight_map,
                same_landmarks=self._features.same_landmarks,
            )
            self._last = (log_length, basis, self._gaps @ basis.projection, slope)
        return self._last[1], self._last[2]

    def slope(self, log_length: float) -> BasisSlope:
        """Return the derivative of r in log ℓ, in the basis at log ℓ."""
        self.at(log_length)
        assert self._last is not None
        return BasisSlope.of(self._last[1], self._last[3])
