"""The classifiers: the regressors' models with a link to a probability.

                                weights: point estimate         weights: posterior
embedding: point                                                BayesianLogisticClassifier
embedding: posterior            ShrinkageClassifier             BDRClassifier

Beside them is DistributionGPClassifier in gp.py, which is not linear in the embedding.

Of more than two classes each has a head of its own, which tells it from the rest; they share the
features. What is normalised to one is the probability of each, averaged over its draws.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from bagwise.bags.bags import Bags, as_bags
from bagwise.bags.per_bag import array_per_bag, numbers_per_bag
from bagwise.bags.validation import show
from bagwise.embedding.posterior import point_model
from bagwise.embedding.sums import BagStats
from bagwise.estimators.base import BagEstimator, Pooled, ShrinkageModel
from bagwise.estimators.embeddings import COVARIANCE_FLOOR, BagEmbedding, KernelEmbedding
from bagwise.estimators.explanation import Explanation, one_bag
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.heads.base import AnyHead, Task, for_each_class, heads_of
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS
from bagwise.likelihoods.base import ClassLikelihood
from bagwise.likelihoods.logistic import Logistic
from bagwise.likelihoods.probit import Probit
from bagwise.predictions.classes import place_of


class BagClassifier(ClassifierMixin, BagEstimator):
    """A scikit-learn classifier whose samples are bags."""

    tuning_metric: ClassVar[str] = "log_loss"
    likelihood: ClassVar[ClassLikelihood]

    class_weight: Any

    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the classes and their weights."""
        return Task.of_classes(bags, y, sample_weight, self.class_weight)

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead) -> Self:
        assert task.classes is not None
        self.classes_ = task.classes
        return super()._keep(bags, task, pooled, head)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each bag (n_bags,)."""
        return self.predict_dist(X).predicted

    def predict_proba(self, X: Any) -> Float64[np.ndarray, "n k"]:
        """Return the probability of each class, in the order of ``classes_``."""
        return self.predict_dist(X).proba

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of bags whose class is predicted; y and sample_weight as in ``fit``."""
        bags = as_bags(X)
        if sample_weight is not None:
            sample_weight = numbers_per_bag(sample_weight, bags.ids, "sample weights")
        return super().score(bags, array_per_bag(y, bags.ids), sample_weight)

    def explain(self, X: Any, *, bag: Any = None, of: Any = None) -> Explanation:
        """Return what each point, feature and column of a bag adds to the latent value of a class.

        Parameters
        ----------
        X : the points of a bag (N, p), or bags as in ``predict``
        bag : which of several bags, by its id or else its position
        of : class, by default of two the second, and of more the most probable one of the bag
        """
        check_is_fitted(self)
        given = one_bag(X, bag)
        bags, said = self._check_bags(given), self.predict_dist(given)
        heads = heads_of(self.head_)
        if len(heads) == 1:
            k = 1 if of is None else place_of(of, self.classes_)
            latent, head, sign = said.latent, heads[0], 1.0 if k else -1.0
        else:
            k = said.places[0] if of is None else place_of(of, self.classes_)
            latent, head, sign = said.each[k].latent, heads[k], 1.0
        target = f"latent value for class {show(self.classes_[k])}"
        return self._explained(bags, head, sign * float(latent.mean[0]), target, sign)

    def predict_stats(self, stats: BagStats, bags: Bags) -> Any:
        """Predict bags whose statistics are there already."""
        queries = [self._query(head, stats, bags) for head in heads_of(self.head_)]
        return self.likelihood.predict_classes(
            queries, sizes=stats.sizes, ids=bags.ids, classes=self.classes_
        )


class BayesianLogisticClassifier(PosteriorModel, BagClassifier):
    """Bayesian logistic regression on the mean embedding.

    P(y_i = 1) = sigmoid(β·μ̂_i + c_i·γ + b),  β ~ N(0, ρ²I),  half-normal ρ

    Knows how unsure the weights are, but takes the average of each bag's points for the truth. How
    sure to be by the size of a bag is learnt from labels left out, as for all linear classifiers.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    inference : "laplace", "variational", "nuts", "map" or NUTS
        As in :class:`BDRRegressor`.
    priors : bagwise.inference.Priors, optional
        Scales of the priors.
    class_weight : None, "balanced" or dict
        Weight of the bags of each class, on top of sample_weight; "balanced" gives all classes the
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

    def _fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        prior = point_model(pooled.stats.mean)
        return for_each_class(
            task,
            lambda each: ShrinkageHead.fit(prior, pooled.stats, each, None, self.likelihood),
        )


class ShrinkageClassifier(ShrinkageModel, BagClassifier):
    """Probit regression on the posterior of each bag's embedding.

    P(y_i = 1) = Φ((α·M_i + c_i·γ + b)/√(1 + α^T C_i α)),  α ~ N(0, ρ²K^-1)

    M_i and C_i are the posterior mean and covariance of bag i's embedding given its N_i points, and
    are integrated over in closed form: a bag of 5 points gets a probability nearer to one half than
    one of 5,000. Weights α are by expectation propagation, and what is left open of them is
    integrated over, too; ρ² is that of the largest evidence times its prior, η of the mode.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    prior, sampling, weight_var, covariance_floor
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
        sampling: float | str = 1.0,
        weight_var: float | str = "evidence",
        covariance_floor: float = COVARIANCE_FLOOR,
        class_weight: Any = None,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.weight_var = weight_var
        self.covariance_floor = covariance_floor
        self.class_weight = class_weight


class BDRClassifier(PosteriorModel, ShrinkageModel, BagClassifier):
    """Bayesian distribution regression for classes: posteriors of embedding and weights.

    P(y_i = 1) = Φ((α·M_i + c_i·γ + b)/√(1 + α^T C_i α)),  α ~ N(0, ρ²K^-1),  half-normal ρ, η

    The model of :class:`ShrinkageClassifier` with everything unknown sampled. Probabilities are
    averages over the draws.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    inference, priors, bandwidth_prior, random_state
        As in :class:`BDRRegressor`.
    prior, sampling
        As in :class:`BDRRegressor`.
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
        sampling: float | str = 1.0,
        bandwidth_prior: Any = None,
        class_weight: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.inference = inference
        self.priors = priors
        self.prior = prior
        self.sampling = sampling
        self.bandwidth_prior = bandwidth_prior
        self.class_weight = class_weight
        self.random_state = random_state
