"""Features of points: kernel values at landmarks, or random Fourier features, one interface."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float, Float64

from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import Kernel, convolved
from bagwise.features.scaling import Scaling


@dataclass(frozen=True, eq=False)
class PriorGram:
    """Prior covariance r of the embedding (η = 1) at the features u and the functionals z.

    Attributes
    ----------
    uu : (d, d), uz : (d, s), zz : (s, s)
    """

    uu: Float64[np.ndarray, "d d"]
    uz: Float64[np.ndarray, "d s"]
    zz: Float64[np.ndarray, "s s"]


class Features(Protocol):
    """What an embedding needs of its features φ: points (n, p) ↦ (n, d)."""

    @property
    def n_outputs(self) -> int:
        """Number of features d."""
        ...

    @property
    def same_landmarks(self) -> bool:
        """Whether the functionals z are the features u."""
        ...

    @property
    def centred(self) -> bool:
        """Whether they are features of points less the mean of their bag."""
        ...

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return φ(x) for every point."""
        ...

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return K_z: the squared RKHS norm of f is α^T K_z α."""
        ...

    def kernel_prior(self) -> PriorGram:
        """Return the prior covariance r = k."""
        ...

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Return the convolved prior covariance and its derivative in log ℓ."""
        ...


@dataclass(frozen=True, eq=False)
class LandmarkFeatures:
    """φ(x) = [k(x, u_1) … k(x, u_d)], for a function f = Σ α_l k(·, z_l).

    Parameters
    ----------
    kernel : Kernel with its bandwidth
    scaling : Scaling of the points
    landmarks : (d, p) scaled landmarks u
    function_landmarks : (s, p) scaled landmarks z, or None for z = u
    centred : whether they are features of points less the mean of their bag

    Examples
    --------
    >>> from bagwise.features.kernels import RBF
    >>> scaling = Scaling.of(np.zeros(1), np.ones(1))
    >>> LandmarkFeatures(RBF(1.0), scaling, np.array([[0.0], [1.0]]))(np.zeros((1, 1))).round(3)
    array([[1.   , 0.607]])
    """

    kernel: Kernel
    scaling: Scaling
    landmarks: Float64[np.ndarray, "d p"]
    function_landmarks: Float64[np.ndarray, "s p"] | None = None
    centred: bool = False

    @property
    def n_outputs(self) -> int:
        """Number of landmarks d."""
        return len(self.landmarks)

    @property
    def same_landmarks(self) -> bool:
        """Whether z = u."""
        return self.function_landmarks is None

    @property
    def _z(self) -> Float64[np.ndarray, "s p"]:
        return self.landmarks if self.function_landmarks is None else self.function_landmarks

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the kernel values (n, d)."""
        return self.kernel(self.scaling(points), self.landmarks)

    def weight_gram(self) -> Float64[np.ndarray, "s s"]:
        """Return k(z, z)."""
        return self.kernel(self._z, self._z)

    def kernel_prior(self) -> PriorGram:
        """Return k between u and z."""
        u, z = self.landmarks, self._z
        return PriorGram(self.kernel(u, u), self.kernel(u, z), self.kernel(z, z))

    def convolved_prior(self, length: float) -> tuple[PriorGram, PriorGram]:
        """Return the convolved kernel between u and z, and its derivative in log ℓ."""
        u, z = self.landmarks, self._z
        uu, d_uu = convolved(self.kernel, u, u, length)
        if self.function_landmarks is None:
            return PriorGram(uu, uu, uu), PriorGram(d_uu, d_uu, d_uu)
        uz, d_uz = convolved(self.kernel, u, z, length)
        zz, d_zz = convolved(self.kernel, z, z, length)
        return PriorGram(uu, uz, zz), PriorGram(d_uu, d_uz, d_zz)


@dataclass(frozen=True, eq=False)
class FourierFeatures:
    """Random Fourier features: k(x, y) ≈ φ(x)·φ(y).

    φ(x) = m^(-1/2) [cos ω_1·x … cos ω_m·x, sin ω_1·x … sin ω_m·x],  ω ~ spectral density of k

    They are orthonormal coordinates of the RKHS, so r = k and K_z are identity matrices.

    References
    ----------
    Rahimi and Recht (2007), Random features for large-scale kernel machines.

    Examples
    --------
    >>> features = FourierFeatures(Scaling.of(np.zeros(1), np.ones(1)), np.array([[0.5]]))
    >>> features(np.zeros((1, 1)))
    array([[1., 0.]])
    """

    scaling: Scaling
    frequencies: Float64[np.ndarray, "m p"]
    centred: bool = False

    @property
    def n_outputs(self) -> int:
        """Number of features d = 2m."""
        return 2 * len(self.frequencies)

    @property
    def same_landmarks(self) -> bool:
        """Whether z = u: it is."""
        return True

    def __call__(self, points: Float[np.ndarray, "n p"]) -> Float64[np.ndarray, "n d"]:
        """Return the cosines and sines (n, d)."""
        angles = self.scaling(points) @ self.frequencies.T
        return np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(len(self.frequencies))

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
            "the convolved prior was asked for with random Fourier features",
            "landmarks, at which it has a closed form",
            'Use KernelEmbedding() or prior="kernel".',
        )
