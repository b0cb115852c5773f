"""Tuning classifiers, and models that sample: these are scored by Laplace and fitted as asked."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import ParameterGrid, StratifiedKFold

from bagwise import (
    BagwiseError,
    BayesianLogisticClassifier,
    BDRClassifier,
    BDRRegressor,
    KernelEmbedding,
    ShrinkageClassifier,
    ShrinkageRegressor,
    tune,
)
from bagwise.estimators.selection import FeatureCache, paper_grid
from bagwise.exceptions import InvalidLabelsError
from bagwise.inference import NUTS
from bagwise.predictions.metrics import brier, log_loss, nll
from classifier_models import BAGS, NEW, NEW_Y, Y
from contract_models import few_draws

LABELS, NEW_LABELS = (np.where(y, "high", "low") for y in (Y, NEW_Y))
LEVELS, NEW_LEVELS = (np.array([bag.mean() for bag in bags]) for bags in (BAGS, NEW))
GRID = {"n_landmarks": [3, 6], "bandwidth": [1.0]}
FEW = NUTS(chains=2, draws=20, warmup=40, progress=False)

CLASSIFIERS = {
    "shrinkage": ShrinkageClassifier(),
    "bdr": BDRClassifier(inference="map"),
    "logistic": BayesianLogisticClassifier(),
}
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)


@pytest.mark.crossed
@every_classifier
@pytest.mark.parametrize("validation", [(NEW, NEW_LABELS), None], ids=["validation", "folds"])
def test_tuning_classifiers(name, validation):
    estimator = CLASSIFIERS[name]
    cv = 2 if validation is None else None
    found = tune(estimator, BAGS, LABELS, validation=validation, grid=GRID, cv=cv)
    scores = [row["score"] for row in found.table]
    assert len(scores) == len(ParameterGrid(GRID))
    assert found.score == scores[0] == min(scores) and np.isfinite(scores).all()
    assert found.metric == "log_loss"
    fresh = clone(estimator).set_params(**found.params).fit(BAGS, LABELS)
    assert found.estimator.classes_.tolist() == ["high", "low"]
    assert_array_equal(found.estimator.predict_proba(NEW), fresh.predict_proba(NEW))
    assert not hasattr(estimator, "head_")


@pytest.mark.parametrize(("metric", "score"), [("log_loss", log_loss), ("brier", brier)])
def test_scores_of_classifiers_are_those_of_fits_by_hand(metric, score):
    options = {"validation": (NEW, NEW_LABELS), "grid": GRID, "metric": metric}
    found = tune(ShrinkageClassifier(), BAGS, LABELS, **options)
    for row in found.table:
        params = {key: row[key] for key in row if key != "score"}
        model = ShrinkageClassifier().set_params(**params).fit(BAGS, LABELS)
        assert_allclose(row["score"], score(model.predict_dist(NEW), NEW_LABELS), rtol=1e-10)


def test_folds_keep_the_shares_of_the_classes():
    grid = {"n_landmarks": [4], "bandwidth": [1.0]}
    found = tune(ShrinkageClassifier(), BAGS, LABELS, grid=grid, cv=3)
    scores = []
    for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(LABELS, LABELS):
        model = ShrinkageClassifier().set_params(**found.params).fit(BAGS[train], LABELS[train])
        scores.append(log_loss(model.predict_dist(BAGS[test]), LABELS[test]))
    assert_allclose(found.score, np.mean(scores), rtol=1e-10)


@few_draws
def test_a_sampled_regressor_is_scored_by_laplace_and_then_sampled():
    model = BDRRegressor(inference=FEW)
    found = tune(model, BAGS, LEVELS, validation=(NEW, NEW_LEVELS), grid=GRID)
    for row in found.table:
        params = {key: row[key] for key in row if key != "score"}
        by_hand = BDRRegressor(inference="laplace").set_params(**params).fit(BAGS, LEVELS)
        assert_allclose(row["score"], nll(by_hand.predict_dist(NEW), NEW_LEVELS), rtol=1e-10)
    assert found.metric == "nll"
    assert found.estimator.inference == model.inference == FEW
    assert found.estimator.diagnostics_.n_draws == 20
    assert found.estimator.draws_["noise_sd"].shape == (2, 20)
    fresh = clone(model).set_params(**found.params).fit(BAGS, LEVELS)
    assert_array_equal(found.estimator.predict(NEW), fresh.predict(NEW))


def test_a_mode_is_scored_by_its_mode():
    model = BDRRegressor(KernelEmbedding(bandwidth=1.0), inference="map")
    grid = {"n_landmarks": [4]}
    found = tune(model, BAGS, LEVELS, validation=(NEW, NEW_LEVELS), grid=grid)
    by_hand = model.set_params(embedding__n_landmarks=4).fit(BAGS, LEVELS)
    assert_allclose(found.score, nll(by_hand.predict_dist(NEW), NEW_LEVELS), rtol=1e-10)


def test_classifiers_and_regressors_share_features():
    cache = FeatureCache()
    options = {"grid": {"n_landmarks": [4], "bandwidth": [1.0]}, "cache": cache}
    first = tune(ShrinkageRegressor(), BAGS, LEVELS, validation=(NEW, NEW_LEVELS), **options)
    second = tune(ShrinkageClassifier(), BAGS, LABELS, validation=(NEW, NEW_LABELS), **options)
    assert first.estimator.features_ is second.estimator.features_
    alone = ShrinkageClassifier().set_params(**second.params).fit(BAGS, LABELS)
    assert_array_equal(second.estimator.predict_proba(NEW), alone.predict_proba(NEW))


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (BDRRegressor(), ["embedding__n_landmarks", "embedding__bandwidth"]),
        (BDRClassifier(), ["embedding__n_landmarks", "embedding__bandwidth"]),
        (BayesianLogisticClassifier(), ["embedding__n_landmarks", "embedding__bandwidth"]),
        (ShrinkageClassifier(), ["embedding__n_landmarks", "embedding__bandwidth", "weight_var"]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_paper_grid(model, names):
    assert list(paper_grid(model)) == names


@pytest.mark.parametrize("metric", ["nll", "mse", "accuracy"])
def test_metrics_of_regression_are_not_for_classes(metric):
    with pytest.raises(BagwiseError, match=r'expected "log_loss" or "brier". Try "log_loss"'):
        tune(ShrinkageClassifier(), BAGS, LABELS, grid=GRID, metric=metric)


@pytest.mark.parametrize("metric", ["log_loss", "brier"])
def test_metrics_of_classes_are_not_for_regression(metric):
    with pytest.raises(BagwiseError, match=r'expected "nll" or "mse". Try "nll"'):
        tune(BDRRegressor(), BAGS, LEVELS, grid=GRID, metric=metric)


def test_labels_are_checked_before_anything_is_fitted():
    with pytest.raises(InvalidLabelsError, match=r"36 numbers, .* If .* amounts, use a regressor"):
        tune(ShrinkageClassifier(), BAGS, LEVELS, grid=GRID)
    with pytest.raises(InvalidLabelsError, match="real numbers"):
        tune(BDRRegressor(), BAGS, LABELS, grid=GRID)
    with pytest.raises(InvalidLabelsError, match="one label per bag"):
        tune(ShrinkageClassifier(), BAGS, LABELS, validation=(NEW, LABELS), grid=GRID)


def test_a_class_of_few_bags_has_fewer_folds_and_one_of_one_bag_none():
    y = np.where(np.arange(len(Y)) < 2, "rare", "common")
    found = tune(ShrinkageClassifier(), BAGS, y, grid=GRID)
    by_hand = []
    for train, test in StratifiedKFold(2, shuffle=True, random_state=0).split(y, y):
        model = ShrinkageClassifier().set_params(**found.params).fit(BAGS[train], y[train])
        by_hand.append(log_loss(model.predict_dist(BAGS[test]), y[test]))
    assert_allclose(found.score, np.mean(by_hand), rtol=1e-6)
    y[1] = "common"
    with pytest.raises(BagwiseError, match=r"class 'rare' has one bag; .*validation=\(bags"):
        tune(ShrinkageClassifier(), BAGS, y, grid=GRID)


@pytest.mark.parametrize("params", [{"inference": "vi"}, {"priors": 1.0}], ids=str)
def test_inference_and_priors_are_looked_at_before_anything_is_fitted(params, monkeypatch):
    monkeypatch.setattr(BDRRegressor, "_fit_head", lambda *_: pytest.fail("fitted"))
    with pytest.raises(BagwiseError, match="set_params"):
        BDRRegressor().set_params(**params).fit(BAGS, LEVELS)
