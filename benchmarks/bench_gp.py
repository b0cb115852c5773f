"""Benchmark of the Gaussian process: a whole fit with its choice of a kernel, and how fits grow.

    python -m benchmarks.bench_gp [--quick]

Prints the seconds of ``DistributionGPRegressor().fit`` on the paper's 1,000 training bags, beside
scikit-learn's process on moments of the same bags, timed in turn; then seconds and peak memory of
fits to 200 to 100,000 small bags, each in a fresh process, and how both grow where some of the bags
are the basis for all.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from jaxtyping import Float64

from bagwise import Bags, DistributionGPRegressor, KernelEmbedding
from bagwise.datasets import make_gamma
from bagwise.heads.gp_fit import EXACT_BAGS
from benchmarks.bench_report import Section, Target, exponent, interleaved
from benchmarks.bench_stream import PEAK, fresh

FIT_TARGET = Target(15.0, unit=" s")
RIVAL_TARGET = Target(2.0, unit="×")
GROWTH_TARGET = Target(1.15)

GROWING = (200, 1_000, 3_000, 10_000, 30_000, 100_000)
SIZE_RANGE = (5, 20)

# Run in a fresh process. What has to be imported is, before anything is timed.
GROWTH = (
    "import json, sys, time\n"
    + PEAK
    + """
from benchmarks.bench_gp import DistributionGPRegressor, draw
bags, labels = draw(int(sys.argv[1]))
before = peak()
start, busy = time.perf_counter(), time.process_time()
DistributionGPRegressor().fit(bags, labels)
print(json.dumps([time.perf_counter() - start, time.process_time() - busy, before, peak()]))
"""
)


def draw(n_bags: int) -> tuple[Bags, Float64[np.ndarray, " n"]]:
    """Draw small bags; the label is no linear function of level and spread of their points."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(*SIZE_RANGE, n_bags, endpoint=True)
    level, spread = rng.normal(0, 1, n_bags), rng.lognormal(0, 0.4, n_bags)
    bag = np.repeat(np.arange(n_bags), sizes)
    noise = rng.normal(0, 1, (len(bag), 2))
    points = np.column_stack([level[bag] + spread[bag] * noise[:, 0], level[bag] / 2 + noise[:, 1]])
    labels = np.sin(1.5 * level) + spread**2 / (1 + spread**2) + rng.normal(0, 0.1, n_bags)
    return Bags.from_groups(points, bag), labels


def run(quick: bool) -> Iterator[Section]:
    """Time a whole fit beside its rival, and fits to more and more bags."""
    yield _whole_fit(quick)
    yield _growth((10, 20) if quick else GROWING)


def _whole_fit(quick: bool) -> Section:
    """Time what a user waits for by default, and a process that sees moments of the bags."""
    from benchmarks.real_bags import MODELS, moments  # whose libraries are no memory of our fits

    split = make_gamma(n_bags=20 if quick else 1000).train
    bags, labels = split.bags, split.labels
    busy: dict[str, list[float]] = {"ours": [], "given": [], "rival": [], "moments": []}
    rbf = KernelEmbedding(kernel="rbf", bandwidth=1.0)

    def watched(name: str, work: Callable[[], object]) -> Callable[[], None]:
        def run() -> None:
            start = time.process_time()
            work()
            busy[name].append(time.process_time() - start)

        return run

    sides = [
        watched("ours", lambda: DistributionGPRegressor().fit(bags, labels)),
        watched("given", lambda: DistributionGPRegressor(rbf).fit(bags, labels)),
        watched("rival", lambda: MODELS["moments-gp"]().fit(bags, labels)),
        watched("moments", lambda: moments(bags)),
    ]
    ours, given, rival, summed = interleaved(sides, 1 if quick else 3)
    section = Section(
        f"7a. Gaussian process: {bags.n_bags:,} bags, {bags.n_points:,} points, defaults",
        ["seconds", "CPU seconds", "ratio"],
    )
    cells = [f"{ours:.2f}", f"{min(busy['ours']):.2f}", ""]
    section.add("fit, choice of a kernel included", cells, ours, FIT_TARGET)
    cells = [f"{given:.2f}", f"{min(busy['given']):.2f}", ""]
    section.add("fit, one RBF kernel given", cells, given, None)
    cells = [f"{rival:.2f}", f"{min(busy['rival']):.2f}", "1"]
    section.add("scikit-learn's on bag moments", cells, rival, None)
    for name, side, seconds in (
        ("of one kernel", "given", given),
        ("with the choice", "ours", ours),
    ):
        ratio, busier = seconds / rival, min(busy[side]) / min(busy["rival"])
        cells = ["", f"{busier:.2f}×", f"{ratio:.2f}×"]
        section.add(f"... ours {name} to it", cells, ratio, RIVAL_TARGET)
    section.notes.append(
        f"Of scikit-learn's seconds {summed:.2f} are for the moments; its kernel is one RBF and "
        "noise, three scales in all."
    )
    return section


def _growth(n_bags: Sequence[int]) -> Section:
    """Fit to more and more bags, and hold the growth beyond the switch against its target."""
    section = Section(
        f"7b. Gaussian process: bags of {SIZE_RANGE[0]} to {SIZE_RANGE[1]} points, 2 columns, each "
        "fit in a fresh process",
        ["seconds", "CPU seconds", "to previous", "MB before", "peak MB", "exponent"],
    )
    runs = [fresh(GROWTH, n) for n in n_bags]
    for i, (n, (seconds, busy, before, peak)) in enumerate(zip(n_bags, runs, strict=True)):
        growth = f"{seconds / runs[i - 1][0]:.2f}×" if i else ""
        cells = [f"{seconds:.2f}", f"{busy:.2f}", growth, f"{before:,.0f}", f"{peak:,.0f}", ""]
        section.add(f"{n:,} bags", cells, seconds, None)
    many = [i for i, n in enumerate(n_bags) if n > EXACT_BAGS] or list(range(len(n_bags)))
    x, columns = [n_bags[i] for i in many], list(zip(*(runs[i] for i in many), strict=True))
    beyond = f"{x[0]:,} to {x[-1]:,} bags"
    for what, values, target in (
        ("seconds", columns[0], GROWTH_TARGET),
        ("CPU seconds", columns[1], None),
        ("peak MB", columns[3], None),
    ):
        slope = exponent(x, values)
        section.add(f"growth of {what}, {beyond}", [*[""] * 5, f"{slope:.2f}"], slope, target)
    section.notes.append(
        f"Up to {EXACT_BAGS:,} bags the process is exact; of more, some are the basis for all."
    )
    return section


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench_gp", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see that it runs")
    for section in run(parser.parse_args(arguments).quick):
        print(section, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
