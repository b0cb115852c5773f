"""Benchmark of learning features: a gradient of the loss, against one Cholesky factor per bag."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bagwise.inference.pencil import solve_each
from benchmarks.bench_report import Section, Target, interleaved

TARGET = Target(20.0, at_least=True, unit="×")
AGREE = Target(1e-8)

ETA, NOISE = 0.7, 0.3


def ours(R: Any, S: Any, v: Any, sizes: Any, gaps: Any) -> tuple[Any, Any]:
    """Return v·A_i^-1 δ_i and v·A_i^-1 v with A_i = ηR + S/N_i, all by one eigenbasis."""
    solved = solve_each(R, S, ETA, sizes, v[None])
    return jnp.sum(solved * gaps, axis=1), solved @ v


def one_by_one(R: Any, S: Any, v: Any, sizes: Any, gaps: Any) -> tuple[Any, Any]:
    """Return the same by a Cholesky factor of each A_i."""

    def of_a_bag(size: Any, gap: Any) -> tuple[Any, Any]:
        factor = jax.scipy.linalg.cho_factor(ETA * R + S / size)
        solved = jax.scipy.linalg.cho_solve(factor, v)
        return gap @ solved, v @ solved

    return jax.vmap(of_a_bag)(sizes, gaps)


def slope(solve: Callable[..., tuple[Any, Any]], data: tuple[Any, ...]) -> Callable[[], Any]:
    """Return the gradient in R, S and v of −log density of labels that are all 1, compiled."""
    *moving, sizes, gaps = data

    def loss(R: Any, S: Any, v: Any) -> Any:
        mean, told = solve((R + R.T) / 2.0, (S + S.T) / 2.0, v, sizes, gaps)
        var = ETA * (v @ R @ v) + NOISE - ETA**2 * told
        return 0.5 * jnp.sum(jnp.log(var) + (1.0 - ETA * mean) ** 2 / var)

    compiled = jax.jit(jax.grad(loss, argnums=(0, 1, 2)))
    return lambda: jax.block_until_ready(compiled(*moving))


def _data(n: int, d: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    R, S = (root @ root.T / d for root in rng.normal(size=(2, d, 3 * d)))
    v = rng.normal(size=d) / d
    parts = (R, S, R @ v, np.arange(1.0, n + 1), rng.normal(size=(n, d)))
    return tuple(jnp.asarray(part) for part in parts)


def run(quick: bool) -> Section:
    """Time both in turn, for bags of as many sizes as there are bags."""
    n, d = (40, 8) if quick else (1000, 90)
    with jax.enable_x64(True):
        sides = [slope(solve, _data(n, d)) for solve in (ours, one_by_one)]
        found, expected = (np.concatenate([np.ravel(x) for x in side()]) for side in sides)
        seconds = interleaved(sides, 1 if quick else 5)
    section = Section(f"8. Gradient of features: {n:,} bags, {d} landmarks", ["seconds", "ratio"])
    for what, each in zip(("one Cholesky factor per bag", "ours"), seconds[::-1], strict=True):
        ratio = seconds[1] / each
        target = TARGET if what == "ours" else None
        section.add(what, [f"{each:.4f}", f"{ratio:.0f}×"], ratio, target)
    apart = float(np.abs(found - expected).max() / np.abs(expected).max())
    section.add("gradients differ by", [f"{apart:.1e}", ""], apart, AGREE)
    section.notes.append(
        "Of −log density in what features make of bags (R, Σ) and in v, float64; sizes all differ."
    )
    return section


if __name__ == "__main__":
    print(run(quick=False))
