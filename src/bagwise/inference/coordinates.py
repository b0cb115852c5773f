"""Coordinates c in which the posterior of the scales x = (σ, η, ρ) is nearly Gaussian.

    x = x̂ u(c),   u(0) = u'(0) = 1

The priors of x are normals folded at zero. σ² is smooth in x, so the density simply goes on beyond
zero: u = 1 + c, of either sign ("folded"). The posteriors of η and ρ may have a wall at zero, where
all bags are shrunk to one or all weights vanish, and must not cross it. There x is a multiple of
log(1 + e^a), with a linear in c: like an exponential far below the scale of the prior, where its
size is unknown, and linear above, where the prior ends it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float64

from bagwise._utils.arrays import NUMPY, ArrayLibrary

# Relative scales below this are not told from zero.
LEAST_RELATIVE = 1e-3


def bend_of(
    scales: Float64[np.ndarray, " k"], prior: Float64[np.ndarray, " k"]
) -> Float64[np.ndarray, " k"]:
    """Return a at the mode, where log(1 + e^a) is the mode over the scale of the prior.

    Examples
    --------
    >>> bend_of(np.array([1e-3, 1.0, 100.0]), np.ones(3)).round(2)
    array([ -6.91,   0.54, 100.  ])
    """
    ratio = scales / prior
    return ratio + np.log(-np.expm1(-ratio))


def relative_scales(
    c: Any, folded: Any, bend: Any, library: ArrayLibrary = NUMPY
) -> tuple[Any, Any]:
    """Return u(c) and log u'(c), for c (..., k) of either library.

    Examples
    --------
    >>> u, _ = relative_scales(np.full(3, -2.0), np.array([True, False, False]), np.zeros(3))
    >>> u.round(2)
    array([-1.  ,  0.09,  0.09])
    """
    xp = library.xp
    middle = xp.logaddexp(0.0, bend)
    a = bend + middle * (1.0 + xp.exp(-bend)) * c
    u = xp.where(folded, 1.0 + c, xp.logaddexp(0.0, a) / middle)
    return u, xp.where(folded, 0.0, xp.logaddexp(0.0, -bend) - xp.logaddexp(0.0, -a))
