"""Standard distribution regression: kernel ridge regression on exact mean embeddings."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import as_bags
from bagwise.base import BagRegressor, bandwidths
from bagwise.double_sum import bag_gram, bag_norms
from bagwise.heads import MIN_NOISE, Moments
from bagwise.inference.ridge import RidgeProblem
from bagwise.kernels import Kernel, as_kernel
from bagwise.landmarks import sample_points
from bagwise.parameters import choice, flag, generator, number_or, positive
from bagwise.prediction import Prediction
from bagwise.scaling import Scaling
from bagwise.task import Task


class MeanEmbeddingRidge(BagRegressor):
    """Kernel ridge regression on mean embeddings, by exact double sums: the standard approach.

    K_ij = ⟨μ̂_i, μ̂_j⟩ (second_level="linear"), or exp(−‖μ̂_i − μ̂_j‖²/2s²) ("gaussian"), where
    ⟨μ̂_i, μ̂_j⟩ averages k(x, x') over all pairs of points of the two bags.

    Needs no landmarks, but time that grows with the square of the number of points: for more than
    some 100,000 use :class:`RBFNetworkRegressor`. Knows nothing of bag sizes; its predictive
    standard deviation is the leave-one-out error.

    Parameters
    ----------
    kernel, standardize, random_state
        As in :class:`RBFNetworkRegressor`.
    second_level : "linear" or "gaussian"
        Kernel between mean embeddings.
    bandwidth_scale : float
        Multiple of the median heuristic for k.
    second_scale : float
        s, as a multiple of the root of the median of ‖μ̂_i − μ̂_j‖²/2.
    penalty : float or "loo"
        λ of kernel ridge regression, for standardised labels.

    References
    ----------
    Szabó, Sriperumbudur, Póczos, Gretton (2016), Learning theory for distribution regression.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 50)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> model = MeanEmbeddingRidge(second_level="gaussian").fit(bags, y)
    >>> model.predict([rng.normal(0, 1.5, (1000, 1))]).round(1)
    array([1.5])
    """

    tuning_metric: ClassVar[str] = "mse"

    def __init__(
        self,
        *,
        kernel: Kernel | str = "rbf",
        second_level: str = "linear",
        bandwidth_scale: float = 1.0,
        second_scale: float = 1.0,
        penalty: float | str = "loo",
        standardize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.second_level = second_level
        self.bandwidth_scale = bandwidth_scale
        self.second_scale = second_scale
        self.penalty = penalty
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to bags X and labels y (n_bags,); sample_weight as in the other regressors."""
        bags = as_bags(X)
        task = Task.of(bags, y, sample_weight)
        choice("second_level", self.second_level, ("linear", "gaussian"))
        penalty = number_or("penalty", self.penalty, "loo")
        positive("bandwidth_scale", self.bandwidth_scale)
        positive("second_scale", self.second_scale)
        scaling = Scaling.fit(bags, standardize=flag("standardize", self.standardize))
        kernel = as_kernel(self.kernel)
        points = sample_points(bags, scaling, generator(self.random_state))
        (bandwidth,) = bandwidths(kernel, points, self.bandwidth_scale)
        self.kernel_ = kernel if bandwidth is None else kernel.with_bandwidth(bandwidth)
        self.scaling_, self.bags_ = scaling, bags
        gram = bag_gram(self.kernel_, self.scaling_, bags, bags)
        self._fit_gram(self._second_level_fit(gram), task, penalty)
        self._keep_columns(bags)
        self.bandwidth_ = self.kernel_.bandwidth
        return self

    def has_shared_features(self) -> bool:
        """Whether features can be shared with other models: there are none."""
        return False

    def _second_level_fit(self, gram: Float64[np.ndarray, "n n"]) -> Float64[np.ndarray, "n n"]:
        self._norms = np.diag(gram).copy()
        self._second_var: float | None = None  # that of a linear second level
        if self.second_level == "linear":
            return gram
        squared = _squared_distances(gram, self._norms, self._norms)
        typical = np.median(squared[np.triu_indices(len(gram), 1)]) or squared.mean() or 1.0
        self._second_var = float(typical) / 2.0 * float(self.second_scale) ** 2
        return np.exp(-squared / (2.0 * self._second_var))

    def _fit_gram(
        self, gram: Float64[np.ndarray, "n n"], task: Task, penalty: float | None
    ) -> None:
        problem = RidgeProblem.from_gram(gram, task.design, task.labels, task.weights)
        self.penalty_ = problem.best_penalty() if penalty is None else penalty
        self.noise_ = max(problem.leave_one_out_mse(self.penalty_), MIN_NOISE)
        self.dual_ = problem.dual(self.penalty_)
        self.gamma_ = problem.effects_for(gram @ self.dual_)
        self.effects_ = task.effects
        self.label_center_, self.label_scale_ = task.center, task.scale

    def predict_dist(self, X: Any) -> Prediction:
        """Return the predictive distribution of the labels of bags X."""
        check_is_fitted(self)
        bags = self._check_bags(X)
        gram = bag_gram(self.kernel_, self.scaling_, bags, self.bags_)
        if self._second_var is not None:
            norms = bag_norms(self.kernel_, self.scaling_, bags)
            squared = _squared_distances(gram, norms, self._norms)
            gram = np.exp(-squared / (2.0 * self._second_var))
        effects = self.effects_.design(bags.covariates, bags.n_bags)
        moments = Moments(gram @ self.dual_ + effects @ self.gamma_, 0.0, self.noise_)
        return self._prediction(moments, bags.effective_sizes, bags)


def _squared_distances(
    gram: Float64[np.ndarray, "n m"],
    left: Float64[np.ndarray, " n"],
    right: Float64[np.ndarray, " m"],
) -> Float64[np.ndarray, "n m"]:
    return np.maximum(left[:, None] + right - 2.0 * gram, 0.0)
