"""Bag statistics and double sums against loops over bags and points."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dense_oracle
from bagwise.bags.bags import Bags
from bagwise.embedding import sums as embedding
from bagwise.embedding.sums import bag_gram, bag_norms, blocks_of, summarise
from bagwise.features.kernels import RBF, Additive, Linear, Matern
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling

UNIT = Scaling.of(np.zeros(2), np.ones(2))
SHIFTED = Scaling.of(np.array([0.5, -1.0]), np.array([2.0, 0.7]))
SIZES = (1, 4, 1, 9, 2, 17, 3, 1)
# Rows of features per block; None leaves the module's own size, with all bags in one block.
BLOCKS = (None, 1, 5, 16)


def arrays(seed=0, sizes=SIZES, dtype=np.float64):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(n, 2)).astype(dtype) for n in sizes]


def random_weights(seed=1, sizes=SIZES):
    rng = np.random.default_rng(seed)
    return [rng.uniform(0.1, 3.0, n) for n in sizes]


def landmark_features(d=6):
    u = np.random.default_rng(2).normal(size=(d, 2))
    return LandmarkFeatures(RBF(0.8), SHIFTED, u)


def features_of(features, bag):
    """Kernel values at the landmarks, by a formula of the test's own."""
    scaled = (bag.astype(np.float64) - SHIFTED.center) / SHIFTED.scale
    return dense_oracle.rbf(scaled, features.landmarks, 0.8)


@pytest.fixture(params=BLOCKS, ids=lambda rows: f"blocks of {rows} rows")
def block_rows(request, monkeypatch):
    if request.param is not None:
        monkeypatch.setattr(embedding, "BLOCK_BYTES", request.param * 8 * 6)
    return request.param


def assert_is_summary(stats, phis, weights=None):
    means, sizes, cov = dense_oracle.summary(phis, weights)
    assert_allclose(stats.mean, means, rtol=1e-11, atol=1e-14)
    assert_allclose(stats.sizes, sizes, rtol=1e-12)
    assert_allclose(stats.within_cov, cov, rtol=1e-10, atol=1e-14)


# ---------------------------------------------------------------- summarise


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_summary_is_that_of_a_loop_over_bags(dtype, block_rows):
    bags, features = arrays(dtype=dtype), landmark_features()
    stats = summarise(Bags.from_list(bags), features)
    assert_is_summary(stats, [features_of(features, bag) for bag in bags])


def test_within_cov_is_the_average_of_numpys_covariances(block_rows):
    bags, features = arrays(), landmark_features()
    stats = summarise(Bags.from_list(bags), features)
    covs = [np.cov(features_of(features, bag).T) for bag in bags if len(bag) > 1]
    assert_allclose(stats.within_cov, np.mean(covs, axis=0), rtol=1e-10, atol=1e-14)


def test_weighted_summary_is_that_of_a_loop_over_bags(block_rows):
    bags, weights, features = arrays(), random_weights(), landmark_features()
    stats = summarise(Bags.from_list(bags, weights=weights), features)
    assert_is_summary(stats, [features_of(features, bag) for bag in bags], weights)


def test_weighted_covariance_is_numpys_with_reliability_weights(block_rows):
    bags, weights, features = arrays(), random_weights(), landmark_features()
    stats = summarise(Bags.from_list(bags, weights=weights), features)
    covs = [
        np.cov(features_of(features, bag).T, aweights=w)
        for bag, w in zip(bags, weights, strict=True)
        if len(bag) > 1
    ]
    assert_allclose(stats.within_cov, np.mean(covs, axis=0), rtol=1e-10, atol=1e-14)


def test_weighted_covariance_is_unbiased():
    rng = np.random.default_rng(3)
    points, weights = rng.normal(size=(4000, 3, 2)), np.tile([1.0, 2.0, 5.0], (4000, 1))
    features = FourierFeatures(UNIT, 0.01 * np.eye(2))  # sines: points/100/√2, nearly
    cov = summarise(Bags.from_array(points, weights=weights), features).within_cov
    assert_allclose(np.diag(cov)[2:] * 2e4, 1.0, atol=0.1)


def test_points_of_weight_zero_are_as_good_as_absent(block_rows):
    bags, features = arrays(), landmark_features()
    padded = [np.vstack([bag, bag[:1] + 3.0, bag]) for bag in bags]
    weights = [np.r_[np.ones(len(bag)), np.zeros(len(bag) + 1)] for bag in bags]
    with_zeros = summarise(Bags.from_list(padded, weights=weights), features)
    without = summarise(Bags.from_list(bags), features)
    for name in ("mean", "sizes", "within_cov"):
        assert_allclose(getattr(with_zeros, name), getattr(without, name), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("factor", [1e-9, 7.0, 1e9])
def test_equal_weights_of_any_size_are_no_weights(factor):
    bags, features = arrays(), landmark_features()
    weights = [np.full(len(bag), factor) for bag in bags]
    weighted = summarise(Bags.from_list(bags, weights=weights), features)
    plain = summarise(Bags.from_list(bags), features)
    for name in ("mean", "sizes", "within_cov"):
        assert_allclose(getattr(weighted, name), getattr(plain, name), rtol=1e-10, atol=1e-14)


def test_shares_of_a_bag_add_up_to_one():
    bags = Bags.from_list(arrays(), weights=random_weights())
    shares = bags.shares
    assert_allclose(np.add.reduceat(shares, bags.offsets[:-1]), 1.0)
    assert_allclose(shares[1:5], random_weights()[1] / random_weights()[1].sum())


def test_bags_of_one_point_have_no_within_cov():
    assert (
        summarise(Bags.from_list(arrays(sizes=(1, 1, 1))), landmark_features()).within_cov is None
    )


def test_bags_of_one_point_in_effect_have_no_within_cov():
    bags = Bags.from_list(arrays(sizes=(2, 2)), weights=[[1.0, 0.0], [0.0, 2.0]])
    assert summarise(bags, landmark_features()).within_cov is None


def test_covariance_is_not_computed_unless_asked_for():
    bags, features = Bags.from_list(arrays()), landmark_features()
    stats = summarise(bags, features, covariance=False)
    assert stats.within_cov is None
    assert_allclose(stats.mean, summarise(bags, features).mean)


def test_large_offsets_do_not_cancel_in_the_covariance(block_rows):
    class Shifted(LandmarkFeatures):
        def __call__(self, points):
            return super().__call__(points) + 1e6

    bags, features = Bags.from_list(arrays()), landmark_features()
    shifted = summarise(bags, Shifted(features.kernel, SHIFTED, features.landmarks))
    assert_allclose(shifted.within_cov, summarise(bags, features).within_cov, atol=1e-8)


def test_blocks_cover_every_row_once_and_cut_pieces_at_the_ends_of_bags():
    offsets = np.cumsum([0, *SIZES])
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    for n_rows in range(1, 41):
        blocks = list(blocks_of(offsets, n_rows))
        rows = np.concatenate([np.arange(b.rows.start, b.rows.stop) for b in blocks])
        assert np.array_equal(rows, np.arange(offsets[-1]))
        owners = np.concatenate([b.bags[b.piece_of_row] for b in blocks])
        assert np.array_equal(owners, owner)


def test_memory_stays_far_below_that_of_all_features():
    n, d = 60_000, 60
    rng = np.random.default_rng(0)
    bags = Bags.from_array(rng.normal(size=(n // 100, 100, 2)).astype(np.float32))
    features = LandmarkFeatures(RBF(0.8), SHIFTED, rng.normal(size=(d, 2)))
    summarise(bags, features)
    tracemalloc.start()
    summarise(bags, features)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * d * 8 / 3


# ---------------------------------------------------------------- double sums


def naive_gram(kernel, scaling, left, right, left_weights=None, right_weights=None):
    def mean(a, b, wa, wb):
        wa = np.ones(len(a)) if wa is None else wa
        wb = np.ones(len(b)) if wb is None else wb
        scale = [(x.astype(np.float64) - scaling.center) / scaling.scale for x in (a, b)]
        return wa / wa.sum() @ kernel(*scale) @ (wb / wb.sum())

    left_weights = [None] * len(left) if left_weights is None else left_weights
    right_weights = [None] * len(right) if right_weights is None else right_weights
    return np.array(
        [
            [mean(a, b, wa, wb) for b, wb in zip(right, right_weights, strict=True)]
            for a, wa in zip(left, left_weights, strict=True)
        ]
    )


KERNELS = [RBF(0.8), Matern(1.1), Linear(), Additive(base=RBF(0.8))]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_points", [4, 7, 1024])
def test_bag_gram_is_the_double_sum(kernel, n_points, monkeypatch):
    monkeypatch.setattr(embedding, "PAIR_POINTS", n_points)
    left, right = arrays(5), arrays(6, sizes=(3, 1, 8), dtype=np.float32)
    found = bag_gram(kernel, SHIFTED, Bags.from_list(left), Bags.from_list(right))
    assert_allclose(found, naive_gram(kernel, SHIFTED, left, right), rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("n_points", [3, 1024])
def test_weighted_bag_gram_is_the_weighted_double_sum(kernel, n_points, monkeypatch):
    monkeypatch.setattr(embedding, "PAIR_POINTS", n_points)
    bags, weights = arrays(5), random_weights()
    stacked = Bags.from_list(bags, weights=weights)
    expected = naive_gram(kernel, SHIFTED, bags, bags, weights, weights)
    assert_allclose(bag_gram(kernel, SHIFTED, stacked, stacked), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("n_points", [3, 5, 1024])
def test_bag_gram_with_itself_is_the_same_as_with_an_equal_copy(n_points, monkeypatch):
    monkeypatch.setattr(embedding, "PAIR_POINTS", n_points)
    bags, copy = Bags.from_list(arrays(5)), Bags.from_list(arrays(5))
    once, both = bag_gram(RBF(0.8), UNIT, bags, bags), bag_gram(RBF(0.8), UNIT, bags, copy)
    assert_allclose(once, both, rtol=1e-12)
    assert_allclose(once, once.T, rtol=1e-13)
    assert np.linalg.eigvalsh(once).min() > -1e-12


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_bag_norms_are_the_diagonal(kernel):
    bags = Bags.from_list(arrays(5), weights=random_weights())
    expected = np.diag(bag_gram(kernel, SHIFTED, bags, bags))
    assert_allclose(bag_norms(kernel, SHIFTED, bags), expected, rtol=1e-11)


def test_inner_product_of_landmark_features_approaches_the_double_sum():
    bags = Bags.from_list(arrays(5))
    frequencies = RBF(0.8).frequencies(2, 20_000, np.random.default_rng(0))
    mean = summarise(bags, FourierFeatures(UNIT, frequencies), covariance=False).mean
    assert_allclose(mean @ mean.T, bag_gram(RBF(0.8), UNIT, bags, bags), atol=0.03)
