"""Columns against numerical integration, exact splits and sums."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from bagwise.features.integrated_gradients import split_by_column
from bagwise.features.kernels import RBF, Additive, Energy, Kernel, Linear, Matern, Mixed
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling

RNG = np.random.default_rng(0)
SCALING = Scaling.of(np.array([1.0, -2.0, 0.5]), np.array([2.0, 0.5, 1.0]))
LANDMARKS = RNG.normal(size=(6, 3))
POINTS = RNG.normal(size=(4, 3)) * 3.0


@dataclass(frozen=True)
class Cauchy(Kernel):
    """A kernel that bagwise does not know."""

    def __call__(self, x, y):
        gaps = x[:, None] - y[None]
        return 1.0 / (1.0 + np.sum(gaps**2, axis=2) / self.bandwidth**2)


def landmark_features(kernel):
    return LandmarkFeatures(kernel, SCALING, LANDMARKS)


SMOOTH = {
    "rbf": landmark_features(RBF(1.3)),
    "matern32": landmark_features(Matern(1.3, smoothness=1.5)),
    "matern52": landmark_features(Matern(1.3, smoothness=2.5)),
    "linear": landmark_features(Linear()),
    "additive": landmark_features(Additive(base=RBF(1.3))),
    "mixed": landmark_features(Mixed(1.3)),
    "unknown": landmark_features(Cauchy(1.3)),
    "fourier": FourierFeatures(SCALING, RNG.normal(size=(5, 3))),
}
ALL = SMOOTH | {
    "energy": landmark_features(Energy()),
    "matern12": landmark_features(Matern(1.3, smoothness=0.5)),
    "additive-matern12": landmark_features(Additive(base=Matern(1.3, smoothness=0.5))),
}


def weights_of(features):
    return np.random.default_rng(1).normal(size=features.n_outputs)


def integrated_gradient(f, x, j):
    """(x_j − a_j) ∫ ∂_j f, by adaptive quadrature of central differences."""
    a, step = SCALING.center, np.zeros(3)
    step[j] = 1e-5 * SCALING.scale[j]

    def slope(t):
        at = a + t * (x - a)
        return (f((at + step)[None]) - f((at - step)[None]))[0] / (2.0 * step[j])

    return (x[j] - a[j]) * quad(slope, 0.0, 1.0, limit=200, epsabs=1e-10)[0]


@pytest.mark.parametrize("name", SMOOTH)
def test_columns_are_integrated_gradients(name):
    features = SMOOTH[name]
    v = weights_of(features)
    expected = [
        [integrated_gradient(lambda at: features(at) @ v, x, j) for j in range(3)] for x in POINTS
    ]
    assert_allclose(split_by_column(features, v, POINTS), expected, atol=2e-7)


def test_columns_of_a_kernel_with_a_kink_are_near_those_by_quadrature():
    features = ALL["matern12"]
    v = weights_of(features)
    expected = [
        [integrated_gradient(lambda at: features(at) @ v, x, j) for j in range(3)] for x in POINTS
    ]
    assert_allclose(split_by_column(features, v, POINTS), expected, atol=2e-3)


@pytest.mark.parametrize("name", ALL)
def test_columns_add_up_to_the_change(name):
    features = ALL[name]
    v = weights_of(features)
    change = (features(POINTS) - features(SCALING.center[None])) @ v
    assert_allclose(split_by_column(features, v, POINTS).sum(axis=1), change, atol=1e-12)


@pytest.mark.parametrize("base", [RBF(0.7), Matern(0.7, smoothness=0.5), Linear()])
def test_columns_of_an_additive_kernel_are_its_terms(base):
    features = landmark_features(Additive(base=base))
    v = weights_of(features)
    x = SCALING(POINTS)
    expected = np.column_stack(
        [
            (base(x[:, [j]], LANDMARKS[:, [j]]) - base(np.zeros((1, 1)), LANDMARKS[:, [j]])) @ v / 3
            for j in range(3)
        ]
    )
    assert_allclose(split_by_column(features, v, POINTS), expected, atol=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_the_centre_itself_and_columns_that_do_not_move_have_no_part(name):
    features = ALL[name]
    v = weights_of(features)
    still = POINTS.copy()
    still[:, 1] = SCALING.center[1]
    assert_allclose(split_by_column(features, v, still)[:, 1], 0.0, atol=0.0)
    assert_allclose(split_by_column(features, v, SCALING.center[None]), 0.0, atol=0.0)


def test_a_landmark_on_the_way_of_a_kernel_with_a_kink_is_no_trouble():
    features = LandmarkFeatures(Matern(1.0, smoothness=0.5), SCALING, np.array([[1.0, 1.0, 1.0]]))
    x = SCALING.center + 2.0 * SCALING.scale
    parts = split_by_column(features, np.ones(1), x[None])
    assert_allclose(parts, 0.0, atol=1e-9)  # away as far as it came near


def test_a_long_way_has_enough_nodes():
    features, x = landmark_features(RBF(0.25)), SCALING.center + 3.0 * SCALING.scale
    v = weights_of(features)
    many = [integrated_gradient(lambda at: features(at) @ v, x, j) for j in range(3)]
    assert_allclose(split_by_column(features, v, x[None])[0], many, atol=1e-7)


def test_points_in_blocks_are_as_points_alone(monkeypatch):
    whole = {name: split_by_column(f, weights_of(f), POINTS) for name, f in SMOOTH.items()}
    monkeypatch.setattr("bagwise.features.integrated_gradients.BLOCK_ELEMENTS", 7)
    for name, features in SMOOTH.items():
        parts = split_by_column(features, weights_of(features), POINTS)
        assert_allclose(parts, whole[name], atol=1e-9)
