"""Linear head: ridge or Bayesian linear regression on the (shrunk) mean embedding."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float64

from bagwise.embedding.posterior import ROUNDING, EmbeddingModel, EmbeddingPosterior
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import MIN_NOISE, Design, LearningStart, Response, Task
from bagwise.inference.ridge import RidgeProblem, WeightPosterior, maximise_evidence
from bagwise.predictions.latent import Latent

Matrix = Float64[np.ndarray, "n d"]

# Prior scales tried by freq-shrinkage, around the one that halves a bag of median size.
PRIOR_SCALE_FACTORS = np.logspace(-4, 4, 17)

# Where features are learnt: the variance of f by the evidence at the start, labels of unit variance
# and embeddings of unit norm; and a penalty below which there is none.
START_LINEAR = 0.3
LEAST_PENALTY = 1e-12


@dataclass(frozen=True, eq=False)
class LinearHead:
    """ŷ = β·(M − center) + F γ on the mean M_i of each bag's embedding at the landmarks.

    How sure M_i is, is ignored. With a point model M_i is the average of the points' features, with
    another the posterior mean: a kernel mean shrinkage estimator.

    Attributes
    ----------
    model : EmbeddingModel;  prior_scale : η
    beta : (d,);  center : (d,);  gamma : (r,)
    noise_var : σ²
    penalty : λ = σ²/ρ²
    posterior : WeightPosterior or None
    """

    model: EmbeddingModel
    prior_scale: float
    beta: Float64[np.ndarray, " d"]
    center: Float64[np.ndarray, " d"]
    gamma: Float64[np.ndarray, " r"]
    noise_var: float
    penalty: float
    loss: float
    posterior: WeightPosterior | None = None

    @classmethod
    def ridge(cls, embedded: EmbeddingPosterior, task: Task, penalty: float | None) -> LinearHead:
        """Fit by ridge regression; penalty None: the least leave-one-out error."""
        problem, center = _problem(embedded.at_landmarks(), task)
        penalty = problem.best_penalty() if penalty is None else penalty
        noise_var, loss = problem.leave_one_out_mse(penalty), problem.choice_error(penalty)
        return cls._solve(embedded, problem, center, penalty, noise_var=noise_var, loss=loss)

    @classmethod
    def ridge_by_validation(cls, embedded: EmbeddingPosterior, task: Task) -> LinearHead:
        """Fit with the penalty of the least error on bags held out, then on all bags."""
        n = len(embedded)
        held_out = np.random.default_rng(0).permutation(n) < max(1, n // 5)
        few, rest = embedded.take(~held_out), task.take(~held_out)
        problem, center = _problem(few.at_landmarks(), rest)

        def error(penalty: float) -> float:
            head = cls._solve(few, problem, center, penalty, noise_var=1.0, loss=0.0)
            mean = head.latent(embedded.take(held_out), task.design[held_out]).mean[0]
            return float(np.sum(task.weights[held_out] * (task.labels[held_out] - mean) ** 2))

        return cls.ridge(embedded, task, float(min(problem.penalties(), key=error)))

    @classmethod
    def bayesian(
        cls, embedded: EmbeddingPosterior, task: Task, weight_var: float | None
    ) -> LinearHead:
        """Fit by Bayesian linear regression; weight_var None: that of the largest evidence."""
        X = embedded.at_landmarks()
        problem, center = _problem(X, task)
        evidence = maximise_evidence(problem, weight_var)
        head = cls._solve(
            embedded,
            problem,
            center,
            evidence.penalty,
            noise_var=evidence.noise_var,
            loss=evidence.loss,
        )
        return replace(head, posterior=WeightPosterior.of(problem, evidence, X - center))

    @classmethod
    def shrunk(
        cls,
        model: EmbeddingModel,
        stats: BagStats,
        task: Task,
        *,
        penalty: float | None,
        prior_scale: float | None,
    ) -> LinearHead:
        """Fit by ridge at the prior scale given, or at that of the least leave-one-out error."""
        typical = 1.0 / (model.typical() * np.median(stats.sizes))
        scales = typical * PRIOR_SCALE_FACTORS if prior_scale is None else [prior_scale]
        at_one = model.posterior(stats)
        fits = [
            cls.ridge(replace(at_one, scale=np.array([float(scale)])), task, penalty)
            for scale in scales
        ]
        return min(fits, key=lambda fit: fit.loss)

    @classmethod
    def _solve(
        cls,
        embedded: EmbeddingPosterior,
        problem: RidgeProblem,
        center: Float64[np.ndarray, " d"],
        penalty: float,
        *,
        noise_var: float,
        loss: float,
    ) -> LinearHead:
        beta = problem.beta(penalty)
        gamma = problem.effects_for((embedded.at_landmarks() - center) @ beta)
        return cls(
            embedded.model,
            float(embedded.scale[0]),
            beta,
            center,
            gamma,
            max(noise_var, MIN_NOISE),
            float(penalty),
            loss,
        )

    def embed(self, stats: BagStats) -> EmbeddingPosterior:
        """Return the posterior at η."""
        return self.model.posterior(stats, self.prior_scale)

    def latent(self, posterior: EmbeddingPosterior, design: Design) -> Latent:
        """Predict from the means of the embeddings."""
        X = posterior.at_landmarks() - self.center
        weights = 0.0 if self.posterior is None else self.posterior.variance(X, design)
        return Latent.of_points(X @ self.beta + design @ self.gamma, self.noise_var, weights)

    def response(self, posterior: EmbeddingPosterior, design: Design) -> Response:
        """Return v = W (1 − κ) W^-1 β for the size of the bag."""
        slope = posterior.slope((self.model.landmark_map.T @ self.beta)[None])
        level = float((self.model.prior_mean - self.center) @ self.beta)
        return Response(slope, self.model.prior_mean, level, self.gamma)

    def learning_start(self) -> LearningStart:
        """Return where features are learnt from: by the penalised loss, or by the evidence."""
        noise, shrinks = np.log(self.noise_var), self.model.shrinks
        if self.posterior is not None:
            start = {"linear": np.log(START_LINEAR), "noise": noise}
            return LearningStart(start, shrinks=False, evidence=True)
        start = {"alpha": self.beta[None], "gamma": self.gamma[None], "noise": noise}
        if shrinks:
            start["prior_scale"] = np.log(self.prior_scale)
        weight_var = self.noise_var / max(self.penalty, LEAST_PENALTY)
        return LearningStart(start, weight_var=weight_var, shrinks=shrinks, ridge=True)


def _problem(X: Matrix, task: Task) -> tuple[RidgeProblem, Float64[np.ndarray, " d"]]:
    center = X.mean(axis=0)
    gaps = X - center
    gaps[np.abs(gaps) < ROUNDING * np.abs(X).max()] = 0.0
    problem = RidgeProblem.from_features(gaps, task.design, task.labels, task.weights)
    return problem, center
