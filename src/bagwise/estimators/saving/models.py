"""Models: fitted estimators taken apart to JSON and tensors, and put together again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bagwise.bags.bags import Bags
from bagwise.estimators.base import BagEstimator
from bagwise.estimators.classifiers import (
    BagClassifier,
    BayesianLogisticClassifier,
    BDRClassifier,
    ShrinkageClassifier,
)
from bagwise.estimators.mean_embedding import LandmarkRidgeHead, MeanEmbeddingRidge, SecondLevel
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    BDRRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.estimators.saving.fields import (
    Either,
    Field,
    Flag,
    Maybe,
    Names,
    Number,
    Reader,
    Whole,
    Word,
    Writer,
    unfit,
)
from bagwise.estimators.saving.records import KERNEL, REAL, Record
from bagwise.estimators.saving.values import ClassWeights, Labels, Landmarks, Seed, TrainingBags
from bagwise.exceptions import BagwiseError, SavedModelError
from bagwise.features.maps import FourierFeatures, LandmarkFeatures
from bagwise.features.scaling import Scaling
from bagwise.heads.linear import LinearHead
from bagwise.heads.posterior import PosteriorHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.effects import FixedEffects
from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS

# The estimators that can be saved, and the heads that each may have.
HEADS: dict[type[BagEstimator], tuple[type, ...]] = {
    RBFNetworkRegressor: (LinearHead,),
    BayesianLinearRegressor: (LinearHead,),
    FrequentistShrinkageRegressor: (LinearHead,),
    ShrinkageRegressor: (ShrinkageHead,),
    BDRRegressor: (PosteriorHead,),
    MeanEmbeddingRidge: (SecondLevel, LandmarkRidgeHead),
    BayesianLogisticClassifier: (PosteriorHead,),
    ShrinkageClassifier: (ShrinkageHead,),
    BDRClassifier: (PosteriorHead,),
}
ESTIMATORS = {cls.__name__: cls for cls in HEADS}

NUMBER_OR_WORD = Either(Word(), Number())

# What each parameter may be, whatever the estimator.
PARAMETERS: dict[str, Field] = {
    "bandwidth_scale": NUMBER_OR_WORD,
    "class_weight": Maybe(Either(Word(), ClassWeights())),
    "covariance_floor": Number(),
    "function_landmarks": Maybe(Landmarks()),
    "inference": Either(Word(), Record(NUTS)),
    "kernel": Either(Word(), KERNEL),
    "landmarks": Either(Word(), Landmarks()),
    "n_landmarks": Maybe(Whole()),
    "penalty": NUMBER_OR_WORD,
    "prior": Word(),
    "prior_scale": NUMBER_OR_WORD,
    "priors": Maybe(Record(Priors)),
    "random_state": Seed(),
    "second_level": Word(),
    "second_scale": Number(),
    "standardize": Flag(),
    "weight_var": NUMBER_OR_WORD,
}


def take_apart(model: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the JSON and the tensors of a fitted estimator."""
    cls = _check_saveable(model)
    writer, given = Writer(), model.get_params(deep=False)
    params = {
        name: PARAMETERS[name].encode(value, f"parameters.{name}", writer)
        for name, value in given.items()
    }
    names, n_covariates = model._covariates
    columns = {
        "n_features": int(model.n_features_in_),
        "feature_names": None if model._feature_names is None else list(model._feature_names),
        "n_covariates": int(n_covariates),
        "covariate_names": None if names is None else list(names),
    }
    learnt = {
        name: field.encode(getattr(model, f"{name}_"), name, writer)
        for name, field in _learnt_fields(cls, isinstance(model.head_, SecondLevel)).items()
    }
    tree = {"class": cls.__name__, "parameters": params, "columns": columns, "learnt": learnt}
    return tree, writer.tensors


def put_together(tree: Any, tensors: Mapping[str, np.ndarray]) -> BagEstimator:
    """Return the estimator of JSON and tensors, both of which may be anything."""
    try:
        return _put_together(tree, Reader(tensors))
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
    model = cls(
        **{
            name: PARAMETERS[name].decode(value, f"parameters.{name}", reader)
            for name, value in params.items()
        }
    )
    names = _columns(columns, reader)
    head = learnt.get("head")
    exact = isinstance(head, dict) and head.get("class") == SecondLevel.__name__
    fields = _learnt_fields(cls, exact and cls is MeanEmbeddingRidge)
    if learnt.keys() != fields.keys():
        raise unfit("learnt", f"{sorted(learnt)!r:.200}", ", ".join(fields))
    values = {name: field.decode(learnt[name], name, reader) for name, field in fields.items()}
    reader.finish()
    _check_agreement(cls, values)
    for name, value in values.items():
        setattr(model, f"{name}_", value)
    return _complete(model, names)


def parts_of(tree: Any) -> tuple[type[BagEstimator], dict[str, Any], dict[str, Any], Any]:
    """Return the class of a model, its parameters, its columns and what it learnt, as JSON."""
    if not isinstance(tree, dict) or not all(
        isinstance(tree.get(part), dict) for part in ("parameters", "columns", "learnt")
    ):
        raise unfit("description", "incomplete", "parameters, columns and what was learnt")
    name = tree.get("class")
    cls = ESTIMATORS.get(name) if isinstance(name, str) else None
    if cls is None:
        raise unfit("class", f"{name!r:.60}", f"one of {', '.join(ESTIMATORS)}")
    params, known = tree["parameters"], cls._get_param_names()
    if params.keys() != set(known):
        raise unfit("parameters", f"{sorted(params)!r:.200}", ", ".join(known))
    return cls, params, tree["columns"], tree["learnt"]


def _learnt_fields(cls: type[BagEstimator], exact: bool) -> dict[str, Field]:
    """Return the fields of an estimator, in an order in which dimensions are known before use."""
    fields: dict[str, Field] = {"label_center": REAL, "label_scale": REAL}
    fields["effects"] = Record(FixedEffects)
    if exact:
        fields |= {"kernel": KERNEL, "scaling": Record(Scaling), "bags": TrainingBags()}
    else:
        fields["features"] = Record(LandmarkFeatures, FourierFeatures)
    if cls is MeanEmbeddingRidge:
        fields["head"] = Record(SecondLevel if exact else LandmarkRidgeHead)
    else:
        fields["head"] = Record(*HEADS[cls])
    if issubclass(cls, BagClassifier):
        fields["classes"] = Labels("classes")
    if issubclass(cls, PosteriorModel):
        fields["diagnostics"] = Maybe(Record(Diagnostics))
    return fields


def _columns(columns: dict[str, Any], reader: Reader) -> dict[str, Any]:
    """Return names and numbers of features and covariates."""
    expected = {"n_features", "feature_names", "n_covariates", "covariate_names"}
    if columns.keys() != expected:
        raise unfit("columns", f"{sorted(columns)!r:.200}", ", ".join(sorted(expected)))
    found: dict[str, Any] = {}
    for what, dimension in (("feature", "columns"), ("covariate", "covariates")):
        count = Whole(0).decode(columns[f"n_{what}s"], f"columns.n_{what}s", reader)
        reader.bind(dimension, count, f"columns.n_{what}s")
        path = f"columns.{what}_names"
        names = Maybe(Names(dimension)).decode(columns[f"{what}_names"], path, reader)
        found |= {f"n_{what}s": count, f"{what}_names": names}
    return found


def _check_agreement(cls: type[BagEstimator], values: dict[str, Any]) -> None:
    """Check what concerns several parts of a model at once."""
    head = values["head"]
    start = head.start if isinstance(head, PosteriorHead) else head
    if isinstance(start, ShrinkageHead):
        expected = cls.likelihood
        if type(start.likelihood) is not type(expected):
            raise unfit("head.likelihood", start.likelihood.name, expected.name)
    if isinstance(head, PosteriorHead):
        if (head.draws.trajectories is None) != (values["diagnostics"] is None):
            raise unfit("diagnostics", "not that of the draws", "one if NUTS made the draws")
    if "classes" in values and len(values["classes"]) != 2:
        raise unfit("classes", f"{len(values['classes'])} in number", "two")


def _complete(model: Any, names: dict[str, Any]) -> BagEstimator:
    """Set what follows from the rest, as `fit` does."""
    model.n_features_in_ = names["n_features"]
    model._feature_names = names["feature_names"]
    model._covariates = (names["covariate_names"], names["n_covariates"])
    if names["feature_names"] is not None:
        model.feature_names_in_ = np.array(names["feature_names"], dtype=object)
    if isinstance(model.head_, SecondLevel):
        labels = {name: names[name] for name in ("feature_names", "covariate_names")}
        model.bags_ = Bags(**model.bags_, **labels)
        model.bandwidth_ = model.kernel_.bandwidth
    elif isinstance(model.features_, LandmarkFeatures):
        scaling = model.features_.scaling
        model.landmarks_ = model.features_.landmarks * scaling.scale + scaling.center
        model.bandwidth_ = model.features_.kernel.bandwidth
    if isinstance(model, PosteriorModel):
        model.draws_ = model._draws()
    return model


def _check_saveable(model: Any) -> type[BagEstimator]:
    cls = type(model)
    if cls not in HEADS:
        raise _not_ours(model)
    if not hasattr(model, "head_"):
        raise SavedModelError.because(
            f"this {cls.__name__} is not fitted", "a fitted model", "Call fit before saving."
        )
    return cls


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
