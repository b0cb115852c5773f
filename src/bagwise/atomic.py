"""Atomic writing: a file is the old one or the new one, never half of either."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bagwise.exceptions import BagwiseError

fcntl: Any
try:
    import fcntl
except ImportError:  # pragma: no cover  (Windows, where parts of killed writers stay)
    fcntl = None

# Characters of the file's name that its part repeats: names may have 255 bytes.
SHOWN = 40

# A part is locked from its first moment; younger ones are left alone all the same.
ABANDONED_SECONDS = 60.0

# What may stand in the way of writing: what was expected instead, and what to do.
TROUBLE = {
    (errno.ENOSPC, errno.EDQUOT, errno.EFBIG): (
        "room on the disk",
        "Free some space, or choose another place",
    ),
    (errno.EACCES, errno.EPERM, errno.EROFS): (
        "a folder that you may write to",
        "Change its permissions, or choose another place",
    ),
    (errno.ENOENT, errno.ENOTDIR): (
        "a folder that exists",
        "Make the folder, or choose another place",
    ),
    (errno.EISDIR,): ("the path of a file, not of a folder", "Add a file name"),
}


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to, which takes the place of ``path`` when all went well.

    The part is in the same folder, so that moving it there is one step; on any error it is removed
    and what was at ``path`` stays. A kill leaves it there, until somebody writes to ``path`` again.
    The mode is that of the file that is replaced, else what the umask leaves; symbolic links are
    followed. What the system refuses is a BagwiseError with the remedy.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with replacing(Path(folder) / "a.txt") as part:
    ...     _ = part.write_text("new")
    >>> (Path(folder) / "a.txt").read_text(), len(list(Path(folder).iterdir()))
    ('new', 1)
    """
    target = os.path.realpath(path)
    try:
        mode = _mode_of(target)
        _remove_abandoned(target)
        with _part_of(target) as part:
            yield part
            if mode is not None:
                part.chmod(mode)
            _flush(part, os.O_RDWR)
            part.replace(target)
        with suppress(OSError):  # so that the new name survives a power cut, where that can be had
            _flush(Path(target).parent, os.O_RDONLY)
    except OSError as error:
        raise _explained(error, path) from error


def replaceable(path: str | os.PathLike[str], ours: Callable[[str], bool] | None = None) -> bool:
    """Whether nothing of somebody else's is lost if a file takes the place of what is at ``path``.

    That is so where there is no file, or an empty one, or one that ``ours`` knows. What is no plain
    file is not replaced at all: :func:`replacing` says so.
    """
    try:
        found = os.stat(path)
    except OSError:
        return True
    if not stat.S_ISREG(found.st_mode) or found.st_size == 0:
        return True
    return ours is not None and ours(os.fspath(path))


def _mode_of(target: str) -> int | None:
    """Return the mode of the file that is there, or None; refuse all but plain files."""
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # a device such as /dev/null would become a file
        raise OSError(errno.EINVAL, "it is no plain file")
    return stat.S_IMODE(mode)


@contextmanager
def _part_of(target: str) -> Iterator[Path]:
    """Make a locked file beside the target; remove it if it is still there at the end."""
    folder, name = os.path.split(target)
    part = Path(folder, f".{name[:SHOWN]}.{secrets.token_hex(8)}.part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        if fcntl is not None:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield part
    finally:
        os.close(descriptor)
        with suppress(OSError):
            part.unlink()


def _remove_abandoned(target: str) -> None:
    """Remove the parts of writers that were killed: nobody holds their lock any more."""
    folder, name = os.path.split(target)
    pattern = re.compile(re.escape(f".{name[:SHOWN]}.") + r"[0-9a-f]{16}\.part")
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if pattern.fullmatch(entry.name) and fcntl is not None:
                with suppress(OSError):
                    _remove_unless_locked(entry.path)


def _remove_unless_locked(path: str) -> None:
    if time.time() - os.lstat(path).st_mtime < ABANDONED_SECONDS:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    finally:
        os.close(descriptor)


def _flush(path: Path, flags: int) -> None:
    """Make sure that what was written is on the disk."""
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explained(error: OSError, path: str | os.PathLike[str]) -> BagwiseError:
    expected, remedy = next(
        (advice for numbers, advice in TROUBLE.items() if error.errno in numbers),
        ("a plain file in a folder with room", "Choose another place"),
    )
    return BagwiseError.because(
        f"{os.fspath(path)} cannot be written ({error.strerror or error})",
        expected,
        f"{remedy}; what was there before is untouched.",
    )
