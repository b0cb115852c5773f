"""Descent: the least of a smooth function of a dozen numbers, by what is known of its curvature.

A process is fitted many times over: with one kernel after the other, to few bags and to more, with
slopes held and with those of its own. Its scales move little between two of these searches, and the
curvature of the evidence, per bag, hardly changes. So each search ends with the curvature that it
has learnt, from which the next one begins: its first step is as good as another's tenth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64

Place = Float64[np.ndarray, " h"]
Curve = Float64[np.ndarray, "h h"]
Loss = Callable[[Place], tuple[float, Place]]

# Step of the differences of gradients by which curvature is found, and the least there is of it:
# that of the priors. And the longest step.
DIFFERENCE = 0.02
LEAST_CURVE = 1.0
LONGEST_STEP = 1.0

# Of the least gain that is asked for; a step that is expected to gain less is not made.
SURE = 0.5

# Of what its slope promises, a step has to gain so much; else it is cut to no less and no more of
# it, and at most so often.
LEAST_SHARE = 1e-4
CUT = (0.1, 0.5)
MOST_CUTS = 10

# Of the curvature along a step that was expected, so much is believed at least: stays positive.
LEAST_SEEN = 0.2


@dataclass(frozen=True, eq=False)
class Found:
    """Where a search ended.

    Attributes
    ----------
    place : (h,);  value : of the function there
    curve : (h, h), what is known of its second derivatives, positive definite
    """

    place: Place
    value: float
    curve: Curve


def descend(
    loss: Loss,
    start: Place,
    bounds: tuple[Place, Place],
    most_steps: int,
    least_gain: float,
    curve: Curve | None = None,
) -> Found:
    """Return where a function is least, within bounds, by the method of Broyden and others (BFGS).

    s = −B^-1 ∇,   B ← B + rr^T/(s·r) − Bs(Bs)^T/(s·Bs),   r = y, the change of ∇, or a mean with Bs

    such that B stays positive definite (Powell). Coordinates at a bound beyond which the function
    is less stay there.

    Parameters
    ----------
    loss : place (h,) ↦ value and gradient ∇
    start : (h,);  bounds : least and largest (h,)
    most_steps : of the search, which ends before if a step gains less than ``least_gain``, or is
        expected to by a curvature that is known
    curve : (h, h), B at the start, or None

    References
    ----------
    Nocedal and Wright (2006), Numerical Optimization, procedure 18.2.

    Examples
    --------
    >>> def parabola(x):
    ...     return float(x @ x), 2.0 * x
    >>> bounds = np.array([-1.0, 0.5]), np.array([1.0, 1.0])
    >>> found = descend(parabola, np.array([0.4, 0.9]), bounds, 50, 1e-9)
    >>> found.place.round(4) + 0.0, round(found.value, 4)
    (array([0. , 0.5]), 0.25)
    """
    low, high = bounds
    at = np.clip(start, low, high)
    value, slope = loss(at)
    curve = curve_at(loss, at, slope) if curve is None else curve
    for _ in range(most_steps):
        way = _way(curve, at, slope, bounds)
        if -0.5 * float(slope @ way) < SURE * least_gain:
            break
        new = _ahead(loss, at, value, slope, way, bounds)
        if new is None:
            break
        curve, gain = _learnt(curve, new[0] - at, new[2] - slope), value - new[1]
        at, value, slope = new
        if gain < least_gain:
            break
    return Found(at, value, curve)


def curve_at(loss: Loss, at: Place, slope: Place | None = None) -> Curve:
    """Return the curvature by differences, where it is negative as if it were not.

    Examples
    --------
    >>> curve_at(lambda x: (4.0 * float(x[0] * x[1]), 4.0 * x[::-1]), np.zeros(2)).round(9)
    array([[4., 0.],
           [0., 4.]])
    """
    slope = loss(at)[1] if slope is None else slope
    rows = [loss(at + step)[1] - slope for step in DIFFERENCE * np.eye(len(at))]
    curve = np.array(rows) / DIFFERENCE
    values, vectors = np.linalg.eigh(0.5 * (curve + curve.T))
    return (vectors * np.maximum(np.abs(values), LEAST_CURVE)) @ vectors.T


def _way(curve: Curve, at: Place, slope: Place, bounds: tuple[Place, Place]) -> Place:
    """Return the step to where the function would be least, of coordinates that are free."""
    held = ((at <= bounds[0]) & (slope > 0.0)) | ((at >= bounds[1]) & (slope < 0.0))
    free, way = ~held, np.zeros_like(at)
    way[free] = -np.linalg.solve(curve[np.ix_(free, free)], slope[free])
    return way * min(1.0, LONGEST_STEP / max(float(np.abs(way).max()), LONGEST_STEP))


def _ahead(
    loss: Loss,
    at: Place,
    value: float,
    slope: Place,
    way: Place,
    bounds: tuple[Place, Place],
) -> tuple[Place, float, Place] | None:
    """Return a place on the way at which the function is less, or None if there seems to be none.

    Each place that is not is taken for what a parabola says of the way to it.
    """
    share = 1.0
    for _ in range(MOST_CUTS):
        place = np.clip(at + share * way, *bounds)
        there, slope_there = loss(place)
        promised = float(slope @ (place - at))
        if there <= value + LEAST_SHARE * min(promised, 0.0):
            return place, there, slope_there
        curved = there - value - promised
        cut = -0.5 * promised / curved if np.isfinite(curved) and curved > 0.0 else 0.0
        share *= float(np.clip(cut, *CUT))
    return None


def _learnt(curve: Curve, moved: Place, turned: Place) -> Curve:
    """Return the curvature with what a step has taught of it."""
    pulled = curve @ moved
    expected, seen = float(moved @ pulled), float(moved @ turned)
    if not expected > 0.0 or not np.isfinite(seen):
        return curve
    if seen < LEAST_SEEN * expected:
        share = (1.0 - LEAST_SEEN) * expected / (expected - seen)
        turned = share * turned + (1.0 - share) * pulled
        seen = float(moved @ turned)
    return curve + np.outer(turned, turned) / seen - np.outer(pulled, pulled) / expected
