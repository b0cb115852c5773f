"""Long work: how far it is, shown in a terminal or a notebook, and in how many threads it runs."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Self

# Whether work that has no parameter for it, such as a fit, shows its progress: not in a library,
# unless somebody who watches, such as the command line, has said so.
_WANTED: ContextVar[bool] = ContextVar("bagwise_progress", default=False)

# Controls (escape sequences begin with one), marks that turn the direction of what follows, breaks
# of lines and paragraphs, and halves of characters (as in names of files that are not UTF-8).
UNSHOWN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


@contextmanager
def progress_shown(shown: bool = True) -> Iterator[None]:
    """Let everything within show its progress, also what has no parameter for it.

    Examples
    --------
    >>> with progress_shown():
    ...     wanted()
    True
    """
    token = _WANTED.set(shown)
    try:
        yield
    finally:
        _WANTED.reset(token)


def wanted() -> bool:
    """Whether progress was asked for by :func:`progress_shown`."""
    return _WANTED.get()


class Progress:
    """A bar with the time left, safe to advance from several threads and to be put into another.

    Parameters
    ----------
    title : what is being done;  total : number of steps, None if nobody knows
    shown : False to switch it off

    Examples
    --------
    >>> with Progress("counting", 3, shown=False) as progress:
    ...     for _ in range(3):
    ...         progress.advance()
    """

    # A terminal has room for one display: bars within bars are further lines of it.
    _display: ClassVar[Any] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, title: str, total: int | None, shown: bool = True) -> None:
        self._title, self._total, self._shown = printable(title), total, shown
        self._bar: Any = None

    def advance(self, steps: int = 1) -> None:
        """Report that some steps are done."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def __enter__(self) -> Self:
        with Progress._lock:
            if self._shown and Progress._display is None:
                Progress._display = _started()
            if self._shown and Progress._display is not None:
                self._bar = Progress._display
                self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(self, *error: object) -> None:
        with Progress._lock:
            if self._bar is not None and len(self._bar.tasks) > 1:
                self._bar.remove_task(self._task)
            elif self._bar is not None:
                self._bar.stop()
                Progress._display = None
            self._bar = None


def _started() -> Any:
    """Return rich's progress bar on stderr, or None where nobody watches."""
    from rich import progress
    from rich.console import Console

    console = Console(stderr=True)
    if not (console.file.isatty() or console.is_jupyter):
        return None
    bar = progress.Progress(
        progress.TextColumn("{task.description}", markup=False),  # a file may be called a[/b].csv
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
    )
    bar.start()
    return bar


def printable(text: str, keep: str = "") -> str:
    r"""Return text with control characters written out, so that a terminal obeys none of them.

    Parameters
    ----------
    text : such as the id of a bag, or a sentence with a path in it
    keep : control characters that stay as they are

    Examples
    --------
    >>> print(printable("p\x1b[2J3\n"))
    p\x1b[2J3\n
    """
    return UNSHOWN.sub(
        lambda found: (
            found[0] if found[0] in keep else found[0].encode("unicode_escape").decode("ascii")
        ),
        text,
    )


@contextmanager
def imported_meanwhile(*modules: str) -> Iterator[None]:
    """Import modules in another thread, while this one does something that imports nothing new.

    Who interrupts it does not wait for them, and what they raise is raised where they are used.

    Examples
    --------
    >>> with imported_meanwhile("json.tool"):
    ...     pass
    >>> "json.tool" in sys.modules
    True
    """

    def work() -> None:
        with suppress(Exception):
            for name in modules:
                import_module(name)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    except KeyboardInterrupt:
        raise
    except BaseException:
        thread.join()
        raise
    thread.join()


def one_thread(user_api: str | None = None) -> Any:
    """Return a context in which BLAS, OpenMP or both (None) use one thread.

    Examples
    --------
    >>> with one_thread("blas"):
    ...     pass
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> Any:
    """Find the libraries that have threads, again only when something was imported since.

    To look for them takes 3 ms, as long as a small prediction; to set them takes 0.02 ms.
    """
    from threadpoolctl import ThreadpoolController  # where something is computed, not shown

    return ThreadpoolController()
