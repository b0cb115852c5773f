"""PointwiseTransformer: a scikit-learn transformer of points, applied to bags of points.

scikit-learn turns whatever it transforms into one array, so its own ``make_pipeline`` cannot hand
bags through a scaler; the one here puts a ``PointwiseTransformer`` around it.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.validation import check_columns
from bagwise.estimators.embeddings import BagEmbedding, tags_of_bags
from bagwise.exceptions import BagwiseError

__all__ = ["BagPipeline", "PointwiseTransformer", "make_pipeline"]


class PointwiseTransformer(TransformerMixin, BaseEstimator):
    """Apply a scikit-learn transformer to every point, keeping bags, weights and covariates.

    The transformer is fitted on the points of all bags together, so a bag counts as much as it has
    points. Weights are passed on if the transformer's ``fit`` takes ``sample_weight``.

    Parameters
    ----------
    transformer : scikit-learn transformer
        Such as ``StandardScaler()`` or ``PCA(5)``. It is cloned, never fitted itself.

    Attributes
    ----------
    transformer_ : scikit-learn transformer
        The fitted clone.
    n_features_in_ : int
    feature_names_in_ : array of str
        Only if the bags have feature names.

    Examples
    --------
    >>> from sklearn.preprocessing import StandardScaler
    >>> bags = Bags.from_list([[[1.0], [2.0]], [[3.0]]])
    >>> PointwiseTransformer(StandardScaler()).fit_transform(bags).points.ravel().round(2)
    array([-1.22,  0.  ,  1.22])
    """

    def __init__(self, transformer: Any) -> None:
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit a clone of the transformer on the points of all bags; ``y`` is not used.

        Parameters
        ----------
        X : Bags or anything that ``as_bags`` takes
        y : ignored
            There is one label per bag, and the transformer sees points.
        """
        bags = as_bags(X)
        transformer = clone(self.transformer)
        if get_tags(transformer).target_tags.required:
            raise BagwiseError.because(
                f"{type(transformer).__name__} needs a label for every row",
                "a transformer of points, which have no labels: there is one per bag",
                "Choose one that needs none, such as PCA.",
            )
        weights = {} if bags.weights is None else _weight_argument(transformer, bags)
        self.transformer_ = transformer.fit(bags.points, **weights)
        self.n_features_in_ = bags.n_features
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if bags.feature_names is not None:
            self.feature_names_in_ = np.array(bags.feature_names, dtype=object)
        return self

    def transform(self, X: Any) -> Bags:
        """Return bags of transformed points."""
        check_is_fitted(self)
        bags = as_bags(X)
        names = getattr(self, "feature_names_in_", None)
        fitted_names = None if names is None else tuple(names)
        check_columns("feature", fitted_names, self.n_features_in_, bags)
        points = self.transformer_.transform(bags.points)
        return bags.with_points(points, feature_names=self._names_out(bags))

    def _names_out(self, bags: Bags) -> list[str] | None:
        """Ask the transformer for the new names; without an answer there are none."""
        if bags.feature_names is None or not hasattr(self.transformer_, "get_feature_names_out"):
            return None
        names = self.transformer_.get_feature_names_out(np.array(bags.feature_names, dtype=object))
        return [str(name) for name in names]

    def __sklearn_tags__(self) -> Any:
        return tags_of_bags(super().__sklearn_tags__())

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


class BagPipeline(Pipeline):
    """A Pipeline whose last step is an estimator of bagwise, with its ``predict_dist``.

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> from sklearn.preprocessing import StandardScaler
    >>> last = bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5))
    >>> model = bagwise.make_pipeline(StandardScaler(), last).fit(bags, y)
    >>> type(model).__name__, model.predict_dist(bags).interval(0.9).shape
    ('BagPipeline', (30, 2))
    """

    @available_if(lambda pipeline: hasattr(pipeline.steps[-1][1], "predict_dist"))  # type: ignore[untyped-decorator]
    def predict_dist(self, X: Any) -> Any:
        """Return the predictive distribution of the labels of bags X, transformed on the way."""
        return self.steps[-1][1].predict_dist(before_last(self, X))

    def __sklearn_tags__(self) -> Any:
        return tags_of_bags(super().__sklearn_tags__())


def before_last(pipeline: Pipeline, X: Any) -> Any:
    """Return bags as they reach the last step of a fitted Pipeline."""
    for _, step in pipeline.steps[:-1]:
        if step is not None and not isinstance(step, str):  # "passthrough"
            X = step.transform(X)
    return X


def make_pipeline(*steps: Any, memory: Any = None, verbose: bool = False) -> BagPipeline:
    """Make a Pipeline of bags: scikit-learn's transformers get every point, the model the bags.

    Like ``sklearn.pipeline.make_pipeline``, with a :class:`PointwiseTransformer` around each
    transformer, unless its tags say that it takes no tables of numbers (``two_d_array`` is False).
    What comes after an embedding gets its matrix, with a row per bag.

    Parameters
    ----------
    *steps : transformers, and an estimator of bagwise at the end; or an embedding and then
        whatever takes a matrix
    memory, verbose : as in ``sklearn.pipeline.make_pipeline``

    Examples
    --------
    >>> from bagwise import ShrinkageRegressor
    >>> from sklearn.preprocessing import StandardScaler
    >>> list(make_pipeline(StandardScaler(), ShrinkageRegressor()).named_steps)
    ['standardscaler', 'shrinkageregressor']
    """
    named, wrapped, are_bags = sklearn_pipeline(*steps).steps, [], True
    for name, step in named:
        wrapped.append((name, _of_bags(step) if are_bags else step))
        are_bags = are_bags and not isinstance(step, BagEmbedding)
    return BagPipeline(wrapped, memory=memory, verbose=verbose)


def _of_bags(step: Any) -> Any:
    """Return a step that takes bags: itself, or a transformer of points within one."""
    if step is None or isinstance(step, str) or not hasattr(step, "transform"):
        return step
    return PointwiseTransformer(step) if get_tags(step).input_tags.two_d_array else step


def _weight_argument(transformer: Any, bags: Bags) -> dict[str, Any]:
    takes_weights = has_fit_parameter(transformer, "sample_weight")
    return {"sample_weight": bags.weights} if takes_weights else {}
