"""Codec: values become JSON and tensors, and come back, as the annotations of their classes say.

    float, int, bool, str, None, X | Y     numbers bit for bit; what JSON has no number for is
                                           {"float": "inf"}
    Float64[np.ndarray, "n d"]             {"array": "C"} and a tensor, whose dimensions have names
    tuple[X, ...], tuple[X, X], dict[str, X]  list and object
    a class of CLASSES                     {"class": its name, field: ...}
    Objects, Callable, a Kind              see values.py

The list of classes is closed. A name in a file picks one of them or is an error: nothing is
imported by name, and nothing is called but their constructors, after types, dtypes and shapes were
checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from jaxtyping import AbstractArray
from sklearn.base import BaseEstimator

from bagwise.bags.bags import Bags
from bagwise.bags.validation import Objects
from bagwise.embedding.novelty import Novelty, Usual
from bagwise.embedding.posterior import EmbeddingModel
from bagwise.embedding.running import NO_STATE, RunningSums
from bagwise.estimators.embeddings import FourierEmbedding, KernelEmbedding, NetworkEmbedding
from bagwise.estimators.mean_embedding import LandmarkRidgeHead, SecondLevel
from bagwise.estimators.saving.container import Problem, Reader, Writer, show, unfit, unsaveable
from bagwise.estimators.saving.values import (
    LANDMARKS,
    PLAIN,
    SIZES,
    ClassWeights,
    Column,
    Function,
    Kind,
    Labels,
    NotKept,
    ObjectPoints,
    Seed,
    decode_plain,
    encode_plain,
)
from bagwise.exceptions import SavedModelError
from bagwise.features.kernels import KERNEL_CLASSES, UserKernel
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling
from bagwise.features.network import NetworkFeatures, UserNetworkFeatures
from bagwise.heads.base import ClassHeads, FixedEffects
from bagwise.heads.gp import Drawn, GPDraws, GPHead
from bagwise.heads.linear import LinearHead
from bagwise.heads.posterior import PosteriorHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.draws import Draws, Trajectories
from bagwise.inference.gp_evidence import Sizing
from bagwise.inference.gp_scales import ScaleDraws
from bagwise.inference.history import History
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.residuals import Spread
from bagwise.inference.ridge import WeightPosterior
from bagwise.inference.second_level import Inputs, Scales
from bagwise.inference.settings import NUTS, Training
from bagwise.inference.shrinkage import Mode
from bagwise.inference.sureness import Sureness
from bagwise.likelihoods import Gaussian, Logistic, Probit
from bagwise.predictions.conformal import Calibration, SizeRatio

# What a model may hold, or have as a parameter; an estimator among them with its parameters only.
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *KERNEL_CLASSES,
        *(Scaling, LandmarkFeatures, FourierFeatures, NetworkFeatures, UserNetworkFeatures, Bags),
        *(FixedEffects, WeightPosterior, EmbeddingModel, Mode, Draws, Trajectories, ScalePriors),
        *(LinearHead, ShrinkageHead, PosteriorHead, SecondLevel, LandmarkRidgeHead),
        *(Novelty, Usual, Sureness),
        *(GPHead, Inputs, Scales, Sizing, Spread, ClassHeads, GPDraws, Drawn, ScaleDraws),
        *(Gaussian, Probit, Logistic),
        *(Priors, NUTS, Diagnostics, Training, History, Calibration, SizeRatio),
        *(KernelEmbedding, FourierEmbedding, NetworkEmbedding),
    )
}

FEATURES = LandmarkFeatures | FourierFeatures | NetworkFeatures | UserNetworkFeatures

# Names of dimensions in annotations, and what they are in a file, where each has one size. The
# second table is of classes in which a letter means something else; letters in neither are checked
# within their class.
DIMENSIONS = {
    "p": "columns",
    "n_features": "columns",
    "n_covariates": "covariates",
    "n": "bags",
    "n_bags": "bags",
    "n_points": "points",
    "d": "features",
    "s": "functionals",
    "q": "weights",
    "c": "directions",
    "r": "effects",
}
CHAINS = {"c": "chains", "s": "draws"}
# Features may see more columns than there are, see `check`.
SEEN = {"p": "columns as they are seen"}
OTHER_DIMENSIONS = {
    **dict.fromkeys((Scaling, LandmarkFeatures, FourierFeatures), SEEN),
    FixedEffects: {"c": "covariates"},
    RunningSums: {"c": "covariates"},
    Draws: CHAINS,
    Trajectories: CHAINS,
    ScaleDraws: CHAINS,
    LandmarkRidgeHead: {"q": "coordinates"},
}

# Parameters whose annotation is Any, and fields whose annotation does not say how they are written.
OPEN: dict[str, Any] = {
    "bandwidth_prior": (float, NoneType),
    "by_size": (int, tuple[float, ...], NoneType),
    "class_weight": (ClassWeights(), str, NoneType),
    "cv": (int, str, NotKept()),
    "function_landmarks": (LANDMARKS, NoneType, ObjectPoints(as_list=True)),
    "groups": NotKept(),
    "hidden": (tuple[int, ...], int),
    "image_shape": (tuple[int, ...], NoneType),
    "network": (str, Function("network")),
    "learn": (Training, tuple[str, ...], str, NoneType),
    "landmarks": (LANDMARKS, str, ObjectPoints(as_list=True)),
    "random_state": Seed(),
    "support": (tuple[float, float], NoneType),
    "target_sizes": (str, SIZES, NoneType),
}
OTHER_FIELDS: dict[type, dict[str, Any]] = {
    Bags: {"ids": Labels("bags", as_text=True)},
    RunningSums: {
        "features": FEATURES,
        "ids": Column("bags", distinct=True),
        "labels": (Column("bags"), NoneType),
    },
}

# Fields that came later, and what stands in for them in files that are older.
LATER: dict[type, dict[str, Any]] = {
    NUTS: {"n_effective": 400, "min_draws": 240, "max_draws": 4000},
    ShrinkageHead: {"sureness": None},
    PosteriorHead: {"sureness": None},
    GPHead: {"curve": None, "moved": 0.0, "share_slope": 0.0, "label_var": 1.0},
}

# Objects within objects: the deepest of ours has 4, and additive kernels may be within each other.
MAX_NESTING = 10

# Of the dtypes that an annotation allows, those that models have.
DTYPES = ("float64", "float32", "int64", "int32", "bool")


@cache
def fields_of(cls: Any) -> dict[str, Any]:
    """Return the fields of a class, or the parameters of an estimator, with their annotations.

    Examples
    --------
    >>> from bagwise.features.kernels import Matern
    >>> fields_of(Matern)
    {'bandwidth': float | None, 'smoothness': <class 'float'>}
    """
    if issubclass(cls, BaseEstimator):
        hints = get_type_hints(cls.__init__)
        found = {name: hints.get(name, Any) for name in cls._get_param_names()}
        return {name: OPEN.get(name, Any) if x is Any else x for name, x in found.items()}
    found = {
        name: hint
        for name, hint in get_type_hints(cls).items()
        if ClassVar not in (hint, get_origin(hint))
    }
    return found | OTHER_FIELDS.get(cls, {})


# ---- to JSON and tensors ------------------------------------------------------------------------


def encode(value: Any, kind: Any, path: str, writer: Writer) -> Any:
    """Return JSON of a value that is what its annotation says; arrays go to the writer."""
    if isinstance(value, Objects):  # whose own error says what cannot be written
        kind = Objects
    if isinstance(kind := _given(kind, path), Kind):
        return kind.encode(value, path, writer)
    if options := _options(kind):
        likely = tuple(option for option in options if _is_likely(value, option)) or options
        return _first(likely, lambda option: encode(value, option, path, writer))
    if kind in PLAIN:
        return encode_plain(value, kind, path)
    if _is_array(kind):
        same = isinstance(value, np.ndarray) and value.ndim == len(kind.dims)
        if not same or str(value.dtype) not in _dtypes(kind):
            raise unsaveable(path, show(value), f"an array of {kind.dim_str}")
        return writer.put(path, value)
    if get_origin(kind) is tuple:
        items = _items(kind, value, path, unsaveable, tuple | list | np.ndarray)
        return [encode(x, item, at, writer) for x, item, at in items]
    if get_origin(kind) is dict and isinstance(value, dict):
        item = get_args(kind)[1]
        return {
            encode(key, str, path, writer): encode(part, item, f"{path}.{key}", writer)
            for key, part in value.items()
        }
    known = _classes(kind)
    if type(value) not in known.values() or path.count(".") > MAX_NESTING:
        names = ", ".join(known) or str(kind)
        raise unsaveable(path, show(value), f"one of {names}, not a class derived from them")
    return {"class": type(value).__name__} | encode_fields(value, path, writer)


def encode_fields(value: Any, path: str, writer: Writer) -> dict[str, Any]:
    """Return JSON of the fields of an object, or of the parameters of an estimator."""
    cls: Any = type(value)
    kinds = fields_of(cls)
    return encode_all({name: getattr(value, name) for name in kinds}, kinds, path, writer)


def encode_all(
    values: Mapping[str, Any], kinds: Mapping[str, Any], path: str, writer: Writer
) -> dict[str, Any]:
    """Return JSON of several values at a path, "" for the top."""
    return {
        name: encode(values[name], kind, _at(path, name), writer) for name, kind in kinds.items()
    }


# ---- and back -----------------------------------------------------------------------------------


def decode(data: Any, kind: Any, path: str, reader: Reader, owner: type = object) -> Any:
    """Return the value of JSON, if it is what its annotation, in the class ``owner``, says."""
    if isinstance(kind := _given(kind, path), Kind):
        return kind.decode(data, path, reader)
    if options := _options(kind):
        if isinstance(data, dict) and "class" in data:  # whose own error says what is wrong
            named = [option for option in options if data["class"] in _names(option)]
            options = tuple(named) or options
        return _first(options, lambda option: decode(data, option, path, reader, owner))
    if kind in PLAIN:
        return decode_plain(data, kind, path)
    if _is_array(kind):
        array = reader.take(data, path, _dtypes(kind), len(kind.dims))
        for name, size in zip(kind.dim_str.split(), array.shape, strict=True):
            base, _, more = name.partition("+")
            reader.bind(dimension(owner, base), size - int(more or 0), path)
        return array
    if get_origin(kind) is tuple:
        items = _items(kind, data, path, unfit, list)
        return tuple(decode(*item, reader.part(), owner) for item in items)
    if get_origin(kind) is dict:
        if not isinstance(data, dict):
            raise unfit(path, show(data), "a table")
        item = get_args(kind)[1]
        return {key: decode(x, item, f"{path}.{key}", reader, owner) for key, x in data.items()}
    return _decode_object(data, _classes(kind), path, reader)


def _decode_object(data: Any, known: dict[str, type], path: str, reader: Reader) -> Any:
    if path.count(".") > MAX_NESTING:
        raise unfit(path[:80], "nested too deeply", f"at most {MAX_NESTING} levels")
    name = data.get("class") if isinstance(data, dict) else None
    cls = known.get(name) if isinstance(name, str) else None
    if cls is None:
        raise unfit(path, f"of class {show(name)}", f"one of {', '.join(known)}")
    parts = {key: part for key, part in data.items() if key != "class"}
    return decode_fields(cls, parts, path, reader)


def decode_fields(cls: Any, data: Any, path: str, reader: Reader) -> Any:
    """Return an object made of its fields, or an estimator of its parameters, from JSON."""
    made = cls(**decode_all(data, fields_of(cls), path, reader, cls))
    check(made, path, reader)
    return made


def decode_all(
    data: Any, kinds: Mapping[str, Any], path: str, reader: Reader, owner: type = object
) -> dict[str, Any]:
    """Return several values at a path, "" for the top, if these and no others are there."""
    if isinstance(data, dict):
        data = LATER.get(owner, {}) | data
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        found = sorted(data) if isinstance(data, dict) else data
        raise unfit(path or "content", f"{found!r:.200}", ", ".join(kinds) or "no fields")
    return {
        name: decode(data[name], kind, _at(path, name), reader, owner)
        for name, kind in kinds.items()
    }


def dimension(owner: type, name: str) -> str:
    """Return what a dimension in an annotation of a class is in a file.

    Examples
    --------
    >>> dimension(Draws, "q"), dimension(Draws, "s"), dimension(Mode, "k")
    ('weights', 'draws', 'k of Mode')
    """
    known = DIMENSIONS | OTHER_DIMENSIONS.get(owner, {})
    return known.get(name, f"{name} of {owner.__name__}")


# ---- annotations --------------------------------------------------------------------------------


def _options(kind: Any) -> tuple[Any, ...]:
    """Return what a union may be; none if it is no union."""
    if kind is Any:
        return (object, bool, float, str, NoneType)
    if isinstance(kind, tuple):
        return kind
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else ()


def _given(kind: Any, path: str) -> Any:
    """Return the kind of what is a user's own, objects and functions; any other as it is."""
    if kind is Objects:
        return ObjectPoints()
    role = "network" if path.endswith("network") else "kernel"
    return Function(role) if get_origin(kind) is Callable else kind


def _is_likely(value: Any, option: Any) -> bool:
    """Whether a value is of the type of an option, whose own error then says what is wrong."""
    value = value.item() if isinstance(value, np.generic) else value
    if option in PLAIN:
        return type(value) in PLAIN[option][0]
    return isinstance(option, type) and not _is_array(option) and isinstance(value, option)


def _first(options: tuple[Any, ...], attempt: Callable[[Any], Any]) -> Any:
    """Return what the first option makes of a value; raise the first error if none takes it."""
    errors = []
    for option in options:
        try:
            return attempt(option)
        except SavedModelError as error:
            errors.append(error)
    raise errors[0]


def _items(
    kind: Any, values: Any, path: str, problem: Problem, types: Any
) -> list[tuple[Any, Any, str]]:
    """Return each entry of a tuple with its annotation and path; of strings no two are the same."""
    first, *others = get_args(kind)
    words, expected = first is str, "strings, no two the same" if first is str else "a list"
    if not isinstance(values, types):
        raise problem(path, show(values), expected)
    if words and (not all(isinstance(x, str) for x in values) or len({*values}) != len(values)):
        raise problem(path, show(values), expected)
    if others != [...] and len(values) != 1 + len(others):
        raise problem(path, show(values), f"{1 + len(others)} entries")
    return [(x, first, path if words else f"{path}.{i}") for i, x in enumerate(values)]


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _is_array(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, AbstractArray)


def _dtypes(kind: Any) -> tuple[str, ...]:
    return tuple(name for name in DTYPES if name in kind.dtypes)


def _names(kind: Any) -> list[str]:
    """Return the names of the classes that an annotation allows, if it is one of a class."""
    return list(_classes(kind)) if isinstance(kind, type) else []


def _classes(kind: Any) -> dict[str, type]:
    """Return the known classes that are, or are derived from, the one of an annotation."""
    return {name: cls for name, cls in CLASSES.items() if kind in cls.__mro__}


# ---- what concerns several fields ---------------------------------------------------------------


def check(made: Any, path: str, reader: Reader) -> None:
    """Check what concerns several fields of an object at once, other than shapes."""
    if isinstance(made, FEATURES):
        z = getattr(made, "function_landmarks", None)
        n_seen, way = len(made.scaling.center), made.centred
        if way not in (False, True, "deviations") or (way == "deviations" and n_seen % 2):
            raise unfit(f"{path}.centred", show(way), 'a bool, or "deviations" beside each column')
        reader.bind("columns", n_seen // 2 if way == "deviations" else n_seen, path)
        reader.bind("features", made.n_outputs, path)
        reader.bind("functionals", made.n_outputs if z is None else len(z), path)
        if isinstance(made, LandmarkFeatures):
            check_kernel(made.kernel, made.landmarks, path)
        elif isinstance(made, NetworkFeatures | UserNetworkFeatures):
            check_network(made, path)
    elif isinstance(made, ScalePriors):
        reader.bind(dimension(ScalePriors, "k"), len(made.names), path)
    elif isinstance(made, PosteriorHead):
        if tuple(made.draws.scales) != made.priors.names or "weight_var" not in made.priors.names:
            raise unfit(path, "of other scales than its priors", "the same, weight_var included")
    elif isinstance(made, GPDraws):
        if not made.drawn:
            raise unfit(f"{path}.drawn", "empty", "at least one draw")
    elif isinstance(made, ScaleDraws):
        if not made.scales or not made.scales.keys() <= set(Scales.names()):
            raise unfit(f"{path}.scales", f"of {', '.join(made.scales)}", "some of those there are")
    elif isinstance(made, Calibration):
        _check_calibration(made, path)
    elif isinstance(made, RunningSums):
        _check_sums(made)
    elif isinstance(made, SizeRatio):
        if len(made.coefficients) != 3 or not np.isfinite(made.coefficients).all():
            raise unfit(f"{path}.coefficients", show(made.coefficients), "three finite numbers")
        if not (np.isfinite(made.center) and np.isfinite(made.scale) and made.scale > 0):
            raise unfit(path, f"of scale {made.scale}", "a scale > 0")
    elif isinstance(made, Diagnostics):
        if not made.rhat or not made.rhat.keys() == made.ess_bulk.keys() == made.ess_tail.keys():
            raise unfit(path, "of other parameters in each table", "the same, and at least one")


def check_kernel(kernel: Any, points: Any, path: str) -> None:
    """Check that a kernel of the user's is that of the model, by its values among some points."""
    if not isinstance(kernel, UserKernel):
        return
    try:
        known = kernel.knows(points)
    except Exception as error:  # of a function that we know nothing of
        known, why = False, f": {type(error).__name__} {error!s:.200}"
    else:
        why = ""
    if not known:
        raise SavedModelError.because(
            f"{kernel!r} has not the values in {path} that the kernel of the fit had{why}",
            "the function that the model was fitted with",
            "Give load(path, kernel=...) that function.",
        )


def check_network(features: NetworkFeatures | UserNetworkFeatures, path: str) -> None:
    """Check that layers fit each other, and that a network of the user's is that of the model."""
    why = ""
    try:
        known = not isinstance(features, UserNetworkFeatures) or features.is_known()
        features(np.zeros((1, len(features.scaling.center))))
    except Exception as error:  # of layers that do not fit, or of a function that we do not know
        known, why = False, f": {type(error).__name__} {error!s:.200}"
    if known:
        return
    if isinstance(features, NetworkFeatures):
        raise unfit(path, f"of layers that do not fit{why}", "layers of one network")
    raise SavedModelError.because(
        f"the network given has not the outputs in {path} that the one of the fit had{why}",
        "the network that the model was fitted with",
        "Give load(path, network=...) that network, or the function that returns it.",
    )


def _check_calibration(made: Calibration, path: str) -> None:
    """Check what scores of calibration bags must be."""
    for name, least in (("scores", -np.inf), ("sizes", 0.0), ("weights", 0.0), ("starts", 0.0)):
        values = getattr(made, name)
        if not (np.isfinite(values) & (values > least)).all():
            raise unfit(f"{path}.{name}", show(values), f"finite numbers > {least:g}")
    if not (np.diff(made.starts) > 0).all():
        raise unfit(f"{path}.starts", show(made.starts), "increasing")
    if len(np.setdiff1d(np.arange(len(made.starts)), made.cell(made.sizes))):
        raise unfit(f"{path}.starts", show(made.starts), "sizes of groups that have bags")


def _check_sums(made: RunningSums) -> None:
    """Check what running sums must be."""
    features: Any = made.features
    d, p = features.n_outputs, len(features.scaling.center)
    if made.scatter is not None and made.scatter.shape[1] != d * (d + 1) // 2:
        found, expected = made.scatter.shape[1], d * (d + 1) // 2
        raise unfit("scatter", f"of {found} numbers", f"{expected} for each bag")
    if made.n_features != p or (made.feature_names is not None and len(made.feature_names) != p):
        raise unfit("n_features", show(made.n_features), f"{p}, as the features have")
    if made.covariate_names is not None and len(made.covariate_names) != made.n_covariates:
        raise unfit("covariate_names", show(made.covariate_names), f"{made.n_covariates} names")
    if made.labels is None and made.labelled.any():
        raise unfit("labelled", "true of some bags", "labels, or no bag with one")
    for name in ("counts", "unit", "total", "squares"):
        values = getattr(made, name)
        if not (values > 0).all() or not np.isfinite(values).all():
            raise unfit(name, "not positive for every bag", "points in every bag")
    for name in ("sums", "scatter", "covariates"):
        values = getattr(made, name)
        if values is not None and not np.isfinite(values).all():
            raise unfit(name, "not finite", "numbers")
    if len(made.state) != len(NO_STATE):
        raise unfit("state", show(made.state), f"{len(NO_STATE)} digits")
