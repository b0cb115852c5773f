"""Levels: the probability that an interval holds its label."""

from __future__ import annotations

import numpy as np

from bagwise.exceptions import BagwiseError

# Where nobody says otherwise: predictions, metrics, the report and the command all mean this one.
LEVEL = 0.95


def check_level(level: float) -> None:
    """Raise unless ``level`` is a probability strictly between 0 and 1.

    Examples
    --------
    >>> check_level(95)
    Traceback (most recent call last):
    ...
    bagwise.exceptions.BagwiseError: level is 95; expected a number strictly between 0 and 1. Give
    one such as 0.95.
    """
    if not isinstance(level, int | float | np.number) or not 0.0 < level < 1.0:
        shown = level if np.isscalar(level) else type(level).__name__
        raise BagwiseError.because(
            f"level is {shown!r}", "a number strictly between 0 and 1", f"Give one such as {LEVEL}."
        )
