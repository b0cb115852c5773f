"""Scores of predictive distributions against labels, overall and by bag size.

Each function takes the prediction first, then the labels ``y`` (n,), in the order of the bags or
with their ids (see `bagwise.bags.per_bag.in_bag_order`). Anything with the methods of
`Predictive` will do, or for `log_loss`, `brier`, `accuracy` and `reliability`, which are about
classes, of `ClassPredictive`. Lower is better, except for `coverage` (near its level), `pit` (near
uniform) and `accuracy`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.per_bag import PerBag
from bagwise.exceptions import BagwiseError
from bagwise.predictions.class_metrics import (
    ClassPredictive,
    Reliability,
    accuracy,
    brier,
    class_scores,
    log_loss,
    of_prediction,
    reliability,
)
from bagwise.predictions.gaussian import check_targets
from bagwise.predictions.size_groups import size_groups, sizes_of, text_table
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
    "reliability",
    "rmse",
]


class Predictive(Protocol):
    """What the metrics need from a predictive distribution, Gaussian or not."""

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
        """Central interval, (n, 2)."""
        ...


@of_prediction
def mse(prediction: Predictive, y: PerBag) -> float:
    """Mean squared error of the predictive means: mean_i (y_i - mean_i)^2."""
    return float(np.mean((_labels(prediction, y) - prediction.mean) ** 2))


@of_prediction
def rmse(prediction: Predictive, y: PerBag) -> float:
    """Root of the mean squared error, in the units of the label."""
    return float(np.sqrt(mse(prediction, y)))


@of_prediction
def nll(prediction: Predictive, y: PerBag) -> float:
    """Mean negative log predictive density: -mean_i log p(y_i)."""
    return float(-np.mean(prediction.log_prob(_labels(prediction, y))))


@of_prediction
def crps(prediction: Predictive, y: PerBag) -> float:
    """Mean continuous ranked probability score, in the units of the label.

    mean_i of the integral of (F_i(t) - 1[t >= y_i])^2 dt

    In closed form for a Gaussian; equals the absolute error when the variance is zero.

    References
    ----------
    Gneiting and Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation.
    """
    return float(np.mean(prediction.crps(_labels(prediction, y))))


@of_prediction
def coverage(prediction: Predictive, y: PerBag, level: float = LEVEL) -> float:
    """Share of labels inside their central interval; near ``level`` when calibrated."""
    y = _labels(prediction, y)
    lower, upper = prediction.interval(level).T
    return float(np.mean((lower <= y) & (y <= upper)))


@of_prediction
def mean_width(prediction: Predictive, level: float = LEVEL) -> float:
    """Mean width of the central intervals: narrower is sharper, at equal coverage."""
    lower, upper = prediction.interval(level).T
    return float(np.mean(upper - lower))


@of_prediction
def pit(prediction: Predictive, y: PerBag) -> Float[np.ndarray, " n"]:
    """Probability integral transform F_i(y_i), (n,); uniform on (0, 1) when calibrated.

    Of counts it is randomised between the steps of F, always in the same way: see
    `bagwise.predictions.counts.CountPrediction.pit`.
    """
    return np.asarray(getattr(prediction, "pit", prediction.cdf)(_labels(prediction, y)))


@dataclass(frozen=True)
class Scores:
    """Table of scores: the row of all bags, then one row per group of bag sizes.

    Parameters
    ----------
    rows : dicts with the keys group, bags, and mse, rmse, nll, crps, coverage, width
        or, for classes, log_loss, brier, accuracy, calibration
    level : probability of the intervals behind coverage and width
    """

    rows: list[dict[str, Any]]
    level: float

    @property
    def overall(self) -> dict[str, Any]:
        """The row of all bags."""
        return self.rows[0]

    def to_frame(self, library: str = "pandas") -> Any:
        """Return the rows as a data frame of pandas or polars, or a pyarrow table."""
        return frame_of({name: [row[name] for row in self.rows] for name in self.rows[0]}, library)

    def __str__(self) -> str:
        return text_table(self.rows)

    def __repr__(self) -> str:
        return str(self)


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
    level : probability of the intervals behind coverage and width, which classes do not have

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
        columns = class_scores(prediction, y)
    else:
        columns = _bag_scores(prediction, y, level)
    n_bags = len(next(iter(columns.values())))
    if n_bags == 0:
        raise BagwiseError.because("y is empty", "at least one bag", "Check how they were chosen.")
    by_size = size_groups(sizes_of(prediction, sizes), edges, n_bags)
    groups = [("all", np.ones(n_bags, dtype=bool)), *by_size]
    return Scores([_row(label, mask, columns) for label, mask in groups], level)


def _bag_scores(prediction: Predictive, y: PerBag, level: float) -> dict[str, np.ndarray]:
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
