"""Gaussian processes on distributions: what they can that linear models cannot."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bagwise
from bagwise import (
    Bags,
    BagwiseWarning,
    DistributionGPClassifier,
    DistributionGPRegressor,
    KernelEmbedding,
    ShrinkageRegressor,
)
from bagwise.estimators.kernel_choice import believed, in_doubt
from bagwise.heads import gp_fit as heads
from bagwise.heads.base import some_of

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


def uneven_data(seed, n_bags=240):
    """Points of small bags scatter far more than those of large ones, to which Σ is one."""
    rng = np.random.default_rng(seed)
    means, sizes = rng.normal(size=n_bags), np.tile([3, 24], n_bags // 2)
    sds = np.where(sizes == 3, 2.0, 0.5)
    arrays = [rng.normal(m, sd, (n, 1)) for m, sd, n in zip(means, sds, sizes, strict=True)]
    return arrays, means + 0.1 * rng.normal(size=n_bags)


def test_the_bag_part_of_large_bags_that_scatter_less_is_what_is_seen_in_halves_of_them():
    arrays, y = uneven_data(0)
    new = [array for array in uneven_data(1)[0] if len(array) == 24]
    # else τ makes up for much of it, and the size of a bag says how far to trust it
    model = DistributionGPRegressor(SMALL, sampling=1.0, size=False, prior="learnt").fit(arrays, y)
    for k in (4, 8, 12):
        few, many = (model.predict_dist([array[:n] for array in new]) for n in (k, 24))
        stated = few.parts.bag.mean() - many.parts.bag.mean()
        seen = np.mean((few.mean - many.mean) ** 2)
        assert 0.67 < seen / stated < 1.5
        assert seen / (stated / model.head_.bag_share) < 0.6  # as it would be by slopes alone


def test_at_size_is_true_of_small_and_large_bags_whose_points_scatter_differently():
    """As the polls of races that are polled often, which scatter less than those of others."""
    rng = np.random.default_rng(0)

    def drawn(n_bags):
        means, sizes = rng.normal(size=n_bags), rng.choice([4, 8, 16, 32], n_bags)
        sds = 4.0 / np.sqrt(sizes)
        arrays = [rng.normal(m, sd, (n, 1)) for m, sd, n in zip(means, sds, sizes, strict=True)]
        return arrays, means + 0.1 * rng.normal(size=n_bags)

    # else τ makes up for much of it, and the size of a bag says how far to trust it
    model = DistributionGPRegressor(SMALL, sampling=1.0, size=False, prior="learnt")
    model.fit(*drawn(400))
    new = drawn(1600)[0]
    for size in (4, 8, 16, 32):
        whole = [array for array in new if len(array) == size]
        many, few = (model.predict_dist([array[:n] for array in whole]) for n in (size, size // 2))
        stated = many.at_size(size // 2).parts.bag.mean() - many.parts.bag.mean()
        seen = np.mean((few.mean - many.mean) ** 2)
        assert 0.67 < seen / stated < 1.5, (size, seen / stated)


def test_what_the_bag_part_is_more_or_less_is_the_noise():
    arrays, y = uneven_data(2)
    model = DistributionGPRegressor(SMALL).fit(arrays, y)
    found = model.predict_dist(arrays)
    for share in (0.3, 1.0, 1.9, 1e6):
        model.head_ = replace(model.head_, bag_share=share)
        other = model.predict_dist(arrays)
        assert_allclose(other.mean, found.mean, rtol=1e-12)
        assert_allclose(other.std, found.std, rtol=1e-9)
        assert (other.parts.noise > 0).all() and (other.parts.bag >= 0).all()
        # asked at its own size, a bag says what it says
        assert_allclose(other.at_size([len(array) for array in arrays]).std, found.std, rtol=1e-6)
    assert other.parts.bag.mean() > found.parts.bag.mean()


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


@pytest.mark.parametrize(
    "support",
    [(1, 1), (2, 1), (None, 3), (0, True), ("0", "9"), {0, 9}, "ab", "09", (0, 1, 2), 5],
)
def test_a_range_that_is_none(support):
    arrays, y = mean_data(6, complete=False, n_bags=20)
    with pytest.raises(ValueError, match=r"support is .*two numbers"):
        DistributionGPRegressor(SMALL, support=support).fit(arrays, y)


def test_predictions_stay_within_their_support(tmp_path):
    arrays, y = mean_data(7, complete=False, n_bags=60)
    with pytest.warns(BagwiseWarning, match="tenth of the labels are exactly -1 or 1"):
        model = DistributionGPRegressor(SMALL, support=(-1, 1)).fit(arrays, np.clip(y, -1, 1))
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
    data, (new, new_y) = mean_data(8, complete=False, n_bags=160), mean_data(9, complete=False)
    model = DistributionGPRegressor(SMALL, inference="evidence")
    exact = model.fit(*data).predict_dist(new)
    monkeypatch.setattr(heads, "EXACT_BAGS", 110)
    monkeypatch.setattr(heads, "BASIS_BAGS", 80)
    few = model.fit(*data).predict_dist(new)
    assert np.corrcoef(exact.mean, few.mean)[0, 1] > 0.995
    assert_allclose(few.std.mean(), exact.std.mean(), rtol=0.1)
    y = new_y > 0
    labels = data[1] > 0
    probability = DistributionGPClassifier(SMALL).fit(data[0], labels).predict_dist(new).probability
    assert np.mean((probability > 0.5) == y) > 0.8
    thirds = np.quantile(data[1], [1 / 3, 2 / 3])
    three = DistributionGPClassifier(SMALL).fit(data[0], np.digitize(data[1], thirds))
    assert all(len(head.alpha) == 80 for head in three.head_.heads)
    assert three.score(new, np.digitize(new_y, thirds)) > 0.6


def test_what_was_tried_is_kept():
    arrays, y = spread_data(2, n_bags=30)
    model = DistributionGPRegressor(KernelEmbedding(8, kernel="auto")).fit(
        [np.hstack([array, -array]) for array in arrays], y
    )
    # two kernels of four bandwidths, three of none, one of two; three of them with centred bags
    # too, and the linear one with deviations
    assert len(model.tried_) == 17 and np.isfinite(list(model.tried_.values())).all()
    assert sum(name.endswith("of centred bags") for name in model.tried_) == 3
    assert "Linear(bandwidth=None) with deviations" in model.tried_
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
    model = DistributionGPRegressor(SMALL, support=(-3, 3)).fit(arrays, np.clip(y, -3, 3))
    why = model.explain(arrays, bag=5)
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-9)
    assert_allclose(why.prediction, model.predict_dist(arrays)[5].latent.mean[0])
    assert "predicted latent value (the label, were its range not known) of bag 5" in why.lines()[0]


def test_fewer_points_leave_no_more_open_than_no_points():
    """Slopes go on without end, and a bag part by them was three times what labels vary by."""
    rng = np.random.default_rng(12)
    y, sizes = rng.normal(size=120), rng.choice([4, 10, 30, 100], 120)
    arrays = [np.exp(rng.normal(m, 1.5, (n, 1))) for m, n in zip(y, sizes, strict=True)]
    for likelihood, labels in (("auto", y), ("poisson", rng.poisson(np.exp(2 + y / 2)))):
        model = DistributionGPRegressor(SMALL, likelihood=likelihood).fit(arrays, labels)
        latent = model.predict_dist(arrays).latent if likelihood == "poisson" else None
        prediction = model.predict_dist(arrays) if latent is None else latent
        bag = [prediction.at_size(n).parts.bag for n in (1e-3, 1, 3)]
        varies = labels.var() if latent is None else latent.mean.var() + latent.var.mean()
        spread = 1.5  # of the noise among bags, at most
        assert (bag[0] <= spread * np.maximum(varies, prediction.parts.bag)).all()
        assert (np.diff(bag, axis=0) <= 1e-12).all()


def test_a_bag_unlike_all_others_is_no_wild_guess():
    """The linear part ends where it would go on without end, and contributions still add up."""
    arrays, y = mean_data(11, complete=False, n_bags=30)
    embedding = KernelEmbedding(kernel="linear")
    model = DistributionGPRegressor(embedding).fit(arrays, y)
    far = model.predict([np.full((5, 1), 1e6)])
    assert abs(far[0] - y.mean()) < 10 * np.ptp(y)
    why = model.explain(np.full((5, 1), 1e6))
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-6)


@pytest.mark.crossed
@pytest.mark.parametrize("sizes", [[20, 20, 20], [20, 21, 20], [5, 20, 80]])
@pytest.mark.parametrize("asked", [1, 2, 40, 100_000])
def test_a_size_that_was_hardly_seen_is_no_wild_guess(sizes, asked):
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    arrays = [rng.normal(m, 0.5, (n, 1)) for m, n in zip(y, sizes * 10, strict=True)]
    model = DistributionGPRegressor(SMALL).fit(arrays, y)
    new = rng.normal(0.0, 0.5, (asked, 1))
    assert abs(model.predict([new])[0]) < 2.0 * np.ptp(y)
    odd = Bags.from_list([new], weights=[np.r_[1.0, np.full(asked - 1, 1e-100)]])
    assert abs(model.predict(odd)[0]) < 2.0 * np.ptp(y)


@pytest.mark.parametrize("far", [1e3, -1e12])
def test_a_covariate_far_away_is_no_wild_guess(far):
    rng = np.random.default_rng(0)
    y = rng.normal(size=30)
    bags = Bags.from_list(rng.normal(size=(30, 5, 1)), covariates=y[:, None])
    model = DistributionGPRegressor(SMALL).fit(bags, y)
    away = Bags.from_list(rng.normal(size=(1, 5, 1)), covariates=[[far]])
    assert abs(model.predict(away)[0]) < 3.0 * np.ptp(y)
    why = model.explain(away)
    total = why.baseline + why.points.sum() + why.covariates.sum()
    assert_allclose(total, why.prediction, atol=1e-6)


def shape_data(seed, n_bags=120):
    """Labels are whether a bag has one heap of points or two, wherever it is."""
    rng = np.random.default_rng(seed)
    two = rng.integers(0, 2, n_bags)
    arrays = []
    for heaps in two:
        at = rng.uniform(-20, 20) + 2.0 * heaps * rng.choice([-1.0, 1.0], (40, 1))
        arrays.append(at + rng.normal(0.0, 1.0 if heaps else 2.2, (40, 1)))
    return arrays, two


def test_bags_are_centred_where_only_their_shape_counts(tmp_path):
    (bags, y), (new, new_y) = shape_data(0), shape_data(1)
    model = DistributionGPClassifier().fit(bags, y)
    assert model.features_.centred
    assert model.score(new, new_y) > 0.9
    bagwise.save(model, tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert_allclose(loaded.predict_proba(new), model.predict_proba(new), rtol=0, atol=0)
    moved = model.predict_proba([array + 1000.0 for array in new])
    assert_allclose(moved, model.predict_proba(new), atol=1e-6)
    why = model.explain(new[0])
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-6)


@pytest.mark.parametrize("model", [DistributionGPRegressor, DistributionGPClassifier])
def test_centred_is_what_one_gets_by_hand(model):
    rng = np.random.default_rng(0)
    arrays = [
        rng.normal(m, 1.0, (n, 2)) for m, n in zip(rng.normal(size=40), [2, 9] * 20, strict=True)
    ]
    y = np.array([array.std() for array in arrays])
    if model is DistributionGPClassifier:
        y = y > np.median(y)
    mine = model(SMALL, center=True).fit(arrays, y).predict_dist(arrays)
    by_hand = [array - array.mean(axis=0) for array in arrays]
    theirs = model(SMALL, center=False).fit(by_hand, y).predict_dist(by_hand)
    same = "probability" if model is DistributionGPClassifier else "mean"
    assert_allclose(getattr(mine, same), getattr(theirs, same), atol=1e-9)


def with_deviations(arrays):
    """The same by hand."""
    both = []
    for array in arrays:
        n, away = len(array), np.abs(array - array.mean(axis=0))
        both.append(np.hstack([array, np.sqrt(n / (n - 1)) * away]))
    return both


def schools(seed, n_bags=90):
    """Some bags are of one sex, which says their class; the mean of a column is 0, 1 or about ½."""
    rng = np.random.default_rng(seed)
    y = rng.random(n_bags) < 0.5
    share = np.where(y, rng.integers(0, 2, n_bags), 0.5)
    arrays = [
        np.column_stack([rng.random(n) < p, rng.normal(rng.normal(), 1.0, (n, 3))])
        for p, n in zip(share, rng.integers(15, 40, n_bags), strict=True)
    ]
    return arrays, y


@pytest.mark.parametrize("model", [DistributionGPRegressor, DistributionGPClassifier])
def test_deviations_are_what_one_gets_by_hand(model):
    arrays, y = schools(0, n_bags=40)
    labels = y if model is DistributionGPClassifier else y + 0.1 * np.arange(40)
    mine = model(SMALL, center="deviations").fit(arrays, labels)
    theirs = model(SMALL, center=False).fit(with_deviations(arrays), labels)
    found, by_hand = mine.predict_dist(arrays), theirs.predict_dist(with_deviations(arrays))
    same = "probability" if model is DistributionGPClassifier else "mean"
    assert_allclose(getattr(found, same), getattr(by_hand, same), atol=1e-9)
    # contributions are those of both columns together
    why, of_both = mine.explain(arrays, bag=3), theirs.explain(with_deviations(arrays), bag=3)
    assert why.columns.shape == (4,) and why.bag_points.shape[1] == 4
    assert_allclose(why.columns, of_both.columns[:4] + of_both.columns[4:], atol=1e-9)
    assert_allclose(why.baseline + why.points.sum(), why.prediction, atol=1e-9)
    assert_allclose(why.baseline + why.reference + why.columns.sum(), why.prediction, atol=1e-8)
    assert_allclose(why.witness(arrays[3]) * why.shares, why.points, atol=1e-12)


def test_deviations_are_taken_where_the_spread_of_a_column_of_two_values_counts(tmp_path):
    (bags, y), (new, new_y) = schools(1), schools(2, 200)
    named = Bags.from_list(bags, feature_names=["female", "a", "b", "c"])
    model = DistributionGPClassifier().fit(named, y)
    assert model.features_.centred == "deviations"
    asked = Bags.from_list(new, feature_names=named.feature_names)
    assert model.score(asked, new_y) > 0.95
    bagwise.save(model, tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert_allclose(loaded.predict_proba(asked), model.predict_proba(asked), rtol=0, atol=0)
    assert loaded.prior_ == model.prior_
    assert loaded.explain(asked, bag=0).top(1, of="columns")[0][0] == "female"
    with pytest.raises(bagwise.exceptions.BagwiseError, match="center=False"):
        model.sums(dict(enumerate(bags)), y)


def test_what_center_can_be():
    with pytest.raises(bagwise.exceptions.BagwiseError, match=r"center is 'both'.*deviations"):
        DistributionGPRegressor(SMALL, center="both").fit(*mean_data(0, complete=False, n_bags=9))
    with pytest.raises(bagwise.exceptions.BagwiseError, match="bags of one point"):
        DistributionGPRegressor(SMALL, center="deviations").fit([[[0.0]], [[1.0]]], [0.0, 1.0])


def test_the_evidence_decides_about_the_prior():
    """Bags differ in one direction of many, or labels have nothing to do with the bags."""
    rng = np.random.default_rng(0)
    level = rng.normal(size=200)
    arrays = [rng.normal(3.0 * m, 1.0, (10, 2)) for m in level]
    embedding = KernelEmbedding(20, bandwidth=1.0)
    found = {
        prior: DistributionGPRegressor(embedding, prior=prior).fit(arrays, np.sin(2 * level))
        for prior in ("auto", "learnt", "kernel")
    }
    losses = {prior: getattr(m.head_, "mode", m.head_).loss for prior, m in found.items()}
    assert 200 * (losses["kernel"] - losses["learnt"]) > 10.0
    assert found["auto"].prior_ == "learnt"
    # the same end of two searches, each of which ends where a step gains .001 in all
    assert_allclose(losses["auto"], losses["learnt"], atol=1e-4)
    nothing = DistributionGPRegressor(embedding).fit(arrays, rng.normal(size=200))
    assert nothing.prior_ == "kernel"


def test_bandwidths_alone_can_be_chosen():
    """There is then no linear kernel to which deviations would be told."""
    arrays, y = spread_data(4, n_bags=30)
    model = DistributionGPRegressor(KernelEmbedding(8)).fit(arrays, y)
    assert len(model.tried_) == 7 and not any("deviations" in name for name in model.tried_)


@pytest.mark.parametrize(("gain", "taken"), [(-5.0, "kernel"), (1.9, "kernel"), (2.1, "learnt")])
def test_in_doubt_the_prior_is_that_of_the_kernel(gain, taken):
    assert believed(1.0, 1.0 + gain / 50, n_bags=50) == taken


@pytest.mark.parametrize(
    ("losses", "taken"),
    [
        ({(False, 0): 0.0, (False, 5): 1.5, (False, 4): 1.9}, (False, 5)),  # mixed
        ({(False, 0): 0.0, (False, 5): 2.5, (False, 4): 1.9}, (False, 4)),  # the simplest
        ({(False, 4): 1.9, ("deviations", 4): 0.0}, (False, 4)),  # bags as they are
        ({(False, 4): 2.1, ("deviations", 4): 0.0}, ("deviations", 4)),
        ({(False, 5): 9.9, (True, 0): 0.0}, (False, 5)),
        ({(False, 5): 10.1, (True, 0): 0.0}, (True, 0)),
        ({(False, 5): 12.0, ("deviations", 4): 9.0, (True, 0): 0.0}, ("deviations", 4)),
    ],
)
def test_which_kernel_is_taken_in_doubt(losses, taken):
    mixed = {(way, 5) for way in (False, True, "deviations")}
    per_bag = {place: loss / 100 for place, loss in losses.items()}
    assert in_doubt(per_bag, 100, mixed) == taken


def test_bags_of_one_point_cannot_be_centred():
    with pytest.raises(bagwise.exceptions.BagwiseError, match="center"):
        DistributionGPRegressor(SMALL, center=True).fit([[[0.0]], [[1.0]]], [0.0, 1.0])


@pytest.mark.parametrize("level", [0.0, 1e8])
def test_bags_whose_points_are_all_equal_are_not_centred(level):
    rng = np.random.default_rng(0)
    y = rng.normal(size=40)
    arrays = [np.full((3, 1), level + value) for value in y]
    arrays[0] = arrays[0] + [[0.0], [0.1], [0.2]]
    model = DistributionGPRegressor(KernelEmbedding(10, kernel="auto")).fit(arrays, y)
    assert model.features_.centred is not True  # beside deviations, means are still there
    assert model.score(arrays, y) > 0.9


def test_centred_bags_may_have_too_few_points_for_all_the_landmarks_asked_for():
    rng = np.random.default_rng(0)
    y = np.tile(np.arange(1.0, 36.0), 2)  # two points each: 70 distinct ones once centred
    arrays = [rng.integers(-9, 9) * 100.0 + np.array([[-d], [d]]) for d in y]
    model = DistributionGPRegressor(KernelEmbedding(75, kernel="auto")).fit(arrays, y)
    assert np.isfinite(model.predict(arrays)).all()


def test_a_search_for_scales_does_not_end_on_a_plateau():
    """Weights make all sizes differ; a search that ended early explained a tenth as much."""
    rng = np.random.default_rng(0)
    sizes, y = rng.integers(1, 30, 120), rng.uniform(1, 2, 120)
    points = [rng.normal(0, [[s, 1.0]], (n, 2)) for s, n in zip(y, sizes, strict=True)]
    bags = Bags.from_list(points, weights=[rng.uniform(0, 2, n) for n in sizes])
    linear, process = ShrinkageRegressor().fit(bags, y), DistributionGPRegressor().fit(bags, y)
    assert np.std(process.predict(bags) - y) < 1.05 * np.std(linear.predict(bags) - y)


@pytest.mark.parametrize("model", [DistributionGPRegressor, DistributionGPClassifier])
@pytest.mark.parametrize("n", [450, 800])
def test_sizes_may_differ_among_bags_that_no_trial_has_seen(model, n):
    """Size is an input then, of whose scales the searches before know nothing."""
    rng, seen = np.random.default_rng(0), set(some_of(n, heads.TRIAL_BAGS))
    odd = [i for i in range(n) if i not in seen][:3]
    level = rng.normal(size=n)
    bags = [rng.normal(level[i], 1, (9 if i in odd else 5, 2)) for i in range(n)]
    labels = level if model is DistributionGPRegressor else level > 0
    made = model(KernelEmbedding(n_landmarks=10, kernel="rbf")).fit(bags, labels)
    assert made.score(bags, labels) > 0.85


@pytest.mark.parametrize(
    ("model", "where", "repetitions"),
    [
        (DistributionGPRegressor, "gp_evidence", "MOST_REPETITIONS"),
        (DistributionGPClassifier, "conditional", "SWEEPS"),
    ],
)
def test_a_process_that_has_not_settled_says_so(monkeypatch, model, where, repetitions):
    bags, level = mean_data(0, complete=False, n_bags=60)
    y = np.sin(level) if model is DistributionGPRegressor else level > 0
    unfitted = model(SMALL, inference="evidence")
    assert unfitted.fit(bags, y).head_.moved < 2e-5
    monkeypatch.setattr(f"bagwise.inference.{where}.{repetitions}", 1)
    monkeypatch.setattr("bagwise.inference.gp_evidence.MUCH", 2e-5)
    with pytest.warns(bagwise.BagwiseWarning, match="had not settled when its repetitions ended"):
        unfitted.fit(bags, y)


def test_one_kernel_of_centred_bags_is_enough_where_it_is_out_of_the_question():
    rng = np.random.default_rng(0)
    level = rng.normal(0, 3, 60)  # which is all that the label depends on
    bags = [rng.normal(m, 1, (8, 1)) for m in level]
    model = DistributionGPRegressor(KernelEmbedding(10, kernel="auto")).fit(bags, level)
    centred = [loss for name, loss in model.tried_.items() if name.endswith("of centred bags")]
    assert len(centred) == 1 and centred[0] > min(model.tried_.values()) + 0.5


@pytest.mark.parametrize(("n_bags", "n_points"), [(150, 100), (320, 700)])
def test_labels_that_all_points_determine_are_known_however_many_there_are(n_bags, n_points):
    """Of some of its points alone the variance of a bag is not known to many digits."""
    rng = np.random.default_rng(0)

    def drawn(n):
        means, sds = rng.uniform(-3, 3, (n, 1, 2)), rng.uniform(0.5, 2, (n, 1, 2))
        bags = means + sds * rng.normal(size=(n, n_points, 2))
        return bags, bags[:, :, 0].var(axis=1)

    model, (new, labels) = DistributionGPRegressor().fit(*drawn(n_bags)), drawn(100)
    assert model.score(new, labels) > 0.9999
    assert model.sampling_ < 0.01


def test_kernels_are_compared_on_all_points_if_these_are_few_or_nearly_determine_labels():
    known = heads.NEARLY_KNOWN - 0.1
    assert heads.compares_all(heads.EXACT_BAGS, heads.COMPARED_POINTS)
    assert not heads.compares_all(heads.EXACT_BAGS, heads.COMPARED_POINTS + 1)
    assert heads.compares_all(heads.EXACT_BAGS, heads.COMPARED_POINTS + 1, known)
    assert not heads.compares_all(heads.EXACT_BAGS, heads.COMPARED_IF_KNOWN + 1, known)
    assert not heads.compares_all(heads.EXACT_BAGS + 1, 1, known)


def test_kernels_are_tried_on_bags_of_which_one_has_several_points():
    """Else nothing is known of how points of a bag differ, and it was said that none has."""
    rng = np.random.default_rng(0)
    y = rng.normal(size=1200)
    sizes = np.ones(1200, dtype=int)
    several = np.setdiff1d(np.arange(1200), some_of(1200, heads.SEARCH_BAGS))[:40]
    sizes[several] = 20
    arrays = [rng.normal(m, 1.0, (n, 1)) for m, n in zip(y, sizes, strict=True)]
    model = DistributionGPRegressor(inference="evidence").fit(arrays, y)
    assert len(model.tried_) > 1
    large, small = model.predict_dist([rng.normal(0, 1, (20, 1)), [[0.0]]]).parts.bag
    assert large < small
