"""Given: what users bring themselves. Their objects are written as data, their functions are not.

A function leaves its name in a file, and is given again to :func:`bagwise.load`; an object is

    text, numbers, truth values, None      as JSON
    list                                   list
    tuple, set, frozenset, dict, bytes     {"tuple": [...]}, {"dict": [[key, value], ...]}, base64
    NumPy array of numbers                 {"numbers": dtype, "shape": [...], "values": [...]}
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags.objects import Objects, is_object
from bagwise.estimators.saving.values import (
    NUMBERS,
    Kind,
    Reader,
    Writer,
    decode_plain,
    encode_plain,
    show,
    unfit,
    unsaveable,
)
from bagwise.exceptions import SavedModelError
from bagwise.features.kernels import Kernel

# Nesting that an object may have.
MOST_DEPTH = 8

# Containers that JSON does not have, by their name in a file.
CONTAINERS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict}

# Numbers of arrays, in a file as lists.
ARRAYS = (*NUMBERS, "bool")


class ObjectPoints(Kind):
    """Points of any kind, as plain data; what cannot be written so is refused."""

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the objects in a list."""
        if not isinstance(value, Objects):
            raise unsaveable(path, show(value), "objects")
        return {"objects": [encode_object(x, path) for x in value.listed()]}

    def decode(self, data: Any, path: str, reader: Reader) -> Objects:
        """Return the objects."""
        if not isinstance(data, dict) or data.keys() != {"objects"}:
            raise unfit(path, show(data), "a list of objects")
        if not isinstance(data["objects"], list) or not data["objects"]:
            raise unfit(path, show(data), "a list of objects")
        return Objects.of(decode_object(x, path) for x in data["objects"])


class ObjectList(ObjectPoints):
    """The same, as a user gave them in a list or tuple; they come back as a list."""

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the objects in a list."""
        if not isinstance(value, Objects) and isinstance(value, list | tuple):
            value = Objects.of(value) if value and is_object(value[0]) else value
        return super().encode(value, path, writer)

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return a list."""
        return super().decode(data, path, reader).listed()


def encode_object(value: Any, path: str, depth: int = 0) -> Any:
    """Return the JSON of an object.

    Examples
    --------
    >>> encode_object(("C", [1, 2.5]), "landmarks")
    {'tuple': ['C', [1, 2.5]]}
    """
    if depth > MOST_DEPTH:
        raise _no_data(path, "an object nested too deeply")
    value = value.item() if isinstance(value, np.generic) else value
    kind = type(value)
    if value is None or kind in (str, bool):
        return value
    if kind in (int, float):
        return encode_plain(value, kind, path)
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if kind is list:
        return [encode_object(x, path, depth + 1) for x in value]
    if kind is np.ndarray and str(value.dtype) in ARRAYS:
        values = [encode_object(x, path, depth + 1) for x in value.ravel().tolist()]
        return {"numbers": str(value.dtype), "shape": list(value.shape), "values": values}
    for name, container in CONTAINERS.items():
        if kind is container:
            parts = value.items() if kind is dict else value
            held = [encode_object(list(x) if kind is dict else x, path, depth + 1) for x in parts]
            # sets have no order: one that does not change from run to run
            return {name: sorted(held, key=repr) if kind in (set, frozenset) else held}
    raise _no_data(path, show(value))


def decode_object(data: Any, path: str) -> Any:
    """Return the object of JSON."""
    if data is None or isinstance(data, str | bool):
        return data
    if isinstance(data, int | float):
        return decode_plain(data, type(data), path)
    if isinstance(data, list):
        return [decode_object(x, path) for x in data]
    if "float" in data:
        return decode_plain(data, float, path)
    try:
        if data.keys() == {"bytes"}:
            return base64.b64decode(data["bytes"], validate=True)
        if data.keys() == {"numbers", "shape", "values"} and data["numbers"] in ARRAYS:
            values = [decode_object(x, path) for x in data["values"]]
            return np.array(values, dtype=data["numbers"]).reshape(data["shape"])
        ((name, held),) = data.items()
        return CONTAINERS[name]([decode_object(x, path) for x in held])
    except (ValueError, TypeError, KeyError, OverflowError, binascii.Error):
        raise unfit(path, show(data), "an object as data") from None


def _no_data(path: str, found: str) -> SavedModelError:
    return SavedModelError.because(
        f"{path} holds {found}, which has no form as data",
        "text, numbers, bytes, None, and lists, tuples, sets, dicts or arrays of them",
        "Make such data of the points before the fit, and objects of the data in the kernel.",
    )


@dataclass(frozen=True)
class Function(Kind):
    """A function of the user's, of which the name is written; ``role`` is load's parameter."""

    role: str

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, str]:
        """Return the name."""
        given = callable(value) or isinstance(value, tuple)  # a network may be a pair
        if not given or isinstance(value, Kernel):  # of a class that is none of ours
            raise unsaveable(path, show(value), "a function")
        name = str(getattr(value, "__name__", type(value).__name__))
        return {"function": self.role, "name": name}

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the function that was given to load."""
        known = isinstance(data, dict) and data.keys() == {"function", "name"}
        if not known or data["function"] != self.role:
            raise unfit(path, show(data), f"the name of a {self.role}")
        return reader.given[self.role]


def functions_in(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield role and name of the functions that a model was made with."""
    if isinstance(tree, dict):
        if tree.keys() == {"function", "name"}:
            yield str(tree["function"]), str(tree["name"])
        for part in tree.values():
            yield from functions_in(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from functions_in(part)


def check_given(tree: Any, given: Mapping[str, Any]) -> None:
    """Raise unless all functions of a model were given again, and no others."""
    found = dict(functions_in(tree))
    for role, name in found.items():
        if given.get(role) is None:
            raise SavedModelError.because(
                f"this model has a {role} of its user's, {name!r:.60}, and no file has functions",
                "the same function again",
                f"Give it: bagwise.load(path, {role}={name if name.isidentifier() else 'f'}).",
            )
    for role, value in given.items():
        if value is not None and role not in found:
            raise SavedModelError.because(
                f"{role}= is given for a model that has no {role} of its user's",
                "a function only where the file asks for it",
                f"Leave out {role}=.",
            )
