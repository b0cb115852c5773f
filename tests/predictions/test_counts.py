"""Predictions of counts against numerical integration and enumeration."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from bagwise.exceptions import BagwiseError
from bagwise.likelihoods import Binomial, NegativeBinomial, Poisson
from bagwise.predictions.counts import CountPrediction
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.joined import JoinedPrediction, Piece
from bagwise.predictions.metrics import coverage, evaluate, pit
from bagwise.predictions.parts import VarianceParts

MEAN, SD = np.array([0.2, 2.0, -1.0, 1.0]), np.array([0.5, 1.2, 2.0, 0.05])
NOISE, TOTALS = np.array([0.3, 0.05, 1.0, 0.1]), np.array([3.0, 12.0, 30.0, 400.0])
LAWS = [Poisson, NegativeBinomial, Binomial]

every_law = pytest.mark.parametrize("law", LAWS, ids=lambda law: law.name)


def made(law, **options):
    parts = VarianceParts(bag=0.3 * SD**2, weights=0.7 * SD**2, noise=NOISE)
    latent = Prediction(MEAN, parts, ids=np.array(list("abcd")), sizes=np.arange(1, 5), **options)
    return CountPrediction(latent, law(TOTALS))


def given(law, i, f):
    """The distribution of the count of bag i given its latent value, by scipy.stats."""
    if law is Binomial:
        return stats.binom(TOTALS[i], 1.0 / (1.0 + np.exp(-f)))
    mean = TOTALS[i] * np.exp(f)
    if law is Poisson:
        return stats.poisson(mean)
    return stats.nbinom(1.0 / NOISE[i], 1.0 / (1.0 + NOISE[i] * mean))


def integral(law, i, of):
    """E of a function of the count's distribution, over the latent value.

    By the trapezoidal rule, which is exact to rounding for what is smooth and vanishes at the ends.
    """
    u = np.linspace(-9.0, 9.0, 8001)
    return np.sum(of(given(law, i, MEAN[i] + SD[i] * u)) * stats.norm.pdf(u)) * (u[1] - u[0])


@every_law
def test_probabilities_are_integrals(law):
    p = made(law)
    for q in (0.05, 0.5, 0.97):
        k = p.quantile(q)
        log_prob, cdf = p.log_prob(k), p.cdf(k)
        for i in range(4):
            at = k[i]
            assert_allclose(cdf[i], integral(law, i, lambda d, at=at: d.cdf(at)), atol=1e-7)
            expected = integral(law, i, lambda d, at=at: d.pmf(at))
            assert_allclose(np.exp(log_prob[i]), expected, rtol=1e-6)


@every_law
def test_moments_are_integrals_and_parts_add_up(law):
    p = made(law)
    for i in range(4):
        mean = integral(law, i, lambda d: d.mean())
        square = integral(law, i, lambda d: d.mean() ** 2)
        noise = integral(law, i, lambda d: d.var())
        assert_allclose(p.mean[i], mean, rtol=1e-6)
        assert_allclose(p.parts.noise[i], noise, rtol=1e-6)
        assert_allclose(p.var[i], noise + square - mean**2, rtol=1e-5)
    assert_allclose(p.parts.bag, 0.3 / 0.7 * p.parts.weights, rtol=1e-12)
    assert_allclose(p.parts.total, p.var)


@every_law
def test_quantiles_are_the_least_counts_that_reach_them(law):
    p = made(law)
    levels = [1e-6, 0.03, 0.5, 0.8, 0.999]
    found = p.quantile(levels)
    assert_array_equal(found, np.floor(found))
    assert_array_equal(found[:, 2], p.quantile(0.5))
    for column, q in zip(found.T, levels, strict=True):
        assert (p.cdf(column) >= q).all()
        assert (p.cdf(column - 1.0) < q).all()


@every_law
def test_the_score_is_the_sum_over_counts(law):
    """Of the last bag the counts are so many that it is an integral."""
    p = made(law)[[0, 3]]
    y = p.quantile(0.7) + np.array([0.0, 1.0])
    k = np.arange(0.0, 4000.0)
    for i, bag in enumerate((0, 3)):
        F = made(law)._cdf(k, np.full(len(k), bag))
        assert_allclose(p.crps(y)[i], np.sum((F - (k >= y[i])) ** 2), rtol=1e-5)
    between = y + 0.25  # which no count is, but a mean may be
    F = p.cdf(y)
    assert_allclose(p.crps(between) - p.crps(y), 0.25 * (F**2 - (1.0 - F) ** 2), atol=1e-5)


@every_law
def test_draws_have_the_distribution(law):
    p = made(law)[[0, 1, 3]]
    draws = p.sample(20_000, 0)
    median = p.quantile(0.5)
    share = np.mean(draws <= median, axis=0)
    assert_allclose(share, p.cdf(median), atol=0.015)
    assert_allclose(draws[:, 2].mean(), p.mean[2], rtol=0.01)
    assert_allclose(draws[:, 2].std(), p.std[2], rtol=0.03)
    assert_array_equal(p.sample(3, 5), p.sample(3, 5))


@every_law
def test_the_randomised_transform_is_uniform(law):
    parts = VarianceParts.broadcast(2000, bag=0.2, weights=0.1, noise=0.2)
    latent = Prediction(np.linspace(-1, 1, 2000), parts)
    p = CountPrediction(latent, law(np.full(2000, 6.0)))
    y = p.sample(1, 3)[0]
    assert stats.kstest(pit(p, y), "uniform").pvalue > 0.01
    assert stats.kstest(p.cdf(y), "uniform").pvalue < 1e-3  # which without chance it is not
    assert_array_equal(pit(p, y), pit(p, y))
    assert coverage(p, y, 0.8) >= 0.8


def test_what_is_no_count_has_no_probability():
    for law in LAWS:
        assert_array_equal(made(law).log_prob([-1.0, 0.5, 1.0, 2.0])[:2], -np.inf)
        assert_array_equal(made(law).cdf(-0.5), 0.0)
    assert_array_equal(made(Binomial).log_prob(TOTALS + 1.0), -np.inf)
    assert_array_equal(made(Binomial).cdf(TOTALS), 1.0)


def test_other_totals():
    p = made(Binomial)
    one = p.at_total(1)
    assert_allclose(one.mean, p.rate)
    assert_allclose(np.exp(one.log_prob(np.ones(4))), p.rate, rtol=1e-6)
    low, high = p.rate_interval(0.5).T
    middle = 1.0 / (1.0 + np.exp(-MEAN))
    assert (low < middle).all() and (middle < high).all()
    twice = made(Poisson).at_total(2.0 * TOTALS)
    assert_allclose(twice.mean, 2.0 * made(Poisson).mean)
    assert_array_equal(twice.totals, 2.0 * TOTALS)
    for wrong in (0, [1.0, 2.0], -TOTALS):
        with pytest.raises(BagwiseError, match="totals have shape"):
            p.at_total(wrong)
    with pytest.raises(BagwiseError, match="whole numbers of trials"):
        p.at_total(2.5)


@every_law
def test_it_is_a_prediction_like_the_others(law):
    p = made(law)
    some = p["b"]
    assert_allclose([some.mean[0], some.std[0], some.totals[0]], [p.mean[1], p.std[1], 12.0])
    assert_array_equal(pickle.loads(pickle.dumps(p)).interval(), p.interval())
    columns = p.to_frame()
    assert list(columns.columns) == list(Prediction(p.mean, p.parts, sizes=p.sizes).to_dict())
    assert "CountPrediction(4 bags" in p._repr_html_()
    assert_array_equal(p.at_size(100).mean, p.mean)  # without a model to ask again
    pieces = [Piece(np.array([0, 2]), p[[0, 2]]), Piece(np.array([1, 3]), p[[1, 3]])]
    joined, y = JoinedPrediction(pieces), np.array([1.0, 9.0, 4.0, 300.0])
    for method in ("log_prob", "cdf", "crps"):
        assert_allclose(getattr(joined, method)(y), getattr(p, method)(y), rtol=1e-9)
    assert_array_equal(joined.pit(y)[[0, 2]], p[[0, 2]].pit(y[[0, 2]]))
    assert np.isfinite(evaluate(p, np.array([1.0, 9.0, 4.0, 300.0])).overall["crps"])


def test_huge_counts_have_quantiles():
    parts = VarianceParts.broadcast(2, bag=[1e-18, 18.0])
    latent = Prediction([20.0, 40.0], parts)
    p = CountPrediction(latent, Poisson(np.ones(2)))
    found = p.quantile([0.1, 0.5, 0.9])
    assert_allclose(found[0], stats.poisson(np.exp(20.0)).ppf([0.1, 0.5, 0.9]), rtol=1e-8)
    assert_allclose(np.log(found[1]), 40.0 + np.sqrt(18.0) * stats.norm.ppf([0.1, 0.5, 0.9]))
    assert np.isfinite(p.crps([1e8, 1e17])).all()
