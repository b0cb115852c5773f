"""``bagwise demo``: real data to try the other commands on, and what they say of it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.output import write_table
from bagwise.cli.shell import answer, answer_json, command

# Races, by order, from which on they are kept back to be predicted.
FIRST_NEW = 1500

NEXT = (
    "bagwise fit {folder}/train.parquet --bag race --label actual_margin --out margin.bagwise",
    "bagwise predict margin.bagwise {folder}/new.parquet --out predictions.csv",
    "bagwise evaluate margin.bagwise {folder}/new.parquet --labels {folder}/answers.csv",
    "bagwise report {folder}/train.parquet --bag race --label actual_margin --out report.html",
)


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("polls"),
    json: options.Json = False,
) -> None:
    """Write election polls as files to try it on.

    And show what a default fit makes of them. Each US race is a bag of 1 to 94 polls; its label is
    the margin on election day.
    """
    from bagwise.datasets import load_polls
    from bagwise.estimators.regressors import ShrinkageRegressor
    from bagwise.predictions.metrics import evaluate

    polls = load_polls()
    out.mkdir(parents=True, exist_ok=True)
    train, new = polls.bags[:FIRST_NEW], polls.bags[FIRST_NEW:]
    y, answers = polls.labels[:FIRST_NEW], polls.labels[FIRST_NEW:]
    write_table(_rows(train, y), out / "train.parquet")
    write_table(_rows(new, None), out / "new.parquet")
    write_table({"race": new.ids, "actual_margin": answers}, out / "answers.csv")
    scores = evaluate(
        ShrinkageRegressor().fit(train, y).predict_dist(new), answers, edges=(1, 2, 3, 6, 11)
    )
    average = polls.average[FIRST_NEW:]
    plain = float(np.sqrt(np.mean((average - answers) ** 2)))
    if json:
        answer_json({"out": str(out), "rows": scores.rows, "rmse_of_plain_average": plain})
        return
    answer(f"{polls.attribution}\n")
    answer(f"{train.n_bags:,} races to learn from, {new.n_bags} to predict, by number of polls:\n")
    answer(str(scores))
    answer(f"\nThe plain average of the polls has rmse {plain:.3f}. The files are in {out}; try\n")
    for line in NEXT:
        answer("  " + line.format(folder=out))


def _rows(bags: Any, labels: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return a row per point: bag, features, covariates and perhaps the label."""
    columns = {"race": np.repeat(bags.ids, bags.sizes)}
    columns |= dict(zip(bags.feature_names, bags.points.T, strict=True))
    for name, values in zip(bags.covariate_names, bags.covariates.T, strict=True):
        columns[name] = np.repeat(values, bags.sizes)
    return columns if labels is None else columns | {"actual_margin": np.repeat(labels, bags.sizes)}
