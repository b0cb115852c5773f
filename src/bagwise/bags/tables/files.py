"""Files: Parquet and CSV on disk as pyarrow tables, and from there as the arrays of bags."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bagwise.bags.tables.csv_files import read_csv, read_header
from bagwise.bags.tables.frames import listing, name_list, open_frame
from bagwise.bags.tables.reading import Reading, read_table, unused_columns
from bagwise.bags.tables.roles import Roles
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import BagwiseError, InvalidBagsError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")


def open_table(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    kind: str | None = None,
    ids: Sequence[str] = (),
) -> Any:
    """Read a Parquet or CSV file, or a folder of Parquet files, as a pyarrow Table.

    Parameters
    ----------
    path : str or path
        Ends in ``.parquet``, ``.pq``, ``.csv``, ``.tsv``, ``.csv.gz`` or ``.tsv.gz``, or is a
        folder of Parquet files.
    columns : sequence of str, optional
        Only these are read; all by default.
    kind : {"parquet", "csv"}, optional
        By default as the path ends.
    ids : sequence of str
        Columns in which ``007`` is not ``7``, in a CSV file.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> open_table(path, ["race", "poll_margin"]).num_rows
    8824
    """
    path = existing(path)
    kind = kind or kind_of(path)
    names = table_columns(path, kind=kind)
    chosen = names if columns is None else name_list(columns)
    absent = [name for name in chosen if name not in names]
    if absent:
        raise no_column(path, absent, names)
    return _parquet(path, chosen) if kind == "parquet" else _csv(path, chosen, name_list(ids))


def table_columns(path: Any, *, kind: str | None = None) -> list[str]:
    """Return the names of the columns of a file, without reading its rows."""
    path = existing(path)
    if (kind or kind_of(path)) == "parquet":
        return list(parquet_dataset(path).schema.names)
    names: list[str] = _allowed(path, read_header)
    return names


def read_file(
    path: Any, plan: Roles | Schema, *, labels: Any = None, kind: str | None = None
) -> Reading:
    """Read a file with a row per point and, if given, a file or data frame with a row per bag.

    The columns that are not needed are not read, as far as that is known before.

    Parameters
    ----------
    path : str or path
    plan : Roles or Schema
        As in :func:`bagwise.bags.tables.reading.read_table`.
    labels : path or data frame, optional
    kind : {"parquet", "csv"}, optional
    """
    path = existing(path)
    kind = kind or kind_of(path)
    ids = name_list(plan.bag)
    if is_path(labels):
        labels = open_table(labels, ids=ids)
    names = table_columns(path, kind=kind)
    elsewhere = [] if labels is None else open_frame(labels, "labels table").columns
    check_asked(path, plan, names, elsewhere)
    if isinstance(plan, Schema) or plan.features is not None:
        return read_table(
            open_table(path, [n for n in names if n in _asked(plan)], kind=kind, ids=ids),
            plan,
            labels=labels,
        )
    if kind == "csv":
        return read_table(open_table(path, kind=kind, ids=ids), plan, labels=labels)
    empty = open_frame(parquet_dataset(path).schema.empty_table().select(names))
    schema = plan.schema(empty, None if labels is None else open_frame(labels))
    table = open_table(path, [n for n in names if n in schema.columns], kind=kind)
    reading = read_table(table, plan, labels=labels)
    return replace(reading, report=replace(reading.report, unused=unused_columns(empty, schema)))


def check_asked(
    path: Path, plan: Roles | Schema, names: Sequence[str], elsewhere: Sequence[str]
) -> None:
    """Raise unless a file with these columns, or the labels table, has all that are asked for."""
    absent = [name for name in _asked(plan) if name not in (*names, *elsewhere)]
    ids = [name for name in name_list(plan.bag) if name not in (*names, *absent)]
    if absent or ids:
        raise no_column(path, [*absent, *ids], names)


def is_path(value: Any) -> bool:
    """Whether a value names a file, rather than being a table itself."""
    return isinstance(value, str | os.PathLike)


def existing(path: Any) -> Path:
    """Return a path that exists, or suggest names like it.

    Examples
    --------
    >>> existing("/no/such/points.csv")
    Traceback (most recent call last):
    ...
    bagwise.exceptions.BagwiseError: there is no file /no/such/points.csv; expected a Parquet or CSV
    file. There is no folder /no/such either: check the path.
    """
    path = Path(path).expanduser()
    if path.exists():
        return path
    if not path.parent.is_dir():
        remedy = f"There is no folder {path.parent} either: check the path."
    else:
        near = difflib.get_close_matches(path.name, os.listdir(path.parent))
        remedy = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
    raise BagwiseError.because(f"there is no file {path}", "a Parquet or CSV file", remedy)


def kind_of(path: Path) -> str:
    """Return ``"parquet"`` or ``"csv"``, as the name of a file says.

    Examples
    --------
    >>> kind_of(Path("points.tsv.gz"))
    'csv'
    """
    name = path.name.lower()
    if path.is_dir() or name.endswith(PARQUET):
        return "parquet"
    if name.endswith(CSV):
        return "csv"
    raise BagwiseError.because(
        f"{path} has the ending {path.suffix!r}" if path.suffix else f"{path} has no ending",
        f"one of {', '.join((*PARQUET, *CSV))}, or a folder of Parquet files",
        "Convert it, or rename it if it is one of these.",
    )


def parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a path, a file or a folder, in order of their names.

    Hidden files and those that start with an underscore are left out, as is usual.
    """
    if not path.is_dir():
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.name.lower().endswith(PARQUET)
        and not any(part[0] in "._" for part in file.relative_to(path).parts)
    )
    if not files:
        raise BagwiseError.because(
            f"the folder {path} has no Parquet files",
            f"files that end in {' or '.join(PARQUET)}",
            "Name the file itself, or the folder in which they are.",
        )
    return files


def parquet_dataset(path: Any) -> Any:
    """Return a Parquet file, or a folder of them with one set of columns, as a pyarrow Dataset.

    Folders such as ``year=2020`` give a column.

    Examples
    --------
    >>> import bagwise.datasets
    >>> parquet_dataset(bagwise.datasets.__path__[0] + "/polls.parquet").count_rows()
    8824
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    path = existing(path)
    files = parquet_files(path)
    schemas = [_parquet_schema(file) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        odd = sorted(set(schema.names) ^ set(schemas[0].names))
        if odd:
            raise BagwiseError.because(
                f"{file} and {files[0]} do not both have the column {odd[0]!r}",
                "the same columns in all files of a folder",
                "Write them with the same columns.",
            )
    options: dict[str, Any] = {"format": "parquet"}
    if path.is_dir():
        options["partitioning"] = ds.partitioning(flavor="hive")
        options["partition_base_dir"] = str(path.resolve())
    sources = [str(file.resolve()) for file in files]
    try:
        together = pa.unify_schemas(schemas, promote_options="permissive")
        folders = [f for f in ds.dataset(sources, **options).schema if f.name not in together.names]
        return ds.dataset(sources, schema=pa.schema([*together, *folders]), **options)
    except (pa.ArrowException, TypeError) as error:
        raise damaged(path, error) from error


def _parquet_schema(file: Path) -> Any:
    """Return the columns of one Parquet file and their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file)
    except PermissionError as error:
        raise _forbidden(file) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, error) from error


def _parquet(path: Path, columns: Sequence[str]) -> Any:
    """Read columns of Parquet files."""
    import pyarrow as pa

    dataset = parquet_dataset(path)
    try:
        table = dataset.to_table(columns=list(columns))
    except PermissionError as error:
        raise _forbidden(path) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error
    if table.num_rows == 0:
        raise BagwiseError.because(
            f"{path} has columns but no rows", "at least one row", "Check how it was written."
        )
    return table


def _csv(path: Path, columns: Sequence[str], ids: Sequence[str]) -> Any:
    return _allowed(path, lambda file: read_csv(file, columns, ids))


def _allowed(path: Path, read: Callable[[Path], Any]) -> Any:
    """Read a CSV file, or say that it may not be read."""
    if path.is_dir():
        raise BagwiseError.because(
            f"{path} is a folder", "a CSV file", "Name one of the files in it."
        )
    try:
        return read(path)
    except PermissionError as error:
        raise _forbidden(path) from error


def no_column(path: Path, absent: Sequence[str], names: Sequence[str]) -> BagwiseError:
    """Return the error for columns that a file does not have."""
    near = difflib.get_close_matches(absent[0], names, n=1)
    return InvalidBagsError.because(
        f"{path} has no column {listing(absent)}",
        f"one of its columns: {listing(names)}",
        f"Did you mean {near[0]!r}?" if near else "Check the spelling.",
    )


def _forbidden(path: Path) -> BagwiseError:
    return BagwiseError.because(
        f"{path} may not be read by this user",
        "a file you have permission to read",
        "Change its permissions, for example with chmod u+r.",
    )


def damaged(path: Path, error: Exception) -> BagwiseError:
    """Return the error for a Parquet file that cannot be read."""
    if path.is_file() and path.stat().st_size == 0:
        return BagwiseError.because(
            f"{path} is empty", "a Parquet file", "Check how it was written."
        )
    return BagwiseError.because(
        f"{path} cannot be read as Parquet ({' '.join(str(error).split())[:200]})",
        "a whole Parquet file",
        "Copy or write it again; it may be cut off, damaged, or of another kind.",
    )


def _asked(plan: Roles | Schema) -> list[str]:
    """Return the columns that are asked for by name."""
    if isinstance(plan, Schema):
        return list(plan.columns)
    one_hot = [str(name) for name in name_list(plan.one_hot)]
    singles = [name for name in (plan.weights, plan.label) if name is not None]
    features = [] if plan.features is None else name_list(plan.features)
    return [*name_list(plan.bag), *name_list(plan.covariates), *singles, *features, *one_hot]
