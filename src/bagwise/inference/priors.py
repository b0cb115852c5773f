"""Priors of the full posterior: half-normals for the scales, normals for the fixed effects."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float64

from bagwise.bags.validation import is_positive
from bagwise.embedding.posterior import EmbeddingModel
from bagwise.exceptions import BagwiseError
from bagwise.inference.shrinkage import ShrinkageProblem
from bagwise.likelihoods.base import ClassLikelihood

# The weights' scale ρ may make the function vary over bags this much more than the labels do.
WEIGHT_SPREAD = 5.0

# Least share of what bags are seen to vary that is taken to be more than chance.
LEAST_BETWEEN = 0.01

# Embeddings may vary between bags this much more than points do within one.
BETWEEN_BAGS = 10.0

# Scales are sampled as logs of σ², η and ρ²; the half-normal is that of this power of them.
POWERS = {"noise": 0.5, "prior_scale": 1.0, "weight_var": 0.5}


@dataclass(frozen=True)
class Priors:
    """Scales of the priors, for labels of unit standard deviation.

    σ ~ HalfNormal(noise),  ρ ~ HalfNormal(weights),  η ~ HalfNormal(prior_scale),
    b and coefficients of covariates ~ N(0, intercept²)

    Parameters
    ----------
    noise : scale of the noise σ; classes have none
    weights : scale of ρ, where ρ² is the variance of the weights. By default such that the function
        may vary over the training bags up to a few times as much as the labels.
    prior_scale : scale of η. By default such that embeddings may vary between bags up to ten times
        as much as points do within one.
    intercept : standard deviation of the intercept, and of the coefficients of the (standardised)
        covariates

    Examples
    --------
    >>> Priors(noise=0.1)
    Priors(noise=0.1, weights=None, prior_scale=None, intercept=10.0)
    """

    noise: float = 1.0
    weights: float | None = None
    prior_scale: float | None = None
    intercept: float = 10.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.default is None:
                continue
            if not is_positive(value):
                raise BagwiseError.because(
                    f"the prior's {field.name} is {value!r}",
                    "a finite number > 0" + (" or None" if field.default is None else ""),
                    "Give the scale of the prior, for labels of unit standard deviation.",
                )


@dataclass(frozen=True, eq=False)
class ScalePriors:
    """Priors of one problem, on φ = the logs of its free scales and of ρ².

    x_j = exp(power_j φ_j) ~ HalfNormal(scale_j)

    Attributes
    ----------
    names : of the scales;  power, scale : (k,)
    effect_sd : standard deviation of the fixed effects γ
    """

    names: tuple[str, ...]
    power: Float64[np.ndarray, " k"]
    scale: Float64[np.ndarray, " k"]
    effect_sd: float

    @property
    def folded(self) -> Bool[np.ndarray, " k"]:
        """Whether a scale's coordinate may have either sign: see marginal_mode.relative_scales."""
        return np.array([name == "noise" for name in self.names])

    @classmethod
    def of(cls, problem: ShrinkageProblem, priors: Priors) -> ScalePriors:
        """Fill in the scales that depend on the data."""
        names = (*problem.scale_names, "weight_var")
        start = problem.start_embedding
        scales = {
            "noise": priors.noise,
            "prior_scale": priors.prior_scale or BETWEEN_BAGS / _mean_spectrum(start.model),
            "weight_var": priors.weights or usual_weights(problem),
        }
        return cls(
            names=names,
            power=np.array([POWERS[name] for name in names]),
            scale=np.array([scales[name] for name in names]),
            effect_sd=priors.intercept,
        )

    def log_density(self, phi: Float64[np.ndarray, " k"]) -> float:
        """Return the log density of φ, Jacobian included."""
        ratio = np.exp(self.power * phi) / self.scale
        constant = 0.5 * np.log(2.0 / np.pi) + np.log(self.power / self.scale)
        return float(np.sum(self.power * phi - 0.5 * ratio**2 + constant))


def usual_weights(problem: ShrinkageProblem) -> float:
    """Return the scale of the prior of ρ, if none is given."""
    spread = _spread(problem)
    return float(WEIGHT_SPREAD / np.sqrt(spread)) if spread > 0 else WEIGHT_SPREAD


def _spread(problem: ShrinkageProblem) -> float:
    """Return v, how much a function of weight variance 1 varies over the bags.

    Bags of few points differ by chance alone, 1/N in each of the embedding's directions. A model
    that shrinks them does not see that, and where labels are classes, whose latent values have no
    scale of their own, v must not count it: else ρ, and with it every probability, is held back.
    """
    start = problem.start_embedding
    if not (start.model.shrinks and isinstance(problem.likelihood, ClassLikelihood)):
        return problem.spread
    seen = np.mean(start.t**2, axis=0)
    between = np.maximum(seen - np.mean(1.0 / start.sizes[start.size_of]), LEAST_BETWEEN * seen)
    return float(between @ np.sum(start.model.function_map**2, axis=1))


def _mean_spectrum(model: EmbeddingModel) -> float:
    """Return the average of λ: that of the directions in which bags can be seen to differ.

    A geometric mean would go by the directions that the kernel hardly sees.
    """
    return float(model.spectrum.mean()) or 1.0
