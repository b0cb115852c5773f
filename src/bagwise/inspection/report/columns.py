"""Columns: what they add to predictions, of single bags and on average, and their values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from bagwise.bags.bags import Bags
from bagwise.estimators.explanation import Explanation
from bagwise.inspection.report.case import Case
from bagwise.predictions.joined import Joined

# Bags that the page explains, and bags drawn at random for what columns add on average.
MAX_BAGS = 200
DRAWN_BAGS = 100
# Points of a bag from which the part of its columns is found, and columns of which it is: kernels
# without a formula take a difference for each.
COLUMN_POINTS = 50
MAX_SPLIT = 60
# Values of which a histogram is made.
MAX_VALUES = 200_000


@dataclass(frozen=True, eq=False)
class Explained:
    """Explanations of some bags by the model that had not seen them.

    Attributes
    ----------
    shown : positions of the bags that the page explains;  drawn : of bags drawn at random
    each : Explanation by position, of those whose model has one
    """

    case: Case
    shown: Int64[np.ndarray, " k"]
    drawn: Int64[np.ndarray, " m"]
    each: dict[int, Explanation]

    @classmethod
    def of(cls, case: Case, prediction: Joined, by_interest: Int64[np.ndarray, " n"]) -> Explained:
        """Explain the first 200 bags of an order, and 100 at random."""
        rng, found = np.random.default_rng(case.seed), dict[int, Explanation]()
        shown, drawn = by_interest[:MAX_BAGS], rng.permutation(case.bags.n_bags)[:DRAWN_BAGS]
        for bag in np.union1d(shown, drawn).tolist():
            model = prediction.pieces[int(prediction.fold[bag])].model
            if hasattr(model, "explain"):
                found[bag] = model.explain(case.points[bag : bag + 1])
        return cls(case, shown, drawn, found)

    @cached_property
    def by_column(self) -> dict[int, Float64[np.ndarray, " p"]]:
        """What each column and covariate adds to the prediction of a bag, by position."""
        if self.case.bags.n_features > MAX_SPLIT:
            return {}
        return {bag: self._split(bag, why) for bag, why in self.each.items() if why.by_column}

    def _split(self, bag: int, why: Explanation) -> Float64[np.ndarray, " p"]:
        few = why.bags.some(np.zeros(1, np.int64), COLUMN_POINTS, [self.case.seed, bag])
        return np.concatenate([replace(why, bags=few).columns, why.covariates])

    @cached_property
    def importance(self) -> Float64[np.ndarray, " p"] | None:
        """How far, on average over bags, what a column adds is from what it adds on average.

        mean |c_ij − c̄_j|, over bags i drawn at random. Contributions c count from the average
        point, so that their average c̄ is what all bags have in common; of many classes it is of
        those bags that are predicted to be of the same.
        """
        groups: dict[str, list[Any]] = {}
        for bag in self.drawn.tolist():
            if bag in self.by_column:
                groups.setdefault(self.each[bag].target, []).append(self.by_column[bag])
        gaps = [np.array(rows) - np.mean(rows, axis=0) for rows in groups.values()]
        return np.abs(np.concatenate(gaps)).mean(axis=0) if gaps else None


def column_names(bags: Bags) -> list[str]:
    """Return the names of features and covariates, x0, x1, … and c0, c1, … if they have none.

    Examples
    --------
    >>> column_names(Bags.from_list([[[1.0, 2.0]]], feature_names=["age", "size"]))
    ['age', 'size']
    """
    features = bags.feature_names or [f"x{k}" for k in range(bags.n_features)]
    return [*features, *(bags.covariate_names or [f"c{k}" for k in range(bags.n_covariates)])]


def column_values(case: Case) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the values of each column, some if they are very many, and what each counts.

    Points count by their share of their bag, so that all bags count the same.
    """
    bags = case.points
    points, counts = bags.points, bags.shares
    if bags.n_points > MAX_VALUES:
        rng = np.random.default_rng(case.seed)
        rows = np.sort(rng.choice(bags.n_points, MAX_VALUES, replace=False))
        points, counts = points[rows], counts[rows]
    for column in points.T:
        yield column.astype(np.float64), counts / counts.sum()
    for covariate in () if bags.covariates is None else bags.covariates.T:
        yield covariate, np.full(bags.n_bags, 1.0 / bags.n_bags)
