"""Pictures of bags as points: a map of their mean embeddings."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import array_per_bag
from bagwise.embedding.posterior import whitening
from bagwise.embedding.sums import bag_gram, summarise
from bagwise.exceptions import InvalidLabelsError
from bagwise.heads.base import heads_of
from bagwise.inspection.plots.style import CYCLE, axes_or_new, journal
from bagwise.predictions.classes import ManyClassPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Shapes of classes: one more than colours, so that each pair comes only once in many classes.
MARKERS = "osD^vP*"

# Areas of the markers of the smallest and the largest bag, in points squared.
AREAS = (8.0, 90.0)


# Letters that a row of the legend has room for, and those that a mark takes.
ROW_LETTERS = 80
MARK_LETTERS = 6


@dataclass(frozen=True, eq=False)
class Map:
    """Places (n, 2) of bags on the plane of the most variance, and the shares of it (2,)."""

    places: np.ndarray
    shares: np.ndarray


@journal
def embedding_map(model: Any, bags: Any, y: Any = None, *, ax: Axes | None = None) -> Axes:
    """Draw bags as points: the first two principal components of their mean embeddings.

    Models that shrink the embedding of small bags towards the average are drawn with it shrunk.

    Parameters
    ----------
    model : fitted estimator;  bags : as in ``predict``
    y : (n,) labels, numbers or classes, which are the colours; by default the predictions
    ax : Axes to draw on; by default new ones

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> type(embedding_map(model, bags, y)).__name__
    'Axes'
    """
    given = as_bags(bags)
    bags = model._check_bags(given)
    colors = _predicted(model, given) if y is None else array_per_bag(y, bags.ids)
    if colors.shape != (bags.n_bags,):
        raise InvalidLabelsError.because(
            f"y has shape {colors.shape}", f"({bags.n_bags},), one label per bag", "Give those."
        )
    flat = project(embeddings_of(model, bags))
    ax = axes_or_new(ax, 4.8, 3.7)
    areas = _areas(bags.sizes)
    options: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.4, "alpha": 0.85}
    order = np.argsort(-bags.sizes, kind="stable")  # small bags on top of large ones
    many = len(getattr(model, "classes_", ())) > 2
    if colors.dtype.kind in "fiu" and len(np.unique(colors)) > 2 and not many:
        drawn = ax.scatter(
            flat.places[order, 0],
            flat.places[order, 1],
            s=areas[order],
            c=colors[order],
            cmap="viridis",
            **options,
        )
        bar = ax.figure.colorbar(drawn, ax=ax, shrink=0.9)
        bar.set_label(_meaning(model, y))
    else:
        _classes(ax, flat, colors, areas, order, options)
    ax.set(xticks=[], yticks=[])
    ax.set_xlabel(f"component 1 ({flat.shares[0]:.0%} of the variance)")
    ax.set_ylabel(f"component 2 ({flat.shares[1]:.0%})")
    _size_legend(ax, bags.sizes)
    return ax


def embeddings_of(model: Any, bags: Bags) -> Float64[np.ndarray, "n q"]:
    """Return orthonormal coordinates of the mean embeddings, shrunk if the model shrinks them."""
    features = getattr(model, "features_", None)
    if features is None:  # exact sums: any coordinates with the right inner products
        gram = bag_gram(model.kernel_, model.scaling_, bags, bags)
        values, vectors = np.linalg.eigh(gram)
        return vectors * np.sqrt(np.maximum(values, 0.0))
    stats = summarise(bags, features, covariance=False)
    posterior = heads_of(model.head_)[0].embed(stats)  # of many classes, at their average η
    if not posterior.model.shrinks:
        return stats.mean @ whitening(features.weight_gram())
    at_one = replace(posterior, scale=np.array([np.mean(model.prior_scale_)]))
    return at_one.mean @ posterior.model.function_map


def project(embeddings: Float64[np.ndarray, "n q"]) -> Map:
    """Return the first two principal components.

    Examples
    --------
    >>> project(np.array([[0.0, 0.0], [2.0, 0.0]])).shares
    array([1., 0.])
    """
    gaps = embeddings - embeddings.mean(axis=0)
    left, values, _ = np.linalg.svd(gaps, full_matrices=False)
    places, shares = np.zeros((len(gaps), 2)), np.zeros(2)
    count = min(2, len(values))
    places[:, :count] = left[:, :count] * values[:count]
    total = float(np.sum(values**2))
    shares[:count] = values[:count] ** 2 / total if total > 0 else 0.0
    return Map(places, shares)


def _predicted(model: Any, bags: Bags) -> np.ndarray:
    prediction = model.predict_dist(bags)
    if isinstance(prediction, ManyClassPrediction):
        return prediction.predicted
    return np.asarray(getattr(prediction, "probability", getattr(prediction, "mean", None)))


def _meaning(model: Any, y: Any) -> str:
    if y is not None:
        return "label"
    classes = getattr(model, "classes_", None)
    return "predicted label" if classes is None else f"probability of {classes[1]}"


def _classes(
    ax: Axes,
    flat: Map,
    labels: np.ndarray,
    areas: np.ndarray,
    order: np.ndarray,
    options: dict[str, Any],
) -> None:
    """Draw classes as colours and shapes."""
    for label, color, marker in zip(np.unique(labels), cycle(CYCLE), cycle(MARKERS), strict=False):
        rows = order[labels[order] == label]
        ax.scatter(
            flat.places[rows, 0],
            flat.places[rows, 1],
            s=areas[rows],
            color=color,
            marker=marker,
            label=label,
            **options,
        )


def _areas(sizes: np.ndarray) -> np.ndarray:
    """Return areas of markers, linear in the logarithm of the size."""
    logs = np.log(sizes)
    low, high = logs.min(), logs.max()
    if low == high:
        return np.full(len(sizes), 24.0)
    return AREAS[0] + (AREAS[1] - AREAS[0]) * (logs - low) / (high - low)


def _size_legend(ax: Axes, sizes: np.ndarray) -> None:
    """Explain the areas, beside the classes if there are any."""
    handles, labels = ax.get_legend_handles_labels()
    shown = np.unique(np.quantile(sizes, (0.0, 0.5, 1.0), method="inverted_cdf"))
    if len(shown) > 1:
        for size, area in zip(shown, _areas(shown), strict=True):
            side = float(np.sqrt(area))
            handles.append(Line2D([], [], marker="o", ls="", color="0.55", markersize=side))
            labels.append(f"N = {size:,}")
    if not handles:
        return
    drawn = ax.legend(
        handles,
        labels,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        ncols=max(1, ROW_LETTERS // (MARK_LETTERS + max(map(len, map(str, labels))))),
        borderaxespad=0.1,
        columnspacing=1.2,
        handletextpad=0.3,
    )
    for handle in drawn.legend_handles:
        if isinstance(handle, PathCollection):  # of a class: as large as can be seen
            handle.set_sizes([30.0])
