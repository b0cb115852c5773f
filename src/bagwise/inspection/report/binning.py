"""Binning: which bags of a picture are counted together, and how sure a share of them is."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Float64, Int64
from numpy.typing import ArrayLike

N_SIZE_BINS = 14
N_LABEL_BINS = 24
# Standard errors that a whisker or a band reaches to either side.
REACH = 2.0


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


def label_edges(labels: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " m"]:
    """Return edges of equal bins; one of width 1 if all labels are the same.

    Examples
    --------
    >>> label_edges(np.array([3.0, 3.0]))
    array([2.5, 3.5])
    """
    low, high = float(labels.min()), float(labels.max())
    if high - low <= 1e-12 * max(abs(low), abs(high)) or high == low:
        return np.array([low - 0.5, low + 0.5])
    n_bins = int(np.clip(np.sqrt(len(labels)), 5, N_LABEL_BINS))
    return np.linspace(low, high, n_bins + 1)


def bin_of(values: ArrayLike, edges: Float[np.ndarray, " m"]) -> Int64[np.ndarray, " n"]:
    """Return the number of the bin of each value; the last bin includes its upper edge."""
    index = np.searchsorted(edges, np.asarray(values, dtype=np.float64), side="right") - 1
    return np.clip(index, 0, len(edges) - 2).astype(np.int64)


def share_interval(
    hits: Float64[np.ndarray, " m"], n: Float64[np.ndarray, " m"]
) -> tuple[Float64[np.ndarray, " m"], Float64[np.ndarray, " m"]]:
    """Return about the 95 % interval of a probability from shares (Wilson).

    (p + z²/2n ± z √(p(1−p)/n + z²/4n²)) / (1 + z²/n), z = 2

    Examples
    --------
    >>> [end.round(3) for end in share_interval(np.array([9.0]), np.array([10.0]))]
    [array([0.589]), array([0.983])]
    """
    p, z2 = hits / n, REACH**2
    center = p + z2 / (2.0 * n)
    reach = REACH * np.sqrt(p * (1.0 - p) / n + z2 / (4.0 * n**2))
    scale = 1.0 + z2 / n
    return (center - reach) / scale, (center + reach) / scale


def terciles(sizes: Float64[np.ndarray, " n"]) -> tuple[Int64[np.ndarray, " n"], list[str]]:
    """Return up to three groups of sizes, small to large, and their names.

    Examples
    --------
    >>> terciles(np.array([1.0, 1.0, 2.0, 5.0, 9.0, 30.0]))
    (array([0, 0, 1, 1, 2, 2]), ['1 point', '2–5 points', '9–30 points'])
    """
    cuts = np.unique(np.quantile(sizes, [1 / 3, 2 / 3], method="inverted_cdf"))
    index = np.searchsorted(cuts, sizes, side="left")
    groups, index = np.unique(index, return_inverse=True)
    names = []
    for group in range(len(groups)):
        inside = sizes[index == group]
        low, high = inside.min(), inside.max()
        text = f"{low:,g}" if low == high else f"{low:,g}–{high:,g}"
        names.append(f"{text} point{'s' * (text != '1')}")
    return index.astype(np.int64), names
