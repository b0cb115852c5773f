"""Sites: what takes the place of a label of two classes in expectation propagation.

The label's probability p(y | f) becomes exp(νf − ½ sf²), a Gaussian in the latent value f, such
that f has the mean and the variance that it has with the label itself in that place.

References
----------
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, section 3.6.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float64
from scipy.special import ndtr

from bagwise.likelihoods.base import ClassLikelihood
from bagwise.likelihoods.logistic import PROBIT_SHARES, PROBIT_SLOPES
from bagwise.likelihoods.probit import Probit

Vector = Float64[np.ndarray, " n"]

# s and ν of each label.
Sites = tuple[Vector, Vector]

# Least share of a variance that is left without a label.
LEAST_LEFT = 1e-10

# What a repetition still moves at its end, of a label's part or of the bag part of a standardised
# label, if it is to be said.
MUCH = 0.05

# Panels of integrals over one latent value: how far they reach, in standard deviations, where p
# bends, nodes of each, and steps of Newton's method to where the integrand is largest.
REACH, BENDS, NEWTON_STEPS = 9.0, 6.0, 50
LEGENDRE = np.polynomial.legendre.leggauss(30)

# The latent value below which the log of a mixture of probits is no longer that of the logistic
# link.
MOST_WRONG = -12.0


def sites_of(
    likelihood: ClassLikelihood, labels: Vector, weights: Vector, around: Vector, spread: Vector
) -> tuple[Vector, Sites]:
    """Return −log ∫ p(y | f)^w N(f; m, v) df, and s and ν that give f the same mean and variance.

    With g and h the first two derivatives of that log in m, f has the mean m + vg and the variance
    v + v²h. Where w = 1 they are in closed form for the probit link, and for the logistic one as a
    mixture of eight of them; else they are integrals.

    Parameters
    ----------
    weights : (n,), w;  around, spread : (n,), m and v
    """
    other = weights != 1.0
    if isinstance(likelihood, Probit):
        terms = likelihood.terms(labels, around, 1.0 + spread)
        value, first, second = terms.value, terms.by_mean, terms.mean_mean
    else:
        value, first, second = _by_probits(labels, around, spread)
        other |= labels * around < MOST_WRONG  # where tails of normals are not those of the link
    left = np.maximum(1.0 - spread * second, LEAST_LEFT)
    curve, pull = second / left, (around * second - first) / left
    if other.any():
        m, v = around[other], spread[other]
        found, mean, var = _integrated(likelihood, labels[other], weights[other], m, v)
        value[other] = found
        curve[other] = np.maximum(v - var, 0.0) / (v * var)
        pull[other] = (mean - m) / var + m * curve[other]  # mean/var − m/v
    return value, (curve, pull)


def _by_probits(labels: Vector, around: Vector, spread: Vector) -> tuple[Vector, Vector, Vector]:
    """Return −log ∫ p(y | f) N(f; m, v) df of the logistic link and its first derivatives in m."""
    slope = PROBIT_SLOPES / np.sqrt(1.0 + PROBIT_SLOPES**2 * spread[:, None])
    u = (labels * around)[:, None] * slope
    height = np.exp(-0.5 * u**2) / np.sqrt(2.0 * np.pi)
    total = ndtr(u) @ PROBIT_SHARES
    total = np.maximum(total, np.finfo(float).tiny)
    first = labels * ((height * slope) @ PROBIT_SHARES) / total
    second = -((height * u * slope**2) @ PROBIT_SHARES) / total
    return -np.log(total), -first, first**2 - second


def _integrated(
    likelihood: ClassLikelihood, labels: Vector, weights: Vector, around: Vector, spread: Vector
) -> tuple[Vector, Vector, Vector]:
    """Return −log ∫ p(y | f)^w N(f; m, v) df, and mean and variance of f, by Gauss–Legendre panels.

    The integrand is log-concave, and from its mode falls at least as fast as N(·, v): panels reach
    so far, with one where it is largest and one where p bends.
    """
    mode, none = around, np.zeros_like(around)
    for _ in range(NEWTON_STEPS):
        bend = likelihood.bend(labels, mode, none)
        curve = 1.0 / spread + weights * bend.second
        step = ((mode - around) / spread + weights * bend.first) / curve
        mode = mode - step
        if np.all(np.abs(step) <= 1e-6 / np.sqrt(curve)):
            break
    wide, narrow = REACH * np.sqrt(spread), 6.0 / np.sqrt(curve)
    edges = np.stack(
        [mode - wide, mode - narrow, mode + narrow, mode + wide, none - BENDS, none + BENDS]
    )
    edges = np.sort(np.clip(edges, mode - wide, mode + wide), axis=0)
    nodes, shares = LEGENDRE
    half = 0.5 * np.diff(edges, axis=0)[..., None]
    f = (0.5 * (edges[1:] + edges[:-1])[..., None] + half * nodes).transpose(1, 0, 2)
    mass = (half * shares).transpose(1, 0, 2)
    y, w, m, v = (each[:, None, None] for each in (labels, weights, around, spread))
    logs = w * likelihood.log_prob(y, f, 1.0) - 0.5 * (f - m) ** 2 / v
    top = logs.max(axis=(1, 2), keepdims=True)
    mass = mass * np.exp(logs - top)
    total = mass.sum(axis=(1, 2))
    mean = np.sum(mass * f, axis=(1, 2)) / total
    var = np.sum(mass * (f - mean[:, None, None]) ** 2, axis=(1, 2)) / total
    return 0.5 * np.log(2.0 * np.pi * spread) - top[:, 0, 0] - np.log(total), mean, var


def moved_to(sites: Sites, new: Sites, share: float) -> Sites:
    """Return sites on the way to new ones."""
    return sites[0] + share * (new[0] - sites[0]), sites[1] + share * (new[1] - sites[1])


def change(sites: Sites, new: Sites) -> float:
    """Return how far sites are from new ones."""
    return float(max(np.abs(new[0] - sites[0]).max(), np.abs(new[1] - sites[1]).max()))


def log_of_sites(sites: Sites, around: Vector, spread: Vector) -> Vector:
    """Return log ∫ exp(νf − ½ sf²) N(f; m, v) df, which with −log of the label's own is −c."""
    curve, pull = sites
    exponent = 2.0 * around * pull + pull**2 * spread - curve * around**2
    return 0.5 * exponent / (1.0 + curve * spread) - 0.5 * np.log1p(curve * spread)
