"""Likelihoods of counts against scipy.stats and numerical derivatives."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from bagwise.likelihoods import Binomial, NegativeBinomial, Poisson, Probit

Y, LATENT, NOISE = (
    grid.ravel()
    for grid in np.meshgrid([0.0, 1.0, 7.0, 40.0], [-2.5, -0.3, 0.0, 1.4], [0.05, 0.7, 3.0])
)
TOTALS = np.linspace(40.0, 90.0, len(Y)).round()
LAWS = [Poisson(TOTALS / 20.0), NegativeBinomial(TOTALS / 20.0), Binomial(TOTALS)]

counts = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


def scipys(law, latent, noise):
    """Distributions of the counts by scipy.stats alone."""
    if isinstance(law, Binomial):
        return stats.binom(law.totals, 1.0 / (1.0 + np.exp(-latent)))
    mean = law.totals * np.exp(latent)
    if isinstance(law, Poisson):
        return stats.poisson(mean)
    return stats.nbinom(1.0 / noise, 1.0 / (1.0 + noise * mean))


def slope(function, at, step=1e-4):
    """Central differences of error step^4."""
    near = (function(at + step) - function(at - step)) / (2 * step)
    far = (function(at + 2 * step) - function(at - 2 * step)) / (4 * step)
    return (4 * near - far) / 3


@counts
def test_probabilities_are_scipys(law):
    known = scipys(law, LATENT, NOISE)
    assert_allclose(law.log_prob(Y, LATENT, law.totals, NOISE), known.logpmf(Y), rtol=1e-9)
    assert_allclose(law.cdf(Y, LATENT, law.totals, NOISE), known.cdf(Y), rtol=1e-9)
    assert_allclose(law.rate(LATENT) * law.totals, known.mean(), rtol=1e-12)


@counts
def test_values_differ_as_scipys_do(law):
    """A constant is left out, which depends on the label alone."""
    value = law.bend(Y, LATENT, NOISE).value - law.bend(Y, np.zeros_like(Y), NOISE).value
    known = scipys(law, np.zeros_like(Y), NOISE).logpmf(Y) - scipys(law, LATENT, NOISE).logpmf(Y)
    assert_allclose(value, known, rtol=1e-8, atol=1e-9)


@counts
def test_derivatives_are_those_of_differences(law):
    bend = law.bend(Y, LATENT, NOISE)
    for name, of in (("first", "value"), ("second", "first"), ("third", "second")):
        found = slope(lambda f, of=of: getattr(law.bend(Y, f, NOISE), of), LATENT)
        assert_allclose(getattr(bend, name), found, rtol=1e-7, atol=1e-7, err_msg=name)
    assert (bend.second > 0).all()


def test_derivatives_in_the_noise_level_are_those_of_differences():
    law = LAWS[1]
    bend = law.bend(Y, LATENT, NOISE)
    for of in ("value", "first", "second"):
        found = slope(lambda a, of=of: getattr(law.bend(Y, LATENT, a), of), NOISE)
        assert_allclose(getattr(bend, f"noise_{of}"), found, rtol=1e-6, atol=1e-6, err_msg=of)


def test_the_third_derivative_of_the_probit_is_that_of_differences():
    labels, latent = np.array([1.0, -1.0, 1.0]), np.array([0.3, 1.2, -2.0])
    found = slope(lambda f: Probit().bend(labels, f, np.zeros(3)).second, latent)
    assert_allclose(Probit().bend(labels, latent, np.zeros(3)).third, found, rtol=1e-8)


def test_little_dispersion_is_poissons():
    few = np.full_like(Y, 1e-7)
    for name in ("first", "second", "third"):
        found, poisson = (getattr(law.bend(Y, LATENT, few), name) for law in (LAWS[1], LAWS[0]))
        assert_allclose(found, poisson, rtol=1e-4, atol=1e-4)


@counts
@pytest.mark.parametrize("latent", [-700.0, 700.0, 1e6])
def test_far_latent_values_are_finite_and_silent(law, latent):
    bend = law.bend(Y, np.full_like(Y, latent), NOISE)
    assert np.isfinite(bend.value).all() and np.isfinite(bend.first).all()
    assert (bend.second >= 0).all()


@counts
def test_of_huge_counts_no_digits_cancel(law):
    """The value is beside that of the best latent value, near which it is ½ W d²."""
    y, totals = np.array([1e9]), np.array([4e9 if isinstance(law, Binomial) else 1.0])
    law, noise = type(law)(totals), np.array([1e-3])
    best = np.log(y / (totals - y)) if isinstance(law, Binomial) else np.log(y)
    bends = [law.bend(y, best + d, noise) for d in (0.0, 1e-4)]
    assert_allclose(bends[1].value - bends[0].value, 0.5e-8 * bends[0].second, rtol=1e-3, atol=1e-5)
    assert_allclose(bends[0].first, 0.0, atol=1e-5)
