"""Bad classes, class weights, priors and settings of the sampler are refused with the remedy."""

import re
from dataclasses import fields

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from bagwise import (
    BayesianLogisticClassifier,
    BDRClassifier,
    BDRRegressor,
    KernelEmbedding,
    ShrinkageClassifier,
)
from bagwise.exceptions import InvalidBagsError, InvalidLabelsError
from bagwise.inference import NUTS, Priors
from error_cases import ARRAYS, BAGS, IDS, Y, fails

SMALL = KernelEmbedding(3, bandwidth=1.0)
CLASSIFIERS = {
    "bdr": BDRClassifier(SMALL, inference="laplace"),
    "logistic": BayesianLogisticClassifier(SMALL),
    "shrinkage": ShrinkageClassifier(SMALL),
}
POSTERIORS = {name: CLASSIFIERS[name] for name in ("bdr", "logistic")} | {
    "regressor": BDRRegressor(SMALL, inference="laplace")
}
LABELS = np.array(["no", "no", "yes", "no", "yes", "yes"])

every_classifier = pytest.mark.parametrize("model", CLASSIFIERS.values(), ids=CLASSIFIERS)
every_posterior = pytest.mark.parametrize("model", POSTERIORS.values(), ids=POSTERIORS)


def made(cls, **values):
    """Make settings without the check of types that the tests put before the users' own."""
    settings = object.__new__(cls)
    for field in fields(cls):
        object.__setattr__(settings, field.name, values.get(field.name, field.default))
    settings.__post_init__()
    return settings


def labels_for(model):
    return Y if isinstance(model, BDRRegressor) else LABELS


# ---- classes ------------------------------------------------------------------------------------


def objects(*values):
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


BAD_CLASSES = {
    "one class": (
        ["no"] * 6,
        (
            "all 6 bags have the label",
            "'no'",
            "two classes or more",
            "give bags of the other class",
        ),
    ),
    "amounts": (
        Y + 0.5,
        ("the labels are 6 numbers, not all of them whole", "…", "classes", "use a regressor"),
    ),
    "nan": (
        [0, 1, 0, 1, np.nan, 1],
        ("the label of bag 'e' (position 4) is nan", "a class", "Drop the bags without a label"),
    ),
    "nan among strings": (
        ["a", "b", np.nan, "a", "b", "a"],
        ("the label of bag 'c' (position 2) is nan", "a class", "Drop the bags without a label"),
    ),
    "None": (
        ["a", None, "b", "a", "b", "a"],
        ("the label of bag 'b' (position 1) is None", "a class", "Drop the bags without a label"),
    ),
    "missing in pandas": (
        pd.Series(["a", "b", "a", pd.NA, "b", "a"], dtype=object),
        ("the label of bag 'd' (position 3) is <NA>", "a class", "Drop the bags without a label"),
    ),
    "not a time": (
        pd.Series(pd.to_datetime(["2020", None, "2021", "2020", "2021", "2020"])),
        ("the label of bag 'b' (position 1) is NaT", "a class", "Drop the bags without a label"),
    ),
    "too few": (
        LABELS[:5],
        ("there are 5 labels for 6 bags", "one label per bag", "Check that labels"),
    ),
    "one per point": (
        np.repeat(LABELS, 4),
        ("there are 24 labels for 6 bags", "one label per bag", "not to points"),
    ),
    "two columns": (
        np.zeros((6, 2)),
        ("the labels have shape (6, 2)", "(6,), one label per bag", "one model for each column"),
    ),
    "nothing": (None, ("the labels have shape ()", "(6,), one label per bag", "Pass a 1-D array")),
    "mixed objects": (
        objects("a", 1, "a", 1, "a", 1),
        ("the labels are of types int, str", "labels of one type", "Convert them to strings"),
    ),
    "mixed list": (
        ["a", 1, "a", 1, "a", 1],
        ("the labels are of types int, str", "labels of one type", "Convert them to strings"),
    ),
    "complex": (
        np.array([0, 1j, 0, 1j, 0, 1j]),
        ("the labels have dtype complex128", "two classes or more", "numbers, strings or booleans"),
    ),
    "records": (
        np.zeros(6, dtype=[("a", int)]),
        (
            "the labels have dtype [('a', '<i8')]",
            "two classes or more",
            "numbers, strings or booleans",
        ),
    ),
}


@every_classifier
@pytest.mark.parametrize("case", BAD_CLASSES)
def test_bad_classes(model, case):
    y, parts = BAD_CLASSES[case]
    fails(lambda: model.fit(BAGS, y), *parts, error=InvalidLabelsError)


@every_classifier
def test_a_single_bag(model):
    fails(
        lambda: model.fit(ARRAYS[:1], ["no"]),
        "there is 1 bag to fit", "at least 2", "pass (X, groups)",
        error=InvalidBagsError,
    )  # fmt: skip


@every_classifier
def test_a_class_without_weight(model):
    fails(
        lambda: model.fit(BAGS, LABELS, sample_weight=(LABELS == "no").astype(float)),
        "all bags of class", "'yes' have weight 0", "a positive weight in every class",
        "Check sample_weight",
        error=InvalidLabelsError,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["bdr", "shrinkage"])
def test_bags_of_one_point_only(name):
    fails(
        lambda: CLASSIFIERS[name].fit([array[:1] for array in ARRAYS], LABELS),
        "every bag has one point", "some bags with two points", "BayesianLogisticClassifier",
        error=InvalidBagsError,
    )  # fmt: skip


@every_classifier
def test_labels_of_the_score_are_checked_by_the_prediction(model):
    prediction = model.fit(BAGS, LABELS).predict_dist(BAGS)
    fails(
        lambda: prediction.log_prob(["no"] * 5 + ["perhaps"]),
        "y is 'perhaps' at row 5", "'no' or 'yes', the classes of the fit", "of the type used",
        error=InvalidLabelsError,
    )  # fmt: skip


# ---- weights of classes -------------------------------------------------------------------------

BAD_CLASS_WEIGHTS = {
    "word": ("balance", ("class_weight is 'balance'", '"balanced" or weights', "For example {")),
    "number": (2.0, ("class_weight is 2.0", "None, ", "['no', 'yes']", "For example {")),
    "list": ([1, 2], ("class_weight is [1, 2]", "['no', 'yes']", "For example {")),
    "other class": ({"maybe": 1.0}, ("{'maybe': 1.0}", "weights of the classes ['no', 'yes']")),
    "one other class": ({"yes": 1.0, 1: 1.0}, ("{'yes': 1.0, 1: 1.0}", "['no', 'yes']")),
    "zero": ({"yes": 0.0}, ("class_weight is {'yes': 0.0}", "finite weights > 0", "Leave it out")),
    "negative": ({"yes": -1}, ("class_weight is {'yes': -1}", "finite weights > 0", "Leave it")),
    "nan": ({"yes": np.nan}, ("class_weight is {'yes': nan}", "finite weights > 0", "Leave it")),
    "inf": ({"yes": np.inf}, ("class_weight is {'yes': inf}", "finite weights > 0", "Leave it")),
    "string": ({"yes": "2"}, ("class_weight is {'yes': '2'}", "finite weights > 0", "Leave it")),
    "None": ({"yes": None}, ("class_weight is {'yes': None}", "finite weights > 0", "Leave it")),
}


@every_classifier
@pytest.mark.parametrize("case", BAD_CLASS_WEIGHTS)
def test_bad_class_weight(model, case):
    weight, parts = BAD_CLASS_WEIGHTS[case]
    estimator = clone(model).set_params(class_weight=weight)
    fails(lambda: estimator.fit(BAGS, LABELS), *parts, error=InvalidLabelsError)


# ---- inference ----------------------------------------------------------------------------------


def with_params(model, **params):
    return clone(model).set_params(**params)


@every_posterior
@pytest.mark.parametrize("value", ["NUTS", "vi", "", None, 5, True, NUTS, ["nuts"]], ids=repr)
def test_unknown_inference(model, value):
    fails(
        lambda: with_params(model, inference=value).fit(BAGS, labels_for(model)),
        f"inference is {value!r}",
        '"nuts", "variational", "laplace", "map" or bagwise.inference.NUTS()',
        "set_params(inference=...)",
    )  # fmt: skip


@every_posterior
@pytest.mark.parametrize("value", [{"noise": 1.0}, 1.0, "flat", Priors, (1.0, 1.0)], ids=repr)
def test_priors_of_another_type(model, value):
    fails(
        lambda: with_params(model, priors=value).fit(BAGS, labels_for(model)),
        f"priors is {value!r}", "bagwise.inference.Priors(...) or None", "set_params(priors=...)",
    )  # fmt: skip


BAD_SCALES = [0.0, -1.0, np.nan, np.inf, -np.inf, True, np.True_, "1", 1j, [1.0], np.ones(1), 0]


@pytest.mark.parametrize("field", ["noise", "weights", "prior_scale", "intercept"])
@pytest.mark.parametrize("value", BAD_SCALES, ids=repr)
def test_scale_of_a_prior(field, value):
    fails(
        lambda: made(Priors, **{field: value}),
        f"the prior's {field} is {value!r}", "a finite number > 0", "Give the scale of the prior",
    )  # fmt: skip


@pytest.mark.parametrize("field", ["noise", "intercept"])
def test_priors_that_have_a_number_need_one(field):
    fails(
        lambda: made(Priors, **{field: None}), f"the prior's {field} is None", "a finite number > 0"
    )
    assert Priors(weights=None, prior_scale=None) == Priors()


@pytest.mark.parametrize("value", [np.float64(2.0), np.float32(2.0), np.int64(2), 2])
def test_any_real_number_is_a_scale(value):
    assert made(Priors, noise=value).noise == 2


BAD_SETTINGS = {
    "chains": ([0, -1, 2.0, True, "4", None, np.nan], "a whole number of at least 1"),
    "draws": ([0, -1, 2.0, True, "4", np.nan], "a whole number of at least 1"),
    "n_effective": ([0, -1, 2.0, True, "4", None, np.nan], "a whole number of at least 1"),
    "min_draws": ([0, -1, 2.0, True, "4", None, np.nan], "a whole number of at least 1"),
    "max_draws": ([0, -1, 2.0, True, "4", None, np.nan], "a whole number of at least 1"),
    "warmup": ([-1, 2.0, True, "4", None, np.nan], "a whole number of at least 0"),
    "n_jobs": ([0, -1, 2.0, True, "4", np.nan], "a whole number of at least 1"),
    "target_accept": ([0.0, 1.0, -0.1, 1.5, np.nan, "0.8", None, 1, True], "between 0 and 1"),
    "progress": (["no", None, 1], "True or False"),
}
SETTING_CASES = [(name, value) for name, (values, _) in BAD_SETTINGS.items() for value in values]


@pytest.mark.parametrize(("name", "value"), SETTING_CASES, ids=repr)
def test_settings_of_the_sampler(name, value):
    fails(
        lambda: made(NUTS, **{name: value}),
        f"{name} is {value!r}", BAD_SETTINGS[name][1], f"Give NUTS({name}=...) another",
    )  # fmt: skip


def test_settings_may_be_numbers_of_numpy():
    assert made(NUTS, chains=np.int64(2), draws=np.int32(5)) == NUTS(chains=2, draws=5)


# ---- other parameters ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "parts"),
    [
        ({"prior": "flat"}, ("prior is 'flat'", '"kernel" or "convolved"', "set_params(prior")),
        ({"covariance_floor": 0.0}, ("covariance_floor is 0.0", "a finite number > 0")),
        (
            {"prior": "convolved", "embedding__kernel": "linear"},
            ("the convolved prior was", "the RBF kernel"),
        ),
    ],
    ids=lambda value: str(value)[:20],
)
def test_parameters_of_the_shrinkage_models(params, parts):
    for model in (POSTERIORS["regressor"], *CLASSIFIERS.values()):
        if params.keys() <= model.get_params().keys():
            y = labels_for(model)
            fails(lambda model=model, y=y: with_params(model, **params).fit(BAGS, y), *parts)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "loo"])
def test_weight_var_of_the_shrinkage_classifier(value):
    model = with_params(CLASSIFIERS["shrinkage"], weight_var=value)
    fails(lambda: model.fit(BAGS, LABELS), f"weight_var is {value!r}", "number > 0", "set_params")


def test_classes_and_ids_are_shown_as_they_were_given():
    """Without the types of NumPy, which a reader need not know."""
    with pytest.raises(InvalidLabelsError) as caught:
        CLASSIFIERS["shrinkage"].fit(BAGS, np.array([3] * 6))
    assert re.match("all 6 bags have the label 3;", str(caught.value))
    assert BAGS.ids.tolist() == IDS
