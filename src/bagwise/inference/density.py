"""The posterior density of z in JAX: the shrinkage model seen through its transport map.

The same model as :mod:`bagwise.inference.shrinkage_objective`, written again for automatic
differentiation inside NUTS; the tests hold the two together. Nothing outside this module and
:mod:`bagwise.inference.nuts` imports JAX.

A bag's shrinkage depends on it only through its size, so bags are sorted by size and cut into
blocks with few distinct sizes each; then ξ is one product per block and an evaluation costs
O(n d), without a division or a scattered sum per bag and direction.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr

from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage_objective import LEAST_NOISE, ShrinkageProblem
from bagwise.inference.transport import Transport

# Distinct sizes in a block: more waste products, fewer waste padding.
SIZES_PER_BLOCK = 12

Data = dict[str, Any]


def prepare(problem: ShrinkageProblem, priors: ScalePriors, transport: Transport) -> Data:
    """Return everything the density needs as a tree of arrays, so that fits of a shape share code.

    Sizes not of the problem but of its blocks: (b, l, ·) for bags, (b, s) for distinct sizes.
    """
    basis, t = problem.family.at(None)
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
        "spectrum": basis.spectrum,
        "mean_map": basis.mean_map,
        "spread_map": basis.spread_map,
        "prior": priors.scale,
        "effect_sd": np.float64(priors.effect_sd),
        "transport": {field.name: getattr(transport, field.name) for field in fields(transport)},
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


def transported(
    data: Data, z: jax.Array
) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return w, γ, x, ω and the log of the Jacobian over ρ^q: Σ log u' − ½ Σ log(1 + eρ²)."""
    m = data["transport"]
    q, r = m["weights"].shape[0], m["effects"].shape[0]
    c = m["center"] + m["scale_factor"] @ z[q + r :]
    middle = jnp.logaddexp(0.0, m["bend"])
    a = m["bend"] + middle * (1.0 + jnp.exp(-m["bend"])) * c
    relative = jnp.where(m["folded"], 1.0 + c, jnp.logaddexp(0.0, a) / middle)
    log_slope = jnp.where(m["folded"], 0.0, -jnp.logaddexp(0.0, -a))
    x, away = m["scales"] * relative, (relative - 1.0) / m["power"]
    rho = x[-1]
    held = 1.0 + m["determined"] * rho**2
    omega = rho * (m["pull"] + m["pull_slope"] @ away) / held + z[:q] / jnp.sqrt(held)
    w = rho * (m["rotation"] @ omega)
    effects = m["effects"] + m["effect_gain"] @ (w - m["weights"])
    effects = effects + m["effect_slope"] @ away + m["effect_factor"] @ z[q : q + r]
    return w, effects, x, omega, jnp.sum(log_slope) - 0.5 * jnp.sum(jnp.log(held))


def log_likelihood(
    kind: str, data: Data, w: jax.Array, effects: jax.Array, x: jax.Array
) -> jax.Array:
    """Return Σ_i weight_i log p(y_i | ξ_i, ν_i), up to a constant; x holds the free of σ, η, ρ."""
    has_noise = kind == "gaussian"
    shrinks = x.shape[0] == (3 if has_noise else 2)
    eta = x[-2] if shrinks else 1.0
    sizes, spectrum = data["sizes"][:, :, None], data["spectrum"]
    slack = 1.0 / (1.0 + sizes * (eta * spectrum))
    h, g = data["mean_map"] @ w, data["spread_map"] @ w
    mean = jnp.einsum("bld,bsd->bls", data["t"], eta * sizes * slack * h)
    mean = jnp.sum(mean * data["which"], axis=2) + data["effects"] @ effects
    var = jnp.einsum("bls,bs->bl", data["which"], slack @ (eta * spectrum * g**2))
    if has_noise:
        var = var + x[0] ** 2 + LEAST_NOISE
        value = -0.5 * (jnp.log(var) + (data["labels"] - mean) ** 2 / var)
    elif kind == "probit":
        value = log_ndtr(data["labels"] * mean / jnp.sqrt(1.0 + var))
    else:
        value = -jnp.logaddexp(0.0, -data["labels"] * mean)
    return jnp.sum(data["sample_weight"] * value)


def potential(kind: str, data: Data, z: jax.Array) -> jax.Array:
    """Return −log p(z | y), up to a constant.

    The prior of w is −½‖ω‖² − q log|ρ|, whose second term the Jacobian of w = ρVω takes away.
    """
    w, effects, x, omega, log_jacobian = transported(data, z)
    prior = -0.5 * (
        jnp.sum(omega**2)
        + jnp.sum(effects**2) / data["effect_sd"] ** 2
        + jnp.sum((x / data["prior"]) ** 2)
    )
    return -(log_likelihood(kind, data, w, effects, x) + prior + log_jacobian)
