"""A prediction of labels whose range is known: the Gaussian, given that the label lies in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import truncnorm

from bagwise.predictions.gaussian import LOG_TWO_PI, Generator, Prediction
from bagwise.predictions.latent import Latent
from bagwise.predictions.linked import ReshapedPrediction
from bagwise.predictions.parts import VarianceParts

# Probability of the range below which closed forms lose their digits, and the quantiles that take
# their place.
LEAST_MASS = 1e-6
LEVELS = (np.arange(400) + 0.5) / 400

# A Gaussian further from its range than this, in standard deviations, is taken to be this far.
FARTHEST = 30.0


class BoundedPrediction(ReshapedPrediction):
    """Predictive distribution of labels in [lower, upper].

    p(y_i) ∝ N(y_i; location_i, var_i) for lower ≤ y_i ≤ upper, and 0 elsewhere

    Mean and variance are those of this distribution; the parts of the variance are those of the
    Gaussian, scaled so that they add up to it.

    Parameters
    ----------
    location : (n,) array, means of the Gaussians
    parts : VarianceParts of the Gaussians
    support : (lower, upper), of which one may be infinite
    known : sizes, ids, query, as in `Prediction`

    Examples
    --------
    >>> parts = VarianceParts.broadcast(2, noise=1.0)
    >>> p = BoundedPrediction([0.0, 9.0], parts, support=(0.0, np.inf))
    >>> p.mean.round(3), p.std.round(3)
    (array([0.798, 9.   ]), array([0.603, 1.   ]))
    >>> p.interval(0.9).round(2)
    array([[ 0.06,  1.96],
           [ 7.36, 10.64]])
    """

    def __init__(
        self,
        location: ArrayLike,
        parts: VarianceParts,
        *,
        support: tuple[float, float],
        **known: Any,
    ) -> None:
        self._support = support
        self._scale = np.sqrt(np.maximum(parts.total, np.finfo(float).tiny))
        reach = FARTHEST * self._scale
        low, high = support
        self._location = np.clip(np.asarray(location, dtype=np.float64), low - reach, high + reach)
        lower, upper = ((bound - self._location) / self._scale for bound in support)
        self._bounds = lower, upper
        law = truncnorm(lower, upper)
        mean = np.clip(self._location + self._scale * law.mean(), *support)
        share = np.clip(law.var(), 0.0, 1.0)
        scaled = {name: share * part for name, part in parts.to_dict().items()}
        self._made(Prediction(location, parts, **known), mean, VarianceParts(**scaled))

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
        """Means of the Gaussians, which may lie outside the range."""
        return self._location

    def _value(self, z: np.ndarray) -> np.ndarray:
        """Return the labels at z (..., n) in units of the Gaussians."""
        return np.clip(self._location + self._scale * z, *self._support)

    def _away(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        return np.clip((y - self._location) / self._scale, *self._bounds)

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return self._value(truncnorm.ppf(q[:, None], *self._bounds)).T

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        inside = truncnorm.cdf(self._away(y), *self._bounds)
        return np.where(y < self._support[0], 0.0, np.where(y >= self._support[1], 1.0, inside))

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        self._require_density(self._plain.var)
        inside = truncnorm.logpdf(self._away(y), *self._bounds) - np.log(self._scale)
        outside = (y < self._support[0]) | (y > self._support[1])
        return np.where(outside, -np.inf, inside)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return the scores, where the range is improbable by quantiles.

        |z − z'| + z' {2Φ(z') − Φ(l) − Φ(u)}/P + 2φ(z')/P − {Φ(√2 u) − Φ(√2 l)}/(√π P²)

        in units of the scale; P = Φ(u) − Φ(l), z is the label and z' the nearest of the range.
        """
        lower, upper = self._bounds
        near, mass = self._away(y), ndtr(upper) - ndtr(lower)
        safe = np.where(mass > LEAST_MASS, mass, 1.0)
        density = np.exp(-0.5 * (near**2 + LOG_TWO_PI))
        pairs = ndtr(np.sqrt(2.0) * upper) - ndtr(np.sqrt(2.0) * lower)
        score = near * (2.0 * ndtr(near) - ndtr(lower) - ndtr(upper)) / safe
        score = self._scale * (score + 2.0 * density / safe - pairs / (np.sqrt(np.pi) * safe**2))
        score = np.maximum(score, 0.0) + np.abs(y - np.clip(y, *self._support))
        few = np.flatnonzero(mass <= LEAST_MASS)
        if len(few):
            error = y[few, None] - np.atleast_2d(self[few].quantile(LEVELS))
            score[few] = 2.0 * np.mean(error * (LEVELS - (error < 0)), axis=1)
        return score

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        return self._value(truncnorm.ppf(rng.uniform(size=(size, len(self))), *self._bounds))
