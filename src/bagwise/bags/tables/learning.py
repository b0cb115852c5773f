"""Learning what a schema lacks, categories and medians, from rows that come in batches."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float64, Int64, Shaped

from bagwise.bags.grouping import first_appearance, missing
from bagwise.bags.tables.census import BagCounts
from bagwise.bags.tables.frames import Table
from bagwise.bags.tables.rows import Sample
from bagwise.exceptions import InvalidBagsError

if TYPE_CHECKING:
    from bagwise.bags.tables.schema import Schema

# Numbers of columns whose medians are taken together: to begin takes longer than a short column.
MEDIAN_NUMBERS = 1 << 20
# Numbers of a sample that stands for all rows when medians are learnt.
SAMPLE_NUMBERS = 1 << 24

Category = str | int | float | bool


class Lessons:
    """What rows teach a schema, as batches come: categories and medians."""

    def __init__(self, schema: Schema, sample_rows: float) -> None:
        self._schema, self._bags = schema, BagCounts()
        impute = schema.numeric if schema.missing == "impute" else []
        self._per_bag = [name for name in impute if name in schema.covariates]
        self._per_row = [name for name in impute if name not in schema.covariates]
        if sample_rows < math.inf:
            sample_rows = min(sample_rows, SAMPLE_NUMBERS // max(1, len(self._per_row)))
        self._sample = Sample(sample_rows, np.random.default_rng(0))
        self._of_bags = Sample(math.inf, np.random.default_rng(0))
        self._categories: dict[str, dict[Any, None]] = {
            name: {} for name, categories in schema.one_hot.items() if not categories
        }

    def add(self, table: Table, rows: Int64[np.ndarray, " k"]) -> None:
        """Learn from some rows of a table."""
        if self._per_row:
            self._sample.add(self._numbers(table, self._per_row, rows))
        if self._per_bag:
            ids = tuple(column[rows] for column in table.ids(self._schema.bag))
            first = rows[self._bags.add(ids).first_rows()]
            self._of_bags.add(self._numbers(table, self._per_bag, first))
        for name, found in self._categories.items():
            column = self._schema.values(table, name)[rows]
            found |= dict.fromkeys(column[first_appearance(column)[1]].tolist())

    def _numbers(
        self, table: Table, names: list[str], rows: Int64[np.ndarray, " k"]
    ) -> Float64[np.ndarray, "k q"]:
        columns = [self._schema.numbers(table, name)[rows] for name in names]
        return np.column_stack(columns).astype(np.float64, copy=False)

    def one_hot(self) -> dict[str, tuple[Category, ...]]:
        """Return the categories of the columns that had none."""
        return {
            name: learn_categories(np.array([*found, None], dtype=object), name)
            for name, found in self._categories.items()
        }

    def fill(self) -> dict[str, float]:
        """Return what to put in place of missing values."""
        parts = ((self._per_row, self._sample), (self._per_bag, self._of_bags))
        return {
            name: value
            for names, sample in parts
            if names
            for name, value in zip(names, medians(names, sample.rows()), strict=True)
        }


def medians(names: list[str], rows: Float64[np.ndarray, "n q"]) -> list[float]:
    """Return the medians of the finite numbers of columns, to put in place of missing ones.

    Examples
    --------
    >>> medians(["x", "y"], np.array([[1.0, 3.0], [np.nan, 1.0], [4.0, 2.0]]))
    [2.5, 2.0]
    """
    found: list[float] = []
    step = max(1, MEDIAN_NUMBERS // max(1, len(rows)))
    for start in range(0, len(names), step):
        columns = np.array(rows[:, start : start + step].T, order="C")
        columns[np.isinf(columns)] = np.nan
        empty = np.isnan(columns).all(axis=1)
        if empty.any():
            raise InvalidBagsError.because(
                f"column {names[start + int(np.argmax(empty))]!r} has no value at all",
                "at least one number to take the median of",
                "Leave it out of the features and covariates.",
            )
        found += np.nanmedian(columns, axis=1).tolist()
    return found


def learn_categories(column: Shaped[np.ndarray, " n_rows"], name: str) -> tuple[Category, ...]:
    """Return the distinct values of a column in order, without those that are missing.

    Whole numbers are integers, whatever the column's type: a library that has no missing integers
    makes floats of them.

    Examples
    --------
    >>> learn_categories(np.array(["red", "blue", None, "red"], dtype=object), "colour")
    ('blue', 'red')
    >>> learn_categories(np.array([2.0, np.nan, 1.0]), "grade")
    (1, 2)
    """
    column = column[~missing(column)]
    if not len(column):
        raise InvalidBagsError.because(
            f"column {name!r} has no value at all",
            "at least one category to encode",
            "Leave it out of one_hot and of the features.",
        )
    distinct = column[first_appearance(column)[1]]
    return tuple(sorted(check_categories(distinct.tolist(), name)))


def check_categories(categories: Any, name: str) -> tuple[Category, ...]:
    """Return categories as a tuple of distinct strings, numbers or truth values, all of one kind.

    Examples
    --------
    >>> check_categories(["low", 3], "level")
    Traceback (most recent call last):
    ...
    bagwise.exceptions.InvalidBagsError: column 'level' has categories of types int, str; expected
    only text, only numbers or only truth values. Convert the column to text.
    """
    plain = [value.item() if isinstance(value, np.generic) else value for value in categories]
    plain = [int(v) if isinstance(v, float) and v.is_integer() else v for v in plain]
    kinds = {type(value) for value in plain}
    if not (kinds <= {str} or kinds <= {bool} or kinds <= {int, float}):
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise InvalidBagsError.because(
            f"column {name!r} has categories of type{'s' if len(kinds) > 1 else ''} {names}",
            "only text, only numbers or only truth values",
            "Convert the column to text.",
        )
    repeated = [value for value, times in Counter(plain).items() if times > 1]
    if repeated:
        raise InvalidBagsError.because(
            f"column {name!r} has the category {repeated[0]!r} twice",
            "every category once",
            "Remove one of the two.",
        )
    return tuple(plain)
