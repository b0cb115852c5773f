"""The sampler as a user meets it: seeds, threads, interrupts, progress, and other people's JAX."""

import os
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


def test_an_interrupt_before_the_first_draw_is_passed_on(monkeypatch):
    interrupt_after(monkeypatch, 20)
    with pytest.raises(KeyboardInterrupt, match="before the first draw"):
        model(draws=400_000, warmup=100_000).fit(BAGS, Y)


SCRIPT = """
import sys, warnings
import numpy as np
from bagwise import BDRRegressor, KernelEmbedding
from bagwise.inference import NUTS, nuts

run = nuts._Chain.run

def telling(chain):
    run(chain)
    if chain.n_done == 400:
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
