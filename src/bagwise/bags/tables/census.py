"""Census: what rows in any order, as they come, say about the bags that they belong to."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from bagwise.bags.grouping import Grouping, group_columns, id_array, keys, locate
from bagwise.bags.tables.read_report import Constancy, Extremes, grown
from bagwise.bags.tables.rows import Rows
from bagwise.bags.validation import bad_weight, is_weight, no_weight
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError


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

    @property
    def sizes(self) -> Int64[np.ndarray, " k"]:
        """Number of rows of each piece."""
        return np.diff(self.grouping.offsets)

    def bag_of_rows(self) -> Int64[np.ndarray, " m"]:
        """Return the number of the bag of each row, in the order of the rows."""
        return self.grouping.unsort(np.repeat(self.codes, self.sizes))

    def first_rows(self) -> Int64[np.ndarray, " n_new"]:
        """Return the first row of each bag that comes for the first time."""
        order = self.grouping.sort(np.arange(self.grouping.offsets[-1]))
        return order[self.grouping.offsets[:-1]][self.new]

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
        rows = self.grouping.sort(rows)
        known[self.codes[self.new]] = rows[self.grouping.offsets[:-1]][self.new]
        self.grouping.check_constant(rows, known[self.codes], self.seen, name, error)


class BagCounts:
    """Ids and sizes of bags, numbered by first appearance, as rows come.

    Attributes
    ----------
    codes : key of a bag, see :func:`bagwise.bags.grouping.keys`, ↦ its number

    Examples
    --------
    >>> counts = BagCounts()
    >>> for ids in (["b", "a", "b"], ["a", "c"]):
    ...     _ = counts.add((np.array(ids),))
    >>> counts.ids, counts.sizes
    (array(['b', 'a', 'c'], dtype='<U1'), array([2, 2, 1]))
    """

    def __init__(self) -> None:
        self.codes: dict[Any, int] = {}
        self._ids: list[Shaped[np.ndarray, " k"]] = []
        self._sizes = np.zeros(0, dtype=np.int64)

    def add(self, columns: tuple[Shaped[np.ndarray, " m"], ...]) -> Pieces:
        """Count rows, given by the columns of their bag id, and cut them into pieces."""
        grouping, n = group_columns(columns), len(self.codes)
        codes = np.array(
            [self.codes.setdefault(key, len(self.codes)) for key in keys(grouping.ids)],
            dtype=np.int64,
        )
        self._ids.append(grouping.ids[codes >= n])
        self._sizes = grown(self._sizes, len(self.codes))
        pieces = Pieces(grouping, codes, self._sizes[codes], codes >= n)
        self._sizes[codes] += pieces.sizes
        return pieces

    @property
    def ids(self) -> Shaped[np.ndarray, " n"]:
        """Id of each bag."""
        if len({part.dtype for part in self._ids if part.dtype.kind in "iuO"}) > 1:
            return id_array([bag for part in self._ids for bag in part.tolist()])
        return np.concatenate(self._ids)

    @property
    def sizes(self) -> Int64[np.ndarray, " n"]:
        """Number of rows of each bag."""
        return self._sizes[: len(self.codes)]


class Census:
    """Ids, sizes, weights, covariates and labels of bags, and what their points look like.

    Rows are added in batches, in the order of the table.

    Attributes
    ----------
    bags : BagCounts
    n_points;  gaps : number of missing values by column;  weighted : whether points have weights
    spread : mean and squares of the points, if that is asked for;  extremes : their range
    extremes, constancy : for outliers and, if watched, for columns that are constant in bags

    Examples
    --------
    >>> from bagwise.bags.tables.schema import Schema
    >>> import pyarrow as pa
    >>> schema, census = Schema(("bag",), ("x",)), Census(spread=True)
    >>> for bags, x in (["b", "a"], [1.0, 2.0]), (["b", "b"], [3.0, 6.0]):
    ...     _ = census.add(schema.arrays(pa.table({"bag": bags, "x": x})))
    >>> census.bags.ids, census.bags.sizes, census.spread.center, census.spread.squares
    (array(['b', 'a'], dtype='<U1'), array([3, 1]), array([3.]), array([14.]))
    """

    def __init__(
        self,
        covariates: tuple[str, ...] = (),
        label: str | None = None,
        *,
        watch: bool = False,
        spread: bool = False,
    ) -> None:
        self.bags = BagCounts()
        self.extremes, self.constancy = Extremes(), Constancy() if watch else None
        self.spread = Spread() if spread else None
        self.n_points, self.weighted = 0, False
        self.gaps = Counter[str]()
        self._covariate_names, self._label = covariates, label
        self._left_out: dict[Any, Any] = {}
        self._weights = np.zeros((0, 3))  # largest w, Σ w/largest, Σ (w/largest)²
        self._covariates = np.zeros((0, len(covariates)))
        self._labels: Any = None

    def add(self, rows: Rows) -> Pieces | None:
        """Count some rows; return how they were cut into pieces, None if there are none."""
        self.gaps.update(rows.gaps)
        if len(rows.left_out[0]):
            ids = group_columns(rows.left_out).ids
            self._left_out |= dict(zip(keys(ids), ids.tolist(), strict=True))
        if not len(rows.points):
            return None
        pieces = self.bags.add(rows.ids)
        self.n_points += len(rows.points)
        self._look_at(rows, pieces)
        self._covariates = grown(self._covariates, len(self.bags.codes))
        for j, name in enumerate(self._covariate_names):
            known = self._covariates[:, j]
            pieces.constant(rows.covariates[:, j], known, f"covariate column {name!r}")
        if rows.labels is not None:
            self._add_labels(rows.labels, pieces)
        if rows.weights is not None:
            self._add_weights(rows.weights, pieces)
        return pieces

    def _look_at(self, rows: Rows, pieces: Pieces) -> None:
        """Note what the points look like."""
        self.extremes.add(rows.points)
        if self.spread is not None:
            self.spread.add(rows.points.astype(np.float64, copy=False))
        if self.constancy is not None and self.constancy.possible:
            self.constancy.add(rows.points, pieces.bag_of_rows())

    @property
    def lost_bags(self) -> tuple[Any, ...]:
        """Ids of the bags of which every row was left out."""
        return tuple(bag for key, bag in self._left_out.items() if key not in self.bags.codes)

    def _add_weights(self, weights: Float64[np.ndarray, " m"], pieces: Pieces) -> None:
        """Add up weights and their squares, scaled by the largest of the bag so far."""
        self.weighted = True
        weights, starts = pieces.grouping.sort(weights), pieces.grouping.offsets[:-1]
        bad = np.flatnonzero(~is_weight(weights))
        if len(bad):
            raise bad_weight(*pieces.locate(int(bad[0])), weights[bad[0]])
        self._weights = grown(self._weights, len(self.bags.codes))
        before, total, squares = self._weights[pieces.codes].T
        largest = np.maximum(before, np.maximum.reduceat(weights, starts))
        unit = np.where(largest > 0, largest, 1.0)
        scaled = weights / np.repeat(unit, pieces.sizes)
        total = total * (before / unit) + np.add.reduceat(scaled, starts)
        squares = squares * (before / unit) ** 2 + np.add.reduceat(scaled**2, starts)
        self._weights[pieces.codes] = np.column_stack([largest, total, squares])

    def _add_labels(self, labels: Shaped[np.ndarray, " m"], pieces: Pieces) -> None:
        if labels.dtype.kind not in "fiubmM":  # text of any length
            labels = labels.astype(object)
        known = labels[:0] if self._labels is None else self._labels
        self._labels = grown(known, len(self.bags.codes), labels.dtype)
        pieces.constant(labels, self._labels, f"label column {self._label!r}", InvalidLabelsError)

    @property
    def covariates(self) -> dict[str, Float64[np.ndarray, " n"]]:
        """Covariates of each bag, by name."""
        n_bags = len(self.bags.codes)
        return dict(zip(self._covariate_names, self._covariates[:n_bags].T, strict=True))

    @property
    def labels(self) -> Shaped[np.ndarray, " n"] | None:
        """Label of each bag, None if they have none."""
        return None if self._labels is None else self._labels[: len(self.bags.codes)]

    def weight_sums(self) -> tuple[Float64[np.ndarray, " n"], Float64[np.ndarray, " n"]]:
        """Return Σ w of each bag and its effective size (Σ w)² / Σ w²."""
        if not self.weighted:
            sizes = self.bags.sizes.astype(np.float64)
            return sizes, sizes
        largest, total, squares = self._weights[: len(self.bags.codes)].T
        empty = np.flatnonzero(largest == 0)
        if len(empty):
            raise no_weight(self.bags.ids[empty[0]])
        return largest * total, total**2 / squares


class Spread:
    """Mean of points, and Σ (x − center)², as batches come: both are (p,)."""

    def __init__(self) -> None:
        self._n = 0
        self.center = self.squares = np.zeros(0)

    def add(self, points: Float64[np.ndarray, "m p"]) -> None:
        """Merge mean and squares of these points with those before (Chan, Golub, LeVeque 1983)."""
        n, m = self._n, len(points)
        center = points.mean(axis=0)
        squares = ((points - center) ** 2).sum(axis=0)
        if n:
            gap = center - self.center
            center = self.center + gap * (m / (n + m))
            squares = self.squares + squares + gap**2 * (n * m / (n + m))
        self.center, self.squares, self._n = center, squares, n + m
