"""Atomic writes: a file is either as it was or as it is to be, whatever happens in between."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from bagwise.exceptions import SavedModelError

fcntl: Any
try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows, where leftovers stay)
    fcntl = None

# Characters of the target's name that a temporary file repeats: names may have 255 bytes.
SHOWN = 40

# A temporary file is locked from its first moment; younger ones are left alone all the same.
LEFTOVER_SECONDS = 60.0


def write_atomically(path: str, data: bytes) -> None:
    """Write a file so that a reader, a kill or a full disk finds the old one or the new, whole.

    The bytes go to a temporary file beside the target, are flushed to the disk, and take its place
    in one step. The mode is that of the file that was there, else what the umask leaves.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a")
    >>> write_atomically(str(path), b"one"), write_atomically(str(path), b"two")
    (None, None)
    >>> path.read_bytes(), len(list(path.parent.iterdir()))
    (b'two', 1)
    """
    target = os.path.realpath(path)  # through symbolic links, which stay
    try:
        mode = _mode_of(target)
        with _temporary(target) as (descriptor, name):
            with open(descriptor, "wb") as file:
                if mode is not None and hasattr(os, "fchmod"):
                    os.fchmod(descriptor, mode)
                file.write(data)
                file.flush()
                os.fsync(descriptor)
            os.replace(name, target)
        _flush_folder(os.path.dirname(target))
    except OSError as error:
        raise _explained(error, path, len(data)) from error


def _mode_of(target: str) -> int | None:
    """Return the mode of the file that is there, or None; refuse all but plain files."""
    try:
        status = os.stat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no plain file")
    return stat.S_IMODE(status.st_mode)


@contextmanager
def _temporary(target: str) -> Iterator[tuple[int, str]]:
    """Make a locked temporary file beside the target; remove it if it is still there at the end."""
    folder, name = os.path.split(target)
    _clear_leftovers(folder, name)
    path = os.path.join(folder, f".{name[:SHOWN]}.{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o666)
    try:
        if fcntl is not None:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor, path
    finally:
        with suppress(OSError):
            os.unlink(path)


def _clear_leftovers(folder: str, name: str) -> None:
    """Remove temporary files of savers that were killed: nobody holds their lock any more."""
    pattern = re.compile(re.escape(f".{name[:SHOWN]}.") + r"[0-9a-f]{16}\.part")
    if fcntl is None:  # pragma: no cover
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name):
                with suppress(OSError):
                    _remove_if_abandoned(entry.path)


def _remove_if_abandoned(path: str) -> None:
    if time.time() - os.lstat(path).st_mtime < LEFTOVER_SECONDS:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _flush_folder(folder: str) -> None:
    """Make the new name survive a power cut, where folders can be flushed."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _explained(error: OSError, path: str, n_bytes: int) -> SavedModelError:
    """Say what stood in the way of writing, and what to do."""
    kept = "What was there before is unchanged."
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return SavedModelError.because(
            f"there is no room for {path}",
            f"{n_bytes:,} bytes of free space",
            f"Free some space or save to another disk. {kept}",
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return SavedModelError.because(
            f"{path} may not be written ({error.strerror})",
            "a folder that you may write to",
            f"Change its permissions or save to another folder. {kept}",
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return SavedModelError.because(
            f"the folder of {path} does not exist",
            "a path in a folder that exists",
            "Make the folder first, or save elsewhere.",
        )
    if error.errno == errno.EISDIR:
        return SavedModelError.because(
            f"{path} is a folder", "the path of a file", "Add a file name, such as model.bagwise."
        )
    return SavedModelError.because(
        f"{path} could not be written ({error.strerror or error})",
        "a path of a plain file on a disk that works",
        f"Save elsewhere. {kept}",
    )
