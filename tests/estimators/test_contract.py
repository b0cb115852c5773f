"""What scikit-learn and its users expect of every estimator."""

import inspect
import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    cross_val_predict,
    cross_val_score,
    train_test_split,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from bagwise import (
    Bags,
    BayesianLinearRegressor,
    BDRRegressor,
    DistributionGPRegressor,
    FourierEmbedding,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    PointwiseTransformer,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.inference import Priors
from contract_models import (
    ARRAYS,
    BAGS,
    MODELS,
    NEW,
    NEW_ARRAYS,
    NEW_Y,
    SMALL,
    Y,
    assert_same_prediction,
    core_model,
    core_or_sampled,
    every_class,
    every_fitted,
    fitted,
    make_data,
    params_of,
    refitted_model,
    seeded,
    tool_model,
    unfitted,
)

# ---- parameters ---------------------------------------------------------------------------------


@every_class
def test_init_only_stores(cls):
    odd = {
        "embedding": KernelEmbedding(-3),
        "exact": False,
        "covariance_floor": -1.5,
        "second_scale": -1.5,
    }
    odd["priors"] = Priors(noise=1e9)
    values = {
        name: odd.get(name, object() if parameter.annotation in ("Any", Any) else "no such word")
        for name, parameter in inspect.signature(cls).parameters.items()
    }
    stored = vars(cls(**values))  # no check, no copy, no conversion
    assert stored.keys() == values.keys()
    assert all(stored[name] is value for name, value in values.items())


@every_class
def test_an_embedding_and_at_most_eight_other_parameters_by_name(cls):
    first, *others = inspect.signature(cls).parameters.values()
    assert first.name == "embedding" and len(others) <= 8
    assert {parameter.kind for parameter in others} == {inspect.Parameter.KEYWORD_ONLY}


@every_fitted
def test_clone_has_the_same_parameters_and_is_not_fitted(name):
    twin = clone(fitted(name))
    assert params_of(twin) == params_of(fitted(name))
    assert set(vars(twin)) == set(twin.get_params(deep=False))
    assert repr(twin) == repr(fitted(name))


@every_fitted
def test_get_and_set_params_round_trip(name):
    model = unfitted(name)
    params = model.get_params()
    other = type(model)()
    assert other.set_params(**params) is other
    assert other.get_params() == params
    assert set(model.get_params(deep=False)) == set(inspect.signature(type(model)).parameters)


@every_class
def test_set_params_refuses_unknown_names(cls):
    with pytest.raises(ValueError, match="Invalid parameter 'bandwith'"):
        cls().set_params(bandwith=1.0)


@tool_model
def test_fit_returns_self_and_leaves_parameters_alone(name):
    model = unfitted(name)
    before = dict(vars(model))
    assert model.fit(BAGS, Y) is model
    assert all(vars(model)[param] is value for param, value in before.items())


@every_fitted
def test_learnt_names_end_in_an_underscore(name):
    model = fitted(name)
    learnt = set(vars(model)) - set(model.get_params())
    assert all(name.endswith("_") or name.startswith("_") for name in learnt)


# ---- scikit-learn's tools -----------------------------------------------------------------------


@every_fitted
def test_is_a_regressor(name):
    assert is_regressor(unfitted(name))


@pytest.mark.crossed
@tool_model
@pytest.mark.parametrize("X", [BAGS, ARRAYS], ids=["Bags", "list"])
def test_cross_validation(name, X):
    folds = KFold(2, shuffle=True, random_state=0)
    model = unfitted(name)
    scores = cross_val_score(model, X, Y, cv=folds)
    predicted = cross_val_predict(model, X, Y, cv=folds)
    assert scores.shape == (2,) and np.isfinite(scores).all()
    assert predicted.shape == Y.shape
    assert r2_score(Y, predicted) > 0.3
    train, test = next(folds.split(Y))
    by_hand = clone(model).fit(BAGS[train], Y[train])
    assert_array_equal(predicted[test], by_hand.predict(BAGS[test]))
    assert scores[0] == by_hand.score(BAGS[test], Y[test])


@tool_model
@pytest.mark.parametrize("X", [BAGS, ARRAYS], ids=["Bags", "list"])
def test_train_test_split(name, X):
    train, test, y_train, y_test = train_test_split(X, Y, test_size=0.3, random_state=0)
    assert len(train) == len(y_train) and len(test) == len(y_test)
    assert unfitted(name).fit(train, y_train).predict(test).shape == y_test.shape


GRIDS = {
    RBFNetworkRegressor: {"penalty": [1e-3, 1e6]},
    BayesianLinearRegressor: {"weight_var": [10.0, 1e-9]},
    FrequentistShrinkageRegressor: {"penalty": [1e-3, 1e6]},
    ShrinkageRegressor: {"weight_var": [10.0, 1e-9]},
    BDRRegressor: {"embedding__n_landmarks": [8, 1]},
    DistributionGPRegressor: {"embedding__n_landmarks": [8, 1]},
    MeanEmbeddingRidge: {"penalty": [1e-3, 1e6]},
}


@pytest.mark.crossed
@tool_model
@pytest.mark.parametrize("X", [BAGS, ARRAYS], ids=["Bags", "list"])
def test_grid_search(name, X):
    grid = GRIDS[type(MODELS[name])]
    (param, (good, _)), *_ = grid.items()
    search = GridSearchCV(unfitted(name), grid, cv=2, error_score="raise").fit(X, Y)
    assert search.best_params_ == {param: good}
    by_hand = unfitted(name).set_params(**{param: good}).fit(BAGS, Y)
    assert_array_equal(search.predict(NEW), by_hand.predict(NEW))


@tool_model
@pytest.mark.parametrize(("X", "new"), [(BAGS, NEW), (ARRAYS, NEW_ARRAYS)], ids=["Bags", "list"])
def test_pipeline_with_a_pointwise_transformer(name, X, new):
    pipeline = make_pipeline(PointwiseTransformer(StandardScaler()), unfitted(name))
    mean, std = pipeline.fit(X, Y).predict(new, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    direct = fitted(name).predict(NEW)  # it standardises by itself, so once more changes nothing
    assert_allclose(mean, direct, atol=1e-6 * Y.std())
    assert_allclose(pipeline.score(new, NEW_Y), r2_score(NEW_Y, mean))


def test_grid_search_reaches_into_a_pipeline():
    pipeline = make_pipeline(
        PointwiseTransformer(StandardScaler()),
        BayesianLinearRegressor(KernelEmbedding(bandwidth=1.0)),
    )
    name = "bayesianlinearregressor__embedding__n_landmarks"
    grid = {name: [2, 8]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(BAGS, Y)
    assert search.best_params_[name] in (2, 8)


@tool_model
def test_cross_validation_passes_sample_weight(name):
    weights = np.linspace(0.5, 1.5, len(Y))
    options = {"params": {"sample_weight": weights}, "cv": 2, "error_score": "raise"}
    assert np.isfinite(cross_val_score(unfitted(name), BAGS, Y, **options)).all()


@every_fitted
def test_all_forms_of_bags_give_the_same(name):
    groups = np.repeat(np.arange(NEW.n_bags), NEW.sizes)
    objects = np.empty(NEW.n_bags, dtype=object)
    objects[:] = NEW_ARRAYS
    expected = fitted(name).predict(NEW)
    for form in (NEW_ARRAYS, (NEW.points, groups), objects, tuple(NEW_ARRAYS)):
        assert_array_equal(fitted(name).predict(form), expected)


@tool_model
def test_labels_may_be_lists_integers_or_a_column(name):
    whole = np.round(Y).astype(int)
    expected = unfitted(name).fit(BAGS, whole.astype(float)).predict(NEW)
    for labels in (whole.tolist(), whole[:, None], whole.astype(np.float32)):
        assert_array_equal(unfitted(name).fit(BAGS, labels).predict(NEW), expected)


# ---- fit is a function of its arguments ---------------------------------------------------------


@every_fitted
def test_pickling_keeps_every_bit(name):
    twin = pickle.loads(pickle.dumps(fitted(name)))
    assert_same_prediction(twin.predict_dist(NEW), fitted(name).predict_dist(NEW))


@core_or_sampled
def test_fitting_twice_is_fitting_once(name):
    once = unfitted(name).fit(BAGS, Y)
    first = once.predict_dist(NEW)
    assert_same_prediction(once.fit(BAGS, Y).predict_dist(NEW), first)


@refitted_model
def test_refit_forgets_other_data(name):
    arrays, y = make_data(2, n_bags=20, n_features=3)
    other = Bags.from_list(arrays, feature_names=list("abc")).with_log_size()
    model = unfitted(name).fit(other, y)
    model.fit(BAGS, Y)
    assert set(vars(model)) == set(vars(fitted(name)))
    assert model.n_features_in_ == 2
    assert_same_prediction(model.predict_dist(NEW), fitted(name).predict_dist(NEW))


def test_refit_forgets_landmarks_when_there_are_none():
    model = BayesianLinearRegressor(SMALL).fit(BAGS, Y)
    assert hasattr(model, "landmarks_")
    model.set_params(embedding=FourierEmbedding()).fit(BAGS, Y)
    assert not hasattr(model, "landmarks_")


@tool_model
def test_parameters_set_after_the_fit_wait_for_the_next(name):
    model = unfitted(name).fit(BAGS, Y)
    before = model.predict_dist(NEW)
    others = {"kernel": "matern12", "bandwidth": 4.0, "standardize": False}
    others = {f"embedding__{name}": value for name, value in others.items()}
    if isinstance(model, MeanEmbeddingRidge):
        linear = model.second_level == "linear"
        others["second_level"] = "gaussian" if linear else "linear"
    assert_same_prediction(model.set_params(**others).predict_dist(NEW), before)


@refitted_model
def test_a_fit_that_fails_leaves_nothing_fitted(name):
    model = unfitted(name).set_params(embedding__kernel="no such kernel")
    with pytest.raises(ValueError, match="no such kernel"):
        model.fit(BAGS, Y)
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
    y, sample_weight = Y.copy(), rng.uniform(0.5, 1, len(Y))
    given = {name: getattr(bags, name) for name in ("points", "offsets", "weights", "covariates")}
    given |= {"labels": y, "sample weights": sample_weight}
    before = {name: array.copy() for name, array in given.items()}
    unfitted(name).fit(bags, y, sample_weight).predict(bags)
    for what, array in given.items():
        assert_array_equal(array, before[what], err_msg=what)


@tool_model
def test_read_only_inputs_will_do(name):
    arrays, y = [array.copy() for array in ARRAYS], Y.copy()
    for array in (*arrays, y):
        array.flags.writeable = False
    assert_array_equal(unfitted(name).fit(arrays, y).predict(NEW), fitted(name).predict(NEW))


@core_model
def test_same_seed_same_fit(name):
    a, b = (seeded(unfitted(name), 5).fit(BAGS, Y) for _ in range(2))
    assert_same_prediction(a.predict_dist(NEW), b.predict_dist(NEW))


@refitted_model
def test_another_seed_gives_other_landmarks(name):
    if getattr(MODELS[name], "exact", False):
        pytest.skip("it has no landmarks, and draws only from very many points")
    a, b = (seeded(unfitted(name), seed).fit(BAGS, Y) for seed in (0, 1))
    if isinstance(a.embedding, FourierEmbedding):
        assert not np.allclose(a.features_.frequencies, b.features_.frequencies)
    else:
        assert a.landmarks_.shape == b.landmarks_.shape == (8, 2)
        assert not np.allclose(a.landmarks_, b.landmarks_)


@pytest.mark.crossed
@tool_model
@pytest.mark.parametrize(
    "seed",
    [None, np.int64(3), np.random.default_rng(0), np.random.RandomState(0)],
    ids=["None", "int64", "Generator", "RandomState"],
)
def test_every_kind_of_random_state(name, seed):
    model = seeded(unfitted(name), seed)
    assert np.isfinite(model.fit(BAGS, Y).predict(NEW)).all()
