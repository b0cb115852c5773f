"""Matching: labels against the bags, and the columns of bags against those of a fit."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64

from bagwise.bags import Bags
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError
from bagwise.grouping import show
from bagwise.per_bag import array_per_bag, numbers_per_bag
from bagwise.validation import LARGEST, Names, is_usable, unusable


def check_labels(y: Any, bags: Bags) -> Float64[np.ndarray, " n_bags"]:
    """Return labels as float64 (n_bags,): real, finite, one per bag; a column (n_bags, 1) will do.

    They go by id where they have one: see :func:`bagwise.per_bag.in_bag_order`.

    Examples
    --------
    >>> bags = Bags.from_array(np.zeros((2, 3, 1)), ids=["a", "b"])
    >>> check_labels([[1], [2]], bags)
    array([1., 2.])
    >>> check_labels([1.0, np.nan], bags)
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidLabelsError: the label of bag 'b' (position 1) is nan; expected a
    finite number. Drop the bags without a label: keep = np.isfinite(y); bags[keep], y[keep].
    """
    labels = _one_per_bag(numbers_per_bag(y, bags.ids), bags)
    bad = np.flatnonzero(~is_usable(labels))
    if len(bad):
        place = f"the label of bag {show(bags.ids[bad[0]])} (position {bad[0]})"
        remedy = "Drop the bags without a label: keep = np.isfinite(y); bags[keep], y[keep]."
        raise unusable(InvalidLabelsError, place, labels[bad[0]], remedy)
    if 0 < np.ptp(labels) < 1.0 / LARGEST:
        raise InvalidLabelsError.because(
            f"the labels differ, but by {np.ptp(labels):g} at most",
            f"differences of {1.0 / LARGEST:g} or more, whose squares are not 0",
            "Give the labels in a smaller unit.",
        )
    return labels


def check_classes(y: Any, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
    """Return the two classes, sorted, and for each bag whether it is of the second (n_bags,).

    Examples
    --------
    >>> bags = Bags.from_array(np.zeros((3, 2, 1)))
    >>> check_classes(["no", "yes", "no"], bags)
    (array(['no', 'yes'], dtype='<U3'), array([False,  True, False]))
    """
    labels = _one_per_bag(array_per_bag(y, bags.ids), bags)
    if labels.dtype.kind == "c" or labels.dtype.names is not None:
        raise InvalidLabelsError.because(
            f"the labels have dtype {labels.dtype}",
            "two classes",
            "Give numbers, strings or booleans.",
        )
    bad = np.flatnonzero([_is_missing(label) for label in labels.tolist()])
    if len(bad):
        raise InvalidLabelsError.because(
            f"the label of bag {show(bags.ids[bad[0]])} (position {bad[0]}) is {labels[bad[0]]}",
            "a class",
            "Drop the bags without a label.",
        )
    try:
        classes = np.unique(labels)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InvalidLabelsError.because(
            f"the labels are of types {', '.join(kinds)}",
            "labels of one type",
            "Convert them to strings.",
        ) from error
    if len(classes) == 1:
        raise InvalidLabelsError.because(
            f"all {bags.n_bags} bags have the label {show(classes[0])}",
            "two classes",
            "There is nothing to learn; give bags of the other class too.",
        )
    if len(classes) > 2:
        remedy = "Fit one class against the rest: sklearn.multiclass.OneVsRestClassifier(model)."
        if labels.dtype.kind == "f":
            remedy += " If the labels are amounts, use a regressor."
        shown = ", ".join(repr(label) for label in classes[:4].tolist())
        dots = ", …" if len(classes) > 4 else ""
        raise InvalidLabelsError.because(
            f"there are {len(classes)} classes: {shown}{dots}", "two", remedy
        )
    return classes, labels == classes[1]


def _is_missing(label: Any) -> bool:
    """Whether a label is None, or not equal to itself; of pandas' NA it is not known if it is."""
    same = label == label
    return label is None or not isinstance(same, bool | np.bool_) or not same


def _one_per_bag(labels: np.ndarray, bags: Bags) -> np.ndarray:
    labels = labels.ravel() if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InvalidLabelsError.because(
            f"the labels have shape {labels.shape}",
            f"({bags.n_bags},), one label per bag",
            "Pass a 1-D array; fit one model for each column if there are several.",
        )
    if len(labels) != bags.n_bags:
        raise InvalidLabelsError.because(
            f"there are {len(labels)} labels for {bags.n_bags} bags",
            "one label per bag",
            "Labels belong to bags, not to points: keep one for each bag."
            if len(labels) == bags.n_points
            else "Check that labels and bags come from the same rows.",
        )
    return labels


def check_features_match(fitted_names: Names, fitted_n: int, bags: Bags) -> None:
    """Raise unless the bags have the features of the fit: as many, same names, same order.

    Names are compared only if both sides have them.

    Examples
    --------
    >>> bags = Bags.from_array(np.zeros((2, 3, 2)), feature_names=["b", "a"])
    >>> check_features_match(("a", "b"), 2, bags)
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidBagsError: the feature columns are in another order than in fit:
    ('b', 'a'); expected ('a', 'b'). Reorder the columns: df[['a', 'b']].
    """
    _check_columns("feature", (fitted_names, fitted_n), (bags.feature_names, bags.n_features))


def check_covariates_match(fitted_names: Names, fitted_n: int, bags: Bags) -> None:
    """Raise unless the bags have the covariates of the fit; see :func:`check_features_match`.

    Examples
    --------
    >>> check_covariates_match(("age",), 1, Bags.from_array(np.zeros((2, 3, 2))))
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidBagsError: these bags have 0 covariates; expected 1, as in fit: 'age'.
    Give the bags the covariates that the model was fitted with.
    """
    _check_columns("covariate", (fitted_names, fitted_n), (bags.covariate_names, bags.n_covariates))


def _check_columns(what: str, fitted: tuple[Names, int], given: tuple[Names, int]) -> None:
    """Compare (names, count) of the fit with those given; names say more, so they come first."""
    fitted_names, fitted_n = fitted
    names, n = given
    if fitted_names is not None and names is not None and names != fitted_names:
        _raise_names(what, fitted_names, names)
    if n != fitted_n:
        listing = "" if fitted_names is None else ": " + ", ".join(map(repr, fitted_names))
        raise InvalidBagsError.because(
            f"these bags have {n} {what}s",
            f"{fitted_n}, as in fit{listing}",
            f"Give the bags the {what}s that the model was fitted with.",
        )


def _raise_names(what: str, fitted: tuple[str, ...], names: tuple[str, ...]) -> None:
    known, there = set(fitted), set(names)
    lacking = [name for name in fitted if name not in there]
    extra = [name for name in names if name not in known]
    if lacking or extra:
        raise InvalidBagsError.because(
            f"the {what} names differ from those in fit: missing {lacking}, unexpected {extra}",
            f"{fitted}",
            f"Select the same columns as in fit: df[{list(fitted)}].",
        )
    raise InvalidBagsError.because(
        f"the {what} columns are in another order than in fit: {names}",
        f"{fitted}",
        f"Reorder the columns: df[{list(fitted)}].",
    )
