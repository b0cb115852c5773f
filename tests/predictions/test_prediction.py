"""Prediction against scipy.stats.norm, numerical integration and limits."""

import pickle

import jaxtyping
import numpy as np
import pytest
from scipy import integrate, stats

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions.gaussian import Prediction, VarianceParts
from sized import Sized


def random_prediction(n_bags=7, seed=0, **options):
    rng = np.random.default_rng(seed)
    parts = VarianceParts(*rng.uniform(0.1, 2.0, (3, n_bags)))
    return Prediction(rng.normal(size=n_bags), parts, **options)


KNOWN = Sized.one([0.5, 2.0, 1.0], [3.0, 0.2, 0.0], floor=0.1)


def sized_prediction(gaps=None):
    sizes, ids = np.array([1, 5, 5, 1000]), np.array(["a", "b", "c", "d"])
    means = np.arange(4.0)[None]
    return KNOWN.predict(sizes, means, ids=ids, noise=[0.3], weights_var=0.2, gaps=gaps)


@pytest.fixture
def sized():
    return sized_prediction()


# ---------------------------------------------------------------- distribution


def test_parts_add_up():
    p = random_prediction()
    np.testing.assert_allclose(p.var, p.parts.bag + p.parts.weights + p.parts.noise)
    np.testing.assert_allclose(p.std**2, sum(p.parts.to_dict().values()))


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.999])
def test_interval_is_scipys(level):
    p = random_prediction()
    expected = np.stack(stats.norm(p.mean, p.std).interval(level), axis=1)
    np.testing.assert_allclose(p.interval(level), expected, rtol=1e-12)


def test_quantile_shapes_and_values():
    p = random_prediction()
    q = np.array([0.025, 0.5, 0.7])
    assert p.quantile(0.5).shape == (7,)
    np.testing.assert_allclose(p.quantile(0.5), p.mean)
    expected = stats.norm.ppf(q, loc=p.mean[:, None], scale=p.std[:, None])
    np.testing.assert_allclose(p.quantile(q), expected, rtol=1e-12)


def test_cdf_and_log_prob_are_scipys():
    p = random_prediction()
    y = np.linspace(-4, 4, 7)
    norm = stats.norm(p.mean, p.std)
    np.testing.assert_allclose(p.cdf(y), norm.cdf(y), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(0.3), norm.cdf(0.3), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(y), norm.logpdf(y), rtol=1e-12)


@pytest.mark.parametrize("y", [-6.0, -0.4, 0.0, 2.5, 30.0])
def test_crps_is_the_integral(y):
    p = random_prediction(1, seed=3)
    norm = stats.norm(p.mean[0], p.std[0])
    below = integrate.quad(lambda t: norm.cdf(t) ** 2, min(y, -10) - 20, y, limit=200)[0]
    above = integrate.quad(lambda t: norm.sf(t) ** 2, y, max(y, 10) + 20, limit=200)[0]
    np.testing.assert_allclose(p.crps([y]), below + above, rtol=1e-7)


def test_zero_variance_is_a_point_mass():
    p = Prediction([1.0, 2.0], VarianceParts.broadcast(2))
    np.testing.assert_array_equal(p.cdf([0.9, 2.0]), [0.0, 1.0])
    np.testing.assert_array_equal(p.crps([0.0, 5.0]), [1.0, 3.0])
    np.testing.assert_array_equal(p.interval(), [[1.0, 1.0], [2.0, 2.0]])
    with pytest.raises(BagwiseError, match=r"bag 0 has zero variance.*noise part > 0"):
        p.log_prob([1.0, 2.0])


def test_log_prob_names_the_bag_without_variance():
    parts = VarianceParts.broadcast(2, noise=np.array([1.0, 0.0]))
    p = Prediction([1.0, 2.0], parts, ids=["ann", "bob"])
    with pytest.raises(BagwiseError, match=r"bag bob \(row 1\)"):
        p.log_prob([1.0, 2.0])


def test_sample_has_the_moments():
    p = random_prediction()
    draws = p.sample(200_000, random_state=1)
    assert draws.shape == (200_000, 7)
    assert draws.dtype == np.float64
    standard_error = p.std / np.sqrt(200_000)
    assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 5 * standard_error)
    np.testing.assert_allclose(draws.std(axis=0), p.std, rtol=0.01)


def test_sample_is_reproducible_from_every_kind_of_state():
    p = random_prediction()
    np.testing.assert_array_equal(p.sample(3, 5), p.sample(3, np.random.default_rng(5)))
    legacy = [p.sample(2, np.random.RandomState(5)) for _ in range(2)]
    np.testing.assert_array_equal(*legacy)
    assert p.sample().shape == (1, 7)


# ---------------------------------------------------------------- size


def test_bag_part_is_a_posterior_variance(sized):
    np.testing.assert_allclose(sized.parts.bag, KNOWN.variance(sized.sizes)[0], rtol=1e-12)


def test_bag_part_by_size_and_its_limits(sized):
    one = sized[0]
    sizes = [1e-9, 1.0, 10.0, 100.0, np.inf]
    variance = np.array([one.at_size(size).parts.bag[0] for size in sizes])
    assert np.all(np.diff(variance) < 0)
    assert variance[0] == pytest.approx(0.1 + 0.5 * 3.0 + 2.0 * 0.2)  # as good as no points
    assert variance[-1] == pytest.approx(0.1, abs=1e-15)  # what landmarks do not see
    # For many points, 1/n for every direction that there is.
    assert one.at_size(1e9).parts.bag[0] - 0.1 == pytest.approx((0.5 + 2.0) / 1e9, rel=1e-6)


def test_at_size_replaces_only_the_bag_part(sized):
    for sizes in (10, np.array([2, 3, 4, 5])):
        other = sized.at_size(sizes)
        np.testing.assert_array_equal(other.mean, sized.mean)
        np.testing.assert_array_equal(other.parts.noise, sized.parts.noise)
        np.testing.assert_array_equal(other.parts.weights, sized.parts.weights)
        expected = KNOWN.variance(np.broadcast_to(sizes, 4))[0]
        np.testing.assert_allclose(other.parts.bag, expected, rtol=1e-12)
        np.testing.assert_array_equal(other.sizes, np.broadcast_to(sizes, 4))
        np.testing.assert_array_equal(other.ids, sized.ids)


def test_at_size_limits(sized):
    np.testing.assert_allclose(sized.at_size(sized.sizes).var, sized.var)
    np.testing.assert_allclose(sized.at_size(np.inf).var, 0.1 + 0.2 + 0.3)
    assert np.all(sized.at_size(2000).std < sized.std)


def test_at_size_starts_from_the_bag_whatever_was_asked_before(sized):
    direct, round_about = sized.at_size(7), sized.at_size(np.inf).at_size(2).at_size(7)
    np.testing.assert_array_equal(round_about.var, direct.var)
    np.testing.assert_array_equal(round_about.at_size(sized.sizes).var, sized.var)


def test_means_are_shrunk_by_the_points_there_are_and_stay_at_any_size():
    sized = sized_prediction(np.outer([0.0, 1.0, 2.0, 2.0], np.ones(3)))
    # (1 − κ)√loadings·gaps, of 5, 5 and 1000 points; the third direction is not there
    kept = np.array([[n * v / (1 + n * v) for v in (3.0, 0.2)] for n in (5, 5, 1000)])
    pulled = kept @ np.sqrt([0.5, 2.0]) * [1.0, 2.0, 2.0]
    np.testing.assert_allclose(sized.mean, np.arange(4.0) + np.r_[0.0, pulled], rtol=1e-12)
    for sizes in (1, 10**6, np.inf):
        np.testing.assert_array_equal(sized.at_size(sizes).mean, sized.mean)


def test_at_size_without_a_query_changes_nothing():
    p = random_prediction()
    np.testing.assert_array_equal(p.at_size(3).var, p.var)


def test_tower_property_by_simulation():
    """The mean after more points averages to today's mean, and variance splits accordingly."""
    rng = np.random.default_rng(0)
    prior, n = 2.0, 4
    truth = rng.normal(0, np.sqrt(prior), 400_000)
    observed = truth + rng.normal(0, np.sqrt(1 / n), truth.size)
    known = Sized.one([1.0], [prior])
    later = known.predict(np.full(1000, n), np.zeros((1, 1000)), gaps=observed[:1000, None])
    later_mean = observed * prior / (prior + 1 / n)
    np.testing.assert_allclose(later.mean, later_mean[:1000], rtol=1e-12)
    assert abs(later_mean.mean()) < 0.01
    assert np.var(truth - later_mean) == pytest.approx(later.parts.bag[0], rel=0.01)


# ---------------------------------------------------------------- container


@pytest.mark.parametrize(
    ("index", "rows"),
    [
        (2, [2]),
        (-1, [3]),
        (slice(1, 3), [1, 2]),
        (np.array([True, False, False, True]), [0, 3]),
        ([3, 0], [3, 0]),
    ],
)
def test_getitem(sized, index, rows):
    part = sized[index]
    np.testing.assert_array_equal(part.mean, sized.mean[rows])
    np.testing.assert_array_equal(part.var, sized.var[rows])
    np.testing.assert_array_equal(part.ids, sized.ids[rows])
    np.testing.assert_array_equal(part.sizes, sized.sizes[rows])
    np.testing.assert_array_equal(part.at_size(3).var, sized.at_size(3).var[rows])
    assert len(part) == len(rows)


def test_iteration_ends(sized):
    assert [float(one.mean[0]) for one in sized] == [0.0, 1.0, 2.0, 3.0]


def test_getitem_without_ids_or_sizes():
    part = random_prediction()[:2]
    assert part.ids is None
    assert part.sizes is None


def test_pickle(sized):
    copy = pickle.loads(pickle.dumps(sized))
    np.testing.assert_array_equal(copy.mean, sized.mean)
    np.testing.assert_array_equal(copy.at_size(3).var, sized.at_size(3).var)


def test_to_dict(sized):
    columns = sized.to_dict(level=0.5)
    assert list(columns) == [
        "id", "size", "mean", "std", "lower", "upper", "bag_sd", "weights_sd", "noise_sd",
    ]  # fmt: skip
    np.testing.assert_allclose(
        columns["bag_sd"] ** 2 + columns["weights_sd"] ** 2 + columns["noise_sd"] ** 2, sized.var
    )
    np.testing.assert_allclose(columns["upper"] - columns["lower"], 2 * 0.67448975 * sized.std)
    plain = random_prediction().to_dict()
    assert "size" not in plain
    np.testing.assert_array_equal(plain["id"], np.arange(7))


def test_repr(sized):
    assert repr(sized).startswith("Prediction(4 bags, mean 0 to 3, std 0.77")
    assert repr(sized[0]).startswith("Prediction(1 bag, ")
    assert repr(sized[:0]) == "Prediction(0 bags)"


def test_inputs_are_neither_kept_nor_changed():
    mean, noise = np.zeros(2), np.ones(2)
    p = Prediction(mean, VarianceParts.broadcast(2, noise=noise))
    mean += 1
    noise += 1
    np.testing.assert_array_equal(p.mean, [0, 0])
    np.testing.assert_array_equal(p.var, [1, 1])
    with pytest.raises(ValueError, match="read-only"):
        p.mean[0] = 3.0


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize("level", [0.0, 1.0, 95, -0.1, np.nan])
def test_level_must_be_a_probability(level):
    with pytest.raises(BagwiseError, match=r"level is .*; expected .* between 0 and 1.*0\.95"):
        random_prediction().interval(level)


@pytest.mark.parametrize("q", [0.0, 1.0, [0.5, 1.2], [[0.5]], np.nan])
def test_q_must_be_probabilities(q):
    with pytest.raises(BagwiseError, match=r"q is .*; expected .*\(0, 1\)"):
        random_prediction().quantile(q)


def test_labels_must_match():
    p = random_prediction()
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(6,\); expected \(7,\)"):
        p.log_prob(np.zeros(6))
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(\)"):
        p.log_prob(0.0)
    with pytest.raises(InvalidLabelsError, match=r"y is nan at row 2 \(1 such"):
        p.crps([0, 0, np.nan, 0, 0, 0, 0])


@pytest.mark.parametrize("n_points", [0, -1, np.nan, [1, 2], np.ones((7, 1))])
def test_n_points_must_be_positive(n_points):
    with pytest.raises(BagwiseError, match=r"n_points is .*; expected a number > 0 or an array"):
        random_prediction().at_size(n_points)


def test_sample_size_must_be_positive():
    with pytest.raises(BagwiseError, match="size is 0"):
        random_prediction().sample(0)


@pytest.mark.parametrize("mean", [0.0, [[0.0]], [np.nan], [np.inf]])
def test_mean_must_be_finite(mean):
    with pytest.raises(BagwiseError, match="1-D array of finite numbers"):
        Prediction(mean, VarianceParts.broadcast(1, noise=1.0))


@pytest.mark.parametrize("columns", [{"sizes": [1, 2]}, {"ids": ["a"]}])
def test_columns_must_have_one_entry_per_bag(columns):
    name = next(iter(columns))
    with pytest.raises(BagwiseError, match=rf"{name} has shape .*; expected \(7,\)"):
        random_prediction(**columns)


def test_parts_must_match_the_mean():
    with pytest.raises(BagwiseError, match=r"parts has shape \(3,\); expected \(2,\)"):
        Prediction(np.zeros(2), VarianceParts.broadcast(3, noise=1.0))


@pytest.mark.parametrize("value", [-1e-12, np.nan, np.inf])
def test_variances_must_not_be_negative(value):
    with pytest.raises(BagwiseError, match=r"the weights part is .* expected finite and >= 0"):
        VarianceParts.broadcast(2, weights=value)


def test_shapes_must_agree(monkeypatch):
    """What users see, who run without the shape checks of this test suite."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(BagwiseError, match=r"the bag part has shape \(\).*broadcast"):
        VarianceParts(np.array(1.0), np.ones(2), np.ones(2))
    with pytest.raises(BagwiseError, match="lengths bag 1, weights 2, noise 2"):
        VarianceParts(np.ones(1), np.ones(2), np.ones(2))
