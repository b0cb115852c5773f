"""The benchmark: how fast the fits are, against what, and how they grow.

    python -m benchmarks.bench [--quick] [--out PATH]

Ratios are taken between things timed in turn in one run, so a busy machine slows both sides.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from threadpoolctl import threadpool_limits

from bagwise import KernelEmbedding
from bagwise.datasets import make_gamma
from bagwise.embedding.sums import BLOCK_BYTES, blocks_of, summarise
from bagwise.features.maps import LandmarkFeatures
from benchmarks import (
    bench_fit,
    bench_fresh,
    bench_gp,
    bench_learning,
    bench_nuts,
    bench_scaling,
    bench_stream,
)
from benchmarks.bench_report import Section, Target, interleaved

POOLING_TARGET = Target(1.5, unit="×")


def pooling(quick: bool) -> Section:
    """Time summarise against the same kernel values computed in the same blocks and dropped."""
    split = make_gamma(n_bags=20 if quick else 1000).train
    bags, d = split.bags, 15 if quick else 90
    (features,) = KernelEmbedding(d, bandwidth=1.0).candidates(bags)
    assert isinstance(features, LandmarkFeatures)
    scaled = features.scaling(bags.points)

    def kernel_alone() -> None:
        for block in blocks_of(bags.offsets, max(1, BLOCK_BYTES // (8 * d))):
            features.kernel(scaled[block.rows], features.landmarks)

    def kernel_alone_in_one_thread() -> None:
        with threadpool_limits(limits=1, user_api="blas"):
            kernel_alone()

    *alone, pooled, with_covariance = interleaved(
        [
            kernel_alone,
            kernel_alone_in_one_thread,
            lambda: summarise(bags, features, covariance=False),
            lambda: summarise(bags, features, covariance=True),
        ],
        2 if quick else 7,
    )
    reference = min(alone)
    section = Section(
        f"3. Features and pooling: {bags.n_points:,} points, {bags.n_features} features, "
        f"{d} landmarks",
        ["seconds", "ratio"],
    )
    section.add("one kernel evaluation, dropped", [f"{reference:.3f}", "1"], reference, None)
    for what, seconds, target in (
        ("features and pooling", pooled, POOLING_TARGET),
        ("... with the covariance within bags", with_covariance, None),
    ):
        ratio = seconds / reference
        section.add(what, [f"{seconds:.3f}", f"{ratio:.2f}×"], ratio, target)
    section.notes.append(
        "The kernel alone sees points already scaled, and has the better of one BLAS thread "
        f"({alone[1]:.3f} s) and the default ({alone[0]:.3f} s). Pooling runs in one thread; "
        f"against the kernel in one thread it takes {pooled / alone[1]:.2f}×."
    )
    return section


def sections(quick: bool) -> Iterator[Section]:
    """Run the parts of the benchmark one after the other."""
    yield bench_fit.run(quick)
    yield bench_nuts.run(quick)
    yield bench_nuts.shapes(quick)
    yield pooling(quick)
    *sweeps, last = bench_scaling.run(quick)
    last.notes += [
        "k-means sees 20,000 points at most, but takes 80 to 220 rounds as the data fall: that,",
        "not their number, moves the whole fit, so only the parts have targets. Some 31 MB of",
        "every peak are the pairs of 2,000 points of which the bandwidth is the median.",
    ]
    yield from [*sweeps, last]
    yield bench_fresh.run(quick)
    yield bench_stream.run(quick)
    yield from bench_gp.run(quick)
    yield bench_learning.run(quick)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the tables as they come, and write them as JSON if asked."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench", description="Time bagwise.")
    parser.add_argument("--quick", action="store_true", help="tiny problems, to see that it runs")
    parser.add_argument("--out", type=Path, help="also write the tables to this JSON file")
    options = parser.parse_args(arguments)
    start, done = time.perf_counter(), []
    print(f"bagwise benchmark, {os.cpu_count()} cores")
    print("Tiny problems: the targets are not meant for these.\n" if options.quick else "")
    for section in sections(options.quick):
        done.append(section)
        print(section, flush=True)
    verdicts = [line.met for section in done for line in section.lines if line.met is not None]
    print(
        f"{sum(verdicts)} of {len(verdicts)} targets met, in {time.perf_counter() - start:.0f} s."
    )
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        document = {"cores": os.cpu_count(), "sections": [section.as_json() for section in done]}
        options.out.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
