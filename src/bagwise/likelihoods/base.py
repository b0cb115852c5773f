"""Likelihoods: how a label depends on the Gaussian latent value N(ξ, ν) of a bag.

A likelihood owns its log density, integrated over the latent value, with the derivatives that
optimisers need, and the predictive distribution that follows. docs/design.md says what else a new
one touches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from jaxtyping import Float64

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.latent import Query
from bagwise.predictions.mixture import MixturePrediction

Vector = Float64[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Terms:
    """Minus log density of each label and its derivatives in ξ and ν; arrays (n,).

    Attributes
    ----------
    value : −log p(y | ξ, ν), up to a constant
    by_mean, by_var : first derivatives
    mean_mean, mean_var, var_var : second derivatives
    fisher_mean, fisher_cross, fisher_var : their expectations over y
    """

    value: Vector
    by_mean: Vector
    by_var: Vector
    mean_mean: Vector
    mean_var: Vector
    var_var: Vector
    fisher_mean: Vector
    fisher_cross: Vector
    fisher_var: Vector


@dataclass(frozen=True, eq=False)
class Bend:
    """Minus log probability of labels at known latent values f and its derivatives; arrays (n,).

    Attributes
    ----------
    value : −log p(y | f), up to a constant
    first, second, third : its derivatives in f
    noise_value, noise_first, noise_second : derivatives of value, first and second in the noise
        level, of likelihoods that have one, or 0
    """

    value: Vector
    first: Vector
    second: Vector
    third: Vector
    noise_value: Vector | float = 0.0
    noise_first: Vector | float = 0.0
    noise_second: Vector | float = 0.0


class Linked(Protocol):
    """What Laplace's approximation asks of labels that are no latent value with Gaussian noise.

    −log p is convex in the latent value.
    """

    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p(y | f) and its derivatives."""
        ...

    def take(self, bags: Any) -> Self:
        """Return the likelihood of some of the bags."""
        ...


class Likelihood(ABC):
    """What models need to know of their labels.

    ``name`` is that in saved models; ``fixed_noise`` the part of ν that is not learnt, or None.
    """

    name: ClassVar[str]
    fixed_noise: ClassVar[float | None]

    @abstractmethod
    def log_prob(self, y: Any, mean: Any, var: Any, library: ArrayLibrary = NUMPY) -> Any:
        """Return log p(y | ξ, ν), up to a constant; arrays of NumPy or JAX."""

    @abstractmethod
    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives."""

    @abstractmethod
    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Any:
        """Return the predictive distribution of the labels of the bags asked for."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))


class ClassLikelihood(Likelihood):
    """A likelihood of two classes, labelled −1 and +1; of more, one is told from the rest."""

    @abstractmethod
    def bend(self, y: Vector, latent: Vector, noise: Vector) -> Bend:
        """Return −log p(y | f) and its derivatives; there is no noise beside the link's own."""

    @abstractmethod
    def probability(self, mean: Any, var: Any) -> Any:
        """Return P(y = 1) if the latent value is N(mean, var), without the link's own noise."""

    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Any:
        """Return the probability of the classes, averaged over the draws."""
        latent = MixturePrediction.from_latent(query.latent(), sizes=sizes, ids=ids, query=query)
        return ClassPrediction(latent, self, classes)

    def predict_classes(
        self, queries: Sequence[Query], *, sizes: Any, ids: Any, classes: np.ndarray
    ) -> ClassPrediction | ManyClassPrediction:
        """Return the probability of two classes by one query, or of more by one against the rest.

        Each query is of a head that tells its class from all others.
        """
        if len(queries) == 1:
            return self.predict(queries[0], sizes=sizes, ids=ids, classes=classes)
        both = np.array([False, True])
        each = [self.predict(query, sizes=sizes, ids=ids, classes=both) for query in queries]
        return ManyClassPrediction(each, classes)
