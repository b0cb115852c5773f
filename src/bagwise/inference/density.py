"""The posterior density of z in JAX: the shrinkage model seen through its transport map.

The same model as :mod:`bagwise.inference.shrinkage`, for automatic differentiation inside NUTS and
for the variational approximation. Shrinkage, likelihoods and the transport map are the lines that
NumPy runs too; only how bags are put into blocks is its own. Nothing but this module and
:mod:`.nuts` imports JAX.

A bag's shrinkage depends on it only through its size, so bags are sorted by size and cut into
blocks with few distinct sizes each; then ξ is one product per block and an evaluation costs
O(n d), without a division or a scattered sum per bag and direction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr

from bagwise._utils.arrays import ArrayLibrary
from bagwise.embedding.posterior import left_over, shrunk
from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage import LEAST_NOISE, ShrinkageProblem
from bagwise.inference.transport import Transport, carry
from bagwise.likelihoods.base import Likelihood

# Distinct sizes in a block: more waste products, fewer waste padding.
SIZES_PER_BLOCK = 12

# Rows z that are evaluated at once, and numbers that a step may hold for all of them: 4 MB, as more
# would not stay near the processor.
MOST_ROWS = 256
MOST_HELD = 2**19

Data = dict[str, Any]


@dataclass(frozen=True)
class Model:
    """What decides the code, not the data, of a density: each is compiled on its own."""

    likelihood: Likelihood
    rigid: bool
    shrinks: bool


def _solve(factor: jax.Array, rhs: jax.Array, lower: bool) -> jax.Array:
    return solve_triangular(factor, rhs[..., None], lower=lower)[..., 0]


LIBRARY = ArrayLibrary(jnp, log_ndtr, _solve)


def prepare(problem: ShrinkageProblem, priors: ScalePriors, transport: Transport) -> Data:
    """Return everything the density needs as a tree of arrays, so that fits of a shape share code.

    Sizes not of the problem but of its blocks: (b, l, ·) for bags, (b, s) for distinct sizes.
    """
    start = problem.start_embedding
    t, model = start.t, start.model
    rows, size_rows = _blocks(problem.size_of, len(problem.sizes))
    real = rows >= 0
    place = np.maximum(rows, 0)
    which = problem.size_of[place][:, :, None] == size_rows[:, None, :]
    return {
        "t": np.where(real[:, :, None], t[place], 0.0),
        "labels": problem.labels[place],
        "effects": problem.effects[place],
        "sample_weight": np.where(real, problem.sample_weight[place], 0.0),
        "which": which.astype(np.float64),
        "sizes": problem.sizes[np.maximum(size_rows, 0)],
        "spectrum": model.spectrum,
        "function_map": model.function_map,
        "prior": priors.scale,
        "transport": {
            field.name: np.asarray(getattr(transport, field.name)) for field in fields(transport)
        },
    }


def _blocks(size_of: np.ndarray, n_sizes: int) -> tuple[np.ndarray, np.ndarray]:
    """Cut bags, sorted by size, into blocks: rows (b, l) and their distinct sizes (b, s); −1 pads.

    With few distinct sizes there is one block. Otherwise blocks are of about equal length, and of
    at most SIZES_PER_BLOCK sizes.
    """
    order = np.argsort(size_of, kind="stable")
    if n_sizes <= SIZES_PER_BLOCK:
        return order[None, :], np.arange(n_sizes)[None, :]
    length = max(64, -(-len(order) * SIZES_PER_BLOCK // n_sizes))
    pieces: list[list[int]] = [[]]
    held: set[int] = set()
    for bag in order.tolist():
        size = int(size_of[bag])
        if len(pieces[-1]) == length or (len(held) == SIZES_PER_BLOCK and size not in held):
            pieces.append([])
            held = set()
        pieces[-1].append(bag)
        held.add(size)
    rows = np.full((len(pieces), max(map(len, pieces))), -1)
    sizes = np.full((len(pieces), SIZES_PER_BLOCK), -1)
    for b, piece in enumerate(pieces):
        rows[b, : len(piece)] = piece
        distinct = np.unique(size_of[piece])
        sizes[b, : len(distinct)] = distinct
    return rows, sizes


def log_likelihood(
    model: Model, data: Data, w: jax.Array, effects: jax.Array, x: jax.Array
) -> jax.Array:
    """Return Σ_i weight_i log p(y_i | ξ_i, ν_i), up to a constant; x holds the free of σ, η, ρ."""
    g = data["function_map"] @ w
    mean, var = data["t"] @ g, jnp.zeros(data["labels"].shape)
    if model.shrinks:
        eta, spectrum = x[-2], data["spectrum"]
        seen = eta * data["sizes"][:, :, None]
        mean = jnp.einsum("bld,bsd->bls", data["t"], shrunk(seen, spectrum) * g)
        mean = jnp.sum(mean * data["which"], axis=2)
        var = jnp.einsum("bls,bs->bl", data["which"], left_over(seen, eta, spectrum) @ g**2)
    fixed = model.likelihood.fixed_noise
    var = var + (x[0] ** 2 + LEAST_NOISE if fixed is None else fixed)
    mean = mean + data["effects"] @ effects
    told = model.likelihood.log_prob(data["labels"], mean, var, LIBRARY)
    return jnp.sum(data["sample_weight"] * told)


def potential(model: Model, data: Data, z: jax.Array) -> jax.Array:
    """Return −log p(z | y), up to a constant."""
    v, sd, x, log_jacobian = carry(data["transport"], z, rigid=model.rigid, library=LIBRARY)
    q = data["function_map"].shape[1]
    log_prior = -0.5 * jnp.sum((v / sd) ** 2) - jnp.sum(jnp.log(sd))
    log_prior -= 0.5 * jnp.sum((x / data["prior"]) ** 2)
    told = log_likelihood(model, data, v[:q], v[q:], x)
    return -(told + log_prior + log_jacobian)


class Potential:
    """The potential and its gradient at many z, for NumPy; compiled for one number of rows."""

    def __init__(self, model: Model, data: Data) -> None:
        held = max(data["which"].size, data["transport"]["gram"].size)
        self._rows = min(MOST_ROWS, max(1, MOST_HELD // held))
        self._compiled = _at_rows(model)
        with jax.enable_x64(True):
            self._data = jax.tree.map(jnp.asarray, data)

    def __call__(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return −log p(z | y) (m,), up to a constant, and its gradients (m, i), for z (m, i)."""
        blocks = []
        with jax.enable_x64(True):  # in this thread only
            for start in range(0, len(z), self._rows):
                block = np.zeros((self._rows, z.shape[1]))
                part = z[start : start + self._rows]
                block[: len(part)] = part
                blocks.append(self._compiled(self._data, block))
            values, slopes = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        return values[: len(z)], slopes[: len(z)]


@lru_cache(maxsize=32)
def _at_rows(model: Model) -> Callable[..., Any]:
    """Return (data, z) ↦ values and gradients, compiled once per model and shapes."""
    one = jax.value_and_grad(partial(potential, model), argnums=1)
    return jax.jit(jax.vmap(one, (None, 0)))
