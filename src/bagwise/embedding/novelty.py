"""Novelty: whether a bag is like the bags that a model was fitted to.

    p(bag) = (1 + training bags of about its size that are at least as odd)/(1 + those of its size)

is a p-value: of bags that are drawn as the training bags were, one in twenty has .05 or less,
whatever their size. How odd a bag of N points is, is the Mahalanobis distance of its mean embedding
in the few directions in which training bags differ most,

    odd = x^T C^-1 x,   x_k = v_k·(μ̂ − m0)/√(B_k + S_k/N)

where S_k is what points vary within a bag and B_k what bags vary beside that: a bag of one point is
not odd for being far off by chance. Training bags are judged by the others, in folds, as new ones
are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.linalg import eigh
from scipy.optimize import nnls

from bagwise.embedding.sums import BagStats

# Directions at most, and training bags for each of them.
MOST_DIRECTIONS = 10
BAGS_PER_DIRECTION = 10

# Bags below which nothing is said, and above which some stand for all.
LEAST_BAGS = 10
MOST_BAGS = 3000

# Folds in which training bags are judged.
FOLDS = 5

# Bags of about the size of a new one: so many, or this share of all if that is more.
NEAR_BAGS = 30
NEAR_SHARE = 0.2

# Least variance, as a share of that of the bags; rounds in which B and S are weighted anew.
LEAST_VAR = 1e-9
ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Usual:
    """How mean embeddings of bags vary.

    Attributes
    ----------
    center : (d,), m0;  directions : (d, a), v
    between, within : (a,), B and S;  largest : size above which S counts as for that size
    precision : (a, a), C^-1
    """

    center: Float64[np.ndarray, " d"]
    directions: Float64[np.ndarray, "d a"]
    between: Float64[np.ndarray, " a"]
    within: Float64[np.ndarray, " a"]
    largest: float
    precision: Float64[np.ndarray, "a a"]

    @classmethod
    def of(
        cls,
        mean: Float64[np.ndarray, "n d"],
        sizes: Float64[np.ndarray, " n"],
        within_cov: Float64[np.ndarray, "d d"] | None,
    ) -> Usual:
        """Learn from bags."""
        center = mean.mean(axis=0)
        most = min(MOST_DIRECTIONS, max(len(mean) // BAGS_PER_DIRECTION, 1), mean.shape[1])
        directions = _principal(mean - center, most)
        z, largest = (mean - center) @ directions, np.inf
        if within_cov is not None:
            within = np.sum(directions * (within_cov @ directions), axis=0)
            between = np.maximum(np.mean(z**2 - within / sizes[:, None], axis=0), 0.0)
        elif np.ptp(sizes) > 0.0:
            between, within = _variances(z**2, sizes)
        else:  # nobody knows what another size would do: at worst, all is chance
            largest = float(sizes[0])
            between, within = np.zeros(z.shape[1]), np.mean(z**2, axis=0) * largest
        between = np.maximum(between, LEAST_VAR * np.mean(z**2, axis=0))
        first = cls(center, directions, between, within, largest, np.eye(z.shape[1]))
        x = first._standardised(mean, sizes)
        cov = x.T @ x / len(x)
        cov += LEAST_VAR * np.trace(cov) * np.eye(len(cov))
        return cls(center, directions, between, within, largest, np.linalg.inv(cov))

    def _standardised(
        self, mean: Float64[np.ndarray, "n d"], sizes: Float64[np.ndarray, " n"]
    ) -> Float64[np.ndarray, "n a"]:
        """Return x."""
        counted = np.minimum(sizes, self.largest)[:, None]
        z = (mean - self.center) @ self.directions
        return z / np.sqrt(self.between + self.within / counted)

    def odd(
        self, mean: Float64[np.ndarray, "n d"], sizes: Float64[np.ndarray, " n"]
    ) -> Float64[np.ndarray, " n"]:
        """Return how odd bags are."""
        x = self._standardised(mean, sizes)
        return np.sum((x @ self.precision) * x, axis=1)


def _principal(x: Float64[np.ndarray, "n d"], most: int) -> Float64[np.ndarray, "d a"]:
    """Return the directions in which rows vary most, by the smaller of two square matrices."""
    n, d = x.shape
    square = x.T @ x if d <= n else x @ x.T
    first = max(len(square) - most, 0)
    values, vectors = eigh(square, subset_by_index=(first, len(square) - 1))
    kept = values > LEAST_VAR * max(values[-1], np.finfo(float).tiny)
    if d <= n:
        return vectors[:, kept]
    return x.T @ (vectors[:, kept] / np.sqrt(values[kept]))


def _variances(
    squares: Float64[np.ndarray, "n a"], sizes: Float64[np.ndarray, " n"]
) -> tuple[Float64[np.ndarray, " a"], Float64[np.ndarray, " a"]]:
    """Return B and S of E z² = B + S/N, neither negative, by weighted least squares."""
    found = np.zeros((squares.shape[1], 2))
    columns = np.column_stack([np.ones(len(sizes)), 1.0 / sizes])
    for k, each in enumerate(squares.T):
        var = np.full(len(sizes), each.mean())
        for _ in range(ROUNDS):
            found[k] = nnls(columns / var[:, None], each / var)[0]
            var = np.maximum(columns @ found[k], 1e-3 * each.mean())
    return found[:, 0], found[:, 1]


@dataclass(frozen=True, eq=False)
class Novelty:
    """What is usual among training bags, and how odd each of them is.

    Attributes
    ----------
    usual : Usual, of all of them
    scores, sizes : (b,), how odd each is to the others, and its size

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> novelty = Novelty.of(BagStats(rng.normal(size=(200, 2)), np.full(200, 5.0)))
    >>> novelty(BagStats(np.array([[0.0, 0.5], [9.0, 0.0]]), np.full(2, 5.0))) < 0.05
    array([False,  True])
    """

    usual: Usual
    scores: Float64[np.ndarray, " b"]
    sizes: Float64[np.ndarray, " b"]

    @classmethod
    def of(cls, stats: BagStats) -> Novelty | None:
        """Learn from training bags; None if there are too few, or all are alike."""
        rng, n = np.random.default_rng(0), len(stats.mean)
        order = rng.permutation(n)[:MOST_BAGS]
        mean, sizes, cov = stats.mean[order], stats.sizes[order], stats.within_cov
        if len(mean) < LEAST_BAGS or np.ptp(mean, axis=0).max() == 0.0:
            return None
        scores, fold = np.empty(len(mean)), np.arange(len(mean)) % FOLDS
        for k in range(FOLDS):
            others = Usual.of(mean[fold != k], sizes[fold != k], cov)
            scores[fold == k] = others.odd(mean[fold == k], sizes[fold == k])
        return cls(Usual.of(mean, sizes, cov), scores, sizes.astype(np.float64))

    def __call__(self, stats: BagStats) -> Float64[np.ndarray, " n"]:
        """Return p of bags."""
        odd = self.usual.odd(stats.mean, stats.sizes)
        distinct, of = np.unique(stats.sizes, return_inverse=True)
        p, logs = np.empty(len(odd)), np.log(self.sizes)
        near = min(max(NEAR_BAGS, int(NEAR_SHARE * len(logs))), len(logs))
        for k, size in enumerate(distinct.tolist()):
            away = np.abs(logs - np.log(size))
            usual = np.sort(self.scores[away <= np.partition(away, near - 1)[near - 1]])
            here = of == k
            as_odd = len(usual) - np.searchsorted(usual, odd[here], side="left")
            p[here] = (1.0 + as_odd) / (1.0 + len(usual))
        return p
