"""Values that are hardly meant as numbers: found where they are, and nowhere else."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bagwise.bags.tables.census import Look, Spread
from bagwise.bags.tables.read_report import Extremes, find_outliers
from bagwise.bags.tables.reader import read_bags, scan_bags

FILL = 9.969209968386869e36  # of netCDF

# Columns as honest as they come, with tails from none to none better.
HONEST = {
    "normal": lambda rng, n: rng.normal(size=n),
    "laplace": lambda rng, n: rng.laplace(size=n),
    "uniform": lambda rng, n: rng.uniform(0, 100, n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal 1": lambda rng, n: rng.lognormal(0, 1, n),
    "lognormal 4": lambda rng, n: rng.lognormal(0, 4, n),
    "money": lambda rng, n: np.round(rng.lognormal(3, 1.5, n), 2),
    "weibull 0.2": lambda rng, n: rng.weibull(0.2, n),
    "gamma 0.01": lambda rng, n: rng.gamma(0.01, 1, n),
    "student 2": lambda rng, n: rng.standard_t(2, n),
    "student 4": lambda rng, n: rng.standard_t(4, n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "ratio": lambda rng, n: rng.normal(size=n) / rng.normal(size=n),
    "pareto 0.3": lambda rng, n: rng.pareto(0.3, n),
    "pareto 1": lambda rng, n: rng.pareto(1, n),
    "pareto 3": lambda rng, n: rng.pareto(3, n),
    "zipf 1.2": lambda rng, n: np.minimum(rng.zipf(1.2, n), 2**53).astype(float),
    "zipf 2": lambda rng, n: rng.zipf(2.0, n).astype(float),
    "truth values": lambda rng, n: (rng.random(n) < 0.5) * 1.0,
    "rarely true": lambda rng, n: (rng.random(n) < 0.001) * 1.0,
    "counts 0.01": lambda rng, n: rng.poisson(0.01, n) * 1.0,
    "counts 0.1": lambda rng, n: rng.poisson(0.1, n) * 1.0,
    "counts 5": lambda rng, n: rng.poisson(5, n) * 1.0,
    "genes": lambda rng, n: rng.negative_binomial(0.1, 0.01, n) * 1.0,
    "rare genes": lambda rng, n: rng.negative_binomial(0.02, 0.001, n) * 1.0,
    "grades": lambda rng, n: rng.integers(1, 6, n) * 1.0,
    "years": lambda rng, n: rng.integers(1900, 2024, n) * 1.0,
    "times": lambda rng, n: 1.6e9 + rng.uniform(0, 1e7, n),
    "mostly zero": lambda rng, n: (rng.random(n) < 0.05) * rng.lognormal(0, 2, n),
    "mostly zero, heavy": lambda rng, n: (rng.random(n) < 0.02) * rng.pareto(0.7, n),
    "two humps": lambda rng, n: np.where(rng.random(n) < 0.3, 1000, 0) + rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 3.0),
    "shares": lambda rng, n: rng.beta(0.01, 0.01, n),
}
ORDINARY = ("normal", "laplace", "uniform", "exponential", "counts 5", "grades", "truth values")


@pytest.mark.crossed
@pytest.mark.parametrize("n", [5, 60, 200, 1000, 6700])
@pytest.mark.parametrize("kind", HONEST)
def test_no_false_alarm(kind, n):
    rng = np.random.default_rng(1)
    columns = np.column_stack([HONEST[kind](rng, n) for _ in range(100)])
    assert find_outliers(columns) == []


@pytest.mark.parametrize("kind", HONEST)
def test_a_fill_value_of_netcdf_is_found_in_whatever_varies(kind):
    column = HONEST[kind](np.random.default_rng(2), 6700)
    if len(np.unique(column)) == 1 or kind == "rarely true":
        pytest.skip("nothing to be far from")
    column[17] = FILL
    (found,) = find_outliers(column[:, None])
    assert (found.column, found.value, found.count) == (0, FILL, 1)
    assert found.high < FILL


@pytest.mark.parametrize("kind", ORDINARY)
@pytest.mark.parametrize("value", [1e6, -1e6, -9999.0, 1e20])
@pytest.mark.parametrize("count", [1, 3, 700])
def test_other_fill_values_are_found_in_ordinary_columns(kind, value, count):
    rng = np.random.default_rng(3)
    columns = np.column_stack([HONEST[kind](rng, 6700) for _ in range(3)])
    columns[:count, 1] = value
    (found,) = find_outliers(columns)
    assert (found.column, found.value, found.count) == (1, value, count)


def test_several_at_once():
    rng = np.random.default_rng(4)
    columns = rng.normal(20, 5, (5000, 4))
    columns[0, 0], columns[1, 0] = -1e9, 1e9
    columns[:5, 1], columns[5:40, 1] = -9999, -999
    columns[3, 3] = FILL
    told = [(found.column, found.value, found.count) for found in find_outliers(columns)]
    assert told == [(0, -1e9, 1), (0, 1e9, 1), (1, -9999, 5), (3, FILL, 1)]


def test_the_order_and_the_batches_of_rows_do_not_matter():
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(9000, 3))
    columns[rng.choice(9000, 7), 2] = 1e6
    for cuts in (1, 9, 100):
        extremes = Extremes()
        for batch in np.array_split(rng.permutation(columns), cuts):
            extremes.add(batch)
        (found,) = extremes.outliers()
        assert (found.column, found.value, found.count) == (2, 1e6, 7)


def test_one_value_among_more_rows_than_are_sampled():
    column = np.random.default_rng(6).normal(size=300_000).astype(np.float32)
    column[123_456] = 1e6
    (found,) = find_outliers(column[:, None])
    assert (found.value, found.count) == (1e6, 1)
    assert find_outliers(np.random.default_rng(7).standard_cauchy((300_000, 3))) == []


def test_numbers_near_the_end_of_their_range():
    column = np.random.default_rng(8).normal(size=(100, 1))
    column[0], column[1] = 1.7e308, -1.7e308
    assert {found.value for found in find_outliers(column)} == {1.7e308, -1.7e308}


@pytest.mark.parametrize("how", ["frame", "parquet", "stream", "csv"])
@pytest.mark.parametrize("named", [False, True])
def test_tables_say_so(tmp_path, how, named):
    rng = np.random.default_rng(9)
    x, y = rng.normal(size=6700), np.repeat(rng.normal(size=67), 100)
    x[5], y[:100] = FILL, -9999.0
    columns = {"bag": np.repeat(np.arange(67), 100), "x": x, "z": rng.normal(size=6700), "y": y}
    table = pa.table({**columns, "age": 0.5 * y})
    roles = {"bag": "bag", "label": "y", "covariates": ["age"]}
    roles |= {"features": ["x", "z"]} if named else {}
    source = table
    if how in ("parquet", "stream"):
        source = tmp_path / "t.parquet"
        pq.write_table(table, source, row_group_size=1000)
    elif how == "csv":
        source = tmp_path / "t.csv"
        table.to_pandas().to_csv(source, index=False)
    found = (scan_bags if how == "stream" else read_bags)(source, **roles)
    lines = found.report.lines()
    assert len(lines) == 3
    assert lines[0].startswith("Column 'x' has 1 value of 9.969209968386869e+36, far from all o")
    assert "na_values=9.969209968386869e+36" in lines[0] and 'missing="drop"' in lines[0]
    assert lines[1].startswith("Covariate column 'age' has 1 value of -4999.5")
    assert lines[2].startswith("Label column 'y' has 1 value of -9999.0")
    fixed = {"na_values": {"x": FILL, "y": -9999, "age": -4999.5}, "missing": "drop"}
    again = (scan_bags if how == "stream" else read_bags)(source, **roles, **fixed)
    assert again.report.outliers == () and again.bags.n_bags == 66


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_look_at_points_is_what_numpy_finds(order, dtype):
    """Ends, their counts, mean and squares, in batches as at once; points of weight 0 have none."""
    rng = np.random.default_rng(0)
    points = np.array(np.round(rng.normal(5, 2, (5000, 3)), 1), dtype, order=order)
    weights = (rng.random(5000) < 0.7) * 1.0
    spread, alone, told = Spread(), Extremes(), Extremes()
    for start in range(0, 5000, 1300):
        part = points[start : start + 1300]
        look = Look.of(part, weights[start : start + 1300])
        spread.merge(look.spread)
        told.add(part, look.ends)
        alone.add(part)
    counted = points[weights > 0].astype(np.float64)
    assert spread.n == len(counted)
    np.testing.assert_allclose(spread.center, counted.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(spread.squares / spread.n, counted.var(axis=0), rtol=1e-12)
    for found in (alone, told):
        np.testing.assert_array_equal(found.ends, [points.min(axis=0), points.max(axis=0)])
        times = [(points == end).sum(axis=0) for end in (points.min(axis=0), points.max(axis=0))]
        np.testing.assert_array_equal(found._counts, times)
