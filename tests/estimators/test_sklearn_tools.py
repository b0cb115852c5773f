"""scikit-learn's tools with bags: which work, and what the others say."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor, make_column_transformer
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    BaggingRegressor,
    StackingClassifier,
    StackingRegressor,
    VotingClassifier,
    VotingRegressor,
)
from sklearn.feature_selection import RFE, SequentialFeatureSelector
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GridSearchCV,
    RandomizedSearchCV,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor, RegressorChain
from sklearn.pipeline import FeatureUnion
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils import get_tags, resample

import bagwise
from bagwise import Bags, PointwiseTransformer, ShrinkageClassifier, ShrinkageRegressor
from bagwise.estimators.pointwise import make_pipeline
from bagwise.exceptions import BagwiseError, InvalidBagsError
from contract_models import CLASSES, SMALL
from error_cases import fails

RNG = np.random.default_rng(0)
LEVEL = RNG.uniform(1, 2, 40)
ARRAYS = [RNG.normal(x, 0.4, (k, 2)) for x, k in zip(LEVEL, RNG.integers(2, 9, 40), strict=True)]
BAGS = Bags.from_list(ARRAYS, feature_names=["u", "v"], covariates=LEVEL**2)
Y = 10 * LEVEL
TWO = np.where(LEVEL > 1.5, "high", "low")
THREE = np.digitize(LEVEL, [1.33, 1.66])


def regressor():
    return ShrinkageRegressor(SMALL)


def classifier():
    return ShrinkageClassifier(SMALL)


def pair(model):
    return [("a", model()), ("b", model())]


# ---- these hand bags on -------------------------------------------------------------------------

META = {
    "GridSearchCV": (GridSearchCV(regressor(), {"embedding__n_landmarks": [4, 8]}, cv=2), Y),
    "RandomizedSearchCV": (
        RandomizedSearchCV(regressor(), {"embedding__n_landmarks": [4]}, n_iter=1),
        Y,
    ),
    "VotingRegressor": (VotingRegressor(pair(regressor)), Y),
    "StackingRegressor": (StackingRegressor(pair(regressor), cv=2), Y),
    "TransformedTargetRegressor": (
        TransformedTargetRegressor(regressor(), func=np.log, inverse_func=np.exp),
        Y,
    ),
    "MultiOutputRegressor": (MultiOutputRegressor(regressor()), np.column_stack([Y, -Y])),
    "OneVsRestClassifier": (OneVsRestClassifier(classifier()), THREE),
    "VotingClassifier": (VotingClassifier(pair(classifier), voting="soft"), TWO),
    "StackingClassifier": (StackingClassifier(pair(classifier), cv=2), TWO),
    "CalibratedClassifierCV": (CalibratedClassifierCV(classifier(), cv=2), TWO),
    "MultiOutputClassifier": (MultiOutputClassifier(classifier()), np.column_stack([TWO, TWO])),
    "FixedThresholdClassifier": (FixedThresholdClassifier(classifier()), TWO),
    "TunedThresholdClassifierCV": (TunedThresholdClassifierCV(classifier(), cv=2), TWO),
}


@pytest.mark.parametrize("name", META)
def test_meta_estimators_that_hand_bags_on(name):
    meta, y = META[name]
    found = clone(meta).fit(BAGS, y)
    predicted = found.predict(BAGS[:5])
    assert predicted.shape == (5, *np.shape(y)[1:])
    if np.asarray(y).dtype.kind == "f":
        assert np.corrcoef(np.ravel(found.predict(BAGS)), np.ravel(y))[0, 1] > 0.8
    else:
        assert np.mean(found.predict(BAGS) == y) > 0.7


FUNCTIONS = {
    "cross_val_score": lambda: cross_val_score(regressor(), BAGS, Y, cv=2),
    "cross_val_predict": lambda: cross_val_predict(regressor(), BAGS, Y, cv=2),
    "cross_validate": lambda: cross_validate(regressor(), BAGS, Y, cv=2)["test_score"],
    "TimeSeriesSplit": lambda: cross_val_score(regressor(), BAGS, Y, cv=TimeSeriesSplit(2)),
    "learning_curve": lambda: learning_curve(regressor(), BAGS, Y, cv=2, train_sizes=[0.5, 1.0])[2],
    "validation_curve": lambda: validation_curve(
        regressor(), BAGS, Y, param_name="embedding__n_landmarks", param_range=[4, 8], cv=2
    )[1],
    "permutation_test_score": lambda: permutation_test_score(
        regressor(), BAGS, Y, cv=2, n_permutations=2, random_state=0
    )[1],
    "resample": lambda: regressor().fit(*resample(BAGS, Y, random_state=0)).predict(BAGS),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_hand_bags_on(name):
    assert np.isfinite(FUNCTIONS[name]()).all()


# ---- these take a bag for a row of numbers ------------------------------------------------------

REFUSED = {
    "make_pipeline(StandardScaler(), …)": lambda: sklearn_pipeline(
        StandardScaler(), regressor()
    ).fit(BAGS, Y),
    "PCA": lambda: PCA(1).fit(BAGS),
    "FunctionTransformer": lambda: FunctionTransformer(np.exp).fit_transform(BAGS),
    "FeatureUnion": lambda: FeatureUnion([("a", StandardScaler())]).fit(BAGS),
    "OneVsOneClassifier": lambda: OneVsOneClassifier(classifier()).fit(BAGS, THREE),
    "OutputCodeClassifier": lambda: OutputCodeClassifier(classifier(), random_state=0).fit(
        BAGS, THREE
    ),
    "BaggingRegressor": lambda: BaggingRegressor(regressor()).fit(BAGS, Y),
    "BaggingClassifier": lambda: BaggingClassifier(classifier()).fit(BAGS, TWO),
    "AdaBoostRegressor": lambda: AdaBoostRegressor(regressor()).fit(BAGS, Y),
    "AdaBoostClassifier": lambda: AdaBoostClassifier(classifier()).fit(BAGS, TWO),
    "RegressorChain": lambda: RegressorChain(regressor()).fit(BAGS, np.column_stack([Y, Y])),
    "StackingRegressor with passthrough": lambda: StackingRegressor(
        pair(regressor), passthrough=True, cv=2
    ).fit(BAGS, Y),
    "RFE": lambda: RFE(regressor()).fit(BAGS, Y),
    "SequentialFeatureSelector": lambda: SequentialFeatureSelector(regressor()).fit(BAGS, Y),
    "permutation_importance": lambda: permutation_importance(regressor().fit(BAGS, Y), BAGS, Y),
    "np.asarray": lambda: np.asarray(BAGS),
    "np.array of float": lambda: np.array(BAGS, dtype=float, copy=True),
    "of equal sizes": lambda: np.asarray(Bags.from_array(np.zeros((3, 2, 1)))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_takes_bags_for_rows_is_told_the_way(name):
    fails(
        REFUSED[name],
        "bags were asked for as one array",
        "hands bags on, such as cross_val_score",
        "bagwise.make_pipeline(StandardScaler(), model)",
        error=InvalidBagsError,
    )


# ---- pipelines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("X", [BAGS.without_covariates(), ARRAYS], ids=["Bags", "list"])
def test_a_pipeline_as_people_write_it(X):
    pipeline = make_pipeline(StandardScaler(), PCA(2), regressor()).fit(X, Y)
    points = np.concatenate(ARRAYS)
    projected = PCA(2).fit_transform(StandardScaler().fit_transform(points))
    oracle = regressor().fit((projected, np.repeat(np.arange(40), BAGS.sizes)), Y)
    by_hand = oracle.predict_dist((projected, np.repeat(np.arange(40), BAGS.sizes)))
    assert_allclose(pipeline.predict(X), by_hand.mean, rtol=1e-9)
    assert_allclose(pipeline.predict_dist(X).std, by_hand.std, rtol=1e-9)
    assert pipeline.score(X, Y) > 0.8
    twin = pickle.loads(pickle.dumps(clone(pipeline).fit(X, Y)))
    assert_array_equal(twin.predict(X), pipeline.predict(X))
    assert cross_val_score(pipeline, X, Y, cv=2).shape == (2,)


@pytest.mark.parametrize(
    "step",
    [
        FunctionTransformer(np.exp),
        FeatureUnion([("a", StandardScaler()), ("b", PCA(1))]),
        make_column_transformer((StandardScaler(), [0]), remainder="passthrough"),
        sklearn_pipeline(StandardScaler(), PCA(1)),
        PointwiseTransformer(StandardScaler()),
        make_pipeline(StandardScaler(), PCA(1)),
        "passthrough",
    ],
    ids=["function", "union", "columns", "pipeline", "pointwise", "bag pipeline", "passthrough"],
)
def test_every_transformer_of_points(step):
    pipeline = make_pipeline(step, regressor()).fit(BAGS, Y)
    assert pipeline.predict_dist(BAGS).interval().shape == (40, 2)
    steps = [type(one).__name__ for _, one in pipeline.steps[:-1]]
    kept = isinstance(step, str | PointwiseTransformer | type(pipeline))
    assert steps == ([type(step).__name__] if kept else ["PointwiseTransformer"])


def test_a_pipeline_takes_the_options_of_scikit_learns(tmp_path):
    pipeline = make_pipeline(StandardScaler(), regressor(), memory=str(tmp_path), verbose=True)
    assert pipeline.memory == str(tmp_path) and pipeline.verbose
    grid = {"standardscaler__transformer__with_mean": [True, False]}
    search = GridSearchCV(make_pipeline(StandardScaler(), regressor()), grid, cv=2).fit(BAGS, Y)
    assert search.predict(BAGS).shape == (40,)
    assert not hasattr(make_pipeline(StandardScaler(), PCA(1)), "predict_dist")


def test_a_transformer_that_needs_labels_of_points():
    pipeline = make_pipeline(LinearDiscriminantAnalysis(), classifier())
    fails(
        lambda: pipeline.fit(BAGS, TWO),
        "LinearDiscriminantAnalysis needs a label for every row",
        "there is one per bag",
        error=BagwiseError,
    )


# ---- tags ---------------------------------------------------------------------------------------

EVERY = [*CLASSES, ShrinkageClassifier, bagwise.BDRClassifier, bagwise.BayesianLogisticClassifier]


@pytest.mark.parametrize("cls", EVERY, ids=lambda cls: cls.__name__)
def test_tags_say_what_is_true(cls):
    tags = get_tags(cls())
    assert not tags.input_tags.two_d_array  # a table of numbers is refused
    assert tags.input_tags.three_d_array and tags.input_tags.dict
    assert not (tags.input_tags.sparse or tags.input_tags.allow_nan or tags.input_tags.pairwise)
    assert tags.target_tags.required and not tags.target_tags.multi_output
    is_classifier = cls not in CLASSES
    assert tags.estimator_type == ("classifier" if is_classifier else "regressor")
    assert not is_classifier or tags.classifier_tags.multi_class


def test_tags_are_what_fit_does():
    array = np.stack([RNG.normal(x, 0.4, (5, 2)) for x in LEVEL])
    assert regressor().fit(array, Y).predict(array).shape == (40,)
    named = dict(enumerate(ARRAYS))
    assert regressor().fit(named, Y).predict(named).shape == (40,)
    fails(lambda: regressor().fit(array[:, 0], Y), "shape (40, 2)")
    assert classifier().fit(BAGS, THREE).predict_proba(BAGS).shape == (40, 3)
    transformer = get_tags(PointwiseTransformer(StandardScaler()))
    assert not transformer.input_tags.two_d_array and transformer.input_tags.three_d_array
    assert not transformer.target_tags.required
