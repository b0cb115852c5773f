"""The exact posterior of a gamma bag's label: the best that any method can predict.

With a uniform prior on y in [4, 8] and x y ~ chi-square(y) for every entry x of a bag,

    log p(y | bag) = m {(y/2) log(y/2) - log Gamma(y/2)} + (y/2 - 1) S_log - (y/2) S + const

- m: number of entries (points times features); S_log: sum of log x; S: sum of x

so three numbers per bag are enough. With Gaussian noise on every entry it takes 24 numbers, the
coefficients of a polynomial in y (`bagwise.datasets.gamma_noise`). Integrals over [4, 8] are done
with Gauss–Legendre rules on panels no wider than the narrowest posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from numpy.polynomial import legendre
from numpy.typing import ArrayLike
from scipy.special import gammaln, polygamma

from bagwise._utils.levels import LEVEL
from bagwise.bags.bags import Bags
from bagwise.datasets.gamma import LABEL_RANGE
from bagwise.datasets.gamma_noise import noisy_basis, noisy_statistics
from bagwise.exceptions import BagwiseError

LOWER, UPPER = LABEL_RANGE
N_NODES = 16  # of the rule on a panel; a Gaussian over one standard deviation is exact to 1e-15
MIN_PANELS = 16
BISECTIONS = 52  # halvings of [4, 8]: down to float64 resolution

NODES, NODE_WEIGHTS = legendre.leggauss(N_NODES)
# Node values -> Legendre coefficients of the integral from -1 of their interpolant: (17, 16).
ANTIDERIVATIVE = legendre.legint(np.linalg.inv(legendre.legvander(NODES, N_NODES - 1)), lbnd=-1)


def noise_free_basis(y: Float[np.ndarray, " m"]) -> Float[np.ndarray, "3 m"]:
    """Functions of ``y`` that multiply the three statistics in the log density."""
    half = 0.5 * y
    return np.stack([half * np.log(half) - gammaln(half), half - 1.0, -half])


class GammaPosterior:
    """Posterior of the label of each gamma bag, with the methods of a predictive distribution.

    Up to a constant, the log density of the labels y is ``statistics @ basis(y)``.

    Parameters
    ----------
    statistics : (n, k) array, per bag: number of entries, then what the basis asks for; for the
        default, bags without noise, sum of log x and sum of x
    sizes : (n,) array of bag sizes, optional
    basis : function that takes labels (m,) to an array (k, m)

    Notes
    -----
    Holds (n, panels, 16) densities: about 7 MB for 1,000 bags of 1,000 points.

    Examples
    --------
    >>> from bagwise.datasets import make_gamma
    >>> best = bayes_optimal(make_gamma(n_bags=4).test.bags)
    >>> best.interval(0.9).shape, bool((best.mean > 4).all())
    ((4, 2), True)
    """

    def __init__(
        self,
        statistics: Float[np.ndarray, "n k"],
        *,
        sizes: np.ndarray | None = None,
        basis: Callable[[np.ndarray], np.ndarray] = noise_free_basis,
    ) -> None:
        self.sizes = sizes
        self._statistics = statistics
        self._basis = basis
        n_panels = _n_panels(statistics[:, 0].max())
        self._half = 0.5 * (UPPER - LOWER) / n_panels
        centres = LOWER + self._half * (2 * np.arange(n_panels) + 1)
        nodes = (centres[:, None] + self._half * NODES).ravel()
        weights = np.tile(self._half * NODE_WEIGHTS, n_panels)
        log_density = statistics @ basis(nodes)
        peak = log_density.max(axis=1)
        density = np.exp(log_density - peak[:, None])
        self._log_norm = peak + np.log(density @ weights)
        mass = density * weights
        mass /= mass.sum(axis=1, keepdims=True)
        self._density = (mass / weights).reshape(-1, n_panels, N_NODES)
        self._mean = mass @ nodes
        self._std = np.sqrt(np.sum(mass * (nodes - self._mean[:, None]) ** 2, axis=1))

    @property
    def mean(self) -> Float[np.ndarray, " n"]:
        """Posterior means (n,): the predictions with the least expected squared error."""
        return self._mean

    @property
    def std(self) -> Float[np.ndarray, " n"]:
        """Posterior standard deviations (n,)."""
        return self._std

    def log_prob(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Log posterior density at ``y``, a number or (n,); -inf outside [4, 8]."""
        y = self._labels(y)
        inside = np.clip(y, LOWER, UPPER)
        value = np.sum(self._statistics * self._basis(inside).T, axis=1) - self._log_norm
        return np.where(inside == y, value, -np.inf)

    def cdf(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """P(label <= y) per bag; ``y`` is a number or (n,)."""
        return np.clip(self._integral_to(self._density, self._labels(y)), 0.0, 1.0)

    def quantile(self, q: ArrayLike) -> Float[np.ndarray, " n"] | Float[np.ndarray, "n m"]:
        """Quantiles at probability ``q`` in (0, 1): scalar -> (n,), array (m,) -> (n, m)."""
        q = np.asarray(q, dtype=np.float64)
        if q.ndim > 1 or not ((q > 0) & (q < 1)).all():
            raise BagwiseError.because(
                f"q is {q.tolist()}", "a number or 1-D array in (0, 1)", "Try 0.5, the median."
            )
        columns = [self._invert(probability) for probability in np.atleast_1d(q)]
        return columns[0] if q.ndim == 0 else np.stack(columns, axis=1)

    def interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Central interval that holds posterior probability ``level``: columns lower, upper."""
        return self.quantile([(1.0 - level) / 2.0, (1.0 + level) / 2.0])

    def crps(self, y: ArrayLike) -> Float[np.ndarray, " n"]:
        """Continuous ranked probability score at ``y``.

        integral of F(t)^2 below y plus integral of (1 - F(t))^2 above y
        """
        y = self._labels(y)
        below = self._cdf_at_nodes() ** 2
        above = (1.0 - self._cdf_at_nodes()) ** 2
        score = self._integral_to(below, y) - self._integral_to(above, y)
        outside = np.abs(y - np.clip(y, LOWER, UPPER))  # there F is 0 or 1
        return score + self._panel_integrals(above).sum(axis=1) + outside

    def __len__(self) -> int:
        return self._mean.size

    def _labels(self, y: ArrayLike) -> np.ndarray:
        values = np.asarray(y, dtype=np.float64)
        if values.shape not in ((), (len(self),)):
            raise BagwiseError.because(
                f"y has shape {values.shape}", f"a number or ({len(self)},)", "One label per bag."
            )
        return np.broadcast_to(values, (len(self),))

    def _panel_integrals(self, values: np.ndarray) -> np.ndarray:
        return self._half * (values @ NODE_WEIGHTS)

    def _cdf_at_nodes(self) -> np.ndarray:
        mass = self._panel_integrals(self._density)
        start = np.cumsum(mass, axis=1) - mass
        inner = self._density @ (legendre.legvander(NODES, N_NODES) @ ANTIDERIVATIVE).T
        return start[:, :, None] + self._half * inner

    def _integral_to(self, values: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Integral from 4 to ``y`` of each bag's function, given its values at the nodes."""
        rows, n_panels = np.arange(len(self)), values.shape[1]
        position = (np.clip(y, LOWER, UPPER) - LOWER) / (2 * self._half)
        panel = np.minimum(position.astype(np.int64), n_panels - 1)
        local = 2.0 * (position - panel) - 1.0
        whole = np.cumsum(self._panel_integrals(values), axis=1)
        before = np.where(panel > 0, whole[rows, panel - 1], 0.0)
        powers = legendre.legvander(local, N_NODES)
        inner = np.sum(powers * (values[rows, panel] @ ANTIDERIVATIVE.T), axis=1)
        return before + self._half * inner

    def _invert(self, probability: float) -> np.ndarray:
        """Solve cdf(y) = probability by bisection, for all bags at once."""
        low, high = np.full(len(self), LOWER), np.full(len(self), UPPER)
        for _ in range(BISECTIONS):
            middle = 0.5 * (low + high)
            under = self.cdf(middle) < probability
            low, high = np.where(under, middle, low), np.where(under, high, middle)
        return 0.5 * (low + high)


def bayes_optimal(bags: Bags, *, noise_sd: float = 0.0) -> GammaPosterior:
    """Compute the posterior of the label of every gamma bag.

    Its mean has the least expected squared error of all predictions, and its density the least
    expected negative log likelihood, so it is the line no method can cross.

    Parameters
    ----------
    bags : gamma bags, without weights
    noise_sd : standard deviation of the noise in their entries, the ``noise_sd`` of the experiment

    Examples
    --------
    >>> from bagwise.datasets import make_gamma
    >>> test = make_gamma(n_bags=4).test
    >>> best = bayes_optimal(test.bags)
    >>> bool(np.all(np.abs(best.mean - test.labels) < 4 * best.std))
    True

    >>> noisy = make_gamma(noise_sd=1.0, fixed_size=1000, n_bags=4)
    >>> bayes_optimal(noisy.test.bags, noise_sd=noisy.noise_sd).std.round(3)
    array([0.445, 0.521, 0.373, 0.276])
    """
    if not 0 <= noise_sd < np.inf:
        raise BagwiseError.because(
            f"noise_sd is {noise_sd}", "a number >= 0", "Use the noise_sd of the experiment."
        )
    if bags.weights is not None or (noise_sd == 0 and not (bags.points > 0).all()):
        raise BagwiseError.because(
            "the bags have weights or entries that are not positive",
            "gamma bags without noise" if noise_sd == 0 else "gamma bags without weights",
            "Draw them with gamma_varying(), or give the noise_sd they were drawn with.",
        )
    if noise_sd > 0:
        statistics = noisy_statistics(bags, float(noise_sd))
        return GammaPosterior(statistics, sizes=bags.sizes, basis=noisy_basis)
    return GammaPosterior(_noise_free_statistics(bags), sizes=bags.sizes)


class GammaBaselines(NamedTuple):
    """Scores of the prior, y ~ Uniform(4, 8), which looks at no bag.

    Parameters
    ----------
    mse : mean squared error of the constant prediction 6, the prior mean
    nll : negative log likelihood of the uniform density: log 4

    Examples
    --------
    >>> gamma_baselines([5.0, 7.0])
    GammaBaselines(mse=1.0, nll=1.386...)
    """

    mse: float
    nll: float


def gamma_baselines(labels: ArrayLike) -> GammaBaselines:
    """Score the prior on gamma ``labels``: what any method should do better than.

    Examples
    --------
    >>> mse, nll = gamma_baselines([4.0, 5.0, 8.0])
    >>> mse, round(nll, 3)
    (3.0, 1.386)
    """
    y = np.asarray(labels, dtype=np.float64)
    if y.ndim != 1 or y.size == 0 or not ((y >= LOWER) & (y <= UPPER)).all():
        raise BagwiseError.because(
            f"labels have shape {y.shape} or leave [{LOWER:g}, {UPPER:g}]",
            f"one or more numbers from {LOWER:g} to {UPPER:g}",
            "Give the labels of gamma bags.",
        )
    centre = 0.5 * (LOWER + UPPER)
    return GammaBaselines(float(np.mean((y - centre) ** 2)), float(np.log(UPPER - LOWER)))


def _noise_free_statistics(bags: Bags) -> Float[np.ndarray, "n 3"]:
    """Compute the number of entries, sum of log x and sum of x of each bag."""
    points = np.asarray(bags.points, dtype=np.float64)
    totals = np.stack([np.log(points).sum(axis=1), points.sum(axis=1)], axis=1)
    sums = np.add.reduceat(totals, bags.offsets[:-1], axis=0)
    return np.column_stack([bags.sizes * float(points.shape[1]), sums])


def _n_panels(max_count: float) -> int:
    """Panels of [4, 8] no wider than the posterior standard deviation of the largest bag at y = 4.

    The Fisher information of one entry, trigamma(y/2)/4 - 1/(2y), is largest at y = 4. Noise only
    makes it smaller.
    """
    information = max_count * (polygamma(1, 0.5 * LOWER) / 4.0 - 0.5 / LOWER)
    return max(MIN_PANELS, int(np.ceil((UPPER - LOWER) * np.sqrt(information))))
