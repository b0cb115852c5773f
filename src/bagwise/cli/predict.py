"""``bagwise predict``: a saved model and new points to a table of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._utils.levels import LEVEL
from bagwise._utils.work import printable
from bagwise.cli import options
from bagwise.cli.inputs import engine_of, names, open_model, read_like, written_as
from bagwise.cli.shell import answer, answer_json, check_outputs, command, say
from bagwise.cli.tables import prediction_columns, table_output, write_table

# Bags that are shown when the table goes to the terminal.
SHOWN = 20


@command
def predict(
    model: options.Model,
    points: options.Points,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write: .csv, .csv.gz, .tsv, .parquet or .json; - is standard output."
        ),
    ] = None,
    form: options.TableFormat = None,
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    level: options.Level = LEVEL,
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    safe_csv: options.SafeCsv = False,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Predict the labels of bags in a file.

    A row per bag: mean, sd and interval (lower, upper) of its label, and by how much (as sd) the
    points of the bag (bag_sd), the model's weights (weights_sd) and noise (noise_sd) leave it open.
    Of classes: the predicted one and its probability, and if there are many that of each. Of a
    model that was calibrated (fit --conformal) the interval, or the set of classes, holds the label
    with the probability --level.
    The file may also be the sums of `bagwise fit --sums`, for all bags as they are known by now.
    """
    from bagwise.estimators.saving import is_sums, open_sums

    table = table_output(out, form, force=force)
    check_outputs([table] if table else [], inputs=[model, points, labels], json=json)
    saved = open_model(model, names(bag))
    if is_sums(str(points)):
        prediction = saved.model.predict_dist(open_sums(points)[0])
    else:
        written = written_as(sep, decimal, thousands, na)
        with engine_of(cluster, workers, stream) as engine:
            how = {"labels": labels, "stream": stream, "engine": engine}
            data = read_like(saved, points, labelled=False, written=written, **how)
            prediction = saved.model.predict_dist(data.bags)
    columns = prediction_columns(prediction, level, saved.schema.bag)
    if table is not None:
        write_table(columns, table, form, safe=safe_csv)
    if json:
        answer_json({"level": level, "bags": len(prediction), "columns": columns})
    elif table is None:
        _show(columns, len(prediction))
    elif table.is_stdout:
        say(f"{len(prediction):,} bags predicted")
    else:
        answer(f"{len(prediction):,} bags predicted: {out}")


def _show(columns: dict[str, Any], n_bags: int) -> None:
    from bagwise.predictions.by_size import text_table

    shown = min(n_bags, SHOWN)
    rows = [
        {printable(name): _cell(values[i]) for name, values in columns.items()}
        for i in range(shown)
    ]
    answer(text_table(rows))
    if n_bags > shown:
        answer(f"… and {n_bags - shown:,} bags more: write them all with --out predictions.csv")


def _cell(value: Any) -> Any:
    return value if isinstance(value, int | float) else printable(str(value))
