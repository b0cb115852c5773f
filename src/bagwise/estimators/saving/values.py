"""Values: what a model is made of on its way to a file and back, and the errors.

Arrays, plain values, and what no annotation describes, such as labels, seeds and given landmarks.
"""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import NoneType
from typing import Any

import numpy as np

from bagwise.bags.grouping import CountedIds
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

# dtypes of labels; of strings the dtype is written as "str" and their length.
NUMBERS = tuple(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64))
NUMBERS += ("float16", "float32", "float64")
TIME = re.compile(r"(datetime64|timedelta64)\[(Y|M|W|D|h|m|s|ms|us|ns)\]")
COUNTED = "counted"  # ids that nobody gave
TEXT = re.compile(r"str(\d{1,5})")

# dtypes of columns of ids or labels that are numbers.
COLUMN_NUMBERS = ("int64", "uint64", "float64", "bool")

# Bits of a seed: SeedSequence gives 128.
MAX_SEED_BITS = 512

GENERATORS = (
    np.random.Generator,
    np.random.RandomState,
    np.random.BitGenerator,
    np.random.SeedSequence,
)


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

    def __init__(
        self, tensors: Mapping[str, np.ndarray], given: Mapping[str, Any] | None = None
    ) -> None:
        self._left, self.given = dict(tensors), {} if given is None else given
        self._sizes: dict[str, int] = {}
        self._own = self._sizes

    def part(self) -> Reader:
        """Return a reader for one of several heads, each with weights of its own number."""
        reader = Reader({}, self.given)
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


def _encode_label(label: Any, path: str) -> Any:
    label = label.item() if isinstance(label, np.generic) else label
    if type(label) not in (bool, int, float, str) or label != label:
        expected = "a label that is a string, a number or a truth value"
        raise unsaveable(path, show(label), expected)
    return encode_plain(label, float, path) if type(label) is float else label


def _decode_label(data: Any, path: str) -> Any:
    return data if isinstance(data, bool | str) else decode_plain(data, float, path)


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
        if all(type(entry) is str for entry in values):
            kind, texts = "str", values
        else:
            kind, texts = "tuple", [_tuple_text(entry, path) for entry in values]
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
            array = self._decode_text(data, kind, path, reader)
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

    def _decode_text(self, data: Any, kind: str, path: str, reader: Reader) -> np.ndarray:
        raw = reader.take(data["values"], f"{path}.text", ("uint8",), 1).tobytes()[:-1]
        ends = reader.take(data["ends"], f"{path}.ends", ("int64",), 1)
        starts = np.concatenate([[0], ends[:-1]])
        if (ends < starts).any() or ends[-1:].tolist() != [len(raw)]:
            raise unfit(path, "of other length than its text", "where each text ends")
        pairs = zip(starts.tolist(), ends.tolist(), strict=True)
        try:
            texts = [raw[start:stop].decode() for start, stop in pairs]
            found = texts if kind == "str" else [_text_tuple(text) for text in texts]
        except (ValueError, RecursionError):
            raise unfit(path, "no text that can be read", "UTF-8, and JSON of lists") from None
        array = np.empty(len(found), dtype=object)
        array[:] = found
        if kind == "str":
            if any("\0" in text for text in texts):
                raise unfit(path, "text with a zero in it", "text that NumPy can hold")
            return np.array(texts)
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
            writer.notes.append(
                f"{path.partition('.')[2]} was a {type(value).__name__}, which is not saved; the "
                "loaded model has None, and draws a new seed if it is fitted again"
            )
            return None
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


class Landmarks(Kind):
    """Landmarks as the user gave them, which come back as a NumPy array."""

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Put the array away."""
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different lengths
            array = np.empty(0)
        if array.dtype.kind not in "fiu" or array.ndim != 2:
            raise unsaveable(path, show(value), "numbers of shape (landmarks, features)")
        return writer.put(path, array if str(array.dtype) in NUMBERS else array.astype(np.float64))

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        return reader.take(data, path, NUMBERS, 2)


class Sizes(Kind):
    """Sizes of bags as the user gave them, which come back as a NumPy array."""

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Put the array away."""
        array = np.asarray(value) if isinstance(value, list | tuple | np.ndarray) else np.empty(())
        if array.dtype.kind not in "fiu" or array.ndim != 1:
            raise unsaveable(path, show(value), "a 1-D array of numbers")
        return writer.put(path, array.astype(np.float64))

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        return reader.take(data, path, ("float64",), 1)


class Edges(Kind):
    """First sizes of groups of bags: a list of numbers, which comes back as a tuple."""

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return a list of numbers."""
        if not isinstance(value, list | tuple | np.ndarray):
            raise unsaveable(path, show(value), "first sizes of groups, a number or None")
        return [encode_plain(edge, float, path) for edge in value]

    def decode(self, data: Any, path: str, reader: Reader) -> tuple[float, ...]:
        """Return the numbers."""
        if not isinstance(data, list):
            raise unfit(path, show(data), "a list of numbers, a number or null")
        return tuple(decode_plain(edge, float, path) for edge in data)


class NotKept(Kind):
    """What concerns only the next fit, and is not saved: it comes back as None."""

    def encode(self, value: Any, path: str, writer: Writer) -> None:
        """Return null, and leave a note if there was something."""
        if value is not None:
            name = path.partition(".")[2]
            writer.notes.append(
                f"{name} was a {type(value).__name__}, which is not saved; the loaded model has "
                "None, which counts if it is fitted again"
            )

    def decode(self, data: Any, path: str, reader: Reader) -> None:
        """Return None."""
        if data is not None:
            raise unfit(path, show(data), "null")


class Range(Kind):
    """Two numbers, of which one may be infinite; or None."""

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return null or a list of two numbers."""
        if value is None:
            return None
        if not isinstance(value, list | tuple | np.ndarray) or len(value) != 2:
            raise unsaveable(path, show(value), "two numbers or None")
        return [encode_plain(bound, float, path) for bound in value]

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return None or two numbers, the first the smaller."""
        if data is None:
            return None
        if not isinstance(data, list) or len(data) != 2:
            raise unfit(path, show(data), "two numbers or null")
        low, high = (decode_plain(bound, float, path) for bound in data)
        if not low < high:
            raise unfit(path, show(data), "the smaller number first")
        return low, high
