"""A network of the user's: a tree of parameters and a function of them, in JAX.

It comes in one of three forms, none of which needs a library beside JAX:

- a module that is itself a tree and is called with one point, such as one of Equinox;
- a pair (parameters, apply), apply(parameters, points (n, p)) ↦ (n, d); in place of parameters a
  function of a JAX key that returns them;
- a function without parameters that returns one of these, which is what ``load`` is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bagwise.exceptions import BagwiseError

# Rows are filled up to a power of two, at least this: each number of rows compiles anew.
LEAST_ROWS = 64


@dataclass(frozen=True, eq=False)
class UserNetwork:
    """A network as arrays that move, and what makes outputs of them.

    Attributes
    ----------
    start : arrays that move, all its arrays of real numbers
    rest : leaves of the tree that do not, with None in place of those that do
    tree : how leaves become parameters
    apply : (parameters, points (n, p)) ↦ (n, d)
    """

    start: tuple[np.ndarray, ...]
    rest: tuple[Any, ...]
    tree: Any
    apply: Callable[[Any, Any], Any]

    @classmethod
    def of(cls, given: Any, seed: int = 0) -> UserNetwork:
        """Return the network of what a user gave."""
        if callable(given) and jax.tree.leaves(given) == [given]:
            given = given()
        if isinstance(given, tuple) and len(given) == 2 and callable(given[1]):
            params, apply = given
            if callable(params) and jax.tree.leaves(params) == [params]:
                params = params(jax.random.key(seed))
        elif callable(given):
            params, apply = given, _one_by_one
        else:
            raise _no_network(f"network is a {type(given).__name__}")
        leaves, tree = jax.tree.flatten(params)
        moving = [_moves(leaf) for leaf in leaves]
        if not any(moving):
            raise _no_network("the network has no arrays of real numbers to be learnt")
        start = tuple(
            np.asarray(leaf, np.float64) for leaf, m in zip(leaves, moving, strict=True) if m
        )
        rest = tuple(None if m else leaf for leaf, m in zip(leaves, moving, strict=True))
        return cls(start, rest, tree, apply)

    @property
    def values(self) -> np.ndarray:
        """All parameters, end to end."""
        return np.concatenate([array.ravel() for array in self.start])

    def split(self, values: np.ndarray) -> list[np.ndarray]:
        """Return the arrays of which all parameters, end to end, are made."""
        sizes = [array.size for array in self.start]
        if sum(sizes) != len(values):
            raise BagwiseError.because(
                f"the network has {sum(sizes)} parameters",
                f"{len(values)}, as the one that was fitted",
                "Give the network that the model was fitted with.",
            )
        parts = np.split(values, np.cumsum(sizes)[:-1])
        return [x.reshape(array.shape) for x, array in zip(parts, self.start, strict=True)]

    def outputs(self, arrays: Any, x: Any) -> Any:
        """Return φ (n, d) of scaled points, in JAX."""
        left = iter(arrays)
        leaves = [next(left) if leaf is None else leaf for leaf in self.rest]
        found = self.apply(jax.tree.unflatten(self.tree, leaves), x)
        if getattr(found, "ndim", 0) != 2 or len(found) != len(x):
            raise _no_network(
                f"the network makes {getattr(found, 'shape', type(found).__name__)} of "
                f"{len(x)} points"
            )
        return found

    def compiled(self) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return (all parameters, scaled points) ↦ outputs in float64, for NumPy."""
        forward = jax.jit(self.outputs)

        def outputs(values: np.ndarray, x: np.ndarray) -> np.ndarray:
            n = len(x)
            rows = max(LEAST_ROWS, 1 << (n - 1).bit_length())
            with jax.enable_x64(True):
                arrays = [jnp.asarray(array) for array in self.split(values)]
                found = forward(arrays, jnp.asarray(np.pad(x, ((0, rows - n), (0, 0)))))
                return np.asarray(found, np.float64)[:n].copy()

        return outputs


def _one_by_one(module: Any, x: Any) -> Any:
    """Call a module that takes one point with each."""
    found = jax.vmap(module)(x)
    return found[:, None] if found.ndim == 1 else found


def _moves(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.floating)


def _no_network(found: str) -> BagwiseError:
    return BagwiseError.because(
        found,
        "a module that takes a point (p,) and returns (d,), a pair (parameters, apply) with "
        "apply(parameters, points (n, p)) of shape (n, d), or a function that returns one of these",
        "See NetworkEmbedding(network=...).",
    )
