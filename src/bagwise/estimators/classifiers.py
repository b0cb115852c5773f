"""The classifiers of two classes: the regressors' models with a link to a probability.

                                weights: point estimate         weights: posterior
embedding: point                                                BayesianLogisticClassifier
embedding: posterior            ShrinkageClassifier             BDRClassifier

Beside them is DistributionGPClassifier in gp.py, which is not linear in the embedding.

More than two classes are an error, which names scikit-learn's OneVsRestClassifier: it works with
bags, and it lets each class have its own weights and scales, as a model of ours would have to.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.base import ClassifierMixin

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import array_per_bag, numbers_per_bag
from bagwise.embedding.model import point_model
from bagwise.embedding.prior import FixedPrior
from bagwise.estimators.base import BagEstimator, Pooled
from bagwise.estimators.embeddings import COVARIANCE_FLOOR, BagEmbedding, KernelEmbedding
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.estimators.shrinkage_model import ShrinkageModel
from bagwise.heads.base import Head
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.heads.task import Task
from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS
from bagwise.likelihoods.base import ClassLikelihood
from bagwise.likelihoods.logistic import Logistic
from bagwise.likelihoods.probit import Probit


class BagClassifier(ClassifierMixin, BagEstimator):
    """A scikit-learn classifier of two classes whose samples are bags."""

    tuning_metric: ClassVar[str] = "log_loss"
    likelihood: ClassVar[ClassLikelihood]

    class_weight: Any

    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the classes and their weights."""
        return Task.of_classes(bags, y, sample_weight, self.class_weight)

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: Head) -> Self:
        assert task.classes is not None
        self.classes_ = task.classes
        return super()._keep(bags, task, pooled, head)

    def predict(self, X: Any) -> np.ndarray:
        """Return the more probable class of each bag (n_bags,)."""
        return self.predict_dist(X).predicted

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n 2"]:
        """Return the probability of each class, in the order of ``classes_``."""
        return self.predict_dist(X).proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of bags whose class is predicted; y and sample_weight as in ``fit``."""
        bags = as_bags(X)
        if sample_weight is not None:
            sample_weight = numbers_per_bag(sample_weight, bags.ids, "sample weights")
        return super().score(bags, array_per_bag(y, bags.ids), sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


class BayesianLogisticClassifier(PosteriorModel, BagClassifier):
    """Bayesian logistic regression on the mean embedding.

    P(y_i = 1) = sigmoid(β·μ̂_i + c_i·γ + b),  β ~ N(0, ρ²I),  half-normal ρ

    Knows how unsure the weights are, but takes the average of each bag's points for the truth.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    inference : "laplace", "nuts", "map" or NUTS
        As in :class:`BDRRegressor`.
    priors : bagwise.inference.Priors, optional
        Scales of the priors.
    class_weight : None, "balanced" or dict
        Weight of the bags of each class, on top of sample_weight; "balanced" gives both classes the
        same sum.
    random_state
        As in :class:`BDRRegressor`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = rng.choice(["narrow", "wide"], 60)
    >>> bags = [rng.normal(0, 2.0 if label == "wide" else 1.0, (20, 1)) for label in y]
    >>> model = BayesianLogisticClassifier().fit(bags, y)
    >>> model.predict([rng.normal(0, 2, (100, 1))])
    array(['wide'], dtype='<U6')
    """

    likelihood: ClassVar[ClassLikelihood] = Logistic()

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        inference: NUTS | str = "laplace",
        priors: Priors | None = None,
        class_weight: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.inference = inference
        self.priors = priors
        self.class_weight = class_weight
        self.random_state = random_state

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        prior = FixedPrior(point_model(pooled.stats.mean))
        return ShrinkageHead.fit(prior, pooled.stats, task, None, self.likelihood)


class ShrinkageClassifier(ShrinkageModel, BagClassifier):
    """Probit regression on the posterior of each bag's embedding.

    P(y_i = 1) = Φ((α·M_i + c_i·γ + b)/√(1 + α^T C_i α)),  α ~ N(0, ρ²K^-1)

    M_i and C_i are the posterior mean and covariance of bag i's embedding given its N_i points, and
    are integrated over in closed form: a bag of 5 points gets a probability nearer to one half than
    one of 5,000. The weights α and the scales maximise the posterior density.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    prior, weight_var, covariance_floor
        As in :class:`ShrinkageRegressor`.
    class_weight
        As in :class:`BayesianLogisticClassifier`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> wide = rng.random(80) < 0.5
    >>> bags = [rng.normal(0, 1 + w, (n, 1)) for w, n in zip(wide, [5, 50] * 40)]
    >>> model = ShrinkageClassifier().fit(bags, wide)
    >>> small, large = model.predict_proba([bags[1][:3], bags[1]]).max(axis=1)
    >>> bool(small < large)
    True
    """

    likelihood: ClassVar[ClassLikelihood] = Probit()

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        prior: str = "kernel",
        weight_var: float | str = "evidence",
        covariance_floor: float = COVARIANCE_FLOOR,
        class_weight: Any = None,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.prior = prior
        self.weight_var = weight_var
        self.covariance_floor = covariance_floor
        self.class_weight = class_weight


class BDRClassifier(PosteriorModel, ShrinkageModel, BagClassifier):
    """Bayesian distribution regression for two classes: posteriors of embedding and weights.

    P(y_i = 1) = Φ((α·M_i + c_i·γ + b)/√(1 + α^T C_i α)),  α ~ N(0, ρ²K^-1),  half-normal ρ, η

    The model of :class:`ShrinkageClassifier` with everything unknown sampled. Probabilities are
    averages over the draws.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    inference, priors, random_state
        As in :class:`BDRRegressor`.
    prior : "kernel", "convolved" or "learnt"
        As in :class:`ShrinkageRegressor`; the length ℓ of the second is taken at its mode.
    class_weight
        As in :class:`BayesianLogisticClassifier`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> wide = rng.random(80) < 0.5
    >>> bags = [rng.normal(0, 1 + w, (n, 1)) for w, n in zip(wide, [5, 50] * 40)]
    >>> model = BDRClassifier(inference="laplace").fit(bags, wide)
    >>> model.predict_dist(bags[:2]).interval(0.9).shape
    (2, 2)
    """

    likelihood: ClassVar[ClassLikelihood] = Probit()

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        inference: NUTS | str = "nuts",
        priors: Priors | None = None,
        prior: str = "kernel",
        class_weight: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.inference = inference
        self.priors = priors
        self.prior = prior
        self.class_weight = class_weight
        self.random_state = random_state
