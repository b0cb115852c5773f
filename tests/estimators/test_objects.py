"""Points of any kind, by a kernel of the user's.

The oracle: points of numbers written as text, with a function that reads them and is the Gaussian
kernel, are the same model as our own kernel on the numbers.
"""

import json
import pickle
from collections import Counter
from doctest import DocTestParser
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import bagwise
from bagwise import Bags, FourierEmbedding, KernelEmbedding, NetworkEmbedding
from bagwise.exceptions import BagwiseError, SavedModelError
from bagwise.features.kernels import RBF

N, WIDTH = 40, 1.3


def read(texts):
    return np.array([[float(x) for x in text.split()] for text in texts])


def gaussian(x, y):
    return np.exp(-0.5 * cdist(read(x), read(y), "sqeuclidean") / WIDTH**2)


def wider(x, y):
    return gaussian(x, y) ** 0.5


def data(seed=0):
    rng = np.random.default_rng(seed)
    y = rng.uniform(0.5, 2.0, N)
    arrays = [rng.normal(0, a, (rng.integers(2, 12), 2)).round(3) for a in y]
    landmarks = rng.normal(size=(8, 2)).round(3)
    return Bags.from_list(arrays), y, landmarks


def text(row):
    return " ".join(map(repr, row.tolist()))


def as_text(bags):
    return Bags.from_list([list(map(text, part)) for part in bags], weights=None)


def both(landmarks):
    """Return the embeddings that are to be the same."""
    own = KernelEmbedding(kernel=gaussian, landmarks=list(map(text, landmarks)))
    return own, KernelEmbedding(kernel=RBF(WIDTH), landmarks=landmarks, standardize=False)


def told(prediction):
    classes = hasattr(prediction, "proba")
    return prediction.proba if classes else np.array([prediction.mean, prediction.std])


MODELS = {
    "network": bagwise.RBFNetworkRegressor(),
    "frequentist": bagwise.FrequentistShrinkageRegressor(),
    "blr": bagwise.BayesianLinearRegressor(),
    "shrinkage": bagwise.ShrinkageRegressor(),
    "learnt prior": bagwise.ShrinkageRegressor(prior="learnt"),
    "bdr": bagwise.BDRRegressor(inference="laplace"),
    "ridge": bagwise.MeanEmbeddingRidge(exact=False),
    "gp": bagwise.DistributionGPRegressor(center=False),
    "shrinkage classes": bagwise.ShrinkageClassifier(),
    "gp classes": bagwise.DistributionGPClassifier(center=False),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_text_are_those_of_the_numbers_in_it(name, tmp_path):
    bags, y, landmarks = data()
    y = y > 1.2 if "classes" in name else y
    ours, oracle = (clone(MODELS[name]).set_params(embedding=e) for e in both(landmarks))
    texts = as_text(bags)
    ours.fit(texts, y)
    oracle.fit(bags, y)
    found, expected = ours.predict_dist(texts), oracle.predict_dist(bags)
    assert_allclose(told(found), told(expected), rtol=1e-6, atol=1e-8)
    assert_allclose(told(found.at_size(3)), told(expected.at_size(3)), rtol=1e-6, atol=1e-8)
    why, because = (m.explain(b[:1]) for m, b in ((ours, texts), (oracle, bags)))
    assert_allclose(why.points, because.points, rtol=1e-5, atol=1e-7)
    assert_allclose(why.landmarks, because.landmarks, rtol=1e-4, atol=1e-6)
    assert ours.landmarks_.listed() == list(map(text, landmarks))
    again = pickle.loads(pickle.dumps(ours))
    assert np.array_equal(told(again.predict_dist(texts)), told(found))
    bagwise.save(ours, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m", kernel=gaussian)
    assert np.array_equal(told(loaded.predict_dist(texts)), told(found))
    assert_allclose(loaded.explain(texts[:1]).points, why.points)
    assert_allclose(told(clone(loaded).fit(texts, y).predict_dist(texts)), told(found))


def test_exact_sums_over_pairs_of_objects(tmp_path):
    bags, y, _ = data()
    texts = as_text(bags)
    oracle = bagwise.MeanEmbeddingRidge(KernelEmbedding(kernel=RBF(WIDTH), standardize=False))
    model = bagwise.MeanEmbeddingRidge(KernelEmbedding(kernel=gaussian)).fit(texts, y)
    assert_allclose(model.predict(texts), oracle.fit(bags, y).predict(bags), rtol=1e-8)
    assert_allclose(model.explain(texts[:1]).points, oracle.explain(bags[:1]).points, rtol=1e-6)
    bagwise.save(model, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m", kernel=gaussian)
    assert np.array_equal(loaded.predict(texts), model.predict(texts))
    with pytest.raises(SavedModelError, match="has not the values"):
        bagwise.load(tmp_path / "m", kernel=wider)


def test_landmarks_are_distinct_objects_drawn_at_random():
    words = [["a", "b", "a", "a"], ["a", "c", "b"]]
    model = KernelEmbedding(kernel=letters).fit(words)
    assert sorted(model.features_.landmarks.listed()) == ["a", "b", "c"]
    with pytest.raises(BagwiseError, match="3 distinct objects for 4 landmarks"):
        KernelEmbedding(4, kernel=letters).fit(words)
    sets = [[{1, 2}, {3}], [{1}]]  # which have no hash
    assert KernelEmbedding(2, kernel=tanimoto).fit(sets).features_.n_outputs == 2


def letters(x, y):
    """Count the letters that two words share."""
    return [[float(sum((Counter(a) & Counter(b)).values())) for b in y] for a in x]


def tanimoto(x, y):
    return np.array([[len(a & b) / len(a | b) if a | b else 1.0 for b in y] for a in x])


def test_the_kernels_of_the_documentation_are_kernels():
    page = Path(__file__).parents[2] / "docs" / "method.md"
    if not page.exists():
        pytest.skip("the documentation is not here")
    found = {"np": np, "Counter": Counter}
    for example in DocTestParser().get_examples(page.read_text()):
        if example.source.startswith(("def spectrum", "def tanimoto")):
            exec(example.source, found)
    # abc is shared, bcd and bce are not
    assert_allclose(found["spectrum"](["abcd", "x"], ["abce"]), [[0.5], [0.0]])
    ones = np.array([[1, 1, 0], [1, 0, 0]])
    assert_allclose(found["tanimoto"](ones, ones), [[1.0, 0.5], [0.5, 1.0]])


def test_the_mean_embedding_is_the_average_of_the_kernel():
    words = [["cat", "dog", "cat"], ["act"], ["dog"]]
    weights = [[1.0, 2.0, 1.0], [1.0], [3.0]]
    embedding = KernelEmbedding(kernel=letters, landmarks=["cat", "god"])
    found = embedding.fit_transform(Bags.from_list(words, weights=weights))
    # c-a-t shares three letters with itself and none with g-o-d
    assert_allclose(found, [[0.5 * 3, 0.5 * 3], [3, 0], [0, 3]])


def test_folds_searches_and_calibration_of_objects(tmp_path):
    bags, y, landmarks = data()
    texts = as_text(bags)
    model = bagwise.ShrinkageRegressor(both(landmarks)[0])
    assert np.isfinite(cross_val_score(model, texts, y, cv=3)).all()
    assert np.isfinite(bagwise.cross_val_predict_dist(model, texts, y, cv=3).mean).all()
    grid = {"n_landmarks": [4, 6], "landmarks": ["random"]}
    found = bagwise.tune(model, texts, y, grid=grid, cv=3)
    assert found.estimator.features_.n_outputs in (4, 6)
    conformal = bagwise.Conformal(model).fit(texts, y)
    bagwise.save(conformal, tmp_path / "c")
    loaded = bagwise.load(tmp_path / "c", kernel=gaussian)
    assert_allclose(
        loaded.predict_dist(texts).interval(0.8), conformal.predict_dist(texts).interval(0.8)
    )


def test_sums_of_objects_are_added_to_and_saved(tmp_path):
    bags, y, landmarks = data()
    texts = Bags.from_list([p.listed() for p in as_text(bags)], ids=[f"b{i}" for i in range(N)])
    model = bagwise.ShrinkageRegressor(both(landmarks)[0])
    model.partial_fit(texts, y)
    model.partial_fit(texts[:2].without_covariates(), batch="again")
    assert_allclose(model.partial_fit(model.sums(texts, y)).predict(texts), model.predict(texts))
    sums = model.sums(texts[:3])
    bagwise.save(sums, tmp_path / "s")
    loaded = bagwise.load(tmp_path / "s", kernel=gaussian)
    expected = model.predict(texts[:3])
    assert_allclose(model.predict_dist(loaded).mean, expected)
    loaded.add_bags(Bags.from_list([["0.5 0.5"]], ids=["b0"]))
    more = Bags.from_list([[*texts[0].listed(), "0.5 0.5"]])
    assert_allclose(model.predict_dist(loaded).mean[0], model.predict(more)[0])


NUMBERS = [[[0.0, 1.0], [1.0, 1.0]], [[1.0, 0.0]], [[2.0, 1.0], [0.5, 3.0]], [[3.0, 1.0]]]


def test_kernels_of_scikit_learn_see_points_as_they_are():
    from sklearn.metrics.pairwise import chi2_kernel

    bags = Bags.from_list(NUMBERS)
    embedding = KernelEmbedding(4, kernel="chi2").fit(bags)
    u = embedding.features_.landmarks
    assert all(row.tolist() in bags.points.tolist() for row in u)
    expected = [chi2_kernel(part, u).mean(axis=0) for part in bags]
    assert_allclose(embedding.transform(bags), expected)
    with pytest.raises(BagwiseError, match=r"chi2.*refuses these points"):
        KernelEmbedding(kernel="chi2").fit(bags.with_points(-bags.points))
    with pytest.raises(BagwiseError, match="a kernel: no negative eigenvalues"):
        KernelEmbedding(kernel="additive_chi2").fit(bags)


def test_a_function_on_numbers_gets_arrays():
    def fingerprints(x, y):
        assert isinstance(x, np.ndarray) and x.shape[1] == 2
        shared = x @ y.T
        return shared / (np.sum(x**2, 1)[:, None] + np.sum(y**2, 1) - shared)

    rng = np.random.default_rng(0)
    bags = Bags.from_list([rng.integers(0, 2, (5, 2)) + np.array([1, 0]) for _ in range(20)])
    model = bagwise.ShrinkageRegressor(KernelEmbedding(kernel=fingerprints))
    y = np.array([part[:, 1].mean() for part in bags])
    model.fit(bags, y)
    assert np.corrcoef(model.predict(bags), y)[0, 1] > 0.9
    why = model.explain(bags[:1])
    assert_allclose(why.baseline + why.points.sum(), why.prediction)
    with pytest.raises(BagwiseError, match="whose slope is not known"):
        why.columns  # noqa: B018


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x, y: np.ones(len(x)), r"shape \(3,\) and dtype float64; expected real numbers"),
        (lambda x, y: np.full((len(x), len(y)), np.nan), "is nan between point 0 and point 0"),
        (lambda x, y: np.ones((len(x), len(y))), "is 1 between any two of 3 landmarks"),
        (lambda x, y: [[i - 2.0 * j for j in range(len(y))] for i in range(len(x))], "the other"),
        (lambda x, y: [[float(a != b) for b in y] for a in x], "an eigenvalue -1"),
        (lambda x, y: [["k" for _ in y] for _ in x], "dtype <U1"),
        ("nope", "kernel is 'nope'; expected a Kernel, a function"),
    ],
)
def test_what_is_no_kernel_is_refused(kernel, message):
    with pytest.raises(BagwiseError, match=message):
        KernelEmbedding(3, kernel=kernel).fit([["a", "b"], ["c", "d"]])


@pytest.mark.parametrize(
    "embedding",
    [KernelEmbedding(), KernelEmbedding(kernel="auto"), FourierEmbedding(), NetworkEmbedding()],
)
def test_models_of_numbers_refuse_objects(embedding):
    model = bagwise.ShrinkageRegressor(embedding)
    with pytest.raises(BagwiseError, match="the points are objects, such as 'a'"):
        model.fit([["a", "b"], ["c"]], [1.0, 2.0])


def test_a_model_is_asked_for_points_of_its_kind():
    bags, y, landmarks = data()
    own, other = (bagwise.ShrinkageRegressor(e) for e in both(landmarks))
    texts = as_text(bags)
    with pytest.raises(BagwiseError, match="are numbers; expected objects, as in fit"):
        own.fit(texts, y).predict([[[1.0]]])
    with pytest.raises(BagwiseError, match="are objects; expected numbers, as in fit"):
        other.fit(bags, y).predict(texts)
    with pytest.raises(BagwiseError, match="'cosine' with points that are objects"):
        KernelEmbedding(kernel="cosine").fit(texts)
    with pytest.raises(BagwiseError, match="whose slope is not known"):
        bagwise.ShrinkageRegressor(KernelEmbedding(kernel=gaussian, learn="point_weights")).fit(
            texts, y
        )
    with pytest.raises(BagwiseError, match="convolved prior"):
        bagwise.ShrinkageRegressor(both(landmarks)[0], prior="convolved").fit(texts, y)
    with pytest.raises(BagwiseError, match="center"):
        bagwise.DistributionGPRegressor(both(landmarks)[0], center=True).fit(texts, y)


def test_files_ask_for_the_function_and_know_it_again(tmp_path):
    bags, y, landmarks = data()
    path, texts = tmp_path / "m", as_text(bags)
    model = bagwise.ShrinkageRegressor(both(landmarks)[0]).fit(texts, y)
    bagwise.save(model, path)
    with pytest.raises(SavedModelError, match=r"load\(path, kernel=gaussian\)"):
        bagwise.load(path)
    with pytest.raises(SavedModelError, match="has not the values"):
        bagwise.load(path, kernel=wider)
    with pytest.raises(SavedModelError, match=r"has not the values.*ValueError"):
        bagwise.load(path, kernel=lambda x, y: float("x"))
    bagwise.save(bagwise.ShrinkageRegressor().fit(bags, y), path)
    with pytest.raises(SavedModelError, match="no kernel of its user's"):
        bagwise.load(path, kernel=gaussian)


class Molecule:
    def __init__(self, name):
        self.name = name


SAVED = [
    "ab",
    b"\x00\xff",
    ("C", 1, 2.5, None, True),
    frozenset({"x", "y"}),
    {1, 2, 3},
    {"nodes": [0, 1], ("a", 1): {"deep": float("inf")}},
    [1, [2, "three"]],
    np.array([[1.5, 2.0]]),
    np.int8([1, 2]),
]


def equal(x, y):
    if isinstance(x, np.ndarray):
        return isinstance(y, np.ndarray) and x.dtype == y.dtype and np.array_equal(x, y)
    return type(x) is type(y) and x == y


def same_object(x, y):
    return np.array([[float(equal(a, b)) for b in y] for a in x])


def test_objects_are_saved_as_data(tmp_path):
    bags = Bags.from_list([SAVED, SAVED[:4], SAVED[5:]] * 4, objects=True)
    model = bagwise.ShrinkageRegressor(KernelEmbedding(kernel=same_object, landmarks=SAVED))
    model.fit(bags, np.arange(12.0))
    bagwise.save(model, tmp_path / "m")
    loaded = bagwise.load(tmp_path / "m", kernel=same_object)
    for x, y in zip(SAVED, loaded.landmarks_.listed(), strict=True):
        assert equal(x, y)
    for x, y in zip(SAVED, loaded.embedding.landmarks, strict=True):
        assert equal(x, y)
    header = json.dumps(bagwise.estimators.saving.read_header(tmp_path / "m").to_dict())
    assert "same_object" in header


def test_objects_that_are_no_data_are_refused(tmp_path):
    made = [[Molecule("a"), Molecule("bb")], [Molecule("ccc")], [Molecule("d")]]
    kernel = lambda x, y: [[float(len(a.name) * len(b.name)) for b in y] for a in x]  # noqa: E731
    model = bagwise.ShrinkageRegressor(KernelEmbedding(2, kernel=kernel)).fit(made, [1.0, 2.0, 3.0])
    with pytest.raises(SavedModelError, match=r"Molecule.*has no form as data.*before the fit"):
        bagwise.save(model, tmp_path / "m")


def test_explanations_and_pictures_name_the_objects():
    import matplotlib.pyplot as plt

    rng = np.random.default_rng(1)
    words = [rng.choice(["good", "bad", "fair"], rng.integers(3, 9)).tolist() for _ in range(40)]
    y = np.array([np.mean([w == "good" for w in bag]) for bag in words])
    model = bagwise.ShrinkageRegressor(KernelEmbedding(kernel=letters)).fit(words, y)
    why = model.explain(["good", "good", "bad"])
    assert why.top(1)[0][0] in (0, 1, 2) and "'" in why.lines()[1]
    assert_allclose(why.baseline + why.points.sum(), why.prediction)
    assert why.to_dict()["columns"] == {} and why.to_dict()["reference"] is None
    assert_allclose(why.witness(["good", "bad", "bad"]) / 3, why.points[[0, 2, 2]])
    assert model.explain(words, bag=3).size == len(words[3])
    figure = bagwise.plots.contributions(why)
    assert {t.get_text() for t in figure.axes[0].get_yticklabels()} == {"good", "bad"}
    with pytest.raises(BagwiseError, match="points, landmarks or covariates"):
        bagwise.plots.witness(why)
    bagwise.plots.embedding_map(model, words, y)
    plt.close("all")
