"""Shrinkage head: point estimate of the weights, posterior of the embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import EmbeddingModel, EmbeddingPosterior, Prior, sampling_doubt
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import Design, LearningStart, Response, Task
from bagwise.inference.class_weights import find_class_weights, warn_if_moving
from bagwise.inference.shrinkage import (
    LEAST_NOISE,
    Mode,
    ShrinkageProblem,
    find_mode,
    find_mode_by_evidence,
    warn_if_unfinished,
)
from bagwise.inference.sureness import Sureness
from bagwise.likelihoods.base import ClassLikelihood, Likelihood
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.predictions.latent import Latent

# Values of τ that are tried, and the least: what is left open of a bag is then as good as nothing.
SAMPLINGS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.001)
LEAST_SAMPLING = 1e-8


@dataclass(frozen=True, eq=False)
class ShrinkageHead:
    """The mode of the shrinkage model; with a point model, that of a generalised linear model.

    Attributes
    ----------
    model : EmbeddingModel
    w : (q,);  gamma : (r,)
    noise_var, prior_scale : σ², η
    length : ℓ of the convolved prior, or None
    mode : how the optimisation went, with ρ²
    likelihood : of the labels
    sampling : τ
    cov : (j, j), of (w, γ) for classes, whose weights are skewed: their probabilities are averages
        over what is left open of the weights; None for real labels
    sureness : of classes, how much surer to be than the weights say; else None
    """

    model: EmbeddingModel
    w: Float64[np.ndarray, " q"]
    gamma: Float64[np.ndarray, " r"]
    noise_var: float
    prior_scale: float
    length: float | None
    mode: Mode
    loss: float
    likelihood: Likelihood
    sampling: float = 1.0
    cov: Float64[np.ndarray, "j j"] | None = None
    sureness: Sureness | None = None

    @classmethod
    def fit(
        cls,
        prior: Prior,
        stats: BagStats,
        task: Task,
        weight_var: float | None,
        likelihood: Likelihood | None = None,
        sampling: float | None = 1.0,
    ) -> ShrinkageHead:
        """Fit; weight_var and sampling None: those of the largest evidence, τ times its prior."""
        if sampling is None:
            made = [cls.fit(prior, stats, task, weight_var, likelihood, tau) for tau in SAMPLINGS]
            doubts = [sampling_doubt(np.log(tau))[0] / len(task.labels) for tau in SAMPLINGS]
            pairs = zip(made, doubts, strict=True)
            return min((replace(head, loss=head.loss + doubt) for head, doubt in pairs), key=_loss)
        sampling = max(sampling, LEAST_SAMPLING)
        sizes, stats = stats.sizes, stats.counted(sampling)
        likelihood = Gaussian() if likelihood is None else likelihood
        problem = ShrinkageProblem(prior, stats, task.labels, task.design, task.weights, likelihood)
        known, cov, sureness = None, None, None
        if isinstance(likelihood, ClassLikelihood):
            mode, known = find_class_weights(problem, weight_var)
            warn_if_moving(known)
            cov = known.cov
            sureness = Sureness.of(likelihood, task.labels, task.weights, sizes, known.left_out)
        elif weight_var is None:
            mode = find_mode_by_evidence(problem)
        else:
            mode = find_mode(problem, weight_var)
        warn_if_unfinished(mode)
        w, gamma, logs = problem.split(mode.theta)
        if known is not None:
            w, gamma = np.split(known.mean, [len(w)])
        scales = dict(zip(problem.scale_names, np.exp(logs).tolist(), strict=True))
        fixed = likelihood.fixed_noise
        return cls(
            model=prior.at(None if prior.start_length is None else float(mode.theta[-1])),
            w=w,
            gamma=gamma,
            noise_var=scales["noise"] + LEAST_NOISE if fixed is None else fixed,
            prior_scale=scales.get("prior_scale", 1.0),
            length=scales.get("length"),
            mode=mode,
            loss=mode.loss,
            likelihood=likelihood,
            sampling=sampling,
            cov=cov,
            sureness=sureness,
        )

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η and τ."""
        return self.model.posterior(stats, self.prior_scale, self.sampling)

    def latent(self, posterior: EmbeddingPosterior, design: Design) -> Latent:
        """Predict from the posterior of each bag's embedding."""
        mean, var = self._linear(posterior)
        noise = self.noise_var if self.likelihood.fixed_noise is None else 0.0
        weights = np.zeros(len(posterior))
        if self.cov is not None:
            rows = np.column_stack([posterior.mean @ self.model.function_map, design])
            weights = np.sum((rows @ self.cov) * rows, axis=1)
        mean = mean + design @ self.gamma
        found = Latent(mean, var, posterior.var_of, weights, np.array([noise]))
        if self.sureness is None:
            return found
        return found.times(self.sureness.factors(posterior, var))

    def _linear(
        self, posterior: EmbeddingPosterior
    ) -> tuple[Float64[np.ndarray, "1 n"], Float64[np.ndarray, "1 l"]]:
        """Return mean and variance of w·e_i, but for what is open of w in the mean."""
        mean, var = posterior.linear(self.w[None])
        if self.cov is None:
            return mean, var
        spread, q = self.model.function_map, len(self.w)
        own = np.sum((spread @ self.cov[:q, :q]) * spread, axis=1)
        return mean, var + posterior.var @ own  # E w^T C w has the spread of w, too

    def response(self, posterior: EmbeddingPosterior, design: Design) -> Response:
        """Return v = W (1 − κ) P w for the size of the bag."""
        slope = posterior.slope((self.model.function_map @ self.w)[None])
        found = Response(slope, self.model.prior_mean, 0.0, self.gamma)
        if self.sureness is None:
            return found
        return found.times(self.sureness.factors(posterior, self._linear(posterior)[1]))

    def learning_start(self) -> LearningStart:
        """Return where features are learnt from, by the model that the weights are the mode of."""
        shrinks = self.model.shrinks
        start = {"alpha": (self.model.weight_map @ self.w)[None], "gamma": self.gamma[None]}
        if shrinks:
            start["prior_scale"] = np.log(self.prior_scale)
        if self.likelihood.fixed_noise is None:
            start["noise"] = np.log(self.noise_var)
        return LearningStart(
            start,
            self.likelihood,
            self.mode.weight_var,
            self.length,
            sampling=self.sampling,
            shrinks=shrinks,
            spreads=shrinks,
            ridge=not shrinks,
        )


def _loss(head: ShrinkageHead) -> float:
    return head.loss
