"""Page: tables, figures and claims of a study in one HTML file that needs nothing else."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from bagwise.reproduce.tables import html_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE = """
body { font: 16px/1.5 Georgia, serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; background: #fff; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 2.5rem; }
table { border-collapse: collapse; font: 14px/1.4 system-ui, sans-serif; margin: 1rem 0; }
th, td { padding: .25rem .7rem; text-align: left; border-bottom: 1px solid #ddd; }
th { border-bottom: 2px solid #888; }
figure { margin: 1.5rem 0; }
svg { max-width: 100%; height: auto; }
figcaption { font-size: 14px; color: #555; } .scroll { overflow-x: auto; }
"""


def page(
    title: str,
    intro: str,
    tables: Mapping[str, Sequence[Mapping[str, Any]]],
    figures: Mapping[str, tuple[Figure, str]],
    notes: Sequence[str],
    record: Mapping[str, str],
) -> str:
    """Return the page.

    Parameters
    ----------
    title, intro : plain text
    tables : rows by heading;  figures : figure and caption by heading
    notes : paragraphs below the tables;  record : versions and dates, shown at the end
    """
    parts = [f"<h1>{html.escape(title)}</h1>", f"<p>{html.escape(intro)}</p>"]
    for heading, rows in tables.items():
        if rows:
            table = f'<div class="scroll">{html_table(rows)}</div>'
            parts += [f"<h2>{html.escape(heading)}</h2>", table]
    parts += [f"<p>{html.escape(note)}</p>" for note in notes]
    for heading, (figure, caption) in figures.items():
        parts += [
            f"<h2>{html.escape(heading)}</h2>",
            f"<figure>{svg(figure)}<figcaption>{html.escape(caption)}</figcaption></figure>",
        ]
    made = ", ".join(f"{name} {value}" for name, value in record.items())
    parts += ["<h2>How it was made</h2>", f"<p>{html.escape(made)}</p>"]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(parts)}</body></html>\n"
    )


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]
