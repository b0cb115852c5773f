"""Descent, beside SciPy's search and derivatives in closed form."""

import numpy as np
import pytest
from scipy.optimize import Bounds, minimize, rosen, rosen_der, rosen_hess

from bagwise.inference.descent import curve_at, descend

FREE = -np.full(4, np.inf), np.full(4, np.inf)


def counted(loss):
    """The same function, and the list of the places that were asked for."""
    places = []

    def noted(x):
        places.append(x)
        return loss(x)

    return noted, places


def rosenbrock(x):
    return float(rosen(x)), rosen_der(x)


def bowl(seed, h=6):
    """A convex function that is no parabola, and its second derivatives."""
    rng = np.random.default_rng(seed)
    directions, center = rng.normal(size=(3 * h, h)), rng.normal(size=h)

    def loss(x):
        along = directions @ (x - center)
        soft = np.logaddexp(along, -along)
        return float(soft.sum() + 0.5 * x @ x), directions.T @ np.tanh(along) + x

    def curve(x):
        along = directions @ (x - center)
        return (directions.T / np.cosh(along) ** 2) @ directions + np.eye(h)

    return loss, curve


def test_it_ends_in_a_valley_that_turns():
    found = descend(rosenbrock, np.array([1.3, 0.7, 0.8, 1.9]), FREE, 500, 1e-14)
    np.testing.assert_allclose(found.place, np.ones(4), atol=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("reach", [0.3, 1.0, np.inf])
def test_it_ends_where_scipy_ends_within_bounds(seed, reach):
    loss, _ = bowl(seed)
    low, high = -np.full(6, reach), np.full(6, reach) * 0.7
    found = descend(loss, np.full(6, 0.1), (low, high), 300, 1e-13)
    options = {"ftol": 1e-15, "gtol": 1e-9, "maxiter": 1000}
    known = minimize(
        loss, np.zeros(6), jac=True, method="L-BFGS-B", bounds=Bounds(low, high), options=options
    )
    assert found.value == pytest.approx(known.fun, abs=1e-9)
    np.testing.assert_allclose(found.place, known.x, atol=1e-4)
    assert np.all(found.place >= low)
    assert np.all(found.place <= high)


def test_curvature_is_that_of_second_derivatives():
    loss, curve = bowl(0)
    at = np.full(6, 0.2)
    np.testing.assert_allclose(curve_at(loss, at), curve(at), rtol=0.1, atol=0.3)


def test_negative_curvature_counts_as_positive():
    at = np.array([0.0, 1.0, 0.0, 1.0])
    values = np.linalg.eigvalsh(rosen_hess(at))
    assert values[0] < -1
    found = np.linalg.eigvalsh(curve_at(rosenbrock, at))
    np.testing.assert_allclose(found, np.sort(np.abs(values)), rtol=0.15, atol=3)
    assert found[0] > 0


def test_what_was_learnt_of_curvature_makes_the_next_search_short():
    loss, _ = bowl(1)
    first = descend(loss, np.zeros(6), (-np.full(6, 9.0), np.full(6, 9.0)), 100, 1e-10)
    np.testing.assert_allclose(first.curve, first.curve.T, rtol=1e-12, atol=1e-12)
    assert np.linalg.eigvalsh(first.curve)[0] > 0

    def moved(x):
        value, slope = loss(x - 0.05)
        return value, slope

    searches = []
    for known in (None, first.curve):
        noted, places = counted(moved)
        found = descend(noted, first.place, (-np.full(6, 9.0), np.full(6, 9.0)), 100, 1e-6, known)
        np.testing.assert_allclose(found.place, first.place + 0.05, atol=5e-3)
        searches.append(len(places))
    assert searches[1] <= searches[0] - 6  # at least the differences


def test_it_ends_at_once_where_nothing_is_to_be_gained():
    loss, curve = bowl(2)
    least = minimize(loss, np.zeros(6), jac=True, options={"gtol": 1e-10}).x
    noted, places = counted(loss)
    found = descend(noted, least, (-np.full(6, 9.0), np.full(6, 9.0)), 100, 1e-6, curve(least))
    assert len(places) == 1
    np.testing.assert_array_equal(found.place, least)


@pytest.mark.parametrize("bad", [1e10, np.inf, np.nan])
def test_places_that_cannot_be_are_gone_around(bad):
    """Where a matrix cannot be factorised the loss is large, and its gradient 0."""

    def loss(x):
        if x[0] > 1.0:
            return bad, np.zeros(2)
        return float((x[0] - 0.9) ** 2 + 0.1 * x[1] ** 2), np.array([2 * x[0] - 1.8, 0.2 * x[1]])

    known = np.diag([0.2, 0.2])  # the first step is ten times too long
    bounds = -np.full(2, 9.0), np.full(2, 9.0)
    found = descend(loss, np.array([0.0, 3.0]), bounds, 100, 1e-12, known)
    np.testing.assert_allclose(found.place, [0.9, 0.0], atol=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_it_never_ends_higher_than_it_began(seed):
    rng = np.random.default_rng(seed)
    start = rng.normal(0, 2, 4)
    known = np.diag(rng.uniform(0.1, 1e4, 4))
    for most in (1, 3, 10):
        found = descend(rosenbrock, start, FREE, most, 1e-9, known)
        assert found.value <= rosen(start)
        assert found.value == rosen(found.place)
