"""The posterior of BDRRegressor as one would write it in NumPyro from the paper, bag by bag.

What the benchmark compares the library's sampler with, and an oracle for its density: nothing here
comes from :mod:`bagwise.embedding` or :mod:`bagwise.inference`; the scales of priors are given.

Bags are taken one after the other, by ``lax.map``. Kernels of jaxlib 0.10 that factorise a whole
batch of matrices share their threads with the program that calls them, and on two cores two of them
were seen to wait for each other for ever. With one BLAS thread this is also the faster way.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from jax.scipy.linalg import cho_solve, solve_triangular
from jaxtyping import Bool, Float64, Int
from numpyro.infer.hmc import hmc
from numpyro.infer.util import ParamInfo, potential_energy

from benchmarks.bench_report import interleaved

Data = dict[str, Any]
Sites = dict[str, Any]
Potential = Callable[[Data, Any], jax.Array]
Moments = Callable[..., tuple[jax.Array, jax.Array]]

SCALES = ("sigma", "rho", "eta")

# Half the width of NumPyro's starts, which are uniform in the unconstrained parameters.
START_RADIUS = 2.0

# Transitions of a chain per call of compiled code.
RUN_LENGTH = 50


def with_covariance(
    R: jax.Array, A: jax.Array, gap: jax.Array, alpha: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return α·(M − m0) and α^T C α of one bag, with M = m0 + R A^-1 (μ̂ − m0), C = R − R A^-1 R."""
    solved = cho_solve((jnp.linalg.cholesky(A), True), R)
    C = R - R @ solved
    return alpha @ (solved.T @ gap), alpha @ C @ alpha


def with_two_solves(
    R: jax.Array, A: jax.Array, gap: jax.Array, alpha: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return the same without forming C: the thrifty user's way."""
    pull = R @ alpha
    sides = jnp.stack([gap, pull], axis=1)
    half = solve_triangular(jnp.linalg.cholesky(A), sides, lower=True)
    return half[:, 0] @ half[:, 1], alpha @ pull - half[:, 1] @ half[:, 1]


def model(data: Data, moments: Moments = with_covariance, whitened: bool = False) -> None:
    """Write the posterior down as a NumPyro model.

    σ, ρ, η ~ HalfNormal,  b ~ N(0, s²),  α ~ N(0, ρ² K^-1)
    y_i ~ N(α·(M_i − m0) + b, α^T C_i α + σ²),  R = ηK,  A_i = R + Σ/N_i

    Parameters
    ----------
    data : "mean" (n, d), μ̂; "sizes" (n,), N; "labels" (n,), y; "within_cov" (d, d), Σ; "gram"
        (d, d), K; the scales of the priors, by site; "least_noise", added to σ²
    whitened : whether α = ρ L^-T ζ with K = L L^T and ζ ~ N(0, I) takes the place of α: the usual
        advice where a prior of many parameters has a scale of its own
    """
    sigma, rho, eta = (numpyro.sample(name, dist.HalfNormal(data[name])) for name in SCALES)
    b = numpyro.sample("b", dist.Normal(0.0, data["b"]))
    if whitened:
        d = data["gram"].shape[0]
        zeta = numpyro.sample("zeta", dist.Normal(0.0, 1.0).expand((d,)).to_event(1))
        root = jnp.linalg.cholesky(data["gram"])
        alpha = rho * solve_triangular(root, zeta, lower=True, trans=1)
    else:
        normal = dist.MultivariateNormal(0.0, precision_matrix=data["gram"] / rho**2)
        alpha = numpyro.sample("alpha", normal)
    R, gaps = eta * data["gram"], data["mean"] - data["mean"].mean(axis=0)

    def of_bag(bag: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        gap, size = bag
        return moments(R, R + data["within_cov"] / size, gap, alpha)

    mean, var = jax.lax.map(of_bag, (gaps, data["sizes"]))
    sd = jnp.sqrt(var + sigma**2 + data["least_noise"])
    numpyro.sample("y", dist.Normal(mean + b, sd), obs=data["labels"])


def potential(data: Data, u: Sites, moments: Moments = with_covariance) -> jax.Array:
    """Return −log p(u | y): of α or ζ, b and the logs of σ, ρ, η, as NumPyro has the sites."""
    written = partial(model, moments=moments, whitened="zeta" in u)
    value: jax.Array = potential_energy(written, (data,), {}, u)
    return value


def as_arrays(data: Any) -> Any:
    """Return a tree of arrays as JAX's, in float64."""
    return jax.tree.map(lambda x: jnp.asarray(x, dtype=jnp.float64), data)


class Gradient:
    """A potential and its gradient, compiled once: to be used, and to be timed.

    Several are run with no Python in between. The point moves a little from one to the next, or the
    compiler would keep the first.
    """

    def __init__(self, f: Potential, data: Data) -> None:
        self.potential, self.data = f, data
        self._run = jax.jit(self._several)

    def __call__(self, u: Any) -> tuple[jax.Array, Any]:
        """Return value and gradient at u."""
        value, slope, _ = self._run(self.data, u, 1)
        return value, slope

    def seconds(self, u: Any, steps: int, repeats: int) -> float:
        """Return the seconds of one gradient: the least of several runs, each of so many steps."""
        self._wait(u, 1)  # compiles
        return interleaved([lambda: self._wait(u, steps)], repeats)[0] / steps

    def _wait(self, u: Any, steps: int) -> None:
        self._run(self.data, u, steps)[0].block_until_ready()

    def _several(self, data: Data, u: Any, steps: Any) -> Any:
        def step(_: Any, last: Any) -> Any:
            u = last[2]
            value, slope = jax.value_and_grad(self.potential, argnums=1)(data, u)
            return value, slope, jax.tree.map(lambda x, g: x - 1e-12 * g, u, slope)

        return jax.lax.fori_loop(0, steps, step, (jnp.zeros(()), u, u))


@dataclass(frozen=True, eq=False)
class Chains:
    """Draws by NumPyro's NUTS with its defaults, and what they took.

    Attributes
    ----------
    draws : by site, (c, s, ...)
    diverging, n_steps : (c, s);  warmup_steps : leapfrog steps before the draws, in all
    warmup_seconds, seconds : wall time of the warm-up and of the draws, compilation not counted
    """

    draws: dict[str, np.ndarray]
    diverging: Bool[np.ndarray, "c s"]
    n_steps: Int[np.ndarray, "c s"]
    warmup_steps: int
    warmup_seconds: float
    seconds: float

    def parameters(self, gram: Float64[np.ndarray, "d d"]) -> Float64[np.ndarray, "c s k"]:
        """Return the draws of α, σ, ρ, η and b side by side."""
        columns = [self.draws[name][:, :, None] for name in (*SCALES, "b")]
        if "alpha" in self.draws:
            return np.concatenate([self.draws["alpha"], *columns], axis=2)
        root = np.linalg.inv(np.linalg.cholesky(gram))
        alpha = self.draws["rho"][:, :, None] * (self.draws["zeta"] @ root)
        return np.concatenate([alpha, *columns], axis=2)


def sample(gradient: Gradient, like: Sites, *, chains: int, length: int, n_jobs: int) -> Chains:
    """Run chains of a warm-up and as many draws, n_jobs at once; call under 64-bit precision.

    ``like`` has the sites' shapes. Starts are drawn as NumPyro draws them.
    """
    f, data = gradient.potential, gradient.data
    init, transition = hmc(potential_fn_gen=lambda data: partial(f, data), algo="NUTS")

    def start(seed: int) -> Any:
        uniform = partial(np.random.default_rng(seed).uniform, -START_RADIUS, START_RADIUS)
        u = as_arrays({name: uniform(x.shape) for name, x in like.items()})
        info, key = ParamInfo(u, *gradient(u)), jax.random.key(seed)
        return init(info, num_warmup=length, model_args=(data,), rng_key=key)

    @jax.jit
    def advance(state: Any, data: Data) -> Any:
        def once(state: Any, _: None) -> Any:
            state = transition(state, (data,))
            return state, (state.z, state.diverging, state.num_steps)

        return jax.lax.scan(once, state, None, length=RUN_LENGTH)

    states = [start(seed) for seed in range(chains)]
    compiled = advance.lower(states[0], data).compile()

    def run(state: Any) -> tuple[Any, Any]:
        runs = []
        with jax.enable_x64(True):  # which is set thread by thread
            for _ in range(length // RUN_LENGTH):
                state, part = compiled(state, data)
                runs.append(jax.tree.map(np.asarray, part))
        return state, jax.tree.map(lambda *parts: np.concatenate(parts), *runs)

    with ThreadPoolExecutor(n_jobs) as pool:
        times = [time.perf_counter()]
        after, warmups = zip(*pool.map(run, states), strict=True)
        times.append(time.perf_counter())
        _, runs = zip(*pool.map(run, after), strict=True)
        times.append(time.perf_counter())
    z, diverging, n_steps = jax.tree.map(lambda *parts: np.stack(parts), *runs)
    return Chains(
        draws={name: np.exp(x) if name in SCALES else x for name, x in z.items()},
        diverging=diverging,
        n_steps=n_steps,
        warmup_steps=int(sum(steps.sum() for _, _, steps in warmups)),
        warmup_seconds=times[1] - times[0],
        seconds=times[2] - times[1],
    )
