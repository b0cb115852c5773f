"""Lines and tables of the benchmark, and how times are taken."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Target:
    """A bound on a measurement."""

    bound: float
    at_least: bool = False
    unit: str = ""

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {self.bound:g}{self.unit}"

    def met(self, value: float) -> bool:
        """Whether the value is within the bound."""
        return bool(value >= self.bound if self.at_least else value <= self.bound)


@dataclass(frozen=True)
class Line:
    """One measurement: what, its cells, and the value that is held against the target."""

    what: str
    cells: Sequence[str]
    value: float
    target: Target | None = None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, or None without one."""
        return None if self.target is None else self.target.met(self.value)


@dataclass
class Section:
    """A table of lines with notes below it."""

    title: str
    columns: Sequence[str]
    lines: list[Line] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, cells: Sequence[str], value: float, target: Target | None) -> None:
        """Append a line."""
        self.lines.append(Line(what, cells, float(value), target))

    def __str__(self) -> str:
        verdict = {True: "yes", False: "NO", None: ""}
        rows = [["", *self.columns, "target", "met"]]
        for line in self.lines:
            target = "-" if line.target is None else str(line.target)
            rows.append([line.what, *line.cells, target, verdict[line.met]])
        widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
        text = [self.title, "-" * len(self.title)]
        for row in rows:
            cells = [row[0].ljust(widths[0])]
            cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
            text.append("  ".join(cells).rstrip())
        return "\n".join([*text, *(f"  {note}" for note in self.notes), ""])

    def as_json(self) -> dict[str, Any]:
        """Return the section as plain data."""
        lines = [
            {
                "what": line.what,
                **dict(zip(self.columns, line.cells, strict=True)),
                "value": line.value,
                "target": None if line.target is None else str(line.target),
                "met": line.met,
            }
            for line in self.lines
        ]
        return {"title": self.title, "lines": lines, "notes": self.notes}


def interleaved(
    sides: Sequence[Callable[[], object]],
    repeats: int,
    clock: Callable[[], float] = time.perf_counter,
) -> list[float]:
    """Return the least seconds of each side, taken in turn so that all meet the same load."""
    seconds = np.empty((repeats, len(sides)))
    for turn in range(repeats):
        for j, side in enumerate(sides):
            start = clock()
            side()
            seconds[turn, j] = clock() - start
    return [float(least) for least in seconds.min(axis=0)]


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the slope of log value on log size.

    Examples
    --------
    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(values), 1)[0])
