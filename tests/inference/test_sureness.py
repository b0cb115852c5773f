"""How sure of classes to be: against other people's optimisers, refits, and true probabilities."""

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


def test_it_is_the_least_penalised_loss_of_another_optimiser():
    mean, var, sizes, rng = left_out(80)
    weights = rng.uniform(0.5, 1.5, 80)
    labels = np.where(rng.normal(size=80) < 2.0 * mean, 1.0, -1.0)
    found = Sureness.of(Probit(), labels, weights, sizes, (mean, var))
    logs = np.log(sizes)

    def loss(theta):
        s = np.exp(theta[0] + theta[1] * (logs - np.average(logs, weights=weights)))
        told = norm.logcdf(labels * s * mean / np.sqrt(1.0 + s**2 * var))
        return -weights @ told + 0.5 * theta @ theta / PRIOR_SD**2

    best = minimize(loss, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-8, "fatol": 1e-12})
    if best.x[1] > 0:
        np.testing.assert_allclose([found.level, found.by_size], best.x, atol=1e-5)
    else:
        assert found.by_size == 0.0


def test_with_many_labels_it_is_the_slope_of_scikit_learns_recalibration():
    rng = np.random.default_rng(1)
    latent = rng.normal(0, 2, 100_000)
    labels = np.where(rng.uniform(size=len(latent)) < expit(1.7 * latent), 1.0, -1.0)
    one = np.ones(len(latent))
    found = Sureness.of(Logistic(), labels, one, 7.0 * one, (latent, 0.0 * one))
    slope = LogisticRegression(C=1e9, fit_intercept=False).fit(latent[:, None], labels).coef_[0, 0]
    assert found.by_size == pytest.approx(0.0, abs=1e-12)
    np.testing.assert_allclose(found([7.0]), slope, rtol=2e-3)
    np.testing.assert_allclose(slope, 1.7, rtol=0.03)


def test_what_was_put_in_by_size_comes_out():
    mean, var, sizes, rng = left_out(60_000)
    s = np.exp(0.3 + 0.4 * (np.log(sizes) - 3.0))
    p = norm.cdf(s * mean / np.sqrt(1.0 + s**2 * var))
    labels = np.where(rng.uniform(size=len(p)) < p, 1.0, -1.0)
    found = Sureness.of(Probit(), labels, np.ones(len(p)), sizes, (mean, var))
    np.testing.assert_allclose(
        found([3.0, 100.0]), np.exp(0.3 + 0.4 * (np.log([3.0, 100.0]) - 3)), rtol=0.05
    )


def test_sizes_never_seen_count_as_the_nearest_seen_and_more_points_never_make_less_sure():
    mean, var, sizes, rng = left_out(200)
    s = np.where(sizes > 50, 0.3, 3.0)  # the labels of large bags are the less clear ones
    labels = np.where(rng.normal(size=200) < s * mean, 1.0, -1.0)
    found = Sureness.of(Probit(), labels, np.ones(200), sizes, (mean, var))
    assert found.by_size == 0.0
    given = Sureness(0.1, 0.5, 2.0, 3.0, 100.0)
    np.testing.assert_array_equal(given([1.0, 1e9]), given([3.0, 100.0]))


def test_a_label_is_left_out_as_by_a_fit_without_it():
    bagged = Bagged.random("probit", 0, n=60, d=3)
    rng = np.random.default_rng(2)
    alpha, gamma, scales = bagged.draw_prior(rng, UNIT, 1.0)
    problem = bagged.problem(bagged.draw_labels(rng, alpha, gamma, scales, 1.0))
    log_scales, precision = np.zeros(1), np.ones(3 + 1)
    known = propagate_weights(problem, log_scales, precision)
    mean, var = known.left_out
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


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_are_nearer_to_the_true_ones(gamma, name):
    data, truth = gamma
    model = MODELS[name]().fit(data.train.bags, data.train.labels > 6)
    surer = model.predict_dist(data.test.bags)
    with_sureness = divergence(truth, surer.probability)
    object.__setattr__(model.head_, "sureness", None)
    plain = model.predict_dist(data.test.bags)
    assert with_sureness < divergence(truth, plain.probability)
    # only how sure, not of what; but where draws are averaged, about one half
    agree = surer.predicted == plain.predicted
    assert agree[np.abs(plain.probability - 0.5) > 0.02].all()


def test_it_is_saved_and_the_mode_alone_has_none(gamma, tmp_path):
    data, _ = gamma
    few, labels = data.train.bags[:60], data.train.labels[:60] > 6
    model = bagwise.ShrinkageClassifier().fit(few, labels)
    bagwise.save(model, tmp_path / "m.bagwise")
    assert bagwise.load(tmp_path / "m.bagwise").head_.sureness == model.head_.sureness
    assert bagwise.BDRClassifier(inference="map").fit(few, labels).head_.sureness is None


def test_a_larger_bag_is_surer_and_explanations_add_up(gamma):
    data, _ = gamma
    model = bagwise.BayesianLogisticClassifier().fit(data.train.bags, data.train.labels > 6)
    said = model.predict_dist(data.test.bags[:20])
    more = said.at_size(np.minimum(2 * data.test.bags.sizes[:20], 1000))
    side = np.sign(said.probability - 0.5)
    assert (side * (more.probability - said.probability) >= 0).all()
    for i in range(3):
        told = model.explain(data.test.bags, bag=i)
        total = told.baseline + told.points.sum() + told.covariates.sum()
        assert total == pytest.approx(said.latent.mean[i], abs=1e-8)
