"""``bagwise evaluate``: a saved model against bags whose labels are known."""

from __future__ import annotations

from bagwise.cli import options
from bagwise.cli.data import open_model, read_like, written_as
from bagwise.cli.options import names
from bagwise.cli.shell import answer, answer_json, command


@command
def evaluate(
    model: options.Model,
    points: options.Points,
    labels: options.Labels = None,
    bag: options.ModelBag = None,
    sep: options.Sep = None,
    decimal: options.Decimal = None,
    thousands: options.Thousands = None,
    na: options.NaValues = None,
    label: options.ModelLabel = None,
    level: options.Level = 0.95,
    stream: options.Stream = None,
    json: options.Json = False,
) -> None:
    """Score a saved model on bags with known labels.

    Overall and by bag size; the bags should not be those it was fitted to.
    """
    from bagwise.metrics import evaluate as score

    saved = open_model(model, names(bag), label)
    written = written_as(sep, decimal, thousands, na)
    data = read_like(saved, points, labels=labels, stream=stream, labelled=True, written=written)
    scores = score(saved.model.predict_dist(data.bags), data.labels, level=level)
    if json:
        answer_json({"level": level, "rows": scores.rows})
        return
    answer(str(scores))
    if "coverage" in scores.overall:
        answer(f"coverage: share of labels inside their {level:.0%} interval; width: of it")
