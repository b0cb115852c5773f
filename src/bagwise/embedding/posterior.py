"""The posterior of a bag's embedding: the one place where η, λ and N meet.

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
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int
from scipy.optimize import minimize_scalar

if TYPE_CHECKING:
    from bagwise.embedding.model import EmbeddingModel

# Points of a bag of which nothing is left to be known.
ENDLESS = 1e200

# η is sought within e^±this of the one that halves a bag of median size.
LOG_RANGE = 20.0

# Least η found by moments, as a share of the one that halves a bag of median size.
LEAST_SCALE = 1e-3

# Groups of bags of about one size, where each size for itself would take too long.
MAX_GROUPS = 8


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

    Examples
    --------
    >>> from bagwise.embedding.model import kernel_model
    >>> from bagwise.embedding.sums import BagStats
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
        return (self.gain * self.model.spectrum)[self.size_of] * self.t

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
        return replace(self, at=distinct_sizes(sizes, self.model.shrinks))

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
        return replace(self, t=self.t[bags], sizes=sizes, size_of=size_of, at=at)

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
