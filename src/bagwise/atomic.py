"""Atomic writing: a file is the old one or the new one, never half of either."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bagwise.exceptions import BagwiseError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a path to write to, which takes the place of ``path`` when all went well.

    The part is in the same folder, so that moving it there is one step; on any error it is removed
    and what was at ``path`` stays. What the system refuses is a BagwiseError with the remedy.

    Examples
    --------
    >>> folder = tempfile.mkdtemp()
    >>> with replacing(Path(folder) / "a.txt") as part:
    ...     _ = part.write_text("new")
    >>> (Path(folder) / "a.txt").read_text(), len(list(Path(folder).iterdir()))
    ('new', 1)
    """
    path = Path(path)
    part: Path | None = None
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name[:100]}-", dir=path.parent)
        part = Path(name)
        os.close(handle)
        yield part
        _flush(part)
        part.chmod(_mode(path))
        part.replace(path)
    except OSError as error:
        _remove(part)
        raise BagwiseError.because(
            f"{path} cannot be written ({error.strerror or error})",
            "a folder with room, in which files may be made",
            "Free some space, or choose another place; what was there before is untouched.",
        ) from error
    except BaseException:
        _remove(part)
        raise


def _remove(part: Path | None) -> None:
    if part is not None:
        part.unlink(missing_ok=True)


def _flush(part: Path) -> None:
    """Make sure the bytes are on the disk before the name is."""
    with part.open("rb+") as file:
        os.fsync(file.fileno())


def _mode(path: Path) -> int:
    """Return the permissions of the file that is replaced, or those of a new one."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
