"""Stored schema: the checks of a schema that comes from a file, entry by entry."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.exceptions import BagwiseError
from bagwise.tables.cells import Cells

MISSING = ("error", "drop", "impute")  # what to do about missing values


def check_entries(data: dict[str, Any]) -> None:
    """Raise unless every entry is of the type that a schema has there."""
    for name, check, expected in CHECKS:
        if not check(data[name]):
            raise damaged(f"has {name} = {str(data[name])[:60]!r}", expected)


def damaged(found: str, expected: str) -> BagwiseError:
    """Return the error of a stored schema that cannot be used."""
    return BagwiseError.because(
        f"the stored schema {found}",
        expected,
        "The file was changed or is damaged: train and save the model again.",
    )


def stored_cells(data: dict[str, Any]) -> Cells:
    """Return how cells are written, or say that what is stored cannot be used."""
    try:
        return Cells.from_dict(data)
    except (BagwiseError, KeyError, TypeError, ValueError) as error:
        raise damaged(f"has cells = {str(data)[:60]!r}", "marks, and codes by column") from error


def _is_texts(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(text, str) for pair in value.items() for text in pair
    )


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_one_hot(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str)
        and isinstance(categories, list)
        and len(categories) > 0
        and all(isinstance(category, str | int | float) for category in categories)
        for name, categories in value.items()
    )


def _is_fill(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(name, str)
        and isinstance(number, int | float)
        and not isinstance(number, bool)
        and np.isfinite(number)
        for name, number in value.items()
    )


# Entry of a stored schema, what it must be, and how to say so.
CHECKS = (
    ("bag", lambda v: _is_names(v) and len(v) > 0, "a list of at least one column name"),
    ("features", _is_names, "a list of column names"),
    ("features", len, "at least one column name"),
    ("covariates", _is_names, "a list of column names"),
    ("weights", lambda v: v is None or isinstance(v, str), "a column name or nothing"),
    ("label", lambda v: v is None or isinstance(v, str), "a column name or nothing"),
    ("one_hot", _is_one_hot, "the categories of some columns"),
    ("missing", lambda v: isinstance(v, str) and v in MISSING, f"one of {', '.join(MISSING)}"),
    ("fill", _is_fill, "a finite number for some columns"),
    ("cells", lambda v: isinstance(v, dict) and set(v) == set(Cells().to_dict()), "marks"),
    ("left_out", _is_texts, "a reason for some columns"),
)
