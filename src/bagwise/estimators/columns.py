"""Columns: what an estimator was fitted to, so that it can refuse bags of other columns."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.validation import check_columns


class TakesBags(BaseEstimator):
    """An estimator or transformer whose samples are bags."""

    n_features_in_: int

    def _keep_columns(self, bags: Bags) -> None:
        self.n_features_in_ = bags.n_features
        self._feature_names = bags.feature_names
        self._covariates = (bags.covariate_names, bags.n_covariates)
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit
        if bags.feature_names is not None:
            self.feature_names_in_ = np.array(bags.feature_names, dtype=object)

    def _check_bags(self, X: Any) -> Bags:
        bags = as_bags(X)
        check_columns("feature", self._feature_names, self.n_features_in_, bags)
        check_columns("covariate", *self._covariates, bags)
        return bags

    def __sklearn_tags__(self) -> Any:
        return tags_of_bags(super().__sklearn_tags__())


def tags_of_bags(tags: Any) -> Any:
    """Say of X that it is bags, and no table with a row per sample, so that nobody takes it so."""
    tags.input_tags.two_d_array = False
    tags.input_tags.three_d_array = True
    tags.input_tags.dict = True
    return tags
