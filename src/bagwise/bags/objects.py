"""Objects: points that are no rows of numbers, such as strings, sets or graphs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np

from bagwise.exceptions import InvalidBagsError


class Objects(np.ndarray):
    """Points of any kind: an array (n, 1) with an object in each row, of which parts are the same.

    Examples
    --------
    >>> Objects.of(["GATTACA", "CAT"])[:1].listed()
    ['GATTACA']
    """

    @classmethod
    def of(cls, values: Iterable[Any]) -> Objects:
        """Return objects, which are kept as they are."""
        held = list(values)
        array = np.empty((len(held), 1), dtype=object)
        for row, value in enumerate(held):  # one by one, as NumPy would look into lists
            array[row, 0] = value
        return array.view(cls)

    def listed(self) -> list[Any]:
        """Return the objects as a list."""
        return [row[0] for row in np.asarray(self)]


def stacked(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return arrays of points one after the other; objects stay objects."""
    parts = list(parts)
    joined = np.concatenate(parts)
    return joined.view(Objects) if isinstance(parts[0], Objects) else joined


def is_object(value: Any) -> bool:
    """Whether a point is an object: neither a number nor a row of them.

    A tuple is one if something in it is. A list is taken for a row, and so is what NumPy knows.

    Examples
    --------
    >>> [is_object(x) for x in ("ab", ("C", 3), {1, 2}, (1.0, 2.0), ["a", "b"], 7)]
    [True, True, True, False, False, False]
    """
    if isinstance(value, str | bytes | set | frozenset | Mapping):
        return True
    if isinstance(value, tuple):
        return any(map(is_object, value))
    known = value is None or isinstance(value, Number | np.generic | list)
    return not known and not hasattr(value, "__array__") and not hasattr(value, "toarray")


def holds_objects(bag: Any) -> bool:
    """Whether a bag, a list or another sequence, holds objects, as its first point says.

    Examples
    --------
    >>> holds_objects(["ab", "c"]), holds_objects([[1.0, 2.0]]), holds_objects("ab")
    (True, False, False)
    """
    if isinstance(bag, Objects):
        return True
    if not isinstance(bag, list | tuple):
        if getattr(bag, "ndim", None) != 1 and not hasattr(bag, "to_list"):
            return False
    return len(bag) > 0 and is_object(next(iter(bag)))


def check_objects(points: Objects, where: Any) -> Objects:
    """Return objects, or raise if one is missing (None, NaN); ``where`` names a row."""
    for row, value in enumerate(points.listed()):
        missing = value is None
        if isinstance(value, float | np.floating):
            missing = bool(np.isnan(value))
        if missing:
            raise InvalidBagsError.because(
                f"{where(row)} is {value}", "an object", "Drop the point."
            )
    return points
