"""Network features: what a network makes of a point, in NumPy; and those of a user's network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float, Float64

from bagwise.exceptions import BagwiseError
from bagwise.features.maps import CoordinateFeatures, Scaling

# Pixels on each side of a filter, and of what is averaged after it.
FILTER, POOL = 3, 2

# Points at which the outputs of a user's network are kept, to know it again, and how near they are.
PROBES = 4
PROBE_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class NetworkFeatures(CoordinateFeatures):
    """φ(x) = tanh(W_L … tanh(W_1 x + b_1) … + b_L), with a tanh after the last layer too.

    The outputs are taken for orthonormal coordinates, as random Fourier features are. With a shape
    of images all layers but the last are of 3 × 3 filters, with zeros around the image and averages
    over 2 × 2 pixels after each; columns after those of the image go to the last layer as they are.

    Attributes
    ----------
    scaling : Scaling of the points
    weights : W_l (inputs, outputs) of each layer;  biases : b_l (outputs,)
    centred : whether they are features of points less the mean of their bag; "deviations" if of
        points with their distance from it beside each column
    point_weights : (d,), g of log w(x) = g·φ(x), or None
    image_shape : (height, width) or (height, width, channels) of the first columns, or ()

    Examples
    --------
    >>> scaling = Scaling.of(np.zeros(1))
    >>> network = NetworkFeatures(scaling, (np.array([[2.0]]),), (np.zeros(1),))
    >>> network(np.array([[0.0], [9.0]])).round(3)
    array([[0.], [1.]])
    """

    what: ClassVar[str] = "a network"

    scaling: Scaling
    weights: tuple[Float64[np.ndarray, "i o"], ...]
    biases: tuple[Float64[np.ndarray, " o"], ...]
    centred: bool | str = False
    point_weights: Float64[np.ndarray, " d"] | None = None
    image_shape: tuple[int, ...] = ()

    @classmethod
    def drawn(
        cls,
        scaling: Scaling,
        widths: Sequence[int],
        rng: np.random.Generator,
        image_shape: tuple[int, ...] = (),
    ) -> NetworkFeatures:
        """Draw layers of these widths, the last of which are the features (Glorot's variances)."""
        p = len(scaling.center)
        pairs = list(pairwise([p, *widths]))
        if image_shape:
            height, width, *rest = image_shape
            channels = rest[0] if rest else 1
            others = p - height * width * channels
            pairs = []
            for filters in widths[:-1]:
                pairs.append((FILTER**2 * channels, filters))
                height, width, channels = _pooled(height), _pooled(width), filters
            pairs.append((height * width * channels + others, widths[-1]))
        weights = tuple(
            rng.normal(0.0, np.sqrt(2.0 / (n_in + n_out)), (n_in, n_out)) for n_in, n_out in pairs
        )
        biases = tuple(np.zeros(n_out) for _, n_out in pairs)
        return cls(scaling, weights, biases, image_shape=image_shape)

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        return len(self.biases[-1])

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the outputs (n, d)."""
        return self.forward(self.scaling(points), self.weights, self.biases, np)

    def forward(self, x: Any, weights: Sequence[Any], biases: Sequence[Any], xp: Any) -> Any:
        """Return the outputs for scaled points, in NumPy or JAX."""
        if self.image_shape:
            x = self._filtered(x, weights[:-1], biases[:-1], xp)
            weights, biases = weights[-1:], biases[-1:]
        for weight, bias in zip(weights, biases, strict=True):
            x = xp.tanh(x @ weight + bias)
        return x

    def _filtered(self, x: Any, weights: Sequence[Any], biases: Sequence[Any], xp: Any) -> Any:
        """Return what the filters make of images (n, pixels of all filters), then other columns."""
        height, width, *rest = self.image_shape
        channels, n = rest[0] if rest else 1, len(x)
        n_pixels = height * width * channels
        images = x[:, :n_pixels].reshape(n, height, width, channels)
        for weight, bias in zip(weights, biases, strict=True):
            around = xp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
            parts = [
                around[:, i : i + height, j : j + width]
                for i in range(FILTER)
                for j in range(FILTER)
            ]
            images = xp.tanh(xp.concatenate(parts, axis=3) @ weight + bias)
            rows, columns = min(POOL, height), min(POOL, width)
            height, width = _pooled(height), _pooled(width)
            cut = images[:, : height * rows, : width * columns]
            images = cut.reshape(n, height, rows, width, columns, -1).mean(axis=(2, 4))
        return xp.concatenate([images.reshape(n, -1), x[:, n_pixels:]], axis=1)


def _pooled(side: int) -> int:
    """Return a side of an image after averages: halved, and of what is left over nothing.

    Examples
    --------
    >>> _pooled(5), _pooled(1)
    (2, 1)
    """
    return max(side // POOL, 1)


@dataclass(frozen=True, eq=False)
class UserNetworkFeatures(CoordinateFeatures):
    """Outputs of a network of the user's, in JAX; see :class:`UserNetwork`.

    Attributes
    ----------
    scaling : Scaling of the points
    network : what the user gave
    values : (w,), all its parameters, end to end
    probe : (k, d), outputs at fixed points, by which the network is known again
    centred : whether they are features of points less the mean of their bag; "deviations" if of
        points with their distance from it beside each column
    point_weights : (d,), g of log w(x) = g·φ(x), or None
    """

    what: ClassVar[str] = "a network"

    scaling: Scaling
    network: Callable[..., Any] | tuple[Any, ...]
    values: Float64[np.ndarray, " w"]
    probe: Float64[np.ndarray, "k d"]
    centred: bool | str = False
    point_weights: Float64[np.ndarray, " d"] | None = None

    @classmethod
    def drawn(cls, scaling: Scaling, network: Any, seed: int) -> UserNetworkFeatures:
        """Take the network with the parameters that it begins with."""
        from bagwise.features.user_network import UserNetwork

        values = UserNetwork.of(network, seed).values
        return cls(scaling, network, values, np.zeros((0, 0)))._probed()

    def at(self, values: Float64[np.ndarray, " w"], **changes: Any) -> UserNetworkFeatures:
        """Return the network with other parameters."""
        return replace(self, values=values, **changes)._probed()

    def _probed(self) -> UserNetworkFeatures:
        return replace(self, probe=self.outputs(self._probes))

    @property
    def _probes(self) -> Float64[np.ndarray, "k p"]:
        return np.random.default_rng(0).normal(size=(PROBES, len(self.scaling.center)))

    def is_known(self) -> bool:
        """Whether the network has the outputs that it is to be known by."""
        found = self.outputs(self._probes)
        if found.shape != self.probe.shape:
            return False
        scale = max(float(np.abs(self.probe).max()), 1.0)
        return bool(np.abs(found - self.probe).max() <= PROBE_ROUNDING * scale)

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        return int(self.probe.shape[1])

    @cached_property
    def _forward(self) -> Callable[..., Any]:
        from bagwise.features.user_network import UserNetwork  # JAX, and only where it is needed

        return UserNetwork.of(self.network).compiled()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_forward"}

    def outputs(self, x: Float64[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return φ of scaled points."""
        return self._forward(self.values, x)

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the outputs (n, d)."""
        return self.outputs(self.scaling(points))


def check_image_shape(shape: Any, n_columns: int) -> tuple[int, ...]:
    """Return the shape of images, or raise unless they have as many pixels as there are columns."""
    sides = tuple(shape) if isinstance(shape, tuple | list) else ()
    whole = all(isinstance(side, int | np.integer) and side > 0 for side in sides)
    if len(sides) not in (2, 3) or not whole or int(np.prod(sides)) > n_columns:
        raise BagwiseError.because(
            f"image_shape is {shape!r} for points of {n_columns} columns",
            "(height, width) or (height, width, channels), no more pixels than columns",
            'Set it with NetworkEmbedding(network="conv", image_shape=...).',
        )
    return tuple(int(side) for side in sides)
