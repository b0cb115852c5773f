"""Bayesian linear regression against dense conditioning, scikit-learn and brute force."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge

import dense_oracle
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
)
from bagwise.heads.base import FixedEffects, Task
from bagwise.heads.linear import LinearHead
from bagwise.inference.ridge import evidence_at, evidence_slope, maximise_evidence
from dense_oracle import (
    gaussian_conditioning,
)
from linear_data import FIXED, Data, latent, network_features, points, standardised

# ---------------------------------------------------------------- Bayesian linear regression


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("weight_var", [None, 0.4])
def test_posterior_is_that_of_dense_gaussian_conditioning(weighted, weight_var):
    data = Data(covariates=2, weighted=weighted)
    head = LinearHead.bayesian(data.embedded, data.task, weight_var)
    X = np.random.default_rng(1).normal(size=(9, 5)) + 2.0
    C = np.random.default_rng(2).normal(size=(9, 2))
    found = latent(head, X, data.task.effects.design(C, 9))
    mean, var = gaussian_conditioning(
        data.X,
        data.F,
        data.y,
        head.noise_var / data.weights,
        head.noise_var / head.penalty,
        X,
        np.column_stack([np.ones(9), C]),
    )
    assert_allclose(found.mean[0], mean, rtol=1e-8)
    assert_allclose(found.weights_var, var, rtol=1e-7)


def test_posterior_with_more_features_than_bags_is_that_of_dense_conditioning():
    data = Data(n=12, d=20)
    head = LinearHead.bayesian(data.embedded, data.task, 0.4)
    X, F = np.random.default_rng(1).normal(size=(4, 20)), np.column_stack([np.ones(4), np.zeros(4)])
    mean, var = gaussian_conditioning(
        data.X, data.F, data.y, head.noise_var / data.weights, 0.4, X, F
    )
    found = latent(head, X, data.task.effects.design(F[:, 1:], 4))
    assert_allclose(found.mean[0], mean, rtol=1e-7)
    assert_allclose(found.weights_var, var, rtol=1e-7)


def restricted_loss(data, noise_var, weight_var):
    """−log evidence with the fixed effects integrated out: the density of contrasts of y."""
    root = np.sqrt(data.weights)
    complement = np.linalg.svd(root[:, None] * data.F)[0][:, data.F.shape[1] :]
    cov = weight_var * (root[:, None] * data.X) @ (root[:, None] * data.X).T
    cov = complement.T @ (cov + noise_var * np.eye(data.n)) @ complement
    return -stats.multivariate_normal(cov=cov).logpdf(complement.T @ (root * data.y))


@pytest.mark.parametrize("weight_var", [None, 0.4])
def test_evidence_is_the_density_of_contrasts_up_to_a_constant(weight_var):
    data = Data(n=20)
    gaps = []
    for penalty in (1e-3, 0.1, 5.0, 300.0):
        at = evidence_at(data.problem, penalty, weight_var)
        assert_allclose(at.penalty * at.weight_var, at.noise_var, rtol=1e-12)
        gaps.append(20 * at.loss - restricted_loss(data, at.noise_var, at.weight_var))
    assert_allclose(gaps, gaps[0], rtol=1e-8)


def test_evidence_has_its_maximum_over_both_variances():
    data = Data(n=20)
    found = maximise_evidence(data.problem)
    best = minimize(
        lambda logs: restricted_loss(data, *np.exp(logs)),
        np.zeros(2),
        method="Nelder-Mead",
        options={"xatol": 1e-7, "fatol": 1e-10, "maxiter": 2000},
    )
    assert_allclose([found.noise_var, found.weight_var], np.exp(best.x), rtol=1e-4)


def test_noise_maximises_the_evidence_at_a_given_weight_variance():
    data = Data(n=20)
    found = maximise_evidence(data.problem, 0.4)
    assert_allclose(found.weight_var, 0.4, rtol=1e-12)
    best = restricted_loss(data, found.noise_var, 0.4)
    for factor in (0.98, 1.02):
        assert restricted_loss(data, found.noise_var * factor, 0.4) > best


def test_bayesian_regression_is_close_to_scikit_learns_with_many_bags():
    data = Data(n=300, covariates=0, weighted=False)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-8, max_iter=2000)
    theirs.fit(data.X, data.y)
    head = LinearHead.bayesian(data.embedded, data.task, None)
    # Theirs divides by n where the intercept's degree of freedom is left out here.
    assert_allclose(head.beta, theirs.coef_, rtol=1e-3)
    assert_allclose(head.noise_var, 1 / theirs.alpha_, rtol=0.01)
    assert_allclose(head.noise_var / head.penalty, 1 / theirs.lambda_, rtol=0.02)


def test_bayesian_regression_is_a_gaussian_process_with_a_vague_intercept():
    bags, y = dense_oracle.scale_bags()
    model = BayesianLinearRegressor(FIXED, weight_var=2.0).fit(bags, y)
    X = network_features(model, bags)[0]
    noise = model.noise_var_ / y.var()
    kernel = ConstantKernel(2.0) * DotProduct(1e-5) + ConstantKernel(1e6) + WhiteKernel(noise)
    process = GaussianProcessRegressor(kernel, optimizer=None, alpha=0.0)
    process.fit(X, standardised(y))
    mean, std = process.predict(X, return_std=True)  # std with the noise of a new label
    found = model.predict_dist(bags)
    assert_allclose(found.mean, y.mean() + y.std() * mean, rtol=1e-5)
    assert_allclose(found.std, y.std() * std, rtol=1e-4)
    assert_allclose(model.weight_var_, 2.0, rtol=1e-9)


def test_bayesian_intervals_cover_what_they_say():
    hits = []
    for seed in range(25):
        data = Data(seed, n=40, d=5, weighted=False)
        effects = FixedEffects.fit(data.F[:20, 1:], np.ones(20))
        design = effects.design(data.F[:, 1:], 40)
        task = Task(data.y[:20], 0.0, 1.0, effects, design[:20], np.ones(20))
        head = LinearHead.bayesian(points(data.X[:20]), task, None)
        found = latent(head, data.X[20:], design[20:])
        z = (data.y[20:] - found.mean[0]) / np.sqrt(found.weights_var + found.noise_var)
        hits.append(np.mean(np.abs(z) < stats.norm.ppf(0.95)))
    assert 0.85 < np.mean(hits) < 0.93  # of 0.9: the two variances are taken to be known


def test_labels_that_fixed_effects_explain_leave_almost_no_noise():
    data = Data(weighted=False)
    data.y = data.F @ np.array([2.0, -1.0])
    head = LinearHead.bayesian(data.embedded, data.task, None)
    assert_allclose(latent(head, data.X, data.task.design).mean[0], data.y, atol=1e-6)
    assert 0 < head.noise_var < 1e-6


@pytest.mark.parametrize("weight_var", [None, 0.4])
def test_the_slope_of_the_evidence_is_its_derivative_and_0_at_the_best_penalty(weight_var):
    data = Data(covariates=2, weighted=True)
    n_bags = np.count_nonzero(data.problem.root_weights)
    for log in (-6.0, -1.0, 2.0):
        ends = [
            2 * n_bags * evidence_at(data.problem, float(np.exp(log + h)), weight_var).loss
            for h in (-1e-5, 1e-5)
        ]
        found = evidence_slope(data.problem, float(np.exp(log)), weight_var)
        assert_allclose(found, (ends[1] - ends[0]) / 2e-5, rtol=1e-6, atol=1e-7)
    best = maximise_evidence(data.problem, weight_var).penalty
    assert abs(evidence_slope(data.problem, best, weight_var)) < 1e-10 * n_bags
