"""Rows of a report: which bags, by their sizes, make up each row, and the rows as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.bags.per_bag import numbers_per_bag
from bagwise.exceptions import BagwiseError

# Up to this many distinct bag sizes, each is its own row of a report.
MAX_EXACT_GROUPS = 6
# With more, they are cut into this many groups of about as many bags.
N_SHARES = 5


def sizes_of(prediction: Any, sizes: Any) -> ArrayLike | None:
    """Return sizes in the order of the bags; by default those the prediction carries, if any."""
    if sizes is None:
        return getattr(prediction, "sizes", None)
    return numbers_per_bag(sizes, getattr(prediction, "ids", None), "sizes", BagwiseError)


def rows_by_size(
    sizes: ArrayLike | None, edges: Sequence[float] | None, n_bags: int
) -> list[tuple[str, np.ndarray]]:
    """Label and mask (n_bags,) of every group of bag sizes that is not empty.

    Parameters
    ----------
    sizes : (n_bags,) bag sizes; without them there are no groups
    edges : first size of each group, increasing; by default each distinct size up to six of them,
        else about equal shares of the bags
    n_bags : number of bags

    Examples
    --------
    >>> [(label, int(mask.sum())) for label, mask in rows_by_size([1, 3, 5, 9], (1, 2, 6), 4)]
    [('1', 1), ('2–5', 2), ('6+', 1)]
    """
    if sizes is None and edges is None:
        return []
    if sizes is None:
        raise BagwiseError.because(
            "edges came without bag sizes", "the size of every bag", "Pass sizes (n_bags,) too."
        )
    sizes = _checked_sizes(sizes, n_bags)
    distinct = np.unique(sizes)
    if edges is None and distinct.size <= MAX_EXACT_GROUPS:
        return [(f"{size:g}", sizes == size) for size in distinct]
    starts = equal_shares(sizes, N_SHARES) if edges is None else _checked_edges(edges)
    index = np.searchsorted(starts, sizes, side="right") - 1
    whole = bool((sizes == np.floor(sizes)).all() and (starts == np.floor(starts)).all())
    return [(_label(starts, i, whole), index == i) for i in np.unique(index).tolist()]


def equal_shares(values: Float[np.ndarray, " n"], n_shares: int) -> Float[np.ndarray, " m"]:
    """First value of each of at most ``n_shares`` groups of about as many entries.

    Each group takes its share of the entries left; equal values are never parted.

    Examples
    --------
    >>> equal_shares(np.array([1.0, 1.0, 1.0, 2.0, 3.0, 4.0]), 3)
    array([1., 2., 4.])
    """
    distinct, counts = np.unique(values, return_counts=True)
    starts, left, filled = [distinct[0]], values.size, 0
    for following, count in zip(distinct[1:], counts[:-1], strict=True):
        filled += count
        if len(starts) < n_shares and filled >= left / (n_shares + 1 - len(starts)):
            starts.append(following)
            left, filled = left - filled, 0
    return np.array(starts)


def text_table(rows: Sequence[dict[str, Any]]) -> str:
    """Rows of one set of keys as aligned text; numbers that are not whole have three decimals.

    Examples
    --------
    >>> print(text_table([{"group": "all", "mse": 0.5}, {"group": "1–4", "mse": 12.0}]))
    group     mse
    all     0.500
    1–4    12.000
    """
    head = list(rows[0])
    body = [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(head, *body, strict=True)]
    return "\n".join(
        "  ".join(
            [cells[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
        )
        for cells in [head, *body]
    )


def _label(starts: np.ndarray, i: int, whole: bool) -> str:
    """Name of group ``i``: below the first edge (-1), between two edges, or open-ended."""
    if i == -1:
        return f"<{starts[0]:g}"
    first = starts[i]
    if i == starts.size - 1:
        return f"{first:g}+"
    if not whole:
        return f"{first:g}–<{starts[i + 1]:g}"
    last = starts[i + 1] - 1
    return f"{first:g}" if first == last else f"{first:g}–{last:g}"


def _checked_sizes(sizes: ArrayLike, n_bags: int) -> np.ndarray:
    values = np.asarray(sizes, dtype=np.float64)
    if values.shape != (n_bags,) or not (values > 0).all():
        raise BagwiseError.because(
            f"sizes have shape {values.shape} and minimum {values.min(initial=np.inf):g}",
            f"({n_bags},), the number of points (> 0) of each bag",
            "Give the sizes of the predicted bags, in the same order.",
        )
    return values


def _checked_edges(edges: Sequence[float]) -> np.ndarray:
    starts = np.asarray(edges, dtype=np.float64)
    if starts.ndim != 1 or starts.size == 0 or not (np.diff(starts) > 0).all():
        raise BagwiseError.because(
            f"edges are {edges}", "increasing first sizes of groups", "Try (1, 2, 3, 6, 11)."
        )
    return starts


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
