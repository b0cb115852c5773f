"""Count the files of the package that a call goes through: how far a reader has to walk.

    python -m benchmarks.files_visited [--list]

A file counts if a function in it is called while ``ShrinkageRegressor.fit`` or ``bagwise fit``
runs, in any thread; importing a module does not count. The command is counted with its default
model, a Gaussian process, and with ``--model shrinkage``, the linear model that was its default
when it was first counted.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import bagwise

HOME = str(Path(bagwise.__file__).parent) + os.sep


def visited(call: Callable[[], Any]) -> list[str]:
    """Return the files of the package whose functions are called."""
    files: set[str] = set()

    def note(frame: Any, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(HOME) and frame.f_code.co_name != "<module>":
            files.add(name.removeprefix(HOME))

    threading.setprofile(note)  # of threads that begin
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(files)


def small_problem() -> tuple[list[np.ndarray], np.ndarray]:
    """Return bags of 5 and 50 points whose label is their spread."""
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 40)
    return [rng.normal(0, s, (n, 2)) for s, n in zip(y, [5, 50] * 20, strict=True)], y


def main() -> None:
    """Print the counts, and the files if asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks.files_visited")
    parser.add_argument("--list", action="store_true", help="name the files")
    listed = parser.parse_args().list
    bags, y = small_problem()
    model = bagwise.ShrinkageRegressor()
    model.fit(bags, y)  # so that what is imported on first use is there
    counts = {"ShrinkageRegressor.fit": visited(lambda: model.fit(bags, y))}
    with tempfile.TemporaryDirectory() as folder:
        points = Path(folder) / "points.parquet"
        owner = np.repeat(np.arange(len(y)), [len(bag) for bag in bags])
        columns = dict(zip("ab", np.concatenate(bags).T, strict=True))
        pq.write_table(pa.table({"bag": owner, "y": y[owner], **columns}), points)
        line = ["fit", str(points), "--bag", "bag", "--label", "y", "--force"]

        def command(*options: str) -> None:
            from bagwise.cli.shell import main as run

            sys.argv = ["bagwise", *line, "--out", str(Path(folder) / "m.bagwise"), *options]
            try:
                run()
            except SystemExit as end:
                assert not end.code, end.code

        for options in ((), ("--model", "shrinkage")):
            command(*options)
            name = " ".join(["bagwise fit", *options]) + (
                "" if options else " (a Gaussian process)"
            )
            counts[name] = visited(partial(command, *options))
    for name, files in counts.items():
        print(f"{name}: {len(files)} files")
        if listed:
            print("\n".join(f"  {file}" for file in files))


if __name__ == "__main__":
    main()
