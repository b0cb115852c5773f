"""NUTS and Laplace against answers that share none of their code: conjugate and by brute force."""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from bagwise.inference.density import prepare
from bagwise.inference.draws import Draws
from bagwise.inference.nuts import sample
from bagwise.inference.settings import NUTS
from posterior_problems import UNIT, Bagged, alpha_of, approximation, form

SETTINGS = NUTS(chains=4, draws=1500, warmup=300, progress=False)


def sampled(problem, seed=0):
    resolved, _, transport = approximation(problem)
    starts = np.random.default_rng(seed).normal(size=(SETTINGS.chains, transport.size))
    data = prepare(problem, resolved, transport)
    z, trajectories = sample(
        form(problem, transport), data, starts, SETTINGS, [seed + i for i in range(len(starts))]
    )
    assert not trajectories.diverging.any()
    return Draws.of(transport, resolved.names, z, trajectories)


def laplace(problem):
    resolved, _, transport = approximation(problem)
    return Draws.from_gaussian(transport, resolved.names, np.random.default_rng(0))


# ------------------------------------------------ a bag known exactly: Bayesian linear regression


def conjugate(X, labels, effect_sd=1.0, n_grid=400):
    """Mean and covariance of the weights of BLR, σ and ρ integrated over by a grid."""
    sigma, rho = (np.linspace(0.002, 4.0, n_grid) for _ in range(2))
    design = np.column_stack([X, np.ones(len(labels))])
    log_weights, means, seconds = [], [], []
    prior = np.column_stack([*[rho**2] * X.shape[1], np.full(n_grid, effect_sd**2)])
    for s in sigma:  # all ρ at once
        precision = design.T @ design / s**2 + np.eye(prior.shape[1]) / prior[:, None]
        cov = np.linalg.inv(precision)
        mean = cov @ design.T @ labels / s**2
        # log N(y; 0, D P D^T + s² I), by the matrix inversion and determinant lemmas
        misfit = (labels - mean @ design.T) @ labels / s**2
        log_det = len(labels) * np.log(s**2) + np.sum(np.log(prior), axis=1)
        log_det += np.linalg.slogdet(precision)[1]
        log_weights.append(-0.5 * (misfit + log_det) - 0.5 * (s**2 + rho**2))
        means.append(mean)
        seconds.append(cov + mean[:, :, None] * mean[:, None])
    weights = np.exp(np.array(log_weights) - np.max(log_weights))
    weights /= weights.sum()
    mean = np.einsum("sr,sra->a", weights, means)
    return mean, np.einsum("sr,srab->ab", weights, seconds) - np.outer(mean, mean)


def test_bags_without_uncertainty_give_the_exact_posterior_of_bayesian_linear_regression():
    bagged = Bagged.random("gaussian", 0, n=15, d=2, sizes=(1e13,))
    rng = np.random.default_rng(5)
    labels = bagged.draw_labels(rng, *bagged.draw_prior(rng))
    problem = bagged.problem(labels)
    start = problem.start_embedding
    mean, cov = conjugate(start.t @ start.model.function_map, labels, n_grid=120)
    for draws, tolerance in ((sampled(problem), 0.06), (laplace(problem), 0.25)):
        theta = np.concatenate([draws.w, draws.gamma], axis=2).reshape(-1, 3)
        sd = np.sqrt(np.diag(cov))
        np.testing.assert_allclose(theta.mean(axis=0), mean, rtol=0, atol=tolerance * sd.min())
        np.testing.assert_allclose(theta.std(axis=0), sd, rtol=tolerance)
        assert np.abs(np.corrcoef(theta.T) - cov / np.outer(sd, sd)).max() < tolerance


# ------------------------------------------------ two landmarks: importance sampling, dense


@cache
def case(kind):
    bagged = Bagged.random(kind, 3, n=100 if kind == "gaussian" else 400, d=2)
    scales = {"noise": np.array([0.3]), "prior_scale": np.array([0.7]), "weight_var": np.ones(1)}
    truth = np.array([[1.0, -0.7]]), np.array([[0.3]]), scales
    labels = bagged.draw_labels(np.random.default_rng(7), *truth)
    return bagged, labels, bagged.problem(labels)


def importance(bagged, labels, problem, n=30_000):
    """Posterior moments of (α, γ, log scales) with a Student proposal, from dense matrices."""
    draws = laplace(problem)
    columns = [alpha_of(problem, draws.w[0]), draws.gamma[0]]
    columns += [np.log(draws.scales[name][0])[:, None] for name in bagged.names]
    rough = np.concatenate(columns, axis=1)
    spread = 2.0 * np.cov(rough.T)
    proposal = stats.multivariate_t(rough.mean(axis=0), spread, df=5, seed=1)
    theta = proposal.rvs(n)
    d, r = bagged.mean.shape[1], bagged.effects.shape[1]
    logs = theta[:, d + r :]
    scales = dict(zip(bagged.names, np.exp(logs).T, strict=True))
    target = bagged.log_posterior(labels, theta[:, :d], theta[:, d : d + r], scales, UNIT)
    log_weights = target + logs.sum(axis=1) - proposal.logpdf(theta)
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.sum()
    values = np.column_stack([theta[:, : d + r], np.exp(logs)])
    mean = weights @ values
    return mean, np.sqrt(weights @ (values - mean) ** 2), 1 / np.sum(weights**2)


@pytest.mark.parametrize(
    "kind", ["gaussian", pytest.param("probit", marks=pytest.mark.long), "logistic"]
)
def test_nuts_laplace_and_dense_importance_sampling_agree(kind):
    bagged, labels, problem = case(kind)
    mean, sd, effective = importance(bagged, labels, problem)
    assert effective > 1000
    for draws, tolerance in ((sampled(problem), 0.1), (laplace(problem), 0.4)):
        columns = [alpha_of(problem, draws.w.reshape(-1, 2)), draws.gamma.reshape(-1, 1)]
        columns += [draws.scales[name].reshape(-1, 1) for name in bagged.names]
        theta = np.concatenate(columns, axis=1)
        assert np.abs((theta.mean(axis=0) - mean) / sd).max() < tolerance
        assert np.abs(np.log(theta.std(axis=0) / sd)).max() < tolerance
