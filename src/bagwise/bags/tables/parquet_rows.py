"""ParquetRows: the rows of a Parquet data set, read as often as needed, a batch at a time."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Int64

from bagwise.bags.grouping import missing
from bagwise.bags.tables.csv_files import forbidden
from bagwise.bags.tables.files import damaged
from bagwise.bags.tables.frames import group_columns, id_columns, open_frame
from bagwise.bags.tables.joining import keys
from bagwise.bags.tables.rows import Rows
from bagwise.bags.tables.schema import Schema

# Rows, or numbers if rows are long, that are read at once. Many, so that bags whose rows are
# scattered over the file have several in a batch; few enough that a batch takes 32 MB.
BATCH_ROWS = 1 << 17
BATCH_NUMBERS = 1 << 22

# Bytes of a column that are read at once; without this, whole row groups are.
BUFFER_BYTES = 1 << 20


@dataclass(frozen=True, eq=False)
class ParquetRows:
    """The rows of one or several Parquet files, in their order.

    Attributes
    ----------
    dataset : pyarrow.dataset.Dataset, see :func:`bagwise.bags.tables.files.parquet_dataset`
    schema : Schema
    bags : keys (see :mod:`.joining`) of the bags whose rows are read; None for all

    Examples
    --------
    >>> import bagwise.datasets
    >>> from bagwise.bags.tables.files import parquet_dataset
    >>> dataset = parquet_dataset(bagwise.datasets.__path__[0] + "/polls.parquet")
    >>> source = ParquetRows(dataset, Schema(("race",), ("poll_margin",)))
    >>> [(rows.points.shape, n_read) for rows, n_read in source.rows()]
    [((8824, 1), 8824)]
    """

    dataset: Any
    schema: Schema
    bags: Collection[Hashable] | None = None

    @cached_property
    def n_rows(self) -> int:
        """Number of rows of all files."""
        return int(self.dataset.count_rows())

    def rows(self, *, points_only: bool = False) -> Iterator[tuple[Rows, int]]:
        """Read all rows; without covariates and labels if only points are asked for.

        In batches: the rows to be used, and the number of rows that were read for them.
        """
        schema = self.schema
        if points_only and schema.missing == "error":  # else they decide which rows are left out
            schema = schema.part(covariates=(), label=None)
        start = 0
        for table in self.tables(schema.columns):
            if self.bags is None:
                yield schema.arrays(table, first_row=start), table.num_rows
            else:
                rows = self.chosen(table)
                yield schema.arrays(table.take(rows), first_row=start + rows), table.num_rows
            start += table.num_rows

    def tables(self, columns: tuple[str, ...]) -> Iterator[Any]:
        """Read columns as pyarrow tables, in bounded memory and in the order of the rows."""
        return filled(self._pieces(columns), self._batch_rows(columns))

    def _batch_rows(self, columns: tuple[str, ...]) -> int:
        width = max(1, len(columns), len(self.schema.feature_names))
        return max(1, min(BATCH_ROWS, BATCH_NUMBERS // width))

    def _pieces(self, columns: tuple[str, ...]) -> Iterator[Any]:
        """Read columns as pyarrow tables, that end where files do and perhaps elsewhere.

        pyarrow's own scanner of data sets keeps whole row groups in memory, which may be the whole
        file.
        """
        import pyarrow as pa
        import pyarrow.dataset as ds
        import pyarrow.parquet as pq

        schema = self.dataset.schema
        wanted = pa.schema([schema.field(name) for name in columns])
        n_rows = self._batch_rows(columns)
        options = {"pre_buffer": False, "buffer_size": BUFFER_BYTES}
        for fragment in self.dataset.get_fragments():
            folders = ds.get_partition_keys(fragment.partition_expression)
            own = [name for name in columns if name not in folders]
            own = own or fragment.physical_schema.names[:1]  # to count rows, if all is in folders
            try:
                with pq.ParquetFile(fragment.open(), **options) as file:
                    for batch in file.iter_batches(n_rows, columns=own):
                        yield _completed(batch, wanted, folders)
            except PermissionError as error:
                raise forbidden(Path(fragment.path)) from error
            except (pa.ArrowException, OSError) as error:
                raise damaged(Path(fragment.path), error) from error

    def chosen(self, table: Any) -> Int64[np.ndarray, " k"]:
        """Return the rows of a pyarrow table that belong to the bags to be read."""
        assert self.bags is not None
        frame = open_frame(table)
        ids = id_columns(frame, self.schema.bag)
        mask = np.any([missing(column) for column in ids], axis=0)  # reported, or left out, later
        known = np.flatnonzero(~mask)
        if len(known):
            grouping = group_columns(tuple(column[known] for column in ids))
            found = [key in self.bags for key in keys(grouping.ids)]
            mask[grouping.sort(known)] = np.repeat(found, np.diff(grouping.offsets))
        return np.flatnonzero(mask)


def filled(tables: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """Put small pyarrow tables together, to no more than n_rows: many small files are slow to use.

    Examples
    --------
    >>> import pyarrow as pa
    >>> [len(table) for table in filled([pa.table({"x": [0] * n}) for n in (2, 1, 3, 1)], 3)]
    [3, 3, 1]
    """
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
