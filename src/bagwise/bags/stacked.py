"""StackedBags: what bags are (arrays, sizes, indexing); ``bags.py`` has the ways to make them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Self, TypeVar, overload

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped

from bagwise._utils.notebook import bars, line, listed, panel
from bagwise.bags.grouping import bag_positions, rows_of
from bagwise.bags.per_bag import (
    CountedIds,
    array_per_bag,
    id_array,
    in_bag_order,
    positions_by_id,
    rows_by_key,
)
from bagwise.bags.validation import (
    Names,
    Objects,
    check_covariates,
    check_names,
    check_offsets,
    check_points,
    check_weights,
    matrix,
    no_bags,
    sizes_to_offsets,
    stacked,
    to_matrix,
)
from bagwise.exceptions import InvalidBagsError

T = TypeVar("T")

LOG_SIZE = "log_size"

# Differences from the mean of a bag that are smaller, as a share of the column, are rounding.
ROUNDING = 1e-12

QUARTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
N_BARS = 16  # edges of the bars that show the sizes in a notebook


@dataclass(frozen=True, eq=False)
class Batch:
    """Some points, sorted by bag: a piece of each of several bags, or all of them.

    Attributes
    ----------
    points : (m, p)
    shares : (m,), of each point in its bag; shares of a whole bag add up to 1
    bags : (k,) number of the bag of each piece, all different
    starts : (k + 1,), piece i has the rows starts[i] to starts[i+1]
    seen : (k,), rows of the bag that came in batches before
    """

    points: Shaped[np.ndarray, "m p"]
    shares: Float64[np.ndarray, " m"]
    bags: Int64[np.ndarray, " k"]
    starts: Int64[np.ndarray, " k+1"]
    seen: Int64[np.ndarray, " k"]

    def take(self, pieces: slice) -> Batch:
        """Return consecutive pieces, as a batch."""
        bags = self.bags[pieces]
        first, last, _ = pieces.indices(len(self.bags))
        rows = slice(int(self.starts[first]), int(self.starts[last]))
        starts = self.starts[first : last + 1] - self.starts[first]
        return Batch(self.points[rows], self.shares[rows], bags, starts, self.seen[pieces])


class StackedBags:
    """Points stacked bag after bag: bag i is ``points[offsets[i]:offsets[i+1]]``.

    Everything is checked when it is made, and never again when it is indexed. The attributes are
    described in :class:`bagwise.Bags`, the class to use.
    """

    points: Float[np.ndarray, "n_points n_features"] | Objects
    offsets: Int64[np.ndarray, " n_bags+1"]
    ids: Shaped[np.ndarray, " n_bags"]
    weights: Float64[np.ndarray, " n_points"] | None
    covariates: Float64[np.ndarray, "n_bags n_covariates"] | None
    feature_names: Names
    covariate_names: Names

    def __init__(
        self,
        points: Any,
        offsets: Any,
        ids: Any,
        *,
        weights: Any = None,
        covariates: Any = None,
        feature_names: Any = None,
        covariate_names: Any = None,
    ) -> None:
        ids = id_array(ids)
        offsets = check_offsets(offsets, ids)
        points = matrix(points, "the array of points")
        names = check_names(feature_names, points.shape[1], "feature")
        covariates, covariate_names = named_covariates(covariates, covariate_names, ids)
        self.__dict__.update(
            points=check_points(points, offsets, ids, names),
            offsets=offsets,
            ids=ids,
            weights=None if weights is None else check_weights(weights, offsets, ids),
            covariates=covariates,
            feature_names=names,
            covariate_names=covariate_names,
        )

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"cannot set {name!r}: bags do not change. Make new ones with with_points, "
            "with_covariates or Bags.concatenate."
        )

    @property
    def n_bags(self) -> int:
        """Number of bags n."""
        return len(self.offsets) - 1

    @property
    def n_points(self) -> int:
        """Number of points in all bags together."""
        return len(self.points)

    @property
    def n_features(self) -> int:
        """Number of features p of a point."""
        return int(self.points.shape[1])

    @property
    def of_objects(self) -> bool:
        """Whether the points are objects, and no rows of numbers."""
        return isinstance(self.__dict__.get("points"), Objects)  # of a stream there are none

    @property
    def n_covariates(self) -> int:
        """Number of covariates of a bag, 0 if there are none."""
        return 0 if self.covariates is None else int(self.covariates.shape[1])

    @property
    def weighted(self) -> bool:
        """Whether the points have weights."""
        return self.weights is not None

    @property
    def shape(self) -> tuple[int]:
        """``(n_bags,)``: to scikit-learn, bags are the samples."""
        return (self.n_bags,)

    @property
    def ndim(self) -> int:
        """Always 1: bags have one axis."""
        return 1

    @property
    def sizes(self) -> Int64[np.ndarray, " n_bags"]:
        """Number of points N_i of each bag."""
        return np.diff(self.offsets)

    @property
    def effective_sizes(self) -> Float64[np.ndarray, " n_bags"]:
        """Kish's effective size of each bag, (Σ w)² / Σ w²; the size itself without weights.

        It does not change when all weights of a bag are multiplied by a number.
        """
        if self.weights is None:
            return self.sizes.astype(np.float64)
        starts = self.offsets[:-1]
        # Scaled to a maximum of 1 in each bag, so that squares neither over- nor underflow.
        scaled = self.weights / np.repeat(np.maximum.reduceat(self.weights, starts), self.sizes)
        return np.add.reduceat(scaled, starts) ** 2 / np.add.reduceat(scaled**2, starts)

    def size_quantiles(self) -> Int64[np.ndarray, "5"]:
        """Return the minimum, quartiles and maximum of the bag sizes, each the size of some bag."""
        return np.quantile(self.sizes, QUARTILES, method="inverted_cdf").astype(np.int64)

    def map_parts(
        self, work: Callable[..., T], title: str = "reading points"
    ) -> Iterator[tuple[T, Int64[np.ndarray, " k"]]]:
        """Do work on parts of the bags, wherever their points are; here there is one, all of them.

        A part has ``batches``, ``effective_sizes``, ``numbers`` of its bags among all and
        ``first_rows`` (the place of the first row of each of its bags among all points); what comes
        of it has the numbers of its bags beside it. Work that may be sent to another machine is a
        function of a module, not of a function.
        """
        yield work(self), np.arange(self.n_bags)

    @property
    def numbers(self) -> Int64[np.ndarray, " n_bags"]:
        """Numbers of the bags among all: here they are all."""
        return np.arange(self.n_bags)

    @property
    def first_rows(self) -> Int64[np.ndarray, " n_bags"]:
        """Place of the first point of each bag among all points."""
        return self.offsets[:-1]

    def batches(self, title: str = "reading points") -> Iterator[Batch]:
        """Go through all points: in memory, a stream of one batch."""
        none = np.zeros(self.n_bags, dtype=np.int64)
        yield Batch(self.points, self.shares, np.arange(self.n_bags), self.offsets, none)

    @property
    def shares(self) -> Float64[np.ndarray, " n_points"]:
        """Each point's share of its bag; shares of a bag add up to 1."""
        if self.weights is None:
            return np.repeat(1.0 / self.sizes, self.sizes)
        return self.weights / np.repeat(self.totals, self.sizes)

    @property
    def totals(self) -> Float64[np.ndarray, " n_bags"]:
        """Σ w of each bag; without weights, its number of points."""
        if self.weights is None:
            return self.sizes.astype(np.float64)
        return np.add.reduceat(self.weights, self.offsets[:-1])

    def __len__(self) -> int:
        return self.n_bags

    def __iter__(self) -> Iterator[Shaped[np.ndarray, "size n_features"]]:
        for start, stop in zip(self.offsets[:-1], self.offsets[1:], strict=True):
            yield self.points[start:stop]

    @overload
    def __getitem__(self, key: int | np.integer) -> Shaped[np.ndarray, "size n_features"]: ...
    @overload
    def __getitem__(self, key: Any) -> Self: ...
    def __getitem__(self, key: Any) -> Any:
        """Return one bag's points for a position or an id, else the chosen bags.

        Integers are positions, whatever the ids; strings, and tuples if the ids are such, are ids.
        See :meth:`bag` for ids of any type. A slice with step 1 shares the points; a mask, a list
        of positions or ids, or another step copies them. ``bags[key, ...]``, which is how
        scikit-learn indexes, is the same as ``bags[key]``.
        """
        if isinstance(key, tuple):
            if len(key) == 2 and key[1] is Ellipsis:
                key = key[0]
            elif not (self.n_bags and isinstance(self.ids[0], tuple)):
                raise IndexError("bags have one axis: choose several with a list, bags[[0, 1]]")
        key = rows_by_key(key, self.ids)
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            bag = bag_positions([key], self.n_bags)[0]
            return self.points[self.offsets[bag] : self.offsets[bag + 1]]
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(self.n_bags)
            offsets = self.offsets[start : max(start, stop) + 1]
            return self._take(key, slice(offsets[0], offsets[-1]), offsets - offsets[0])
        bags = bag_positions(key, self.n_bags)
        return self._take(bags, *rows_of(bags, self.offsets))

    def bag(self, bag_id: Any) -> Shaped[np.ndarray, "size n_features"]:
        """Return the points of the bag with this id, of any type.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> bags = Bags.from_list([[[1.0]], [[2.0], [3.0]]], ids=[7, 0])
        >>> bags.bag(7), bags[0]  # by id, by position
        (array([[1.]]), array([[1.]]))
        """
        (position,) = positions_by_id([bag_id], self.ids)
        return self[position]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        """Refuse: what asks for an array would take a bag for a row of numbers."""
        raise InvalidBagsError.because(
            f"{self.n_bags} bags were asked for as one array, with a row of numbers for each",
            "a tool that hands bags on, such as cross_val_score, GridSearchCV, "
            "OneVsRestClassifier, VotingRegressor or StackingRegressor",
            "To scale or project points, use bagwise.make_pipeline(StandardScaler(), model) or "
            "PointwiseTransformer(StandardScaler()); all points are bags.points.",
        )

    def some(self, bags: Int64[np.ndarray, " k"], most_points: int, seed: Any = None) -> Any:
        """Return some bags, in memory, and of each at most so many points.

        They are evenly spaced, and bags whose points have weights keep all; with a seed, points
        are drawn at random, also of those.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> bags = Bags.from_list([[[1.0]], [[2.0], [3.0], [4.0], [5.0]]])
        >>> bags.some(np.array([1]), 2).points.ravel()
        array([2., 4.])
        """
        return self._take(bags, *self._some_rows(bags, most_points, seed))

    def _some_rows(
        self, bags: Int64[np.ndarray, " k"], most: int, seed: Any
    ) -> tuple[Int64[np.ndarray, " m"], Int64[np.ndarray, " n_offsets"]]:
        """Return the rows of points of some bags, at most so many of each, and their offsets."""
        sizes = self.sizes[bags]
        kept = sizes if self.weighted and seed is None else np.minimum(sizes, most)
        offsets = np.concatenate([[0], np.cumsum(kept)])
        rank = np.arange(offsets[-1]) - np.repeat(offsets[:-1], kept)
        chosen = rank * np.repeat(sizes, kept) // np.repeat(kept, kept)
        if seed is not None:
            rng = np.random.default_rng(seed)
            for start, size, k in zip(offsets[:-1], sizes, kept, strict=True):
                if k < size:
                    drawn = rng.choice(size, k, replace=False)
                    chosen[start : start + k] = np.sort(drawn)
        return np.repeat(self.offsets[bags], kept) + chosen, offsets

    def halves(self, seed: int = 0) -> tuple[Any, Any]:
        """Cut each bag in two at random; of an odd number of points the second half has one more.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> first, second = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0], [5.0]]]).halves()
        >>> first.sizes, second.sizes
        (array([1, 1]), array([2, 1]))
        """
        owner = np.repeat(np.arange(self.n_bags), self.sizes)
        order = np.lexsort((np.random.default_rng(seed).random(self.n_points), owner))
        rank = np.arange(self.n_points) - self.offsets[owner]
        first = rank < self.sizes[owner] // 2
        one, other = (
            self._take(
                slice(None),
                np.sort(order[part]),
                sizes_to_offsets(np.bincount(owner[part], minlength=self.n_bags)),
            )
            for part in (first, ~first)
        )
        return one, other

    def _take(self, bags: Any, rows: Any, offsets: Int64[np.ndarray, " n_offsets"]) -> Self:
        """Bags at some positions, which have these rows: views if both are slices, else copies."""
        return self._like(
            points=self.points[rows],
            offsets=offsets,
            ids=self.ids[bags],
            weights=None if self.weights is None else self.weights[rows],
            covariates=None if self.covariates is None else self.covariates[bags],
        )

    def _like(self, **changes: Any) -> Self:
        """Return a twin with some attributes changed, without checking them again."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__ | changes)
        return twin

    def with_covariates(self, covariates: Any, names: Any = None) -> Self:
        """Return the same bags with these covariates (n_bags, n_covariates) in place of any others.

        A pandas frame or Series whose index holds the ids of the bags goes by id: :meth:`align`.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> Bags.from_array(np.zeros((2, 3, 1))).with_covariates([[30.0], [40.0]], ["age"])
        Bags(2 bags, 6 points, 1 feature, 1 covariate;
        sizes 3 / 3 / 3 / 3 / 3 (min / 25% / median / 75% / max))
        """
        array, names = named_covariates(covariates, names, self.ids)
        return self._like(covariates=array, covariate_names=names)

    def align(self, values: Any) -> np.ndarray:
        """Return values given one per bag, such as labels, as an array in the order of the bags.

        Whatever takes a value per bag does this by itself: ``fit``, ``score``, ``with_covariates``,
        the metrics. scikit-learn's own tools do not know of ids, so align before them.

        The rule is that of :func:`bagwise.bags.per_bag.in_bag_order`.

        Examples
        --------
        >>> import pandas as pd
        >>> from bagwise.bags.bags import Bags
        >>> bags = Bags.from_array(np.zeros((2, 3, 1)), ids=["b", "a"])
        >>> bags.align(pd.Series({"a": 1.0, "b": 2.0}))
        array([2., 1.])
        """
        array = array_per_bag(values, self.ids, "values")
        if array.shape[:1] != (self.n_bags,):
            raise InvalidBagsError.because(
                f"the values have shape {array.shape}",
                f"one value for each of {self.n_bags} bags",
                "Give them an index that holds the ids of the bags, or as many as there are bags.",
            )
        return array

    def with_log_size(self) -> Self:
        """Return the same bags with one covariate more, ``log_size``: the logarithm of N_i.

        How many points a bag has is often informative (a patient with many visits is ill), but the
        mean of a bag's features does not depend on it. This gives it back to the model.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> Bags.from_list([[[0.0]], [[0.0], [1.0]]]).with_log_size().covariates.round(2)
        array([[0.  ], [0.69]])
        """
        log_size = np.log(self.sizes)[:, None]
        if self.covariates is None:
            return self.with_covariates(log_size, [LOG_SIZE])
        names = self.covariate_names or tuple(f"covariate_{j}" for j in range(self.n_covariates))
        return self.with_covariates(np.hstack([self.covariates, log_size]), (*names, LOG_SIZE))

    def centred(self) -> Self:
        """Return the same bags with each point less the mean of its bag: what is left is the shape.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> Bags.from_list([[[0.0], [2.0]], [[5.0]]]).centred().points.ravel()
        array([-1.,  1.,  0.])
        """
        if self.of_objects:
            raise InvalidBagsError.because(
                "the points are objects, which have no mean",
                "points of numbers",
                "Leave them as they are: center=False.",
            )
        points, sizes = np.asarray(self.points, dtype=np.float64), np.diff(self.offsets)
        for _ in range(2):  # the second time takes what rounding left of the mean
            middle = np.add.reduceat(points * self.shares[:, None], self.offsets[:-1])
            points = points - np.repeat(middle, sizes, axis=0)
        # what is left of points that are all equal is no shape, but how the mean was rounded
        points[np.abs(points) <= ROUNDING * np.abs(self.points).max(axis=0)] = 0.0
        return self.with_points(points, self.feature_names)

    def with_deviations(self) -> Self:
        """Return the same bags with, beside each column, how far values are from the bag's mean.

        A point x becomes x and √(N/(N − 1)) |x − mean of its bag|, of twice as many columns: their
        averages are the mean and the mean deviation of the bag. The factor makes up for the mean
        being that of the same points; N is Kish's size, and counts as 2 or more.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> Bags.from_list([[[0.0], [2.0]], [[5.0]]]).with_deviations().points.round(3)
        array([[0.   , 1.414], [2.   , 1.414], [5.   , 0.   ]])
        """
        factor = np.repeat(deviation_factor(self.effective_sizes), np.diff(self.offsets))
        away = factor[:, None] * np.abs(self.centred().points)
        points, names = np.hstack([np.asarray(self.points, np.float64), away]), self.feature_names
        if names is not None:
            names = (*names, *(f"deviation of {name}" for name in names))
        return self.with_points(points, names)

    def without_covariates(self) -> Self:
        """Return the same bags without covariates."""
        return self._like(covariates=None, covariate_names=None)

    def with_points(self, points: Any, feature_names: Any = None) -> Self:
        """Return the same bags with other points (n_points, any number of features).

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> bags = Bags.from_list([[[1.0]], [[2.0], [3.0]]])
        >>> bags.with_points(10 * bags.points)[1]
        array([[20.], [30.]])
        """
        array, names = to_matrix(points, "the array of points", feature_names)
        names = check_names(names, array.shape[1], "feature")
        array = check_points(array, self.offsets, self.ids, names)
        return self._like(points=array, feature_names=names)

    @classmethod
    def concatenate(cls, parts: Sequence[StackedBags]) -> Self:
        """Put several ``Bags`` one after the other; ids may repeat, missing weights count as 1.

        Examples
        --------
        >>> from bagwise.bags.bags import Bags
        >>> bags = Bags.from_array(np.zeros((2, 3, 1)))
        >>> Bags.concatenate([bags, bags]).ids.tolist()
        [0, 1, 0, 1]
        """
        if len(parts) == 0:
            raise no_bags()
        for position, part in enumerate(parts):
            _check_same_columns(parts[0], part, position)
        ids = id_array([bag_id for part in parts for bag_id in part.ids])
        if any(isinstance(part.ids, CountedIds) for part in parts):  # they still only count
            ids = ids.view(CountedIds)
        weights = [np.ones(p.n_points) if p.weights is None else p.weights for p in parts]
        weighted = any(part.weights is not None for part in parts)
        covariates = [part.covariates for part in parts if part.covariates is not None]
        return cls(
            points=stacked(part.points for part in parts),
            offsets=sizes_to_offsets(np.concatenate([part.sizes for part in parts])),
            ids=ids,
            weights=np.concatenate(weights) if weighted else None,
            covariates=np.concatenate(covariates) if covariates else None,
            feature_names=parts[0].feature_names,
            covariate_names=parts[0].covariate_names,
        )

    def _counts(self) -> str:
        nouns = ["bag", "point"] + ["feature"] * (not self.of_objects)
        nouns += ["covariate"] * (self.n_covariates > 0)
        parts = [_count(getattr(self, f"n_{noun}s"), noun) for noun in nouns]
        parts += ["objects"] * self.of_objects
        return ", ".join(parts + ["weighted"] * self.weighted)

    def __repr__(self) -> str:
        text = self._counts()
        if self.n_bags:
            sizes = " / ".join(map(str, self.size_quantiles()))
            text += f"; sizes {sizes} (min / 25% / median / 75% / max)"
        return f"{type(self).__name__}({text})"

    def _repr_html_(self) -> str:
        title = f"{type(self).__name__}: {self._counts()}"
        if not self.n_bags:
            return panel(title)
        quartiles = self.size_quantiles()
        names = zip(("min", "25%", "median", "75%", "max"), quartiles, strict=True)
        edges = np.unique(np.geomspace(quartiles[0], quartiles[-1] + 1, N_BARS).astype(np.int64))
        counts = np.histogram(self.sizes, edges)[0].tolist()
        ends = zip(edges[:-1], edges[1:] - 1, counts, strict=True)
        titles = [f"{_count(n, 'bag')} of {a} to {b} points" for a, b, n in ends]
        parts = [line("sizes", ", ".join(f"{name} {size:,}" for name, size in names))]
        parts += [bars(counts, titles), line("ids", listed(self.ids.tolist()))]
        named = (("columns", self.feature_names), ("covariates", self.covariate_names))
        parts += [line(what, listed(names)) for what, names in named if names is not None]
        return panel(title, *parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named_covariates(
    covariates: Any, names: Any, ids: Shaped[np.ndarray, " n_bags"]
) -> tuple[Float64[np.ndarray, "n_bags n_covariates"] | None, Names]:
    """Return checked covariates and their names, which a data frame brings along."""
    if covariates is None:
        if names is not None:
            raise InvalidBagsError.because(
                "there are covariate names but no covariates",
                "both or neither",
                "Pass covariates=..., or leave out covariate_names.",
            )
        return None, None
    covariates = in_bag_order(covariates, ids, "covariates", InvalidBagsError)
    if np.ndim(covariates) == 2:
        covariates, names = to_matrix(covariates, "the array of covariates", names)
    columns = covariates.shape[1] if np.ndim(covariates) == 2 else 1
    names = check_names(names, columns, "covariate")
    return check_covariates(covariates, ids, names), names


def _check_same_columns(first: StackedBags, other: StackedBags, position: int) -> None:
    """Raise unless two Bags that are to be put together have the same features and covariates."""
    if first.of_objects != other.of_objects:
        kinds = ["objects" if bags.of_objects else "numbers" for bags in (other, first)]
        raise InvalidBagsError.because(
            f"the points of the Bags at position {position} are {kinds[0]}",
            f"{kinds[1]}, as those of the first",
            "Put together bags of one kind.",
        )
    for what in ("feature", "covariate"):
        mine, theirs = (  # the names, or how many if there are none
            getattr(bags, f"{what}_names") or getattr(bags, f"n_{what}s") for bags in (first, other)
        )
        if mine != theirs:
            raise InvalidBagsError.because(
                f"the Bags at position {position} have {what}s {theirs} but the first have {mine}",
                f"the same {what}s in the same order",
                f"Give all the same {what}s, with the same names, before putting them together.",
            )


def deviation_factor(sizes: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Return √(N/(N − 1)), by which deviations from a mean of N points itself are too small.

    Examples
    --------
    >>> deviation_factor(np.array([1.0, 2.0, 4.0])).round(3)
    array([1.414, 1.414, 1.155])
    """
    sizes = np.maximum(sizes, 2.0)
    return np.sqrt(sizes / (sizes - 1.0))
