"""Joined predictions: disjoint parts of the bags, each predicted by a model of its own, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from jaxtyping import Bool, Float, Int64
from numpy.typing import ArrayLike

from bagwise._utils.levels import LEVEL
from bagwise.bags.per_bag import PerBag
from bagwise.exceptions import BagwiseError
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.gaussian import Generator, Prediction, check_n_points, check_targets
from bagwise.predictions.parts import VarianceParts
from bagwise.predictions.tabular import Tabular


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


class Pieces(Tabular):
    """Pieces that together predict n bags, each bag once: what is joined has them as ``pieces``."""

    pieces: tuple[Piece, ...]
    _place: Int64[np.ndarray, " n"]  # of each bag among the entries of all pieces end to end

    def __init__(self, pieces: Sequence[Piece]) -> None:
        rows = np.concatenate([piece.rows for piece in pieces])
        if not np.array_equal(np.sort(rows), np.arange(len(rows))):
            raise BagwiseError.because(
                f"the pieces predict {len(np.unique(rows))} bags in {len(rows)} rows",
                "each of the bags 0, 1, 2, … once",
                "Check the folds.",
            )
        self.pieces, self._place = tuple(pieces), np.argsort(rows).astype(np.int64)

    @property
    def fold(self) -> Int64[np.ndarray, " n"]:
        """Number of the piece that each bag is in."""
        return np.repeat(np.arange(len(self.pieces)), self._lengths())[self._place]

    def at_size(self, n_points: ArrayLike) -> Self:
        """Answer: what would I say with ``n_points`` points (scalar or (n,), > 0) in each bag."""
        return type(self)(self._each("at_size", check_n_points(n_points, len(self))))

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,): see `Tabular.novelty`."""
        return self._join_known("novelty")

    def __getitem__(self, index: Any) -> Any:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        pieces = self._chosen(index)
        return pieces[0].prediction if len(pieces) == 1 else type(self)(pieces)

    def _columns(self, level: float) -> dict[str, Any]:
        return super()._columns(level) | {"fold": self.fold}

    def _lengths(self) -> list[int]:
        return [len(piece.rows) for piece in self.pieces]

    def _join(self, columns: Sequence[Any]) -> Any:
        """Put entries, end to end as in the pieces, in the order of the bags."""
        return np.concatenate(columns)[self._place]

    def _join_known(self, name: str) -> Any:
        """Join an attribute, or return None if a piece does not know it."""
        columns = [getattr(piece.prediction, name, None) for piece in self.pieces]
        return None if any(column is None for column in columns) else self._join(columns)

    def _each(self, method: str, per_bag: np.ndarray) -> list[Piece]:
        """Return the pieces with what a method of their predictions makes of a value per bag."""
        return [
            replace(p, prediction=getattr(p.prediction, method)(per_bag[p.rows]))
            for p in self.pieces
        ]

    def _chosen(self, index: Any) -> list[Piece]:
        """Return the pieces of some bags, numbered anew; at least one, if only an empty one."""
        rows = self._rows(index)
        starts = np.concatenate([[0], np.cumsum(self._lengths())])
        fold, within = self.fold[rows], self._place[rows]
        pieces = []
        for k, piece in enumerate(self.pieces):
            mine = np.flatnonzero(fold == k)
            prediction = piece.prediction[within[mine] - starts[k]]
            pieces.append(Piece(mine.astype(np.int64), prediction, piece.model))
        return [piece for piece in pieces if len(piece.rows)] or pieces[:1]


class JoinedPrediction(Pieces, Prediction):
    """Predictive distributions of n labels in pieces, such as the folds of a cross-validation.

    Parameters
    ----------
    pieces : sequence of Piece that together have each of the n bags once

    Notes
    -----
    All that a `Prediction` has, each bag as its own piece says. ``fold`` says which that is, and
    ``pieces[k].model`` is the model behind it. Chosen bags of one piece are its prediction itself.

    Examples
    --------
    >>> even = Prediction(np.zeros(2), VarianceParts.broadcast(2, noise=1.0))
    >>> odd = Prediction(np.ones(2), VarianceParts.broadcast(2, noise=4.0))
    >>> both = JoinedPrediction([Piece(np.array([0, 2]), even), Piece(np.array([1, 3]), odd)])
    >>> both.mean, both.std, both.fold
    (array([0., 1., 0., 1.]), array([1., 2., 1., 2.]), array([0, 1, 0, 1]))
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        Pieces.__init__(self, pieces)
        self._intervals: dict[float, np.ndarray] = {}
        parts = [piece.prediction.parts.to_dict() for piece in pieces]
        Prediction.__init__(
            self,
            self._join([piece.prediction.mean for piece in pieces]),
            VarianceParts(**{name: self._join([p[name] for p in parts]) for name in parts[0]}),
            sizes=self._join_known("sizes"),
            ids=self._join_known("ids"),
        )

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Intervals of each piece; computed once, as those of mixtures take a while."""
        if level not in self._intervals:
            ends = [piece.prediction.interval(level) for piece in self.pieces]
            self._intervals[level] = self._join(ends)
        return self._intervals[level]

    def pit(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Probability integral transform of ``y`` (n,)."""
        return self._at("pit", check_targets(y, len(self), self._ids))

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        return self._join([piece.prediction.quantile(q) for piece in self.pieces])

    def _cdf(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self._at("cdf", y)

    def _level_at(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self._at("level_at", y)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self._at("log_prob", y)

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        return self._at("crps", y)

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        """Draw labels; the models of different pieces draw independently."""
        draws = [piece.prediction.sample(size, rng) for piece in self.pieces]
        return np.concatenate(draws, axis=1)[:, self._place]

    def _at(self, method: str, y: np.ndarray) -> Any:
        return self._join([piece.prediction for piece in self._each(method, y)])


class ClassPieces(Pieces):
    """Pieces that predict classes, each with the sets of its own calibration, if it has one."""

    @property
    def p_values(self) -> Float[np.ndarray, "n k"] | None:
        """Conformal p-value of each class, (n, k), if the models were calibrated."""
        return self._join_known("p_values")

    def sets(self, level: float = LEVEL) -> Bool[np.ndarray, "n k"]:
        """Return which classes are in the set of each bag, (n, k)."""
        return self._join([piece.prediction.sets(level) for piece in self.pieces])


class JoinedClassPrediction(ClassPieces, ClassPrediction):
    """Predictive distributions of n classes in pieces; see `JoinedPrediction`.

    Parameters
    ----------
    pieces : sequence of Piece of a `ClassPrediction` each, of the same two classes and link
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(pieces)
        first = pieces[0].prediction
        self._classes, self._likelihood = _classes_of(pieces), first._likelihood
        latent = [replace(piece, prediction=piece.prediction.latent) for piece in pieces]
        self._latent = JoinedPrediction(latent)
        self._proba = self._join([piece.prediction.proba for piece in pieces])
        self._proba.flags.writeable = False

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Probability of the second class: the mean of its indicator."""
        return self.probability


class JoinedManyClassPrediction(ClassPieces, ManyClassPrediction):
    """Predictive distributions of n of many classes in pieces; see `JoinedPrediction`.

    Parameters
    ----------
    pieces : sequence of Piece of a `ManyClassPrediction` each, of the same classes and link
    """

    def __init__(self, pieces: Sequence[Piece]) -> None:
        Pieces.__init__(self, pieces)
        classes = _classes_of(pieces)
        of_class = [
            [replace(piece, prediction=piece.prediction.each[k]) for piece in pieces]
            for k in range(len(classes))
        ]
        ManyClassPrediction.__init__(self, [JoinedClassPrediction(p) for p in of_class], classes)

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Probability of the most probable class: the mean of its indicator."""
        return self.probability


Joined = JoinedPrediction | JoinedClassPrediction | JoinedManyClassPrediction


def joined(pieces: Sequence[Piece]) -> Joined:
    """Join pieces, of real labels or of classes."""
    if isinstance(pieces[0].prediction, ManyClassPrediction):
        return JoinedManyClassPrediction(pieces)
    classes = isinstance(pieces[0].prediction, ClassPrediction)
    return (JoinedClassPrediction if classes else JoinedPrediction)(pieces)


def _classes_of(pieces: Sequence[Piece]) -> np.ndarray:
    """Return the classes, which all pieces must have."""
    first = pieces[0].prediction.classes
    for piece in pieces:
        if piece.prediction.classes.tolist() != first.tolist():
            raise BagwiseError.because(
                f"pieces predict {first.tolist()} and {piece.prediction.classes.tolist()}",
                "the same classes",
                "Fit all models to bags of every class.",
            )
    return first
