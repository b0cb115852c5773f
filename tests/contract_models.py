"""The models and bags that the contract suite runs on."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

from bagwise import (
    Bags,
    BayesianLinearRegressor,
    BDRRegressor,
    DistributionGPRegressor,
    FourierEmbedding,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.features.kernels import Matern
from bagwise.inference import NUTS


def small(**params):
    return KernelEmbedding(8, bandwidth=1.0, **params)


SMALL = small()
GIVEN = {"weight_var": 10.0}  # variants of a model whose automatic choice is tested once

CORE = {
    "network-loo": RBFNetworkRegressor(SMALL),
    "network-validation": RBFNetworkRegressor(SMALL, penalty="validation"),
    "bayesian": BayesianLinearRegressor(SMALL),
    "frequentist": FrequentistShrinkageRegressor(SMALL, prior_scale=1.0),
    "shrinkage": ShrinkageRegressor(SMALL),
    "shrinkage-convolved": ShrinkageRegressor(SMALL, **GIVEN, prior="convolved"),
    "bdr-laplace": BDRRegressor(SMALL, inference="laplace"),
    "gp": DistributionGPRegressor(SMALL),
    "embedding-linear": MeanEmbeddingRidge(),
    "embedding-gaussian": MeanEmbeddingRidge(second_level="gaussian"),
}
MODELS = CORE | {
    "network-linear": RBFNetworkRegressor(small(kernel="linear")),
    "bayesian-fourier": BayesianLinearRegressor(FourierEmbedding(8, bandwidth=1.0)),
    "bayesian-additive": BayesianLinearRegressor(small(kernel="additive-rbf")),
    "frequentist-linear": FrequentistShrinkageRegressor(small(kernel="linear"), prior_scale=1.0),
    "shrinkage-random": ShrinkageRegressor(small(landmarks="random"), **GIVEN),
    "shrinkage-fourier": ShrinkageRegressor(FourierEmbedding(8, bandwidth=1.0), **GIVEN),
    "shrinkage-additive": ShrinkageRegressor(small(kernel="additive-rbf"), **GIVEN),
    "shrinkage-linear": ShrinkageRegressor(small(kernel="linear"), **GIVEN),
    "shrinkage-learnt": ShrinkageRegressor(SMALL, **GIVEN, prior="learnt"),
    "bdr-learnt": BDRRegressor(SMALL, inference="laplace", prior="learnt"),
    "shrinkage-matern": ShrinkageRegressor(small(kernel=Matern(smoothness=2.5)), **GIVEN),
    "gp-evidence": DistributionGPRegressor(SMALL, inference="evidence"),
    "gp-auto": DistributionGPRegressor(KernelEmbedding(8, kernel="auto")),
    "gp-kernel-prior": DistributionGPRegressor(SMALL, prior="kernel", sampling=1.0, size=False),
    "gp-student": DistributionGPRegressor(SMALL, likelihood="student"),
    "bdr-map": BDRRegressor(SMALL, inference="map"),
    "bdr-convolved": BDRRegressor(SMALL, inference="laplace", prior="convolved"),
    "embedding-matern": MeanEmbeddingRidge(KernelEmbedding(kernel="matern32", bandwidth=1.0)),
    "embedding-landmarks": MeanEmbeddingRidge(SMALL, exact=False, second_level="gaussian"),
}
LINKED = {  # labels that are a function of a latent value, or counted by one: see `labels`
    f"gp-{kind}": DistributionGPRegressor(SMALL, likelihood=kind)
    for kind in ("positive", "poisson", "negative-binomial", "binomial(400)")
}
SAMPLED = {  # once for all tests: the sampler compiles for seconds
    "bdr-nuts": BDRRegressor(SMALL, inference=NUTS(chains=2, draws=40, warmup=120, progress=False)),
    "bdr-variational": BDRRegressor(SMALL, inference="variational"),
}
CLASSES = sorted({type(model) for model in MODELS.values()}, key=lambda cls: cls.__name__)

few_draws = pytest.mark.filterwarnings(
    "ignore:the draws should not be trusted yet", "ignore:the Gaussian approximation is not close"
)
SAMPLED_NAMES = [pytest.param(name, marks=few_draws) for name in SAMPLED]

every_model = pytest.mark.parametrize("name", MODELS)
refitted_model = pytest.mark.parametrize(  # of variants, what is fitted once has other tests
    "name", [pytest.param(name, marks=() if name in CORE else pytest.mark.long) for name in MODELS]
)
every_fitted = pytest.mark.parametrize(  # needs only `fitted`
    "name", [*MODELS, *LINKED, *SAMPLED_NAMES]
)
core_model = pytest.mark.parametrize("name", CORE)  # where a test fits many times
SLOW = ("bdr-laplace", "gp")  # those that draw weights or scales
tool_model = pytest.mark.parametrize(  # where what is tested is of all models
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] * (name in SLOW))
        for name in [*CORE, "gp-evidence"]
    ],
)
core_or_sampled = pytest.mark.parametrize("name", [*CORE, *SAMPLED_NAMES])
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def make_data(seed, n_bags=30, n_features=2):
    """Bags of 2 to 12 points; the label is their true mean, in some unit.

    Of four sizes, as a Gaussian process takes time for every pair of sizes.
    """
    rng = np.random.default_rng(seed)
    level = rng.uniform(1, 2, n_bags)
    sizes = rng.choice([2, 5, 8, 12], n_bags)
    arrays = [rng.normal(x, 0.4, (n, n_features)) for x, n in zip(level, sizes, strict=True)]
    return arrays, 10 * level


ARRAYS, Y = make_data(0)
BAGS = Bags.from_list(ARRAYS)
NEW_ARRAYS, NEW_Y = make_data(1, n_bags=9)
NEW = Bags.from_list(NEW_ARRAYS)


def unfitted(name):
    return clone((MODELS | LINKED | SAMPLED)[name])


def labels(name, y):
    """Labels as the model needs them: some are counts."""
    return np.round(10 * y) if name in LINKED else y


@cache
def fitted(name):
    """Model fitted to BAGS and Y; tests that refit take `unfitted`."""
    return unfitted(name).fit(BAGS, labels(name, Y))


def quick(cls, embedding=None):
    """Model with default parameters, and without the minutes of a sampler."""
    return cls(embedding, **({"inference": "laplace"} if cls is BDRRegressor else {}))


def params_of(model):
    """Parameters of a model and of its embedding, which is not equal to a copy of itself."""
    return {name: value for name, value in model.get_params().items() if name != "embedding"}


def seeded(model, seed):
    names = [name for name in model.get_params() if name.endswith("random_state")]
    return model.set_params(**dict.fromkeys(names, seed))


def is_shrinkage(name):
    return isinstance(unfitted(name), ShrinkageRegressor | BDRRegressor | DistributionGPRegressor)


def knows_its_weights(name):
    """Whether predictions say how unsure the weights are."""
    model = unfitted(name)
    if isinstance(model, BDRRegressor):
        return model.inference != "map"
    return isinstance(model, BayesianLinearRegressor | DistributionGPRegressor)


def assert_same_prediction(a, b):
    assert_array_equal(a.mean, b.mean, strict=True)
    assert_array_equal(a.var, b.var, strict=True)


def assert_close_prediction(a, b, tolerance=1e-8):
    """Means to a share of the labels' spread, standard deviations to a share of themselves."""
    assert_allclose(a.mean, b.mean, rtol=0, atol=tolerance * Y.std())
    assert_allclose(a.std, b.std, rtol=tolerance)
