"""Files: Parquet and CSV on disk as pyarrow tables, and from there as the arrays of bags."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bagwise.bags.tables.cells import Cells
from bagwise.bags.tables.csv_files import CSV, files_in, forbidden, read_csv, read_header
from bagwise.bags.tables.frames import (
    PLAIN,
    check_different,
    is_number,
    listing,
    may_hold_numbers,
    name_list,
    open_frame,
    why_no_numbers,
)
from bagwise.bags.tables.reading import Reading, read_table
from bagwise.bags.tables.roles import Roles
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import BagwiseError, InvalidBagsError

PARQUET = (".parquet", ".pq")


def open_table(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    kind: str | None = None,
    ids: Sequence[str] = (),
    cells: Cells = PLAIN,
) -> Any:
    """Read a Parquet or CSV file, or a folder of them, as a pyarrow Table.

    Parameters
    ----------
    path : str or path
        Ends in ``.parquet``, ``.pq``, ``.csv``, ``.tsv``, ``.csv.gz`` or ``.tsv.gz``, or is a
        folder of such files.
    columns : sequence of str, optional
        Only these are read; all by default.
    kind : {"parquet", "csv"}, optional
        By default as the path ends.
    ids : sequence of str
        Columns in which ``007`` is not ``7``, in a CSV file.
    cells : Cells
        How the cells of a CSV file are written.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> open_table(path, ["race", "poll_margin"]).num_rows
    8824
    """
    source = Source.of(path, kind, cells)
    chosen = source.names if columns is None else name_list(columns)
    absent = [name for name in chosen if name not in set(source.names)]
    if absent:
        raise no_column(source.path, absent, source.names)
    return source.read(chosen, name_list(ids))


def table_columns(path: Any, *, kind: str | None = None, cells: Cells = PLAIN) -> list[str]:
    """Return the names of the columns of a file, without reading its rows."""
    return Source.of(path, kind, cells).names


@dataclass(frozen=True, eq=False)
class Source:
    """A file or folder whose columns are known.

    Attributes
    ----------
    path : Path;  names : of its columns
    dataset : of pyarrow, if it is Parquet;  cells : how it is written, if it is CSV
    """

    path: Path
    names: list[str]
    dataset: Any
    cells: Cells

    @classmethod
    def of(cls, path: Any, kind: str | None = None, cells: Cells = PLAIN) -> Source:
        """Find out the columns of a file, without reading its rows."""
        path = existing(path)
        if (kind or kind_of(path)) == "parquet":
            dataset = parquet_dataset(path)
            return cls(path, list(dataset.schema.names), dataset, cells)
        names: list[str] = _allowed(path, lambda path: read_header(path, cells))
        check_different(names, str(path))
        return cls(path, names, None, cells)

    def read(self, columns: Sequence[str], ids: Sequence[str]) -> Any:
        """Read some columns as a pyarrow Table."""
        if self.dataset is not None:
            return _parquet(self.path, self.dataset, columns)
        return _allowed(self.path, lambda path: read_csv(path, columns, ids, self.cells))


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
    source = Source.of(path, kind, plan.cells)
    ids = name_list(plan.bag)
    if is_path(labels):
        labels = open_table(labels, ids=ids, cells=plan.cells)
    bag_table = None if labels is None else open_frame(labels, "labels table")
    there = () if bag_table is None else bag_table.columns
    check_asked(source.path, plan, source.names, there)
    asked = set(_asked(plan))
    if isinstance(plan, Schema) or plan.features is not None:
        chosen = [name for name in source.names if name in asked]
        return read_table(source.read(chosen, ids), plan, labels=bag_table)
    skipped = {} if source.dataset is None else _no_numbers(source.dataset.schema, asked)
    chosen = [name for name in source.names if name not in skipped]
    reading = read_table(source.read(chosen, ids), plan, labels=bag_table)
    return _with_left_out(reading, skipped, source.names)


def _no_numbers(schema: Any, asked: set[str]) -> dict[str, str]:
    """Return the columns of Parquet whose types cannot hold numbers, and what they hold."""
    empty = open_frame(schema.empty_table())
    found = {}
    for name in empty.columns:
        dtype = empty.dtype(name)
        if name not in asked and not is_number(dtype) and not may_hold_numbers(dtype):
            found[name] = why_no_numbers(empty, name, None) or ""
    return found


def _with_left_out(reading: Reading, skipped: dict[str, str], names: Sequence[str]) -> Reading:
    """Add columns that were not even read to those left out, in the order of the file."""
    found = skipped | reading.schema.left_out
    left_out = {name: found.pop(name) for name in names if name in found} | found
    return replace(
        reading,
        schema=replace(reading.schema, left_out=left_out),
        report=replace(reading.report, left_out=left_out),
    )


def check_asked(
    path: Path, plan: Roles | Schema, names: Sequence[str], elsewhere: Iterable[str]
) -> None:
    """Raise unless a file with these columns, or the labels table, has all that are asked for."""
    own, there = set(names), {*names, *elsewhere}
    absent = [name for name in _asked(plan) if name not in there]
    ids = [name for name in name_list(plan.bag) if name not in own and name in there]
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
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise _no_file(path) from None
    except PermissionError as error:
        raise forbidden(path) from error
    except (OSError, ValueError) as error:  # a name too long, links in a circle, a zero in it
        raise BagwiseError.because(
            f"{str(path)!r:.200} cannot be opened ({error})", "a Parquet or CSV file", "Check it."
        ) from error
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise BagwiseError.because(
            f"{path} is {_special(mode)}",
            "a plain file, which can be read more than once",
            "Write what comes from it to a file first.",
        )
    return path


def _no_file(path: Path) -> BagwiseError:
    """Return the error for a file that is not there, with names like it."""
    try:
        there = os.listdir(path.parent) if path.parent.is_dir() else None
    except PermissionError:
        there = []
    if there is None:
        remedy = f"There is no folder {path.parent} either: check the path."
    else:
        near = difflib.get_close_matches(path.name, there)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
    return BagwiseError.because(f"there is no file {path}", "a Parquet or CSV file", remedy)


def _special(mode: int) -> str:
    return "a pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"


def kind_of(path: Path) -> str:
    """Return ``"parquet"`` or ``"csv"``, as the name of a file says.

    Examples
    --------
    >>> kind_of(Path("points.tsv.gz"))
    'csv'
    """
    name = path.name.lower()
    if path.is_dir():
        return _kind_in(path)
    if name.endswith(PARQUET):
        return "parquet"
    if name.endswith(CSV):
        return "csv"
    raise BagwiseError.because(
        f"{path} has the ending {path.suffix!r}" if path.suffix else f"{path} has no ending",
        f"one of {', '.join((*PARQUET, *CSV))}, or a folder of such files",
        "Convert it, or rename it if it is one of these.",
    )


def is_csv(path: Path) -> bool:
    """Whether a path is a CSV file, or a folder with nothing but such."""
    files = files_in(path, (*PARQUET, *CSV))
    return all(file.name.lower().endswith(CSV) for file in files)


def _kind_in(folder: Path) -> str:
    """Return what the files of a folder are: of one kind."""
    files = files_in(folder, (*PARQUET, *CSV))
    kinds = {kind_of(file): file for file in files}
    if len(kinds) > 1:
        raise BagwiseError.because(
            f"the folder {folder} has both {kinds['parquet'].name} and {kinds['csv'].name}",
            "files of one kind",
            "Name one file, or move those of one kind to a folder of their own.",
        )
    return next(iter(kinds))


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
    files = files_in(path, PARQUET)
    schemas = [_parquet_schema(file) for file in files]
    for file, schema in zip(files, schemas, strict=True):
        check_different(schema.names, str(file))
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
        if path.is_dir():  # whose folders may be columns
            own = set(together.names)
            folders = [f for f in ds.dataset(sources, **options).schema if f.name not in own]
            together = pa.schema([*together, *folders])
        return ds.dataset(sources, schema=together, **options)
    except (pa.ArrowException, TypeError) as error:
        raise damaged(path, error) from error


def _parquet_schema(file: Path) -> Any:
    """Return the columns of one Parquet file and their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(file)
    except PermissionError as error:
        raise forbidden(file) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(file, error) from error


def _parquet(path: Path, dataset: Any, columns: Sequence[str]) -> Any:
    """Read columns of Parquet files."""
    import pyarrow as pa

    try:
        table = dataset.to_table(columns=list(columns))
    except PermissionError as error:
        raise forbidden(path) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error
    if table.num_rows == 0:
        raise BagwiseError.because(
            f"{path} has columns but no rows", "at least one row", "Check how it was written."
        )
    return table


def _allowed(path: Path, read: Callable[[Path], Any]) -> Any:
    """Read a CSV file, or say that it may not be read."""
    try:
        return read(path)
    except PermissionError as error:
        raise forbidden(path) from error


def no_column(path: Path, absent: Sequence[str], names: Sequence[str]) -> BagwiseError:
    """Return the error for columns that a file does not have."""
    near = difflib.get_close_matches(absent[0], names, n=1)
    return InvalidBagsError.because(
        f"{path} has no column {listing(absent)}",
        f"one of its columns: {listing(names)}",
        f"Did you mean {near[0]!r}?" if near else "Check the spelling.",
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
