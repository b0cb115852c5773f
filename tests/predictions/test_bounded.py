"""Predictions within a known range, against numerical integration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from bagwise.predictions.bounded import BoundedPrediction
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.parts import VarianceParts

LOCATION, SD = np.array([4.5, 6.0, 9.0, 3.0]), np.array([0.5, 2.0, 0.7, 0.3])
PARTS = VarianceParts.broadcast(4, bag=0.25 * SD**2, weights=0.25 * SD**2, noise=0.5 * SD**2)


def made(support=(4.0, 8.0)):
    return BoundedPrediction(LOCATION, PARTS, support=support, ids=np.array(list("abcd")))


def density(i, support):
    mass = norm.cdf(support[1], LOCATION[i], SD[i]) - norm.cdf(support[0], LOCATION[i], SD[i])
    return lambda y: norm.pdf(y, LOCATION[i], SD[i]) / mass


@pytest.mark.parametrize("support", [(4.0, 8.0), (4.0, np.inf), (-np.inf, 8.0)])
def test_moments_and_scores_are_integrals(support):
    p = made(support)
    low, high = max(support[0], -10.0), min(support[1], 20.0)
    y = np.array([4.2, 7.0, 7.9, 4.1])
    crps, cdf, log_prob = p.crps(y), p.cdf(y), p.log_prob(y)
    for i in range(4):
        f = density(i, support)
        grid = np.linspace(low, high, 400_001)
        mass = np.gradient(grid) * f(grid)
        mean = np.sum(grid * mass) / mass.sum()
        assert_allclose(p.mean[i], mean, rtol=1e-4)
        assert_allclose(p.var[i], np.sum((grid - mean) ** 2 * mass) / mass.sum(), rtol=1e-3)
        assert_allclose(cdf[i], quad(f, low, y[i], limit=500)[0], atol=1e-6)
        assert_allclose(log_prob[i], np.log(f(y[i])), rtol=1e-7)
        below = np.cumsum(mass)
        error = (below / below[-1] - (grid >= y[i])) ** 2
        assert_allclose(crps[i], np.trapezoid(error, grid), atol=1e-3)


def test_the_score_is_that_of_quantiles():
    p, y = made(), np.array([4.2, 7.0, 7.9, 4.1])
    levels = (np.arange(20_000) + 0.5) / 20_000
    error = y[:, None] - p.quantile(levels)
    assert_allclose(p.crps(y), 2.0 * np.mean(error * (levels - (error < 0)), axis=1), atol=1e-4)


def test_parts_add_up_and_keep_their_shares():
    p = made()
    assert_allclose(p.parts.total, p.var)
    assert_allclose(p.parts.bag / p.var, 0.25)


def test_everything_stays_within_the_range():
    p = made()
    assert ((p.interval(0.999) >= 4.0) & (p.interval(0.999) <= 8.0)).all()
    draws = p.sample(500, 0)
    assert ((draws >= 4.0) & (draws <= 8.0)).all()
    assert_allclose(draws.mean(axis=0), p.mean, atol=0.15)
    assert (p.log_prob(np.full(4, 8.5)) == -np.inf).all()
    assert p.cdf(3.0).max() == 0.0 and p.cdf(9.0).min() == 1.0
    assert_allclose(p.cdf(p.quantile(0.3)), 0.3, atol=1e-9)


def test_a_range_without_end_is_no_range():
    p, plain = made((-np.inf, np.inf)), Prediction(LOCATION, PARTS)
    y = np.array([4.2, 7.0, 7.9, 4.1])
    for mine, theirs in ((p.mean, plain.mean), (p.var, plain.var), (p.crps(y), plain.crps(y))):
        assert_allclose(mine, theirs, rtol=1e-10)


def test_a_gaussian_far_outside_is_at_the_bound():
    parts = VarianceParts.broadcast(2, noise=1e-6)
    p = BoundedPrediction([-50.0, 50.0], parts, support=(0.0, 1.0))
    assert_allclose(p.mean, [0.0, 1.0], atol=1e-4)
    assert np.isfinite(p.crps(np.array([0.5, 0.5]))).all()
    assert_allclose(p.crps(np.array([0.5, 0.5])), 0.5, atol=1e-3)


def test_some_bags():
    p = made()
    assert_allclose(p["c"].mean, p.mean[2:3])
    assert p[1:3].support == (4.0, 8.0)
    assert_allclose(p.at_size(9).sizes, 9.0)
