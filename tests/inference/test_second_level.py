"""Expected kernels against numerical integration, and their derivatives against differences."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise.inference.second_level import Coordinates, Inputs, Scales, SecondLevelKernel

SCALES = Scales(
    linear=0.7, gauss=1.3, length=0.8, effects=0.4, effects_length=1.5, size=0.2, size_length=1.1
)
KERNEL = SecondLevelKernel(SCALES)


def inputs(seed, n=5, groups=2, directions=2):
    rng = np.random.default_rng(seed)
    return Inputs(
        rng.normal(size=(n, directions)),
        rng.uniform(0.1, 1.0, (groups, directions)),
        rng.integers(groups, size=n),
        rng.normal(size=n),
        np.column_stack([np.ones(n), rng.normal(size=n)]),
    )


def kappa(a, b, x, z, i, j):
    """κ of two embeddings (…, c), written out."""
    exact = (x.log_size[i] - z.log_size[j]) ** 2 / SCALES.size_length**2
    exact += np.sum((x.design[i] - z.design[j]) ** 2) / SCALES.effects_length**2
    away = np.sum((a - b) ** 2, axis=-1) / SCALES.length**2
    return (
        SCALES.linear * np.sum(a * b, axis=-1)
        + SCALES.gauss * np.exp(-0.5 * (away + exact))
        + SCALES.effects * x.design[i] @ z.design[j]
        + SCALES.size * x.log_size[i] * z.log_size[j]
    )


def nodes_of(x, i, n=24):
    """Return points and weights of Gauss–Hermite quadrature over N(a_i, C_i), two directions."""
    t, w = np.polynomial.hermite_e.hermegauss(n)
    grid = np.stack(np.meshgrid(t, t, indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.multiply.outer(w, w).ravel() / (2.0 * np.pi)
    return x.mean[i] + grid * np.sqrt(x.var[x.group_of[i]]), weights


def test_expectations_are_those_of_gauss_hermite():
    x, z = inputs(0), inputs(1, n=4, groups=3)
    gram, own = KERNEL.between(x, z), KERNEL.variance(x)
    for i in range(len(x)):
        a, wa = nodes_of(x, i)
        for j in range(len(z)):
            b, wb = nodes_of(z, j)
            values = kappa(a[:, None], b[None], x, z, i, j)
            assert_allclose(gram[i, j], wa @ values @ wb, rtol=1e-10)
        assert_allclose(own[i], wa @ kappa(a, a, x, x, i, i), rtol=1e-10)


def test_the_nugget_is_what_a_bag_shares_with_itself_alone():
    x = inputs(2)
    assert_allclose(KERNEL.nugget(x), KERNEL.variance(x) - np.diagonal(KERNEL.between(x, x)))


def test_without_variance_the_nugget_is_gone_and_the_kernel_is_plain():
    x = inputs(3)
    x = replace(x, var=np.zeros_like(x.var))
    assert_allclose(KERNEL.nugget(x), 0.0, atol=1e-15)
    plain = [[kappa(x.mean[i], x.mean[j], x, x, i, j) for j in range(5)] for i in range(5)]
    assert_allclose(KERNEL.between(x, x), plain, rtol=1e-12)


def difference(function, x, step=1e-6):
    """Gradient of a function of an array, by central differences."""
    gradient = np.empty_like(x)
    for place in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[place] += step
        down[place] -= step
        gradient[place] = (function(up) - function(down)) / (2.0 * step)
    return gradient


def test_gradient_in_means_and_variances():
    x = inputs(4)
    slope = np.random.default_rng(5).normal(size=(5, 5))
    slope = slope + slope.T

    def total(at):
        return float(np.sum(slope * KERNEL.between(at, at)))

    found = KERNEL.gradient(x, slope, KERNEL.gauss(x, x))
    by_mean = difference(lambda mean: total(replace(x, mean=mean)), x.mean)
    by_var = difference(lambda var: total(replace(x, var=var)), x.var)
    assert_allclose(found.by_mean, by_mean, atol=1e-7)
    assert_allclose(found.by_var, by_var, atol=1e-7)


def test_gradient_of_nuggets():
    x, slope = inputs(6), np.random.default_rng(7).normal(size=5)
    by_var = difference(lambda var: float(slope @ KERNEL.nugget(replace(x, var=var))), x.var)
    assert_allclose(KERNEL.nugget_gradient(x, slope).by_var, by_var, atol=1e-8)


def test_slopes_of_a_mean_function():
    x, z = inputs(8), inputs(9, n=7)
    alpha = np.random.default_rng(10).normal(size=7)

    def total(at):
        return float(np.sum(KERNEL.between(at, z) @ alpha))

    by_mean = difference(lambda mean: total(replace(x, mean=mean)), x.mean)
    by_design = difference(lambda design: total(replace(x, design=design)), x.design)
    assert_allclose(KERNEL.slope(x, z, alpha), by_mean, atol=1e-8)
    assert_allclose(KERNEL.design_slope(x, z, alpha), by_design, atol=1e-8)


@pytest.mark.parametrize("tilt", [-1.0, 0.0, 0.7])
def test_an_average_bag_has_unit_norm(tilt):
    spectrum = np.array([0.1, 1.0, 30.0])
    coordinates = Coordinates(spectrum, Scales(tilt=tilt, prior_scale=3.0))
    prior_var = coordinates.prior_var * coordinates.units**2
    assert_allclose(prior_var.sum(), 1.0)
    assert_allclose(prior_var, spectrum**-tilt / np.sum(spectrum**-tilt))
