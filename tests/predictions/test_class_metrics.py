"""Metrics of classes against scikit-learn, scipy.stats, simulation and hand-made tables."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit
from sklearn import metrics as sklearn_metrics
from sklearn.linear_model import LogisticRegression

from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.likelihoods import Probit
from bagwise.predictions import metrics
from bagwise.predictions.classes import ClassPrediction
from bagwise.predictions.mixture import MixturePrediction

ZERO_ONE = np.array([0, 1])


def stating(p, classes=ZERO_ONE, sizes=None):
    """Predict these probabilities of the second class."""
    means = stats.norm.ppf(np.asarray(p, dtype=float))[None]
    sizes = np.full(means.shape[1], 5) if sizes is None else sizes
    return ClassPrediction(MixturePrediction(means, np.zeros(1), sizes=sizes), Probit(), classes)


class Certain:
    """What the metrics need, and no more."""

    classes = ZERO_ONE
    proba = np.eye(2)

    def log_prob(self, y):
        return np.log(np.asarray(y) == self.proba[:, 1])


@pytest.fixture(scope="module")
def calibrated():
    """Labels drawn from their own predictions."""
    rng = np.random.default_rng(0)
    n = 20_000
    p = stating(rng.beta(1.5, 2.5, n), classes=["no", "yes"], sizes=rng.integers(1, 4, n))
    return p, p.classes[(rng.random(n) < p.probability).astype(int)]


# ---------------------------------------------------------------- scores


def test_scores_by_hand():
    p, y = stating([0.9, 0.5, 0.2]), [1, 0, 1]
    assert metrics.log_loss(p, y) == pytest.approx(-np.log([0.9, 0.5, 0.2]).mean())
    assert metrics.brier(p, y) == pytest.approx((0.01 + 0.25 + 0.64) / 3)
    assert metrics.accuracy(p, y) == pytest.approx(1 / 3)


def test_scores_are_scikit_learns(calibrated):
    p, y = calibrated
    assert metrics.log_loss(p, y) == pytest.approx(
        sklearn_metrics.log_loss(y, p.proba, labels=p.classes), rel=1e-12
    )
    assert metrics.brier(p, y) == pytest.approx(
        sklearn_metrics.brier_score_loss(y, p.probability, pos_label="yes"), rel=1e-12
    )
    assert metrics.accuracy(p, y) == sklearn_metrics.accuracy_score(y, p.predicted)


@pytest.mark.parametrize("metric", [metrics.log_loss, metrics.brier])
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_scores_are_proper(calibrated, metric, scale):
    p, y = calibrated
    other = stating(stats.norm.cdf(scale * stats.norm.ppf(p.probability)), p.classes)
    assert metric(p, y) < metric(other, y)


@pytest.mark.parametrize("metric", [metrics.log_loss, metrics.brier, metrics.accuracy])
def test_swapping_the_classes_changes_nothing(calibrated, metric):
    p, y = calibrated
    swapped = stating(1 - p.probability, p.classes[::-1])
    assert metric(swapped, y) == pytest.approx(metric(p, y), rel=1e-12)


@pytest.mark.parametrize(
    "metric", [metrics.log_loss, metrics.brier, metrics.accuracy, metrics.reliability]
)
def test_labels_that_are_no_classes(metric):
    with pytest.raises(InvalidLabelsError, match=r"y is 2 at row 1; expected 0 or 1"):
        metric(stating([0.5, 0.5, 0.5]), [0, 2, 3])
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(1,\); expected \(3,\)"):
        metric(stating([0.5, 0.5, 0.5]), [0])


# ---------------------------------------------------------------- evaluate


def test_evaluate_agrees_with_the_functions_in_every_group(calibrated):
    p, y = calibrated
    scores = metrics.evaluate(p, y)
    assert [row["group"] for row in scores.rows] == ["all", "1", "2", "3"]
    masks = [np.ones(y.size, dtype=bool)] + [p.sizes == size for size in (1, 2, 3)]
    for row, mask in zip(scores.rows, masks, strict=True):
        part, labels = p[mask], y[mask]
        assert row["bags"] == mask.sum()
        for name in ("log_loss", "brier", "accuracy"):
            assert row[name] == pytest.approx(getattr(metrics, name)(part, labels))
        difference = np.mean(labels == "yes") - part.probability.mean()
        assert row["calibration"] == pytest.approx(difference, abs=1e-12)
        assert abs(row["calibration"]) < 4 * 0.5 / np.sqrt(mask.sum())
        assert row["slope"] == pytest.approx(metrics.recalibration_slope(part, labels))
    head = ["group", "bags", "log_loss", "brier", "accuracy", "calibration", "slope"]
    assert list(scores.overall) == head == str(scores).splitlines()[0].split()


@pytest.mark.parametrize("factor", [0.5, 1.0, 2.0])
def test_the_slope_is_that_of_scikit_learns_logistic_regression(factor):
    rng = np.random.default_rng(3)
    latent = rng.normal(0, 1.5, 400)
    y = rng.random(400) < expit(latent)
    p = stating(expit(latent / factor))
    fit = LogisticRegression(C=1e9, tol=1e-10).fit(latent[:, None] / factor, y)
    found = metrics.recalibration_slope(p, y.astype(int))
    assert found == pytest.approx(fit.coef_[0, 0], rel=1e-4)
    assert found == pytest.approx(factor, rel=0.2)


def test_a_slope_that_cannot_be_told():
    assert np.isnan(metrics.recalibration_slope(stating([0.2, 0.6]), [1, 1]))
    assert np.isnan(metrics.recalibration_slope(stating([0.5, 0.5]), [0, 1]))
    assert metrics.recalibration_slope(stating([0.2, 0.6]), [0, 1]) == np.inf


def test_evaluate_takes_sizes_and_edges():
    p = stating([0.1, 0.4, 0.8])
    rows = metrics.evaluate(p, [0, 1, 1], sizes=[1, 5, 9], edges=(1, 6)).rows
    assert [(row["group"], row["bags"]) for row in rows] == [("all", 3), ("1–5", 2), ("6+", 1)]


def test_evaluate_errors():
    p = stating([0.1, 0.4])
    with pytest.raises(InvalidLabelsError, match="y is 'a' at row 0"):
        metrics.evaluate(p, ["a", "b"])
    with pytest.raises(BagwiseError, match="level is 2"):
        metrics.evaluate(p, [0, 1], level=2)
    with pytest.raises(BagwiseError, match="y is empty"):
        metrics.evaluate(p[:0], [])


# ---------------------------------------------------------------- reliability


def test_quantile_bins_have_about_as_many_bags(calibrated):
    p, y = calibrated
    table = metrics.reliability(p, y)
    np.testing.assert_array_equal(table.bags, 2000)
    np.testing.assert_allclose(table.lower[1:], table.upper[:-1])
    assert table.lower[0] == p.probability.min()
    assert table.upper[-1] == p.probability.max()
    assert ((table.lower <= table.predicted) & (table.predicted <= table.upper)).all()
    assert metrics.reliability(p[:25], y[:25]).bags.tolist() == [3] * 5 + [2] * 5


def test_bins_by_hand():
    p = stating([0.05, 0.15, 0.15, 0.85, 0.9])
    table = metrics.reliability(p, [0, 0, 1, 1, 1], n_bins=5, strategy="uniform")
    np.testing.assert_allclose(table.lower, [0.0, 0.8])
    np.testing.assert_allclose(table.upper, [0.2, 1.0])
    assert table.bags.tolist() == [3, 2]
    np.testing.assert_allclose(table.predicted, [0.35 / 3, 0.875])
    np.testing.assert_allclose(table.observed, [1 / 3, 1.0])
    expected = (3 * (1 / 3 - 0.35 / 3) + 2 * 0.125) / 5
    assert table.calibration_error == pytest.approx(expected)


def test_equal_probabilities_share_a_bin():
    p = stating([0.2] * 7 + [0.6] * 2 + [0.7])
    table = metrics.reliability(p, [0] * 8 + [1] * 2, n_bins=5)
    assert table.bags.tolist() == [7, 2, 1]
    np.testing.assert_allclose(table.predicted, [0.2, 0.6, 0.7])
    np.testing.assert_allclose(table.observed, [0.0, 0.5, 1.0])


def test_one_probability_is_one_bin():
    for strategy in ("quantile", "uniform"):
        table = metrics.reliability(stating([0.3] * 4), [0, 1, 0, 0], strategy=strategy)
        assert table.bags.tolist() == [4]
        assert table.observed[0] == 0.25
        assert table.lower[0] <= 0.3 + 1e-12
        assert table.upper[0] >= 0.3 - 1e-12


def test_certain_probabilities_are_in_the_end_bins():
    table = metrics.reliability(Certain(), [0, 1], n_bins=4, strategy="uniform")
    assert table.lower.tolist() == [0.0, 0.75]
    assert table.upper.tolist() == [0.25, 1.0]
    assert table.calibration_error == 0


def test_anything_with_the_methods_is_scored():
    assert metrics.evaluate(Certain(), [0, 1]).overall["brier"] == 0


def test_intervals_are_exact_binomial_ones():
    hits = [0, 1, 5, 10]
    y = np.concatenate([np.arange(10) < k for k in hits])
    table = metrics.reliability(stating(np.repeat([0.1, 0.3, 0.5, 0.9], 10), [False, True]), y)
    for row, k in zip(table.rows, hits, strict=True):
        expected = stats.binomtest(k, 10).proportion_ci(0.95, method="exact")
        assert row["observed"] == k / 10
        found = row["observed_lower"], row["observed_upper"]
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_calibrated_predictions_are_reliable_and_others_are_not(calibrated):
    p, y = calibrated
    table = metrics.reliability(p, y, n_bins=20)
    inside = (table.observed_lower <= table.predicted) & (table.predicted <= table.observed_upper)
    assert inside.sum() >= 17
    assert table.calibration_error < 0.02
    sharper = stating(stats.norm.cdf(2 * stats.norm.ppf(p.probability)), p.classes)
    assert metrics.reliability(sharper, y).calibration_error > 0.1


def test_table_and_frame(calibrated):
    p, y = calibrated
    table = metrics.reliability(p, y, 5)
    frame = table.to_frame()
    lines = str(table).splitlines()
    head = "lower upper bags predicted observed observed_lower observed_upper".split()
    assert list(frame.columns) == head == lines[0].split()
    assert len(frame) == len(table.rows) == len(lines) - 1 == 5
    assert repr(table) == str(table)
    np.testing.assert_array_equal(frame["observed"], table.observed)


def test_errors_of_reliability():
    p = stating([0.1, 0.4])
    with pytest.raises(BagwiseError, match="n_bins is 0; expected at least 1"):
        metrics.reliability(p, [0, 1], n_bins=0)
    with pytest.raises(BagwiseError, match="strategy is 'other'; expected 'quantile' or 'uniform'"):
        metrics.reliability(p, [0, 1], strategy="other")
    with pytest.raises(BagwiseError, match="y is empty"):
        metrics.reliability(p[:0], [])
