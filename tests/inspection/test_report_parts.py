"""Parts of the report: reasons, words, colours and the numbers behind the pictures."""

import re
from importlib import resources

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import stats

import bagwise
from bagwise import Bags, report
from bagwise.inspection.report.comparison import Estimate
from bagwise.inspection.report.folds import make_folds
from bagwise.inspection.report.pictures import label_edges, size_edges, size_ticks
from bagwise.inspection.report.surroundings import Surroundings
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.parts import VarianceParts
from report_pages import Page, data_of
from sized import Sized

STYLE = (resources.files("bagwise.inspection.report") / "page.css").read_text(encoding="utf-8")


def made(mean, bag, noise, bags, y, **options):
    """Report on one given prediction, or on several means."""
    n = bags.n_bags
    parts = VarianceParts.broadcast(n, bag=bag, noise=noise)
    means = mean if isinstance(mean, dict) else {"a": mean}
    predictions = {name: Prediction(m, parts, sizes=bags.sizes) for name, m in means.items()}
    return report.of_predictions(predictions, bags, y, **options)


def reasons(html, caption):
    """Return the reasons of a list of worst bags, by bag."""
    return {row[0]: row[2] for row in Page(html).tables[caption][1:]}


@pytest.fixture
def bags():
    """A hundred bags of 40 points and twenty of one; the features of bag 7 are far off."""
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(40 if i < 100 else 1, 2)) for i in range(120)]
    points[7] += 30.0
    return Bags.from_list(points, feature_names=["u", "v"])


# ---------------------------------------------------------------- reasons


@pytest.mark.usefixtures("undrawn")
def test_why_a_bag_is_predicted_badly(bags):
    sizes, y = bags.sizes, np.random.default_rng(1).normal(0, 0.1, 120)
    y[3], y[7], y[110], y[111] = 2.9, 2.5, 4.2, 9.9
    html = made(np.zeros(120), np.where(sizes == 1, 8.0, 0.0), 1.0, bags, y).html
    least = reasons(html, "Least expected: most standard deviations off")
    assert least["3"].startswith("2.9 sd off although 40 points: label or points unusual")
    assert "unusual in" in least["7"]
    assert "farther from those of other bags" in least["7"]
    assert "farther" not in least["3"]
    largest = reasons(html, "Largest errors")
    assert largest["111"].startswith("3.3 sd off, and with 1 point the sd is wide already (3.00)")
    assert largest["110"].startswith("within its 95 % interval: the model was unsure, sd 3.00")
    assert "1 point only: variance mostly (89 %) from the bag" in largest["110"]
    assert "its label is among the highest 1 % of all" in largest["111"]
    assert "bags with a similar average have labels of" in least["3"]


@pytest.mark.usefixtures("undrawn")
def test_a_model_that_ignores_size_is_said_to(bags):
    y = np.random.default_rng(1).normal(0, 0.1, 120)
    y[110] = 3.0
    html = made(np.zeros(120), 0.0, 1.0, bags, y).html
    words = reasons(html, "Largest errors")["110"]
    assert "from 1 point, of which this model takes no account" in words


@pytest.mark.usefixtures("undrawn")
def test_what_other_models_say_is_told(bags):
    y = np.zeros(120)
    y[3], y[4] = 5.0, 5.0
    a, b = np.zeros(120), np.zeros(120)
    a[5] = b[5] = 0.2
    b[4] = 4.5
    html = made({"a": a, "b": b}, 0.0, 1.0, bags, y).html
    why = next(m["why"] for m in data_of(html)["models"] if m["name"] == "a")
    assert "the other model errs alike" in why["3"]
    assert "b comes closer: 4.50" in why["4"]


# ---------------------------------------------------------------- words


def words_of(html):
    return re.sub(r"<[^>]+>", " ", html[html.index('id="short"') : html.index('id="data"')])


@pytest.mark.usefixtures("undrawn")
def test_differences_are_called_clear_only_if_they_are(bags):
    rng = np.random.default_rng(2)
    y = rng.normal(size=120)
    means = {"good": y * 0.9, "same": y * 0.9, "alike": y * 0.9 + rng.normal(0, 0.02, 120)}
    html = made(means | {"bad": -y}, 0.0, 1.0, bags, y).html
    words = words_of(html)
    assert "same predicts the same as good." in words
    assert "bad is clearly worse than good" in words
    verdicts = {row[0]: row[7] for row in Page(html).tables["Scores of all bags"][1:]}
    assert verdicts["good"] == verdicts["same"] == "best"
    assert verdicts["bad"] == "clearly worse"
    difference = stats.norm(means["good"]).logpdf(y) - stats.norm(means["alike"]).logpdf(y)
    clear = abs(difference.mean()) > 2 * stats.sem(difference)
    assert (verdicts["alike"] == "clearly worse") == clear


@pytest.mark.usefixtures("undrawn")
def test_points_that_say_nothing_are_said_to(bags):
    y = np.random.default_rng(3).normal(size=120)
    words = words_of(made(np.full(120, y.mean()), 0.0, 1.0, bags, y).html)
    assert "the points may say little about the label" in words


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    ("sd", "words"), [(0.3, "too narrow"), (9.0, "too wide"), (1.0, "as sure")]
)
def test_intervals_are_judged(bags, sd, words):
    y = stats.norm.ppf((np.arange(120) + 0.5) / 120)  # labels as normal as 120 can be
    assert words in words_of(made(np.zeros(120), 0.0, sd**2, bags, y).html)


@pytest.mark.usefixtures("undrawn")
def test_the_curve_of_a_bag_is_that_of_its_model(bags):
    sized = Sized.one([2.0, 1.0], [1.0, 0.1])
    p = sized.predict(bags.sizes, np.zeros((1, 120)), noise=[0.5])
    data = data_of(report.of_predictions({"a": p}, bags, np.ones(120)).html)
    grid = np.array(data["grid"], dtype=float)
    expected = 2 / (1 + grid) + 0.1 / (1 + 0.1 * grid)
    np.testing.assert_allclose(np.square(data["models"][0]["curves"][0]), expected, rtol=1e-4)


# ---------------------------------------------------------------- colours


def luminance(color):
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))


def contrast(a, b):
    low, high = sorted([luminance(a), luminance(b)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
def test_colours_have_contrast_enough(mode):
    pairs = re.findall(r"--(\w+): light-dark\((#\w{6}), (#\w{6})\);", STYLE)
    colors = {name: both[mode] for name, *both in pairs}
    for ground in ("ground", "raised"):
        for text in ("ink", "soft", "link", "good", "bad"):
            assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    for mark in ("s0", "s1", "s2", "s3", "s4", "q0", "q1", "q2", "noise"):
        assert contrast(colors[mark], colors["ground"]) >= 3.0, mark


@pytest.mark.parametrize("classes", [False, True])
def test_pictures_take_all_their_colours_from_the_style_sheet(bags, classes):
    y = np.random.default_rng(0).normal(size=120)
    if classes:
        labels = np.where(y > 0, "100 $ & $x_$", "東京 \x0b<b>")
        model = bagwise.ShrinkageClassifier(bagwise.KernelEmbedding(5, bandwidth=1.0)).fit(
            bags, labels
        )
        predictions = {name: model.predict_dist(bags) for name in "ab"}
        html = report.of_predictions(predictions, bags, labels).html
        assert ">100 $ &amp; $x_$</text>" in html
    else:
        html = made({"a": y, "b": -y}, 0.5, 1.0, bags, y).html
    pictures = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(pictures) == (11 if classes else 13)
    used = {name for svg in pictures for name in re.findall(r'(?:fill|stroke)="(.*?)"', svg)}
    known = {f"var(--{name})" for name in re.findall(r"--(\w+): light-dark", STYLE)}
    assert used <= known | {"none"}
    assert len(used) > 5
    styles = set(re.findall(r'class="key (\w+)"', html))
    assert styles
    assert all(f".{style}" in STYLE for style in styles)


def test_the_dots_of_a_picture_are_where_the_bags_are():
    bags = Bags.from_list([[[float(i)]] for i in range(6)])
    y = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 10.0])
    html = made(y, 0.0, 1.0, bags, y).html
    (path,) = re.findall(r'd="((?:M[\d.]+ [\d.]+h0){6})"', html)
    places = np.array(re.findall(r"M([\d.]+) ([\d.]+)h0", path), dtype=float)
    for axis in places.T:
        assert abs(np.corrcoef(axis, y)[0, 1]) > 0.9999


# ---------------------------------------------------------------- numbers behind the pictures


@pytest.mark.parametrize("sizes", [[1], [5, 5], [1, 94, 3], [10**6, 10**6], [1, 10**7], [2, 3]])
def test_every_size_is_in_a_bin(sizes):
    sizes = np.array(sizes, dtype=float)
    edges = size_edges(sizes)
    assert (np.diff(edges) > 0).all()
    assert edges[0] < sizes.min()
    assert edges[-1] > sizes.max()
    assert np.histogram(sizes, edges)[0].sum() == len(sizes)


@pytest.mark.parametrize(
    "labels", [[0.0, 0.0], [1e-300, 2e-300], [-1e12, 1e12], [1e9, 1e9 + 1], [1e20, 1e20]]
)
def test_every_label_is_in_a_bin(labels):
    edges = label_edges(np.array(labels))
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= min(labels) <= max(labels) <= edges[-1]


@pytest.mark.parametrize("high", [1.5, 7, 100, 12345, 1e8])
def test_ticks_of_sizes_are_whole(high):
    ticks, texts = size_ticks(0.5, high)
    assert 1 <= len(ticks) <= 9
    assert all(
        0.5 < tick <= high and tick == int(text.replace(",", ""))
        for tick, text in zip(ticks, texts, strict=True)
    )


def test_estimates_are_means_with_their_standard_errors():
    values = np.random.default_rng(0).exponential(size=50)
    found = Estimate.of(values)
    assert (found.value, found.error) == pytest.approx((values.mean(), stats.sem(values)))
    draws = np.sqrt(np.random.default_rng(1).choice(values, (4000, 50)).mean(axis=1))
    assert found.root().error == pytest.approx(draws.std(), rel=0.1)
    assert not Estimate.of([1.0]).clear


def test_folds_keep_the_shares_of_the_classes():
    second = np.repeat([0.0, 1.0], [30, 6])
    folds = make_folds(second, classes=True, folds=3, seed=0)
    assert [int(second[rows].sum()) for rows in folds] == [2, 2, 2]
    assert len(make_folds(second, classes=True, folds=50, seed=0)) == 6


def test_distances_to_others_leave_the_bag_itself_out(bags):
    far = Surroundings.of(bags, 0)
    assert far.distance(7) > 5 * far.distance(3)
    assert 7 not in far.nearest(3)
    assert 3 not in far.nearest(3)
    weighted = Bags.from_list([[[0.0], [9.0]], [[1.0]]], weights=[[1.0, 0.0], [1.0]])
    averages = Surroundings.of(weighted, 0).averages
    assert (averages[1] - averages[0]) * Surroundings.of(
        weighted, 0
    ).scaling.scale == pytest.approx(1.0)


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("weighted", [False, True])
def test_a_report_on_a_stream_has_the_scores_of_the_bags_in_memory(tmp_path, weighted):
    rng = np.random.default_rng(0)
    y = np.repeat(rng.uniform(1, 2, 24), 150)
    names = [f"bag {i:02}" for i in range(24)]
    columns = {"bag": np.repeat(names, 150), "x": rng.normal(0, y), "z": rng.normal(size=len(y))}
    columns |= {"y": y} | ({"w": rng.uniform(1, 2, len(y))} if weighted else {})
    shuffled = pa.table(columns).take(rng.permutation(len(y)))
    pq.write_table(shuffled, tmp_path / "a.parquet")
    roles = {"bag": "bag", "label": "y", "features": ["x", "z"]}
    roles |= {"weights": "w"} if weighted else {}
    model = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(8, bandwidth=1.0))
    found = [
        report.make(*read(tmp_path / "a.parquet", **roles), {"a": model}, folds=2, progress=False)
        for read in (Bags.from_parquet, Bags.scan_parquet)
    ]
    memory, stream = (made.scores["a"].rows for made in found)
    for one, other in zip(memory, stream, strict=True):
        assert other.pop("group") == one.pop("group")
        assert other == pytest.approx(one, rel=1e-8, abs=1e-8)
    assert "is from a sample" not in found[0].html
    assert "at most 100 points of each bag, drawn at random, 2,400 of 3,600" in found[1].html
    data = data_of(found[1].html)
    assert data["sizes"] == [150] * 24 and data["sampled"] == [100] * 24
    assert all(row[0] is None for rows in data["models"][0]["points"].values() for row in rows)
    if weighted:
        np.testing.assert_allclose(data["effective"], data_of(found[0].html)["effective"])


# ---------------------------------------------------------------- columns


@pytest.mark.usefixtures("undrawn")
def test_what_columns_add_is_what_a_linear_model_says():
    rng = np.random.default_rng(0)
    centers = rng.normal(size=(80, 3))
    bags = Bags.from_list(
        [center + 0.1 * rng.normal(size=(40, 3)) for center in centers],
        feature_names=["a", "b", "idle"],
        covariates=rng.normal(size=(80, 1)),
        covariate_names=["extra"],
    )
    y = 3 * centers[:, 0] + centers[:, 1] + bags.covariates[:, 0]
    model = {"a": bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(kernel="linear"))}
    html = report.make(bags, y, model, folds=2, progress=False, unused={"<b>": "text"}).html
    means = np.array([points.mean(axis=0) for points in bags])
    slopes = np.array([3.0, 1.0, 0.0, 1.0])
    columns = np.column_stack([means, bags.covariates])
    expected = np.abs(slopes * (columns - columns.mean(axis=0))).mean(axis=0)
    said = re.search(r'aria-label="Mean change by column: (.*?)\."', html)[1]
    found = dict(part.rsplit(" ", 1) for part in said.split(", "))
    for name, value in zip(["a", "b", "idle", "extra"], expected, strict=True):
        assert float(found[name].replace("−", "-")) == pytest.approx(value, abs=0.04)
    assert "From 80 bags drawn at random" in html
    data = data_of(html)
    model, rest = data["models"][0], {0: [], 1: []}
    assert len(model["columns"]) == 80
    for bag, rows in model["columns"].items():
        assert rows[0][0] == "the average point"
        added = sum(value for _, value in rows)
        rest[data["folds"][int(bag)]].append(model["mean"][int(bag)] - added)
    for baselines in rest.values():  # what is left is the prediction of the average bag
        np.testing.assert_allclose(baselines, np.mean(baselines), atol=0.01)
    assert "<strong>&lt;b&gt;</strong>: text" in html


@pytest.mark.usefixtures("undrawn")
def test_columns_have_histograms_in_which_bags_count_the_same():
    ones, many = np.zeros((1, 1)), np.ones((3, 1))
    bags = Bags.from_list([ones, many] * 10, feature_names=["u"])
    html = made(np.zeros(20), 0.0, 1.0, bags, np.random.default_rng(0).normal(size=20)).html
    assert 'aria-label="Histogram of u: 0 to 1.00, mean 0.500."' in html
    assert "What the columns add" not in html  # of predictions without their models
    wide = Bags.from_list([np.random.default_rng(i).normal(size=(3, 40)) for i in range(20)])
    html = made(np.zeros(20), 0.0, 1.0, wide, np.arange(20.0)).html
    assert html.count('aria-label="Histogram of x') == 30
    assert "10 of the 40 columns are left out" in html


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("values", [[0, 1], [5, 6], [1, 21], [-3, 400], [0.5, 0.7]])
def test_every_value_of_a_column_is_in_a_bar(values):
    bags = Bags.from_list([[[float(v)]] for v in values * 4])
    html = made(np.zeros(8), 0.0, 1.0, bags, np.arange(8.0)).html
    assert html.count('aria-label="Histogram of x0') == 1


@pytest.mark.usefixtures("undrawn")
def test_calibration_by_size_is_of_every_model(bags):
    y = np.random.default_rng(3).normal(size=120)
    means = {name: 0.1 * k * y for k, name in enumerate("abcdefg")}
    html = made(means, 0.0, 1.0, bags, y).html
    assert html.count("Calibration at every level") == 7
    assert "The table of scores by bag size also has b, a." in html
    head = Page(html).tables["Scores by bag size"][0]
    assert [name for name in head if name] == list("gfedcba")


@pytest.mark.usefixtures("undrawn")
def test_weights_of_points_are_mentioned():
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(4, 1)) for _ in range(20)]
    weighted = Bags.from_list(points, weights=[rng.uniform(1, 2, 4) for _ in range(20)])
    model = bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(5, bandwidth=1.0))
    page = report.make(weighted, rng.normal(size=20), {"a": model}, folds=2, progress=False).html
    assert "Points have weights" in page
    np.testing.assert_allclose(data_of(page)["effective"], weighted.effective_sizes, rtol=1e-5)
