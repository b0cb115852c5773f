"""Data frames as plain arrays: pandas, polars and pyarrow, all through narwhals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Float, Float64, Shaped
from narwhals.dependencies import is_into_dataframe

from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError
from bagwise.grouping import Grouping, group_rows, plain
from bagwise.validation import Names, matrix

is_frame = is_into_dataframe


@dataclass(frozen=True, eq=False)
class FrameColumns:
    """What a data frame says about bags: the arrays that make a ``Bags``, and perhaps labels.

    Attributes
    ----------
    grouping : Grouping
        The rows of every bag.
    points : array (n_rows, n_features)
        In the order of the frame.
    weights : float64 array (n_rows,) or None
        In the order of the frame.
    covariates : float64 array (n_bags, n_covariates) or None
    labels : array (n_bags,) or None
    """

    grouping: Grouping
    points: Float[np.ndarray, "n_rows n_features"]
    feature_names: tuple[str, ...]
    weights: Float64[np.ndarray, " n_rows"] | None
    covariates: Float64[np.ndarray, "n_bags n_covariates"] | None
    covariate_names: Names
    labels: Shaped[np.ndarray, " n_bags"] | None


def read_frame(
    frame: Any,
    *,
    bag: str,
    features: Any = None,
    covariates: Any = (),
    weights: str | None = None,
    label: str | None = None,
) -> FrameColumns:
    """Read the points, bags, weights, covariates and labels of a data frame with a row per point.

    Missing values come back as NaN: whoever makes the bags reports them, by bag, row and column.

    Parameters
    ----------
    frame : data frame
        pandas, polars (eager) or pyarrow; anything else that narwhals can read.
    bag : str
        Column with the bag of every row.
    features : sequence of str, optional
        Columns of the points; by default every numeric column that has no other role.
    covariates : sequence of str
        Columns with one value per bag.
    weights, label : str, optional
        Column of point weights; column with one label per bag.

    Examples
    --------
    >>> import pyarrow as pa
    >>> table = pa.table({"bag": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "age": [7, 8, 7]})
    >>> columns = read_frame(table, bag="bag", covariates=["age"])
    >>> columns.feature_names, columns.covariates.tolist(), columns.grouping.ids.tolist()
    (('x',), [[7.0], [8.0]], ['a', 'b'])
    """
    table = _open(frame)
    covariates = _name_list(covariates)
    others = [bag, *covariates, *([weights] if weights else []), *([label] if label else [])]
    _check_present(table, others)
    if features is None:
        features = [
            c for c in table.columns if c not in others and table.get_column(c).dtype.is_numeric()
        ]
    else:
        features = _name_list(features)
        _check_present(table, features)
    _check_roles([*others, *features])
    if not features:
        raise InvalidBagsError.because(
            f"no feature columns are left among {_listing(table.columns)}",
            "at least one numeric column besides the bag, covariates, weights and label",
            "Name the columns of the points with features=[...].",
        )
    grouping = _group(table, bag)
    return FrameColumns(
        grouping=grouping,
        points=_matrix(table, features),
        feature_names=tuple(map(str, features)),
        weights=_numbers(table, weights).astype(np.float64) if weights else None,
        covariates=_bag_covariates(table, covariates, grouping) if covariates else None,
        covariate_names=tuple(covariates) if covariates else None,
        labels=_bag_labels(table, label, grouping) if label else None,
    )


def bag_labels(frame: Any, bag: str, label: str) -> Shaped[np.ndarray, " n_bags"]:
    """Return one label per bag, in the order in which bags first appear in the frame.

    Examples
    --------
    >>> import pyarrow as pa
    >>> bag_labels(pa.table({"bag": ["b", "a", "b"], "y": [1.0, 2.0, 1.0]}), "bag", "y")
    array([1., 2.])
    """
    table = _open(frame)
    _check_present(table, [bag, label])
    return _bag_labels(table, label, _group(table, bag))


def to_matrix(values: Any, what: str) -> tuple[Float[np.ndarray, "rows columns"], Names]:
    """Return a 2-D float array and its column names, from a data frame or anything array-like.

    Examples
    --------
    >>> import pyarrow as pa
    >>> to_matrix(pa.table({"x": [1, 2]}), "bag 0")
    (array([[1.], [2.]]), ('x',))
    """
    if not is_frame(values):
        return matrix(values, what), None
    table = _open(values)
    names = tuple(table.columns)
    array = matrix(_matrix(table, list(names)), what)
    return array, names if all(isinstance(name, str) for name in names) else None


def _open(frame: Any) -> nw.DataFrame[Any]:
    """Wrap a data frame for narwhals, or say which frames can be read."""
    try:
        return nw.from_native(frame, eager_only=True)
    except TypeError:
        lazy = type(frame).__name__ == "LazyFrame"
        raise InvalidBagsError.because(
            f"got a {type(frame).__name__} as data frame",
            "a pandas or polars DataFrame or a pyarrow Table",
            "Call .collect() on it first." if lazy else "Use Bags.from_groups for arrays.",
        ) from None
    except ValueError as error:  # narwhals: column names that repeat
        raise InvalidBagsError.because(
            f"the data frame cannot be read ({' '.join(str(error).split())})",
            "a frame whose column names are all different",
            "Rename or drop columns.",
        ) from error


def _name_list(names: Any) -> list[Any]:
    return [names] if isinstance(names, str) else list(names)


def _listing(names: list[Any]) -> str:
    return ", ".join(map(repr, names)) or "none"


def _check_present(table: nw.DataFrame[Any], names: list[Any]) -> None:
    absent = [name for name in names if name not in table.columns]
    if absent:
        raise InvalidBagsError.because(
            f"the data frame has no column {_listing(absent)}",
            f"one of its columns: {_listing(table.columns)}",
            "Check the spelling.",
        )


def _check_roles(names: list[Any]) -> None:
    """Raise if a column has two roles: a bag id or label among the features leaks the answer."""
    twice = [name for i, name in enumerate(names) if name in names[:i]]
    if twice:
        raise InvalidBagsError.because(
            f"column {twice[0]!r} is used twice",
            "each column as bag, feature, covariate, weight or label, but only one of them",
            "Remove it from one, or copy it under another name if both are meant.",
        )


def _group(table: nw.DataFrame[Any], bag: str) -> Grouping:
    column = table.get_column(bag)
    absent = np.flatnonzero(column.is_null().to_numpy())
    if len(absent):
        raise InvalidBagsError.because(
            f"row {absent[0]} of the data frame has no bag: column {bag!r} is missing there",
            "a bag id in every row",
            "Drop these rows or give them an id.",
        )
    return group_rows(_values(column))


def _values(column: nw.Series[Any]) -> Shaped[np.ndarray, " n_rows"]:
    """Return a column of any type; categories as the strings they stand for."""
    if isinstance(column.dtype, nw.Categorical | nw.Enum):
        column = column.cast(nw.String)
    return column.to_numpy()


def _matrix(table: nw.DataFrame[Any], names: list[Any]) -> Float[np.ndarray, "rows columns"]:
    """Return numeric columns side by side: float32 if all of them are, else float64."""
    single = bool(names) and all(
        isinstance(table.get_column(name).dtype, nw.Float32) for name in names
    )
    out = np.empty((len(table), len(names)), dtype=np.float32 if single else np.float64)
    for position, name in enumerate(names):
        out[:, position] = _numbers(table, name)
    return out


def _numbers(
    table: nw.DataFrame[Any], name: Any, error: type[BagwiseError] = InvalidBagsError
) -> Float[np.ndarray, " rows"]:
    """Return a numeric or boolean column as floats, missing values as NaN."""
    column = table.get_column(name)
    if not (column.dtype.is_numeric() or isinstance(column.dtype, nw.Boolean)):
        raise error.because(
            f"column {name!r} has type {column.dtype}",
            "numbers",
            "Leave it out of the features, or encode it as numbers (dates as a number of days, "
            "categories as 0/1 columns, text with a numeric cast).",
        )
    single = isinstance(column.dtype, nw.Float32)
    return column.cast(nw.Float32 if single else nw.Float64).to_numpy()


def _bag_covariates(
    table: nw.DataFrame[Any], names: list[Any], grouping: Grouping
) -> Float64[np.ndarray, "n_bags n_covariates"]:
    columns = [
        grouping.constant(_numbers(table, name), f"covariate column {name!r}") for name in names
    ]
    return np.column_stack(columns).astype(np.float64)


def _bag_labels(
    table: nw.DataFrame[Any], label: str, grouping: Grouping
) -> Shaped[np.ndarray, " n_bags"]:
    """Return labels by bag: numbers as they are (floats if any is missing), others as strings."""
    column = table.get_column(label)
    numeric_gaps = column.dtype.is_numeric() and column.is_null().any()
    rows = _numbers(table, label) if numeric_gaps else _values(column)
    return plain(grouping.constant(rows, f"label column {label!r}", InvalidLabelsError))
