"""Weights of classes by expectation propagation, against integrals of dense formulas on a grid."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import logit, softmax

from bagwise import BayesianLogisticClassifier, KernelEmbedding
from bagwise.exceptions import BagwiseError
from bagwise.inference.class_weights import propagate_weights
from bagwise.inference.shrinkage import find_mode
from posterior_problems import Bagged, alpha_of

ETA, RHO, EFFECT_SD = 0.7, 2.5, 1.5


def clear(kind, n, seed=3, sizes=(2, 8, 60)):
    """Bags whose classes are clear, so that weights are skewed."""
    bagged = Bagged.random(kind, seed, n=n, d=2, sizes=sizes)
    scales = {"prior_scale": np.array([ETA]), "weight_var": np.array([RHO])}
    truth = np.array([[3.0, -2.0]]), np.array([[0.3]]), scales
    return bagged, bagged.draw_labels(np.random.default_rng(7), *truth)


def posterior(bagged, labels, reach=9.0, n=61):
    """Mean and covariance of (w, γ), and log p(y), by a grid around the mode."""
    problem = bagged.problem(labels)
    mode = find_mode(problem, RHO**2).theta[:3]
    axis = np.linspace(-reach, reach, n)
    v = mode + np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), -1).reshape(-1, 3)
    alpha, eta = alpha_of(problem, v[:, :2]), np.full(len(v), ETA)
    logs = np.concatenate(
        [
            bagged.log_likelihood(labels, a, g, {"prior_scale": e})
            for a, g, e in zip(
                np.array_split(alpha, 50),
                np.array_split(v[:, 2:], 50),
                np.array_split(eta, 50),
                strict=True,
            )
        ]
    )
    sd = np.array([RHO, RHO, EFFECT_SD])
    logs = logs - 0.5 * np.sum((v / sd) ** 2, axis=1) - np.log(sd).sum() - 1.5 * np.log(2 * np.pi)
    mass = np.exp(logs - logs.max())
    evidence = logs.max() + np.log(mass.sum() * (axis[1] - axis[0]) ** 3)
    mass /= mass.sum()
    mean = mass @ v
    return mean, (v - mean).T @ ((v - mean) * mass[:, None]), evidence, mode


@pytest.mark.parametrize(("kind", "n"), [("probit", 12), ("probit", 60), ("logistic", 25)])
def test_mean_covariance_and_evidence_are_those_of_a_grid(kind, n):
    bagged, labels = clear(kind, n)
    mean, cov, evidence, mode = posterior(bagged, labels)
    problem = bagged.problem(labels)
    precision = np.array([RHO, RHO, EFFECT_SD]) ** -2.0
    scales = np.array([np.log(ETA)] if bagged.shrinks else [])
    found = propagate_weights(problem, scales, precision)
    sd = np.sqrt(np.diag(cov))
    away, mode_away = (np.abs((v - mean) / sd).max() for v in (found.mean, mode))
    assert away < 0.2
    assert away < 0.3 * mode_away
    np.testing.assert_allclose(np.sqrt(np.diag(np.linalg.inv(found.precision))), sd, rtol=0.35)
    assert abs(-found.loss - evidence) < 0.5


@pytest.mark.parametrize(("seed", "n"), [(3, 12), (3, 60), (4, 30)])
def test_probabilities_are_as_sure_as_the_posterior(seed, n):
    """By importance sampling of dense formulas; a Gaussian around the mode has .6 of the logits."""
    bagged, labels = clear("probit", n, seed)
    problem = bagged.problem(labels)
    mean, cov, *_ = posterior(bagged, labels, n=31)
    proposal = stats.multivariate_t(mean, 1.5 * cov, df=5, seed=1)
    v = proposal.rvs(6000)
    sd = np.array([RHO, RHO, EFFECT_SD])

    def probability(v):
        """P(y = 1) of each bag, under each draw of (w, γ)."""
        eta = np.full(len(v), ETA)
        xi, var = bagged.latent(alpha_of(problem, v[:, :2]), v[:, 2:], eta)
        return stats.norm.cdf(xi / np.sqrt(1.0 + var))

    scales = {"prior_scale": np.full(len(v), ETA)}
    score = bagged.log_likelihood(labels, alpha_of(problem, v[:, :2]), v[:, 2:], scales)
    score = score - 0.5 * np.sum((v / sd) ** 2, axis=1)
    weights = softmax(score - proposal.logpdf(v))
    assert 1 / np.sum(weights**2) > 1000
    exact = weights @ probability(v)
    found = propagate_weights(problem, np.array([np.log(ETA)]), sd**-2.0)
    draws = np.random.default_rng(0).multivariate_normal(
        found.mean, np.linalg.inv(found.precision), 4000
    )
    slope = np.polyfit(logit(exact), logit(probability(draws).mean(axis=0)), 1)[0]
    assert slope == pytest.approx(1.0, abs=0.12)


def test_propagation_that_runs_away_is_said_in_a_sentence(monkeypatch):
    monkeypatch.setattr("bagwise.inference.class_weights._swept", lambda _: None)
    rng = np.random.default_rng(0)
    bags, y = rng.normal(size=(12, 3, 2)), np.arange(12) % 2
    with pytest.raises(BagwiseError, match=r"finds no end; expected labels and .* differ less"):
        BayesianLogisticClassifier(KernelEmbedding(3, bandwidth=1.0)).fit(list(bags), y)
