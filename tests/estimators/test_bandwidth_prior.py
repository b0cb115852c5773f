"""The prior of the kernel's bandwidth: what it chooses, and how sure that is."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import bagwise
from bagwise import (
    BagwiseError,
    BDRClassifier,
    BDRRegressor,
    FourierEmbedding,
    KernelEmbedding,
    ShrinkageClassifier,
    ShrinkageRegressor,
)

SCALES = (0.5, 1.0, 2.0, 4.0)
RNG = np.random.default_rng(0)
LEVEL = RNG.uniform(1, 2, 24)
BAGS = [RNG.normal(x, 0.4, (n, 2)) for x, n in zip(LEVEL, [4, 12] * 12, strict=True)]
HEIGHTS = np.array(["low", "middle", "high"])[np.digitize(LEVEL, [1.33, 1.66])]


def model(sd, **params):
    return BDRRegressor(KernelEmbedding(6), inference="map", bandwidth_prior=sd, **params)


def by_hand(single, y, sd):
    """Posterior weights from the evidence of a model of each bandwidth, and the normal density."""
    losses = [single(KernelEmbedding(6, bandwidth=s)).fit(BAGS, y).head_.loss for s in SCALES]
    logs = -len(y) * np.array(losses) + stats.norm.logpdf(np.log(SCALES), scale=sd)
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


@pytest.mark.parametrize("sd", [0.3, 1.0, 5.0])
def test_weights_are_those_of_evidence_times_prior(sd):
    found = model(sd).fit(BAGS, LEVEL)
    expected = by_hand(ShrinkageRegressor, LEVEL, sd)
    assert list(found.bandwidth_weights_) == ["0.5", "1", "2", "4"]
    assert_allclose(list(found.bandwidth_weights_.values()), expected, rtol=1e-6, atol=1e-12)
    median = ShrinkageRegressor(KernelEmbedding(6, bandwidth=1.0)).fit(BAGS, LEVEL).bandwidth_
    assert_allclose(found.bandwidth_, SCALES[np.argmax(expected)] * median)


def test_of_many_classes_the_evidences_are_multiplied():
    found = BDRClassifier(KernelEmbedding(6), inference="map", bandwidth_prior=0.7)
    found.fit(BAGS, HEIGHTS)
    expected = by_hand(ShrinkageClassifier, HEIGHTS, 0.7)
    assert_allclose(list(found.bandwidth_weights_.values()), expected, rtol=1e-6, atol=1e-12)


def test_a_strong_prior_decides_and_a_weak_one_does_not():
    median = ShrinkageRegressor(KernelEmbedding(6, bandwidth=1.0)).fit(BAGS, LEVEL).bandwidth_
    free, weak, strong = (model(sd).fit(BAGS, LEVEL) for sd in (None, 100.0, 0.05))
    assert free.bandwidth_ == weak.bandwidth_ != median
    assert strong.bandwidth_ == median and strong.bandwidth_weights_["1"] > 0.99
    assert free.bandwidth_weights_ == {}
    np.testing.assert_array_equal(free.predict(BAGS), weak.predict(BAGS))


@pytest.mark.parametrize("embedding", [KernelEmbedding(6, kernel="auto"), FourierEmbedding(6)])
def test_weights_of_several_kernels_are_added(embedding):
    found = BDRRegressor(embedding, inference="map", bandwidth_prior=1.0).fit(BAGS, LEVEL)
    assert_allclose(sum(found.bandwidth_weights_.values()), 1.0)


def test_it_is_saved_and_forgotten_by_the_next_fit(tmp_path):
    found = model(1.0).fit(BAGS, LEVEL)
    bagwise.save(found, tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert loaded.bandwidth_weights_ == found.bandwidth_weights_ and loaded.bandwidth_prior == 1.0
    assert found.set_params(bandwidth_prior=None).fit(BAGS, LEVEL).bandwidth_weights_ == {}


@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, "auto", True])
def test_it_is_a_number_above_zero(value):
    with pytest.raises(BagwiseError, match=r"bandwidth_prior is .*expected a finite number > 0"):
        model(None).set_params(bandwidth_prior=value).fit(BAGS, LEVEL)


@pytest.mark.parametrize("params", [{"bandwidth": 1.0}, {"kernel": "linear"}], ids=str)
def test_without_a_choice_it_would_be_left_unused(params):
    given = BDRRegressor(KernelEmbedding(6, **params), inference="map", bandwidth_prior=1.0)
    with pytest.raises(BagwiseError, match=r'that is given.*bandwidth="auto".*Leave out one'):
        given.fit(BAGS, LEVEL)
