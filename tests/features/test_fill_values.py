"""One fill value or slip of a unit must not blind a column: scaling and landmarks resist it."""

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import bagwise
from bagwise import Bags
from bagwise.features.maps import FENCE, Scaling, ordinary_range

FILLS = [9.97e36, 1e6, -999999.0]


def world(seed=0, n_bags=160):
    """Bags of two columns: the label is in the first; points of the second are much alike."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n_bags)
    arrays = [
        np.column_stack([rng.normal(label, 1.0, n), rng.normal(0.0, 1.0, n)])
        for label, n in zip(y, rng.integers(5, 80, n_bags), strict=True)
    ]
    return arrays, y + 0.5 * rng.normal(size=n_bags)


def r_squared(model, arrays, y):
    model.fit(arrays[:120], y[:120])
    return 1.0 - np.mean((model.predict(arrays[120:]) - y[120:]) ** 2) / np.var(y[120:])


@cache
def r_squared_of_all(model):
    """Of bags as they are: the same for every fill value."""
    return r_squared(model, *world())


@pytest.mark.crossed
@pytest.mark.parametrize("fill", FILLS)
@pytest.mark.parametrize(
    "model",
    [
        bagwise.ShrinkageRegressor(),
        bagwise.BayesianLinearRegressor(),
        bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(kernel="additive-rbf")),
        bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(kernel="linear")),
        bagwise.RBFNetworkRegressor(bagwise.FourierEmbedding()),
        bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(standardize=False)),
        bagwise.MeanEmbeddingRidge(),
    ],
    ids=lambda model: str(model)[:60],
)
def test_one_fill_value_costs_next_to_nothing(model, fill):
    arrays, y = world()
    plain = r_squared_of_all(model)
    assert plain > 0.5
    spoilt = [array.copy() for array in arrays]
    spoilt[3][0, 0] = fill
    assert r_squared(model, spoilt, y) > plain - 0.03


def test_scaling_is_that_of_the_ordinary_values():
    rng = np.random.default_rng(0)
    x = rng.normal(5.0, 2.0, (6700, 2))
    clean = Scaling.fit(Bags.from_array(x.reshape(67, 100, 2)))
    x[17, 0] = 9.97e36
    found = Scaling.fit(Bags.from_array(x.reshape(67, 100, 2)))
    assert_allclose(found.center, clean.center, rtol=1e-3)
    assert_allclose(found.scale, clean.scale, rtol=1e-3)
    assert found(x)[17, 0] == pytest.approx(FENCE)
    assert_allclose(clean.scale, x[:, 1].std() * clean.scale / clean.scale[1], rtol=1e-12)


HONEST = {
    "normal": lambda rng, n: rng.normal(size=n),
    "heavy tails": lambda rng, n: rng.standard_t(3, size=n),
    "zeros and ones": lambda rng, n: (rng.random(n) < 0.01) * 1.0,
    "few ones": lambda rng, n: (np.arange(n) < 3) * 1.0,
    "mostly zero": lambda rng, n: np.where(rng.random(n) < 0.97, 0.0, rng.gamma(1.0, 50.0, n)),
    "gamma": lambda rng, n: rng.gamma(0.5, size=n),
    "lognormal": lambda rng, n: rng.lognormal(size=n),
    "two far modes": lambda rng, n: np.where(rng.random(n) < 0.3, 1e4, 0.0) + rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 7.0),
}


@pytest.mark.parametrize("name", HONEST)
@pytest.mark.parametrize("seed", range(3))
def test_honest_columns_are_scaled_by_their_mean_and_standard_deviation(name, seed):
    rng = np.random.default_rng(seed)
    x = np.column_stack([HONEST[name](rng, 20_000), rng.normal(size=20_000)])
    found = Scaling.fit(Bags.from_array(x.reshape(200, 100, 2)))
    assert_allclose(found.center, x.mean(axis=0), rtol=1e-9, atol=1e-12)
    assert_allclose(found.scale, np.where(np.ptp(x, axis=0) > 0, x.std(axis=0), 1.0), rtol=1e-9)
    low, high = ordinary_range(x)
    assert (x >= low).all() and (x <= high).all()


def test_a_stream_is_scaled_like_the_same_bags_in_memory(tmp_path):
    arrays, y = world()
    arrays[3][0, 0] = 9.97e36
    table = pa.table(
        {
            "bag": np.repeat(np.arange(len(arrays)), [len(array) for array in arrays]),
            "a": np.concatenate(arrays)[:, 0],
            "b": np.concatenate(arrays)[:, 1],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    roles = {"bag": "bag", "features": ["a", "b"]}
    with pytest.warns(bagwise.BagwiseWarning, match=r"Column 'a' has 1 value of 9.97e\+36"):
        stream = Bags.scan_parquet(tmp_path / "t.parquet", progress=False, **roles)
    with pytest.warns(bagwise.BagwiseWarning, match=r"Column 'a' has 1 value of 9.97e\+36"):
        bags = Bags.from_parquet(tmp_path / "t.parquet", **roles)
    found = [bagwise.ShrinkageRegressor().fit(b, y).predict_dist(bags) for b in (stream, bags)]
    assert_allclose(found[0].mean, found[1].mean, rtol=1e-8)
    assert_allclose(found[0].std, found[1].std, rtol=1e-8)
