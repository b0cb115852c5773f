"""Real labels of a known range: Gaussian, given that they lie in it."""

from __future__ import annotations

from typing import Any

from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.bounded import BoundedPrediction
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query


class Bounded(Gaussian):
    """Labels in [lower, upper].

    In the fit they are Gaussian; what is predicted has the mean and the variance of the Gaussian,
    and stays within the range.
    """

    name = "bounded"

    def __init__(self, lower: float, upper: float) -> None:
        self.lower, self.upper = lower, upper

    def __eq__(self, other: object) -> bool:
        mine = self.lower, self.upper
        return isinstance(other, Bounded) and mine == (other.lower, other.upper)

    def __hash__(self) -> int:
        return hash((self.lower, self.upper))

    def predict(self, query: Query, *, sizes: Any, ids: Any, classes: Any = None) -> Prediction:
        """Return a Gaussian for each bag that is cut at the ends of the range."""
        return BoundedPrediction.from_latent(
            query.latent(), sizes=sizes, ids=ids, query=query, support=(self.lower, self.upper)
        )
