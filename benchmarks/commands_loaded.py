"""The ``bagwise`` command with all that it imports: what is forked from here begins at once.

Of the three seconds that a small fit takes in a shell, two and a half are imports, in which nothing
can be lost. ``multiprocessing``'s fork server imports this module once.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

import bagwise

# What commands import when they come to it.
for _name in (
    "bagwise.cli",
    "bagwise.bags.tables.csv_files",
    "bagwise.reproduce.command",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_svg",
    "narwhals._arrow.dataframe",
    "pyarrow.compute",
    "pyarrow.csv",
    "pyarrow.parquet",
    "pydantic.type_adapter",
):
    with suppress(ModuleNotFoundError):  # of libraries of libraries, which not all versions have
        import_module(_name)
for _name in bagwise.__all__:
    getattr(bagwise, _name)


def run(arguments: list[str], folder: Path) -> None:
    """Do a line of the command in this process, silently, with pictures that are blank.

    Drawing is most of what ``reproduce`` does when its cells are there, and loses nothing.
    """
    os.chdir(folder)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    Figure.draw_without_rendering = lambda self: None  # type: ignore[method-assign]
    Figure.savefig = _blank  # type: ignore[method-assign, assignment]
    sys.argv = ["bagwise", *arguments]
    bagwise.cli.main()


def _blank(self: Figure, to: Any, **_: object) -> None:
    if hasattr(to, "write"):
        to.write("<svg></svg>")
    else:
        Path(to).write_bytes(b"blank")
