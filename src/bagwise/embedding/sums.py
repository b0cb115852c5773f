"""Sums over the points of bags: of their features, and of a kernel over all pairs of points.

:class:`BagSums` is the one place where features are summed: for bags in memory, which are a stream
of one batch, for files read in passes, and for points that come later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice, pairwise
from threading import local
from typing import Any, TypeVar

import joblib
import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from scipy.sparse import csr_array

from bagwise._utils.work import Progress, one_thread, wanted
from bagwise.bags.bags import Bags, BagStream
from bagwise.bags.stacked import Batch
from bagwise.features.kernels import Kernel, Linear
from bagwise.features.maps import Features, Scaling, point_weights

S = TypeVar("S")
T = TypeVar("T")

# Features (or points, if these are longer) that a thread works on at once, and how many times as
# many if there are very many points, so that each call is worth it: of what a kernel works on,
# smaller pieces stay in a core's cache.
BLOCK_BYTES = 1 << 20
LONGER_BLOCKS = 4

# Rows per piece from which a product for each beats a sparse product for all: a call takes as long
# as adding up some hundred rows.
LONG_PIECE = 128

# Mean embeddings that may be summed in one pass over a file, when several kernels are tried.
TOGETHER_BYTES = 1 << 28

# Blocks that a thread works on before their sums are added up: a fixed number, so that sums do not
# depend on the machine; and parts of so many blocks that are under way at once.
PART_BLOCKS = 2
PARTS = 4

# Points on each side of the pairs worked on at once: 8 MB of kernel values.
PAIR_POINTS = 1024

# Points beyond which sums are made cheaper, and, if they are, points and bags at least from which
# the covariance within bags is taken: see :class:`Thrift`.
MANY_POINTS = 2_000_000
SCATTER_POINTS = 1_000_000
SCATTER_BAGS = 2000

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

    def counted(self, sampling: float) -> BagStats:
        """Return bags that count as N/τ points: see τ in :mod:`bagwise.embedding.posterior`."""
        return self if sampling == 1.0 else replace(self, sizes=self.sizes / sampling)


@dataclass(frozen=True)
class Thrift:
    """What sums over very many points do without.

    Single precision rounds a feature that is at most 1 by at most 2^-23, and sums are in double: a
    mean embedding is wrong by at most 1.2e-7, and by far less on average, where its own standard
    error is above 1e-5 for bags of up to 10^9 points. The covariance within bags is an average over
    bags; over some of them, drawn by their number, it is known about as well.

    Attributes
    ----------
    single : whether features have single precision
    share : of bags with two points or more whose covariance counts

    Examples
    --------
    >>> Thrift.of(Bags.from_list([[[0.0], [1.0]]]))
    Thrift(single=False, share=1.0)
    """

    single: bool = False
    share: float = 1.0

    @classmethod
    def of(
        cls,
        bags: Bags,
        many_points: int = MANY_POINTS,
        scatter_points: int = SCATTER_POINTS,
        scatter_bags: int = SCATTER_BAGS,
    ) -> Thrift:
        """Return what is done without for these bags: nothing, unless there are many points."""
        if bags.n_points <= many_points:
            return cls()
        at_least = scatter_bags / max(1, int(np.sum(bags.sizes > 1)))
        return cls(True, float(min(1.0, max(at_least, scatter_points / bags.n_points))))

    def counts(self, numbers: Int64[np.ndarray, " k"]) -> Bool[np.ndarray, " k"]:
        """Return which bags have a say in the covariance, the same ones wherever they are."""
        mixed = numbers.astype(np.uint64)
        for shift, factor in MIXING:  # the finaliser of splitmix64: neighbours become unlike
            mixed = (mixed ^ (mixed >> shift)) * factor
        return (mixed >> np.uint64(11)) * 2.0**-53 < self.share


MIXING = (
    (np.uint64(32), np.uint64(0x9E3779B97F4A7C15)),
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def summarise(
    bags: Bags, features: Features, *, covariance: bool = True, thrift: Thrift | None = None
) -> BagStats:
    """Sum the features of each bag in one pass over the points, in bounded memory.

    Parameters
    ----------
    bags : Bags, or a BagStream, whose points are read from disk
    features : Features, points (n, p) ↦ (n, d)
    covariance : whether to compute within_cov, which costs a product of d × d per point
    thrift : what is done without, by default nothing unless there are very many points

    Examples
    --------
    >>> from bagwise.features.maps import FourierFeatures
    >>> from bagwise.features.maps import Scaling
    >>> bags = Bags.from_list([[[0.0]], [[0.0], [np.pi]]])
    >>> features = FourierFeatures(Scaling.of(np.zeros(1), np.ones(1)), np.array([[1.0]]))
    >>> summarise(bags, features).mean.round(6)
    array([[1., 0.], [0., 0.]])
    """
    return next(summarise_each(bags, [features], covariance=covariance, thrift=thrift))


def summarise_each(
    bags: Bags,
    candidates: Sequence[Features],
    *,
    covariance: bool = True,
    together_bytes: int = TOGETHER_BYTES,
    thrift: Thrift | None = None,
) -> Iterator[BagStats]:
    """Sum several features: of a file in one pass, or in a few if there are very many bags.

    In memory a pass costs nothing, so that each waits until the one before is used.

    Parameters
    ----------
    thrift : what is done without, by default nothing unless there are very many points
    """
    together, thrift = 1, Thrift.of(bags) if thrift is None else thrift
    if isinstance(bags, BagStream):
        most = max(features.n_outputs for features in candidates)
        together = max(1, together_bytes // (8 * bags.n_bags * most))
    for start in range(0, len(candidates), together):
        some, sums = candidates[start : start + together], list[BagSums]()
        if any(features.point_weights is not None for features in some):
            sums = [BagSums.of(bags, features, covariance) for features in some]
            yield from (each.finish() for each in _added(bags, sums))
            continue
        work = partial(_sums_of, candidates=some, covariance=covariance, thrift=thrift)
        for found, places in bags.map_parts(work, "pooling points"):
            if not sums and np.array_equal(places, np.arange(bags.n_bags)):  # all, in this order
                sums = found
                continue
            sums = sums or _empty(bags, some, covariance, thrift)
            with one_thread("blas"):
                for total, part in zip(sums, found, strict=True):
                    total.merge(part, places)
        yield from (each.finish() for each in sums)


def _sums_of(
    part: Any, candidates: Sequence[Features], covariance: bool, thrift: Thrift
) -> list[BagSums]:
    """Sum the features of a part of the bags, in one pass over its points."""
    return _added(part, _empty(part, candidates, covariance, thrift))


def _empty(
    part: Any, candidates: Sequence[Features], covariance: bool, thrift: Thrift
) -> list[BagSums]:
    """Return sums to which no point was added yet."""
    sizes, counted = part.effective_sizes, thrift.counts(part.numbers)
    return [
        BagSums(features, sizes, covariance, counted=counted, single=thrift.single)
        for features in candidates
    ]


def _added(part: Any, sums: list[BagSums]) -> list[BagSums]:
    """Add all points of a part of the bags to sums."""
    # Threads of our own, each with a part of the blocks: BLAS's would wait for each other. The
    # workers of a cluster have one for each piece.
    n_threads = joblib.cpu_count() if isinstance(part, Bags) else 1
    with one_thread(), ThreadPoolExecutor(n_threads) as threads:
        add_batches(sums, part.batches("pooling points"), threads)
    return sums


def add_batches(
    sums: Sequence[BagSums], batches: Iterable[Batch], threads: ThreadPoolExecutor | None = None
) -> None:
    """Add points to several sums: parts of batches by threads, what comes of them in order.

    The parts of a batch follow those of the one before, so that no thread waits for its end.
    """
    parts = (part for batch in batches for each in sums for part in each.parts(batch))
    for each, batch, pieces, scatter in in_order(_pooled, parts, threads):
        each.take_in(batch, pieces, scatter)


def _pooled(part: _Part) -> tuple[BagSums, Batch, list[_Piece], Any]:
    each, batch, blocks = part
    return each, batch, *each._pool(batch, blocks)


def in_order(
    work: Callable[[S], T], parts: Iterable[S], threads: ThreadPoolExecutor | None
) -> Iterator[T]:
    """Do work on parts, some at a time in threads, while what came of those before is used.

    Examples
    --------
    >>> with ThreadPoolExecutor(2) as threads:
    ...     list(in_order(abs, [-1, 2, -3], threads))
    [1, 2, 3]
    """
    if threads is None:
        yield from map(work, parts)
        return
    waiting = iter(parts)
    under_way = deque(threads.submit(work, part) for part in islice(waiting, PARTS))
    while under_way:
        done = under_way.popleft().result()
        under_way.extend(threads.submit(work, part) for part in islice(waiting, 1))
        yield done


def unbiasing(sizes: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Return N/(N − 1); 0 for bags of one point in effect, which have no covariance.

    Examples
    --------
    >>> unbiasing(np.array([1.0, 2.0]))
    array([0., 2.])
    """
    free = 1.0 - 1.0 / sizes
    return np.divide(1.0, free, out=np.zeros_like(free), where=free > 1e-9)


def without_rounding(
    within_cov: Float64[np.ndarray, "d d"], mean: Float64[np.ndarray, "n d"]
) -> Float64[np.ndarray, "d d"]:
    """Return the covariance within bags, or 0 if it is rounding error of points that are equal."""
    if np.diag(within_cov).mean() < (ROUNDING * np.abs(mean).max()) ** 2:
        within_cov[:] = 0.0
    return within_cov


def weighed(bags: Bags, features: Features | None) -> Bags:
    """Return bags in memory whose points have the weights that features give them, if they do."""
    if features is None or features.point_weights is None:
        return bags
    own = 1.0 if bags.weights is None else bags.weights
    return bags._like(weights=own * point_weights(features, features(bags.points)))


class BagSums:
    """Sums of features over bags, as points come: in any batches, in any order.

    Of each bag Σ_j s_j and Σ_j s_j φ(x_j), with s the points' shares of their bag; of all bags
    together the scatter around their means. When points b join points a of a bag,

    S_(a ∪ b) = S_a + S_b + s_a s_b/(s_a + s_b) (m_a − m_b)(m_a − m_b)^T

    so that nothing cancels, however small the spread within bags.

    Parameters
    ----------
    features : Features, points (n, p) ↦ (n, d)
    sizes : (n,), effective sizes of the bags, by which shares are made into unbiased covariances
    covariance : whether to sum the scatter too
    block_bytes : what a thread works on at once
    totals : (n,), Σ_j s_j w(x_j) of each bag, if the features weigh points: see :meth:`of`
    counted : (n,), bags that have a say in the covariance, by default all with two points or more
    single : whether features have single precision; what they are added up to has double

    References
    ----------
    Chan, Golub, LeVeque (1983), Algorithms for computing the sample variance.

    Examples
    --------
    >>> from bagwise.features.maps import FourierFeatures
    >>> from bagwise.features.maps import Scaling
    >>> bags = Bags.from_list([[[0.0]], [[0.0], [np.pi]]])
    >>> features = FourierFeatures(Scaling.of(np.zeros(1)), np.array([[1.0]]))
    >>> first, second = (BagSums(features, bags.effective_sizes) for _ in range(2))
    >>> (batch,) = bags.batches()
    >>> first.add(batch.take(slice(0, 1)))
    >>> second.add(batch.take(slice(1, 2)))
    >>> first.merge(second).finish().mean.round(6)
    array([[1., 0.], [0., 0.]])
    """

    def __init__(
        self,
        features: Features,
        sizes: Float64[np.ndarray, " n"],
        covariance: bool = True,
        block_bytes: int | None = None,
        totals: Float64[np.ndarray, " n"] | None = None,
        counted: Bool[np.ndarray, " n"] | None = None,
        single: bool = False,
    ) -> None:
        n, d = len(sizes), features.n_outputs
        self._totals = totals
        self._sizes, self._features = sizes, features
        self._single, self._scratch = single, local()
        self._unbias = unbiasing(sizes)
        if counted is not None:
            self._unbias[~counted] = 0.0
        self._mean, self._weight = np.zeros((n, d)), np.zeros(n)
        wanted = covariance and bool(self._unbias.any())
        self._scatter = np.zeros((d, d)) if wanted else None
        self._block_bytes = BLOCK_BYTES if block_bytes is None else block_bytes

    @classmethod
    def of(cls, bags: Bags, features: Features, covariance: bool = True) -> BagSums:
        """Return empty sums for bags.

        Where the features weigh points, w(x) = exp(g·φ(x)), one pass finds the sum of the weights
        of each bag and its size, (Σ s w)² / Σ (s w)²: if three points have all the weight, 3.
        """
        if features.point_weights is None:
            return cls(features, bags.effective_sizes, covariance)
        total, squares = np.zeros(bags.n_bags), np.zeros(bags.n_bags)
        for batch in bags.batches("weighing points"):
            for block in blocks_of(batch.starts, max(1, BLOCK_BYTES // (8 * features.n_outputs))):
                weighed = batch.shares[block.rows] * point_weights(
                    features, features(batch.points[block.rows])
                )
                owner = batch.bags[block.bags][block.piece_of_row]
                total += np.bincount(owner, weighed, bags.n_bags)
                squares += np.bincount(owner, weighed**2, bags.n_bags)
        return cls(features, total**2 / squares, covariance, totals=total)

    def add(self, batch: Batch, threads: ThreadPoolExecutor | None = None) -> None:
        """Add points: parts of the batch by threads, their sums in order."""
        add_batches([self], [batch], threads)

    def parts(self, batch: Batch) -> Iterator[_Part]:
        """Cut a batch into parts, of some blocks each, with a progress bar if there are many."""
        width = max(self._features.n_outputs, batch.points.shape[1])
        n_rows = self._block_bytes // (8 * width) * (LONGER_BLOCKS if self._single else 1)
        blocks = list(blocks_of(batch.starts, max(1, n_rows)))
        parts = [blocks[i : i + PART_BLOCKS] for i in range(0, len(blocks), PART_BLOCKS)]
        with Progress("pooling points", len(parts), wanted() and len(parts) > PARTS) as bar:
            for part in parts:
                yield self, batch, part
                bar.advance(1)

    def take_in(
        self, batch: Batch, pieces: list[_Piece], scatter: Float64[np.ndarray, "d d"] | float
    ) -> None:
        """Add what was found of a part of a batch."""
        if self._scatter is not None:
            self._scatter += scatter
        for block, weight, sums in pieces:
            self._join(batch.bags[block.bags], weight, sums)

    def merge(self, other: BagSums, bags: Int64[np.ndarray, " k"] | None = None) -> BagSums:
        """Add the sums of other points of the same bags, or of those of these numbers.

        Returns itself.
        """
        if self._scatter is not None and other._scatter is not None:
            self._scatter += other._scatter
        seen = np.flatnonzero(other._weight > 0)
        here = seen if bags is None else bags[seen]
        self._join(here, other._weight[seen], other._mean[seen])
        return self

    def finish(self) -> BagStats:
        """Return what the features say of the bags, once all points were added."""
        if self._scatter is None:
            return BagStats(self._mean, self._sizes)
        within_cov = self._scatter / np.count_nonzero(self._unbias)
        return BagStats(self._mean, self._sizes, without_rounding(within_cov, self._mean))

    def _pool(
        self, batch: Batch, blocks: Sequence[Block]
    ) -> tuple[list[_Piece], Float64[np.ndarray, "d d"] | float]:
        """Return the sums of each block's pieces, and their scatter around their own means."""
        d = self._features.n_outputs
        pieces, scatter = list[_Piece](), 0.0 if self._scatter is None else np.zeros((d, d))
        for block in blocks:
            phi = self._phi(batch.points[block.rows])
            shares, bags = batch.shares[block.rows], batch.bags[block.bags]
            if self._totals is not None:
                total = self._totals[bags][block.piece_of_row]
                shares = shares * point_weights(self._features, phi) / total
            sums, weight = block.pool(phi, shares), block.total(shares)
            pieces.append((block, weight, sums))
            if self._scatter is not None:
                scatter += _scatter(block, phi, shares, sums / weight[:, None], self._unbias[bags])
        return pieces, scatter

    def _phi(self, points: Shaped[np.ndarray, "n p"]) -> Float[np.ndarray, "n d"]:
        """Return the features of points; in single precision, until the thread asks again."""
        if not self._single:
            return self._features(points)
        scratch = getattr(self._scratch, "phi", None)
        if scratch is None or len(scratch) < len(points):
            scratch = self._scratch.phi = np.empty((len(points), self._features.n_outputs))
        return self._features.single(points, scratch)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_scratch"}

    def _join(
        self,
        bags: Int64[np.ndarray, " k"],
        weight: Float64[np.ndarray, " k"],
        sums: Float64[np.ndarray, "k d"],
    ) -> None:
        """Add sums of pieces to those of their bags."""
        before = self._weight[bags]
        if self._scatter is not None:
            met = np.flatnonzero((before > 0) & (self._unbias[bags] > 0))
            old, new = before[met], weight[met]
            gaps = self._mean.take(bags[met], axis=0) / old[:, None]
            gaps -= sums.take(met, axis=0) / new[:, None]
            gaps *= np.sqrt(self._unbias[bags[met]] * old * (new / (old + new)))[:, None]
            self._scatter += gaps.T @ gaps
        self._mean[bags] = self._mean.take(bags, axis=0) + sums
        self._weight[bags] = before + weight


def _scatter(
    block: Block,
    phi: Float[np.ndarray, "rows d"],
    shares: Float64[np.ndarray, " rows"],
    means: Float64[np.ndarray, "pieces d"],
    unbias: Float64[np.ndarray, " pieces"],
) -> Float64[np.ndarray, "d d"]:
    """Return Σ u s (φ − m)(φ − m)^T over the rows of pieces that count; φ is overwritten.

    In double, whatever φ is: else it would depend on where blocks end, and so on the cluster.
    """
    piece = block.piece_of_row
    counted = unbias > 0
    if not counted.all():
        rows = np.flatnonzero(counted[piece])
        phi, shares, piece = phi.take(rows, axis=0), shares[rows], piece[rows]
    phi = phi.astype(np.float64, copy=False)
    phi -= means.take(piece, axis=0)
    phi *= np.sqrt(shares * unbias[piece])[:, None]
    return phi.T @ phi


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
        phi = phi.astype(np.float64, copy=False)
        if len(shares) >= LONG_PIECE * len(self.bags):
            pieces = pairwise(self.starts.tolist())
            return np.array([shares[start:stop] @ phi[start:stop] for start, stop in pieces])
        columns, starts = np.arange(len(shares), dtype=np.int32), self.starts.astype(np.int32)
        pooling = csr_array((shares, columns, starts), shape=(len(self.bags), len(shares)))
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


def bag_gram(
    kernel: Kernel, scaling: Scaling, left: Bags, right: Bags
) -> Float64[np.ndarray, "n m"]:
    """Return K_ij = Σ_a Σ_b w_ia w_jb k(x_ia, x_jb), weights of each bag adding up to 1.

    ⟨μ̂_i, μ̂_j⟩ in the RKHS of k, in bounded memory; time grows with the product of the numbers of
    points. If both sides are the same bags, half of it is computed. For the linear kernel the
    sums are inner products of means, and cost next to nothing.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0], [3.0]], [[5.0]]])
    >>> bag_gram(Linear(), Scaling.of(np.zeros(1), np.ones(1)), bags, bags)
    array([[ 4., 10.], [10., 25.]])
    """
    if isinstance(kernel, Linear):
        return _means(left, scaling) @ _means(right, scaling).T
    same = left is right
    gram = np.zeros((left.n_bags, right.n_bags))
    left_shares, right_shares = left.shares, right.shares
    with Progress("pairs of points", left.n_points, wanted() and left.n_bags > 1) as bar:
        for a in blocks_of(left.offsets, PAIR_POINTS):
            x = scaling(left.points[a.rows])
            for b in blocks_of(right.offsets, PAIR_POINTS):
                if same and b.rows.start < a.rows.start:
                    continue
                half = a.pool(kernel(x, scaling(right.points[b.rows])), left_shares[a.rows])
                part = b.pool(half.T, right_shares[b.rows])
                gram[np.ix_(a.bags, b.bags)] += part.T
                if same and b.rows.start > a.rows.start:
                    gram[np.ix_(b.bags, a.bags)] += part
            bar.advance(len(x))
    return gram


def bag_norms(kernel: Kernel, scaling: Scaling, bags: Bags) -> Float64[np.ndarray, " n"]:
    """Return K_ii = ‖μ̂_i‖² for each bag."""
    single = (bags[i : i + 1] for i in range(bags.n_bags))
    return np.array([bag_gram(kernel, scaling, bag, bag)[0, 0] for bag in single])


def _means(bags: Bags, scaling: Scaling) -> Float64[np.ndarray, "n p"]:
    means, shares = np.zeros((bags.n_bags, bags.n_features)), bags.shares
    for block in blocks_of(bags.offsets, PAIR_POINTS):
        means[block.bags] += block.pool(scaling(bags.points[block.rows]), shares[block.rows])
    return means


_Part = tuple["BagSums", Batch, Sequence[Block]]
_Piece = tuple[Block, Float64[np.ndarray, " k"], Float64[np.ndarray, "k d"]]
