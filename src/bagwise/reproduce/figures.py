"""Figures of the paper, drawn from finished cells. Nothing is fitted here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from bagwise.datasets import load_paper_results
from bagwise.inspection.plots import predictions_by_size
from bagwise.reproduce.cell import LEVELS, Cell
from bagwise.reproduce.study import Study
from bagwise.reproduce.tables import coverage_of, value_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which the colour-blind can tell apart; markers for print in grey.
STYLES: Mapping[str, tuple[str, str]] = {
    "Optimal": ("#000000", "."),
    "kernel ridge": ("#999999", "v"),
    "RBF network": ("#E69F00", "s"),
    "freq-shrinkage": ("#F0E442", "P"),
    "BLR": ("#D55E00", "D"),
    "shrinkage": ("#0072B2", "o"),
    "shrinkageC": ("#56B4E9", "^"),
    "BDR": ("#009E73", "X"),
    "CNN": ("#CC79A7", "*"),
    "GP": ("#CC79A7", "h"),
    "GP, range": ("#882255", "H"),
    "learnt": ("#44AA99", "p"),
}

# Methods whose predictions are drawn, as many as fit side by side.
SHOWN = ("Optimal", "CNN", "RBF network", "BLR", "shrinkage", "BDR")

# Methods that say how sure they are.
WITH_INTERVALS = ("BLR", "shrinkage", "shrinkageC", "BDR", "CNN", "GP", "GP, range", "learnt")

# Bag sizes are shown one by one if there are few, else by these intervals.
MAX_GROUPS = 4
GROUPS = (1, 3, 10, 30)

FONT: Any = {"font.size": 9, "axes.titlesize": 9, "legend.fontsize": 8}

# Scores of guessing: the variance of the label, and a uniform density on its range.
GUESS = {"mse": 4.0 / 3.0, "nll": float(np.log(4.0))}
GUESS_NAMES = {"mse": "constant", "nll": "uniform"}


def scores_by_setting(study: Study, cells: Sequence[Cell]) -> Figure:
    """Draw MSE and NLL against the setting: ours as lines, the authors' as open markers."""
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.3), layout="constrained")
        for ax, metric in zip(axes, ("mse", "nll"), strict=True):
            for method in study.methods:
                _score_line(ax, study, cells, method, metric)
            ax.axhline(GUESS[metric], color="0.5", linestyle=":", linewidth=1)
            ax.annotate(
                GUESS_NAMES[metric],
                (0.0, GUESS[metric]),
                xycoords=("axes fraction", "data"),
                xytext=(4, -3),
                textcoords="offset points",
                ha="left",
                va="top",
                color="0.4",
            )
            ax.set(xlabel=f"{study.setting_name}: {study.setting_text}", ylabel=metric.upper())
            _clean(ax)
        figure.legend(
            handles=_legend(study.methods, theirs=True),
            loc="outside lower center",
            ncols=5,
            frameon=False,
        )
        return figure


def _score_line(ax: Axes, study: Study, cells: Sequence[Cell], method: str, metric: str) -> None:
    color, marker = STYLES[method]
    chosen = [cell for cell in cells if cell.method == method]
    ax.plot(
        [cell.setting for cell in chosen],
        [value_of(cell, metric) for cell in chosen],
        color=color,
        marker=marker,
        markersize=4,
        linewidth=1.3,
    )
    if method == "Optimal":
        return
    settings = {cell.setting for cell in chosen}
    stored = load_paper_results(experiment=study.name, method=method, metric=metric)
    both = [row for row in stored if row.setting in settings]
    ax.plot(
        [row.setting for row in both],
        [row.value for row in both],
        color=color,
        marker=marker,
        markersize=4.5,
        markerfacecolor="none",
        linestyle="none",
        alpha=0.55,
    )


def scores_by_method(study: Study, cells: Sequence[Cell]) -> Figure:
    """Draw the scores of every setting, a row per method: ours above, the authors' below."""
    methods = list(study.methods)
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(1, 2, figsize=(7.2, 3.6), sharey=True, layout="constrained")
        for ax, metric in zip(axes, study.metrics, strict=True):
            for row, method in enumerate(methods):
                color, marker = STYLES[method]
                ours = [value_of(cell, metric) for cell in cells if cell.method == method]
                stored = load_paper_results(experiment=study.name, method=method, metric=metric)
                theirs = [entry.value for entry in stored]
                _strip(ax, ours, row - 0.14, color, marker, filled=True)
                _strip(ax, theirs, row + 0.2, color, marker, filled=False)
            ax.set(xlabel=metric.upper(), yticks=range(len(methods)), yticklabels=methods)
            ax.grid(axis="x", color="0.92")
            _clean(ax)
        axes[0].invert_yaxis()
        handles = _legend((), theirs=True)
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)
        return figure


def _strip(
    ax: Axes, values: Sequence[float], height: float, color: str, marker: str, *, filled: bool
) -> None:
    if not len(values):
        return
    face = color if filled else "none"
    ax.plot(
        values,
        np.full(len(values), height),
        marker=marker,
        linestyle="none",
        markersize=4,
        color=color,
        markerfacecolor=face,
        alpha=0.6,
    )
    mean = float(np.mean(values))
    ax.plot([mean, mean], [height - 0.13, height + 0.13], color=color, linewidth=2.2)


def predictions(study: Study, cells: Sequence[Cell]) -> Figure:
    """Draw predictions against labels: a column per method, a row per bag size, colour = sd."""
    shown = {cell.method: cell for cell in cells if cell.setting == study.show}
    chosen = {method: shown[method] for method in SHOWN if method in shown}
    first = next(iter(chosen.values()))
    edges = GROUPS if len(np.unique(first.sizes)) > MAX_GROUPS else None
    with plt.rc_context(FONT):
        return predictions_by_size(chosen, first.labels, first.sizes, edges=edges)


def grouped(sizes: np.ndarray) -> np.ndarray:
    """Return sizes, or the lower ends of intervals of them if they are many."""
    if len(np.unique(sizes)) <= MAX_GROUPS:
        return sizes
    return np.array(GROUPS)[np.searchsorted(GROUPS, sizes, "right") - 1]


def shrinkage_factors(study: Study, cells: Sequence[Cell]) -> Figure:
    """Draw how much of a deviation from the prior mean is kept, by eigenvalue and bag size.

    With Σ = τ²I the factor is λ/(λ + τ²/N); in the basis of the fitted model it is
    ηλN/(1 + ηλN), so one curve serves all sizes when shifted by log N. The marks are the
    eigenvalues of the fitted models.
    """
    chosen = {
        cell.method: cell
        for cell in cells
        if cell.setting == study.show and len(cell.spectrum) and cell.method != "BDR"
    }
    sizes = np.unique(grouped(next(iter(chosen.values())).sizes))
    if len(sizes) == 1:
        sizes = np.array([5, 20, 100, 1000])
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(
            1,
            len(chosen),
            figsize=(3.6 * len(chosen), 3.0),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        colors = plt.get_cmap("viridis")(np.linspace(0.85, 0.1, len(sizes)))
        for ax, (method, cell) in zip(axes[0], chosen.items(), strict=True):
            seen = cell.spectrum[cell.spectrum > 1e-9 * cell.spectrum.max()]
            grid = np.geomspace(seen.min() / 3, seen.max() * 3, 200)
            for size, color in zip(sizes, colors, strict=True):
                label = f"N = {size:,}"
                ax.plot(grid, size * grid / (1 + size * grid), color=color, label=label)
                ax.plot(seen, size * seen / (1 + size * seen), "|", color=color, markersize=7)
            ax.set(xscale="log", xlabel="prior variance / variance of one point, ηλ", title=method)
            _clean(ax)
        axes[0, 0].set_ylabel("share of the deviation kept")
        handles, labels = axes[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(sizes), frameon=False)
        return figure


def calibration(study: Study, cells: Sequence[Cell]) -> Figure:
    """Draw how often intervals hold the label, by bag size, over all settings together."""
    methods = [name for name in WITH_INTERVALS if name in study.methods]
    sizes = np.unique(np.concatenate([cell.sizes for cell in cells]))
    groups = np.unique(grouped(sizes))
    with plt.rc_context(FONT):
        figure, axes = plt.subplots(
            1,
            len(groups),
            figsize=(1.9 * len(groups) + (1.8 if len(groups) == 1 else 0.4), 2.7),
            sharey=True,
            squeeze=False,
            layout="constrained",
        )
        for ax, start in zip(axes[0], groups.tolist(), strict=True):
            ax.plot([0, 1], [0, 1], color="0.7", linewidth=1)
            for shift, method in enumerate(methods):
                _coverage_line(ax, [c for c in cells if c.method == method], groups, start, shift)
            ax.set(xlim=(0.4, 1.0), ylim=(0.3, 1.01), xticks=LEVELS, xlabel="interval says")
            ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            ax.set_title(f"N = {start:,}" if len(sizes) <= MAX_GROUPS else f"from {start:,} points")
            _clean(ax)
        axes[0, 0].set_ylabel("labels inside")
        figure.legend(
            handles=_legend(methods), loc="outside lower center", ncols=len(methods), frameon=False
        )
        return figure


def _coverage_line(
    ax: Axes, cells: Sequence[Cell], groups: np.ndarray, start: float, shift: int
) -> None:
    if not cells:
        return
    shares, errors = [], []
    for level in range(len(LEVELS)):
        inside = np.concatenate(
            [
                coverage_of(cell, level)[np.searchsorted(groups, cell.sizes, "right") - 1 == i]
                for cell in cells
                for i in [int(np.searchsorted(groups, start))]
            ]
        )
        if not len(inside):
            return
        shares.append(inside.mean())
        errors.append(np.sqrt(max(inside.mean() * (1 - inside.mean()), 1e-9) / len(inside)))
    color, marker = STYLES[cells[0].method]
    ax.errorbar(
        np.array(LEVELS) + 0.006 * (shift - 1.5),
        shares,
        yerr=2 * np.array(errors),
        color=color,
        marker=marker,
        markersize=4,
        linewidth=1.1,
        elinewidth=0.9,
    )


def _legend(methods: Any, *, theirs: bool = False) -> list[Line2D]:
    handles = [
        Line2D([], [], color=STYLES[m][0], marker=STYLES[m][1], markersize=4, label=m)
        for m in methods
    ]
    if theirs:
        options: dict[str, Any] = {"color": "0.3", "marker": "o", "linestyle": "none"}
        handles.append(Line2D([], [], **options, markersize=4, label="ours"))
        handles.append(
            Line2D([], [], **options, markersize=4, markerfacecolor="none", label="authors'")
        )
    return handles


def _clean(ax: Axes) -> None:
    ax.spines[["top", "right"]].set_visible(False)
