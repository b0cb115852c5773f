"""Are the intervals of the Gaussian process as sure as they should be? Coverage by bag size.

Prints, by size, the share of labels inside the central 50, 80 and 95 % intervals of the default
``DistributionGPRegressor``, the standard error, and in brackets how many of these it is away from
what the interval says; ``*`` marks more than two.

- gamma: test bags of draws that nothing was chosen by, with 1,000 training bags each; standard
  errors are binomial
- polls: races out of fold, five folds drawn at random; standard errors are clustered by year, as
  the polls of a year err together, and at least binomial
- polls-years: the same, a year left out at a time, so that none of its races is known, by a model
  that does not know of years
- polls-groups: the same, by a model with an effect of the year, fit(bags, y, groups=years)

    python -m benchmarks.gp_calibration [gamma] [polls] [polls-years] [polls-groups] [--seeds 101]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.model_selection import KFold, LeaveOneGroupOut

from bagwise import DistributionGPRegressor, KernelEmbedding, cross_val_predict_dist
from bagwise.datasets import load_polls, make_gamma

# The paper's draws are 23 to 32; nothing was ever chosen on these.
SEEDS = (101, 102, 103)
N_FOLDS = 5
LEVELS = (0.5, 0.8, 0.95)

# Standard errors beyond which a share is marked.
FAR = 2.0

# Least and largest number of polls of the races in a row.
POLL_SIZES = {"1": (1, 1), "2": (2, 2), "3–5": (3, 5), "6–10": (6, 10), "11+": (11, np.inf)}

MODEL: Callable[[], Any] = DistributionGPRegressor

# With --quick there is one kernel, and nothing to choose.
QUICK = KernelEmbedding(60, bandwidth=4.0)


def inside(prediction: Any, y: np.ndarray) -> np.ndarray:
    """Return whether each interval holds the label, (levels, n)."""
    bounds = np.stack([prediction.interval(level) for level in LEVELS])
    return (bounds[:, :, 0] <= y) & (y <= bounds[:, :, 1])


def standard_error(hits: np.ndarray, level: float, groups: np.ndarray | None = None) -> float:
    """Return the standard error of the share of hits, if intervals are as sure as they say.

    √(p(1 − p)/n), or if larger, clustered: √(G/(G − 1) Σ_g (Σ_{i in g} (hit_i − share))²)/n

    Examples
    --------
    >>> hits = np.array([True, True, False, False])
    >>> standard_error(hits, 0.5), round(standard_error(hits, 0.5, np.array([0, 0, 1, 1])), 2)
    (0.25, 0.5)
    """
    n, binomial = len(hits), float(np.sqrt(level * (1 - level) / len(hits)))
    if groups is None:
        return binomial
    names, group = np.unique(groups, return_inverse=True)
    sums = np.bincount(group, hits - hits.mean())
    clusters = len(names)
    if clusters < 2:
        return binomial
    return max(binomial, float(np.sqrt(clusters / (clusters - 1) * np.sum(sums**2))) / n)


def row(name: str, hits: np.ndarray, groups: np.ndarray | None = None) -> str:
    """Return a row of the table for bags of about one size."""
    cells = []
    for level, each in zip(LEVELS, hits, strict=True):
        share, error = float(each.mean()), standard_error(each, level, groups)
        away = (share - level) / error
        mark = "*" if abs(away) > FAR else " "
        cells.append(f"{share:6.1%} ± {error:4.1%} ({away:+5.1f}){mark}")
    return f"  {name:>6s} {hits.shape[1]:6d}   " + "   ".join(cells)


def table(
    title: str, which: dict[str, np.ndarray], hits: np.ndarray, groups: np.ndarray | None = None
) -> Iterator[str]:
    """Yield a row for the bags of each size, and one for all."""
    yield title
    yield f"  {'N':>6s} {'bags':>6s}   " + "   ".join(f"{level:<23.0%}" for level in LEVELS)
    for name, some in (which | {"all": np.ones(hits.shape[1], dtype=bool)}).items():
        if some.any():
            yield row(name, hits[:, some], None if groups is None else groups[some])


def gamma(seeds: Sequence[int]) -> Iterator[str]:
    """Yield the coverage of test bags, all draws together."""
    hits, sizes = [], []
    for seed in seeds:
        data = make_gamma(seed)
        model = MODEL().fit(data.train.bags, data.train.labels)
        hits.append(inside(model.predict_dist(data.test.bags), data.test.labels))
        sizes.append(data.test.bags.sizes)
    size = np.concatenate(sizes)
    which = {f"{n:,}": size == n for n in np.unique(size).tolist()}
    drawn = ", ".join(map(str, seeds))
    yield from table(f"gamma, a quarter of bags of 5, seeds {drawn}", which, np.hstack(hits))


def polls(by_year: bool, grouped: bool = False, quick: bool = False) -> Iterator[str]:
    """Yield the coverage of races out of fold."""
    data = load_polls()
    folds = LeaveOneGroupOut() if by_year else KFold(N_FOLDS, shuffle=True, random_state=0)
    splits = list(folds.split(data.labels, groups=data.years if by_year else None))
    groups = data.years if grouped else None
    model = MODEL().set_params(embedding=QUICK, center=False) if quick else MODEL()
    prediction = cross_val_predict_dist(
        model, data.bags, data.labels, cv=splits, groups=groups, progress=False
    )
    hits, size = inside(prediction, data.labels), data.bags.sizes
    which = {name: (size >= low) & (size <= high) for name, (low, high) in POLL_SIZES.items()}
    what = "a year left out at a time" if by_year else "races left out at random"
    known = ", by a model with an effect of the year" * grouped + ", one kernel" * quick
    yield from table(f"polls, {len(splits)} folds, {what}{known}", which, hits, data.years)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the tables asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="parts above; the first two if none")
    parser.add_argument("--seeds", default=",".join(map(str, SEEDS)), help="of gamma")
    parser.add_argument("--quick", action="store_true", help="polls with one kernel only")
    options = parser.parse_args(arguments)
    seeds = [int(seed) for seed in options.seeds.split(",")]
    parts: dict[str, Callable[[], Iterator[str]]] = {
        "gamma": lambda: gamma(seeds),
        "polls": lambda: polls(by_year=False, quick=options.quick),
        "polls-years": lambda: polls(by_year=True, quick=options.quick),
        "polls-groups": lambda: polls(by_year=True, grouped=True, quick=options.quick),
    }
    for part in options.parts or ("gamma", "polls"):
        for line in parts[part]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
