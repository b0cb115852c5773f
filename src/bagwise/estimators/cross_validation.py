"""Cross-validation: every bag's predictive distribution by a model that has not seen the bag."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from bagwise._utils.work import Progress
from bagwise.bags.bags import Bags, as_bags
from bagwise.estimators.folds import (
    Split,
    check_once_each,
    groups_of,
    labels_of,
    make_splits,
    weights_of,
)
from bagwise.estimators.selection import FeatureCache, fit_and_predict
from bagwise.predictions.joined import Joined, Piece, joined


def cross_val_predict_dist(
    model: Any,
    X: Any,
    y: Any,
    *,
    cv: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> Any:
    """Return out-of-fold predictive distributions, in the order of the bags.

    What scikit-learn's ``cross_val_predict`` is to ``predict``, with the same folds: each bag is
    predicted once, by a clone of the model that was fitted to the bags of the other folds.

    Parameters
    ----------
    model : estimator of bagwise, or a Pipeline or search that ends in one
    X, y, sample_weight : as in ``fit``
    cv : number of folds (by default 5, in the order of the bags; of classes in equal shares), a
        splitter of scikit-learn, or (train, test) positions
    groups : (n_bags,) such as hospitals, which are never parted between folds; with a number as
        ``cv``, by ``GroupKFold`` (of classes ``StratifiedGroupKFold``). Models that have an effect
        of groups are fitted with them
    n_jobs : processes to fit folds in, -1 for all cores
    progress : whether to show a progress bar; never in a log file

    Returns
    -------
    JoinedPrediction or JoinedClassPrediction
        All that ``predict_dist`` of the model returns has, and the ``fold`` of each bag.

    Examples
    --------
    >>> from bagwise import BayesianLinearRegressor, evaluate
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> from bagwise.estimators.embeddings import KernelEmbedding
    >>> model = BayesianLinearRegressor(KernelEmbedding(bandwidth=1.0))
    >>> prediction = cross_val_predict_dist(model, bags, y, cv=4)
    >>> prediction.interval(0.9).shape, prediction.fold[[0, -1]]
    ((40, 2), array([0, 3]))
    >>> bool(evaluate(prediction, y).overall["rmse"] < y.std())
    True
    """
    bags = as_bags(X)
    labels = labels_of(model, y, bags)
    group = groups_of(groups, bags)
    splits = make_splits(model, labels, cv, group)
    found = out_of_fold(
        {"model": model},
        bags,
        labels,
        check_once_each(splits, bags.n_bags),
        sample_weight=weights_of(sample_weight, bags),
        groups=group,
        n_jobs=n_jobs,
        progress=progress,
    )
    return found["model"]


def out_of_fold(
    models: Mapping[str, Any],
    bags: Bags,
    y: np.ndarray,
    splits: Sequence[Split],
    *,
    sample_weight: np.ndarray | None = None,
    groups: np.ndarray | None = None,
    n_jobs: int | None = None,
    progress: bool = True,
) -> dict[str, Joined]:
    """Fit every model once per fold to the bags outside of it, and predict those inside.

    Models whose parameters determine their features share them, as in :func:`bagwise.tune`.

    Parameters
    ----------
    models : estimators by name; they are cloned, and need not be fitted
    bags, y, sample_weight : n bags, their labels and weights, as arrays in their order
    splits : positions of the bags to fit to and to predict, for each fold
    groups : (n,), of bags that err together, for models that have an effect of them
    n_jobs : processes;  progress : whether to show a bar over folds and models
    """

    def arguments(train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
        weights = None if sample_weight is None else sample_weight[train]
        named = {"train": bags[train], "y": y[train], "sample_weight": weights}
        named["groups"] = None if groups is None else groups[train]
        return {"models": models, **named, "test": bags[test], "rows": test}

    with Progress("cross-validation", len(splits) * len(models), progress) as bar:
        if n_jobs in (None, 1):
            found = [_one_fold(**arguments(*split), advance=bar.advance) for split in splits]
        else:
            run = Parallel(n_jobs=n_jobs, return_as="generator")
            found = []
            for fold in run(delayed(_one_fold)(**arguments(*split)) for split in splits):
                found.append(fold)
                bar.advance(len(models))
    return {name: joined([fold[name] for fold in found]) for name in models}


def _one_fold(
    models: Mapping[str, Any],
    train: Bags,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    groups: np.ndarray | None,
    test: Bags,
    rows: np.ndarray,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Piece]:
    cache, pieces = FeatureCache(), {}
    for name, model in models.items():
        fitted = clone(model)
        prediction = fit_and_predict(fitted, train, y, sample_weight, test, cache, groups)
        pieces[name] = Piece(rows, prediction, fitted)
        advance()
    return pieces
