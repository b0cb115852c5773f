"""Pictures of models: explanations, draws and maps."""

from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from numpy.testing import assert_allclose

matplotlib.use("Agg")
import matplotlib.pyplot as plt

import classifier_models
from bagwise import Bags, RBFNetworkRegressor, ShrinkageRegressor
from bagwise.embedding.sums import bag_gram
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.inference.draws import Trajectories
from bagwise.inspection.plots import (
    calibration,
    column_contributions,
    contributions,
    embedding_map,
    more_points,
    point_contributions,
    spread_by_size,
    trace,
    witness,
)
from bagwise.inspection.plots.bag_map import embeddings_of, project
from bagwise.inspection.plots.contribution import headline
from contract_models import BAGS, NEW, NEW_Y, SMALL, fitted


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


RNG = np.random.default_rng(0)
LEVELS = RNG.uniform(1, 2, 30)


def bags_of(n_columns, names=None, size=10):
    arrays = [RNG.normal(level, 0.5, (size, n_columns)) for level in LEVELS]
    return Bags.from_list(
        arrays,
        feature_names=names,
        covariates=np.arange(30.0)[:, None] if n_columns > 2 else None,
        covariate_names=["visit"] if n_columns > 2 else None,
    )


ONE, TWO = bags_of(1, ["dose"]), bags_of(2)
FOUR = bags_of(4, ["dose", "a_name_that_is_much_too_long_to_be_read", "weight", "height"], 20)


def explained(bags, bag=3):
    return ShrinkageRegressor(SMALL).fit(bags, LEVELS).explain(bags, bag=bag)


@pytest.fixture(scope="module")
def four():
    return explained(FOUR)


# ---------------------------------------------------------------- explanations


def test_points_of_one_column_lie_on_the_witness_function():
    why = explained(ONE)
    axes = witness(why)
    curve = axes.lines[0]
    grid, values = curve.get_data()
    assert_allclose(values, why.witness(grid[:, None]))
    places = axes.collections[-1].get_offsets()
    assert_allclose(places[:, 0], why.bag_points[:, 0])
    assert_allclose(places[:, 1] / why.size, why.points)
    assert axes.get_xlabel() == "dose"
    assert axes.get_ylabel() == "effect on the label"


def test_points_of_two_columns_lie_on_a_plane_in_the_colours_of_their_effect():
    why = explained(TWO)
    figure = contributions(why)
    axes = figure.axes[0]
    assert_allclose(axes.collections[-1].get_offsets(), why.bag_points)
    assert_allclose(axes.collections[-1].get_array() / why.size, why.points)
    image = axes.images[0]
    left, _, low, _ = image.get_extent()
    corner = why.witness(np.array([[left, low]]))[0]
    assert image.get_array()[0, 0] == pytest.approx(corner)
    assert axes.get_title(loc="left").startswith("bag 3: predicted label ")


def test_weighted_points_have_areas_like_their_weights():
    weighted = Bags.from_list([NEW.points[:3]], weights=[[1.0, 2.0, 3.0]])
    axes = witness(fitted("shrinkage").explain(weighted))
    areas = axes.collections[-1].get_sizes()
    assert_allclose(areas / areas[0], [1.0, 2.0, 3.0])


def test_more_columns_are_bars_of_points_and_of_columns(four):
    figure = contributions(four, most=6)
    left, right = figure.axes
    assert_allclose(
        sorted(bar.get_width() for bar in left.patches), sorted(v for _, v in four.top(6))
    )
    others = four.points.sum() - sum(value for _, value in four.top(6))
    title = f"points: the strongest 6 of 20 (others {others:+.3g})"
    assert left.get_title(loc="left") == title
    names = [text.get_text() for text in right.get_yticklabels()]
    assert names[0] == "average point" and set(names) >= {"dose", "visit"}
    assert "a_name_that_is_much_t…" in names
    total = sum(bar.get_width() for bar in right.patches)
    assert total == pytest.approx(four.prediction - four.baseline)
    assert left.get_ylim() == right.get_ylim()


def test_bars_are_drawn_on_the_axes_given(four):
    _, axes = plt.subplots()
    assert point_contributions(four, ax=axes) is axes
    _, axes = plt.subplots()
    assert column_contributions(four, most=2, ax=axes) is axes
    assert axes.get_yticklabels()[-1].get_text() == "3 others"
    total = sum(bar.get_width() for bar in axes.patches)
    assert total == pytest.approx(four.prediction - four.baseline)


def test_columns_that_are_not_drawn_are_held_at_the_average_of_the_bag(four):
    axes = witness(four, columns=["weight"])
    grid, values = axes.lines[0].get_data()
    held = np.tile(four.bag_points.mean(axis=0), (len(grid), 1))
    held[:, 2] = grid
    assert_allclose(values, four.witness(held))
    assert witness(four, columns=["weight", 0]).get_ylabel() == "dose"
    strongest = four.column_names[int(np.argmax(np.abs(four.columns)))]
    assert witness(four).get_xlabel() == strongest


@pytest.mark.parametrize("columns", [["age"], ["dose", "dose"], [0, 1, 2], [9], []])
def test_columns_that_cannot_be_drawn_are_refused(four, columns):
    with pytest.raises(BagwiseError, match=r"columns are .*; expected one or two of dose, "):
        witness(four, columns=columns)


def test_an_explanation_of_a_class_names_it():
    model = classifier_models.unfitted("shrinkage").fit(classifier_models.BAGS, classifier_models.Y)
    figure = contributions(model.explain(classifier_models.NEW, bag=0))
    assert "latent value for class True" in figure.axes[0].get_title(loc="left")
    assert figure.axes[-1].get_ylabel() == "effect on the latent value"


def test_a_bag_of_one_point_can_be_drawn():
    why = fitted("shrinkage").explain(NEW.points[:1])
    assert contributions(why).axes
    assert point_contributions(why).patches


# ---------------------------------------------------------------- draws


def sampled(diverging):
    """What a sampled model shows, without sampling one."""
    rng, (chains, draws) = np.random.default_rng(0), diverging.shape
    weights = rng.normal(size=(chains, draws, 3))
    weights[:, :, 1] = np.cumsum(weights[:, :, 1], axis=1)  # the worst sampled
    steps = np.full((chains, draws), 7)
    trajectories = Trajectories(diverging, steps, steps.astype(float), np.ones(chains))
    shown = {"weights": weights, "noise_sd": np.abs(rng.normal(size=(chains, draws)))}
    return SimpleNamespace(draws_=shown, trajectories_=trajectories)


def test_trace_shows_each_chain_with_its_diagnostics():
    diverging = np.zeros((2, 60), dtype=bool)
    diverging[1, 17] = True
    model = sampled(diverging)
    figure = trace(model)
    densities, draws = figure.axes[0], figure.axes[1]
    assert densities.get_title(loc="left") == "weights [1]"
    assert draws.get_title(loc="left").startswith("R-hat ")
    assert len(densities.lines) == 2
    assert_allclose(draws.lines[1].get_ydata(), model.draws_["weights"][1, :, 1])
    assert_allclose(draws.lines[-1].get_xdata(), [17])
    assert figure.get_suptitle() == "2 chains of 60 draws, 1 divergent"
    assert figure.axes[2].get_title(loc="left") == "noise sd"


def test_densities_integrate_to_one():
    axes = trace(sampled(np.zeros((2, 200), dtype=bool)), parameters=["noise_sd"]).axes[0]
    for line in axes.lines:
        assert np.trapezoid(line.get_ydata(), line.get_xdata()) == pytest.approx(1.0, abs=0.06)


def test_trace_of_laplace_says_that_draws_are_independent():
    figure = trace(fitted("bdr-laplace"))
    assert figure.axes[1].get_title(loc="left") == "independent draws"
    assert figure.get_suptitle() == ""


def test_trace_refuses_models_without_draws():
    with pytest.raises(BagwiseError, match=r"ShrinkageRegressor has no posterior draws; .* BDR"):
        trace(fitted("shrinkage"))
    with pytest.raises(BagwiseError, match=r'inference="map", which has one draw'):
        trace(SimpleNamespace(draws_={"noise_sd": np.ones((1, 1))}))
    with pytest.raises(BagwiseError, match=r"no parameter 'sigma'; expected some of weights, "):
        trace(fitted("bdr-laplace"), parameters=["sigma"])


# ---------------------------------------------------------------- map


def squared_distances(embeddings):
    gaps = embeddings[:, None] - embeddings[None]
    return np.sum(gaps**2, axis=2)


@pytest.mark.parametrize("name", ["embedding-linear", "embedding-landmarks", "bayesian-fourier"])
def test_embeddings_that_are_not_shrunk_have_the_products_of_the_features(name):
    model = fitted(name)
    found = embeddings_of(model, NEW)
    if name == "embedding-linear":
        expected = bag_gram(model.kernel_, model.scaling_, NEW, NEW)
    elif name == "bayesian-fourier":
        means = np.array([model.features_(bag).mean(axis=0) for bag in NEW])
        expected = means @ means.T
    else:
        means = np.array([model.features_(bag).mean(axis=0) for bag in NEW])
        expected = means @ np.linalg.pinv(model.features_.weight_gram()) @ means.T
    assert_allclose(found @ found.T, expected, atol=1e-8)


@pytest.mark.parametrize("name", ["shrinkage", "shrinkage-fourier", "frequentist", "bdr-laplace"])
def test_small_bags_are_nearer_the_average_where_embeddings_are_shrunk(name):
    model, bag = fitted(name), NEW.points[:12]
    large = np.tile(bag, (50, 1))  # the same mean embedding, seen 50 times
    small_norm, large_norm = np.linalg.norm(
        embeddings_of(model, Bags.from_list([bag, large])), axis=1
    )
    assert small_norm < large_norm


def test_shrunk_embeddings_give_the_prediction():
    """The head's weights times the embedding, plus the intercept, are the mean."""
    model = fitted("shrinkage")
    mean = model.intercept_ + embeddings_of(model, NEW) @ model.head_.w * model.label_scale_
    assert_allclose(mean, model.predict(NEW), atol=1e-8)


def test_the_map_keeps_distances_of_bags_in_a_plane():
    flat = RNG.normal(size=(7, 2)) @ RNG.normal(size=(2, 5))
    found = project(flat)
    assert_allclose(squared_distances(found.places), squared_distances(flat))
    assert found.shares.sum() == pytest.approx(1.0)
    assert_allclose(project(np.ones((3, 2))).shares, 0.0)
    assert_allclose(project(np.array([[1.0], [2.0]])).places[:, 1], 0.0)


def test_the_map_shows_labels_as_colours_and_sizes_as_areas():
    axes = embedding_map(fitted("shrinkage"), NEW, NEW_Y)
    (points,) = axes.collections
    order = np.argsort(-NEW.sizes, kind="stable")
    assert_allclose(points.get_array(), NEW_Y[order])
    assert (np.diff(points.get_sizes()) <= 0).all()
    assert axes.get_xlabel().endswith("% of the variance)")
    texts = [text.get_text() for text in axes.get_legend().get_texts()]
    least, middle, most = np.sort(NEW.sizes)[[0, 4, 8]]  # of nine
    assert texts == [f"N = {size}" for size in (least, middle, most)]
    assert axes.figure.axes[1].get_ylabel() == "label"


def test_without_labels_the_map_shows_predictions():
    model = fitted("bayesian")
    axes = embedding_map(model, NEW)
    order = np.argsort(-NEW.sizes, kind="stable")
    assert_allclose(axes.collections[0].get_array(), model.predict(NEW)[order])
    assert axes.figure.axes[1].get_ylabel() == "predicted label"


def test_the_map_of_classes_has_a_colour_and_a_shape_for_each():
    model = classifier_models.unfitted("shrinkage").fit(classifier_models.BAGS, classifier_models.Y)
    new = classifier_models.NEW
    axes = embedding_map(model, new, np.where(classifier_models.NEW_Y, "wide", "narrow"))
    assert len(axes.collections) == 2
    assert [text.get_text() for text in axes.get_legend().get_texts()][:2] == ["narrow", "wide"]
    probability = embedding_map(model, new)
    assert probability.figure.axes[1].get_ylabel() == "probability of True"


def test_pictures_of_many_classes_are_of_all_or_of_the_predicted_one():
    model, new = classifier_models.fitted("shrinkage-many"), classifier_models.NEW
    for axes in (embedding_map(model, new), embedding_map(model, new, model.predict(new))):
        assert len(axes.collections) == 3
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert texts[:3] == ["high", "low", "middle"]
    prediction = model.predict_dist(new)
    spread = spread_by_size(prediction, edges=(1, 6))
    assert "of the predicted class" in spread.get_ylabel()
    known = prediction.parts.bag + prediction.parts.weights
    ends = [np.sqrt(known[mask].mean()) for mask in (new.sizes < 6, new.sizes >= 6)]
    assert [text.get_text() for text in spread.texts] == [f"{end:.3g}" for end in ends]
    one = more_points(prediction[3]).lines[0]
    sizes, sds = one.get_data()
    bags = np.full(len(sizes), 3)
    expected = prediction.of(prediction.predicted[3])[bags].at_size(sizes).parts
    assert_allclose(sds**2, expected.bag + expected.weights, rtol=1e-9)
    with pytest.raises(BagwiseError, match="whose latent value is not observed"):
        spread_by_size(prediction, classifier_models.NEW_HEIGHTS)
    with pytest.raises(BagwiseError, match="the prediction is of classes"):
        calibration(prediction, classifier_models.NEW_HEIGHTS)
    figure = trace(classifier_models.fitted("bdr-laplace-many"))
    assert len(figure.axes) == 2 * 4
    assert "class 'low'" in headline(model.explain(new, bag=2, of="low"))


def test_bags_of_one_size_need_no_legend_of_sizes():
    axes = embedding_map(RBFNetworkRegressor(SMALL).fit(ONE, LEVELS), ONE)
    assert axes.get_legend() is None


def test_the_map_wants_a_label_per_bag():
    with pytest.raises(InvalidLabelsError, match=r"y has shape \(3,\); expected \(30,\)"):
        embedding_map(fitted("shrinkage"), BAGS, [1, 2, 3])
