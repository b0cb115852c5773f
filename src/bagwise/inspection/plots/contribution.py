"""Pictures of an explanation: the witness function, and who pushes a prediction up or down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import TwoSlopeNorm
from matplotlib.ticker import MaxNLocator

from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots.style import DIVERGING, DOWN, UP, axes_or_new, journal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bagwise.estimators.explanation import Explanation

# Points of a drawn curve, and of each side of a drawn plane.
RESOLUTION = 300
SIDE = 90
# Room around the points, as a share of their range.
MARGIN = 0.12
# Bars that can be read.
MOST_BARS = 14
# Shares of the width that a gap takes, and a letter at the end of a bar.
GAP, LETTER = 0.02, 0.035


@journal
def contributions(explanation: Explanation, *, most: int = MOST_BARS) -> Figure:
    """Draw which points of a bag push its prediction up or down.

    Points of one or two columns are drawn where they are, on the witness function; of more, as bars
    beside those of the columns.

    Parameters
    ----------
    explanation : Explanation, as ``model.explain(bag)`` returns it
    most : bars of points at most; the weaker ones are added up

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(contributions(model.explain(bags[0]))).__name__
    'Figure'
    """
    if not explanation.by_column:
        ax = axes_or_new(None, 3.6, 0.21 * min(explanation.size, most) + 1.4)
        point_contributions(explanation, most=most, ax=ax)
        return ax.figure  # type: ignore[return-value]
    if explanation.bag_points.shape[1] <= 2:
        ax = axes_or_new(None, 4.6, 3.4)
        witness(explanation, ax=ax)
        ax.set_title(headline(explanation))
        return ax.figure  # type: ignore[return-value]
    n_columns = len(explanation.columns) + len(explanation.covariates) + 1
    rows = max(min(explanation.size, most), min(n_columns, most + 2))
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(7.4, 0.21 * rows + 1.4), layout="constrained"
    )
    point_contributions(explanation, most=most, ax=left)
    column_contributions(explanation, most=most, ax=right)
    for ax in (left, right):
        ax.set_ylim(rows - 0.4, -0.6)
    figure.suptitle(headline(explanation), x=0.01, ha="left")
    return figure


def headline(explanation: Explanation) -> str:
    """Return the sum, in words.

    Examples
    --------
    >>> from bagwise import BayesianLinearRegressor
    >>> model = BayesianLinearRegressor().fit([[[float(i)], [i + 1.0]] for i in range(9)], range(9))
    >>> headline(model.explain([[4.0], [5.0]]))
    'bag 0: predicted label 4, average bag 4'
    """
    return (
        f"bag {show(explanation.id)}: predicted {explanation.target} {explanation.prediction:.4g}"
        f"{chr(10) if len(explanation.target) > len('label') else ', '}"
        f"average bag {explanation.baseline:.4g}"
    )


@journal
def point_contributions(
    explanation: Explanation, *, most: int = MOST_BARS, ax: Axes | None = None
) -> Axes:
    """Draw a bar for what each point adds, strongest first.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(point_contributions(model.explain(bags[0]))).__name__
    'Axes'
    """
    of_objects = explanation.bags.of_objects
    bars = [
        (f"{explanation.bag_points[row, 0]!s:.24}" if of_objects else f"row {row}", value)
        for row, value in explanation.top(most)
    ]
    ax = axes_or_new(ax, 3.6, 0.21 * len(bars) + 1.1)
    ax.set_title("points")
    if len(bars) < explanation.size:
        rest = float(explanation.points.sum()) - sum(value for _, value in bars)
        ax.set_title(
            f"points: the strongest {len(bars)} of {explanation.size:,} (others {rest:+.3g})"
        )
    return _bars(ax, bars, explanation)


@journal
def column_contributions(
    explanation: Explanation, *, most: int = MOST_BARS, ax: Axes | None = None
) -> Axes:
    """Draw a bar for what each column and covariate adds, strongest first.

    Columns count from the average training point, which itself adds the bar of this name.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(column_contributions(model.explain(bags[0]))).__name__
    'Axes'
    """
    explanation.need_columns()
    named = explanation.top(len(explanation.columns), of="columns")
    named += explanation.top(len(explanation.covariates), of="covariates")
    named.sort(key=lambda bar: -abs(bar[1]))
    bars = [("average point", explanation.reference), *named[:most]]
    if named[most:]:
        rest = sum(value for _, value in named[most:])
        bars.append((f"{len(named) - most} other{'s' * (len(named) > most + 1)}", rest))
    ax = axes_or_new(ax, 3.6, 0.21 * len(bars) + 1.1)
    ax.set_title("columns and covariates" if len(explanation.covariates) else "columns")
    return _bars(ax, bars, explanation)


@journal
def witness(
    explanation: Explanation,
    *,
    columns: Sequence[str | int] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw the witness function: what the bag would add if all its points were at one place.

    Parameters
    ----------
    explanation : Explanation, as ``model.explain(bag)`` returns it
    columns : one or two, by name or number; by default the two, or the one, that there are, else
        the strongest. Other columns are held at the average of the bag.
    ax : Axes to draw on; by default new ones

    Notes
    -----
    Points are drawn where they are. What one adds to the prediction is the function there times its
    share of the bag; with other columns held, its own value may be off the curve.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(witness(model.explain(bags[0]))).__name__
    'Axes'
    """
    chosen = chosen_columns(explanation, columns)
    ax = axes_or_new(ax, 4.6, 3.4)
    return (_line if len(chosen) == 1 else _plane)(ax, explanation, chosen)


def chosen_columns(explanation: Explanation, columns: Sequence[str | int] | None) -> list[int]:
    """Return the positions of the columns to draw."""
    explanation.need_columns()
    names = explanation.column_names
    if columns is None:
        strongest = int(np.argmax(np.abs(explanation.columns)))
        return list(range(len(names))) if len(names) <= 2 else [strongest]
    columns = [columns] if isinstance(columns, str) else list(columns)
    found = [names.index(c) if c in names else c for c in columns]
    known = all(isinstance(c, int | np.integer) and 0 <= c < len(names) for c in found)
    if not known or len(found) not in (1, 2) or len(set(found)) != len(found):
        raise BagwiseError.because(
            f"columns are {columns}",
            f"one or two of {', '.join(names)}",
            "Name the columns that are to vary; the others are held at the average of the bag.",
        )
    return [int(c) for c in found]


def _line(ax: Axes, explanation: Explanation, chosen: list[int]) -> Axes:
    (j,) = chosen
    x = explanation.bag_points[:, j].astype(np.float64)
    grid = np.linspace(*_range(x), RESOLUTION)
    values = explanation.witness(_held(explanation, chosen, grid[:, None]))
    ax.fill_between(grid, 0, np.maximum(values, 0), color=UP, alpha=0.16, linewidth=0)
    ax.fill_between(grid, 0, np.minimum(values, 0), color=DOWN, alpha=0.16, linewidth=0)
    ax.plot(grid, values, color="0.25")
    ax.axhline(0.0, color="0.45", linewidth=0.8)
    own = explanation.points / np.maximum(explanation.shares, np.finfo(float).tiny)
    ax.scatter(
        x,
        own,
        s=_areas(explanation),
        c=np.where(own >= 0, UP, DOWN),
        edgecolors="white",
        linewidths=0.5,
        zorder=3,
    )
    ax.set(xlim=(grid[0], grid[-1]), xlabel=explanation.column_names[j])
    ax.set_ylabel(_effect(explanation))
    ax.margins(y=0.1)
    return ax


def _plane(ax: Axes, explanation: Explanation, chosen: list[int]) -> Axes:
    places = explanation.bag_points[:, chosen].astype(np.float64)
    sides = [np.linspace(*_range(column), SIDE) for column in places.T]
    grid = np.stack(np.meshgrid(*sides), axis=-1).reshape(-1, 2)
    values = explanation.witness(_held(explanation, chosen, grid)).reshape(SIDE, SIDE)
    own = explanation.points / np.maximum(explanation.shares, np.finfo(float).tiny)
    most = max(float(np.abs(values).max()), float(np.abs(own).max())) or 1.0
    norm = TwoSlopeNorm(0.0, -most, most)
    filled = ax.imshow(
        values,
        extent=(sides[0][0], sides[0][-1], sides[1][0], sides[1][-1]),
        origin="lower",
        aspect="auto",
        interpolation="bilinear",
        cmap=DIVERGING,
        norm=norm,
        alpha=0.7,
    )
    if values.min() < 0 < values.max():
        ax.contour(*sides, values, [0.0], colors="0.35", linewidths=0.8)
    ax.scatter(
        places[:, 0],
        places[:, 1],
        s=_areas(explanation),
        c=own,
        cmap=DIVERGING,
        norm=norm,
        edgecolors="black",
        linewidths=0.7,
        zorder=3,
    )
    names = explanation.column_names
    ax.set(xlabel=names[chosen[0]], ylabel=names[chosen[1]])
    bar = ax.figure.colorbar(filled, ax=ax, shrink=0.9)
    bar.set_label(_effect(explanation))
    bar.locator = MaxNLocator(7, symmetric=True)
    bar.update_ticks()
    return ax


def _held(explanation: Explanation, chosen: list[int], places: np.ndarray) -> np.ndarray:
    """Return points with these places in the chosen columns, else at the average of the bag."""
    points = np.tile(explanation.shares @ explanation.bag_points, (len(places), 1))
    points[:, chosen] = places
    return points


def _range(x: np.ndarray) -> tuple[float, float]:
    low, high = float(x.min()), float(x.max())
    room = MARGIN * (high - low) or 0.5 * abs(high) or 1.0
    return low - room, high + room


def _areas(explanation: Explanation) -> np.ndarray:
    """Return areas of the markers: shares of the bag, and smaller where the points are many."""
    size = np.clip(500.0 / explanation.size, 14.0, 42.0)
    return size * explanation.shares / explanation.shares.mean()


def _bars(ax: Axes, bars: list[tuple[str, float]], explanation: Explanation) -> Axes:
    values = np.array([value for _, value in bars])
    places = np.arange(len(bars))
    ax.barh(places, values, 0.72, color=np.where(values >= 0, UP, DOWN), zorder=2)
    ax.axvline(0.0, color="0.35", linewidth=0.8, zorder=3)
    decimals = max(0, 2 - int(np.floor(np.log10(np.abs(values).max() or 1.0))))
    for place, value in zip(places, values, strict=True):
        ax.annotate(
            f"{value:+.{decimals}f}".replace("-", "−"),
            (value, place),
            (3 if value >= 0 else -3, 0),
            textcoords="offset points",
            ha="left" if value >= 0 else "right",
            va="center",
            fontsize=7.5,
            color="0.25",
        )
    ax.set(yticks=places, yticklabels=[_short(name) for name, _ in bars])
    ax.invert_yaxis()
    ax.tick_params(axis="y", length=0)
    _leave_room(ax, values, max(len(text.get_text()) for text in ax.texts))
    ax.set_xlabel(_effect(explanation))
    return ax


def _leave_room(ax: Axes, values: np.ndarray, letters: int) -> None:
    """Leave room for numbers at the ends of bars, on the sides that have any."""
    ends = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    low, high = (GAP + LETTER * letters * (end != 0.0) for end in ends)
    width = ((ends[1] - ends[0]) or 1.0) / (1.0 - low - high)
    ax.set_xlim(ends[0] - low * width, ends[1] + high * width)


def _effect(explanation: Explanation) -> str:
    """Name the axis, without the class, for which there is no room."""
    return f"effect on the {explanation.target.split(' for ')[0]}"


def _short(name: Any) -> str:
    return text if len(text := str(name)) <= 22 else text[:21] + "…"
