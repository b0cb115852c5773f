"""Pictures of predictions: calibration, spread and more points."""

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots import calibration, more_points, pit, spread_by_size
from bagwise.inspection.plots.coverage import LEVELS, by_group
from bagwise.inspection.plots.spread import more_points_of, spread_of
from bagwise.inspection.plots.style import BLUE, JOURNAL
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.metrics import coverage
from sized import Sized


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


SIZED = Sized.one([2.0, 1.0], [1.0, 0.1])


def gaussian(sizes, noise=1.0, weights=0.5):
    sizes = np.asarray(sizes)
    return SIZED.predict(sizes, np.zeros((1, len(sizes))), noise=[noise], weights_var=weights)


@pytest.fixture
def many():
    """Labels of bags of two sizes, right for the small ones, too wide by half for the large."""
    rng = np.random.default_rng(0)
    sizes = np.repeat([2, 50], 300)
    prediction = gaussian(sizes)
    scale = np.where(sizes == 2, 1.0, 0.5)
    return prediction, scale * prediction.std * rng.standard_normal(600)


# ---------------------------------------------------------------- calibration


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if line.get_label()[0] != "_"}


def test_calibration_draws_the_coverage_of_each_size_at_each_level(many):
    prediction, y = many
    lines = lines_of(calibration(prediction, y))
    assert list(lines) == ["N = 2 (300 bags)", "N = 50 (300 bags)"]
    for line, rows in zip(lines.values(), (slice(0, 300), slice(300, 600)), strict=True):
        levels, shares = line.get_data()
        assert_allclose(levels, LEVELS)
        for place in (20, 50, 90):
            expected = coverage(prediction[rows], y[rows], LEVELS[place])
            assert shares[place] == pytest.approx(expected)


def test_dots_are_where_a_group_leaves_its_own_band(many):
    axes = calibration(*many)
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    off = [len(line.get_xdata()) for line in dots]
    assert off[0] <= 2 and off[1] >= 10  # of 21 levels
    for level, share in dots[1].get_xydata():
        low, high = binom.interval(0.95, 300, level)
        assert not low <= round(share * 300) <= high


def test_bands_hold_the_binomial_interval(many):
    axes = calibration(*many)
    (band,) = axes.collections  # both groups have as many bags
    edge = band.get_paths()[0].vertices
    middle = edge[np.isclose(edge[:, 0], 0.5)][:, 1]
    low, high = binom.interval(0.95, 300, 0.5)
    assert_allclose([middle.min(), middle.max()], [low / 300, high / 300], atol=0.005)


def test_calibration_without_sizes_is_of_all_bags():
    prediction = Prediction(np.zeros(9), VarianceParts.broadcast(9, noise=1.0))
    assert list(lines_of(calibration(prediction, np.zeros(9)))) == ["all bags (9 bags)"]


def test_calibration_draws_on_the_axes_given(many):
    _, axes = plt.subplots()
    assert calibration(*many, edges=(1, 10), ax=axes) is axes
    assert list(lines_of(axes)) == ["N = 1–9 (300 bags)", "N = 10+ (300 bags)"]


def class_prediction(sizes):
    n = len(sizes)
    sized = Sized(np.array([[2.0], [1.0]]), np.ones(1), np.array([1.0, 0.5]))
    means = np.linspace(-1.0, 1.0, 2 * n).reshape(2, n)
    return sized.classify(np.asarray(sizes), means, classes=["no", "yes"])


@pytest.mark.parametrize("draw", [calibration, pit])
def test_classes_are_sent_to_the_reliability_diagram(draw):
    with pytest.raises(BagwiseError, match=r"of classes, .* Draw plots.reliability"):
        draw(class_prediction([3, 4]), ["no", "yes"])


# ---------------------------------------------------------------- PIT


def test_pit_has_a_panel_per_size_with_bars_of_average_one(many):
    prediction, y = many
    figure = pit(prediction, y, bins=10)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "N = 2 (300 bags)",
        "N = 50 (300 bags)",
    ]
    for axes, group in zip(figure.axes, by_group(prediction, y), strict=True):
        bars = axes.containers[0]
        heights = np.array([bar.get_height() for bar in bars])
        counts = [
            np.sum((group.values >= k / 10) & (group.values < (k + 1) / 10)) for k in range(10)
        ]
        assert_allclose(heights, np.array(counts) / 30)


def test_pit_hides_the_panels_that_are_not_used():
    sizes = np.repeat(np.arange(1, 6), 20)
    figure = pit(gaussian(sizes), np.random.default_rng(0).normal(size=100))
    assert [axes.get_visible() for axes in figure.axes] == [True] * 5 + [False]
    assert figure.axes[2].get_xlabel() == "place in the predicted distribution"
    assert figure.axes[0].get_xlabel() == ""


# ---------------------------------------------------------------- spread by size


@pytest.mark.parametrize("scale", ["sd", "variance"])
def test_bars_end_at_the_root_mean_variance_of_their_size(scale):
    sizes, noise = np.array([1, 1, 9, 30]), np.array([1.0, 2.0, 1.0, 1.0])
    bag = SIZED.variance(sizes)[0]
    parts = VarianceParts.broadcast(4, bag=bag, weights=0.5, noise=noise)
    prediction = Prediction(np.zeros(4), parts, sizes=sizes)
    axes = spread_by_size(prediction, scale=scale)
    tops = [bar.get_y() + bar.get_height() for bar in axes.containers[-1]]
    variance = np.array([prediction.var[:2].mean(), *prediction.var[2:]])
    assert_allclose(tops, variance if scale == "variance" else np.sqrt(variance))
    assert [text.get_text() for text in axes.get_xticklabels()] == ["1", "9", "30"]
    assert [text.get_text().split(":")[0] for text in axes.get_legend().get_texts()] == [
        "bag",
        "weights",
        "noise",
    ]


def test_the_noise_is_as_high_in_every_bar():
    axes = spread_by_size(gaussian([1, 9, 30]))
    assert_allclose([bar.get_height() for bar in axes.containers[0]], 1.0)


def test_a_part_that_is_zero_is_left_out():
    axes = spread_by_size(gaussian([1, 9], weights=0.0))
    assert len(axes.containers) == 2


def test_spread_of_many_sizes_is_grouped():
    assert spread_of(gaussian(np.arange(1, 101))).names == [
        "1–20",
        "21–40",
        "41–60",
        "61–80",
        "81+",
    ]


def test_spread_of_classes_is_of_the_latent_value():
    axes = spread_by_size(class_prediction([3, 30]))
    assert axes.get_ylabel() == "standard deviation of the latent value"


def test_spread_refuses_what_it_cannot_draw():
    with pytest.raises(BagwiseError, match='scale is \'sds\'; expected "sd" or "variance"'):
        spread_by_size(gaussian([1]), scale="sds")
    without = Prediction(np.zeros(2), VarianceParts.broadcast(2, noise=1.0))
    with pytest.raises(BagwiseError, match=r"without bag sizes; .* Pass sizes="):
        spread_by_size(without)


# ---------------------------------------------------------------- more points


def test_more_points_follows_at_size():
    one = gaussian([5, 9])[0]
    curve = more_points_of(one)
    for place in (0, 70, -1):
        parts = one.at_size(curve.sizes[place]).parts
        for name, values in curve.parts.items():
            assert values[place] == pytest.approx(getattr(parts, name)[0])
    axes = more_points(one)
    line = max(axes.lines, key=lambda line: len(line.get_xdata()))
    assert_allclose(line.get_ydata()[-1], one.at_size(curve.sizes[-1]).std[0])


def test_enough_points_are_the_least_that_leave_a_tenth():
    one = gaussian([5])[0]
    enough = more_points_of(one).enough

    def share(n):
        parts = one.at_size(n).parts
        return float(parts.bag[0] / parts.total[0])

    assert share(enough) <= 0.1 < share(enough - 1)
    texts = [text.get_text() for text in more_points(one).texts]
    assert texts == ["today: 5", f"{enough:.0f}: bag part\nbelow 10%"]


def test_enough_may_be_one_point_or_never():
    assert more_points_of(gaussian([5], noise=1e6)[0]).enough == 1.0
    assert more_points_of(class_prediction([5])[0]).enough is not None
    certain = gaussian([5], noise=0.0, weights=0.0)
    assert more_points_of(certain).enough is None
    assert [text.get_text() for text in more_points(certain).texts] == ["today: 5"]


def test_more_points_of_a_class_are_of_its_latent_value():
    axes = more_points(class_prediction([3, 30])[1], largest=500)
    assert axes.get_ylabel() == "standard deviation of the latent value"
    assert axes.get_xlim()[1] == pytest.approx(500)


def test_more_points_of_several_bags_are_the_least_that_do():
    many = gaussian([5, 9, 400], noise=1.0, weights=0.5)
    std = np.array([1.3, 1.3, 1.4])
    more = many.more_points(std)
    assert (more[:2] > 0).all() and more[2] == 0.0
    assert (many.at_size(many.sizes + more).std <= std).all()
    fewer = many.at_size(many.sizes + np.maximum(more - 1, 0)).std
    assert (fewer[:2] > std[:2]).all()
    assert np.isinf(many.more_points(1.2)).all()  # less than noise and weights leave
    with pytest.raises(BagwiseError, match=r"std is .* expected a number > 0 or an array of 3"):
        many.more_points([1.0, 2.0])
    with pytest.raises(BagwiseError, match="without bag sizes; expected how many points"):
        Prediction([0.0], VarianceParts.broadcast(1, noise=1.0)).more_points(1.0)


def test_more_points_refuses_many_bags_and_models_that_ignore_size():
    with pytest.raises(BagwiseError, match=r"of 2 bags; expected one bag. .* prediction\[i\]"):
        more_points(gaussian([1, 2]))
    with pytest.raises(BagwiseError, match=r"ignores how many points .* ShrinkageRegressor"):
        more_points(Prediction([0.0], VarianceParts.broadcast(1, noise=1.0), sizes=[4]))


# ---------------------------------------------------------------- style


def test_the_users_settings_are_left_alone(many):
    with plt.rc_context({"font.size": 17.0}):
        assert calibration(*many).xaxis.label.get_size() == JOURNAL["axes.labelsize"]
        assert plt.rcParams["font.size"] == 17.0
        _, axes = plt.subplots()
        assert calibration(*many, ax=axes).xaxis.label.get_size() == pytest.approx(17.0)


def test_parts_have_the_same_colours_in_all_pictures():
    bars = spread_by_size(gaussian([1, 9])).containers[-1]
    area = more_points(gaussian([4])[0]).collections[-1]
    blue = matplotlib.colors.to_rgba(BLUE)
    assert bars[0].get_facecolor() == blue
    assert_allclose(area.get_facecolor()[0], blue)
