"""Folds: which bags a model is fitted to, which it is then asked about, and what bags bring."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from jaxtyping import Int64
from sklearn.base import is_classifier
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from bagwise.bags.bags import Bags
from bagwise.bags.per_bag import array_per_bag, check_classes, check_labels, numbers_per_bag
from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseError

N_FOLDS = 5

Split = tuple[Int64[np.ndarray, " _"], Int64[np.ndarray, " _"]]  # positions to fit to, to predict


def make_splits(
    model: Any, y: np.ndarray, cv: Any = None, groups: np.ndarray | None = None
) -> list[Split]:
    """Return the folds that ``cv`` stands for, with the defaults of scikit-learn.

    Parameters
    ----------
    model : a regressor or classifier;  y : (n,) labels
    cv : number of folds (5 by default), a splitter of scikit-learn, or (train, test) positions
    groups : (n,), never parted if ``cv`` is a number, and handed to a splitter

    Examples
    --------
    >>> from sklearn.linear_model import Ridge
    >>> make_splits(Ridge(), np.arange(4.0), cv=2, groups=np.array(["a", "b", "b", "a"]))
    [(array([0, 3]), array([1, 2])), (array([1, 2]), array([0, 3]))]
    """
    classes = is_classifier(model)
    if groups is not None and is_number(cv):
        cv = (StratifiedGroupKFold if classes else GroupKFold)(N_FOLDS if cv is None else int(cv))
    try:
        splitter = check_cv(cv, y, classifier=classes)
        splits = list(splitter.split(np.zeros((len(y), 1)), y, groups))
    except ValueError as error:
        raise BagwiseError.because(
            f"the bags cannot be cut into folds ({' '.join(str(error).split())})",
            "folds of these bags",
            "Give another cv.",
        ) from error
    if classes:
        _check_classes_in(splits, y)
    return [(np.asarray(train, np.int64), np.asarray(test, np.int64)) for train, test in splits]


def _check_classes_in(splits: list[Any], y: np.ndarray) -> None:
    """Raise if a fold leaves no bag of a class to fit to, of which a model would then not know."""
    classes = np.unique(y)
    for fold, (train, _) in enumerate(splits):
        missing = np.setdiff1d(classes, y[train])
        if len(missing):
            raise BagwiseError.because(
                f"fold {fold} holds out all bags of class {show(missing[0])}",
                "some bags of every class to fit to",
                "Give more bags of that class, leave it out, or give another cv.",
            )


def check_once_each(splits: list[Split], n_bags: int) -> list[Split]:
    """Return the folds, or raise unless they hold out each bag once."""
    times = np.bincount(np.concatenate([test for _, test in splits]), minlength=n_bags)
    if len(times) > n_bags or (times != 1).any():
        raise BagwiseError.because(
            f"cv holds out {np.count_nonzero(times == 0)} bags never and "
            f"{np.count_nonzero(times > 1)} more than once",
            "each bag once",
            "Take KFold, GroupKFold or LeaveOneGroupOut.",
        )
    return splits


def shuffled(model: Any, y: np.ndarray, n_folds: Any) -> Any:
    """Return the splitter into folds of bags drawn at random, always the same ones.

    Of classes every fold has its share, so there are no more folds than bags of the rarer.
    """
    n_folds = N_FOLDS if n_folds is None else int(n_folds)
    if n_folds < 2:
        raise BagwiseError.because(f"cv is {n_folds}", "at least 2 folds", f"Try {N_FOLDS}.")
    if not is_classifier(model):
        return KFold(n_folds, shuffle=True, random_state=0)
    return StratifiedKFold(min(n_folds, _smallest_class(y)), shuffle=True, random_state=0)


def _smallest_class(y: np.ndarray) -> int:
    """Return the number of bags of the smallest class: there can be no more folds than that."""
    classes, counts = np.unique(y, return_counts=True)
    rare = np.argmin(counts)
    if counts[rare] < 2:
        raise BagwiseError.because(
            f"class {show(classes[rare])} has one bag",
            "two or more of each class, to fit to some and score on the others",
            "Give bags to score on, as validation=(bags, labels).",
        )
    return int(counts[rare])


def splits_of(held_out: Iterable[Int64[np.ndarray, " _"]], n_bags: int) -> list[Split]:
    """Return for each set of positions all others, to fit to, and itself.

    Examples
    --------
    >>> splits_of([np.array([1])], 3)
    [(array([0, 2]), array([1]))]
    """
    return [(np.setdiff1d(np.arange(n_bags), rows), rows) for rows in held_out]


def is_number(cv: Any) -> bool:
    """Whether ``cv`` is a number of folds, or the default one."""
    return cv is None or isinstance(cv, int | np.integer)


def labels_of(model: Any, y: Any, bags: Bags) -> np.ndarray:
    """Return the labels as an array in the order of the bags, checked: of classes or numbers."""
    if not is_classifier(model):
        return check_labels(y, bags)
    classes, which = check_classes(y, bags)
    return classes[which]


def groups_of(groups: Any, bags: Bags) -> np.ndarray | None:
    """Return one group per bag, in the order of the bags."""
    if groups is None:
        return None
    return _one_each(array_per_bag(groups, bags.ids, "groups"), "groups", bags)


def weights_of(sample_weight: Any, bags: Bags) -> np.ndarray | None:
    """Return one weight per bag, in the order of the bags."""
    if sample_weight is None:
        return None
    weights = numbers_per_bag(sample_weight, bags.ids, "sample weights")
    return _one_each(weights, "sample weights", bags)


def _one_each(values: np.ndarray, what: str, bags: Bags) -> np.ndarray:
    if values.shape != (bags.n_bags,):
        raise BagwiseError.because(
            f"the {what} have shape {values.shape}", f"({bags.n_bags},), one per bag", "Give those."
        )
    return values
