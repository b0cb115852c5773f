"""``bagwise demo``: real data to try the other commands on, and what they say of it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from bagwise.cli import options
from bagwise.cli.evaluate import score_lines
from bagwise.cli.inputs import ModelName, SavedFit, estimator, read, read_like
from bagwise.cli.shell import Output, answer, answer_json, check_output_folder, command
from bagwise.cli.tables import write_table

# Races, by order, from which on they are kept back to be predicted.
FIRST_NEW = 1500

FILES = ("train.parquet", "new.parquet", "answers.csv")
BAG, LABEL = "race", "actual_margin"
COVARIATES = ("president", "senate", "governor", "house")

ROLES = f"--bag {BAG} --label {LABEL} --covariates {','.join(COVARIATES)}"
NEXT = (
    f"bagwise fit {{folder}}/train.parquet {ROLES} --out margin.bagwise",
    "bagwise evaluate margin.bagwise {folder}/new.parquet --labels {folder}/answers.csv",
    "bagwise predict margin.bagwise {folder}/new.parquet --out predictions.csv",
    f"bagwise report {{folder}}/train.parquet {ROLES} --out report.html",
)


@command
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the files.")] = Path("polls"),
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write election polls as files to try it on.

    And show what a default fit makes of them. Each US race is a bag of 1 to 94 polls; its label is
    the margin on election day.
    """
    from bagwise.datasets import load_polls

    check_output_folder(out, FILES, force=force)
    polls = load_polls()
    out.mkdir(parents=True, exist_ok=True)
    train, new = polls.bags[:FIRST_NEW], polls.bags[FIRST_NEW:]
    y, answers = polls.labels[:FIRST_NEW], polls.labels[FIRST_NEW:]
    tables = _rows(train, y), _rows(new, None), {BAG: new.ids, LABEL: answers}
    for name, table in zip(FILES, tables, strict=True):
        write_table(table, Output(out / name, force))
    scores = _scores(out)
    plain = float(np.sqrt(np.mean((polls.average[FIRST_NEW:] - answers) ** 2)))
    if json:
        answer_json({"out": str(out), "rows": scores.rows, "rmse_of_plain_average": plain})
        return
    answer(f"{polls.attribution}\n")
    answer(f"{train.n_bags:,} races to learn from, {new.n_bags} to predict, by number of polls:\n")
    for line in score_lines(scores):
        answer(line)
    answer(f"\nThe plain average of the polls has rmse {plain:.3f}. The files are in {out}; try\n")
    for line in NEXT:
        answer("  " + line.format(folder=shlex.quote(str(out))))


def _scores(folder: Path) -> Any:
    """Do what the first two of the next commands do, with the files that were written."""
    from bagwise.bags.tables.schema import Roles
    from bagwise.predictions.metrics import evaluate

    train, new, answers = (folder / name for name in FILES)
    roles = Roles(bag=[BAG], label=LABEL, covariates=list(COVARIATES))
    data = read(train, roles, labels=None, stream=None)
    model = estimator(ModelName.GP, classes=False, settings=[], seed=0)
    saved = SavedFit(model.fit(data.bags, data.labels), data.schema)
    held_out = read_like(saved, new, labels=answers, stream=None, labelled=True, written={})
    return evaluate(saved.model.predict_dist(held_out.bags), held_out.labels)


def _rows(bags: Any, labels: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return a row per point: bag, features, covariates and perhaps the label."""
    columns = {BAG: np.repeat(bags.ids, bags.sizes)}
    columns |= dict(zip(bags.feature_names, bags.points.T, strict=True))
    for name, values in zip(bags.covariate_names, bags.covariates.T, strict=True):
        columns[name] = np.repeat(values, bags.sizes)
    return columns if labels is None else columns | {LABEL: np.repeat(labels, bags.sizes)}
