"""Per bag: ids, and values given one per bag, such as labels, checked and in their order."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Shaped
from numpy.typing import ArrayLike

from bagwise.bags.validation import LARGEST, is_usable, show, unusable
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError, UnknownBagError

# Ids that a message names; the rest are counted.
MAX_NAMED = 5

PerBag = ArrayLike | Mapping[Any, Any]  # labels and the like, in the order of the bags or with ids
Ids = Shaped[np.ndarray, " n_bags"] | None

# NumPy's scalars have Python's own types, by which ids are compared.
PYTHON_TYPES = ((bool, np.bool_), (int, np.integer), (str, np.str_), (float, np.floating))

MISSING_TYPES = frozenset({"NoneType", "NAType", "NaTType"})  # by name: pandas may not be installed


def missing(values: Shaped[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Which values are missing: NaN, NaT, None or pandas.NA.

    Examples
    --------
    >>> missing(np.array(["a", None], dtype=object))
    array([False,  True])
    """
    if values.dtype.kind == "f":
        return np.isnan(values)
    if values.dtype.kind in "mM":
        return np.isnat(values)
    suspects = set(map(type, values)) if values.dtype.kind == "O" else set()
    if not any(kind.__name__ in MISSING_TYPES or issubclass(kind, float) for kind in suspects):
        return np.zeros(len(values), dtype=bool)
    absent = (
        type(value).__name__ in MISSING_TYPES or (isinstance(value, float) and value != value)
        for value in values
    )
    return np.fromiter(absent, dtype=bool, count=len(values))


class CountedIds(np.ndarray):
    """Ids that nobody gave: they number the bags as they were made, and name none of them.

    Parts of such an array are of this class too, so that it is still known of some of the bags.
    """

    @classmethod
    def of(cls, n_bags: int) -> CountedIds:
        """Return 0, 1, 2, ..."""
        return np.arange(n_bags, dtype=np.int64).view(cls)


def id_array(values: Any) -> Shaped[np.ndarray, " n"]:
    """Return ids of one hashable type as a 1-D array.

    Integers become int64 and strings a NumPy string array; other types are kept as objects.

    Examples
    --------
    >>> id_array(["a", "b"])
    array(['a', 'b'], dtype='<U1')
    """
    return values if isinstance(values, CountedIds) else plain(checked_ids(values))


def check_distinct(ids: Shaped[np.ndarray, " n"]) -> None:
    """Raise if two bags have the same id."""
    first: dict[Any, int] = {}
    for position, bag in enumerate(ids.tolist()):
        if first.setdefault(bag, position) != position:
            raise InvalidBagsError.because(
                f"two bags have the id {show(bag)}: positions {first[bag]} and {position}",
                "an id of its own for every bag",
                "Rename one; if their points are one bag, use Bags.from_groups(X, groups).",
            )


def plain(array: Shaped[np.ndarray, " n"]) -> Shaped[np.ndarray, " n"]:
    """Give objects that are all numbers or strings the NumPy dtype they could have had.

    Integers beyond 64 bits stay: NumPy would make floats of them, and two ids may become one. So
    does text that ends with null characters, which NumPy would leave out.

    Examples
    --------
    >>> plain(np.array(["a", "b"], dtype=object)).dtype.kind
    'U'
    >>> len(set(plain(np.array(["a", "a" + chr(0)], dtype=object))))
    2
    """
    if array.dtype.kind == "O" and len(array) and _kind(type(array[0])) in (int, float, str, bool):
        if _kinds(array) == {int}:
            low, high = array.min(), array.max()
            for dtype in (np.int64, np.uint64):
                if np.iinfo(dtype).min <= low and high <= np.iinfo(dtype).max:
                    return array.astype(dtype)
            return array
        given = array.tolist()
        converted = np.array(given)
        cut = converted.dtype.kind == "U" and any(str(each).endswith("\0") for each in given)
        array = converted if converted.dtype.kind in "iufUb" and not cut else array
    small_integer = array.dtype.kind in "iu" and array.dtype != np.uint64
    return array.astype(np.int64, copy=False) if small_integer else array


def checked_ids(values: Any) -> Shaped[np.ndarray, " n"]:
    """Return ids as a 1-D array with none missing and, if they are objects, of one type."""
    if isinstance(values, list | tuple):  # of which NumPy would merge different types
        array = np.fromiter(values, dtype=object, count=len(values))
    else:
        array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidBagsError.because(
            f"the bag ids have shape {array.shape}", "one dimension", "Pass a 1-D array or a list."
        )
    array = array.astype(object) if array.dtype.kind == "T" else array  # variable-width strings
    absent = missing(array)
    if absent.any():
        position = int(np.flatnonzero(absent)[0])
        raise InvalidBagsError.because(
            f"the bag id at position {position} is missing ({array[position]})",
            "an id for every bag and every row",
            "Drop these rows or give them an id.",
        )
    if array.dtype.kind == "O" and len(array):
        _check_one_type(array)
    return array


def _check_one_type(array: Shaped[np.ndarray, " n"]) -> None:
    """Raise unless all objects have one hashable type."""
    first = _kind(type(array[0]))
    if len(_kinds(array)) > 1:
        odd = next(i for i, value in enumerate(array) if _kind(type(value)) is not first)
        raise InvalidBagsError.because(
            f"bag ids mix types: position 0 is {first.__name__} ({show(array[0])}) "
            f"but position {odd} is {type(array[odd]).__name__} ({show(array[odd])})",
            "ids of one type",
            "Convert them all, for example with [str(i) for i in ids].",
        )
    position = first_unhashable(array)
    if position is not None:
        raise InvalidBagsError.because(
            f"the bag id at position {position} is a {first.__name__}, which cannot be hashed",
            "a hashable type, such as int, str or tuple",
            "Turn the ids into strings or tuples.",
        )


def first_unhashable(values: Shaped[np.ndarray, " n"]) -> int | None:
    """Return the position of the first value that no set can hold, such as a list."""
    doubtful = values.dtype.kind == "O" and not _kinds(values) <= {bool, int, str, float}
    for position, value in enumerate(values) if doubtful else ():
        try:
            hash(value)
        except TypeError:
            return position
    return None


def check_single(
    rows: Shaped[np.ndarray, " n_rows"], name: str, error: type[BagwiseError] = InvalidBagsError
) -> None:
    """Raise if a row of a column holds several values, as a list or a record does."""
    odd = first_unhashable(rows)
    if odd is not None:
        raise error.because(
            f"{name} holds values of type {type(rows[odd]).__name__}, such as {show(rows[odd])}",
            "one number, word, date or truth value in a row",
            "Take one out of them first, or name another column.",
        )


def _kind(kind: type) -> type:
    """Return Python's own type for NumPy's scalars of that type."""
    return next((both[0] for both in PYTHON_TYPES if issubclass(kind, both)), kind)


def _kinds(values: Shaped[np.ndarray, " n"]) -> set[type]:
    return set(map(_kind, set(map(type, values))))


def keys(ids: Shaped[np.ndarray, " n_bags"]) -> list[Hashable]:
    """Return ids as values that are equal where the ids are, whatever table they come from.

    Examples
    --------
    >>> keys(np.array([1, 2])) == keys(np.array([1.0, 2.0]))
    True
    """
    return ids.astype("M8[ns]").tolist() if ids.dtype.kind == "M" else ids.tolist()


def in_bag_order(
    values: Any, ids: Ids, what: str = "labels", error: type[BagwiseError] = InvalidLabelsError
) -> Any:
    """Return values given one per bag in the order of the bags.

    The rule, for all of bagwise:

    - **A dict goes by id.** It must have the id of every bag as a key.
    - **A pandas index that holds the id of every bag goes by id**, in any order (of tuples, a
      MultiIndex). Further rows, of bags that are not here, are left aside: labels of all patients
      serve for any part of them. An index that holds an id twice, some ids but not all, or names
      none of these bags at all, is refused.
    - **Position** is for what says nothing of the bags: arrays, lists, polars and pyarrow, which
      have no index; an index 0, 1, 2, ... without a name; other integers without a name of which
      none is an id, as scikit-learn's splits leave them behind; and bags that were made without
      ids.
    - **Either could be meant**, and it is refused, if the index or the ids only count, and both
      have the same numbers in another order.

    Parameters
    ----------
    values : one value or row per bag
    ids : (n_bags,), or None if nothing is known of them
    what : name of the values in messages, in the plural
    error : to raise

    Examples
    --------
    >>> import pandas as pd
    >>> ids = np.array(["b", "a"])
    >>> in_bag_order(pd.Series({"a": 1.0, "b": 2.0, "c": 3.0}), ids).tolist()
    [2.0, 1.0]
    >>> in_bag_order({"a": 1.0, "b": 2.0}, ids)
    [2.0, 1.0]
    """
    if isinstance(values, Mapping):
        if ids is None:
            raise error.because(f"the {what} are a dict", "bags with ids", "Give an array.")
        rows = _rows_by_id(_keys(values), _keys(ids), what, error)
        given = list(values.values())
        return [given[row] for row in rows]
    index = _index(values)
    if index is None or ids is None:
        return values
    held, own = _keys(index), _keys(ids)
    if held == own:
        return values
    if isinstance(ids, CountedIds) or _counts(index, held):
        if len(held) == len(own) and set(held) == set(own):
            raise error.because(
                f"the index of the {what} has the same numbers as bags.ids in another order, and "
                "one of the two only counts",
                f"{what} of which it is plain whether they go by id or by position",
                "Give .to_numpy() if they are in the order of the bags, .loc[bags.ids] if the "
                "index holds ids.",
            )
        return values
    if set(own).isdisjoint(held):
        if _row_numbers(index) and not set(map(str, own)) & set(map(str, held)):
            return values
        raise _other_ids(held, own, what, error)
    return values.iloc[_rows_by_id(held, own, what, error)]


def array_per_bag(
    values: Any, ids: Ids, what: str = "labels", error: type[BagwiseError] = InvalidLabelsError
) -> Shaped[np.ndarray, "..."]:
    """Return values in the order of the bags (see :func:`in_bag_order`) as an array.

    Strings among which is something else stay objects, as NumPy would make strings of it.

    Examples
    --------
    >>> array_per_bag(["a", np.nan], None)
    array(['a', nan], dtype=object)
    """
    values = in_bag_order(values, ids, what, error)
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise error.because(
            f"the {what} have masked entries", "no missing values", "Drop or impute them first."
        )
    try:
        array = np.asarray(values)
        if array.dtype.kind in "US" and not isinstance(values, np.ndarray):
            given = np.asarray(values, dtype=object)
            alike = all(isinstance(value, str | bytes) for value in given.flat)
            array = array if alike else given
    except ValueError:
        raise error.because(
            f"the {what} have entries of different lengths",
            "one value for each bag",
            "Pass a 1-D array.",
        ) from None
    return array


def numbers_per_bag(
    values: Any, ids: Ids, what: str = "labels", error: type[BagwiseError] = InvalidLabelsError
) -> Float64[np.ndarray, "..."]:
    """Return real numbers in the order of the bags as a float64 array; what is missing is NaN.

    Examples
    --------
    >>> numbers_per_bag([1, Decimal("2.5"), None], None)
    array([1. , 2.5, nan])
    """
    array = array_per_bag(values, ids, what, error)
    if array.dtype.kind == "O" and all(map(_is_number, array.flat)):
        absent = missing(array.ravel()).reshape(array.shape)
        try:
            array = np.where(absent, np.nan, array).astype(np.float64)
        except OverflowError:
            raise error.because(
                f"the {what} have an integer of more than 308 digits",
                "numbers that a float can hold",
                "Give them in a larger unit.",
            ) from None
    if array.dtype.kind not in "fiub":
        raise error.because(
            f"the {what} have dtype {array.dtype}",
            "real numbers",
            "Convert them with y.astype(float).",
        )
    return array.astype(np.float64)


def check_labels(y: Any, bags: Any) -> Float64[np.ndarray, " n_bags"]:
    """Return labels as float64 (n_bags,): real, finite, one per bag; a column (n_bags, 1) will do.

    They go by id where they have one: see :func:`in_bag_order`.
    """
    labels = _one_per_bag(numbers_per_bag(y, bags.ids), bags)
    bad = np.flatnonzero(~is_usable(labels))
    if len(bad):
        place = f"the label of bag {show(bags.ids[bad[0]])} (position {bad[0]})"
        remedy = "Drop the bags without a label: keep = np.isfinite(y); bags[keep], y[keep]."
        raise unusable(InvalidLabelsError, place, labels[bad[0]], remedy)
    if 0 < np.ptp(labels) < 1.0 / LARGEST:
        raise InvalidLabelsError.because(
            f"the labels differ, but by {np.ptp(labels):g} at most",
            f"differences of {1.0 / LARGEST:g} or more, whose squares are not 0",
            "Give the labels in a smaller unit.",
        )
    return labels


def check_classes(y: Any, bags: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes, sorted, and the place of that of each bag among them (n_bags,)."""
    labels = _one_per_bag(array_per_bag(y, bags.ids), bags)
    if labels.dtype.kind == "c" or labels.dtype.names is not None:
        raise InvalidLabelsError.because(
            f"the labels have dtype {labels.dtype}",
            "two classes or more",
            "Give numbers, strings or booleans.",
        )
    bad = np.flatnonzero(missing(labels))
    if len(bad):
        raise InvalidLabelsError.because(
            f"the label of bag {show(bags.ids[bad[0]])} (position {bad[0]}) is {labels[bad[0]]}",
            "a class",
            "Drop the bags without a label.",
        )
    try:
        classes, which = np.unique(labels, return_inverse=True)
    except TypeError as error:
        kinds = sorted({type(label).__name__ for label in labels.tolist()})
        raise InvalidLabelsError.because(
            f"the labels are of types {', '.join(kinds)}",
            "labels of one type",
            "Convert them to strings.",
        ) from error
    if len(classes) == 1:
        raise InvalidLabelsError.because(
            f"all {bags.n_bags} bags have the label {show(classes[0])}",
            "two classes or more",
            "There is nothing to learn; give bags of the other classes too.",
        )
    if len(classes) > 2 and labels.dtype.kind == "f" and (classes != np.floor(classes)).any():
        shown = ", ".join(repr(label) for label in classes[:4].tolist())
        dots = ", …" if len(classes) > 4 else ""
        raise InvalidLabelsError.because(
            f"the labels are {len(classes)} numbers, not all of them whole: {shown}{dots}",
            "classes",
            "If the labels are amounts, use a regressor; else convert them to strings.",
        )
    return classes, which.astype(np.int64)


def looks_like_classes(y: Any) -> bool:
    """Whether labels are classes, when no model says so: not numbers, or of two values.

    Examples
    --------
    >>> looks_like_classes([0, 1, 1]), looks_like_classes(["a", "b"]), looks_like_classes([1, 2, 3])
    (True, True, False)
    """
    labels = array_per_bag(y, None)
    if labels.dtype.kind not in "fiu":
        return True
    return len(np.unique(labels[np.isfinite(labels)])) == 2


def _one_per_bag(labels: np.ndarray, bags: Any) -> np.ndarray:
    labels = labels.ravel() if labels.ndim == 2 and labels.shape[1] == 1 else labels
    if labels.ndim != 1:
        raise InvalidLabelsError.because(
            f"the labels have shape {labels.shape}",
            f"({bags.n_bags},), one label per bag",
            "Pass a 1-D array; fit one model for each column if there are several.",
        )
    if len(labels) != bags.n_bags:
        raise InvalidLabelsError.because(
            f"there are {len(labels)} labels for {bags.n_bags} bags",
            "one label per bag",
            "Labels belong to bags, not to points: keep one for each bag."
            if len(labels) == bags.n_points
            else "Check that labels and bags come from the same rows.",
        )
    return labels


def rows_by_key(key: Any, ids: Ids) -> Any:
    """Return an index of bags with ids in it turned into positions.

    Integers are positions, whatever the ids; strings are ids, and so are tuples if the ids are
    tuples; lists of such are too. All else is returned as it is.

    Examples
    --------
    >>> ids = np.array(["a", "b", "c"])
    >>> rows_by_key("b", ids), rows_by_key(["c", "a"], ids), rows_by_key([0, 1], ids)
    (1, [2, 0], [0, 1])
    """
    tuples = ids is not None and len(ids) > 0 and isinstance(ids[0], tuple)
    kinds: tuple[type, ...] = (str, tuple) if tuples else (str,)
    if isinstance(key, kinds):
        return positions_by_id([key], ids)[0]
    several = isinstance(key, Sequence) or (isinstance(key, np.ndarray) and key.dtype.kind in "UO")
    if several and len(key) and all(isinstance(one, kinds) for one in key):
        return positions_by_id(list(key), ids)
    return key


def positions_by_id(wanted: Sequence[Any], ids: Ids) -> list[int]:
    """Return where the bags of these ids are."""
    if ids is None:
        raise UnknownBagError.because(
            f"bag {show(wanted[0])} is asked for by its id, but these bags have none",
            "an integer, a slice or a mask",
            "Choose by position.",
        )
    where: dict[Hashable, list[int]] = {}
    for position, key in enumerate(_keys(ids)):
        where.setdefault(key, []).append(position)
    keys = _keys(wanted)
    for bag, key in zip(wanted, keys, strict=True):
        found = where.get(key, [])
        if not found:
            raise UnknownBagError.because(
                f"no bag has the id {show(bag)}",
                f"one of the {len(ids)} in bags.ids, such as {_named(ids[:2].tolist())}",
                "Check the spelling and the type; bags[3] is the bag at position 3.",
            )
        if len(found) > 1:
            raise InvalidBagsError.because(
                f"{len(found)} bags have the id {show(bag)}",
                "an id that one bag has",
                f"Choose by position: bags[{found[0]}].",
            )
    return [where[key][0] for key in keys]


def same_rows(named: Mapping[str, Any]) -> None:
    """Raise unless what is given row by row, by name, has the same pandas index, if it has any.

    An index 0, 1, 2, ... says nothing, unless others have its numbers in another order.
    """
    found = {name: _index(values) for name, values in named.items()}
    indexes = {name: _keys(index) for name, index in found.items() if index is not None}
    for name, keys in list(indexes.items())[1:]:
        first = next(iter(indexes))
        if keys == indexes[first]:
            continue
        counts = any(_counts(found[one], indexes[one]) for one in (first, name))
        if not counts or set(keys) == set(indexes[first]):
            raise InvalidBagsError.because(
                f"{first} and {name} have different pandas indexes",
                "the same index for the same rows, in the same order",
                f"Bring {name} into the order of {first} with .loc; if it is already, give "
                f"{name}.to_numpy().",
            )


def series_index(values: Any) -> list[Hashable] | None:
    """Return the index of a pandas Series if it may hold ids; None if it only counts rows."""
    index = _index(values)
    if index is None or np.ndim(values) != 1:
        return None
    keys = _keys(index)
    repeats = len(set(keys)) < len(keys)
    return None if _counts(index, keys) or (repeats and _row_numbers(index)) else keys


def _index(values: Any) -> Any:
    """Return the index of a pandas Series or data frame, or of what is like it; else None."""
    return values.index if hasattr(values, "iloc") and hasattr(values, "index") else None


def _keys(ids: Any) -> list[Hashable]:
    """Return ids or an index as values that are equal where the ids are, whatever their type."""
    if isinstance(ids, np.ndarray) and ids.dtype.kind == "M":
        micro = ids.astype("M8[us]")
        ids = micro if (micro == ids).all() else ids
    return list(map(_key, ids.tolist() if hasattr(ids, "tolist") else ids))


def _key(value: Any) -> Hashable:
    """Return one id as Python's own type; a day as its midnight, as pandas has it."""
    if isinstance(value, np.datetime64):
        value = value.astype("M8[us]").item()
    return datetime(value.year, value.month, value.day) if type(value) is date else value


def _counts(index: Any, held: list[Hashable]) -> bool:
    """Whether an index is the one that pandas makes by itself: 0, 1, 2, ..., without a name."""
    return _row_numbers(index) and held == list(range(len(held)))


def _row_numbers(index: Any) -> bool:
    """Whether an index may be what is left of one that counts: integers without a name."""
    return index.nlevels == 1 and index.name is None and index.dtype.kind in "iu"


def _rows_by_id(
    held: Sequence[Hashable], own: list[Hashable], what: str, error: type[BagwiseError]
) -> list[int]:
    """Return the row of each bag, after checking that it has one."""
    where: dict[Hashable, int] = {}
    for row, key in enumerate(held):
        if where.setdefault(key, row) != row:
            raise error.because(
                f"the {what} have bag {show(key)} twice, in rows {where[key]} and {row}",
                "one row per bag",
                "Aggregate them to one row per bag, for example with groupby(...).first().",
            )
    lacking = list(dict.fromkeys(key for key in own if key not in where))
    if lacking:
        raise error.because(
            f"the {what} lack bag {_named(lacking)} ({len(lacking)} of {len(set(own))} bags)",
            "the ids of all bags, in any order",
            f"Add what is missing, or leave these bags out; if the {what} are in the order of the "
            "bags, give .to_numpy().",
        )
    return [where[key] for key in own]


def _other_ids(
    held: list[Hashable], own: list[Hashable], what: str, error: type[BagwiseError]
) -> BagwiseError:
    kinds = [type(keys[0]).__name__ for keys in (held, own) if keys]
    types = f" (these are of type {kinds[0]}, those {kinds[1]})" if len(set(kinds)) > 1 else ""
    return error.because(
        f"the index of the {what} has {_named(held[:2])}, … and none of the bags {_named(own[:2])}"
        f", …{types}",
        "the ids of all bags, of the same type, in any order",
        f"Convert one of them; if the {what} are in the order of the bags, give .to_numpy().",
    )


def _named(ids: Sequence[Hashable]) -> str:
    shown = ", ".join(show(one) for one in ids[:MAX_NAMED])
    return shown + (", …" if len(ids) > MAX_NAMED else "")


def _is_number(value: Any) -> bool:
    return isinstance(value, Real | Decimal) or bool(missing(np.array([value], dtype=object))[0])
