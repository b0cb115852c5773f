"""The embedding of a bag, its prior and its posterior: the one place where η, λ and N meet.

The embedding μ_i of a bag has the prior GP(m0, ηr) and is seen as μ̂_i ~ N(μ_i(u), Σ/N_i). All bags
share Σ, so one generalised eigenproblem, W^T Σ W = I and W^T r(u,u) W = diag(λ), serves every size
and every η. In the coordinates e_i = W^T (μ_i(u) − m0) the prior is N(0, ηλ), the bag says
t_i = W^T (μ̂_i − m0) ~ N(e_i, 1/N_i), and the posterior of each coordinate is

    e_ik ~ N((1 − κ) t_ik, ηλ_k κ),        κ = 1/(1 + Nηλ_k)

where κ is the share of the prior's variance that N points leave. If the points are not a sample of
the bag but all or nearly all of it, N/τ stands for N everywhere, τ < 1. As log η grows,

    ∂(1 − κ) = κ(1 − κ),   ∂² = κ(2κ − 1)(1 − κ);      ∂(ηλκ) = κ ηλκ,   ∂² = κ(2κ − 1) ηλκ

so both have the same relative slopes. Nothing here imports NumPy's functions by name where JAX's
arrays have to pass: the density that is sampled calls the same lines.

A function f = Σ_l α_l k(·, z_l) has the weights α = T w, with T^T K_z T = I: its squared RKHS norm
is ‖w‖². Its mean over a bag is

    ⟨f, μ_i⟩ = ⟨f, m0⟩ + (P w)·e_i + (what u cannot see, of variance η w^T S w)

with P = diag(1/λ) W^T r(u,z) T; if z = u then P = W^-1 T and S = 0. The constant ⟨f, m0⟩ belongs
to the intercept, which is the label at the prior mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64, Int
from scipy.linalg import eigh
from scipy.optimize import minimize_scalar

from bagwise.embedding.sums import BagStats
from bagwise.exceptions import BagwiseError
from bagwise.features.maps import Features, LandmarkFeatures, PriorGram

# Features of bags that differ by less, as a share of the largest, are equal.
ROUNDING = 1e-14

# Directions whose share of the largest eigenvalue is below this are rounding error.
NULL = 1e-10

# A direction is hidden if the largest bag tells less of it, relative to its prior, than this share
# of what one point tells of the direction that is best known.
HIDDEN = 1e-3

# Points of a bag of which nothing is left to be known.
ENDLESS = 1e200

# η is sought within e^±this of the one that halves a bag of median size.
LOG_RANGE = 20.0

# Least η found by moments, as a share of the one that halves a bag of median size.
LEAST_SCALE = 1e-3

# Groups of bags of about one size, where each size for itself would take too long.
MAX_GROUPS = 8

# Points are a sample of their bag, τ = 1, unless the labels say otherwise: −log p(τ) grows by so
# much with |log τ|, and is round within a little of 0. τ trades with η and with noise by size; left
# alone it would take some of what the bag leaves open, and that part would no longer be true.
DOUBT = 1.0 / 0.15
ROUND = 0.1

# Bags that the prior r = k is worth, when the covariance between bags is learnt.
PSEUDO_BAGS = 20.0

# Leaps of expectation maximisation, at most, of three steps each: as far as a hundred steps lead
# and a little farther. And the relative change in the last of them after which it ends.
LEAPS = 12
EM_TOLERANCE = 1e-4

# A leap that is hardly longer than its steps is not worth looking where it leads.
NO_LEAP = 1.1

Square = Float64[np.ndarray, "c c"]


def slack(seen: Any, spectrum: Any) -> Any:
    """Return κ = 1/(1 + Nηλ), given ηN; arrays of NumPy or JAX.

    Examples
    --------
    >>> slack(np.array([[0.0], [3.0]]), np.array([1.0, 0.0]))
    array([[1.  , 1.  ], [0.25, 1.  ]])
    """
    return 1.0 / (1.0 + seen * spectrum)


def shrunk(seen: Any, spectrum: Any) -> Any:
    """Return 1 − κ = NηλK, the share of t that is believed; without cancellation.

    Examples
    --------
    >>> shrunk(np.array([[0.0], [3.0]]), np.array([1.0, 0.0]))
    array([[0.  , 0.  ], [0.75, 0.  ]])
    """
    return seen * spectrum * slack(seen, spectrum)


def left_over(seen: Any, scale: Any, spectrum: Any) -> Any:
    """Return ηλκ, the variance of each coordinate that is left.

    Examples
    --------
    >>> left_over(np.array([[0.0], [3.0]]), 1.0, np.array([1.0, 0.0]))
    array([[1.  , 0.  ], [0.25, 0.  ]])
    """
    return scale * spectrum * slack(seen, spectrum)


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
    start_length: ClassVar[None] = None  # as a prior it has no length scale

    def at(self, log_length: float | None) -> EmbeddingModel:
        """Return itself, whatever the length scale."""
        return self

    def coordinates(self, mean: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n c"]:
        """Return t_i = W^T (μ̂_i − m0) for every bag; 0 where it would be rounding error."""
        gaps = mean - self.prior_mean
        gaps[np.abs(gaps) < ROUNDING * np.abs(self.prior_mean).max()] = 0.0
        return gaps @ self.projection

    def posterior(
        self,
        stats: BagStats,
        scale: float | Float64[np.ndarray, " s"] = 1.0,
        sampling: float = 1.0,
    ) -> EmbeddingPosterior:
        """Return the posterior of bags with these statistics, at η, or several of it, and τ."""
        sizes, size_of = distinct_sizes(stats.sizes, self.shrinks)
        t = self.coordinates(stats.mean)
        scales = np.atleast_1d(np.float64(scale))
        return EmbeddingPosterior(self, t, sizes, size_of, scales, None, sampling, stats.sizes)

    def typical(self) -> float:
        """Return the geometric mean of λ, over the directions in which it is not rounding error."""
        seen = self.spectrum[self.spectrum > NULL * self.spectrum.max(initial=0.0)]
        return float(np.exp(np.mean(np.log(seen)))) if len(seen) else 1.0

    def unseen_variance(self, w: Float64[np.ndarray, "s q"]) -> Float64[np.ndarray, " s"]:
        """Return w^T S w, to be multiplied by η, for each row of weights."""
        if self.unseen is None:
            return np.zeros(len(w))
        return np.sum((w @ self.unseen) * w, axis=1)


@dataclass(frozen=True, eq=False)
class EmbeddingPosterior:
    """Posterior of the embeddings of n bags, N(mean_i, diag(var_i)) in the coordinates of a model.

    Attributes
    ----------
    model : EmbeddingModel, whose coordinates they are
    t : (n, c), what the bags say
    sizes : (m,), distinct sizes;  size_of : (n,), which of them each bag has
    scale : (s,), η; of several draws of it, or one
    sampling : τ, by which sizes are divided: 1 if the points are a sample of the bag, 0 if they are
        all there is, and nothing is left to be known
    at : (l,) and (n,), the sizes at which the variance is asked for, and which each bag has; by
        default those of the bags
    asked : (n,), the size at which each bag is asked for, also where sizes do not matter to the
        embedding, as to a point; by default that of ``at`` or ``sizes``

    Examples
    --------
    >>> stats = BagStats(np.array([[1.0], [3.0]]), np.array([1.0, 3.0]), np.eye(1))
    >>> model = kernel_model(np.array([2.0]), stats.within_cov, np.eye(1), 3.0)
    >>> posterior = model.posterior(stats, 1.0)
    >>> posterior.mean, posterior.var
    (array([[-0.5 ], [ 0.75]]), array([[0.5 ], [0.25]]))
    >>> posterior.at_size(7.0).var
    array([[0.125]])
    """

    model: EmbeddingModel
    t: Float64[np.ndarray, "n c"]
    sizes: Float64[np.ndarray, " m"]
    size_of: Int[np.ndarray, " n"]
    scale: Float64[np.ndarray, " s"]
    at: tuple[Float64[np.ndarray, " l"], Int[np.ndarray, " n"]] | None = None
    sampling: float = 1.0
    asked: Float64[np.ndarray, " n"] | None = None

    def __len__(self) -> int:
        return len(self.t)

    @cached_property
    def slack(self) -> Float64[np.ndarray, "m c"]:
        """κ at each distinct size, for one η."""
        return slack(self._eta * self._counted(self.sizes), self.model.spectrum)

    @cached_property
    def gain(self) -> Float64[np.ndarray, "m c"]:
        """ηNκ at each distinct size: what (ηr + Σ/N)^-1 becomes in these coordinates, times η."""
        return self._eta * self._counted(self.sizes) * self.slack

    @cached_property
    def mean(self) -> Float64[np.ndarray, "n c"]:
        """Posterior means, for one η; what the bags say, if the embedding is a point."""
        if not self.model.shrinks:
            return self.t
        return (self.gain * self.model.spectrum).take(self.size_of, axis=0) * self.t

    @cached_property
    def var(self) -> Float64[np.ndarray, "l c"]:
        """Posterior variances at each distinct size asked for, for one η; 0 for a point."""
        sizes, _ = (self.sizes, None) if self.at is None else self.at
        if not self.model.shrinks:
            return np.zeros((len(sizes), self.t.shape[1]))
        return left_over(self._eta * self._counted(sizes), self._eta, self.model.spectrum)

    @property
    def var_of(self) -> Int[np.ndarray, " n"]:
        """Row of ``var`` that each bag has."""
        return self.size_of if self.at is None else self.at[1]

    @property
    def asked_sizes(self) -> Float64[np.ndarray, " n"]:
        """Size at which each bag is asked for, whether or not it matters to the embedding."""
        if self.asked is not None:
            return self.asked
        sizes, of = (self.sizes, self.size_of) if self.at is None else self.at
        return sizes[of]

    @property
    def slopes(self) -> tuple[Float64[np.ndarray, "m c"], Float64[np.ndarray, "m c"]]:
        """First and second derivative in log η of means and variances, relative to them."""
        return self.slack, self.slack * (2.0 * self.slack - 1.0)

    @property
    def _eta(self) -> float:
        (scale,) = self.scale
        return float(scale)

    def _counted(self, sizes: Float64[np.ndarray, " m"]) -> Float64[np.ndarray, "m 1"]:
        """Return N/τ as a column, never endless: ∞ times a vanishing λ is no number."""
        if self.sampling == 0.0:
            return np.full((len(sizes), 1), ENDLESS)
        return np.minimum(sizes / self.sampling, ENDLESS)[:, None]

    def at_landmarks(self) -> Float64[np.ndarray, "n d"]:
        """Return the posterior means of the embeddings at the landmarks, for one η."""
        return self.model.prior_mean + self.mean @ self.model.landmark_map.T

    def sd_at_landmarks(self) -> Float64[np.ndarray, "n d"]:
        """Return the posterior standard deviations of the embeddings at the landmarks."""
        return np.sqrt(self.var @ (self.model.landmark_map**2).T)[self.var_of]

    def at_size(self, n_points: float | Float64[np.ndarray, " n"]) -> EmbeddingPosterior:
        """Return what would be known with n points in each bag.

        The means stay: before further points are seen, the expected mean of the later posterior is
        today's (the tower property).
        """
        # Endless bags have a size: ∞ times a vanishing λ is no number.
        sizes = np.minimum(np.asarray(n_points, dtype=np.float64), ENDLESS)
        sizes = np.broadcast_to(sizes, (len(self),))
        return replace(self, at=distinct_sizes(sizes, self.model.shrinks), asked=sizes)

    def moment_scale(self) -> float:
        """Return the η under which bags vary as much as they do, Σ_k ηλ_k = Σ_k (mean t_k² − 1/N).

        Directions in which they vary less than their points would let them count as 0: the floor of
        Σ makes such directions, and by likelihood they would outvote those in which bags differ.
        """
        sizes = self.sizes[self.size_of]
        excess = np.mean(self.t**2, axis=0) - np.mean(1.0 / sizes)
        least = LEAST_SCALE / (self.model.typical() * float(np.median(sizes)))
        total = float(np.sum(self.model.spectrum))
        return max(float(np.maximum(excess, 0.0).sum()) / total, least) if total > 0 else 1.0

    def most_likely_scale(self) -> float:
        """Return the η under which what the bags say is most likely: t_i ~ N(0, ηλ + 1/N_i).

        For who has no labels to learn η from.
        """
        sizes = self.sizes[self.size_of][:, None]

        def loss(log_scale: float) -> float:
            var = np.exp(log_scale) * self.model.spectrum + 1.0 / sizes
            return float(np.sum(np.log(var) + self.t**2 / var))

        middle = -float(np.log(self.model.typical() * np.median(sizes)))
        # There may be several minima, and far out it is flat: first on a grid.
        best = min(middle + np.arange(-LOG_RANGE, LOG_RANGE + 1.0), key=loss)
        bounds = (best - 1.0, best + 1.0)
        return float(np.exp(minimize_scalar(loss, bounds=bounds, method="bounded").x))

    def take(self, bags: Any) -> EmbeddingPosterior:
        """Return the posterior of some of the bags, with the sizes that these have."""
        sizes, size_of = _taken(self.sizes, self.size_of[bags])
        at = None if self.at is None else _taken(self.at[0], self.at[1][bags])
        asked = None if self.asked is None else self.asked[bags]
        return replace(self, t=self.t[bags], sizes=sizes, size_of=size_of, at=at, asked=asked)

    def linear(
        self, w: Float64[np.ndarray, "s q"]
    ) -> tuple[Float64[np.ndarray, "s n"], Float64[np.ndarray, "s l"]]:
        """Return means of ⟨f, μ_i⟩ − ⟨f, m0⟩ and its variances at each distinct size asked for.

        Parameters
        ----------
        w : (s, q), weights of f, one row for each draw of η
        """
        g = w @ self.model.function_map.T
        sizes, _ = (self.sizes, None) if self.at is None else self.at
        if not self.model.shrinks:
            return g @ self.t.T, np.zeros((len(w), len(sizes)))
        eta, spectrum = self.scale[:, None], self.model.spectrum
        mean, var = np.empty((len(w), len(self))), np.empty((len(w), len(sizes)))
        for s, size in enumerate(self._counted(self.sizes)):
            bags = np.flatnonzero(self.size_of == s)
            mean[:, bags] = (shrunk(size * eta, spectrum) * g) @ self.t[bags].T
        for s, size in enumerate(self._counted(sizes)):
            var[:, s] = np.sum(left_over(size * eta, eta, spectrum) * g**2, axis=1)
        return mean, var + self.scale[:, None] * self.model.unseen_variance(w)[:, None]

    def slope(self, g: Float64[np.ndarray, "s c"]) -> Float64[np.ndarray, " d"]:
        """Return v = W (1 − κ) g, averaged over draws: g·e_i = v·(μ̂_i − m0) for the first bag."""
        if self.model.shrinks:
            size = self._counted(self.sizes)[self.size_of[0]]
            g = shrunk(size * self.scale[:, None], self.model.spectrum) * g
        return self.model.projection @ g.mean(axis=0)


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


def kernel_prior(features: Features, stats: BagStats, floor: float) -> EmbeddingModel:
    """Return the model of r = k, for the covariance within bags with this floor."""
    assert stats.within_cov is not None
    prior_mean = stats.mean.mean(axis=0)
    within_cov, prior = with_floor(stats.within_cov, floor), features.kernel_prior()
    if not prior.uu.any():
        raise BagwiseError.because(
            "every feature is 0 wherever a point is: so are all landmarks of a linear kernel",
            "landmarks by which points differ",
            "Leave landmarks out, or give others.",
        )
    if features.same_landmarks:
        return kernel_model(prior_mean, within_cov, prior.uu, float(stats.sizes.max()))
    weight_map = whitening(features.weight_gram())
    return general_model(prior_mean, within_cov, prior, weight_map, same_landmarks=False)


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


def sampling_doubt(log_sampling: float) -> tuple[float, float]:
    """Return −log p(τ), up to a constant, and its slope in log τ.

    Examples
    --------
    >>> sampling_doubt(0.0), round(sampling_doubt(-1.0)[0], 2)
    ((0.0, 0.0), 6.03)
    """
    far = float(np.hypot(log_sampling, ROUND))
    return DOUBT * (far - ROUND), DOUBT * float(log_sampling) / far


def distinct_sizes(
    sizes: Float64[np.ndarray, " n"], shrinks: bool = True
) -> tuple[Float64[np.ndarray, " m"], Int[np.ndarray, " n"]]:
    """Return the distinct sizes and each bag's place among them; to a point all are alike."""
    if not shrinks:
        return np.ones(1), np.zeros(len(sizes), dtype=np.int64)
    distinct, size_of = np.unique(sizes, return_inverse=True)
    return distinct, size_of


def size_groups(
    sizes: Float64[np.ndarray, " n"], most: int = MAX_GROUPS
) -> tuple[Float64[np.ndarray, " g"], Int[np.ndarray, " n"]]:
    """Group bags of about one size: the typical size of each group, and the group of each bag.

    Examples
    --------
    >>> size_groups(np.array([1.0, 2.0, 2.0, 100.0]))
    (array([  1.,   2., 100.]), array([0, 1, 1, 2]))
    """
    distinct, place = np.unique(sizes, return_inverse=True)
    if len(distinct) > most:
        # equally many bags in each, as far as ties allow
        cuts = np.unique(np.quantile(sizes, np.linspace(0.0, 1.0, most + 1)[1:-1]))
        place = np.searchsorted(cuts, sizes, side="left")
        _, place = np.unique(place, return_inverse=True)
        logs = np.bincount(place, np.log(sizes)) / np.bincount(place)
        distinct = np.exp(logs)
    return distinct, place


def _taken(
    sizes: Float64[np.ndarray, " m"], size_of: Int[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " l"], Int[np.ndarray, " n"]]:
    """Return the sizes that are still there, and each bag's place among them."""
    used, place = np.unique(size_of, return_inverse=True)
    return sizes[used], place
