"""Roles: what a user says about the columns of a table, from which a schema is drafted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Required, TypedDict

from bagwise.bags.grouping import show
from bagwise.bags.tables.cells import Cells, Tally
from bagwise.bags.tables.census import Category, check_categories
from bagwise.bags.tables.frames import (
    Table,
    check_present,
    listing,
    name_list,
    tally_of,
    why_no_numbers,
)
from bagwise.bags.tables.read_report import SHOWN
from bagwise.bags.tables.schema import MISSING, Schema
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

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
