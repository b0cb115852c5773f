"""Kernels against double loops, scikit-learn, numerical integration and finite differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import integrate
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels as sk

import dense_oracle
from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import (
    KERNELS,
    RBF,
    Additive,
    Energy,
    Kernel,
    Linear,
    Matern,
    Mixed,
    as_kernel,
    convolved,
)
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling

SMOOTHNESS = (0.5, 1.5, 2.5)
STATIONARY = [RBF(0.8), *(Matern(0.8, smoothness=s) for s in SMOOTHNESS)]
EVERY = [*STATIONARY, Linear(), Energy()]
EVERY += [Additive(base=kernel) for kernel in EVERY]
EVERY.append(Mixed(0.8))


def log_convolved_constant(bandwidth: float, length: float, n_features: int) -> float:
    """Return log r(0, 0) of the convolved prior: ½p log(2π) − ½p log(2/σ_k² + 1/ℓ²)."""
    return 0.5 * n_features * float(np.log(2 * np.pi) - np.log(2 / bandwidth**2 + 1 / length**2))


def points(seed, n, p=3):
    return np.random.default_rng(seed).normal(size=(n, p))


def of_distance(kernel, x, y):
    """k(x, y) of one pair, from the textbook formulas."""
    if isinstance(kernel, Additive):
        return np.mean([of_distance(kernel.base, x[[j]], y[[j]]) for j in range(len(x))])
    if isinstance(kernel, Mixed):
        s, p, d = kernel.bandwidth, len(x), (x - y) ** 2
        joint = [np.exp(-d.sum() / (2 * w**2)) for w in (s, 4 * s)]
        alone = [np.exp(-d * p / (2 * w**2)).mean() for w in (s, 4 * s)]
        return np.mean(joint + alone)
    if isinstance(kernel, Linear):
        return float(np.dot(x, y))
    if isinstance(kernel, Energy):
        return (np.linalg.norm(x) + np.linalg.norm(y) - np.linalg.norm(x - y)) / 2
    t = np.linalg.norm(x - y) / kernel.bandwidth
    if isinstance(kernel, RBF):
        return np.exp(-(t**2) / 2)
    root = np.sqrt(2 * kernel.smoothness) * t
    polynomial = {0.5: 1.0, 1.5: 1 + root, 2.5: 1 + root + root**2 / 3}[kernel.smoothness]
    return polynomial * np.exp(-root)


def test_energy_distance_is_that_of_distribution_functions():
    """E|X − Y| − ½ E|X − X'| − ½ E|Y − Y'| = ∫ (F − G)², here of two samples in one dimension."""
    x, y = points(10, 40, 1), points(11, 30, 1) + 0.5
    both = np.sort(np.concatenate([x, y]), axis=0)[:, 0]
    steps = [(np.mean(x <= t) - np.mean(y <= t)) ** 2 for t in both[:-1]]
    kernel = Energy()
    mmd = kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean()
    assert_allclose(mmd, np.sum(steps * np.diff(both)), rtol=1e-12)


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_gram_matrix_is_that_of_a_double_loop(kernel):
    x, y = points(0, 7), points(1, 5)
    expected = [[of_distance(kernel, a, b) for b in y] for a in x]
    assert_allclose(kernel(x, y), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("bandwidth", [0.3, 1.0, 4.0])
def test_rbf_is_scikit_learns(bandwidth):
    x, y = points(2, 9), points(3, 4)
    assert_allclose(RBF(bandwidth)(x, y), sk.RBF(bandwidth)(x, y), rtol=1e-12)


@pytest.mark.parametrize("smoothness", SMOOTHNESS)
@pytest.mark.parametrize("bandwidth", [0.3, 2.0])
def test_matern_is_scikit_learns(smoothness, bandwidth):
    x, y = points(2, 9), points(3, 4)
    theirs = sk.Matern(length_scale=bandwidth, nu=smoothness)(x, y)
    assert_allclose(Matern(bandwidth, smoothness=smoothness)(x, y), theirs, rtol=1e-11)


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_gram_matrix_is_symmetric_and_positive_semidefinite(kernel):
    x = points(4, 40)
    gram = kernel(x, x)
    assert_allclose(gram, gram.T, atol=1e-7)  # a root of rounding error for smoothness 1/2
    assert np.linalg.eigvalsh(gram).min() > -1e-10 * np.linalg.eigvalsh(gram).max()


@pytest.mark.parametrize("kernel", EVERY, ids=repr)
def test_kernels_do_not_change_their_inputs(kernel):
    x, y = points(0, 4), points(1, 3)
    before = x.copy(), y.copy()
    kernel(x, y)
    assert np.array_equal(x, before[0]) and np.array_equal(y, before[1])


def test_distances_keep_their_digits_far_from_the_origin():
    x, y = points(5, 30), points(6, 20)
    here, there = RBF(0.7)(x, y), RBF(0.7)(x + 2000.0, y + 2000.0)
    assert_allclose(there, here, rtol=1e-10)
    assert_allclose(there, dense_oracle.rbf(x + 2000.0, y + 2000.0, 0.7), rtol=1e-10)


@pytest.mark.parametrize("kernel", STATIONARY, ids=repr)
def test_a_point_is_like_itself_far_from_the_origin(kernel):
    x = points(7, 50) + 2000.0
    # Rounding of a squared distance, 1e-15, is 3e-8 once its root is taken.
    tolerance = 1e-7 if kernel == Matern(0.8, smoothness=0.5) else 1e-13
    assert_allclose(np.diag(kernel(x, x)), 1.0, atol=tolerance)


def test_points_far_from_all_landmarks_have_no_similarity():
    assert_allclose(RBF(1.0)(np.full((1, 2), 1e6), points(0, 3, 2)), 0.0)
    assert_allclose(Matern(1.0)(np.full((1, 2), 1e6), points(0, 3, 2)), 0.0)


# ---------------------------------------------------------------- bandwidths and names


def test_with_bandwidth_returns_the_same_kernel_at_that_bandwidth():
    assert RBF().with_bandwidth(2) == RBF(2.0)
    assert Matern(1.0, smoothness=2.5).with_bandwidth(3.0) == Matern(3.0, smoothness=2.5)
    assert Linear().with_bandwidth(2.0) == Linear()
    assert Additive().with_bandwidth(0.5).base == RBF(0.5)


def test_an_additive_kernel_and_its_base_share_the_bandwidth():
    assert Additive(base=RBF(2.0)).bandwidth == 2.0
    assert Additive(3.0, base=Matern()).base == Matern(3.0)
    assert Additive(base=RBF(2.0)).with_bandwidth(5.0).base == RBF(5.0)


def test_a_kernel_on_coordinates_sees_their_share_of_the_distance():
    assert RBF().spread(5) == 1.0
    assert Additive().spread(5) == 0.2


def test_bandwidth_is_asked_for_where_there_is_one():
    assert RBF().has_bandwidth and Additive().has_bandwidth
    assert not Linear().has_bandwidth and not Additive(base=Linear()).has_bandwidth


def test_names_stand_for_kernels():
    assert as_kernel("rbf") == RBF()
    assert as_kernel("matern12").smoothness == 0.5
    assert as_kernel("additive-matern32") == Additive(base=Matern(smoothness=1.5))
    assert as_kernel(kernel := RBF(2.0)) is kernel
    assert len(KERNELS) == 13


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(BagwiseError, match=r"kernel is 'gauss'; expected .*rbf, matern12.*Try"):
        as_kernel("gauss")


@pytest.mark.parametrize("bandwidth", [None, 0.0, -1.0, np.nan])
def test_kernel_without_positive_bandwidth_says_so(bandwidth):
    with pytest.raises(BagwiseError, match=r"has no positive bandwidth.*with_bandwidth"):
        RBF(bandwidth)(np.zeros((1, 1)), np.zeros((1, 1)))
    with pytest.raises(BagwiseError, match="has no positive bandwidth"):
        Matern(bandwidth).frequencies(1, 2, np.random.default_rng(0))


def test_other_smoothness_is_refused():
    with pytest.raises(BagwiseError, match=r"smoothness is 1.0; expected 0.5, 1.5 or 2.5"):
        Matern(1.0, smoothness=1.0)


def test_kernel_without_formula_is_refused():
    with pytest.raises(TypeError, match="Kernel has no formula: use RBF"):
        Kernel(1.0)(np.zeros((1, 1)), np.zeros((1, 1)))


# ---------------------------------------------------------------- convolved prior


@pytest.mark.parametrize("length", [0.4, 3.0])
def test_convolved_prior_is_the_integral_in_one_dimension(length):
    bandwidth, x, y = 0.7, np.array([[0.3], [-1.1]]), np.array([[0.9], [2.0]])

    def integral(a, b):
        def density(t):
            k = np.exp(-((a - t) ** 2 + (b - t) ** 2) / (2 * bandwidth**2))
            return k * np.exp(-(t**2) / (2 * length**2))

        return integrate.quad(density, -10, 10, epsabs=1e-14, points=[a, b, 0.0])[0]

    expected = [[integral(float(a[0]), float(b[0])) for b in y] for a in x]
    constant = np.exp(log_convolved_constant(bandwidth, length, 1))
    assert_allclose(constant * convolved(RBF(bandwidth), x, y, length)[0], expected, rtol=1e-9)


def test_convolved_prior_is_the_integral_in_two_dimensions():
    bandwidth, length = 0.8, 1.3
    x, y = np.array([[0.3, -0.5]]), np.array([[0.9, 0.4]])

    def density(s, t):
        at = np.array([s, t])
        squares = np.sum((x[0] - at) ** 2) + np.sum((y[0] - at) ** 2)
        return np.exp(-squares / (2 * bandwidth**2) - np.sum(at**2) / (2 * length**2))

    expected = integrate.dblquad(density, -6, 6, -6, 6, epsabs=1e-8)[0]
    constant = np.exp(log_convolved_constant(bandwidth, length, 2))
    assert_allclose(constant * convolved(RBF(bandwidth), x, y, length)[0], expected, rtol=1e-6)


def test_convolved_prior_is_the_papers_closed_form():
    x, y = points(8, 6), points(9, 4)
    expected = dense_oracle.convolved(x, y, 0.8, 1.7)
    assert_allclose(convolved(RBF(0.8), x, y, 1.7)[0], expected, rtol=1e-12)


@pytest.mark.parametrize("length", [0.2, 1.0, 20.0])
def test_derivative_of_the_convolved_prior_is_the_finite_difference(length):
    x, y, step = points(8, 6), points(9, 4), 1e-5
    ahead = convolved(RBF(0.8), x, y, length * np.exp(step))[0]
    behind = convolved(RBF(0.8), x, y, length * np.exp(-step))[0]
    slope = convolved(RBF(0.8), x, y, length)[1]
    assert_allclose(slope, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-10)


def test_convolved_prior_is_one_at_the_origin_and_wide_measures_leave_a_wider_kernel():
    origin = np.zeros((1, 3))
    assert convolved(RBF(0.8), origin, origin, 2.0)[0] == 1.0
    x, y = points(8, 6), points(9, 4)
    assert_allclose(convolved(RBF(0.8), x, y, 1e6)[0], RBF(0.8 * 2**0.5)(x, y), rtol=1e-10)


def test_convolved_prior_is_positive_semidefinite():
    x = points(10, 30)
    gram, _ = convolved(RBF(0.8), x, x, 1.2)
    assert np.linalg.eigvalsh(gram).min() > -1e-12


def test_constant_of_the_convolved_prior_does_not_overflow_in_many_dimensions():
    assert np.isfinite(log_convolved_constant(5.0, 50.0, 4096))
    x = points(11, 3, p=4096)
    assert np.isfinite(convolved(RBF(60.0), x, x, 60.0)[0]).all()


@pytest.mark.parametrize("kernel", [Matern(1.0), Linear(), Additive(base=RBF(1.0))], ids=repr)
def test_convolved_prior_is_for_the_gaussian_kernel(kernel):
    with pytest.raises(
        BagwiseError, match=r'the convolved prior was asked for with .*kernel="rbf"'
    ):
        convolved(kernel, np.zeros((1, 1)), np.zeros((1, 1)), 1.0)


# ---------------------------------------------------------------- Fourier features

UNIT = Scaling.of(np.zeros(3), np.ones(3))


@pytest.mark.parametrize("kernel", [*STATIONARY, Additive(base=RBF(0.8))], ids=repr)
def test_fourier_features_have_the_kernel_as_inner_product(kernel):
    m = 60_000  # a standard error of 0.7/√m, 0.003
    frequencies = kernel.frequencies(3, m, np.random.default_rng(0))
    x, y = points(12, 4), points(13, 3)
    features = FourierFeatures(UNIT, frequencies)
    assert_allclose(features(x) @ features(y).T, kernel(x, y), atol=0.015)
    assert_allclose(np.sum(features(x) ** 2, axis=1), 1.0, rtol=1e-12)


def test_additive_frequencies_lie_along_one_coordinate_each_in_turn():
    frequencies = Additive(base=RBF(1.0)).frequencies(3, 8, np.random.default_rng(0))
    assert np.array_equal(np.argmax(frequencies != 0, axis=1), np.arange(8) % 3)
    assert np.array_equal(np.count_nonzero(frequencies, axis=1), np.ones(8))


@pytest.mark.parametrize("kernel", [Linear(), Energy(), Additive(base=Linear())], ids=repr)
def test_linear_kernel_has_no_frequencies(kernel):
    with pytest.raises(BagwiseError, match=r"has no spectral density.*KernelEmbedding\(\)"):
        kernel.frequencies(2, 3, np.random.default_rng(0))


def test_fourier_features_are_orthonormal_coordinates():
    features = FourierFeatures(UNIT, np.ones((2, 3)))
    assert features.n_outputs == 4 and features.same_landmarks
    assert np.array_equal(features.weight_gram(), np.eye(4))
    assert all(np.array_equal(part, np.eye(4)) for part in vars(features.kernel_prior()).values())


def test_fourier_features_have_no_convolved_prior():
    with pytest.raises(BagwiseError, match="asked for with random Fourier features"):
        FourierFeatures(UNIT, np.ones((2, 3))).convolved_prior(1.0)


# ---------------------------------------------------------------- landmark features


@pytest.mark.parametrize("z", [None, points(15, 4)], ids=["z = u", "other z"])
def test_landmark_features_give_the_priors_between_their_landmarks(z):
    u, scaling = points(14, 5), Scaling.of(np.array([1.0, 2.0, 3.0]), np.array([2.0, 1.0, 0.5]))
    features = LandmarkFeatures(RBF(0.8), scaling, u, z)
    z = u if z is None else z
    x = points(16, 6)
    scaled = (x - scaling.center) / scaling.scale
    assert_allclose(features(x), dense_oracle.rbf(scaled, u, 0.8), rtol=1e-11)
    assert_allclose(features.weight_gram(), dense_oracle.rbf(z, z, 0.8), rtol=1e-12)
    for prior, r in (
        (features.kernel_prior(), lambda a, b: dense_oracle.rbf(a, b, 0.8)),
        (features.convolved_prior(1.7)[0], lambda a, b: dense_oracle.convolved(a, b, 0.8, 1.7)),
    ):
        assert_allclose(prior.uu, r(u, u), rtol=1e-11)
        assert_allclose(prior.uz, r(u, z), rtol=1e-11)
        assert_allclose(prior.zz, r(z, z), rtol=1e-11)


def test_landmark_features_of_single_precision_points_are_double():
    features = LandmarkFeatures(RBF(0.8), UNIT, points(14, 5))
    x = points(16, 6).astype(np.float32)
    assert features(x).dtype == np.float64
    assert_allclose(features(x), features(x.astype(np.float64)), rtol=1e-12)


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("bandwidth", [0.01, 0.8, 50.0])
def test_a_mixed_kernel_is_the_mean_of_its_parts(p, bandwidth):
    """By powers of exponentials it is what the four kernels are, near and far away."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, p)), rng.normal(size=(30, p))
    x[0] = y[0]
    kernel = Mixed(bandwidth)
    parts = np.mean([part(x, y) for part in kernel.parts(p)], axis=0)
    assert_allclose(kernel(x, y), parts, rtol=1e-12, atol=1e-15)
    assert_allclose(kernel.single(x, y), parts, atol=2.4e-7)


@pytest.mark.parametrize("n", [0, 1, 700])
def test_an_additive_kernel_in_single_precision_is_the_mean_over_columns(n):
    """Also where one column is so far away that differences are taken, and in several blocks."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(n, 3)), rng.normal(size=(90, 3))
    x[:, 1] += 1e7
    y[:45, 1] += 1e7
    apart = [(x[:, j : j + 1] - y[:, j]) / 0.8 for j in range(3)]
    exact = np.mean([np.exp(-0.5 * each**2) for each in apart], axis=0)
    assert_allclose(Additive(base=RBF(0.8)).single(x, y), exact, atol=2.4e-7)
    parts = np.mean([part(x, y) for part in Mixed(0.8).parts(3)], axis=0)
    assert_allclose(Mixed(0.8).single(x, y), parts, atol=2.4e-7)


@pytest.mark.parametrize("far", [1e20, 1e149, 1e200])
@pytest.mark.parametrize("kernel", [RBF(1.0), Additive(base=RBF(1.0)), Mixed(1.0)])
def test_what_single_precision_cannot_hold_is_infinitely_far(kernel, far):
    """Without a warning of NumPy's, which here is an error."""
    x, y = np.array([[0.0, 0.0], [far, far]]), np.zeros((1, 2))
    assert_allclose(kernel.single(x, y), [[1.0], [0.0]], atol=2.0**-23)


@pytest.mark.parametrize("bandwidth", [1e-6, 0.8, 1e5])
@pytest.mark.parametrize("shift", [0.0, 1e7])
def test_a_gaussian_kernel_in_single_precision_is_off_by_one_rounding(bandwidth, shift):
    """Of distances by SciPy, near, so far that differences are taken, and into given memory."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    x[0], x[1] = y[0], y[0] + shift
    exact = np.exp(-0.5 * cdist(x, y, "sqeuclidean") / bandwidth**2)
    room = np.full((50, 30), np.nan)
    found = RBF(bandwidth).single(x, y, room)
    assert np.shares_memory(found, room)
    assert_allclose(found, exact, atol=2.0**-23)
    assert_allclose(RBF(bandwidth).single(x, y), found, rtol=0, atol=0)
