"""``bagwise evaluate``: a saved model against bags whose labels are known."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bagwise._utils.levels import LEVEL
from bagwise.cli import options
from bagwise.cli.inputs import engine_of, names, open_model, read_like, written_as
from bagwise.cli.shell import answer, answer_json, check_outputs, command
from bagwise.cli.tables import table_output, write_table


@command
def evaluate(
    model: options.Model,
    points: options.Points,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to write the scores, as a table: .csv, .csv.gz, .tsv, .parquet or .json; "
            "- is standard output."
        ),
    ] = None,
    form: options.TableFormat = None,
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    label: options.ModelLabel = None,
    level: options.Level = LEVEL,
    stream: options.Stream = None,
    cluster: options.Cluster = None,
    workers: options.Workers = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Score a saved model on bags with known labels.

    Overall and by bag size; the bags should not be those it was fitted to.
    """
    from bagwise.predictions.metrics import evaluate as score

    table = table_output(out, form, force=force)
    check_outputs([table] if table else [], inputs=[model, points, labels], json=json)
    saved = open_model(model, names(bag), label)
    written = written_as(sep, decimal, thousands, na)
    with engine_of(cluster, workers, stream) as engine:
        how = {"labels": labels, "stream": stream, "engine": engine}
        data = read_like(saved, points, labelled=True, written=written, **how)
        scores = score(saved.model.predict_dist(data.bags), data.labels, level=level)
    if table is not None:
        columns = {name: [row[name] for row in scores.rows] for name in scores.overall}
        write_table(columns, table, form)
    if json:
        answer_json({"level": level, "rows": scores.rows})
    elif table is None or not table.is_stdout:
        for line in score_lines(scores):
            answer(line)


def score_lines(scores: Any) -> list[str]:
    """Return a table of scores for whoever reads it, with what it says of intervals."""
    found = str(scores).splitlines()
    if "coverage" in scores.overall:
        level = f"{100 * scores.level:g} %"
        if "set_size" in scores.overall:
            found.append(f"coverage: share of labels in their {level} set; set_size: of classes")
        else:
            found.append(f"coverage: share of labels inside their {level} interval; width: of it")
    return found
