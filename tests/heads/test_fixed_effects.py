"""Fixed effects: intercept and covariates, in every units and however collinear."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dense_oracle
from bagwise.bags.bags import Bags
from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.exceptions import InvalidBagsError
from bagwise.heads.base import FixedEffects
from linear_data import FIXED

# ---------------------------------------------------------------- fixed effects


def test_fixed_effects_are_orthogonal_with_mean_square_one():
    C = np.random.default_rng(0).normal(5.0, [1.0, 100.0, 1e-3], (40, 3))
    design = FixedEffects.fit(C, np.ones(40)).design(C, 40)
    assert_allclose(design.T @ design / 40, np.eye(4), atol=1e-10)
    assert np.linalg.matrix_rank(np.column_stack([design, np.ones(40), C])) == 4


def test_coefficients_of_fixed_effects_come_back_in_the_units_of_the_covariates():
    rng = np.random.default_rng(0)
    C = rng.normal(5.0, [1.0, 100.0, 1e-3], (40, 3))
    effects = FixedEffects.fit(C, np.ones(40))
    gamma = rng.normal(size=4)
    intercept, slopes = effects.unmix(gamma)
    new = rng.normal(5.0, [1.0, 100.0, 1e-3], (7, 3))
    assert_allclose(intercept + new @ slopes, effects.design(new, 7) @ gamma, rtol=1e-8)


def test_without_covariates_there_is_the_intercept_alone():
    effects = FixedEffects.fit(None, np.ones(5))
    assert_allclose(np.abs(effects.design(None, 3)), np.ones((3, 1)))


@pytest.mark.parametrize(
    "make", [RBFNetworkRegressor, BayesianLinearRegressor, ShrinkageRegressor, MeanEmbeddingRidge]
)
def test_dummies_that_add_up_to_one_predict_like_all_but_one_of_them(make):
    bags, y = dense_oracle.scale_bags(n_bags=30)
    group = np.arange(30) % 3
    dummies = np.column_stack([np.eye(3)[group], np.full(30, 4.0)])  # and a constant column
    y = y + 0.5 * group
    embedding = None if make is MeanEmbeddingRidge else FIXED
    found = []
    for columns in ([0, 1, 2, 3], [0, 1]):
        given = Bags.from_list(bags, covariates=dummies[:, columns])
        found.append(make(embedding).fit(given, y).predict_dist(given))
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-4)
    assert_allclose(found[0].std, found[1].std, rtol=1e-3)


def test_units_of_covariates_do_not_matter():
    bags, y = dense_oracle.scale_bags(n_bags=30)
    C = np.random.default_rng(0).normal(size=(30, 2))
    y = y + C @ [0.3, -0.2]
    found = []
    for units in (1.0, [1e5, 1e-5]):
        given = Bags.from_list(bags, covariates=C * units + 7.0)
        found.append(BayesianLinearRegressor(FIXED).fit(given, y).predict_dist(given))
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-6)
    assert_allclose(found[0].std, found[1].std, rtol=1e-5)


@pytest.mark.parametrize("n_covariates", [9, 30])
def test_as_many_covariates_as_bags_are_refused(n_covariates):
    bags, y = dense_oracle.scale_bags(n_bags=10)
    C = np.random.default_rng(0).normal(size=(10, n_covariates))
    with pytest.raises(InvalidBagsError, match=f"there are {n_covariates} covariates for 10 bags"):
        RBFNetworkRegressor(FIXED).fit(Bags.from_list(bags, covariates=C), y)
