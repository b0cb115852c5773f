"""AnnData: a table of cells, of which each row says to which bag (a donor, a sample) it belongs."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from bagwise.bags.tables.files import Source, labels_table
from bagwise.bags.tables.frames import listing
from bagwise.bags.tables.reader import Reading, read
from bagwise.bags.tables.schema import Roles
from bagwise.exceptions import BagwiseError, InvalidBagsError


def read_anndata(
    adata: Any, roles: Roles, *, use_rep: str | None, layer: str | None, labels: Any = None
) -> Reading:
    """Read cells as points; ``roles`` are of columns of ``obs``. See ``Bags.from_anndata``."""
    if isinstance(adata, str | os.PathLike):
        opened = _open(adata)
        try:
            return read_anndata(opened, roles, use_rep=use_rep, layer=layer, labels=labels)
        finally:
            opened.file.close()
    if not all(hasattr(adata, name) for name in ("obs", "obsm", "layers", "var_names")):
        raise InvalidBagsError.because(
            f"got a {type(adata).__name__}",
            "an AnnData object, or the path of an .h5ad file",
            'Use Bags.from_frame(frame, bag="...") for a data frame.',
        )
    obs = adata.obs.to_memory() if hasattr(adata.obs, "to_memory") else adata.obs
    there = [] if labels is None else list(labels.columns)
    used = roles.others
    absent = [name for name in used if name not in obs.columns and name not in there]
    if absent:
        raise InvalidBagsError.because(
            f"obs has no column {listing(absent)}",
            f"one of its columns: {listing(map(str, obs.columns))}",
            "Check the spelling.",
        )
    points, names = _points(adata, use_rep, layer)
    clash = [name for name in names if name in used]
    if clash:
        raise InvalidBagsError.because(
            f"{clash[0]!r} is the name of a feature and of a column of obs",
            "different names",
            "Rename the column of obs.",
        )
    frame = type(obs)(points, columns=names)
    for name in used:
        if name in obs.columns:
            frame[name] = obs[name].reset_index(drop=True)
    roles = replace(roles, features=names)
    return read(Source.of_frame(frame), roles, labels_table(labels, roles))


def _open(path: Any) -> Any:
    """Open a file without reading the matrix of all cells."""
    try:
        from anndata import read_h5ad
    except ImportError:
        raise BagwiseError.because(
            f"{os.fspath(path)!r} is to be read, but anndata is not installed",
            "the package that reads .h5ad files",
            'Run pip install "bagwise[anndata]".',
        ) from None
    return read_h5ad(path, backed="r")


def _points(adata: Any, use_rep: str | None, layer: str | None) -> tuple[np.ndarray, list[str]]:
    """Return the numbers of each cell, in memory and dense, and their names."""
    if use_rep not in (None, "X"):
        if layer is not None:
            raise BagwiseError.because(
                f"use_rep is {use_rep!r} and layer is {layer!r}", "one of them", "Drop the other."
            )
        found = _named(adata.obsm, use_rep, "obsm")
        columns = getattr(found, "columns", None)
        points = _dense(found)
        count = [f"{use_rep}_{j}" for j in range(points.shape[1])]
        return points, count if columns is None else list(map(str, columns))
    names = [str(name) for name in adata.var_names]
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise InvalidBagsError.because(
            f"adata.var_names has {twice[0]!r} more than once",
            "names that are all different",
            "Call adata.var_names_make_unique() first.",
        )
    found = adata.X if layer is None else _named(adata.layers, layer, "layers")
    if found is None:
        raise InvalidBagsError.because(
            "adata.X is empty", "a matrix of cells", f"Give use_rep=, of {listing(adata.obsm)}."
        )
    return _dense(found), names


def _named(matrices: Any, name: Any, what: str) -> Any:
    if name not in matrices:
        raise InvalidBagsError.because(
            f"adata.{what} has no {name!r}", f"one of {listing(matrices)}", "Check the spelling."
        )
    return matrices[name]


def _dense(matrix: Any) -> np.ndarray:
    """Return an array of what is dense or sparse, in memory or in a file."""
    if hasattr(matrix, "to_memory"):  # sparse, in a file
        matrix = matrix.to_memory()
    return matrix.toarray() if hasattr(matrix, "toarray") else np.asarray(matrix)
