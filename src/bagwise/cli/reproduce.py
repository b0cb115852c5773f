"""``bagwise reproduce``: the paper's tables and figures, one command each."""

from __future__ import annotations

import os
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli import options
from bagwise.cli.shell import INTERRUPTED, answer, answer_json, check_output_folder, command, say
from bagwise.exceptions import BagwiseError

QUICK_FACES = 0.02  # of the real number of people


class Study(StrEnum):
    """The experiments of the paper."""

    GAMMA_VARYING = "gamma-varying"
    GAMMA_FIXED = "gamma-fixed"
    IMDB_WIKI = "imdb-wiki"
    ALL = "all"


@command
def reproduce(
    study: Annotated[Study, typer.Argument(help="Which experiment of the paper.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A minute: one data set, few bags, no grid.")
    ] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for cells, tables, figures and the page.")
    ] = Path("reproduced"),
    data: Annotated[
        Path | None, typer.Option(help="Folder with the authors' data.csv.gz and feats.npy.")
    ] = None,
    simulate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Simulated faces, as a share of 19,545 people, instead."),
    ] = None,
    setting: Annotated[
        list[int] | None, typer.Option(help="Only this one of the study's settings; may repeat.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, help="Data sets at once; by default all cores, faces 1.")
    ] = None,
    progress: Annotated[bool, typer.Option(help="Show a progress bar; never in a log.")] = True,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Reproduce the paper's tables and figures.

    Ours beside the authors'. Can be stopped and started again: what is finished is kept, and
    computed anew only if its configuration has changed.
    """
    from bagwise.reproduce.command import files_of_others
    from bagwise.reproduce.command import reproduce as run
    from bagwise.reproduce.study import STUDIES
    from bagwise.reproduce.study import Study as Settings

    folder = out / "quick" if quick else out
    for name in STUDIES if study == Study.ALL else (study.value,):
        settings = Settings.load(name, quick=quick)
        if name == Study.IMDB_WIKI:
            settings = _with_faces(settings, data, QUICK_FACES if quick else simulate)
        if setting:
            settings = settings.only(setting)
        check_output_folder(folder, files_of_others(folder, settings), force=force)
        n_jobs = jobs or (1 if name == Study.IMDB_WIKI else os.cpu_count() or 1)
        try:
            work, page = run(settings, folder, n_jobs=n_jobs, progress=progress)
        except KeyboardInterrupt:
            say(f"stopped; what is finished is in {folder}: the same command goes on from there")
            raise typer.Exit(INTERRUPTED) from None
        _report(settings.name, work, page, json)


def _with_faces(settings: Any, data: Path | None, scale: float | None) -> Any:
    if data is not None:
        return replace(settings, folder=str(data))
    if scale is not None:
        return settings.simulated(scale)
    raise BagwiseError.because(
        "there are no faces to learn from",
        "--data FOLDER, with the data.csv.gz and feats.npy that the paper's authors published",
        "The files may not be given away with bagwise; --simulate 1 makes data of the same shape.",
    )


def _report(name: str, work: Any, page: Path, json: bool) -> None:
    if json:
        facts = {"study": name, "computed": work.n_todo, "changed": work.n_changed}
        answer_json(facts | {"there_already": work.n_done, "page": str(page)})
        return
    changed = f", {work.n_changed} of them of another configuration" if work.n_changed else ""
    answer(f"{name}: {work.n_todo} cells computed{changed}, {work.n_done} were there already")
    answer(page.with_name(f"{name}-table.md").read_text(encoding="utf-8"))
    answer(f"open {page}")
