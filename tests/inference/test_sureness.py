"""How sure of classes to be: against other people's optimisers, refits, and true probabilities."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm
from sklearn.linear_model import LogisticRegression

import bagwise
from bagwise.datasets import bayes_optimal, make_gamma
from bagwise.inference.class_weights import propagate_weights
from bagwise.inference.sureness import PRIOR_SD, Sureness
from bagwise.likelihoods import Logistic, Probit
from posterior_problems import UNIT, Bagged

MODELS = {
    "logistic": lambda: bagwise.BayesianLogisticClassifier(),
    "shrinkage": lambda: bagwise.ShrinkageClassifier(),
    "laplace": lambda: bagwise.BDRClassifier(inference="laplace"),
}


def left_out(n, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 1.5, n), rng.gamma(2.0, 0.3, n), rng.choice([3.0, 10.0, 100.0], n), rng


def asked(log_s, mean, var):
    """Log probability of labels in the direction of the mean, by another formula than ours."""
    s = np.exp(log_s)
    return norm.logcdf(mean / np.sqrt(s**-2.0 + var))


def factor(theta, sizes, bag, weights):
    """Log s as a variance κ/N beside 1, for N points and a bag of variance ν, by its definition."""
    usual = np.exp(np.average(np.log(sizes), weights=weights))
    power = 0.5 * np.average(np.log(bag), weights=weights)
    kappa = usual * (np.exp(theta[3]) - 1.0)
    by_size = theta[1] * np.log(sizes / usual) + theta[2] * (0.5 * np.log(bag) - power)
    return theta[0] + by_size + 0.5 * np.log((1.0 + kappa / usual) / (1.0 + kappa / sizes))


TRUTHS = [
    *([0.3, by_size, by_bag, 0.0] for by_size in (-0.3, 0.4) for by_bag in (-0.6, 0.3, 2.5)),
    *([-0.2, 0.1, 0.2, few] for few in (0.4, 3.0)),
]


@pytest.mark.parametrize("truth", TRUTHS, ids=str)
def test_it_is_the_least_penalised_loss_of_another_optimiser(truth):
    """All bounds are met, as truths beyond them are among those that are put in."""
    mean, var, sizes, rng = left_out(300)
    bag, weights = 1.0 + rng.gamma(2.0, 20.0, 300) / sizes, rng.uniform(0.5, 1.5, 300)
    p = np.exp(asked(factor(truth, sizes, bag, weights), mean, var))
    labels = np.where(rng.uniform(size=300) < p, 1.0, -1.0)
    found = Sureness.of(Probit(), labels, weights, sizes, (mean, var, bag))

    def loss(theta):
        told = asked(factor(theta, sizes, bag, weights), labels * mean, var)
        return -weights @ told + 0.5 * np.sum((theta / np.array(PRIOR_SD)) ** 2)

    bounds = [(None, None), (0.0, None), (None, 1.0), (0.0, None)]
    tight = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    starts = (np.zeros(4), np.array([0.0, 0.2, 0.2, 1.0]))
    best = min(
        (minimize(loss, at, bounds=bounds, method="L-BFGS-B", options=tight) for at in starts),
        key=lambda found: found.fun,
    ).x
    theta = [found.level, found.by_size, found.by_bag, found.few]
    np.testing.assert_allclose(theta, best, atol=1e-3)
    s = np.exp(factor(best, sizes, bag, weights))
    np.testing.assert_allclose(found(sizes, bag), s, rtol=1e-3)


def test_of_the_logistic_link_it_is_that_of_integrals_over_what_is_open_of_the_weights():
    """It once took the latent value for known, and averages over draws were not sure enough."""
    mean, var, sizes, rng = left_out(40)
    var, labels, one = 5.0 * var, np.where(rng.normal(size=40) < mean, 1.0, -1.0), np.ones(40)
    found = Sureness.of(Logistic(), labels, one, sizes, (mean, var, one))
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    shares = shares / shares.sum()

    def loss(theta):
        s = np.exp(factor([theta[0], theta[1], 0.0, theta[2]], sizes, one, one))
        f = (labels * s * mean)[:, None] + (s * np.sqrt(var))[:, None] * nodes
        return -np.sum(np.log(expit(f) @ shares)) + 0.5 * np.sum((theta / sds) ** 2)

    sds = np.array(PRIOR_SD)[[0, 1, 3]]
    best = minimize(loss, np.full(3, 0.1), bounds=[(None, None), *2 * [(0.0, None)]], tol=1e-12).x
    np.testing.assert_allclose([found.level, found.by_size, found.few], best, atol=1e-3)
    assert found.by_bag == 0.0


def test_with_many_labels_it_is_the_slope_of_scikit_learns_recalibration():
    rng = np.random.default_rng(1)
    latent = rng.normal(0, 2, 100_000)
    labels = np.where(rng.uniform(size=len(latent)) < expit(1.7 * latent), 1.0, -1.0)
    one = np.ones(len(latent))
    found = Sureness.of(Logistic(), labels, one, 7.0 * one, (latent, 0.0 * one, one))
    slope = LogisticRegression(C=1e9, fit_intercept=False).fit(latent[:, None], labels).coef_[0, 0]
    assert found.by_size == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found([7.0]), slope, rtol=2e-3)
    np.testing.assert_allclose(slope, 1.7, rtol=0.03)


def test_what_was_put_in_by_size_and_by_bag_comes_out():
    mean, var, sizes, rng = left_out(200_000)
    var *= 0.2
    bag = 1.0 + rng.gamma(2.0, 5.0, len(mean)) / sizes
    one = np.ones(len(bag))
    log_s = factor([0.3, 0.3, 0.6, 1.0], sizes, bag, one)
    labels = np.where(np.log(rng.uniform(size=len(bag))) < asked(log_s, mean, var), 1.0, -1.0)
    found = Sureness.of(Probit(), labels, one, sizes, (mean, var, bag))
    np.testing.assert_allclose(found(sizes, bag), np.exp(log_s), rtol=0.05)


def test_sizes_never_seen_count_as_the_nearest_seen_and_more_points_never_make_less_sure():
    mean, var, sizes, rng = left_out(200)
    s = np.where(sizes > 50, 0.3, 3.0)  # the labels of large bags are the less clear ones
    labels = np.where(rng.normal(size=200) < s * mean, 1.0, -1.0)
    found = Sureness.of(Probit(), labels, np.ones(200), sizes, (mean, var, np.ones(200)))
    assert found.by_size == 0.0 == found.few
    given = Sureness(0.1, 0.5, 0.3, 0.2, 2.0, 0.1, 3.0, 100.0)
    np.testing.assert_array_equal(given([1.0, 1e9]), given([3.0, 100.0]))


def test_a_label_is_left_out_as_by_a_fit_without_it():
    bagged = Bagged.random("probit", 0, n=60, d=3)
    rng = np.random.default_rng(2)
    alpha, gamma, scales = bagged.draw_prior(rng, UNIT, 1.0)
    problem = bagged.problem(bagged.draw_labels(rng, alpha, gamma, scales, 1.0))
    log_scales, precision = np.zeros(1), np.ones(3 + 1)
    known = propagate_weights(problem, log_scales, precision)
    mean, var, bag = known.left_out
    np.testing.assert_allclose(bag, known.var[problem.size_of])
    for i in range(0, 60, 7):
        others = propagate_weights(problem.some(np.delete(np.arange(60), i)), log_scales, precision)
        posterior = problem.embed(None, 1.0)
        row = np.append(posterior.mean[i] @ posterior.model.function_map, problem.effects[i])
        root = np.sqrt(known.var[problem.size_of[i]])
        spread = row @ np.linalg.solve(others.precision, row) / root**2
        assert abs(mean[i] - row @ others.mean / root) < 0.1 * np.sqrt(spread)
        assert var[i] == pytest.approx(spread, rel=0.15)


@pytest.fixture(scope="module")
def gamma():
    data = make_gamma(150, n_bags={"train": 400, "test": 1000})
    truth = 1.0 - bayes_optimal(data.test.bags).cdf(np.full(1000, 6.0))
    return data, truth


def divergence(truth, p):
    """Mean Kullback–Leibler divergence from the true probabilities."""
    p, truth = (np.clip(x, 1e-12, 1 - 1e-12) for x in (p, truth))
    both = truth * np.log(truth / p) + (1 - truth) * np.log((1 - truth) / (1 - p))
    return float(both.mean())


@pytest.fixture(scope="module", params=MODELS)
def fitted(request, gamma):
    data, _ = gamma
    return MODELS[request.param]().fit(data.train.bags, data.train.labels > 6)


def test_probabilities_are_nearer_to_the_true_ones(gamma, fitted):
    data, truth = gamma
    surer = fitted.predict_dist(data.test.bags)
    with_sureness = divergence(truth, surer.probability)
    without = copy.copy(fitted)
    without.head_ = replace(fitted.head_, sureness=None)
    plain = without.predict_dist(data.test.bags)
    assert with_sureness < divergence(truth, plain.probability)
    # only how sure, not of what; but where draws are averaged, about one half
    agree = surer.predicted == plain.predicted
    assert agree[np.abs(plain.probability - 0.5) > 0.02].all()


def test_more_points_never_make_less_sure_and_explanations_add_up(gamma, fitted):
    data, _ = gamma
    said = fitted.predict_dist(data.test.bags[:20])
    sizes = (1, 3, 5, 8, 20, 50, 100, 300, 1000, 3000)
    sure = np.array([np.abs(said.at_size(n).probability - 0.5) for n in sizes])
    assert (np.diff(sure, axis=0) >= -1e-12).all()
    for i in range(3):
        told = fitted.explain(data.test.bags, bag=i)
        total = told.baseline + told.points.sum() + told.covariates.sum()
        assert total == pytest.approx(said.latent.mean[i], abs=1e-8)


def test_where_points_are_all_there_is_the_variance_of_bags_counts_less():
    """Labels by the average of the points themselves: small bags leave nothing open."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([3, 10, 30], 400)
    bags = [rng.normal(m, 1.0, (n, 1)) for m, n in zip(rng.normal(0, 0.5, 400), sizes, strict=True)]
    averages = np.array([bag.mean() for bag in bags])
    labels = rng.uniform(size=400) < expit(4.0 * averages)
    model = bagwise.ShrinkageClassifier().fit(bags, labels)
    assert model.head_.sureness.by_bag > 0.5
    small = sizes == 3
    truth, without = expit(4.0 * averages), copy.copy(model)
    without.head_ = replace(model.head_, sureness=None)
    now, before = (m.predict_dist(bags).probability for m in (model, without))
    assert divergence(truth[small], now[small]) < 0.7 * divergence(truth[small], before[small])


def test_it_is_saved_and_the_mode_alone_has_none(gamma, tmp_path):
    data, _ = gamma
    few, labels = data.train.bags[:60], data.train.labels[:60] > 6
    model = bagwise.ShrinkageClassifier().fit(few, labels)
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").head_.sureness == model.head_.sureness
    assert bagwise.BDRClassifier(inference="map").fit(few, labels).head_.sureness is None
