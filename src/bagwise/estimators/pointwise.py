"""PointwiseTransformer: a scikit-learn transformer of points, applied to bags of points."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.checks import check_features_match


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
        check_features_match(fitted_names, self.n_features_in_, bags)
        points = self.transformer_.transform(bags.points)
        return bags.with_points(points, feature_names=self._names_out(bags, points))

    def _names_out(self, bags: Bags, points: Any) -> list[str] | None:
        """Ask the transformer for the new names; without an answer there are none."""
        if bags.feature_names is None or not hasattr(self.transformer_, "get_feature_names_out"):
            return None
        names = self.transformer_.get_feature_names_out(np.array(bags.feature_names, dtype=object))
        return [str(name) for name in names]

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _weight_argument(transformer: Any, bags: Bags) -> dict[str, Any]:
    takes_weights = has_fit_parameter(transformer, "sample_weight")
    return {"sample_weight": bags.weights} if takes_weights else {}
