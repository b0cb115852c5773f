"""What a model says about each bag: a Gaussian with its variance split by cause.

The total variance is a sum of three parts, so a reader can see *why* an answer is unsure:

- ``bag``: the bag's distribution is seen only through its points (shrinks as the bag grows);
- ``weights``: the regression is estimated from finitely many bags;
- ``noise``: what remains even when both are known.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bagwise.exceptions import BagwiseError, InvalidLabelsError

# Elements of the (distinct sizes, spectrum) table worked on at once: 8 MB of float64.
BLOCK_ELEMENTS = 2**20

LOG_TWO_PI = float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """Bag-sampling variance of a prediction as a function of the number of points.

    v(n) = floor + sum_k loadings_k spectrum_k / (1 + n spectrum_k)

    Parameters
    ----------
    loadings : (d,) array, squared weights of the regression in the shrinkage basis; >= 0
    spectrum : (d,) array, prior variance over within-bag variance (eta lambda_k); >= 0
    floor : variance that no number of points removes (function landmarks off the basis); >= 0

    References
    ----------
    Law et al. (2018), Bayesian Approaches to Distribution Regression, section 3.

    Examples
    --------
    >>> curve = SizeCurve(np.array([2.0]), np.array([1.0]))
    >>> curve.variance(np.array([0, 1, 3]))
    array([2. , 1. , 0.5])
    """

    loadings: Float[np.ndarray, " d"]
    spectrum: Float[np.ndarray, " d"]
    floor: float = 0.0

    def __post_init__(self) -> None:
        loadings = np.asarray(self.loadings, dtype=np.float64)
        spectrum = np.asarray(self.spectrum, dtype=np.float64)
        if loadings.ndim != 1 or loadings.shape != spectrum.shape:
            raise BagwiseError.because(
                f"loadings and spectrum have shapes {loadings.shape} and {spectrum.shape}",
                "1-D arrays of one length",
                "Give one loading per value of the spectrum.",
            )
        floor = np.asarray(self.floor, dtype=np.float64)
        for name, values in (("loadings", loadings), ("spectrum", spectrum), ("floor", floor)):
            _require_variances(values, f"the {name} of a SizeCurve")
            object.__setattr__(self, name, values if values.ndim else float(values))

    def variance(self, sizes: ArrayLike) -> Float[np.ndarray, " n"]:
        """Variance at each size; ``sizes`` (n,) >= 0, infinity allowed, in bounded memory."""
        sizes = np.asarray(sizes, dtype=np.float64)
        if sizes.ndim != 1 or np.isnan(sizes).any() or (sizes < 0).any():
            raise BagwiseError.because(
                f"sizes are {_brief(sizes)}", "a 1-D array >= 0", "Give numbers of points."
            )
        distinct, inverse = np.unique(sizes, return_inverse=True)
        used = self.spectrum > 0  # a zero spectrum adds nothing, and inf * 0 is not a number
        loadings, spectrum = self.loadings[used], self.spectrum[used]
        values = np.full(distinct.shape, self.floor)
        step = max(1, BLOCK_ELEMENTS // max(1, loadings.size))
        for start in range(0, distinct.size, step):
            block = slice(start, start + step)
            values[block] += (spectrum / (1.0 + distinct[block, None] * spectrum)) @ loadings
        return values[inverse]

    def scaled(self, factor: float) -> SizeCurve:
        """Return ``factor`` times this curve, as for labels in other units."""
        return SizeCurve(self.loadings * factor, self.spectrum, self.floor * factor)


@dataclass(frozen=True, eq=False)
class VarianceParts:
    """Variance of each prediction by cause; arrays (n,), all >= 0.

    var = bag + weights + noise

    Examples
    --------
    >>> parts = VarianceParts.broadcast(2, bag=np.array([0.5, 0.1]), noise=1.0)
    >>> parts.total
    array([1.5, 1.1])
    """

    bag: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        for field in fields(self):
            values = np.array(getattr(self, field.name), dtype=np.float64)
            if values.ndim != 1:
                raise BagwiseError.because(
                    f"the {field.name} part has shape {values.shape}",
                    "(n_bags,)",
                    "VarianceParts.broadcast accepts scalars.",
                )
            _require_variances(values, f"the {field.name} part")
            values.flags.writeable = False
            object.__setattr__(self, field.name, values)
        if not self.bag.shape == self.weights.shape == self.noise.shape:
            raise BagwiseError.because(
                f"the parts have lengths bag {self.bag.size}, weights {self.weights.size}, "
                f"noise {self.noise.size}",
                "one length",
                "Give every bag an entry in each.",
            )

    @classmethod
    def broadcast(
        cls, n_bags: int, *, bag: ArrayLike = 0.0, weights: ArrayLike = 0.0, noise: ArrayLike = 0.0
    ) -> VarianceParts:
        """Parts for ``n_bags`` bags, each given as a scalar or an array (n_bags,)."""
        bag, weights, noise = (
            np.broadcast_to(np.asarray(part, dtype=np.float64), (n_bags,))
            for part in (bag, weights, noise)
        )
        return cls(bag=bag, weights=weights, noise=noise)

    @property
    def total(self) -> Float[np.ndarray, " n"]:
        """Sum of the parts."""
        return self.bag + self.weights + self.noise

    def to_dict(self) -> dict[str, Float[np.ndarray, " n"]]:
        """Return the parts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def take(self, rows: np.ndarray) -> VarianceParts:
        """Select the bags in ``rows`` (indices)."""
        return VarianceParts(**{name: part[rows] for name, part in self.to_dict().items()})


class Prediction:
    """Gaussian predictive distribution of the label of each bag.

    y_i ~ N(mean_i, bag_i + weights_i + noise_i)

    Parameters
    ----------
    mean : (n,) array
    parts : VarianceParts of n bags
    sizes : (n,) array of bag sizes, optional
    size_curve : SizeCurve, optional; without it the model ignores bag size
    ids : (n,) array of bag ids, optional

    Notes
    -----
    Immutable and picklable. Anything else with the methods of `bagwise.metrics.Predictive`
    (such as a mixture over posterior draws) is scored by the same metrics.

    Examples
    --------
    >>> parts = VarianceParts.broadcast(2, bag=np.array([3.0, 0.0]), noise=1.0)
    >>> p = Prediction(np.array([0.0, 5.0]), parts)
    >>> p.std
    array([2., 1.])
    >>> p.interval(0.95).round(2)
    array([[-3.92,  3.92],
           [ 3.04,  6.96]])
    """

    def __init__(
        self,
        mean: ArrayLike,
        parts: VarianceParts,
        *,
        sizes: ArrayLike | None = None,
        size_curve: SizeCurve | None = None,
        ids: ArrayLike | None = None,
    ) -> None:
        self._mean = np.array(mean, dtype=np.float64)
        if self._mean.ndim != 1 or not np.isfinite(self._mean).all():
            raise BagwiseError.because(
                f"mean has shape {self._mean.shape} and "
                f"{np.count_nonzero(~np.isfinite(self._mean))} entries that are not finite",
                "a 1-D array of finite numbers",
                "Check the fitted model and its inputs.",
            )
        self._mean.flags.writeable = False
        self._parts = parts
        self._sizes = None if sizes is None else np.asarray(sizes)
        self._ids = None if ids is None else np.asarray(ids)
        self._size_curve = size_curve
        for name, column in (("parts", parts.bag), ("sizes", self._sizes), ("ids", self._ids)):
            if column is not None and column.shape != self._mean.shape:
                raise BagwiseError.because(
                    f"{name} has shape {column.shape}",
                    f"{self._mean.shape}, one entry per bag",
                    "Give every bag of mean an entry, in the same order.",
                )

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Predictive means (n,)."""
        return self._mean

    @property
    def var(self) -> Float[np.ndarray, " n"]:
        """Predictive variances (n,): the sum of the parts."""
        return self._parts.total

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """Predictive standard deviations (n,)."""
        return np.sqrt(self.var)

    @property
    def parts(self) -> VarianceParts:
        """Variance by cause: bag, weights, noise."""
        return self._parts

    @property
    def sizes(self) -> np.ndarray | None:
        """Bag sizes (n,), if known."""
        return self._sizes

    @property
    def size_curve(self) -> SizeCurve | None:
        """How the bag part falls with size, if the model has such a part."""
        return self._size_curve

    @property
    def ids(self) -> np.ndarray | None:
        """Bag ids (n,), if known."""
        return self._ids

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        q = np.asarray(q, dtype=np.float64)
        if q.ndim > 1 or not ((q > 0) & (q < 1)).all():
            raise BagwiseError.because(
                f"q is {_brief(q)}", "a number or 1-D array in (0, 1)", "Try 0.5, the median."
            )
        if q.ndim == 0:
            return self._mean + self.std * ndtri(q)
        return self._mean[:, None] + self.std[:, None] * ndtri(q)

    def interval(self, level: float = 0.95) -> Float[np.ndarray, "n 2"]:
        """Central interval that holds probability ``level``: columns lower, upper."""
        check_level(level)
        return self.quantile([(1.0 - level) / 2.0, (1.0 + level) / 2.0])

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or an array (n,). A step if var is zero."""
        error, std = check_targets(y, len(self), scalar=True) - self._mean, self.std
        step = np.where(error >= 0, np.inf, -np.inf)  # the limit std -> 0
        return ndtr(np.divide(error, std, out=step, where=std > 0))

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Log density at ``y`` (n,): -(log 2 pi var + (y - mean)^2 / var) / 2."""
        y = check_targets(y, len(self))
        var = self.var
        if (var == 0).any():
            raise BagwiseError.because(
                f"{self._name(int(np.argmin(var)))} has zero variance, hence no density",
                "a variance > 0 for every bag",
                "Give the prediction a noise part > 0.",
            )
        return -0.5 * (LOG_TWO_PI + np.log(var) + (y - self._mean) ** 2 / var)

    def crps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y`` (n,); |y - mean| when var is zero.

        std { t (2 Phi(t) - 1) + 2 phi(t) - 1 / sqrt(pi) },  t = (y - mean) / std

        References
        ----------
        Gneiting and Raftery (2007), Strictly Proper Scoring Rules, equation 21.
        """
        error, std = np.abs(check_targets(y, len(self)) - self._mean), self.std
        t = np.divide(error, std, out=np.zeros_like(error), where=std > 0)
        density = np.exp(-0.5 * (t**2 + LOG_TWO_PI))
        score = error * (1.0 - 2.0 * ndtr(-t)) + std * (2.0 * density - 1.0 / np.sqrt(np.pi))
        return np.where(std > 0, score, error)

    def sample(
        self,
        size: int = 1,
        random_state: int | np.random.Generator | np.random.RandomState | None = None,
    ) -> Float[np.ndarray, "size n"]:
        """Independent draws of the labels: (size, n)."""
        if size < 1:
            raise BagwiseError.because(f"size is {size}", "at least 1", "Ask for one draw or more.")
        if not isinstance(random_state, np.random.RandomState):
            random_state = np.random.default_rng(random_state)
        return self._mean + self.std * random_state.standard_normal((size, len(self)))

    def at_size(self, n_points: ArrayLike) -> Prediction:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        bag_i -> size_curve.variance(n_points_i), all else unchanged

        The mean stays: before the further points are seen, the expected mean of the later
        prediction is today's mean (the tower property). A model without a size curve (a point
        embedding) ignores bag size, so its answer is this prediction with the new sizes.
        """
        sizes = np.asarray(n_points, dtype=np.float64)
        if sizes.ndim > 1 or sizes.shape not in ((), self._mean.shape) or not (sizes > 0).all():
            raise BagwiseError.because(
                f"n_points is {_brief(n_points)}",
                f"a number > 0 or an array of {len(self)} such numbers",
                "Give the number of points to imagine in each bag.",
            )
        sizes = np.broadcast_to(sizes, self._mean.shape).copy()
        parts, curve = self._parts, self._size_curve
        if curve is not None:
            parts = VarianceParts(curve.variance(sizes), parts.weights, parts.noise)
        return Prediction(self._mean, parts, sizes=sizes, size_curve=curve, ids=self._ids)

    def to_dict(self, level: float = 0.95) -> dict[str, np.ndarray]:
        """Columns: id, size (if known), mean, std, lower, upper, bag_sd, weights_sd, noise_sd."""
        columns = {"id": np.arange(len(self)) if self._ids is None else self._ids}
        if self._sizes is not None:
            columns["size"] = self._sizes
        lower, upper = self.interval(level).T
        columns |= {"mean": self._mean, "std": self.std, "lower": lower, "upper": upper}
        columns |= {f"{name}_sd": np.sqrt(part) for name, part in self._parts.to_dict().items()}
        return columns

    def __len__(self) -> int:
        return self._mean.size

    def __getitem__(self, index: Any) -> Prediction:
        """Prediction of some bags: an integer (one bag), a slice, a mask or indices."""
        rows = np.atleast_1d(np.arange(len(self))[index])
        return Prediction(
            self._mean[rows],
            self._parts.take(rows),
            sizes=None if self._sizes is None else self._sizes[rows],
            size_curve=self._size_curve,
            ids=None if self._ids is None else self._ids[rows],
        )

    def __repr__(self) -> str:
        if len(self) == 0:
            return "Prediction(0 bags)"
        mean, std = self._mean, self.std
        return (
            f"Prediction({len(self)} bag{'s' * (len(self) > 1)}, "
            f"mean {mean.min():.4g} to {mean.max():.4g}, std {std.min():.4g} to {std.max():.4g})"
        )

    def _name(self, row: int) -> str:
        return f"bag {row}" if self._ids is None else f"bag {self._ids[row]!s} (row {row})"


def check_level(level: float) -> None:
    """Raise unless ``level`` is a probability strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise BagwiseError.because(
            f"level is {level}", "a number strictly between 0 and 1", "Give one such as 0.95."
        )


def check_targets(y: ArrayLike, n_bags: int, *, scalar: bool = False) -> np.ndarray:
    """``y`` as a float64 array (n_bags,), or 0-D where ``scalar`` allows; finite."""
    values = np.asarray(y, dtype=np.float64)
    if values.shape != (n_bags,) and not (scalar and values.ndim == 0):
        raise InvalidLabelsError.because(
            f"y has shape {values.shape}",
            f"({n_bags},), one label per bag",
            "Give the labels of the predicted bags, in the same order.",
        )
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise InvalidLabelsError.because(
            f"y is {values.flat[bad[0]]} at row {bad[0]} ({bad.size} such labels)",
            "finite labels",
            "Drop the bags without a label before scoring.",
        )
    return values


def _require_variances(values: np.ndarray, name: str) -> None:
    if not (np.isfinite(values) & (values >= 0)).all():
        raise BagwiseError.because(
            f"{name} is {_brief(values)}", "finite and >= 0", "Check the fitted variances."
        )


def _brief(values: ArrayLike) -> str:
    text = np.array2string(np.asarray(values), threshold=6, edgeitems=3, precision=4)
    return " ".join(text.split())
