"""Joined: predictions of disjoint parts of the bags, by one model each, as one prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64
from numpy.typing import ArrayLike

from bagwise.class_prediction import ClassPrediction
from bagwise.levels import LEVEL
from bagwise.variance_parts import VarianceParts


@dataclass(frozen=True, eq=False)
class Piece:
    """What one fitted model says about some of the bags.

    Attributes
    ----------
    rows : (m,) positions of the bags;  prediction : of these bags, in this order
    model : the fitted estimator, or None if only its prediction is known
    """

    rows: Int64[np.ndarray, " m"]
    prediction: Any
    model: Any = None


@dataclass(frozen=True, eq=False)
class Joined:
    """Predictions of n real labels in pieces, such as the folds of a cross-validation.

    Has the methods of `bagwise.metrics.Predictive`, so that the metrics take it as it is.

    Examples
    --------
    >>> from bagwise.prediction import Prediction
    >>> even = Prediction(np.zeros(2), VarianceParts.broadcast(2, noise=1.0))
    >>> odd = Prediction(np.ones(2), VarianceParts.broadcast(2, noise=4.0))
    >>> both = Joined([Piece(np.array([0, 2]), even), Piece(np.array([1, 3]), odd)])
    >>> both.mean, both.std, both.fold
    (array([0., 1., 0., 1.]), array([1., 2., 1., 2.]), array([0, 1, 0, 1]))
    """

    pieces: Sequence[Piece]
    _kept: dict[Any, np.ndarray] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return sum(len(piece.rows) for piece in self.pieces)

    @property
    def fold(self) -> Int64[np.ndarray, " n"]:
        """Number of the piece that each bag is in."""
        return self._join([np.full(len(p.rows), k) for k, p in enumerate(self.pieces)])

    @property
    def mean(self) -> Float64[np.ndarray, " n"]:
        """Predictive means."""
        return self._join([piece.prediction.mean for piece in self.pieces])

    @property
    def parts(self) -> VarianceParts:
        """Variance by cause."""
        parts = [piece.prediction.parts.to_dict() for piece in self.pieces]
        return VarianceParts(**{name: self._join([p[name] for p in parts]) for name in parts[0]})

    @property
    def std(self) -> Float64[np.ndarray, " n"]:
        """Standard deviations: of the label, or of the latent value of a class."""
        return np.sqrt(self.parts.total)

    @property
    def sizes(self) -> Float64[np.ndarray, " n"] | None:
        """Sizes the models went by (of weighted points, the effective ones), if known."""
        sizes = [piece.prediction.sizes for piece in self.pieces]
        if any(size is None for size in sizes):
            return None
        return self._join(sizes).astype(np.float64)

    def log_prob(self, y: ArrayLike) -> Float64[np.ndarray, " n"]:
        """Log density of the labels, or log probability of the classes."""
        return self._at("log_prob", y)

    def cdf(self, y: ArrayLike) -> Float64[np.ndarray, " n"]:
        """P(label <= y)."""
        return self._at("cdf", y)

    def crps(self, y: ArrayLike) -> Float64[np.ndarray, " n"]:
        """Continuous ranked probability score."""
        return self._at("crps", y)

    def interval(self, level: float = LEVEL) -> Float64[np.ndarray, "n 2"]:
        """Central intervals; computed once, as those of mixtures take a while."""
        if level not in self._kept:
            self._kept[level] = self._join([p.prediction.interval(level) for p in self.pieces])
        return self._kept[level]

    def bag_sd(self, grid: Float64[np.ndarray, " g"]) -> Float64[np.ndarray, "f g"]:
        """Return the part of the sd that is due to the bag, by piece and size of the grid."""
        firsts = [piece.prediction[:1] for piece in self.pieces]
        variances = [[one.at_size(size).parts.bag[0] for size in grid] for one in firsts]
        return np.sqrt(np.array(variances, dtype=np.float64))

    def _at(self, method: str, y: ArrayLike) -> Any:
        y = np.asarray(y)
        return self._join([getattr(p.prediction, method)(y[p.rows]) for p in self.pieces])

    def _join(self, columns: Sequence[Any]) -> Any:
        """Put the entries of the pieces in the order of the bags."""
        stacked = np.concatenate(columns)
        joined = np.empty_like(stacked)
        joined[np.concatenate([piece.rows for piece in self.pieces])] = stacked
        return joined


class JoinedClasses(Joined):
    """Predictions of n labels of two classes in pieces, as `bagwise.metrics.ClassPredictive`."""

    @property
    def classes(self) -> np.ndarray:
        """The two classes (2,)."""
        return self.pieces[0].prediction.classes

    @property
    def probability(self) -> Float64[np.ndarray, " n"]:
        """Probability of the second class."""
        return self._join([piece.prediction.probability for piece in self.pieces])

    @property
    def mean(self) -> Float64[np.ndarray, " n"]:
        """Probability of the second class: the mean of its indicator."""
        return self.probability


def joined(pieces: Sequence[Piece]) -> Joined:
    """Join pieces, of real labels or of classes."""
    classes = isinstance(pieces[0].prediction, ClassPrediction)
    return (JoinedClasses if classes else Joined)(pieces)
