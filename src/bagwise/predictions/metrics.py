"""Scores of predictive distributions against labels, overall and by bag size.

Each function takes the prediction first, then the labels ``y`` (n,), in the order of the bags or
with their ids (see `bagwise.bags.per_bag.in_bag_order`). Anything with the methods of
`Predictive` will do, or for `log_loss`, `brier`, `accuracy` and `reliability`, which are about
classes, of `ClassPredictive`. Lower is better, except for `coverage` (near its level), `pit` (near
uniform), `accuracy` and `recalibration_slope` (near 1), which is of classes, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import betaincinv, expit, logit

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.per_bag import PerBag
from bagwise.exceptions import BagwiseError
from bagwise.predictions.by_size import equal_shares, rows_by_size, sizes_of, text_table
from bagwise.predictions.classes import check_class_labels, place_of
from bagwise.predictions.gaussian import check_targets
from bagwise.predictions.tabular import frame_of

__all__ = [
    "ClassPredictive",
    "Predictive",
    "Reliability",
    "Scores",
    "accuracy",
    "brier",
    "coverage",
    "crps",
    "evaluate",
    "log_loss",
    "mean_width",
    "mse",
    "nll",
    "pit",
    "recalibration_slope",
    "reliability",
    "rmse",
]

# A recalibration: probabilities further out count as this far, and steps of Newton's method.
LEAST_PROBABILITY = 1e-9
NEWTON_STEPS = 200

# Logits that differ by less, as a share of the largest, are all the same.
SAME_LOGIT = 1e-9


P = ParamSpec("P")
R = TypeVar("R")


def of_prediction(metric: Callable[P, R]) -> Callable[P, R]:
    """Let a metric say what to do when it is called with a model, as scikit-learn does."""

    @wraps(metric)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        if args and hasattr(args[0], "fit"):
            name = metric.__name__
            raise BagwiseError.because(
                f"the metric {name} was given a {type(args[0]).__name__}",
                "a prediction and labels",
                f"Give {name}(model.predict_dist(bags), y); as scoring= of scikit-learn give "
                f"bagwise.scorers.make_scorer(bagwise.metrics.{name}).",
            )
        return metric(*args, **kwargs)

    return checked


class Predictive(Protocol):
    """What the metrics need from a predictive distribution, Gaussian or not.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> all(hasattr(p, name) for name in ("mean", "log_prob", "cdf", "crps", "interval"))
    True
    """

    @property
    def mean(self) -> np.ndarray:
        """Means (n,)."""
        ...

    def log_prob(self, y: PerBag) -> np.ndarray:
        """Log density at ``y``, (n,)."""
        ...

    def cdf(self, y: PerBag) -> np.ndarray:
        """P(label <= y), (n,)."""
        ...

    def crps(self, y: PerBag) -> np.ndarray:
        """Continuous ranked probability score at ``y``, (n,)."""
        ...

    def interval(self, level: float = LEVEL) -> np.ndarray:
        """Interval of a level, (n, 2)."""
        ...


@runtime_checkable
class ClassPredictive(Protocol):
    """What the metrics need from a prediction of classes.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> latent = MixturePrediction(np.array([[-1.0, 1.0]]), np.zeros(1), sizes=np.array([5, 5]))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> isinstance(p, ClassPredictive)
    True
    """

    @property
    def classes(self) -> np.ndarray:
        """The classes (k,)."""
        ...

    @property
    def proba(self) -> np.ndarray:
        """Probability of each class, (n, k)."""
        ...

    def log_prob(self, y: PerBag) -> np.ndarray:
        """Log probability of the labels ``y``, (n,)."""
        ...


@of_prediction
def mse(prediction: Predictive, y: PerBag) -> float:
    """Mean squared error of the predictive means: mean_i (y_i - mean_i)^2.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> mse(p, [1.0, 4.0])
    2.0
    """
    return float(np.mean((_labels(prediction, y) - prediction.mean) ** 2))


@of_prediction
def rmse(prediction: Predictive, y: PerBag) -> float:
    """Root of the mean squared error, in the units of the label.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> round(rmse(p, [1.0, 4.0]), 3)
    1.414
    """
    return float(np.sqrt(mse(prediction, y)))


@of_prediction
def nll(prediction: Predictive, y: PerBag) -> float:
    """Mean negative log predictive density: -mean_i log p(y_i).

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> round(nll(p, [1.0, 2.0]), 3)
    0.919
    """
    return float(-np.mean(prediction.log_prob(_labels(prediction, y))))


@of_prediction
def crps(prediction: Predictive, y: PerBag) -> float:
    """Mean continuous ranked probability score, in the units of the label.

    mean_i of the integral of (F_i(t) - 1[t >= y_i])^2 dt

    In closed form for a Gaussian; equals the absolute error when the variance is zero.

    References
    ----------
    Gneiting and Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> round(crps(p, [1.0, 2.0]), 3)
    0.234
    """
    return float(np.mean(prediction.crps(_labels(prediction, y))))


@of_prediction
def coverage(prediction: Predictive, y: PerBag, level: float = LEVEL) -> float:
    """Share of labels inside their interval; near ``level`` when calibrated.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> coverage(p, [1.0, 9.0])
    0.5
    """
    y = _labels(prediction, y)
    lower, upper = prediction.interval(level).T
    return float(np.mean((lower <= y) & (y <= upper)))


@of_prediction
def mean_width(prediction: Predictive, level: float = LEVEL) -> float:
    """Mean width of the intervals: narrower is sharper, at equal coverage.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> round(mean_width(p, 0.95), 2)
    3.92
    """
    lower, upper = prediction.interval(level).T
    return float(np.mean(upper - lower))


@of_prediction
def pit(prediction: Predictive, y: PerBag) -> Float[np.ndarray, " n"]:
    """Probability integral transform F_i(y_i), (n,); uniform on (0, 1) when calibrated.

    Of counts it is randomised between the steps of F, always in the same way: see
    `bagwise.predictions.counts.CountPrediction.pit`.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> pit(p, [1.0, 2.0])
    array([0.5, 0.5])
    """
    return np.asarray(getattr(prediction, "pit", prediction.cdf)(_labels(prediction, y)))


@of_prediction
def levels_at(prediction: Predictive, y: PerBag) -> Float[np.ndarray, " n"]:
    """Level of the interval that just reaches each label, (n,); uniform on (0, 1) when calibrated.

    Intervals of a distribution that is not ours are taken to be central: |2 F_i(y_i) − 1|.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> levels_at(p, [1.0, 4.0]).round(2)
    array([0.  , 0.95])
    """
    own = getattr(prediction, "level_at", None)
    return np.abs(2.0 * pit(prediction, y) - 1.0) if own is None else own(_labels(prediction, y))


@of_prediction
def log_loss(prediction: ClassPredictive, y: PerBag) -> float:
    """Mean negative log probability of the labels: -mean_i log P(y_i), in nats.

    A model that knows only that k classes are as frequent has log k: of two, 0.693.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> latent = MixturePrediction(np.array([[-1.0, 1.0]]), np.zeros(1), sizes=np.array([5, 5]))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> round(log_loss(p, [0, 1]), 3)
    0.173
    """
    return float(-np.mean(prediction.log_prob(y)))


@of_prediction
def brier(prediction: ClassPredictive, y: PerBag) -> float:
    """Mean squared error of the probabilities, in [0, 1].

    mean_i ½ Σ_k (p_ik - 1[y_i = classes[k]])^2

    Of two classes that is (p_i - 1[y_i = classes[1]])^2 of the probability p of the second.

    References
    ----------
    Brier (1950), Verification of forecasts expressed in terms of probability. His sum over the
    classes is twice this.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> latent = MixturePrediction(np.array([[-1.0, 1.0]]), np.zeros(1), sizes=np.array([5, 5]))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> round(brier(p, [0, 1]), 3)
    0.025
    """
    return float(np.mean(class_scores(prediction, y)["brier"]))


@of_prediction
def accuracy(prediction: ClassPredictive, y: PerBag) -> float:
    """Share of bags whose most probable class is their label; higher is better.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> latent = MixturePrediction(np.array([[-1.0, 1.0]]), np.zeros(1), sizes=np.array([5, 5]))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> accuracy(p, [0, 0])
    0.5
    """
    return float(np.mean(class_scores(prediction, y)["accuracy"]))


@of_prediction
def recalibration_slope(prediction: ClassPredictive, y: PerBag) -> float:
    """Slope b of a logistic regression of the labels on the logit of their probability.

    P(y_i = classes[1]) = 1/(1 + exp(-a - b logit p_i))

    1 if probabilities are as sure as they should be, above 1 if they could be surer, below 1 if
    they are too sure. Of more than two classes p is the probability of the most probable and the
    label whether it is right. nan if all labels are of one class, inf if p parts the classes (−inf
    the wrong way round). With n bags it is known to about 2/sqrt(n) at best.

    References
    ----------
    Cox (1958), Two further applications of a model for binary regression.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> means = np.array([[-1.0, -1.0, -1.0, 1.0, 1.0, 1.0]])
    >>> latent = MixturePrediction(means, np.zeros(1), sizes=np.full(6, 5))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> round(recalibration_slope(p, [0, 0, 1, 0, 1, 1]), 2)  # of which a third is wrong: too sure
    0.42
    """
    hit, p, _ = _stated(prediction, _places(prediction, y))
    return _slope(hit, p)


def _slope(hit: np.ndarray, p: np.ndarray) -> float:
    """Return the slope, by Newton's method."""
    if hit.all() or not hit.any():
        return float("nan")
    at = logit(np.clip(p, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY))
    if np.ptp(at) <= SAME_LOGIT * np.abs(at).max():
        return float("nan")
    if at[hit].min() > at[~hit].max():
        return float("inf")
    if at[hit].max() < at[~hit].min():
        return float("-inf")
    design, theta = np.column_stack([np.ones(len(at)), at - at.mean()]), np.array([0.0, 1.0])
    for _ in range(NEWTON_STEPS):
        found = expit(design @ theta)
        gradient = design.T @ (hit - found)
        curvature = (design.T * np.maximum(found * (1.0 - found), 1e-12)) @ design
        step = np.linalg.lstsq(curvature, gradient)[0]  # of which little may be left far out
        far = float(np.abs(step).max())
        theta = theta + step / max(1.0, far)
        if far < 1e-10:
            break
    return float(theta[1])


def class_scores(prediction: ClassPredictive, y: PerBag) -> dict[str, np.ndarray]:
    """Scores of each bag, arrays (n,): log_loss, brier, accuracy, calibration.

    The last is 1[y_i = classes[1]] - p_i of two classes, and of more 1[y_i is the most probable] -
    the probability of that one; its mean is near zero when calibrated.
    """
    which = _places(prediction, y)
    hit, p, right = _stated(prediction, which)
    if len(prediction.classes) == 2:
        squares = (p - hit) ** 2
    else:
        indicators = which[:, None] == np.arange(len(prediction.classes))
        squares = 0.5 * np.sum((prediction.proba - indicators) ** 2, axis=1)
    return {
        "log_loss": -prediction.log_prob(y),
        "brier": squares,
        "accuracy": right,
        "calibration": hit - p,
    }


def _stated(
    prediction: ClassPredictive, which: np.ndarray, of: Any = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each bag whether an event came true, its probability, and if the class is right.

    The event is to be of a class, by default of two the second, of more the most probable.
    """
    p, n = prediction.proba, len(which)
    two = len(prediction.classes) == 2
    top = (p[:, 1] >= 0.5).astype(np.int64) if two else np.argmax(p, axis=1)
    if of is None:
        chosen = np.ones(n, dtype=np.int64) if two else top
    else:
        chosen = np.full(n, place_of(of, prediction.classes))
    return which == chosen, p[np.arange(n), chosen], which == top


class Rows:
    """A table of scores."""

    rows: Any

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a data frame of pandas or polars, or a pyarrow table."""
        return frame_of({name: [row[name] for row in self.rows] for name in self.rows[0]}, library)

    def __str__(self) -> str:
        return text_table(self.rows)

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True, repr=False)
class Scores(Rows):
    """Table of scores: the row of all bags, then one row per group of bag sizes.

    Parameters
    ----------
    rows : dicts with the keys group, bags, and mse, rmse, nll, crps, coverage, width
        or, for classes, log_loss, brier, accuracy, calibration, of sets coverage, set_size, and
        slope, that of a recalibration
    level : probability of the intervals behind coverage and width

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> scores = evaluate(p, [1.0, 4.0])
    >>> scores.overall["mse"], scores.level
    (2.0, 0.95)
    """

    rows: list[dict[str, Any]]
    level: float

    @property
    def overall(self) -> dict[str, Any]:
        """The row of all bags."""
        return self.rows[0]


@of_prediction
def evaluate(
    prediction: Predictive | ClassPredictive,
    y: PerBag,
    *,
    sizes: PerBag | None = None,
    edges: Sequence[float] | None = None,
    level: float = LEVEL,
) -> Scores:
    """Score a prediction overall and by bag size.

    Parameters
    ----------
    prediction : predictive distribution of n bags, of real labels or of classes
    y : (n,) labels
    sizes : (n,) bag sizes; by default those the prediction carries, else no groups
    edges : first size of each group, increasing: (1, 2, 3, 6, 11) gives 1, 2, 3–5, 6–10, 11+.
        By default each distinct size up to six of them, else about equal shares of the bags.
    level : probability of the intervals behind coverage and width; classes have sets instead, of
        models that were calibrated by :class:`bagwise.Conformal`: coverage and set_size

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> parts = VarianceParts.broadcast(4, bag=np.array([3.0, 3.0, 0.0, 0.0]), noise=1.0)
    >>> p = Prediction(np.zeros(4), parts, sizes=np.array([5, 5, 100, 100]))
    >>> evaluate(p, np.array([2.0, -2.0, 1.0, -1.0]))
    group  bags    mse   rmse    nll   crps  coverage  width
    all       4  2.500  1.581  1.766  0.904     1.000  5.880
    5         2  4.000  2.000  2.112  1.205     1.000  7.840
    100       2  1.000  1.000  1.419  0.602     1.000  3.920
    """
    check_level(level)
    if isinstance(prediction, ClassPredictive):
        columns = class_scores(prediction, y) | set_scores(prediction, y, level)
    else:
        columns = real_scores(prediction, y, level)
    n_bags = len(next(iter(columns.values())))
    if n_bags == 0:
        raise BagwiseError.because("y is empty", "at least one bag", "Check how they were chosen.")
    by_size = rows_by_size(sizes_of(prediction, sizes), edges, n_bags)
    groups = [("all", np.ones(n_bags, dtype=bool)), *by_size]
    rows = [_row(label, mask, columns) for label, mask in groups]
    if isinstance(prediction, ClassPredictive):
        hit, p, _ = _stated(prediction, _places(prediction, y))
        for row, (_, mask) in zip(rows, groups, strict=True):
            row["slope"] = _slope(hit[mask], p[mask])
    return Scores(rows, level)


def set_scores(prediction: ClassPredictive, y: PerBag, level: float) -> dict[str, np.ndarray]:
    """Scores of the sets of calibrated models, arrays (n,): coverage, set_size; else none."""
    if getattr(prediction, "p_values", None) is None:
        return {}
    sets = prediction.sets(level)  # type: ignore[attr-defined]
    held = sets[np.arange(len(sets)), _places(prediction, y)]
    return {"coverage": held, "set_size": sets.sum(axis=1)}


def real_scores(prediction: Predictive, y: PerBag, level: float) -> dict[str, np.ndarray]:
    """Scores of each bag, arrays (n,): mse, nll, crps, coverage, width."""
    y = _labels(prediction, y)
    lower, upper = prediction.interval(level).T
    return {
        "mse": (y - prediction.mean) ** 2,
        "nll": -prediction.log_prob(y),
        "crps": prediction.crps(y),
        "coverage": (lower <= y) & (y <= upper),
        "width": upper - lower,
    }


def _row(label: str, mask: np.ndarray, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    row: dict[str, Any] = {"group": label, "bags": int(mask.sum())}
    for name, column in columns.items():
        row[name] = float(np.mean(column[mask]))
        if name == "mse":
            row["rmse"] = float(np.sqrt(row["mse"]))
    return row


def _labels(prediction: Predictive, y: PerBag) -> np.ndarray:
    return check_targets(y, len(prediction.mean), getattr(prediction, "ids", None))


def _places(prediction: ClassPredictive, y: PerBag) -> np.ndarray:
    ids = getattr(prediction, "ids", None)
    return check_class_labels(y, prediction.classes, len(prediction.proba), ids)


@dataclass(frozen=True, eq=False, repr=False)
class Reliability(Rows):
    """Table of predicted probabilities against shares observed: one row per bin that has bags.

    Attributes
    ----------
    lower, upper : (m,) ends of each bin of predicted probability, [lower, upper); the last bin
        includes its upper end
    bags : (m,) number of bags
    predicted : (m,) mean predicted probability of the second class, or of many of the predicted
    observed : (m,) share of bags of that class
    observed_lower, observed_upper : (m,) 95 % interval of the probability behind the share,
        exact for bags of one and the same probability

    References
    ----------
    Clopper and Pearson (1934), The use of confidence or fiducial limits illustrated in the case of
    the binomial.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> latent = MixturePrediction(np.array([[-1.0, 1.0]]), np.zeros(1), sizes=np.array([5, 5]))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])  # P(1) = .16 and .84
    >>> table = reliability(p, [0, 1], 1)
    >>> table.bags, table.observed, round(table.calibration_error, 3)
    (array([2]), array([0.5]), 0.0)
    """

    lower: Float[np.ndarray, " m"]
    upper: Float[np.ndarray, " m"]
    bags: Int64[np.ndarray, " m"]
    predicted: Float[np.ndarray, " m"]
    observed: Float[np.ndarray, " m"]
    observed_lower: Float[np.ndarray, " m"]
    observed_upper: Float[np.ndarray, " m"]

    @property
    def calibration_error(self) -> float:
        """Mean over the bags of |observed - predicted| of their bin; zero is best.

        Chance alone makes it positive: about sqrt(2 p (1 - p) / (pi m)) in a bin of m bags with
        probability p.
        """
        return float(np.average(np.abs(self.observed - self.predicted), weights=self.bags))

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The bins as dicts with the names of the attributes as keys."""
        names = [field.name for field in fields(self)]
        columns = [getattr(self, name).tolist() for name in names]
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


@of_prediction
def reliability(
    prediction: ClassPredictive,
    y: PerBag,
    n_bins: int = 10,
    *,
    strategy: str = "quantile",
    of: Any = None,
) -> Reliability:
    """Compare predicted probabilities with the shares observed among bags of like probability.

    Parameters
    ----------
    prediction : prediction of the classes of n bags
    y : (n,) labels
    n_bins : number of bins of predicted probability, at most
    strategy : "quantile" for bins of about as many bags, where equal probabilities share a bin;
        "uniform" for bins of equal width in [0, 1], of which the empty ones are left out
    of : class whose probability is compared; by default of two the second, and of more the one that
        is most probable, whichever that is for a bag

    Examples
    --------
    >>> from bagwise.predictions.classes import ClassPrediction
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> f = np.repeat([-1.0, 1.0], 10)
    >>> latent = MixturePrediction(f[None], np.zeros(1), sizes=np.full(20, 5))
    >>> p = ClassPrediction(latent, Probit(), [0, 1])
    >>> table = reliability(p, [1] * 2 + [0] * 8 + [1] * 8 + [0] * 2)
    >>> table.to_frame()[["bags", "predicted", "observed"]].round(3)
       bags  predicted  observed
    0    10      0.159       0.2
    1    10      0.841       0.8
    >>> round(table.calibration_error, 3)
    0.041
    """
    hit, p, _ = _stated(prediction, _places(prediction, y), of)
    if p.size == 0:
        raise BagwiseError.because("y is empty", "at least one bag", "Check how they were chosen.")
    edges = _edges(p, n_bins, strategy)
    index = np.searchsorted(edges[1:-1], p, side="right")  # the last bin includes its upper end
    bins, index, bags = np.unique(index, return_inverse=True, return_counts=True)
    hits = np.bincount(index, weights=hit)
    observed_lower, observed_upper = binomial_interval(hits, bags)
    return Reliability(
        lower=edges[bins],
        upper=edges[bins + 1],
        bags=bags.astype(np.int64),
        predicted=np.bincount(index, weights=p) / bags,
        observed=hits / bags,
        observed_lower=observed_lower,
        observed_upper=observed_upper,
    )


def _edges(p: np.ndarray, n_bins: int, strategy: str) -> np.ndarray:
    """Edges of the bins, at least 2, which do not decrease."""
    if n_bins < 1:
        raise BagwiseError.because(f"n_bins is {n_bins}", "at least 1", "Try 10.")
    if strategy == "uniform":
        return np.linspace(0.0, 1.0, n_bins + 1)
    if strategy == "quantile":
        return np.append(equal_shares(p, n_bins), p.max())
    raise BagwiseError.because(
        f"strategy is {strategy!r}",
        "'quantile' or 'uniform'",
        "Bins of 'quantile' have about as many bags each, those of 'uniform' the same width.",
    )


def binomial_interval(hits: np.ndarray, bags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Exact central interval of a probability from ``hits`` of ``bags`` independent trials."""
    tail = (1.0 - LEVEL) / 2.0
    misses = bags - hits
    # Without hits the lower end is 0 and without misses the upper is 1, where the beta
    # distribution has no such parameter.
    lower = np.where(hits > 0, betaincinv(np.maximum(hits, 1), misses + 1, tail), 0.0)
    upper = np.where(misses > 0, betaincinv(hits + 1, np.maximum(misses, 1), 1.0 - tail), 1.0)
    return lower, upper
