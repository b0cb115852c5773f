"""Drawings: axes and marks as SVG that takes its colours from the style sheet of the page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

# Numbers in any form that NumPy takes.
Values = Any

WIDTH, HEIGHT = 400, 270
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 42
N_TICKS = 5


@dataclass(frozen=True)
class Scale:
    """Values ↦ places on the paper, by a straight line in the values or in their logs.

    Examples
    --------
    >>> Scale(1.0, 100.0, 0.0, 200.0, log=True)(np.array([10.0]))
    array([100.])
    """

    low: float
    high: float
    start: float
    stop: float
    log: bool = False

    def __call__(self, values: Values) -> Any:
        """Return the places of values; those outside are put on the edge."""
        low, high = self._warp([self.low, self.high])
        clipped = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        return self.start + (self._warp(clipped) - low) / (high - low) * (self.stop - self.start)

    def _warp(self, values: Values) -> Any:
        return np.log(values) if self.log else np.asarray(values, dtype=np.float64)

    def ticks(self) -> list[float]:
        """Return round values inside; of a log scale, which is for counts, 1, 2, 5, 10 and on."""
        if not self.log:
            return linear_ticks(self.low, self.high)
        powers = range(int(np.floor(np.log10(self.low))), int(np.ceil(np.log10(self.high))) + 1)
        for digits in ((1, 2, 5), (1, 3), (1,)):
            values = [d * 10.0**k for k in powers for d in digits]
            inside = [v for v in values if max(self.low, 1.0) <= v <= self.high]
            if len(inside) <= N_TICKS + 2:
                return inside or [self.low]
        return inside[:: -(-len(inside) // N_TICKS)]


def linear_ticks(low: float, high: float) -> list[float]:
    """Return about five round values between low and high.

    Examples
    --------
    >>> linear_ticks(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    rough = (high - low) / N_TICKS
    power = 10.0 ** np.floor(np.log10(rough))
    step = float(power * next(m for m in (1, 2, 5, 10) if m * power >= rough * 0.999))
    first, last = np.ceil(low / step - 1e-9), np.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") + 0.0 for k in np.arange(first, last + 1)]  # no -0


def tick_text(value: float) -> str:
    """Write the value of a tick, short.

    Examples
    --------
    >>> tick_text(20000.0), tick_text(-0.5), tick_text(3e7)
    ('20k', '−0.5', '3e7')
    """
    if abs(value) >= 1e6:
        text = f"{value:.3g}".replace("e+0", "e").replace("e+", "e")
    elif abs(value) >= 1e4:
        text = f"{value / 1e3:g}k"
    else:
        text = f"{value:.6g}"
    return text.replace("-", "−")


@dataclass
class Drawing:
    """A picture with two axes.

    Parameters
    ----------
    x, y : (low, high) of the axes;  log_x : whether x is a log scale
    x_label, y_label : under and beside the axes
    percent_y : whether to write y in per cent
    """

    x: tuple[float, float]
    y: tuple[float, float]
    x_label: str
    y_label: str
    log_x: bool = False
    percent_y: bool = False
    _marks: list[str] = field(default_factory=list)

    @property
    def across(self) -> Scale:
        """Scale of x."""
        return Scale(*self.x, LEFT, WIDTH - RIGHT, self.log_x)

    @property
    def up(self) -> Scale:
        """Scale of y."""
        return Scale(*self.y, HEIGHT - BOTTOM, TOP)

    def line(self, x: Values, y: Values, style: str) -> None:
        """Draw a line through points."""
        steps = " ".join(f"{a:.1f},{b:.1f}" for a, b in self._places(x, y))
        self._marks.append(f'<polyline class="line {style}" points="{steps}"/>')

    def dots(self, x: Values, y: Values, style: str) -> None:
        """Draw dots; thousands of them are one short path."""
        path = "".join(f"M{a:.1f} {b:.1f}h0" for a, b in self._places(x, y))
        self._marks.append(f'<path class="dots {style}" d="{path}"/>')

    def area(self, x: Values, low: Values, high: Values, style: str) -> None:
        """Fill between two lines."""
        there, back = self._places(x, high), self._places(x, low)[::-1]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in np.concatenate([there, back]))
        self._marks.append(f'<polygon class="area {style}" points="{path}"/>')

    def bars(self, left: Values, right: Values, heights: Values, style: str) -> None:
        """Draw upright bars, with a little room between them."""
        floor = float(self.up(max(self.y[0], 0.0)))
        columns = self.across(left), self.across(right), self.up(heights)
        for start, stop, top in zip(*columns, strict=True):
            width = max(float(stop - start) - 1.0, 0.5)
            self._marks.append(
                f'<rect class="area {style}" x="{start:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{max(floor - top, 0):.1f}"/>'
            )

    def whiskers(self, x: Values, low: Values, high: Values, style: str) -> None:
        """Draw an upright line at each x."""
        pairs = zip(self._places(x, low), self.up(high), strict=True)
        path = "".join(f"M{a:.1f} {b:.1f}V{top:.1f}" for (a, b), top in pairs)
        self._marks.append(f'<path class="line {style}" d="{path}"/>')

    def render(self, name: str, x_ticks: Sequence[tuple[float, str]] | None = None) -> str:
        """Return the SVG element; ``name`` says to those who cannot see it what it shows."""
        if x_ticks is None:
            x_ticks = [(value, tick_text(value)) for value in self.across.ticks()]
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(name)}">'
            f"{self._grid(x_ticks)}{''.join(self._marks)}</svg>"
        )

    def _grid(self, x_ticks: Sequence[tuple[float, str]]) -> str:
        bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
        parts = []
        for value in self.up.ticks():
            y = float(self.up(value))
            text = f"{tick_text(100 * value)} %" if self.percent_y else tick_text(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="end" x="{LEFT - 6}" y="{y + 4:.1f}">{text}</text>')
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
        for value, text in x_ticks:
            x = float(self.across(value))
            ends = f'y1="{bottom}" y2="{bottom + 4}"'
            parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" {ends}/>')
            escaped = html.escape(text)
            parts.append(f'<text class="middle" x="{x:.1f}" y="{bottom + 17}">{escaped}</text>')
        middle_x, middle_y = (LEFT + right) / 2, (TOP + bottom) / 2
        parts.append(
            f'<text class="middle name" x="{middle_x:.0f}" y="{HEIGHT - 6}">'
            f"{html.escape(self.x_label)}</text>"
            f'<text class="middle name" transform="translate(12 {middle_y:.0f}) rotate(-90)">'
            f"{html.escape(self.y_label)}</text>"
        )
        return "".join(parts)

    def _places(self, x: Values, y: Values) -> Float[np.ndarray, "n 2"]:
        return np.stack([self.across(x), self.up(y)], axis=-1)


def padded(low: float, high: float, share: float = 0.04) -> tuple[float, float]:
    """Return an interval a little larger, and never empty.

    Examples
    --------
    >>> padded(0.0, 1.0), padded(3.0, 3.0)
    ((-0.04, 1.04), (2.7, 3.3))
    """
    span = high - low
    margin = share * span if span > 1e-9 * max(abs(low), abs(high)) else 0.1 * abs(low) or 1.0
    return low - margin, high + margin
