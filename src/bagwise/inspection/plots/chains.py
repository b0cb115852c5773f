"""Pictures of posterior draws: where the chains went, and whether they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
import numpy as np
from scipy.stats import gaussian_kde

from bagwise.exceptions import BagwiseError
from bagwise.inference.diagnostics import ess_bulk, rhat
from bagwise.inspection.plots.style import CYCLE, RED, journal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Rows that fit on a page.
MOST_ROWS = 8
# Points of a drawn density.
RESOLUTION = 200


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws (chains, draws) of one number, with its diagnostics if it was sampled."""

    name: str
    draws: np.ndarray
    rhat: float | None
    ess: float | None

    def title(self) -> str:
        """Diagnostics in a few characters."""
        if self.rhat is None or self.ess is None:
            return "independent draws"
        return f"R-hat {self.rhat:.3f}, ESS {self.ess:,.0f}"


@journal
def trace(model: Any, *, parameters: Sequence[str] | None = None) -> Figure:
    """Draw the posterior of each parameter: its density by chain, and the draws in their order.

    Parameters
    ----------
    model : fitted BDRRegressor, BDRClassifier or BayesianLogisticClassifier
    parameters : names in ``model.draws_``; by default all. Of one with many entries, such as the
        weights, that with the fewest effective draws is shown.

    Notes
    -----
    Chains that agree lie on top of each other and look like grass. Red ticks at the foot are
    trajectories that diverged. Draws of a Gaussian approximation are
    independent, so that only their density tells.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.BDRRegressor(bagwise.KernelEmbedding(5), inference="laplace").fit(bags, y)
    >>> type(trace(model, parameters=["noise_sd"])).__name__
    'Figure'
    """
    rows = chains_of(model, parameters)
    figure, grid = plt.subplots(
        len(rows),
        2,
        figsize=(7.2, 1.15 * len(rows) + 0.5),
        width_ratios=(1, 2.2),
        squeeze=False,
        layout="constrained",
    )
    trajectories = model.trajectories_
    diverging = None if trajectories is None else trajectories.diverging
    for (left, right), row in zip(grid, rows, strict=True):
        _density(left, row)
        _draws(right, row, diverging)
    if diverging is not None:
        chains, draws = diverging.shape
        lost = int(diverging.sum())
        figure.suptitle(f"{chains} chains of {draws:,} draws, {lost} divergent", x=0.01, ha="left")
    grid[-1, 0].set_xlabel("value")
    grid[-1, 1].set_xlabel("draw")
    return figure


def chains_of(model: Any, parameters: Sequence[str] | None = None) -> list[Chains]:
    """Return one number of each parameter, the worst sampled of those it has."""
    draws = getattr(model, "draws_", None)
    if draws is None:
        raise BagwiseError.because(
            f"{type(model).__name__} has no posterior draws",
            "a fitted BDRRegressor, BDRClassifier or BayesianLogisticClassifier",
            "Fit one of these.",
        )
    names = list(draws) if parameters is None else list(parameters)
    unknown = [name for name in names if name not in draws]
    if unknown:
        raise BagwiseError.because(
            f"there is no parameter {unknown[0]!r}", f"some of {', '.join(draws)}", "Name these."
        )
    if next(iter(draws.values())).shape[1] < 2:
        raise BagwiseError.because(
            'the model was fitted with inference="map", which has one draw',
            "several draws",
            'Fit with inference="laplace", "variational" or "nuts".',
        )
    sampled = model.trajectories_ is not None
    return [_chosen(name, draws[name], sampled) for name in names[:MOST_ROWS]]


def _chosen(name: str, draws: np.ndarray, sampled: bool) -> Chains:
    flat = draws.reshape(*draws.shape[:2], -1)
    if not sampled:
        worst = int(np.argmax(flat.std(axis=(0, 1))))
        return Chains(_label(name, worst, flat), flat[:, :, worst], None, None)
    sizes = ess_bulk(flat)
    worst = int(np.argmin(sizes))
    values = flat[:, :, worst]
    return Chains(
        _label(name, worst, flat), values, float(rhat(values[:, :, None])[0]), float(sizes[worst])
    )


def _label(name: str, entry: int, flat: np.ndarray) -> str:
    words = name.replace("_", " ")
    return f"{words} [{entry}]" if flat.shape[2] > 1 else words


def _density(ax: Axes, row: Chains) -> None:
    low, high = np.quantile(row.draws, [0.001, 0.999])
    room = 0.08 * (high - low) or 1.0
    grid = np.linspace(low - room, high + room, RESOLUTION)
    for chain, color in zip(row.draws, CYCLE * len(row.draws), strict=False):
        if chain.std() > 0:
            ax.plot(grid, gaussian_kde(chain)(grid), color=color, linewidth=1.1)
    ax.set(xlim=(grid[0], grid[-1]), yticks=[], title=row.name)
    ax.set_ylim(bottom=0)
    ax.spines["left"].set_visible(False)


def _draws(ax: Axes, row: Chains, diverging: np.ndarray | None) -> None:
    n_draws = row.draws.shape[1]
    for chain, color in zip(row.draws, CYCLE * len(row.draws), strict=False):
        ax.plot(np.arange(n_draws), chain, color=color, linewidth=0.5, alpha=0.75, rasterized=True)
    if diverging is not None and diverging.any():
        where = np.flatnonzero(diverging.any(axis=0))
        transform = ax.get_xaxis_transform()
        ax.plot(where, np.full(len(where), 0.03), "|", color=RED, transform=transform)
    ax.set(xlim=(0, n_draws - 1), title=row.title())
