"""Baseline: what is said of a bag by someone who has not looked into it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from scipy.special import ndtri

from bagwise.class_prediction import ClassPrediction
from bagwise.joined import Joined, Piece, joined
from bagwise.likelihoods import Probit
from bagwise.mixture import MixturePrediction
from bagwise.prediction import Prediction
from bagwise.variance_parts import VarianceParts

# Labels that are all the same have no spread; a density needs one.
MIN_RELATIVE_SD = 1e-6


def baseline(
    labels: Float64[np.ndarray, " n"],
    classes: np.ndarray | None,
    held_out: Sequence[Int64[np.ndarray, " _"]],
) -> Joined:
    """Predict the labels of each part of the bags by those of all other bags.

    Real labels: N(mean, variance) of the others. Classes: the probability of the second class is
    (k + 1) / (m + 2) if k of the m others are of it, which is never 0 or 1.

    Parameters
    ----------
    labels : (n,), of classes 1 for the second and 0 for the first
    classes : (2,), or None for real labels
    held_out : positions of the bags of each part

    Examples
    --------
    >>> y = np.array([1.0, 2.0, 3.0, 5.0])
    >>> baseline(y, None, [np.array([0, 1]), np.array([2, 3])]).mean
    array([4. , 4. , 1.5, 1.5])
    """
    n, total, squares = len(labels), labels.sum(), np.sum((labels - labels.mean()) ** 2)
    pieces = []
    for rows in held_out:
        others = n - len(rows)
        sum_of_others = total - labels[rows].sum()
        if classes is not None:
            pieces.append(Piece(rows, _share(len(rows), sum_of_others, others, classes)))
            continue
        mean = sum_of_others / others
        # Σ (y − mean)² over the others, from that over all about the mean of all.
        about_all = squares - np.sum((labels[rows] - labels.mean()) ** 2)
        var = max(about_all / others - (mean - labels.mean()) ** 2, 0.0)
        var = max(var, MIN_RELATIVE_SD**2 * (1.0 + mean**2))
        parts = VarianceParts.broadcast(len(rows), noise=var)
        pieces.append(Piece(rows, Prediction(np.full(len(rows), mean), parts)))
    return joined(pieces)


def _share(n_bags: int, k: float, m: int, classes: np.ndarray) -> ClassPrediction:
    latent = float(ndtri((k + 1.0) / (m + 2.0)))
    means = np.full((1, n_bags), latent)
    return ClassPrediction(MixturePrediction(means, np.zeros(1), sizes=None), Probit(), classes)
