"""EmbeddingModel and EmbeddingPosterior against the dense posterior of each bag's embedding."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import dense_oracle
from bagwise import FourierEmbedding, KernelEmbedding
from bagwise.embedding import posterior
from bagwise.embedding.posterior import (
    ConvolvedPrior,
    general_model,
    kernel_model,
    kernel_prior,
    point_model,
    whitening,
    with_floor,
)
from bagwise.embedding.sums import BagStats
from bagwise.estimators import regressors
from bagwise.estimators.regressors import FrequentistShrinkageRegressor, ShrinkageRegressor
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.features.kernels import RBF, Matern
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling
from dense_oracle import embedding_posterior, rbf

UNIT = Scaling.of(np.zeros(2), np.ones(2))
BANDWIDTH, LENGTH, FLOOR = 0.6, 1.4, 0.01
SIZES = np.array([1.0, 2.0, 5.0, 5.0, 20.0, 3.7, 1000.0])


def random_covariance(rng, d):
    factor = rng.normal(size=(d, d))
    return 0.05 * factor @ factor.T / d + 0.01 * np.eye(d)


class Case:
    """Random bag statistics, with the model and the dense matrices of one prior."""

    def __init__(self, prior="kernel", other_z=False, seed=0, d=7):
        rng = np.random.default_rng(seed)
        self.u = 1.5 * rng.normal(size=(d, 2))
        self.z = 1.5 * rng.normal(size=(5, 2)) if other_z else self.u
        features = LandmarkFeatures(RBF(BANDWIDTH), UNIT, self.u, self.z if other_z else None)
        raw = random_covariance(rng, d)
        self.stats = BagStats(rng.uniform(size=(len(SIZES), d)), SIZES, raw)
        self.within_cov = raw + FLOOR * np.trace(raw) / d * np.eye(d)
        make = kernel_prior if prior == "kernel" else ConvolvedPrior
        self.priors = make(features, self.stats, FLOOR)
        self.model = self.priors.at(None if prior == "kernel" else np.log(LENGTH))
        self.prior = prior

    def r(self, x, y):
        if self.prior == "kernel":
            return rbf(x, y, BANDWIDTH)
        return dense_oracle.convolved(x, y, BANDWIDTH, LENGTH)

    def dense(self, eta, sizes=SIZES):
        """M_i − m0(z) and C_i of every bag."""
        pairs = ((self.u, self.u), (self.z, self.u), (self.z, self.z))
        R, R_z, R_zz = (eta * self.r(x, y) for x, y in pairs)
        gaps = self.stats.mean - self.stats.mean.mean(axis=0)
        both = [
            embedding_posterior(gap, size, self.within_cov, R, R_z, R_zz)
            for gap, size in zip(gaps, sizes, strict=True)
        ]
        return np.array([M for M, _ in both]), np.array([C for _, C in both])

    def dense_linear(self, w, eta, sizes=SIZES):
        """α·(M_i − m0(z)) and α^T C_i α of the function with the whitened weights w."""
        alpha = self.model.weight_map @ w
        M, C = self.dense(eta, sizes)
        return M @ alpha, np.einsum("a,nab,b->n", alpha, C, alpha)

    def posterior(self, eta):
        return self.model.posterior(self.stats, eta)

    def weights(self, n=1, seed=1):
        return np.random.default_rng(seed).normal(size=(n, self.model.weight_map.shape[1]))


def linear(posterior, w):
    """Means and variances (s, n) of functions over each bag."""
    mean, var = posterior.linear(w)
    return mean, var[:, posterior.var_of]


CASES = [
    pytest.param(prior, other_z, id=f"{prior}, {'other z' if other_z else 'z = u'}")
    for prior in ("kernel", "convolved")
    for other_z in (False, True)
]


# ---------------------------------------------------------------- against the dense posterior


def assert_close(found, expected, rtol=1e-8):
    assert_allclose(found, expected, rtol=rtol, atol=rtol * np.abs(expected).max())


@pytest.mark.parametrize(("prior", "other_z"), CASES)
@pytest.mark.parametrize("eta", [1e-3, 0.3, 50.0])
def test_mean_and_variance_of_a_function_are_those_of_the_dense_posterior(prior, other_z, eta):
    case = Case(prior, other_z)
    for w in case.weights(5):
        mean, var = linear(case.posterior(eta), w[None])
        expected_mean, expected_var = case.dense_linear(w, eta)
        assert_close(mean[0], expected_mean)
        assert_close(var[0], expected_var)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_several_draws_of_the_prior_scale_are_as_many_posteriors(prior, other_z):
    case, etas = Case(prior, other_z), np.array([1e-3, 0.3, 0.3, 50.0])
    w = case.weights(4)
    mean, var = linear(case.posterior(etas), w)
    for s, eta in enumerate(etas):
        expected_mean, expected_var = case.dense_linear(w[s], eta)
        assert_close(mean[s], expected_mean)
        assert_close(var[s], expected_var)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_at_size_has_the_means_of_today_and_the_dense_variance_of_the_size(prior, other_z):
    case, etas = Case(prior, other_z), np.array([0.1, 2.0])
    w, today = case.weights(2), case.posterior(etas)
    for size in (0.3, 40.0, np.array([2.0, 1.0, 9.0, 9.0, 1e4, 2.0, 1.0])):
        later = today.at_size(size)
        mean, var = linear(later, w)
        assert_array_equal(mean, today.linear(w)[0])
        for s, eta in enumerate(etas):
            expected = case.dense_linear(w[s], eta, np.broadcast_to(size, len(SIZES)))[1]
            assert_close(var[s], expected)
    assert_array_equal(linear(today.at_size(3.0).at_size(SIZES), w)[1], linear(today, w)[1])


@pytest.mark.parametrize(("prior", "other_z"), CASES)
@pytest.mark.parametrize("bags", [[4], [6, 0, 0, 3], SIZES > 3.0, slice(1, 4)], ids=str)
def test_taken_bags_have_the_posterior_they_had(prior, other_z, bags):
    case = Case(prior, other_z)
    w = case.weights(2)
    whole = case.posterior(np.array([0.1, 2.0]))
    for all_ in (whole, whole.at_size(np.arange(1.0, 8.0))):
        some = all_.take(bags)
        assert len(some) == len(SIZES[bags])
        assert len(some.sizes) == len(np.unique(SIZES[bags]))  # no work for bags that are gone
        for found, expected in zip(linear(some, w), linear(all_, w), strict=True):
            assert_close(found, expected[:, bags], rtol=1e-13)
    later = whole.take(bags).at_size(7.0)
    assert_close(linear(later, w)[1], linear(whole.at_size(7.0), w)[1][:, bags], rtol=1e-13)
    one = case.posterior(0.4)
    assert_close(one.take(bags).at_landmarks(), one.at_landmarks()[bags], rtol=1e-13)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_coordinates_are_a_normal_with_the_mean_and_variance_of_functions(prior, other_z):
    """A function is P w in the coordinates, and what landmarks cannot see of it."""
    case = Case(prior, other_z)
    posterior, w = case.posterior(0.3), case.weights(3)
    g = w @ case.model.function_map.T
    mean, var = linear(posterior, w)
    assert_close(g @ posterior.mean.T, mean, rtol=1e-12)
    seen = g**2 @ posterior.var[posterior.var_of].T
    assert_close(seen + 0.3 * case.model.unseen_variance(w)[:, None], var, rtol=1e-12)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_slopes_are_differences_in_the_log_of_the_prior_scale(prior, other_z):
    case, step = Case(prior, other_z), 1e-4
    back, at, ahead = (case.posterior(0.3 * np.exp(k * step)) for k in (-1, 0, 1))
    first, second = at.slopes
    for name, of in (("mean", at.size_of), ("var", slice(None))):
        before, now, after = (getattr(each, name) for each in (back, at, ahead))
        assert_close(first[of] * now, (after - before) / (2 * step), rtol=1e-6)
        assert_close(second[of] * now, (after - 2 * now + before) / step**2, rtol=1e-5)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
@pytest.mark.parametrize("etas", [[0.3], [0.01, 0.3, 7.0]], ids=["one η", "several"])
def test_slope_tells_how_the_mean_moves_with_the_features(prior, other_z, etas):
    """The average over draws of the dense α^T r(z,u) (r(u,u) + Σ/Nη)^-1."""
    case = Case(prior, other_z)
    w = case.weights(len(etas))
    for bag in (0, 4):
        posterior = case.posterior(np.array(etas)).take([bag, 1])
        expected = np.mean(
            [
                (case.model.weight_map @ row)
                @ case.r(case.z, case.u)
                @ np.linalg.inv(case.r(case.u, case.u) + case.within_cov / (SIZES[bag] * eta))
                for row, eta in zip(w, etas, strict=True)
            ],
            axis=0,
        )
        slope = posterior.slope(w @ case.model.function_map.T)
        assert_close(slope, expected, rtol=1e-7)
        gap = case.stats.mean[bag] - case.model.prior_mean
        assert_close(slope @ gap, posterior.linear(w)[0][:, 0].mean(), rtol=1e-9)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_coordinates_diagonalise_both_covariances(prior, other_z):
    case = Case(prior, other_z)
    W = case.model.projection
    assert_allclose(W.T @ case.within_cov @ W, np.eye(7), atol=1e-10)
    assert_allclose(W.T @ case.r(case.u, case.u) @ W, np.diag(case.model.spectrum), atol=1e-9)
    assert_allclose(case.model.landmark_map.T @ W, np.eye(7), atol=1e-9)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_squared_norm_of_a_function_is_that_of_its_weights(prior, other_z):
    case = Case(prior, other_z)
    (w,) = case.weights(seed=2)
    alpha = case.model.weight_map @ w
    assert_allclose(alpha @ rbf(case.z, case.z, BANDWIDTH) @ alpha, w @ w, rtol=1e-9)


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_mean_at_the_landmarks_is_the_dense_posterior_mean(prior):
    case = Case(prior)
    expected = case.stats.mean.mean(axis=0) + case.dense(0.3)[0]
    assert_allclose(case.posterior(0.3).at_landmarks(), expected, rtol=1e-8)


def test_isotropic_noise_shrinks_every_eigenvalue_as_the_paper_says():
    tau2, size = 0.3, 4.0
    u = np.random.default_rng(3).normal(size=(6, 2))
    eigenvalues, vectors = np.linalg.eigh(rbf(u, u, BANDWIDTH))
    mean = np.random.default_rng(4).uniform(size=(9, 6))
    stats = BagStats(mean, np.full(9, size), tau2 * np.eye(6))
    prior = kernel_prior(LandmarkFeatures(RBF(BANDWIDTH), UNIT, u), stats, 1e-14)
    shrunk = prior.at(None).posterior(stats, 1.0).at_landmarks()
    m0 = stats.mean.mean(axis=0)
    factors = eigenvalues / (eigenvalues + tau2 / size)
    assert_allclose((shrunk - m0) @ vectors, (stats.mean - m0) @ vectors * factors, atol=1e-10)


def test_function_landmarks_equal_to_the_landmarks_are_z_equal_u():
    case = Case()
    features = LandmarkFeatures(RBF(BANDWIDTH), UNIT, case.u, case.u.copy())
    model = kernel_prior(features, case.stats, FLOOR)
    assert model.unseen is not None
    assert_allclose(model.unseen, 0.0, atol=1e-9)
    for power, atol in ((1, 1e-8), (0, 1e-6)):
        found, expected = (
            each.spectrum[:, None] ** power * each.function_map for each in (model, case.model)
        )  # the weights of the one are those of the other, turned
        products = np.abs(found @ found.T), np.abs(expected @ expected.T)
        assert_allclose(*products, rtol=1e-7, atol=atol)


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_what_landmarks_do_not_see_is_the_conditional_covariance(prior):
    case = Case(prior, other_z=True)
    seen = case.r(case.z, case.u) @ np.linalg.solve(case.r(case.u, case.u), case.r(case.u, case.z))
    T = case.model.weight_map
    expected = T.T @ (case.r(case.z, case.z) - seen) @ T
    assert_allclose(case.model.unseen, expected, rtol=1e-7, atol=1e-8)
    w = case.weights(3)
    assert_close(case.model.unseen_variance(w), np.einsum("sa,ab,sb->s", w, expected, w), 1e-7)


def test_fourier_features_have_the_dense_posterior_with_identity_prior():
    rng = np.random.default_rng(5)
    features = FourierFeatures(UNIT, rng.normal(size=(3, 2)))
    stats = BagStats(rng.uniform(size=(len(SIZES), 6)), SIZES, random_covariance(rng, 6))
    model, eta = kernel_prior(features, stats, FLOOR), 0.2
    cov = stats.within_cov + FLOOR * np.trace(stats.within_cov) / 6 * np.eye(6)
    gaps = stats.mean - stats.mean.mean(axis=0)
    R = eta * np.eye(6)
    expected = [
        embedding_posterior(g, n, cov, R, R, R)[0] for g, n in zip(gaps, SIZES, strict=True)
    ]
    found = model.posterior(stats, eta).at_landmarks() - stats.mean.mean(axis=0)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_later_bags_are_shrunk_to_the_prior_mean_of_the_training_bags():
    case = Case()
    later = BagStats(case.stats.mean[:2] + 0.3, SIZES[:2])
    R = 0.3 * case.r(case.u, case.u)
    m0 = case.stats.mean.mean(axis=0)
    expected = [
        m0 + embedding_posterior(mean - m0, size, case.within_cov, R, R, R)[0]
        for mean, size in zip(later.mean, later.sizes, strict=True)
    ]
    assert_allclose(case.model.posterior(later, 0.3).at_landmarks(), expected, rtol=1e-8)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_endless_bags_have_their_empirical_mean_and_no_variance(prior):
    case = Case(prior)
    w = case.weights(seed=6)
    endless = replace(case.stats, sizes=np.full(len(SIZES), 1e14))
    mean, var = linear(case.model.posterior(endless, 1.0), w)
    gaps = case.stats.mean - case.stats.mean.mean(axis=0)
    assert_allclose(mean[0], gaps @ case.model.weight_map @ w[0], rtol=1e-8, atol=1e-10)
    assert (var < 1e-10 * (w @ w.T)).all()


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_an_infinite_size_leaves_what_the_landmarks_do_not_see(prior, other_z):
    case, etas = Case(prior, other_z), np.array([0.1, 1e6])
    w = case.weights(2)
    for sizes in (np.inf, np.r_[np.inf, np.ones(6)]):
        mean, var = linear(case.posterior(etas).at_size(sizes), w)
        assert np.isfinite(mean).all() and np.isfinite(var).all()
        unseen = etas * case.model.unseen_variance(w)
        assert_allclose(var[:, 0], unseen, rtol=1e-12, atol=1e-100)
    assert np.isfinite(case.posterior(0.3).at_size(np.inf).var).all()


def test_an_infinite_size_leaves_nothing_of_directions_that_are_not_there():
    u = np.repeat(np.random.default_rng(9).normal(size=(4, 2)), 2, axis=0)
    features, cov = LandmarkFeatures(RBF(0.5), UNIT, u), 0.1 * np.eye(8)
    weight_map = whitening(features.weight_gram())
    model = general_model(np.zeros(8), cov, features.kernel_prior(), weight_map)
    stats = BagStats(np.random.default_rng(0).normal(size=(3, 8)), np.ones(3))
    endless = model.posterior(stats, 2.0).at_size(np.inf)
    mean, var = endless.linear(np.ones((1, weight_map.shape[1])))
    assert np.isfinite(mean).all()
    assert_allclose(var, 0.0, atol=1e-100)


def test_endless_prior_scale_gives_the_empirical_mean():
    case = Case()
    assert_allclose(case.posterior(1e14).at_landmarks(), case.stats.mean, rtol=1e-8)


def test_vanishing_prior_scale_gives_the_prior_mean():
    case = Case()
    found = case.posterior(1e-14).at_landmarks()
    assert_allclose(found, np.tile(case.stats.mean.mean(axis=0), (len(SIZES), 1)), rtol=1e-8)
    for part in linear(case.posterior(1e-14), case.weights(seed=7)):
        assert_allclose(part, 0.0, atol=1e-9)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_variance_falls_with_the_number_of_points(prior, other_z):
    case = Case(prior, other_z)
    var = linear(case.posterior(0.5), case.weights(seed=8))[1][0]
    assert (np.diff(var[np.argsort(SIZES)]) <= 0).all() and var.min() >= 0


def test_a_point_model_believes_the_bags_and_has_no_variance():
    rng = np.random.default_rng(0)
    train, new = rng.normal(size=(2, 5, 3))
    posterior = point_model(train).posterior(BagStats(new, np.array([1.0, 2.0, 2.0, 9.0, 1e6])))
    w = rng.normal(size=(4, 3))
    assert_allclose(posterior.at_landmarks(), new, rtol=1e-12)
    for each in (posterior, posterior.at_size(7.0), posterior.at_size(np.inf)):
        mean, var = linear(each, w)
        assert_allclose(mean, w @ (new - train.mean(axis=0)).T, rtol=1e-12, atol=1e-14)
        assert_array_equal(var, np.zeros((4, 5)))
        assert not each.var.any()
    assert_allclose(posterior.take([3]).slope(w), w.mean(axis=0), rtol=1e-12)


def test_features_that_do_not_vary_leave_no_rounding_error_behind():
    mean = np.array([[1e6 + 1e-9, 1.0], [1e6, 2.0]])
    assert_array_equal(point_model(mean).posterior(BagStats(mean, np.ones(2))).t[:, 0], 0.0)


# ---------------------------------------------------------------- parts


def test_whitening_makes_the_gram_matrix_the_identity():
    u = np.random.default_rng(9).normal(size=(8, 2))
    K = rbf(u, u, 0.5)
    T = whitening(K)
    assert_allclose(T.T @ K @ T, np.eye(8), atol=1e-9)


def test_whitening_leaves_out_directions_in_which_the_gram_matrix_vanishes():
    u = np.random.default_rng(9).normal(size=(8, 2))
    K = rbf(np.vstack([u, u]), np.vstack([u, u]), 0.5)
    T = whitening(K)
    assert T.shape == (16, 8)
    assert_allclose(T.T @ K @ T, np.eye(8), atol=1e-9)


def test_floor_is_a_share_of_the_average_variance():
    cov = np.array([[3.0, 1.0], [1.0, 1.0]])
    assert_allclose(with_floor(cov, 0.1), [[3.2, 1.0], [1.0, 1.2]])


def test_floor_is_absolute_where_nothing_varies():
    assert_allclose(with_floor(np.zeros((2, 2)), 0.1), 0.1 * np.eye(2))


def hidden_directions():
    """Twelve landmarks of a wide kernel, of which one bag's points see but a few directions."""
    rng = np.random.default_rng(12)
    u = rng.normal(size=(12, 2))
    return rbf(u, u, 2.0), 0.1 * np.eye(12), rng.normal(size=(12, 12))


def test_directions_that_no_bag_sees_are_left_out_and_the_larger_the_bag_the_fewer():
    gram, cov, _ = hidden_directions()
    values = np.linalg.eigvalsh(gram)
    for size in (1.0, 100.0, 1e4):
        model = kernel_model(np.zeros(12), cov, gram, size)
        expected = values[size * values > 1e-3 * values[-1]]
        assert_allclose(model.spectrum, expected / 0.1, rtol=1e-9)
        assert model.projection.shape == model.weight_map.shape == (12, len(expected))
        assert_allclose(
            model.weight_map.T @ gram @ model.weight_map, np.eye(len(expected)), atol=1e-9
        )


def test_a_function_of_the_directions_left_has_the_mean_and_variance_it_had():
    gram, cov, gaps = hidden_directions()
    model, eta, size = kernel_model(np.zeros(12), cov, gram, 5.0), 0.4, 5.0
    w = np.random.default_rng(13).normal(size=(1, len(model.spectrum)))
    alpha, R = model.weight_map @ w[0], eta * gram
    solved = np.linalg.solve(R + cov / size, R)
    mean, var = linear(model.posterior(BagStats(gaps, np.full(12, size)), eta), w)
    assert_allclose(mean[0], gaps @ solved @ alpha, rtol=1e-8)
    assert_allclose(var[0], alpha @ (R - R @ solved) @ alpha, rtol=1e-8)


def test_directions_left_out_do_not_matter_to_a_point_estimate(monkeypatch):
    rng = np.random.default_rng(14)
    y = rng.uniform(1, 2, 60)
    bags = [rng.normal(x, 0.4, (12, 2)) for x in y]
    embedding = KernelEmbedding(60, bandwidth=2.0)
    few = ShrinkageRegressor(embedding).fit(bags, y)
    monkeypatch.setattr(posterior, "HIDDEN", 1e-9)
    all_ = ShrinkageRegressor(embedding).fit(bags, y)
    assert len(few.head_.w) < 0.7 * len(all_.head_.w)
    found, expected = few.predict_dist(bags), all_.predict_dist(bags)
    assert_allclose(found.mean, expected.mean, atol=0.03 * expected.std.mean())
    assert_allclose(found.std, expected.std, rtol=0.03)


def test_spectrum_is_not_negative_where_landmarks_repeat():
    u = np.repeat(np.random.default_rng(9).normal(size=(4, 2)), 2, axis=0)
    features = LandmarkFeatures(RBF(0.5), UNIT, u)
    cov = 0.1 * np.eye(8)
    weight_map = whitening(features.weight_gram())
    model = general_model(np.zeros(8), cov, features.kernel_prior(), weight_map)
    assert (model.spectrum >= 0).all() and np.isfinite(model.function_map).all()


def test_convolved_prior_starts_at_the_spread_of_the_landmarks():
    case = Case("convolved")
    assert_allclose(case.priors.start_length, np.sqrt(np.mean(np.sum(case.u**2, axis=1))))


@pytest.mark.parametrize("other_z", [False, True])
def test_slope_of_the_convolved_prior_is_the_finite_difference(other_z):
    case, step = Case("convolved", other_z), 1e-5
    slope = case.priors.slope(np.log(LENGTH))
    W, T = case.model.projection, case.model.weight_map

    def change(x, y):
        ahead = dense_oracle.convolved(x, y, BANDWIDTH, LENGTH * np.exp(step))
        return (ahead - dense_oracle.convolved(x, y, BANDWIDTH, LENGTH * np.exp(-step))) / (
            2 * step
        )

    for found, expected in (
        (slope.uu, W.T @ change(case.u, case.u) @ W),
        (slope.uz, W.T @ change(case.u, case.z) @ T),
        (slope.zz, T.T @ change(case.z, case.z) @ T),
    ):
        assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


def test_kernel_prior_has_no_length_to_differentiate_by():
    prior = Case().priors
    assert prior.start_length is None and not hasattr(prior, "slope")
    assert prior.at(None) is prior


def test_convolved_prior_needs_the_gaussian_kernel_and_landmarks():
    case = Case()
    with pytest.raises(BagwiseError, match="convolved prior was asked for with Matern"):
        ConvolvedPrior(LandmarkFeatures(Matern(1.0), UNIT, case.u), case.stats, FLOOR)
    bags, y = dense_oracle.scale_bags()
    with pytest.raises(BagwiseError, match="random Fourier features"):
        ShrinkageRegressor(FourierEmbedding(), prior="convolved").fit(bags, y)


# ---------------------------------------------------------------- through the regressors


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_repeated_landmarks_give_the_predictions_of_single_ones(prior):
    bags, y = dense_oracle.scale_bags()
    u = np.random.default_rng(10).normal(size=(6, 2)) * 1.5
    # Seen twice, each with its own floor, a landmark is seen once with half the floor.
    single = ShrinkageRegressor(
        KernelEmbedding(landmarks=u, bandwidth=1.0),
        prior=prior,
        weight_var=3.0,
        covariance_floor=0.01,
    ).fit(bags, y)
    double = ShrinkageRegressor(
        KernelEmbedding(landmarks=np.vstack([u, u]), bandwidth=1.0),
        prior=prior,
        weight_var=3.0,
        covariance_floor=0.02,
    ).fit(bags, y)
    assert_allclose(double.prior_scale_, single.prior_scale_, rtol=1e-4)
    assert_allclose(double.predict(bags), single.predict(bags), rtol=1e-5)
    assert_allclose(double.predict_dist(bags).var, single.predict_dist(bags).var, rtol=1e-4)


def test_repeated_landmarks_do_not_disturb_frequentist_shrinkage(monkeypatch):
    bags, y = dense_oracle.scale_bags()
    u = np.random.default_rng(10).normal(size=(6, 2)) * 1.5
    models = []
    for landmarks, floor in ((u, 0.01), (np.vstack([u, u]), 0.02)):
        monkeypatch.setattr(regressors, "COVARIANCE_FLOOR", floor)
        model = FrequentistShrinkageRegressor(KernelEmbedding(landmarks=landmarks, bandwidth=1.0))
        models.append(model.fit(bags, y))
    assert_allclose(models[1].prior_scale_, models[0].prior_scale_, rtol=1e-6)
    assert_allclose(models[1].predict(bags), models[0].predict(bags), rtol=1e-5)


def test_a_kernel_of_low_rank_still_shrinks_small_bags():
    rng = np.random.default_rng(11)
    y = rng.uniform(0.0, 1.0, 60)
    sizes = np.tile([2, 60], 30)
    bags = [rng.normal(s, 1.0, (n, 1)) for s, n in zip(y, sizes, strict=True)]
    model = ShrinkageRegressor(KernelEmbedding(kernel="linear")).fit(bags, y)
    # The mean of N points has the variance 1/N about the truth, itself of variance 1/12.
    best = np.array([0.5 + (bag.mean() - 0.5) * len(bag) / (len(bag) + 12.0) for bag in bags])
    assert_allclose(model.predict(bags), best, atol=0.12)


def test_all_bags_of_one_point_are_refused_with_another_model_to_use():
    bags = [np.random.default_rng(i).normal(size=(1, 2)) for i in range(5)]
    for model in (ShrinkageRegressor(), FrequentistShrinkageRegressor()):
        with pytest.raises(InvalidBagsError, match=r"every bag has one point.*BayesianLinear"):
            model.fit(bags, np.arange(5.0))
