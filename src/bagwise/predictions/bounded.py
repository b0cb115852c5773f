"""A prediction of labels whose range is known: the Gaussian, given that the label lies in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr
from scipy.stats import truncnorm

from bagwise.bags.per_bag import PerBag
from bagwise.predictions.gaussian import (
    LOG_TWO_PI,
    Prediction,
    Seed,
    check_probabilities,
    check_sampling,
    check_targets,
)
from bagwise.predictions.latent import Latent, Query
from bagwise.predictions.parts import VarianceParts

__all__ = ["BoundedPrediction"]

# Probability of the range below which closed forms lose their digits, and the quantiles that take
# their place.
LEAST_MASS = 1e-6
LEVELS = (np.arange(400) + 0.5) / 400

# A Gaussian further from its range than this, in standard deviations, is taken to be this far.
FARTHEST = 30.0


class BoundedPrediction(Prediction):
    """Predictive distribution of labels in [lower, upper].

    p(y_i) ∝ N(y_i; location_i, var_i) for lower ≤ y_i ≤ upper, and 0 elsewhere

    Mean and variance are those of this distribution; the parts of the variance are those of the
    Gaussian, scaled so that they add up to it.

    Parameters
    ----------
    location : (n,) array, means of the Gaussians
    parts : VarianceParts of the Gaussians
    support : (lower, upper), of which one may be infinite
    sizes, ids, query : as in `Prediction`

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
        sizes: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        query: Query | None = None,
    ) -> None:
        self._support = support
        self._gaussian_parts = parts
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
        super().__init__(mean, VarianceParts(**scaled), sizes=sizes, ids=ids, query=query)

    @classmethod
    def from_latent(
        cls,
        latent: Latent,
        *,
        sizes: ArrayLike | None = None,
        ids: ArrayLike | None = None,
        query: Query | None = None,
        support: tuple[float, float] = (-np.inf, np.inf),
    ) -> BoundedPrediction:
        """Return the prediction of labels that are a latent value, and noise, within a range."""
        plain = Prediction.from_latent(latent)
        return cls(plain.mean, plain.parts, support=support, sizes=sizes, ids=ids, query=query)

    @property
    def support(self) -> tuple[float, float]:
        """The range of the labels."""
        return self._support

    @property
    def location(self) -> Float[np.ndarray, " n"]:
        """Means of the Gaussians, which may lie outside the range."""
        return self._location

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        q = check_probabilities(q)
        if q.ndim == 0:
            return self._value(truncnorm.ppf(q, *self._bounds))
        lower, upper = (bound[:, None] for bound in self._bounds)
        z = truncnorm.ppf(q, lower, upper)
        return np.clip(self._location[:, None] + self._scale[:, None] * z, *self._support)

    def _value(self, z: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.clip(self._location + self._scale * z, *self._support)

    def _away(self, y: np.ndarray) -> Float[np.ndarray, " n"]:
        return np.clip((y - self._location) / self._scale, *self._bounds)

    def cdf(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or an array (n,)."""
        y = check_targets(y, len(self), self._ids, scalar=True)
        inside = truncnorm.cdf(self._away(y), *self._bounds)
        return np.where(y < self._support[0], 0.0, np.where(y >= self._support[1], 1.0, inside))

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log density at ``y`` (n,); −∞ outside the range."""
        y = check_targets(y, len(self), self._ids)
        self._require_density(self._gaussian_parts.total)
        inside = truncnorm.logpdf(self._away(y), *self._bounds) - np.log(self._scale)
        outside = (y < self._support[0]) | (y > self._support[1])
        return np.where(outside, -np.inf, inside)

    def crps(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y`` (n,).

        With P = Φ(u) − Φ(l), z the standardised label and z' the nearest value of the range,

        |z − z'| + z' {2Φ(z') − Φ(l) − Φ(u)}/P + 2φ(z')/P − {Φ(√2 u) − Φ(√2 l)}/(√π P²)

        in units of the scale. Where P is tiny, by quantiles.
        """
        y = check_targets(y, len(self), self._ids)
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

    def sample(self, size: int = 1, random_state: Seed = None) -> Float[np.ndarray, "size n"]:
        """Independent draws of the labels: (size, n)."""
        rng = check_sampling(size, random_state)
        z = truncnorm.ppf(rng.uniform(size=(size, len(self))), *self._bounds)
        return np.clip(self._location + self._scale * z, *self._support)

    def at_size(self, n_points: ArrayLike) -> Prediction:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The Gaussian keeps its mean, see `Prediction.at_size`; within the range the mean follows.
        """
        plain = Prediction(
            self._location,
            self._gaussian_parts,
            sizes=self._sizes,
            ids=self._ids,
            query=self._query,
        ).at_size(n_points)
        return BoundedPrediction(
            plain.mean,
            plain.parts,
            support=self._support,
            sizes=plain.sizes,
            ids=self._ids,
            query=None if self._query is None else plain._query,
        )

    def __getitem__(self, index: Any) -> Prediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        rows = self._rows(index)
        return BoundedPrediction(
            self._location[rows],
            self._gaussian_parts.take(rows),
            support=self._support,
            sizes=None if self._sizes is None else self._sizes[rows],
            ids=None if self._ids is None else self._ids[rows],
            query=None if self._query is None else self._query.take(rows),
        )
