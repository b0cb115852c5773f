"""The ``bagwise`` command."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from enum import StrEnum
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.exceptions import BagwiseError

app = typer.Typer(
    name="bagwise",
    help="Learning from bags of samples.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

QUICK_FACES = 0.02  # of the real number of people

INTERRUPTED = 130  # the exit code of a program that was stopped with Ctrl-C


class Study(StrEnum):
    """The experiments of the paper."""

    GAMMA_VARYING = "gamma-varying"
    GAMMA_FIXED = "gamma-fixed"
    IMDB_WIKI = "imdb-wiki"
    ALL = "all"


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"bagwise {version('bagwise')}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error arose.")] = False,
) -> None:
    """Learning from bags of samples: many points per bag, one label per bag."""


@app.command()
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
) -> None:
    """Reproduce the paper's tables and figures, ours beside the authors'.

    Can be stopped and started again: what is finished is kept, and computed anew only if its
    configuration has changed.
    """
    from bagwise.experiments.reproduce import command
    from bagwise.experiments.reproduce.study import STUDIES
    from bagwise.experiments.reproduce.study import Study as Settings

    folder = out / "quick" if quick else out
    for name in STUDIES if study == Study.ALL else (study.value,):
        settings = Settings.load(name, quick=quick)
        if name == Study.IMDB_WIKI:
            settings = _with_faces(settings, data, QUICK_FACES if quick else simulate)
        if setting:
            settings = settings.only(setting)
        n_jobs = jobs or (1 if name == Study.IMDB_WIKI else os.cpu_count() or 1)
        try:
            work, page = command.reproduce(settings, folder, n_jobs=n_jobs, progress=progress)
        except KeyboardInterrupt:
            typer.echo(
                f"stopped; what is finished is in {folder}: the same command goes on from there",
                err=True,
            )
            raise typer.Exit(INTERRUPTED) from None
        _report(settings.name, work, page)


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


def _report(name: str, work: Any, page: Path) -> None:
    changed = f", {work.n_changed} of them of another configuration" if work.n_changed else ""
    typer.echo(f"{name}: {work.n_todo} cells computed{changed}, {work.n_done} were there already")
    typer.echo(page.with_name(f"{name}-table.md").read_text(encoding="utf-8"))
    typer.echo(f"open {page}")


def main() -> None:
    """Run the command; errors of bagwise are one sentence, unless --debug is given."""
    try:
        app()
    except BagwiseError as error:
        if "--debug" in sys.argv:
            raise
        typer.echo(f"bagwise: {error}", err=True)
        sys.exit(1)
