"""The paper's simulated bags, bit for bit, and the best any method can do on them.

The label of a bag is the shape of the distribution its points come from:

    y ~ Uniform(4, 8),    every entry of x in R^5 is  Gamma(shape y/2, rate 1/2) / y + noise

Reference: Law, Sutherland, Sejdinovic, Flaxman (2018), Bayesian Approaches to Distribution
Regression, section 5.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from bagwise.bags.bags import Bags
from bagwise.exceptions import BagwiseError

LABEL_RANGE = (4.0, 8.0)
N_FEATURES = 5
LARGE_SIZE = 1000  # points of every bag that is not 5, 20 or 100
PERCENT_MEDIUM = 25  # of the bags have 20 points; as many have 100
SPLITS = ("train", "early_stop", "validation", "test")  # the order in which seeds are drawn
PAPER_BAGS = {"train": 1000, "early_stop": 500, "validation": 500, "test": 1000}


@dataclass(frozen=True, eq=False)
class GammaSplit:
    """Bags and their labels (n_bags,).

    Examples
    --------
    >>> split = make_gamma(n_bags=4).test
    >>> split.bags.n_bags, split.labels.shape
    (4, (4,))
    """

    bags: Bags
    labels: Float[np.ndarray, " n_bags"]


@dataclass(frozen=True, eq=False)
class GammaExperiment:
    """Settings of one draw of the gamma data; each split is made when first asked for.

    Parameters
    ----------
    seed : seed of the draw; the paper uses 23 (varying size) and 23 to 32 (fixed size)
    percent_small : percentage of bags with 5 points, 0 to 50; 25 % have 20 points, 25 % have
        100 and the rest 1,000. Without effect when ``fixed_size`` is given.
    noise_sd : standard deviation of the noise added to every entry
    fixed_size : points of every bag, or None for varying sizes
    n_bags : bags per split, by name of split

    Examples
    --------
    >>> data = make_gamma(n_bags={"train": 6})
    >>> data.train.bags.n_bags, data.seed, data.fixed_size
    (6, 23, None)
    """

    seed: int
    percent_small: int
    noise_sd: float
    fixed_size: int | None
    n_bags: Mapping[str, int]

    def __post_init__(self) -> None:
        if not 0 <= self.percent_small <= 100 - 2 * PERCENT_MEDIUM:
            raise BagwiseError.because(
                f"percent_small is {self.percent_small}",
                "a percentage from 0 to 50",
                "The other half of the bags has 20 or 100 points.",
            )
        if self.fixed_size is not None and self.fixed_size < 1:
            raise BagwiseError.because(
                f"fixed_size is {self.fixed_size}", "at least 1 point", "Use None to vary sizes."
            )
        if not self.noise_sd >= 0:
            raise BagwiseError.because(
                f"noise_sd is {self.noise_sd}", "a number >= 0", "Use 0 for no noise."
            )
        if set(self.n_bags) != set(SPLITS) or min(self.n_bags.values()) < 1:
            raise BagwiseError.because(
                f"n_bags is {dict(self.n_bags)}",
                f"at least one bag for each of {', '.join(SPLITS)}",
                "Give one number for all splits, or a number by name of split.",
            )

    @cached_property
    def train(self) -> GammaSplit:
        """Training bags (1,000 in the paper)."""
        return self._draw("train")

    @cached_property
    def early_stop(self) -> GammaSplit:
        """Early-stopping bags (500 in the paper)."""
        return self._draw("early_stop")

    @cached_property
    def validation(self) -> GammaSplit:
        """Validation bags (500 in the paper)."""
        return self._draw("validation")

    @cached_property
    def test(self) -> GammaSplit:
        """Test bags (1,000 in the paper)."""
        return self._draw("test")

    def _draw(self, split: str) -> GammaSplit:
        # int64 is what the authors' platform drew; elsewhere the default may be narrower.
        seeds = np.random.RandomState(self.seed).randint(2**32, size=len(SPLITS), dtype=np.int64)
        rs = np.random.RandomState(seeds[SPLITS.index(split)])
        sizes = self._sizes(self.n_bags[split])
        rs.shuffle(sizes)
        labels = rs.uniform(*LABEL_RANGE, sizes.size)
        bags = []
        for size, label in zip(sizes, labels, strict=True):
            shape = (size, N_FEATURES)
            points = rs.chisquare(label, shape) / label
            points += rs.normal(scale=self.noise_sd, size=shape)  # drawn even when it is zero
            bags.append(points)
        return GammaSplit(Bags.from_list(bags), labels)

    def _sizes(self, n_bags: int) -> Int[np.ndarray, " n_bags"]:
        """Bag sizes before shuffling: 5, 20 and 100 in their shares, then the large ones."""
        if self.fixed_size is not None:
            return np.full(n_bags, self.fixed_size)
        percents = (self.percent_small, PERCENT_MEDIUM, PERCENT_MEDIUM)
        counts = [int(n_bags * (percent / 100)) for percent in percents]
        large = np.full(n_bags - sum(counts), LARGE_SIZE)
        return np.concatenate([np.repeat([5, 20, 100], counts), large])


def make_gamma(
    seed: int = 23,
    *,
    percent_small: int = 25,
    noise_sd: float = 0.0,
    fixed_size: int | None = None,
    n_bags: int | Mapping[str, int] | None = None,
) -> GammaExperiment:
    """Simulate the gamma data; see `GammaExperiment` for the parameters.

    ``n_bags`` is one number for all splits, a number by name of split (the others keep the paper's
    number), or None for the paper's numbers: 1,000 / 500 / 500 / 1,000. NumPy's legacy generator
    is used, so the arrays are the same on every machine and in every version.

    Examples
    --------
    >>> data = make_gamma(percent_small=25, n_bags=8)
    >>> sorted(data.train.bags.sizes.tolist())
    [5, 5, 20, 20, 100, 100, 1000, 1000]
    >>> data.train.labels.shape
    (8,)
    """
    if n_bags is None or isinstance(n_bags, Mapping):
        counts = PAPER_BAGS | dict(n_bags or {})
    else:
        counts = dict.fromkeys(SPLITS, n_bags)
    return GammaExperiment(seed, percent_small, noise_sd, fixed_size, counts)


def gamma_varying(percent_small: int = 25, seed: int = 23) -> GammaExperiment:
    """Return the varying-size experiment: no noise, ``percent_small`` % of bags with 5 points.

    Examples
    --------
    >>> data = gamma_varying(percent_small=50)
    >>> data.percent_small, data.noise_sd, data.n_bags["train"]
    (50, 0.0, 1000)
    """
    return make_gamma(seed, percent_small=percent_small)


def gamma_fixed(seed: int = 23) -> GammaExperiment:
    """Return the fixed-size experiment: 1,000 points in every bag, noise of variance 1.

    Examples
    --------
    >>> data = gamma_fixed(seed=24)
    >>> data.fixed_size, data.noise_sd
    (1000, 1.0)
    """
    return make_gamma(seed, noise_sd=1.0, fixed_size=LARGE_SIZE)
