"""No estimator predicts what its own training residuals rule out.

A family, not a case: estimators × covariates × sample weights × penalties × units. What is asked
holds for any sane regression: the errors on the training bags are no larger than the stated
standard deviation allows, and predictions of bags like them stay within a few label ranges. Every
few combinations one is tried in ``make test``, all of them in ``make test-all``.
"""

import numpy as np
import pytest

import bagwise
from bagwise import Bags

N_TRAIN, N_TEST = 70, 40

ESTIMATORS = {
    "network": bagwise.RBFNetworkRegressor(),
    "network-tiny-penalty": bagwise.RBFNetworkRegressor(penalty=1e-9),
    "network-validation": bagwise.RBFNetworkRegressor(penalty="validation"),
    "blr": bagwise.BayesianLinearRegressor(),
    "blr-vague": bagwise.BayesianLinearRegressor(weight_var=1e6),
    "frequentist": bagwise.FrequentistShrinkageRegressor(),
    "shrinkage": bagwise.ShrinkageRegressor(),
    "shrinkage-convolved": bagwise.ShrinkageRegressor(prior="convolved"),
    "bdr-laplace": bagwise.BDRRegressor(inference="laplace"),
    "gp": bagwise.DistributionGPRegressor(),
    "mean-ridge": bagwise.MeanEmbeddingRidge(),
    "mean-ridge-gaussian": bagwise.MeanEmbeddingRidge(second_level="gaussian"),
    "mean-ridge-landmarks": bagwise.MeanEmbeddingRidge(
        bagwise.KernelEmbedding(20, bandwidth=1.0), exact=False
    ),
}


def gaussian_bags(rng, n, few_sizes=False):
    sizes = rng.choice([1, 2, 4, 9, 20, 39], n) if few_sizes else rng.integers(1, 40, n)
    return [rng.normal(rng.normal(), 1, (size, 1)) for size in sizes]


def binary_bags(rng, n, few_sizes=False):
    """One 0/1 column: a bag's embedding is its share of ones, in whatever features."""
    sizes = rng.choice([2, 3, 6, 12, 29], n) if few_sizes else rng.integers(2, 30, n)
    return [(rng.random((size, 1)) < rng.random()) * 1.0 for size in sizes]


POINTS = {"gaussian": gaussian_bags, "binary": binary_bags}

COVARIATES = {
    "none": lambda arrays, rng: None,
    "mean": lambda arrays, rng: np.array([[a.mean()] for a in arrays]),
    "mean-and-size": lambda arrays, rng: np.array([[a.mean(), np.log(len(a))] for a in arrays]),
    "constant": lambda arrays, rng: np.full((len(arrays), 1), 3.0),
    "log-size": lambda arrays, rng: np.array([[np.log(len(a))] for a in arrays]),
    "nearly-collinear": lambda arrays, rng: (
        np.array([[a.mean()] * 2 for a in arrays]) + [0.0, 1e-7] * rng.normal(size=(len(arrays), 2))
    ),
}

WEIGHTS = {
    "equal": lambda rng: None,
    "uneven": lambda rng: 10.0 ** rng.uniform(-3, 3, N_TRAIN),
    "half-zero": lambda rng: np.repeat([0.0, 1.0], [N_TRAIN // 2, N_TRAIN - N_TRAIN // 2]),
}


def check(model, points, covariates, weights, *, unit=1.0, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    # a process takes time for every pair of sizes
    few_sizes = isinstance(model, bagwise.DistributionGPRegressor)
    arrays = POINTS[points](rng, N_TRAIN + N_TEST, few_sizes)
    y = np.array([np.log(len(a)) + np.sin(a).mean() for a in arrays])
    y = unit * (y + noise * rng.normal(size=len(y)))
    bags = Bags.from_list(arrays, covariates=COVARIATES[covariates](arrays, rng))
    weight = WEIGHTS[weights](rng)
    train, labels = bags[:N_TRAIN], y[:N_TRAIN]
    model.fit(train, labels, sample_weight=weight)
    counted = np.ones(N_TRAIN) if weight is None else weight
    fitted, new = model.predict_dist(train), model.predict_dist(bags[N_TRAIN:])
    error = np.maximum(np.abs(fitted.mean - labels) - 1e-4 * np.std(labels), 0.0)
    assert np.average(error**2 / fitted.var, weights=counted) < 4.0  # 1, if all is well
    center, reach = np.mean(labels), 3.0 * np.ptp(labels)
    assert np.abs(new.mean - center).max() < reach
    assert 0 < new.std.max() < reach


def model_of(name, points="gaussian"):
    """Return the estimator; the convolved prior with few landmarks, among which it finds sooner.

    Binary points are two, and so are their landmarks.
    """
    if name == "shrinkage-convolved" and points == "gaussian":
        return bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(15), prior="convolved")
    return ESTIMATORS[name]


@pytest.mark.crossed(together=2)
@pytest.mark.parametrize("covariates", COVARIATES)
@pytest.mark.parametrize("points", POINTS)
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_predictions_are_what_training_errors_allow(covariates, points, weights, name):
    if name == "mean-ridge-landmarks" and points == "binary":
        pytest.skip("two distinct points cannot be 20 landmarks, and it says so")
    check(model_of(name, points), points, covariates, weights)


@pytest.mark.crossed
@pytest.mark.parametrize("covariates", ["none", "mean-and-size"])
@pytest.mark.parametrize("unit", [1e-9, 1e9])
@pytest.mark.parametrize("noise", [0.0, 1.0])
@pytest.mark.parametrize("name", ESTIMATORS)
def test_whatever_the_units_and_the_noise_of_the_labels(covariates, unit, noise, name):
    check(model_of(name), "gaussian", covariates, "equal", unit=unit, noise=noise)


def test_a_prediction_far_from_all_labels_is_said_to_be_one():
    rng = np.random.default_rng(0)
    arrays = gaussian_bags(rng, 60)
    y = np.array([a.mean() for a in arrays])
    model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(kernel="linear")).fit(arrays, y)
    with pytest.warns(bagwise.BagwiseWarning, match=r"1 of 2 predictions .* for bag 1: .* unlike"):
        assert np.isfinite(model.predict([arrays[0], np.full((50, 1), 1e9)])).all()


def nearly_equal_bags(rng, n):
    """All points are one, but for a single one."""
    arrays = [np.full((4, 2), 3.0) for _ in range(n)]
    arrays[n // 2][0] += rng.normal(size=2)
    return arrays


@pytest.mark.filterwarnings("ignore:.*extrapolations", "ignore:.*less than a billionth")
@pytest.mark.crossed(together=2)
@pytest.mark.parametrize("kind", ["gaussian", "nearly-equal"])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", list(ESTIMATORS)[:-1])
def test_weights_of_any_orders_of_magnitude(name, seed, kind):
    rng = np.random.default_rng(seed)
    arrays = (gaussian_bags if kind == "gaussian" else nearly_equal_bags)(rng, 12)
    y = rng.normal(size=12)
    weights = 10.0 ** rng.uniform(-12, 12, 12)
    try:
        model = ESTIMATORS[name].fit(arrays, y, sample_weight=weights)
    except bagwise.BagwiseError as error:  # too few points for landmarks, in our own words
        assert "; expected " in str(error)
        return
    new = (gaussian_bags if kind == "gaussian" else nearly_equal_bags)(rng, 12)
    for bags in (arrays, new):
        found = model.predict_dist(bags)
        assert np.abs(found.mean - np.mean(y)).max() < 10 * np.ptp(y)
        assert np.isfinite(found.std).all()


def test_a_weight_that_is_rounding_error_is_raised_and_it_is_said():
    rng = np.random.default_rng(0)
    bags, y = gaussian_bags(rng, 30), rng.normal(size=30)
    weights = np.r_[1e-20, np.ones(29)]
    with pytest.warns(bagwise.BagwiseWarning, match=r"1 of 30 sample weights .* bag 0: beside"):
        raised = bagwise.ShrinkageRegressor().fit(bags, y, sample_weight=weights)
    given = bagwise.ShrinkageRegressor().fit(bags, y, sample_weight=np.maximum(weights, 1e-9))
    np.testing.assert_allclose(raised.predict(bags), given.predict(bags), rtol=1e-9)


SIZES = [1e-300, 1e-100, 1e-9, 1e9 / 3, 1e20 / 3, 1e100 / 3, 1e140 / 3]
FEW = {name: model for name, model in ESTIMATORS.items() if "-" not in name or "bdr" in name}


@pytest.mark.crossed
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("size", SIZES)
def test_labels_that_are_all_one_number(name, size):
    rng = np.random.default_rng(0)
    arrays = gaussian_bags(rng, 12)
    y = np.full(12, size)
    found = FEW[name].fit(arrays, y).predict_dist(arrays)
    unit = max(size, 1e-140)  # the squares of what is much smaller are 0
    assert (np.abs(found.mean - y) <= 1e-5 * unit).all()
    assert (found.std > 0).all() and (found.std <= 1e-4 * unit).all()
    assert np.isfinite(found.log_prob(y)).all()


@pytest.mark.filterwarnings("ignore:.*less than a billionth")  # which a test of its own is about
@pytest.mark.filterwarnings("ignore:.*extrapolations")  # of the bags that do not count
@pytest.mark.crossed
@pytest.mark.parametrize("name", FEW)
@pytest.mark.parametrize("size", SIZES[1:])
def test_labels_beside_which_the_weight_of_others_vanishes(name, size):
    rng = np.random.default_rng(0)
    arrays = gaussian_bags(rng, 12)
    y = size * rng.uniform(1, 2, 12)
    weight = np.where(np.arange(12) == 0, 1e300, 1.0)
    found = FEW[name].fit(arrays, y, sample_weight=weight).predict_dist(arrays)
    assert np.abs(found.mean[0] - y[0]) <= 1e-5 * size
    assert (np.abs(found.mean - y) <= 10 * size).all()
    # a process knows of bags that count for nothing only what all labels may be
    widest = 2.0 * size if name == "gp" else size
    assert (found.std > 0).all() and (found.std <= widest).all()


@pytest.mark.crossed
@pytest.mark.parametrize("name", [name for name in FEW if name != "bdr-laplace"])
@pytest.mark.parametrize("size", SIZES)
def test_a_covariate_that_was_constant_says_nothing(name, size):
    """The mean of equal numbers is not always that number: what is left is no signal."""
    rng = np.random.default_rng(0)
    arrays = gaussian_bags(rng, 12)
    y = rng.normal(size=12)
    expected = FEW[name].fit(Bags.from_list(arrays), y).predict(Bags.from_list(arrays))
    model = FEW[name].fit(Bags.from_list(arrays, covariates=np.full((12, 1), size)), y)
    for now in (size, 1.5 * size):
        found = model.predict(Bags.from_list(arrays, covariates=np.full((12, 1), now)))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
