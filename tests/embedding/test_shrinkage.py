"""The shrinkage basis against the dense posterior of each bag's embedding."""

import numpy as np
import pytest
from bagwise.heads.point import _shrunk_mean
from numpy.testing import assert_allclose

import dense_oracle
from bagwise.embedding import prior as shrinkage
from bagwise.embedding.prior import (
    ConvolvedPrior,
    KernelPrior,
    kernel_basis,
    shrinkage_basis,
    whitening,
    with_floor,
)
from bagwise.embedding.sums import BagStats
from bagwise.estimators import regressors
from bagwise.estimators.regressors import FrequentistShrinkageRegressor, ShrinkageRegressor
from bagwise.exceptions import BagwiseError, InvalidBagsError
from bagwise.features.kernels import RBF, Matern
from bagwise.features.maps import FourierFeatures, LandmarkFeatures
from bagwise.features.scaling import Scaling
from dense_oracle import embedding_posterior, rbf

UNIT = Scaling.of(np.zeros(2), np.ones(2))
BANDWIDTH, LENGTH, FLOOR = 0.6, 1.4, 0.01
SIZES = np.array([1.0, 2.0, 5.0, 5.0, 20.0, 3.7, 1000.0])


def random_covariance(rng, d):
    factor = rng.normal(size=(d, d))
    return 0.05 * factor @ factor.T / d + 0.01 * np.eye(d)


class Case:
    """Random bag statistics, with the basis and the dense matrices of one prior."""

    def __init__(self, prior="kernel", other_z=False, seed=0, d=7):
        rng = np.random.default_rng(seed)
        self.u = 1.5 * rng.normal(size=(d, 2))
        self.z = 1.5 * rng.normal(size=(5, 2)) if other_z else self.u
        features = LandmarkFeatures(RBF(BANDWIDTH), UNIT, self.u, self.z if other_z else None)
        raw = random_covariance(rng, d)
        self.stats = BagStats(rng.uniform(size=(len(SIZES), d)), SIZES, raw)
        self.within_cov = raw + FLOOR * np.trace(raw) / d * np.eye(d)
        make = KernelPrior if prior == "kernel" else ConvolvedPrior
        self.family = make(features, self.stats, FLOOR)
        self.basis, self.t = self.family.at(None if prior == "kernel" else np.log(LENGTH))
        self.prior = prior

    def r(self, x, y):
        if self.prior == "kernel":
            return rbf(x, y, BANDWIDTH)
        return dense_oracle.convolved(x, y, BANDWIDTH, LENGTH)

    def dense(self, eta):
        """M_i − m0(z) and C_i of every bag."""
        pairs = ((self.u, self.u), (self.z, self.u), (self.z, self.z))
        R, R_z, R_zz = (eta * self.r(x, y) for x, y in pairs)
        gaps = self.stats.mean - self.stats.mean.mean(axis=0)
        both = [
            embedding_posterior(gap, size, self.within_cov, R, R_z, R_zz)
            for gap, size in zip(gaps, SIZES, strict=True)
        ]
        return np.array([M for M, _ in both]), np.array([C for _, C in both])

    def moments(self, w, eta):
        """α·(M_i − m0(z)) and α^T C_i α from the basis, as its docstring has them."""
        kappa = self.basis.slack(SIZES, eta)
        gain = eta * SIZES[:, None] * kappa
        mean = np.sum(gain * self.t * (self.basis.mean_map @ w), axis=1)
        left = eta * self.basis.spectrum * kappa
        var = left @ (self.basis.spread_map @ w) ** 2 + eta * self.basis.unseen_variance(w)
        return mean, var


CASES = [
    pytest.param(prior, other_z, id=f"{prior}, {'other z' if other_z else 'z = u'}")
    for prior in ("kernel", "convolved")
    for other_z in (False, True)
]


# ---------------------------------------------------------------- against the dense posterior


@pytest.mark.parametrize(("prior", "other_z"), CASES)
@pytest.mark.parametrize("eta", [1e-3, 0.3, 50.0])
def test_mean_and_variance_of_a_function_are_those_of_the_dense_posterior(prior, other_z, eta):
    case = Case(prior, other_z)
    M, C = case.dense(eta)
    rng = np.random.default_rng(1)
    for _ in range(5):
        w = rng.normal(size=case.basis.mean_map.shape[1])
        alpha = case.basis.weight_map @ w
        mean, var = case.moments(w, eta)
        assert_allclose(mean, M @ alpha, rtol=1e-8, atol=1e-8 * np.abs(M @ alpha).max())
        expected = np.einsum("a,nab,b->n", alpha, C, alpha)
        assert_allclose(var, expected, rtol=1e-8, atol=1e-8 * expected.max())


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_basis_diagonalises_both_covariances(prior, other_z):
    case = Case(prior, other_z)
    W = case.basis.projection
    assert_allclose(W.T @ case.within_cov @ W, np.eye(7), atol=1e-10)
    assert_allclose(W.T @ case.r(case.u, case.u) @ W, np.diag(case.basis.spectrum), atol=1e-9)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_squared_norm_of_a_function_is_that_of_its_weights(prior, other_z):
    case = Case(prior, other_z)
    w = np.random.default_rng(2).normal(size=case.basis.mean_map.shape[1])
    alpha = case.basis.weight_map @ w
    assert_allclose(alpha @ rbf(case.z, case.z, BANDWIDTH) @ alpha, w @ w, rtol=1e-9)


def test_shrunk_mean_is_the_dense_posterior_mean():
    case = Case()
    expected = case.stats.mean.mean(axis=0) + case.dense(0.3)[0]
    found = _shrunk_mean(case.family, case.within_cov, 0.3, case.stats)
    assert_allclose(found, expected, rtol=1e-8)


def test_isotropic_noise_shrinks_every_eigenvalue_as_the_paper_says():
    tau2, size = 0.3, 4.0
    u = np.random.default_rng(3).normal(size=(6, 2))
    K = rbf(u, u, BANDWIDTH)
    eigenvalues, vectors = np.linalg.eigh(K)
    stats = BagStats(np.random.default_rng(4).uniform(size=(9, 6)), np.full(9, size), np.eye(6))
    features = LandmarkFeatures(RBF(BANDWIDTH), UNIT, u)
    family = KernelPrior(features, BagStats(stats.mean, stats.sizes, tau2 * np.eye(6)), 1e-14)
    shrunk = _shrunk_mean(family, tau2 * np.eye(6), 1.0, stats)
    m0 = stats.mean.mean(axis=0)
    factors = eigenvalues / (eigenvalues + tau2 / size)
    assert_allclose((shrunk - m0) @ vectors, (stats.mean - m0) @ vectors * factors, atol=1e-10)


def test_function_landmarks_equal_to_the_landmarks_are_z_equal_u():
    case = Case()
    features = LandmarkFeatures(RBF(BANDWIDTH), UNIT, case.u, case.u.copy())
    basis = KernelPrior(features, case.stats, FLOOR).basis
    assert basis.unseen is not None
    assert_allclose(basis.unseen, 0.0, atol=1e-9)
    for found, expected, atol in (
        (basis.mean_map, case.basis.mean_map, 1e-8),
        (basis.spread_map, case.basis.spread_map, 1e-6),
    ):  # the weights of the one are those of the other, turned
        products = np.abs(found @ found.T), np.abs(expected @ expected.T)
        assert_allclose(*products, rtol=1e-7, atol=atol)


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_what_landmarks_do_not_see_is_the_conditional_covariance(prior):
    case = Case(prior, other_z=True)
    seen = case.r(case.z, case.u) @ np.linalg.solve(case.r(case.u, case.u), case.r(case.u, case.z))
    T = case.basis.weight_map
    expected = T.T @ (case.r(case.z, case.z) - seen) @ T
    assert_allclose(case.basis.unseen, expected, rtol=1e-7, atol=1e-8)


def test_fourier_features_have_the_dense_posterior_with_identity_prior():
    rng = np.random.default_rng(5)
    features = FourierFeatures(UNIT, rng.normal(size=(3, 2)))
    stats = BagStats(rng.uniform(size=(len(SIZES), 6)), SIZES, random_covariance(rng, 6))
    family, eta = KernelPrior(features, stats, FLOOR), 0.2
    cov = stats.within_cov + FLOOR * np.trace(stats.within_cov) / 6 * np.eye(6)
    gaps = stats.mean - stats.mean.mean(axis=0)
    R = eta * np.eye(6)
    expected = [
        embedding_posterior(g, n, cov, R, R, R)[0] for g, n in zip(gaps, SIZES, strict=True)
    ]
    found = _shrunk_mean(family, cov, eta, stats) - stats.mean.mean(axis=0)
    assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_endless_bags_have_their_empirical_mean_and_no_variance(prior):
    case = Case(prior)
    w = np.random.default_rng(6).normal(size=7)
    kappa = case.basis.slack(np.array([1e14]), 1.0)
    gain = 1e14 * kappa
    mean = np.sum(gain * case.t * (case.basis.mean_map @ w), axis=1)
    gaps = case.stats.mean - case.stats.mean.mean(axis=0)
    assert_allclose(mean, gaps @ case.basis.weight_map @ w, rtol=1e-8, atol=1e-10)
    assert (case.basis.spectrum * kappa) @ (case.basis.spread_map @ w) ** 2 < 1e-10 * (w @ w)


def test_endless_prior_scale_gives_the_empirical_mean():
    case = Case()
    assert_allclose(
        _shrunk_mean(case.family, case.within_cov, 1e14, case.stats), case.stats.mean, rtol=1e-8
    )


def test_vanishing_prior_scale_gives_the_prior_mean():
    case = Case()
    found = _shrunk_mean(case.family, case.within_cov, 1e-14, case.stats)
    assert_allclose(found, np.tile(case.stats.mean.mean(axis=0), (len(SIZES), 1)), rtol=1e-8)
    w = np.random.default_rng(7).normal(size=7)
    mean, var = case.moments(w, 1e-14)
    assert_allclose(mean, 0.0, atol=1e-9)
    assert_allclose(var, 0.0, atol=1e-9)


@pytest.mark.parametrize(("prior", "other_z"), CASES)
def test_variance_falls_with_the_number_of_points(prior, other_z):
    case = Case(prior, other_z)
    w = np.random.default_rng(8).normal(size=case.basis.mean_map.shape[1])
    var = case.moments(w, 0.5)[1]
    assert (np.diff(var[np.argsort(SIZES)]) <= 0).all() and var.min() >= 0


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
        basis = kernel_basis(cov, gram, size)
        expected = values[size * values > 1e-3 * values[-1]]
        assert_allclose(basis.spectrum, expected / 0.1, rtol=1e-9)
        assert basis.projection.shape == basis.weight_map.shape == (12, len(expected))
        assert_allclose(
            basis.weight_map.T @ gram @ basis.weight_map, np.eye(len(expected)), atol=1e-9
        )


def test_a_function_of_the_directions_left_has_the_mean_and_variance_it_had():
    gram, cov, gaps = hidden_directions()
    basis = kernel_basis(cov, gram, 5.0)
    w = np.random.default_rng(13).normal(size=len(basis.spectrum))
    alpha, eta, size = basis.weight_map @ w, 0.4, 5.0
    R = eta * gram
    solved = np.linalg.solve(R + cov / size, R)
    kappa = basis.slack(np.array([size]), eta)[0]
    mean = eta * size * (gaps @ basis.projection * kappa) @ (basis.mean_map @ w)
    assert_allclose(mean, gaps @ solved @ alpha, rtol=1e-8)
    var = eta * np.sum(basis.spectrum * kappa * (basis.spread_map @ w) ** 2)
    assert_allclose(var, alpha @ (R - R @ solved) @ alpha, rtol=1e-8)


def test_directions_left_out_do_not_matter_to_a_point_estimate(monkeypatch):
    rng = np.random.default_rng(14)
    y = rng.uniform(1, 2, 60)
    bags = [rng.normal(x, 0.4, (12, 2)) for x in y]
    settings = {"n_landmarks": 60, "bandwidth_scale": 2.0}
    few = ShrinkageRegressor(**settings).fit(bags, y)
    monkeypatch.setattr(shrinkage, "HIDDEN", 1e-9)
    all_ = ShrinkageRegressor(**settings).fit(bags, y)
    assert len(few.head_.w) < 0.7 * len(all_.head_.w)
    found, expected = few.predict_dist(bags), all_.predict_dist(bags)
    assert_allclose(found.mean, expected.mean, atol=0.03 * expected.std.mean())
    assert_allclose(found.std, expected.std, rtol=0.03)


def test_spectrum_is_not_negative_where_landmarks_repeat():
    u = np.repeat(np.random.default_rng(9).normal(size=(4, 2)), 2, axis=0)
    features = LandmarkFeatures(RBF(0.5), UNIT, u)
    cov = 0.1 * np.eye(8)
    basis = shrinkage_basis(cov, features.kernel_prior(), whitening(features.weight_gram()))
    assert (basis.spectrum >= 0).all() and np.isfinite(basis.spread_map).all()


def test_convolved_prior_starts_at_the_spread_of_the_landmarks():
    case = Case("convolved")
    assert_allclose(case.family.start_length, np.sqrt(np.mean(np.sum(case.u**2, axis=1))))


@pytest.mark.parametrize("other_z", [False, True])
def test_slope_of_the_convolved_prior_is_the_finite_difference(other_z):
    case, step = Case("convolved", other_z), 1e-5
    slope = case.family.slope(np.log(LENGTH))
    W, T = case.basis.projection, case.basis.weight_map

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
    with pytest.raises(TypeError, match="no length scale"):
        Case().family.slope(0.0)


def test_convolved_prior_needs_the_gaussian_kernel_and_landmarks():
    case = Case()
    with pytest.raises(BagwiseError, match="convolved prior was asked for with Matern"):
        ConvolvedPrior(LandmarkFeatures(Matern(1.0), UNIT, case.u), case.stats, FLOOR)
    bags, y = dense_oracle.scale_bags()
    with pytest.raises(BagwiseError, match="random Fourier features"):
        ShrinkageRegressor(prior="convolved", landmarks="fourier").fit(bags, y)


# ---------------------------------------------------------------- through the regressors


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_repeated_landmarks_give_the_predictions_of_single_ones(prior):
    bags, y = dense_oracle.scale_bags()
    u = np.random.default_rng(10).normal(size=(6, 2)) * 1.5
    # Seen twice, each with its own floor, a landmark is seen once with half the floor.
    single = ShrinkageRegressor(
        prior=prior, landmarks=u, bandwidth_scale=1.0, weight_var=3.0, covariance_floor=0.01
    ).fit(bags, y)
    double = ShrinkageRegressor(
        prior=prior,
        landmarks=np.vstack([u, u]),
        bandwidth_scale=1.0,
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
        model = FrequentistShrinkageRegressor(landmarks=landmarks, bandwidth_scale=1.0)
        models.append(model.fit(bags, y))
    assert_allclose(models[1].prior_scale_, models[0].prior_scale_, rtol=1e-6)
    assert_allclose(models[1].predict(bags), models[0].predict(bags), rtol=1e-5)


def test_a_kernel_of_low_rank_still_shrinks_small_bags():
    rng = np.random.default_rng(11)
    y = rng.uniform(0.0, 1.0, 60)
    sizes = np.tile([2, 60], 30)
    bags = [rng.normal(s, 1.0, (n, 1)) for s, n in zip(y, sizes, strict=True)]
    model = ShrinkageRegressor(kernel="linear").fit(bags, y)
    # The mean of N points has the variance 1/N about the truth, itself of variance 1/12.
    best = np.array([0.5 + (bag.mean() - 0.5) * len(bag) / (len(bag) + 12.0) for bag in bags])
    assert_allclose(model.predict(bags), best, atol=0.12)


def test_all_bags_of_one_point_are_refused_with_another_model_to_use():
    bags = [np.random.default_rng(i).normal(size=(1, 2)) for i in range(5)]
    for model in (ShrinkageRegressor(), FrequentistShrinkageRegressor()):
        with pytest.raises(InvalidBagsError, match=r"every bag has one point.*BayesianLinear"):
            model.fit(bags, np.arange(5.0))
