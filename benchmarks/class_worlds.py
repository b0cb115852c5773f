"""Worlds of two classes of our own making: bags of 3 to 300 points whose true model is known.

    python -m benchmarks.class_worlds [mean spread …] [--bags 100 300 1000] [--sets 10]
        [--models logistic shrinkage laplace] [--first-seed 1000]

Bags are drawn anew for every training set, with 3,000 test bags of its own. With 100 training bags
there are ten sets, with 300 six, with 1,000 three: the fewer bags, the more models differ between
sets. Prints, over all sets, the log loss and the slope of a recalibration (1 if probabilities are
as sure as they should be, above 1 if they could be surer), of all test bags and of each third of
them by size. Errors are those of leaving out one training set after the other: they count that
models differ between sets. Models were chosen with seeds below 1000.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64, Int64
from scipy.special import expit

from bagwise import Bags
from benchmarks.calibration import CLASSIFIERS
from benchmarks.real_classes import slope

SMALLEST, LARGEST = 3, 300
N_TEST = 3000
FIRST_SEED = 1000
SETS = {100: 10, 300: 6, 1000: 3}
N_SETS = 3
MODELS = ("logistic", "shrinkage", "laplace")

Points = Float64[np.ndarray, "N p"]
PerBag = Float64[np.ndarray, " n"]


@dataclass(frozen=True, eq=False)
class Draw:
    """Bags that are being made: their sizes, the bag of each point, and chance.

    Attributes
    ----------
    rng : of all that is drawn
    sizes : (n,);  of : (N,), the bag of each point
    """

    rng: np.random.Generator
    sizes: Int64[np.ndarray, " n"]
    of: Int64[np.ndarray, " N"]

    @classmethod
    def begin(cls, rng: np.random.Generator, n: int) -> Draw:
        """Draw sizes, uniform in their logs."""
        logs = rng.uniform(np.log(SMALLEST), np.log(LARGEST + 1), n)
        sizes = np.floor(np.exp(logs)).astype(np.int64)
        return cls(rng, sizes, np.repeat(np.arange(n), sizes))

    def normal(self, middle: Float64[np.ndarray, "n p"], sd: PerBag | float = 1.0) -> Points:
        """Return normal points around the middle of their bag."""
        spread = np.broadcast_to(sd, len(middle))[self.of, None]
        return middle[self.of] + spread * self.rng.normal(size=(len(self.of), middle.shape[1]))

    def middles(self, p: int, sd: float = 1.0) -> Float64[np.ndarray, "n p"]:
        """Return a normal middle for each bag."""
        return sd * self.rng.normal(size=(len(self.sizes), p))


World = Callable[[Draw], tuple[Points, PerBag]]


def mean(draw: Draw) -> tuple[Points, PerBag]:
    """Label by a line through the means of three columns."""
    middle = draw.middles(3)
    return draw.normal(middle), 2.0 * (middle[:, 0] - middle[:, 1])


def spread(draw: Draw) -> tuple[Points, PerBag]:
    """Label by the spread of two columns, whose means vary and say nothing."""
    log_sd = 0.4 * draw.rng.normal(size=len(draw.sizes))
    return draw.normal(draw.middles(2, 0.5), np.exp(log_sd)), 5.0 * log_sd


def share(draw: Draw) -> tuple[Points, PerBag]:
    """Label by the share of points that lie in a small cloud of their own."""
    held = draw.rng.beta(1.0, 3.0, len(draw.sizes))
    points = draw.normal(np.zeros((len(held), 3)))
    apart = draw.rng.uniform(size=len(points)) < held[draw.of]
    points[apart] = np.array([2.0, -2.0, 0.0]) + 0.4 * draw.rng.normal(size=(apart.sum(), 3))
    return points, 12.0 * (held - 0.22)


def few(draw: Draw) -> tuple[Points, PerBag]:
    """Label by whether a bag's distribution has a cloud of its own at all, of 3 to 20 %."""
    has = draw.rng.uniform(size=len(draw.sizes)) < 0.5
    held = np.where(has, draw.rng.uniform(0.03, 0.2, len(has)), 0.0)
    points = draw.normal(draw.middles(3, 0.3))
    apart = draw.rng.uniform(size=len(points)) < held[draw.of]
    points[apart] = np.array([3.0, 0.0, 0.0]) + 0.5 * draw.rng.normal(size=(apart.sum(), 3))
    return points, np.where(has, 3.0, -3.0)


def complete(draw: Draw) -> tuple[Points, PerBag]:
    """Label by the average of the points that are there: they are all of their bag."""
    points = draw.normal(draw.middles(3, 0.7))
    value = np.tanh(points[:, 0]) + 0.5 * points[:, 1]
    return points, 4.0 * np.bincount(draw.of, value) / draw.sizes


def rare(draw: Draw) -> tuple[Points, PerBag]:
    """Label by a line through the means of five columns; one bag in nine is positive."""
    middle = draw.middles(5, 0.8)
    return draw.normal(middle), 2.0 * (middle[:, 0] + middle[:, 1]) - 3.5


def crossed(draw: Draw) -> tuple[Points, PerBag]:
    """Label by the product of two means, which no model here has."""
    middle = draw.middles(2)
    return draw.normal(middle, 0.7), 3.0 * middle[:, 0] * middle[:, 1]


WORLDS: dict[str, World] = {
    each.__name__: each for each in (mean, spread, share, few, complete, rare, crossed)
}


def bags_of(world: World, rng: np.random.Generator, n: int) -> tuple[Bags, Bool[np.ndarray, " n"]]:
    """Draw n bags with their classes, whose log odds the world gives."""
    draw = Draw.begin(rng, n)
    points, log_odds = world(draw)
    return Bags.from_groups(points, draw.of), rng.uniform(size=n) < expit(log_odds)


@dataclass(frozen=True, eq=False)
class Told:
    """What a model said of the test bags of one training set; arrays (n,)."""

    probability: np.ndarray
    labels: np.ndarray
    sizes: np.ndarray

    def third(self, k: int | None) -> Told:
        """Return a third of the bags by size, or all."""
        if k is None:
            return self
        rows = np.searchsorted(np.quantile(self.sizes, [1 / 3, 2 / 3]), self.sizes) == k
        return Told(self.probability[rows], self.labels[rows], self.sizes[rows])

    def log_loss(self) -> float:
        """Return the mean of −log of the probability of the labels."""
        return -float(
            np.mean(np.log(np.where(self.labels, self.probability, 1 - self.probability)))
        )


def joined(each: Sequence[Told]) -> Told:
    """Return all test bags of several training sets."""
    columns = zip(*((told.probability, told.labels, told.sizes) for told in each), strict=True)
    return Told(*(np.concatenate(column) for column in columns))


def slope_over_sets(each: Sequence[Told]) -> tuple[float, float]:
    """Return the slope over all sets, and its error by leaving out one after the other."""

    def value(some: Sequence[Told]) -> float:
        told = joined(some)
        return slope(told.labels, np.column_stack([1 - told.probability, told.probability]))[0]

    left = np.array([value([*each[:i], *each[i + 1 :]]) for i in range(len(each))])
    error = np.sqrt((len(each) - 1) * np.var(left)) if len(each) > 1 else np.nan
    return value(each), float(error)


def run(
    world: World, n_bags: int, seeds: Sequence[int], names: Sequence[str]
) -> dict[str, list[Told]]:
    """Fit each model on each training set."""
    found: dict[str, list[Told]] = {name: [] for name in names}
    for seed in seeds:
        rng = np.random.default_rng(seed)
        bags, labels = bags_of(world, rng, n_bags)
        new, asked = bags_of(world, rng, N_TEST)
        for name in names:
            prediction = CLASSIFIERS[name]().fit(bags, labels).predict_dist(new)
            found[name].append(Told(prediction.probability, asked, new.sizes))
    return found


def table(
    worlds: Sequence[str], seeds: Mapping[int, Sequence[int]], models: Sequence[str]
) -> Iterator[str]:
    """Yield the lines of the table; seeds of the training sets by their number of bags."""
    yield "| world | training bags | model | log loss | slope | small | middle | large |"
    yield "|---|---|---|---|---|---|---|---|"
    for world in worlds:
        for n, some in seeds.items():
            for model, each in run(WORLDS[world], n, some, models).items():
                cells = [f"{np.mean([told.log_loss() for told in each]):.4f}"]
                for k in (None, 0, 1, 2):
                    value, error = slope_over_sets([told.third(k) for told in each])
                    cells.append(f"{value:.2f} ± {error:.2f}")
                yield f"| {world} | {n} | {model} | " + " | ".join(cells) + " |"


def main(arguments: list[str] | None = None) -> None:
    """Print the table of the worlds asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("worlds", nargs="*", help=f"of {', '.join(WORLDS)}; by default all")
    parser.add_argument("--bags", type=int, nargs="+", default=list(SETS), help="training bags")
    parser.add_argument("--sets", type=int, help="training sets of each number of bags")
    parser.add_argument("--models", nargs="+", choices=list(CLASSIFIERS), default=MODELS)
    parser.add_argument("--first-seed", type=int, default=FIRST_SEED)
    options = parser.parse_args(arguments)
    sets = {n: options.sets or SETS.get(n, N_SETS) for n in options.bags}
    first = options.first_seed
    seeds = {n: range(first, first + k) for n, k in sets.items()}
    for line in table(options.worlds or list(WORLDS), seeds, options.models):
        print(line, flush=True)


if __name__ == "__main__":
    main()
