"""StreamedBags: bags whose points stay on disk, and are read in passes, in any order of rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, Self

import numpy as np
from jaxtyping import Float, Float64, Int64

from bagwise.bags.grouping import group_columns, keys
from bagwise.bags.stacked import Batch, StackedBags
from bagwise.bags.tables.census import Rows
from bagwise.bags.tables.reader import Passes, Reading
from bagwise.exceptions import InvalidBagsError


class StreamedBags(StackedBags):
    """Bags whose points stay on disk; the rest of :class:`StackedBags`, found in a first pass.

    Memory grows with the number of bags, not of points. The points come in batches, see
    :meth:`batches`; whatever asks for all of them is refused.
    """

    feature_mean: Float64[np.ndarray, " n_features"]
    feature_std: Float64[np.ndarray, " n_features"]
    feature_range: tuple[Float64[np.ndarray, " n_features"], Float64[np.ndarray, " n_features"]]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.refuse("a stream is made from a file")

    @classmethod
    def of(cls, reading: Reading) -> Self:
        """Make bags of what was found in passes over a file."""
        census, bags = reading.census, object.__new__(cls)
        spread, (totals, effective) = census.spread, census.weight_sums()
        assert spread is not None
        bags.__dict__.update(
            **reading.parts,
            feature_mean=spread.center,
            feature_std=np.sqrt(spread.squares / spread.n),
            feature_range=tuple(census.extremes.ends),
            _effective_sizes=effective,
            _totals=totals,
            _codes=census.bags.codes,
            _passes=reading.passes,
            **({} if census.weighted else {"weights": None}),
        )
        return bags

    @staticmethod
    def refuse(found: str) -> NoReturn:
        """Raise, for what can only be done in memory."""
        raise InvalidBagsError.because(
            found,
            "bags in memory, for whatever works on single points or some of the bags",
            "Read them with Bags.from_parquet; or keep to fit and predict of models with "
            "landmarks, such as ShrinkageRegressor() or MeanEmbeddingRidge(exact=False).",
        )

    def __getattr__(self, name: str) -> Any:
        if name in ("points", "weights"):
            self.refuse(f"the {name} of these bags stay on disk")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def weighted(self) -> bool:
        """Whether the points have weights."""
        return "weights" not in self.__dict__

    @property
    def n_points(self) -> int:
        """Number of points in all bags together."""
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        """Number of features p of a point."""
        return len(self.feature_mean)

    @property
    def effective_sizes(self) -> Float64[np.ndarray, " n_bags"]:
        """Kish's effective size of each bag, (Σ w)² / Σ w²; the size itself without weights."""
        return self._effective_sizes.copy()

    @property
    def totals(self) -> Float64[np.ndarray, " n_bags"]:
        """Σ w of each bag; without weights, its number of points."""
        return self._totals

    def __getitem__(self, key: Any) -> Any:
        self.refuse("bags on disk cannot be indexed")

    def __iter__(self) -> Iterator[Any]:
        self.refuse("bags on disk cannot be gone through one by one")

    def with_points(self, points: Any, feature_names: Any = None) -> Any:
        """Refuse: the points are on disk."""
        self.refuse("the points of these bags stay on disk")

    def batches(self, title: str = "reading points") -> Iterator[Batch]:
        """Read all points once more, in batches of rows sorted by bag, with a progress bar."""
        seen = np.zeros(self.n_bags, dtype=np.int64)
        passes: Passes = self._passes
        found = passes.rows(lambda rows: self._batch(rows, seen), title, points_only=True)
        yield from (batch for batch in found if batch is not None)
        if not np.array_equal(seen, self.sizes):
            raise _changed()

    def _batch(self, rows: Rows, seen: Int64[np.ndarray, " n_bags"]) -> Batch | None:
        """Sort rows by bag, and count them; None if there are none."""
        if not len(rows.points):
            return None
        grouping = group_columns(rows.ids)
        sizes = np.diff(grouping.offsets)
        try:
            codes = np.array([self._codes[key] for key in keys(grouping.ids)], dtype=np.int64)
        except KeyError:
            raise _changed() from None
        shares = np.repeat(1.0 / self._totals[codes], sizes)
        if rows.weights is not None:
            shares *= grouping.sort(rows.weights)
        before = seen[codes]
        seen[codes] += sizes
        return Batch(grouping.sort(rows.points), shares, codes, grouping.offsets, before)

    def rows_at(
        self, rows: Int64[np.ndarray, " k"], title: str = "drawing points"
    ) -> tuple[Float[np.ndarray, "k n_features"], Float64[np.ndarray, " k"]]:
        """Return some points by their row, and the share of each in its bag."""
        order = np.argsort(rows, kind="stable")
        wanted, found = rows[order], np.empty((len(rows), self.n_features))
        shares = np.empty(len(rows))
        for batch in self.batches(title):
            first = self.offsets[batch.bags] + batch.seen - batch.starts[:-1]
            stacked = np.repeat(first, np.diff(batch.starts)) + np.arange(len(batch.points))
            place = np.minimum(np.searchsorted(wanted, stacked), len(wanted) - 1)
            hit = wanted[place] == stacked
            found[order[place[hit]]] = batch.points[hit]
            shares[order[place[hit]]] = batch.shares[hit]
        return found, shares


def _changed() -> InvalidBagsError:
    return InvalidBagsError.because(
        "the file has changed since it was first read",
        "the same rows in every pass",
        "Scan it again, and leave it alone until the fit is done.",
    )
