"""Is the bag part of the variance true? Large bags are cut, and what then changes is compared.

Before it is seen, the prediction of a whole bag of N points is a random number around that of k of
them, and its variance is what N points tell that k do not: what the variance of the label falls by.
So for bags that a model was not fitted to, each cut at random to k points several times, prints

- bag: the fall of the bag part that is stated, its mean at the k points less that at all N
- at_size: the same, with the whole bag asked what it would say with k points
- all: the fall of all parts together, noise and weights included
- seen: the mean squared change of the predicted mean
- kept: the same if the size that the label may depend on stays N, as in what at_size says
- seen/bag and kept/bag, with standard errors over bags, …/at_size (of kept) and seen/all: 1 if what
  is stated is true, more if it is too little
- shift: mean change of the predicted mean, in units of the root of what is seen

of each set and model. "no spread" is the same fit without the factor by which widths vary.

    python -m benchmarks.bag_part [gamma polls …] [--models gp shrinkage] [--cuts 20] [--folds 5]
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from bagwise import Bags, DistributionGPRegressor, ShrinkageRegressor
from bagwise.datasets import make_gamma
from bagwise.embedding.sums import summarise
from bagwise.estimators.kernel_choice import as_seen
from bagwise.heads.gp import NO_SPREAD, GPDraws, GPHead
from bagwise.inference.second_level import Coordinates, Inputs, SecondLevelKernel
from benchmarks import real_bags

# Nothing was ever chosen on this draw.
GAMMA_SEED = 301

N_CUTS = 20

MODELS: dict[str, Callable[[], Any]] = {
    "gp": DistributionGPRegressor,
    "gp-no-size": lambda: DistributionGPRegressor(size=False),
    "shrinkage": ShrinkageRegressor,
}
BY_DEFAULT = ("gp", "shrinkage")

COLUMNS = (
    *("bag", "at_size", "all", "seen", "kept"),
    *("seen/bag", "±", "kept/bag", "±", "…/at_size", "seen/all", "shift"),
)
WIDTH = 10


@dataclass(frozen=True, eq=False)
class Fold:
    """Bags to fit to, their labels, and bags to predict."""

    train: Bags
    labels: np.ndarray
    test: Bags


@dataclass(frozen=True)
class CutSet:
    """Where bags are from, how large one must be to be cut, and to how many points."""

    folds: Callable[[], Iterator[Fold]]
    least: int
    cuts: tuple[int, ...]


def gamma_folds() -> Iterator[Fold]:
    """Yield the training and test bags of one draw of the paper's, a quarter of 5 points."""
    data = make_gamma(GAMMA_SEED, percent_small=25)
    yield Fold(data.train.bags, data.train.labels, data.test.bags)


def real_folds(name: str) -> Callable[[], Iterator[Fold]]:
    """Return what yields the folds of a set of benchmarks.real_bags, as they are there."""

    def folds() -> Iterator[Fold]:
        (real,) = real_bags.sets([name], None)
        cut = KFold(real_bags.N_FOLDS, shuffle=True, random_state=0).split(real.labels)
        for train, test in cut:
            yield Fold(real.bags[train], real.labels[train], real.bags[test])

    return folds


SETS = {
    "gamma": CutSet(gamma_folds, 1000, (5, 20, 100)),
    "polls": CutSet(real_folds("polls"), 11, (1, 3, 6)),
    "radon": CutSet(real_folds("radon"), 60, (3, 10, 30)),
    "schools": CutSet(real_folds("schools"), 40, (5, 10, 20)),
    "multilevel": CutSet(real_folds("multilevel"), 40, (3, 5, 20)),
    "digits": CutSet(real_folds("digits"), 40, (5, 10, 20)),
}


@dataclass(frozen=True, eq=False)
class Change:
    """What is stated and seen of bags cut to k points; arrays (n,), means over the cuts of a bag.

    Attributes
    ----------
    bag, at_size, total : fall of the bag part, of that of the whole bag, of all parts
    square, shift : of the change of the predicted mean
    kept : square of that change if the size as an input is kept
    """

    bag: np.ndarray
    at_size: np.ndarray
    total: np.ndarray
    square: np.ndarray
    shift: np.ndarray
    kept: np.ndarray

    @classmethod
    def of(cls, model: Any, bags: Bags, k: int, n_cuts: int, rng: np.random.Generator) -> Change:
        """Cut bags to k points, so many times, and predict what is left and the whole."""
        whole = model.predict_dist(bags)
        parts = [cut(bags, k, rng) for _ in range(n_cuts)]
        fewer = [model.predict_dist(part) for part in parts]
        moved = np.array([each.mean for each in fewer]) - whole.mean
        kept = np.array([mean_at(model, part, bags.sizes) for part in parts]) - whole.mean
        own = np.mean([each.parts.bag for each in fewer], axis=0)
        return cls(
            own - whole.parts.bag,
            whole.at_size(k).parts.bag - whole.parts.bag,
            np.mean([each.var for each in fewer], axis=0) - whole.var,
            np.mean(moved**2, axis=0),
            moved.mean(axis=0),
            np.mean(kept**2, axis=0),
        )

    @classmethod
    def joined(cls, parts: Sequence[Change]) -> Change:
        """Put folds together."""
        names = [field.name for field in fields(cls)]
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))

    def numbers(self) -> list[float]:
        """Return what is printed, in the order of the columns."""
        stated = (self.bag, self.at_size, self.total)
        bag, at_size, total, seen, kept = (
            float(each.mean()) for each in (*stated, self.square, self.kept)
        )
        ratios = [*ratio_of(self.square, self.bag), *ratio_of(self.kept, self.bag)]
        shift = float(self.shift.mean()) / np.sqrt(seen)
        return [bag, at_size, total, seen, kept, *ratios, kept / at_size, seen / total, shift]


def mean_at(model: Any, bags: Bags, sizes: np.ndarray) -> np.ndarray:
    """Predict bags from their points as if, as an input of the label, they had other sizes."""
    if not isinstance(model, DistributionGPRegressor):
        return model.predict(bags)  # to which a size is no input
    stats = summarise(as_seen(bags, model.features_.centred), model.features_, covariance=False)
    design = model.effects_.design(bags.covariates, bags.n_bags)

    def at(head: GPHead) -> np.ndarray:
        posterior = head.embed(stats)
        coordinates = Coordinates(head.model.spectrum, head.scales)
        inputs = Inputs(
            coordinates.mean(posterior),
            coordinates.var(posterior.slack),
            posterior.size_of,
            head.sizing(sizes),
            design,
        )
        return SecondLevelKernel(head.scales).between(inputs, head.basis) @ head.alpha

    head = model.head_
    heads = head.heads if isinstance(head, GPDraws) else [head]
    latent = np.mean([at(each) for each in heads], axis=0)
    return model.label_center_ + model.label_scale_ * latent


def cut(bags: Bags, k: int, rng: np.random.Generator) -> Bags:
    """Return the same bags with k of their points each, drawn without replacement.

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0], [5.0]]])
    >>> cut(bags, 2, np.random.default_rng(0)).sizes
    array([2, 2])
    """
    points = np.stack([rng.permutation(bag)[:k] for bag in bags])
    return Bags.from_array(
        points,
        covariates=bags.covariates,
        feature_names=bags.feature_names,
        covariate_names=bags.covariate_names,
    )


def ratio_of(above: np.ndarray, below: np.ndarray) -> tuple[float, float]:
    """Return the ratio of two means over bags, and its standard error (by the delta method).

    Examples
    --------
    >>> ratio_of(np.array([2.0, 4.0]), np.array([1.0, 2.0]))
    (2.0, 0.0)
    """
    ratio = float(above.mean() / below.mean())
    left = above - ratio * below
    error = left.std(ddof=1) / np.sqrt(len(left)) / abs(below.mean())
    return ratio, float(error)


def views(name: str, model: Any) -> Iterator[tuple[str, Any]]:
    """Yield a fitted model, and if it may have a spread, what it would be without."""
    yield name, model
    if isinstance(model, DistributionGPRegressor):  # in every fold: rows are of the same bags
        plain, head = copy.copy(model), model.head_
        mode = replace(head.mode if isinstance(head, GPDraws) else head, spread=NO_SPREAD)
        plain.head_ = replace(head, mode=mode) if isinstance(head, GPDraws) else mode
        yield f"{name}, no spread", plain


def changes(
    asked: CutSet, models: Sequence[str], n_cuts: int, n_folds: int
) -> dict[tuple[str, int], Change]:
    """Fit every model to every fold, and return what changes, by model and number of points."""
    found: dict[tuple[str, int], list[Change]] = {}
    for fold, _ in zip(asked.folds(), range(n_folds), strict=False):
        large = fold.test[fold.test.sizes >= asked.least]
        for name in models:
            model = MODELS[name]().fit(fold.train, fold.labels)
            for view, each in views(name, model):
                for k in asked.cuts:
                    rng = np.random.default_rng(k)  # so that all models see the same cuts
                    change = Change.of(each, large, k, n_cuts, rng)
                    found.setdefault((view, k), []).append(change)
    return {key: Change.joined(parts) for key, parts in found.items()}


def lines(name: str, asked: CutSet, found: dict[tuple[str, int], Change]) -> Iterator[str]:
    """Yield the table of a set."""
    yield f"{name}: bags of {asked.least} points or more"
    yield f"  {'':22s}{'k':>4s}{'bags':>6s}" + "".join(f"{column:>{WIDTH}s}" for column in COLUMNS)
    for (view, k), change in found.items():
        numbers = "".join(f"{number:{WIDTH}.3g}" for number in change.numbers())
        yield f"  {view:22s}{k:4d}{len(change.bag):6d}{numbers}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a table for every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*", help=f"of {', '.join(SETS)}; by default all")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(BY_DEFAULT))
    parser.add_argument("--cuts", type=int, default=N_CUTS, help="cuts of each bag")
    parser.add_argument("--folds", type=int, default=real_bags.N_FOLDS, help="how many to run")
    options = parser.parse_args(arguments)
    for name in options.sets or SETS:
        found = changes(SETS[name], options.models, options.cuts, options.folds)
        for line in lines(name, SETS[name], found):
            print(line, flush=True)


if __name__ == "__main__":
    main()
