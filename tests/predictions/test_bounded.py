"""Predictions within a known range, against numerical integration."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.stats import norm

from bagwise.inspection.plots.coverage import by_group
from bagwise.predictions.bounded import BoundedPrediction, cut_gaussian
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.joined import Piece, joined
from bagwise.predictions.metrics import coverage
from bagwise.predictions.parts import VarianceParts

LEVELS = (0.5, 0.8, 0.95)
MEAN, SD = np.array([4.5, 6.0, 9.0, 3.0]), np.array([0.5, 2.0, 0.7, 0.3])
PARTS = VarianceParts.broadcast(4, bag=0.25 * SD**2, weights=0.25 * SD**2, noise=0.5 * SD**2)


def made(support=(4.0, 8.0)):
    return BoundedPrediction(MEAN, PARTS, support=support, ids=np.array(list("abcd")))


def density(p, i):
    """A Gaussian within the range, whatever its moments."""
    log_pdf = norm(p.location[i], p.scale[i]).logpdf
    nearest = log_pdf(np.clip(p.location[i], *p.support))
    reach = np.clip(p.mean[i] + 30 * SD[i] * np.array([-1, 1]), *p.support)
    mass = quad(lambda y: np.exp(log_pdf(y) - nearest), *reach, limit=1000)[0]
    return lambda y: np.exp(log_pdf(y) - nearest) / mass


@pytest.mark.parametrize("support", [(4.0, 8.0), (4.0, np.inf), (-np.inf, 8.0)])
def test_moments_and_scores_are_integrals(support):
    p = made(support)
    low, high = max(support[0], -60.0), min(support[1], 70.0)
    y = np.array([4.2, 7.0, 7.9, 4.1])
    crps, cdf, log_prob = p.crps(y), p.cdf(y), p.log_prob(y)
    for i in range(4):
        f = density(p, i)
        grid = np.linspace(low, high, 2_000_001)
        mass = np.gradient(grid) * f(grid)
        mean = np.sum(grid * mass) / mass.sum()
        assert_allclose(p.mean[i], mean, rtol=1e-4)
        assert_allclose(p.var[i], np.sum((grid - mean) ** 2 * mass) / mass.sum(), rtol=1e-3)
        assert_allclose(cdf[i], quad(f, low, y[i], limit=500)[0], atol=1e-6)
        assert_allclose(log_prob[i], np.log(f(y[i])), rtol=1e-7)
        below = np.cumsum(mass)
        error = (below / below[-1] - (grid >= y[i])) ** 2
        assert_allclose(crps[i], np.trapezoid(error, grid), atol=1e-3)


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("support", [(0.0, 1.0), (0.0, np.inf), (-np.inf, 1.0), (-np.inf, np.inf)])
def test_mean_and_variance_are_those_given_wherever_there_is_such_a_distribution(support, unit):
    mean, sd = (grid.ravel() for grid in np.meshgrid([0.2, 0.5, 0.7], [0.01, 0.1, 0.19, 0.25]))
    parts = VarianceParts.broadcast(len(mean), noise=(unit * sd) ** 2)
    p = BoundedPrediction(unit * mean, parts, support=tuple(unit * bound for bound in support))
    assert_allclose(p.mean, unit * mean, rtol=1e-5)
    possible = sd < 0.8 * np.minimum(mean - support[0], support[1] - mean)  # exponential: as far
    assert possible.sum() > 5
    assert_allclose(p.std[possible], unit * sd[possible], rtol=1e-4)
    assert (p.std <= unit * sd * (1 + 1e-4)).all()


def test_where_there_is_none_it_is_nearly_uniform_or_exponential():
    parts = VarianceParts.broadcast(3, noise=[100.0, 0.04, 0.04])
    p = BoundedPrediction([0.5, 0.0, 1.5], parts, support=(0.0, 1.0))
    assert_allclose(p.quantile([0.1, 0.5, 0.9])[0], [0.1, 0.5, 0.9], atol=0.01)
    decay = -0.1 * np.log1p(-np.array([0.1, 0.5, 0.9]))  # half a standard deviation inside
    assert_allclose(p.quantile([0.1, 0.5, 0.9])[1], decay, rtol=0.05)
    assert_allclose(p.quantile([0.9, 0.5, 0.1])[2], 1.0 - decay, rtol=0.05)


def test_cut_gaussians_are_found_for_very_many_bags_at_once():
    rng = np.random.default_rng(0)
    mean, var = rng.uniform(-0.5, 1.5, 20_000), rng.lognormal(-4, 2, 20_000)
    location, scale = cut_gaussian(mean, var, (0.0, 1.0))
    few = rng.choice(20_000, 50, replace=False)
    alone = [cut_gaussian(mean[[i]], var[[i]], (0.0, 1.0)) for i in few]
    assert np.isfinite(location).all() and (scale > 0).all()
    assert_allclose(np.ravel(alone), np.ravel(np.column_stack([location[few], scale[few]])))


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
    p, plain = made((-np.inf, np.inf)), Prediction(MEAN, PARTS)
    y = np.array([4.2, 7.0, 7.9, 4.1])
    for mine, theirs in ((p.mean, plain.mean), (p.var, plain.var), (p.crps(y), plain.crps(y))):
        assert_allclose(mine, theirs, rtol=1e-10)


def test_a_gaussian_far_outside_is_at_the_bound():
    parts = VarianceParts.broadcast(2, noise=1e-6)
    p = BoundedPrediction([-50.0, 50.0], parts, support=(0.0, 1.0))
    assert_allclose(p.mean, [0.0, 1.0], atol=1e-3)  # half a standard deviation inside
    assert np.isfinite(p.crps(np.array([0.5, 0.5]))).all()
    assert_allclose(p.crps(np.array([0.5, 0.5])), 0.5, atol=1e-3)


def test_some_bags():
    p = made()
    assert_allclose(p["c"].mean, p.mean[2:3])
    assert p[1:3].support == (4.0, 8.0)
    assert_allclose(p.at_size(9).sizes, 9.0)


@pytest.mark.parametrize("support", [(4.0, 8.0), (4.0, np.inf), (-np.inf, 8.0)])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_intervals_are_the_shortest_of_their_probability(support, level):
    p = made(support)
    lower, upper = p.interval(level).T
    assert_allclose(p.cdf(upper) - p.cdf(lower), level, atol=1e-9)
    start = np.linspace(1e-6, 1.0 - level - 1e-6, 4001)
    others = p.quantile(start + level) - p.quantile(start)
    assert (upper - lower <= others.min(axis=1) * (1 + 1e-9)).all()


def with_a_ceiling(n):
    """Latent scores, labels cut at 100, which a fifth have reached, and their prediction."""
    rng = np.random.default_rng(0)
    latent = rng.uniform(60, 110, n)
    y = np.clip(latent + rng.normal(0, 10, n), 0, 100)
    parts = VarianceParts.broadcast(n, noise=100.0)
    return latent, y, BoundedPrediction(np.minimum(latent, 98.0), parts, support=(0.0, 100.0))


def test_intervals_hold_labels_that_are_at_an_end():
    """Central ones began inside: of scores of which a fifth are 100 they held few of these."""
    latent, y, p = with_a_ceiling(4000)
    assert np.mean(y == 100.0) > 0.2
    for level in (0.5, 0.8, 0.95):
        lower, upper = p.interval(level).T
        assert (upper[latent > 100] == 100.0).all()
        assert np.mean((lower <= y) & (y <= upper)) > level - 0.06


def test_ends_as_far_as_numbers_go_are_no_ends():
    p = made((-1e308, 1e308))  # without a warning of NumPy's
    assert_allclose(p.interval(0.9), Prediction(MEAN, PARTS).interval(0.9))


def test_means_keep_their_order_however_large_the_variance():
    mean = np.array([-5.0, 0.1, 0.4, 0.6, 0.9, 5.0])
    for sd in (0.1, 1.0, 10.0, 1e4, 1e8):
        p = BoundedPrediction(mean, VarianceParts.broadcast(6, noise=sd**2), support=(0.0, 1.0))
        assert (np.diff(p.mean) > -1e-9).all() and (np.diff(p.mean[[0, 2, 3, 5]]) > 0.1).all()
        assert ((p.mean > 0) & (p.mean < 1) & (p.std > 0) & (p.std <= 0.3)).all()
        lower, upper = p.interval(0.9).T
        assert_allclose(p.cdf(upper) - p.cdf(lower), 0.9, atol=1e-9)


@pytest.mark.parametrize("support", [(0.0, 1.0), (1e9, 1e9 + 1), (-np.inf, 1.0), (1.0, np.inf)])
@pytest.mark.parametrize("var", [0.0, 1e-300, 1e-30])
def test_a_variance_of_nothing_at_an_end(support, var):
    end = support[1] if np.isfinite(support[1]) else support[0]
    p = BoundedPrediction([end], VarianceParts.broadcast(1, noise=var), support=support)
    assert_allclose(p.mean, end, rtol=1e-12)
    assert np.isfinite(p.interval(0.9)).all() and p.parts.total[0] <= max(var, 1e-300)


def test_levels_are_those_of_the_intervals():
    rng, p = np.random.default_rng(0), made()
    y = rng.uniform(4.0, 8.0, 4)
    reached = p.level_at(y)
    assert ((reached > 0) & (reached < 1)).all()
    for i in range(4):
        lower, upper = p[i].interval(float(reached[i]))[0]
        assert min(abs(lower - y[i]), abs(upper - y[i])) < 1e-6
    assert (p.level_at(np.full(4, 9.0)) == 1.0).all()
    plain = Prediction(MEAN, PARTS)
    assert_allclose(plain.level_at(y), np.abs(2.0 * plain.cdf(y) - 1.0))


def test_pictures_of_calibration_are_of_the_same_intervals_as_tables():
    """At the end of the range there are labels that a central interval never holds."""
    _, y, p = with_a_ceiling(2000)
    rows = np.arange(2000)
    both = joined([Piece(rows[::2], p[::2], None), Piece(rows[1::2], p[1::2], None)])
    for each in (p, both):
        (group,) = by_group(each, y)
        assert_allclose(
            group.coverage()[[50, 80, 95]], [coverage(p, y, x) for x in LEVELS], atol=1e-3
        )
