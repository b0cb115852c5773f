"""What a model says about each bag: a Gaussian with its variance split by cause.

The total variance is a sum of three parts, so a reader can see *why* an answer is unsure:

- ``bag``: the bag's distribution is seen only through its points (shrinks as the bag grows);
- ``weights``: the regression is estimated from finitely many bags;
- ``noise``: what remains even when both are known.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.per_bag import PerBag, numbers_per_bag
from bagwise.bags.validation import random_generator
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions.latent import Latent, Query
from bagwise.predictions.parts import VarianceParts, brief, reals
from bagwise.predictions.tabular import Tabular

__all__ = ["Prediction", "VarianceParts"]

Generator = np.random.Generator | np.random.RandomState
Seed = int | Generator | None

LOG_TWO_PI = float(np.log(2.0 * np.pi))

# Standard deviations beyond which the square overflows: a log density is never less than there.
FARTHEST = 1e150
# Largest number of points that is imagined in a bag, however slowly its part falls.
MOST_POINTS = 1e7


class Prediction(Tabular):
    """Gaussian predictive distribution of the label of each bag.

    y_i ~ N(mean_i, bag_i + weights_i + noise_i)

    Parameters
    ----------
    mean : (n,) array
    parts : VarianceParts of n bags
    sizes : (n,) array of bag sizes, optional
    ids : (n,) array of bag ids, optional
    query : Query, optional: how to predict again; without it the model ignores bag size

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
        ids: ArrayLike | None = None,
        query: Query | None = None,
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
        self._ids = None if ids is None else np.asanyarray(ids)  # counted ones stay so
        self._query = query
        for name, column in (("parts", parts.bag), ("sizes", self._sizes), ("ids", self._ids)):
            if column is not None:
                check_column(column, name, len(self))

    @classmethod
    def from_latent(cls, latent: Latent, **known: Any) -> Prediction:
        """Return the prediction of labels that are a latent value, and noise.

        Of several draws it is the Gaussian with the mean and the variance of their mixture.
        ``known`` of the bags are their sizes, ids and query.
        """
        parts = VarianceParts.broadcast(
            latent.mean.shape[1],
            bag=latent.bag_var.mean(axis=0)[latent.bag_of],
            weights=np.atleast_2d(latent.weights_var).mean(axis=0) + latent.mean.var(axis=0),
            noise=latent.noise_var.mean(axis=0),
        )
        return Prediction(latent.mean.mean(axis=0), parts, **known)

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
    def ids(self) -> np.ndarray | None:
        """Bag ids (n,), if known."""
        return self._ids

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,): see `Tabular.novelty`."""
        return None if self._query is None else self._query.novelty

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        q = check_probabilities(q)
        return self._quantiles(q.reshape(-1)).reshape(len(self), *q.shape)

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Central interval that holds probability ``level``: columns lower, upper."""
        check_level(level)
        return self.quantile([(1.0 - level) / 2.0, (1.0 + level) / 2.0])

    def cdf(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or an array (n,). A step if var is zero."""
        y = check_targets(y, len(self), self._ids, scalar=True)
        return self._cdf(np.broadcast_to(y, (len(self),)))

    def pit(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Probability integral transform of ``y`` (n,): uniform on (0, 1) if calibrated."""
        return self._cdf(check_targets(y, len(self), self._ids))

    def level_at(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Level of the interval that just reaches ``y`` (n,): uniform on (0, 1) if calibrated."""
        return self._level_at(check_targets(y, len(self), self._ids))

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log density at ``y`` (n,), or of counts log probability; −∞ of what cannot be."""
        return self._log_prob(check_targets(y, len(self), self._ids))

    def crps(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y`` (n,); |y - mean| when var is zero.

        integral of (F(t) - 1[t >= y])^2 dt
        """
        return self._crps(check_targets(y, len(self), self._ids))

    def sample(self, size: int = 1, random_state: Seed = None) -> Float[np.ndarray, "size n"]:
        """Independent draws of the labels: (size, n)."""
        return self._sample(size, check_sampling(size, random_state))

    # The distribution itself, of numbers that are checked. Another has these of its own.

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return self._mean[:, None] + self.std[:, None] * ndtri(q)

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        error, std = y - self._mean, self.std
        step = np.where(error >= 0, np.inf, -np.inf)  # the limit std -> 0
        return ndtr(np.divide(error, std, out=step, where=std > 0))

    def _level_at(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return |2F(y) − 1|: intervals are central."""
        return np.abs(2.0 * self.pit(y) - 1.0)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return -(log 2 pi var + (y - mean)^2 / var) / 2."""
        var = self.var
        self._require_density(var)
        away = np.minimum(np.abs(y - self._mean) / np.sqrt(var), FARTHEST)
        return -0.5 * (LOG_TWO_PI + np.log(var) + away**2)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return std { t (2 Phi(t) - 1) + 2 phi(t) - 1 / sqrt(pi) },  t = (y - mean) / std.

        References
        ----------
        Gneiting and Raftery (2007), Strictly Proper Scoring Rules, equation 21.
        """
        error, std = np.abs(y - self._mean), self.std
        t = np.divide(error, std, out=np.zeros_like(error), where=std > 0)
        t = np.minimum(t, FARTHEST)
        density = np.exp(-0.5 * (t**2 + LOG_TWO_PI))
        score = error * (1.0 - 2.0 * ndtr(-t)) + std * (2.0 * density - 1.0 / np.sqrt(np.pi))
        return np.where(std > 0, score, error)

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        return self._mean + self.std * rng.standard_normal((size, len(self)))

    def at_size(self, n_points: ArrayLike) -> Prediction:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The model is asked again with what would be known of the bag: see
        `EmbeddingPosterior.at_size`. The mean stays: before the further points are seen, the
        expected mean of the later prediction is today's mean (the tower property). A model that
        takes bags for points ignores their size: its answer is this prediction with new sizes.
        """
        sizes = check_n_points(n_points, len(self))
        if self._query is None:
            return self._with(slice(None), sizes=sizes, query=None)
        query = self._query.at_size(sizes)
        return type(self).from_latent(query.latent(), sizes=sizes, ids=self._ids, query=query)

    def more_points(self, std: ArrayLike) -> Float[np.ndarray, " n"]:
        """Answer: how many more points each bag needs for a standard deviation of ``std``.

        0 of a bag that has enough, infinite of one whose other parts alone are more: more bags, or
        other columns, would have to help. Where points have weights, further ones count in full.

        Parameters
        ----------
        std : a number > 0, or (n,), in units of the label

        Examples
        --------
        >>> import bagwise
        >>> rng = np.random.default_rng(0)
        >>> y = rng.uniform(1, 2, 80)
        >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 40)]
        >>> p = bagwise.ShrinkageRegressor().fit(bags, y).predict_dist(bags[:3])
        >>> more = p.more_points(0.2)
        >>> bool((p.at_size(p.sizes + more).std <= 0.2).all() and more[1] < more[0])
        True
        """
        wanted = reals(std)
        if wanted.shape not in ((), (len(self),)) or not (wanted > 0).all():
            raise BagwiseError.because(
                f"std is {brief(std)}",
                f"a number > 0 or an array of {len(self)} such numbers",
                "Give the standard deviation to reach, in units of the label.",
            )
        if self.sizes is None:
            raise BagwiseError.because(
                "the prediction came without bag sizes",
                "how many points each bag has",
                "Predict with a model of bagwise, whose predictions know them.",
            )
        today = self.sizes.astype(np.float64)
        enough = least_points(lambda more: self.at_size(today + more).std <= wanted, len(self))
        return np.where(self.std <= wanted, 0.0, enough)

    def to_dict(self, level: float = LEVEL) -> dict[str, np.ndarray]:
        """Columns: id, size (if known), mean, std, lower, upper, bag_sd, weights_sd, noise_sd.

        Last comes novelty, if it is known.
        """
        lower, upper = self.interval(level).T
        columns = self._known()
        columns |= {"mean": self._mean, "std": self.std, "lower": lower, "upper": upper}
        columns |= {f"{name}_sd": np.sqrt(part) for name, part in self._parts.to_dict().items()}
        return columns | self._told()

    def __len__(self) -> int:
        return self._mean.size

    def __getitem__(self, index: Any) -> Prediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        rows = self._rows(index)
        sizes = None if self._sizes is None else self._sizes[rows]
        query = None if self._query is None else self._query.take(rows)
        return self._with(rows, sizes=sizes, query=query)

    def _with(self, rows: Any, *, sizes: Any, query: Query | None) -> Prediction:
        """Return the prediction of some bags, of which something else is known."""
        ids = None if self._ids is None else self._ids[rows]
        return Prediction(
            self._mean[rows], self._parts.take(rows), sizes=sizes, ids=ids, query=query
        )

    def __repr__(self) -> str:
        name = type(self).__name__
        if len(self) == 0:
            return f"{name}(0 bags)"
        mean, std = self._mean, self.std
        return (
            f"{name}({len(self)} bag{'s' * (len(self) > 1)}, "
            f"mean {mean.min():.4g} to {mean.max():.4g}, std {std.min():.4g} to {std.max():.4g})"
        )

    def _require_density(self, var: Float[np.ndarray, " n"], where: str = "") -> None:
        if (var == 0).any():
            raise BagwiseError.because(
                f"{self._name(int(np.argmin(var)))} has zero variance{where}, hence no density",
                "a variance > 0 for every bag",
                "Give the prediction a noise part > 0.",
            )

    def _name(self, row: int) -> str:
        return f"bag {row}" if self._ids is None else f"bag {self._ids[row]!s} (row {row})"


def check_probabilities(q: ArrayLike) -> np.ndarray:
    """``q`` as a float64 array, 0-D or (m,), strictly between 0 and 1."""
    values = reals(q)
    if values.ndim > 1 or not ((values > 0) & (values < 1)).all():
        raise BagwiseError.because(
            f"q is {brief(q)}", "a number or 1-D array in (0, 1)", "Try 0.5, the median."
        )
    return values


def check_n_points(n_points: ArrayLike, n_bags: int) -> Float[np.ndarray, " n"]:
    """``n_points`` (a number or (n_bags,), > 0) as a float64 array (n_bags,)."""
    sizes = reals(n_points)
    if sizes.ndim > 1 or sizes.shape not in ((), (n_bags,)) or not (sizes > 0).all():
        raise BagwiseError.because(
            f"n_points is {brief(n_points)}",
            f"a number > 0 or an array of {n_bags} such numbers",
            "Give the number of points to imagine in each bag.",
        )
    return np.broadcast_to(sizes, (n_bags,)).copy()


def least_points(
    enough: Callable[[np.ndarray], np.ndarray], n_bags: int
) -> Float[np.ndarray, " n"]:
    """Return for each bag the least whole number that is enough, by bisection; else infinity.

    Parameters
    ----------
    enough : says of (n,) numbers of points > 0 whether they are, which more always are

    Examples
    --------
    >>> least_points(lambda n: n >= np.array([1, 40, 1e9]), 3)
    array([ 1., 40., inf])
    """
    low, high = np.zeros(n_bags), np.full(n_bags, MOST_POINTS)
    never = ~enough(high)
    while (high - low > 1.0).any():
        middle = np.maximum(np.floor((low + high) / 2.0), 1.0)
        reached = enough(middle)
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return np.where(never, np.inf, high)


def check_sampling(size: int, random_state: Seed) -> Generator:
    """Raise unless ``size`` >= 1; return the generator that ``random_state`` stands for."""
    if not isinstance(size, int | np.integer) or size < 1:
        raise BagwiseError.because(
            f"size is {brief(size)}", "a whole number of at least 1", "Ask for one draw or more."
        )
    if isinstance(random_state, np.random.RandomState):
        return random_state
    return random_generator(random_state)


def check_column(column: np.ndarray, name: str, n_bags: int) -> None:
    """Raise unless ``column`` has the shape (n_bags,)."""
    if column.shape != (n_bags,):
        raise BagwiseError.because(
            f"{name} has shape {column.shape}",
            f"({n_bags},), one entry per bag",
            "Give every bag of mean an entry, in the same order.",
        )


def check_targets(y: Any, n_bags: int, ids: Any = None, *, scalar: bool = False) -> np.ndarray:
    """``y`` as a float64 array (n_bags,), or 0-D where ``scalar`` allows; finite.

    Labels with ids, such as a pandas Series, go by id: see `bagwise.bags.per_bag.in_bag_order`.
    """
    values = numbers_per_bag(y, ids)
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
