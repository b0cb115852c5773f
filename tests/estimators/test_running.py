"""Points that keep coming: sums that grow give what all points at once give."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import bagwise
from bagwise import Bags, KernelEmbedding
from bagwise.embedding.running import RunningSums
from bagwise.embedding.sums import summarise
from bagwise.estimators.base import Pooled
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError

EIGHT = KernelEmbedding(8, bandwidth=1.0)
REGRESSORS = {
    "network": bagwise.RBFNetworkRegressor(EIGHT),
    "bayesian": bagwise.BayesianLinearRegressor(EIGHT),
    "frequentist": bagwise.FrequentistShrinkageRegressor(EIGHT),
    "shrinkage": bagwise.ShrinkageRegressor(EIGHT),
    "shrinkage-fourier": bagwise.ShrinkageRegressor(bagwise.FourierEmbedding(8, bandwidth=1.0)),
    "bdr": bagwise.BDRRegressor(EIGHT, inference="laplace"),
    "ridge": bagwise.MeanEmbeddingRidge(EIGHT, exact=False, second_level="gaussian"),
    "gp": bagwise.DistributionGPRegressor(EIGHT),
    "gp-counts": bagwise.DistributionGPRegressor(EIGHT, likelihood="poisson"),
}
CLASSIFIERS = {
    "logistic": bagwise.BayesianLogisticClassifier(EIGHT),
    "shrinkage-classes": bagwise.ShrinkageClassifier(EIGHT),
    "bdr-classes": bagwise.BDRClassifier(EIGHT, inference="laplace"),
    "gp-classes": bagwise.DistributionGPClassifier(EIGHT),
}
ALL = REGRESSORS | CLASSIFIERS


class Problem:
    """Rows in any order, of bags with names, weights and a covariate; cut into batches."""

    def __init__(self, n_bags=40, n_points=900, seed=0, weighted=True):
        rng = np.random.default_rng(seed)
        self.names = np.array([f"bag {i}" for i in range(n_bags)])
        self.level = rng.uniform(1, 2, n_bags)
        self.of_row = np.concatenate([np.arange(n_bags), rng.integers(0, n_bags, n_points)])
        self.of_row[n_bags:] = rng.permutation(self.of_row[n_bags:])
        self.points = rng.normal(self.level[self.of_row, None], 0.5, (len(self.of_row), 2))
        self.weights = rng.uniform(0.1, 5, len(self.of_row)) if weighted else None
        self.age = rng.uniform(20, 70, (n_bags, 1))

    def bags(self, rows=slice(None)):
        rows = np.arange(len(self.of_row))[rows]
        found, first = np.unique(self.of_row[rows], return_index=True)
        in_order = found[np.argsort(first)]
        return Bags.from_groups(
            self.points[rows],
            self.names[self.of_row[rows]],
            weights=None if self.weights is None else self.weights[rows],
            covariates=self.age[in_order],
            covariate_names=["age"],
        )

    def labels(self, name, bags):
        level = dict(zip(self.names, self.level, strict=True))
        found = np.array([level[bag] for bag in bags.ids])
        if name in CLASSIFIERS:
            return np.where(found > 1.5, "high", "low")
        return np.round(20 * found) if "counts" in name else found


@pytest.mark.parametrize("weighted", [True, False])
def test_sums_in_any_batches_are_those_of_all_points(weighted):
    problem = Problem(weighted=weighted)
    whole = problem.bags()
    model = bagwise.ShrinkageRegressor(EIGHT).fit(whole, problem.labels("", whole))
    expected = summarise(whole, model.features_)
    sums = model.sums(problem.bags(slice(0, 60)), refit=True)
    for start in range(60, len(problem.points), 7):
        assert sums.add_bags(problem.bags(slice(start, start + 7)))
    assert_array_equal(sums.ids, whole.ids)
    assert_array_equal(sums.sizes, whole.sizes)
    found = sums.stats()
    assert_allclose(found.mean, expected.mean, rtol=1e-13)
    assert_allclose(found.sizes, expected.sizes, rtol=1e-13)
    assert_allclose(found.within_cov, expected.within_cov, rtol=1e-11, atol=1e-15)
    # an oracle without our sums: NumPy's weighted covariance of each bag
    bags = [np.flatnonzero(problem.of_row == i) for i in range(len(problem.names))]
    each = [
        np.cov(
            model.features_(problem.points[rows]).T,
            aweights=None if problem.weights is None else problem.weights[rows],
        )
        for rows in bags
        if len(rows) > 1
    ]
    assert_allclose(found.within_cov, np.mean(each, axis=0), rtol=1e-9, atol=1e-14)


# One of each head; all models go by the same sums.
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("ridge", "shrinkage", "gp") else pytest.mark.long)
        for name in ALL
    ],
)
def test_a_stream_of_1000_batches_is_the_fit_of_all_points_at_once(name):
    problem = Problem(n_points=3_000)
    n_first = 400
    start, whole = problem.bags(slice(0, n_first)), problem.bags()
    model = clone(ALL[name]).partial_fit(start, problem.labels(name, start))
    cuts = np.linspace(n_first, len(problem.points), 1_001).astype(int)
    rows = [slice(a, b) for a, b in pairwise(cuts)]
    for number, part in enumerate(rows[:-1]):
        bags = problem.bags(part)
        model.sums_.add_bags(bags, problem.labels(name, bags), batch=f"{number}")
    last = problem.bags(rows[-1])
    model.partial_fit(last, problem.labels(name, last), batch="last")
    assert len(model.sums_.batches) == 1_000

    at_once = clone(ALL[name]).fit(start, problem.labels(name, start))
    y = problem.labels(name, whole)
    stats = summarise(whole, at_once.features_, covariance=at_once.needs_covariance)
    share = getattr(at_once.head_, "bag_share", None)
    at_once.fit_pooled(Pooled(at_once.features_, stats), whole, at_once.make_task(whole, y))
    if share is not None:  # what cutting bags in two has shown needs points: that of the first fit
        object.__setattr__(at_once.head_, "bag_share", share)
    new = Problem(seed=1).bags()
    for bags, summed in ((new, new), (whole, model.sums_)):
        found, expected = model.predict_dist(summed), at_once.predict_dist(bags)
        if name in CLASSIFIERS:
            assert_allclose(found.proba, expected.proba, rtol=1e-10, atol=1e-10)
        else:
            assert_allclose(found.mean, expected.mean, rtol=1e-10)
            assert_allclose(found.std, expected.std, rtol=1e-10)


def test_predictions_follow_new_points_without_the_old():
    problem = Problem()
    bags = problem.bags()
    model = bagwise.ShrinkageRegressor(EIGHT).partial_fit(bags, problem.labels("", bags))
    rng = np.random.default_rng(3)
    more = Bags.from_list(
        {"bag 3": rng.normal(1.9, 0.5, (500, 2)), "new": rng.normal(1.0, 0.5, (5, 2))},
        covariates=[problem.age[3], [30.0]],
        covariate_names=["age"],
    )
    before = model.predict_dist(bags[3:4])
    found = model.update(more)
    assert found.ids.tolist() == ["bag 3", "new"]
    assert found.std[0] < before.std[0] < found.std[1]
    old = bags[3:4]
    together = Bags.from_list(
        [np.concatenate([old.points, more[0]])],
        ids=["bag 3"],
        weights=[np.concatenate([old.weights, np.ones(500)])],
        covariates=[problem.age[3]],
        covariate_names=["age"],
    )
    assert_allclose(found.mean[0], model.predict(together)[0], rtol=1e-10)
    assert model.sums_.labelled.sum() == 40  # a new bag without a label has no say in the fit
    model.partial_fit(model.sums_)


def test_labels_may_come_later():
    problem = Problem()
    bags = problem.bags()
    y = problem.labels("", bags)
    model = bagwise.BayesianLinearRegressor(EIGHT).fit(bags, y)
    sums = model.sums(bags, np.where(np.arange(40) < 20, y, np.nan), refit=True)
    assert sums.labelled.sum() == 20
    sums.add_bags(problem.bags(slice(0, 50)), dict(zip(bags.ids, y, strict=True)))
    assert sums.labelled.all()
    assert_array_equal(sums.labels, y)


def test_sample_weights_are_kept():
    problem = Problem()
    bags, weights = problem.bags(), np.random.default_rng(2).uniform(0.5, 2, 40)
    y = problem.labels("", bags)
    model = bagwise.BayesianLinearRegressor(EIGHT).fit(bags, y, weights)
    before = model.predict(bags)
    model.partial_fit(model.sums(bags, y, weights))
    assert_allclose(model.predict(bags), before, rtol=1e-10)
    with pytest.raises(InvalidLabelsError, match="has the sample weight"):
        model.sums_.add_bags(bags, y, weights + 1)


def test_a_batch_is_counted_once():
    problem = Problem()
    bags = problem.bags()
    sums = bagwise.ShrinkageRegressor(EIGHT).fit(bags, problem.labels("", bags)).sums(bags)
    assert sums.add_bags(problem.bags(slice(0, 9)), batch="monday")
    before, state = sums.sums.copy(), sums.state
    with pytest.warns(BagwiseWarning, match="'monday' .9 points. was added before"):
        assert not sums.add_bags(problem.bags(slice(0, 9)), batch="monday")
    assert_array_equal(sums.sums, before)
    assert sums.state == state
    with pytest.raises(BagwiseError, match="another name for another batch"):
        sums.add_bags(problem.bags(slice(0, 8)), batch="monday")
    assert sums.add_bags(problem.bags(slice(0, 9)), batch="tuesday")
    assert sums.state != state


def test_what_is_wrong_changes_nothing():
    problem = Problem()
    bags = problem.bags()
    y = problem.labels("", bags)
    model = bagwise.ShrinkageRegressor(EIGHT).fit(bags, y)
    sums = model.sums(bags, y)
    before, state = sums.sums.copy(), sums.state
    cases = [
        (bags, y + 1, InvalidLabelsError, r"bag 'bag 0' has the label .* and now is given"),
        (bags, y[:3], InvalidLabelsError, "one label for each of 40 bags"),
        (bags, np.array(["a"] * 40), InvalidLabelsError, "labels are text"),
        (bags.with_covariates(problem.age + 1, ["age"]), y, BagwiseError, "has the age"),
        (bags.with_points(bags.points[:, :1]), y, InvalidBagsError, "1 features; expected 2"),
        (Bags.from_list([[[1.0, 2.0]]], ids=["x"]), None, InvalidBagsError, "no covariates"),
        (list(bags), y, InvalidBagsError, "the bags have no ids|no covariates"),
    ]
    for X, labels, error, match in cases:
        with pytest.raises(error, match=match):
            sums.add_bags(X, labels)
    numbered = Bags.from_array(np.zeros((1, 3, 2)), ids=[7], covariates=[[1.0]])
    with pytest.raises(InvalidBagsError, match="ids are whole numbers and those before are text"):
        sums.add_bags(numbered)
    assert_array_equal(sums.sums, before)
    assert (sums.state, sums.n_bags) == (state, 40)


def test_models_that_need_old_points_say_so():
    rng = np.random.default_rng(0)
    bags = {f"{i}": rng.normal(0, 1 + i % 2, (20, 1)) for i in range(20)}
    y = np.arange(20) % 2 + 1.0
    exact = bagwise.MeanEmbeddingRidge().fit(bags, y)
    with pytest.raises(BagwiseError, match="exact=False"):
        exact.sums(bags, y)
    centred = bagwise.DistributionGPRegressor(EIGHT, center=True).fit(bags, y)
    with pytest.raises(BagwiseError, match="center=False"):
        centred.sums(bags, y)
    model = bagwise.ShrinkageRegressor(EIGHT).fit(bags, y)
    with pytest.raises(BagwiseError, match="has not kept the sums"):
        model.update(bags)
    with pytest.raises(BagwiseError, match="no ids"):
        model.sums(list(bags.values()), y)
    without = model.sums(bags)
    assert not without.has_scatter
    with pytest.raises(InvalidLabelsError, match="no bag of the sums has a label"):
        model.partial_fit(without)
    with pytest.raises(BagwiseError, match="without the scatter within bags"):
        model.partial_fit(model.sums(bags, y, refit=False))
    other = bagwise.ShrinkageRegressor(KernelEmbedding(7, bandwidth=1.0)).fit(bags, y)
    with pytest.raises(BagwiseError, match="other features than those of the model"):
        other.predict_dist(without)
    with pytest.raises(InvalidBagsError, match="they were summed"):
        _ = without.bags.points


def test_a_new_fit_forgets_the_sums():
    problem = Problem()
    bags = problem.bags()
    y = problem.labels("", bags)
    model = bagwise.ShrinkageRegressor(EIGHT).partial_fit(bags, y)
    assert isinstance(model.sums_, RunningSums)
    assert not hasattr(model.fit(bags, y), "sums_")


def test_weights_of_any_size_and_points_of_weight_0():
    features = bagwise.ShrinkageRegressor(EIGHT)
    problem = Problem()
    bags = problem.bags()
    features = features.fit(bags, problem.labels("", bags)).features_
    points = problem.points[:6]
    weights = np.array([0.0, 1e-140, 3e-140, 1e140, 0.0, 2e140])
    whole = RunningSums.of(features, Bags.from_list([points], ids=["a"], weights=[weights]))
    parts = RunningSums.of(features, Bags.from_list([points[:3]], ids=["a"], weights=[weights[:3]]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts.add("a", points[3:], weights=weights[3:])
    expected = summarise(Bags.from_list([points], ids=["a"], weights=[weights]), features)
    for sums in (whole, parts):
        assert_allclose(sums.stats().mean, expected.mean, rtol=1e-13)
        assert_allclose(sums.effective_sizes, expected.sizes, rtol=1e-13)
        assert_allclose(sums.stats().within_cov, expected.within_cov, rtol=1e-11, atol=1e-16)
