"""Validation: of points (numbers or objects), weights, covariates and names; of parameters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from numbers import Number
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64, Shaped
from narwhals.dependencies import is_into_dataframe

from bagwise.exceptions import BagwiseError, InvalidBagsError

# Numbers are checked this many at a time, so that the check needs little memory.
CHUNK_NUMBERS = 2**20

# The largest number that can be used: sums of squares of larger ones overflow. No unit of
# measurement is so small, so what is larger is a slip or stands for something missing.
LARGEST = np.float64(1e150)  # of that type, as float32 would make it infinite

Names = tuple[str, ...] | None

# Characters of a value that a message shows: an id or a cell may be a page of text.
LONGEST_SHOWN = 80

is_frame = is_into_dataframe


def sizes_to_offsets(sizes: Any) -> Int64[np.ndarray, " n_offsets"]:
    """Return where each bag starts, and where the last one ends."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def locate(row: int, offsets: Int64[np.ndarray, " n_offsets"]) -> tuple[int, int]:
    """Return the bag that holds a stacked row, and the row's number within that bag."""
    bag = int(np.searchsorted(offsets, row, side="right")) - 1
    return bag, int(row - offsets[bag])


def show(value: object) -> str:
    """Write a value as Python would, without NumPy's type around it; the start of a long one.

    Examples
    --------
    >>> show(np.int64(3)), show(np.str_("a")), show("x" * 1000)[-3:]
    ('3', "'a'", 'xx…')
    """
    text = repr(value.tolist() if isinstance(value, np.generic | np.ndarray) else value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def no_bags() -> InvalidBagsError:
    """Return the error for an input without any bags."""
    return InvalidBagsError.because(
        "there are no bags at all", "at least one bag", "Check the filter that made this input."
    )


class Objects(np.ndarray):
    """Points of any kind: an array (n, 1) with an object in each row, of which parts are the same.

    Examples
    --------
    >>> Objects.of(["GATTACA", "CAT"])[:1].listed()
    ['GATTACA']
    """

    @classmethod
    def of(cls, values: Iterable[Any]) -> Objects:
        """Return objects, which are kept as they are."""
        held = list(values)
        array = np.empty((len(held), 1), dtype=object)
        for row, value in enumerate(held):  # one by one, as NumPy would look into lists
            array[row, 0] = value
        return array.view(cls)

    def listed(self) -> list[Any]:
        """Return the objects as a list."""
        return [row[0] for row in np.asarray(self)]


def stacked(parts: Iterable[np.ndarray]) -> np.ndarray:
    """Return arrays of points one after the other; objects stay objects."""
    parts = list(parts)
    joined = np.concatenate(parts)
    return joined.view(Objects) if isinstance(parts[0], Objects) else joined


def is_object(value: Any) -> bool:
    """Whether a point is an object: neither a number nor a row of them.

    A tuple is one if something in it is. A list is taken for a row, and so is what NumPy knows.

    Examples
    --------
    >>> [is_object(x) for x in ("ab", ("C", 3), {1, 2}, (1.0, 2.0), ["a", "b"], 7)]
    [True, True, True, False, False, False]
    """
    if isinstance(value, str | bytes | set | frozenset | Mapping):
        return True
    if isinstance(value, tuple):
        return any(map(is_object, value))
    known = value is None or isinstance(value, Number | np.generic | list)
    return not known and not hasattr(value, "__array__") and not hasattr(value, "toarray")


def holds_objects(bag: Any) -> bool:
    """Whether a bag, a list or another sequence, holds objects, as its first point says.

    Examples
    --------
    >>> holds_objects(["ab", "c"]), holds_objects([[1.0, 2.0]]), holds_objects("ab")
    (True, False, False)
    """
    if isinstance(bag, Objects):
        return True
    if not isinstance(bag, list | tuple):
        if getattr(bag, "ndim", None) != 1 and not hasattr(bag, "to_list"):
            return False
    return len(bag) > 0 and is_object(next(iter(bag)))


def check_objects(points: Objects, where: Any) -> Objects:
    """Return objects, or raise if one is missing (None, NaN); ``where`` names a row."""
    for row, value in enumerate(points.listed()):
        missing = value is None
        if isinstance(value, float | np.floating):
            missing = bool(np.isnan(value))
        if missing:
            raise InvalidBagsError.because(
                f"{where(row)} is {value}", "an object", "Drop the point."
            )
    return points


def is_positive(value: Any) -> bool:
    """Whether a value is a finite real number > 0, of Python or NumPy, and no truth value.

    Examples
    --------
    >>> [is_positive(value) for value in (2, np.float32(0.5), 0.0, np.inf, True, "2", 1j)]
    [True, True, False, False, False, False, False]
    """
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return 0.0 < float(value) < np.inf
    except OverflowError:  # an integer of more than 308 digits
        return False


def random_generator(random_state: Any) -> np.random.Generator:
    """Return NumPy's generator for a seed, or the generator that was given."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise BagwiseError.because(
            f"random_state is {random_state!r}",
            "None, a whole number of at least 0, or a random generator of NumPy",
            "Give random_state=0, for example.",
        ) from None


def is_usable(array: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Whether numbers can be used: no NaN, not infinite, not beyond :data:`LARGEST`."""
    return np.abs(array) <= array.dtype.type(min(LARGEST, float(np.finfo(array.dtype).max)))


def unusable(error: type[BagwiseError], place: str, value: Any, remedy: str) -> BagwiseError:
    """Return the error of a number that cannot be used; the remedy is for those not finite."""
    if not np.isfinite(value):
        return error.because(f"{place} is {value}", "a finite number", remedy)
    return error.because(
        f"{place} is {value:g}",
        f"a number between -{LARGEST:g} and {LARGEST:g}",
        "Give it in a larger unit; or, if it stands for a missing value, say so or leave it out.",
    )


def real_array(values: Any, what: str) -> Float[np.ndarray, "..."]:
    """Return real numbers as a float array: float32 stays float32, all else becomes float64.

    Errors start with ``what`` it is, such as ``"bag 3"``.
    """
    if hasattr(values, "toarray"):
        raise InvalidBagsError.because(
            f"{what} is a sparse matrix", "a dense array", "Convert it with .toarray()."
        )
    if np.ma.isMaskedArray(values) and np.ma.getmaskarray(values).any():
        raise InvalidBagsError.because(
            f"{what} has masked entries", "no missing values", "Drop or impute them first."
        )
    try:
        array = np.asarray(values)
    except ValueError:
        raise InvalidBagsError.because(
            f"{what} has rows of different lengths",
            "as many features in every row",
            "Check that every row has the same features.",
        ) from None
    if array.dtype.kind not in "fiub":
        raise InvalidBagsError.because(
            f"{what} has dtype {array.dtype}",
            "real numbers",
            "Convert it with .astype(float), or leave out the columns that are not numbers.",
        )
    return array if array.dtype == np.float32 else array.astype(np.float64, copy=False)


def matrix(values: Any, what: str) -> Shaped[np.ndarray, "rows columns"]:
    """Return a 2-D float array with at least one column; see :func:`real_array`.

    Objects stay what they are.
    """
    if isinstance(values, Objects):
        return values
    array = real_array(values, what)
    if array.ndim != 2:
        raise InvalidBagsError.because(
            f"{what} has shape {array.shape}",
            "a 2-D array (points, features)",
            "Use .reshape(-1, 1) if these are points with one feature, "
            ".reshape(1, -1) if this is one point."
            if array.ndim == 1
            else "Pass one row per point and one column per feature.",
        )
    if array.shape[1] == 0:
        raise InvalidBagsError.because(
            f"{what} has no feature columns", "at least one", "Check how the columns were chosen."
        )
    return array


def to_matrix(
    rows: Any, what: str, names: Any = None
) -> tuple[Shaped[np.ndarray, "rows columns"], Any]:
    """Return a 2-D float array and its column names, from a data frame or anything array-like.

    Names that are given go before those of a frame.
    """
    if not is_frame(rows):
        return matrix(rows, what), names
    from bagwise.bags.tables.frames import frame_matrix

    array, own_names = frame_matrix(rows)
    return matrix(array, what), own_names if names is None else names


def check_points(
    points: Any,
    offsets: Int64[np.ndarray, " n_offsets"],
    ids: Shaped[np.ndarray, " n_bags"],
    names: Names = None,
) -> Shaped[np.ndarray, "n_points n_features"]:
    """Return stacked points as a finite, C-contiguous float array; name the bag if they are not."""
    points = matrix(points, "the array of points")
    points = points if isinstance(points, Objects) else np.ascontiguousarray(points)
    if len(points) != offsets[-1]:
        raise InvalidBagsError.because(
            f"there are {len(points)} points for bags of {offsets[-1]} points altogether",
            "one row per point",
            "Keep the rows as they are in bags.points.",
        )
    if isinstance(points, Objects):

        def where(row: int) -> str:
            bag, within = locate(row, offsets)
            return f"bag {show(ids[bag])}, row {within}"

        return check_objects(points, where)
    found = first_unusable(points)
    if found is not None:
        row, column = found
        bag, within = locate(row, offsets)
        place = f"bag {show(ids[bag])}, row {within}, {column_label(column, names)}"
        remedy = "Drop the point or impute the value."
        raise unusable(InvalidBagsError, place, points[row, column], remedy)
    return points


def first_unusable(
    array: Float[np.ndarray, "rows columns"], chunk: int = CHUNK_NUMBERS
) -> tuple[int, int] | None:
    """Return the (row, column) of the first number that is not usable, or None.

    So many numbers (``chunk``) are looked at together.
    """
    step = max(1, chunk // max(1, array.shape[1]))
    for start in range(0, len(array), step):
        part = array[start : start + step]
        low, high = float(part.min(initial=0.0)), float(part.max(initial=0.0))
        if -LARGEST <= low and high <= LARGEST:  # neither, if one is NaN
            continue
        row, column = np.argwhere(~is_usable(part))[0]
        return start + int(row), int(column)
    return None


def check_offsets(offsets: Any, ids: Any) -> Int64[np.ndarray, " n_offsets"]:
    """Return offsets as int64: from 0, growing by at least one point per bag; one id per bag."""
    offsets = np.asarray(offsets, dtype=np.int64)
    if len(offsets) < 2:
        raise no_bags()
    if len(ids) != len(offsets) - 1:
        raise InvalidBagsError.because(
            f"there are {len(ids)} ids for {len(offsets) - 1} bags",
            "one id per bag",
            "Pass as many ids as bags, or none.",
        )
    if offsets[0] != 0:
        raise InvalidBagsError.because(
            f"the offsets start at {offsets[0]}", "0", "Slice Bags with bags[start:stop] instead."
        )
    empty = np.flatnonzero(np.diff(offsets) < 1)
    if len(empty):
        raise empty_bag(int(empty[0]), ids)
    return offsets


def empty_bag(position: int, ids: Shaped[np.ndarray, " n_bags"]) -> InvalidBagsError:
    """Return the error for a bag without points."""
    return InvalidBagsError.because(
        f"bag {show(ids[position])} (position {position}) is empty",
        "at least one point in every bag",
        "Drop empty bags, and their labels, first.",
    )


def check_weights(
    weights: Any, offsets: Int64[np.ndarray, " n_offsets"], ids: Shaped[np.ndarray, " n_bags"]
) -> Float64[np.ndarray, " n_points"]:
    """Return point weights as float64: finite, not negative, with a positive sum in every bag."""
    weights = real_array(weights, "the array of weights").astype(np.float64, copy=False)
    if weights.shape != (offsets[-1],):
        raise InvalidBagsError.because(
            f"the weights have shape {weights.shape}",
            f"({offsets[-1]},), one weight per point",
            "Give every point of every bag a weight, or pass weights=None.",
        )
    bad = np.flatnonzero(~is_weight(weights))
    if len(bad):
        bag, within = locate(int(bad[0]), offsets)
        raise bad_weight(ids[bag], within, weights[bad[0]])
    empty = np.flatnonzero(np.add.reduceat(weights, offsets[:-1]) == 0)
    if len(empty):
        raise no_weight(ids[empty[0]])
    return np.ascontiguousarray(weights)


def is_weight(weights: Float64[np.ndarray, " n"]) -> Bool[np.ndarray, " n"]:
    """Whether numbers can be weights of points."""
    return is_usable(weights) & (weights >= 0)


def bad_weight(bag: Any, row: int, weight: float) -> InvalidBagsError:
    """Return the error for a point whose weight is none."""
    return InvalidBagsError.because(
        f"bag {show(bag)}, row {row} has weight {weight}",
        f"a finite weight of at least 0 and at most {LARGEST:g}",
        "Drop the point or give it another weight: only ratios within a bag matter.",
    )


def no_weight(bag: Any) -> InvalidBagsError:
    """Return the error for a bag whose points all have weight 0."""
    return InvalidBagsError.because(
        f"all weights of bag {show(bag)} are 0",
        "a positive sum of weights in every bag",
        "Drop the bag, or give at least one of its points a positive weight.",
    )


def check_covariates(
    covariates: Any, ids: Shaped[np.ndarray, " n_bags"], names: Names = None
) -> Float64[np.ndarray, "n_bags n_covariates"]:
    """Return bag covariates as finite float64, one row per bag; a 1-D array is one column."""
    array = real_array(covariates, "the array of covariates").astype(np.float64, copy=False)
    array = array.reshape(-1, 1) if array.ndim == 1 else array
    if array.ndim != 2 or len(array) != len(ids) or array.shape[1] == 0:
        raise InvalidBagsError.because(
            f"the covariates have shape {np.shape(covariates)} for {len(ids)} bags",
            f"({len(ids)}, number of covariates), one row per bag",
            "Give one row per bag, in the order of the bags, or pass covariates=None.",
        )
    found = first_unusable(array)
    if found is not None:
        bag, column = found
        place = f"bag {show(ids[bag])}, {column_label(column, names, 'covariate')}"
        remedy = "Impute the covariate or drop the bag."
        raise unusable(InvalidBagsError, place, array[bag, column], remedy)
    return np.ascontiguousarray(array)


def check_names(names: Any, count: int, what: str) -> Names:
    """Return column names as a tuple of distinct strings, one per column; None stays None."""
    if names is None:
        return None
    names = (names,) if isinstance(names, str) else tuple(names)
    if len(names) != count:
        raise InvalidBagsError.because(
            f"there are {len(names)} {what} names for {count} columns",
            "one name per column",
            f"Pass {what}_names of length {count}, or None.",
        )
    odd = [name for name in names if not isinstance(name, str)]
    if odd:
        raise InvalidBagsError.because(
            f"the {what} name {odd[0]!r} is a {type(odd[0]).__name__}",
            "strings",
            f"Convert the {what} names with str().",
        )
    repeated = next((name for name, times in Counter(names).items() if times > 1), None)
    if repeated is not None:
        raise InvalidBagsError.because(
            f"the {what} name {repeated!r} appears twice",
            "a different name for every column",
            "Rename or drop one of the two.",
        )
    return names


def column_label(column: int, names: Names, what: str = "column") -> str:
    """Name a column in a message: by its name if it has one, else by its number."""
    return f"{what} {column if names is None else repr(names[column])}"


def check_columns(what: str, fitted: Names, fitted_n: int, bags: Any) -> None:
    """Raise unless bags have the features, or covariates, of the fit: same names, same order.

    ``what`` is "feature" or "covariate". Names are compared only if both sides have them; they say
    more, so they come first.
    """
    names, n = getattr(bags, f"{what}_names"), getattr(bags, f"n_{what}s")
    if fitted is not None and names is not None and names != fitted:
        known, there = set(fitted), set(names)
        lacking = [name for name in fitted if name not in there]
        extra = [name for name in names if name not in known]
        if lacking or extra:
            raise InvalidBagsError.because(
                f"the {what} names differ from those in fit: missing {lacking}, unexpected {extra}",
                f"{fitted}",
                f"Select the same columns as in fit: df[{list(fitted)}].",
            )
        raise InvalidBagsError.because(
            f"the {what} columns are in another order than in fit: {names}",
            f"{fitted}",
            f"Reorder the columns: df[{list(fitted)}].",
        )
    if n != fitted_n:
        listing = "" if fitted is None else ": " + ", ".join(map(repr, fitted))
        raise InvalidBagsError.because(
            f"these bags have {n} {what}s",
            f"{fitted_n}, as in fit{listing}",
            f"Give the bags the {what}s that the model was fitted with.",
        )


# Parameters within these bounds can be squared, and multiplied with the data, without overflow.
LEAST, MOST = 1e-100, 1e100

# What sets a parameter of an estimator; one of a part of it is set by the part's constructor.
SETTER = "set_params"


def positive(name: str, value: Any, of: str = SETTER) -> float:
    """Return a parameter as a float, or raise unless it is a number > 0 of usable size."""
    if not is_positive(value):
        raise wrong(name, value, "a finite number > 0", of)
    if not LEAST <= float(value) <= MOST:
        raise wrong(name, value, f"a number between {LEAST:g} and {MOST:g}", of)
    return float(value)


def choice(name: str, value: Any, options: tuple[str, ...], of: str = SETTER) -> str:
    """Return a parameter, or raise unless it is one of the options."""
    if not isinstance(value, str) or value not in options:
        raise wrong(name, value, " or ".join(f'"{option}"' for option in options), of)
    return str(value)


def number_or(name: str, value: Any, *words: str, of: str = SETTER) -> float | None:
    """Return a positive number, or None if the parameter is one of the words."""
    if isinstance(value, str):
        if value not in words:
            raise wrong(name, value, f"a number > 0 or {' or '.join(map(repr, words))}", of)
        return None
    return positive(name, value, of)


def sampling_or_auto(value: Any) -> float | None:
    """Return τ, from 0 to 1, or None if it is to be learnt."""
    if isinstance(value, str):
        choice("sampling", value, ("auto",))
        return None
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0.0 <= value <= 1.0:
        raise wrong("sampling", value, 'a number from 0 to 1, or "auto"')
    return float(value)


def wrong(name: str, value: Any, expected: str, of: str = SETTER) -> BagwiseError:
    """Return the error of a parameter that is not what was expected; ``of`` is called to set it."""
    shown = repr(value) if len(repr(value)) < 80 else f"a {type(value).__name__}"
    return BagwiseError.because(f"{name} is {shown}", expected, f"Set it with {of}({name}=...).")


def flag(name: str, value: Any, of: str = SETTER) -> bool:
    """Return a parameter as a bool, or raise unless it is one."""
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, "True or False", of)
    return bool(value)


def whole_or_auto(name: str, value: Any, of: str = SETTER) -> int | None:
    """Return a whole number of at least 1, or None if the parameter is left to us."""
    if value is None or (isinstance(value, str) and value == "auto"):
        return None
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise wrong(name, value, 'a whole number of at least 1, or "auto"', of)
    return int(value)


def generator(random_state: Any) -> np.random.Generator:
    """Return a generator from whatever scikit-learn users call a random state."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    return random_generator(random_state)
