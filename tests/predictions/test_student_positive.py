"""Predictions with heavy tails and of positive labels, against scipy.stats and integrals."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.linked import PositivePrediction
from bagwise.predictions.parts import VarianceParts
from bagwise.predictions.student import StudentPrediction

MEAN, SD = np.array([0.0, -1.5, 2.0]), np.array([1.0, 0.2, 0.7])
PARTS = VarianceParts(bag=0.2 * SD**2, weights=0.3 * SD**2, noise=0.5 * SD**2)
PLAIN = Prediction(MEAN, PARTS, ids=np.array(list("abc")))
LEVELS = [0.01, 0.3, 0.5, 0.9]


def made(name):
    if name == "positive":
        return PositivePrediction(PLAIN), stats.lognorm(SD, scale=np.exp(MEAN))
    dof = float(name)
    return StudentPrediction(PLAIN, dof=dof), stats.t(dof, MEAN, SD * np.sqrt((dof - 2.0) / dof))


every_one = pytest.mark.parametrize("name", ["positive", "3", "7.5", "80"])


@every_one
def test_distributions_are_scipys(name):
    p, known = made(name)
    y = known.ppf(0.8) + 0.1
    assert_allclose(p.mean, known.mean())
    assert_allclose(p.std, known.std())
    assert_allclose(p.cdf(y), known.cdf(y))
    assert_allclose(p.pit(y), known.cdf(y))
    assert_allclose(p.log_prob(y), known.logpdf(y))
    assert_allclose(p.quantile(LEVELS), np.array([known.ppf(q) for q in LEVELS]).T)
    assert_allclose(p.quantile(0.5), known.median())


@every_one
def test_the_score_is_its_integral(name):
    p, known = made(name)
    y = known.ppf(0.2)
    t = np.linspace(known.ppf(1e-9), known.ppf(1.0 - 1e-9), 400_001)
    error = (known.cdf(t) - (t >= y)) ** 2
    assert_allclose(p.crps(y), np.trapezoid(error, t, axis=0), rtol=1e-3)


@every_one
def test_parts_add_up_and_keep_their_shares(name):
    p, _ = made(name)
    assert_allclose(p.parts.total, p.var)
    assert_allclose(p.parts.bag / p.var, 0.2)
    assert_allclose(p.parts.noise / p.var, 0.5)


@every_one
def test_draws_and_rows(name):
    p, known = made(name)
    draws = p.sample(20_000, 1)
    assert_allclose(np.mean(draws <= known.ppf(0.3), axis=0), 0.3, atol=0.015)
    assert_allclose(p["b"].log_prob([0.5]), p.log_prob([0.5] * 3)[1])
    assert_array_equal(pickle.loads(pickle.dumps(p)).interval(0.9), p.interval(0.9))
    assert_array_equal(p.at_size(9).interval(0.9), p.interval(0.9))
    assert type(p).__name__ in p._repr_html_()


def test_what_is_not_positive_has_no_density():
    p = PositivePrediction(PLAIN)
    assert_array_equal(p.log_prob([0.0, -1.0, 1.0])[:2], -np.inf)
    assert_array_equal(p.cdf(0.0), 0.0)
    below = p.crps(np.full(3, -1.0))
    assert_allclose(below - p.crps(np.zeros(3)), 1.0)


def test_a_known_label_is_a_step():
    known = Prediction([1.0], VarianceParts.broadcast(1))
    assert_allclose(PositivePrediction(known).crps([3.0]), 3.0 - np.e)
    assert_allclose(PositivePrediction(known).cdf([3.0]), 1.0)
    heavy = StudentPrediction(known, dof=4.0)
    assert_allclose(heavy.crps([3.0]), 2.0)
    assert_allclose([heavy.cdf(0.9)[0], heavy.cdf(1.1)[0]], [0.0, 1.0])


def test_numbers_that_are_too_large_stay_numbers():
    far = Prediction([690.0, -690.0], VarianceParts.broadcast(2, noise=400.0))
    p = PositivePrediction(far)
    assert np.isfinite(p.mean).all() and np.isfinite(p.std).all()
    assert np.isfinite(p.interval(0.99)).all()
