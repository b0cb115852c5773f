"""Benchmark of ``bagwise fit`` on a Parquet file that stays on disk: memory, and rows per second.

python -m benchmarks.bench_stream [--rows N] [--bags N]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.bench_report import Section, Target

MEMORY_TARGET = Target(2000.0, unit=" MB")
RATE_TARGET = Target(1_400_000.0, at_least=True, unit=" rows/s")
PREDICT_TARGET = Target(0.8, at_least=True, unit=" of the fit's rate")

N_FEATURES = 5
LABEL_RANGE = (1.0, 2.0)
SIZE_RANGE = (1.0, 5000.0)
WRITTEN_ROWS = 1_000_000  # at once, a row group each

# The peak is asked of the process itself: what a parent is told of a child's also counts the
# parent's own memory, from before the child has become another program.
PEAK = """
def peak():
    try:
        lines = open("/proc/self/status").read().splitlines()
        return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM"))
    except OSError:
        import resource
        size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return size / (1e6 if sys.platform == "darwin" else 1e3)
"""

COMMAND = (
    "import io, json, sys, time\n"
    + PEAK
    + """
import os
path, out, model = sys.argv[1:]
start = time.perf_counter()
from bagwise.__main__ import main
line = ["fit", path, "--bag", "bag", "--label", "label", "--out", out, "--stream", "--model", model]
if model == "predict":
    line = ["predict", out, path, "--out", out + ".csv", "--stream"]
sys.argv = ["bagwise", *line]
sys.stdout = io.StringIO()
try:
    main()
except SystemExit as stop:
    if stop.code:
        raise
sys.stdout = sys.__stdout__
used = os.times()
print(json.dumps([time.perf_counter() - start, peak(), used.user + used.system]))
"""
)

PASSES = (
    "import json, sys, time\n"
    + PEAK
    + """
import os, bagwise
from bagwise.embedding.sums import summarise_each
model, seconds = bagwise.ShrinkageRegressor(), []
before = sum(os.times()[:2])
def timed(work):
    start = time.perf_counter()
    result = work()
    used = os.times()
    cpu = used.user + used.system - sum(each[2] for each in seconds) - before
    seconds.append([time.perf_counter() - start, peak(), cpu])
    return result
bags, y = timed(
    lambda: bagwise.Bags.scan_parquet(sys.argv[1], bag="bag", label="label", progress=False)
)
timed(lambda: sum(len(batch.points) for batch in bags.batches()))
features = timed(lambda: model.embedding.candidates(bags))
timed(lambda: list(summarise_each(bags, features[:1])))
print(json.dumps(seconds))
"""
)


def write_points(
    path: Path,
    n_rows: int,
    n_bags: int,
    seed: int = 0,
    n_features: int = N_FEATURES,
    dtype: str = "float64",
) -> None:
    """Write points of bags of 1 to some 5,000 points, log-uniform, with the rows shuffled.

    The label of a bag is how far its points spread. Single numbers are for very large files, which
    are written as they are: to look for repetitions and to compress takes longer than to draw them.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    labels = rng.uniform(*LABEL_RANGE, n_bags)
    share = np.exp(rng.uniform(np.log(SIZE_RANGE[0]), np.log(SIZE_RANGE[1]), n_bags))
    others = rng.choice(n_bags, n_rows - n_bags, p=share / share.sum())
    bags = rng.permutation(np.concatenate([np.arange(n_bags), others]).astype(np.int32))
    names = [f"x{j}" for j in range(n_features)]
    of_points = pa.from_numpy_dtype(dtype)
    columns = [("bag", pa.int32()), *((name, of_points) for name in names)]
    schema = pa.schema([*columns, ("label", pa.float64())])
    plain = {"use_dictionary": ["label"], "compression": "none"} if dtype == "float32" else {}
    with pq.ParquetWriter(path, schema, **plain) as writer:
        for start in range(0, n_rows, WRITTEN_ROWS):
            own = bags[start : start + WRITTEN_ROWS]
            points = rng.standard_normal((n_features, len(own)), dtype)
            points *= labels[own].astype(dtype)
            arrays = [own, *points, labels[own]]
            writer.write_table(pa.table(arrays, names=["bag", *names, "label"]))


def run(quick: bool, *, n_rows: int | None = None, n_bags: int | None = None) -> Section:
    """Write a file, fit to it in a fresh process, and time the passes over it in another."""
    n_rows = n_rows or (20_000 if quick else 10_000_000)
    n_bags = n_bags or max(2, n_rows // 500)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.parquet"
        write_points(path, n_rows, n_bags)
        size = path.stat().st_size / 1e6
        gp, linear = (fresh(COMMAND, path, Path(folder) / m, m) for m in ("gp", "shrinkage"))
        predicted = fresh(COMMAND, path, Path(folder) / "shrinkage", "predict")
        passes = fresh(PASSES, path)
    section = Section(
        f"6. Out of core: {n_rows:,} rows of {N_FEATURES} features in {n_bags:,} bags, shuffled, "
        f"{size:,.0f} MB of Parquet",
        ["seconds", "rows/s", "peak MB", "CPU s"],
    )
    rate = n_rows / linear[0]
    for what, (seconds, peak, cpu), value, target in (
        ("bagwise fit, all of it", gp, gp[1], MEMORY_TARGET),
        ("bagwise fit --model shrinkage", linear, linear[1], MEMORY_TARGET),
        ("  the same, rows/s", linear, rate, None if quick else RATE_TARGET),
        ("bagwise predict", predicted, n_rows / predicted[0] / rate, PREDICT_TARGET),
        ("first pass: bags, sizes, labels", passes[0], 0.0, None),
        ("a pass that only reads", passes[1], 0.0, None),
        ("landmarks, of points drawn in a pass", passes[2], 0.0, None),
        ("summing features of all points", passes[3], 0.0, None),
    ):
        cells = [f"{seconds:.1f}", f"{n_rows / seconds:,.0f}", f"{peak:,.0f}", f"{cpu:.1f}"]
        section.add(what, cells, value, target)
    section.notes.append(
        "Each in a fresh process. By default a Gaussian process is fitted; passes are those of "
        "ShrinkageRegressor(), with 60 landmarks. The fit by the linear model runs at "
        f"{rate * passes[1][0] / n_rows:.0%} of the rate of a pass that only reads and sorts rows."
    )
    return section


def fresh(program: str, *arguments: object) -> list:
    """Run a program in a fresh process and return the list that it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        env=environment,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return list(json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench_stream")
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--bags", type=int)
    options = parser.parse_args(arguments)
    print(run(False, n_rows=options.rows, n_bags=options.bags))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
