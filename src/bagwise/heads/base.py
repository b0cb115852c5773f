"""What a head is fitted to, and what it is: a regression from a bag's embedding to its label.

Labels are standardised here; estimators bring predictions back to their units. Every head has a
``loss``, comparable between fits of one kind to the same labels: the smaller the better.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Bool, Float64, Int

from bagwise.bags.bags import Bags
from bagwise.bags.per_bag import array_per_bag, check_classes, check_labels
from bagwise.bags.validation import is_positive, show
from bagwise.embedding.posterior import EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.exceptions import BagwiseWarning, InvalidBagsError, InvalidLabelsError
from bagwise.likelihoods.base import Likelihood
from bagwise.likelihoods.counts import CountLikelihood
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.latent import Latent

Design = Float64[np.ndarray, "n r"]
Vector = Float64[np.ndarray, " n"]

# Noise variance of standardised labels is never taken to be less: a density needs one.
MIN_NOISE = 1e-10

# Spread below this share of the labels' size is rounding error: they are constant.
CONSTANT = 1e-12
# Share of their size of which a hundred-thousandth, the least noise, is more than rounding error.
LEAST_UNIT = 1e-9
# So that the variance of what is a millionth of it is a number.
LEAST_SCALE = 1e-140

# Share of the largest sample weight below which a bag is rounding error beside it, and what of
# such bags is fitted would be rounding error too.
LEAST_WEIGHT_SHARE = 1e-9

# A combination of covariates is taken to be one of the others below this share of the largest.
COLLINEAR = 1e-9


@dataclass(frozen=True, eq=False)
class FixedEffects:
    """Columns for the intercept and the covariates, free of collinearity.

    F_i = [1, (c_i − center)/scale] A, with A such that the training columns, weighted as the bags
    are, are orthogonal and have mean square 1. Dummy variables that add up to 1, a constant column,
    or one that varies only in bags of weight 0 so do no harm.

    Attributes
    ----------
    center, scale : (c,), weighted means and standard deviations of the covariates; of constants,
        their size, or 1
    mixing : (1 + c, r), A
    """

    center: Float64[np.ndarray, " c"]
    scale: Float64[np.ndarray, " c"]
    mixing: Float64[np.ndarray, "c+1 r"]

    @classmethod
    def fit(cls, covariates: Float64[np.ndarray, "n c"] | None, weights: Vector) -> FixedEffects:
        """Learn the columns from the covariates, if any, and the weights of the training bags.

        Examples
        --------
        >>> dummies = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
        >>> FixedEffects.fit(dummies, np.ones(3)).design(dummies, 3).shape
        (3, 2)
        """
        covariates = np.zeros((len(weights), 0)) if covariates is None else covariates
        share = weights / weights.sum()
        center = share @ covariates
        scale = np.sqrt(share @ (covariates - center) ** 2)
        size = np.maximum(np.abs(center), 1.0)  # of constants, beside which rounding is nothing
        scale = np.where(scale > COLLINEAR * np.abs(center), scale, size)
        raw = np.column_stack([np.ones(len(weights)), (covariates - center) / scale])
        _, values, rows = np.linalg.svd(np.sqrt(share)[:, None] * raw, full_matrices=False)
        keep = values > COLLINEAR * values[0]
        return cls(center, scale, rows[keep].T / values[keep])

    def design(self, covariates: Float64[np.ndarray, "n c"] | None, n_bags: int) -> Design:
        """Return the columns F for some bags."""
        covariates = np.zeros((n_bags, 0)) if covariates is None else covariates
        raw = np.column_stack([np.ones(n_bags), (covariates - self.center) / self.scale])
        return raw @ self.mixing

    def without(self, column: int) -> FixedEffects:
        """Return effects in which a covariate, constant in training, has no part at all."""
        mixing = self.mixing.copy()
        mixing[1 + column] = 0.0
        return FixedEffects(self.center, self.scale, mixing)

    def unmix(
        self, coefficients: Float64[np.ndarray, " r"]
    ) -> tuple[float, Float64[np.ndarray, " c"]]:
        """Return the intercept and the coefficients of the covariates in their own units."""
        raw = self.mixing @ coefficients
        slopes = raw[1:] / self.scale
        return float(raw[0] - slopes @ self.center), slopes


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups of bags that err together, such as the races of a year.

    Attributes
    ----------
    ids : (g,), of the groups, sorted;  of : (n,), the place in ids of the group of each bag
    """

    ids: np.ndarray
    of: Int[np.ndarray, " n"]

    @classmethod
    def among(cls, groups: Any, bags: Bags) -> Groups:
        """Learn the groups of the training bags, given by bag id or in their order.

        Examples
        --------
        >>> Groups.among(["b", "a", "b"], Bags.from_array(np.zeros((3, 1, 1)))).of
        array([1, 0, 1])
        """
        ids, of = np.unique(_of_each_bag(groups, bags), return_inverse=True)
        return cls(ids, of.astype(np.int64))

    def take(self, bags: Any) -> Groups:
        """Return those of some of the bags."""
        return Groups(self.ids, self.of[bags])


def places_of(groups: Any, bags: Bags, ids: np.ndarray) -> Int[np.ndarray, " n"]:
    """Return the place of the group of each bag among known ones, −1 for one that is not.

    Examples
    --------
    >>> places_of([2020, 1998], Bags.from_array(np.zeros((2, 1, 1))), np.array([1996, 1998]))
    array([-1,  1])
    """
    known = {group: place for place, group in enumerate(ids.tolist())}
    asked = _of_each_bag(groups, bags).tolist()
    return np.array([known.get(group, -1) for group in asked], dtype=np.int64)


def _of_each_bag(groups: Any, bags: Bags) -> np.ndarray:
    found = array_per_bag(groups, bags.ids, "groups")
    if found.shape != (bags.n_bags,):
        raise InvalidLabelsError.because(
            f"groups have shape {found.shape}", f"({bags.n_bags},), one per bag", "Give those."
        )
    if any(group is None or group != group for group in found.tolist()):
        raise InvalidLabelsError.because(
            "a bag has no group", "a group of every bag", "Give bags of no group one each."
        )
    return found


@dataclass(frozen=True, eq=False)
class Task:
    """Labels as heads see them, fixed effects and bag weights.

    Attributes
    ----------
    labels : (n,), (y − center)/scale; of two classes −1 and +1; of more, their places in classes
    center, scale : weighted mean and standard deviation of y, see :func:`_label_scale` for constant
        labels. Of classes 0 and 1
    effects : FixedEffects;  design : (n, r), their columns for the training bags
    weights : (n,), sample weights scaled to mean 1 over the bags that count, whose weight is not 0
    classes : (k,), or None for real labels
    likelihood : of counts, which are not standardised: center is a latent value, and scale 1
    groups : Groups of bags that err together, or None
    """

    labels: Vector
    center: float
    scale: float
    effects: FixedEffects
    design: Design
    weights: Vector
    classes: np.ndarray | None = None
    likelihood: CountLikelihood | None = None
    groups: Groups | None = None

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
    def of_counts(
        cls,
        bags: Bags,
        y: Vector,
        likelihood: CountLikelihood,
        sample_weight: Any = None,
        totals: int | None = None,
    ) -> Task:
        """Check counts and sample weights; the covariate that holds totals has no effect.

        Examples
        --------
        >>> from bagwise.likelihoods import Poisson
        >>> bags = Bags.from_array(np.zeros((2, 1, 1)))
        >>> task = Task.of_counts(bags, np.array([1.0, 3.0]), Poisson(np.ones(2)))
        >>> task.labels, round(task.center, 3)
        (array([1., 3.]), 0.693)
        """
        likelihood.check(y, bags.ids)
        _check_several(bags)
        weights = _sample_weight(sample_weight, bags)
        covariates = bags.covariates
        if totals is not None:
            assert covariates is not None
            covariates = covariates.copy()
            covariates[:, totals] = 1.0
        effects = _effects(covariates, weights)
        if totals is not None:
            effects = effects.without(totals)
        design = effects.design(covariates, bags.n_bags)
        center = likelihood.center(y, weights)
        return cls(y, center, 1.0, effects, design, weights, likelihood=likelihood)

    @classmethod
    def of_classes(
        cls, bags: Bags, y: Any, sample_weight: Any = None, class_weight: Any = None
    ) -> Task:
        """Check labels of classes and the weights of bags and classes.

        Examples
        --------
        >>> Task.of_classes(Bags.from_array(np.zeros((2, 1, 1))), ["a", "b"]).labels
        array([-1.,  1.])
        >>> Task.of_classes(Bags.from_array(np.zeros((3, 1, 1))), ["a", "c", "b"]).labels
        array([0., 2., 1.])
        """
        _check_several(bags)
        classes, which = check_classes(y, bags)
        weights = _sample_weight(sample_weight, bags)
        of_class = _class_weight(class_weight, classes, which, weights)
        weights = weights * of_class[which]
        weights = weights / weights[weights > 0].mean()
        for k, label in enumerate(classes):
            if not weights[which == k].any():
                raise InvalidLabelsError.because(
                    f"all bags of class {show(label)} have weight 0",
                    "a positive weight in every class",
                    "Check sample_weight and class_weight.",
                )
        effects = _effects(bags.covariates, weights)
        design = effects.design(bags.covariates, bags.n_bags)
        labels = np.where(which == 1, 1.0, -1.0) if len(classes) == 2 else which.astype(float)
        return cls(labels, 0.0, 1.0, effects, design, weights, classes)

    @property
    def against_the_rest(self) -> tuple[Task, ...]:
        """Of many classes, a task of two for each: it, and all others; else this one alone."""
        if self.classes is None or len(self.classes) == 2:
            return (self,)
        both = np.array([False, True])
        return tuple(
            replace(self, labels=np.where(self.labels == k, 1.0, -1.0), classes=both)
            for k in range(len(self.classes))
        )

    def take(self, bags: Bool[np.ndarray, " n"] | Int[np.ndarray, " k"]) -> Task:
        """Return the task of some of the bags, with labels on the same scale."""
        return replace(
            self,
            labels=self.labels[bags],
            design=self.design[bags],
            weights=self.weights[bags],
            likelihood=None if self.likelihood is None else self.likelihood.take(bags),
            groups=None if self.groups is None else self.groups.take(bags),
        )


def _label_scale(y: Vector, center: float, weights: Vector) -> float:
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


def _effects(covariates: Float64[np.ndarray, "n c"] | None, weights: Vector) -> FixedEffects:
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
    which: Int[np.ndarray, " n"],
    weights: Vector,
) -> Float64[np.ndarray, " k"]:
    """Return the weight of each class: equal, balanced, or given by class."""
    if class_weight is None:
        return np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        others = [weights[which == k].sum() / weights.sum() for k in range(1, len(classes))]
        shares = np.array([1.0 - sum(others), *others])
        return 1.0 / (len(classes) * np.maximum(shares, 1e-300))
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


def _sample_weight(sample_weight: Any, bags: Bags) -> Vector:
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
    return _raised(weights, bags)


def _raised(weights: Vector, bags: Bags) -> Vector:
    """Return the weights with mean 1; what would be rounding error beside the largest is raised."""
    weights = weights / weights.max()
    low = np.flatnonzero((weights > 0) & (weights < LEAST_WEIGHT_SHARE))
    if len(low):
        warnings.warn(
            f"{len(low)} of {bags.n_bags} sample weights are less than a billionth of the largest, "
            f"the first that of bag {show(bags.ids[low[0]])}: beside it they would be rounding "
            "error, so they count as a billionth. Give bags that are not to count the weight 0.",
            BagwiseWarning,
            stacklevel=2,
        )
        weights[low] = LEAST_WEIGHT_SHARE
    return weights / weights[weights > 0].mean()


@dataclass(frozen=True, eq=False)
class Response:
    """How the mean of one bag's prediction depends on its embedding μ̂, labels standardised.

    mean = level + v·(μ̂ − m0) + F γ

    v is exact for heads that are linear in μ̂; for others it is the gradient, averaged over the
    straight way from the average bag m0 to μ̂, for which the same holds.

    Attributes
    ----------
    slope : (d,), v;  center : (d,), m0;  level : mean at m0 without effects;  gamma : (r,)
    """

    slope: Float64[np.ndarray, " d"]
    center: Float64[np.ndarray, " d"]
    level: float
    gamma: Float64[np.ndarray, " r"]

    def times(self, factors: Float64[np.ndarray, " n"]) -> Response:
        """Return the response of the mean times a factor, that of the first bag."""
        factor = float(factors[0])
        return Response(factor * self.slope, self.center, factor * self.level, factor * self.gamma)


class Head(Protocol):
    """A fitted head."""

    @property
    def loss(self) -> float:
        """Criterion by which fits to other features are compared with this one."""
        ...

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior of the embeddings of bags, as this head sees them."""
        ...

    def latent(self, posterior: EmbeddingPosterior, design: Design) -> Latent:
        """Predict bags from the posterior of their embeddings and their fixed effects F."""
        ...

    def response(self, posterior: EmbeddingPosterior, design: Design) -> Response:
        """Say how the mean of the first bag depends on its embedding."""
        ...


@dataclass(frozen=True, eq=False)
class LearningStart:
    """Where a head stands when features are to be learnt by its model.

    Attributes
    ----------
    start : parameters by name: ``alpha`` (1, s), ``gamma`` (1, r), and logs of scales
    length : ℓ of the convolved prior, if that is the prior
    sampling : τ, at which it stays
    likelihood, weight_var, shrinks, spreads, ridge, evidence : as
        :class:`bagwise.inference.learning.LearningProblem` has them
    """

    start: dict[str, Any]
    likelihood: Likelihood = field(default_factory=Gaussian)
    weight_var: float = 1.0
    length: float | None = None
    sampling: float = 1.0
    shrinks: bool = True
    spreads: bool = False
    ridge: bool = False
    evidence: bool = False


@dataclass(frozen=True, eq=False)
class ClassHeads:
    """A head for each of more than two classes, of two classes each: it, and the rest.

    Attributes
    ----------
    heads : Head of each class, in their order
    loss : sum of theirs, by which fits to other features are compared
    """

    heads: tuple[Any, ...]

    @property
    def loss(self) -> float:
        """Sum of the losses."""
        return sum(head.loss for head in self.heads)


# What a fit may give.
AnyHead = Head | ClassHeads


def heads_of(head: Any) -> tuple[Any, ...]:
    """Return the heads of the classes; of real labels and two classes, the one that there is."""
    return head.heads if isinstance(head, ClassHeads) else (head,)


def for_each_class(task: Task, fit: Callable[..., Head], *given: Any) -> Any:
    """Fit a head to each class against the rest; for two classes or real labels, one.

    Parameters
    ----------
    task : of any labels
    fit : (task of two classes or real labels, part of each of ``given``) ↦ head
    given : heads that were fitted to the same task before
    """
    parts = zip(task.against_the_rest, *map(heads_of, given), strict=True)
    heads = tuple(fit(*part) for part in parts)
    return heads[0] if len(heads) == 1 else ClassHeads(heads)


def of_each_class(head: Any, value: Callable[[Any], Any]) -> Any:
    """Return what a head has; of many classes an array with a row for each, or None."""
    values = [value(each) for each in heads_of(head)]
    if len(values) == 1 or values[0] is None:
        return values[0]
    return np.array(values)


def some_of(n: int, most: int) -> Int[np.ndarray, " k"]:
    """Return the places of some bags, chosen at random but always the same, in order.

    Examples
    --------
    >>> some_of(3, 10)
    array([0, 1, 2])
    """
    return np.sort(np.random.default_rng(0).permutation(n)[:most])
