"""Bags whose points are objects."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest

from bagwise import Bags, as_bags
from bagwise.bags.validation import Objects
from bagwise.exceptions import InvalidBagsError

WORDS = [["ab", "c"], ["d"], ["ab", "e", "f"]]


def fails(call, *texts):
    with pytest.raises(InvalidBagsError) as error:
        call()
    for text in texts:
        assert text in str(error.value)


def held(bags):
    return [part.listed() for part in bags]


@pytest.mark.parametrize(
    "points",
    [
        WORDS,
        [[b"x", b"yz"], [b""]],
        [[{1, 2}, set()], [{3}]],
        [[("C", 1), ("N", 2)], [("O", 1)]],
        [[{"nodes": 2}, {"nodes": 3}], [{}]],
        [np.array(["ab", "c"]), np.array(["d"])],
        [pd.Series(["ab", "c"]), pd.Series(["d"])],
    ],
)
def test_lists_of_objects_are_bags(points):
    bags = as_bags(points)
    assert bags.of_objects and bags.n_features == 1
    assert held(bags) == [list(part) for part in points]
    assert bags.sizes.tolist() == [len(part) for part in points]


def test_lists_of_different_lengths_are_objects_if_that_is_said():
    points = [[[1, 2], [3]], [[4]]]
    fails(lambda: Bags.from_list(points), "rows of different lengths")
    assert held(Bags.from_list(points, objects=True)) == points
    series = [[np.zeros(3), np.zeros(2)]]
    assert held(Bags.from_list(series, objects=True))[0][1].shape == (2,)


def test_what_is_done_with_bags_is_done_with_objects():
    bags = Bags.from_list(WORDS, ids=["x", "y", "z"], weights=[[1, 2], [1], [0, 1, 1]])
    assert held(bags[[2, 0]]) == [WORDS[2], WORDS[0]]
    assert bags["y"].listed() == ["d"] and bags.bag("x").listed() == ["ab", "c"]
    assert held(bags[1:]) == WORDS[1:]
    assert held(Bags.concatenate([bags, bags])) == WORDS * 2
    assert held(bags.some(np.array([2]), 10)) == [WORDS[2]]
    first, second = Bags.from_list(WORDS[::2]).halves()
    assert sorted(first.points.listed() + second.points.listed()) == ["ab", "ab", "c", "e", "f"]
    for twin in (copy.deepcopy(bags), pickle.loads(pickle.dumps(bags))):
        assert held(twin) == WORDS and twin.of_objects
    assert "objects" in repr(bags) and "feature" not in repr(bags)
    assert "objects" in bags._repr_html_()
    numbers = bags.with_points(np.array([[len(word)] for word in bags.points.listed()]))
    assert not numbers.of_objects and numbers[2].ravel().tolist() == [2, 1, 1]


def test_groups_of_objects():
    frame = pd.DataFrame({"word": ["a", "b", "c"], "text": [1, 2, 1]})
    bags = Bags.from_groups(frame["word"], frame["text"])
    assert held(bags) == [["a", "c"], ["b"]] and bags.ids.tolist() == [1, 2]


def test_what_is_no_bag_of_objects_is_named():
    fails(lambda: Bags.from_list([["a"], [1.0]]), "bag 1 starts with 1.0", "objects in every bag")
    fails(lambda: Bags.from_list([[[1.0]], ["a"]]), "bag 1 has dtype <U1")
    fails(lambda: Bags.from_list([["a"], []]), "bag 1 (position 1) is empty")
    fails(lambda: Bags.from_list([["a"], "b"]), "bag 1 is a str", "Put it into a list")
    fails(lambda: Bags.from_list([["a", None]]), "bag 0, row 1 is None")
    fails(lambda: Bags.from_list([["a", float("nan")]]), "bag 0, row 1 is nan")
    fails(lambda: Bags.from_list(WORDS).centred(), "objects, which have no mean")
    fails(lambda: Bags.from_list(WORDS).with_deviations(), "objects, which have no mean")
    both = [Bags.from_list([["a"]]), Bags.from_list([[[1.0]]])]
    fails(lambda: Bags.concatenate(both), "are numbers; expected objects")


def test_objects_are_kept_as_they_are():
    value = [1, [2, 3]]
    assert Objects.of([value]).listed()[0] is value
