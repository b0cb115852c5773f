"""Learning what a schema lacks, categories and medians, from rows that come in batches."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int64

from bagwise._utils.progress import Progress
from bagwise.bags.tables.categories import distinct_values, learn_categories
from bagwise.bags.tables.frames import Table, group_columns, id_columns, open_frame
from bagwise.bags.tables.joining import keys
from bagwise.bags.tables.parquet_rows import ParquetRows
from bagwise.bags.tables.reading import nothing_left
from bagwise.bags.tables.sample import Sample
from bagwise.bags.tables.schema import Schema, medians
from bagwise.bags.validation import check_names

# Rows whose median stands for that of all rows, if there are more: its standard error is 0.3 % of
# the standard deviation of Gaussian values. Fewer if they are long.
SAMPLE_ROWS = 200_000
SAMPLE_NUMBERS = 1 << 24

SEED = 0


class FirstRows:
    """The first row of each bag, and how many rows it has, as batches come.

    Of the columns, the bag id is kept, and others that are named.

    Examples
    --------
    >>> import pyarrow as pa
    >>> first = FirstRows(("bag",))
    >>> for bags in (["b", "a", "b"], ["a", "c"]):
    ...     first.add(pa.table({"bag": bags}), np.arange(len(bags)))
    >>> first.table().to_pydict(), list(first.counts.values())
    ({'bag': ['b', 'a', 'c']}, [2, 2, 1])
    """

    def __init__(self, bag: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
        self._bag, self._names = bag, [*bag, *others]
        self.counts: dict[Hashable, int] = {}
        self._tables: list[Any] = []

    def add(self, table: Any, rows: Int64[np.ndarray, " k"]) -> None:
        """Add the chosen rows of a pyarrow table; all of them have an id."""
        table = table.select(self._names)
        if not len(rows):
            self._tables.append(table.slice(0, 0))
            return
        frame = open_frame(table)
        grouping = group_columns(tuple(column[rows] for column in id_columns(frame, self._bag)))
        found, sizes = keys(grouping.ids), np.diff(grouping.offsets).tolist()
        new = [key not in self.counts for key in found]
        self._tables.append(table.take(grouping.sort(rows)[grouping.offsets[:-1]][new]))
        for key, size in zip(found, sizes, strict=True):
            self.counts[key] = self.counts.get(key, 0) + size

    def table(self) -> Any:
        """Return the first rows, in order of the bags."""
        import pyarrow as pa

        return pa.concat_tables(self._tables)


def learn(source: ParquetRows, *, progress: bool = True) -> Schema:
    """Return the source's schema with the categories and medians of its rows, in one pass.

    Categories are those of all rows, medians of covariates those of all bags. Medians of features
    and weights are exact up to 200,000 rows, else those of so many rows drawn at random.
    """
    schema = source.schema
    lessons, n_kept, gaps_met = _Lessons(schema), 0, dict[str, int]()
    with Progress("learning from rows", source.n_rows, progress) as bar:
        for whole in source.tables(schema.columns):
            table = whole if source.bags is None else whole.take(source.chosen(whole))
            frame = open_frame(table)
            gaps = schema.gaps(frame)
            left_out = schema.dropped(gaps, len(frame))
            for name, mask in gaps.items():
                gaps_met[name] = gaps_met.get(name, 0) + int(mask.sum())
                if name in schema.bag:  # no bag to learn from: the next pass reports it
                    left_out |= mask
            rows = np.flatnonzero(~left_out)
            lessons.add(frame, rows)
            n_kept += len(rows)
            bar.advance(whole.num_rows)
    if not n_kept:
        raise nothing_left(gaps_met, source.n_rows)
    return lessons.schema()


class _Lessons:
    """What rows teach a schema, as batches come."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        columns = [name for name in (*schema.features, schema.weights) if name is not None]
        impute = schema.missing == "impute"
        self._numeric = [name for name in columns if impute and name not in schema.one_hot]
        size = min(SAMPLE_ROWS, SAMPLE_NUMBERS // max(1, len(self._numeric)))
        self._sample = Sample(size, np.random.default_rng(SEED))
        self._categories: dict[str, dict[Any, None]] = {
            name: {} for name in schema.features if schema.one_hot.get(name) == ()
        }
        self._per_bag = schema.part(features=(), weights=None)
        self._first = FirstRows(schema.bag, self._per_bag.columns[len(schema.bag) :])

    def add(self, table: Table, rows: Int64[np.ndarray, " k"]) -> None:
        """Learn from some rows of a pyarrow table."""
        if self._numeric:
            columns = [self._schema.numbers(table, name)[rows] for name in self._numeric]
            self._sample.add(np.column_stack(columns).astype(np.float64))
        for name, found in self._categories.items():
            distinct, _ = distinct_values(self._schema.values(table, name)[rows])
            found |= dict.fromkeys(distinct)
        if self._schema.covariates:
            self._first.add(table.frame.to_native(), rows)

    def schema(self) -> Schema:
        """Return the schema with all that was learnt."""
        schema = self._schema
        one_hot = {
            name: learn_categories(np.array([*found, None], dtype=object), name)
            for name, found in self._categories.items()
        }
        fill = {}
        if self._numeric:
            columns = dict(zip(self._numeric, self._sample.rows().T, strict=True))
            fill = medians(self._numeric, columns.__getitem__)
        learnt = replace(schema, one_hot=schema.one_hot | one_hot, fill=schema.fill | fill)
        if schema.covariates:
            bags = self._per_bag.learnt(self._first.table())
            learnt = replace(
                learnt, one_hot=learnt.one_hot | bags.one_hot, fill=learnt.fill | bags.fill
            )
        check_names(learnt.feature_names, len(learnt.feature_names), "feature")
        return learnt
