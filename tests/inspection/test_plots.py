"""Pictures show what they are given."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bagwise.exceptions import BagwiseError
from bagwise.inference.history import History
from bagwise.inspection.plots import (
    learning,
    predicted_against_true,
    predictions_by_size,
    reliability,
    spread_by_size,
)
from bagwise.likelihoods import Probit
from bagwise.predictions.classes import ClassPrediction
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.metrics import Reliability
from bagwise.predictions.mixture import MixturePrediction


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


def _prediction(mean, noise=1.0):
    return Prediction(np.asarray(mean, float), VarianceParts.broadcast(len(mean), noise=noise))


def test_points_are_labels_and_means_coloured_by_standard_deviation():
    prediction = _prediction([1.0, 2.0], noise=np.array([1.0, 4.0]))
    axes = predicted_against_true(prediction, [1.5, 2.5])
    (points,) = axes.collections
    np.testing.assert_allclose(points.get_offsets(), [[1.5, 1.0], [2.5, 2.0]])
    np.testing.assert_allclose(points.get_array(), [1.0, 2.0])


def test_axes_given_are_the_axes_drawn_on():
    _, axes = plt.subplots()
    assert predicted_against_true(_prediction([0.0, 1.0]), [0.0, 1.0], ax=axes) is axes


def test_means_outside_the_limits_are_drawn_on_the_edge():
    axes = predicted_against_true(_prediction([9.0]), [1.0], limits=(0.0, 2.0))
    np.testing.assert_allclose(axes.collections[0].get_offsets(), [[1.0, 2.0]])


def test_points_are_coloured_by_three_groups_of_sizes_on_request():
    sizes = [1, 1, 2, 5, 9, 30]
    axes = predicted_against_true(_prediction(np.arange(6.0)), np.arange(6.0), sizes=sizes)
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "N = 1",
        "N = 2–8",
        "N = 9+",
    ]
    assert [len(dots.get_offsets()) for dots in axes.collections] == [2, 2, 2]
    assert len({tuple(dots.get_facecolor()[0]) for dots in axes.collections}) == 3


def test_labels_that_are_all_equal_are_drawn():
    low, high = predicted_against_true(_prediction([3.0, 3.0]), [3.0, 3.0]).get_xlim()
    assert low < 3.0 < high


def test_actual_errors_are_drawn_where_bags_are_many_enough():
    sizes, y = np.repeat([1, 9], [6, 4]), np.r_[np.full(6, 3.0), np.full(4, 5.0)]
    for scale, height in (("sd", 3.0), ("variance", 9.0)):
        axes = spread_by_size(_prediction(np.zeros(10)), y, sizes=sizes, scale=scale)
        (dots,) = axes.lines
        np.testing.assert_allclose(dots.get_ydata(), [height, np.nan])
        assert axes.get_ylim()[1] > height
    latent = MixturePrediction(np.zeros((1, 2)), np.zeros(1))
    with pytest.raises(BagwiseError, match="of classes, whose latent value is not observed"):
        spread_by_size(ClassPrediction(latent, Probit(), [0, 1]), [0, 1], sizes=[1, 1])


def test_a_column_per_method_and_a_row_per_size():
    predictions = {"one": _prediction(np.arange(6)), "two": _prediction(np.zeros(6))}
    figure = predictions_by_size(predictions, np.arange(6.0), [1, 1, 5, 5, 9, 9])
    panels = [axes for axes in figure.axes if axes.collections and axes.get_label() != "<colorbar>"]
    assert len(panels) == 6
    assert [axes.get_title() for axes in panels[:2]] == ["one", "two"]
    assert [panels[i].get_ylabel().split("\n")[0] for i in (0, 2, 4)] == ["N = 1", "N = 5", "N = 9"]
    np.testing.assert_allclose(panels[2].collections[0].get_offsets()[:, 0], [2, 3])


def test_many_sizes_are_grouped_into_a_row_each():
    sizes = np.arange(1, 41)
    figure = predictions_by_size({"one": _prediction(np.zeros(40))}, np.zeros(40), sizes)
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    names = [axes.get_ylabel().split("\n")[0] for axes in panels]
    assert names == ["N = 1–8", "N = 9–16", "N = 17–24", "N = 25–32", "N = 33+"]
    assert [len(axes.collections[0].get_offsets()) for axes in panels] == [8] * 5


def test_sizes_are_grouped_by_the_edges_given():
    figure = predictions_by_size(
        {"one": _prediction(np.zeros(3))}, np.zeros(3), [1, 2, 30], edges=(1, 10)
    )
    assert [axes.get_ylabel().split("\n")[0] for axes in figure.axes[:2]] == ["N = 1–9", "N = 10+"]


def test_too_many_groups_are_refused_with_a_remedy():
    with pytest.raises(BagwiseError, match=r"edges make 7 groups .* at most 6, .* fewer edges"):
        predictions_by_size(
            {"one": _prediction(np.zeros(7))}, np.zeros(7), np.arange(1, 8), edges=range(1, 8)
        )


@pytest.fixture
def table():
    """Three bins, the last of bags that share one probability."""
    lower, upper = np.array([0.0, 0.4, 0.9]), np.array([0.4, 0.9, 0.9])
    predicted, observed = np.array([0.2, 0.6, 0.9]), np.array([0.0, 0.5, 0.8])
    ends = np.array([0.0, 0.3, 0.7]), np.array([0.2, 0.7, 0.85])
    return Reliability(lower, upper, np.array([20, 10, 1]), predicted, observed, *ends)


def test_reliability_shows_shares_with_their_intervals_and_the_diagonal(table):
    axes = reliability(table)
    diagonal, points = axes.lines[:2]
    np.testing.assert_allclose(diagonal.get_xydata(), [[0, 0], [1, 1]])
    np.testing.assert_allclose(points.get_xydata(), np.c_[table.predicted, table.observed])
    (whiskers,) = axes.collections
    ends = np.array([segment[:, 1] for segment in whiskers.get_segments()])
    np.testing.assert_allclose(ends, np.c_[table.observed_lower, table.observed_upper])
    assert axes.get_legend() is None
    assert axes.get_ylabel() == "observed share"


def test_areas_of_the_reliability_histogram_are_counts_below_the_points(table):
    axes = reliability(table)
    bars = axes.patches
    centers = [bar.get_x() + bar.get_width() / 2 for bar in bars]
    np.testing.assert_allclose(centers, [0.2, 0.65, 0.9])
    areas = np.array([bar.get_width() * bar.get_height() for bar in bars])
    np.testing.assert_allclose(areas / areas[0], table.bags / table.bags[0])
    assert max(bar.get_y() + bar.get_height() for bar in bars) < 0
    assert axes.get_ylim()[0] == pytest.approx(bars[0].get_y())


def test_reliability_of_two_models_on_one_axes(table):
    _, axes = plt.subplots()
    assert reliability(table, axes, label="one") is axes
    reliability(table, ax=axes, label="two")
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one", "two"]
    colors = {container.lines[0].get_color() for container in axes.containers[::2]}
    assert len(colors) == 2


def test_an_interval_that_ends_at_the_share_but_for_rounding_is_drawn(table):
    rounded = Reliability(**(vars(table) | {"observed_lower": table.observed + 1e-17 + 1e-16}))
    assert reliability(rounded).containers


def test_learning_shows_both_losses_and_the_epoch_that_is_kept():
    history = History((3.0, 2.0, 1.0), (3.5, 2.5, 2.75), "bags held out gained no more")
    axes = learning(SimpleNamespace(history_=history))
    train, held_out, best = axes.get_lines()
    np.testing.assert_array_equal(train.get_ydata(), history.train)
    np.testing.assert_array_equal(held_out.get_ydata(), history.validation)
    assert best.get_xdata()[0] == 1 and axes.get_title(loc="left") == history.end
    with pytest.raises(BagwiseError, match="has learnt no features"):
        learning(SimpleNamespace())
