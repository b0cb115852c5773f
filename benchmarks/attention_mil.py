"""Attention-pooled multiple-instance learning with a Gaussian head, for comparison.

Ilse, Tomczak and Welling (2018), Attention-based deep multiple instance learning: a bag is
Σ_j a_j h_j with a = softmax(u·tanh(V h_j)) over its points.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from bagwise import Bags
from benchmarks.deep_sets import HIDDEN, DeepSets, _layers, _network, attention

ATTENTION = 32


class AttentionMIL(DeepSets):
    """Deep Sets whose points are weighed by attention, trained in the same way."""

    def _start(self, rng: np.random.Generator, n_columns: int, n_extra: int) -> Any:
        start = super()._start(rng, n_columns, n_extra)
        return start | {"attention": _layers(rng, HIDDEN, ATTENTION, 1)}

    def log_weights(self, bags: Bags) -> np.ndarray:
        """Return log weights of all points, up to a constant for each bag."""
        points, _, _ = self._data(bags)
        return np.asarray(
            attention(self.params, jax.nn.relu(_network(self.params["points"], points)))
        )
