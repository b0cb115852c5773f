"""Saved models: classes and parameters of every kind, and what cannot be saved."""

import datetime
import decimal
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from safetensors.numpy import load_file
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import (
    Bags,
    BayesianLinearRegressor,
    FourierEmbedding,
    KernelEmbedding,
    MeanEmbeddingRidge,
    RBFNetworkRegressor,
    ShrinkageClassifier,
)
from bagwise.estimators.saving import read_header
from bagwise.estimators.saving.container import unpack
from bagwise.exceptions import SavedModelError
from bagwise.features.kernels import RBF, Additive, Energy, Kernel, Linear, Matern
from bagwise.inference import NUTS, Priors

RNG = np.random.default_rng(0)
LEVEL = RNG.uniform(1, 2, 16)
BAGS = Bags.from_list([RNG.normal(level, 0.4, (6, 2)) for level in LEVEL])
SECOND = LEVEL > np.median(LEVEL)


@cache
def network():
    return RBFNetworkRegressor(KernelEmbedding(4, bandwidth=1.0)).fit(BAGS, LEVEL)


def round_trip(model, tmp_path, **options):
    bagwise.save(model, tmp_path / "model.bagwise", **options)
    return bagwise.load(tmp_path / "model.bagwise")


def with_params(**params):
    """A fitted model whose parameters were set afterwards: they wait for the next fit."""
    model = clone(network())
    embedding = model.embedding
    vars(model).update(vars(network()) | {"embedding": embedding})
    for name, value in params.items():
        setattr(embedding if hasattr(embedding, name) else model, name, value)
    return model


# ---- classes ------------------------------------------------------------------------------------

PAIRS = {
    "bool": np.array([False, True]),
    "int64": np.array([-3, 7]),
    "int8": np.array([0, 1], dtype=np.int8),
    "uint64": np.array([0, 2**63 - 1], dtype=np.uint64),
    "float64": np.array([0.1, np.inf]),
    "float32": np.array([0.1, 0.7], dtype=np.float32),
    "str": np.array(["no", "yes, ünder 🎈"]),
    "wide str": np.array(["a", "b"], dtype="<U30"),
    "object str": np.array(["a", "b"], dtype=object),
    "object int": np.array([1, 2], dtype=object),
    "object bool": np.array([False, True], dtype=object),
    "dates": np.array(["2024-01-01", "2025-01-01"], dtype="datetime64[D]"),
    "times": np.array([1, 2], dtype="timedelta64[ns]"),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_classes_of_every_type(kind, tmp_path):
    y = PAIRS[kind][SECOND.astype(int)]
    model = ShrinkageClassifier(KernelEmbedding(4, bandwidth=1.0), weight_var=1.0).fit(BAGS, y)
    loaded = round_trip(model, tmp_path)
    assert_array_equal(loaded.classes_, model.classes_, strict=True)
    assert [type(label) for label in loaded.classes_] == [type(label) for label in model.classes_]
    assert_array_equal(loaded.predict(BAGS), model.predict(BAGS), strict=True)


@pytest.mark.parametrize(
    "pair",
    [
        [datetime.date(2024, 1, 1), datetime.date(2025, 1, 1)],
        [decimal.Decimal(1), decimal.Decimal(2)],
        np.array([b"no", b"yes"]),
    ],
    ids=["date", "Decimal", "bytes"],
)
def test_classes_that_json_does_not_have(pair, tmp_path):
    y = [pair[int(second)] for second in SECOND]
    model = ShrinkageClassifier(KernelEmbedding(4, bandwidth=1.0), weight_var=1.0).fit(BAGS, y)
    with pytest.raises(SavedModelError, match=r"classes is .* expected .*truth value"):
        bagwise.save(model, tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (np.arange(16) * 3, np.arange(16) * 3),
        ([f"p{i}" for i in range(16)], [f"p{i}" for i in range(16)]),
        (np.linspace(0, 1, 16), np.linspace(0, 1, 16)),
        (
            [datetime.date(2024, 1, 1 + i) for i in range(16)],
            [f"2024-01-{1 + i:02}" for i in range(16)],
        ),
    ],
    ids=["int", "str", "float", "date"],
)
def test_ids_of_training_bags(ids, expected, tmp_path):
    bags = Bags(BAGS.points, BAGS.offsets, ids)
    loaded = round_trip(MeanEmbeddingRidge().fit(bags, LEVEL), tmp_path)
    assert loaded.bags_.ids.tolist() == np.asarray(expected).tolist()
    assert type(loaded.bags_.ids) is np.ndarray


def test_ids_that_nobody_gave_are_still_none(tmp_path):
    loaded = round_trip(MeanEmbeddingRidge().fit(BAGS[3:], LEVEL[3:]), tmp_path)
    assert type(loaded.bags_.ids) is type(BAGS.ids) is not np.ndarray
    assert loaded.bags_.ids.tolist() == list(range(3, 16))


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_points_of_every_layout(order, dtype, tmp_path):
    bags = Bags(np.array(BAGS.points, dtype=dtype, order=order), BAGS.offsets, BAGS.ids)
    model = MeanEmbeddingRidge(second_level="gaussian").fit(bags, LEVEL)
    loaded = round_trip(model, tmp_path)
    assert_array_equal(loaded.bags_.points, bags.points, strict=True)
    assert_array_equal(loaded.predict(BAGS), model.predict(BAGS), strict=True)


# ---- parameters ---------------------------------------------------------------------------------

VALUES = [
    ("kernel", RBF()),
    ("kernel", RBF(2)),
    ("kernel", Matern(bandwidth=0.1 + 0.2, smoothness=2.5)),
    ("kernel", Linear()),
    ("kernel", Energy()),
    ("kernel", Additive()),
    ("kernel", Additive(bandwidth=3.0, base=Matern())),
    ("kernel", Additive(base=Linear())),
    ("kernel", Additive(base=Additive(base=RBF(1e-300)))),
    ("penalty", 5e-324),
    ("penalty", np.float64(1 / 3)),
    ("penalty", np.float32(0.1)),
    ("penalty", 3),
    ("penalty", -0.0),
    ("penalty", np.inf),
    ("penalty", "no such word"),
    ("n_landmarks", None),
    ("n_landmarks", np.int64(2**62)),
    ("bandwidth", "auto"),
    ("standardize", np.True_),
    ("random_state", None),
    ("random_state", np.int32(4)),
    ("random_state", 2**127 + 1),
    ("random_state", [1, 2, 3]),
]


@pytest.mark.parametrize(("name", "value"), VALUES)
def test_parameters_of_every_kind(name, value, tmp_path):
    found = round_trip(with_params(**{name: value}), tmp_path)
    found = getattr(found.embedding, name, getattr(found, name, None))
    assert found == value
    if isinstance(value, float):
        assert found.hex() == float(value).hex()
    if name == "kernel":
        assert type(found) is type(value)


def test_settings_of_the_sampler_and_priors(tmp_path):
    model = bagwise.BDRRegressor(bagwise.KernelEmbedding(4, bandwidth=1.0), inference="map")
    model.fit(BAGS, LEVEL)
    model.set_params(
        inference=NUTS(chains=2, draws=7, warmup=0, target_accept=0.95, n_jobs=1, progress=False),
        priors=Priors(noise=1, weights=0.1, prior_scale=None, intercept=3.0),
    )
    loaded = round_trip(model, tmp_path)
    assert loaded.inference == model.inference and loaded.priors == model.priors


@pytest.mark.parametrize(
    "seed",
    [
        np.random.default_rng(3),
        np.random.RandomState(3),
        np.random.SeedSequence(3),
        np.random.MT19937(3),
    ],
    ids=lambda seed: type(seed).__name__,
)
def test_generators_are_not_saved_and_the_header_says_so(seed, tmp_path):
    model = with_params(random_state=seed)
    loaded = round_trip(model, tmp_path)
    assert loaded.embedding.random_state is None
    (note,) = read_header(tmp_path / "model.bagwise").notes
    assert note.startswith(f"embedding.random_state was a {type(seed).__name__}, which is not")
    assert_array_equal(loaded.predict(BAGS), model.predict(BAGS), strict=True)


def test_an_embedding_comes_back_with_all_its_parameters(tmp_path):
    points = np.asfortranarray(RNG.normal(size=(4, 2)).astype(np.float32))
    kernel = Additive(base=Matern(0.1 + 0.2))
    model = with_params(landmarks=points, kernel=kernel, random_state=[1, 2], output="shrunk")
    loaded = round_trip(model, tmp_path)
    found, expected = (clone(each.embedding).get_params() for each in (loaded, model))
    assert list(found) == list(expected)
    for name in found:
        assert_array_equal(found[name], expected[name], strict=name == "landmarks")
    assert loaded.embedding.landmarks.flags.f_contiguous
    assert set(load_file(tmp_path / "model.bagwise")) > {"parameters.embedding.landmarks"}


def test_the_other_embedding_comes_back(tmp_path):
    model = BayesianLinearRegressor(FourierEmbedding(6, bandwidth=2.0)).fit(BAGS, LEVEL)
    loaded = round_trip(model, tmp_path)
    assert type(loaded.embedding) is FourierEmbedding
    assert loaded.embedding.get_params() == model.embedding.get_params()


class MyEmbedding(KernelEmbedding):
    pass


@pytest.mark.parametrize("value", [MyEmbedding(), StandardScaler(), 30, KernelEmbedding], ids=repr)
def test_embeddings_that_cannot_be_saved(value, tmp_path):
    model = clone(network())
    vars(model).update(vars(network()) | {"embedding": value})
    text = r"parameters\.embedding is .* expected one of KernelEmbedding, FourierEmbedding"
    with pytest.raises(SavedModelError, match=text):
        bagwise.save(model, tmp_path / "m")


@pytest.mark.parametrize("weights", [{False: 1.0, True: 2}, {0: 1.0, 1: np.float64(2.5)}, {}])
def test_class_weights(weights, tmp_path):
    model = ShrinkageClassifier(KernelEmbedding(4, bandwidth=1.0), weight_var=1.0)
    model.fit(BAGS, SECOND).set_params(class_weight=weights)
    assert round_trip(model, tmp_path).class_weight == weights


class Mine(Kernel):
    pass


class OtherNetwork(RBFNetworkRegressor):
    pass


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("kernel", Mine(), r"embedding.kernel is Mine.*expected one of RBF, Matern, Linear"),
        ("kernel", object(), "parameters.embedding.kernel is <object"),
        ("penalty", 1j, "parameters.penalty is 1j; expected a number"),
        ("penalty", True, "parameters.penalty is True; expected a number"),
        ("penalty", 2**64, "expected a whole number of less than 64 bits"),
        ("landmarks", [["a"]], "parameters.embedding.landmarks is .* expected numbers of shape"),
        ("landmarks", None, "parameters.embedding.landmarks is None"),
        ("n_landmarks", 4.0, "parameters.embedding.n_landmarks is 4.0; expected a whole number"),
        ("standardize", 1, "parameters.embedding.standardize is 1; expected True or False"),
        ("random_state", "x", "embedding.random_state is 'x'; expected None, whole numbers or"),
    ],
)
def test_parameters_that_cannot_be_saved(name, value, text, tmp_path):
    with pytest.raises(SavedModelError, match=text):
        bagwise.save(with_params(**{name: value}), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# ---- what cannot be saved -----------------------------------------------------------------------


def derived():
    model = OtherNetwork()
    vars(model).update(vars(network()))
    return model


def tuned():
    grid = {"penalty": [1.0]}
    return bagwise.tune(clone(network()), BAGS, LEVEL, grid=grid, progress=False)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (RBFNetworkRegressor, "this RBFNetworkRegressor is not fitted; expected a fitted model"),
        (lambda: make_pipeline(StandardScaler(), network()), "a Pipeline cannot be saved; .*last"),
        (lambda: GridSearchCV(network(), {}), "a GridSearchCV cannot be saved; expected a fitted"),
        (lambda: OneVsRestClassifier(ShrinkageClassifier()), "OneVsRestClassifier cannot be saved"),
        (derived, "a OtherNetwork cannot be saved.* class derived from these"),
        (lambda: RBFNetworkRegressor, "a class RBFNetworkRegressor cannot be saved.*not its class"),
        (lambda: None, "a NoneType cannot be saved; expected a fitted RBFNetworkRegressor, "),
        (lambda: BAGS, "a Bags cannot be saved"),
        (
            lambda: bagwise.tune(
                clone(network()), BAGS, LEVEL, grid={"penalty": [1.0]}, progress=False
            ),
            r"a TuneResult cannot be saved.*Save TuneResult.estimator",
        ),
    ],
    ids=["unfitted", "pipeline", "search", "rest", "derived", "class", "None", "bags", "tune"],
)
def test_what_cannot_be_saved(make, text, tmp_path):
    with pytest.raises(SavedModelError, match=text):
        bagwise.save(make(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("extra", "text"),
    [
        ({"schema": [1]}, "schema is or holds a list"),
        ({"schema": {1: 2}}, "schema is or holds a dict with keys that are no strings"),
        ({"summary": {"a": {"b": np.nan}}}, "summary.a.b is or holds nan; expected .* finite"),
        ({"summary": {"a": object()}}, "summary.a is or holds <object"),
    ],
)
def test_schema_and_summary_must_be_json(extra, text, tmp_path):
    with pytest.raises(SavedModelError, match=text):
        bagwise.save(network(), tmp_path / "m", **extra)


def test_schema_and_summary_that_never_end(tmp_path):
    endless = {}
    endless["a"] = endless
    with pytest.raises(SavedModelError, match="holds nested too deeply"):
        bagwise.save(network(), tmp_path / "m", summary=endless)
    with pytest.raises(SavedModelError, match=r"take .* bytes; expected at most"):
        bagwise.save(network(), tmp_path / "m", summary={"a": "x" * 2**25})


@pytest.mark.parametrize("path", [None, 3, b"bytes", "", "a\0b"])
def test_paths_that_are_none(path):
    with pytest.raises(SavedModelError, match=r"the path is .* expected the path of a file"):
        bagwise.save(network(), path)
    with pytest.raises(SavedModelError, match=r"the path is .* expected the path of a file"):
        bagwise.load(path)


def test_loading_and_predicting_bring_no_jax(tmp_path):
    model = bagwise.BDRRegressor(bagwise.KernelEmbedding(4, bandwidth=1.0), inference="laplace")
    bagwise.save(model.fit(BAGS, LEVEL), tmp_path / "m.bagwise")
    code = """
import json, sys
import bagwise
bagwise.load(sys.argv[1]).predict_dist([[[1.0, 2.0]]]).interval(0.9)
print(json.dumps(sorted({name.split(".")[0] for name in sys.modules})))
"""
    source = str(Path(bagwise.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, tmp_path / "m.bagwise"],
        env=os.environ | {"PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=True,
    )
    assert {"jax", "numpyro", "matplotlib"} & set(json.loads(done.stdout)) == set()


# ---- the format ---------------------------------------------------------------------------------

HERE = Path(__file__).parents[1]


def test_a_file_of_version_1_is_refused_with_a_sentence():
    """Saved before the first release, when bags were scaled in another way."""
    with pytest.raises(SavedModelError, match=r"in format 1; .* Fit the model again"):
        bagwise.load(HERE / "saved" / "version-1.bagwise")


def test_the_document_names_every_part_of_a_file(tmp_path):
    text = (HERE.parent / "docs" / "format.md").read_text(encoding="utf-8")
    bagwise.save(network(), tmp_path / "m")
    header = unpack(str(tmp_path / "m")).header
    model = header["model"]
    for name in (*header, *model, *model["columns"], *model["learnt"]):
        assert f"`{name}`" in text, name
    assert f"version {header['version']}\n" in text.partition("\n")[0] + "\n"


OLDER = json.loads((HERE / "saved" / "0.2.0.json").read_text())


@pytest.mark.parametrize("name", OLDER)
def test_models_of_0_2_0_load_and_predict_what_they_did(name):
    model = bagwise.load(HERE / "saved" / f"0.2.0-{name}.bagwise")
    few, many = np.linspace(-2, 2, 5)[:, None], np.linspace(-1, 1, 30)[:, None]
    found = model.predict_dist([few, many])
    told = found.proba if hasattr(found, "proba") else [found.mean, found.std]
    np.testing.assert_allclose(told, OLDER[name], rtol=1e-9)
