"""Landmarks, the median heuristic and the scaling of features."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

import dense_oracle
from bagwise import FourierEmbedding, KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.estimators.regressors import RBFNetworkRegressor, ShrinkageRegressor
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.features import maps
from bagwise.features.kernels import RBF, Additive
from bagwise.features.maps import (
    MEDIAN_POINTS,
    Scaling,
    choose_landmarks,
    given_landmarks,
    median,
    median_bandwidth,
    sample_points,
)

UNIT = Scaling.of(np.zeros(2), np.ones(2))


def points(seed, n, p=2):
    return np.random.default_rng(seed).normal(size=(n, p))


def rng(seed=0):
    return np.random.default_rng(seed)


# ---------------------------------------------------------------- median heuristic


def test_median_bandwidth_is_the_median_over_all_pairs():
    x = points(0, 41, 3)
    squares = [np.sum((a - b) ** 2) for i, a in enumerate(x) for b in x[:i]]
    assert_allclose(median_bandwidth(x, RBF()), np.sqrt(np.median(squares) / 2), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 96, 97, 1000, 50_001])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: rng.normal(size=n),
        lambda rng, n: np.sort(rng.exponential(size=n)),  # the first looks are at all of them
        lambda rng, n: rng.integers(0, 3, n).astype(float),
        lambda rng, n: np.where(np.arange(n) % 97, rng.normal(size=n), 9.0),  # and mislead
        lambda rng, n: np.full(n, np.inf),
    ],
    ids=["normal", "sorted", "ties", "misled", "infinite"],
)
def test_the_median_is_that_of_numpy_to_the_last_bit(n, draw):
    values = draw(np.random.default_rng(0), n)
    assert median(values) == np.median(values)


def test_median_bandwidth_of_an_additive_kernel_is_per_coordinate():
    x = points(0, 41, 4)
    assert_allclose(median_bandwidth(x, Additive()), median_bandwidth(x, RBF()) / 2, rtol=1e-12)


def test_median_bandwidth_takes_the_mean_if_most_pairs_are_equal():
    x = np.zeros((20, 1))
    x[0] = 2.0  # 19 of the 190 pairs differ
    assert_allclose(median_bandwidth(x, RBF()), np.sqrt(19 / 190 * 4.0 / 2))
    assert median_bandwidth(np.zeros((3, 1)), RBF()) == np.sqrt(0.5)


def test_median_bandwidth_does_not_depend_on_the_order_of_the_bags():
    wide, narrow = 3.0 * points(1, MEDIAN_POINTS + 500), points(2, MEDIAN_POINTS + 500)
    found = [
        median_bandwidth(sample_points(Bags.from_list(bags), rng()), RBF())
        for bags in ([wide, narrow], [narrow, wide])
    ]
    squares = cdist(np.vstack([wide, narrow])[::5], np.vstack([wide, narrow])[::5], "sqeuclidean")
    expected = np.sqrt(np.median(squares[np.triu_indices(len(squares), 1)]) / 2)
    assert_allclose(found, expected, rtol=0.1)


def test_sample_points_are_scaled_and_drawn_without_replacement():
    bags = Bags.from_list([points(3, 30), points(4, 20)])
    scaling = Scaling.fit(bags)
    rows = scaling(bags.points)
    everything = scaling(sample_points(bags, rng()))
    assert_allclose(np.sort(everything, axis=0), np.sort(rows, axis=0))
    some = scaling(sample_points(bags, rng(), n=12))
    matches = np.argwhere((some[:, None] == rows).all(axis=2))
    assert len(matches) == len(set(matches[:, 1])) == 12


def with_far_points_of_weight_0(bags):
    far = [np.vstack([bag, np.full((3, bag.shape[1]), 40.0)]) for bag in bags]
    weights = [np.append(np.full(len(bag), 2.0), np.zeros(3)) for bag in bags]
    return far, weights


def test_points_of_weight_0_have_no_say_in_scaling_bandwidth_and_landmarks(tmp_path):
    bags = [points(seed, 30) for seed in range(8)]
    far, weights = with_far_points_of_weight_0(bags)
    weighted = Bags.from_list(far, weights=weights)
    owner = np.repeat(np.arange(8), 33)
    x, z = np.vstack(far).T
    table = pa.table({"bag": owner, "w": np.concatenate(weights), "x": x, "z": z})
    pq.write_table(table, tmp_path / "points.parquet", row_group_size=50)
    stream = Bags.scan_parquet(tmp_path / "points.parquet", bag="bag", weights="w")
    plain = Scaling.fit(Bags.from_list(bags))
    everything = np.sort(np.vstack(bags), axis=0)
    for seen in (weighted, stream):
        found = sample_points(seen, rng())
        assert_allclose(np.sort(found, axis=0), everything)
        scaling = Scaling.fit(seen, sample=found)
        assert_allclose(scaling.center, plain.center, rtol=1e-12)
        assert_allclose(scaling.scale, plain.scale, rtol=1e-12)
        (features,) = KernelEmbedding(10, bandwidth=1.0).candidates(seen)
        assert np.abs(features.landmarks).max() < 4.0
    assert_allclose(Scaling.fit(weighted).scale, plain.scale, rtol=1e-12)


def test_fewer_points_are_drawn_where_each_is_long(monkeypatch):
    bags = Bags.from_list([points(3, 30), points(4, 20)])
    monkeypatch.setattr(maps, "SAMPLE_NUMBERS", 40)
    monkeypatch.setattr(maps, "MEDIAN_POINTS", 8)
    assert sample_points(bags, rng()).shape == (20, 2)
    monkeypatch.setattr(maps, "SAMPLE_NUMBERS", 4)
    assert sample_points(bags, rng()).shape == (8, 2)


# ---------------------------------------------------------------- choosing


def test_random_landmarks_are_distinct_points():
    x = np.repeat(points(5, 10), 3, axis=0)
    u = choose_landmarks(x, "random", 8, rng())
    assert u.shape == (8, 2) and len(np.unique(u, axis=0)) == 8
    assert all((row == x).all(axis=1).any() for row in u)


def test_kmeans_landmarks_are_the_centres_of_clusters():
    centres = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    x = np.vstack([c + 0.1 * points(i, 50) for i, c in enumerate(centres)])
    found = choose_landmarks(x, "kmeans", 3, rng())
    means = np.array([x[50 * i : 50 * (i + 1)].mean(axis=0) for i in range(3)])
    assert_allclose(found[np.lexsort(found.T)], means[np.lexsort(means.T)], rtol=1e-9)


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_the_same_seed_gives_the_same_landmarks(how):
    x = points(6, 100)
    first, again, other = (choose_landmarks(x, how, 7, rng(seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_as_many_landmarks_as_distinct_points_are_those_points(how):
    x = np.repeat(points(7, 5), 4, axis=0)
    u = choose_landmarks(x, how, 5, rng())
    assert_allclose(np.unique(u, axis=0), np.unique(x, axis=0))


@pytest.mark.parametrize(("n", "expected"), [(12, 12), (100, 60)])
def test_default_number_of_landmarks_is_sixty_or_the_distinct_points(n, expected):
    assert len(choose_landmarks(points(8, n), "kmeans", None, rng())) == expected


@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_too_few_distinct_points_say_how_many_there_are(how):
    x = np.repeat(points(7, 5), 4, axis=0)
    message = (
        "there are 5 distinct points for 6 landmarks; expected at least as many distinct points "
        "as landmarks. Use n_landmarks=5 or fewer, or leave it out."
    )
    with pytest.raises(BagwiseError) as error:
        choose_landmarks(x, how, 6, rng())
    assert str(error.value) == message


# ---------------------------------------------------------------- given landmarks


def test_given_landmarks_are_in_the_units_of_the_points():
    scaling = Scaling.of(np.array([1.0, 10.0]), np.array([2.0, 5.0]))
    assert_allclose(given_landmarks([[3, 20], [1, 10]], scaling), [[1.0, 2.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    "wrong", [[1.0, 2.0], [[1.0]], np.zeros((0, 2)), [["a", "b"]], [[True, False]]], ids=repr
)
def test_given_landmarks_of_another_shape_or_type_are_refused(wrong):
    with pytest.raises(BagwiseError, match=r"centres have shape .* \(number of landmarks, 2\)"):
        given_landmarks(wrong, UNIT, "centres")


def test_given_landmarks_that_are_not_finite_name_the_row():
    with pytest.raises(BagwiseError, match=r"landmarks row 1, column 0 is nan; expected finite"):
        given_landmarks([[0.0, 1.0], [np.nan, 1.0]], UNIT)


def test_a_fitted_model_shows_its_landmarks_in_the_units_of_the_points():
    bags, y = dense_oracle.scale_bags()
    u = 100.0 + 50.0 * points(9, 4)
    bags = [100.0 + 50.0 * bag for bag in bags]
    model = RBFNetworkRegressor(KernelEmbedding(landmarks=u)).fit(bags, y)
    assert_allclose(model.landmarks_, u, rtol=1e-12)


def test_given_landmarks_are_those_that_would_be_chosen():
    bags, y = dense_oracle.scale_bags()
    chosen = RBFNetworkRegressor(KernelEmbedding(6)).fit(bags, y)
    given = RBFNetworkRegressor(KernelEmbedding(landmarks=chosen.landmarks_)).fit(bags, y)
    assert_allclose(given.predict(bags), chosen.predict(bags), rtol=1e-7)


# ---------------------------------------------------------------- scaling


@pytest.mark.parametrize("limit", [("BLOCK_ROWS", 7), ("BLOCK_NUMBERS", 20)], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scaling_is_the_mean_and_deviation_of_all_points_in_blocks(dtype, limit, monkeypatch):
    monkeypatch.setattr(maps, *limit)
    x = (points(10, 50, 3) * [1.0, 20.0, 0.1] + [0.0, 100.0, -1.0]).astype(dtype)
    scaling = Scaling.fit(Bags.from_groups(x, np.repeat(np.arange(10), 5)))
    assert_allclose(scaling.center, x.astype(np.float64).mean(axis=0), rtol=1e-12)
    assert_allclose(scaling.scale, x.astype(np.float64).std(axis=0), rtol=1e-12)
    assert scaling(x).dtype == np.float64


def test_without_standardize_points_are_only_centred():
    bags = Bags.from_list([points(11, 5) * [1.0, 20.0], points(12, 6) * [1.0, 20.0]])
    scaling = Scaling.fit(bags, standardize=False)
    assert np.array_equal(scaling.scale, np.ones(2))
    assert_allclose(scaling(bags.points).mean(axis=0), 0.0, atol=1e-12)


@pytest.mark.parametrize("make", [RBFNetworkRegressor, ShrinkageRegressor])
def test_units_of_a_column_do_not_matter_if_and_only_if_standardized(make):
    bags, y = dense_oracle.scale_bags()
    units = np.array([1.0, 1024.0])  # a power of two: not even rounding differs
    large = [bag * units for bag in bags]

    def predictions(points_of, standardize):
        model = make(KernelEmbedding(6, bandwidth=1.0, standardize=standardize))
        return model.fit(points_of, y).predict(points_of)

    assert_allclose(predictions(large, True), predictions(bags, True), rtol=1e-9)
    assert np.abs(predictions(large, False) - predictions(bags, False)).max() > 0.01


def test_a_column_in_large_units_drowns_the_others_only_without_standardize():
    bags, y = dense_oracle.scale_bags(n_bags=40, sizes=(20, 60))
    noise = rng(5)
    drowned = [np.column_stack([bag, 1e4 * noise.normal(size=len(bag))]) for bag in bags]
    errors = {
        standardize: RBFNetworkRegressor(KernelEmbedding(20, standardize=standardize))
        .fit(drowned[:30], y[:30])
        .score(drowned[30:], y[30:])
        for standardize in (True, False)
    }
    assert errors[True] > 0.5 > errors[False]


def test_a_constant_column_changes_nothing():
    bags, y = dense_oracle.scale_bags()
    wider = [np.column_stack([bag, np.full(len(bag), 7.1)]) for bag in bags]
    models = [RBFNetworkRegressor(KernelEmbedding(6)).fit(b, y) for b in (bags, wider)]
    assert_allclose(models[1].predict(wider), models[0].predict(bags), rtol=1e-6)


@pytest.mark.parametrize("n_ones", [1, 2, 40])
def test_a_column_that_hardly_ever_varies_counts(n_ones):
    """Only one that has a single value everywhere is held at it."""
    points = np.column_stack([rng(0).normal(size=2000), np.zeros(2000), np.full(2000, 7.1)])
    points[:n_ones, 1] = 1.0
    scaling = Scaling.fit(Bags.from_list([points[:1000], points[1000:]]))
    zero, one, other = scaling(np.array([[0.0, 0.0, 7.1], [0.0, 1.0, 7.1], [0.0, 1.0, 9.0]]))
    assert one[1] - zero[1] >= 1.0
    assert_allclose(other, one)


def test_all_columns_constant_is_an_error():
    with pytest.raises(InvalidBagsError, match=r"every feature is constant.*with_log_size"):
        RBFNetworkRegressor().fit([np.full((3, 2), 1.1), np.full((4, 2), 1.1)], [0.0, 1.0])


# ---------------------------------------------------------------- as parameters of a model


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_landmarks": 0}, "n_landmarks is 0; expected a whole number of at least 1"),
        ({"n_landmarks": 2.5}, "n_landmarks is 2.5"),
        ({"n_landmarks": True}, "n_landmarks is True"),
        ({"landmarks": "grid"}, 'landmarks is \'grid\'; expected "kmeans", "random" or an array'),
        ({"bandwidth": "median"}, "bandwidth is 'median'; expected a number > 0 or 'auto'"),
        ({"bandwidth": 0.0}, "bandwidth is 0.0; expected a finite number > 0"),
        ({"standardize": "yes"}, "standardize is 'yes'; expected True or False"),
        ({"n_landmarks": 10_000}, "distinct points for 10000 landmarks"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(options, message):
    bags, y = dense_oracle.scale_bags()
    with pytest.raises(BagwiseError, match=message):
        RBFNetworkRegressor(KernelEmbedding().set_params(**options)).fit(bags, y)


def test_auto_keeps_the_bandwidth_with_the_least_loss():
    bags, y = dense_oracle.scale_bags(n_bags=30)
    chosen = RBFNetworkRegressor(KernelEmbedding(10)).fit(bags, y)
    each = [RBFNetworkRegressor(KernelEmbedding(10, bandwidth=s)) for s in (0.5, 1.0, 2.0, 4.0)]
    best = min((model.fit(bags, y) for model in each), key=lambda model: model.head_.loss)
    assert chosen.bandwidth_ == best.bandwidth_
    assert_allclose(chosen.predict(bags), best.predict(bags), rtol=1e-12)


def test_a_kernels_own_bandwidth_is_kept():
    bags, y = dense_oracle.scale_bags()
    assert RBFNetworkRegressor(KernelEmbedding(5, kernel=RBF(0.9))).fit(bags, y).bandwidth_ == 0.9


def test_fourier_features_take_the_place_of_landmarks():
    bags, y = dense_oracle.scale_bags(n_bags=60, sizes=(30, 60))
    model = RBFNetworkRegressor(FourierEmbedding(41)).fit(bags[:40], y[:40])
    assert model.features_.n_outputs == 42 and not hasattr(model, "landmarks_")
    assert model.score(bags[40:], y[40:]) > 0.5
    again = RBFNetworkRegressor(FourierEmbedding(41)).fit(bags[:40], y[:40])
    assert np.array_equal(again.predict(bags), model.predict(bags))
