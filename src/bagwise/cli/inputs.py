"""Inputs of the commands: bags from files, and models, saved or by their short names.

Bags are read by the roles on the line, or as those were that a saved model was fitted to.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bagwise._utils.work import Progress, imported_meanwhile
from bagwise.cli.shell import WrongLine, say
from bagwise.exceptions import BagwiseError, InvalidLabelsError

# The rest is imported where it is used: nobody should wait for it who only wants to see the help.
if TYPE_CHECKING:
    from bagwise.bags.tables.frames import Cells
    from bagwise.bags.tables.schema import Roles, Schema

# Numbers in a Parquet file from which on it is read in passes: they would take 128 MB, and while
# they are sorted by bag three times as much.
STREAM_NUMBERS = 1 << 24

# What a fit needs and reading a file does not: two seconds of Python, beside a pass that has other
# threads work for it.
FITTING = ("bagwise.estimators.saving", "sklearn.cluster")


@dataclass(frozen=True, eq=False)
class TableData:
    """Bags of a file.

    Attributes
    ----------
    bags : Bags or BagStream;  labels : (n_bags,) or None
    schema : to read other files in the same way;  source : name of the file
    notes : what was left out or filled in, or looks wrong; columns left out are in the schema
    """

    bags: Any
    labels: Any
    schema: Schema
    source: str
    notes: list[str]


@dataclass(frozen=True, eq=False)
class SavedFit:
    """A model from a file, how the points it was fitted to were read, and what the file says."""

    model: Any
    schema: Schema
    header: Any = None


def names(values: list[str] | None) -> list[str]:
    """Return the names of columns, given one by one or with commas between.

    Examples
    --------
    >>> names(["a,b", "c"])
    ['a', 'b', 'c']
    """
    return [name.strip() for value in values or [] for name in value.split(",") if name.strip()]


def roles_of(
    bag: list[str],
    label: str,
    features: list[str] | None,
    covariates: list[str] | None,
    weights: str | None,
    one_hot: list[str] | None,
    missing: str,
    written: dict[str, Any],
) -> Roles:
    """Return what the line says of the columns of a table, in the order of the options.

    ``written`` is how its cells are written, see :func:`written_as`.
    """
    from bagwise.bags.tables.schema import Roles

    return Roles(
        bag=names(bag),
        label=label,
        features=names(features) or None,
        covariates=names(covariates),
        weights=weights,
        one_hot=names(one_hot),
        missing=missing,
        **written,
    )


def written_as(
    sep: str | None, decimal: str | None, thousands: str | None, na: list[str] | None
) -> dict[str, Any]:
    """Return what the line says of how cells are written, and only that.

    Examples
    --------
    >>> written_as(";", None, None, ["-999"])
    {'sep': ';', 'na_values': ['-999']}
    """
    given = {"sep": sep, "decimal": decimal, "thousands": thousands, "na_values": na}
    return {name: value for name, value in given.items() if value}


def read_like(
    saved: SavedFit,
    points: Path,
    *,
    labels: Path | None,
    stream: bool | None,
    labelled: bool,
    written: dict[str, Any],
    engine: Any = None,
) -> TableData:
    """Read bags as those were that a model was fitted to, with or without their labels.

    Marks (sep, decimal, thousands) are those of training unless the line names any of them, which
    then stand for all; codes of missing values those of training unless the line names others.
    """
    schema = saved.schema if labelled else saved.schema.without_label()
    schema = replace(schema, cells=_cells_of(schema.cells, written, (points, labels)))
    if labelled and schema.label not in all_columns(points, labels, schema.cells):
        raise BagwiseError.because(
            f"there is no label column {'' if schema.label is None else repr(schema.label)} in "
            f"{points if labels is None else f'{points} or {labels}'}",
            "the label that the model was fitted to",
            "Name it with --label if the model does not know it, give the labels in a second file "
            "with --labels, or use bagwise predict.",
        )
    return read(points, schema, labels=labels, stream=stream, engine=engine)


def _cells_of(trained: Cells, written: dict[str, Any], files: tuple[Path | None, ...]) -> Cells:
    """Return how the cells of new files are written."""
    from bagwise.bags.tables.files import existing, is_csv
    from bagwise.bags.tables.frames import Cells

    given = Cells.of(**written)
    codes = given.na_values or trained.na_values
    if any(name in written for name in ("sep", "decimal", "thousands")):
        return replace(given, na_values=codes)
    marks = {
        k: v for k, v in trained.to_dict().items() if k != "na_values" and v not in (None, ".")
    }
    if marks and any(is_csv(existing(file)) for file in files if file is not None):
        shown = ", ".join(f"{name} {mark!r}" for name, mark in marks.items())
        say(
            f"note: CSV is read as in training ({shown}); --sep, --decimal or --thousands change it"
        )
    return replace(trained, na_values=codes)


def all_columns(points: Path, labels: Path | None, cells: Cells) -> list[str]:
    """Return the names of the columns of both files."""
    from bagwise.bags.tables.files import table_columns

    files = [points] if labels is None else [points, labels]
    return [name for file in files for name in table_columns(file, cells=cells)]


def batch_name(paths: tuple[Path | None, ...]) -> str:
    """Return what the content of files is known by, wherever they lie and whatever their names."""
    from bagwise.bags.tables.files import TABLES, existing, files_in

    digest = hashlib.sha256()
    for path in paths:
        for file in () if path is None else files_in(existing(path), TABLES):
            with file.open("rb") as opened:
                digest.update(hashlib.file_digest(opened, "sha256").digest())
        digest.update(b"/")
    return digest.hexdigest()


def open_model(path: Path, bag: list[str] | None = None, label: str | None = None) -> SavedFit:
    """Load a model: of ``bagwise fit``, or of ``bagwise.save`` if told what the columns are."""
    from bagwise.bags.tables.schema import Schema
    from bagwise.estimators.saving import open_saved

    model, header = open_saved(path)
    if header.schema is not None:
        return SavedFit(model, Schema.from_dict(header.schema), header)
    if not bag or header.feature_names is None:
        raise BagwiseError.because(
            f"{path} was saved from Python and does not say which columns of a table are what",
            "the bag column as --bag, and a model fitted to bags whose features have names",
            "Add --bag COLUMN; name features with Bags.from_frame, or predict from Python.",
        )
    columns = tuple(header.feature_names), tuple(header.covariate_names or ())
    return SavedFit(model, Schema(tuple(bag), *columns, label=label), header)


@contextmanager
def engine_of(cluster: str | None, workers: int | None, stream: bool | None) -> Iterator[Any]:
    """Give the engine that the line asks for, None if it asks for none."""
    if cluster is None and workers is None:
        yield None
        return
    if cluster is not None and workers is not None:
        raise WrongLine.because(
            "--cluster and --workers",
            "one of the two",
            "A cluster has its own workers.",
        )
    if stream is False:
        raise WrongLine.because(
            f"{'--workers' if cluster is None else '--cluster'} with points in memory",
            "points that workers read from Parquet",
            "Leave out --in-memory, or the cluster.",
        )
    from bagwise._utils.engines.dask import DaskEngine

    with DaskEngine(cluster, workers=workers) as engine:
        yield engine


def read(
    points: Path,
    plan: Roles | Schema,
    *,
    labels: Path | None,
    stream: bool | None,
    engine: Any = None,
) -> TableData:
    """Read bags and labels, as the line or a schema says."""
    from bagwise.bags.tables.reader import read_bags, scan_bags

    if engine is not None or stream or (stream is None and _is_large(points, plan)):
        import pyarrow.dataset
        import pyarrow.parquet  # noqa: F401  before the others: two threads import nothing alike

        with imported_meanwhile(*FITTING):
            table = scan_bags(points, plan, labels=labels, engine=engine)
    else:
        with Progress(f"reading {points.name}", None):
            table = read_bags(points, plan, labels=labels)
    for line in table.report.lines():
        say(f"note: {line}")
    notes = replace(table.report, left_out={}).lines()
    return TableData(table.bags, table.labels, table.schema, points.name, notes)


def read_groups(
    points: Path,
    roles: Roles,
    column: str,
    data: TableData,
    *,
    labels: Path | None,
    engine: Any = None,
) -> list[Any]:
    """Return the group of each bag, which a column says as it would a label."""
    from bagwise.bags.bags import BagStream
    from bagwise.bags.tables.reader import read_bags, scan_bags

    first = data.schema.features[:1]  # the least that bags can be read with
    encoded = {name: data.schema.one_hot[name] for name in first if name in data.schema.one_hot}
    plan = replace(
        roles, label=column, features=first, covariates=[], one_hot=encoded or [], ignore=[]
    )
    if isinstance(data.bags, BagStream):
        table = scan_bags(points, plan, labels=labels, engine=engine)
    else:
        table = read_bags(points, plan, labels=labels)
    assert table.labels is not None
    known = dict(zip(table.bags.ids.tolist(), table.labels.tolist(), strict=True))
    lost = [bag for bag in data.bags.ids.tolist() if bag not in known]
    if lost:
        raise BagwiseError.because(
            f"{len(lost)} bags, the first {lost[0]!r}, have no group in column {column!r}",
            "a group of every bag",
            "Fill the column, or leave these bags out.",
        )
    return [known[bag] for bag in data.bags.ids.tolist()]


def _is_large(points: Path, plan: Roles | Schema) -> bool:
    """Whether a file is Parquet of more numbers than are well kept in memory."""
    from bagwise.bags.tables.files import existing, kind_of, parquet_dataset

    if kind_of(existing(points)) != "parquet":
        return False
    dataset = parquet_dataset(points)
    used = plan.features if plan.features is not None else dataset.schema.names
    return bool(dataset.count_rows() * len(used) > STREAM_NUMBERS)


# ---- models by name ------------------------------------------------------------------------------


class ModelName(StrEnum):
    """The models: a Gaussian process, and those of the paper."""

    GP = "gp"
    SHRINKAGE = "shrinkage"
    SHRINKAGE_C = "shrinkage-c"
    BDR = "bdr"
    BLR = "blr"
    FREQ_SHRINKAGE = "freq-shrinkage"
    RBF = "rbf"
    KERNEL_RIDGE = "kernel-ridge"


# The estimator of each name: for labels that are numbers, and for classes.
REGRESSORS = {
    ModelName.GP: ("DistributionGPRegressor", {}),
    ModelName.SHRINKAGE: ("ShrinkageRegressor", {}),
    ModelName.SHRINKAGE_C: ("ShrinkageRegressor", {"prior": "convolved"}),
    ModelName.BDR: ("BDRRegressor", {}),
    ModelName.BLR: ("BayesianLinearRegressor", {}),
    ModelName.FREQ_SHRINKAGE: ("FrequentistShrinkageRegressor", {}),
    ModelName.RBF: ("RBFNetworkRegressor", {}),
    ModelName.KERNEL_RIDGE: ("MeanEmbeddingRidge", {}),
}
CLASSIFIERS = {
    ModelName.GP: ("DistributionGPClassifier", {}),
    ModelName.SHRINKAGE: ("ShrinkageClassifier", {}),
    ModelName.SHRINKAGE_C: ("ShrinkageClassifier", {"prior": "convolved"}),
    ModelName.BDR: ("BDRClassifier", {}),
    ModelName.BLR: ("BayesianLogisticClassifier", {}),
}

EMBEDDINGS = {"kernel": "KernelEmbedding", "fourier": "FourierEmbedding"}

# What has no literal in Python: "inf", where it is a number.
INFINITY = re.compile(r"(?<![\w'\"])inf(?![\w'\"])")

# Parameters of the calibration that --set takes along with --conformal.
CONFORMAL = ("method", "cv", "scale", "by_size", "target_sizes", "symmetric")

# Parameters that --set does not take: the seed is --seed, and what an embedding returns on its own
# does not concern a model.
NOT_SET = ("random_state", "output")


def estimator(
    name: ModelName,
    *,
    classes: bool,
    settings: Sequence[str],
    seed: int,
    also: Sequence[str] = (),
) -> Any:
    """Return the estimator of a name, with ``parameter=value`` settings, not yet fitted.

    ``also`` are parameters of something else, which an error names too.

    Examples
    --------
    >>> estimator(ModelName.SHRINKAGE, classes=False, settings=["n_landmarks=30"], seed=1)
    ShrinkageRegressor(embedding=KernelEmbedding(n_landmarks=30, random_state=1))
    """
    import bagwise

    table = CLASSIFIERS if classes else REGRESSORS
    if name not in table:
        raise BagwiseError.because(
            f"there is no model {name.value!r} for classes",
            f"one of {', '.join(known.value for known in table)}",
            "Choose another --model; or, if the labels are numbers, add --task numbers.",
        )
    class_name, preset = table[name]
    model = getattr(bagwise, class_name)(**preset).set_params(embedding__random_state=seed)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    return _with_settings(model, dict(map(_setting, settings)), also)


def of_conformal(settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return those of the settings that are of the calibration, and the others as they were.

    Examples
    --------
    >>> of_conformal(["method=split", "n_landmarks=30", "by_size=3"])
    ({'method': 'split', 'by_size': 3}, ['n_landmarks=30'])
    """
    mine = [text for text in settings if _setting(text)[0] in CONFORMAL]
    return dict(map(_setting, mine)), [text for text in settings if text not in mine]


def _setting(text: str) -> tuple[str, Any]:
    """Split ``parameter=value``; the value is a number, inf, True, None, a word, or several."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BagwiseError.because(
            f"--set has {text!r}", "parameter=value", "For example --set n_landmarks=90."
        )
    for written in (value, INFINITY.sub("1e999", value)):  # which is infinite
        with suppress(ValueError, SyntaxError):
            return name.strip(), ast.literal_eval(written)
    return name.strip(), value.strip()


def _with_settings(model: Any, settings: dict[str, Any], also: Sequence[str]) -> Any:
    """Set parameters of the model and its embedding; those of the sampler go to NUTS."""
    from bagwise.estimators.embeddings import qualified  # brings scikit-learn

    if "embedding" in settings:
        model.set_params(embedding=_embedding(settings.pop("embedding"), model.embedding))
    names = [name.removeprefix("embedding__") for name in model.get_params()]
    known = [name for name in dict.fromkeys(names) if name not in NOT_SET]
    settings = {name.removeprefix("embedding__"): value for name, value in settings.items()}
    sampler: dict[str, Any] = {}
    if "inference" in known:
        from bagwise.inference import NUTS

        of_nuts = [field.name for field in fields(NUTS)]
        sampler = {name: settings.pop(name) for name in of_nuts if name in settings}
        known += of_nuts
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise BagwiseError.because(
            f"--set has {unknown[0]!r}, which {type(model).__name__} does not know",
            f"one of {', '.join([*known, *also])}",
            "Check the spelling."
            if unknown[0] not in CONFORMAL
            else "It is of the calibration: add --conformal.",
        )
    model.set_params(**qualified(model, settings))
    if sampler:
        if model.inference != "nuts":
            raise BagwiseError.because(
                f"--set has {next(iter(sampler))!r} with inference={model.inference!r}",
                "inference=nuts, which alone samples",
                "Leave one of the two out.",
            )
        model.set_params(inference=NUTS(**sampler))
    return model


def _embedding(name: Any, default: Any) -> Any:
    """Return the embedding of a name, with the bandwidth and the seed of another."""
    import bagwise

    if str(name) not in EMBEDDINGS:
        raise BagwiseError.because(
            f"--set has embedding={name}", " or ".join(EMBEDDINGS), "Check the spelling."
        )
    cls = getattr(bagwise, EMBEDDINGS[name])
    return cls(bandwidth=default.bandwidth, random_state=default.random_state)


def are_classes(labels: np.ndarray, task: str) -> bool:
    """Whether labels are classes: if so said, or if nothing is said and they look like it."""
    from bagwise.bags.per_bag import looks_like_classes
    from bagwise.bags.validation import show

    if task == "numbers" and labels.dtype.kind not in "fiu":
        raise InvalidLabelsError.because(
            f"the labels are {'text' if labels.dtype.kind == 'U' else labels.dtype.name}, such as "
            f"{show(labels[0])}",
            "numbers, as --task numbers says",
            "Use --task classes, or another --label.",
        )
    return looks_like_classes(labels) if task == "auto" else task == "classes"
