"""Evidence of a Gaussian process on uncertain embeddings, with exact derivatives.

Labels y ~ N(f, V), f ~ N(0, K), where K is the expected second-level kernel and V the noise,
V_i = (σ² + c Ñ/N_i)/w_i, with Ñ the typical size and w_i the bag's sample weight. With A = K + V,

    log p(y) = −½ y^T A^-1 y − ½ log|A| + constant,      ∂/∂K = ½ (A^-1 y y^T A^-1 − A^-1)

The scales have weak log-normal priors, and are found by quasi-Newton steps.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int
from scipy.linalg import cho_factor, get_lapack_funcs
from scipy.optimize import minimize

from bagwise.embedding.model import EmbeddingModel
from bagwise.embedding.posterior import EmbeddingPosterior, size_groups
from bagwise.embedding.sums import BagStats
from bagwise.inference.second_level import (
    Coordinates,
    Inputs,
    Scales,
    SecondLevelKernel,
)

# Mean and standard deviation of the prior of each scale, as in their vector; labels standardised.
PRIORS = {
    "linear": (np.log(0.3), 2.0),
    "gauss": (np.log(0.5), 2.0),
    "length": (0.0, 1.0),
    "tilt": (-0.5, 1.0),  # −1: units of the spread within bags, 0: of that between them
    "prior_scale": (0.0, 1.5),  # around the one that the bags themselves say
    "sampling": (0.0, 2.0),
    "effects": (0.0, 2.0),
    "effects_length": (np.log(5.0), 1.0),
    "size": (np.log(0.05), 2.0),
    "size_length": (np.log(5.0), 1.0),
    "noise": (np.log(0.1), 2.0),
    "size_noise": (np.log(0.03), 2.0),
}

# Least variance added to the diagonal, for labels of variance 1: keeps A well conditioned.
JITTER = 1e-8

# Steps of the search for the scales.
MAX_STEPS = 100

# How far scales may go from where they begin, in standard deviations of their priors.
BOUND = 4.0


@dataclass(frozen=True, eq=False)
class GPProblem:
    """Labels, and what the bags say: everything but the scales.

    Attributes
    ----------
    model : EmbeddingModel
    posterior : EmbeddingPosterior of the bags, at any η
    labels, weights : (n,);  design : (n, r)
    start : Scales, where the search begins
    free : names of the scales that are sought
    slopes : (n, c), gradient of the mean function in each bag's coordinates e, or None if it is not
        known yet and the prior's average takes its place
    """

    model: EmbeddingModel
    posterior: EmbeddingPosterior
    labels: Float64[np.ndarray, " n"]
    weights: Float64[np.ndarray, " n"]
    design: Float64[np.ndarray, "n r"]
    start: Scales
    free: tuple[str, ...]
    slopes: Float64[np.ndarray, "n c"] | None = None

    @cached_property
    def sizes(self) -> Float64[np.ndarray, " n"]:
        """Sizes of the bags."""
        return self.posterior.sizes[self.posterior.size_of]

    @cached_property
    def sizing(self) -> Sizing:
        """How log sizes are standardised."""
        return Sizing.of(self.sizes)

    @cached_property
    def groups(self) -> tuple[Float64[np.ndarray, " g"], Int[np.ndarray, " n"]]:
        """Typical size of each group, and the group of each bag."""
        return size_groups(self.sizes)

    def inputs(self, scales: Scales) -> tuple[Inputs, Float64[np.ndarray, "n c"]]:
        """Return what the kernel is asked about, and κ of every bag."""
        posterior = replace(
            self.posterior, scale=np.array([scales.prior_scale]), sampling=scales.sampling
        )
        coordinates = Coordinates(self.model.spectrum, scales)
        sizes, group_of = self.groups
        return (
            Inputs(
                coordinates.mean(posterior),
                coordinates.var(self._group_slack(scales)),
                group_of,
                self.sizing(self.sizes),
                self.design,
            ),
            posterior.slack[posterior.size_of],
        )

    def _group_slack(self, scales: Scales) -> Float64[np.ndarray, "g c"]:
        grouped = replace(
            self.posterior,
            sizes=self.groups[0],
            scale=np.array([scales.prior_scale]),
            sampling=scales.sampling,
        )
        return grouped.slack

    def bag_var(
        self, kappa: Float64[np.ndarray, "n c"], scales: Scales
    ) -> Float64[np.ndarray, " n"]:
        """Return the variance of the mean function over what is left open of each bag."""
        assert self.slopes is not None
        return (self.slopes**2 * kappa) @ (scales.prior_scale * self.model.spectrum)

    def noise(self, scales: Scales) -> Float64[np.ndarray, " n"]:
        """Return the noise variance of each bag's label."""
        return (scales.noise + scales.size_noise * self.sizing.smallness(self.sizes)) / self.weights

    def loss(
        self, theta: Float64[np.ndarray, " h"]
    ) -> tuple[float, Float64[np.ndarray, " h"]]:
        """Return −log evidence − log prior of the scales, and its gradient."""
        scales = self.start.moved(self.free, theta)
        kernel = SecondLevelKernel(scales)
        inputs, kappa = self.inputs(scales)
        gauss = kernel.gauss(inputs, inputs)
        gram = gauss + scales.linear * (inputs.mean @ inputs.mean.T)
        gram += scales.effects * (self.design @ self.design.T)
        gram += scales.size * np.multiply.outer(inputs.log_size, inputs.log_size)
        noise = self.noise(scales)
        own = kernel.nugget(inputs) if self.slopes is None else self.bag_var(kappa, scales)
        gram[np.diag_indices_from(gram)] += own + noise + JITTER
        try:
            inverse, half_log_det = inverse_and_log_det(gram)
        except np.linalg.LinAlgError:
            return 1e10, np.zeros_like(theta)
        alpha = inverse @ self.labels
        value = 0.5 * float(self.labels @ alpha) + half_log_det
        slope = inverse  # in place: −2 ∂ log p/∂K
        slope -= np.multiply.outer(alpha, alpha)
        slope *= 0.5
        gradient, own = kernel.gradient(inputs, slope, gauss), np.diagonal(slope)
        if self.slopes is None:
            gradient += kernel.nugget_gradient(inputs, own)
        by_scale = gradient.by_scale
        by_scale["noise"] = scales.noise * float(own @ (1.0 / self.weights))
        by_scale["size_noise"] = scales.size_noise * float(
            own @ (self.sizing.smallness(self.sizes) / self.weights)
        )
        coordinates = Coordinates(self.model.spectrum, scales)
        group_kappa = self._group_slack(scales)
        pull_mean = gradient.by_mean * inputs.mean
        pull_var = gradient.by_var * inputs.var
        by_scale["prior_scale"] = float(
            np.sum(pull_mean * (kappa - 0.5)) - np.sum(pull_var * (1.0 - group_kappa))
        )
        by_scale["sampling"] = float(
            np.sum(pull_var * (1.0 - group_kappa)) - np.sum(pull_mean * kappa)
        )
        if self.slopes is not None:  # the variance ηλκ has the slopes κ and 1 − κ in log η and log τ
            left = own[:, None] * self.slopes**2 * scales.prior_scale * self.model.spectrum * kappa
            by_scale["prior_scale"] += float(np.sum(left * kappa))
            by_scale["sampling"] += float(np.sum(left * (1.0 - kappa)))
        by_scale["tilt"] = float(
            (0.5 * pull_mean.sum(axis=0) + pull_var.sum(axis=0)) @ coordinates.tilting
        )
        z = (theta - self._prior_center) / self._prior_sd
        return (
            value + 0.5 * float(z @ z),
            np.array([by_scale[name] for name in self.free]) + z / self._prior_sd,
        )

    @cached_property
    def _prior_center(self) -> Float64[np.ndarray, " h"]:
        at = {"prior_scale": float(np.log(self.start.prior_scale))}
        return np.array([at.get(name, PRIORS[name][0]) for name in self.free])

    @cached_property
    def _prior_sd(self) -> Float64[np.ndarray, " h"]:
        return np.array([PRIORS[name][1] for name in self.free])

    def maximise(self, max_steps: int = MAX_STEPS) -> tuple[Scales, float]:
        """Return the scales of the largest evidence, and −log evidence per bag."""
        begin = getattr(self, 'begin', self.start).vector(self.free)
        bounds = list(
            zip(
                self._prior_center - BOUND * self._prior_sd,
                self._prior_center + BOUND * self._prior_sd,
                strict=True,
            )
        )
        found = minimize(
            self.loss,
            begin,
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": max_steps, "ftol": 1e-7, "gtol": 1e-3},
        )
        return self.start.moved(self.free, found.x), float(found.fun) / len(self.labels)


@dataclass(frozen=True)
class Sizing:
    """How sizes become an input, (log N − center)/scale, and a share Ñ/N of the noise.

    Attributes
    ----------
    center, scale : of log N; scale is 1 if all bags have one size
    typical : Ñ, the median size
    """

    center: float
    scale: float
    typical: float

    @classmethod
    def of(cls, sizes: Float64[np.ndarray, " n"]) -> Sizing:
        """Learn from the training bags."""
        logs = np.log(sizes)
        return cls(float(logs.mean()), float(logs.std()) or 1.0, float(np.median(sizes)))

    def __call__(self, sizes: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Return the standardised log sizes."""
        return (np.log(sizes) - self.center) / self.scale

    def smallness(self, sizes: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """Return Ñ/N."""
        return self.typical / sizes


def inverse_and_log_det(
    matrix: Float64[np.ndarray, "n n"],
) -> tuple[Float64[np.ndarray, "n n"], float]:
    """Return the inverse of a positive definite matrix and ½ log of its determinant."""
    factor, _ = cho_factor(matrix, lower=True, check_finite=False)
    half_log_det = float(np.sum(np.log(np.diagonal(factor))))
    (potri,) = get_lapack_funcs(("potri",), (factor,))
    inverse, info = potri(factor, lower=True)
    if info:
        raise np.linalg.LinAlgError
    lower = np.tril(inverse)
    return lower + np.tril(inverse, -1).T, half_log_det
