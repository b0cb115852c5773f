"""Progress bar on long work: in a terminal or a notebook, never in a log file."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self


class Progress:
    """A bar with the time left, safe to advance from several threads.

    Parameters
    ----------
    title : what is being done;  total : number of steps;  shown : False to switch it off

    Examples
    --------
    >>> with Progress("counting", 3, shown=False) as progress:
    ...     for _ in range(3):
    ...         progress.advance()
    """

    def __init__(self, title: str, total: int, shown: bool = True) -> None:
        self._bar: Any = None
        if shown:
            self._bar = _bar()
        if self._bar is not None:
            self._task = self._bar.add_task(title, total=total)

    def advance(self, steps: int = 1) -> None:
        """Report that some steps are done."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()


def _bar() -> Any:
    """Return rich's progress bar on stderr, or None where nobody watches."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    console = Console(stderr=True)
    if not (console.file.isatty() or console.is_jupyter):
        return None
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    return RichProgress(*columns, TimeRemainingColumn(), console=console, transient=True)
