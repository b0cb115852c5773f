"""Draws of the scales of Gaussian processes: a dozen numbers with an exact gradient.

With a hundred bags they are not known well, and a process at those of the largest evidence is too
sure. By importance sampling (:func:`draw_scales`) they are drawn from Student's t with the
curvature of the evidence at its mode, each is weighted by how much more probable it is than the
draw was, and some are taken, in proportion to their weights: w_m ∝ p(θ_m | y)/q(θ_m). No weight is
more than 1/√M of all, so that one draw cannot stand for the whole.

By NUTS (:func:`sample_scales`) in NumPy: the evidence is NumPy's and takes milliseconds or more, so
a compiled sampler would gain nothing. Scales are moved in units of the curvature at their mode,
where the density is nearly a standard Gaussian: trajectories are short, and only the step size is
left to be found.

References
----------
Ionides (2008), Truncated importance sampling.
Hoffman and Gelman (2014), The No-U-Turn Sampler.
Betancourt (2017), A conceptual introduction to Hamiltonian Monte Carlo, appendix A.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import joblib
import numpy as np
from jaxtyping import Float64
from scipy.stats import multivariate_t

from bagwise._utils.work import Progress, one_thread
from bagwise.inference.diagnostics import MAX_TREE_DEPTH
from bagwise.inference.draws import Trajectories
from bagwise.inference.gp_evidence import BOUND, HOPELESS, GPProblem, Settled, Slopes, settle
from bagwise.inference.second_level import Scales
from bagwise.inference.settings import NUTS

Place = Float64[np.ndarray, " h"]
Potential = Callable[[Place], tuple[float, Place]]

# Energy by which a trajectory that has run off differs from where it began.
RAN_OFF = 1000.0

# Step of the differences by which curvature is found.
DIFFERENCE = 1e-3

# Step size to begin with, and how fast the search for it settles: Hoffman and Gelman, section 3.2.
FIRST_STEP, PULL, DELAY, FADING = 0.5, 0.05, 10.0, 0.75

# Draws that are weighted, in pairs on both sides of the mode; those that are taken; and the degrees
# of freedom of what they are drawn from, of heavier tails than a posterior is likely to have.
WEIGHTED = 64
TAKEN = 16
DOF = 8


@dataclass(frozen=True, eq=False)
class Whitened:
    """Units in which a density is nearly a standard Gaussian: θ = mode + root x.

    Attributes
    ----------
    potential : θ ↦ −log density and its gradient
    mode : (h,);  root : (h, h)
    """

    potential: Potential
    mode: Place
    root: Float64[np.ndarray, "h h"]

    @classmethod
    def at(cls, potential: Potential, mode: Place, widest: Place) -> Whitened:
        """Take the curvature at the mode; no direction is wider than ``widest``, that of a prior.

        Examples
        --------
        >>> made = Whitened.at(lambda x: (2.0 * float(x @ x), 4.0 * x), np.zeros(1), np.ones(1))
        >>> made.root.round(6)
        array([[0.5]])
        """
        steps = DIFFERENCE * np.diag(widest)
        rows = [potential(mode + step)[1] - potential(mode - step)[1] for step in steps]
        curve = np.array(rows) / (2.0 * DIFFERENCE) * widest
        values, vectors = np.linalg.eigh(0.5 * (curve + curve.T))
        root = widest[:, None] * vectors / np.sqrt(np.maximum(values, 1.0))
        return cls(potential, mode, root)

    def __call__(self, x: Place) -> tuple[float, Place]:
        """Return −log density and its gradient in x."""
        value, slope = self.potential(self.mode + self.root @ x)
        return value, slope @ self.root


@dataclass(frozen=True, eq=False)
class _State:
    """A place with its momentum, −log density there, and its gradient."""

    x: Place
    p: Place
    value: float
    slope: Place

    @property
    def energy(self) -> float:
        return self.value + 0.5 * float(self.p @ self.p)


@dataclass(frozen=True, eq=False)
class _Tree:
    """A piece of a trajectory.

    Attributes
    ----------
    first, last : its ends, in the order in which it was made
    chosen : one of its states, drawn by their weights;  log_weight : of all of them
    momentum : sum over the states
    accepted : sum of acceptance rates;  n_steps : states made
    ended : whether it turns back or ran off;  ran_off : whether it ran off
    """

    first: _State
    last: _State
    chosen: _State
    log_weight: float
    momentum: Place
    accepted: float
    n_steps: int
    ended: bool = False
    ran_off: bool = False


class Chain:
    """One chain, which makes a draw at a time.

    ``made`` has x of each draw, whether its trajectory ran off, its steps, the energy at its end.
    """

    def __init__(self, density: Whitened, x: Place, seed: int, target: float) -> None:
        self._density, self._rng = density, np.random.default_rng(seed)
        self.made: list[tuple[Place, bool, int, float]] = []
        if not np.isfinite(density(x)[0]):
            x = np.zeros_like(x)  # the mode
        self._state = _State(x, np.zeros_like(x), *density(x))
        self._step = _StepSize(target)

    @property
    def step_size(self) -> float:
        """The step size that was learnt last."""
        return self._step.size

    def draw(self, *, learn: bool) -> None:
        """Make a trajectory and take one of its states; learn from it how long steps may be."""
        if not learn:
            self._step.settle()
        momentum = self._rng.standard_normal(len(self._state.x))
        start = replace(self._state, p=momentum)
        tree = _Tree(start, start, start, 0.0, momentum, 0.0, 0)
        for depth in range(MAX_TREE_DEPTH):
            sign = 1.0 if self._rng.random() < 0.5 else -1.0
            end = tree.last if sign > 0 else tree.first
            more = self._grow(end, depth, sign, start.energy)
            # a new half is preferred: the chain moves further, and what it tends to is the same
            odds = -np.inf if more.ended else more.log_weight - tree.log_weight
            tree = self._joined(tree, more, sign, odds)
            if tree.ended:
                break
        self._state = tree.chosen
        if learn:
            self._step.learn(tree.accepted / tree.n_steps)
        self.made.append((self._state.x, tree.ran_off, tree.n_steps, self._state.energy))

    def _grow(self, end: _State, depth: int, sign: float, energy: float) -> _Tree:
        """Make 2^depth states from an end on."""
        if depth == 0:
            return self._leaf(end, sign, energy)
        one = self._grow(end, depth - 1, sign, energy)
        if one.ended:
            return one
        other = self._grow(one.last if sign > 0 else one.first, depth - 1, sign, energy)
        total = np.logaddexp(one.log_weight, other.log_weight)
        return self._joined(one, other, sign, other.log_weight - total)

    def _leaf(self, end: _State, sign: float, energy: float) -> _Tree:
        """Make a leapfrog step."""
        step = sign * self._step.size
        half = end.p - 0.5 * step * end.slope
        x = end.x + step * half
        value, slope = self._density(x)
        state = _State(x, half - 0.5 * step * slope, value, slope)
        gain = energy - state.energy
        gain = gain if np.isfinite(gain) else -np.inf
        off, rate = bool(gain < -RAN_OFF), float(np.exp(min(gain, 0.0)))
        return _Tree(state, state, state, gain, state.p, rate, 1, off, off)

    def _joined(self, one: _Tree, other: _Tree, sign: float, log_odds: float) -> _Tree:
        """Return two pieces as one; the second is chosen from with the odds."""
        left, right = (one, other) if sign > 0 else (other, one)
        momentum = one.momentum + other.momentum
        turns = (
            _turns(momentum, left.first, right.last)
            or _turns(left.momentum + right.first.p, left.first, right.first)
            or _turns(right.momentum + left.last.p, left.last, right.last)
        )
        return _Tree(
            left.first,
            right.last,
            other.chosen if np.log(self._rng.random()) < log_odds else one.chosen,
            float(np.logaddexp(one.log_weight, other.log_weight)),
            momentum,
            one.accepted + other.accepted,
            one.n_steps + other.n_steps,
            other.ended or turns,
            other.ran_off,
        )


class _StepSize:
    """Step size, moved to where trajectories are accepted at a target rate: dual averaging."""

    def __init__(self, target: float) -> None:
        self.size, self._target = FIRST_STEP, target
        self._n, self._missed, self._mean_log = 0, 0.0, 0.0

    def learn(self, rate: float) -> None:
        """Learn from the acceptance rate of a trajectory."""
        self._n += 1
        self._missed += (self._target - rate - self._missed) / (self._n + DELAY)
        log_size = np.log(10.0 * FIRST_STEP) - np.sqrt(self._n) / PULL * self._missed
        self._mean_log += self._n**-FADING * (log_size - self._mean_log)
        self.size = float(np.exp(log_size))

    def settle(self) -> None:
        """Take the average of the step sizes that were tried."""
        if self._n:
            self.size = float(np.exp(self._mean_log))


def _turns(momentum: Place, first: _State, last: _State) -> bool:
    return bool(momentum @ first.p <= 0.0 or momentum @ last.p <= 0.0)


@dataclass(frozen=True, eq=False)
class ScaleDraws:
    """Draws of the scales of a process; of many classes, which share them, the same for each.

    Attributes
    ----------
    scales : those that are free by name, in the units of `Scales`, (c, s)
    trajectories : how NUTS got them, or None if they were drawn independently
    """

    scales: dict[str, Float64[np.ndarray, "c s"]]
    trajectories: Trajectories | None

    def some(self, most: int) -> list[dict[str, float]]:
        """Return at most so many draws, evenly spaced, from all chains."""
        flat = {name: x.ravel() for name, x in self.scales.items()}
        total = len(next(iter(flat.values())))
        return [
            {name: float(x[i]) for name, x in flat.items()}
            for i in range(0, total, -(-total // most))
        ]


def sample_scales(
    problems: Sequence[GPProblem], settings: NUTS, rng: np.random.Generator
) -> ScaleDraws:
    """Draw the scales given the labels, and of many classes those of each, from the start on."""
    first, *others = problems
    low, high = first.bounds

    def potential(theta: Place) -> tuple[float, Place]:
        if not ((theta >= low) & (theta <= high)).all():
            return np.inf, np.zeros_like(theta)
        return first.loss(theta, others)

    mode = np.clip(first.start.vector(first.free), low, high)
    density = Whitened.at(potential, mode, (high - low) / (2.0 * BOUND))
    theta, trajectories = sample(density, settings, rng)
    drawn = {
        name: x if name == "tilt" else np.exp(x)
        for name, x in zip(first.free, np.moveaxis(theta, 2, 0), strict=True)
    }
    return ScaleDraws(drawn, trajectories)


def sample(
    density: Whitened, settings: NUTS, rng: np.random.Generator
) -> tuple[Float64[np.ndarray, "c s h"], Trajectories]:
    """Draw θ by chains that start where the curvature at the mode says that θ may be.

    Chains are threads: NumPy's products leave Python, so they use all cores. Ctrl-C ends them.
    """
    starts = rng.standard_normal((settings.chains, len(density.mode)))
    seeds = rng.integers(2**31, size=settings.chains).tolist()
    chains = [
        Chain(density, start, seed, settings.target_accept)
        for start, seed in zip(starts, seeds, strict=True)
    ]
    stop, total = threading.Event(), settings.warmup + settings.fixed_draws

    def run(chain: Chain) -> None:
        for i in range(total):
            if not stop.is_set():
                chain.draw(learn=i < settings.warmup)
                progress.advance()

    with (
        Progress("sampling", settings.chains * total, settings.progress) as progress,
        one_thread("blas"),
        ThreadPoolExecutor(settings.n_jobs or joblib.cpu_count(), "bagwise-chain") as pool,
    ):
        jobs = [pool.submit(run, chain) for chain in chains]
        try:
            for job in jobs:
                job.result()
        finally:
            stop.set()
    columns = zip(
        *(zip(*chain.made[settings.warmup :], strict=True) for chain in chains), strict=True
    )
    x, ran_off, n_steps, energy = (np.array(column) for column in columns)
    theta = density.mode + x @ density.root.T
    step_size = np.array([chain.step_size for chain in chains])
    return theta, Trajectories(ran_off, n_steps, energy, step_size)


def draw_scales(problem: GPProblem, rng: np.random.Generator) -> list[tuple[Scales, Slopes]]:
    """Draw scales given real labels, and return them with the slopes of the settled process.

    Parameters
    ----------
    problem : GPProblem, whose start has the scales of the largest evidence
    """
    low, high = problem.bounds
    bag = settle(problem, problem.start).bag

    def process(theta: Place) -> Settled:
        return settle(problem, problem.start.moved(problem.free, theta), bag)

    def potential(theta: Place) -> tuple[float, Place]:
        value, slope = problem.minus_log_prior(theta)
        at = process(theta)
        by_scale = at.gradient()
        return value + at.loss, slope + np.array([by_scale[name] for name in problem.free])

    def weighed(theta: Place) -> tuple[float, Slopes | None]:
        if not ((theta >= low) & (theta <= high)).all():
            return -HOPELESS, None
        try:
            at = process(theta)
        except np.linalg.LinAlgError:
            return -HOPELESS, None
        return -problem.minus_log_prior(theta)[0] - at.loss, at.in_what_is_said

    mode = np.clip(problem.start.vector(problem.free), low, high)
    units = Whitened.at(potential, mode, (high - low) / (2.0 * BOUND))
    x = _around(len(mode), rng)
    theta = mode + x @ units.root.T
    drawn_with = multivariate_t.logpdf(x, np.zeros(len(mode)), np.eye(len(mode)), df=DOF)
    logs, slopes = zip(*map(weighed, theta), strict=True)
    taken = resampled(np.array(logs) - drawn_with)
    said = {i: process(theta[i]).in_what_is_said if slopes[i] is None else slopes[i] for i in taken}
    return [(problem.start.moved(problem.free, theta[i]), said[i]) for i in taken]


def _around(n_scales: int, rng: np.random.Generator) -> Float64[np.ndarray, "m h"]:
    """Draw from Student's t around 0, in pairs x and −x."""
    half = rng.standard_normal((WEIGHTED // 2, n_scales))
    half *= np.sqrt(DOF / rng.chisquare(DOF, WEIGHTED // 2))[:, None]
    return np.concatenate([half, -half])


def resampled(log_weights: Float64[np.ndarray, " m"]) -> list[int]:
    """Return which draws are taken, some of them more than once, evenly over their weights.

    Examples
    --------
    >>> len(set(resampled(np.zeros(64)))), len(set(resampled(np.arange(64.0))))
    (16, 5)
    """
    weights = np.exp(log_weights - log_weights.max())
    weights = np.minimum(weights / weights.sum(), 1.0 / np.sqrt(len(weights)))
    steps = (np.arange(TAKEN) + 0.5) / TAKEN
    return np.searchsorted(np.cumsum(weights / weights.sum()), steps).tolist()
