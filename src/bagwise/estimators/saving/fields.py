"""Fields: what a part of a model may be, and how it is written to JSON and tensors and read back.

Each has ``encode``, ``decode``, and ``owns``: whether some JSON can only be its own. Nothing is
made of what a file holds before its type and shape were checked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from bagwise.exceptions import SavedModelError

# Whole numbers of a model fit into 64 bits; seeds may be longer.
MAX_BITS = 64

# Dimensions that may be 0: covariates, and weights or directions where nothing varies.
MAY_BE_ZERO = frozenset({"covariates", "weights", "directions"})

# Memory order of an array. It is kept, because products of matrices add up in another order, and
# differ in the last bits, if it changes.
ORDERS = ("C", "F")


class Writer:
    """Takes the arrays out of a model: tensors by the path at which they were."""

    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def put(self, path: str, array: np.ndarray) -> dict[str, str]:
        """Keep an array and return what stands in its place."""
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        self.tensors[path] = np.ascontiguousarray(array)
        return {"array": order}


class Reader:
    """Puts the arrays back, each once and of the shape expected.

    Dimensions have names, and those of one name have one size in the whole model.
    """

    def __init__(self, tensors: Mapping[str, np.ndarray]) -> None:
        self._left = dict(tensors)
        self.sizes: dict[str, int] = {}

    def take(self, path: str, order: str, dtypes: tuple[str, ...]) -> np.ndarray:
        """Return the array of a path, as a copy in the memory order it had."""
        if path not in self._left:
            raise unfit(path, "missing", "a tensor of that name")
        array = self._left.pop(path)
        if str(array.dtype) not in dtypes:
            raise unfit(path, f"of dtype {array.dtype}", " or ".join(dtypes))
        if array.dtype == np.bool_:
            array = array.view(np.uint8) != 0  # other bytes than 0 and 1 are no truth values
        return np.array(array, order="F" if order == "F" else "C")

    def bind(self, name: str, size: int, path: str) -> None:
        """Note the size of a dimension, or check it if it is known."""
        if size == 0 and name not in MAY_BE_ZERO:
            raise unfit(path, f"without {name}", "at least one")
        if self.sizes.setdefault(name, size) != size:
            raise unfit(path, f"of {size} {name}", f"{self.sizes[name]}, as elsewhere in the file")

    def finish(self) -> None:
        """Raise if a tensor belongs to nothing."""
        if self._left:
            name = min(self._left)
            raise unfit(name[:80], "not part of this model", "only tensors that are")


def unfit(path: str, found: str, expected: str) -> SavedModelError:
    """Return the error of a part of a file that no model could have."""
    return SavedModelError.because(
        f"the saved model's {path} is {found}",
        expected,
        "The file was made or changed by something other than bagwise.save: do not use it.",
    )


def unsaveable(path: str, value: Any, expected: str) -> SavedModelError:
    """Return the error of a part of a model that cannot be saved."""
    return SavedModelError.because(
        f"{path} is {value!r:.120}", expected, "Set or fit it again before saving."
    )


class Field(Protocol):
    """A part of a model."""

    def owns(self, data: Any) -> bool:
        """Whether JSON, or a Python value, can only be this field's."""
        ...

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return JSON."""
        ...

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the value."""
        ...


@dataclass(frozen=True)
class Number:
    """A number, bit for bit: JSON has the shortest decimals that give it back.

    What JSON has no number for is written as {"float": "inf"}. ``real``: whole ones become floats.
    """

    real: bool = False

    def owns(self, data: Any) -> bool:
        """Whether it is a number, or stands for one."""
        if isinstance(data, dict):
            return data.keys() == {"float"} and data["float"] in ("inf", "-inf", "nan")
        kinds = (int, float, np.integer, np.floating)
        return isinstance(data, kinds) and not isinstance(data, bool)

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return a number, or a dict for one that is not finite."""
        if not self.owns(value) or isinstance(value, dict):
            raise unsaveable(path, value, "a number")
        value = value.item() if isinstance(value, np.generic) else value
        if isinstance(value, int) and not self.real:
            return _bounded(value, path)
        value = float(value)
        return value if math.isfinite(value) else {"float": repr(value)}

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return an int or a float."""
        if not self.owns(data):
            raise unfit(path, _show(data), "a number")
        data = float(data["float"]) if isinstance(data, dict) else data
        if isinstance(data, int):
            _checked_bits(data, path)
        return float(data) if self.real else data


@dataclass(frozen=True)
class Whole:
    """A whole number."""

    least: int = -(2**63)

    def owns(self, data: Any) -> bool:
        """Whether it is a whole number."""
        return isinstance(data, int | np.integer) and not isinstance(data, bool)

    def encode(self, value: Any, path: str, writer: Writer) -> int:
        """Return an int."""
        if not self.owns(value):
            raise unsaveable(path, value, "a whole number")
        return _bounded(int(value), path)

    def decode(self, data: Any, path: str, reader: Reader) -> int:
        """Return an int."""
        if not self.owns(data) or data < self.least:
            raise unfit(path, _show(data), f"a whole number of at least {self.least}")
        return _checked_bits(int(data), path)


@dataclass(frozen=True)
class Flag:
    """True or false."""

    def owns(self, data: Any) -> bool:
        """Whether it is a truth value."""
        return isinstance(data, bool | np.bool_)

    def encode(self, value: Any, path: str, writer: Writer) -> bool:
        """Return a bool."""
        if not self.owns(value):
            raise unsaveable(path, value, "True or False")
        return bool(value)

    def decode(self, data: Any, path: str, reader: Reader) -> bool:
        """Return a bool."""
        if not self.owns(data):
            raise unfit(path, _show(data), "true or false")
        return bool(data)


@dataclass(frozen=True)
class Word:
    """A string."""

    def owns(self, data: Any) -> bool:
        """Whether it is a string."""
        return isinstance(data, str)

    def encode(self, value: Any, path: str, writer: Writer) -> str:
        """Return a string."""
        if not self.owns(value):
            raise unsaveable(path, value, "a string")
        return str(value)

    def decode(self, data: Any, path: str, reader: Reader) -> str:
        """Return a string."""
        if not self.owns(data):
            raise unfit(path, _show(data), "a string")
        return str(data)


@dataclass(frozen=True)
class Array:
    """An array whose dimensions have names; "covariates+1" is one more than that dimension."""

    shape: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float64",)

    def owns(self, data: Any) -> bool:
        """Whether it is an array, or stands for one."""
        if isinstance(data, dict):
            return data.keys() == {"array"} and data["array"] in ORDERS
        return isinstance(data, np.ndarray)

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Put the array away and return its memory order."""
        right = isinstance(value, np.ndarray) and value.ndim == len(self.shape)
        if not right or str(value.dtype) not in self.dtypes:
            raise unsaveable(path, value, f"an array of {' x '.join(self.shape)}")
        return writer.put(path, value)

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        if not self.owns(data):
            raise unfit(path, _show(data), "an array")
        array = reader.take(path, data["array"], self.dtypes)
        if array.ndim != len(self.shape):
            raise unfit(path, f"of shape {array.shape}", f"{len(self.shape)} dimensions")
        for name, size in zip(self.shape, array.shape, strict=True):
            base, _, more = name.partition("+")
            reader.bind(base, size - int(more or 0), path)
        return array


@dataclass(frozen=True)
class Maybe:
    """A field that may be None."""

    field: Field

    def owns(self, data: Any) -> bool:
        """Whether it is None or the field's."""
        return data is None or self.field.owns(data)

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return null or the field's JSON."""
        return None if value is None else self.field.encode(value, path, writer)

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return None or the field's value."""
        return None if data is None else self.field.decode(data, path, reader)


class Either:
    """One of several fields, of which the first that owns a value has it."""

    def __init__(self, *fields: Field) -> None:
        self.fields = fields

    def owns(self, data: Any) -> bool:
        """Whether any of the fields does."""
        return any(field.owns(data) for field in self.fields)

    def _of(self, data: Any) -> Field:
        return next((field for field in self.fields if field.owns(data)), self.fields[-1])

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return that field's JSON."""
        return self._of(value).encode(value, path, writer)

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return that field's value."""
        return self._of(data).decode(data, path, reader)


@dataclass(frozen=True)
class Names:
    """A tuple of strings, no two the same, as many as a dimension has."""

    dimension: str

    def owns(self, data: Any) -> bool:
        """Whether it is a sequence of strings."""
        sequence = isinstance(data, list | tuple)
        return sequence and all(isinstance(name, str) for name in data)

    def encode(self, value: Any, path: str, writer: Writer) -> list[str]:
        """Return a list."""
        if not self.owns(value):
            raise unsaveable(path, value, "strings")
        return [str(name) for name in value]

    def decode(self, data: Any, path: str, reader: Reader) -> tuple[str, ...]:
        """Return a tuple."""
        if not self.owns(data) or len(set(data)) != len(data):
            raise unfit(path, _show(data), "strings, no two the same")
        reader.bind(self.dimension, len(data), path)
        return tuple(data)


@dataclass(frozen=True)
class Table:
    """A dict from strings to one field."""

    field: Field

    def owns(self, data: Any) -> bool:
        """Whether it is a dict with strings for keys."""
        return isinstance(data, dict) and all(isinstance(key, str) for key in data)

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return a dict."""
        if not self.owns(value):
            raise unsaveable(path, value, "a dict")
        return {key: self.field.encode(x, f"{path}.{key}", writer) for key, x in value.items()}

    def decode(self, data: Any, path: str, reader: Reader) -> dict[str, Any]:
        """Return a dict."""
        if not self.owns(data):
            raise unfit(path, _show(data), "a table")
        return {key: self.field.decode(x, f"{path}.{key}", reader) for key, x in data.items()}


def _bounded(value: int, path: str) -> int:
    if value.bit_length() >= MAX_BITS:
        raise unsaveable(path, value, f"a whole number of less than {MAX_BITS} bits")
    return value


def _checked_bits(value: int, path: str) -> int:
    if value.bit_length() >= MAX_BITS:
        raise unfit(path, "too large", f"a whole number of less than {MAX_BITS} bits")
    return value


def _show(data: Any) -> str:
    """Return JSON as text that fits into a message."""
    return f"{data!r:.60}"
