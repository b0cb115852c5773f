"""Spread: found where it is, left out where it is not."""

import numpy as np

from bagwise.inference.residuals import Spread

RNG = np.random.default_rng(0)
MEAN, LOG_SIZE = RNG.normal(size=800), RNG.normal(size=800)


def test_a_spread_that_grows_with_the_mean_is_found():
    true = np.exp(0.8 * MEAN)
    squares = true * RNG.standard_normal(800) ** 2
    found = Spread.fit(MEAN, LOG_SIZE, squares, np.ones(800))
    assert np.corrcoef(np.log(found(MEAN, LOG_SIZE)), 0.8 * MEAN)[0, 1] > 0.95
    assert 0.6 < found.coefficients[1] < 1.0


def test_where_there_is_none_it_is_nearly_one():
    squares = RNG.standard_normal(800) ** 2
    factors = Spread.fit(MEAN, LOG_SIZE, squares, np.ones(800))(MEAN, LOG_SIZE)
    assert np.abs(np.log(factors)).max() < 0.35


def test_few_bags_are_not_asked():
    found = Spread.fit(MEAN[:20], LOG_SIZE[:20], np.exp(MEAN[:20]), np.ones(20))
    assert not found.coefficients.any()


def test_of_few_bags_alike_chance_makes_no_spread():
    rng = np.random.default_rng(1)
    found = 0
    for _ in range(20):
        mean, log_size, residual = rng.normal(size=(3, 100))
        found += Spread.fit(mean, log_size, residual**2, np.ones(100)).coefficients.any()
    assert found <= 1


def test_far_from_all_bags_it_stays_within_bounds():
    found = Spread(np.zeros(2), np.ones(2), np.full(6, 5.0))
    assert np.isfinite(found(np.array([1e9]), np.array([-1e9]))).all()
