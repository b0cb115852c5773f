"""R-hat and effective sample sizes against ArviZ; what is said of bad draws; the export."""

import re
import sys
import warnings

import arviz_stats
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import BagwiseError, BagwiseWarning, BDRRegressor, KernelEmbedding
from bagwise.inference import NUTS, Priors
from bagwise.inference.diagnostics import (
    Diagnostics,
    diagnose,
    ess_bulk,
    ess_tail,
    rhat,
    warn_if_bad,
)
from bagwise.inference.draws import Trajectories

# ---- numbers ------------------------------------------------------------------------------------


def autoregressive(rng, n_chains, n_draws, rho):
    noise = rng.normal(size=(n_chains, n_draws))
    x = np.empty_like(noise)
    x[:, 0] = noise[:, 0] / np.sqrt(1 - rho**2)
    for t in range(1, n_draws):
        x[:, t] = rho * x[:, t - 1] + noise[:, t]
    return x


RNG = np.random.default_rng(0)
CHAINS = {f"rho {rho}": autoregressive(RNG, 4, 500, rho) for rho in (-0.5, 0.0, 0.3, 0.9, 0.97)} | {
    "Cauchy": RNG.standard_cauchy((4, 500)),
    "Student": RNG.standard_t(2, (4, 1000)),
    "log-normal": np.exp(3 * RNG.normal(size=(4, 400))),
    "odd length": autoregressive(RNG, 3, 333, 0.5),
    "short": autoregressive(RNG, 2, 40, 0.5),
    "very short": autoregressive(RNG, 4, 20, 0.2),
    "few values": RNG.integers(0, 3, (4, 400)).astype(float),
    "one chain elsewhere": autoregressive(RNG, 4, 200, 0.2) + 3 * np.eye(4)[:, :1],
    "one chain wider": autoregressive(RNG, 4, 200, 0.2) * (1 + 9 * np.eye(4)[:, :1]),
    "a trend": RNG.normal(size=(4, 300)) + np.linspace(0, 2, 300),
}


@pytest.mark.parametrize("case", CHAINS)
def test_numbers_are_those_of_arviz(case):
    x = CHAINS[case]
    assert_allclose(rhat(x[:, :, None])[0], arviz_stats.rhat(x), atol=1e-3)
    bulk, tail = (arviz_stats.ess(x, method=m, prob=p) for m, p in [("bulk", None), ("tail", 0.05)])
    assert_allclose(ess_bulk(x[:, :, None])[0], bulk, rtol=0.1)
    assert_allclose(ess_tail(x[:, :, None])[0], tail, rtol=0.1)


def test_several_parameters_at_once_are_each_alone():
    x = np.stack([CHAINS[f"rho {rho}"] for rho in (0.0, 0.3, 0.9)], axis=2)
    for function in (rhat, ess_bulk, ess_tail):
        alone = [function(x[:, :, [k]])[0] for k in range(3)]
        assert_array_equal(function(x), alone)


def test_one_chain_is_compared_with_itself():
    still = autoregressive(np.random.default_rng(1), 1, 400, 0.2)
    trend = still + np.linspace(0, 5, 400)
    assert rhat(still[:, :, None])[0] < 1.02
    assert rhat(trend[:, :, None])[0] > 1.5


def test_monotone_transformations_change_nothing_in_the_ranks():
    x = CHAINS["rho 0.3"][:, :, None]
    assert_allclose(ess_bulk(np.exp(x)), ess_bulk(x))
    assert_allclose(ess_tail(np.exp(x)), ess_tail(x))


def test_a_constant_has_converged():
    x = np.full((4, 100, 2), 3.7)
    assert_array_equal(rhat(x), [1.0, 1.0])
    assert_array_equal(ess_bulk(x), [400.0, 400.0])
    assert_array_equal(ess_tail(x), [400.0, 400.0])


@pytest.mark.parametrize("n_draws", [16, 20, 64, 100])
def test_chains_stuck_at_different_constants_have_not(n_draws):
    x = np.repeat(np.array([0.0, 1.0])[:, None, None], n_draws, axis=1)
    assert rhat(x)[0] > 100
    assert ess_bulk(x)[0] < 5


@pytest.mark.parametrize("n_draws", [1, 2, 7])
def test_too_few_draws_say_nothing(n_draws):
    x = np.random.default_rng(0).normal(size=(4, n_draws, 1))
    assert rhat(x)[0] == np.inf
    assert ess_bulk(x)[0] == ess_tail(x)[0] == 0


# ---- what is said of them -----------------------------------------------------------------------

GOOD = {
    "rhat": {"weights": 1.002, "noise_sd": 1.0},
    "ess_bulk": {"weights": 900.0, "noise_sd": 1200.0},
    "ess_tail": {"weights": 800.0, "noise_sd": 1000.0},
    "n_chains": 4,
    "n_draws": 500,
    "n_divergent": 0,
    "n_deep": 0,
    "steps_per_draw": 7.25,
}

PROBLEMS = {
    "chains": (
        {"rhat": {"weights": 1.002, "noise_sd": 1.0213}},
        "the chains disagree about noise_sd (R-hat 1.021, should be below 1.01): draw more, "
        "with inference=NUTS(draws=1000, warmup=1000)",
    ),
    "bulk": (
        {"ess_bulk": {"weights": 150.4, "noise_sd": 1200.0}},
        "the 2000 draws are worth only 150 independent ones, should be 400: draw more, "
        "with inference=NUTS(draws=1500)",
    ),
    "tail": (
        {"ess_tail": {"weights": 399.0, "noise_sd": 1200.0}},
        "worth only 399 independent ones, should be 400: draw more, "
        "with inference=NUTS(draws=1000)",
    ),
    "nothing": (
        {"ess_tail": {"weights": 0.0, "noise_sd": 0.0}, "n_draws": 5},
        "the 20 draws are worth only 0 independent ones, should be 400: draw more, "
        "with inference=NUTS(draws=2000)",
    ),
    "divergent": (
        {"n_divergent": 3},
        "3 of 2000 trajectories diverged, so a part of the posterior may be missed: take smaller "
        "steps, with inference=NUTS(target_accept=",
    ),
    "deep": (
        {"n_deep": 101},
        "101 of 2000 trajectories were cut at 1024 steps, which is slow: take fewer landmarks or "
        "a smaller bandwidth",
    ),
}


@pytest.mark.parametrize(
    ("values", "n_effective", "enough"),
    [
        ({}, 400, True),
        ({}, 800, True),
        ({}, 801, False),
        ({"ess_bulk": {"weights": 399.0, "noise_sd": 1200.0}}, 1, False),  # would be warned of
        ({"rhat": {"weights": 1.0101, "noise_sd": 1.0}}, 400, False),
    ],
)
def test_enough_draws_are_as_many_as_asked_for_and_give_no_warning(values, n_effective, enough):
    assert Diagnostics(**(GOOD | values)).are_enough(n_effective) == enough


def test_good_draws_have_no_problems():
    diagnostics = Diagnostics(**GOOD)
    assert diagnostics.problems() == []
    assert diagnostics.min_ess == 800
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_if_bad(diagnostics)


@pytest.mark.parametrize("case", PROBLEMS)
def test_every_problem_comes_with_its_remedy(case):
    values, message = PROBLEMS[case]
    (found,) = Diagnostics(**(GOOD | values)).problems()
    assert message in found
    assert ": " in found and re.search("draw more|take", found)
    suggested = re.search(r"NUTS\(.*\)", found)
    if suggested:
        settings = eval(suggested.group(), {"NUTS": NUTS})  # it can be pasted
        assert settings != NUTS(draws=GOOD["n_draws"])


def test_a_few_divergent_or_deep_trajectories_are_let_pass():
    assert Diagnostics(**(GOOD | {"n_divergent": 2, "n_deep": 100})).problems() == []


def test_one_warning_says_everything():
    bad = GOOD
    for values, _ in PROBLEMS.values():
        bad = bad | values
    diagnostics = Diagnostics(**bad)
    with pytest.warns(BagwiseWarning) as caught:
        warn_if_bad(diagnostics)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("the draws should not be trusted yet: the chains disagree")
    assert all(problem in message for problem in diagnostics.problems())
    assert len(diagnostics.problems()) == 4


def test_shown_as_a_table():
    lines = str(Diagnostics(**GOOD)).splitlines()
    assert lines == [
        "           R-hat  bulk ESS  tail ESS",
        "weights    1.002       900       800",
        "noise_sd   1.000      1200      1000",
        "4 chains of 500 draws, 0 divergent, 7.2 leapfrog steps per draw",
    ]


def test_the_worst_entry_of_a_parameter_counts():
    good, bad = CHAINS["rho 0.0"], CHAINS["rho 0.97"]
    draws = {"weights": np.stack([good, bad], axis=2), "noise_sd": good, "none": np.zeros((4, 0))}
    n_steps = np.full((4, 500), 7)
    n_steps[0, :3] = 1023
    diverging = np.zeros((4, 500), dtype=bool)
    diverging[1, :2] = True
    found = diagnose(draws, Trajectories(diverging, n_steps, np.zeros((4, 500)), np.ones(4)))
    assert list(found.rhat) == ["weights", "noise_sd"]
    assert found.rhat["weights"] == rhat(bad[:, :, None])[0]
    assert found.ess_bulk["weights"] == ess_bulk(bad[:, :, None])[0]
    assert found.ess_tail["noise_sd"] == ess_tail(good[:, :, None])[0]
    assert (found.n_chains, found.n_draws, found.n_divergent, found.n_deep) == (4, 500, 2, 3)
    assert_allclose(found.steps_per_draw, n_steps.mean())


# ---- of a fitted model --------------------------------------------------------------------------

SMALL = KernelEmbedding(4, bandwidth=1.0)


def fit(inference):
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 30)
    bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 30] * 15, strict=True)]
    return BDRRegressor(SMALL, inference=inference, priors=Priors(noise=0.5)).fit(bags, y)


@pytest.fixture(scope="module")
def sampled():
    with pytest.warns(BagwiseWarning, match="the draws should not be trusted yet"):
        return fit(NUTS(chains=2, draws=30, warmup=100, progress=False))


def test_a_fit_keeps_the_diagnostics_of_its_draws(sampled):
    found = sampled.diagnostics_
    assert list(found.rhat) == list(found.ess_bulk) == list(found.ess_tail) == list(sampled.draws_)
    assert (found.n_chains, found.n_draws) == (2, 30)
    noise = sampled.draws_["noise_sd"][:, :, None]
    assert found.ess_bulk["noise_sd"] == ess_bulk(noise)[0]
    assert str(found).startswith(" ") and "2 chains of 30 draws" in str(found)
    assert fit("laplace").diagnostics_ is None


def test_export_to_arviz(sampled):
    exported = sampled.to_arviz()
    assert set(exported.children) == {"posterior", "sample_stats"}
    assert dict(exported.posterior["weights"].sizes) == {
        "chain": 2,
        "draw": 30,
        "weights_dim_0": 4,
    }
    for name in ("intercept", "noise_sd", "prior_scale", "weight_sd"):
        assert dict(exported.posterior[name].sizes) == {"chain": 2, "draw": 30}
        assert_array_equal(exported.posterior[name].values, sampled.draws_[name])
    stats = exported.sample_stats
    assert {"diverging", "n_steps", "tree_depth", "energy", "step_size"} <= set(stats)
    assert all(dict(stats[name].sizes) == {"chain": 2, "draw": 30} for name in stats)
    assert stats["diverging"].dtype == bool
    assert (2 ** (stats["tree_depth"] - 1) <= stats["n_steps"]).all()
    assert (stats["n_steps"] < 2 ** stats["tree_depth"]).all()
    assert np.isfinite(stats["energy"]).all() and (stats["step_size"] > 0).all()
    table = arviz_stats.summary(exported, var_names="noise_sd", round_to="none")
    assert table.loc["noise_sd", "mean"] == pytest.approx(sampled.draws_["noise_sd"].mean())


@pytest.mark.parametrize(("inference", "n_draws"), [("laplace", 1000), ("map", 1)])
def test_export_of_what_was_not_sampled_has_no_sampler(inference, n_draws):
    exported = fit(inference).to_arviz()
    assert set(exported.children) == {"posterior"}
    assert exported.posterior["noise_sd"].shape == (1, n_draws)


def test_export_without_arviz_says_what_to_install(sampled, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz_base", None)
    with pytest.raises(BagwiseError, match=r"not installed; expected .*Run pip install 'bagwise\["):
        sampled.to_arviz()
