"""Draws for ArviZ: all that depends on it is here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bagwise.exceptions import BagwiseError
from bagwise.inference.draws import Trajectories


def to_arviz(draws: Mapping[str, np.ndarray], trajectories: Trajectories | None) -> Any:
    """Return a DataTree with the groups ``posterior`` and, from NUTS, ``sample_stats``."""
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise BagwiseError.because(
            "ArviZ is not installed", "the extra arviz", "Run pip install 'bagwise[arviz]'."
        ) from error
    groups: dict[str, Any] = {"posterior": dict(draws)}
    if trajectories is not None:
        groups["sample_stats"] = {
            "diverging": trajectories.diverging,
            "n_steps": trajectories.n_steps,
            "tree_depth": np.ceil(np.log2(trajectories.n_steps + 1)).astype(np.int64),
            "energy": trajectories.energy,
            "step_size": np.repeat(trajectories.step_size[:, None], len(trajectories.energy[0]), 1),
        }
    return from_dict(groups)
