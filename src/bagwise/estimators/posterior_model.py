"""Posterior model: what regressors and classifiers share that integrate over the weights."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import Float64
from scipy.special import logsumexp, softmax

from bagwise.bags.bags import Bags
from bagwise.bags.validation import generator, positive, wrong
from bagwise.estimators.base import BagEstimator, Pooled
from bagwise.exceptions import BagwiseError
from bagwise.heads.base import AnyHead, Task, for_each_class, heads_of, of_each_class
from bagwise.heads.posterior import PosteriorHead, in_label_units
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics, diagnose, warn_if_bad, warn_if_far
from bagwise.inference.draws import Trajectories
from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS

# Ways to the posterior, the slowest and best first.
INFERENCES = ("nuts", "variational", "laplace", "map")


class PosteriorModel(BagEstimator):
    """Goes from the point estimate of the weights to their posterior, and shows its draws.

    Attributes
    ----------
    draws_ : dict of arrays (chains, draws, ...) in the label's units: ``weights`` α, ``intercept``,
        ``covariate_weights``, ``noise_sd`` σ, ``prior_scale`` η, ``weight_sd`` ρ (for standardised
        labels), as far as the model has them; of many classes (chains, draws, classes, ...)
    diagnostics_ : Diagnostics of NUTS, else None
    bandwidth_weights_ : dict, posterior weight of each multiple of the median heuristic that was
        tried, if there is a ``bandwidth_prior``; else empty
    """

    takes_function_landmarks: ClassVar[bool] = False  # the density of the draws has z = u
    quick_inferences: ClassVar[tuple[str, ...]] = ("laplace", "map")

    inference: NUTS | str
    priors: Priors | None
    bandwidth_prior: float | None = None
    head_: Any

    def _check_parameters(self) -> None:
        self._checked_inference()
        self._checked_priors()
        if self.bandwidth_prior is not None:
            positive("bandwidth_prior", self.bandwidth_prior)
            if max(map(len, self.embedding.scales(2))) == 1:
                raise BagwiseError.because(
                    f"bandwidth_prior={self.bandwidth_prior!r} with a bandwidth that is given, or "
                    "a kernel that has none",
                    'a bandwidth to be chosen, bandwidth="auto"',
                    "Leave out one of the two.",
                )

    def _handicaps(self, bags: Bags) -> list[float]:
        """Return −log prior of each candidate's bandwidth, per bag."""
        sd = self.bandwidth_prior
        if sd is None:
            return super()._handicaps(bags)
        found = list[np.ndarray]()
        for scales in self.embedding.scales(bags.n_features):
            z = np.log([1.0 if scale is None else scale for scale in scales]) / sd
            found.append(0.5 * z**2 + logsumexp(-0.5 * z**2))
        return (np.concatenate(found) / bags.n_bags).tolist()

    def _keep_losses(self, bags: Bags, losses: list[float]) -> Self:
        self.bandwidth_weights_: dict[str, float] = {}
        if self.bandwidth_prior is None:
            return self
        weights = softmax(-bags.n_bags * np.array(losses))
        scales = [s for each in self.embedding.scales(bags.n_features) for s in each]
        for scale, weight in zip(scales, weights.tolist(), strict=True):
            name = "none" if scale is None else f"{scale:g}"
            self.bandwidth_weights_[name] = self.bandwidth_weights_.get(name, 0.0) + weight
        return self

    def _finish_head(self, pooled: Pooled, head: AnyHead, task: Task) -> AnyHead:
        rng = generator(self.random_state)  # one for all classes, whose draws are independent
        inference = self._checked_inference()

        def fit(task: Task, start: ShrinkageHead, how: NUTS | str, rng: Any) -> PosteriorHead:
            priors = self._checked_priors()
            return PosteriorHead.fit(
                start, pooled.stats, task, inference=how, priors=priors, rng=rng
            )

        before: list[Any] = []  # of each class: a copy of the generator that drew it

        def first(task: Task, start: ShrinkageHead) -> PosteriorHead:
            before.append(deepcopy(rng))
            return fit(task, start, inference, rng)

        def again(
            least: NUTS, seeds: Iterator[Any], task: Task, start: ShrinkageHead, made: PosteriorHead
        ) -> PosteriorHead:
            same = deepcopy(next(seeds))
            return made if made.draws.shape[1] == least.min_draws else fit(task, start, least, same)

        # Classes are shown side by side: those with fewer draws get as many as the others. If these
        # are found not to be enough, they are more.
        found = for_each_class(task, first, head)
        settings = inference if isinstance(inference, NUTS) else NUTS()
        while len(drawn := {each.draws.shape[1] for each in heads_of(found)}) > 1:
            least = replace(settings, min_draws=max(drawn))
            found = for_each_class(task, partial(again, least, iter(before)), head, found)
        return found

    def _keep(self, bags: Bags, task: Task, pooled: Pooled, head: AnyHead) -> Self:
        super()._keep(bags, task, pooled, head)
        self.draws_ = self._draws()
        self.diagnostics_: Diagnostics | None = None
        runs = [head.draws.trajectories for head in heads_of(self.head_)]
        if runs[0] is not None:
            self.diagnostics_ = diagnose(self.draws_, *runs)
            warn_if_bad(self.diagnostics_)
        if self.pareto_k_ is not None:
            warn_if_far(self.pareto_k_)
        return self

    @property
    def trajectories_(self) -> Trajectories | None:
        """How NUTS got its draws, of many classes all at once; None if they are not from NUTS."""
        return Trajectories.together([head.draws.trajectories for head in heads_of(self.head_)])

    @property
    def pareto_k_(self) -> float | None:
        """Pareto's k of the variational approximation, of many classes the worst; else None.

        Below 0.5 it is close to the posterior, above 0.7 it is not.
        """
        found = (head.draws.pareto_k for head in heads_of(self.head_))
        return max((k for k in found if k is not None), default=None)

    def _checked_inference(self) -> NUTS | str:
        if isinstance(self.inference, NUTS):
            return self.inference
        if not isinstance(self.inference, str) or self.inference not in INFERENCES:
            options = ", ".join(f'"{name}"' for name in INFERENCES)
            raise wrong("inference", self.inference, f"{options} or bagwise.inference.NUTS()")
        return self.inference

    def _checked_priors(self) -> Priors:
        if self.priors is not None and not isinstance(self.priors, Priors):
            raise wrong("priors", self.priors, "bagwise.inference.Priors(...) or None")
        return Priors() if self.priors is None else self.priors

    def _draws(self) -> dict[str, np.ndarray]:
        """Bring the draws to the units of the label; many classes are the third axis."""
        each = [self._draws_of(head) for head in heads_of(self.head_)]
        if len(each) == 1:
            return each[0]
        return {name: np.stack([draws[name] for draws in each], axis=2) for name in each[0]}

    def _draws_of(self, head: PosteriorHead) -> dict[str, np.ndarray]:
        return in_label_units(
            head.draws, head.start, self.effects_, self.label_center_, self.label_scale_
        )

    def to_arviz(self) -> Any:
        """Return the draws as ArviZ's DataTree (needs ``pip install bagwise[arviz]``)."""
        from bagwise.inference.draws import to_arviz

        return to_arviz(self.draws_, self.trajectories_)

    @property
    def weights_(self) -> Float64[np.ndarray, "*k s"]:
        """Posterior mean of the weights α of the function f, in units of the label.

        Of many classes there is a row for each, here and below.
        """
        return self.draws_["weights"].mean(axis=(0, 1))

    @property
    def intercept_(self) -> Any:
        """Posterior mean of the label of the average bag, at covariates zero."""
        return self._average(self.draws_["intercept"])

    @property
    def covariate_weights_(self) -> Float64[np.ndarray, "*k c"]:
        """Posterior mean of the change of the label per unit of each covariate."""
        if "covariate_weights" not in self.draws_:
            return np.zeros((*self.weights_.shape[:-1], 0))
        return self.draws_["covariate_weights"].mean(axis=(0, 1))

    @property
    def noise_var_(self) -> float:
        """Posterior mean of the noise variance σ², in squared units of the label."""
        return heads_of(self.head_)[0].noise_var * self.label_scale_**2

    @property
    def prior_scale_(self) -> Any:
        """Posterior mean of the prior scale η."""
        return of_each_class(
            self.head_, lambda head: float(head.draws.scale("prior_scale", 1.0).mean())
        )

    @property
    def weight_var_(self) -> Any:
        """Posterior mean of the weight variance ρ², for standardised labels."""
        return self._average(self.draws_["weight_sd"] ** 2)

    @property
    def length_scale_(self) -> Any:
        """Length ℓ of the convolved prior, in standardised features; None for prior="kernel"."""
        return of_each_class(self.head_, lambda head: head.start.length)

    @staticmethod
    def _average(draws: np.ndarray) -> Any:
        """Return the mean over the draws of a number, of many classes (k,)."""
        return float(draws.mean()) if draws.ndim == 2 else draws.mean(axis=(0, 1))
