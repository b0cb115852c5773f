"""Task: the labels of the training bags and what is known of the bags as wholes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from bagwise.bags.bags import Bags
from bagwise.bags.checks import check_classes, check_labels
from bagwise.bags.grouping import show
from bagwise.bags.per_bag import array_per_bag
from bagwise.bags.validation import is_positive
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError
from bagwise.inference.effects import FixedEffects

# Spread below this share of the labels' size is rounding error: they are constant.
CONSTANT = 1e-12
# Share of their size of which a hundred-thousandth, the least noise, is more than rounding error.
LEAST_UNIT = 1e-9
# So that the variance of what is a millionth of it is a number.
LEAST_SCALE = 1e-140


@dataclass(frozen=True, eq=False)
class Task:
    """Labels as heads see them, fixed effects and bag weights.

    Attributes
    ----------
    labels : (n,), (y − center)/scale; or of classes −1 and +1
    center, scale : weighted mean and standard deviation of y, see :func:`_label_scale` for constant
        labels. Of classes 0 and 1
    effects : FixedEffects;  design : (n, r), their columns for the training bags
    weights : (n,), sample weights scaled to mean 1 over the bags that count, whose weight is not 0
    classes : (2,), or None for real labels
    """

    labels: Float64[np.ndarray, " n"]
    center: float
    scale: float
    effects: FixedEffects
    design: Float64[np.ndarray, "n r"]
    weights: Float64[np.ndarray, " n"]
    classes: np.ndarray | None = None

    @classmethod
    def of(cls, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check labels and sample weights, and standardise.

        Examples
        --------
        >>> Task.of(Bags.from_array(np.zeros((2, 1, 1))), [1.0, 3.0]).labels
        array([-1.,  1.])
        """
        y = check_labels(y, bags)
        _check_several(bags)
        weights = _sample_weight(sample_weight, bags)
        center = float(np.average(y, weights=weights))
        scale = _label_scale(y, center, weights)
        effects = _effects(bags.covariates, weights)
        design = effects.design(bags.covariates, bags.n_bags)
        return cls((y - center) / scale, center, scale, effects, design, weights)

    @classmethod
    def of_classes(
        cls, bags: Bags, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> Task:
        """Check labels of two classes and the weights of bags and classes.

        Examples
        --------
        >>> Task.of_classes(Bags.from_array(np.zeros((2, 1, 1))), ["a", "b"]).labels
        array([-1.,  1.])
        """
        _check_several(bags)
        classes, second = check_classes(y, bags)
        weights = _sample_weight(sample_weight, bags)
        of_class = _class_weight(class_weight, classes, second, weights)
        weights = weights * of_class[second.astype(int)]
        weights = weights / weights[weights > 0].mean()
        for k in (0, 1):
            if not weights[second == k].any():
                raise InvalidLabelsError.because(
                    f"all bags of class {show(classes[k])} have weight 0",
                    "a positive weight in both classes",
                    "Check sample_weight and class_weight.",
                )
        effects = _effects(bags.covariates, weights)
        design = effects.design(bags.covariates, bags.n_bags)
        return cls(np.where(second, 1.0, -1.0), 0.0, 1.0, effects, design, weights, classes)

    def take(self, bags: Bool[np.ndarray, " n"] | Int[np.ndarray, " k"]) -> Task:
        """Return the task of some of the bags, with labels on the same scale."""
        return replace(
            self, labels=self.labels[bags], design=self.design[bags], weights=self.weights[bags]
        )


def _label_scale(
    y: Float64[np.ndarray, " n"], center: float, weights: Float64[np.ndarray, " n"]
) -> float:
    """Return the standard deviation of the labels.

    Labels that are equal but for rounding have none. They get 1, but no more than their own size
    and no less than a billionth of it: neither is what has that scale lost in them, nor are they
    lost in it.

    Examples
    --------
    >>> [_label_scale(np.full(2, y), y, np.ones(2)) for y in (0.0, 7.0, 1e-20, 1e20)]
    [1.0, 1.0, 1e-20, 100000000000.0]
    """
    spread = float(np.sqrt(np.average((y - center) ** 2, weights=weights)))
    if spread > CONSTANT * abs(center):
        return spread
    return max(min(1.0, float(np.abs(y).max()) or 1.0), LEAST_UNIT * abs(center), LEAST_SCALE)


def _effects(
    covariates: Float64[np.ndarray, "n c"] | None, weights: Float64[np.ndarray, " n"]
) -> FixedEffects:
    """Learn the fixed effects from the bags that count."""
    n_bags = int(np.count_nonzero(weights))
    effects = FixedEffects.fit(covariates, weights)
    if effects.mixing.shape[1] >= n_bags:
        raise InvalidBagsError.because(
            f"there are {len(effects.center)} covariates for {n_bags} bags",
            "fewer covariates, which with an intercept would explain any labels",
            "Leave covariates out, or give more bags.",
        )
    return effects


def _check_several(bags: Bags) -> None:
    if bags.n_bags < 2:
        raise InvalidBagsError.because(
            "there is 1 bag to fit",
            "at least 2, as each bag has one label to learn from",
            "Give more bags; if the rows of this one belong to several, pass (X, groups).",
        )


def _class_weight(
    class_weight: Any,
    classes: np.ndarray,
    second: Bool[np.ndarray, " n"],
    weights: Float64[np.ndarray, " n"],
) -> Float64[np.ndarray, " 2"]:
    """Return the weight of each class: equal, balanced, or given by class."""
    if class_weight is None:
        return np.ones(2)
    if isinstance(class_weight, str) and class_weight == "balanced":
        share = float(weights[second].sum() / weights.sum())
        return np.array([0.5 / max(1.0 - share, 1e-300), 0.5 / max(share, 1e-300)])
    known = [label for label in classes.tolist() if isinstance(class_weight, dict)]
    if not known or not set(class_weight) <= set(known):
        raise InvalidLabelsError.because(
            f"class_weight is {class_weight!r}",
            f'None, "balanced" or weights of the classes {classes.tolist()}',
            f"For example {{{show(classes[0])}: 1.0, {show(classes[1])}: 2.0}}.",
        )
    values = [class_weight.get(label, 1.0) for label in known]
    if not all(is_positive(value) for value in values):
        raise InvalidLabelsError.because(
            f"class_weight is {class_weight!r}", "finite weights > 0", "Leave it out for 1."
        )
    return np.array(values, dtype=np.float64)


def _sample_weight(sample_weight: Any, bags: Bags) -> Float64[np.ndarray, " n"]:
    if sample_weight is None:
        return np.ones(bags.n_bags)
    weights = array_per_bag(sample_weight, bags.ids, "sample weights")
    if weights.dtype.kind not in "fiub" or weights.shape != (bags.n_bags,):
        raise InvalidLabelsError.because(
            f"sample_weight has shape {weights.shape} and dtype {weights.dtype}",
            f"one number per bag, ({bags.n_bags},)",
            "Weights of points go into the bags: Bags.from_groups(X, groups, weights=...).",
        )
    weights = weights.astype(np.float64)
    bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
    if len(bad):
        raise InvalidLabelsError.because(
            f"sample_weight of bag {bags.ids[bad[0]]!s} (position {bad[0]}) is {weights[bad[0]]}",
            "a finite number, not negative",
            "Give a bag that is not to count the weight 0.",
        )
    if np.count_nonzero(weights) < 2:
        raise InvalidLabelsError.because(
            f"{np.count_nonzero(weights)} bags have a positive sample_weight",
            "at least 2",
            "Leave sample_weight out to count all bags alike.",
        )
    return weights / weights[weights > 0].mean()
