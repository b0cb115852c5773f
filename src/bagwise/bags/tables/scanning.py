"""Scanning: the first passes over a Parquet data set, which find out all but the points."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float64, Shaped

from bagwise._utils.progress import Progress
from bagwise.bags.grouping import id_array, missing, plain
from bagwise.bags.tables.cells import Tally
from bagwise.bags.tables.census import Census
from bagwise.bags.tables.files import Source, check_asked, existing, is_csv, is_path, open_table
from bagwise.bags.tables.frames import (
    check_numbers,
    check_present,
    group_columns,
    id_columns,
    may_hold_numbers,
    name_list,
    open_frame,
    values,
)
from bagwise.bags.tables.joining import join, keys
from bagwise.bags.tables.learning import FirstRows, learn
from bagwise.bags.tables.parquet_rows import ParquetRows
from bagwise.bags.tables.read_report import ReadReport, tell
from bagwise.bags.tables.reading import (
    bag_outliers,
    merge_schemas,
    nothing_left,
    sources,
    split_schema,
)
from bagwise.bags.tables.roles import Roles
from bagwise.bags.tables.rows import Place, no_bag_id
from bagwise.bags.tables.schema import Schema
from bagwise.bags.validation import check_names
from bagwise.exceptions import BagwiseError

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Scan:
    """What the first passes found out.

    Attributes
    ----------
    source : ParquetRows, to read the points again
    census : Census
    ids : (n_bags,);  covariates : (n_bags, n_covariates) or None;  labels : (n_bags,) or None
    schema : Schema, to read later tables in the same way
    report : ReadReport
    """

    source: ParquetRows
    census: Census
    ids: Shaped[np.ndarray, " n_bags"]
    covariates: Float64[np.ndarray, "n_bags n_covariates"] | None
    labels: Shaped[np.ndarray, " n_bags"] | None
    schema: Schema
    report: ReadReport


def scan(path: Any, plan: Roles | Schema, *, labels: Any = None, progress: bool = True) -> Scan:
    """Read all rows of a Parquet file, or a folder of them, without keeping any.

    As ``files.read_file``, in memory that grows with the bags and not with the points.
    One pass; one more over the bag ids if there is a table of labels, and one more if
    categories or medians are to be learnt.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> found = scan(path, Roles("race", features=["poll_margin"], label="actual_margin"))
    >>> found.census.n_points, len(found.ids), found.labels.shape
    (8824, 1708, (1708,))
    """
    scanner = _Scanner(path, plan, labels, progress)
    scanner.match()
    if isinstance(plan, Roles):
        scanner.learn()
    return scanner.count()


class _Scanner:
    """The steps of a scan, and what they have found so far."""

    def __init__(self, path: Any, plan: Roles | Schema, labels: Any, progress: bool) -> None:
        path = existing(path)
        if is_csv(path):
            raise BagwiseError.because(
                f"{path} is {'a folder of CSV files' if path.is_dir() else 'a CSV file'}",
                "Parquet, of which parts can be read",
                "Convert it to Parquet, or read it into memory with Bags.from_csv.",
            )
        found = Source.of(path, "parquet")
        self.empty = open_frame(found.dataset.schema.empty_table())
        self.progress, cells = progress, plan.cells
        if is_path(labels):
            labels = open_table(labels, ids=name_list(plan.bag), cells=cells)
        self.bag_table = None if labels is None else open_frame(labels, "labels table")
        there = () if self.bag_table is None else self.bag_table.columns
        check_asked(path, plan, found.names, there)
        self.by_default = isinstance(plan, Roles) and plan.features is None
        tallies = self._tallies(found.dataset, plan)
        for name in plan.numeric:
            if name in tallies:
                check_numbers(self.empty, name, tallies[name])
        if isinstance(plan, Roles):
            plan = plan.schema(self.empty, self.bag_table, tallies)
        self.schema = plan
        own, self.theirs = split_schema(self.schema, self.bag_table)
        check_present(self.empty, own.columns)
        self.source = ParquetRows(found.dataset, own)
        self.report = ReadReport(n_rows=self.source.n_rows)
        self.n_unmatched, self.gaps = 0, dict[str, int]()

    def _tallies(self, dataset: Any, plan: Roles | Schema) -> dict[str, Tally]:
        """Find out which columns of text are numbers, in a pass over those that matter."""
        wanted = set(plan.numeric)
        if isinstance(plan, Roles):
            wanted |= set() if plan.label is None else {plan.label}
            if self.by_default:
                wanted |= self.empty.columns - {*name_list(plan.bag), *name_list(plan.one_hot)}
        tallies = {
            name: Tally(name, plan.cells)
            for name in self.empty.columns
            if name in wanted and may_hold_numbers(self.empty.dtype(name))
        }
        if tallies:
            source = ParquetRows(dataset, Schema(("",), ()))
            with Progress("reading text", source.n_rows, self.progress) as bar:
                for table in source.tables(tuple(tallies)):
                    frame = open_frame(table)
                    for name, tally in tallies.items():
                        tally.add(values(frame.get_column(name)))
                    bar.advance(table.num_rows)
        return tallies

    def match(self) -> None:
        """Find the bags that are in both tables, in a pass over the ids, if there are two."""
        if self.bag_table is None or self.theirs is None:
            return
        first = self._first_rows()
        ids_table = open_frame(first.table())
        match = join(ids_table, self.bag_table, self.theirs)
        self.bag_table, self.gaps = self.bag_table.take(match.label_rows), match.gaps
        self.report = match.report(self.report)
        columns = id_columns(ids_table, self.schema.bag)
        ids, counts = group_columns(columns).ids, list(first.counts.values())
        sizes = dict(zip(ids.tolist(), counts, strict=True))
        self.n_unmatched = sum(sizes[bag] for bag in match.unmatched_bags)
        used = ids if match.rows is None else ids[match.rows]
        self.source = replace(self.source, bags=frozenset(keys(used)))

    def _first_rows(self) -> FirstRows:
        """Read the bag ids, and nothing else."""
        schema, start = self.source.schema, 0
        first = FirstRows(schema.bag)
        with Progress("reading bag ids", self.source.n_rows, self.progress) as bar:
            for table in self.source.tables(schema.bag):
                frame = open_frame(table)
                columns = id_columns(frame, schema.bag)
                gaps = [missing(column) for column in columns]
                for name, mask in zip(schema.bag, gaps, strict=True):
                    if mask.any() and schema.missing != "drop":
                        raise no_bag_id(name, mask, Place(columns, start))
                first.add(table, np.flatnonzero(~np.any(gaps, axis=0)))
                start += table.num_rows
                bar.advance(table.num_rows)
        return first

    def learn(self) -> None:
        """Learn categories and medians: from the rows, in a pass, if they are to be had there."""
        own, theirs = self.source.schema, self.theirs
        if own.missing == "impute" or not all(own.one_hot.values()):
            own = learn(self.source, progress=self.progress)
        theirs = None if theirs is None else theirs.learnt(self.bag_table)
        self.schema, self.theirs = merge_schemas(self.schema, own, theirs), theirs
        self.source = replace(self.source, schema=own)
        self.report = replace(self.report, left_out=self.schema.left_out)
        for names, what in (
            (self.schema.feature_names, "feature"),
            (self.schema.covariate_names, "covariate"),
        ):
            check_names(names, len(names), what)

    def count(self) -> Scan:
        """Read all rows, and put together what is known of each bag."""
        own = self.source.schema
        census = Census(own.covariate_names, own.label, watch=self.by_default)
        with Progress("reading rows", self.report.n_rows, self.progress) as bar:
            for rows, n_read in ahead(self.source.rows()):
                census.add(rows)
                bar.advance(n_read)
        if not census.n_points:
            raise nothing_left(census.gaps, self.report.n_rows)
        columns, labels, met = census.covariates, census.labels, census.gaps
        if self.theirs is not None:
            found = self.theirs.arrays(self.bag_table)
            place = {key: row for row, key in enumerate(keys(group_columns(found.ids).ids))}
            order = np.array([place[key] for key in census.codes])
            names = self.theirs.covariate_names
            columns |= {name: found.covariates[order, j] for j, name in enumerate(names)}
            labels = labels if found.labels is None else found.labels[order]
            met = met | found.gaps
        columns_there = [columns[name] for name in self.schema.covariate_names]
        covariates = np.column_stack(columns_there) if columns_there else None
        labels = None if labels is None else plain(labels)
        outliers = tell(census.outliers(), self.schema.feature_names)
        report = replace(
            self._report(census, met),
            constant=sources(self.schema, census.constant()),
            outliers=(*outliers, *bag_outliers(self.schema, covariates, labels)),
        )
        return Scan(
            source=self.source,
            census=census,
            ids=id_array(census.ids),
            covariates=covariates,
            labels=labels,
            schema=self.schema,
            report=report,
        )

    def _report(self, census: Census, met: dict[str, int]) -> ReadReport:
        """Complete the report with the missing values that were met in the rows."""
        report, label = self.report, self.schema.label
        if self.schema.missing == "impute":
            filled = {n: met[n] for n in self.schema.columns if n in met and n != label}
            report = replace(report, n_imputed=filled)
            met = {name: number for name, number in met.items() if name == label}
        gaps = self.gaps | met
        order = dict.fromkeys((*self.schema.bag, *self.gaps, *self.schema.columns))
        return replace(
            report,
            gaps={name: gaps[name] for name in order if name in gaps},
            n_dropped_rows=report.n_rows - self.n_unmatched - census.n_points,
            dropped_bags=(*report.dropped_bags, *census.lost_bags),
        )


def ahead(items: Iterator[T]) -> Iterator[T]:
    """Go through an iterator in a second thread, one item ahead: reading while others compute.

    Examples
    --------
    >>> list(ahead(iter([1, 2, 3])))
    [1, 2, 3]
    """
    end: Any = object()
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, items, end)
            yield item
