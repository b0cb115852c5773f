"""Fits and predictions from disk are those from memory; memory does not grow with the rows."""

import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import cross_val_score

import dense_oracle
import stream_files
from bagwise import FourierEmbedding, KernelEmbedding
from bagwise.bags.bags import Bags
from bagwise.embedding import sums as embedding
from bagwise.embedding.sums import summarise, summarise_each
from bagwise.estimators.classifiers import (
    BayesianLogisticClassifier,
    BDRClassifier,
    ShrinkageClassifier,
)
from bagwise.estimators.conformal import Conformal
from bagwise.estimators.cross_validation import cross_val_predict_dist
from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
from bagwise.estimators.regressors import (
    BayesianLinearRegressor,
    BDRRegressor,
    FrequentistShrinkageRegressor,
    RBFNetworkRegressor,
    ShrinkageRegressor,
)
from bagwise.estimators.selection import tune
from bagwise.exceptions import InvalidBagsError
from bagwise.features.kernels import RBF
from bagwise.features.maps import FourierFeatures, LandmarkFeatures, Scaling, sample_points

ROLES = {"bag": "bag", "features": ["x", "z"]}
SCALING = Scaling.of(np.array([0.5, 1.0]), np.array([2.0, 0.7]))
LANDMARKS = LandmarkFeatures(RBF(0.8), SCALING, np.random.default_rng(2).normal(size=(6, 2)))


def both(tmp_path, rows=None, **roles):
    """The same bags on disk and in memory."""
    rows = stream_files.table() if rows is None else rows
    path = stream_files.write(tmp_path / "points.parquet", rows, files=2)
    return Bags.scan_parquet(path, **roles, batch_rows=101), Bags.from_parquet(path, **roles)


# ---------------------------------------------------------------- summaries


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("block", [None, 1, 5])
@pytest.mark.parametrize("weights", [None, "w"])
def test_summary_is_that_of_a_loop_over_bags(tmp_path, monkeypatch, order, block, weights):
    if block is not None:
        monkeypatch.setattr(embedding, "BLOCK_BYTES", block * 8 * 6)
    rows = stream_files.table(300, order=order)
    stream, bags = both(tmp_path, rows, **ROLES, weights=weights)
    stats = summarise(stream, LANDMARKS)
    phis = [
        dense_oracle.rbf((bag - SCALING.center) / SCALING.scale, LANDMARKS.landmarks, 0.8)
        for bag in bags
    ]
    cuts = bags.offsets[1:-1]
    parts = None if weights is None else np.split(bags.weights, cuts)
    mean, sizes, cov = dense_oracle.summary(phis, parts)
    assert_allclose(stats.mean, mean, rtol=1e-11, atol=1e-14)
    assert_allclose(stats.sizes, sizes, rtol=1e-12)
    assert_allclose(stats.within_cov, cov, rtol=1e-10, atol=1e-15)


class Shifted(LandmarkFeatures):
    """Features far from 0, whose spread within bags is small."""

    def __call__(self, points):
        return 1e-3 * super().__call__(points) + 1e4


def test_small_spread_within_bags_does_not_cancel(tmp_path):
    features = Shifted(LANDMARKS.kernel, SCALING, LANDMARKS.landmarks)
    stream, _ = both(tmp_path, **ROLES)
    expected = 1e-6 * summarise(stream, LANDMARKS).within_cov
    found = summarise(stream, features).within_cov
    # The features themselves are rounded to 1e-12, 3e-9 of their spread; squares of 1e8 would
    # leave nothing at all of a variance of 1e-7.
    assert_allclose(found, expected, atol=1e-7 * np.diag(expected).max())


def test_points_far_from_zero_have_the_covariance_that_they_have_in_memory(tmp_path):
    stream, bags = both(tmp_path, stream_files.table(offset=1e6), **ROLES)
    scaling = Scaling.of(np.array([1e6, 0.0]), np.array([100.0, 100.0]))
    features = LandmarkFeatures(RBF(1.0), scaling, LANDMARKS.landmarks)
    found, expected = summarise(stream, features), summarise(bags, features)
    assert np.diag(expected.within_cov).max() < 1e-3
    assert_allclose(found.within_cov, expected.within_cov, rtol=1e-10, atol=1e-16)
    assert_allclose(found.mean, expected.mean, rtol=1e-12)


def test_bags_of_one_point_have_no_covariance(tmp_path):
    rows = pa.table({"bag": np.arange(250), "x": np.arange(250.0), "z": np.ones(250)})
    stream, bags = both(tmp_path, rows, **ROLES)
    found = summarise(stream, LANDMARKS)
    assert found.within_cov is None
    assert_allclose(found.mean, summarise(bags, LANDMARKS).mean, rtol=1e-13)


def test_bags_of_equal_points_have_covariance_zero(tmp_path):
    ids = np.random.default_rng(0).permutation(np.arange(300) % 7)
    rows = pa.table({"bag": ids, "x": np.sin(ids), "z": np.cos(ids)})
    stream, _ = both(tmp_path, rows, **ROLES)
    assert_array_equal(summarise(stream, LANDMARKS).within_cov, 0.0)


def test_several_features_share_a_pass_if_there_is_room(tmp_path, monkeypatch):
    stream, bags = both(tmp_path, **ROLES)
    candidates = [LANDMARKS, FourierFeatures(SCALING, np.eye(2)), LANDMARKS]
    passes = []
    batches = type(stream).batches

    def counted(self, title):
        passes.append(title)
        return batches(self, title)

    monkeypatch.setattr(type(stream), "batches", counted)
    for room, n_passes in ((1 << 28, 1), (2 * 8 * 40 * 6, 2), (1, 3)):
        passes.clear()
        found = list(summarise_each(stream, candidates, together_bytes=room))
        assert len(passes) == n_passes
        for stats, features in zip(found, candidates, strict=True):
            expected = summarise(bags, features)
            assert_allclose(stats.mean, expected.mean, rtol=1e-12, atol=1e-14)
            assert_allclose(stats.within_cov, expected.within_cov, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("n", [1, 50, 900, 5000])
def test_the_same_points_are_drawn_as_in_memory(tmp_path, n):
    stream, bags = both(tmp_path, **ROLES)
    drawn = [sample_points(b, np.random.default_rng(3), n) for b in (stream, bags)]
    assert_array_equal(*drawn)


# ---------------------------------------------------------------- models

# Where the ridge's weights are hardly determined, rounding alone moves predictions by more.
MODELS = [
    ShrinkageRegressor(),
    ShrinkageRegressor(FourierEmbedding(20)),
    FrequentistShrinkageRegressor(KernelEmbedding(bandwidth=0.5)),
    RBFNetworkRegressor(KernelEmbedding(bandwidth=0.5)),
    BayesianLinearRegressor(KernelEmbedding(15, bandwidth=0.5)),
    BDRRegressor(KernelEmbedding(10, bandwidth=1.0), inference="laplace"),
    MeanEmbeddingRidge(KernelEmbedding(20, bandwidth=1.0), exact=False),
]
CLASSIFIERS = [
    ShrinkageClassifier(KernelEmbedding(15)),
    BDRClassifier(KernelEmbedding(5, bandwidth=1.0), inference="laplace"),
    BayesianLogisticClassifier(KernelEmbedding(10, bandwidth=0.5)),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_regressors_fit_and_predict_as_in_memory(tmp_path, model):
    (stream, y), (bags, _) = both(tmp_path, **ROLES, covariates=["age"], weights="w", label="y")
    expected = model.fit(bags, y).predict_dist(bags)
    found = model.fit(stream, y).predict_dist(stream)
    assert_allclose(found.mean, expected.mean, rtol=1e-8)
    assert_allclose(found.std, expected.std, rtol=1e-8)
    assert_array_equal(found.ids, bags.ids)
    assert_allclose(model.predict(bags), found.mean, rtol=1e-11)


@pytest.mark.parametrize("model", CLASSIFIERS, ids=lambda model: type(model).__name__)
def test_classifiers_fit_and_predict_as_in_memory(tmp_path, model):
    (stream, y), (bags, _) = both(tmp_path, **ROLES, label="wide")
    expected = model.fit(bags, y).predict_proba(bags)
    found = model.fit(stream, y).predict_proba(stream)
    assert_allclose(found, expected, rtol=1e-8)


def test_many_classes_fit_and_predict_as_in_memory(tmp_path):
    (stream, y), (bags, _) = both(tmp_path, **ROLES, label="y")
    three = np.array(["narrow", "some", "wide"])[np.digitize(y, [1.0, 2.0])]
    model = ShrinkageClassifier(KernelEmbedding(10, bandwidth=0.5), weight_var=10.0)
    expected = model.fit(bags, three).predict_proba(bags)
    assert_allclose(model.fit(stream, three).predict_proba(stream), expected, rtol=1e-8)


def test_the_order_of_rows_does_not_matter(tmp_path):
    predictions = []
    for order in ("sorted", "shuffled"):
        folder = tmp_path / order
        folder.mkdir()
        rows = stream_files.table(order="sorted")
        if order == "shuffled":
            rows = rows.take(np.random.default_rng(5).permutation(len(rows)))
        (stream, y), _ = both(folder, rows, **ROLES, label="y")
        landmarks = np.random.default_rng(0).normal(size=(12, 2))
        model = ShrinkageRegressor(KernelEmbedding(kernel=RBF(1.0), landmarks=landmarks)).fit(
            stream, y
        )
        found = model.predict(stream)
        predictions.append(found[np.argsort(stream.ids)])
    assert_allclose(*predictions, rtol=1e-8)


def test_searches_and_folds_take_streams(tmp_path):
    (stream, y), (bags, _) = both(tmp_path, **ROLES, label="y")
    grid = {"n_landmarks": [5, 10], "bandwidth": [1.0]}
    options = {"grid": grid, "progress": False}
    for more in ({"validation": (stream, y)}, {"cv": 3}):
        found = tune(ShrinkageRegressor(), stream, y, **more, **options)
        expected = tune(ShrinkageRegressor(), bags, y, **more, **options)
        assert found.params == expected.params
        assert_allclose(found.score, expected.score, rtol=1e-8)
    embedding = KernelEmbedding(10, bandwidth=1.0)
    model = ShrinkageRegressor(embedding)
    scores = [cross_val_score(model, some, y, cv=3) for some in (stream, bags)]
    assert_allclose(*scores, rtol=1e-8)
    model = BayesianLinearRegressor(embedding)
    found, expected = (cross_val_predict_dist(model, some, y, cv=3) for some in (stream, bags))
    assert_allclose(found.mean, expected.mean, rtol=1e-8)
    assert_allclose(found.std, expected.std, rtol=1e-8)
    found, expected = (Conformal(model).fit(some, y).predict_dist(some) for some in (stream, bags))
    assert_allclose(found.interval(0.9), expected.interval(0.9), rtol=1e-8)


def test_exact_double_sums_need_points_in_memory(tmp_path):
    (stream, y), (bags, _) = both(tmp_path, **ROLES, label="y")
    with pytest.raises(InvalidBagsError, match=r"MeanEmbeddingRidge\(exact=False\)"):
        MeanEmbeddingRidge().fit(stream, y)
    with pytest.raises(InvalidBagsError, match="the points of these bags stay on disk"):
        MeanEmbeddingRidge().fit(bags, y).predict(stream)


def test_constant_points_are_refused(tmp_path):
    rows = pa.table({"bag": [0, 1] * 100, "x": [0.1] * 200, "z": [7.3] * 200, "y": [0, 1] * 100})
    (stream, y), _ = both(tmp_path, rows, **ROLES, label="y")
    with pytest.raises(InvalidBagsError, match="every feature is constant"):
        ShrinkageRegressor().fit(stream, y)


# ---------------------------------------------------------------- memory

# One number per row would take 8 MB, all columns 32 MB.
N_ROWS = 1_000_000
PROGRAM = """
import sys, tracemalloc
import bagwise, pyarrow
import bagwise.bags.tables.reader
bagwise.bags.tables.reader.KEPT_BYTES = 0  # as if the file were longer than what is kept
model = bagwise.ShrinkageRegressor(
    bagwise.KernelEmbedding(8, bandwidth=1.0, landmarks="random")
)
options = {"bag": "bag", "label": "y", "progress": False, "batch_rows": 1 << 14}
bagwise.Bags.scan_parquet(sys.argv[1], **options)  # imports some 10 MB of modules
tracemalloc.start()
bags, y = bagwise.Bags.scan_parquet(sys.argv[1], **options)
print(tracemalloc.get_traced_memory()[1])
(points,) = model.embedding.candidates(bags)  # among them 16 MB of distances, for the median
tracemalloc.reset_peak()
bagwise.embedding.sums.summarise(bags, points)
print(tracemalloc.get_traced_memory()[1], pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 500, N_ROWS)
    columns = {f"x{j}": rng.normal(size=N_ROWS).astype(np.float32) for j in range(4)}
    rows = pa.table({"bag": ids, **columns, "y": np.sin(ids)})
    path = stream_files.write(tmp_path / "a.parquet", rows, row_group_size=N_ROWS)
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(path)], check=True, capture_output=True, text=True
    )
    scanning, pooling, arrow = map(int, done.stdout.split())
    assert scanning < 8 * N_ROWS
    assert pooling < 12 * N_ROWS
    assert arrow < 24 * N_ROWS


# ---------------------------------------------------------------- very many points


@pytest.mark.parametrize("model", [ShrinkageRegressor, BayesianLinearRegressor])
def test_bandwidths_that_are_tried_in_threads_are_those_of_one(monkeypatch, model):
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 60)
    bags = Bags.from_list([rng.normal(0, s, (50, 2)) for s in y])
    monkeypatch.setattr("bagwise.estimators.base.MANY_POINTS", 1000)
    found = []
    for n_threads in (1, 4):
        monkeypatch.setattr("joblib.cpu_count", lambda n=n_threads: n)
        found.append(model(KernelEmbedding(8)).fit(bags, y))
    assert found[0].bandwidth_ == found[1].bandwidth_
    assert_array_equal(found[0].predict(bags), found[1].predict(bags))
