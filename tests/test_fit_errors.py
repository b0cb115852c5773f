"""What cannot be fitted or predicted is refused in words; what can, gives finite answers."""

import re

import numpy as np
import pytest

from bagwise import (
    Bags,
    BagwiseError,
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    InvalidBagsError,
    InvalidLabelsError,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.kernels import RBF, Matern

MODELS = {
    "network": RBFNetworkRegressor,
    "bayesian": BayesianLinearRegressor,
    "frequentist": FrequentistShrinkageRegressor,
    "shrinkage": ShrinkageRegressor,
    "embedding": MeanEmbeddingRidge,
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
with_landmarks = pytest.mark.parametrize(
    "model", [cls for cls in MODELS.values() if cls is not MeanEmbeddingRidge]
)
shrinkage = pytest.mark.parametrize("model", [FrequentistShrinkageRegressor, ShrinkageRegressor])

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=(4, 2)) for _ in range(6)]
Y = RNG.normal(size=6)
IDS = ["a", "b", "c", "d", "e", "f"]
BAGS = Bags.from_list(ARRAYS, ids=IDS)

FAST = {
    RBFNetworkRegressor: {"n_landmarks": 3, "bandwidth_scale": 1.0},
    BayesianLinearRegressor: {"n_landmarks": 3, "bandwidth_scale": 1.0},
    FrequentistShrinkageRegressor: {"n_landmarks": 3, "bandwidth_scale": 1.0, "prior_scale": 1.0},
    ShrinkageRegressor: {"n_landmarks": 3, "bandwidth_scale": 1.0, "weight_var": 1.0},
    MeanEmbeddingRidge: {},
}


def fast(model):
    return model(**FAST[model])


def fails(call, *parts, error=BagwiseError):
    """Call; the message has all parts in this order, and found / expected / remedy."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert re.search(".*".join(re.escape(part) for part in parts), message, re.DOTALL), message
    assert re.fullmatch(r".+; expected .+\. .+\.", message, re.DOTALL), message


def replaced(position, array):
    return [array if i == position else own for i, own in enumerate(ARRAYS)]


def with_value(value):
    array = ARRAYS[2].copy()
    array[1, 0] = value
    return replaced(2, array)


# ---- points -------------------------------------------------------------------------------------

BAD_POINTS = {
    "empty bag": (
        replaced(3, np.zeros((0, 2))),
        ("bag 3 (position 3) is empty", "at least one point in every bag", "Drop empty bags"),
    ),
    "no bags": ([], ("no bags", "at least one")),
    "nan": (
        with_value(np.nan),
        ("bag 2, row 1, column 0 is nan", "a finite number", "Drop the point or impute"),
    ),
    "inf": (
        with_value(-np.inf),
        ("bag 2, row 1, column 0 is -inf", "a finite number", "Drop the point or impute"),
    ),
    "ragged features": (
        replaced(4, np.zeros((3, 3))),
        ("bag 4 has 3 features but bag 0 has 2", "the same features in every bag", "Give every"),
    ),
    "ragged rows": (
        replaced(1, [[1.0, 2.0], [3.0]]),
        ("bag 1 has rows of different lengths", "as many features in every row", "Check that"),
    ),
    "strings": (
        replaced(1, [["1", "2"]]),
        ("bag 1 has dtype <U1", "real numbers", "Convert it with .astype(float)"),
    ),
    "objects": (
        replaced(1, np.array([[1.0, None]], dtype=object)),
        ("bag 1 has dtype object", "real numbers", "Convert it with .astype(float)"),
    ),
    "complex": (
        replaced(1, ARRAYS[1] + 1j),
        ("bag 1 has dtype complex128", "real numbers", "Convert it with .astype(float)"),
    ),
    "one dimension": (
        replaced(5, np.zeros(3)),
        ("bag 5 has shape (3,)", "a 2-D array (points, features)", "reshape(-1, 1)"),
    ),
    "one matrix": (
        ARRAYS[0],
        ("shape (4, 2)", "Bags, a list of 2-D arrays", "Pass (X, groups) with the bag of each row"),
    ),
    "groups of mixed types": (
        (np.concatenate(ARRAYS), ["a", 1] * 12),
        ("bag ids mix types: position 0 is str ('a') but position 1 is int (1)", "ids of one type",
         "Convert them all"),
    ),
    "too few groups": (
        (np.concatenate(ARRAYS), ["a"] * 23),
        ("23 group ids for 24 rows", "one id per row", "Pass groups of the same length"),
    ),
}  # fmt: skip


@every_model
@pytest.mark.parametrize("case", BAD_POINTS)
def test_bad_points(model, case):
    X, parts = BAD_POINTS[case]
    fails(lambda: fast(model).fit(X, Y), *parts, error=InvalidBagsError)
    fitted = fast(model).fit(BAGS, Y)
    fails(lambda: fitted.predict(X), *parts, error=InvalidBagsError)
    fails(lambda: fitted.predict_dist(X), *parts, error=InvalidBagsError)


def test_names_of_bags_and_columns_are_in_the_message():
    parts = ("bag 'c', row 1, column 'height' is nan", "a finite number")
    points = np.concatenate(with_value(np.nan))
    fails(
        lambda: Bags(points, BAGS.offsets, IDS, feature_names=["height", "weight"]),
        *parts,
        error=InvalidBagsError,
    )


def test_ids_of_mixed_types():
    fails(lambda: Bags.from_list(ARRAYS, ids=[*IDS[:5], 6]), "mix types", "position 5 is int (6)")


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        (-1.0, ("bag 'b', row 2 has weight -1.0", "a finite weight of at least 0", "Drop")),
        (np.nan, ("bag 'b', row 2 has weight nan", "a finite weight of at least 0", "Drop")),
    ],
)
def test_bad_point_weights(value, parts):
    weights = [np.ones(4) for _ in ARRAYS]
    weights[1][2] = value
    fails(lambda: Bags.from_list(ARRAYS, ids=IDS, weights=weights), *parts)


@every_model
def test_a_single_bag(model):
    fails(
        lambda: fast(model).fit(ARRAYS[:1], Y[:1]),
        "there is 1 bag to fit", "at least 2", "pass (X, groups)",
        error=InvalidBagsError,
    )  # fmt: skip


@every_model
def test_constant_features(model):
    fails(
        lambda: fast(model).fit([np.full((3, 2), 0.1)] * 6, Y),
        "every feature is constant", "at least one feature that varies", "with_log_size",
        error=InvalidBagsError,
    )  # fmt: skip


@shrinkage
def test_bags_of_one_point_only(model):
    fails(
        lambda: model(n_landmarks=3).fit([array[:1] for array in ARRAYS], Y),
        "every bag has one point", "some bags with two points or more", "BayesianLinearRegressor",
        error=InvalidBagsError,
    )  # fmt: skip


@shrinkage
def test_bags_of_one_point_in_effect(model):
    weights = [[1.0, 0.0, 1e-300, 0.0] for _ in ARRAYS]
    bags = Bags.from_list(ARRAYS, weights=weights)
    fails(lambda: model(n_landmarks=3).fit(bags, Y), "every bag has one point", "two points")


@every_model
def test_more_covariates_than_bags(model):
    fails(
        lambda: fast(model).fit(BAGS.with_covariates(RNG.normal(size=(6, 9))), Y),
        "there are 9 covariates for 6 bags", "fewer covariates", "Leave covariates out",
        error=InvalidBagsError,
    )  # fmt: skip


# ---- labels -------------------------------------------------------------------------------------

BAD_LABELS = {
    "nan": (
        np.where(np.arange(6) == 4, np.nan, Y),
        ("the label of bag 'e' (position 4) is nan", "a finite number", "Drop the bags without"),
    ),
    "inf": (
        np.where(np.arange(6) == 0, np.inf, Y),
        ("the label of bag 'a' (position 0) is inf", "a finite number", "Drop the bags without"),
    ),
    "too few": (Y[:5], ("there are 5 labels for 6 bags", "one label per bag", "Check that labels")),
    "one per point": (
        np.zeros(24),
        ("there are 24 labels for 6 bags", "one label per bag", "not to points: keep one"),
    ),
    "two columns": (
        np.zeros((6, 2)),
        ("the labels have shape (6, 2)", "(6,), one label per bag", "one model for each column"),
    ),
    "scalar": (1.0, ("the labels have shape ()", "(6,), one label per bag", "Pass a 1-D array")),
    "none": (None, ("the labels have shape ()", "(6,), one label per bag", "Pass a 1-D array")),
    "strings": (IDS, ("the labels have dtype <U1", "real numbers", "y.astype(float)")),
    "objects": (
        np.array([1.0, None, 2.0, 3.0, 4.0, 5.0], dtype=object),
        ("the labels have dtype object", "real numbers", "y.astype(float)"),
    ),
    "complex": (Y + 1j, ("the labels have dtype complex128", "real numbers", "y.astype(float)")),
}


@every_model
@pytest.mark.parametrize("case", BAD_LABELS)
def test_bad_labels(model, case):
    y, parts = BAD_LABELS[case]
    fails(lambda: fast(model).fit(BAGS, y), *parts, error=InvalidLabelsError)


BAD_SAMPLE_WEIGHTS = {
    "negative": (
        [1, 1, -1, 1, 1, 1],
        ("sample_weight of bag c (position 2) is -1.0", "not negative", "the weight 0"),
    ),
    "nan": (
        [1, 1, 1, np.nan, 1, 1],
        ("sample_weight of bag d (position 3) is nan", "a finite number", "the weight 0"),
    ),
    "one per point": (
        np.ones(24),
        ("sample_weight has shape (24,)", "one number per bag, (6,)", "go into the bags"),
    ),
    "column": (np.ones((6, 1)), ("sample_weight has shape (6, 1)", "one number per bag, (6,)")),
    "strings": (["1"] * 6, ("dtype <U1", "one number per bag, (6,)")),
    "all zero": (np.zeros(6), ("0 bags have a positive sample_weight", "at least 2", "Leave")),
    "one left": (np.eye(6)[0], ("1 bags have a positive sample_weight", "at least 2", "Leave")),
}


@every_model
@pytest.mark.parametrize("case", BAD_SAMPLE_WEIGHTS)
def test_bad_sample_weight(model, case):
    weights, parts = BAD_SAMPLE_WEIGHTS[case]
    call = lambda: fast(model).fit(BAGS, Y, sample_weight=weights)  # noqa: E731
    fails(call, *parts, error=InvalidLabelsError)


# ---- columns that differ between fit and predict ------------------------------------------------

NAMED = Bags.from_list(ARRAYS, feature_names=["height", "weight"])
AGED = NAMED.with_covariates(np.arange(6.0), ["age"])

OTHER_COLUMNS = {
    "fewer features": (
        BAGS, [array[:, :1] for array in ARRAYS],
        ("these bags have 1 features", "2, as in fit", "Give the bags the features"),
    ),
    "more features": (
        NAMED, [np.hstack([array, array]) for array in ARRAYS],
        ("these bags have 4 features", "2, as in fit: 'height', 'weight'"),
    ),
    "another order": (
        NAMED, Bags.from_list(ARRAYS, feature_names=["weight", "height"]),
        ("the feature columns are in another order than in fit", "('height', 'weight')",
         "Reorder the columns: df[['height', 'weight']]"),
    ),
    "other names": (
        NAMED, Bags.from_list(ARRAYS, feature_names=["height", "width"]),
        ("missing ['weight'], unexpected ['width']", "Select the same columns as in fit"),
    ),
    "missing covariate": (
        AGED, NAMED,
        ("these bags have 0 covariates", "1, as in fit: 'age'", "Give the bags the covariates"),
    ),
    "extra covariate": (
        NAMED, AGED,
        ("these bags have 1 covariates", "0, as in fit", "Give the bags the covariates"),
    ),
    "another covariate": (
        AGED, NAMED.with_covariates(np.arange(6.0), ["dose"]),
        ("the covariate names differ", "missing ['age'], unexpected ['dose']"),
    ),
    "one covariate more": (
        AGED, AGED.with_log_size(),
        ("the covariate names differ", "unexpected ['log_size']"),
    ),
}  # fmt: skip


@every_model
@pytest.mark.parametrize("case", OTHER_COLUMNS)
def test_other_columns(model, case):
    train, new, parts = OTHER_COLUMNS[case]
    fitted = fast(model).fit(train, Y)
    fails(lambda: fitted.predict(new), *parts, error=InvalidBagsError)
    fails(lambda: fitted.predict_dist(new), *parts, error=InvalidBagsError)
    fails(lambda: fitted.score(new, Y), *parts, error=InvalidBagsError)


# ---- parameters ---------------------------------------------------------------------------------


def refuses(model, *parts, **params):
    fails(lambda: model(**params).fit(BAGS, Y), *parts)


@every_model
@pytest.mark.parametrize("kernel", ["gauss", "RBF", None, 3, ["rbf"]])
def test_unknown_kernel(model, kernel):
    if kernel is None or isinstance(kernel, int | list):
        estimator = fast(model).set_params(kernel=kernel)
        fails(lambda: estimator.fit(BAGS, Y), f"kernel is {kernel!r}", "a Kernel or one of rbf,")
    else:
        refuses(
            model, f"kernel is {kernel!r}", "a Kernel or one of rbf,", 'Try "rbf"', kernel=kernel
        )


@every_model
def test_a_kernel_of_scikit_learn(model):
    from sklearn.gaussian_process.kernels import RBF as Foreign

    estimator = fast(model).set_params(kernel=Foreign())
    fails(lambda: estimator.fit(BAGS, Y), "kernel is RBF(", "a Kernel or one of rbf,")


@every_model
@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan])
def test_kernel_without_a_positive_bandwidth(model, bandwidth):
    refuses(model, "no positive bandwidth", "a number > 0", kernel=RBF(bandwidth=bandwidth))


def test_unknown_smoothness():
    fails(lambda: Matern(smoothness=2.0), "smoothness is 2.0", "0.5, 1.5 or 2.5")


@every_model
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, True])
def test_bandwidth_scale(model, scale):
    refuses(
        model,
        f"bandwidth_scale is {scale!r}", "a finite number > 0", "set_params(bandwidth_scale=...)",
        bandwidth_scale=scale,
    )  # fmt: skip


@with_landmarks
def test_unknown_word_for_bandwidth_scale(model):
    refuses(model, "bandwidth_scale is 'median'", '"auto" or a number', bandwidth_scale="median")


@with_landmarks
@pytest.mark.parametrize("how", ["k-means", "", None, 5])
def test_unknown_landmarks(model, how):
    if isinstance(how, str):
        refuses(
            model,
            f"landmarks is {how!r}", '"kmeans", "random", "fourier" or an array', "set_params",
            landmarks=how,
        )  # fmt: skip
    else:
        refuses(model, "landmarks have shape ()", "real numbers of shape", landmarks=how)


@with_landmarks
@pytest.mark.parametrize(
    ("landmarks", "parts"),
    [
        (np.zeros((3, 5)), ("landmarks have shape (3, 5)", "(number of landmarks, 2)")),
        (np.zeros(2), ("landmarks have shape (2,)", "(number of landmarks, 2)")),
        (np.zeros((0, 2)), ("landmarks have shape (0, 2)", "(number of landmarks, 2)")),
        ([["a", "b"]], ("dtype <U1", "real numbers")),
        ([[0.0, 1.0], [np.nan, 0.0]], ("landmarks row 1 is", "finite numbers", "Drop the row")),
    ],
)
def test_bad_landmarks(model, landmarks, parts):
    refuses(model, *parts, landmarks=landmarks)


@with_landmarks
@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_more_landmarks_than_distinct_points(model, how):
    twice = [np.vstack([array, array]) for array in ARRAYS]
    estimator = model(landmarks=how, n_landmarks=25)
    fails(
        lambda: estimator.fit(twice, Y),
        "there are 24 distinct points for 25 landmarks", "at least as many distinct points",
        "Use n_landmarks=24 or fewer",
    )  # fmt: skip


@with_landmarks
@pytest.mark.parametrize("n", [0, -2, True])
def test_number_of_landmarks(model, n):
    refuses(model, f"n_landmarks is {n!r}", "a whole number of at least 1, or None", n_landmarks=n)


@with_landmarks
@pytest.mark.parametrize("n", [2.0, "many"])
def test_type_of_the_number_of_landmarks(model, n):
    estimator = fast(model).set_params(n_landmarks=n)
    fails(lambda: estimator.fit(BAGS, Y), f"n_landmarks is {n!r}", "a whole number")


@pytest.mark.parametrize("model", [RBFNetworkRegressor, FrequentistShrinkageRegressor,
                                   MeanEmbeddingRidge])  # fmt: skip
@pytest.mark.parametrize("penalty", [0.0, -1.0, np.inf, np.nan, "cv"])
def test_penalty(model, penalty):
    refuses(model, f"penalty is {penalty!r}", "number > 0", "set_params", penalty=penalty)


@pytest.mark.parametrize("model", [BayesianLinearRegressor, ShrinkageRegressor])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, "loo"])
def test_weight_var(model, value):
    refuses(model, f"weight_var is {value!r}", "number > 0", "set_params", weight_var=value)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "evidence"])
def test_prior_scale(value):
    model = FrequentistShrinkageRegressor
    refuses(model, f"prior_scale is {value!r}", "number > 0", "set_params", prior_scale=value)


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan])
def test_covariance_floor(value):
    parts = (f"covariance_floor is {value!r}", "a finite number > 0", "set_params")
    refuses(ShrinkageRegressor, *parts, covariance_floor=value)


def test_unknown_prior():
    refuses(ShrinkageRegressor, "prior is 'flat'", '"kernel" or "convolved"', prior="flat")


def test_second_level():
    model = MeanEmbeddingRidge
    refuses(model, "second_level is 'rbf'", '"linear" or "gaussian"', second_level="rbf")
    for level in ("linear", "gaussian"):
        parts = ("second_scale is -1.0", "a finite number > 0")
        refuses(model, *parts, second_level=level, second_scale=-1.0)


@every_model
def test_standardize_is_a_flag(model):
    estimator = fast(model).set_params(standardize="no")
    fails(lambda: estimator.fit(BAGS, Y), "standardize is 'no'", "True or False", "set_params")


def test_convolved_prior_needs_landmarks_and_the_gaussian_kernel():
    refuses(
        ShrinkageRegressor,
        "the convolved prior was asked for with random Fourier features", "landmarks",
        'Use landmarks="kmeans" or prior="kernel"',
        prior="convolved", landmarks="fourier",
    )  # fmt: skip
    for kernel in ("matern32", "linear", "additive-rbf"):
        refuses(
            ShrinkageRegressor,
            "the convolved prior was asked for with", "the RBF kernel", 'Use kernel="rbf"',
            prior="convolved", kernel=kernel,
        )  # fmt: skip


@with_landmarks
@pytest.mark.parametrize("kernel", ["linear", "additive-linear"])
def test_linear_kernel_has_no_fourier_features(model, kernel):
    refuses(
        model,
        "Linear", "has no spectral density", "a stationary kernel", 'or landmarks="kmeans"',
        kernel=kernel, landmarks="fourier",
    )  # fmt: skip


# ---- odd but valid ------------------------------------------------------------------------------


def random_bags(rng, n_bags, n_features, scale=1.0):
    sizes = rng.integers(1, 6, n_bags)
    sizes[0] = 4
    return [scale * rng.normal(size=(n, n_features)) for n in sizes]


def huge(rng):
    return random_bags(rng, 8, 2, 1e12), 1e12 * rng.normal(size=8)


def tiny(rng):
    return random_bags(rng, 8, 2, 1e-12), 1e-12 * rng.normal(size=8)


def far_away(rng):
    return [1e6 + array for array in random_bags(rng, 8, 2)], 1e9 + rng.normal(size=8)


def mixed_scales(rng):
    scale = np.array([1e12, 1e-12, 1.0])
    return [array * scale for array in random_bags(rng, 8, 3)], rng.normal(size=8)


def one_odd_point(rng):
    """The same point over and over, but once."""
    arrays = [np.zeros((n, 2)) for n in rng.integers(1, 6, 8)]
    arrays[0] = np.vstack([np.zeros((3, 2)), rng.normal(size=(1, 2))])
    return arrays, rng.normal(size=8)


def equal_points_within_bags(rng):
    return [np.tile(rng.normal(size=(1, 2)), (n, 1)) for n in rng.integers(2, 6, 8)], rng.normal(
        size=8
    )


def equal_bags(rng):
    return [rng.normal(size=(4, 2))] * 6, rng.normal(size=6)


def two_bags(rng):
    return random_bags(rng, 2, 2), rng.normal(size=2)


def two_equal_labels(rng):
    return random_bags(rng, 2, 2), np.zeros(2)


def many_features(rng):
    return random_bags(rng, 10, 50), rng.normal(size=10)


def one_column_constant(rng):
    arrays = random_bags(rng, 8, 3)
    return [np.column_stack([array, np.full(len(array), 7.0)]) for array in arrays], rng.normal(
        size=8
    )


def binary(rng):
    sizes = rng.integers(2, 6, 12)
    return [rng.integers(0, 2, (n, 3)) for n in sizes], rng.integers(0, 2, 12)


def one_outlier(rng):
    arrays, y = random_bags(rng, 8, 2), rng.normal(size=8)
    arrays[3][0] = 1e3
    y[5] = 1e3
    return arrays, y


def constant_labels_but_one(rng):
    return random_bags(rng, 10, 2), np.eye(10)[3]


def collinear_covariates(rng):
    arrays = random_bags(rng, 8, 2)
    age = rng.normal(size=8)
    covariates = np.column_stack([age, 1e12 * age, np.ones(8), np.eye(8)[:, 0]])
    return Bags.from_list(arrays, covariates=covariates), rng.normal(size=8)


def extreme_weights(rng):
    arrays = random_bags(rng, 8, 2)
    weights = [10.0 ** rng.uniform(-4, 4, len(array)) for array in arrays]
    return Bags.from_list(arrays, weights=weights), rng.normal(size=8)


ODD = [
    huge, tiny, far_away, mixed_scales, one_odd_point, equal_points_within_bags, equal_bags,
    two_bags, two_equal_labels, many_features, one_column_constant, binary, one_outlier,
    constant_labels_but_one, collinear_covariates,  extreme_weights,
]  # fmt: skip

GIVEN = {"bandwidth_scale": 1.0, "weight_var": 10.0}
VARIANTS = {
    "network": RBFNetworkRegressor(bandwidth_scale=1.0),
    "network-validation": RBFNetworkRegressor(penalty="validation", bandwidth_scale=1.0),
    "network-linear": RBFNetworkRegressor(kernel="linear"),
    "bayesian": BayesianLinearRegressor(),
    "bayesian-given": BayesianLinearRegressor(weight_var=1.0, bandwidth_scale=1.0),
    "bayesian-fourier": BayesianLinearRegressor(landmarks="fourier", n_landmarks=10),
    "frequentist": FrequentistShrinkageRegressor(bandwidth_scale=1.0, penalty=0.1),
    "shrinkage": ShrinkageRegressor(bandwidth_scale=1.0),
    "shrinkage-linear": ShrinkageRegressor(kernel="linear"),
    "shrinkage-additive": ShrinkageRegressor(kernel="additive-matern12", **GIVEN),
    "shrinkage-convolved": ShrinkageRegressor(prior="convolved", **GIVEN),
    "embedding": MeanEmbeddingRidge(),
    "embedding-gaussian": MeanEmbeddingRidge(second_level="gaussian"),
    "embedding-linear": MeanEmbeddingRidge(kernel="linear"),
}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
def test_odd_but_valid(name, odd):
    """Finite answers with a positive standard deviation; warnings are errors here."""
    X, y = odd(np.random.default_rng(0))
    model = VARIANTS[name]
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all() and (std > 0).all()
    spread = np.ptp(y)
    assert (mean > y.min() - 10 * spread - 1e-9).all()
    assert (mean < y.max() + 10 * spread + 1e-9).all()


@pytest.mark.parametrize("seed", range(12))
def test_random_fuzz(seed):
    """Everything odd at once, drawn at random; every model."""
    rng = np.random.default_rng(seed)
    n_bags, n_features = rng.integers(2, 12), rng.integers(1, 6)
    scale = 10.0 ** rng.uniform(-9, 9, n_features)
    arrays = [array * scale for array in random_bags(rng, n_bags, n_features)]
    for _ in range(n_bags // 2):
        i, j = rng.integers(n_bags, size=2)
        arrays[i] = np.repeat(arrays[j][:1], rng.integers(1, 4), axis=0)
    arrays[0] = rng.normal(size=(3, n_features)) * scale
    arrays = [array + rng.choice([0.0, 5.0]) * scale for array in arrays]
    y = 10.0 ** rng.uniform(-9, 9) * np.round(rng.normal(size=n_bags), rng.integers(0, 3))
    weights = [rng.choice([0.5, 1.0, 2.0], len(array)) for array in arrays]
    bags = Bags.from_list(arrays, weights=weights if rng.random() < 0.5 else None)
    bags = bags.with_log_size() if rng.random() < 0.5 else bags
    sample_weight = None if rng.random() < 0.5 else rng.uniform(0.1, 1, n_bags)
    for model in MODELS.values():
        prediction = fast_for(model, bags).fit(bags, y, sample_weight).predict_dist(bags)
        assert np.isfinite(prediction.mean).all()
        assert np.isfinite(prediction.std).all() and (prediction.std > 0).all()
        assert np.isfinite(prediction.log_prob(y)).all()


def fast_for(model, bags):
    """Return the model without a number of landmarks, which few distinct points would refuse."""
    estimator = fast(model)
    return estimator if model is MeanEmbeddingRidge else estimator.set_params(n_landmarks=None)
