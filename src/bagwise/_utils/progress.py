"""Progress bar on long work: in a terminal or a notebook, never in a log file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ClassVar, Self

from bagwise._utils.terminal import printable

# Whether work that has no parameter for it, such as a fit, shows its progress: not in a library,
# unless somebody who watches, such as the command line, has said so.
_WANTED: ContextVar[bool] = ContextVar("bagwise_progress", default=False)


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
