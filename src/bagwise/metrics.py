"""Scores of predictive distributions against labels, overall and by bag size.

Each function takes the prediction first, then the labels ``y`` (n,). Anything with the methods of
`Predictive` will do. Lower is better, except for `coverage` (near its level)
and `pit` (near uniform).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.exceptions import BagwiseError
from bagwise.prediction import check_level, check_targets

# Up to this many distinct bag sizes, each is its own row of a report.
MAX_EXACT_GROUPS = 6
# With more, they are cut into this many groups of about as many bags.
N_SHARES = 5


class Predictive(Protocol):
    """What the metrics need from a predictive distribution, Gaussian or not."""

    @property
    def mean(self) -> np.ndarray:
        """Means (n,)."""
        ...

    def log_prob(self, y: ArrayLike) -> np.ndarray:
        """Log density at ``y``, (n,)."""
        ...

    def cdf(self, y: ArrayLike) -> np.ndarray:
        """P(label <= y), (n,)."""
        ...

    def crps(self, y: ArrayLike) -> np.ndarray:
        """Continuous ranked probability score at ``y``, (n,)."""
        ...

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central interval, (n, 2)."""
        ...


def mse(prediction: Predictive, y: ArrayLike) -> float:
    """Mean squared error of the predictive means: mean_i (y_i - mean_i)^2."""
    return float(np.mean((_labels(prediction, y) - prediction.mean) ** 2))


def rmse(prediction: Predictive, y: ArrayLike) -> float:
    """Root of the mean squared error, in the units of the label."""
    return float(np.sqrt(mse(prediction, y)))


def nll(prediction: Predictive, y: ArrayLike) -> float:
    """Mean negative log predictive density: -mean_i log p(y_i)."""
    return float(-np.mean(prediction.log_prob(_labels(prediction, y))))


def crps(prediction: Predictive, y: ArrayLike) -> float:
    """Mean continuous ranked probability score, in the units of the label.

    mean_i of the integral of (F_i(t) - 1[t >= y_i])^2 dt

    In closed form for a Gaussian; equals the absolute error when the variance is zero.

    References
    ----------
    Gneiting and Raftery (2007), Strictly Proper Scoring Rules, Prediction, and Estimation.
    """
    return float(np.mean(prediction.crps(_labels(prediction, y))))


def coverage(prediction: Predictive, y: ArrayLike, level: float = 0.95) -> float:
    """Share of labels inside their central interval; near ``level`` when calibrated."""
    y = _labels(prediction, y)
    lower, upper = prediction.interval(level).T
    return float(np.mean((lower <= y) & (y <= upper)))


def mean_width(prediction: Predictive, level: float = 0.95) -> float:
    """Mean width of the central intervals: narrower is sharper, at equal coverage."""
    lower, upper = prediction.interval(level).T
    return float(np.mean(upper - lower))


def pit(prediction: Predictive, y: ArrayLike) -> Float[np.ndarray, " n"]:
    """Probability integral transform F_i(y_i), (n,); uniform on (0, 1) when calibrated."""
    return np.asarray(prediction.cdf(_labels(prediction, y)))


@dataclass(frozen=True)
class Scores:
    """Table of scores: the row of all bags, then one row per group of bag sizes.

    Parameters
    ----------
    rows : dicts with the keys group, bags, mse, rmse, nll, crps, coverage, width
    level : probability of the intervals behind coverage and width
    """

    rows: list[dict[str, Any]]
    level: float

    @property
    def overall(self) -> dict[str, Any]:
        """The row of all bags."""
        return self.rows[0]

    def to_frame(self) -> Any:
        """Return the rows as a pandas data frame (needs pandas)."""
        import pandas as pd

        return pd.DataFrame(self.rows)

    def __str__(self) -> str:
        head = list(self.overall)
        body = [[_cell(value) for value in row.values()] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
        return "\n".join(
            "  ".join(
                [cells[0].ljust(widths[0])]
                + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
            )
            for cells in [head, *body]
        )

    def __repr__(self) -> str:
        return str(self)


def evaluate(
    prediction: Predictive,
    y: ArrayLike,
    *,
    sizes: ArrayLike | None = None,
    edges: Sequence[float] | None = None,
    level: float = 0.95,
) -> Scores:
    """Score a prediction overall and by bag size.

    Parameters
    ----------
    prediction : predictive distribution of n bags
    y : (n,) labels
    sizes : (n,) bag sizes; by default those the prediction carries, else no groups
    edges : first size of each group, increasing: (1, 2, 3, 6, 11) gives 1, 2, 3–5, 6–10, 11+.
        By default each distinct size up to six of them, else about equal shares of the bags.
    level : probability of the intervals behind coverage and width

    Examples
    --------
    >>> from bagwise.prediction import Prediction, VarianceParts
    >>> parts = VarianceParts.broadcast(4, bag=np.array([3.0, 3.0, 0.0, 0.0]), noise=1.0)
    >>> p = Prediction(np.zeros(4), parts, sizes=np.array([5, 5, 100, 100]))
    >>> evaluate(p, np.array([2.0, -2.0, 1.0, -1.0]))
    group  bags    mse   rmse    nll   crps  coverage  width
    all       4  2.500  1.581  1.766  0.904     1.000  5.880
    5         2  4.000  2.000  2.112  1.205     1.000  7.840
    100       2  1.000  1.000  1.419  0.602     1.000  3.920
    """
    y = _labels(prediction, y)
    check_level(level)
    if y.size == 0:
        raise BagwiseError.because("y is empty", "at least one bag", "Check how they were chosen.")
    columns = _bag_scores(prediction, y, level)
    sizes = getattr(prediction, "sizes", None) if sizes is None else sizes
    groups = [("all", np.ones(y.shape, dtype=bool)), *_size_groups(sizes, edges, y.size)]
    return Scores([_row(label, mask, columns) for label, mask in groups], level)


def _bag_scores(prediction: Predictive, y: np.ndarray, level: float) -> dict[str, np.ndarray]:
    lower, upper = prediction.interval(level).T
    return {
        "mse": (y - prediction.mean) ** 2,
        "nll": -prediction.log_prob(y),
        "crps": prediction.crps(y),
        "coverage": (lower <= y) & (y <= upper),
        "width": upper - lower,
    }


def _row(label: str, mask: np.ndarray, columns: dict[str, np.ndarray]) -> dict[str, Any]:
    means = {name: float(np.mean(column[mask])) for name, column in columns.items()}
    error = means.pop("mse")
    head = {"group": label, "bags": int(mask.sum()), "mse": error, "rmse": float(np.sqrt(error))}
    return head | means


def _size_groups(
    sizes: ArrayLike | None, edges: Sequence[float] | None, n_bags: int
) -> list[tuple[str, np.ndarray]]:
    """Label and mask of every group of bag sizes that is not empty."""
    if sizes is None and edges is None:
        return []
    if sizes is None:
        raise BagwiseError.because(
            "edges came without bag sizes", "the size of every bag", "Pass sizes (n_bags,) too."
        )
    sizes = _checked_sizes(sizes, n_bags)
    distinct = np.unique(sizes)
    if edges is None and distinct.size <= MAX_EXACT_GROUPS:
        return [(f"{size:g}", sizes == size) for size in distinct]
    if edges is None:
        starts = _equal_shares(sizes)
    else:
        starts = np.asarray(edges, dtype=np.float64)
        if starts.ndim != 1 or starts.size == 0 or not (np.diff(starts) > 0).all():
            raise BagwiseError.because(
                f"edges are {edges}", "increasing first sizes of groups", "Try (1, 2, 3, 6, 11)."
            )
    index = np.searchsorted(starts, sizes, side="right") - 1
    whole = bool((sizes == np.floor(sizes)).all() and (starts == np.floor(starts)).all())
    return [(_label(starts, i, whole), index == i) for i in np.unique(index).tolist()]


def _equal_shares(sizes: np.ndarray) -> np.ndarray:
    """First size of each of at most `N_SHARES` groups: each takes its share of the bags left."""
    distinct, counts = np.unique(sizes, return_counts=True)
    starts, left, filled = [distinct[0]], sizes.size, 0
    for following, count in zip(distinct[1:], counts[:-1], strict=True):
        filled += count
        if len(starts) < N_SHARES and filled >= left / (N_SHARES + 1 - len(starts)):
            starts.append(following)
            left, filled = left - filled, 0
    return np.array(starts)


def _label(starts: np.ndarray, i: int, whole: bool) -> str:
    """Name of group ``i``: below the first edge (-1), between two edges, or open-ended."""
    if i == -1:
        return f"<{starts[0]:g}"
    first = starts[i]
    if i == starts.size - 1:
        return f"{first:g}+"
    if not whole:
        return f"{first:g}–<{starts[i + 1]:g}"
    last = starts[i + 1] - 1
    return f"{first:g}" if first == last else f"{first:g}–{last:g}"


def _labels(prediction: Predictive, y: ArrayLike) -> np.ndarray:
    return check_targets(y, len(prediction.mean))


def _checked_sizes(sizes: ArrayLike, n_bags: int) -> np.ndarray:
    values = np.asarray(sizes, dtype=np.float64)
    if values.shape != (n_bags,) or not (values > 0).all():
        raise BagwiseError.because(
            f"sizes have shape {values.shape} and minimum {values.min(initial=np.inf):g}",
            f"({n_bags},), the number of points (> 0) of each bag",
            "Give the sizes of the predicted bags, in the same order.",
        )
    return values


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
