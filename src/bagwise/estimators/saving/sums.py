"""Sums: running sums of bags as a file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int64

from bagwise.embedding.running import NO_STATE, RunningSums
from bagwise.estimators.saving.codec import FEATURES, decode, encode
from bagwise.estimators.saving.container import SUMS_FORMAT, Container, pack
from bagwise.estimators.saving.given import check_given
from bagwise.estimators.saving.values import Column, Reader, Writer, show, unfit
from bagwise.exceptions import BagwiseError, SavedModelError

# All that sums are made of, and what each part is; features first, which say how many there are.
PARTS: dict[str, Any] = {
    "features": FEATURES,
    "feature_names": tuple[str, ...] | None,
    "covariate_names": tuple[str, ...] | None,
    "ids": Column("bags", distinct=True),
    "counts": Int64[np.ndarray, " n"],
    "unit": Float64[np.ndarray, " n"],
    "total": Float64[np.ndarray, " n"],
    "squares": Float64[np.ndarray, " n"],
    "sums": Float64[np.ndarray, "n d"],
    "scatter": Float64[np.ndarray, "n t"] | None,
    "covariates": Float64[np.ndarray, "n n_covariates"] | None,
    "labelled": Bool[np.ndarray, " n"],
    "sample_weight": Float64[np.ndarray, " n"],
    "n_features": int,
    "weighted": bool,
    "batches": dict[str, int],
    "state": str,
}

HEADER = ("saved", "versions", "sums", "schema")


def sums_to_bytes(sums: RunningSums, header: dict[str, Any]) -> bytes:
    """Return the bytes of a file of running sums; ``header`` is all that is said beside them."""
    writer = Writer()
    tree = {name: encode(getattr(sums, name), kind, name, writer) for name, kind in PARTS.items()}
    labels = Column("bags")
    tree["labels"] = None if sums.labels is None else labels.encode(sums.labels, "labels", writer)
    return pack({"sums": tree} | header, writer.tensors, SUMS_FORMAT)


def sums_of(container: Container, given: Mapping[str, Any] | None = None) -> RunningSums:
    """Return the sums of a file, of which everything is checked before anything is made."""
    tree = container.header.get("sums")
    if container.header.keys() != {"format", "version", "sha256", *HEADER}:
        raise unfit("header", f"of {sorted(container.header)!r:.200}", ", ".join(HEADER))
    if not isinstance(tree, dict) or tree.keys() != {*PARTS, "labels"}:
        raise unfit("sums", show(tree), ", ".join((*PARTS, "labels")))
    given = {} if given is None else given
    check_given(tree, given)
    reader = Reader(container.tensors(), given)
    try:
        parts = {
            name: decode(tree[name], kind, name, reader, RunningSums)
            for name, kind in PARTS.items()
        }
        given = tree["labels"]
        labels = None if given is None else Column("bags").decode(given, "labels", reader)
        reader.finish()
        _check(parts, labels)
        return RunningSums(labels=labels, **parts)
    except SavedModelError:
        raise
    except BagwiseError as error:  # of a constructor, such as Matern
        raise unfit("sums", str(error), "what bagwise.save writes") from error


def sums_schema(container: Container) -> dict[str, Any] | None:
    """Return how the columns of a table became the bags, if the file says so."""
    found = container.header.get("schema")
    if found is not None and not isinstance(found, dict):
        raise unfit("schema", show(found), "an object")
    return found


def _check(parts: dict[str, Any], labels: Any) -> None:
    """Check what concerns several parts at once."""
    d, scatter = parts["features"].n_outputs, parts["scatter"]
    if scatter is not None and scatter.shape[1] != d * (d + 1) // 2:
        raise unfit("scatter", f"of {scatter.shape[1]} numbers", f"{d * (d + 1) // 2} for each bag")
    p = len(parts["features"].scaling.center)
    names = parts["feature_names"]
    if parts["n_features"] != p or (names is not None and len(names) != p):
        raise unfit("n_features", show(parts["n_features"]), f"{p}, as the features have")
    covariates, named = parts["covariates"], parts["covariate_names"]
    n_covariates = 0 if covariates is None else covariates.shape[1]
    if named is not None and len(named) != n_covariates:
        raise unfit("covariate_names", show(named), f"{n_covariates} names")
    if labels is None and parts["labelled"].any():
        raise unfit("labelled", "true of some bags", "labels, or no bag with one")
    for name in ("counts", "unit", "total", "squares"):
        if not (parts[name] > 0).all() or not np.isfinite(parts[name]).all():
            raise unfit(name, "not positive for every bag", "points in every bag")
    for name in ("sums", "scatter", "covariates"):
        if parts[name] is not None and not np.isfinite(parts[name]).all():
            raise unfit(name, "not finite", "numbers")
    if len(parts["state"]) != len(NO_STATE):
        raise unfit("state", show(parts["state"]), f"{len(NO_STATE)} digits")
