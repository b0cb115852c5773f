"""Arrays with one item per bag, checked and put together for ``Bags``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from jaxtyping import Float, Float64, Shaped

from bagwise.bags.grouping import CountedIds, Grouping, check_distinct, id_array, no_bags, show
from bagwise.bags.per_bag import in_bag_order, same_rows, series_index
from bagwise.bags.tables.frames import to_matrix
from bagwise.bags.validation import Names, check_names, check_offsets, empty_bag, real_array
from bagwise.exceptions import InvalidBagsError


def n_axes(values: Any) -> int:
    """Return the number of dimensions; for lists, as their first elements have it."""
    if isinstance(values, list | tuple):
        return 1 + (n_axes(values[0]) if values else 0)
    return len(getattr(values, "shape", ()))


def named_arrays(arrays: Any, ids: Any) -> tuple[list[Any], Shaped[np.ndarray, " n_bags"]]:
    """Return the arrays of the bags as a list, and their ids: given, their own, or counted.

    Examples
    --------
    >>> named_arrays({"a": [[1.0]]}, None)
    ([[[1.0]]], array(['a'], dtype='<U1'))
    """
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


def one_per_bag(
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


def stack_weights(
    given: Any, parts: list[Float[np.ndarray, "_ _"]], ids: Shaped[np.ndarray, " n"]
) -> Float64[np.ndarray, " n_points"]:
    """Return the weights of all bags, given in their order or by id, end to end and checked."""
    ordered = in_bag_order(given, ids, "weights", InvalidBagsError)
    try:
        weights = list(ordered)
    except TypeError:  # one number
        raise InvalidBagsError.because(
            f"the weights are {show(given)}",
            "one 1-D array of weights per bag",
            "Pass a list with one array of weights per bag, or weights=None.",
        ) from None
    if len(weights) != len(parts):
        raise InvalidBagsError.because(
            f"there are weights for {len(weights)} bags but {len(parts)} bags",
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


def one_row_per_bag(covariates: Any, names: Any, grouping: Grouping, X: Any) -> tuple[Any, Any]:
    """Reduce covariates given per row of X, if they are, to one row per bag."""
    n_rows, n_bags = int(grouping.offsets[-1]), len(grouping.ids)
    if len(covariates) == n_rows != n_bags:
        same_rows({"X": X, "covariates": covariates})
    else:
        covariates = in_bag_order(covariates, grouping.ids, "covariates", InvalidBagsError)
    if np.ndim(covariates) == 1:
        covariates = np.asarray(covariates).reshape(-1, 1)
    array, own_names = to_matrix(covariates, "the array of covariates")
    names = check_names(own_names if names is None else names, array.shape[1], "covariate")
    if len(array) == n_bags or len(array) != n_rows:
        return array, names
    labels = range(array.shape[1]) if names is None else names
    columns = [
        grouping.constant(column, f"covariate {label!r}")
        for label, column in zip(labels, array.T, strict=True)
    ]
    return np.column_stack(columns), names
