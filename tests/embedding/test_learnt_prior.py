"""The learnt prior: the covariance between bags comes back, and the posterior is that of it."""

from dataclasses import replace

import numpy as np
from numpy.testing import assert_allclose

from bagwise.embedding.posterior import kernel_model, learnt_model
from bagwise.embedding.sums import BagStats

RNG = np.random.default_rng(0)
BETWEEN = np.array([[2.0, 0.6, 0.0], [0.6, 0.5, 0.1], [0.0, 0.1, 0.05]])
GRAM = np.diag([1.0, 2.0, 0.5])


def bags(n, seed=0, sizes=(2, 10, 50)):
    """Embeddings of covariance BETWEEN, seen with unit variance per point."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(sizes, n).astype(float)
    truth = rng.multivariate_normal(np.zeros(3), BETWEEN, n)
    seen = truth + rng.normal(size=(n, 3)) / np.sqrt(sizes)[:, None]
    return truth, BagStats(seen, sizes, np.eye(3))


def covariance(model):
    """Prior covariance at the features, which is ΣW diag(λ) W^T Σ."""
    return (model.landmark_map * model.spectrum) @ model.landmark_map.T


def test_the_covariance_between_bags_comes_back():
    _, stats = bags(4000)
    model = kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0)
    assert_allclose(covariance(learnt_model(model, stats)), BETWEEN, atol=0.12)


def test_many_pseudo_bags_give_the_kernel_back():
    _, stats = bags(40)
    model = kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0)
    found = covariance(learnt_model(model, stats, pseudo_bags=1e9))
    assert_allclose(found / np.trace(found), GRAM / np.trace(GRAM), atol=1e-6)


def test_posterior_means_are_nearer_to_the_truth_than_those_of_the_kernel():
    truth, stats = bags(2000, seed=1)
    model = kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0)
    learnt = learnt_model(model, stats)
    scale = model.posterior(stats).moment_scale()
    errors = [
        np.mean((made.posterior(stats, eta).at_landmarks() - truth) ** 2)
        for made, eta in ((learnt, 1.0), (model, scale))
    ]
    assert errors[0] < 0.95 * errors[1]


def test_the_posterior_is_that_of_dense_matrices():
    _, stats = bags(30, seed=2)
    model = learnt_model(kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0), stats)
    between = covariance(model)
    found = model.posterior(stats).at_landmarks()
    for i in range(5):
        gain = between @ np.linalg.inv(between + np.eye(3) / stats.sizes[i])
        assert_allclose(found[i], gain @ stats.mean[i], atol=1e-10)


def test_functions_keep_their_norm():
    """⟨f, μ⟩ is the same number, whatever the coordinates."""
    _, stats = bags(30, seed=3)
    model = kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0)
    turned, w = learnt_model(model, stats), RNG.normal(size=(1, 3))
    point = {"sampling": 0.0}  # the embedding is what the points say
    plain, other = (
        replace(made.posterior(stats), **point).linear(w)[0] for made in (model, turned)
    )
    assert_allclose(other, plain, atol=1e-9)


def test_scale_by_moments():
    _, stats = bags(5000, seed=4)
    model = kernel_model(np.zeros(3), np.eye(3), GRAM, 50.0)
    assert_allclose(model.posterior(stats).moment_scale(), np.trace(BETWEEN) / 3.5, rtol=0.1)


def minus_log_posterior(between, stats, center, pseudo_bags):
    """−log of the density of bags and prior, bag by bag and by dense matrices."""
    total = 0.5 * pseudo_bags * np.linalg.slogdet(between)[1]
    total += 0.5 * pseudo_bags * np.trace(np.linalg.solve(between, center))
    for t, n in zip(stats.mean - stats.mean.mean(axis=0), stats.sizes, strict=True):
        covariance = between + np.eye(len(t)) / n
        total += 0.5 * (np.linalg.slogdet(covariance)[1] + t @ np.linalg.solve(covariance, t))
    return total


def test_the_prior_is_the_most_probable_one():
    _, stats = bags(60, seed=3)
    model = kernel_model(stats.mean.mean(axis=0), np.eye(3), GRAM, 50.0)
    center = model.posterior(stats).moment_scale() * GRAM
    found = covariance(learnt_model(model, stats, pseudo_bags=20.0))
    least = minus_log_posterior(found, stats, center, 20.0)
    rng = np.random.default_rng(4)
    for size in (0.3, 0.1, 0.03):  # any other is less so
        for _ in range(10):
            root = np.linalg.cholesky(found) @ (np.eye(3) + size * rng.normal(size=(3, 3)))
            assert least < minus_log_posterior(root @ root.T, stats, center, 20.0) + 1e-4
