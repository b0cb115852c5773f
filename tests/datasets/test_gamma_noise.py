"""The Bayes-optimal predictor of noisy gamma bags, against integrals done in other ways."""

import itertools
import math
import pickle

import numpy as np
import pytest
from scipy import integrate, special, stats

from bagwise.bags.bags import Bags
from bagwise.datasets import (
    bayes_optimal,
    gamma_baselines,
    gamma_fixed,
    load_paper_results,
    make_gamma,
    noisy_log_density,
)
from bagwise.datasets.gamma_noise import noisy_basis, noisy_statistics
from bagwise.exceptions import BagwiseError
from bagwise.predictions import metrics

SEEDS = range(23, 33)  # the paper's ten draws
AUTHORS_GRID = 1000  # labels in a discretised posterior that gives the printed table
CUTS = (-8, -4, -1.5, 0, 1.5, 4, 8)  # of the integral about its mode, in widths of the integrand


def quad_log_density(x, y, noise_sd):
    """Log density of one entry by adaptive quadrature over the value without noise."""
    a = y / 2
    known = stats.gamma.logpdf(1.0, a, scale=1 / a) + stats.norm.logpdf(0.0, 0.0, noise_sd) + a

    def log_joint(t):  # the densities of stats, which take long for one number at a time
        return known + (a - 1) * math.log(t) - a * t - 0.5 * ((x - t) / noise_sd) ** 2

    power, drift = y / 2 - 1, x - noise_sd**2 * y / 2
    mode = 0.5 * (drift + np.sqrt(drift**2 + 4 * noise_sd**2 * power))
    mode = max(mode, noise_sd**2 * power / (abs(drift) + noise_sd))  # where the first cancels
    width = 1 / np.sqrt(power / mode**2 + 1 / noise_sd**2)
    cuts = [0.0, *(mode + width * c for c in CUTS if mode + width * c > 0), mode + 45 * width]
    top = log_joint(mode)
    total = 0.0
    for low, high in itertools.pairwise(cuts):
        total += integrate.quad(
            lambda t: math.exp(log_joint(t) - top), low, high, epsabs=1e-14, epsrel=1e-12
        )[0]
    return top + np.log(total)


def direct_log_likelihood(points, y, noise_sd):
    """Log likelihood of the label of one bag: adaptive quadrature for all its entries at once."""
    x, a = np.ravel(points), y / 2

    def log_joint(x, t):
        return (a - 1) * np.log(t) - a * t - 0.5 * ((x - t) / noise_sd) ** 2

    top = np.max([log_joint(x, t) for t in np.linspace(0.01, 20, 400)], axis=0)

    def integrand(root):  # t = root^4, so that no power of t is singular
        return 4 * root**3 * np.exp(log_joint(x, root**4) - top)

    value, _ = integrate.quad_vec(integrand, 1e-5, 30**0.25, epsabs=1e-12, epsrel=0, norm="max")
    constant = a * np.log(a) - special.gammaln(a) - np.log(noise_sd * np.sqrt(2 * np.pi))
    return np.sum(np.log(value) + top) + x.size * constant


def direct_posterior(points, label, noise_sd, n_nodes=32):
    """Mean, standard deviation and log density at ``label``, by one Gauss rule on [4, 8]."""
    unit, weights = np.polynomial.legendre.leggauss(n_nodes)
    nodes, weights = 6 + 2 * unit, 2 * weights
    log_likelihood = np.array([direct_log_likelihood(points, y, noise_sd) for y in nodes])
    top = log_likelihood.max()
    norm = weights @ np.exp(log_likelihood - top)
    mass = weights * np.exp(log_likelihood - top) / norm
    mean = mass @ nodes
    at_label = direct_log_likelihood(points, label, noise_sd) - top - np.log(norm)
    return mean, np.sqrt(mass @ (nodes - mean) ** 2), at_label


def closed_log_density(x, noise_sd):
    """At y = 4 the entry is Gamma(2, 2) plus noise, an integral of t times a normal density."""
    shift = x - 2 * noise_sd**2
    z = shift / noise_sd
    inner = shift * special.ndtr(z) + noise_sd * stats.norm.pdf(z)
    return np.log(4) - 2 * x + 2 * noise_sd**2 + np.log(inner)


# ---------------------------------------------------------------- one entry


@pytest.mark.parametrize("noise_sd", [0.02, 0.3, 1.0, 4.0])
def test_entry_density_is_the_integral(noise_sd):
    rng = np.random.default_rng(0)
    x = np.concatenate([
        rng.uniform(-3 * noise_sd, 4 + 3 * noise_sd, 16),
        rng.uniform(-12, -6, 4) * noise_sd,  # where no noise-free entry can be
        12 + rng.uniform(0, 8, 4) * noise_sd,
    ])  # fmt: skip
    y = rng.uniform(4, 8, x.size)
    expected = [quad_log_density(*pair, noise_sd) for pair in zip(x, y, strict=True)]
    np.testing.assert_allclose(noisy_log_density(x, y, noise_sd), expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("noise_sd", [1e-3, 0.1, 1.0, 5.0])
def test_entry_density_in_closed_form(noise_sd):
    x = 2 * noise_sd**2 + noise_sd * np.linspace(-1, 20, 50)
    expected = closed_log_density(x, noise_sd)
    np.testing.assert_allclose(noisy_log_density(x, 4.0, noise_sd), expected, atol=1e-11)


def test_entry_density_is_a_density():
    x = np.linspace(-12, 40, 5201)
    density = np.exp(noisy_log_density(x, np.array([[4.0], [5.7], [8.0]]), 1.0))
    np.testing.assert_allclose(integrate.trapezoid(density, x), 1.0, atol=1e-12)
    np.testing.assert_allclose(integrate.trapezoid(density * x, x), 1.0, atol=1e-12)
    assert noisy_log_density(1.0, 6.0, 1.0).shape == ()


@pytest.mark.parametrize("noise_sd", [1e-3, 0.05, 1.0, 5.0])
def test_interpolated_log_likelihood(noise_sd):
    """Every bag has one entry; its log likelihood differs from the integral by a constant."""
    rng = np.random.default_rng(1)
    x = np.concatenate([
        rng.uniform(-7 * noise_sd, 10 + 7 * noise_sd, 250),
        rng.normal(0, 3 * noise_sd, 50),
        [-8 * noise_sd, 0.0, noise_sd, 12 + 8 * noise_sd],  # far out, and on edges of cells
    ])  # fmt: skip
    y = np.linspace(4, 8, 23)
    statistics = noisy_statistics(Bags.from_list(x[:, None, None]), noise_sd)
    error = statistics @ noisy_basis(y) - noisy_log_density(x[:, None], y, noise_sd)
    assert np.ptp(error, axis=1).max() < 5e-12


# ---------------------------------------------------------------- posterior


@pytest.mark.parametrize(
    ("size", "noise_sd", "seed"), [(1, 1.0, 1), (30, 1.0, 2), (30, 0.4, 3), (30, 2.0, 4)]
)
def test_posterior_of_a_small_bag(size, noise_sd, seed):
    split = make_gamma(seed, noise_sd=noise_sd, fixed_size=size, n_bags=2).test
    best = bayes_optimal(split.bags, noise_sd=noise_sd)
    expected = direct_posterior(split.bags[1], split.labels[1], noise_sd)
    found = best.mean[1], best.std[1], best.log_prob(split.labels)[1]
    assert found == pytest.approx(expected, abs=1e-9)


def test_posterior_of_a_bag_of_1000_points():
    split = make_gamma(noise_sd=1.0, fixed_size=1000, n_bags=2).test
    best = bayes_optimal(split.bags, noise_sd=1.0)
    expected = direct_posterior(split.bags[1], split.labels[1], 1.0, n_nodes=40)
    found = best.mean[1], best.std[1], best.log_prob(split.labels)[1]
    assert found == pytest.approx(expected, abs=1e-9)


def test_posterior_methods_agree():
    split = make_gamma(noise_sd=1.0, n_bags=12).test
    best = bayes_optimal(split.bags, noise_sd=1.0)
    grid = np.linspace(4, 8, 2001)
    density = np.exp([best.log_prob(y) for y in grid])
    np.testing.assert_allclose(integrate.simpson(density, x=grid, axis=0), 1.0, atol=1e-9)
    np.testing.assert_allclose(
        best.cdf(5.0), integrate.simpson(density[:501], x=grid[:501], axis=0), atol=1e-9
    )
    np.testing.assert_allclose(best.cdf(best.quantile(0.3)), 0.3, atol=1e-12)
    lower, upper = best.interval(0.9).T
    np.testing.assert_allclose(best.cdf(upper) - best.cdf(lower), 0.9, atol=1e-12)
    assert np.all(np.isneginf(best.log_prob(8.1)))
    np.testing.assert_array_equal(best.sizes, split.bags.sizes)


def test_noise_that_vanishes():
    split = make_gamma(n_bags=20).test
    exact = bayes_optimal(split.bags)
    error = []
    for noise_sd in (1e-3, 1e-4, 1e-5):
        best = bayes_optimal(split.bags, noise_sd=noise_sd)
        error.append(np.abs(best.log_prob(split.labels) - exact.log_prob(split.labels)).max())
    assert error[0] < 0.05
    assert error[2] < 1e-6
    assert error[1] / error[2] == pytest.approx(100, rel=0.1)  # of second order in the noise


def test_noise_that_drowns_the_bag():
    split = make_gamma(noise_sd=100.0, fixed_size=20, n_bags=3).test
    best = bayes_optimal(split.bags, noise_sd=100.0)
    np.testing.assert_allclose(best.mean, 6.0, atol=0.01)
    np.testing.assert_allclose(best.std, np.sqrt(4 / 3), atol=0.01)


def test_bags_do_not_touch_each_other():
    """More bags than one batch, of unequal sizes: the same as one bag at a time."""
    split = make_gamma(noise_sd=1.0, n_bags=150).test
    together = bayes_optimal(split.bags, noise_sd=1.0)
    for i in (0, 63, 64, 127, 149):
        alone = bayes_optimal(split.bags[i : i + 1], noise_sd=1.0)
        assert alone.mean[0] == pytest.approx(together.mean[i], abs=1e-10)
        assert alone.std[0] == pytest.approx(together.std[i], abs=1e-10)


def test_noisy_posterior_pickles():
    split = make_gamma(noise_sd=1.0, fixed_size=5, n_bags=3).test
    best = bayes_optimal(split.bags, noise_sd=1.0)
    copy = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(copy.log_prob(split.labels), best.log_prob(split.labels))


def test_noise_errors():
    bags = Bags.from_list([np.ones((2, 1))], weights=[np.ones(2)])
    with pytest.raises(BagwiseError, match="expected gamma bags without weights"):
        bayes_optimal(bags, noise_sd=1.0)
    for noise_sd in (-1.0, np.nan, np.inf):
        with pytest.raises(BagwiseError, match=f"noise_sd is {noise_sd}; expected a number >= 0"):
            bayes_optimal(bags, noise_sd=noise_sd)
    with pytest.raises(BagwiseError, match="expected noise_sd > 0"):
        noisy_log_density(1.0, 6.0, 0.0)
    with pytest.raises(BagwiseError, match=r"labels are 3\.9 to 6\.0; expected .* from 4 to 8"):
        noisy_log_density(1.0, [3.9, 6.0], 1.0)


# ---------------------------------------------------------------- the paper's experiment


def discretised_scores(bags, y):
    """MSE and NLL from sums over a grid of labels, with the density read off above the label."""
    grid = np.linspace(4, 8, AUTHORS_GRID)
    mass = special.softmax(noisy_statistics(bags, 1.0) @ noisy_basis(grid), axis=1)
    at_label = mass[np.arange(y.size), np.searchsorted(grid, y)] / (grid[1] - grid[0])
    return np.mean((mass @ grid - y) ** 2), -np.mean(np.log(at_label))


def stored(seed, metric):
    rows = load_paper_results(experiment="gamma-fixed", metric=metric)
    return [row.value for row in rows if row.setting == seed]


def test_no_stored_method_crosses_the_line():
    test = gamma_fixed(23).test
    best = bayes_optimal(test.bags, noise_sd=1.0)
    assert metrics.mse(best, test.labels) < 0.8 * min(stored(23, "mse"))
    assert metrics.nll(best, test.labels) < min(stored(23, "nll")) - 0.2
    assert metrics.coverage(best, test.labels) == pytest.approx(0.95, abs=0.02)


@pytest.mark.slow
@pytest.mark.long
def test_the_printed_table():
    """Table of section 5.1, mean (sd) over ten draws: MSE 0.170 (0.009), NLL 0.401 (0.018).

    The authors did not store these scores by draw. The exact NLL, 0.3997, is lower than the printed
    one by what a grid of labels adds: a quarter of its step, on average.
    """
    exact, grid = [], []
    for seed in SEEDS:
        test = gamma_fixed(seed).test
        best = bayes_optimal(test.bags, noise_sd=1.0)
        exact.append((metrics.mse(best, test.labels), metrics.nll(best, test.labels)))
        grid.append(discretised_scores(test.bags, test.labels))
        assert exact[-1][0] < min(stored(seed, "mse"))
        assert exact[-1][1] < min(stored(seed, "nll"))
    print("exact: mean", np.mean(exact, axis=0), "sd", np.std(exact, axis=0))
    print("grid:  mean", np.mean(grid, axis=0), "sd", np.std(grid, axis=0))
    np.testing.assert_allclose(np.mean(grid, axis=0), [0.170, 0.401], atol=5e-4)
    np.testing.assert_allclose(np.std(grid, axis=0), [0.009, 0.018], atol=5e-4)
    np.testing.assert_allclose(np.mean(exact, axis=0), [0.170, 0.401], atol=2e-3)


def test_baselines():
    labels = make_gamma(fixed_size=1).test.labels
    mse, nll = gamma_baselines(labels)
    assert mse == pytest.approx(16 / 12, rel=0.1)  # the variance of the prior
    assert nll == pytest.approx(-stats.uniform.logpdf(labels, 4, 4).mean())
    for wrong in ([3.9], [], [[5.0]], [np.nan]):
        with pytest.raises(BagwiseError, match="one or more numbers from 4 to 8"):
            gamma_baselines(wrong)
