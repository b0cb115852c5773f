"""A prediction that is a mixture of Gaussians: one for each posterior draw of the model.

What differs between the draws is what the data leave open about the regression, so the variance of
the means over the draws is the ``weights`` part of the variance.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from bagwise.exceptions import BagwiseError
from bagwise.predictions.gaussian import (
    FARTHEST,
    LOG_TWO_PI,
    Generator,
    Prediction,
    check_column,
)
from bagwise.predictions.latent import Latent, Query
from bagwise.predictions.parts import VarianceParts, brief, require_variances

# Elements of a table worked on at once: 1 MB of float64, so that it stays in the cache.
BLOCK_ELEMENTS = 2**17

# A quantile is found when the next step is this small in units of the predictive std.
QUANTILE_TOLERANCE = 1e-12

# The trapezoidal rule of `_spread_by_nodes`. Its error falls as exp(-(pi / NODE_STEP)^2) with the
# step and as a Gaussian tail with the reach: measured, 1e-10 of the std for these.
NODE_STEP = 0.75  # in units of the least std of a component
NODE_REACH = 6.0  # in units of the std of each component


# Variances of each draw, of all bags or of each.
ByDraw = Float[np.ndarray, " s"] | Float[np.ndarray, "s n"]


class MixturePrediction(Prediction):
    """Predictive distribution of each label: the average of a Gaussian per posterior draw.

    p(y_i) = mean_s N(y_i; means_si, bag_si + weights_si + noise_s),  bag_si = bag_s[bag_of_i]

    Its variance has the parts (law of total variance)

    bag_i = mean_s bag_si, weights_i = var_s means_si + mean_s weights_si, noise_i = mean_s noise_s

    Parameters
    ----------
    means : (s, n) array, a row for each draw
    noise : (s,) array >= 0, variance of the noise in each draw; (s, n) if it differs between bags
    sizes : (n,) array of bag sizes, optional
    bag : (s, l) array >= 0, variance by the bag in each draw at each distinct size, optional
    bag_of : (n,) array, which of these sizes each bag has; by default bag i has the i-th
    weights : (s, n) array >= 0, variance by the regression that is left in each draw, optional
    ids : (n,) array of bag ids, optional
    query : Query, optional: how to predict again; without it the model ignores bag size

    Notes
    -----
    Immutable and picklable. One draw gives the `Prediction` with its mean and variances.

    Examples
    --------
    >>> p = MixturePrediction(np.array([[-3.0], [3.0]]), np.array([1.0, 1.0]), sizes=None)
    >>> p.parts.weights, p.parts.noise
    (array([9.]), array([1.]))
    >>> p.interval(0.9).round(2)  # two modes; one Gaussian would give ± 5.2
    array([[-4.28,  4.28]])
    """

    def __init__(
        self,
        means: ArrayLike,
        noise: ArrayLike,
        *,
        sizes: ArrayLike | None = None,
        bag: ArrayLike | None = None,
        bag_of: ArrayLike | None = None,
        weights: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        query: Query | None = None,
    ) -> None:
        self._means = np.array(means, dtype=np.float64)
        self._check_draws()
        n = self._means.shape[1]
        self._noise = self._checked_by_draw(noise, "noise")
        none = np.zeros(len(self._means))
        self._weights = self._checked_by_draw(none if weights is None else weights, "weights")
        self._bag, self._bag_of = self._checked_bag(bag, bag_of)
        for values in (self._means, self._noise, self._weights, self._bag):
            values.flags.writeable = False
        parts = VarianceParts.broadcast(
            n,
            bag=self._bag.mean(axis=0)[self._bag_of],
            weights=self._means.var(axis=0) + self._weights.mean(axis=0),
            noise=self._noise.mean(axis=0),
        )
        super().__init__(self._means.mean(axis=0), parts, sizes=sizes, ids=ids, query=query)

    @classmethod
    def from_latent(cls, latent: Latent, **known: Any) -> MixturePrediction:
        """Return the prediction of labels that are a latent value of each draw, and noise."""
        given = latent.weights_var.any()  # else it is in the draws alone
        return cls(
            latent.mean,
            latent.noise_var,
            bag=latent.bag_var,
            bag_of=latent.bag_of,
            weights=np.broadcast_to(latent.weights_var, latent.mean.shape) if given else None,
            **known,
        )

    def _check_draws(self) -> None:
        shape = self._means.shape
        if len(shape) != 2 or shape[0] < 1 or not np.isfinite(self._means).all():
            raise BagwiseError.because(
                f"means has shape {shape} and "
                f"{np.count_nonzero(~np.isfinite(self._means))} entries that are not finite",
                "a 2-D array (draws, bags) of finite numbers, with a draw or more",
                "Check the fitted model and its inputs.",
            )

    def _checked_by_draw(self, values: ArrayLike, name: str) -> ByDraw:
        """Return variances of each draw, of all bags or of each."""
        table = np.array(values, dtype=np.float64)
        draws, n = self._means.shape
        if table.shape not in ((draws,), (draws, n)):
            raise BagwiseError.because(
                f"{name} has shape {table.shape}",
                f"({draws},), one entry per draw, or ({draws}, {n}) with one for each bag too",
                "Give every row of means an entry.",
            )
        require_variances(table, name)
        return table

    def _checked_bag(
        self, bag: ArrayLike | None, bag_of: ArrayLike | None
    ) -> tuple[Float[np.ndarray, "s l"], Int[np.ndarray, " n"]]:
        """Return the variances by the bag at each size, and which each bag has; 0 if not given."""
        draws, n = self._means.shape
        if bag is None:
            if bag_of is not None:
                raise BagwiseError.because(
                    "bag_of came without bag", "both or bag alone", "Pass bag=..., (draws, sizes)."
                )
            return np.zeros((draws, 1)), np.zeros(n, dtype=np.int64)
        table = np.array(bag, dtype=np.float64)
        places = np.arange(n) if bag_of is None else np.array(bag_of)
        columns = {n} if bag_of is None else set(table.shape[1:])
        if table.ndim != 2 or len(table) != draws or table.shape[1] not in columns:
            raise BagwiseError.because(
                f"bag has shape {table.shape}",
                f"({draws}, {n if bag_of is None else 'sizes'}), a row per draw",
                "Give every row of means its variances; with bag_of, of each distinct size.",
            )
        check_column(places, "bag_of", n)
        n_sizes = table.shape[1]
        if places.dtype.kind not in "iu" or not ((places >= 0) & (places < n_sizes)).all():
            raise BagwiseError.because(
                f"bag_of is {brief(places)}",
                f"places among the {n_sizes} sizes of bag, from 0",
                "np.unique(sizes, return_inverse=True) returns them.",
            )
        require_variances(table, "the bag part")
        return table, places

    @property
    def n_draws(self) -> int:
        """Number of posterior draws."""
        return len(self._means)

    @property
    def bag_variances(self) -> Float[np.ndarray, "s n"]:
        """Bag variance of each draw."""
        values = self._bag[:, self._bag_of]
        values.flags.writeable = False
        return values

    @property
    def components(self) -> tuple[Float[np.ndarray, "s n"], Float[np.ndarray, "s n"]]:
        """Means and variances of the Gaussians."""
        return self._means, self._variances(slice(None))

    def _variances(self, rows: Any, draws: Any = slice(None)) -> Float[np.ndarray, "s b"]:
        """Variances of the Gaussians of some bags, in some draws."""
        total = self._bag[draws][:, self._bag_of[rows]]
        for table in (self._weights, self._noise):
            part = _of(table[draws], rows)
            total = total + (part[:, None] if part.ndim == 1 else part)
        return total

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return mean_s Phi((y - mean_s) / std_s)."""
        values = np.empty(len(self))
        for rows, means, std in self._blocks():
            values[rows] = ndtr(_standardise(y[rows], means, std)).mean(axis=1)
        return values

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return log mean_s N(y; mean_s, var_s)."""
        if not self._noise.all():
            self._require_density(self.components[1].min(axis=0), " in a draw")
        values = np.empty(len(self))
        for rows, means, std in self._blocks():
            away = np.clip(_standardise(y[rows], means, std), -FARTHEST, FARTHEST)
            logs = -0.5 * away**2 - np.log(std)
            peak = logs.max(axis=1)  # taken out, so that no exponential overflows
            values[rows] = peak + np.log(np.exp(logs - peak[:, None]).mean(axis=1))
        return values - 0.5 * LOG_TWO_PI

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        """Return the least t with cdf(t) >= q, to 1e-12 of the std or to what rounding allows."""
        values = super()._quantiles(q)  # of one Gaussian, to start at
        tolerance = QUANTILE_TOLERANCE * self.std
        for rows, means, std in self._blocks():
            for column, p in enumerate(q):
                values[rows, column] = _quantile(
                    means, std, p, values[rows, column], tolerance[rows]
                )
        return values

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return E|X - y| - E|X - X'| / 2,  X, X' ~ F independent, to 1e-9 of the std or better.

        The first term is in closed form; see `_half_spread` for the second.

        References
        ----------
        Grimit et al. (2006), The continuous ranked probability score for circular variables and
        its application to mesoscale forecast ensemble verification.
        """
        values = np.empty(len(self))
        for rows, means, std in self._blocks():
            error = np.abs(y[rows, None] - means)
            values[rows] = (error + _excess(error, std)).mean(axis=1)
            values[rows] -= [_half_spread(*bag) for bag in zip(means, std, strict=True)]
        return values

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        """Draw labels; those of one row share a posterior draw.

        A posterior draw is one world that is possible, and all bags live in the same one.
        """
        draw = rng.choice(self.n_draws, size)
        std = np.sqrt(self._variances(slice(None), draw))
        return self._means[draw] + std * rng.standard_normal((size, len(self)))

    def _with(self, rows: Any, *, sizes: Any, query: Query | None) -> MixturePrediction:
        return MixturePrediction(
            self._means[:, rows],
            _of(self._noise, rows),
            sizes=sizes,
            bag=self._bag,
            bag_of=self._bag_of[rows],
            weights=_of(self._weights, rows),
            ids=None if self._ids is None else self._ids[rows],
            query=query,
        )

    def _blocks(self) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Rows of some bags, with their component means and stds (rows, draws)."""
        step = max(1, BLOCK_ELEMENTS // self.n_draws)
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            std = np.sqrt(self._variances(rows))
            yield rows, np.ascontiguousarray(self._means[:, rows].T), np.ascontiguousarray(std.T)


def _of(table: Float[np.ndarray, "s ..."], rows: Any) -> Float[np.ndarray, "s ..."]:
    """Variances of some bags, if each bag has its own."""
    return table if table.ndim == 1 else table[:, rows]


def _standardise(
    t: Float[np.ndarray, " b"], means: Float[np.ndarray, "b s"], std: Float[np.ndarray, "b s"]
) -> Float[np.ndarray, "b s"]:
    """(t - mean) / std of every component; where std is zero, the limit: ± infinity."""
    error = t[:, None] - means
    if std.all():
        return np.divide(error, std, out=error)
    step = np.where(error >= 0, np.inf, -np.inf)
    return np.divide(error, std, out=step, where=std > 0)


def _quantile(
    means: Float[np.ndarray, "b s"],
    std: Float[np.ndarray, "b s"],
    q: float,
    start: Float[np.ndarray, " b"],
    tolerance: Float[np.ndarray, " b"],
) -> Float[np.ndarray, " b"]:
    """Quantile of each mixture, by Newton steps from ``start`` inside a bracket that closes.

    The equation is solved as Phi^-1(F(t)) = Phi^-1(q): linear in t if F is Gaussian. A step that
    leaves the bracket, or is not half the last one, is replaced by bisection.
    """
    if not std.any():  # point masses: an order statistic
        return np.quantile(means, q, axis=1, method="inverted_cdf")
    # Above the median, upper tails are compared, whose rounding errors are relative to the tail.
    sign, tail = (1.0, q) if q <= 0.5 else (-1.0, 1.0 - q)
    score = sign * ndtri(tail)
    lower, upper = (means + score * std).min(axis=1), (means + score * std).max(axis=1)
    tolerance = tolerance + np.spacing(np.maximum(np.abs(lower), np.abs(upper)))
    t, last, found = np.clip(start, lower, upper), upper - lower, upper.copy()
    active = np.flatnonzero(last > tolerance)
    while active.size:
        old = t[active]
        mass, density = _tail_and_density(old, means[active], std[active], sign)
        reached = sign * (mass - tail) >= 0  # F(t) >= q
        upper[active[reached]], lower[active[~reached]] = old[reached], old[~reached]
        low, high = lower[active], upper[active]
        step = _newton_step(sign * ndtri(mass), density, score)
        new = old + step
        good = (new >= low) & (new <= high) & (np.abs(step) <= 0.5 * last[active])
        t[active] = np.where(good, new, 0.5 * (low + high))
        last[active] = np.where(good, np.abs(step), 0.5 * (high - low))
        found[active] = np.where(good, new, high)  # at a jump, the side where F >= q
        active = active[last[active] > tolerance[active]]
    return found


def _newton_step(
    reached: Float[np.ndarray, " b"], density: Float[np.ndarray, " b"], score: float
) -> Float[np.ndarray, " b"]:
    """Step towards Phi^-1(F(t)) = score from where Phi^-1(F(t)) is ``reached`` and F' ``density``.

    Not finite where F or F' has underflowed, far from every component.
    """
    with np.errstate(all="ignore"):
        slope = density * np.exp(0.5 * (reached**2 + LOG_TWO_PI))
        return (score - reached) / slope


def _tail_and_density(
    t: Float[np.ndarray, " b"],
    means: Float[np.ndarray, "b s"],
    std: Float[np.ndarray, "b s"],
    sign: float,
) -> tuple[Float[np.ndarray, " b"], Float[np.ndarray, " b"]]:
    """P(X <= t), or P(X > t) if ``sign`` is -1, and the density without point masses."""
    z = np.clip(_standardise(t, means, std), -FARTHEST, FARTHEST)
    mass = ndtr(sign * z).mean(axis=1)
    bell = np.exp(-0.5 * (z**2 + LOG_TWO_PI))
    return mass, np.divide(bell, std, out=bell, where=std > 0).mean(axis=1)


def _excess(distance: np.ndarray, std: np.ndarray) -> np.ndarray:
    """E|distance + std Z| - distance >= 0 for Z ~ N(0, 1) and distance >= 0."""
    z = np.divide(distance, std, out=np.zeros_like(distance), where=std > 0)
    z = np.minimum(z, FARTHEST)
    bell = np.exp(-0.5 * (z**2 + LOG_TWO_PI))
    return np.where(std > 0, 2.0 * (std * bell - distance * ndtr(-z)), 0.0)


def _half_spread(means: Float[np.ndarray, " s"], std: Float[np.ndarray, " s"]) -> float:
    """E|X - X'| / 2 of the mixture of N(means_s, std_s^2), by the cheaper of two ways."""
    order = np.argsort(means)
    means, std = means[order] - means.mean(), std[order]
    low, high = (means - NODE_REACH * std).min(), (means + NODE_REACH * std).max()
    if high - low >= len(means) * NODE_STEP * std.min():  # as many nodes as draws
        return _spread_by_pairs(means, std)
    nodes = np.linspace(low, high, 2 + int((high - low) / (NODE_STEP * std.min())))
    return _spread_by_nodes(means, std, nodes)


def _spread_by_nodes(
    means: Float[np.ndarray, " s"], std: Float[np.ndarray, " s"], nodes: Float[np.ndarray, " m"]
) -> float:
    """E|X - X'| / 2 = integral of F (1 - F), by the trapezoidal rule; ``means`` increase.

    For a smooth integrand that vanishes at both ends no rule is better: the error falls faster
    than exponentially in the number of nodes. Only the components within reach of a node are
    evaluated: those before them count as 1 and those after them as 0.
    """
    reach = NODE_REACH * std.max()
    first, last = (np.searchsorted(means, nodes + shift) for shift in (-reach, reach))
    width = max(1, int((last - first).max()))
    first = np.minimum(first, len(means) - width)
    near_means, near_std = sliding_window_view(means, width), sliding_window_view(std, width)
    total, step = 0.0, max(1, BLOCK_ELEMENTS // width)
    for start in range(0, len(nodes), step):
        rows = first[start : start + step]
        z = _standardise(nodes[start : start + step], near_means[rows], near_std[rows])
        cdf = (rows + ndtr(z).sum(axis=1)) / len(means)
        total += float(cdf @ (1.0 - cdf))
    return total * float(nodes[1] - nodes[0])


def _spread_by_pairs(means: Float[np.ndarray, " s"], std: Float[np.ndarray, " s"]) -> float:
    """E|X - X'| / 2 as a sum over pairs of components; ``means`` increase.

    Of two that are far apart, E|X - X'| is the distance of the means, and the sum of those needs no
    pairs: the i-th smallest mean has i means below and s - 1 - i above it.
    """
    s, var = len(means), std**2
    total = 2.0 * float((2.0 * np.arange(s) - s + 1.0) @ means)
    total += float(_excess(np.zeros(s), np.sqrt(2.0 * var)).sum())
    reach = NODE_REACH * np.sqrt(2.0) * std.max()
    for lag in range(1, s):
        distance = means[lag:] - means[:-lag]
        if distance.min() > reach:
            break
        total += 2.0 * float(_excess(distance, np.sqrt(var[lag:] + var[:-lag])).sum())
    return total / (2.0 * s**2)
