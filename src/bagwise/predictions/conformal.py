"""Conformal predictions: as unsure as a model was wrong about bags that it had not seen.

What a model says of a new bag is moved by the errors it made on calibration bags; among these and
the new one, no error is more likely to be the largest. So intervals hold whether or not the model
is right, if the new bag is drawn as the calibration bags were.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy.typing import ArrayLike

from bagwise._utils.levels import LEVEL, check_level
from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.predictions.bounded import BoundedPrediction
from bagwise.predictions.by_size import equal_shares
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.counts import CountPrediction
from bagwise.predictions.gaussian import Generator, Prediction
from bagwise.predictions.linked import PositivePrediction
from bagwise.predictions.parts import VarianceParts

# Numbers worked on at once: bags times calibration bags.
BLOCK = 2_000_000

# Shares are compared with so much room for rounding: (1 + 0.9)/2 is not 0.95 to the last digit.
ROUNDING = 1e-9

# Where all errors are 0, the standard deviation is this share of the model's.
LEAST_SHARE = 1e-6

# Logs of likelihood ratios beyond are taken to be there.
LARGEST_LOG = 50.0


@dataclass(frozen=True, eq=False)
class SizeRatio:
    """How much more frequent bags of a size are among those to come than in the calibration.

    log ratio(N) = b_0 + b_1 t + b_2 t²,   t = (log N − center) / scale

    Attributes
    ----------
    coefficients : (3,), b

    Examples
    --------
    >>> ratio = SizeRatio(np.array([0.0, -1.0, 0.0]), center=0.0, scale=1.0)
    >>> ratio(np.array([1.0, 10.0]))
    array([1. , 0.1])
    """

    coefficients: Float64[np.ndarray, " b"]
    center: float
    scale: float

    def __call__(self, sizes: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the ratio at sizes."""
        t = (np.log(sizes) - self.center) / self.scale
        logs = np.stack([np.ones_like(t), t, t**2], axis=1) @ self.coefficients
        return np.exp(np.clip(logs, -LARGEST_LOG, LARGEST_LOG))


@dataclass(frozen=True, eq=False)
class Calibration:
    """Scores of calibration bags, by models that had not seen them, and what each counts.

    A new bag of size N has the weight r(N), and calibration bag i, if it is in the group of sizes
    that N is in, the weight weights_i r(N_i); r is 1 without a ``ratio``.

    Attributes
    ----------
    scores : (m,), (y − mean)/scale of real labels, 1 − P(y) of classes
    model : (m,), which of the models predicted each;  sizes : (m,)
    weights : (m,), 1, or where bags come in groups 1/(bags of the group)
    starts : (g,), first size of each group of sizes; one if there are none
    ratio : SizeRatio, or None
    scaled : whether the scale is the model's standard deviation, else 1
    symmetric : whether errors either way are one and the same, |score|
    """

    scores: Float64[np.ndarray, " m"]
    model: Int64[np.ndarray, " m"]
    sizes: Float64[np.ndarray, " m"]
    weights: Float64[np.ndarray, " m"]
    starts: Float64[np.ndarray, " g"]
    ratio: SizeRatio | None = None
    scaled: bool = True
    symmetric: bool = True

    @property
    def n_groups(self) -> int:
        """Number of groups of sizes."""
        return len(self.starts)

    def cell(self, sizes: Float[np.ndarray, " n"]) -> Int64[np.ndarray, " n"]:
        """Return the group of sizes that each size is in; below the first start, the first."""
        if self.n_groups == 1:
            return np.zeros(len(sizes), dtype=np.int64)
        found = np.searchsorted(self.starts, sizes, side="right") - 1
        return np.maximum(found, 0).astype(np.int64)

    def of_cell(self, cell: int) -> tuple[Int64[np.ndarray, " c"], Float[np.ndarray, " c"]]:
        """Return which calibration bags count for bags of a group of sizes, and their weights."""
        mine = np.flatnonzero(self.cell(self.sizes) == cell).astype(np.int64)
        weights = self.weights[mine]
        return mine, weights if self.ratio is None else weights * self.ratio(self.sizes[mine])

    def own(self, sizes: Float[np.ndarray, " n"] | None, n_bags: int) -> Float[np.ndarray, " n"]:
        """Return the weights of new bags."""
        if self.ratio is None or sizes is None:
            return np.ones(n_bags)
        return self.ratio(np.asarray(sizes, dtype=np.float64))

    def blocks(
        self, sizes: np.ndarray | None, n_bags: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield new bags of one group, some at a time.

        Their rows (b,) and weights (b,); which calibration bags count (c,), and their weights (c,).
        """
        if sizes is None and (self.n_groups > 1 or self.ratio is not None):
            raise BagwiseError.because(
                "the bags have no sizes",
                "the size of each, by which the calibration goes",
                "Predict bags, or calibrate without by_size and target_sizes.",
            )
        own = self.own(sizes, n_bags)
        cells = np.zeros(n_bags, dtype=np.int64) if sizes is None else self.cell(sizes)
        for cell in np.unique(cells).tolist():
            mine, weights = self.of_cell(cell)
            rows, step = np.flatnonzero(cells == cell), max(1, BLOCK // max(1, len(mine)))
            for start in range(0, len(rows), step):
                some = rows[start : start + step]
                yield some, own[some], mine, weights

    def check(
        self, level: float, sizes: np.ndarray | None, n_bags: int, what: str, without: str
    ) -> None:
        """Warn if there are too few calibration bags for a level."""
        least, worth, effective, few = least_bags(level), np.inf, np.inf, 0
        for _, own, _, weights in self.blocks(sizes, n_bags):
            worth = min(worth, float(weights.sum() / own.max()))
            share = own / (weights.sum() + own)
            few += int(np.count_nonzero(share > 1.0 - level + ROUNDING))
            if self.ratio is not None:
                effective = min(effective, float(weights.sum() ** 2 / np.sum(weights**2)))
        if few:
            warnings.warn(
                f"{few} of {n_bags} {what} at level {level:g} {without}: the calibration counts as "
                f"{worth:.3g} bags for them{self._why()}, and {least:,} are the least for this "
                f"level. {self._remedy()}",
                BagwiseWarning,
                stacklevel=4,
            )
        elif effective < least:
            warnings.warn(
                f"the weights leave an effective {effective:.3g} of {len(self.scores)} calibration "
                f"bags, fewer than the {least:,} that a level of {level:g} asks for: {what} rest "
                "on few bags of the sizes to come. Calibrate with more of them.",
                BagwiseWarning,
                stacklevel=4,
            )

    def _why(self) -> str:
        grouped = ", each group as one" * bool((self.weights != 1.0).any())
        of_size = ", those of their size alone" * (self.n_groups > 1)
        shifted = ", weighted by how frequent their sizes are to be" * (self.ratio is not None)
        return grouped + of_size + shifted

    def _remedy(self) -> str:
        fewer = ", make fewer groups with by_size" * (self.n_groups > 1)
        return f"Calibrate with more bags{fewer}, or ask for a lower level."


def least_bags(level: float) -> int:
    """Return the least number n of calibration bags: level (n + 1) ≤ n.

    Examples
    --------
    >>> least_bags(0.9), least_bags(0.95), least_bags(0.99)
    (9, 19, 99)
    """
    return int(np.ceil(level / (1.0 - level) - ROUNDING * level / (1.0 - level) ** 2))


def size_starts(sizes: Float[np.ndarray, " m"], groups: int) -> Float64[np.ndarray, " g"]:
    """Return the first size of each of about equal groups of sizes.

    Examples
    --------
    >>> size_starts(np.array([3.0, 3.0, 8.0, 90.0]), 2)
    array([3., 8.])
    """
    return equal_shares(np.asarray(sizes, dtype=np.float64), groups).astype(np.float64)


class Calibrated:
    """What conformal predictions are made of: what models say, and a calibration.

    ``plain`` is what the model of all bags says, ``each`` what those say that the calibration bags
    were predicted by.
    """

    _plain: Any
    _each: tuple[Any, ...]
    _calibration: Calibration

    @property
    def plain(self) -> Any:
        """The prediction of the model itself, before calibration."""
        return self._plain

    @property
    def calibration(self) -> Calibration:
        """Scores of the calibration bags."""
        return self._calibration

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,): see `Tabular.novelty`."""
        return self._plain.novelty

    def at_size(self, n_points: ArrayLike) -> Self:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The models answer; calibration is that of the new sizes.
        """
        return self._again(lambda prediction: prediction.at_size(n_points))

    def __getitem__(self, index: Any) -> Self:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        rows = self._rows(index)  # type: ignore[attr-defined]
        return self._again(lambda prediction: prediction[rows])

    def _again(self, change: Callable[[Any], Any]) -> Self:
        plain = change(self._plain)
        each = [plain if one is self._plain else change(one) for one in self._each]
        return type(self)(plain, each, self._calibration)  # type: ignore[call-arg]


class ConformalPrediction(Calibrated, Prediction):
    """Predictive distribution of the label of each bag, by errors on calibration bags.

    y ~ mean_k(i) ± scale_k(i) |score_i|  with probability weight_i / (Σ weights + own weight)

    over the calibration bags i, each predicted by the model k(i) that had not seen it; either sign
    is as probable. With ``symmetric=False`` it is mean + scale · score. The rest of the
    probability, own weight / (Σ weights + own weight), is at ±∞. Intervals hold with their level or
    more if calibration bags and this one are drawn alike: exactly of one model (split conformal);
    of several (jackknife+, CV+), whose intervals are those of Barber et al., with 2 level − 1 at
    the worst. Without ``symmetric`` each end holds on its own.

    Parameters
    ----------
    plain : Prediction of the model of all bags;  each : of the models of the calibration
    calibration : Calibration

    Notes
    -----
    ``mean`` is that of the model. ``std`` is the root mean square of the distances from it, where
    they are finite (a millionth of the model's if all are 0, as a density needs one); its parts
    have the shares that the model gives them. ``log_prob`` is that of the Gaussian with these
    moments, as a distribution of steps has no density; ``crps`` and ``sample`` are of what is
    finite. Where labels have a range, what lies outside counts as its end.

    References
    ----------
    Barber, Candès, Ramdas and Tibshirani (2021), Predictive inference with the jackknife+.
    Tibshirani, Barber, Candès and Ramdas (2019), Conformal prediction under covariate shift.
    Lee, Barber and Willett (2023), Distribution-free inference with hierarchical data.

    Examples
    --------
    >>> plain = Prediction([0.0, 10.0], VarianceParts.broadcast(2, noise=[1.0, 4.0]))
    >>> scores, zeros = np.arange(1.0, 20.0) / 10, np.zeros(19, dtype=np.int64)
    >>> one = np.ones(19)
    >>> p = ConformalPrediction(plain, [plain], Calibration(scores, zeros, one, one, np.ones(1)))
    >>> p.interval(0.9)  # the ⌈0.9 · 20⌉ = 18th score
    array([[-1.8,  1.8],
           [ 6.4, 13.6]])
    """

    def __init__(
        self, plain: Prediction, each: Sequence[Prediction], calibration: Calibration
    ) -> None:
        self._plain, self._each, self._calibration = plain, tuple(each), calibration
        self._locations = np.stack([one.mean for one in self._each])
        scales = [one.std if calibration.scaled else np.ones(len(plain)) for one in self._each]
        self._scales = np.stack(scales)
        self._range = support_of(plain)
        var, total = self._squares(plain.mean, plain.sizes), plain.parts.total
        var = np.where(var > 0, var, LEAST_SHARE**2 * total)
        share = np.divide(var, total, out=np.zeros(len(plain)), where=total > 0)
        parts = {name: share * part for name, part in plain.parts.to_dict().items()}
        parts["noise"] = np.where(total > 0, parts["noise"], var)
        Prediction.__init__(
            self, plain.mean, VarianceParts(**parts), sizes=plain.sizes, ids=plain.ids
        )

    def _squares(
        self, mean: Float[np.ndarray, " n"], sizes: np.ndarray | None
    ) -> Float[np.ndarray, " n"]:
        """Return the mean squares of what is finite about the means."""
        found = np.zeros(len(mean))
        for rows, _, values, weights in self._candidates(sizes, len(mean)):
            away = (values - mean[rows, None]) ** 2
            found[rows] = away @ weights / weights.sum()
        return found

    def _candidates(
        self, sizes: np.ndarray | None, n_bags: int
    ) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield rows (b,), own weights (b,), labels (b, c) and their weights (c,).

        Of one model the labels are in order, as the scores are put in order.
        """
        low, high = self._range
        for rows, own, mine, weights in self._calibration.blocks(sizes, n_bags):
            scores, model = self._calibration.scores[mine], self._calibration.model[mine]
            if self._calibration.symmetric:
                scores = np.concatenate([-np.abs(scores), np.abs(scores)])
                model, weights = np.tile(model, 2), np.tile(0.5 * weights, 2)
            order = np.argsort(scores, kind="stable")
            one = len(self._each) == 1  # whose table of rows is not copied for every score
            place = (0, rows[:, None]) if one else (model[order][None], rows[:, None])
            values = self._locations[place] + self._scales[place] * scores[order]
            yield rows, own, np.clip(values, low[rows, None], high[rows, None]), weights[order]

    def _sorted(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Yield rows, own weights, labels in order (b, c), and their weights (b, c) or (1, c)."""
        for rows, own, values, weights in self._candidates(self._sizes, len(self)):
            if len(self._each) == 1:
                yield rows, own, values, weights[None]
                continue
            order = np.argsort(values, axis=1, kind="stable")
            yield rows, own, np.take_along_axis(values, order, axis=1), weights[order]

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        found = np.empty((len(self), len(q)))
        for rows, own, values, weights in self._sorted():
            total = weights.sum(axis=1) + own
            end = 0.5 * own if self._calibration.symmetric else np.zeros(len(own))
            up, down = (np.cumsum(w, axis=1) for w in (weights, weights[:, ::-1]))
            for k, p in enumerate(q.tolist()):
                least, most = (x * total - end - ROUNDING * total for x in (p, 1.0 - p))
                above = _first(up, least, values, np.inf)
                below = _first(down, most, values[:, ::-1], -np.inf)
                if p == 0.5:
                    found[rows, k] = self._middle(below, above, rows)
                else:
                    found[rows, k] = above if p > 0.5 else below
        return np.clip(found, self._range[0][:, None], self._range[1][:, None])

    def _middle(self, below: np.ndarray, above: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the medians: of few scores, with no finite one, the mean."""
        finite = np.isfinite(below) & np.isfinite(above)
        return np.where(finite, 0.5 * np.where(finite, below + above, 0.0), self._plain.mean[rows])

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m).

        −∞ or ∞, with a warning, where there are too few calibration bags to promise any other.
        """
        found = super().quantile(q)
        if not np.isfinite(found).all():
            away = float(np.max(np.abs(2.0 * np.asarray(q, dtype=np.float64) - 1.0)))
            self._check(away if self._calibration.symmetric else 0.5 * (1.0 + away))
        return found

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Interval that holds the label with probability ``level``: columns lower, upper.

        (−∞, ∞), with a warning, where there are too few calibration bags to promise any other.
        """
        check_level(level)
        self._check(level if self._calibration.symmetric else 0.5 * (1.0 + level))
        return self._quantiles(np.array([(1.0 - level) / 2.0, (1.0 + level) / 2.0]))

    def _check(self, level: float) -> None:
        """Warn of infinite ends; ``level`` is that of both together, or of each on its own."""
        self._calibration.check(level, self._sizes, len(self), "intervals", "are infinite")

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        found = np.empty(len(self))
        for rows, own, values, weights in self._candidates(self._sizes, len(self)):
            below = (values <= y[rows, None]) @ weights
            found[rows] = (below + 0.5 * own) / (weights.sum() + own)
        low, high = self._range
        return np.where(y < low, 0.0, np.where(y >= high, 1.0, found))

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return E|Y − y| − E|Y − Y'|/2 of what is finite."""
        found = np.empty(len(self))
        for rows, _, values, weights in self._sorted():
            share = weights / weights.sum(axis=1, keepdims=True)
            away = np.sum(share * np.abs(values - y[rows, None]), axis=1)
            rank = 2.0 * np.cumsum(share, axis=1) - share - 1.0
            centred = values - self._mean[rows, None]  # Σ share · rank = 0: less to cancel
            found[rows] = away - np.sum(share * rank * centred, axis=1)
        return np.maximum(found, 0.0)

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        drawn = np.empty((size, len(self)))
        for rows, _, values, weights in self._candidates(self._sizes, len(self)):
            chosen = rng.choice(values.shape[1], (size, len(rows)), p=weights / weights.sum())
            drawn[:, rows] = values[np.arange(len(rows)), chosen]
        return drawn


def _first(
    filled: np.ndarray, least: np.ndarray, values: np.ndarray, otherwise: float
) -> np.ndarray:
    """Return of each row the first value at which the weights so far are enough, if there is one.

    ``filled`` (b, c), or (1, c) for all rows;  ``least`` (b,);  ``values`` (b, c)
    """
    if len(filled) == 1:
        first = np.searchsorted(filled[0], least, side="left")
    else:
        enough = filled >= least[:, None]
        first = np.where(enough.any(axis=1), np.argmax(enough, axis=1), values.shape[1])
    last = values.shape[1] - 1
    found = values[np.arange(len(values)), np.minimum(first, last)]
    return np.where(first <= last, found, otherwise)


def support_of(prediction: Prediction) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """Return the least and the largest label that each bag may have."""
    low, high = np.full(len(prediction), -np.inf), np.full(len(prediction), np.inf)
    if isinstance(prediction, BoundedPrediction):
        low[:], high[:] = prediction.support
    elif isinstance(prediction, PositivePrediction | CountPrediction):
        low[:] = 0.0
    if isinstance(prediction, CountPrediction):
        totals = prediction.totals
        high = np.where(prediction._law.possible(np.floor(totals) + 1.0), np.inf, totals)
    return low, high


class _OfClasses(Calibrated):
    """A prediction of classes with a p-value for each class.

    p(class) = (Σ weights of calibration bags with 1 − P_i(y_i) ≥ 1 − P(class) + own weight) / all

    Each calibration bag i is compared with what the model that predicted it says of the new bag.
    """

    _p_values: Any

    def _calibrate(self, plain: Any, each: Sequence[Any], calibration: Calibration) -> None:
        self._plain, self._each, self._calibration = plain, tuple(each), calibration
        proba = np.stack([one.proba for one in self._each])  # models, bags, classes
        p_values = np.empty(plain.proba.shape)
        for rows, own, mine, weights in calibration.blocks(plain.sizes, len(plain)):
            scores, model = calibration.scores[mine], calibration.model[mine]
            for k in range(p_values.shape[1]):
                said = 1.0 - proba[model[None], rows[:, None], k]  # bags, calibration bags
                worse = (scores >= said - ROUNDING) @ weights
                p_values[rows, k] = (worse + own) / (weights.sum() + own)
        p_values.flags.writeable = False
        self._p_values = p_values

    def sets(self, level: float = LEVEL) -> Any:
        """Return which classes are in the set of each bag, (n, k): those of p-value > 1 − level.

        The set holds the class of a new bag with probability ``level`` or more, if it is drawn as
        the calibration bags are. It may be empty: then no class is like those seen.
        """
        found = super().sets(level)  # type: ignore[misc]
        sizes, n_bags = self._plain.sizes, len(self._plain)
        self._calibration.check(level, sizes, n_bags, "sets", "hold all classes")
        return found


class ConformalClassPrediction(_OfClasses, ClassPrediction):
    """Predictive distribution of the class of each bag, with sets that hold it.

    Probabilities are those of the model; ``sets(level)`` has the guarantee.

    Parameters
    ----------
    plain : ClassPrediction of the model of all bags;  each : of the models of the calibration
    calibration : Calibration with the scores 1 − P(label)

    References
    ----------
    Sadinle, Lei and Wasserman (2019), Least ambiguous set-valued classifiers with bounded error
    levels. Romano, Sesia and Candès (2020), Classification with valid and adaptive coverage: CV+.
    """

    def __init__(
        self,
        plain: ClassPrediction,
        each: Sequence[ClassPrediction],
        calibration: Calibration,
    ) -> None:
        ClassPrediction.__init__(self, plain._latent, plain._likelihood, plain.classes)
        self._calibrate(plain, each, calibration)


class ConformalManyClassPrediction(_OfClasses, ManyClassPrediction):
    """Predictive distribution of the class of each bag, of many: see `ConformalClassPrediction`."""

    def __init__(
        self,
        plain: ManyClassPrediction,
        each: Sequence[ManyClassPrediction],
        calibration: Calibration,
    ) -> None:
        ManyClassPrediction.__init__(self, plain.each, plain.classes)
        self._calibrate(plain, each, calibration)


def conformal(plain: Any, each: Sequence[Any], calibration: Calibration) -> Any:
    """Return the conformal prediction of real labels or of classes."""
    if isinstance(plain, ManyClassPrediction):
        return ConformalManyClassPrediction(plain, each, calibration)
    if isinstance(plain, ClassPrediction):
        return ConformalClassPrediction(plain, each, calibration)
    return ConformalPrediction(plain, each, calibration)
