"""Categories: the distinct values of a column, and their one-hot code."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from jaxtyping import Int64, Shaped

from bagwise.exceptions import InvalidBagsError
from bagwise.grouping import missing

Category = str | int | float | bool


def distinct_values(
    column: Shaped[np.ndarray, " n_rows"],
) -> tuple[list[Any], Int64[np.ndarray, " n_rows"]]:
    """Return the distinct values of a column as Python has them, and the number of each row's.

    Examples
    --------
    >>> distinct_values(np.array(["b", "a", "b"], dtype=object))
    (['b', 'a'], array([0, 1, 0]))
    """
    if column.dtype.kind == "O":  # need not be sortable
        numbers: dict[Any, int] = {}
        codes = np.array([numbers.setdefault(value, len(numbers)) for value in column], np.int64)
        return list(numbers), codes
    distinct, codes = np.unique(column, return_inverse=True)
    return distinct.tolist(), codes.astype(np.int64)


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
    distinct, _ = distinct_values(column[~missing(column)])
    if not distinct:
        raise InvalidBagsError.because(
            f"column {name!r} has no value at all",
            "at least one category to encode",
            "Leave it out of one_hot and of the features.",
        )
    return tuple(sorted(check_categories(distinct, name)))


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
