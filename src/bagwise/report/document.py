"""Document: the finished report, to look into or to write to a file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from bagwise.atomic import replaceable, replacing
from bagwise.exceptions import BagwiseError
from bagwise.joined import Joined
from bagwise.metrics import Scores
from bagwise.report.case import Case
from bagwise.report.comparison import Comparison
from bagwise.report.page import is_page, page


@dataclass(frozen=True, eq=False)
class Report:
    """One page about models on bags.

    Attributes
    ----------
    html : the page
    best : name of the model of the best score;  scores : of each model, best first
    predictions : of each model, out of fold or as given
    """

    html: str
    best: str
    scores: dict[str, Scores]
    predictions: dict[str, Joined]

    @classmethod
    def of(cls, case: Case) -> Report:
        """Score the predictions of a case and write the page."""
        comparison = Comparison.of(case)
        scores = {model.name: model.table for model in comparison.models}
        return cls(page(case, comparison), comparison.best.name, scores, case.predictions)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the page to a file, whole or not at all; return its path.

        An earlier page is replaced; any other file that is there only with ``overwrite``.
        """
        if not overwrite and not replaceable(path, is_page):
            raise BagwiseError.because(
                f"{os.fspath(path)} is there already and is no page of bagwise",
                "a new name, or that of a page to be replaced",
                "Choose another name, or add overwrite=True if the file may go.",
            )
        with replacing(path) as part:
            part.write_text(self.html, encoding="utf-8")
        return Path(path)

    def __repr__(self) -> str:
        return f"Report(best {self.best!r} of {len(self.scores)}, {len(self.html) / 1e6:.1f} MB)"
