"""Every input that cannot be used: what was found, what was expected, and the remedy."""

import re

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import check_labels
from bagwise.bags.validation import check_columns
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError

ONES = np.ones((2, 2))


def at(value, row, column, shape=(3, 2)):
    array = np.zeros(shape)
    array[row, column] = value
    return array


def fails(make, *parts, error=InvalidBagsError):
    """Call make; the message must contain all parts, in this order."""
    with pytest.raises(error) as caught:
        make()
    pattern = ".*".join(re.escape(part) for part in parts)
    assert re.search(pattern, str(caught.value)), str(caught.value)
    assert re.fullmatch(r".+; expected .+\. .+\.", str(caught.value)), str(caught.value)


def test_errors_are_value_errors():
    assert issubclass(BagwiseError, ValueError)
    assert issubclass(InvalidBagsError, BagwiseError)
    assert issubclass(InvalidLabelsError, BagwiseError)
    assert issubclass(BagwiseWarning, UserWarning)


# ---- points -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "empty", [np.zeros((0, 2)), [], pd.DataFrame({"a": [], "b": []}, dtype=float)]
)
def test_empty_bag(empty):
    fails(
        lambda: Bags.from_list([ONES, empty], ids=["a", "b"]),
        "bag 'b' (position 1) is empty; expected at least one point in every bag. Drop empty bags",
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Bags.from_list([]),
        lambda: Bags.from_array(np.zeros((0, 3, 2))),
        lambda: Bags.from_groups(np.zeros((0, 2)), []),
        lambda: Bags.concatenate([]),
        lambda: as_bags([]),
        lambda: as_bags(Bags.from_list([ONES])[:0]),
    ],
)
def test_no_bags(make):
    fails(make, "there are no bags at all; expected at least one bag. Check the filter")


def test_empty_bags_in_an_array():
    fails(lambda: Bags.from_array(np.zeros((2, 0, 2))), "bag 0 (position 0) is empty")


def test_direct_construction_checks_offsets():
    fails(lambda: Bags(ONES, [0, 2, 2], ["a", "b"]), "bag 'b' (position 1) is empty")
    fails(lambda: Bags(ONES, [1, 2], ["a"]), "offsets start at 1", "expected 0")
    fails(lambda: Bags(ONES, [0, 3], ["a"]), "there are 2 points for bags of 3 points altogether")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_points_that_are_not_finite(value):
    fails(
        lambda: Bags.from_list([ONES, at(value, 2, 1)], ids=["a", "b"]),
        f"bag 'b', row 2, column 1 is {value}; expected a finite number. Drop the point or impute",
    )
    fails(
        lambda: Bags.from_list([ONES, at(value, 2, 1)], feature_names=["u", "v"]),
        f"bag 1, row 2, column 'v' is {value}",
    )


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_points_of_float32_that_are_not_finite(value):
    X = np.array([[1.0], [value]], dtype=np.float32)
    fails(lambda: Bags.from_array(X[None]), f"row 1, column 0 is {value}")


def test_not_finite_in_shuffled_groups_is_named_by_bag():
    X = at(np.nan, 2, 0, shape=(4, 1))
    fails(lambda: Bags.from_groups(X, ["a", "b", "b", "a"]), "bag 'b', row 1, column 0 is nan")


def test_ragged_features():
    fails(
        lambda: Bags.from_list([ONES, ONES, np.ones((2, 3))], ids=["a", "b", "c"]),
        "bag 'c' has 3 features but bag 'a' has 2; expected the same features in every bag",
    )
    fails(lambda: Bags.from_list([[[1, 2], [3]]]), "bag 0 has rows of different lengths")


@pytest.mark.parametrize(
    ("array", "dtype"),
    [
        (np.array([["a", "b"]]), "<U1"),
        (np.array([[1, None]], dtype=object), "object"),
        (np.array([[1j, 2]]), "complex128"),
        (np.array([["2020-01-01"]], dtype="datetime64[D]"), "datetime64[D]"),
        ([[1, "b"]], "<U"),
    ],
)
def test_wrong_dtype(array, dtype):
    fails(
        lambda: Bags.from_list([array], ids=["a"]),
        f"bag 'a' has dtype {dtype}",
        "expected real numbers. Convert it with .astype(float)",
    )


def test_sparse_and_masked_points():
    fails(lambda: Bags.from_list([scipy.sparse.eye(2)]), "bag 0 is a sparse matrix", ".toarray()")
    masked = np.ma.masked_invalid(at(np.nan, 0, 0))
    fails(lambda: Bags.from_list([masked]), "bag 0 has masked entries", "impute")


def test_wrong_number_of_dimensions():
    fails(
        lambda: Bags.from_list([ONES, np.ones(3)]),
        "bag 1 has shape (3,); expected a 2-D array (points, features). Use .reshape(-1, 1)",
    )
    fails(lambda: Bags.from_list([3.0]), "bag 0 has shape ()", "one row per point")
    fails(lambda: Bags.from_array(ONES), "shape (2, 2)", "three dimensions", "Bags.from_groups")
    fails(lambda: Bags.from_groups(np.ones(3), [0, 0, 1]), "X has shape (3,)", ".reshape(-1, 1)")


def test_no_feature_columns():
    fails(lambda: Bags.from_list([np.ones((2, 0))]), "bag 0 has no feature columns", "at least one")
    fails(lambda: Bags.from_array(np.ones((2, 3, 0))), "has no feature columns")


def test_frames_with_other_columns():
    first, second = pd.DataFrame({"x": [1], "y": [2]}), pd.DataFrame({"y": [1], "x": [2]})
    fails(
        lambda: Bags.from_list([first, second]),
        "bag 1 has columns ('y', 'x') but the bags before it have ('x', 'y')",
        "frame[['x', 'y']]",
    )
    text = pd.DataFrame({"x": ["a"], "y": [2]})
    fails(lambda: Bags.from_list([text]), "column 'x' has type String; expected numbers")


@pytest.mark.parametrize(
    ("names", "parts"),
    [
        (["a"], ["there are 1 feature names for 2 columns", "one name per column"]),
        (["a", "a"], ["the feature name 'a' appears twice", "Rename"]),
        ([1, 2], ["the feature name 1 is a int; expected strings"]),
    ],
)
def test_feature_names(names, parts):
    fails(lambda: Bags.from_list([ONES], feature_names=names), *parts)


def test_with_points_of_another_length():
    bags = Bags.from_list([ONES])
    fails(lambda: bags.with_points(np.ones((3, 2))), "there are 3 points for bags of 2 points")
    fails(lambda: bags.with_points(at(np.nan, 1, 0, (2, 1))), "bag 0, row 1, column 0 is nan")


# ---- ids and groups -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make",
    [
        lambda ids: Bags.from_list([ONES] * 3, ids=ids),
        lambda ids: Bags.from_groups(np.ones((3, 2)), ids),
        lambda ids: Bags.from_array(np.ones((3, 2, 2)), ids=ids),
    ],
    ids=["from_list", "from_groups", "from_array"],
)
@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        (
            [1, 2, "c"],
            ["bag ids mix types: position 0 is int (1) but position 2 is str ('c')", "[str(i)"],
        ),
        ([1, True, 2], ["position 1 is bool (True)"]),
        (["a", "b", None], ["the bag id at position 2 is missing (None)", "Drop these rows"]),
        ([1.0, np.nan, 2.0], ["the bag id at position 1 is missing (nan)"]),
        (np.array([1.0, np.nan, 2.0]), ["the bag id at position 1 is missing (nan)"]),
        (pd.array([1, None, 2], dtype="Int64"), ["the bag id at position 1 is missing"]),
        (np.array(["2020", "NaT", "2021"], "datetime64[D]"), ["position 1 is missing (NaT)"]),
        ([[1], [2], [3]], ["the bag id at position 0 is a list, which cannot be hashed", "tuple"]),
        ([(1, 2), (1, [2]), (1, 3)], ["the bag id at position 1 is a tuple, which cannot be"]),
        (np.ones((3, 1)), ["the bag ids have shape (3, 1)", "a 1-D array or a list"]),
    ],
)
def test_bad_ids(make, ids, parts):
    fails(lambda: make(ids), *parts)


def test_number_of_ids():
    fails(
        lambda: Bags.from_list([ONES], ids=[1, 2]), "there are 2 ids for 1 bags", "one id per bag"
    )
    fails(lambda: Bags.from_groups(ONES, [1, 2, 3]), "there are 3 group ids for 2 rows of X")


# ---- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        ([[1, 1], [1, -2.0]], ["bag 'b', row 1 has weight -2.0", "a finite weight of at least 0"]),
        ([[1, 1], [np.nan, 1]], ["bag 'b', row 0 has weight nan"]),
        ([[1, 1], [np.inf, 1]], ["bag 'b', row 0 has weight inf"]),
        ([[1, 1], [0, 0]], ["all weights of bag 'b' are 0", "a positive sum", "Drop the bag"]),
        ([[1, 1], [1]], ["bag 'b' has 2 points but weights of shape (1,)", "one weight per point"]),
        ([[1, 1], [[1, 1]]], ["bag 'b' has 2 points but weights of shape (1, 2)"]),
        ([[1, 1]], ["there are weights for 1 bags but 2 bags", "one 1-D array"]),
        ([[1, 1], ["x", "y"]], ["the weights of bag 'b' has dtype <U1"]),
    ],
)
def test_weights(weights, parts):
    fails(lambda: Bags.from_list([ONES, ONES], ids=["a", "b"], weights=weights), *parts)


@pytest.mark.parametrize(
    ("weights", "parts"),
    [
        (
            [[1, 1, 1], [1]],
            ["bag 1 has 3 points but weights of shape (1,)", "one weight per point"],
        ),
        (np.ones((3, 2)), ["there are weights for 3 bags but 2 bags"]),  # which would fit, laid out
        (np.ones(6), ["there are weights for 6 bags but 2 bags"]),
        ([[1, 1, 1], [1, [2], 3]], ["the weights of bag 1 has rows of different lengths"]),
        (np.array(2.0), ["the weights are", "one 1-D array of weights per bag"]),
        ("ab", ["the weights of bag 0 has dtype <U1"]),
        ([[1, 1, 1], [1, -2.0, 1]], ["bag 1, row 1 has weight -2.0"]),
    ],
)
@pytest.mark.parametrize("make", [Bags.from_array, Bags.from_list])
def test_weights_of_bags_of_one_size(make, weights, parts):
    fails(lambda: make(np.ones((2, 3, 1)), weights=weights), *parts)


def test_weights_of_groups():
    fails(lambda: Bags.from_groups(ONES, [0, 1], weights=[1.0]), "weights have shape (1,)", "(2,)")


# ---- covariates ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("covariates", "parts"),
    [
        (np.ones((3, 1)), ["the covariates have shape (3, 1) for 2 bags", "one row per bag"]),
        (np.ones(3), ["the covariates have shape (3,) for 2 bags"]),
        (np.ones((2, 1, 1)), ["the covariates have shape (2, 1, 1)"]),
        (np.ones((2, 0)), ["the array of covariates has no feature columns"]),
        (at(np.nan, 1, 0, (2, 1)), ["bag 'b', covariate 0 is nan", "Impute the covariate"]),
        ([["x"], ["y"]], ["the array of covariates has dtype <U1"]),
    ],
)
def test_covariates(covariates, parts):
    bags = Bags.from_list([ONES, ONES], ids=["a", "b"])
    fails(lambda: bags.with_covariates(covariates), *parts)
    fails(lambda: Bags.from_list([ONES] * 2, ids=["a", "b"], covariates=covariates), *parts)


def test_covariate_names():
    bags = Bags.from_list([ONES, ONES])
    fails(
        lambda: bags.with_covariates(at(np.inf, 0, 1, (2, 2)), ["age", "dose"]),
        "bag 0, covariate 'dose' is inf",
    )
    fails(lambda: bags.with_covariates([1, 2], ["a", "b"]), "2 covariate names for 1 columns")
    fails(
        lambda: Bags.from_list([ONES], covariate_names=["a"]),
        "there are covariate names but no covariates; expected both or neither",
    )
    fails(
        lambda: bags.with_log_size().with_log_size(), "the covariate name 'log_size' appears twice"
    )


def test_covariates_that_change_within_a_bag():
    def make(covariates, **names):
        return lambda: Bags.from_groups(
            np.ones((3, 1)), ["a", "b", "a"], covariates=covariates, **names
        )

    fails(
        make([[1.0], [2.0], [3.0]]),
        "covariate 0 changes within bag 'a': 1.0 in row 0 but 3.0 in row 1",
        "one value for the whole bag. Aggregate",
    )
    fails(make([[1.0], [2.0], [3.0]], covariate_names=["age"]), "covariate 'age' changes")
    fails(make([[1.0], [2.0], [np.nan]]), "bag 'a', row 1, covariate 0 is missing")
    fails(make(np.ones((4, 1))), "the covariates have shape (4, 1) for 2 bags")


# ---- putting together, as_bags ------------------------------------------------------------------


def test_concatenate_needs_the_same_columns():
    bags = Bags.from_list([ONES], feature_names=["a", "b"])
    fails(
        lambda: Bags.concatenate([bags, Bags.from_list([ONES], feature_names=["b", "a"])]),
        "the Bags at position 1 have features ('b', 'a') but the first have ('a', 'b')",
        "the same features in the same order",
    )
    fails(
        lambda: Bags.concatenate([bags, bags.with_log_size()]),
        "position 1 have covariates ('log_size',) but the first have 0",
    )
    texts = Bags.from_list([ONES], ids=["x"], feature_names=["a", "b"])
    fails(lambda: Bags.concatenate([bags, texts]), "bag ids mix types: position 0 is int (0)")


@pytest.mark.parametrize(
    ("X", "parts"),
    [
        (ONES, ["got a ndarray with shape (2, 2)", "Pass (X, groups) with the bag of each row"]),
        (np.ones(3), ["got a ndarray with shape (3,)", "a list with one 2-D array per bag"]),
        (pd.DataFrame(ONES), ["got a DataFrame with shape (2, 2)", 'Bags.from_frame(frame, bag="']),
        (None, ["got a NoneType; expected Bags, a list of 2-D arrays"]),
        ("text", ["got a str"]),
    ],
)
def test_as_bags(X, parts):
    fails(lambda: as_bags(X), *parts)


# ---- labels and fitted columns ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        ([1.0], ["there are 1 labels for 2 bags; expected one label per bag", "the same rows"]),
        (np.ones(6), ["there are 6 labels for 2 bags", "Labels belong to bags, not to points"]),
        (np.ones((2, 2)), ["the labels have shape (2, 2); expected (2,)", "Pass a 1-D array"]),
        (1.0, ["the labels have shape ()"]),
        ([1, np.nan], ["the label of bag 'b' (position 1) is nan", "keep = np.isfinite(y)"]),
        ([np.inf, 1], ["the label of bag 'a' (position 0) is inf"]),
        (["u", "v"], ["the labels have dtype <U1; expected real numbers", "y.astype(float)"]),
        ([1j, 2], ["the labels have dtype complex128"]),
        ([1, None], ["the label of bag 'b' (position 1) is nan"]),
        ([1, "v"], ["the labels have dtype object"]),
        ([[1], [2, 3]], ["the labels have entries of different lengths", "Pass a 1-D array"]),
        (np.ma.array([1, 2], mask=[0, 1]), ["the labels have masked entries"]),
    ],
)
def test_labels(y, parts):
    bags = Bags.from_array(np.zeros((2, 3, 1)), ids=["a", "b"])
    fails(lambda: check_labels(y, bags), *parts, error=InvalidLabelsError)


@pytest.mark.parametrize(
    ("names", "n", "parts"),
    [
        (None, 3, ["these bags have 2 features; expected 3, as in fit."]),
        (
            ("a",),
            1,
            ["missing [], unexpected ['b']", "Select the same columns as in fit: df[['a']]"],
        ),
        (("a", "c"), 2, ["names differ from those in fit: missing ['c'], unexpected ['b']"]),
        (("b", "a"), 2, ["are in another order than in fit: ('a', 'b')", "df[['b', 'a']]"]),
    ],
)
def test_features_of_the_fit(names, n, parts):
    bags = Bags.from_list([ONES], feature_names=["a", "b"])
    fails(lambda: check_columns("feature", names, n, bags), *parts)


def test_covariates_of_the_fit():
    bags = Bags.from_list([ONES])
    fails(
        lambda: check_columns("covariate", ("age",), 1, bags),
        "these bags have 0 covariates; expected 1, as in fit: 'age'. Give the bags",
    )
    fails(
        lambda: check_columns("covariate", ("age",), 1, bags.with_log_size()),
        "the covariate names differ from those in fit: missing ['age'], unexpected ['log_size']",
    )


def test_an_array_with_weights_and_too_few_ids():
    with pytest.raises(InvalidBagsError, match="there are 2 ids for 3 bags"):
        Bags.from_array(np.zeros((3, 2, 1)), ids=["a", "b"], weights=np.ones((3, 2)))
