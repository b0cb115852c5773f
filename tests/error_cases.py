"""The models and bags that the tests of errors share."""

import re

import numpy as np
import pytest

from bagwise import (
    Bags,
    BagwiseError,
    BayesianLinearRegressor,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)

MODELS = {
    "network": RBFNetworkRegressor,
    "bayesian": BayesianLinearRegressor,
    "frequentist": FrequentistShrinkageRegressor,
    "shrinkage": ShrinkageRegressor,
    "embedding": MeanEmbeddingRidge,
}
every_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
with_landmarks = pytest.mark.parametrize(
    "model", [cls for cls in MODELS.values() if cls is not MeanEmbeddingRidge]
)
shrinkage = pytest.mark.parametrize("model", [FrequentistShrinkageRegressor, ShrinkageRegressor])

RNG = np.random.default_rng(0)
ARRAYS = [RNG.normal(size=(4, 2)) for _ in range(6)]
Y = RNG.normal(size=6)
IDS = ["a", "b", "c", "d", "e", "f"]
BAGS = Bags.from_list(ARRAYS, ids=IDS)

FAST = {
    RBFNetworkRegressor: {},
    BayesianLinearRegressor: {},
    FrequentistShrinkageRegressor: {"prior_scale": 1.0},
    ShrinkageRegressor: {"weight_var": 1.0},
    MeanEmbeddingRidge: {},
}


def fast(model):
    n_landmarks = None if model is MeanEmbeddingRidge else 3
    return model(KernelEmbedding(n_landmarks, bandwidth=1.0), **FAST[model])


def fails(call, *parts, error=BagwiseError):
    """Call; the message has all parts in this order, and found / expected / remedy."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert re.search(".*".join(re.escape(part) for part in parts), message, re.DOTALL), message
    assert re.fullmatch(r".+; expected .+\. .+\.", message, re.DOTALL), message


def replaced(position, array):
    return [array if i == position else own for i, own in enumerate(ARRAYS)]


def with_value(value):
    array = ARRAYS[2].copy()
    array[1, 0] = value
    return replaced(2, array)
