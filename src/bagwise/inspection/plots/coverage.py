"""Pictures of calibration by bag size: how often intervals hold, and where in them labels fall."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import PercentFormatter
from scipy.special import betaincinv
from scipy.stats import binom

from bagwise.bags.per_bag import PerBag
from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots.style import axes_or_new, journal, shades
from bagwise.predictions.by_size import rows_by_size, sizes_of
from bagwise.predictions.metrics import ClassPredictive, Predictive, levels_at
from bagwise.predictions.metrics import pit as transform

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Probability of the bands in which a calibrated model stays.
BAND = 0.95
# Levels at which the coverage is drawn.
LEVELS = np.linspace(0.0, 1.0, 101)
# Panels of a PIT histogram in a row.
PER_ROW = 3
# A histogram has about as many bars as leave so many bags in each, but not more than the most.
BAGS_PER_BIN = 15
MOST_BINS = 20


@dataclass(frozen=True, eq=False)
class Transformed:
    """Where the labels of a group of bags fall in their predictive distributions.

    Attributes
    ----------
    name : of the group;  values : F_i(y_i);  levels : of the intervals that just reach y_i
    """

    name: str
    values: np.ndarray
    levels: np.ndarray

    def coverage(self) -> np.ndarray:
        """Return the share of labels in their interval, at each of LEVELS."""
        return np.searchsorted(np.sort(self.levels), LEVELS, side="right") / len(self.levels)

    def outside(self, shares: np.ndarray) -> np.ndarray:
        """Return which of every fifth level has a share that a calibrated model hardly ever has."""
        n = len(self.values)
        low, high = binom.interval(BAND, n, LEVELS)
        beyond = (shares * n < low - 0.5) | (shares * n > high + 0.5)
        return np.flatnonzero(beyond & (np.arange(len(LEVELS)) % 5 == 0))

    def title(self) -> str:
        """Name and number of bags."""
        n = len(self.values)
        return f"{self.name} ({n:,} bag{'s' * (n != 1)})"


def by_group(
    prediction: Predictive | ClassPredictive,
    y: PerBag,
    *,
    sizes: PerBag | None = None,
    edges: Sequence[float] | None = None,
) -> list[Transformed]:
    """Return where labels fall, for each group of bag sizes, or for all if there are none."""
    if isinstance(prediction, ClassPredictive):
        raise BagwiseError.because(
            "the prediction is of classes, which have no intervals",
            "a prediction of real labels",
            "Draw plots.reliability(bagwise.metrics.reliability(prediction, y)).",
        )
    values, levels = transform(prediction, y), levels_at(prediction, y)
    groups = rows_by_size(sizes_of(prediction, sizes), edges, len(values))
    if not groups:
        return [Transformed("all bags", values, levels)]
    return [Transformed(f"N = {name}", values[mask], levels[mask]) for name, mask in groups]


@journal
def calibration(
    prediction: Predictive | ClassPredictive,
    y: PerBag,
    *,
    sizes: PerBag | None = None,
    edges: Sequence[float] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the share of labels inside their interval against its level, by bag size.

    Parameters
    ----------
    prediction : Prediction of n bags;  y : (n,) labels
    sizes : (n,) bag sizes; by default those of the prediction
    edges : first size of each group, as in `bagwise.evaluate`
    ax : Axes to draw on; by default new ones

    Notes
    -----
    A calibrated model is near the diagonal: above it intervals are too wide, below too narrow. The
    bands, of the groups with the fewest and the most bags, hold such a model in 95 of 100 samples,
    at any one level. Dots are where a group is outside its own band.

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.zeros(2), VarianceParts.broadcast(2, noise=1.0), sizes=np.array([1, 5]))
    >>> [text.get_text() for text in calibration(p, [0.0, 1.0]).get_legend().get_texts()]
    ['N = 1 (1 bag)', 'N = 5 (1 bag)']
    """
    groups = by_group(prediction, y, sizes=sizes, edges=edges)
    ax = axes_or_new(ax, 3.9, 3.7)
    ax.plot([0, 1], [0, 1], color="0.45", linewidth=0.9, linestyle=(0, (4, 3)), zorder=2)
    counts = [len(group.values) for group in groups]
    for n, alpha in zip(sorted({min(counts), max(counts)}), (0.16, 0.22), strict=False):
        ax.fill_between(LEVELS, *_smooth_band(n), color="0.45", alpha=alpha, linewidth=0, zorder=1)
    for group, color in zip(groups, shades(len(groups)), strict=True):
        shares = group.coverage()
        ax.plot(LEVELS, shares, color=color, label=group.title(), zorder=3)
        off = group.outside(shares)
        ax.plot(LEVELS[off], shares[off], "o", color=color, markersize=3.5, zorder=4)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="level of the interval", ylabel="labels inside")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_aspect("equal")
    ax.legend(loc="upper left", handlelength=1.4)
    return ax


def _smooth_band(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return where a share of n labels lies if the level is right: binomial, without steps."""
    tail = (1.0 - BAND) / 2.0
    a, b = n * LEVELS + 0.5, n * (1.0 - LEVELS) + 0.5
    return betaincinv(a, b, tail), betaincinv(a, b, 1.0 - tail)


@journal
def pit(
    prediction: Predictive | ClassPredictive,
    y: PerBag,
    *,
    sizes: PerBag | None = None,
    edges: Sequence[float] | None = None,
    bins: int | None = None,
) -> Figure:
    """Draw histograms of F_i(y_i), where labels fall in their distributions, by bag size.

    Parameters
    ----------
    prediction, y, sizes, edges : as in :func:`calibration`
    bins : bars of each histogram; by default by the number of bags

    Notes
    -----
    Flat if calibrated: in 95 of 100 samples a bar ends inside the band. Like a U if intervals are
    too narrow, like a hill if they are too wide, sloping if the means are off.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(pit(model.predict_dist(bags), y)).__name__
    'Figure'
    """
    groups = by_group(prediction, y, sizes=sizes, edges=edges)
    columns = 2 if len(groups) == 4 else min(PER_ROW, len(groups))
    rows = -(-len(groups) // columns)
    figure, grid = plt.subplots(
        rows,
        columns,
        figsize=(2.25 * columns + 0.5, 1.75 * rows + 0.35),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for ax, group, color in zip(grid.flat, groups, shades(len(groups)), strict=False):
        histogram(ax, group, color, bins)
    for ax in grid.flat[len(groups) :]:
        ax.set_visible(False)
    for ax in [grid.flat[max(i, 0)] for i in range(len(groups) - columns, len(groups))]:
        ax.set_xlabel("place in the predicted distribution")
        ax.tick_params(labelbottom=True)
    for ax in grid[:, 0]:
        ax.set_ylabel("relative frequency")
    return figure


def histogram(ax: Axes, group: Transformed, color: Any, bins: int | None = None) -> None:
    """Draw bars of height 1 on average, with the band of those of a calibrated model."""
    n = len(group.values)
    count = int(np.clip(n // BAGS_PER_BIN, 4, MOST_BINS)) if bins is None else bins
    heights = np.histogram(group.values, count, (0.0, 1.0))[0] * count / n
    low, high = np.array(binom.interval(BAND, n, 1.0 / count)) * count / n
    edges = np.linspace(0.0, 1.0, count + 1)
    ax.bar(edges[:-1], heights, 1.0 / count, align="edge", color=color, edgecolor="white", lw=0.5)
    ax.axhspan(low, high, color="0.5", alpha=0.22, linewidth=0, zorder=2)
    ax.axhline(1.0, color="0.25", linewidth=0.9, linestyle=(0, (4, 3)), zorder=3)
    ax.set(xlim=(0, 1), xticks=(0, 0.5, 1))
    ax.set_title(group.title())
