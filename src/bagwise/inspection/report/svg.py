"""Pictures as SVG inside a page: Matplotlib draws, the style sheet gives the colours."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from itertools import groupby
from typing import Any
from xml.etree.ElementTree import Element, fromstring, tostring

import matplotlib
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.rcsetup import cycler

from bagwise.inspection.plots.style import CYCLE, JOURNAL, PARTS, shades

# Inches, and type that is as large as the text around it once the picture fills its column.
SIZE = (4.6, 3.1)
RULES: Any = JOURNAL | {
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.prop_cycle": cycler(color=CYCLE),
    "axes.spines.left": False,
    "grid.color": "0.92",
    "lines.markersize": 4.5,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "bagwise",  # the same picture has the same text
    "text.parse_math": False,  # a dollar in a name is a dollar
    "ytick.major.size": 0,
}

# Colours of the pictures and the variables of the style sheet that stand for them.
COLORS = {
    **{to_hex(color): f"s{k}" for k, color in enumerate(CYCLE)},
    **{to_hex(color): f"q{k}" for k, color in enumerate(shades(3))},
    **{to_hex(grey): "soft" for grey in ("0.2", "0.25", "0.45", "0.5", "0.6")},
    to_hex(PARTS["noise"]): "noise",
    to_hex("0.92"): "grid",
    to_hex("black"): "ink",
    to_hex("white"): "ground",
}

# Attributes of our elements. There is no style among them, which the policy of the page forbids.
KEPT = re.compile(r"fill|stroke|opacity|text-anchor|font-size|transform|d$|x$|y$")
LEFT_OUT = ("metadata", "style", "clipPath")
# A circle as Matplotlib draws it: from its lowest point, in eight curves.
CIRCLE = re.compile(r"M 0 ([\d.]+)\s+(C[^C]+){8}$")


@contextmanager
def canvas(width: float = SIZE[0], height: float = SIZE[1]) -> Iterator[Axes]:
    """Give axes to draw on, in the style of the page, and to make an element of."""
    with matplotlib.rc_context(RULES), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the browser has other fonts
        yield Figure(figsize=(width, height), layout="constrained").subplots()


def element(ax: Axes, name: str) -> Markup:
    """Return a picture as an SVG element without ids and styles, so that a page may have many.

    Parameters
    ----------
    ax : what was drawn on;  name : says to those who cannot see it what it shows
    """
    text = StringIO()
    for artist in ax.figure.findobj():
        artist.set_rasterized(False)
    figure: Any = ax.figure
    figure.get_layout_engine().execute(figure)
    figure.set_layout_engine(None)  # or savefig would draw it twice
    figure.savefig(text, format="svg", metadata={"Date": None})
    drawn = fromstring(text.getvalue())
    # Matplotlib leaves out the colour of what is black.
    attributes = {"viewBox": drawn.attrib["viewBox"], "fill": "var(--ink)", "role": "img"}
    svg = Element("svg", attributes | {"aria-label": name})
    svg.extend(_marks(drawn, {}))
    return Markup(tostring(svg, encoding="unicode"))


def variable(color: Any) -> str:
    """Return the name in the style sheet of a colour of the pictures."""
    return COLORS[to_hex(color)]


def _marks(node: Element, markers: dict[str, str]) -> Iterator[Element]:
    """Yield the paths and texts below an element; ``markers`` are shapes that are used by id."""
    tag = node.tag.rpartition("}")[2]
    if tag == "path" and "id" in node.attrib:
        markers["#" + node.attrib["id"]] = node.attrib["d"]
    elif tag in ("path", "text"):
        mark = Element(tag, _attributes(node))
        mark.text = node.text
        yield mark
    elif tag not in LEFT_OUT:
        for used, some in groupby(node, key=_used):
            if used is None:
                for child in some:
                    yield from _marks(child, markers)
            else:
                yield from _placed(markers[used[0]], list(some))


def _used(node: Element) -> tuple[str, str] | None:
    """Return the shape and style of a marker."""
    where = node.attrib.get("{http://www.w3.org/1999/xlink}href")
    return None if where is None else (where, node.attrib.get("style", ""))


def _placed(shape: str, uses: list[Element]) -> Iterator[Element]:
    """Yield markers where they are used; thousands of dots are one short path."""
    found = [_attributes(use) for use in uses]
    places = [(one.pop("x"), one.pop("y")) for one in found]
    circle, style = CIRCLE.match(shape), found[0]
    if circle is None:
        for x, y in places:
            yield Element("path", {"d": _short(shape), "transform": f"translate({x} {y})"} | style)
        return
    width = 2 * float(circle[1]) + ("stroke" in style) * float(style.get("stroke-width", 1))
    color, opacity = style.get("fill", "var(--ink)"), style.get("fill-opacity", "1")
    dots = {"stroke": color, "stroke-opacity": opacity, "stroke-width": f"{width:g}"}
    path = "".join(f"M{x} {y}h0" for x, y in places)
    yield Element("path", {"d": path, "stroke-linecap": "round"} | dots)


def _attributes(node: Element) -> dict[str, str]:
    """Return attributes in place of the style, with variables in place of colours."""
    parts = [part.partition(":") for part in node.attrib.get("style", "").split(";")]
    given = node.attrib | {key.strip(): value.strip() for key, _, value in parts}
    if "font" in given:  # of Matplotlib before 3.10: size and family in one
        given["font-size"] = re.findall(r"[\d.]+px", given["font"])[0]
    kept = {key: value for key, value in given.items() if KEPT.match(key)}
    if kept.get("transform", "").startswith("rotate(-0 "):
        del kept["transform"]
    return {k: f"var(--{COLORS[v]})" if v in COLORS else _short(v) for k, v in kept.items()}


def _short(value: str) -> str:
    """Write numbers with one decimal, as many as can be seen; opacities keep two."""
    return re.sub(r"\d+\.\d{3,}", lambda number: f"{float(number[0]):.1f}", " ".join(value.split()))
