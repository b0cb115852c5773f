"""What every fitted estimator says of bags, whatever their order, units and oddities."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from bagwise import (
    Bags,
    BDRRegressor,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
)
from bagwise.features.kernels import RBF
from contract_models import (
    ARRAYS,
    BAGS,
    LINKED,
    MODELS,
    NEW,
    NEW_ARRAYS,
    NEW_Y,
    Y,
    assert_close_prediction,
    assert_same_prediction,
    core_model,
    core_or_sampled,
    every_class,
    every_fitted,
    fitted,
    is_shrinkage,
    knows_its_weights,
    labels,
    quick,
    refitted_model,
    unfitted,
)

# ---- what a fitted model knows ------------------------------------------------------------------


@every_fitted
def test_not_fitted(name):
    for method in ("predict", "predict_dist"):
        with pytest.raises(NotFittedError):
            getattr(unfitted(name), method)(NEW)
    with pytest.raises(NotFittedError):
        unfitted(name).score(NEW, NEW_Y)


@core_model
def test_feature_names(name):
    named = Bags.from_list(ARRAYS, feature_names=["height", "weight"])
    model = unfitted(name).fit(named, Y)
    assert model.n_features_in_ == 2
    assert_array_equal(model.feature_names_in_, np.array(["height", "weight"], dtype=object))
    assert model.feature_names_in_.dtype == object
    assert_array_equal(model.predict(NEW), fitted(name).predict(NEW))  # names are not needed again
    assert not hasattr(model.fit(BAGS, Y), "feature_names_in_")


@every_fitted
def test_score_is_r2(name):
    predicted, y = fitted(name).predict(NEW), labels(name, NEW_Y)
    weights = np.linspace(1, 2, len(y))
    assert_allclose(fitted(name).score(NEW, y), r2_score(y, predicted))
    assert_allclose(
        fitted(name).score(NEW, y, sample_weight=weights),
        r2_score(y, predicted, sample_weight=weights),
    )
    assert fitted(name).score(NEW, y) > 0.5


@every_fitted
def test_predict_with_and_without_std(name):
    mean, std = fitted(name).predict(NEW, return_std=True)
    prediction = fitted(name).predict_dist(NEW)
    assert_array_equal(mean, fitted(name).predict(NEW), strict=True)
    assert_array_equal(mean, prediction.mean, strict=True)
    assert_array_equal(std, prediction.std, strict=True)
    assert mean.shape == std.shape == (NEW.n_bags,)
    assert mean.dtype == std.dtype == np.float64
    assert (std > 0).all()


@every_fitted
def test_predictive_distribution(name):
    prediction = fitted(name).predict_dist(NEW)
    parts = prediction.parts
    assert_allclose(prediction.var, parts.bag + parts.weights + parts.noise, rtol=1e-14)
    assert all((part >= 0).all() for part in parts.to_dict().values())
    assert (parts.noise > 0).all()
    assert np.isfinite(prediction.log_prob(labels(name, NEW_Y))).all()
    assert_array_equal(prediction.sizes, NEW.sizes)
    assert_array_equal(prediction.ids, NEW.ids)
    assert (parts.bag > 0).all() == is_shrinkage(name)
    assert (parts.weights > 0).all() == knows_its_weights(name)


@every_fitted
def test_variance_at_other_sizes(name):
    prediction = fitted(name).predict_dist(NEW)
    assert_allclose(prediction.at_size(NEW.sizes).var, prediction.var, rtol=1e-12)
    sizes = [0.5, 1, 2, 10, 100, 1e6]
    variances = np.array([prediction.at_size(size).var for size in sizes])
    if name in LINKED:  # where it is the latent value that keeps its mean
        assert_array_equal(prediction.at_size(7).latent.mean, prediction.latent.mean)
        assert (np.diff(variances, axis=0) < 0).all()
        return
    assert_array_equal(prediction.at_size(7).mean, prediction.mean)
    if is_shrinkage(name):
        assert (np.diff(variances, axis=0) < 0).all()
        assert (variances > prediction.parts.noise).all()
    else:
        assert_array_equal(variances, np.tile(prediction.var, (len(sizes), 1)))


def test_a_larger_bag_of_the_same_points_is_surer():
    for name in filter(is_shrinkage, MODELS):
        larger = [np.tile(array, (4, 1)) for array in NEW_ARRAYS]
        few, many = fitted(name).predict_dist(NEW), fitted(name).predict_dist(larger)
        if name.startswith("gp"):  # which never saw bags of that size, on which labels may depend
            assert many.parts.bag.mean() < few.parts.bag.mean()
            assert (few.at_size(4 * NEW.sizes).std < few.std).all()
            assert fitted(name).size is not False or many.std.mean() < few.std.mean()
            continue
        assert (many.std < few.std).all(), name
        assert_allclose(many.parts.bag, few.at_size(4 * NEW.sizes).parts.bag, rtol=1e-12)


# ---- a prediction belongs to a set of points ----------------------------------------------------


@every_fitted
def test_order_of_points_does_not_matter(name):
    rng = np.random.default_rng(0)
    shuffled = [rng.permutation(array) for array in NEW_ARRAYS]
    assert_close_prediction(fitted(name).predict_dist(shuffled), fitted(name).predict_dist(NEW))


@every_fitted
def test_order_of_bags_does_not_matter(name):
    order = np.random.default_rng(0).permutation(NEW.n_bags)
    shuffled = fitted(name).predict_dist(NEW[order])
    assert_close_prediction(shuffled, fitted(name).predict_dist(NEW)[order])
    assert_array_equal(shuffled.ids, order)


@every_fitted
def test_other_bags_do_not_matter(name):
    together = fitted(name).predict_dist(NEW)
    for i in range(NEW.n_bags):
        assert_close_prediction(fitted(name).predict_dist(NEW[i : i + 1]), together[i])


@core_model
def test_many_points_in_blocks_are_one_bag(name):
    """3,000 points exceed a block of the double sums."""
    rng = np.random.default_rng(0)
    large = rng.normal(1.5, 0.4, (3000, 2))
    alone = fitted(name).predict_dist([large])
    among = fitted(name).predict_dist([NEW_ARRAYS[0], large, NEW_ARRAYS[1]])
    assert_close_prediction(alone, among[1])


# ---- units --------------------------------------------------------------------------------------


@core_model
@pytest.mark.parametrize(("scale", "shift"), [(1e6, 0.0), (1e-6, 0.0), (-1.0, 0.0), (1.0, 1e6)])
def test_units_of_the_labels(name, scale, shift):
    model = unfitted(name).fit(BAGS, scale * Y + shift)
    mean, std = model.predict(NEW, return_std=True)
    expected = fitted(name).predict_dist(NEW)
    if isinstance(model, BDRRegressor) and scale < 0:  # its draws of the weights are not mirrored
        assert_allclose(mean / scale, expected.mean, atol=0.02 * expected.std.min())
        assert_allclose(std, expected.std, rtol=0.05)
        return
    assert_allclose((mean - shift) / scale, expected.mean, rtol=1e-6)
    assert_allclose(std / abs(scale), expected.std, rtol=1e-5)


@core_model
@pytest.mark.parametrize("scale", [1e6, 1e-6])
def test_units_of_the_points(name, scale):
    model = unfitted(name).fit(Bags.from_list([scale * array for array in ARRAYS]), Y)
    scaled = model.predict_dist([scale * array for array in NEW_ARRAYS])
    assert_close_prediction(scaled, fitted(name).predict_dist(NEW), 1e-5)


@refitted_model
def test_of_a_column_that_never_varied_nothing_was_learnt(name):
    """Where it differs in new bags, shrinkage models predicted the average, and were sure of it."""

    def with_column(arrays, value):
        return [np.column_stack([array, np.full(len(array), value)]) for array in arrays]

    model = unfitted(name).fit(with_column(ARRAYS, 7.0), Y)
    as_before, other = (model.predict_dist(with_column(NEW_ARRAYS, x)) for x in (7.0, 20.0))
    assert_same_prediction(other, as_before)


@refitted_model
@pytest.mark.parametrize("constant", [0.1, -7.3e8])
def test_constant_labels(name, constant):
    mean, std = unfitted(name).fit(BAGS, np.full(len(Y), constant)).predict(NEW, return_std=True)
    assert_allclose(mean, constant, rtol=1e-9, atol=1e-6 if "bdr" in name else 1e-9)
    assert np.isfinite(std).all() and (std > 0).all()
    assert (std < 1e-4 * max(abs(constant), 1.0)).all()


@core_model
def test_float32_points_give_nearly_the_same(name):
    halved = [array.astype(np.float32) for array in ARRAYS]
    bags = Bags.from_list(halved)
    assert bags.points.dtype == np.float32
    prediction = unfitted(name).fit(bags, Y).predict_dist(NEW)
    assert prediction.mean.dtype == np.float64
    assert_close_prediction(prediction, fitted(name).predict_dist(NEW), 1e-3)


@every_class
def test_defaults_work(cls):
    model = quick(cls).fit(BAGS, Y)
    mean, std = model.predict(NEW, return_std=True)
    assert r2_score(NEW_Y, mean) > 0.5
    assert np.mean(np.abs(NEW_Y - mean) < 3 * std) > 0.7


# ---- odd bags -----------------------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("n_landmarks", [None, 90])
def test_more_landmarks_than_bags(cls, n_landmarks):
    if cls is BDRRegressor and n_landmarks is None:
        pytest.skip("it takes seconds, and 60 landmarks are as many as 90 for 10 bags")
    arrays = [np.concatenate(ARRAYS[3 * i : 3 * i + 3]) for i in range(10)]
    y = [Y[3 * i : 3 * i + 3].mean() for i in range(10)]
    assert sum(map(len, arrays)) > 90
    model = cls() if cls is MeanEmbeddingRidge else quick(cls, KernelEmbedding(n_landmarks))
    mean, std = model.fit(arrays, y).predict(NEW, return_std=True)
    assert np.isfinite(mean).all() and (std > 0).all()
    assert mean.min() > Y.min() - np.ptp(Y) and mean.max() < Y.max() + np.ptp(Y)


@refitted_model
def test_bags_of_one_point(name):
    arrays = [array[:1] if i % 2 else array for i, array in enumerate(ARRAYS)]
    model = unfitted(name).fit(arrays, Y)
    one = model.predict_dist([array[:1] for array in NEW_ARRAYS])
    assert np.isfinite(one.mean).all() and (one.std > 0).all()
    if is_shrinkage(name):
        assert (one.std > model.predict_dist(NEW).std).all()
    elif not isinstance(model, FrequentistShrinkageRegressor):  # it needs the spread within bags
        singletons = [array[:1] for array in ARRAYS]
        assert np.isfinite(unfitted(name).fit(singletons, Y).predict(NEW)).all()


@core_model
def test_weights_of_one_are_no_weights(name):
    weighted = Bags.from_list(ARRAYS, weights=[np.ones(len(array)) for array in ARRAYS])
    new = Bags.from_list(NEW_ARRAYS, weights=[np.ones(len(array)) for array in NEW_ARRAYS])
    prediction = unfitted(name).fit(weighted, Y).predict_dist(new)
    assert_close_prediction(prediction, fitted(name).predict_dist(NEW), 1e-6)


@core_model
def test_only_the_shares_of_weights_count(name):
    rng = np.random.default_rng(0)
    weights = [np.linspace(0.2, 1, len(array)) for array in ARRAYS]  # of no more effective sizes
    factors = rng.choice([0.5, 2.0, 8.0], len(ARRAYS))
    scaled = [factor * own for factor, own in zip(factors, weights, strict=True)]
    bags, same = Bags.from_list(ARRAYS, weights=weights), Bags.from_list(ARRAYS, weights=scaled)
    model = unfitted(name).fit(bags, Y)
    assert_close_prediction(model.predict_dist(same), model.predict_dist(bags), 1e-12)
    assert_close_prediction(
        unfitted(name).fit(same, Y).predict_dist(NEW), model.predict_dist(NEW), 1e-6
    )
    unweighted = model.predict_dist(BAGS)
    assert not np.allclose(unweighted.mean, model.predict(bags), rtol=0, atol=1e-3)


@every_fitted
def test_a_point_of_weight_zero_is_not_there_when_predicting(name):
    extended = Bags.from_list(
        [np.vstack([array, [[9.0, -9.0]]]) for array in NEW_ARRAYS],
        weights=[np.append(np.ones(len(array)), 0.0) for array in NEW_ARRAYS],
    )
    assert_close_prediction(fitted(name).predict_dist(extended), fitted(name).predict_dist(NEW))


@core_or_sampled
def test_sample_weight_of_zero_leaves_a_bag_out_of_the_loss(name):
    wrong = Y.copy()
    wrong[:5] += 1000.0
    weights = np.ones(len(Y))
    weights[:5] = 0.0
    model = unfitted(name).fit(BAGS, wrong, sample_weight=weights)
    assert np.abs(model.predict(BAGS) - Y).max() < np.ptp(Y)


@core_model
def test_equal_sample_weights_are_none(name):
    model = unfitted(name).fit(BAGS, Y, sample_weight=np.full(len(Y), 4.0))
    assert_close_prediction(model.predict_dist(NEW), fitted(name).predict_dist(NEW), 1e-6)


# ---- covariates ---------------------------------------------------------------------------------


def unrelated_bags(seed, n_bags=40, sizes=(2, 5, 8, 12)):
    """Bags whose points say nothing about anything; of few sizes, as in `make_data`."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(sizes, n_bags)
    return Bags.from_list([rng.normal(size=(n, 2)) for n in sizes]), rng


@refitted_model
def test_a_label_that_depends_on_a_covariate_alone(name):
    bags, rng = unrelated_bags(0)
    new, new_rng = unrelated_bags(1, n_bags=10)
    age, new_age = rng.uniform(20, 80, bags.n_bags), new_rng.uniform(20, 80, new.n_bags)
    y = 100 + 3 * age  # exactly, as in tables that compute one column from another
    model = unfitted(name).fit(bags.with_covariates(age, ["age"]), y)
    predicted = model.predict(new.with_covariates(new_age, ["age"]))
    assert_allclose(predicted, 100 + 3 * new_age, atol=0.2)  # labels range over 180


@core_model
def test_a_label_that_depends_on_the_size_alone(name):
    bags = unrelated_bags(0)[0].with_log_size()
    new = unrelated_bags(1, sizes=range(2, 13))[0].with_log_size()
    noise = 0.02 * np.random.default_rng(0).normal(size=bags.n_bags)
    predicted = unfitted(name).fit(bags, np.log(bags.sizes) + noise).predict(new)
    assert_allclose(predicted, np.log(new.sizes), atol=0.15)  # labels range over 1.8


@core_model
def test_collinear_and_constant_covariates_do_no_harm(name):
    bags, rng = unrelated_bags(0)
    dummy = rng.integers(0, 2, bags.n_bags).astype(float)
    y = 5 * dummy + rng.normal(0, 0.1, bags.n_bags)
    alone = unfitted(name).fit(bags.with_covariates(dummy), y)
    columns = np.column_stack([dummy, 1 - dummy, np.full(bags.n_bags, 3.0)])
    collinear = unfitted(name).fit(bags.with_covariates(columns), y)
    assert_allclose(
        collinear.predict(bags.with_covariates(columns)),
        alone.predict(bags.with_covariates(dummy)),
        atol=0.01,  # the penalty comes from a grid, and may be the neighbour's; noise is 0.1
    )


# ---- the standard deviation of models without a posterior ---------------------------------------


def test_leave_one_out_error_is_that_of_refits():
    """Also with so small a penalty that the fit passes through all labels."""
    for penalty in (1e-10, 1e-3, 1.0):
        model = MeanEmbeddingRidge(
            KernelEmbedding(kernel=RBF(bandwidth=0.5), standardize=False),
            penalty=penalty,
        )
        errors = []
        for i in range(12):
            rest = np.arange(12) != i
            model.fit(BAGS[:12][rest], Y[:12][rest])
            errors.append(Y[i] - model.predict(BAGS[i : i + 1])[0])
        std = model.fit(BAGS[:12], Y[:12]).predict(NEW, return_std=True)[1]
        assert_allclose(std, np.sqrt(np.mean(np.square(errors))), rtol=1e-4)


@core_model
def test_automatic_penalties_do_not_interpolate_noise(name):
    """Labels without any relation to the points, fewer bags than landmarks."""
    bags, rng = unrelated_bags(0, n_bags=12)
    new, new_rng = unrelated_bags(1)
    y, new_y = rng.normal(size=bags.n_bags), new_rng.normal(size=new.n_bags)
    model = unfitted(name)
    if not isinstance(model, MeanEmbeddingRidge):
        model.set_params(embedding__n_landmarks=40)
    mean, std = model.fit(bags, y).predict(new, return_std=True)
    assert np.sqrt(np.mean((new_y - mean) ** 2)) < 1.5
    assert (std > 0.4).all()
