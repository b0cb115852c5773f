"""Ridge regression and the RBF network against independent solutions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

import dense_oracle
from bagwise import KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.features.kernels import RBF
from bagwise.heads.base import Task
from bagwise.heads.linear import LinearHead
from bagwise.inference.ridge import RidgeProblem
from dense_oracle import (
    weighted_ridge,
)
from linear_data import FIXED, Data, U, latent, network_features, points, standardised

# ---------------------------------------------------------------- ridge


@pytest.mark.parametrize("penalty", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_scikit_learns(penalty, weighted):
    data = Data(covariates=0, weighted=weighted)
    theirs = Ridge(alpha=penalty).fit(data.X, data.y, sample_weight=data.weights)
    head = LinearHead.ridge(data.embedded, data.task, penalty)
    X = np.random.default_rng(1).normal(size=(7, 5))
    assert_allclose(head.beta, theirs.coef_, rtol=1e-7)
    assert_allclose(latent(head, X, np.ones((7, 1))).mean[0], theirs.predict(X), rtol=1e-7)


@pytest.mark.parametrize("make", ["problem", "gram_problem"])
def test_ridge_with_fixed_effects_solves_the_normal_equations(make):
    data = Data(covariates=3)
    problem = getattr(data, make)
    beta = data.X.T @ problem.dual(0.7)
    expected, gamma = weighted_ridge(data.X, data.F, data.y, data.weights, 0.7)
    assert_allclose(beta, expected, rtol=1e-8)
    assert_allclose(problem.effects_for(data.X @ beta), gamma, rtol=1e-7)


@pytest.mark.parametrize("make", ["problem", "gram_problem"])
@pytest.mark.parametrize("penalty", [1e-3, 2.0])
def test_leave_one_out_residuals_are_those_of_refits(make, penalty):
    data = Data(n=16)
    expected = []
    for i in range(data.n):
        keep = np.arange(data.n) != i
        beta, gamma = weighted_ridge(
            data.X[keep], data.F[keep], data.y[keep], data.weights[keep], penalty
        )
        gap = data.y[i] - data.X[i] @ beta - data.F[i] @ gamma
        expected.append(np.sqrt(data.weights[i]) * gap)
    problem = getattr(data, make)
    assert_allclose(problem.leave_one_out(penalty), expected, rtol=1e-6, atol=1e-9)
    assert_allclose(problem.leave_one_out_mse(penalty), np.mean(np.square(expected)), rtol=1e-6)


@pytest.mark.parametrize("heavy", [1e2, 1e4])
@pytest.mark.parametrize("penalty", [1e-6, 1e-3, 1.0])
def test_a_heavy_bag_that_features_determine_has_the_residual_of_a_refit(heavy, penalty):
    """All bags are alike but one, which outweighs them: 1 − H_ii of it is next to nothing."""
    rng = np.random.default_rng(0)
    X, y = np.zeros((8, 3)), rng.normal(size=8)
    X[7] = [1.0, 2.0, -1.0]
    weights = np.r_[np.ones(7), heavy]
    problem = RidgeProblem.from_features(X, np.ones((8, 1)), y, weights)
    penalty = penalty * problem.scale
    # Without it the features of the others are all 0, and their mean is all that is known.
    expected = np.sqrt(heavy) * (y[7] - y[:7].mean())
    assert_allclose(problem.leave_one_out(penalty)[7], expected, rtol=1e-4)


def test_features_get_a_slope_only_if_they_help_bags_left_out():
    rng = np.random.default_rng(0)
    sloped = []
    for _ in range(40):
        X, y = 1e-7 * rng.normal(size=(30, 2)), rng.normal(size=30)
        problem = RidgeProblem.from_features(X, np.ones((30, 1)), y, np.ones(30))
        penalty = problem.best_penalty()
        error = np.mean(problem.leave_one_out(penalty) ** 2)
        slope = np.abs(problem.beta(penalty)).max()
        without = np.mean(((y - y.mean()) * 30 / 29) ** 2)
        assert error < 0.995 * without or slope < 1e-4
        sloped.append(slope > 1e4)
    assert 0.1 < np.mean(sloped) < 0.6  # labels are noise: by chance alone


def test_no_bag_has_more_than_a_quarter_of_the_say():
    data = Data(n=16)
    assert data.problem.choice_error(0.3) == pytest.approx(data.problem.leave_one_out_mse(0.3))
    weights = np.r_[np.ones(15), 1e9]
    heavy = RidgeProblem.from_features(data.X, data.F, data.y, weights)
    errors = heavy.leave_one_out(0.3) ** 2 / weights
    assert heavy.choice_error(0.3) == pytest.approx(
        np.average(errors, weights=np.r_[np.ones(15), 5])
    )


def test_best_penalty_has_the_least_leave_one_out_error():
    problem = Data(n=12, d=10).problem
    best = problem.best_penalty()
    grid = [problem.leave_one_out_mse(p) for p in best * np.logspace(-6, 6, 49)]
    assert problem.leave_one_out_mse(best) <= min(grid) * 1.01


def test_vanishing_penalty_gives_least_squares_of_least_norm():
    data = Data(n=8, d=12, covariates=0, weighted=False)
    beta = data.X.T @ data.problem.dual(0.0)
    X, y = data.X - data.X.mean(axis=0), data.y - data.y.mean()
    assert_allclose(beta, np.linalg.lstsq(X, y, rcond=None)[0], rtol=1e-6, atol=1e-9)


def test_endless_penalty_leaves_the_fixed_effects():
    data = Data(covariates=2)
    beta = data.X.T @ data.problem.dual(1e15)
    root = np.sqrt(data.weights)[:, None]
    expected = np.linalg.lstsq(root * data.F, root[:, 0] * data.y, rcond=None)[0]
    assert_allclose(beta, 0.0, atol=1e-10)
    assert_allclose(data.problem.effects_for(data.X @ beta), expected, rtol=1e-8)


def test_bags_of_weight_zero_are_as_good_as_absent_from_a_ridge_problem():
    data = Data()
    data.weights[:6] = 0.0
    rest = slice(6, None)
    X, F, y, weights = (a[rest] for a in (data.X, data.F, data.y, data.weights))
    without = RidgeProblem.from_features(X, F, y, weights)
    dual = data.problem.dual(0.5)
    assert_allclose(dual[:6], 0.0, atol=1e-12)
    assert_allclose(dual[6:], without.dual(0.5), rtol=1e-8)
    assert_allclose(data.problem.leave_one_out(0.5)[6:], without.leave_one_out(0.5), rtol=1e-8)


# ---------------------------------------------------------------- RBF network


@pytest.mark.parametrize("standardize", [True, False])
def test_network_is_ridge_on_the_mean_embedding(standardize):
    bags, y = dense_oracle.scale_bags()
    model = RBFNetworkRegressor(
        KernelEmbedding(landmarks=U, bandwidth=1.0, standardize=standardize), penalty=0.2
    ).fit(bags, y)
    X = network_features(model, bags)[0]
    theirs = Ridge(alpha=0.2).fit(X, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(X), rtol=1e-8)
    assert model.penalty_ == 0.2


def test_network_deviation_is_the_leave_one_out_error():
    bags, y = dense_oracle.scale_bags()
    model = RBFNetworkRegressor(FIXED, penalty=0.2).fit(bags, y)
    X, labels = network_features(model, bags)[0], standardised(y)
    errors = []
    for i in range(len(y)):
        keep = np.arange(len(y)) != i
        theirs = Ridge(alpha=0.2).fit(X[keep], labels[keep])
        errors.append(labels[i] - theirs.predict(X[[i]])[0])
    expected = y.std() * np.sqrt(np.mean(np.square(errors)))
    assert_allclose(model.predict_dist(bags).std, expected, rtol=1e-7)


def test_penalty_by_validation_is_one_of_the_grid_and_near_that_by_leave_one_out():
    bags, y = dense_oracle.scale_bags(n_bags=60, sizes=(30,))
    held_out = RBFNetworkRegressor(FIXED, penalty="validation").fit(bags, y)
    loo = RBFNetworkRegressor(FIXED, penalty="loo").fit(bags, y)
    again = RBFNetworkRegressor(FIXED, penalty=held_out.penalty_).fit(bags, y)
    assert np.array_equal(again.predict(bags), held_out.predict(bags))
    assert np.abs(np.log10(held_out.penalty_ / loo.penalty_)) < 4
    assert_allclose(held_out.predict(bags), loo.predict(bags), atol=0.2)


@pytest.mark.parametrize("make", [RBFNetworkRegressor, MeanEmbeddingRidge])
def test_a_weight_of_two_counts_a_bag_twice(make):
    bags, y = dense_oracle.scale_bags()
    landmarks = {"landmarks": U} if make is RBFNetworkRegressor else {}
    embedding = KernelEmbedding(kernel=RBF(1.1), standardize=False, **landmarks)
    # Weights are relative to the average bag: 5 of 24 with weight 2 have the mean 29/24.
    weighted = make(embedding, penalty=0.3 * 24 / 29)
    weighted.fit(bags, y, sample_weight=np.r_[np.full(5, 2.0), np.ones(19)])
    copies, y_copies = bags + bags[:5], np.r_[y, y[:5]]
    counted = make(embedding, penalty=0.3).fit(copies, y_copies)
    # Copies move the point on which features are centred, but no distance, and not the bandwidth.
    assert_allclose(weighted.predict(bags), counted.predict(bags), rtol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        RBFNetworkRegressor(FIXED),
        BayesianLinearRegressor(FIXED),
        FrequentistShrinkageRegressor(FIXED),
        ShrinkageRegressor(FIXED),
        MeanEmbeddingRidge(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_labels_of_bags_of_weight_zero_do_not_matter(model):
    bags, y = dense_oracle.scale_bags()
    weights = np.r_[np.zeros(5), np.ones(19)]
    first = model.fit(bags, y, sample_weight=weights).predict_dist(bags)
    second = model.fit(bags, np.r_[y[:5] + 100.0, y[5:]], sample_weight=weights).predict_dist(bags)
    assert_allclose(second.mean, first.mean, rtol=1e-5)
    assert_allclose(second.var, first.var, rtol=1e-4)


@pytest.mark.parametrize("make", [LinearHead.ridge, LinearHead.bayesian], ids=["ridge", "BLR"])
def test_a_head_with_bags_of_weight_zero_is_the_head_without_them(make):
    data = Data(n=24, d=10, covariates=0)
    bags, weights = Bags.from_array(np.zeros((24, 1, 1))), np.r_[np.zeros(12), np.ones(12)]
    with_zeros = make(data.embedded, Task.of(bags, data.y, weights), None)
    without = make(points(data.X[12:]), Task.of(bags[12:], data.y[12:]), None)
    X, F = np.random.default_rng(2).normal(size=(6, 10)), np.ones((6, 1))
    a, b = latent(with_zeros, X, F), latent(without, X, F)
    assert_allclose(a.mean, b.mean, rtol=1e-5)
    assert_allclose(a.noise_var, b.noise_var, rtol=1e-5)
    assert_allclose(a.weights_var, b.weights_var, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        RBFNetworkRegressor(FIXED),
        BayesianLinearRegressor(FIXED),
        ShrinkageRegressor(FIXED),
        MeanEmbeddingRidge(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_covariate_seen_only_in_bags_of_weight_zero_does_no_harm(model):
    bags, y = dense_oracle.scale_bags()
    weights, dummy = np.r_[np.zeros(3), np.ones(21)], np.r_[np.ones(3), np.zeros(21)][:, None]
    plain = model.fit(bags, y, sample_weight=weights).predict_dist(bags)
    covariates = Bags.from_list(bags, covariates=dummy)
    found = model.fit(covariates, y, sample_weight=weights).predict_dist(covariates)
    assert_allclose(found.mean[3:], plain.mean[3:], rtol=1e-4)
    assert_allclose(found.std[3:], plain.std[3:], rtol=1e-3)


# ---------------------------------------------------------------- errors that are small by chance


def few_and_wide(rng, n, d, noise):
    """Features of falling variance, as embeddings have, with labels; new ones with the truth."""
    spread = 10.0 ** (-6.0 * np.arange(d) / d)
    X, new = (rng.normal(size=(m, d)) * spread for m in (n, 300))
    beta = rng.normal(size=d)
    beta /= np.linalg.norm(spread * beta)
    return X, X @ beta + noise * rng.normal(size=n), new, new @ beta


def new_error(problem, penalty, X, new, truth):
    beta = problem.beta(penalty)
    return np.mean((new @ beta + problem.effects_for(X @ beta) - truth) ** 2)


def test_residuals_are_spread_among_all_directions_or_one():
    data = Data(n=12, d=20, covariates=1)
    problem = data.problem
    assert_allclose(problem.freedom(1e12 * problem.scale), data.n - 2, rtol=1e-6)
    assert_allclose(problem.freedom(1e-12 * problem.values.min()), _inverse_participation(problem))
    few = Data(n=12, d=3, covariates=1).problem
    assert_allclose(few.freedom(1e-9 * few.values.min()), 12 - 2 - 3, rtol=1e-6)


def _inverse_participation(problem):
    """What is left in each direction is one over its variance, as the penalty vanishes."""
    left = 1.0 / problem.values
    return left.sum() ** 2 / np.sum(left**2)


def test_a_penalty_is_not_chosen_for_errors_that_are_small_by_chance():
    """Labels without a part in the one direction that has next to no variance."""
    rng = np.random.default_rng(0)
    X, y, new, truth = few_and_wide(rng, 20, 30, 0.5)
    F, ones = np.ones((20, 1)), np.ones(20)
    left, singular, right = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    singular[18] = 1e-2 * singular[17]
    X = left[:, :19] * singular[:19] @ right[:19]
    y = y - left[:, 18] * (left[:, 18] @ y)
    problem = RidgeProblem.from_features(X, F, y, ones)
    by_error = min(problem.penalties(), key=problem.leave_one_out_mse)
    chosen = problem.best_penalty()
    assert problem.freedom(by_error) < 2
    assert problem.leave_one_out_mse(by_error) < 0.5**2  # the noise, which nobody can foresee
    assert problem.freedom(chosen) >= 4
    errors = [new_error(problem, penalty, X, new, truth) for penalty in (by_error, chosen)]
    assert errors[1] < min(errors[0], np.var(truth))


def test_what_the_limit_changes_it_changes_for_the_better():
    """Judged by new labels, which neither choice knows."""
    better = []
    for seed in range(100):
        X, y, new, truth = few_and_wide(np.random.default_rng(seed), 15, 19, 0.2)
        problem = RidgeProblem.from_features(X, np.ones((15, 1)), y, np.ones(15))
        choices = min(problem.penalties(), key=problem.leave_one_out_mse), problem.best_penalty()
        if choices[0] != choices[1]:
            without, limited = (new_error(problem, p, X, new, truth) for p in choices)
            better.append(limited < without)
    assert len(better) >= 5 and np.mean(better) > 0.75
