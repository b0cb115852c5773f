"""Atomic writing: a file is the old one or the new one, never half of either."""

from __future__ import annotations

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
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

ROOM = "room on the disk", "Free some space, or choose another place"
RIGHTS = "a folder that you may write to", "Change its permissions, or choose another place"
FOLDER = "a folder that exists", "Make the folder, or choose another place"

# What may stand in the way of writing: what was expected instead, and what to do.
TROUBLE = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), ROOM),
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), RIGHTS),
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR), FOLDER),
    errno.EISDIR: ("the path of a file, not of a folder", "Add a file name"),
}

_parts: set[Path] = set()  # of this process, from before they are made until they are gone


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
    target = Path(os.path.realpath(path))
    part = target.with_name(f".{target.name[:SHOWN]}.{secrets.token_hex(8)}.part")
    try:
        mode = _mode_of(target)
        _remove_abandoned(target)
        _parts.add(part)
        with _opened(part, os.O_RDWR | os.O_CREAT | os.O_EXCL) as descriptor:
            try:
                with suppress(OSError):  # some file systems have no locks
                    _lock(descriptor)
                yield part
                if mode is not None:
                    part.chmod(mode)
                os.fsync(descriptor)
                part.replace(target)
            finally:
                _remove(part)
        with suppress(OSError):  # so that the new name survives a power cut, where that can be had
            with _opened(target.parent, os.O_RDONLY) as folder:
                os.fsync(folder)
    except OSError as error:
        expected, remedy = TROUBLE.get(
            error.errno or 0, ("a plain file in a folder with room", "Choose another place")
        )
        raise BagwiseError.because(
            f"{os.fspath(path)} cannot be written ({error.strerror or error})",
            expected,
            f"{remedy}; what was there before is untouched.",
        ) from error


@contextmanager
def locked(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a file to ourselves while it is read and replaced; raise if somebody else has it.

    Without that, of two that add to a file at once the second would undo the first. The lock goes
    with the process, however it ends; where there are no locks (Windows) nothing is kept.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile() as file, locked(file.name):
    ...     pass
    """
    try:
        with _opened(Path(path), os.O_RDONLY) as descriptor:
            try:
                _lock(descriptor)
                taken = not os.path.samestat(os.fstat(descriptor), os.stat(path))
            except BlockingIOError:
                taken = True
            if taken:
                raise BagwiseError.because(
                    f"{os.fspath(path)} is being changed by another process",
                    "one that changes it at a time",
                    "Wait until it is done, and try again.",
                )
            yield
    except FileNotFoundError as error:
        raise BagwiseError.because(
            f"there is no file {os.fspath(path)}", "a file to be changed", "Check the path."
        ) from error


def remove_parts() -> None:
    """Remove what an interrupt has left of files that were being written.

    Ctrl-C may come between any two steps of Python: when the part is there already and
    ``replacing`` does not know it yet, or on the way to its end. Who then leaves calls this.
    """
    for part in tuple(_parts):
        _remove(part)


def _remove(part: Path) -> None:
    with suppress(OSError):
        part.unlink()
    _parts.discard(part)


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


def _mode_of(target: Path) -> int | None:
    """Return the mode of the file that is there, or None; refuse all but plain files."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):  # a device such as /dev/null would become a file
        raise OSError(errno.EINVAL, "it is no plain file")
    return stat.S_IMODE(mode)


def _remove_abandoned(target: Path) -> None:
    """Remove the parts of writers that were killed: nobody holds their lock any more."""
    pattern = escape(f".{target.name[:SHOWN]}.") + 16 * "[0-9a-f]" + ".part"
    for part in target.parent.glob(pattern) if fcntl is not None else ():
        with suppress(OSError):
            if time.time() - part.lstat().st_mtime > ABANDONED_SECONDS:
                with _opened(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK) as descriptor:
                    _lock(descriptor)
                    part.unlink()


def _lock(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, flags, 0o666)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
