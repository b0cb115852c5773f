"""Folds: which bags are held out together, and what is said of them without a look into them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float64, Int64
from sklearn.model_selection import KFold, StratifiedKFold

from bagwise.exceptions import BagwiseError
from bagwise.likelihoods.probit import of_probabilities
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.joined import Joined, Piece, joined
from bagwise.predictions.parts import VarianceParts

# A model cannot be fitted to fewer.
MIN_TRAINING = 2

# Labels that are all the same have no spread; a density needs one.
MIN_RELATIVE_SD = 1e-6


def make_folds(
    labels: np.ndarray, *, classes: bool, folds: int, seed: int
) -> list[Int64[np.ndarray, " _"]]:
    """Return the positions of the bags of each fold, at random; with classes, in equal shares.

    There are fewer folds than asked for if there are fewer bags, or bags of the rarer class.

    Examples
    --------
    >>> sorted(len(rows) for rows in make_folds(np.arange(7.0), classes=False, folds=3, seed=0))
    [2, 2, 3]
    """
    if isinstance(folds, bool) or not isinstance(folds, int | np.integer) or folds < 2:
        raise BagwiseError.because(f"folds is {folds!r}", "a whole number of at least 2", "Try 5.")
    most = int(np.unique(labels, return_counts=True)[1].min()) if classes else len(labels)
    n_folds = min(int(folds), most)
    if n_folds < 2 or len(labels) - -(-len(labels) // n_folds) < MIN_TRAINING:
        raise BagwiseError.because(
            f"there are {len(labels)} bags"
            + (f", and {most} of one of the classes" if classes else ""),
            "3 or more bags, and 2 or more of each class, to fit to some and predict the others",
            "Give more bags, or predictions to bagwise.report.of_predictions.",
        )
    kind = StratifiedKFold if classes else KFold
    split = kind(n_folds, shuffle=True, random_state=seed).split(labels, labels)
    return [test.astype(np.int64) for _, test in split]


def random_parts(n_bags: int, n_parts: int, seed: int) -> list[Int64[np.ndarray, " _"]]:
    """Return the positions of the bags of n_parts parts of about one size, at random."""
    order = np.random.default_rng(seed).permutation(n_bags).astype(np.int64)
    return [np.sort(part) for part in np.array_split(order, min(n_parts, n_bags))]


def baseline(
    labels: Float64[np.ndarray, " n"],
    classes: np.ndarray | None,
    held_out: Sequence[Int64[np.ndarray, " _"]],
) -> Joined:
    """Predict the labels of each part of the bags by those of all other bags.

    Real labels: N(mean, variance) of the others. Classes: the probability of a class is
    (k + 1) / (m + c) if k of the m others are of it, of c classes, which is never 0 or 1.

    Parameters
    ----------
    labels : (n,), of classes their places among these
    classes : (c,), or None for real labels
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
        if classes is not None:
            counts = np.bincount(np.delete(labels, rows).astype(np.int64), minlength=len(classes))
            shares = np.tile((counts + 1.0) / (others + len(classes)), (len(rows), 1))
            pieces.append(Piece(rows, of_probabilities(shares, classes, sizes=None)))
            continue
        sum_of_others = total - labels[rows].sum()
        mean = sum_of_others / others
        # Σ (y − mean)² over the others, from that over all about the mean of all.
        about_all = squares - np.sum((labels[rows] - labels.mean()) ** 2)
        var = max(about_all / others - (mean - labels.mean()) ** 2, 0.0)
        var = max(var, MIN_RELATIVE_SD**2 * (1.0 + mean**2))
        parts = VarianceParts.broadcast(len(rows), noise=var)
        pieces.append(Piece(rows, Prediction(np.full(len(rows), mean), parts)))
    return joined(pieces)
