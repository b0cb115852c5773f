"""Time grows with the number of columns, not with its square."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from bagwise.bags.bags import Bags

FEW, MANY = 1000, 8000
# What is linear takes 8 times as long for 8 times the columns, what is quadratic 64 times.
AT_MOST = 24

# In a process of its own: here, every call is checked for shapes, which takes longer than the call.
# Processor time, so that others on the machine do not count; of few columns, which take so little
# that anything counts, the least of two runs.
TIMES = """
import json, sys, time
import pandas as pd, polars as pl, pyarrow.parquet as pq
from bagwise import Bags

folder, times = sys.argv[1], {}
for width in map(int, sys.argv[2:]):
    path = f"{folder}/{width}.parquet"
    table = pq.read_table(path)
    roles = {"bag": "bag", "covariates": ["age"]}
    named = {**roles, "features": table.column_names[2:]}
    frames = {"pandas": table.to_pandas(), "polars": pl.from_arrow(table), "pyarrow": table}
    readers = {
        "parquet": lambda: Bags.from_parquet(path, **roles),
        "parquet named": lambda: Bags.from_parquet(path, **named),
        "parquet impute": lambda: Bags.from_parquet(path, **roles, missing="impute"),
        "stream": lambda: Bags.scan_parquet(path, **roles, progress=False),
        "stream impute": lambda: Bags.scan_parquet(path, **roles, missing="impute", progress=False),
        "stream named": lambda: Bags.scan_parquet(path, **named, progress=False),
        "csv": lambda: Bags.from_csv(f"{folder}/{width}.csv", **roles),
        "csv named": lambda: Bags.from_csv(f"{folder}/{width}.csv", **named),
        "pandas": lambda: Bags.from_frame(frames["pandas"], **roles),
        "polars": lambda: Bags.from_frame(frames["polars"], **roles),
        "pyarrow named": lambda: Bags.from_frame(frames["pyarrow"], **named),
    }
    for name, read in readers.items():
        for _ in range(2 if width == int(sys.argv[2]) else 1):
            start = time.process_time()
            assert read().n_features == width
            took = time.process_time() - start
            times.setdefault(name, {})[width] = min(took, times.get(name, {}).get(width, took))
print(json.dumps(times))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wide")
    rng = np.random.default_rng(0)
    for width in (FEW, MANY):
        columns = {f"gene{i}": rng.normal(size=40) for i in range(width)}
        table = pa.table({"bag": np.arange(40) % 8, "age": np.arange(40) % 8 + 0.5, **columns})
        pq.write_table(table, folder / f"{width}.parquet")
        pa.csv.write_csv(table, folder / f"{width}.csv")
    return folder


def test_eight_times_the_columns_take_eight_times_as_long(folder):
    line = [sys.executable, "-c", TIMES, folder, str(FEW), str(MANY)]
    ran = subprocess.run(line, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    times = json.loads(ran.stdout)
    ratios = {name: found[str(MANY)] / max(found[str(FEW)], 0.01) for name, found in times.items()}
    assert len(ratios) == 11 and max(ratios.values()) < AT_MOST, ratios


def test_all_columns_arrive(folder):
    bags = Bags.from_csv(folder / f"{FEW}.csv", bag="bag", covariates=["age"])
    again = Bags.from_parquet(folder / f"{FEW}.parquet", bag="bag", covariates=["age"])
    assert bags.n_features == FEW and bags.feature_names == again.feature_names
    np.testing.assert_allclose(bags.points, again.points, rtol=1e-12)


def test_a_row_longer_than_a_block(tmp_path):
    width = 300
    cells = ",".join(["1." + "0" * 9000] * width)
    (tmp_path / "t.csv").write_text(
        "bag," + ",".join(f"x{i}" for i in range(width)) + f"\n1,{cells}\n2,{cells}\n"
    )
    assert Bags.from_csv(tmp_path / "t.csv", bag="bag").points.sum() == 2 * width
