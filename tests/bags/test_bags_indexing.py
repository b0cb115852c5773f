"""Indexing bags: views, masks, lists, and scikit-learn's splitters."""

import datetime
import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.model_selection import KFold, train_test_split
from sklearn.utils import _safe_indexing

from bag_examples import full_bags, random_arrays
from bagwise.bags import validation
from bagwise.bags.bags import Bags
from bagwise.exceptions import BagwiseError


def test_iteration_and_integers_give_views():
    arrays = random_arrays(2)
    bags = Bags.from_list(arrays)
    for i, (mine, theirs) in enumerate(zip(bags, arrays, strict=True)):
        assert_array_equal(mine, theirs)
        assert_array_equal(bags[i], theirs)
        assert_array_equal(bags[i - len(arrays)], theirs)
        assert_array_equal(bags[np.int32(i)], theirs)
    assert np.shares_memory(bags[3], bags.points)


@pytest.mark.parametrize(
    "key",
    [
        slice(None),
        slice(2, 7),
        slice(-3, None),
        slice(5, 5),
        slice(7, 2),
        slice(None, None, 2),
        slice(None, None, -1),
        [0, 5, 5, -1],
        np.array([4, 2], dtype="u1"),
        [],
        np.arange(12) % 3 == 0,
        [True] * 12,
    ],
    ids=str,
)
def test_indexing_is_that_of_an_array(key):
    bags = full_bags()
    position = np.arange(12)[key if isinstance(key, slice) or len(key) else np.array([], int)]
    for chosen in (bags[key], bags[key, ...]):
        assert chosen.ids.tolist() == bags.ids[position].tolist()
        assert_array_equal(chosen.covariates, bags.covariates[position])
        assert len(list(chosen)) == len(position)
        for i, j in enumerate(position):
            assert_array_equal(chosen[i], bags[j])
            rows = slice(chosen.offsets[i], chosen.offsets[i + 1])
            theirs = slice(bags.offsets[j], bags.offsets[j + 1])
            assert_array_equal(chosen.weights[rows], bags.weights[theirs])
        assert chosen.effective_sizes.tolist() == bags.effective_sizes[position].tolist()
        assert repr(chosen).startswith(f"Bags({len(position)} bag")


def test_slices_share_points_and_weights():
    bags = full_bags()
    part = bags[3:9][1:4]
    assert np.shares_memory(part.points, bags.points)
    assert np.shares_memory(part.weights, bags.weights)
    assert not np.shares_memory(bags[::2].points, bags.points)


def test_indexing_does_not_check_again(monkeypatch):
    bags = full_bags()

    def fail(*args):
        raise AssertionError("checked again")

    monkeypatch.setattr(validation, "first_unusable", fail)
    assert bags[1:3].n_bags == bags[[0, 1]].n_bags == 2
    with pytest.raises(AssertionError, match="checked again"):
        full_bags()


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (12, "bag 12 is out of range: there are 12 bags"),
        (-13, "bag -13 is out of range"),
        ([0, 99], "bag 99 is out of range"),
        ([True, False], "the mask has 2 entries for 12 bags"),
        ([0.5], "indexed by integers, slices or masks, not by float64"),
        ((0, 1), "bags have one axis: choose several with a list"),
        ([[0, 1]], r"the index has shape \(1, 2\)"),
        (True, r"the index has shape \(\)"),
    ],
)
def test_bad_index(key, message):
    with pytest.raises(IndexError, match=message):
        full_bags()[key]


def test_bags_by_id():
    bags = full_bags()
    assert_array_equal(bags["bag 7"], bags[7])
    assert_array_equal(bags.bag("bag 7"), bags[7])
    assert bags[["bag 7", "bag 2"]].ids.tolist() == ["bag 7", "bag 2"]
    assert bags[np.array(["bag 3"])].ids.tolist() == ["bag 3"]
    numbered = Bags.from_list(random_arrays(2, n_bags=3), ids=[2, 0, 1])
    assert_array_equal(numbered.bag(2), numbered[0])  # by id; integers in brackets are positions
    assert_array_equal(numbered.bag(np.int64(0)), numbered[1])
    pairs = Bags.from_list(random_arrays(2, n_bags=2), ids=[("Ohio", 2020), ("Iowa", 2020)])
    assert_array_equal(pairs["Iowa", 2020], pairs[1])
    assert_array_equal(pairs.bag(("Ohio", 2020)), pairs[0])
    assert pairs[[1], ...].n_bags == 1
    days = np.array(["2020-01-02", "2020-01-01"], dtype="M8[D]")
    dated = Bags.from_list(random_arrays(2, n_bags=2), ids=days)
    for day in (days[1], datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)):
        assert_array_equal(dated.bag(day), dated[1])


@pytest.mark.parametrize(
    "look_up",
    [
        lambda bags: bags["bag 99"],
        lambda bags: bags[["bag 0", "bag 99"]],
        lambda bags: bags.bag("bag 99"),
    ],
)
def test_an_unknown_id(look_up):
    message = r"^no bag has the id 'bag 99'; expected one of the 12 in bags.ids, such as 'bag 0'"
    for kind in (KeyError, BagwiseError):
        with pytest.raises(kind) as caught:
            look_up(full_bags())
        assert re.match(message, str(caught.value))
    with pytest.raises(BagwiseError, match="no bag has the id '3'"):
        Bags.from_list(random_arrays(0))["3"]
    twice = full_bags()[[1, 4, 1]]
    with pytest.raises(BagwiseError, match=r"2 bags have the id 'bag 1'.*by position: bags"):
        twice["bag 1"]


def test_ids_may_not_repeat_where_they_are_given():
    message = "two bags have the id 'a': positions 0 and 2; expected an id of its own"
    for make, bags in (
        (Bags.from_list, random_arrays(0)[:3]),
        (Bags.from_array, np.ones((3, 2, 1))),
    ):
        with pytest.raises(BagwiseError, match=message):
            make(bags, ids=["a", "b", "a"])


def test_scikit_learn_indexing():
    bags, y = full_bags(), np.arange(12)
    assert _safe_indexing(bags, [2, 0]).ids.tolist() == ["bag 2", "bag 0"]
    assert _safe_indexing(bags, slice(1, 3)).ids.tolist() == ["bag 1", "bag 2"]
    assert _safe_indexing(bags, y > 9).ids.tolist() == ["bag 10", "bag 11"]
    seen = []
    for train, test in KFold(4, shuffle=True, random_state=0).split(bags, y):
        assert len(bags[train]) == 9
        seen += _safe_indexing(bags, test).ids.tolist()
    assert sorted(seen) == sorted(bags.ids)
    train, test, y_train, y_test = train_test_split(bags, y, test_size=4, random_state=0)
    assert isinstance(train, Bags)
    assert train.ids.tolist() == [f"bag {i}" for i in y_train]
    assert test.ids.tolist() == [f"bag {i}" for i in y_test]
