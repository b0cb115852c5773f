"""Reasons: which bags are predicted worst, and what may be behind it, in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float64, Int64

from bagwise.inspection.report.case import Case, name_of
from bagwise.inspection.report.comparison import shown
from bagwise.inspection.report.surroundings import Surroundings

N_WORST = 8

# A part of the variance is named if it is at least this share of it.
MOST, MUCH = 0.5, 0.25
# Beyond so many standard deviations 1 label in 20 lies by chance.
FAR = 2.0
# A bag can be called large from so many points on, if the others are no larger.
MANY = 5
# Fewer neighbours than this say nothing.
MIN_NEAR = 5
# Labels outside these quantiles are called extreme.
EXTREME = 0.01
# A prediction's novelty from which a bag is unlike the others. With fewer than 150 training bags it
# is 1/31 at the least, so that the rarity asked of distances would never be reached. The page has
# the same number.
UNLIKE = 0.05


@dataclass(frozen=True, eq=False)
class Reasons:
    """What can be said about the bags that one model predicts badly."""

    case: Case
    name: str
    surroundings: Surroundings

    @property
    def prediction(self) -> Any:
        """Of the model."""
        return self.case.predictions[self.name]

    @cached_property
    def error(self) -> Float64[np.ndarray, " n"]:
        """Label minus prediction; of many classes, one minus the probability of the label."""
        return self._error_of(self.prediction)

    def _error_of(self, prediction: Any) -> Float64[np.ndarray, " n"]:
        if self.case.many:
            return 1.0 - np.exp(prediction.log_prob(self.case.y))
        return self.case.labels - prediction.mean

    @cached_property
    def surprise(self) -> Float64[np.ndarray, " n"]:
        """How unexpected a label is: the error in standard deviations; of classes, the log loss."""
        if self.case.classes is not None:
            return -self.prediction.log_prob(self.case.y)
        sd = self.prediction.std
        return np.divide(self.error, sd, out=np.zeros_like(sd), where=sd > 0)

    def largest(self) -> Int64[np.ndarray, " k"]:
        """Return the bags of the largest errors, worst first."""
        return _top(np.abs(self.error))

    def most_surprising(self) -> Int64[np.ndarray, " k"]:
        """Return the bags whose labels are least expected, worst first."""
        return _top(np.abs(self.surprise))

    def of(self, bag: int) -> list[str]:
        """Return what may be behind the error of one bag, the most telling first."""
        found = self._classes(bag) if self.case.classes is not None else self._real(bag)
        odd = self.surroundings.oddest(bag)
        if odd is not None:
            name, value, usual = odd
            words = f"unusual in {name}: {shown(value, 3)} on average"
            found.append(f"{words}, where all points have {shown(usual, 3)}")
        if self.surroundings.is_far(bag):
            found.append("its points lie farther from those of other bags than almost any bag's")
        told = self.prediction.novelty
        if told is not None and told[bag] <= UNLIKE:
            share = shown(100 * float(told[bag]), 2)
            found.append(
                f"unlike the bags that the model was fitted to: of those of about its size, "
                f"{share} % are as odd (its novelty)"
            )
        return [*found, *self._others(bag)]

    @cached_property
    def _shares(self) -> dict[str, np.ndarray]:
        """Parts of the variance as shares of it."""
        parts, total = self.prediction.parts, self.prediction.parts.total
        safe = np.where(total > 0, total, 1.0)
        return {name: part / safe for name, part in parts.to_dict().items()}

    @cached_property
    def _knows_size(self) -> bool:
        return bool(self.prediction.parts.bag.any())

    def _real(self, bag: int) -> list[str]:
        found = self._surprise(bag)
        if abs(self.surprise[bag]) < FAR:
            found += self._size(bag)
        found += self._neighbours(bag)
        if self._shares["weights"][bag] >= MUCH:
            share = round(100 * float(self._shares["weights"][bag]))
            found.append(f"{share} % of the variance is from the regression: few bags are like it")
        labels, label = self.case.labels, self.case.labels[bag]
        for tail, words in ((labels >= label, "highest"), (labels <= label, "lowest")):
            if len(labels) >= 1 / EXTREME and tail.mean() <= EXTREME:
                found.append(f"its label is among the {words} 1 % of all")
        return found

    def _surprise(self, bag: int) -> list[str]:
        off, size = abs(float(self.surprise[bag])), int(self.case.sizes[bag])
        sd, points = shown(float(self.prediction.std[bag]), 3), _points(size)
        lower, upper = self.prediction.interval(self.case.level)[bag]
        if lower <= self.case.labels[bag] <= upper:
            return [
                f"within its {100 * self.case.level:g} % interval: the model was unsure, sd {sd}"
            ]
        if off < FAR:
            return [f"{off:.1f} sd off, just outside its interval"]
        if self._is_large(bag):
            return [f"{off:.1f} sd off although {points}: label or points unusual"]
        if self._shares["bag"][bag] >= MUCH:
            return [f"{off:.1f} sd off, and with {points} the sd is wide already ({sd})"]
        return [f"{off:.1f} sd off, from {points}{self._unaware(bag)}"]

    def _is_large(self, bag: int) -> bool:
        size = self.case.sizes[bag]
        return bool(size >= MANY and size >= np.median(self.case.sizes))

    def _unaware(self, bag: int) -> str:
        """Say so if the model does not know that the bag is small."""
        return ", of which this model takes no account" * (
            self._is_small(bag) and not self._knows_size
        )

    def _is_small(self, bag: int) -> bool:
        sizes = self.case.sizes
        return bool(sizes[bag] <= np.quantile(sizes, 0.25) and sizes[bag] < sizes.max())

    def _size(self, bag: int) -> list[str]:
        size, share = int(self.case.sizes[bag]), float(self._shares["bag"][bag])
        points = "1 point only" if size == 1 else _points(size)
        if share >= MUCH:
            much = "variance mostly" if share >= MOST else "variance in good part"
            return [f"{points}: {much} ({100 * share:.0f} %) from the bag"]
        return [f"{points}{self._unaware(bag)}"] if self._is_small(bag) else []

    def _neighbours(self, bag: int) -> list[str]:
        """Compare the label with those of the bags whose average point is nearest."""
        near = self.surroundings.nearest(bag)
        if len(near) < MIN_NEAR:
            return []
        labels, label = self.case.labels[near], self.case.labels[bag]
        if self.case.classes is not None:
            other = int(np.sum(labels != label))
            which = "another" if self.case.many else "the other"
            return [f"{other} of the {len(near)} bags most like it on average are of {which} class"]
        low, high = shown(float(labels.min()), 3), shown(float(labels.max()), 3)
        if labels.min() <= label <= labels.max():
            return [f"bags with a similar average have labels as far apart as {low} and {high}"]
        return [f"bags with a similar average have labels of {low} to {high} only"]

    def _classes(self, bag: int) -> list[str]:
        assert self.case.classes is not None
        label = int(self.case.labels[bag])
        p = self.prediction.mean[bag] if label else 1.0 - self.prediction.mean[bag]
        other, unsure = "the other class", "the probability"
        if self.case.many:
            p = 1.0 - self.error[bag]
            other = f"class {name_of(self.prediction.predicted.tolist()[bag])}"
            unsure = f"the probability of {other}"
        lower, upper = self.prediction.interval(self.case.level)[bag]
        size = int(self.case.sizes[bag])
        many = f" although {size:,} points" * self._is_large(bag)
        found = [f"its class was given {_percent(p)}{many}"]
        if lower < 0.5 < upper:
            found.append(
                f"the model was unsure: {unsure} may be {_percent(lower)} to {_percent(upper)}"
            )
        elif upper <= 0.5 and self.case.many:
            found.append("the model was unsure: it gave no class half of the probability")
        elif not self.case.many or self.prediction.places[bag] != label:
            found.append(f"the model was sure of {other}: label or points unusual")
        return found + self._size(bag) + self._neighbours(bag)

    def _others(self, bag: int) -> list[str]:
        """Whether the other models err as this one does."""
        others = {k: p for k, p in self.case.predictions.items() if k != self.name}
        if not others:
            return []
        mine, label = float(self.error[bag]), 1.0 if self.case.many else self.case.labels[bag]
        errors = {name: float(self._error_of(p)[bag]) for name, p in others.items()}
        if all(error * mine > 0 and abs(error) > 0.7 * abs(mine) for error in errors.values()):
            return [
                "the other models err alike" if len(errors) > 1 else "the other model errs alike"
            ]
        name, least = min(errors.items(), key=lambda item: abs(item[1]))
        if abs(least) < 0.5 * abs(mine):
            value = label - least
            said = shown(float(value), 3) if self.case.classes is None else _percent(float(value))
            return [f"{name} comes closer: {said}"]
        return []


def _top(values: np.ndarray) -> Int64[np.ndarray, " k"]:
    return np.argsort(-values, kind="stable")[:N_WORST].astype(np.int64)


def _points(size: int) -> str:
    return "1 point" if size == 1 else f"{size:,} points"


def _percent(p: float) -> str:
    return f"{100 * p:.1f} %" if 0.001 <= p <= 0.999 else f"{100 * p:.2g} %"
