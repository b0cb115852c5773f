"""Gaussian processes on distributions: the models that we put first.

They know what the linear models know of a bag, and are not linear in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bagwise._utils.work import one_thread
from bagwise.bags.bags import Bags, BagStream, as_bags
from bagwise.bags.per_bag import check_labels
from bagwise.bags.validation import choice, generator, sampling_or_auto, wrong
from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.running import RunningSums, SummedBags
from bagwise.embedding.sums import BagStats, Thrift, summarise
from bagwise.estimators.base import (
    FEW_POINTS,
    BagEstimator,
    BagRegressor,
    Pooled,
)
from bagwise.estimators.classifiers import BagClassifier
from bagwise.estimators.embeddings import (
    COVARIANCE_FLOOR,
    BagEmbedding,
    KernelEmbedding,
    as_embedding,
)
from bagwise.estimators.kernel_choice import DEVIATIONS, KernelChoice, Way, as_seen
from bagwise.estimators.label_kinds import COUNTS, LabelKind, check_positive, check_support
from bagwise.exceptions import BagwiseError
from bagwise.features.maps import Features
from bagwise.heads import gp_fit
from bagwise.heads.base import AnyHead, Task, heads_of, places_of, some_of
from bagwise.heads.gp import GPDraws, GPHead
from bagwise.inference.diagnostics import Diagnostics, diagnose, warn_if_bad
from bagwise.inference.draws import Trajectories
from bagwise.inference.gp_evidence import GPProblem, warn_if_moving
from bagwise.inference.gp_scales import ScaleDraws
from bagwise.inference.second_level import Scales
from bagwise.inference.settings import NUTS
from bagwise.likelihoods import Gaussian, Probit
from bagwise.likelihoods.base import ClassLikelihood, Linked
from bagwise.likelihoods.bounded import Bounded
from bagwise.likelihoods.positive import Positive
from bagwise.likelihoods.student import Student
from bagwise.predictions.gaussian import Prediction
from bagwise.predictions.latent import Query

PRIORS = ("auto", "learnt", "kernel")
INFERENCES = ("auto", "average", "evidence", "nuts")

# Where the search for the variance of groups starts, labels standardised.
START_GROUP = 0.05

# Points of a bag that is cut in two to see how far its prediction moves, and bags, at least and at
# most.
LEAST_TO_CUT = 4
LEAST_CUT = 10
HALVED_BAGS = 400

# Labels are standardised unless they are constant; then there is nothing to learn.
CONSTANT = 1e-9
CERTAIN = Scales(
    linear=1e-12, gauss=1e-12, effects=1e-12, size=1e-12, noise=1e-12, size_noise=1e-12
)


def _mode(head: Any) -> GPHead:
    """Return the process, of several with drawn scales that of the largest evidence."""
    return head.mode if isinstance(head, GPDraws) else head


def _first(head: AnyHead) -> GPHead:
    """Return the process, or that of the first of many classes, which share their scales."""
    return _mode(heads_of(head)[0])


def _with_share(head: Any, earlier: Any) -> Any:
    """Return a head with the share of its bag part that is true, as an earlier one had it."""
    known = _mode(earlier)
    mode = replace(_mode(head), bag_share=known.bag_share, share_slope=known.share_slope)
    return replace(head, mode=mode) if isinstance(head, GPDraws) else mode


def _cut_in_two(bags: Bags, features: Features) -> tuple[BagStats, list[BagStats]]:
    """Return what features say of bags, and of the halves of each."""

    def said(part: Bags) -> BagStats:
        seen = as_seen(part, features.centred)
        return summarise(seen, features, covariance=False, thrift=Thrift(single=True))

    parts = bags.halves()
    halves = [said(part) for part in parts]
    if features.centred or features.point_weights is not None:  # by each half: they do not add up
        return said(bags), halves
    totals = np.stack([part.totals for part in parts])[..., None]
    sums = sum(total * half.mean for total, half in zip(totals, halves, strict=True))
    return BagStats(sums / totals.sum(axis=0), bags.effective_sizes), halves


def _switch(name: str, value: Any) -> bool:
    """Return whether something is to be decided by the data, or left out."""
    if isinstance(value, str) and value == "auto":
        return True
    if not isinstance(value, bool | np.bool_):
        raise wrong(name, value, '"auto" or False')
    return bool(value)


class DistributionGP(BagEstimator):
    """What regressor and classifier share.

    Attributes
    ----------
    tried_ : dict, −log evidence per bag of each kernel that was tried; empty if there was no choice
    groups_ : (g,), the groups of bags that err together, or None if there are none
    """

    needs_covariance: ClassVar[bool] = True
    takes_groups: ClassVar[bool] = True
    quick_inferences: ClassVar[tuple[str, ...]] = ("auto", "average", "evidence")

    prior: str
    sampling: float | str
    size: bool | str
    center: bool | str
    inference: NUTS | str
    head_: Any
    tried_: dict[str, float]
    groups_: np.ndarray | None

    # What the evidence decides, within a fit.
    _choice: KernelChoice | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit to bags X and labels y (n_bags,), as every other model.

        ``groups`` (n_bags,), in the order of the bags or by their ids, are sets of bags that err
        together, such as the races of a year: y_i = f_i + b_group + noise, b ~ N(0, g²), with g² of
        the largest evidence. A bag that is predicted is of a new group, and g² unsure by that,
        unless ``predict_dist(X, groups=...)`` names one that is known.

        Kernels and bandwidths are tried on some of the bags and with few landmarks, the best few on
        more of both; the evidence decides, in doubt for one that mixes kernels or for the simplest.
        That one is fitted to all bags: of a stream, in one pass over its points.
        """
        bags = as_bags(X)
        task = self.with_groups(self.make_task(bags, y, sample_weight), groups, bags)
        self._check_embedding()
        self._check_parameters()
        self._choice = self._new_choice(self._ways(bags))
        pooled, head = self._choice.fitted(bags, task)
        seen = as_seen(bags, pooled.features.centred)
        pooled, head = self._with_learnt(seen, task, pooled, head)
        return self._keep(bags, task, pooled, self._finish_head(pooled, head, task))

    def with_groups(self, task: Task, groups: Any, bags: Bags) -> Task:
        """Return a task whose bags come in groups that err together, if they do."""
        if groups is not None and as_embedding(self.embedding).training is not None:
            raise BagwiseError.because(
                "groups of bags, and features that are to be learnt",
                "one of the two: features are learnt without an effect of the group",
                "Leave out learn=..., or groups.",
            )
        return super().with_groups(task, groups, bags)

    def predict_dist(self, X: Any, groups: Any = None) -> Any:
        """Return the predictive distribution of the labels of bags X, or of their running sums.

        ``groups`` (n_bags,) says which group each bag is of, if the model was fitted to groups; one
        that is not among them, or all if it is left out, is a new one.
        """
        if groups is None:
            return super().predict_dist(X)
        check_is_fitted(self)
        if self.groups_ is None:
            raise BagwiseError.because(
                "groups are named, and the model was fitted without any",
                "a model that was fitted with groups",
                "Call fit(X, y, groups=...), or leave them out here.",
            )
        X = X if isinstance(X, RunningSums) else as_bags(X)
        asked = copy(self)
        asked._places = places_of(groups, X.bags if isinstance(X, RunningSums) else X, self.groups_)
        return asked.predict_dist(X)

    def _query(self, head: Any, stats: BagStats, bags: Bags) -> Query:
        query = super()._query(head, stats, bags)
        if self._places is None:
            return query
        return replace(query, design=np.column_stack([query.design, self._places]))

    _places: np.ndarray | None = None

    def _refit(self, known: RunningSums) -> Self:
        if self.groups_ is not None:
            raise BagwiseError.because(
                "this model was fitted to groups of bags, of which running sums do not know",
                "a model without groups",
                "Fit it again to all points, or without groups.",
            )
        return super()._refit(known)

    def _ways(self, bags: Bags) -> tuple[Way, ...]:
        """Return how bags are to be seen: in one way, or in each of several that are tried."""
        asked = self._center()
        cannot = isinstance(bags, BagStream) or bags.sizes.max() == 1
        if asked == "auto":
            tries = self.embedding.n_candidates > 1 and not cannot
            return (False, True, DEVIATIONS) if tries else (False,)
        if asked and cannot:
            raise wrong("center", self.center, "False for bags of one point, or read from a file")
        return (asked,)

    def _center(self) -> Way:
        """Return how bags are to be seen, or "auto"."""
        if isinstance(self.center, str) and self.center in ("auto", DEVIATIONS):
            return self.center
        if not isinstance(self.center, bool | np.bool_):
            raise wrong("center", self.center, f'"auto", True, False or "{DEVIATIONS}"')
        return bool(self.center)

    def has_shared_features(self) -> bool:
        """Whether features can be shared between candidates: if bags are seen as they are."""
        return self._center() in (False, "auto") and super().has_shared_features()

    def _check_bags(self, X: Any) -> Bags:
        return as_seen(super()._check_bags(X), self.features_.centred)

    def _check_parameters(self) -> None:
        choice("prior", self.prior, PRIORS)
        _switch("size", self.size)
        self._center()
        sampling_or_auto(self.sampling)
        self._sampler()

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead) -> Self:
        super()._keep(bags, task, pooled, head)
        self.groups_ = None if task.groups is None else task.groups.ids
        if not isinstance(bags, SummedBags):
            tried = {} if self._choice is None else self._choice.tried
            self.tried_ = dict(tried.values())
        self.__dict__.pop("_choice", None)
        if self.diagnostics_ is not None:
            warn_if_bad(self.diagnostics_)
        warn_if_moving(max(_mode(each).moved for each in heads_of(head)))
        return self

    def _sampler(self) -> NUTS | None:
        """Return how scales are sampled, or None if they are not."""
        if isinstance(self.inference, NUTS):
            return self.inference
        if not isinstance(self.inference, str) or self.inference not in INFERENCES:
            known = ", ".join(f'"{name}"' for name in INFERENCES)
            raise wrong("inference", self.inference, f"{known} or bagwise.inference.NUTS()")
        return gp_fit.SCALE_DRAWS if self.inference == "nuts" else None

    def _new_choice(self, ways: Sequence[Way] = (False,)) -> KernelChoice:
        return KernelChoice(self.embedding, self.prior, ways, self._problems)

    def _problems(self, pooled: Pooled, task: Task, prior: str) -> gp_fit.Problems:
        """Return the problem; of many classes, that of each against the rest."""
        first, *others = task.against_the_rest
        problem = self._problem(pooled, first, prior)
        counted = task.weights > 0
        return problem, *(replace(problem, labels=each.labels[counted]) for each in others)

    @property
    def _prior_taken(self) -> str:
        """The prior of embeddings within a fit."""
        return (self._choice or self._new_choice()).prior

    def _problem(self, pooled: Pooled, task: Task, prior: str) -> GPProblem:
        learnt = prior == "learnt"
        if learnt:
            model = pooled.learnt_model
        else:
            model = kernel_prior(pooled.features, pooled.stats, COVARIANCE_FLOOR)
        posterior, tau = model.posterior(pooled.stats), sampling_or_auto(self.sampling)
        free = list(Scales.names())
        start = Scales(
            tilt=-1.0 if learnt else 0.0,
            prior_scale=1.0 if learnt else posterior.moment_scale(),
            sampling=1.0 if tau is None else tau,
        )
        if tau is not None:
            free.remove("sampling")
        if task.groups is None:
            free.remove("group")
        else:
            start = replace(start, group=START_GROUP)
        if task.design.shape[1] == 1:  # the intercept alone
            free.remove("effects_length")
        linked: Linked | None = Probit() if task.classes is not None else None
        if task.likelihood is not None:
            linked = task.likelihood.around(task.center)
        if linked is not None and not getattr(task.likelihood, "has_noise", False):
            free = [name for name in free if name not in ("noise", "size_noise")]
            start = replace(start, noise=0.0, size_noise=0.0)
        one_size = len(posterior.sizes) == 1
        if one_size or not _switch("size", self.size):
            free = [name for name in free if name not in ("size", "size_length")]
            start = replace(start, size=1e-12, size_length=1e6)
        if one_size and "size_noise" in free:
            free.remove("size_noise")
            start = replace(start, size_noise=1e-12)
        if linked is None and np.abs(task.labels).max() < CONSTANT:
            free, start = [], CERTAIN
        counted = task.weights > 0
        problem = GPProblem(
            model,
            posterior,
            task.labels,
            task.weights,
            task.design,
            start,
            tuple(free),
            linked,
            members=None if task.groups is None else task.groups.of,
        )
        return problem if counted.all() else problem.take(counted)

    def _fit_head(self, pooled: Pooled, task: Task) -> AnyHead:
        self._choice = self._choice or self._new_choice()
        return self._choice.fit_head(pooled, task)

    def _finish_head(self, pooled: Pooled, head: AnyHead, task: Task) -> AnyHead:
        with one_thread("blas"):  # as for any other head
            spread = _switch("spread", getattr(self, "spread", False))
            tails = self._tails()
            problems, sampler = self._problems(pooled, task, self._prior_taken), self._sampler()
            head = gp_fit.refined(head, problems, spread=spread, tails=tails)
            rng = generator(self.embedding.random_state)
            if sampler is not None:
                return gp_fit.sampled(head, problems, sampler, rng)
            return gp_fit.averaged(head, problems, rng) if self._averages(problems) else head

    def _averages(self, problems: gp_fit.Problems) -> bool:
        """Whether scales are averaged over: if asked for, or if bags are few."""
        real = problems[0].likelihood is None
        if self.inference == "auto":
            return real and len(problems[0].labels) <= gp_fit.AVERAGED_BAGS
        if self.inference == "average" and not real:
            raise BagwiseError.because(
                'inference is "average", and labels are classes or counts',
                "real labels",
                'Say inference="nuts" to draw scales, or "evidence".',
            )
        return self.inference == "average"

    def _tails(self) -> str:
        """Return whether Student's t takes the place of the Gaussian: no, auto or always."""
        return "no"

    @property
    def draws_(self) -> dict[str, np.ndarray] | None:
        """Draws of the scales (chains, draws), labels standardised; None if they are not sampled.

        Names are those of `Scales`; of many classes, which share them, there is one set.
        """
        return None if self._draws is None else self._draws.scales

    @property
    def trajectories_(self) -> Trajectories | None:
        """How NUTS got the draws; None if it did not."""
        return None if self._draws is None else self._draws.trajectories

    @property
    def diagnostics_(self) -> Diagnostics | None:
        """Whether draws of NUTS can be trusted."""
        draws = self._draws
        if draws is None or draws.trajectories is None:
            return None
        return diagnose(draws.scales, draws.trajectories)

    @property
    def _draws(self) -> ScaleDraws | None:
        return getattr(heads_of(self.head_)[0], "draws", None)

    @property
    def prior_(self) -> str:
        """The prior of embeddings that was taken, "learnt" or "kernel".

        In coordinates of the kernel's the norm of a function is diagonal; in those of a learnt one
        it is not, unless there is one direction alone, in which the two are the same.
        """
        if self.prior != "auto":
            return self.prior
        norms = _first(self.head_).model.function_map
        return "learnt" if np.count_nonzero(norms) > len(norms) else "kernel"

    @property
    def sampling_(self) -> float:
        """τ that was used: 1 if the points are a sample of the bag, 0 if they are all of it.

        Of draws it is their mean, as it is of the other scales.
        """
        return heads_of(self.head_)[0].scales.sampling

    @property
    def prior_scale_(self) -> float:
        """Prior scale η."""
        return heads_of(self.head_)[0].scales.prior_scale


class DistributionGPRegressor(DistributionGP, BagRegressor):
    """Gaussian process regression on distributions that are known through their points.

    y_i = f(μ_i) + noise,  f ~ GP(0, κ),  μ_i ~ N(M_i, C_i),  noise ~ N(0, σ² + c/N_i)

    κ is linear + Gaussian in the embedding μ_i of the bag, so that labels may depend on the
    distribution in any smooth way, and on its size and covariates. M_i and C_i are what N_i points
    tell of it. All scales are those of the largest evidence, or drawn from their posterior.

    Parameters
    ----------
    embedding : KernelEmbedding or FourierEmbedding, optional
        Features of the points; by default ``KernelEmbedding(kernel="auto")``: kernel and bandwidth
        of the largest evidence.
    prior : "auto", "learnt" or "kernel"
        Covariance of embeddings between bags: as the bags show it, or that of the kernel; by
        default whichever has the larger evidence, in doubt that of the kernel.
    sampling : "auto" or float
        τ: 1 if the points are a sample of what the bag is, 0 if they are all of it; or learnt.
    size : "auto" or False
        Whether the label may depend on log N itself, as far as the evidence asks for it.
    center : "auto", True, False or "deviations"
        Whether points count less the mean of their bag, so that only the shape of a bag matters and
        not where it is; or, with "deviations", beside how far they are from it, in each column. By
        default, where there are kernels to choose from, whichever has the larger evidence; bags
        that are read from a file are seen as they are.
    spread : "auto" or False
        Whether the width of predictions may depend on what is predicted and on log N, as far as
        residuals left out ask for it.
    support : (lowest, highest), optional
        Range of real labels, if it is known; one of the two may be infinite. Predictions stay in
        it, and are Gaussian within it.
    likelihood : str
        What labels are. ``"auto"``: real numbers, Gaussian around their mean or, where residuals
        left out clearly ask for heavier tails, Student's t; ``"gaussian"`` or ``"student"``
        decides that. ``"positive"``: numbers > 0, log-normal. ``"poisson"`` and
        ``"negative-binomial"``: counts of rate e^f, the second of more variance than the first.
        ``"binomial(voters)"``: successes, of a number of trials that the covariate "voters" of each
        bag says; ``"binomial(20)"``: of 20 trials each. In the same way ``"poisson(hours)"`` has
        an exposure to which counts are proportional. What is named so is no covariate otherwise.
    inference : "auto", "average", "evidence", "nuts" or NUTS
        ``"evidence"``: scales of the largest evidence. ``"average"``: predictions are averages over
        16 processes with scales that the labels leave open, drawn around these: with few bags, one
        process is too sure. ``"auto"``: averages up to 200 bags of real labels. ``"nuts"``: scales
        are drawn from their posterior by NUTS, with 2 chains of 600 draws (settings:
        ``bagwise.inference.NUTS(draws=1000)``): about a minute with 100 bags, ten or more with 500;
        averages over 32 of the draws. An average is a mixture; of labels that are not real numbers,
        or have a range or heavy tails, latent values have its mean and variance. Kernel, prior,
        spread and tails stay those of the largest evidence. The seed is that of the embedding.

    Attributes
    ----------
    likelihood_ : the likelihood that was used: of "auto", "gaussian" or "student"

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 30)]
    >>> model = DistributionGPRegressor().fit(bags, y)
    >>> small, large = model.predict_dist([bags[1][:5], bags[1]]).std
    >>> bool(small > large)
    True

    Counts, and what to expect of them:

    >>> counts = rng.poisson(10 * y)
    >>> model = DistributionGPRegressor(likelihood="poisson").fit(bags, counts)
    >>> model.predict_dist([rng.normal(0, 1.5, (100, 1))]).interval(0.8).dtype  # whole numbers
    dtype('float64')
    """

    likelihood: str  # type: ignore[assignment,misc]
    likelihood_: str

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        prior: str = "auto",
        sampling: float | str = "auto",
        size: bool | str = "auto",
        center: bool | str = "auto",
        spread: bool | str = "auto",
        support: Any = None,
        likelihood: str = "auto",
        inference: NUTS | str = "auto",
    ) -> None:
        self.embedding = KernelEmbedding(kernel="auto") if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.size = size
        self.center = center
        self.spread = spread
        self.support = support
        self.likelihood = likelihood
        self.inference = inference

    def _likelihood_of(self, bags: Bags) -> Any:
        """Return the likelihood that was fitted, with the totals of some bags."""
        kind = LabelKind.of(self.likelihood_)
        if kind.name in COUNTS:
            return kind.counts(bags, self._covariates[0])[0]
        if kind.name == "positive":
            return Positive()
        if kind.name == "student":
            return Student(self.head_.dof)
        return Gaussian() if self.support is None else Bounded(*self._range())

    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the labels, which must be what their likelihood says."""
        kind, labels = self._kind(), check_labels(y, bags)
        if kind.name in COUNTS:
            likelihood, column = kind.counts(bags, bags.covariate_names)
            return Task.of_counts(bags, labels, likelihood, sample_weight, column)
        if kind.name == "positive":
            check_positive(labels, bags)
            labels = np.log(labels)
        if self.support is not None:
            check_support(labels, bags, self._range())
        return super().make_task(bags, labels, sample_weight)

    def _kind(self) -> LabelKind:
        """Return what labels are, or raise if parameters contradict each other."""
        kind = LabelKind.of(self.likelihood)
        if self.support is not None and kind.name not in ("auto", "gaussian"):
            raise BagwiseError.because(
                f"support is {self.support!r} and likelihood {self.likelihood!r}",
                'a range of real labels, likelihood="auto" or "gaussian"',
                "Leave one of the two out: other labels have a range of their own, or none.",
            )
        return kind

    def _tails(self) -> str:
        name = self._kind().name
        if name == "student":
            return "always"
        return "auto" if name == "auto" and self.support is None else "no"

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead) -> Self:
        if isinstance(bags, SummedBags):  # which cannot be cut in two: as it was with the points
            head = _with_share(head, self.head_)
        elif task.likelihood is None:
            few = None if self._choice is None else self._choice.compared
            head = self._checked_by_halves(bags, task, pooled.features, head, few)
        super()._keep(bags, task, pooled, head)
        (only,) = heads_of(head)
        real = "student" if np.isfinite(only.dof) else "gaussian"
        self.likelihood_ = real if self.likelihood == "auto" else str(self.likelihood)
        return self

    def _checked_by_halves(
        self, bags: Bags, task: Task, features: Features, head: AnyHead, few: Any
    ) -> AnyHead:
        """Return the head with a bag part that is true of bags that are cut in two."""
        some, bags = (np.arange(bags.n_bags), bags) if few is None else few
        if len(some) > HALVED_BAGS or few is None:
            fewer = some_of(len(some), HALVED_BAGS)
            some, bags = some[fewer], bags.some(fewer, FEW_POINTS)
        cut = bags.sizes >= LEAST_TO_CUT
        if bags.weights is not None:
            cut &= np.minimum.reduceat(bags.weights, bags.offsets[:-1]) > 0
        if np.count_nonzero(cut) < LEAST_CUT:
            return head
        bags, design = bags[cut], task.design[some[cut]]
        whole, halves = _cut_in_two(bags, features)
        with one_thread("blas"):
            if isinstance(head, GPDraws):
                return replace(head, mode=head.mode.checked_by_halves(whole, halves, design))
            assert isinstance(head, GPHead)
            return head.checked_by_halves(whole, halves, design)

    def _checked(self, prediction: Prediction) -> Prediction:
        """Say so if predictions are extrapolations, of which counts have no standard deviation."""
        counted = LabelKind.of(self.likelihood_).name in COUNTS
        return prediction if counted else super()._checked(prediction)

    def _range(self) -> tuple[float, float]:
        ends = self.support if isinstance(self.support, tuple | list) else ()
        numbers = [end for end in ends if isinstance(end, int | float | np.number)]
        known = len(ends) == len(numbers) == 2 and not any(isinstance(end, bool) for end in ends)
        low, high = map(float, numbers) if known else (np.nan, np.nan)
        if not low < high or not np.isfinite([low, high]).any():
            raise wrong("support", self.support, "two numbers (lowest, highest), or None")
        return low, high

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _switch("spread", self.spread)
        self._kind()

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label, without the part that is by size.

        Of positive labels it is that of their logs. Of negative binomial counts it is a, where
        their variance is μ + aμ²; of other counts 0.
        """
        return self.head_.scales.noise * self.label_scale_**2

    @property
    def dof_(self) -> float:
        """Degrees of freedom ν of Student's t; infinite where predictions are not of that kind."""
        return self.head_.dof


class DistributionGPClassifier(DistributionGP, BagClassifier):
    """Gaussian process classification of distributions that are known through their points.

    P(y_i = 1) = Φ(f(μ_i)),  f ~ GP(0, κ),  μ_i ~ N(M_i, C_i)

    The model of :class:`DistributionGPRegressor` for classes, by expectation propagation. Of many
    classes each has an f of its own, which tells it from the rest; they share all scales, and their
    probabilities are made to add up to one.

    Parameters
    ----------
    embedding, prior, sampling, size, center
        As in :class:`DistributionGPRegressor`.
    class_weight : None, "balanced" or dict
        Weights of the classes.
    inference
        As in :class:`DistributionGPRegressor`, without ``"average"``; classes share the draws of
        their scales.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = np.array(["wide", "narrow"] * 30)
    >>> bags = [rng.normal(0, 2.0 if label == "wide" else 1.0, (20, 1)) for label in y]
    >>> DistributionGPClassifier().fit(bags, y).predict([rng.normal(0, 2.0, (50, 1))])
    array(['wide'], dtype='<U6')
    """

    likelihood: ClassVar[ClassLikelihood] = Probit()

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        prior: str = "auto",
        sampling: float | str = "auto",
        size: bool | str = "auto",
        center: bool | str = "auto",
        class_weight: Any = None,
        inference: NUTS | str = "evidence",
    ) -> None:
        self.embedding = KernelEmbedding(kernel="auto") if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.size = size
        self.center = center
        self.class_weight = class_weight
        self.inference = inference
