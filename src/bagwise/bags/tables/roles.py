"""Roles: what a user says about the columns of a table, from which a schema is drafted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Required, TypedDict

import narwhals as nw

from bagwise.bags.tables.categories import Category, check_categories
from bagwise.bags.tables.frames import check_present, listing, name_list
from bagwise.bags.tables.schema import Schema
from bagwise.bags.tables.stored_schema import MISSING
from bagwise.exceptions import BagwiseError, InvalidBagsError

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


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are to be; everything but the bag has a default.

    Attributes
    ----------
    bag : str or sequence of str
        Column(s) with the bag of every row.
    features : sequence of str, optional
        Columns of the points; by default every numeric column that has no other role, and those to
        be one-hot encoded.
    covariates : str or sequence of str
        Columns with one value per bag.
    weights, label : str, optional
        Column of point weights; column with one label per bag.
    one_hot : str, sequence of str, or dict
        Features or covariates to encode as one 0/1 column per category; a dict says which
        categories there are.
    missing : {"error", "drop", "impute"}
        What to do about missing values.

    Examples
    --------
    >>> import narwhals as nw, pyarrow as pa
    >>> table = nw.from_native(pa.table({"id": ["a"], "x": [1.0], "kind": ["u"], "note": ["-"]}))
    >>> Roles("id", one_hot="kind").schema(table).features
    ('x', 'kind')
    """

    bag: Any
    features: Any = None
    covariates: Any = ()
    weights: str | None = None
    label: str | None = None
    one_hot: Any = ()
    missing: str = "error"

    def schema(self, table: nw.DataFrame[Any], labels: nw.DataFrame[Any] | None = None) -> Schema:
        """Return the schema for this table of points, with categories and medians to be learnt.

        Parameters
        ----------
        table : DataFrame of narwhals with one row per point; it may be empty
        labels : DataFrame of narwhals with one row per bag, optional
            Label and covariates may be there instead.
        """
        bag, covariates = name_list(self.bag), name_list(self.covariates)
        categories = self._categories()
        others = [*bag, *covariates, *(n for n in (self.weights, self.label) if n is not None)]
        elsewhere = [] if labels is None else [n for n in labels.columns if n not in bag]
        check_present(table, [name for name in others if name not in elsewhere])
        if self.features is None:
            features = [
                name
                for name in table.columns
                if name not in (*others, *ROW_NUMBERS)
                and (name in categories or table.get_column(name).dtype.is_numeric())
            ]
            check_present(table, [name for name in categories if name not in others])
        else:
            features = name_list(self.features)
            check_present(table, features)
        _check_roles([*others, *features])
        self._check(bag, features, table)
        _check_encoded(categories, [*features, *covariates])
        return Schema(
            bag=tuple(bag),
            features=tuple(features),
            covariates=tuple(covariates),
            weights=self.weights,
            label=self.label,
            one_hot=categories,
            missing=self.missing,
        )

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

    def _check(self, bag: list[str], features: list[str], table: nw.DataFrame[Any]) -> None:
        """Raise unless there are a bag, some features and a known way with missing values."""
        if not bag:
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
            raise InvalidBagsError.because(
                f"no feature columns are left among {listing(table.columns)}",
                "at least one numeric column besides the bag, covariates, weights and label",
                "Name the columns of the points with features=[...].",
            )


def _check_roles(names: list[str]) -> None:
    """Raise if a column has two roles: a bag id or label among the features leaks the answer."""
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise InvalidBagsError.because(
            f"column {twice[0]!r} is used twice",
            "each column as bag, feature, covariate, weight or label, but only one of them",
            "Remove it from one, or copy it under another name if both are meant.",
        )


def _check_encoded(categories: dict[str, tuple[Category, ...]], sources: list[str]) -> None:
    """Raise unless the columns to be encoded are features or covariates."""
    odd = [name for name in categories if name not in sources]
    if odd:
        raise InvalidBagsError.because(
            f"column {odd[0]!r} is to be one-hot encoded but is neither a feature nor a covariate",
            f"one of {listing(sources)}",
            "Add it to the features or covariates, or remove it from one_hot.",
        )
