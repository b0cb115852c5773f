"""Houses of counties and pupils of schools: bags of very different sizes, labels of the bags."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from bagwise.bags.bags import Bags


@dataclass(frozen=True, eq=False)
class Radon:
    """Counties as bags of houses.

    Parameters
    ----------
    bags : one bag per county; points are houses: log radon, floor, basement, kind, season
    labels : (n_bags,), log of the uranium in the soil of the county
    attribution : whom to credit
    """

    bags: Bags
    labels: Float[np.ndarray, " n_bags"]
    attribution: str = "State residential radon surveys, US Environmental Protection Agency."


@dataclass(frozen=True, eq=False)
class Schools:
    """Schools as bags of pupils.

    Parameters
    ----------
    bags : one bag per school; points are pupils: mathematics, status of the family, minority, sex
    share_academic : (n_bags,), share of pupils on the academic track, a label in [0, 1]
    catholic : (n_bags,), 1 for a Catholic school, 0 for a public one
    attribution : whom to credit
    """

    bags: Bags
    share_academic: Float[np.ndarray, " n_bags"]
    catholic: Int64[np.ndarray, " n_bags"]
    attribution: str = "High School and Beyond, 1982, US National Center for Education Statistics."


def load_radon() -> Radon:
    """Load 11,955 houses of 464 US counties: bags of 1 to 733 houses, median 10.

    Examples
    --------
    >>> radon = load_radon()
    >>> radon.bags.n_bags, radon.bags.n_points
    (464, 11955)
    """
    table = _table("radon.parquet")
    features = [name for name in table.column_names if name not in ("county", "log_uranium")]
    return Radon(*Bags.from_frame(table, bag="county", features=features, label="log_uranium"))


def load_schools() -> Schools:
    """Load 7,185 pupils of 160 US schools: bags of 14 to 67 pupils.

    Examples
    --------
    >>> schools = load_schools()
    >>> schools.bags.n_bags, schools.bags.n_points, int(schools.catholic.sum())
    (160, 7185, 70)
    """
    table = _table("schools.parquet")
    features = ("math", "ses", "minority", "female")
    bags, share = Bags.from_frame(table, bag="school", features=features, label="share_academic")
    _, catholic = Bags.from_frame(table, bag="school", features=features, label="catholic")
    return Schools(bags, share, catholic.astype(np.int64))


def _table(name: str) -> Any:
    import pyarrow.parquet as pq

    with (resources.files("bagwise.datasets") / name).open("rb") as file:
        return pq.read_table(file)
