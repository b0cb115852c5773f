"""Benchmark of the time and memory of a fit as points, bags and landmarks grow."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass
from functools import partial

import numpy as np
from jaxtyping import Float64
from threadpoolctl import threadpool_limits

from bagwise.bags import Bags
from bagwise.experiments.bench_report import Section, Target, exponent, interleaved
from bagwise.regressors import ShrinkageRegressor

# Sizes of bags, in equal shares, before they are scaled to the number of points asked for.
BASE_SIZES = np.array([5, 20, 100, 1000])
LABEL_RANGE = (4.0, 8.0)
N_FEATURES = 5

LINEAR = Target(1.1)
QUADRATIC = Target(2.1)
MEGABYTE = 2.0**20


@dataclass(frozen=True)
class Size:
    """Size of a problem."""

    points: int
    bags: int
    landmarks: int


@dataclass(frozen=True)
class Cost:
    """Processor seconds of a fit, and megabytes at its peak above those of the data."""

    seconds: float
    megabytes: float


def draw(size: Size) -> tuple[Bags, Float64[np.ndarray, " n"]]:
    """Draw bags like the paper's, with about this number of points."""
    rng = np.random.default_rng(0)
    base = np.resize(BASE_SIZES, size.bags)
    sizes = np.maximum(2, np.rint(base * (size.points / base.sum()))).astype(int)
    labels = rng.uniform(*LABEL_RANGE, size.bags)
    shapes = np.repeat(labels, sizes)[:, None]
    points = rng.chisquare(shapes, (sizes.sum(), N_FEATURES)) / shapes
    return Bags.from_groups(points, np.repeat(np.arange(size.bags), sizes)), labels


def costs(sizes: list[Size], repeats: int) -> list[Cost]:
    """Fit each size once to measure its memory, then time all of them in turn.

    In seconds of one processor and with one thread: how long a fit waits for others on a busy
    machine, or for its own threads, says nothing of how it grows.
    """
    fits, peaks = [], []
    for size in sizes:
        bags, labels = draw(size)
        model = ShrinkageRegressor(bandwidth_scale=1.0, n_landmarks=size.landmarks)
        fits.append(partial(model.fit, bags, labels))
    with threadpool_limits(limits=1):
        for fit in fits:
            tracemalloc.start()
            fit()
            peaks.append(tracemalloc.get_traced_memory()[1] / MEGABYTE)
            tracemalloc.stop()
        seconds = interleaved(fits, repeats, time.process_time)
    return [Cost(*pair) for pair in zip(seconds, peaks, strict=True)]


def run(quick: bool) -> list[Section]:
    """Measure fits along each of the three sizes, the other two fixed."""
    if quick:
        points = [Size(n, 40, 10) for n in (1_000, 2_000)]
        bags = [Size(1_000, n, 10) for n in (40, 80)]
        landmarks = [Size(1_000, 40, n) for n in (5, 10)]
    else:
        points = [Size(n, 1_000, 60) for n in (100_000, 200_000, 400_000, 800_000)]
        bags = [Size(200_000, n, 60) for n in (500, 1_000, 2_000, 4_000)]
        landmarks = [Size(200_000, 1_000, n) for n in (30, 60, 120)]
    repeats = 1 if quick else 4
    return [
        _sweep("3a. Points", "points", points, LINEAR, repeats),
        _sweep("3b. Bags", "bags", bags, LINEAR, repeats),
        _sweep("3c. Landmarks", "landmarks", landmarks, QUADRATIC, repeats),
    ]


def _sweep(title: str, along: str, sizes: list[Size], target: Target, repeats: int) -> Section:
    """Measure fits of growing size; the exponent of their growth is held against the target."""
    fixed = {"points", "bags", "landmarks"} - {along}
    others = " and ".join(f"{getattr(sizes[0], name):,} {name}" for name in sorted(fixed))
    section = Section(
        f"{title}: ShrinkageRegressor(bandwidth_scale=1.0), {others}",
        ["CPU seconds", "growth", "peak MB above data", "MB growth", "exponent"],
    )
    measured = costs(sizes, repeats)
    x = [getattr(size, along) for size in sizes]
    before = None
    for value, at in zip(x, measured, strict=True):
        growth = ["", ""]
        if before is not None:
            growth = [
                f"{at.seconds / before.seconds:.2f}×",
                f"{at.megabytes / before.megabytes:.2f}×",
            ]
        cells = [f"{at.seconds:.2f}", growth[0], f"{at.megabytes:.1f}", growth[1], ""]
        section.add(f"{value:,} {along}", cells, at.seconds, None)
        before = at
    for name, values in (
        ("seconds", [at.seconds for at in measured]),
        ("memory", [at.megabytes for at in measured]),
    ):
        slope = exponent(x, values)
        section.add(f"growth of {name}", ["", "", "", "", f"{slope:.2f}"], slope, target)
    section.notes.append(
        "One thread. Peaks hold some 31 MB whatever the size: the pairs of 2,000 points of which "
        "the bandwidth is the median."
    )
    return section
