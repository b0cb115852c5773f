"""Predictions as data frames, in notebooks, and by the ids of the bags."""

import sys
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bagwise import Bags
from bagwise.exceptions import BagwiseError, UnknownBagError
from bagwise.likelihoods import Probit
from bagwise.predictions.classes import ClassPrediction
from bagwise.predictions.gaussian import Prediction, VarianceParts
from bagwise.predictions.joined import Piece, joined
from bagwise.predictions.metrics import evaluate
from bagwise.predictions.mixture import MixturePrediction

RNG = np.random.default_rng(0)
N = 7
IDS = np.array([f"<{name}>" for name in "abcdefg"])
SIZES = np.arange(1, N + 1)
MEANS = RNG.normal(size=(3, N))


def gaussian(ids=IDS):
    parts = VarianceParts.broadcast(N, bag=1.0 / SIZES, noise=0.5)
    return Prediction(MEANS[0], parts, sizes=SIZES, ids=ids)


def mixture(ids=IDS, noise=0.2):
    return MixturePrediction(MEANS, np.full(3, noise), sizes=SIZES, ids=ids)


def classes(ids=IDS):
    return ClassPrediction(mixture(ids, 0.0), Probit(), ["no", "yes"])


def folds(make):
    whole, rows = make(), np.arange(N)
    return joined([Piece(part, whole[part]) for part in (rows[::2], rows[1::2])])


KINDS = {
    "gaussian": gaussian,
    "mixture": mixture,
    "classes": classes,
    "folds": lambda: folds(gaussian),
    "folds of classes": lambda: folds(classes),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
OPEN = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}


def level_of(prediction):
    return getattr(prediction, "latent", prediction).mean


@every_kind
@pytest.mark.parametrize("library", OPEN)
def test_frames_hold_what_the_prediction_says(kind, library):
    p = KINDS[kind]()
    frame = p.to_frame(0.8, library=library)
    assert isinstance(frame, OPEN[library])
    rows = frame.to_pylist() if library == "pyarrow" else None
    rows = frame.to_dict("records") if library == "pandas" else rows
    rows = frame.to_dicts() if library == "polars" else rows
    assert [row["id"] for row in rows] == IDS.tolist()
    assert_allclose([(row["lower"], row["upper"]) for row in rows], p.interval(0.8))
    expected = list(p.to_dict()) + ["fold"] * ("folds" in kind)
    assert list(rows[0]) == expected
    if "folds" in kind:
        assert [row["fold"] for row in rows] == [0, 1, 0, 1, 0, 1, 0]
    if library == "pandas":
        assert isinstance(frame.index, pd.RangeIndex)
        assert p.to_frame(0.8).equals(frame)


@pytest.mark.parametrize("library", OPEN)
def test_ids_of_other_types(library):
    tuples = np.empty(N, dtype=object)
    tuples[:] = [("a", i) for i in range(N)]
    assert list(gaussian(tuples).to_frame(library=library)["id_1"]) == list(
        gaussian(np.arange(N)).to_frame(library=library)["id"]
    )
    days = np.array(pd.date_range("2020-01-01", periods=N).date, dtype=object)
    column = gaussian(days).to_frame(library=library)["id"]
    column = column.to_pylist() if library == "pyarrow" else list(column)
    assert column == days.tolist()
    assert list(gaussian(None).to_frame(library="polars")["id"]) == list(range(N))


def test_scores_are_frames_too():
    scores = evaluate(gaussian(), MEANS[1])
    assert scores.to_frame("pyarrow").to_pylist() == scores.rows
    assert scores.to_frame().to_dict("records") == scores.rows


def test_a_library_that_is_missing_or_unknown(monkeypatch):
    with pytest.raises(BagwiseError, match="library is 'excel'; expected \"pandas\" or"):
        gaussian().to_frame(library="excel")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(BagwiseError, match=r"polars is not installed.* pip install polars"):
        gaussian().to_frame(library="polars")


# ---- by id --------------------------------------------------------------------------------------


@every_kind
def test_bags_are_found_by_id(kind):
    p = KINDS[kind]()
    assert p["<c>"].ids.tolist() == ["<c>"] and level_of(p["<c>"]) == level_of(p)[2]
    assert_array_equal(level_of(p[["<g>", "<a>"]]), level_of(p)[[6, 0]])
    assert_array_equal(level_of(p[IDS[[1, 4]]]), level_of(p)[[1, 4]])
    assert_array_equal(level_of(p.bag("<c>")), level_of(p)[[2]])
    assert_array_equal(level_of(p[-1]), level_of(p)[[-1]])
    assert len(p[[]]) == len(p[:0]) == 0
    with pytest.raises(UnknownBagError, match=r"no bag has the id 'x'.*such as '<a>', '<b>'"):
        p["x"]


def test_integers_are_positions_and_tuples_are_ids():
    p = gaussian(np.arange(N)[::-1])
    assert p[0].mean == MEANS[0, 0] and p.bag(0).mean == MEANS[0, -1]
    with pytest.raises(UnknownBagError, match="'a' is asked for by its id, but these bags have no"):
        gaussian(None)["a"]
    tuples = [("a", i) for i in range(3)]
    bags = Bags.from_list([[[float(i)]] for i in range(3)], ids=tuples)
    assert bags["a", 1].tolist() == [[1.0]]
    assert bags[[("a", 2), ("a", 0)]].points.ravel().tolist() == [2.0, 0.0]
    assert bags[[2, 0]].points.ravel().tolist() == [2.0, 0.0]


# ---- notebooks ----------------------------------------------------------------------------------


class Page(HTMLParser):
    """Tags must nest, and none may load or run anything."""

    def __init__(self, html):
        super().__init__()
        self.open, self.tags, self.text = [], [], ""
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)
        names = {name for name, _ in attrs}
        assert tag not in ("script", "link", "img", "iframe") and not names & {"src", "href"}
        assert not any(name.startswith("on") for name in names)
        assert "background:#" not in str(attrs) and " color:#" not in str(attrs)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data + " "


@every_kind
def test_predictions_in_a_notebook(kind):
    p = KINDS[kind]()
    page = Page(p._repr_html_())
    assert "7 bags" in page.text and "and 2 more bags" in page.text
    assert page.tags.count("tr") == 6
    for name in p.to_frame().columns:
        assert name in page.text
    assert "<a>" in page.text and "<f>" not in page.text
    assert f"{level_of(p)[0]:.4g}" in page.text or "probability" in page.text
    assert "0 bags" in Page(p[:0]._repr_html_()).text


def test_bags_in_a_notebook():
    sizes = [1, 1, 2, 5, 200]
    bags = Bags.from_list(
        [np.zeros((n, 2)) + n for n in sizes],
        ids=["<i>", "b", "c", "d", "e"],
        feature_names=["x<1", "z"],
        covariates=np.ones((5, 1)),
        covariate_names=["age & sex"],
    )
    page = Page(bags._repr_html_())
    texts = [
        "5 bags, 209 points, 2 features, 1 covariate",
        "min 1, 25% 1, median 2, 75% 5, max 200",
    ]
    texts += ["<i>, b, c", "x<1, z", "age & sex", "2 bags of 1 to 1 points"]
    for text in texts:
        assert text in page.text, text
    assert page.tags.count("rect") == page.tags.count("title")
    Page(bags[:0]._repr_html_())
    Page(Bags.from_array(np.zeros((2, 3, 1)))._repr_html_())
    many = Bags.from_array(np.zeros((50, 3, 30)), feature_names=[f"f{i}" for i in range(30)])
    assert "and 18 more" in Page(many._repr_html_()).text
