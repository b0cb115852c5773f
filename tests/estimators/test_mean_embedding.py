"""Kernel ridge on mean embeddings against the bordered system."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge

import dense_oracle
from bagwise import FourierEmbedding, KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
from bagwise.estimators.regressors import (
    RBFNetworkRegressor,
)
from bagwise.exceptions import BagwiseError
from dense_oracle import (
    bordered_kernel_ridge,
    rbf,
)
from linear_data import standardised

# ---------------------------------------------------------------- mean embedding ridge


def naive_products(left, right, bandwidth, scaling):
    scaled = [[(x - scaling.center) / scaling.scale for x in side] for side in (left, right)]
    return np.array([[rbf(a, b, bandwidth).mean() for b in scaled[1]] for a in scaled[0]])


@pytest.mark.parametrize("second_level", ["linear", "gaussian"])
@pytest.mark.parametrize("second_scale", [1.0, 0.5])
def test_mean_embedding_ridge_solves_the_bordered_system(second_level, second_scale):
    bags, y = dense_oracle.scale_bags()
    new, _ = dense_oracle.scale_bags(seed=5, n_bags=6)
    model = MeanEmbeddingRidge(
        KernelEmbedding(bandwidth=0.8),
        second_level=second_level,
        second_scale=second_scale,
        penalty=0.1,
    ).fit(bags, y)
    products = {
        name: naive_products(left, right, model.bandwidth_, model.scaling_)
        for name, left, right in (("train", bags, bags), ("new", new, bags), ("own", new, new))
    }
    K, cross = products["train"], products["new"]
    if second_level == "gaussian":
        norms = np.diag(K)
        squared = norms[:, None] + norms - 2 * K
        var = np.median(squared[np.triu_indices(len(y), 1)]) / 2 * second_scale**2
        gaps = np.diag(products["own"])[:, None] + norms - 2 * cross
        K, cross = np.exp(-squared / (2 * var)), np.exp(-gaps / (2 * var))
    dual, gamma = bordered_kernel_ridge(K, np.ones((len(y), 1)), standardised(y), 0.1)
    expected = y.mean() + y.std() * (cross @ dual + gamma[0])
    assert_allclose(model.predict(new), expected, rtol=1e-8)


def test_mean_embedding_ridge_with_covariates_solves_the_bordered_system():
    bags, y = dense_oracle.scale_bags()
    C = np.random.default_rng(0).normal(3.0, 2.0, (24, 2))
    given = Bags.from_list(bags, covariates=C)
    model = MeanEmbeddingRidge(penalty=0.1).fit(given, y)
    K = naive_products(bags, bags, model.bandwidth_, model.scaling_)
    F = np.column_stack([np.ones(24), C])
    dual, gamma = bordered_kernel_ridge(K, F, standardised(y), 0.1)
    expected = y.mean() + y.std() * (K @ dual + F @ gamma)
    assert_allclose(model.predict(given), expected, rtol=1e-8)


def test_linear_mean_embedding_ridge_is_the_network_with_endless_fourier_features():
    bags, y = dense_oracle.scale_bags()
    exact = MeanEmbeddingRidge(penalty=0.1).fit(bags, y)
    network = RBFNetworkRegressor(FourierEmbedding(6000, bandwidth=1.0), penalty=0.1).fit(bags, y)
    assert_allclose(network.predict(bags), exact.predict(bags), atol=0.02)


@pytest.mark.parametrize("second_level", ["linear", "gaussian"])
def test_every_point_a_landmark_is_the_exact_sum(second_level):
    bags, y = dense_oracle.scale_bags(n_bags=12)
    bags, new = [bag[:4] for bag in bags], dense_oracle.scale_bags(seed=5, n_bags=6)[0]
    settings = {"second_level": second_level, "penalty": 0.1}
    exact = MeanEmbeddingRidge(KernelEmbedding(bandwidth=0.5), **settings).fit(bags, y)
    n_points = sum(map(len, bags))
    projected = MeanEmbeddingRidge(
        KernelEmbedding(n_points, bandwidth=0.5), exact=False, **settings
    ).fit(bags, y)
    assert_allclose(projected.predict(bags), exact.predict(bags), rtol=1e-6)
    if second_level == "linear":  # norms of new bags outside the span differ
        assert_allclose(projected.predict(new), exact.predict(new), rtol=1e-6)
    assert projected.penalty_ == exact.penalty_ == 0.1


@pytest.mark.parametrize("exact", [True, False])
def test_auto_keeps_the_bandwidth_with_the_least_leave_one_out_error(exact):
    bags, y = dense_oracle.scale_bags(n_bags=20)
    n_landmarks = None if exact else 6

    def fitted(bandwidth):
        embedding = KernelEmbedding(n_landmarks, bandwidth=bandwidth)
        return MeanEmbeddingRidge(embedding, exact=exact).fit(bags, y)

    each = [fitted(scale) for scale in (0.5, 1.0, 2.0, 4.0)]
    best = min(each, key=lambda model: model.predict_dist(bags).std[0])
    assert fitted("auto").bandwidth_ == best.bandwidth_
    assert_allclose(fitted("auto").predict(bags), best.predict(bags), rtol=1e-10)


def test_landmarks_are_forgotten_by_an_exact_fit():
    bags, y = dense_oracle.scale_bags(n_bags=12)
    model = MeanEmbeddingRidge(KernelEmbedding(5, bandwidth=1.0), exact=False).fit(bags, y)
    assert model.landmarks_.shape == (5, 2)
    model.set_params(embedding__n_landmarks=None, exact=True).fit(bags, y)
    assert not hasattr(model, "landmarks_")
    assert_allclose(model.predict(bags), MeanEmbeddingRidge().fit(bags, y).predict(bags))


def test_mean_embedding_ridge_with_the_linear_kernel_is_ridge_on_the_means():
    bags, y = dense_oracle.scale_bags()
    model = MeanEmbeddingRidge(
        KernelEmbedding(kernel="linear", standardize=False), penalty=0.1
    ).fit(bags, y)
    means = np.array([bag.mean(axis=0) for bag in bags])
    theirs = Ridge(alpha=0.1).fit(means, standardised(y))
    assert_allclose(model.predict(bags), y.mean() + y.std() * theirs.predict(means), rtol=1e-8)


def test_mean_embedding_ridge_deviation_is_the_leave_one_out_error():
    bags, y = dense_oracle.scale_bags(n_bags=12)
    model = MeanEmbeddingRidge(penalty=0.1).fit(bags, y)
    K, labels = naive_products(bags, bags, model.bandwidth_, model.scaling_), standardised(y)
    errors = []
    for i in range(12):
        keep = np.arange(12) != i
        dual, gamma = bordered_kernel_ridge(
            K[np.ix_(keep, keep)], np.ones((11, 1)), labels[keep], 0.1
        )
        errors.append(labels[i] - K[i, keep] @ dual - gamma[0])
    expected = y.std() * np.sqrt(np.mean(np.square(errors)))
    assert_allclose(model.predict_dist(bags).std, expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"second_level": "rbf"}, 'second_level is \'rbf\'; expected "linear" or "gaussian"'),
        ({"penalty": "validation"}, "penalty is 'validation'; expected a number > 0 or 'loo'"),
        ({"embedding__bandwidth": "wide"}, "bandwidth is 'wide'; expected a number > 0 or 'auto'"),
        ({"exact": 1}, "exact is 1; expected True or False"),
        ({"embedding__n_landmarks": 5}, "n_landmarks with exact sums .*Give exact=False"),
        ({"embedding__landmarks": [[0.0, 1.0]]}, "landmarks with exact sums .*Give exact=False"),
        ({"embedding": FourierEmbedding()}, "Fourier features with exact sums .*Give exact=False"),
        ({"second_level": "gaussian", "second_scale": 0.0}, "second_scale is 0.0"),
        ({"embedding__standardize": "yes"}, "standardize is 'yes'; expected True or False"),
    ],
    ids=str,
)
def test_wrong_parameters_of_mean_embedding_ridge_are_named(options, message):
    bags, y = dense_oracle.scale_bags(n_bags=6)
    with pytest.raises(BagwiseError, match=message):
        MeanEmbeddingRidge().set_params(**options).fit(bags, y)
