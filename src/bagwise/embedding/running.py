"""RunningSums: what is kept of bags whose points keep coming, in place of the points."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64, Shaped

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import (
    CountedIds,
    array_per_bag,
    id_array,
    keys,
    missing,
    numbers_per_bag,
    plain,
)
from bagwise.bags.stacked import Batch
from bagwise.bags.validation import Names, Objects, check_columns, show, sizes_to_offsets
from bagwise.embedding.sums import (
    BLOCK_BYTES,
    BagStats,
    Block,
    blocks_of,
    unbiasing,
    without_rounding,
)
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError
from bagwise.features.maps import Features

# Numbers of scatter that are merged at once: 32 MB.
MERGED_NUMBERS = 1 << 22

# The state of sums to which nothing was added; each batch makes another one of it.
NO_STATE = "0" * 64

# Ids and labels of one family can be compared.
FAMILIES = {"i": "whole numbers", "u": "whole numbers", "U": "text", "b": "truth values"}
FAMILIES |= {"f": "numbers", "M": "times", "O": "objects"}


class SummedBags(Bags):
    """Bags of which sums are left, and no points; the rest of ``Bags`` is there."""

    @classmethod
    def of(cls, sums: RunningSums) -> SummedBags:
        """Make bags of what sums know of them."""
        bags = object.__new__(cls)
        bags.__dict__.update(
            offsets=sizes_to_offsets(sums.counts),
            ids=sums.ids,
            covariates=sums.covariates,
            feature_names=sums.feature_names,
            covariate_names=sums.covariate_names,
            _n_features=sums.n_features,
            _effective_sizes=sums.effective_sizes,
            _of_objects=isinstance(getattr(sums.features, "landmarks", None), Objects),
        )
        return bags

    def __getattr__(self, name: str) -> Any:
        if name in ("points", "weights"):
            raise InvalidBagsError.because(
                f"the {name} of these bags are gone: they were summed",
                "what can be done with sums: predict and partial_fit",
                "Keep the points, and give the bags themselves.",
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def n_points(self) -> int:
        """Number of points in all bags together."""
        return int(self.offsets[-1])

    @property
    def n_features(self) -> int:
        """Number of features p of a point."""
        return int(self._n_features)

    @property
    def of_objects(self) -> bool:
        """Whether the points were objects."""
        return bool(self._of_objects)

    @property
    def effective_sizes(self) -> Float64[np.ndarray, " n_bags"]:
        """Kish's effective size of each bag, (Σ w)² / Σ w²."""
        return self._effective_sizes


@dataclass(frozen=True, eq=False)
class Piece:
    """Sums over some points of k bags, with weights in units of the largest of each bag.

    Attributes
    ----------
    counts : (k,) points;  unit : (k,) largest weight u;  total : (k,) Σ w/u
    squares : (k,) Σ (w/u)²;  sums : (k, d) Σ (w/u) φ
    scatter : (k, t) Σ (w/u) (φ − mean)(φ − mean)^T, its lower triangle; or None
    """

    counts: Int64[np.ndarray, " k"]
    unit: Float64[np.ndarray, " k"]
    total: Float64[np.ndarray, " k"]
    squares: Float64[np.ndarray, " k"]
    sums: Float64[np.ndarray, "k d"]
    scatter: Float64[np.ndarray, "k t"] | None


@dataclass(eq=False)
class RunningSums:
    """Sums of features over bags that grow: points are added, and not needed again.

    Of each bag N, Σ w, Σ w², Σ w φ(x) and, for models that ask how much points of a bag differ,
    its scatter Σ w (φ − mean)(φ − mean)^T. When points b join points a of a bag,

    S_(a ∪ b) = S_a + S_b + w_a w_b/(w_a + w_b) (m_a − m_b)(m_a − m_b)^T

    so that the order of points, and how they are cut into batches, does not matter but for
    rounding. The scatter is kept for each bag, d(d + 1)/2 numbers, because a bag's covariance is
    divided by a size that grows.

    Made by ``model.sums(bags, y)``; ``model.predict_dist(sums)`` predicts all bags with all that is
    known of them, ``model.partial_fit(sums)`` fits the model again. ``bagwise.save`` and
    ``bagwise.load`` keep them in a file.

    Attributes
    ----------
    features : of the model
    ids : (n,);  counts : (n,), points of each bag
    covariates : (n, c) or None;  labels : (n,) or None, of which ``labelled`` (n,) are known
    sample_weight : (n,), of the bags
    batches : dict, name of each batch that was given one, and its points
    state : changes with every batch, and is the same for the same batches in the same order

    Examples
    --------
    >>> import bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = dict(zip("abcdefghij", rng.uniform(1, 2, 10)))
    >>> bags = {name: rng.normal(0, s, (30, 1)) for name, s in y.items()}
    >>> model = bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(5)).fit(bags, y)
    >>> sums = model.sums(bags, y)
    >>> sums.add("a", rng.normal(0, 1, (70, 1)))  # more points of a bag, and a new bag
    True
    >>> sums.add("k", rng.normal(0, 1, (5, 1)))
    True
    >>> sums
    RunningSums(11 bags, 375 points, 5 features, 10 labels)
    >>> len(model.predict_dist(sums))
    11
    """

    features: Features
    feature_names: Names
    covariate_names: Names
    ids: Shaped[np.ndarray, " n"]
    counts: Int64[np.ndarray, " n"]
    unit: Float64[np.ndarray, " n"]
    total: Float64[np.ndarray, " n"]
    squares: Float64[np.ndarray, " n"]
    sums: Float64[np.ndarray, "n d"]
    scatter: Float64[np.ndarray, "n t"] | None
    covariates: Float64[np.ndarray, "n c"] | None
    labels: Shaped[np.ndarray, " n"] | None
    labelled: Bool[np.ndarray, " n"]
    sample_weight: Float64[np.ndarray, " n"]
    n_features: int
    weighted: bool
    batches: dict[str, int]
    state: str

    def __post_init__(self) -> None:
        self._codes = {key: code for code, key in enumerate(keys(self.ids))}

    @classmethod
    def of(
        cls,
        features: Features,
        bags: Bags,
        y: Any = None,
        sample_weight: Any = None,
        *,
        scatter: bool = True,
    ) -> RunningSums:
        """Sum the features of bags, in memory or read in passes, and remember their labels."""
        if isinstance(bags.ids, CountedIds):
            raise InvalidBagsError.because(
                "the bags have no ids, by which later points could find theirs",
                "bags with ids",
                "Give {id: points}, Bags.from_list(..., ids=...) or Bags.from_groups(X, groups).",
            )
        labels, labelled = _labels(y, bags)
        made = cls._empty(
            features,
            bags.n_bags,
            scatter,
            feature_names=bags.feature_names,
            covariate_names=bags.covariate_names,
            ids=id_array(bags.ids),
            covariates=None if bags.covariates is None else bags.covariates.copy(),
            labels=labels,
            labelled=labelled,
            sample_weight=_sample_weights(sample_weight, bags),
            n_features=bags.n_features,
            weighted=bags.weighted,
        )
        work = partial(_sums_of, features=features, scatter=scatter)
        for found, places in bags.map_parts(work, "pooling points"):
            made._join(places, found._piece())
        return made

    @classmethod
    def _empty(cls, features: Features, n: int, scatter: bool, **known: Any) -> RunningSums:
        """Make sums of no points yet, of n bags."""
        d = features.n_outputs
        unknown: dict[str, Any] = dict.fromkeys(
            ("feature_names", "covariate_names", "covariates", "labels")
        )
        unknown |= {"ids": np.arange(n), "labelled": np.zeros(n, dtype=bool), "n_features": 0}
        unknown |= {"weighted": False, "sample_weight": np.full(n, np.nan)}
        parts = unknown | known
        return cls(
            features=features,
            counts=np.zeros(n, dtype=np.int64),
            unit=np.zeros(n),
            total=np.zeros(n),
            squares=np.zeros(n),
            sums=np.zeros((n, d)),
            scatter=np.zeros((n, d * (d + 1) // 2)) if scatter else None,
            batches={},
            state=NO_STATE,
            **parts,
        )

    @property
    def bags(self) -> SummedBags:
        """The bags, without their points."""
        return SummedBags.of(self)

    @property
    def n_bags(self) -> int:
        """Number of bags n."""
        return len(self.counts)

    @property
    def n_points(self) -> int:
        """Number of points in all bags together."""
        return int(self.counts.sum())

    @property
    def n_covariates(self) -> int:
        """Number of covariates of a bag, 0 if there are none."""
        return 0 if self.covariates is None else int(self.covariates.shape[1])

    @property
    def sizes(self) -> Int64[np.ndarray, " n"]:
        """Number of points N_i of each bag."""
        return self.counts.copy()

    @property
    def effective_sizes(self) -> Float64[np.ndarray, " n"]:
        """Kish's effective size of each bag, (Σ w)² / Σ w²."""
        return self.total**2 / self.squares

    def __len__(self) -> int:
        return self.n_bags

    def __repr__(self) -> str:
        labels = f", {np.count_nonzero(self.labelled):,} labels" if self.labelled.any() else ""
        return (
            f"RunningSums({self.n_bags:,} bags, {self.n_points:,} points, "
            f"{self.features.n_outputs} features{labels})"
        )

    def add(
        self,
        bag: Any,
        points: Any,
        *,
        label: Any = None,
        weights: Any = None,
        covariates: Any = None,
        batch: str | None = None,
    ) -> bool:
        """Add points (m, p) of one bag, known by its id or new: see :meth:`add_bags`."""
        bags = Bags.from_list(
            [points],
            ids=[bag],
            weights=None if weights is None else [weights],
            covariates=None if covariates is None else [covariates],
            feature_names=self.feature_names,
            covariate_names=None if covariates is None else self.covariate_names,
        )
        return self.add_bags(bags, None if label is None else [label], batch=batch)

    def add_bags(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, batch: str | None = None
    ) -> bool:
        """Add points of bags, known by their ids or new; return whether they were added.

        All of them, or none if something is wrong. Labels y may come now or with later points, and
        NaN or None stands for one that is not known yet; a known bag keeps its label, covariates
        and weight, and may not be given others. Without covariates, known bags have theirs.

        ``batch`` names what is added. If a batch of that name was added before, nothing is, and a
        warning says so: who does not know whether a batch arrived may send it again.

        Examples
        --------
        >>> from bagwise.features.maps import FourierFeatures, Scaling
        >>> features = FourierFeatures(Scaling.of(np.zeros(1)), np.array([[1.0]]))
        >>> sums = RunningSums.of(features, Bags.from_list({"a": [[0.0]], "b": [[0.0]]}))
        >>> sums.add_bags({"a": [[np.pi]], "c": [[0.0], [0.0]]})
        True
        >>> sums.counts, sums.stats().mean.round(6)[:, 0]
        (array([2, 1, 2]), array([0., 1., 1.]))
        """
        bags = self._known_columns(as_bags(X))
        if batch is not None and self._is_again(batch, bags.n_points):
            return False
        more = RunningSums.of(self.features, bags, y, sample_weight, scatter=self.has_scatter)
        return self.merge(more, batch=batch)

    @property
    def has_scatter(self) -> bool:
        """Whether the scatter within bags is kept, by which a model can be fitted again."""
        return self.scatter is not None

    def merge(self, other: RunningSums, *, batch: str | None = None) -> bool:
        """Add the sums of other points, of the same bags or others; see :meth:`add_bags`."""
        self._check_mergeable(other)
        if batch is not None and self._is_again(batch, other.n_points):
            return False
        unknown = len(self._codes)
        rows = np.array([self._codes.get(key, -1) for key in keys(other.ids)], dtype=np.int64)
        new = rows < 0
        rows[new] = unknown + np.arange(np.count_nonzero(new))
        labels = self._merged_labels(other, rows, new)  # which may raise: nothing is changed yet
        covariates = self._merged_covariates(other, rows, new)
        weights = self._merged_weights(other, rows, new)
        self._grow(other.ids[new])
        self.labels, self.labelled = labels
        self.covariates, self.sample_weight = covariates, weights
        self.feature_names = self.feature_names or other.feature_names
        self.covariate_names = self.covariate_names or other.covariate_names
        self.weighted |= other.weighted
        self._join(rows, other._piece())
        token = f"{self.state} {batch or ''} {other.n_points} {other._digest()}"
        self.state = hashlib.sha256(token.encode()).hexdigest()
        if batch is not None:
            self.batches[str(batch)] = other.n_points
        return True

    def take(self, bags: Any) -> RunningSums:
        """Return the sums of some bags: a copy."""
        chosen = {
            f.name: value[bags]
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), np.ndarray)
        }
        return replace(self, **chosen, batches=dict(self.batches))

    def places(self, ids: Shaped[np.ndarray, " k"]) -> Int64[np.ndarray, " k"]:
        """Return the rows of bags, by their ids."""
        return np.array([self._codes[key] for key in keys(ids)], dtype=np.int64)

    def only_labelled(self) -> RunningSums:
        """Return the sums of the bags whose label is known."""
        return self.take(np.flatnonzero(self.labelled))

    def stats(self, *, covariance: bool = True) -> BagStats:
        """Return what the features say of the bags, as :func:`bagwise.embedding.sums.summarise`."""
        mean, sizes = self.sums / self.total[:, None], self.effective_sizes
        unbias = unbiasing(sizes)
        if not covariance or not unbias.any():
            return BagStats(mean, sizes)
        if self.scatter is None:
            raise BagwiseError.because(
                "these sums were made without the scatter within bags",
                "sums by which the model can be fitted again",
                "Make them with model.sums(bags, y, refit=True).",
            )
        d = self.features.n_outputs
        packed = (unbias / self.total) @ self.scatter / np.count_nonzero(unbias)
        within_cov = np.zeros((d, d))
        low = np.tril_indices(d)
        within_cov[low] = packed
        within_cov.T[low] = packed
        return BagStats(mean, sizes, without_rounding(within_cov, mean))

    def _known_columns(self, bags: Bags) -> Bags:
        """Return bags whose columns are those of the sums; known bags may lack covariates."""
        check_columns("feature", self.feature_names, self.n_features, bags)
        if bags.covariates is None and self.covariates is not None:
            rows = [self._codes.get(key, -1) for key in keys(bags.ids)]
            unknown = [position for position, row in enumerate(rows) if row < 0]
            if unknown:
                raise InvalidBagsError.because(
                    f"bag {show(bags.ids[unknown[0]])} is new and has no covariates",
                    f"its {self.n_covariates} covariates",
                    "Give them with the points: only known bags can do without.",
                )
            return bags.with_covariates(self.covariates[rows], self.covariate_names)
        check_columns("covariate", self.covariate_names, self.n_covariates, bags)
        return bags

    def _is_again(self, batch: str, n_points: int) -> bool:
        """Whether a batch of this name was added before, and say so."""
        before = self.batches.get(str(batch))
        if before is None:
            return False
        if before != n_points:
            raise BagwiseError.because(
                f"there is a batch {show(batch)} already, of {before:,} points, and this one has "
                f"{n_points:,}",
                "another name for another batch",
                "Give it a name of its own.",
            )
        warnings.warn(
            f"Batch {show(batch)} ({n_points:,} points) was added before: nothing is added.",
            BagwiseWarning,
            stacklevel=4,
        )
        return True

    def _check_mergeable(self, other: RunningSums) -> None:
        if not same(self.features, other.features):
            raise BagwiseError.because(
                "these sums are of other features than those",
                "sums of one model",
                "Make both with the sums method of the same fitted model.",
            )
        if self.has_scatter and not other.has_scatter:
            raise BagwiseError.because(
                "sums without the scatter within bags cannot be added to sums that have it",
                "both made with refit=True, or both without",
                "Make them in the same way.",
            )
        check_columns("feature", self.feature_names, self.n_features, other)
        check_columns("covariate", self.covariate_names, self.n_covariates, other)
        _check_family(self.ids, other.ids, "ids", InvalidBagsError)

    def _merged_labels(
        self, other: RunningSums, rows: Int64[np.ndarray, " k"], new: Bool[np.ndarray, " k"]
    ) -> tuple[Any, Bool[np.ndarray, " m"]]:
        """Return the labels of all bags and which are known; raise if a bag would have two."""
        n = self.n_bags + int(np.count_nonzero(new))
        labelled = np.zeros(n, dtype=bool)
        labelled[: self.n_bags] = self.labelled
        if other.labels is None:
            return _extended(self.labels, n), labelled
        if self.labels is None:
            labels = np.zeros(n, other.labels.dtype)
        else:
            _check_family(self.labels, other.labels, "labels", InvalidLabelsError)
            labels = _extended(self.labels, n)
            labels = labels.astype(np.result_type(labels.dtype, other.labels.dtype))
            both = np.flatnonzero(other.labelled & labelled[rows])
            self._check_same(labels[rows[both]], other.labels[both], other.ids[both], "label")
        labels[rows[other.labelled]] = other.labels[other.labelled]
        labelled[rows[other.labelled]] = True
        return labels, labelled

    def _merged_covariates(
        self, other: RunningSums, rows: Int64[np.ndarray, " k"], new: Bool[np.ndarray, " k"]
    ) -> Any:
        if self.covariates is None or other.covariates is None:
            return self.covariates
        known = ~new
        for j in range(self.n_covariates):
            name = "covariate" if self.covariate_names is None else self.covariate_names[j]
            values = self.covariates[rows[known], j], other.covariates[known, j]
            self._check_same(*values, other.ids[known], name)
        return np.concatenate([self.covariates, other.covariates[new]])

    def _merged_weights(
        self, other: RunningSums, rows: Int64[np.ndarray, " k"], new: Bool[np.ndarray, " k"]
    ) -> Float64[np.ndarray, " m"]:
        """Return the sample weights; NaN stands for one that was not given, which counts as 1."""
        given = np.flatnonzero(~new & ~np.isnan(other.sample_weight))
        kept = np.flatnonzero(~np.isnan(self.sample_weight[rows[given]]))
        both = given[kept]
        known = self.sample_weight[rows[both]]
        self._check_same(known, other.sample_weight[both], other.ids[both], "sample weight")
        merged = np.concatenate([self.sample_weight, other.sample_weight[new]])
        merged[rows[given]] = other.sample_weight[given]
        return merged

    @staticmethod
    def _check_same(known: Any, given: Any, ids: Any, what: str) -> None:
        differ = np.flatnonzero(known != given)
        if len(differ):
            first = differ[0]
            raise InvalidLabelsError.because(
                f"bag {show(ids[first])} has the {what} {show(known[first])}, and now is given "
                f"{show(given[first])}",
                "one value for a bag, whenever its points come",
                "Leave it out for known bags, or make new sums if it has changed.",
            )

    def _grow(self, ids: Shaped[np.ndarray, " k"]) -> None:
        if not len(ids):
            return
        for code, key in enumerate(keys(ids), len(self._codes)):
            self._codes[key] = code
        if self.ids.dtype.kind == "O" or ids.dtype.kind == "O":
            self.ids = id_array([*self.ids.tolist(), *ids.tolist()])
        else:
            self.ids = np.concatenate([self.ids, ids])
        for name in ("counts", "unit", "total", "squares", "sums", "scatter"):
            setattr(self, name, _extended(getattr(self, name), len(self.ids)))

    def _piece(self) -> Piece:
        return Piece(self.counts, self.unit, self.total, self.squares, self.sums, self.scatter)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        for part in (self.counts, self.sums, self.labelled):
            digest.update(np.ascontiguousarray(part).tobytes())
        digest.update(repr(self.ids.tolist()).encode())
        return digest.hexdigest()

    def _join(self, rows: Int64[np.ndarray, " k"], new: Piece) -> None:
        """Add sums over other points to those of bags, which are all different."""
        unit = np.maximum(self.unit[rows], new.unit)
        scale = np.where(unit > 0, unit, 1.0)  # all weights so far may be 0
        of_old, of_new = self.unit[rows] / scale, new.unit / scale
        before, after = self.total[rows] * of_old, new.total * of_new
        if self.scatter is not None and new.scatter is not None:
            self._join_scatter(rows, new, (of_old, of_new), (before, after))
        self.counts[rows] += new.counts
        self.unit[rows], self.total[rows] = unit, before + after
        self.squares[rows] = self.squares[rows] * of_old**2 + new.squares * of_new**2
        self.sums[rows] = self.sums[rows] * of_old[:, None] + new.sums * of_new[:, None]

    def _join_scatter(
        self, rows: Int64[np.ndarray, " k"], new: Piece, factors: Any, totals: Any
    ) -> None:
        assert self.scatter is not None and new.scatter is not None
        (of_old, of_new), (before, after) = factors, totals
        low, high = np.tril_indices(self.features.n_outputs)
        met = (before > 0) & (after > 0)
        between = np.zeros(len(rows))
        between[met] = before[met] * (after[met] / (before[met] + after[met]))
        step = max(1, MERGED_NUMBERS // len(low))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            at = rows[part]
            joined = self.scatter[at] * of_old[part, None] + new.scatter[part] * of_new[part, None]
            pairs = np.flatnonzero(met[part])
            if len(pairs):
                old_mean = self.sums[at[pairs]] / self.total[at[pairs], None]
                new_mean = new.sums[part][pairs] / new.total[part][pairs, None]
                gaps = (old_mean - new_mean) * np.sqrt(between[part][pairs])[:, None]
                joined[pairs] += gaps[:, low] * gaps[:, high]
            self.scatter[at] = joined


def _sums_of(part: Any, features: Features, scatter: bool) -> RunningSums:
    """Sum the features of a part of the bags, which has numbers for them."""
    made = RunningSums._empty(features, len(part.effective_sizes), scatter)
    for batch in part.batches("pooling points"):
        weights = np.ones(len(batch.points))
        if part.weighted:
            weights = batch.shares * np.repeat(part.totals[batch.bags], np.diff(batch.starts))
        for rows, piece in _pieces(features, batch, weights, scatter):
            made._join(rows, piece)
    return made


def _pieces(
    features: Features, batch: Batch, weights: Float64[np.ndarray, " m"], scatter: bool
) -> Iterator[tuple[Int64[np.ndarray, " k"], Piece]]:
    """Sum the features of a batch, block by block, each in the cache; yield bags and their sums."""
    width = max(features.n_outputs, batch.points.shape[1])
    low = np.tril_indices(features.n_outputs)
    for block in blocks_of(batch.starts, max(1, BLOCK_BYTES // (8 * width))):
        largest = np.maximum.reduceat(weights[block.rows], block.starts[:-1])
        scale = np.where(largest > 0, largest, 1.0)
        scaled = weights[block.rows] / scale[block.piece_of_row]
        phi = features(batch.points[block.rows])
        sums, total = block.pool(phi, scaled), np.add.reduceat(scaled, block.starts[:-1])
        found = None
        if scatter:
            mean = sums / np.where(total > 0, total, 1.0)[:, None]
            found = _scatter(phi - mean[block.piece_of_row], scaled, block, low)
        squares = np.add.reduceat(scaled**2, block.starts[:-1])
        counts = np.diff(block.starts)
        yield batch.bags[block.bags], Piece(counts, largest, total, squares, sums, found)


def _scatter(
    centred: Float64[np.ndarray, "m d"],
    weights: Float64[np.ndarray, " m"],
    block: Block,
    low: Any,
) -> Float64[np.ndarray, "k t"]:
    """Return the lower triangle of Σ w c c^T over each piece."""
    found = np.zeros((len(block.bags), len(low[0])))
    weighted = centred * weights[:, None]
    for i, (start, stop) in enumerate(pairwise(block.starts.tolist())):
        if stop > start + 1:
            found[i] = (weighted[start:stop].T @ centred[start:stop])[low]
    return found


def same(left: Any, right: Any) -> bool:
    """Whether two parts of a model, such as features, are equal in every number.

    Examples
    --------
    >>> from bagwise.features.maps import Scaling
    >>> same(Scaling.of(np.zeros(1)), Scaling.of(np.zeros(1)))
    True
    """
    if left is right:
        return True
    if type(left) is not type(right):
        return False
    if isinstance(left, np.ndarray):
        return np.array_equal(left, right)
    if is_dataclass(left):
        return all(same(getattr(left, f.name), getattr(right, f.name)) for f in fields(left))
    return bool(left == right)


def _extended(array: Any, n: int) -> Any:
    """Return an array with so many rows, the new ones 0; None stays None."""
    if array is None or len(array) == n:
        return array
    new = np.zeros((n - len(array), *array.shape[1:]), array.dtype)
    return np.concatenate([array, new])


def _labels(y: Any, bags: Bags) -> tuple[Any, Bool[np.ndarray, " n"]]:
    """Return labels, None if there are none at all, and which of them are known."""
    if y is None:
        return None, np.zeros(bags.n_bags, dtype=bool)
    given = array_per_bag(y, bags.ids)
    if given.shape != (bags.n_bags,):
        raise InvalidLabelsError.because(
            f"the labels have shape {given.shape}",
            f"one label for each of {bags.n_bags} bags, ({bags.n_bags},)",
            "Give NaN or None where a label is not known yet.",
        )
    known = ~missing(given)
    if not known.any():
        return None, known
    values = plain(given[known])
    labels = np.zeros(len(given), values.dtype)
    labels[known] = values
    return labels, known


def _sample_weights(sample_weight: Any, bags: Bags) -> Float64[np.ndarray, " n"]:
    """Return the weights of bags, NaN where none is given."""
    if sample_weight is None:
        return np.full(bags.n_bags, np.nan)
    weights = numbers_per_bag(sample_weight, bags.ids, "sample weights")
    good = np.isnan(weights) | ((weights >= 0) & np.isfinite(weights))
    if weights.shape != (bags.n_bags,) or not good.all():
        raise InvalidLabelsError.because(
            f"sample_weight has shape {weights.shape}"
            if weights.shape != (bags.n_bags,)
            else f"sample_weight of bag {show(bags.ids[~good][0])} is {weights[~good][0]}",
            f"one finite number, not negative, for each of {bags.n_bags} bags",
            "Leave it out to count all bags alike.",
        )
    return weights


def _check_family(known: Any, given: Any, what: str, error: type[BagwiseError]) -> None:
    """Raise unless ids, or labels, are of one family, so that they can be compared."""
    one, other = FAMILIES.get(known.dtype.kind), FAMILIES.get(given.dtype.kind)
    numbers = {"whole numbers", "numbers"}
    if one != other and not (what == "labels" and {one, other} <= numbers):
        raise error.because(
            f"the {what} are {other or given.dtype} and those before are {one or known.dtype}",
            f"{what} of one type",
            "Convert them to the type of the first.",
        )
