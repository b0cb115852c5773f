"""Summary: what the scores say, in sentences."""

from __future__ import annotations

import numpy as np

from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.comparison import (
    CLEAR,
    Comparison,
    Estimate,
    ModelScores,
    plus_minus,
    shown,
)
from bagwise.predictions.size_groups import size_groups

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
}


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
    for label, mask in size_groups(case.sizes, None, case.bags.n_bags):
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
