"""Command: run a study, then write its tables, figures and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib.pyplot as plt
from markupsafe import escape

from bagwise._utils.templates import render
from bagwise.datasets import simulate_faces
from bagwise.reproduce import figures
from bagwise.reproduce.cell import Cell
from bagwise.reproduce.claims import claims_of
from bagwise.reproduce.runner import Work, run
from bagwise.reproduce.store import Store
from bagwise.reproduce.study import Study
from bagwise.reproduce.tables import (
    comparison_rows,
    markdown_table,
    rerun_rows,
    score_rows,
    write_csv,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INTRO = (
    "Law, Sutherland, Sejdinovic and Flaxman, Bayesian Approaches to Distribution Regression "
    "(AISTATS 2018), once more: parameters chosen on the validation bags, models fitted to the "
    "training bags alone, scores on the test bags."
)

NOTES = (
    "“Theirs” are the authors' stored numbers, per setting, and their printed table where there is "
    "one; “we win” counts the settings that both have.",
    "Where they differ: the authors stopped Adam early, where we find the optimum of the same "
    "objective exactly, and choose weight variances by evidence; they added a constant to the "
    "diagonal of Σ, we add a share of its average. Their BDR was fitted to 1,500 bags (ours to "
    "1,000), and its NLL is the mean of log densities over draws, which is never smaller than the "
    "proper −log of the mean density that we report.",
)


def reproduce(
    study: Study, out: Path, *, n_jobs: int = 1, progress: bool = True
) -> tuple[Work, Path]:
    """Compute what is missing and write everything; return what was done, and where the page is.

    In ``out``: ``cells/`` with every finished cell, ``<study>.csv`` with all scores,
    ``<study>-table.csv`` and ``.md`` with ours beside theirs, ``<study>-*.png`` and ``.svg``, and
    ``<study>.html``.
    """
    study = prepare(study, out)
    store = Store(out / "cells")
    work = run(study, store, n_jobs=n_jobs, progress=progress)
    return work, write(study, list(store.cells(study)), out)


def files_of_others(out: Path, study: Study) -> list[str]:
    """Return what bears the name of the study in ``out``, unless an earlier run has written it.

    An earlier run has left its cells there, or a page with the title of the study.
    """
    page = out / f"{study.name}.html"
    title = f"<title>{escape(study.title)}</title>"
    told = page.is_file() and title in page.read_text(encoding="utf-8", errors="replace")
    if told or Store(out / "cells").has(study):
        return []
    return sorted(path.name for path in out.glob(f"{study.name}[.-]*") if path.is_file())


def prepare(study: Study, out: Path) -> Study:
    """Make simulated faces, unless they are there, and return the study that reads them."""
    if study.data != "imdb-wiki" or study.folder:
        return study
    folder = out / f"faces-{study.scale:g}"
    if not (folder / "data.csv.gz").exists():
        simulate_faces(study.scale, path=folder)
    return replace(study, folder=str(folder))


def write(study: Study, cells: Sequence[Cell], out: Path) -> Path:
    """Write tables, figures and page of finished cells."""
    out.mkdir(parents=True, exist_ok=True)
    rows = comparison_rows(cells, study.metrics)
    claims = [claim.row() for claim in claims_of(study.data, cells)]
    write_csv(score_rows(cells), out / f"{study.name}.csv")
    write_csv(rows, out / f"{study.name}-table.csv")
    tables = {
        "Ours beside the authors'": rows,
        "Against the authors' code run again with its best settings": rerun_rows(cells),
        "What the paper claims": claims,
    }
    _write_markdown(study, tables, out / f"{study.name}-table.md")
    figures = {}
    for name, (figure, caption) in draw(study, cells).items():
        stem = out / f"{study.name}-{name.lower().replace(' ', '-')}"
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # it has its layout now, which takes as long as drawing
        figure.savefig(stem.with_suffix(".png"), dpi=200)
        figures[name] = (drawing := svg(figure))[drawing.index("<svg") :], caption
        stem.with_suffix(".svg").write_text(drawing, encoding="utf-8")
        plt.close(figure)
    path = out / f"{study.name}.html"
    page = render(
        "bagwise.reproduce",
        "page.html.jinja",
        title=study.title,
        intro=INTRO,
        tables=tables,
        figures=figures,
        notes=notes_of(study),
        record=dict(cells[-1].record) | {"settings": str(len(study.settings))},
    )
    path.write_text(page, encoding="utf-8")
    return path


def notes_of(study: Study) -> list[str]:
    """Return what a reader should know of the tables."""
    notes = list(NOTES)
    if study.n_bags is not None:
        notes.append(f"A quick run: {study.n_bags} bags per split, which are not the authors'.")
    return [*notes, study.note] if study.note else notes


def draw(study: Study, cells: Sequence[Cell]) -> Mapping[str, tuple[Figure, str]]:
    """Draw the figures that the study has, each with its caption."""
    drawn: dict[str, tuple[Figure, str]] = {}
    if study.data == "gamma-varying":
        caption = "Lines: ours. Open markers: the authors'. Optimal: the exact Bayes posterior."
        drawn["Scores"] = figures.scores_by_setting(study, cells), caption
    else:
        caption = "A mark per data set, a bar at the mean; filled: ours, open: the authors'."
        drawn["Scores"] = figures.scores_by_method(study, cells), caption
    where = f"{study.setting_name} = {study.show}"
    drawn["Predictions"] = (
        figures.predictions(study, cells),
        f"Predicted against true labels at {where}, by bag size; colour: predictive sd.",
    )
    drawn["Shrinkage factors"] = (
        figures.shrinkage_factors(study, cells),
        f"Share of a deviation from the prior mean that is kept, at {where}. Ticks: eigenvalues.",
    )
    drawn["Calibration"] = (
        figures.calibration(study, cells),
        "Share of test labels inside intervals, by bag size, over all settings; bars are "
        "two standard errors.",
    )
    return drawn


def _write_markdown(
    study: Study, tables: Mapping[str, Sequence[Mapping[str, str]]], path: Path
) -> None:
    lines = [f"# {study.title}", ""]
    for heading, rows in tables.items():
        if rows:
            lines += [f"## {heading}", "", markdown_table(rows), ""]
    lines += [f"{note}\n" for note in notes_of(study)]
    path.write_text("\n".join(lines), encoding="utf-8")


def svg(figure: Figure) -> str:
    """Return a figure as an SVG document."""
    text = StringIO()
    figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
