"""Pictures of a page: of the data, and of how predictions compare with labels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator

from bagwise.inspection import plots
from bagwise.inspection.plots.coverage import Transformed, histogram
from bagwise.inspection.plots.labels import SIZE_COLORS
from bagwise.inspection.plots.style import BLUE, CYCLE, ORANGE
from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.columns import (
    COLUMN_POINTS,
    Explained,
    column_names,
    column_values,
)
from bagwise.inspection.report.comparison import CLEAR, Comparison, Estimate, minus, shown
from bagwise.inspection.report.svg import canvas, element, variable
from bagwise.predictions.by_size import equal_shares, rows_by_size
from bagwise.predictions.counts import CountPrediction
from bagwise.predictions.joined import Joined, JoinedManyClassPrediction, JoinedPrediction
from bagwise.predictions.metrics import binomial_interval, pit, reliability

# More dots than this hide each other.
MAX_DOTS = 4_000
N_SIZE_BINS = 14
N_LABEL_BINS = 24
N_PIT_BINS = 10
MAX_TICKS = 7
# Models in one picture: as many as there are colours.
MAX_SERIES = 5
# Room of a class's name under an axis, in characters, and of how many classes it is written.
NAME_WIDTH = 24
MAX_NAMES = 12
PERCENT = FuncFormatter(lambda share, _: minus(f"{100 * share:.6g} %"))
# Columns in the picture of what they add, and of which the values are drawn.
MAX_BARS = 20
MAX_COLUMNS = 30
# Share of the values at either end of a column that lies in its first or last bar, however far.
TAIL = 0.005
SMALL = (2.6, 1.35)
# Range beyond which whole numbers are drawn as others are.
WHOLE = 1e6
SIZES_TEXT = "points in the bag (log scale)"


@dataclass(frozen=True)
class Picture:
    """A picture with its title, caption and legend: (variable of the style sheet, text)."""

    title: str
    svg: Markup
    caption: str
    legend: Sequence[tuple[str, str]] = ()


def size_histogram(case: Case) -> Picture:
    """Count the bags by size, in bins that are even on a log scale."""
    edges = size_edges(case.sizes)
    low, quarter, median, three, high = case.bags.size_quantiles()
    caption = (
        f"Half of the bags have {quarter:,} to {three:,} points; the median is {median:,}, the "
        f"least {low:,} and the most {high:,}."
    )
    with canvas() as ax:
        _bars(ax, edges, np.histogram(case.sizes, edges)[0])
        ax.set(xscale="log", xlim=(edges[0], edges[-1]), xlabel=SIZES_TEXT)
        ax.set_xticks(*size_ticks(edges[0], edges[-1]))
        ax.set_xticks([], minor=True)
        return Picture("Bag sizes", element(ax, f"Histogram of bag sizes. {caption}"), caption)


def label_histogram(case: Case) -> Picture:
    """Count the bags by label."""
    labels = case.labels
    with canvas() as ax:
        if case.classes is not None:
            count = len(case.classes)
            counts = np.bincount(labels.astype(np.int64), minlength=count)
            names = [name_of(label) for label in case.classes.tolist()]
            ax.bar(range(count), counts, 0.6, color=BLUE)
            ax.set(xlim=(-0.6, count - 0.4), xlabel="class")
            _count(ax)
            room = max(4, 2 * NAME_WIDTH // count)
            shown_names = [_brief(name)[:room] for name in names[:MAX_NAMES]]
            ax.set_xticks(range(len(shown_names)), shown_names)
            *some, last = (f"{n:,} of class {name}" for n, name in zip(counts, names, strict=True))
            caption = f"{', '.join(some)} and {last}."
            return Picture("Labels", element(ax, f"Bags by class: {caption}"), caption)
        edges = label_edges(labels)
        _bars(ax, edges, np.histogram(labels, edges)[0])
        ax.set(xlim=(edges[0], edges[-1]), xlabel="label")
        caption = (
            f"Mean {shown(float(labels.mean()))}, standard deviation {shown(float(labels.std()))}, "
            f"from {shown(float(labels.min()))} to {shown(float(labels.max()))}."
        )
        return Picture("Labels", element(ax, f"Histogram of labels. {caption}"), caption)


def coverage_by_size(case: Case, comparison: Comparison) -> Picture:
    """Draw the share of labels inside their intervals, by bag size and model."""
    level = f"{100 * case.level:g} %"

    def ends(inside: np.ndarray) -> tuple[float, float, float]:
        lower, upper = binomial_interval(np.array([inside.sum()]), np.array([inside.size]))
        return float(inside.mean()), float(lower[0]), float(upper[0])

    with canvas() as ax:
        legend = _by_size(ax, case, comparison, "coverage", ends, case.level)
        ax.set(ylabel="labels inside", ylim=(None, 1.01))
        name = (
            f"Share of labels inside the {level} intervals by bag size, for each model; the table "
            "by bag size has the numbers."
        )
        caption = (
            f"Share of labels inside their {level} interval: near the dashed line if the model is "
            f"as sure as it should be. Whiskers are 95 % intervals.{_undrawn(comparison)}"
        )
        return Picture("Coverage by bag size", element(ax, name), caption, legend)


def bias_by_size(case: Case, comparison: Comparison) -> Picture:
    """Draw observed minus predicted share of the second class, by bag size and model."""

    def ends(gaps: np.ndarray) -> tuple[float, float, float]:
        found = Estimate.of(gaps)
        reach = CLEAR * np.nan_to_num(found.error)
        return found.value, found.value - reach, found.value + reach

    with canvas() as ax:
        legend = _by_size(ax, case, comparison, "calibration", ends, 0.0)
        ax.set(ylabel="observed − predicted")
        name = (
            "Observed share minus mean predicted probability by bag size, for each model; near "
            "zero if calibrated."
        )
        what = "bags whose predicted class is right" if case.many else "the second class"
        caption = (
            f"Share of {what} minus its mean predicted probability: near zero if calibrated. "
            f"Whiskers reach two standard errors to either side.{_undrawn(comparison)}"
        )
        return Picture("Calibration by bag size", element(ax, name), caption, legend)


def pit_histogram(case: Case, prediction: JoinedPrediction) -> Picture:
    """Draw the probability integral transform, level if the distributions are right."""
    values, levels = pit(prediction, case.y), prediction.level_at(case.y)
    shares = np.histogram(values, N_PIT_BINS, (0.0, 1.0))[0] / len(values)
    with canvas() as ax:
        histogram(ax, Transformed("", values, levels), BLUE, N_PIT_BINS)
        ax.set(title="", ylabel="relative frequency")
        ax.set_xlabel("predicted probability of a lower label")
        name = (
            "Histogram of the predicted probability of a label at most as large as the true one: "
            + ", ".join(f"{100 * s:.0f} %" for s in shares)
        )
        caption = (
            "Level if the predicted distributions are right; a heap in the middle if they are too "
            "wide, heaps at the ends if too narrow. Chance keeps 95 % of the bars within the band."
        )
        if any(isinstance(piece.prediction, CountPrediction) for piece in prediction.pieces):
            caption += " Counts lie at random between the steps of their distribution."
        return Picture("Probability integral transform", element(ax, name), caption)


def reliability_diagram(case: Case, prediction: Joined) -> Picture:
    """Draw observed shares against predicted probabilities."""
    table = reliability(prediction, case.y)  # type: ignore[arg-type]
    pairs = zip(table.predicted, table.observed, strict=True)
    with canvas() as ax:
        plots.reliability(table, ax=ax)
        ax.set_aspect("auto")
        for axis in (ax.xaxis, ax.yaxis):
            axis.set_major_formatter(PERCENT)
        name = "Observed share against predicted probability: " + ", ".join(
            f"{100 * observed:.0f} % at {100 * predicted:.0f} %" for predicted, observed in pairs
        )
        of = " of the predicted class" * case.many
        caption = (
            f"Bags of like probability{of}, as many in each dot: near the line if the "
            f"probabilities mean what they say. Mean distance {100 * table.calibration_error:.1f} "
            "%. Whiskers are 95 % intervals; the bars show where the probabilities lie."
        )
        return Picture("Reliability", element(ax, name), caption)


def predicted_against_true(case: Case, prediction: JoinedPrediction) -> Picture:
    """Draw predicted means against labels, by bag size."""
    rows = _some(case)
    labels, means = case.labels[rows], prediction.mean[rows]
    r = float(np.corrcoef(labels, means)[0, 1]) if np.ptp(labels) * np.ptp(means) > 0 else 0.0
    few = f" {MAX_DOTS:,} bags drawn at random." if len(rows) < case.bags.n_bags else ""
    with canvas() as ax:
        plots.predicted_against_true(prediction[rows], labels, sizes=case.sizes[rows], ax=ax)
        ax.set_aspect("auto")
        legend = _legend(ax)
        return Picture(
            "Predicted against true",
            element(ax, f"Predicted against true labels, with correlation {r:.2f}."),
            f"On the line the prediction is right. Correlation {r:.2f}.{few}",
            legend,
        )


def probability_histogram(case: Case, prediction: Joined) -> Picture:
    """Count the bags of each class by the probability of the second.

    Of many classes: those whose predicted class is wrong, and right, by the probability of it.
    """
    assert case.classes is not None
    if isinstance(prediction, JoinedManyClassPrediction):
        names, which = ["wrong", "right", "the predicted class"], prediction.predicted == case.y
    else:
        names, which = [name_of(label) for label in case.classes.tolist()], case.labels
        names.append(_brief(names[1]))
    colors = (ORANGE, BLUE)
    with canvas() as ax:
        some = [prediction.mean[which == k] for k in (0, 1)]
        ax.hist(some, 10, range=(0.0, 1.0), rwidth=0.9, color=colors)
        ax.set(xlim=(0, 1))
        _count(ax)
        ax.set_xlabel(f"predicted probability of {names[2]}")
        legend = [(variable(color), name) for color, name in zip(colors, names, strict=False)]
        if case.many:
            return Picture(
                "Probabilities of the predicted class",
                element(ax, "Histogram of the probability of the predicted class, right or wrong."),
                "The farther apart, the better the model knows when it is right.",
                legend,
            )
        return Picture(
            "Predicted probabilities by class",
            element(
                ax,
                "Histogram of the predicted probability of the second class, for the bags of each.",
            ),
            "The farther apart, the better the classes are told from each other.",
            legend,
        )


def spread_by_size(case: Case, prediction: Joined) -> Picture:
    """Draw the predictive sd by bag size, its parts on top of each other."""
    real = case.classes is None
    with canvas() as ax:
        plots.spread_by_size(prediction, case.y if real else None, sizes=case.sizes, ax=ax)
        legend, ends = _legend(ax)[::-1], [text.get_text() for text in ax.texts]
        what = "sd" if real else "sd of the latent value" + " of the predicted class" * case.many
        return Picture(
            "Uncertainty by bag size",
            element(
                ax,
                f"Mean predictive {what} by bag size: {ends[0]} for the smallest bags, {ends[-1]} "
                "for the largest.",
            ),
            f"Mean predictive {what} and what it is made of: the edge between two colours is the "
            "sd without the parts above it."
            + (" Dots: root mean squared error of the bags of that size." if real else ""),
            legend,
        )


def importance(case: Case, explained: Explained, model: str) -> list[Picture]:
    """Draw how far columns push predictions of bags apart; nothing if the model does not say."""
    values = explained.importance
    if values is None or not values.any():
        return []
    names, n = column_names(case.bags), sum(b in explained.by_column for b in explained.drawn)
    order = np.argsort(-values, kind="stable")[:MAX_BARS]
    what = "prediction" if case.classes is None else "latent value"
    left = len(values) - len(order)
    rest = f" {left} that add less are left out." if left else ""
    with canvas(height=0.16 * len(order) + 0.7) as ax:
        ax.barh(range(len(order)), values[order], 0.72, color=BLUE)
        ax.set_yticks(range(len(order)), [_brief(names[k]) for k in order])
        ax.set(xlabel=f"mean change of the {what}", ylim=(len(order) - 0.4, -0.6))
        ax.grid(visible=False)
        told = ", ".join(f"{names[k]} {shown(float(values[k]), 3)}" for k in order)
        caption = (
            f"By {model}: how far what a column adds to the {what} of a bag is, on average, from "
            f"what it adds to the average bag. From {n:,} bags drawn at random, and at "
            f"most {COLUMN_POINTS} points of each.{rest}"
        )
        svg = element(ax, f"Mean change by column: {told}.")
        return [Picture("What the columns add", svg, caption)]


def column_histograms(case: Case, explained: Explained) -> list[Picture]:
    """Draw the values of columns: of the first, or if there are many those that add most."""
    names, found = column_names(case.bags), []
    order = np.arange(len(names))
    if explained.importance is not None:
        order = np.argsort(-explained.importance, kind="stable")
    chosen = set(order[:MAX_COLUMNS].tolist())
    for k, (values, counts) in enumerate(column_values(case)):
        if k in chosen:
            kind = "Covariate: " if k >= case.bags.n_features else ""
            found.append(_column_histogram(names[k], kind, values, counts))
    return found


def _column_histogram(name: str, kind: str, values: np.ndarray, counts: np.ndarray) -> Picture:
    low, high = np.quantile(values, (TAIL, 1.0 - TAIL))
    least, most = float(values.min()), float(values.max())
    inner = np.clip(values, low, high) if low < high else values
    whole = most - least < WHOLE and bool((values == np.round(values)).all())
    edges = _whole_edges(inner) if whole else label_edges(inner)
    shares = np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=counts)[0]
    mean = shown(float(values @ counts), 3)
    caption = f"{kind}{shown(least, 3)} to {shown(most, 3)}, mean {mean}"
    with canvas(*SMALL) as ax:
        _bars(ax, edges, shares)
        ax.set(xlim=(edges[0], edges[-1]), ylabel="")
        ax.yaxis.set_visible(False)
        ax.xaxis.set_major_locator(MaxNLocator(3, integer=whole))
        return Picture(name, element(ax, f"Histogram of {name}: {caption}."), caption)


def _whole_edges(values: np.ndarray) -> np.ndarray:
    """Return edges halfway between whole numbers, as many of these in each bin."""
    low, high = np.floor(values.min()), np.ceil(values.max())
    step = np.ceil((high - low + 1.0) / N_LABEL_BINS)
    return np.arange(low - 0.5, high + step, step)


def calibration_by_size(case: Case, prediction: JoinedPrediction) -> Picture:
    """Draw the share of labels inside their intervals, at every level, by three groups of sizes."""
    edges = equal_shares(case.sizes, SIZE_COLORS).tolist()
    with canvas() as ax:
        plots.calibration(prediction, case.y, sizes=case.sizes, edges=edges, ax=ax)
        ax.set_aspect("auto")
        legend = _legend(ax)
        caption = (
            "Share of labels inside the interval of each level: above the line where intervals are "
            "too wide, below where too narrow. Chance keeps a right model in the bands, of the "
            "fewest and the most bags; dots are where a group is outside of its own."
        )
        name = "Share of labels inside against the level of the interval, by bag size."
        return Picture("Calibration at every level", element(ax, name), caption, legend)


def size_edges(sizes: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " m"]:
    """Return edges halfway between whole sizes, about evenly apart on a log scale.

    Examples
    --------
    >>> size_edges(np.array([1.0, 2.0, 4.0]))
    array([0.5, 1.5, 2.5, 3.5, 4.5])
    """
    low, high = float(sizes.min()), float(sizes.max())
    starts = np.unique(np.round(np.geomspace(low, high + 1.0, N_SIZE_BINS + 1)))
    if len(starts) < 2:  # as 1,000,000 and the next number may be, on a log scale
        starts = np.array([low, high + 1.0])
    return starts - 0.5


def size_ticks(low: float, high: float) -> tuple[list[int], list[str]]:
    """Return few round whole numbers between low and high, and their texts.

    Examples
    --------
    >>> size_ticks(0.5, 1200.0)
    ([1, 3, 10, 30, 100, 300, 1000], ['1', '3', '10', '30', '100', '300', '1,000'])
    """
    for digits in ((1, 2, 5), (1, 3), (1,)):
        values = [d * 10**k for k in range(19) for d in digits if low <= d * 10**k <= high]
        if len(values) <= MAX_TICKS:
            break
    values = values or [round((low + high) / 2)]
    return values, [f"{value:,}" for value in values]


def label_edges(labels: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " m"]:
    """Return edges of equal bins; one of width 1 if all labels are the same.

    Examples
    --------
    >>> label_edges(np.array([3.0, 3.0]))
    array([2.5, 3.5])
    """
    low, high = float(labels.min()), float(labels.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)) or high == low:
        reach = max(0.5, 1e-6 * abs(low))
        return np.array([low - reach, low + reach])
    n_bins = int(np.clip(np.sqrt(len(labels)), 5, N_LABEL_BINS))
    return np.linspace(low, high, n_bins + 1)


def _by_size(
    ax: Axes,
    case: Case,
    comparison: Comparison,
    score: str,
    ends: Callable[[np.ndarray], tuple[float, float, float]],
    target: float,
) -> list[tuple[str, str]]:
    """Draw value, lower and upper end of a score by bag size and model; return the legend."""
    groups = rows_by_size(case.sizes, None, case.bags.n_bags)
    models = comparison.models[:MAX_SERIES]
    ax.axhline(target, color="0.45", linewidth=0.9, linestyle=(0, (4, 3)))
    for k, model in enumerate(models):
        value, lower, upper = np.array([ends(model.bags[score][mask]) for _, mask in groups]).T
        x = np.arange(len(groups)) + 0.14 * (k - (len(models) - 1) / 2)
        reach = np.maximum((value - lower, upper - value), 0.0)  # rounding may leave less
        ax.errorbar(x, value, reach, fmt="o", elinewidth=1.2)
    ax.set(xlim=(-0.5, len(groups) - 0.5), xlabel="points in the bag")
    ax.set_xticks(range(len(groups)), [name for name, _ in groups])
    ax.yaxis.set_major_formatter(PERCENT)
    return [(variable(color), model.name) for color, model in zip(CYCLE, models, strict=False)]


def _undrawn(comparison: Comparison) -> str:
    """Name the models for which a picture has no colours; the table by bag size has them all."""
    rest = [model.name for model in comparison.models[MAX_SERIES:]]
    return f" The table of scores by bag size also has {', '.join(rest)}." if rest else ""


def _bars(ax: Axes, edges: np.ndarray, counts: np.ndarray) -> None:
    """Draw counts of bags as bars between edges."""
    ax.bar(edges[:-1], counts, np.diff(edges), align="edge", color=BLUE, edgecolor="white", lw=1)
    _count(ax)


def _count(ax: Axes) -> None:
    ax.set(ylabel="bags")
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10], integer=True))
    ax.yaxis.set_major_formatter(lambda count, _: f"{count:,.0f}")


def _legend(ax: Axes) -> list[tuple[str, str]]:
    """Take the legend out of the axes: the page writes it below, where it wraps."""
    ax.get_legend().remove()  # type: ignore[union-attr]
    handles, names = ax.get_legend_handles_labels()
    return [(variable(_color(h)), name) for h, name in zip(handles, names, strict=True)]


def _color(handle: Any) -> Any:
    if isinstance(handle, Line2D):
        return handle.get_color()
    first = handle[0] if isinstance(handle, BarContainer) else handle
    return np.ravel(first.get_facecolor())


def _brief(name: str) -> str:
    """Return as much of a name as fits under an axis, without what cannot be drawn."""
    return "".join(c if c.isprintable() else " " for c in name[:NAME_WIDTH])


def _some(case: Case) -> np.ndarray:
    """Return the positions of all bags, or of as many as can be drawn."""
    n = case.bags.n_bags
    if n <= MAX_DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(case.seed).choice(n, MAX_DOTS, replace=False))
