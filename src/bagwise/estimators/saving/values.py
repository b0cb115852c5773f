"""Values: plain ones, and those that no annotation describes, to JSON and back.

The latter are each a :class:`Kind`: labels, seeds, landmarks as a user gave them, and what users
bring themselves. Their objects are written as data,

    text, numbers, truth values, None      as JSON
    list                                   list
    tuple, set, frozenset, dict, bytes     {"tuple": [...]}, {"dict": [[key, value], ...]}, base64
    NumPy array of numbers                 {"numbers": dtype, "shape": [...], "values": [...]}

and of their functions only the name, to be given again to :func:`bagwise.load`.
"""

from __future__ import annotations

import base64
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from bagwise.bags.per_bag import CountedIds
from bagwise.bags.validation import Objects, is_object
from bagwise.estimators.saving.container import Problem, Reader, Writer, show, unfit, unsaveable
from bagwise.exceptions import SavedModelError
from bagwise.features.kernels import Kernel

# Whole numbers of a model fit into 64 bits; seeds may be longer: SeedSequence gives 128.
MAX_BITS = 64
MAX_SEED_BITS = 512

# Nesting that an object of a user's may have, and a schema or a summary.
MOST_DEPTH = 8
MOST_LEVELS = 20

PLAIN: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "True or False"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a string"),
    NoneType: ((NoneType,), "None"),
}

# dtypes of numbers; of labels that are strings the dtype is written as "str" and their length.
NUMBERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
NUMBERS += ("float16", "float32", "float64")
COLUMN_NUMBERS = ("int64", "uint64", "float64", "bool")
TIME = re.compile(r"(datetime64|timedelta64)\[(Y|M|W|D|h|m|s|ms|us|ns)\]")
TEXT = re.compile(r"str(\d{1,5})")
COUNTED = "counted"  # ids that nobody gave

GENERATORS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)

# Containers that JSON does not have, by their name in a file.
CONTAINERS: dict[str, Any] = {"tuple": tuple, "set": set, "frozenset": frozenset, "dict": dict}


def _plain(value: Any, kind: Any, path: str, problem: Problem) -> Any:
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
    value = _plain(value, kind, path, unsaveable)
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if finite else {"float": repr(value)}


def decode_plain(data: Any, kind: Any, path: str) -> Any:
    """Return the value of JSON."""
    if kind is float and data in ({"float": x} for x in ("inf", "-inf", "nan")):
        data = float(data["float"])
    return _plain(data, kind, path, unfit)


def to_json(data: Any, name: str, depth: int = 0) -> Any:
    """Return data as JSON: numbers of NumPy as those of Python, tuples and arrays as lists.

    Examples
    --------
    >>> to_json({"a": np.float64(0.5), "b": (1, None)}, "summary")
    {'a': 0.5, 'b': [1, None]}
    """
    if depth > MOST_LEVELS:
        raise _not_json(name, "nested too deeply")
    if isinstance(data, Mapping):
        if not all(isinstance(key, str) for key in data):
            raise _not_json(name, "a dict with keys that are no strings")
        return {str(key): to_json(x, f"{name}.{key}", depth + 1) for key, x in data.items()}
    if depth == 0:
        raise _not_json(name, f"a {type(data).__name__}")
    if isinstance(data, np.ndarray | np.generic):
        data = data.tolist()
    if isinstance(data, list | tuple):
        return [to_json(x, name, depth + 1) for x in data]
    if data is None or isinstance(data, bool | int | str):
        return data
    if isinstance(data, float) and np.isfinite(data):
        return data
    raise _not_json(name, f"{data!r:.80}")


def _not_json(name: str, found: str) -> SavedModelError:
    return SavedModelError.because(
        f"{name} is or holds {found}",
        "a dict of strings, finite numbers, True, False, None, lists and dicts",
        "Convert or leave out what is something else.",
    )


# ---- what no annotation describes ---------------------------------------------------------------


class Kind(ABC):
    """What a value may be where no annotation says it."""

    @abstractmethod
    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return JSON."""

    @abstractmethod
    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the value."""


@dataclass(frozen=True)
class Labels(Kind):
    """Labels, no two the same, with their dtype.

    ``dimension`` names how many there are; ``as_text``: labels of kinds that JSON does not have
    become strings, in place of an error.
    """

    dimension: str
    as_text: bool = False

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the dtype and the labels."""
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise unsaveable(path, show(value), "an array of labels")
        if self.as_text and value.dtype.kind not in "biufU":
            value = _texts(value)
        dtype, labels = str(value.dtype), value.tolist()
        if isinstance(value, CountedIds):
            dtype = COUNTED
        elif value.dtype.kind == "U":
            dtype = f"str{max(1, value.dtype.itemsize // 4)}"
        elif TIME.fullmatch(dtype):
            labels = value.astype(np.int64).tolist()
        if _numpy_dtype(dtype) is None:
            raise unsaveable(path, show(value), "labels: strings, numbers or truth values")
        return {"dtype": dtype, "labels": [_encode_label(label, path) for label in labels]}

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array, if it would be written as it was found."""
        right = isinstance(data, dict) and data.keys() == {"dtype", "labels"}
        if not right or not isinstance(data["labels"], list):
            raise unfit(path, show(data), "labels with their dtype")
        dtype = _numpy_dtype(data["dtype"])
        labels = [_decode_label(label, path) for label in data["labels"]]
        if len(set(labels)) != len(labels):
            raise unfit(path, show(labels), "labels of which no two are the same")
        reader.bind(self.dimension, len(labels), path)
        try:
            # A hostile width of strings would take some hundred kB for each label, but no more.
            array = np.array(labels, dtype=dtype)
        except (ValueError, OverflowError, TypeError):
            array = np.empty(0)
        array = array.view(CountedIds) if data["dtype"] == COUNTED else array
        if dtype is None or Labels(self.dimension).encode(array, path, Writer()) != data:
            raise unfit(path, f"{labels!r:.60} of dtype {dtype}", "labels that fit their dtype")
        return array


def _encode_label(label: Any, path: str) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if type(label) not in (bool, int, float, str) or label != label:
        expected = "a label that is a string, a number or a truth value"
        raise unsaveable(path, show(label), expected)
    return encode_plain(label, float, path) if type(label) is float else label


def _decode_label(data: Any, path: str) -> Any:
    return data if isinstance(data, bool | str) else decode_plain(data, float, path)


def _numpy_dtype(name: Any) -> str | None:
    """Return the dtype that a name in a file stands for, if it is one that labels may have."""
    if not isinstance(name, str):
        return None
    if text := TEXT.fullmatch(name):
        return f"<U{int(text[1])}"
    if name == COUNTED:
        return "int64"
    return name if name in (*NUMBERS, "bool", "object") or TIME.fullmatch(name) else None


def _texts(value: np.ndarray) -> np.ndarray:
    """Return labels as strings, or their positions if that makes some the same."""
    texts = np.array([str(label) for label in value.tolist()])
    return texts if len(np.unique(texts)) == len(texts) else np.arange(len(texts))


@dataclass(frozen=True)
class Column(Kind):
    """Many ids or labels, as tensors: numbers as they are, text as UTF-8 with where each ends.

    Ids of several columns are text too, each the JSON of a list. ``dimension`` names how many there
    are; ``distinct``: no two are the same.
    """

    dimension: str
    distinct: bool = False

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the dtype; the values go to the writer."""
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise unsaveable(path, show(value), "an array of ids or labels")
        kind = str(value.dtype)
        if kind in COLUMN_NUMBERS:
            return {"dtype": kind, "values": writer.put(path, value)}
        if TIME.fullmatch(kind):
            return {"dtype": kind, "values": writer.put(path, value.astype(np.int64))}
        values = value.tolist()
        kind = "str" if all(type(entry) is str for entry in values) else "tuple"
        texts = values if kind == "str" else [_tuple_text(entry, path) for entry in values]
        data = [text.encode() for text in texts]
        ends = np.cumsum([len(part) for part in data], dtype=np.int64)
        raw = np.frombuffer(b"".join(data) + b"\0", dtype=np.uint8)  # no tensor is empty
        return {
            "dtype": kind,
            "values": writer.put(f"{path}.text", raw),
            "ends": writer.put(f"{path}.ends", ends),
        }

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array, if it is one that could have been written."""
        kind = data.get("dtype") if isinstance(data, dict) else None
        text = kind in ("str", "tuple")
        if not isinstance(kind, str) or data.keys() != {"dtype", "values", *(["ends"] * text)}:
            raise unfit(path, show(data), "values with their dtype")
        if text:
            array = _decode_texts(data, path, reader)
        elif kind in COLUMN_NUMBERS:
            array = reader.take(data["values"], path, (kind,), 1)
        elif TIME.fullmatch(kind):
            array = reader.take(data["values"], path, ("int64",), 1).astype(kind)
        else:
            raise unfit(path, f"of dtype {kind!r:.40}", "ids or labels")
        reader.bind(self.dimension, len(array), path)
        if self.distinct and len(set(array.tolist())) != len(array):
            raise unfit(path, "the same in two places", "ids of which no two are the same")
        return array


def _decode_texts(data: dict[str, Any], path: str, reader: Reader) -> np.ndarray:
    """Return a column of texts, or of the tuples that these are the JSON of."""
    raw = reader.take(data["values"], f"{path}.text", ("uint8",), 1).tobytes()[:-1]
    ends = reader.take(data["ends"], f"{path}.ends", ("int64",), 1)
    starts = np.concatenate([[0], ends[:-1]])
    if (ends < starts).any() or ends[-1:].tolist() != [len(raw)]:
        raise unfit(path, "of other length than its text", "where each text ends")
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    try:
        texts = [raw[start:stop].decode() for start, stop in pairs]
        tuples = [] if data["dtype"] == "str" else [_text_tuple(text) for text in texts]
    except (ValueError, RecursionError):
        raise unfit(path, "no text that can be read", "UTF-8, and JSON of lists") from None
    if data["dtype"] == "str":
        if any("\0" in text for text in texts):
            raise unfit(path, "text with a zero in it", "text that NumPy can hold")
        return np.array(texts)
    array = np.empty(len(tuples), dtype=object)
    array[:] = tuples
    return array


def _tuple_text(value: Any, path: str) -> str:
    """Return the JSON of an id of several columns."""
    if not isinstance(value, tuple) or not all(type(x) in (str, int, float, bool) for x in value):
        raise SavedModelError.because(
            f"{path} holds {show(value)}",
            "text, numbers or truth values, or tuples of them",
            "Make text of the ids first.",
        )
    return json.dumps(value)


def _text_tuple(text: str) -> tuple[Any, ...]:
    found = json.loads(text)
    if type(found) is not list or not all(type(x) in (str, int, float, bool) for x in found):
        raise ValueError("no tuple of plain values")
    return tuple(found)


class ClassWeights(Kind):
    """Weights by class: a list of pairs, as keys of JSON would all be strings."""

    def encode(self, value: Any, path: str, writer: Writer) -> list[Any]:
        """Return pairs of label and weight."""
        if not isinstance(value, dict):
            raise unsaveable(path, show(value), 'None, "balanced" or weights by class')
        return [[_encode_label(k, path), encode_plain(w, float, path)] for k, w in value.items()]

    def decode(self, data: Any, path: str, reader: Reader) -> dict[Any, Any]:
        """Return a dict."""
        pairs = isinstance(data, list) and all(isinstance(x, list) and len(x) == 2 for x in data)
        if not pairs:
            raise unfit(path, show(data), "pairs of a class and its weight")
        return {_decode_label(k, path): decode_plain(w, float, path) for k, w in data}


class Seed(Kind):
    """A seed: None, a whole number or several.

    A generator is not saved, and comes back as None: what it draws next depends on who else drew
    from it, so a model fitted again after loading could not be the same anyway.
    """

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return null, an int or a list of ints; a generator leaves a note."""
        if isinstance(value, GENERATORS):
            return writer.leave_out(path, value, "and draws a new seed")
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
        several = isinstance(value, list | tuple)
        data = [int(x) if isinstance(x, np.integer) else x for x in value] if several else value
        if not _is_seed(data):
            raise unsaveable(path, show(value), "None, whole numbers or a NumPy generator")
        return data

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return None, an int or a list of ints."""
        if not _is_seed(data):
            raise unfit(path, show(data), "a whole number, several or null")
        return data


def _is_seed(data: Any) -> bool:
    parts = data if isinstance(data, list) else [] if data is None else [data]
    return all(type(part) is int and part.bit_length() <= MAX_SEED_BITS for part in parts)


class NotKept(Kind):
    """What concerns only the next fit, and is not saved: it comes back as None."""

    def encode(self, value: Any, path: str, writer: Writer) -> None:
        """Return null, and leave a note if there was something."""
        if value is not None:
            writer.leave_out(path, value, "which counts")

    def decode(self, data: Any, path: str, reader: Reader) -> None:
        """Return None."""
        if data is not None:
            raise unfit(path, show(data), "null")


@dataclass(frozen=True)
class GivenArray(Kind):
    """Numbers as the user gave them, such as landmarks, which come back as a NumPy array.

    ``dtypes`` may be kept, others become float64; ``expected`` is said of what is none.
    """

    ndim: int
    dtypes: tuple[str, ...]
    expected: str

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Put the array away."""
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            array = np.empty(0, dtype=object)
        if array.dtype.kind not in "fiu" or array.ndim != self.ndim:
            raise unsaveable(path, show(value), self.expected)
        return writer.put(
            path, array if str(array.dtype) in self.dtypes else array.astype(np.float64)
        )

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        return reader.take(data, path, self.dtypes, self.ndim)


LANDMARKS = GivenArray(2, NUMBERS, "numbers of shape (landmarks, features)")
SIZES = GivenArray(1, ("float64",), "a 1-D array of numbers")


# ---- what users bring themselves ----------------------------------------------------------------


@dataclass(frozen=True)
class ObjectPoints(Kind):
    """Points of any kind, as plain data; what cannot be written so is refused.

    ``as_list``: as a user gave them, in a list or tuple; they come back as a list.
    """

    as_list: bool = False

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the objects in a list."""
        if self.as_list and isinstance(value, list | tuple) and value and is_object(value[0]):
            value = Objects.of(value)
        if not isinstance(value, Objects):
            raise unsaveable(path, show(value), "objects")
        return {"objects": [_encode_object(x, path) for x in value.listed()]}

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the objects."""
        held = data["objects"] if isinstance(data, dict) and data.keys() == {"objects"} else None
        if not isinstance(held, list) or not held:
            raise unfit(path, show(data), "a list of objects")
        made = Objects.of(_decode_object(x, path) for x in held)
        return made.listed() if self.as_list else made


def _encode_object(value: Any, path: str, depth: int = 0) -> Any:
    """Return the JSON of an object.

    Examples
    --------
    >>> _encode_object(("C", [1, 2.5]), "landmarks")
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
        return [_encode_object(x, path, depth + 1) for x in value]
    if kind is np.ndarray and str(value.dtype) in (*NUMBERS, "bool"):
        values = [_encode_object(x, path, depth + 1) for x in value.ravel().tolist()]
        return {"numbers": str(value.dtype), "shape": list(value.shape), "values": values}
    for name, container in CONTAINERS.items():
        if kind is container:
            parts = map(list, value.items()) if kind is dict else value
            held = [_encode_object(x, path, depth + 1) for x in parts]
            # sets have no order: one that does not change from run to run
            return {name: sorted(held, key=repr) if kind in (set, frozenset) else held}
    raise _no_data(path, show(value))


def _decode_object(data: Any, path: str) -> Any:
    """Return the object of JSON."""
    if data is None or isinstance(data, str | bool):
        return data
    if isinstance(data, int | float):
        return decode_plain(data, type(data), path)
    if isinstance(data, list):
        return [_decode_object(x, path) for x in data]
    if "float" in data:
        return decode_plain(data, float, path)
    try:
        if data.keys() == {"bytes"}:
            return base64.b64decode(data["bytes"], validate=True)
        if data.keys() == {"numbers", "shape", "values"} and data["numbers"] in (*NUMBERS, "bool"):
            values = [_decode_object(x, path) for x in data["values"]]
            return np.array(values, dtype=data["numbers"]).reshape(data["shape"])
        ((name, held),) = data.items()
        return CONTAINERS[name]([_decode_object(x, path) for x in held])
    except (ValueError, TypeError, KeyError, OverflowError):
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


def check_given(tree: Any, given: Mapping[str, Any]) -> None:
    """Raise unless all functions of a model were given again, and no others."""
    found = dict(_functions_in(tree))
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


def _functions_in(tree: Any) -> Iterator[tuple[str, str]]:
    """Yield role and name of the functions that a model was made with."""
    if isinstance(tree, dict) and tree.keys() == {"function", "name"}:
        yield str(tree["function"]), str(tree["name"])
    elif isinstance(tree, dict | list):
        for part in tree.values() if isinstance(tree, dict) else tree:
            yield from _functions_in(part)
