"""Novelty: p-values of bags like the training bags are uniform whatever their size."""

import time

import numpy as np
import pytest
from scipy import stats as distributions

from bagwise.embedding.novelty import Novelty, Usual
from bagwise.embedding.sums import BagStats
from bagwise.inspection.report.reasons import UNLIKE

SIZES = np.array([1, 3, 20, 400])


def drawn(rng, n, d=30, sizes=SIZES):
    """Bags of points in d dimensions, few of which differ between bags."""
    scale = 0.7 ** np.arange(d)
    n_points = rng.choice(sizes, n).astype(float)
    between = rng.standard_t(8, (n, d)) * scale
    within = rng.normal(size=(n, d)) * 2.0 * scale[::-1] / np.sqrt(n_points)[:, None]
    cov = np.diag((2.0 * scale[::-1]) ** 2)
    return BagStats(between + within, n_points, cov)


@pytest.mark.parametrize("known", [True, False])
def test_p_values_of_like_bags_are_uniform_by_size(known):
    rng, p, sizes = np.random.default_rng(0), [], []
    for _ in range(20):
        train, new = drawn(rng, 150), drawn(rng, 200)
        if not known:  # as of models that need no covariance
            train = BagStats(train.mean, train.sizes)
        p.append(Novelty.of(train)(new))
        sizes.append(new.sizes)
    p, sizes = np.concatenate(p), np.concatenate(sizes)
    for size in SIZES:
        mine = p[sizes == size]
        for level in (0.05, 0.1, 0.25, 0.5):
            # training sets are 20, so their own luck counts beside that of new bags
            error = np.sqrt(level * (1 - level) / len(mine) + level * (1 - level) / 20 / 37)
            assert abs(np.mean(mine <= level) - level) < 4 * error, (size, level)


def test_a_bag_from_elsewhere_is_told_and_the_more_surely_the_larger_it_is():
    rng = np.random.default_rng(1)
    novelty, new = Novelty.of(drawn(rng, 300)), drawn(rng, 400)
    moved = BagStats(new.mean + 4.0 * np.eye(30)[0] + 4.0 * np.eye(30)[29], new.sizes)
    found = [np.mean(novelty(moved)[moved.sizes == size] < 0.05) for size in SIZES]
    assert found[-1] > 0.8 and found[0] < found[-1]


def test_how_odd_is_the_mahalanobis_distance_of_sklearn():
    from sklearn.covariance import EmpiricalCovariance

    rng = np.random.default_rng(2)
    mean = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3))
    usual = Usual.of(mean, np.full(200, 7.0), None)
    expected = EmpiricalCovariance().fit(mean).mahalanobis(mean)
    np.testing.assert_allclose(usual.odd(mean, np.full(200, 7.0)), expected, rtol=1e-6)


def test_b_and_s_are_found_without_a_covariance():
    rng = np.random.default_rng(3)
    sizes = rng.choice([1.0, 5.0, 50.0], 4000)
    mean = rng.normal(size=(4000, 1)) * np.sqrt(2.0 + 3.0 / sizes)[:, None]
    usual = Usual.of(mean, sizes, None)
    assert usual.between[0] == pytest.approx(2.0, rel=0.15)
    assert usual.within[0] == pytest.approx(3.0, rel=0.25)


def test_small_bags_of_one_size_are_not_novel_for_being_smaller():
    rng = np.random.default_rng(4)
    novelty = Novelty.of(BagStats(rng.normal(size=(200, 2)) / 10.0, np.full(200, 100.0)))
    small = BagStats(rng.normal(size=(500, 2)), np.ones(500))
    assert np.mean(novelty(small) < 0.05) < 0.08


def test_too_few_bags_or_all_alike_say_nothing():
    assert Novelty.of(BagStats(np.zeros((9, 2)), np.ones(9))) is None
    assert Novelty.of(BagStats(np.ones((50, 2)), np.ones(50))) is None


def test_p_values_have_the_distribution_of_ranks():
    rng = np.random.default_rng(5)
    p = np.concatenate([Novelty.of(drawn(rng, 120))(drawn(rng, 5)) for _ in range(80)])
    assert distributions.kstest(p, "uniform").pvalue > 0.01


@pytest.mark.parametrize("n_bags", [20, 40, 120, 400])
def test_a_bag_far_from_all_others_is_marked_however_few_they_are(n_bags):
    rng = np.random.default_rng(0)
    known = Novelty.of(BagStats(rng.normal(size=(n_bags, 2)), np.full(n_bags, 5.0)))
    assert known(BagStats(np.array([[1e3, 0.0]]), np.array([5.0])))[0] <= UNLIKE


@pytest.mark.parametrize("shape", [(60, 25), (25, 60), (40, 1)])
def test_directions_are_the_first_right_singular_vectors(shape):
    x = np.random.default_rng(0).normal(size=shape) * 0.8 ** np.arange(shape[1])
    usual = Usual.of(x, np.full(len(x), 5.0), None)
    right = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[2].T
    found = np.abs(usual.directions.T @ right[:, : usual.directions.shape[1]])
    np.testing.assert_allclose(found[::-1], np.eye(len(found)), atol=1e-9)
    assert usual.directions.shape[1] == min(10, max(len(x) // 10, 1), shape[1])


def test_very_many_features_cost_no_more_than_bags_do():
    rng = np.random.default_rng(0)
    start = time.process_time()
    Novelty.of(BagStats(rng.normal(size=(50, 8000)), np.full(50, 5.0)))
    assert time.process_time() - start < 5.0  # by a matrix of all features: minutes
