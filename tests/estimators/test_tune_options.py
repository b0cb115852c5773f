"""Tuning with cv, groups, sample_weight and n_jobs, against fits written out."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    StratifiedGroupKFold,
)

from bagwise import (
    Bags,
    BayesianLinearRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    ShrinkageClassifier,
    scorers,
    tune,
)
from bagwise.estimators.selection import FeatureCache
from error_cases import fails

RNG = np.random.default_rng(0)
N = 30
LEVEL = RNG.uniform(1, 2, N)
IDS = [f"patient {i}" for i in range(N)]
BAGS = Bags.from_list([RNG.normal(x, 0.5, (6, 2)) for x in LEVEL], ids=IDS)
Y = 10 * LEVEL
CLASSES = np.where(LEVEL > 1.5, "high", "low")
HOSPITALS = np.array(list("abcdef"))[np.arange(N) % 6]
WEIGHTS = RNG.uniform(0.2, 3, N)
GRID = {"embedding__n_landmarks": [3, 6], "weight_var": [1.0, 100.0]}
MODEL = BayesianLinearRegressor(KernelEmbedding(bandwidth=1.0))


def quiet(model=MODEL, X=BAGS, y=Y, **options):
    return tune(model, X, y, **({"grid": GRID, "progress": False} | options))


def by_hand(model, params, splits, y, score, weights=None):
    """The mean over folds of the weighted mean score, each fold fitted from scratch."""
    found = []
    for train, test in splits:
        mine = None if weights is None else weights[train]
        fitted = clone(model).set_params(**params).fit(BAGS[train], y[train], sample_weight=mine)
        each = score(fitted.predict_dist(BAGS[test]), y[test])
        share = np.ones(len(test)) if weights is None else weights[test]
        found.append((share * each).sum() / share.sum())
    return np.mean(found)


def negative_log(prediction, y):
    return -prediction.log_prob(y)


def without_score(row):
    return {name: value for name, value in row.items() if name != "score"}


SPLITTERS = {
    "shuffled": (KFold(3, shuffle=True, random_state=5), None),
    "once or never": (ShuffleSplit(2, random_state=1), None),
    "positions": ([(np.arange(10, 30), np.arange(10)), (np.arange(20), np.arange(20, 30))], None),
    "groups": (LeaveOneGroupOut(), HOSPITALS),
}


@pytest.mark.parametrize("name", SPLITTERS)
def test_cv_is_what_scikit_learn_takes(name):
    cv, groups = SPLITTERS[name]
    found = quiet(cv=cv, groups=groups)
    splits = cv if isinstance(cv, list) else list(cv.split(Y, Y, groups))
    for row in found.table:
        expected = by_hand(MODEL, without_score(row), splits, Y, negative_log)
        assert_allclose(row["score"], expected, rtol=1e-9)
    search = GridSearchCV(MODEL, GRID, cv=cv, scoring=scorers.neg_nll)
    search.fit(BAGS, Y, groups=groups)
    assert found.params == search.best_params_
    assert_allclose(found.score, -search.best_score_, rtol=1e-9)


def test_a_number_of_folds_of_groups():
    found = quiet(cv=3, groups=pd.Series(HOSPITALS, index=IDS)[::-1])
    splits = list(GroupKFold(3).split(Y, Y, HOSPITALS))
    assert_allclose(found.score, by_hand(MODEL, found.params, splits, Y, negative_log), rtol=1e-9)
    model, grid = ShrinkageClassifier(), {"n_landmarks": [4], "bandwidth": [1.0]}
    found = quiet(model, y=CLASSES, cv=2, groups=HOSPITALS, grid=grid)
    splits = list(StratifiedGroupKFold(2).split(CLASSES, CLASSES, HOSPITALS))
    expected = by_hand(model, found.params, splits, CLASSES, negative_log)
    assert_allclose(found.score, expected, rtol=1e-8)


@pytest.mark.parametrize("metric", ["nll", "mse"])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "alone"])
def test_sample_weights_in_fits_and_scores(metric, shared):
    model = MODEL if shared else MeanEmbeddingRidge()
    grid = GRID if shared else {"penalty": [1e-3, 1.0], "bandwidth": [1.0]}
    score = negative_log if metric == "nll" else lambda p, y: (p.mean - y) ** 2
    options = {"metric": metric, "cv": KFold(3), "grid": grid}
    found = quiet(model, sample_weight=pd.Series(WEIGHTS, index=IDS)[::-1], **options)
    splits = list(KFold(3).split(Y))
    for row in found.table:
        expected = by_hand(model, without_score(row), splits, Y, score, WEIGHTS)
        assert_allclose(row["score"], expected, rtol=1e-8)
    fresh = clone(model).set_params(**found.params).fit(BAGS, Y, sample_weight=WEIGHTS)
    assert_allclose(found.estimator.predict(BAGS), fresh.predict(BAGS), rtol=1e-10)
    equal = quiet(model, sample_weight=np.full(N, 7.0), **options)
    assert_allclose(equal.score, quiet(model, **options).score, rtol=1e-9)


def test_a_weight_of_two_in_validation_is_the_bag_twice():
    train, test = np.arange(20), np.arange(20, 30)
    twice = np.r_[test, test[:4]]
    doubled = Bags.concatenate([BAGS[test], BAGS[test[:4]]])
    weights = np.r_[np.full(4, 2.0), np.ones(6)]
    weighed = quiet(X=BAGS[train], y=Y[train], validation=(BAGS[test], Y[test], weights))
    repeated = quiet(X=BAGS[train], y=Y[train], validation=(doubled, Y[twice]))
    assert [without_score(row) for row in weighed.table] == list(map(without_score, repeated.table))
    assert_allclose(weighed.score, repeated.score, rtol=1e-10)


@pytest.mark.long  # on a cluster: test_dask.py
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the pool of processes
@pytest.mark.slow
def test_processes_find_the_same():
    options = {"cv": 3, "groups": HOSPITALS, "sample_weight": WEIGHTS}
    one, two = (quiet(n_jobs=n, **options) for n in (None, 2))
    assert list(map(without_score, one.table)) == list(map(without_score, two.table))
    scores = [[row["score"] for row in found.table] for found in (one, two)]
    assert_allclose(*scores, rtol=1e-10)
    assert_array_equal(one.estimator.predict(BAGS), two.estimator.predict(BAGS))
    held_out = {"validation": (BAGS[20:], Y[20:]), "X": BAGS[:20], "y": Y[:20]}
    assert quiet(n_jobs=2, **held_out).table == quiet(**held_out).table
    fails(
        lambda: quiet(n_jobs=2, grid={"bandwidth": [-1.0]}),
        "bandwidth is -1.0; expected a finite number > 0",
    )


def test_a_cache_leaves_its_features_behind_when_it_travels():
    cache = FeatureCache()
    quiet(cache=cache)
    assert cache._pooled
    assert not pickle.loads(pickle.dumps(cache))._pooled


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"cv": 1}, ["cv is 1; expected at least 2 folds"]),
        ({"cv": 99}, ["the bags cannot be cut into folds", "99"]),
        ({"cv": LeaveOneGroupOut()}, ["the bags cannot be cut into folds", "groups"]),
        ({"groups": ["a"]}, ["the groups have shape (1,)", "(30,), one per bag"]),
        ({"sample_weight": [1.0]}, ["the sample weights have shape (1,)", "one per bag"]),
        ({"sample_weight": np.full(N, -1.0)}, ["sample_weight of bag", "not negative"]),
        ({"validation": (BAGS, Y), "cv": 3}, ["validation bags, and cv or groups too"]),
        (
            {"sample_weight": 1.0 * (np.arange(N) // 10 != 1), "cv": KFold(3)},
            ["the 10 bags to score on all have weight 0", "in every fold"],
        ),
    ],
    ids=["one", "many", "no groups", "groups", "weights", "negative", "both", "nothing left"],
)
def test_what_cannot_be_tuned(options, parts):
    fails(lambda: quiet(**options), *parts)
