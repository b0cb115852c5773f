"""Tuning on the paper's grid, with features shared between the candidates that agree on them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import ParameterGrid
from sklearn.pipeline import Pipeline

from bagwise._utils.work import Progress
from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.validation import check_columns
from bagwise.embedding.sums import BagStats, summarise
from bagwise.estimators.base import BagEstimator, Pooled
from bagwise.estimators.embeddings import qualified
from bagwise.estimators.folds import (
    Split,
    groups_of,
    is_number,
    labels_of,
    make_splits,
    shuffled,
    weights_of,
)
from bagwise.estimators.scorers import predict_dist
from bagwise.exceptions import BagwiseError
from bagwise.predictions.metrics import class_scores

__all__ = ["TuneResult", "paper_grid", "tune"]

# Scores of each bag, the smaller the better.
REAL_METRICS = {
    "nll": lambda prediction, y: -prediction.log_prob(y),
    "mse": lambda prediction, y: (y - prediction.mean) ** 2,
}
CLASS_METRICS = {
    "log_loss": lambda prediction, y: class_scores(prediction, y)["log_loss"],
    "brier": lambda prediction, y: class_scores(prediction, y)["brier"],
}

# The paper's grid, and the weight variances and penalties that take the place of its
# regularisation strengths 0, 1e-5 … 1; the automatic choices are candidates like the others.
PAPER_GRID: dict[str, Sequence[Any]] = {
    "embedding__n_landmarks": (30, 60, 90),
    "embedding__n_features": (30, 60, 90),
    "embedding__bandwidth": (0.5, 0.75, 1.0, 1.25, 1.5),
    "penalty": ("loo", 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
    "weight_var": ("evidence", 1.0, 1e1, 1e2, 1e3, 1e4, 1e5),
}


def paper_grid(estimator: Any) -> dict[str, Sequence[Any]]:
    """Return the part of the paper's grid that the estimator has parameters for.

    Examples
    --------
    >>> from bagwise.estimators.regressors import BayesianLinearRegressor
    >>> list(paper_grid(BayesianLinearRegressor()))
    ['embedding__n_landmarks', 'embedding__bandwidth', 'weight_var']
    """
    known = set(estimator.get_params())
    if getattr(estimator, "exact", False):
        known.discard("embedding__n_landmarks")  # exact sums were asked for, and stay exact
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

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.BayesianLinearRegressor()
    >>> found = bagwise.tune(model, bags, y, grid={"n_landmarks": [3, 6]}, cv=2, progress=False)
    >>> found.metric, len(found.table), found.score == found.table[0]["score"]
    ('nll', 2, True)
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

    _pooled: dict[tuple[str, int], tuple[Bags, Pooled]] = field(default_factory=dict)
    _stats: dict[tuple[int, int], tuple[Pooled, Bags, BagStats]] = field(default_factory=dict)

    def pooled(self, estimator: BagEstimator, bags: Bags) -> Pooled:
        """Return the estimator's features and the statistics of the training bags."""
        key = feature_key(estimator), id(bags)
        if key not in self._pooled:
            (features,) = estimator.embedding.candidates(bags)
            pooled = Pooled(features, summarise(bags, features))
            self._pooled[key] = bags, pooled  # holding the bags keeps their id unique
        return self._pooled[key][1]

    def stats(self, pooled: Pooled, bags: Bags) -> BagStats:
        """Return the statistics of other bags under the same features."""
        key = id(pooled), id(bags)
        if key not in self._stats:
            stats = summarise(bags, pooled.features, covariance=False)
            self._stats[key] = pooled, bags, stats  # holding both keeps their ids unique
        return self._stats[key][2]

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel empty: ids of objects mean nothing in another process."""
        return FeatureCache, ()


def feature_key(estimator: BagEstimator) -> str:
    """Return the same text for estimators that have the same features of the same bags."""
    return joblib.hash((type(estimator.embedding), estimator.embedding.get_params()))


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    *,
    validation: tuple[Any, ...] | None = None,
    grid: Mapping[str, Sequence[Any]] | None = None,
    metric: str | None = None,
    cv: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    cache: FeatureCache | None = None,
    progress: bool = True,
) -> TuneResult:
    """Choose an estimator's parameters on bags that it was not fitted to.

    Parameters
    ----------
    estimator : a regressor or classifier of bagwise. One that samples its posterior is scored by
        Laplace's approximation, or a Gaussian process by its largest evidence, and the best is then
        fitted as it says
    X, y : bags and labels to fit
    validation : (bags, labels) or (bags, labels, weights) to choose by; without it,
        cross-validation, and then a fit to all
    grid : parameter names and values, by default :func:`paper_grid`; those of the embedding may go
        without their ``embedding__``
    metric : "nll" or "mse", by default what the paper uses for the model; for classifiers
        "log_loss" (the default) or "brier"
    cv : number of folds (5 by default) of bags drawn at random, of classes in equal shares; or a
        splitter of scikit-learn, or (train, test) positions
    groups : (n_bags,) such as hospitals, which are never parted between folds; with a number as
        ``cv``, by ``GroupKFold`` (of classes ``StratifiedGroupKFold``)
    sample_weight : (n_bags,) weights of the bags, in every fit and in the scores: the score of a
        fold is the weighted mean over its bags, and that of a candidate the mean over the folds
    n_jobs : processes, -1 for all cores: each takes a fold and the candidates that share features,
        and what is found is the same
    cache : FeatureCache to share features with other calls in this process
    progress : whether to show a progress bar; never in a log file

    Examples
    --------
    >>> from bagwise.estimators.regressors import BayesianLinearRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> grid = {"n_landmarks": [5, 10], "bandwidth": [1.0, 2.0]}
    >>> found = tune(BayesianLinearRegressor(), bags, y, grid=grid)
    >>> len(found.table), found.metric
    (4, 'nll')

    Bags of one hospital stay together, and those of twice the weight count twice:

    >>> hospital, weight = np.arange(40) % 8, np.repeat([1.0, 2.0], 20)
    >>> options = {"cv": 4, "groups": hospital, "sample_weight": weight}
    >>> tune(BayesianLinearRegressor(), bags, y, grid=grid, **options).params
    {'embedding__bandwidth': 2.0, 'embedding__n_landmarks': 10}
    """
    bags = as_bags(X)
    y, weights = labels_of(estimator, y, bags), weights_of(sample_weight, bags)
    metric = _checked_metric(estimator, metric)
    grid = paper_grid(estimator) if grid is None else qualified(estimator, grid)
    candidates = list(ParameterGrid(grid))
    cache = FeatureCache() if cache is None else cache
    parts: Iterator[_Part]
    group = groups_of(groups, bags)
    if validation is None:
        splits = _splits(estimator, y, cv, group)
        n_parts = len(splits)
        parts = (_Part.of_fold(bags, y, weights, each, group) for each in splits)
    else:
        if cv is not None or groups is not None:
            raise BagwiseError.because(
                "there are validation bags, and cv or groups too",
                "one way to hold bags out",
                "Leave validation out to choose by cross-validation.",
            )
        n_parts = 1
        parts = iter([_Part.of_validation(estimator, bags, y, weights, validation)])
    shared = _by_features(estimator, candidates)
    scores = np.zeros((len(candidates), n_parts))
    jobs = (
        ([candidates[c] for c in chosen], part, metric, cache)
        for part in parts
        for chosen in shared
    )
    places = ((chosen, fold) for fold in range(n_parts) for chosen in shared)
    with Progress("tuning", scores.size, progress) as bar:
        for (chosen, fold), found in zip(places, _run(estimator, jobs, n_jobs), strict=True):
            scores[chosen, fold] = found
            bar.advance(len(chosen))
    order = np.argsort(scores.mean(axis=1), kind="stable")
    table = [candidates[c] | {"score": float(scores[c].mean())} for c in order]
    best = clone(estimator).set_params(**candidates[order[0]])
    fit_sharing(best, bags, y, weights, cache, group)
    return TuneResult(best, candidates[order[0]], table[0]["score"], table, metric)


@dataclass(frozen=True, eq=False)
class _Part:
    """Bags to fit to and bags to score on, with their labels and weights."""

    train: Bags
    y: np.ndarray
    weights: np.ndarray | None
    held_out: Bags
    labels: np.ndarray
    held_weights: np.ndarray | None
    groups: np.ndarray | None = None

    @classmethod
    def of_fold(
        cls,
        bags: Bags,
        y: np.ndarray,
        weights: np.ndarray | None,
        split: Split,
        groups: np.ndarray | None = None,
    ) -> _Part:
        """Cut the bags in two."""
        mine, theirs = ((bags[p], y[p], None if weights is None else weights[p]) for p in split)
        return cls(*mine, *theirs, None if groups is None else groups[split[0]])

    @classmethod
    def of_validation(
        cls, estimator: Any, bags: Bags, y: np.ndarray, weights: Any, validation: tuple[Any, ...]
    ) -> _Part:
        """Check the bags to choose by."""
        held_out, labels, held_weights = (*validation, None)[:3]
        held_out = as_bags(held_out)
        labels = labels_of(estimator, labels, held_out)
        check_columns("feature", bags.feature_names, bags.n_features, held_out)
        check_columns("covariate", bags.covariate_names, bags.n_covariates, held_out)
        return cls(bags, y, weights, held_out, labels, weights_of(held_weights, held_out))

    def score(self, prediction: Any, metric: str) -> float:
        """Return the weighted mean score of the bags that were held out."""
        scores = (REAL_METRICS | CLASS_METRICS)[metric](prediction, self.labels)
        if self.held_weights is not None and not self.held_weights.any():
            raise BagwiseError.because(
                f"the {len(scores)} bags to score on all have weight 0",
                "a positive weight in every fold",
                "Give fewer folds, or others with cv=....",
            )
        return float(np.average(scores, weights=self.held_weights))


def _checked_metric(estimator: Any, metric: str | None) -> str:
    if not hasattr(estimator, "tuning_metric"):
        raise BagwiseError.because(
            f"tune was given a {type(estimator).__name__}",
            "an estimator of bagwise",
            "Tune the one within, and put what is found in its place.",
        )
    metrics = CLASS_METRICS if is_classifier(estimator) else REAL_METRICS
    metric = estimator.tuning_metric if metric is None else metric
    if metric not in metrics:
        names = " or ".join(f'"{name}"' for name in metrics)
        raise BagwiseError.because(
            f"metric is {metric!r}", names, f'Try "{estimator.tuning_metric}".'
        )
    return metric


def _splits(estimator: Any, y: np.ndarray, cv: Any, groups: np.ndarray | None) -> list[Split]:
    """Return the folds: by number of bags drawn at random, or of groups, or as they are given."""
    if groups is None and is_number(cv):
        cv = shuffled(estimator, y, cv)
    return make_splits(estimator, y, cv, groups)


def _by_features(estimator: Any, candidates: list[dict[str, Any]]) -> list[list[int]]:
    """Return the numbers of the candidates, those together that share their features."""
    groups: dict[Any, list[int]] = {}
    for c, params in enumerate(candidates):
        candidate = clone(estimator).set_params(**params)
        key = feature_key(candidate) if candidate.has_shared_features() else c
        groups.setdefault(key, []).append(c)
    return list(groups.values())


def _run(estimator: Any, jobs: Iterator[Any], n_jobs: int | None) -> Iterator[list[float]]:
    """Do the jobs, in processes if there are to be several.

    Not in threads, which share the settings of BLAS, and not by a fork, which may hang once JAX has
    threads: joblib's own processes start afresh.
    """
    if n_jobs in (None, 1):
        return (_scores(estimator, *job) for job in jobs)
    run = joblib.Parallel(n_jobs=n_jobs, return_as="generator")
    return run(joblib.delayed(_scores)(estimator, *job) for job in jobs)


def _scores(
    estimator: Any, candidates: list[dict[str, Any]], part: _Part, metric: str, cache: FeatureCache
) -> list[float]:
    """Fit each candidate and score it on the bags that are held out."""
    scores = []
    for params in candidates:
        model = _quick(clone(estimator)).set_params(**params)
        found = fit_and_predict(
            model, part.train, part.y, part.weights, part.held_out, cache, part.groups
        )
        scores.append(part.score(found, metric))
    return scores


def _quick(estimator: Any) -> Any:
    """Return the estimator, without the sampling that would make a grid take hours."""
    known = estimator.get_params(deep=False)
    if "inference" in known and known["inference"] not in estimator.quick_inferences:
        estimator.set_params(inference=estimator.quick_inferences[0])
    return estimator


def fit_and_predict(
    model: Any,
    train: Bags,
    y: np.ndarray,
    weights: Any,
    test: Bags,
    cache: FeatureCache,
    groups: np.ndarray | None = None,
) -> Any:
    """Fit a model to some bags and predict others, with features from the cache if it can."""
    pooled = fit_sharing(model, train, y, weights, cache, groups)
    if pooled is None:
        return predict_dist(model, test)
    return model.predict_stats(cache.stats(pooled, test), test)


def fit_sharing(
    model: Any,
    bags: Bags,
    y: np.ndarray,
    weights: np.ndarray | None,
    cache: FeatureCache,
    groups: np.ndarray | None = None,
) -> Pooled | None:
    """Fit with shared features if the model's parameters determine them, else as usual.

    Groups go to models that have an effect of them.
    """
    groups = groups if getattr(model, "takes_groups", False) else None
    if getattr(model, "has_shared_features", lambda: False)():
        pooled = cache.pooled(model, bags)
        task = model.with_groups(model.make_task(bags, y, weights), groups, bags)
        model.fit_pooled(pooled, bags, task)
        return pooled
    last = f"{model.steps[-1][0]}__" if isinstance(model, Pipeline) else ""
    given = {f"{last}sample_weight": weights, "groups": groups}
    model.fit(bags, y, **{name: value for name, value in given.items() if value is not None})
    return None
