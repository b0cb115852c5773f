"""Joining: a table of points and a table of bags, matched by their bag ids."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Int64, Shaped

from bagwise.bags.grouping import Grouping, missing, show
from bagwise.bags.tables.frames import (
    Table,
    check_present,
    composite_ids,
    group_columns,
    id_columns,
)
from bagwise.bags.tables.read_report import ReadReport
from bagwise.bags.tables.rows import Place, by_column, count, no_bag_id
from bagwise.bags.tables.schema import Schema
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError


@dataclass(frozen=True, eq=False)
class Match:
    """Which rows of two tables belong to bags that are in both, with all that is needed.

    Attributes
    ----------
    rows : positions in the table of points, or None for all
    label_rows : positions in the table of bags, in order of the bags' first points
    n_unmatched_rows : int
        Points of bags that the table of bags does not have.
    unmatched_bags, unmatched_labels : ids in the one table only
    incomplete : ids of bags left out because their row of the labels table has missing values
    gaps : missing values by column among those rows
    """

    rows: Int64[np.ndarray, " n_rows"] | None
    label_rows: Int64[np.ndarray, " n_bags"]
    n_unmatched_rows: int
    unmatched_bags: tuple[Any, ...]
    unmatched_labels: tuple[Any, ...]
    incomplete: tuple[Any, ...]
    gaps: dict[str, int]

    def report(self, report: ReadReport) -> ReadReport:
        """Add to a report what did not match."""
        return replace(
            report,
            unmatched_bags=self.unmatched_bags,
            unmatched_labels=self.unmatched_labels,
            dropped_bags=self.incomplete,
        )


def join(table: Table, labels: Table, schema: Schema) -> Match:
    """Match points and labels by bag id.

    Parameters
    ----------
    table : Table with one row per point, all with an id
    labels : Table with one row per bag
    schema : Schema
        What is read from ``labels``.
    """
    check_present(labels, schema.columns, "labels table")
    where = _label_rows(labels, schema)
    grouping = group_columns(id_columns(table, schema.bag))
    found = np.array([where.get(key, -1) for key in keys(grouping.ids)], dtype=np.int64)
    matched = found >= 0
    if not matched.any():
        raise _no_match(grouping, labels, schema)
    gaps = schema.gaps(labels)
    incomplete = matched & schema.dropped(gaps, len(labels))[found]
    usable = matched & ~incomplete
    if not usable.any():
        raise _none_complete({name: int(mask.sum()) for name, mask in gaps.items()}, len(labels))
    there = np.zeros(len(labels), dtype=bool)
    there[found[matched]] = True
    spare = np.array([row for row in where.values() if not there[row]], dtype=np.int64)
    columns = id_columns(labels, schema.bag)
    return Match(
        rows=None if usable.all() else _rows_of_bags(grouping, usable),
        label_rows=found[usable],
        n_unmatched_rows=int(np.diff(grouping.offsets)[~matched].sum()),
        unmatched_bags=tuple(grouping.ids[~matched].tolist()),
        unmatched_labels=tuple(composite_ids(columns, spare).tolist()),
        incomplete=tuple(grouping.ids[incomplete].tolist()),
        gaps=_counts(gaps, found[incomplete]),
    )


def rows_with_id(
    table: Table, schema: Schema
) -> tuple[Int64[np.ndarray, " n_known"] | None, dict[str, int]]:
    """Return the rows that have a bag id, None for all, and the missing ids by column.

    Without ``missing="drop"``, a row without an id is an error.
    """
    columns = id_columns(table, schema.bag)
    gaps = {name: missing(column) for name, column in zip(schema.bag, columns, strict=True)}
    gaps = {name: mask for name, mask in gaps.items() if mask.any()}
    if not gaps:
        return None, {}
    if schema.missing != "drop":
        name = next(iter(gaps))
        raise no_bag_id(name, gaps[name], Place(columns))
    known = ~np.any(list(gaps.values()), axis=0)
    return np.flatnonzero(known), {name: int(mask.sum()) for name, mask in gaps.items()}


def keys(ids: Shaped[np.ndarray, " n_bags"]) -> list[Hashable]:
    """Return ids as values that are equal where the ids are, whatever table they come from.

    Examples
    --------
    >>> keys(np.array([1, 2])) == keys(np.array([1.0, 2.0]))
    True
    >>> keys(np.array(["2020-01-01"], dtype="M8[D]")) == keys(
    ...     np.array(["2020-01-01"], dtype="M8[us]")
    ... )
    True
    """
    return ids.astype("M8[ns]").tolist() if ids.dtype.kind == "M" else ids.tolist()


def _label_rows(labels: Table, schema: Schema) -> dict[Hashable, int]:
    """Return the row of every bag in the labels table, which must have only one."""
    columns = id_columns(labels, schema.bag)
    known, _ = rows_with_id(labels, schema)
    known = np.arange(len(labels)) if known is None else known
    where: dict[Hashable, int] = {}
    for row, key in zip(known.tolist(), keys(composite_ids(columns, known)), strict=True):
        if where.setdefault(key, row) != row:
            bag = show(composite_ids(columns, np.array([row]))[0])
            raise InvalidLabelsError.because(
                f"bag {bag} has two rows in the labels table: rows {where[key]} and {row}",
                "one row per bag",
                "Remove one of them, or aggregate them to one row per bag.",
            )
    return where


def _rows_of_bags(
    grouping: Grouping, bags: Bool[np.ndarray, " n_bags"]
) -> Int64[np.ndarray, " n_chosen"]:
    """Return the rows of the chosen bags, in the order of the table."""
    chosen = np.repeat(bags, np.diff(grouping.offsets))
    if grouping.order is None:
        return np.flatnonzero(chosen)
    return np.sort(grouping.order[chosen])


def _counts(gaps: dict[str, Any], rows: Int64[np.ndarray, " n"]) -> dict[str, int]:
    counts = {name: int(mask[rows].sum()) for name, mask in gaps.items()}
    return {name: number for name, number in counts.items() if number}


def _no_match(grouping: Grouping, labels: Table, schema: Schema) -> InvalidLabelsError:
    columns = id_columns(labels, schema.bag)
    examples = [grouping.ids[0], *composite_ids(columns, np.arange(min(1, len(labels))))]
    written = [f"{show(bag)} ({_type(bag)})" for bag in examples]
    return InvalidLabelsError.because(
        f"none of {count(len(grouping.ids), 'bag')} of the points is in the labels table: the "
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


def _none_complete(gaps: dict[str, int], n_rows: int) -> InvalidBagsError:
    return InvalidBagsError.because(
        f"every row of the labels table that has points has a missing value ({by_column(gaps)} of "
        f"{count(n_rows, 'row')})",
        "at least one complete row",
        "Fill in the labels.",
    )
