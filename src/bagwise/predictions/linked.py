"""Predictions of labels that are a function of a Gaussian latent value, or counted by one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.parts import VarianceParts


class LinkedPrediction(Prediction):
    """A prediction that is made of the Gaussian prediction of a latent value.

    Its variance is split as that of the latent value is: what the bag and the weights leave open
    of the latent value is, together, what they leave open of the label, in the same shares.

    Parameters
    ----------
    latent : Prediction of the latent value;  mean : (n,), of the labels
    explained : (n,), variance of the label by what is left open of the latent value
    noise : (n,), the rest
    """

    target: ClassVar[str]

    def __init__(
        self,
        latent: Prediction,
        mean: Float[np.ndarray, " n"],
        explained: Float[np.ndarray, " n"],
        noise: Float[np.ndarray, " n"],
    ) -> None:
        self._latent = latent
        bag, weights = latent.parts.bag, latent.parts.weights
        both = bag + weights
        share = np.divide(bag, both, out=np.zeros_like(bag), where=both > 0)
        parts = VarianceParts(bag=share * explained, weights=(1.0 - share) * explained, noise=noise)
        super().__init__(mean, parts, sizes=latent.sizes, ids=latent.ids, query=latent._query)

    @property
    def latent(self) -> Prediction:
        """The prediction of the latent value, on whose scale explanations add up."""
        return self._latent

    @abstractmethod
    def _of(self, latent: Prediction, rows: Any) -> Self:
        """Return the prediction of some of the bags, of which this is known."""

    def at_size(self, n_points: ArrayLike) -> Self:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The latent value keeps its mean, see `Prediction.at_size`; that of the label follows.
        """
        return self._of(self._latent.at_size(n_points), slice(None))

    def __getitem__(self, index: Any) -> Self:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        rows = self._rows(index)
        return self._of(self._latent[rows], rows)
