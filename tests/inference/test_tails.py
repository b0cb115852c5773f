"""Tails: heavy where they are, and only there."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from bagwise.inference.residuals import Tails


def squares(seed, n, dof=None):
    rng = np.random.default_rng(seed)
    if dof is None:
        return rng.normal(size=n) ** 2
    return rng.standard_t(dof, n) ** 2 * (dof - 2.0) / dof


@pytest.mark.parametrize("seed", range(5))
def test_gaussian_residuals_have_no_heavy_tails(seed):
    assert Tails.fit(squares(seed, 300), np.ones(300)) == Tails()


@pytest.mark.parametrize("seed", range(5))
def test_heavy_tails_are_found(seed):
    found = Tails.fit(squares(seed, 400, 4.0), np.ones(400))
    assert 3.0 <= found.dof < 8.0
    assert 0.5 < found.factor < 2.0


def test_few_residuals_decide_nothing_unless_they_have_to():
    few = squares(0, 40, 3.0)
    assert Tails.fit(few, np.ones(40)) == Tails()
    assert np.isfinite(Tails.fit(few, np.ones(40), always=True).dof)
    assert Tails.fit(squares(0, 1000), np.ones(1000), always=True).dof > 15.0


@pytest.mark.parametrize("tails", [Tails(), Tails(factor=2.0), Tails(4.5, 0.7), Tails(60.0, 1.3)])
def test_the_loss_is_the_density_of_residuals(tails):
    z, weights = np.array([-2.0, 0.3, 5.0]), np.array([1.0, 2.0, 0.5])
    if np.isinf(tails.dof):
        known = stats.norm(0, np.sqrt(tails.factor))
    else:
        scale = np.sqrt(tails.factor * (tails.dof - 2.0) / tails.dof)
        known = stats.t(tails.dof, 0, scale)
    assert_allclose(tails.loss(z**2, weights), -weights @ known.logpdf(z), rtol=1e-9)


def test_weights_count_bags():
    some = squares(1, 200, 3.0)
    twice = Tails.fit(np.r_[some, some], np.ones(400), always=True)
    weighted = Tails.fit(some, np.full(200, 2.0), always=True)
    assert_allclose([weighted.dof, weighted.factor], [twice.dof, twice.factor], rtol=1e-3)


def test_residuals_that_are_all_zero():
    found = Tails.fit(np.zeros(100), np.ones(100), always=True)
    assert np.isfinite(found.dof) and found.factor > 0
