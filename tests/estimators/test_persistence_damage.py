"""Files that are no saved model, or no longer: one kind of error, which says what is the matter."""

import gzip
import hashlib
import json
import os
import pickle
import zipfile
from functools import cache

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save, save_file
from sklearn.base import clone

import bagwise
from bagwise import Bags, KernelEmbedding
from bagwise.estimators.saving import open_saved, read_header
from bagwise.estimators.saving.container import METADATA_KEY, NO_DIGEST, Reader, pack, unpack
from bagwise.exceptions import SavedModelError

RNG = np.random.default_rng(0)
LEVEL = RNG.uniform(1, 2, 12)
BAGS = Bags.from_list(
    [RNG.normal(level, 0.4, (5, 2)) for level in LEVEL],
    covariates=RNG.normal(size=(12, 1)),
    feature_names=["a", "b"],
)
SMALL = KernelEmbedding(3, bandwidth=1.0)
MODELS = {
    "bdr": bagwise.BDRClassifier(SMALL, inference="map"),
    "frequentist": bagwise.FrequentistShrinkageRegressor(SMALL, prior_scale=1.0),
    "bayesian": bagwise.BayesianLinearRegressor(
        bagwise.KernelEmbedding(3, kernel="additive-rbf", bandwidth=1.0)
    ),
    "fourier": bagwise.RBFNetworkRegressor(bagwise.FourierEmbedding(3, bandwidth=1.0)),
    "exact": bagwise.MeanEmbeddingRidge(second_level="gaussian"),
    "landmarks": bagwise.MeanEmbeddingRidge(bagwise.KernelEmbedding(3, bandwidth=1.0), exact=False),
    "many": bagwise.ShrinkageClassifier(SMALL, weight_var=1.0),
}

# Draws and classes, points that are kept, many heads: what the others keep is among that.
VARIED = {"bdr", "exact", "many"}
some_models = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.long] * (name not in VARIED)) for name in MODELS]
)


@cache
def fitted(name):
    three = np.digitize(LEVEL, np.quantile(LEVEL, [0.3, 0.7]))
    return clone(MODELS[name]).fit(BAGS, {"bdr": LEVEL > 1.5, "many": three}.get(name, LEVEL))


@pytest.fixture
def path(tmp_path):
    """A saved model."""
    bagwise.save(fitted("bdr"), tmp_path / "model.bagwise", summary={"n_bags": 12})
    return tmp_path / "model.bagwise"


def refused(path, text):
    for read in (bagwise.load, read_header, open_saved):
        with pytest.raises(SavedModelError, match=text) as caught:
            read(path)
        assert str(caught.value).count("\n") == 0


# ---- other files --------------------------------------------------------------------------------


def test_there_is_no_file(tmp_path):
    refused(tmp_path / "none", "there is no file .*none; expected a model saved by bagwise.save")
    refused(tmp_path, "is a folder; expected a file")
    refused("/dev/null", "/dev/null is no plain file")
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "is no plain file")  # and does not wait for somebody to write to it


def test_empty_text_and_short_files(tmp_path):
    for content, text in (
        (b"", "is damaged: it is empty"),
        (b"a,b\n", "is no saved bagwise model: it is no safetensors file"),
        (b"name,age\nanna,3\n" * 100, "is no saved bagwise model: it is no safetensors file"),
        ((5000).to_bytes(8, "little") + b"{", "it ends after 9 bytes, within its header"),
        ((2).to_bytes(8, "little") + b"{}", "a safetensors file of another program"),
        ((2).to_bytes(8, "little") + b"[]", "a safetensors file of another program"),
        ((2).to_bytes(8, "little") + b"{x", "its header is not JSON"),
        ((2).to_bytes(8, "little") + b"\xff\xff", "its header is not JSON"),
        (b"PAR1" + bytes(range(100, 200)), "it is a Parquet file"),
    ):
        (tmp_path / "f").write_bytes(content)
        refused(tmp_path / "f", text)


def test_pickles_zips_and_gzips(tmp_path):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "ran"),)

    (tmp_path / "a").write_bytes(pickle.dumps(Bomb(), protocol=4))
    refused(tmp_path / "a", "it is a pickle, which could run any code")
    with zipfile.ZipFile(tmp_path / "b", "w") as file:
        file.writestr("x", "y")
    refused(tmp_path / "b", "it is a zip file")
    (tmp_path / "c").write_bytes(gzip.compress(b"x"))
    refused(tmp_path / "c", "it is a gzip file")
    np.save(tmp_path / "d.npy", np.zeros(9))
    refused(tmp_path / "d.npy", "it is a NumPy array")
    assert not (tmp_path / "ran").exists()


def test_safetensors_of_another_program(tmp_path):
    save_file({"w": np.zeros(3)}, tmp_path / "a", {"format": "pt"})
    refused(
        tmp_path / "a", "is no saved bagwise model: it is a safetensors file of another program"
    )
    save_file({"w": np.zeros(3)}, tmp_path / "b", {METADATA_KEY: '{"format":"other"}'})
    refused(tmp_path / "b", "it is a safetensors file of another program")
    save_file({"w": np.zeros(3)}, tmp_path / "c", {METADATA_KEY: "[" * 100_000})
    refused(tmp_path / "c", "its header is not JSON")
    save_file({"w": np.zeros(3)}, tmp_path / "d", {METADATA_KEY: '{"a":' * 60 + "1" + "}" * 60})
    refused(tmp_path / "d", "its header is nested more than 40 deep")
    save_file({"w": np.zeros(3)}, tmp_path / "e", {METADATA_KEY: '{"a":1,"a":1}'})
    refused(tmp_path / "e", "its header is not JSON")
    save_file({"w": np.zeros(3)}, tmp_path / "f", {METADATA_KEY: '{"a":' + "9" * 5000 + "}"})
    refused(tmp_path / "f", "its header is not JSON")


def test_other_programs_can_read_the_numbers(path):
    tensors = load_file(path)
    head = fitted("bdr").head_
    np.testing.assert_array_equal(
        tensors["head.start.model.projection"], head.start.model.projection
    )
    with safe_open(path, "np") as file:
        header = json.loads(file.metadata()[METADATA_KEY])
    assert header["format"] == "bagwise model" and header["version"] == 2
    zeroed = path.read_bytes().replace(header["sha256"].encode(), NO_DIGEST.encode())
    assert hashlib.sha256(zeroed).hexdigest() == header["sha256"]


# ---- damage -------------------------------------------------------------------------------------


def test_truncated_anywhere(path):
    data = path.read_bytes()
    lengths = {*range(0, 64), *RNG.integers(0, len(data), 100).tolist(), len(data) - 1}
    for length in lengths:
        path.write_bytes(data[:length])
        with pytest.raises(SavedModelError, match=r"damaged: it (ends after|is empty)|is no saved"):
            bagwise.load(path)
    path.write_bytes(data + b"\0")
    refused(path, "its checksum does not match its content")


def test_any_flipped_bit_is_found(path):
    data = path.read_bytes()
    header = 8 + int.from_bytes(data[:8], "little")
    places = [*range(0, 120), *RNG.integers(0, header, 120), *RNG.integers(header, len(data), 60)]
    for place in places:
        broken = bytearray(data)
        broken[place] ^= 1 << int(RNG.integers(8))
        path.write_bytes(broken)
        with pytest.raises(SavedModelError):
            bagwise.load(path)


def test_spaces_that_change_nothing_but_the_checksum(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    path.write_bytes((length + 1).to_bytes(8, "little") + data[8:9] + b" " + data[9:])
    assert load_file(path)  # to other programs it is the same
    refused(path, "its checksum does not match its content")


def test_random_bytes(path):
    for length in (1, 8, 9, 100, 5000):
        path.write_bytes(RNG.bytes(length))
        with pytest.raises(SavedModelError):
            bagwise.load(path)


@pytest.mark.parametrize(
    ("version", "text"),
    [
        (3, "was saved by a newer bagwise, in format 3; expected format 2. Upgrade"),
        (1, "was saved by bagwise before its first release, in format 1; expected format 2"),
        (10**30, "was saved by a newer bagwise"),
        (0, "its format version is 0"),
        ("1", "its format version is '1'"),
        (True, "its format version is True"),
        (None, "its format version is None"),
    ],
)
def test_other_versions(version, text, path):
    container = unpack(str(path))
    path.write_bytes(pack(container.header | {"version": version}, container.tensors()))
    refused(path, text)


def rewrite(path, **layout):
    """Change the layout of the tensors in the header of safetensors, with a right checksum."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    header["head.start.w"] |= layout
    if "dtype" in layout and layout["dtype"] is None:
        header["head.start.w"] = 3
    text = json.dumps(header, separators=(",", ":")).encode()
    raw = len(text).to_bytes(8, "little") + text + data[end:]
    digest = json.loads(header["__metadata__"][METADATA_KEY])["sha256"].encode()
    zeroed = raw.replace(digest, NO_DIGEST.encode())
    path.write_bytes(raw.replace(digest, hashlib.sha256(zeroed).hexdigest().encode()))


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ({}, None),
        ({"dtype": "BF16"}, "tensor 'head.start.w' is of an unknown kind"),
        ({"dtype": ["F64"]}, "tensor 'head.start.w' is of an unknown kind"),
        ({"dtype": None}, "tensor 'head.start.w' is of an unknown kind"),
        ({"extra": 1}, "tensor 'head.start.w' is of an unknown kind"),
        ({"shape": [10**12]}, "more entries than the file has bytes"),
        ({"shape": [-1]}, "has impossible dimensions"),
        ({"shape": 3}, "has impossible dimensions"),
        ({"shape": [True]}, "has impossible dimensions"),
        ({"data_offsets": [0]}, "has impossible dimensions"),
        ({"data_offsets": [0, 10**15]}, r"it ends after .* of 1,000,\d+,\d+,\d+,\d+ bytes"),
        ({"shape": [4]}, "its tensors cannot be read"),
        ({"data_offsets": [0, 8]}, "its tensors cannot be read"),
        ({"dtype": "I64"}, "head.start.w is of dtype int64; expected float64"),
        ({"shape": [3, 1]}, r"head.start.w is of shape \(3, 1\); expected 1 dimensions"),
    ],
)
def test_tensors_that_do_not_fit_the_file(layout, text, path):
    rewrite(path, **layout)
    if text is None:
        bagwise.load(path)
        return
    with pytest.raises(SavedModelError, match=text):
        bagwise.load(path)


# ---- hostile files: the checksum is right -------------------------------------------------------

ODD = [None, True, -1, 0, 3, 2**70, 0.5, 1e300, "x", "C", "nan", [], [1, [2]], {}, {"class": "x"}]
ODD += [{"class": ["RBF"]}, {"class": "RBF", "bandwidth": "x"}, {"array": "C"}, {"array": 1}]
ODD += [{"float": "inf"}, {"float": [1]}, {"dtype": "O", "labels": [1]}, {"class": "os.system"}]


def places(tree, at=()):
    """Every place in JSON."""
    yield at
    items = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in items:
        if isinstance(value, dict | list) and value:
            yield from places(value, (*at, key))
        else:
            yield (*at, key)


def changed(tree, at, value):
    """JSON with another value at a place, or without it if the value is ..."""
    tree = json.loads(json.dumps(tree))
    if not at:
        return tree if value is ... else value
    inner = tree
    for key in at[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[at[-1]]
    else:
        inner[at[-1]] = value
    return tree


@some_models
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_header_does_harm(name, tmp_path):
    path = tmp_path / "m"
    bagwise.save(fitted(name), path)
    container = unpack(str(path))
    tensors = container.tensors()
    loaded = 0
    for at in places(container.header):
        if at[:1] in ((), ("format",), ("version",), ("sha256",)):
            continue
        value = ... if RNG.random() < 0.2 else ODD[RNG.integers(len(ODD))]
        path.write_bytes(_packed(changed(container.header, at, value), tensors))
        try:
            model, header = open_saved(path)
        except SavedModelError:
            continue
        loaded += 1
        header.to_dict()
        repr(model)
        _predict(model)
    assert loaded  # numbers may be others


def _packed(header, tensors):
    rest = {
        key: value for key, value in header.items() if key not in ("format", "version", "sha256")
    }
    return pack(json.loads(json.dumps(rest).replace("Infinity", "0")), tensors)


def _predict(model):
    try:
        model.predict_dist(BAGS)
    except (bagwise.BagwiseError, ArithmeticError):  # of numbers that are too large to square
        pass


@some_models
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_tensors_do_harm(name, tmp_path):
    path = tmp_path / "m"
    bagwise.save(fitted(name), path)
    container = unpack(str(path))
    tensors = container.tensors()
    for key, tensor in tensors.items():
        others = [np.zeros((0, *tensor.shape[1:])), np.zeros((*tensor.shape, 1)), tensor[:-1]]
        others += [np.zeros(()), np.zeros(10**5), np.zeros(tensor.shape, dtype=np.float16)]
        for other in others:
            if key.endswith("mode.theta") and other.dtype == tensor.dtype and other.ndim == 1:
                continue  # of any length, as nothing depends on it
            other = np.ascontiguousarray(other).reshape(other.shape)
            path.write_bytes(_packed(container.header, tensors | {key: other}))
            with pytest.raises(SavedModelError):
                bagwise.load(path)
        path.write_bytes(_packed(container.header, tensors | {key: np.full_like(tensor, 2)}))
        try:
            _predict(bagwise.load(path))
        except SavedModelError:
            pass
    path.write_bytes(_packed(container.header, tensors | {"more": np.zeros(1)}))
    refused_model(path, "the saved model's more is not part of this model")
    del tensors[min(tensors)]
    path.write_bytes(_packed(container.header, tensors))
    refused_model(path, "is missing; expected a tensor of that name")


def refused_model(path, text):
    with pytest.raises(SavedModelError, match=text):
        bagwise.load(path)


TABLE = {"a": 1.0}
MATERN = {"class": "Matern", "bandwidth": 1, "smoothness": 2}
DIAGNOSTICS = {"class": "Diagnostics", "rhat": TABLE, "ess_bulk": TABLE, "ess_tail": TABLE}
DIAGNOSTICS |= {"n_chains": 1, "n_draws": 1, "n_divergent": 0, "n_deep": 0, "steps_per_draw": 1.0}


@pytest.mark.parametrize(
    ("at", "value", "text"),
    [
        ("class", "os.system", "class is 'os.system'; expected one of RBFNetworkRegressor, "),
        ("class", "ShrinkageClassifier", "parameters is .* expected class_weight, covar"),
        ("class", "BDRRegressor", "parameters is"),
        ("columns.n_features", 3, "feature_names is of 2 columns; expected 3, as elsewhere"),
        ("columns.feature_names", ["a", "a"], "expected strings, no two the same"),
        ("learnt.features.centred", "both", "features.centred is 'both'; expected a bool, or"),
        ("learnt.features.centred", "deviations", "features is of 1 columns; expected 2, as elsew"),
        ("learnt.head.start.likelihood.class", "Logistic", "likelihood is logistic; expected prob"),
        ("learnt.diagnostics", DIAGNOSTICS, "diagnostics is not that of the draws"),
        ("learnt.diagnostics", DIAGNOSTICS | {"rhat": {}}, "of other parameters in each table"),
        ("learnt.classes", {"dtype": "int64", "labels": [1, 2, 3]}, "is 3 in number; expected two"),
        ("learnt.classes", {"dtype": "int64", "labels": [1, 1]}, "no two are the same"),
        ("learnt.classes", {"dtype": "int8", "labels": [1, 300]}, "labels that fit their dtype"),
        ("learnt.classes", {"dtype": "str1", "labels": ["aa", "b"]}, "labels that fit their dtype"),
        ("learnt.head.priors.names", ["noise", "weight_var"], "of other scales than its priors"),
        ("parameters.embedding.kernel", MATERN, "0.5, 1.5 or"),
        ("parameters.class_weight", [[1]], "pairs of a class and its weight"),
        ("parameters.random_state", 2**600, "a whole number, several or null"),
        (
            "parameters.embedding.n_landmarks",
            2**70,
            "is too large; expected a whole number of less than",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_parts_that_contradict_each_other(at, value, text, path):
    container = unpack(str(path))
    header = changed(container.header, ("model", *at.split(".")), value)
    path.write_bytes(_packed(header, container.tensors()))
    refused_model(path, text)


def test_kernels_within_kernels_without_end(path):
    container = unpack(str(path))
    kernel = {"class": "RBF", "bandwidth": 1.0}
    for _ in range(25):
        kernel = {"class": "Additive", "bandwidth": 1.0, "base": kernel}
    header = changed(container.header, ("model", "parameters", "embedding", "kernel"), kernel)
    path.write_bytes(_packed(header, container.tensors()))
    refused_model(path, "is nested too deeply; expected at most 10 levels")


def test_bytes_that_are_no_truth_values(tmp_path):
    assert save({"x": np.array([True])})  # the format has them
    data = np.array([7, 0], dtype=np.uint8).view(np.bool_)
    taken = Reader({"x": data}).take({"array": "C"}, "x", ("bool",), 1)
    assert taken.view(np.uint8).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda head: head["heads"].pop(), "head.heads.2.* is not part of this model"),
        (lambda head: head.update(heads={}), "head.heads is {}; expected a list"),
        (lambda head: head.update(heads=["a", "b", "c"]), "is not part of this model"),
        (lambda head: head["heads"].append(1.0), "head is of class float; expected ShrinkageHead"),
        (lambda head: head["heads"][1].update({"class": "LinearHead"}), "head.heads.1 is"),
        (lambda head: head.update({"class": "LinearHead"}), "head is of class 'LinearHead'; exp"),
    ],
)
def test_heads_of_many_classes_that_are_none(change, text, tmp_path):
    path = tmp_path / "m"
    bagwise.save(fitted("many"), path)
    container = unpack(str(path))
    header = json.loads(json.dumps(container.header))
    change(header["model"]["learnt"]["head"])
    path.write_bytes(_packed(header, container.tensors()))
    refused_model(path, text)
