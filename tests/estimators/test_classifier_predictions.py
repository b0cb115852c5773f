"""What every fitted classifier says of bags: of their order, size, weights and covariates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.metrics import accuracy_score

from bagwise import Bags, KernelEmbedding
from bagwise.features.kernels import RBF
from bagwise.heads.base import heads_of
from bagwise.inference import Priors
from classifier_models import (
    ARRAYS,
    BAGS,
    CLASSES,
    MODELS,
    NEW,
    NEW_ARRAYS,
    NEW_Y,
    Y,
    core_model,
    core_or_sampled,
    every_fitted,
    fitted,
    knows_sizes,
    labels,
    make_data,
    new_labels,
    one_class,
    proba,
    tool_model,
    unfitted,
)

# Features that do not depend on which bags are in the fit, nor on their order.
LANDMARKS = np.array([[1.0, 1.0], [1.5, 1.5], [2.0, 2.0], [1.0, 2.0], [2.0, 1.0]])
FIXED = KernelEmbedding(kernel=RBF(bandwidth=1.0), landmarks=LANDMARKS, standardize=False)

# Probabilities by Laplace are averages over draws that are others if the weights are turned.
DRAWN = 0.02


def fixed(name):
    return unfitted(name).set_params(embedding=FIXED)


# ---- probabilities ------------------------------------------------------------------------------


@every_fitted
def test_probabilities(name):
    model, p = fitted(name), fitted(name).predict_proba(NEW)
    assert p.shape == (NEW.n_bags, len(model.classes_)) and p.dtype == np.float64
    assert ((p > 0) & (p < 1)).all()
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)
    assert_array_equal(model.predict(NEW), model.classes_[p.argmax(axis=1)])
    assert_array_equal(model.classes_, np.unique(labels(name)))


@every_fitted
def test_predictive_distribution(name):
    prediction = fitted(name).predict_dist(NEW)
    assert_array_equal(prediction.proba, fitted(name).predict_proba(NEW))
    assert_array_equal(prediction.predicted, fitted(name).predict(NEW))
    assert_array_equal(prediction.sizes, NEW.sizes)
    assert_array_equal(prediction.ids, NEW.ids)
    own = prediction.proba[new_labels(name)[:, None] == prediction.classes]
    assert_allclose(prediction.log_prob(new_labels(name)), np.log(own), rtol=1e-9)
    lower, upper = prediction.interval(0.9).T
    assert ((lower >= 0) & (lower <= upper) & (upper <= 1)).all()
    parts = prediction.parts
    assert (parts.noise == 0).all()
    assert (parts.bag > 0).all() == knows_sizes(name)
    by_default = name.startswith(("gp", "shrinkage"))  # whose weights are averaged over
    unsure = by_default or getattr(fitted(name), "inference", "map") != "map"
    assert (parts.weights > 0).all() == unsure


@core_model
def test_swapped_classes_mirror_probabilities(name):
    swapped = unfitted(name).fit(BAGS, np.where(Y, "a", "z"))
    assert swapped.classes_.tolist() == ["a", "z"]
    tolerance = 1e-6 if name == "shrinkage" else DRAWN
    assert_allclose(swapped.predict_proba(NEW)[:, 0], proba(fitted(name)), atol=tolerance)


@core_or_sampled
def test_labels_without_any_relation_to_the_points(name):
    y = np.random.default_rng(0).permutation(Y)
    p = proba(unfitted(name).fit(BAGS, y))
    assert ((p > 0.05) & (p < 0.95)).all()
    assert abs(p.mean() - y.mean()) < 0.2


@core_model
def test_units_of_the_points(name):
    for scale in (1e6, 1e-6):
        model = unfitted(name).fit([scale * array for array in ARRAYS], Y)
        p = model.predict_proba([scale * array for array in NEW_ARRAYS])[:, 1]
        assert_allclose(p, proba(fitted(name)), atol=1e-5)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_defaults_work(cls):
    options = {"inference": "laplace"} if cls().get_params().get("inference") == "nuts" else {}
    model = cls(**options).fit(BAGS, Y)
    assert model.score(NEW, NEW_Y) > 0.7


# ---- bags are sets ------------------------------------------------------------------------------


@every_fitted
def test_order_of_points_and_of_bags_does_not_matter_when_predicting(name):
    rng = np.random.default_rng(0)
    order = rng.permutation(NEW.n_bags)
    shuffled = [rng.permutation(NEW_ARRAYS[i]) for i in order]
    assert_allclose(proba(fitted(name), shuffled), proba(fitted(name))[order], rtol=1e-8)


@core_model
def test_order_of_points_and_of_bags_does_not_matter_in_the_fit(name):
    rng = np.random.default_rng(0)
    order = rng.permutation(BAGS.n_bags)
    shuffled = fixed(name).fit([rng.permutation(ARRAYS[i]) for i in order], Y[order])
    tolerance = 1e-4 if name == "shrinkage" else DRAWN
    assert_allclose(proba(shuffled), proba(fixed(name).fit(BAGS, Y)), atol=tolerance)


@every_fitted
def test_other_bags_do_not_matter(name):
    alone = [proba(fitted(name), NEW[i : i + 1])[0] for i in range(5)]
    assert_allclose(alone, proba(fitted(name))[:5], rtol=1e-8)


# ---- sizes --------------------------------------------------------------------------------------


@every_fitted
def test_points_that_come_twice_change_the_size_and_so_the_confidence(name):
    larger = [np.tile(array, (4, 1)) for array in NEW_ARRAYS]
    few, many = (one_class(fitted(name).predict_dist(bags)) for bags in (NEW, larger))
    if not knows_sizes(name):  # all else being the same, it has learnt how sure to be by size
        model = fitted(name)
        of_class = model.classes_.tolist().index("high") if len(model.classes_) > 2 else 0
        sureness = heads_of(model.head_)[of_class].sureness
        factor = 1.0 if sureness is None else sureness(4 * NEW.sizes) / sureness(NEW.sizes)
        assert_allclose(many.latent.mean, factor * few.latent.mean, rtol=1e-8)
        assert (np.abs(many.probability - 0.5) >= np.abs(few.probability - 0.5) - 1e-9).all()
        return
    smaller = many.parts.bag < few.parts.bag
    assert smaller.all() or (name == "gp-many" and smaller.mean() > 0.8)  # steeper where it is now
    if not name.startswith("gp"):  # which has another slope where the bag is now
        assert_allclose(many.parts.bag, few.at_size(4 * NEW.sizes).parts.bag, rtol=1e-12)
    assert not np.allclose(many.probability, few.probability, atol=0.01)


@pytest.mark.parametrize("name", ["shrinkage", "shrinkage-convolved", "bdr-laplace", "bdr-map"])
def test_a_small_bag_is_nearer_to_the_base_rate(name):
    model, base = fitted(name), Y.mean()
    rng = np.random.default_rng(0)
    for level in (1.0, 2.0):
        points = rng.normal(level, 0.1, (4, 2))
        small, middle, large = proba(model, [np.tile(points, (n, 1)) for n in (1, 4, 64)])
        assert abs(small - base) < abs(middle - base) < abs(large - base)
        assert (small > base) == (large > base) == (level == 2.0)


@core_model
def test_bags_of_one_point_among_others(name):
    arrays = [array[:1] if i % 2 else array for i, array in enumerate(ARRAYS)]
    p = unfitted(name).fit(arrays, Y).predict_proba([array[:1] for array in NEW_ARRAYS])
    assert np.isfinite(p).all()


@every_fitted
def test_a_point_of_weight_zero_is_not_there(name):
    extended = Bags.from_list(
        [np.vstack([array, [[9.0, -9.0]]]) for array in NEW_ARRAYS],
        weights=[np.append(np.ones(len(array)), 0.0) for array in NEW_ARRAYS],
    )
    assert_allclose(proba(fitted(name), extended), proba(fitted(name)), rtol=1e-8)


# ---- weights of bags and classes ----------------------------------------------------------------


@core_model
def test_equal_sample_weights_are_none(name):
    model = unfitted(name).fit(BAGS, Y, sample_weight=np.full(len(Y), 4.0))
    assert_allclose(proba(model), proba(fitted(name)), atol=1e-6)


@core_model
def test_sample_weight_of_zero_leaves_a_bag_out_of_the_likelihood(name):
    wrong, weights = Y.copy(), np.ones(len(Y))
    wrong[:12], weights[:12] = ~wrong[:12], 0.0
    right = unfitted(name).fit(BAGS, Y, sample_weight=weights)
    model = unfitted(name).fit(BAGS, wrong, sample_weight=weights)
    assert_allclose(proba(model), proba(right), rtol=1e-10)  # their labels are not looked at
    assert accuracy_score(NEW_Y, model.predict(NEW)) > 0.7


def test_sample_weight_of_zero_is_a_bag_that_is_not_there():
    """But for the average embedding, which the intercept makes up for."""
    weights = np.ones(len(Y))
    weights[:8] = 0.0
    model = fixed("logistic-map").set_params(priors=Priors(weights=5.0))
    without = proba(model.fit(BAGS[8:], Y[8:]))
    assert_allclose(proba(model.fit(BAGS, Y, sample_weight=weights)), without, atol=1e-3)


@core_model
def test_sample_weight_of_two_is_nearly_a_bag_twice(name):
    """Not quite, as weights are relative to the average bag; and the bag says more of others.

    To a process a bag twice is two samples, each with an error of its own, and one of weight two is
    not; so its bags are all there is of them.
    """
    model = fixed(name).set_params(**({"sampling": 0.0} if name == "gp" else {}))
    flipped = Y.copy()
    flipped[:4] = ~flipped[:4]
    weights, twice = np.where(np.arange(len(Y)) < 4, 2.0, 1.0), np.r_[0:4, 0 : len(Y)]
    plain = proba(clone(model).fit(BAGS, flipped))
    weighted = proba(clone(model).fit(BAGS, flipped, sample_weight=weights)) - plain
    repeated = proba(clone(model).fit(BAGS[twice], flipped[twice])) - plain
    assert np.corrcoef(weighted, repeated)[0, 1] > 0.9
    assert 0.7 < np.linalg.norm(weighted) / np.linalg.norm(repeated) < 1.4


def unbalanced():
    arrays, _ = make_data(3, n_bags=40)
    level = np.array([array.mean() for array in arrays])
    return arrays, level > np.sort(level)[-7]  # 6 of 40, the highest


@tool_model
def test_unbalanced_classes_and_their_weights(name):
    arrays, y = unbalanced()
    p = {
        weight: proba(unfitted(name).set_params(class_weight=given).fit(arrays, y), arrays)
        for weight, given in (("none", None), ("balanced", "balanced"), ("dict", {True: 34 / 6}))
    }
    assert abs(p["none"].mean() - 6 / 40) < 0.05
    assert p["balanced"].mean() > p["none"].mean() + 0.03
    assert_allclose(p["dict"], p["balanced"], atol=1e-6)  # only their ratio counts


@tool_model
def test_class_weights_of_one_are_none(name):
    model = unfitted(name).set_params(class_weight={False: 3.0, True: 3.0}).fit(BAGS, Y)
    assert_allclose(proba(model), proba(fitted(name)), atol=1e-6)


@tool_model
def test_class_weight_is_a_sample_weight(name):
    weights = np.where(Y, 2.0, 1.0)
    by_class = unfitted(name).set_params(class_weight={True: 2.0}).fit(BAGS, Y)
    by_bag = unfitted(name).fit(BAGS, Y, sample_weight=weights)
    assert_allclose(proba(by_class), proba(by_bag), atol=1e-8)


@pytest.mark.parametrize("kind", [str, int, np.int64, object])
def test_class_weight_by_labels_of_any_type(kind):
    both = np.array(["no", "yes"] if kind in (str, object) else [0, 1], dtype=kind)
    weight = {both.tolist()[1]: 2.0}
    model = unfitted("shrinkage").set_params(class_weight=weight)
    p = proba(model.fit(BAGS, both[Y.astype(int)]))
    assert (p > proba(fitted("shrinkage"))).all()


# ---- columns ------------------------------------------------------------------------------------


@tool_model
def test_feature_names(name):
    named = Bags.from_list(ARRAYS, feature_names=["height", "weight"])
    model = unfitted(name).fit(named, Y)
    assert_array_equal(model.feature_names_in_, np.array(["height", "weight"], dtype=object))
    assert model.n_features_in_ == 2
    assert_array_equal(proba(model), proba(fitted(name)))  # names are not needed again
    assert not hasattr(model.fit(BAGS, Y), "feature_names_in_")
    with pytest.raises(ValueError, match="in another order than in fit"):
        unfitted(name).fit(named, Y).predict(
            Bags.from_list(ARRAYS, feature_names=["weight", "height"])
        )


@pytest.mark.parametrize("name", MODELS)
def test_a_class_that_depends_on_a_covariate_alone(name):
    rng = np.random.default_rng(0)
    age, new_age = rng.uniform(20, 80, BAGS.n_bags), rng.uniform(20, 80, NEW.n_bags)
    bags, new = BAGS.with_covariates(age, ["age"]), NEW.with_covariates(new_age, ["age"])
    old = (age + rng.normal(0, 5, len(age))) > 50
    model = unfitted(name).fit(bags, old)
    p = proba(model, new)
    assert np.corrcoef(p, new_age)[0, 1] > 0.8
    assert (p[new_age > 65] > 0.5).all() and (p[new_age < 35] < 0.5).all()
    if name != "gp":  # which has no weights
        assert model.covariate_weights_.shape == (1,) and model.covariate_weights_[0] > 0


@core_model
def test_learnt_numbers_are_in_the_units_of_the_latent_value(name):
    if name == "gp":  # which has no weights
        return
    model = fitted(name)
    assert model.weights_.ndim == 1 and np.isfinite(model.weights_).all()
    assert np.isfinite(model.intercept_) and model.weight_var_ > 0
    assert model.covariate_weights_.shape == (0,)
    assert model.noise_var_ == (1.0 if knows_sizes(name) else 0.0)
    assert (model.label_center_, model.label_scale_) == (0.0, 1.0)
