"""Counts: what Poisson, negative binomial and binomial labels have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Bool, Float64

from bagwise.bags.validation import show
from bagwise.exceptions import InvalidLabelsError
from bagwise.likelihoods.base import Bend, Vector
from bagwise.predictions.counts import CountPrediction
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query

# Of larger counts the log of a factorial has too few digits left after the point.
LARGEST_COUNT = 1e10

# No rate is expected to be larger than this: 1e20, beyond all counts.
LARGEST_LOG = float(np.log(1e20))

# A latent value beyond is taken to be there: its exponential, and the square of it, are numbers.
FARTHEST = 300.0


class CountLikelihood(ABC):
    """Counts y_i out of, or in proportion to, a total t_i that is known of each bag.

    Parameters
    ----------
    totals : (n,), t; 1 where there is none

    Arrays of the methods that say what counts are given the latent value f may have any shapes
    that go together; ``noise`` is the noise level, of those that have one.
    """

    name: ClassVar[str]
    target: ClassVar[str]  # the latent value in words
    has_noise: ClassVar[bool] = False
    needs_totals: ClassVar[bool] = False

    def __init__(self, totals: Vector) -> None:
        self.totals = totals

    def take(self, bags: Any) -> Self:
        """Return the likelihood of some of the bags."""
        return type(self)(self.totals[bags])

    def at_total(self, totals: Vector) -> Self:
        """Return the likelihood of the same bags with other totals."""
        return type(self)(totals)

    def around(self, center: float) -> Around:
        """Return the likelihood of latent values that are counted from another one."""
        return Around(self, center)

    def check_totals(self, ids: Any) -> None:
        """Raise unless totals are what they have to be."""
        refuse(
            ~((self.totals > 0) & (self.totals <= LARGEST_COUNT)),
            lambda i: f"the total of bag {show(ids[i])} (position {i}) is {self.totals[i]:g}",
            f"a number > 0, at most {LARGEST_COUNT:g}",
            "Correct the column of totals.",
        )

    def check(self, y: Vector, ids: Any) -> None:
        """Raise unless labels are counts."""
        refuse(
            ~_is_count(y),
            lambda i: f"the label of bag {show(ids[i])} (position {i}) is {y[i]:g}",
            f"a count, as likelihood={self.name!r} says: 0, 1, 2, … up to {LARGEST_COUNT:g}",
            "Correct the label, or choose another likelihood.",
        )

    def possible(self, y: Vector) -> Bool[np.ndarray, " n"]:
        """Return whether labels have a probability at all."""
        return _is_count(y)

    @abstractmethod
    def center(self, y: Vector, weights: Vector) -> float:
        """Return the latent value that bags have on average."""

    @abstractmethod
    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p(y | f) and its derivatives."""

    @abstractmethod
    def rate(self, latent: Any) -> Any:
        """Return the mean of the count, as a share of the total."""

    @abstractmethod
    def steep(self, k: Any, totals: Any, noise: Any) -> tuple[Any, Any]:
        """Return where P(y ≤ k | f) falls, and within what width."""

    @abstractmethod
    def cdf(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return P(y ≤ k | f)."""

    @abstractmethod
    def log_prob(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any:
        """Return log P(y = k | f), constants included."""

    @abstractmethod
    def moments(self, mean: Vector, var: Vector, noise: Vector) -> tuple[Vector, Vector, Vector]:
        """Return E y, Var E[y | f] and E Var[y | f] for f ~ N(mean, var)."""

    @abstractmethod
    def draw(self, rng: Any, latent: Any, noise: Vector) -> Float64[np.ndarray, "..."]:
        """Return a count for each latent value (…, n)."""

    def predict(
        self, query: Query, *, sizes: Any, ids: Any, classes: Any = None
    ) -> CountPrediction:
        """Return the distribution of the count of each bag."""
        latent = Prediction.from_latent(query.latent(), sizes=sizes, ids=ids, query=query)
        return CountPrediction(latent, self)


@dataclass(frozen=True, eq=False)
class Around:
    """Counts whose latent value is center + f."""

    likelihood: CountLikelihood
    center: float

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p(y | center + f) and its derivatives."""
        return self.likelihood.bend(y, self.center + latent, noise)

    def take(self, bags: Any) -> Around:
        """Return the likelihood of some of the bags."""
        return Around(self.likelihood.take(bags), self.center)


def _is_count(y: Vector) -> Bool[np.ndarray, " n"]:
    return (y >= 0) & (y == np.floor(y)) & (y <= LARGEST_COUNT)


def refuse(bad: Any, found: Any, expected: str, remedy: str) -> None:
    """Raise the error of the first bag that is bad."""
    places = np.flatnonzero(bad)
    if len(places):
        more = f" ({len(places)} such bags)" if len(places) > 1 else ""
        raise InvalidLabelsError.because(found(places[0]) + more, expected, remedy)


def exp(latent: Any) -> Any:
    """Return the exponential, of latent values too large that of one which is not."""
    return np.exp(np.minimum(latent, FARTHEST))


def log_rate(y: Vector, totals: Vector, weights: Vector) -> float:
    """Return the log of counts per total; if there are none, half a count is supposed."""
    return float(np.log(max(float(weights @ y), 0.5)) - np.log(float(weights @ totals)))


def log_normal_moments(mean: Vector, var: Vector, totals: Vector) -> tuple[Vector, Vector]:
    """Return E μ and E μ² for μ = t e^f, f ~ N(mean, var)."""
    center = mean + np.log(totals)
    first = np.minimum(center + 0.5 * var, LARGEST_LOG)
    second = np.minimum(2.0 * center + 2.0 * var, 2.0 * LARGEST_LOG)
    return np.exp(first), np.exp(second)
