"""The sampler as a user meets it: seeds, threads, interrupts, progress, and other people's JAX."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import bagwise
from bagwise import BagwiseWarning, BDRRegressor, KernelEmbedding
from bagwise.inference import NUTS, nuts
from bagwise.inference.density import Model
from bagwise.inference.diagnostics import diagnose
from bagwise.likelihoods import Gaussian

RNG = np.random.default_rng(0)
Y = RNG.uniform(1, 2, 40)
BAGS = [RNG.normal(0, s, (n, 1)) for s, n in zip(Y, [3, 30] * 20, strict=True)]
SMALL = KernelEmbedding(5, bandwidth=1.0)


def model(**settings):
    settings = {"chains": 2, "draws": 1000, "warmup": 300, "progress": False} | settings
    return BDRRegressor(SMALL, inference=NUTS(**settings))


@pytest.fixture(scope="module")
def fitted():
    return model().fit(BAGS, Y)


def test_draws_come_back_with_the_seed_whatever_the_number_of_threads(fitted):
    again = model(n_jobs=1).fit(BAGS, Y)
    for name, draws in fitted.draws_.items():
        np.testing.assert_array_equal(draws, again.draws_[name])


def test_another_seed_gives_other_draws_of_the_same_posterior(fitted):
    other = model().set_params(random_state=1).fit(BAGS, Y)
    a, b = fitted.draws_["noise_sd"], other.draws_["noise_sd"]
    assert not np.array_equal(a, b)
    assert abs(a.mean() - b.mean()) < 0.3 * a.std()


def test_draws_have_shapes_and_units(fitted):
    assert fitted.draws_["weights"].shape == (2, 1000, 5)
    assert {name: x.shape for name, x in fitted.draws_.items() if name != "weights"} == {
        "intercept": (2, 1000),
        "noise_sd": (2, 1000),
        "prior_scale": (2, 1000),
        "weight_sd": (2, 1000),
    }
    assert fitted.diagnostics_.problems() == []
    larger = model().fit(BAGS, 16 * Y)  # a power of 2: the same digits
    for name in ("weights", "noise_sd"):
        np.testing.assert_allclose(larger.draws_[name], 16 * fitted.draws_[name], rtol=1e-9)


def test_parts_of_the_variance_are_those_of_the_draws(fitted):
    prediction = fitted.predict_dist(BAGS)
    means, variances = prediction.components
    assert len(means) == 2000
    np.testing.assert_allclose(prediction.parts.weights, means.var(axis=0), rtol=1e-10)
    noise = np.mean(fitted.draws_["noise_sd"] ** 2)
    np.testing.assert_allclose(prediction.parts.noise, noise, rtol=1e-6)
    bag = variances.mean(axis=0) - noise
    np.testing.assert_allclose(prediction.parts.bag, bag, rtol=0, atol=1e-6 * bag.max())
    assert prediction.parts.bag[0] > prediction.parts.bag[1]


def test_few_draws_are_said_to_be_few():
    with pytest.warns(
        BagwiseWarning, match=r"should be 200: draw more, with inference=NUTS\(draws"
    ):
        model(draws=20).fit(BAGS, Y)


# ---------------------------------------------------------------- as many draws as it takes


def adaptive(bags=BAGS, y=Y, **settings):
    settings = {"chains": 2, "progress": False} | settings
    return BDRRegressor(SMALL, inference=NUTS(**settings)).fit(bags, y)


@pytest.fixture(scope="module")
def enough():
    """Draws worth 1000, and the titles that progress had meanwhile."""
    titles, make = [], nuts.Progress

    def noted(title, *args):
        titles.append(title)
        return make(title, *args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nuts, "Progress", noted)
        return adaptive(n_effective=1000), titles


def test_sampling_goes_on_until_draws_are_worth_what_was_asked_for(enough):
    few, many = adaptive(n_effective=200), enough[0]
    assert 200 <= few.diagnostics_.min_ess and few.diagnostics_.problems() == []
    assert 1000 <= many.diagnostics_.min_ess < 3000
    n_few, n_many = few.diagnostics_.n_draws, many.diagnostics_.n_draws
    assert n_few < n_many <= NUTS().max_draws
    assert many.draws_["noise_sd"].shape == many.trajectories_.n_steps.shape == (2, n_many)
    for name, draws in few.draws_.items():  # only how many there are differs
        np.testing.assert_array_equal(draws, many.draws_[name][:, :n_few])


def test_draws_that_are_enough_by_themselves_come_back_with_the_seed(enough):
    again = adaptive(n_effective=1000, n_jobs=1)
    np.testing.assert_array_equal(enough[0].draws_["weights"], again.draws_["weights"])


def test_what_is_hard_to_sample_gets_more_draws(enough):
    hard = enough[0].diagnostics_  # 40 bags: scales are hardly known
    rng = np.random.default_rng(1)
    y = rng.uniform(1, 2, 400)
    bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [3, 10, 30, 100] * 100, strict=True)]
    noisy = y + rng.normal(0, 0.2, 400)
    easy = adaptive(bags, noisy, n_effective=1000).diagnostics_
    assert min(easy.min_ess, hard.min_ess) >= 1000 and hard.n_draws > 1.5 * easy.n_draws


def test_at_most_so_many_draws_are_made_and_it_is_said_that_they_are_few():
    with pytest.warns(BagwiseWarning, match="should be 200: draw more") as caught:
        few = adaptive(max_draws=40)
    assert few.diagnostics_.n_draws == 40 and len(caught) == 1
    told = (
        r"after max_draws=1500 draws in each of 4 chains, which are worth \d+ independent ones of "
        r"the n_effective=50000 asked for: allow more, with "
        r"inference=NUTS\(n_effective=50000, max_draws=6000\)"
    )
    with pytest.warns(BagwiseWarning, match=told) as caught:
        good = adaptive(chains=4, n_effective=50_000, max_draws=1500)
    assert good.diagnostics_.problems() == [] and len(caught) == 1


def test_progress_shows_effective_draws(enough):
    titles = enough[1]
    assert titles[0] == "sampling" and len(titles) > 1
    told = [re.fullmatch(r"sampling: (\d+) of 1000 effective draws", each) for each in titles[1:]]
    counts = [int(each[1]) for each in told]
    assert counts == sorted(counts) and counts[-1] <= 1000


def test_classes_of_different_difficulty_have_as_many_draws():
    rng = np.random.default_rng(3)
    y = rng.integers(3, size=60)
    bags = [rng.normal([0.0, 0.1, 4.0][k], 1.0, (6, 1)) for k in y]  # the last one is clear
    settings = NUTS(chains=2, warmup=150, n_effective=200, progress=False)
    fitted = bagwise.BDRClassifier(SMALL, inference=settings).fit(bags, y)
    n = fitted.diagnostics_.n_draws
    assert fitted.diagnostics_.problems() == []
    assert fitted.draws_["weights"].shape == (2, n, 3, 5)
    assert fitted.trajectories_.n_steps.shape == (2, n)
    assert np.isfinite(fitted.predict_proba(bags)).all()


# ---------------------------------------------------------------- trajectories that run off


def funnel(model, data, z):
    """−log density of z_0 normal and z_1 of standard deviation e^(z_0): steep where z_0 is low."""
    return 0.5 * z[0] ** 2 + z[0] + 0.5 * (z[1] * jax.numpy.exp(-z[0])) ** 2 + 0.0 * data["none"]


@pytest.fixture
def in_funnel(monkeypatch):
    """Return a function that samples the funnel, and what its draws are judged to be."""
    monkeypatch.setattr(nuts, "potential", funnel)

    def sampled(**settings):
        judged = []

        def judge(found):
            judged.append(diagnose({"low": found[0][..., 0]}, found[1]))
            return judged[-1]

        # With settings that no other test has: none takes this compiled density for its own.
        settings = NUTS(warmup=150, target_accept=0.801, progress=False, **settings)
        starts = np.random.default_rng(0).normal(size=(4, 2))
        model, data = Model(Gaussian(), False, False), {"none": np.zeros(())}
        found = nuts.sample(model, data, starts, settings, [1, 2, 3, 4], judge)
        return found, judged or [judge(found)]

    return sampled


def test_where_trajectories_run_off_steps_are_halved_and_draws_begin_anew(in_funnel):
    first, (fixed,) = in_funnel(draws=NUTS().min_draws)
    assert fixed.run_off and "take smaller steps" in " ".join(fixed.problems())
    found, judged = in_funnel()
    n_off = sum(each.run_off for each in judged)
    assert 1 <= n_off <= nuts.MOST_HALVINGS and not judged[-1].run_off
    assert judged[0].n_divergent >= fixed.n_divergent  # 150 is no whole number of runs
    np.testing.assert_allclose(found[1].step_size, first[1].step_size / 2**n_off, rtol=1e-12)
    assert judged[-1].min_ess >= 400 and found[0].shape[1] == judged[-1].n_draws
    z0, z1 = found[0].reshape(-1, 2).T
    assert abs(z0.mean()) < 0.15 and abs(z0.std() - 1.0) < 0.1
    ratio = z1 / np.exp(z0)
    assert abs(ratio.mean()) < 0.15 and abs(ratio.std() - 1.0) < 0.1


def test_steps_are_not_halved_for_ever(in_funnel, monkeypatch):
    monkeypatch.setattr(nuts, "MOST_HALVINGS", 1)
    monkeypatch.setattr("bagwise.inference.diagnostics.MAX_DIVERGENT", -1.0)
    _, judged = in_funnel(n_effective=1, max_draws=300)
    n_draws = [each.n_draws for each in judged]
    assert n_draws[:2] == [NUTS().min_draws] * 2 and all(n == 300 for n in n_draws[2:])


@pytest.mark.long  # 15 seconds of CPU each
@pytest.mark.parametrize("seed", [0, 2])
def test_labels_without_noise_and_bags_of_one_size_are_sampled_without_a_warning(seed):
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, 400)
    fitted = BDRRegressor().fit([rng.gamma(3 * mean, 1.0, (100, 2)) for mean in y], y)
    assert fitted.diagnostics_.problems() == []


# ---------------------------------------------------------------- interrupts


def interrupt_after(monkeypatch, n_draws):
    """Make the waiting thread think that Ctrl-C was pressed once a chain has so many draws."""
    chains = []
    make, wait = nuts._Chain, nuts.wait

    def remembering(*args):
        chains.append(make(*args))
        return chains[-1]

    def interrupted(jobs):
        if not chains or chains[0] is None:
            return wait(jobs)
        while min(chain.n_done for chain in chains) < n_draws:
            if all(job.done() for job in jobs):
                return wait(jobs)  # of this round
            time.sleep(0.001)
        chains[:] = [None]
        raise KeyboardInterrupt

    monkeypatch.setattr(nuts, "_Chain", remembering)
    monkeypatch.setattr(nuts, "wait", interrupted)


def test_an_interrupt_keeps_the_draws_made_so_far(monkeypatch, fitted):
    interrupt_after(monkeypatch, 360)
    with pytest.warns(BagwiseWarning) as caught:
        some = model(draws=400_000).fit(BAGS, Y)
    (said,) = [str(w.message) for w in caught if "interrupted" in str(w.message)]
    n_chains, n_kept = some.draws_["noise_sd"].shape
    assert n_chains == 2 and 60 <= n_kept < 400_000
    assert f"{n_kept} of 400000 draws in each of 2 chains" in said
    np.testing.assert_array_equal(
        some.draws_["noise_sd"][:, :60], fitted.draws_["noise_sd"][:, :60]
    )
    assert np.isfinite(some.predict(BAGS)).all()


def test_an_interrupt_of_a_later_round_keeps_all_draws(monkeypatch):
    interrupt_after(monkeypatch, 640)
    with pytest.warns(BagwiseWarning) as caught:
        some = adaptive(n_effective=10**6, max_draws=400_000)
    (said,) = [str(w.message) for w in caught if "interrupted" in str(w.message)]
    n_kept = some.draws_["noise_sd"].shape[1]
    assert n_kept >= 340 and f"{n_kept} of 400000 draws in each of 2 chains" in said


def test_an_interrupt_before_the_first_draw_is_passed_on(monkeypatch):
    interrupt_after(monkeypatch, 20)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        model(draws=400_000, warmup=100_000).fit(BAGS, Y)


SCRIPT = """
import sys, warnings
import numpy as np
from bagwise import BDRRegressor, KernelEmbedding
from bagwise.inference import NUTS, nuts
from bagwise.inference.density import Model
from bagwise.inference.diagnostics import diagnose
from bagwise.likelihoods import Gaussian

run, done = nuts._Chain.run, {}

def telling(chain):  # once both chains have as many draws: one may wait for the other
    before = min(done.values()) if len(done) == 2 else 0
    run(chain)
    done[id(chain)] = chain.n_done
    if len(done) == 2 and before < 400 <= min(done.values()):
        print("drawing", flush=True)

nuts._Chain.run = telling
rng = np.random.default_rng(0)
y = rng.uniform(1, 2, 40)
bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [3, 30] * 20)]
settings = NUTS(chains=2, draws=1_000_000, warmup=100)
fitted = BDRRegressor(KernelEmbedding(5, bandwidth=1.0), inference=settings).fit(bags, y)
print("kept", fitted.draws_["noise_sd"].shape[1], flush=True)
"""


@pytest.mark.slow
def test_control_c_in_a_terminals_program_keeps_draws_and_logs_hold_no_progress_bar():
    source = str(Path(bagwise.__file__).parents[1])
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "drawing\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert int(out.split()[-1]) >= 100
    assert "sampling was interrupted" in err
    assert "━" not in err and "%" not in err and "\r" not in err


# ---------------------------------------------------------------- the user's own JAX


def test_jax_settings_are_as_they_were(fitted):
    assert not jax.config.jax_enable_x64
    assert jax.numpy.ones(3).dtype == np.float32
    assert fitted.draws_["weights"].dtype == np.float64


def test_a_user_in_double_precision_gets_the_same_draws(fitted):
    with jax.enable_x64(True):
        again = model().fit(BAGS, Y)
    np.testing.assert_array_equal(again.draws_["weights"], fitted.draws_["weights"])


def test_errors_in_a_chain_reach_the_user(monkeypatch):
    def broken(self):
        raise RuntimeError("no luck")

    monkeypatch.setattr(nuts._Chain, "run", broken)
    with pytest.raises(RuntimeError, match="no luck"):
        model().fit(BAGS, Y)
