"""Landmarks: the places at which a bag's mean embedding is looked at, and the median heuristic."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from jaxtyping import Float64
from scipy.spatial.distance import pdist

from bagwise._utils.work import one_thread
from bagwise.bags.bags import Bags, BagStream
from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import Kernel
from bagwise.features.scaling import Scaling

# Enough points for k-means centres and for a median; more would cost time and change little.
SAMPLE_POINTS = 20_000
MEDIAN_POINTS = 2_000
# With thousands of features fewer points are drawn, but no fewer than for the median.
SAMPLE_NUMBERS = 1 << 24

# Landmarks when the user leaves their number to us: the middle of the paper's grid.
DEFAULT_LANDMARKS = 60


def sample_points(
    bags: Bags, rng: np.random.Generator, n: int = SAMPLE_POINTS
) -> Float64[np.ndarray, "m p"]:
    """Return at most n points drawn without replacement from all bags, in random order.

    From a stream the same points are drawn as from the same bags in memory.
    """
    n = min(n, max(MEDIAN_POINTS, SAMPLE_NUMBERS // bags.n_features))
    rows = rng.choice(bags.n_points, min(n, bags.n_points), replace=False)
    drawn = bags.points_at(rows) if isinstance(bags, BagStream) else bags.points[rows]
    return drawn.astype(np.float64, copy=False)


def median_bandwidth(points: Float64[np.ndarray, "m p"], kernel: Kernel) -> float:
    """Median heuristic: σ_k = sqrt(median‖x − x'‖²/2), over the pairs of at most 2,000 points.

    For a kernel on single coordinates, of the average coordinate's share of the distance. If more
    than half of the pairs are equal the mean takes the median's place.
    """
    squared = pdist(points[:MEDIAN_POINTS], "sqeuclidean")
    typical = np.median(squared) or squared.mean() or 1.0
    return float(np.sqrt(typical * kernel.spread(points.shape[1]) / 2.0))


def choose_landmarks(
    points: Float64[np.ndarray, "m p"],
    how: str,
    n_landmarks: int | None,
    rng: np.random.Generator,
    default: int = DEFAULT_LANDMARKS,
) -> Float64[np.ndarray, "d p"]:
    """Return landmarks: k-means centres of the points, or some of the points at random.

    Parameters
    ----------
    points : (m, p) scaled points
    how : "kmeans" or "random"
    n_landmarks : int, or None for the default or as many as there are distinct points, if fewer
    """
    distinct = np.unique(points, axis=0)
    if n_landmarks is None:
        n_landmarks = min(default, len(distinct))
    if len(distinct) < n_landmarks:
        raise BagwiseError.because(
            f"there are {len(distinct)} distinct points for {n_landmarks} landmarks",
            "at least as many distinct points as landmarks",
            f"Use n_landmarks={len(distinct)} or fewer, or leave it out.",
        )
    if how == "random":
        return distinct[rng.choice(len(distinct), n_landmarks, replace=False)]
    if len(distinct) == n_landmarks:
        return distinct
    from sklearn.cluster import KMeans  # slow to import, and only needed here

    seed = int(rng.integers(2**31))
    # Points that differ by less than squares can tell are fewer centres, which do as well.
    with one_thread(), warnings.catch_warnings():  # threads: as in bagwise.embedding.sums.summarise
        warnings.filterwarnings("ignore", "Number of distinct clusters")
        return KMeans(n_landmarks, n_init=1, random_state=seed).fit(points).cluster_centers_


def given_landmarks(
    landmarks: Any, scaling: Scaling, name: str = "landmarks"
) -> Float64[np.ndarray, "d p"]:
    """Return landmarks given in the units of the points, checked and scaled."""
    array = np.asarray(landmarks)
    p = len(scaling.center)
    if array.dtype.kind not in "fiu" or array.ndim != 2 or array.shape[1] != p or not len(array):
        raise BagwiseError.because(
            f"{name} have shape {array.shape} and dtype {array.dtype}",
            f"real numbers of shape (number of landmarks, {p})",
            "Give one landmark per row, with the features of the points.",
        )
    if not np.isfinite(array).all():
        row = int(np.argwhere(~np.isfinite(array))[0, 0])
        raise BagwiseError.because(
            f"{name} row {row} is {array[row]}", "finite numbers", "Drop the row."
        )
    return scaling(array.astype(np.float64))
