"""NUTS: chains of draws from the posterior, in parallel, that can be watched and interrupted.

NumPyro's sampler moves each chain. The chains of one fit share compiled code and run in threads,
which leave Python while they sample; every chain advances in short runs, between which progress is
shown and an interrupt is noticed. JAX's precision is set to float64 in those threads only.

How many draws there are is up to the posterior: they are looked at in rounds, until chains agree
and are worth as many independent draws as were asked for. If trajectories run off, what was drawn
so far is warm-up after all, and chains go on with steps half as long. Where labels have hardly any
noise and all bags one size, only the sum of σ² and what bags leave open is known: a ridge, which
bends more sharply in places than steps that are right on average can follow.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache, lru_cache, partial
from typing import Any

import jax
import joblib
import numpy as np
from jaxtyping import Float64
from numpyro.infer.hmc import hmc
from numpyro.infer.util import ParamInfo

from bagwise._utils.work import Progress, one_thread
from bagwise.exceptions import BagwiseWarning
from bagwise.inference.density import Data, Model, potential
from bagwise.inference.diagnostics import MAX_RHAT, MAX_TREE_DEPTH, Diagnostics
from bagwise.inference.draws import Trajectories
from bagwise.inference.settings import NUTS

# Draws between two looks at the clock and at the keyboard.
RUN_LENGTH = 20

# Draws that are not enough grow by as much as seems to be missing, within limits: few draws say
# little of how many more it takes.
LEAST_GROWTH, MOST_GROWTH = 1.25, 2.0

# How often steps are halved when trajectories run off.
MOST_HALVINGS = 3

# −log density that a chain is said to start with: wherever the first trajectory leads is likelier.
NOWHERE = 1e10

# Half the time of a first fit is compiling the sampler; with XLA's older way to write loops it is
# quicker to compile, and as quick to run.
QUICK_TO_COMPILE = {"xla_cpu_use_fusion_emitters": False}

Sampled = tuple[Float64[np.ndarray, "c s j"], Trajectories]


@cache
def _compiler_options() -> dict[str, Any] | None:
    """Return the options, if this version of XLA knows them."""
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=QUICK_TO_COMPILE)(0.0)
    except Exception:  # of what kind depends on the version, too
        return None
    return dict(QUICK_TO_COMPILE)


@lru_cache(maxsize=32)
def _kernel(model: Model, warmup: int, target_accept: float) -> tuple[Callable[..., Any], ...]:
    """Return functions to start and to advance a chain, compiled once per model and settings.

    To start takes no density: through the transport map it is nearly a standard normal, whose
    gradient z the first half step of the first trajectory takes for its own. From there on all is
    exact. To compile the density once more, for one gradient, would take seconds.
    """
    init, step = hmc(potential_fn_gen=lambda data: partial(potential, model, data), algo="NUTS")

    def start(data: Data, z: np.ndarray, seed: int) -> Any:
        place = jax.numpy.asarray(z)
        return init(
            ParamInfo(place, jax.numpy.asarray(NOWHERE), place),
            num_warmup=warmup,
            step_size=0.5,
            adapt_mass_matrix=warmup >= 100,
            target_accept_prob=target_accept,
            max_tree_depth=MAX_TREE_DEPTH,
            model_args=(data,),
            rng_key=jax.random.key(seed),
        )

    def advance(state: Any, data: Data) -> Any:
        def once(state: Any, _: None) -> Any:
            state = step(state, (data,))
            return state, (state.z, state.diverging, state.num_steps, state.energy)

        return jax.lax.scan(once, state, None, length=RUN_LENGTH)

    return start, jax.jit(advance, compiler_options=_compiler_options())


class _Chain:
    """One chain: its state and the runs made so far."""

    def __init__(self, model: Model, settings: NUTS, data: Data, z: np.ndarray, seed: int) -> None:
        self.data = data
        self._start, self._advance = _kernel(model, settings.warmup, settings.target_accept)
        self._seed, self._z = seed, z
        self._state: Any = None
        self.runs: list[tuple[np.ndarray, ...]] = []

    @property
    def n_done(self) -> int:
        """Draws made, warm-up included."""
        return len(self.runs) * RUN_LENGTH

    def run(self) -> None:
        """Make the next few draws."""
        if self._state is None:
            self._state = self._start(self.data, self._z, self._seed)
        self._state, draws = self._advance(self._state, self.data)
        self.runs.append(tuple(np.asarray(part) for part in draws))

    def begin_again(self, n_kept: int) -> None:
        """Halve the step from here on, and forget all but the first draws, those of the warm-up."""
        adapted = self._state.adapt_state
        half = np.asarray(np.asarray(adapted.step_size) / 2.0)  # JAX would round it to float32 here
        shorter = adapted._replace(step_size=half)
        self._state = self._state._replace(adapt_state=shorter)
        del self.runs[n_kept // RUN_LENGTH :]

    def step_size(self) -> float:
        return float(self._state.adapt_state.step_size)


def sample(
    model: Model,
    data: Data,
    starts: Float64[np.ndarray, "c j"],
    settings: NUTS,
    seeds: list[int],
    judge: Callable[[Sampled], Diagnostics] | None = None,
) -> Sampled:
    """Sample exp(−potential(model, data, ·)): draws of z, with one chain from each start.

    Unless the settings say how many draws there are, ``judge`` says after each round how good they
    are, and further ones are made until they are good enough, or as many as there may be. Ctrl-C
    ends the sampling; the draws made so far are kept, with a warning that says how many. If there
    are none yet, the interrupt is passed on. Draws of which too many trajectories ran off are not
    kept: chains go on from where they are with shorter steps.
    """
    with jax.enable_x64(True):
        data = jax.tree.map(jax.numpy.asarray, data)
    chains = [_Chain(model, settings, data, *pair) for pair in zip(starts, seeds, strict=True)]
    adapts = settings.draws is None and judge is not None
    most = settings.max_draws if adapts else settings.fixed_draws
    first = min(settings.min_draws, most) if adapts else most
    planned, title, warmup, halvings = first, "sampling", settings.warmup, 0
    while True:
        total = warmup + planned
        missing = sum(total - chain.n_done for chain in chains)
        # JAX's factorisations are LAPACK's: threads of its own would get in the chains' way.
        with Progress(title, missing, settings.progress) as progress, one_thread("blas"):
            interrupted = _run_in_threads(chains, total, progress, settings)
        found = _gather(chains, warmup, planned, most, interrupted)
        if interrupted or judge is None or not adapts:
            return found
        judged = judge(found)
        if judged.run_off and halvings < MOST_HALVINGS:
            planned, title, halvings = first, "sampling with shorter steps", halvings + 1
            warmup = -(-settings.warmup // RUN_LENGTH) * RUN_LENGTH
            for chain in chains:
                chain.begin_again(warmup)
            continue
        if judged.are_enough(settings.n_effective):
            return found
        if planned == most:
            _warn_of_few(judged, settings)
            return found
        title = f"sampling: {judged.min_ess:.0f} of {settings.n_effective} effective draws"
        planned = min(most, _next_draws(judged, settings.n_effective))


def _next_draws(judged: Diagnostics, n_effective: int) -> int:
    """Return how many draws of each chain may be enough; both R-hat − 1 and 1/ESS go as 1/draws.

    Whole runs, so that none are thrown away.
    """
    missing = n_effective / max(judged.min_ess, 1.0)
    apart = (max(judged.rhat.values()) - 1.0) / (MAX_RHAT - 1.0)
    growth = float(np.clip(max(missing, apart), LEAST_GROWTH, MOST_GROWTH))
    return -int(-judged.n_draws * growth // RUN_LENGTH) * RUN_LENGTH


def _warn_of_few(judged: Diagnostics, settings: NUTS) -> None:
    """Warn that the target was not met, where nothing else is wrong: else that is said later."""
    if judged.problems():
        return
    warnings.warn(
        f"sampling ended after max_draws={settings.max_draws} draws in each of {judged.n_chains} "
        f"chains, which are worth {judged.min_ess:.0f} independent ones of the "
        f"n_effective={settings.n_effective} asked for: allow more, with "
        f"inference=NUTS(n_effective={settings.n_effective}, max_draws={4 * settings.max_draws}).",
        BagwiseWarning,
        stacklevel=2,
    )


def _run_in_threads(chains: list[_Chain], total: int, progress: Progress, settings: NUTS) -> bool:
    """Advance all chains to so many draws, or to an interrupt: then return True."""
    stop = threading.Event()
    n_workers = min(settings.n_jobs or joblib.cpu_count(), len(chains))

    def work(mine: list[_Chain]) -> None:
        with jax.enable_x64(True):
            while not stop.is_set() and any(chain.n_done < total for chain in mine):
                for chain in mine:  # in turn, so that an interrupt finds all equally long
                    if not stop.is_set() and chain.n_done < total:
                        chain.run()
                        progress.advance(RUN_LENGTH)

    with ThreadPoolExecutor(n_workers, "bagwise-chain") as pool:
        jobs = [pool.submit(work, chains[i::n_workers]) for i in range(n_workers)]
        try:
            wait(jobs)
        except KeyboardInterrupt:
            stop.set()
            wait(jobs)
        for job in jobs:
            job.result()
    return stop.is_set()


def _gather(chains: list[_Chain], warmup: int, draws: int, most: int, interrupted: bool) -> Sampled:
    """Return the draws after the warm-up, of each chain as many as all have."""
    kept = min(min(chain.n_done for chain in chains) - warmup, draws)
    if interrupted and kept <= 0:
        raise KeyboardInterrupt("sampling was interrupted during warm-up, before the first draw")
    if interrupted:
        warnings.warn(
            f"sampling was interrupted: {kept} of {most} draws in each of {len(chains)} "
            f"chains were made and are kept, {kept * len(chains)} in all. Fit again for more.",
            BagwiseWarning,
            stacklevel=2,
        )
    span = slice(warmup, warmup + kept)
    parts = [
        [np.concatenate(column)[span] for column in zip(*chain.runs, strict=True)]
        for chain in chains
    ]
    z, diverging, n_steps, energy = (np.stack(part) for part in zip(*parts, strict=True))
    step_size = np.array([chain.step_size() for chain in chains])
    return z, Trajectories(diverging, n_steps, energy, step_size)
