"""The shrinkage objective and its mode against the dense objective, one inverse per bag."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import dense_oracle
from bagwise import KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.embedding.posterior import ConvolvedPrior, kernel_prior
from bagwise.embedding.sums import BagStats
from bagwise.estimators.regressors import ShrinkageRegressor
from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.features.kernels import RBF
from bagwise.features.maps import LandmarkFeatures, Scaling
from bagwise.inference import shrinkage
from bagwise.inference.shrinkage import (
    Mode,
    Objective,
    ShrinkageProblem,
    find_mode,
    find_mode_by_evidence,
    warn_if_unfinished,
)
from dense_oracle import DenseShrinkage, rbf

BANDWIDTH, FLOOR, WEIGHT_VAR = 0.8, 0.05, 2.0
UNIT = Scaling.of(np.zeros(2), np.ones(2))
PRIORS = ["kernel", "convolved"]
CASES = [
    pytest.param((prior, other_z), id=f"{prior}, {'other z' if other_z else 'z = u'}")
    for prior in PRIORS
    for other_z in (False, True)
]


class Case:
    """One small fit, as a ShrinkageProblem and as a dense model of the same bags."""

    def __init__(self, prior="kernel", other_z=False, seed=0, n_bags=24):
        rng = np.random.default_rng(seed)
        bags, y = dense_oracle.scale_bags(seed, n_bags)
        u = np.array([[x, y] for x in (-1.5, 0.0, 1.5) for y in (-1.0, 1.0)])
        z = np.array([[0.0, 0.0], [-1.2, 1.1], [1.3, 0.9], [0.4, -1.4]]) if other_z else None
        mean, sizes, cov = dense_oracle.summary([rbf(bag, u, BANDWIDTH) for bag in bags])
        labels = (y - y.mean()) / y.std()
        effects = np.column_stack([np.ones(n_bags), rng.normal(size=n_bags)])
        weight = rng.uniform(0.3, 2.0, n_bags)
        weight /= weight.mean()
        self.dense = DenseShrinkage(
            mean=mean,
            sizes=sizes,
            within_cov=cov + FLOOR * np.trace(cov) / len(u) * np.eye(len(u)),
            u=u,
            z=u if z is None else z,
            bandwidth=BANDWIDTH,
            effects=effects,
            labels=labels,
            sample_weight=weight,
            prior=prior,
        )
        make = kernel_prior if prior == "kernel" else ConvolvedPrior
        stats = BagStats(mean, sizes, cov)
        self.prior = make(LandmarkFeatures(RBF(BANDWIDTH), UNIT, u, z), stats, FLOOR)
        self.problem = ShrinkageProblem(self.prior, stats, labels, effects, weight)
        spread = np.sqrt(np.mean(np.sum(u**2, axis=1)))
        self.centres = self.dense.log_scale_centres(None if prior == "kernel" else spread)

    def alpha(self, w):
        """Weights α of the function with the whitened weights w."""
        return self.prior.at(self.length(self.problem.start)).weight_map @ w

    def length(self, theta):
        return None if self.problem.n_scales == 2 else float(theta[-1])

    def dense_value(self, theta, weight_var=WEIGHT_VAR):
        w, gamma, log_scales = self.problem.split(theta)
        return self.dense.objective(self.alpha(w), gamma, log_scales, weight_var, self.centres)

    def theta(self, seed):
        rng = np.random.default_rng(seed)
        start = self.problem.start
        return start + rng.normal(size=len(start)) * np.where(
            np.arange(len(start)) < len(start) - self.problem.n_scales, 1.0, 0.7
        )


@cache
def cached_case(prior, other_z):
    return Case(prior, other_z)


@pytest.fixture(params=CASES)
def case(request):
    return cached_case(*request.param)


# ---------------------------------------------------------------- value and derivatives


@pytest.mark.parametrize("seed", range(4))
def test_value_is_that_of_the_dense_objective(case, seed):
    theta = case.theta(seed)
    found = Objective(case.problem, WEIGHT_VAR)(theta).value
    assert_allclose(found, case.dense_value(theta), rtol=1e-8)


def test_start_is_the_constant_function_with_a_median_bag_halfway_shrunk(case):
    w, gamma, log_scales = case.problem.split(case.problem.start)
    assert not w.any() and not gamma.any()
    assert_allclose(log_scales, case.centres, rtol=1e-9, atol=1e-9)


def differences(function, theta, step=1e-5):
    """Central differences of a function of θ, one column per parameter."""
    columns = []
    for k in range(len(theta)):
        move = np.zeros_like(theta)
        move[k] = step
        columns.append((function(theta + move) - function(theta - move)) / (2 * step))
    return np.array(columns)


@pytest.mark.parametrize("seed", range(2))
def test_gradient_is_the_finite_difference(case, seed):
    theta = case.theta(seed)
    objective = Objective(case.problem, WEIGHT_VAR)
    expected = differences(lambda at: objective(at).value, theta)
    gradient = objective(theta).gradient
    assert_allclose(gradient, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize("seed", range(2))
def test_hessian_is_the_finite_difference_of_the_gradient(case, seed):
    theta = case.theta(seed)
    objective = Objective(case.problem, WEIGHT_VAR)
    expected = differences(lambda at: objective(at).gradient, theta)
    hessian = objective.hessian(theta)
    assert_allclose(hessian, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    assert_allclose(hessian, hessian.T, rtol=1e-9, atol=1e-9 * np.abs(hessian).max())


def test_fisher_information_is_positive_definite(case):
    for seed in range(4):
        fisher = Objective(case.problem, WEIGHT_VAR)(case.theta(seed)).fisher
        assert_allclose(fisher, fisher.T)
        assert np.linalg.eigvalsh(fisher).min() > 0


def test_fisher_information_is_the_expected_hessian():
    """Averaged over labels drawn from the model, the Hessian is the Fisher information."""
    case = cached_case("kernel", True)
    theta, dense = case.theta(0), case.dense
    w, gamma, log_scales = case.problem.split(theta)
    xi, nu = dense.moments(case.alpha(w), gamma, *np.exp(log_scales))
    rng = np.random.default_rng(0)
    hessians = []
    for _ in range(100):
        half = np.sqrt(nu) * rng.normal(size=len(nu))
        for labels in (xi + half, xi - half):  # antithetic: odd terms cancel exactly
            parts = vars(case.problem) | {"labels": labels}
            parts = {name: parts[name] for name in ShrinkageProblem.__dataclass_fields__}
            hessians.append(Objective(ShrinkageProblem(**parts), WEIGHT_VAR)(theta).hessian)
    fisher = Objective(case.problem, WEIGHT_VAR)(theta).fisher
    hessians = np.array(hessians).reshape(100, 2, *fisher.shape).mean(axis=1)
    error = hessians.std(axis=0) / np.sqrt(100)
    assert (np.abs(hessians.mean(axis=0) - fisher) <= 5 * error + 1e-9).all()


def test_objective_remembers_only_the_theta_it_was_asked_about(case):
    objective = Objective(case.problem, WEIGHT_VAR)
    theta = case.theta(0)
    first = objective(theta)
    assert objective(theta) is first
    theta += 0.1  # in place, as optimisers do
    assert objective(theta).value != first.value


# ---------------------------------------------------------------- the mode


def test_mode_has_no_gradient_and_says_how_it_was_found(case):
    mode = find_mode(case.problem, WEIGHT_VAR)
    at = Objective(case.problem, WEIGHT_VAR)(mode.theta)
    assert np.linalg.norm(at.gradient) == mode.gradient_norm < 1e-6
    assert mode.value == at.value and mode.weight_var == WEIGHT_VAR and mode.n_steps > 0
    assert np.linalg.eigvalsh(Objective(case.problem, WEIGHT_VAR).hessian(mode.theta)).min() > 0


def test_many_bags_have_the_mode_that_they_have_without_a_head_start(case, monkeypatch):
    alone = shrinkage.find_mode_by_evidence(case.problem)
    n = len(case.problem.labels)
    monkeypatch.setattr(shrinkage, "MANY_BAGS", n - 1)
    monkeypatch.setattr(shrinkage, "START_BAGS", n // 2)
    ahead = shrinkage.find_mode_by_evidence(case.problem)
    assert ahead.gradient_norm < 1e-6
    assert abs(np.log(ahead.weight_var / alone.weight_var)) < 0.1
    at = Objective(case.problem, ahead.weight_var)
    assert_allclose(at(find_mode(case.problem, ahead.weight_var).theta).value, ahead.value)


def test_no_other_optimiser_finds_a_lower_dense_objective(case):
    mode = find_mode(case.problem, WEIGHT_VAR)
    n_weights, n_scales = len(case.dense.z), case.problem.n_scales
    w, gamma, log_scales = case.problem.split(mode.theta)

    def value(parameters):
        alpha, rest = parameters[:n_weights], parameters[n_weights:]
        return case.dense.objective(
            alpha, rest[:-n_scales], rest[-n_scales:], WEIGHT_VAR, case.centres
        )

    at_mode = np.concatenate([case.alpha(w), gamma, log_scales])
    assert_allclose(value(at_mode), mode.value, rtol=1e-8)
    rng = np.random.default_rng(0)
    constant = np.concatenate([0.01 * rng.normal(size=n_weights), np.zeros(2), case.centres])
    for start in (at_mode + 0.1 * rng.normal(size=len(at_mode)), constant):
        found = minimize(value, start, method="L-BFGS-B", options={"maxfun": 5000})
        assert found.fun > mode.value - 1e-6


def test_loss_is_laplaces_approximation_to_the_evidence(case):
    mode = find_mode(case.problem, WEIGHT_VAR)
    fisher = Objective(case.problem, WEIGHT_VAR)(mode.theta).fisher
    q = len(case.problem.split(mode.theta)[0])
    expected = case.dense_value(mode.theta) + 0.5 * np.log(np.linalg.det(fisher))
    expected += 0.5 * q * np.log(WEIGHT_VAR)
    assert_allclose(mode.loss, expected / len(case.problem.labels), rtol=1e-8)


def test_evidence_chooses_a_weight_variance_near_the_least_loss(case):
    chosen = find_mode_by_evidence(case.problem)
    grid = [find_mode(case.problem, v).loss for v in chosen.weight_var * np.logspace(-2, 2, 9)]
    assert chosen.loss <= min(grid) + 0.01
    assert chosen.loss < min(grid[0], grid[-1])


def test_evidence_does_not_depend_on_where_its_search_starts(case):
    found = [find_mode_by_evidence(case.problem, start).weight_var for start in (0.1, 1.0, 30.0)]
    assert_allclose(np.log(found), np.log(found[0]), atol=0.3)


def test_evidence_stops_after_its_last_round_with_a_mode(monkeypatch):
    monkeypatch.setattr(shrinkage, "MAX_ROUNDS", 1)
    case = cached_case("kernel", False)
    stopped = find_mode_by_evidence(case.problem, 1e-3)
    assert stopped.weight_var != 1e-3 and stopped.gradient_norm < 1e-6
    assert_allclose(stopped.value, find_mode(case.problem, stopped.weight_var).value, rtol=1e-9)


def test_sample_weights_of_two_are_bags_counted_twice():
    case = cached_case("kernel", False)
    parts = {name: getattr(case.problem, name) for name in ShrinkageProblem.__dataclass_fields__}
    n = len(parts["labels"])
    twice = np.r_[np.arange(n), np.arange(5)]
    stats = BagStats(parts["stats"].mean[twice], parts["stats"].sizes[twice])
    heavy = parts | {"sample_weight": np.r_[np.full(5, 2.0), np.ones(n - 5)]}
    copied = parts | {"stats": stats, "sample_weight": np.ones(n + 5)}
    copied |= {name: parts[name][twice] for name in ("labels", "effects")}
    theta = case.theta(0)
    # The centre of the prior on η is a median of sizes, which copies can move.
    problems = [ShrinkageProblem(**heavy), ShrinkageProblem(**copied)]
    problems[1].__dict__["start"] = problems[0].start
    a, b = (Objective(problem, WEIGHT_VAR)(theta) for problem in problems)
    assert_allclose(a.value, b.value, rtol=1e-12)
    assert_allclose(a.gradient, b.gradient, rtol=1e-9, atol=1e-10)
    assert_allclose(a.fisher, b.fisher, rtol=1e-9, atol=1e-10)


def test_a_fit_that_stops_short_warns_in_plain_language():
    short = Mode(np.zeros(3), 1.0, 0.0, 0.0, gradient_norm=1.0, n_steps=500, shortfall=2.0)
    with pytest.warns(BagwiseWarning, match="stopped after 500 steps before it had converged"):
        warn_if_unfinished(short)
    warn_if_unfinished(replace(short, shortfall=1e-9))  # steep, but as good as there


# ---------------------------------------------------------------- through the regressor


def fitted(prior, other_z, covariates=True, weight_var=1.5):
    """A fitted ShrinkageRegressor and a dense model of the same bags in its units."""
    bags, y = dense_oracle.scale_bags(3, 26)
    rng = np.random.default_rng(4)
    C = rng.normal(5.0, 2.0, (len(bags), 2)) if covariates else None
    y = 100.0 + 20.0 * y + (0.0 if C is None else C @ [1.0, -2.0])
    u = 1.3 * np.array([[a, b] for a in (-1.0, 0.0, 1.0) for b in (-1.0, 1.0)])
    z = np.array([[0.1, 0.0], [-1.2, 1.1], [1.3, 0.9]]) if other_z else None
    weight = rng.uniform(0.5, 2.0, len(bags))
    model = ShrinkageRegressor(
        KernelEmbedding(landmarks=u, function_landmarks=z, bandwidth=0.7),
        prior=prior,
        weight_var=weight_var,
        covariance_floor=FLOOR,
    ).fit(Bags.from_list(bags, covariates=C), y, sample_weight=weight)
    stacked = np.vstack(bags)
    center, scale = stacked.mean(axis=0), stacked.std(axis=0)
    u, z = (u - center) / scale, (u if z is None else z)
    z = u if not other_z else (z - center) / scale

    def statistics(bags):
        phis = [rbf((bag - center) / scale, u, model.bandwidth_) for bag in bags]
        return dense_oracle.summary(phis)

    mean, sizes, cov = statistics(bags)
    design = np.column_stack([np.ones(len(bags))] + ([] if C is None else [C]))
    dense = DenseShrinkage(
        mean=mean,
        sizes=sizes,
        within_cov=cov + FLOOR * np.trace(cov) / len(u) * np.eye(len(u)),
        u=u,
        z=z,
        bandwidth=model.bandwidth_,
        effects=design,
        labels=y,
        sample_weight=weight / weight.mean(),
        prior=prior,
    )
    return model, dense, statistics


def test_curvatures_too_far_apart_are_said(monkeypatch):
    """As of points of 1e30 to a linear kernel: no multiple of the identity makes them positive."""

    def hessian(self, theta):
        return np.diag(np.r_[-2.668459952905364e59, np.full(len(theta) - 1, 80.0)])

    monkeypatch.setattr(Objective, "hessian", hessian)
    with pytest.raises(BagwiseError, match=r"curvatures .* more digits .* standardize=True"):
        find_mode(Case().problem, WEIGHT_VAR)


@pytest.mark.parametrize("case", CASES)
def test_predictions_are_those_of_the_dense_formula_at_the_fitted_parameters(case):
    model, dense, statistics = fitted(*case)
    new = [np.random.default_rng(n).normal(0.3, 1.4, (n, 2)) for n in (1, 2, 3, 40, 500)]
    C = np.random.default_rng(9).normal(4.0, 2.0, (5, 2))
    mean, sizes, _ = statistics(new)
    gamma = np.r_[model.intercept_, model.covariate_weights_]
    xi, nu = dense.of(mean, sizes, np.column_stack([np.ones(5), C])).moments(
        model.weights_, gamma, model.noise_var_, model.prior_scale_, model.length_scale_
    )
    prediction = model.predict_dist(Bags.from_list(new, covariates=C))
    assert_allclose(prediction.mean, xi, rtol=1e-8)
    assert_allclose(prediction.var, nu, rtol=1e-8)
    assert_allclose(prediction.parts.noise, model.noise_var_, rtol=1e-12)


@pytest.mark.parametrize("case", CASES)
def test_fitted_parameters_minimise_the_dense_objective_in_the_units_of_the_labels(case):
    model, dense, _ = fitted(*case, weight_var=0.8)
    weight = dense.sample_weight
    center = np.average(dense.labels, weights=weight)
    unit = np.sqrt(np.average((dense.labels - center) ** 2, weights=weight))
    spread = None if model.length_scale_ is None else np.sqrt(np.mean(np.sum(dense.u**2, axis=1)))
    # In units of the labels, σ² and ρ² are multiplied by the square of the unit.
    centres = dense.log_scale_centres(spread)
    centres[0] += 2 * np.log(unit)
    scales = [model.noise_var_, model.prior_scale_]
    scales += [] if model.length_scale_ is None else [model.length_scale_]
    s, r = len(dense.z), dense.effects.shape[1]

    def value(parameters):
        alpha, gamma, log_scales = np.split(parameters, [s, s + r])
        return dense.objective(alpha, gamma, log_scales, 0.8 * unit**2, centres)

    at = np.r_[model.weights_, model.intercept_, model.covariate_weights_, np.log(scales)]
    for k, step in enumerate(np.r_[np.full(s + 1, 1e-3), np.full(len(at) - s - 1, 1e-4)]):
        move = step * np.eye(len(at))[k]
        assert value(at + move) > value(at) - 1e-9
        assert value(at - move) > value(at) - 1e-9


def test_weight_variance_by_evidence_is_reported_and_refitted_exactly():
    model, _, _ = fitted("kernel", False, weight_var="evidence")
    again, _, _ = fitted("kernel", False, weight_var=model.weight_var_)
    assert_allclose(again.weights_, model.weights_, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prior": "flat"}, 'prior is \'flat\'; expected "kernel" or "convolved"'),
        ({"weight_var": "loo"}, "weight_var is 'loo'; expected a number > 0 or 'evidence'"),
        ({"weight_var": -1.0}, "weight_var is -1.0; expected a finite number > 0"),
        ({"covariance_floor": 0.0}, "covariance_floor is 0.0; expected a finite number > 0"),
        ({"embedding__function_landmarks": [[1.0]]}, r"function_landmarks have shape \(1, 1\)"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options, message):
    bags, y = dense_oracle.scale_bags()
    with pytest.raises(BagwiseError, match=message):
        ShrinkageRegressor(KernelEmbedding(4, bandwidth=1.0)).set_params(**options).fit(bags, y)
