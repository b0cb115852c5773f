"""Tables that come with bagwise: polls of races, shapes of molecules, houses, pupils of schools."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Int64

from bagwise.bags.bags import Bags

FEATURES = (
    "poll_margin",
    "undecided",
    "log_sample_size",
    "days_out",
    "partisan_d",
    "partisan_r",
    "live",
    "ivr",
    "online",
)
COVARIATES = ("president", "senate", "governor", "house")

# Whom to credit, and the licence.
POLLS = (
    "Polls: raw polls behind FiveThirtyEight's pollster ratings, by FiveThirtyEight, licensed "
    "under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Changed here: restricted to "
    "US general elections, 1998–2020, and recoded as one row of numbers per poll."
)
MUSK = (
    "Musk (version 1), by D. Chapman and A. Jain, UCI Machine Learning Repository, licensed under "
    "CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Described in Dietterich, Lathrop "
    "and Lozano-Pérez (1997). Changed here: molecules are numbered, and columns renamed."
)


@dataclass(frozen=True, eq=False)
class Polls:
    """Election polls as bags.

    Parameters
    ----------
    bags : one bag per race; points are polls, covariates say which office is at stake
    labels : (n_bags,) Democratic minus Republican share of the vote, in points
    years : (n_bags,) year of the election, for grouped folds (not a feature)
    average : (n_bags,) plain mean of the polls' margins: the prediction to beat
    attribution : whom to credit, and the licence

    Examples
    --------
    >>> polls = load_polls()
    >>> polls.labels.shape, polls.bags.covariate_names
    ((1708,), ('president', 'senate', 'governor', 'house'))
    """

    bags: Bags
    labels: Float[np.ndarray, " n_bags"]
    years: Int[np.ndarray, " n_bags"]
    average: Float[np.ndarray, " n_bags"]
    attribution: str = POLLS


def load_polls() -> Polls:
    """Load 8,824 polls of 1,708 US races, 1998–2020: bags of 1 to 94 polls, median 2.

    Examples
    --------
    >>> polls = load_polls()
    >>> polls.bags.n_bags, polls.bags.n_points
    (1708, 8824)
    >>> round(float(np.sqrt(np.mean((polls.average - polls.labels) ** 2))), 2)
    6.73
    """
    table = _table("polls.parquet")
    bags, labels = Bags.from_frame(
        table, bag="race", features=FEATURES, covariates=COVARIATES, label="actual_margin"
    )
    _, years = Bags.from_frame(table, bag="race", features=FEATURES, label="year")
    margins = bags.points[:, FEATURES.index("poll_margin")]
    average = np.add.reduceat(margins, bags.offsets[:-1]) / bags.sizes
    return Polls(bags, labels, years, average)


@dataclass(frozen=True, eq=False)
class Musk:
    """Molecules as bags.

    Parameters
    ----------
    bags : one bag per molecule; points are conformations, described by 166 distances
    labels : (n_bags,), 1 for a musk
    attribution : whom to credit, and the licence

    Examples
    --------
    >>> musk = load_musk()
    >>> musk.bags.n_features, sorted(set(musk.labels.tolist()))
    (166, [0, 1])
    """

    bags: Bags
    labels: Int64[np.ndarray, " n_bags"]
    attribution: str = MUSK


def load_musk() -> Musk:
    """Load 476 conformations of 92 molecules: bags of 2 to 40, 47 of them musks.

    Examples
    --------
    >>> musk = load_musk()
    >>> musk.bags.n_bags, musk.bags.n_features, int(musk.labels.sum())
    (92, 166, 47)
    """
    table = _table("musk1.parquet")
    features = [name for name in table.column_names if name not in ("molecule", "musk")]
    bags, labels = Bags.from_frame(table, bag="molecule", features=features, label="musk")
    return Musk(bags, labels.astype(np.int64))


@dataclass(frozen=True, eq=False)
class Radon:
    """Counties as bags of houses.

    Parameters
    ----------
    bags : one bag per county; points are houses: log radon, floor, basement, kind, season
    labels : (n_bags,), log of the uranium in the soil of the county
    attribution : whom to credit

    Examples
    --------
    >>> radon = load_radon()
    >>> radon.labels.shape, int(radon.bags.sizes.max())
    ((464,), 733)
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

    Examples
    --------
    >>> schools = load_schools()
    >>> schools.share_academic.shape, schools.bags.n_features
    ((160,), 4)
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
