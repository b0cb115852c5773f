"""BagSums: however points come, their sums are those of all points at once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose

import dense_oracle
from bagwise.bags.bags import Bags
from bagwise.bags.stacked import Batch
from bagwise.embedding.sums import BagSums, Thrift, summarise, summarise_each
from bagwise.features.kernels import KERNELS, RBF
from bagwise.features.maps import LandmarkFeatures, Scaling

UNIT = Scaling.of(np.zeros(2), np.ones(2))
U = np.random.default_rng(2).normal(size=(6, 2))
FEATURES = LandmarkFeatures(RBF(0.8), UNIT, U)
SIZES = (1, 4, 1, 9, 2, 17, 3, 1)


@pytest.fixture(params=[False, True], ids=["plain", "weighted"])
def bags(request):
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(n, 2)) for n in SIZES]
    weights = [rng.uniform(0.1, 3.0, n) for n in SIZES] if request.param else None
    return Bags.from_list(points, weights=weights)


def batch_of(bags, rows):
    """Some rows of the stacked points as a batch, sorted by bag."""
    rows = np.sort(rows)
    owner = np.repeat(np.arange(bags.n_bags), bags.sizes)[rows]
    pieces, counts = np.unique(owner, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(counts)])
    none = np.zeros(len(pieces), dtype=np.int64)
    return Batch(bags.points[rows], bags.shares[rows], pieces, starts, none)


def sums_of(bags, pieces, **options):
    sums = BagSums(FEATURES, bags.effective_sizes, **options)
    for rows in pieces:
        sums.add(batch_of(bags, rows))
    return sums


def splits(n, seed):
    """Return the rows in random pieces, in random order."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(1, n), rng.integers(1, 9), replace=False))
    return np.split(rng.permutation(n), cuts)


def assert_same(found, expected, tolerance=1e-12):
    assert_allclose(found.mean, expected.mean, rtol=tolerance, atol=tolerance)
    assert_allclose(found.sizes, expected.sizes, rtol=tolerance)
    assert_allclose(found.within_cov, expected.within_cov, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("seed", range(6))
def test_points_added_in_any_pieces_and_order_are_those_of_all_at_once(bags, seed):
    pieces = splits(bags.n_points, seed)
    whole = summarise(bags, FEATURES)
    assert_same(sums_of(bags, pieces).finish(), whole)
    assert_same(sums_of(bags, pieces[::-1]).finish(), whole)


@pytest.mark.parametrize("seed", range(6))
def test_merged_sums_of_any_split_are_those_of_all_at_once(bags, seed):
    each = [sums_of(bags, [rows]) for rows in splits(bags.n_points, seed)]
    merged, *others = each
    for other in others:
        assert merged.merge(other) is merged
    assert_same(merged.finish(), summarise(bags, FEATURES))


def test_merging_is_associative_and_may_start_from_nothing(bags):
    a, b, c = np.array_split(np.random.default_rng(3).permutation(bags.n_points), 3)
    left = sums_of(bags, []).merge(sums_of(bags, [a]).merge(sums_of(bags, [b])))
    left.merge(sums_of(bags, [c])).merge(sums_of(bags, []))
    right = sums_of(bags, [c]).merge(sums_of(bags, [b]).merge(sums_of(bags, [a])))
    assert_same(left.finish(), right.finish())
    assert_same(left.finish(), summarise(bags, FEATURES))


def test_points_one_by_one_have_the_sums_of_a_loop_over_bags(bags):
    found = sums_of(bags, np.arange(bags.n_points)[:, None]).finish()
    phis = [dense_oracle.rbf(bag, U, 0.8) for bag in bags]
    weights = None if bags.weights is None else np.split(bags.weights, bags.offsets[1:-1])
    mean, sizes, cov = dense_oracle.summary(phis, weights)
    assert_allclose(found.mean, mean, rtol=1e-11, atol=1e-13)
    assert_allclose(found.sizes, sizes, rtol=1e-12)
    assert_allclose(found.within_cov, cov, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("rows", [1, 3, 16])
def test_neither_blocks_nor_threads_matter(bags, rows):
    pieces = splits(bags.n_points, 0)
    small = sums_of(bags, pieces, block_bytes=rows * 8 * 6).finish()
    assert_same(small, summarise(bags, FEATURES))
    threaded = BagSums(FEATURES, bags.effective_sizes, block_bytes=rows * 8 * 6)
    with ThreadPoolExecutor(3) as threads:
        for piece in pieces:
            threaded.add(batch_of(bags, piece), threads)
    again = threaded.finish()
    assert np.array_equal(again.mean, small.mean)  # sums are added in order, whoever makes them
    assert np.array_equal(again.within_cov, small.within_cov)


def test_pieces_of_a_spread_far_from_zero_do_not_cancel(bags):
    class Shifted(LandmarkFeatures):
        def __call__(self, points):
            return super().__call__(points) + 1e6

    sums = BagSums(Shifted(RBF(0.8), UNIT, U), bags.effective_sizes)
    for rows in splits(bags.n_points, 1):
        sums.add(batch_of(bags, rows))
    assert_allclose(sums.finish().within_cov, summarise(bags, FEATURES).within_cov, atol=1e-8)


def test_points_of_weight_zero_that_come_alone_change_nothing():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 5, 2))
    weights = np.array([[1.0, 2.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, 1.0, 1.0]])
    bags = Bags.from_array(points, weights=weights)
    for pieces in ([[0, 1, 2, 7, 8, 9], [3, 4, 5, 6]], [[3, 4, 5, 6], [0, 1, 2, 7, 8, 9]]):
        assert_same(sums_of(bags, pieces).finish(), summarise(bags, FEATURES))


def test_covariance_is_summed_only_if_asked_for_and_there_is_one(bags):
    assert sums_of(bags, splits(bags.n_points, 0), covariance=False).finish().within_cov is None
    single = Bags.from_array(np.zeros((3, 1, 2)))
    assert sums_of(single, [[0, 1, 2]]).finish().within_cov is None


def test_several_features_are_each_summed_as_alone(bags):
    candidates = [LandmarkFeatures(RBF(width), UNIT, U) for width in (0.3, 0.8, 2.0)]
    found = list(summarise_each(bags, candidates))
    assert len(found) == 3
    for stats, features in zip(found, candidates, strict=True):
        assert_same(stats, summarise(bags, features), 1e-14)


@pytest.mark.parametrize("name", [name for name in KERNELS if "linear" not in name])
def test_single_precision_is_as_near_as_it_says(name):
    rng = np.random.default_rng(3)
    bags = Bags.from_list([rng.normal(0, 3, (n, 2)) for n in (1, 4, 300)])
    kernel, scaling = KERNELS[name].with_bandwidth(1.5), Scaling.of(np.zeros(2), np.ones(2))
    features = LandmarkFeatures(kernel, scaling, rng.normal(size=(7, 2)))
    exact, rounded = (summarise(bags, features, thrift=t) for t in (None, Thrift(single=True)))
    largest = max(1.0, np.abs(features(bags.points)).max())  # the energy kernel is not at most 1
    assert_allclose(rounded.mean, exact.mean, rtol=0, atol=2.0**-23 * largest)
    scale = np.abs(exact.within_cov).max()
    assert_allclose(rounded.within_cov, exact.within_cov, rtol=0, atol=1e-5 * scale)
    assert exact.mean.dtype == rounded.mean.dtype == rounded.within_cov.dtype == np.float64


def test_the_covariance_of_some_bags_is_that_of_these_alone(bags):
    features, thrift = FEATURES, Thrift(share=0.5)
    counted = thrift.counts(bags.numbers)
    assert 0 < counted.sum() < bags.n_bags
    found, alone = summarise(bags, features, thrift=thrift), summarise(bags[counted], features)
    assert_allclose(found.within_cov, alone.within_cov, rtol=1e-12)
    assert_allclose(found.mean, summarise(bags, features).mean, rtol=0, atol=1e-15)


def test_only_very_many_points_are_summed_thriftily(bags):
    assert Thrift.of(bags) == Thrift()
    thrift = Thrift.of(bags, 10, bags.n_points // 4, 1)
    assert thrift.single
    assert 0.2 < thrift.share < 0.5
    assert Thrift.of(bags, 10, 1, 10**6).share == 1.0


def test_bags_that_count_are_drawn_evenly_wherever_they_are():
    numbers = np.arange(100_000)
    for share in (0.01, 0.2, 0.9):
        counted = Thrift(share=share).counts(numbers)
        spread = 4.0 * np.sqrt(share * (1 - share) / len(numbers))
        assert abs(counted.mean() - share) < spread
        for step in (2, 7, 64):  # of every so many bags as of all
            assert abs(counted[::step].mean() - share) < spread * np.sqrt(step)
        np.testing.assert_array_equal(
            Thrift(share=share).counts(numbers[500:700]), counted[500:700]
        )
