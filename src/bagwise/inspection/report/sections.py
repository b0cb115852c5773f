"""Content of the page: tables, pictures and sentences, which its template puts in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import bagwise
from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.comparison import Comparison, ModelScores, minus, plus_minus, shown
from bagwise.inspection.report.pictures import (
    bias_by_size,
    coverage_by_size,
    label_histogram,
    pit_histogram,
    predicted_against_true,
    probability_histogram,
    reliability_diagram,
    size_histogram,
    spread_by_size,
)
from bagwise.inspection.report.reasons import Reasons
from bagwise.inspection.report.summary import SCORE_NAMES, in_short

REAL_SCORES = ("rmse", "nll", "crps", "coverage", "width")
CLASS_SCORES = ("log_loss", "brier", "accuracy")
GROUP_SCORES = {False: ("rmse", "nll", "coverage"), True: ("log_loss", "accuracy")}
PERCENT = ("coverage", "accuracy")


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and whether it is a number, names its row, or is marked."""

    text: str
    number: bool = False
    heading: bool = False
    mark: str = ""


@dataclass(frozen=True)
class Table:
    """Caption, names of columns, rows of cells, and names above several columns (name, number)."""

    caption: str
    head: list[str]
    rows: list[list[Cell]]
    over: Sequence[tuple[str, int]] = ()


def content(case: Case, comparison: Comparison, reasons: dict[str, Reasons]) -> dict[str, Any]:
    """Return what the template of the page asks for."""
    bags, real = case.bags, case.classes is None
    counts = {"bags": bags.n_bags, "points": bags.n_points, "features": bags.n_features}
    if bags.n_covariates:
        counts["covariates"] = bags.n_covariates
    counts["models"] = len(case.predictions)
    return {
        "words": case.words,
        "version": bagwise.__version__,
        "real": real,
        "facts": {name: f"{count:,}" for name, count in counts.items()},
        "findings": in_short(case, comparison),
        "data_pictures": [size_histogram(case), label_histogram(case)],
        "columns": {"Features": bags.feature_names, "Covariates": bags.covariate_names},
        "weighted": bags.weights is not None,
        "primary": SCORE_NAMES[comparison.primary],
        "scores": _score_table(case, comparison),
        "scores_by_size": _group_table(case, comparison),
        "calibration_by_size": (coverage_by_size if real else bias_by_size)(case, comparison),
        "models": [_of_model(case, reasons[model.name]) for model in comparison.models],
    }


def _of_model(case: Case, reasons: Reasons) -> dict[str, Any]:
    """Return pictures and worst bags of one model."""
    prediction, real = reasons.prediction, case.classes is None
    worst = [("Least expected labels", reasons.most_surprising())]
    if real:
        least = "Least expected: most standard deviations off"
        worst = [("Largest errors", reasons.largest()), (least, reasons.most_surprising())]
    first = predicted_against_true if real else probability_histogram
    return {
        "name": reasons.name,
        "calibration": (pit_histogram if real else reliability_diagram)(case, prediction),
        "pictures": [first(case, prediction), spread_by_size(case, prediction)],
        "worst": [_worst_table(case, reasons, caption, chosen) for caption, chosen in worst],
    }


def _score_table(case: Case, comparison: Comparison) -> Table:
    scores = CLASS_SCORES if case.classes is not None else REAL_SCORES
    rows = []
    for model in [*comparison.models, comparison.baseline]:
        cells = [Cell(model.name, heading=True)]
        for score in scores:
            value, error = plus_minus(model.estimates[score], percent=score in PERCENT)
            cells.append(Cell(f"{value} ± {error}", number=True))
        behind = "–" if model.behind is None else "{} ± {}".format(*plus_minus(model.behind))
        mark = {"best": "good", "clearly worse": "bad"}.get(model.verdict, "")
        cells += [Cell(behind, number=True), Cell(model.verdict, mark=f"verdict {mark}".strip())]
        rows.append(cells)
    names = [_score_name(case, score) for score in scores]
    primary = SCORE_NAMES[comparison.primary]
    return Table("Scores of all bags", ["model", *names, f"{primary} above best", "verdict"], rows)


def _score_name(case: Case, score: str) -> str:
    name = SCORE_NAMES[score]
    return f"{name} ({100 * case.level:g} %)" if score in ("coverage", "width") else name


def _group_table(case: Case, comparison: Comparison) -> Table:
    scores = GROUP_SCORES[case.classes is not None]
    models = comparison.models
    head = ["points in the bag", "bags", *[SCORE_NAMES[s] for _ in models for s in scores]]
    over = [("", 1), ("", 1), *[(model.name, len(scores)) for model in models]]
    rows = []
    for k, row in enumerate(comparison.best.table.rows):
        cells = [Cell(row["group"], heading=True), Cell(f"{row['bags']:,}", number=True)]
        for model in models:
            cells += [_group_cell(model, k, score) for score in scores]
        rows.append(cells)
    return Table("Scores by bag size", head, rows, over)


def _group_cell(model: ModelScores, group: int, score: str) -> Cell:
    value = model.table.rows[group][score]
    return Cell(f"{100 * value:.1f} %" if score in PERCENT else shown(value), number=True)


def _worst_table(case: Case, reasons: Reasons, caption: str, bags: np.ndarray) -> Table:
    real, rows = case.classes is None, []
    prediction = reasons.prediction
    for bag in bags.tolist():
        label = shown(case.labels[bag]) if real else name_of(case.y.tolist()[bag])
        mean = prediction.mean[bag]
        said = [shown(mean), shown(prediction.std[bag], 3)] if real else [f"{100 * mean:.1f} %"]
        if case.many:
            said.insert(0, name_of(prediction.predicted.tolist()[bag]))
        off = f"{reasons.surprise[bag]:+.1f} sd" if real else f"{reasons.surprise[bag]:.2f}"
        rows.append(
            [
                Cell(case.names[bag], heading=True, mark="bag-name"),
                Cell(minus(off), number=True),
                Cell("; ".join(reasons.of(bag)), mark="words"),
                Cell(f"{int(case.sizes[bag]):,}", number=True),
                *(Cell(cell, number=True) for cell in (label, *said)),
            ]
        )
    head = ["bag", "off by" if real else "log loss", "what may be behind it", "points", "label"]
    said = ["predicted", "sd"]
    if case.classes is not None:
        second = name_of(case.classes.tolist()[1])
        said = ["predicted", "P(predicted)"] if case.many else [f"P({second})"]
    return Table(caption, [*head, *said], rows)
