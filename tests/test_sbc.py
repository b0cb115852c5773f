"""Simulation-based calibration: parameters from the prior, labels from them, draws given those.

If the sampler is right, the rank of the true parameter among the draws is uniform, for every
parameter. A factor of two in a variance is noticed.

Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms with
simulation-based calibration.
"""

from functools import cache

import numpy as np
import pytest
from posterior_problems import UNIT, Bagged, alpha_of, approximation
from scipy import stats

from bagwise.inference.density import prepare
from bagwise.inference.draws import Draws
from bagwise.inference.nuts import sample
from bagwise.inference.settings import NUTS

KINDS = ("gaussian", "probit", "logistic")
SETTINGS = NUTS(chains=1, draws=180, warmup=100, n_jobs=1, progress=False)
THIN = 3
RUNS = 120
SHAPE = {"gaussian": {"n": 12, "d": 2}, "probit": {"n": 30, "d": 3}, "logistic": {"n": 30, "d": 3}}


def ranks_of_one(kind, seed, factor, weight_factor):
    """Share of draws below the truth, for every parameter."""
    bagged = Bagged.random(kind, 0, **SHAPE[kind])
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    alpha, gamma, scales = bagged.draw_prior(rng, UNIT, weight_factor)
    labels = bagged.draw_labels(rng, alpha, gamma, scales, factor)
    problem = bagged.problem(labels)
    resolved, _, transport = approximation(problem)
    data = prepare(problem, resolved, transport)
    start = rng.normal(size=(1, transport.size))
    z, trajectories = sample(kind, data, start, SETTINGS, [seed])
    draws = Draws.of(transport, resolved.names, z[:, ::THIN], None)
    names = [f"alpha {j}" for j in range(alpha.shape[1])] + ["intercept"]
    drawn = [*alpha_of(problem, draws.w[0]).T, draws.gamma[0, :, 0]]
    true = [*alpha[0], gamma[0, 0]]
    for name in resolved.names:
        names.append(name)
        drawn.append(draws.scales[name][0])
        true.append(scales[name][0])
    below = np.mean(np.array(drawn) < np.array(true)[:, None], axis=1)
    return dict(zip(names, below, strict=True))


@cache
def ranks(kind, factor=1.0, weight_factor=1.0):
    """Ranks (RUNS,) of every parameter."""
    runs = [ranks_of_one(kind, seed, factor, weight_factor) for seed in range(RUNS)]
    return {name: np.array([run[name] for run in runs]) for name in runs[0]}


def p_value(shares):
    """Of uniformity, by Kolmogorov and Smirnov; ties are broken at random within a rank's step."""
    n_draws = SETTINGS.draws // THIN
    spread = np.random.default_rng(0).random(len(shares))
    return stats.kstest((shares * n_draws + spread) / (n_draws + 1), "uniform").pvalue


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_are_uniform(kind):
    values = {name: p_value(shares) for name, shares in ranks(kind).items()}
    assert min(values.values()) > 0.01 / len(values), values


@pytest.mark.slow
def test_a_factor_of_two_in_the_variance_of_labels_is_noticed():
    values = {name: p_value(shares) for name, shares in ranks("gaussian", factor=2.0).items()}
    assert values["noise"] < 1e-6, values


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["probit", "logistic"])
def test_a_factor_of_two_in_the_variance_of_weights_is_noticed(kind):
    values = {n: p_value(shares) for n, shares in ranks(kind, weight_factor=4.0).items()}
    assert min(values.values()) < 1e-4, values
