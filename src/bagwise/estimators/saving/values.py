"""Values: fields of other kinds than numbers and arrays, such as classes, seeds and bags."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.bags.bags import Bags
from bagwise.estimators.saving.fields import (
    Array,
    Maybe,
    Number,
    Reader,
    Writer,
    unfit,
    unsaveable,
)

# Labels of other dtypes are written as text, and get that dtype back.
PLAIN_DTYPES = frozenset(
    {"bool", "float16", "float32", "float64"}
    | {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
)
TIME_DTYPE = re.compile(r"(datetime64|timedelta64)\[(Y|M|W|D|h|m|s|ms|us|ns)\]")
TEXT_DTYPE = re.compile(r"str(\d{1,5})")

# Bits of a seed: SeedSequence gives 128.
MAX_SEED_BITS = 512


def plain_label(label: Any, path: str) -> Any:
    """Return a label as what JSON has, or raise."""
    label = label.item() if isinstance(label, np.generic) else label
    if type(label) not in (bool, int, float, str) or label != label:
        raise unsaveable(path, label, "a label that is a string, a number or a truth value")
    if isinstance(label, float):
        label = Number().encode(label, path, Writer())
    return label


@dataclass(frozen=True)
class Labels:
    """Labels, no two the same, with their dtype: of strings "str" and their length.

    ``dimension`` names how many there are; ``as_text``: labels of kinds that JSON does not have
    become strings, in place of an error.
    """

    dimension: str
    as_text: bool = False

    def owns(self, data: Any) -> bool:
        """Whether it is an array, or a dict with dtype and labels."""
        if isinstance(data, dict):
            return data.keys() == {"dtype", "labels"}
        return isinstance(data, np.ndarray)

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the dtype and the labels."""
        if not isinstance(value, np.ndarray) or value.ndim != 1:
            raise unsaveable(path, value, "an array of labels")
        if self.as_text and not _is_plain(value):
            value = _texts(value)
        dtype, labels = str(value.dtype), value.tolist()
        if value.dtype.kind == "U":
            dtype = f"str{max(1, min(value.dtype.itemsize // 4, 99_999))}"
        elif TIME_DTYPE.fullmatch(dtype):
            labels = value.astype(np.int64).tolist()
        elif dtype != "object" and dtype not in PLAIN_DTYPES:
            raise unsaveable(path, value, "labels that are strings, numbers or truth values")
        return {"dtype": dtype, "labels": [plain_label(label, path) for label in labels]}

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        if not self.owns(data) or not isinstance(data["labels"], list):
            raise unfit(path, f"{data!r:.60}", "labels with their dtype")
        labels = [_label(label, path, reader) for label in data["labels"]]
        if len(set(labels)) != len(labels):
            raise unfit(path, f"{labels!r:.60}", "labels of which no two are the same")
        reader.bind(self.dimension, len(labels), path)
        return _typed(labels, data["dtype"], path)


def _is_plain(value: np.ndarray) -> bool:
    return value.dtype.kind == "U" or str(value.dtype) in PLAIN_DTYPES


def _texts(value: np.ndarray) -> np.ndarray:
    """Return labels as strings, or their positions if that makes some the same."""
    texts = np.array([str(label) for label in value.tolist()])
    return texts if len(np.unique(texts)) == len(texts) else np.arange(len(texts))


def _label(label: Any, path: str, reader: Reader) -> bool | int | float | str:
    if isinstance(label, bool | str):
        return label
    number: int | float = Number().decode(label, path, reader)
    return number


def _typed(labels: list[Any], dtype: Any, path: str) -> np.ndarray:
    """Return labels as an array of a dtype that a file names, if they fit it."""
    kinds, dtype = {type(label) for label in labels}, str(dtype)
    text, time = TEXT_DTYPE.fullmatch(dtype), TIME_DTYPE.fullmatch(dtype)
    if dtype == "object":
        array = np.empty(len(labels), dtype=object)
        array[:] = labels
        return array
    if text and kinds <= {str} and max(map(len, labels), default=0) <= int(text[1]):
        # A hostile width would take memory, but no more than some hundred kB for each label.
        return np.array(labels, dtype=f"<U{int(text[1])}")
    if time and kinds <= {int}:
        return np.array(labels, dtype=np.int64).astype(dtype)
    right = {bool} if dtype == "bool" else {float} if dtype.startswith("float") else {int}
    if dtype in PLAIN_DTYPES and kinds <= right and _in_range(labels, dtype):
        return np.array(labels, dtype=dtype)
    raise unfit(path, f"{labels!r:.60} of dtype {dtype:.40}", "labels that fit their dtype")


def _in_range(labels: list[Any], dtype: str) -> bool:
    if "int" not in dtype:
        return True
    limits = np.iinfo(dtype)
    return all(limits.min <= label <= limits.max for label in labels)


@dataclass(frozen=True)
class ClassWeights:
    """Weights by class: a list of pairs, as keys of JSON would all be strings."""

    def owns(self, data: Any) -> bool:
        """Whether it is a dict, or a list."""
        return isinstance(data, dict | list)

    def encode(self, value: Any, path: str, writer: Writer) -> list[Any]:
        """Return pairs of label and weight."""
        if not isinstance(value, dict):
            raise unsaveable(path, value, 'None, "balanced" or weights by class')
        return [
            [plain_label(label, path), Number().encode(weight, path, writer)]
            for label, weight in value.items()
        ]

    def decode(self, data: Any, path: str, reader: Reader) -> dict[Any, Any]:
        """Return a dict."""
        pairs = isinstance(data, list) and all(isinstance(x, list) and len(x) == 2 for x in data)
        if not pairs:
            raise unfit(path, f"{data!r:.60}", "pairs of a class and its weight")
        return {
            _label(label, path, reader): Number().decode(weight, path, reader)
            for label, weight in data
        }


@dataclass(frozen=True)
class Seed:
    """A seed: None, a whole number or several.

    A generator is not saved, and comes back as None: what it draws next depends on who else drew
    from it, so a model fitted again after loading could not be the same anyway.
    """

    def owns(self, data: Any) -> bool:
        """Whether it is anything: it is the only field of its parameter."""
        return True

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Return null, an int or a list of ints."""
        if value is None or is_generator(value):
            return None
        if isinstance(value, np.ndarray):
            value = value.tolist()
        if isinstance(value, list | tuple):
            return [_seed(part, path) for part in value]
        return _seed(value, path)

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return None, an int or a list of ints."""
        parts = data if isinstance(data, list) else [] if data is None else [data]
        for part in parts:
            if type(part) is not int or part.bit_length() > MAX_SEED_BITS:
                raise unfit(path, f"{part!r:.60}", "a whole number, several or null")
        return data


def is_generator(value: Any) -> bool:
    """Whether a random state is an object with a state of its own."""
    kinds = np.random.Generator | np.random.RandomState | np.random.BitGenerator
    return isinstance(value, kinds | np.random.SeedSequence)


def _seed(value: Any, path: str) -> int:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or int(value).bit_length() > MAX_SEED_BITS:
        raise unsaveable(path, value, "None, whole numbers or a NumPy generator")
    return int(value)


@dataclass(frozen=True)
class Landmarks:
    """Landmarks as the user gave them, which come back as a NumPy array."""

    def owns(self, data: Any) -> bool:
        """Whether it is no string."""
        return not isinstance(data, str)

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """Put the array away."""
        array = np.asarray(value)
        if array.dtype.kind not in "fiu" or array.ndim != 2:
            raise unsaveable(path, value, "numbers of shape (landmarks, features)")
        if str(array.dtype) not in PLAIN_DTYPES:
            array = array.astype(np.float64)
        return writer.put(path, array)

    def decode(self, data: Any, path: str, reader: Reader) -> np.ndarray:
        """Return the array."""
        shape = (f"rows of {path}", f"columns of {path}")
        return Array(shape, tuple(PLAIN_DTYPES)).decode(data, path, reader)


BAG_FIELDS: dict[str, Any] = {
    "points": Array(("points", "columns"), ("float64", "float32")),
    "offsets": Array(("bags+1",), ("int64",)),
    "ids": Labels("bags", as_text=True),
    "weights": Maybe(Array(("points",))),
    "covariates": Maybe(Array(("bags", "covariates"))),
}


@dataclass(frozen=True)
class TrainingBags:
    """The bags of a model that keeps its points; ids other than numbers and strings become text."""

    def owns(self, data: Any) -> bool:
        """Whether it is bags, or stands for them."""
        return type(data) is Bags or isinstance(data, dict)

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Put the points away."""
        if type(value) is not Bags:
            raise unsaveable(path, value, "Bags")
        return {
            name: field.encode(getattr(value, name), f"{path}.{name}", writer)
            for name, field in BAG_FIELDS.items()
        }

    def decode(self, data: Any, path: str, reader: Reader) -> dict[str, Any]:
        """Return the parts of the bags, which get their names from the model."""
        if not isinstance(data, dict) or data.keys() != BAG_FIELDS.keys():
            raise unfit(path, f"{data!r:.60}", f"bags with {', '.join(BAG_FIELDS)}")
        return {
            name: field.decode(data[name], f"{path}.{name}", reader)
            for name, field in BAG_FIELDS.items()
        }
