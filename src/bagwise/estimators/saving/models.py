"""Models: fitted estimators taken apart to JSON and tensors, and put together again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np
from sklearn.base import clone

from bagwise.bags.bags import Bags
from bagwise.bags.objects import Objects
from bagwise.embedding.novelty import Novelty
from bagwise.estimators.base import BagEstimator
from bagwise.estimators.classifiers import (
    BagClassifier,
    BayesianLogisticClassifier,
    BDRClassifier,
    ShrinkageClassifier,
)
from bagwise.estimators.conformal import PREFIT, Conformal
from bagwise.estimators.gp import (
    DistributionGP,
    DistributionGPClassifier,
    DistributionGPRegressor,
)
from bagwise.estimators.label_kinds import LabelKind
from bagwise.estimators.mean_embedding import LandmarkRidgeHead, MeanEmbeddingRidge, SecondLevel
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    BDRRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.estimators.saving.codec import (
    FEATURES,
    check_kernel,
    decode,
    decode_fields,
    encode,
    encode_fields,
    fields_of,
)
from bagwise.estimators.saving.given import check_given
from bagwise.estimators.saving.values import Labels, Reader, Writer, show, unfit
from bagwise.exceptions import BagwiseError, SavedModelError
from bagwise.features.kernels import Kernel
from bagwise.features.maps import LandmarkFeatures, Scaling
from bagwise.heads.base import ClassHeads, FixedEffects, heads_of
from bagwise.heads.gp import GPHead
from bagwise.heads.gp_draws import GPDraws
from bagwise.heads.linear import LinearHead
from bagwise.heads.posterior import PosteriorHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.history import History
from bagwise.predictions.conformal import Calibration

# The estimators that can be saved, and the head of each.
HEADS: dict[type[BagEstimator], type] = {
    RBFNetworkRegressor: LinearHead,
    BayesianLinearRegressor: LinearHead,
    FrequentistShrinkageRegressor: LinearHead,
    ShrinkageRegressor: ShrinkageHead,
    BDRRegressor: PosteriorHead,
    MeanEmbeddingRidge: LandmarkRidgeHead,  # or, with exact sums, SecondLevel
    BayesianLogisticClassifier: PosteriorHead,
    ShrinkageClassifier: ShrinkageHead,
    BDRClassifier: PosteriorHead,
    DistributionGPRegressor: GPHead,
    DistributionGPClassifier: GPHead,
}
# Heads that take the place of these: of exact sums, of many classes, and of sampled scales.
OTHER_HEADS = {cls.__name__: cls for cls in (SecondLevel, ClassHeads, GPDraws)}
# With a model within: its own head and parameters are those of the model.
ESTIMATORS: dict[str, type] = {cls.__name__: cls for cls in (*HEADS, Conformal)}


@dataclass(frozen=True)
class Columns:
    """Numbers and names of the columns that a model was fitted to."""

    n_features: int
    feature_names: tuple[str, ...] | None
    n_covariates: int
    covariate_names: tuple[str, ...] | None


def take_apart(model: Any) -> tuple[dict[str, Any], Writer]:
    """Return the JSON of a fitted estimator, and its tensors and notes."""
    cls, writer = type(model), Writer()
    if cls is Conformal:
        return _take_apart_conformal(model, writer)
    if cls not in HEADS:
        raise _not_ours(model)
    if not hasattr(model, "head_"):
        raise SavedModelError.because(
            f"this {cls.__name__} is not fitted", "a fitted model", "Call fit before saving."
        )
    kinds = _learnt(cls, type(model.head_))
    tree = {
        "class": cls.__name__,
        "parameters": encode_fields(model, "parameters", writer),
        "columns": encode_fields(_columns_of(model), "columns", writer),
        "learnt": {
            name: encode(getattr(model, f"{name}_"), kind, name, writer)
            for name, kind in kinds.items()
        },
    }
    return tree, writer


def _columns_of(model: Any) -> Columns:
    names, n_covariates = model._covariates
    return Columns(model.n_features_in_, model._feature_names, n_covariates, names)


def _take_apart_conformal(model: Any, writer: Writer) -> tuple[dict[str, Any], Writer]:
    """Take apart a calibrated model: the models within, each as if it were saved alone."""
    if not hasattr(model, "calibration_"):
        raise SavedModelError.because(
            "this Conformal is not fitted", "a fitted model", "Call fit before saving."
        )
    folds = [] if model.models_ == [model.model_] else model.models_
    tree = {
        "class": "Conformal",
        "parameters": {
            name: encode(getattr(model, name), kind, f"parameters.{name}", writer)
            for name, kind in _conformal_parameters().items()
        },
        "columns": encode_fields(_columns_of(model), "columns", writer),
        "learnt": {
            "calibration": encode(model.calibration_, Calibration, "calibration", writer),
            "model": _within(model.model_, "model", writer),
            "models": [_within(one, f"models.{i}", writer) for i, one in enumerate(folds)],
        },
    }
    return tree, writer


def _conformal_parameters() -> dict[str, Any]:
    """Return the kinds of the parameters but for the model, which is what was fitted."""
    return {name: kind for name, kind in fields_of(Conformal).items() if name != "model"}


def _within(model: Any, path: str, writer: Writer) -> dict[str, Any]:
    """Return the JSON of a model within another; its tensors get the path before their names."""
    if type(model) not in HEADS:
        raise _not_ours(model)
    tree, own = take_apart(model)
    writer.tensors |= {f"{path}.{name}": array for name, array in own.tensors.items()}
    writer.notes += [note for note in own.notes if note not in writer.notes]
    return tree


def put_together(
    tree: Any, tensors: Mapping[str, np.ndarray], given: Mapping[str, Any] | None = None
) -> Any:
    """Return the estimator of JSON and tensors, both of which may be anything.

    ``given`` are functions of the user's, of which a file has the names.
    """
    given = {} if given is None else given
    check_given(tree, given)
    try:
        if parts_of(tree)[0] is Conformal:
            return _put_together_conformal(tree, tensors, given)
        return _put_together(tree, Reader(tensors, given))
    except SavedModelError:
        raise
    except BagwiseError as error:  # of a constructor: Matern, Priors, NUTS or Bags
        raise SavedModelError.because(
            f"the saved model cannot be ({error})",
            "what bagwise.save writes",
            "The file was made or changed by something else: do not use it.",
        ) from error


def _put_together(tree: Any, reader: Reader) -> BagEstimator:
    cls, params, columns, learnt = parts_of(tree)
    model = cls(**decode_fields(cls, params, "parameters", reader))
    names = read_columns(columns, reader)
    head = learnt.get("head")
    kinds = _learnt(cls, OTHER_HEADS.get(str(head.get("class") if isinstance(head, dict) else "")))
    if learnt.keys() != kinds.keys():
        raise unfit("learnt", f"{sorted(learnt)!r:.200}", ", ".join(kinds))
    values = {name: decode(learnt[name], kind, name, reader) for name, kind in kinds.items()}
    reader.finish()
    _check_agreement(cls, values, names)
    for name, value in values.items():
        if name != "history" or value is not None:  # of features that were not learnt there is none
            setattr(model, f"{name}_", value)
    return _complete(model, names)


def _put_together_conformal(
    tree: Any, tensors: Mapping[str, np.ndarray], given: Mapping[str, Any]
) -> Conformal:
    _, params, columns, learnt = parts_of(tree)
    if learnt.keys() != {"calibration", "model", "models"} or not isinstance(
        learnt["models"], list
    ):
        raise unfit("learnt", f"{sorted(learnt)!r:.200}", "calibration, model and models")
    left = dict(tensors)
    model = _read_within(learnt["model"], "model", left, given)
    folds = [
        _read_within(one, f"models.{i}", left, given) for i, one in enumerate(learnt["models"])
    ]
    reader, kinds = Reader(left), _conformal_parameters()
    if params.keys() != kinds.keys():
        raise unfit("parameters", f"{sorted(params)!r:.200}", ", ".join(kinds))
    values = {k: decode(params[k], kind, f"parameters.{k}", reader) for k, kind in kinds.items()}
    names = read_columns(columns, reader)
    calibration = decode(learnt["calibration"], Calibration, "calibration", reader)
    reader.finish()
    _check_models(calibration, model, folds, names)
    made = Conformal(model if values["cv"] == PREFIT else clone(model), **values)
    made.model_, made.models_, made.calibration_ = model, folds or [model], calibration
    _complete_columns(made, names)
    return made


def _read_within(
    tree: Any, path: str, left: dict[str, np.ndarray], given: Mapping[str, Any]
) -> Any:
    """Return a model within another, and take its tensors away."""
    cls = parts_of(tree)[0]
    if cls not in HEADS:
        raise unfit(f"{path}.class", cls.__name__, f"one of {', '.join(h.__name__ for h in HEADS)}")
    mine = [name for name in left if name.startswith(f"{path}.")]
    own = {name[len(path) + 1 :]: left.pop(name) for name in mine}
    return _put_together(tree, Reader(own, given))


def _check_models(calibration: Calibration, model: Any, folds: list[Any], names: Columns) -> None:
    """Check that the models within a calibrated one are of one kind, and those of its scores."""
    used = calibration.model
    if used.min() < 0 or used.max() >= max(len(folds), 1):
        raise unfit("calibration.model", show(used), f"one of {max(len(folds), 1)} models")
    if calibration.scaled and issubclass(type(model), BagClassifier):
        raise unfit("calibration.scaled", "True", "False with classes")
    for one in (model, *folds):
        if type(one) is not type(model) or _columns_of(one) != names:
            raise unfit("models", f"of {type(one).__name__}", "of one kind and of the same columns")
        if isinstance(one, BagClassifier) and one.classes_.tolist() != model.classes_.tolist():
            raise unfit("models", f"of classes {show(one.classes_)}", "of the same classes each")


def parts_of(tree: Any) -> tuple[type[Any], dict[str, Any], dict[str, Any], Any]:
    """Return the class of a model, its parameters, its columns and what it learnt, as JSON."""
    if not isinstance(tree, dict) or not all(
        isinstance(tree.get(part), dict) for part in ("parameters", "columns", "learnt")
    ):
        raise unfit("description", "incomplete", "parameters, columns and what was learnt")
    name = tree.get("class")
    cls = ESTIMATORS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise unfit("class", f"{name!r:.60}", f"one of {', '.join(ESTIMATORS)}")
    return cls, tree["parameters"], tree["columns"], tree["learnt"]


def read_columns(data: Any, reader: Reader) -> Columns:
    """Return the columns of a model from JSON, if there are as many names as columns."""
    found = Columns(**decode_fields(Columns, data, "columns", reader))
    for what, dimension in (("feature", "columns"), ("covariate", "covariates")):
        count, names = getattr(found, f"n_{what}s"), getattr(found, f"{what}_names")
        reader.bind(dimension, count, f"n_{what}s")
        reader.bind(dimension, count if names is None else len(names), f"{what}_names")
    return found


def _learnt(cls: type[BagEstimator], head: type | None) -> dict[str, Any]:
    """Return what an estimator learns and its kinds, so that dimensions are known before use."""
    kinds: dict[str, Any] = {"label_center": float, "label_scale": float, "effects": FixedEffects}
    if head is SecondLevel and cls is MeanEmbeddingRidge:
        kinds |= {"kernel": Kernel, "scaling": Scaling, "bags": Bags, "head": SecondLevel}
    else:
        many = head is ClassHeads and issubclass(cls, BagClassifier)
        kinds |= {"features": FEATURES}
        kinds |= {"history": History | None, "novelty": Novelty | None}
        sampled = head is GPDraws and issubclass(cls, DistributionGP)
        kinds |= {"head": ClassHeads if many else GPDraws if sampled else HEADS[cls]}
    if issubclass(cls, BagClassifier):
        kinds["classes"] = Labels("classes")
    if issubclass(cls, PosteriorModel):
        kinds |= {"diagnostics": Diagnostics | None, "bandwidth_weights": dict[str, float]}
    if issubclass(cls, DistributionGP):
        kinds |= {"tried": dict[str, float], "groups": (Labels("groups"), NoneType)}
    if issubclass(cls, DistributionGPRegressor):
        kinds["likelihood"] = str
    return kinds


def _check_agreement(cls: type[BagEstimator], values: dict[str, Any], names: Columns) -> None:
    """Check what concerns several parts of a model at once."""
    heads = heads_of(values["head"])
    for head in heads:
        _check_head(cls, head, values)
    if "classes" in values and len(values["classes"]) != max(len(heads), 2):
        expected = "two" if len(heads) == 1 else f"{len(heads)}, as there are heads"
        raise unfit("classes", f"{len(values['classes'])} in number", expected)
    if isinstance(values["head"], ClassHeads) and len(heads) < 3:
        raise unfit("head", f"of {len(heads)} classes", "three or more")
    if len({tuple(head.draws.scales) if hasattr(head, "draws") else () for head in heads}) > 1:
        raise unfit("head", "of classes with other scales each", "the same")
    if "likelihood" in values:
        kind = LabelKind.of(values["likelihood"])
        if isinstance(kind.totals, str) and kind.totals not in (names.covariate_names or ()):
            raise unfit("likelihood", show(kind.totals), "a covariate of the model")
        if (kind.name == "student") != bool(np.isfinite(values["head"].dof)):
            raise unfit("head.dof", f"{values['head'].dof:g}", "that of the likelihood")
    if "bags" in values:
        check_kernel(values["kernel"], values["bags"].points, "kernel")
        of_bags = values["bags"].feature_names, values["bags"].covariate_names
        if of_bags != (names.feature_names, names.covariate_names):
            raise unfit("bags", "of columns of other names", "those of the model")


def _check_head(cls: type[BagEstimator], head: Any, values: dict[str, Any]) -> None:
    """Check one head; those of many classes have any class of the list until here."""
    sampled = isinstance(head, GPDraws) and issubclass(cls, DistributionGP)
    if "bags" not in values and type(head) is not HEADS[cls] and not sampled:
        raise unfit("head", f"of class {type(head).__name__}", HEADS[cls].__name__)
    start = head.start if isinstance(head, PosteriorHead) else head
    if isinstance(start, ShrinkageHead) and type(start.likelihood) is not type(cls.likelihood):
        raise unfit("head.likelihood", start.likelihood.name, cls.likelihood.name)
    if isinstance(head, PosteriorHead):
        if (head.draws.trajectories is None) != (values["diagnostics"] is None):
            raise unfit("diagnostics", "not that of the draws", "one if NUTS made the draws")


def _complete_columns(model: Any, names: Columns) -> None:
    """Set what is known of the columns, as `fit` does."""
    model.n_features_in_ = names.n_features
    model._feature_names = names.feature_names
    model._covariates = (names.covariate_names, names.n_covariates)
    fitted = getattr(model, "model_", model)  # of a calibrated one the model within
    places = fitted.bags_.points if hasattr(fitted, "bags_") else fitted.features_
    model._of_objects = isinstance(getattr(places, "landmarks", places), Objects)
    if names.feature_names is not None:
        model.feature_names_in_ = np.array(names.feature_names, dtype=object)


def _complete(model: Any, names: Columns) -> BagEstimator:
    """Set what follows from the rest, as `fit` does."""
    _complete_columns(model, names)
    if isinstance(model.head_, SecondLevel):
        model.bandwidth_ = model.kernel_.bandwidth
    elif isinstance(model.features_, LandmarkFeatures):
        model.landmarks_ = model.features_.places
        model.bandwidth_ = model.features_.kernel.bandwidth
    if isinstance(model, PosteriorModel):
        model.draws_ = model._draws()
    return model


def _not_ours(model: Any) -> SavedModelError:
    """Say what can be saved, and for the usual wrappers where it is."""
    name, remedy = type(model).__name__, "Save one of these."
    if isinstance(model, BagEstimator):
        remedy = "A class derived from these may hold what the file has no place for."
    elif isinstance(model, type):
        name, remedy = f"class {model.__name__}", "Save a fitted model, not its class."
    elif hasattr(model, "best_estimator_"):
        remedy = f"Save {name}.best_estimator_, if it is one of these."
    elif hasattr(model, "steps"):
        remedy = "Save its last step, if it is one of these, and apply the others as before."
    elif isinstance(getattr(model, "estimator", None), BagEstimator):  # of tune
        remedy = f"Save {name}.estimator."
    elif hasattr(model, "estimators_"):
        remedy = "Save each of its estimators_, if they are of these."
    return SavedModelError.because(
        f"a {name} cannot be saved", f"a fitted {', '.join(ESTIMATORS)}", remedy
    )
