"""Reader: tables of points, with or without a table of labels, as all that makes bags.

One reader for all sources: rows come in batches, and a table in memory is a source of one batch.
What is known of the bags is found in passes over them: one that says which columns of text are
numbers, if there are any; one over the bag ids if there is a table of labels; one if categories or
medians are to be learnt; and one over all rows, which keeps the points only if they are in memory.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Int64, Shaped

from bagwise._utils.engines import Engine, as_engine
from bagwise._utils.work import Progress
from bagwise.bags.grouping import Grouping, composite_ids, first_appearance, group_columns
from bagwise.bags.per_bag import id_array, keys, missing, plain
from bagwise.bags.tables.census import BagCounts, Census, GroupedPoints, Lessons, Rows
from bagwise.bags.tables.files import BATCH_ROWS, Source, is_path, labels_table
from bagwise.bags.tables.frames import (
    Cells,
    Table,
    Tally,
    check_numbers,
    check_present,
    is_number,
    may_hold_numbers,
    name_list,
    open_frame,
    values,
)
from bagwise.bags.tables.read_report import ReadReport, by_column, count, find_outliers, tell
from bagwise.bags.tables.schema import Roles, Schema, nothing_left
from bagwise.bags.validation import check_names, show, sizes_to_offsets
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError

# Rows whose median stands for that of all rows of a stream, if there are more: its standard error
# is 0.3 % of the standard deviation of Gaussian values.
SAMPLE_ROWS = 200_000

# Bytes of points that a stream keeps in memory once they were read, sorted by bag: a file that has
# no more is read once, and not again for each pass.
KEPT_BYTES = 1 << 29

# Batches that are read and made into arrays ahead of whoever takes them, each by a thread.
AHEAD = 2

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Reading:
    """What one or two tables say about bags.

    Attributes
    ----------
    passes : Passes, to read the points again;  census : Census, of all rows
    parts : dict, the arguments of ``Bags``; without points if they stay on disk
    labels : (n_bags,) or None
    schema : Schema, to read later tables in the same way
    report : ReadReport, of which nobody was told yet
    pieces : PieceBags of each piece, if workers of a cluster have read them
    kept : the rows themselves, of a stream that is short enough
    """

    passes: Passes
    census: Census
    parts: dict[str, Any]
    labels: Shaped[np.ndarray, " n_bags"] | None
    schema: Schema
    report: ReadReport
    pieces: tuple[PieceBags, ...] = ()
    kept: KeptRows | None = None

    @cached_property
    def bags(self) -> Any:
        """The bags: ``Bags``, or a ``BagStream`` if the points stay on disk."""
        from bagwise.bags.bags import Bags, BagStream

        return Bags(**self.parts) if self.passes.source.in_memory else BagStream.of(self)


def read_bags(
    given: Any,
    schema: Schema | Roles | None = None,
    *,
    labels: Any = None,
    kind: str | None = None,
    **roles: Any,
) -> Reading:
    """Read bags from a file or data frame, by roles or by the schema of an earlier table.

    What is given has a row per point: Parquet or CSV (a file or a folder), or a data frame. Its
    kind is "parquet", "csv" or "frame", by default as its name says. ``labels`` have a row per bag:
    the bag column(s), and the label and covariates as far as they are there; bags that are in one
    of the two tables only are left out. A schema is as learnt in training, to predict without its
    label; without it, ``roles`` are those of :class:`Roles`.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> table = read_bags(path, bag="race", features=["poll_margin"], label="actual_margin")
    >>> new = read_bags(path, schema=table.schema.without_label())
    >>> new.labels is None, new.bags.n_bags == table.bags.n_bags, new.report.lines()
    (True, True, [])
    """
    plan = _plan(schema, roles)
    bag_table = labels_table(labels, plan)
    if kind == "frame" or not (kind or is_path(given)):
        return read(Source.of_frame(given), plan, bag_table)
    return read(Source.of_file(given, plan, bag_table, kind), plan, bag_table)


def scan_bags(
    path: Any,
    schema: Schema | Roles | None = None,
    *,
    labels: Any = None,
    progress: bool = True,
    batch_rows: int = BATCH_ROWS,
    sample_rows: int = SAMPLE_ROWS,
    engine: Any = None,
    piece_rows: int | None = None,
    **roles: Any,
) -> Reading:
    """Read bags as :func:`read_bags` does, from Parquet files whose points stay on disk.

    So many rows are read at once (``batch_rows``), and medians are those of a sample of
    ``sample_rows``. With an ``engine``, see :func:`bagwise._utils.engines.as_engine`, its workers
    read and sum pieces of ``piece_rows``.
    """
    plan, chosen = _plan(schema, roles), as_engine(engine)
    bag_table = labels_table(labels, plan)
    source = Source.on_disk(path, plan, bag_table, batch_rows)
    if chosen is not None:
        source = replace(source, pieces=source.split(piece_rows))
    return read(source, plan, bag_table, progress=progress, sample_rows=sample_rows, engine=chosen)


def scan_partitions(
    frame: Any,
    engine: Any = "dask",
    schema: Schema | Roles | None = None,
    *,
    labels: Any = None,
    progress: bool = True,
    **roles: Any,
) -> Reading:
    """Read bags from a Dask data frame, whose partitions stay with the workers."""
    plan, chosen = _plan(schema, roles), as_engine(engine)
    assert chosen is not None
    bag_table = labels_table(labels, plan)
    partitions = chosen.rows_of(frame)
    header = open_frame(frame._meta)
    counted = [Source(header, 0, partition=partition) for partition in partitions]
    n_rows = list(chosen.map(_count_rows, counted, "counting rows"))
    source = Source.of_partitions(header, n_rows, partitions)
    return read(source, plan, bag_table, progress=progress, engine=chosen)


def _count_rows(piece: Source) -> int:
    return len(piece.partition)


def _plan(schema: Schema | Roles | None, roles: dict[str, Any]) -> Roles | Schema:
    if schema is not None and roles:
        raise TypeError(f"give a schema or roles, not both: {', '.join(roles)}")
    return Roles(**roles) if schema is None else schema


def read(
    source: Source,
    plan: Roles | Schema,
    labels: Table | None = None,
    *,
    progress: bool = False,
    sample_rows: int = SAMPLE_ROWS,
    engine: Engine | None = None,
) -> Reading:
    """Read a source with a row per point and, if given, a table with a row per bag.

    With roles as a plan, categories and medians are learnt here; with a schema, they are those of
    training.
    """
    reader = Reader(source, plan, labels, progress, engine)
    reader.match()
    if isinstance(plan, Roles):
        reader.learn(sample_rows)
    return reader.count()


@dataclass(frozen=True, eq=False)
class Passes:
    """The rows of a source that are used, to be gone through as often as needed.

    Of ``bags``, given by their keys, the rows are used; None for all.
    """

    source: Source
    schema: Schema
    bags: Collection[Hashable] | None = None
    progress: bool = False
    engine: Engine | None = None

    def fold(self, make: Callable[..., Any], columns: tuple[str, ...], title: str) -> Any:
        """Make something that all rows are added to; of pieces elsewhere, what is merged of them.

        ``make(n)`` makes it for rows that come after n others. It has ``prepare(used)``, which a
        second thread does one batch ahead, ``add(prepared)`` and ``merge(other)``.
        """
        if self.engine is None:
            return self._fold(make, columns, title)

        work = partial(_fold_piece, make=make, columns=columns)
        return self.engine.merge(self.map(work, title), _merged)

    def _fold(self, make: Callable[..., Any], columns: tuple[str, ...], title: str) -> Any:
        state = make(self.source.first_row)
        for prepared in self.each(columns, title, state.prepare):
            state.add(prepared)
        return state

    def map(
        self, work: Callable[..., T], title: str, parts: Sequence[Any] | None = None
    ) -> Iterator[T]:
        """Do work on parts of the source, by default its pieces, wherever they are, in order."""
        assert self.engine is not None
        if parts is None:
            parts = [self.of_pieces(k, k + 1) for k in range(len(self.source.pieces))]
        with Progress(title, len(parts), self.progress) as bar:
            for made in self.engine.map(work, parts, title):
                yield made
                bar.advance()

    def of_pieces(self, start: int, stop: int) -> Passes:
        """Return the same for pieces that follow each other, as one, to be sent to a worker."""
        piece = Source.joined(self.source.pieces[start:stop])
        return replace(self, source=piece, progress=False, engine=None)

    @property
    def partition(self) -> Any:
        """What lies with a worker already, of a piece of a data frame; see ``DaskEngine``."""
        return self.source.partition

    def with_partition(self, partition: Any) -> Passes:
        """Return the same with that."""
        return replace(self, source=self.source.with_partition(partition))

    def rows(
        self, make: Callable[[Rows], T], title: str = "reading rows", *, points_only: bool = False
    ) -> Iterator[T]:
        """Make something of all rows, batch by batch; of points alone if only they are needed."""
        schema = self.schema
        if points_only and schema.missing == "error":  # else they decide which rows are left out
            schema = schema.part(covariates=(), label=None)
        return self.each(schema.columns, title, lambda used: make(used.arrays(schema)))

    def each(self, columns: tuple[str, ...], title: str, make: Callable[..., T]) -> Iterator[T]:
        """Make something of the rows that are used, batch by batch.

        From a disk, that is done in other threads, some batches ahead of whoever takes them.
        """
        with Progress(title, self.source.n_rows, self.progress) as bar:
            if self.source.in_memory:
                yield make(self._used_of_one)
                return
            for made, n_read in ahead(self._read(columns), partial(self._made, make=make)):
                yield made
                bar.advance(n_read)

    def _read(self, columns: tuple[str, ...]) -> Iterator[tuple[Table, int]]:
        """Yield tables, and the number of the first row of each."""
        start, schema = self.source.first_row, self.schema
        width = max(len(schema.columns), len(schema.feature_names))  # so that all passes cut alike
        for table in self.source.batches(columns, width):
            yield table, start
            start += len(table)

    def _made(self, read: tuple[Table, int], make: Callable[..., T]) -> tuple[T, int]:
        used = self._chosen(*read)
        return make(used), used.n_read

    @cached_property
    def _used_of_one(self) -> Used:
        """What is used of a table in memory: chosen once, whatever it is read for."""
        (table,) = self.source.batches(self.schema.columns)
        return self._chosen(table, None)

    def _chosen(self, table: Table, start: int | None) -> Used:
        """Leave out rows without a bag, which may be an error, and those of other bags."""
        ids = table.ids(self.schema.bag)
        keep, gaps = np.ones(len(table), dtype=bool), {}
        for name, column in zip(self.schema.bag, ids, strict=True):
            absent = missing(column)
            if absent.any():
                if self.schema.missing != "drop":
                    row = int(np.flatnonzero(absent)[0]) + (start or 0)
                    more = int(absent.sum()) - 1
                    raise InvalidBagsError.because(
                        f"row {row} of the data frame has no bag: column {name!r} is missing there"
                        + (f" and in {count(more, 'more row')}" if more else ""),
                        "a bag id in every row",
                        'Give these rows an id, or leave them out with missing="drop".',
                    )
                keep, gaps[name] = keep & ~absent, int(absent.sum())
        if self.bags is not None and keep.any():
            known = np.flatnonzero(keep)
            grouping = group_columns(tuple(column[known] for column in ids))
            found = np.array([key in self.bags for key in keys(grouping.ids)])
            keep[known] = grouping.unsort(np.repeat(found, np.diff(grouping.offsets)))
        if keep.all():
            return Used(table, start, gaps, len(table))
        rows = np.flatnonzero(keep)
        first_row = None if start is None else start + rows
        return Used(table.take(rows), first_row, gaps, len(table))


def _fold_piece(passes: Passes, make: Callable[..., Any], columns: tuple[str, ...]) -> Any:
    """Fold one piece, on a worker."""
    return passes._fold(make, columns, "reading rows")


@dataclass(frozen=True, eq=False)
class Used:
    """The rows of a batch that are used, and missing bag ids by column of those left out.

    Of the rows, the number of the first, or of each, in the whole table; None in memory.
    """

    table: Table
    first_row: int | Int64[np.ndarray, " n_rows"] | None
    gaps: dict[str, int]
    n_read: int

    def arrays(self, schema: Schema) -> Rows:
        """Return them as arrays."""
        rows = schema.arrays(self.table, first_row=self.first_row)
        return replace(rows, gaps=self.gaps | rows.gaps)


def ahead(items: Iterator[S], make: Callable[[S], T]) -> Iterator[T]:
    """Make something of each item, in order: one thread reads, others make, while others compute.

    Examples
    --------
    >>> list(ahead(iter("abc"), str.upper))
    ['A', 'B', 'C']
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(AHEAD) as makers:

        def read() -> Future[T] | None:
            item = next(items, end)
            return None if item is end else makers.submit(make, item)

        coming = deque(reader.submit(read) for _ in range(AHEAD))
        while (made := coming.popleft().result()) is not None:
            coming.append(reader.submit(read))
            yield made.result()


class TextCount:
    """Which columns of text are numbers, as batches come."""

    def __init__(self, names: tuple[str, ...], cells: Cells, skip: int = 0) -> None:
        self.tallies = {name: Tally(name, cells) for name in names}

    def add(self, table: Table) -> None:
        """Look at some rows."""
        for name, tally in self.tallies.items():
            tally.add(values(table.get_column(name)))

    def merge(self, other: TextCount) -> None:
        """Add what other rows are, which come after these."""
        for name, tally in self.tallies.items():
            tally.merge(other.tallies[name])


class IdCount:
    """Which bags there are, as batches come."""

    def __init__(self, bag: tuple[str, ...], skip: int = 0) -> None:
        self._bag, self.counts, self.gaps = bag, BagCounts(), Counter[str]()

    def prepare(self, used: Used) -> tuple[dict[str, int], Grouping | None]:
        """Group rows by bag, if there are any."""
        grouping = group_columns(used.table.ids(self._bag)) if len(used.table) else None
        return used.gaps, grouping

    def add(self, prepared: tuple[dict[str, int], Grouping | None]) -> None:
        """Count some rows."""
        gaps, grouping = prepared
        self.gaps.update(gaps)
        if grouping is not None:
            self.counts.add(grouping)

    def merge(self, other: IdCount) -> None:
        """Add other rows, which come after these."""
        self.gaps.update(other.gaps)
        self.counts.merge(other.counts)


class Counting:
    """A census of rows, as batches come, and the points themselves if they are to be kept.

    Attributes
    ----------
    stacked : points and weights, if the table is in memory
    kept : the same batch by batch, of a stream that is kept
    pieces : of pieces that were merged, numbers of their bags and how many rows each has of them
    """

    def __init__(
        self, schema: Schema, watch: bool, in_memory: bool, keep: bool = False, skip: int = 0
    ) -> None:
        names = schema.covariate_names
        self.census = Census(names, schema.label, watch=watch, spread=not in_memory, skip=skip)
        self.stacked: dict[str, Any] = {}
        self.kept = KeptRows([]) if keep else None
        self._schema, self._in_memory = schema, in_memory
        self._pieces: list[PieceBags] | None = None

    def prepare(self, used: Used) -> tuple[Rows, GroupedPoints | None]:
        """Make arrays of some rows, group them, look at their points; sort what is kept."""
        rows = used.arrays(self._schema).grouped()
        found = rows.by_bag() if self._in_memory or self.kept is not None else None
        rows = rows if self._in_memory else rows.looked_at()
        return rows, None if found is None else found.sorted()

    def add(self, prepared: tuple[Rows, GroupedPoints | None]) -> None:
        """Count some rows."""
        rows, found = prepared
        pieces = self.census.add(rows)
        if pieces is None or found is None:
            return
        if self.kept is None:
            self.stacked = {"points": found.points, "weights": found.weights}
        else:
            self.kept.add(found, pieces.codes)

    @property
    def pieces(self) -> list[PieceBags]:
        """What each piece has, itself if there is one."""
        if self._pieces is None:
            sizes = self.census.bags.sizes.copy()
            self._pieces = [PieceBags(np.arange(len(sizes)), sizes)]
        return self._pieces

    def merge(self, other: Counting) -> None:
        """Add other rows, which come after these."""
        pieces, sizes = self.pieces, other.census.bags.sizes
        pieces.append(PieceBags(self.census.merge(other.census), sizes))


class KeptRows:
    """Rows of a stream that stay in memory as they were first read: in batches, sorted by bag.

    They are not sent to other processes, which read the file again.

    Parameters
    ----------
    batches : with the numbers of bags for ids
    place : (n,), the number that each bag has here, -1 for those that are not used; None: its own
    """

    def __init__(
        self, batches: list[GroupedPoints], place: Int64[np.ndarray, " n"] | None = None
    ) -> None:
        self._batches, self._place = batches, place

    def add(self, rows: GroupedPoints, codes: Int64[np.ndarray, " k"]) -> None:
        """Keep rows that are sorted by bag, of which the numbers of the bags are given."""
        self._batches.append(rows.numbered(codes))

    def some(self, place: Int64[np.ndarray, " n"]) -> KeptRows:
        """Return the rows of some of the bags, which have other numbers then."""
        if self._place is not None:
            place = np.where(self._place >= 0, place[self._place], -1)
        return KeptRows(self._batches, place)

    def __iter__(self) -> Iterator[GroupedPoints]:
        for batch in self._batches:
            if self._place is None:
                yield batch
            elif len(codes := self._place[batch.grouping.ids]) and codes.max() >= 0:
                yield batch.numbered(codes)

    def __reduce__(self) -> tuple[Any, ...]:
        return NoneType, ()  # what is left of them in another process


@dataclass(frozen=True, eq=False)
class PieceBags:
    """Bags of a piece of a table: their numbers in all, and how many rows the piece has of each."""

    bags: Int64[np.ndarray, " k"]
    sizes: Int64[np.ndarray, " k"]

    def followed_by(self, other: PieceBags) -> PieceBags:
        """Return the bags of both, in order of appearance.

        Examples
        --------
        >>> one, two = np.array([5, 3]), np.array([3, 9])
        >>> both = PieceBags(one, one).followed_by(PieceBags(two, two))
        >>> both.bags, both.sizes
        (array([5, 3, 9]), array([5, 6, 9]))
        """
        bags = np.concatenate([self.bags, other.bags])
        codes, heads = first_appearance(bags)
        sizes = np.bincount(codes, np.concatenate([self.sizes, other.sizes]))
        return PieceBags(bags[heads], sizes.astype(np.int64))


class Reader:
    """The steps of reading, and what they have found so far."""

    def __init__(
        self,
        source: Source,
        plan: Roles | Schema,
        labels: Table | None,
        progress: bool,
        engine: Engine | None = None,
    ) -> None:
        self.bag_table = labels
        self.by_default = isinstance(plan, Roles) and plan.features is None
        header, tallies = source.header, self._tallies(source, plan, progress, engine)
        self.schema = plan if isinstance(plan, Schema) else plan.schema(header, labels, tallies)
        own, self.theirs = split_schema(self.schema, labels)
        check_present(header, own.columns)
        for name in own.numeric:
            if not is_number(header.dtype(name)):
                check_numbers(header, name, tallies.get(name))
        if labels is not None and self.theirs is not None:
            check_present(labels, self.theirs.columns, "labels table")
            for name in self.theirs.numeric:  # raises with the row of this table
                self.theirs.numbers(labels, name)
        self.passes = Passes(source, own, progress=progress, engine=engine)
        self.report = ReadReport(n_rows=source.n_rows)
        self.n_unmatched, self.gaps = 0, dict[str, int]()

    def _tallies(
        self, source: Source, plan: Roles | Schema, progress: bool, engine: Engine | None
    ) -> dict[str, Tally]:
        """Find out which columns of text are numbers, in a pass over those that matter."""
        wanted = set(plan.numeric)
        if isinstance(plan, Roles):
            wanted |= set() if plan.label is None else {plan.label}
            if self.by_default:
                spared = (plan.bag, plan.one_hot, plan.ignore)
                wanted |= source.header.columns - {n for each in spared for n in name_list(each)}
        header = source.header
        text = [n for n in header.columns if n in wanted and may_hold_numbers(header.dtype(n))]
        if not text:
            return {}
        count = partial(_count_text, names=tuple(text), cells=plan.cells)
        if engine is None:
            return count(source, progress).tallies
        parts = engine.map(count, source.pieces, "reading text")
        return engine.merge(parts, _merged).tallies

    def match(self) -> None:
        """Find the bags that are in both tables, in a pass over the ids, if there are two."""
        if self.bag_table is None or self.theirs is None:
            return
        bag = self.schema.bag
        found = self.passes.fold(partial(IdCount, bag), bag, "reading bag ids")
        if not found.counts.codes:
            raise nothing_left(found.gaps, self.report.n_rows)
        self._join(found.counts, self.bag_table, self.theirs)

    def _join(self, points: BagCounts, labels: Table, schema: Schema) -> None:
        """Match the bags of points with the rows of the labels table; note what is left out."""
        where = _label_rows(labels, schema)
        found = np.array([where.get(key, -1) for key in points.codes], dtype=np.int64)
        matched, gaps = found >= 0, schema.gaps(labels)
        if not matched.any():
            raise _no_match(points, labels, schema)
        incomplete = matched & schema.dropped(gaps, len(labels))[found]
        usable = matched & ~incomplete
        if not usable.any():
            counts = {name: int(mask.sum()) for name, mask in gaps.items()}
            raise InvalidBagsError.because(
                "every row of the labels table that has points has a missing value "
                f"({by_column(counts)} of {count(len(labels), 'row')})",
                "at least one complete row",
                "Fill in the labels.",
            )
        there = set(found[matched].tolist())
        spare = np.array([row for row in where.values() if row not in there], dtype=np.int64)
        self.report = replace(
            self.report,
            unmatched_bags=tuple(points.ids[~matched].tolist()),
            unmatched_labels=tuple(composite_ids(labels.ids(schema.bag), spare).tolist()),
            dropped_bags=tuple(points.ids[incomplete].tolist()),
        )
        self.n_unmatched = int(points.sizes[~matched].sum())
        lost = {name: int(mask[found[incomplete]].sum()) for name, mask in gaps.items()}
        self.gaps = {name: number for name, number in lost.items() if number}
        self.bag_table = labels.take(found[usable])
        if not usable.all():
            used = frozenset(key for key, use in zip(points.codes, usable, strict=True) if use)
            self.passes = replace(self.passes, bags=used)

    def learn(self, sample_rows: int) -> None:
        """Learn categories and medians: from the rows, in a pass, if they are to be had there."""
        own, passes = self.passes.schema, self.passes
        if own.lacks:
            most = math.inf if passes.source.in_memory else sample_rows
            make = partial(Lessons, own, most)
            own = own.taught(passes.fold(make, own.columns, "learning from rows"))
            self.passes = replace(passes, schema=own)
        if self.theirs is not None and self.theirs.lacks and self.bag_table is not None:
            self.theirs = self.theirs.learnt([self.bag_table])
        parts = [own] if self.theirs is None else [own, self.theirs]
        self.schema = replace(
            self.schema,
            one_hot={name: found for part in parts for name, found in part.one_hot.items()},
            fill={name: value for part in parts for name, value in part.fill.items()},
        )
        self.report = replace(self.report, left_out=self.schema.left_out)
        for what in ("feature", "covariate"):  # different, once they are encoded
            names = getattr(self.schema, f"{what}_names")
            check_names(names, len(names), what)

    def count(self) -> Reading:
        """Read all rows, and put together what is known of each bag."""
        own, in_memory = self.passes.schema, self.passes.source.in_memory
        numbers = self.passes.source.n_rows * len(own.feature_names)
        keep = not in_memory and self.passes.engine is None and 8 * numbers <= KEPT_BYTES
        make = partial(Counting, own, self.by_default, in_memory, keep)
        counted = self.passes.fold(make, own.columns, "reading rows")
        census = counted.census
        if not census.n_points:
            raise nothing_left(self.gaps | dict(census.gaps), self.report.n_rows)
        covariates, labels, met = self._per_bag(census)
        parts = {
            "offsets": sizes_to_offsets(census.bags.sizes),
            "ids": id_array(census.bags.ids),
            "covariates": covariates,
            "feature_names": self.schema.feature_names,
            "covariate_names": self.schema.covariate_names or None,
        }
        report = self._report(census, met, covariates, labels)
        parts |= counted.stacked
        pieces = tuple(counted.pieces)
        return Reading(
            self.passes, census, parts, labels, self.schema, report, pieces, counted.kept
        )

    def _per_bag(self, census: Census) -> tuple[Any, Any, dict[str, int]]:
        """Return covariates and labels of the bags, and the missing values that were met."""
        columns, labels, met = census.covariates, census.labels, dict(census.gaps)
        if self.theirs is not None:
            found = self.theirs.arrays(self.bag_table)
            place = {key: row for row, key in enumerate(keys(group_columns(found.ids).ids))}
            order = np.array([place[key] for key in census.bags.codes])
            names = self.theirs.covariate_names
            columns |= {name: found.covariates[order, j] for j, name in enumerate(names)}
            labels = labels if found.labels is None else found.labels[order]
            met = met | found.gaps
        chosen = [columns[name] for name in self.schema.covariate_names]
        covariates = np.column_stack(chosen) if chosen else None
        return covariates, None if labels is None else plain(labels), met

    def _report(
        self, census: Census, met: dict[str, int], covariates: Any, labels: Any
    ) -> ReadReport:
        """Complete the report with the missing values that were met, and what looks wrong."""
        schema, n_imputed = self.schema, dict[str, int]()
        if schema.missing == "impute":
            n_imputed = {n: met[n] for n in schema.columns if n in met and n != schema.label}
            met = {name: number for name, number in met.items() if name == schema.label}
        gaps = self.gaps | met
        order = dict.fromkeys((*schema.bag, *self.gaps, *schema.columns))
        outliers = tell(census.extremes.outliers(), schema.feature_names)
        if covariates is not None:
            found = find_outliers(covariates)
            outliers += tell(found, schema.covariate_names, "Covariate column")
        if labels is not None and labels.dtype.kind in "fiu" and schema.label is not None:
            found = find_outliers(labels.astype(np.float64)[:, None])
            outliers += tell(found, [schema.label], "Label column")
        constant = [] if census.constancy is None else census.constancy.columns(census.bags.sizes)
        return replace(
            self.report,
            n_imputed=n_imputed,
            gaps={name: gaps[name] for name in order if name in gaps},
            n_dropped_rows=self.report.n_rows - self.n_unmatched - census.n_points,
            dropped_bags=(*self.report.dropped_bags, *census.lost_bags),
            constant=schema.sources(constant),
            outliers=outliers,
        )


def _count_text(
    source: Source, progress: bool = False, *, names: tuple[str, ...], cells: Cells
) -> TextCount:
    """Look at all cells of columns of text."""
    found = TextCount(names, cells)
    with Progress("reading text", source.n_rows, progress) as bar:
        for table in source.batches(names):
            found.add(table)
            bar.advance(len(table))
    return found


def _merged(total: Any, part: Any) -> Any:
    total.merge(part)
    return total


def split_schema(schema: Schema, bag_table: Table | None) -> tuple[Schema, Schema | None]:
    """Return what to read from the table of points, and what from the table of bags."""
    if bag_table is None:
        return schema, None
    there = [name for name in bag_table.columns if name not in schema.bag]
    covariates = tuple(name for name in schema.covariates if name in there)
    label = schema.label if schema.label in there else None
    if not covariates and label is None:
        if schema.label is None and not schema.covariates:
            raise InvalidLabelsError.because(
                "there is a labels table, but no column of it is asked for",
                "the name of the label or of covariates",
                "Name the column with label=..., or leave the labels table out.",
            )
        check_present(bag_table, [schema.label or schema.covariates[0]], "labels table")
    others = tuple(name for name in schema.covariates if name not in covariates)
    own = schema.part(covariates=others, label=None if label else schema.label)
    return own, schema.part(features=(), weights=None, covariates=covariates, label=label)


def _label_rows(labels: Table, schema: Schema) -> dict[Hashable, int]:
    """Return the row of every bag in the labels table, which must have only one."""
    known = Passes(Source.of_frame(labels), schema)._chosen(labels, 0).first_row
    rows = known if isinstance(known, np.ndarray) else np.arange(len(labels))
    columns, where = labels.ids(schema.bag), dict[Hashable, int]()
    for row, key in zip(rows.tolist(), keys(composite_ids(columns, rows)), strict=True):
        if where.setdefault(key, row) != row:
            bag = show(composite_ids(columns, np.array([row]))[0])
            raise InvalidLabelsError.because(
                f"bag {bag} has two rows in the labels table: rows {where[key]} and {row}",
                "one row per bag",
                "Remove one of them, or aggregate them to one row per bag.",
            )
    return where


def _no_match(points: BagCounts, labels: Table, schema: Schema) -> InvalidLabelsError:
    columns, first = labels.ids(schema.bag), np.arange(min(1, len(labels)))
    examples = [*points.ids[:1], *composite_ids(columns, first)]
    written = [f"{show(bag)} ({_type(bag)})" for bag in examples]
    return InvalidLabelsError.because(
        f"none of {count(len(points.codes), 'bag')} of the points is in the labels table: the "
        f"points have bag {written[0]}, the labels have "
        + (f"bag {written[1]}" if len(written) > 1 else "no rows"),
        "the same ids, of the same type, in both tables",
        f"Check the bag column{'s' if len(schema.bag) > 1 else ''} of both tables, and convert one "
        "of them if the types differ.",
    )


def _type(bag: Any) -> str:
    """Name the type of an id as Python does, and the types within a composite one."""
    value = bag.item() if isinstance(bag, np.generic) else bag
    return ", ".join(map(_type, value)) if isinstance(value, tuple) else type(value).__name__
