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
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular
from jax.scipy.special import log_ndtr

from bagwise.inference.priors import ScalePriors
from bagwise.inference.shrinkage_objective import LEAST_NOISE, ShrinkageProblem
from bagwise.inference.transport import LEAST_VAR, Transport

# Distinct sizes in a block: more waste products, fewer waste padding.
SIZES_PER_BLOCK = 12

Data = dict[str, Any]


class Model(NamedTuple):
    """What decides the code, not the data, of a density: each is compiled on its own."""

    likelihood: str
    rigid: bool


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


def transported(rigid: bool, data: Data, z: jax.Array) -> tuple[jax.Array, ...]:
    """Return v = (w, γ), its prior standard deviations, x, and the log of the Jacobian."""
    m = data["transport"]
    j, q = m["extra"].shape[0], m["mean_map"].shape[1]
    c = m["center"] + m["scale_factor"] @ z[j:]
    middle = jnp.logaddexp(0.0, m["bend"])
    a = m["bend"] + middle * (1.0 + jnp.exp(-m["bend"])) * c
    relative = jnp.where(m["folded"], 1.0 + c, jnp.logaddexp(0.0, a) / middle)
    log_jacobian = jnp.sum(jnp.where(m["folded"], 0.0, -jnp.logaddexp(0.0, -a)))
    x = m["scales"] * relative
    sd = jnp.concatenate([jnp.full(q, x[-1]), jnp.full(j - q, m["effect_sd"])])
    if rigid:
        v = m["mean"] + m["slope"] @ (c - m["center"]) + m["factor"] @ z[:j]
        return v, sd, x, log_jacobian
    precision, pull = _regression(m, x)
    factor = jnp.linalg.cholesky(jnp.eye(j) + sd[:, None] * (precision + m["extra"]) * sd)
    half = solve_triangular(factor, sd * (pull + m["extra_pull"]), lower=True) + z[:j]
    v = sd * solve_triangular(factor.T, half, lower=False)
    log_jacobian += jnp.sum(jnp.log(sd)) - jnp.sum(jnp.log(jnp.diagonal(factor)))
    return v, sd, x, log_jacobian


def _regression(m: Data, x: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return H^T S H and H^T b of the transport, at scales x, with effects beside the weights."""
    H, d = m["mean_map"], m["mean_map"].shape[0]
    n_effects = m["gram"].shape[1] - d
    # A flag is data, not code: so all models share these lines.
    noise = jnp.where(m["has_noise"], x[0] ** 2, m["scales"][0] ** 2)
    share = (m["bag_var"] + m["scales"][0] ** 2 + LEAST_VAR) / (m["bag_var"] + noise + LEAST_VAR)
    eta = jnp.where(m["shrinks"], x[max(len(x) - 2, 0)], 1.0)
    seen = eta * m["sizes"][:, None]
    gain = seen / (1.0 + seen * m["spectrum"])
    gain = jnp.concatenate([gain, jnp.ones((gain.shape[0], n_effects))], axis=1)
    weighted = share[:, None] * gain
    S = jnp.sum(weighted[:, :, None] * m["gram"] * gain[:, None, :], axis=0)
    b = jnp.sum(weighted * m["pull"], axis=0)
    cross = H.T @ S[:d, d:]
    told = jnp.block([[H.T @ S[:d, :d] @ H, cross], [cross.T, S[d:, d:]]])
    return told, jnp.concatenate([b[:d] @ H, b[d:]])


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


def potential(model: Model, data: Data, z: jax.Array) -> jax.Array:
    """Return −log p(z | y), up to a constant."""
    v, sd, x, log_jacobian = transported(model.rigid, data, z)
    q = data["mean_map"].shape[1]
    log_prior = -0.5 * jnp.sum((v / sd) ** 2) - jnp.sum(jnp.log(sd))
    log_prior -= 0.5 * jnp.sum((x / data["prior"]) ** 2)
    told = log_likelihood(model.likelihood, data, v[:q], v[q:], x)
    return -(told + log_prior + log_jacobian)
