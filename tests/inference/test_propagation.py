"""Expectation propagation of classes: beside sums over a grid, scikit-learn, and differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm

from bagwise.inference.conditional import laplace, propagate
from bagwise.inference.inducing import induce_classes
from bagwise.inference.sites import sites_of
from bagwise.likelihoods import Probit

PROBIT = Probit()


def smooth(n, seed=0, scale=9.0):
    """A Gram matrix of bags that are alike, and labels that go with them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    gram = scale * np.exp(-0.5 * ((x[:, None] - x) ** 2).sum(axis=2))
    return gram + 0.05 * np.eye(n), np.where(x[:, 0] + 0.3 * rng.normal(size=n) > 0, 1.0, -1.0)


def on_a_grid(gram, labels, weights=(1.0, 1.0)):
    """Evidence, and mean and variance of the first of two latent values, by brute force."""
    grid = np.linspace(-25, 25, 1601)
    f = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    density = multivariate_normal(np.zeros(2), gram).pdf(f)
    for i in range(2):
        density = density * norm.cdf(labels[i] * f[..., i]) ** weights[i]
    first = density.sum(axis=1) / density.sum()
    mean = first @ grid
    return np.log(density.sum() * (grid[1] - grid[0]) ** 2), mean, first @ (grid - mean) ** 2


@pytest.mark.parametrize("variance", [0.01, 1.0, 100.0])
def test_one_label_is_exact(variance):
    found = propagate(np.full((1, 1), variance), np.ones(1), np.ones(1), PROBIT)
    assert_allclose(found.loss, np.log(2.0), rtol=1e-9)  # ∫ Φ(f) N(f; 0, v) df = ½
    mean = np.sqrt(2.0 / np.pi) * variance / np.sqrt(1.0 + variance)
    assert_allclose(variance * found.alpha[0], mean, rtol=1e-4)
    left = variance - variance**2 * found.precision[0, 0]
    assert_allclose(left, variance - mean**2, rtol=1e-4)


@pytest.mark.parametrize("labels", [(1.0, 1.0), (1.0, -1.0)])
@pytest.mark.parametrize("scale", [0.3, 3.0, 30.0])
def test_two_labels_are_as_on_a_grid_where_laplace_is_far_off(labels, scale):
    gram, labels = scale * np.array([[1.0, 0.6], [0.6, 0.9]]), np.array(labels)
    evidence, mean, var = on_a_grid(gram, labels)
    found = propagate(gram, np.ones(2), labels, PROBIT)
    assert_allclose(-found.loss, evidence, atol=0.01)
    assert_allclose((gram @ found.alpha)[0], mean, rtol=0.02)
    left = gram - gram @ found.precision @ gram
    assert_allclose(left[0, 0], var, rtol=0.05)
    mode = (gram @ laplace(gram, np.zeros(2), np.ones(2), labels, PROBIT).alpha)[0]
    assert scale < 10.0 or abs(mode) < 0.8 * abs(mean)  # which is why


@pytest.mark.parametrize("weights", [(0.3, 1.0), (2.0, 0.5), (1.0, 3.0)])
@pytest.mark.parametrize("labels", [(1.0, 1.0), (1.0, -1.0)])
def test_weights_are_powers_of_probabilities(labels, weights):
    gram, labels = 9.0 * np.array([[1.0, 0.6], [0.6, 0.9]]), np.array(labels)
    evidence, mean, var = on_a_grid(gram, labels, weights)
    found = propagate(gram, np.array(weights), labels, PROBIT)
    assert_allclose(-found.loss, evidence, atol=0.02)
    assert_allclose((gram @ found.alpha)[0], mean, rtol=0.03)
    left = gram - gram @ found.precision @ gram
    assert_allclose(left[0, 0], var, rtol=0.07)


@pytest.mark.parametrize("at", [-40.0, -3.0, 0.0, 2.0, 30.0])
@pytest.mark.parametrize("var", [0.01, 1.0, 400.0])
def test_a_weight_of_nearly_one_is_nearly_the_closed_form(at, var):
    y, m, v = np.ones(1), np.array([at]), np.array([var])
    value, (curve, pull) = sites_of(PROBIT, y, y, m, v)
    near, (near_curve, near_pull) = sites_of(PROBIT, y, y + 1e-9, m, v)
    assert_allclose(near, value, rtol=1e-6, atol=1e-12)
    assert_allclose(near_curve, curve, rtol=1e-5, atol=1e-8)
    assert_allclose(near_pull, pull, rtol=1e-5, atol=1e-7)


def test_slope_is_that_of_the_evidence():
    gram, labels = smooth(7)
    rng = np.random.default_rng(1)
    weights, way = rng.uniform(0.5, 2.0, 7), rng.normal(size=(7, 7))
    way, step = way @ way.T, 1e-4
    ahead, behind = (
        propagate(gram + sign * step * way, weights, labels, PROBIT).loss for sign in (1, -1)
    )
    slope = np.sum(propagate(gram, weights, labels, PROBIT).slope * way)
    assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-4)


def test_where_it_starts_does_not_matter():
    gram, labels = smooth(40)
    cold = propagate(gram, np.ones(40), labels, PROBIT)
    other = propagate(0.2 * gram, np.ones(40), labels, PROBIT)
    warm = propagate(gram, np.ones(40), labels, PROBIT, other.sites)
    assert_allclose(warm.loss, cold.loss, rtol=1e-8)
    assert_allclose(warm.alpha, cold.alpha, atol=1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_with_all_bags_in_the_basis(weighted):
    gram, labels = smooth(30)
    rng = np.random.default_rng(2)
    bag_var = rng.uniform(0.1, 2.0, 30)
    weights = rng.uniform(0.5, 2.0, 30) if weighted else np.ones(30)
    exact = propagate(gram + np.diag(bag_var), weights, labels, PROBIT)
    induced = induce_classes(gram, gram, bag_var, weights, labels, PROBIT)
    assert_allclose(gram @ induced.alpha, gram @ exact.alpha, atol=1e-4)
    falls = [np.diagonal(gram @ found.precision @ gram) for found in (induced, exact)]
    assert_allclose(*falls, rtol=1e-3)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e4])
def test_classes_that_are_told_apart_for_sure(scale):
    """No label stands against the others: latent values run away, and nothing overflows."""
    gram = smooth(50, scale=scale)[0]
    found = propagate(gram, np.ones(50), np.ones(50), PROBIT)
    parts = (found.loss, found.alpha, found.precision, found.slope)
    assert all(np.isfinite(part).all() for part in parts)
    assert ((gram @ found.alpha) > 0).all()
