"""Page: the whole HTML document, with its style, script and data inside."""

from __future__ import annotations

import base64
import hashlib
from importlib import resources

from bagwise.report.case import Case
from bagwise.report.comparison import Comparison
from bagwise.report.markup import data_block, text
from bagwise.report.novelty import Novelty
from bagwise.report.reasons import Reasons
from bagwise.report.rows import page_data
from bagwise.report.sections import (
    bags_section,
    calibration_section,
    data_section,
    header,
    made_section,
    models_section,
    predictions_section,
    short_section,
    worst_section,
)

LINKS = {
    "short": "In short",
    "data": "Data",
    "models": "Models",
    "calibration": "Calibration",
    "predictions": "Predictions",
    "worst": "Worst bags",
    "bags": "All bags",
}


# What pages say of themselves, near their beginning, and how near.
MARK = '<meta name="generator" content="bagwise">'
MARK_WITHIN = 2000


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
    sections = (
        short_section(case, comparison),
        data_section(case),
        models_section(case, comparison),
        calibration_section(case, comparison),
        predictions_section(case, comparison),
        worst_section(case, comparison, reasons),
        bags_section(),
        made_section(case),
    )
    style, script = _file("page.css"), _file("page.js")
    return (
        f'<!doctype html>\n<html lang="en"><head>{_head(case, style, script)}</head><body>'
        '<a class="skip" href="#main">Skip to the findings</a>'
        f"{header(case)}{_bar(comparison)}"
        f'<main id="main" tabindex="-1">{"".join(sections)}</main>{_PANEL}'
        f"{data_block(page_data(case, comparison, reasons))}<script>{script}</script>"
        "</body></html>\n"
    )


def _head(case: Case, style: str, script: str) -> str:
    # The browser is told to load nothing and to run nothing but our own script: whatever an id of
    # a bag contains, it stays text.
    policy = (
        f"default-src 'none'; style-src {_digest(style)}; script-src {_digest(script)}; "
        "base-uri 'none'; form-action 'none'"
    )
    return (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta name="color-scheme" content="light dark">{MARK}'
        f"<title>{text(case.words.title)}</title><style>{style}</style>"
    )


def _bar(comparison: Comparison) -> str:
    links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in LINKS.items())
    options = "".join(
        f'<option value="{k}">{text(model.name)}</option>'
        for k, model in enumerate(comparison.models)
    )
    return (
        f'<div class="bar"><nav aria-label="Sections"><ul>{links}</ul></nav>'
        f'<div class="choices"><label>Model <select id="model">{options}</select></label>'
        '<button type="button" id="theme" aria-pressed="false">Dark</button></div></div>'
    )


_PANEL = (
    '<dialog id="panel" aria-labelledby="panel-title"><div class="panel-head">'
    '<h2 id="panel-title" tabindex="-1"></h2><div class="steps">'
    '<button type="button" id="before">Previous bag</button>'
    '<button type="button" id="after">Next bag</button>'
    '<button type="button" id="close">Close</button></div></div>'
    '<div id="panel-body"></div></dialog>'
)


def _file(name: str) -> str:
    """Return a file that is delivered with the package."""
    return (resources.files("bagwise.report") / name).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
    return f"'sha256-{digest}'"
