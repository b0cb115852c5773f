"""Features of points: how they are scaled, where the landmarks lie, and what a point becomes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import Bool, Float, Float64, Shaped
from scipy.spatial.distance import pdist

from bagwise._utils.work import one_thread
from bagwise.bags.bags import Bags, BagStream
from bagwise.bags.validation import Objects
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.features.kernels import Kernel, convolved

Columns = Float64[np.ndarray, " p"]

# Points worked on at once: so many rows, or fewer if these are long.
BLOCK_ROWS = 1 << 16
BLOCK_NUMBERS = 1 << 22

# Points used to find out where ordinary values lie, if no sample is given.
FENCE_POINTS = 20_000

# Values so many ordinary standard deviations away are fill values (9.97e36, 1e6, -999999) or slips
# of a unit: they have no say in what is ordinary, and count as lying here. Of a Gaussian column no
# value is beyond 10, of a heavy-tailed one (three degrees of freedom, a million points) none
# beyond 100.
FENCE = 100.0

# Central shares of the values by which the ordinary spread is measured: the first that is not 0,
# as more than half of a column may be equal; and half its width for a standard normal.
SHARES = ((0.5, 0.6745), (0.98, 2.3263), (0.998, 3.0902))

# Spread below this share of a column's size is rounding error: the column is constant.
CONSTANT = 1e-12

# Enough points for k-means centres and for a median; more would cost time and change little.
SAMPLE_POINTS = 20_000
MEDIAN_POINTS = 2_000
# With thousands of features fewer points are drawn, but no fewer than for the median.
SAMPLE_NUMBERS = 1 << 24

# Of distances, those that are looked at first, and the shares of them around the middle.
MEDIAN_STRIDE = 97
MEDIAN_SHARES = (0.47, 0.53)

# Learnt weights of points are between e^-20 and e^20.
MOST_LOG_WEIGHT = 20.0

# Landmarks when the user leaves their number to us: the middle of the paper's grid.
DEFAULT_LANDMARKS = 60


@dataclass(frozen=True, eq=False)
class Scaling:
    """Affine map of points, x ↦ (x − center) / scale, to float64, after x is brought within reach.

    Attributes
    ----------
    center, scale : (p,)
    reach : (p,), the largest |x − center|; beyond it, values count as lying there

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 5.0]], [[3.0, 5.0]]])
    >>> Scaling.fit(bags)(bags.points)
    array([[-1.,  0.], [ 1.,  0.]])
    """

    center: Columns
    scale: Columns
    reach: Columns

    @classmethod
    def of(cls, center: Columns, scale: Columns | None = None) -> Scaling:
        """Return the map with this center and scale (1 if none) that reaches as far as numbers do.

        Examples
        --------
        >>> Scaling.of(np.zeros(1))(np.array([[1e9]]))
        array([[1.e+09]])
        """
        ones = np.ones_like(center)
        return cls(center, ones if scale is None else scale, ones * np.finfo(np.float64).max)

    @classmethod
    def fit(
        cls,
        bags: Bags,
        *,
        standardize: bool = True,
        sample: Float[np.ndarray, "m p"] | None = None,
    ) -> Scaling:
        """Take the mean and standard deviation of all points; only the mean if not standardize.

        Values far beyond the ordinary ones of a sample of the points (see :data:`FENCE`) are left
        out. Constant columns are left at scale 1; of those that have one value everywhere the reach
        is 0: whatever they are in other points, nothing was learnt of it. If all are constant there
        is nothing to learn from.
        """
        if sample is None:
            sample = bags.points if bags.weights is None else bags.points[bags.weights > 0]
            sample = sample[:: -(-len(sample) // FENCE_POINTS)]
        center, scale = _moments(bags, *ordinary_range(sample.astype(np.float64)))
        constant = scale <= CONSTANT * np.abs(center)
        if constant.all():
            raise InvalidBagsError.because(
                "every feature is constant: all points are equal",
                "at least one feature that varies",
                "Check the columns; if only the bag sizes vary, use bags.with_log_size() and an "
                "ordinary regression on bags.covariates.",
            )
        scale = np.where(constant, 1.0, scale)
        reach = FENCE * scale
        if constant.any():
            reach[constant & _one_value(bags)] = 0.0
        return cls(center, scale if standardize else np.ones_like(scale), reach)

    def __call__(self, points: Shaped[np.ndarray, "n p"]) -> Shaped[np.ndarray, "n p"]:
        """Return the scaled points (n, p); objects, which have no scale, as they are."""
        if isinstance(points, Objects):
            return points
        scaled = points - self.center
        np.clip(scaled, -self.reach, self.reach, out=scaled)
        scaled /= self.scale
        return scaled

    def undo(self, points: Shaped[np.ndarray, "n p"]) -> Shaped[np.ndarray, "n p"]:
        """Return scaled points in the units of the input."""
        return points if isinstance(points, Objects) else points * self.scale + self.center


def _one_value(bags: Bags) -> Bool[np.ndarray, " p"]:
    """Return which columns are the same at every point; where a stream does not know, none."""
    if not isinstance(bags, BagStream):
        return bags.points.min(axis=0) == bags.points.max(axis=0)
    if bags.feature_range is None:
        return np.zeros(bags.n_features, dtype=bool)
    return np.equal(*bags.feature_range)


def ordinary_range(
    points: Float64[np.ndarray, "m p"],
) -> tuple[Columns, Columns]:
    """Return, for each column, the least and the largest value that is not a gross outlier.

    median ± 100 s, with s the width of the middle half of the values, in units of a standard
    normal's; or of more of them, where half of the values are equal. A column of which nearly all
    values are equal has no ordinary spread, hence no limits.

    Examples
    --------
    >>> ordinary_range(np.array([[0.0], [1.0], [2.0], [3.0], [9.97e36]]))[1].round()
    array([150.])
    """
    middle, spread = np.median(points, axis=0), np.zeros(points.shape[1])
    for share, width in SHARES:
        low, high = np.quantile(points, [(1.0 - share) / 2.0, (1.0 + share) / 2.0], axis=0)
        spread = np.where(spread > 0, spread, (high - low) / (2.0 * width))
    reach = np.where(spread > 0, FENCE * spread, np.inf)
    return middle - reach, middle + reach


def _moments(bags: Bags, low: Columns, high: Columns) -> tuple[Columns, Columns]:
    """Return the mean and standard deviation of all points within limits.

    Of a stream they are known, and only if some points lie outside is it read once more.
    """
    if isinstance(bags, BagStream) and bags.feature_range is not None:
        least, largest = bags.feature_range
        if (least >= low).all() and (largest <= high).all():
            assert bags.feature_mean is not None and bags.feature_std is not None
            return bags.feature_mean, bags.feature_std
    title, p = "measuring columns", bags.n_features
    total, counts = np.zeros(p), np.zeros(p)
    for (sums, inside), _ in bags.map_parts(partial(_sums, low=low, high=high), title):
        total, counts = total + sums, counts + inside
    center, squares = total / counts, np.zeros(p)
    for sums, _ in bags.map_parts(partial(_squares, low=low, high=high, center=center), title):
        squares = squares + sums
    return center, np.sqrt(squares / counts)


def _sums(part: Any, low: Columns, high: Columns) -> tuple[Columns, Columns]:
    """Return the sum of the points of a part within limits, and their number, by column."""
    total, counts = np.zeros(len(low)), np.zeros(len(low))
    for block in _blocks(part):
        inside = (block >= low) & (block <= high)
        total = total + np.where(inside, block, 0.0).sum(axis=0)
        counts = counts + inside.sum(axis=0)
    return total, counts


def _squares(part: Any, low: Columns, high: Columns, center: Columns) -> Columns:
    """Return the sum of squares about a center."""
    squares = np.zeros(len(low))
    for block in _blocks(part):
        inside = (block >= low) & (block <= high)
        squares = squares + (np.where(inside, block - center, 0.0) ** 2).sum(axis=0)
    return squares


def _blocks(bags: Any) -> Iterator[Float64[np.ndarray, "n p"]]:
    rows = max(1, min(BLOCK_ROWS, BLOCK_NUMBERS // bags.n_features))
    for batch in bags.batches("measuring columns"):
        for start in range(0, len(batch.points), rows):
            block = slice(start, start + rows)
            counted = batch.shares[block] > 0 if bags.weighted else slice(None)
            yield batch.points[block][counted].astype(np.float64)


def sample_points(
    bags: Bags, rng: np.random.Generator, n: int = SAMPLE_POINTS
) -> Shaped[np.ndarray, "m p"]:
    """Return at most n points drawn without replacement from all bags, in random order.

    Points of weight 0 are left out. From a stream the same points are drawn as from the same bags
    in memory.
    """
    n = min(n, max(MEDIAN_POINTS, SAMPLE_NUMBERS // bags.n_features))
    rows = rng.choice(bags.n_points, min(n, bags.n_points), replace=False)
    if isinstance(bags, BagStream):
        drawn, shares = bags.rows_at(rows)
        drawn = drawn[shares > 0]
    else:
        drawn = bags.points[rows if bags.weights is None else rows[bags.weights[rows] > 0]]
    return drawn if isinstance(drawn, Objects) else drawn.astype(np.float64, copy=False)


def median_bandwidth(points: Float64[np.ndarray, "m p"], kernel: Kernel) -> float:
    """Median heuristic: σ_k = sqrt(median‖x − x'‖²/2), over the pairs of at most 2,000 points.

    For a kernel on single coordinates, of the average coordinate's share of the distance. If more
    than half of the pairs are equal the mean takes the median's place.
    """
    squared = pdist(points[:MEDIAN_POINTS], "sqeuclidean")
    typical = median(squared) or squared.mean() or 1.0
    return float(np.sqrt(typical * kernel.spread(points.shape[1]) / 2.0))


def median(values: Float64[np.ndarray, " n"]) -> float:
    """Return the median of many numbers in any order: that of np.median, in a quarter of the time.

    Some of them tell between which two the middle lies; only what is there has to be sorted.

    Examples
    --------
    >>> median(np.array([4.0, 1.0, 3.0, 2.0]))
    2.5
    """
    if len(values) < MEDIAN_STRIDE:
        return float(np.median(values))
    some = np.sort(values[::MEDIAN_STRIDE])
    low, high = some[[int(share * len(some)) for share in MEDIAN_SHARES]]
    between = values[(values >= low) & (values <= high)]
    first = (len(values) - 1) // 2 - np.count_nonzero(values < low)
    last = first + (len(values) + 1) % 2
    if first < 0 or last >= len(between):  # the middle is not there
        return float(np.median(values))
    return float(np.partition(between, [first, last])[[first, last]].mean())


def choose_landmarks(
    points: Float64[np.ndarray, "m p"],
    how: str,
    n_landmarks: int | None,
    rng: np.random.Generator,
    default: int = DEFAULT_LANDMARKS,
) -> Float64[np.ndarray, "d p"]:
    """Return landmarks: k-means centres of the points, or some of the points at random.

    Parameters
    ----------
    points : (m, p) scaled points
    how : "kmeans" or "random"
    n_landmarks : int, or None for the default or as many as there are distinct points, if fewer
    """
    distinct = np.unique(points, axis=0)
    if n_landmarks is None:
        n_landmarks = min(default, len(distinct))
    if len(distinct) < n_landmarks:
        raise BagwiseError.because(
            f"there are {len(distinct)} distinct points for {n_landmarks} landmarks",
            "at least as many distinct points as landmarks",
            f"Use n_landmarks={len(distinct)} or fewer, or leave it out.",
        )
    if how == "random":
        return distinct[rng.choice(len(distinct), n_landmarks, replace=False)]
    if len(distinct) == n_landmarks:
        return distinct
    from sklearn.cluster import KMeans  # slow to import, and only needed here

    seed = int(rng.integers(2**31))
    # Points that differ by less than squares can tell are fewer centres, which do as well.
    with one_thread(), warnings.catch_warnings():  # threads: as in bagwise.embedding.sums.summarise
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        return KMeans(n_landmarks, n_init=1, random_state=seed).fit(points).cluster_centers_


def spanning_landmarks(others: Float64[np.ndarray, "d p"]) -> Float64[np.ndarray, "q p"]:
    """Return landmarks of a linear kernel: unit vectors, by which features are the columns.

    Landmarks that span the same space are the same kernel, but another prior of models whose
    weights are alike by it (ridge, Bayesian linear regression): that of as many k-means centres as
    there are columns favours some directions a thousand times over others. Where there are more
    columns than other landmarks, those stay.

    Parameters
    ----------
    others : (d, p) scaled landmarks of other kernels

    Examples
    --------
    >>> spanning_landmarks(np.array([[1.0, 5.0], [2.0, 5.0], [2.0, 4.0]]))
    array([[1., 0.], [0., 1.]])
    """
    n, p = others.shape
    return np.eye(p) if p <= n else others


def drawn_landmarks(
    points: Shaped[np.ndarray, "m p"], n: int | None, rng: np.random.Generator, default: int
) -> Shaped[np.ndarray, "d p"]:
    """Return some of the points, drawn at random, for kernels that know nothing else.

    Of objects that can be told apart each is drawn once at most.
    """
    if not isinstance(points, Objects):
        return choose_landmarks(points, "random", n, rng, default)
    try:
        distinct = list(dict.fromkeys(points.listed()))
    except TypeError:  # lists, sets, arrays: they have no hash
        distinct = points.listed()
    n = min(default, len(distinct)) if n is None else n
    if len(distinct) < n:
        raise BagwiseError.because(
            f"there are {len(distinct)} distinct objects for {n} landmarks",
            "at least as many distinct objects as landmarks",
            f"Use n_landmarks={len(distinct)} or fewer, or leave it out.",
        )
    return Objects.of(distinct[i] for i in rng.choice(len(distinct), n, replace=False).tolist())


def given_landmarks(
    landmarks: Any, scaling: Scaling, name: str = "landmarks"
) -> Float64[np.ndarray, "d p"]:
    """Return landmarks given in the units of the points, checked and scaled."""
    array = np.asarray(landmarks)
    p = len(scaling.center)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != p or not len(array):
        raise BagwiseError.because(
            f"{name} have shape {array.shape} and dtype {array.dtype}",
            f"real numbers of shape (number of landmarks, {p})",
            "Give one landmark per row, with the features of the points.",
        )
    if not np.isfinite(array).all():
        row, column = np.argwhere(~np.isfinite(array))[0].tolist()
        raise BagwiseError.because(
            f"{name} row {row}, column {column} is {array[row, column]}",
            "finite numbers",
            "Drop the row.",
        )
    return scaling(array.astype(np.float64))


def limited_log_weights(logs: Any, xp: Any = np) -> Any:
    """Return log weights of points, smoothly kept within ±20: a factor of e^40 leaves one point.

    Examples
    --------
    >>> limited_log_weights(np.array([0.0, 1.0, 1e9])).round(2)
    array([ 0.,  1., 20.])
    """
    return MOST_LOG_WEIGHT * xp.tanh(logs / MOST_LOG_WEIGHT)


def point_weights(features: Features, phi: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, " n"]:
    """Return the learnt weights w(x) = exp(g·φ(x)) of points with features φ; 1 if there are none.

    They are at most e^20 and at least e^-20, so that their sums and squares are numbers.
    """
    g = features.point_weights
    return np.ones(len(phi)) if g is None else np.exp(limited_log_weights(phi @ g))


@dataclass(frozen=True, eq=False)
class PriorGram:
    """Prior covariance r of the embedding (η = 1) at the features u and the functionals z.

    Attributes
    ----------
    uu : (d, d), uz : (d, s), zz : (s, s)
    """

    uu: Float64[np.ndarray, "d d"]
    uz: Float64[np.ndarray, "d s"]
    zz: Float64[np.ndarray, "s s"]


class Features(Protocol):
    """What an embedding needs of its features φ: points (n, p) ↦ (n, d)."""

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        ...

    @property
    def same_landmarks(self) -> bool:
        """Whether the functionals z are the features u."""
        ...

    @property
    def centred(self) -> bool | str:
        """Whether they are features of points less the mean of their bag, or beside it."""
        ...

    @property
    def point_weights(self) -> Float64[np.ndarray, " d"] | None:
        """G of the learnt weights w(x) = exp(g·φ(x)) of points, or None."""
        ...

    def __call__(self, points: Shaped[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return φ(x) for every point."""
        ...

    def single(
        self, points: Shaped[np.ndarray, "n p"], out: Float64[np.ndarray, "rows d"] | None = None
    ) -> Float[np.ndarray, "n d"]:
        """Return φ(x) in single precision, faster, perhaps in ``out``, of n rows or more."""
        ...

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return K_z: the squared RKHS norm of f is α^T K_z α."""
        ...

    def kernel_prior(self) -> PriorGram:
        """Return the prior covariance r = k."""
        ...

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Return the convolved prior covariance and its derivative in log ℓ."""
        ...


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """φ(x) = [k(x, u_1) … k(x, u_d)], for a function f = Σ α_l k(·, z_l).

    Parameters
    ----------
    kernel : Kernel with its bandwidth
    scaling : Scaling of the points
    landmarks : (d, p) scaled landmarks u, or objects
    function_landmarks : (s, p) scaled landmarks z, or None for z = u
    centred : whether they are features of points less the mean of their bag; "deviations" if of
        points with their distance from it beside each column
    point_weights : (d,), g of the learnt weights w(x) = exp(g·φ(x)) of points, or None

    Examples
    --------
    >>> from bagwise.features.kernels import RBF
    >>> scaling = Scaling.of(np.zeros(1), np.ones(1))
    >>> LandmarkFeatures(RBF(1.0), scaling, np.array([[0.0], [1.0]]))(np.zeros((1, 1))).round(3)
    array([[1.   , 0.607]])
    """

    kernel: Kernel
    scaling: Scaling
    landmarks: Float64[np.ndarray, "d p"] | Objects
    function_landmarks: Float64[np.ndarray, "s p"] | Objects | None = None
    centred: bool | str = False
    point_weights: Float64[np.ndarray, " d"] | None = None

    @property
    def n_outputs(self) -> int:
        """Number of landmarks d."""
        return len(self.landmarks)

    @property
    def same_landmarks(self) -> bool:
        """Whether z = u."""
        return self.function_landmarks is None

    @property
    def places(self) -> Shaped[np.ndarray, "d p"]:
        """The landmarks u in the units of the points."""
        return self.scaling.undo(self.landmarks)

    @property
    def _z(self) -> Shaped[np.ndarray, "s p"]:
        return self.landmarks if self.function_landmarks is None else self.function_landmarks

    def __call__(self, points: Shaped[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the kernel values (n, d)."""
        return self.kernel(self.scaling(points), self.landmarks)

    def single(
        self, points: Shaped[np.ndarray, "n p"], out: Float64[np.ndarray, "rows d"] | None = None
    ) -> Float[np.ndarray, "n d"]:
        """Return the kernel values in single precision."""
        return self.kernel.single(self.scaling(points), self.landmarks, out)

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return k(z, z)."""
        return self.kernel(self._z, self._z)

    def kernel_prior(self) -> PriorGram:
        """Return k between u and z."""
        u, z = self.landmarks, self._z
        return PriorGram(self.kernel(u, u), self.kernel(u, z), self.kernel(z, z))

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Return the convolved kernel between u and z, and its derivative in log ℓ."""
        u, z = self.landmarks, self._z
        uu, d_uu = convolved(self.kernel, u, u, length)
        if self.function_landmarks is None:
            return PriorGram(uu, uu, uu), PriorGram(d_uu, d_uu, d_uu)
        uz, d_uz = convolved(self.kernel, u, z, length)
        zz, d_zz = convolved(self.kernel, z, z, length)
        return PriorGram(uu, uz, zz), PriorGram(d_uu, d_uz, d_zz)


class CoordinateFeatures:
    """Features that are orthonormal coordinates of the RKHS: r = k and K_z are identities."""

    what: ClassVar[str]  # in words

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        raise NotImplementedError

    @property
    def same_landmarks(self) -> bool:
        """Whether z = u: it is."""
        return True

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return φ(x) for every point."""
        raise NotImplementedError

    def single(
        self, points: Shaped[np.ndarray, "n p"], out: Float64[np.ndarray, "rows d"] | None = None
    ) -> Float[np.ndarray, "n d"]:
        """Return φ(x), rounded to single precision."""
        return self(points).astype(np.float32)

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return the identity."""
        return np.eye(self.n_outputs)

    def kernel_prior(self) -> PriorGram:
        """Return identities."""
        eye = np.eye(self.n_outputs)
        return PriorGram(eye, eye, eye)

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Raise: the convolved kernel has no form in these features."""
        raise BagwiseError.because(
            f"the convolved prior was asked for with {self.what}",
            "landmarks, at which it has a closed form",
            'Use KernelEmbedding() or prior="kernel".',
        )


@dataclass(frozen=True, eq=False)
class FourierFeatures(CoordinateFeatures):
    """Random Fourier features: k(x, y) ≈ φ(x)·φ(y).

    φ(x) = m^(-1/2) [cos ω_1·x … cos ω_m·x, sin ω_1·x … sin ω_m·x],  ω ~ spectral density of k

    They are orthonormal coordinates of the RKHS, so r = k and K_z are identity matrices.

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    Examples
    --------
    >>> features = FourierFeatures(Scaling.of(np.zeros(1), np.ones(1)), np.array([[0.5]]))
    >>> features(np.zeros((1, 1)))
    array([[1., 0.]])
    """

    what: ClassVar[str] = "random Fourier features"

    scaling: Scaling
    frequencies: Float64[np.ndarray, "m p"]
    centred: bool | str = False
    point_weights: ClassVar[None] = None  # frequencies are drawn, and nothing of them is learnt

    @property
    def n_outputs(self) -> int:
        """Number of features d = 2m."""
        return 2 * len(self.frequencies)

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the cosines and sines (n, d)."""
        angles = self.scaling(points) @ self.frequencies.T
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(self.frequencies))
