"""StreamedBags: bags whose points stay on disk, and are read in passes, in any order of rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
from jaxtyping import Float, Float64, Int64

from bagwise._utils.work import Progress
from bagwise.bags.grouping import Numbers, bag_positions
from bagwise.bags.per_bag import rows_by_key
from bagwise.bags.stacked import Batch, StackedBags
from bagwise.bags.tables.census import BagCounts, GroupedPoints, Rows
from bagwise.bags.tables.reader import Passes, PieceBags, Reading
from bagwise.exceptions import InvalidBagsError

T = TypeVar("T")

# Rows of a batch that are grouped, the number of each bag, and its rows that came before.
Passed = tuple[GroupedPoints, Int64[np.ndarray, " k"], Int64[np.ndarray, " k"]]

# Bags of a piece beyond which it is worked on in shards: their sums are what a worker has to hold,
# 200 MB of them with 200 features.
SHARD_BAGS = 1 << 17

DRAWING = "drawing points"  # what is being done, where some rows are asked for


class StreamedBags(StackedBags):
    """Bags whose points stay on disk; the rest of :class:`StackedBags`, found in a first pass.

    Memory grows with the number of bags, not of points, but for half a gigabyte of them at most
    that may be kept (``KEPT_BYTES``). The points come in batches, see :meth:`batches`; what asks
    for all of them is refused.
    """

    # Of the points, as the first pass found them; None of some of the bags of a stream.
    feature_mean: Float64[np.ndarray, " n_features"] | None
    feature_std: Float64[np.ndarray, " n_features"] | None
    feature_range: (
        tuple[Float64[np.ndarray, " n_features"], Float64[np.ndarray, " n_features"]] | None
    )

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
            _pieces=reading.pieces,
            _kept=reading.kept,
            **({} if census.weighted else {"weights": None}),
        )
        return bags

    @staticmethod
    def refuse(found: str) -> NoReturn:
        """Raise, for what can only be done in memory."""
        raise InvalidBagsError.because(
            found,
            "bags in memory, for whatever works on single points",
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
        return len(self._passes.schema.feature_names)

    @property
    def effective_sizes(self) -> Float64[np.ndarray, " n_bags"]:
        """Kish's effective size of each bag, (Σ w)² / Σ w²; the size itself without weights."""
        return self._effective_sizes.copy()

    @property
    def totals(self) -> Float64[np.ndarray, " n_bags"]:
        """Σ w of each bag; without weights, its number of points."""
        return self._totals

    def __getitem__(self, key: Any) -> Any:
        """Return some of the bags, as a stream: of the rows of the others nothing is used.

        Keys are those of :meth:`StackedBags.__getitem__`, but no single bag, whose points are on
        disk. Every pass still reads the whole file.
        """
        if isinstance(key, tuple) and len(key) == 2 and key[1] is Ellipsis:
            key = key[0]
        key = rows_by_key(key, self.ids)
        if isinstance(key, int | np.integer) and not isinstance(key, bool):
            self.refuse("the points of a single bag stay on disk")
        every = np.arange(self.n_bags)
        chosen = every[key] if isinstance(key, slice) else bag_positions(key, self.n_bags)
        place = np.full(self.n_bags, -1)
        place[chosen] = np.arange(len(chosen))
        if np.count_nonzero(place >= 0) < len(chosen):
            self.refuse("a bag on disk was chosen twice")
        kept = [np.flatnonzero(place[piece.bags] >= 0) for piece in self._pieces]
        codes = {key: int(place[code]) for key, code in self._codes.items() if place[code] >= 0}
        found = self._like(
            ids=self.ids[chosen],
            offsets=np.concatenate([[0], np.cumsum(self.sizes[chosen])]),
            covariates=None if self.covariates is None else self.covariates[chosen],
            feature_mean=None,  # to be found in a pass of their own
            feature_std=None,
            feature_range=None,
            _effective_sizes=self._effective_sizes[chosen],
            _totals=self._totals[chosen],
            _codes=codes,
            _passes=replace(self._passes, bags=frozenset(codes)),
            _kept=None if self._kept is None else self._kept.some(place),
            _pieces=[
                PieceBags(place[piece.bags[rows]], piece.sizes[rows])
                for piece, rows in zip(self._pieces, kept, strict=True)
            ],
        )
        for name in ("_awaited", "_brought"):  # rows of all bags, which have other places here
            found.__dict__.pop(name, None)
        return found

    def __iter__(self) -> Iterator[Any]:
        self.refuse("bags on disk cannot be gone through one by one")

    def with_points(self, points: Any, feature_names: Any = None) -> Any:
        """Refuse: the points are on disk."""
        self.refuse("the points of these bags stay on disk")

    def batches(self, title: str = "reading points") -> Iterator[Batch]:
        """Read all points once more, in batches of rows sorted by bag, with a progress bar."""
        for rows, codes, seen in self.passed(title, sort=True):
            yield _batch(rows, codes, seen, self._totals)

    def passed(self, title: str, *, sort: bool = False) -> Iterator[Passed]:
        """Go through all points: grouped rows, their bags, and how many rows came before."""
        seen = np.zeros(self.n_bags, dtype=np.int64)
        for rows in (
            self._read_again(title, sort) if self._kept is None else self._remembered(title)
        ):
            codes = rows.grouping.ids
            yield rows, codes, seen[codes]
            seen[codes] += np.diff(rows.grouping.offsets)
        if not np.array_equal(seen, self.sizes):
            raise _changed()

    def _remembered(self, title: str) -> Iterator[GroupedPoints]:
        with Progress(title, self.n_points, self._passes.progress) as bar:
            for rows in self._kept:
                yield rows
                bar.advance(len(rows.points))

    def _read_again(self, title: str, sort: bool) -> Iterator[GroupedPoints]:
        passes: Passes = self._passes
        if passes.source.dataset is None:
            self.refuse("the rows of these bags are with the workers of a cluster")
        numbers = Numbers(self._codes)
        for rows in passes.rows(partial(_grouped, sort=sort), title, points_only=True):
            if rows is not None:
                codes = numbers.of(rows.grouping.ids)
                if codes.min() < 0:
                    raise _changed()
                yield rows.numbered(codes)

    def map_parts(
        self,
        work: Callable[..., T],
        title: str = "reading points",
        shard_bags: int = SHARD_BAGS,
    ) -> Iterator[tuple[T, Int64[np.ndarray, " k"]]]:
        """Do work on parts of the bags: on pieces of the file, if an engine has workers for them.

        A piece of very many bags is read several times, each time for some of them. See
        :meth:`StackedBags.map_parts`.
        """
        if self._passes.engine is None:
            yield work(self), np.arange(self.n_bags)
            return
        parts = self._stream_parts(shard_bags)
        made = self._passes.map(work, title, parts)
        yield from zip(made, (part.numbers for part in parts), strict=True)

    def _stream_parts(self, shard_bags: int) -> list[StreamPart]:
        """Return the pieces, or shards of their bags, each with what is known of its bags."""
        parts, seen = list[StreamPart](), np.zeros(self.n_bags, dtype=np.int64)
        for whole, piece in self._stretches(shard_bags):
            first = self.offsets[piece.bags] + seen[piece.bags]
            seen[piece.bags] += piece.sizes
            if len(piece.bags) > shard_bags:
                names = sorted(self._codes, key=self._codes.__getitem__)
            for start in range(0, max(1, len(piece.bags)), shard_bags):
                some = slice(start, start + shard_bags)
                here = piece.bags[some]
                own = whole
                if len(here) < len(piece.bags):
                    own = replace(whole, bags=frozenset(names[i] for i in here))
                known = self._totals[here], self._effective_sizes[here], first[some]
                parts.append(StreamPart(own, here, *known, piece.sizes[some], self.weighted))
        return parts

    def _stretches(self, shard_bags: int) -> Iterator[tuple[Passes, PieceBags]]:
        """Put pieces that lie one after the other together, so that few statistics travel.

        A worker sums a stretch before it sends anything: what travels of shuffled rows is then a
        row for each bag and stretch, and does not grow with the rows. Where a stretch would have
        so many bags that it has to be read several times, it ends.
        """
        passes: Passes = self._passes
        assert passes.engine is not None
        n = len(self._pieces)
        most = max(1, -(-n // passes.engine.n_parts)) if passes.source.can_join else 1
        start = 0
        while start < n:
            stop, own = start + 1, self._pieces[start]
            while stop < min(n, start + most):
                together = own.followed_by(self._pieces[stop])
                if len(together.bags) > shard_bags:
                    break
                stop, own = stop + 1, together
            yield passes.of_pieces(start, stop), own
            start = stop

    def rows_at(
        self, rows: Int64[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, "k n_features"], Float64[np.ndarray, " k"]]:
        """Return some points by their row, and the share of each in its bag.

        If others are awaited, see :meth:`await_rows`, the same pass brings them along.
        """
        brought = self.__dict__.pop("_brought", None)
        if brought is not None and np.array_equal(brought[0], rows):
            return brought[1:]
        awaited = self.__dict__.pop("_awaited", rows[:0])
        points, shares = self._drawn(np.concatenate([rows, awaited]))
        n = len(rows)
        if len(awaited):
            self.__dict__["_brought"] = awaited, points[n:], shares[n:]
        return points[:n], shares[:n]

    def await_rows(self, rows: Int64[np.ndarray, " k"]) -> None:
        """Say that these rows will be asked for after the next ones: a pass over a file is long."""
        self.__dict__["_awaited"] = rows

    def _drawn(
        self, rows: Int64[np.ndarray, " k"]
    ) -> tuple[Float[np.ndarray, "k n_features"], Float64[np.ndarray, " k"]]:
        order = np.argsort(rows, kind="stable")
        found, shares = np.empty((len(rows), self.n_features)), np.empty(len(rows))
        if self._passes.engine is None:
            every = [(_rows_at(self, rows[order]), order)]
        else:
            parts, places = self._asked_of_parts(rows[order])
            made = self._passes.map(_wanted_rows, DRAWING, parts)
            every = [(each, order[own]) for each, own in zip(made, places, strict=True)]
        for (place, points, own), where in every:
            found[where[place]], shares[where[place]] = points, own
        return found, shares

    def _asked_of_parts(
        self, wanted: Int64[np.ndarray, " k"]
    ) -> tuple[list[StreamPart], list[Int64[np.ndarray, " m"]]]:
        """Return the pieces, each with the rows that are wanted of it, and where these are."""
        bag = np.searchsorted(self.offsets, wanted, side="right") - 1
        parts, places = list[StreamPart](), list[np.ndarray]()
        for part in self._stream_parts(SHARD_BAGS):
            first, sizes = np.zeros(self.n_bags, np.int64), np.zeros(self.n_bags, np.int64)
            first[part.numbers], sizes[part.numbers] = part.first_rows, part.sizes
            own = np.flatnonzero((wanted >= first[bag]) & (wanted < first[bag] + sizes[bag]))
            parts.append(replace(part, wanted=wanted[own]))
            places.append(own)
        return parts, places


@dataclass(frozen=True, eq=False)
class StreamPart:
    """A piece of a stream, of which only the bags are numbered that it has, as a worker sees it.

    Attributes
    ----------
    passes : over the rows of the piece
    numbers : (k,) of its bags, among all
    totals, effective_sizes : (k,) of its bags, with all of their points, also those elsewhere
    first_rows : (k,) place of the first row here of each bag, among all points
    sizes : (k,) rows of each bag that are here;  weighted : whether points have weights
    wanted : (m,) places among all points of rows that are asked for, if only some are
    """

    passes: Passes
    numbers: Int64[np.ndarray, " k"]
    totals: Float64[np.ndarray, " k"]
    effective_sizes: Float64[np.ndarray, " k"]
    first_rows: Int64[np.ndarray, " k"]
    sizes: Int64[np.ndarray, " k"]
    weighted: bool
    wanted: Int64[np.ndarray, " m"] | None = None

    @property
    def n_features(self) -> int:
        """Number of features p of a point."""
        return len(self.passes.schema.feature_names)

    @property
    def partition(self) -> Any:
        """What lies with a worker already: see ``DaskEngine``."""
        return self.passes.partition

    def with_partition(self, partition: Any) -> StreamPart:
        """Return the same with that."""
        return replace(self, passes=self.passes.with_partition(partition))

    def batches(self, title: str = "reading points") -> Iterator[Batch]:
        """Read the points of the piece, in batches of rows sorted by bag."""
        for rows, codes, seen in self.passed(title, sort=True):
            yield _batch(rows, codes, seen, self.totals)

    def passed(self, title: str, *, sort: bool = False) -> Iterator[Passed]:
        """Read the points of the piece, which other threads group, and sort if asked.

        Yields grouped rows, the numbers of their bags, and how many rows of these came before.
        """
        counts = BagCounts()
        for rows in self.passes.rows(partial(_grouped, sort=sort), title, points_only=True):
            if rows is None:
                continue
            cut = counts.add(rows.grouping)
            if len(counts.codes) > len(self.sizes):
                raise _changed()
            yield rows, cut.codes, cut.seen
        if not np.array_equal(counts.sizes, self.sizes):
            raise _changed()


def _grouped(rows: Rows, sort: bool) -> GroupedPoints | None:
    """Group points by bag, and put them in that order if asked; None if there are none."""
    found = rows.by_bag()
    return None if found is None else found.sorted() if sort else found


def _batch(
    rows: GroupedPoints,
    codes: Int64[np.ndarray, " k"],
    seen: Int64[np.ndarray, " k"],
    totals: Float64[np.ndarray, " n"],
) -> Batch:
    """Return rows that are sorted by bag as a batch."""
    starts = rows.grouping.offsets
    shares = np.repeat(1.0 / totals[codes], np.diff(starts))
    if rows.weights is not None:
        shares *= rows.weights
    return Batch(rows.points, shares, codes, starts, seen)


def _wanted_rows(part: StreamPart) -> Any:
    """Return the points of a part that are wanted of it; if none is, the file is not read."""
    assert part.wanted is not None
    if not len(part.wanted):
        return np.zeros(0, np.int64), np.zeros((0, part.n_features)), np.zeros(0)
    return _rows_at(part, part.wanted)


def _rows_at(
    part: Any, wanted: Int64[np.ndarray, " k"]
) -> tuple[Int64[np.ndarray, " m"], Float[np.ndarray, "m n_features"], Float64[np.ndarray, " m"]]:
    """Return the points of a part that are among the rows wanted: their places, they, shares."""
    places, points, shares = [np.zeros(0, np.int64)], list[np.ndarray](), [np.zeros(0)]
    points.append(np.zeros((0, part.n_features)))
    next_one = np.searchsorted(wanted, part.first_rows)  # of each bag, of those that are wanted
    for rows, codes, seen in part.passed(DRAWING):
        # The rows of a piece are consecutive, so those that are wanted of it are, too.
        starts, order = rows.grouping.offsets, rows.grouping.order
        first = part.first_rows[codes] + seen
        here, stop = next_one[codes], np.searchsorted(wanted, first + np.diff(starts))
        next_one[codes], counts = stop, stop - here
        ends = np.cumsum(counts)
        place = np.repeat(here - (ends - counts), counts) + np.arange(ends[-1])
        row = wanted[place] + np.repeat(starts[:-1] - first, counts)
        row = row if order is None else order[row]
        own = 1.0 if rows.weights is None else rows.weights[row]
        places.append(place)
        points.append(rows.points[row])
        shares.append(own * np.repeat(1.0 / part.totals[codes], counts))
    return np.concatenate(places), np.concatenate(points), np.concatenate(shares)


def _changed() -> InvalidBagsError:
    return InvalidBagsError.because(
        "the file has changed since it was first read",
        "the same rows in every pass",
        "Scan it again, and leave it alone until the fit is done.",
    )
