"""Odd but valid bags are fitted, and never give a NaN."""

import numpy as np
import pytest

from bagwise import (
    Bags,
    BayesianLinearRegressor,
    DistributionGPRegressor,
    FourierEmbedding,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from error_cases import (
    MODELS,
    fast,
)

# ---- odd but valid ------------------------------------------------------------------------------


def random_bags(rng, n_bags, n_features, scale=1.0):
    sizes = rng.integers(1, 6, n_bags)
    sizes[0] = 4
    return [scale * rng.normal(size=(n, n_features)) for n in sizes]


def huge(rng):
    return random_bags(rng, 8, 2, 1e12), 1e12 * rng.normal(size=8)


def tiny(rng):
    return random_bags(rng, 8, 2, 1e-12), 1e-12 * rng.normal(size=8)


def far_away(rng):
    return [1e6 + array for array in random_bags(rng, 8, 2)], 1e9 + rng.normal(size=8)


def mixed_scales(rng):
    scale = np.array([1e12, 1e-12, 1.0])
    return [array * scale for array in random_bags(rng, 8, 3)], rng.normal(size=8)


def one_odd_point(rng):
    """The same point over and over, but once."""
    arrays = [np.zeros((n, 2)) for n in rng.integers(1, 6, 8)]
    arrays[0] = np.vstack([np.zeros((3, 2)), rng.normal(size=(1, 2))])
    return arrays, rng.normal(size=8)


def equal_points_within_bags(rng):
    return [np.tile(rng.normal(size=(1, 2)), (n, 1)) for n in rng.integers(2, 6, 8)], rng.normal(
        size=8
    )


def equal_bags(rng):
    return [rng.normal(size=(4, 2))] * 6, rng.normal(size=6)


def two_bags(rng):
    return random_bags(rng, 2, 2), rng.normal(size=2)


def two_equal_labels(rng):
    return random_bags(rng, 2, 2), np.zeros(2)


def many_features(rng):
    return random_bags(rng, 10, 50), rng.normal(size=10)


def one_column_constant(rng):
    arrays = random_bags(rng, 8, 3)
    return [np.column_stack([array, np.full(len(array), 7.0)]) for array in arrays], rng.normal(
        size=8
    )


def binary(rng):
    sizes = rng.integers(2, 6, 12)
    return [rng.integers(0, 2, (n, 3)) for n in sizes], rng.integers(0, 2, 12)


def one_outlier(rng):
    arrays, y = random_bags(rng, 8, 2), rng.normal(size=8)
    arrays[3][0] = 1e3
    y[5] = 1e3
    return arrays, y


def constant_labels_but_one(rng):
    return random_bags(rng, 10, 2), np.eye(10)[3]


def collinear_covariates(rng):
    arrays = random_bags(rng, 8, 2)
    age = rng.normal(size=8)
    covariates = np.column_stack([age, 1e12 * age, np.ones(8), np.eye(8)[:, 0]])
    return Bags.from_list(arrays, covariates=covariates), rng.normal(size=8)


def extreme_weights(rng):
    arrays = random_bags(rng, 8, 2)
    weights = [10.0 ** rng.uniform(-4, 4, len(array)) for array in arrays]
    return Bags.from_list(arrays, weights=weights), rng.normal(size=8)


ODD = [
    huge, tiny, far_away, mixed_scales, one_odd_point, equal_points_within_bags, equal_bags,
    two_bags, two_equal_labels, many_features, one_column_constant, binary, one_outlier,
    constant_labels_but_one, collinear_covariates,  extreme_weights,
]  # fmt: skip

MEDIAN = KernelEmbedding(bandwidth=1.0)
GIVEN = {"weight_var": 10.0}
VARIANTS = {
    "network": RBFNetworkRegressor(MEDIAN),
    "network-validation": RBFNetworkRegressor(MEDIAN, penalty="validation"),
    "network-linear": RBFNetworkRegressor(KernelEmbedding(kernel="linear")),
    "bayesian": BayesianLinearRegressor(),
    "bayesian-given": BayesianLinearRegressor(MEDIAN, weight_var=1.0),
    "bayesian-fourier": BayesianLinearRegressor(FourierEmbedding(10)),
    "frequentist": FrequentistShrinkageRegressor(MEDIAN, penalty=0.1),
    "shrinkage": ShrinkageRegressor(MEDIAN),
    "shrinkage-linear": ShrinkageRegressor(KernelEmbedding(kernel="linear")),
    "shrinkage-additive": ShrinkageRegressor(
        KernelEmbedding(kernel="additive-matern12", bandwidth=1.0), **GIVEN
    ),
    "shrinkage-convolved": ShrinkageRegressor(MEDIAN, prior="convolved", **GIVEN),
    "gp": DistributionGPRegressor(),
    "gp-kernel": DistributionGPRegressor(MEDIAN, prior="kernel", support=(-1e30, 1e30)),
    "embedding": MeanEmbeddingRidge(),
    "embedding-gaussian": MeanEmbeddingRidge(second_level="gaussian"),
    "embedding-linear": MeanEmbeddingRidge(KernelEmbedding(kernel="linear", bandwidth=1.0)),
}


@pytest.mark.crossed
@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("odd", ODD, ids=lambda odd: odd.__name__)
def test_odd_but_valid(name, odd):
    """Finite answers with a positive standard deviation; warnings are errors here."""
    X, y = odd(np.random.default_rng(0))
    model = VARIANTS[name]
    mean, std = model.fit(X, y).predict(X, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all() and (std > 0).all()
    spread = np.ptp(y)
    assert (mean > y.min() - 10 * spread - 1e-9).all()
    assert (mean < y.max() + 10 * spread + 1e-9).all()


@pytest.mark.parametrize("seed", range(12))
def test_random_fuzz(seed):
    """Everything odd at once, drawn at random; every model."""
    rng = np.random.default_rng(seed)
    n_bags, n_features = rng.integers(2, 12), rng.integers(1, 6)
    scale = 10.0 ** rng.uniform(-9, 9, n_features)
    arrays = [array * scale for array in random_bags(rng, n_bags, n_features)]
    for _ in range(n_bags // 2):
        i, j = rng.integers(n_bags, size=2)
        arrays[i] = np.repeat(arrays[j][:1], rng.integers(1, 4), axis=0)
    arrays[0] = rng.normal(size=(3, n_features)) * scale
    arrays = [array + rng.choice([0.0, 5.0]) * scale for array in arrays]
    y = 10.0 ** rng.uniform(-9, 9) * np.round(rng.normal(size=n_bags), rng.integers(0, 3))
    weights = [rng.choice([0.5, 1.0, 2.0], len(array)) for array in arrays]
    bags = Bags.from_list(arrays, weights=weights if rng.random() < 0.5 else None)
    bags = bags.with_log_size() if rng.random() < 0.5 else bags
    sample_weight = None if rng.random() < 0.5 else rng.uniform(0.1, 1, n_bags)
    for model in MODELS.values():
        prediction = fast_for(model, bags).fit(bags, y, sample_weight).predict_dist(bags)
        assert np.isfinite(prediction.mean).all()
        assert np.isfinite(prediction.std).all() and (prediction.std > 0).all()
        assert np.isfinite(prediction.log_prob(y)).all()


def fast_for(model, bags):
    """Return the model without a number of landmarks, which few distinct points would refuse."""
    return fast(model).set_params(embedding__n_landmarks=None)
