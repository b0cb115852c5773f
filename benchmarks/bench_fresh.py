"""Benchmark of what a user waits for: the import, the first fit and the next."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benchmarks.bench_report import Section, Target

IMPORT_TARGET = Target(0.2, unit=" s")
FIRST_TARGET = Target(5.0, unit=" s")
WARM_TARGET = Target(3.0, unit=" s")

# Run in a fresh process. The data are drawn between the two things that are timed.
PROGRAM = """
import json, sys, time
start = time.perf_counter()
import bagwise
imported = time.perf_counter() - start
split = bagwise.datasets.make_gamma(n_bags=int(sys.argv[1])).train
start = time.perf_counter()
model = bagwise.ShrinkageRegressor().fit(split.bags, split.labels)
first = time.perf_counter() - start
start = time.perf_counter()
bagwise.ShrinkageRegressor().fit(split.bags, split.labels)
warm = time.perf_counter() - start
print(json.dumps([imported, imported + first, warm, split.bags.n_points]))
"""


def run(quick: bool) -> Section:
    """Run the program in fresh processes and keep the least of each time."""
    n_bags, repeats = (20, 1) if quick else (1000, 3)
    runs = [_fresh(n_bags) for _ in range(repeats)]
    imported, first, warm, n_points = (min(column) for column in zip(*runs, strict=True))
    section = Section(
        f"5. A fresh process: {n_bags:,} bags, {n_points:,.0f} points, ShrinkageRegressor()",
        ["seconds"],
    )
    section.add("import bagwise", [f"{imported:.2f}"], imported, IMPORT_TARGET)
    section.add("import and first fit", [f"{first:.2f}"], first, FIRST_TARGET)
    section.add("fit again", [f"{warm:.2f}"], warm, WARM_TARGET)
    section.notes.append("Defaults: 60 landmarks, four bandwidths tried, weight_var by evidence.")
    return section


def _fresh(n_bags: int) -> list[float]:
    """Return seconds of import, import + first fit and warm fit, and the number of points."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(n_bags)],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return [float(number) for number in json.loads(done.stdout)]
