"""Freq-shrinkage, and labels and weights as all linear heads treat them."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

import dense_oracle
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError
from dense_oracle import (
    rbf,
)
from linear_data import FIXED, network_features, standardised

# ---------------------------------------------------------------- freq-shrinkage


def dense_shrunk_means(model, bags, eta, floor=0.01):
    mean, sizes, cov = network_features(model, bags)
    scaling = model.features_.scaling
    u = (model.landmarks_ - scaling.center) / scaling.scale
    cov = cov + floor * np.trace(cov) / len(u) * np.eye(len(u))
    R, m0 = eta * rbf(u, u, model.bandwidth_), mean.mean(axis=0)
    return np.array(
        [
            m0 + dense_oracle.embedding_posterior(row - m0, size, cov, R, R, R)[0]
            for row, size in zip(mean, sizes, strict=True)
        ]
    )


def test_frequentist_shrinkage_is_ridge_on_the_dense_posterior_means():
    bags, y = dense_oracle.scale_bags()
    model = FrequentistShrinkageRegressor(FIXED, penalty=0.2, prior_scale=0.05).fit(bags, y)
    M = dense_shrunk_means(model, bags, 0.05)
    theirs = Ridge(alpha=0.2).fit(M, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(M), rtol=1e-7)
    assert (model.penalty_, model.prior_scale_) == (0.2, 0.05)


def test_frequentist_shrinkage_chooses_the_least_leave_one_out_error():
    bags, y = dense_oracle.scale_bags(n_bags=40)
    model = FrequentistShrinkageRegressor(FIXED).fit(bags, y)
    grid = model.prior_scale_ * np.logspace(-3, 3, 7)
    each = [FrequentistShrinkageRegressor(FIXED, prior_scale=eta).fit(bags, y) for eta in grid]
    assert model.head_.loss <= min(fit.head_.loss for fit in each) * (1 + 1e-9)


def test_frequentist_shrinkage_with_an_endless_prior_scale_is_the_network():
    bags, y = dense_oracle.scale_bags()
    shrunk = FrequentistShrinkageRegressor(FIXED, penalty=0.2, prior_scale=1e12).fit(bags, y)
    network = RBFNetworkRegressor(FIXED, penalty=0.2).fit(bags, y)
    assert_allclose(shrunk.predict(bags), network.predict(bags), rtol=1e-6)


# ---------------------------------------------------------------- labels and weights


@pytest.mark.parametrize("make", [RBFNetworkRegressor, BayesianLinearRegressor])
def test_predictions_follow_the_units_of_the_labels(make):
    bags, y = dense_oracle.scale_bags()
    plain = make(FIXED).fit(bags, y).predict_dist(bags)
    moved = make(FIXED).fit(bags, 1e6 - 1000.0 * y).predict_dist(bags)
    assert_allclose(moved.mean, 1e6 - 1000.0 * plain.mean, rtol=1e-9)
    assert_allclose(moved.std, 1000.0 * plain.std, rtol=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        RBFNetworkRegressor,
        BayesianLinearRegressor,
        FrequentistShrinkageRegressor,
        ShrinkageRegressor,
    ],
)
def test_constant_labels_are_predicted(make):
    bags, _ = dense_oracle.scale_bags()
    found = make(FIXED).fit(bags, np.full(24, 7.3)).predict_dist(bags)
    assert_allclose(found.mean, 7.3, rtol=1e-6)
    assert np.isfinite(found.log_prob(np.full(24, 7.3))).all()


def test_weights_are_relative_to_the_average_bag():
    bags, y = dense_oracle.scale_bags()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 24)
    found = [
        RBFNetworkRegressor(FIXED, penalty=0.2).fit(bags, y, sample_weight=w).predict(bags)
        for w in (weights, 1000.0 * weights)
    ]
    assert_allclose(found[0], found[1], rtol=1e-9)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(3), r"sample_weight has shape \(3,\) .* expected one number per bag, \(24,\)"),
        (np.array(["a"] * 24), "sample_weight has shape .* dtype <U1"),
        (np.r_[np.ones(23), -1.0], r"sample_weight of bag 23 \(position 23\) is -1.0"),
        (np.r_[np.ones(23), np.nan], r"sample_weight of bag 23 \(position 23\) is nan"),
        (np.r_[np.zeros(23), 1.0], "1 bags have a positive sample_weight; expected at least 2"),
    ],
    ids=["shape", "dtype", "negative", "nan", "one positive"],
)
def test_wrong_sample_weights_are_named(weights, message):
    bags, y = dense_oracle.scale_bags()
    with pytest.raises(InvalidLabelsError, match=message):
        RBFNetworkRegressor(FIXED).fit(bags, y, sample_weight=weights)


def test_one_bag_is_too_few():
    with pytest.raises(InvalidBagsError, match="there is 1 bag to fit; expected at least 2"):
        RBFNetworkRegressor().fit([np.random.default_rng(0).normal(size=(9, 2))], [1.0])
