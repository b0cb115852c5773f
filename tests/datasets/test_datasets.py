"""Data sets: bit-identical simulation, exact posterior, polls, the paper's numbers."""

import itertools
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import integrate, special, stats

import bagwise
from bagwise.bags.bags import Bags
from bagwise.datasets import (
    bayes_optimal,
    gamma_fixed,
    gamma_varying,
    load_paper_results,
    load_polls,
    make_gamma,
)
from bagwise.exceptions import BagwiseError
from bagwise.predictions import metrics

GRID = 5000  # labels in the authors' discretised posterior


def paper_value(setting, metric):
    rows = load_paper_results(experiment="gamma-varying", method="Optimal", metric=metric)
    return next(row.value for row in rows if row.setting == setting)


def discretised_scores(bags, y):
    """MSE and NLL the way the authors computed them: sums over a grid, density read off above y."""
    grid = np.linspace(4, 8, GRID)
    shape = grid / 2  # every entry is Gamma(shape, rate = shape)
    constant = shape * np.log(shape) - special.gammaln(shape)
    mass = np.empty((len(y), GRID))
    for i, points in enumerate(bags):
        mass[i] = points.size * constant + (shape - 1) * np.log(points).sum() - shape * points.sum()
    mass = special.softmax(mass, axis=1)
    at_label = mass[np.arange(len(y)), np.searchsorted(grid, y)] / (grid[1] - grid[0])
    return np.mean((mass @ grid - y) ** 2), -np.mean(np.log(at_label))


# ---------------------------------------------------------------- gamma


@pytest.mark.parametrize("percent_small", [0, 25, 50])
def test_optimal_scores_are_the_authors(percent_small):
    test = gamma_varying(percent_small).test
    best = bayes_optimal(test.bags)
    mse, nll = paper_value(percent_small, "mse"), paper_value(percent_small, "nll")
    # Same data: with the authors' own discretisation, all six printed decimals.
    assert discretised_scores(test.bags, test.labels) == pytest.approx((mse, nll), abs=6e-7)
    # The exact posterior is theirs but for the discretisation (step 8e-4).
    assert metrics.mse(best, test.labels) == pytest.approx(mse, abs=2e-5)
    assert metrics.nll(best, test.labels) == pytest.approx(nll, abs=2.5e-4)
    assert metrics.coverage(best, test.labels) == pytest.approx(0.95, abs=0.02)


def test_fixed_size_labels_are_the_authors():
    """First labels in the authors' stored training predictions for seed 25."""
    labels = make_gamma(25, noise_sd=1.0, fixed_size=1, n_bags={"train": 1000}).train.labels
    stored = [4.36710506178929, 4.13619937118819, 7.77665358499329]
    np.testing.assert_allclose(labels[:3], stored, rtol=1e-14)


def test_recipe_step_by_step():
    """The recipe written out once more, for the second split."""
    split = make_gamma(5, percent_small=10, noise_sd=0.5, n_bags={"early_stop": 30}).early_stop
    rs = np.random.RandomState(np.random.RandomState(5).randint(2**32, size=4, dtype="int64")[1])
    sizes = np.array([5] * 3 + [20] * 7 + [100] * 7 + [1000] * 13)
    rs.shuffle(sizes)
    labels = rs.uniform(4, 8, 30)
    np.testing.assert_array_equal(split.labels, labels)
    np.testing.assert_array_equal(split.bags.sizes, sizes)
    for i in range(30):
        clean = rs.chisquare(labels[i], (sizes[i], 5)) / labels[i]
        np.testing.assert_array_equal(split.bags[i], clean + rs.normal(0, 0.5, (sizes[i], 5)))


def test_splits_differ_and_are_made_once():
    data = make_gamma(n_bags=4)
    labels = [data.train, data.early_stop, data.validation, data.test]
    assert len({split.labels[0] for split in labels}) == 4
    assert data.train is data.train
    np.testing.assert_array_equal(make_gamma(n_bags=4).test.bags.points, data.test.bags.points)


def test_paper_settings():
    varying, fixed = gamma_varying(5), gamma_fixed(24)
    assert dict(varying.n_bags) == {
        "train": 1000, "early_stop": 500, "validation": 500, "test": 1000,
    }  # fmt: skip
    assert (varying.seed, varying.percent_small, varying.noise_sd) == (23, 5, 0.0)
    assert (fixed.seed, fixed.fixed_size, fixed.noise_sd) == (24, 1000, 1.0)
    sizes, counts = np.unique(varying.validation.bags.sizes, return_counts=True)
    assert dict(zip(sizes.tolist(), counts.tolist(), strict=True)) == {
        5: 25, 20: 125, 100: 125, 1000: 225,
    }  # fmt: skip


def test_points_have_the_right_moments():
    split = make_gamma(noise_sd=1.0, fixed_size=400, n_bags=200).train
    points = split.bags.points
    var = np.mean(1.0 + 2.0 / split.labels)  # noise plus the variance of chi-square(y) / y
    assert abs(points.mean() - 1.0) < 4 * np.sqrt(var / points.size)
    assert points.var() == pytest.approx(var, rel=0.02)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"percent_small": 60}, "percent_small is 60; expected a percentage from 0 to 50"),
        ({"fixed_size": 0}, "fixed_size is 0; expected at least 1 point"),
        ({"noise_sd": -1.0}, "noise_sd is -1.0; expected a number >= 0"),
        ({"n_bags": 0}, "at least one bag for each of train, early_stop"),
        ({"n_bags": {"tests": 3}}, "n_bags is .*tests"),
    ],
)
def test_gamma_errors(options, message):
    with pytest.raises(BagwiseError, match=message):
        make_gamma(**options)


# ---------------------------------------------------------------- posterior


@pytest.fixture(scope="module")
def small():
    split = make_gamma(n_bags=20).test
    return split, bayes_optimal(split.bags)


def quad_density(points):
    """Unnormalised density of the label, from scipy's chi-square, scaled to peak near one."""

    def log_likelihood(y):
        return np.sum(np.log(y) + stats.chi2.logpdf(points * y, df=y))

    grid = np.linspace(4, 8, 400)
    values = [log_likelihood(y) for y in grid]
    peak, top = grid[int(np.argmax(values))], max(values)
    return (lambda y: np.exp(log_likelihood(y) - top)), peak


def quad(function, peak, low=4.0, high=8.0):
    cuts = np.clip([low, peak - 0.5, peak - 0.1, peak + 0.1, peak + 0.5, high], low, high)
    pieces = itertools.pairwise(cuts)
    return sum(integrate.quad(function, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pieces)


@pytest.mark.parametrize("size", [5, 20, 100, 1000])
def test_posterior_is_the_integral(small, size):
    split, best = small
    i = int(np.flatnonzero(split.bags.sizes == size)[0])
    density, peak = quad_density(split.bags[i])
    norm = quad(density, peak)
    mean = quad(lambda y: y * density(y), peak) / norm
    var = quad(lambda y: (y - mean) ** 2 * density(y), peak) / norm
    label = split.labels[i]
    assert best.mean[i] == pytest.approx(mean, abs=1e-8)
    assert best.std[i] == pytest.approx(np.sqrt(var), abs=1e-8)
    log_density = np.log(density(label) / norm)
    assert best.log_prob(split.labels)[i] == pytest.approx(log_density, abs=1e-8)
    below = quad(density, peak, high=label) / norm
    assert best.cdf(split.labels)[i] == pytest.approx(below, abs=1e-8)


def test_interval_inverts_the_cdf(small):
    _, best = small
    lower, upper = best.interval(0.9).T
    np.testing.assert_allclose(best.cdf(lower), 0.05, atol=1e-12)
    np.testing.assert_allclose(best.cdf(upper), 0.95, atol=1e-12)
    np.testing.assert_allclose(best.cdf(best.quantile(0.5)), 0.5, atol=1e-12)


def test_posterior_crps_is_the_integral(small):
    _, best = small
    grid = np.linspace(2.5, 10, 1501)
    cdf = np.stack([best.cdf(label) for label in grid], axis=1)
    for y in (3.0, 4.0, 5.3, 8.0, 9.5):
        expected = integrate.trapezoid((cdf - (grid >= y)) ** 2, grid, axis=1)
        np.testing.assert_allclose(best.crps(y), expected, atol=4e-3)


def test_outside_the_prior_is_impossible(small):
    _, best = small
    assert np.all(np.isneginf(best.log_prob(3.9)))
    np.testing.assert_allclose(best.cdf(3.9), 0.0, atol=1e-14)
    np.testing.assert_allclose(best.cdf(8.1), 1.0, atol=1e-14)
    assert len(best) == 20


def test_large_bags_get_more_panels():
    split = make_gamma(fixed_size=40_000, n_bags=2).train
    best = bayes_optimal(split.bags)
    assert np.all(best.std < 0.06)
    assert np.all(np.abs(best.mean - split.labels) < 4 * best.std)
    np.testing.assert_allclose(best.cdf(8.0), 1.0, atol=1e-12)


def test_optimal_report_by_size(small):
    split, best = small
    rows = metrics.evaluate(best, split.labels).rows
    assert [row["group"] for row in rows] == ["all", "5", "20", "100", "1000"]
    assert rows[1]["width"] > rows[4]["width"]


def test_posterior_errors(small):
    _, best = small
    with pytest.raises(BagwiseError, match="gamma bags without noise"):
        bayes_optimal(Bags.from_list([np.array([[1.0, -1.0]])]))
    with pytest.raises(BagwiseError, match=r"y has shape \(3,\)"):
        best.cdf(np.zeros(3))
    with pytest.raises(BagwiseError, match=r"in \(0, 1\)"):
        best.interval(1.0)


def test_gamma_objects_pickle(small):
    split, best = small
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(best)).mean, best.mean)
    data = make_gamma(n_bags=3)
    copy = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(copy.train.labels, data.train.labels)
    assert split.labels.dtype == np.float64


# ---------------------------------------------------------------- polls


@pytest.fixture(scope="module")
def polls():
    return load_polls()


def test_polls_counts(polls):
    assert polls.bags.n_bags == 1708
    assert polls.bags.n_points == 8824
    sizes = polls.bags.sizes
    assert (sizes.min(), np.median(sizes), sizes.max()) == (1, 2, 94)
    assert polls.bags.feature_names[0] == "poll_margin"
    assert polls.bags.covariate_names == ("president", "senate", "governor", "house")
    np.testing.assert_array_equal(polls.bags.covariates.sum(axis=1), 1)
    assert (polls.years.min(), polls.years.max()) == (1998, 2020)
    assert "FiveThirtyEight" in polls.attribution
    assert "CC BY 4.0" in polls.attribution


def test_polls_plain_average_by_size(polls):
    error = (polls.average - polls.labels) ** 2
    assert np.sqrt(error.mean()) == pytest.approx(6.73, abs=0.005)
    sizes = polls.bags.sizes
    for low, high, expected in [(1, 1, 8.37), (2, 2, 7.27), (3, 5, 5.82), (6, 10, 4.70)]:
        chosen = (sizes >= low) & (sizes <= high)
        assert np.sqrt(error[chosen].mean()) == pytest.approx(expected, abs=0.005)
    assert np.sqrt(error[sizes > 10].mean()) == pytest.approx(4.05, abs=0.005)


def test_polls_against_pandas(polls):
    pd = pytest.importorskip("pandas")
    from importlib import resources

    with (resources.files("bagwise.datasets") / "polls.parquet").open("rb") as file:
        races = pd.read_parquet(file).groupby("race", sort=False)
    np.testing.assert_allclose(polls.average, races["poll_margin"].mean().loc[polls.bags.ids])
    np.testing.assert_array_equal(polls.labels, races["actual_margin"].first().loc[polls.bags.ids])
    np.testing.assert_array_equal(polls.years, races["year"].first().loc[polls.bags.ids])


# ---------------------------------------------------------------- paper


def test_paper_results():
    rows = load_paper_results()
    assert len(rows) == 412
    assert {row.experiment for row in rows} == {"gamma-varying", "gamma-fixed", "imdb-wiki"}
    blr = load_paper_results(experiment="gamma-fixed", method="BLR", metric="mse")
    assert [row.setting for row in blr] == list(range(23, 33))
    assert np.mean([row.value for row in blr]) == pytest.approx(0.228, abs=5e-4)


def test_import_is_light():
    code = "import sys, bagwise.datasets; print([m for m in sys.modules if '.' not in m])"
    source = str(Path(bagwise.__file__).parents[1])
    loaded = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    for heavy in ("pandas", "matplotlib", "pyarrow", "polars", "jax"):
        assert f"'{heavy}'" not in loaded.stdout
