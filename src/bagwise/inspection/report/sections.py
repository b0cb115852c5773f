"""Content of the page: tables, pictures and sentences, which its template puts in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import bagwise
from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.columns import MAX_SPLIT, Explained
from bagwise.inspection.report.comparison import (
    CLEAR,
    Comparison,
    Estimate,
    ModelScores,
    minus,
    plus_minus,
    shown,
)
from bagwise.inspection.report.pictures import (
    bias_by_size,
    calibration_by_size,
    column_histograms,
    coverage_by_size,
    importance,
    label_histogram,
    pit_histogram,
    predicted_against_true,
    probability_histogram,
    reliability_diagram,
    size_histogram,
    spread_by_size,
)
from bagwise.inspection.report.reasons import Reasons
from bagwise.predictions.by_size import rows_by_size

SCORE_NAMES = {
    "rmse": "RMSE",
    "nll": "NLL",
    "crps": "CRPS",
    "coverage": "coverage",
    "width": "width",
    "log_loss": "log loss",
    "brier": "Brier score",
    "accuracy": "accuracy",
    "calibration": "observed − predicted",
    "slope": "slope",
}
REAL_SCORES = ("rmse", "nll", "crps", "coverage", "width")
CLASS_SCORES = ("log_loss", "brier", "accuracy")
GROUP_SCORES = {
    False: ("rmse", "nll", "coverage"),
    True: ("log_loss", "accuracy", "calibration", "slope"),
}
PERCENT = ("coverage", "accuracy", "calibration")


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


def content(
    case: Case, comparison: Comparison, reasons: dict[str, Reasons], explained: Explained
) -> dict[str, Any]:
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
        "sample": _sample(case),
        "importance": importance(case, explained, comparison.best.name),
        "columns": column_histograms(case, explained),
        "n_columns": bags.n_features + bags.n_covariates,
        "max_split": MAX_SPLIT if bags.n_features > MAX_SPLIT else None,
        "weighted": bags.weighted,
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
    calibration = [pit_histogram, calibration_by_size] if real else [reliability_diagram]
    return {
        "name": reasons.name,
        "calibration": [draw(case, prediction) for draw in calibration],
        "pictures": [first(case, prediction), spread_by_size(case, prediction)],
        "worst": [_worst_table(case, reasons, caption, chosen) for caption, chosen in worst],
    }


def _sample(case: Case) -> str | None:
    """Say that points are a sample, if they are."""
    if not case.sampled:
        return None
    return (
        "The points of these bags stay on disk. What this page says of single points and columns "
        f"is from a sample: at most {int(case.points.sizes.max()):,} points of each bag, drawn at "
        f"random, {case.points.n_points:,} of {case.bags.n_points:,}. Predictions, scores and "
        "sizes are of all points."
    )


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
    return Cell(minus(f"{100 * value:.1f} %") if score in PERCENT else shown(value), number=True)


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


def in_short(case: Case, comparison: Comparison) -> list[str]:
    """Return the findings: which model, how good, how honest, and for which bags."""
    sentences = [_quality(comparison), *_differences(comparison)]
    if case.classes is None:
        sentences += _coverage(case, comparison.best)
        sentences += _size(case, comparison.best)
    else:
        second = None if case.many else name_of(case.classes.tolist()[1])
        sentences += _bias(comparison.best, second)
    return sentences


def _quality(comparison: Comparison) -> str:
    best, base = comparison.best, comparison.baseline
    main = "rmse" if "rmse" in best.estimates else comparison.primary
    value, error = plus_minus(best.estimates[main])
    other = plus_minus(base.estimates[main])[0]
    first = "predicts best" if len(comparison.models) > 1 else "was tried alone"
    sentence = (
        f"{best.name} {first}: its {SCORE_NAMES[main]} is {value} ± {error}. To predict "
        f"{base.name}, without a look into the bags, gives {other}"
    )
    if base.behind is None or base.behind.value <= 0 or not base.behind.clear:
        return f"{sentence}, which is not clearly worse: the points may say little about the label."
    return f"{sentence}."


def _differences(comparison: Comparison) -> list[str]:
    """Say of every other model whether its difference to the best is clear."""
    score, best = SCORE_NAMES[comparison.primary], comparison.best.name
    sentences = []
    for model in comparison.models[1:]:
        if model.behind is None:
            sentences.append(f"{model.name} predicts the same as {best}.")
            continue
        value, error = plus_minus(model.behind)
        if model.behind.clear:
            words = f"{model.name} is clearly worse than {best}: its {score} is higher by"
            sentences.append(f"{words} {value} ± {error}{_only_spread(comparison, model)}.")
        else:
            words = f"Between {model.name} and {best} there is no clear difference: its {score} is"
            sentences.append(f"{words} higher by {value} ± {error}, which chance could do.")
    return sentences


def _only_spread(comparison: Comparison, model: ModelScores) -> str:
    """Say so if a clearly worse model is as good at the mean, and worse at how sure it is."""
    if "mse" not in model.bags:
        return ""
    squared = Estimate.of(model.bags["mse"] - comparison.best.bags["mse"])
    if squared.clear:
        return ""
    return ". Its squared errors are not clearly different: it is worse at knowing how sure to be"


def _coverage(case: Case, best: ModelScores) -> list[str]:
    level = f"{100 * case.level:g} %"
    found = best.estimates["coverage"]
    value, error = plus_minus(found, percent=True)
    sentence = f"The {level} intervals of {best.name} hold {value} ± {error} of the labels"
    sentences = [f"{sentence}: {_judged(found, case.level, case.bags.n_bags)}."]
    worst: tuple[float, str] | None = None
    for label, mask in rows_by_size(case.sizes, None, case.bags.n_bags):
        share, n = float(best.bags["coverage"][mask].mean()), int(mask.sum())
        off = abs(share - case.level) / np.sqrt(case.level * (1 - case.level) / n)
        if off > CLEAR + 1 and (worst is None or off > worst[0]):
            way = "too wide" if share > case.level else "too narrow"
            worst = (
                off,
                f"For bags of {label} points they are {way}: they hold {100 * share:.1f} %.",
            )
    return sentences if worst is None else [*sentences, worst[1]]


def _judged(found: Estimate, level: float, n_bags: int) -> str:
    """Compare a coverage with its level, by the error it would have if it were right."""
    if abs(found.value - level) <= CLEAR * np.sqrt(level * (1 - level) / n_bags):
        return "it is as sure as it should be"
    return f"they are too {'wide' if found.value > level else 'narrow'}"


def _size(case: Case, best: ModelScores) -> list[str]:
    prediction = case.predictions[best.name]
    if not prediction.parts.bag.any() or np.ptp(case.sizes) == 0:
        return []
    small, large = (prediction.std[case.sizes == size].mean() for size in _ends(case))
    low, high = _ends(case)
    points = "1 point" if low == 1 else f"{low:,g} points"
    words = f"Its standard deviation is on average {shown(float(small), 3)} for bags of {points}"
    return [f"{words} and {shown(float(large), 3)} for bags of {high:,g}."]


def _ends(case: Case) -> tuple[float, float]:
    return float(case.sizes.min()), float(case.sizes.max())


def _bias(best: ModelScores, second: str | None) -> list[str]:
    found = best.estimates["calibration"]
    value, error = plus_minus(Estimate(abs(found.value), found.error), percent=True)
    right = plus_minus(best.estimates["accuracy"], percent=True)
    words = "which chance could do" if not found.clear else "which is clearly not zero"
    way = "more" if found.value >= 0 else "less"
    what = f"Class {second} is {value} ± {error} {way} frequent than it predicts"
    if second is None:
        what = f"That is {value} ± {error} {way} than it says"
    return [
        f"The class that {best.name} holds most probable is right for {right[0]} ± {right[1]} of "
        "the bags.",
        f"{what}, {words}.",
    ]
