"""MixturePrediction against scipy.stats, numerical integration, simulation and one Gaussian."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate, stats

from bagwise.exceptions import BagwiseError
from bagwise.predictions import mixture
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.latent import Latent
from bagwise.predictions.mixture import MixturePrediction
from mixtures import random_mixture, simple
from sized import Sized

QS = np.array([1e-12, 1e-6, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-6])


def scipy_norm(p):
    means, variances = p.components
    return stats.norm(means, np.sqrt(variances))


def closed_crps(p, y):
    """Grimit et al. (2006): mean_a A(y - m_a, v_a) - mean_ab A(m_a - m_b, v_a + v_b) / 2."""
    means, variances = p.components

    def absolute(m, v):
        t = m / np.sqrt(v)
        return 2 * np.sqrt(v) * stats.norm.pdf(t) + m * (2 * stats.norm.cdf(t) - 1)

    first = absolute(y - means, variances).mean(axis=0)
    pairs = absolute(means[:, None] - means[None], variances[:, None] + variances[None])
    return first - 0.5 * pairs.mean(axis=(0, 1))


@pytest.fixture
def p():
    return random_mixture()


# ---------------------------------------------------------------- moments


def test_parts_are_the_law_of_total_variance(p):
    means, variances = p.components
    np.testing.assert_allclose(p.mean, means.mean(axis=0))
    second = (means**2 + variances).mean(axis=0)  # E y^2, without the law
    np.testing.assert_allclose(p.var, second - p.mean**2, rtol=1e-12)
    np.testing.assert_allclose(p.parts.bag, p.bag_variances.mean(axis=0))
    np.testing.assert_allclose(p.parts.bag + p.parts.noise, variances.mean(axis=0))


def test_sample_has_the_moments_and_the_distribution(p):
    draws = p.sample(200_000, random_state=1)
    assert draws.shape == (200_000, 7)
    assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 5 * p.std / np.sqrt(200_000))
    np.testing.assert_allclose(draws.var(axis=0), p.var, rtol=0.02)
    np.testing.assert_allclose((draws <= p.quantile(0.2)).mean(axis=0), 0.2, atol=0.005)


def test_bags_of_one_sample_share_the_posterior_draw():
    p = MixturePrediction([[-5.0, 5.0], [5.0, -5.0]], [0.01, 0.01], sizes=None)
    draws = p.sample(500, random_state=0)
    assert set(np.sign(draws[:, 0])) == {-1.0, 1.0}
    np.testing.assert_array_equal(np.sign(draws[:, 0]), -np.sign(draws[:, 1]))


def test_sample_is_reproducible_from_every_kind_of_state(p):
    np.testing.assert_array_equal(p.sample(3, 5), p.sample(3, np.random.default_rng(5)))
    np.testing.assert_array_equal(*[p.sample(2, np.random.RandomState(5)) for _ in range(2)])
    assert p.sample().shape == (1, 7)


# ---------------------------------------------------------------- distribution


def test_cdf_and_log_prob_are_averages(p):
    y = np.linspace(-4, 4, 7)
    norm = scipy_norm(p)
    np.testing.assert_allclose(p.cdf(y), norm.cdf(y).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(0.3), norm.cdf(0.3).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(y), np.log(norm.pdf(y).mean(axis=0)), rtol=1e-12)


def test_log_prob_far_out_is_that_of_the_nearest_component():
    p = simple([0.0, 100.0], 1.0)
    expected = stats.norm(100, 1).logpdf(1000.0) - np.log(2)
    np.testing.assert_allclose(p.log_prob([1000.0]), expected, rtol=1e-12)


def test_density_integrates_to_the_cdf(p):
    one = p[0]
    mass = integrate.quad(lambda t: np.exp(one.log_prob([t])[0]), -30, 0.4, limit=200)[0]
    np.testing.assert_allclose(one.cdf(0.4), mass, rtol=1e-8)


def test_one_draw_is_the_gaussian():
    sizes, y = np.array([1, 4, 30]), np.array([0.2, -3.0, 9.0])
    query = Sized.random(1).query(sizes, np.array([[0.4, -1.0, 2.0]]), noise=[0.3])
    p = MixturePrediction.from_latent(query.latent(), sizes=sizes, query=query)
    gauss = Prediction.from_latent(query.latent(), sizes=sizes, query=query)
    assert type(gauss) is Prediction
    for method in ("cdf", "log_prob", "crps"):
        np.testing.assert_allclose(getattr(p, method)(y), getattr(gauss, method)(y), rtol=1e-11)
    np.testing.assert_allclose(p.quantile(QS), gauss.quantile(QS), rtol=1e-11)
    np.testing.assert_allclose(p.at_size(3).interval(), gauss.at_size(3).interval(), rtol=1e-12)
    for name, column in gauss.to_dict().items():
        np.testing.assert_allclose(p.to_dict()[name], column, rtol=1e-12)


def test_equal_draws_are_the_gaussian():
    p = simple(np.full(100, 2.0), 3.0)
    gauss = Prediction([2.0], VarianceParts.broadcast(1, noise=9.0))
    np.testing.assert_allclose(p.crps([4.0]), gauss.crps([4.0]), rtol=1e-9)
    np.testing.assert_allclose(p.quantile(QS), gauss.quantile(QS), rtol=1e-12)


# ---------------------------------------------------------------- quantiles


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 300.0])
@pytest.mark.parametrize("n_draws", [2, 5, 200])
def test_quantile_inverts_the_cdf(n_draws, spread):
    p = random_mixture(n_draws, 20, spread=spread)
    values = p.quantile(QS)
    assert values.shape == (20, len(QS))
    assert np.all(np.diff(values, axis=1) > 0)
    for q, column in zip(QS, values.T, strict=True):
        np.testing.assert_allclose(p.cdf(column), q, rtol=1e-11)
        np.testing.assert_array_equal(p.quantile(q), column)


def test_quantile_in_the_upper_tail_mirrors_the_lower():
    p = random_mixture(30, 5)
    mirrored = MixturePrediction(-p.components[0], np.zeros(30), bag=p.components[1])
    tails = 2.0 ** -np.arange(1, 50)  # of which 1 - q is exact
    np.testing.assert_allclose(p.quantile(1 - tails), -mirrored.quantile(tails), rtol=1e-10)


def test_quantiles_of_components_far_apart():
    """Each half of the probability belongs to one component."""
    p = simple([0.0, 1e6], [1.0, 2.0])
    q = np.array([1e-10, 0.1, 0.4, 0.6, 0.9])
    expected = np.where(q < 0.5, stats.norm.ppf(2 * q), 1e6 + 2 * stats.norm.ppf(2 * q - 1))
    np.testing.assert_allclose(p.quantile(q)[0], expected, rtol=1e-10)
    assert 10 < p.quantile(0.5)[0] < 1e6 - 10  # anywhere in the gap, where the cdf is 1/2


def test_quantiles_of_components_of_very_different_width():
    p = simple([0.0, 1.0, 1.0], [1e-9, 1e-3, 1e3])
    tolerance = 2e-12 * p.std[0]
    for q, t in zip(QS, p.quantile(QS)[0], strict=True):
        assert p.cdf(t - tolerance)[0] <= q * (1 + 1e-12)
        assert p.cdf(t + tolerance)[0] >= q * (1 - 1e-12)


def test_interval_is_central(p):
    lower, upper = p.interval(0.9).T
    np.testing.assert_allclose(p.cdf(lower), 0.05, rtol=1e-11)
    np.testing.assert_allclose(p.cdf(upper), 0.95, rtol=1e-11)


# ---------------------------------------------------------------- crps


@pytest.mark.parametrize("spread", [0.0, 0.5, 5.0, 100.0])
@pytest.mark.parametrize("n_draws", [1, 2, 30, 300])
def test_crps_is_the_closed_form(n_draws, spread):
    p = random_mixture(n_draws, 6, spread=spread)
    for y in (p.mean, p.sample(1, 0)[0], p.mean + 8 * p.std):
        error = np.abs(p.crps(y) - closed_crps(p, y)) / p.std
        assert error.max() < 1e-9


def test_both_ways_to_the_crps_are_used_and_agree(monkeypatch):
    p = random_mixture(300, 6, spread=2.0)
    y, calls = p.sample(1, 0)[0], []
    monkeypatch.setattr(mixture, "_spread_by_pairs", lambda *_: calls.append("pairs"))
    by_nodes = p.crps(y)
    assert not calls
    monkeypatch.undo()
    monkeypatch.setattr(mixture, "NODE_STEP", 1e-9)  # so many nodes that pairs are cheaper
    monkeypatch.setattr(mixture, "_spread_by_nodes", lambda *_: calls.append("nodes"))
    np.testing.assert_allclose(p.crps(y), by_nodes, rtol=1e-9)
    assert not calls


@pytest.mark.parametrize("y", [-6.0, 0.0, 2.5, 30.0])
@pytest.mark.parametrize("n_draws", [3, 100])
def test_crps_is_the_integral(n_draws, y):
    p = random_mixture(n_draws, 1, seed=3)
    below = integrate.quad(lambda t: p.cdf(t)[0] ** 2, min(y, -10) - 20, y, limit=300)[0]
    above = integrate.quad(lambda t: (1 - p.cdf(t)[0]) ** 2, y, max(y, 10) + 20, limit=300)[0]
    np.testing.assert_allclose(p.crps([y]), below + above, rtol=1e-7)


def test_crps_does_not_depend_on_where_zero_is():
    p = simple(np.linspace(0, 1, 50), 0.5)
    moved = simple(np.linspace(0, 1, 50) + 1e6, 0.5)
    np.testing.assert_allclose(moved.crps([1e6 + 0.3]), p.crps([0.3]), rtol=1e-8)


# ---------------------------------------------------------------- zero variance


def test_point_masses_are_an_empirical_distribution():
    p = simple([3.0, 1.0, 2.0, 4.0], 0.0)
    np.testing.assert_array_equal([p.cdf(t)[0] for t in (0.9, 1, 3.5, 4)], [0, 0.25, 0.75, 1])
    np.testing.assert_array_equal(p.quantile([0.2, 0.25, 0.3, 0.75, 0.8]), [[1, 1, 2, 3, 4]])
    expected = np.abs(np.arange(1, 5) - 2.2).mean()
    expected -= 0.5 * np.abs(np.subtract.outer(np.arange(4), np.arange(4))).mean()
    np.testing.assert_allclose(p.crps([2.2]), expected, rtol=1e-12)


def test_one_point_mass():
    p = simple([2.0, 2.0], 0.0)
    np.testing.assert_array_equal(p.crps([5.0]), [3.0])
    np.testing.assert_array_equal(p.interval(), [[2.0, 2.0]])


def test_some_point_masses():
    p = simple([0.0, 0.0, 5.0, 5.0], [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(p.cdf([5.0]), 1.0, atol=1e-6)
    np.testing.assert_allclose(p.cdf([4.9999]), 0.5, atol=1e-6)
    np.testing.assert_allclose(p.quantile([0.25, 0.6, 0.99]), [[0.0, 5.0, 5.0]], atol=1e-11)
    assert np.all([p.cdf(t) >= q for q in (0.6, 0.99) for t in p.quantile(q)])
    close = simple([0.0, 0.0, 5.0, 5.0], [1.0, 1.0, 1e-9, 1e-9])
    np.testing.assert_allclose(p.crps([2.0]), close.crps([2.0]), rtol=1e-8)


def test_a_quantile_before_and_after_a_jump():
    """Half a standard normal and half a point at zero: the cdf jumps from 1/4 to 3/4."""
    p = simple([0.0, 0.0], [1.0, 0.0])
    expected = [stats.norm.ppf(0.4), 0.0, 0.0, stats.norm.ppf(0.6)]
    np.testing.assert_allclose(p.quantile([0.2, 0.3, 0.7, 0.8])[0], expected, atol=1e-11)


def test_no_density_without_variance():
    message = r"bag bob \(row 1\) has zero variance in a draw.*noise part > 0"
    bag = np.array([[0.5, 0.0], [0.5, 0.0]])
    p = MixturePrediction(np.zeros((2, 2)), [1.0, 0.0], bag=bag, ids=["ann", "bob"])
    with pytest.raises(BagwiseError, match=message):
        p.log_prob([0.0, 0.0])
    assert np.isfinite(p[0].log_prob([0.0])).all()


def test_variances_of_each_draw_and_bag_are_one_variance_whatever_their_cause():
    rng = np.random.default_rng(5)
    means, y = rng.normal(size=(4, 3)), rng.normal(size=3)
    bag, weights, noise = rng.uniform(0.1, 1.0, (3, 4, 3))
    split = MixturePrediction(means, noise, bag=bag, weights=weights)
    whole = MixturePrediction(means, np.zeros(4), bag=bag + weights + noise)
    assert_allclose(split.parts.bag, bag.mean(axis=0))
    assert_allclose(split.parts.weights, weights.mean(axis=0) + means.var(axis=0))
    assert_allclose(split.parts.noise, noise.mean(axis=0))
    for ask in (lambda p: p.cdf(y), lambda p: p.log_prob(y), lambda p: p.crps(y)):
        assert_allclose(ask(split), ask(whole))
    assert_allclose(split.interval(0.8), whole.interval(0.8))
    assert_allclose(split[[2, 0]].log_prob(y[[2, 0]]), whole.log_prob(y)[[2, 0]])
    assert_allclose(split.sample(5, 0), whole.sample(5, 0))


def test_a_gaussian_of_several_draws_has_their_mean_and_variance():
    rng = np.random.default_rng(6)
    bag, weights, noise = rng.uniform(0.1, 1.0, (3, 4, 3))
    latent = Latent(rng.normal(size=(4, 3)), bag, np.arange(3), weights, noise)
    gaussian, mixture = Prediction.from_latent(latent), MixturePrediction.from_latent(latent)
    assert_allclose(gaussian.mean, mixture.mean)
    for name, part in mixture.parts.to_dict().items():
        assert_allclose(gaussian.parts.to_dict()[name], part)
