"""Tuning: the candidates, their scores, the fit that is kept, and features computed once."""

import gc
import math
import weakref

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, ParameterGrid

import bagwise.estimators.selection
from bagwise import (
    Bags,
    BayesianLinearRegressor,
    FourierEmbedding,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
    tune,
)
from bagwise.estimators.selection import PAPER_GRID, FeatureCache, paper_grid
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError
from bagwise.predictions.metrics import mse, nll
from contract_models import params_of

FEATURE_GRID = {"embedding__n_landmarks": [3, 6], "embedding__bandwidth": [0.5, 1.0]}


def make_data(seed, n_bags=24):
    rng = np.random.default_rng(seed)
    level = rng.uniform(1, 2, n_bags)
    sizes = rng.integers(2, 9, n_bags)
    arrays = [rng.normal(x, 0.5, (n, 2)) for x, n in zip(level, sizes, strict=True)]
    return Bags.from_list(arrays), level


BAGS, Y = make_data(0)
VALIDATION = make_data(1, n_bags=12)
NEW, _ = make_data(2, n_bags=6)

ESTIMATORS = {
    "network": (RBFNetworkRegressor(), FEATURE_GRID | {"penalty": ["loo", 1e-2]}),
    "bayesian": (BayesianLinearRegressor(), FEATURE_GRID | {"weight_var": ["evidence", 10.0]}),
    "frequentist": (FrequentistShrinkageRegressor(prior_scale=1.0), FEATURE_GRID),
    "shrinkage": (ShrinkageRegressor(weight_var=10.0), FEATURE_GRID),
    "convolved": (ShrinkageRegressor(prior="convolved", weight_var=10.0), FEATURE_GRID),
    "embedding": (
        MeanEmbeddingRidge(),
        {"embedding__bandwidth": [0.5, 1.0], "penalty": ["loo", 1.0]},
    ),
}
every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


@pytest.fixture
def calls(monkeypatch):
    """Arguments of every call of summarise by the tuning."""
    seen = []
    summarise = bagwise.selection.summarise

    def counting(bags, features, **options):
        seen.append((bags, features))
        return summarise(bags, features, **options)

    monkeypatch.setattr(bagwise.estimators.selection, "summarise", counting)
    return seen


def assert_same_prediction(a, b):
    assert_array_equal(a.predict_dist(NEW).mean, b.predict_dist(NEW).mean)
    assert_array_equal(a.predict_dist(NEW).var, b.predict_dist(NEW).var)


# ---- what is found ------------------------------------------------------------------------------


@every_estimator
@pytest.mark.parametrize("validation", [VALIDATION, None], ids=["validation", "folds"])
def test_tune(name, validation):
    estimator, grid = ESTIMATORS[name]
    cv = 3 if validation is None else None
    found = tune(estimator, BAGS, Y, validation=validation, grid=grid, cv=cv)
    assert len(found.table) == len(ParameterGrid(grid))
    scores = [row["score"] for row in found.table]
    assert scores == sorted(scores) and all(map(math.isfinite, scores))
    assert {key: found.table[0][key] for key in grid} == found.params
    assert found.score == scores[0]
    assert found.metric == estimator.tuning_metric
    assert {tuple(row[key] for key in grid) for row in found.table} == {
        tuple(candidate[key] for key in grid) for candidate in ParameterGrid(grid)
    }
    fresh = clone(estimator).set_params(**found.params).fit(BAGS, Y)
    assert params_of(found.estimator) == params_of(fresh)
    assert set(vars(found.estimator)) == set(vars(fresh))
    assert_same_prediction(found.estimator, fresh)


@pytest.mark.parametrize("name", ["network", "shrinkage", "embedding"])
@pytest.mark.parametrize(("metric", "score"), [("nll", nll), ("mse", mse)])
def test_scores_are_those_of_fits_by_hand(name, metric, score):
    estimator, grid = ESTIMATORS[name]
    found = tune(estimator, BAGS, Y, validation=VALIDATION, grid=grid, metric=metric)
    assert found.metric == metric
    for row in found.table:
        params = {key: row[key] for key in grid}
        model = clone(estimator).set_params(**params).fit(BAGS, Y)
        expected = score(model.predict_dist(VALIDATION[0]), VALIDATION[1])
        assert_allclose(row["score"], expected, rtol=1e-10)


def test_scores_of_folds_are_averages_by_hand():
    estimator, grid = BayesianLinearRegressor(KernelEmbedding(5)), {"embedding__bandwidth": [1.0]}
    found = tune(estimator, BAGS, Y, grid=grid, cv=4)
    scores = []
    for train, test in KFold(4, shuffle=True, random_state=0).split(Y):
        model = clone(estimator).set_params(embedding__bandwidth=1.0).fit(BAGS[train], Y[train])
        scores.append(nll(model.predict_dist(BAGS[test]), Y[test]))
    assert_allclose(found.score, np.mean(scores), rtol=1e-10)


def test_parameters_of_the_embedding_may_go_without_its_name():
    short = {name.removeprefix("embedding__"): values for name, values in FEATURE_GRID.items()}
    options = {"validation": VALIDATION, "progress": False}
    found = tune(BayesianLinearRegressor(), BAGS, Y, grid=short, **options)
    full = tune(BayesianLinearRegressor(), BAGS, Y, grid=FEATURE_GRID, **options)
    assert found.params == full.params and found.table == full.table


def test_the_best_candidate_is_found():
    """Labels are a smooth function of the points, so weights of almost no size must lose."""
    grid = {
        "embedding__n_landmarks": [6],
        "embedding__bandwidth": [1.0],
        "weight_var": [1e-8, "evidence"],
    }
    for validation in (VALIDATION, None):
        found = tune(BayesianLinearRegressor(), BAGS, Y, grid=grid, validation=validation)
        assert found.params["weight_var"] == "evidence"


def test_the_estimator_and_the_grid_are_left_alone():
    estimator, grid = BayesianLinearRegressor(), dict(FEATURE_GRID)
    tune(estimator, BAGS, Y, validation=VALIDATION, grid=grid)
    assert params_of(estimator) == params_of(BayesianLinearRegressor())
    assert not hasattr(estimator, "head_")
    assert grid == FEATURE_GRID


def test_lists_of_arrays_will_do():
    grid = {"embedding__n_landmarks": [4], "embedding__bandwidth": [1.0]}
    found = tune(
        BayesianLinearRegressor(), list(BAGS), Y, validation=(list(VALIDATION[0]), VALIDATION[1]),
        grid=grid,
    )  # fmt: skip
    expected = tune(BayesianLinearRegressor(), BAGS, Y, validation=VALIDATION, grid=grid)
    assert found.score == expected.score


def test_covariates_and_weights_are_used():
    rng = np.random.default_rng(0)
    age, new_age = rng.normal(size=BAGS.n_bags), rng.normal(size=VALIDATION[0].n_bags)
    found = tune(
        BayesianLinearRegressor(KernelEmbedding(4)),
        BAGS.with_covariates(age),
        5 * age + 0.01 * Y,
        validation=(VALIDATION[0].with_covariates(new_age), 5 * new_age + 0.01 * VALIDATION[1]),
        grid={"embedding__bandwidth": [1.0, 2.0]},
        metric="mse",
    )
    assert found.score < 0.01


def test_automatic_bandwidth_is_a_candidate_like_others():
    grid = {"embedding__bandwidth": ["auto", 1.0], "embedding__n_landmarks": [6]}
    for validation in (VALIDATION, None):
        found = tune(
            ShrinkageRegressor(weight_var=10.0),
            BAGS,
            Y,
            grid=grid,
            validation=validation,
            cv=2 if validation is None else None,
        )
        assert {row["embedding__bandwidth"] for row in found.table} == {"auto", 1.0}
        fresh = ShrinkageRegressor(weight_var=10.0).set_params(**found.params).fit(BAGS, Y)
        assert_same_prediction(found.estimator, fresh)
    grid = {"embedding__bandwidth": ["auto"]}
    only = tune(BayesianLinearRegressor(), BAGS, Y, grid=grid, validation=VALIDATION)
    assert_same_prediction(only.estimator, BayesianLinearRegressor().fit(BAGS, Y))


def test_no_progress_bar_in_a_log(capsys):
    tune(BayesianLinearRegressor(), BAGS, Y, validation=VALIDATION, grid=FEATURE_GRID)
    assert capsys.readouterr() == ("", "")


# ---- the paper's grid ---------------------------------------------------------------------------


SHARED = ["embedding__n_landmarks", "embedding__bandwidth"]
WAVES = ["embedding__n_features", "embedding__bandwidth", "weight_var"]


@pytest.mark.parametrize(
    ("estimator", "names"),
    [
        (RBFNetworkRegressor(), [*SHARED, "penalty"]),
        (BayesianLinearRegressor(), [*SHARED, "weight_var"]),
        (FrequentistShrinkageRegressor(), [*SHARED, "penalty"]),
        (ShrinkageRegressor(), [*SHARED, "weight_var"]),
        (BayesianLinearRegressor(FourierEmbedding()), WAVES),
        (MeanEmbeddingRidge(exact=False), [*SHARED, "penalty"]),
        (MeanEmbeddingRidge(), ["embedding__bandwidth", "penalty"]),
    ],
    ids=lambda value: type(value).__name__ if hasattr(value, "fit") else "",
)
def test_paper_grid(estimator, names):
    grid = paper_grid(estimator)
    assert list(grid) == names
    assert all(grid[name] == PAPER_GRID[name] for name in names)
    assert grid["embedding__bandwidth"] == (0.5, 0.75, 1.0, 1.25, 1.5)
    automatic = {"penalty": "loo", "weight_var": "evidence"}
    assert all(automatic[name] in grid[name] for name in grid if name in automatic)


def test_paper_grid_is_the_default(monkeypatch):
    monkeypatch.setitem(PAPER_GRID, "embedding__n_landmarks", (3, 4))
    monkeypatch.setitem(PAPER_GRID, "embedding__bandwidth", (1.0,))
    monkeypatch.setitem(PAPER_GRID, "weight_var", ("evidence", 1.0))
    found = tune(BayesianLinearRegressor(), BAGS, Y, validation=VALIDATION)
    assert len(found.table) == 4


# ---- features are shared ------------------------------------------------------------------------


def test_features_once_per_setting_with_validation(calls):
    grid = FEATURE_GRID | {"weight_var": ["evidence", 0.1, 1.0, 10.0]}
    tune(BayesianLinearRegressor(), BAGS, Y, validation=VALIDATION, grid=grid)
    assert len(calls) == 4 * 2  # settings × (training bags, validation bags)
    assert len({(id(bags), id(features)) for bags, features in calls}) == len(calls)


def test_features_once_per_setting_and_fold(calls):
    grid = {
        "embedding__n_landmarks": [3, 6],
        "embedding__bandwidth": [1.0],
        "weight_var": ["evidence", 0.1, 10.0],
    }
    tune(BayesianLinearRegressor(), BAGS, Y, grid=grid, cv=3)
    assert len(calls) == 2 * 3 * 2 + 1  # settings × folds × (train, test), and the fit to all


def test_a_cache_is_shared_between_estimators(calls):
    cache = FeatureCache()
    options = {"validation": VALIDATION, "cache": cache}
    for estimator, extra in (
        (BayesianLinearRegressor(), {"weight_var": [1.0, 10.0]}),
        (RBFNetworkRegressor(), {"penalty": ["loo", 1e-2]}),
        (ShrinkageRegressor(weight_var=10.0), {}),
    ):
        found = tune(estimator, BAGS, Y, grid=FEATURE_GRID | extra, **options)
        alone = tune(estimator, BAGS, Y, grid=FEATURE_GRID | extra, validation=VALIDATION)
        assert found.table == alone.table
        assert_same_prediction(found.estimator, alone.estimator)
    shared = len({(id(bags), id(features)) for bags, features in calls})
    assert len(calls) == 4 * 2 * (1 + 3)  # once for the cache, and once for each that was alone
    assert shared == len(calls)


def test_a_cache_tells_settings_apart(calls):
    cache = FeatureCache()
    grid = {"embedding__bandwidth": [1.0]}
    for estimator in (
        BayesianLinearRegressor(),
        BayesianLinearRegressor(KernelEmbedding(random_state=1)),
        BayesianLinearRegressor(KernelEmbedding(kernel="matern32")),
        BayesianLinearRegressor(KernelEmbedding(landmarks="random")),
        BayesianLinearRegressor(FourierEmbedding()),
        BayesianLinearRegressor(KernelEmbedding(standardize=False)),
        ShrinkageRegressor(KernelEmbedding(function_landmarks=np.ones((2, 2))), weight_var=10.0),
    ):
        found = tune(estimator, BAGS, Y, validation=VALIDATION, grid=grid, cache=cache)
        assert_same_prediction(
            found.estimator, clone(estimator).set_params(**found.params).fit(BAGS, Y)
        )
    assert len(calls) == 7 * 2


def test_a_cache_never_takes_new_bags_for_old_ones():
    """Bags that are gone leave their id to others, so those in the cache must not go."""
    cache = FeatureCache()
    estimator = BayesianLinearRegressor(KernelEmbedding(4, bandwidth=1.0))
    alive = []
    for seed in range(3):
        bags, _ = make_data(seed, n_bags=12)
        means = cache.pooled(estimator, bags).stats.mean
        alive.append(weakref.ref(bags))
        expected = FeatureCache().pooled(estimator, bags).stats.mean
        assert_array_equal(means, expected)
        del bags
        gc.collect()
    assert all(reference() is not None for reference in alive)


# ---- errors -------------------------------------------------------------------------------------


def test_unknown_metric():
    with pytest.raises(ValueError, match=r"metric is 'r2'; expected \"nll\" or \"mse\"\. Try"):
        tune(BayesianLinearRegressor(), BAGS, Y, metric="r2")


def test_unknown_parameter():
    with pytest.raises(ValueError, match=r"Invalid parameter 'bandwith' for estimator Bayesian"):
        tune(BayesianLinearRegressor(), BAGS, Y, grid={"bandwith": [1.0]})


def test_wrong_value_of_a_parameter():
    with pytest.raises(ValueError, match="bandwidth is -1; expected a finite number > 0"):
        tune(BayesianLinearRegressor(), BAGS, Y, grid={"embedding__bandwidth": [-1]})


@pytest.mark.parametrize(
    "validation", [(VALIDATION[0], Y), (VALIDATION[0], VALIDATION[1] * np.nan)]
)
def test_wrong_labels(validation):
    with pytest.raises(InvalidLabelsError, match="label"):
        tune(BayesianLinearRegressor(), BAGS, Y, validation=validation, grid=FEATURE_GRID)
    with pytest.raises(InvalidLabelsError, match="there are 12 labels for 24 bags"):
        tune(BayesianLinearRegressor(), BAGS, VALIDATION[1], grid=FEATURE_GRID)


@every_estimator
def test_validation_bags_with_other_columns(name):
    estimator, grid = ESTIMATORS[name]
    held_out, y = VALIDATION
    named = BAGS.with_points(BAGS.points, ["a", "b"])
    other = held_out.with_points(held_out.points, ["b", "a"])
    with pytest.raises(InvalidBagsError, match="in another order than in fit"):
        tune(estimator, named, Y, validation=(other, y), grid=grid)
    with pytest.raises(InvalidBagsError, match="1 features; expected 2"):
        narrow = held_out.with_points(held_out.points[:, :1])
        tune(estimator, BAGS, Y, validation=(narrow, y), grid=grid)
    with pytest.raises(InvalidBagsError, match="0 covariates; expected 1"):
        tune(estimator, BAGS.with_log_size(), Y, validation=VALIDATION, grid=grid)
    with pytest.raises(InvalidBagsError, match="1 covariates; expected 0"):
        tune(estimator, BAGS, Y, validation=(held_out.with_log_size(), y), grid=grid)
