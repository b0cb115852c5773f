"""Saved models: what is loaded predicts the same, bit by bit, and is the same to its users."""

import dataclasses
import pickle
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import bagwise
import classifier_models
import contract_models
from bagwise import Bags, KernelEmbedding, MeanEmbeddingRidge, ShrinkageRegressor
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.estimators.saving import open_saved, read_header
from bagwise.estimators.saving.codec import CLASSES as RECORDS
from bagwise.estimators.saving.codec import fields_of
from bagwise.estimators.saving.container import unpack
from bagwise.estimators.saving.saving import HEADS
from bagwise.features.kernels import RBF, Additive, Linear, Matern
from bagwise.inference import NUTS, Priors
from contract_models import BAGS, GIVEN, NEW, SMALL, Y, params_of, small

RNG = np.random.default_rng(5)
POINTS = [np.column_stack([BAGS[i], RNG.normal(size=len(BAGS[i]))]) for i in range(BAGS.n_bags)]
RICH = Bags.from_list(  # with everything that bags may have
    [points.astype(np.float32) for points in POINTS],
    ids=[f"bag {i}" for i in range(len(POINTS))],
    weights=[RNG.uniform(0.5, 1, len(points)) for points in POINTS],
    covariates=RNG.normal(size=(len(POINTS), 2)),
    feature_names=["a", "b", "ü"],
    covariate_names=["c", "d"],
)
LANDMARKS = RNG.normal(1.5, 0.5, (5, 3))

OPTIONS = {  # what the contract's models do not have, on bags that have everything
    "given": ShrinkageRegressor(
        KernelEmbedding(kernel=RBF(bandwidth=2), landmarks=LANDMARKS), weight_var=2
    ),
    "given-list": bagwise.RBFNetworkRegressor(
        KernelEmbedding(landmarks=LANDMARKS.tolist(), bandwidth=1.0)
    ),
    "given-float32": bagwise.BayesianLinearRegressor(
        KernelEmbedding(kernel=Linear(), landmarks=np.asfortranarray(LANDMARKS.astype(np.float32)))
    ),
    "functionals": ShrinkageRegressor(
        KernelEmbedding(landmarks=LANDMARKS, function_landmarks=LANDMARKS[:3], bandwidth=1.0),
        weight_var=1.0,
    ),
    "functionals-convolved": ShrinkageRegressor(
        KernelEmbedding(landmarks=LANDMARKS, function_landmarks=LANDMARKS[:3], bandwidth=1.0),
        prior="convolved",
        weight_var=1.0,
    ),
    "auto": bagwise.RBFNetworkRegressor(KernelEmbedding(7, random_state=np.int64(3))),
    "not-scaled": ShrinkageRegressor(small(standardize=False, random_state=None), **GIVEN),
    "additive": ShrinkageRegressor(small(kernel=Additive(base=Matern(smoothness=0.5))), **GIVEN),
    "additive-linear": ShrinkageRegressor(small(kernel="additive-linear"), **GIVEN),
    "frequentist": bagwise.FrequentistShrinkageRegressor(SMALL),
    "bdr": bagwise.BDRRegressor(
        SMALL, inference="laplace", priors=Priors(noise=2, weights=0.5), random_state=[1, 2]
    ),
    "exact": MeanEmbeddingRidge(second_level="gaussian", second_scale=2, penalty=0.1),
    "exact-linear": MeanEmbeddingRidge(KernelEmbedding(kernel="linear", bandwidth=1.0)),
    "landmarks": MeanEmbeddingRidge(
        KernelEmbedding(6, kernel="matern12", bandwidth=1.0), exact=False
    ),
}
CLASSES = {
    "class-shrinkage": bagwise.ShrinkageClassifier(
        SMALL, weight_var=1.0, class_weight={"low": 1, "high": 2.5}
    ),
    "class-logistic": bagwise.BayesianLogisticClassifier(
        SMALL, inference="map", class_weight="balanced"
    ),
}
WORDS = np.where(Y > np.median(Y), "high", "low")
WEIGHTS = RNG.uniform(0.5, 1.5, len(Y))

LIKE_REGRESSORS = ("bdr-map", "bdr-convolved")  # slow to fit, and made of the same parts
CASES = [
    *(f"regressor {name}" for name in contract_models.MODELS),
    *(f"classifier {name}" for name in classifier_models.MODELS if name not in LIKE_REGRESSORS),
    *(f"classifier {name}" for name in classifier_models.MANY),
    *(f"option {name}" for name in OPTIONS | CLASSES),
]
SAMPLED = ["regressor bdr-nuts", "regressor bdr-variational"]
every_case = pytest.mark.parametrize(
    "case", [*CASES, *(pytest.param(case, marks=contract_models.few_draws) for case in SAMPLED)]
)


@cache
def saved(case, folder):
    """Fitted model, new bags, the model that was saved and loaded, and where."""
    kind, name = case.split(" ")
    if kind == "option":
        y = WORDS if name in CLASSES else Y
        model, new = clone((OPTIONS | CLASSES)[name]).fit(RICH, y, WEIGHTS), RICH[::3]
    else:
        suite = contract_models if kind == "regressor" else classifier_models
        model, new = suite.fitted(name), suite.NEW
    path = folder / f"{case}.bagwise"
    bagwise.save(model, path)
    return model, new, bagwise.load(path), path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("models")


def assert_same(a, b, what=""):
    """Equal to the last bit, types and dtypes included, whatever they are made of."""
    assert type(a) is type(b), what
    if isinstance(a, np.ndarray):
        assert_array_equal(a, b, strict=True, err_msg=what)
    elif isinstance(a, dict):
        assert list(a) == list(b), what
        for key in a:
            assert_same(a[key], b[key], f"{what}.{key}")
    elif isinstance(a, list | tuple):
        assert len(a) == len(b), what
        for i, (left, right) in enumerate(zip(a, b, strict=True)):
            assert_same(left, right, f"{what}[{i}]")
    elif type(a).__module__.startswith("bagwise") and vars(a):
        assert_same(_held(a), _held(b), what)
    elif not type(a).__module__.startswith("bagwise"):
        assert a == b or (a != a and b != b), what


def _held(a):
    """What an object is made of, without what it has found out since and without training bags."""
    if is_dataclass(a):
        return {field.name: getattr(a, field.name) for field in fields(a)}
    return vars(a) | {"_bags": None}


# ---- predictions --------------------------------------------------------------------------------


@every_case
def test_predictions_are_the_same_bit_by_bit(case, folder):
    model, new, loaded, _ = saved(case, folder)
    a, b = model.predict_dist(new), loaded.predict_dist(new)
    if hasattr(model, "classes_"):
        assert_array_equal(model.predict(new), loaded.predict(new), strict=True)
        assert_array_equal(model.predict_proba(new), loaded.predict_proba(new), strict=True)
        assert_array_equal(a.at_size(1000).proba, b.at_size(1000).proba, strict=True)
        assert_array_equal(a.interval(0.8), b.interval(0.8), strict=True)
        a, b = (classifier_models.one_class(said).latent for said in (a, b))
    assert_array_equal(a.mean, b.mean, strict=True)
    assert_array_equal(a.std, b.std, strict=True)
    assert_array_equal(a.interval(0.9), b.interval(0.9), strict=True)
    for part in ("bag", "weights", "noise"):
        assert_array_equal(getattr(a.parts, part), getattr(b.parts, part), strict=True)
    try:
        expected = a.at_size(1000)
    except bagwise.BagwiseError:
        with pytest.raises(bagwise.BagwiseError):
            b.at_size(1000)
    else:
        assert_array_equal(expected.var, b.at_size(1000).var, strict=True)


@every_case
def test_explanations_are_the_same_bit_by_bit(case, folder):
    model, new, loaded, _ = saved(case, folder)
    a, b = (m.explain(new, bag=new.ids[1]) for m in (model, loaded))
    assert (a.prediction, a.baseline) == (b.prediction, b.baseline)
    assert_same(vars(a.directions), vars(b.directions))
    assert_array_equal(a.points, b.points, strict=True)


# ---- the model ----------------------------------------------------------------------------------


@every_case
def test_everything_learnt_is_the_same(case, folder):
    model, _, loaded, _ = saved(case, folder)
    learnt = vars(model).keys() - model.get_params().keys()
    assert vars(loaded).keys() == vars(model).keys()
    for name in sorted(learnt):
        assert_same(getattr(model, name), getattr(loaded, name), name)
    for name in dir(type(model)):  # properties
        if name.endswith("_") and not name.startswith("_"):
            assert_same(getattr(model, name), getattr(loaded, name), name)


@every_case
def test_parameters_are_the_same(case, folder):
    model, _, loaded, _ = saved(case, folder)
    mine, theirs = params_of(model), params_of(loaded)
    assert list(mine) == list(theirs)
    for name in mine:
        assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert type(loaded.embedding) is type(model.embedding)
    assert set(vars(clone(loaded))) == set(model.get_params(deep=False))


@every_case
def test_saving_again_gives_the_same_content(case, folder):
    _, _, loaded, path = saved(case, folder)
    again = path.with_suffix(".again")
    bagwise.save(loaded, again)
    first, second = unpack(str(path)), unpack(str(again))
    for header in (first.header, second.header):
        del header["saved"], header["sha256"]
    assert first.header == second.header
    assert_same(*(dict(sorted(container.tensors().items())) for container in (first, second)))


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith("option")])
def test_loaded_models_can_be_fitted_again_and_pickled(case, folder):
    model, new, loaded, path = saved(case, folder)
    twin = pickle.loads(pickle.dumps(bagwise.load(path)))
    assert_array_equal(twin.predict(new), model.predict(new), strict=True)
    if model.embedding.random_state is not None and not isinstance(model, PosteriorModel):
        y = WORDS if hasattr(model, "classes_") else Y
        assert_array_equal(
            clone(loaded).fit(RICH, y, WEIGHTS).predict(new), model.predict(new), strict=True
        )


@pytest.mark.parametrize("case", [pytest.param(SAMPLED[0], marks=contract_models.few_draws)])
def test_draws_and_diagnostics(case, folder):
    model, _, loaded, _ = saved(case, folder)
    assert str(loaded.diagnostics_) == str(model.diagnostics_)
    a, b = model.to_arviz(), loaded.to_arviz()
    for name in ("weights", "noise_sd"):
        assert_array_equal(a["posterior"][name].values, b["posterior"][name].values, strict=True)
    for name in ("energy", "diverging", "n_steps"):
        mine, theirs = (x["sample_stats"][name].values for x in (a, b))
        assert_array_equal(mine, theirs, strict=True)


def test_names_are_checked_by_a_loaded_model(folder):
    loaded = saved("option given", folder)[2]
    swapped = Bags.from_list([RICH[0]], feature_names=["b", "a", "ü"])
    with pytest.raises(bagwise.BagwiseError, match="the feature columns are in another order"):
        loaded.predict(swapped)
    with pytest.raises(bagwise.BagwiseError, match="these bags have 0 covariates; expected 2"):
        loaded.predict([RICH[0]])


def test_a_model_with_landmarks_that_was_exact_before(tmp_path):
    model = MeanEmbeddingRidge().fit(BAGS, Y)
    model.set_params(embedding__n_landmarks=6, exact=False).fit(BAGS, Y)
    bagwise.save(model, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m")
    assert not hasattr(loaded, "bags_")  # the points of the earlier fit are not saved
    assert_array_equal(loaded.predict(NEW), model.predict(NEW), strict=True)


# ---- the closed list ----------------------------------------------------------------------------


def test_every_estimator_and_parameter_is_known():
    regressors = {type(model) for model in contract_models.MODELS.values()}
    assert set(HEADS) == regressors | set(classifier_models.CLASSES)
    for cls in HEADS:
        assert Any not in fields_of(cls).values(), cls
    # whose model is not a parameter in a file, but saved as models are
    assert [name for name, kind in fields_of(bagwise.Conformal).items() if kind is Any] == ["model"]


def test_every_field_of_every_record_is_saved():
    for cls in RECORDS.values():
        if dataclasses.is_dataclass(cls):
            assert list(fields_of(cls)) == [field.name for field in dataclasses.fields(cls)], cls


def test_the_contract_covers_what_models_may_have():
    assert {cls for cls in HEADS if issubclass(cls, PosteriorModel)} == {
        bagwise.BDRRegressor,
        bagwise.BDRClassifier,
        bagwise.BayesianLogisticClassifier,
    }
    assert isinstance(contract_models.SAMPLED["bdr-nuts"].inference, NUTS)


# ---- the header ---------------------------------------------------------------------------------


def test_the_header_says_what_is_in_the_file(folder):
    path = folder / "header.bagwise"
    model = saved("option class-shrinkage", folder)[0]
    bagwise.save(model, path, schema={"bag": ["person"]}, summary={"n_bags": np.int64(30)})
    loaded, header = open_saved(path)
    assert type(loaded) is bagwise.ShrinkageClassifier
    assert header.to_dict() == read_header(path).to_dict()
    assert header.estimator == "ShrinkageClassifier" and header.format_version == 2
    assert header.feature_names == ["a", "b", "ü"] and header.n_features == 3
    assert header.covariate_names == ["c", "d"] and header.n_covariates == 2
    assert header.classes == ["high", "low"]
    assert header.schema == {"bag": ["person"]}
    assert header.summary == {"classes": ["high", "low"], "n_bags": 30}
    assert header.parameters["class_weight"] == [["low", 1], ["high", 2.5]]
    assert header.versions["bagwise"] == bagwise.__version__
    assert header.versions["numpy"] == np.__version__
    assert header.saved.endswith("+00:00")
    assert header.n_bytes == path.stat().st_size and len(header.checksum) == 64


def test_a_model_that_keeps_its_points_knows_their_numbers(folder):
    header = read_header(saved("option exact", folder)[3])
    assert header.summary["n_bags"] == RICH.n_bags and header.summary["n_points"] == RICH.n_points
    assert header.summary["size_quartiles"][0] == RICH.sizes.min()
    assert header.summary["label_sd"] == saved("option exact", folder)[0].label_scale_
