"""The kinds of cases: each is a function of a trial, and calls bagwise by it."""

import tempfile
from pathlib import Path

import numpy as np

import bagwise
from bagwise import Bags
from fuzz import values
from fuzz.models import CLASSIFIERS, REGRESSORS, estimator
from fuzz.trial import Found, Refused, Trial


def run_case(kind, number):
    """Run one case in an empty folder; return its trial."""
    from fuzz.commands import command
    from fuzz.tables import files, tables

    run = {"bags": bags, "fit": fit, "tables": tables, "files": files, "command": command}[kind]
    with tempfile.TemporaryDirectory(prefix="bagwise-fuzz-") as folder:
        trial = Trial(kind, number, Path(folder))
        try:
            run(trial)
        except (Refused, Found):
            pass
    return trial


# ---- constructors -------------------------------------------------------------------------------


def bags(trial):
    """Bags from arrays in every form, whole or spoiled, then indexed, changed and put together."""
    n = values.n_bags(trial)
    arrays, level = values.points(trial, n) if n else ([], np.zeros(0))
    weights = values.point_weights(trial, [len(array) for array in arrays])
    covariates = values.covariates(trial, arrays, level)
    how = trial.draw("constructor", ["from_list", "from_groups", "from_array", "as_bags"])
    guise = trial.draw("guise", list(values.guises([])))
    given = values.guises(arrays)[guise]
    spoil = trial.draw("spoil", ["nothing"], values.SPOILS, 0.5)
    if spoil != "nothing" and n:
        given = values.spoil(trial.rng, arrays, spoil)
    options = {"weights": weights, "covariates": covariates} | odd_options(trial, n)
    if how == "as_bags":
        made = trial.call(how, bagwise.as_bags, as_something(trial, given))
    else:
        made = trial.call(how, maker(how, given, options, trial))
    check_bags(trial, made)
    trial.counts["made"] += 1
    use_bags(trial, made)


def odd_options(trial, n):
    """Draw names and ids, sometimes wrong ones."""
    found = {}
    if trial.chance(0.3):
        ids = {
            "words": [f"id {i}" for i in range(n)],
            "uint64": np.arange(n, dtype=np.uint64) + np.uint64(2**63),
            "tuples": [(i, "a") for i in range(n)],
            "floats": np.arange(n) + 0.5,
            "equal": ["a"] * n,
            "nan": [np.nan] * n,
            "None": [None] * n,
            "lists": [[i] for i in range(n)],
            "mixed": [i if i % 2 else str(i) for i in range(n)],
            "short": list(range(n - 1)),
            "2-D": np.zeros((n, 2)),
            "long text": ["x" * 100_000] * n,
        }
        found["ids"] = ids[trial.draw("ids", list(ids)[:4], list(ids)[4:], 0.4)]
    if trial.chance(0.15):
        names = {
            "one": "a",
            "two": ["a", "b"],
            "equal": ["a", "a"],
            "numbers": [1, 2],
            "many": "ab",
        }
        found["feature_names"] = names[trial.draw("feature names", list(names))]
    return found


def maker(how, given, options, trial):
    """Return a function that makes the bags from lists, stacked rows or one array."""
    if how == "from_list":
        return lambda: Bags.from_list(given, **options)
    if how == "from_array":
        if trial.chance(0.5):
            given = [
                array[:1] if isinstance(array, np.ndarray | list) else array for array in given
            ]
            if options["weights"] is not None:
                options["weights"] = [own[:1] for own in options["weights"]]
        return lambda: Bags.from_array(given, **options)
    ids = options.pop("ids", None)
    lengths = [len(a) if hasattr(a, "__len__") else 1 for a in given]
    groups = np.repeat(np.arange(len(given)), lengths) if ids is None else ids
    try:
        rows = np.concatenate(given) if given else np.zeros((0, 2))
    except (ValueError, TypeError):
        rows = [
            row for array in given for row in (array if hasattr(array, "__iter__") else [array])
        ]
    if options["weights"]:
        options["weights"] = np.concatenate([np.ravel(own) for own in options["weights"]])
    return lambda: Bags.from_groups(rows, groups, **options)


def as_something(trial, given):
    """Return bags as people give them, or what is no bags at all."""
    how = trial.draw("as", ["list", "objects", "pair"], ["dict", "number", "none", "text"], 0.2)
    if how == "objects":
        array = np.empty(len(given), dtype=object)
        for i, own in enumerate(given):
            array[i] = own
        return array
    if how == "pair":
        first = given[0] if given else None
        return (first, np.arange(len(first)) % 2) if hasattr(first, "shape") else given
    others = {"dict": dict(enumerate(given)), "number": 3.0, "none": None, "text": "abc"}
    return others.get(how, given)


def check_bags(trial, made):
    """Bags that were made are finite, have points, and a weight."""
    if made.points.dtype.kind == "f":  # or they are objects
        trial.finite("points", made.points)
    if made.weights is not None:
        trial.finite("weights", made.weights, made.effective_sizes)
    if made.covariates is not None:
        trial.finite("covariates", made.covariates)
    if (made.sizes < 1).any() or made.offsets[-1] != len(made.points):
        trial.find("bags", "offsets do not fit the points")


def use_bags(trial, made):
    """Index, change and join bags as users do."""
    key = trial.draw("key", [0, -1, [0], slice(0, 2), "mask"], ["a", 99, 1.5, None, [[0]], [True]])
    key = np.arange(made.n_bags) % 2 == 0 if isinstance(key, str) and key == "mask" else key
    trial.call("repr", repr, made)
    for what, function in {
        "index": lambda: made[key],
        "with_log_size": lambda: made.with_log_size(),
        "with_points": lambda: made.with_points(np.repeat(made.points, 2, axis=1)),
        "concatenate": lambda: Bags.concatenate([made, made]),
        "effective_sizes": lambda: made.effective_sizes,
    }.items():
        try:
            trial.call(what, function, allow=(IndexError,))
        except Refused:
            continue


# ---- estimators ---------------------------------------------------------------------------------


def fit(trial):
    """Fit, predict, explain, save and load one model on bags of numbers."""
    classes = trial.chance(0.25)
    model = estimator(trial, CLASSIFIERS if classes else REGRESSORS)
    arrays, level = values.points(trial, max(1, values.n_bags(trial)))
    weights = values.point_weights(trial, [len(array) for array in arrays])
    covariates = values.covariates(trial, arrays, level)
    y = (values.classes if classes else values.labels)(trial, level)
    sample_weight = values.sample_weight(trial, len(arrays))
    if trial.chance(0.05):
        how = trial.draw("spoil", values.SPOILS)
        arrays = values.spoil(trial.rng, arrays, how)
    bags = trial.call("bags", Bags.from_list, arrays, weights=weights, covariates=covariates)
    if trial.chance(0.1):
        bags = trial.call("with_log_size", bags.with_log_size)
    trial.call("fit", model.fit, bags, y, sample_weight)
    trial.counts["fitted"] += 1
    if classes:
        check_model(trial, model, bags, y, classes)
        return
    # A bag of a weight that vanishes beside the others is one that the model has not seen.
    weight = np.ones(len(bags)) if sample_weight is None else np.asarray(sample_weight, float)
    check_model(trial, model, bags, y, classes, seen=weight > NO_WEIGHT * weight.max())


NO_WEIGHT = 1e-9
ALIKE = 0.5


def check_model(trial, model, bags, y, classes, seen=None):
    """Everything that a fitted model can be asked gives finite, sensible answers."""
    here = predicted(trial, "train", model, bags, y, classes, seen)
    # Where a few points have all the weight, a bag of points drawn again is another bag.
    alike = None if seen is None else seen & (bags.effective_sizes >= ALIKE * bags.sizes)
    for what in ("new", "weird"):
        try:
            test = other_bags(trial, bags, what)
            predicted(trial, what, model, test, y, classes, alike if what == "new" else None)
        except (Refused, Found):
            continue
    at_sizes(trial, here, y, classes, seen)
    explained(trial, model, bags)
    again = saved(trial, model)
    first, second = (trial.call("predict", fitted.predict, bags) for fitted in (model, again))
    if not np.array_equal(first, second):
        trial.find("load", "a loaded model predicts something else")


def other_bags(trial, bags, what):
    """Return bags that the model has not seen: resampled points, or something else altogether."""
    rng = trial.rng
    if what == "new":
        rows = [rng.integers(size, size=size) for size in bags.sizes]
        stacked = np.concatenate(
            [start + own for start, own in zip(bags.offsets, rows, strict=False)]
        )
        weights = None if bags.weights is None else bags.weights[stacked] + 1e-300
        parts = {"weights": weights, "covariates": bags.covariates}
        return trial.call(what, Bags, bags.points[stacked], bags.offsets, bags.ids, **parts)
    arrays = [array[:1].copy() for array in bags[: min(5, bags.n_bags)]]
    good = ["single points", "zeros", "negated", "far", "1e100", "1e149", "many"]
    how = trial.draw("test bags", good, ["nan", "columns", "empty", "covariates", "1e308"], 0.2)
    changes = {
        "single points": lambda array: array,
        "zeros": lambda array: 0.0 * array,
        "negated": lambda array: -array,
        "far": lambda array: array + 1e6 * (1.0 + np.abs(array)),
        "many": lambda array: np.repeat(array, 1000, axis=0),
        "columns": lambda array: np.hstack([array, array]),
        "empty": lambda array: array[:0],
        "covariates": lambda array: array,
    }
    change = changes.get(how, lambda array: np.full_like(array, float(how)))
    covariates = None if bags.covariates is None else bags.covariates[: len(arrays)]
    if how == "covariates":
        covariates = None if bags.n_covariates else np.ones((len(arrays), 1))
    with np.errstate(all="ignore"):
        arrays = [change(array) for array in arrays]
    return trial.call(what, Bags.from_list, arrays, covariates=covariates)


def predicted(trial, what, model, bags, y, classes, seen=None):
    """Predict, and check all that the answer says.

    Predictions of bags such as were seen in training are near the labels. Of others, a line goes as
    far as they are: there it suffices that we are told.
    """
    answer = trial.call(f"predict {what}", model.predict_dist, bags)
    trial.counts["predictions"] += len(answer)
    judged = np.ones(len(answer), dtype=bool)
    if "extrapolations" in trial.drawn[-1]:
        judged[:] = False if seen is None else seen
    check_prediction(trial, what, answer, y, classes, judged)
    return answer


def check_prediction(trial, what, answer, y, classes, judged):
    """A prediction is finite, near the labels, and has a density where the labels are."""
    if classes:
        p = trial.call(what, lambda: answer.proba)
        trial.finite(what, p, trial.call(what, answer.interval, 0.9))
        if ((p < 0) | (p > 1)).any() or (np.abs(p.sum(axis=1) - 1) > 1e-9).any():
            trial.find(what, "probabilities outside [0, 1], or whose sum is not 1")
        return
    trial.finite(what, answer.mean, answer.std, trial.call(what, answer.interval, 0.99))
    trial.finite(what, *answer.parts.to_dict().values())
    labels = np.ravel(np.asarray(y, dtype=np.float64))
    trial.near_labels(what, answer.mean[judged], answer.std[judged], labels)
    if len(labels) == len(answer):
        trial.finite(what, trial.call(f"{what} log_prob", answer.log_prob, labels))
        trial.finite(what, trial.call(f"{what} crps", answer.crps, labels))
        trial.finite(what, trial.call(f"{what} cdf", answer.cdf, labels))


def at_sizes(trial, answer, y, classes, seen):
    """Imagine other numbers of points: none too large, none too small."""
    good = [1, 0.5, 1e-300, 1e300, np.inf, 1000]
    odd = [0, -1, np.nan, "ten", None, [1, 2, 3, 4, 5, 6, 7], [[1]], 10**400, 1j, True]
    size = trial.draw("at_size", good, odd, 0.3)
    try:
        other = trial.call("at_size", answer.at_size, size)
        check_prediction(trial, "at_size", other, y, classes, slice(None) if seen is None else seen)
    except (Refused, Found):
        pass


def explained(trial, model, bags):
    """Explain one bag: contributions are finite and add up."""
    bag = trial.draw("bag", [0, bags.n_bags - 1], ["nobody", None, -7, 1.5, [0]], 0.2)
    try:
        why = trial.call("explain", model.explain, bags, bag=bag)
        trial.call("explain points", lambda: why.points)
        lines = trial.call("explain lines", why.lines)
        columns = trial.call("explain columns", lambda: why.columns)
    except (Refused, Found):
        return
    trial.finite("explain", why.points, why.covariates, why.baseline, why.prediction, columns)
    total = why.baseline + why.points.sum() + why.covariates.sum()
    scale = sum(np.abs(part).sum() for part in (why.points, why.covariates)) + abs(why.baseline)
    told = any("contributions add up to" in line for line in trial.drawn)
    if abs(total - why.prediction) > 1e-6 * scale + 1e-300 and not told:
        trial.find("explain", f"contributions add up to {total}, not to {why.prediction}")
    if any("nan" in line.split() for line in lines):
        trial.find("explain", "nan in the text")


def saved(trial, model):
    """Save the model and load it again."""
    path = trial.folder / "model.bagwise"
    trial.call("save", bagwise.save, model, path)
    return trial.call("load", bagwise.load, path)
