"""Folds: which bags are held out together."""

from __future__ import annotations

import numpy as np
from jaxtyping import Int64
from sklearn.model_selection import KFold, StratifiedKFold

from bagwise.exceptions import BagwiseError

# A model cannot be fitted to fewer.
MIN_TRAINING = 2


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
