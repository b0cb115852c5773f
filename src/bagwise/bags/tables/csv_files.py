"""CSV files as pyarrow tables, with errors that say the line."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bagwise.bags.tables.files import CSV, check_same, files_in, forbidden
from bagwise.bags.tables.frames import NO_NUMBER, PLAIN, Cells, Tally, listing
from bagwise.exceptions import BagwiseError

# Bytes of a block for each column: pyarrow makes an array of each column in each block, which for
# thousands of columns takes longer than to read them. A row has to fit into a block.
BYTES, LARGEST_BLOCK = 4096, 1 << 27
MANY_COLUMNS = 1000  # from which on threads only wait for each other

# Ids that would not be the same as numbers: a zero in front, or more digits than a number has.
NOT_A_NUMBER = r"^[+-]?0[0-9]|[0-9]{19}"
TEXT = {"encoding": "utf-8-sig", "newline": ""}
UTF_16 = (b"\xff\xfe", b"\xfe\xff")
ENCODING_REMEDY = 'Save it as UTF-8 (in a spreadsheet: "CSV UTF-8"), or convert it with iconv.'


def read_csv(path: Path, columns: Sequence[str], ids: Sequence[str], cells: Cells) -> Any:
    """Read some columns as a pyarrow Table: numbers, truth values, dates or text as they look.

    The path is a file, or a folder of files with the same columns. Those of ``ids`` stay text if a
    number has a zero in front: patient 007 is not patient 7.
    """
    import pyarrow as pa

    files = files_in(path, CSV)
    names = read_header(path, cells)
    wanted = set(columns)
    tables = []
    for file in files:
        own = names if len(files) == 1 else _own_header(file, cells)
        check_same(file, files[0], {*own, *folder_values(path, file)}, set(names))
        table = _read(file, [n for n in own if n in wanted], ids, cells)
        for name, value in folder_values(path, file).items():
            if name in wanted:
                table = table.append_column(name, pa.repeat(pa.scalar(value), len(table)))
        tables.append(table)
    table = _together(tables, [n for n in names if n in wanted])
    if table.num_rows == 0:
        raise BagwiseError.because(
            f"{path} has a header but no rows", "at least one row", "Check how it was written."
        )
    columns_read = [
        _text(column, name in ids, cells) if pa.types.is_string(column.type) else column
        for name, column in zip(table.column_names, table.itercolumns(), strict=True)
    ]
    return pa.table(columns_read, names=table.column_names)


def _read(file: Path, columns: Sequence[str], ids: Sequence[str], cells: Cells) -> Any:
    """Read one file."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    texts, _ = cells.codes("")
    parse = arrow.ParseOptions(delimiter=_separator(file, cells), newlines_in_values=True)
    convert = arrow.ConvertOptions(
        include_columns=columns,
        column_types={name: pa.string() for name in ids if name in columns},
        null_values=[*NO_NUMBER, *texts],
        decimal_point=cells.decimal,
    )
    block = max(1 << 20, BYTES * len(columns))
    threads = len(columns) < MANY_COLUMNS
    while True:
        read = arrow.ReadOptions(block_size=block, use_threads=threads)
        try:
            table = arrow.read_csv(
                file, read_options=read, parse_options=parse, convert_options=convert
            )
            break
        except PermissionError as error:
            raise forbidden(file) from error
        except (OSError, ValueError) as error:  # damaged gz, rows that differ, encoding
            if "straddl" not in str(error) or block >= LARGEST_BLOCK:
                raise _explained(file, error, cells) from error
            block *= 8  # a row is longer
    if any(map(pa.types.is_binary, table.schema.types)):
        raise _explained(file, UnicodeError("text that is not UTF-8"), cells)
    return table


def _together(tables: Sequence[Any], names: Sequence[str]) -> Any:
    """Return the rows of several tables; columns of different types become floats, or text."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0].select(names)
    columns = []
    for name in names:
        parts = [table.column(name) for table in tables]
        kinds = {part.type for part in parts if not pa.types.is_null(part.type)} or {pa.null()}
        kind = next(iter(kinds))
        if len(kinds) > 1:
            numeric = all(pa.types.is_integer(k) or pa.types.is_floating(k) for k in kinds)
            kind = pa.float64() if numeric else pa.string()
        chunks = [chunk for part in parts for chunk in part.cast(kind).chunks]
        columns.append(pa.chunked_array(chunks, kind))
    return pa.table(columns, names=list(names))


def folder_values(path: Path, file: Path) -> dict[str, Any]:
    """Return the columns that folders such as ``year=2020`` below a path give to a file in them."""
    if not path.is_dir():
        return {}
    parts = [part.partition("=") for part in file.relative_to(path).parts[:-1] if "=" in part]
    return {name: int(value) if value.isdecimal() else value for name, _, value in parts}


def read_header(path: Path, cells: Cells = PLAIN) -> list[str]:
    """Return the names of the columns of a CSV file, or of a folder of them."""
    file = files_in(path, CSV)[0]
    return [*_own_header(file, cells), *folder_values(path, file)]


def _own_header(path: Path, cells: Cells) -> list[str]:
    """Return the names of the columns that stand in a file."""
    try:
        with _open(path, "rb") as file:
            if file.read(2) in UTF_16:
                raise UnicodeError("UTF-16")
        with _open(path, **TEXT) as file:
            rows = csv.reader(file, delimiter=_separator(path, cells))
            names = next((row for row in rows if row), None)
    except PermissionError as error:
        raise forbidden(path) from error
    except (OSError, EOFError, UnicodeError, csv.Error) as error:
        raise _explained(path, error, cells) from error
    if names is None:
        raise BagwiseError.because(
            f"{path} is empty",
            "a header with the names of the columns, then one row per point",
            "Check how it was written.",
        )
    marks = [mark for mark in ";\t|," if mark in names[0]] if len(names) == 1 else []
    if marks:
        told = "commas (.csv) or tabs (.tsv)" if cells.sep is None else f"{cells.sep!r}, as told"
        raise BagwiseError.because(
            f"{path} has the one column {names[0]!r}",
            f"fields separated by {told}",
            f"Say sep={marks[0]!r} (--sep).",
        )
    return names


def _separator(path: Path, cells: Cells) -> str:
    if cells.sep is not None:
        return cells.sep
    return "\t" if path.name.lower().removesuffix(".gz").endswith(".tsv") else ","


def _open(path: Path, mode: str = "rt", **how: Any) -> Any:
    packed = path.suffix.lower() == ".gz"
    return gzip.open(path, mode, **how) if packed else path.open(mode, **how)


def _text(column: Any, is_id: bool, cells: Cells) -> Any:
    """Return text with empty fields missing; ids as numbers or dates if all of them are.

    What is no id and has marks between thousands is numbers too, if all of it is.
    """
    import pyarrow as pa
    from pyarrow import compute

    column = compute.if_else(compute.equal(column, ""), pa.scalar(None, pa.string()), column)
    if not is_id:
        if cells.thousands is None:
            return column
        tally, values = Tally("", cells), column.to_numpy()
        tally.add(values)
        return pa.array(tally.floats(values), from_pandas=True) if tally.all_numbers else column
    if compute.any(compute.match_substring_regex(column, NOT_A_NUMBER)).as_py():
        return column
    for kind in (pa.int64(), pa.float64(), pa.date32(), pa.timestamp("us")):
        try:
            cast = column.cast(kind)
        except pa.ArrowInvalid:
            continue
        # Two ids that are one number, such as 1 and 1.0, stay two.
        return cast if compute.count_distinct(cast) == compute.count_distinct(column) else column
    return column


def _explained(path: Path, error: Exception, cells: Cells) -> BagwiseError:
    """Return the error for a file that cannot be read, with the line if one is to blame."""
    try:
        return (
            _bad_text(path)
            or _bad_row(path, cells)
            or BagwiseError.because(
                f"{path} cannot be read ({' '.join(str(error).split())[:200]})",
                "a CSV file: a header, then one row per point",
                "Open it and look, or write it again.",
            )
        )
    except (OSError, EOFError) as damage:  # of gzip
        return BagwiseError.because(
            f"{path} cannot be unpacked ({' '.join(str(damage).split())})",
            "a whole gzip file",
            "Copy or download it again; if it is not compressed, remove .gz from its name.",
        )


def _bad_text(path: Path) -> BagwiseError | None:
    """Return the error for the first line that is not UTF-8, if there is one."""
    with _open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                line.decode()
            except UnicodeDecodeError:
                kind = "UTF-16" if number == 1 and line.startswith(UTF_16) else "other than UTF-8"
                return BagwiseError.because(
                    f"{path} is encoded in {kind} (line {number})", "UTF-8", ENCODING_REMEDY
                )
    return None


def _bad_row(path: Path, cells: Cells) -> BagwiseError | None:
    """Return the error for the first row with more or fewer fields than the header."""
    try:
        with _open(path, **TEXT) as file:
            reader = csv.reader(file, delimiter=_separator(path, cells))
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
        pass
    return None
