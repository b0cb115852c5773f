"""Cross-validation: every bag's predictive distribution by a model that has not seen the bag."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Int64
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier
from sklearn.model_selection import GroupKFold, StratifiedGroupKFold, check_cv
from sklearn.pipeline import Pipeline

from bagwise.bags import Bags, as_bags
from bagwise.exceptions import BagwiseError
from bagwise.joined import Joined, Piece, joined
from bagwise.matching import check_classes, check_labels
from bagwise.per_bag import array_per_bag, numbers_per_bag
from bagwise.progress import Progress
from bagwise.scorers import predict_dist
from bagwise.selection import FeatureCache

Split = tuple[Int64[np.ndarray, " _"], Int64[np.ndarray, " _"]]  # positions to fit to, to predict


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
        ``cv``, by ``GroupKFold`` (of classes ``StratifiedGroupKFold``)
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
    >>> model = BayesianLinearRegressor(bandwidth_scale=1.0)
    >>> prediction = cross_val_predict_dist(model, bags, y, cv=4)
    >>> prediction.interval(0.9).shape, prediction.fold[[0, -1]]
    ((40, 2), array([0, 3]))
    >>> bool(evaluate(prediction, y).overall["rmse"] < y.std())
    True
    """
    bags = as_bags(X)
    if is_classifier(model):
        classes, second = check_classes(y, bags)
        labels = classes[second.astype(int)]
    else:
        labels = check_labels(y, bags)
    if groups is not None:
        groups = _one_each(array_per_bag(groups, bags.ids, "groups"), "groups", bags)
    if sample_weight is not None:
        weights = numbers_per_bag(sample_weight, bags.ids, "sample weights")
        sample_weight = _one_each(weights, "sample weights", bags)
    splits = _splits(model, labels, cv, groups)
    options = {"sample_weight": sample_weight, "n_jobs": n_jobs, "progress": progress}
    return out_of_fold({"model": model}, bags, labels, splits, **options)["model"]


def out_of_fold(
    models: Mapping[str, Any],
    bags: Bags,
    y: np.ndarray,
    splits: Sequence[Split],
    *,
    sample_weight: np.ndarray | None = None,
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
    n_jobs : processes;  progress : whether to show a bar over folds and models
    """

    def arguments(train: np.ndarray, test: np.ndarray) -> dict[str, Any]:
        weights = None if sample_weight is None else sample_weight[train]
        named = {"train": bags[train], "y": y[train], "sample_weight": weights}
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


def splits_of(held_out: Iterable[Int64[np.ndarray, " _"]], n_bags: int) -> list[Split]:
    """Return for each set of positions all others, to fit to, and itself.

    Examples
    --------
    >>> splits_of([np.array([1])], 3)
    [(array([0, 2]), array([1]))]
    """
    return [(np.setdiff1d(np.arange(n_bags), rows), rows) for rows in held_out]


def _one_fold(
    models: Mapping[str, Any],
    train: Bags,
    y: np.ndarray,
    sample_weight: np.ndarray | None,
    test: Bags,
    rows: np.ndarray,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Piece]:
    cache, pieces = FeatureCache(), {}
    for name, model in models.items():
        fitted = clone(model)
        if getattr(fitted, "has_shared_features", lambda: False)():
            embedding = cache.embedding(fitted, train)
            fitted.fit_embedding(embedding, train, fitted.make_task(train, y, sample_weight))
            prediction = fitted.predict_stats(cache.stats(embedding, test), test)
        else:
            prediction = predict_dist(fitted.fit(train, y, **_weights(fitted, sample_weight)), test)
        pieces[name] = Piece(rows, prediction, fitted)
        advance()
    return pieces


def _weights(model: Any, sample_weight: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return sample weights under the name by which ``fit`` knows them, if there are any."""
    if sample_weight is None:
        return {}
    last = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    return {f"{last}sample_weight": sample_weight}


def _splits(model: Any, y: np.ndarray, cv: Any, groups: np.ndarray | None) -> list[Split]:
    """Return the folds, after checking that they hold out each bag once."""
    classes = is_classifier(model)
    if groups is not None and (cv is None or isinstance(cv, int | np.integer)):
        cv = (StratifiedGroupKFold if classes else GroupKFold)(5 if cv is None else int(cv))
    splitter = check_cv(cv, y, classifier=classes)
    try:
        splits = list(splitter.split(np.zeros((len(y), 1)), y, groups))
    except ValueError as error:
        raise BagwiseError.because(
            f"the bags cannot be cut into folds ({' '.join(str(error).split())})",
            "folds of these bags",
            "Give another cv.",
        ) from error
    splits = [(np.asarray(train, np.int64), np.asarray(test, np.int64)) for train, test in splits]
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=len(y))
    if len(times) > len(y) or (times != 1).any():
        raise BagwiseError.because(
            f"cv holds out {np.count_nonzero(times == 0)} bags never and "
            f"{np.count_nonzero(times > 1)} more than once",
            "each bag once",
            "Take KFold, GroupKFold or LeaveOneGroupOut.",
        )
    return splits


def _one_each(values: np.ndarray, what: str, bags: Bags) -> np.ndarray:
    if values.shape != (bags.n_bags,):
        raise BagwiseError.because(
            f"the {what} have shape {values.shape}", f"({bags.n_bags},), one per bag", "Give those."
        )
    return values
