"""Coordinates c in which the posterior of the scales x = (σ, η, ρ) is nearly Gaussian.

    x = x̂ u(c),   u(0) = u'(0) = 1

The priors of x are normals folded at zero. σ² and ρ² are smooth in x, so the density simply goes on
beyond zero: u = 1 + c, of either sign ("folded"). The posterior of η may have a wall near zero,
where all bags are shrunk to one, and must not cross it: u is a softplus of c, linear above.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Bool, Float64

# Relative scales below this are not told from zero.
LEAST_RELATIVE = 1e-3

LOG_2 = float(np.log(2.0))


def relative_scales(
    c: Float64[np.ndarray, "*m k"], folded: Bool[np.ndarray, " k"]
) -> tuple[Float64[np.ndarray, "*m k"], Float64[np.ndarray, "*m k"]]:
    """Return u(c) and log u'(c).

    Examples
    --------
    >>> u, _ = relative_scales(np.array([-2.0, -2.0]), np.array([True, False]))
    >>> u.round(2)
    array([-1.  ,  0.09])
    """
    along = 2.0 * LOG_2 * c
    u = np.where(folded, 1.0 + c, np.logaddexp(0.0, along) / LOG_2)
    return u, np.where(folded, 0.0, LOG_2 - np.logaddexp(0.0, -along))
