"""The variational approximation against dense posteriors, NUTS, and evidence by integration."""

import subprocess
import sys
from functools import cache

import arviz_stats
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import logsumexp

import bagwise
from bagwise import BagwiseWarning, BDRClassifier, BDRRegressor, KernelEmbedding
from bagwise.inference import NUTS, nuts, variational
from bagwise.inference.density import Potential, prepare
from bagwise.inference.diagnostics import pareto_k, warn_if_far
from bagwise.inference.draws import Draws, normal_pairs
from bagwise.inference.variational import approximate, quasi_normals
from posterior_problems import Bagged, alpha_of, approximation, form

RNG = np.random.default_rng(0)
Y = RNG.uniform(1, 2, 60)
BAGS = [RNG.normal(0, s, (n, 1)) for s, n in zip(Y, [10, 40] * 30, strict=True)]
SMALL = KernelEmbedding(5, bandwidth=1.0)


@cache
def fitted(inference="variational", seed=0):
    return BDRRegressor(SMALL, inference=inference, random_state=seed).fit(BAGS, Y)


def drawn(kind, seed=0, **options):
    bagged = Bagged.random(kind, seed, **options)
    rng = np.random.default_rng(seed + 100)
    labels = bagged.draw_labels(rng, *bagged.draw_prior(rng))
    return bagged, labels, bagged.problem(labels)


# ---- Gaussian posteriors, for which it is exact --------------------------------------------------


def test_at_given_scales_it_is_the_dense_posterior_of_bayesian_linear_regression():
    _, labels, problem = drawn("gaussian", n=20, d=3, n_effects=2, sizes=(1e13,))
    resolved, mode, transport = approximation(problem)
    whole = Potential(form(problem, transport), prepare(problem, resolved, transport))
    j, k = len(mode.v), len(mode.phi)

    def given_scales(z):
        # away from the mode, so that Laplace's approximation is not yet the answer
        at = np.full((len(z), k), 0.7)
        values, slopes = whole(np.concatenate([1.0 + 2.0 * z, at], axis=1))
        return values, 2.0 * slopes[:, :j]

    found = approximate(given_scales, j, 0)
    z = np.concatenate([1.0 + 2.0 * found(quasi_normals(j)), np.full((256, k), 0.7)], axis=1)
    w, gamma, x = transport(z)
    v = np.concatenate([w, gamma], axis=1)
    start = problem.start_embedding
    design = np.concatenate([start.t @ start.model.function_map, problem.effects], axis=1)
    sigma, rho = x[0, 0], x[0, 2]
    prior = np.r_[np.full(3, rho**2), np.ones(2)]
    cov = np.linalg.inv(design.T @ design / sigma**2 + np.diag(1 / prior))
    mean, sd = cov @ design.T @ labels / sigma**2, np.sqrt(np.diag(cov))
    assert_allclose(v.mean(axis=0), mean, rtol=0, atol=0.01 * sd.min())
    assert_allclose(v.T @ v / 256 - np.outer(mean, mean), cov, rtol=0, atol=0.01 * sd.min() ** 2)


@pytest.mark.parametrize(("size", "tolerance"), [(6, 0.01), (130, 0.05)])
def test_a_gaussian_of_few_or_many_coordinates(size, tolerance):
    """Of many, the weights have covariances by the last two coordinates only, as in the target."""
    rng = np.random.default_rng(3)
    factor = np.diag(rng.uniform(0.5, 1.5, size))
    factor[:, -2:] += np.triu(rng.normal(0, 0.3, (size, 2)), 3 - size)
    mean, precision = rng.normal(size=size), np.linalg.inv(factor @ factor.T)

    def potential(z):
        slopes = (z - mean) @ precision
        return 0.5 * np.sum((z - mean) * slopes, axis=1), slopes

    found = approximate(potential, size, 2)
    sd = np.sqrt(np.diag(factor @ factor.T))
    cov = found.factor @ found.factor.T / np.outer(sd, sd)
    assert np.abs((found.mean - mean) / sd).max() < tolerance
    assert np.abs(cov - factor @ factor.T / np.outer(sd, sd)).max() < 3 * tolerance


# ---- posteriors that are not ---------------------------------------------------------------------


def test_moments_are_those_of_nuts():
    bagged = Bagged.random("gaussian", 3, n=400, d=12, sizes=(4, 20, 80))
    scales = {"noise": np.array([0.5]), "prior_scale": np.array([0.7]), "weight_var": np.ones(1)}
    rng = np.random.default_rng(7)
    alpha = rng.normal(size=(1, 12)) @ np.linalg.cholesky(bagged.alpha_cov()).T
    problem = bagged.problem(bagged.draw_labels(rng, alpha, np.array([[0.3]]), scales))
    resolved, _, transport = approximation(problem)
    model, data = form(problem, transport), prepare(problem, resolved, transport)
    settings = NUTS(chains=2, draws=10_000, warmup=300, progress=False)
    starts = rng.normal(size=(2, transport.size))
    exact = Draws.of(
        transport, resolved.names, nuts.sample(model, data, starts, settings, [0, 1])[0]
    )
    z, k = variational.sample(model, data, normal_pairs(transport.size, rng), 3)
    ours = Draws.of(transport, resolved.names, z[None])
    assert k < 0.7
    a, b = (
        np.column_stack([x.w.reshape(-1, 12), x.gamma.ravel(), *map(np.ravel, x.scales.values())])
        for x in (ours, exact)
    )
    error = 4 * b.std(axis=0) / np.sqrt(1000)
    assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < error).all()
    assert_allclose(a.std(axis=0), b.std(axis=0), rtol=0.15)


def evidence(bagged, labels):
    """Log of the integral of the dense density of one weight, the intercept and ρ, by a grid."""
    value, rho = np.linspace(-6, 6, 121), (np.arange(120) + 0.5) / 24
    ratio, gamma, scale = (x.ravel() for x in np.meshgrid(value, value, rho))
    alpha = (ratio * scale)[:, None]  # so that the prior of the weight is as wide at every ρ
    logs = bagged.log_posterior(labels, alpha, gamma[:, None], {"weight_var": scale})
    return logsumexp(logs + np.log(scale)) + np.log((value[1] - value[0]) ** 2 * (rho[1] - rho[0]))


def left_out(bagged, labels, problem, transport, potential):
    """The constant that the density of z leaves out, from the dense one and a dense Jacobian."""
    z, step = np.zeros((1, 3)), 1e-5
    ends = [np.column_stack(transport(z + sign * step * np.eye(3))) for sign in (1, -1)]
    jacobian = np.linalg.slogdet((ends[0] - ends[1]) / (2 * step))[1]
    w, gamma, x = transport(z)
    scales = {"weight_var": x[:, 0]}
    dense = bagged.log_posterior(labels, alpha_of(problem, w), gamma, scales)
    return dense[0] + jacobian + potential(z)[0][0]


def test_the_elbo_is_a_little_below_the_log_evidence():
    bagged, labels, problem = drawn("logistic", n=12, d=1)
    resolved, _, transport = approximation(problem)
    potential = Potential(form(problem, transport), prepare(problem, resolved, transport))
    found = approximate(potential, transport.size, 1)
    e = np.random.default_rng(0).normal(size=(20_000, transport.size))
    log_weights = found.log_weights(potential, e)
    constant = left_out(bagged, labels, problem, transport, potential)
    truth = evidence(bagged, labels) - constant
    elbo = log_weights.mean()
    start = variational.Approximation(np.zeros(3), np.eye(3))
    assert start.log_weights(potential, e).mean() < elbo < truth < elbo + 0.2
    assert abs(logsumexp(log_weights) - np.log(len(e)) - truth) < 0.02


def test_it_is_nearer_than_laplace_where_bags_are_few():
    _, _, problem = drawn("probit", n=15, d=2)
    resolved, _, transport = approximation(problem)
    potential = Potential(form(problem, transport), prepare(problem, resolved, transport))
    found = approximate(potential, transport.size, 2)
    e = np.random.default_rng(0).normal(size=(5000, transport.size))
    laplace = variational.Approximation(np.zeros(transport.size), np.eye(transport.size))
    ours, theirs = (each.log_weights(potential, e) for each in (found, laplace))
    assert ours.mean() > theirs.mean() and ours.std() < theirs.std()
    w, gamma, x = transport(found(e))
    assert np.isfinite(np.concatenate([w, gamma, x], axis=1)).all()


def test_a_density_that_cannot_be_computed_everywhere_is_no_trouble():
    def potential(z):
        with np.errstate(invalid="ignore"):
            return np.sum(0.5 * z**2 - np.log(z + 6.0), axis=1), z - 1 / (z + 6.0)

    found = approximate(potential, 2, 1)
    assert_allclose(found.mean, 0.16, atol=0.02)  # about 1/6, at z = 1/(z + 6)


# ---- Pareto's k ----------------------------------------------------------------------------------


@pytest.mark.parametrize("var", [1.2, 2.0, 5.0])
def test_k_of_a_normal_that_is_too_narrow(var):
    """Weights of draws of N(0, 1) for N(0, s²) have a tail of index 1 − 1/s², in the limit."""
    x = np.random.default_rng(0).normal(size=200_000)
    assert abs(pareto_k(0.5 * (1 - 1 / var) * x**2) - (1 - 1 / var)) < 0.12


@pytest.mark.parametrize("k", [0.2, 0.5, 0.9, 1.5])
@pytest.mark.parametrize("n", [1000, 4000])
def test_k_is_that_of_arviz(k, n):
    log_weights = -k * np.log(np.random.default_rng(1).random(n))
    expected = float(arviz_stats.base.array_stats.psislw(-log_weights)[1])
    assert abs(pareto_k(log_weights) - expected) < 0.01


def test_k_of_weights_without_a_tail_or_with_nothing_else():
    assert pareto_k(np.full(1000, -3.0)) == 0.0
    assert pareto_k(-(np.arange(1000.0) ** 2)) == np.inf
    assert pareto_k(np.r_[np.full(999, -np.inf), 0.0]) == np.inf
    assert pareto_k(np.random.default_rng(0).random(1000)) < 0.3


def test_an_approximation_that_is_far_is_said_to_be():
    with pytest.warns(BagwiseWarning, match=r'k 0\.84, should be below 0\.7.*inference="nuts"'):
        warn_if_far(0.84)
    warn_if_far(0.69)


# ---- as a user meets it --------------------------------------------------------------------------


def test_draws_come_with_the_seed_from_one_gaussian():
    again = BDRRegressor(SMALL, inference="variational").fit(BAGS, Y)
    for name, draws in fitted().draws_.items():
        assert_array_equal(draws, again.draws_[name])
        other = fitted(seed=1).draws_[name]
        assert not np.array_equal(draws, other)
        assert_allclose(other.mean(axis=(0, 1)), draws.mean(axis=(0, 1)), atol=0.3 * draws.std())
    assert fitted().draws_["weights"].shape == (1, 1000, 5)


def test_what_is_known_of_it():
    model = fitted()
    assert 0 < model.pareto_k_ < 0.7
    assert model.diagnostics_ is None and model.trajectories_ is None
    assert fitted("laplace").pareto_k_ is None


def test_it_is_saved_to_the_last_bit(tmp_path):
    bagwise.save(fitted(), tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert loaded.pareto_k_ == fitted().pareto_k_ and loaded.inference == "variational"
    for name, draws in fitted().draws_.items():
        assert_array_equal(draws, loaded.draws_[name])
    assert_array_equal(loaded.predict(BAGS), fitted().predict(BAGS))


def test_of_many_classes_the_worst_is_told():
    classes = np.array(["low", "middle", "high"])[np.digitize(Y, [1.33, 1.66])]
    with pytest.warns(BagwiseWarning, match="the Gaussian approximation is not close"):
        model = BDRClassifier(SMALL, inference="variational").fit(BAGS, classes)
    each = [head.draws.pareto_k for head in model.head_.heads]
    assert model.pareto_k_ == max(each) and len(set(each)) == 3
    assert model.score(BAGS, classes) > 0.5


def test_laplace_needs_no_jax_and_others_keep_their_precision():
    code = """
import sys, numpy as np, bagwise
rng = np.random.default_rng(0)
y = rng.uniform(1, 2, 20)
bags = [rng.normal(0, s, (9, 1)) for s in y]
model = bagwise.BDRRegressor(bagwise.KernelEmbedding(4, bandwidth=1.0), inference="laplace")
model.fit(bags, y)
assert "jax" not in sys.modules
import warnings; warnings.simplefilter("ignore")
model.set_params(inference="variational").fit(bags, y)
import jax
assert jax.numpy.ones(1).dtype == "float32"
"""
    subprocess.run([sys.executable, "-c", code], check=True)
