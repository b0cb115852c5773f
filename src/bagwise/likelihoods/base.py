"""Likelihoods: how a label depends on the Gaussian latent value N(ξ, ν) of a bag.

A likelihood owns its log density, integrated over the latent value, with the derivatives that
optimisers need, and the predictive distribution that follows. Adding one is adding a file here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float64

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.predictions.classes import ClassPrediction
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
    """A likelihood of two classes, labelled −1 and +1."""

    @abstractmethod
    def probability(self, mean: Any, var: Any) -> Any:
        """Return P(y = 1) if the latent value is N(mean, var), without the link's own noise."""

    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Any:
        """Return the probability of the classes, averaged over the draws."""
        latent = MixturePrediction.from_latent(query.latent(), sizes=sizes, ids=ids, query=query)
        return ClassPrediction(latent, self, classes)
