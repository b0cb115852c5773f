"""Schema: which columns of a table are what, as a user says and as learnt from one table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import chain
from typing import Any, Required, Self, TypedDict

import narwhals as nw
import numpy as np
from jaxtyping import Bool, Float, Int, Int64, Shaped

from bagwise.bags.grouping import first_appearance
from bagwise.bags.per_bag import check_single, missing
from bagwise.bags.tables.census import Category, Lessons, Place, Rows, check_categories
from bagwise.bags.tables.frames import (
    PLAIN,
    Cells,
    Table,
    Tally,
    check_present,
    label_values,
    listing,
    name_list,
    numbers,
    open_frame,
    tally_of,
    values,
    why_no_numbers,
    without_codes,
)
from bagwise.bags.tables.read_report import SHOWN, by_column, count, some
from bagwise.bags.validation import first_unusable, no_bags, show
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

MISSING = ("error", "drop", "impute")  # what to do about missing values

Gaps = dict[str, Bool[np.ndarray, " n_rows"]]  # column ↦ where it is missing


@dataclass(frozen=True)
class Schema:
    """Which columns of a table are what: learnt in training, and used again for prediction.

    Attributes
    ----------
    bag : columns of the bag id; several make a composite id
    features, covariates : source columns, before one-hot encoding
    one_hot : column ↦ the categories it had in training; none: not learnt yet
    missing : {"error", "drop", "impute"}
        What to do with a row that has a missing value (NaN or null). Labels are never imputed:
        ``"impute"`` drops rows without one.
    fill : column ↦ what is put in place of missing values: the training median
    cells : how numbers and missing values are written
    left_out : columns that were there in training and are not used, and why

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"id": [1, 1, 2], "x": [0.5, None, 2.5], "colour": ["red", "blue", "red"]})
    >>> schema = Schema(("id",), ("x", "colour"), one_hot={"colour": ()}, missing="impute")
    >>> schema = schema.learnt([open_frame(table)])
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
        encoded = self.one_hot
        names = ([f"{n}={c}" for c in encoded[n]] if n in encoded else [n] for n in columns)
        return tuple(chain.from_iterable(names))

    @property
    def lacks(self) -> bool:
        """Whether categories or medians are still to be learnt."""
        unknown = self.missing == "impute" and not set(self.numeric) <= set(self.fill)
        return unknown or not all(self.one_hot.values())

    def sources(self, features: Iterable[int]) -> tuple[str, ...]:
        """Return the columns all of whose features, after one-hot encoding, are among these."""
        found, start, there = [], 0, set(features)
        for name in self.features:
            n = len(self.one_hot.get(name, (name,)))
            if there.issuperset(range(start, start + n)):
                found.append(name)
            start += n
        return tuple(found)

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

    def values(self, table: Table, name: str) -> Shaped[np.ndarray, " n_rows"]:
        """Return a column of categories with what is missing as it is written here."""
        column = values(table.get_column(name))
        check_single(column, f"column {name!r}")
        return without_codes(column, self.cells, name)

    def arrays(
        self, frame: Any, *, first_row: int | Int[np.ndarray, " n_rows"] | None = None
    ) -> Rows:
        """Read the columns of a data frame or a batch of one, row by row.

        Of a batch, ``first_row`` is the number of the first row, or of each: errors then name the
        row of the whole table. By default they name the row within the bag.
        """
        table = open_frame(frame)
        check_present(table, self.columns)
        ids = table.ids(self.bag)
        place = Place(ids, first_row)
        gaps = self.gaps(table)
        self._check_gaps(gaps, place)
        counts = {name: int(mask.sum()) for name, mask in gaps.items()}
        dropped = self.dropped(gaps, len(table))
        left_out = tuple(column[dropped] for column in ids)
        if dropped.any():
            kept = np.flatnonzero(~dropped)
            place, table = replace(place, kept=kept), table.take(kept)
            gaps = {name: mask[kept] for name, mask in gaps.items()}
        points = self._matrix(table, self.features, gaps, place)
        covariates = self._matrix(table, self.covariates, gaps, place).astype(np.float64)
        weights = self._column(table, self.weights, gaps) if self.weights else None
        return Rows(
            ids=table.ids(self.bag),
            points=points,
            covariates=covariates,
            weights=None if weights is None else weights.astype(np.float64),
            labels=self._labels(table, place),
            left_out=left_out,
            gaps=counts,
        )

    def gaps(self, table: Table) -> Gaps:
        """Return which rows of each column are missing, for the columns that have such rows.

        But for the bag: rows without one are seen to before.
        """
        found = {}
        for name in self.columns[len(self.bag) :]:
            if name in self.one_hot:
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

    def learnt(self, tables: Iterable[Table], sample_rows: float = math.inf) -> Self:
        """Return the schema with categories and, to impute, medians of the rows of a table.

        The table comes in batches, all of whose rows have a bag; if it has more than
        ``sample_rows``, so many drawn at random stand for all. Categories that are given already
        stay. Rows that are dropped teach nothing; medians of covariates are of bags, each of which
        counts once.
        """
        lessons = Lessons(self, sample_rows)
        for table in tables:
            lessons.add(table)
        return self.taught(lessons)

    def taught(self, lessons: Lessons) -> Self:
        """Return the schema with the categories and medians of rows that are known."""
        if not lessons.n_kept:
            raise nothing_left(lessons.gaps, lessons.n_rows)
        one_hot, fill = self.one_hot | lessons.one_hot(), self.fill | lessons.fill()
        return replace(self, one_hot=one_hot, fill=fill)

    def dropped(self, gaps: Gaps, n_rows: int) -> Bool[np.ndarray, " n_rows"]:
        """Which rows are left out: with ``"impute"``, only those without a label."""
        dropped = np.zeros(n_rows, dtype=bool)
        for name, mask in gaps.items():
            if self.missing == "drop" or (self.missing == "impute" and name == self.label):
                dropped |= mask
        return dropped

    def _check_gaps(self, gaps: Gaps, place: Place) -> None:
        """Raise where a missing value can be neither dropped nor imputed."""
        if gaps and self.missing == "error":
            raise self._missing(gaps, place)
        for name in self.one_hot:
            if name in gaps and self.missing == "impute":
                raise InvalidBagsError.because(
                    f"{place.first(gaps[name])}, column {name!r} is missing, and it has categories",
                    'numbers where missing="impute" is to put the median',
                    'Use missing="drop", or give the missing values a category of their own, such '
                    'as "unknown".',
                )

    def _missing(self, gaps: Gaps, place: Place) -> BagwiseError:
        """Return the error for missing values: of the label only if nothing else is missing."""
        counts = {name: int(mask.sum()) for name, mask in gaps.items() if name != self.label}
        name = next(iter([*counts, *gaps]))
        found, so_far = place.first(gaps[name]), "" if place.first_row is None else " so far"
        if name == self.label:
            mask = gaps[name]
            bags = place.bags(mask)
            number = f"{count(int(mask.sum()), 'row')} of {count(len(bags), 'bag')}{so_far}"
            return InvalidLabelsError.because(
                f"{found}, label column {name!r} is missing ({number}: {some(bags)})",
                "a label for every bag",
                'Fill it in, or leave these bags out with missing="drop".',
            )
        role = {self.weights: "weight column"} | dict.fromkeys(self.covariates, "covariate column")
        number = f"{count(sum(counts.values()), 'missing value')}{so_far}"
        return InvalidBagsError.because(
            f"{found}, {role.get(name, 'column')} {name!r} is missing "
            f"({number}: {by_column(counts)})",
            "a value in every row",
            'Leave such rows out with missing="drop", or put the median of the column there with '
            'missing="impute".',
        )

    def _labels(self, table: Table, place: Place) -> Shaped[np.ndarray, " n_rows"] | None:
        """Return the labels, if there are any; raise if one is infinite."""
        if self.label is None:
            return None
        labels = label_values(table, self.label, self.cells)
        odd = np.isinf(labels) if labels.dtype.kind == "f" else np.zeros(0, dtype=bool)
        if odd.any():
            value = float(labels[odd][0])
            raise InvalidLabelsError.because(
                f"{place.first(odd)}, label column {self.label!r} is {value}",
                "a finite number",
                f"Correct it; or leave such bags out: na_values={str(value)!r} (--na) with "
                'missing="drop".',
            )
        return labels

    def _matrix(
        self, table: Table, columns: tuple[str, ...], gaps: Gaps, place: Place
    ) -> Float[np.ndarray, "n_rows n_columns"]:
        """Return columns side by side, encoded and imputed: float32 if all numbers are.

        Of a batch of a larger table they are stored by column, as they come: what is done to
        columns is ten times as fast then. Points that are kept are stored by row.
        """
        layout: Any = "C" if place.first_row is None else "F"
        types = [table.dtype(name) for name in columns if name not in self.one_hot]
        single = bool(types) and all(isinstance(dtype, nw.Float32) for dtype in types)
        names = self._names(columns)
        dtype = np.float32 if single else np.float64
        encoded = any(name in self.one_hot for name in columns)
        new = np.zeros if encoded else np.empty  # ones are put among zeros
        out = new((len(table), len(names)), dtype, order=layout)
        start = 0
        for name in columns:
            if name in self.one_hot:
                out[np.arange(len(table)), start + self._codes(table, name, place)] = 1
                start += len(self.one_hot[name])
            else:
                out[:, start] = self._column(table, name, gaps)
                start += 1
        if (found := first_unusable(out)) is not None:  # missing ones were seen to before
            raise InvalidBagsError.because(
                f"{place.of(found[0])}, column {names[found[1]]!r} is {out[found]}",
                "a finite number",
                "Drop the point or correct the value.",
            )
        return out

    def _column(self, table: Table, name: str, gaps: Gaps) -> Float[np.ndarray, " n_rows"]:
        """Return a column of numbers, imputed if the schema does that."""
        column = self.numbers(table, name)
        if self.missing != "impute" or name not in gaps:
            return column
        return np.where(gaps[name], column.dtype.type(self.fill[name]), column)

    def _codes(self, table: Table, name: str, place: Place) -> Int64[np.ndarray, " n_rows"]:
        """Return the number of the category in each row."""
        known = {category: code for code, category in enumerate(self.one_hot[name])}
        column = self.values(table, name)
        inverse, heads = first_appearance(column)
        distinct = column[heads].tolist()
        codes = np.array([known.get(value, -1) for value in distinct], dtype=np.int64)[inverse]
        strange = np.flatnonzero(codes < 0)
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
        return {item.name: getattr(self, item.name) for item in fields(self)} | {
            "cells": self.cells.to_dict()
        }

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """Return the schema that :meth:`to_dict` wrote; whatever else comes is refused by name.

        Examples
        --------
        >>> schema = Schema(("id",), ("x",), label="y")
        >>> Schema.from_dict(schema.to_dict()) == schema
        True
        """
        names = [item.name for item in fields(cls)]
        later = {"cells": PLAIN.to_dict(), "left_out": {}}  # not in files of before
        data = later | data if isinstance(data, dict) else data
        if not isinstance(data, dict) or set(data) != set(names):
            keys = sorted(map(str, data)) if isinstance(data, dict) else type(data).__name__
            raise damaged(f"is {keys}", f"the entries {', '.join(names)}")
        for name, check, expected in STORED:
            if not check(data[name]):
                raise damaged(f"has {name} = {str(data[name])[:60]!r}", expected)
        one_hot = {name: check_categories(given, name) for name, given in data["one_hot"].items()}
        fill = {name: float(value) for name, value in data["fill"].items()}
        columns = {name: tuple(data[name]) for name in ("bag", "features", "covariates")}
        try:
            cells = Cells.from_dict(data["cells"])
        except (BagwiseError, KeyError, TypeError, ValueError) as error:
            found = f"has cells = {str(data['cells'])[:60]!r}"
            raise damaged(found, "marks, and codes by column") from error
        schema = cls(**data | columns | {"one_hot": one_hot, "fill": fill, "cells": cells})
        schema._check_stored()
        return schema

    def _check_stored(self) -> None:
        """Raise unless the entries fit together."""
        columns = self.columns
        if len(set(columns)) < len(columns):
            raise damaged(f"uses a column twice among {some(columns, 20)}", "one role per column")
        if not set(self.one_hot) <= {*self.features, *self.covariates}:
            raise damaged(f"encodes {some(self.one_hot)}", "features or covariates to be encoded")
        if set(self.fill) != (set(self.numeric) if self.missing == "impute" else set()):
            raise damaged(
                f"has values to impute for {some(self.fill) or 'no column'}",
                "one for every column of numbers if missing values are imputed, else none",
            )


def nothing_left(gaps: dict[str, int], n_rows: int) -> InvalidBagsError:
    """Return the error for a table of which no row can be used."""
    if not gaps:
        return no_bags()
    return InvalidBagsError.because(
        f"every one of {count(n_rows, 'row')} has a missing value ({by_column(gaps)})",
        "at least one complete row",
        'Leave out the columns that are mostly empty, or use missing="impute".',
    )


def damaged(found: str, expected: str) -> BagwiseError:
    """Return the error of a stored schema that cannot be used."""
    return BagwiseError.because(
        f"the stored schema {found}",
        expected,
        "The file was changed or is damaged: train and save the model again.",
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)


def _is_dict(value: Any, check: Callable[[Any], bool]) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str) and check(entry) for name, entry in value.items()
    )


def _is_categories(value: Any) -> bool:
    several = isinstance(value, list | tuple) and len(value) > 0
    return several and all(isinstance(category, str | int | float) for category in value)


def _is_number(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and bool(np.isfinite(value))


# Entry of a stored schema, what it must be, and how to say so.
STORED = (
    ("bag", lambda v: _is_names(v) and len(v) > 0, "a list of at least one column name"),
    ("features", _is_names, "a list of column names"),
    ("features", len, "at least one column name"),
    ("covariates", _is_names, "a list of column names"),
    ("weights", lambda v: isinstance(v, str | None), "a column name or nothing"),
    ("label", lambda v: isinstance(v, str | None), "a column name or nothing"),
    ("one_hot", lambda v: _is_dict(v, _is_categories), "the categories of some columns"),
    ("missing", lambda v: isinstance(v, str) and v in MISSING, f"one of {', '.join(MISSING)}"),
    ("fill", lambda v: _is_dict(v, _is_number), "a finite number for some columns"),
    ("cells", lambda v: isinstance(v, dict) and set(v) == set(Cells().to_dict()), "marks"),
    (
        "left_out",
        lambda v: _is_dict(v, lambda why: isinstance(why, str)),
        "a reason for some columns",
    ),
)


# Row numbers that pandas and R write beside the data: they are no features unless asked for.
ROW_NUMBERS = ("", "__index_level_0__")


class TableRoles(TypedDict, total=False):
    """The options of ``Bags.from_frame`` and its kin, but for the label, for type checkers."""

    bag: Required[Any]
    features: Any
    covariates: Any
    weights: str | None
    labels: Any
    one_hot: Any
    missing: str
    na_values: Any
    decimal: str
    thousands: str | None
    ignore: Any


class FileRoles(TableRoles, total=False):
    """The options of ``Bags.from_csv`` and its kin."""

    sep: str | None


class ScanOptions(FileRoles, total=False):
    """The options of ``Bags.scan_parquet``."""

    progress: bool
    batch_rows: int
    engine: Any
    piece_rows: int | None


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are to be, and how its cells are written.

    :meth:`bagwise.Bags.from_frame` says what each means; ``sep`` is between the fields of CSV.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from bagwise.bags.tables.frames import open_frame
    >>> table = open_frame(pa.table({"id": ["a"], "x": [1.0], "kind": ["u"], "note": ["-"]}))
    >>> schema = Roles("id", one_hot="kind").schema(table)
    >>> schema.features, schema.left_out
    (('x', 'kind'), {'note': "text, such as '-'"})
    """

    bag: Any
    features: Any = None
    covariates: Any = ()
    weights: str | None = None
    label: str | None = None
    one_hot: Any = ()
    missing: str = "error"
    na_values: Any = ()
    sep: str | None = None
    decimal: str = "."
    thousands: str | None = None
    ignore: Any = ()

    def __post_init__(self) -> None:
        for role, name in (("label", self.label), ("weights", self.weights)):
            if name is not None and not isinstance(name, str):
                raise BagwiseError.because(
                    f"{role} is a {type(name).__name__}, {show(name)}",
                    "the name of one column",
                    "Give it as a string.",
                )

    @cached_property
    def cells(self) -> Cells:
        """How numbers and missing values are written."""
        return Cells.of(self.sep, self.decimal, self.thousands, self.na_values)

    @property
    def numeric(self) -> list[str]:
        """Columns that have to be numbers because they are named so."""
        weights = [] if self.weights is None else [self.weights]
        named = [*name_list(self.features), *name_list(self.covariates), *weights]
        encoded = set(name_list(self.one_hot))
        return [name for name in named if name not in encoded]

    @property
    def others(self) -> list[str]:
        """Columns that are named, but for the features."""
        singles = [name for name in (self.weights, self.label) if name is not None]
        return [*name_list(self.bag), *name_list(self.covariates), *singles]

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that is named."""
        return (*self.others, *name_list(self.features), *name_list(self.one_hot))

    def schema(
        self, table: Table, labels: Table | None = None, tallies: Mapping[str, Tally] | None = None
    ) -> Schema:
        """Return the schema for this table of points, with categories and medians to be learnt.

        Label and covariates may be in a table of ``labels``. ``tallies`` are those of columns that
        may hold numbers, if the rows of the table are not all there are.
        """
        bag, covariates, others = name_list(self.bag), name_list(self.covariates), self.others
        categories = self._categories()
        elsewhere = set() if labels is None else set(labels.columns) - set(bag)
        ignored = name_list(self.ignore)
        check_present(table, [name for name in (*others, *ignored) if name not in elsewhere])
        left_out: dict[str, str] = {}
        if self.features is None:
            check_present(table, [name for name in categories if name not in others])
            known: dict[str, Any] = dict.fromkeys(ignored, "")
            known |= {**dict.fromkeys(categories), **dict.fromkeys(others, "")}
            reasons = {
                name: known[name] if name in known else self._why_not(table, name, tallies)
                for name in table.columns
            }
            features = [name for name, why in reasons.items() if why is None]
            left_out = {name: why for name, why in reasons.items() if why}
            if labels is not None and not covariates:
                spare = [n for n in labels.columns if n not in known and n not in table.columns]
                left_out |= dict.fromkeys(spare, "of the labels table, not named as a covariate")
        else:
            features = name_list(self.features)
            check_present(table, features)
        self._check([*others, *ignored], features, left_out)
        odd = [name for name in categories if name not in {*features, *covariates}]
        if odd:
            raise InvalidBagsError.because(
                f"column {odd[0]!r} is to be one-hot encoded but is neither a feature nor a "
                "covariate",
                f"one of {listing([*features, *covariates])}",
                "Add it to the features or covariates, or remove it from one_hot.",
            )
        own = labels is None or self.label not in elsewhere
        self._check_label(table if own else labels, tallies if own else None)
        return Schema(
            bag=tuple(bag),
            features=tuple(features),
            covariates=tuple(covariates),
            weights=self.weights,
            label=self.label,
            one_hot=categories,
            missing=self.missing,
            cells=self.cells,
            left_out=left_out,
        )

    def _why_not(self, table: Table, name: str, tallies: Mapping[str, Tally] | None) -> str | None:
        """Say why a column is no feature unless it is named, None if it is one; raise if unsure."""
        if name in ROW_NUMBERS:
            return "row numbers"
        tally = tally_of(table, name, self.cells) if tallies is None else tallies.get(name)
        refusal = None if tally is None else tally.refusal()
        if refusal is not None:
            raise refusal
        return why_no_numbers(table, name, tally)

    def _check_label(self, table: Any, tallies: Mapping[str, Tally] | None) -> None:
        """Raise if labels are measurements but for some: they would be taken for classes."""
        if self.label is None:
            return
        tally = (tallies or {}).get(self.label) or tally_of(table, self.label, self.cells)
        refusal = tally.refusal(InvalidLabelsError) if tally and tally.measured else None
        if refusal is not None:
            raise refusal

    def _categories(self) -> dict[str, tuple[Category, ...]]:
        """Return the categories of each column to encode, none for those to be learnt."""
        if not isinstance(self.one_hot, Mapping):
            return {name: () for name in name_list(self.one_hot)}
        for name, categories in self.one_hot.items():
            if isinstance(categories, str) or not len(categories):
                raise InvalidBagsError.because(
                    f"one_hot has {categories!r} for column {name!r}",
                    "a list with at least one category",
                    f"Write one_hot={{{name!r}: [...]}}, or one_hot={name!r} to take those that "
                    "occur.",
                )
        return {str(n): check_categories(given, str(n)) for n, given in self.one_hot.items()}

    def _check(self, others: list[str], features: list[str], left_out: dict[str, str]) -> None:
        """Raise unless there are a bag, some features and a known way with missing values.

        Nor may a column have two roles: a bag id or label among the features leaks the answer.
        """
        twice = [name for name, times in Counter([*others, *features]).items() if times > 1]
        if twice:
            raise InvalidBagsError.because(
                f"column {twice[0]!r} is used twice",
                "each column as bag, feature, covariate, weight or label, or ignored: one of them",
                "Remove it from one, or copy it under another name if both are meant.",
            )
        if not name_list(self.bag):
            raise InvalidBagsError.because(
                "no bag column is named", "at least one", "Say which column has the bag of a row."
            )
        if self.missing not in MISSING:
            raise BagwiseError.because(
                f"missing = {self.missing!r}",
                f"one of {listing(MISSING)}",
                'Use "drop" to leave rows out, "impute" to fill in medians.',
            )
        if not features:
            shown = list(left_out.items())[:SHOWN]
            raise InvalidBagsError.because(
                "no feature columns are left"
                + "".join(f"; {name!r} is left out ({why})" for name, why in shown),
                "at least one numeric column besides the bag, covariates, weights and label",
                "Name the columns of the points with features=[...].",
            )
