"""Diagnostics: whether draws can be trusted, and what to do if not.

R-hat compares chains with each other, and an effective sample size says how many independent draws
would be as good, in the bulk and in the tails; both are those of rank-normalised draws. Pareto's k
says of draws from an approximation how heavy the tail of their importance weights is.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling.
Zhang and Stephens (2009), A new and efficient estimation method for the generalized Pareto
distribution.
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: An improved R-hat for assessing convergence of MCMC.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float64
from scipy.fft import irfft, rfft
from scipy.special import ndtri
from scipy.stats import rankdata

from bagwise.exceptions import BagwiseWarning
from bagwise.inference.draws import Trajectories

MAX_RHAT = 1.01
MIN_ESS_PER_CHAIN = 100
MAX_TREE_DEPTH = 10

# Fewer draws in a chain say nothing.
MIN_DRAWS = 8

# Log weights that differ by less than this are all the same, but for rounding.
LEAST_LOG_RATIO = 1e-9

# Pareto's k above which an approximation is far from the posterior.
MAX_PARETO_K = 0.7

# Shares of draws above which a warning is given.
MAX_DIVERGENT = 0.001
MAX_DEEP = 0.05


@dataclass(frozen=True)
class Diagnostics:
    """The worst of each parameter, and of the sampler: of many classes, of that of any class.

    Attributes
    ----------
    rhat, ess_bulk, ess_tail : by parameter; of one with several entries, the worst of them
    n_chains, n_draws : draws of each chain
    n_divergent : trajectories that ran off
    n_deep : trajectories that were cut at the greatest depth
    steps_per_draw : leapfrog steps, on average
    """

    rhat: dict[str, float]
    ess_bulk: dict[str, float]
    ess_tail: dict[str, float]
    n_chains: int
    n_draws: int
    n_divergent: int
    n_deep: int
    steps_per_draw: float

    @property
    def min_ess(self) -> float:
        """Least effective sample size of any parameter, in bulk or tail."""
        return min([*self.ess_bulk.values(), *self.ess_tail.values()])

    def are_enough(self, n_effective: int) -> bool:
        """Whether more draws are not needed: chains agree, and are worth enough independent ones.

        Never fewer than those without which there would be a warning.
        """
        agree = max(self.rhat.values()) <= MAX_RHAT
        return agree and self.min_ess >= max(n_effective, self._needed)

    @property
    def run_off(self) -> bool:
        """Whether so many trajectories ran off that a part of the posterior may be missed."""
        return self.n_divergent > MAX_DIVERGENT * self.n_chains * self.n_draws

    @property
    def _needed(self) -> int:
        return MIN_ESS_PER_CHAIN * self.n_chains

    def problems(self) -> list[str]:
        """Say in plain language what is wrong and what to do; empty if nothing is."""
        found, total = [], self.n_chains * self.n_draws
        name = max(self.rhat, key=self.rhat.__getitem__)
        if self.rhat[name] > MAX_RHAT:
            found.append(
                f"the chains disagree about {name} (R-hat {self.rhat[name]:.3f}, should be below "
                f"{MAX_RHAT}): draw more, with inference=NUTS(draws={2 * self.n_draws}, "
                "warmup=1000)"
            )
        needed = self._needed
        if self.min_ess < needed:
            factor = int(np.ceil(needed / max(self.min_ess, 1.0)))
            found.append(
                f"the {total} draws are worth only {self.min_ess:.0f} independent ones, should be "
                f"{needed}: draw more, with inference=NUTS(draws={factor * self.n_draws})"
            )
        if self.run_off:
            found.append(
                f"{self.n_divergent} of {total} trajectories diverged, so a part of the posterior "
                "may be missed: take smaller steps, with inference=NUTS(target_accept=0.95)"
            )
        if self.n_deep > MAX_DEEP * total:
            found.append(
                f"{self.n_deep} of {total} trajectories were cut at {2**MAX_TREE_DEPTH} steps, "
                "which is slow: take fewer landmarks or a smaller bandwidth"
            )
        return found

    def __str__(self) -> str:
        width = max(map(len, self.rhat))
        rows = [
            f"{name:<{width}}  {self.rhat[name]:6.3f}  {self.ess_bulk[name]:8.0f}  "
            f"{self.ess_tail[name]:8.0f}"
            for name in self.rhat
        ]
        return "\n".join(
            [
                f"{'':<{width}}  {'R-hat':>6}  {'bulk ESS':>8}  {'tail ESS':>8}",
                *rows,
                f"{self.n_chains} chains of {self.n_draws} draws, {self.n_divergent} divergent, "
                f"{self.steps_per_draw:.1f} leapfrog steps per draw",
            ]
        )


def diagnose(draws: Mapping[str, np.ndarray], *runs: Trajectories) -> Diagnostics:
    """Diagnose draws (chains, draws, ...) of each parameter.

    ``runs`` are those that made them: of many classes, whose posteriors are independent, one each.
    """
    flat = {name: x.reshape(*x.shape[:2], -1) for name, x in draws.items() if x.size}
    n_chains, n_draws = runs[0].n_steps.shape
    deepest = 2**MAX_TREE_DEPTH - 1
    return Diagnostics(
        rhat={name: float(rhat(x).max()) for name, x in flat.items()},
        ess_bulk={name: float(ess_bulk(x).min()) for name, x in flat.items()},
        ess_tail={name: float(ess_tail(x).min()) for name, x in flat.items()},
        n_chains=n_chains,
        n_draws=n_draws,
        n_divergent=max(int(run.diverging.sum()) for run in runs),
        n_deep=max(int((run.n_steps >= deepest).sum()) for run in runs),
        steps_per_draw=max(float(run.n_steps.mean()) for run in runs),
    )


def warn_if_bad(diagnostics: Diagnostics) -> None:
    """Warn once, with everything that is wrong."""
    problems = diagnostics.problems()
    if problems:
        warnings.warn(
            "the draws should not be trusted yet: " + "; ".join(problems) + ".",
            BagwiseWarning,
            stacklevel=2,
        )


def warn_if_far(k: float) -> None:
    """Warn if an approximation, by Pareto's k of its draws, is far from the posterior."""
    if k > MAX_PARETO_K:
        warnings.warn(
            f"the Gaussian approximation is not close to the posterior (Pareto k {k:.2f}, should "
            f"be below {MAX_PARETO_K}): sample the posterior itself, with "
            'inference="nuts".',
            BagwiseWarning,
            stacklevel=2,
        )


def pareto_k(log_weights: Float64[np.ndarray, " s"]) -> float:
    """Return the shape k of a generalised Pareto distribution fitted to the largest weights.

    Weights have 1/k moments: below 0.5 the draws stand for the posterior as they are, beyond 0.7
    a few of them would have to. By the estimator of Zhang and Stephens, with the weight of ten
    draws on k = 0.5. Weights that are all the same have no tail, k = 0.

    Examples
    --------
    >>> uniform = (np.arange(4000) + 0.5) / 4000
    >>> round(pareto_k(-0.8 * np.log(uniform)), 1)  # weights u^-0.8: Pareto of shape 0.8
    0.8
    """
    n_tail = int(min(0.2 * len(log_weights), 3.0 * np.sqrt(len(log_weights))))
    tail = np.sort(log_weights)[-n_tail - 1 :]
    if tail[-1] - tail[0] < LEAST_LOG_RATIO:
        return 0.0
    weights = np.exp(tail - tail[-1])
    x = weights[1:] - weights[0]  # above the threshold, the smallest first
    quartile = x[int(n_tail / 4 + 0.5) - 1]
    if not quartile > 0:  # almost all of the weight is on a few
        return np.inf
    m = 30 + int(np.sqrt(n_tail))
    b = (1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3.0 * quartile) + 1.0 / x[-1]
    k = np.mean(np.log1p(-b[:, None] * x), axis=1)
    profile = n_tail * (np.log(-b / k) - k - 1.0)
    share = np.exp(profile - profile.max())
    best = float(share @ b / share.sum())
    shape = float(np.mean(np.log1p(-best * x)))
    return (n_tail * shape + 10 * 0.5) / (n_tail + 10)


def rhat(x: Float64[np.ndarray, "c s k"]) -> Float64[np.ndarray, " k"]:
    """Return rank-normalised split R-hat: the worse of that of the draws and of their distance."""
    if x.shape[1] < MIN_DRAWS:
        return np.full(x.shape[2], np.inf)
    halves = _halves(x)
    folded = np.abs(halves - np.median(halves, axis=(0, 1)))
    return np.maximum(_rhat(_normal_ranks(halves)), _rhat(_normal_ranks(folded)))


def ess_bulk(x: Float64[np.ndarray, "c s k"]) -> Float64[np.ndarray, " k"]:
    """Return the effective sample size for the centre of the distribution."""
    if x.shape[1] < MIN_DRAWS:
        return np.zeros(x.shape[2])
    return _ess(_normal_ranks(_halves(x)))


def ess_tail(x: Float64[np.ndarray, "c s k"]) -> Float64[np.ndarray, " k"]:
    """Return the effective sample size for the 5 % and 95 % quantiles, the worse of the two."""
    if x.shape[1] < MIN_DRAWS:
        return np.zeros(x.shape[2])
    sides = [_halves(x <= edge) for edge in np.quantile(x, [0.05, 0.95], axis=(0, 1))]
    return np.minimum(*(_ess(side.astype(np.float64)) for side in sides))


def _halves(x: np.ndarray) -> np.ndarray:
    """Split the chains: (c, s, k) -> (2c, s // 2, k)."""
    half = x.shape[1] // 2
    return np.concatenate([x[:, :half], x[:, x.shape[1] - half :]])


def _normal_ranks(x: Float64[np.ndarray, "h t k"]) -> Float64[np.ndarray, "h t k"]:
    """Replace draws by the normal scores of their ranks."""
    ranks = rankdata(x.reshape(-1, x.shape[2]), axis=0)
    return ndtri((ranks - 0.375) / (len(ranks) + 0.25)).reshape(x.shape)


def _rhat(x: Float64[np.ndarray, "h t k"]) -> Float64[np.ndarray, " k"]:
    within = x.var(axis=1, ddof=1).mean(axis=0)
    between = x.mean(axis=1).var(axis=0, ddof=1)
    t = x.shape[1]
    moves = within > 0
    still = np.where(between > 0, np.inf, 1.0)  # a constant has converged, several have not
    return np.where(moves, np.sqrt((t - 1) / t + between / np.where(moves, within, 1.0)), still)


def _ess(x: Float64[np.ndarray, "h t k"]) -> Float64[np.ndarray, " k"]:
    """Return Geyer's effective sample size, at most that of n log n independent draws.

    n / τ with τ = 2 Σ_j P_j − 1 and P_j = ρ_2j + ρ_2j+1, made positive and decreasing. The
    autocorrelations ρ are those of all chains together: one that stands still makes n / τ small.
    """
    x = np.ascontiguousarray(np.moveaxis(x, 2, 0))  # so that sums are the same for any k
    t, total = x.shape[2], x.shape[1] * x.shape[2]
    means = x.mean(axis=2)
    power = np.abs(rfft(x - means[:, :, None], n=2 * t)) ** 2
    autocov = irfft(power, n=2 * t)[:, :, :t].mean(axis=1) / t
    within, between = autocov[:, :1], means.var(axis=1, ddof=1)[:, None]
    moves = within + between > 0
    rho = 1 - (within * t / (t - 1) - autocov) / np.where(moves, within + between, 1.0)
    rho[:, 0] = 1.0
    pairs = rho[:, :-1:2] + rho[:, 1::2]
    pairs[:, 1:] = np.minimum.accumulate(np.maximum(pairs[:, 1:], 0.0), axis=1)
    tau = np.where(moves[:, 0], 2 * pairs.sum(axis=1) - 1, 1.0)  # a constant is known at once
    return total / np.maximum(tau, 1 / np.log10(total))
