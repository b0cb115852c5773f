"""Numbers to try: points, labels, weights and covariates, ordinary and odd."""

from decimal import Decimal
from fractions import Fraction

import numpy as np


def sizes(trial, n_bags):
    """Return bag sizes of 1 to 1,000."""
    rng = trial.rng
    how = trial.draw("sizes", ["few", "few", "mixed", "mixed", "ones", "one large", "equal"])
    found = {
        "few": rng.integers(1, 6, n_bags),
        "mixed": rng.integers(1, 30, n_bags),
        "ones": np.ones(n_bags, int),
        "one large": rng.integers(1, 8, n_bags),
        "equal": np.full(n_bags, rng.integers(1, 12)),
    }[how]
    if how == "one large" and n_bags:
        found[rng.integers(n_bags)] = rng.integers(100, 1001)
    return found


def n_bags(trial):
    """Return a number of bags, 0 to 60, small ones more often."""
    return trial.draw("bags", [2, 3, 4, 5, 8, 12, 20, 30, 40, 60], [0, 1], 0.05)


def points(trial, n):
    """Return n arrays (N_i, p) of finite numbers, and the level of each bag."""
    rng, p = trial.rng, int(trial.rng.integers(1, 7))
    level = rng.normal(size=n)
    arrays = [rng.normal(x, 1.0, (m, p)) for x, m in zip(level, sizes(trial, n), strict=True)]
    arrays = trial.draw("points", [same] * 8 + TWISTS)(rng, arrays)
    factor = trial.draw("units", ["one"] * 6 + ["columns"] * 2, UNITS, 0.25)
    if factor == "columns":
        factor = 10.0 ** rng.uniform(-12, 12, arrays[0].shape[1])
    with np.errstate(over="ignore"):
        arrays = [array * (1.0 if isinstance(factor, str) else factor) for array in arrays]
    return [np.clip(array, -1.7e308, 1.7e308) for array in arrays], level


UNITS = [1e-320, 1e-300, 1e-160, 1e-100, 1e-30, 1e30, 1e100, 1e140, 1e149, 1e151, 1e200, 1e308]


def same(rng, arrays):
    return arrays


def constant_column(rng, arrays):
    for array in arrays:
        array[:, 0] = 7.0
    return arrays


def all_zero(rng, arrays):
    return [np.zeros_like(array) for array in arrays]


def one_repeated_point(rng, arrays):
    return [np.repeat(arrays[0][:1], len(array), axis=0) for array in arrays]


def one_odd_point(rng, arrays):
    arrays = all_zero(rng, arrays)
    arrays[-1][0] = rng.normal(size=arrays[-1].shape[1])
    return arrays


def equal_points_within_bags(rng, arrays):
    return [np.repeat(array[:1], len(array), axis=0) for array in arrays]


def equal_bags(rng, arrays):
    return [arrays[int(i)].copy() for i in rng.integers(0, min(2, len(arrays)), len(arrays))]


def binary(rng, arrays):
    return [(array > 0).astype(float) for array in arrays]


def rounded(rng, arrays):
    return [np.round(array) for array in arrays]


def far_away(rng, arrays):
    shift = 10.0 ** rng.uniform(3, 15)
    return [array + shift for array in arrays]


def outlier(rng, arrays):
    array = arrays[int(rng.integers(len(arrays)))]
    array[0, -1] = rng.choice([1e3, 1e6, -9999.0, 9.97e36, 1e100])
    return arrays


def collinear(rng, arrays):
    return [np.column_stack([array, array.sum(axis=1), 1e6 * array[:, 0]]) for array in arrays]


def heavy_tails(rng, arrays):
    return [np.sign(array) * np.exp(5 * np.abs(array)) for array in arrays]


def single_extreme(rng, arrays):
    arrays[0][0, 0] = rng.choice([1e149, -1e149, 1e-310, 5e-324])
    return arrays


TWISTS = [
    constant_column, all_zero, one_repeated_point, one_odd_point, equal_points_within_bags,
    equal_bags, binary, rounded, far_away, outlier, collinear, heavy_tails, single_extreme,
]  # fmt: skip


def guises(arrays):
    """Return ways to give the same bags that must work, by name."""
    return {
        "arrays": arrays,
        "lists": [array.tolist() for array in arrays],
        "tuple": tuple(arrays),
        "fortran": [np.asfortranarray(array) for array in arrays],
        "float32": [np.clip(array, -1e38, 1e38).astype(np.float32) for array in arrays],
        "float16": [np.clip(array, -6e4, 6e4).astype(np.float16) for array in arrays],
        "integers": [np.clip(array, -1e18, 1e18).astype(np.int64) for array in arrays],
        "bools": [array > 0 for array in arrays],
        "objects": [array.astype(object) for array in arrays],
    }


def spoil(rng, arrays, how):
    """Return the bags with something that cannot be used."""
    arrays = [array.copy() for array in arrays]
    i = int(rng.integers(len(arrays)))
    array = arrays[i]
    row, column = rng.integers(len(array)), rng.integers(array.shape[1])
    if how in CELLS:
        spoiled = array.astype(object) if not isinstance(CELLS[how], float) else array
        spoiled[row, column] = CELLS[how]
        arrays[i] = spoiled
    else:
        arrays[i] = {
            "empty": array[:0],
            "empty list": [],
            "no columns": array[:, :0],
            "one more column": np.column_stack([array, array[:, 0]]),
            "1-D": array[:, 0],
            "3-D": array[None],
            "scalar": 3.0,
            "none": None,
            "ragged": [[1.0], [1.0, 2.0]],
            "words": array.astype(str),
            "string": "abc",
            "complex": array + 1j,
            "dates": np.zeros(array.shape, "datetime64[s]"),
            "masked": np.ma.masked_array(array, mask=np.ones_like(array, bool)),
            "dict": {"a": array},
            "set": {1.0, 2.0},
            "structured": np.zeros(3, dtype=[("a", float), ("b", int)]),
        }[how]
    return arrays


CELLS = {
    "nan": np.nan,
    "inf": np.inf,
    "-inf": -np.inf,
    "1e308": 1e308,
    "-1e308": -1e308,
    "1e151": 1e151,
    "None": None,
    "a word": "n.d.",
    "a huge integer": 10**400,
    "Decimal": Decimal("1e999"),
    "Fraction": Fraction(10**400, 3),
    "a list": [1.0, 2.0],
}
SPOILS = [
    *CELLS, "empty", "empty list", "no columns", "one more column", "1-D", "3-D", "scalar", "none",
    "ragged", "words", "string", "complex", "dates", "masked", "dict", "set", "structured",
]  # fmt: skip


def labels(trial, level):
    """Return real labels, or what is none."""
    rng, n = trial.rng, len(level)
    y = level + 0.3 * rng.normal(size=n)
    how = trial.draw("labels", ["plain"] * 8 + GOOD_LABELS, BAD_LABELS, 0.12)
    return spoiled_labels(rng, y, how) if how in BAD_LABELS else good_labels(rng, y, how)


GOOD_LABELS = [
    "constant", "rounded", "integers", "bools", "list", "column", "far away", "outlier", "float32",
    "1e140", "1e-140", "1e-100", "1e9", "zeros", "one differs", "nearly constant",
]  # fmt: skip
BAD_LABELS = [
    "nan", "inf", "-inf", "1e300", "1e308", "1e-300", "words", "numbers as words", "None", "ragged",
    "one too many", "two columns", "complex", "scalar", "dict", "nothing", "none at all", "dates",
    "huge integer",
]  # fmt: skip


def good_labels(rng, y, how):
    """Return labels that can be used."""
    ways = {
        "plain": lambda: y,
        "constant": lambda: np.full(len(y), rng.choice([0.0, 3.5, -1e12])),
        "rounded": lambda: np.round(y),
        "integers": lambda: np.round(100 * y).astype(int),
        "bools": lambda: y > 0,
        "list": lambda: y.tolist(),
        "column": lambda: y[:, None],
        "far away": lambda: 1e9 + y,
        "outlier": lambda: y + 1e6 * np.eye(len(y))[-1],
        "float32": lambda: y.astype(np.float32),
        "zeros": lambda: np.where(rng.random(len(y)) < 0.8, 0.0, y),
        "one differs": lambda: np.eye(len(y))[0],
        "nearly constant": lambda: 1.0 + 1e-15 * np.round(y),
    }
    return ways[how]() if how in ways else float(how) * y


def spoiled_labels(rng, y, how):
    """Return labels that cannot be used."""
    i = int(rng.integers(len(y)))
    ways = {
        "words": lambda: np.where(y > 0, "yes", "no"),
        "numbers as words": lambda: y.astype(str),
        "None": lambda: [None if j == i else value for j, value in enumerate(y)],
        "ragged": lambda: [[value] * (1 + j % 2) for j, value in enumerate(y)],
        "one too many": lambda: np.append(y, 0.0),
        "two columns": lambda: np.column_stack([y, y]),
        "complex": lambda: y + 1j,
        "scalar": lambda: 1.0,
        "dict": lambda: {"y": y},
        "nothing": lambda: [],
        "none at all": lambda: None,
        "dates": lambda: np.zeros(len(y), "datetime64[s]"),
        "huge integer": lambda: [10**400] * len(y),
    }
    if how in ways:
        return ways[how]()
    if how in ("1e300", "1e308", "1e-300"):
        return np.clip(y * float(how), -1.7e308, 1.7e308) if how != "1e308" else np.sign(y) * 1e308
    return np.where(np.arange(len(y)) == i, float(how), y)


def classes(trial, level):
    """Return labels of classes, or what is none."""
    rng, n = trial.rng, len(level)
    second = level + 0.5 * rng.normal(size=n) > 0
    if n > 1:
        second[:2] = False, True
    odd = ["one class", "nan", "None", "mixed", "ragged", "complex", "short", "unhashable"]
    how = trial.draw(
        "classes", ["words", "bools", "integers", "floats", "objects", "three"], odd, 0.12
    )
    words = np.where(second, "wide", "narrow")
    return {
        "words": lambda: words,
        "bools": lambda: second,
        "integers": lambda: np.where(second, 7, -3),
        "floats": lambda: np.where(second, 1e300, -0.5),
        "objects": lambda: words.astype(object),
        "one class": lambda: words[:1].repeat(n),
        "three": lambda: np.arange(n) % 3,
        "nan": lambda: np.where(second, np.nan, 1.0),
        "None": lambda: [None if x else "a" for x in second],
        "mixed": lambda: [1 if x else "a" for x in second],
        "ragged": lambda: [["a"] if x else ["a", "b"] for x in second],
        "complex": lambda: second + 1j,
        "short": lambda: words[1:],
        "unhashable": lambda: [{"a": 1} if x else {"b": 2} for x in second],
    }[how]()


def point_weights(trial, lengths):
    """Return a list of weights per bag, or None."""
    rng = trial.rng
    good = ["none"] * 6 + ["uniform", "equal", "with zeros", "wide", "huge", "tiny"]
    odd = ["all zero", "negative", "nan", "inf", "1e308", "short", "words", "2-D", "denormal"]
    how = trial.draw("point weights", good, odd, 0.06)
    if how == "none":
        return None
    weights = [rng.uniform(0.1, 1.0, n) for n in lengths]
    i = int(rng.integers(len(lengths))) if len(lengths) else 0
    for j, own in enumerate(weights):
        if how == "equal":
            own[:] = 1.0
        elif how == "with zeros":
            own[1:] *= rng.random(len(own) - 1) < 0.5
        elif how in ("wide", "huge", "tiny"):
            low, high = {"wide": (-12, 12), "huge": (90, 140), "tiny": (-140, -90)}[how]
            own[:] = 10.0 ** rng.uniform(low, high, len(own))
        elif how == "all zero" and j == i:
            own[:] = 0.0
        elif how == "denormal":
            own[:] = 5e-324
        elif how in ("negative", "nan", "inf", "1e308") and j == i:
            own[:1] = -1.0 if how == "negative" else float(how)
    if how == "short" and weights:
        weights[i] = weights[i][1:]
    if how == "words":
        weights = [own.astype(str) for own in weights]
    if how == "2-D":
        weights = [own[:, None] for own in weights]
    return weights


def sample_weight(trial, n):
    """Return sample weights, or None."""
    rng = trial.rng
    good = ["none"] * 6 + ["uniform", "zeros", "1e-12..1e12", "1e100", "ones", "integers"]
    odd = ["all zero", "one positive", "negative", "nan", "inf", "1e300", "long", "words", "2-D"]
    how = trial.draw("sample weights", good, [*odd, "ragged", "scalar"], 0.06)
    if how == "none":
        return None
    uniform = rng.uniform(0.1, 1, n)
    return {
        "uniform": lambda: uniform,
        "zeros": lambda: uniform * (np.arange(n) % 3 != 2),
        "1e-12..1e12": lambda: 10.0 ** rng.uniform(-12, 12, n),
        "1e100": lambda: 1e100 * uniform,
        "ones": lambda: np.ones(n),
        "integers": lambda: rng.integers(1, 5, n),
        "all zero": lambda: np.zeros(n),
        "one positive": lambda: np.eye(1, n)[0],
        "negative": lambda: -uniform,
        "1e300": lambda: np.where(np.arange(n) == 0, 1e300, uniform),
        "long": lambda: np.ones(n + 1),
        "words": lambda: uniform.astype(str),
        "2-D": lambda: uniform[:, None],
        "ragged": lambda: [[1.0], [1.0, 2.0]] * n,
        "scalar": lambda: 1.0,
    }.get(how, lambda: np.where(np.arange(n) == 0, float(how), uniform))()


def covariates(trial, arrays, level):
    """Return covariates, or None."""
    rng, n = trial.rng, len(arrays)
    good = ["none"] * 8 + ["plain", "level", "mean", "share", "constant", "pair", "1e100", "1e-100"]
    good += ["one bag", "log size", "means", "bools", "1-D", "outlier"]
    odd = ["nan", "inf", "1e308", "1e200", "many", "short", "words", "3-D", "None", "no columns"]
    how = trial.draw("covariates", good, odd, 0.06)
    if how == "none" or not n:
        return None
    plain = rng.normal(size=n)
    with np.errstate(all="ignore"):
        means = np.array([array.mean(axis=0) for array in arrays])
    found = {
        "plain": lambda: plain[:, None],
        "level": lambda: level[:, None],
        "mean": lambda: means[:, :1],
        "means": lambda: means,
        "share": lambda: np.array([(array > 0).mean() for array in arrays])[:, None],
        "constant": lambda: np.full((n, 1), 3.0),
        "pair": lambda: np.column_stack([plain, 2 * plain + 1]),
        "one bag": lambda: np.eye(n)[:, :1],
        "log size": lambda: np.log([[len(array)] for array in arrays]),
        "bools": lambda: plain[:, None] > 0,
        "1-D": lambda: plain,
        "outlier": lambda: (plain + 1e9 * np.eye(n)[0])[:, None],
        "many": lambda: rng.normal(size=(n, n)),
        "short": lambda: plain[1:, None],
        "words": lambda: plain[:, None].astype(str),
        "3-D": lambda: plain[:, None, None],
        "None": lambda: [[None]] * n,
        "no columns": lambda: np.zeros((n, 0)),
    }
    if how in found:
        return found[how]()
    if how in ("nan", "inf", "1e308"):
        return np.where(np.arange(n) == 0, float(how), plain)[:, None]
    return float(how) * plain[:, None]
