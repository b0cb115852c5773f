"""PointwiseTransformer against scikit-learn on the stacked points."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin, clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from bagwise.bags.bags import Bags
from bagwise.estimators.pointwise import PointwiseTransformer
from bagwise.exceptions import InvalidBagsError


@pytest.fixture
def bags():
    rng = np.random.default_rng(0)
    arrays = [rng.normal(5, 3, size=(n, 3)) for n in rng.integers(1, 9, size=20)]
    return Bags.from_list(
        arrays,
        weights=[rng.uniform(0.5, 1, len(a)) for a in arrays],
        covariates=rng.normal(size=(20, 1)),
        feature_names=["a", "b", "c"],
    )


class MeanOfMeans(RegressorMixin, BaseEstimator):
    """A stand-in for a model of bags: least squares on the bag means."""

    def fit(self, X, y):
        means = np.array([bag.mean(axis=0) for bag in X])
        self.coef_ = np.linalg.lstsq(means, y, rcond=None)[0]
        return self

    def predict(self, X):
        return np.array([bag.mean(axis=0) for bag in X]) @ self.coef_


class Doubler(TransformerMixin, BaseEstimator):
    """A transformer that knows nothing of weights or names."""

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return 2 * X


def test_it_is_the_transformer_on_stacked_points(bags):
    out = PointwiseTransformer(PCA(2)).fit_transform(bags)
    assert_allclose(out.points, PCA(2).fit_transform(bags.points), atol=1e-12)
    assert out.feature_names == ("pca0", "pca1")
    assert_array_equal(out.offsets, bags.offsets)
    assert_array_equal(out.ids, bags.ids)
    assert out.weights is bags.weights
    assert out.covariates is bags.covariates


def test_weights_are_passed_on_where_they_can_be(bags):
    scaler = PointwiseTransformer(StandardScaler()).fit(bags)
    oracle = StandardScaler().fit(bags.points, sample_weight=bags.weights)
    assert_allclose(scaler.transformer_.mean_, oracle.mean_)
    assert scaler.transform(bags).feature_names == ("a", "b", "c")


def test_new_bags_are_transformed_with_what_was_learnt(bags):
    scaler = PointwiseTransformer(StandardScaler()).fit(bags[:10])
    alone = scaler.transform(bags[15:16]).points
    assert_array_equal(alone, scaler.transform(bags[10:])[5])


def test_transformers_without_names(bags):
    out = PointwiseTransformer(Doubler()).fit(bags).transform(bags)
    assert out.feature_names is None
    assert_array_equal(out.points, 2 * bags.points)
    nameless = [np.ones((2, 3)), np.zeros((1, 3))]
    scaler = PointwiseTransformer(StandardScaler()).fit(nameless)
    assert scaler.transform(nameless).feature_names is None
    assert not hasattr(scaler, "feature_names_in_")


def test_contract(bags):
    original = StandardScaler()
    pointwise = PointwiseTransformer(original)
    with pytest.raises(NotFittedError):
        pointwise.transform(bags)
    before = bags.points.copy()
    assert pointwise.fit(bags) is pointwise
    assert not hasattr(original, "mean_")
    assert_array_equal(bags.points, before)
    assert pointwise.n_features_in_ == 3
    assert pointwise.feature_names_in_.tolist() == ["a", "b", "c"]
    assert clone(pointwise).get_params()["transformer__with_mean"] is True
    twin = pickle.loads(pickle.dumps(pointwise))
    assert_array_equal(twin.transform(bags).points, pointwise.transform(bags).points)
    pointwise.fit([np.ones((2, 1))])
    assert pointwise.n_features_in_ == 1
    assert not hasattr(pointwise, "feature_names_in_")


def test_other_columns_than_in_fit(bags):
    pointwise = PointwiseTransformer(StandardScaler()).fit(bags)
    swapped = bags.with_points(bags.points, ["b", "a", "c"])
    with pytest.raises(InvalidBagsError, match="are in another order than in fit"):
        pointwise.transform(swapped)
    with pytest.raises(InvalidBagsError, match="these bags have 2 features; expected 3, as in fit"):
        pointwise.transform([np.ones((2, 2))])


def test_a_transformer_that_makes_nans_is_caught(bags):
    log = PointwiseTransformer(FunctionTransformer(lambda x: np.where(x > 0, x, np.nan)))
    with pytest.raises(InvalidBagsError, match=r"bag \d+, row \d+, column . is nan"):
        log.fit(bags).transform(bags.with_points(bags.points - 5))


def test_in_pipelines_and_searches(bags):
    y = np.array([bag.mean() for bag in bags])
    model = make_pipeline(PointwiseTransformer(PCA(3)), MeanOfMeans())
    assert cross_val_score(model, bags, y, cv=4).shape == (4,)
    grid = {"pointwisetransformer__transformer__n_components": [1, 3]}
    search = GridSearchCV(model, grid, cv=3).fit(bags, y)
    assert search.predict(bags[:5]).shape == (5,)
