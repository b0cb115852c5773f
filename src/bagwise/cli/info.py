"""``bagwise info``: what is in a saved model or a table, or which bagwise this is."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._utils.work import printable
from bagwise.cli import options
from bagwise.cli.inputs import written_as
from bagwise.cli.shell import answer, answer_json, command

PACKAGES = ("bagwise", "numpy", "scipy", "scikit-learn", "jax", "numpyro", "pyarrow", "matplotlib")


@command
def info(
    path: Annotated[
        Path | None, typer.Argument(help="A saved model, or a file of points.", show_default=False)
    ] = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    json: options.Json = False,
) -> None:
    """Say what is in a saved model or a table.

    Without a path, which versions are at work.
    """
    from bagwise.bags.tables.files import TABLES

    if path is None:
        facts = _versions()
    elif os.path.isdir(path) or path.name.lower().endswith(TABLES):
        facts = _table(path, written_as(sep, decimal, None, None))
    else:
        facts = _model(path)
    if json:
        answer_json(facts)
        return
    for line in lines(facts):
        answer(printable(line))  # a column may have a line break in its name


def lines(facts: dict[str, Any], indent: str = "") -> list[str]:
    """Return facts as lines of name and value, those within others indented.

    Examples
    --------
    >>> lines({"a": 1, "b": {"c": 2}})
    ['a  1', 'b', '  c  2']
    """
    single = [name for name, value in facts.items() if not isinstance(value, dict)]
    width = max(map(len, single), default=0)
    out = []
    for name, value in facts.items():
        if isinstance(value, dict):
            out += [f"{indent}{name}", *lines(value, indent + "  ")]
        else:
            text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else value
            out.append(f"{indent}{name:<{width}}  {text}")
    return out


def _versions() -> dict[str, Any]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found | {"python": platform.python_version(), "system": platform.platform()}


def _table(path: Path, written: dict[str, Any]) -> dict[str, Any]:
    from bagwise.bags.tables.files import existing, kind_of, open_table, parquet_dataset
    from bagwise.bags.tables.frames import Cells

    if kind_of(existing(path)) == "parquet":
        table = parquet_dataset(path)  # of which only the footers are read
        rows = table.count_rows()
    else:
        table = open_table(path, cells=Cells.of(**written))
        rows = table.num_rows
    columns = {field.name: str(field.type) for field in table.schema}
    return {"rows": int(rows), "columns": columns}


def _model(path: Path) -> dict[str, Any]:
    from bagwise.estimators.saving import is_sums, open_sums, read_header

    if is_sums(str(path)):
        sums, schema = open_sums(path)
        return {
            "bags": sums.n_bags,
            "labels": int(sums.labelled.sum()),
            "points": sums.n_points,
            "features": sums.features.n_outputs,
            "refit": sums.has_scatter,
            "batches": len(sums.batches),
            "state": sums.state,
            "schema": schema,
        }
    return read_header(path).to_dict()
