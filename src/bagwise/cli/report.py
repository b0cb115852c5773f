"""``bagwise report``: how well the models do on your bags, as a page for a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bagwise._utils.levels import LEVEL
from bagwise.cli import options
from bagwise.cli.inputs import (
    ModelName,
    all_columns,
    are_classes,
    engine_of,
    estimator,
    names,
    read,
    roles_of,
    written_as,
)
from bagwise.cli.shell import PAGE, Output, answer, answer_json, check_outputs, command

if TYPE_CHECKING:
    from bagwise.bags.tables.schema import Schema


@command
def report(
    points: options.Points,
    bag: options.BagColumn,
    label: options.LabelColumn,
    out: Annotated[
        Path, typer.Option(help="Where to write the page; - is standard output.")
    ] = Path("report.html"),
    model: Annotated[
        list[ModelName] | None,
        typer.Option(help="Which models to compare; may repeat.", show_default=False),
    ] = None,
    labels: options.Labels = None,
    features: options.FeatureColumns = None,
    covariates: options.CovariateColumns = None,
    weights: options.WeightColumn = None,
    one_hot: options.OneHot = None,
    ignore: options.Ignored = None,
    missing: options.MissingValues = options.Missing.ERROR,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    task: options.TaskOption = options.Task.AUTO,
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    folds: Annotated[int, typer.Option(min=2, help="Parts that are left out in turn.")] = 5,
    title: Annotated[str | None, typer.Option(help="Heading of the page.")] = None,
    level: options.Level = LEVEL,
    seed: options.Seed = 0,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Compare models on your bags: a page to browse.

    By cross-validation, so that no bag is predicted by a model that saw it. The page is one HTML
    file that needs no network.
    """
    page = Output(out, force, PAGE)
    check_outputs([page], inputs=[points, labels], json=json)
    from bagwise.inspection import report as pages

    written = written_as(sep, decimal, thousands, na) | {"ignore": names(ignore)}
    roles = roles_of(bag, label, features, covariates, weights, one_hot, missing.value, written)
    with engine_of(cluster, workers, stream) as engine:
        data = read(points, roles, labels=labels, stream=stream, engine=engine)
        classes = are_classes(data.labels, task.value)
        models = {
            name.value: estimator(name, classes=classes, settings=[], seed=seed)
            for name in model or ()
        }
        made = pages.make(
            data.bags,
            data.labels,
            models or pages.default_models(classes, one_point=bool(data.bags.sizes.max() == 1)),
            title=title or f"{label} by {' and '.join(names(bag))}",
            folds=folds,
            level=level,
            seed=seed,
            source=data.source,
            notes=data.notes,
            unused=_unused(points, labels, data.schema),
        )
    with page.opened() as file:
        file.write(made.html.encode())
    if json:
        answer_json({"out": str(out), "bags": data.bags.n_bags})
    elif not page.is_stdout:
        answer(f"open {out} in a browser")


def _unused(points: Path, labels: Path | None, schema: Schema) -> dict[str, str]:
    """Return the columns of the files that are not used, and why."""
    columns = all_columns(points, labels, schema.cells)
    named = {name: "not named on the line" for name in columns if name not in schema.columns}
    return named | schema.left_out
