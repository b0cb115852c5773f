"""What labels say of a Gaussian process with a given Gram matrix A, with exact derivatives.

Real labels in closed form (:func:`regress`), classes by expectation propagation
(:func:`propagate`), counts by Laplace's approximation (:func:`laplace`).

References
----------
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, sections 3.4, 3.6 and
5.4–5.5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np
from jaxtyping import Float64
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs, solve_triangular
from scipy.linalg.blas import dger

from bagwise.inference.sites import Sites, change, log_of_sites, sites_of
from bagwise.likelihoods.base import Bend, Linked
from bagwise.likelihoods.probit import Probit

Vector = Float64[np.ndarray, " n"]
Matrix = Float64[np.ndarray, "n n"]
Place = Float64[np.ndarray, " q"]

# Least variance added to the diagonal, for labels of variance 1: keeps A well conditioned.
JITTER = 1e-8

# Steps of Newton's method to the mode of latent values, when it ends, and how often a step that
# leads uphill is halved: rounding error does, at the mode.
NEWTON_STEPS = 50
NEWTON_TOLERANCE = 1e-9
HALVINGS = 40

# Sweeps of expectation propagation, at most, the largest change of a label's part after which they
# end, and the least share of it that stays where sweeps are extrapolated.
SWEEPS = 60
SWEEP_TOLERANCE = 1e-6
LEAST_STAYS = 0.1

# Of the change that a sweep asks for so much is made: in doubt less, but never next to nothing, and
# then little by little more again. A share that only fell stood still before the end.
SLOWER, FASTER = 0.5, 1.5
LEAST_SHARE = 0.1

# Steps of a repetition from which it is extrapolated where it leads.
REMEMBERED = 5


@dataclass(frozen=True, eq=False)
class Conditional:
    """What the labels say of a process with the Gram matrix A.

    Attributes
    ----------
    loss : −log evidence
    alpha : (n,); the mean at a new bag is k·α
    precision : (n, n), P; the variance at a new bag falls by k^T P k
    slope : (n, n), of the loss in A
    by_noise : (n,), of the loss in the noise of each bag
    sites : s and ν of expectation propagation, from which it may start again
    moved : how far its last sweep would still have moved a label's part
    """

    loss: float
    alpha: Vector
    precision: Matrix
    slope: Matrix
    by_noise: Vector
    sites: Sites | None = None
    moved: float = 0.0


def regress(gram: Matrix, noise: Vector, labels: Vector) -> Conditional:
    """Condition on real labels, y ~ N(0, A + V) with V = diag(noise).

    −log p(y) = ½ y·α + ½ log|A + V| + constant,   P = (A + V)^-1,   α = P y,   slope ½ (P − αα^T)

    Examples
    --------
    >>> fit = regress(np.eye(1), np.ones(1), np.array([2.0]))
    >>> fit.alpha.round(6), fit.slope.round(6)
    (array([1.]), array([[-0.25]]))
    """
    matrix = gram.copy()
    matrix[np.diag_indices_from(matrix)] += noise + JITTER
    factor = _factor(matrix)
    half_log_det = float(np.sum(np.log(np.diagonal(factor))))
    precision = inverse_of(factor)
    alpha = precision @ labels
    loss = 0.5 * float(labels @ alpha) + half_log_det
    slope = _slope(precision, alpha)
    return Conditional(loss, alpha, precision, slope, np.diagonal(slope))


def _slope(precision: Matrix, alpha: Vector) -> Matrix:
    """Return ½ (P − αα^T), which like P is symmetric."""
    return dger(-0.5, alpha, alpha, a=0.5 * precision.T, overwrite_a=True)


def laplace(
    gram: Matrix, noise: Vector, weights: Vector, labels: Vector, likelihood: Linked
) -> Conditional:
    """Condition on classes or counts, by Laplace's approximation around the most probable values.

    With W the curvature of −log p there and B = I + W^½ A W^½, P = W^½ B^-1 W^½.

    Parameters
    ----------
    gram : (n, n), A
    noise : (n,), noise level of each bag, of likelihoods that have one
    weights : (n,), of the labels' log probabilities
    labels : (n,);  likelihood : Linked

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> one = np.ones(2)
    >>> laplace(np.eye(2), one, one, np.array([-1.0, 1.0]), Probit()).alpha.round(2)
    array([-0.51,  0.51])
    """
    matrix = gram + JITTER * np.eye(len(labels))

    bend_at = partial(bend_of, likelihood, labels, noise)
    alpha, _, bend, value = to_mode(bend_at, weights, Duals(matrix), np.zeros(len(labels)))
    half = np.sqrt(weights * bend.second)
    factor = _laplace_factor(matrix, half)
    loss = value + float(np.sum(np.log(np.diagonal(factor))))
    precision = inverse_of(factor)
    precision *= half[:, None] * half
    through = precision @ matrix
    left_var = np.diagonal(matrix) - np.sum(through * matrix, axis=0)
    pull = 0.5 * weights * left_var * bend.third  # of ½ log|B| in the mode
    moved = pull - through @ pull  # (I + WA)^-1 of it: the mode moves with A
    slope, cross = _slope(precision, alpha), np.multiply.outer(0.5 * moved, alpha)
    slope += cross
    slope += cross.T
    by_noise = weights * (
        bend.noise_value + 0.5 * left_var * bend.noise_second - (matrix @ moved) * bend.noise_first
    )
    return Conditional(loss, alpha, precision, slope, by_noise)


def sites_at_mode(bend: Bend, weights: Vector, latent: Vector) -> Sites:
    """Return the sites of Laplace's approximation, from which to start."""
    return weights * bend.second, weights * (bend.second * latent - bend.first)


def propagate(
    gram: Matrix,
    weights: Vector,
    labels: Vector,
    likelihood: Probit,
    sites: Sites | None = None,
) -> Conditional:
    """Condition on classes by expectation propagation, far nearer to the truth than Laplace.

    Laplace's values are those of the mode; where classes are clear the posterior is skewed, its
    mean is further out, and probabilities made of the mode are not as sure as they should be. Each
    label is replaced by exp(ν_i f − ½ s_i f²) such that mean and variance of f_i are those with the
    label itself in its place, all others being replaced. With D = diag(s), n = ν and Σ =
    (A^-1 + D)^-1,

    log p ≈ Σ_i c_i + ½ n·Σn − ½ log|I + DA|,   P = (A + D^-1)^-1,   α = n − DΣn

    and the slope is ½ (P − αα^T), as for real labels,

    where c_i is the log of what the label integrates to, less that of what replaces it. A label of
    weight w has the probability p(y | f)^w.

    Parameters
    ----------
    gram : (n, n), A;  weights : (n,);  labels : (n,), −1 or +1
    likelihood : Probit
    sites : s and ν (n,) to start from, by default those at the mode

    References
    ----------
    Kuss and Rasmussen (2005), Assessing approximate inference for binary Gaussian process
    classification. Rasmussen and Williams (2006), section 3.6.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> one = np.ones(1)
    >>> float(np.exp(-propagate(np.eye(1), one, one, Probit()).loss).round(6))  # Φ(0)
    0.5
    """
    matrix = gram + JITTER * np.eye(len(labels))
    none = np.zeros(len(labels))
    if sites is None:
        bend_at = partial(bend_of, likelihood, labels, none)
        _, mean, bend, _ = to_mode(bend_at, weights, Duals(matrix), none)
        sites = sites_at_mode(bend, weights, mean)
    pace = Pace()
    for _ in range(SWEEPS):
        curve, pull = sites
        half = np.sqrt(curve)
        factor = _laplace_factor(matrix, half)
        inner = solve_triangular(factor, half[:, None] * matrix, lower=True, check_finite=False)
        var = np.maximum(np.diagonal(matrix) - np.sum(inner**2, axis=0), JITTER)
        mean = matrix @ pull - inner.T @ (inner @ pull)
        # what is known of f_i without its label: no less than before there were any labels
        left = np.maximum(1.0 - curve * var, var / np.diagonal(matrix))
        around, spread = (mean - var * pull) / left, var / left
        value, new = sites_of(likelihood, labels, weights, around, spread)
        moved = change(sites, new)
        if moved < SWEEP_TOLERANCE:
            break
        sites = pace.ahead(sites, new, moved)
    loss = float(np.sum(value + log_of_sites(sites, around, spread))) - 0.5 * float(pull @ mean)
    loss += float(np.sum(np.log(np.diagonal(factor))))
    precision = inverse_of(factor)
    precision *= half[:, None] * half
    alpha = pull - curve * mean
    return Conditional(loss, alpha, precision, _slope(precision, alpha), none, (curve, pull), moved)


def extrapolated(
    tried: list[tuple[Float64[np.ndarray, " k"], Float64[np.ndarray, " k"]]], share: float
) -> Float64[np.ndarray, " k"]:
    """Return where x ↦ x + change(x) has no change, as the last that were tried, (x, change), say.

    Anderson's: the affine combination of them of the least change, and a share of that change.

    References
    ----------
    Walker and Ni (2011), Anderson acceleration for fixed-point iterations.

    Examples
    --------
    >>> tried = [(np.array([x]), np.array([3.0 - 2.0 * x])) for x in (0.0, 1.0)]
    >>> extrapolated(tried, 0.5).round(6)
    array([1.5])
    """
    places, changes = (np.array(rows) for rows in zip(*tried[-REMEMBERED - 1 :], strict=True))
    ways, by_way = np.diff(places, axis=0), np.diff(changes, axis=0)
    place, change = places[-1], changes[-1]
    if len(ways):
        shares = np.linalg.lstsq(by_way.T, change)[0]
        place, change = place - shares @ ways, change - shares @ by_way
    return place + share * change


class Pace:
    """How far a sweep goes: to where the last few lead, and slower where they swing."""

    def __init__(self) -> None:
        self._moved, self._share = np.inf, 1.0
        self._tried: list[tuple[Float64[np.ndarray, " k"], Float64[np.ndarray, " k"]]] = []

    def ahead(self, sites: Sites, new: Sites, moved: float) -> Sites:
        """Return the sites to try next, given those that a sweep made of some.

        Examples
        --------
        >>> pace, sites = Pace(), (np.ones(1), np.zeros(1))
        >>> for _ in range(3):
        ...     new = 3.0 - 2.0 * sites[0], sites[1]  # it swings, ever wider, around 1
        ...     sites = pace.ahead(sites, new, float(np.abs(new[0] - sites[0]).max()))
        >>> sites[0].round(6)
        array([1.])
        """
        if moved > self._moved:
            self._share, self._tried = max(SLOWER * self._share, LEAST_SHARE), []
        else:
            self._share = min(FASTER * self._share, 1.0)
        at = np.hstack(sites)
        self._moved, self._tried = moved, [*self._tried, (at, np.hstack(new) - at)]
        curve, pull = np.split(extrapolated(self._tried, self._share), 2)
        return np.maximum(curve, LEAST_STAYS * sites[0]), pull


def bend_of(likelihood: Linked, labels: Vector, noise: Vector, latent: Vector) -> Bend:
    """Return what a likelihood says of the labels; latent values come last."""
    return likelihood.bend(labels, latent, noise)


class Places(Protocol):
    """Coordinates in which latent values are linear."""

    def latent(self, at: Place) -> tuple[Vector, float]:
        """Return the latent values, and −log of their prior."""
        ...

    def newton(self, at: Place, slope: Vector, curve: Vector) -> Place:
        """Return the step to where the quadratic approximation is least.

        ``slope`` and ``curve`` are derivatives of −log p of the labels in the latent values.
        """
        ...


@dataclass(frozen=True, eq=False)
class Duals:
    """Latent values f = Aα, with the prior ½ α·f."""

    matrix: Matrix

    def latent(self, at: Vector) -> tuple[Vector, float]:
        """Return Aα and ½ α^T A α."""
        latent = self.matrix @ at
        return latent, 0.5 * float(at @ latent)

    def newton(self, at: Vector, slope: Vector, curve: Vector) -> Vector:
        """Return (I + WA)^-1 (−slope − α): of what is left, so that no digits cancel."""
        left, half = -slope - at, np.sqrt(curve)
        factor = _laplace_factor(self.matrix, half)
        inner = cho_solve((factor, True), half * (self.matrix @ left), check_finite=False)
        return left - half * inner


def to_mode(
    bend_at: Callable[[Vector], Bend], weights: Vector, places: Places, start: Place
) -> tuple[Place, Vector, Bend, float]:
    """Find the mode of latent values by Newton's method, with steps that lead uphill halved.

    Parameters
    ----------
    bend_at : latent values ↦ −log p of the labels and its derivatives;  weights : (n,), of the bags
    places : coordinates of latent values
    start : coordinates, at which latent values are those of the average bag

    Returns
    -------
    coordinates, latent values, their Bend, and −log of likelihood and prior
    """
    at = start
    latent, penalty = places.latent(at)
    bend = bend_at(latent)
    value = penalty + float(weights @ bend.value)
    for _ in range(NEWTON_STEPS):
        step = places.newton(at, weights * bend.first, weights * bend.second)
        before, share = value, 1.0
        for _ in range(HALVINGS):
            new = at + share * step
            latent, penalty = places.latent(new)
            bend = bend_at(latent)
            value = penalty + float(weights @ bend.value)
            if value <= before + NEWTON_TOLERANCE * len(weights):
                break
            share *= 0.5
        at = new
        if before - value < NEWTON_TOLERANCE * len(weights):
            break
    return at, latent, bend, value


def inverse_of(factor: Matrix) -> Matrix:
    """Return the inverse of L L^T, given L with zeros above its diagonal; L is overwritten."""
    (potri,) = get_lapack_funcs(("potri",), (factor,))
    lower, info = potri(factor, lower=True, overwrite_c=True)
    if info:
        raise np.linalg.LinAlgError
    inverse = lower + lower.T  # which stays symmetric to the last bit
    inverse[np.diag_indices_from(inverse)] *= 0.5
    return inverse


def _laplace_factor(matrix: Matrix, half: Vector) -> Matrix:
    """Return the Cholesky factor of I + W^½ A W^½."""
    inner = matrix * half[:, None] * half
    inner[np.diag_indices_from(inner)] += 1.0
    return _factor(inner)


def _factor(matrix: Matrix) -> Matrix:
    """Return the Cholesky factor of a matrix that is overwritten, as its columns are its rows."""
    return cholesky(matrix.T, lower=True, overwrite_a=True, check_finite=False)
