"""Benchmark of a Dask cluster on this machine beside one process: rows per second, and memory.

python -m benchmarks.bench_cluster [--rows N] [--bags N] [--workers N] [--landmarks N]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_report import Section, Target
from benchmarks.bench_stream import write_points

MEMORY_TARGET = Target(3000.0, unit=" MB")
AGREEMENT_TARGET = Target(1e-10)


def peak() -> float:
    """Return the most memory that this process has had, in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what work gives, and its seconds."""
    start = time.perf_counter()
    return work(), time.perf_counter() - start


def run(n_rows: int, n_bags: int, workers: int, landmarks: int) -> Section:
    """Scan, fit and predict with one process and with workers, on the same file."""
    import bagwise

    model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(landmarks, bandwidth=1.0))
    section = Section(
        f"A cluster: {n_rows:,} rows in {n_bags:,} bags, shuffled; {landmarks} landmarks",
        ["scan s", "fit s", "predict s", "rows/s fit", "peak MB"],
    )
    means = list[np.ndarray]()
    with (
        tempfile.TemporaryDirectory() as folder,
        bagwise.engines.DaskEngine(workers=workers) as engine,
    ):
        path = Path(folder) / "points.parquet"
        write_points(path, n_rows, n_bags)
        for name, who in (("one process", None), (f"{workers} workers", engine)):
            (bags, y), scan = timed(
                lambda who=who: bagwise.Bags.scan_parquet(
                    path, bag="bag", label="label", progress=False, engine=who
                )
            )
            _, fit = timed(lambda bags=bags, y=y: model.fit(bags, y))
            found, predict = timed(lambda bags=bags: model.predict(bags))
            means.append(found)
            most = peak() if who is None else max(engine.client.run(peak).values())
            cells = [f"{scan:.1f}", f"{fit:.1f}", f"{predict:.1f}", f"{n_rows / fit:,.0f}"]
            section.add(name, [*cells, f"{most:,.0f}"], most, MEMORY_TARGET)
    gap = float(np.max(np.abs(means[1] - means[0]) / np.abs(means[0])))
    section.add("largest difference of predictions", [""] * 5, gap, AGREEMENT_TARGET)
    section.notes.append(f"The difference, as a share of the prediction, is {gap:.1e}.")
    return section


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench_cluster")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--bags", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--landmarks", type=int, default=60)
    options = parser.parse_args(arguments)
    print(run(options.rows, options.bags, options.workers, options.landmarks))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
