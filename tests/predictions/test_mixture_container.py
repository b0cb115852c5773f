"""MixturePrediction as a container: blocks, sizes, slices, copies and errors."""

import pickle

import jaxtyping
import numpy as np
import pytest

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions import mixture
from bagwise.predictions.mixture import MixturePrediction, SizeCurves
from mixtures import random_curves, random_mixture

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
        expected = p.curves.variance(np.broadcast_to(sizes, 7))
        np.testing.assert_array_equal(other.bag_variances, expected)
        np.testing.assert_array_equal(other.components[0], p.components[0])
        np.testing.assert_allclose(other.parts.weights, p.parts.weights)
        np.testing.assert_allclose(other.parts.noise, p.parts.noise)
        np.testing.assert_array_equal(other.sizes, np.broadcast_to(sizes, 7))
        np.testing.assert_array_equal(other.ids, p.ids)
    np.testing.assert_allclose(p.at_size(p.sizes).var, p.var)
    assert np.all(p.at_size(1000).std < p.std)


def test_without_curves_size_is_ignored():
    p = random_mixture(curves=None)
    np.testing.assert_array_equal(p.parts.bag, np.zeros(7))
    np.testing.assert_array_equal(p.bag_variances, np.zeros((5, 7)))
    np.testing.assert_array_equal(p.at_size(3).var, p.var)
    np.testing.assert_array_equal(p.at_size(3).sizes, np.full(7, 3.0))
    assert p.curves is None
    assert p.size_curve is None


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
    part = random_mixture(curves=None, sizes=None, ids=None)[:2]
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
    p = MixturePrediction(means, noise, sizes=None)
    means += 1
    noise += 1
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


def test_curves_must_match_the_draws_and_have_sizes():
    with pytest.raises(BagwiseError, match="curves is of 4 draws; expected 5"):
        random_mixture(curves=random_curves(4))
    with pytest.raises(BagwiseError, match="curves came without sizes"):
        random_mixture(sizes=None)
    with pytest.raises(BagwiseError, match=r"sizes has shape \(2,\); expected \(7,\)"):
        random_mixture(sizes=[1, 2])
    with pytest.raises(BagwiseError, match=r"sizes are .*numbers of points"):
        random_mixture(sizes=[1, 2, 3, 4, 5, 6, -1])


@pytest.mark.parametrize("columns", [{"sizes": [1, 2]}, {"ids": ["a"]}])
def test_columns_must_have_one_entry_per_bag(columns):
    name = next(iter(columns))
    with pytest.raises(BagwiseError, match=rf"{name} has shape .*; expected \(7,\)"):
        random_mixture(**({"curves": None} | columns))


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


def test_curves_must_be_variances(monkeypatch):
    with pytest.raises(BagwiseError, match="the loadings of SizeCurves"):
        SizeCurves(np.array([[-1.0]]), np.ones((1, 1)))
    with pytest.raises(BagwiseError, match="the spectrum of SizeCurves"):
        SizeCurves(np.ones((1, 1)), np.array([[np.nan]]))
    # What users see, who run without the shape checks of this test suite.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(BagwiseError, match=r"loadings and spectrum have shapes \(2, 1\) and \(1, "):
        SizeCurves(np.ones((2, 1)), np.ones((1, 1)))
