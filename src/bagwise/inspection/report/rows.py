"""Rows: the numbers of every bag as the page's script reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from bagwise.estimators.explanation import Explanation
from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.columns import COLUMN_POINTS, Explained, column_names
from bagwise.inspection.report.comparison import Comparison, minus
from bagwise.inspection.report.reasons import Reasons
from bagwise.predictions.joined import Joined, JoinedManyClassPrediction

# Significant digits of the numbers: more than a reader needs, and few enough for a small page.
DIGITS = 6
# Sizes at which the curve "how many more points?" is known.
N_GRID = 40
# The curve goes to so many times the size of the largest bag.
GRID_REACH = 4.0
# Points of a bag, and features of a point, that the page has room for.
MAX_POINTS = 5
MAX_FEATURES = 8


def page_data(
    case: Case, comparison: Comparison, reasons: dict[str, Reasons], explained: Explained
) -> dict[str, Any]:
    """Return what the script needs: columns of all bags, and of each model's predictions."""
    grid = size_grid(case)
    models: list[dict[str, Any]] = []
    for scores in comparison.models:
        prediction = case.predictions[scores.name]
        models.append(
            {"name": scores.name}
            | _columns(prediction, case.level)
            | (_of_classes(prediction, case) if case.many else {})
            | {"curves": [rounded(curve) for curve in _bag_sd(prediction, grid)]}
            | {"why": _why(reasons[scores.name])}
        )
    models[0]["points"] = influential_points(case, explained)
    models[0]["columns"] = pushing_columns(case, explained)
    first = case.predictions[comparison.best.name]
    effective = first.sizes
    weighted = effective is not None and case.bags.weighted
    return {
        "classes": None if case.classes is None else [name_of(c) for c in case.classes.tolist()],
        "level": case.level,
        "decimals": decimals(case),
        "ids": case.names,
        "sizes": case.bags.sizes.tolist(),
        "column_points": COLUMN_POINTS,
        "sampled": case.points.sizes.tolist() if case.sampled else None,
        "effective": rounded(effective) if weighted else None,
        "labels": rounded(case.labels),
        "folds": first.fold.tolist(),
        "grid": rounded(grid),
        "models": models,
    }


def _columns(prediction: Joined, level: float) -> dict[str, list[float | None]]:
    """Return the predictions; parts are standard deviations."""
    lower, upper = prediction.interval(level).T
    columns = {"mean": prediction.mean, "lower": lower, "upper": upper}
    columns |= {name: np.sqrt(part) for name, part in prediction.parts.to_dict().items()}
    if prediction.novelty is not None:
        columns["novelty"] = prediction.novelty
    return {name: rounded(column) for name, column in columns.items()}


def _of_classes(prediction: Joined, case: Case) -> dict[str, list[Any]]:
    """Return of many classes the place of the predicted one, and the probability of the label."""
    assert isinstance(prediction, JoinedManyClassPrediction)
    own = np.exp(prediction.log_prob(case.y))
    return {"said": prediction.places.tolist(), "own": rounded(own)}


def _bag_sd(prediction: Joined, grid: Float[np.ndarray, " g"]) -> Float[np.ndarray, "f g"]:
    """Return the part of the sd that is due to the bag, by piece and size of the grid.

    Of many classes each piece has a row for each.
    """
    firsts = [piece.prediction[:1] for piece in prediction.pieces]
    if isinstance(prediction, JoinedManyClassPrediction):
        firsts = [one for first in firsts for one in first.each]
    variances = [[one.at_size(size).parts.bag[0] for size in grid] for one in firsts]
    return np.sqrt(np.array(variances, dtype=np.float64))


def _why(reasons: Reasons) -> dict[str, list[str]]:
    bags = np.unique(np.concatenate([reasons.largest(), reasons.most_surprising()]))
    return {str(bag): reasons.of(int(bag)) for bag in bags.tolist()}


def size_grid(case: Case) -> Float[np.ndarray, " g"]:
    """Return the sizes at which curves are drawn: 1 to a few times the largest bag."""
    high = max(100.0, GRID_REACH * float(case.sizes.max()))
    return np.unique(np.round(np.geomspace(1.0, high, N_GRID)))


def decimals(case: Case) -> int | None:
    """Return with how many decimals labels are written, or None for powers of ten.

    Two digits of the typical standard deviation and one more.
    """
    if case.classes is not None:
        return 3
    typical = float(np.median([np.median(p.std) for p in case.predictions.values()]))
    largest = float(np.abs(case.labels).max())
    if not 1e-4 < typical < 1e9 or largest >= 1e12:
        return None
    return int(np.clip(2 - np.floor(np.log10(typical)), 0, 6))


def rounded(values: Any) -> list[float | None]:
    """Return numbers with few digits; what is not finite becomes null.

    Examples
    --------
    >>> rounded([1 / 3, 2.0, float("inf")])
    [0.333333, 2, None]
    """
    short = [float(f"{value:.{DIGITS}g}") for value in np.asarray(values, dtype=np.float64)]
    return [int(v) if v.is_integer() else v if np.isfinite(v) else None for v in short]


def influential_points(case: Case, explained: Explained) -> dict[str, list[list[Any]]]:
    """Return for some bags their most influential points: number, contribution, features in words.

    Contributions are those of ``model.explain(bag)``. Points of a sample have no number.
    """
    names = column_names(case.bags)[: case.bags.n_features]
    return {str(bag): _strongest(case, names, explained.each[bag]) for bag in _told(explained)}


def _told(explained: Explained) -> list[int]:
    return [bag for bag in explained.shown.tolist() if bag in explained.each]


def _strongest(case: Case, names: list[str], why: Explanation) -> list[list[Any]]:
    pushes = np.asarray(why.points, dtype=np.float64)
    order = np.argsort(-np.abs(pushes), kind="stable")[:MAX_POINTS]
    return [
        [None if case.sampled else k + 1, _brief(pushes[k]), _words(names, why.bag_points[k])]
        for k in order.tolist()
    ]


def _words(names: list[str], point: np.ndarray) -> str:
    """Write the features of a point."""
    some = [f"{n} {minus(f'{v:.4g}')}" for n, v in zip(names[:MAX_FEATURES], point, strict=False)]
    return ", ".join(some) + (", …" if len(names) > MAX_FEATURES else "")


def pushing_columns(case: Case, explained: Explained) -> dict[str, list[list[Any]]]:
    """Return for some bags what their strongest columns add, and the others: name, contribution."""
    names, found = column_names(case.bags), dict[str, list[list[Any]]]()
    for bag in _told(explained):
        if bag in explained.by_column:
            values = explained.by_column[bag]
            order = np.argsort(-np.abs(values), kind="stable")
            rows = [[names[k], _brief(values[k])] for k in order[:MAX_FEATURES].tolist()]
            if len(rest := order[MAX_FEATURES:]):
                others = f"{len(rest)} other{'s' * (len(rest) > 1)}"
                rows.append([others, _brief(values[rest].sum())])
            found[str(bag)] = [["the average point", _brief(explained.each[bag].reference)], *rows]
    return found


def _brief(value: float) -> float:
    return float(f"{value:.4g}")
