"""Shell: what all commands share with the terminal they run in.

Answers go to stdout, everything else (progress, notes, errors) to stderr. Errors are one sentence
with the remedy; ``--debug``, anywhere on the line, shows where they arose instead.
"""

from __future__ import annotations

import functools
import json
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import numpy as np
import typer

from bagwise._utils.progress import progress_shown
from bagwise.exceptions import BagwiseError

FAILED = 1  # what was asked for cannot be done: the sentence says why
BROKEN = 70  # bagwise itself is at fault
INTERRUPTED = 130  # stopped with Ctrl-C

EPILOG = (
    "Exit codes: 0 done, 1 could not be done (the message says why), 2 the command line is wrong, "
    f"{BROKEN} a fault of bagwise, {INTERRUPTED} stopped with Ctrl-C."
)

app = typer.Typer(
    name="bagwise",
    help="Learning from bags of samples: many points per bag, one label per bag.",
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_debug = False


def _print_version(wanted: bool) -> bool:
    if wanted:
        typer.echo(f"bagwise {version('bagwise')}")
        raise typer.Exit
    return wanted


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where an error arose; may stand anywhere.")
    ] = False,
) -> None:
    """Learning from bags of samples: many points per bag, one label per bag."""


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Register a command whose errors are sentences and whose warnings are notes."""

    @functools.wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        with warnings.catch_warnings(), progress_shown():
            warnings.showwarning = _as_note
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            try:
                function(*arguments, **options)
            except (KeyboardInterrupt, Exception) as error:
                if _debug or isinstance(error, typer.Exit | BrokenPipeError):
                    raise  # typer knows what to do when nobody reads the answer to its end
                raise typer.Exit(_explain(error)) from None

    return app.command()(run)


def _explain(error: BaseException) -> int:
    """Say what went wrong in a sentence, and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt):
        say("stopped; nothing was written")
        return INTERRUPTED
    if isinstance(error, BagwiseError):
        say(str(error))
        return FAILED
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        say(f"{name}{error.strerror or error}. Check the path, its permissions and the space left.")
        return FAILED
    if isinstance(error, MemoryError):
        say("there is not enough memory. Give the points as Parquet and use --stream.")
        return FAILED
    say(
        f"this should not have happened ({type(error).__name__}: {error}). It is a fault of "
        "bagwise: run the same line with --debug and report what it prints."
    )
    return BROKEN


def _as_note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    say(f"note: {message}")


def say(text: str) -> None:
    """Say something about the work to whoever watches, on stderr."""
    typer.echo(f"bagwise: {' '.join(str(text).split())}", err=True)


def answer(text: str) -> None:
    """Print part of the answer, on stdout."""
    typer.echo(text)


def answer_json(value: Any) -> None:
    """Print the answer for a program to read: JSON on stdout, NaN and infinities as null."""
    typer.echo(json.dumps(plain(value), ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """Return a value as types that JSON has.

    Examples
    --------
    >>> plain({"a": np.array([1.0, np.nan]), 2: (np.int64(3), "b")})
    {'a': [1.0, None], '2': [3, 'b']}
    """
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def main() -> None:
    """Run the command line."""
    global _debug
    arguments = sys.argv[1:]
    _debug = "--debug" in arguments  # also after the name of a command, where typer has no option
    try:
        app([argument for argument in arguments if argument != "--debug"], prog_name="bagwise")
    except KeyboardInterrupt as stopped:  # before a command had begun
        sys.exit(_explain(stopped))
