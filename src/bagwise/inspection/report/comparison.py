"""Comparison: scores of every model with their uncertainty, and whether differences are clear."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64

from bagwise.inspection.report.case import Case
from bagwise.predictions.joined import Joined
from bagwise.predictions.metrics import Scores, class_scores, evaluate, real_scores

# A difference of more than so many standard errors is called clear; by chance alone 1 in 20 is.
CLEAR = 2.0

# Significant digits of a score, at most.
MAX_DIGITS = 5

# By which models are ordered: it rewards being right and being as sure as one should be.
PRIMARY = {False: "nll", True: "log_loss"}
BASELINE = {False: "always the mean", True: "always the share"}


@dataclass(frozen=True)
class Estimate:
    """A mean over bags and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Any) -> Estimate:
        """Return the mean and standard error of the scores of bags (n,).

        Examples
        --------
        >>> Estimate.of([1.0, 3.0])
        Estimate(value=2.0, error=1.0)
        """
        array = np.asarray(values, dtype=np.float64)
        known = array.size > 1 and np.isfinite(array).all()  # an interval may be infinite
        spread = float(array.std(ddof=1)) if known else float("nan")
        return cls(float(array.mean()), spread / float(np.sqrt(array.size)))

    def root(self) -> Estimate:
        """Return the root, as from a mean squared error to its root (delta method)."""
        root = float(np.sqrt(self.value))
        return Estimate(root, self.error / (2.0 * root) if root > 0 else 0.0)

    @property
    def clear(self) -> bool:
        """Whether the mean differs clearly from zero."""
        return bool(abs(self.value) > CLEAR * self.error)  # not if there is no error to compare


@dataclass(frozen=True, eq=False)
class ModelScores:
    """How one model did.

    Attributes
    ----------
    table : its scores overall and by bag size, as `bagwise.evaluate` gives them
    bags : (n,) arrays, the scores of each bag;  estimates : their means
    behind : of the primary score, the paired difference to the best model (None for the best)
    verdict : that difference in words
    """

    name: str
    table: Scores
    bags: dict[str, np.ndarray]
    estimates: dict[str, Estimate]
    behind: Estimate | None
    verdict: str


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of the models of a case, best first, and of the baseline."""

    models: list[ModelScores]
    baseline: ModelScores
    primary: str

    @property
    def best(self) -> ModelScores:
        """The model of the best primary score."""
        return self.models[0]

    @classmethod
    def of(cls, case: Case) -> Comparison:
        """Score all models and put them in order."""
        primary = PRIMARY[case.classes is not None]
        base_name = BASELINE[case.classes is not None]
        scores = {name: bag_scores(case, p) for name, p in case.predictions.items()}
        order = sorted(scores, key=lambda name: float(np.mean(scores[name][primary])))
        best = scores[order[0]][primary]
        models = [
            _scored(case, name, case.predictions[name], scores[name], scores[name][primary] - best)
            for name in order
        ]
        base = bag_scores(case, case.baseline)
        last = _scored(case, base_name, case.baseline, base, base[primary] - best)
        return cls(models, last, primary)


def bag_scores(case: Case, prediction: Any) -> dict[str, Float64[np.ndarray, " n"]]:
    """Return the scores of each bag; their means are those of `bagwise.evaluate`."""
    if case.classes is not None:
        columns = class_scores(prediction, case.y)
    else:
        columns = real_scores(prediction, case.labels, case.level)
    return {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}


def _scored(
    case: Case, name: str, prediction: Joined, bags: dict[str, np.ndarray], behind: np.ndarray
) -> ModelScores:
    estimates = {score: Estimate.of(values) for score, values in bags.items()}
    if "mse" in estimates:
        estimates["rmse"] = estimates["mse"].root()
    table = evaluate(prediction, case.y, sizes=case.sizes, level=case.level)
    difference = Estimate.of(behind) if behind.any() else None
    return ModelScores(name, table, bags, estimates, difference, _verdict(difference))


def _verdict(behind: Estimate | None) -> str:
    if behind is None:
        return "best"
    if behind.clear:
        return "clearly worse"
    return "no clear difference"


def shown(value: float, digits: int = 4) -> str:
    """Write a score with so many significant digits, or as few decimals as that takes.

    Examples
    --------
    >>> shown(6.38123), shown(0.0123456), shown(123456.7), shown(float("nan"))
    ('6.381', '0.01235', '123,457', '–')
    >>> shown(-2.5, 2)
    '−2.5'
    """
    if not np.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    magnitude = int(np.floor(np.log10(abs(value))))
    if not -5 < magnitude < 9:
        return minus(f"{value:.{digits - 1}e}")
    return minus(f"{value:,.{max(0, digits - 1 - magnitude)}f}")


def minus(number: str) -> str:
    """Write a number with a minus sign rather than a hyphen."""
    return number.replace("-", "−")


def plus_minus(estimate: Estimate, percent: bool = False) -> tuple[str, str]:
    """Return a value and its standard error as text, both to the second digit of the error.

    Examples
    --------
    >>> plus_minus(Estimate(6.38123, 0.1234)), plus_minus(Estimate(0.9123, 0.0071), percent=True)
    (('6.38', '0.12'), ('91.2 %', '0.7'))
    """
    if percent:
        error = f"{100 * estimate.error:.1f}" if np.isfinite(estimate.error) else "–"
        return minus(f"{100 * estimate.value:.1f} %"), error
    if not np.isfinite(estimate.error) or estimate.error <= 0:
        return shown(estimate.value), "–" if estimate.error != 0 else "0"
    magnitude = int(np.floor(np.log10(estimate.error)))
    if not -7 < magnitude < 9:
        return minus(f"{estimate.value:.4g}"), f"{estimate.error:.2g}"
    size = np.floor(np.log10(max(abs(estimate.value), estimate.error)))
    decimals = max(0, min(1 - magnitude, MAX_DIGITS - 1 - int(size)))
    return minus(f"{estimate.value:,.{decimals}f}"), f"{estimate.error:,.{decimals}f}"
