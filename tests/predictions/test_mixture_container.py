"""MixturePrediction as a container: blocks, sizes, slices, copies and errors."""

import pickle

import numpy as np
import pytest

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions import mixture
from bagwise.predictions.mixture import MixturePrediction
from mixtures import random_mixture, random_points
from sized import Sized

QS = np.array([1e-12, 1e-6, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-6])


@pytest.fixture
def p():
    return random_mixture()


# ---------------------------------------------------------------- blocks


@pytest.mark.parametrize("elements", [1, 700])
def test_blocks_do_not_matter(monkeypatch, elements):
    p = random_mixture(300, 11)
    y = p.sample(1, 0)[0]

    def answers():
        return [p.cdf(y), p.log_prob(y), p.crps(y), p.quantile(QS)]

    whole = answers()
    monkeypatch.setattr(mixture, "BLOCK_ELEMENTS", elements)
    for part, expected in zip(answers(), whole, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-11)


# ---------------------------------------------------------------- size


def test_at_size_changes_only_the_bag_variances(p):
    for sizes in (10, np.arange(1, 8), np.inf):
        other = p.at_size(sizes)
        assert isinstance(other, MixturePrediction)
        expected = Sized.random().variance(np.broadcast_to(sizes, 7))
        np.testing.assert_allclose(other.bag_variances, expected, rtol=1e-12, atol=1e-90)
        np.testing.assert_array_equal(other.components[0], p.components[0])
        np.testing.assert_allclose(other.parts.weights, p.parts.weights)
        np.testing.assert_allclose(other.parts.noise, p.parts.noise)
        np.testing.assert_array_equal(other.sizes, np.broadcast_to(sizes, 7))
        np.testing.assert_array_equal(other.ids, p.ids)
    np.testing.assert_allclose(p.at_size(p.sizes).var, p.var)
    assert np.all(p.at_size(1000).std < p.std)


def test_variance_of_the_bags_is_that_of_their_sizes(p):
    expected = Sized.random().variance(p.sizes)
    np.testing.assert_allclose(p.bag_variances, expected, rtol=1e-12)
    assert (expected.std(axis=0) > 0.01).all()  # the draws differ, and so do the sizes
    assert (expected.std(axis=1) > 0.01).all()


def test_the_means_of_larger_bags_are_shrunk_as_those_of_today():
    """Before further points are seen, the expected mean of the later prediction is today's."""
    near, far = (random_mixture(spread=spread) for spread in (0.0, 1.0))
    assert np.abs(near.components[0] - far.components[0]).min() > 0
    for sizes in (1, 1000, np.inf, np.arange(1, 8)):
        np.testing.assert_array_equal(far.at_size(sizes).components[0], far.components[0])


def test_some_bags_at_another_size_are_those_of_all_bags_at_that_size(p):
    sizes, rows = np.arange(2, 9), [4, 0, 4, 2]
    some, all_ = p[rows].at_size(sizes[rows]), p.at_size(sizes)
    np.testing.assert_allclose(some.bag_variances, all_.bag_variances[:, rows], rtol=1e-14)
    np.testing.assert_allclose(some.components[0], all_.components[0][:, rows], rtol=1e-13)
    again = some.at_size(p.sizes[rows])
    np.testing.assert_allclose(again.bag_variances, p.bag_variances[:, rows], rtol=1e-14)


def test_a_model_of_points_ignores_size():
    p = random_points(sizes=np.arange(1, 8))
    np.testing.assert_array_equal(p.parts.bag, np.zeros(7))
    np.testing.assert_array_equal(p.bag_variances, np.zeros((5, 7)))
    np.testing.assert_array_equal(p.at_size(3).var, p.var)
    np.testing.assert_array_equal(p.at_size(3).sizes, np.full(7, 3.0))


# ---------------------------------------------------------------- container


@pytest.mark.parametrize(
    ("index", "rows"),
    [(2, [2]), (-1, [6]), (slice(1, 3), [1, 2]), (np.arange(7) % 3 == 0, [0, 3, 6]), ([3, 0],) * 2],
)
def test_getitem(p, index, rows):
    part = p[index]
    assert isinstance(part, MixturePrediction)
    np.testing.assert_allclose(part.mean, p.mean[rows])
    np.testing.assert_array_equal(part.bag_variances, p.bag_variances[:, rows])
    np.testing.assert_allclose(part.interval(), p.interval()[rows], rtol=1e-10)
    np.testing.assert_array_equal(part.ids, p.ids[rows])
    np.testing.assert_array_equal(part.sizes, p.sizes[rows])
    assert (len(part), part.n_draws) == (len(rows), 5)


def test_no_bags(p):
    none = p[:0]
    assert repr(none) == "MixturePrediction(0 bags)"
    for values in (none.cdf(0.0), none.crps([]), none.log_prob([]), none.quantile(0.5)):
        assert values.shape == (0,)
    assert none.interval().shape == (0, 2)


def test_getitem_without_ids_or_sizes():
    part = random_points()[:2]
    assert part.ids is None
    assert part.sizes is None


def test_pickle(p):
    copy = pickle.loads(pickle.dumps(p))
    np.testing.assert_array_equal(copy.interval(), p.interval())
    np.testing.assert_array_equal(copy.at_size(3).var, p.at_size(3).var)


def test_repr_and_columns(p):
    assert repr(p).startswith("MixturePrediction(7 bags, mean ")
    columns = p.to_dict(0.5)
    np.testing.assert_array_equal(columns["lower"], p.quantile(0.25))
    np.testing.assert_array_equal(columns["size"], p.sizes)


def test_inputs_are_neither_kept_nor_changed():
    means, noise = np.zeros((2, 3)), np.ones(2)
    bag, bag_of = np.array([[0.0, 9.0], [0.0, 9.0]]), np.zeros(3, dtype=int)
    p = MixturePrediction(means, noise, sizes=None, bag=bag, bag_of=bag_of)
    for given in (means, noise, bag, bag_of):
        given += 1
    np.testing.assert_array_equal(p.mean, np.zeros(3))
    np.testing.assert_array_equal(p.components[1], np.ones((2, 3)))
    for values in (p.mean, p.components[0], p.bag_variances):
        with pytest.raises(ValueError, match="read-only"):
            values[0] = 3.0


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("means", [0.0, [0.0], [[np.nan]], [[np.inf]], np.zeros((0, 2))])
def test_means_must_be_draws_by_bags(means):
    with pytest.raises(BagwiseError, match=r"means has shape .*; expected a 2-D array \(draws"):
        MixturePrediction(means, [1.0], sizes=None)


def test_noise_must_be_a_variance_per_draw():
    with pytest.raises(BagwiseError, match=r"noise has shape \(1,\); expected \(2,\), one entry"):
        MixturePrediction(np.zeros((2, 3)), [1.0], sizes=None)
    with pytest.raises(BagwiseError, match=r"noise is .* expected finite and >= 0"):
        MixturePrediction(np.zeros((2, 3)), [1.0, -1.0], sizes=None)


@pytest.mark.parametrize(
    ("bag", "bag_of", "message"),
    [
        (np.ones((4, 7)), None, r"bag has shape \(4, 7\); expected \(5, 7\), a row per draw"),
        (np.ones((5, 3)), None, r"bag has shape \(5, 3\); expected \(5, 7\), a row per draw"),
        (np.ones((5, 9)), None, r"bag has shape \(5, 9\); expected \(5, 7\), a row per draw"),
        (np.ones(5), None, r"bag has shape \(5,\)"),
        (np.ones((4, 2)), np.zeros(7, int), r"bag has shape \(4, 2\); expected \(5, sizes\)"),
        (np.ones((5, 2)), np.zeros(3, int), r"bag_of has shape \(3,\); expected \(7,\)"),
        (np.ones((5, 2)), np.full(7, 2), r"bag_of is 2.*; expected places among the 2 sizes"),
        (np.ones((5, 2)), np.full(7, -1), r"bag_of is -1.*; expected places among the 2"),
        (np.ones((5, 2)), np.full(7, 0.5), r"bag_of is 0.5.*; expected places among the 2"),
        (-np.ones((5, 7)), None, r"the bag part is .* expected finite and >= 0"),
        (np.full((5, 7), np.nan), None, r"the bag part is .* expected finite and >= 0"),
    ],
)
def test_variances_by_the_bag_must_be_of_the_draws_and_sizes(bag, bag_of, message):
    with pytest.raises(BagwiseError, match=message):
        random_points(bag=bag, bag_of=bag_of)


def test_sizes_of_bags_need_their_variances():
    with pytest.raises(BagwiseError, match="bag_of came without bag"):
        random_points(bag_of=np.zeros(7, dtype=int))


@pytest.mark.parametrize("columns", [{"sizes": [1, 2]}, {"ids": ["a"]}])
def test_columns_must_have_one_entry_per_bag(columns):
    name = next(iter(columns))
    with pytest.raises(BagwiseError, match=rf"{name} has shape .*; expected \(7,\)"):
        random_points(**columns)


@pytest.mark.parametrize("q", [0.0, 1.0, [0.5, 1.2], [[0.5]], np.nan])
def test_q_must_be_probabilities(p, q):
    with pytest.raises(BagwiseError, match=r"q is .*; expected .*\(0, 1\)"):
        p.quantile(q)


def test_other_arguments_are_checked_as_for_one_gaussian(p):
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(6,\); expected \(7,\)"):
        p.log_prob(np.zeros(6))
    with pytest.raises(InvalidLabelsError, match=r"y is nan at row 2 \(1 such"):
        p.crps([0, 0, np.nan, 0, 0, 0, 0])
    with pytest.raises(BagwiseError, match=r"n_points is .*; expected a number > 0 or an array"):
        p.at_size(0)
    with pytest.raises(BagwiseError, match="size is 0"):
        p.sample(0)
    with pytest.raises(BagwiseError, match="level is 2"):
        p.interval(2)
