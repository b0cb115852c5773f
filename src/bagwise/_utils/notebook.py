"""Small pieces of HTML for notebooks: no scripts, no colours of their own, all text escaped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

BOX = "font-family:system-ui,sans-serif;font-size:13px;line-height:1.5;max-width:60em"
CELL = "text-align:right;padding:1px 8px;border:0;background:none;color:inherit"
BAR_WIDTH, BAR_HEIGHT = 14, 36
MAX_NAMES = 12


def panel(title: str, *parts: str) -> str:
    """Return a title, which is text, above parts that are HTML already.

    Examples
    --------
    >>> panel("a < b").endswith("<b>a &lt; b</b></div>")
    True
    """
    return f'<div style="{BOX}"><b>{escape(title)}</b>{"".join(parts)}</div>'


def line(name: str, text: str) -> str:
    """Return a line of text with a name before it."""
    return f'<div><span style="opacity:.65">{escape(name)}</span> {escape(text)}</div>'


def table(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return a table with a heading for each column."""

    def row(tag: str, cells: Sequence[Any]) -> str:
        inner = "".join(f'<{tag} style="{CELL}">{escape(show(cell))}</{tag}>' for cell in cells)
        return f'<tr style="background:none">{inner}</tr>'

    rows = "".join(row("td", cells) for cells in zip(*columns.values(), strict=True))
    body = f"<thead>{row('th', list(columns))}</thead><tbody>{rows}</tbody>"
    return f'<table style="border-collapse:collapse;border:0;margin:4px 0">{body}</table>'


def bars(counts: Sequence[int], titles: Sequence[str]) -> str:
    """Return a histogram; a bar says what it is when the mouse is over it."""
    largest, step = max([1, *counts]), BAR_WIDTH + 1
    drawn = "".join(
        f'<rect x="{i * step}" y="{BAR_HEIGHT - height:g}" width="{BAR_WIDTH}" height="{height:g}">'
        f"<title>{escape(title)}</title></rect>"
        for i, (count, title) in enumerate(zip(counts, titles, strict=True))
        for height in [max(BAR_HEIGHT * count / largest, float(count > 0))]
    )
    size = f'width="{step * len(counts)}" height="{BAR_HEIGHT}"'
    style = "display:block;margin:4px 0;opacity:.6"
    return f'<svg {size} role="img" fill="currentColor" style="{style}">{drawn}</svg>'


def show(value: Any) -> str:
    """Write a value in a few characters.

    Examples
    --------
    >>> show(1 / 3), show("a"), show(7)
    ('0.3333', 'a', '7')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def listed(names: Sequence[Any]) -> str:
    """Write names, and of many the first.

    Examples
    --------
    >>> listed(["x", "y"])
    'x, y'
    """
    rest = len(names) - MAX_NAMES
    return ", ".join(map(str, names[:MAX_NAMES])) + (f" and {rest} more" if rest > 0 else "")
