"""Functions of two symmetric matrices that have one eigenbasis, with derivatives written by hand.

With a basis B in which B^T S B = 1 and B^T R B = diag(λ), everything that bags of all sizes ask of
(R, S) is a product with B and a function of λ. Eigenvectors are never differentiated, so that equal
eigenvalues do no harm, and a gradient costs O(n d²) beside one decomposition.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

# Least eigenvalue, as a share of the largest, of a matrix that is raised to a power.
LEAST = 1e-10

# Eigenvalues whose logs differ by less are equal: the difference quotient is a derivative.
NEAR = 1e-5


@jax.custom_vjp
def solve_each(R: Any, S: Any, eta: Any, sizes: Any, rows: Any) -> Any:
    """Return (ηR + S/N_i)^-1 row_i (n, d) for a row of each bag, or one (1, d) for all.

    With a basis B in which B^T S B = 1 and B^T R B = diag(λ), it is t_i B^T with
    t_i = row_i B / (ηλ + 1/N_i); the derivative is a few products of t with what is pulled back.
    """
    return _solve_each(R, S, eta, sizes, rows)[0]


def _solve_each(R: Any, S: Any, eta: Any, sizes: Any, rows: Any) -> tuple[Any, Any]:
    root = jnp.linalg.cholesky(S)
    spectrum, turned = jnp.linalg.eigh(whitened(R, root))
    basis = solve_triangular(root.T, turned, lower=False)
    spectrum = jnp.maximum(spectrum, 0.0)
    whole = eta * spectrum + 1.0 / sizes[:, None]
    t = (rows @ basis) / whole
    return t @ basis.T, (basis, spectrum, whole, t, eta, sizes, len(rows))


def _solve_each_pulled(kept: Any, pull: Any) -> tuple[Any, ...]:
    basis, spectrum, whole, t, eta, sizes, n_rows = kept
    p = (pull @ basis) / whole
    product, by_size = (basis @ (each.T @ t) @ basis.T for each in (p, p / sizes[:, None]))
    both = p * t
    own = p if n_rows == len(t) else jnp.sum(p, axis=0, keepdims=True)
    return (
        -eta * 0.5 * (product + product.T),
        -0.5 * (by_size + by_size.T),
        -jnp.sum(both @ spectrum),
        jnp.sum(both, axis=1) / sizes**2,
        own @ basis.T,
    )


solve_each.defvjp(_solve_each, _solve_each_pulled)


def whitened(R: Any, root: Any) -> Any:
    """Return L^-1 R L^-T, given L with L L^T = S: its eigenvalues are the λ of (R, S)."""
    half = solve_triangular(root, R, lower=True)
    return solve_triangular(root, half.T, lower=True)


@jax.custom_vjp
def power(C: Any, p: Any) -> Any:
    """Return C^p of a symmetric matrix, eigenvalues no less than a tiny share of the largest.

    C^p = U diag(λ^p) U^T, and its derivative in C has the difference quotients of λ^p between
    every two eigenvalues, in the basis U (Daleckii and Krein).
    """
    return _power(C, p)[0]


def _power(C: Any, p: Any) -> tuple[Any, Any]:
    values, vectors = jnp.linalg.eigh(C)
    logs = jnp.log(jnp.maximum(values, LEAST * values[-1]))
    raised = jnp.exp(p * logs)
    return (vectors * raised) @ vectors.T, (vectors, values, logs, raised, p)


def _power_pulled(kept: Any, pull: Any) -> tuple[Any, Any]:
    vectors, values, logs, raised, p = kept
    pull = vectors.T @ (0.5 * (pull + pull.T)) @ vectors
    apart = logs[:, None] - logs
    equal = jnp.abs(apart) < NEAR
    level = jnp.exp(logs)
    steps = jnp.where(equal, 1.0, level[:, None] - level)
    middle = jnp.exp(0.5 * (p - 1.0) * (logs[:, None] + logs))
    quotient = jnp.where(equal, p * middle, (raised[:, None] - raised) / steps)
    free = values > LEAST * values[-1]  # those at the floor stay there
    by_matrix = vectors @ (pull * quotient * (free[:, None] & free)) @ vectors.T
    return by_matrix, jnp.sum(jnp.diag(pull) * raised * logs)


power.defvjp(_power, _power_pulled)
