"""Tuning on the paper's grid, with features shared between the candidates that agree on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold

from bagwise._utils.progress import Progress
from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.checks import (
    check_classes,
    check_covariates_match,
    check_features_match,
    check_labels,
)
from bagwise.embedding.sums import BagStats, summarise
from bagwise.estimators.base import FEATURE_PARAMETERS, BagEstimator, Embedding
from bagwise.exceptions import BagwiseError
from bagwise.heads.task import Task
from bagwise.predictions.metrics import brier, log_loss, mse, nll

REAL_METRICS = {"nll": nll, "mse": mse}
CLASS_METRICS = {"log_loss": log_loss, "brier": brier}

# The paper's grid, and the weight variances and penalties that take the place of its
# regularisation strengths 0, 1e-5 … 1; the automatic choices are candidates like the others.
PAPER_GRID: dict[str, Sequence[Any]] = {
    "n_landmarks": (30, 60, 90),
    "bandwidth_scale": (0.5, 0.75, 1.0, 1.25, 1.5),
    "penalty": ("loo", 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "weight_var": ("evidence", 1.0, 1e1, 1e2, 1e3, 1e4, 1e5),
}


def paper_grid(estimator: Any) -> dict[str, Sequence[Any]]:
    """Return the part of the paper's grid that the estimator has parameters for.

    Examples
    --------
    >>> from bagwise.estimators.regressors import BayesianLinearRegressor
    >>> list(paper_grid(BayesianLinearRegressor()))
    ['n_landmarks', 'bandwidth_scale', 'weight_var']
    """
    known = set(estimator.get_params())
    if "landmarks" not in known and getattr(estimator, "n_landmarks", None) is None:
        known.discard("n_landmarks")  # exact sums were asked for, and stay exact
    return {name: values for name, values in PAPER_GRID.items() if name in known}


@dataclass(frozen=True)
class TuneResult:
    """What :func:`tune` found.

    Attributes
    ----------
    estimator : fitted with the best parameters (to the training bags if validation bags were given,
        else to all bags)
    params : the best parameters
    score : their metric, the smaller the better
    table : one dict per candidate: its parameters and its ``score``, best first
    metric : by which it was chosen
    """

    estimator: Any
    params: dict[str, Any]
    score: float
    table: list[dict[str, Any]]
    metric: str


@dataclass
class FeatureCache:
    """Features of bags by the parameters that decide them, so that nothing is computed twice.

    Keep one to tune several models on the same bags: they share it. It holds statistics of bags,
    not features of points, and so is small.
    """

    _embeddings: dict[tuple[str, int], tuple[Bags, Embedding]] = field(default_factory=dict)
    _stats: dict[tuple[int, int], tuple[Embedding, Bags, BagStats]] = field(default_factory=dict)

    def embedding(self, estimator: BagEstimator, bags: Bags) -> Embedding:
        """Return the estimator's features and the statistics of the training bags."""
        params = estimator.get_params(deep=False)
        features = {name: params.get(name) for name in FEATURE_PARAMETERS}
        key = joblib.hash(features), id(bags)
        if key not in self._embeddings:
            (features_,) = estimator.candidate_features(bags)
            embedding = Embedding(features_, summarise(bags, features_))
            self._embeddings[key] = bags, embedding  # holding the bags keeps their id unique
        return self._embeddings[key][1]

    def stats(self, embedding: Embedding, bags: Bags) -> BagStats:
        """Return the statistics of other bags under the same features."""
        key = id(embedding), id(bags)
        if key not in self._stats:
            stats = summarise(bags, embedding.features, covariance=False)
            self._stats[key] = embedding, bags, stats  # holding both keeps their ids unique
        return self._stats[key][2]


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    validation: tuple[Any, Any] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    metric: str | None = None,
    n_folds: int = 5,
    cache: FeatureCache | None = None,
    progress: bool = True,
) -> TuneResult:
    """Choose an estimator's parameters on bags that it was not fitted to.

    Parameters
    ----------
    estimator : a regressor or classifier of bagwise. One that samples its posterior is scored by
        Laplace's approximation, and the best is then fitted as it says
    X, y : bags and labels to fit
    validation : (bags, labels) to choose by; without it, cross-validation, and then a fit to all
    grid : parameter names and values, by default :func:`paper_grid`
    metric : "nll" or "mse", by default what the paper uses for the model; for classifiers
        "log_loss" (the default) or "brier"
    n_folds : folds of the cross-validation
    cache : FeatureCache to share features with other calls
    progress : whether to show a progress bar; never in a log file

    Examples
    --------
    >>> from bagwise.estimators.regressors import BayesianLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> grid = {"n_landmarks": [5, 10], "bandwidth_scale": [1.0, 2.0]}
    >>> found = tune(BayesianLinearRegressor(), bags, y, grid=grid)
    >>> len(found.table), found.metric
    (4, 'nll')
    """
    bags = as_bags(X)
    y = _checked_labels(estimator, y, bags)
    metric = estimator.tuning_metric if metric is None else metric
    metrics = CLASS_METRICS if _is_classifier(estimator) else REAL_METRICS
    if metric not in metrics:
        names = " or ".join(f'"{name}"' for name in metrics)
        raise BagwiseError.because(
            f"metric is {metric!r}", names, f'Try "{estimator.tuning_metric}".'
        )
    candidates = list(ParameterGrid(dict(paper_grid(estimator) if grid is None else grid)))
    cache = FeatureCache() if cache is None else cache
    splits = list(_splits(estimator, bags, y, validation, n_folds))
    scores = np.zeros((len(candidates), len(splits)))
    with Progress("tuning", scores.size, progress) as bar:
        for s, split in enumerate(splits):
            for c, params in enumerate(candidates):
                candidate = _quick(clone(estimator)).set_params(**params)
                scores[c, s] = metrics[metric](_predict(candidate, split, cache), split.labels)
                bar.advance()
    order = np.argsort(scores.mean(axis=1), kind="stable")
    table = [candidates[c] | {"score": float(scores[c].mean())} for c in order]
    best = clone(estimator).set_params(**candidates[order[0]])
    _fit(best, bags, best.make_task(bags, y), y, cache)
    return TuneResult(best, candidates[order[0]], table[0]["score"], table, metric)


@dataclass(frozen=True, eq=False)
class _Split:
    train: Bags
    train_labels: np.ndarray
    task: Task
    held_out: Bags
    labels: np.ndarray


def _is_classifier(estimator: Any) -> bool:
    return estimator.tuning_metric in CLASS_METRICS


def _checked_labels(estimator: Any, y: Any, bags: Bags) -> np.ndarray:
    if not _is_classifier(estimator):
        return check_labels(y, bags)
    classes, second = check_classes(y, bags)
    return classes[second.astype(int)]


def _quick(estimator: Any) -> Any:
    """Return the estimator, without the sampling that would make a grid take hours."""
    known = estimator.get_params(deep=False)
    if "inference" in known and known["inference"] != "map":
        estimator.set_params(inference="laplace")
    return estimator


def _splits(
    estimator: Any, bags: Bags, y: np.ndarray, validation: tuple[Any, Any] | None, n_folds: int
) -> Iterator[_Split]:
    if validation is not None:
        held_out = as_bags(validation[0])
        labels = _checked_labels(estimator, validation[1], held_out)
        check_features_match(bags.feature_names, bags.n_features, held_out)
        check_covariates_match(bags.covariate_names, bags.n_covariates, held_out)
        yield _Split(bags, y, estimator.make_task(bags, y), held_out, labels)
        return
    kind = KFold
    if _is_classifier(estimator):
        kind, n_folds = StratifiedKFold, min(n_folds, _smallest_class(y))
    for train, test in kind(n_folds, shuffle=True, random_state=0).split(y, y):
        part, labels = bags[train], y[train]
        yield _Split(part, labels, estimator.make_task(part, labels), bags[test], y[test])


def _smallest_class(y: np.ndarray) -> int:
    """Return the number of bags of the smallest class: there can be no more folds than that."""
    classes, counts = np.unique(y, return_counts=True)
    rare = np.argmin(counts)
    if counts[rare] < 2:
        raise BagwiseError.because(
            f"class {classes[rare].item()!r} has one bag",
            "two or more of each class, to fit to some and score on the others",
            "Give bags to score on, as validation=(bags, labels).",
        )
    return int(counts[rare])


def _predict(estimator: Any, split: _Split, cache: FeatureCache) -> Any:
    embedding = _fit(estimator, split.train, split.task, split.train_labels, cache)
    if embedding is None:
        return estimator.predict_dist(split.held_out)
    stats = cache.stats(embedding, split.held_out)
    return estimator.predict_stats(stats, split.held_out)


def _fit(
    estimator: Any, bags: Bags, task: Task, y: np.ndarray, cache: FeatureCache
) -> Embedding | None:
    """Fit with shared features if the estimator's parameters determine them, else as usual."""
    if not estimator.has_shared_features():
        estimator.fit(bags, y)
        return None
    embedding = cache.embedding(estimator, bags)
    estimator.fit_embedding(embedding, bags, task)
    return embedding
