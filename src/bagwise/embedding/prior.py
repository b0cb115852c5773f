"""Priors of the embedding other than r = k: learnt, which is one model, or one for each ℓ."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import (
    NULL,
    EmbeddingModel,
    general_model,
    kernel_prior,
    size_groups,
    whitening,
    with_floor,
)
from bagwise.embedding.sums import BagStats
from bagwise.features.maps import Features, LandmarkFeatures, PriorGram

# Bags that the prior r = k is worth, when the covariance between bags is learnt.
PSEUDO_BAGS = 20.0

# Leaps of expectation maximisation, at most, of three steps each: as far as a hundred steps lead
# and a little farther. And the relative change in the last of them after which it ends.
LEAPS = 12
EM_TOLERANCE = 1e-4

# A leap that is hardly longer than its steps is not worth looking where it leads.
NO_LEAP = 1.1

Square = Float64[np.ndarray, "c c"]


@dataclass(frozen=True, eq=False)
class PriorSlope:
    """Derivative of r in log ℓ, in the coordinates of a model.

    Attributes
    ----------
    uu : (c, c), W^T ṙ(u,u) W;  uz : (c, q), W^T ṙ(u,z) T;  zz : (q, q), T^T ṙ(z,z) T
    """

    uu: Float64[np.ndarray, "c c"]
    uz: Float64[np.ndarray, "c q"]
    zz: Float64[np.ndarray, "q q"]

    @classmethod
    def of(cls, model: EmbeddingModel, slope: PriorGram) -> PriorSlope:
        """Carry a derivative of r into the coordinates."""
        left, right = model.projection.T, model.weight_map
        return cls(left @ slope.uu @ left.T, left @ slope.uz @ right, right.T @ slope.zz @ right)


def learnt_prior(features: Features, stats: BagStats, floor: float) -> EmbeddingModel:
    """Return the model of the covariance of embeddings between bags that the bags show."""
    return learnt_model(kernel_prior(features, stats, floor), stats)


def learnt_model(
    model: EmbeddingModel, stats: BagStats, pseudo_bags: float = PSEUDO_BAGS, leaps: int = LEAPS
) -> EmbeddingModel:
    """Return the model of the prior that the bags show, in coordinates that diagonalise it.

    t_i ~ N(0, B + I/N_i),   B ~ inverse Wishart around ηΛ, with the weight of some bags

    Λ = diag(λ) is the covariance of the model given, η its scale by moments. B is found by
    expectation maximisation, from the covariance of t less that of the points: with
    G_i = B (B + I/N_i)^-1,

    B ← {ν ηΛ + Σ_i (G_i t_i t_i^T G_i^T + B − G_i B)} / (ν + n)

    and its eigenvectors are the new directions. A function has the norm that it had. Such steps
    creep: from three B in a row it is seen where they lead (:func:`_leap`).

    Parameters
    ----------
    model : EmbeddingModel, of the prior r = k
    stats : BagStats of the training bags
    pseudo_bags : ν, the weight of the prior;  leaps : of expectation maximisation

    Examples
    --------
    >>> stats = BagStats(np.array([[-2.0, 0.0], [2.0, 0.0]] * 50), np.full(100, 1e6), np.eye(2))
    >>> from bagwise.embedding.posterior import kernel_model
    >>> model = kernel_model(np.zeros(2), np.eye(2), np.eye(2), 1e6)
    >>> learnt_model(model, stats, 1e-9).spectrum.round(3)
    array([0., 4.])
    """
    posterior = model.posterior(stats)
    center = posterior.moment_scale() * np.diag(model.spectrum)
    sizes, group_of = size_groups(stats.sizes)
    counts = np.bincount(group_of)
    # of a group with more bags than directions, a triangle with the same scatter
    parts = [_thin(posterior.t[group_of == g]) for g in range(len(sizes))]
    rows, rows_of = np.vstack(parts), np.repeat(np.arange(len(sizes)), list(map(len, parts)))
    eye = np.eye(len(center))
    excess = posterior.t.T @ posterior.t / len(posterior) - np.mean(1.0 / stats.sizes) * eye

    def step(B: Square) -> Square:
        values, turn = np.linalg.eigh(B)  # in which every G_i is diagonal
        values = np.maximum(values, 0.0)
        gain = values / (values + 1.0 / sizes[:, None])
        said = (rows @ turn) * gain[rows_of]
        total = said.T @ said + np.diag(values * (counts @ (1.0 - gain)))
        total = turn @ total @ turn.T + pseudo_bags * center
        return (total + total.T) / (2.0 * (pseudo_bags + len(group_of)))

    B = _positive(excess, center)
    for _ in range(leaps):
        first = step(B)
        far = _leap(B, first, step(first))
        B = step(far)
        if np.abs(B - far).max() < EM_TOLERANCE * np.abs(B).max():
            break
    spectrum, turn = np.linalg.eigh(B)
    return replace(
        model,
        projection=model.projection @ turn,
        landmark_map=model.landmark_map @ turn,
        spectrum=np.maximum(spectrum, NULL * spectrum[-1]),
        function_map=turn.T @ model.function_map,
    )


def _leap(before: Square, first: Square, second: Square) -> Square:
    """Return B − 2aR + a²V, where steps that shrink by one factor would end; a ≤ −1.

    R is the first step and V how the second differs from it; a = −‖R‖/‖V‖, or nearer to −1, at
    which it is the second step itself, until no direction is negative.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the
    convergence of any EM algorithm: scheme S3.
    """
    step, bend = first - before, second - 2.0 * first + before
    length = float(np.linalg.norm(step) / max(np.linalg.norm(bend), np.finfo(float).tiny))
    while length > NO_LEAP:
        found = before + 2.0 * length * step + length**2 * bend
        if np.linalg.eigvalsh(found)[0] > 0.0:
            return found
        length = (1.0 + length) / 2.0
    return second


def _thin(rows: Float64[np.ndarray, "k c"]) -> Float64[np.ndarray, "l c"]:
    """Return rows, at most as many as columns, whose outer products have the same sum."""
    return rows if len(rows) <= rows.shape[1] else np.asarray(np.linalg.qr(rows, mode="r"))


def _positive(matrix: Square, least: Square) -> Square:
    """Return the matrix without its negative directions, and a little of another."""
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T + 0.01 * least


class ConvolvedPrior:
    """The convolved prior: a model for each length ℓ of its measure.

    Starts at the root mean square norm of the landmarks, which is the spread of the data.
    """

    def __init__(self, features: Features, stats: BagStats, floor: float) -> None:
        features.convolved_prior(1.0)  # raises unless the features have such a prior
        assert stats.within_cov is not None and isinstance(features, LandmarkFeatures)
        self.start_length = float(np.sqrt(np.mean(np.sum(features.landmarks**2, axis=1)))) or 1.0
        self._features, self._prior_mean = features, stats.mean.mean(axis=0)
        self._within_cov = with_floor(stats.within_cov, floor)
        self._weight_map = whitening(features.weight_gram())
        self._last: tuple[float, EmbeddingModel, PriorGram] | None = None

    def at(self, log_length: float | None) -> EmbeddingModel:
        """Return the model at log ℓ; the last one is remembered."""
        assert log_length is not None
        if self._last is None or self._last[0] != log_length:
            prior, slope = self._features.convolved_prior(float(np.exp(log_length)))
            model = general_model(
                self._prior_mean,
                self._within_cov,
                prior,
                self._weight_map,
                same_landmarks=self._features.same_landmarks,
            )
            self._last = (log_length, model, slope)
        return self._last[1]

    def slope(self, log_length: float) -> PriorSlope:
        """Return the derivative of r in log ℓ, in the coordinates of the model there."""
        model = self.at(log_length)
        assert self._last is not None
        return PriorSlope.of(model, self._last[2])


# Models of the embedding as a function of log ℓ; a prior without ℓ has one, which is the model.
Prior = EmbeddingModel | ConvolvedPrior
