"""Schema: which columns of a table are what, learnt from one table and applied to others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int, Int64, Shaped

from bagwise.bags.grouping import check_single, missing, show
from bagwise.bags.tables.categories import (
    Category,
    check_categories,
    distinct_values,
    learn_categories,
)
from bagwise.bags.tables.cells import Cells
from bagwise.bags.tables.frames import (
    PLAIN,
    Table,
    check_present,
    id_columns,
    is_number,
    label_values,
    numbers,
    open_frame,
    values,
    without_codes,
)
from bagwise.bags.tables.rows import (
    Place,
    Rows,
    check_finite,
    check_labels,
    missing_label,
    missing_value,
    no_bag_id,
    some,
)
from bagwise.bags.tables.stored_schema import check_entries, damaged, stored_cells
from bagwise.bags.validation import check_names
from bagwise.exceptions import BagwiseError, InvalidBagsError

# Numbers of columns whose medians are taken together: to begin takes longer than a short column.
MEDIAN_NUMBERS = 1 << 20

Gaps = dict[str, Bool[np.ndarray, " n_rows"]]  # column ↦ where it is missing


@dataclass(frozen=True)
class Schema:
    """Which columns of a table are what: learnt in training, and used again for prediction.

    Attributes
    ----------
    bag : tuple of str
        Columns of the bag id; several make a composite id.
    features, covariates : tuple of str
        Source columns, before one-hot encoding.
    weights, label : str or None
    one_hot : dict of tuple
        Column ↦ the categories it had in training. An empty tuple: not learnt yet.
    missing : {"error", "drop", "impute"}
        What to do with a row that has a missing value (NaN or null). Labels are never imputed:
        ``"impute"`` drops rows without one.
    fill : dict of float
        Column ↦ what ``missing="impute"`` puts in place of missing values: the training median.
    cells : Cells
        How numbers and missing values are written.
    left_out : dict of str
        Columns that were there in training and are not used, and why.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"id": [1, 1, 2], "x": [0.5, None, 2.5], "colour": ["red", "blue", "red"]})
    >>> schema = Schema(("id",), ("x", "colour"), one_hot={"colour": ()}, missing="impute")
    >>> schema = schema.learnt(table)
    >>> schema.feature_names, schema.fill
    (('x', 'colour=blue', 'colour=red'), {'x': 1.5})
    >>> schema.arrays(table).points
    array([[0.5, 0. , 1. ], [1.5, 1. , 0. ], [2.5, 0. , 1. ]])
    """

    bag: tuple[str, ...]
    features: tuple[str, ...]
    covariates: tuple[str, ...] = ()
    weights: str | None = None
    label: str | None = None
    one_hot: dict[str, tuple[Category, ...]] = field(default_factory=dict)
    missing: str = "error"
    fill: dict[str, float] = field(default_factory=dict)
    cells: Cells = PLAIN
    left_out: dict[str, str] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is read from a table."""
        others = [name for name in (self.weights, self.label) if name is not None]
        return (*self.bag, *self.features, *self.covariates, *others)

    @property
    def numeric(self) -> list[str]:
        """Columns that have to be numbers."""
        sources = [name for name in (*self.features, *self.covariates) if name not in self.one_hot]
        return sources if self.weights is None else [*sources, self.weights]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the features of a point, such as ``"colour=red"`` for a category."""
        return self._names(self.features)

    @property
    def covariate_names(self) -> tuple[str, ...]:
        """Names of the covariates of a bag, after one-hot encoding."""
        return self._names(self.covariates)

    def _names(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for column in columns for name in self._encoded(column))

    def _encoded(self, column: str) -> list[str]:
        if column not in self.one_hot:
            return [column]
        return [f"{column}={category}" for category in self.one_hot[column]]

    def without_label(self) -> Self:
        """Return the schema for tables to predict: the label is not read, even if it is there."""
        return replace(self, label=None)

    def part(self, **changes: Any) -> Self:
        """Return the schema with fewer columns, and what it knows about those."""
        part = replace(self, **changes)
        there = set(part.columns)
        return replace(
            part,
            one_hot={name: c for name, c in self.one_hot.items() if name in there},
            fill={name: value for name, value in self.fill.items() if name in there},
        )

    def numbers(self, table: Table, name: str) -> Float[np.ndarray, " n_rows"]:
        """Return a column of numbers as they are written here; see :func:`frames.numbers`."""
        return numbers(table, name, self.cells)

    def check_numbers(self, table: Table) -> None:
        """Raise if a column of text that has to be numbers is not, with the row of this table."""
        for name in self.numeric:
            if not is_number(table.dtype(name)):
                self.numbers(table, name)

    def values(self, table: Table, name: str) -> Shaped[np.ndarray, " n_rows"]:
        """Return a column of categories with what is missing as it is written here."""
        column = values(table.get_column(name))
        check_single(column, f"column {name!r}")
        return without_codes(column, self.cells, name)

    def arrays(
        self, frame: Any, *, first_row: int | Int[np.ndarray, " n_rows"] | None = None
    ) -> Rows:
        """Read the columns of a data frame or a batch of one, row by row.

        Parameters
        ----------
        frame : pandas or polars DataFrame, pyarrow Table or RecordBatch
        first_row : int or array (n_rows,), optional
            Number of the first row, or of each, if this is a batch: errors then name the row of
            the whole table. By default they name the row within the bag.
        """
        table = open_frame(frame)
        check_present(table, self.columns)
        ids = id_columns(table, self.bag)
        place = Place(ids, first_row)
        gaps = self.gaps(table)
        if gaps:
            self._check_gaps(gaps, place)
        keep = ~self.dropped(gaps, len(table))
        points = self._matrix(table, self.features, gaps, keep, place)
        covariates = self._matrix(table, self.covariates, gaps, keep, place).astype(np.float64)
        weights = self._column(table, self.weights, gaps) if self.weights else None
        check_finite(points, keep, self.feature_names, place)
        check_finite(covariates, keep, self.covariate_names, place)
        labels = label_values(table, self.label, self.cells) if self.label else None
        if labels is not None and self.label is not None:
            check_labels(labels, keep, self.label, place)
        return Rows(
            ids=ids,
            points=points,
            covariates=covariates,
            weights=None if weights is None else weights.astype(np.float64),
            labels=labels,
            keep=keep,
            gaps={name: int(mask.sum()) for name, mask in gaps.items()},
        )

    def gaps(self, table: Table) -> Gaps:
        """Return which rows of each column are missing, for the columns that have such rows."""
        found = {}
        for name in self.columns:
            if name in self.bag:
                mask = missing(values(table.get_column(name)))
            elif name in self.one_hot:
                mask = missing(self.values(table, name))
            elif name == self.label:
                mask = missing(label_values(table, name, self.cells))
            elif not self.cells.na_values and table.is_full(name):
                continue
            else:
                mask = np.isnan(self.numbers(table, name))
            if mask.any():
                found[name] = mask
        return found

    def learnt(self, frame: Any, rows: Any = slice(None)) -> Self:
        """Return the schema with categories and, to impute, medians of the rows of a data frame.

        Categories that are given already stay. Rows that are dropped teach nothing.

        Parameters
        ----------
        frame : pandas or polars DataFrame, or pyarrow Table
        rows : mask, positions or slice, optional
            Rows to learn from.
        """
        table = open_frame(frame)
        gaps = self.gaps(table)
        chosen = np.zeros(len(table), dtype=bool)
        chosen[rows] = True
        chosen &= ~self.dropped(gaps, len(table))
        one_hot = {
            name: categories or learn_categories(self.values(table, name)[chosen], name)
            for name, categories in self.one_hot.items()
        }
        numeric = self.numeric if self.missing == "impute" else []
        fill = medians(numeric, lambda name: self.numbers(table, name)[chosen])
        schema = replace(self, one_hot=one_hot, fill=self.fill | fill)
        check_names(schema.feature_names, len(schema.feature_names), "feature")
        check_names(schema.covariate_names, len(schema.covariate_names), "covariate")
        return schema

    def dropped(self, gaps: Gaps, n_rows: int) -> Bool[np.ndarray, " n_rows"]:
        """Which rows are left out: with ``"impute"``, only those without a label."""
        dropped = np.zeros(n_rows, dtype=bool)
        for name, mask in gaps.items():
            if self.missing == "drop" or (self.missing == "impute" and name == self.label):
                dropped |= mask
        return dropped

    def _check_gaps(self, gaps: Gaps, place: Place) -> None:
        """Raise where a missing value can be neither dropped nor imputed."""
        for name in self.bag:
            if name in gaps and self.missing != "drop":
                raise no_bag_id(name, gaps[name], place)
        if self.missing == "error":
            raise self._missing(gaps, place)
        for name in self.one_hot:
            if name in gaps and self.missing == "impute":
                row = int(np.flatnonzero(gaps[name])[0])
                raise InvalidBagsError.because(
                    f"{place.of(row)}, column {name!r} is missing, and it has categories",
                    'numbers where missing="impute" is to put the median',
                    'Use missing="drop", or give the missing values a category of their own, such '
                    'as "unknown".',
                )

    def _missing(self, gaps: Gaps, place: Place) -> BagwiseError:
        """Return the error for missing values: of the label only if nothing else is missing."""
        points = {name: mask for name, mask in gaps.items() if name != self.label}
        if self.label is not None and not points:
            return missing_label(gaps[self.label], self.label, place)
        name = next(iter(points))
        role = {self.weights: "weight column"} | dict.fromkeys(self.covariates, "covariate column")
        return missing_value(role.get(name, "column"), points, name, place)

    def _matrix(
        self,
        table: Table,
        columns: tuple[str, ...],
        gaps: Gaps,
        keep: Bool[np.ndarray, " n_rows"],
        place: Place,
    ) -> Float[np.ndarray, "n_rows n_columns"]:
        """Return columns side by side, encoded and imputed: float32 if all numbers are."""
        types = [table.dtype(name) for name in columns if name not in self.one_hot]
        single = bool(types) and all(isinstance(dtype, nw.Float32) for dtype in types)
        shape = (len(table), len(self._names(columns)))
        out = np.zeros(shape, dtype=np.float32 if single else np.float64)
        start = 0
        for name in columns:
            if name in self.one_hot:
                codes = self._codes(table, name, keep, place)
                known = codes >= 0
                out[np.flatnonzero(known), start + codes[known]] = 1
                start += len(self.one_hot[name])
            else:
                out[:, start] = self._column(table, name, gaps)
                start += 1
        return out

    def _column(self, table: Table, name: str, gaps: Gaps) -> Float[np.ndarray, " n_rows"]:
        """Return a column of numbers, imputed if the schema does that."""
        column = self.numbers(table, name)
        if self.missing != "impute" or name not in gaps:
            return column
        return np.where(gaps[name], column.dtype.type(self.fill[name]), column)

    def _codes(
        self,
        table: Table,
        name: str,
        keep: Bool[np.ndarray, " n_rows"],
        place: Place,
    ) -> Int64[np.ndarray, " n_rows"]:
        """Return the number of the category in each row, -1 for others in rows not kept."""
        known = {category: code for code, category in enumerate(self.one_hot[name])}
        distinct, inverse = distinct_values(self.values(table, name))
        codes = np.array([known.get(value, -1) for value in distinct], dtype=np.int64)[inverse]
        strange = np.flatnonzero((codes < 0) & keep)
        if len(strange):
            row = int(strange[0])
            raise InvalidBagsError.because(
                f"{place.of(row)}, column {name!r} is {show(distinct[inverse[row]])}, "
                "a category that was not there in training",
                f"one of {some(self.one_hot[name])}",
                "Drop these rows, write the category as one of these, or train again on data that "
                "has it.",
            )
        return codes

    def to_dict(self) -> dict[str, Any]:
        """Return the schema in types that JSON has."""
        return {
            "bag": list(self.bag),
            "features": list(self.features),
            "covariates": list(self.covariates),
            "weights": self.weights,
            "label": self.label,
            "one_hot": {name: list(categories) for name, categories in self.one_hot.items()},
            "missing": self.missing,
            "fill": dict(self.fill),
            "cells": self.cells.to_dict(),
            "left_out": dict(self.left_out),
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the schema that :meth:`to_dict` wrote; whatever else comes is refused by name.

        Examples
        --------
        >>> schema = Schema(("id",), ("x",), label="y")
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
        >>> Schema.from_dict({**schema.to_dict(), "features": "x"})
        Traceback (most recent call last):
        ...
        bagwise.exceptions.BagwiseError: the stored schema has features = 'x'; expected a list of
        column names. The file was changed or is damaged: train and save the model again.
        """
        names = [item.name for item in fields(cls)]
        later = {"cells": PLAIN.to_dict(), "left_out": {}}  # not in files of before
        data = later | data if isinstance(data, dict) else data
        if not isinstance(data, dict) or set(data) != set(names):
            keys = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise damaged(f"is {keys}", f"the entries {', '.join(names)}")
        check_entries(data)
        schema = cls(
            bag=tuple(data["bag"]),
            features=tuple(data["features"]),
            covariates=tuple(data["covariates"]),
            weights=data["weights"],
            label=data["label"],
            one_hot={
                name: check_categories(categories, name)
                for name, categories in data["one_hot"].items()
            },
            missing=data["missing"],
            fill={name: float(value) for name, value in data["fill"].items()},
            cells=stored_cells(data["cells"]),
            left_out=dict(data["left_out"]),
        )
        schema._check_stored()
        return schema

    def _check_stored(self) -> None:
        """Raise unless the entries fit together."""
        columns = self.columns
        if len(set(columns)) < len(columns):
            raise damaged(f"uses a column twice among {some(columns, 20)}", "one role per column")
        sources = {*self.features, *self.covariates}
        if not set(self.one_hot) <= sources:
            raise damaged(f"encodes {some(self.one_hot)}", "features or covariates to be encoded")
        numeric = set(self.numeric)
        if set(self.fill) != (numeric if self.missing == "impute" else set()):
            raise damaged(
                f"has values to impute for {some(self.fill) or 'no column'}",
                "one for every column of numbers if missing values are imputed, else none",
            )


def medians(
    names: Sequence[str], column: Callable[[str], Float[np.ndarray, " n_rows"]]
) -> dict[str, float]:
    """Return the medians of the finite numbers of columns, to put in place of missing ones.

    Examples
    --------
    >>> columns = {"x": np.array([1.0, np.nan, 4.0]), "y": np.array([3.0, 1.0, 2.0])}
    >>> medians(["x", "y"], columns.__getitem__)
    {'x': 2.5, 'y': 2.0}
    """
    found: dict[str, float] = {}
    while len(found) < len(names):
        first = column(names[len(found)])
        step = max(1, MEDIAN_NUMBERS // max(1, len(first)))
        chosen = names[len(found) : len(found) + step]
        rows = np.stack([first, *map(column, chosen[1:])], dtype=np.float64)
        rows[np.isinf(rows)] = np.nan
        empty = np.isnan(rows).all(axis=1)
        if empty.any():
            raise InvalidBagsError.because(
                f"column {chosen[int(np.argmax(empty))]!r} has no value at all",
                "at least one number to take the median of",
                "Leave it out of the features and covariates.",
            )
        found |= zip(chosen, np.nanmedian(rows, axis=1).tolist(), strict=True)
    return found
