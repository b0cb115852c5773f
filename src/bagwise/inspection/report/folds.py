"""Folds: every bag predicted once, by a model that has not seen it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Int64
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold

from bagwise._utils.progress import Progress
from bagwise.bags.bags import Bags
from bagwise.estimators.selection import FeatureCache
from bagwise.exceptions import BagwiseError
from bagwise.inspection.report.joined import Joined, Piece, joined

# A model cannot be fitted to fewer.
MIN_TRAINING = 2


def out_of_fold(
    models: Mapping[str, Any],
    bags: Bags,
    y: np.ndarray,
    held_out: list[Int64[np.ndarray, " _"]],
    *,
    progress: bool = True,
) -> dict[str, Joined]:
    """Fit every model once per fold to the bags outside of it, and predict those inside.

    Models whose parameters determine their features share them, as in :func:`bagwise.tune`.

    Parameters
    ----------
    models : estimators by name; they are cloned, and need not be fitted
    bags, y : labels of n bags
    held_out : positions of the bags of each fold
    progress : whether to show a bar over folds and models
    """
    pieces: dict[str, list[Piece]] = {name: [] for name in models}
    with Progress("cross-validation", len(held_out) * len(models), progress) as bar:
        for rows in held_out:
            others = np.setdiff1d(np.arange(bags.n_bags), rows)
            train, labels, test = bags[others], y[others], bags[rows]
            cache = FeatureCache()
            for name, model in models.items():
                fitted = clone(model)
                prediction = _fit_predict(fitted, train, labels, test, cache)
                pieces[name].append(Piece(rows, prediction, fitted))
                bar.advance()
    return {name: joined(some) for name, some in pieces.items()}


def _fit_predict(model: Any, train: Bags, y: np.ndarray, test: Bags, cache: FeatureCache) -> Any:
    if not getattr(model, "has_shared_features", lambda: False)():
        return model.fit(train, y).predict_dist(test)
    embedding = cache.embedding(model, train)
    model.fit_embedding(embedding, train, model.make_task(train, y))
    return model.predict_stats(cache.stats(embedding, test), test)


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
