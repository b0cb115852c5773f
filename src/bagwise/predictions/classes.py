"""What a classifier says about each bag: the probability of its class, and how sure that is.

The class depends on a latent value of the bag, which is a mixture over posterior draws like the
prediction of a regression, but without noise: the link (probit or logistic) has its own.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from jaxtyping import Float, Int64
from numpy.typing import ArrayLike

from bagwise._utils.levels import LEVEL
from bagwise.bags.grouping import show
from bagwise.bags.per_bag import PerBag, array_per_bag
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.mixture import MixturePrediction
from bagwise.predictions.parts import VarianceParts
from bagwise.predictions.tabular import Tabular

# The least positive number: a probability below it is no longer told from zero, whose log is not
# finite.
LEAST = float(np.nextafter(0.0, 1.0))


# Of more classes than these, an error message names some.
LISTED = 6

# Causes of the variance of a latent value, which has no noise.
LATENT_PARTS = ("bag", "weights")


class Link(Protocol):
    """What is needed of a likelihood of two classes, such as `bagwise.likelihoods.Probit`."""

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """P(second class) if the latent value is N(mean, var); that of the first at -mean."""
        ...


class ClassPrediction(Tabular):
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
    def classes(self) -> np.ndarray:
        """The two classes (2,)."""
        return self._classes

    @property
    def probability(self) -> Float[np.ndarray, " n"]:
        """Probability of ``classes[1]``, (n,)."""
        return self._proba[:, 1]

    @property
    def proba(self) -> Float[np.ndarray, "n 2"]:
        """Probability of each class, (n, 2), in the order of ``classes``."""
        return self._proba

    @property
    def predicted(self) -> np.ndarray:
        """Most probable class of each bag (n,); ``classes[1]`` where both are as probable."""
        return self._classes[(self.probability >= 0.5).astype(np.intp)]

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

    def log_prob(self, y: PerBag) -> Float[np.ndarray, " n"]:
        """Log probability of the labels ``y`` (n,); at least -745, the log of the least float."""
        second = check_class_labels(y, self._classes, len(self), self.ids)
        rows = np.arange(len(self))
        p, other = self._proba[rows, second], self._proba[rows, 1 - second]
        # The log of a probability that is nearly 1 is told by the other, which is not rounded.
        return np.where(p > 0.5, np.log1p(-np.minimum(other, 0.5)), np.log(np.maximum(p, LEAST)))

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

    def to_dict(self, level: float = LEVEL) -> dict[str, np.ndarray]:
        """Columns of a table, one entry per bag.

        id, size (if known), predicted, probability, lower, upper, and the standard deviations
        bag_sd and weights_sd of the latent value.
        """
        columns = {"id": np.arange(len(self)) if self.ids is None else self.ids}
        if self.sizes is not None:
            columns["size"] = self.sizes
        lower, upper = self.interval(level).T
        columns |= {"predicted": self.predicted, "probability": self.probability}
        columns |= {"lower": lower, "upper": upper}
        return columns | {f"{name}_sd": np.sqrt(getattr(self.parts, name)) for name in LATENT_PARTS}

    def __len__(self) -> int:
        return len(self._proba)

    def __getitem__(self, index: Any) -> ClassPrediction:
        """Prediction of some bags: an integer or id (one bag), a slice, a mask, or several."""
        return ClassPrediction(self._latent[index], self._likelihood, self._classes)

    def __repr__(self) -> str:
        if len(self) == 0:
            return "ClassPrediction(0 bags)"
        p = self.probability
        return (
            f"ClassPrediction({len(self)} bag{'s' * (len(self) > 1)}, "
            f"probability of {show(self._classes[1])} {p.min():.4g} to {p.max():.4g})"
        )


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
