"""Conformal around models of bagwise and of scikit-learn, against crepes and MAPIE."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
from crepes import ConformalClassifier, ConformalRegressor
from mapie.classification import SplitConformalClassifier
from mapie.regression import CrossConformalRegressor, SplitConformalRegressor
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import BayesianRidge, LogisticRegression, Ridge, RidgeCV
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    KFold,
    LeaveOneOut,
    ShuffleSplit,
    cross_val_score,
)
from sklearn.svm import LinearSVC

import bagwise
from bagwise import (
    Bags,
    BayesianLinearRegressor,
    BayesianLogisticClassifier,
    Conformal,
    DistributionGPRegressor,
    KernelEmbedding,
    MeanEmbeddingRidge,
    ShrinkageClassifier,
    ShrinkageRegressor,
    cross_val_predict_dist,
    evaluate,
    make_pipeline,
    report,
)
from bagwise.estimators.conformal import size_ratio
from bagwise.estimators.saving import read_header
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidLabelsError, SavedModelError
from bagwise.predictions.conformal import ConformalPrediction

EMBEDDING = KernelEmbedding(6, bandwidth=1.0)


def make_bags(n, seed=0, sizes=(3, 10, 40), **more):
    """Bags whose label is their spread; small bags say little of it."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1, 2, n)
    arrays = [rng.normal(0, s, (k, 1)) for s, k in zip(y, rng.choice(sizes, n), strict=True)]
    ids = [f"p{i}" for i in range(n)]
    return Bags.from_list(arrays, ids=ids, **more), y


BAGS, Y = make_bags(90)
NEW, NEW_Y = make_bags(40, seed=1)
CLASSES = {2: np.where(Y > 1.5, "b", "a"), 3: np.array(list("abc"))[np.digitize(Y, [1.3, 1.7])]}
NEW_CLASSES = {
    2: np.where(NEW_Y > 1.5, "b", "a"),
    3: np.array(list("abc"))[np.digitize(NEW_Y, [1.3, 1.7])],
}

REGRESSORS = {
    "shrinkage": ShrinkageRegressor(EMBEDDING, weight_var=10.0),
    "blr": BayesianLinearRegressor(EMBEDDING),
    "gp": DistributionGPRegressor(EMBEDDING, inference="evidence"),
    "kernel-ridge": MeanEmbeddingRidge(),
    "ridge": make_pipeline(KernelEmbedding(6, bandwidth=1.0), RidgeCV()),
    "bayesian-ridge": make_pipeline(KernelEmbedding(6, bandwidth=1.0), BayesianRidge()),
}
CLASSIFIERS = {
    "shrinkage": ShrinkageClassifier(EMBEDDING, weight_var=10.0),
    "logistic": BayesianLogisticClassifier(EMBEDDING, inference="laplace"),
    "sklearn": make_pipeline(KernelEmbedding(6, bandwidth=1.0), LogisticRegression()),
}
PLAIN = REGRESSORS["shrinkage"]

every_regressor = pytest.mark.parametrize("name", REGRESSORS)
every_classifier = pytest.mark.parametrize("name", CLASSIFIERS)
every_method = pytest.mark.parametrize("method", ["cv+", "split"])


def regressor(name="shrinkage", method="cv+", **more):
    more = {"cv": 3} | more if method == "cv+" else more
    return Conformal(clone(REGRESSORS[name]), method, **more)


# ---- other libraries ----------------------------------------------------------------------------

EMBEDDED = KernelEmbedding(6, bandwidth=1.0, output="mean").fit(BAGS)
X, NEW_X = EMBEDDED.transform(BAGS), EMBEDDED.transform(NEW)


class Embedded(Ridge):
    """Ridge regression on embeddings that are the same for all bags."""

    def fit(self, bags, y, sample_weight=None):
        return super().fit(EMBEDDED.transform(bags), y, sample_weight)

    def predict(self, bags):
        return super().predict(EMBEDDED.transform(bags))


@pytest.mark.crossed
@pytest.mark.parametrize("cv", [KFold(4), KFold(9), LeaveOneOut()])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_cv_plus_and_jackknife_plus_are_those_of_mapie(cv, level):
    theirs = CrossConformalRegressor(Ridge(), confidence_level=level, cv=cv, method="plus")
    bounds = theirs.fit_conformalize(X, Y).predict_interval(NEW_X)[1][:, :, 0]
    leave_one_out = isinstance(cv, LeaveOneOut)
    method, folds = ("jackknife+", None) if leave_one_out else ("cv+", cv)
    ours = Conformal(Embedded(), method, cv=folds).fit(BAGS, Y)
    assert_allclose(ours.predict_dist(NEW).interval(level), bounds, rtol=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.95])
def test_split_is_that_of_mapie(level):
    theirs = SplitConformalRegressor(Ridge().fit(X[:50], Y[:50]), confidence_level=level)
    bounds = theirs.conformalize(X[50:], Y[50:]).predict_interval(NEW_X)[1][:, :, 0]
    split = [(np.arange(50), np.arange(50, 90))]
    ours = Conformal(Embedded(), "split", cv=split).fit(BAGS, Y)
    assert_allclose(ours.predict_dist(NEW).interval(level), bounds, rtol=1e-9)


@pytest.mark.parametrize("by_size", [None, 2, (1, 10, 40)])
@pytest.mark.parametrize("level", [0.5, 0.75, 0.875])  # in binary: crepes has ⌊(1 − 0.8) 30⌋ = 5
def test_scaled_and_by_size_is_that_of_crepes(by_size, level):
    model = clone(PLAIN).fit(BAGS[:30], Y[:30])
    said, new = model.predict_dist(BAGS[30:]), model.predict_dist(NEW)
    ours = Conformal(model, "split", cv="prefit", by_size=by_size).fit(BAGS[30:], Y[30:])
    edges = ours.calibration_.starts[1:]
    bins, new_bins = (np.digitize(p.sizes, edges) for p in (said, new))
    theirs = ConformalRegressor()
    theirs.fit(Y[30:] - said.mean, sigmas=said.std, bins=None if by_size is None else bins)
    bounds = theirs.predict_int(
        new.mean, sigmas=new.std, bins=None if by_size is None else new_bins, confidence=level
    )
    assert_allclose(ours.predict_dist(NEW).interval(level), bounds, rtol=1e-9)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("level", [0.8, 0.9])
def test_sets_are_those_of_mapie_and_p_values_those_of_crepes(k, level):
    y = CLASSES[k]
    model = clone(CLASSIFIERS["sklearn"]).fit(BAGS[:50], y[:50])
    ours = Conformal(model, "split", cv="prefit").fit(BAGS[50:], y[50:]).predict_dist(NEW)
    inner = LogisticRegression().fit(model[:-1].transform(BAGS[:50]), y[:50])
    held, new = model[:-1].transform(BAGS[50:]), model[:-1].transform(NEW)
    theirs = SplitConformalClassifier(inner, confidence_level=level).conformalize(held, y[50:])
    assert_array_equal(ours.sets(level), theirs.predict_set(new)[1][:, :, 0])
    proba, classes = inner.predict_proba(held), inner.classes_.tolist()
    known = ConformalClassifier()
    known.fit(1 - proba[np.arange(40), [classes.index(c) for c in y[50:]]])
    p_values = known.predict_p(1 - inner.predict_proba(new), smoothing=False)
    assert_allclose(ours.p_values, p_values, rtol=1e-6)
    assert_allclose(ours.proba, inner.predict_proba(new), rtol=1e-6)


# ---- what is promised ---------------------------------------------------------------------------


def test_split_covers_as_often_as_promised():
    """Of 60 calibrations with 39 bags each: 80 % to 82.5 % of new labels, ± 3 standard errors."""
    found = []
    model = clone(PLAIN).fit(BAGS, Y)
    for seed in range(60):
        bags, y = make_bags(79, seed=100 + seed)
        fitted = Conformal(model, "split", cv="prefit").fit(bags[:39], y[:39])
        found.append(
            evaluate(fitted.predict_dist(bags[39:]), y[39:], level=0.8).overall["coverage"]
        )
    error = np.std(found) / np.sqrt(60)
    assert 0.8 - 3 * error <= np.mean(found) <= 0.825 + 3 * error
    assert error < 0.02


def test_weights_mend_what_a_shift_of_sizes_breaks():
    """Calibrated on bags of 40 mostly, with plain errors, and asked of bags of 3 mostly."""
    rng = np.random.default_rng(0)
    model = clone(PLAIN).fit(BAGS, Y)
    large, y = make_bags(400, seed=5, sizes=(3,) + (10,) * 3 + (40,) * 6)
    small, labels = make_bags(400, seed=6, sizes=(40,) + (10,) * 3 + (3,) * 6)
    plain = Conformal(model, "split", cv="prefit", scale=None).fit(large, y)
    weighted = clone(plain).set_params(model=model, target_sizes="predicted").fit(large, y)
    shares = [
        evaluate(m.predict_dist(small), labels, level=0.8).overall["coverage"]
        for m in (plain, weighted)
    ]
    error = np.sqrt(0.8 * 0.2 / 400)
    assert shares[0] < 0.8 - 4 * error
    assert abs(shares[1] - 0.8) < 4 * error
    given = rng.permutation(small.sizes)
    same = Conformal(model, "split", cv="prefit", scale=None, target_sizes=given).fit(large, y)
    assert_allclose(
        same.predict_dist(small[:20]).interval(0.8),
        weighted.predict_dist(small).interval(0.8)[:20],
        rtol=1e-4,
    )


def test_the_ratio_of_sizes_is_that_of_their_densities():
    """Of two log-normal laws the log ratio is quadratic in log size: known in closed form."""
    rng = np.random.default_rng(0)
    (m0, s0), (m1, s1) = (3.0, 0.9), (2.2, 0.6)
    ratio = size_ratio(np.exp(rng.normal(m0, s0, 40_000)), np.exp(rng.normal(m1, s1, 20_000)))
    t = np.linspace(1.5, 3.5, 9)
    true = -0.5 * ((t - m1) / s1) ** 2 + 0.5 * ((t - m0) / s0) ** 2
    found = np.log(ratio(np.exp(t)))
    assert_allclose(found - found.mean(), true - true.mean(), atol=0.1)
    same = size_ratio(np.full(20, 7.0), np.full(30, 7.0))
    assert len(np.unique(same(np.array([3.0, 7.0, 90.0])))) == 1


def test_coverage_by_size_shows_what_plain_errors_hide():
    bags, y = make_bags(300, seed=9)
    model = Conformal(clone(PLAIN), cv=3, scale=None).fit(bags, y)
    rows = {row["group"]: row for row in model.coverage_by_size(0.8).rows}
    assert rows["all"]["bags"] == 300 and abs(rows["all"]["coverage"] - 0.8) < 0.01
    assert rows["3"]["coverage"] < 0.75 and rows["40"]["coverage"] > 0.85
    apart = Conformal(clone(PLAIN), cv=3, scale=None, by_size=(3, 10, 40)).fit(bags, y)
    assert all(abs(row["coverage"] - 0.8) < 0.02 for row in apart.coverage_by_size(0.8).rows)
    assert [row["group"] for row in model.coverage_by_size(0.8, edges=(1, 20)).rows] == [
        "all",
        "1–19",
        "20+",
    ]
    # by hand: the share of bags whose error is not among the largest fifth, of all bags
    scores = np.abs(model.calibration_.scores)
    worse = np.array([(scores >= s).mean() for s in scores])
    assert rows["all"]["coverage"] == np.mean(worse > 0.2 + 1e-9)


# ---- models -------------------------------------------------------------------------------------


@pytest.mark.crossed
@every_regressor
@every_method
def test_any_regressor_gives_a_prediction(name, method):
    model = regressor(name, method).fit(BAGS, Y)
    p = model.predict_dist(NEW)
    assert isinstance(p, ConformalPrediction) and len(p) == 40
    assert_array_equal(p.ids, NEW.ids)
    assert_array_equal(p.sizes, NEW.sizes)
    assert_array_equal(model.predict(NEW), p.mean)
    assert_array_equal(model.predict(NEW, return_std=True)[1], p.std)
    assert_array_equal(p.mean, model.model_.predict(NEW))
    assert model.calibration_.scaled == (name != "ridge")
    assert evaluate(p, NEW_Y, level=0.8).overall["coverage"] > 0.6
    assert p.at_size(7).interval(0.8).shape == (40, 2)
    assert is_regressor(model) and not is_classifier(model)
    assert -1 < model.score(NEW, NEW_Y) < 1
    many = 1 if method == "split" else 3
    assert len(model.models_) == many
    assert len(model.calibration_.scores) == (23 if method == "split" else 90)


@every_regressor
def test_scores_are_of_bags_that_the_model_had_not_seen(name):
    given = clone(REGRESSORS[name])
    model = Conformal(given, cv=KFold(3)).fit(BAGS, Y)
    for k, (train, test) in enumerate(KFold(3).split(Y)):
        alone = clone(given).fit(BAGS[train], Y[train])
        if hasattr(alone, "predict_dist"):
            mean, std = alone.predict(BAGS[test], return_std=True)
        elif name == "bayesian-ridge":
            mean, std = alone.predict(BAGS[test], return_std=True)
        else:
            mean, std = alone.predict(BAGS[test]), 1.0
        mine = model.calibration_.model == k
        assert_allclose(model.calibration_.scores[mine], (Y[test] - mean) / std, rtol=1e-6)
        assert_array_equal(model.calibration_.sizes[mine], BAGS.sizes[test])


@pytest.mark.crossed
@every_classifier
@every_method
@pytest.mark.parametrize("k", [2, 3])
def test_any_classifier_gives_sets(name, method, k):
    more = {"cv": 3} if method == "cv+" else {}
    model = Conformal(clone(CLASSIFIERS[name]), method, **more).fit(BAGS, CLASSES[k])
    p = model.predict_dist(NEW)
    assert_allclose(p.proba, model.model_.predict_proba(NEW), rtol=1e-6)
    assert_array_equal(model.predict_proba(NEW), p.proba)
    assert_array_equal(model.predict(NEW), p.predicted)
    assert_array_equal(model.classes_, list("abc"[:k]))
    assert is_classifier(model) and not is_regressor(model)
    scores = evaluate(p, NEW_CLASSES[k], level=0.9).overall
    assert scores["coverage"] >= model.score(NEW, NEW_CLASSES[k]) and 1 <= scores["set_size"] <= k
    assert p.sets(0.9).shape == (40, k)
    assert_array_equal(p[:4].at_size(NEW.sizes[:4]).sizes, NEW.sizes[:4])
    assert {"set", "probability"} <= set(p.to_frame(0.9))


def test_a_pipeline_of_scikit_learn_and_a_search_do():
    from sklearn.pipeline import make_pipeline as their_pipeline

    p = Conformal(their_pipeline(clone(PLAIN)), cv=3).fit(BAGS, Y).predict_dist(NEW)
    alone = Conformal(clone(PLAIN), cv=3).fit(BAGS, Y).predict_dist(NEW)
    assert_array_equal(p.interval(0.8), alone.interval(0.8))
    search = GridSearchCV(clone(PLAIN), {"embedding__n_landmarks": [3, 6]}, cv=2)
    found = Conformal(search, "split").fit(BAGS, Y)
    assert found.calibration_.scaled and found.predict_dist(NEW).interval(0.8).shape == (40, 2)


# ---- what bags bring ----------------------------------------------------------------------------


def test_sample_weights_reach_the_models():
    weights = np.random.default_rng(0).uniform(0.1, 2, 90)
    model = regressor(cv=KFold(3)).fit(BAGS, Y, sample_weight=weights)
    train = next(iter(KFold(3).split(Y)))[0]
    alone = clone(PLAIN).fit(BAGS[train], Y[train], sample_weight=weights[train])
    assert_allclose(model.models_[0].predict(NEW), alone.predict(NEW))
    assert not np.allclose(regressor(cv=KFold(3)).fit(BAGS, Y).predict(NEW), model.predict(NEW))
    ridge = regressor("ridge", cv=KFold(3)).fit(BAGS, Y, sample_weight=weights)
    assert not np.allclose(ridge.predict(NEW), regressor("ridge").fit(BAGS, Y).predict(NEW))
    by_id = pd.Series(weights, BAGS.ids)[::-1]
    assert_array_equal(regressor(cv=KFold(3)).fit(BAGS, Y, by_id).predict(NEW), model.predict(NEW))


@pytest.mark.parametrize("method", ["cv+", "jackknife+", "split"])
def test_groups_are_not_parted_and_count_as_one(method):
    groups = np.repeat(np.arange(15), np.tile([2, 4, 12], 5))[:90]
    name = "ridge" if method == "jackknife+" else "shrinkage"
    model = regressor(name, method).fit(BAGS, Y, groups=groups)
    found = model.calibration_
    if method != "split":
        which = np.empty(90, dtype=int)
        splits = (
            list(GroupKFold(3).split(Y, Y, groups))
            if method == "cv+"
            else [(None, np.flatnonzero(groups == g)) for g in range(15)]
        )
        rows = np.concatenate([test for _, test in splits])
        which[rows] = found.model
        assert all(len(np.unique(which[groups == g])) == 1 for g in range(15))
        assert_allclose(found.weights, 1 / np.bincount(groups)[groups][rows])
        assert_allclose(found.weights.sum(), 15)
    by_id = regressor(name, method, groups=pd.Series(groups, BAGS.ids)[::-1]).fit(BAGS, Y)
    assert_array_equal(by_id.calibration_.scores, found.scores)
    with pytest.warns(BagwiseWarning, match="each group as one.*19 are the least"):
        model.predict_dist(NEW).interval(0.95)
    sized = regressor(name, method, by_size=(1, 20)).fit(BAGS, Y, groups=groups)
    cells = sized.calibration_.sizes >= 20
    assert sized.calibration_.weights[cells].sum() <= 15


def test_groups_given_once_serve_parts_of_the_bags():
    groups = pd.Series(np.arange(90) // 3, BAGS.ids)
    model = regressor("ridge", groups=groups)
    joined = cross_val_predict_dist(model, BAGS, Y, cv=2)
    assert joined.interval(0.5).shape == (90, 2)


def test_labels_and_covariates_go_with_the_bags():
    covariate = np.random.default_rng(0).normal(size=(90, 1))
    bags = BAGS.with_covariates(covariate, ["z"])
    y = Y + covariate[:, 0]
    model = regressor().fit(bags, pd.Series(y, bags.ids)[::-1])
    assert_array_equal(model.calibration_.scores, regressor().fit(bags, y).calibration_.scores)
    assert model.score(bags, pd.Series(y, bags.ids)[::-1]) > 0.6
    with pytest.raises(BagwiseError, match="covariate"):
        model.predict_dist(NEW)
    with pytest.raises(InvalidLabelsError):
        regressor().fit(bags, y[:-1])


def test_prefit_takes_bags_on_disk(tmp_path):
    frame = pd.DataFrame(
        {
            "bag": np.repeat(BAGS.ids, BAGS.sizes),
            "x": BAGS.points[:, 0],
            "y": np.repeat(Y, BAGS.sizes),
        }
    )
    frame.to_parquet(tmp_path / "points.parquet")
    stream, y = Bags.scan_parquet(tmp_path / "points.parquet", bag="bag", features=["x"], label="y")
    memory, labels = Bags.from_parquet(
        tmp_path / "points.parquet", bag="bag", features=["x"], label="y"
    )
    model = clone(PLAIN).fit(memory, labels)
    a = Conformal(model, "split", cv="prefit").fit(stream, y).predict_dist(stream)
    b = Conformal(model, "split", cv="prefit").fit(memory, labels).predict_dist(memory)
    assert_allclose(a.interval(0.9), b.interval(0.9))
    a, b = regressor().fit(stream, y), regressor().fit(memory, labels)  # whose folds read it again
    assert_allclose(a.predict_dist(stream).interval(0.9), b.predict_dist(memory).interval(0.9))


# ---- other tools --------------------------------------------------------------------------------


def test_scikit_learn_clones_searches_and_pickles():
    model = regressor(by_size=2)
    assert clone(model).get_params().keys() == model.get_params().keys()
    assert model.get_params()["model__embedding__n_landmarks"] == 6
    scores = cross_val_score(model, BAGS, Y, cv=2)
    assert scores.shape == (2,)
    grid = {"model__embedding__n_landmarks": [3, 6], "method": ["cv+"]}
    assert GridSearchCV(model, grid, cv=2).fit(BAGS, Y).best_params_["method"] == "cv+"
    with pytest.raises(NotFittedError):
        model.predict_dist(NEW)
    fitted = model.fit(BAGS, Y)
    again = pickle.loads(pickle.dumps(fitted))
    assert_array_equal(
        again.predict_dist(NEW).interval(0.5), fitted.predict_dist(NEW).interval(0.5)
    )
    assert "Conformal" in fitted._repr_html_()


@pytest.mark.long  # on a cluster: test_dask.py
def test_folds_in_processes_are_the_same():
    a, b = (regressor("ridge", n_jobs=jobs).fit(BAGS, Y).predict_dist(NEW) for jobs in (None, 2))
    assert_array_equal(a.interval(0.8), b.interval(0.8))


@pytest.mark.usefixtures("undrawn")
def test_out_of_fold_predictions_evaluate_and_report():
    joined = cross_val_predict_dist(regressor(), BAGS, Y, cv=3)
    assert joined.interval(0.8).shape == (90, 2) and set(joined.fold) == {0, 1, 2}
    scores = evaluate(joined, Y, level=0.8)
    assert [row["group"] for row in scores.rows] == ["all", "3", "10", "40"]
    models = {"conformal": regressor(), "shrinkage": clone(PLAIN)}
    page = report.make(BAGS, Y, models, folds=2, level=0.8, progress=False)
    assert "conformal" in page.html
    given = regressor().fit(BAGS, Y)
    page = report.of_predictions(
        {"conformal": given.predict_dist(NEW)}, NEW, NEW_Y, models={"conformal": given}, level=0.8
    )
    assert page.best == "conformal"


def test_a_report_survives_infinite_intervals():
    given = regressor(method="split").fit(BAGS[:30], Y[:30])
    with pytest.warns(BagwiseWarning, match="infinite"):
        page = report.of_predictions({"c": given.predict_dist(NEW)}, NEW, NEW_Y, level=0.95)
    assert "Infinity" not in page.html and "NaN" not in page.html


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("k", [pytest.param(2, marks=pytest.mark.long), 3])
def test_reports_of_classes(k):
    models = {"conformal": Conformal(clone(CLASSIFIERS["shrinkage"]), cv=3)}
    page = report.make(BAGS, CLASSES[k], models, folds=2, level=0.8, progress=False)
    assert "conformal" in page.html


def test_explanations_are_those_of_the_model():
    model = regressor().fit(BAGS, Y)
    assert_array_equal(
        model.explain(NEW, bag="p3").points, model.model_.explain(NEW, bag="p3").points
    )
    with pytest.raises(BagwiseError, match="explains nothing"):
        regressor("ridge").fit(BAGS, Y).explain(NEW, bag="p3")


# ---- saving -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"method": "split"},
        {"cv": 3},
        {"cv": 3, "by_size": (1.0, 20.0), "symmetric": False},
        {"cv": 3, "by_size": 2, "scale": None},
        {"cv": 3, "target_sizes": np.full(12, 8.0)},
        {"cv": 3, "target_sizes": "predicted"},
        {"method": "jackknife+"},
    ],
    ids=str,
)
def test_saved_models_predict_the_same(more, tmp_path):
    few = slice(0, 12) if more.get("method") == "jackknife+" else slice(0, 90)
    model = Conformal(clone(PLAIN), **more).fit(BAGS[few], Y[few])
    bagwise.save(model, tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagwiseWarning)
        for a, b in zip(
            *(m.predict_dist(NEW).quantile([0.3, 0.5, 0.8]) for m in (model, loaded)), strict=True
        ):
            assert_array_equal(a, b)
    assert repr(loaded) == repr(model)
    assert (
        clone(loaded).fit(BAGS[few], Y[few]).calibration_.scores.shape
        == model.calibration_.scores.shape
    )
    header = read_header(tmp_path / "m.bagwise")
    assert header.estimator == "Conformal"
    assert header.parameters["model"]["class"] == "ShrinkageRegressor"
    assert header.summary["conformal"] == model.method


@pytest.mark.crossed
@pytest.mark.parametrize("name", ["shrinkage", "logistic"])
@pytest.mark.parametrize("k", [2, 3])
def test_saved_classifiers_have_the_same_sets(name, k, tmp_path):
    model = Conformal(clone(CLASSIFIERS[name]), cv=3).fit(BAGS, CLASSES[k])
    bagwise.save(model, tmp_path / "m.bagwise")
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert_array_equal(loaded.predict_dist(NEW).p_values, model.predict_dist(NEW).p_values)
    assert read_header(tmp_path / "m.bagwise").classes == list("abc"[:k])


def test_what_is_not_saved_is_said(tmp_path):
    groups = np.arange(90) // 3
    model = regressor(cv=GroupKFold(3), groups=groups).fit(BAGS, Y)
    bagwise.save(model, tmp_path / "m.bagwise")
    notes = read_header(tmp_path / "m.bagwise").notes
    assert len(notes) == 2 and "cv was a GroupKFold" in notes[0] and "groups was" in notes[1]
    loaded = bagwise.load(tmp_path / "m.bagwise")
    assert loaded.cv is None and loaded.groups is None
    with pytest.raises(SavedModelError, match="BagPipeline cannot be saved"):
        bagwise.save(regressor("ridge").fit(BAGS, Y), tmp_path / "r.bagwise")
    with pytest.raises(SavedModelError, match="this Conformal is not fitted"):
        bagwise.save(regressor(), tmp_path / "r.bagwise")


def _changed(tree, tensors):
    """Changes that no saved model could have, each of a copy."""
    learnt = tree["learnt"]
    yield "model", lambda: learnt["calibration"].update(scaled="yes")
    yield "models", lambda: learnt["models"].pop()
    yield "class", lambda: learnt["model"].update({"class": "Conformal"})
    yield "learnt", lambda: learnt.pop("model")
    yield "parameters", lambda: tree["parameters"].pop("method")
    yield "null", lambda: tree["parameters"].update(groups=[1, 2])
    yield "calibration.scores", lambda: tensors["calibration.scores"].__setitem__(0, np.nan)
    yield "calibration.sizes", lambda: tensors["calibration.sizes"].__setitem__(0, -1.0)
    yield "calibration.starts", lambda: tensors["calibration.starts"].__setitem__(1, 0.5)
    yield "sizes of groups", lambda: tensors["calibration.starts"].__setitem__(1, 1e9)
    yield "calibration.model", lambda: tensors["calibration.model"].__setitem__(0, 9)
    yield "calibration.weights", lambda: tensors.update({"calibration.weights": np.ones(3)})
    yield "not part of this model", lambda: tensors.update({"models.7.w": np.ones(3)})
    yield "missing", lambda: tensors.pop("models.1.head.w")
    yield "same columns", lambda: learnt["models"][0]["columns"].update(feature_names=["q"])


@pytest.mark.parametrize("change", range(15))
def test_changed_files_are_refused(change):
    import copy

    from bagwise.estimators.saving.saving import put_together, take_apart

    tree, writer = take_apart(regressor(by_size=(1.0, 20.0)).fit(BAGS, Y))
    assert put_together(copy.deepcopy(tree), copy.deepcopy(writer.tensors)) is not None
    tree, tensors = copy.deepcopy((tree, writer.tensors))
    words, act = list(_changed(tree, tensors))[change]
    act()
    with pytest.raises(SavedModelError, match=words):
        put_together(tree, tensors)


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "params, words",
    [
        ({"method": "full"}, 'method is .full.*"cv\\+" or "jackknife\\+" or "split"'),
        ({"method": "jackknife+", "cv": 5}, "cv is 5; expected None with method"),
        ({"cv": "prefit"}, 'cv is .prefit.*with method="split"'),
        ({"method": "split", "cv": "prefit"}, "is not fitted; expected a model that was fitted"),
        ({"method": "split", "cv": KFold(3)}, "cv has 3 splits; expected one"),
        ({"cv": ShuffleSplit(2, random_state=0)}, "cv holds out"),
        ({"cv": 1}, "cv is 1; expected at least 2 folds"),
        ({"scale": "sd"}, 'scale is .sd.*"auto" or "std"'),
        ({"by_size": 0}, "by_size is 0; expected a number of groups"),
        ({"by_size": "two"}, "by_size is 'two'"),
        ({"by_size": (5, 3)}, "increasing order"),
        ({"by_size": (1, 5, 1000)}, "no calibration bag is in the size group that begins at 1000"),
        ({"target_sizes": "new"}, "target_sizes is 'new'"),
        ({"target_sizes": [1, -2] * 9}, "sizes > 0"),
        ({"target_sizes": [3, 4]}, "there are 2 sizes of bags to come; expected 10 or more"),
        ({"symmetric": "yes"}, "symmetric is 'yes'"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_wrong_parameters_are_named(params, words):
    with pytest.raises(BagwiseError, match=words):
        Conformal(clone(REGRESSORS["ridge"])).set_params(**params).fit(BAGS, Y)


@pytest.mark.parametrize(
    "model, words",
    [
        ("ridge", "the model is a str; expected a regressor or classifier"),
        (ShrinkageRegressor, "the model is class ShrinkageRegressor"),
        (KernelEmbedding(), "the model is a KernelEmbedding"),
        (make_pipeline(KernelEmbedding(3), LinearSVC()), "has no predict_proba"),
    ],
    ids=["word", "class", "embedding", "svc"],
)
def test_what_cannot_be_calibrated_is_named(model, words):
    with pytest.raises(BagwiseError, match=words):
        Conformal(model).fit(BAGS, CLASSES[2] if "proba" in words else Y)


def test_one_group_cannot_be_cut_and_a_calibrated_model_not_tuned():
    with pytest.raises(BagwiseError, match="there is 1 group; expected 2 or more"):
        regressor("ridge").fit(BAGS, Y, groups=np.ones(90))
    with pytest.raises(BagwiseError, match="tune was given a Conformal"):
        bagwise.tune(regressor(), BAGS, Y)


def test_a_model_without_a_standard_deviation_cannot_be_scaled():
    with pytest.raises(BagwiseError, match="says no standard deviation"):
        regressor("ridge", scale="std").fit(BAGS, Y)
    assert not regressor(scale=None).fit(BAGS, Y).calibration_.scaled


def test_few_bags_predicted_together_do_not_say_how_sizes_shift():
    model = regressor("ridge", target_sizes="predicted").fit(BAGS, Y)
    with pytest.raises(BagwiseError, match="there are 3 sizes of bags to come"):
        model.predict_dist(NEW[:3])


def test_sizes_outside_of_the_calibration_are_said():
    model = regressor("ridge", by_size=2).fit(BAGS, Y)
    huge = Bags.from_list([np.zeros((500, 1)), np.zeros((10, 1))])
    with pytest.warns(
        BagwiseWarning, match="1 of 2 bags are smaller or larger than all calibration"
    ):
        model.predict_dist(huge)


def test_as_few_bags_as_folds_need():
    model = Conformal(clone(REGRESSORS["ridge"])).fit(BAGS[:7], Y[:7])
    assert len(model.models_) == 7
    with pytest.warns(BagwiseWarning, match="counts as 7 bags for them, and 9 are the least"):
        assert np.isinf(model.predict_dist(NEW).interval(0.9)).all()
