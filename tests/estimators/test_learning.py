"""Features that are learnt with the labels, by every estimator that can."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from numpy.testing import assert_allclose
from scipy.optimize import minimize
from sklearn.base import clone

import bagwise
from bagwise import Bags, FourierEmbedding, KernelEmbedding, NetworkEmbedding
from bagwise.embedding.sums import summarise, weighed
from bagwise.estimators.embeddings import COVARIANCE_FLOOR
from bagwise.heads.learning import learning_problem
from bagwise.inference import Training
from bagwise.inference.learning import loss_of_bags, start
from bagwise.inference.training import Minibatches, TrainingData, Whole

# Most searches here are too short to gain anything.
pytestmark = pytest.mark.filterwarnings("ignore:learning gained nothing")

FEW = Training("bandwidth, ard, landmarks", epochs=3, batch_bags=8)


def bags_and_labels(n=40, seed=0):
    rng = np.random.default_rng(seed)
    level = rng.uniform(0.5, 2.0, n)
    sizes = rng.integers(2, 12, n)
    return Bags.from_list(
        [rng.normal(0, a, (m, 2)) for a, m in zip(level, sizes, strict=True)]
    ), level


def embedding(**options):
    return KernelEmbedding(5, bandwidth=1.0, **options)


REGRESSORS = {
    "network": bagwise.RBFNetworkRegressor(embedding(learn=FEW)),
    "frequentist": bagwise.FrequentistShrinkageRegressor(embedding(learn=FEW)),
    "blr": bagwise.BayesianLinearRegressor(embedding(learn=FEW)),
    "shrinkage": bagwise.ShrinkageRegressor(embedding(learn=FEW)),
    "bdr": bagwise.BDRRegressor(embedding(learn=FEW), inference="laplace"),
    "gp": bagwise.DistributionGPRegressor(embedding(learn=FEW)),
    "deep": bagwise.ShrinkageRegressor(NetworkEmbedding(4, hidden=(5,), learn=Training(epochs=3))),
}
CLASSIFIERS = {
    "shrinkage": bagwise.ShrinkageClassifier(embedding(learn=FEW)),
    "logistic": bagwise.BayesianLogisticClassifier(embedding(learn=FEW)),
    "gp": bagwise.DistributionGPClassifier(embedding(learn=FEW)),
}


# Each compiles the model that features are learnt by; those that share one with others are long.
LONG = ("frequentist", "bdr", "network")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LONG)) for name in REGRESSORS],
)
def test_regressors_learn_are_saved_and_explained(name, tmp_path):
    bags, y = bags_and_labels()
    model = clone(REGRESSORS[name]).fit(bags, y)
    assert model.history_.n_epochs >= 1 and np.isfinite(model.history_.validation).all()
    found = model.predict_dist(bags)
    assert np.isfinite(found.log_prob(y)).all()
    bagwise.save(model, tmp_path / "m.bagwise")
    again = bagwise.load(tmp_path / "m.bagwise")
    assert_allclose(again.predict(bags), found.mean, rtol=0, atol=0)
    assert again.history_ == model.history_
    assert again.get_params()["embedding"].training == model.embedding.training
    told = model.explain(bags, bag=0)
    assert_allclose(told.baseline + told.points.sum(), found.mean[0], rtol=1e-6)
    by_column = told.baseline + told.reference + told.columns.sum()
    assert_allclose(by_column, found.mean[0], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("shrinkage", [1.0, 1.5]),
        ("gp", [1.2]),
        pytest.param("shrinkage", [1.2], marks=pytest.mark.long),
        pytest.param("logistic", [1.2], marks=pytest.mark.long),
    ],
)
def test_classifiers_learn(name, edges):
    bags, y = bags_and_labels()
    model = clone(CLASSIFIERS[name]).fit(bags, np.digitize(y, edges))
    assert_allclose(model.predict_proba(bags).sum(axis=1), 1.0)
    assert model.history_.n_epochs >= 1


def test_a_column_that_says_nothing_is_learnt_to_be_scaled_down():
    rng = np.random.default_rng(0)
    y = rng.uniform(-1, 1, 150)
    bags = Bags.from_list(
        [np.column_stack([rng.normal(a, 0.3, 15), rng.normal(0, 1, 15)]) for a in y]
    )
    fixed = bagwise.ShrinkageRegressor(KernelEmbedding(25, bandwidth=0.5)).fit(bags, y)
    learn = Training("ard", epochs=40)
    learnt = bagwise.ShrinkageRegressor(KernelEmbedding(25, bandwidth=0.5, learn=learn)).fit(
        bags, y
    )
    scale = learnt.features_.scaling.scale / fixed.features_.scaling.scale
    assert scale[1] > 2.0 * scale[0]
    new = rng.uniform(-1, 1, 150)
    test = Bags.from_list(
        [np.column_stack([rng.normal(a, 0.3, 15), rng.normal(0, 1, 15)]) for a in new]
    )
    missed = [-m.predict_dist(test).log_prob(new).mean() for m in (fixed, learnt)]
    assert missed[1] < missed[0] - 0.05


def marked_bags(rng, n):
    """The label is the mean of the second column over points that are marked in the first."""
    points, labels = [], []
    for _ in range(n):
        marked, value = rng.random(20) < 0.15, rng.normal(rng.normal(), 1.0, 20)
        marked[0] = True
        points.append(np.column_stack([marked + 0.1 * rng.normal(size=20), value]))
        labels.append(value[marked].mean())
    return Bags.from_list(points), np.array(labels)


@pytest.mark.parametrize("engine", ["lbfgs", pytest.param("adam", marks=pytest.mark.long)])
def test_weights_of_points_find_those_that_matter_and_bags_are_as_small_as_they_are(engine):
    rng = np.random.default_rng(1)
    bags, y = marked_bags(rng, 200)
    test, new = marked_bags(rng, 200)
    plain = bagwise.ShrinkageRegressor(KernelEmbedding(10, kernel="linear")).fit(bags, y)
    learn = Training("point_weights", engine=engine, epochs=40, learning_rate=0.05)
    model = bagwise.ShrinkageRegressor(KernelEmbedding(10, kernel="linear", learn=learn)).fit(
        bags, y
    )
    assert 1.0 - model.score(test, new) < 0.5 * (1.0 - plain.score(test, new))
    sizes = model.predict_dist(test).sizes
    assert np.median(sizes) < 10  # of 20 points, some three of which are marked
    told = model.explain(test, bag=0)
    marked = test[0][:, 0] > 0.5
    assert told.shares[marked].min() > told.shares[~marked].max()
    assert_allclose(told.baseline + told.points.sum(), model.predict(test)[0], rtol=1e-8)
    heaviest, worth = int(np.argmax(told.shares)), sizes[0]
    assert f"row {heaviest} has the most, {told.shares[heaviest]:.0%} of all" in repr(told)
    assert f"worth {worth:.3g} points of equal weight" in repr(told)
    assert told.to_dict()["shares"] == told.shares.tolist()


def test_weighed_points_are_points_with_weights(tmp_path):
    """Sums with learnt weights are those of bags that have them, in memory and from a file."""
    bags, y = bags_and_labels()
    learn = Training("point_weights", epochs=2)
    model = bagwise.ShrinkageRegressor(embedding(learn=learn)).fit(bags, y)
    features = model.features_
    from dataclasses import replace

    given = replace(features, point_weights=np.linspace(-2.0, 3.0, features.n_outputs))
    with_weights, plain = weighed(bags, given), replace(given, point_weights=None)
    found, expected = summarise(bags, given), summarise(with_weights, plain)
    assert_allclose(found.mean, expected.mean, rtol=1e-10)
    assert_allclose(found.sizes, with_weights.effective_sizes, rtol=1e-10)
    assert_allclose(found.within_cov, expected.within_cov, rtol=1e-9)
    import pandas as pd

    frame = pd.DataFrame(bags.points, columns=["a", "b"])
    frame["bag"] = np.repeat(np.arange(bags.n_bags), bags.sizes)
    frame.sample(frac=1.0, random_state=0).reset_index(drop=True).to_parquet(
        tmp_path / "points.parquet"
    )
    stream = Bags.scan_parquet(tmp_path / "points.parquet", bag="bag")
    order = np.argsort(stream.ids)
    read = summarise(stream, given)
    assert_allclose(read.mean[order], found.mean, rtol=1e-10)
    assert_allclose(read.within_cov, found.within_cov, rtol=1e-9)


# ---------------------------------------------------------------- the way there


@pytest.mark.parametrize("engine", ["adam", pytest.param("lbfgs", marks=pytest.mark.long)])
def test_an_interrupted_search_goes_on_where_it_was(engine, tmp_path, monkeypatch):
    bags, y = bags_and_labels()
    learn = Training("ard, landmarks", engine=engine, epochs=6, batch_bags=8)
    whole = bagwise.ShrinkageRegressor(embedding(learn=learn)).fit(bags, y)
    path = tmp_path / "search"
    kept = Training("ard, landmarks", engine=engine, epochs=6, batch_bags=8, checkpoint=str(path))
    model = bagwise.ShrinkageRegressor(embedding(learn=kept))
    kind = {"lbfgs": Whole, "adam": Minibatches}[engine]
    epoch = kind.epoch

    def stopped(self, state, number):
        if number == 4:
            raise KeyboardInterrupt
        return epoch(self, state, number)

    monkeypatch.setattr(kind, "epoch", stopped)
    with pytest.warns(bagwise.BagwiseWarning, match="interrupted after 3 epochs"):
        model.fit(bags, y)
    assert model.history_.n_epochs == 3 and path.exists()
    monkeypatch.setattr(kind, "epoch", epoch)
    model.fit(bags, y)
    assert_allclose(model.history_.validation, whole.history_.validation, rtol=1e-12)
    assert_allclose(model.predict(bags), whole.predict(bags), rtol=1e-9)
    with pytest.raises(bagwise.BagwiseError, match="a checkpoint of other data"):
        model.fit(bags, y[::-1])
    path.write_bytes(b"nonsense")
    with pytest.raises(bagwise.BagwiseError, match="no checkpoint"):
        model.fit(bags, y)


def long_search(path=None):
    """Fit by a search of some seconds."""
    bags, y = bags_and_labels()
    learn = Training("ard, landmarks", engine="adam", epochs=200, patience=200, checkpoint=path)
    return bagwise.ShrinkageRegressor(embedding(learn=learn)).fit(bags, y)


@pytest.mark.long
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_process_that_is_stopped_or_killed_goes_on_to_the_same_losses(how, tmp_path):
    path = tmp_path / "search"
    code = f"import {__name__} as t; t.long_search({str(path)!r})"
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": paths},
        stderr=subprocess.PIPE,
        text=True,
    )
    while not path.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(how)
    _, said = process.communicate(timeout=120)
    if how == signal.SIGKILL:
        assert process.returncode == -signal.SIGKILL
    else:
        assert process.returncode == 0 and "learning was interrupted after" in said
    with np.load(path) as kept:
        reached = len(kept["validation"]) - 1
    whole = long_search()
    assert 1 <= reached < whole.history_.n_epochs
    again = long_search(str(path))
    assert again.history_.n_epochs == whole.history_.n_epochs
    assert_allclose(again.history_.train, whole.history_.train, rtol=1e-12)
    assert_allclose(again.history_.validation, whole.history_.validation, rtol=1e-12)
    assert_allclose(again.predict(bags_and_labels()[0]), whole.predict(bags_and_labels()[0]))


@pytest.mark.filterwarnings("ignore:learning of features diverged")
def test_a_rate_that_diverges_is_lowered_and_it_is_said():
    bags, y = bags_and_labels()
    learn = Training("landmarks", engine="adam", epochs=6, learning_rate=9.0, batch_bags=8)
    model = bagwise.ShrinkageRegressor(embedding(learn=learn))
    with pytest.warns(bagwise.BagwiseWarning, match=r"diverged: it goes on .* 0\.1 times"):
        model.fit(bags, y)
    assert np.isfinite(model.predict(bags)).all()
    assert max(model.history_.train) <= model.history_.train[0] + 1.0  # what diverged is not there


def test_bags_larger_than_a_batch_takes_are_of_the_size_that_was_drawn():
    bags, y = bags_and_labels()
    learn = Training("ard", engine="adam", epochs=2, bag_points=3, batch_bags=8)
    model = bagwise.ShrinkageRegressor(embedding(learn=learn)).fit(bags, y)
    assert_allclose(model.predict_dist(bags).sizes, bags.sizes)  # at the end, of all points


@pytest.mark.long
def test_grid_search_and_tune_reach_what_is_learnt():
    bags, y = bags_and_labels()
    model = bagwise.ShrinkageRegressor(embedding())
    found = bagwise.tune(
        model, bags, y, grid={"embedding__learn": [None, Training("ard", epochs=2)]}, cv=2
    )
    assert len(found.table) == 2


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (bagwise.ShrinkageRegressor(KernelEmbedding(5, learn="bandwith")), "none of bandwidth"),
        (bagwise.ShrinkageRegressor(KernelEmbedding(5, learn=3)), "names of what is learnt"),
        (bagwise.ShrinkageRegressor(KernelEmbedding(5, learn=Training())), "what is learnt"),
        (
            bagwise.ShrinkageRegressor(KernelEmbedding(5, kernel="linear", learn="bandwidth")),
            "this kernel has no bandwidth",
        ),
        (
            bagwise.ShrinkageRegressor(KernelEmbedding(5, learn="prior_length")),
            'use prior="convolved"',
        ),
        (
            bagwise.BayesianLinearRegressor(
                KernelEmbedding(5, learn=Training("ard", engine="adam"))
            ),
            "no sum over bags",
        ),
        (bagwise.MeanEmbeddingRidge(NetworkEmbedding(5), exact=False), "has no model for that"),
        (bagwise.ShrinkageRegressor(NetworkEmbedding(5, hidden=("a",))), "a width for each layer"),
        (bagwise.ShrinkageRegressor(NetworkEmbedding(5, learn="ard")), "for a network"),
    ],
)
def test_errors(model, message):
    bags, y = bags_and_labels()
    with pytest.raises(bagwise.BagwiseError, match=message):
        model.fit(bags, y)


def test_what_cannot_be_learnt_by_says_so(monkeypatch):
    bags, y = bags_and_labels()
    with pytest.raises(bagwise.BagwiseError, match="without labels"):
        embedding(learn="ard").fit(bags)
    unknown = embedding(learn=Training("ard", validation=(3, 77)))
    with pytest.raises(bagwise.BagwiseError, match="no bag has the id 77"):
        bagwise.ShrinkageRegressor(unknown).fit(bags, y)
    few = bags[:2], y[:2]
    with pytest.raises(bagwise.BagwiseError, match="at least 1 bag held out"):
        bagwise.ShrinkageRegressor(KernelEmbedding(2, bandwidth=1.0, learn="ard")).fit(*few)
    assert not hasattr(FourierEmbedding(), "learn") or FourierEmbedding().training is None
    monkeypatch.setitem(sys.modules, "optax", None)
    with pytest.raises(bagwise.BagwiseError, match=r'pip install "bagwise\[learn\]"'):
        bagwise.ShrinkageRegressor(embedding(learn="ard")).fit(bags, y)


@pytest.mark.parametrize(
    "given",
    [
        {"engine": "sgd"}, {"epochs": 0}, {"learning_rate": 0}, {"seed": -1},
        {"validation": 1.0}, {"validation": ()}, {"precision": "float16"}, {"bag_points": True},
    ],
)  # fmt: skip
def test_settings_are_checked(given):
    (name,) = given
    with pytest.raises(bagwise.BagwiseError, match=name):
        Training(**given)


@pytest.mark.parametrize("engine", [pytest.param("lbfgs", marks=pytest.mark.long), "adam"])
def test_bags_that_are_named_are_held_out_and_of_weight_0_used_for_nothing_else(engine, tmp_path):
    bags, y = bags_and_labels()
    named = Training("ard", engine=engine, epochs=3, batch_bags=8, validation=tuple(range(30, 40)))
    alone, other = np.repeat([1.0, 0.0], [30, 10]), np.where(np.arange(40) < 30, y, y[::-1])
    model = bagwise.ShrinkageRegressor(embedding(learn=named)).fit(bags, y, sample_weight=alone)
    again = clone(model).fit(bags, other, sample_weight=alone)
    # their labels tell when to end; what an epoch does, they have no part in
    assert_allclose(again.history_.train[1:], model.history_.train[1:], rtol=1e-9)
    assert not np.allclose(again.history_.validation, model.history_.validation)
    counted = clone(model).fit(bags, y)
    assert not np.allclose(counted.predict(bags), model.predict(bags))
    bagwise.save(model, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m").embedding.learn
    assert loaded == named


def test_learning_that_gains_nothing_says_so_and_leaves_features_alone(monkeypatch):
    bags, y = bags_and_labels()
    worse = lambda self, state, number: (state, 1.0, 100.0 + number)  # noqa: E731
    monkeypatch.setattr(Whole, "epoch", worse)
    model = bagwise.RBFNetworkRegressor(embedding(learn=FEW))
    with pytest.warns(bagwise.BagwiseWarning, match="learning gained nothing on 8 bags held out"):
        model.fit(bags, y)
    assert model.history_.best == 0
    fixed = bagwise.RBFNetworkRegressor(embedding()).fit(bags, y)
    assert_allclose(model.landmarks_, fixed.landmarks_)
    assert_allclose(model.predict(bags), fixed.predict(bags))


# ---------------------------------------------------------------- no bags held out


def weighed_model(**settings):
    learn = Training("point_weights", **settings) if settings else "point_weights"
    return bagwise.RBFNetworkRegressor(KernelEmbedding(4, kernel="linear", learn=learn))


def test_weights_of_points_alone_are_learnt_from_all_bags_to_the_mode():
    """SciPy, from the same start, finds no lower loss."""
    bags, y = marked_bags(np.random.default_rng(3), 60)
    fixed = bagwise.RBFNetworkRegressor(KernelEmbedding(4, kernel="linear")).fit(bags, y)
    model = weighed_model().fit(bags, y)
    told = model.history_
    assert told.validation == () and told.best == told.n_epochs
    assert told.end == "the loss fell no more"
    assert all(np.diff(told.train) <= 0.0)
    task = fixed.make_task(bags, y)
    with jax.enable_x64(True):
        problem = learning_problem(
            fixed.head_, fixed.features_, bags, task, ("point_weights",), COVARIANCE_FLOOR
        )
        none = np.zeros(0, dtype=np.int64)
        data = TrainingData(problem, bags, fixed.features_.scaling, Training(), none)
        begin, batch = start(problem), data.all_bags()
        basis = {"basis": begin.pop("basis")}
        flat, unravel = ravel_pytree(begin)
        both = jax.jit(
            jax.value_and_grad(lambda x: loss_of_bags(problem, unravel(x) | basis, batch)[0])
        )
        best = minimize(lambda x: tuple(map(np.asarray, both(x))), flat, jac=True, method="BFGS")
        first = float(both(flat)[0])
    assert_allclose(told.train[0], first, rtol=1e-6)
    assert_allclose(told.train[-1], best.fun, atol=2e-4)


def test_without_bags_held_out_it_is_saved_drawn_and_goes_on(tmp_path, monkeypatch):
    bags, y = marked_bags(np.random.default_rng(4), 40)
    whole = weighed_model(validation=0, epochs=5).fit(bags, y)
    bagwise.save(whole, tmp_path / "model.bagwise")
    again = bagwise.load(tmp_path / "model.bagwise")
    assert again.history_ == whole.history_ and again.history_.n_epochs == 5
    assert len(bagwise.plots.learning(again).lines) == 2  # the loss, and where it ended
    model = weighed_model(validation=0, epochs=5, checkpoint=str(tmp_path / "search"))
    epoch = Whole.epoch

    def stopped(self, state, number):
        if number == 3:
            raise KeyboardInterrupt
        return epoch(self, state, number)

    monkeypatch.setattr(Whole, "epoch", stopped)
    with pytest.warns(bagwise.BagwiseWarning, match="interrupted after 2 epochs"):
        model.fit(bags, y)
    assert model.features_.point_weights is not None  # those so far
    monkeypatch.setattr(Whole, "epoch", epoch)
    assert_allclose(model.fit(bags, y).history_.train, whole.history_.train, rtol=1e-12)
    assert_allclose(model.predict(bags), whole.predict(bags), rtol=1e-9)


def test_minibatches_without_bags_held_out_make_all_epochs():
    bags, y = marked_bags(np.random.default_rng(4), 40)
    model = weighed_model(validation=0, engine="adam", epochs=3, batch_bags=8).fit(bags, y)
    told = model.history_
    assert told.validation == () and told.best == told.n_epochs == 3
    assert np.isfinite(told.train).all() and told.train[0] != 0.0


@pytest.mark.parametrize(
    ("settings", "held_out"),
    [({"engine": "adam", "batch_bags": 8}, True), ({"validation": 0.3}, True), ({}, False)],
)
def test_when_bags_are_held_out(settings, held_out):
    bags, y = marked_bags(np.random.default_rng(4), 40)
    model = weighed_model(epochs=1, **settings).fit(bags, y)
    assert (model.history_.validation != ()) == held_out
