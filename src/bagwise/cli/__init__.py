"""The ``bagwise`` command: from a file of points to answers, without writing Python."""

from __future__ import annotations

# Importing a module of a command registers it, in the order of ``bagwise --help``.
from bagwise.cli import (  # isort: skip
    fit,
    predict,
    update,
    evaluate,
    explain,
    report,
    demo,
    info,
    reproduce,
)
from bagwise.cli.shell import app, main

__all__ = ["app", "demo", "evaluate", "explain", "fit", "info", "main", "predict", "report"]
__all__ += ["reproduce", "update"]
