"""``bagwise update``: new points for a saved model, without the old ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._utils.atomic import locked
from bagwise.cli import options
from bagwise.cli.inputs import (
    all_columns,
    batch_name,
    engine_of,
    open_model,
    read_like,
    written_as,
)
from bagwise.cli.shell import Output, answer, answer_json, command, say

# Where a model says of which state of its sums it is.
STATE = "sums_state"


@command
def update(
    model: options.Model,
    sums: Annotated[
        Path,
        typer.Argument(help="Its sums, by `bagwise fit … --sums`.", show_default=False),
    ],
    points: options.Points,
    labels: options.Labels = None,
    batch: Annotated[
        str | None,
        typer.Option(
            help="Name of what is added, by which it is known if it comes again; default: the "
            "content of the files.",
            show_default=False,
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option(
            "--refit/--no-refit", help="Fit the model again, to all bags whose label is known."
        ),
    ] = True,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    json: options.Json = False,
) -> None:
    """Add points, of known bags or new ones, to the sums of a model, and fit it again.

    bagwise update age.bagwise age.sums new.parquet

    The old points are not needed. Both files are replaced, each whole or not at all; what was added
    before is not added again, so that a command that was killed can be run again as it was.
    """
    from bagwise.estimators.saving import open_sums, to_bytes

    with locked(sums):
        saved, (held, schema) = open_model(model), open_sums(sums)
        fitted, header = saved.model, saved.header
        fitted._check_sums(held)
        name = batch_name((points, labels)) if batch is None else batch
        again = batch is None and name in held.batches
        if again:
            say(f"note: {points} was added to {sums} before; nothing is added")
        else:
            there = all_columns(points, labels, saved.schema.cells)
            how: dict[str, Any] = {"labels": labels, "stream": stream}
            how["labelled"] = saved.schema.label in there
            how["written"] = written_as(sep, decimal, thousands, na)
            with engine_of(cluster, workers, stream) as engine:
                data = read_like(saved, points, engine=engine, **how)
                again = not held.add_bags(data.bags, data.labels, batch=name)
        behind = header.summary.get(STATE) != held.state
        refitted = bool(refit and behind and _can_refit(fitted, held))
        summary = header.summary | {STATE: held.state, "bags": held.n_bags}
        if refitted:
            fitted.partial_fit(held)
            summary["points"] = held.n_points
            model_file = to_bytes(fitted, schema=header.schema, summary=summary)
        if not again:
            _replace(sums, to_bytes(held, schema=schema))
        if refitted:  # after the sums: a kill in between leaves a model that is behind, and seen
            _replace(model, model_file)
    facts = {
        "added": not again,
        "refitted": refitted,
        "bags": held.n_bags,
        "points": held.n_points,
        "labels": int(held.labelled.sum()),
        "batches": len(held.batches),
    }
    _report(facts, json)


def _can_refit(fitted: Any, held: Any) -> bool:
    """Whether there are labels, and all that the model needs to be fitted again."""
    if not held.labelled.any():
        return False
    if fitted.needs_covariance and not held.has_scatter:
        say("note: the sums are for predictions only; the model stays as it is")
        return False
    return True


def _replace(path: Path, data: bytes) -> None:
    with Output(path, force=True).opened() as file:
        file.write(data)


def _report(facts: dict[str, Any], json: bool) -> None:
    if json:
        answer_json(facts)
        return
    done = "points added" if facts["added"] else "no points added"
    fitted = "the model fitted again" if facts["refitted"] else "the model as it was"
    answer(
        f"{done}, {fitted}: {facts['bags']:,} bags, {facts['labels']:,} with a label, "
        f"{facts['points']:,} points in all"
    )
