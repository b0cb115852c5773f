"""Census: what one pass over rows in any order finds out about the bags that they belong to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from bagwise.bags.grouping import Grouping, id_array, locate, missing, show
from bagwise.bags.tables.constancy import Constancy
from bagwise.bags.tables.frames import group_columns
from bagwise.bags.tables.joining import keys
from bagwise.bags.tables.outliers import Extremes, Outlier
from bagwise.bags.tables.rows import Rows
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

FIRST_ROOM = 1024  # bags for which there is room at first; it doubles when it is full


class Growing:
    """An array with an entry for each bag, that grows as bags appear.

    Examples
    --------
    >>> sizes = Growing(np.zeros(0, dtype=np.int64))
    >>> sizes.reach(2)
    >>> sizes.values[1] += 5
    >>> sizes.values
    array([0, 5])
    """

    def __init__(self, like: Shaped[np.ndarray, "..."]) -> None:
        self._room = np.zeros((FIRST_ROOM, *like.shape[1:]), dtype=like.dtype)
        self._n = 0

    @property
    def values(self) -> Any:
        """The entries so far, to be changed in place."""
        return self._room[: self._n]

    def reach(self, n: int, dtype: Any = None) -> None:
        """Make entries, of zeros, for n bags, of a type that has room for dtype too."""
        if dtype is not None and dtype != self._room.dtype:
            self._room = self._room.astype(np.result_type(dtype, self._room.dtype))
        if n > len(self._room):
            room = np.zeros((max(n, 2 * len(self._room)), *self._room.shape[1:]), self._room.dtype)
            room[: self._n] = self.values
            self._room = room
        self._n = n


class Census:
    """Ids, sizes, weights, covariates and labels of bags, and the spread of their points.

    Rows are added in batches, in the order of the data set. Bags are numbered by first appearance.

    Attributes
    ----------
    codes : key of a bag, see :func:`bagwise.bags.tables.joining.keys`, ↦ its number
    n_points;  gaps : number of missing values by column;  weighted : whether points have weights
    center, squares : (p,), mean of all points and Σ (x − center)²;  least, largest : (p,)

    Examples
    --------
    >>> from bagwise.bags.tables.schema import Schema
    >>> import pyarrow as pa
    >>> schema, census = Schema(("bag",), ("x",)), Census()
    >>> for bags, x in (["b", "a"], [1.0, 2.0]), (["b", "b"], [3.0, 6.0]):
    ...     census.add(schema.arrays(pa.table({"bag": bags, "x": x})))
    >>> census.ids, census.sizes, census.center, census.squares
    (array(['b', 'a'], dtype='<U1'), array([3, 1]), array([3.]), array([14.]))
    """

    def __init__(
        self, covariates: tuple[str, ...] = (), label: str | None = None, *, watch: bool = False
    ) -> None:
        self._extremes, self._constancy = Extremes(), Constancy() if watch else None
        self.codes: dict[Any, int] = {}
        self.n_points, self.weighted = 0, False
        self.gaps: dict[str, int] = {}
        self.center = self.squares = self.least = self.largest = np.zeros(0)
        self._covariate_names, self._label = covariates, label
        self._ids: list[Shaped[np.ndarray, " k"]] = []
        self._left_out: dict[Any, Any] = {}
        self._sizes = Growing(np.zeros(0, dtype=np.int64))
        self._weights = Growing(np.zeros((0, 3)))  # largest w, Σ w/largest, Σ (w/largest)²
        self._covariates = Growing(np.zeros((0, len(covariates))))
        self._labels: Growing | None = None

    def add(self, rows: Rows) -> None:
        """Count some rows."""
        for name, number in rows.gaps.items():
            self.gaps[name] = self.gaps.get(name, 0) + number
        if not rows.keep.all():
            self._note_left_out(rows)
            rows = rows.kept()
        if not len(rows.points):
            return
        pieces = self._cut(rows)
        self._add_points(rows.points.astype(np.float64, copy=False))
        self._extremes.add(rows.points)
        if self._constancy is not None and self._constancy.possible:
            self._constancy.add(rows.points, pieces.bag_of_rows())
        if rows.weights is not None:
            self._add_weights(rows.weights, pieces)
        for j, name in enumerate(self._covariate_names):
            known = self._covariates.values[:, j]
            pieces.constant(rows.covariates[:, j], known, f"covariate column {name!r}")
        if rows.labels is not None:
            self._add_labels(rows.labels, pieces)
        self._sizes.values[pieces.codes] += np.diff(pieces.grouping.offsets)

    def _note_left_out(self, rows: Rows) -> None:
        """Keep the ids of rows that are left out: their bags may have no others."""
        known = ~np.any([missing(column) for column in rows.ids], axis=0)
        out = tuple(column[known & ~rows.keep] for column in rows.ids)
        if len(out[0]):
            ids = group_columns(out).ids
            self._left_out |= dict(zip(keys(ids), ids.tolist(), strict=True))

    @property
    def lost_bags(self) -> tuple[Any, ...]:
        """Ids of the bags of which every row was left out."""
        return tuple(bag for key, bag in self._left_out.items() if key not in self.codes)

    def _cut(self, rows: Rows) -> Pieces:
        """Group rows by bag, number the bags not seen before, and make room for them."""
        grouping, n = group_columns(rows.ids), len(self.codes)
        codes = np.array(
            [self.codes.setdefault(key, len(self.codes)) for key in keys(grouping.ids)],
            dtype=np.int64,
        )
        self._ids.append(grouping.ids[codes >= n])
        for column in (self._sizes, self._weights, self._covariates):
            column.reach(len(self.codes))
        return Pieces(grouping, codes, self._sizes.values[codes], codes >= n)

    def _add_points(self, points: Float64[np.ndarray, "m p"]) -> None:
        """Merge mean and squares of these points with those before (Chan, Golub, LeVeque 1983)."""
        n, m = self.n_points, len(points)
        center = points.mean(axis=0)
        squares = ((points - center) ** 2).sum(axis=0)
        least, largest = points.min(axis=0), points.max(axis=0)
        if n:
            least, largest = np.minimum(least, self.least), np.maximum(largest, self.largest)
            gap = center - self.center
            center = self.center + gap * (m / (n + m))
            squares = self.squares + squares + gap**2 * (n * m / (n + m))
        self.center, self.squares, self.n_points = center, squares, n + m
        self.least, self.largest = least, largest

    def _add_weights(self, weights: Float64[np.ndarray, " m"], pieces: Pieces) -> None:
        """Add up weights and their squares, scaled by the largest of the bag so far."""
        self.weighted = True
        weights, starts = pieces.grouping.sort(weights), pieces.grouping.offsets[:-1]
        bad = np.flatnonzero(~(np.isfinite(weights) & (weights >= 0)))
        if len(bad):
            bag, row = pieces.locate(int(bad[0]))
            raise InvalidBagsError.because(
                f"bag {show(bag)}, row {row} has weight {weights[bad[0]]}",
                "a finite weight of at least 0",
                "Drop the point or give it another weight.",
            )
        before, total, squares = self._weights.values[pieces.codes].T
        largest = np.maximum(before, np.maximum.reduceat(weights, starts))
        unit = np.where(largest > 0, largest, 1.0)
        scaled = weights / np.repeat(unit, np.diff(pieces.grouping.offsets))
        total = total * (before / unit) + np.add.reduceat(scaled, starts)
        squares = squares * (before / unit) ** 2 + np.add.reduceat(scaled**2, starts)
        self._weights.values[pieces.codes] = np.column_stack([largest, total, squares])

    def _add_labels(self, labels: Shaped[np.ndarray, " m"], pieces: Pieces) -> None:
        if labels.dtype.kind not in "fiubmM":  # text of any length
            labels = labels.astype(object)
        self._labels = self._labels or Growing(labels[:0])
        self._labels.reach(len(self.codes), labels.dtype)
        name = f"label column {self._label!r}"
        pieces.constant(labels, self._labels.values, name, InvalidLabelsError)

    def outliers(self) -> list[Outlier]:
        """Return values of the features that lie far from all others."""
        return self._extremes.outliers()

    def constant(self) -> list[int]:
        """Return the features that are constant in every bag, if they were watched."""
        return [] if self._constancy is None else self._constancy.columns(self.sizes)

    @property
    def ids(self) -> Shaped[np.ndarray, " n"]:
        """Id of each bag."""
        if len({part.dtype for part in self._ids if part.dtype.kind in "iuO"}) > 1:
            return id_array([bag for part in self._ids for bag in part.tolist()])
        return np.concatenate(self._ids)

    @property
    def sizes(self) -> Int64[np.ndarray, " n"]:
        """Number of points of each bag."""
        return self._sizes.values.copy()

    @property
    def covariates(self) -> dict[str, Float64[np.ndarray, " n"]]:
        """Covariates of each bag, by name."""
        return dict(zip(self._covariate_names, self._covariates.values.T.copy(), strict=True))

    @property
    def labels(self) -> Shaped[np.ndarray, " n"] | None:
        """Label of each bag."""
        return None if self._labels is None else self._labels.values.copy()

    def weight_sums(self) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Return Σ w of each bag and its effective size (Σ w)² / Σ w²."""
        if not self.weighted:
            sizes = self.sizes.astype(np.float64)
            return sizes, sizes
        largest, total, squares = self._weights.values.T
        empty = np.flatnonzero(largest == 0)
        if len(empty):
            raise InvalidBagsError.because(
                f"all weights of bag {show(self.ids[empty[0]])} are 0",
                "a positive sum of weights in every bag",
                "Drop the bag, or give at least one of its points a positive weight.",
            )
        return largest * total, total**2 / squares


@dataclass(frozen=True, eq=False)
class Pieces:
    """Rows cut into one piece per bag.

    Attributes
    ----------
    grouping : of the rows, into k pieces
    codes : (k,) numbers of the bags;  new : (k,) whether they come for the first time
    seen : (k,) rows of the bags that came before
    """

    grouping: Grouping
    codes: Int64[np.ndarray, " k"]
    seen: Int64[np.ndarray, " k"]
    new: Bool[np.ndarray, " k"]

    def bag_of_rows(self) -> Int64[np.ndarray, " m"]:
        """Return the number of the bag of each row, in the order of the rows."""
        bags = np.repeat(self.codes, np.diff(self.grouping.offsets))
        if self.grouping.order is None:
            return bags
        out = np.empty_like(bags)
        out[self.grouping.order] = bags
        return out

    def locate(self, position: int) -> tuple[Any, int]:
        """Return the id of the bag, and the number in it, of a row once they are sorted."""
        piece, within = locate(position, self.grouping.offsets)
        return self.grouping.ids[piece], int(self.seen[piece]) + within

    def constant(
        self,
        rows: Shaped[np.ndarray, " m"],
        known: Shaped[np.ndarray, " n"],
        name: str,
        error: type[BagwiseError] = InvalidBagsError,
    ) -> None:
        """Write the value of each new bag to ``known``; raise if a row differs from its bag's."""
        rows, offsets = self.grouping.sort(rows), self.grouping.offsets
        known[self.codes[self.new]] = rows[offsets[:-1]][self.new]
        expected = np.repeat(known[self.codes], np.diff(offsets))
        differs = np.flatnonzero(rows != expected)
        if len(differs):
            bag, row = self.locate(int(differs[0]))
            raise error.because(
                f"{name} changes within bag {show(bag)}: {show(expected[differs[0]])} in row 0 "
                f"but {show(rows[differs[0]])} in row {row}",
                "one value for the whole bag",
                "Aggregate it to one value per bag first.",
            )
