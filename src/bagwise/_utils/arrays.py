"""Array libraries: NumPy's and JAX's functions under one name, for formulas that both compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_ndtr


@dataclass(frozen=True)
class ArrayLibrary:
    """What a formula needs that NumPy and JAX keep in different places.

    Attributes
    ----------
    xp : numpy or jax.numpy
    log_ndtr : log Φ
    solve_triangular : (factor (..., n, n), rhs (..., n), lower) ↦ (..., n)
    """

    xp: Any
    log_ndtr: Callable[[Any], Any]
    solve_triangular: Callable[[Any, Any, bool], Any]


def _solve(factor: np.ndarray, rhs: np.ndarray, lower: bool) -> np.ndarray:
    return np.linalg.solve(factor, rhs[..., None])[..., 0]


NUMPY = ArrayLibrary(np, log_ndtr, _solve)
