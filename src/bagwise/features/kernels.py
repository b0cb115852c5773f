"""Kernels between points, and the convolved prior made from the Gaussian one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float, Float64, Shaped
from scipy.spatial.distance import cdist

from bagwise.bags.validation import LARGEST, Objects, is_positive
from bagwise.exceptions import BagwiseError

__all__ = [
    "RBF",
    "Additive",
    "Energy",
    "Kernel",
    "Linear",
    "Matern",
    "Mixed",
    "UserKernel",
    "as_kernel",
]

# A distance, in bandwidths, at which every kernel is 0 to the last digit.
FAR = 800.0

# Norms in bandwidths whose squares have too few digits left to tell small distances, which are
# then taken one by one: with 16 digits, distances of 3e-4 are lost here.
FAR_NORM = 3e4

# Distances that are worked on at once: with what is made of them, they stay in the cache of a core.
CACHE_BYTES = 1 << 18

# Coordinates of which products can be squared and summed.
LARGEST_PRODUCT = 1e70

# Points of ordinary size, of which a kernel that grows with them has values that every model is
# right for, in single precision, too.
ORDINARY = (1e-9, 1e9)

Matrix = Float64[np.ndarray, "rows cols"]


@dataclass(frozen=True)
class Kernel:
    """A kernel k(x, y) on points; call it on two stacks of points to get the Gram matrix.

    Parameters
    ----------
    bandwidth : float, optional
        Length scale σ_k. ``None`` leaves it to the median heuristic of the model.

    Examples
    --------
    >>> RBF(bandwidth=1.0).with_bandwidth(3.0).bandwidth
    3.0
    """

    bandwidth: float | None = None
    has_bandwidth: ClassVar[bool] = True

    def __call__(
        self, x: Float64[np.ndarray, "n p"], y: Float64[np.ndarray, "m p"]
    ) -> Float64[np.ndarray, "n m"]:
        """Return the matrix of k(x_i, y_j), float64 (n, m)."""
        raise TypeError(f"{type(self).__name__} has no formula: use RBF, Matern or Linear")

    def single(
        self,
        x: Shaped[np.ndarray, "n p"],
        y: Shaped[np.ndarray, "m p"],
        out: Float64[np.ndarray, "rows m"] | None = None,
    ) -> Float[np.ndarray, "n m"]:
        """Return the same with the digits of single precision, of distances in double.

        Of kernels that fall from 1 it is wrong by at most 2^-23, and takes a fifth of the time.
        ``out`` has n rows or more, and may be used for it: memory that is new takes as long to get
        as the product.
        """
        return self(x, y).astype(np.float32)

    def with_bandwidth(self, bandwidth: float) -> Self:
        """Return the same kernel with this bandwidth, if it has one."""
        return replace(self, bandwidth=float(bandwidth)) if self.has_bandwidth else self

    def spread(self, n_features: int) -> float:
        """Return the share of the squared distance between two points that the kernel sees."""
        return 1.0

    def frequencies(
        self, n_features: int, n: int, rng: np.random.Generator
    ) -> Float64[np.ndarray, "n p"]:
        """Draw n frequencies from the kernel's spectral density, for random Fourier features."""
        raise BagwiseError.because(
            f"{self!r} has no spectral density",
            "a stationary kernel (RBF or Matern) for random Fourier features",
            "Choose another kernel, or KernelEmbedding().",
        )

    def _scale(self) -> float:
        if not is_positive(self.bandwidth):
            raise BagwiseError.because(
                f"{self!r} has no positive bandwidth", "a number > 0", "Use with_bandwidth(value)."
            )
        assert self.bandwidth is not None
        if not 1.0 / LARGEST <= float(self.bandwidth) <= LARGEST:
            raise BagwiseError.because(
                f"{self!r} has a bandwidth that cannot be squared",
                f"a number between {1.0 / LARGEST:g} and {LARGEST:g}",
                "Leave it out, and the median heuristic chooses one.",
            )
        return float(self.bandwidth)


@dataclass(frozen=True)
class RBF(Kernel):
    """Gaussian kernel.

    k(x, y) = exp(−‖x − y‖² / (2 σ_k²))

    Examples
    --------
    >>> RBF(bandwidth=2.0)(np.array([[0.0]]), np.array([[0.0], [2.0]])).round(4)
    array([[1.    , 0.6065]])
    """

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        gram = np.empty((len(x), len(y)))
        for rows, half in _half_distances(x, y, self._scale()):
            np.exp(half, out=gram[rows])
        return gram

    def single(self, x: Any, y: Any, out: Any = None) -> Any:
        """Return the Gram matrix in single precision, as doubles, of which sums are made."""
        gram = np.empty((len(x), len(y))) if out is None else out[: len(x)]
        factors = _factors(x, y, self._scale())
        if factors is None:
            gram[:] = _far_distances(x, y, self._scale())
        else:
            np.matmul(*factors, out=gram)
        with np.errstate(over="ignore"):  # what single precision cannot hold is infinitely far
            return np.exp(gram, out=gram, dtype=np.float32, casting="same_kind")

    def frequencies(self, n_features: int, n: int, rng: np.random.Generator) -> Any:
        """Draw from N(0, I/σ_k²)."""
        return rng.standard_normal((n, n_features)) / self._scale()


@dataclass(frozen=True)
class Matern(Kernel):
    """Matérn kernel of smoothness 1/2, 3/2 or 5/2, with t = ‖x − y‖ / σ_k.

    1/2: exp(−t);  3/2: (1 + √3 t) exp(−√3 t);  5/2: (1 + √5 t + 5t²/3) exp(−√5 t)

    Examples
    --------
    >>> Matern(bandwidth=1.0, smoothness=0.5)(np.zeros((1, 1)), np.ones((1, 1))).round(4)
    array([[0.3679]])
    """

    smoothness: float = 1.5

    def __post_init__(self) -> None:
        if self.smoothness not in (0.5, 1.5, 2.5):
            raise BagwiseError.because(
                f"smoothness is {self.smoothness}", "0.5, 1.5 or 2.5", "RBF() is the limit ∞."
            )

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        return self._of(_minus_half_squared_distance(x, y, self._scale()))

    def single(self, x: Any, y: Any, out: Any = None) -> Any:
        """Return the Gram matrix in single precision."""
        return self._of(_minus_half_squared_distance(x, y, self._scale(), np.float32))

    def _of(self, half: Any) -> Any:
        """Return the values at −t²/2."""
        t = np.sqrt(np.maximum(-4.0 * self.smoothness * half, 0.0))  # √(2ν) ‖x − y‖ / σ_k
        t = np.minimum(t, FAR)  # where e^-t is 0, but no infinity is multiplied with it
        decay = np.exp(-t)
        if self.smoothness == 0.5:
            return decay
        if self.smoothness == 1.5:
            return (1.0 + t) * decay
        return (1.0 + t + t**2 / 3.0) * decay

    def frequencies(self, n_features: int, n: int, rng: np.random.Generator) -> Any:
        """Draw from the multivariate Student distribution with 2ν degrees of freedom."""
        normal = rng.standard_normal((n, n_features))
        chi2 = rng.chisquare(2.0 * self.smoothness, (n, 1))
        return normal * np.sqrt(2.0 * self.smoothness / chi2) / self._scale()


@dataclass(frozen=True)
class Linear(Kernel):
    """Linear kernel x·y: the model sees the mean of each bag's points and nothing else.

    Examples
    --------
    >>> Linear()(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]]))
    array([[11.]])
    """

    has_bandwidth: ClassVar[bool] = False

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        _check_products(x, y, "linear")
        return x @ y.T


@dataclass(frozen=True)
class Energy(Kernel):
    """Kernel of the energy distance: it has no bandwidth, and sees all scales at once.

    k(x, y) = ½ {‖x‖ + ‖y‖ − ‖x − y‖}

    The distance between two embeddings is then that of the distribution functions of the points
    along all directions. Unlike the Gaussian it does not fade: the tails of a bag count.

    References
    ----------
    Sejdinovic, Sriperumbudur, Gretton and Fukumizu (2013), Equivalence of distance-based and
    RKHS-based statistics in hypothesis testing.

    Examples
    --------
    >>> Energy()(np.array([[1.0]]), np.array([[-2.0], [0.5], [3.0]]))
    array([[0. , 0.5, 1. ]])
    """

    has_bandwidth: ClassVar[bool] = False

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        _check_products(x, y, "energy")
        gram = cdist(x, y)
        np.subtract(np.linalg.norm(x, axis=1)[:, None], gram, out=gram)
        gram += np.linalg.norm(y, axis=1)
        gram *= 0.5
        return gram


@dataclass(frozen=True)
class Additive(Kernel):
    """Mean over coordinates of a kernel on each coordinate alone.

    k(x, y) = (1/p) Σ_j base(x_j, y_j)

    The functions it spans have no interactions between coordinates: fewer points suffice to learn
    them, and they do not fade away from the data in many dimensions.

    Examples
    --------
    >>> k = Additive(base=RBF(bandwidth=1.0))
    >>> k(np.array([[0.0, 5.0]]), np.array([[0.0, -5.0]])).round(4)
    array([[0.5]])
    """

    base: Kernel = RBF()

    def __post_init__(self) -> None:
        if self.bandwidth is not None:
            object.__setattr__(self, "base", self.base.with_bandwidth(self.bandwidth))
        else:
            object.__setattr__(self, "bandwidth", self.base.bandwidth)

    @property
    def has_bandwidth(self) -> bool:  # type: ignore[override]
        """Whether the base kernel has one."""
        return self.base.has_bandwidth

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        return self._mean(self.base, np.zeros((len(x), len(y))), x, y)

    def single(self, x: Any, y: Any, out: Any = None) -> Any:
        """Return the Gram matrix in single precision."""
        if isinstance(self.base, RBF):
            return _mean_over_columns(x, y, self.base._scale(), (1.0,))
        return self._mean(self.base.single, np.zeros((len(x), len(y)), np.float32), x, y)

    @staticmethod
    def _mean(base: Any, total: Any, x: Any, y: Any) -> Any:
        for j in range(x.shape[1]):
            total += base(x[:, j : j + 1], y[:, j : j + 1])
        total /= x.shape[1]
        return total

    def spread(self, n_features: int) -> float:
        """Return 1/p: a coordinate has on average that share of the squared distance."""
        return 1.0 / n_features

    def frequencies(self, n_features: int, n: int, rng: np.random.Generator) -> Any:
        """Draw frequencies along one coordinate each, coordinates in turn."""
        frequencies = np.zeros((n, n_features))
        frequencies[np.arange(n), np.arange(n) % n_features] = self.base.frequencies(1, n, rng)[
            :, 0
        ]
        return frequencies


# Bandwidths of the parts of a mixed kernel, in units of its own; and how often the coarse part is
# squared to be the fine one, exp(−d²/2)^(ratio²).
MIXED_SCALES = (1.0, 4.0)
MIXED_RATIO = MIXED_SCALES[1] / MIXED_SCALES[0]
MIXED_SQUARINGS = int(2.0 * np.log2(MIXED_RATIO))


@dataclass(frozen=True)
class Mixed(Kernel):
    """Fine and coarse, of all coordinates at once and of each alone: what to take when in doubt.

    k = ¼ {RBF(σ_k) + RBF(4σ_k) + additive RBF(σ_k/√p) + additive RBF(4σ_k/√p)}

    A coordinate has a p-th of the squared distance, hence the bandwidths of the additive parts.

    Examples
    --------
    >>> Mixed(bandwidth=1.0)(np.zeros((1, 2)), np.array([[0.0, 0.0], [2.0, 0.0]])).round(4)
    array([[1.    , 0.6041]])
    """

    def parts(self, n_features: int) -> list[Kernel]:
        """Return the kernels whose mean it is, of points with so many coordinates."""
        scales = [scale * self._scale() for scale in MIXED_SCALES]
        alone = [Additive(base=RBF(scale / np.sqrt(n_features))) for scale in scales]
        return [*map(RBF, scales), *alone]

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m)."""
        return self._mean(x, y)

    def single(self, x: Any, y: Any, out: Any = None) -> Any:
        """Return the Gram matrix in single precision, in which an exponential beats powers."""
        coarse, powers = max(MIXED_SCALES) * self._scale(), (1.0, MIXED_RATIO**2)
        total = _mean_over_columns(x, y, coarse / np.sqrt(x.shape[1]), powers)
        total += _mean_of_exponentials([(x, y)], coarse, powers)
        total /= 2.0 * len(MIXED_SCALES)
        return total

    def _mean(self, x: Any, y: Any) -> Any:
        """Return the mean of the parts: those of one distance are powers of each other."""
        coarse, p = max(MIXED_SCALES) * self._scale(), x.shape[1]
        total = np.zeros((len(x), len(y)))
        for j in range(p):
            here, there = x[:, j : j + 1], y[:, j : j + 1]
            _add_at_both_scales(total, here, there, coarse / np.sqrt(p))
        total /= p
        _add_at_both_scales(total, x, y, coarse)
        total /= 2.0 * len(MIXED_SCALES)
        return total

    def frequencies(self, n_features: int, n: int, rng: np.random.Generator) -> Any:
        """Draw as many frequencies from each of the parts, as far as that is possible."""
        parts = self.parts(n_features)
        counts = [(n + k) // len(parts) for k in range(len(parts))]
        drawn = zip(parts, counts, strict=True)
        return np.vstack([part.frequencies(n_features, count, rng) for part, count in drawn])


def _add_at_both_scales(total: Any, x: Any, y: Any, scale: float) -> None:
    """Add exp(h) and exp(16h), of which the second is a power of the first."""
    half = _minus_half_squared_distance(x, y, scale)
    total += np.exp(half, out=half)
    for _ in range(MIXED_SQUARINGS):
        np.square(half, out=half)
    total += half


KERNELS: dict[str, Kernel] = {
    "rbf": RBF(),
    "matern12": Matern(smoothness=0.5),
    "matern32": Matern(smoothness=1.5),
    "matern52": Matern(smoothness=2.5),
    "linear": Linear(),
    "energy": Energy(),
}
KERNELS |= {f"additive-{name}": Additive(base=kernel) for name, kernel in KERNELS.items()}
KERNELS["mixed"] = Mixed()

# Pairwise kernels of scikit-learn that have no name above.
SKLEARN_KERNELS = ("additive_chi2", "chi2", "cosine", "laplacian", "poly", "polynomial", "sigmoid")

# Gram matrices that are symmetric, and without negative eigenvalues, up to this share: rounding,
# also of kernels in single precision.
GRAM_ROUNDING = 1e-6

# Landmarks among which kernel values are kept in a file, to know the function again.
PROBES = 8


@dataclass(frozen=True, eq=False)
class UserKernel(Kernel):
    """A kernel of the user's: a function on two lists of points, or its name in scikit-learn.

    It sees points as they are: objects as a list, numbers as an array (n, p), without scaling.

    Parameters
    ----------
    function : (n points, m points) ↦ (n, m), or the name of a pairwise kernel of scikit-learn
    probe : (k, k), its values among the first landmarks, by which it is known again

    Examples
    --------
    >>> shared = UserKernel(function=lambda x, y: [[len(set(a) & set(b)) for b in y] for a in x])
    >>> shared(Objects.of(["cat", "dog"]), Objects.of(["act", "do"]))
    array([[3., 0.], [0., 2.]])
    """

    function: Callable[..., Any] | str = "cosine"
    probe: Float64[np.ndarray, "k k"] | None = None
    has_bandwidth: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if isinstance(self.function, str) and self.function not in SKLEARN_KERNELS:
            raise BagwiseError.because(
                f"kernel is {self.function!r}", f"one of {', '.join(SKLEARN_KERNELS)}", "Name one."
            )

    @property
    def name(self) -> str:
        """Name of the function."""
        if isinstance(self.function, str):
            return self.function
        return str(getattr(self.function, "__name__", type(self.function).__name__))

    def __repr__(self) -> str:
        return f"UserKernel({self.name})"

    def __call__(self, x: Any, y: Any) -> Any:
        """Return the Gram matrix (n, m), checked; of texts, each is looked at once."""
        if isinstance(x, Objects) != isinstance(y, Objects):
            kinds = ["objects" if isinstance(points, Objects) else "numbers" for points in (x, y)]
            raise BagwiseError.because(
                f"points are {kinds[0]} where the landmarks of {self!r} are {kinds[1]}",
                "points of the kind that the model was fitted to",
                "Give bags of the same kind.",
            )
        rows, again = _distinct_texts(x)
        return self._checked(self._values(rows, _plain_points(y)), len(rows), len(y))[again]

    def _values(self, x: Any, y: Any) -> Any:
        if not isinstance(self.function, str):
            return self.function(x, y)
        from sklearn.metrics.pairwise import pairwise_kernels  # slow to import

        if isinstance(x, list):
            raise BagwiseError.because(
                f"kernel={self.function!r} with points that are objects",
                "points of numbers, or a function of your own",
                "Use KernelEmbedding(kernel=f) with f(list, list) of shape (n, m).",
            )
        try:
            return pairwise_kernels(x, y, metric=self.function)
        except ValueError as error:  # chi2 of negative numbers
            raise BagwiseError.because(
                f"scikit-learn's kernel {self.function!r} refuses these points ({error})",
                "points for which it is defined",
                "Choose another kernel, or transform the points first.",
            ) from error

    def _checked(self, found: Any, n: int, m: int) -> Matrix:
        array = np.asarray(found)
        if array.shape != (n, m) or array.dtype.kind not in "fiub":
            raise BagwiseError.because(
                f"{self!r} of {n} and {m} points has shape {array.shape} and dtype {array.dtype}",
                f"real numbers of shape ({n}, {m})",
                "A kernel is a function on two lists of points, and has a row for each of the "
                "first and a column for each of the second.",
            )
        array = array.astype(np.float64)
        if not np.isfinite(array).all():
            row, column = np.argwhere(~np.isfinite(array))[0].tolist()
            raise BagwiseError.because(
                f"{self!r} is {array[row, column]} between point {row} and point {column}",
                "finite numbers",
                "Say what the kernel is for points such as these, or leave them out.",
            )
        return array

    def probed(self, landmarks: Any) -> UserKernel:
        """Check the Gram matrix of landmarks; return the kernel with what it is known by."""
        gram = self(landmarks, landmarks)
        largest = float(np.abs(gram).max())
        same = len(gram) > 1 and np.ptp(gram) <= GRAM_ROUNDING * largest
        if largest == 0.0 or same:
            raise BagwiseError.because(
                f"{self!r} is {gram[0, 0]:g} between any two of {len(gram)} landmarks",
                "a kernel that tells points apart",
                "Check the function; or give it points that differ.",
            )
        gap = np.abs(gram - gram.T)
        if gap.max() > GRAM_ROUNDING * largest:
            row, column = np.unravel_index(int(gap.argmax()), gap.shape)
            raise BagwiseError.because(
                f"{self!r} is {gram[row, column]:g} between landmarks {row} and {column}, and "
                f"{gram[column, row]:g} the other way round",
                "a symmetric kernel",
                "Use (k(x, y) + k(y, x))/2, if that is one.",
            )
        values = np.linalg.eigvalsh((gram + gram.T) / 2.0)
        if values[0] < -GRAM_ROUNDING * values[-1]:
            raise BagwiseError.because(
                f"the Gram matrix of {self!r} among {len(gram)} landmarks has an eigenvalue "
                f"{values[0]:.3g}, the largest being {values[-1]:.3g}",
                "a kernel: no negative eigenvalues",
                "A similarity need not be a kernel; an inner product of features of the points is.",
            )
        return replace(self, probe=gram[:PROBES, :PROBES].copy())

    def knows(self, landmarks: Any) -> bool:
        """Whether the function has the values among landmarks that it is to be known by."""
        if self.probe is None:
            return False
        few = landmarks[: len(self.probe)]
        scale = max(float(np.abs(self.probe).max()), np.finfo(float).tiny)
        return bool(np.abs(self(few, few) - self.probe).max() <= GRAM_ROUNDING * scale)


def _plain_points(points: Any) -> Any:
    return points.listed() if isinstance(points, Objects) else points


def _distinct_texts(points: Any) -> tuple[Any, Any]:
    """Return the points of a user's kernel, and which of them each row is: of texts, the distinct.

    A word may be in a bag, and in many bags, often.
    """
    if not isinstance(points, Objects):
        return points, slice(None)
    held = points.listed()
    if not all(type(value) is str for value in held):
        return held, slice(None)
    place = {text: i for i, text in enumerate(dict.fromkeys(held))}
    return list(place), [place[text] for text in held]


# What a kernel may be in a saved model: a new one has a name above, and is among them.
KERNEL_CLASSES = (*dict.fromkeys(type(kernel) for kernel in KERNELS.values()), UserKernel)


def as_kernel(kernel: Any) -> Kernel:
    """Return a kernel from its name, or the kernel itself; a function becomes one.

    Examples
    --------
    >>> as_kernel("matern52")
    Matern(bandwidth=None, smoothness=2.5)
    """
    if isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, str) and kernel in SKLEARN_KERNELS:
        return UserKernel(function=kernel)
    if callable(kernel) and not isinstance(kernel, type):
        return UserKernel(function=kernel)
    if not isinstance(kernel, str) or kernel not in KERNELS:
        raise BagwiseError.because(
            f"kernel is {kernel!r}",
            f"a Kernel, a function, or one of {', '.join(KERNELS)}, or of scikit-learn's "
            f"{', '.join(SKLEARN_KERNELS)}",
            'Try "rbf".',
        )
    return KERNELS[kernel]


def convolved(
    kernel: Kernel, x: Shaped[np.ndarray, "n p"], y: Shaped[np.ndarray, "m p"], length: float
) -> tuple[Float64[np.ndarray, "n m"], Float64[np.ndarray, "n m"]]:
    """Return the convolved prior of an RBF kernel, scaled to r(0, 0) = 1, and its ∂/∂log ℓ.

    r(x, y) ∝ ∫ k(x, z) k(z, y) exp(−‖z‖²/2ℓ²) dz
            ∝ exp(−‖x − y‖²/(4σ_k²)) exp(−‖(x + y)/2‖² / (2(σ_k²/2 + ℓ²)))

    The constant that is left out, {2π/(2/σ_k² + 1/ℓ²)}^(p/2), belongs to the prior scale η: in many
    dimensions it under- or overflows. Unlike k, r falls off away from the origin, so the
    points must be centred.

    References
    ----------
    Law et al. (2018), section 4.2 and appendix A.
    """
    if not isinstance(kernel, RBF):
        raise BagwiseError.because(
            f"the convolved prior was asked for with {kernel!r}",
            "the RBF kernel, for which it has a closed form",
            'Use kernel="rbf" or prior="kernel".',
        )
    width = kernel._scale() ** 2 / 2.0 + length**2
    # ‖(x + y)/2‖² = ½‖x‖² + ½‖y‖² − ¼‖x − y‖²
    quarter = -0.5 * _minus_half_squared_distance(x, y, 1.0)
    middle = 0.5 * (np.sum(x**2, axis=1)[:, None] + np.sum(y**2, axis=1)) - quarter
    middle = np.maximum(middle, 0.0)
    gram = np.exp(-quarter / kernel._scale() ** 2 - middle / (2.0 * width))
    return gram, gram * (middle / width) * (length**2 / width)


def _mean_over_columns(x: Any, y: Any, scale: float, powers: tuple[float, ...]) -> Any:
    """Return the mean over columns of Σ exp(power · −½(x_ij − y_lj)²/scale²), in single."""
    columns = [slice(j, j + 1) for j in range(x.shape[1])]
    return _mean_of_exponentials([(x[:, j], y[:, j]) for j in columns], scale, powers)


def _mean_of_exponentials(pairs: list[Any], scale: float, powers: tuple[float, ...]) -> Any:
    """Return the mean over pairs x, y of Σ exp(power · −½‖x_i − y_j‖²/scale²), in single precision.

    Of some rows after the other, so that what is worked on stays in the cache of a core.
    """
    factors = [_factors(x, y, scale) for x, y in pairs]
    total = np.zeros((len(pairs[0][0]), len(pairs[0][1])), np.float32)
    half = np.empty((min(_cached_rows(total.shape[1]), len(total)), total.shape[1]))
    one = np.empty(half.shape, np.float32)
    for start in range(0, len(total), max(1, len(half))):
        rows = slice(start, min(start + len(half), len(total)))
        sums, h, value = total[rows], half[: rows.stop - start], one[: rows.stop - start]
        for (x, y), both in zip(pairs, factors, strict=True):
            if both is None:
                h[:] = _far_distances(x[rows], y, scale)
            else:
                np.matmul(both[0][rows], both[1], out=h)
            for power in powers:
                with np.errstate(over="ignore"):  # what is too large for it is infinitely far
                    value[:] = h  # a cast on its own is faster
                    value *= power
                sums += np.exp(value, out=value)
        sums /= len(pairs)
    return total


def _cached_rows(n_columns: int) -> int:
    """Return how many rows of doubles stay in the cache of a core."""
    return max(1, CACHE_BYTES // (8 * max(1, n_columns)))


def _minus_half_squared_distance(x: Any, y: Any, scale: float, dtype: Any = np.float64) -> Any:
    """Return −½‖x_i − y_j‖²/scale², found in double and rounded to a type."""
    half = np.empty((len(x), len(y)), dtype)
    for rows, part in _half_distances(x, y, scale):
        half[rows] = part
    return half


def _half_distances(x: Any, y: Any, scale: float) -> Iterator[tuple[slice, Any]]:
    """Yield −½‖x_i − y_j‖²/scale² of some x after the other, in a cache that is used again."""
    factors = _factors(x, y, scale)
    if factors is None:
        yield slice(None), _far_distances(x, y, scale)
        return
    left, right = factors
    n_rows = _cached_rows(len(y))
    cache = np.empty((min(n_rows, len(x)), len(y)))
    for start in range(0, len(x), n_rows):
        rows = slice(start, min(start + n_rows, len(x)))
        yield rows, np.matmul(left[rows], right, out=cache[: rows.stop - start])


def _factors(x: Any, y: Any, scale: float) -> tuple[Any, Any] | None:
    """Return two matrices whose product is −½‖x_i − y_j‖²/scale²: no further pass over it.

    [x, ‖x‖², 1] · [y/s², −1/2s², −‖y‖²/2s²]; centring on the y keeps the digits. Where they would
    not suffice, as some x or y is very many bandwidths away, None.
    """
    center = y.mean(axis=0)
    left = np.empty((len(x), x.shape[1] + 2), order="F")  # what is done to columns is faster
    np.subtract(x, center, out=left[:, :-2])
    y = (y - center) / scale
    with np.errstate(over="ignore"):  # infinity is far
        np.einsum("ij,ij->i", left[:, :-2], left[:, :-2], out=left[:, -2])
        norms = np.sum(y**2, axis=1)
    farthest = max(np.sqrt(left[:, -2].max(initial=0.0)) / scale, np.sqrt(norms.max(initial=0.0)))
    if not farthest <= FAR_NORM:
        return None
    left[:, -1] = 1.0
    return left, np.vstack([y.T / scale, np.full(len(y), -0.5 / scale**2), -0.5 * norms])


def _far_distances(x: Any, y: Any, scale: float) -> Any:
    """Return −½‖x_i − y_j‖²/scale² of differences that are taken one by one."""
    return -0.5 * cdist(x / scale, y / scale, "sqeuclidean")


def check_ordinary(points: Float64[np.ndarray, "n p"], kernel: Kernel) -> None:
    """Raise if points to learn from are too large or small for a kernel that grows with them.

    Examples
    --------
    >>> check_ordinary(np.array([[1e-20, -1e-30]]), RBF())
    >>> check_ordinary(np.array([[1e-20, -1e-30]]), Linear())
    Traceback (most recent call last):
    bagwise.exceptions.BagwiseError: points of at most 1e-20 come to Linear(bandwidth=None), ...
    """
    least, most = ORDINARY
    if kernel.has_bandwidth or least <= (largest := _largest(points)) <= most:
        return
    raise BagwiseError.because(
        f"points of at most {largest:g} come to {kernel!r}, which grows with them",
        f"points of {least:g} to {most:g}",
        "Use standardize=True, or give the columns in other units.",
    )


def _check_products(x: Any, y: Any, name: str) -> None:
    """Raise if points are too large for a kernel that grows with them."""
    largest = max(_largest(x), _largest(y))
    if largest > LARGEST_PRODUCT:
        raise BagwiseError.because(
            f"points as large as {largest:g} come to the {name} kernel",
            f"at most {LARGEST_PRODUCT:g}, so that variances of products do not overflow",
            "Use standardize=True, or give the columns in larger units.",
        )


def _largest(points: Float64[np.ndarray, "n p"]) -> float:
    """Return the largest absolute value, 0 of nothing."""
    return float(max(points.max(initial=0.0), -points.min(initial=0.0)))
