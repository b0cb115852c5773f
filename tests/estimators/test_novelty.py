"""Novelty in predictions: of every kind of model, saved, streamed, summed and out of fold."""

import numpy as np
import pandas as pd
import pytest

import bagwise
from bagwise import Bags
from bagwise.estimators.embeddings import KernelEmbedding

EMBEDDING = KernelEmbedding(8, bandwidth=1.0)
MODELS = {
    "blr": bagwise.BayesianLinearRegressor(EMBEDDING),
    "shrinkage": bagwise.ShrinkageRegressor(EMBEDDING),
    "bdr": bagwise.BDRRegressor(EMBEDDING, inference="laplace"),
    "gp": bagwise.DistributionGPRegressor(EMBEDDING, center=False, inference="evidence"),
    "ridge": bagwise.MeanEmbeddingRidge(EMBEDDING, exact=False),
    "classes": bagwise.ShrinkageClassifier(EMBEDDING),
    "logistic": bagwise.BayesianLogisticClassifier(EMBEDDING),
}


def made(seed=0, n=80, place=0.0):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    points = [
        rng.normal(place + c, 1.0, (int(k), 1))
        for c, k in zip(y, rng.choice([1, 40], n), strict=True)
    ]
    return Bags.from_list(points, ids=[f"b{i}" for i in range(n)]), y


def labels(name, y):
    return y > 0 if name in ("classes", "logistic") else y


@pytest.fixture(scope="module", params=MODELS)
def fitted(request):
    bags, y = made()
    return request.param, MODELS[request.param].fit(bags, labels(request.param, y))


def test_bags_from_elsewhere_are_told_and_single_points_are_not(fitted):
    _, model = fitted
    like, far = (model.predict_dist(made(1, place=place)[0]) for place in (0.0, 9.0))
    small = like.sizes == 1
    assert np.mean(like.novelty[small] < 0.05) < 0.2
    assert np.mean(like.novelty < 0.05) < 0.15
    assert np.median(far.novelty[far.sizes > 1]) < 0.05
    np.testing.assert_array_equal(like.to_frame()["novelty"], like.novelty)
    np.testing.assert_array_equal(like[3:5].novelty, like.novelty[3:5])
    np.testing.assert_array_equal(like.at_size(7).novelty, like.novelty)


def test_saved_models_tell_the_same(fitted, tmp_path):
    _, model = fitted
    bagwise.save(model, tmp_path / "m.bagwise")
    again, bags = bagwise.load(tmp_path / "m.bagwise"), made(2)[0]
    np.testing.assert_array_equal(
        again.predict_dist(bags).novelty, model.predict_dist(bags).novelty
    )


def test_sums_and_folds_tell_it_too(fitted):
    name, model = fitted
    bags, y = made(3)
    expected = model.predict_dist(bags).novelty
    np.testing.assert_allclose(model.predict_dist(model.sums(bags)).novelty, expected)
    out = bagwise.cross_val_predict_dist(MODELS[name], bags, labels(name, y), cv=4, progress=False)
    assert out.novelty.shape == (80,)
    assert np.mean(out.novelty < 0.05) < 0.15


def test_a_stream_tells_the_same(tmp_path):
    bags, y = made(4)
    rows = np.repeat(np.arange(80), bags.sizes)
    frame = pd.DataFrame({"bag": rows, "x": bags.points[:, 0], "y": y[rows]})
    frame.to_parquet(tmp_path / "t.parquet")
    stream, labels = Bags.scan_parquet(tmp_path / "t.parquet", bag="bag", label="y")
    model = MODELS["shrinkage"].fit(stream, labels)
    memory, labels = Bags.from_parquet(tmp_path / "t.parquet", bag="bag", label="y")
    other = bagwise.ShrinkageRegressor(EMBEDDING).fit(memory, labels)
    np.testing.assert_allclose(
        model.predict_dist(stream).novelty, other.predict_dist(memory).novelty
    )


def test_exact_sums_and_few_bags_say_nothing():
    bags, y = made(5)
    model = bagwise.MeanEmbeddingRidge(KernelEmbedding(bandwidth=1.0), exact=True).fit(bags, y)
    assert model.predict_dist(bags).novelty is None
    few = bagwise.ShrinkageRegressor(KernelEmbedding(2, bandwidth=1.0)).fit(bags[:8], y[:8])
    prediction = few.predict_dist(bags)
    assert prediction.novelty is None and "novelty" not in prediction.to_dict()


def test_conformal_models_and_many_classes():
    bags, y = made(6)
    calibrated = bagwise.Conformal(bagwise.ShrinkageRegressor(EMBEDDING), cv=3).fit(bags, y)
    assert calibrated.predict_dist(bags)[:5].novelty.shape == (5,)
    three = np.digitize(y, [-0.5, 0.5])
    prediction = bagwise.ShrinkageClassifier(EMBEDDING).fit(bags, three).predict_dist(bags)
    assert prediction.to_frame()["novelty"].between(0, 1).all()
