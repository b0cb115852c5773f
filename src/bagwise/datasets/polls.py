"""Election polls: each race is a bag of polls, its label the margin on election day."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

import numpy as np
from jaxtyping import Float, Int

from bagwise.bags.bags import Bags

BAG = "race"
LABEL = "actual_margin"
YEAR = "year"
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

ATTRIBUTION = (
    "Polls: raw polls behind FiveThirtyEight's pollster ratings, by FiveThirtyEight, licensed "
    "under CC BY 4.0 (https://creativecommons.org/licenses/by/4.0/). Changed here: restricted to "
    "US general elections, 1998–2020, and recoded as one row of numbers per poll."
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
    """

    bags: Bags
    labels: Float[np.ndarray, " n_bags"]
    years: Int[np.ndarray, " n_bags"]
    average: Float[np.ndarray, " n_bags"]
    attribution: str = ATTRIBUTION


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
    import pyarrow.parquet as pq

    source = resources.files("bagwise.datasets") / "polls.parquet"
    with source.open("rb") as file:
        table = pq.read_table(file)
    bags, labels = Bags.from_frame(
        table, bag=BAG, features=FEATURES, covariates=COVARIATES, label=LABEL
    )
    _, years = Bags.from_frame(table, bag=BAG, features=FEATURES, label=YEAR)
    margins = bags.points[:, FEATURES.index("poll_margin")]
    return Polls(
        bags=bags,
        labels=labels,
        years=years,
        average=np.add.reduceat(margins, bags.offsets[:-1]) / bags.sizes,
    )
