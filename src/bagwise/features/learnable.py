"""Features that move: the same formulas in JAX, so that what they depend on can be learnt.

Features are made of parameters, a dict of arrays. :func:`learnable` says which of them move and
what φ, the prior of the embedding and the weights of points are at any values of them; at the end
``finish`` makes of the values features like any other, which know nothing of JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from bagwise.bags.validation import wrong
from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import (
    MIXED_SCALES,
    RBF,
    Additive,
    Energy,
    Kernel,
    Linear,
    Matern,
    Mixed,
    UserKernel,
)
from bagwise.features.maps import Features, LandmarkFeatures, limited_log_weights
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures
from bagwise.features.user_network import UserNetwork

Params = dict[str, Any]

# What a kernel embedding can learn. "ard": a scale for each column.
LEARNABLE = (
    "bandwidth",
    "ard",
    "landmarks",
    "function_landmarks",
    "prior_length",
    "point_weights",
)

# Name of the arrays of a network, before their number.
LAYER = "layer"

# Directions in which K vanishes, as a share of the largest.
NULL = 1e-8


class Learnable(Protocol):
    """Features as a function of parameters, in JAX; x are scaled points (m, p)."""

    @property
    def start(self) -> Params:
        """Parameters that move, where they start."""
        ...

    def phi(self, params: Params, x: Any) -> Any:
        """Return φ (m, d)."""
        ...

    def prior(self, params: Params) -> tuple[Any, Any, Any]:
        """Return r(u, u), r(u, z), r(z, z)."""
        ...

    def weight_gram(self, params: Params) -> Any:
        """Return K_z."""
        ...

    def log_weights(self, params: Params, phi: Any) -> Any:
        """Return log w(x) = g·φ(x), within limits, or None if points are not weighed."""
        ...

    def finish(self, params: Params) -> Features:
        """Return the features at these values."""
        ...


def learnable(
    features: Features, points: np.ndarray, learn: Sequence[str], length: float | None = None
) -> Learnable:
    """Return the features as a function of what is to be learnt of them.

    Parameters
    ----------
    features : Features where learning starts
    points : (m, p), some points, by which the prior of their weights has its scale
    learn : names of :data:`LEARNABLE`; of a network, all its layers are learnt too
    length : ℓ of the convolved prior, if that is the prior
    """
    if isinstance(features, NetworkFeatures | UserNetworkFeatures):
        return LearnableNetwork.of(features, points, learn)
    if isinstance(features, LandmarkFeatures):
        if isinstance(features.kernel, UserKernel):
            raise BagwiseError.because(
                f"learn={tuple(learn)!r} with {features.kernel!r}, whose slope is not known",
                "a kernel of bagwise",
                'Leave learn out; or use kernel="rbf", or NetworkEmbedding, on points of numbers.',
            )
        return LearnableLandmarks.of(features, points, learn, length)
    raise BagwiseError.because(
        f"learn={tuple(learn)!r} with {type(features).__name__}, whose frequencies are drawn",
        "KernelEmbedding or NetworkEmbedding",
        "Use KernelEmbedding(learn=...), or leave learn out.",
    )


@dataclass(frozen=True, eq=False)
class Weighing:
    """Weights of points, log w(x) = g·φ(x) with g = T h.

    T is such that with h ~ N(0, I) log w is a Gaussian process whose covariance is the kernel over
    its average k(x, x) at the points: of variance 1, so that by its prior a point of a bag has e
    times the weight of another, and not e^10. At landmarks k(u, u) may be far less than at points:
    centres of clusters are nearer to the middle, and a linear kernel is a squared length.

    Attributes
    ----------
    basis : (d, q), T
    """

    basis: np.ndarray

    @classmethod
    def of(cls, gram: np.ndarray, average: float) -> Weighing:
        """Return the weighing of features whose functions have the squared norm g^T K g."""
        values, vectors = np.linalg.eigh(gram)
        keep = values > NULL * values[-1]
        return cls(vectors[:, keep] / np.sqrt(average * values[keep]))

    @property
    def start(self) -> np.ndarray:
        """H where all points count alike."""
        return np.zeros(self.basis.shape[1])

    def logs(self, params: Params, phi: Any) -> Any:
        """Return log w of points with features φ, within limits, or None."""
        if "point_weights" not in params:
            return None
        return limited_log_weights(phi @ (self.basis @ params["point_weights"]), jnp)

    def slope(self, params: Params) -> np.ndarray | None:
        """Return g, or None."""
        h = params.get("point_weights")
        return None if h is None else self.basis @ np.asarray(h)


def _moving(values: Params, learn: Sequence[str]) -> tuple[Params, Params]:
    """Split parameters into those that move and those that stay."""
    return (
        {name: values[name] for name in values if name in learn},
        {name: values[name] for name in values if name not in learn},
    )


@dataclass(frozen=True, eq=False)
class LearnableLandmarks:
    """φ(x) = k(x/a, u) with bandwidth, scales a of the columns, landmarks u and z to be learnt.

    Attributes
    ----------
    base : LandmarkFeatures where learning starts
    start : parameters that move, at their start;  fixed : those that stay
    """

    base: LandmarkFeatures
    start: Params
    fixed: Params
    weighing: Weighing

    @classmethod
    def of(
        cls,
        base: LandmarkFeatures,
        points: np.ndarray,
        learn: Sequence[str],
        length: float | None,
    ) -> LearnableLandmarks:
        """Take the values from features; refuse to learn what they do not have."""
        kernel, p, x = base.kernel, base.landmarks.shape[1], base.scaling(points)
        gram = kernel(base.landmarks, base.landmarks)
        weighing = Weighing.of(gram, float(np.diag(kernel(x, x)).mean()))
        values: Params = {
            "ard": np.zeros(p),
            "landmarks": base.landmarks,
            "point_weights": weighing.start,
        }
        if kernel.has_bandwidth:
            values["bandwidth"] = np.log(float(kernel.bandwidth or 1.0))
        if base.function_landmarks is not None:
            values["function_landmarks"] = base.function_landmarks
        if length is not None:
            values["prior_length"] = np.log(length)
        for name in learn:
            if name not in values:
                raise wrong("learn", tuple(learn), f"nothing that is not there: {_lacking(name)}")
        if "point_weights" not in learn:
            del values["point_weights"]
        start, fixed = _moving(values, learn)
        return cls(base, start, fixed, weighing)

    def _all(self, params: Params) -> Params:
        return self.fixed | params

    def _kernel(self, params: Params, x: Any, y: Any) -> Any:
        scale = jnp.exp(params["ard"])
        bandwidth = jnp.exp(params["bandwidth"]) if "bandwidth" in params else 1.0
        return kernel_values(self.base.kernel, x / scale, y / scale, bandwidth)

    def _z(self, params: Params) -> Any:
        return params.get("function_landmarks", params["landmarks"])

    def phi(self, params: Params, x: Any) -> Any:
        """Return k(x, u) (m, d)."""
        params = self._all(params)
        return self._kernel(params, x, params["landmarks"])

    def prior(self, params: Params) -> tuple[Any, Any, Any]:
        """Return r between u and z: k, or the convolved prior if there is a length."""
        params = self._all(params)
        u, z = params["landmarks"], self._z(params)
        if "prior_length" not in params:
            return self._kernel(params, u, u), self._kernel(params, u, z), self.weight_gram(params)
        pairs = ((u, u), (u, z), (z, z))
        uu, uz, zz = (self._convolved(params, *pair) for pair in pairs)
        return uu, uz, zz

    def _convolved(self, params: Params, x: Any, y: Any) -> Any:
        """Return exp(−‖x − y‖²/4σ²) exp(−‖(x + y)/2‖²/2(σ²/2 + ℓ²)), see kernels.convolved."""
        scale = jnp.exp(params["ard"])
        x, y = x / scale, y / scale
        var, length = jnp.exp(2.0 * params["bandwidth"]), jnp.exp(params["prior_length"])
        middle = jnp.sum(((x[:, None] + y[None]) / 2.0) ** 2, axis=2)
        apart = jnp.sum((x[:, None] - y[None]) ** 2, axis=2)
        return jnp.exp(-apart / (4.0 * var) - middle / (2.0 * (var / 2.0 + length**2)))

    def weight_gram(self, params: Params) -> Any:
        """Return k(z, z)."""
        params = self._all(params)
        z = self._z(params)
        return self._kernel(params, z, z)

    def log_weights(self, params: Params, phi: Any) -> Any:
        """Return g·φ(x) of each point, or None."""
        return self.weighing.logs(params, phi)

    def finish(self, params: Params) -> LandmarkFeatures:
        """Return landmark features: scales of the columns become those of the scaling."""
        values = {name: np.asarray(value) for name, value in self._all(params).items()}
        scale, base = np.exp(values["ard"]), self.base
        kernel = base.kernel
        if "bandwidth" in values:
            kernel = kernel.with_bandwidth(float(np.exp(values["bandwidth"])))
        z = values.get("function_landmarks")
        return LandmarkFeatures(
            kernel,
            replace(base.scaling, scale=base.scaling.scale * scale),
            values["landmarks"] / scale,
            None if z is None else z / scale,
            base.centred,
            self.weighing.slope(params),
        )


def _lacking(name: str) -> str:
    """Say why something cannot be learnt."""
    return {
        "bandwidth": "this kernel has no bandwidth",
        "function_landmarks": "give function_landmarks where learning starts",
        "prior_length": 'use prior="convolved"',
    }.get(name, f"{name!r} is none of {', '.join(LEARNABLE)}")


@dataclass(frozen=True, eq=False)
class LearnableNetwork:
    """Outputs of a network, all of whose layers are learnt.

    Attributes
    ----------
    base : features where learning starts
    start : parameters that move, ``layer0``, … and those of weights of points
    outputs : arrays of all layers, scaled points ↦ φ
    weighing : of points
    """

    base: NetworkFeatures | UserNetworkFeatures
    start: Params
    outputs: Callable[[list[Any], Any], Any]
    weighing: Weighing

    @classmethod
    def of(
        cls,
        base: NetworkFeatures | UserNetworkFeatures,
        points: np.ndarray,
        learn: Sequence[str],
    ) -> LearnableNetwork:
        """Take the layers, and weights of points if they are to be learnt."""
        for name in learn:
            if name != "point_weights":
                raise wrong("learn", tuple(learn), '("point_weights",) or () for a network')
        layers: Sequence[np.ndarray]
        if isinstance(base, UserNetworkFeatures):
            network = UserNetwork.of(base.network)
            layers, outputs = network.split(base.values), network.outputs
        else:
            n, forward = len(base.weights), base.forward
            layers = [*base.weights, *base.biases]

            def outputs(arrays: Any, x: Any) -> Any:
                return forward(x, arrays[:n], arrays[n:], jnp)

        start: Params = {f"{LAYER}{i}": array for i, array in enumerate(layers)}
        norm = float(np.mean(np.sum(base(points) ** 2, axis=1)))
        weighing = Weighing.of(np.eye(base.n_outputs), norm or 1.0)
        if "point_weights" in learn:
            start["point_weights"] = weighing.start
        return cls(base, start, outputs, weighing)

    def _layers(self, params: Params) -> list[Any]:
        n = sum(name.startswith(LAYER) for name in self.start)
        return [params[f"{LAYER}{i}"] for i in range(n)]

    def phi(self, params: Params, x: Any) -> Any:
        """Return the outputs (m, d)."""
        return self.outputs(self._layers(params), x)

    def prior(self, params: Params) -> tuple[Any, Any, Any]:
        """Return identities: features are coordinates."""
        eye = jnp.eye(self.base.n_outputs)
        return eye, eye, eye

    def weight_gram(self, params: Params) -> Any:
        """Return the identity."""
        return jnp.eye(self.base.n_outputs)

    def log_weights(self, params: Params, phi: Any) -> Any:
        """Return g·φ(x) of each point, or None."""
        return self.weighing.logs(params, phi)

    def finish(self, params: Params) -> NetworkFeatures | UserNetworkFeatures:
        """Return the network with these layers."""
        layers = [np.asarray(layer, np.float64) for layer in self._layers(params)]
        slope = self.weighing.slope(params)
        if isinstance(self.base, UserNetworkFeatures):
            values = np.concatenate([layer.ravel() for layer in layers])
            return self.base.at(values, point_weights=slope)
        n = len(self.base.weights)
        return replace(
            self.base,
            weights=tuple(layers[:n]),
            biases=tuple(layers[n:]),
            point_weights=slope,
        )


def kernel_values(kernel: Kernel, x: Any, y: Any, bandwidth: Any) -> Any:
    """Return k(x_i, y_j) in JAX, with a gradient also where x = y."""
    if isinstance(kernel, Additive):
        columns = range(x.shape[1])
        parts = [
            kernel_values(kernel.base, x[:, j : j + 1], y[:, j : j + 1], bandwidth) for j in columns
        ]
        return jax.tree.reduce(jnp.add, parts) / x.shape[1]
    if isinstance(kernel, Mixed):
        scales = [scale * bandwidth for scale in MIXED_SCALES]
        joint = [kernel_values(RBF(), x, y, scale) for scale in scales]
        root = float(np.sqrt(x.shape[1]))
        alone = [kernel_values(Additive(), x, y, scale / root) for scale in scales]
        return sum(joint + alone) / (len(joint) + len(alone))
    if isinstance(kernel, Linear):
        return x @ y.T
    squared = jnp.maximum(jnp.sum(x**2, 1)[:, None] + jnp.sum(y**2, 1) - 2.0 * (x @ y.T), 0.0)
    if isinstance(kernel, RBF):
        return jnp.exp(-0.5 * squared / bandwidth**2)
    if isinstance(kernel, Energy):
        lengths = (_root(jnp.sum(points**2, axis=1)) for points in (x, y))
        left, right = lengths
        return 0.5 * (left[:, None] + right - _root(squared))
    assert isinstance(kernel, Matern)
    t = _root(2.0 * kernel.smoothness * squared) / bandwidth
    decay = jnp.exp(-t)
    if kernel.smoothness == 0.5:
        return decay
    return (1.0 + t) * decay if kernel.smoothness == 1.5 else (1.0 + t + t**2 / 3.0) * decay


def _root(squared: Any) -> Any:
    """Return the square root, whose slope at 0 is taken to be 0."""
    return jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)
