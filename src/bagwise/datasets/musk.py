"""Musk: each molecule is a bag of the shapes it can take, its label whether it smells of musk."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from jaxtyping import Int64

from bagwise.bags.bags import Bags

BAG = "molecule"
LABEL = "musk"

ATTRIBUTION = (
    "Musk (version 1), by D. Chapman and A. Jain, UCI Machine Learning Repository, licensed under "
    "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Described in Dietterich, Lathrop "
    "and Lozano-Pérez (1997). Changed here: molecules are numbered, and columns renamed."
)


@dataclass(frozen=True, eq=False)
class Musk:
    """Molecules as bags.

    Parameters
    ----------
    bags : one bag per molecule; points are conformations, described by 166 distances
    labels : (n_bags,), 1 for a musk
    attribution : whom to credit, and the licence
    """

    bags: Bags
    labels: Int64[np.ndarray, " n_bags"]
    attribution: str = ATTRIBUTION


def load_musk() -> Musk:
    """Load 476 conformations of 92 molecules: bags of 2 to 40, 47 of them musks.

    Examples
    --------
    >>> musk = load_musk()
    >>> musk.bags.n_bags, musk.bags.n_features, int(musk.labels.sum())
    (92, 166, 47)
    """
    import pyarrow.parquet as pq

    source = resources.files("bagwise.datasets") / "musk1.parquet"
    with source.open("rb") as file:
        table = pq.read_table(file)
    features = [name for name in table.column_names if name not in (BAG, LABEL)]
    bags, labels = Bags.from_frame(table, bag=BAG, features=features, label=LABEL)
    return Musk(bags, labels.astype(np.int64))
