"""Shell: what all commands share with the terminal they run in, and the files they write.

Answers go to stdout or to a file, which is whole or not there; everything else (progress, notes,
errors) to stderr. Errors are one sentence with the remedy; ``--debug``, anywhere on the line, shows
where they arose instead. Whatever names and ids are made of, no control character reaches the
terminal. Nothing is lost: see :func:`check_outputs`, which every command asks before it begins to
work.
"""

from __future__ import annotations

import atexit
import functools
import gc
import io
import json
import os
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import numpy as np
import typer

from bagwise._utils.atomic import remove_parts, replaceable, replacing
from bagwise._utils.work import UNSHOWN, printable, progress_shown
from bagwise.exceptions import BagwiseError

FAILED = 1  # what was asked for cannot be done: the sentence says why
WRONG_LINE = 2  # nor will it ever be, as the line is
BROKEN = 70  # bagwise itself is at fault
INTERRUPTED = 130  # stopped with Ctrl-C
UNREAD = 141  # as of commands that a closed pipe ends

# Objects that are made before some are looked for that nobody needs: while libraries are imported,
# a tenth of the time goes there for nothing.
COLLECTED_AFTER = 100_000

# Warnings that Python itself shows to nobody who has not asked.
FOR_DEVELOPERS = (
    DeprecationWarning,
    PendingDeprecationWarning,
    ImportWarning,
    ResourceWarning,
)

EPILOG = (
    "Exit codes: 0 done, 1 could not be done (the message says why), 2 the command line is wrong "
    f"or would write over a file, {BROKEN} a fault of bagwise, {INTERRUPTED} stopped with Ctrl-C, "
    f"{UNREAD} whoever read the answer stopped reading."
)

STDOUT = Path("-")

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
_begun = False  # whether a command is at work, rather than typer at the line
_was_interrupted: Callable[[], bool] = bool  # which says no
_outputs: dict[str, tuple[int, ...]] = {}  # files that this run writes, and what was there before


class WrongLine(BagwiseError):
    """The command line asks for something that must not be done."""


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
        global _begun
        _begun = True
        with warnings.catch_warnings(), progress_shown():
            warnings.showwarning = _as_note
            warnings.simplefilter("always")
            for category in FOR_DEVELOPERS:
                warnings.simplefilter("ignore", category)
            try:
                if sys.stdout is None:
                    raise _closed()
                function(*arguments, **options)
            except typer.Exit:
                raise
            except (KeyboardInterrupt, Exception) as error:
                raise typer.Exit(_explain(error)) from None

    return app.command()(run)


def _closed() -> BagwiseError:
    return BagwiseError.because(
        "standard output is closed", "somewhere to print the answer", "Add > /dev/null, or a file."
    )


def _explain(error: BaseException) -> int:
    """Say what went wrong in a sentence, and return the exit code for it."""
    if _debug:
        typer.echo(printable("".join(traceback.format_exception(error)), keep="\n"), err=True)
    code, sentence = _verdict(error)
    if sentence and not _debug:
        say(sentence)
    return code


def _verdict(error: BaseException) -> tuple[int, str]:
    expected = isinstance(error, BagwiseError | OSError | MemoryError)
    # some libraries make another error of an interrupt
    if isinstance(error, KeyboardInterrupt) or (_was_interrupted() and not expected):
        remove_parts()
        new = [path for path, before in _outputs.items() if _identity(path) != before]
        return INTERRUPTED, f"stopped; {', '.join(new) or 'nothing'} was written"
    if isinstance(error, BrokenPipeError):
        return UNREAD, ""
    if isinstance(error, BagwiseError):
        return WRONG_LINE if isinstance(error, WrongLine) else FAILED, str(error)
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        why = error.strerror or error
        return FAILED, f"{name}{why}. Check the path, its permissions and the space left."
    if isinstance(error, MemoryError):
        return FAILED, "there is not enough memory. Give the points as Parquet and use --stream."
    return BROKEN, (
        f"this should not have happened ({type(error).__name__}: {error}). It is a fault of "
        "bagwise: run the same line with --debug and report what it prints."
    )


def _as_note(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    say(f"note: {message}")


# What messages call parameters of Bags.from_frame are options here, their values bare words.
PARAMETER = re.compile(
    r"\b(bag|features|covariates|weights|labels?|one_hot|ignore|missing|decimal|thousands|sep)="
    r"""(?:\[?\.\.\.\]?|(["'])([\w ,.;-]*)\2)(?: or "(\w+)")?"""
)


def as_options(text: str) -> str:
    """Return a message with the options of the command line in place of Python's parameters.

    Examples
    --------
    >>> as_options('Use missing="drop" or "impute", or name them with one_hot=[...].')
    'Use --missing drop or impute, or name them with --one-hot.'
    """

    def option(found: re.Match[str]) -> str:
        name, _, value, other = found.groups()
        words = [f"--{name.replace('_', '-')}", value or "", f"or {other}" if other else ""]
        return " ".join(filter(None, words))

    return PARAMETER.sub(option, text)


def say(text: str) -> None:
    """Say something about the work to whoever watches, on stderr."""
    with suppress(OSError):  # if nobody can be told, the exit code says it
        typer.echo(f"bagwise: {printable(' '.join(as_options(str(text)).split()))}", err=True)


def answer(text: str) -> None:
    """Print part of the answer, on stdout: one line, or several."""
    with _to_stdout():
        typer.echo(printable(text, keep="\n"))


def answer_json(value: Any) -> None:
    """Print the answer for a program to read: JSON on stdout, NaN and infinities as null."""
    text = json.dumps(plain(value), ensure_ascii=False, allow_nan=False)
    with _to_stdout():  # JSON has another way to write control characters, which says the same
        typer.echo(UNSHOWN.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def answer_bytes(data: bytes) -> None:
    """Print a file as the answer, on stdout; of text, a terminal gets no control characters."""
    if sys.stdout.isatty():
        data = printable(data.decode(), keep="\n\t").encode()
    with _to_stdout():
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@contextmanager
def _to_stdout() -> Iterator[None]:
    """Say what keeps stdout from being written to, and do not try again at the end of Python."""
    try:
        yield
    except OSError as error:
        with suppress(OSError, ValueError):  # not if it is no real file, as in tests
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise
        raise BagwiseError.because(
            f"the answer cannot be written to standard output ({error.strerror or error})",
            "a place with room for it",
            "Redirect it to somewhere else.",
        ) from error


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


# ---- files that are written ----------------------------------------------------------------------


class Kind(NamedTuple):
    """Files that know they are ours: a new one may take the place of an old one."""

    name: str
    ours: Callable[[str], bool]


def _is_model(path: str) -> bool:
    from bagwise.estimators.saving import is_model

    return is_model(path)


def _is_sums(path: str) -> bool:
    from bagwise.estimators.saving import is_sums

    return is_sums(path)


def _is_page(path: str) -> bool:
    from bagwise.inspection.report.page import is_page

    return is_page(path)


MODEL = Kind("saved model", _is_model)
SUMS = Kind("file of sums", _is_sums)
PAGE = Kind("page of bagwise", _is_page)


@dataclass(frozen=True)
class Output:
    """A file to be written, or standard output.

    Attributes
    ----------
    path : ``-`` is standard output
    force : whether whatever is there may go;  kind : what may go in any case
    option : that named the path;  text : whether a terminal can show it
    """

    path: Path
    force: bool = False
    kind: Kind | None = None
    option: str = "--out"
    text: bool = True

    @property
    def is_stdout(self) -> bool:
        """Whether this is standard output."""
        return self.path == STDOUT

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """Give a file to write to; what is written is seen when all went well."""
        if self.is_stdout:
            answered = io.BytesIO()
            yield answered
            answer_bytes(answered.getvalue())
            return
        self.check_replaced()
        _will_write(self.path)
        with replacing(self.path) as part, part.open("wb") as file:
            yield file

    def check_place(self) -> None:
        """Raise unless a file could be made there."""
        path, folder = self.path, Path(os.path.realpath(self.path)).parent
        if path.is_dir():
            raise BagwiseError.because(
                f"{self.option} {path} is a folder", "the name of a file", "Add a name to it."
            )
        if path.exists() and not path.is_file():
            raise BagwiseError.because(
                f"{self.option} {path} is no plain file",
                "the name of a file",
                f"For a pipe or a device, use {self.option} - and redirect standard output.",
            )
        if not folder.is_dir():
            raise BagwiseError.because(
                f"there is no folder {folder}",
                "a folder to write to",
                f"Make it first, or choose another {self.option}.",
            )
        effective = os.access in os.supports_effective_ids
        if not os.access(folder, os.W_OK | os.X_OK, effective_ids=effective):
            raise BagwiseError.because(
                f"{self.option} {path} cannot be written: {folder} is closed to this user",
                "a folder that you may write to",
                f"Change its permissions, or choose another {self.option}.",
            )

    def check_replaced(self) -> None:
        """Raise if a file is there that is not ours, unless it may go."""
        if self.force or replaceable(self.path, self.kind and self.kind.ours):
            return
        what = f" and is no {self.kind.name}" if self.kind else ""
        raise WrongLine.because(
            f"{self.option} {self.path} is there already{what}",
            f"a new name{f', or that of a {self.kind.name}' if self.kind else ''}",
            "Choose another name, or add --force if the file may go.",
        )

    def check_apart(self, source: Path) -> None:
        """Raise if writing would change what is read."""
        from bagwise.bags.tables.files import TABLES

        if _is_same(self.path, source):
            raise WrongLine.because(
                f"{self.option} {self.path} is {source}, from which the command reads",
                "a file of its own for what is written",
                f"Choose another {self.option}.",
            )
        here = Path(os.path.realpath(self.path))
        inside = os.path.isdir(source) and here.is_relative_to(os.path.realpath(source))
        if inside and self.path.name.lower().endswith(TABLES):
            raise WrongLine.because(
                f"{self.option} {self.path} lies in the folder {source}, whose tables are read",
                "a place where it is not taken for points the next time",
                f"Choose an {self.option} outside of that folder.",
            )


def check_outputs(
    outputs: Sequence[Output], *, inputs: Sequence[Path | None] = (), json: bool = False
) -> None:
    """Refuse, before any work is done, to write where something would be lost.

    An input is never written over, under whatever name it is given. What is there already is
    replaced only by its own kind (a saved model, a page), or with --force. Two outputs, of which
    the answer as JSON is one, do not share a place.
    """
    for output in outputs:
        if output.is_stdout:
            _check_stdout(output, json)
            continue
        for source in inputs:
            if source is not None:
                output.check_apart(source)
        output.check_place()
        output.check_replaced()
    for k, output in enumerate(outputs):
        for other in outputs[:k]:
            if _is_same(output.path, other.path):
                raise WrongLine.because(
                    f"{other.option} and {output.option} are both {output.path}",
                    "a place for each",
                    "Choose another for one of them.",
                )


def check_output_folder(folder: Path, names: Sequence[str], *, force: bool) -> None:
    """Refuse, before any work is done, to write files of these names into a folder."""
    if folder == STDOUT or (folder.exists() and not folder.is_dir()):
        raise WrongLine.because(
            f"--out {folder} is {'standard output' if folder == STDOUT else 'no folder'}",
            "a folder, as there are several files to write",
            "Choose another --out.",
        )
    for name in names:
        Output(folder / name, force).check_replaced()


def _check_stdout(output: Output, json: bool) -> None:
    if json:
        raise WrongLine.because(
            f"{output.option} - and --json both write to standard output",
            "one of them",
            f"Leave one out, or give {output.option} a file.",
        )
    if not output.text and sys.stdout.isatty():
        raise WrongLine.because(
            f"{output.option} - would fill the terminal with what is no text",
            "a file or a pipe",
            f"Redirect standard output, or give {output.option} a file.",
        )


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths are one file, by links or otherwise; also if it is not there yet."""
    if os.path.normcase(os.path.realpath(path)) == os.path.normcase(os.path.realpath(other)):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def _will_write(path: Any) -> None:
    """Remember what is at a path that will be written to, for whoever stops the command.

    What was written is then seen by looking: an interrupt may come between any two steps.
    """
    _outputs[str(path)] = _identity(path)


def _identity(path: Any) -> tuple[int, ...]:
    """Return what tells a file from any that takes its place; nothing if there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns


# ---- the command line ----------------------------------------------------------------------------


def main(
    interrupted: Callable[[], bool] = lambda: False,
    was_interrupted: Callable[[], bool] = lambda: False,
) -> None:
    """Run the command line; an interrupt that still waits at its end counts as well."""
    global _debug, _begun, _was_interrupted
    _was_interrupted = was_interrupted
    gc.set_threshold(COLLECTED_AFTER)
    atexit.register(gc.freeze)  # at the end Python looks for unneeded objects: a quarter second
    arguments = sys.argv[1:]
    _begun = False
    _debug = "--debug" in arguments  # also after the name of a command, where typer has no option
    _outputs.clear()
    if isinstance(sys.stdout, io.TextIOWrapper):  # a narrow encoding is no reason to fail
        sys.stdout.reconfigure(errors="backslashreplace")
    line = [argument for argument in arguments if argument != "--debug"]
    try:
        code = app(line, prog_name="bagwise", standalone_mode=False)
        while_read = code == INTERRUPTED and not _begun  # by typer, which says nothing
        if while_read or interrupted():
            raise KeyboardInterrupt
        sys.exit(code)
    except KeyboardInterrupt as stopped:
        sys.exit(_explain(stopped))
    except SystemExit as end:
        if isinstance(end.__context__, BrokenPipeError):  # nobody read the help
            end.code = UNREAD
        raise
    except Exception as error:
        if not hasattr(error, "show"):
            raise
        shown = io.StringIO()  # a wrong line: typer has a page of its own for it
        error.show(file=shown)
        typer.echo(printable(shown.getvalue(), keep="\n"), err=True, nl=False)
        sys.exit(getattr(error, "exit_code", WRONG_LINE))
