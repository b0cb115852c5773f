"""What scikit-learn and its users expect of every classifier."""

import inspect
import pickle
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score, brier_score_loss, log_loss, roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    train_test_split,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import Bags, KernelEmbedding, PointwiseTransformer
from bagwise.inference import Priors
from classifier_models import (
    ARRAYS,
    BAGS,
    HEIGHTS,
    NEW,
    NEW_ARRAYS,
    NEW_HEIGHTS,
    NEW_Y,
    Y,
    core_or_sampled,
    every_class,
    every_fitted,
    fitted,
    labels,
    make_data,
    new_labels,
    proba,
    refitted_model,
    tool_model,
    unfitted,
)
from contract_models import params_of, seeded

# ---- parameters ---------------------------------------------------------------------------------


@every_class
def test_init_only_stores(cls):
    odd = {"embedding": KernelEmbedding(-3), "covariance_floor": -1.5, "priors": Priors(noise=1e9)}
    values = {
        name: odd.get(name, object() if parameter.annotation in ("Any", Any) else "no such word")
        for name, parameter in inspect.signature(cls).parameters.items()
    }
    stored = vars(cls(**values))  # no check, no copy, no conversion
    assert stored.keys() == values.keys()
    assert all(stored[name] is value for name, value in values.items())


@every_class
def test_an_embedding_and_at_most_seven_other_parameters_by_name(cls):
    first, *others = inspect.signature(cls).parameters.values()
    assert first.name == "embedding" and len(others) <= 7
    assert {parameter.kind for parameter in others} == {inspect.Parameter.KEYWORD_ONLY}


@every_class
def test_set_params_refuses_unknown_names(cls):
    with pytest.raises(ValueError, match="Invalid parameter 'bandwith'"):
        cls().set_params(bandwith=1.0)


@every_fitted
def test_clone_has_the_same_parameters_and_is_not_fitted(name):
    twin = clone(fitted(name))
    assert params_of(twin) == params_of(fitted(name))
    assert set(vars(twin)) == set(twin.get_params(deep=False))
    assert repr(twin) == repr(fitted(name))


@every_fitted
def test_get_and_set_params_round_trip(name):
    params = unfitted(name).get_params()
    other = type(unfitted(name))()
    assert other.set_params(**params) is other
    assert other.get_params() == params


@tool_model
def test_fit_returns_self_and_leaves_parameters_alone(name):
    model = unfitted(name)
    before = dict(vars(model))
    assert model.fit(BAGS, Y) is model
    assert all(vars(model)[param] is value for param, value in before.items())


@every_fitted
def test_learnt_names_end_in_an_underscore(name):
    learnt = set(vars(fitted(name))) - set(fitted(name).get_params())
    assert all(name.endswith("_") or name.startswith("_") for name in learnt)


@every_fitted
def test_not_fitted(name):
    for method in ("predict", "predict_proba", "predict_dist"):
        with pytest.raises(NotFittedError):
            getattr(unfitted(name), method)(NEW)
    with pytest.raises(NotFittedError):
        unfitted(name).score(NEW, NEW_Y)


# ---- scikit-learn's tools -----------------------------------------------------------------------


@refitted_model
def test_is_a_classifier(name):
    assert is_classifier(unfitted(name))


@every_fitted
def test_score_is_accuracy(name):
    predicted, weights = fitted(name).predict(NEW), np.linspace(1, 2, len(NEW_Y))
    y = new_labels(name)
    assert fitted(name).score(NEW, y) == accuracy_score(y, predicted) > 0.7
    assert_allclose(
        fitted(name).score(NEW, y, sample_weight=weights),
        accuracy_score(y, predicted, sample_weight=weights),
    )


@tool_model
def test_cross_validation(name):
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    predicted = cross_val_predict(unfitted(name), ARRAYS, Y, cv=folds, method="predict_proba")
    assert predicted.shape == (len(Y), 2)
    assert_allclose(predicted.sum(axis=1), 1.0, rtol=1e-12)
    assert roc_auc_score(Y, predicted[:, 1]) > 0.8
    train, test = next(folds.split(Y, Y))
    by_hand = unfitted(name).fit(BAGS[train], Y[train])
    assert_array_equal(predicted[test], by_hand.predict_proba(BAGS[test]))


@tool_model
def test_scorers(name):
    names = ["accuracy", "neg_log_loss", "roc_auc", "neg_brier_score"]
    found = cross_validate(
        unfitted(name), BAGS, Y.astype(int), cv=2, scoring=names, error_score="raise"
    )
    scores = {scoring: found[f"test_{scoring}"] for scoring in names}
    assert scores["accuracy"].min() > 0.6 and scores["roc_auc"].min() > 0.7
    train, test = next(StratifiedKFold(2).split(Y, Y))
    p = proba(unfitted(name).fit(BAGS[train], Y[train]), BAGS[test])
    assert_allclose(scores["neg_log_loss"][0], -log_loss(Y[test], p))
    assert_allclose(scores["neg_brier_score"][0], -brier_score_loss(Y[test], p))
    assert_allclose(scores["roc_auc"][0], roc_auc_score(Y[test], p))


@tool_model
def test_train_test_split(name):
    train, test, y_train, y_test = train_test_split(ARRAYS, Y, test_size=0.3, stratify=Y)
    assert unfitted(name).fit(train, y_train).predict(test).shape == y_test.shape


@tool_model
def test_grid_search(name):
    grid = {"embedding__n_landmarks": [6, 1], "class_weight": ["balanced"]}
    search = GridSearchCV(
        unfitted(name), grid, cv=2, scoring="neg_log_loss", error_score="raise"
    ).fit(BAGS, Y)
    by_hand = unfitted(name).set_params(**search.best_params_).fit(BAGS, Y)
    assert search.best_params_["embedding__n_landmarks"] == 6
    assert_array_equal(search.classes_, [False, True])
    assert_array_equal(search.predict_proba(NEW), by_hand.predict_proba(NEW))


@tool_model
def test_pipeline_with_a_pointwise_transformer(name):
    pipeline = make_pipeline(PointwiseTransformer(StandardScaler()), unfitted(name)).fit(BAGS, Y)
    direct = fitted(name)  # it standardises by itself, so once more changes nothing
    assert_allclose(pipeline.predict_proba(NEW_ARRAYS), direct.predict_proba(NEW), atol=1e-5)
    assert_array_equal(pipeline.classes_, [False, True])
    assert pipeline.score(NEW, NEW_Y) == direct.score(NEW, NEW_Y)


@tool_model
def test_three_classes_one_against_the_rest(name):
    model = OneVsRestClassifier(unfitted(name)).fit(BAGS, HEIGHTS)
    assert_array_equal(model.classes_, ["high", "low", "middle"])
    assert_allclose(model.predict_proba(NEW).sum(axis=1), 1.0)
    assert model.score(NEW_ARRAYS, NEW_HEIGHTS) > 0.7


@tool_model
def test_cross_validation_passes_sample_weight(name):
    weights = np.linspace(0.5, 1.5, len(Y))
    options = {"params": {"sample_weight": weights}, "cv": 2, "error_score": "raise"}
    assert np.isfinite(cross_val_score(unfitted(name), BAGS, Y, **options)).all()


# ---- classes ------------------------------------------------------------------------------------

LABELS = {
    "int": np.array([3, 8]),
    "int8": np.array([-1, 1], dtype=np.int8),
    "float": np.array([-1.0, 2.0]),
    "bool": np.array([False, True]),
    "str": np.array(["no", "yes"]),
    "object": np.array(["no", "yes"], dtype=object),
}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("shrinkage", kind) for kind in LABELS),
        ("bdr-laplace", "str"),
        ("logistic-laplace", "int"),
    ],
)
def test_classes_keep_their_type(name, kind):
    classes = LABELS[kind]
    model = unfitted(name).fit(BAGS, classes[Y.astype(int)])
    assert_array_equal(model.classes_, classes, strict=True)
    assert_array_equal(model.predict_proba(NEW), fitted(name).predict_proba(NEW))
    predicted = model.predict(NEW)
    assert predicted.dtype == classes.dtype
    assert_array_equal(predicted, classes[fitted(name).predict(NEW).astype(int)])
    assert model.score(NEW, classes[NEW_Y.astype(int)]) == fitted(name).score(NEW, NEW_Y)


@pytest.mark.parametrize(
    "given",
    [Y.tolist(), Y[:, None], pd.Series(Y), pd.Series(Y).astype(object), pd.array(Y)],
    ids=["list", "column", "Series", "objects", "extension array"],
)
def test_labels_come_in_many_forms(given):
    model = unfitted("shrinkage").fit(BAGS, given)
    assert model.classes_.tolist() == [False, True]
    assert_array_equal(model.predict_proba(NEW), fitted("shrinkage").predict_proba(NEW))


def test_categories_are_classes():
    given = pd.Series(np.where(Y, "wide", "narrow")).astype("category")
    model = unfitted("shrinkage").fit(BAGS, given)
    assert model.classes_.tolist() == ["narrow", "wide"]
    assert set(model.predict(NEW)) == {"narrow", "wide"}


# ---- fit is a function of its arguments ---------------------------------------------------------


@every_fitted
def test_pickling_keeps_every_bit(name):
    twin = pickle.loads(pickle.dumps(fitted(name)))
    assert_array_equal(twin.predict_proba(NEW), fitted(name).predict_proba(NEW))
    assert_array_equal(twin.classes_, fitted(name).classes_)


@core_or_sampled
def test_fitting_twice_is_fitting_once(name):
    once = unfitted(name).fit(BAGS, Y)
    first = once.predict_proba(NEW)
    assert_array_equal(once.fit(BAGS, Y).predict_proba(NEW), first)


@refitted_model
def test_refit_forgets_other_data(name):
    arrays, y = make_data(2, n_bags=20, n_features=3)
    other = Bags.from_list(arrays, feature_names=list("abc")).with_log_size()
    model = unfitted(name).fit(other, np.where(y, "high", "low"))
    model.fit(BAGS, labels(name))
    assert set(vars(model)) == set(vars(fitted(name)))
    assert_array_equal(model.classes_, np.unique(labels(name)))
    assert_array_equal(model.predict_proba(NEW), fitted(name).predict_proba(NEW))


@refitted_model
def test_a_fit_that_fails_leaves_nothing_fitted(name):
    model = unfitted(name)
    with pytest.raises(ValueError, match="two classes"):
        model.fit(BAGS, np.zeros(len(Y)))
    with pytest.raises(NotFittedError):
        model.predict(NEW)


@tool_model
def test_inputs_are_not_changed(name):
    rng = np.random.default_rng(3)
    bags = Bags.from_list(
        ARRAYS,
        weights=[rng.uniform(0.5, 1, len(array)) for array in ARRAYS],
        covariates=rng.normal(size=(len(ARRAYS), 1)),
    )
    y, sample_weight = np.where(Y, "b", "a"), rng.uniform(0.5, 1, len(Y))
    class_weight = {"a": 1.0, "b": 2.0}
    given = {name: getattr(bags, name) for name in ("points", "offsets", "weights", "covariates")}
    given |= {"labels": y, "sample weights": sample_weight}
    before = {name: array.copy() for name, array in given.items()}
    model = unfitted(name).set_params(class_weight=class_weight)
    model.fit(bags, y, sample_weight).predict_proba(bags)
    assert class_weight == {"a": 1.0, "b": 2.0}
    for what, array in given.items():
        assert_array_equal(array, before[what], err_msg=what)


@tool_model
def test_read_only_inputs_will_do(name):
    arrays, y = [array.copy() for array in ARRAYS], Y.copy()
    for array in (*arrays, y):
        array.flags.writeable = False
    assert_array_equal(unfitted(name).fit(arrays, y).predict(NEW), fitted(name).predict(NEW))


@tool_model
def test_same_seed_same_fit_and_another_seed_another(name):
    a, b, c = (seeded(unfitted(name), seed).fit(BAGS, Y) for seed in (5, 5, 6))
    assert_array_equal(a.predict_proba(NEW), b.predict_proba(NEW))
    assert not np.allclose(a.landmarks_, c.landmarks_)
    assert not np.array_equal(a.predict_proba(NEW), c.predict_proba(NEW))
    assert_allclose(proba(a), proba(c), atol=0.25)


@pytest.mark.parametrize(
    "seed",
    [None, np.int64(3), np.random.default_rng(0), np.random.RandomState(0)],
    ids=["None", "int64", "Generator", "RandomState"],
)
def test_every_kind_of_random_state(seed):
    model = seeded(unfitted("bdr-laplace"), seed)
    assert np.isfinite(model.fit(BAGS, Y).predict_proba(NEW)).all()


@tool_model
def test_parameters_set_after_the_fit_wait_for_the_next(name):
    model = unfitted(name).fit(BAGS, Y)
    others = {"embedding__kernel": "matern12", "embedding__bandwidth": 4.0}
    others["class_weight"] = "balanced"
    assert_array_equal(
        model.set_params(**others).predict_proba(NEW), fitted(name).predict_proba(NEW)
    )
