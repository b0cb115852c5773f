"""What all estimators on bags share: checks, features, and predictions in the label's units."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bagwise._utils.progress import Progress, wanted
from bagwise._utils.threads import one_thread
from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.checks import check_covariates_match, check_features_match, check_labels
from bagwise.bags.grouping import show
from bagwise.bags.per_bag import numbers_per_bag
from bagwise.embedding.sums import BagStats, summarise, summarise_each
from bagwise.estimators.explanation import Directions, Explanation, Witness, one_bag
from bagwise.estimators.learnt import ShowsLearnt
from bagwise.estimators.parameters import flag, generator, positive, wrong
from bagwise.estimators.pointwise import tags_of_bags
from bagwise.exceptions import BagwiseWarning
from bagwise.features.kernels import Kernel, as_kernel
from bagwise.features.landmarks import (
    DEFAULT_LANDMARKS,
    choose_landmarks,
    given_landmarks,
    median_bandwidth,
    sample_points,
)
from bagwise.features.maps import Features, FourierFeatures, LandmarkFeatures
from bagwise.features.scaling import Scaling
from bagwise.heads.base import Head
from bagwise.heads.task import Task
from bagwise.likelihoods.base import Likelihood
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query

# Multiples of the median heuristic that bandwidth_scale="auto" chooses from.
AUTO_SCALES = (0.5, 1.0, 2.0, 4.0)

# Standard deviations of the labels beyond which a prediction is an extrapolation. None is larger
# than half the range of the labels, so that what lies ten times the range away is one.
FAR = 20.0

# Parameters that decide the features; what differs only in others can share them.
FEATURE_PARAMETERS = (
    "kernel",
    "landmarks",
    "n_landmarks",
    "function_landmarks",
    "bandwidth_scale",
    "standardize",
    "random_state",
)


@dataclass(frozen=True, eq=False)
class Embedding:
    """Features and what they say of the training bags."""

    features: Features
    stats: BagStats


class BagEstimator(ShowsLearnt, BaseEstimator):
    """A scikit-learn estimator whose samples are bags.

    Subclasses say what the labels are, in ``make_task``, how a head is fitted to mean embeddings,
    in ``_fit_head``, and what it predicts, in ``predict_stats``.
    """

    needs_covariance: ClassVar[bool] = False
    likelihood: ClassVar[Likelihood] = Gaussian()
    tuning_metric: ClassVar[str] = "nll"

    kernel: Kernel | str
    landmarks: Any
    n_landmarks: int | None
    bandwidth_scale: float | str
    standardize: bool
    random_state: Any
    head_: Any

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to bags X (anything that :func:`bagwise.as_bags` takes) and labels y (n_bags,).

        Labels are in the order of the bags, or have their ids: as a dict, or in a pandas index that
        holds them. :func:`bagwise.bags.per_bag.in_bag_order` has the rule.
        ``sample_weight`` (n_bags,) weighs each bag's term in the loss or log likelihood, relative
        to the average bag.
        """
        bags = as_bags(X)
        task = self.make_task(bags, y, sample_weight)
        self._check_parameters()
        best: tuple[Embedding, Head] | None = None
        with Progress("fitting", self._n_candidates(), wanted()) as bar:
            for embedding in self.embeddings(bags):
                head = self._fit_head_alone(embedding, task)
                if best is None or head.loss < best[1].loss:
                    best = embedding, head
                bar.advance()
        assert best is not None
        return self._keep(bags, task, best[0], self._finish_head(*best, task))

    def fit_embedding(self, embedding: Embedding, bags: Bags, task: Task) -> Self:
        """Fit to bags whose features are there already, as :func:`bagwise.tune` does."""
        self._check_parameters()
        head = self._fit_head_alone(embedding, task)
        return self._keep(bags, task, embedding, self._finish_head(embedding, head, task))

    @abstractmethod
    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the labels."""

    def _check_parameters(self) -> None:
        """Refuse parameters that would otherwise be looked at only after much work."""

    def _fit_head_alone(self, embedding: Embedding, task: Task) -> Head:
        """Fit the head with one thread.

        Its many small products gain nothing from more, and NumPy's and SciPy's pools of threads
        would wait for each other: measured on two cores, five times slower.
        """
        with one_thread("blas"):
            return self._fit_head(embedding, task)

    @abstractmethod
    def _fit_head(self, embedding: Embedding, task: Task) -> Head:
        """Fit the head."""

    def _finish_head(self, embedding: Embedding, head: Head, task: Task) -> Head:
        """Do to the best head what would take too long to do to every candidate."""
        return head

    def _keep(self, bags: Bags, task: Task, embedding: Embedding, head: Head) -> Self:
        """Store what was learnt, under names that end in an underscore."""
        self._keep_columns(bags)
        self.features_, self.head_ = embedding.features, head
        self.effects_ = task.effects
        self.label_center_, self.label_scale_ = task.center, task.scale
        for name in ("landmarks_", "bandwidth_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if isinstance(embedding.features, LandmarkFeatures):
            scaling = embedding.features.scaling
            self.landmarks_ = embedding.features.landmarks * scaling.scale + scaling.center
            self.bandwidth_ = embedding.features.kernel.bandwidth
        return self

    def _keep_columns(self, bags: Bags) -> None:
        self.n_features_in_ = bags.n_features
        self._feature_names = bags.feature_names
        self._covariates = (bags.covariate_names, bags.n_covariates)
        if bags.feature_names is not None:
            self.feature_names_in_ = np.array(bags.feature_names, dtype=object)
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_

    def embeddings(self, bags: Bags) -> Iterator[Embedding]:
        """Make features from the training bags; several, if the bandwidth is to be chosen."""
        candidates = list(self.candidate_features(bags))
        stats = summarise_each(bags, candidates, covariance=self.needs_covariance)
        yield from map(Embedding, candidates, stats)

    def _n_candidates(self) -> int:
        """Return how many sets of features are tried."""
        kernel = as_kernel(self.kernel)
        chosen = not kernel.has_bandwidth or kernel.bandwidth is not None
        return 1 if chosen or self.has_shared_features() else len(AUTO_SCALES)

    def has_shared_features(self) -> bool:
        """Whether the parameters determine one set of features, which other models can share."""
        return not isinstance(self.bandwidth_scale, str)

    def candidate_features(self, bags: Bags) -> Iterator[Features]:
        """Make the features: one set, or one for each bandwidth to be tried."""
        rng = generator(self.random_state)
        standardize = flag("standardize", self.standardize)
        sample = sample_points(bags, rng)
        scaling = Scaling.fit(bags, standardize=standardize, sample=sample)
        points = scaling(sample)
        kernel = as_kernel(self.kernel)
        make = self._feature_maker(points, scaling, rng)
        for bandwidth in bandwidths(kernel, points, self.bandwidth_scale):
            yield make(kernel if bandwidth is None else kernel.with_bandwidth(bandwidth))

    def _feature_maker(
        self, points: Float64[np.ndarray, "m p"], scaling: Scaling, rng: np.random.Generator
    ) -> Any:
        """Return kernel ↦ Features, with landmarks that do not depend on the kernel."""
        n = self.n_landmarks
        if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
            raise wrong("n_landmarks", n, "a whole number of at least 1, or None")
        how = self.landmarks
        if isinstance(how, str) and how == "fourier":
            seed = int(rng.integers(2**63))
            m = -(-(DEFAULT_LANDMARKS if n is None else n) // 2)
            return lambda kernel: FourierFeatures(
                scaling, kernel.frequencies(points.shape[1], m, np.random.default_rng(seed))
            )
        if isinstance(how, str) and how not in ("kmeans", "random"):
            raise wrong("landmarks", how, '"kmeans", "random", "fourier" or an array')
        if isinstance(how, str):
            u = choose_landmarks(points, how, n, rng)
        else:
            u = given_landmarks(how, scaling)
        z = getattr(self, "function_landmarks", None)
        z = None if z is None else given_landmarks(z, scaling, "function_landmarks")
        return lambda kernel: LandmarkFeatures(kernel, scaling, u, z)

    def predict_dist(self, X: Any) -> Any:
        """Return the predictive distribution of the labels of bags X."""
        check_is_fitted(self)
        bags = self._check_bags(X)
        return self.predict_stats(summarise(bags, self.features_, covariance=False), bags)

    def explain(self, X: Any, *, bag: Any = None) -> Explanation:
        """Return what each point, feature and column of one bag adds to its prediction.

        Parameters
        ----------
        X : the points of a bag (N, p), or bags as in ``predict``
        bag : which of several bags, by its id or else its position
        """
        check_is_fitted(self)
        bags = self._check_bags(one_bag(X, bag))
        function, directions, level, gamma = self._respond(bags)
        effects, unit = self.effects_.mixing @ gamma, self.label_scale_
        rest = np.zeros(0) if bags.covariates is None else bags.covariates[0] - self.effects_.center
        prediction, classes = self.predict_dist(bags), getattr(self, "classes_", None)
        return Explanation(
            bags,
            function,
            directions,
            prediction=float(getattr(prediction, "latent", prediction).mean[0]),
            baseline=float(self.label_center_ + unit * (level + effects[0])),
            covariates=unit * effects[1:] * rest / self.effects_.scale,
            target="label" if classes is None else f"latent value for class {show(classes[1])}",
        )

    def _respond(self, bags: Bags) -> tuple[Witness, Directions, float, Float64[np.ndarray, " r"]]:
        """Return the witness function of one bag, its directions, and level and γ of its mean."""
        stats = summarise(bags, self.features_, covariance=False)
        response, unit = self.head_.response(self.head_.embed(stats)), self.label_scale_
        slope = unit * response.slope
        directions = Directions.of(self.features_, slope * (stats.mean[0] - response.center))
        function = Witness(self.features_, slope, float(slope @ response.center))
        return function, directions, response.level, response.gamma

    def __sklearn_tags__(self) -> Any:
        return tags_of_bags(super().__sklearn_tags__())

    def _check_bags(self, X: Any) -> Bags:
        bags = as_bags(X)
        check_features_match(self._feature_names, self.n_features_in_, bags)
        check_covariates_match(*self._covariates, bags)
        return bags

    def predict_stats(self, stats: BagStats, bags: Bags) -> Any:
        """Predict bags whose statistics are there already."""
        design = self.effects_.design(bags.covariates, bags.n_bags)
        query = Query(
            self.head_, self.head_.embed(stats), design, self.label_center_, self.label_scale_
        )
        classes = getattr(self, "classes_", None)
        return self.likelihood.predict(query, sizes=stats.sizes, ids=bags.ids, classes=classes)


class BagRegressor(RegressorMixin, BagEstimator):
    """A scikit-learn regressor whose samples are bags."""

    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check and standardise the labels."""
        return Task.of(bags, y, sample_weight)

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Return the predicted labels (n_bags,), and with return_std their standard deviations."""
        prediction = self.predict_dist(X)
        return (prediction.mean, prediction.std) if return_std else prediction.mean

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predicted labels; y and sample_weight are as in ``fit``."""
        bags = as_bags(X)
        if sample_weight is not None:
            sample_weight = numbers_per_bag(sample_weight, bags.ids, "sample weights")
        return super().score(bags, check_labels(y, bags), sample_weight)

    def predict_stats(self, stats: BagStats, bags: Bags) -> Prediction:
        """Predict bags whose statistics are there already."""
        return self._checked(super().predict_stats(stats, bags))

    def _checked(self, prediction: Prediction) -> Prediction:
        """Say so if predictions lie where no label of the training bags lay."""
        away = np.abs(prediction.mean - self.label_center_) / self.label_scale_
        far = np.flatnonzero(away > FAR)
        if len(far):
            assert prediction.ids is not None
            warnings.warn(
                f"{len(far)} of {len(away)} predictions lie more than {FAR:.0f} standard "
                "deviations of the training labels from their mean, the first for bag "
                f"{show(prediction.ids[far[0]])}: these bags are unlike those of the training, and "
                "the predictions extrapolations. Check their points and covariates.",
                BagwiseWarning,
                stacklevel=2,
            )
        return prediction


def bandwidths(
    kernel: Kernel, points: Float64[np.ndarray, "m p"], scale: float | str
) -> list[float | None]:
    """Return the bandwidths to try; [None] if the kernel has one already or needs none."""
    if not kernel.has_bandwidth or kernel.bandwidth is not None:
        return [None]
    median = median_bandwidth(points, kernel)
    if isinstance(scale, str):
        if scale != "auto":
            raise wrong("bandwidth_scale", scale, '"auto" or a number > 0')
        return [scale * median for scale in AUTO_SCALES]
    return [positive("bandwidth_scale", scale) * median]
