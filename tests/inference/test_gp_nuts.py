"""Draws of the scales of a Gaussian process: against sums over a grid, and ranks of the truth."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import bagwise
from bagwise.inference.gp_scales import Whitened, sample, sample_scales
from bagwise.inference.second_level import Scales
from bagwise.inference.settings import NUTS
from sbc_gp import START, THIN, covariance, problem

LINE = 1e-4  # the same p-value tells a right sampler from a wrong one
FEW = NUTS(chains=2, draws=150, warmup=40, target_accept=0.8, progress=False)


def labelled(free, seed=1):
    """A problem with labels of its own scales, as a fit hands it over: started at its mode."""
    made = problem(free)
    cov = covariance(made, START)
    labels = np.random.default_rng(seed).multivariate_normal(np.zeros(len(cov)), cov)
    made = replace(made, labels=labels)
    return replace(made, start=made.maximise()[0], center=START)


def test_draws_have_mean_and_covariance_of_a_gaussian():
    root = np.array([[2.0, 0.0, 0.0], [1.5, 0.3, 0.0], [0.0, 0.1, 5.0]])
    precision, center = np.linalg.inv(root @ root.T), np.array([1.0, -2.0, 30.0])

    def potential(x):
        return 0.5 * (x - center) @ precision @ (x - center), precision @ (x - center)

    density = Whitened.at(potential, center + 0.5, np.full(3, 10.0))
    draws, trajectories = sample(density, replace(FEW, draws=300), np.random.default_rng(0))
    flat = (draws.reshape(-1, 3) - center) @ np.linalg.inv(root).T  # standard normal
    assert draws.shape == (2, 300, 3) and not trajectories.diverging.any()
    assert_allclose(flat.mean(axis=0), 0.0, atol=0.15)
    assert_allclose(np.cov(flat.T), np.eye(3), atol=0.25)


# Mean and standard deviation of the priors, written down once more.
NORMAL = {
    "noise": (np.log(0.1), 2.0),
    "linear": (np.log(0.1), 1.5),
    "prior_scale": (np.log(START.prior_scale), 1.5),
}


def by_grid(made, n):
    """Bayes' rule by brute force: places (n^h, h) and their probabilities."""
    priors = [stats.norm(*NORMAL[name]) for name in made.free]
    axes = [prior.mean() + prior.std() * np.linspace(-5.0, 5.0, n) for prior in priors]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    logs = sum(prior.logpdf(x) for prior, x in zip(priors, grid.T, strict=True))
    for i, x in enumerate(grid):
        cov = covariance(made, made.start.moved(made.free, x))
        logs[i] += stats.multivariate_normal(np.zeros(len(cov)), cov).logpdf(made.labels)
    mass = np.exp(logs - logs.max())
    return grid, mass / mass.sum()


def drawn_by_nuts(made, settings):
    """Draws (c·s, h) as in vectors of scales."""
    scales = sample_scales([made], settings, np.random.default_rng(0)).scales
    return np.log(np.stack(list(scales.values()), axis=-1)).reshape(-1, len(made.free))


@pytest.mark.parametrize("name", ["noise", "prior_scale"])
def test_one_scale_has_the_density_that_a_grid_sums(name):
    made = labelled((name,))
    grid, mass = by_grid(made, 61)
    cdf, sd = np.cumsum(mass) - 0.5 * mass, np.sqrt(np.cov(grid.T, aweights=mass))
    real = drawn_by_nuts(made, FEW)[::THIN, 0]
    right, wrong = (
        stats.kstest(np.interp(real + away, grid[:, 0], cdf), "uniform").pvalue
        for away in (0.0, sd)
    )
    assert right > LINE > wrong


def test_two_scales_together_have_the_moments_that_a_grid_sums():
    made = labelled(("linear", "noise"))
    grid, mass = by_grid(made, 21)
    real = drawn_by_nuts(made, FEW)
    sd = np.sqrt(np.diagonal(np.cov(grid.T, aweights=mass)))
    assert_allclose((real.mean(axis=0) - mass @ grid) / sd, 0.0, atol=0.2)
    expected, found = np.cov(grid.T, aweights=mass), np.cov(real.T)
    assert_allclose(found / np.outer(sd, sd), expected / np.outer(sd, sd), atol=0.25)


def test_the_same_seed_has_the_same_draws_however_many_chains_run_at_once():
    made, some = labelled(("gauss", "noise")), NUTS(2, 6, 4, progress=False)
    one, two = (
        sample_scales([made], replace(some, n_jobs=n), np.random.default_rng(3)).scales
        for n in (1, 2)
    )
    other = sample_scales([made], some, np.random.default_rng(4)).scales
    for name in made.free:
        assert_array_equal(one[name], two[name])
        assert not np.array_equal(one[name], other[name])


def test_an_interrupt_ends_the_chains():
    made, calls = labelled(("noise",)), []

    def potential(theta):
        calls.append(1)
        if len(calls) > 100:
            raise KeyboardInterrupt
        return made.loss(theta)

    density = Whitened(potential, made.start.vector(made.free), np.eye(1))
    with pytest.raises(KeyboardInterrupt):
        sample(density, replace(FEW, draws=10**6), np.random.default_rng(0))
    assert len(calls) < 200


def simulate(runs, draws, factor, *names):
    here, source = Path(__file__).parents[1], Path(bagwise.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, str(here / "sbc_gp.py"), *map(str, (runs, draws, factor)), *names],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(source), str(here)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    ranks, steps = json.loads(done.stdout), draws // THIN
    spread = np.random.default_rng(0).random(runs)  # ties are broken within a rank's step
    return {
        name: stats.kstest((np.array(below) * steps + spread) / (steps + 1), "uniform").pvalue
        for name, below in ranks.items()
    }


@pytest.mark.slow
@pytest.mark.long
def test_ranks_of_the_truth_are_uniform_and_a_wrong_noise_is_noticed():
    cases = [(40, 60, factor, "linear", "noise") for factor in (1, 3)]
    with ThreadPoolExecutor(2) as pool:
        right, wrong = pool.map(lambda case: simulate(*case), cases)
    assert min(right.values()) > LINE, right
    assert wrong["noise"] < LINE, wrong


@pytest.mark.long
def test_ranks_of_all_scales_are_uniform():
    values = simulate(100, 150, 1)
    assert set(values) == set(Scales.names()) - {"group"}
    assert min(values.values()) > LINE, values
