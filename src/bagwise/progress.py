"""Progress bar on long work: in a terminal or a notebook, never in a log file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, ClassVar, Self

from bagwise.terminal import printable

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
    _users: ClassVar[int] = 0
    _lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, title: str, total: int | None, shown: bool = True) -> None:
        self._title, self._total, self._shown = printable(title), total, shown
        self._bar: Any = None
        self._task: Any = None

    def advance(self, steps: int = 1) -> None:
        """Report that some steps are done."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def __enter__(self) -> Self:
        if not self._shown:
            return self
        with Progress._lock:
            if Progress._display is None:
                Progress._display = _bar()
                if Progress._display is not None:
                    Progress._display.start()
            if Progress._display is not None:
                Progress._users += 1
                self._bar = Progress._display
                self._task = self._bar.add_task(self._title, total=self._total)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is None:
            return
        with Progress._lock:
            Progress._users -= 1
            if Progress._users == 0:
                Progress._display.stop()
                Progress._display = None
            else:
                self._bar.remove_task(self._task)
            self._bar = None


def _bar() -> Any:
    """Return rich's progress bar on stderr, or None where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    if not (console.file.isatty() or console.is_jupyter):
        return None
    title = TextColumn("{task.description}", markup=False)  # a file may be called a[/b].csv
    columns = title, BarColumn(), MofNCompleteColumn()
    return RichProgress(*columns, TimeRemainingColumn(), console=console, transient=True)
