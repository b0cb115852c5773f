"""Markup: text, tables and figures as HTML. All text is escaped here and nowhere else."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bagwise.inspection.report.pictures import Figure

# In JSON inside HTML these could end the element, or (U+2028, U+2029) a line of a script.
_UNSAFE = {ord(c): f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


NUMBER = ' class="number"'


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and whether it is a number, names its row, or is marked."""

    text: str
    number: bool = False
    heading: bool = False
    mark: str = ""


def text(value: object) -> str:
    """Escape text for HTML, in content and in attributes.

    Examples
    --------
    >>> text('<b> & "c"')
    '&lt;b&gt; &amp; &quot;c&quot;'
    """
    return html.escape(str(value), quote=True)


def data_block(data: Any) -> str:
    r"""Return a script element of JSON that no text in it can leave.

    Examples
    --------
    >>> data_block({"id": "</script>"})
    '<script type="application/json" id="bag-data">{"id":"\\u003c/script\\u003e"}</script>'
    """
    body = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f'<script type="application/json" id="bag-data">{body.translate(_UNSAFE)}</script>'


def table(
    caption: str,
    head: Sequence[str],
    rows: Sequence[Sequence[Cell]],
    *,
    over: Sequence[tuple[str, int]] = (),
) -> str:
    """Return a table that scrolls sideways where it is too wide.

    Parameters
    ----------
    caption : of the table;  head : names of the columns;  rows : cells
    over : names above several columns, with their number
    """
    above = "".join(
        f'<th scope="colgroup" colspan="{span}">{text(name)}</th>' if name else "<td></td>"
        for name, span in over
    )
    numbers = [cell.number for cell in rows[0]]
    names = "".join(
        f'<th scope="col"{NUMBER if number else ""}>{text(name)}</th>'
        for name, number in zip(head, numbers, strict=True)
    )
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    top = f"<tr>{above}</tr>" if above else ""
    label = text(caption)
    return (
        f'<div class="scroll" role="region" aria-label="{label}" tabindex="0"><table>'
        f"<caption>{label}</caption><thead>{top}<tr>{names}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>"
    )


def _cell(cell: Cell) -> str:
    classes = " ".join(filter(None, ("number" if cell.number else "", cell.mark)))
    kind = f' class="{classes}"' if classes else ""
    if cell.heading:
        return f'<th scope="row"{kind}>{text(cell.text)}</th>'
    return f"<td{kind}>{text(cell.text)}</td>"


def figure(picture: Figure) -> str:
    """Return a picture with its heading, legend and caption."""
    keys = "".join(
        f'<li><span class="key {style}"></span>{text(name)}</li>' for style, name in picture.legend
    )
    legend = f'<ul class="legend">{keys}</ul>' if keys else ""
    return (
        f"<figure><h3>{text(picture.title)}</h3>{picture.svg}{legend}"
        f"<figcaption>{text(picture.caption)}</figcaption></figure>"
    )


def figures(pictures: Sequence[Figure]) -> str:
    """Return pictures side by side where there is room."""
    return f'<div class="figures">{"".join(map(figure, pictures))}</div>'


def section(name: str, title: str, *content: str) -> str:
    """Return a section with its heading."""
    return (
        f'<section id="{name}" aria-labelledby="{name}-title">'
        f'<h2 id="{name}-title">{text(title)}</h2>{"".join(content)}</section>'
    )


def paragraph(words: str, kind: str = "") -> str:
    """Return a paragraph of plain text."""
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"
