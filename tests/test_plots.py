"""Pictures show what they are given."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bagwise.plots import predicted_against_true, predictions_by_size
from bagwise.prediction import Prediction, VarianceParts


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


def test_a_column_per_method_and_a_row_per_size():
    predictions = {"one": _prediction(np.arange(6)), "two": _prediction(np.zeros(6))}
    figure = predictions_by_size(predictions, np.arange(6.0), [1, 1, 5, 5, 9, 9])
    panels = [axes for axes in figure.axes if axes.collections and axes.get_label() != "<colorbar>"]
    assert len(panels) == 6
    assert [axes.get_title() for axes in panels[:2]] == ["one", "two"]
    assert [panels[i].get_ylabel().split("\n")[0] for i in (0, 2, 4)] == ["N = 1", "N = 5", "N = 9"]
    np.testing.assert_allclose(panels[2].collections[0].get_offsets()[:, 0], [2, 3])


def test_too_many_sizes_are_refused_with_a_remedy():
    with pytest.raises(ValueError, match=r"7 distinct sizes; expected at most 6. Group them"):
        predictions_by_size({"one": _prediction(np.zeros(7))}, np.zeros(7), np.arange(7))
