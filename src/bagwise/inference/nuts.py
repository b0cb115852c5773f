"""NUTS: chains of draws from the posterior, in parallel, that can be watched and interrupted.

NumPyro's sampler moves each chain. The chains of one fit share compiled code and run in threads,
which leave Python while they sample; every chain advances in short runs, between which progress is
shown and an interrupt is noticed. JAX's precision is set to float64 in those threads only.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache, partial
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
from bagwise.inference.diagnostics import MAX_TREE_DEPTH
from bagwise.inference.draws import Trajectories
from bagwise.inference.settings import NUTS

# Draws between two looks at the clock and at the keyboard.
RUN_LENGTH = 20

# How many times the draws asked for there may be, where they are not enough.
TIMES = 4

Sampled = tuple[Float64[np.ndarray, "c s j"], Trajectories]


@lru_cache(maxsize=32)
def _kernel(model: Model, settings: NUTS) -> tuple[Callable[..., Any], ...]:
    """Return functions to start and to advance a chain, compiled once per model and settings."""
    init, step = hmc(potential_fn_gen=lambda data: partial(potential, model, data), algo="NUTS")
    value_and_grad = jax.jit(jax.value_and_grad(partial(potential, model), argnums=1))

    def start(data: Data, z: np.ndarray, seed: int) -> Any:
        value, gradient = value_and_grad(data, z)
        return init(
            ParamInfo(jax.numpy.asarray(z), value, gradient),
            num_warmup=settings.warmup,
            step_size=0.5,
            adapt_mass_matrix=settings.warmup >= 100,
            target_accept_prob=settings.target_accept,
            max_tree_depth=MAX_TREE_DEPTH,
            model_args=(data,),
            rng_key=jax.random.key(seed),
        )

    @jax.jit
    def advance(state: Any, data: Data) -> Any:
        def once(state: Any, _: None) -> Any:
            state = step(state, (data,))
            return state, (state.z, state.diverging, state.num_steps, state.energy)

        return jax.lax.scan(once, state, None, length=RUN_LENGTH)

    return start, advance


class _Chain:
    """One chain: its state and the runs made so far."""

    def __init__(self, model: Model, settings: NUTS, data: Data, z: np.ndarray, seed: int) -> None:
        self.data = data
        self._start, self._advance = _kernel(model, settings)
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

    def step_size(self) -> float:
        return float(self._state.adapt_state.step_size)


def sample(
    model: Model,
    data: Data,
    starts: Float64[np.ndarray, "c j"],
    settings: NUTS,
    seeds: list[int],
    enough: Callable[[Sampled], bool] | None = None,
) -> Sampled:
    """Sample exp(−potential(model, data, ·)): draws of z, with one chain from each start.

    If somebody says whether they are enough and they are not, as many again are drawn, some times.
    Ctrl-C ends the sampling; the draws made so far are kept, with a warning that says how many. If
    there are none yet, the interrupt is passed on.
    """
    with jax.enable_x64(True):
        data = jax.tree.map(jax.numpy.asarray, data)
    chains = [_Chain(model, settings, data, *pair) for pair in zip(starts, seeds, strict=True)]
    target = settings.draws
    while True:
        total = settings.warmup + target
        missing = sum(total - chain.n_done for chain in chains)
        # JAX's factorisations are LAPACK's: threads of its own would get in the chains' way.
        with (
            Progress("sampling", missing, settings.progress) as progress,
            one_thread("blas"),
        ):
            interrupted = _run_in_threads(chains, total, progress, settings)
        found = _gather(chains, settings.warmup, target, interrupted)
        if interrupted or enough is None or target >= TIMES * settings.draws or enough(found):
            return found
        target += settings.draws


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


def _gather(chains: list[_Chain], warmup: int, draws: int, interrupted: bool) -> Sampled:
    kept = min(min(chain.n_done for chain in chains) - warmup, draws)
    if interrupted and kept <= 0:
        raise KeyboardInterrupt("sampling was interrupted during warm-up, before the first draw")
    if interrupted:
        warnings.warn(
            f"sampling was interrupted: {kept} of {draws} draws in each of {len(chains)} "
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
