"""Labels, weights and covariates with ids: by id, by position, or refused; never by guess."""

import datetime
from functools import cache, partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

import bagwise
from bagwise import (
    Bags,
    BayesianLinearRegressor,
    KernelEmbedding,
    ShrinkageClassifier,
    metrics,
    plots,
)
from bagwise.estimators.selection import FeatureCache
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError
from error_cases import fails

RNG = np.random.default_rng(0)
N = 30
LEVEL = RNG.uniform(1, 2, N)
ARRAYS = [RNG.normal(x, 0.4, (k, 2)) for x, k in zip(LEVEL, RNG.integers(2, 9, N), strict=True)]
IDS = [f"patient {i}" for i in RNG.permutation(N)]
BAGS = Bags.from_list(ARRAYS, ids=IDS)
Y = 10 * LEVEL
CLASSES = np.where(LEVEL > 1.5, "high", "low")
WEIGHTS = RNG.uniform(0.5, 1.5, N)
ORDER = RNG.permutation(N)
SMALL = KernelEmbedding(6, bandwidth=1.0)


def model():
    return BayesianLinearRegressor(SMALL)


def classifier():
    return ShrinkageClassifier(SMALL)


def by_id(values, ids=IDS):
    return pd.Series(values, index=pd.Index(ids, name="patient"))


def shuffled(values):
    """Return values as a Series by id in another order, with a bag more that is not there."""
    return pd.concat([by_id(values).iloc[ORDER], by_id(values[:1], ["elsewhere"])])


FITTED = model().fit(BAGS, Y)
PREDICTION = FITTED.predict_dist(BAGS)
CLASS_PREDICTION = classifier().fit(BAGS, CLASSES).predict_dist(BAGS)


def tuned(y):
    found = bagwise.tune(model(), BAGS, y, grid={"n_landmarks": [4, 6]}, cv=2)
    return [found.params, *found.estimator.predict(BAGS).tolist()]


def out_of_fold(y=Y, **options):
    return bagwise.cross_val_predict_dist(model(), BAGS, y, cv=3, progress=False, **options).mean


def reported(y):
    page = bagwise.report.make(BAGS, y, {"a": model()}, folds=2, progress=False)
    return page.scores["a"].rows[0]["nll"]


# Every place that takes a value per bag: a function of what is given, and the values in order.
PLACES = {
    "fit": (lambda y: model().fit(BAGS, y).predict(BAGS), Y),
    "fit of classes": (lambda y: classifier().fit(BAGS, y).predict_proba(BAGS), CLASSES),
    "fit of (X, groups)": (
        lambda y: model().fit((BAGS.points, np.repeat(IDS, BAGS.sizes)), y).predict(BAGS),
        Y,
    ),
    "sample_weight": (lambda w: model().fit(BAGS, Y, sample_weight=w).predict(BAGS), WEIGHTS),
    "score": (lambda y: FITTED.score(BAGS, y), Y),
    "score weights": (lambda w: FITTED.score(BAGS, Y + LEVEL**2, sample_weight=w), WEIGHTS),
    "score of classes": (lambda y: classifier().fit(BAGS, CLASSES).score(BAGS, y), CLASSES[::-1]),
    "with_covariates": (lambda c: BAGS.with_covariates(c).covariates, Y),
    "from_list": (lambda c: Bags.from_list(ARRAYS, ids=IDS, covariates=c).covariates, Y),
    "from_array": (
        lambda c: Bags.from_array(np.zeros((N, 2, 1)), ids=IDS, covariates=c).covariates,
        Y,
    ),
    "from_groups": (
        lambda c: (
            Bags.from_groups(BAGS.points, np.repeat(IDS, BAGS.sizes), covariates=c).covariates
        ),
        Y,
    ),
    "tune": (tuned, Y),
    "tune validation": (
        lambda y: (
            bagwise.tune(model(), BAGS, Y, validation=(BAGS, y), grid={"n_landmarks": [4]}).score
        ),
        Y,
    ),
    "cross_val_predict_dist": (out_of_fold, Y),
    "its weights": (lambda w: out_of_fold(sample_weight=w), WEIGHTS),
    "its groups": (lambda g: out_of_fold(groups=g), np.arange(N) % 7),
    "report": (reported, Y),
    "report of predictions": (
        lambda y: bagwise.report.of_predictions({"a": PREDICTION}, BAGS, y).scores["a"].rows,
        Y,
    ),
    "evaluate": (lambda y: metrics.evaluate(PREDICTION, y).rows, Y),
    "evaluate sizes": (lambda s: metrics.evaluate(PREDICTION, Y, sizes=s).rows, BAGS.sizes),
    "evaluate classes": (lambda y: metrics.evaluate(CLASS_PREDICTION, y).rows, CLASSES[::-1]),
    "pit": (lambda y: metrics.pit(PREDICTION, y), Y),
    "reliability": (lambda y: metrics.reliability(CLASS_PREDICTION, y).rows, CLASSES[::-1]),
    "cdf": (PREDICTION.cdf, Y),
    "log_prob": (PREDICTION.log_prob, Y),
    "crps": (PREDICTION.crps, Y),
    "class log_prob": (CLASS_PREDICTION.log_prob, CLASSES),
    "mixture log_prob": (CLASS_PREDICTION.latent.crps, Y),
    "align": (BAGS.align, Y),
    "calibration plot": (
        lambda y: plots.calibration(PREDICTION, y).lines[1].get_ydata(),
        Y,
    ),
    "scatter plot": (
        lambda y: plots.predicted_against_true(PREDICTION, y).collections[0].get_offsets().data,
        Y,
    ),
    "map": (
        lambda y: plots.embedding_map(FITTED, BAGS, y).collections[0].get_array().data,
        Y,
    ),
} | {
    metric.__name__: (partial(metric, PREDICTION), Y)
    for metric in (metrics.mse, metrics.rmse, metrics.nll, metrics.crps, metrics.coverage)
}


# Pages of a dozen pictures, each of which takes as long as all the others together.
DRAWN = ("report", "report of predictions")


@pytest.fixture(autouse=True)
def close_pictures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@cache
def plain(place):
    """What comes of an array."""
    call, values = PLACES[place]
    return call(values)


@pytest.mark.parametrize("place", PLACES)
def test_an_index_of_ids_goes_by_id(place):
    call, values = PLACES[place]
    expected, forms = plain(place), [shuffled(values), by_id(values)[::-1].to_dict()]
    for form in forms[:1] if place in DRAWN else forms:
        found = call(form)
        if isinstance(expected, list):
            assert expected == found
        else:
            for mine, theirs in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
                assert_array_equal(mine, theirs)


@pytest.mark.parametrize("place", PLACES)
def test_an_index_of_some_of_the_ids_is_refused(place):
    call, values = PLACES[place]
    for some in (shuffled(values).drop(IDS[3:5]), by_id(values)[5:].to_dict()):
        with pytest.raises(BagwiseError, match=r"lack bag 'patient \d+', .*of 30 bags\).*expected"):
            call(some)


@pytest.mark.parametrize("place", PLACES)
def test_what_has_no_index_goes_by_position(place):
    call, values = PLACES[place]
    forms = [pl.Series(values), pa.array(values), pd.Series(values), values.tolist()]
    expected = plain(place)
    for form in forms[:1] if place in DRAWN else forms:
        found = call(form)
        if isinstance(expected, list):
            assert found == expected
        else:
            for mine, theirs in zip(np.atleast_1d(found), np.atleast_1d(expected), strict=True):
                assert_array_equal(mine, theirs)


# ---- the rule -----------------------------------------------------------------------------------

ONES = np.ones((1, 1))


def bags_of(*ids):
    return Bags.from_list([ONES] * len(ids), ids=list(ids))


DAY = datetime.date(2020, 1, 1)
DAYS = [DAY + datetime.timedelta(i) for i in (2, 0, 1)]


@pytest.mark.parametrize(
    ("ids", "index"),
    [
        (["c", "a", "b"], pd.Index(["a", "b", "c"])),
        (["c", "a", "b"], pd.CategoricalIndex(["a", "b", "c"])),
        ([30, 10, 20], pd.Index([10, 20, 30])),
        ([30, 10, 20], pd.Index([10.0, 20.0, 30.0])),
        ([3, 1, 2], pd.Index([1, 2, 3])),
        ([2, 0, 1], pd.Index([0, 1, 2], name="patient")),
        ([2**63 + 2, 2**63, 2**63 + 1], pd.Index([2**63, 2**63 + 1, 2**63 + 2], dtype="uint64")),
        (
            [("b", 1), ("a", 1), ("a", 2)],
            pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1)]),
        ),
        (np.array(DAYS, dtype="M8[D]"), pd.DatetimeIndex(sorted(DAYS))),
        (np.array(DAYS, dtype="M8[ns]"), pd.Index(sorted(DAYS))),
        (pd.Series(pd.DatetimeIndex(DAYS)).to_numpy(), pd.DatetimeIndex(sorted(DAYS))),
    ],
    ids=[
        "str", "category", "int", "float", "1 to n", "named 0 to n", "uint64", "tuple", "date",
        "ns", "datetime",
    ],
)  # fmt: skip
def test_ids_of_every_type(ids, index):
    bags = Bags.from_array(np.zeros((3, 2, 1)), ids=ids)
    assert bags.align(pd.Series([1.0, 2.0, 3.0], index=index)).tolist() == [3.0, 1.0, 2.0]


def test_labels_from_groupby_and_of_a_frame_of_points():
    """The reproduction: bags in order of first appearance, groupby sorted."""
    frame = pd.DataFrame(BAGS.points, columns=["u", "v"])
    frame["patient"], frame["y"] = np.repeat(IDS, BAGS.sizes), np.repeat(Y, BAGS.sizes)
    bags, y = Bags.from_frame(frame, bag="patient", features=["u", "v"], label="y")
    sorted_y = frame.groupby("patient")["y"].first()
    assert list(sorted_y.index) != bags.ids.tolist()
    good = model().fit(bags, y)
    assert_array_equal(model().fit(bags, sorted_y).predict(bags), good.predict(bags))
    assert good.score(bags, sorted_y) == r2_score(y, good.predict(bags))
    assert model().fit(bags[:20], sorted_y).score(bags[20:], sorted_y) > 0.5


def test_composite_ids_and_a_frame_of_covariates():
    frame = pd.DataFrame({"clinic": list("bbaa"), "no": [1, 2, 1, 2], "x": 1.0, "age": range(4)})
    bags = Bags.from_frame(frame, bag=["clinic", "no"], features=["x"])
    ages = frame.groupby(["clinic", "no"])[["age"]].first()
    assert ages["age"].tolist() == [2, 3, 0, 1]
    aged = bags.with_covariates(ages)
    assert aged.covariates.ravel().tolist() == [0, 1, 2, 3]
    assert aged.covariate_names == ("age",)
    fails(
        lambda: bags.with_covariates(ages.loc[["a"]]),
        "the covariates lack bag ('b', 1), ('b', 2) (2 of 4",
    )


@pytest.mark.parametrize(
    ("ids", "index", "parts"),
    [
        (["a", "b"], ["a", "c"], ["the labels lack bag 'b' (1 of 2 bags)", "give .to_numpy()"]),
        ([1, 2], [2, 3], ["the labels lack bag 1 (1 of 2 bags)", "all bags, in any order"]),
        (["a", "b"], ["b", "a", "b"], ["the labels have bag 'b' twice, in rows 0 and 2"]),
        (["a", "b"], ["x", "y"], ["the index of the labels has 'x', 'y', … and none of the bags"]),
        (["1", "2"], [2, 1], ["of type int, those str", "of the same type", "Convert one"]),
        ([1, 2], ["2", "1"], ["of type str, those int", "of the same type"]),
        ([1, 0], [0, 1], ["the same numbers as bags.ids in another order", ".loc[bags.ids]"]),
        (None, [1, 0], ["the same numbers as bags.ids in another order", ".to_numpy()"]),
        (
            [("a", 1), ("a", 2)],
            pd.MultiIndex.from_tuples([(1, "a"), (2, "a")]),
            ["none of the bags ('a', 1), ('a', 2)"],
        ),
    ],
)
def test_what_is_not_plain_is_refused(ids, index, parts):
    bags = Bags.from_list([ONES, ONES], ids=ids)
    y = pd.Series(np.arange(float(len(index))), index=index)
    fails(lambda: model().fit(bags, y), *parts, error=InvalidLabelsError)


@pytest.mark.parametrize(
    ("ids", "index"),
    [
        (["a", "b", "c"], [0, 1, 2]),
        (["a", "b", "c"], [7, 3, 5]),  # as a split of scikit-learn leaves them
        ([11, 12, 13], [7, 3, 5]),
        ([1, 2, 3], [0, 1, 2]),  # an index that counts
        (None, ["x", "y", "z"]),  # ids that nobody gave
        (None, pd.Index([1, 2, 3], name="patient")),
        (None, [2, 1, 3]),
    ],
)
def test_an_index_that_says_nothing_goes_by_position(ids, index):
    bags = Bags.from_list([ONES] * 3, ids=ids)
    assert bags.align(pd.Series([1.0, 2.0, 3.0], index=index)).tolist() == [1.0, 2.0, 3.0]


def test_an_index_that_counts_is_not_taken_for_ids():
    """Rows of a table are numbered from 0, patients from 1: the numbers are not the same."""
    y = pd.Series(np.arange(5.0))
    fails(lambda: model().fit(bags_of(1, 2, 3), y), "there are 5 labels for 3 bags")
    fails(lambda: bags_of(1, 2, 3).align(y), "the values have shape (5,)", "3 bags")


def test_parts_of_bags_without_ids_go_by_position():
    """Ids that were counted do not become names when bags are chosen."""
    bags = Bags.from_list(ARRAYS)
    y = pd.Series(Y, index=pd.Index(range(1, N + 1), name="patient"))
    expected = model().fit(bags[5:20], Y[5:20])
    found = model().fit(bags[5:20], y.iloc[5:20])
    assert_array_equal(found.predict(bags), expected.predict(bags))
    test = bags[[25, 3, 9]]
    truth = pd.Series(Y, index=range(N)).iloc[[25, 3, 9]]
    nll = metrics.nll(expected.predict_dist(test), Y[[25, 3, 9]])
    assert metrics.nll(found.predict_dist(test), truth) == nll
    assert metrics.nll(found.predict_dist(test), y.iloc[[25, 3, 9]]) == nll
    both = Bags.concatenate([bags[:2], bags[:2]])
    assert both.align(pd.Series([1, 2, 3, 4], index=list("abcd"))).tolist() == [1, 2, 3, 4]


def test_bags_drawn_twice_have_the_label_twice():
    picks = [4, 4, 1]
    assert_array_equal(BAGS[picks].align(shuffled(Y)), Y[picks])
    assert_array_equal(BAGS[picks].align(pd.Series(Y, index=IDS).iloc[picks]), Y[picks])


# ---- within scikit-learn ------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize(
    "y",
    [
        pd.Series(Y),
        pd.Series(Y, index=range(500, 500 + N)),
        pd.Series(Y, index=IDS),
        pd.Series(Y, index=pd.Index(IDS, name="patient")),
    ],
    ids=["counted", "rows", "ids", "named"],
)
@pytest.mark.parametrize("X", [BAGS, ARRAYS, Bags.from_list(ARRAYS)], ids=["ids", "list", "none"])
def test_splits_of_scikit_learn(X, y):
    folds = KFold(3, shuffle=True, random_state=0)
    options = {"cv": folds, "error_score": "raise"}
    expected = cross_val_score(model(), BAGS, Y, **options)
    assert_array_equal(cross_val_score(model(), X, y, **options), expected)
    scores = cross_val_score(model(), X, y, scoring=bagwise.scorers.neg_nll, **options)
    by_hand = cross_val_score(model(), BAGS, Y, scoring=bagwise.scorers.neg_nll, **options)
    assert_array_equal(scores, by_hand)
    search = GridSearchCV(model(), {"embedding__n_landmarks": [4, 6]}, **options).fit(X, y)
    assert search.best_score_ == pytest.approx(
        GridSearchCV(model(), {"embedding__n_landmarks": [4, 6]}, **options)
        .fit(BAGS, Y)
        .best_score_
    )
    train, test, y_train, y_test = train_test_split(X, y, random_state=0)
    assert model().fit(train, y_train).score(test, y_test) > 0.3


def test_labels_in_another_order_do_not_pass_through_splits_unnoticed():
    y = pd.Series(Y, index=IDS).iloc[ORDER]
    with pytest.raises(ValueError, match=r"the labels lack bag 'patient"):
        cross_val_score(model(), BAGS, y, cv=3)
    aligned = BAGS.align(y)
    assert_array_equal(
        cross_val_score(model(), BAGS, aligned, cv=3), cross_val_score(model(), BAGS, Y, cv=3)
    )


# ---- points -------------------------------------------------------------------------------------


def test_points_and_groups_of_different_rows():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "bag": ["a", "b", "a"]})
    other = frame.sample(frac=1, random_state=1)
    assert other.index.tolist() != [0, 1, 2]
    assert Bags.from_groups(frame[["x"]], frame["bag"]).sizes.tolist() == [2, 1]
    assert Bags.from_groups(other[["x"]], other["bag"]).n_bags == 2
    assert Bags.from_groups(other[["x"]], other["bag"].to_numpy()).n_bags == 2
    for groups, weights in ((frame["bag"], None), (other["bag"], pd.Series(np.ones(3)))):
        fails(
            lambda g=groups, w=weights: Bags.from_groups(other[["x"]], g, weights=w),
            "X and",
            "have different pandas indexes",
            ".to_numpy()",
            error=InvalidBagsError,
        )
    fails(
        lambda: Bags.from_groups(other[["x"]], other["bag"], covariates=frame[["x"]]),
        "X and covariates have different pandas indexes",
    )
    tail = frame.iloc[1:]
    assert Bags.from_groups(tail[["x"]], tail["bag"].reset_index(drop=True)).n_bags == 2


# ---- dicts --------------------------------------------------------------------------------------


def test_a_dict_of_arrays_is_bags_by_id():
    arrays = dict(zip(IDS, ARRAYS, strict=True))
    bags = bagwise.as_bags(arrays)
    assert bags.ids.tolist() == IDS
    expected = model().fit(BAGS, Y).predict(BAGS)
    for y in (Y, shuffled(Y), dict(zip(IDS, Y, strict=True))):
        assert_array_equal(model().fit(arrays, y).predict(arrays), expected)
    chosen = Bags.from_list(arrays, ids=IDS[:3][::-1])
    assert_array_equal(chosen[0], ARRAYS[2])
    weights = {bag: np.full(len(a), i + 1.0) for i, (bag, a) in enumerate(arrays.items())}
    weighted = Bags.from_list(arrays, weights=dict(reversed(weights.items())))
    assert_array_equal(weighted.weights, np.repeat(np.arange(1.0, N + 1), BAGS.sizes))
    fails(lambda: Bags.from_list(arrays, ids=["x"]), "the arrays lack bag 'x' (1 of 1 bags)")
    fails(lambda: bagwise.as_bags({}), "there are no bags at all")
    fails(lambda: bagwise.as_bags({"x": [1.0, 2.0]}), "bag 'x' has shape (2,)")


def test_a_series_of_arrays_is_bags_by_id():
    series = pd.Series(ARRAYS, index=pd.Index(IDS, name="patient"))
    assert bagwise.as_bags(series).ids.tolist() == IDS
    assert_array_equal(bagwise.as_bags(series).align(shuffled(Y)), Y)
    counted = bagwise.as_bags(pd.Series(ARRAYS))
    assert counted.align(pd.Series(Y, index=list(range(1, N + 1)))).tolist() == Y.tolist()


def test_a_dict_of_labels_needs_bags_with_ids():
    nameless = bagwise.Prediction(
        [1.0], bagwise.predictions.gaussian.VarianceParts.broadcast(1, noise=1.0)
    )
    fails(lambda: nameless.log_prob({"a": 1.0}), "the labels are a dict", "bags with ids")


# ---- what else labels may be --------------------------------------------------------------------


@pytest.mark.parametrize(
    "y",
    [
        pd.Series(Y, dtype="Float64"),
        pd.Series(Y, dtype=object),
        pd.DataFrame({"y": Y}),
        pd.DataFrame({"y": Y}, index=IDS).iloc[ORDER],
        pl.DataFrame({"y": Y}),
        Y.astype(object),
        pa.chunked_array([Y[:10], Y[10:]]),
    ],
    ids=["nullable", "object", "frame", "frame by id", "polars", "objects", "pyarrow"],
)
def test_labels_of_many_types(y):
    assert_array_equal(model().fit(BAGS, y).predict(BAGS), FITTED.predict(BAGS))


RAGGED = [[1.0], [2.0, 3.0]] + [[4.0]] * (N - 2)


@pytest.mark.parametrize(
    "call",
    [
        lambda: model().fit(BAGS, RAGGED),
        lambda: classifier().fit(BAGS, RAGGED),
        lambda: model().fit(BAGS, Y, sample_weight=RAGGED),
        lambda: FITTED.score(BAGS, RAGGED),
        lambda: PREDICTION.log_prob(RAGGED),
        lambda: CLASS_PREDICTION.log_prob(RAGGED),
        lambda: bagwise.evaluate(PREDICTION, RAGGED),
        lambda: bagwise.tune(model(), BAGS, RAGGED),
        lambda: bagwise.report.make(BAGS, RAGGED),
        lambda: BAGS.align(RAGGED),
    ],
)
def test_ragged_labels(call):
    fails(call, "have entries of different lengths", "one value for each bag")


def test_labels_of_text_are_refused_where_numbers_are_scored():
    for call in (PREDICTION.log_prob, PREDICTION.crps, PREDICTION.cdf):
        fails(lambda c=call: c(["a"] * N), "the labels have dtype <U1", "real numbers")
    masked = np.ma.masked_greater(Y, 15)
    fails(lambda: model().fit(BAGS, masked), "the labels have masked entries")
    fails(lambda: metrics.nll(PREDICTION, masked), "the labels have masked entries")


def test_the_cache_of_a_tuning_is_not_touched_by_the_order():
    cache = FeatureCache()
    options = {"grid": {"n_landmarks": [4]}, "cv": 2, "progress": False}
    first = bagwise.tune(model(), BAGS, Y, cache=cache, **options)
    again = bagwise.tune(model(), BAGS, shuffled(Y), cache=cache, **options)
    assert_allclose(first.score, again.score, rtol=0)
