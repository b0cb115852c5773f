"""Gaussian processes on distributions: what they can that linear models cannot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bagwise
from bagwise import (
    Bags,
    DistributionGPClassifier,
    DistributionGPRegressor,
    KernelEmbedding,
    ShrinkageRegressor,
)
from bagwise.heads import gp as heads

SMALL = KernelEmbedding(20, bandwidth=1.0)


def spread_data(seed, n_bags=150, n_points=60):
    """Labels are variances, which no function linear in a mean over points far apart can be."""
    rng = np.random.default_rng(seed)
    means, variances = rng.uniform(-10, 10, n_bags), rng.uniform(0.5, 10, n_bags)
    arrays = [
        rng.normal(m, np.sqrt(v), (n_points, 1)) for m, v in zip(means, variances, strict=True)
    ]
    return arrays, np.array([array.var() for array in arrays])


def test_a_label_that_is_not_linear_in_the_embedding():
    (bags, y), (new, new_y) = spread_data(0), spread_data(1)
    gp = DistributionGPRegressor().fit(bags, y).score(new, new_y)
    linear = ShrinkageRegressor().fit(bags, y).score(new, new_y)
    assert gp > 0.9 and gp > linear + 0.1


def mean_data(seed, *, complete, n_bags=250):
    """Labels are the mean of the distribution, or of the very points that are there."""
    rng = np.random.default_rng(seed)
    means, sizes = rng.normal(size=n_bags), rng.choice([2, 5, 20], n_bags)
    arrays = [rng.normal(m, 1.5, (n, 1)) for m, n in zip(means, sizes, strict=True)]
    labels = np.array([array.mean() for array in arrays]) if complete else means
    return arrays, labels + 0.05 * rng.normal(size=n_bags)


def test_sampling_tells_samples_from_bags_that_are_complete():
    whole = DistributionGPRegressor(SMALL).fit(*mean_data(0, complete=True))
    sample = DistributionGPRegressor(SMALL).fit(*mean_data(0, complete=False))
    assert whole.sampling_ < 0.2 < 0.5 < sample.sampling_ < 2.0


@pytest.mark.parametrize("k", [2, 5])
def test_the_bag_part_is_what_predictions_change_when_points_are_cut(k):
    rng = np.random.default_rng(3)
    model = DistributionGPRegressor(SMALL).fit(*mean_data(2, complete=False))
    large = [rng.normal(m, 1.5, (20, 1)) for m in rng.normal(size=400)]
    few, many = (model.predict_dist([array[:n] for array in large]) for n in (k, 20))
    stated = few.parts.bag.mean() - many.parts.bag.mean()
    assert_allclose(stated, np.mean((few.mean - many.mean) ** 2), rtol=0.25)


def test_predictions_cover_at_every_size():
    model = DistributionGPRegressor(SMALL).fit(*mean_data(4, complete=False))
    arrays, y = mean_data(5, complete=False, n_bags=900)
    bags = Bags.from_list(arrays)
    for size in (2, 5, 20):
        some = np.flatnonzero(bags.sizes == size)
        low, high = model.predict_dist(bags[some]).interval(0.8).T
        covered = np.mean((y[some] >= low) & (y[some] <= high))
        assert abs(covered - 0.8) < 0.07


def test_a_label_outside_its_support_is_named():
    arrays, y = mean_data(6, complete=False, n_bags=20)
    bags = Bags.from_list(arrays, ids=[f"bag{i}" for i in range(20)])
    y[3] = 99.0
    with pytest.raises(ValueError, match=r"label of bag 'bag3' is 99 .* support"):
        DistributionGPRegressor(SMALL, support=(-10, 10)).fit(bags, y)


@pytest.mark.parametrize("support", [(1, 1), (2, 1), (None, 3), "ab", (0, 1, 2), 5])
def test_a_range_that_is_none(support):
    arrays, y = mean_data(6, complete=False, n_bags=20)
    with pytest.raises(ValueError, match=r"support is .*two numbers"):
        DistributionGPRegressor(SMALL, support=support).fit(arrays, y)


def test_predictions_stay_within_their_support(tmp_path):
    arrays, y = mean_data(7, complete=False, n_bags=60)
    y = np.clip(y, -1, 1)
    model = DistributionGPRegressor(SMALL, support=(-1, 1)).fit(arrays, y)
    prediction = model.predict_dist(arrays)
    assert prediction.support == (-1.0, 1.0)
    assert (np.abs(prediction.interval(0.99)) <= 1.0).all()
    bagwise.save(model, tmp_path / "m.bagwise")
    again = bagwise.load(tmp_path / "m.bagwise").predict_dist(arrays)
    assert_allclose(again.mean, prediction.mean, rtol=0)
    assert "nll" in str(bagwise.evaluate(prediction, y))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"sampling": 2.0}, "sampling is 2.0; expected a number from 0 to 1"),
        ({"sampling": "often"}, "sampling is 'often'"),
        ({"size": "no"}, "size is 'no'"),
        ({"spread": 3}, "spread is 3"),
        ({"prior": "convolved"}, "prior is 'convolved'"),
    ],
)
def test_bad_parameters(parameters, message):
    with pytest.raises(ValueError, match=message):
        DistributionGPRegressor(SMALL).set_params(**parameters).fit(
            *mean_data(0, complete=False, n_bags=20)
        )


def test_many_bags_have_a_basis(monkeypatch):
    """With fewer bags in the basis than there are, answers hardly change."""
    data, (new, new_y) = mean_data(8, complete=False, n_bags=300), mean_data(9, complete=False)
    exact = DistributionGPRegressor(SMALL).fit(*data).predict_dist(new)
    monkeypatch.setattr(heads, "EXACT_BAGS", 200)
    monkeypatch.setattr(heads, "BASIS_BAGS", 150)
    few = DistributionGPRegressor(SMALL).fit(*data).predict_dist(new)
    assert np.corrcoef(exact.mean, few.mean)[0, 1] > 0.995
    assert_allclose(few.std.mean(), exact.std.mean(), rtol=0.1)
    y = new_y > 0
    labels = data[1] > 0
    probability = DistributionGPClassifier(SMALL).fit(data[0], labels).predict_dist(new).probability
    assert np.mean((probability > 0.5) == y) > 0.8


def test_what_was_tried_is_kept():
    arrays, y = spread_data(2, n_bags=30)
    model = DistributionGPRegressor(KernelEmbedding(8, kernel="auto")).fit(
        [np.hstack([array, -array]) for array in arrays], y
    )
    assert len(model.tried_) == 8 and np.isfinite(list(model.tried_.values())).all()
    best = sorted(model.tried_, key=model.tried_.get)[:2]
    assert any(name.startswith(type(model.features_.kernel).__name__) for name in best)


def test_two_bags_and_bags_twice():
    arrays, y = mean_data(10, complete=False, n_bags=20)
    two = DistributionGPRegressor(SMALL.set_params(n_landmarks=5)).fit(arrays[:2], y[:2])
    assert np.isfinite(two.predict_dist(arrays).var).all()
    twice = DistributionGPRegressor(SMALL).fit(arrays + arrays, np.r_[y, y])
    assert np.isfinite(twice.predict_dist(arrays).log_prob(y)).all()


def test_contributions_add_up_within_a_support():
    arrays, y = mean_data(7, complete=False, n_bags=60)
    model = DistributionGPRegressor(SMALL, support=(-1, 1)).fit(arrays, np.clip(y, -1, 1))
    why = model.explain(arrays, bag=5)
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-9)


def test_a_bag_unlike_all_others_is_no_wild_guess():
    """The linear part ends where it would go on without end, and contributions still add up."""
    arrays, y = mean_data(11, complete=False, n_bags=30)
    embedding = KernelEmbedding(kernel="linear")
    model = DistributionGPRegressor(embedding).fit(arrays, y)
    far = model.predict([np.full((5, 1), 1e6)])
    assert abs(far[0] - y.mean()) < 10 * np.ptp(y)
    why = model.explain(np.full((5, 1), 1e6))
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-6)
