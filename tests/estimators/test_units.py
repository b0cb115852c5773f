"""Columns that keep their units: these must not matter, also to kernels that grow with them."""

from functools import cache

import numpy as np
import pytest

from bagwise import (
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    BDRClassifier,
    BDRRegressor,
    DistributionGPClassifier,
    DistributionGPRegressor,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    RBFNetworkRegressor,
    ShrinkageClassifier,
    ShrinkageRegressor,
)
from bagwise.exceptions import BagwiseError

QUICK = {
    BDRRegressor: {"inference": "laplace"},
    BDRClassifier: {"inference": "laplace"},
    DistributionGPRegressor: {"inference": "evidence"},
}
REGRESSORS = [
    RBFNetworkRegressor,
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    ShrinkageRegressor,
    BDRRegressor,
    DistributionGPRegressor,
]
CLASSIFIERS = [
    BayesianLogisticClassifier,
    ShrinkageClassifier,
    BDRClassifier,
    DistributionGPClassifier,
]
GROWING = ["linear", "energy", "additive-energy"]


def bags_and_labels(unit):
    """Bags whose label is the level of one column, in some unit."""
    rng = np.random.default_rng(0)
    bags = [rng.normal(rng.normal(), 1, (n, 2)) for n in rng.integers(3, 9, 30)]
    labels = np.array([bag[:, 0].mean() for bag in bags]) + 0.1 * rng.normal(size=30)
    return [unit * bag for bag in bags], labels


def fitted(model, kernel, unit, **options):
    embedding = KernelEmbedding(
        kernel=kernel, standardize=False, n_landmarks=10, bandwidth=1.0, **options
    )
    bags, labels = bags_and_labels(unit)
    if model in CLASSIFIERS:
        labels = np.where(labels > np.median(labels), "high", "low")
    return model(embedding, **QUICK.get(model, {})).fit(bags, labels), bags, labels


@cache
def answers(model, kernel, unit):
    """Means, or probabilities, and standard deviations."""
    made, bags, _ = fitted(model, kernel, unit)
    if model in CLASSIFIERS:
        return made.predict_proba(bags)[:, :1]
    found = made.predict_dist(bags)
    return np.column_stack([found.mean, found.std])


@pytest.mark.crossed
@pytest.mark.parametrize("unit", [1e-8, 1e-6, 1e-3, 1e3, 1e6, 1e8])
@pytest.mark.parametrize("kernel", [*GROWING, "rbf"])
@pytest.mark.parametrize("model", [*REGRESSORS, *CLASSIFIERS])
def test_answers_do_not_depend_on_the_unit(model, kernel, unit):
    """Weights of a linear kernel are 1e3 times as large in millimetres as in metres."""
    known = answers(model, kernel, 1.0)
    np.testing.assert_allclose(answers(model, kernel, unit), known, atol=5e-3 * known[:, 0].std())


@pytest.mark.parametrize("model", REGRESSORS)
@pytest.mark.parametrize("kernel", GROWING)
def test_what_can_be_learnt_is_learnt_in_small_units(model, kernel):
    made, bags, labels = fitted(model, kernel, 1e-6)
    assert made.score(bags, labels) > 0.7


@pytest.mark.parametrize("unit", [1e-150, 1e-60, 1e-10, 1e10, 1e60, 1e149])
@pytest.mark.parametrize("kernel", GROWING)
def test_units_beyond_what_products_hold_are_refused(kernel, unit):
    for model in REGRESSORS:
        with pytest.raises(BagwiseError, match="which grows with them; expected points of 1e-09"):
            fitted(model, kernel, unit)


def test_a_weight_variance_that_is_given_is_that_of_the_weights():
    """In units a thousandth as large it is a millionth, and all else the same."""
    bags, labels = bags_and_labels(1.0)
    embedding = KernelEmbedding(kernel="linear", standardize=False)
    one = ShrinkageRegressor(embedding, weight_var=2.0).fit(bags, labels)
    bags, _ = bags_and_labels(1e-3)
    other = ShrinkageRegressor(embedding, weight_var=2e6).fit(bags, labels)
    np.testing.assert_allclose(one.predict(bags_and_labels(1.0)[0]), other.predict(bags), atol=1e-6)
