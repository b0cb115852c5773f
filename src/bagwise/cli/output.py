"""Output: where answers go, a file that is whole or not there, or standard output.

Nothing is lost: see :func:`check_outputs`, which every command asks before it begins to work.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

from bagwise._utils.atomic import replaceable, replacing
from bagwise.cli.shell import WrongLine, answer_bytes, will_write
from bagwise.exceptions import BagwiseError

STDOUT = Path("-")


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
        will_write(self.path)
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
