"""A prediction of counts: the distribution of a count given a latent value that is Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp, ndtri

from bagwise._utils.levels import LEVEL, check_level
from bagwise.bags.per_bag import PerBag, numbers_per_bag
from bagwise.exceptions import BagwiseError
from bagwise.predictions.gaussian import (
    LOG_TWO_PI,
    Generator,
    Prediction,
    Seed,
    check_sampling,
    check_targets,
)
from bagwise.predictions.linked import LinkedPrediction

__all__ = ["CountPrediction"]

# Panels of the quadrature, each with so many nodes of Gauss and Legendre: ends in standard
# deviations of the latent value, and in widths of what is steep.
NODES, SHARES = np.polynomial.legendre.leggauss(8)
PANELS = np.array([-9.0, -4.5, -2.0, 0.0, 2.0, 4.5, 9.0])
STEEP_PANELS = np.array([-9.0, -4.5, -2.0, 0.0, 2.0, 4.5, 9.0])

# Up to so many counts a score is a sum over all of them; beyond, an integral.
MOST_TERMS = 150
# The probability that a score leaves out at either end; its square counts.
LEFT_OUT = 1e-5

# A latent value that is known has this variance.
LEAST_VAR = 1e-20

# Bags worked on at once.
BLOCK = 2000

# How often a bracket of a quantile is widened at most: beyond every number.
DOUBLINGS = 1100

# Steps of the search for a mode, which need not be found exactly.
MODE_STEPS = 60


class CountLaw(Protocol):
    """What is needed of a likelihood of counts, such as `bagwise.likelihoods.Poisson`."""

    @property
    def target(self) -> str: ...

    totals: Float[np.ndarray, " n"]

    def take(self, bags: Any) -> Self: ...
    def at_total(self, totals: Any) -> Self: ...
    def possible(self, y: Any) -> Any: ...
    def bend(self, y: Any, latent: Any, noise: Any) -> Any: ...
    def rate(self, latent: Any) -> Any: ...
    def steep(self, k: Any, totals: Any, noise: Any) -> tuple[Any, Any]: ...
    def cdf(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any: ...
    def log_prob(self, k: Any, latent: Any, totals: Any, noise: Any) -> Any: ...
    def moments(self, mean: Any, var: Any, noise: Any) -> tuple[Any, Any, Any]: ...
    def draw(self, rng: Any, latent: Any, noise: Any) -> Any: ...


class CountPrediction(LinkedPrediction):
    """Predictive distribution of the count of each bag.

    P(y_i = k) = ∫ P(k | f, t_i) N(f; latent mean_i, latent bag_i + weights_i) df

    by quadrature. Quantiles and intervals are whole numbers, ends included: a central interval of
    80 % holds 80 % or more. The variance has the parts

    noise_i = E Var[y_i | f],   bag_i + weights_i = Var E[y_i | f]

    Parameters
    ----------
    latent : Prediction of the latent value; its noise part is the noise level of the likelihood
    law : likelihood of the counts, with the totals of these bags

    Examples
    --------
    >>> from bagwise.likelihoods import Poisson
    >>> from bagwise.predictions.parts import VarianceParts
    >>> latent = Prediction(np.log([3.0, 300.0]), VarianceParts.broadcast(2, bag=0.01))
    >>> p = CountPrediction(latent, Poisson(np.ones(2)))
    >>> p.interval(0.9)
    array([[  0.,   6.],
           [247., 361.]])
    >>> p.log_prob([3.0, 300.0]).round(2), p.parts.noise.round(1)
    (array([-1.51, -4.46]), array([  3. , 301.5]))
    """

    def __init__(self, latent: Prediction, law: CountLaw) -> None:
        self._law = law
        open_var = latent.parts.bag + latent.parts.weights
        super().__init__(latent, *law.moments(latent.mean, open_var, latent.parts.noise))
        self._sd = np.sqrt(np.maximum(open_var, LEAST_VAR))

    @property
    def target(self) -> str:  # type: ignore[override]
        """The latent value in words."""
        return str(self._law.target)

    @property
    def totals(self) -> Float[np.ndarray, " n"]:
        """What each count is out of, or in proportion to."""
        return self._law.totals

    @property
    def rate(self) -> Float[np.ndarray, " n"]:
        """Mean of the count as a share of its total (n,)."""
        return self._mean / self.totals

    def rate_interval(self, level: float = LEVEL) -> Float[np.ndarray, "n 2"]:
        """Central interval of the rate itself, without the noise of counting."""
        check_level(level)
        ends = ndtri([(1.0 - level) / 2.0, (1.0 + level) / 2.0])
        return self._law.rate(self._plain.mean[:, None] + self._sd[:, None] * ends)

    def at_total(self, totals: PerBag) -> CountPrediction:
        """Return the prediction of the same bags with other totals; a number or (n,), > 0.

        ``at_total(1)`` is the prediction of a single trial, or of the count per unit of exposure.
        """
        given = np.asarray(numbers_per_bag(totals, self._ids, "totals", BagwiseError))
        if given.shape not in ((), (len(self),)) or not (np.isfinite(given) & (given > 0)).all():
            raise BagwiseError.because(
                f"totals have shape {given.shape} and minimum {given.min(initial=np.inf):g}",
                f"a number > 0 or one for each of {len(self)} bags",
                "Give the totals of the predicted bags, in the same order.",
            )
        full = np.broadcast_to(given.astype(np.float64), (len(self),)).copy()
        return CountPrediction(self._plain, self._law.at_total(full))

    def _of(self, latent: Prediction, rows: Any) -> CountPrediction:
        return CountPrediction(latent, self._law.take(rows))

    def pit(self, y: PerBag, random_state: Seed = 0) -> Float[np.ndarray, " n"]:
        """Randomised probability integral transform, F(y − 1) + u {F(y) − F(y − 1)}, u uniform.

        F(y) alone would not be uniform, as counts are steps apart. Always the same u by default.

        References
        ----------
        Czado, Gneiting and Held (2009), Predictive model assessment for count data.
        """
        y = check_targets(y, len(self), self._ids)
        below, at = self._cdf(y - 1.0), self._cdf(y)
        return below + check_sampling(1, random_state).uniform(size=len(self)) * (at - below)

    def _log_prob(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        found = np.full(len(self), -np.inf)
        for rows in _blocks(np.flatnonzero(self._law.possible(y))):
            found[rows] = self._log_prob_of(y[rows], rows)
        return found

    def _quantiles(self, q: Float[np.ndarray, " m"]) -> Float[np.ndarray, "n m"]:
        """Return the least counts k with P(count <= k) >= q."""
        return np.array([self._quantile(float(p)) for p in q]).reshape(len(q), len(self)).T

    def _crps(self, y: Float[np.ndarray, " n"]) -> Float[np.ndarray, " n"]:
        """Return Σ_k (F(k) − 1[k ≥ y])².

        Where very many counts are probable, the sum is an integral with the first correction of
        Euler and Maclaurin.
        """
        ends = self._quantile(LEFT_OUT), self._quantile(1.0 - LEFT_OUT)
        found, sums = np.zeros(len(self)), list[tuple[int, bool, _Sum]]()
        for i, (label, low, high) in enumerate(zip(y, *ends, strict=True)):
            cut = float(np.ceil(label))  # F is compared with 1 from here on
            sums.append((i, False, _Sum.over(low, min(cut - 1.0, high), upwards=False)))
            sums.append((i, True, _Sum.over(max(cut, low), high, upwards=True)))
            if cut > label:  # between counts the label comes before the step of F
                k = np.array([cut - 1.0])
                sums.append((i, False, _Sum(k, np.array([label - cut]))))
                sums.append((i, True, _Sum(k, np.array([cut - label]))))
            found[i] = max(cut - 1.0 - high, low - cut, 0.0)
        k, weights = (np.concatenate(both) for both in zip(*(x for *_, x in sums), strict=True))
        lengths = [len(x.k) for *_, x in sums]
        rows, upper = (np.repeat(column, lengths) for column in list(zip(*sums, strict=True))[:2])
        F = self._cdf(k, rows)
        return found + np.bincount(rows, weights * np.where(upper, 1.0 - F, F) ** 2, len(self))

    def _sample(self, size: int, rng: Generator) -> Float[np.ndarray, "size n"]:
        latent = self._plain.mean + self._sd * rng.standard_normal((size, len(self)))
        return self._law.draw(rng, latent, self._plain.parts.noise)

    def _columns_of(self, rows: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return columns of some bags: mean and sd of the latent value, total, noise level."""
        columns = self._plain.mean, self._sd, self.totals, self._plain.parts.noise
        return tuple(column[rows, None] for column in columns)

    def _cdf(self, y: Float[np.ndarray, " m"], rows: Any = None) -> Float[np.ndarray, " m"]:
        """Return P(count ≤ y) of all bags, or of those in ``rows``, of some several times."""
        k, rows = (np.floor(y), np.arange(len(self))) if rows is None else (y, rows)
        found = np.empty(len(rows))
        for part in _blocks(np.arange(len(rows))):
            mean, sd, totals, noise = self._columns_of(rows[part])
            at = np.maximum(k[part, None], 0.0)
            where, width = self._law.steep(at, totals, noise)
            u, weights = panels((where - mean) / sd, width / sd)
            weights = weights * np.exp(-0.5 * (u**2 + LOG_TWO_PI))
            below = np.sum(weights * self._law.cdf(at, mean + sd * u, totals, noise), axis=1)
            found[part] = np.where(k[part] < 0, 0.0, below / weights.sum(axis=1))
        return found

    def _log_prob_of(self, k: Float[np.ndarray, " m"], rows: np.ndarray) -> Float[np.ndarray, " m"]:
        """Return log P(count = k), by nodes around the most probable latent value given k.

        −log of the integrand has a curvature of 1/sd² or more everywhere: nine sd are enough.
        """
        mean, sd, totals, noise = self._columns_of(rows)
        law = self._law.take(rows)
        mode = _mode(law, k, mean[:, 0], sd[:, 0], noise[:, 0])
        curve = law.bend(k, mode, noise[:, 0]).second + sd[:, 0] ** -2
        u, weights = panels(np.zeros_like(mean), 1.0 / (sd * np.sqrt(curve[:, None])))
        latent = mode[:, None] + sd * u
        terms = self._law.log_prob(k[:, None], latent, totals, noise)
        terms = terms - 0.5 * (((latent - mean) / sd) ** 2 + LOG_TWO_PI)
        return np.minimum(logsumexp(terms, axis=1, b=weights), 0.0)

    def _quantile(self, p: float) -> Float[np.ndarray, " n"]:
        """Return the least k with P(count ≤ k) ≥ p: a bracket that widens, then halves."""
        rows, noise = np.arange(len(self)), self._plain.parts.noise
        start = np.floor(self.totals * self._law.rate(self._plain.mean + ndtri(p) * self._sd))
        step = np.floor(np.sqrt(start * (1.0 + noise * start))) + 1.0
        low, high = start - 1.0, start.copy()  # F(low) < p ≤ F(high), once found
        for ends, sign in ((high, 1.0), (low, -1.0)):
            left, far = rows, step.copy()
            for _ in range(DOUBLINGS):
                reached = self._cdf(ends[left], left) >= p
                left = left[~reached if sign > 0 else reached & (ends[left] >= 0)]
                other = low if sign > 0 else high
                other[left] = ends[left]
                ends[left] = np.maximum(ends[left] + sign * far[left], -1.0)
                far[left] *= 2.0
                if not len(left):
                    break
        left = rows
        while len(left):
            middle = np.floor(0.5 * (low[left] + high[left]))
            apart = (low[left] < middle) & (middle < high[left])  # of huge counts, as floats are
            left, middle = left[apart], middle[apart]
            reached = self._cdf(middle, left) >= p
            high[left[reached]], low[left[~reached]] = middle[reached], middle[~reached]
        return high


class _Sum(NamedTuple):
    """A sum over counts, Σ weight g(k)."""

    k: Float[np.ndarray, " m"]
    weights: Float[np.ndarray, " m"]

    @classmethod
    def over(cls, first: float, last: float, *, upwards: bool) -> _Sum:
        """Return Σ g(k) for k from first to last; of very many, ∫ g(k) dk − {g' at the ends}/24.

        Nodes are closer where g is large: at the first count if sums go upwards, else at the last.
        """
        if last - first < MOST_TERMS:
            k = np.arange(first, last + 1.0)
            return cls(k, np.ones(len(k)))
        way = np.linspace(0.0, 1.0, len(PANELS)) ** 1.5
        way = way if upwards else 1.0 - way[::-1]
        ends = first - 0.5 + (last - first + 1.0) * way
        half = 0.5 * np.diff(ends)[:, None]
        near = np.array([first - 1.0, first, last, last + 1.0])
        k = (ends[:-1, None] + half * (1.0 + NODES)).ravel()
        slopes = np.array([-1.0, 1.0, 1.0, -1.0]) / 24.0
        return cls(np.concatenate([k, near]), np.concatenate([(half * SHARES).ravel(), slopes]))


def panels(
    where: Float[np.ndarray, "n 1"], width: Float[np.ndarray, "n 1"]
) -> tuple[Float[np.ndarray, "n q"], Float[np.ndarray, "n q"]]:
    """Return nodes and weights of an integral over ±9 of what is steep somewhere: Σ w g(u)."""
    ends = np.concatenate(
        [np.broadcast_to(PANELS, (len(where), len(PANELS))), where + width * STEEP_PANELS], axis=1
    )
    ends = np.sort(np.clip(ends, PANELS[0], PANELS[-1]), axis=1)
    half = 0.5 * np.diff(ends, axis=1)[:, :, None]
    nodes = ends[:, :-1, None] + half * (1.0 + NODES)
    return nodes.reshape(len(where), -1), (half * SHARES).reshape(len(where), -1)


def averages(
    mean: Float[np.ndarray, " n"],
    var: Float[np.ndarray, " n"],
    functions: Sequence[Callable[[Any], Any]],
) -> list[Float[np.ndarray, " n"]]:
    """Return the means of functions of f ~ N(mean, var) that are steep at 0, within 1.

    Examples
    --------
    >>> averages(np.zeros(1), np.ones(1), [np.square])[0].round(9)
    array([1.])
    """
    sd = np.sqrt(np.maximum(var, LEAST_VAR))[:, None]
    u, weights = panels(-mean[:, None] / sd, 1.0 / sd)
    weights = weights * np.exp(-0.5 * (u**2 + LOG_TWO_PI))
    latent = mean[:, None] + sd * u
    return [np.sum(weights * function(latent), axis=1) for function in functions]


def _mode(
    law: CountLaw,
    k: Float[np.ndarray, " n"],
    mean: Float[np.ndarray, " n"],
    sd: Float[np.ndarray, " n"],
    noise: Float[np.ndarray, " n"],
) -> Float[np.ndarray, " n"]:
    """Return about the most probable latent values given k: Newton's steps within a bracket.

    The slope of −log p grows with f, so that the mode is no further from the mean than it says.
    """
    start, var = law.bend(k, mean, noise).first, sd**2
    where, width = law.steep(k, law.totals, noise)
    low = mean - var * np.maximum(start, 0.0)
    high = mean + var * np.maximum(-start, 0.0)
    high = np.where(start < 0, np.minimum(high, np.maximum(where + width, mean)), high)
    at = np.clip(where, low, high)
    for _ in range(MODE_STEPS):
        bend = law.bend(k, at, noise)
        slope = bend.first + (at - mean) / var
        low, high = np.where(slope < 0, at, low), np.where(slope > 0, at, high)
        step = slope / (bend.second + 1.0 / var)
        new = at - step
        at = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
        if (np.abs(slope) <= 1e-3 * np.sqrt(bend.second + 1.0 / var)).all():
            break
    return at


def _blocks(rows: np.ndarray) -> list[np.ndarray]:
    return [rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK)]
