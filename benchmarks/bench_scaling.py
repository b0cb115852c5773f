"""Benchmark of the time and memory of a fit as points, bags and landmarks grow."""

from __future__ import annotations

import time
import tracemalloc
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from threadpoolctl import threadpool_limits

from bagwise import KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.embedding.sums import summarise
from bagwise.estimators.base import Pooled
from bagwise.estimators.regressors import ShrinkageRegressor
from bagwise.heads.base import Task
from benchmarks.bench_report import Section, Target, exponent, interleaved

# Sizes of bags, in equal shares, before they are scaled to the number of points asked for.
BASE_SIZES = np.array([5, 20, 100, 1000])
LABEL_RANGE = (4.0, 8.0)
N_FEATURES = 5

PARTS = ("landmarks", "pooling", "head")
MEGABYTE = 2.0**20

# Largest exponents of growth. Pooling is to be linear in points, the head in bags, and both at most
# quadratic in landmarks. The whole fit has no target: k-means, whose rounds vary from one draw to
# the next, would meet it whatever the rest did.
LINEAR, QUADRATIC = Target(1.1), Target(2.1)
TARGETS: dict[str, dict[str, Target | None]] = {
    "points": {"pooling": LINEAR, "fit": None, "memory": LINEAR},
    "bags": {"head": LINEAR, "fit": None, "memory": LINEAR},
    "landmarks": {"pooling": QUADRATIC, "head": QUADRATIC, "fit": None, "memory": QUADRATIC},
}


@dataclass(frozen=True)
class Size:
    """Size of a problem."""

    points: int
    bags: int
    landmarks: int


def draw(size: Size) -> tuple[Bags, Float64[np.ndarray, " n"]]:
    """Draw bags like the paper's, with about this number of points."""
    rng = np.random.default_rng(0)
    base = np.resize(BASE_SIZES, size.bags)
    sizes = np.maximum(2, np.rint(base * (size.points / base.sum()))).astype(int)
    labels = rng.uniform(*LABEL_RANGE, size.bags)
    shapes = np.repeat(labels, sizes)[:, None]
    points = rng.chisquare(shapes, (sizes.sum(), N_FEATURES)) / shapes
    return Bags.from_groups(points, np.repeat(np.arange(size.bags), sizes)), labels


class Fit:
    """The fit of one size, in its parts."""

    def __init__(self, size: Size) -> None:
        self.bags, self.labels = draw(size)
        self.model = ShrinkageRegressor(KernelEmbedding(n_landmarks=size.landmarks, bandwidth=1.0))

    def landmarks(self) -> None:
        """Scale, draw a sample, find its k-means centres and the bandwidth."""
        (self.features,) = self.model.embedding.candidates(self.bags)

    def pooling(self) -> None:
        """Pool the features of every point."""
        self.stats = summarise(self.bags, self.features)

    def head(self) -> None:
        """Fit the head to the pooled features."""
        task = Task.of(self.bags, self.labels)
        self.model.fit_pooled(Pooled(self.features, self.stats), self.bags, task)

    def peak(self) -> float:
        """Return the megabytes at the peak of a whole fit, above those of the data."""
        tracemalloc.start()
        self.model.fit(self.bags, self.labels)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / MEGABYTE


def measure(sizes: list[Size], repeats: int) -> dict[str, list[float]]:
    """Return processor seconds of each part and of the fit, and its memory, at every size.

    With one thread: how long a fit waits for others on a busy machine, or for its own threads, says
    nothing of how it grows.
    """
    fits = [Fit(size) for size in sizes]
    with threadpool_limits(limits=1):
        memory = [fit.peak() for fit in fits]
        steps = [getattr(fit, part) for fit in fits for part in PARTS]
        seconds = np.reshape(interleaved(steps, repeats, time.process_time), (-1, len(PARTS)))
    parts = {part: column.tolist() for part, column in zip(PARTS, seconds.T, strict=True)}
    return {**parts, "fit": seconds.sum(axis=1).tolist(), "memory": memory}


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
        _sweep("4a. Points", "points", points, repeats),
        _sweep("4b. Bags", "bags", bags, repeats),
        _sweep("4c. Landmarks", "landmarks", landmarks, repeats),
    ]


def _sweep(title: str, along: str, sizes: list[Size], repeats: int) -> Section:
    """Measure fits of growing size, and hold the exponents of growth against their targets."""
    fixed = sorted({"points", "bags", "landmarks"} - {along})
    others = " and ".join(f"{getattr(sizes[0], name):,} {name}" for name in fixed)
    section = Section(
        f"{title}: ShrinkageRegressor of bandwidth 1, {others}; CPU seconds, one thread",
        [*PARTS, "fit", "to previous", "peak MB above data", "exponent"],
    )
    measured = measure(sizes, repeats)
    x = [getattr(size, along) for size in sizes]
    for i, n in enumerate(x):
        whole = measured["fit"]
        seconds = [f"{measured[part][i]:.3f}" for part in (*PARTS, "fit")]
        growth = f"{whole[i] / whole[i - 1]:.2f}×" if i else ""
        cells = [*seconds, growth, f"{measured['memory'][i]:.1f}", ""]
        section.add(f"{n:,} {along}", cells, whole[i], None)
    for name, target in TARGETS[along].items():
        slope = exponent(x, measured[name])
        section.add(f"growth of {name}", [*[""] * 6, f"{slope:.2f}"], slope, target)
    return section
