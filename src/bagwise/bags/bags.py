"""Bags: many bags of points as one stacked array, indexed by bag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self, Unpack, overload

import numpy as np
from jaxtyping import Float, Float64, Int64, Shaped

from bagwise.bags.grouping import Grouping, group_rows
from bagwise.bags.per_bag import (
    CountedIds,
    check_distinct,
    id_array,
    in_bag_order,
    same_rows,
    series_index,
)
from bagwise.bags.stacked import StackedBags
from bagwise.bags.stream import StreamedBags
from bagwise.bags.tables.anndata import read_anndata
from bagwise.bags.tables.files import BATCH_ROWS
from bagwise.bags.tables.reader import Reading, read_bags, scan_bags, scan_partitions
from bagwise.bags.tables.schema import FileRoles, Roles, ScanOptions, TableRoles
from bagwise.bags.validation import (
    Names,
    Objects,
    check_names,
    check_offsets,
    empty_bag,
    holds_objects,
    is_frame,
    no_bags,
    real_array,
    show,
    sizes_to_offsets,
    stacked,
    to_matrix,
)
from bagwise.exceptions import InvalidBagsError


class Bags(StackedBags):
    """Bags of points: bag i is ``points[offsets[i]:offsets[i+1]]``, an array (N_i, p).

    Make them with :meth:`from_list`, :meth:`from_groups`, :meth:`from_array` or :meth:`from_frame`.
    Nothing changes a ``Bags``: methods return new ones, which share the points where they can.

    Attributes
    ----------
    points : float64 or float32 array (n_points, n_features)
        All points, stacked bag after bag.
    offsets : int64 array (n_bags + 1,)
    ids : array (n_bags,)
        One id per bag, all of one type.
    weights : float64 array (n_points,) or None
        Weights of the points within their bag: not negative, with a positive sum in each bag.
    covariates : float64 array (n_bags, n_covariates) or None
        What is known about a bag as a whole.
    feature_names, covariate_names : tuple of str or None

    Examples
    --------
    >>> bags = Bags.from_list([[[1.0, 2.0]], [[3.0, 4.0], [5.0, 6.0]]], ids=["a", "b"])
    >>> bags
    Bags(2 bags, 3 points, 2 features; sizes 1 / 1 / 1 / 2 / 2 (min / 25% / median / 75% / max))
    >>> bags[1]
    array([[3., 4.],
           [5., 6.]])
    >>> bags[1:].ids
    array(['b'], dtype='<U1')
    """

    @classmethod
    def from_list(
        cls,
        arrays: Iterable[Any],
        *,
        ids: Any = None,
        weights: Iterable[Any] | None = None,
        covariates: Any = None,
        feature_names: Any = None,
        covariate_names: Any = None,
        objects: bool | None = None,
    ) -> Self:
        """Make bags from one 2-D array (or list of lists, or data frame) per bag.

        Or from one list of objects per bag, such as strings, sets or graphs: points of any kind,
        for :class:`KernelEmbedding` with a kernel of your own.

        Parameters
        ----------
        arrays : iterable of array-like (N_i, n_features), or dict of them by id
        ids : array-like (n_bags,), all different, optional
            By default the keys of the dict, the index of a pandas Series of arrays, or else
            0, 1, 2, ..., which only count.
        weights : iterable of array-like (N_i,), or dict of them by id, optional
        covariates : array-like (n_bags, n_covariates), optional
            Of a pandas frame the index may hold the ids, in any order: see :meth:`align`.
        feature_names, covariate_names : sequence of str, optional
        objects : whether points are objects, and no rows of numbers; by default as the first point
            says, if it is text, a set, a dict, a tuple with one of these in it, or of a class that
            NumPy does not know. Say True for lists or arrays of different lengths.

        Examples
        --------
        >>> Bags.from_list([np.zeros((2, 3)), np.ones((4, 3))], covariates=[[1.0], [2.0]]).sizes
        array([2, 4])
        >>> Bags.from_list([["GAT", "TACA"], ["CAT"]])
        Bags(2 bags, 3 points, objects; sizes 1 / 1 / 1 / 2 / 2 (min / 25% / median / 75% / max))
        """
        arrays, ids = _named_arrays(arrays, ids)
        parts: list[Any]
        if holds_objects(arrays[0]) if objects is None else objects:
            parts, names = _objects_per_bag(arrays, ids, sure=objects is not None), None
        else:
            parts, names = _one_per_bag(arrays, ids)
        return cls(
            points=stacked(parts),
            offsets=sizes_to_offsets([len(part) for part in parts]),
            ids=ids,
            weights=None if weights is None else _stack_weights(weights, parts, ids),
            covariates=covariates,
            feature_names=names if feature_names is None else feature_names,
            covariate_names=covariate_names,
        )

    @classmethod
    def from_array(cls, array: Any, *, ids: Any = None, **options: Any) -> Self:
        """Make bags of equal size from one array (n_bags, N, n_features).

        ``options`` are the covariates, weights (n_bags, N) and names of :meth:`from_list`.

        Examples
        --------
        >>> Bags.from_array(np.zeros((4, 10, 2))).n_points
        40
        """
        array = real_array(array, "the array of bags")
        if array.ndim != 3:
            raise InvalidBagsError.because(
                f"the array of bags has shape {array.shape}",
                "three dimensions (bags, points, features)",
                "Use Bags.from_list for one 2-D array per bag, Bags.from_groups for (X, groups).",
            )
        n_bags, size, n_features = array.shape
        ids = CountedIds.of(n_bags) if ids is None else id_array(ids)
        check_distinct(ids)
        offsets = check_offsets(np.arange(n_bags + 1) * size, ids)
        if options.get("weights") is not None:
            options["weights"] = _stack_weights(options["weights"], list(array), ids)
        return cls(
            points=array.reshape(n_bags * size, n_features),
            offsets=offsets,
            ids=ids,
            **options,
        )

    @classmethod
    def from_groups(
        cls,
        X: Any,
        groups: Any,
        *,
        weights: Any = None,
        covariates: Any = None,
        feature_names: Any = None,
        covariate_names: Any = None,
    ) -> Self:
        """Make bags from rows in any order and the bag id of each row.

        Bags come in order of first appearance; points keep their order within a bag. If the rows of
        each bag are already together, the points are not copied.

        Parameters
        ----------
        X : array-like or data frame (n_points, n_features), or list or Series of n_points objects
        groups, weights : array-like (n_points,)
            What of these and X is of pandas must have the same index, where it says anything.
        covariates : array-like, optional
            (n_bags, n_covariates), or (n_points, n_covariates) if constant within each bag.
        feature_names, covariate_names : sequence of str, optional

        Examples
        --------
        >>> list(Bags.from_groups([[1], [2], [3]], ["b", "a", "b"]))
        [array([[1.], [3.]]), array([[2.]])]
        """
        same_rows({"X": X, "groups": groups} | ({} if weights is None else {"weights": weights}))
        X = Objects.of(X) if holds_objects(X) else X
        points, feature_names = to_matrix(X, "X", feature_names)
        grouping = group_rows(groups)
        n_rows = int(grouping.offsets[-1])
        if n_rows != len(points):
            raise InvalidBagsError.because(
                f"there are {n_rows} group ids for {len(points)} rows of X",
                "one id per row",
                "Pass groups of the same length as X.",
            )
        if weights is not None and np.shape(weights) == (n_rows,):
            weights = grouping.sort(np.asarray(weights))
        if covariates is not None:
            covariates, covariate_names = _one_row_per_bag(covariates, covariate_names, grouping, X)
        return cls(
            points=grouping.sort(points),
            offsets=grouping.offsets,
            ids=grouping.ids,
            weights=weights,
            covariates=covariates,
            feature_names=feature_names,
            covariate_names=covariate_names,
        )

    @overload
    @classmethod
    def from_frame(cls, frame: Any, *, label: None = None, **roles: Unpack[TableRoles]) -> Self: ...
    @overload
    @classmethod
    def from_frame(
        cls, frame: Any, *, label: str, **roles: Unpack[TableRoles]
    ) -> tuple[Self, Shaped[np.ndarray, " n_bags"]]: ...
    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        bag: Any,
        features: Any = None,
        covariates: Any = (),
        weights: str | None = None,
        label: str | None = None,
        labels: Any = None,
        one_hot: Any = (),
        missing: str = "error",
        na_values: Any = (),
        decimal: str = ".",
        thousands: str | None = None,
        ignore: Any = (),
    ) -> Any:
        """Make bags from a data frame with one row per point; with ``label``, also the labels.

        Parameters
        ----------
        frame : pandas or polars DataFrame, or pyarrow Table
        bag : str or sequence of str
            Column with the bag of each row, of any type; rows may come in any order. Several
            columns make a composite id: the ids of the bags are then tuples.
        features : sequence of str, optional
            Columns of the points; by default every column of numbers without another role (truth
            values and text or objects that are all numbers too), and those in ``one_hot``. (So
            name the label column, or it becomes a feature.) A warning names what is left out and
            why; a column of text of which most cells are numbers is refused.
        covariates : sequence of str
            Columns that are constant within each bag.
        weights : str, optional
            Column with the weights of the points.
        label : str, optional
            Column with the label, constant within each bag: the result is then ``(bags, y)``.
        labels : data frame, optional
            A second table, with one row per bag: the bag column(s), the label, and covariates if
            they are not in the first. Bags that only one table has are left out, with a warning.
        one_hot : str, sequence of str or dict of sequences
            Features and covariates to encode as 0/1 columns, ``"colour=red"`` for the category
            ``"red"`` of ``"colour"``; a dict says which categories there are.
        missing : {"error", "drop", "impute"}
            Missing values (NaN or null): an error, or rows left out, or medians put in their
            place, with a warning that counts them. Without a label, a row is left out in both.
        na_values : str, number, sequence of them, or dict of column and values
            What else stands for a missing value, in all columns but the bag's, or in some:
            ``[-999, "n.d."]``, ``{"age": 99}``.
        decimal, thousands : str, optional
            The marks in numbers that are text, as in ``"1.234,5"``.
        ignore : str or sequence of str
            Columns that are no features, without a word about them.

        Examples
        --------
        >>> import pyarrow as pa
        >>> table = pa.table({"id": ["a", "b", "a"], "x": [1.0, 2.0, 3.0], "y": [0, 1, 0]})
        >>> bags, y = Bags.from_frame(table, bag="id", label="y")
        >>> bags.feature_names, bags.sizes, y
        (('x',), array([2, 1]), array([0, 1]))
        """
        marks = {"na_values": na_values, "decimal": decimal, "thousands": thousands}
        roles = Roles(
            bag, features, covariates, weights, label, one_hot, missing, ignore=ignore, **marks
        )
        return cls._of(read_bags(frame, roles, kind="frame", labels=labels))

    @overload
    @classmethod
    def from_parquet(cls, path: Any, *, label: None = None, **roles: Unpack[FileRoles]) -> Self: ...
    @overload
    @classmethod
    def from_parquet(
        cls, path: Any, *, label: str, **roles: Unpack[FileRoles]
    ) -> tuple[Self, Shaped[np.ndarray, " n_bags"]]: ...
    @classmethod
    def from_parquet(
        cls, path: Any, *, label: str | None = None, labels: Any = None, **roles: Any
    ) -> Any:
        """Make bags from a Parquet file, or a folder of them; with ``label``, also the labels.

        The options are those of :meth:`from_frame`. ``labels`` may be a file too, Parquet or CSV
        (for which there is ``sep``, see :meth:`from_csv`).

        Examples
        --------
        >>> import bagwise.datasets
        >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
        >>> bags, y = Bags.from_parquet(
        ...     path, bag="race", features=["poll_margin"], label="actual_margin"
        ... )
        >>> bags.n_bags, y.shape
        (1708, (1708,))
        """
        return cls._of(read_bags(path, kind="parquet", label=label, labels=labels, **roles))

    @overload
    @classmethod
    def from_csv(cls, path: Any, *, label: None = None, **roles: Unpack[FileRoles]) -> Self: ...
    @overload
    @classmethod
    def from_csv(
        cls, path: Any, *, label: str, **roles: Unpack[FileRoles]
    ) -> tuple[Self, Shaped[np.ndarray, " n_bags"]]: ...
    @classmethod
    def from_csv(
        cls, path: Any, *, label: str | None = None, labels: Any = None, **roles: Any
    ) -> Any:
        r"""Make bags from a CSV file, plain or gzipped (``.gz``); with ``label``, also the labels.

        Or from a folder of CSV files that have the same columns. The options are those of
        :meth:`from_frame`, and they hold for ``labels`` too, which may be a file, Parquet or CSV.
        Fields are separated by commas, in ``.tsv`` files by tabs, or by ``sep``. An empty field is
        a missing value; so are NA, NaN and null among numbers, and ``na_values``. Ids such as 007
        stay text.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> path = pathlib.Path(tempfile.mkdtemp(), "points.csv")
        >>> _ = path.write_text("bag;x\na;1,5\nb;1.234,5\n")
        >>> Bags.from_csv(path, bag="bag", sep=";", decimal=",", thousands=".").points.tolist()
        [[1.5], [1234.5]]
        """
        return cls._of(read_bags(path, kind="csv", label=label, labels=labels, **roles))

    @classmethod
    def from_anndata(
        cls,
        adata: Any,
        *,
        bag: Any,
        label: str | None = None,
        use_rep: str | None = None,
        layer: str | None = None,
        covariates: Any = (),
        weights: str | None = None,
        labels: Any = None,
        one_hot: Any = (),
        missing: str = "error",
    ) -> Any:
        """Make bags of cells from an AnnData object or .h5ad file; with ``label``, also the labels.

        A patient is a bag, and each of their cells a point. Bags come in the order in which they
        first appear in ``obs``. Sparse matrices become dense: rather than all genes, take a
        representation of them. A file, or an object that is backed by one, is read as far as it is
        needed.

        Parameters
        ----------
        adata : AnnData, or path (which needs ``pip install "bagwise[anndata]"``)
        bag, label, covariates, weights, one_hot, missing
            Columns of ``obs``, as in :meth:`from_frame`: label and covariates are constant within
            each bag.
        use_rep : str, optional
            Key of ``obsm``, such as ``"X_pca"``: features ``X_pca_0``, ``X_pca_1``, … By default,
            or for ``"X"``, the features are the variables, by their names.
        layer : str, optional
            Key of ``layers``, to take in place of ``X``.
        labels : data frame, optional
            A second table, with one row per bag, as in :meth:`from_frame`.

        Examples
        --------
        >>> import pandas as pd
        >>> from types import SimpleNamespace as AnnData  # only here: anndata's own is meant
        >>> obs = pd.DataFrame({"donor": ["a", "b", "a"], "age": [60, 70, 60]})
        >>> pca = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
        >>> adata = AnnData(obs=obs, obsm={"X_pca": pca}, layers={}, var_names=[], X=None)
        >>> bags, y = Bags.from_anndata(adata, bag="donor", label="age", use_rep="X_pca")
        >>> bags["a"].tolist(), bags.feature_names, y
        ([[1.0, 2.0], [5.0, 6.0]], ('X_pca_0', 'X_pca_1'), array([60, 70]))
        """
        roles = Roles(bag, None, covariates, weights, label, one_hot, missing)
        return cls._of(read_anndata(adata, roles, use_rep=use_rep, layer=layer, labels=labels))

    @overload
    @classmethod
    def scan_parquet(
        cls, path: Any, *, label: None = None, **options: Unpack[ScanOptions]
    ) -> BagStream: ...
    @overload
    @classmethod
    def scan_parquet(
        cls, path: Any, *, label: str, **options: Unpack[ScanOptions]
    ) -> tuple[BagStream, Shaped[np.ndarray, " n_bags"]]: ...
    @classmethod
    def scan_parquet(
        cls,
        path: Any,
        *,
        label: str | None = None,
        labels: Any = None,
        progress: bool = True,
        batch_rows: int = BATCH_ROWS,
        engine: Any = None,
        piece_rows: int | None = None,
        **roles: Any,
    ) -> Any:
        """Make bags from a Parquet file, or a folder of them, that is larger than memory.

        All rows are read, in any order, but none is kept: the result is a :class:`BagStream`. The
        options are those of :meth:`from_parquet`; ``progress`` shows a bar, here and whenever the
        points are read again; at most ``batch_rows`` rows are in memory at once. With
        ``missing="impute"``, the medians of features are those of 200,000 rows drawn at random, if
        there are more.

        With an ``engine`` the workers of a cluster read the rows, here and whenever the bags are
        used, and only statistics of the bags come back: ``"dask"`` for the current Dask client, a
        ``distributed.Client``, the address of a scheduler such as ``"tcp://10.0.0.1:8786"``, or
        ``bagwise.engines.DaskEngine(workers=4)`` for processes on this machine. They see the files
        under the same path, and get pieces of whole row groups, of about ``piece_rows`` rows: by
        default a sixteenth of the table, or a million.

        Examples
        --------
        >>> import bagwise.datasets
        >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
        >>> bags, y = Bags.scan_parquet(
        ...     path, bag="race", features=["poll_margin"], label="actual_margin"
        ... )
        >>> bags
        BagStream(1708 bags, 8824 points, 1 feature;
        sizes 1 / 1 / 2 / 5 / 94 (min / 25% / median / 75% / max))
        """
        how = {"label": label, "labels": labels, "progress": progress, "batch_rows": batch_rows}
        how |= {"engine": engine, "piece_rows": piece_rows}
        return cls._of(scan_bags(path, **how, **roles))

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        label: str | None = None,
        labels: Any = None,
        progress: bool = True,
        engine: Any = "dask",
        **roles: Any,
    ) -> Any:
        """Make bags of a Dask data frame, whose rows stay with the workers; with label, also y.

        The result is a :class:`BagStream`. Bags may be spread over partitions, in any order. The
        options are those of :meth:`from_frame`, and ``engine`` as in :meth:`scan_parquet`, by
        default the current client. Each pass computes the partitions again: ``frame.persist()``
        keeps them with the workers, if there is room.
        """
        how = {"label": label, "labels": labels, "progress": progress}
        return cls._of(scan_partitions(frame, engine, **how, **roles))

    @classmethod
    def _of(cls, reading: Reading) -> Any:
        """Return the bags, and the labels if there are any; warn of what was left out."""
        bags = cls(**reading.parts) if "points" in reading.parts else BagStream.of(reading)
        reading.report.warn(stacklevel=3)
        return bags if reading.schema.label is None else (bags, reading.labels)


class BagStream(StreamedBags, Bags):
    """Bags whose points stay on disk, and are read in passes, a batch at a time.

    Made by :meth:`Bags.scan_parquet` or :meth:`Bags.from_dask`. It has all that ``Bags`` have but
    the points: ``fit`` and ``predict`` of models with landmarks take it, and give what they give
    for the same bags in memory. Memory grows with the number of bags, not of points; those of a
    file that has no more than half a gigabyte are kept once they were read.

    Examples
    --------
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> bags = Bags.scan_parquet(path, bag="race", features=["poll_margin"])
    >>> bags.n_bags, bags.some(np.array([0]), 2).n_points <= 2
    (1708, True)
    """

    def await_some(self, bags: Int64[np.ndarray, " k"], most_points: int) -> None:
        """Say that :meth:`some` will be asked: the next pass that draws points draws these, too."""
        self.await_rows(self._some_rows(bags, most_points, None)[0])

    def some(self, bags: Int64[np.ndarray, " k"], most_points: int, seed: Any = None) -> Bags:
        """Return some bags, in memory, and of each at most so many points: a pass over the file."""
        rows, offsets = self._some_rows(bags, most_points, seed)
        points, shares = self.rows_at(rows)
        return Bags(
            points,
            offsets,
            self.ids[bags],
            weights=shares if self.weighted else None,
            covariates=None if self.covariates is None else self.covariates[bags],
            feature_names=self.feature_names,
            covariate_names=self.covariate_names,
        )


def n_axes(values: Any) -> int:
    """Return the number of dimensions; for lists, as their first elements have it."""
    if isinstance(values, list | tuple):
        return 1 + (n_axes(values[0]) if values else 0)
    return len(getattr(values, "shape", ()))


def as_bags(X: Any) -> Bags:
    """Return X as ``Bags``, whatever form the bags come in.

    Parameters
    ----------
    X : Bags, list of 2-D arrays, dict of them by id, 3-D array, object array of 2-D arrays, or
        tuple (X, groups)

    Examples
    --------
    >>> as_bags((np.zeros((3, 2)), ["a", "b", "a"])).sizes
    array([2, 1])
    """
    if isinstance(X, Bags):
        if X.n_bags == 0:
            raise no_bags()
        return X
    if isinstance(X, tuple) and len(X) == 2 and n_axes(X[0]) == 2 and n_axes(X[1]) == 1:
        return Bags.from_groups(*X)
    if isinstance(X, list | tuple | Mapping) or (n_axes(X) == 1 and X.dtype == object):
        return Bags.from_list(X)
    if n_axes(X) == 3:
        return Bags.from_array(X)
    raise InvalidBagsError.because(
        f"got a {type(X).__name__}" + (f" with shape {X.shape}" if hasattr(X, "shape") else ""),
        "Bags, a list of 2-D arrays (or a dict of them), a 3-D array or a tuple (X, groups)",
        'Use Bags.from_frame(frame, bag="...") for a data frame with a column of bag ids.'
        if is_frame(X)
        else "Pass (X, groups) with the bag of each row, or a list with one 2-D array per bag.",
    )


def _named_arrays(arrays: Any, ids: Any) -> tuple[list[Any], Shaped[np.ndarray, " n_bags"]]:
    """Return the arrays of the bags as a list, and their ids: given, their own, or counted."""
    own = list(arrays) if isinstance(arrays, Mapping) else series_index(arrays)
    if ids is not None:
        ids = id_array(ids)
        arrays = in_bag_order(arrays, ids, "arrays", InvalidBagsError)
    elif own is not None:
        ids = id_array(own)
    arrays = list(arrays.values() if isinstance(arrays, Mapping) else arrays)
    if not arrays:
        raise no_bags()
    ids = CountedIds.of(len(arrays)) if ids is None else ids
    check_offsets(np.arange(len(arrays) + 1), ids)  # as many ids as bags, before they are used
    check_distinct(ids)
    return arrays, ids


def _objects_per_bag(
    arrays: list[Any], ids: Shaped[np.ndarray, " n_bags"], sure: bool
) -> list[Objects]:
    """Return the objects of each bag; unless that is sure, each must say by itself that it has."""
    parts = []
    for position, bag in enumerate(arrays):
        name = f"bag {show(ids[position])}"
        if isinstance(bag, str | bytes) or not hasattr(bag, "__len__"):
            raise InvalidBagsError.because(
                f"{name} is a {type(bag).__name__}", "a list of objects", "Put it into a list."
            )
        if not len(bag):
            raise empty_bag(position, ids)
        if not sure and not holds_objects(bag):
            raise InvalidBagsError.because(
                f"{name} starts with {show(next(iter(bag)))!s:.60} but bag {show(ids[0])} holds "
                "objects",
                "objects in every bag, or numbers in every bag",
                "Give bags of one kind; with objects=True anything is an object.",
            )
        parts.append(bag if isinstance(bag, Objects) else Objects.of(bag))
    return parts


def _one_per_bag(
    arrays: list[Any], ids: Shaped[np.ndarray, " n_bags"]
) -> tuple[list[Float[np.ndarray, "_ _"]], Names]:
    """Return one float array per bag and the feature names, after checking that columns agree."""
    parts, names = [], None
    for position, array in enumerate(arrays):
        bag = f"bag {show(ids[position])}"
        if isinstance(array, list | tuple | np.ndarray) and n_axes(array) and not len(array):
            raise empty_bag(position, ids)
        part, own_names = to_matrix(array, bag)
        parts.append(part)
        names = own_names if names is None else names
        if part.shape[1] != parts[0].shape[1]:
            raise InvalidBagsError.because(
                f"{bag} has {part.shape[1]} features but bag {show(ids[0])} has "
                f"{parts[0].shape[1]}",
                "the same features in every bag",
                "Give every bag the same columns.",
            )
        if own_names is not None and own_names != names:
            raise InvalidBagsError.because(
                f"{bag} has columns {own_names} but the bags before it have {names}",
                "the same columns in the same order in every bag",
                f"Reorder or rename them, for example with frame[{list(names or ())}].",
            )
    return parts, names


def _stack_weights(
    given: Any, parts: list[Any], ids: Shaped[np.ndarray, " n"]
) -> Float64[np.ndarray, " n_points"]:
    """Return the weights of all bags, given in their order or by id, end to end and checked."""
    ordered = in_bag_order(given, ids, "weights", InvalidBagsError)
    try:
        weights = list(ordered)
        found = f"there are weights for {len(weights)} bags but {len(parts)} bags"
    except TypeError:  # one number
        weights, found = [], f"the weights are {show(given)}"
    if len(weights) != len(parts):
        raise InvalidBagsError.because(
            found,
            "one 1-D array of weights per bag",
            "Pass a list with one array of weights per bag, or weights=None.",
        )
    stacked = []
    for position, (values, part) in enumerate(zip(weights, parts, strict=True)):
        array = real_array(values, f"the weights of bag {show(ids[position])}")
        if array.shape != (len(part),):
            raise InvalidBagsError.because(
                f"bag {show(ids[position])} has {len(part)} points but weights of shape "
                f"{array.shape}",
                "one weight per point",
                "Pass as many weights as the bag has points.",
            )
        stacked.append(array.astype(np.float64))
    return np.concatenate([np.zeros(0), *stacked])


def _one_row_per_bag(covariates: Any, names: Any, grouping: Grouping, X: Any) -> tuple[Any, Any]:
    """Reduce covariates given per row of X, if they are, to one row per bag."""
    n_rows, n_bags = int(grouping.offsets[-1]), len(grouping.ids)
    if len(covariates) == n_rows != n_bags:
        same_rows({"X": X, "covariates": covariates})
    else:
        covariates = in_bag_order(covariates, grouping.ids, "covariates", InvalidBagsError)
    if np.ndim(covariates) == 1:
        covariates = np.asarray(covariates).reshape(-1, 1)
    array, names = to_matrix(covariates, "the array of covariates", names)
    names = check_names(names, array.shape[1], "covariate")
    if len(array) == n_bags or len(array) != n_rows:
        return array, names
    labels = range(array.shape[1]) if names is None else names
    columns = [
        grouping.constant(column, f"covariate {label!r}")
        for label, column in zip(labels, array.T, strict=True)
    ]
    return np.column_stack(columns), names
