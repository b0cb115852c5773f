"""Simulation-based calibration of NUTS, for every parameter of every model.

If the sampler is right, the rank of the true parameter among the draws is uniform. A factor of two
in a variance is noticed.

Talts, Betancourt, Simpson, Vehtari and Gelman (2018), Validating Bayesian inference algorithms with
simulation-based calibration.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import bagwise
from sbc import SETTINGS, THIN

# In make test NUTS is compared with exact posteriors: test_posterior_exact.py.
pytestmark = [pytest.mark.slow, pytest.mark.long]

LINE = 1e-4  # the same p-value tells a right sampler from a wrong one

# Model, factor on the variance of the labels, factor on that of the weights.
CASES = {
    "gaussian": ("gaussian", 1, 1),
    "gaussian, labels doubled": ("gaussian", 2, 1),
}
MORE_CASES = {
    "probit": ("probit", 1, 1),
    "logistic": ("logistic", 1, 1),
    "probit, weights doubled": ("probit", 1, 2),
    "logistic, weights doubled": ("logistic", 1, 2),
}


def simulate(case):
    here, source = Path(__file__).parents[1], Path(bagwise.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(here / "sbc.py"), *map(str, case)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(here)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def simulate_all(cases):
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(cases, pool.map(simulate, cases.values()), strict=True))


@pytest.fixture(scope="module")
def simulations():
    return simulate_all(CASES)


@pytest.fixture(scope="module")
def more_simulations():
    return simulate_all(MORE_CASES)


def p_values(ranks):
    """Of uniformity, by Kolmogorov and Smirnov; ties are broken at random within a rank's step."""
    n_draws = SETTINGS.draws // THIN
    spread = np.random.default_rng(0).random(len(next(iter(ranks.values()))))
    return {
        name: stats.kstest((np.array(below) * n_draws + spread) / (n_draws + 1), "uniform").pvalue
        for name, below in ranks.items()
    }


def test_ranks_are_uniform(simulations):
    values = p_values(simulations["gaussian"])
    assert min(values.values()) > LINE, values


def test_a_factor_of_two_in_the_variance_of_labels_is_noticed(simulations):
    assert p_values(simulations["gaussian, labels doubled"])["noise"] < LINE


@pytest.mark.parametrize("kind", ["probit", "logistic"])
def test_ranks_of_classifiers_are_uniform(kind, more_simulations):
    values = p_values(more_simulations[kind])
    assert min(values.values()) > LINE, values


@pytest.mark.parametrize("kind", ["probit", "logistic"])
def test_a_factor_of_two_in_the_variance_of_weights_is_noticed(kind, more_simulations):
    assert p_values(more_simulations[f"{kind}, weights doubled"])["weight_var"] < LINE
