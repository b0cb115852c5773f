"""The likelihood of a gamma bag's label when every entry carries Gaussian noise.

With a = y/2 and noise of standard deviation s, the density of one entry x is

    f(x | y) = a^a / Gamma(a)  integral over t > 0 of  t^(a-1) exp(-a t) N(x; t, s^2) dt

which has no elementary form. A bag needs the sum of log f over thousands of entries as a function
of y, so the logarithm is integrated once on a grid and interpolated, to near machine precision:

- in y by one Chebyshev polynomial on [4, 8], with the factor a^a / Gamma(a) kept exact;
- in x by one Chebyshev polynomial per cell, so that a bag enters only through the sums, cell by
  cell, of the polynomials at its entries.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy.special import expit, gammaln

from bagwise.bags.bags import Bags
from bagwise.datasets.gamma import LABEL_RANGE
from bagwise.exceptions import BagwiseError

LOWER, UPPER = LABEL_RANGE

# Trapezoidal rule in v, where t = s log(1 + e^v), about the mode of the integrand. To its left the
# integrand falls at least like e^(2 v), to its right at least like a Gaussian of unit width.
STEP = 0.2  # discretisation error below 1e-15 for y <= 8
RULE = STEP * np.arange(-100, 48)  # down to 1e-17 of the mode on both sides

N_LABELS = 24  # Chebyshev nodes in y: the last coefficients are rounding, as long as s <= 3
N_ENTRIES = 14  # Chebyshev nodes in x per cell, where coefficients fall by 13 per degree or faster
# Cells. log f is singular at the complex zeros of f, which keep a few s away from [0, 4 s^2] and
# lie along rays from it: cells are s wide up to REACH s from there, and then in proportion.
REACH = 4.0
GROWTH = 1.4
BATCH = 64  # bags at a time: some 3 MB per array for bags of 1,000 points


def noisy_log_density(x: ArrayLike, y: ArrayLike, noise_sd: float) -> Float[np.ndarray, "..."]:
    """Log density of entries ``x`` of a bag with label ``y``, which broadcast together.

    Parameters
    ----------
    x : entries, any real numbers
    y : labels in [4, 8]
    noise_sd : standard deviation s > 0 of the noise

    Examples
    --------
    >>> noisy_log_density([-1.0, 1.0, 3.0], 6.0, 1.0).round(6)
    array([-2.584582, -1.052614, -2.590457])
    """
    x, y = np.broadcast_arrays(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
    if not (0 < noise_sd < np.inf and ((y >= LOWER) & (y <= UPPER)).all()):
        raise BagwiseError.because(
            f"noise_sd is {noise_sd}, labels are {y.min()} to {y.max()}",
            f"noise_sd > 0 and labels from {LOWER:g} to {UPPER:g}",
            "Without noise, use scipy.stats.gamma(a=y/2, scale=2/y).",
        )
    value = _log_factor(y.ravel()) + _log_integral(x.ravel(), 0.5 * y.ravel(), noise_sd)
    return value.reshape(x.shape)


def noisy_statistics(bags: Bags, noise_sd: float) -> Float[np.ndarray, "n k"]:
    """Statistics of each bag: its log likelihood is ``statistics @ noisy_basis(y)``.

    The first is the number of entries, the others are Chebyshev coefficients in y. A term that
    does not depend on y is left out. Interpolation adds less than 1e-12 per entry, for entries up
    to 8 s outside [0, 12]: all that are ever drawn.
    """
    points = np.asarray(bags.points, dtype=np.float64)
    edges = _cell_edges(points.min(), points.max(), noise_sd)
    table = _table(edges, noise_sd)
    statistics = np.empty((bags.n_bags, N_LABELS))
    statistics[:, 0] = bags.sizes * float(points.shape[1])
    for start in range(0, bags.n_bags, BATCH):
        offsets = bags.offsets[start : start + BATCH + 1]
        entries = points[offsets[0] : offsets[-1]].ravel()
        counts = np.diff(offsets) * points.shape[1]
        statistics[start : start + BATCH, 1:] = _cell_sums(entries, counts, edges) @ table
    return statistics


def noisy_basis(y: Float[np.ndarray, " m"]) -> Float[np.ndarray, "k m"]:
    """Functions of ``y`` that multiply the statistics: the exact factor, then T_1, T_2, ..."""
    basis = chebyshev.chebvander(_to_unit(y), N_LABELS - 1).T
    basis[0] = _log_factor(y)
    return basis


def _log_factor(y: np.ndarray) -> np.ndarray:
    """Logarithm of a^a / Gamma(a)."""
    a = 0.5 * y
    return a * np.log(a) - gammaln(a)


def _log_integral(x: np.ndarray, a: np.ndarray, noise_sd: float) -> np.ndarray:
    """Logarithm of the integral of t^(a-1) exp(-a t) N(x; t, s^2) over t > 0."""
    z = x / noise_sd - a * noise_sd
    root = np.hypot(z, 2.0 * np.sqrt(a))
    mode = np.where(z > 0, 0.5 * (z + root), 2.0 * a / (root + np.abs(z)))  # of t / s, roughly
    centre = mode + np.log(-np.expm1(-mode))  # log(1 + e^centre) = mode
    v = centre[..., None] + RULE
    t = noise_sd * np.logaddexp(0.0, v)
    a, x = a[..., None], x[..., None]
    exponent = (a - 1.0) * np.log(t) - a * t - 0.5 * ((x - t) / noise_sd) ** 2
    peak = exponent.max(axis=-1)
    # dt = s expit(v) dv, and s cancels with that of the normal density
    total = np.sum(np.exp(exponent - peak[..., None]) * expit(v), axis=-1)
    return peak + np.log(total * STEP) - 0.5 * np.log(2.0 * np.pi)


def _cell_edges(low: float, high: float, noise_sd: float) -> np.ndarray:
    """Edges of the cells that cover [low, high]: one noise_sd wide near 0, ever wider far away."""
    stop = 0.5 * UPPER * noise_sd  # 4 s^2, in units of s
    middle = np.linspace(-REACH, stop + REACH, int(np.ceil(stop + 2.0 * REACH)) + 1)
    left = _growing(-low / noise_sd)
    right = _growing(high / noise_sd - stop)
    edges = noise_sd * np.concatenate([-left[:0:-1], middle, stop + right[1:]])
    first = np.searchsorted(edges, low, side="right") - 1
    last = np.searchsorted(edges, high, side="left")
    return edges[first : max(last, first + 1) + 1]


def _growing(distance: float) -> np.ndarray:
    """REACH, REACH * GROWTH, ... until ``distance`` is passed."""
    n_steps = int(np.log(max(distance / REACH, 1.0)) / np.log(GROWTH)) + 2
    return REACH * GROWTH ** np.arange(n_steps + 1)


def _table(edges: np.ndarray, noise_sd: float) -> Float[np.ndarray, "c k"]:
    """Coefficients of the log integral: (cells times polynomials in x, polynomials in y)."""
    x_unit, y_unit = (chebyshev.chebpts1(n) for n in (N_ENTRIES, N_LABELS))
    half = 0.5 * np.diff(edges)
    x = (edges[:-1] + half)[:, None] + half[:, None] * x_unit
    a = 0.5 * (LOWER + 0.5 * (UPPER - LOWER) * (y_unit + 1.0))
    values = np.stack([_log_integral(x, np.full_like(x, shape), noise_sd) for shape in a], axis=-1)
    coefficients = np.einsum("ki,cil,jl->ckj", _analysis(x_unit), values, _analysis(y_unit))
    # T_0(y) = 1: without effect on the posterior
    return coefficients[:, :, 1:].reshape(-1, N_LABELS - 1)


def _analysis(nodes: np.ndarray) -> np.ndarray:
    """Matrix that takes values at Chebyshev ``nodes`` to the coefficients of the interpolant."""
    matrix = chebyshev.chebvander(nodes, nodes.size - 1).T * (2.0 / nodes.size)
    matrix[0] *= 0.5
    return matrix


def _cell_sums(entries: np.ndarray, counts: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Add up T_0, T_1, ... of the entries of each bag in each cell: (bags, cells * N_ENTRIES)."""
    n_cells = edges.size - 1
    cell = np.clip(np.searchsorted(edges, entries, side="right") - 1, 0, n_cells - 1)
    half = 0.5 * np.diff(edges)
    local = (entries - (edges[:-1] + half)[cell]) / half[cell]
    place = np.repeat(np.arange(counts.size) * n_cells, counts) + cell
    sums = np.empty((counts.size * n_cells, N_ENTRIES))
    before, value, double = local, np.ones_like(local), 2.0 * local
    for k in range(N_ENTRIES):
        sums[:, k] = np.bincount(place, weights=value, minlength=counts.size * n_cells)
        before, value = value, double * value - before
    return sums.reshape(counts.size, -1)


def _to_unit(y: np.ndarray) -> np.ndarray:
    """Take [4, 8] to [-1, 1]."""
    return (2.0 * y - (UPPER + LOWER)) / (UPPER - LOWER)
