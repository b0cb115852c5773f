"""Gaussian processes on distributions: the models that we put first.

They know what the linear models know of a bag, and are not linear in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from bagwise._utils.progress import Progress, wanted
from bagwise._utils.threads import one_thread
from bagwise.bags.bags import Bags, BagStream, as_bags
from bagwise.bags.checks import check_labels
from bagwise.bags.grouping import show
from bagwise.embedding.prior import FixedPrior
from bagwise.embedding.sums import summarise_each
from bagwise.estimators.base import WITHOUT_COVARIANCE, BagEstimator, BagRegressor, Pooled
from bagwise.estimators.classifiers import BagClassifier
from bagwise.estimators.embeddings import (
    COVARIANCE_FLOOR,
    BagEmbedding,
    KernelEmbedding,
    need_covariance,
)
from bagwise.estimators.parameters import choice, wrong
from bagwise.exceptions import InvalidLabelsError
from bagwise.features.maps import Features
from bagwise.heads.base import Head
from bagwise.heads.gp import TRIAL_BAGS, GPHead, some_of
from bagwise.heads.task import Task
from bagwise.inference.gp_evidence import GPProblem
from bagwise.inference.second_level import Scales
from bagwise.likelihoods.base import ClassLikelihood, Likelihood
from bagwise.likelihoods.bounded import Bounded
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.likelihoods.probit import Probit

PRIORS = ("learnt", "kernel")

# Landmarks by default, and where kernels are compared.
LANDMARKS = 200
TRIAL_LANDMARKS = 60

# Candidates that are fitted to all bags.
SHORTLIST = 2


# Labels are standardised unless they are constant; then there is nothing to learn.
CONSTANT = 1e-9
CERTAIN = Scales(
    linear=1e-12, gauss=1e-12, effects=1e-12, size=1e-12, noise=1e-12, size_noise=1e-12
)


def _name(features: Features, place: int) -> str:
    """Return the kernel as a text; random frequencies have only a number."""
    return repr(getattr(features, "kernel", f"candidate {place}"))


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
    """

    needs_covariance: ClassVar[bool] = True

    prior: str
    sampling: float | str
    size: bool | str
    head_: Any
    tried_: dict[str, float]

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to bags X and labels y (n_bags,), as every other model.

        Kernels and bandwidths are tried on some of the bags and with few landmarks; the best few
        are fitted to all bags. The evidence decides.
        """
        bags = as_bags(X)
        task = self.make_task(bags, y, sample_weight)
        self._check_embedding()
        self._check_parameters()
        tried = self._try_out(bags, task) if self.embedding.n_candidates > 1 else {}
        best_first = np.argsort(list(tried.values()))[:SHORTLIST].tolist()
        candidates = self.embedding.candidates(bags, LANDMARKS)
        shortlist = [candidates[place] for place in best_first or [0]]
        best: tuple[Pooled, Head] | None = None
        with Progress("fitting", len(shortlist), wanted()) as bar:
            for features, stats in zip(shortlist, summarise_each(bags, shortlist), strict=True):
                pooled = Pooled(features, stats)
                head = self._fit_head_alone(pooled, task)
                if best is None or head.loss < best[1].loss:
                    best = pooled, head
                bar.advance()
        assert best is not None
        self._keep(bags, task, best[0], self._finish_head(*best, task))
        self.tried_ = tried
        return self

    def _try_out(self, bags: Bags, task: Task) -> dict[str, float]:
        """Fit each candidate to some of the bags; return −log evidence per bag by kernel."""
        if not isinstance(bags, BagStream):  # whose points are all read in any case
            some = some_of(bags.n_bags, TRIAL_BAGS)
            bags, task = bags[some], task.take(some)
        candidates = self.embedding.candidates(bags, TRIAL_LANDMARKS)
        tried = dict[str, float]()
        with Progress("choosing a kernel", len(candidates), wanted()) as bar:
            for features, stats in zip(candidates, summarise_each(bags, candidates), strict=True):
                need_covariance(stats, WITHOUT_COVARIANCE)
                with one_thread("blas"):
                    head = GPHead.try_out(self._problem(Pooled(features, stats), task))
                tried[_name(features, len(tried))] = head.loss
                bar.advance()
        return tried

    def _check_parameters(self) -> None:
        choice("prior", self.prior, PRIORS)
        _switch("size", self.size)
        self._sampling()

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: Head) -> Self:
        super()._keep(bags, task, pooled, head)
        self.tried_ = {}
        return self

    def _sampling(self) -> float | None:
        """Return τ, or None if it is to be learnt."""
        if isinstance(self.sampling, str):
            choice("sampling", self.sampling, ("auto",))
            return None
        number = isinstance(self.sampling, int | float | np.number)
        if isinstance(self.sampling, bool) or not number or not 0.0 <= self.sampling <= 1.0:
            raise wrong("sampling", self.sampling, 'a number from 0 to 1, or "auto"')
        return float(self.sampling)

    def _problem(self, pooled: Pooled, task: Task) -> GPProblem:
        make = FixedPrior.learnt if self.prior == "learnt" else FixedPrior.kernel
        model = make(pooled.features, pooled.stats, COVARIANCE_FLOOR).model
        posterior, tau = model.posterior(pooled.stats), self._sampling()
        free = list(Scales.names())
        start = Scales(
            tilt=-1.0 if self.prior == "learnt" else 0.0,
            prior_scale=1.0 if self.prior == "learnt" else posterior.moment_scale(),
            sampling=1.0 if tau is None else tau,
        )
        if tau is not None:
            free.remove("sampling")
        if task.design.shape[1] == 1:  # the intercept alone
            free.remove("effects_length")
        if task.classes is not None:
            free = [name for name in free if name not in ("noise", "size_noise")]
        one_size = len(posterior.sizes) == 1
        if one_size or not _switch("size", self.size):
            free = [name for name in free if name not in ("size", "size_length")]
            start = replace(start, size=1e-12, size_length=1e6)
        if one_size and "size_noise" in free:
            free.remove("size_noise")
            start = replace(start, size_noise=1e-12)
        if task.classes is None and np.abs(task.labels).max() < CONSTANT:
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
            None if task.classes is None else Probit(),
        )
        return problem if counted.all() else problem.take(counted)

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        problem = self._problem(pooled, task)
        return GPHead.try_out(problem).on_all(problem)

    def _finish_head(self, pooled: Pooled, head: Head, task: Task) -> Head:
        assert isinstance(head, GPHead)
        with one_thread("blas"):  # as for any other head
            spread = _switch("spread", getattr(self, "spread", False))
            return head.refined(self._problem(pooled, task), spread=spread)

    @property
    def sampling_(self) -> float:
        """τ that was used: 1 if the points are a sample of the bag, 0 if they are all of it."""
        return self.head_.scales.sampling

    @property
    def prior_scale_(self) -> float:
        """Prior scale η."""
        return self.head_.scales.prior_scale


class DistributionGPRegressor(DistributionGP, BagRegressor):
    """Gaussian process regression on distributions that are known through their points.

    y_i = f(μ_i) + noise,  f ~ GP(0, κ),  μ_i ~ N(M_i, C_i),  noise ~ N(0, σ² + c/N_i)

    κ is linear + Gaussian in the embedding μ_i of the bag, so that labels may depend on the
    distribution in any smooth way, and on its size and covariates. M_i and C_i are what N_i points
    tell of it. All scales are those of the largest evidence.

    Parameters
    ----------
    embedding : KernelEmbedding or FourierEmbedding, optional
        Features of the points; by default ``KernelEmbedding(kernel="auto")``: kernel and bandwidth
        of the largest evidence.
    prior : "learnt" or "kernel"
        Covariance of embeddings between bags: as the bags show it, or that of the kernel.
    sampling : "auto" or float
        τ: 1 if the points are a sample of what the bag is, 0 if they are all of it; or learnt.
    size : "auto" or False
        Whether the label may depend on log N itself, as far as the evidence asks for it.
    spread : "auto" or False
        Whether the width of predictions may depend on what is predicted and on log N, as far as
        residuals left out ask for it.
    support : (lowest, highest), optional
        Range of the labels, if it is known; one of the two may be infinite. Predictions stay in it.

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
    """

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        prior: str = "learnt",
        sampling: float | str = "auto",
        size: bool | str = "auto",
        spread: bool | str = "auto",
        support: Any = None,
    ) -> None:
        self.embedding = KernelEmbedding(kernel="auto") if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.size = size
        self.spread = spread
        self.support = support

    @property
    def likelihood(self) -> Likelihood:  # type: ignore[override]
        """Gaussian, or within the known range of the labels."""
        return Gaussian() if self.support is None else Bounded(*self._range())

    def make_task(self, bags: Bags, y: Any, sample_weight: Any = None) -> Task:
        """Check the labels, which must lie in their range."""
        if self.support is not None:
            _check_support(check_labels(y, bags), bags, self._range())
        return super().make_task(bags, y, sample_weight)

    def _range(self) -> tuple[float, float]:
        try:
            low, high = (float(bound) for bound in self.support or ())
        except (TypeError, ValueError):
            low = high = np.nan
        if not low < high or not np.isfinite([low, high]).any():
            raise wrong("support", self.support, "two numbers (lowest, highest), or None")
        return low, high

    def _check_parameters(self) -> None:
        super()._check_parameters()
        _switch("spread", self.spread)

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label, without the part that is by size."""
        return self.head_.scales.noise * self.label_scale_**2


def _check_support(y: np.ndarray, bags: Bags, support: tuple[float, float]) -> None:
    """Raise if a label lies outside the range that labels are said to have."""
    outside = np.flatnonzero((y < support[0]) | (y > support[1]))
    if len(outside):
        raise InvalidLabelsError.because(
            f"the label of bag {show(bags.ids[outside[0]])} is {y[outside[0]]:g} "
            f"({len(outside)} such labels)",
            f"labels from {support[0]:g} to {support[1]:g}, as support says",
            "Correct the label, or widen support.",
        )


class DistributionGPClassifier(DistributionGP, BagClassifier):
    """Gaussian process classification of distributions that are known through their points.

    P(y_i = 1) = Φ(f(μ_i)),  f ~ GP(0, κ),  μ_i ~ N(M_i, C_i)

    The model of :class:`DistributionGPRegressor` for two classes, by Laplace's approximation.

    Parameters
    ----------
    embedding, prior, sampling, size
        As in :class:`DistributionGPRegressor`.
    class_weight : None, "balanced" or dict
        Weights of the classes.

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
        prior: str = "learnt",
        sampling: float | str = "auto",
        size: bool | str = "auto",
        class_weight: Any = None,
    ) -> None:
        self.embedding = KernelEmbedding(kernel="auto") if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.size = size
        self.class_weight = class_weight
