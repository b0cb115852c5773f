"""Container: a safetensors file with a JSON header and a checksum over every byte.

Its layout, byte by byte, is in docs/format.md. Bytes are checked from the outside in: kind of file,
length, format and version, checksum, and only then the tensors, which a ``Writer`` takes out of a
model and a ``Reader`` gives back, each by the path at which it was.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from bagwise.exceptions import SavedModelError

FORMAT = "bagwise model"
FORMAT_VERSION = 2

# Running sums of bags are files of the same kind, with other names in their header.
SUMS_FORMAT, SUMS_VERSION = "bagwise sums", 1

# What each format is called, and its version.
FORMATS = {FORMAT: ("a model", FORMAT_VERSION), SUMS_FORMAT: ("sums of bags", SUMS_VERSION)}

# Where the header is in the metadata of safetensors.
METADATA_KEY = "bagwise"

# The checksum is that of the file with these digits in its place, and stands after this mark: the
# header is a JSON string within JSON, so its quotes are escaped.
NO_DIGEST = "0" * 64
DIGEST_MARK = b'\\"sha256\\":\\"'

# Names, parameters, schema and summary: far more than any of ours, far less than would hurt.
MAX_HEADER_BYTES = 32 * 2**20
MAX_DEPTH = 40

DTYPES = frozenset(
    {"F64", "F32", "F16", "BOOL"} | {f"{k}{b}" for k in "IU" for b in (8, 16, 32, 64)}
)

# Dimensions that may be 0: covariates, and weights or directions where nothing varies.
MAY_BE_ZERO = frozenset({"covariates", "weights", "directions"})

# Dimensions of a head; so are those that are named after a class.
OF_A_HEAD = frozenset({"weights", "directions"})

# How files begin that people try to load.
FOREIGN = (
    (b"\x80", "a pickle, which could run any code when it is loaded"),
    (b"PK\x03\x04", "a zip file (as joblib, NumPy or Keras write)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"PAR1", "a Parquet file"),
    (b"\x89HDF", "an HDF5 file"),
    (b"\x93NUMPY", "a NumPy array"),
)


@dataclass(frozen=True, eq=False)
class Container:
    """What a file holds: its header, its checksum, and its tensors, still as bytes."""

    header: dict[str, Any]
    raw: bytes
    digest: str
    path: str

    def tensors(self) -> dict[str, np.ndarray]:
        """Return the tensors; their dtypes and dimensions were checked."""
        try:
            return load_tensors(self.raw)
        except SafetensorError as error:
            raise damaged(self.path, f"its tensors cannot be read ({error})") from error


def pack(header: dict[str, Any], tensors: dict[str, np.ndarray], kind: str = FORMAT) -> bytes:
    """Return the bytes of a file.

    Examples
    --------
    >>> data = pack({"answer": 42}, {"x": np.zeros(2)})
    >>> load_tensors(data)["x"]
    array([0., 0.])
    """
    whole = {"format": kind, "version": FORMATS[kind][1], "sha256": NO_DIGEST} | header
    text = json.dumps(whole, allow_nan=False, separators=(",", ":"))
    if len(text) > MAX_HEADER_BYTES:
        raise SavedModelError.because(
            f"the names, schema and summary take {len(text):,} bytes",
            f"at most {MAX_HEADER_BYTES:,}",
            "Leave out or shorten the schema and the summary.",
        )
    data = bytearray(save_tensors(tensors, {METADATA_KEY: text}))
    start = data.index(DIGEST_MARK) + len(DIGEST_MARK)
    data[start : start + len(NO_DIGEST)] = _digest(data, start).encode()
    return bytes(data)


def unpack(path: str, kind: str | None = None) -> Container:
    """Read a file and check everything about it but what the model is made of.

    ``kind`` is the format that is expected, None for any of ours.
    """
    with _open(path) as file:
        start, layout, header = _read_header(file, path)
        if kind not in (None, header["format"]):
            raise _other_kind(path, header["format"], str(kind))
        _check_version(header, path)
        end = len(start) + _check_layout(layout, os.fstat(file.fileno()).st_size, path)
        raw = start + file.read()
    if len(raw) < end:
        raise damaged(path, f"it ends after {len(raw):,} of {end:,} bytes")
    place = raw.find(DIGEST_MARK, 0, len(start)) + len(DIGEST_MARK)
    digest = header.get("sha256")
    if not isinstance(digest, str) or raw[place : place + len(NO_DIGEST)] != digest.encode():
        raise damaged(path, "its checksum is missing")
    if _digest(raw, place) != digest:
        raise damaged(path, "its checksum does not match its content")
    return Container(header, raw, digest, path)


def is_model(path: str) -> bool:
    """Whether a file begins as saved models do, even if it is damaged or newer than we can read."""
    return kind_of(path) == FORMAT


def is_sums(path: str) -> bool:
    """Whether a file begins as saved sums do, even if it is damaged or newer than we can read."""
    return kind_of(path) == SUMS_FORMAT


def kind_of(path: str) -> str | None:
    """Return the format of a file, or None if it is none of ours."""
    try:
        with _open(path) as file:
            return str(_read_header(file, path)[2]["format"])
    except SavedModelError:
        return None


def damaged(path: str, how: str) -> SavedModelError:
    """Return the error of a file that is not as it was written."""
    return SavedModelError.because(
        f"{path} is damaged: {how}",
        "the file as bagwise.save wrote it",
        "Copy it again from where it came from, or fit and save the model again.",
    )


def _digest(data: bytes | bytearray, start: int) -> str:
    """Return the SHA-256 of the bytes with zeros in place of the checksum."""
    view, digest = memoryview(data), hashlib.sha256()
    digest.update(view[:start])
    digest.update(NO_DIGEST.encode())
    digest.update(view[start + len(NO_DIGEST) :])
    return digest.hexdigest()


def _open(path: str) -> Any:
    """Open a plain file for reading; anything else could block, or never end."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        gone = isinstance(error, FileNotFoundError)
        found = f"there is no file {path}" if gone else f"{path} cannot be read ({error.strerror})"
        expected = "a model saved by bagwise.save" if gone else "a file that you may read"
        remedy = "Check the path." if gone else "Check the path and its permissions."
        raise SavedModelError.because(found, expected, remedy) from error
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise SavedModelError.because(
            f"{path} is {'a folder' if stat.S_ISDIR(mode) else 'no plain file'}",
            "a file saved by bagwise.save",
            "Give the path of the file.",
        )
    return open(descriptor, "rb")


def _read_header(file: Any, path: str) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """Return the bytes up to the tensors, the layout of these, and our own header."""
    size, start = os.fstat(file.fileno()).st_size, file.read(8)
    if size == 0:
        raise damaged(path, "it is empty")
    length = int.from_bytes(start, "little")
    possible = len(start) == 8 and 2 <= length <= 2 * MAX_HEADER_BYTES
    if not possible or length > size - 8:
        kind = next((kind for magic, kind in FOREIGN if start.startswith(magic)), None)
        if kind is None and possible:
            raise damaged(path, f"it ends after {size:,} bytes, within its header")
        raise foreign(path, f"it is {kind or 'no safetensors file'}")
    start += file.read(length)
    layout = _json(start[8:], path)
    metadata = layout.get("__metadata__") if isinstance(layout, dict) else None
    text = metadata.get(METADATA_KEY) if isinstance(metadata, dict) else None
    header = _json(text, path) if isinstance(text, str) else None
    if not isinstance(header, dict) or header.get("format") not in tuple(FORMATS):
        raise foreign(path, "it is a safetensors file of another program")
    return start, layout, header


def _other_kind(path: str, found: str, expected: str) -> SavedModelError:
    return SavedModelError.because(
        f"{path} holds {FORMATS[found][0]}",
        FORMATS[expected][0],
        "Check which file is which: bagwise info says it.",
    )


def foreign(path: str, what: str) -> SavedModelError:
    """Return the error of a file that something else wrote."""
    return SavedModelError.because(
        f"{path} is no saved bagwise model: {what}",
        "a file saved by bagwise.save",
        "Check the path; a damaged file looks like this too.",
    )


def _json(text: bytes | str, path: str) -> Any:
    """Parse JSON of bounded depth, without NaN and without names that occur twice."""
    try:
        parsed = json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise foreign(path, "its header is not JSON") from error
    if is_deep(parsed, MAX_DEPTH):
        raise foreign(path, f"its header is nested more than {MAX_DEPTH} deep")
    return parsed


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise ValueError("a name occurs twice")
    return dict(pairs)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def is_deep(data: Any, limit: int) -> bool:
    """Whether JSON is nested deeper than a limit.

    Examples
    --------
    >>> is_deep([[1], {"a": 2}], 2), is_deep([[[]]], 2)
    (False, True)
    """
    level = [data]
    for _ in range(limit + 1):
        inner = [part for part in level if isinstance(part, dict | list)]
        if not inner:
            return False
        level = [x for part in inner for x in (part.values() if isinstance(part, dict) else part)]
    return True


def _check_version(header: dict[str, Any], path: str) -> None:
    version = header.get("version")
    if type(version) is not int or version < 1:
        raise damaged(path, f"its format version is {version!r:.40}")
    current = FORMATS[header["format"]][1]
    if version != current:
        old = version < current
        who = "bagwise before its first release" if old else "a newer bagwise"
        raise SavedModelError.because(
            f"{path} was saved by {who}, in format {version}",
            f"format {current}",
            "Fit the model again and save it."
            if old
            else "Upgrade: pip install --upgrade bagwise.",
        )


def _check_layout(layout: dict[str, Any], size: int, path: str) -> int:
    """Check kinds and dimensions of the tensors against the file; return where their bytes end."""
    end = 0
    for name, entry in layout.items():
        if name == "__metadata__":
            continue
        known = isinstance(entry, dict) and entry.keys() == {"dtype", "shape", "data_offsets"}
        if not known or str(entry["dtype"]) not in DTYPES:
            raise damaged(path, f"its tensor {name!r:.80} is of an unknown kind")
        shape, offsets = entry["shape"], entry["data_offsets"]
        lists = isinstance(shape, list) and isinstance(offsets, list) and len(offsets) == 2
        if not lists or not all(type(n) is int and 0 <= n < 2**62 for n in (*shape, *offsets)):
            raise damaged(path, f"its tensor {name!r:.80} has impossible dimensions")
        if any(n > size for n in shape) or len(shape) > 3:
            raise damaged(path, f"its tensor {name!r:.80} has more entries than the file has bytes")
        end = max(end, offsets[1])
    return end


# ---- tensors by their paths ----------------------------------------------------------------------


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

    def leave_out(self, path: str, value: Any, then: str) -> None:
        """Note that a parameter is not saved, and what is ``then`` with the None in its place."""
        self.notes.append(
            f"{path.partition('.')[2]} was a {type(value).__name__}, which is not saved; the "
            f"loaded model has None, {then} if it is fitted again"
        )

    def adopt(self, path: str, inner: Writer) -> None:
        """Take over all that was written of a model within this one, which is at a path."""
        self.tensors |= {f"{path}.{name}": array for name, array in inner.tensors.items()}
        self.notes += [note for note in inner.notes if note not in self.notes]


class Reader:
    """Puts the arrays back; dimensions of one name have one size in the whole model.

    ``given`` are functions of the user's, of which a file has the names.
    """

    def __init__(self, tensors: Mapping[str, np.ndarray], given: Mapping[str, Any] | None = None):
        self._left, self.given = dict(tensors), {} if given is None else given
        self._sizes: dict[str, int] = {}
        self._own = self._sizes

    def part(self) -> Reader:
        """Return a reader for one of several heads, each with weights of its own number."""
        reader = Reader({}, self.given)
        reader._left, reader._sizes = self._left, self._sizes
        return reader

    def within(self, path: str) -> Reader:
        """Return a reader for a model within this one, whose tensors are no longer here."""
        mine = [name for name in self._left if name.startswith(f"{path}.")]
        return Reader({name[len(path) + 1 :]: self._left.pop(name) for name in mine}, self.given)

    def take(self, data: Any, path: str, dtypes: tuple[str, ...], ndim: int) -> np.ndarray:
        """Return the array of a path, as a copy in the memory order it had."""
        if data not in ({"array": "C"}, {"array": "F"}):
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
