"""Page: the whole HTML document, with its style, script and data inside."""

from __future__ import annotations

import base64
import hashlib

from bagwise._utils.templates import asset, render
from bagwise.inspection.report.case import Case
from bagwise.inspection.report.comparison import Comparison
from bagwise.inspection.report.novelty import Novelty
from bagwise.inspection.report.reasons import Reasons
from bagwise.inspection.report.rows import page_data
from bagwise.inspection.report.sections import content

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
    novelty = Novelty.of(case.bags, case.seed)
    reasons = {name: Reasons(case, name, novelty) for name in case.predictions}
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
        data=page_data(case, comparison, reasons),
        **content(case, comparison, reasons),
    )


def _digest(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
