"""``bagwise predict``: a saved model and new points to a table of predictions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise.cli import options
from bagwise.cli.data import open_model, read_like, written_as
from bagwise.cli.options import names
from bagwise.cli.output import check_ending, check_folder, prediction_columns, write_table
from bagwise.cli.shell import answer, answer_json, command

# Bags that are shown when the table goes to the terminal.
SHOWN = 20


@command
def predict(
    model: options.Model,
    points: options.Points,
    out: Annotated[
        Path | None,
        typer.Option(help="Where to write: .csv, .csv.gz, .tsv, .parquet or .json."),
    ] = None,
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    level: options.Level = 0.95,
    stream: options.Stream = None,
    json: options.Json = False,
) -> None:
    """Predict the labels of bags in a file.

    A row per bag: mean, sd and interval (lower, upper) of its label, and by how much (as sd) the
    points of the bag (bag_sd), the model's weights (weights_sd) and noise (noise_sd) leave it open.
    """
    if out is not None:
        check_folder(out)
        check_ending(out)
    saved = open_model(model, names(bag))
    written = written_as(sep, decimal, thousands, na)
    data = read_like(saved, points, labels=labels, stream=stream, labelled=False, written=written)
    prediction = saved.model.predict_dist(data.bags)
    columns = prediction_columns(prediction, level, saved.schema.bag)
    if out is not None:
        write_table(columns, out)
    if json:
        answer_json({"level": level, "bags": len(prediction), "columns": columns})
    elif out is not None:
        answer(f"{len(prediction):,} bags predicted: {out}")
    else:
        _show(columns, len(prediction))


def _show(columns: dict[str, Any], n_bags: int) -> None:
    from bagwise.size_groups import text_table

    shown = min(n_bags, SHOWN)
    rows = [{name: values[i] for name, values in columns.items()} for i in range(shown)]
    answer(text_table(rows))
    if n_bags > shown:
        answer(f"… and {n_bags - shown:,} bags more: write them all with --out predictions.csv")
