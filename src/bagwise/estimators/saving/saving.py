"""Saving and loading of fitted models, and what a saved model says about itself."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import scipy
import sklearn

import bagwise
from bagwise._utils.atomic import replaceable, replacing
from bagwise.bags.stacked import QUARTILES
from bagwise.embedding.running import RunningSums
from bagwise.estimators.base import BagEstimator
from bagwise.estimators.conformal import Conformal
from bagwise.estimators.saving.codec import decode
from bagwise.estimators.saving.container import (
    FORMAT,
    FORMAT_VERSION,
    SUMS_FORMAT,
    Container,
    is_model,
    is_sums,
    pack,
    unpack,
)
from bagwise.estimators.saving.models import parts_of, put_together, read_columns, take_apart
from bagwise.estimators.saving.sums import sums_of, sums_schema, sums_to_bytes
from bagwise.estimators.saving.values import Reader, show, unfit
from bagwise.exceptions import SavedModelError

# Versions that are noted, as another one may change the last bits of a prediction.
LIBRARIES = {
    "numpy": np.__version__,
    "scipy": scipy.__version__,
    "scikit-learn": sklearn.__version__,
}

# Nesting that a schema or a summary may have.
MAX_DEPTH = 20


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
    if isinstance(model, RunningSums):
        if summary is not None:
            raise SavedModelError.because(
                "a summary with sums of bags", "a summary of a model", "Leave it out."
            )
        return sums_to_bytes(model, _circumstances(schema))
    tree, writer = take_apart(model)
    if hasattr(model, "sums_"):
        writer.notes.append("sums_ are in no model file: bagwise.save(model.sums_, ...)")
    return pack(describe(model, tree, writer.notes, schema, summary), writer.tensors)


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
    container, given = unpack(_checked(path)), {"kernel": kernel, "network": network}
    if container.header["format"] == SUMS_FORMAT:
        return sums_of(container, given)
    return _opened(container, given)[0]


def open_saved(path: Any) -> tuple[Any, Header]:
    """Load a model and its header, from one reading of the file."""
    return _opened(unpack(_checked(path), FORMAT))


def open_sums(path: Any) -> tuple[RunningSums, dict[str, Any] | None]:
    """Load running sums, and the schema of the tables they are of, from one reading of the file."""
    container = unpack(_checked(path), SUMS_FORMAT)
    return sums_of(container), sums_schema(container)


def _opened(container: Container, given: Mapping[str, Any] | None = None) -> tuple[Any, Header]:
    header = Header.of(container)
    return put_together(container.header["model"], container.tensors(), given), header


def read_header(path: Any) -> Header:
    """Return what a saved model says about itself, after checking the file against its checksum."""
    return Header.of(unpack(_checked(path), FORMAT))


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
        if found.keys() != {"format", "version", "sha256", *_OWN}:
            raise unfit("header", f"of {sorted(found)!r:.200}", ", ".join(_OWN))
        estimator, parameters, columns, learnt = parts_of(found["model"])
        if "model" in learnt:  # of a calibrated model what concerns the model within
            inner, of_model, _, learnt = parts_of(learnt["model"])
            parameters = {"model": {"class": inner.__name__} | of_model} | parameters
        reader, classes = Reader({}), learnt.get("classes")
        names = read_columns(columns, reader)
        classes = classes.get("labels") if isinstance(classes, dict) else None
        return cls(
            estimator=estimator.__name__,
            parameters=parameters,
            n_features=names.n_features,
            feature_names=None if names.feature_names is None else [*names.feature_names],
            n_covariates=names.n_covariates,
            covariate_names=None if names.covariate_names is None else [*names.covariate_names],
            classes=None if classes is None else _of_type(classes, list, "classes"),
            schema=None if found["schema"] is None else _of_type(found["schema"], dict, "schema"),
            summary=_of_type(found["summary"], dict, "summary"),
            notes=[*decode(found["notes"], tuple[str, ...], "notes", reader)],
            versions=decode(found["versions"], dict[str, str], "versions", reader),
            saved=decode(found["saved"], str, "time of saving", reader),
            format_version=FORMAT_VERSION,
            checksum=container.digest,
            n_bytes=len(container.raw),
        )


_OWN = ("saved", "versions", "model", "schema", "summary", "notes")


def describe(
    model: BagEstimator | Conformal,
    tree: dict[str, Any],
    notes: list[str],
    schema: Any,
    summary: Any,
) -> dict[str, Any]:
    """Return the header of a model that is to be saved, as JSON."""
    return _circumstances(schema) | {
        "model": tree,
        "summary": known_summary(model) | plain({} if summary is None else summary, "summary"),
        "notes": notes,
    }


def _circumstances(schema: Any) -> dict[str, Any]:
    """Return what the header of every file says: when, by what, and of which columns."""
    return {
        "saved": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {"bagwise": bagwise.__version__} | LIBRARIES,
        "schema": None if schema is None else plain(schema, "schema"),
    }


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


def plain(data: Any, name: str, depth: int = 0) -> Any:
    """Return data as JSON: numbers of NumPy as those of Python, tuples and arrays as lists.

    Examples
    --------
    >>> plain({"a": np.float64(0.5), "b": (1, None)}, "summary")
    {'a': 0.5, 'b': [1, None]}
    """
    if depth > MAX_DEPTH:
        raise _not_json(name, "nested too deeply")
    if isinstance(data, Mapping):
        if not all(isinstance(key, str) for key in data):
            raise _not_json(name, "a dict with keys that are no strings")
        return {str(key): plain(x, f"{name}.{key}", depth + 1) for key, x in data.items()}
    if depth == 0:
        raise _not_json(name, f"a {type(data).__name__}")
    if isinstance(data, np.ndarray | np.generic):
        data = data.tolist()
    if isinstance(data, list | tuple):
        return [plain(x, name, depth + 1) for x in data]
    if data is None or isinstance(data, bool | int | str):
        return data
    if isinstance(data, float) and np.isfinite(data):
        return data
    raise _not_json(name, f"{data!r:.80}")


def _not_json(name: str, found: str) -> SavedModelError:
    return SavedModelError.because(
        f"{name} is or holds {found}",
        "a dict of strings, finite numbers, True, False, None, lists and dicts",
        "Convert or leave out what is something else.",
    )


def _of_type(value: Any, kind: type, name: str) -> Any:
    if type(value) is not kind:
        raise unfit(name, show(value), f"a {kind.__name__}")
    return value
