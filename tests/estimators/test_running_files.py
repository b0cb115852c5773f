"""Running sums in a file: the same promises as a model."""

import datetime

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import bagwise
from bagwise import Bags, FourierEmbedding, KernelEmbedding
from bagwise.embedding.running import RunningSums
from bagwise.exceptions import SavedModelError

RNG = np.random.default_rng(0)
LEVEL = RNG.uniform(1, 2, 12)
POINTS = [RNG.normal(x, 0.4, (n, 2)) for x, n in zip(LEVEL, range(2, 14), strict=True)]
IDS = {
    "text": [f"bag ä{i}" for i in range(12)],
    "numbers": list(range(5, 17)),
    "tuples": [(i, f"x{i}", i % 2 == 0, i / 2) for i in range(12)],
    "times": np.arange(12).astype("M8[D]"),
}


def sums_of(ids, y=LEVEL, embedding=None, **more):
    bags = Bags.from_list(POINTS, ids=ids, feature_names=["a", "b"], **more)
    embedding = KernelEmbedding(4, bandwidth=1.0) if embedding is None else embedding
    classes = isinstance(y[0], str)
    model = (bagwise.ShrinkageClassifier if classes else bagwise.ShrinkageRegressor)(embedding)
    return model.fit(bags, y), model.sums(bags, y)


def assert_same(one, other):
    for name in vars(one):
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, name
            assert_array_equal(left, right, err_msg=name)
        elif name != "features":
            assert left == right, name


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("labels", ["numbers", "classes"])
def test_sums_come_back_bit_for_bit_and_go_on(tmp_path, kind, labels):
    y = LEVEL if labels == "numbers" else np.where(LEVEL > 1.5, "hoch", "tief")
    covariates = {"covariates": LEVEL[:, None] ** 2, "covariate_names": ["c"]}
    weights = [RNG.uniform(1, 2, len(points)) for points in POINTS]
    model, sums = sums_of(IDS[kind], y, **covariates, weights=weights)
    sums.add_bags(Bags.from_list([[[1.0, 2.0]]], ids=sums.ids[:1]), batch="monday")
    bagwise.save(sums, tmp_path / "s.bagwise")
    again = bagwise.load(tmp_path / "s.bagwise")
    assert isinstance(again, RunningSums)
    assert_same(sums, again)
    for each in (sums, again):
        each.add_bags(Bags.from_list([[[1.5, 2.5]]], ids=sums.ids[3:4]), batch="tuesday")
    assert_same(sums, again)
    loaded = tmp_path / "m.bagwise"
    bagwise.save(model, loaded)
    found, expected = bagwise.load(loaded).predict_dist(again), model.predict_dist(sums)
    what = "mean" if labels == "numbers" else "proba"
    assert_array_equal(getattr(found, what), getattr(expected, what))


def test_fourier_features_and_sums_without_labels(tmp_path):
    model, _ = sums_of(IDS["text"], embedding=FourierEmbedding(6, bandwidth=1.0))
    sums = model.sums(Bags.from_list(POINTS, ids=IDS["text"]))
    bagwise.save(sums, tmp_path / "s")
    again = bagwise.load(tmp_path / "s")
    assert again.labels is None and again.scatter is None
    assert_array_equal(model.predict(again), model.predict(sums))


def test_ids_that_no_file_can_hold_are_named(tmp_path):
    ids = [(i, datetime.date(2020, 1, 1)) for i in range(12)]
    _, sums = sums_of(ids)
    with pytest.raises(SavedModelError, match=r"ids holds .*date.*Make text of the ids first"):
        bagwise.save(sums, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_damage_is_seen(tmp_path):
    _, sums = sums_of(IDS["tuples"])
    path = tmp_path / "s.bagwise"
    bagwise.save(sums, path)
    data = path.read_bytes()
    for place in np.linspace(0, len(data) - 1, 60).astype(int):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(SavedModelError):
            bagwise.load(path)
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(SavedModelError, match="damaged"):
        bagwise.load(path)


FORGED = {
    "class": (lambda tree: tree["features"].update({"class": "Popen"}), "of class 'Popen'"),
    "missing": (lambda tree: tree.pop("counts"), "sums"),
    "more": (lambda tree: tree.update(code="print()"), "sums"),
    "names": (lambda tree: tree.update(feature_names=["a"]), "n_features"),
    "ids": (lambda tree: tree["ids"].update(dtype="object"), "ids"),
    "state": (lambda tree: tree.update(state="x"), "state"),
    "labels": (lambda tree: tree.update(labels=None), "labels"),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_no_sums_could_be_is_refused(tmp_path, monkeypatch, case):
    from bagwise.estimators.saving import container, saving

    change, match = FORGED[case]

    def forged(header, tensors, kind):
        change(header["sums"])
        return container.pack(header, tensors, kind)

    monkeypatch.setattr(saving, "pack", forged)
    _, sums = sums_of(IDS["text"])
    bagwise.save(sums, tmp_path / "s")
    with pytest.raises(SavedModelError, match=match):
        saving.load(tmp_path / "s")


def test_tensors_that_contradict_each_other_are_refused(tmp_path):
    for name, change, match in (
        ("sums", lambda a: a * np.nan, "not finite"),
        ("counts", lambda a: a * 0, "counts"),
        ("scatter", lambda a: a[:, :-1], "scatter"),
        ("labelled", lambda a: a[:-1], "labelled"),
        ("ids", lambda a: np.append(a[:-1], a[0]), "ids"),
    ):
        _, sums = sums_of(IDS["text"])
        setattr(sums, name, change(getattr(sums, name)))
        bagwise.save(sums, tmp_path / "s")
        with pytest.raises(SavedModelError, match=match):
            bagwise.load(tmp_path / "s")
