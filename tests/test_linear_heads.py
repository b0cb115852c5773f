"""Ridge regression, Bayesian linear regression and kernel ridge against independent solutions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, DotProduct, WhiteKernel
from sklearn.linear_model import BayesianRidge, Ridge

import dense_oracle
from bagwise.bags import Bags
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError
from bagwise.heads import LinearHead
from bagwise.inference.effects import FixedEffects
from bagwise.inference.evidence import evidence_at, maximise_evidence
from bagwise.inference.ridge import RidgeProblem
from bagwise.kernels import RBF
from bagwise.mean_embedding import MeanEmbeddingRidge
from bagwise.regressors import (
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.task import Task
from dense_oracle import (
    bordered_kernel_ridge,
    gaussian_conditioning,
    rbf,
    weighted_ridge,
)

U = np.array([[a, b] for a in (-1.5, 0.0, 1.5) for b in (-1.0, 1.0)])
FIXED = {"landmarks": U, "bandwidth_scale": 1.0}


class Data:
    """Random features, fixed effects, labels and weights."""

    def __init__(self, seed=0, n=30, d=5, covariates=1, weighted=True):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d)) + 3.0
        self.F = np.column_stack([np.ones(n), rng.normal(size=(n, covariates))])
        self.y = self.X @ rng.normal(size=d) + self.F @ rng.normal(size=1 + covariates)
        self.y += 0.7 * rng.normal(size=n)
        self.weights = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
        self.weights /= self.weights.mean()
        self.n = n

    @property
    def problem(self):
        return RidgeProblem.from_features(self.X, self.F, self.y, self.weights)

    @property
    def gram_problem(self):
        return RidgeProblem.from_gram(self.X @ self.X.T, self.F, self.y, self.weights)

    @property
    def task(self):
        """Labels as they are, so that a head works in their units."""
        effects = FixedEffects.fit(self.F[:, 1:], self.n)
        design = effects.design(self.F[:, 1:], self.n)
        return Task(self.y, 0.0, 1.0, effects, design, self.weights)


def network_features(model, bags):
    """Mean embeddings of bags at the landmarks of a fitted model, by loops."""
    scaling = model.features_.scaling
    u = (model.landmarks_ - scaling.center) / scaling.scale
    phis = [rbf((bag - scaling.center) / scaling.scale, u, model.bandwidth_) for bag in bags]
    return dense_oracle.summary(phis)


def standardised(y):
    return (y - y.mean()) / y.std()


# ---------------------------------------------------------------- ridge


@pytest.mark.parametrize("penalty", [1e-6, 0.3, 40.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_ridge_is_scikit_learns(penalty, weighted):
    data = Data(covariates=0, weighted=weighted)
    theirs = Ridge(alpha=penalty).fit(data.X, data.y, sample_weight=data.weights)
    head = LinearHead.ridge(data.X, data.task, penalty)
    X = np.random.default_rng(1).normal(size=(7, 5))
    assert_allclose(head.beta, theirs.coef_, rtol=1e-7)
    assert_allclose(head.of(X, np.ones((7, 1))).mean, theirs.predict(X), rtol=1e-7)


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
    model = RBFNetworkRegressor(penalty=0.2, standardize=standardize, **FIXED).fit(bags, y)
    X = network_features(model, bags)[0]
    theirs = Ridge(alpha=0.2).fit(X, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(X), rtol=1e-8)
    assert model.penalty_ == 0.2


def test_network_deviation_is_the_leave_one_out_error():
    bags, y = dense_oracle.scale_bags()
    model = RBFNetworkRegressor(penalty=0.2, **FIXED).fit(bags, y)
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
    held_out = RBFNetworkRegressor(penalty="validation", **FIXED).fit(bags, y)
    loo = RBFNetworkRegressor(penalty="loo", **FIXED).fit(bags, y)
    again = RBFNetworkRegressor(penalty=held_out.penalty_, **FIXED).fit(bags, y)
    assert np.array_equal(again.predict(bags), held_out.predict(bags))
    assert np.abs(np.log10(held_out.penalty_ / loo.penalty_)) < 4
    assert_allclose(held_out.predict(bags), loo.predict(bags), atol=0.2)


@pytest.mark.parametrize("make", [RBFNetworkRegressor, MeanEmbeddingRidge])
def test_a_weight_of_two_counts_a_bag_twice(make):
    bags, y = dense_oracle.scale_bags()
    options = {"kernel": RBF(1.1)} | (FIXED if make is RBFNetworkRegressor else {})
    # Weights are relative to the average bag: 5 of 24 with weight 2 have the mean 29/24.
    weighted = make(penalty=0.3 * 24 / 29, standardize=False, **options)
    weighted.fit(bags, y, sample_weight=np.r_[np.full(5, 2.0), np.ones(19)])
    copies, y_copies = bags + bags[:5], np.r_[y, y[:5]]
    counted = make(penalty=0.3, standardize=False, **options).fit(copies, y_copies)
    # Copies move the point on which features are centred, but no distance, and not the bandwidth.
    assert_allclose(weighted.predict(bags), counted.predict(bags), rtol=1e-8)


@pytest.mark.parametrize(
    "model",
    [
        RBFNetworkRegressor(**FIXED),
        BayesianLinearRegressor(**FIXED),
        FrequentistShrinkageRegressor(**FIXED),
        ShrinkageRegressor(**FIXED),
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
    with_zeros = make(data.X, Task.of(bags, data.y, weights), None)
    without = make(data.X[12:], Task.of(bags[12:], data.y[12:]), None)
    X, F = np.random.default_rng(2).normal(size=(6, 10)), np.ones((6, 1))
    a, b = with_zeros.of(X, F), without.of(X, F)
    assert_allclose(a.mean, b.mean, rtol=1e-5)
    assert_allclose(a.noise, b.noise, rtol=1e-5)
    assert_allclose(a.weights, b.weights, rtol=1e-5)


@pytest.mark.parametrize(
    "model",
    [
        RBFNetworkRegressor(**FIXED),
        BayesianLinearRegressor(**FIXED),
        ShrinkageRegressor(**FIXED),
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


# ---------------------------------------------------------------- Bayesian linear regression


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("weight_var", [None, 0.4])
def test_posterior_is_that_of_dense_gaussian_conditioning(weighted, weight_var):
    data = Data(covariates=2, weighted=weighted)
    head = LinearHead.bayesian(data.X, data.task, weight_var)
    X = np.random.default_rng(1).normal(size=(9, 5)) + 2.0
    C = np.random.default_rng(2).normal(size=(9, 2))
    found = head.of(X, data.task.effects.design(C, 9))
    mean, var = gaussian_conditioning(
        data.X,
        data.F,
        data.y,
        head.noise_var / data.weights,
        head.noise_var / head.penalty,
        X,
        np.column_stack([np.ones(9), C]),
    )
    assert_allclose(found.mean, mean, rtol=1e-8)
    assert_allclose(found.weights, var, rtol=1e-7)


def test_posterior_with_more_features_than_bags_is_that_of_dense_conditioning():
    data = Data(n=12, d=20)
    head = LinearHead.bayesian(data.X, data.task, 0.4)
    X, F = np.random.default_rng(1).normal(size=(4, 20)), np.column_stack([np.ones(4), np.zeros(4)])
    mean, var = gaussian_conditioning(
        data.X, data.F, data.y, head.noise_var / data.weights, 0.4, X, F
    )
    found = head.of(X, data.task.effects.design(F[:, 1:], 4))
    assert_allclose(found.mean, mean, rtol=1e-7)
    assert_allclose(found.weights, var, rtol=1e-7)


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
    head = LinearHead.bayesian(data.X, data.task, None)
    # Theirs divides by n where the intercept's degree of freedom is left out here.
    assert_allclose(head.beta, theirs.coef_, rtol=1e-3)
    assert_allclose(head.noise_var, 1 / theirs.alpha_, rtol=0.01)
    assert_allclose(head.noise_var / head.penalty, 1 / theirs.lambda_, rtol=0.02)


def test_bayesian_regression_is_a_gaussian_process_with_a_vague_intercept():
    bags, y = dense_oracle.scale_bags()
    model = BayesianLinearRegressor(weight_var=2.0, **FIXED).fit(bags, y)
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
        effects = FixedEffects.fit(data.F[:20, 1:], 20)
        design = effects.design(data.F[:, 1:], 40)
        task = Task(data.y[:20], 0.0, 1.0, effects, design[:20], np.ones(20))
        found = LinearHead.bayesian(data.X[:20], task, None).of(data.X[20:], design[20:])
        z = (data.y[20:] - found.mean) / np.sqrt(found.weights + found.noise)
        hits.append(np.mean(np.abs(z) < stats.norm.ppf(0.95)))
    assert 0.85 < np.mean(hits) < 0.93  # of 0.9: the two variances are taken to be known


def test_labels_that_fixed_effects_explain_leave_almost_no_noise():
    data = Data(weighted=False)
    data.y = data.F @ np.array([2.0, -1.0])
    head = LinearHead.bayesian(data.X, data.task, None)
    assert_allclose(head.of(data.X, data.task.design).mean, data.y, atol=1e-6)
    assert 0 < head.noise_var < 1e-6


# ---------------------------------------------------------------- fixed effects


def test_fixed_effects_are_orthogonal_with_mean_square_one():
    C = np.random.default_rng(0).normal(5.0, [1.0, 100.0, 1e-3], (40, 3))
    design = FixedEffects.fit(C, 40).design(C, 40)
    assert_allclose(design.T @ design / 40, np.eye(4), atol=1e-10)
    assert np.linalg.matrix_rank(np.column_stack([design, np.ones(40), C])) == 4


def test_coefficients_of_fixed_effects_come_back_in_the_units_of_the_covariates():
    rng = np.random.default_rng(0)
    C = rng.normal(5.0, [1.0, 100.0, 1e-3], (40, 3))
    effects = FixedEffects.fit(C, 40)
    gamma = rng.normal(size=4)
    intercept, slopes = effects.unmix(gamma)
    new = rng.normal(5.0, [1.0, 100.0, 1e-3], (7, 3))
    assert_allclose(intercept + new @ slopes, effects.design(new, 7) @ gamma, rtol=1e-8)


def test_without_covariates_there_is_the_intercept_alone():
    effects = FixedEffects.fit(None, 5)
    assert_allclose(np.abs(effects.design(None, 3)), np.ones((3, 1)))


@pytest.mark.parametrize(
    "make", [RBFNetworkRegressor, BayesianLinearRegressor, ShrinkageRegressor, MeanEmbeddingRidge]
)
def test_dummies_that_add_up_to_one_predict_like_all_but_one_of_them(make):
    bags, y = dense_oracle.scale_bags(n_bags=30)
    group = np.arange(30) % 3
    dummies = np.column_stack([np.eye(3)[group], np.full(30, 4.0)])  # and a constant column
    y = y + 0.5 * group
    options = {} if make is MeanEmbeddingRidge else FIXED
    found = []
    for columns in ([0, 1, 2, 3], [0, 1]):
        given = Bags.from_list(bags, covariates=dummies[:, columns])
        found.append(make(**options).fit(given, y).predict_dist(given))
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-4)
    assert_allclose(found[0].std, found[1].std, rtol=1e-3)


def test_units_of_covariates_do_not_matter():
    bags, y = dense_oracle.scale_bags(n_bags=30)
    C = np.random.default_rng(0).normal(size=(30, 2))
    y = y + C @ [0.3, -0.2]
    found = []
    for units in (1.0, [1e5, 1e-5]):
        given = Bags.from_list(bags, covariates=C * units + 7.0)
        found.append(BayesianLinearRegressor(**FIXED).fit(given, y).predict_dist(given))
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-6)
    assert_allclose(found[0].std, found[1].std, rtol=1e-5)


@pytest.mark.parametrize("n_covariates", [9, 30])
def test_as_many_covariates_as_bags_are_refused(n_covariates):
    bags, y = dense_oracle.scale_bags(n_bags=10)
    C = np.random.default_rng(0).normal(size=(10, n_covariates))
    with pytest.raises(InvalidBagsError, match=f"there are {n_covariates} covariates for 10 bags"):
        RBFNetworkRegressor(**FIXED).fit(Bags.from_list(bags, covariates=C), y)


# ---------------------------------------------------------------- mean embedding ridge


def naive_products(left, right, bandwidth, scaling):
    scaled = [[(x - scaling.center) / scaling.scale for x in side] for side in (left, right)]
    return np.array([[rbf(a, b, bandwidth).mean() for b in scaled[1]] for a in scaled[0]])


@pytest.mark.parametrize("second_level", ["linear", "gaussian"])
@pytest.mark.parametrize("second_scale", [1.0, 0.5])
def test_mean_embedding_ridge_solves_the_bordered_system(second_level, second_scale):
    bags, y = dense_oracle.scale_bags()
    new, _ = dense_oracle.scale_bags(seed=5, n_bags=6)
    model = MeanEmbeddingRidge(
        second_level=second_level, second_scale=second_scale, penalty=0.1, bandwidth_scale=0.8
    ).fit(bags, y)
    products = {
        name: naive_products(left, right, model.bandwidth_, model.scaling_)
        for name, left, right in (("train", bags, bags), ("new", new, bags), ("own", new, new))
    }
    K, cross = products["train"], products["new"]
    if second_level == "gaussian":
        norms = np.diag(K)
        squared = norms[:, None] + norms - 2 * K
        var = np.median(squared[np.triu_indices(len(y), 1)]) / 2 * second_scale**2
        gaps = np.diag(products["own"])[:, None] + norms - 2 * cross
        K, cross = np.exp(-squared / (2 * var)), np.exp(-gaps / (2 * var))
    dual, gamma = bordered_kernel_ridge(K, np.ones((len(y), 1)), standardised(y), 0.1)
    expected = y.mean() + y.std() * (cross @ dual + gamma[0])
    assert_allclose(model.predict(new), expected, rtol=1e-8)


def test_mean_embedding_ridge_with_covariates_solves_the_bordered_system():
    bags, y = dense_oracle.scale_bags()
    C = np.random.default_rng(0).normal(3.0, 2.0, (24, 2))
    given = Bags.from_list(bags, covariates=C)
    model = MeanEmbeddingRidge(penalty=0.1).fit(given, y)
    K = naive_products(bags, bags, model.bandwidth_, model.scaling_)
    F = np.column_stack([np.ones(24), C])
    dual, gamma = bordered_kernel_ridge(K, F, standardised(y), 0.1)
    expected = y.mean() + y.std() * (K @ dual + F @ gamma)
    assert_allclose(model.predict(given), expected, rtol=1e-8)


def test_linear_mean_embedding_ridge_is_the_network_with_endless_fourier_features():
    bags, y = dense_oracle.scale_bags()
    exact = MeanEmbeddingRidge(penalty=0.1).fit(bags, y)
    network = RBFNetworkRegressor(
        landmarks="fourier", n_landmarks=6000, bandwidth_scale=1.0, penalty=0.1
    ).fit(bags, y)
    assert_allclose(network.predict(bags), exact.predict(bags), atol=0.02)


def test_mean_embedding_ridge_with_the_linear_kernel_is_ridge_on_the_means():
    bags, y = dense_oracle.scale_bags()
    model = MeanEmbeddingRidge(kernel="linear", penalty=0.1, standardize=False).fit(bags, y)
    means = np.array([bag.mean(axis=0) for bag in bags])
    theirs = Ridge(alpha=0.1).fit(means, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(means), rtol=1e-8)


def test_mean_embedding_ridge_deviation_is_the_leave_one_out_error():
    bags, y = dense_oracle.scale_bags(n_bags=12)
    model = MeanEmbeddingRidge(penalty=0.1).fit(bags, y)
    K, labels = naive_products(bags, bags, model.bandwidth_, model.scaling_), standardised(y)
    errors = []
    for i in range(12):
        keep = np.arange(12) != i
        dual, gamma = bordered_kernel_ridge(
            K[np.ix_(keep, keep)], np.ones((11, 1)), labels[keep], 0.1
        )
        errors.append(labels[i] - K[i, keep] @ dual - gamma[0])
    expected = y.std() * np.sqrt(np.mean(np.square(errors)))
    assert_allclose(model.predict_dist(bags).std, expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"second_level": "rbf"}, 'second_level is \'rbf\'; expected "linear" or "gaussian"'),
        ({"penalty": "validation"}, "penalty is 'validation'; expected a number > 0 or 'loo'"),
        ({"bandwidth_scale": "auto"}, "bandwidth_scale is 'auto'; expected a finite number > 0"),
        ({"second_level": "gaussian", "second_scale": 0.0}, "second_scale is 0.0"),
        ({"standardize": "yes"}, "standardize is 'yes'; expected True or False"),
    ],
    ids=str,
)
def test_wrong_parameters_of_mean_embedding_ridge_are_named(options, message):
    bags, y = dense_oracle.scale_bags(n_bags=6)
    with pytest.raises(BagwiseError, match=message):
        MeanEmbeddingRidge().set_params(**options).fit(bags, y)


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
    model = FrequentistShrinkageRegressor(penalty=0.2, prior_scale=0.05, **FIXED).fit(bags, y)
    M = dense_shrunk_means(model, bags, 0.05)
    theirs = Ridge(alpha=0.2).fit(M, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(M), rtol=1e-7)
    assert (model.penalty_, model.prior_scale_) == (0.2, 0.05)


def test_frequentist_shrinkage_chooses_the_least_leave_one_out_error():
    bags, y = dense_oracle.scale_bags(n_bags=40)
    model = FrequentistShrinkageRegressor(**FIXED).fit(bags, y)
    grid = model.prior_scale_ * np.logspace(-3, 3, 7)
    each = [FrequentistShrinkageRegressor(prior_scale=eta, **FIXED).fit(bags, y) for eta in grid]
    assert model.head_.loss <= min(fit.head_.loss for fit in each) * (1 + 1e-9)


def test_frequentist_shrinkage_with_an_endless_prior_scale_is_the_network():
    bags, y = dense_oracle.scale_bags()
    shrunk = FrequentistShrinkageRegressor(penalty=0.2, prior_scale=1e12, **FIXED).fit(bags, y)
    network = RBFNetworkRegressor(penalty=0.2, **FIXED).fit(bags, y)
    assert_allclose(shrunk.predict(bags), network.predict(bags), rtol=1e-6)


# ---------------------------------------------------------------- labels and weights


@pytest.mark.parametrize("make", [RBFNetworkRegressor, BayesianLinearRegressor])
def test_predictions_follow_the_units_of_the_labels(make):
    bags, y = dense_oracle.scale_bags()
    plain = make(**FIXED).fit(bags, y).predict_dist(bags)
    moved = make(**FIXED).fit(bags, 1e6 - 1000.0 * y).predict_dist(bags)
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
    found = make(**FIXED).fit(bags, np.full(24, 7.3)).predict_dist(bags)
    assert_allclose(found.mean, 7.3, rtol=1e-6)
    assert np.isfinite(found.log_prob(np.full(24, 7.3))).all()


def test_weights_are_relative_to_the_average_bag():
    bags, y = dense_oracle.scale_bags()
    weights = np.random.default_rng(0).uniform(0.5, 2.0, 24)
    found = [
        RBFNetworkRegressor(penalty=0.2, **FIXED).fit(bags, y, sample_weight=w).predict(bags)
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
        RBFNetworkRegressor(**FIXED).fit(bags, y, sample_weight=weights)


def test_one_bag_is_too_few():
    with pytest.raises(InvalidBagsError, match="there is 1 bag to fit; expected at least 2"):
        RBFNetworkRegressor().fit([np.random.default_rng(0).normal(size=(9, 2))], [1.0])
