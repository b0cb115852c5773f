"""Metrics against closed forms, simulation and hand-made groups."""

import numpy as np
import pytest
from scipy import stats

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.predictions import metrics
from bagwise.predictions.gaussian import Prediction, VarianceParts


def gaussian(mean, var, **options):
    return Prediction(mean, VarianceParts.broadcast(len(mean), noise=var), **options)


@pytest.fixture(scope="module")
def calibrated():
    """Labels drawn from their own predictions."""
    rng = np.random.default_rng(0)
    n = 20_000
    p = gaussian(rng.normal(size=n), rng.uniform(0.1, 3, n), sizes=rng.integers(1, 4, n))
    return p, p.sample(random_state=1)[0]


def test_errors_by_hand():
    p = gaussian([0.0, 1.0, 2.0], 1.0)
    y = [1.0, 1.0, 4.0]
    assert metrics.mse(p, y) == pytest.approx(5 / 3)
    assert metrics.rmse(p, y) == pytest.approx(np.sqrt(5 / 3))
    assert metrics.nll(p, y) == pytest.approx(-np.mean(stats.norm.logpdf(y, p.mean)))
    assert metrics.mean_width(p, 0.9) == pytest.approx(2 * stats.norm.ppf(0.95))


def test_crps_is_the_energy_form(calibrated):
    """Check E|X - y| - E|X - X'|/2 with draws of X."""
    p, y = calibrated
    p, y = p[:50], y[:50]
    draws, others = p.sample(40_000, 2), p.sample(40_000, 3)
    energy = np.abs(draws - y).mean() - 0.5 * np.abs(draws - others).mean()
    assert metrics.crps(p, y) == pytest.approx(energy, abs=0.005)


@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_calibrated_predictions_are_covered(calibrated, level):
    p, y = calibrated
    standard_error = np.sqrt(level * (1 - level) / y.size)
    assert abs(metrics.coverage(p, y, level) - level) < 4 * standard_error


def test_pit_is_uniform_only_when_calibrated(calibrated):
    p, y = calibrated
    assert stats.kstest(metrics.pit(p, y), "uniform").pvalue > 0.01
    overconfident = gaussian(p.mean, 0.5 * p.var)
    assert stats.kstest(metrics.pit(overconfident, y), "uniform").pvalue < 1e-6


@pytest.mark.parametrize("metric", [metrics.nll, metrics.crps])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scores_are_proper(calibrated, metric, scale):
    p, y = calibrated
    assert metric(p, y) < metric(gaussian(p.mean, scale * p.var), y)


def test_evaluate_agrees_with_the_functions_in_every_group(calibrated):
    p, y = calibrated
    scores = metrics.evaluate(p, y, level=0.8)
    assert [row["group"] for row in scores.rows] == ["all", "1", "2", "3"]
    masks = [np.ones(y.size, dtype=bool)] + [p.sizes == size for size in (1, 2, 3)]
    for row, mask in zip(scores.rows, masks, strict=True):
        part, labels = p[mask], y[mask]
        assert row["bags"] == mask.sum()
        for name in ("mse", "rmse", "nll", "crps"):
            assert row[name] == pytest.approx(getattr(metrics, name)(part, labels))
        assert row["coverage"] == metrics.coverage(part, labels, 0.8)
        assert row["width"] == pytest.approx(metrics.mean_width(part, 0.8))
    assert scores.overall is scores.rows[0]


def groups(sizes, **options):
    p = gaussian(np.zeros(len(sizes)), 1.0)
    rows = metrics.evaluate(p, np.zeros(len(sizes)), sizes=sizes, **options).rows[1:]
    return {row["group"]: row["bags"] for row in rows}


def test_edges_name_the_groups():
    sizes = [1, 1, 2, 3, 5, 6, 10, 11, 94]
    expected = {"1": 2, "2": 1, "3–5": 2, "6–10": 2, "11+": 2}
    assert groups(sizes, edges=(1, 2, 3, 6, 11)) == expected
    assert groups(sizes, edges=(3, 20)) == {"<3": 3, "3–19": 5, "20+": 1}
    assert groups([1, 30], edges=(1, 5, 20)) == {"1–4": 1, "20+": 1}


def test_few_distinct_sizes_are_groups_of_their_own():
    assert groups([5, 1000, 20, 5, 100]) == {"5": 2, "20": 1, "100": 1, "1000": 1}


def test_many_sizes_are_cut_in_equal_shares():
    expected = {"1–20": 20, "21–40": 20, "41–60": 20, "61–80": 20, "81+": 20}
    assert groups(np.arange(1, 101)) == expected


def test_common_sizes_are_groups_of_their_own():
    sizes = [1] * 90 + list(range(2, 12))
    assert groups(sizes) == {"1": 90, "2–4": 3, "5–7": 3, "8–9": 2, "10+": 2}


def test_sizes_that_are_not_whole_numbers():
    assert groups([0.5, 1.5, 2.5], edges=(0.5, 2.0)) == {"0.5–<2": 2, "2+": 1}


def test_no_sizes_no_groups():
    scores = metrics.evaluate(gaussian([0.0, 1.0], 1.0), [0.0, 1.0])
    assert [row["group"] for row in scores.rows] == ["all"]


def test_table_and_frame(calibrated):
    p, y = calibrated
    scores = metrics.evaluate(p, y)
    lines = str(scores).splitlines()
    assert len(lines) == 5
    assert len({len(line) for line in lines}) == 1
    frame = scores.to_frame()
    head = ["group", "bags", "mse", "rmse", "nll", "crps", "coverage", "width"]
    assert list(frame.columns) == head == lines[0].split()
    assert len(frame) == 4


def test_errors_say_what_is_wrong():
    p = gaussian([0.0, 1.0], 1.0)
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(3,\); expected \(2,\)"):
        metrics.mse(p, [0.0, 1.0, 2.0])
    with pytest.raises(InvalidLabelsError, match="y is nan at row 1"):
        metrics.evaluate(p, [0.0, np.nan])
    with pytest.raises(BagwiseError, match=r"sizes have shape \(1,\) and minimum 3"):
        metrics.evaluate(p, [0.0, 1.0], sizes=[3])
    with pytest.raises(BagwiseError, match="minimum 0"):
        metrics.evaluate(p, [0.0, 1.0], sizes=[3, 0])
    with pytest.raises(BagwiseError, match="edges came without bag sizes"):
        metrics.evaluate(p, [0.0, 1.0], edges=[1])
    with pytest.raises(BagwiseError, match="increasing first sizes"):
        metrics.evaluate(p, [0.0, 1.0], sizes=[1, 2], edges=[2, 1])
    with pytest.raises(BagwiseError, match="level is 95"):
        metrics.evaluate(p, [0.0, 1.0], level=95)
    with pytest.raises(BagwiseError, match="y is empty"):
        metrics.evaluate(p[:0], [])
