"""Surroundings: how far the points of a bag lie from those of others, and its nearest bags."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64, Int64
from scipy.spatial.distance import cdist

from bagwise.bags.bags import Bags
from bagwise.features.maps import Scaling

# So many bags say what is usual, so many points stand for all others and for one bag: enough for a
# quantile, and a second of work at most.
USUAL_BAGS = 200
OTHER_POINTS = 2_000
BAG_POINTS = 50
# An average so many standard deviations off is odd.
ODD = 3.0
# Bags of which the labels are compared.
N_NEAR = 10
# A bag is far off if fewer than this share of bags are as far.
RARE = 0.025


@dataclass(frozen=True, eq=False)
class Surroundings:
    """Distances to the points of other bags, in standard deviations of the features.

    d(bag) = median over its points of the distance to the nearest point of another bag

    Attributes
    ----------
    points : (m, p) scaled points that stand for all;  owner : (m,) their bags
    usual : (k,) sorted distances of some bags;  averages : (n, p), scaled, of all bags
    """

    bags: Bags
    scaling: Scaling
    points: Float64[np.ndarray, "m p"]
    owner: Int64[np.ndarray, " m"]
    usual: Float64[np.ndarray, " k"]
    averages: Float64[np.ndarray, "n p"]
    seed: int

    @classmethod
    def of(cls, bags: Bags, seed: int) -> Surroundings:
        """Draw points and bags, and measure what is usual.

        Examples
        --------
        >>> bags = Bags.from_list([[[float(i)], [i + 0.5]] for i in range(40)] + [[[500.0]]])
        >>> Surroundings.of(bags, 0).is_far(40), Surroundings.of(bags, 0).is_far(20)
        (True, False)
        """
        rng = np.random.default_rng(seed)
        rows = rng.choice(bags.n_points, min(OTHER_POINTS, bags.n_points), replace=False)
        owner = np.searchsorted(bags.offsets, rows, side="right") - 1
        scaling = Scaling.fit(bags, standardize=True)
        shared = scaling(bags.points[rows]), owner
        first = cls(bags, scaling, *shared, np.empty(0), scaling(_averages(bags)), seed)
        some = rng.choice(bags.n_bags, min(USUAL_BAGS, bags.n_bags), replace=False)
        usual = np.sort([first.distance(int(bag)) for bag in some])
        return replace(first, usual=usual[np.isfinite(usual)])

    def distance(self, bag: int) -> float:
        """Return d of one bag; infinite if there is no other."""
        points, others = self.bags[bag], self.points[self.owner != bag]
        if not len(others):
            return float("inf")
        if len(points) > BAG_POINTS:
            rng = np.random.default_rng([self.seed, bag])
            points = points[rng.choice(len(points), BAG_POINTS, replace=False)]
        return float(np.median(cdist(self.scaling(points), others).min(axis=1)))

    def is_far(self, bag: int) -> bool:
        """Whether hardly any bag is as far from the others."""
        if not self.usual.size:
            return False
        distance = self.distance(bag)
        return bool(distance > 0 and np.mean(self.usual >= distance) < RARE)

    def oddest(self, bag: int) -> tuple[str, float, float] | None:
        """Return the feature in which the bag's average is most unusual, that average, and of all.

        None if it is within three standard deviations, of the points, of the average of all.
        """
        column = int(np.argmax(np.abs(self.averages[bag])))
        if abs(self.averages[bag, column]) < ODD:
            return None
        names = self.bags.feature_names
        center, scale = self.scaling.center[column], self.scaling.scale[column]
        name = f"feature {column}" if names is None else names[column]
        return name, float(center + scale * self.averages[bag, column]), float(center)

    def nearest(self, bag: int) -> Int64[np.ndarray, " k"]:
        """Return the other bags whose average point is nearest, at most 10."""
        squared = np.sum((self.averages - self.averages[bag]) ** 2, axis=1)
        squared[bag] = np.inf
        return np.argsort(squared, kind="stable")[: min(N_NEAR, len(squared) - 1)].astype(np.int64)


def _averages(bags: Bags) -> Float64[np.ndarray, "n p"]:
    """Return the average point of every bag, by weight if points have weights."""
    starts, points = bags.offsets[:-1], bags.points.astype(np.float64)
    if bags.weights is None:
        return np.add.reduceat(points, starts) / bags.sizes[:, None]
    totals = np.add.reduceat(bags.weights, starts)
    return np.add.reduceat(points * bags.weights[:, None], starts) / totals[:, None]
