"""The density that NUTS samples, against a dense oracle and against the NumPy objective."""

import jax
import numpy as np
import pytest

from bagwise.inference import density
from bagwise.inference import transport as transport_module
from bagwise.inference.density import LIBRARY, _blocks, potential, prepare
from bagwise.inference.transport import carry
from posterior_problems import UNIT, Bagged, alpha_of, approximation, form

KINDS = ("gaussian", "probit", "logistic")


def setup(kind, seed=0, **options):
    bagged = Bagged.random(kind, seed, **options)
    rng = np.random.default_rng(seed + 100)
    labels = bagged.draw_labels(rng, *bagged.draw_prior(rng))
    return bagged, labels, bagged.problem(labels)


def minus_log_density(problem, resolved, transport, z):
    model, data = form(problem, transport), prepare(problem, resolved, transport)
    with jax.enable_x64(True):
        return np.array([float(potential(model, data, jax.numpy.asarray(row))) for row in z])


def log_jacobian(transport, z, step=1e-6):
    """Log |det ∂(α-free parameters)/∂z| of the map z ↦ (w, γ, x), by central differences."""
    out = []
    for row in z:
        columns = []
        for j in range(len(row)):
            ahead, back = row.copy(), row.copy()
            ahead[j] += step
            back[j] -= step
            # the sign of x is lost in absolute values; the slope is not, away from zero
            after, before = (np.concatenate(transport(r[None]), axis=1) for r in (ahead, back))
            columns.append((after - before)[0] / (2 * step))
        out.append(np.linalg.slogdet(np.array(columns))[1])
    return np.array(out)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [{}, {"d": 3, "n_effects": 2}], ids=["small", "effects"])
@pytest.mark.parametrize("rigid", [False, True])
def test_density_of_z_is_the_dense_posterior_times_the_jacobian(kind, options, rigid, monkeypatch):
    monkeypatch.setattr(transport_module, "RIGID_FACTOR", np.inf if rigid else 1.0)
    bagged, labels, problem = setup(kind, **options)
    resolved, _, transport = approximation(problem)
    assert transport.rigid == rigid
    z = np.random.default_rng(1).normal(size=(6, transport.size))
    w, gamma, x = transport(z)
    scales = dict(zip(resolved.names, x.T, strict=True))
    dense = bagged.log_posterior(labels, alpha_of(problem, w), gamma, scales)
    dense += log_jacobian(transport, z)
    ours = -minus_log_density(problem, resolved, transport, z)
    np.testing.assert_allclose(ours - ours[0], dense - dense[0], rtol=0, atol=1e-6)


@pytest.mark.parametrize("kind", ["gaussian", "probit"])
def test_blocks_of_few_sizes_do_not_change_the_density(kind, monkeypatch):
    _, _, problem = setup(kind, n=40, sizes=range(1, 30))
    resolved, _, transport = approximation(problem)
    z = np.random.default_rng(1).normal(size=(3, transport.size))
    several = minus_log_density(problem, resolved, transport, z)
    monkeypatch.setattr(density, "SIZES_PER_BLOCK", 1000)
    one = minus_log_density(problem, resolved, transport, z)
    np.testing.assert_allclose(several, one, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rigid", [False, True])
def test_numpy_and_jax_carry_z_to_the_same_place(kind, rigid, monkeypatch):
    monkeypatch.setattr(transport_module, "RIGID_FACTOR", np.inf if rigid else 1.0)
    _, _, problem = setup(kind, d=3, n_effects=2)
    resolved, _, transport = approximation(problem)
    z = np.random.default_rng(1).normal(size=(6, transport.size))
    by_numpy = carry(vars(transport), z, rigid=rigid)
    data = prepare(problem, resolved, transport)["transport"]
    with jax.enable_x64(True):
        m, rows = jax.tree.map(jax.numpy.asarray, data), jax.numpy.asarray(z)
        whole = carry(m, rows, rigid=rigid, library=LIBRARY)
        one_by_one = jax.vmap(lambda row: carry(m, row, rigid=rigid, library=LIBRARY))(rows)
        for by_jax in (whole, one_by_one):
            for found, expected in zip(by_jax, by_numpy, strict=True):
                np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-10, atol=1e-10)


def test_blocks_hold_every_bag_once_and_its_size():
    rng = np.random.default_rng(0)
    size_of = np.unique(rng.zipf(1.5, 2000).clip(max=400), return_inverse=True)[1]
    rows, sizes = _blocks(size_of, int(size_of.max()) + 1)
    held = rows[rows >= 0]
    np.testing.assert_array_equal(np.sort(held), np.arange(2000))
    for piece, block_sizes in zip(rows, sizes, strict=True):
        assert set(size_of[piece[piece >= 0]]) <= set(block_sizes)
    assert rows.size < 3 * 2000  # padding stays bounded


def test_sample_weight_of_two_counts_a_bag_twice():
    bagged, labels, problem = setup("gaussian")
    twice = np.r_[0, np.arange(len(labels))]
    again = Bagged(
        bagged.mean[twice], bagged.sizes[twice], bagged.within_cov, bagged.gram,
        bagged.effects[twice], "gaussian",
    )  # fmt: skip
    doubled = again.problem(labels[twice], model=problem.prior)  # around the same mean
    weighted = bagged.problem(labels, np.r_[2.0, np.ones(len(labels) - 1)])
    resolved, _, transport = approximation(problem, UNIT)
    z = np.random.default_rng(1).normal(size=(3, transport.size))
    a, b = (minus_log_density(p, resolved, transport, z) for p in (weighted, doubled))
    np.testing.assert_allclose(a, b, rtol=1e-12)


def test_the_users_precision_is_left_alone():
    _, _, problem = setup("gaussian")
    resolved, _, transport = approximation(problem)
    prepare(problem, resolved, transport)
    assert jax.numpy.ones(1).dtype == np.float32
