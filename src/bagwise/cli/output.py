"""Output: columns to a file, by its ending, which is whole or not there."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bagwise._utils.atomic import replacing
from bagwise.cli.shell import plain
from bagwise.exceptions import BagwiseError

ENDINGS = (".csv", ".csv.gz", ".tsv", ".parquet", ".json")


def check_ending(path: Path) -> str:
    """Return the ending by which a table is written, before any work is done for it."""
    for ending in sorted(ENDINGS, key=len, reverse=True):
        if path.name.lower().endswith(ending):
            return ending
    raise BagwiseError.because(
        f"--out is {path.name!r}", f"a name that ends in {', '.join(ENDINGS)}", "Add an ending."
    )


def check_folder(path: Path) -> None:
    """Raise unless a file could be made there, before any work is done for it."""
    if path.is_dir():
        raise BagwiseError.because(
            f"--out {path} is a folder", "the name of a file", "Add a name to it."
        )
    if not path.resolve().parent.is_dir():
        raise BagwiseError.because(
            f"there is no folder {path.resolve().parent}",
            "a folder to write to",
            "Make it first, or choose another --out.",
        )


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns of equal length as CSV, TSV, Parquet or JSON (a list of rows)."""
    ending = check_ending(path)
    lists = dict(zip(columns, map(_plain_list, columns.values()), strict=True))
    with replacing(path) as part:
        if ending == ".parquet":
            import pyarrow as pa
            from pyarrow import parquet

            parquet.write_table(pa.table(lists), part)
            return
        rows = zip(*lists.values(), strict=True)
        opened = gzip.open if ending.endswith(".gz") else open
        with opened(part, "wt", encoding="utf-8", newline="") as file:
            if ending == ".json":
                json.dump([plain(dict(zip(lists, row, strict=True))) for row in rows], file)
            else:
                writer = csv.writer(
                    file, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n"
                )
                writer.writerow(lists)
                writer.writerows(rows)


def _plain_list(values: Any) -> list[Any]:
    """Return a column as a list of what any file can hold: ids of other types become text.

    Examples
    --------
    >>> _plain_list(np.array([1.5, 2.0])), _plain_list(np.array(["2020-01-31"], "datetime64[D]"))
    ([1.5, 2.0], ['2020-01-31'])
    """
    array = np.asarray(values)
    array = array.astype(str) if array.dtype.kind in "mM" else array
    return [
        value if isinstance(value, bool | int | float | str) else str(value)
        for value in array.tolist()
    ]


def prediction_columns(
    prediction: Any, level: float, id_names: tuple[str, ...]
) -> dict[str, np.ndarray]:
    """Return the table of a prediction, its ids under the names of their own columns.

    Standard deviations are called sd, as in the command's help.
    """
    columns = prediction.to_dict(level)
    ids = columns.pop("id")
    if len(id_names) == 1:
        named = {id_names[0]: ids}
    else:
        named = {name: np.array([i[k] for i in ids]) for k, name in enumerate(id_names)}
    if "size" in columns and np.all(columns["size"] % 1 == 0):  # weighted bags have other sizes
        columns["size"] = columns["size"].astype(np.int64)
    rest = {("sd" if name == "std" else name): values for name, values in columns.items()}
    return {(f"bag_{name}" if name in rest else name): v for name, v in named.items()} | rest
