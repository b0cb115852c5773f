"""Saving and loading: models taken apart and put together, and what a file says about itself.

An estimator is its parameters, the columns it was fitted to, and what it has learnt. The codec
makes JSON and tensors of each, and the container a file of these. Running sums of bags are a file
of their own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import NoneType
from typing import Any

import numpy as np
import scipy
import sklearn
from sklearn.base import clone

import bagwise
from bagwise._utils.atomic import replaceable, replacing
from bagwise.bags.bags import Bags
from bagwise.bags.stacked import QUARTILES
from bagwise.bags.validation import Objects
from bagwise.embedding.novelty import Novelty
from bagwise.embedding.running import RunningSums
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
    decode_all,
    decode_fields,
    encode_all,
    encode_fields,
    fields_of,
)
from bagwise.estimators.saving.container import (
    FORMAT,
    FORMAT_VERSION,
    SUMS_FORMAT,
    Container,
    Reader,
    Writer,
    is_model,
    is_sums,
    pack,
    show,
    unfit,
    unpack,
)
from bagwise.estimators.saving.values import Labels, check_given, to_json
from bagwise.exceptions import BagwiseError, SavedModelError
from bagwise.features.kernels import Kernel
from bagwise.features.maps import LandmarkFeatures, Scaling
from bagwise.heads.base import ClassHeads, FixedEffects, heads_of
from bagwise.heads.gp import GPDraws, GPHead
from bagwise.heads.linear import LinearHead
from bagwise.heads.posterior import PosteriorHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.history import History
from bagwise.predictions.conformal import Calibration

# The estimators that can be saved, and which heads each may have: one of many classes, or of scales
# that were sampled, may take the place of the first. With exact sums the head is a SecondLevel.
HEADS: dict[type[BagEstimator], tuple[type, ...]] = {
    RBFNetworkRegressor: (LinearHead,),
    BayesianLinearRegressor: (LinearHead,),
    FrequentistShrinkageRegressor: (LinearHead,),
    ShrinkageRegressor: (ShrinkageHead,),
    BDRRegressor: (PosteriorHead,),
    MeanEmbeddingRidge: (LandmarkRidgeHead,),
    BayesianLogisticClassifier: (PosteriorHead, ClassHeads),
    ShrinkageClassifier: (ShrinkageHead, ClassHeads),
    BDRClassifier: (PosteriorHead, ClassHeads),
    DistributionGPRegressor: (GPHead, GPDraws),
    DistributionGPClassifier: (GPHead, GPDraws, ClassHeads),
}
# With a model within: its own head and parameters are those of the model.
ESTIMATORS: dict[str, type] = {cls.__name__: cls for cls in (*HEADS, Conformal)}

# What the header of each kind of file has besides its format, version and checksum.
OF_MODEL = ("saved", "versions", "model", "schema", "summary", "notes")
OF_SUMS = ("saved", "versions", "sums", "schema")

# Versions that are noted, as another one may change the last bits of a prediction.
LIBRARIES = {
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}


def save(
    model: Any, path: Any, *, schema: Any = None, summary: Any = None, overwrite: bool = False
) -> None:
    """Save a fitted model, or running sums, to one file, which :func:`bagwise.load` reads.

    The file is safe to load even from somebody you do not trust, and is replaced in one step: if
    saving fails or is killed, what was there before stays. A saved model may take the place of
    another; any other file that is there is left alone. MeanEmbeddingRidge with exact sums keeps
    its training points, and so does its file; Gaussian processes keep embeddings, sizes and
    covariates of training bags; other models keep landmarks and statistics.

    Parameters
    ----------
    model : a fitted regressor or classifier of bagwise, a Conformal around one, or what its
        ``sums`` has made
    path : str or pathlib.Path of the file, by convention with the suffix .bagwise
    schema, summary : dict, optional
        How the columns of a table became the model's, and facts on the training data: kept in the
        header for :func:`bagwise.estimators.saving.read_header`. Strings, numbers, lists and dicts.
    overwrite : whether to replace even a file that is no saved model

    Examples
    --------
    >>> import numpy as np, tempfile, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 40)
    >>> bags = [rng.normal(0, s, (20, 1)) for s in y]
    >>> model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> path = tempfile.mkdtemp() + "/spread.bagwise"
    >>> bagwise.save(model, path)
    >>> bool((bagwise.load(path).predict(bags) == model.predict(bags)).all())
    True
    """
    name, of_sums = _checked(path), isinstance(model, RunningSums)
    data = to_bytes(model, schema=schema, summary=summary)
    if not overwrite and not replaceable(name, is_sums if of_sums else is_model):
        what = "saved sums" if of_sums else "saved model"
        raise SavedModelError.because(
            f"{name} is there already and is no {what}",
            f"a new name, or that of a {what} to be replaced",
            "Choose another name, or add overwrite=True if the file may go.",
        )
    with replacing(name) as part:
        part.write_bytes(data)


def to_bytes(model: Any, *, schema: Any = None, summary: Any = None) -> bytes:
    """Return what :func:`save` writes to a file."""
    header = {
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"bagwise": bagwise.__version__} | LIBRARIES,
        "schema": None if schema is None else to_json(schema, "schema"),
    }
    if isinstance(model, RunningSums):
        if summary is not None:
            raise SavedModelError.because(
                "a summary with sums of bags", "a summary of a model", "Leave it out."
            )
        writer = Writer()
        header["sums"] = encode_fields(model, "", writer)
        return pack(header, writer.tensors, SUMS_FORMAT)
    header["model"], writer = take_apart(model)
    if hasattr(model, "sums_"):
        writer.notes.append("sums_ are in no model file: bagwise.save(model.sums_, ...)")
    said = to_json({} if summary is None else summary, "summary")
    header |= {"summary": known_summary(model) | said, "notes": writer.notes}
    return pack(header, writer.tensors, FORMAT)


def load(path: Any, *, kernel: Any = None, network: Any = None) -> Any:
    """Load a model, or running sums, saved by :func:`bagwise.save`.

    It predicts the same, bit by bit where the libraries are the same, and can be cloned, fitted
    again and saved. The file cannot run code; if it is damaged, of a newer format or something
    else, the error says so.

    Parameters
    ----------
    path : of the file
    kernel : the function, of a model with a kernel of your own, which is in no file. That it is the
        same is seen by its values among a few landmarks.
    network : of a model with a network of your own, that network, or the function that returns it:
        the file has its parameters.

    Examples
    --------
    >>> load("no such file")
    Traceback (most recent call last):
    ...
    bagwise.exceptions.SavedModelError: there is no file no such file; expected a model saved by
    bagwise.save. Check the path.
    """
    return _opened(unpack(_checked(path)), {"kernel": kernel, "network": network})[0]


def open_saved(path: Any) -> tuple[Any, Header]:
    """Load a model and its header, from one reading of the file."""
    return _opened(unpack(_checked(path), FORMAT))


def open_sums(path: Any) -> tuple[RunningSums, dict[str, Any] | None]:
    """Load running sums, and the schema of the tables they are of, from one reading of the file."""
    return _opened(unpack(_checked(path), SUMS_FORMAT))


def read_header(path: Any) -> Header:
    """Return what a saved model says about itself, after checking the file against its checksum."""
    return Header.of(unpack(_checked(path), FORMAT))


def _opened(container: Container, given: Mapping[str, Any] | None = None) -> tuple[Any, Any]:
    """Return what is in a file, and what is said of it: of a model the header, of sums a schema."""
    header = container.header
    if header["format"] == FORMAT:
        said: Any = Header.of(container)
        return put_together(header["model"], container.tensors(), given), said
    _check_names(header, OF_SUMS)
    said = _of_type(header["schema"], dict | None, "schema")
    return put_together(header["sums"], container.tensors(), given, RunningSums), said


def _check_names(header: dict[str, Any], expected: tuple[str, ...]) -> None:
    if header.keys() != {"format", "version", "sha256", *expected}:
        raise unfit("header", f"of {sorted(header)!r:.200}", ", ".join(expected))


def _checked(path: Any) -> str:
    name = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(name, str) or not name or "\0" in name:
        raise SavedModelError.because(
            f"the path is {path!r:.80}", "the path of a file", 'For example "model.bagwise".'
        )
    return name


@dataclass(frozen=True, eq=False)
class Header:
    """What a saved model says about itself.

    Attributes
    ----------
    estimator : name of its class;  parameters : of its constructor, as JSON
    n_features, feature_names, n_covariates, covariate_names : columns of the bags it was fitted to
    classes : of a classifier, else None
    schema : as it was given to :func:`bagwise.save`, or None
    summary : of the training bags: what the model knows of them, and what was given
    notes : what was not saved, in words
    versions : of bagwise and of the libraries, when it was saved
    saved : time in UTC, ISO 8601;  format_version : of the file
    checksum : SHA-256;  n_bytes : of the whole file
    """

    estimator: str
    parameters: dict[str, Any]
    n_features: int
    feature_names: list[str] | None
    n_covariates: int
    covariate_names: list[str] | None
    classes: list[Any] | None
    schema: dict[str, Any] | None
    summary: dict[str, Any]
    notes: list[str]
    versions: dict[str, str]
    saved: str
    format_version: int
    checksum: str
    n_bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Return the header as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, container: Container) -> Header:
        """Check what a file says about itself."""
        found = container.header
        _check_names(found, OF_MODEL)
        estimator, parameters, columns, learnt = parts_of(found["model"])
        if "model" in learnt:  # of a calibrated model what concerns the model within
            inner, of_model, _, learnt = parts_of(learnt["model"])
            parameters = {"model": {"class": inner.__name__} | of_model} | parameters
        reader, classes = Reader({}), learnt.get("classes")
        named = vars(read_columns(columns, reader)).items()
        names: dict[str, Any] = {k: [*x] if isinstance(x, tuple) else x for k, x in named}
        classes = classes.get("labels") if isinstance(classes, dict) else None
        return cls(
            estimator=estimator.__name__,
            parameters=parameters,
            **names,
            classes=_of_type(classes, list | None, "classes"),
            schema=_of_type(found["schema"], dict | None, "schema"),
            summary=_of_type(found["summary"], dict, "summary"),
            notes=[*decode(found["notes"], tuple[str, ...], "notes", reader)],
            versions=decode(found["versions"], dict[str, str], "versions", reader),
            saved=decode(found["saved"], str, "time of saving", reader),
            format_version=FORMAT_VERSION,
            checksum=container.digest,
            n_bytes=len(container.raw),
        )


def known_summary(model: Any) -> dict[str, Any]:
    """Return what a model knows of the bags it was fitted to."""
    found: dict[str, Any] = {}
    if isinstance(model, Conformal):
        known = {"conformal": model.method, "calibration_bags": len(model.calibration_.scores)}
        return known_summary(model.model_) | known
    if hasattr(model, "classes_"):
        found["classes"] = [str(label) for label in model.classes_.tolist()]
    elif getattr(model, "likelihood_", "gaussian") in ("gaussian", "student"):
        found |= {"label_mean": model.label_center_, "label_sd": model.label_scale_}
    else:  # on the scale of latent values
        found |= {"likelihood": model.likelihood_, "latent_mean": model.label_center_}
    if hasattr(model.head_, "train"):
        found["n_bags"] = len(model.head_.train)
    elif hasattr(model, "bags_"):
        found |= {"n_bags": model.bags_.n_bags, "n_points": model.bags_.n_points}
        found["size_quartiles"] = np.quantile(model.bags_.sizes, QUARTILES).tolist()
    return found


def _of_type(value: Any, kind: Any, name: str) -> Any:
    if not isinstance(value, kind):
        words = getattr(kind, "__name__", str(kind).replace("|", "or"))
        raise unfit(name, show(value), f"a {words}")
    return value


# ---- models taken apart -------------------------------------------------------------------------


@dataclass(frozen=True)
class Columns:
    """Numbers and names of the columns that a model was fitted to."""

    n_features: int
    feature_names: tuple[str, ...] | None
    n_covariates: int
    covariate_names: tuple[str, ...] | None

    @classmethod
    def of(cls, model: Any) -> Columns:
        """Return those of a fitted model."""
        names, n_covariates = model._covariates
        return cls(model.n_features_in_, model._feature_names, n_covariates, names)


def take_apart(model: Any) -> tuple[dict[str, Any], Writer]:
    """Return the JSON of a fitted estimator, and its tensors and notes."""
    cls, writer = type(model), Writer()
    if cls not in ESTIMATORS.values():
        raise _not_ours(model)
    if not hasattr(model, "calibration_" if cls is Conformal else "head_"):
        raise SavedModelError.because(
            f"this {cls.__name__} is not fitted", "a fitted model", "Call fit before saving."
        )
    kinds = _learnt(cls, exact=isinstance(getattr(model, "head_", None), SecondLevel))
    learnt = {name: getattr(model, f"{name}_") for name in kinds}
    tree: dict[str, Any] = {
        "class": cls.__name__,
        "parameters": encode_all(vars(model), _parameters(cls), "parameters", writer),
        "columns": encode_fields(Columns.of(model), "columns", writer),
        "learnt": encode_all(learnt, kinds, "", writer),
    }
    if cls is Conformal:
        folds = [] if model.models_ == [model.model_] else model.models_
        tree["learnt"] |= {
            "model": _take_apart_within(model.model_, "model", writer),
            "models": [_take_apart_within(x, f"models.{i}", writer) for i, x in enumerate(folds)],
        }
    return tree, writer


def _take_apart_within(model: Any, path: str, writer: Writer) -> dict[str, Any]:
    """Return the JSON of a model within another, as if it were saved alone."""
    if type(model) not in HEADS:
        raise _not_ours(model)
    tree, own = take_apart(model)
    writer.adopt(path, own)
    return tree


def _parameters(cls: type) -> dict[str, Any]:
    """Return the kinds of parameters; the model within another is what was fitted, and none."""
    kinds = fields_of(cls)
    return {k: v for k, v in kinds.items() if k != "model"} if cls is Conformal else kinds


def _learnt(cls: Any, *, exact: bool) -> dict[str, Any]:
    """Return what an estimator learns and its kinds, so that dimensions are known before use."""
    if cls is Conformal:
        return {"calibration": Calibration}
    kinds: dict[str, Any] = {"label_center": float, "label_scale": float, "effects": FixedEffects}
    if exact and cls is MeanEmbeddingRidge:
        kinds |= {"kernel": Kernel, "scaling": Scaling, "bags": Bags, "head": SecondLevel}
    else:
        kinds |= {"features": FEATURES, "history": History | None, "novelty": Novelty | None}
        kinds["head"] = HEADS[cls]
    if issubclass(cls, BagClassifier):
        kinds["classes"] = Labels("classes")
    if issubclass(cls, PosteriorModel):
        kinds |= {"diagnostics": Diagnostics | None, "bandwidth_weights": dict[str, float]}
    if issubclass(cls, DistributionGP):
        kinds |= {"tried": dict[str, float], "groups": (Labels("groups"), NoneType)}
    if issubclass(cls, DistributionGPRegressor):
        kinds["likelihood"] = str
    return kinds


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


# ---- and put together ---------------------------------------------------------------------------


def put_together(
    tree: Any,
    tensors: Mapping[str, np.ndarray],
    given: Mapping[str, Any] | None = None,
    kind: type = BagEstimator,
) -> Any:
    """Return the estimator, or the RunningSums, of JSON and tensors, which may be anything.

    ``given`` are functions of the user's, of which a file has the names.
    """
    given = {} if given is None else given
    check_given(tree, given)
    reader = Reader(tensors, given)
    try:
        if kind is not RunningSums:
            return _put_together(tree, reader)
        sums = decode_fields(RunningSums, tree, "", reader)
        reader.finish()
        return sums
    except SavedModelError:
        raise
    except BagwiseError as error:  # of a constructor: Matern, Priors, NUTS or Bags
        raise SavedModelError.because(
            f"the saved model cannot be ({error})",
            "what bagwise.save writes",
            "The file was made or changed by something else: do not use it.",
        ) from error


def _put_together(tree: Any, reader: Reader) -> Any:
    cls, params, columns, learnt = parts_of(tree)
    if cls is Conformal:
        return _put_together_conformal(params, columns, learnt, reader)
    model = decode_fields(cls, params, "parameters", reader)
    names = read_columns(columns, reader)
    values = decode_all(learnt, _learnt(cls, exact="bags" in learnt), "", reader)
    reader.finish()
    _check_agreement(cls, values, names)
    for name, value in values.items():
        if name != "history" or value is not None:  # of features that were not learnt there is none
            setattr(model, f"{name}_", value)
    return _complete(model, names)


def _put_together_conformal(params: Any, columns: Any, learnt: Any, reader: Reader) -> Conformal:
    """Return a calibrated model; the models within have tensors and dimensions of their own."""
    models = learnt.get("models")
    if learnt.keys() != {"calibration", "model", "models"} or not isinstance(models, list):
        raise unfit("learnt", f"{sorted(learnt)!r:.200}", "calibration, model and models")
    within = {"model": learnt["model"]} | {f"models.{i}": x for i, x in enumerate(models)}
    for path, tree in within.items():
        if (cls := parts_of(tree)[0]) not in HEADS:
            known = ", ".join(one.__name__ for one in HEADS)
            raise unfit(f"{path}.class", cls.__name__, f"one of {known}")
    model, *folds = (_put_together(tree, reader.within(path)) for path, tree in within.items())
    values = decode_all(params, _parameters(Conformal), "parameters", reader)
    names = read_columns(columns, reader)
    calibration = decode(learnt["calibration"], Calibration, "calibration", reader)
    reader.finish()
    _check_models(calibration, model, folds, names)
    made = Conformal(model if values["cv"] == PREFIT else clone(model), **values)
    made.model_, made.models_, made.calibration_ = model, folds or [model], calibration
    _complete_columns(made, names)
    return made


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
    found: Columns = decode_fields(Columns, data, "columns", reader)
    for what, dimension in (("feature", "columns"), ("covariate", "covariates")):
        count, names = getattr(found, f"n_{what}s"), getattr(found, f"{what}_names")
        reader.bind(dimension, count, f"n_{what}s")
        reader.bind(dimension, count if names is None else len(names), f"{what}_names")
    return found


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
        if len(values["scaling"].center) != names.n_features:
            raise unfit("scaling", "of other columns", f"{names.n_features}")
        of_bags = values["bags"].feature_names, values["bags"].covariate_names
        if of_bags != (names.feature_names, names.covariate_names):
            raise unfit("bags", "of columns of other names", "those of the model")


def _check_head(cls: type[BagEstimator], head: Any, values: dict[str, Any]) -> None:
    """Check one head; those of many classes have any class of the list until here."""
    known = [one for one in HEADS[cls] if one is not ClassHeads]
    if "bags" not in values and type(head) not in known:
        expected = " or ".join(one.__name__ for one in known)
        raise unfit("head", f"of class {type(head).__name__}", expected)
    start = head.start if isinstance(head, PosteriorHead) else head
    if isinstance(start, ShrinkageHead) and type(start.likelihood) is not type(cls.likelihood):
        raise unfit("head.likelihood", start.likelihood.name, cls.likelihood.name)
    if isinstance(head, PosteriorHead):
        if (head.draws.trajectories is None) != (values["diagnostics"] is None):
            raise unfit("diagnostics", "not that of the draws", "one if NUTS made the draws")


def _check_models(calibration: Calibration, model: Any, folds: list[Any], names: Columns) -> None:
    """Check that the models within a calibrated one are of one kind, and those of its scores."""
    used = calibration.model
    if used.min() < 0 or used.max() >= max(len(folds), 1):
        raise unfit("calibration.model", show(used), f"one of {max(len(folds), 1)} models")
    if calibration.scaled and isinstance(model, BagClassifier):
        raise unfit("calibration.scaled", "True", "False with classes")
    for one in (model, *folds):
        if type(one) is not type(model) or Columns.of(one) != names:
            raise unfit("models", f"of {type(one).__name__}", "of one kind and of the same columns")
        if isinstance(one, BagClassifier) and one.classes_.tolist() != model.classes_.tolist():
            raise unfit("models", f"of classes {show(one.classes_)}", "of the same classes each")


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
