"""Standard distribution regression: kernel ridge regression on mean embeddings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.utils.validation import check_is_fitted

from bagwise.bags.bags import Bags, BagStream, as_bags
from bagwise.bags.validation import choice, flag, number_or, positive, show, stacked
from bagwise.embedding.posterior import (
    ROUNDING,
    EmbeddingModel,
    EmbeddingPosterior,
    point_model,
    whitening,
)
from bagwise.embedding.sums import BagStats, bag_gram, bag_norms
from bagwise.estimators.base import BagRegressor, Pooled
from bagwise.estimators.embeddings import BagEmbedding, KernelEmbedding
from bagwise.estimators.explanation import Directions, Witness
from bagwise.exceptions import BagwiseError
from bagwise.features.kernels import UserKernel
from bagwise.features.maps import DEFAULT_LANDMARKS, LandmarkFeatures
from bagwise.heads.base import MIN_NOISE, Head, Response, Task
from bagwise.inference.ridge import RidgeProblem
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Latent

Vector = Float64[np.ndarray, " n"]

# Points on the way from the average bag to another at which the Gaussian level's gradient is taken.
# It varies as a Gaussian of width s does, and bags lie a few s apart.
PATH_NODES = 64


@dataclass(frozen=True, eq=False)
class SecondLevel:
    """Kernel ridge regression between mean embeddings, of which the inner products are known.

    Attributes
    ----------
    var : s² of the Gaussian second level, or None for the linear one
    norms : (n,), ‖μ̂_i‖² of the training bags
    average : (n,), ⟨m0, μ̂_i⟩ of their average m0
    dual : (n,);  gamma : (r,), of the fixed effects
    penalty : that was used;  noise : leave-one-out error
    """

    var: float | None
    norms: Vector
    average: Vector
    dual: Vector
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
        gamma, average = problem.effects_for(gram @ dual), products.mean(axis=0)
        return cls(var, norms, average, dual, gamma, penalty, noise)

    def of_products(
        self,
        products: Float64[np.ndarray, "m n"],
        norms: Float64[np.ndarray, " m"] | None,
        effects: Float64[np.ndarray, "m r"],
    ) -> Latent:
        """Predict bags by their products with the training bags; with s, by their norms too."""
        gram = _gram(products, norms, self.norms, self.var)
        return Latent.of_points(gram @ self.dual + effects @ self.gamma, self.noise)

    def value(self, products: Float64[np.ndarray, "m n"], norms: Float64[np.ndarray, " m"]) -> Any:
        """Return Σ_i dual_i K(·, μ̂_i) at embeddings with these products and norms, (m,)."""
        return _gram(products, norms, self.norms, self.var) @ self.dual

    def pull(self, products: Vector, norm: float) -> tuple[Vector, float]:
        """Return c and b of the gradient v = Σ_i c_i μ̂_i + b μ̂, averaged from m0 to a bag's μ̂.

        Of the Gaussian level the gradient at μ is Σ_i a_i K(μ, μ̂_i) (μ̂_i − μ)/s². With
        μ = m0 + t (μ̂ − m0), one integral for each i is left, and b follows from
        v·(μ̂ − m0) = value(μ̂) − value(m0), so that contributions add up whatever the nodes.
        """
        if self.var is None:
            return self.dual, 0.0
        t, share = np.polynomial.legendre.leggauss(PATH_NODES)
        t, share = 0.5 * (t + 1.0)[:, None], 0.5 * share
        center = float(self.average.mean())
        cross = float(products.mean())
        way = (1.0 - t) * self.average + t * products
        norms = ((1.0 - t) ** 2 * center + 2.0 * t * (1.0 - t) * cross + t**2 * norm)[:, 0]
        c = self.dual * (share @ _gram(way, norms, self.norms, self.var)) / self.var
        ends = np.stack([self.average, products])
        start, end = self.value(ends, np.array([center, norm]))
        # Σ c_i (μ̂_i − m0) · (μ̂ − m0)
        along = c @ (products - self.average) - c.sum() * (cross - center)
        length = norm - 2.0 * cross + center
        b = (end - start - along) / length if length > ROUNDING * norm else 0.0
        return c - (c.sum() + b) / len(c), b


@dataclass(frozen=True, eq=False)
class LandmarkRidgeHead:
    """The second level on embeddings projected on the span of landmarks.

    Attributes
    ----------
    model : EmbeddingModel, which takes bags for points
    weight_map : (d, q), T with T^T k(u,u) T = I, so that T^T μ̂ are orthonormal coordinates
    train : (n, q), of the training bags
    """

    model: EmbeddingModel
    weight_map: Float64[np.ndarray, "d q"]
    train: Float64[np.ndarray, "n q"]
    second: SecondLevel

    @property
    def loss(self) -> float:
        """Leave-one-out error."""
        return self.second.noise

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the mean embeddings, taken for the truth."""
        return self.model.posterior(stats)

    def latent(self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]) -> Latent:
        """Predict from mean embeddings at the landmarks."""
        bags = posterior.at_landmarks() @ self.weight_map
        return self.second.of_products(bags @ self.train.T, np.sum(bags**2, axis=1), design)

    def response(
        self, posterior: EmbeddingPosterior, design: Float64[np.ndarray, "n r"]
    ) -> Response:
        """Return the gradient, averaged between the average bag and this one."""
        bag, center = posterior.at_landmarks()[0] @ self.weight_map, self.train.mean(axis=0)
        c, b = self.second.pull(self.train @ bag, float(bag @ bag))
        slope = self.weight_map @ (c @ self.train + b * bag)
        level = self.second.value((self.train @ center)[None], np.array([center @ center]))[0]
        # T^T m0 = center: of all such m0, the one in the span of T
        m0 = np.linalg.lstsq(self.weight_map.T, center, rcond=None)[0]
        return Response(slope, m0, float(level), self.second.gamma)


class MeanEmbeddingRidge(BagRegressor):
    """Kernel ridge regression on mean embeddings: the standard approach.

    K_ij = ⟨μ̂_i, μ̂_j⟩ (second_level="linear"), or exp(−‖μ̂_i − μ̂_j‖²/2s²) ("gaussian"), where
    ⟨μ̂_i, μ̂_j⟩ averages k(x, x') over all pairs of points of the two bags.

    By default the sums are exact, in time that grows with the square of the number of points. For
    more than some 100,000, exact=False projects the embeddings on the span of the landmarks
    (Nyström's approximation), in time that grows with the points. Knows nothing of bag sizes; its
    predictive standard deviation is the leave-one-out error.

    Parameters
    ----------
    embedding : KernelEmbedding or FourierEmbedding, optional
        By default ``KernelEmbedding(bandwidth=1.0)``: "auto" would sum four times. Exact sums take
        its kernel, bandwidth and scaling, and no landmarks.
    exact : bool
        Whether to sum over all pairs of points.
    second_level : "linear" or "gaussian"
        Kernel between mean embeddings.
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

    learns_features: ClassVar[bool] = False

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        exact: bool = True,
        second_level: str = "linear",
        second_scale: float = 1.0,
        penalty: float | str = "loo",
    ) -> None:
        self.embedding = KernelEmbedding(bandwidth=1.0) if embedding is None else embedding
        self.exact = exact
        self.second_level = second_level
        self.second_scale = second_scale
        self.penalty = penalty

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to bags X and labels y (n_bags,); sample_weight as in the other regressors."""
        if not self.exact:
            return super().fit(X, y, sample_weight, groups)
        bags = as_bags(X)
        if isinstance(bags, BagStream):
            bags.refuse("exact sums need all points")  # now, and not after a pass over the file
        task = self.with_groups(Task.of(bags, y, sample_weight), groups, bags)
        self._check_embedding()
        self._check_parameters()
        self.scaling_, _, kernels, _ = self.embedding.prepare(bags)
        self.bags_ = bags
        grams = (bag_gram(kernel, self.scaling_, bags, bags) for kernel in kernels)
        heads = [SecondLevel.fit(gram, task, self) for gram in grams]
        self.head_ = min(heads, key=lambda head: head.noise)
        self.kernel_ = kernels[heads.index(self.head_)]
        if isinstance(self.kernel_, UserKernel):
            self.kernel_ = self.kernel_.probed(bags.points[:DEFAULT_LANDMARKS])
        self.effects_ = task.effects
        self.label_center_, self.label_scale_ = task.center, task.scale
        self._keep_columns(bags)
        for name in ("landmarks_", "features_", "sums_", "novelty_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        self.bandwidth_ = self.kernel_.bandwidth
        return self

    def _check_parameters(self) -> None:
        choice("second_level", self.second_level, ("linear", "gaussian"))
        number_or("penalty", self.penalty, "loo")
        positive("second_scale", self.second_scale)
        if flag("exact", self.exact):
            self._check_exact()

    def _check_exact(self) -> None:
        """Refuse landmarks or waves, which exact sums would leave unused."""
        if not isinstance(self.embedding, KernelEmbedding):
            raise BagwiseError.because(
                "Fourier features with exact sums over all pairs of points",
                "KernelEmbedding(...)",
                "Give exact=False as well.",
            )
        for name in ("n_landmarks", "landmarks", "function_landmarks"):
            value = getattr(self.embedding, name)
            if value is not None and not isinstance(value, str):
                raise BagwiseError.because(
                    f"{name} with exact sums over all pairs of points, which take no landmarks",
                    "one or the other",
                    f"Give exact=False as well, or leave {name} out.",
                )

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        weight_map = whitening(pooled.features.weight_gram())
        train = pooled.stats.mean @ weight_map
        second = SecondLevel.fit(train @ train.T, task, self)
        return LandmarkRidgeHead(point_model(pooled.stats.mean), weight_map, train, second)

    def has_shared_features(self) -> bool:
        """Whether features can be shared between candidates: if there are landmarks."""
        return not self.exact and super().has_shared_features()

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
        latent = self.head_.of_products(products, norms, effects)
        latent = latent.scaled(self.label_center_, self.label_scale_)
        found = Prediction.from_latent(latent, sizes=bags.effective_sizes, ids=bags.ids)
        return self._checked(found)

    def _respond(
        self, bags: Bags, head: Any, unit: float
    ) -> tuple[Witness, Directions, float, Float64[np.ndarray, " r"]]:
        """Return the same of exact sums: the features are all points, the directions all bags."""
        if isinstance(head, LandmarkRidgeHead):
            return super()._respond(bags, head, unit)
        products = bag_gram(self.kernel_, self.scaling_, bags, self.bags_)[0]
        norm = float(bag_norms(self.kernel_, self.scaling_, bags)[0])
        c, b = head.pull(products, norm)
        per_point = np.repeat(c, self.bags_.sizes) * self.bags_.shares
        slope = unit * np.concatenate([per_point, b * bags.shares])
        points = stacked([self.bags_.points, bags.points])
        features = LandmarkFeatures(self.kernel_, self.scaling_, self.scaling_(points))
        offset = unit * (c @ head.average + b * products.mean())
        values = unit * np.append(c * (products - head.average), b * (norm - products.mean()))
        names = [f"training bag {show(name)}" for name in self.bags_.ids]
        directions = Directions(values, (*names, "the bag itself"), None)
        level = head.value(head.average[None], np.array([head.average.mean()]))[0]
        return Witness(features, slope, float(offset)), directions, float(level), head.gamma


def _gram(
    products: Float64[np.ndarray, "n m"],
    left: Vector | None,
    right: Float64[np.ndarray, " m"],
    var: float | None,
) -> Float64[np.ndarray, "n m"]:
    """Return the second level's kernel."""
    if var is None or left is None:
        return products
    return np.exp(-_squared_distances(products, left, right) / (2.0 * var))


def _squared_distances(
    gram: Float64[np.ndarray, "n m"],
    left: Vector,
    right: Float64[np.ndarray, " m"],
) -> Float64[np.ndarray, "n m"]:
    return np.maximum(left[:, None] + right - 2.0 * gram, 0.0)
