"""Pictures of how unsure a prediction is, and why: by bag size, and with more points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bagwise.bags.per_bag import PerBag, numbers_per_bag
from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots.style import PART_NAMES, PARTS, axes_or_new, journal
from bagwise.predictions.by_size import rows_by_size
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.gaussian import MOST_POINTS, Prediction, least_points
from bagwise.predictions.parts import VarianceParts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Predicted = Prediction | ClassPrediction | ManyClassPrediction

# A bag has points enough when its part of the variance is less.
SMALL_SHARE = 0.1
# A mean error over fewer bags than this says little.
MIN_BAGS = 5
# Shares of the width that a text takes, and that two texts take.
ROOM = 0.3
NEAR = 0.55
# Points of a drawn curve.
RESOLUTION = 200


@dataclass(frozen=True, eq=False)
class Spread:
    """Average parts of the variance of bags of each size group, and their mean squared error.

    ``error`` is None without labels, and NaN where the bags are too few to tell.
    """

    names: list[str]
    parts: dict[str, np.ndarray]
    error: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class MorePoints:
    """The variance of one bag by cause, if it had other numbers of points.

    ``today`` is its size, ``enough`` the least number of points at which the bag part is below
    10 % of the variance, or None if there is none.
    """

    sizes: np.ndarray
    parts: dict[str, np.ndarray]
    today: float
    enough: float | None


@journal
def spread_by_size(
    prediction: Predicted,
    y: PerBag | None = None,
    *,
    sizes: ArrayLike | None = None,
    edges: Sequence[float] | None = None,
    scale: str = "sd",
    ax: Axes | None = None,
) -> Axes:
    """Draw how unsure predictions are by bag size, and why: a bar per size, split by cause.

    Parameters
    ----------
    prediction : of n bags; of classes their latent value is drawn, of many that of the predicted
    y : (n,) labels that are numbers, to draw the actual error of the bags of each size as dots
    sizes, edges : as in `bagwise.evaluate`
    scale : "sd": up to the end of a part, the standard deviation that is left without those above
        it; or "variance", where the parts themselves are drawn
    ax : Axes to draw on; by default new ones

    Examples
    --------
    >>> from bagwise.predictions.gaussian import VarianceParts
    >>> parts = VarianceParts.broadcast(2, bag=np.array([3.0, 0.0]), noise=1.0)
    >>> p = Prediction(np.zeros(2), parts, sizes=np.array([1, 9]))
    >>> [text.get_text() for text in spread_by_size(p).get_xticklabels()]
    ['1', '9']
    """
    if scale not in ("sd", "variance"):
        raise BagwiseError.because(f"scale is {scale!r}", '"sd" or "variance"', 'Try "sd".')
    spread = spread_of(prediction, sizes, edges, y)
    places = np.arange(len(spread.names))
    ax = axes_or_new(ax, max(2.8, 0.62 * len(places) + 1.4), 3.1)
    ground = np.zeros(len(places))
    for name, part, top in stacked(spread.parts, scale):
        if part.any():
            ax.bar(
                places,
                top - ground,
                0.72,
                ground,
                color=PARTS[name],
                label=PART_NAMES[name],
                zorder=2,
            )
        ground = top
    highest = ground
    if spread.error is not None:
        error = np.sqrt(spread.error) if scale == "sd" else spread.error
        ax.plot(places, error, "o", color="black", markersize=4, label="actual error", zorder=3)
        highest = np.fmax(ground, error)
    for place, end, high in zip(places, ground, highest, strict=True):
        gap = (0, 2 if spread.error is None else 4)  # above the bar, or above the dot
        ax.annotate(
            f"{float(f'{end:.3g}'):,.6g}",
            (place, high),
            gap,
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    ax.set(xticks=places, xticklabels=spread.names, xlabel="points in the bag")
    ax.set(ylabel=_what(prediction, scale), ylim=(0, 1.1 * highest.max() or 1.0))
    ax.tick_params(axis="x", length=0)
    _legend_above(ax)
    return ax


def stacked(parts: dict[str, np.ndarray], scale: str) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return name, part and upper end of each part: its sum with those below, or the root of it.

    Examples
    --------
    >>> parts = {"noise": np.array([9.0]), "bag": np.array([16.0])}
    >>> [(name, float(top[0])) for name, _, top in stacked(parts, "sd")]
    [('noise', 3.0), ('bag', 5.0)]
    """
    sums = np.cumsum(list(parts.values()), axis=0)
    tops = np.sqrt(sums) if scale == "sd" else sums
    return [(name, part, top) for (name, part), top in zip(parts.items(), tops, strict=True)]


def spread_of(
    prediction: Predicted,
    sizes: ArrayLike | None = None,
    edges: Sequence[float] | None = None,
    y: PerBag | None = None,
) -> Spread:
    """Return the average parts of the variance, and squared errors, by groups of bag sizes."""
    sizes = prediction.sizes if sizes is None else sizes
    if sizes is None:
        raise BagwiseError.because(
            "the prediction came without bag sizes", "the size of every bag", "Pass sizes=."
        )
    groups = rows_by_size(sizes, edges, len(prediction))
    parts = prediction.parts.to_dict()
    return Spread(
        [name for name, _ in groups],
        {cause: np.array([parts[cause][mask].mean() for _, mask in groups]) for cause in PARTS},
        None if y is None else _squared_errors(prediction, y, [mask for _, mask in groups]),
    )


def _squared_errors(prediction: Predicted, y: PerBag, masks: Sequence[np.ndarray]) -> np.ndarray:
    if isinstance(prediction, ClassPrediction | ManyClassPrediction):
        raise BagwiseError.because(
            "the prediction is of classes, whose latent value is not observed",
            "y for a prediction of numbers only",
            "Leave y out.",
        )
    squares = (numbers_per_bag(y, prediction.ids) - prediction.mean) ** 2
    return np.array([squares[m].mean() if m.sum() >= MIN_BAGS else np.nan for m in masks])


@journal
def more_points(
    prediction: Predicted,
    *,
    largest: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw how sure the prediction of one bag would be with other numbers of points, and why.

    Parameters
    ----------
    prediction : of one bag, such as ``prediction[i]``; of a class its latent value is drawn
    largest : largest number of points; by default ten times those that are enough
    ax : Axes to draw on; by default new ones

    Notes
    -----
    The line is the standard deviation; up to the end of a part it is what is left without those
    above it. Enough points are those from which on the bag part is below 10 % of the variance: more
    would hardly help.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(more_points(model.predict_dist(bags)[0])).__name__
    'Axes'
    """
    curve = more_points_of(prediction, largest)
    ax = axes_or_new(ax, 4.4, 3.1)
    ground = np.zeros(len(curve.sizes))
    for name, part, top in stacked(curve.parts, "sd"):
        if part.any():
            ax.fill_between(
                curve.sizes, ground, top, color=PARTS[name], label=PART_NAMES[name], linewidth=0
            )
        ground = top
    ax.plot(curve.sizes, ground, color="black", linewidth=1.2)
    ax.set(xscale="log", xlim=(curve.sizes[0], curve.sizes[-1]), ylim=(0, 1.3 * ground.max()))
    ax.set(xlabel="points in the bag", ylabel=_what(prediction, "sd"))
    ax.xaxis.set_major_formatter(lambda value, _: _short(value))
    _mark(ax, curve, ground)
    _legend_above(ax)
    return ax


def more_points_of(prediction: Predicted, largest: float | None = None) -> MorePoints:
    """Return the parts of the variance of one bag against its number of points."""
    if len(prediction) != 1:
        raise BagwiseError.because(
            f"the prediction is of {len(prediction)} bags",
            "one bag",
            "Choose it with prediction[i]; prediction.more_points(std) has the numbers of all.",
        )
    latent = _latent(prediction)
    if latent.sizes is None or not latent.parts.bag[0] > 0:
        raise BagwiseError.because(
            "the model ignores how many points a bag has",
            "a prediction with a bag part of the variance",
            "Predict with ShrinkageRegressor, BDRRegressor, DistributionGPRegressor or the "
            "classifiers of these names.",
        )
    today, enough = float(latent.sizes[0]), _enough(latent)
    most = largest or 10.0 * max(today, 10.0, min(enough or 0.0, MOST_POINTS / 10.0))
    grid = np.unique(np.r_[np.geomspace(min(1.0, today), max(most, today), RESOLUTION), today])
    found = _parts_at(latent, grid)
    parts = {name: getattr(found, name) for name in ("noise", "weights", "bag")}
    return MorePoints(grid, parts, today, enough)


def _latent(prediction: Predicted) -> Prediction:
    """Return the value whose parts are drawn, of one bag."""
    if isinstance(prediction, ManyClassPrediction):
        return prediction.each[prediction.places[0]].latent
    return prediction.latent if isinstance(prediction, ClassPrediction) else prediction


def _parts_at(latent: Prediction, sizes: np.ndarray) -> VarianceParts:
    """Return the parts of one bag at each size, on average over the draws if there are any.

    All of them are asked for: classifiers are surer of larger bags in what weights leave open, too.
    """
    return latent[np.zeros(len(sizes), dtype=np.int64)].at_size(sizes).parts


def _enough(latent: Prediction) -> float | None:
    """Return the least whole number of points that leaves a small bag part."""

    def small(sizes: np.ndarray) -> np.ndarray:
        parts = _parts_at(latent, sizes)
        return parts.bag <= SMALL_SHARE * (parts.bag + parts.weights + parts.noise)

    (least,) = least_points(small, 1).tolist()
    return least if np.isfinite(least) else None


def _mark(ax: Axes, curve: MorePoints, height: np.ndarray) -> None:
    """Mark the bag's size, and where points are enough; texts near each other have a row each."""
    logs = np.log(curve.sizes)
    marks = [(curve.today, f"today: {curve.today:,.4g}")]
    if curve.enough is not None and curve.enough <= curve.sizes[-1]:
        marks.append((curve.enough, f"{curve.enough:,.0f}: bag part\nbelow {SMALL_SHARE:.0%}"))
    places = [(np.log(size) - logs[0]) / (logs[-1] - logs[0]) for size, _ in marks]
    near = abs(places[0] - places[-1]) < NEAR
    for row, ((size, text), place) in enumerate(zip(marks, places, strict=True)):
        top = (1.15 if row and near else 1.28) * height.max()
        sd = float(np.interp(np.log(size), logs, height))
        ax.plot([size, size], [0, top], color="0.2", linewidth=0.9, linestyle=(0, (4, 3)))
        ax.plot([size], [sd], "o", color="0.1", markersize=4.5, clip_on=False, zorder=4)
        late = place > 1.0 - ROOM
        ax.annotate(
            text,
            (size, top),
            (-4 if late else 4, 1),
            textcoords="offset points",
            ha="right" if late else "left",
            va="top",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        )


def _short(size: float) -> str:
    """Write a number of points so that those of a log scale do not run into each other.

    Examples
    --------
    >>> _short(0.1), _short(10_000), _short(100_000), _short(1e6)
    ('0.1', '10,000', '100k', '1M')
    """
    if size >= 1e5:
        return f"{size / 1e6:g}M" if size >= 1e6 else f"{size / 1e3:g}k"
    return f"{size:,.0f}" if size >= 1 else f"{size:g}"


def _what(prediction: Predicted, scale: str) -> str:
    word = "standard deviation" if scale == "sd" else "variance"
    if isinstance(prediction, ManyClassPrediction):
        return f"{word} of the latent value\nof the predicted class"
    if isinstance(prediction, ClassPrediction):
        return f"{word} of the latent value"
    return f"predictive {word}"


def _legend_above(ax: Axes) -> None:
    """Put the legend above the axes, in the order in which the parts lie."""
    handles, labels = ax.get_legend_handles_labels()
    ax.legend(
        handles[::-1],
        labels[::-1],
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        handlelength=1.0,
        handleheight=1.0,
    )
