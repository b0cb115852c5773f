"""ClassPrediction against sums over the draws, numerical integration and simulation."""

import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import integrate, stats

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.likelihoods import Logistic, Probit
from bagwise.predictions.classes import ClassPrediction
from bagwise.predictions.mixture import MixturePrediction
from sized import Sized

CLASSES = np.array(["no", "yes"])


def of_means(means, likelihood=None, classes=CLASSES, **options):
    """Prediction of bags without variance of their own; means (s, n)."""
    means = np.atleast_2d(np.asarray(means, dtype=float))
    latent = MixturePrediction(means, np.zeros(len(means)), **({"sizes": None} | options))
    return ClassPrediction(latent, likelihood or Probit(), classes)


@pytest.fixture
def sized():
    """Prediction of 4 bags by 7 draws, with bag variance under each."""
    rng = np.random.default_rng(0)
    known = Sized(
        rng.uniform(0.5, 2.0, (7, 3)), rng.uniform(0.05, 1.0, 3), rng.uniform(0.5, 2.0, 7)
    )
    sizes, ids = np.array([1, 5, 5, 1000]), np.array(["a", "b", "c", "d"])
    means = np.array([0.5, 1.0, -0.4, 2.0]) + 0.3 * rng.normal(size=(7, 4))
    return known.classify(sizes, means, classes=CLASSES, ids=ids)


# ---------------------------------------------------------------- probabilities


def test_probability_is_the_integral_of_the_link_over_the_latent_mixture(sized):
    means, variances = sized.latent.components

    def integral(bag):
        def integrand(f):
            density = stats.norm.pdf(f, means[:, bag], np.sqrt(variances[:, bag])).mean()
            return stats.norm.cdf(f) * density

        return integrate.quad(integrand, -15, 15, epsabs=1e-11, limit=200)[0]

    np.testing.assert_allclose(sized.probability, [integral(bag) for bag in range(4)], atol=1e-9)


def test_probability_of_points_is_the_mean_sigmoid():
    p = of_means([[0.0, 3.0], [1.0, -3.0]], Logistic())
    expected = stats.logistic.cdf([[0.0, 3.0], [1.0, -3.0]]).mean(axis=0)
    np.testing.assert_allclose(p.probability, expected, rtol=1e-14)


def test_classes_drawn_through_the_latent_value_are_as_frequent(sized):
    rng = np.random.default_rng(1)
    latent = sized.latent.sample(200_000, rng)
    drawn = latent + rng.normal(size=latent.shape) > 0
    np.testing.assert_allclose(drawn.mean(axis=0), sized.probability, atol=4 * 0.5 / 200_000**0.5)


def test_proba_has_a_column_per_class(sized):
    assert sized.proba.shape == (4, 2)
    np.testing.assert_array_equal(sized.proba[:, 1], sized.probability)
    np.testing.assert_allclose(sized.proba.sum(axis=1), 1.0, rtol=1e-14)
    assert sized.classes.tolist() == ["no", "yes"]


def test_predicted_is_the_most_probable_class_and_the_second_in_a_tie():
    p = of_means([[-1.0, 0.0, 1.0]])
    assert p.predicted.tolist() == ["no", "yes", "yes"]
    assert of_means([[-1.0, 1.0]], classes=[3, 8]).predicted.tolist() == [3, 8]


def test_parts_are_those_of_the_latent_value(sized):
    means, variances = sized.latent.components
    np.testing.assert_allclose(sized.parts.bag, variances.mean(axis=0))
    np.testing.assert_allclose(sized.parts.weights, means.var(axis=0))
    np.testing.assert_array_equal(sized.parts.noise, 0.0)


# ---------------------------------------------------------------- log_prob


def test_log_prob_is_the_log_of_the_column_of_the_label(sized):
    y = ["yes", "no", "no", "yes"]
    np.testing.assert_allclose(sized.log_prob(y), np.log(sized.proba[range(4), [1, 0, 0, 1]]))


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
def test_log_prob_keeps_small_probabilities(likelihood):
    """Check both classes far out, where 1 - p rounds to zero."""
    f = np.array([-30.0, -9.0, 9.0, 30.0])
    log_cdf = stats.norm.logcdf if isinstance(likelihood, Probit) else stats.logistic.logcdf
    p = of_means(f, likelihood)
    np.testing.assert_allclose(p.log_prob(["yes"] * 4), log_cdf(f), rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(p.log_prob(["no"] * 4), log_cdf(-f), rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
def test_log_prob_is_finite_however_wrong(likelihood):
    p = of_means([-1e8, 1e8], likelihood)
    np.testing.assert_allclose(p.log_prob(["yes", "no"]), -744.44, atol=0.01)
    np.testing.assert_array_equal(p.log_prob(["no", "yes"]), 0.0)


@pytest.mark.parametrize(
    ("classes", "y"),
    [
        ([0, 1], [0, 1]),
        ([0, 1], [0.0, 1.0]),
        ([0, 1], [False, True]),
        ([False, True], np.array([0, 1], dtype=np.int8)),
        ([-1.0, 1.0], [-1, 1]),
        (["no", "yes"], np.array(["no", "yes"], dtype=object)),
        (["no", "yes"], pd.Series(["no", "yes"], dtype="category")),
        (np.array(["no", "yes"], dtype=object), ["no", "yes"]),
        ([0, 1], pd.Series([0, 1], dtype="Int64")),
    ],
)
def test_labels_of_any_type(classes, y):
    p = of_means([-1.0, 1.0], classes=classes)
    np.testing.assert_allclose(p.log_prob(y), stats.norm.logcdf([1.0, 1.0]))


@pytest.mark.parametrize(
    ("classes", "y", "message"),
    [
        (["no", "yes"], ["no", "maybe", "?"], "y is 'maybe' at row 1; expected 'no' or 'yes'"),
        (["no", "yes"], [0, 1, 0], "y is 0 at row 0; expected 'no' or 'yes'"),
        ([0, 1], [0.0, 1.0, np.nan], "y is nan at row 2; expected 0 or 1"),
        ([0, 1], ["0", "1", "0"], "y is '0' at row 0; expected 0 or 1"),
        ([0, 1], [0, None, 1], "y is None at row 1"),
        ([0, 1], pd.Series([0, pd.NA, 1], dtype="Int64"), "y is nan at row 1"),
        ([0, 1], pd.Series([0, pd.NA, 1], dtype=object), "y is <NA> at row 1"),
        ([0, 1], [0, 1], r"y has shape \(2,\); expected \(3,\), one label per bag"),
        ([0, 1], [[0], [1], [0]], r"y has shape \(3, 1\)"),
    ],
)
def test_labels_that_are_no_classes(classes, y, message):
    with pytest.raises(InvalidLabelsError, match=message):
        of_means([-1.0, 1.0, 0.0], classes=classes).log_prob(y)


# ---------------------------------------------------------------- interval


def test_interval_holds_the_probability_of_known_bags_and_regression(sized):
    """Check against draws of link(latent value)."""
    known = stats.norm.cdf(sized.latent.sample(200_000, 2))
    lower, upper = sized.interval(0.9).T
    standard_error = np.sqrt(0.05 * 0.95 / 200_000)
    np.testing.assert_allclose((known < lower).mean(axis=0), 0.05, atol=4 * standard_error)
    np.testing.assert_allclose((known > upper).mean(axis=0), 0.05, atol=4 * standard_error)


def test_interval_is_wider_at_a_higher_level_and_within_zero_and_one(sized):
    narrow, wide = sized.interval(0.5), sized.interval(0.99)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    assert ((wide >= 0) & (wide <= 1)).all()


@pytest.mark.parametrize("likelihood", [Probit(), Logistic()], ids=lambda one: one.name)
def test_interval_is_a_point_if_nothing_is_unknown(likelihood):
    p = of_means([-1.0, 0.3], likelihood)
    expected = np.stack([p.probability, p.probability], axis=1)
    np.testing.assert_allclose(p.interval(), expected, rtol=1e-14)


def test_interval_refuses_a_level_that_is_none(sized):
    with pytest.raises(BagwiseError, match="level is 95"):
        sized.interval(95)


# ---------------------------------------------------------------- sizes, rows, tables


def test_at_size_changes_the_bag_variance_alone(sized):
    large, small = sized.at_size(10**9), sized.at_size(1)
    means = sized.latent.components[0]
    np.testing.assert_allclose(large.probability, stats.norm.cdf(means).mean(axis=0), atol=1e-8)
    np.testing.assert_array_equal(small.parts.weights, sized.parts.weights)
    assert small.probability[0] == sized.probability[0]
    assert (small.parts.bag >= sized.parts.bag).all()
    np.testing.assert_array_equal(small.sizes, 1)
    assert small.classes.tolist() == ["no", "yes"]
    assert small.ids.tolist() == ["a", "b", "c", "d"]


def test_a_larger_bag_is_farther_from_one_half(sized):
    small, large = sized.at_size(2)[3], sized.at_size(50)[3]
    assert 0.5 < small.probability[0] < large.probability[0]
    assert np.diff(large.interval()) < np.diff(small.interval())


@pytest.mark.parametrize("index", [1, slice(1, 3), [True, False, True, False], [3, 0]])
def test_selection(sized, index):
    rows, part = np.atleast_1d(np.arange(4)[index]), sized[index]
    assert len(part) == rows.size
    np.testing.assert_array_equal(part.probability, sized.probability[rows])
    np.testing.assert_array_equal(part.sizes, sized.sizes[rows])
    np.testing.assert_array_equal(part.ids, sized.ids[rows])
    np.testing.assert_allclose(part.interval(), sized.interval()[rows], rtol=1e-9)


def test_no_bags(sized):
    none = sized[:0]
    assert len(none) == none.log_prob([]).size == none.predicted.size == 0
    assert none.interval().shape == none.proba.shape == (0, 2)


def test_table(sized):
    table = sized.to_dict(0.8)
    names = "id size predicted probability lower upper bag_sd weights_sd".split()
    assert list(table) == names
    assert list(pd.DataFrame(table).columns) == names
    np.testing.assert_array_equal(np.c_[table["lower"], table["upper"]], sized.interval(0.8))
    np.testing.assert_allclose(table["bag_sd"] ** 2, sized.parts.bag)
    np.testing.assert_allclose(table["weights_sd"] ** 2, sized.parts.weights)
    assert table["predicted"].tolist() == sized.predicted.tolist()


def test_table_without_ids_and_sizes():
    p = of_means([-1.0, 1.0])
    assert p.sizes is None
    assert p.ids is None
    table = p.to_dict()
    assert "size" not in table
    assert table["id"].tolist() == [0, 1]


def test_text():
    p = of_means([0.0, 1.0])
    assert repr(p) == "ClassPrediction(2 bags, probability of 'yes' 0.5 to 0.8413)"
    assert repr(p[0]) == "ClassPrediction(1 bag, probability of 'yes' 0.5 to 0.5)"
    assert repr(p[:0]) == "ClassPrediction(0 bags)"


def test_pickle(sized):
    copy = pickle.loads(pickle.dumps(sized))
    np.testing.assert_array_equal(copy.proba, sized.proba)
    np.testing.assert_array_equal(copy.interval(), sized.interval())
    assert copy.log_prob(["no"] * 4).tolist() == sized.log_prob(["no"] * 4).tolist()


def test_arrays_cannot_be_changed(sized):
    for array in (sized.proba, sized.probability, sized.classes):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]
    given = np.array([0, 1])
    p = of_means([1.0], classes=given)
    given[1] = 9
    assert p.classes.tolist() == [0, 1]


def test_errors_of_the_constructor():
    noisy = MixturePrediction(np.zeros((2, 1)), np.array([0.0, 3.0]), sizes=None)
    with pytest.raises(BagwiseError, match=r"noise of variance up to 1\.5; expected no noise"):
        ClassPrediction(noisy, Probit(), CLASSES)
    with pytest.raises(BagwiseError, match=r"classes are \['a'\]; expected two different labels"):
        of_means([0.0], classes=["a"])
    with pytest.raises(BagwiseError, match=r"classes are \[1 1\]"):
        of_means([0.0], classes=[1, 1])
