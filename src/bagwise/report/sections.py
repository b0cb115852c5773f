"""Sections of the page, in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import bagwise
from bagwise.report.case import Case, name_of
from bagwise.report.comparison import Comparison, ModelScores, minus, plus_minus, shown
from bagwise.report.markup import Cell, figures, paragraph, section, table, text
from bagwise.report.pictures import (
    Figure,
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
from bagwise.report.reasons import Reasons
from bagwise.report.summary import SCORE_NAMES, in_short

REAL_SCORES = ("rmse", "nll", "crps", "coverage", "width")
CLASS_SCORES = ("log_loss", "brier", "accuracy")
GROUP_SCORES = {False: ("rmse", "nll", "coverage"), True: ("log_loss", "accuracy")}
PERCENT = ("coverage", "accuracy")


def header(case: Case) -> str:
    """Return the title and the facts of the data."""
    bags = case.bags
    facts = {"bags": f"{bags.n_bags:,}", "points": f"{bags.n_points:,}"}
    facts["features"] = f"{bags.n_features:,}"
    if bags.n_covariates:
        facts["covariates"] = f"{bags.n_covariates:,}"
    facts["models"] = str(len(case.predictions))
    cells = "".join(f"<div><dt>{text(k)}</dt><dd>{text(v)}</dd></div>" for k, v in facts.items())
    source = "" if case.words.source is None else paragraph(f"From {case.words.source}", "source")
    return (
        f'<header><h1>{text(case.words.title)}</h1>{source}<dl class="facts">{cells}</dl></header>'
    )


def short_section(case: Case, comparison: Comparison) -> str:
    """Return the findings in sentences."""
    items = "".join(f"<li>{text(sentence)}</li>" for sentence in in_short(case, comparison))
    return section("short", "In short", f'<ul class="findings">{items}</ul>')


def data_section(case: Case) -> str:
    """Return what the bags and labels are like."""
    names = []
    for what, some in (
        ("Features", case.bags.feature_names),
        ("Covariates", case.bags.covariate_names),
    ):
        if some:
            more = f" and {len(some) - 30} more" if len(some) > 30 else ""
            names.append(paragraph(f"{what}: {', '.join(some[:30])}{more}.", "names"))
    weighted = "Points have weights; sizes count them all." if case.bags.weights is not None else ""
    pictures = figures([size_histogram(case), label_histogram(case)])
    return section("data", "Data", pictures, *names, paragraph(weighted) if weighted else "")


def models_section(case: Case, comparison: Comparison) -> str:
    """Return the scores of all models, overall and by bag size."""
    other = "accuracy" if case.classes is not None else "coverage, which should be near its level"
    return section(
        "models",
        "Models compared",
        _score_table(case, comparison),
        paragraph(
            "± is one standard error over bags. The difference in "
            f"{SCORE_NAMES[comparison.primary]} to the best is taken bag by bag, so what makes a "
            "bag hard for all models cancels; it is called clear beyond two standard errors. Lower "
            f"is better, except for {other}.",
            "note",
        ),
        _group_table(case, comparison),
    )


def _score_table(case: Case, comparison: Comparison) -> str:
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
    return table("Scores of all bags", ["model", *names, f"{primary} above best", "verdict"], rows)


def _score_name(case: Case, score: str) -> str:
    name = SCORE_NAMES[score]
    return f"{name} ({100 * case.level:g} %)" if score in ("coverage", "width") else name


def _group_table(case: Case, comparison: Comparison) -> str:
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
    return table("Scores by bag size", head, rows, over=over)


def _group_cell(model: ModelScores, group: int, score: str) -> Cell:
    value = model.table.rows[group][score]
    return Cell(f"{100 * value:.1f} %" if score in PERCENT else shown(value), number=True)


def calibration_section(case: Case, comparison: Comparison) -> str:
    """Return whether the models are as sure as they should be."""
    real = case.classes is None
    by_size = (coverage_by_size if real else bias_by_size)(case, comparison)
    draw = pit_histogram if real else reliability_diagram
    words = "Is the model as sure as it should be, and for small bags as for large ones?"
    own = of_each(comparison, lambda name: figures([draw(case, case.predictions[name])]))
    return section(
        "calibration",
        "Calibration",
        paragraph(words),
        f'<div class="pair">{figures([by_size])}{own}</div>',
    )


def predictions_section(case: Case, comparison: Comparison) -> str:
    """Return predictions against labels, and what makes them unsure."""

    def pictures(name: str) -> str:
        prediction = case.predictions[name]
        draw = predicted_against_true if case.classes is None else probability_histogram
        both: list[Figure] = [draw(case, prediction), spread_by_size(case, prediction)]
        return figures(both)

    return section("predictions", "Predictions", of_each(comparison, pictures))


def worst_section(case: Case, comparison: Comparison, reasons: dict[str, Reasons]) -> str:
    """Return the bags that are predicted worst, with what may be behind it."""

    def lists(name: str) -> str:
        found = reasons[name]
        if case.classes is not None:
            return _worst_table(case, found, "Least expected labels", found.most_surprising())
        return _worst_table(case, found, "Largest errors", found.largest()) + _worst_table(
            case, found, "Least expected: most standard deviations off", found.most_surprising()
        )

    words = (
        "What the numbers suggest, not what happened: whether a label is wrong or a bag unusual "
        "is for somebody to look at who knows the data."
    )
    return section("worst", "Worst bags", paragraph(words), of_each(comparison, lists))


def _worst_table(case: Case, reasons: Reasons, caption: str, bags: np.ndarray) -> str:
    real, rows = case.classes is None, []
    prediction = reasons.prediction
    for bag in bags.tolist():
        label = shown(case.labels[bag]) if real else name_of(case.y[bag].item())
        mean = prediction.mean[bag]
        said = [shown(mean), shown(prediction.std[bag], 3)] if real else [f"{100 * mean:.1f} %"]
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
    second = "" if case.classes is None else name_of(case.classes[1].item())
    return table(caption, [*head, *(["predicted", "sd"] if real else [f"P({second})"])], rows)


def bags_section() -> str:
    """Return the table of all bags, which the script fills."""
    return section(
        "bags",
        "All bags",
        '<noscript><p class="note">The table of all bags needs JavaScript.</p></noscript>'
        '<div class="controls" id="controls" hidden>'
        '<label>Search for a bag <input type="search" id="search" autocomplete="off" '
        'spellcheck="false" aria-controls="all-bags"></label>'
        '<label>Show <select id="filter" aria-controls="all-bags"></select></label>'
        '<label>Rows <select id="rows"><option>25</option><option>100</option>'
        "<option>500</option></select></label>"
        '<p id="found" role="status"></p></div>'
        '<div class="scroll" role="region" aria-label="All bags" tabindex="0">'
        '<table id="all-bags"><caption>All bags. A heading sorts, a bag opens.</caption>'
        "<thead></thead><tbody></tbody></table></div>"
        '<nav class="pages" id="pages" aria-label="Pages of the table" hidden>'
        '<button type="button" data-go="first">First</button>'
        '<button type="button" data-go="previous">Previous</button>'
        '<span id="page" role="status"></span>'
        '<button type="button" data-go="next">Next</button>'
        '<button type="button" data-go="last">Last</button></nav>',
    )


def made_section(case: Case) -> str:
    """Return how the numbers came about."""
    return section(
        "made",
        "How this was made",
        paragraph(case.words.how),
        *(paragraph(f"The data: {note}") for note in case.words.notes),
        paragraph(
            "The variance of a prediction has parts: the bag, whose distribution is known only "
            "through its points; the regression, known only through finitely many bags; and the "
            "noise that remains if both were known."
        ),
        paragraph(f"Made by bagwise {bagwise.__version__}. This page needs no network."),
    )


def of_each(comparison: Comparison, content: Callable[[str], str]) -> str:
    """Return content for every model; that of the best is shown, the script changes it."""
    parts = []
    for k, model in enumerate(comparison.models):
        hidden = " hidden" if k else ""
        name = paragraph(f"Model: {model.name}", "which")
        parts.append(
            f'<div class="of-model" data-model="{k}"{hidden}>{name}{content(model.name)}</div>'
        )
    return "".join(parts)
