"""Heads: fitted weights, which turn the statistics of a bag into a prediction of its label.

Labels are standardised here; :mod:`bagwise.base` brings predictions back to their units. Every
head has a ``loss``, comparable between fits of one kind to the same labels: the smaller the better.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from jaxtyping import Float64

from bagwise.embedding import BagStats
from bagwise.inference.evidence import WeightPosterior, maximise_evidence
from bagwise.inference.posterior_mode import (
    Mode,
    find_mode,
    find_mode_by_evidence,
    warn_if_unfinished,
)
from bagwise.inference.ridge import RidgeProblem
from bagwise.inference.shrinkage_objective import LEAST_NOISE, ShrinkageProblem
from bagwise.likelihoods import Gaussian, Likelihood
from bagwise.mixture import SizeCurves
from bagwise.prediction import SizeCurve
from bagwise.shrinkage import ROUNDING, ConvolvedPrior, KernelPrior, OneBasis, ShrinkageBasis
from bagwise.task import Task

Vector = Float64[np.ndarray, " n"]
Effects = Float64[np.ndarray, "n r"]

# Noise variance of standardised labels is never taken to be less: a density needs one.
MIN_NOISE = 1e-10


# Prior scales tried by freq-shrinkage, around the one that halves a bag of median size.
PRIOR_SCALE_FACTORS = np.logspace(-4, 4, 17)


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean and parts of the variance of a prediction, labels standardised."""

    mean: Vector
    weights: Vector | float
    noise: float
    size_curve: SizeCurve | None = None


@dataclass(frozen=True, eq=False)
class DrawMoments:
    """The same for each of s draws of the weights: a mixture of Gaussians.

    Attributes
    ----------
    mean : (s, n);  noise : (s,);  curves : SizeCurves of s draws
    """

    mean: Float64[np.ndarray, "s n"]
    noise: Float64[np.ndarray, " s"]
    curves: SizeCurves

    @classmethod
    def of_one(cls, moments: Moments) -> DrawMoments:
        """Take a point estimate for the only draw."""
        curve = moments.size_curve
        assert curve is not None
        curves = SizeCurves(curve.loadings[None], curve.spectrum[None])
        return cls(moments.mean[None], np.array([moments.noise]), curves)


@dataclass(frozen=True, eq=False)
class Response:
    """How the mean of one bag's prediction depends on its embedding μ̂, labels standardised.

    mean = level + v·(μ̂ − m0) + F γ

    v is exact for heads that are linear in μ̂; for others it is the gradient, averaged over the
    straight way from the average bag m0 to μ̂, for which the same holds.

    Attributes
    ----------
    slope : (d,), v;  center : (d,), m0;  level : mean at m0 without effects;  gamma : (r,)
    """

    slope: Float64[np.ndarray, " d"]
    center: Float64[np.ndarray, " d"]
    level: float
    gamma: Float64[np.ndarray, " r"]


class Head(Protocol):
    """A fitted head."""

    @property
    def loss(self) -> float:
        """Criterion by which fits to other features are compared with this one."""
        ...

    def moments(self, stats: BagStats, effects: Effects) -> Moments | DrawMoments:
        """Predict bags from their statistics and fixed effects F."""
        ...

    def response(self, stats: BagStats) -> Response:
        """Say how the mean of one bag depends on its embedding."""
        ...


@dataclass(frozen=True, eq=False)
class LinearHead:
    """ŷ = β·(x − center) + F γ on a vector x per bag, with or without a posterior of the weights.

    Attributes
    ----------
    beta : (d,);  center : (d,);  gamma : (r,)
    noise_var : σ²
    penalty : λ = σ²/ρ²
    posterior : WeightPosterior or None
    """

    beta: Float64[np.ndarray, " d"]
    center: Float64[np.ndarray, " d"]
    gamma: Float64[np.ndarray, " r"]
    noise_var: float
    penalty: float
    loss: float
    posterior: WeightPosterior | None = None

    @classmethod
    def ridge(cls, X: Float64[np.ndarray, "n d"], task: Task, penalty: float | None) -> LinearHead:
        """Fit by ridge regression; penalty None: the least leave-one-out error."""
        problem, center = _problem(X, task)
        penalty = problem.best_penalty() if penalty is None else penalty
        loss = problem.leave_one_out_mse(penalty)
        return cls._solve(problem, X - center, center, penalty, noise_var=loss, loss=loss)

    @classmethod
    def ridge_by_validation(cls, X: Float64[np.ndarray, "n d"], task: Task) -> LinearHead:
        """Fit with the penalty of the least error on bags held out, then on all bags."""
        held_out = np.random.default_rng(0).permutation(len(X)) < max(1, len(X) // 5)
        rest = task.take(~held_out)
        problem, center = _problem(X[~held_out], rest)

        def error(penalty: float) -> float:
            head = cls._solve(
                problem, X[~held_out] - center, center, penalty, noise_var=1.0, loss=0.0
            )
            mean = head.of(X[held_out], task.design[held_out]).mean
            return float(np.sum(task.weights[held_out] * (task.labels[held_out] - mean) ** 2))

        return cls.ridge(X, task, float(min(problem.penalties(), key=error)))

    @classmethod
    def bayesian(
        cls, X: Float64[np.ndarray, "n d"], task: Task, weight_var: float | None
    ) -> LinearHead:
        """Fit by Bayesian linear regression; weight_var None: that of the largest evidence."""
        problem, center = _problem(X, task)
        evidence = maximise_evidence(problem, weight_var)
        head = cls._solve(
            problem,
            X - center,
            center,
            evidence.penalty,
            noise_var=evidence.noise_var,
            loss=evidence.loss,
        )
        return replace(head, posterior=WeightPosterior.of(problem, evidence, X - center))

    @classmethod
    def _solve(
        cls,
        problem: RidgeProblem,
        X: Float64[np.ndarray, "n d"],
        center: Float64[np.ndarray, " d"],
        penalty: float,
        *,
        noise_var: float,
        loss: float,
    ) -> LinearHead:
        beta = problem.beta(penalty)
        gamma = problem.effects_for(X @ beta)
        return cls(beta, center, gamma, max(noise_var, MIN_NOISE), float(penalty), loss)

    def of(self, X: Float64[np.ndarray, "n d"], effects: Effects) -> Moments:
        """Predict from the vectors x of bags."""
        X = X - self.center
        weights = 0.0 if self.posterior is None else self.posterior.variance(X, effects)
        return Moments(X @ self.beta + effects @ self.gamma, weights, self.noise_var)

    def moments(self, stats: BagStats, effects: Effects) -> Moments:
        """Predict from the mean embeddings."""
        return self.of(stats.mean, effects)

    def response(self, stats: BagStats) -> Response:
        """Return β, whatever the bag."""
        return Response(self.beta, self.center, 0.0, self.gamma)


def _problem(
    X: Float64[np.ndarray, "n d"], task: Task
) -> tuple[RidgeProblem, Float64[np.ndarray, " d"]]:
    center = X.mean(axis=0)
    gaps = X - center
    gaps[np.abs(gaps) < ROUNDING * np.abs(X).max()] = 0.0
    problem = RidgeProblem.from_features(gaps, task.design, task.labels, task.weights)
    return problem, center


@dataclass(frozen=True, eq=False)
class ShrunkMeanHead:
    """A ridge head on the shrunk mean embeddings M_i, which ignores how sure they are.

    M_i = m0 + Σ W diag(ηλN/(1 + ηλN)) t_i, with η of the least leave-one-out error.
    """

    family: KernelPrior
    within_cov: Float64[np.ndarray, "d d"]
    prior_scale: float
    linear: LinearHead
    loss: float

    @classmethod
    def fit(
        cls,
        family: KernelPrior,
        within_cov: Float64[np.ndarray, "d d"],
        stats: BagStats,
        task: Task,
        *,
        penalty: float | None,
        prior_scale: float | None,
    ) -> ShrunkMeanHead:
        """Fit, trying prior scales around that of a bag of median size, or at the given one."""
        typical = 1.0 / (family.basis.typical() * np.median(stats.sizes))
        scales = typical * PRIOR_SCALE_FACTORS if prior_scale is None else [prior_scale]
        fits = []
        for scale in scales:
            M = _shrunk_mean(family, within_cov, float(scale), stats)
            linear = LinearHead.ridge(M, task, penalty)
            fits.append(cls(family, within_cov, float(scale), linear, linear.loss))
        return min(fits, key=lambda fit: fit.loss)

    def moments(self, stats: BagStats, effects: Effects) -> Moments:
        """Predict from the shrunk means."""
        return self.linear.of(
            _shrunk_mean(self.family, self.within_cov, self.prior_scale, stats), effects
        )

    def response(self, stats: BagStats) -> Response:
        """Return v = W diag(ηλN/(1 + ηλN)) W^T Σ β for the size N of the bag."""
        basis, center = self.family.basis, self.family.prior_mean
        kept = 1.0 - basis.slack(stats.sizes[:1], self.prior_scale)[0]
        slope = basis.projection @ (
            kept * (basis.projection.T @ (self.within_cov @ self.linear.beta))
        )
        level = float((center - self.linear.center) @ self.linear.beta)
        return Response(slope, center, level, self.linear.gamma)


def _shrunk_mean(
    family: KernelPrior,
    within_cov: Float64[np.ndarray, "d d"],
    prior_scale: float,
    stats: BagStats,
) -> Float64[np.ndarray, "n d"]:
    basis = family.basis
    t = basis.project(stats.mean, family.prior_mean)
    kept = 1.0 - basis.slack(stats.sizes, prior_scale)
    return family.prior_mean + (kept * t) @ (within_cov @ basis.projection).T


@dataclass(frozen=True, eq=False)
class ShrinkageHead:
    """Point estimate of the weights, posterior of the embedding: the MAP of the shrinkage model.

    With a point embedding (:meth:`OneBasis.point`) it is that of a generalised linear model.

    Attributes
    ----------
    basis : ShrinkageBasis;  prior_mean : (d,)
    w : (q,);  gamma : (r,)
    noise_var, prior_scale, weight_var : σ², η, ρ²
    length : ℓ of the convolved prior, or None
    mode : how the optimisation went
    likelihood : of the labels;  shrinks : False if the embedding is a point
    """

    basis: ShrinkageBasis
    prior_mean: Float64[np.ndarray, " d"]
    w: Float64[np.ndarray, " q"]
    gamma: Float64[np.ndarray, " r"]
    noise_var: float
    prior_scale: float
    length: float | None
    mode: Mode
    loss: float
    likelihood: Likelihood
    shrinks: bool

    @classmethod
    def fit(
        cls,
        family: OneBasis | ConvolvedPrior,
        stats: BagStats,
        task: Task,
        weight_var: float | None,
        likelihood: Likelihood | None = None,
    ) -> ShrinkageHead:
        """Fit; weight_var None: that of the largest evidence."""
        likelihood = Gaussian() if likelihood is None else likelihood
        problem = problem_of(family, stats, task, likelihood)
        if weight_var is None:
            mode = find_mode_by_evidence(problem)
        else:
            mode = find_mode(problem, weight_var)
        warn_if_unfinished(mode)
        basis, _ = family.at(None if family.start_length is None else float(mode.theta[-1]))
        w, gamma, logs = problem.split(mode.theta)
        scales = dict(zip(problem.scale_names, np.exp(logs).tolist(), strict=True))
        fixed = likelihood.fixed_noise
        return cls(
            basis=basis,
            prior_mean=family.prior_mean,
            w=w,
            gamma=gamma,
            noise_var=scales["noise"] + LEAST_NOISE if fixed is None else fixed,
            prior_scale=scales.get("prior_scale", 1.0),
            length=scales.get("length"),
            mode=mode,
            loss=mode.loss,
            likelihood=likelihood,
            shrinks=family.shrinks,
        )

    def moments(self, stats: BagStats, effects: Effects) -> Moments:
        """Predict from the posterior of each bag's embedding."""
        t = self.basis.project(stats.mean, self.prior_mean)
        sizes, size_of = distinct_sizes(stats.sizes, self.shrinks)
        gain = self.prior_scale * sizes[:, None] * self.basis.slack(sizes, self.prior_scale)
        h = self.basis.mean_map @ self.w
        mean = np.sum(t * (gain * h)[size_of], axis=1) + effects @ self.gamma
        curve = SizeCurve(
            loadings=(self.basis.spread_map @ self.w) ** 2,
            spectrum=self.prior_scale * self.basis.spectrum,
            floor=self.prior_scale * self.basis.unseen_variance(self.w),
        )
        return Moments(mean, 0.0, self.noise_var, curve)

    def response(self, stats: BagStats) -> Response:
        """Return v = W diag(ηN/(1 + ηλN)) h for the size N of the bag."""
        sizes, _ = distinct_sizes(stats.sizes[:1], self.shrinks)
        gain = self.prior_scale * sizes[0] * self.basis.slack(sizes, self.prior_scale)[0]
        slope = self.basis.projection @ (gain * (self.basis.mean_map @ self.w))
        return Response(slope, self.prior_mean, 0.0, self.gamma)


def problem_of(
    family: OneBasis | ConvolvedPrior, stats: BagStats, task: Task, likelihood: Likelihood
) -> ShrinkageProblem:
    """Put the data of a fit together."""
    sizes, size_of = distinct_sizes(stats.sizes, family.shrinks)
    return ShrinkageProblem(
        family, sizes, size_of, task.labels, task.design, task.weights, likelihood
    )


def distinct_sizes(sizes: Vector, shrinks: bool) -> tuple[Float64[np.ndarray, " m"], np.ndarray]:
    """Return the distinct sizes and each bag's place among them; to a point all are alike."""
    if not shrinks:
        return np.ones(1), np.zeros(len(sizes), dtype=np.int64)
    distinct, size_of = np.unique(sizes, return_inverse=True)
    return distinct, size_of
