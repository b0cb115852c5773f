"""Gaussian processes whose scales are sampled: fitted, asked, explained and saved."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import bagwise
from bagwise import DistributionGPClassifier, DistributionGPRegressor, KernelEmbedding
from bagwise.heads import gp_fit
from bagwise.inference import NUTS
from bagwise.inference.second_level import Scales
from bagwise.predictions.mixture import MixturePrediction

pytestmark = pytest.mark.filterwarnings("ignore:the draws should not be trusted yet")

SMALL = KernelEmbedding(8, bandwidth=1.0)
FEW = NUTS(chains=2, draws=12, warmup=10, target_accept=0.7, progress=False)


def make_data(seed, n_bags=40):
    """Bags of three sizes; the label is their mean, and what is left of it a little noise."""
    rng = np.random.default_rng(seed)
    level, sizes = rng.normal(size=n_bags), rng.choice([3, 30], n_bags)
    arrays = [rng.normal(x, 1.0, (n, 1)) for x, n in zip(level, sizes, strict=True)]
    return arrays, level + 0.3 * rng.normal(size=n_bags)


ARRAYS, Y = make_data(0)
NEW, NEW_Y = make_data(1, 30)
FEWER = NUTS(chains=2, draws=6, warmup=4, target_accept=0.7, progress=False)  # of what takes long
COUNTS = {"likelihood": "poisson", "inference": FEWER}
MODELS = {
    "real": (DistributionGPRegressor, {"likelihood": "gaussian"}, Y),
    "evidence": (DistributionGPRegressor, {"likelihood": "gaussian", "inference": "evidence"}, Y),
    "positive": (DistributionGPRegressor, {"likelihood": "positive"}, np.exp(Y)),
    "counts": (DistributionGPRegressor, COUNTS, np.floor(np.exp(Y + 1.0))),
    "three": (DistributionGPClassifier, {"inference": FEWER}, np.digitize(Y, [-0.5, 0.5])),
}


@cache
def fitted(name):
    cls, params, labels = MODELS[name]
    return cls(SMALL, **({"inference": FEW} | params)).fit(ARRAYS, labels)


SAMPLED = [name for name in MODELS if name != "evidence"]
REGRESSORS = [name for name in SAMPLED if MODELS[name][0] is DistributionGPRegressor]


def test_a_prediction_is_the_mixture_over_some_draws():
    prediction, draws = fitted("real").predict_dist(NEW), fitted("real").draws_
    assert isinstance(prediction, MixturePrediction)
    assert gp_fit.PROCESSES // 2 < prediction.n_draws <= gp_fit.PROCESSES
    assert set(draws) <= set(Scales.names()) and all(
        x.shape == (2, FEW.draws) for x in draws.values()
    )
    means, variances = prediction.components
    assert_allclose(prediction.mean, means.mean(axis=0), rtol=1e-12)
    assert_allclose(prediction.var, variances.mean(axis=0) + means.var(axis=0), rtol=1e-10)


@pytest.mark.parametrize("name", REGRESSORS)
def test_parts_add_up_and_larger_bags_leave_less_open(name):
    prediction = fitted(name).predict_dist(NEW)
    parts = prediction.parts
    assert_allclose(parts.bag + parts.weights + parts.noise, prediction.var, rtol=1e-12)
    more = prediction.at_size(1e6)
    assert (more.parts.bag < 0.1 * parts.bag).all() and (parts.weights > 0).all()
    said = getattr(prediction, "latent", prediction)
    later = getattr(more, "latent", more)
    location = (getattr(each, "location", each.mean) for each in (said, later))
    assert_allclose(*location, rtol=1e-12)
    assert_allclose(prediction[3:5].var, prediction.var[3:5], rtol=1e-12)


def test_intervals_are_no_narrower_than_those_of_the_evidence():
    sampled, best = fitted("real").predict_dist(NEW), fitted("evidence").predict_dist(NEW)
    wide, narrow = (np.diff(each.interval(0.9)).mean() for each in (sampled, best))
    assert 1.0 < wide / narrow < 2.0
    assert np.corrcoef(sampled.mean, best.mean)[0, 1] > 0.95


def test_probabilities_add_up_and_follow_the_classes():
    model = fitted("three")
    proba = model.predict_proba(ARRAYS)
    assert_allclose(proba.sum(axis=1), 1.0, rtol=1e-12)
    labels = MODELS["three"][2]
    guessed = np.log(np.bincount(labels) / len(labels))[labels]  # by how common each class is
    assert model.predict_dist(ARRAYS).log_prob(labels).mean() > guessed.mean() + 0.2
    assert all(x.shape == (2, FEWER.draws) for x in model.draws_.values())


@pytest.mark.parametrize("name", ["real", "counts"])
def test_explanations_add_up(name):
    explanation = fitted(name).explain(NEW, bag=2)
    total = explanation.baseline + explanation.points.sum() + explanation.covariates.sum()
    assert_allclose(total, explanation.prediction, atol=1e-8)


@pytest.mark.parametrize("name", SAMPLED)
def test_a_saved_model_is_the_same(name, tmp_path):
    model = fitted(name)
    bagwise.save(model, tmp_path / "model.bagwise")
    loaded = bagwise.load(tmp_path / "model.bagwise")
    assert_array_equal(loaded.predict(NEW), model.predict(NEW))
    before, after = (each.predict_dist(NEW).to_dict() for each in (model, loaded))
    assert all(np.array_equal(before[column], after[column]) for column in before)
    assert loaded.diagnostics_ == model.diagnostics_ is not None
    assert loaded.inference == model.inference


def test_the_seed_decides_the_draws():
    same, other = (
        DistributionGPRegressor(embedding, likelihood="gaussian", inference=FEW).fit(ARRAYS, Y)
        for embedding in (SMALL, clone(SMALL).set_params(random_state=1))
    )
    assert_array_equal(same.predict(NEW), fitted("real").predict(NEW))
    assert not np.array_equal(other.predict(NEW), same.predict(NEW))


def test_of_many_bags_some_are_the_basis_of_all(monkeypatch):
    monkeypatch.setattr(gp_fit, "SEARCH_BAGS", 30)
    model = DistributionGPRegressor(SMALL, likelihood="gaussian", inference=FEW).fit(ARRAYS, Y)
    assert {len(each.alpha) for each in model.head_.drawn} == {30}
    whole, some = fitted("real").predict(NEW), model.predict(NEW)
    assert np.mean((whole - some) ** 2) < 0.05 * whole.var()


def test_labels_that_are_all_the_same_leave_nothing_to_draw():
    model = DistributionGPRegressor(SMALL, inference="nuts").fit(ARRAYS, np.ones(len(Y)))
    assert model.draws_ is None and model.diagnostics_ is None
    assert_allclose(model.predict(NEW), 1.0, atol=1e-6)


@pytest.mark.filterwarnings("default")
def test_draws_that_are_too_few_are_told():
    few = NUTS(chains=2, draws=8, warmup=2, progress=False)
    with pytest.warns(bagwise.BagwiseWarning, match=r"should not be trusted yet.*NUTS\(draws="):
        DistributionGPRegressor(SMALL, inference=few).fit(ARRAYS, Y)


@pytest.mark.parametrize("inference", ["laplace", 3, None])
def test_an_unknown_inference_is_an_error_before_the_fit(inference):
    with pytest.raises(
        ValueError, match=r'inference is .*expected "auto", "average", "evidence", "nuts" or'
    ):
        DistributionGPRegressor(SMALL).set_params(inference=inference).fit(ARRAYS, Y)


@pytest.mark.slow
def test_a_search_is_by_evidence_and_what_it_finds_is_sampled():
    model = DistributionGPRegressor(SMALL, inference=FEW)
    grid = {"sampling": [0.0, 1.0]}
    found = bagwise.tune(model, ARRAYS, Y, validation=(NEW, NEW_Y), grid=grid, progress=False)
    for row in found.table:
        by_hand = DistributionGPRegressor(SMALL, sampling=row["sampling"]).fit(ARRAYS, Y)
        expected = bagwise.metrics.nll(by_hand.predict_dist(NEW), NEW_Y)
        assert_allclose(row["score"], expected, rtol=1e-10)
    assert found.estimator.diagnostics_.n_draws == FEW.draws
