"""Standard distribution regression: kernel ridge regression on mean embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted

from bagwise.bags import as_bags
from bagwise.base import BagRegressor, Embedding, bandwidths
from bagwise.double_sum import bag_gram, bag_norms
from bagwise.embedding import BagStats
from bagwise.heads import MIN_NOISE, Effects, Head, Moments
from bagwise.inference.ridge import RidgeProblem
from bagwise.kernels import Kernel, as_kernel
from bagwise.landmarks import sample_points
from bagwise.parameters import choice, flag, generator, number_or, positive
from bagwise.prediction import Prediction
from bagwise.scaling import Scaling
from bagwise.shrinkage import whitening
from bagwise.task import Task


@dataclass(frozen=True, eq=False)
class SecondLevel:
    """Kernel ridge regression between mean embeddings, of which the inner products are known.

    Attributes
    ----------
    var : s² of the Gaussian second level, or None for the linear one
    norms : (n,), ‖μ̂_i‖² of the training bags
    dual : (n,);  gamma : (r,), of the fixed effects
    penalty : that was used;  noise : leave-one-out error
    """

    var: float | None
    norms: Float64[np.ndarray, " n"]
    dual: Float64[np.ndarray, " n"]
    gamma: Float64[np.ndarray, " r"]
    penalty: float
    noise: float

    @classmethod
    def fit(
        cls, products: Float64[np.ndarray, "n n"], task: Task, model: MeanEmbeddingRidge
    ) -> SecondLevel:
        """Fit to the inner products ⟨μ̂_i, μ̂_j⟩, as the model's parameters say."""
        norms, var = np.diag(products).copy(), None
        if model.second_level == "gaussian":
            squared = _squared_distances(products, norms, norms)
            typical = np.median(squared[np.triu_indices(len(norms), 1)]) or squared.mean() or 1.0
            var = float(typical) / 2.0 * float(model.second_scale) ** 2
        gram = _gram(products, norms, norms, var)
        problem = RidgeProblem.from_gram(gram, task.design, task.labels, task.weights)
        penalty = number_or("penalty", model.penalty, "loo")
        penalty = problem.best_penalty() if penalty is None else penalty
        dual = problem.dual(penalty)
        noise = max(problem.leave_one_out_mse(penalty), MIN_NOISE)
        return cls(var, norms, dual, problem.effects_for(gram @ dual), penalty, noise)

    def moments(
        self,
        products: Float64[np.ndarray, "m n"],
        norms: Float64[np.ndarray, " m"] | None,
        effects: Float64[np.ndarray, "m r"],
    ) -> Moments:
        """Predict bags by their products with the training bags; with s, by their norms too."""
        gram = _gram(products, norms, self.norms, self.var)
        return Moments(gram @ self.dual + effects @ self.gamma, 0.0, self.noise)


@dataclass(frozen=True, eq=False)
class LandmarkRidgeHead:
    """The second level on embeddings projected on the span of landmarks.

    Attributes
    ----------
    weight_map : (d, q), T with T^T k(u,u) T = I, so that T^T μ̂ are orthonormal coordinates
    train : (n, q), of the training bags
    """

    weight_map: Float64[np.ndarray, "d q"]
    train: Float64[np.ndarray, "n q"]
    second: SecondLevel

    @property
    def loss(self) -> float:
        """Leave-one-out error."""
        return self.second.noise

    def moments(self, stats: BagStats, effects: Effects) -> Moments:
        """Predict from mean embeddings at the landmarks."""
        bags = stats.mean @ self.weight_map
        return self.second.moments(bags @ self.train.T, np.sum(bags**2, axis=1), effects)


class MeanEmbeddingRidge(BagRegressor):
    """Kernel ridge regression on mean embeddings: the standard approach.

    K_ij = ⟨μ̂_i, μ̂_j⟩ (second_level="linear"), or exp(−‖μ̂_i − μ̂_j‖²/2s²) ("gaussian"), where
    ⟨μ̂_i, μ̂_j⟩ averages k(x, x') over all pairs of points of the two bags.

    By default the sums are exact, in time that grows with the square of the number of points. For
    more than some 100,000, n_landmarks projects the embeddings on the span of so many landmarks
    (Nyström's approximation), in time that grows with the points. Knows nothing of bag sizes; its
    predictive standard deviation is the leave-one-out error.

    Parameters
    ----------
    kernel, standardize, random_state
        As in :class:`RBFNetworkRegressor`.
    second_level : "linear" or "gaussian"
        Kernel between mean embeddings.
    bandwidth_scale : float
        Multiple of the median heuristic for k.
    n_landmarks : int, optional
        Landmarks, chosen by k-means; None for exact sums.
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
    landmarks: Any = "kmeans"

    def __init__(
        self,
        *,
        kernel: Kernel | str = "rbf",
        second_level: str = "linear",
        bandwidth_scale: float = 1.0,
        n_landmarks: int | None = None,
        second_scale: float = 1.0,
        penalty: float | str = "loo",
        standardize: bool = True,
        random_state: Any = 0,
    ) -> None:
        self.kernel = kernel
        self.second_level = second_level
        self.bandwidth_scale = bandwidth_scale
        self.n_landmarks = n_landmarks
        self.second_scale = second_scale
        self.penalty = penalty
        self.standardize = standardize
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to bags X and labels y (n_bags,); sample_weight as in the other regressors."""
        if self.n_landmarks is not None:
            return super().fit(X, y, sample_weight)
        bags = as_bags(X)
        task = Task.of(bags, y, sample_weight)
        self._check_parameters()
        scaling = Scaling.fit(bags, standardize=flag("standardize", self.standardize))
        kernel = as_kernel(self.kernel)
        points = sample_points(bags, scaling, generator(self.random_state))
        (bandwidth,) = bandwidths(kernel, points, self.bandwidth_scale)
        self.kernel_ = kernel if bandwidth is None else kernel.with_bandwidth(bandwidth)
        self.scaling_, self.bags_ = scaling, bags
        products = bag_gram(self.kernel_, self.scaling_, bags, bags)
        self.head_ = SecondLevel.fit(products, task, self)
        self.effects_ = task.effects
        self.label_center_, self.label_scale_ = task.center, task.scale
        self._keep_columns(bags)
        for name in ("landmarks_", "features_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.bandwidth_ = self.kernel_.bandwidth
        return self

    def _check_parameters(self) -> None:
        choice("second_level", self.second_level, ("linear", "gaussian"))
        number_or("penalty", self.penalty, "loo")
        positive("bandwidth_scale", self.bandwidth_scale)
        positive("second_scale", self.second_scale)

    def _fit_head(self, embedding: Embedding, task: Task) -> Head:
        weight_map = whitening(embedding.features.weight_gram())
        train = embedding.stats.mean @ weight_map
        second = SecondLevel.fit(train @ train.T, task, self)
        return LandmarkRidgeHead(weight_map, train, second)

    def has_shared_features(self) -> bool:
        """Whether features can be shared between candidates: if there are landmarks."""
        return self.n_landmarks is not None

    @property
    def penalty_(self) -> float:
        """Penalty λ that was used, for standardised labels."""
        return getattr(self.head_, "second", self.head_).penalty

    def predict_dist(self, X: Any) -> Prediction:
        """Return the predictive distribution of the labels of bags X."""
        check_is_fitted(self)
        if isinstance(self.head_, LandmarkRidgeHead):
            return super().predict_dist(X)
        bags = self._check_bags(X)
        products = bag_gram(self.kernel_, self.scaling_, bags, self.bags_)
        linear = self.head_.var is None  # which needs no norms
        norms = None if linear else bag_norms(self.kernel_, self.scaling_, bags)
        effects = self.effects_.design(bags.covariates, bags.n_bags)
        moments = self.head_.moments(products, norms, effects)
        return self._prediction(moments, bags.effective_sizes, bags)


def _gram(
    products: Float64[np.ndarray, "n m"],
    left: Float64[np.ndarray, " n"] | None,
    right: Float64[np.ndarray, " m"],
    var: float | None,
) -> Float64[np.ndarray, "n m"]:
    """Return the second level's kernel."""
    if var is None or left is None:
        return products
    return np.exp(-_squared_distances(products, left, right) / (2.0 * var))


def _squared_distances(
    gram: Float64[np.ndarray, "n m"],
    left: Float64[np.ndarray, " n"],
    right: Float64[np.ndarray, " m"],
) -> Float64[np.ndarray, "n m"]:
    return np.maximum(left[:, None] + right - 2.0 * gram, 0.0)
