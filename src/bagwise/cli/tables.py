"""Tables as the commands write them: CSV, TSV, Parquet or JSON."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from bagwise.cli.options import Format
from bagwise.cli.shell import STDOUT, Output, WrongLine, plain, say
from bagwise.exceptions import BagwiseError

BINARY = (Format.CSV_GZ, Format.PARQUET)

# What makes a spreadsheet take a cell for a formula, also in the wide forms of East Asian text.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def format_of(path: Path, asked: Format | None = None) -> Format:
    """Return how a table is written, before any work is done for it.

    Examples
    --------
    >>> format_of(Path("p.csv.gz")).value, format_of(Path("-")).value
    ('csv.gz', 'csv')
    """
    if path == STDOUT:
        return asked or Format.CSV
    ends = [f for f in sorted(Format, key=len) if path.name.lower().endswith(f".{f.value}")]
    if not ends and asked is None:
        raise BagwiseError.because(
            f"--out is {path.name!r}",
            f"a name that ends in {', '.join(f'.{known.value}' for known in Format)}",
            "Add an ending, or say --format.",
        )
    if ends and asked not in (None, ends[-1]):
        raise WrongLine.because(
            f"--out {path.name!r} ends in .{ends[-1].value} and --format is {asked.value}",
            "two that agree",
            "Leave --format out, or rename the file.",
        )
    return asked or ends[-1]


def table_output(path: Path | None, asked: Format | None, *, force: bool) -> Output | None:
    """Return where a table goes, if it goes anywhere, after a look at the ending of its name."""
    if path is None:
        if asked is not None:
            raise WrongLine.because(
                f"--format is {asked.value} without --out",
                "a place for the table",
                "Add --out - for standard output, or --out FILE.",
            )
        return None
    if path != STDOUT:
        Output(path).check_place()
    return Output(path, force, text=format_of(path, asked) not in BINARY)


def write_table(
    columns: Mapping[str, Any], out: Output, asked: Format | None = None, *, safe: bool = False
) -> None:
    """Write columns of equal length; ``safe``: text that looks like a formula gets an apostrophe.

    JSON is a list of rows.
    """
    form = format_of(out.path, asked)
    lists = dict(zip(columns, map(_plain_list, columns.values()), strict=True))
    if form == Format.PARQUET:
        import pyarrow as pa
        from pyarrow import parquet

        table = pa.table(lists)
        with out.opened() as file:
            parquet.write_table(table, file)
    elif form == Format.JSON:
        rows = zip(*lists.values(), strict=True)
        text = json.dumps([plain(dict(zip(lists, row, strict=True))) for row in rows])
        with out.opened() as file:
            file.write(text.encode())
    else:
        cells = [[name, *values] for name, values in lists.items()]
        cells = _without_formulas(cells) if safe else cells
        with out.opened() as file:
            _write_rows(file, cells, form)


def write_explanation(
    explanation: Any, out: Output, asked: Format | None = None, *, safe: bool = False
) -> None:
    """Write a row per point: its columns, its share of the bag if these differ, and what it adds.

    As JSON, all that is known.
    """
    if format_of(out.path, asked) == Format.JSON:
        text = json.dumps(plain(explanation.to_dict()), allow_nan=False)
        with out.opened() as file:
            file.write(text.encode())
        return
    columns = dict(zip(explanation.column_names, explanation.bag_points.T, strict=True))
    added = {"contribution": explanation.points}
    if explanation.weighed:
        added = {"share": explanation.shares} | added
    taken = ("row", *added)
    named = {(f"column_{name}" if name in taken else name): v for name, v in columns.items()}
    table = {"row": np.arange(explanation.size)} | named | added
    write_table(table, out, asked, safe=safe)


def _write_rows(file: BinaryIO, columns: list[list[Any]], form: Format) -> None:
    # Without a name and a time in the gzip header, the same table is the same file.
    packed = gzip.GzipFile("", "wb", fileobj=file, mtime=0) if form == Format.CSV_GZ else file
    text = io.TextIOWrapper(packed, encoding="utf-8", newline="")
    delimiter = "\t" if form == Format.TSV else ","
    csv.writer(text, delimiter=delimiter, lineterminator="\n").writerows(zip(*columns, strict=True))
    text.flush()
    text.detach()
    if packed is not file:
        packed.close()


def _without_formulas(columns: list[list[Any]]) -> list[list[Any]]:
    """Put an apostrophe before text that a spreadsheet would take for a formula, and say so."""
    risky = sum(_is_formula(cell) for column in columns for cell in column)
    if risky:
        say(f"note: {risky:,} cells of text look like formulas; an apostrophe stands before them")
    return [[f"'{cell}" if _is_formula(cell) else cell for cell in column] for column in columns]


def _is_formula(cell: Any) -> bool:
    return isinstance(cell, str) and cell.startswith(FORMULA)


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
