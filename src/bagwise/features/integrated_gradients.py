"""Integrated gradients: the part of each column in the change of a function between two points.

On the straight way x(t) = a + t(x − a), the fundamental theorem of calculus gives

    f(x) − f(a) = Σ_j c_j,      c_j = (x_j − a_j) ∫ ∂f/∂x_j (x(t)) dt

(Aumann and Shapley's value of column j), here of f = v·φ.

References
----------
Sundararajan, Taly and Yan (2017), Axiomatic attribution for deep networks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from jaxtyping import Float, Float64
from scipy.spatial.distance import cdist

from bagwise.features.kernels import RBF, Additive, Kernel, Linear, Matern, Mixed
from bagwise.features.maps import Features, FourierFeatures, LandmarkFeatures
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures

Matrix = Float64[np.ndarray, "n p"]
Landmarks = Float64[np.ndarray, "d p"]
Weights = Float64[np.ndarray, " d"]

# Kernel values worked on at once: 16 MB.
BLOCK_ELEMENTS = 1 << 21

# Nodes on the way, and more for each bandwidth that it is long. Measured for the RBF kernel on ways
# of up to 20 bandwidths: 1e-10 of the change or better.
LEAST_NODES = 24
NODES_PER_BANDWIDTH = 6
MOST_NODES = 256

# Step of central differences, in standardised columns, for kernels without a formula here.
STEP = 1e-5

# Distance, over the bandwidth, below which that of the Matérn kernel of smoothness 1/2 counts as so
# much: its slope jumps at the landmark.
TINY = 1e-8


def split_by_column(
    features: Features, weights: Weights, points: Float[np.ndarray, "n p"]
) -> Matrix:
    """Return c (n, p) for f = v·φ on the ways from the features' centre to the points.

    They add up to f(x) − f(a) in each row but for rounding.

    Parameters
    ----------
    features : Features;  weights : (d,), v;  points : (n, p), in units of the input

    Examples
    --------
    >>> from bagwise.features.maps import Scaling
    >>> u = np.array([[1.0, 0.0]])
    >>> features = LandmarkFeatures(Linear(), Scaling.of(np.zeros(2), np.ones(2)), u)
    >>> split_by_column(features, np.array([2.0]), np.array([[3.0, 5.0]]))
    array([[6., 0.]])
    """
    assert isinstance(
        features, LandmarkFeatures | FourierFeatures | NetworkFeatures | UserNetworkFeatures
    )
    x = features.scaling(points)
    if isinstance(features, NetworkFeatures) and not features.image_shape:
        return _network(features, weights, x)
    if isinstance(features, UserNetworkFeatures):
        return _of_function(lambda y: features.outputs(y) @ weights, x)
    if isinstance(features, NetworkFeatures):
        layers = features.weights, features.biases
        return _of_function(lambda y: features.forward(y, *layers, np) @ weights, x)
    if isinstance(features, FourierFeatures):
        return _fourier(features.frequencies, weights, x)
    step = max(1, BLOCK_ELEMENTS // len(features.landmarks))
    blocks = [x[start : start + step] for start in range(0, len(x), step)]
    parts = [_landmarks(features.kernel, features.landmarks, weights, block) for block in blocks]
    return np.concatenate(parts)


def _landmarks(kernel: Kernel, u: Landmarks, v: Weights, x: Matrix) -> Matrix:
    """Split f(x) − f(0), f = Σ_l v_l k(·, u_l), where 0 is the centre."""
    if isinstance(kernel, Linear):
        return x * (v @ u)
    if isinstance(kernel, Additive):
        columns = [slice(j, j + 1) for j in range(x.shape[1])]
        parts = [_landmarks(kernel.base, u[:, j], v, x[:, j]) for j in columns]
        return np.hstack(parts) / x.shape[1]
    if isinstance(kernel, Mixed):
        mixed = [_landmarks(part, u, v, x) for part in kernel.parts(x.shape[1])]
        return sum(mixed[1:], start=mixed[0]) / len(mixed)
    change = (kernel(x, u) - kernel(np.zeros_like(x[:1]), u)) @ v
    if x.shape[1] == 1:
        return change[:, None]
    if isinstance(kernel, RBF | Matern):
        raw = _radial(kernel, u, v, x)
    else:
        raw = _differences(lambda y: kernel(y, u) @ v, x, kernel.bandwidth or 1.0)
    return raw + _share(x) * (change - raw.sum(axis=1))[:, None]


def _radial(kernel: RBF | Matern, u: Landmarks, v: Weights, x: Matrix) -> Matrix:
    """Return 2 x_j Σ_l v_l (−u_lj) ∫ g'(q_l(t)) dt for k = g(q), q = ‖x − y‖².

    What is missing is x_j² times a number that does not depend on j, so that it follows from the
    sum of the columns, and one integral per landmark does for all of them.
    """
    nodes, shares = _nodes(x, kernel._scale())
    integral = np.zeros((len(x), len(u)))
    for t, share in zip(nodes, shares, strict=True):
        integral += share * _slope(kernel, t * x, u)
    return -2.0 * x * (integral @ (v[:, None] * u))


def _slope(kernel: RBF | Matern, x: Matrix, u: Landmarks) -> Float64[np.ndarray, "n d"]:
    """Return g'(q), the derivative of the kernel in the squared distance."""
    scale = kernel._scale()
    if isinstance(kernel, RBF):
        return -0.5 / scale**2 * kernel(x, u)
    nu = kernel.smoothness
    t = np.sqrt(2.0 * nu) / scale * cdist(x, u)
    decay = -nu / scale**2 * np.exp(-t)
    if nu == 0.5:
        return decay / np.maximum(t, TINY)
    return decay if nu == 1.5 else decay * (1.0 + t) / 3.0


def _network(features: NetworkFeatures, v: Weights, x: Matrix) -> Matrix:
    """Split f(x) − f(0) of a network by the slope of its layers along the way."""
    nodes, shares = _nodes(x, 1.0)
    raw = np.zeros_like(x)
    for t, share in zip(nodes, shares, strict=True):
        held, outputs = [], t * x
        for weight, bias in zip(features.weights, features.biases, strict=True):
            outputs = np.tanh(outputs @ weight + bias)
            held.append(outputs)
        back = np.broadcast_to(v, held[-1].shape)
        for weight, outputs in zip(features.weights[::-1], held[::-1], strict=True):
            back = (back * (1.0 - outputs**2)) @ weight.T
        raw += share * x * back
    ends = (features.forward(y, features.weights, features.biases, np) @ v for y in (x, 0.0 * x))
    change = next(ends) - next(ends)
    return raw + _share(x) * (change - raw.sum(axis=1))[:, None]


def _of_function(f: Callable[[Matrix], np.ndarray], x: Matrix) -> Matrix:
    """Split f(x) − f(0) of any smooth function of scaled points."""
    raw = _differences(f, x, 1.0)
    change = f(x) - f(np.zeros_like(x[:1]))
    return raw + _share(x) * (change - raw.sum(axis=1))[:, None]


def _differences(f: Callable[[Matrix], np.ndarray], x: Matrix, bandwidth: float) -> Matrix:
    """Return the integrated gradients of any function, by central differences."""
    nodes, shares = _nodes(x, bandwidth)
    total = np.zeros_like(x)
    for t, share in zip(nodes, shares, strict=True):
        for j, shift in enumerate(STEP * np.eye(x.shape[1])):
            change = f(t * x + shift) - f(t * x - shift)
            total[:, j] += share * change / (2.0 * STEP)
    return x * total


def _nodes(x: Matrix, bandwidth: float) -> tuple[np.ndarray, np.ndarray]:
    """Return Gauss and Legendre's nodes and weights on (0, 1), enough for the longest way."""
    length = float(np.sqrt(np.max(np.sum(x**2, axis=1)))) / bandwidth
    wanted = LEAST_NODES + NODES_PER_BANDWIDTH * min(length, MOST_NODES)
    nodes, shares = np.polynomial.legendre.leggauss(min(int(wanted), MOST_NODES))
    return 0.5 * (nodes + 1.0), 0.5 * shares


def _share(x: Matrix) -> Matrix:
    """Return x_j²/‖x‖², 0 at the centre itself."""
    squares = x**2
    total = squares.sum(axis=1, keepdims=True)
    return np.divide(squares, total, out=np.zeros_like(squares), where=total > 0)


def _fourier(omega: Float64[np.ndarray, "m p"], v: Weights, x: Matrix) -> Matrix:
    """Split Σ_m (a_m (cos θ_m − 1) + b_m sin θ_m), θ = ω·x: column j has the share x_j ω_j/θ."""
    m = len(omega)
    total = np.empty_like(x)
    step = max(1, BLOCK_ELEMENTS // m)
    for start in range(0, len(x), step):
        rows = slice(start, start + step)
        half = x[rows] @ omega.T / 2.0
        # sin θ/θ and (cos θ − 1)/θ, also where θ = 0
        over = v[m:] * np.sinc(2.0 * half / np.pi) - v[:m] * np.sin(half) * np.sinc(half / np.pi)
        total[rows] = x[rows] * (over @ omega) / np.sqrt(m)
    return total
