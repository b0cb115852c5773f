"""Influence: the points of a bag that push its prediction most."""

from __future__ import annotations

from typing import Any

import numpy as np

from bagwise.bags import Bags
from bagwise.joined import Joined
from bagwise.report.comparison import minus

# Points of a bag, bags, and features of a point that the page has room for.
MAX_POINTS = 5
MAX_BAGS = 200
MAX_FEATURES = 8


def influential_points(
    bags: Bags, prediction: Joined, by_interest: np.ndarray
) -> dict[str, list[list[Any]]]:
    """Return for some bags their most influential points: number, contribution, features in words.

    Parameters
    ----------
    bags : all bags;  prediction : whose pieces have the fitted models
    by_interest : positions of bags, those to be explained first; the first 200 are

    Notes
    -----
    Contributions are those of ``model.explain(bag)``; pieces without a model that has it are left
    out.
    """
    found, fold = {}, prediction.fold
    for bag in by_interest[:MAX_BAGS].tolist():
        model = prediction.pieces[int(fold[bag])].model
        if hasattr(model, "explain"):
            pushes = model.explain(bags[bag : bag + 1]).points
            found[str(bag)] = _strongest(bags, bag, np.asarray(pushes, dtype=np.float64))
    return found


def _strongest(bags: Bags, bag: int, pushes: np.ndarray) -> list[list[Any]]:
    order = np.argsort(-np.abs(pushes), kind="stable")[:MAX_POINTS]
    return [[k + 1, float(f"{pushes[k]:.4g}"), _words(bags, bags[bag][k])] for k in order.tolist()]


def _words(bags: Bags, point: np.ndarray) -> str:
    """Write the features of a point."""
    names = bags.feature_names or tuple(f"x{k}" for k in range(bags.n_features))
    some = [f"{n} {minus(f'{v:.4g}')}" for n, v in zip(names[:MAX_FEATURES], point, strict=False)]
    return ", ".join(some) + (", …" if len(names) > MAX_FEATURES else "")
