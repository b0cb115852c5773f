"""Processes whose bag part is that of their own slopes, against differences and dense formulas."""

from dataclasses import replace

import numpy as np
import pytest

import bagwise
from bagwise import datasets
from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.sums import summarise
from bagwise.estimators.embeddings import KernelEmbedding
from bagwise.inference import gp_evidence
from bagwise.inference.gp_evidence import GPProblem
from bagwise.inference.second_level import Scales

GENTLE = Scales(prior_scale=0.5, group=0.3)
STEEP = replace(GENTLE, noise=0.02, gauss=1.5, length=0.5, tilt=-0.3, sampling=0.7, size_noise=0.02)


def problem(seed=0, n=40, weights=False):
    """Bags of three sizes, a covariate and groups, not in the order of their sizes."""
    rng = np.random.default_rng(seed)
    center = rng.normal(0, 1, (n, 2))
    bags = [
        rng.normal(c, 1, (k, 2)) for c, k in zip(center, rng.choice([3, 9, 60], n), strict=True)
    ]
    covariate = rng.normal(0, 1, n)
    y = np.sin(2 * center[:, 0]) + 0.3 * covariate + rng.normal(0, 0.2, n)
    bags = bagwise.as_bags(bags)
    (features,) = KernelEmbedding(8, bandwidth=1.0).candidates(bags)
    stats = summarise(bags, features)
    model = kernel_prior(features, stats, 0.01)
    return GPProblem(
        model,
        model.posterior(stats),
        (y - y.mean()) / y.std(),
        rng.uniform(0.5, 2.0, n) if weights else np.ones(n),
        np.column_stack([np.ones(n), covariate]),
        GENTLE,
        tuple(Scales.names()),
        members=rng.integers(6, size=n),
    )


@pytest.fixture
def to_the_end(monkeypatch):
    monkeypatch.setattr(gp_evidence, "TOLERANCE", 1e-13)
    monkeypatch.setattr(gp_evidence, "MOST_REPETITIONS", 1000)


@pytest.mark.parametrize("scales", [GENTLE, STEEP], ids=["gentle", "steep"])
@pytest.mark.parametrize("weights", [False, True])
def test_the_gradient_is_that_of_differences(to_the_end, scales, weights):
    made = problem(weights=weights)
    theta, h = scales.vector(made.free), 1e-5
    found = gp_evidence.settle(made, scales).gradient()
    for place, name in enumerate(made.free):
        step = h * (np.arange(len(theta)) == place)
        up, down = (
            gp_evidence.settle(made, scales.moved(made.free, theta + sign * step)).loss
            for sign in (1, -1)
        )
        np.testing.assert_allclose(found[name], (up - down) / (2 * h), rtol=1e-5, atol=1e-6)


def test_the_bag_part_is_that_of_the_slopes_of_the_mean(to_the_end):
    """The mean of a bag by a dense solve, and its gradient by moving what the bag says."""
    made = problem()
    at = gp_evidence.settle(made, STEEP)
    state, n = at.state, len(made.labels)
    gram = at.kernel.between(state.inputs, state.inputs) + STEEP.group * (
        made.members[:, None] == made.members
    )
    alpha = np.linalg.solve(gram + np.diag(at.bag + made.noise(STEEP) + 1e-8), made.labels)
    bag, h = np.zeros(n), 1e-5
    for k in range(state.inputs.mean.shape[1]):
        mean = []
        for sign in (1, -1):
            moved = state.inputs.mean.copy()
            moved[:, k] += sign * h
            inputs = replace(state.inputs, mean=moved)
            mean.append(at.kernel.between(inputs, state.inputs) @ alpha)
        var = made.sizes  # of that direction: ω κ, with κ = 1/(1 + N η λ/τ)
        kappa = 1 / (1 + var * STEEP.prior_scale * made.model.spectrum[k] / STEEP.sampling)
        bag += ((mean[0] - mean[1]) / (2 * h)) ** 2 * state.coordinates.shares[k] * kappa
    np.testing.assert_allclose(at.bag, bag, rtol=1e-6)


def test_wherever_it_begins_it_settles_at_the_same():
    made = problem()
    found = [gp_evidence.settle(made, STEEP, np.full(40, start)).bag for start in (0.0, 0.1, 2.0)]
    np.testing.assert_allclose(found[1], found[0], atol=1e-4)
    np.testing.assert_allclose(found[2], found[0], atol=1e-4)


def test_a_search_ends_where_no_scale_gains(to_the_end):
    made = problem()
    again, scales, loss, *_ = gp_evidence.maximise_settled(made, 300, 1e-9)
    theta = scales.vector(made.free)
    state = made.state(scales)
    assert gp_evidence.settle(made, scales).bag == pytest.approx(again.bag_var(state), rel=1e-6)
    rng = np.random.default_rng(0)
    for step in rng.normal(0, 0.05, (20, len(theta))):
        value = gp_evidence.settle(made, scales.moved(made.free, theta + step)).loss
        value += made.minus_log_prior(theta + step)[0]
        assert value > len(made.labels) * loss - 1e-6


@pytest.mark.parametrize("seed", [1, 220])
def test_predictions_are_as_wide_as_labels_left_out_ask_for(seed):
    """Searched with slopes that are held, they are .71 and .51 as wide here."""
    radon = datasets.load_radon()
    some, others = np.split(np.random.default_rng(seed).permutation(len(radon.labels)), [120])
    model = bagwise.DistributionGPRegressor(
        KernelEmbedding(60, kernel="additive-energy"),
        spread=False,
        likelihood="gaussian",
        inference="evidence",
    ).fit(radon.bags[some], radon.labels[some])
    left_out = model.label_scale_**2 / np.diagonal(model.head_.precision)
    predicted = model.predict_dist(radon.bags[others]).var
    assert 0.85 < np.median(predicted) / np.median(left_out) < 1.15
