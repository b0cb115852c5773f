"""Pictures of predictions: data and axes in, axes out. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import Normalize

from bagwise.bags.per_bag import PerBag, numbers_per_bag
from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots.style import shades
from bagwise.predictions.by_size import equal_shares, rows_by_size

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bagwise.predictions.metrics import Reliability

# Few enough rows to compare at a glance.
MAX_ROWS = 6

# Sequential and readable in grey and by the colour-blind: dark is sure, light is unsure.
COLORS = "viridis"
COLORS_TEXT = "predictive standard deviation"

# Groups of bag sizes whose dots can be told apart where they overlap.
SIZE_COLORS = 3

# Letters above a panel, so that names of methods do not run into each other.
TITLE_LETTERS = 22
# Powers of ten beyond which numbers at axes are written with one, as panels are narrow.
SHORT = (-3, 4)
# An error beyond has no room for all its digits.
MANY_DIGITS = 1e5

# A reliability diagram has a strip below zero for the histogram of the predicted probabilities.
STRIP = 0.16
# A bin narrower than this, such as that of bags which share one probability, is drawn as wide.
MIN_BIN_WIDTH = 0.01


class MeanAndSpread(Protocol):
    """What the pictures need of a prediction: means and standard deviations (n,)."""

    @property
    def mean(self) -> np.ndarray:
        """Means (n,)."""
        ...

    @property
    def std(self) -> np.ndarray:
        """Standard deviations (n,)."""
        ...


def predicted_against_true(
    prediction: MeanAndSpread,
    y: PerBag,
    *,
    ax: Axes | None = None,
    norm: Normalize | None = None,
    limits: tuple[float, float] | None = None,
    sizes: PerBag | None = None,
) -> Axes:
    """Scatter predicted means against true labels, coloured by predictive standard deviation.

    Parameters
    ----------
    prediction : Prediction of n bags
    y : (n,) labels
    ax : Axes to draw on; by default new ones, with a bar of the colours
    norm : colour scale of the standard deviations; by default from this picture alone
    limits : of both axes; what lies outside is drawn on their edge
    sizes : (n,) bag sizes, by which to colour instead: three groups of about as many bags

    Examples
    --------
    >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
    >>> p = Prediction(np.array([1.0, 2.0]), VarianceParts.broadcast(2, noise=1.0))
    >>> predicted_against_true(p, [1.0, 3.0]).get_xlabel()
    'label'
    """
    ids = getattr(prediction, "ids", None)
    y = numbers_per_bag(y, ids)
    alone = ax is None
    ax = plt.subplots(layout="compressed")[1] if ax is None else ax
    if limits is None:
        both = np.concatenate([y, prediction.mean])
        limits = _padded(float(both.min()), float(both.max()))
    ax.plot(limits, limits, color="0.6", linewidth=1, zorder=1)
    shown = np.clip(prediction.mean, *limits)
    options: dict[str, Any] = {"s": 9, "linewidths": 0, "zorder": 2, "rasterized": True}
    if sizes is None:
        dots = ax.scatter(y, shown, c=prediction.std, cmap=COLORS, norm=norm, **options)
        if alone:
            ax.figure.colorbar(dots, ax=ax, label=COLORS_TEXT, shrink=0.9)
    else:
        _scatter_by_size(ax, y, shown, numbers_per_bag(sizes, ids, "sizes"), options)
    ax.set(xlim=limits, ylim=limits, xlabel="label", ylabel="predicted")
    ax.set_aspect("equal")
    return ax


def _scatter_by_size(
    ax: Axes, y: np.ndarray, shown: np.ndarray, sizes: np.ndarray, options: dict[str, Any]
) -> None:
    groups = rows_by_size(sizes, equal_shares(sizes, SIZE_COLORS).tolist(), len(y))
    for (name, mask), color in zip(groups, shades(len(groups)), strict=True):
        ax.scatter(y[mask], shown[mask], color=color, alpha=0.6, label=f"N = {name}", **options)
    ax.legend(loc="upper left", handletextpad=0.1)


def predictions_by_size(
    predictions: Mapping[str, MeanAndSpread],
    y: PerBag,
    sizes: PerBag,
    *,
    edges: Sequence[float] | None = None,
) -> Figure:
    """Draw predictions against labels: a column per method, a row per bag size, colour = sd.

    Parameters
    ----------
    predictions : Prediction of the same n bags by each method
    y : (n,) labels
    sizes : (n,) bag sizes; each of up to 6 distinct ones has a row, more are grouped
    edges : first size of each group, at most 6, as in `bagwise.evaluate`

    References
    ----------
    Law et al. (2018), figure 3.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> found = {"shrinkage": model.predict_dist(bags)}
    >>> type(predictions_by_size(found, y, [20] * 30)).__name__
    'Figure'
    """
    ids = next((getattr(p, "ids", None) for p in predictions.values()), None)
    y, sizes = numbers_per_bag(y, ids), numbers_per_bag(sizes, ids, "sizes")
    rows = rows_by_size(sizes, edges, len(y))
    if len(rows) > MAX_ROWS:
        raise BagwiseError.because(
            f"edges make {len(rows)} groups of bag sizes",
            f"at most {MAX_ROWS}, to be compared at a glance",
            "Give fewer edges, or leave them out.",
        )
    stds = np.concatenate([p.std for p in predictions.values()])
    norm = Normalize(0.0, float(stds.max()))
    limits = _padded(float(y.min()), float(y.max()))
    figure, grid = plt.subplots(
        len(rows),
        len(predictions),
        figsize=(1.9 * len(predictions) + 1.2, 1.9 * len(rows) + 0.4),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="compressed",
    )
    for column, (method, prediction) in enumerate(predictions.items()):
        for row, (_, mask) in enumerate(rows):
            _panel(grid[row, column], prediction, y, np.flatnonzero(mask), norm, limits)
        grid[0, column].set_title(fill(method, TITLE_LETTERS), fontsize=10)
    for row, (name, _) in enumerate(rows):
        grid[row, 0].set_ylabel(f"N = {name}\npredicted", fontsize=9)
    for axes in grid[-1]:
        axes.set_xlabel("label", fontsize=9)
    colors = plt.cm.ScalarMappable(norm=norm, cmap=COLORS)
    figure.colorbar(colors, ax=grid, label=COLORS_TEXT, shrink=0.6)
    return figure


def reliability(table: Reliability, ax: Axes | None = None, label: str | None = None) -> Axes:
    """Draw observed shares against predicted probabilities, near the diagonal if calibrated.

    Parameters
    ----------
    table : Reliability, as `bagwise.metrics.reliability` returns it
    ax : Axes to draw on; by default new ones
    label : name in the legend; by default there is none

    Notes
    -----
    Whiskers are the 95 % intervals of the table. The histogram at the foot shows where the
    predicted probabilities lie: the area of a bar is the share of bags in its bin.

    Examples
    --------
    >>> from bagwise.predictions.metrics import Reliability
    >>> columns = np.array([[0.0, 0.5], [0.5, 1.0], [0.2, 0.8], [0.3, 0.7], [0.1, 0.4], [0.6, 0.9]])
    >>> lower, upper, predicted, observed, low, high = columns
    >>> table = Reliability(lower, upper, np.array([9, 9]), predicted, observed, low, high)
    >>> reliability(table).get_xlabel()
    'predicted probability'
    """
    ax = plt.subplots(figsize=(3.4, 3.4), layout="compressed")[1] if ax is None else ax
    ax.plot([0, 1], [0, 1], color="0.6", linewidth=1, zorder=1)
    whiskers = (table.observed - table.observed_lower, table.observed_upper - table.observed)
    points = ax.errorbar(
        table.predicted,
        table.observed,
        yerr=np.abs(whiskers),  # rounding may leave an end of an interval just inside the share
        fmt="o",
        markersize=4,
        linewidth=1,
        elinewidth=1,
        capsize=2,
        label=label,
        zorder=3,
    )
    _histogram(ax, table, points.lines[0].get_color())
    ticks = np.linspace(0.0, 1.0, 6)
    ax.set(xlim=(-0.03, 1.03), ylim=(-STRIP, 1.03), xticks=ticks, yticks=ticks)
    ax.set(xlabel="predicted probability", ylabel="observed share")
    ax.set_aspect("equal")
    if label is not None:
        ax.legend(frameon=False, loc="upper left")
    return ax


def _histogram(ax: Axes, table: Reliability, color: Any) -> None:
    """Histogram of the predicted probabilities, in the strip below zero."""
    width = np.maximum(table.upper - table.lower, MIN_BIN_WIDTH)
    density = table.bags / width
    ax.bar(
        (table.lower + table.upper) / 2.0,
        (STRIP - 0.04) * density / density.max(),
        width,
        bottom=-STRIP,
        color=color,
        alpha=0.3,
        linewidth=0,
        zorder=0,
    )


def _panel(
    ax: Axes,
    prediction: MeanAndSpread,
    y: np.ndarray,
    chosen: np.ndarray,
    norm: Normalize,
    limits: tuple[float, float],
) -> None:
    some = _Chosen(prediction.mean[chosen], prediction.std[chosen])
    predicted_against_true(some, y[chosen], ax=ax, norm=norm, limits=limits)
    error = float(np.mean((y[chosen] - some.mean) ** 2))
    shown = f"{error:.2f}" if error < MANY_DIGITS else f"{error:.3g}"
    ax.text(0.04, 0.95, f"MSE {shown}", transform=ax.transAxes, va="top", fontsize=8)
    ax.set(xlabel="", ylabel="")
    ax.tick_params(labelsize=8)
    ax.locator_params(nbins=4)  # few enough that the layout does not change them
    ax.ticklabel_format(scilimits=SHORT)


class _Chosen(NamedTuple):
    """Means and standard deviations of some bags, whatever kind of prediction they are from."""

    mean: np.ndarray
    std: np.ndarray


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = 0.1 * (high - low) or 1.0
    return low - margin, high + margin
