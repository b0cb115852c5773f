"""Scores of predicted probabilities of classes against labels.

Each function takes the prediction first, then the labels ``y`` (n,), of any type. Users find them
in `bagwise.metrics`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Float, Int64
from scipy.special import betaincinv

from bagwise._utils.levels import LEVEL
from bagwise.bags.per_bag import PerBag
from bagwise.exceptions import BagwiseError
from bagwise.predictions.classes import check_class_labels, place_of
from bagwise.predictions.size_groups import equal_shares, text_table
from bagwise.predictions.tabular import frame_of

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


@runtime_checkable
class ClassPredictive(Protocol):
    """What the metrics need from a prediction of classes."""

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
def log_loss(prediction: ClassPredictive, y: PerBag) -> float:
    """Mean negative log probability of the labels: -mean_i log P(y_i), in nats.

    A model that knows only that k classes are as frequent has log k: of two, 0.693.
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
    """
    return float(np.mean(class_scores(prediction, y)["brier"]))


@of_prediction
def accuracy(prediction: ClassPredictive, y: PerBag) -> float:
    """Share of bags whose most probable class is their label; higher is better."""
    return float(np.mean(class_scores(prediction, y)["accuracy"]))


def class_scores(prediction: ClassPredictive, y: PerBag) -> dict[str, np.ndarray]:
    """Scores of each bag, arrays (n,): log_loss, brier, accuracy, calibration.

    The last is 1[y_i = classes[1]] - p_i of two classes, and of more 1[y_i is the most probable] -
    the probability of that one; its mean is near zero when calibrated.
    """
    which = _labels(prediction, y)
    hit, p, right = _stated(prediction, which)
    if len(prediction.classes) == 2:
        squares = (p - hit) ** 2
    else:
        squares = 0.5 * np.sum((prediction.proba - _indicators(prediction, which)) ** 2, axis=1)
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


def _indicators(prediction: ClassPredictive, which: np.ndarray) -> np.ndarray:
    return which[:, None] == np.arange(len(prediction.classes))


@dataclass(frozen=True, eq=False)
class Reliability:
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

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a data frame of pandas or polars, or a pyarrow table."""
        return frame_of({name: [row[name] for row in self.rows] for name in self.rows[0]}, library)

    def __str__(self) -> str:
        return text_table(self.rows)

    def __repr__(self) -> str:
        return str(self)


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
    hit, p, _ = _stated(prediction, _labels(prediction, y), of)
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


def _labels(prediction: ClassPredictive, y: PerBag) -> np.ndarray:
    ids = getattr(prediction, "ids", None)
    return check_class_labels(y, prediction.classes, len(prediction.proba), ids)
