"""Parts: the arrays of a model on their way to a file and back, plain values, and the errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

import numpy as np

from bagwise.exceptions import SavedModelError

# Whole numbers of a model fit into 64 bits; seeds may be longer.
MAX_BITS = 64

# Dimensions that may be 0: covariates, and weights or directions where nothing varies.
MAY_BE_ZERO = frozenset({"covariates", "weights", "directions"})

# Dimensions of a head; so are those that are named after a class.
OF_A_HEAD = frozenset({"weights", "directions"})

PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a string"),
    NoneType: ((NoneType,), "None"),
}


class Writer:
    """Takes the arrays out of a model: tensors by the path at which they were; and notes."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}
        self.notes: list[str] = []

    def put(self, path: str, array: np.ndarray) -> dict[str, str]:
        """Keep an array and return its memory order.

        The order is kept because products of matrices add up in another one if it changes, and
        differ in the last bits.
        """
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self.tensors[path] = np.ascontiguousarray(array)
        return {"array": order}


class Reader:
    """Puts the arrays back; dimensions of one name have one size in the whole model."""

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._left = dict(tensors)
        self._sizes: dict[str, int] = {}
        self._own = self._sizes

    def part(self) -> Reader:
        """Return a reader for one of several heads, each with weights of its own number."""
        reader = Reader({})
        reader._left, reader._sizes = self._left, self._sizes
        return reader

    def take(self, data: Any, path: str, dtypes: tuple[str, ...], ndim: int) -> np.ndarray:
        """Return the array of a path, as a copy in the memory order it had."""
        if not isinstance(data, dict) or list(data.items()) not in ([("array", x)] for x in "CF"):
            raise unfit(path, show(data), "an array")
        if path not in self._left:
            raise unfit(path, "missing", "a tensor of that name")
        array = self._left[path]
        if str(array.dtype) not in dtypes:
            raise unfit(path, f"of dtype {array.dtype}", " or ".join(dtypes))
        if array.ndim != ndim:
            raise unfit(path, f"of shape {array.shape}", f"{ndim} dimensions")
        del self._left[path]
        if array.dtype == np.bool_:
            array = array.view(np.uint8) != 0  # other bytes than 0 and 1 are no truth values
        return np.array(array, order=data["array"])

    def bind(self, name: str, size: int, path: str) -> None:
        """Note the size of a dimension, or check it if it is known."""
        if size < (name not in MAY_BE_ZERO):
            raise unfit(path, f"of {size} {name}", "at least one")
        known = self._own if name in OF_A_HEAD or " of " in name else self._sizes
        if known.setdefault(name, size) != size:
            raise unfit(path, f"of {size} {name}", f"{known[name]}, as elsewhere in the file")

    def finish(self) -> None:
        """Raise if a tensor belongs to nothing."""
        if self._left:
            raise unfit(min(self._left)[:80], "not part of this model", "only tensors that are")


class Kind(ABC):
    """What a value may be where no annotation says it."""

    @abstractmethod
    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return JSON."""

    @abstractmethod
    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the value."""


Problem = Callable[[str, str, str], SavedModelError]


def unfit(path: str, found: str, expected: str) -> SavedModelError:
    """Return the error of a part of a file that no model could have."""
    return SavedModelError.because(
        f"the saved model's {path} is {found}",
        expected,
        "The file was made or changed by something other than bagwise.save: do not use it.",
    )


def unsaveable(path: str, found: str, expected: str) -> SavedModelError:
    """Return the error of a part of a model that cannot be saved."""
    return SavedModelError.because(
        f"{path} is {found}", expected, "Set or fit it again before saving."
    )


def show(value: Any) -> str:
    """Return a value as text that fits into a message."""
    return f"{value!r:.80}"


def plain(value: Any, kind: Any, path: str, problem: Problem) -> Any:
    """Return a value as Python's own, if it is of a plain kind."""
    types, expected = PLAIN[kind]
    value = value.item() if isinstance(value, np.generic) else value
    if type(value) not in types:
        raise problem(path, show(value), expected)
    if type(value) is int and value.bit_length() >= MAX_BITS:
        raise problem(path, "too large", f"a whole number of less than {MAX_BITS} bits")
    return value


def encode_plain(value: Any, kind: Any, path: str) -> Any:
    """Return JSON: of a float the shortest decimals that give back every bit."""
    value = plain(value, kind, path, unsaveable)
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else {"float": repr(value)}


def decode_plain(data: Any, kind: Any, path: str) -> Any:
    """Return the value of JSON."""
    if kind is float and data in ({"float": x} for x in ("inf", "-inf", "nan")):
        data = float(data["float"])
    return plain(data, kind, path, unfit)
