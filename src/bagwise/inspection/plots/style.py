"""Style: fonts, colours and axes that all pictures share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

P = ParamSpec("P")
R = TypeVar("R")

# Small type on white, as in a journal; whatever else the user has set stays as it is.
JOURNAL: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "normal",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "white",
    "figure.facecolor": "white",
    "figure.titlesize": 10,
    "text.color": "black",
    "axes.labelcolor": "black",
    "axes.edgecolor": "0.2",
    "xtick.color": "0.2",
    "ytick.color": "0.2",
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
}

# Okabe and Ito's colours, which the colour-blind can tell apart.
BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
CYCLE = (BLUE, ORANGE, GREEN, "#CC79A7", "#56B4E9", RED)

# Causes of variance, from the ground up: what stays, then what more bags, then more points remove.
PARTS = {"noise": "0.78", "weights": ORANGE, "bag": BLUE}
PART_NAMES = {
    "noise": "noise",
    "weights": "weights: finitely many bags",
    "bag": "bag: finitely many points",
}

# Diverging and readable by the colour-blind: blue pushes down, red up.
DIVERGING = "RdBu_r"
UP, DOWN = "#B2182B", "#2166AC"


def journal(draw: Callable[P, R]) -> Callable[P, R]:
    """Draw in the journal's style, unless the user brought axes that have a style already."""

    @functools.wraps(draw)
    def styled(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("ax") is not None:
            return draw(*args, **kwargs)
        with plt.rc_context(JOURNAL):
            return draw(*args, **kwargs)

    return styled


def axes_or_new(ax: Axes | None, width: float, height: float) -> Axes:
    """Return the axes, or new ones of this size in inches."""
    return plt.subplots(figsize=(width, height), layout="compressed")[1] if ax is None else ax


def shades(count: int) -> list[Any]:
    """Return colours of an ordered scale, from light (few) to dark (many).

    Examples
    --------
    >>> len(shades(3))
    3
    """
    return list(plt.get_cmap("viridis")(np.linspace(0.82, 0.08, count)))
