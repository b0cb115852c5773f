"""Odd but valid data are no trouble for the models with a posterior, however it is found."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.base import clone

from bagwise import (
    Bags,
    BagwiseWarning,
    BayesianLogisticClassifier,
    BDRClassifier,
    BDRRegressor,
    KernelEmbedding,
    ShrinkageClassifier,
)
from bagwise.exceptions import InvalidBagsError
from bagwise.inference import NUTS, Priors

# Given landmarks and equal numbers of bags let all cases share the code that the sampler compiles.
LANDMARKS = np.array([[1.0, 1.0], [2.0, 2.0], [1.0, 2.0], [2.0, 1.0], [1.5, 1.5]])
FIXED = KernelEmbedding(landmarks=LANDMARKS, bandwidth=1.0)
FEW = NUTS(chains=2, draws=40, warmup=120, progress=False)

QUICK = {
    "regressor-laplace": BDRRegressor(FIXED, inference="laplace"),
    "regressor-map": BDRRegressor(FIXED, inference="map"),
    "shrinkage": ShrinkageClassifier(FIXED),
    "bdr-laplace": BDRClassifier(FIXED, inference="laplace"),
    "bdr-map": BDRClassifier(FIXED, inference="map"),
    "logistic-laplace": BayesianLogisticClassifier(FIXED),
    "logistic-map": BayesianLogisticClassifier(FIXED, inference="map"),
}
MODELS = QUICK | {
    "regressor-nuts": BDRRegressor(FIXED, inference=FEW),
    "bdr-nuts": BDRClassifier(FIXED, inference=FEW),
    "logistic-nuts": BayesianLogisticClassifier(FIXED, inference=FEW),
}
REGRESSORS = [name for name in MODELS if "regressor" in name]
CLASSIFIERS = [name for name in MODELS if "regressor" not in name]


def each(names):
    """Parametrize by name.

    NUTS compiles for every shape of data, and the mode is where Laplace's approximation starts:
    both are left to test-all.
    """
    long = {name: pytest.mark.long if name.endswith(("nuts", "map")) else () for name in names}
    return pytest.mark.parametrize("name", [pytest.param(n, marks=m) for n, m in long.items()])


every_model = each(MODELS)
quick_model = each(QUICK)
regressor = each(REGRESSORS)
classifier = each(CLASSIFIERS)

N_BAGS = 16


def make_bags(seed=0, level=None, size=6, sd=0.4):
    """Bags of 6 points, one of them of a single point, and a covariate that means nothing."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(1, 2, N_BAGS) if level is None else level
    arrays = [rng.normal(x, sd, (size, 2)) for x in level]
    arrays[3] = arrays[3][:1]
    return Bags.from_list(arrays, covariates=rng.normal(size=(N_BAGS, 1))), level


BAGS, LEVEL = make_bags()
HIGH = LEVEL > 1.5


def is_regressor(name):
    return name in REGRESSORS


def fit(name, X, y, **params):
    """Fit, with no other warning than of few draws, and predict the bags with finite numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if "nuts" in name:
            warnings.filterwarnings("ignore", "the draws should not be trusted", BagwiseWarning)
        model = clone(MODELS[name]).set_params(**params).fit(X, y)
        prediction = model.predict_dist(X)
    assert_sound(prediction, y)
    return model, prediction


def assert_sound(prediction, y):
    ends = prediction.interval(0.95)
    assert np.isfinite(ends).all() and (ends[:, 0] <= ends[:, 1]).all()
    assert np.isfinite(prediction.log_prob(y)).all()
    assert all(np.isfinite(part).all() for part in prediction.parts.to_dict().values())
    if hasattr(prediction, "proba"):
        assert ((prediction.proba >= 0) & (prediction.proba <= 1)).all()
        assert_allclose(prediction.proba.sum(axis=1), 1.0, rtol=1e-12)
    else:
        assert np.isfinite(prediction.mean).all()
        assert np.isfinite(prediction.std).all() and (prediction.std > 0).all()


# ---- labels -------------------------------------------------------------------------------------


@every_model
def test_a_bag_of_one_point_among_others(name):
    y = LEVEL if is_regressor(name) else HIGH
    assert BAGS.sizes.min() == 1
    model, prediction = fit(name, BAGS, y)
    score = model.score(BAGS, y)
    assert score > 0.7
    assert len(prediction) == N_BAGS


@pytest.mark.crossed
@regressor
@pytest.mark.parametrize("constant", [0.0, 3.0, -1e9])
def test_constant_labels_give_narrow_intervals_around_the_constant(name, constant):
    _, prediction = fit(name, BAGS, np.full(N_BAGS, constant))
    unit = max(abs(constant), 1.0)
    assert_allclose(prediction.mean, constant, atol=1e-5 * unit)
    lower, upper = prediction.interval(0.95).T
    assert ((lower <= constant) & (constant <= upper)).all()
    assert (upper - lower < 1e-3 * unit).all()


@regressor
@pytest.mark.parametrize("factor", [2.0**20, 2.0**-20])
def test_predictions_have_the_units_of_the_labels(name, factor):
    """Powers of 2 make no rounding errors, which a sampler would blow up."""
    _, expected = fit(name, BAGS, LEVEL)
    _, scaled = fit(name, BAGS, factor * LEVEL)
    assert_allclose(scaled.mean, factor * expected.mean, rtol=1e-6)
    assert_allclose(scaled.std, factor * expected.std, rtol=1e-6)
    assert_allclose(scaled.interval(0.9), factor * expected.interval(0.9), rtol=1e-6)


@pytest.mark.crossed
@pytest.mark.parametrize("name", ["regressor-laplace", "regressor-map"])
@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 1e6), (1.0, -1e6)])
def test_units_and_origin_of_the_labels_do_not_matter(name, factor, shift):
    _, expected = fit(name, BAGS, LEVEL)
    _, scaled = fit(name, BAGS, factor * LEVEL + shift)
    assert_allclose((scaled.mean - shift) / factor, expected.mean, rtol=1e-6)
    assert_allclose(scaled.std / factor, expected.std, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize(("factor", "shift"), [(1e6, 0.0), (1e-6, 0.0), (1.0, 1e6)])
def test_units_and_origin_do_not_matter_to_the_sampler_but_for_its_luck(factor, shift):
    _, expected = fit("regressor-nuts", BAGS, LEVEL)
    _, scaled = fit("regressor-nuts", BAGS, factor * LEVEL + shift)
    assert_allclose((scaled.mean - shift) / factor, expected.mean, atol=0.5 * expected.std.max())
    assert_allclose(scaled.std / factor, expected.std, rtol=0.5)


@every_model
def test_labels_that_are_pure_noise(name):
    rng = np.random.default_rng(1)
    y = rng.normal(5, 1, N_BAGS) if is_regressor(name) else rng.random(N_BAGS) < 0.5
    _, prediction = fit(name, BAGS, y)
    if is_regressor(name):
        assert (prediction.std > 0.3).all() and (prediction.std < 5).all()
        assert (np.abs(prediction.mean - 5) < 4).all()
    else:
        assert prediction.proba.min() > 1e-3 if "map" not in name else True
        assert abs(prediction.probability.mean() - y.mean()) < 0.2


@classifier
def test_classes_that_are_perfectly_separable(name):
    level = np.where(np.arange(N_BAGS) % 2, 2.5, 0.5)
    bags, _ = make_bags(level=level, sd=0.1)
    model, prediction = fit(name, bags, level > 1)
    assert model.score(bags, level > 1) == 1
    assert ((prediction.proba > 0) & (prediction.proba < 1)).all()


@classifier
def test_one_bag_in_the_second_class(name):
    y = np.arange(N_BAGS) == np.argmax(LEVEL)
    _, prediction = fit(name, BAGS, y)
    assert prediction.probability.mean() < 0.35
    assert prediction.probability[y][0] >= prediction.probability[~y].mean() - 1e-9


# ---- bags ---------------------------------------------------------------------------------------


@quick_model
def test_identical_bags_with_different_labels(name):
    bags, y = [BAGS[0]] * N_BAGS, LEVEL if is_regressor(name) else HIGH
    _, prediction = fit(name, bags, y)
    if is_regressor(name):
        assert_allclose(prediction.mean, y.mean(), atol=0.05)
        # Nothing tells noise from bags here, a ridge that only NUTS follows: its ratio is 1.1.
        assert ((prediction.std > 0.5 * y.std()) & (prediction.std < 3 * y.std())).all()
    else:
        assert_allclose(prediction.probability, y.mean(), atol=0.05)


@pytest.mark.parametrize(
    "name",
    [
        "regressor-nuts",
        pytest.param("bdr-nuts", marks=pytest.mark.long),
        pytest.param("logistic-nuts", marks=pytest.mark.long),
    ],
)
def test_bags_that_are_nearly_all_identical_can_be_sampled(name):
    """The bag of one point differs, so that the sampler need not be compiled again."""
    arrays = [BAGS[0]] * N_BAGS
    arrays[3] = arrays[3][:1]
    y = LEVEL if is_regressor(name) else HIGH
    _, prediction = fit(name, Bags.from_list(arrays, covariates=BAGS.covariates), y)
    center = prediction.mean if is_regressor(name) else prediction.probability
    assert abs(center.mean() - y.mean()) < 0.1


@quick_model
def test_points_that_are_equal_within_each_bag(name):
    arrays = [np.repeat(bag[:1], 6, axis=0) for bag in BAGS]
    y = LEVEL if is_regressor(name) else HIGH
    model, _ = fit(name, arrays, y)
    assert model.score(arrays, y) > 0.6


@every_model
def test_points_that_are_all_equal_are_refused(name):
    with pytest.raises(InvalidBagsError, match="every feature is constant: all points are equal"):
        fit(name, [np.full((6, 2), 1.5)] * N_BAGS, LEVEL if is_regressor(name) else HIGH)


@every_model
def test_bags_of_one_point_only(name):
    bags = Bags.from_list([bag[:1] for bag in BAGS], covariates=BAGS.covariates)
    y = LEVEL if is_regressor(name) else HIGH
    if name.startswith("logistic"):
        model, _ = fit(name, bags, y)
        assert model.score(bags, y) > 0.6
        return
    with pytest.raises(InvalidBagsError, match=r"every bag has one point; .*Bayesian"):
        fit(name, bags, y)


@quick_model
def test_two_bags(name):
    y = np.array([1.0, 2.0]) if is_regressor(name) else np.array([False, True])
    fit(name, [BAGS[0], BAGS[1]], y)


@quick_model
def test_very_large_bags(name):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(x, 0.4, (3000, 2)) for x in LEVEL]
    model, _ = fit(name, arrays, LEVEL if is_regressor(name) else HIGH)
    assert model.score(arrays, LEVEL if is_regressor(name) else HIGH) > 0.9


MANY = KernelEmbedding(90, bandwidth=1.0)
FEWEST = NUTS(chains=2, draws=20, warmup=40, progress=False)


@every_model
def test_many_more_landmarks_than_bags(name):
    rng = np.random.default_rng(0)
    arrays = [rng.normal(x, 0.4, (12, 2)) for x in LEVEL]
    labels = LEVEL if is_regressor(name) else HIGH
    y = labels[:10]
    sampler = {"inference": FEWEST} if "nuts" in name else {}
    model, prediction = fit(name, arrays[:10], y, embedding=MANY, **sampler)
    if is_regressor(name):
        assert (np.abs(prediction.mean - y.mean()) < 2 * np.ptp(y)).all()
        assert (prediction.std < 3 * y.std()).all()
    assert model.score(arrays, labels) > 0.7  # six of the bags are new


@pytest.mark.parametrize("inference", ["laplace", "map"])
def test_default_landmarks_give_intervals_of_the_size_of_the_labels(inference):
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 40)
    arrays = [rng.normal(x, 0.4, (12, 2)) for x in y]
    prediction = BDRRegressor(inference=inference).fit(arrays, y).predict_dist(arrays)
    assert (prediction.std < y.std()).all()


# ---- covariates ---------------------------------------------------------------------------------


@every_model
def test_a_covariate_that_explains_everything(name):
    age = np.random.default_rng(0).uniform(20, 80, N_BAGS)
    bags = BAGS.with_covariates(age, ["age"])
    y = 100 + 3 * age if is_regressor(name) else age > 50
    model, prediction = fit(name, bags, y)
    if is_regressor(name):
        assert_allclose(prediction.mean, y, atol=0.5)
        assert (prediction.std < 1).all()  # labels range over 180
        assert_allclose(model.covariate_weights_, 3.0, rtol=0.01)
    else:
        assert model.score(bags, y) == 1
        assert model.covariate_weights_[0] > 0


# ---- priors -------------------------------------------------------------------------------------

POSTERIORS = ["regressor-laplace", "bdr-laplace", "logistic-laplace"]


@pytest.mark.crossed
@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("field", ["noise", "weights", "prior_scale", "intercept"])
@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e6])
def test_extreme_priors(name, field, scale):
    y = LEVEL if is_regressor(name) else HIGH
    fit(name, BAGS, y, priors=Priors(**{field: scale}))


@pytest.mark.parametrize("name", POSTERIORS)
def test_weights_that_may_not_be_leave_the_average(name):
    y = LEVEL if is_regressor(name) else HIGH
    _, prediction = fit(name, BAGS, y, priors=Priors(weights=1e-6, intercept=1.0))
    center = prediction.mean if is_regressor(name) else prediction.probability
    assert abs(center.mean() - y.mean()) < 0.05
    assert_allclose(center, y.mean(), atol=0.5)  # the covariate still counts
