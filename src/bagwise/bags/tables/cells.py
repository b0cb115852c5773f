"""Cells: how the cells of a table are written, and which of them are numbers."""

from __future__ import annotations

import numbers
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

import numpy as np
from jaxtyping import Float64, Shaped

from bagwise.bags.grouping import missing, show
from bagwise.exceptions import BagwiseError, InvalidBagsError

# What stands for a missing number. Text is only missing if it is empty: "NA" may be Namibia.
NO_NUMBER = ("", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None")
# Other ways to write numbers, to be suggested where the given one does not fit: (decimal,
# thousands).
STYLES = ((".", ","), (",", None), (",", "."), (".", " "), (",", " "), (".", "'"), (",", "\u00a0"))
# Cells that are tried in other ways; they decide only which remedy is named.
TRIED = 1000
# So many different numbers in a column of labels are codes of classes; more are measurements.
CLASS_CODES = 10
CODE = re.compile(r"[+-]?0[0-9]")  # 007: a code, of which a number would lose the zeros

NaCode = str | float


@dataclass(frozen=True)
class Cells:
    """How the cells of a table are written.

    Attributes
    ----------
    sep : str or None
        Between the fields of a CSV file; None: as the file's name says.
    decimal, thousands : str, str or None
        The marks in numbers that are text, such as ``1.234,5``.
    na_values : dict of tuples
        Column, or None for all but the bag, ↦ what stands for a missing value there.

    Examples
    --------
    >>> cells = Cells.of(decimal=",", thousands=".", na_values=[-999, "n.d."])
    >>> [cells.number(text) for text in ("1.234,5", "-3", "1.23", "n.d.")]
    [1234.5, -3.0, None, None]
    >>> cells.codes("x")
    (frozenset({'n.d.'}), (-999.0,))
    """

    sep: str | None = None
    decimal: str = "."
    thousands: str | None = None
    na_values: dict[str | None, tuple[NaCode, ...]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        sep: str | None = None,
        decimal: str = ".",
        thousands: str | None = None,
        na_values: Any = (),
    ) -> Self:
        """Check what a user says; na_values are one value, several, or a dict of columns."""
        sep = {"\\t": "\t", "tab": "\t"}.get(sep, sep) if isinstance(sep, str) else sep
        for name, mark in (("sep", sep), ("decimal", decimal), ("thousands", thousands)):
            given = mark is not None or name == "decimal"
            if given and not (isinstance(mark, str) and len(mark) == 1 and _is_mark(mark, name)):
                raise BagwiseError.because(
                    f"{name} = {mark!r}",
                    "one character that is no digit, letter, sign or quotation mark",
                    f'For example {name}="{";" if name == "sep" else ","}".',
                )
        if decimal == thousands:
            raise BagwiseError.because(
                f"decimal and thousands are both {decimal!r}", "two marks", "Change one of them."
            )
        return cls(sep, decimal, thousands, _na_values(na_values))

    def codes(self, name: str) -> tuple[frozenset[str], tuple[float, ...]]:
        """Return what stands for a missing value in a column: as text, and as numbers."""
        if not self.na_values:
            return frozenset(), ()
        given = (*self.na_values.get(None, ()), *self.na_values.get(name, ()))
        texts = frozenset(code for code in given if isinstance(code, str))
        # A code may be written as numbers are in the table, or as they are here.
        values = {cells.number(code): None for code in given for cells in (self, Cells())}
        return texts, tuple(value for value in values if value is not None)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        whole = "[0-9]+"
        if self.thousands is not None:
            whole = rf"(?:[0-9]{{1,3}}(?:{re.escape(self.thousands)}[0-9]{{3}})+|[0-9]+)"
        mark = re.escape(self.decimal)
        return re.compile(
            rf"[+-]?(?:(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:e[+-]?[0-9]+)?|inf|infinity)",
            re.IGNORECASE,
        )

    def number(self, cell: Any) -> float | None:
        """Return the number that a cell is or says, or None."""
        if isinstance(cell, str):
            text = cell.strip()
            if not self._pattern.fullmatch(text):
                return None
            if self.thousands is not None:
                text = text.replace(self.thousands, "")
            return float(text.replace(self.decimal, "."))
        if isinstance(cell, numbers.Real | Decimal | np.bool_):
            try:
                return float(cell)
            except OverflowError:  # an integer of more than 308 digits
                return None
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return these in types that JSON has."""
        return {
            "sep": self.sep,
            "decimal": self.decimal,
            "thousands": self.thousands,
            "na_values": [[column, list(codes)] for column, codes in self.na_values.items()],
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return what :meth:`to_dict` wrote; raise a ValueError or TypeError for anything else."""
        given = {column: tuple(codes) for column, codes in data["na_values"]}
        return cls.of(data["sep"], data["decimal"], data["thousands"], given)


def _is_mark(mark: str, name: str) -> bool:
    quotes = '"' if name == "thousands" else "\"'"  # Switzerland writes 1'234
    return (
        mark not in quotes + "+-\r\n\0" and not mark.isalnum() and (name != "sep" or mark < "\x80")
    )


def _na_values(given: Any) -> dict[str | None, tuple[NaCode, ...]]:
    """Return codes by column, None for all columns."""
    if isinstance(given, Mapping):
        return {n if n is None else str(n): _codes(codes) for n, codes in given.items()}
    codes = () if given is None else _codes(given)
    return {None: codes} if codes else {}


def _codes(given: Any) -> tuple[NaCode, ...]:
    several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
    codes = [c.item() if isinstance(c, np.generic) else c for c in (given if several else [given])]
    for code in codes:
        if isinstance(code, bool) or not isinstance(code, str | int | float):
            raise BagwiseError.because(
                f"na_values has {show(code)}",
                "text or numbers that stand for a missing value",
                'For example na_values=[-999, "n.d."], or {"age": 99} for one column.',
            )
    return tuple(codes)


class Tally:
    """How many cells of a column are numbers, as batches of it come.

    Attributes
    ----------
    n_cells, n_numbers : cells that are not missing; those of them that are numbers
    odd : the first cell that is no number, with its row; None if there is none
    code : the first number that would lose zeros in front, such as ``"007"``
    """

    def __init__(self, name: str, cells: Cells) -> None:
        self._name, self._cells, self._n_rows = name, cells, 0
        self._texts, _ = cells.codes(name)
        self._distinct: set[float] = set()
        self._tried: list[str] = []
        self.n_cells, self.n_numbers = 0, 0
        self.odd: tuple[int, Any] | None = None
        self.code: str | None = None

    def add(self, column: Shaped[np.ndarray, " n_rows"]) -> None:
        """Count the cells of some rows."""
        counts: dict[Any, int] = Counter(hashable(column[~missing(column)].tolist()))
        for cell, count in counts.items():
            if self._is_missing(cell):
                continue
            self.n_cells += count
            value = self._cells.number(cell)
            if value is None:
                if self.odd is None:
                    rows = column.tolist()
                    where = list(hashable(rows)).index(cell)
                    self.odd = self._n_rows + where, rows[where]
                if isinstance(cell, str) and len(self._tried) < TRIED:
                    self._tried += [cell] * min(count, TRIED)
                continue
            self.n_numbers += count
            if len(self._distinct) <= CLASS_CODES:
                self._distinct.add(value)
            if self.code is None and isinstance(cell, str) and CODE.match(cell.strip()):
                self.code = cell
        self._n_rows += len(column)

    def merge(self, other: Tally) -> None:
        """Add the count of other rows, which come after these."""
        self.n_cells += other.n_cells
        self.n_numbers += other.n_numbers
        if self.odd is None and other.odd is not None:
            self.odd = self._n_rows + other.odd[0], other.odd[1]
        self.code = self.code or other.code
        self._tried += other._tried[: max(0, TRIED - len(self._tried))]
        self._distinct |= other._distinct
        self._n_rows += other._n_rows

    def _is_missing(self, cell: Any) -> bool:
        return isinstance(cell, str) and (cell.strip() in NO_NUMBER or cell in self._texts)

    @property
    def all_numbers(self) -> bool:
        """Whether every cell that is not missing is a number."""
        return 0 < self.n_cells == self.n_numbers

    @property
    def measured(self) -> bool:
        """Whether the numbers are too many to be codes of classes."""
        return len(self._distinct) > CLASS_CODES

    def floats(self, column: Shaped[np.ndarray, " n_rows"]) -> Float64[np.ndarray, " n_rows"]:
        """Return the cells of a column that are all numbers or missing."""
        absent, cells = missing(column), column.tolist()
        known = {
            cell: np.nan if self._is_missing(cell) else self._cells.number(cell)
            for cell in {c for c, gap in zip(cells, absent, strict=True) if not gap}
        }
        return np.array(
            [np.nan if gap else known[c] for c, gap in zip(cells, absent, strict=True)],
            dtype=np.float64,
        )

    def refusal(self, error: type[BagwiseError] = InvalidBagsError) -> BagwiseError | None:
        """Return the error for a column of which most cells, but not all, are numbers."""
        if self.odd is None:
            return None
        style = self._other_style()
        if self.n_numbers * 2 <= self.n_cells and style is None:
            return None
        row, cell = self.odd
        return error.because(
            f"column {self._name!r}: {self.n_numbers:,} of {self.n_cells:,} are numbers; "
            f"row {row:,} is {show(cell)}",
            "numbers only",
            f"If it is a number, say {style}."
            if style
            else f"Correct the cell, or say na_values={show(cell)} (--na) if it stands for a "
            "missing value; to leave the column out, name the others with features=[...].",
        )

    def _other_style(self) -> str | None:
        """Return the marks with which most cells would be numbers; two if both would do."""
        found: dict[str, float] = {}
        for decimal, thousands in STYLES:
            style = replace(self._cells, decimal=decimal, thousands=thousands)
            parsed = [style.number(cell) is not None for cell in self._tried]
            share = sum(parsed) / max(1, len(parsed))
            rest = self.n_cells - self.n_numbers
            if share > 0.5 and self.n_numbers + share * rest > self.n_cells / 2:
                says = [f"decimal={decimal!r}"] if decimal != self._cells.decimal else []
                says += [f"thousands={thousands!r}"] if thousands else []
                found[" and ".join(says)] = share
        best = [marks for marks, share in found.items() if share == max(found.values())]
        fewest = min((marks.count("=") for marks in best), default=0)
        return " or ".join(marks for marks in best if marks.count("=") == fewest) or None


def hashable(cells: list[Any]) -> Iterator[Any]:
    """Return cells as they are, or as text if they cannot be hashed."""
    for cell in cells:
        try:
            hash(cell)
        except TypeError:
            yield repr(cell)
        else:
            yield cell
