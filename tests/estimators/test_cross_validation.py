"""Out-of-fold predictive distributions, and the scorers, against loops written out."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats
from sklearn.base import clone
from sklearn.ensemble import VotingRegressor
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneGroupOut,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

import bagwise
from bagwise import (
    Bags,
    BayesianLinearRegressor,
    BDRRegressor,
    KernelEmbedding,
    PointwiseTransformer,
    ShrinkageClassifier,
    ShrinkageRegressor,
    cross_val_predict_dist,
    metrics,
    scorers,
)
from bagwise.estimators.pointwise import make_pipeline
from bagwise.exceptions import BagwiseError
from bagwise.predictions.joined import JoinedPrediction, Piece
from error_cases import fails

RNG = np.random.default_rng(0)
N = 24
LEVEL = RNG.uniform(1, 2, N)
ARRAYS = [RNG.normal(x, 0.4, (k, 2)) for x, k in zip(LEVEL, RNG.integers(2, 9, N), strict=True)]
IDS = [f"patient {i}" for i in range(N)]
BAGS = Bags.from_list(ARRAYS, ids=IDS)
Y = 10 * LEVEL
CLASSES = np.where(LEVEL > 1.5, "high", "low")
HOSPITALS = np.array(list("abcdef"))[RNG.integers(0, 6, N)]
SMALL = KernelEmbedding(6, bandwidth=1.0)
REGRESSORS = {
    "gaussian": ShrinkageRegressor(SMALL),
    "auto": BayesianLinearRegressor(KernelEmbedding(6)),
    "mixture": BDRRegressor(SMALL, inference="laplace"),
}
FOLDS = KFold(2, shuffle=True, random_state=1)


def quiet(model, X=BAGS, y=Y, **options):
    return cross_val_predict_dist(model, X, y, progress=False, **options)


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_bag_as_the_fold_that_held_it_out_says(name):
    model = REGRESSORS[name]
    found = quiet(model, cv=FOLDS)
    assert len(found) == N and found.ids.tolist() == IDS
    assert_array_equal(found.mean, cross_val_predict(model, BAGS, Y, cv=FOLDS))
    assert_array_equal(found.sizes, BAGS.sizes)
    samples = found.sample(4000, random_state=0)
    assert samples.shape == (4000, N)
    for k, (train, test) in enumerate(FOLDS.split(Y)):
        by_hand = clone(model).fit(BAGS[train], Y[train]).predict_dist(BAGS[test])
        assert (found.fold[test] == k).all()
        assert_array_equal(found.std[test], by_hand.std)
        assert_array_equal(found.var[test], by_hand.var)
        assert_array_equal(found.parts.bag[test], by_hand.parts.bag)
        assert_array_equal(found.log_prob(Y)[test], by_hand.log_prob(Y[test]))
        assert_array_equal(found.crps(Y)[test], by_hand.crps(Y[test]))
        assert_array_equal(found.cdf(Y)[test], by_hand.cdf(Y[test]))
        assert_array_equal(found.cdf(15.0)[test], by_hand.cdf(15.0))
        assert_array_equal(found.interval(0.8)[test], by_hand.interval(0.8))
        assert_array_equal(found.quantile(0.3)[test], by_hand.quantile(0.3))
        assert_array_equal(found.quantile([0.3, 0.6])[test], by_hand.quantile([0.3, 0.6]))
        sizes = np.arange(1.0, N + 1)
        assert_array_equal(found.at_size(sizes).std[test], by_hand.at_size(sizes[test]).std)
        assert_allclose(found[test].interval(), by_hand.interval(), rtol=1e-12)
        assert type(found[test]) is type(by_hand)
        some = np.r_[test[:2], train[:3]]
        assert_array_equal(found[some].log_prob(Y[some]), found.log_prob(Y)[some])
        assert_allclose(samples[:, test].mean(axis=0), by_hand.mean, atol=0.2 * Y.std())
        assert_array_equal(found.pieces[k].model.predict(BAGS[test]), by_hand.mean)
    table = found.to_dict(0.9)
    assert table["id"].tolist() == IDS
    assert_array_equal(table["lower"], found.interval(0.9)[:, 0])
    assert repr(found).startswith("JoinedPrediction(24 bags, mean ")
    twin = pickle.loads(pickle.dumps(found))
    assert_array_equal(twin.log_prob(Y), found.log_prob(Y))
    assert len(found[:0]) == 0
    assert metrics.evaluate(found, Y).overall["nll"] == pytest.approx(-found.log_prob(Y).mean())


def test_classes_out_of_fold():
    model = ShrinkageClassifier(SMALL)
    found = quiet(model, y=CLASSES, cv=3)
    expected = cross_val_predict(model, BAGS, CLASSES, cv=3, method="predict_proba")
    assert_array_equal(found.proba, expected)
    assert_array_equal(found.predicted, cross_val_predict(model, BAGS, CLASSES, cv=3))
    assert found.classes.tolist() == ["high", "low"] and found.ids.tolist() == IDS
    for fold in range(3):
        rows = np.flatnonzero(found.fold == fold)
        by_hand = found.pieces[fold].model.predict_dist(BAGS[rows])
        assert_array_equal(found.interval(0.8)[rows], by_hand.interval(0.8))
        assert_array_equal(found.log_prob(CLASSES)[rows], by_hand.log_prob(CLASSES[rows]))
        assert_array_equal(found.at_size(50).proba[rows], by_hand.at_size(50).proba)
        assert_array_equal(found.latent.mean[rows], by_hand.latent.mean)
        assert_array_equal(found[rows].proba, by_hand.proba)
    some = [3, 17, 20]
    assert_array_equal(found[some].log_prob(CLASSES[some]), found.log_prob(CLASSES)[some])
    assert set(found.to_dict()) == {
        "id", "size", "predicted", "probability", "lower", "upper", "bag_sd", "weights_sd",
        "novelty",
    }  # fmt: skip
    table = metrics.evaluate(found, CLASSES).overall
    assert table["accuracy"] == np.mean(found.predicted == CLASSES)
    assert metrics.reliability(found, CLASSES).bags.sum() == N


def test_groups_are_never_parted():
    model = REGRESSORS["gaussian"]
    found = quiet(model, cv=3, groups=HOSPITALS)
    for hospital in np.unique(HOSPITALS):
        assert len(set(found.fold[hospital == HOSPITALS])) == 1
    expected = cross_val_predict(model, BAGS, Y, cv=GroupKFold(3), groups=HOSPITALS)
    assert_array_equal(found.mean, expected)
    one_out = quiet(model, cv=LeaveOneGroupOut(), groups=pd.Series(HOSPITALS, index=IDS)[::-1])
    assert len(one_out.pieces) == 6
    assert len(quiet(model, groups=HOSPITALS).pieces) == 5
    stratified = quiet(ShrinkageClassifier(SMALL), y=CLASSES, cv=2, groups=HOSPITALS)
    for hospital in np.unique(HOSPITALS):
        assert len(set(stratified.fold[hospital == HOSPITALS])) == 1


@pytest.mark.parametrize("name", ["gaussian", "auto"])
def test_sample_weights_reach_every_fit(name):
    model = REGRESSORS[name]
    weights = RNG.uniform(0.2, 2, N)
    found = quiet(model, cv=2, sample_weight=pd.Series(weights, index=IDS)[::-1])
    expected = cross_val_predict(model, BAGS, Y, cv=2, params={"sample_weight": weights})
    assert_array_equal(found.mean, expected)
    piped = quiet(make_pipeline(StandardScaler(), model), cv=2, sample_weight=weights)
    assert not np.allclose(piped.mean, quiet(make_pipeline(StandardScaler(), model), cv=2).mean)


@pytest.mark.parametrize(
    "model",
    [
        make_pipeline(StandardScaler(), REGRESSORS["gaussian"]),
        sklearn_pipeline(PointwiseTransformer(StandardScaler()), REGRESSORS["gaussian"]),
        sklearn_pipeline("passthrough", REGRESSORS["gaussian"]),
        GridSearchCV(REGRESSORS["gaussian"], {"embedding__n_landmarks": [6]}, cv=2),
        sklearn_pipeline(
            PointwiseTransformer(StandardScaler()),
            GridSearchCV(REGRESSORS["gaussian"], {"embedding__n_landmarks": [6]}, cv=2),
        ),
    ],
    ids=["ours", "pipeline", "passthrough", "search", "both"],
)
def test_pipelines_and_searches(model):
    found = quiet(model, cv=2)
    plain = quiet(REGRESSORS["gaussian"], cv=2)  # it standardises by itself
    assert_allclose(found.mean, plain.mean, rtol=1e-6)
    assert_allclose(found.std, plain.std, rtol=1e-6)
    assert_array_equal(found.mean, cross_val_predict(model, BAGS, Y, cv=2))
    scores = cross_val_score(model, BAGS, Y, cv=2, scoring=scorers.neg_nll, error_score="raise")
    halves = [found.fold == k for k in range(2)]
    assert_allclose(scores, [found.log_prob(Y)[half].mean() for half in halves])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the pool of processes
def test_processes_give_the_same():
    one, two = (quiet(REGRESSORS["gaussian"], cv=3, n_jobs=n) for n in (None, 2))
    assert_array_equal(one.mean, two.mean)
    assert_array_equal(one.std, two.std)


def test_other_forms_of_bags_and_labels():
    expected = quiet(REGRESSORS["gaussian"], cv=3).mean
    assert_array_equal(quiet(REGRESSORS["gaussian"], ARRAYS, cv=3).mean, expected)
    by_id = pd.Series(Y, index=IDS)[::-1]
    assert_array_equal(quiet(REGRESSORS["gaussian"], y=by_id, cv=3).mean, expected)
    pairs = [(np.arange(12, 24), np.arange(12)), (np.arange(12), np.arange(12, 24))]
    assert quiet(REGRESSORS["gaussian"], cv=pairs).fold.tolist() == [0] * 12 + [1] * 12


@pytest.mark.parametrize(
    ("options", "parts"),
    [
        ({"cv": ShuffleSplit(2, random_state=0)}, ["holds out", "bags never", "each bag once"]),
        ({"cv": 99}, ["the bags cannot be cut into folds", "99"]),
        ({"cv": LeaveOneGroupOut()}, ["the bags cannot be cut into folds", "groups"]),
        ({"groups": ["a"]}, ["the groups have shape (1,)", "(24,), one per bag"]),
        ({"sample_weight": [1.0]}, ["the sample weights have shape (1,)", "(24,), one per bag"]),
        ({"y": Y[:5]}, ["there are 5 labels for 24 bags"]),
        (
            {"model": VotingRegressor([("a", REGRESSORS["gaussian"])])},
            ["a VotingRegressor has no predict_dist", "an estimator of bagwise"],
        ),
    ],
    ids=["random", "many", "no groups", "groups", "weights", "labels", "model"],
)
def test_what_cannot_be_cross_validated(options, parts):
    fails(lambda: quiet(**({"model": REGRESSORS["gaussian"]} | options)), *parts)


def test_joined_pieces_must_be_of_every_bag_once():
    one = quiet(REGRESSORS["gaussian"], cv=2)[0]
    rows = np.array([0])
    fails(lambda: JoinedPrediction([Piece(rows, one), Piece(rows, one)]), "1 bags in 2 rows")


@pytest.mark.usefixtures("undrawn")
def test_the_report_takes_and_makes_the_same():
    found = quiet(REGRESSORS["gaussian"], cv=3)
    page = bagwise.report.of_predictions({"a": found}, BAGS, Y)
    assert page.predictions["a"] is found
    made = bagwise.report.make(BAGS, Y, {"a": REGRESSORS["gaussian"]}, folds=3, progress=False)
    assert isinstance(made.predictions["a"], JoinedPrediction)
    folds = KFold(3, shuffle=True, random_state=0)
    assert_array_equal(made.predictions["a"].mean, quiet(REGRESSORS["gaussian"], cv=folds).mean)


# ---- scorers ------------------------------------------------------------------------------------


def test_scorers_are_the_metrics_of_the_held_out_fold():
    model = REGRESSORS["gaussian"]
    found = quiet(model, cv=3)
    chosen = {
        "nll": scorers.neg_nll,
        "crps": scorers.neg_crps,
        "mse": scorers.neg_mse,
        "rmse": scorers.neg_rmse,
        "coverage": scorers.make_scorer(metrics.coverage, greater_is_better=True, level=0.5),
    }
    scores = cross_validate(model, BAGS, Y, cv=3, scoring=chosen, error_score="raise")
    sklearn_mse = cross_val_score(model, BAGS, Y, cv=3, scoring="neg_mean_squared_error")
    assert_allclose(scores["test_mse"], sklearn_mse)
    assert_allclose(scores["test_rmse"], -np.sqrt(-sklearn_mse))
    for k in range(3):
        test = found.fold == k
        density = stats.norm(found.mean[test], found.std[test]).logpdf(Y[test])
        assert scores["test_nll"][k] == pytest.approx(density.mean())
        assert scores["test_crps"][k] == pytest.approx(-found.crps(Y)[test].mean())
        lower, upper = found.interval(0.5)[test].T
        inside = (lower <= Y[test]) & (Y[test] <= upper)
        assert scores["test_coverage"][k] == inside.mean()


def test_scorers_of_classes_agree_with_scikit_learn():
    model = ShrinkageClassifier(SMALL)
    pairs = {
        "neg_log_loss": scorers.neg_log_loss,
        "neg_brier_score": scorers.neg_brier,
        "accuracy": scorers.accuracy,
    }
    for name, scorer in pairs.items():
        options = {"cv": 2, "error_score": "raise"}
        ours = cross_val_score(model, BAGS, LEVEL > 1.5, scoring=scorer, **options)
        theirs = cross_val_score(model, BAGS, LEVEL > 1.5, scoring=name, **options)
        assert_allclose(ours, theirs)


def test_a_search_by_nll_chooses_the_better():
    grid = {"weight_var": [10.0, 1e-9]}
    search = GridSearchCV(BayesianLinearRegressor(SMALL), grid, cv=2, scoring=scorers.neg_nll)
    assert search.fit(BAGS, Y).best_params_ == {"weight_var": 10.0}


def test_a_metric_as_scoring_says_what_to_give():
    """The reproduction: scikit-learn calls metric(model, X, y)."""
    fitted = clone(REGRESSORS["gaussian"]).fit(BAGS, Y)
    for name in ("nll", "crps", "mse", "rmse", "coverage", "pit", "evaluate", "log_loss", "brier"):
        fails(
            partial(getattr(metrics, name), fitted, BAGS, Y),
            f"the metric {name} was given a ShrinkageRegressor",
            "a prediction and labels",
            f"bagwise.scorers.make_scorer(bagwise.metrics.{name})",
            error=BagwiseError,
        )
    with pytest.raises(BagwiseError, match="as scoring= of scikit-learn"):
        cross_val_score(REGRESSORS["gaussian"], BAGS, Y, scoring=metrics.nll, error_score="raise")


def test_scorers_show_what_they_are_and_travel():
    assert repr(scorers.neg_nll) == "make_scorer(nll, greater_is_better=False)"
    assert pickle.loads(pickle.dumps(scorers.neg_nll)).__class__ is scorers.Scorer
    fails(lambda: scorers.neg_nll(SVR(), BAGS, Y), "a SVR has no predict_dist")
