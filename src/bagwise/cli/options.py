"""Options that several commands have in common."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


def _column_names(incomplete: str) -> list[str]:
    """Complete the name of a column from the file of points that stands on the line already.

    Shells pass the line in the environment; typer has not yet made parameters of it.
    """
    from bagwise.bags.tables.files import table_columns
    from bagwise.exceptions import BagwiseError

    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS", "")
    for word in line.split()[2:]:  # after "bagwise fit"
        try:
            names = table_columns(Path(word))
        except (BagwiseError, OSError):
            continue
        return [name for name in names if name.startswith(incomplete)]
    return []


class Missing(StrEnum):
    """What to do about missing values."""

    ERROR = "error"
    DROP = "drop"
    IMPUTE = "impute"


class Format(StrEnum):
    """How a table is written."""

    CSV = "csv"
    CSV_GZ = "csv.gz"
    TSV = "tsv"
    PARQUET = "parquet"
    JSON = "json"


class Task(StrEnum):
    """What the labels are."""

    AUTO = "auto"
    NUMBERS = "numbers"
    CLASSES = "classes"


def _given(*flags: str, help: str, **more: Any) -> Any:
    """Return an option whose default, nothing, is not shown."""
    return typer.Option(*flags, help=help, show_default=False, **more)


def _columns(*flags: str, help: str) -> Any:
    return _given(*flags, help=help, autocompletion=_column_names)


Points = Annotated[
    Path,
    typer.Argument(
        help="A row per point: Parquet, .csv, .csv.gz or .tsv, or a folder of such files.",
        show_default=False,
    ),
]
Labels = Annotated[
    Path | None,
    typer.Option(help="A second file with a row per bag, if labels are not in the first."),
]
BagColumn = Annotated[
    list[str],
    _columns(
        "--bag",
        help="Column that says which bag a point is in; give several for an id of several columns.",
    ),
]
LabelColumn = Annotated[
    str, _columns("--label", help="Column with the label, the same in all rows of a bag.")
]
FeatureColumns = Annotated[
    list[str] | None,
    _columns(
        "--features",
        help="Columns of the points, repeated or with commas; default: every numeric column that "
        "has no other role.",
    ),
]
CovariateColumns = Annotated[
    list[str] | None,
    _columns(
        "--covariates", help="Columns that are known of the bag as a whole; they enter linearly."
    ),
]
WeightColumn = Annotated[
    str | None,
    typer.Option(
        "--weights", help="Column with weights of the points.", autocompletion=_column_names
    ),
]
OneHot = Annotated[
    list[str] | None, _columns(help="Columns of categories, to be encoded as 0/1 columns.")
]
Ignored = Annotated[
    list[str] | None, _columns(help="Columns that are no features, such as a note or a number.")
]
MissingValues = Annotated[
    Missing,
    typer.Option(
        "--missing", help="Refuse missing values, drop their rows, or put the median in place."
    ),
]
Sep = Annotated[
    str | None,
    _given(help="Between the fields of CSV files, such as ';' or tab; default: as the name ends."),
]
Decimal = Annotated[str | None, _given(help="Decimal mark of numbers, if it is not a point.")]
Thousands = Annotated[
    str | None, _given(help="Mark between thousands, as in 1,234.5; default: none.")
]
NaValues = Annotated[
    list[str] | None,
    _given(
        "--na",
        help="What stands for a missing value besides empty cells, NA and null, such as -999; may "
        "repeat.",
    ),
]
TaskOption = Annotated[
    Task,
    typer.Option(
        help="Labels are numbers or classes; auto: classes if they are no numbers, or two of them."
    ),
]
Stream = Annotated[
    bool | None,
    typer.Option(
        "--stream/--in-memory",
        help="Read Parquet in passes instead of at once; default: if it is large.",
    ),
]
Cluster = Annotated[
    str | None,
    _given(
        "--cluster",
        help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers read the "
        "points: Parquet that they see under the same path.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        help="Read Parquet with so many processes on this machine.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(help="A model saved by `bagwise fit`.", show_default=False)]
ModelBag = Annotated[
    list[str] | None,
    _given(
        "--bag", help="Column with the bag, for a model saved from Python, which does not know it."
    ),
]
ModelLabel = Annotated[
    str | None,
    typer.Option("--label", help="Column with the label, for a model saved from Python."),
]
Level = Annotated[
    float, typer.Option(min=0.01, max=0.999, help="Probability that an interval holds.")
]
TableFormat = Annotated[
    Format | None,
    _given(
        "--format", help="How the table is written; default: as --out ends, and csv for --out -."
    ),
]
SafeCsv = Annotated[
    bool,
    typer.Option(
        "--safe-csv",
        help="Put an apostrophe before text in CSV and TSV that a spreadsheet would take for a "
        "formula: ids, classes and column names that begin with = + - @, a tab or a line break. "
        "Numbers stay as they are.",
    ),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force",
        help="Replace a file that is there. Without it only a saved model takes the place of a "
        "saved model, and a page of bagwise that of such a page; a file that the command reads is "
        "never written over.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for a program to read.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of everything random.")]
