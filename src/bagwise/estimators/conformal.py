"""Conformal: a model whose intervals hold whether or not the model is right."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from inspect import signature
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, r2_score
from sklearn.model_selection import LeaveOneGroupOut, LeaveOneOut
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from bagwise._utils.levels import LEVEL, check_level
from bagwise._utils.work import Progress, wanted
from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import numbers_per_bag
from bagwise.bags.validation import choice, flag, wrong
from bagwise.estimators.base import ShowsLearnt
from bagwise.estimators.embeddings import TakesBags
from bagwise.estimators.folds import (
    Split,
    check_once_each,
    groups_of,
    is_number,
    labels_of,
    make_splits,
    shuffled,
    weights_of,
)
from bagwise.estimators.scorers import predict_dist
from bagwise.estimators.selection import FeatureCache, fit_sharing
from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.likelihoods.probit import of_probabilities
from bagwise.predictions.by_size import rows_by_size
from bagwise.predictions.classes import check_class_labels
from bagwise.predictions.conformal import (
    ROUNDING,
    Calibration,
    SizeRatio,
    conformal,
    size_starts,
)
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.metrics import Scores
from bagwise.predictions.parts import VarianceParts

METHODS = ("cv+", "jackknife+", "split")
PREFIT = "prefit"
PREDICTED = "predicted"

# Folds of CV+, and parts of which split conformal holds out one.
FOLDS = {"cv+": 10, "split": 4}

# Sizes of fewer bags do not say how sizes are distributed.
LEAST_SIZES = 10

# Probabilities are this far from 0 and 1 at least: their latent values are finite.
LEAST_PROBABILITY = 1e-12


def _of_classes(model: Any) -> bool:
    return bool(is_classifier(model.model))


class Conformal(ShowsLearnt, TakesBags):
    """Calibrate a model on bags that it has not seen, so that its intervals hold.

    Around any estimator of bagwise, and any regressor or classifier of scikit-learn on bag
    embeddings. For a new bag drawn as the training bags were, the interval of level 90 % holds its
    label with probability 90 % or more, on average over training bags and new bag, whatever is true
    of the model. It is as wide as the errors on bags left out ask for:

    - ``"split"``: a part of the bags is left out, once. Exact: level to level + 1/(n + 1).
    - ``"cv+"``: each bag is left out once, in folds; one further model is fitted to all bags.
      Never below 2 level − 1 (and a little less with few bags in a fold), in practice at the level.
    - ``"jackknife+"``: folds of one bag each. As many fits as bags.

    The error of a bag is in units of the model's standard deviation, so that small bags have wide
    intervals if the model knows about sizes. Without, or in doubt, calibrate groups of sizes apart.

    Parameters
    ----------
    model : estimator of bagwise, or a Pipeline or search of scikit-learn; it is cloned
    method : "cv+", "jackknife+" or "split"
    cv : number of folds (by default 10, drawn at random but always the same), a splitter of
        scikit-learn, or (train, test) positions. Of "split" the number of parts of which one is
        left out (4), or a splitter with one split; or "prefit", if the model is fitted already and
        all bags are for calibration
    groups : (n_bags,), by bag id or in their order, such as hospitals; also an argument of ``fit``.
        Never parted between folds, and each group counts as one: intervals hold for a bag of a new
        group, and groups, not bags, must be many
    scale : "auto" for the model's standard deviation if it has one, "std" to insist, or None
    by_size : number of groups of sizes, of about as many bags, or first sizes of the groups (such
        as (1, 5, 20)), each of which is calibrated by its own bags; None for one group
    target_sizes : sizes of the bags to come, if they are distributed otherwise than in the
        training, or "predicted" for the bags that are predicted together: calibration bags are then
        weighted by the likelihood ratio of their log size
    symmetric : whether the ends of an interval are as far from the mean; if not, each end holds on
        its own, which takes twice as many bags. Of no concern to classes
    n_jobs : processes to fit folds in, -1 for all cores

    Attributes
    ----------
    model_ : the fitted model, which predicts
    models_ : list of the fitted models that predicted the calibration bags; of "split" ``[model_]``
    calibration_ : Calibration, the scores
    classes_ : of a classifier

    Notes
    -----
    Calibration takes bags as they are: ``sample_weight`` is for the models only. Whatever is
    promised is promised on average over bags like those of the calibration, with ``by_size`` over
    those of a size group. Where sizes are weighted, the promise is as good as the ratio: a logistic
    regression, quadratic in log size, tells the bags to come from those of the calibration, with a
    ridge penalty of one half on the standardised coefficients. A classifier of scikit-learn does
    not say how sure its probabilities are: their intervals have no width; sets are as of others.

    Examples
    --------
    >>> from bagwise import KernelEmbedding, ShrinkageRegressor
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 30)]
    >>> model = Conformal(ShrinkageRegressor(KernelEmbedding(8, bandwidth=1.0)), cv=5)
    >>> prediction = model.fit(bags, y).predict_dist(bags[:2])
    >>> prediction.interval(0.9).shape
    (2, 2)
    >>> model.coverage_by_size(0.9)
    group  bags  coverage
    all      60     0.900
    5        30     0.933
    50       30     0.867
    """

    def __init__(
        self,
        model: Any,
        method: str = "cv+",
        *,
        cv: Any = None,
        groups: Any = None,
        scale: str | None = "auto",
        by_size: Any = None,
        target_sizes: Any = None,
        symmetric: bool = True,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.method = method
        self.cv = cv
        self.groups = groups
        self.scale = scale
        self.by_size = by_size
        self.target_sizes = target_sizes
        self.symmetric = symmetric
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the models and calibrate: bags X, labels y and weights as in ``fit`` of the model.

        ``groups`` (n_bags,) are as the parameter of that name, and go before it.
        """
        bags = as_bags(X)
        self._check_parameters(_sizes(bags))
        labels = labels_of(self.model, y, bags)
        group = groups_of(self.groups if groups is None else groups, bags)
        splits = self._splits(labels, group)
        self._fit_models(bags, labels, weights_of(sample_weight, bags), splits, group)
        self._keep_columns(bags)
        rows = np.concatenate([test for _, test in splits])
        pairs = zip(self.models_, splits, strict=True)
        whole = self._is_prefit()  # bags on disk have no parts
        said = [_say(model, bags if whole else bags[test]) for model, (_, test) in pairs]
        which = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
        self.calibration_ = self._calibrate(
            said, labels[rows], which, _sizes(bags)[rows], None if group is None else group[rows]
        )
        return self

    def _check_parameters(self, sizes: np.ndarray) -> None:
        """Refuse parameters that would otherwise be looked at only after much work."""
        _check_model(self.model)
        choice("method", self.method, METHODS)
        flag("symmetric", self.symmetric)
        if self.scale is not None:
            choice("scale", self.scale, ("auto", "std"))
        self._starts(sizes)
        if self._has_target():
            self._target()

    def _fit_models(
        self,
        bags: Bags,
        y: np.ndarray,
        weights: np.ndarray | None,
        splits: list[Split],
        groups: np.ndarray | None,
    ) -> None:
        """Fit a model for each split, and if there are several one to all bags."""
        if self._is_prefit():
            self.model_, self.models_ = self.model, [self.model]
            return
        parts = [train for train, _ in splits]
        if self.method != "split":
            parts.append(np.arange(bags.n_bags))
        with Progress("calibrating", len(parts), wanted()) as bar:
            fitted = []
            for model in self._fitted(bags, y, weights, parts, groups):
                fitted.append(model)
                bar.advance()
        self.models_ = fitted[: len(splits)]
        self.model_ = fitted[-1]

    def _fitted(
        self,
        bags: Bags,
        y: np.ndarray,
        weights: np.ndarray | None,
        parts: list[np.ndarray],
        groups: np.ndarray | None,
    ) -> Iterator[Any]:
        jobs = (
            (
                self.model,
                bags[rows],
                y[rows],
                *(None if each is None else each[rows] for each in (weights, groups)),
            )
            for rows in parts
        )
        if self.n_jobs in (None, 1):
            return (_fit_one(*job) for job in jobs)
        run = Parallel(n_jobs=self.n_jobs, return_as="generator")
        return iter(run(delayed(_fit_one)(*job) for job in jobs))

    def _is_prefit(self) -> bool:
        prefit = isinstance(self.cv, str)
        if prefit and (self.cv != PREFIT or self.method != "split"):
            raise wrong("cv", self.cv, 'a number, a splitter, or "prefit" with method="split"')
        if prefit:
            try:
                check_is_fitted(self.model)
            except NotFittedError:
                name = type(self.model).__name__
                raise BagwiseError.because(
                    f'cv is "prefit" and this {name} is not fitted',
                    "a model that was fitted to other bags",
                    "Fit it, or give a number as cv.",
                ) from None
        return prefit

    def _splits(self, y: np.ndarray, groups: np.ndarray | None) -> list[Split]:
        """Return the positions to fit to and to calibrate on."""
        n = len(y)
        if self._is_prefit():
            return [(np.empty(0, dtype=np.int64), np.arange(n))]
        if self.method == "jackknife+":
            if self.cv is not None:
                raise wrong("cv", self.cv, 'None with method="jackknife+", which leaves out one')
            cv: Any = LeaveOneOut() if groups is None else LeaveOneGroupOut()
            return make_splits(self.model, y, cv, groups)
        if not is_number(self.cv):
            splits = make_splits(self.model, y, self.cv, groups)
        else:
            wanted = FOLDS[self.method] if self.cv is None else self.cv
            units = n if groups is None else len(np.unique(groups))
            if units < 2:
                raise BagwiseError.because(
                    f"there is {units} {'bag' if groups is None else 'group'}",
                    "2 or more, to fit to some and calibrate on others",
                    "Give more.",
                )
            folds = min(wanted, units) if wanted >= 2 else wanted
            cv = folds if groups is not None else shuffled(self.model, y, folds)
            splits = make_splits(self.model, y, cv, groups)
            splits = splits[:1] if self.method == "split" else splits
        if self.method == "cv+":
            return check_once_each(splits, n)
        if len(splits) != 1:
            raise BagwiseError.because(
                f"cv has {len(splits)} splits",
                'one with method="split"',
                "Give a number of parts, ShuffleSplit(1), or [(train, test)].",
            )
        return splits

    def _calibrate(
        self,
        said: list[Any],
        y: np.ndarray,
        model: np.ndarray,
        sizes: np.ndarray,
        groups: np.ndarray | None,
    ) -> Calibration:
        """Return the scores of bags that were predicted by models that had not seen them."""
        scaled = self._scaled(said)
        if _of_classes(self):
            proba = np.concatenate([prediction.proba for prediction in said])
            which = check_class_labels(y, said[0].classes, len(y))
            scores = 1.0 - proba[np.arange(len(y)), which]
        else:
            error = y - np.concatenate([prediction.mean for prediction in said])
            scores = error / self._deviations(said) if scaled else error
        starts = self._starts(sizes)
        found = Calibration(
            scores=scores,
            model=model.astype(np.int64),
            sizes=sizes,
            weights=np.ones(len(y)),
            starts=starts,
            scaled=scaled,
            symmetric=bool(self.symmetric),
        )
        cells = found.cell(sizes)
        empty = np.setdiff1d(np.arange(len(starts)), cells)
        if len(empty):
            raise BagwiseError.because(
                f"no calibration bag is in the size group that begins at {starts[empty[0]]:g}",
                "bags of each group of sizes",
                "Leave that group out of by_size.",
            )
        if groups is not None:
            found = replace(found, weights=_one_each(groups, cells))
        if not self._has_target():
            return found
        return replace(found, ratio=size_ratio(found.sizes, self._target()))

    def _scaled(self, said: list[Any]) -> bool:
        """Whether errors are in units of the model's standard deviation."""
        if self.scale is None or _of_classes(self):
            return False
        known = not isinstance(said[0], _Unsure)
        if not known and self.scale == "std":
            raise BagwiseError.because(
                f"{type(self.model).__name__} says no standard deviation",
                "one with scale='std'",
                'Set scale="auto" or scale=None.',
            )
        return known

    def _deviations(self, said: list[Any]) -> np.ndarray:
        found = np.concatenate([prediction.std for prediction in said])
        if not (found > 0).all():
            raise BagwiseError.because(
                f"the standard deviation of {np.count_nonzero(found == 0)} predictions is 0",
                "standard deviations > 0, by which errors are scaled",
                "Set scale=None.",
            )
        return found

    def _starts(self, sizes: np.ndarray) -> np.ndarray:
        """Return the first size of each group of sizes."""
        given = self.by_size
        if given is None:
            return sizes.min(keepdims=True).astype(np.float64)
        if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 1:
            return size_starts(sizes, int(given))
        expected = "a number of groups, or their first sizes in increasing order, or None"
        try:
            starts = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            raise wrong("by_size", given, expected) from None
        if isinstance(given, str | bool) or starts.ndim != 1 or not starts.size:
            raise wrong("by_size", given, expected)
        if not (np.diff(starts) > 0).all() or not (starts > 0).all():
            raise wrong("by_size", given, expected)
        return starts

    def _has_target(self) -> bool:
        """Whether the sizes to come are known already."""
        target = self.target_sizes
        if isinstance(target, str) and target != PREDICTED:
            raise wrong("target_sizes", target, f'sizes of bags, "{PREDICTED}" or None')
        return target is not None and not isinstance(target, str)

    def _target(self) -> np.ndarray:
        """Return the sizes of the bags to come."""
        sizes = np.asarray(self.target_sizes)
        number = sizes.dtype.kind in "fiu" and sizes.ndim == 1
        if not number or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise wrong("target_sizes", self.target_sizes, "a 1-D array of sizes > 0")
        return _enough(sizes.astype(np.float64))

    def predict_dist(self, X: Any) -> Any:
        """Return the calibrated predictive distribution of the labels of bags X.

        A `bagwise.predictions.conformal.ConformalPrediction`; of classes one with ``sets(level)``.
        """
        check_is_fitted(self, "calibration_")
        bags = self._check_bags(X)
        calibration, sizes = self.calibration_, _sizes(bags)
        if isinstance(self.target_sizes, str):
            ratio = size_ratio(calibration.sizes, _enough(sizes))
            calibration = replace(calibration, ratio=ratio)
        self._check_sizes(sizes)
        plain = _say(self.model_, bags)
        each = [plain if model is self.model_ else _say(model, bags) for model in self.models_]
        return conformal(plain, each, calibration)

    def _check_sizes(self, sizes: np.ndarray) -> None:
        """Say so if bags are of a size of which no calibration bag is near."""
        if self.by_size is None:
            return
        known = self.calibration_.sizes
        outside = np.count_nonzero((sizes < known.min()) | (sizes > known.max()))
        if outside:
            warnings.warn(
                f"{outside} of {len(sizes)} bags are smaller or larger than all calibration bags "
                f"({known.min():g} to {known.max():g}): what is promised of the nearest size group "
                "need not hold for them. Calibrate with such bags.",
                BagwiseWarning,
                stacklevel=3,
            )

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return what the model predicts, and with return_std standard deviations."""
        prediction = self.predict_dist(X)
        if _of_classes(self):
            return prediction.predicted
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    @available_if(_of_classes)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of each class (n_bags, k), as the model says."""
        return self.predict_dist(X).proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predicted labels, of classes the share that is right."""
        bags = as_bags(X)
        if sample_weight is not None:
            sample_weight = numbers_per_bag(sample_weight, bags.ids, "sample weights")
        measure = accuracy_score if _of_classes(self) else r2_score
        found = measure(
            labels_of(self.model, y, bags), self.predict(bags), sample_weight=sample_weight
        )
        return float(found)

    def explain(self, X: Any, **which: Any) -> Any:
        """Return what each point, feature and column of one bag adds to its prediction.

        Of the model itself: see ``explain`` of its class.
        """
        check_is_fitted(self, "calibration_")
        if not hasattr(self.model_, "explain"):
            raise BagwiseError.because(
                f"a {type(self.model_).__name__} explains nothing",
                "an estimator of bagwise",
                "Explain it with tools of scikit-learn.",
            )
        return self.model_.explain(X, **which)

    def coverage_by_size(self, level: float = LEVEL, edges: Any = None) -> Scores:
        """Return the share of calibration bags that intervals of the others hold, by size.

        Each bag is compared with the scores of all others that count for it. Shares far from the
        level in a row say that errors depend on size more than the model knows: set ``by_size``.
        ``edges`` are as in :func:`bagwise.evaluate`.
        """
        check_is_fitted(self, "calibration_")
        check_level(level)
        found = self.calibration_
        # errors either way count as one, as in sets and symmetric intervals
        scores = found.scores if _of_classes(self) else np.abs(found.scores)
        held = np.empty(len(scores), dtype=bool)
        for cell in range(found.n_groups):
            mine, weights = found.of_cell(cell)
            order = np.argsort(scores[mine], kind="stable")
            at = np.searchsorted(scores[mine][order], scores[mine], side="left")
            below = np.concatenate([[0.0], np.cumsum(weights[order])])
            worse = (below[-1] - below[at]) / below[-1]  # itself included
            held[mine] = worse > 1.0 - level + ROUNDING
        everyone = np.ones(len(held), dtype=bool)
        groups = [("all", everyone), *rows_by_size(found.sizes, edges, len(held))]
        rows = [
            {"group": name, "bags": int(some.sum()), "coverage": float(held[some].mean())}
            for name, some in groups
        ]
        return Scores(rows, level)

    @property
    def classes_(self) -> np.ndarray:
        """The classes (k,)."""
        return self.model_.classes_

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "calibration_")

    def __sklearn_tags__(self) -> Any:
        tags, of_model = super().__sklearn_tags__(), get_tags(self.model)
        tags.estimator_type = of_model.estimator_type
        tags.classifier_tags = of_model.classifier_tags
        tags.regressor_tags = of_model.regressor_tags
        tags.target_tags = of_model.target_tags
        return tags


class _Unsure(Prediction):
    """The prediction of a model that does not say how unsure it is: its variance means nothing."""


def _check_model(model: Any) -> None:
    """Raise unless something can be calibrated."""
    named = f"class {model.__name__}" if isinstance(model, type) else f"a {type(model).__name__}"
    known = hasattr(model, "fit") and not isinstance(model, type)
    if not known or not (is_classifier(model) or is_regressor(model)):
        raise BagwiseError.because(
            f"the model is {named}",
            "a regressor or classifier of bags",
            "Try ShrinkageRegressor(), or bagwise.make_pipeline(KernelEmbedding(), RidgeCV()).",
        )
    if is_classifier(model) and not _says_dist(model) and not hasattr(model, "predict_proba"):
        raise BagwiseError.because(
            f"the model, {named}, has no predict_proba",
            "a classifier that says probabilities",
            "Take another, or put CalibratedClassifierCV of scikit-learn around it.",
        )


def _fit_one(
    model: Any,
    bags: Bags,
    y: np.ndarray,
    weights: np.ndarray | None,
    groups: np.ndarray | None = None,
) -> Any:
    fitted = clone(model)
    fit_sharing(fitted, bags, y, weights, FeatureCache(), groups)
    return fitted


def _say(model: Any, bags: Bags) -> Any:
    """Return the predictive distribution of a model, of scikit-learn's made of what it says."""
    if _says_dist(model):
        return predict_dist(model, bags)
    known: dict[str, Any] = {"sizes": _sizes(bags), "ids": bags.ids}
    if is_classifier(model):
        proba = np.asarray(model.predict_proba(bags))
        proba = np.clip(proba, LEAST_PROBABILITY, 1.0 - LEAST_PROBABILITY)
        return of_probabilities(proba, model.classes_, **known)
    if _says_std(model):
        mean, std = model.predict(bags, return_std=True)
        return Prediction(mean, VarianceParts.broadcast(len(std), noise=std**2), **known)
    mean = np.asarray(model.predict(bags), dtype=np.float64)
    return _Unsure(mean, VarianceParts.broadcast(bags.n_bags, noise=1.0), **known)


def _says_dist(model: Any) -> bool:
    """Whether a model, or the last step of a Pipeline or the best of a search, is one of ours."""
    if hasattr(model, "best_estimator_"):
        return _says_dist(model.best_estimator_)
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return hasattr(last, "predict_dist")


def _says_std(model: Any) -> bool:
    """Whether ``predict`` has ``return_std``, also that of a Pipeline's last step."""
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return "return_std" in signature(last.predict).parameters


def _sizes(bags: Bags) -> np.ndarray:
    return np.asarray(bags.effective_sizes, dtype=np.float64)


def _enough(sizes: np.ndarray) -> np.ndarray:
    """Return sizes, or raise if they are too few to say how sizes are distributed."""
    if len(sizes) < LEAST_SIZES:
        raise BagwiseError.because(
            f"there are {len(sizes)} sizes of bags to come",
            f"{LEAST_SIZES} or more, to say how sizes are distributed",
            "Give target_sizes, such as those of all bags that will be predicted.",
        )
    return sizes


def _one_each(groups: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Return 1/(bags of the group of each bag), among those of its group of sizes.

    Examples
    --------
    >>> _one_each(np.array(["a", "a", "b", "b"]), np.array([0, 0, 0, 1]))
    array([0.5, 0.5, 1. , 1. ])
    """
    _, group = np.unique(groups, return_inverse=True)
    _, pair, counts = np.unique(
        group * (cells.max() + 1) + cells, return_inverse=True, return_counts=True
    )
    return 1.0 / counts[pair]


def size_ratio(sizes: np.ndarray, target: np.ndarray) -> SizeRatio:
    """Return how much more frequent bags of each size are among ``target`` than among ``sizes``.

    By logistic regression on log size and its square: the odds of being one of the target, and the
    ratio up to a factor that is common to all bags.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> ratio = size_ratio(np.exp(rng.normal(3, 1, 4000)), np.exp(rng.normal(2, 1, 4000)))
    >>> found = ratio(np.exp([1.0, 2.0, 3.0]))  # in truth each is e = 2.72 times the next
    >>> (found[:-1] / found[1:]).round(1)
    array([2.7, 2.6])
    """
    logs = np.log(np.concatenate([sizes, target]))
    center, scale = float(logs.mean()), float(logs.std())
    if np.ptp(logs) == 0.0:
        return SizeRatio(np.zeros(3), center, 1.0)
    t = (logs - center) / scale
    fitted = LogisticRegression(C=1.0).fit(
        np.stack([t, t**2], axis=1), np.arange(len(t)) >= len(sizes)
    )
    coefficients = np.concatenate([fitted.intercept_, fitted.coef_[0]])
    return SizeRatio(coefficients.astype(np.float64), center, scale)
