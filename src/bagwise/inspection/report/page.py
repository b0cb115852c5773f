"""Page: the whole HTML document, with its style, script and data inside, and the report it is."""

from __future__ import annotations

import base64
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bagwise._utils.atomic import replaceable, replacing
from bagwise._utils.templates import asset, render
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.inspection.report.case import Case
from bagwise.inspection.report.columns import Explained
from bagwise.inspection.report.comparison import Comparison
from bagwise.inspection.report.reasons import Reasons
from bagwise.inspection.report.rows import page_data
from bagwise.inspection.report.sections import content
from bagwise.inspection.report.surroundings import Surroundings
from bagwise.predictions.joined import Joined
from bagwise.predictions.metrics import Scores

# What pages say of themselves, near their beginning, and how near.
MARK = '<meta name="generator" content="bagwise">'
MARK_WITHIN = 2000
# Where the template, the style sheet and the script lie.
HERE = "bagwise.inspection.report"


def is_page(path: str) -> bool:
    """Whether a file is a page that :func:`page` made."""
    try:
        with open(path, "rb") as file:
            return MARK.encode() in file.read(MARK_WITHIN)
    except OSError:
        return False


def page(case: Case, comparison: Comparison) -> str:
    """Return the page as text."""
    if case.bags.of_objects:
        raise InvalidBagsError.because(
            "a report on bags whose points are objects",
            "points of numbers, whose columns it shows",
            "Use model.explain, bagwise.plots and cross_validate.",
        )
    surroundings = Surroundings.of(case.points, case.seed)
    reasons = {name: Reasons(case, name, surroundings) for name in case.predictions}
    best = reasons[comparison.best.name]
    by_surprise = np.argsort(-np.abs(best.surprise), kind="stable")
    explained = Explained.of(case, best.prediction, by_surprise)
    style, script = asset(HERE, "page.css"), asset(HERE, "page.js")
    return render(
        HERE,
        "page.html.jinja",
        mark=MARK,
        style=style,
        script=script,
        # The browser is told to load nothing and to run nothing but our own script: whatever an
        # id of a bag contains, it stays text.
        policy=f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'",
        data=page_data(case, comparison, reasons, explained),
        **content(case, comparison, reasons, explained),
    )


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


@dataclass(frozen=True, eq=False)
class Report:
    """One page about models on bags.

    Attributes
    ----------
    html : the page
    best : name of the model of the best score;  scores : of each model, best first
    predictions : of each model, out of fold or as given

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> models = {"BLR": bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(5))}
    >>> report = bagwise.report.make(bags, y, models, folds=2, progress=False)
    >>> report.best, list(report.scores), len(report.predictions["BLR"])
    ('BLR', ['BLR'], 30)
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
