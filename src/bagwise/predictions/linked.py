"""Predictions of labels that are a function of a Gaussian latent value, or counted by one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bagwise.predictions.gaussian import Generator, Prediction
from bagwise.predictions.parts import VarianceParts

# A log beyond is taken to be there: its exponential, and of the largest the square, are numbers.
LEAST_LOG, LARGEST_LOG = -700.0, 300.0


class ReshapedPrediction(Prediction):
    """A prediction that is made of a Gaussian one, which knows about sizes, rows and the model."""

    _plain: Prediction

    def _made(self, plain: Prediction, mean: ArrayLike, parts: VarianceParts) -> None:
        self._plain = plain
        super().__init__(mean, parts, sizes=plain.sizes, ids=plain.ids, query=plain._query)

    @property
    def latent(self) -> Prediction:
        """The Gaussian prediction that it is made of, on whose scale explanations add up."""
        return self._plain

    @abstractmethod
    def _of(self, plain: Prediction, rows: Any) -> Self:
        """Return the prediction of some of the bags, of which this is known."""

    def at_size(self, n_points: ArrayLike) -> Self:
        """Answer: how sure would I be with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The Gaussian keeps its mean, see `Prediction.at_size`; what is made of it follows.
        """
        return self._of(self._plain.at_size(n_points), slice(None))

    def __getitem__(self, index: Any) -> Self:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        rows = self._rows(index)
        return self._of(self._plain[rows], rows)


class LinkedPrediction(ReshapedPrediction):
    """A prediction that is made of the Gaussian prediction of a latent value.

    Its variance is split as that of the latent value is: what the bag and the weights leave open
    of the latent value is, together, what they leave open of the label, in the same shares.

    Parameters
    ----------
    latent : Prediction of the latent value;  mean : (n,), of the labels
    explained : (n,), variance of the label by what is left open of the latent value
    noise : (n,), the rest
    """

    target: ClassVar[str]  # the latent value in words

    def __init__(
        self,
        latent: Prediction,
        mean: Float[np.ndarray, " n"],
        explained: Float[np.ndarray, " n"],
        noise: Float[np.ndarray, " n"],
    ) -> None:
        bag, weights = latent.parts.bag, latent.parts.weights
        both = bag + weights
        share = np.divide(bag, both, out=np.zeros_like(bag), where=both > 0)
        parts = VarianceParts(bag=share * explained, weights=(1.0 - share) * explained, noise=noise)
        self._made(latent, mean, parts)


class PositivePrediction(LinkedPrediction):
    """Log-normal predictive distribution of each label.

    log y_i ~ N(m_i, v_i),   median e^m,   mean e^(m + v/2),   variance mean² (e^v − 1)

    The parts of the variance have the shares that they have in v.

    Parameters
    ----------
    latent : Prediction of the logs

    Examples
    --------
    >>> from bagwise.predictions.parts import VarianceParts
    >>> p = PositivePrediction(Prediction([0.0], VarianceParts.broadcast(1, noise=1.0)))
    >>> p.mean.round(3), p.quantile(0.5), p.interval(0.9).round(2)
    (array([1.649]), array([1.]), array([[0.19, 5.18]]))
    """

    target = "log label"

    def __init__(self, latent: Prediction) -> None:
        mean = _exp(latent.mean + 0.5 * latent.var)
        logs = 2.0 * latent.mean + latent.var
        var = _exp(np.minimum(logs, LARGEST_LOG)) * np.expm1(np.minimum(latent.var, LARGEST_LOG))
        noise = np.divide(latent.parts.noise, latent.var, out=np.zeros(len(mean)), where=var > 0)
        super().__init__(latent, mean, (1.0 - noise) * var, noise * var)

    def _of(self, latent: Prediction, rows: Any) -> PositivePrediction:
        return PositivePrediction(latent)

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return _exp(self._plain._quantiles(q))

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.where(y > 0, self._plain._cdf(_log(y)), 0.0)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return np.where(y > 0, self._plain._log_prob(_log(y)) - _log(y), -np.inf)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return y {2Φ(z) − 1} − 2 mean {Φ(z − s) + Φ(s/√2) − 1},  z = (log y − m)/s,  s = √v.

        References
        ----------
        Baran and Lerch (2015), Log-normal distribution based EMOS models for probabilistic wind
        speed forecasting.
        """
        m, s = self._plain.mean, self._plain.std
        z = np.divide(_log(y) - m, s, out=np.where(_log(y) >= m, np.inf, -np.inf), where=s > 0)
        z = np.where(y > 0, z, -np.inf)
        gap = ndtr(z - s) - ndtr(-s / np.sqrt(2.0))
        return np.maximum(y * (2.0 * ndtr(z) - 1.0) - 2.0 * self._mean * gap, 0.0)

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        return _exp(self._plain._sample(size, rng))


def _exp(logs: Any) -> Any:
    return np.exp(np.clip(logs, LEAST_LOG, LARGEST_LOG))


def _log(y: Any) -> Any:
    return np.log(np.where(y > 0, y, 1.0))
