"""Benchmark of ``bagwise fit`` on a Parquet file that stays on disk: memory, and rows per second.

python -m benchmarks.bench_stream [--rows N] [--bags N] [--linear]
python -m benchmarks.bench_stream --plan FIRST DRAWN SUMMED     what 10^11 points would take, by CPU
    seconds of 10^7 rows in each pass; those of this machine are at the end of the table
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from bagwise.embedding.sums import in_order
from benchmarks.bench_report import Section, Target

MEMORY_TARGET = Target(2000.0, unit=" MB")
RATE_TARGET = Target(1_400_000.0, at_least=True, unit=" rows/s")
PREDICT_TARGET = Target(0.8, at_least=True, unit=" of the fit's rate")

N_FEATURES = 5
LABEL_RANGE = (1.0, 2.0)
SIZE_RANGE = (1.0, 5000.0)
WRITTEN_ROWS = 1_000_000  # at once, a row group each
PLANNED_ROWS = 10_000_000  # of whose seconds the plan for 10^11 is made

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
timed(lambda: sum(len(rows.points) for rows in bags._read_again("reading points", sort=True)))
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
    Threads draw, each row group by a generator of its own, while others are written.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    labels = rng.uniform(*LABEL_RANGE, n_bags)
    share = np.exp(rng.uniform(np.log(SIZE_RANGE[0]), np.log(SIZE_RANGE[1]), n_bags))
    sizes = 1 + rng.multinomial(n_rows - n_bags, share / share.sum())
    bags = np.repeat(np.arange(n_bags, dtype=np.int32), sizes)
    rng.shuffle(bags)
    starts = range(0, n_rows, WRITTEN_ROWS)
    groups = zip(starts, rng.spawn(len(starts)), strict=True)

    def drawn(group: tuple[int, np.random.Generator]) -> pa.Table:
        start, own_rng = group
        own = bags[start : start + WRITTEN_ROWS]
        points = own_rng.standard_normal((n_features, len(own)), dtype)
        points *= labels[own].astype(dtype)
        return pa.table([own, *points, labels[own]], names=["bag", *names, "label"])

    names = [f"x{j}" for j in range(n_features)]
    of_points = pa.from_numpy_dtype(dtype)
    columns = [("bag", pa.int32()), *((name, of_points) for name in names)]
    schema = pa.schema([*columns, ("label", pa.float64())])
    plain = {"use_dictionary": ["label"], "compression": "none"} if dtype == "float32" else {}
    with pq.ParquetWriter(path, schema, **plain) as writer, ThreadPoolExecutor(2) as threads:
        for table in in_order(drawn, groups, threads):
            writer.write_table(table)


def run(
    quick: bool, *, n_rows: int | None = None, n_bags: int | None = None, process: bool = True
) -> Section:
    """Write a file, fit to it in a fresh process, and time the passes over it in another.

    The Gaussian process, which takes most of the time, may be left out.
    """
    n_rows = n_rows or (20_000 if quick else 10_000_000)
    n_bags = n_bags or max(2, n_rows // 500)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "points.parquet"
        write_points(path, n_rows, n_bags)
        size = path.stat().st_size / 1e6
        gp = fresh(COMMAND, path, Path(folder) / "gp", "gp") if process else None
        linear = fresh(COMMAND, path, Path(folder) / "shrinkage", "shrinkage")
        predicted = fresh(COMMAND, path, Path(folder) / "shrinkage", "predict")
        passes = fresh(PASSES, path)
    section = Section(
        f"6. Out of core: {n_rows:,} rows of {N_FEATURES} features in {n_bags:,} bags, shuffled, "
        f"{size:,.0f} MB of Parquet",
        ["seconds", "rows/s", "peak MB", "CPU s"],
    )
    rate = n_rows / linear[0]
    rows = [] if gp is None else [("bagwise fit, all of it", gp, gp[1], MEMORY_TARGET)]
    for what, (seconds, peak, cpu), value, target in (
        *rows,
        ("bagwise fit --model shrinkage", linear, linear[1], MEMORY_TARGET),
        ("  the same, rows/s", linear, rate, None if quick else RATE_TARGET),
        ("bagwise predict", predicted, n_rows / predicted[0] / rate, PREDICT_TARGET),
        ("first pass: bags, sizes, labels", passes[0], 0.0, None),
        ("a pass that only reads", passes[1], 0.0, None),
        ("points drawn, landmarks", passes[2], 0.0, None),
        ("summing features of all points", passes[3], 0.0, None),
    ):
        cells = [f"{seconds:.1f}", f"{n_rows / seconds:,.0f}", f"{peak:,.0f}", f"{cpu:.1f}"]
        section.add(what, cells, value, target)
    section.notes.append(
        "Each in a fresh process. By default a Gaussian process is fitted; passes are those of "
        "ShrinkageRegressor(), with 60 landmarks. The fit by the linear model runs at "
        f"{rate * passes[1][0] / n_rows:.0%} of the rate of a pass that only reads and sorts rows."
    )
    if n_rows == PLANNED_ROWS:
        (*_, first), (*_, reading), (*_, drawn), (*_, summed) = passes
        section.notes.append(
            "10^11 points in 10^7 bags would take, at these CPU seconds, read in each pass: "
            f"{'; '.join(plan(first, drawn + reading, summed + reading))}."
        )
    return section


def plan(first: float, drawn: float, summed: float, landmarks: int = 60) -> list[str]:
    """Say what 10^11 points of 5 float32 columns in 10^7 bags would take, by rates of 10^7 rows.

    Parameters
    ----------
    first, drawn, summed : CPU seconds of the passes over 10^7 rows: that finds the bags, that draws
        points, that sums features

    Examples
    --------
    >>> print(plan(2.5, 1.2, 6.9)[-1])
    sums of all bags: 4.9 GB
    """
    points, bags, cores = 1e11, 1e7, 100
    times = {"first pass": first, "points drawn": drawn, "summing": summed}
    hours = {what: seconds * points / PLANNED_ROWS / 3600 for what, seconds in times.items()}
    table = 4.0 * N_FEATURES * points
    fastest = table / (min(hours.values()) / cores * 3600) / 1e9
    return [
        *(f"{what}: {each:.0f} core hours" for what, each in hours.items()),
        f"all on {cores} cores: {sum(hours.values()) / cores * 60:.0f} minutes",
        f"read: {table / 1e12:.0f} TB in each pass, at most {fastest:.0f} GB per second",
        f"sums of all bags: {8.0 * bags * (landmarks + 1) / 1e9:.1f} GB",
    ]


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
    parser.add_argument("--linear", action="store_true", help="leave out the Gaussian process")
    parser.add_argument("--plan", type=float, nargs=3, metavar="SECONDS")
    options = parser.parse_args(arguments)
    if options.plan is not None:
        print("\n".join(plan(*options.plan)))
        return 0
    sizes = {"n_rows": options.rows, "n_bags": options.bags}
    print(run(False, **sizes, process=not options.linear))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
