"""What a classifier of many classes says about each bag: the probability of each class."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike

from bagwise._utils.levels import LEVEL
from bagwise.bags.per_bag import PerBag
from bagwise.predictions.classes import (
    LATENT_PARTS,
    LEAST,
    ClassPrediction,
    check_class_labels,
    checked_classes,
    place_of,
)
from bagwise.predictions.parts import VarianceParts
from bagwise.predictions.tabular import Tabular


class ManyClassPrediction(Tabular):
    """Predictive distribution of the class of each bag, of more than two classes.

    P(y_i = classes[k]) ∝ p_ik / √(1 − p_ik)

    p_ik is the probability that bag i is of class k and not of the rest, by a latent value of its
    own. If all rested on the same evidence, P ∝ p; if on independent evidence, P ∝ p / (1 − p), as
    exactly one class is right. They rest on the same bags, each with a direction of its own: the
    geometric mean of the two. docs/method.md says what it is worth.

    Parameters
    ----------
    each : ClassPrediction of n bags for each class, whose second class is this one
    classes : (k,) array, in the same order

    Notes
    -----
    Immutable and picklable. What a bag has one of (``probability``, ``interval``, ``parts``) is
    that of its most probable class; ``of(label)`` has those of any other, against the rest.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> from bagwise.predictions.mixture import MixturePrediction
    >>> sizes = np.array([5, 9])
    >>> latent = [
    ...     MixturePrediction(np.array([f]), np.zeros(1), sizes=sizes)
    ...     for f in ([0.0, -2.0], [0.0, 2.0], [0.0, -2.0])
    ... ]
    >>> each = [ClassPrediction(f, Probit(), [False, True]) for f in latent]
    >>> p = ManyClassPrediction(each, ["a", "b", "c"])
    >>> p.proba.round(3)
    array([[0.333, 0.333, 0.333],
           [0.004, 0.993, 0.004]])
    >>> p.predicted[1], p.of("b").probability.round(3)[1]
    (np.str_('b'), np.float64(0.977))
    """

    def __init__(self, each: Sequence[ClassPrediction], classes: ArrayLike) -> None:
        self._binary = tuple(each)
        self._classes = checked_classes(classes, len(self._binary))
        self._scores = np.stack([_score(*one.proba.T[::-1]) for one in self._binary], axis=1)
        self._proba = self._scores / self._scores.sum(axis=1, keepdims=True)
        self._proba.flags.writeable = False

    @property
    def each(self) -> tuple[ClassPrediction, ...]:
        """Of each class, what is said of it against the rest."""
        return self._binary

    @property
    def classes(self) -> np.ndarray:
        """The classes (k,)."""
        return self._classes

    @property
    def proba(self) -> Float[np.ndarray, "n k"]:
        """Probability of each class, (n, k), in the order of ``classes``."""
        return self._proba

    @cached_property
    def places(self) -> Int64[np.ndarray, " n"]:
        """Place of the most probable class of each bag in ``classes``."""
        return np.argmax(self._proba, axis=1).astype(np.int64)

    @property
    def predicted(self) -> np.ndarray:
        """Most probable class of each bag (n,); of several the first."""
        return self._classes[self.places]

    @property
    def probability(self) -> Float[np.ndarray, " n"]:
        """Probability of the most probable class, (n,)."""
        return self._of_predicted(list(self._proba.T))

    @property
    def parts(self) -> VarianceParts:
        """Variance of the latent value of the most probable class by cause: bag, weights."""
        each = [one.parts.to_dict() for one in self._binary]
        return VarianceParts(**{k: self._of_predicted([p[k] for p in each]) for k in each[0]})

    @property
    def sizes(self) -> np.ndarray | None:
        """Bag sizes (n,), if known."""
        return self._binary[0].sizes

    @property
    def ids(self) -> np.ndarray | None:
        """Bag ids (n,), if known."""
        return self._binary[0].ids

    def of(self, label: Any) -> ClassPrediction:
        """Return what is said of one class against the rest, with its own latent value and parts.

        Its probability is that before all are made to add up to one.
        """
        return self._binary[place_of(label, self._classes)]

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log probability of the labels ``y`` (n,); at least -745, the log of the least float."""
        which = check_class_labels(y, self._classes, len(self), self.ids)
        p = self._proba[np.arange(len(self)), which]
        rest = np.where(np.arange(len(self._classes)) == which[:, None], 0.0, self._proba)
        # The log of a probability that is nearly 1 is told by the others, which are not rounded.
        others = np.minimum(rest.sum(axis=1), 0.5)
        return np.where(p > 0.5, np.log1p(-others), np.log(np.maximum(p, LEAST)))

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Interval of the probability of the most probable class, by its own latent value.

        Its ends are those of p_ik, as `ClassPrediction.interval` has them, in the place of p_ik:
        what the latent values of the other classes leave open is averaged over.
        """
        ends = self._of_predicted([one.interval(level) for one in self._binary])
        others = np.arange(len(self._classes)) != self.places[:, None]
        rest = np.sum(self._scores, axis=1, where=others)
        scores = _score(ends, 1.0 - ends)
        return scores / (scores + rest[:, None])

    def at_size(self, n_points: ArrayLike) -> ManyClassPrediction:
        """Answer: what would I say with ``n_points`` points (scalar or (n,), > 0) in each bag."""
        return ManyClassPrediction([one.at_size(n_points) for one in self._binary], self._classes)

    def to_dict(self, level: float = LEVEL) -> dict[str, np.ndarray]:
        """Columns of a table, one entry per bag.

        id, size (if known), predicted; of the predicted class probability, lower, upper and the
        standard deviations bag_sd and weights_sd of its latent value; and the probability of each
        class, such as probability_a of class "a".
        """
        columns = {"id": np.arange(len(self)) if self.ids is None else self.ids}
        if self.sizes is not None:
            columns["size"] = self.sizes
        lower, upper = self.interval(level).T
        parts = self.parts
        columns |= {"predicted": self.predicted, "probability": self.probability}
        columns |= {"lower": lower, "upper": upper}
        columns |= {f"{name}_sd": np.sqrt(getattr(parts, name)) for name in LATENT_PARTS}
        labels = self._classes.tolist()
        return columns | {f"probability_{k}": p for k, p in zip(labels, self._proba.T, strict=True)}

    def __len__(self) -> int:
        return len(self._proba)

    def __getitem__(self, index: Any) -> ManyClassPrediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        return ManyClassPrediction([one[index] for one in self._binary], self._classes)

    def __repr__(self) -> str:
        if len(self) == 0:
            return "ManyClassPrediction(0 bags)"
        p = self.probability
        return (
            f"ManyClassPrediction({len(self)} bag{'s' * (len(self) > 1)}, {len(self._classes)} "
            f"classes, probability of the predicted one {p.min():.4g} to {p.max():.4g})"
        )

    def _of_predicted(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Choose from rows (n, ...) of each class those of the predicted one."""
        return np.stack(columns)[self.places, np.arange(len(self))]


def _score(p: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return p/√(1 − p), given both; where p is 0 but for rounding, the least number."""
    return np.maximum(p, LEAST) / np.sqrt(np.maximum(other, LEAST))
