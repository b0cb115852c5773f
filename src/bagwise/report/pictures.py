"""Pictures of a page: of the data, and of how predictions compare with labels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.class_metrics import reliability
from bagwise.joined import Joined, JoinedPrediction
from bagwise.report.binning import (
    REACH,
    bin_of,
    label_edges,
    share_interval,
    size_edges,
    terciles,
)
from bagwise.report.case import Case, name_of
from bagwise.report.comparison import Comparison, Estimate, shown
from bagwise.report.svg import Drawing, padded
from bagwise.size_groups import size_groups

# More dots than this hide each other.
MAX_DOTS = 4_000
N_PIT_BINS = 10
# A mean over fewer bags than this says little.
MIN_BAGS = 5
# Models in one picture: as many as there are colours.
MAX_SERIES = 5


@dataclass(frozen=True)
class Figure:
    """A picture with its title, caption and legend: (class of the style sheet, text)."""

    title: str
    svg: str
    caption: str
    legend: tuple[tuple[str, str], ...] = ()


def size_histogram(case: Case) -> Figure:
    """Count the bags by size, in bins that are even on a log scale."""
    sizes, edges = case.sizes, size_edges(case.sizes)
    counts = np.bincount(bin_of(sizes, edges), minlength=len(edges) - 1)
    drawing = Drawing(
        (edges[0], edges[-1]),
        (0.0, counts.max() * 1.05),
        "points in the bag (log scale)",
        "bags",
        log_x=True,
    )
    drawing.bars(edges[:-1], edges[1:], counts, "s0")
    low, quarter, median, three, high = case.bags.size_quantiles()
    caption = (
        f"Half of the bags have {quarter:,} to {three:,} points; the median is {median:,}, the "
        f"least {low:,} and the most {high:,}."
    )
    return Figure("Bag sizes", drawing.render(f"Histogram of bag sizes. {caption}"), caption)


def label_histogram(case: Case) -> Figure:
    """Count the bags by label."""
    labels = case.labels
    if case.classes is not None:
        counts = np.array([np.sum(labels == 0), np.sum(labels == 1)])
        names = [name_of(label) for label in case.classes.tolist()]
        drawing = Drawing((-0.6, 1.6), (0.0, counts.max() * 1.05), "class", "bags")
        drawing.bars([-0.3, 0.7], [0.3, 1.3], counts, "s0")
        both = zip(counts, names, strict=True)
        caption = " and ".join(f"{n:,} of class {name}" for n, name in both) + "."
        ticks = [(float(k), name[:24]) for k, name in enumerate(names)]
        return Figure("Labels", drawing.render(f"Bags by class: {caption}", ticks), caption)
    edges = label_edges(labels)
    counts = np.bincount(bin_of(labels, edges), minlength=len(edges) - 1)
    drawing = Drawing((edges[0], edges[-1]), (0.0, counts.max() * 1.05), "label", "bags")
    drawing.bars(edges[:-1], edges[1:], counts, "s0")
    caption = (
        f"Mean {shown(float(labels.mean()))}, standard deviation {shown(float(labels.std()))}, "
        f"from {shown(float(labels.min()))} to {shown(float(labels.max()))}."
    )
    return Figure("Labels", drawing.render(f"Histogram of labels. {caption}"), caption)


def coverage_by_size(case: Case, comparison: Comparison) -> Figure:
    """Draw the share of labels inside their intervals, by bag size and model."""
    groups = size_groups(case.sizes, None, case.bags.n_bags)
    models = comparison.models[:MAX_SERIES]
    shares = [[np.mean(m.bags["coverage"][mask]) for _, mask in groups] for m in models]
    counts = np.array([mask.sum() for _, mask in groups], dtype=np.float64)
    ends = [share_interval(np.array(share) * counts, counts) for share in shares]
    low = min(float(np.min([lower for lower, _ in ends])), case.level)
    drawing = Drawing(
        (-0.5, len(groups) - 0.5),
        padded(max(0.0, low - 0.02), 1.0, 0.02),
        "points in the bag",
        "labels inside",
        percent_y=True,
    )
    drawing.line([-0.5, len(groups) - 0.5], [case.level, case.level], "target")
    for k, (share, (lower, upper)) in enumerate(zip(shares, ends, strict=True)):
        x = np.arange(len(groups)) + 0.14 * (k - (len(models) - 1) / 2)
        drawing.whiskers(x, lower, upper, f"s{k}")
        drawing.dots(x, share, f"big s{k}")
    level = f"{100 * case.level:g} %"
    return Figure(
        "Coverage by bag size",
        drawing.render(
            f"Share of labels inside the {level} intervals by bag size, for each model; the table "
            "by bag size has the numbers.",
            [(float(i), label) for i, (label, _) in enumerate(groups)],
        ),
        f"Share of labels inside their {level} interval: near the dashed line if the model is as "
        "sure as it should be. Whiskers are 95 % intervals.",
        tuple((f"s{k}", model.name) for k, model in enumerate(models)),
    )


def bias_by_size(case: Case, comparison: Comparison) -> Figure:
    """Draw observed minus predicted share of the second class, by bag size and model."""
    groups = size_groups(case.sizes, None, case.bags.n_bags)
    models = comparison.models[:MAX_SERIES]
    found = [[Estimate.of(m.bags["calibration"][mask]) for _, mask in groups] for m in models]
    values = np.array([[e.value for e in row] for row in found])
    errors = REACH * np.nan_to_num([[e.error for e in row] for row in found])
    most = float(np.abs(values).max() + errors.max()) or 0.1
    drawing = Drawing(
        (-0.5, len(groups) - 0.5),
        (-most, most),
        "points in the bag",
        "observed − predicted",
        percent_y=True,
    )
    drawing.line([-0.5, len(groups) - 0.5], [0.0, 0.0], "target")
    for k in range(len(models)):
        x = np.arange(len(groups)) + 0.14 * (k - (len(models) - 1) / 2)
        drawing.whiskers(x, values[k] - errors[k], values[k] + errors[k], f"s{k}")
        drawing.dots(x, values[k], f"big s{k}")
    return Figure(
        "Calibration by bag size",
        drawing.render(
            "Observed share minus mean predicted probability by bag size, for each model; near "
            "zero if calibrated.",
            [(float(i), label) for i, (label, _) in enumerate(groups)],
        ),
        "Share of the second class minus its mean predicted probability: near zero if calibrated. "
        "Whiskers reach two standard errors to either side.",
        tuple((f"s{k}", model.name) for k, model in enumerate(models)),
    )


def pit_histogram(case: Case, prediction: JoinedPrediction) -> Figure:
    """Draw the probability integral transform, level if the distributions are right."""
    n = case.bags.n_bags
    edges = np.linspace(0.0, 1.0, N_PIT_BINS + 1)
    counts = np.bincount(bin_of(prediction.cdf(case.labels), edges), minlength=N_PIT_BINS)
    share = 1.0 / N_PIT_BINS
    reach = REACH * np.sqrt(share * (1 - share) / n)
    shares = counts / n
    top = max(float(shares.max()), share + reach) * 1.1
    drawing = Drawing(
        (0.0, 1.0),
        (0.0, top),
        "predicted probability of a lower label",
        "share of bags",
        percent_y=True,
    )
    drawing.bars(edges[:-1], edges[1:], shares, "s0")
    drawing.area([0.0, 1.0], [max(share - reach, 0.0)] * 2, [share + reach] * 2, "band")
    drawing.line([0.0, 1.0], [share, share], "target")
    return Figure(
        "Probability integral transform",
        drawing.render(
            "Histogram of the predicted probability of a label at most as large as the true one: "
            + ", ".join(f"{100 * s:.0f} %" for s in shares)
        ),
        "Level if the predicted distributions are right; a heap in the middle if they are too "
        "wide, heaps at the ends if too narrow. Chance keeps 95 % of the bars within the band.",
    )


def reliability_diagram(case: Case, prediction: Joined) -> Figure:
    """Draw observed shares against predicted probabilities."""
    table = reliability(prediction, case.y)  # type: ignore[arg-type]
    drawing = Drawing(
        (0.0, 1.0), (0.0, 1.0), "predicted probability", "observed share", percent_y=True
    )
    drawing.line([0.0, 1.0], [0.0, 1.0], "target")
    drawing.whiskers(table.predicted, table.observed_lower, table.observed_upper, "s0")
    drawing.dots(table.predicted, table.observed, "big s0")
    return Figure(
        "Reliability",
        drawing.render(
            "Observed share against predicted probability: "
            + ", ".join(
                f"{100 * o:.0f} % at {100 * p:.0f} %"
                for p, o in zip(table.predicted, table.observed, strict=True)
            )
        ),
        "Bags of like probability, as many in each dot: near the dashed line if the probabilities "
        f"mean what they say. Mean distance {100 * table.calibration_error:.1f} %. Whiskers are "
        "95 % intervals.",
    )


def predicted_against_true(case: Case, prediction: Joined) -> Figure:
    """Draw predicted means against labels, by bag size."""
    rows = _some(case)
    labels, means = case.labels[rows], prediction.mean[rows]
    limits = padded(float(min(labels.min(), means.min())), float(max(labels.max(), means.max())))
    drawing = Drawing(limits, limits, "label", "predicted")
    drawing.line(limits, limits, "target")
    index, names = terciles(case.sizes)
    for group in range(len(names)):
        chosen = index[rows] == group
        drawing.dots(labels[chosen], means[chosen], f"q{group}")
    few = f" {MAX_DOTS:,} bags drawn at random." if len(rows) < case.bags.n_bags else ""
    r = float(np.corrcoef(labels, means)[0, 1]) if np.ptp(labels) * np.ptp(means) > 0 else 0.0
    return Figure(
        "Predicted against true",
        drawing.render(f"Predicted against true labels, with correlation {r:.2f}."),
        f"On the dashed line the prediction is right. Correlation {r:.2f}.{few}",
        tuple((f"q{group}", name) for group, name in enumerate(names)),
    )


def probability_histogram(case: Case, prediction: Joined) -> Figure:
    """Count the bags of each class by the probability of the second."""
    assert case.classes is not None
    edges = np.linspace(0.0, 1.0, 11)
    index = bin_of(prediction.mean, edges)
    counts = [np.bincount(index[case.labels == k], minlength=10) for k in (0, 1)]
    top = float(max(map(np.max, counts))) * 1.05
    names = [name_of(label) for label in case.classes.tolist()]
    drawing = Drawing((0.0, 1.0), (0.0, top), f"predicted probability of {names[1][:24]}", "bags")
    middle = (edges[:-1] + edges[1:]) / 2
    drawing.bars(edges[:-1] + 0.005, middle, counts[0], "s1")
    drawing.bars(middle, edges[1:] - 0.005, counts[1], "s0")
    return Figure(
        "Predicted probabilities by class",
        drawing.render(
            "Histogram of the predicted probability of the second class, for the bags of each."
        ),
        "The farther apart, the better the classes are told from each other.",
        (("s1", names[0]), ("s0", names[1])),
    )


def spread_by_size(case: Case, prediction: Joined) -> Figure:
    """Draw the predictive sd against the bag size, its parts on top of each other."""
    real, edges = case.classes is None, size_edges(case.sizes)
    bins, index = np.unique(bin_of(case.sizes, edges), return_inverse=True)
    counts = np.bincount(index)
    x = np.exp(np.bincount(index, weights=np.log(case.sizes)) / counts)
    parts = prediction.parts.to_dict()
    names = [name for name in ("noise", "weights", "bag") if parts[name].any()]
    means = [np.bincount(index, weights=parts[name]) / counts for name in names]
    tops = np.sqrt(np.cumsum([np.zeros(len(bins)), *means], axis=0))
    rmse = np.sqrt(np.bincount(index, weights=(case.labels - prediction.mean) ** 2) / counts)
    enough = (counts >= MIN_BAGS) if real else np.zeros(len(bins), dtype=bool)
    top = float(max(tops[-1].max(), rmse[enough].max(initial=0.0))) * 1.08 or 1.0
    what = "sd" if real else "sd of the latent value"
    drawing = Drawing(
        (edges[0], edges[-1]), (0.0, top), "points in the bag (log scale)", what, True
    )
    for k, name in enumerate(names):
        drawing.area(*_wide(x, tops[k], tops[k + 1], edges), f"part-{name}")
    drawing.dots(x[enough], rmse[enough], "big ink")
    legend = [(f"part-{name}", PART_NAMES[name]) for name in reversed(names)]
    return Figure(
        "Uncertainty by bag size",
        drawing.render(
            f"Mean predictive {what} by bag size: {tops[-1][0]:.3g} for the smallest bags, "
            f"{tops[-1][-1]:.3g} for the largest."
        ),
        f"Mean predictive {what} and what it is made of: the edge between two colours is the sd "
        "without the parts above it."
        + (" Dots: root mean squared error of the bags of that size." if enough.any() else ""),
        (*legend, *([("ink", "actual error")] if enough.any() else [])),
    )


PART_NAMES = {
    "bag": "the bag: few points",
    "weights": "the regression: few bags",
    "noise": "noise",
}


def _wide(
    x: np.ndarray, low: np.ndarray, high: np.ndarray, edges: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Continue lines level to the edges of the picture, so that one bin is seen too."""
    x = np.concatenate([edges[:1], x, edges[-1:]])
    return x, *(np.concatenate([v[:1], v, v[-1:]]) for v in (low, high))  # type: ignore[return-value]


def _some(case: Case) -> np.ndarray:
    """Return the positions of all bags, or of as many as can be drawn."""
    n = case.bags.n_bags
    if n <= MAX_DOTS:
        return np.arange(n)
    return np.sort(np.random.default_rng(case.seed).choice(n, MAX_DOTS, replace=False))
