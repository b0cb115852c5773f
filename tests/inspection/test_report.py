"""The report: its numbers are those of the metrics, and its page is well formed whatever comes."""

import datetime

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import KFold

import bagwise
from bagwise import BagwiseError, report
from bagwise.inspection.report import columns
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.parts import VarianceParts
from report_pages import HOSTILE, Page, data_of, spread_bags


def quick(name="shrinkage"):
    embedding = bagwise.KernelEmbedding(8, bandwidth=1.0)
    return {
        "shrinkage": bagwise.ShrinkageRegressor(embedding),
        "BLR": bagwise.BayesianLinearRegressor(embedding),
        "classes": bagwise.ShrinkageClassifier(embedding),
        "logistic": bagwise.BayesianLogisticClassifier(embedding),
    }[name]


@pytest.fixture(scope="module", autouse=True)
def few_explanations():
    """Explain few bags: it takes most of the time of a page."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MAX_BAGS", 4)
        patch.setattr(columns, "DRAWN_BAGS", 6)
        yield


@pytest.fixture(scope="module")
def regression():
    bags, y = spread_bags()
    models = {"shrinkage": quick(), "BLR": quick("BLR")}
    return bags, y, report.make(bags, y, models, folds=3, progress=False)


@pytest.fixture(scope="module")
def classification():
    bags, y = spread_bags()
    wide = np.where(y > 1.5, "wide", "narrow")
    models = {"shrinkage": quick("classes"), "logistic": quick("logistic")}
    return bags, wide, report.make(bags, wide, models, folds=3, progress=False)


@pytest.fixture(scope="module")
def many():
    bags, y = spread_bags()
    three = np.array(["narrow", "some", "wide"])[np.digitize(y, [1.33, 1.67])]
    embedding = bagwise.KernelEmbedding(5, bandwidth=1.0)
    model = bagwise.ShrinkageClassifier(embedding, weight_var=10.0)
    return bags, three, report.make(bags, three, {"shrinkage": model}, folds=3, progress=False)


# ---------------------------------------------------------------- out of fold


def test_every_bag_is_predicted_by_a_model_that_has_not_seen_it(regression):
    bags, y, made = regression
    mean = np.full(len(y), np.nan)
    for train, test in KFold(3, shuffle=True, random_state=0).split(y):
        model = clone(quick()).fit(bags[train], y[train])
        mean[test] = model.predict_dist(bags[test]).mean
    np.testing.assert_allclose(made.predictions["shrinkage"].mean, mean, rtol=1e-10)


@pytest.mark.usefixtures("undrawn")
def test_features_found_by_search_are_not_shared():
    bags, y = spread_bags(30)
    model = bagwise.RBFNetworkRegressor(bagwise.KernelEmbedding(5))
    made = report.make(bags, y, {"rbf": model}, folds=2, seed=3, progress=False)
    train, test = next(KFold(2, shuffle=True, random_state=3).split(y))
    expected = model.fit(bags[train], y[train]).predict(bags[test])
    np.testing.assert_allclose(made.predictions["rbf"].mean[test], expected)


@pytest.mark.usefixtures("undrawn")
def test_the_label_of_a_bag_does_not_change_its_own_prediction():
    bags, y = spread_bags(30)
    before = report.make(bags, y, {"a": quick()}, folds=3, progress=False)
    y[7] += 50.0
    after = report.make(bags, y, {"a": quick()}, folds=3, progress=False)
    assert before.predictions["a"].mean[7] == after.predictions["a"].mean[7]
    assert (before.predictions["a"].mean != after.predictions["a"].mean).sum() >= 15


def test_the_same_input_gives_the_same_page(regression):
    bags, y, made = regression
    models = {"shrinkage": quick(), "BLR": quick("BLR")}
    assert report.make(bags, y, models, folds=3, progress=False).html == made.html


# ---------------------------------------------------------------- numbers


def test_scores_on_the_page_are_those_of_evaluate(regression):
    bags, y, made = regression
    head, *rows = Page(made.html).tables["Scores of all bags"]
    assert head[1:4] == ["RMSE", "NLL", "CRPS"]
    assert sorted(row[0] for row in rows) == ["BLR", "always the mean", "shrinkage"]
    for row in rows[:2]:
        overall = bagwise.evaluate(made.predictions[row[0]], y, level=0.95).overall
        for cell, score in zip(row[1:4], ("rmse", "nll", "crps"), strict=True):
            assert float(cell.split(" ± ")[0].replace("−", "-")) == pytest.approx(
                overall[score], rel=5e-3, abs=5e-3
            )
        assert row[4].split(" %")[0] == f"{100 * overall['coverage']:.1f}"
    assert made.scores[made.best].rows == (
        bagwise.evaluate(made.predictions[made.best], y, sizes=bags.sizes, level=0.95).rows
    )


def test_scores_by_bag_size_are_those_of_evaluate(regression):
    bags, y, made = regression
    _, head, *rows = Page(made.html).tables["Scores by bag size"]
    expected = bagwise.evaluate(made.predictions[made.best], y, sizes=bags.sizes, level=0.95)
    assert head[2:5] == ["RMSE", "NLL", "coverage"]
    assert [row[:2] for row in rows] == [[r["group"], str(r["bags"])] for r in expected.rows]
    for row, wanted in zip(rows, expected.rows, strict=True):
        assert float(row[2]) == pytest.approx(wanted["rmse"], rel=1e-3)
        assert row[4] == f"{100 * wanted['coverage']:.1f} %"


def test_errors_of_scores_are_standard_errors_of_paired_differences(regression):
    _, y, made = regression
    row = next(r for r in Page(made.html).tables["Scores of all bags"] if r[0] == "always the mean")
    base = np.empty_like(y)
    for train, test in KFold(3, shuffle=True, random_state=0).split(y):
        base[test] = -stats.norm(y[train].mean(), y[train].std()).logpdf(y[test])
    difference = base + made.predictions[made.best].log_prob(y)
    value, error = (float(part) for part in row[6].split(" ± "))
    assert value == pytest.approx(difference.mean(), abs=2e-3)
    assert error == pytest.approx(stats.sem(difference), abs=2e-3)
    assert row[7] == ("clearly worse" if difference.mean() > 2 * stats.sem(difference) else "…")


def test_bags_inside_the_page_have_their_predictions(regression):
    bags, y, made = regression
    data = data_of(made.html)
    best = made.predictions[made.best]
    assert data["ids"] == [str(i) for i in range(60)]
    assert data["sizes"] == bags.sizes.tolist()
    np.testing.assert_allclose(data["labels"], y, rtol=1e-5)
    first = data["models"][0]
    assert first["name"] == made.best
    np.testing.assert_allclose(first["mean"], best.mean, rtol=1e-5)
    np.testing.assert_allclose(
        np.column_stack([first["lower"], first["upper"]]), best.interval(0.95), rtol=1e-4
    )
    total = sum(np.square(first[part]) for part in ("bag", "weights", "noise"))
    np.testing.assert_allclose(np.sqrt(total), best.std, rtol=1e-4)
    curve = np.array(first["curves"])[data["folds"][5]]
    expected = [
        best.pieces[data["folds"][5]].prediction.at_size(n).parts.bag[0] for n in data["grid"]
    ]
    np.testing.assert_allclose(curve**2, expected, rtol=1e-4, atol=1e-12)


def test_classes(classification):
    _, y, made = classification
    page = Page(made.html)
    head, *rows = page.tables["Scores of all bags"]
    assert head[1:4] == ["log loss", "Brier score", "accuracy"]
    for row in rows[:2]:
        overall = bagwise.evaluate(made.predictions[row[0]], y).overall
        assert float(row[1].split(" ± ")[0]) == pytest.approx(overall["log_loss"], abs=5e-3)
        assert row[3].split(" %")[0] == f"{100 * overall['accuracy']:.1f}"
    assert rows[2][0] == "always the share"
    data = data_of(made.html)
    assert data["classes"] == ["narrow", "wide"]
    assert data["labels"] == (y == "wide").astype(int).tolist()
    assert "Least expected labels" in page.tables


def test_many_classes(many):
    _, y, made = many
    page, data, prediction = Page(made.html), data_of(made.html), made.predictions["shrinkage"]
    assert data["classes"] == ["narrow", "some", "wide"]
    model, own = data["models"][0], prediction.proba[y[:, None] == prediction.classes]
    assert [data["classes"][k] for k in model["said"]] == prediction.predicted.tolist()
    np.testing.assert_allclose(model["own"], own, rtol=1e-5)
    np.testing.assert_allclose(model["mean"], prediction.probability, rtol=1e-5)
    for i in (0, 7, 23):  # the curve of a bag is that of its fold and its predicted class
        k, fold = model["said"][i], data["folds"][i]
        curve = np.array(model["curves"][fold * 3 + k])
        one = prediction.pieces[fold].prediction.each[k][:1]
        expected = [one.at_size(n).parts.bag[0] for n in data["grid"]]
        np.testing.assert_allclose(curve**2, expected, rtol=1e-4, atol=1e-12)
    head, *rows = page.tables["Least expected labels"]
    assert head[-3:] == ["label", "predicted", "P(predicted)"]
    assert all(row[-3] in y and row[-2] in y for row in rows)
    share = rows[0][2].split("its class was given ")[1].split(" %")[0]
    assert float(share) == pytest.approx(100 * own.min(), abs=0.06)
    for words in ("of class narrow, ", " than it says, which ", "of the predicted class"):
        assert words in made.html


def test_the_baseline_of_many_classes_is_the_share_of_the_others():
    y, parts = np.array([0.0, 0, 0, 1, 1, 2]), [np.array([0, 5]), np.array([1, 2, 3, 4])]
    p = report.baseline(y, np.array(["a", "b", "c"]), parts).proba
    np.testing.assert_allclose(p[0], [3 / 7, 3 / 7, 1 / 7])
    np.testing.assert_allclose(p[1], [2 / 5, 1 / 5, 2 / 5])


def test_the_baseline_of_classes_is_the_share_of_the_others():
    y = np.array([0.0, 0, 0, 1, 1, 1])
    parts = [np.array([0, 3]), np.array([1, 2, 4, 5])]
    p = report.baseline(y, np.array(["a", "b"]), parts).mean
    np.testing.assert_allclose(p, [3 / 6, 2 / 4, 2 / 4, 3 / 6, 2 / 4, 2 / 4])


# ---------------------------------------------------------------- the page


@pytest.mark.parametrize("kind", ["regression", "classification", "many"])
def test_the_page_is_well_formed_and_accessible(kind, request):
    html = request.getfixturevalue(kind)[2].html
    page = Page(html)
    tags = [tag for tag, _ in page.tags]
    assert tags.count("h1") == tags.count("main") == tags.count("header") == 1
    assert page.headings[0] == 1
    assert all(b <= a + 1 for a, b in zip(page.headings, page.headings[1:], strict=False))
    assert dict(page.tags)["html"] == {"lang": "en"}
    assert all(a.get("aria-label") for tag, a in page.tags if tag == "svg")
    assert all(a.get("scope") for tag, a in page.tags if tag == "th")
    assert tags.count("caption") == tags.count("table")
    ids = [a["id"] for _, a in page.tags if "id" in a]
    assert len(ids) == len(set(ids))
    assert not any(key.startswith("on") or key == "style" for _, a in page.tags for key in a)


def test_nothing_is_loaded_from_elsewhere(regression):
    page = Page(regression[2].html)
    assert not any("src" in a for _, a in page.tags)
    assert all(a["href"].startswith("#") for _, a in page.tags if "href" in a)
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy


def test_hostile_text_stays_text():
    ids = [f"{HOSTILE}{i}" for i in range(30)]
    bags, y = spread_bags(30, ids=ids)
    named = bagwise.Bags.from_list(
        list(bags), ids=ids, feature_names=[HOSTILE, "right"], covariates=y[:, None] ** 2,
        covariate_names=[HOSTILE],
    )  # fmt: skip
    made = report.make(
        named, y, {HOSTILE: quick()}, folds=2, title=HOSTILE, source=HOSTILE, progress=False
    )
    tags = [tag for tag, _ in Page(made.html).tags]
    assert "img" not in tags
    assert tags.count("script") == made.html.count("</script") == 2
    data = data_of(made.html)
    assert data["ids"] == ids
    assert data["models"][0]["name"] == HOSTILE
    assert HOSTILE in next(iter(data["models"][0]["points"].values()))[0][2]


def test_hostile_classes_stay_text():
    bags, y = spread_bags(40)
    labels = np.where(y > 1.5, HOSTILE, "\u2028<!--")
    made = report.make(bags, labels, {"a": quick("classes")}, folds=2, progress=False)
    assert "img" not in [tag for tag, _ in Page(made.html).tags]
    assert data_of(made.html)["classes"] == sorted([HOSTILE, "\u2028<!--"])


DAY = datetime.date(2020, 1, 1)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("ids", "first"),
    [
        (list(range(100, 130)), "100"),
        ([("Ohio", i) for i in range(30)], "Ohio · 0"),
        ([DAY + datetime.timedelta(i) for i in range(30)], "2020-01-01"),
        (np.arange("2020-01-01", "2020-01-31", dtype="datetime64[D]"), "2020-01-01"),
        ([f"Zoë 東京 🙂 {i}" for i in range(30)], "Zoë 東京 🙂 0"),
        (["same"] * 30, "same (bag 0)"),
    ],
    ids=["int", "tuple", "date", "datetime64", "unicode", "repeated"],
)
def test_ids_of_any_type(ids, first):
    bags, y = spread_bags(30, ids=ids)
    made = report.make(bags, y, {"a": quick()}, folds=2, progress=False)
    names = data_of(made.html)["ids"]
    assert names[0] == first
    assert len(set(names)) == 30


@pytest.mark.crossed
@pytest.mark.parametrize("covariates", [False, True])
@pytest.mark.parametrize("sizes", [(1, 2), (1000, 3)])
def test_bags_of_any_size(sizes, covariates):
    bags, y = spread_bags(24, sizes=sizes, covariates=covariates)
    made = report.make(bags, y, {"a": quick(), "b": quick("BLR")}, folds=2, progress=False)
    Page(made.html)
    assert ("Histogram of age: Covariate: " in made.html) == covariates


def test_bags_of_one_point():
    bags, y = spread_bags(12, sizes=(1,))
    made = report.make(bags, y, folds=2, progress=False)
    assert set(made.scores) == {"BLR", "RBF network"}
    assert set(data_of(made.html)["sizes"]) == {1}
    Page(made.html)


def test_constant_labels_and_huge_units():
    bags, y = spread_bags(24)
    Page(report.make(bags, np.ones(24), {"a": quick()}, folds=2, progress=False).html)
    for unit in (1e-9, 1e15):
        made = report.make(bags, y * unit, {"a": quick()}, folds=2, progress=False)
        assert data_of(made.html)["decimals"] is None
        Page(made.html)


@pytest.mark.usefixtures("undrawn")
def test_default_models_fit_the_labels(monkeypatch):
    assert set(report.default_models(False)) == {"gp", "shrinkage", "BLR", "RBF network"}
    assert set(report.default_models(True)) == {"gp", "shrinkage", "logistic"}
    asked = []

    def instead(classes, one_point):
        asked.append((classes, one_point))
        return {"a": quick("classes" if classes else "shrinkage")}

    monkeypatch.setattr(report, "default_models", instead)
    bags, y = spread_bags(12, sizes=(3,))
    for labels in (y, y > 1.5, np.where(y > 1.5, "a", "b")):
        report.make(bags, labels, folds=2, progress=False)
    assert asked == [(False, False), (True, False), (True, False)]


def test_twenty_thousand_bags():
    n, rng = 20_000, np.random.default_rng(0)
    bags = bagwise.Bags.from_groups(rng.normal(size=(n, 1)), np.arange(n))
    parts = VarianceParts.broadcast(n, bag=rng.uniform(size=n), noise=1.0)
    y = rng.normal(size=n)
    p = {name: Prediction(rng.normal(size=n), parts, sizes=np.ones(n)) for name in "abc"}
    made = report.of_predictions(p, bags, y)
    assert len(made.html.encode()) < 10e6
    assert len(data_of(made.html)["ids"]) == n


# ---------------------------------------------------------------- given predictions, files, errors


@pytest.mark.usefixtures("undrawn")
def test_given_predictions_of_held_out_bags():
    bags, y = spread_bags(60)
    model = quick().fit(bags[:40], y[:40])
    prediction = model.predict_dist(bags[40:])
    made = report.of_predictions({"a": prediction}, bags[40:], y[40:], models={"a": model})
    assert made.scores["a"].overall == bagwise.evaluate(prediction, y[40:], level=0.95).overall
    assert "The predictions were given" in made.html
    points = data_of(made.html)["models"][0]["points"]
    assert len(points) == 4
    bag = next(iter(points))
    number, push, words = points[bag][0]
    pushes = model.explain(bags[40 + int(bag) : 41 + int(bag)]).points
    assert number == np.argmax(np.abs(pushes)) + 1
    assert push == pytest.approx(pushes[number - 1], rel=1e-3)
    assert words.startswith("left ")
    without = report.of_predictions({"a": prediction}, bags[40:], y[40:])
    assert data_of(without.html)["models"][0]["points"] == {}


def test_a_written_page_is_the_page(tmp_path, regression):
    made, path = regression[2], tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(BagwiseError, match=r"is no page of bagwise; .* overwrite=True"):
        made.write(path)
    assert path.read_text() == "old"
    assert made.write(path, overwrite=True) == made.write(path) == path  # a page may go
    assert path.read_text(encoding="utf-8") == made.html
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert "Report(best" in repr(made)


def test_an_unwritable_place_is_an_error(tmp_path, regression):
    with pytest.raises(BagwiseError, match=r"nowhere/page\.html cannot be written"):
        regression[2].write(tmp_path / "nowhere" / "page.html")


BAGS, Y = spread_bags(12)


@pytest.mark.parametrize(
    ("models", "options", "words"),
    [
        ({}, {}, "there are no models; expected a dict of models by name"),
        ([quick()], {}, "models is no dict"),
        ({"r": Ridge()}, {}, "'r' is a Ridge, which has no predict_dist; expected an estimator"),
        ({"a": quick(), "b": quick("classes")}, {}, "of the models, only 'b' predict classes"),
        ({"a": quick()}, {"folds": 1}, "folds is 1; expected a whole number of at least 2"),
        ({"a": quick()}, {"level": 1.5}, "level is 1.5"),
    ],
)
def test_what_cannot_be_compared_is_refused(models, options, words):
    with pytest.raises(BagwiseError, match=words):
        report.make(BAGS, Y, models, progress=False, **options)


def test_too_few_bags_are_refused():
    with pytest.raises(BagwiseError, match="there are 2 bags; expected 3 or more bags"):
        report.make(BAGS[:2], Y[:2], {"a": quick()})
    with pytest.raises(BagwiseError, match="there are 4 bags, and 1 of one of the classes"):
        report.make(BAGS[:4], [0, 0, 0, 1], {"a": quick("classes")})
    with pytest.raises(BagwiseError, match="there is 1 bag; expected 2 or more"):
        report.of_predictions({"a": quick().fit(BAGS, Y).predict_dist(BAGS[:1])}, BAGS[:1], Y[:1])


def test_predictions_of_other_bags_are_refused():
    model = quick().fit(BAGS, Y)
    with pytest.raises(BagwiseError, match="'a' is a ndarray; expected what predict_dist returns"):
        report.of_predictions({"a": model.predict(BAGS)}, BAGS, Y)
    with pytest.raises(BagwiseError, match="'a' is of 11 bags; expected one of each of the 12"):
        report.of_predictions({"a": model.predict_dist(BAGS[1:])}, BAGS, Y)
    with pytest.raises(BagwiseError, match="of 12 bags with other ids"):
        report.of_predictions({"a": model.predict_dist(BAGS[::-1])}, BAGS, Y)
