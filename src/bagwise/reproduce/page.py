"""Page: tables, figures and claims of a study in one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import StringIO
from typing import TYPE_CHECKING, Any

from bagwise._utils.templates import render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    drawn = {heading: (svg(figure), caption) for heading, (figure, caption) in figures.items()}
    return render(
        "bagwise.reproduce",
        "page.html.jinja",
        title=title,
        intro=intro,
        tables=tables,
        figures=drawn,
        notes=notes,
        record=record,
    )


def svg(figure: Figure) -> str:
    """Return a figure as an SVG element."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawing = text.getvalue()
    return drawing[drawing.index("<svg") :]
