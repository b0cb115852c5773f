"""Numbers of any size are used as they are or refused where they come in, and nothing is raw."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import bagwise
from bagwise import Bags, BagwiseError
from bagwise.bags.validation import positive
from bagwise.features.kernels import RBF, Additive, Linear, Matern, convolved
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.mixture import MixturePrediction
from error_cases import ARRAYS, BAGS, IDS, MODELS, Y, fails, fast, with_value

TOO_LARGE = [1.1e150, -1e151, 1e200, -1e308, 1.7e308]
EXPECTED = ("expected a number between -1e+150 and 1e+150", "larger unit")


# ---- one rule where numbers come in -------------------------------------------------------------


@pytest.mark.parametrize("value", TOO_LARGE)
def test_points_too_large_are_refused_by_place(value):
    place = f"bag 'c', row 1, column 0 is {value:g}"
    fails(lambda: Bags.from_list(with_value(value), ids=IDS), place, *EXPECTED)
    named = f"bag 'c', row 1, column 'a' is {value:g}"
    rows, groups = np.concatenate(with_value(value)), np.repeat(IDS, 4)
    fails(lambda: Bags.from_groups(rows, groups, feature_names=["a", "b"]), named, *EXPECTED)
    table = pa.table({"id": groups, "a": rows[:, 0], "b": rows[:, 1]})
    fails(lambda: Bags.from_frame(table, bag="id"), "bag 'c', row 1, column 'a' is")


@pytest.mark.parametrize("value", TOO_LARGE)
def test_covariates_labels_and_weights_too_large_are_refused(value):
    column = np.where(np.arange(6) == 3, value, 1.0)
    bags = Bags.from_list(ARRAYS, ids=IDS)
    fails(lambda: bags.with_covariates(column, ["age"]), "bag 'd', covariate 'age' is", *EXPECTED)
    place = "the label of bag 'd' (position 3) is"
    for model in MODELS.values():
        fails(lambda model=model: fast(model).fit(BAGS, column), place, *EXPECTED)
    weights = [np.full(4, abs(w)) for w in column]
    fails(lambda: Bags.from_list(ARRAYS, weights=weights), "bag 3, row 0 has weight", "at most")


def test_the_largest_usable_numbers_are_used():
    """Just below the limit all models fit, and predict what they do in another unit."""
    unit = 1e149
    for model in MODELS.values():
        ours = fast(model).fit([unit * array for array in ARRAYS], unit * Y)
        mean, std = ours.predict([unit * array for array in ARRAYS], return_std=True)
        in_other_unit = fast(model).fit(ARRAYS, Y).predict(ARRAYS, return_std=True)
        assert_allclose(mean / unit, in_other_unit[0], rtol=1e-6, atol=1e-6)
        assert_allclose(std / unit, in_other_unit[1], rtol=1e-6)


def test_float32_and_integers_pass():
    bags = Bags.from_list([np.full((2, 1), 3e38, np.float32), np.ones((1, 1), np.float32)])
    assert bags.points.dtype == np.float32
    with pytest.raises(BagwiseError, match="row 0, column 0 is inf"):
        Bags.from_list([np.full((2, 1), np.inf, np.float32)])
    Bags.from_list([[[2**63]], [[-(2**62)]]])


def test_labels_that_differ_by_less_than_their_squares_tell_are_refused():
    fails(lambda: fast(MODELS["bayesian"]).fit(BAGS, 1e-200 * Y), "the labels differ, but by")
    fast(MODELS["bayesian"]).fit(BAGS, 1e-140 * Y)
    fast(MODELS["bayesian"]).fit(BAGS, 0.0 * Y)


# ---- kernels at any distance --------------------------------------------------------------------


def exact_half(x, y, scale):
    """Return ½‖x − y‖²/scale² in rational arithmetic."""
    gaps = [(Fraction(a) - Fraction(b)) / Fraction(scale) for a, b in zip(x, y, strict=True)]
    return sum(gap * gap for gap in gaps) / 2


@pytest.mark.parametrize("scale", [1e-149, 1e-60, 1e-3, 1.0, 1e60, 1e149])
@pytest.mark.parametrize("shift", [0.0, 1e5, 1e9])
def test_close_points_stay_close_wherever_they_are(scale, shift):
    """Points a bandwidth apart, some of them many bandwidths from the others."""
    x = scale * np.array([[0.0, 0.0], [0.5, 1.0], [shift, shift], [shift + 1.0, shift]])
    half = np.array([[float(min(exact_half(a, b, scale), Fraction(1000))) for a in x] for b in x])
    with np.errstate(all="raise", under="ignore"):
        assert_allclose(RBF(scale)(x, x), np.exp(-half), atol=1e-5)
        assert_allclose(Matern(scale, 0.5)(x, x), np.exp(-np.sqrt(2 * half)), atol=1e-2)
        for kernel in (Matern(scale, 1.5), Matern(scale, 2.5), Additive(base=RBF(scale))):
            gram = kernel(x, x)
            assert np.isfinite(gram).all() and (gram >= 0).all() and (gram <= 1 + 1e-5).all()
            assert_allclose(np.diag(gram), 1.0, atol=1e-4)


def test_points_infinitely_many_bandwidths_away_have_no_part():
    with np.errstate(all="raise", under="ignore"):
        for kernel in (RBF(1e-150), Matern(1e-150, 0.5), Matern(1e-150, 2.5)):
            gram = kernel(np.array([[1e150], [0.0]]), np.array([[-1e150], [0.0]]))
            assert gram.tolist() == [[0.0, 0.0], [0.0, 1.0]]
        gram, slope = convolved(RBF(1e140), np.array([[1e149], [0.0]]), np.zeros((1, 1)), 1e145)
        assert np.isfinite(gram).all() and np.isfinite(slope).all()


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, np.inf, 1e-300, 1e300])
def test_bandwidths_that_cannot_be_used(bandwidth):
    fails(lambda: RBF(bandwidth)(np.zeros((1, 1)), np.zeros((1, 1))), "bandwidth", "number")


def test_linear_kernel_says_what_is_too_large_for_products():
    fails(lambda: Linear()(np.full((2, 1), 1e100), np.ones((1, 1))), "1e+100", "standardize=True")


# ---- what is no number at all -------------------------------------------------------------------

PREDICTION = Prediction(np.zeros(2), VarianceParts.broadcast(2, noise=1.0))
MIXTURE = MixturePrediction(np.zeros((3, 2)), np.ones(3), sizes=np.ones(2))
both = pytest.mark.parametrize("prediction", [PREDICTION, MIXTURE], ids=["gaussian", "mixture"])


@both
@pytest.mark.parametrize("value", ["ten", 1j, np.array([1j, 1j]), 10**400, [[1], [1, 2]]])
def test_questions_to_a_prediction_that_are_no_numbers(prediction, value):
    fails(lambda: prediction.at_size(value), "n_points is")
    fails(lambda: prediction.quantile(value), "q is")


@both
def test_log_density_of_a_label_very_far_away_is_finite(prediction):
    with np.errstate(all="raise", under="ignore"):
        for far in (1e100, 1e200, 1e300):
            y = np.array([far, -far])
            assert (prediction.log_prob(y) <= -0.4 * min(far, 1e150) ** 2).all()
            assert np.isfinite(prediction.log_prob(y)).all()
            assert_allclose(prediction.crps(y), far)


@pytest.mark.parametrize("seed", [-1, "x", 1.5, [1.5]])
def test_random_states_that_are_none(seed):
    expected = "a whole number of at least 0, or a random generator"
    for model in MODELS.values():
        estimator = fast(model).set_params(embedding__random_state=seed)
        fails(lambda estimator=estimator: estimator.fit(BAGS, Y), "random_state is", expected)


@pytest.mark.parametrize("value", [10**400, 1e-101, 1e101])
def test_parameters_of_no_usable_size(value):
    for model, name in [
        ("network", "penalty"),
        ("shrinkage", "weight_var"),
        ("embedding", "penalty"),
    ]:
        estimator = fast(MODELS[model]).set_params(**{name: value})
        fails(lambda estimator=estimator: estimator.fit(BAGS, Y), f"{name} is")


@pytest.mark.parametrize("value", [np.float64(2.0), np.float32(2.0), np.int8(2), 2])
def test_parameters_of_any_type_of_number(value):
    assert positive("penalty", value) == 2.0


def test_long_ids_are_shown_by_their_start():
    ids = [f"{'x' * 10_000}{i}" for i in range(6)]
    with pytest.raises(BagwiseError) as caught:
        Bags.from_list(with_value(np.nan), ids=ids)
    assert str(caught.value).startswith("bag 'xxx") and len(str(caught.value)) < 250


def test_a_label_that_is_a_list_is_no_label():
    table = pa.table({"id": [0, 0, 1], "x": [1.0, 2.0, 3.0], "y": [[1], [1], [2, 3]]})
    fails(lambda: Bags.from_frame(table, bag="id", label="y"), "'y' holds values of type")


@pytest.mark.filterwarnings("ignore:.*less than a billionth")
def test_information_that_is_singular():
    """Weights over 24 orders of magnitude leave nothing known of some covariates."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        arrays = [rng.normal(size=(n, 2)) for n in rng.integers(1, 6, 5)]
        means = np.array([array.mean(axis=0) for array in arrays])
        bags = Bags.from_list(arrays, covariates=means)
        weight = 10.0 ** rng.uniform(-12, 12, 5)
        model = bagwise.ShrinkageClassifier(bagwise.KernelEmbedding(3, bandwidth=1.0))
        p = model.fit(bags, [0, 1, 0, 1, 1], weight).predict_proba(bags)
        assert np.isfinite(p).all() and ((p >= 0) & (p <= 1)).all()
