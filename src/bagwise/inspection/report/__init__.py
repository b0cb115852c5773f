"""Report: one page of HTML, on its own, that says how well models do on bags and why.

The page has the scores of all models with their uncertainty, calibration by bag size, the worst
bags with what may be behind them, and a table of all bags to sort, search and open.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.bags import as_bags
from bagwise.bags.per_bag import array_per_bag, looks_like_classes
from bagwise.estimators.cross_validation import out_of_fold
from bagwise.estimators.folds import splits_of
from bagwise.exceptions import BagwiseError
from bagwise.inspection.report.case import (
    Case,
    Words,
    check_models,
    check_predictions,
    labels_of,
    points_of,
)
from bagwise.inspection.report.folds import baseline, make_folds, random_parts
from bagwise.inspection.report.page import Report

__all__ = ["Report", "default_models", "make", "of_predictions"]

TITLE = "Report on bags"
# Parts into which given bags are cut for a baseline that has not seen what it predicts.
BASELINE_PARTS = 10


def make(
    bags: Any,
    y: Any,
    models: Any = None,
    *,
    title: str | None = None,
    folds: int = 5,
    level: float = LEVEL,
    seed: int = 0,
    source: str | None = None,
    notes: Sequence[str] = (),
    unused: Mapping[str, str] | None = None,
    progress: bool = True,
) -> Report:
    """Cross-validate models on bags and report on them.

    Every bag is predicted once, by models fitted to the bags of the other folds, so that what the
    page says is what to expect of new bags.

    Parameters
    ----------
    bags : anything that :func:`bagwise.as_bags` takes; of a stream each fold reads the file, and
        single points are looked at in a sample of at most 100 of each bag
    y : (n_bags,) labels: numbers, or classes
    models : estimators by name, not fitted, or None for :func:`default_models`
    title : of the page;  source : where the data are from, such as the name of a file
    notes : sentences about the data, such as how many rows were left out
    unused : columns of the data that are not used, and why
    folds : number of folds; fewer if there are fewer bags, or bags of a class
    level : probability of the intervals
    seed : of the folds and of what is drawn at random for the pictures
    progress : whether to show a progress bar over folds and models

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 20)]
    >>> embedding = bagwise.KernelEmbedding(bandwidth=1.0)
    >>> models = {"shrinkage": bagwise.ShrinkageRegressor(embedding)}
    >>> report = make(bags, y, models, folds=2)
    >>> report.best, report.html[:15]
    ('shrinkage', '<!doctype html>')
    """
    check_level(level)
    given = as_bags(bags)
    y = array_per_bag(y, given.ids)
    of_classes = looks_like_classes(y) if models is None else check_models(models)
    if models is None:
        models = default_models(of_classes, one_point=bool((given.sizes == 1).all()))
    checked, labels, classes = labels_of(given, y, of_classes)
    held_out = make_folds(labels, classes=of_classes, folds=folds, seed=seed)
    splits = splits_of(held_out, given.n_bags)
    predictions = out_of_fold(models, given, checked, splits, progress=progress)
    how = (
        f"The {given.n_bags:,} bags were cut at random into {len(held_out)} folds. Each bag was "
        "predicted once, by models fitted to the bags of the other folds only, so nothing on this "
        "page is about bags that a model had seen: it is what to expect of new bags like these. "
        "Where bags come in groups that share more than chance (one year, one hospital), new "
        "groups may be predicted less well than these folds say."
    )
    base = baseline(labels, classes, held_out)
    words = Words(_title(title), source, how, tuple(notes), unused or {})
    seen = given, points_of(given, seed)
    return Report.of(Case(*seen, checked, labels, classes, predictions, base, level, words, seed))


def of_predictions(
    predictions: Any,
    bags: Any,
    y: Any,
    *,
    models: Mapping[str, Any] | None = None,
    title: str | None = None,
    level: float = LEVEL,
    seed: int = 0,
    source: str | None = None,
) -> Report:
    """Report on predictions of bags that the models were not fitted to.

    Parameters
    ----------
    predictions : what predict_dist returned for the bags, by name of the model
    bags, y : the bags and their labels
    models : the fitted models by name, to explain predictions by points; optional
    title, level, seed, source : as in :func:`make`

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = bagwise.Bags.from_list([rng.normal(0, s, (20, 1)) for s in y])
    >>> embedding = bagwise.KernelEmbedding(bandwidth=1.0)
    >>> model = bagwise.ShrinkageRegressor(embedding).fit(bags[:40], y[:40])
    >>> of_predictions({"shrinkage": model.predict_dist(bags[40:])}, bags[40:], y[40:]).best
    'shrinkage'
    """
    check_level(level)
    given = as_bags(bags)
    joined, of_classes = check_predictions(predictions, models or {}, given)
    if given.n_bags < 2:
        raise BagwiseError.because("there is 1 bag", "2 or more to compare", "Give more bags.")
    checked, labels, classes = labels_of(given, y, of_classes)
    how = (
        "The predictions were given. What this page says holds for new bags only if the models "
        "were not fitted to any of these."
    )
    base = baseline(labels, classes, random_parts(given.n_bags, BASELINE_PARTS, seed))
    words = Words(_title(title), source, how)
    seen = given, points_of(given, seed)
    return Report.of(Case(*seen, checked, labels, classes, joined, base, level, words, seed))


def default_models(classes: bool, *, one_point: bool = False) -> dict[str, Any]:
    """Return the models that are compared if none are named.

    If every bag has one point, those are left out that learn how the points of a bag differ.

    Examples
    --------
    >>> list(default_models(classes=True))
    ['gp', 'shrinkage', 'logistic']
    """
    models: dict[str, Any]
    if classes:
        from bagwise.estimators.classifiers import BayesianLogisticClassifier, ShrinkageClassifier
        from bagwise.estimators.gp import DistributionGPClassifier

        models = {"gp": DistributionGPClassifier(), "shrinkage": ShrinkageClassifier()}
        models["logistic"] = BayesianLogisticClassifier()
    else:
        from bagwise.estimators.gp import DistributionGPRegressor
        from bagwise.estimators.regressors import (
            BayesianLinearRegressor,
            RBFNetworkRegressor,
            ShrinkageRegressor,
        )

        models = {"gp": DistributionGPRegressor(), "shrinkage": ShrinkageRegressor()}
        models |= {"BLR": BayesianLinearRegressor(), "RBF network": RBFNetworkRegressor()}
    if one_point:
        del models["gp"], models["shrinkage"]
    return models


def _title(title: str | None) -> str:
    return TITLE if title is None or not title.strip() else title
