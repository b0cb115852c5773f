"""Evidence of the Gaussian process: gradients by differences, limits by scikit-learn."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, DotProduct

from bagwise.embedding.posterior import kernel_model
from bagwise.embedding.sums import BagStats
from bagwise.heads.gp import GPHead
from bagwise.inference.conditional import JITTER, laplace, regress
from bagwise.inference.gp_evidence import GPProblem, Sizing
from bagwise.inference.inducing import induce_labels, induce_latent
from bagwise.inference.second_level import Scales, SecondLevelKernel
from bagwise.likelihoods import Binomial, NegativeBinomial, Poisson, Probit

SCALES = Scales(tilt=0.3, prior_scale=0.1, sampling=0.5, size=0.2, size_length=1.0)


def problem(seed=0, n=30, d=4, **changes):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(d, d))
    sizes = rng.integers(1, 20, n).astype(float)
    stats = BagStats(rng.normal(size=(n, d)), sizes, np.eye(d))
    model = kernel_model(stats.mean.mean(axis=0), np.eye(d), root @ root.T, 20.0)
    made = GPProblem(
        model,
        model.posterior(stats),
        rng.normal(size=n),
        rng.uniform(0.5, 2.0, n),
        np.column_stack([np.ones(n), rng.normal(size=n)]),
        SCALES,
        Scales.names(),
    )
    return replace(made, **changes)


def grouped():
    """The problem of bags in five groups."""
    return problem(members=np.arange(30) % 5, start=replace(SCALES, group=0.3))


WITHOUT_NOISE = tuple(name for name in Scales.names() if "noise" not in name)


def of_kind(made, kind):
    """The problem with labels that are no latent value with Gaussian noise."""
    n = len(made.labels)
    if kind == "classes":
        changes = {"labels": np.sign(made.labels), "likelihood": Probit(), "free": WITHOUT_NOISE}
        return replace(made, **changes)
    rng, totals = np.random.default_rng(7), np.linspace(3.0, 9.0, n).round()
    law = {"poisson": Poisson, "dispersed": NegativeBinomial, "binomial": Binomial}[kind](totals)
    counts = rng.binomial(totals.astype(int), 1.0 / (1.0 + np.exp(-made.labels))).astype(float)
    free = Scales.names() if law.has_noise else WITHOUT_NOISE
    return replace(made, labels=counts, likelihood=law.around(-0.5), free=free)


KINDS = ["real", "classes", "poisson", "dispersed", "binomial"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("known", [False, True], ids=["nugget", "slopes"])
def test_gradient_is_that_of_differences(kind, known):
    made = grouped()
    if known:
        slopes = np.random.default_rng(1).normal(size=(30, len(made.model.spectrum)))
        made = replace(made, slopes=slopes)
    made = made if kind == "real" else of_kind(made, kind)
    theta, step = made.start.vector(made.free), 1e-5
    _, gradient = made.loss(theta)
    differences = [
        (made.loss(theta + step * e)[0] - made.loss(theta - step * e)[0]) / (2.0 * step)
        for e in np.eye(len(theta))
    ]
    assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


def test_classes_together_have_the_sum_of_their_evidences_and_one_prior():
    first = of_kind(grouped(), "classes")
    rng = np.random.default_rng(3)
    others = tuple(
        replace(first, labels=rng.choice([-1.0, 1.0], 30), slopes=rng.normal(size=(30, 4)))
        for _ in range(2)
    )
    theta, step = first.start.vector(first.free), 1e-5
    value, gradient = first.loss(theta, others)
    prior = [first.minus_log_prior(theta)[0]] * 2
    alone = [each.loss(theta)[0] for each in (first, *others)]
    assert_allclose(value, sum(alone) - sum(prior), rtol=1e-12)
    differences = [
        (first.loss(theta + step * e, others)[0] - first.loss(theta - step * e, others)[0])
        / (2.0 * step)
        for e in np.eye(len(theta))
    ]
    assert_allclose(gradient, differences, rtol=1e-5, atol=1e-5)


def test_evidence_is_the_density_of_the_labels():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(6, 6))
    gram, noise, labels = root @ root.T, rng.uniform(0.1, 1.0, 6), rng.normal(size=6)
    cov = gram + np.diag(noise + JITTER)
    found = regress(gram, noise, labels)
    density = multivariate_normal(np.zeros(6), cov).logpdf(labels) + 3.0 * np.log(2.0 * np.pi)
    assert_allclose(found.loss, -density, rtol=1e-10)
    assert_allclose(found.precision, np.linalg.inv(cov), atol=1e-10)


def test_classes_are_at_the_mode_and_weak_ones_have_the_integral():
    rng = np.random.default_rng(3)
    root, labels = rng.normal(size=(5, 5)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    gram = root @ root.T
    found = laplace(gram, np.zeros(5), np.ones(5), labels, Probit())
    latent = gram @ found.alpha
    slope = labels * norm.pdf(latent) / norm.cdf(labels * latent)
    assert_allclose(found.alpha, slope, atol=1e-5)
    # of one bag that varies little the approximation is nearly exact: ∫ Φ(f) N(f; 0, v) df = ½
    one = np.ones(1)
    weak = laplace(np.full((1, 1), 0.01), one, one, one, Probit())
    assert_allclose(weak.loss, np.log(2), atol=1e-4)


COUNTS = [Poisson, NegativeBinomial, Binomial]


@pytest.mark.parametrize("law", COUNTS, ids=lambda law: law.name)
@pytest.mark.parametrize("n", [1, 2])
def test_evidence_of_counts_is_near_the_integral(law, n):
    """Brute force over the latent values of one or two bags; with more counts it gets nearer."""
    gram = np.array([[0.5, 0.3], [0.3, 0.8]])[:n, :n]
    noise, weights = np.full(n, 0.2), np.array([1.0, 1.5])[:n]
    axis = np.linspace(-7.0, 7.0, 401)
    grid = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    prior = multivariate_normal(np.zeros(n), gram).logpdf(grid)
    errors = []
    for size in (8.0, 400.0):
        totals, labels = np.full(n, size), np.array([0.25, 0.5])[:n] * size
        made = law(totals).around(-0.4)
        found = laplace(gram, noise, weights, labels, made)
        columns = [
            law(np.full(len(grid), size))
            .around(-0.4)
            .bend(np.full(len(grid), labels[i]), grid[:, i], np.full(len(grid), 0.2))
            .value
            for i in range(n)
        ]
        logs = prior - np.column_stack(columns) @ weights
        integral = np.log(np.sum(np.exp(logs - logs.max()))) + logs.max()
        integral += n * np.log(axis[1] - axis[0])
        posterior = np.exp(logs - logs.max()) / np.sum(np.exp(logs - logs.max()))
        mean = gram @ found.alpha
        errors.append(abs(found.loss + integral))
        assert_allclose(mean, posterior @ grid, atol=0.1)
        left = np.diagonal(gram - gram @ found.precision @ gram)
        assert_allclose(left, posterior @ (grid - posterior @ grid) ** 2, rtol=0.15)
    assert errors[0] < 0.03 and errors[1] < max(0.005, errors[0])


def test_the_mode_of_counts_that_differ_much_is_found():
    """Counts of 0 and of a billion: steps that lead uphill are halved."""
    labels, one = np.array([0.0, 1e9, 3.0, 0.0, 2e5]), np.ones(5)
    law = Poisson(one).around(10.0)
    found = laplace(4.0 * np.eye(5) + 1.0, 0.0 * one, one, labels, law)
    latent = (4.0 * np.eye(5) + 1.0 + JITTER * np.eye(5)) @ found.alpha
    assert_allclose(found.alpha, labels - np.exp(10.0 + latent), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_with_all_bags_in_the_basis_what_is_left_open_of_bags_is_the_same(kind):
    """A = K + D of the process is ΨΨ^T + D of the basis."""
    rng = np.random.default_rng(8)
    root = rng.normal(size=(30, 30)) / 3.0
    made, gram, bag = of_kind(problem(), kind), root @ root.T, rng.uniform(0.0, 0.5, 30)
    noise, weights = np.full(30, 0.3), rng.uniform(0.5, 2.0, 30)
    rest = noise, weights, made.labels, made.likelihood
    exact = laplace(gram + np.diag(bag), *rest)
    induced = induce_latent(gram, gram, bag, *rest)
    assert_allclose(gram @ induced.alpha, gram @ exact.alpha, atol=1e-4)
    assert_allclose(
        np.diagonal(gram @ induced.precision @ gram),
        np.diagonal(gram @ exact.precision @ gram),
        atol=1e-4,
    )


def test_of_complete_bags_it_is_the_process_of_scikit_learn():
    """τ = 0: a bag is what its points are, and nothing is left open."""
    scales = replace(SCALES, sampling=0.0, size=1e-300, size_length=1e9, effects_length=1e9, tilt=0)
    made = problem(start=scales, weights=np.ones(30), design=np.ones((30, 1)))
    head = GPHead.at(made, scales, 0.0)
    new = made.take(np.arange(5))
    stats_posterior = replace(new.posterior, scale=np.array([scales.prior_scale]), sampling=0.0)
    latent = head.latent(stats_posterior, np.ones((5, 1)))
    z = made.state(scales).inputs.mean
    kernel = (
        ConstantKernel(scales.linear) * DotProduct(1.0)  # z·z + 1
        + ConstantKernel(scales.gauss) * RBF(scales.length)
        + ConstantKernel(scales.effects - scales.linear)
    )
    oracle = GaussianProcessRegressor(kernel, alpha=made.noise(scales) + JITTER, optimizer=None)
    mean, std = oracle.fit(z, made.labels).predict(z[:5], return_std=True)
    assert_allclose(latent.mean[0], mean, atol=1e-8)
    assert_allclose(latent.weights_var, std**2, atol=1e-8)
    assert_allclose(latent.bag_var, 0.0, atol=1e-12)


def test_left_out_labels_are_those_of_a_fit_without_them():
    slopes = np.random.default_rng(4).normal(size=(30, 4))
    made = problem(slopes=slopes[:, :4])
    state, found = made.fit(SCALES)
    away = found.alpha / np.diagonal(found.precision)
    kernel = SecondLevelKernel(SCALES)
    gram = kernel.between(state.inputs, state.inputs)
    gram[np.diag_indices_from(gram)] += made.bag_var(state)
    noise = made.noise(SCALES)
    for i in (0, 7, 29):
        rest = np.arange(30) != i
        alpha = regress(gram[np.ix_(rest, rest)], noise[rest], made.labels[rest]).alpha
        assert_allclose(made.labels[i] - gram[i, rest] @ alpha, away[i], atol=1e-6)


def test_with_all_bags_in_the_basis_it_is_the_process_itself():
    rng = np.random.default_rng(5)
    root = rng.normal(size=(8, 8))
    gram, noise, labels = root @ root.T, rng.uniform(0.1, 1.0, 8), rng.normal(size=8)
    exact, induced = regress(gram, noise, labels), induce_labels(gram, gram, noise, labels)
    k = gram[:3]
    assert_allclose(k @ induced.alpha, k @ exact.alpha, atol=1e-6)
    assert_allclose(
        np.sum((k @ induced.precision) * k, axis=1),
        np.sum((k @ exact.precision) * k, axis=1),
        atol=1e-6,
    )
    away = (labels - induced.mean) / (1.0 - induced.leverage)
    assert_allclose(away, exact.alpha / np.diagonal(exact.precision), atol=1e-5)


def test_classes_with_all_bags_in_the_basis():
    rng = np.random.default_rng(6)
    root, labels = rng.normal(size=(8, 8)), np.sign(rng.normal(size=8))
    gram = root @ root.T
    none, one = np.zeros(8), np.ones(8)
    exact = laplace(gram, none, one, labels, Probit())
    induced = induce_latent(gram, gram, none, none, one, labels, Probit())
    assert_allclose(gram @ induced.alpha, gram @ exact.alpha, atol=1e-4)
    assert_allclose(
        np.diagonal(gram @ induced.precision @ gram),
        np.diagonal(gram @ exact.precision @ gram),
        atol=1e-3,
    )


def test_sizes_that_are_all_the_same_are_no_input():
    sizing = Sizing.of(np.full(4, 7.0))
    assert_allclose(sizing(np.array([7.0])), 0.0, atol=1e-12)
    assert_allclose(sizing.smallness(np.array([7.0, 14.0])), [1.0, 0.5])
