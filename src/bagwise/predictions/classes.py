"""What a classifier says about each bag: the probability of its class, and how sure that is.

The class depends on a latent value of the bag, which is a mixture over posterior draws like the
prediction of a regression, but without noise: the link (probit or logistic) has its own.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

import numpy as np
from jaxtyping import Bool, Float, Int64
from numpy.typing import ArrayLike

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.per_bag import PerBag, array_per_bag
from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.mixture import MixturePrediction
from bagwise.predictions.parts import VarianceParts
from bagwise.predictions.tabular import Tabular

# The least positive number: a probability below it is no longer told from zero, whose log is not
# finite.
LEAST = float(np.nextafter(0.0, 1.0))

# Room for rounding when a p-value is compared with 1 − level, which is seldom a whole fraction.
SET_ROUNDING = 1e-9

# Of more classes than these, an error message names some.
LISTED = 6


class Link(Protocol):
    """What is needed of a likelihood of two classes, such as `bagwise.likelihoods.Probit`."""

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """P(second class) if the latent value is N(mean, var); that of the first at -mean."""
        ...


class Probabilities(Tabular):
    """What predictions of two and of more classes share."""

    _kind: ClassVar[str]
    _classes: np.ndarray
    _proba: Float[np.ndarray, "n k"]
    _p_values: Float[np.ndarray, "n k"] | None = None

    @property
    @abstractmethod
    def probability(self) -> Float[np.ndarray, " n"]:
        """Probability of the class that is stated, (n,)."""

    @property
    @abstractmethod
    def parts(self) -> VarianceParts:
        """Variance of the latent value of that class by cause: bag, weights; no noise."""

    @abstractmethod
    def _stated(self) -> str:
        """Say of which class ``probability`` is."""

    @abstractmethod
    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Interval of ``probability``: columns lower, upper."""

    @property
    def classes(self) -> np.ndarray:
        """The classes (k,)."""
        return self._classes

    @property
    def proba(self) -> Float[np.ndarray, "n k"]:
        """Probability of each class, (n, k), in the order of ``classes``."""
        return self._proba

    @property
    def places(self) -> Int64[np.ndarray, " n"]:
        """Place of the most probable class of each bag in ``classes``; of several the first."""
        return np.argmax(self._proba, axis=1).astype(np.int64)

    @property
    def predicted(self) -> np.ndarray:
        """Most probable class of each bag (n,); of several the first, of two the second."""
        return self._classes[self.places]

    @property
    def p_values(self) -> Float[np.ndarray, "n k"] | None:
        """Conformal p-value of each class, (n, k), if the model was calibrated."""
        return self._p_values

    def sets(self, level: float = LEVEL) -> Bool[np.ndarray, "n k"]:
        """Return which classes are in the set of each bag, (n, k): those of p-value > 1 − level.

        The set holds the class of the bag with probability ``level``.
        """
        check_level(level)
        p_values = self.p_values
        if p_values is None:
            raise BagwiseError.because(
                "these probabilities were not calibrated",
                "the prediction of a bagwise.Conformal, whose sets have a guarantee",
                "Fit bagwise.Conformal(model).",
            )
        return p_values > 1.0 - level + SET_ROUNDING

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log probability of the labels ``y`` (n,); at least -745, the log of the least float."""
        which = check_class_labels(y, self._classes, len(self), self.ids)
        p = self._proba[np.arange(len(self)), which]
        rest = np.where(np.arange(len(self._classes)) == which[:, None], 0.0, self._proba)
        # The log of a probability that is nearly 1 is told by the others, which are not rounded.
        others = np.minimum(rest.sum(axis=1), 0.5)
        return np.where(p > 0.5, np.log1p(-others), np.log(np.maximum(p, LEAST)))

    def to_dict(self, level: float = LEVEL) -> dict[str, np.ndarray]:
        """Columns of a table, one entry per bag.

        id, size (if known), predicted; of the class that is stated probability, lower, upper and
        the standard deviations bag_sd and weights_sd of its latent value. Of more than two classes
        also the probability of each, such as probability_a of class "a". Of calibrated models the
        set of classes at this level, such as "a|b". Last comes novelty, if it is known.
        """
        (lower, upper), parts = self.interval(level).T, self.parts
        columns = self._known()
        columns |= {"predicted": self.predicted, "probability": self.probability}
        columns |= {"lower": lower, "upper": upper}
        columns |= {"bag_sd": np.sqrt(parts.bag), "weights_sd": np.sqrt(parts.weights)}
        if len(self._classes) > 2:
            each = zip(self._classes.tolist(), self._proba.T, strict=True)
            columns |= {f"probability_{label}": p for label, p in each}
        if self.p_values is not None:
            columns["set"] = _texts_of(self.sets(level), self._classes)
        return columns | self._told()

    def __len__(self) -> int:
        return len(self._proba)

    def __repr__(self) -> str:
        if len(self) == 0:
            return f"{self._kind}(0 bags)"
        p = self.probability
        return (
            f"{self._kind}({len(self)} bag{'s' * (len(self) > 1)}, {self._stated()} "
            f"{p.min():.4g} to {p.max():.4g})"
        )


class ClassPrediction(Probabilities):
    """Predictive distribution of the class of each bag.

    P(y_i = classes[1]) = mean over draws s of the integral of link(f) N(f; mean_si, var_si) df

    Parameters
    ----------
    latent : MixturePrediction of the latent values of n bags, of zero noise: means over the draws
        spread by what is unknown of the regression, variances by what is unknown of the bag
    likelihood : link between latent value and class (`bagwise.likelihoods`), symmetric about zero
    classes : (2,) array; the second is more probable as the latent value is larger

    Notes
    -----
    Immutable and picklable.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> latent = MixturePrediction(np.array([[0.0, 2.0]]), np.zeros(1), sizes=np.array([5, 9]))
    >>> p = ClassPrediction(latent, Probit(), np.array(["no", "yes"]))
    >>> p.probability.round(3)
    array([0.5  , 0.977])
    >>> p.log_prob(["yes", "no"]).round(3)
    array([-0.693, -3.783])
    """

    _kind = "ClassPrediction"

    def __init__(self, latent: MixturePrediction, likelihood: Link, classes: ArrayLike) -> None:
        self._latent: Any = latent
        self._likelihood = likelihood
        self._classes = checked_classes(classes, 2)
        noise = latent.parts.noise.max(initial=0.0)
        if noise > 0:
            raise BagwiseError.because(
                f"the latent values have noise of variance up to {noise:.4g}",
                "no noise, as the link has its own",
                "Make the mixture with noise zero.",
            )
        means, variances = latent.components
        # Each class has its own average: 1 - p would lose a small probability to rounding.
        both = [likelihood.probability(sign * means, variances).mean(axis=0) for sign in (-1, 1)]
        self._proba = np.stack(both, axis=1)
        self._proba.flags.writeable = False

    @property
    def probability(self) -> Float[np.ndarray, " n"]:
        """Probability of ``classes[1]``, (n,)."""
        return self._proba[:, 1]

    @property
    def places(self) -> Int64[np.ndarray, " n"]:
        """Place of the most probable class of each bag; the second if both are as probable."""
        return (self.probability >= 0.5).astype(np.int64)

    @property
    def latent(self) -> Prediction:
        """Distribution of the latent values."""
        return self._latent

    @property
    def parts(self) -> VarianceParts:
        """Variance of the latent value by cause: bag, weights; the noise is zero."""
        return self._latent.parts

    @property
    def sizes(self) -> np.ndarray | None:
        """Bag sizes (n,), if known."""
        return self._latent.sizes

    @property
    def ids(self) -> np.ndarray | None:
        """Bag ids (n,), if known."""
        return self._latent.ids

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,): see `Tabular.novelty`."""
        return self._latent.novelty

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Central interval of the probability that would be stated if nothing were unknown.

        link(q_i), q_i = quantiles (1 -+ level)/2 of the latent value of bag i

        If the distribution of the bag and the regression were known, so were the latent value, and
        link(latent value) were the probability of ``classes[1]``. It lies in the interval with
        probability ``level``: columns lower, upper.

        Examples
        --------
        >>> from bagwise.likelihoods import Probit
        >>> latent = MixturePrediction(np.array([[-1.0], [1.0]]), np.zeros(2), sizes=np.array([5]))
        >>> ClassPrediction(latent, Probit(), [0, 1]).interval(0.9).round(2)
        array([[0.16, 0.84]])
        """
        ends = self._latent.interval(level)
        return self._likelihood.probability(ends, np.zeros_like(ends))

    def at_size(self, n_points: ArrayLike) -> ClassPrediction:
        """Answer: what would I say with ``n_points`` points (scalar or (n,), > 0) in each bag.

        The latent means stay and the bag variance becomes that of the size, so that a larger bag
        moves the probability under each draw away from one half. It is the answer if the further
        points agree with those seen; their expected answer, as they may not, is today's.
        """
        latent = self._latent.at_size(n_points)
        return ClassPrediction(latent, self._likelihood, self._classes)

    def __getitem__(self, index: Any) -> ClassPrediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        return ClassPrediction(self._latent[index], self._likelihood, self._classes)

    def _stated(self) -> str:
        return f"probability of {show(self._classes[1])}"


class ManyClassPrediction(Probabilities):
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

    _kind = "ManyClassPrediction"

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

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,): see `Tabular.novelty`."""
        return self._binary[0].novelty

    def of(self, label: Any) -> ClassPrediction:
        """Return what is said of one class against the rest, with its own latent value and parts.

        Its probability is that before all are made to add up to one.
        """
        return self._binary[place_of(label, self._classes)]

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

    def __getitem__(self, index: Any) -> ManyClassPrediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        return ManyClassPrediction([one[index] for one in self._binary], self._classes)

    def _stated(self) -> str:
        return f"{len(self._classes)} classes, probability of the predicted one"

    def _of_predicted(self, columns: Sequence[np.ndarray]) -> np.ndarray:
        """Choose from rows (n, ...) of each class those of the predicted one."""
        return np.stack(columns)[self.places, np.arange(len(self))]


def _texts_of(sets: Bool[np.ndarray, "n k"], classes: np.ndarray) -> np.ndarray:
    """Return sets as text, the classes with | between them.

    Examples
    --------
    >>> _texts_of(np.array([[True, True], [False, True]]), np.array(["a", "b"])).tolist()
    ['a|b', 'b']
    """
    names = np.array([str(label) for label in classes.tolist()], dtype=object)
    return np.array(["|".join(names[row]) for row in sets], dtype=object)


def _score(p: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return p/√(1 − p), given both; where p is 0 but for rounding, the least number."""
    return np.maximum(p, LEAST) / np.sqrt(np.maximum(other, LEAST))


def check_class_labels(
    y: Any, classes: np.ndarray, n_bags: int, ids: Any = None
) -> Int64[np.ndarray, " n"]:
    """Return the place of each label of ``y`` (n_bags,) among the ``classes`` (k,).

    Labels with ids, such as a pandas Series, go by id: see `bagwise.bags.per_bag.in_bag_order`.

    Examples
    --------
    >>> check_class_labels(["no", "yes"], np.array(["no", "yes"]), 2)
    array([0, 1])
    >>> check_class_labels(["no", "?"], np.array(["no", "yes"]), 2)
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidLabelsError: y is '?' at row 1; expected 'no' or 'yes', the classes of
    the fit. Drop the bags of other classes, and give labels of the type used in fit.
    """
    labels = array_per_bag(y, ids)
    if labels.shape != (n_bags,):
        raise InvalidLabelsError.because(
            f"y has shape {labels.shape}",
            f"({n_bags},), one label per bag",
            "Give the labels of the predicted bags, in the same order.",
        )
    # Looked up, not compared: == need not be true or false of labels that are missing.
    order = {label: i for i, label in enumerate(classes.tolist())}
    index = np.array([order.get(label, -1) for label in labels.tolist()], dtype=np.int64)
    bad = np.flatnonzero(index < 0)
    if bad.size:
        raise InvalidLabelsError.because(
            f"y is {show(labels[bad[0]])} at row {bad[0]}",
            f"{listed(classes)}, the classes of the fit",
            "Drop the bags of other classes, and give labels of the type used in fit.",
        )
    return index


def place_of(label: Any, classes: np.ndarray) -> int:
    """Return the place of a label among the classes.

    Examples
    --------
    >>> place_of("b", np.array(["a", "b", "c"]))
    1
    """
    found = [k for k, known in enumerate(classes.tolist()) if known == label]
    if not found:
        raise InvalidLabelsError.because(
            f"there is no class {show(label)}", listed(classes), "Give a label of the fit."
        )
    return found[0]


def listed(classes: np.ndarray) -> str:
    """Name the classes, or the first few of many.

    Examples
    --------
    >>> listed(np.array(["a", "b", "c"])), listed(np.arange(9))
    ("'a', 'b' or 'c'", '0, 1, 2, 3, … or 8')
    """
    names = [show(label) for label in classes.tolist()]
    if len(names) > LISTED:
        names = [*names[: LISTED - 2], "…", names[-1]]
    return f"{', '.join(names[:-1])} or {names[-1]}"


def checked_classes(classes: ArrayLike, count: int) -> np.ndarray:
    """Return the classes, read-only, if there are so many and no two are the same."""
    values = np.array(classes)
    if values.shape != (count,) or len(set(values.tolist())) != count:
        raise BagwiseError.because(
            f"classes are {' '.join(str(values).split())}",
            f"{'two' if count == 2 else count} different labels",
            "Give them in order: the second is the one whose probability is stated."
            if count == 2
            else "Give them in the order of the predictions.",
        )
    values.flags.writeable = False
    return values
