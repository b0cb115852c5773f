"""Embeddings: a part of every estimator, and on their own transformers from bags to a matrix."""

import pickle

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

import bagwise
import dense_oracle
from bagwise import Bags, BagwiseError, FourierEmbedding, KernelEmbedding, ShrinkageRegressor
from bagwise.estimators.embeddings import COVARIANCE_FLOOR, qualified
from bagwise.exceptions import InvalidBagsError, SavedModelError
from bagwise.features.kernels import RBF
from contract_models import CLASSES, params_of
from error_cases import fails

ARRAYS, Y = dense_oracle.scale_bags(n_bags=40)
BAGS = Bags.from_list(ARRAYS)
NEW_ARRAYS, NEW_Y = dense_oracle.scale_bags(seed=1, n_bags=30)
U = np.array([[-1.5, 0.0], [0.0, 1.0], [1.5, 0.0], [0.5, -2.0]])
GIVEN = KernelEmbedding(landmarks=U, kernel=RBF(1.2), standardize=False)

every_embedding = pytest.mark.parametrize(
    "embedding", [KernelEmbedding(7), FourierEmbedding(8)], ids=["kernel", "fourier"]
)
every_output = pytest.mark.parametrize("output", ["mean", "shrunk", "shrunk+sd"])


def features_by_hand(arrays):
    """Kernel values at the landmarks of GIVEN, a table per bag."""
    return [dense_oracle.rbf(points, U, 1.2) for points in arrays]


# ---- what it returns ----------------------------------------------------------------------------


def test_the_mean_is_the_average_of_kernel_values():
    found = clone(GIVEN).fit(ARRAYS).transform(NEW_ARRAYS)
    expected = [phi.mean(axis=0) for phi in features_by_hand(NEW_ARRAYS)]
    assert_allclose(found, expected, rtol=1e-12)


def test_the_mean_of_fourier_features_has_the_kernel_for_an_inner_product():
    """⟨μ̂_i, μ̂_j⟩ is the average of k over the pairs of points."""
    embedding = FourierEmbedding(20_000, kernel=RBF(1.2), standardize=False).fit(ARRAYS)
    few = embedding.transform(ARRAYS[:5])
    pairs = [[dense_oracle.rbf(a, b, 1.2).mean() for b in ARRAYS[:5]] for a in ARRAYS[:5]]
    assert_allclose(few @ few.T, pairs, atol=0.03)


def test_shrunk_means_and_deviations_are_those_of_dense_matrices():
    embedding = clone(GIVEN).set_params(output="shrunk+sd").fit(ARRAYS)
    means, _, cov = dense_oracle.summary(features_by_hand(ARRAYS))
    cov += COVARIANCE_FLOOR * np.trace(cov) / len(U) * np.eye(len(U))
    R = embedding.prior_scale_ * dense_oracle.rbf(U, U, 1.2)
    m0 = means.mean(axis=0)
    found = embedding.transform(NEW_ARRAYS)
    for row, phi in zip(found, features_by_hand(NEW_ARRAYS), strict=True):
        gap, size = phi.mean(axis=0) - m0, len(phi)
        mean, C = dense_oracle.embedding_posterior(gap, size, cov, R, R, R)
        assert_allclose(row[:4], m0 + mean, rtol=1e-8)
        assert_allclose(row[4:], np.sqrt(np.diag(C)), rtol=1e-8)
    shrunk = clone(GIVEN).set_params(output="shrunk").fit(ARRAYS).transform(NEW_ARRAYS)
    assert_array_equal(shrunk, found[:, :4])


def test_the_prior_scale_is_the_most_likely_one():
    """Under η the means of the bags are normal, with covariance ηK + Σ/N."""
    embedding = clone(GIVEN).set_params(output="shrunk").fit(ARRAYS)
    means, sizes, cov = dense_oracle.summary(features_by_hand(ARRAYS))
    cov += COVARIANCE_FLOOR * np.trace(cov) / len(U) * np.eye(len(U))
    K = dense_oracle.rbf(U, U, 1.2)

    def log_likelihood(scale):
        return sum(
            multivariate_normal.logpdf(mean, means.mean(axis=0), scale * K + cov / size)
            for mean, size in zip(means, sizes, strict=True)
        )

    best = log_likelihood(embedding.prior_scale_)
    grid = embedding.prior_scale_ * np.exp(np.linspace(-4, 4, 33))
    assert max(map(log_likelihood, grid)) <= best + 1e-8
    assert log_likelihood(1.02 * embedding.prior_scale_) < best
    assert log_likelihood(0.98 * embedding.prior_scale_) < best


def test_small_bags_are_pulled_to_the_average_bag_and_less_is_known_of_them():
    embedding = KernelEmbedding(6, output="shrunk+sd").fit(ARRAYS)
    plain = KernelEmbedding(6).fit(ARRAYS)
    center = plain.transform(ARRAYS).mean(axis=0)
    large = ARRAYS[int(np.argmax([len(array) for array in ARRAYS]))]
    both = [large, np.tile(large, (100, 1))]
    little, much = embedding.transform(both)
    seen = plain.transform(both)[0]
    assert_allclose(much[:6], seen, atol=0.02)
    assert np.linalg.norm(little[:6] - center) < np.linalg.norm(seen - center)
    assert (little[6:] > much[6:]).all() and (much[6:] > 0).all()


def test_auto_is_the_median_heuristic_where_there_are_no_labels():
    expected = KernelEmbedding(6, bandwidth=1.0).fit_transform(ARRAYS)
    assert_array_equal(KernelEmbedding(6).fit_transform(ARRAYS, Y), expected)
    assert_array_equal(
        KernelEmbedding(6, kernel="linear", bandwidth="auto").fit_transform(ARRAYS),
        KernelEmbedding(6, kernel="linear").fit_transform(ARRAYS),
    )


@every_embedding
@every_output
def test_covariates_follow_the_embedding(embedding, output):
    embedding = clone(embedding).set_params(output=output)
    C = np.random.default_rng(0).normal(size=(40, 2))
    alone = embedding.fit_transform(BAGS)
    named = BAGS.with_covariates(C, ["age", "weight"])
    found = embedding.fit_transform(named)
    assert_array_equal(found, np.hstack([alone, C]))
    assert embedding.get_feature_names_out()[-2:].tolist() == ["age", "weight"]
    embedding.fit(BAGS.with_covariates(C))
    assert embedding.get_feature_names_out()[-2:].tolist() == ["covariate_0", "covariate_1"]
    with pytest.raises(InvalidBagsError, match="covariates"):
        embedding.transform(BAGS)


def test_weights_of_points_count():
    weights = [np.r_[np.ones(2), np.zeros(len(array) - 2)] for array in ARRAYS]
    embedding = clone(GIVEN).fit(ARRAYS)
    found = embedding.transform(Bags.from_list(ARRAYS, weights=weights))
    assert_allclose(found, embedding.transform([array[:2] for array in ARRAYS]), rtol=1e-12)


# ---- as a transformer of scikit-learn -----------------------------------------------------------


@every_embedding
@every_output
def test_names_of_the_columns(embedding, output):
    embedding = clone(embedding).set_params(output=output).fit(BAGS)
    names = embedding.get_feature_names_out()
    assert len(names) == len(set(names)) == embedding.transform(BAGS).shape[1]
    assert names[0] == ("landmark0" if isinstance(embedding, KernelEmbedding) else "wave0")
    assert sum(name.endswith("_sd") for name in names) == (output == "shrunk+sd") * len(names) / 2


@every_embedding
def test_pandas_on_request(embedding):
    plain = clone(embedding).fit(ARRAYS)
    frame = clone(embedding).set_output(transform="pandas").fit(ARRAYS).transform(BAGS)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == list(plain.get_feature_names_out())
    assert_array_equal(frame.to_numpy(), plain.transform(BAGS))


@every_embedding
@every_output
def test_contract(embedding, output):
    embedding = clone(embedding).set_params(output=output)
    with pytest.raises(NotFittedError):
        embedding.transform(ARRAYS)
    with pytest.raises(NotFittedError):
        embedding.get_feature_names_out()
    params = embedding.get_params()
    assert embedding.fit(BAGS) is embedding and embedding.get_params() == params
    expected = embedding.transform(BAGS)
    assert_array_equal(embedding.transform(ARRAYS), expected)
    assert_array_equal(clone(embedding).fit_transform(ARRAYS, Y), expected)
    assert_array_equal(pickle.loads(pickle.dumps(embedding)).transform(BAGS), expected)
    assert expected.dtype == np.float64 and len(expected) == 40
    assert set(vars(clone(embedding))) == set(params)
    assert embedding.n_features_in_ == 2 and not hasattr(embedding, "feature_names_in_")
    named = Bags.from_list(ARRAYS, feature_names=["a", "b"])
    assert clone(embedding).fit(named).feature_names_in_.tolist() == ["a", "b"]


def test_a_new_fit_forgets_and_a_parameter_waits_for_it():
    embedding = KernelEmbedding(5, output="shrunk+sd").fit(ARRAYS)
    before = embedding.transform(ARRAYS)
    embedding.set_params(output="mean")
    assert_array_equal(embedding.transform(ARRAYS), before)
    assert len(embedding.get_feature_names_out()) == 10
    assert_array_equal(
        embedding.fit(ARRAYS).transform(BAGS), KernelEmbedding(5).fit_transform(BAGS)
    )
    assert set(vars(embedding)) == set(vars(KernelEmbedding(5).fit(ARRAYS)))


@every_embedding
def test_tags_say_that_bags_go_in(embedding):
    tags = get_tags(embedding)
    assert not tags.input_tags.two_d_array and tags.input_tags.three_d_array
    assert tags.transformer_tags is not None and not tags.target_tags.required
    assert tags.transformer_tags.preserves_dtype == ["float64"] and tags.requires_fit


def test_another_seed_is_another_embedding():
    for embedding in (FourierEmbedding(6), KernelEmbedding(6, landmarks="random")):
        a, b, c = (clone(embedding).set_params(random_state=s).fit(ARRAYS) for s in (0, 0, 1))
        assert_array_equal(a.transform(ARRAYS), b.transform(ARRAYS))
        assert not np.allclose(a.transform(ARRAYS), c.transform(ARRAYS))


def test_streams_are_embedded_like_bags_in_memory(tmp_path):
    rows = pd.DataFrame(BAGS.points, columns=["a", "b"])
    rows.assign(bag=np.repeat(np.arange(40), BAGS.sizes)).to_parquet(tmp_path / "t.parquet")
    stream = Bags.scan_parquet(tmp_path / "t.parquet", bag="bag", progress=False)
    embedding = KernelEmbedding(5, output="shrunk+sd")
    assert_allclose(embedding.fit_transform(stream), embedding.fit_transform(BAGS), rtol=1e-9)


# ---- in pipelines -------------------------------------------------------------------------------


@pytest.mark.parametrize(("X", "new"), [(BAGS, Bags.from_list(NEW_ARRAYS)), (ARRAYS, NEW_ARRAYS)])
@every_embedding
def test_any_model_of_scikit_learn_on_top(X, new, embedding):
    model = make_pipeline(clone(embedding), HistGradientBoostingRegressor(min_samples_leaf=5))
    found = model.fit(X, Y).predict(new)
    matrix = clone(embedding).fit(X)
    by_hand = HistGradientBoostingRegressor(min_samples_leaf=5).fit(matrix.transform(X), Y)
    assert_array_equal(found, by_hand.predict(matrix.transform(new)))
    assert np.isfinite(cross_val_score(model, X, Y, cv=2)).all()


def test_ridge_on_the_embedding_is_the_network():
    pipeline = make_pipeline(KernelEmbedding(6), Ridge(alpha=0.1)).fit(ARRAYS, Y)
    embedding = KernelEmbedding(6, bandwidth=1.0)
    network = bagwise.RBFNetworkRegressor(embedding, penalty=0.1).fit(ARRAYS, Y)
    assert_allclose(pipeline.predict(NEW_ARRAYS), network.predict(NEW_ARRAYS), rtol=1e-7)


def test_steps_after_an_embedding_get_its_matrix():
    steps = (StandardScaler(), KernelEmbedding(6), StandardScaler(), RidgeCV())
    model = bagwise.make_pipeline(*steps).fit(ARRAYS, Y)
    assert [type(step).__name__ for _, step in model.steps] == [
        "PointwiseTransformer", "KernelEmbedding", "StandardScaler", "RidgeCV",
    ]  # fmt: skip
    scaled = make_pipeline(KernelEmbedding(6), StandardScaler(), RidgeCV()).fit(ARRAYS, Y)
    assert_allclose(model.predict(NEW_ARRAYS), scaled.predict(NEW_ARRAYS), rtol=1e-8)


def test_a_search_over_the_embedding_of_a_pipeline():
    pipeline = make_pipeline(KernelEmbedding(bandwidth=1.0), RidgeCV())
    grid = {"kernelembedding__n_landmarks": [2, 8], "kernelembedding__output": ["mean", "shrunk"]}
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(BAGS, Y)
    by_hand = clone(pipeline).set_params(**search.best_params_).fit(BAGS, Y)
    assert_array_equal(search.predict(NEW_ARRAYS), by_hand.predict(NEW_ARRAYS))


# ---- as a part of an estimator ------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_estimator_has_one_of_its_own(cls):
    one, other = cls(), cls()
    assert isinstance(one.embedding, KernelEmbedding)
    assert one.embedding is not other.embedding
    assert one.set_params(embedding__n_landmarks=5).embedding.n_landmarks == 5
    assert other.embedding.n_landmarks == "auto"
    twin = clone(one)
    assert twin.embedding is not one.embedding and params_of(twin) == params_of(one)
    assert cls(None).embedding.get_params() == other.embedding.get_params()
    mine = FourierEmbedding(4)
    assert cls(mine).embedding is mine


def test_a_fit_leaves_the_embedding_as_it_is():
    embedding = KernelEmbedding(5)
    ShrinkageRegressor(embedding, weight_var=1.0).fit(ARRAYS, Y)
    assert vars(embedding) == vars(KernelEmbedding(5))


def test_a_search_over_parameters_of_the_embedding():
    grid = {"embedding__n_landmarks": [1, 8], "embedding__bandwidth": [1.0]}
    model = bagwise.BayesianLinearRegressor()
    search = GridSearchCV(model, grid, cv=3, error_score="raise").fit(ARRAYS, Y)
    assert search.best_params_["embedding__n_landmarks"] == 8
    embedding = KernelEmbedding(8, bandwidth=1.0)
    by_hand = bagwise.BayesianLinearRegressor(embedding).fit(ARRAYS, Y)
    assert_array_equal(search.predict(NEW_ARRAYS), by_hand.predict(NEW_ARRAYS))
    kinds = {"embedding": [KernelEmbedding(6), FourierEmbedding(6)], "embedding__bandwidth": [1.0]}
    search = GridSearchCV(model, kinds, cv=2, error_score="raise").fit(ARRAYS, Y)
    assert type(search.best_estimator_.embedding) in (KernelEmbedding, FourierEmbedding)


def test_the_output_of_an_embedding_is_nothing_to_an_estimator():
    models = [
        bagwise.BayesianLinearRegressor(KernelEmbedding(5, output=output)).fit(ARRAYS, Y)
        for output in ("mean", "shrunk+sd")
    ]
    assert_array_equal(models[0].predict(NEW_ARRAYS), models[1].predict(NEW_ARRAYS))


def test_short_names_go_to_whoever_knows_them():
    bdr = bagwise.BDRRegressor()
    given = {"random_state": 1, "n_landmarks": 5, "embedding__kernel": "rbf", "no such": 0}
    assert qualified(bdr, given) == {
        "random_state": 1, "embedding__n_landmarks": 5, "embedding__kernel": "rbf", "no such": 0,
    }  # fmt: skip
    assert qualified(ShrinkageRegressor(), {"random_state": 1}) == {"embedding__random_state": 1}


# ---- errors -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("embedding", "params", "parts"),
    [
        (
            KernelEmbedding,
            {"output": "sd"},
            ["output is 'sd'", '"mean" or "shrunk" or "shrunk+sd"'],
        ),
        (KernelEmbedding, {"n_landmarks": 0}, ["n_landmarks is 0", "a whole number of at least 1"]),
        (FourierEmbedding, {"n_features": 2.5}, ["n_features is 2.5", "a whole number", "Fourier"]),
        (FourierEmbedding, {"n_features": True}, ["n_features is True", "FourierEmbedding(n_feat"]),
        (FourierEmbedding, {"bandwidth": -1.0}, ["bandwidth is -1.0", "> 0", "FourierEmbedding("]),
        (KernelEmbedding, {"bandwidth": "wide"}, ["bandwidth is 'wide'", "a number > 0 or 'auto'"]),
        (KernelEmbedding, {"kernel": "gauss"}, ["kernel is 'gauss'", "or one of rbf"]),
        (
            KernelEmbedding,
            {"landmarks": "fourier"},
            ["landmarks is 'fourier'", '"kmeans", "random"'],
        ),
        (
            KernelEmbedding,
            {"standardize": "no"},
            ["standardize is 'no'", "True or False", "Kernel"],
        ),
        (KernelEmbedding, {"random_state": -1}, ["random_state is -1", "a whole number"]),
    ],
    ids=str,
)
def test_bad_parameters(embedding, params, parts):
    fails(lambda: embedding().set_params(**params).fit(BAGS), *parts, error=BagwiseError)


def test_bags_of_one_point_cannot_be_shrunk():
    ones = [array[:1] for array in ARRAYS]
    assert KernelEmbedding(3).fit_transform(ones).shape == (40, 3)
    fails(
        lambda: KernelEmbedding(3, output="shrunk").fit(ones),
        "every bag has one point", "two points or more", 'Use output="mean"',
        error=InvalidBagsError,
    )  # fmt: skip


@every_embedding
def test_other_columns_than_in_fit(embedding):
    embedding = clone(embedding).fit(BAGS)
    fails(lambda: embedding.transform([np.ones((3, 5))]), "5", "2", error=InvalidBagsError)
    fails(lambda: embedding.transform(np.ones((3, 2))), "shape (3, 2)", "Bags", "Pass (X, groups)")


def test_an_embedding_alone_is_no_model_to_be_saved(tmp_path):
    with pytest.raises(SavedModelError, match="a KernelEmbedding cannot be saved"):
        bagwise.save(KernelEmbedding(4).fit(BAGS), tmp_path / "e")


def test_a_linear_kernel_has_a_landmark_along_each_column():
    """Features are then the scaled columns; more columns than landmarks leave these as they are."""
    points = np.concatenate(ARRAYS)
    features = KernelEmbedding(kernel="linear").fit(ARRAYS).features_
    scaled = (points - points.mean(axis=0)) / points.std(axis=0)
    assert_allclose(features(points), scaled, rtol=1e-10, atol=1e-12)
    assert KernelEmbedding(6, kernel="linear").fit_transform(ARRAYS).shape[1] == 6
    wide = [np.random.default_rng(i).normal(size=(4, 70)) for i in range(40)]
    assert KernelEmbedding(kernel="linear").fit_transform(wide).shape[1] == 60


@pytest.mark.parametrize("model", [bagwise.BayesianLinearRegressor, bagwise.RBFNetworkRegressor])
def test_a_linear_kernel_favours_no_direction(model):
    """Another basis of the columns, in which they vary as much, gives the same predictions."""
    rng = np.random.default_rng(3)
    points = rng.normal(size=(60, 8, 4))
    flat = points.reshape(-1, 4)
    points = (flat - flat.mean(axis=0)) @ np.linalg.inv(np.linalg.cholesky(np.cov(flat.T)).T)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    y = points.reshape(60, 8, 4).mean(axis=1) @ rng.normal(size=4) + rng.normal(0, 0.3, 60)
    found = []
    for each in (points, points @ turn):
        bags = each.reshape(60, 8, 4)
        fitted = model(KernelEmbedding(kernel="linear", standardize=False)).fit(bags, y)
        found.append(fitted.predict(bags))
    assert_allclose(found[0], found[1], rtol=1e-6, atol=1e-8)
