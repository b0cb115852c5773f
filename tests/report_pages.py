"""Bags, labels and pages that the tests of the report share."""

import json
from html.parser import HTMLParser

import numpy as np

from bagwise import Bags

HOSTILE = "</script><img src=x onerror=alert(1)>"
VOID = {"meta", "input", "br", "img", "link", "hr"}


def spread_bags(n_bags=60, seed=0, sizes=(1, 3, 8, 40), ids=None, covariates=False):
    """Bags whose label is how far their points spread; points have two features."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, n_bags)
    n = np.resize(sizes, n_bags)
    points = [rng.normal(0, s, (k, 2)) for s, k in zip(y, n, strict=True)]
    extra = rng.normal(size=(n_bags, 1)) if covariates else None
    bags = Bags(
        np.concatenate(points),
        np.concatenate([[0], np.cumsum(n)]),
        range(n_bags) if ids is None else ids,  # may repeat, as those of Bags.concatenate may
        covariates=extra,
        feature_names=["left", "right"],
        covariate_names=["age"] if covariates else None,
    )
    return bags, y


class Page(HTMLParser):
    """A page as its tags, tables by caption and text; fails on tags that are not balanced."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.tables, self.headings = [], [], {}, []
        self._rows, self._text = [], None
        self.feed(html)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows = []
        if tag == "tr":
            self._rows.append([])
        if tag in ("th", "td", "caption", "h1", "h2", "h3"):
            self._text = ""

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        if self._text is not None:
            self._text += data

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open[-3:])
        self.open.pop()
        if tag in ("th", "td"):
            self._rows[-1].append(self._text)
        if tag == "caption":
            self.tables.setdefault(self._text, self._rows)
        if tag in ("h1", "h2", "h3"):
            self.headings.append(int(tag[1]))
        if tag in ("th", "td", "caption", "h1", "h2", "h3"):
            self._text = None


def data_of(html):
    """Return the numbers inside the page, as a browser would read them."""
    start = html.index('id="bag-data">') + len('id="bag-data">')
    return json.loads(html[start : html.index("</script>", start)])
