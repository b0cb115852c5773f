"""Bags that are made and used as intended."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from bag_examples import assert_same, full_bags, random_arrays
from bagwise.bags import validation
from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import check_labels
from bagwise.bags.validation import check_columns


def test_attributes():
    bags = full_bags()
    assert len(bags) == bags.n_bags == 12
    assert bags.shape == (12,)
    assert bags.ndim == 1
    assert bags.n_points == len(bags.points) == bags.sizes.sum()
    assert (bags.n_features, bags.n_covariates) == (3, 2)
    assert bags.sizes.dtype == bags.offsets.dtype == np.int64
    assert bags.feature_names == ("x", "y", "z")
    assert bags.points.flags.c_contiguous


def test_bags_cannot_be_changed():
    with pytest.raises(AttributeError, match="cannot set 'points': bags do not change"):
        full_bags().points = np.zeros((1, 1))


# ---- constructors -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_from_groups_with_shuffled_rows_equals_from_list(seed):
    rng = np.random.default_rng(seed)
    expected = full_bags(seed)
    groups = np.repeat(expected.ids, expected.sizes)
    per_row = np.repeat(expected.covariates, expected.sizes, axis=0)
    order = rng.permutation(expected.n_points)
    bags = Bags.from_groups(
        expected.points[order],
        groups[order],
        weights=expected.weights[order],
        covariates=per_row[order],
        feature_names=expected.feature_names,
        covariate_names=expected.covariate_names,
    )
    first_rows = [int(np.flatnonzero(groups[order] == i)[0]) for i in bags.ids]
    assert first_rows == sorted(first_rows), "bags come in order of first appearance"
    assert set(bags.ids) == set(expected.ids)
    for i, bag_id in enumerate(bags.ids):
        j = int(np.flatnonzero(expected.ids == bag_id)[0])
        rows = order[groups[order] == bag_id]  # the order within a bag is the order of the rows
        assert_array_equal(bags[i], expected.points[rows])
        assert_array_equal(bags.covariates[i], expected.covariates[j])
        start = bags.offsets[i]
        assert_array_equal(
            bags.weights[start : start + len(rows)], expected.weights[rows], strict=True
        )


@pytest.mark.parametrize("kind", ["int", "str", "object str", "tuple", "datetime", "float", "list"])
def test_groups_of_any_one_type(kind):
    codes = np.array([3, 1, 3, 2, 1, 3])
    tuples = np.empty(6, dtype=object)
    tuples[:] = [(int(c), "x") for c in codes]
    groups = {
        "int": codes,
        "str": codes.astype(str),
        "object str": codes.astype(str).astype(object),
        "tuple": tuples,
        "datetime": codes.astype("datetime64[D]"),
        "float": codes / 2,
        "list": [str(c) for c in codes],
    }[kind]
    bags = Bags.from_groups(np.arange(6.0)[:, None], groups)
    assert [bag.ravel().tolist() for bag in bags] == [[0, 2, 5], [1, 4], [3]]
    assert bags.ids[0] == groups[0]


def test_contiguous_groups_are_not_copied():
    X = np.zeros((5, 2))
    assert np.shares_memory(Bags.from_groups(X, [1, 1, 0, 0, 0]).points, X)
    assert not np.shares_memory(Bags.from_groups(X, [1, 0, 1, 0, 0]).points, X)


def test_from_groups_takes_covariates_per_bag_or_per_row():
    X, groups = np.zeros((4, 1)), ["b", "a", "a", "b"]
    per_bag = Bags.from_groups(X, groups, covariates=[[1.0], [2.0]])
    per_row = Bags.from_groups(X, groups, covariates=[[1.0], [2.0], [2.0], [1.0]])
    column = Bags.from_groups(X, groups, covariates=[1, 2, 2, 1], covariate_names="age")
    assert_array_equal(per_bag.covariates, per_row.covariates, strict=True)
    assert_array_equal(per_bag.covariates, column.covariates, strict=True)
    assert column.covariate_names == ("age",)


def test_from_groups_takes_frames_and_series():
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [4.0, 5.0, 6.0]})
    covariates = pd.DataFrame({"age": [1, 2]})
    bags = Bags.from_groups(frame, pd.Series(["a", "b", "a"]), covariates=covariates)
    assert (bags.feature_names, bags.covariate_names) == (("x", "y"), ("age",))
    assert_array_equal(bags[0], [[1, 4], [3, 6]])


def test_from_array():
    array = np.arange(24.0).reshape(2, 4, 3)
    bags = Bags.from_array(
        array, ids=["a", "b"], weights=np.ones((2, 4)), feature_names=list("xyz")
    )
    assert np.shares_memory(bags.points, array)
    assert_array_equal(bags[1], array[1])
    assert_array_equal(bags.sizes, [4, 4])
    assert bags.weights.shape == (8,)


def test_from_list_of_frames_and_lists():
    bags = Bags.from_list([pd.DataFrame({"x": [1], "y": [2]}), pd.DataFrame({"x": [3], "y": [4]})])
    assert bags.feature_names == ("x", "y")
    assert_array_equal(bags.points, [[1, 2], [3, 4]])
    numbered = Bags.from_list([pd.DataFrame([[1, 2]])])
    assert numbered.feature_names is None
    assert Bags.from_list([[[1, 2], [3, 4]], ((5, 6),)]).sizes.tolist() == [2, 1]


@pytest.mark.parametrize(
    ("dtypes", "expected"),
    [
        (["f4", "f4"], "f4"),
        (["f4", "f8"], "f8"),
        (["i8", "f4"], "f8"),
        (["i4", "i4"], "f8"),
        (["?", "?"], "f8"),
        (["f2", "f2"], "f8"),
    ],
)
def test_float32_is_kept_and_all_else_becomes_float64(dtypes, expected):
    bags = Bags.from_list([np.ones((2, 3), dtype=d) for d in dtypes])
    assert bags.points.dtype == expected
    assert bags[:1].points.dtype == bags[[0]].points.dtype == expected


def test_as_bags_takes_every_form():
    arrays = random_arrays(1)
    expected = Bags.from_list(arrays)
    objects = np.empty(len(arrays), dtype=object)
    objects[:] = arrays
    groups = np.repeat(np.arange(len(arrays)), expected.sizes)
    assert as_bags(expected) is expected
    for form in (
        arrays,
        tuple(arrays),
        objects,
        (expected.points, groups),
        (expected.points, groups.tolist()),
        (pd.DataFrame(expected.points), pd.Series(groups)),
    ):
        assert_same(as_bags(form), expected)
    assert as_bags(np.zeros((4, 3, 2))).shape == (4,)
    assert as_bags((np.zeros((3, 2)), np.zeros((4, 2)))).sizes.tolist() == [3, 4]


def test_ids():
    arrays = random_arrays(0, n_bags=2)
    assert Bags.from_list(arrays).ids.tolist() == [0, 1]
    assert Bags.from_list(arrays, ids=[1, np.int32(2)]).ids.dtype == np.int64
    assert Bags.from_list(arrays, ids=np.array([1, 2], "u1")).ids.dtype == np.int64
    assert Bags.from_list(arrays, ids=["a", np.str_("bb")]).ids.dtype.kind == "U"
    assert Bags.from_list(arrays, ids=[("a", 1), ("b", 2)]).ids[0] == ("a", 1)
    assert Bags.from_list(arrays, ids=[2**70, 2**71]).ids[1] == 2**71
    variable = np.array(["a", "b"], dtype=np.dtypes.StringDType())
    assert Bags.from_list(arrays, ids=variable).ids.tolist() == ["a", "b"]


# ---- methods ------------------------------------------------------------------------------------


def test_effective_sizes():
    bags = Bags.from_list(
        [np.zeros((4, 1)), np.zeros((2, 1)), np.zeros((2, 1))],
        weights=[[1, 1, 1, 1], [1, 3], [0, 5]],
    )
    np.testing.assert_allclose(bags.effective_sizes, [4, 16 / 10, 1])
    assert Bags.from_array(np.zeros((2, 3, 1))).effective_sizes.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("scale", [1e-300, 1e149])
def test_effective_sizes_do_not_depend_on_the_scale_of_weights(scale):
    bags = Bags.from_list([np.zeros((2, 1))], weights=[[scale, scale]])
    np.testing.assert_allclose(bags.effective_sizes, [2])


def test_repr():
    sizes = [5] * 250 + [20] * 200 + [100] * 250 + [1000] * 300
    bags = Bags.from_list([np.zeros((n, 5)) for n in sizes])
    assert repr(bags) == (
        "Bags(1000 bags, 330250 points, 5 features; "
        "sizes 5 / 5 / 100 / 1000 / 1000 (min / 25% / median / 75% / max))"
    )
    assert bags.size_quantiles().tolist() == [5, 5, 100, 1000, 1000]
    assert "3 features, 2 covariates, weighted; sizes" in repr(full_bags())
    assert "1 bag, 5 points" in repr(bags[:1])
    assert repr(bags[:0]) == "Bags(0 bags, 0 points, 5 features)"


def test_covariates_come_and_go():
    bags = Bags.from_list(random_arrays(0))
    with_age = bags.with_covariates(np.arange(12), ["age"])
    assert with_age.covariates.shape == (12, 1)
    assert with_age.points is bags.points
    both = with_age.with_log_size()
    assert both.covariate_names == ("age", "log_size")
    assert_array_equal(both.covariates[:, 1], np.log(bags.sizes))
    unnamed = bags.with_covariates(np.zeros((12, 2))).with_log_size()
    assert unnamed.covariate_names == ("covariate_0", "covariate_1", "log_size")
    assert bags.with_log_size().covariate_names == ("log_size",)
    plain = both.without_covariates()
    assert (plain.covariates, plain.covariate_names, plain.n_covariates) == (None, None, 0)


def test_with_points():
    bags = full_bags()
    other = bags.with_points(bags.points[:, :1] * 2, ["double"])
    assert other.feature_names == ("double",)
    assert_array_equal(other[4], bags[4][:, :1] * 2)
    assert other.weights is bags.weights
    assert bags.with_points(pd.DataFrame({"a": bags.points[:, 0]})).feature_names == ("a",)


def test_concatenate_undoes_slicing():
    bags = full_bags()
    assert_same(Bags.concatenate([bags[:5], bags[5:]]), bags)
    assert_same(Bags.concatenate([bags]), bags)


def test_concatenate_fills_in_unit_weights():
    weighted = Bags.from_list([[[1.0], [2.0]]], weights=[[3, 4]])
    bags = Bags.concatenate([weighted, Bags.from_list([[[5.0]]])])
    assert bags.weights.tolist() == [3, 4, 1]
    assert bags.ids.tolist() == [0, 0]


@pytest.mark.parametrize(
    "twin", [copy.copy, copy.deepcopy, lambda b: pickle.loads(pickle.dumps(b))]
)
def test_copy_and_pickle(twin):
    bags = full_bags()
    assert_same(twin(bags), bags)
    assert_same(twin(bags[2:4]), bags[2:4])


def test_halves_are_the_bags_cut_in_two():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=(n, 2)) for n in (2, 5, 40)]
    weights = [rng.uniform(size=len(array)) for array in arrays]
    bags = Bags.from_list(arrays, weights=weights, ids=list("abc"), covariates=[[1], [2], [3]])
    first, second = bags.halves()
    assert first.sizes.tolist() == [1, 2, 20] and second.sizes.tolist() == [1, 3, 20]
    for i, array in enumerate(arrays):
        both = np.vstack([first[i], second[i]])
        assert_array_equal(both[np.lexsort(both.T)], array[np.lexsort(array.T)])
    assert_array_equal(np.sort(np.append(first.weights, second.weights)), np.sort(bags.weights))
    assert first.ids.tolist() == second.ids.tolist() == list("abc")
    assert_array_equal(first.covariates, bags.covariates)
    again, _ = bags.halves()
    assert_array_equal(again.points, first.points)
    assert not np.array_equal(bags.halves(1)[0].points, first.points)


def test_inputs_are_not_changed():
    X, groups, weights = np.ones((4, 2)), np.array([1, 0, 1, 0]), np.arange(1.0, 5.0)
    before = X.copy(), groups.copy(), weights.copy()
    Bags.from_groups(X, groups, weights=weights).with_log_size()
    for mine, theirs in zip((X, groups, weights), before, strict=True):
        assert_array_equal(mine, theirs)


def test_finiteness_is_checked_in_chunks():
    array = np.zeros((10, 3))
    assert validation.first_unusable(array, chunk=6) is None
    array[7, 2] = np.nan
    assert validation.first_unusable(array, chunk=6) == (7, 2)


# ---- labels and fitted columns ------------------------------------------------------------------


@pytest.mark.parametrize(
    "y", [[1, 2], (1.0, 2.0), np.array([[1], [2]]), pd.Series([1, 2]), np.array([1, 2], "f4")]
)
def test_labels(y):
    labels = check_labels(y, Bags.from_array(np.zeros((2, 3, 1))))
    assert_array_equal(labels, np.array([1.0, 2.0]), strict=True)


def test_matching_columns_pass():
    bags = full_bags()
    check_columns("feature", ("x", "y", "z"), 3, bags)
    check_columns("feature", None, 3, bags)
    check_columns("feature", ("x",), 1, Bags.from_array(np.zeros((2, 3, 1))))
    check_columns("covariate", ("age", "dose"), 2, bags)
    check_columns("covariate", None, 0, bags.without_covariates())


@pytest.mark.parametrize("level", [0.1, 1e9, -1e-9])
def test_centred_bags_keep_their_shape_and_nothing_of_rounding(level):
    rng = np.random.default_rng(0)
    arrays = [np.full((7, 2), level), rng.normal(level, 1.0, (5, 2))]
    weights = [rng.uniform(size=7), rng.uniform(size=5)]
    bags = Bags.from_list(arrays, weights=weights, covariates=[[1.0], [2.0]]).centred()
    assert not bags[0].any()
    middle = np.average(arrays[1], axis=0, weights=weights[1])
    np.testing.assert_allclose(bags[1], arrays[1] - middle, atol=1e-6)
    np.testing.assert_allclose(bags.centred().points, bags.points, atol=1e-12)
    np.testing.assert_array_equal(bags.covariates, [[1.0], [2.0]])


def test_deviations_are_by_column_and_do_not_grow_with_the_bag():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(5.0, 2.0, (n, 2)) for n in (1, 2, 7)]
    weights = [rng.uniform(size=len(array)) for array in arrays]
    bags = Bags.from_list(arrays, weights=weights, feature_names=["a", "b"]).with_deviations()
    assert bags.feature_names == ("a", "b", "deviation of a", "deviation of b")
    for k, (array, weight) in enumerate(zip(arrays, weights, strict=True)):
        away = np.abs(array - np.average(array, axis=0, weights=weight))
        kish = max(weight.sum() ** 2 / np.sum(weight**2), 2.0)
        by_hand = np.hstack([array, away * np.sqrt(kish / (kish - 1))])
        np.testing.assert_allclose(bags[k], by_hand, atol=1e-12)
    small, large = (
        Bags.from_array(rng.normal(size=(4000, n, 1))).with_deviations().points[:, 1].mean()
        for n in (2, 40)
    )
    np.testing.assert_allclose([small, large], np.sqrt(2 / np.pi), atol=0.02)
