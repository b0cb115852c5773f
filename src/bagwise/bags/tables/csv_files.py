"""CSV files as pyarrow tables, with errors that say the line."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from bagwise.bags.tables.frames import listing
from bagwise.exceptions import BagwiseError

# What stands for a missing number. Text is only missing if it is empty: "NA" may be Namibia.
NO_NUMBER = ["", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"]
# Ids that would not be the same as numbers: a zero in front, or more digits than a number has.
NOT_A_NUMBER = r"^[+-]?0[0-9]|[0-9]{19}"
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
ENCODING_REMEDY = 'Save it as UTF-8 (in a spreadsheet: "CSV UTF-8"), or convert it with iconv.'


def read_csv(path: Path, columns: Sequence[str] | None = None, ids: Sequence[str] = ()) -> Any:
    """Read a CSV file as a pyarrow Table: numbers, truth values, dates or text by what they hold.

    Parameters
    ----------
    path : Path
        Fields are separated by tabs if it ends in ``.tsv`` or ``.tsv.gz``, else by commas.
    columns : sequence of str, optional
        The columns to read; all by default.
    ids : sequence of str
        Columns that stay text if a number has a zero in front: patient 007 is not patient 7.
    """
    import pyarrow as pa
    from pyarrow import csv as arrow

    names = read_header(path)
    chosen = names if columns is None else [name for name in names if name in columns]
    try:
        table = arrow.read_csv(
            path,
            parse_options=arrow.ParseOptions(delimiter=_separator(path), newlines_in_values=True),
            convert_options=arrow.ConvertOptions(
                include_columns=None if columns is None else chosen,
                column_types={name: pa.string() for name in ids if name in chosen},
                null_values=NO_NUMBER,
            ),
        )
    except PermissionError:
        raise
    except (OSError, ValueError) as error:  # of pyarrow: damaged gz, rows that differ, encoding
        raise _explained(path, error) from error
    if any(pa.types.is_binary(kind) for kind in table.schema.types):
        raise _explained(path, UnicodeError("text that is not UTF-8"))
    if table.num_rows == 0:
        raise BagwiseError.because(
            f"{path} has a header but no rows", "at least one row", "Check how it was written."
        )
    for position, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            column = _text(table.column(position), field.name in ids)
            table = table.set_column(position, field.name, column)
    return table


def read_header(path: Path) -> list[str]:
    """Return the names of the columns of a CSV file."""
    try:
        with _open(path) as file:
            start = file.read(2)
        if start in UTF_16:
            raise UnicodeError("UTF-16")
        with _open_text(path) as file:
            names = next((row for row in csv.reader(file, delimiter=_separator(path)) if row), None)
    except PermissionError:
        raise
    except (OSError, EOFError, UnicodeError, csv.Error) as error:
        raise _explained(path, error) from error
    if names is None:
        raise BagwiseError.because(
            f"{path} is empty",
            "a header with the names of the columns, then one row per point",
            "Check how it was written.",
        )
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        raise BagwiseError.because(
            f"{path} has the one column {names[0]!r}",
            "fields separated by commas (.csv) or tabs (.tsv)",
            "Save it with commas, or give a file with tabs the ending .tsv.",
        )
    return names


def _separator(path: Path) -> str:
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def _open(path: Path) -> Any:
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _open_text(path: Path) -> IO[str]:
    if path.suffix.lower() == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _text(column: Any, is_id: bool) -> Any:
    """Return text with empty fields missing; ids as numbers or dates if all of them are."""
    import pyarrow as pa
    from pyarrow import compute

    column = compute.if_else(compute.equal(column, ""), pa.scalar(None, pa.string()), column)
    if not is_id or compute.any(compute.match_substring_regex(column, NOT_A_NUMBER)).as_py():
        return column
    for kind in (pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")):
        try:
            cast = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        # Two ids that are one number, such as 1 and 1.0, stay two.
        return cast if compute.count_distinct(cast) == compute.count_distinct(column) else column
    return column


def _explained(path: Path, error: Exception) -> BagwiseError:
    """Return the error for a file that cannot be read, with the line if one is to blame."""
    try:
        return _bad_text(path) or _bad_row(path) or _bad(path, error)
    except (OSError, EOFError) as damage:  # of gzip
        return BagwiseError.because(
            f"{path} cannot be unpacked ({' '.join(str(damage).split())})",
            "a whole gzip file",
            "Copy or download it again; if it is not compressed, remove .gz from its name.",
        )


def _bad(path: Path, error: Exception) -> BagwiseError:
    return BagwiseError.because(
        f"{path} cannot be read ({' '.join(str(error).split())[:200]})",
        "a CSV file: a header, then one row per point",
        "Open it and look, or write it again.",
    )


def _bad_text(path: Path) -> BagwiseError | None:
    """Return the error for the first line that is not UTF-8, if there is one."""
    with _open(path) as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                kind = "UTF-16" if number == 1 and line.startswith(UTF_16) else "other than UTF-8"
                return BagwiseError.because(
                    f"{path} is encoded in {kind} (line {number})", "UTF-8", ENCODING_REMEDY
                )
    return None


def _bad_row(path: Path) -> BagwiseError | None:
    """Return the error for the first row with more or fewer fields than the header."""
    try:
        with _open_text(path) as file:
            reader = csv.reader(file, delimiter=_separator(path))
            header = next(row for row in reader if row)
            for row in reader:
                if row and len(row) != len(header):
                    return BagwiseError.because(
                        f"{path}, line {reader.line_num} has {len(row)} fields",
                        f"{len(header)}, as in the header ({listing(header[:5])}"
                        f"{', ...' if len(header) > 5 else ''})",
                        "Complete the line, or put quotes around fields with a separator in them.",
                    )
    except csv.Error:
        return None
    return None
