"""The plain NumPyro model of the benchmark, against the library's density and against itself."""

from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from numpyro.infer.util import log_density

from bagwise import KernelEmbedding
from bagwise.datasets import make_gamma
from bagwise.estimators.regressors import BDRRegressor
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.settings import NUTS
from bagwise.inference.shrinkage import LEAST_NOISE, likelihood_at
from benchmarks import bench_numpyro as plain
from benchmarks.bench_nuts import QUICK, Plain, Speed
from benchmarks.bench_posterior import Fit, Watch, disagreement, fast_potential
from posterior_problems import Bagged

N, D = 12, 4
MOMENTS = (plain.with_covariance, plain.with_two_solves)


@pytest.fixture(scope="module")
def bagged():
    return Bagged.random("gaussian", seed=3, n=N, d=D)


@pytest.fixture(scope="module")
def problem(bagged):
    return bagged.problem(np.random.default_rng(4).normal(size=N))


@pytest.fixture(scope="module")
def priors(problem):
    return ScalePriors.of(problem, Priors(noise=0.7, weights=1.3, prior_scale=2.1, intercept=3.0))


@pytest.fixture(scope="module")
def data(bagged, problem, priors):
    scales = dict(zip(priors.names, priors.scale, strict=True))
    return {
        "mean": bagged.mean,
        "sizes": bagged.sizes,
        "labels": problem.labels,
        "within_cov": bagged.within_cov,
        "gram": bagged.gram,
        "least_noise": LEAST_NOISE,
        "sigma": scales["noise"],
        "rho": scales["weight_var"],
        "eta": scales["prior_scale"],
        "b": priors.effect_sd,
    }


def points(n=5):
    rng = np.random.default_rng(5)
    return [
        {
            "alpha": rng.normal(size=D),
            "b": rng.normal(),
            **dict(zip(plain.SCALES, rng.uniform(0.2, 2.0, 3), strict=True)),
        }
        for _ in range(n)
    ]


def ours(problem, priors, point):
    """Log density of (α, σ, ρ, η, b) by the NumPy objective, up to a constant."""
    weight_map = problem.prior.at(None).weight_map
    w, rho = np.linalg.solve(weight_map, point["alpha"]), point["rho"]
    theta = [*w, point["b"], 2.0 * np.log(point["sigma"]), np.log(point["eta"])]
    x = np.array([point["sigma"], point["eta"], rho])
    value = -likelihood_at(problem, np.array(theta)).value
    value += -0.5 * np.sum((w / rho) ** 2) - len(w) * np.log(rho)
    value -= 0.5 * (point["b"] / priors.effect_sd) ** 2
    return value + priors.log_density(np.log(x) / priors.power) - np.sum(np.log(x))


@pytest.mark.parametrize("moments", MOMENTS)
def test_plain_model_has_our_density(problem, priors, data, moments):
    written = partial(plain.model, moments=moments)
    with jax.enable_x64(True):
        theirs = [
            float(log_density(written, (plain.as_arrays(data),), {}, plain.as_arrays(point))[0])
            for point in points()
        ]
    expected = np.array([ours(problem, priors, point) for point in points()])
    np.testing.assert_allclose(np.diff(theirs), np.diff(expected), rtol=0, atol=1e-8)


def test_whitened_model_has_our_density_times_the_jacobian(problem, priors, data):
    root = np.linalg.cholesky(data["gram"])
    theirs, expected = [], []
    for point in points():
        zeta = root.T @ point["alpha"] / point["rho"]
        sites = {name: x for name, x in point.items() if name != "alpha"} | {"zeta": zeta}
        with jax.enable_x64(True):
            arguments = (plain.as_arrays(data),), {"whitened": True}, plain.as_arrays(sites)
            theirs.append(float(log_density(plain.model, *arguments)[0]))
        expected.append(ours(problem, priors, point) + D * np.log(point["rho"]))
    np.testing.assert_allclose(np.diff(theirs), np.diff(expected), rtol=0, atol=1e-8)


def test_the_models_precision_is_that_of_the_moment_only(data):
    with jax.enable_x64(True):
        assert plain.as_arrays(data)["mean"].dtype == np.float64
    assert jax.numpy.ones(1).dtype == np.float32


@pytest.fixture(scope="module")
def fitted():
    split = make_gamma(n_bags=N).train
    settings = NUTS(chains=2, draws=20, warmup=40)
    model = BDRRegressor(KernelEmbedding(D, bandwidth=1.0), inference=settings)
    return split, Fit.run(model, split)


def test_a_watched_fit_is_the_fit_and_has_its_times(fitted):
    _, fit = fitted
    assert fit.model.draws_["weights"].shape == (2, 20, D)
    assert 0 < fit.draw_seconds < fit.warmup_seconds  # which includes the compilation
    assert fit.warmup_seconds + fit.draw_seconds < fit.seconds


def test_our_algebra_gives_the_plain_models_potential_and_gradient(fitted):
    split, fit = fitted
    with jax.enable_x64(True):
        gradients = [
            plain.Gradient(fast_potential, plain.as_arrays(fit.fast_data())),
            plain.Gradient(plain.potential, plain.as_arrays(fit.plain_data(split))),
        ]
        sites = [plain.as_arrays(fit.sites(draw, whitened=False)) for draw in (0, 7, -1)]
        assert disagreement(gradients, sites) < 1e-10


def test_the_whitened_model_is_measured_by_our_algebra_and_as_written(fitted):
    split, fit = fitted
    with jax.enable_x64(True):
        side = Plain(fit, split, QUICK, cores=1)
        fast, written = side.speeds(whitened=True)
    assert side.gap < 1e-10
    assert fast.ess == written.ess > 0 and fast.steps == written.steps
    assert written.draws == pytest.approx(100 * written.steps * written.gradient)


def test_a_plain_model_of_another_posterior_is_refused(fitted):
    split, fit = fitted
    with jax.enable_x64(True):
        side = Plain(fit, split, QUICK, cores=1)
        side.data["eta"] = side.data["eta"] / 100.0
        with pytest.raises(AssertionError, match="densities differ"):
            side.speeds(whitened=True)


def test_dropped_directions_are_refused():
    embedding = SimpleNamespace(weight_map=np.ones((3, 2)))
    model = BDRRegressor()
    model.head_ = SimpleNamespace(start=SimpleNamespace(model=embedding))
    with pytest.raises(AssertionError, match="1 of 3 directions"):
        _ = Fit(model, 1.0, 1.0, 1.0, None, {}, np.zeros(1)).gram


def test_watch_tells_warm_up_from_draws():
    watch = Watch("sampling", 80)
    watch.start, watch.ends = 10.0, [(12.0, 20), (13.0, 20), (17.0, 20), (18.0, 20)]
    assert watch.seconds(40) == (3.0, 5.0)


def test_plain_chains_sample_the_potential_they_are_given():
    def normal(data, u):
        return 0.5 * ((u["alpha"] - data["mean"]) ** 2).sum() + 0.5 * u["b"] ** 2

    with jax.enable_x64(True):
        mean = np.array([1.0, -2.0])
        gradient = plain.Gradient(normal, plain.as_arrays({"mean": mean}))
        like = plain.as_arrays({"alpha": mean, "b": 0.0})
        value, slope = gradient(like)
        assert (float(value), float(slope["b"])) == (0.0, 0.0)
        assert gradient.seconds(like, 3, 2) > 0
        chains = plain.sample(gradient, like, chains=2, length=300, n_jobs=2)
    assert chains.draws["alpha"].shape == (2, 300, 2) and chains.n_steps.shape == (2, 300)
    np.testing.assert_allclose(chains.draws["alpha"].mean(axis=(0, 1)), mean, atol=0.2)
    np.testing.assert_allclose(chains.draws["b"].std(), 1.0, atol=0.15)
    assert chains.warmup_steps > 300 and not chains.diverging.any()


def chains_of(draws):
    steps = np.full((2, 100), 7)
    return plain.Chains(draws, np.zeros((2, 100), bool), steps, 500, 1.5, 4.0)


def test_weights_of_whitened_draws():
    rng = np.random.default_rng(0)
    gram = np.array([[2.0, 0.3], [0.3, 1.0]])
    scales = {name: rng.uniform(1, 2, (2, 100)) for name in (*plain.SCALES, "b")}
    alpha = rng.normal(size=(2, 100, 2))
    zeta = alpha @ np.linalg.cholesky(gram) / scales["rho"][:, :, None]
    centred = chains_of(scales | {"alpha": alpha}).parameters(gram)
    whitened = chains_of(scales | {"zeta": zeta}).parameters(gram)
    assert centred.shape == (2, 100, 6)
    np.testing.assert_allclose(whitened, centred, rtol=1e-12)


def test_speed_of_chains_as_run_and_at_the_cost_of_another_gradient():
    rng = np.random.default_rng(0)
    draws = {name: rng.uniform(1, 2, (2, 100)) for name in (*plain.SCALES, "b")}
    chains = chains_of(draws | {"alpha": rng.normal(size=(2, 100, 2))})
    run = Speed.of_chains(chains, np.eye(2), 0.001)
    assert (run.warmup, run.draws, run.steps) == (1.5, 4.0, 7.0)
    assert run.rate == run.ess / 4.0 and run.rate_of_all == run.ess / 5.5
    slow = Speed.of_chains(chains, np.eye(2), 0.1, cores=2)
    assert slow.draws == pytest.approx(2 * 100 * 7 * 0.1 / 2)
    assert slow.warmup == pytest.approx(500 * 0.1 / 2)
