"""Files, and frames, as sources of tables: Parquet and CSV, in memory or a batch at a time."""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from bagwise.bags.tables.frames import (
    PLAIN,
    Cells,
    Table,
    check_different,
    is_number,
    listing,
    may_hold_numbers,
    name_list,
    open_frame,
)
from bagwise.bags.tables.schema import Roles, Schema
from bagwise.exceptions import BagwiseError, InvalidBagsError

PARQUET = (".parquet", ".pq")
CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TABLES = (*PARQUET, *CSV)

# Rows, or numbers if rows are long, that are read at once. Many, so that bags whose rows are
# scattered over the file have several in a batch; few enough that a batch takes 32 MB.
BATCH_ROWS = 1 << 18
BATCH_NUMBERS = 1 << 22

# Rows of a piece that a worker of a cluster works on, at most: some seconds, so that what travels
# back, a row of sums for each of its bags, is little beside the rows. Of fewer rows there are so
# many pieces, whatever the cluster, so that sums do not depend on it.
PIECE_ROWS, PIECES = 1 << 20, 16

# Parts at most into which a row group is cut that is more than twice as long as a piece: of each
# the rows before it are read too, which takes a tenth of the time that it takes to sum them.
CUTS = 4

# Bytes of a column that are read at once; without this, whole row groups are.
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class Source:
    """A table that can be gone through as often as needed, in batches: in memory, in one.

    Attributes
    ----------
    header : all columns, with their types; of a file perhaps without rows
    whole : what is needed of the table, if it is in memory
    dataset : of pyarrow, of Parquet on disk, see :func:`parquet_dataset`
    fragments, columns : of a piece of it, files and the row groups of each, and the types
    span : of a piece, first row and end among the rows of these row groups, if not all are of it
    partition, pieces : of a data frame that lies with the workers of a cluster
    first_row : of a piece, its number in the whole table

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> source = Source.on_disk(path, Roles("race"), batch_rows=5000)
    >>> [len(table) for table in source.batches(("race", "poll_margin"))]
    [5000, 3824]
    """

    header: Table
    n_rows: int
    whole: Table | None = None
    dataset: Any = None
    batch_rows: int = BATCH_ROWS
    fragments: tuple[tuple[Any, tuple[int, ...] | None], ...] = ()
    columns: Any = None
    span: tuple[int, int] | None = None
    partition: Any = None
    pieces: tuple[Any, ...] = ()  # Sources too
    first_row: int = 0

    @property
    def in_memory(self) -> bool:
        """Whether there is one batch, of all rows."""
        return self.whole is not None

    def with_partition(self, partition: Any) -> Source:
        """Return the same piece with the rows of its partition, or without."""
        return replace(self, partition=partition)

    def split(self, piece_rows: int | None = None) -> tuple[Source, ...]:
        """Cut Parquet on disk into pieces of whole row groups, of about so many rows at most.

        A row group that is far longer is cut itself, as two workers would else be one.
        """
        if self.pieces:
            return self.pieces
        if piece_rows is None:
            piece_rows = max(1, min(PIECE_ROWS, -(-self.n_rows // PIECES)))
        pieces, groups, first, n = list[Source](), dict[int, list[int]](), 0, 0
        fragments = [fragment for fragment, _ in self._fragments()]

        def close() -> None:
            chosen = tuple((fragments[k], tuple(found)) for k, found in groups.items())
            part = replace(self, n_rows=n, fragments=chosen, first_row=first, dataset=None)
            pieces.extend(replace(part, columns=self._columns)._cut(piece_rows))

        for k, fragment in enumerate(fragments):
            with _readable(Path(fragment.path)):
                row_groups = fragment.row_groups
            for group in row_groups:
                if n and n + group.num_rows > piece_rows:
                    close()
                    groups, first, n = {}, first + n, 0
                groups.setdefault(k, []).append(group.id)
                n += group.num_rows
        if groups:
            close()
        return tuple(pieces)

    def _cut(self, piece_rows: int) -> Iterator[Source]:
        """Cut a piece into parts of its rows, if it is more than twice as long as it should be."""
        n_parts = 1 if self.n_rows <= 2 * piece_rows else min(CUTS, -(-self.n_rows // piece_rows))
        ends = [self.n_rows * k // n_parts for k in range(n_parts + 1)]
        for start, stop in pairwise(ends):
            span = None if n_parts == 1 else (start, stop)
            first = self.first_row + start
            yield replace(self, n_rows=stop - start, span=span, first_row=first)

    @property
    def can_join(self) -> bool:
        """Whether pieces can be put together again: partitions lie where they are."""
        return all(piece.partition is None for piece in self.pieces)

    @staticmethod
    def joined(pieces: Sequence[Source]) -> Source:
        """Put pieces of Parquet on disk together that lie one after the other."""
        if len(pieces) == 1:
            return pieces[0]
        n_rows = sum(piece.n_rows for piece in pieces)
        each = dict.fromkeys(piece.fragments for piece in pieces)  # parts of a row group share it
        start = 0 if pieces[0].span is None else pieces[0].span[0]
        return replace(
            pieces[0],
            n_rows=n_rows,
            fragments=tuple(fragment for fragments in each for fragment in fragments),
            span=(start, start + n_rows),
        )

    @property
    def _columns(self) -> Any:
        return self.columns if self.dataset is None else self.dataset.schema

    def _fragments(self) -> tuple[tuple[Any, tuple[int, ...] | None], ...]:
        if self.dataset is None:
            return self.fragments
        return tuple((fragment, None) for fragment in self.dataset.get_fragments())

    @classmethod
    def of_file(
        cls, path: Any, plan: Roles | Schema, labels: Table | None = None, kind: str | None = None
    ) -> Source:
        """Read a file into memory, but for columns of which it is known that nobody needs them."""
        file = TableFile.of(path, kind, plan.cells)
        check_asked(file, plan, labels)
        asked, header = set(plan.columns), file.header
        if isinstance(plan, Roles) and plan.features is None:
            known = {} if header is None else {name: header.dtype(name) for name in file.names}
            no = {n for n, kind in known.items() if not (is_number(kind) or may_hold_numbers(kind))}
            asked |= set(file.names) - no
        chosen = [name for name in file.names if name in asked]
        whole = open_frame(file.read(chosen, name_list(plan.bag)))
        return cls(whole if header is None else header, len(whole), whole)

    @classmethod
    def of_frame(cls, frame: Any) -> Source:
        """Take a data frame as it is."""
        table = open_frame(frame)
        return cls(table, len(table), table)

    @classmethod
    def on_disk(
        cls,
        path: Any,
        plan: Roles | Schema,
        labels: Table | None = None,
        batch_rows: int = BATCH_ROWS,
    ) -> Source:
        """Leave the rows of Parquet files where they are."""
        path = existing(path)
        if is_csv(path):
            raise BagwiseError.because(
                f"{path} is {'a folder of CSV files' if path.is_dir() else 'a CSV file'}",
                "Parquet, of which parts can be read",
                "Convert it to Parquet, or read it into memory: Bags.from_csv, or at a shell "
                "without --stream, --workers and --cluster.",
            )
        file = TableFile.of(path, "parquet")
        check_asked(file, plan, labels)
        assert file.header is not None
        n_rows = int(file.dataset.count_rows())
        return cls(file.header, n_rows, dataset=file.dataset, batch_rows=batch_rows)

    @classmethod
    def of_partitions(cls, header: Any, n_rows: Sequence[int], partitions: Sequence[Any]) -> Source:
        """Leave the partitions of a data frame where they are, with the workers of a cluster."""
        table = open_frame(header)
        pieces = list[Source]()
        for n, partition in zip(n_rows, partitions, strict=True):
            first = sum(int(piece.n_rows) for piece in pieces)
            pieces.append(cls(table, int(n), partition=partition, first_row=first))
        return cls(table, sum(map(int, n_rows)), pieces=tuple(p for p in pieces if p.n_rows))

    def batches(self, columns: Sequence[str], width: int = 1) -> Iterator[Table]:
        """Read columns, in the order of the rows and in bounded memory; in memory, take all.

        Of each row so many numbers (``width``) are made, if there are more than columns.
        """
        if self.whole is not None:
            return iter((self.whole,))
        if self.partition is not None:
            return iter((open_frame(self.partition),))
        n_rows = max(1, min(self.batch_rows, BATCH_NUMBERS // max(len(columns), width, 1)))
        found = _pieces(self._fragments(), self._columns, columns, n_rows)
        if self.span is not None:
            found = within(found, *self.span)
        return map(open_frame, filled(found, n_rows))


def _pieces(
    fragments: Sequence[tuple[Any, tuple[int, ...] | None]],
    schema: Any,
    columns: Sequence[str],
    n_rows: int,
) -> Iterator[Any]:
    """Read columns as pyarrow tables, that end where files do and perhaps elsewhere.

    pyarrow's own scanner keeps whole row groups in memory, which may be the whole file.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    wanted = pa.schema([schema.field(name) for name in columns])
    options = {"pre_buffer": False, "buffer_size": BUFFER_BYTES}
    for fragment, groups in fragments:
        folders = ds.get_partition_keys(fragment.partition_expression)
        own = [name for name in columns if name not in folders]
        own = own or fragment.physical_schema.names[:1]  # to count rows, if all is in folders
        with _readable(Path(fragment.path)), pq.ParquetFile(fragment.open(), **options) as file:
            for batch in file.iter_batches(n_rows, row_groups=groups, columns=own):
                yield _completed(batch, wanted, folders)


def within(tables: Iterable[Any], start: int, stop: int) -> Iterator[Any]:
    """Return the rows from one on and before another of tables that come one after the other.

    Examples
    --------
    >>> import pyarrow as pa
    >>> tables = [pa.table({"x": [0, 1, 2]}), pa.table({"x": [3, 4]}), pa.table({"x": [5]})]
    >>> [table["x"].to_pylist() for table in within(tables, 1, 4)]
    [[1, 2], [3]]
    """
    before = 0
    for table in tables:
        first, end = max(start - before, 0), min(stop - before, len(table))
        if first < end:
            yield table.slice(first, end - first)
        before += len(table)
        if before >= stop:
            return


def filled(tables: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Put small pyarrow tables together, to n_rows at most: many small files are slow to use."""
    import pyarrow as pa

    waiting: list[Any] = []
    for table in tables:
        if waiting and sum(map(len, waiting)) + len(table) > n_rows:
            yield pa.concat_tables(waiting)
            waiting = []
        waiting.append(table)
    if waiting:
        yield pa.concat_tables(waiting)


def _completed(batch: Any, wanted: Any, folders: dict[str, Any]) -> Any:
    """Return a batch in the types of the data set, with the values that folders are named by."""
    import pyarrow as pa

    own = [name for name in wanted.names if name not in folders]
    found = pa.Table.from_batches([batch]).select(own)
    for field in map(wanted.field, folders.keys() & set(wanted.names)):
        value = pa.scalar(folders[field.name], field.type)
        found = found.append_column(field, pa.repeat(value, batch.num_rows))
    found = found.select(wanted.names)
    return found if found.schema.equals(wanted) else found.cast(wanted)


@dataclass(frozen=True, eq=False)
class TableFile:
    """A file or folder whose columns are known: a ``dataset`` of pyarrow if it is Parquet."""

    path: Path
    names: list[str]
    dataset: Any
    cells: Cells

    @classmethod
    def of(cls, path: Any, kind: str | None = None, cells: Cells = PLAIN) -> TableFile:
        """Find out the columns of a file, without reading its rows."""
        path = existing(path)
        if (kind or kind_of(path)) == "parquet":
            dataset = parquet_dataset(path)
            return cls(path, list(dataset.schema.names), dataset, cells)
        from bagwise.bags.tables.csv_files import read_header

        names = read_header(path, cells)
        check_different(names, str(path))
        return cls(path, names, None, cells)

    @property
    def header(self) -> Table | None:
        """The columns without rows, if their types are known: those of CSV are not."""
        return None if self.dataset is None else open_frame(self.dataset.schema.empty_table())

    def read(self, columns: Sequence[str], ids: Sequence[str] = ()) -> Any:
        """Read some columns as a pyarrow Table; in those of ids, ``007`` is not ``7``."""
        if self.dataset is None:
            from bagwise.bags.tables.csv_files import read_csv

            return read_csv(self.path, columns, ids, self.cells)
        with _readable(self.path):
            table = self.dataset.to_table(columns=list(columns))
        if table.num_rows == 0:
            raise BagwiseError.because(
                f"{self.path} has columns but no rows",
                "at least one row",
                "Check how it was written.",
            )
        return table


def open_table(
    path: Any,
    columns: Sequence[str] | None = None,
    *,
    ids: Sequence[str] = (),
    cells: Cells = PLAIN,
) -> Any:
    """Read a Parquet or CSV file, or a folder of them, as a pyarrow Table: all columns or some.

    In a CSV file, ``ids`` are columns in which 007 is not 7; ``cells`` is how cells are written.
    """
    file = TableFile.of(path, None, cells)
    chosen = file.names if columns is None else name_list(columns)
    absent = [name for name in chosen if name not in set(file.names)]
    if absent:
        raise no_column(file, absent)
    return file.read(chosen, name_list(ids))


def table_columns(path: Any, *, cells: Cells = PLAIN) -> list[str]:
    """Return the names of the columns of a file, without reading its rows."""
    return TableFile.of(path, None, cells).names


def labels_table(labels: Any, plan: Roles | Schema) -> Table | None:
    """Return a table with one row per bag, given as a file, a data frame or not at all."""
    if labels is None:
        return None
    if is_path(labels):
        labels = open_table(labels, ids=name_list(plan.bag), cells=plan.cells)
    return open_frame(labels, "labels table")


def check_asked(file: TableFile, plan: Roles | Schema, labels: Table | None) -> None:
    """Raise unless a file, or the labels table, has all columns that are asked for."""
    own = set(file.names)
    there = own | set(() if labels is None else labels.columns)
    absent = [name for name in plan.columns if name not in there]
    ids = [name for name in name_list(plan.bag) if name not in own and name in there]
    if absent or ids:
        raise no_column(file, [*absent, *ids])


def is_path(value: Any) -> bool:
    """Whether a value names a file, rather than being a table itself."""
    return isinstance(value, str | os.PathLike)


def existing(path: Any) -> Path:
    """Return a path that exists, or suggest names like it."""
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
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        raise BagwiseError.because(
            f"{path} is {kinds.get(stat.S_IFMT(mode), 'a device')}",
            "a plain file, which can be read more than once",
            "Write what comes from it to a file first.",
        )
    return path


def _no_file(path: Path) -> BagwiseError:
    """Return the error for a file that is not there, with names like it."""
    remedy = f"There is no folder {path.parent} either: check the path."
    if path.parent.is_dir():
        readable = os.access(path.parent, os.R_OK)
        near = difflib.get_close_matches(path.name, os.listdir(path.parent) if readable else [])
        remedy = f"Did you mean {' or '.join(near)}?" if near else "Check the path."
    return BagwiseError.because(f"there is no file {path}", "a Parquet or CSV file", remedy)


def kind_of(path: Path) -> str:
    """Return "parquet" or "csv", as the name of a file says, or of all files of a folder."""
    kinds: dict[str, Path] = {}
    for file in files_in(path, TABLES):
        name = file.name.lower()
        kinds["parquet" if name.endswith(PARQUET) else "csv" if name.endswith(CSV) else ""] = file
    if "" in kinds:
        raise BagwiseError.because(
            f"{path} has the ending {path.suffix!r}" if path.suffix else f"{path} has no ending",
            f"one of {', '.join((*PARQUET, *CSV))}, or a folder of such files",
            "Convert it, or rename it if it is one of these.",
        )
    if len(kinds) > 1:
        raise BagwiseError.because(
            f"the folder {path} has both {kinds['parquet'].name} and {kinds['csv'].name}",
            "files of one kind",
            "Name one file, or move those of one kind to a folder of their own.",
        )
    return next(iter(kinds))


def is_csv(path: Path) -> bool:
    """Whether a path is a CSV file, or a folder with nothing but such."""
    files = files_in(path, TABLES)
    return all(file.name.lower().endswith(CSV) for file in files)


def files_in(path: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files of a path, a file or a folder, in order of their names.

    Hidden files and those that start with an underscore are left out, as is usual.
    """
    if not path.is_dir():
        return [path]
    try:
        files = sorted(_walk(path, endings))
    except PermissionError as error:
        raise forbidden(Path(error.filename or path)) from error
    if not files:
        kinds = [k for k, end in (("Parquet", ".parquet"), ("CSV", ".csv")) if end in endings]
        raise BagwiseError.because(
            f"the folder {path} has no {' or '.join(kinds)} files",
            f"files that end in {', '.join(endings[:-1])} or {endings[-1]}",
            "Name the file itself, or the folder in which they are.",
        )
    return files


def _walk(path: Path, endings: tuple[str, ...]) -> Iterator[Path]:
    for entry in path.iterdir():
        if entry.name[0] in "._":
            continue
        if entry.is_dir():
            yield from _walk(entry, endings)
        elif entry.name.lower().endswith(endings) and entry.is_file():
            yield entry


def parquet_dataset(path: Any) -> Any:
    """Return a Parquet file, or a folder of them with one set of columns, as a pyarrow Dataset.

    Folders such as ``year=2020`` give a column.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    path = existing(path)
    files = files_in(path, PARQUET)
    schemas = []
    for file in files:
        with _readable(file):
            schemas.append(pq.read_schema(file))
    for file, schema in zip(files, schemas, strict=True):
        check_different(schema.names, str(file))
        check_same(file, files[0], set(schema.names), set(schemas[0].names))
    options: dict[str, Any] = {"format": "parquet"}
    if path.is_dir():
        options["partitioning"] = ds.partitioning(flavor="hive")
        options["partition_base_dir"] = str(path.resolve())
    sources = [str(file.resolve()) for file in files]
    with _readable(path):
        together = pa.unify_schemas(schemas, promote_options="permissive")
        if path.is_dir():  # whose folders may be columns
            own = set(together.names)
            folders = [f for f in ds.dataset(sources, **options).schema if f.name not in own]
            together = pa.schema([*together, *folders])
        return ds.dataset(sources, schema=together, **options)


def check_same(file: Path, first: Path, names: set[str], expected: set[str]) -> None:
    """Raise unless two files of a folder have the same columns."""
    odd = sorted(names ^ expected)
    if odd:
        raise BagwiseError.because(
            f"{file} and {first} do not both have the column {odd[0]!r}",
            "the same columns in all files of a folder",
            "Write them with the same columns.",
        )


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say of a Parquet file that cannot be read why that is."""
    import pyarrow as pa

    try:
        yield
    except PermissionError as error:
        raise forbidden(path) from error
    except (pa.ArrowException, OSError) as error:
        empty = path.is_file() and path.stat().st_size == 0
        why = " ".join(str(error).split())[:200]
        raise BagwiseError.because(
            f"{path} is empty" if empty else f"{path} cannot be read as Parquet ({why})",
            "a Parquet file" if empty else "a whole Parquet file",
            "Check how it was written."
            if empty
            else "Copy or write it again; it may be cut off, damaged, or of another kind.",
        ) from error


def forbidden(path: Path) -> BagwiseError:
    """Return the error for a file or folder that this user may not read."""
    return BagwiseError.because(
        f"{path} may not be read by this user",
        "a file you have permission to read",
        "Change its permissions, for example with chmod u+r.",
    )


def no_column(file: TableFile, absent: Sequence[str]) -> BagwiseError:
    """Return the error for columns that a file does not have."""
    near = difflib.get_close_matches(absent[0], file.names, n=1)
    return InvalidBagsError.because(
        f"{file.path} has no column {listing(absent)}",
        f"one of its columns: {listing(file.names)}",
        f"Did you mean {near[0]!r}?" if near else "Check the spelling.",
    )
