"""Running the command on real files, as a user would."""

import contextlib
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from bagwise.cli import main

# A model that is fitted at once, where it matters little which; and a process without a search.
QUICK = ("--model", "shrinkage", "--set", "n_landmarks=6", "--set", "bandwidth=1.0")
QUICK_GP = (*QUICK[2:], "--set", "kernel=rbf")


def bagwise(*arguments, cwd, raw=False):
    """Run the command line in this process, which is much faster; return how it ended.

    Standard output is text, or bytes if they are asked for (``raw``).
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "argv", ["bagwise", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
    out.flush()
    err.flush()
    found = out.buffer.getvalue()
    return Ended(code, found if raw else found.decode(), err.buffer.getvalue().decode())


class Ended(NamedTuple):
    """How a command ended."""

    returncode: int
    stdout: str | bytes
    stderr: str


def in_process(*arguments, cwd, env=None, **options):
    """Run the command in a process of its own, as a shell does."""
    return subprocess.run(
        command_line(*arguments),
        cwd=cwd,
        env=os.environ | {"COLUMNS": "200"} | (env or {}),
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def command_line(*arguments):
    return [sys.executable, "-m", "bagwise", *map(str, arguments)]


def done(result):
    """Return the answer of a command that must have worked, as JSON if it is."""
    assert result.returncode == 0, result.stderr
    try:
        return json.loads(result.stdout)
    except json.JSONDecodeError:
        return result.stdout


def refused(result, *words, code=1):
    """Check that a command failed with one sentence that has these words, and no traceback."""
    assert result.returncode == code, (result.returncode, result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    sentence = result.stderr.strip().splitlines()[-1]
    assert sentence.startswith("bagwise: ")
    for word in words:
        assert word in sentence, sentence
    return sentence


def make_rows(n_bags=40, seed=0, shuffle=True):
    """Return a table of points: bags of 2 or 20 points whose label is their spread."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, n_bags)
    sizes = np.resize([2, 20], n_bags)
    bag = np.repeat([f"p{i:03d}" for i in range(n_bags)], sizes)
    spread = np.repeat(y, sizes)
    columns = {
        "person": bag,
        "a": rng.normal(0, spread),
        "b": rng.normal(3, 1, len(bag)),
        "site": np.where(np.arange(len(bag)) % 3 == 0, "north", "south"),
        "age": spread,
    }
    order = rng.permutation(len(bag)) if shuffle else np.arange(len(bag))
    return pa.table({name: values[order] for name, values in columns.items()})


def write(table, path):
    """Write a table by the ending of the path."""
    path = Path(path)
    if path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    else:
        compression = "gzip" if path.suffix == ".gz" else None
        with pa.output_stream(path, compression=compression) as file:
            pa.csv.write_csv(table, file)
    return path
