"""Bag statistics: what is left of the points once their features are pooled by bag."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import joblib
import numpy as np
from jaxtyping import Float, Float64, Int64
from scipy.sparse import csr_array

from bagwise.bags import Bags, BagStream
from bagwise.features import Features
from bagwise.progress import Progress, wanted
from bagwise.stream import Batch
from bagwise.threads import one_thread

# Features (or points, if these are longer) worked on at once: they stay in the processor's cache.
BLOCK_BYTES = 1 << 21

# Rows per piece from which a product for each beats a sparse product for all: a call takes as long
# as adding up some thirty rows.
LONG_PIECE = 32

# Mean embeddings that may be summed in one pass over a file, when several kernels are tried.
TOGETHER_BYTES = 1 << 28

# Parts of a batch that threads work on: a fixed number, so that sums do not depend on the machine.
BATCH_PARTS = 4

# Features of a bag's points that differ by less, as a share of the largest, are equal.
ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class BagStats:
    """Mean embeddings of bags and the covariance of features within a bag.

    mean_i = Σ_j w_ij φ(x_ij) / Σ_j w_ij
    within_cov = average over bags with two points or more of the bag's unbiased covariance of φ

    Attributes
    ----------
    mean : (n, d)
    sizes : (n,) effective sizes, equal to the numbers of points unless these are weighted
    within_cov : (d, d), or None if it was not asked for or no bag has two points
    """

    mean: Float64[np.ndarray, "n d"]
    sizes: Float64[np.ndarray, " n"]
    within_cov: Float64[np.ndarray, "d d"] | None = None


def summarise(bags: Bags, features: Features, *, covariance: bool = True) -> BagStats:
    """Pool the features of each bag in one pass over the points, in bounded memory.

    Parameters
    ----------
    bags : Bags, or a BagStream, whose points are read from disk
    features : Features, points (n, p) ↦ (n, d)
    covariance : whether to compute within_cov, which costs a product of d × d per point

    Examples
    --------
    >>> from bagwise.features import FourierFeatures
    >>> from bagwise.scaling import Scaling
    >>> bags = Bags.from_list([[[0.0]], [[0.0], [np.pi]]])
    >>> features = FourierFeatures(Scaling.of(np.zeros(1), np.ones(1)), np.array([[1.0]]))
    >>> summarise(bags, features).mean.round(6)
    array([[1., 0.], [0., 0.]])
    """
    if isinstance(bags, BagStream):
        return next(summarise_stream(bags, [features], covariance=covariance))
    with one_thread():  # blocks are small: threads would only wait for each other
        return _summarise(bags, features, covariance)


def _summarise(bags: Bags, features: Features, covariance: bool) -> BagStats:
    d = features.n_outputs
    shares = shares_of(bags)
    unbias = _unbias(bags, shares)
    mean = np.zeros((bags.n_bags, d))
    scatter = np.zeros((d, d))
    split = _SplitBags()
    n_rows = max(1, BLOCK_BYTES // (8 * max(d, bags.n_features)))
    with Progress("pooling points", bags.n_points, wanted()) as bar:
        for block in blocks_of(bags.offsets, n_rows):
            phi = features(bags.points[block.rows])
            pieces = block.pool(phi, shares[block.rows])
            mean[block.bags] += pieces
            bar.advance(len(phi))
            if not covariance:
                continue
            weight = block.total(shares[block.rows])
            centers = pieces / weight[:, None]
            split.add(block, weight, centers)
            phi -= centers[block.piece_of_row]
            phi *= np.sqrt(shares[block.rows] * unbias[block.bags][block.piece_of_row])[:, None]
            scatter += phi.T @ phi
    if not covariance or not unbias.any():
        return BagStats(mean, bags.effective_sizes)
    scatter += split.scatter(mean, unbias)
    return BagStats(mean, bags.effective_sizes, _within_cov(scatter, unbias, mean))


def _within_cov(
    scatter: Float64[np.ndarray, "d d"],
    unbias: Float64[np.ndarray, " n"],
    mean: Float64[np.ndarray, "n d"],
) -> Float64[np.ndarray, "d d"]:
    """Average the scatter over the bags that have one."""
    within_cov = scatter / np.count_nonzero(unbias)
    if np.diag(within_cov).mean() < (ROUNDING * np.abs(mean).max()) ** 2:
        within_cov[:] = 0.0  # the points of each bag are equal
    return within_cov


def shares_of(bags: Bags) -> Float64[np.ndarray, " n_points"]:
    """Return each point's share of its bag; shares of a bag add up to 1."""
    if bags.weights is None:
        return np.repeat(1.0 / bags.sizes, bags.sizes)
    return bags.weights / np.repeat(np.add.reduceat(bags.weights, bags.offsets[:-1]), bags.sizes)


def _unbias(bags: Bags, shares: Float64[np.ndarray, " n_points"]) -> Float64[np.ndarray, " n"]:
    """Return 1/(1 − Σ_j share²), N/(N − 1) without weights; 0 for bags of one point in effect."""
    return _one_over(1.0 - np.add.reduceat(shares**2, bags.offsets[:-1]))


def _one_over(free: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    return np.divide(1.0, free, out=np.zeros_like(free), where=free > 1e-9)


@dataclass(frozen=True, eq=False)
class Block:
    """Consecutive rows, cut into pieces that each belong to one bag."""

    rows: slice
    bags: Int64[np.ndarray, " pieces"]
    starts: Int64[np.ndarray, " pieces+1"]

    @property
    def piece_of_row(self) -> Int64[np.ndarray, " rows"]:
        """Piece to which each row belongs."""
        return np.repeat(np.arange(len(self.bags)), np.diff(self.starts))

    def pool(
        self, phi: Float[np.ndarray, "rows d"], shares: Float64[np.ndarray, " rows"]
    ) -> Float64[np.ndarray, "pieces d"]:
        """Return Σ share φ over each piece: a product for each if long, else one for all."""
        if len(shares) >= LONG_PIECE * len(self.bags):
            pieces = pairwise(self.starts.tolist())
            return np.array([shares[start:stop] @ phi[start:stop] for start, stop in pieces])
        columns = np.arange(len(shares))
        pooling = csr_array((shares, columns, self.starts), shape=(len(self.bags), len(shares)))
        return pooling @ phi

    def total(self, shares: Float64[np.ndarray, " rows"]) -> Float64[np.ndarray, " pieces"]:
        """Return Σ share over each piece; never 0, so that it can be divided by."""
        return np.maximum(np.add.reduceat(shares, self.starts[:-1]), np.finfo(float).tiny)


def blocks_of(offsets: Int64[np.ndarray, " n_offsets"], n_rows: int) -> Iterator[Block]:
    """Cut the stacked points of bags into blocks of n_rows, wherever the bags end."""
    for start in range(0, int(offsets[-1]), n_rows):
        stop = min(start + n_rows, int(offsets[-1]))
        first = int(np.searchsorted(offsets, start, side="right")) - 1
        last = int(np.searchsorted(offsets, stop, side="left"))
        cuts = np.clip(offsets[first : last + 1], start, stop) - start
        yield Block(slice(start, stop), np.arange(first, last), cuts)


class _SplitBags:
    """What the scatter of bags that were cut by the ends of blocks lacks: that of their pieces."""

    def __init__(self) -> None:
        self._bags: list[int] = []
        self._weights: list[float] = []
        self._centers: list[Float64[np.ndarray, " d"]] = []

    def add(
        self,
        block: Block,
        weights: Float64[np.ndarray, " pieces"],
        centers: Float64[np.ndarray, "pieces d"],
    ) -> None:
        """Keep the first and last piece of a block; a whole bag among them adds nothing later."""
        for piece in {0, len(block.bags) - 1}:
            self._bags.append(int(block.bags[piece]))
            self._weights.append(float(weights[piece]))
            self._centers.append(centers[piece])

    def scatter(
        self, mean: Float64[np.ndarray, "n d"], unbias: Float64[np.ndarray, " n"]
    ) -> Float64[np.ndarray, "d d"]:
        """Return Σ over pieces of weight × unbias × (center − mean)(center − mean)^T."""
        bags = np.array(self._bags)
        gaps = np.array(self._centers) - mean[bags]
        return (gaps * (np.array(self._weights) * unbias[bags])[:, None]).T @ gaps


def summarise_stream(
    bags: BagStream, candidates: Sequence[Features], *, covariance: bool = True
) -> Iterator[BagStats]:
    """Pool several features in one pass over a file, or in a few if there are very many bags.

    Rows may come in any order. A bag's points are scattered over batches, so the scatter of each
    piece around its own mean is added up, and that of the mean around the bag's points so far:

    S_(a ∪ b) = S_a + S_b + W_a W_b/(W_a + W_b) (m_a − m_b)(m_a − m_b)^T

    Nothing cancels, however small the spread within bags.

    References
    ----------
    Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance.
    """
    most = max(features.n_outputs for features in candidates)
    together = max(1, TOGETHER_BYTES // (8 * bags.n_bags * most))
    for start in range(0, len(candidates), together):
        pools = [_Pool(bags, f, covariance) for f in candidates[start : start + together]]
        with one_thread(), ThreadPoolExecutor(joblib.cpu_count()) as threads:
            for batch in bags.batches("pooling points"):
                for pool in pools:
                    pool.add(batch, threads)
        yield from (pool.stats() for pool in pools)


_Piece = tuple[Block, Float64[np.ndarray, " k"], Float64[np.ndarray, "k d"]]


class _Pool:
    """Sums of one kind of features over the bags of a stream, as batches of its points come."""

    def __init__(self, bags: BagStream, features: Features, covariance: bool) -> None:
        n, d = bags.n_bags, features.n_outputs
        self._sizes, self._features = bags.effective_sizes, features
        self._unbias = _one_over(1.0 - 1.0 / self._sizes)
        self._covariance = covariance and bool(self._unbias.any())
        self._mean, self._weight = np.zeros((n, d)), np.zeros(n)
        self._scatter = np.zeros((d, d)) if self._covariance else None

    def add(self, batch: Batch, threads: ThreadPoolExecutor) -> None:
        """Pool the features of a batch: parts of it by threads, added up in their order."""
        width = max(self._features.n_outputs, batch.points.shape[1])
        blocks = list(blocks_of(batch.starts, max(1, BLOCK_BYTES // (8 * width))))
        step = -(-len(blocks) // BATCH_PARTS)
        parts = [blocks[start : start + step] for start in range(0, len(blocks), step)]
        for pieces, scatter in threads.map(lambda part: self._pool(batch, part), parts):
            if self._scatter is not None:
                self._scatter += scatter
            for block, weight, sums in pieces:
                self._merge(batch.bags[block.bags], weight, sums)

    def _pool(self, batch: Batch, blocks: Sequence[Block]) -> tuple[list[_Piece], Any]:
        """Return the sums of each block's pieces, and their scatter around their own means."""
        pieces, scatter = list[_Piece](), 0.0
        for block in blocks:
            phi, shares = self._features(batch.points[block.rows]), batch.shares[block.rows]
            sums, weight = block.pool(phi, shares), block.total(shares)
            pieces.append((block, weight, sums))
            if self._scatter is not None:
                phi -= (sums / weight[:, None])[block.piece_of_row]
                unbias = self._unbias[batch.bags[block.bags]]
                phi *= np.sqrt(shares * unbias[block.piece_of_row])[:, None]
                scatter = scatter + phi.T @ phi
        return pieces, scatter

    def _merge(
        self,
        bags: Int64[np.ndarray, " k"],
        weight: Float64[np.ndarray, " k"],
        sums: Float64[np.ndarray, "k d"],
    ) -> None:
        """Add pieces to their bags."""
        before = self._weight[bags]
        if self._scatter is not None:
            gaps = self._mean[bags] / np.maximum(before, np.finfo(float).tiny)[:, None]
            gaps -= sums / weight[:, None]
            harmonic = self._unbias[bags] * before * (weight / (before + weight))
            gaps *= np.sqrt(harmonic)[:, None]
            self._scatter += gaps.T @ gaps
        self._mean[bags] += sums
        self._weight[bags] = before + weight

    def stats(self) -> BagStats:
        """Return what the features say of the bags, after the last batch."""
        if self._scatter is None:
            return BagStats(self._mean, self._sizes)
        within_cov = _within_cov(self._scatter, self._unbias, self._mean)
        return BagStats(self._mean, self._sizes, within_cov)
