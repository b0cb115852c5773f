"""Case: the bags, labels and predictions that a page is about, checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64
from sklearn.base import is_classifier

from bagwise.bags.bags import Bags, BagStream
from bagwise.bags.per_bag import check_classes, check_labels
from bagwise.exceptions import BagwiseError
from bagwise.predictions.joined import Joined, Piece, joined
from bagwise.predictions.metrics import ClassPredictive

# Points of each bag of a stream that are looked at one by one, and numbers of all of them: 128 MB.
SAMPLE_POINTS = 100
SAMPLE_NUMBERS = 1 << 24


@dataclass(frozen=True)
class Words:
    """What the page says about itself: its title, where the data are from, how it was made.

    ``unused`` are columns of the table that are not used, and why.
    """

    title: str
    source: str | None
    how: str
    notes: tuple[str, ...] = ()
    unused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Case:
    """What a page is about.

    Attributes
    ----------
    bags : n bags;  points : the same in memory, of a stream a sample of the points of each
    y : (n,) labels as given
    labels : (n,) numbers; of classes their places among these
    classes : (k,), or None for real labels
    predictions : `Joined`, by name of the model;  baseline : without looking into the bags
    level : probability of the intervals;  words : about the page
    seed : of what is drawn at random for the pictures
    """

    bags: Bags
    points: Bags
    y: np.ndarray
    labels: Float64[np.ndarray, " n"]
    classes: np.ndarray | None
    predictions: dict[str, Any]
    baseline: Any
    level: float
    words: Words
    seed: int

    @cached_property
    def names(self) -> list[str]:
        """A name for every bag, no two alike."""
        texts = [name_of(bag) for bag in self.bags.ids.tolist()]
        if len(set(texts)) == len(texts):
            return texts
        return [f"{text} (bag {i})" for i, text in enumerate(texts)]

    @property
    def sampled(self) -> bool:
        """Whether only a sample of the points is in memory."""
        return self.points is not self.bags

    @property
    def many(self) -> bool:
        """Whether there are more than two classes: then what is drawn is of the predicted one."""
        return self.classes is not None and len(self.classes) > 2

    @property
    def sizes(self) -> Float64[np.ndarray, " n"]:
        """Number of points of each bag."""
        return self.bags.sizes.astype(np.float64)


def points_of(bags: Bags, seed: int) -> Bags:
    """Return bags in memory: these, or of a stream some points of each at random, in one pass."""
    if not isinstance(bags, BagStream):
        return bags
    most = SAMPLE_NUMBERS // (bags.n_bags * bags.n_features)
    return bags.some(np.arange(bags.n_bags), int(np.clip(most, 1, SAMPLE_POINTS)), seed)


def name_of(bag_id: Any) -> str:
    """Write a bag's id, one of several columns with dots between them.

    Examples
    --------
    >>> name_of(("Ohio", 2020))
    'Ohio · 2020'
    """
    if isinstance(bag_id, tuple):
        return " · ".join(map(str, bag_id))
    return str(bag_id)


def labels_of(
    bags: Bags, y: Any, classes: bool
) -> tuple[np.ndarray, Float64[np.ndarray, " n"], np.ndarray | None]:
    """Check labels: return them, their numbers, and the classes if they are of classes."""
    if not classes:
        labels = check_labels(y, bags)
        return labels, labels, None
    known, which = check_classes(y, bags)
    return known[which], which.astype(np.float64), known


def check_models(models: Any) -> bool:
    """Raise unless all models predict distributions of one kind; return if it is of classes."""
    _check_some(models, "models")
    for name, model in models.items():
        if not (hasattr(model, "fit") and hasattr(model, "predict_dist")):
            raise BagwiseError.because(
                f"the model {name!r} is a {type(model).__name__}, which has no predict_dist",
                "an estimator of bagwise",
                "Give one such as bagwise.ShrinkageRegressor().",
            )
    return _of_one_kind({name: bool(is_classifier(model)) for name, model in models.items()})


def check_predictions(
    predictions: Any, models: Mapping[str, Any], bags: Bags
) -> tuple[dict[str, Joined], bool]:
    """Raise unless all are predictions of these bags; return them, and if they are of classes."""
    _check_some(predictions, "predictions")
    for name, prediction in predictions.items():
        if not all(hasattr(prediction, need) for need in ("log_prob", "interval", "parts")):
            raise BagwiseError.because(
                f"the prediction {name!r} is a {type(prediction).__name__}",
                "what predict_dist returns",
                "Give model.predict_dist(bags) rather than model.predict(bags).",
            )
        if len(prediction) != bags.n_bags or not _same(prediction.ids, bags.ids):
            raise BagwiseError.because(
                f"the prediction {name!r} is of {len(prediction)} bags"
                + (" with other ids" if len(prediction) == bags.n_bags else ""),
                f"one of each of the {bags.n_bags} bags, in their order",
                "Give model.predict_dist(bags) of these bags.",
            )
    kinds = {name: isinstance(p, ClassPredictive) for name, p in predictions.items()}
    rows = np.arange(bags.n_bags, dtype=np.int64)
    whole = {
        name: p if isinstance(p, Joined) else joined([Piece(rows, p, models.get(name))])
        for name, p in predictions.items()
    }
    return whole, _of_one_kind(kinds)


def _check_some(given: Any, what: str) -> None:
    if not isinstance(given, Mapping) or not given:
        raise BagwiseError.because(
            f"there are no {what}" if isinstance(given, Mapping) else f"{what} is no dict",
            f"a dict of {what} by name",
            'Give at least one, such as {"shrinkage": ...}.',
        )


def _of_one_kind(kinds: Mapping[str, bool]) -> bool:
    """Return whether all are of classes; raise if only some are."""
    if len(set(kinds.values())) > 1:
        some = [repr(name) for name, of_classes in kinds.items() if of_classes]
        raise BagwiseError.because(
            f"of the models, only {', '.join(some)} predict classes",
            "either classifiers or regressors",
            "Make one page for each.",
        )
    return next(iter(kinds.values()))


def _same(ids: np.ndarray | None, others: np.ndarray) -> bool:
    return ids is None or ids.tolist() == others.tolist()
