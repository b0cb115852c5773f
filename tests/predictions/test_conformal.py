"""Conformal predictions against the formulas of the papers, written out bag by bag."""

import pickle
from itertools import pairwise
from math import ceil, floor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import quad
from scipy.stats import norm

from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.likelihoods import Binomial, Poisson, Probit
from bagwise.predictions.bounded import BoundedPrediction
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.conformal import (
    Calibration,
    ConformalPrediction,
    SizeRatio,
    conformal,
    least_bags,
    size_starts,
    support_of,
)
from bagwise.predictions.counts import CountPrediction
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.joined import Piece, joined
from bagwise.predictions.linked import PositivePrediction
from bagwise.predictions.metrics import evaluate
from bagwise.predictions.mixture import MixturePrediction

LEVELS = (0.5, 0.8, 0.9, 0.95)


def said(mean, std, sizes=None):
    parts = VarianceParts.broadcast(len(mean), bag=0.25 * std**2, noise=0.75 * std**2)
    ids = np.array([f"b{i}" for i in range(len(mean))])
    return Prediction(mean, parts, sizes=sizes, ids=ids)


def calibration(scores, model=None, sizes=None, weights=None, starts=(1.0,), **more):
    n = len(scores)
    return Calibration(
        np.asarray(scores, dtype=float),
        np.zeros(n, dtype=np.int64) if model is None else model,
        np.ones(n) if sizes is None else sizes,
        np.ones(n) if weights is None else weights,
        np.asarray(starts, dtype=float),
        **more,
    )


def one_model(n_cal=40, n=7, seed=0, **more):
    rng = np.random.default_rng(seed)
    plain = said(rng.normal(size=n), rng.uniform(0.5, 2, n), rng.integers(2, 60, n).astype(float))
    return ConformalPrediction(plain, [plain], calibration(rng.normal(size=n_cal), **more)), rng


def several(n_cal=40, n=6, folds=4, seed=0, apart=0.3, symmetric=True, **more):
    rng = np.random.default_rng(seed)
    center, sizes = rng.normal(size=n), rng.integers(2, 60, n).astype(float)
    each = [
        said(center + apart * rng.normal(size=n), rng.uniform(0.5, 2, n), sizes)
        for _ in range(folds)
    ]
    model = np.sort(np.arange(n_cal) % folds)
    found = calibration(rng.normal(size=n_cal), model, symmetric=symmetric, **more)
    return ConformalPrediction(said(center, np.ones(n), sizes), each, found)


# ---- intervals ----------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("n_cal", [19, 20, 39, 40, 99, 101])
def test_one_model_has_the_interval_of_split_conformal(level, n_cal):
    p, _ = one_model(n_cal)
    k = ceil(round(level * (n_cal + 1), 9))
    half = np.sort(np.abs(p.calibration.scores))[k - 1] * p.plain.std
    assert_allclose(p.interval(level), np.stack([p.mean - half, p.mean + half], axis=1))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("seed", range(3))
def test_several_models_have_the_interval_of_cv_plus(level, seed):
    """Barber et al. 2021, equation 11: order statistics of μ_-k(i)(x) ± R_i, out of n."""
    p = several(seed=seed)
    found, n = p.interval(level), 40
    k = ceil(round(level * (n + 1), 9))
    for j in range(len(p)):
        lower, upper = [], []
        for score, m in zip(p.calibration.scores, p.calibration.model, strict=True):
            away = abs(score) * p._each[m].std[j]
            lower.append(p._each[m].mean[j] - away)
            upper.append(p._each[m].mean[j] + away)
        assert_allclose(found[j], [sorted(lower)[n - k], sorted(upper)[k - 1]])


@pytest.mark.parametrize("seed", range(5))
def test_models_that_disagree_get_no_narrower_interval_than_cv_plus(seed):
    p = several(seed=seed, apart=10.0)
    for level in (0.2, 0.5, 0.9):
        k = ceil(round(level * 41, 9))
        m, scores = p.calibration.model, np.abs(p.calibration.scores)[:, None]
        away = scores * p._scales[m]
        lower = np.sort(p._locations[m] - away, axis=0)[40 - k]
        upper = np.sort(p._locations[m] + away, axis=0)[k - 1]
        found = p.interval(level)
        assert (found[:, 0] <= lower).all() and (found[:, 1] >= upper).all()
    assert (np.diff(p.quantile(np.linspace(0.05, 0.95, 37)), axis=1) >= 0).all()


@pytest.mark.parametrize("n_cal", [39, 40, 57])
def test_signed_scores_have_a_bound_for_each_tail(n_cal):
    p, _ = one_model(n_cal, symmetric=False)
    r = np.sort(p.calibration.scores)
    for level in LEVELS:
        low = floor(round((1 - level) / 2 * (n_cal + 1), 9))
        high = ceil(round((1 + level) / 2 * (n_cal + 1), 9))
        bounds = np.stack([r[low - 1] * p.plain.std, r[high - 1] * p.plain.std], axis=1)
        assert_allclose(p.interval(level), p.mean[:, None] + bounds)


@pytest.mark.parametrize("symmetric", [True, False])
def test_of_exchangeable_errors_exactly_the_promised_share_is_held(symmetric):
    """Each of n + 1 errors in turn is the new one: the share held is ⌈level (n + 1)⌉/(n + 1)."""
    rng = np.random.default_rng(3)
    errors, plain = rng.normal(size=41) ** 3, said(np.zeros(1), np.ones(1))
    for level in LEVELS:
        held = 0
        for i, error in enumerate(errors):
            found = calibration(np.delete(errors, i), symmetric=symmetric)
            lower, upper = ConformalPrediction(plain, [plain], found).interval(level)[0]
            held += lower <= error <= upper
        share = held / 41
        assert level <= share + 1e-12 < level + (1 if symmetric else 2) / 41


@pytest.mark.parametrize("symmetric, least", [(True, 19), (False, 39)])
def test_too_few_bags_give_infinite_intervals_and_a_warning_that_names_the_least(symmetric, least):
    p, _ = one_model(least, symmetric=symmetric)
    assert np.isfinite(p.interval(0.95)).all()
    p, _ = one_model(least - 1, symmetric=symmetric)
    with pytest.warns(
        BagwiseWarning, match=f"7 of 7 intervals .* infinite.* {least} are the least"
    ):
        assert_array_equal(p.interval(0.95), np.tile([-np.inf, np.inf], (7, 1)))
    with pytest.warns(BagwiseWarning, match="are the least"):
        assert np.isinf(p.quantile(0.975)).all()


def test_least_bags_is_the_least():
    for level in (*LEVELS, 0.99, 0.999, 2 / 3):
        n = least_bags(level)
        assert ceil(round(level * (n + 1), 9)) <= n and ceil(round(level * n, 9)) > n - 1


# ---- weights ------------------------------------------------------------------------------------


def weighted_interval(mean, std, scores, weights, own, level):
    """Tibshirani et al. 2019, lemma 1: the quantile of Σ p_i δ(V_i) + p_new δ(∞)."""
    pairs = sorted(zip(np.abs(scores), weights, strict=True))
    total, filled = sum(weights) + own, 0.0
    for score, weight in pairs:
        filled += weight
        if filled >= level * total - 1e-9:
            return mean - std * score, mean + std * score
    return -np.inf, np.inf


@pytest.mark.filterwarnings(
    "ignore:.*least for this level", "ignore:the weights leave an effective"
)
@pytest.mark.parametrize("level", LEVELS)
def test_weights_by_size_are_those_of_covariate_shift(level):
    rng = np.random.default_rng(1)
    ratio = SizeRatio(np.array([0.3, -1.2, 0.2]), center=2.0, scale=0.8)
    sizes = np.exp(rng.normal(3, 0.7, 60))
    p, _ = one_model(60, sizes=sizes, ratio=ratio)

    def true(n):
        t = (np.log(n) - 2.0) / 0.8
        return np.exp(0.3 - 1.2 * t + 0.2 * t * t)

    for j, found in enumerate(p.interval(level)):
        expected = weighted_interval(
            p.mean[j], p.plain.std[j], p.calibration.scores, true(sizes), true(p.sizes[j]), level
        )
        assert_allclose(found, expected)


def test_a_constant_ratio_changes_nothing():
    ratio = SizeRatio(np.array([1.7, 0.0, 0.0]), center=2.0, scale=0.8)
    plain, weighted = one_model()[0], one_model(ratio=ratio)[0]
    assert_allclose(weighted.interval(0.9), plain.interval(0.9))
    assert_allclose(weighted.cdf(0.3), plain.cdf(0.3))


def test_few_effective_bags_are_said():
    sizes = np.exp(np.linspace(0, 6, 60))
    ratio = SizeRatio(np.array([0.0, -3.0, 0.0]), center=0.0, scale=1.0)
    small = said(np.zeros(2), np.ones(2), np.full(2, 400.0))
    scores = np.linspace(-1, 1, 60)
    p = ConformalPrediction(small, [small], calibration(scores, sizes=sizes, ratio=ratio))
    left = np.exp(
        -18 / 59
    )  # of the weight of a bag that the next has: (1 + left)/(1 − left) in all
    few = rf"an effective {(1 + left) / (1 - left):.3g} of 60 calibration bags, fewer than the 9"
    with pytest.warns(BagwiseWarning, match=few):
        p.interval(0.9)
    first = said(np.zeros(1), np.ones(1), np.full(1, 0.5))
    p = ConformalPrediction(first, [first], p.calibration)
    with pytest.warns(BagwiseWarning, match="infinite.*weighted by how frequent their sizes"):
        assert np.isinf(p.interval(0.9)).all()


def test_size_groups_are_calibrated_by_their_own_bags():
    rng = np.random.default_rng(2)
    sizes = rng.integers(2, 60, 90).astype(float)
    starts = size_starts(sizes, 3)
    assert len(starts) == 3
    p, _ = one_model(90, sizes=sizes, starts=starts)
    found = p.interval(0.8)
    for j, size in enumerate(p.sizes):
        g = max([i for i, start in enumerate(starts) if start <= size], default=0)
        end = np.inf if g == 2 else starts[g + 1]
        mine = np.abs(p.calibration.scores[(sizes >= starts[g]) & (sizes < end)])
        half = np.sort(mine)[ceil(0.8 * (len(mine) + 1)) - 1] * p.plain.std[j]
        assert_allclose(found[j], [p.mean[j] - half, p.mean[j] + half])
    few = ConformalPrediction(
        p.plain,
        [p.plain],
        calibration([1.0] * 12, sizes=np.r_[np.ones(9), np.full(3, 30.0)], starts=(1.0, 20.0)),
    )
    with pytest.warns(BagwiseWarning, match="counts as 3 bags.*of their size alone.*fewer groups"):
        infinite = np.isinf(few.interval(0.9)).all(axis=1)
    assert_array_equal(infinite, p.sizes >= 20)


def test_groups_count_as_one_each():
    """Lee, Barber and Willett 2023: score i of group k has mass 1/((K + 1) N_k), ∞ 1/(K + 1)."""
    rng = np.random.default_rng(4)
    group = np.repeat(np.arange(25), rng.integers(1, 9, 25))
    weights = 1.0 / np.bincount(group)[group]
    p, _ = one_model(len(group), weights=weights)
    for level in (0.5, 0.8, 0.95):
        for j, found in enumerate(p.interval(level)):
            expected = weighted_interval(
                p.mean[j], p.plain.std[j], p.calibration.scores, weights, 1.0, level
            )
            assert_allclose(found, expected)
    with pytest.warns(BagwiseWarning, match="counts as 25 bags for them, each group as one"):
        assert np.isinf(p.interval(0.97)).all()


def test_bags_without_sizes_cannot_be_weighted_by_size():
    plain = said(np.zeros(1), np.ones(1))
    with pytest.raises(BagwiseError, match="the bags have no sizes"):
        ConformalPrediction(plain, [plain], calibration([1.0, 2.0], starts=(1.0, 5.0)))


# ---- the distribution ---------------------------------------------------------------------------

CASES = {
    "one": lambda: one_model()[0],
    "signed": lambda: one_model(symmetric=False)[0],
    "several": several,
    "several-signed": lambda: several(symmetric=False),
    "weighted": lambda: several(weights=np.linspace(0.2, 1, 40)),
}
every_case = pytest.mark.parametrize("p", [make() for make in CASES.values()], ids=list(CASES))


def atoms(p, j):
    """Labels that bag j may have, and their probabilities among what is finite."""
    c = p.calibration
    values, weights = [], []
    for score, m, w in zip(c.scores, c.model, c.weights, strict=True):
        away = score * p._each[m].std[j]
        both = (-abs(away), abs(away)) if c.symmetric else (away,)
        values += [p._each[m].mean[j] + x for x in both]
        weights += [w / len(both)] * len(both)
    return np.array(values), np.array(weights)


@every_case
def test_cdf_counts_labels_with_half_of_the_rest_at_either_end(p):
    for y in (-1.0, 0.2, 1.5):
        found = p.cdf(y)
        for j in range(len(p)):
            values, weights = atoms(p, j)
            expected = (weights[values <= y].sum() + 0.5) / (weights.sum() + 1.0)
            assert_allclose(found[j], expected)
    assert_array_equal(p.pit(np.full(len(p), 0.2)), p.cdf(0.2))


@every_case
def test_quantiles_rise_and_agree_with_intervals_and_cdf(p):
    q = np.linspace(0.06, 0.94, 45)
    found = p.quantile(q)
    assert (np.diff(found, axis=1) >= 0).all()
    assert_array_equal(p.quantile([0.1, 0.9]), p.interval(0.8))
    assert_array_equal(p.quantile(0.25), p.quantile([0.25])[:, 0])
    # a score at the most, and of one tail at a time half of what is at the ends
    room = (1.0 if p.calibration.symmetric else 1.5) / (p.calibration.weights.sum() + 1.0)
    for k, level in enumerate(q):
        assert_allclose(p.cdf(found[:, k]), level, rtol=0, atol=room + 1e-9)


def test_the_median_of_one_model_is_its_mean():
    p, _ = one_model()
    assert_allclose(p.quantile(0.5), p.mean)
    assert_allclose(one_model(1)[0].quantile(0.5), p.mean)


@every_case
def test_crps_is_the_integral_of_what_is_finite(p):
    y = np.linspace(-2, 2, len(p))
    found = p.crps(y)
    for j in range(0, len(p), 3):
        values, weights = atoms(p, j)
        weights = weights / weights.sum()

        def square(t, values=values, weights=weights, label=y[j]):
            return (weights[values <= t].sum() - (t >= label)) ** 2

        ends = np.unique(np.r_[values, y[j]])
        expected = sum(quad(square, a, b, limit=50)[0] for a, b in pairwise(ends))
        assert_allclose(found[j], expected, rtol=1e-6)


@every_case
def test_moments_are_those_of_what_is_finite_about_the_mean_of_the_model(p):
    assert_array_equal(p.mean, p.plain.mean)
    for j in range(len(p)):
        values, weights = atoms(p, j)
        assert_allclose(p.var[j], np.average((values - p.mean[j]) ** 2, weights=weights))
    assert_allclose(p.parts.bag / p.var, 0.25)
    assert_allclose(p.parts.noise / p.var, 0.75)
    y = np.linspace(-1, 1, len(p))
    assert_allclose(p.log_prob(y), norm(p.mean, p.std).logpdf(y))


@every_case
def test_draws_are_labels_that_may_be(p):
    drawn = p.sample(4000, random_state=0)
    assert drawn.shape == (4000, len(p))
    for j in range(len(p)):
        values, weights = atoms(p, j)
        assert np.isclose(drawn[:50, j, None], values).any(axis=1).all()
        mean = np.average(values, weights=weights)
        assert abs(drawn[:, j].mean() - mean) < 5 * p.std[j] / np.sqrt(4000)


def test_blocks_of_bags_make_no_difference(monkeypatch):
    p = several(n=11, starts=(1.0, 20.0), sizes=np.linspace(2, 60, 40))
    whole = p.quantile([0.2, 0.5, 0.7]), p.cdf(0.1), p.crps(np.zeros(11)), p.var
    monkeypatch.setattr("bagwise.predictions.conformal.BLOCK", 50)
    p = several(n=11, starts=(1.0, 20.0), sizes=np.linspace(2, 60, 40))
    for a, b in zip(
        whole, (p.quantile([0.2, 0.5, 0.7]), p.cdf(0.1), p.crps(np.zeros(11)), p.var), strict=True
    ):
        assert_allclose(a, b)


def test_a_model_without_variance_has_noise_alone():
    plain = Prediction(np.zeros(1), VarianceParts.broadcast(1))
    p = ConformalPrediction(plain, [plain], calibration([3.0] * 9, scaled=False))
    assert p.parts.noise == 9.0 and p.parts.bag == 0.0
    assert_array_equal(p.interval(0.9), [[-3.0, 3.0]])


def test_a_model_without_errors_has_a_density_still():
    plain = said(np.zeros(2), np.full(2, 3.0))
    p = ConformalPrediction(plain, [plain], calibration(np.zeros(20)))
    assert_array_equal(p.interval(0.9), np.zeros((2, 2)))
    assert_allclose(p.std, 3e-6)
    tiny = ConformalPrediction(plain, [plain], calibration(np.full(20, 1e-12), scaled=False))
    assert_allclose(tiny.std, 1e-12)  # labels may be of any unit
    assert np.isfinite(p.log_prob([0.0, 1.0])).all()


# ---- the interface ------------------------------------------------------------------------------


@every_case
def test_some_bags_are_predicted_as_among_all(p):
    for index, rows in ((2, [2]), (slice(1, 4), [1, 2, 3]), ("b3", [3]), ([4, 0], [4, 0])):
        some = p[index]
        assert type(some) is ConformalPrediction
        assert_allclose(some.interval(0.8), p.interval(0.8)[rows])
        assert_array_equal(some.ids, p.ids[rows])
        assert_array_equal(some.sizes, p.sizes[rows])
    assert_array_equal(p.bag("b1").mean, p.mean[[1]])


def test_at_size_asks_the_models_and_the_size_group_again():
    p, _ = one_model(60, sizes=np.linspace(2, 60, 60), starts=(1.0, 30.0))
    small = p.at_size(5)
    assert_array_equal(small.sizes, np.full(7, 5.0))
    half = np.sort(np.abs(p.calibration.scores[p.calibration.sizes < 30]))
    expected = half[ceil(0.8 * (len(half) + 1)) - 1] * p.plain.std
    assert_allclose(small.interval(0.8)[:, 1] - p.mean, expected)


@every_case
def test_table_repr_scores_and_pickle(p):
    frame = p.to_frame(0.8)
    columns = ["id", "size", "mean", "std", "lower", "upper", "bag_sd", "weights_sd", "noise_sd"]
    assert list(frame) == columns
    assert_array_equal(frame[["lower", "upper"]], p.interval(0.8))
    assert repr(p).startswith("ConformalPrediction(")
    assert "ConformalPrediction" in p._repr_html_()
    scores = evaluate(p, np.zeros(len(p)), level=0.8).overall
    lower, upper = p.interval(0.8).T
    assert scores["coverage"] == np.mean((lower <= 0) & (upper >= 0))
    again = pickle.loads(pickle.dumps(p))
    assert_array_equal(again.interval(0.8), p.interval(0.8))


def test_pieces_are_joined_each_with_its_own_calibration():
    first, second = one_model(30, n=3)[0], several(n=2)
    both = joined([Piece(np.array([0, 2, 4]), first), Piece(np.array([1, 3]), second)])
    assert_array_equal(both.interval(0.8)[[0, 2, 4]], first.interval(0.8))
    assert_array_equal(both.cdf(0.1)[[1, 3]], second.cdf(0.1))
    assert_array_equal(both.crps(np.zeros(5))[[1, 3]], second.crps(np.zeros(2)))


def test_labels_with_a_range_stay_within():
    parts = VarianceParts.broadcast(2, noise=1.0)
    plain = BoundedPrediction([0.2, 0.9], parts, support=(0.0, 1.0))
    far = calibration(np.linspace(1, 9, 40), scaled=False)
    p = ConformalPrediction(plain, [plain], far)
    assert_array_equal(p.interval(0.9), [[0.0, 1.0]] * 2)
    assert_array_equal(p.cdf([-0.1, 1.0]), [0.0, 1.0])
    assert (np.abs(p.sample(20, 0) - 0.5) <= 0.5).all()
    logs = PositivePrediction(Prediction([0.0], VarianceParts.broadcast(1, noise=1.0)))
    assert [x[0] for x in support_of(logs)] == [0.0, np.inf]
    latent = Prediction([0.0, 0.0], VarianceParts.broadcast(2, bag=0.1))
    counts = CountPrediction(latent, Binomial(np.array([7.0, 20.0])))
    assert_array_equal(support_of(counts), [[0.0, 0.0], [7.0, 20.0]])
    hours = CountPrediction(latent, Poisson(np.array([0.5, 2.0])))
    assert_array_equal(support_of(hours), [[0.0, 0.0], [np.inf, np.inf]])


# ---- classes ------------------------------------------------------------------------------------


def class_case(k, folds=3, n_cal=30, n=5, seed=0, **more):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(2, 60, n).astype(float)

    def one():
        latent = [
            MixturePrediction(rng.normal(size=(1, n)), np.zeros(1), sizes=sizes, ids=np.arange(n))
            for _ in range(1 if k == 2 else k)
        ]
        each = [ClassPrediction(f, Probit(), [False, True]) for f in latent]
        if k == 2:
            return ClassPrediction(latent[0], Probit(), ["a", "b"])
        return ManyClassPrediction(each, list("abcdef"[:k]))

    plain = one()
    each = [one() for _ in range(folds)] if folds > 1 else [plain]
    model = np.sort(np.arange(n_cal) % folds)
    found = calibration(rng.uniform(size=n_cal), model, scaled=False, **more)
    return conformal(plain, each, found)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("folds", [1, 3])
def test_sets_hold_the_classes_that_are_not_among_the_oddest(k, folds):
    """Romano et al. 2020, CV+: class k is in if #{i: s_i < s_-k(i)(x, k)} < level (n + 1)."""
    p = class_case(k, folds)
    for level in (0.3, 0.5, 0.8, 0.9):
        sets = p.sets(level)
        for j in range(len(p)):
            for c in range(k):
                odd = sum(
                    score < 1 - p._each[m].proba[j, c]
                    for score, m in zip(p.calibration.scores, p.calibration.model, strict=True)
                )
                assert sets[j, c] == (odd < level * 31 - 1e-9)


@pytest.mark.parametrize("k", [2, 3])
def test_sets_by_size_group_rows_and_sizes(k):
    sizes = np.linspace(2, 60, 30)
    p = class_case(k, sizes=sizes, starts=(1.0, 25.0))
    for j in range(len(p)):
        mine = (sizes < 25) == (p.sizes[j] < 25)
        model = p.calibration.model[mine]
        for c in range(k):
            said = np.array([1 - p._each[m].proba[j, c] for m in model])
            worse = np.sum(p.calibration.scores[mine] >= said) + 1
            assert_allclose(p.p_values[j, c], worse / (mine.sum() + 1))
    assert_array_equal(p[[3, 1]].p_values, p.p_values[[3, 1]])
    assert type(p[:2]) is type(p)
    assert p.at_size(3).p_values.shape == p.p_values.shape
    again = pickle.loads(pickle.dumps(p))
    assert_array_equal(again.p_values, p.p_values)


@pytest.mark.parametrize("k", [2, 3])
def test_sets_in_tables_and_scores(k):
    p = class_case(k)
    frame = p.to_frame(0.8)
    names = np.array(list("abc"[:k]))
    assert frame["set"].tolist() == ["|".join(names[row]) for row in p.sets(0.8)]
    scores = evaluate(p, ["a", "b", "b", "a", "a"], level=0.8).overall
    assert scores["set_size"] == p.sets(0.8).sum(axis=1).mean()
    assert scores["coverage"] == p.sets(0.8)[np.arange(5), [0, 1, 1, 0, 0]].mean()
    both = joined([Piece(np.array([0, 2]), p[:2]), Piece(np.array([1, 3, 4]), p[2:])])
    assert_array_equal(both.sets(0.8)[[0, 2, 1, 3, 4]], p.sets(0.8))
    assert_array_equal(both.p_values[[0, 2, 1, 3, 4]], p.p_values)
    assert "set" in both.to_frame(0.8)
    assert evaluate(both, list("abbaa"), level=0.8).overall["bags"] == 5


def test_sets_without_a_calibration_or_with_too_few_bags():
    p = class_case(2)
    with pytest.raises(BagwiseError, match=r"not calibrated.*Fit bagwise\.Conformal"):
        p.plain.sets(0.9)
    assert "set" not in p.plain.to_dict()
    with pytest.warns(BagwiseWarning, match="5 of 5 sets at level 0.99 hold all classes.* 99 are"):
        assert p.sets(0.99).all()
    with pytest.raises(BagwiseError, match="level is 2"):
        p.sets(2)
