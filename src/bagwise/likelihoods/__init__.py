"""Likelihoods: how a label depends on the mean ξ and the variance ν of a bag's latent value.

Each has ``terms``: minus its log density, with the first and second derivatives in ξ and ν that the
optimisers need, and ``fixed_noise``: the part of ν that is not learnt, or None if it is. Labels of
classes are −1 and +1.

    gaussian   y ~ N(ξ, ν)                                ν = variance of the bag + σ²
    probit     P(y = 1) = Φ(ξ/√ν)                         ν = variance of the bag + 1
    logistic   P(y = 1) = 1/(1 + e^−ξ)                    a point embedding: ν is not used
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from jaxtyping import Float64
from scipy.special import erfcx, expit, log_ndtr, ndtr

Vector = Float64[np.ndarray, " n"]

LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))


@dataclass(frozen=True, eq=False)
class Terms:
    """Minus log density of each label and its derivatives in ξ and ν; arrays (n,).

    Attributes
    ----------
    value : −log p(y | ξ, ν), up to a constant
    by_mean, by_var : first derivatives
    mean_mean, mean_var, var_var : second derivatives
    fisher_mean, fisher_cross, fisher_var : their expectations over y
    """

    value: Vector
    by_mean: Vector
    by_var: Vector
    mean_mean: Vector
    mean_var: Vector
    var_var: Vector
    fisher_mean: Vector
    fisher_cross: Vector
    fisher_var: Vector


class Likelihood(Protocol):
    """What the shrinkage model needs to know of its labels."""

    @property
    def name(self) -> str:
        """By which other modules know it."""
        ...

    @property
    def fixed_noise(self) -> float | None:
        """Part of ν that is not learnt, or None."""
        ...

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives."""
        ...


class ClassLikelihood(Likelihood, Protocol):
    """A likelihood of two classes."""

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return P(y = 1) if the latent value is N(mean, var), without the link's own noise."""
        ...


class Gaussian:
    """Real labels: −log p = ½ {log ν + (y − ξ)²/ν}, up to a constant."""

    name = "gaussian"
    fixed_noise = None

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives.

        Examples
        --------
        >>> Gaussian().terms(np.array([2.0]), np.array([0.0]), np.array([1.0])).value
        array([2.])
        """
        r = y - mean
        return Terms(
            value=0.5 * (np.log(var) + r**2 / var),
            by_mean=-r / var,
            by_var=0.5 * (1.0 / var - r**2 / var**2),
            mean_mean=1.0 / var,
            mean_var=r / var**2,
            var_var=r**2 / var**3 - 0.5 / var**2,
            fisher_mean=1.0 / var,
            fisher_cross=np.zeros_like(var),
            fisher_var=0.5 / var**2,
        )


class Probit:
    """Classes by the probit link: −log p = −log Φ(yu), u = ξ/√ν.

    The link is the sign of a latent value with noise of variance 1, so a Gaussian bag is integrated
    over in closed form: its variance adds to the 1.
    """

    name = "probit"
    fixed_noise = 1.0

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ, ν) and its derivatives, stable for any u.

        Examples
        --------
        >>> Probit().terms(np.array([1.0]), np.array([0.0]), np.array([1.0])).value.round(3)
        array([0.693])
        """
        root = np.sqrt(var)
        u = mean / root
        ratio = np.sqrt(2.0 / np.pi) / erfcx(-y * u / np.sqrt(2.0))  # φ(u)/Φ(yu)
        first, second = -y * ratio, ratio * (ratio + y * u)
        log_phi = -0.5 * u**2 - LOG_ROOT_TWO_PI
        expected = np.exp(2.0 * log_phi - log_ndtr(u) - log_ndtr(-u))
        u_mean, u_var = 1.0 / root, -0.5 * u / var
        return Terms(
            value=-log_ndtr(y * u),
            by_mean=first * u_mean,
            by_var=first * u_var,
            mean_mean=second * u_mean**2,
            mean_var=second * u_mean * u_var - 0.5 * first * u_mean / var,
            var_var=second * u_var**2 + 0.75 * first * u / var**2,
            fisher_mean=expected * u_mean**2,
            fisher_cross=expected * u_mean * u_var,
            fisher_var=expected * u_var**2,
        )

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return Φ(ξ/√(1 + v)), the integral of Φ over N(ξ, v)."""
        return ndtr(mean / np.sqrt(1.0 + var))


class Logistic:
    """Classes by the logistic link: −log p = log(1 + e^−yξ)."""

    name = "logistic"
    fixed_noise = 0.0

    def terms(self, y: Vector, mean: Vector, var: Vector) -> Terms:
        """Return −log p(y | ξ) and its derivatives; those in ν are zero.

        Examples
        --------
        >>> Logistic().terms(np.array([-1.0]), np.array([0.0]), np.array([0.0])).value.round(3)
        array([0.693])
        """
        none = np.zeros_like(mean)
        curvature = expit(mean) * expit(-mean)
        return Terms(
            value=np.logaddexp(0.0, -y * mean),
            by_mean=-y * expit(-y * mean),
            by_var=none,
            mean_mean=curvature,
            mean_var=none,
            var_var=none,
            fisher_mean=curvature,
            fisher_cross=none,
            fisher_var=none,
        )

    def probability(self, mean: np.ndarray, var: np.ndarray) -> np.ndarray:
        """Return 1/(1 + e^−ξ); a point embedding has no variance, so v is zero."""
        return expit(mean)
