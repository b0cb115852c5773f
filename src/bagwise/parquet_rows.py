"""ParquetRows: the rows of a Parquet data set, read as often as needed, a batch at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from bagwise.rows import Rows
from bagwise.schema import Schema

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
    dataset : pyarrow.dataset.Dataset of Parquet files
    schema : Schema, learnt

    Examples
    --------
    >>> import bagwise.datasets, pyarrow.dataset as ds
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    """

    dataset: Any
    schema: Schema

    @property
    def n_rows(self) -> int:
        """Number of rows, of all files."""
        return int(self.dataset.count_rows())

    def rows(self, *, points_only: bool = False) -> Iterator[Rows]:
        """Read all rows; without covariates and labels if only points are asked for."""
        schema = self.schema
        if points_only and schema.missing == "error":  # else they decide which rows are left out
            schema = replace(schema, covariates=(), label=None)
        width = len(schema.feature_names) + len(schema.covariate_names)
        n_rows = max(1, min(BATCH_ROWS, BATCH_NUMBERS // width))
        start = 0
        for table in tables(self.dataset, schema.columns, n_rows):
            yield schema.arrays(table, first_row=start)
            start += table.num_rows


def tables(dataset: Any, columns: tuple[str, ...], n_rows: int) -> Iterator[Any]:
    """Read some columns of all files as pyarrow tables of at most n_rows, in bounded memory.

    pyarrow's own scanner keeps several row groups in memory, which may be the whole file.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.parquet as pq

    wanted = pa.schema([dataset.schema.field(name) for name in columns])
    for fragment in dataset.get_fragments():
        folders = ds.get_partition_keys(fragment.partition_expression)
        with pq.ParquetFile(
            fragment.path,
            filesystem=fragment.filesystem,
            pre_buffer=False,
            buffer_size=BUFFER_BYTES,
        ) as file:
            own = [name for name in columns if name in file.schema_arrow.names]
            for batch in file.iter_batches(n_rows, columns=own):
                yield _completed(batch, wanted, folders)


def _completed(batch: Any, wanted: Any, folders: dict[str, Any]) -> Any:
    """Return a batch with the columns of the data set, in its types.

    Values that stand in the name of a folder are repeated; columns that a file lacks are missing.
    """
    import pyarrow as pa

    columns = [
        batch.column(field.name)
        if field.name in batch.schema.names
        else pa.repeat(pa.scalar(folders.get(field.name), field.type), batch.num_rows)
        for field in wanted
    ]
    found = pa.table(columns, names=wanted.names)
    return found if found.schema.types == wanted.types else found.cast(wanted)
