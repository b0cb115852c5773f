"""Reading: a table of points, with or without a table of labels, as the arrays of bags."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Shaped

from bagwise.bags.grouping import Grouping, no_bags, plain
from bagwise.bags.tables.constancy import Constancy
from bagwise.bags.tables.frames import Table, check_present, group_columns, id_columns, open_frame
from bagwise.bags.tables.joining import join, keys, rows_with_id
from bagwise.bags.tables.read_report import ReadReport, outlier_lines
from bagwise.bags.tables.roles import Roles
from bagwise.bags.tables.rows import Rows, by_column, count
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError


@dataclass(frozen=True, eq=False)
class Reading:
    """What one or two tables say about bags: the arrays that make a ``Bags``, and more.

    Attributes
    ----------
    points : array (n_points, n_features), bag after bag
    grouping : Grouping
        Ids and offsets of the bags, in order of first appearance.
    weights : float64 array (n_points,) or None
    covariates : float64 array (n_bags, n_covariates) or None
    labels : array (n_bags,) or None
    schema : Schema
        To read later tables in the same way.
    report : ReadReport
    """

    points: Float[np.ndarray, "n_points n_features"]
    grouping: Grouping
    weights: Float64[np.ndarray, " n_points"] | None
    covariates: Float64[np.ndarray, "n_bags n_covariates"] | None
    labels: Shaped[np.ndarray, " n_bags"] | None
    schema: Schema
    report: ReadReport

    def parts(self) -> dict[str, Any]:
        """Return the arguments of ``Bags``."""
        return {
            "points": self.points,
            "offsets": self.grouping.offsets,
            "ids": self.grouping.ids,
            "weights": self.weights,
            "covariates": self.covariates,
            "feature_names": self.schema.feature_names,
            "covariate_names": self.schema.covariate_names or None,
        }


def read_table(frame: Any, plan: Roles | Schema, *, labels: Any = None) -> Reading:
    """Read a data frame with a row per point and, if given, one with a row per bag.

    Parameters
    ----------
    frame : pandas or polars DataFrame, or pyarrow Table
    plan : Roles or Schema
        Roles: categories and medians are learnt here. A schema: they are those of training.
    labels : data frame, optional
        One row per bag, with the bag column(s), and the label and covariates as far as it has
        them; the others are taken from ``frame``. Bags that are in one of the two only are left
        out.

    Examples
    --------
    >>> import pyarrow as pa
    >>> points = pa.table({"bag": ["b", "a", "b"], "x": [1.0, 2.0, 3.0]})
    >>> labels = pa.table({"bag": ["a", "b"], "y": [0.5, 1.5]})
    >>> reading = read_table(points, Roles("bag", label="y"), labels=labels)
    >>> reading.points.tolist(), reading.grouping.ids.tolist(), reading.labels.tolist()
    ([[1.0], [3.0], [2.0]], ['b', 'a'], [1.5, 0.5])
    """
    table = open_frame(frame)
    bag_table = None if labels is None else open_frame(labels, "labels table")
    schema = plan.schema(table, bag_table) if isinstance(plan, Roles) else plan
    own, theirs = split_schema(schema, bag_table)
    check_present(table, own.columns)
    own.check_numbers(table)  # while rows have the numbers that a user knows
    if bag_table is not None and theirs is not None:
        check_present(bag_table, theirs.columns, "labels table")
        theirs.check_numbers(bag_table)
    report = ReadReport(n_rows=len(table))
    known, id_gaps = rows_with_id(table, own)
    table = table if known is None else table.take(known)
    n_unmatched = 0
    if bag_table is not None and theirs is not None:
        match = join(table, bag_table, theirs)
        table = table if match.rows is None else table.take(match.rows)
        bag_table, n_unmatched = bag_table.take(match.label_rows), match.n_unmatched_rows
        id_gaps, report = id_gaps | match.gaps, match.report(report)
    if isinstance(plan, Roles):
        own = _learn(own, table)
        theirs = None if theirs is None else theirs.learnt(bag_table)
        schema = merge_schemas(schema, own, theirs)
        report = replace(report, left_out=schema.left_out)
    rows = own.arrays(table)
    bag_rows = None if theirs is None else theirs.arrays(bag_table)
    report = _report(report, schema, id_gaps, (rows, bag_rows), n_unmatched)
    pair = None if theirs is None or bag_rows is None else (theirs, bag_rows)
    reading = _assemble(schema, (own, rows), pair, report)
    by_default = isinstance(plan, Roles) and plan.features is None
    return replace(reading, report=_suspicions(reading, by_default))


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


def _learn(schema: Schema, table: Table) -> Schema:
    """Learn from the rows that are kept; medians of covariates from one row of each bag."""
    gaps = schema.gaps(table)
    keep = ~schema.dropped(gaps, len(table))
    if not keep.any():
        raise nothing_left({name: int(mask.sum()) for name, mask in gaps.items()}, len(table))
    learnt = schema.learnt(table, keep)
    if not schema.covariates or schema.missing != "impute":
        return learnt
    grouping = group_columns(tuple(column[keep] for column in id_columns(table, schema.bag)))
    first = grouping.sort(np.flatnonzero(keep))[grouping.offsets[:-1]]
    bags = schema.part(features=(), weights=None).learnt(table, first)
    return replace(learnt, fill=learnt.fill | bags.fill)


def merge_schemas(schema: Schema, own: Schema, theirs: Schema | None) -> Schema:
    """Return the schema with what its two parts have learnt."""
    parts = (own,) if theirs is None else (own, theirs)
    one_hot = {name: categories for part in parts for name, categories in part.one_hot.items()}
    fill = {name: value for part in parts for name, value in part.fill.items()}
    return replace(schema, one_hot=one_hot, fill=fill)


def _suspicions(reading: Reading, by_default: bool) -> ReadReport:
    """Add to the report what looks wrong, and what is constant in bags if features are default."""
    schema, offsets = reading.schema, reading.grouping.offsets
    constant: tuple[str, ...] = ()
    if by_default:
        watch, sizes = Constancy(), np.diff(offsets)
        watch.add(reading.points, np.repeat(np.arange(len(sizes)), sizes))
        constant = sources(schema, watch.columns(sizes))
    outliers = outlier_lines(reading.points, schema.feature_names)
    return replace(
        reading.report,
        constant=constant,
        outliers=(*outliers, *bag_outliers(schema, reading.covariates, reading.labels)),
    )


def bag_outliers(
    schema: Schema,
    covariates: Float64[np.ndarray, "n_bags n_covariates"] | None,
    labels: Shaped[np.ndarray, " n_bags"] | None,
) -> tuple[str, ...]:
    """Say which covariates and labels lie far from all others."""
    lines: tuple[str, ...] = ()
    if covariates is not None:
        lines += outlier_lines(covariates, schema.covariate_names, "Covariate column")
    if labels is not None and labels.dtype.kind in "fiu" and schema.label is not None:
        rows = labels.astype(np.float64)[:, None]
        lines += outlier_lines(rows, [schema.label], "Label column")
    return lines


def sources(schema: Schema, constant: list[int]) -> tuple[str, ...]:
    """Return the columns of which all features are constant."""
    found, start, there = [], 0, set(constant)
    for name in schema.features:
        n = len(schema.one_hot.get(name, (name,)))
        if all(feature in there for feature in range(start, start + n)):
            found.append(name)
        start += n
    return tuple(found)


def _report(
    report: ReadReport,
    schema: Schema,
    gaps: dict[str, int],
    parts: tuple[Rows, Rows | None],
    n_unmatched: int,
) -> ReadReport:
    """Complete the report with the missing values that were met in the rows."""
    rows, bag_rows = parts
    met = rows.gaps | ({} if bag_rows is None else bag_rows.gaps)
    if schema.missing == "impute":
        report = replace(report, n_imputed={n: k for n, k in met.items() if n != schema.label})
        met = {name: k for name, k in met.items() if name == schema.label}
    lost: list[Any] = []
    if not rows.keep.all():
        kept = set(keys(group_columns(rows.kept().ids).ids)) if rows.keep.any() else set()
        every = group_columns(rows.ids).ids
        lost = [
            bag for bag, key in zip(every.tolist(), keys(every), strict=True) if key not in kept
        ]
    return replace(
        report,
        gaps=gaps | met,
        n_dropped_rows=report.n_rows - n_unmatched - int(rows.keep.sum()),
        dropped_bags=(*report.dropped_bags, *lost),
    )


def _assemble(
    schema: Schema, own: tuple[Schema, Rows], theirs: tuple[Schema, Rows] | None, report: ReadReport
) -> Reading:
    """Group the rows that are kept into bags, and give each bag its label and covariates."""
    part, rows = own[0], own[1].kept()
    if not len(rows.keep):
        raise nothing_left(report.gaps, report.n_rows)
    grouping = group_columns(rows.ids)
    columns = {
        name: grouping.constant(rows.covariates[:, j], f"covariate column {name!r}")
        for j, name in enumerate(part.covariate_names)
    }
    labels = None
    if rows.labels is not None:
        labels = grouping.constant(
            rows.labels, f"label column {schema.label!r}", InvalidLabelsError
        )
    if theirs is not None:
        part, bag_rows = theirs
        place = {key: row for row, key in enumerate(keys(group_columns(bag_rows.ids).ids))}
        positions = np.array([place[key] for key in keys(grouping.ids)])
        names = part.covariate_names
        columns |= {name: bag_rows.covariates[positions, j] for j, name in enumerate(names)}
        labels = labels if bag_rows.labels is None else bag_rows.labels[positions]
    covariates = [columns[name] for name in schema.covariate_names]
    return Reading(
        points=grouping.sort(rows.points),
        grouping=grouping,
        weights=None if rows.weights is None else grouping.sort(rows.weights),
        covariates=np.column_stack(covariates) if covariates else None,
        labels=None if labels is None else plain(labels),
        schema=schema,
        report=report,
    )


def nothing_left(gaps: dict[str, int], n_rows: int) -> InvalidBagsError:
    """Return the error for a table of which no row can be used."""
    if not gaps:
        return no_bags()
    return InvalidBagsError.because(
        f"every one of {count(n_rows, 'row')} has a missing value ({by_column(gaps)})",
        "at least one complete row",
        'Leave out the columns that are mostly empty, or use missing="impute".',
    )
