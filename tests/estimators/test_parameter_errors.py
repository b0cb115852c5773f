"""Bad parameters are refused by name."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise import (
    BayesianLinearRegressor,
    FourierEmbedding,
    FrequentistShrinkageRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.features.kernels import RBF, Matern
from error_cases import ARRAYS, BAGS, Y, every_model, fails, fast, with_landmarks

# ---- parameters ---------------------------------------------------------------------------------


def refuses(model, *parts, **params):
    fails(lambda: model().set_params(**params).fit(BAGS, Y), *parts)


def refuses_embedding(model, *parts, **params):
    fails(lambda: model(KernelEmbedding(**params)).fit(BAGS, Y), *parts)


KERNEL = "a Kernel, a function, or one of rbf,"


@every_model
@pytest.mark.parametrize("kernel", ["gauss", "RBF", None, 3, ["rbf"]])
def test_unknown_kernel(model, kernel):
    if kernel is None or isinstance(kernel, int | list):
        estimator = fast(model).set_params(embedding__kernel=kernel)
        fails(lambda: estimator.fit(BAGS, Y), f"kernel is {kernel!r}", KERNEL)
    else:
        refuses_embedding(model, f"kernel is {kernel!r}", KERNEL, 'Try "rbf"', kernel=kernel)


def test_a_kernel_of_scikit_learn_is_a_function_of_two_arrays():
    from sklearn.gaussian_process.kernels import RBF as Foreign

    given = dict(landmarks=BAGS.points[:5], standardize=False)
    theirs = KernelEmbedding(kernel=Foreign(1.5), **given).fit_transform(BAGS)
    ours = KernelEmbedding(kernel=RBF(1.5), **given).fit_transform(BAGS)
    assert_allclose(theirs, ours, rtol=1e-12)


@every_model
@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan])
def test_kernel_without_a_positive_bandwidth(model, bandwidth):
    parts = ("no positive bandwidth", "a number > 0")
    refuses_embedding(model, *parts, kernel=RBF(bandwidth=bandwidth))


def test_unknown_smoothness():
    fails(lambda: Matern(smoothness=2.0), "smoothness is 2.0", "0.5, 1.5 or 2.5")


@every_model
@pytest.mark.parametrize("scale", [0.0, -1.0, np.nan, np.inf, True])
def test_bandwidth(model, scale):
    refuses_embedding(
        model,
        f"bandwidth is {scale!r}", "a finite number > 0", "KernelEmbedding(bandwidth=...)",
        bandwidth=scale,
    )  # fmt: skip


@every_model
def test_unknown_word_for_bandwidth(model):
    parts = ("bandwidth is 'median'", "a number > 0 or 'auto'", "KernelEmbedding(bandwidth=...)")
    refuses_embedding(model, *parts, bandwidth="median")


@with_landmarks
@pytest.mark.parametrize("how", ["k-means", "", None, 5])
def test_unknown_landmarks(model, how):
    if isinstance(how, str):
        refuses_embedding(
            model,
            f"landmarks is {how!r}", '"kmeans", "random" or an array', "KernelEmbedding(landmarks",
            landmarks=how,
        )  # fmt: skip
    else:
        refuses_embedding(model, "landmarks have shape ()", "real numbers of shape", landmarks=how)


@with_landmarks
@pytest.mark.parametrize(
    ("landmarks", "parts"),
    [
        (np.zeros((3, 5)), ("landmarks have shape (3, 5)", "(number of landmarks, 2)")),
        (np.zeros(2), ("landmarks have shape (2,)", "(number of landmarks, 2)")),
        (np.zeros((0, 2)), ("landmarks have shape (0, 2)", "(number of landmarks, 2)")),
        ([["a", "b"]], ("dtype <U1", "real numbers")),
        (
            [[0.0, 1.0], [np.nan, 0.0]],
            ("row 1, column 0 is nan", "finite", "Drop the row"),
        ),
    ],
)
def test_bad_landmarks(model, landmarks, parts):
    refuses_embedding(model, *parts, landmarks=landmarks)


@with_landmarks
@pytest.mark.parametrize("how", ["kmeans", "random"])
def test_more_landmarks_than_distinct_points(model, how):
    twice = [np.vstack([array, array]) for array in ARRAYS]
    estimator = model(KernelEmbedding(25, landmarks=how))
    fails(
        lambda: estimator.fit(twice, Y),
        "there are 24 distinct points for 25 landmarks", "at least as many distinct points",
        "Use n_landmarks=24 or fewer",
    )  # fmt: skip


@with_landmarks
@pytest.mark.parametrize("n", [0, -2, True])
def test_number_of_landmarks(model, n):
    parts = (
        f"n_landmarks is {n!r}",
        'a whole number of at least 1, or "auto"',
        "KernelEmbedding(n_",
    )
    refuses_embedding(model, *parts, n_landmarks=n)


@every_model
@pytest.mark.parametrize("embedding", [None, 30, "kernel", KernelEmbedding, {"n_landmarks": 30}])
def test_what_is_no_embedding(model, embedding):
    parts = ("embedding is ", "KernelEmbedding(...) or FourierEmbedding(...)", "set_params(embed")
    refuses(model, *parts, embedding=embedding)


@every_model
def test_function_landmarks_are_refused_by_models_without_a_use_for_them(model):
    embedding = KernelEmbedding(landmarks=ARRAYS[0], function_landmarks=ARRAYS[1], bandwidth=1.0)
    if model is ShrinkageRegressor:
        model(embedding).fit(BAGS, Y)
    else:
        refuses(model, "function_landmarks with a ", "None, except for", embedding=embedding)


@with_landmarks
@pytest.mark.parametrize("n", [2.0, "many"])
def test_type_of_the_number_of_landmarks(model, n):
    estimator = fast(model).set_params(embedding__n_landmarks=n)
    fails(lambda: estimator.fit(BAGS, Y), f"n_landmarks is {n!r}", "a whole number")


@pytest.mark.parametrize("model", [RBFNetworkRegressor, FrequentistShrinkageRegressor,
                                   MeanEmbeddingRidge])  # fmt: skip
@pytest.mark.parametrize("penalty", [0.0, -1.0, np.inf, np.nan, "cv"])
def test_penalty(model, penalty):
    refuses(model, f"penalty is {penalty!r}", "number > 0", "set_params", penalty=penalty)


@pytest.mark.parametrize("model", [BayesianLinearRegressor, ShrinkageRegressor])
@pytest.mark.parametrize("value", [0.0, -1.0, np.inf, np.nan, "loo"])
def test_weight_var(model, value):
    refuses(model, f"weight_var is {value!r}", "number > 0", "set_params", weight_var=value)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, "evidence"])
def test_prior_scale(value):
    model = FrequentistShrinkageRegressor
    refuses(model, f"prior_scale is {value!r}", "number > 0", "set_params", prior_scale=value)


@pytest.mark.parametrize("value", [0.0, -0.1, np.nan])
def test_covariance_floor(value):
    parts = (f"covariance_floor is {value!r}", "a finite number > 0", "set_params")
    refuses(ShrinkageRegressor, *parts, covariance_floor=value)


def test_unknown_prior():
    refuses(ShrinkageRegressor, "prior is 'flat'", '"kernel" or "convolved"', prior="flat")


def test_second_level():
    model = MeanEmbeddingRidge
    refuses(model, "second_level is 'rbf'", '"linear" or "gaussian"', second_level="rbf")
    for level in ("linear", "gaussian"):
        parts = ("second_scale is -1.0", "a finite number > 0")
        refuses(model, *parts, second_level=level, second_scale=-1.0)


@every_model
def test_standardize_is_a_flag(model):
    estimator = fast(model).set_params(embedding__standardize="no")
    fails(
        lambda: estimator.fit(BAGS, Y), "standardize is 'no'", "True or False", "KernelEmbedding("
    )


def test_convolved_prior_needs_landmarks_and_the_gaussian_kernel():
    refuses(
        ShrinkageRegressor,
        "the convolved prior was asked for with random Fourier features", "landmarks",
        'Use KernelEmbedding() or prior="kernel"',
        prior="convolved", embedding=FourierEmbedding(),
    )  # fmt: skip
    for kernel in ("matern32", "linear", "additive-rbf"):
        refuses(
            ShrinkageRegressor,
            "the convolved prior was asked for with", "the RBF kernel", 'Use kernel="rbf"',
            prior="convolved", embedding__kernel=kernel,
        )  # fmt: skip


@with_landmarks
@pytest.mark.parametrize("kernel", ["linear", "additive-linear"])
def test_linear_kernel_has_no_fourier_features(model, kernel):
    refuses(
        model,
        "Linear", "has no spectral density", "a stationary kernel", "or KernelEmbedding()",
        embedding=FourierEmbedding(kernel=kernel),
    )  # fmt: skip
