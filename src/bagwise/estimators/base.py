"""What estimators on bags share: checks, features, predictions in the units of the label."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import joblib
import numpy as np
from jaxtyping import Float64
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from bagwise._utils.notebook import panel, table
from bagwise._utils.notebook import show as brief
from bagwise._utils.work import Progress, one_thread, wanted
from bagwise.bags.bags import Bags, BagStream, as_bags
from bagwise.bags.per_bag import check_labels, numbers_per_bag
from bagwise.bags.validation import (
    check_columns,
    choice,
    flag,
    number_or,
    positive,
    sampling_or_auto,
    show,
)
from bagwise.embedding.novelty import Novelty
from bagwise.embedding.posterior import (
    ConvolvedPrior,
    EmbeddingModel,
    Prior,
    kernel_prior,
    learnt_prior,
)
from bagwise.embedding.running import RunningSums, SummedBags, same
from bagwise.embedding.sums import (
    MANY_POINTS,
    BagStats,
    Thrift,
    in_order,
    summarise,
    summarise_each,
    weighed,
)
from bagwise.estimators.embeddings import (
    COVARIANCE_FLOOR,
    BagEmbedding,
    TakesBags,
    as_embedding,
    need_covariance,
)
from bagwise.estimators.explanation import Directions, Explanation, Witness, one_bag
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidLabelsError
from bagwise.features.maps import Features, LandmarkFeatures
from bagwise.heads.base import (
    AnyHead,
    Groups,
    Head,
    Task,
    for_each_class,
    heads_of,
    of_each_class,
    some_of,
)
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.history import History
from bagwise.likelihoods.base import Likelihood
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query

# Standard deviations of the labels beyond which a prediction is an extrapolation. None is larger
# than half the range of the labels, so that what lies ten times the range away is one.
FAR = 20.0

WITHOUT_COVARIANCE = "Use BayesianLinearRegressor or BayesianLogisticClassifier, which do not ask."

# Bags on which features are compared where there are very many points, and points of each that
# count, also those to which a process is then fitted: its distribution is known well by then.
FEW_BAGS = 1000
TRIAL_POINTS = 500
FEW_POINTS = 2000

# Arrays of up to so many numbers are shown; of larger ones, the shape.
SHOWN = 4

# Prior covariances of the embedding, by name.
PRIORS: dict[str, Callable[[Features, BagStats, float], Prior]] = {
    "kernel": kernel_prior,
    "convolved": ConvolvedPrior,
    "learnt": learnt_prior,
}


@dataclass(frozen=True, eq=False)
class Pooled:
    """Features, and what is left of the points of the training bags once they are pooled."""

    features: Features
    stats: BagStats

    @cached_property
    def learnt_model(self) -> EmbeddingModel:
        """The model of the prior that these bags show: a search that is made once."""
        return learnt_prior(self.features, self.stats, COVARIANCE_FLOOR)


def _learning() -> tuple[Callable[..., Any], ...]:
    """Return what features are learnt with: it needs JAX and optax, and only where they are."""
    try:
        import optax  # noqa: F401
    except ImportError as error:
        raise BagwiseError.because(
            "features are to be learnt, and optax is not installed",
            "the libraries for learning",
            'Install them: pip install "bagwise[learn]".',
        ) from error
    from bagwise.heads.learning import learning_problem
    from bagwise.inference.training import held_out, learn

    return held_out, learn, learning_problem


class ShowsLearnt:
    """Adds to the HTML of a scikit-learn estimator the values that ``fit`` has learnt."""

    def _repr_html_inner(self) -> str:
        return super()._repr_html_inner() + self._learnt_html()  # type: ignore[misc]

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)  # type: ignore[misc]
        if "text/html" in bundle:
            bundle["text/html"] += self._learnt_html()
        return bundle

    def _learnt_html(self) -> str:
        found = learnt(self)
        columns = {"attribute": list(found), "value": list(found.values())}
        return panel("Learnt", table(columns)) if found else ""


class BagEstimator(ShowsLearnt, TakesBags):
    """A scikit-learn estimator whose samples are bags.

    Subclasses say what the labels are, in ``make_task``, how a head is fitted to mean embeddings,
    in ``_fit_head``, and what it predicts, in ``predict_stats``.
    """

    needs_covariance: ClassVar[bool] = False
    takes_function_landmarks: ClassVar[bool] = False
    learns_features: ClassVar[bool] = True
    likelihood: ClassVar[Likelihood] = Gaussian()
    tuning_metric: ClassVar[str] = "nll"

    embedding: BagEmbedding
    head_: Any
    history_: History | None = None  # of learnt features
    sums_: RunningSums
    novelty_: Novelty | None = None  # of what is usual among training bags

    takes_groups: ClassVar[bool] = False

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to bags X (anything that :func:`bagwise.as_bags` takes) and labels y (n_bags,).

        Labels are in the order of the bags, or have their ids: as a dict, or in a pandas index that
        holds them. :func:`bagwise.bags.per_bag.in_bag_order` has the rule. With more than two
        million points, kernel and bandwidth are chosen on at most 500 points of 1,000 bags.
        ``sample_weight`` (n_bags,) weighs each bag's term in the loss or log likelihood, relative
        to the average bag. ``groups`` (n_bags,) are sets of bags that err together, such as the
        races of a year; Gaussian processes have an effect of each, and other models refuse them.
        """
        bags = as_bags(X)
        task = self.with_groups(self.make_task(bags, y, sample_weight), groups, bags)
        self._check_embedding()
        self._check_parameters()
        candidates, losses = None, list[float]()
        if self.embedding.n_candidates > 1 and bags.n_points > MANY_POINTS:
            some = some_of(bags.n_bags, FEW_BAGS)
            if isinstance(bags, BagStream):
                bags.await_some(some, TRIAL_POINTS)
            every = self.embedding.candidates(bags)
            few = bags.some(some, TRIAL_POINTS)
            losses, _ = self._compared(few, task.take(some), every, Thrift(single=True))
            candidates = [every[int(np.argmin(losses))]]
        found, best = self._compared(bags, task, candidates)
        losses = losses or found
        best = self._with_learnt(bags, task, *best)
        self._keep(bags, task, best[0], self._finish_head(*best, task))
        return self._keep_losses(bags, losses)

    def _compared(
        self,
        bags: Bags,
        task: Task,
        candidates: list[Features] | None,
        thrift: Thrift | None = None,
    ) -> tuple[list[float], tuple[Pooled, AnyHead]]:
        """Fit a head to each of some features, by default all that there are.

        Returns the loss of each, and the best of them with its head. What is only tried, with
        thrift, has few bags, and heads are fitted at once in threads.
        """
        one = candidates is not None and len(candidates) == 1
        losses, handicaps = list[float](), [0.0] if one else self._handicaps(bags)
        best: tuple[Pooled, AnyHead] | None = None
        n_threads = 1 if thrift is None else joblib.cpu_count()
        with (
            Progress("fitting", len(handicaps), wanted()) as bar,
            one_thread("blas"),  # here, as threads would each put it back
            ThreadPoolExecutor(n_threads) as threads,
        ):
            work = partial(self._with_head, task=task)
            found = self.pooled(bags, candidates, thrift)
            fitted = in_order(work, found, None if thrift is None else threads)
            for (pooled, head), handicap in zip(fitted, handicaps, strict=True):
                losses.append(head.loss + handicap)
                if best is None or losses[-1] < min(losses[:-1]):
                    best = pooled, head
                bar.advance()
        assert best is not None
        return losses, best

    def _with_head(self, pooled: Pooled, task: Task) -> tuple[Pooled, AnyHead]:
        return pooled, self._fit_head_alone(pooled, task)

    def fit_pooled(self, pooled: Pooled, bags: Bags, task: Task) -> Self:
        """Fit to bags whose features are there already, as :func:`bagwise.tune` does."""
        self._check_embedding()
        self._check_parameters()
        head = self._fit_head_alone(pooled, task)
        self._keep(bags, task, pooled, self._finish_head(pooled, head, task))
        return self._keep_losses(bags, [head.loss])

    @abstractmethod
    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the labels."""

    def with_groups(self, task: Task, groups: Any, bags: Bags) -> Task:
        """Return a task whose bags come in groups that err together, if they do."""
        if groups is None:
            return task
        if not self.takes_groups:
            raise BagwiseError.because(
                f"groups of bags with a {type(self).__name__}, which has no effect of a group",
                "a Gaussian process",
                "Use DistributionGPRegressor or DistributionGPClassifier, or leave groups out; "
                "Conformal(model, groups=...) makes intervals of any model hold for new groups.",
            )
        return replace(task, groups=Groups.among(groups, bags))

    def _check_embedding(self) -> None:
        """Refuse an embedding of which a part would be left unused."""
        if as_embedding(self.embedding).training is not None and not self.learns_features:
            raise BagwiseError.because(
                f"a {type(self).__name__} has no model for that, and features are to be learnt",
                "fixed features, or another model",
                "Leave out learn=..., or use RBFNetworkRegressor or ShrinkageRegressor.",
            )
        z = getattr(as_embedding(self.embedding), "function_landmarks", None)
        if z is not None and not self.takes_function_landmarks:
            raise BagwiseError.because(
                f"function_landmarks with a {type(self).__name__}, which has no use for them",
                "None, except for ShrinkageRegressor and ShrinkageClassifier",
                "Set it with KernelEmbedding(function_landmarks=None).",
            )

    def _check_parameters(self) -> None:
        """Refuse parameters that would otherwise be looked at only after much work."""

    def _fit_head_alone(self, pooled: Pooled, task: Task) -> AnyHead:
        """Fit the head with one thread.

        Its many small products gain nothing from more, and NumPy's and SciPy's pools of threads
        would wait for each other: measured on two cores, five times slower.
        """
        if self.needs_covariance:
            need_covariance(pooled.stats, WITHOUT_COVARIANCE)
        with one_thread("blas"):
            return self._fit_head(pooled, task)

    def _with_learnt(
        self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead
    ) -> tuple[Pooled, AnyHead]:
        """Learn what the embedding says is to be learnt, and fit the head to that, exactly."""
        self.__dict__.pop("history_", None)  # of an earlier fit
        training = self.embedding.training
        if training is None:
            return pooled, head
        held_out, learn, learning_problem = _learning()
        out = held_out(bags, task.weights, pooled.features, training)
        kept = task.weights.copy()
        kept[out] = 0.0
        few = self._fit_head_alone(pooled, replace(task, weights=kept)) if len(out) else head
        floor = getattr(self, "covariance_floor", COVARIANCE_FLOOR)
        prior = getattr(self, "_prior_taken", getattr(self, "prior", "kernel"))
        parts = tuple(
            learning_problem(each, pooled.features, bags, task, training.what, floor, prior)
            for each in (few, head)
        )
        scaling = pooled.features.scaling  # type: ignore[attr-defined]
        features, self.history_ = learn(parts, out, bags, scaling, training)
        if self.history_.best == 0 and self.history_.n_epochs:
            warnings.warn(
                f"learning gained nothing on {len(out)} bags held out, in {self.history_.n_epochs} "
                "epochs: the features are those it began with. Give more bags, learn less "
                "(learn=...), or try Training(learning_rate=...) of a tenth; or leave learn out.",
                BagwiseWarning,
                stacklevel=3,
            )
        learnt = Pooled(features, summarise(bags, features, covariance=self.needs_covariance))
        return learnt, self._fit_head_alone(learnt, task)

    @abstractmethod
    def _fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        """Fit the head."""

    def _handicaps(self, bags: Bags) -> list[float]:
        """Return what is added to the loss of each candidate of features."""
        return [0.0] * self.embedding.count(bags)

    def _keep_losses(self, bags: Bags, losses: list[float]) -> Self:
        """Store what is to be known of the candidates."""
        return self

    def _finish_head(self, pooled: Pooled, head: AnyHead, task: Task) -> AnyHead:
        """Do to the best head what would take too long to do to every candidate."""
        return head

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead) -> Self:
        """Store what was learnt, under names that end in an underscore."""
        self._keep_columns(bags)
        if not isinstance(bags, SummedBags):
            self.__dict__.pop("sums_", None)  # of an earlier fit
        self.features_, self.head_ = pooled.features, head
        with one_thread("blas"):
            self.novelty_ = Novelty.of(pooled.stats)
        self.effects_ = task.effects
        self.label_center_, self.label_scale_ = task.center, task.scale
        for name in ("landmarks_", "bandwidth_"):  # of an earlier fit
            self.__dict__.pop(name, None)
        if isinstance(pooled.features, LandmarkFeatures):
            self.landmarks_ = pooled.features.places
            self.bandwidth_ = pooled.features.kernel.bandwidth
        return self

    def pooled(
        self,
        bags: Bags,
        candidates: list[Features] | None = None,
        thrift: Thrift | None = None,
    ) -> Iterator[Pooled]:
        """Make features of the training bags; several, if kernel or bandwidth are to be chosen."""
        candidates = self.embedding.candidates(bags) if candidates is None else candidates
        covariance = self.needs_covariance
        stats = summarise_each(bags, candidates, covariance=covariance, thrift=thrift)
        yield from map(Pooled, candidates, stats)

    def has_shared_features(self) -> bool:
        """Whether the parameters determine one set of features, which other models can share."""
        embedding = as_embedding(self.embedding)
        return embedding.n_candidates == 1 and embedding.training is None

    def predict_dist(self, X: Any) -> Any:
        """Return the predictive distribution of the labels of bags X, or of their running sums."""
        check_is_fitted(self)
        if isinstance(X, RunningSums):
            self._check_sums(X)
            return self.predict_stats(X.stats(covariance=False), X.bags)
        bags = self._check_bags(X)
        return self.predict_stats(summarise(bags, self.features_, covariance=False), bags)

    def sums(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, refit: bool | None = None
    ) -> RunningSums:
        """Sum the features of bags X, which have ids, so that points can be added later.

        Parameters
        ----------
        X, y, sample_weight : as in ``fit``; labels may be missing (NaN or None), or all unknown
        refit : whether the model can be fitted again from them, by default if there are labels; of
            models that shrink that takes d(d + 1)/2 numbers for each bag, for predictions d
        """
        check_is_fitted(self)
        features = getattr(self, "features_", None)
        if features is None or features.centred:
            raise BagwiseError.because(
                "this model sums over pairs of points"
                if features is None
                else "this model sees points less the mean of their bag, which moves with each",
                "a model that needs no old point when a new one comes",
                "Fit it with exact=False." if features is None else "Fit it with center=False.",
            )
        if features.point_weights is not None:
            raise BagwiseError.because(
                "this model weighs points, and what a bag weighs is known when all have come",
                "a model whose points count alike",
                'Leave "point_weights" out of learn.',
            )
        refit = y is not None if refit is None else flag("refit", refit, "sums")
        scatter = refit and self.needs_covariance
        return RunningSums.of(features, self._check_bags(X), y, sample_weight, scatter=scatter)

    def update(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, batch: str | None = None
    ) -> Any:
        """Add points of known or new bags to ``sums_``, and predict these bags from all they have.

        The model stays as it is; ``partial_fit`` fits it again. Arguments are those of
        :meth:`RunningSums.add_bags`; ``sums_`` is made by ``partial_fit``.
        """
        sums, bags = self._held_sums(), as_bags(X)
        sums.add_bags(bags, y, sample_weight, batch=batch)
        return self.predict_dist(sums.take(sums.places(bags.ids)))

    def partial_fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, batch: str | None = None
    ) -> Self:
        """Fit to bags whose points, or labels, come one after the other.

        The first call is a ``fit`` that keeps the sums of the features, as ``sums_``. Others add to
        them (see :meth:`RunningSums.add_bags`: bags have ids, and labels may be missing) and fit
        the head again to all bags that have a label: what a fit to all points would give with the
        features of the first. X may also be RunningSums, of this model, to go on with.
        """
        if isinstance(X, RunningSums):
            check_is_fitted(self)
            self._check_sums(X)
            self.sums_ = X
        elif not hasattr(self, "head_"):
            bags = as_bags(X)
            self.fit(bags, y, sample_weight)
            self.sums_ = self.sums(bags, y, sample_weight)
            return self
        else:
            self._held_sums().add_bags(X, y, sample_weight, batch=batch)
        return self._refit(self.sums_.only_labelled())

    def _refit(self, known: RunningSums) -> Self:
        """Fit the head again, to sums of bags whose labels are known."""
        if not known.n_bags:
            raise InvalidLabelsError.because(
                "no bag of the sums has a label",
                "labels to fit to",
                "Give them with sums.add_bags(X, y), or only predict: model.predict_dist(sums).",
            )
        weights = None
        if not np.isnan(known.sample_weight).all():
            weights = np.where(np.isnan(known.sample_weight), 1.0, known.sample_weight)
        bags = known.bags
        task = self.make_task(bags, known.labels, weights)
        self._check_parameters()
        pooled = Pooled(self.features_, known.stats(covariance=self.needs_covariance))
        head = self._fit_head_alone(pooled, task)
        return self._keep(bags, task, pooled, self._finish_head(pooled, head, task))

    def _held_sums(self) -> RunningSums:
        if not hasattr(self, "sums_"):
            raise BagwiseError.because(
                "this model has not kept the sums of its bags",
                "a model that was fitted with partial_fit",
                "Use sums = model.sums(bags, y) and model.partial_fit(sums); or sums.add_bags(X) "
                "and model.predict_dist(sums).",
            )
        return self.sums_

    def _check_sums(self, sums: RunningSums) -> None:
        features = getattr(self, "features_", None)
        if not same(features, sums.features):
            raise BagwiseError.because(
                "these sums are of other features than those of the model",
                "sums that this model has made",
                "Make them again from the points: model.sums(bags, y).",
            )
        check_columns("covariate", *self._covariates, sums)

    def explain(self, X: Any, *, bag: Any = None) -> Explanation:
        """Return what each point, feature and column of one bag adds to its prediction.

        Parameters
        ----------
        X : the points of a bag (N, p), or bags as in ``predict``
        bag : which of several bags, by its id or else its position
        """
        check_is_fitted(self)
        given = one_bag(X, bag)
        bags, prediction = self._check_bags(given), self.predict_dist(given)
        said = getattr(prediction, "latent", prediction)  # before the link, or the range
        mean = float(said.mean[0])
        target = getattr(prediction, "target", "label")
        return self._explained(bags, self.head_, mean, target, self.label_scale_)

    def _explained(
        self, bags: Bags, head: Any, prediction: float, target: str, unit: float
    ) -> Explanation:
        """Return what is behind the prediction of a head, whose labels have a unit."""
        function, directions, level, gamma = self._respond(bags, head, unit)
        effects = self.effects_.mixing @ gamma
        rest = np.zeros(0) if bags.covariates is None else bags.covariates[0] - self.effects_.center
        return Explanation(
            function.shown(weighed(bags, getattr(self, "features_", None))),
            function,
            directions,
            prediction=prediction,
            baseline=float(self.label_center_ + unit * (level + effects[0])),
            covariates=unit * effects[1:] * rest / self.effects_.scale,
            target=target,
        )

    def _respond(
        self, bags: Bags, head: Any, unit: float
    ) -> tuple[Witness, Directions, float, Float64[np.ndarray, " r"]]:
        """Return the witness function of one bag, its directions, and level and γ of its mean."""
        stats = summarise(bags, self.features_, covariance=False)
        design = self.effects_.design(bags.covariates, bags.n_bags)
        response = head.response(head.embed(stats), design)
        slope = unit * response.slope
        directions = Directions.of(self.features_, slope * (stats.mean[0] - response.center))
        function = Witness.of(self.features_, slope, float(slope @ response.center), bags)
        return function, directions, response.level, response.gamma

    def predict_stats(self, stats: BagStats, bags: Bags) -> Any:
        """Predict bags whose statistics are there already."""
        query = self._query(self.head_, stats, bags)
        likelihood = self._likelihood_of(bags)
        return likelihood.predict(query, sizes=stats.sizes, ids=bags.ids)

    def _query(self, head: Head, stats: BagStats, bags: Bags) -> Query:
        design = self.effects_.design(bags.covariates, bags.n_bags)
        units = self.label_center_, self.label_scale_
        novelty = None if self.novelty_ is None else self.novelty_(stats)
        return Query(head, head.embed(stats), design, *units, novelty)

    def _likelihood_of(self, bags: Bags) -> Any:
        """Return the likelihood of the labels of some bags."""
        return self.likelihood


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
        said = getattr(prediction, "latent", prediction)  # on the scale of what was fitted
        away = np.abs(said.mean - self.label_center_) / self.label_scale_
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


class ShrinkageModel(BagEstimator):
    """Fits the point estimate of the weights, and shows it in the label's units."""

    needs_covariance: ClassVar[bool] = True
    takes_function_landmarks: ClassVar[bool] = True

    prior: str
    sampling: float | str
    head_: Any

    def _fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        sampling = sampling_or_auto(self.sampling)
        weight_var = number_or("weight_var", getattr(self, "weight_var", "evidence"), "evidence")
        floor = getattr(self, "covariance_floor", COVARIANCE_FLOOR)
        floor = positive("covariance_floor", floor)
        make = PRIORS[choice("prior", self.prior, tuple(PRIORS))]
        made: Prior = make(pooled.features, pooled.stats, floor)

        def fit(task: Task) -> ShrinkageHead:
            return ShrinkageHead.fit(
                made, pooled.stats, task, weight_var, self.likelihood, sampling
            )

        return for_each_class(task, fit)

    @property
    def weights_(self) -> Float64[np.ndarray, "*k s"]:
        """Weights α of the function f, in units of the label; of many classes a row for each."""
        unit = self.label_scale_
        return of_each_class(self.head_, lambda head: head.model.weight_map @ head.w * unit)

    @property
    def intercept_(self) -> Any:
        """Label of the average bag, at covariates zero; of many classes (k,)."""
        constant = of_each_class(self.head_, lambda head: self.effects_.unmix(head.gamma)[0])
        return self.label_center_ + self.label_scale_ * constant

    @property
    def covariate_weights_(self) -> Float64[np.ndarray, "*k c"]:
        """Change of the label per unit of each covariate; of many classes a row for each."""
        slopes = of_each_class(self.head_, lambda head: self.effects_.unmix(head.gamma)[1])
        return self.label_scale_ * slopes

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label; of classes that of the link."""
        return heads_of(self.head_)[0].noise_var * self.label_scale_**2

    @property
    def prior_scale_(self) -> Any:
        """Prior scale η; of many classes (k,)."""
        return of_each_class(self.head_, lambda head: head.prior_scale)

    @property
    def weight_var_(self) -> Any:
        """Weight variance ρ² that was used, for standardised labels; of many classes (k,)."""
        return of_each_class(self.head_, lambda head: head.mode.weight_var)

    @property
    def sampling_(self) -> Any:
        """τ that was used: 1 if the points are a sample of the bag; of many classes (k,)."""
        return of_each_class(self.head_, lambda head: getattr(head, "start", head).sampling)

    @property
    def length_scale_(self) -> Any:
        """Length ℓ of the convolved prior, in standardised features; None for other priors."""
        return of_each_class(self.head_, lambda head: head.length)


def learnt(estimator: Any) -> dict[str, str]:
    """Return the public attributes that end in an underscore and are numbers, text or arrays.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> learnt(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]))["coef_"]
    '2'
    """
    if not any(_public(name) for name in vars(estimator)):
        return {}  # not fitted
    found = {}
    for name in filter(_public, dir(estimator)):
        value = getattr(estimator, name, None)
        if isinstance(value, np.ndarray):
            large = value.size > SHOWN
            shape = " × ".join(map(str, value.shape))
            found[name] = f"array, {shape}" if large else ", ".join(map(brief, value.flat))
        elif isinstance(value, str | int | float | np.generic):
            found[name] = brief(value)
    return found


def _public(name: str) -> bool:
    return name.endswith("_") and not name.startswith("_")
