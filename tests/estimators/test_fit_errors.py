"""Bad bags and labels are refused with the bag, what was expected and the remedy."""

import numpy as np
import pytest

from bagwise import (
    Bags,
    BDRRegressor,
    DistributionGPRegressor,
    KernelEmbedding,
    ShrinkageRegressor,
)
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError
from error_cases import (
    ARRAYS,
    BAGS,
    IDS,
    RNG,
    Y,
    every_model,
    fails,
    fast,
    replaced,
    shrinkage,
    with_value,
)

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
        lambda: model(KernelEmbedding(3)).fit([array[:1] for array in ARRAYS], Y),
        "every bag has one point", "some bags with two points or more", "BayesianLinearRegressor",
        error=InvalidBagsError,
    )  # fmt: skip


@shrinkage
def test_bags_of_one_point_in_effect(model):
    weights = [[1.0, 0.0, 1e-300, 0.0] for _ in ARRAYS]
    bags = Bags.from_list(ARRAYS, weights=weights)
    fails(lambda: model(KernelEmbedding(3)).fit(bags, Y), "every bag has one point", "two points")


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
        ("the label of bag 'b' (position 1) is nan", "a finite number", "Drop the bags without"),
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


@pytest.mark.parametrize("prior", ["learnt", "kernel"])
@pytest.mark.parametrize("model", [DistributionGPRegressor, ShrinkageRegressor, BDRRegressor])
def test_features_that_are_0_everywhere_are_refused(model, prior):
    """Landmarks of a linear kernel at the mean of all points, which symmetric bags have at 0."""
    rng = np.random.default_rng(0)
    half = [rng.integers(-3, 4, size=(n, 2)).astype(float) for n in rng.integers(2, 9, 30)]
    bags = [np.vstack([points, -points]) for points in half]
    embedding = KernelEmbedding(kernel="linear", landmarks=np.zeros((2, 2)), standardize=False)
    with pytest.raises(BagwiseError, match="every feature is 0"):
        model(embedding, prior=prior).fit(bags, rng.normal(size=30))
