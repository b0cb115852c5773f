"""A small DeepSets with a Gaussian head, for comparison: mean pooling between two networks."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bagwise import Bags

HIDDEN = 64
STEPS = 1500
PATIENCE = 200
RATE = 3e-3
DECAY = 1e-4


def _layers(rng: np.random.Generator, *sizes: int) -> list[tuple[Any, Any]]:
    return [
        (jnp.asarray(rng.normal(0, np.sqrt(2 / a), (a, b)), jnp.float32), jnp.zeros(b))
        for a, b in pairwise(sizes)
    ]


def _network(layers: list[tuple[Any, Any]], x: Any) -> Any:
    for w, b in layers[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = layers[-1]
    return x @ w + b


def attention(params: Any, features: Any) -> Any:
    """Return log weights of points by their features, u·tanh(V h)."""
    (inner, bias), (outer, _) = params["attention"]
    return (jnp.tanh(features @ inner + bias) @ outer)[:, 0]


def _forward(params: Any, points: Any, owner: Any, extra: Any) -> tuple[Any, Any]:
    """Return mean and log variance of each bag."""
    n = len(extra)
    features = jax.nn.relu(_network(params["points"], points))
    shares = jnp.ones(len(owner))
    if "attention" in params:
        logs = attention(params, features)
        shares = jnp.exp(logs - jax.ops.segment_max(logs, owner, n)[owner])
    total = jax.ops.segment_sum(shares, owner, n)
    pooled = jax.ops.segment_sum(shares[:, None] * features, owner, n) / total[:, None]
    out = _network(params["bags"], jnp.hstack([pooled, extra]))
    return out[:, 0], jnp.clip(out[:, 1], -8.0, 4.0)


def _loss(params: Any, data: Any, y: Any) -> Any:
    mean, log_var = _forward(params, *data)
    return 0.5 * jnp.mean(log_var + (y - mean) ** 2 * jnp.exp(-log_var))


@jax.jit
def _step(params: Any, state: Any, data: Any, y: Any, t: Any) -> tuple[Any, Any]:
    """Make one step of Adam."""
    gradient = jax.grad(_loss)(params, data, y)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state[0], gradient)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g**2, state[1], gradient)
    rate = RATE * jnp.minimum(1.0, t / 50.0)

    def moved(p: Any, m: Any, v: Any) -> Any:
        step = m / (1 - 0.9**t) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return p - rate * (step + DECAY * p)

    return jax.tree.map(moved, params, first, second), (first, second)


_score = jax.jit(_loss)
_predict = jax.jit(_forward)


class DeepSets:
    """Points ↦ 64 features, averaged; these, log N and covariates ↦ mean and log variance.

    Adam on all bags, stopped early by a fifth of them that is held out.
    """

    def fit(self, bags: Bags, y: np.ndarray) -> DeepSets:
        """Train."""
        rng = np.random.default_rng(0)
        points = np.asarray(bags.points)
        self.center, self.scale = points.mean(axis=0), points.std(axis=0) + 1e-12
        extra = self._raw_extra(bags)
        self.extra_center, self.extra_scale = extra.mean(axis=0), extra.std(axis=0) + 1e-12
        self.level, self.unit = y.mean(), y.std()
        order = rng.permutation(len(y))
        held, rest = order[: len(y) // 5], order[len(y) // 5 :]
        train, valid = self._data(bags[rest]), self._data(bags[held])
        target = jnp.asarray((y - self.level) / self.unit, jnp.float32)
        params = self._start(rng, points.shape[1], extra.shape[1])
        state = (jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params))
        best, at, self.params = np.inf, 0, params
        for step in range(1, STEPS + 1):
            params, state = _step(params, state, train, target[rest], float(step))
            if step % 10 == 0:
                score = float(_score(params, valid, target[held]))
                if score < best:
                    best, at, self.params = score, step, params
                elif step - at > PATIENCE:
                    break
        return self

    def _start(self, rng: np.random.Generator, n_columns: int, n_extra: int) -> Any:
        return {
            "points": _layers(rng, n_columns, HIDDEN, HIDDEN),
            "bags": _layers(rng, HIDDEN + n_extra, HIDDEN, 2),
        }

    def predict(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance."""
        mean, log_var = _predict(self.params, *self._data(bags))
        var = np.exp(np.asarray(log_var, np.float64)) * self.unit**2
        return np.asarray(mean, np.float64) * self.unit + self.level, var

    def _raw_extra(self, bags: Bags) -> np.ndarray:
        logs = np.log(np.asarray(bags.sizes, float))[:, None]
        return logs if bags.covariates is None else np.hstack([logs, bags.covariates])

    def _data(self, bags: Bags) -> tuple[Any, Any, Any]:
        owner = np.repeat(np.arange(bags.n_bags), np.asarray(bags.sizes, int))
        points = (np.asarray(bags.points) - self.center) / self.scale
        extra = (self._raw_extra(bags) - self.extra_center) / self.extra_scale
        return jnp.asarray(points, jnp.float32), owner, jnp.asarray(extra, jnp.float32)
