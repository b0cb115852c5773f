"""Scales that labels leave open, against sums over a grid; what averages over them are worth."""

from dataclasses import replace

import numpy as np
import pytest

import bagwise
from bagwise import DistributionGPClassifier, DistributionGPRegressor, KernelEmbedding
from bagwise.inference import gp_scales
from bagwise.inference.gp_evidence import maximise_settled, settle
from inference.test_settled import GENTLE, problem

EMBEDDING = KernelEmbedding(8, bandwidth=1.0)


def world(seed, n=40, new=400):
    """Bags, labels that are a nonlinear function of their level, and as many new ones as asked."""
    rng = np.random.default_rng(seed)
    level = rng.normal(0, 1, n + new)
    sizes = rng.choice([3, 10, 40], n + new)
    bags = [rng.normal(m, 1, (k, 1)) for m, k in zip(level, sizes, strict=True)]
    y = np.sin(2 * level) + rng.normal(0, 0.3, n + new)
    return bags[:n], y[:n], bags[n:], y[n:]


def test_draws_have_the_moments_of_a_sum_over_a_grid(monkeypatch):
    monkeypatch.setattr(gp_scales, "WEIGHTED", 1000)
    monkeypatch.setattr(gp_scales, "TAKEN", 1000)
    start = replace(GENTLE, group=0.05)
    made = replace(problem(n=24), start=start, center=start, free=("gauss", "noise"), members=None)
    made, scales, *_ = maximise_settled(made, 100, 1e-8)
    made = replace(made, start=scales)
    drawn = np.array(
        [
            each.vector(made.free)
            for each, _ in gp_scales.draw_scales(made, np.random.default_rng(0))
        ]
    )
    around = scales.vector(made.free)
    grid = np.stack(np.meshgrid(*(around[:, None] + np.linspace(-4, 4, 21))), -1).reshape(-1, 2)
    logs = [
        -made.minus_log_prior(theta)[0] - settle(made, scales.moved(made.free, theta)).loss
        for theta in grid
    ]
    weights = np.exp(logs - np.max(logs))
    weights /= weights.sum()
    mean = weights @ grid
    sd = np.sqrt(weights @ (grid - mean) ** 2)
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.1 * sd.max())
    np.testing.assert_allclose(drawn.std(axis=0), sd, rtol=0.1)


def test_few_bags_are_averaged_by_default_and_a_saved_model_as_well(tmp_path):
    bags, y, new, _ = world(0, new=5)
    model = DistributionGPRegressor(EMBEDDING).fit(bags, y)
    one = DistributionGPRegressor(EMBEDDING, inference="evidence").fit(bags, y)
    assert len(model.head_.drawn) == gp_scales.TAKEN and model.diagnostics_ is None
    assert model.draws_ is not None and one.draws_ is None
    again = DistributionGPRegressor(EMBEDDING).fit(bags, y)
    np.testing.assert_array_equal(again.predict_dist(new).std, model.predict_dist(new).std)
    bagwise.save(model, tmp_path / "model.bagwise")
    loaded = bagwise.load(tmp_path / "model.bagwise")
    np.testing.assert_array_equal(loaded.predict_dist(new).std, model.predict_dist(new).std)
    found = model.predict_dist(new)
    total = found.parts.bag + found.parts.weights + found.parts.noise
    np.testing.assert_allclose(total, found.std**2)


def test_many_bags_are_averaged_if_asked_for():
    bags, y, new, _ = world(1, n=201, new=5)
    assert DistributionGPRegressor(EMBEDDING).fit(bags, y).draws_ is None
    asked = DistributionGPRegressor(EMBEDDING, inference="average").fit(bags, y)
    assert asked.draws_ is not None
    assert np.isfinite(asked.predict_dist(new).std).all()


def test_classes_have_no_average():
    bags, y, _, _ = world(2, new=1)
    with pytest.raises(bagwise.BagwiseError, match=r"labels are classes or counts.*real labels"):
        DistributionGPClassifier(EMBEDDING, inference="average").fit(bags, y > 0)


def test_averages_are_worth_more_than_the_best_scales_where_bags_are_few():
    gains, away = [], []
    for seed in range(8):
        bags, y, new, labels = world(seed, n=25)
        one, average = (
            DistributionGPRegressor(EMBEDDING, inference=way).fit(bags, y).predict_dist(new)
            for way in ("evidence", "average")
        )
        gains.append(np.mean(average.log_prob(labels) - one.log_prob(labels)))
        for found in (one, average):
            away.append(np.mean(((labels - found.mean) / found.std) ** 2))
    away = np.sqrt(np.reshape(away, (8, 2)).mean(axis=0))
    assert np.mean(gains) > 0.01
    assert 0.9 < away[1] < away[0]
