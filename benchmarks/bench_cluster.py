"""Benchmark of a Dask cluster on this machine beside one process: rows per second, and memory.

python -m benchmarks.bench_cluster [--rows N] [--bags N] [--features N] [--workers N]
python -m benchmarks.bench_cluster --large       10^8 rows of 10 features, 10^5 bags: 5 GB on disk
python -m benchmarks.bench_cluster --large --folder FOLDER      keeps the files there, or finds them
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.bench_report import Section, Target
from benchmarks.bench_stream import PEAK, fresh, write_points

MEMORY_TARGET = Target(3000.0, unit=" MB")
AGREEMENT_TARGET = Target(1e-10)
LARGE = {"rows": 100_000_000, "bags": 100_000, "features": 10, "dtype": "float32"}

FIT = (
    "import json, sys, time\n"
    + PEAK
    + """
def main():
    import bagwise, contextlib, numpy as np
    path, out, workers, landmarks = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(landmarks, bandwidth=1.0))
    seconds = []
    def timed(work):
        start = time.perf_counter()
        result = work()
        seconds.append(time.perf_counter() - start)
        return result
    own = bagwise.engines.DaskEngine(workers=workers) if workers else contextlib.nullcontext()
    with own as engine:
        options = {"bag": "bag", "label": "label", "progress": False, "engine": engine}
        bags, y = timed(lambda: bagwise.Bags.scan_parquet(path, **options))
        timed(lambda: model.fit(bags, y))
        np.save(out, timed(lambda: model.predict(bags)))
        most = [peak()] if engine is None else [*engine.client.run(peak).values()]
    print(json.dumps([*seconds, max(most), peak()]))
if __name__ == "__main__":
    main()
"""
)


def run(
    n_rows: int,
    n_bags: int,
    n_features: int,
    workers: int,
    landmarks: int,
    dtype: str,
    kept: Path | None = None,
) -> Section:
    """Scan, fit and predict with one process and with workers, a tenth of the rows and all.

    Files are kept in a folder, if one is named, and used again if they are there.
    """
    section = Section(
        f"A cluster: {n_rows:,} rows of {n_features} features in {n_bags:,} bags, shuffled; "
        f"{landmarks} landmarks",
        ["scan s", "fit s", "predict s", "rows/s", "peak MB", "client MB"],
    )
    means, fits = list[np.ndarray](), dict[tuple[int, int], float]()
    own_folder = tempfile.TemporaryDirectory() if kept is None else contextlib.nullcontext(kept)
    with own_folder as folder, tempfile.TemporaryDirectory() as answers:
        for rows in (n_rows // 10, n_rows):
            own = min(n_bags, rows // 2)
            path = Path(folder) / f"{rows}-rows-{n_features}-{dtype}-{own}-bags.parquet"
            if not path.exists():
                start, part = time.perf_counter(), path.with_suffix(".part")
                write_points(part, rows, own, n_features=n_features, dtype=dtype)
                part.rename(path)
                say(f"{rows:,} rows written in {time.perf_counter() - start:.1f} s")
            for who in (0, workers):
                out = Path(answers) / "means.npy"
                *seconds, most, client = fresh(FIT, path, out, who, landmarks)
                fits[rows, who] = sum(seconds[:2])
                name = f"{rows:,} rows, {f'{who} workers' if who else 'one process'}"
                cells = [*(f"{each:.1f}" for each in seconds), f"{rows / fits[rows, who]:,.0f}"]
                section.add(name, [*cells, f"{most:,.0f}", f"{client:,.0f}"], most, MEMORY_TARGET)
                means.append(np.load(out))
                say(" ".join([name, *cells, f"{most:,.0f} MB"]))  # all of it may take long
    gap = max(
        float(np.max(np.abs(two - one) / np.abs(one)))
        for one, two in zip(means[::2], means[1::2], strict=True)
    )
    section.add("largest difference of predictions", [""] * 6, gap, AGREEMENT_TARGET)
    section.notes.append(
        f"The difference, as a share of the prediction, is {gap:.1e}. Rows per second are of scan "
        "and fit together; peaks are of the worker that had most, and of the client."
    )
    growth = [fits[n_rows, who] / fits[n_rows // 10, who] for who in (0, workers)]
    section.notes.append(
        f"Ten times the rows took {growth[0]:.1f} times as long with one process and "
        f"{growth[1]:.1f} times with workers, which were "
        f"{fits[n_rows, 0] / fits[n_rows, workers]:.2f} times as fast as one process."
    )
    return section


def say(line: str) -> None:
    """Tell whoever waits what is known so far."""
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench_cluster")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--bags", type=int, default=10_000)
    parser.add_argument("--features", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--landmarks", type=int, default=60)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--large", action="store_true", help=f"{LARGE}")
    parser.add_argument("--folder", type=Path, help="where the files stay, and may be already")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        options.folder.mkdir(parents=True, exist_ok=True)
    asked: dict[str, Any] = LARGE if options.large else vars(options)
    sizes = asked["rows"], asked["bags"], asked["features"]
    print(run(*sizes, options.workers, options.landmarks, asked["dtype"], options.folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
