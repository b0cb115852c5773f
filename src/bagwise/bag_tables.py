"""TableBags: the bags of a table with all that is known about them, for whoever saves a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Shaped

from bagwise.bags import Bags, BagStream
from bagwise.tables.files import is_path, open_table, read_file
from bagwise.tables.frames import name_list
from bagwise.tables.read_report import ReadReport
from bagwise.tables.reading import read_table
from bagwise.tables.roles import Roles
from bagwise.tables.scanning import scan
from bagwise.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class TableBags:
    """Bags, their labels, and how they were read.

    Attributes
    ----------
    bags : Bags
    labels : array (n_bags,) or None
    schema : Schema
        To read later tables in the same way.
    report : ReadReport
        What was left out or filled in; nobody was warned yet.
    """

    bags: Bags
    labels: Shaped[np.ndarray, " n_bags"] | None
    schema: Schema
    report: ReadReport


def read_bags(
    source: Any, *, labels: Any = None, schema: Schema | None = None, **roles: Any
) -> TableBags:
    """Read bags from a file or data frame, by roles or by the schema of an earlier table.

    Parameters
    ----------
    source : path or data frame
        One row per point: Parquet or CSV (a file or a folder), pandas, polars or pyarrow.
    labels : path or data frame, optional
        One row per bag.
    schema : Schema, optional
        As learnt in training: the same columns, categories and medians. To predict, use
        ``schema.without_label()``.
    **roles
        Without a schema: bag, features, covariates, weights, label, one_hot, missing, na_values,
        sep, decimal and thousands, as in :meth:`bagwise.Bags.from_csv`.

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
    if is_path(source):
        reading = read_file(source, plan, labels=labels)
    else:
        if is_path(labels):
            labels = open_table(labels, ids=name_list(plan.bag), cells=plan.cells)
        reading = read_table(source, plan, labels=labels)
    return TableBags(Bags(**reading.parts()), reading.labels, reading.schema, reading.report)


def scan_bags(
    path: Any,
    *,
    labels: Any = None,
    schema: Schema | None = None,
    progress: bool = True,
    **roles: Any,
) -> TableBags:
    """Read bags as :func:`read_bags` does, from Parquet files whose points stay on disk.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> scan_bags(path, bag="race", features=["poll_margin"]).bags.n_points
    8824
    """
    found = scan(path, _plan(schema, roles), labels=labels, progress=progress)
    return TableBags(
        BagStream.of(found, progress=progress), found.labels, found.schema, found.report
    )


def _plan(schema: Schema | None, roles: dict[str, Any]) -> Roles | Schema:
    if schema is not None and roles:
        raise TypeError(f"give a schema or roles, not both: {', '.join(roles)}")
    return Roles(**roles) if schema is None else schema
