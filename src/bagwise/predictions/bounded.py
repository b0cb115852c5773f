"""A prediction of labels whose range is known: a Gaussian that is cut at its ends."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import truncnorm

from bagwise._utils.levels import LEVEL, check_level
from bagwise.predictions.gaussian import LOG_TWO_PI, Generator, Prediction
from bagwise.predictions.latent import Latent
from bagwise.predictions.linked import ReshapedPrediction
from bagwise.predictions.parts import VarianceParts

# Probability of the range below which the closed form of the score has lost ten digits of sixteen,
# and the quantiles that take its place.
LEAST_MASS = 1e-6
LEVELS = (np.arange(400) + 0.5) / 400

# Of a mean so many standard deviations from both ends of the range the cut is not felt, and an end
# so many away is none. A mean is at least so many inside: nearer to an end the distribution would
# be as narrow as it is near. The standard deviation of a uniform distribution, over its width; and
# the least one, in units of the mean's last digit.
FAR_INSIDE = 8.0
NO_END = 1e100
LEAST_INSIDE = 0.5
UNIFORM_SD = 12.0**-0.5
ULPS = 64

# The flattest Gaussian that is cut, as the curvature of its log, in units of the variance asked
# for: it is all but uniform, or exponential near one end.
FLATTEST = 0.01

# How far integrals reach, in standard deviations, and their nodes; steps of Newton's method, and
# how often one is halved; when it ends; and bags at once.
REACH = 12.0
NODES, SHARES = np.polynomial.legendre.leggauss(80)
STEPS, HALVINGS, TOLERANCE = 40, 20, 1e-9
BLOCK = 2000

Vector = Float[np.ndarray, " n"]


class BoundedPrediction(ReshapedPrediction):
    """Predictive distribution of labels in [lower, upper].

    p(y_i) ∝ N(y_i; location_i, scale_i²) for lower ≤ y_i ≤ upper, and 0 elsewhere,

    with the mean and the variance that are given: of all distributions in the range that have them,
    the one of the largest entropy. Where no Gaussian that is cut has them, for a variance that is
    too large, or a mean outside of the range or nearer to its end than half a standard deviation
    (that given, or the uniform one if it is less), it is nearly uniform, or exponential towards the
    end that is near; the parts of the variance are then less than those given, in the same shares.

    Intervals are the shortest that hold the probability asked for, so that one of a label that is
    near an end of the range begins there: a central one would leave out what is most probable.

    Parameters
    ----------
    mean : (n,) array;  parts : VarianceParts
    support : (lower, upper), of which one may be infinite
    known : sizes, ids, query, as in `Prediction`

    References
    ----------
    Jaynes (1957), Information theory and statistical mechanics.

    Examples
    --------
    >>> parts = VarianceParts.broadcast(2, noise=1.0)
    >>> p = BoundedPrediction([1.2, 9.0], parts, support=(0.0, np.inf))
    >>> p.mean.round(3), p.std.round(3)
    (array([1.2, 9. ]), array([1., 1.]))
    >>> p.interval(0.9).round(2)
    array([[ 0.  ,  2.6 ],
           [ 7.36, 10.64]])
    """

    target = "latent value (the label, were its range not known)"

    def __init__(
        self,
        mean: ArrayLike,
        parts: VarianceParts,
        *,
        support: tuple[float, float],
        **known: Any,
    ) -> None:
        self._support = support
        asked = np.maximum(parts.total, np.finfo(float).tiny)
        self._location, self._scale = cut_gaussian(np.asarray(mean, np.float64), asked, support)
        self._bounds = tuple(_away_from(self._location, self._scale, bound) for bound in support)
        law = truncnorm(*self._bounds)
        inside = np.clip(self._location + self._scale * law.mean(), *support)
        share = np.clip(self._scale**2 * law.var() / asked, 0.0, 1.0)
        scaled = {name: share * part for name, part in parts.to_dict().items()}
        self._made(Prediction(mean, parts, **known), inside, VarianceParts(**scaled))

    @classmethod
    def from_latent(cls, latent: Latent, **known: Any) -> BoundedPrediction:
        """Return the prediction of labels that are a latent value, and noise, within a range."""
        plain = Prediction.from_latent(latent)
        return cls(plain.mean, plain.parts, **known)

    def _of(self, plain: Prediction, rows: Any) -> BoundedPrediction:
        known = {"sizes": plain.sizes, "ids": plain.ids, "query": plain._query}
        return BoundedPrediction(plain.mean, plain.parts, support=self._support, **known)

    @property
    def support(self) -> tuple[float, float]:
        """The range of the labels."""
        return self._support

    @property
    def location(self) -> Float[np.ndarray, " n"]:
        """Means of the Gaussians before they are cut, which may lie outside the range."""
        return self._location

    @property
    def scale(self) -> Float[np.ndarray, " n"]:
        """Standard deviations of the Gaussians before they are cut."""
        return self._scale

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Shortest interval that holds probability ``level``: columns lower, upper.

        It lies around the peak of the density, [−c, c] in units of the scale, where that is in the
        range; else it begins at the end that is near.
        """
        check_level(level)
        lower, upper = (ndtr(bound) for bound in self._bounds)
        mass = np.maximum(upper - lower, np.finfo(float).tiny)
        below = (0.5 - lower - 0.5 * level * mass) / mass  # Φ(−c) = (1 − level·mass)/2
        first = np.clip(below, 0.0, 1.0 - level)
        ends = self._value(truncnorm.ppf([first, np.minimum(first + level, 1.0)], *self._bounds))
        ends[0, first == 0.0] = self._support[0]  # to the last digit: labels may be just there
        ends[1, first == 1.0 - level] = self._support[1]
        return ends.T

    def _value(self, z: np.ndarray) -> np.ndarray:
        """Return the labels at z (..., n) in units of the Gaussians."""
        return np.clip(self._location + self._scale * z, *self._support)

    def _nearest(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        return np.clip((y - self._location) / self._scale, *self._bounds)

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return self._value(truncnorm.ppf(q[:, None], *self._bounds)).T

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        inside = truncnorm.cdf(self._nearest(y), *self._bounds)
        return np.where(y < self._support[0], 0.0, np.where(y >= self._support[1], 1.0, inside))

    def _level_at(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the probability of what is as near to the peak of the Gaussian."""
        near = np.abs(self._nearest(y))
        ends = (np.clip(z, *self._bounds) for z in (-near, near))
        below, above = (truncnorm.cdf(z, *self._bounds) for z in ends)
        inside = (y >= self._support[0]) & (y <= self._support[1])
        return np.where(inside, above - below, 1.0)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        self._require_density(self._plain.var)
        inside = truncnorm.logpdf(self._nearest(y), *self._bounds) - np.log(self._scale)
        outside = (y < self._support[0]) | (y > self._support[1])
        return np.where(outside, -np.inf, inside)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the scores, where the range is improbable by quantiles.

        |z − z'| + z' {2Φ(z') − Φ(l) − Φ(u)}/P + 2φ(z')/P − {Φ(√2 u) − Φ(√2 l)}/(√π P²)

        in units of the scale; P = Φ(u) − Φ(l), z is the label and z' the nearest of the range.
        """
        lower, upper = self._bounds
        near, mass = self._nearest(y), ndtr(upper) - ndtr(lower)
        safe = np.where(mass > LEAST_MASS, mass, 1.0)
        density = np.exp(-0.5 * (near**2 + LOG_TWO_PI))
        pairs = ndtr(np.sqrt(2.0) * upper) - ndtr(np.sqrt(2.0) * lower)
        score = near * (2.0 * ndtr(near) - ndtr(lower) - ndtr(upper)) / safe
        score = self._scale * (score + 2.0 * density / safe - pairs / (np.sqrt(np.pi) * safe**2))
        score = np.maximum(score, 0.0) + np.abs(y - np.clip(y, *self._support))
        few = np.flatnonzero(mass <= LEAST_MASS)
        if len(few):
            z = truncnorm.ppf(LEVELS[:, None], lower[few], upper[few]).T
            quantiles = self._location[few, None] + self._scale[few, None] * z
            error = y[few, None] - np.clip(quantiles, *self._support)
            score[few] = 2.0 * np.mean(error * (LEVELS - (error < 0)), axis=1)
        return score

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        return self._value(truncnorm.ppf(rng.uniform(size=(size, len(self))), *self._bounds))


def cut_gaussian(mean: Vector, var: Vector, support: tuple[float, float]) -> tuple[Vector, Vector]:
    """Return location and scale of Gaussians that have these moments once they are cut.

    In units u of the standard deviation from the mean, log p = θ1 u + θ2 u² − A(θ). The moments are
    right where A(θ) − θ2 is least, which is convex; θ2 ≤ −ε keeps it a Gaussian.

    Examples
    --------
    >>> location, scale = cut_gaussian(np.array([0.5, 0.3]), np.full(2, 0.04), (0.0, 1.0))
    >>> cut = truncnorm((0.0 - location) / scale, (1.0 - location) / scale, location, scale)
    >>> cut.mean().round(9), cut.var().round(9)
    (array([0.5, 0.3]), array([0.04, 0.04]))
    """
    low, high = support
    sd = np.minimum(np.sqrt(var), high - low)  # beyond, all are as good as uniform
    sd = np.maximum(sd, ULPS * np.spacing(np.abs(np.clip(mean, low, high))))  # a step is to be one
    room = LEAST_INSIDE * np.minimum(sd, (high - low) * UNIFORM_SD)
    location, scale = np.clip(mean, low + room, high - room), sd.copy()
    lower, upper = (np.clip(_away_from(location, sd, end), -REACH, REACH) for end in support)
    felt = np.flatnonzero(np.minimum(-lower, upper) < FAR_INSIDE)
    for first in range(0, len(felt), BLOCK):
        rows = felt[first : first + BLOCK]
        theta = _least(lower[rows], upper[rows])
        scale[rows] = sd[rows] / np.sqrt(-2.0 * theta[1])
        location[rows] -= 0.5 * sd[rows] * theta[0] / theta[1]
    return location, scale


def _away_from(location: Vector, scale: Vector, end: float) -> Vector:
    """Return how far an end of the range is, in units of the scale: far beyond all, infinite."""
    with np.errstate(over="ignore"):
        away = (end - location) / scale
    return np.where(np.abs(away) > NO_END, np.copysign(np.inf, away), away)


def _least(lower: Vector, upper: Vector) -> Float[np.ndarray, "2 n"]:
    """Return where A(θ) − θ2 is least for intervals of u, by Newton's method."""
    half = 0.5 * (upper - lower)[:, None]
    u = lower[:, None] + half * (1.0 + NODES)
    theta = np.tile([[0.0], [-0.5]], len(lower))
    value, slope, step, held = _around(theta, u, half)
    for _ in range(STEPS):
        if np.abs(np.where(held, 0.0, slope)).max() < TOLERANCE:
            break
        share = np.ones(len(lower))
        for _ in range(HALVINGS):
            new = theta + share * step
            new[1] = np.minimum(new[1], -FLATTEST)
            found = _around(new, u, half)
            worse = ~(found[0] <= value + TOLERANCE)
            if not worse.any():
                break
            share[worse] *= 0.5
        theta = np.where(worse, theta, new)
        value, slope, step, held = _around(theta, u, half) if worse.any() else found
    return theta


def _around(
    theta: Float[np.ndarray, "2 n"], u: Float[np.ndarray, "n k"], half: Float[np.ndarray, "n 1"]
) -> tuple[Vector, Float[np.ndarray, "2 n"], Float[np.ndarray, "2 n"], np.ndarray]:
    """Return A(θ) − θ2, its slope, Newton's step and which coordinates are held at their end."""
    log = (theta[0, :, None] + theta[1, :, None] * u) * u
    top = log.max(axis=1, keepdims=True)
    mass = half * SHARES * np.exp(log - top)
    total, moments = mass.sum(axis=1), list[Vector]()
    for _ in range(4):
        mass *= u
        moments.append(mass.sum(axis=1) / total)
    first, second, third, fourth = moments
    slope = np.stack([first, second - 1.0])
    own, both, other = second - first**2, third - first * second, fourth - second**2
    held = np.stack([np.zeros(len(u), bool), (theta[1] >= -FLATTEST) & (slope[1] < 0.0)])
    both = np.where(held[1], 0.0, both)
    determinant = own * other - both**2
    step = np.stack([both * slope[1] - other * slope[0], both * slope[0] - own * slope[1]])
    step = np.where(held, 0.0, step / determinant)
    return np.log(total) + top[:, 0] - theta[1], slope, step, held
