"""The model that features are learnt by, against dense algebra, differences and the exact heads."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import fractional_matrix_power

import bagwise
from bagwise import Bags, KernelEmbedding, NetworkEmbedding
from bagwise.embedding.posterior import kernel_model, learnt_model
from bagwise.embedding.sums import BagStats, summarise
from bagwise.estimators.base import Pooled
from bagwise.features.learnable import learnable
from bagwise.heads.learning import learning_problem
from bagwise.inference import Training, learning
from bagwise.inference.learning import (
    between_bags,
    evidence,
    log_likelihoods,
    loss_of_bags,
    standardised,
    start,
    statistics,
)
from bagwise.inference.pencil import power, solve_each
from bagwise.inference.second_level import Coordinates, Scales
from bagwise.inference.training import TrainingData


@pytest.fixture(autouse=True)
def float64():
    with jax.enable_x64(True):
        yield


def some_bags(n=14, p=2, weighted=False, seed=0):
    rng = np.random.default_rng(seed)
    level = rng.normal(size=n)
    points = [
        rng.normal(a, 1.0, (size, p)) for a, size in zip(level, rng.integers(1, 9, n), strict=True)
    ]
    weights = [rng.uniform(0.1, 2.0, len(own)) for own in points] if weighted else None
    return Bags.from_list(points, weights=weights), level + 0.1 * rng.normal(size=n)


def problem_of(model, bags, y, what):
    model.fit(bags, y)
    task = model.make_task(bags, y)
    stats = summarise(bags, model.features_)
    head = model._fit_head_alone(Pooled(model.features_, stats), task)
    prior = getattr(model, "prior", "kernel")
    problem = learning_problem(head, model.features_, bags, task, what, 0.01, prior)
    none = np.zeros(0, dtype=np.int64)
    data = TrainingData(problem, bags, model.features_.scaling, Training("bandwidth"), none)
    return model, head, task, problem, data.all_bags()


def densities(problem, params, batch):
    def told(params):
        seen = statistics(problem.features, params["features"], batch)
        return log_likelihoods(problem, params, batch, seen)

    return jax.jit(told)(params)


# ---------------------------------------------------------------- all sizes at once


def pieces(d=4, n=6, seed=0):
    rng = np.random.default_rng(seed)
    half = rng.normal(size=(d, d + 2))
    whole = rng.normal(size=(d, d + 2))
    return half @ half.T, whole @ whole.T, rng.uniform(1, 9, n), rng.normal(size=(n, d))


def test_each_row_is_solved_as_by_its_own_inverse():
    R, S, sizes, rows = pieces()
    found = solve_each(R, S, 0.7, jnp.asarray(sizes), rows)
    expected = [np.linalg.solve(0.7 * R + S / n, row) for n, row in zip(sizes, rows, strict=True)]
    assert_allclose(found, expected, rtol=1e-9)


@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "repeated eigenvalues"])
def test_its_gradient_is_that_of_differences(equal):
    R, S, sizes, rows = pieces()
    if equal:
        R, S = np.eye(4), 2.0 * np.eye(4)

    def told(R, S, eta, sizes, rows):
        R, S = (R + R.T) / 2.0, (S + S.T) / 2.0
        return jnp.sum(jnp.sin(solve_each(R, S, eta, sizes, rows)))

    loss = jax.jit(jax.value_and_grad(told, argnums=range(5)))
    given = tuple(map(jnp.asarray, (R, S, 0.7, sizes, rows)))
    _, slopes = loss(*given)
    rng = np.random.default_rng(1)
    for k, slope in enumerate(slopes):
        assert np.isfinite(slope).all()
        way = rng.normal(size=np.shape(given[k]))
        ahead, behind = (
            loss(*given[:k], given[k] + step * way, *given[k + 1 :])[0] for step in (1e-6, -1e-6)
        )
        assert_allclose(jnp.sum(slope * way), (ahead - behind) / 2e-6, rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize("p", [-0.7, 0.5, 1.0, 1.6])
@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "repeated eigenvalues"])
def test_powers_are_those_of_scipy_and_their_gradients_those_of_differences(p, equal):
    C = np.diag([2.0, 2.0, 2.0, 5.0]) if equal else pieces()[0]
    assert_allclose(power(C, p), fractional_matrix_power(C, p), rtol=1e-9, atol=1e-12)
    rng = np.random.default_rng(1)
    weights, way = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
    way = way + way.T

    def loss(C, p):
        return jnp.sum(weights * power(C, p))

    by_matrix, by_power = jax.grad(loss, argnums=(0, 1))(C, p)
    ahead, behind = (loss(C + step * way, p) for step in (1e-6, -1e-6))
    assert_allclose(jnp.sum(by_matrix * way), (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)
    ahead, behind = (loss(C, p + step) for step in (1e-6, -1e-6))
    assert_allclose(by_power, (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_power_of_a_matrix_without_full_rank_is_finite_and_so_is_its_gradient():
    C = np.diag([0.0, 0.0, 1.0])
    slope = jax.grad(lambda C: jnp.sum(power(C, 0.3)))(C)
    assert np.isfinite(power(C, -1.0)).all() and np.isfinite(slope).all()


# ---------------------------------------------------------------- the same as the exact path


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "matern32", "linear", "energy", "additive-rbf", "mixed"])
def test_statistics_are_those_of_the_sums(kernel, weighted):
    bags, y = some_bags(weighted=weighted)
    model = bagwise.ShrinkageRegressor(KernelEmbedding(5, kernel=kernel, bandwidth=1.0))
    model, _, _, problem, batch = problem_of(model, bags, y, ("ard",))
    compiled = jax.jit(lambda params: statistics(problem.features, params, batch))
    mean, sizes, center, within = compiled(problem.features.start)
    stats = summarise(bags, model.features_)
    assert_allclose(mean, stats.mean, rtol=1e-9, atol=1e-12)
    assert_allclose(sizes, stats.sizes, rtol=1e-12)
    assert_allclose(center, stats.mean.mean(axis=0), rtol=1e-9, atol=1e-12)
    assert_allclose(within, stats.within_cov, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_densities_are_those_of_the_shrinkage_head(prior):
    bags, y = some_bags()
    bags = bags.with_covariates(np.random.default_rng(2).normal(size=(14, 1)))
    model = bagwise.ShrinkageRegressor(KernelEmbedding(5, bandwidth=1.0), prior=prior)
    model, _, task, problem, batch = problem_of(model, bags, y, ("landmarks",))
    params = start(problem)
    told = densities(problem, params, batch)
    found = model.predict_dist(bags)
    var = found.var / task.scale**2
    miss = (task.labels - (found.mean - task.center) / task.scale) ** 2
    assert_allclose(told[0], -0.5 * (np.log(var) + miss / var), rtol=1e-5)


def test_densities_of_classes_and_of_many():
    bags, y = some_bags(24)
    for labels in (y > 0, np.digitize(y, [-0.5, 0.5])):
        model = bagwise.ShrinkageClassifier(KernelEmbedding(5, bandwidth=1.0))
        model, _, task, problem, batch = problem_of(model, bags, labels, ("landmarks",))
        params = start(problem)
        told = np.exp(densities(problem, params, batch))
        if (
            len(task.against_the_rest) == 1
        ):  # learning is at one value of the weights, as sure as they are
            model.head_ = replace(model.head_, cov=None, sureness=None)
        for k, each in enumerate(task.against_the_rest):
            one = model.predict_dist(bags)
            binary = one if len(task.against_the_rest) == 1 else one.each[k]
            p = np.where(each.labels > 0, binary.proba[:, 1], binary.proba[:, 0])
            if len(task.against_the_rest) == 1:  # of more classes η is that of all together
                assert_allclose(told[k], p, rtol=1e-6)
            assert ((told[k] > 0) & (told[k] < 1)).all()


def test_the_evidence_is_that_of_a_dense_gaussian():
    bags, y = some_bags()
    model = bagwise.BayesianLinearRegressor(KernelEmbedding(4, bandwidth=1.0))
    _, _, task, problem, batch = problem_of(model, bags, y, ("bandwidth",))
    out = np.zeros(14)
    out[[3, 8]] = 1.0
    batch |= {"held_out": out, "counted": batch["counted"] * (out == 0)}
    params = start(problem)
    loss, left = jax.jit(lambda params: evidence(problem, params, batch))(params)
    mean = statistics(problem.features, params["features"], batch)[0]
    gaps = np.asarray(mean - mean.mean(axis=0))
    inner = gaps @ gaps.T
    theta = {name: float(value) for name, value in params["head"].items()}
    cov = np.exp(theta["linear"]) * inner / np.diag(inner).mean() + 10.0 * task.design @ (
        task.design.T
    )
    cov += (np.exp(theta["noise"]) + 1e-10) * np.eye(14)
    a, b = np.flatnonzero(out == 0), np.flatnonzero(out)
    known, labels = cov[np.ix_(a, a)], task.labels
    told = 0.5 * (np.linalg.slogdet(known)[1] + labels[a] @ np.linalg.solve(known, labels[a]))
    told += 0.5 * sum(value**2 for value in theta.values()) / 16.0
    assert_allclose(loss, told / 12, rtol=1e-8)
    gain = np.linalg.solve(known, cov[np.ix_(a, b)])
    var = np.diag(cov[np.ix_(b, b)] - cov[np.ix_(b, a)] @ gain)
    miss = labels[b] - gain.T @ labels[a]
    assert_allclose(left, np.mean(0.5 * (np.log(var) + miss**2 / var)), rtol=1e-8)


def test_what_a_process_sees_is_what_its_coordinates_are():
    R, S, sizes, rows = pieces()
    model = kernel_model(np.zeros(4), S, R, 1e9)
    stats = BagStats(rows, sizes, S)
    scales = Scales(prior_scale=0.7, tilt=-1.4, sampling=0.5)
    posterior = replace(model.posterior(stats, 0.7), sampling=0.5)
    z = Coordinates(model.spectrum, scales).mean(posterior)
    theta = {"prior_scale": jnp.log(0.7), "tilt": jnp.asarray(-1.4)}
    found = standardised(R, S, rows, sizes / 0.5, theta)
    assert_allclose(found @ found.T, z @ z.T, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("equal", [False, True], ids=["distinct", "of one size"])
def test_the_covariance_between_bags_is_that_of_the_learnt_prior(equal, monkeypatch):
    monkeypatch.setattr(learning, "EM_STEPS", 200)
    rng, n = np.random.default_rng(2), 300
    R, S, _, _ = pieces()
    sizes = np.full(n, 4.0) if equal else np.repeat([2.0, 4.0, 9.0, 30.0], n // 4)
    between = np.diag([3.0, 1.0, 0.5, 0.1])
    rows = rng.multivariate_normal(np.zeros(4), between, n)
    rows += rng.multivariate_normal(np.zeros(4), S, n) / np.sqrt(sizes)[:, None]
    model = learnt_model(kernel_model(np.zeros(4), S, R, 1e9), BagStats(rows, sizes, S))
    expected = (model.landmark_map * model.spectrum) @ model.landmark_map.T
    found = jax.jit(between_bags)(R, S, rows, jnp.asarray(sizes))
    # what the prior of it is worth 20 bags differs: η there counts no direction below 0
    assert np.abs(found - expected).max() < 0.05 * np.abs(expected).max()


# ---------------------------------------------------------------- gradients of everything


WHAT = ("bandwidth", "ard", "landmarks", "point_weights")


@pytest.mark.parametrize(
    ("model", "what"),
    [
        (bagwise.ShrinkageRegressor(KernelEmbedding(4, bandwidth=1.0)), WHAT),
        (
            bagwise.ShrinkageRegressor(
                KernelEmbedding(4, bandwidth=1.0, function_landmarks=[[0.0, 0.0], [1.0, 0.5]])
            ),
            (*WHAT, "function_landmarks"),
        ),
        (
            bagwise.ShrinkageRegressor(KernelEmbedding(4, bandwidth=1.0), prior="convolved"),
            (*WHAT, "prior_length"),
        ),
        (bagwise.RBFNetworkRegressor(KernelEmbedding(4, bandwidth=1.0)), WHAT),
        (bagwise.FrequentistShrinkageRegressor(KernelEmbedding(4, bandwidth=1.0)), WHAT),
        (bagwise.BayesianLinearRegressor(KernelEmbedding(4, bandwidth=1.0)), WHAT),
        (bagwise.DistributionGPRegressor(KernelEmbedding(4, bandwidth=1.0)), WHAT),
        (bagwise.DistributionGPRegressor(KernelEmbedding(4, bandwidth=1.0), prior="kernel"), WHAT),
    ],
    ids=["shrinkage", "z", "convolved", "network", "frequentist", "blr", "gp", "gp of k"],
)
def test_gradients_are_those_of_differences(model, what):
    bags, y = some_bags()
    _, _, _, problem, batch = problem_of(model, bags, y, what)
    params = start(problem)

    @jax.jit
    @jax.value_and_grad  # compiled once
    def loss(params):
        if problem.evidence:
            return evidence(problem, params, batch)[0]
        return loss_of_bags(problem, params, batch)[0]

    rng = np.random.default_rng(3)
    # not at the start, where weights of points are 0
    params = jax.tree.map(lambda x: x + 0.1 * rng.normal(size=x.shape), params)
    _, slope = loss(params)
    for _ in range(3):
        way = jax.tree.map(lambda x: rng.normal(size=x.shape), params)
        ahead, behind = (
            loss(jax.tree.map(lambda x, w, s=step: x + s * w, params, way))[0]
            for step in (1e-5, -1e-5)
        )
        along = sum(jax.tree.leaves(jax.tree.map(lambda g, w: jnp.sum(g * w), slope, way)))
        assert_allclose(along, (ahead - behind) / 2e-5, rtol=1e-4, atol=1e-7)


def test_repeated_landmarks_and_points_at_landmarks_have_finite_gradients():
    bags, y = some_bags()
    u = np.vstack([bags.points[0], bags.points[0], bags.points[5]])
    for kernel in ("rbf", "matern12", "matern52", "energy", "additive-matern32"):
        embedding = KernelEmbedding(kernel=kernel, bandwidth=1.0, landmarks=u)
        model = bagwise.ShrinkageRegressor(embedding)
        what = ("ard", "landmarks", "point_weights")
        _, _, _, problem, batch = problem_of(model, bags, y, what)
        slope = jax.jit(jax.grad(lambda p: loss_of_bags(problem, p, batch)[0]))(  # noqa: B023
            start(problem)
        )
        assert all(np.isfinite(each).all() for each in jax.tree.leaves(slope)), kernel


@pytest.mark.parametrize("what", [WHAT, ("ard",)])
def test_what_was_learnt_becomes_features_with_the_same_values(what):
    bags, y = some_bags()
    model = bagwise.ShrinkageRegressor(KernelEmbedding(4, bandwidth=1.0)).fit(bags, y)
    moving = learnable(model.features_, bags.points, what)
    rng = np.random.default_rng(4)
    params = {name: x + 0.3 * rng.normal(size=np.shape(x)) for name, x in moving.start.items()}
    features = moving.finish(params)
    scaled = model.features_.scaling(bags.points)
    assert_allclose(features(bags.points), moving.phi(params, scaled), rtol=1e-9)
    assert_allclose(features.weight_gram(), moving.weight_gram(params), rtol=1e-9)
    logs = moving.log_weights(params, moving.phi(params, scaled))
    assert (logs is None) == (features.point_weights is None)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "energy", "network"])
def test_by_their_prior_log_weights_of_points_have_variance_one(kernel):
    """With h ~ N(0, I), log w = Σ_k h_k f_k has variance Σ_k f_k²."""
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(2.0, 3.0, size=(20, 3)) for _ in range(10)])
    embedding = KernelEmbedding(8, kernel=kernel) if kernel != "network" else NetworkEmbedding(3)
    features = embedding.candidates(bags)[0]
    moving = learnable(features, bags.points, ("point_weights",))
    scaled = features.scaling(bags.points)
    one_each = 1e-4 * np.eye(len(moving.start["point_weights"]))  # far from the limits
    logs = [
        moving.log_weights(moving.start | {"point_weights": h}, moving.phi(moving.start, scaled))
        for h in one_each
    ]
    found = np.mean(np.sum(np.square(logs), axis=0)) / 1e-4**2
    if kernel in ("linear", "network"):  # their functions are all there
        assert_allclose(found, 1.0, rtol=1e-6)
    assert 0.3 < found < 1.0 + 1e-6


def test_a_network_in_numpy_is_that_in_jax():
    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.normal(size=(5, 3)) for _ in range(4)])
    (features,) = NetworkEmbedding(3, hidden=(4, 2)).candidates(bags)
    moving = learnable(features, bags.points, ("point_weights",))
    scaled = features.scaling(bags.points)
    assert_allclose(features(bags.points), moving.phi(moving.start, scaled), rtol=1e-12)
    again = moving.finish(moving.start)
    assert_allclose(again(bags.points), features(bags.points), rtol=1e-12)
