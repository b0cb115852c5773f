"""Likelihoods against scipy.stats, finite differences, enumeration of the labels and limits."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from bagwise.likelihoods import Gaussian, Logistic, Probit

MEANS = np.array([-3.0, -0.7, 0.0, 0.4, 2.5])
VARS = np.array([0.3, 1.0, 1.7, 4.0, 12.0])

# Every mean with every variance and each of two labels; real labels are any two numbers.
GRID = [grid.ravel() for grid in np.meshgrid([-1.0, 1.0], MEANS, VARS, indexing="ij")]

SECOND = ("mean_mean", "mean_var", "var_var")
FISHER = ("fisher_mean", "fisher_cross", "fisher_var")


def minus_log_density(likelihood, y, mean, var):
    """Compute -log p by scipy.stats alone, up to the constant that Gaussian leaves out."""
    if isinstance(likelihood, Gaussian):
        return -stats.norm.logpdf(y, mean, np.sqrt(var)) - 0.5 * np.log(2 * np.pi)
    if isinstance(likelihood, Probit):
        return -stats.norm.logcdf(y * mean / np.sqrt(var))
    return -stats.logistic.logcdf(y * mean)


def slope(function, at, step=1e-4):
    """Central differences of error step^4."""
    near = (function(at + step) - function(at - step)) / (2 * step)
    far = (function(at + 2 * step) - function(at - 2 * step)) / (4 * step)
    return (4 * near - far) / 3


@pytest.fixture(params=[Gaussian(), Probit(), Logistic()], ids=lambda one: one.name)
def likelihood(request):
    return request.param


def test_value_is_scipys(likelihood):
    expected = minus_log_density(likelihood, *GRID)
    np.testing.assert_allclose(likelihood.terms(*GRID).value, expected, rtol=1e-12, atol=1e-13)


def test_first_derivatives_are_slopes_of_the_value(likelihood):
    y, mean, var = GRID
    terms = likelihood.terms(y, mean, var)
    by_mean = slope(lambda at: minus_log_density(likelihood, y, at, var), mean)
    by_var = slope(lambda at: minus_log_density(likelihood, y, mean, at), var)
    np.testing.assert_allclose(terms.by_mean, by_mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(terms.by_var, by_var, rtol=1e-8, atol=1e-9)


def test_second_derivatives_are_slopes_of_the_first(likelihood):
    y, mean, var = GRID
    terms = likelihood.terms(y, mean, var)
    expected = {
        "mean_mean": slope(lambda at: likelihood.terms(y, at, var).by_mean, mean),
        "mean_var": slope(lambda at: likelihood.terms(y, mean, at).by_mean, var),
        "var_var": slope(lambda at: likelihood.terms(y, mean, at).by_var, var),
    }
    for name, value in expected.items():
        np.testing.assert_allclose(getattr(terms, name), value, rtol=1e-8, atol=1e-9)


def test_mixed_derivative_is_the_same_from_the_other_side(likelihood):
    y, mean, var = GRID
    other = slope(lambda at: likelihood.terms(y, at, var).by_var, mean)
    np.testing.assert_allclose(likelihood.terms(y, mean, var).mean_var, other, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
def test_fisher_is_the_mean_curvature_over_both_labels(likelihood):
    _, mean, var = GRID
    both = [likelihood.terms(np.full_like(mean, y), mean, var) for y in (-1.0, 1.0)]
    np.testing.assert_allclose(sum(np.exp(-one.value) for one in both), 1.0, rtol=1e-13)
    for fisher, second in zip(FISHER, SECOND, strict=True):
        expected = sum(np.exp(-one.value) * getattr(one, second) for one in both)
        np.testing.assert_allclose(getattr(both[0], fisher), expected, rtol=1e-10, atol=1e-13)
        np.testing.assert_array_equal(getattr(both[0], fisher), getattr(both[1], fisher))


@pytest.mark.parametrize(("mean", "var"), [(0.0, 1.0), (-2.0, 0.3), (5.0, 12.0)])
def test_fisher_of_real_labels_is_the_mean_curvature_over_their_density(mean, var):
    def weighted(y, name):
        terms = Gaussian().terms(*np.array([[y], [mean], [var]]))
        return getattr(terms, name)[0] * stats.norm.pdf(y, mean, np.sqrt(var))

    ends = mean - 12 * np.sqrt(var), mean + 12 * np.sqrt(var)
    terms = Gaussian().terms(*np.array([[0.0], [mean], [var]]))
    for fisher, second in zip(FISHER, SECOND, strict=True):
        expected = integrate.quad(weighted, *ends, args=(second,))[0]
        np.testing.assert_allclose(getattr(terms, fisher)[0], expected, rtol=1e-9, atol=1e-10)


# ---------------------------------------------------------------- tails


def terms_at(likelihood, yu):
    """Terms at label +1, mean yu and variance 1."""
    yu = np.atleast_1d(np.asarray(yu, dtype=float))
    return likelihood.terms(np.ones_like(yu), yu, np.ones_like(yu))


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
@pytest.mark.parametrize("size", [8.0, 40.0, 1000.0])
def test_terms_are_finite_and_silent_in_the_tails(likelihood, size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (-1.0, 1.0):
            for sign in (-1.0, 1.0):
                terms = likelihood.terms(*np.array([[y], [sign * size], [1.0]]))
                assert all(np.isfinite(value).all() for value in vars(terms).values())
                assert terms.mean_mean[0] >= 0
                assert terms.fisher_mean[0] >= 0


@pytest.mark.parametrize("size", [10.0, 40.0])
def test_probit_of_a_wrong_label_follows_mills_ratio(size):
    """Check phi/Phi = u + 1/u - 2/u^3 + 10/u^5, at u = -size: the expansion of Mills' ratio."""
    terms = terms_at(Probit(), -size)
    hazard = size + 1 / size - 2 / size**3 + 10 / size**5
    value = size**2 / 2 + np.log(2 * np.pi) / 2 + np.log(hazard)
    tolerance = 100 / size**6  # what the expansion leaves out
    np.testing.assert_allclose(terms.value, value, rtol=tolerance)
    np.testing.assert_allclose(terms.by_mean, -hazard, rtol=tolerance)
    np.testing.assert_allclose(terms.mean_mean, 1 - 1 / size**2, atol=10 / size**4)
    np.testing.assert_allclose(terms.by_var, -hazard * size / 2, rtol=tolerance)


@pytest.mark.parametrize("size", [10.0, 40.0])
def test_probit_of_a_right_label_has_the_tail_of_the_density(size):
    terms = terms_at(Probit(), size)
    density = stats.norm.pdf(size)
    np.testing.assert_allclose(terms.value, stats.norm.sf(size), rtol=1e-10)
    np.testing.assert_allclose(terms.by_mean, -density, rtol=1e-10)
    np.testing.assert_allclose(terms.mean_mean, density * size, rtol=1e-10)


@pytest.mark.parametrize("size", [10.0, 30.0])
def test_probit_fisher_in_the_tails_is_density_times_hazard(size):
    density = stats.norm.pdf(size)
    expected = density * (density / stats.norm.sf(size)) / stats.norm.cdf(size)
    for sign in (-1, 1):
        np.testing.assert_allclose(terms_at(Probit(), sign * size).fisher_mean, expected, rtol=1e-9)


def test_logistic_in_the_tails():
    wrong, right = terms_at(Logistic(), -40.0), terms_at(Logistic(), 40.0)
    tail = np.exp(-40.0)
    np.testing.assert_allclose(wrong.value, 40.0, rtol=1e-15)
    np.testing.assert_allclose(wrong.by_mean, -1.0, rtol=1e-15)
    np.testing.assert_allclose(right.value, tail, rtol=1e-13)
    np.testing.assert_allclose(right.by_mean, -tail, rtol=1e-13)
    for terms in (wrong, right):
        np.testing.assert_allclose(terms.mean_mean, tail, rtol=1e-13)
        np.testing.assert_allclose(terms.fisher_mean, tail, rtol=1e-13)


# ---------------------------------------------------------------- probability


def smoothed_cdf(mean, var, link=stats.norm.cdf):
    """Integrate the link over N(mean, var) numerically, cut where the steep part of either is."""
    if var == 0:
        return link(mean)
    sd = np.sqrt(var)
    # Where links are steep, in units of the Gaussian; outside ±9 its density is below 1e-17.
    cuts = [(at - mean) / sd for at in (-8.0, -2.0, 0.0, 2.0, 8.0)]
    cuts = [-9.0, *(cut for cut in cuts if abs(cut) < 9), 9.0]
    return sum(
        integrate.quad(lambda t: link(mean + sd * t) * stats.norm.pdf(t), *ends, epsabs=1e-11)[0]
        for ends in pairwise(cuts)
    )


@pytest.mark.parametrize("var", [0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e2, 1e4])
def test_probit_probability_is_the_integral_over_the_bag(var):
    means = np.linspace(-6, 6, 7)
    expected = [smoothed_cdf(mean, var) for mean in means]
    found = Probit().probability(means, np.full_like(means, var))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("var", [0.0, 1e-6, 1e-3, 0.1, 1.0, 10.0, 1e2, 1e4])
def test_logistic_probability_is_the_integral_over_what_is_open(var):
    means = np.linspace(-6, 6, 7)
    expected = [smoothed_cdf(mean, var, stats.logistic.cdf) for mean in means]
    found = Logistic().probability(means, np.full_like(means, var))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-8)


def test_logistic_probability_is_the_sigmoid():
    means = np.linspace(-800, 800, 33)
    found = Logistic().probability(means, np.zeros_like(means))
    np.testing.assert_allclose(found, stats.logistic.cdf(means), rtol=1e-14)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
def test_probability_agrees_with_the_terms_and_is_symmetric(likelihood):
    """Check P(y = 1) = exp(-value) if the variance of the link is added to that of the bag."""
    mean, bag = np.linspace(-5, 5, 11), np.linspace(0, 3, 11) * (likelihood.fixed_noise > 0)
    terms = likelihood.terms(np.ones(11), mean, bag + likelihood.fixed_noise)
    p = likelihood.probability(mean, bag)
    np.testing.assert_allclose(p, np.exp(-terms.value), rtol=1e-13)
    np.testing.assert_allclose(p + likelihood.probability(-mean, bag), 1.0, rtol=1e-14)
