"""MixturePrediction against scipy.stats, numerical integration, simulation and one Gaussian."""

import pickle

import jaxtyping
import numpy as np
import pytest
from scipy import integrate, stats

from bagwise import mixture, variance_parts
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.mixture import MixturePrediction, SizeCurves
from bagwise.prediction import Prediction, SizeCurve, VarianceParts

QS = np.array([1e-12, 1e-6, 0.025, 0.3, 0.5, 0.7, 0.975, 1 - 1e-6])


def random_curves(n_draws=5, d=3, seed=0):
    rng = np.random.default_rng(seed)
    spectrum = rng.gamma(1.0, size=(n_draws, d))
    spectrum[:, -1] = 0.0  # a direction that is not there
    return SizeCurves(rng.gamma(1.0, size=(n_draws, d)), spectrum)


def random_mixture(n_draws=5, n_bags=7, seed=0, spread=1.0, **options):
    rng = np.random.default_rng(seed)
    options = {
        "sizes": rng.integers(1, 30, n_bags),
        "curves": random_curves(n_draws, seed=seed),
        "ids": [f"b{i}" for i in range(n_bags)],
    } | options
    means = rng.normal(size=n_bags) + spread * rng.normal(size=(n_draws, n_bags))
    return MixturePrediction(means, rng.uniform(0.2, 1.0, n_draws), **options)


def simple(means, std):
    """One bag whose components have these means and standard deviations."""
    noise = np.broadcast_to(np.square(std), np.shape(means))
    return MixturePrediction(np.array(means, dtype=float)[:, None], noise, sizes=None)


def scipy_norm(p):
    means, variances = p.components
    return stats.norm(means, np.sqrt(variances))


def closed_crps(p, y):
    """Grimit et al. (2006): mean_a A(y - m_a, v_a) - mean_ab A(m_a - m_b, v_a + v_b) / 2."""
    means, variances = p.components

    def absolute(m, v):
        t = m / np.sqrt(v)
        return 2 * np.sqrt(v) * stats.norm.pdf(t) + m * (2 * stats.norm.cdf(t) - 1)

    first = absolute(y - means, variances).mean(axis=0)
    pairs = absolute(means[:, None] - means[None], variances[:, None] + variances[None])
    return first - 0.5 * pairs.mean(axis=(0, 1))


@pytest.fixture
def p():
    return random_mixture()


# ---------------------------------------------------------------- size curves


def test_each_curve_is_a_size_curve():
    curves, sizes = random_curves(), np.array([0, 1, 3, 3, 100, np.inf])
    each = [
        SizeCurve(loadings, spectrum).variance(sizes)
        for loadings, spectrum in zip(curves.loadings, curves.spectrum, strict=True)
    ]
    np.testing.assert_allclose(curves.variance(sizes), each, rtol=1e-13)
    np.testing.assert_array_equal(curves.variance([np.inf]), np.zeros((5, 1)))
    assert len(curves) == 5


def test_scaled_curves():
    curves = random_curves()
    np.testing.assert_allclose(curves.scaled(4.0).variance([2]), 4.0 * curves.variance([2]))


def test_curve_blocks_do_not_matter(monkeypatch):
    curves, sizes = random_curves(50), np.arange(20)
    whole = curves.variance(sizes)
    monkeypatch.setattr(variance_parts, "BLOCK_ELEMENTS", 7)
    np.testing.assert_array_equal(curves.variance(sizes), whole)


def test_curves_keep_copies():
    loadings = np.ones((2, 1))
    curves = SizeCurves(loadings, np.ones((2, 1)))
    loadings += 1
    np.testing.assert_array_equal(curves.loadings, np.ones((2, 1)))
    with pytest.raises(ValueError, match="read-only"):
        curves.spectrum[0] = 3.0


# ---------------------------------------------------------------- moments


def test_parts_are_the_law_of_total_variance(p):
    means, variances = p.components
    np.testing.assert_allclose(p.mean, means.mean(axis=0))
    second = (means**2 + variances).mean(axis=0)  # E y^2, without the law
    np.testing.assert_allclose(p.var, second - p.mean**2, rtol=1e-12)
    np.testing.assert_allclose(p.parts.bag, p.bag_variances.mean(axis=0))
    np.testing.assert_allclose(p.parts.bag + p.parts.noise, variances.mean(axis=0))


def test_sample_has_the_moments_and_the_distribution(p):
    draws = p.sample(200_000, random_state=1)
    assert draws.shape == (200_000, 7)
    assert np.all(np.abs(draws.mean(axis=0) - p.mean) < 5 * p.std / np.sqrt(200_000))
    np.testing.assert_allclose(draws.var(axis=0), p.var, rtol=0.02)
    np.testing.assert_allclose((draws <= p.quantile(0.2)).mean(axis=0), 0.2, atol=0.005)


def test_bags_of_one_sample_share_the_posterior_draw():
    p = MixturePrediction([[-5.0, 5.0], [5.0, -5.0]], [0.01, 0.01], sizes=None)
    draws = p.sample(500, random_state=0)
    assert set(np.sign(draws[:, 0])) == {-1.0, 1.0}
    np.testing.assert_array_equal(np.sign(draws[:, 0]), -np.sign(draws[:, 1]))


def test_sample_is_reproducible_from_every_kind_of_state(p):
    np.testing.assert_array_equal(p.sample(3, 5), p.sample(3, np.random.default_rng(5)))
    np.testing.assert_array_equal(*[p.sample(2, np.random.RandomState(5)) for _ in range(2)])
    assert p.sample().shape == (1, 7)


# ---------------------------------------------------------------- distribution


def test_cdf_and_log_prob_are_averages(p):
    y = np.linspace(-4, 4, 7)
    norm = scipy_norm(p)
    np.testing.assert_allclose(p.cdf(y), norm.cdf(y).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(p.cdf(0.3), norm.cdf(0.3).mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(p.log_prob(y), np.log(norm.pdf(y).mean(axis=0)), rtol=1e-12)


def test_log_prob_far_out_is_that_of_the_nearest_component():
    p = simple([0.0, 100.0], 1.0)
    expected = stats.norm(100, 1).logpdf(1000.0) - np.log(2)
    np.testing.assert_allclose(p.log_prob([1000.0]), expected, rtol=1e-12)


def test_density_integrates_to_the_cdf(p):
    one = p[0]
    mass = integrate.quad(lambda t: np.exp(one.log_prob([t])[0]), -30, 0.4, limit=200)[0]
    np.testing.assert_allclose(one.cdf(0.4), mass, rtol=1e-8)


def test_one_draw_is_the_gaussian():
    sizes, y = np.array([1, 4, 30]), np.array([0.2, -3.0, 9.0])
    p = random_mixture(1, 3, sizes=sizes, ids=None)
    curve = SizeCurve(p.curves.loadings[0], p.curves.spectrum[0])
    parts = VarianceParts.broadcast(3, bag=curve.variance(sizes), noise=p.parts.noise)
    gauss = Prediction(p.components[0][0], parts, sizes=sizes, size_curve=curve)
    for method in ("cdf", "log_prob", "crps"):
        np.testing.assert_allclose(getattr(p, method)(y), getattr(gauss, method)(y), rtol=1e-11)
    np.testing.assert_allclose(p.quantile(QS), gauss.quantile(QS), rtol=1e-11)
    np.testing.assert_allclose(p.at_size(3).interval(), gauss.at_size(3).interval(), rtol=1e-12)
    for name, column in gauss.to_dict().items():
        np.testing.assert_allclose(p.to_dict()[name], column, rtol=1e-12)


def test_equal_draws_are_the_gaussian():
    p = simple(np.full(100, 2.0), 3.0)
    gauss = Prediction([2.0], VarianceParts.broadcast(1, noise=9.0))
    np.testing.assert_allclose(p.crps([4.0]), gauss.crps([4.0]), rtol=1e-9)
    np.testing.assert_allclose(p.quantile(QS), gauss.quantile(QS), rtol=1e-12)


# ---------------------------------------------------------------- quantiles


@pytest.mark.parametrize("spread", [0.0, 0.3, 3.0, 300.0])
@pytest.mark.parametrize("n_draws", [2, 5, 200])
def test_quantile_inverts_the_cdf(n_draws, spread):
    p = random_mixture(n_draws, 20, spread=spread)
    values = p.quantile(QS)
    assert values.shape == (20, len(QS))
    assert np.all(np.diff(values, axis=1) > 0)
    for q, column in zip(QS, values.T, strict=True):
        np.testing.assert_allclose(p.cdf(column), q, rtol=1e-11)
        np.testing.assert_array_equal(p.quantile(q), column)


def test_quantile_in_the_upper_tail_mirrors_the_lower():
    p = random_mixture(30, 5)
    mirrored = MixturePrediction(
        -p.components[0], p._noise, sizes=p.sizes, curves=p.curves, ids=p.ids
    )
    tails = 2.0 ** -np.arange(1, 50)  # of which 1 - q is exact
    np.testing.assert_allclose(p.quantile(1 - tails), -mirrored.quantile(tails), rtol=1e-10)


def test_quantiles_of_components_far_apart():
    """Each half of the probability belongs to one component."""
    p = simple([0.0, 1e6], [1.0, 2.0])
    q = np.array([1e-10, 0.1, 0.4, 0.6, 0.9])
    expected = np.where(q < 0.5, stats.norm.ppf(2 * q), 1e6 + 2 * stats.norm.ppf(2 * q - 1))
    np.testing.assert_allclose(p.quantile(q)[0], expected, rtol=1e-10)
    assert 10 < p.quantile(0.5)[0] < 1e6 - 10  # anywhere in the gap, where the cdf is 1/2


def test_quantiles_of_components_of_very_different_width():
    p = simple([0.0, 1.0, 1.0], [1e-9, 1e-3, 1e3])
    tolerance = 2e-12 * p.std[0]
    for q, t in zip(QS, p.quantile(QS)[0], strict=True):
        assert p.cdf(t - tolerance)[0] <= q * (1 + 1e-12)
        assert p.cdf(t + tolerance)[0] >= q * (1 - 1e-12)


def test_interval_is_central(p):
    lower, upper = p.interval(0.9).T
    np.testing.assert_allclose(p.cdf(lower), 0.05, rtol=1e-11)
    np.testing.assert_allclose(p.cdf(upper), 0.95, rtol=1e-11)


# ---------------------------------------------------------------- crps


@pytest.mark.parametrize("spread", [0.0, 0.5, 5.0, 100.0])
@pytest.mark.parametrize("n_draws", [1, 2, 30, 300])
def test_crps_is_the_closed_form(n_draws, spread):
    p = random_mixture(n_draws, 6, spread=spread)
    for y in (p.mean, p.sample(1, 0)[0], p.mean + 8 * p.std):
        error = np.abs(p.crps(y) - closed_crps(p, y)) / p.std
        assert error.max() < 1e-9


def test_both_ways_to_the_crps_are_used_and_agree(monkeypatch):
    p = random_mixture(300, 6, spread=2.0)
    y, calls = p.sample(1, 0)[0], []
    monkeypatch.setattr(mixture, "_spread_by_pairs", lambda *_: calls.append("pairs"))
    by_nodes = p.crps(y)
    assert not calls
    monkeypatch.undo()
    monkeypatch.setattr(mixture, "NODE_STEP", 1e-9)  # so many nodes that pairs are cheaper
    monkeypatch.setattr(mixture, "_spread_by_nodes", lambda *_: calls.append("nodes"))
    np.testing.assert_allclose(p.crps(y), by_nodes, rtol=1e-9)
    assert not calls


@pytest.mark.parametrize("y", [-6.0, 0.0, 2.5, 30.0])
@pytest.mark.parametrize("n_draws", [3, 100])
def test_crps_is_the_integral(n_draws, y):
    p = random_mixture(n_draws, 1, seed=3)
    below = integrate.quad(lambda t: p.cdf(t)[0] ** 2, min(y, -10) - 20, y, limit=300)[0]
    above = integrate.quad(lambda t: (1 - p.cdf(t)[0]) ** 2, y, max(y, 10) + 20, limit=300)[0]
    np.testing.assert_allclose(p.crps([y]), below + above, rtol=1e-7)


def test_crps_does_not_depend_on_where_zero_is():
    p = simple(np.linspace(0, 1, 50), 0.5)
    moved = simple(np.linspace(0, 1, 50) + 1e6, 0.5)
    np.testing.assert_allclose(moved.crps([1e6 + 0.3]), p.crps([0.3]), rtol=1e-8)


# ---------------------------------------------------------------- zero variance


def test_point_masses_are_an_empirical_distribution():
    p = simple([3.0, 1.0, 2.0, 4.0], 0.0)
    np.testing.assert_array_equal([p.cdf(t)[0] for t in (0.9, 1, 3.5, 4)], [0, 0.25, 0.75, 1])
    np.testing.assert_array_equal(p.quantile([0.2, 0.25, 0.3, 0.75, 0.8]), [[1, 1, 2, 3, 4]])
    expected = np.abs(np.arange(1, 5) - 2.2).mean()
    expected -= 0.5 * np.abs(np.subtract.outer(np.arange(4), np.arange(4))).mean()
    np.testing.assert_allclose(p.crps([2.2]), expected, rtol=1e-12)


def test_one_point_mass():
    p = simple([2.0, 2.0], 0.0)
    np.testing.assert_array_equal(p.crps([5.0]), [3.0])
    np.testing.assert_array_equal(p.interval(), [[2.0, 2.0]])


def test_some_point_masses():
    p = simple([0.0, 0.0, 5.0, 5.0], [1.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(p.cdf([5.0]), 1.0, atol=1e-6)
    np.testing.assert_allclose(p.cdf([4.9999]), 0.5, atol=1e-6)
    np.testing.assert_allclose(p.quantile([0.25, 0.6, 0.99]), [[0.0, 5.0, 5.0]], atol=1e-11)
    assert np.all([p.cdf(t) >= q for q in (0.6, 0.99) for t in p.quantile(q)])
    close = simple([0.0, 0.0, 5.0, 5.0], [1.0, 1.0, 1e-9, 1e-9])
    np.testing.assert_allclose(p.crps([2.0]), close.crps([2.0]), rtol=1e-8)


def test_a_quantile_before_and_after_a_jump():
    """Half a standard normal and half a point at zero: the cdf jumps from 1/4 to 3/4."""
    p = simple([0.0, 0.0], [1.0, 0.0])
    expected = [stats.norm.ppf(0.4), 0.0, 0.0, stats.norm.ppf(0.6)]
    np.testing.assert_allclose(p.quantile([0.2, 0.3, 0.7, 0.8])[0], expected, atol=1e-11)


def test_no_density_without_variance():
    message = r"bag bob \(row 1\) has zero variance in a draw.*noise part > 0"
    curves = SizeCurves(np.ones((2, 1)), np.ones((2, 1)))
    p = MixturePrediction(
        np.zeros((2, 2)), [1.0, 0.0], sizes=[1, np.inf], curves=curves, ids=["ann", "bob"]
    )
    with pytest.raises(BagwiseError, match=message):
        p.log_prob([0.0, 0.0])
    assert np.isfinite(p[0].log_prob([0.0])).all()


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
