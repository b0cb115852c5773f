"""Network features: what a multilayer perceptron makes of a point, in NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Float32, Float64

from bagwise.exceptions import BagwiseError
from bagwise.features.maps import PriorGram, Scaling


@dataclass(frozen=True, eq=False)
class NetworkFeatures:
    """φ(x) = W_L tanh(… tanh(W_1 x + b_1) …) + b_L, with a tanh after the last layer too.

    The outputs are taken for orthonormal coordinates, as random Fourier features are, so r = k and
    K_z are identity matrices.

    Attributes
    ----------
    scaling : Scaling of the points
    weights : W_l (inputs, outputs) of each layer;  biases : b_l (outputs,)
    centred : whether they are features of points less the mean of their bag
    point_weights : (d,), g of log w(x) = g·φ(x), or None

    Examples
    --------
    >>> scaling = Scaling.of(np.zeros(1))
    >>> network = NetworkFeatures(scaling, (np.array([[2.0]]),), (np.zeros(1),))
    >>> network(np.array([[0.0], [9.0]])).round(3)
    array([[0.], [1.]])
    """

    scaling: Scaling
    weights: tuple[Float64[np.ndarray, "i o"], ...]
    biases: tuple[Float64[np.ndarray, " o"], ...]
    centred: bool = False
    point_weights: Float64[np.ndarray, " d"] | None = None

    @classmethod
    def drawn(
        cls, scaling: Scaling, widths: Sequence[int], rng: np.random.Generator
    ) -> NetworkFeatures:
        """Draw layers of these widths, the last of which are the features (Glorot's variances)."""
        sizes = [len(scaling.center), *widths]
        pairs = list(pairwise(sizes))
        weights = tuple(
            rng.normal(0.0, np.sqrt(2.0 / (n_in + n_out)), (n_in, n_out)) for n_in, n_out in pairs
        )
        return cls(scaling, weights, tuple(np.zeros(n_out) for _, n_out in pairs))

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        return len(self.biases[-1])

    @property
    def same_landmarks(self) -> bool:
        """Whether z = u: it is."""
        return True

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the outputs (n, d)."""
        return self.forward(self.scaling(points), self.weights, self.biases, np)

    def single(self, points: Float[np.ndarray, "n p"]) -> Float32[np.ndarray, "n d"]:
        """Return the outputs, rounded."""
        return self(points).astype(np.float32)

    @staticmethod
    def forward(x: Any, weights: Sequence[Any], biases: Sequence[Any], xp: Any) -> Any:
        """Return the outputs for scaled points, in NumPy or JAX."""
        for weight, bias in zip(weights, biases, strict=True):
            x = xp.tanh(x @ weight + bias)
        return x

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return the identity."""
        return np.eye(self.n_outputs)

    def kernel_prior(self) -> PriorGram:
        """Return identities."""
        eye = np.eye(self.n_outputs)
        return PriorGram(eye, eye, eye)

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Raise: the convolved kernel has no form in these features."""
        raise BagwiseError.because(
            "the convolved prior was asked for with a network",
            "landmarks, at which it has a closed form",
            'Use KernelEmbedding() or prior="kernel".',
        )
