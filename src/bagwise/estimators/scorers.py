"""Scorers: the metrics of predictive distributions as ``scoring=`` of scikit-learn's tools.

A score of scikit-learn is the better the larger it is, so what is a loss is negated, and called
``neg_nll`` for ``bagwise.metrics.nll``. :func:`make_scorer` makes others.

>>> import numpy as np, bagwise
>>> from sklearn.model_selection import cross_val_score
>>> rng = np.random.default_rng(0)
>>> y = rng.uniform(1, 2, 40)
>>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
>>> model = bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(bandwidth=1.0))
>>> cross_val_score(model, bags, y, cv=2, scoring=bagwise.scorers.neg_nll).shape
(2,)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.pipeline import Pipeline

from bagwise.estimators.pointwise import before_last
from bagwise.exceptions import BagwiseError
from bagwise.predictions import metrics

__all__ = [
    "Scorer",
    "accuracy",
    "make_scorer",
    "neg_brier",
    "neg_crps",
    "neg_log_loss",
    "neg_mse",
    "neg_nll",
    "neg_rmse",
    "predict_dist",
]


class Scorer:
    """A metric of predictive distributions that is called as scikit-learn calls a scorer.

    score(model, X, y) = ± metric(predict_dist(model, X), y)

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> neg_mse  # as scoring= of cross_val_score, or called
    make_scorer(mse, greater_is_better=False)
    >>> neg_mse(model, bags, y) < 0
    True
    """

    def __init__(
        self, metric: Callable[..., float], greater_is_better: bool, options: dict[str, Any]
    ) -> None:
        self._metric, self._options = metric, options
        self._sign = 1.0 if greater_is_better else -1.0

    def __call__(self, model: Any, X: Any, y: Any) -> float:
        """Return the score of a fitted model on bags X with labels y."""
        return self._sign * self._metric(predict_dist(model, X), y, **self._options)

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self._options.items())
        better = f", greater_is_better={self._sign > 0}"
        return f"make_scorer({self._metric.__name__}{better}{options})"


def make_scorer(
    metric: Callable[..., float], *, greater_is_better: bool = False, **options: Any
) -> Scorer:
    """Make a scorer of a metric of :mod:`bagwise.predictions.metrics`, or of a function like those.

    Parameters
    ----------
    metric : (prediction, y, **options) ↦ number
    greater_is_better : False for a loss, which is negated
    **options : passed on to the metric

    Examples
    --------
    >>> make_scorer(metrics.coverage, greater_is_better=True, level=0.9)
    make_scorer(coverage, greater_is_better=True, level=0.9)
    """
    return Scorer(metric, greater_is_better, options)


neg_nll = make_scorer(metrics.nll)
neg_crps = make_scorer(metrics.crps)
neg_mse = make_scorer(metrics.mse)
neg_rmse = make_scorer(metrics.rmse)
neg_log_loss = make_scorer(metrics.log_loss)
neg_brier = make_scorer(metrics.brier)
accuracy = make_scorer(metrics.accuracy, greater_is_better=True)


def predict_dist(model: Any, X: Any) -> Any:
    """Return the predictive distribution of a fitted estimator, also within a Pipeline or search.

    Parameters
    ----------
    model : estimator of bagwise; scikit-learn's Pipeline that ends in one; or a search for one,
        such as GridSearchCV
    X : bags

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5))
    >>> from sklearn.model_selection import GridSearchCV
    >>> search = GridSearchCV(model, {"embedding__n_landmarks": [5, 8]}, cv=2).fit(bags, y)
    >>> predict_dist(search, bags).interval(0.9).shape
    (30, 2)
    """
    if hasattr(model, "predict_dist"):
        return model.predict_dist(X)
    if hasattr(model, "best_estimator_"):
        return predict_dist(model.best_estimator_, X)
    if isinstance(model, Pipeline):
        return predict_dist(model.steps[-1][1], before_last(model, X))
    raise BagwiseError.because(
        f"a {type(model).__name__} has no predict_dist",
        "an estimator of bagwise, or a Pipeline or search of one",
        "Give one such as bagwise.ShrinkageRegressor().",
    )
