"""Evidence of a Gaussian process on uncertain embeddings, with exact derivatives.

The latent value of bag i is F_i + ε_i: F is the average over what is left open of the bag's
embedding of a function f with the second-level kernel κ, hence F ~ N(0, K) with K = E κ, and ε_i is
what f varies around that average. To first order its variance is

    bag_i = Σ_k g_ik² C_ik,      g_i = ∇ E[f | labels] at bag i,   C_i the variance of its embedding

the α^T C_i α of the paper's model, in which f is linear. As g is not known before f is, the prior's
average of it, κ's nugget, takes its place at first; then f is fitted again with the g just found.

Bags of a group (races of a year, patients of a clinic) may err together: with Z saying which bag is
in which group, A = K + diag(bag) + g² ZZ^T. Given A, :mod:`bagwise.inference.conditional` has the
evidence of the labels and its slope in A; the slopes in the scales of κ, in η, τ and g² follow by
the chain rule.

A process is *settled* if the bag part that it is fitted with is that of its own slopes. At given
scales there is one such bag part, found by repetition; the evidence with it, L(θ) = −log p(y | θ,
bag(θ)), is a function of the scales alone, and the derivative of bag(θ) belongs to its gradient.
With α = A^-1 y, R_ij = ∂bag_i/∂α_j, P = A^-1 and w = ∂L/∂bag,

    dL = ∂L + λ·∂bag − p^T (dA) α,      (I + diag(α) P R^T) λ = w,      p = P R^T λ

where ∂ is at fixed bag and α, and dA what A changes by but for its bag part. Searched with slopes
that are held instead, scales need not come to rest: on real labels they go in circles, between "all
is noise" and "all is what bags leave open", and where such a search ends the bag part of its last
fit can be three times that of its own slopes: predictions are too sure.

References
----------
McHutchon and Rasmussen (2011), Gaussian process training with input noise.
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, sections 3.4 and 5.4–5.5.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int
from scipy.linalg import solve
from scipy.linalg.lapack import dposv
from scipy.sparse.linalg import LinearOperator, gmres

from bagwise.embedding.posterior import (
    MAX_GROUPS,
    EmbeddingModel,
    EmbeddingPosterior,
    sampling_doubt,
    size_groups,
)
from bagwise.exceptions import BagwiseWarning
from bagwise.inference.conditional import (
    JITTER,
    Conditional,
    Matrix,
    Vector,
    extrapolated,
    laplace,
    propagate,
    regress,
)
from bagwise.inference.descent import Curve, Loss, curve_at, descend
from bagwise.inference.second_level import (
    Coordinates,
    Gradient,
    Inputs,
    Scales,
    SecondLevelKernel,
)
from bagwise.inference.sites import MUCH, Sites
from bagwise.likelihoods.base import Linked
from bagwise.likelihoods.probit import Probit

# Mean and standard deviation of the prior of each scale, as in their vector; labels standardised.
PRIORS = {
    "linear": (np.log(0.1), 1.5),
    "gauss": (np.log(0.2), 1.5),
    "length": (0.0, 1.0),
    "tilt": (-0.5, 1.0),  # −1: units of the spread within bags, 0: of that between them
    "prior_scale": (0.0, 1.5),  # around the one that the bags themselves show
    "sampling": (0.0, 2.0),  # and see below
    "effects": (0.0, 2.0),
    "effects_length": (np.log(5.0), 1.0),
    "size": (np.log(0.05), 2.0),
    "size_length": (np.log(5.0), 1.0),
    "noise": (np.log(0.1), 2.0),
    "size_noise": (np.log(0.005), 2.0),
    "group": (np.log(0.05), 2.0),
}

# Least share of what a bag says that is believed.
TINY = 1e-12

# The loss where A cannot be factorised.
HOPELESS = 1e10

# Repetitions until slopes and bag part agree, at most, and the largest change of a variance after
# which they do, labels standardised. Of what is found a part is taken: a larger bag part has a
# smoother mean, which has a smaller bag part, so that whole steps swing. Where they lead is
# extrapolated, but to no less than a share of a variance.
MOST_REPETITIONS = 50
TOLERANCE = 1e-5
TAKEN = 0.6
LEAST_LEFT = 0.1

# What is left of an equation that products with its matrix solve, relative, and these at most.
SOLVED = 1e-9
PRODUCTS = 50

# Least standard deviation of log sizes: bags that differ less count as nearly of one size.
LEAST_SPREAD = 0.1

# Steps of the search for the scales, at most, and the gain of log evidence in a step after which it
# ends.
MAX_STEPS = 100
LEAST_GAIN = 1e-3

# How far scales may go from the middle of their priors, in standard deviations.
BOUND = 6.0

Slopes = Float64[np.ndarray, "n c"]
Curves = Float64[np.ndarray, "k k"]  # in all scales


@dataclass(frozen=True)
class Sizing:
    """How sizes become an input, (log N − center)/scale, and a factor Ñ/N of the noise.

    Attributes
    ----------
    center, scale : of log N; scale is at least that of sizes that differ by a tenth
    typical : Ñ, the median size
    """

    center: float
    scale: float
    typical: float

    @classmethod
    def of(cls, sizes: Vector) -> Sizing:
        """Learn from the training bags."""
        logs = np.log(sizes)
        spread = max(float(logs.std()), LEAST_SPREAD)
        return cls(float(logs.mean()), spread, float(np.median(sizes)))

    def __call__(self, sizes: Vector) -> Vector:
        """Return the standardised log sizes."""
        return (np.log(sizes) - self.center) / self.scale

    def smallness(self, sizes: Vector) -> Vector:
        """Return Ñ/N."""
        return self.typical / sizes


@dataclass(frozen=True, eq=False)
class GPProblem:
    """Labels, and what the bags say: everything but the scales.

    Attributes
    ----------
    model : EmbeddingModel;  posterior : EmbeddingPosterior of the bags, at any η
    labels, weights : (n,);  design : (n, r)
    start : Scales, where the search begins;  free : names of those that are sought
    likelihood : Linked, of classes and counts, or None of real labels
    slopes : (n, c), of the mean in what each bag says, t, or None if f is not known yet. They are
        what the labels determine; in the embedding itself they are 1/(1 − κ) times as steep
    center : Scales, around which the priors are, or None for the start
    curve : (k, k), curvature of −log evidence per bag in all scales, in units of their priors, from
        which the search begins; NaN of those of which nothing is known, or None if of none
    most_groups : of bags that count as being of one size
    members : (n,), the group of each bag, or None if they do not err together
    """

    model: EmbeddingModel
    posterior: EmbeddingPosterior
    labels: Vector
    weights: Vector
    design: Float64[np.ndarray, "n r"]
    start: Scales
    free: tuple[str, ...]
    likelihood: Linked | None = None
    slopes: Float64[np.ndarray, "n c"] | None = None
    center: Scales | None = None
    curve: Curves | None = None
    most_groups: int = MAX_GROUPS
    members: Int[np.ndarray, " n"] | None = None

    @cached_property
    def sizes(self) -> Vector:
        """Sizes of the bags."""
        return self.posterior.sizes[self.posterior.size_of]

    @cached_property
    def sizing(self) -> Sizing:
        """How log sizes are standardised."""
        return Sizing.of(self.sizes)

    @cached_property
    def groups(self) -> tuple[Float64[np.ndarray, " g"], Int[np.ndarray, " n"]]:
        """Typical size of each group, and the group of each bag."""
        return size_groups(self.sizes, self.most_groups)

    @cached_property
    def _sites(self) -> dict[str, Sites]:
        """Where expectation propagation ended at the last scales: it is near the next ones."""
        return {}

    def take(self, bags: np.ndarray) -> GPProblem:
        """Return the problem of some of the bags."""
        return replace(
            self,
            posterior=self.posterior.take(bags),
            labels=self.labels[bags],
            weights=self.weights[bags],
            design=self.design[bags],
            slopes=None if self.slopes is None else self.slopes[bags],
            members=None if self.members is None else self.members[bags],
            likelihood=None if self.likelihood is None else self.likelihood.take(bags),
        )

    def from_near(self, scales: Scales) -> GPProblem:
        """Return the problem with a search that begins at scales found with other features.

        η is in units of the features, so it stays where it is; and priors stay what they are.
        """
        known = {name: getattr(scales, name) for name in self.free if name != "prior_scale"}
        center = self.start if self.center is None else self.center
        return replace(self, start=replace(self.start, **known), center=center)

    def state(self, scales: Scales) -> State:
        """Return what the kernel sees at some scales."""
        posterior = replace(
            self.posterior, scale=np.array([scales.prior_scale]), sampling=scales.sampling
        )
        coordinates = Coordinates(self.model.spectrum, scales)
        sizes, group_of = self.groups
        group_slack = replace(posterior, sizes=sizes).slack
        inputs = Inputs(
            coordinates.mean(posterior),
            coordinates.var(group_slack),
            group_of,
            self.sizing(self.sizes),
            self.design,
        )
        return State(inputs, coordinates, posterior.slack[posterior.size_of], group_slack)

    def noise(self, scales: Scales) -> Vector:
        """Return the noise variance of each bag's label, or the noise level of its likelihood."""
        level = scales.noise + scales.size_noise * self.sizing.smallness(self.sizes)
        return level / self.weights if self.likelihood is None else level

    def bag_var(self, state: State) -> Vector:
        """Return what f varies over what is left open of each bag."""
        if self.slopes is None:
            return SecondLevelKernel(state.coordinates.scales).nugget(state.inputs)
        return np.sum(self.slopes**2 * state.said_var, axis=1)

    @cached_property
    def together(self) -> Matrix | None:
        """ZZ^T: 1 for two bags of one group, else 0."""
        return None if self.members is None else same_group(self.members, self.members)

    def condition(self, gram: Matrix, scales: Scales) -> Conditional:
        """Condition on the labels."""
        if self.likelihood is None:
            return regress(gram, self.noise(scales), self.labels)
        if isinstance(self.likelihood, Probit):
            known = self._sites.get("last")
            found = propagate(gram, self.weights, self.labels, self.likelihood, known)
            if found.sites is not None:
                self._sites["last"] = found.sites
            return found
        return laplace(gram, self.noise(scales), self.weights, self.labels, self.likelihood)

    def fit(self, scales: Scales) -> tuple[State, Conditional]:
        """Return the process at some scales."""
        state = self.state(scales)
        gram = SecondLevelKernel(scales).between(state.inputs, state.inputs)
        gram[np.diag_indices_from(gram)] += self.bag_var(state)
        if self.together is not None:
            gram += scales.group * self.together
        return state, self.condition(gram, scales)

    def loss(
        self, theta: Float64[np.ndarray, " h"], others: Sequence[GPProblem] = ()
    ) -> tuple[float, Float64[np.ndarray, " h"]]:
        """Return −log evidence − log prior of the scales, and its gradient.

        ``others`` are problems of the same bags with other labels, such as the classes against the
        rest, whose −log evidence at the same scales is added.
        """
        scales = self.start.moved(self.free, theta)
        kernel, state = SecondLevelKernel(scales), self.state(scales)
        gauss = kernel.gauss(state.inputs, state.inputs)
        average = kernel.exact_part(state.inputs, state.inputs)
        average += gauss
        if self.together is not None:
            average += scales.group * self.together
        value, slope = self.minus_log_prior(theta)
        for problem in (self, *others):
            gram = average.copy() if others else average
            gram[np.diag_indices_from(gram)] += problem.bag_var(state)
            try:
                found = problem.condition(gram, scales)
            except np.linalg.LinAlgError:
                return HOPELESS, np.zeros_like(theta)
            by_scale = problem._chain(kernel, state, found, gauss)
            value += found.loss
            slope = slope + np.array([by_scale[name] for name in self.free])
        return value, slope

    def minus_log_prior(
        self, theta: Float64[np.ndarray, " h"]
    ) -> tuple[float, Float64[np.ndarray, " h"]]:
        """Return −log prior of the scales, up to a constant, and its gradient."""
        away = (theta - self._prior_center) / self._prior_sd
        values, slopes = 0.5 * away**2, away / self._prior_sd
        if "sampling" in self.free:
            place = self.free.index("sampling")
            values[place], slopes[place] = sampling_doubt(theta[place])
        return float(values.sum()), slopes

    def _chain(
        self, kernel: SecondLevelKernel, state: State, found: Conditional, gauss: Matrix
    ) -> dict[str, float]:
        """Return the slopes of the loss in the scales, given those in A and in the noise."""
        own = np.diagonal(found.slope)
        gradient = kernel.gradient(state.inputs, found.slope, gauss)
        if self.slopes is None:
            gradient += kernel.nugget_gradient(state.inputs, own)
        by_scale = self.chained(kernel.scales, state, gradient, found)
        if self.slopes is not None:  # ηλκ/(1 − κ)² = τ/N/(1 − κ) has −κ and 1 + κ
            left = own[:, None] * self.slopes**2 * state.said_var
            by_scale["prior_scale"] -= float(np.sum(left * state.slack))
            by_scale["sampling"] += float(np.sum(left * (1.0 + state.slack)))
        return by_scale

    def chained(
        self, scales: Scales, state: State, gradient: Gradient, found: Conditional
    ) -> dict[str, float]:
        """Return slopes in all scales, given those in A, the noise and what the kernel sees."""
        by_scale = gradient.by_scale
        by_level = found.by_noise / self.weights if self.likelihood is None else found.by_noise
        smallness = self.sizing.smallness(self.sizes)
        by_scale["noise"] = scales.noise * float(np.sum(by_level))
        by_scale["size_noise"] = scales.size_noise * float(np.sum(by_level * smallness))
        mean, var = gradient.by_mean * state.inputs.mean, gradient.by_var * state.inputs.var
        # a has the slopes κ − ½ and −κ in log η and log τ, c has κ − 1 and 1 − κ
        by_var = float(np.sum(var * (1.0 - state.group_slack)))
        by_mean = float(np.sum(mean * state.slack))
        by_scale["prior_scale"] = by_mean - 0.5 * float(mean.sum()) - by_var
        by_scale["sampling"] = by_var - by_mean
        if self.together is not None:
            by_scale["group"] = scales.group * float(np.sum(found.slope * self.together))
        both = 0.5 * mean.sum(axis=0) + var.sum(axis=0)
        by_scale["tilt"] = float(both @ state.coordinates.tilting)
        return by_scale

    @cached_property
    def _prior_center(self) -> Float64[np.ndarray, " h"]:
        center = self.start if self.center is None else self.center
        at = {"prior_scale": float(np.log(center.prior_scale))}
        return np.array([at.get(name, PRIORS[name][0]) for name in self.free])

    @cached_property
    def _prior_sd(self) -> Float64[np.ndarray, " h"]:
        return np.array([PRIORS[name][1] for name in self.free])

    @property
    def bounds(self) -> tuple[Float64[np.ndarray, " h"], Float64[np.ndarray, " h"]]:
        """Least and largest scales, as in their vector."""
        reach = BOUND * self._prior_sd
        return self._prior_center - reach, self._prior_center + reach

    def maximise(
        self,
        max_steps: int = MAX_STEPS,
        others: Sequence[GPProblem] = (),
        least_gain: float = LEAST_GAIN,
    ) -> tuple[Scales, float, Curves | None]:
        """Return the scales of the largest evidence, −log evidence per bag, and its curvature."""
        if not self.free:
            loss = self.fit(self.start)[1].loss / len(self.labels)
            return self.start, loss, self.curve
        order = self.by_group
        first, *rest = (each.take(order) for each in (self, *others))
        return self.searched(lambda theta: first.loss(theta, rest), max_steps, least_gain)

    @property
    def by_group(self) -> Int[np.ndarray, " n"]:
        """The bags, group by group: blocks of their Gram matrix need no copy."""
        return np.argsort(self.groups[1], kind="stable")

    def searched(
        self, loss: Loss, max_steps: int, least_gain: float
    ) -> tuple[Scales, float, Curves]:
        """Return the scales of the least loss, sought from the start, and that loss per bag.

        And what is known of the curvature of the loss there, per bag, in units of the priors.
        """
        unit, n = self._prior_sd, len(self.labels)
        low, high = (bound / unit for bound in self.bounds)
        start = self.start.vector(self.free) / unit
        found = descend(
            self._in_units(loss), start, (low, high), max_steps, least_gain, self._known_curve
        )
        scales = self.start.moved(self.free, unit * found.place)
        return scales, found.value / n, self._of_all(found.curve / n)

    def curvature(self, loss: Loss) -> Curves:
        """Return the curvature of a loss at the start, per bag, in units of the priors."""
        start = self.start.vector(self.free) / self._prior_sd
        return self._of_all(curve_at(self._in_units(loss), start) / len(self.labels))

    @property
    def _known_curve(self) -> Curve | None:
        """The curvature of the loss in the free scales, if it is known of all of them."""
        if self.curve is None:
            return None
        known = len(self.labels) * self.curve[self._among_all]
        return None if np.isnan(known).any() else known

    def _of_all(self, curve: Curve) -> Curves:
        """Return a curvature in the free scales as one in all, NaN in the others."""
        of_all = np.full((len(PRIORS), len(PRIORS)), np.nan)
        of_all[self._among_all] = curve
        return of_all

    @property
    def _among_all(self) -> tuple[np.ndarray, ...]:
        places = [list(PRIORS).index(name) for name in self.free]
        return np.ix_(places, places)

    def _in_units(self, loss: Loss) -> Loss:
        """Return a loss as a function of scales in units of their priors."""
        unit = self._prior_sd

        def stepped(steps: Float64[np.ndarray, " h"]) -> tuple[float, Float64[np.ndarray, " h"]]:
            value, slope = loss(unit * steps)
            return value, unit * slope

        return stepped


def same_group(
    one: Int[np.ndarray, " n"], other: Int[np.ndarray, " m"]
) -> Float64[np.ndarray, "n m"]:
    """Return 1 for two bags of the same known group, else 0; of one that is not known, −1 is told.

    Examples
    --------
    >>> same_group(np.array([0, -1]), np.array([0, 1, -1]))
    array([[1., 0., 0.],
           [0., 0., 0.]])
    """
    return ((one[:, None] == other) & (one[:, None] >= 0)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class State:
    """What the kernel sees of the training bags at some scales.

    Attributes
    ----------
    inputs : Inputs;  coordinates : Coordinates
    slack : (n, c), κ of each bag;  group_slack : (g, c), of each group
    """

    inputs: Inputs
    coordinates: Coordinates
    slack: Float64[np.ndarray, "n c"]
    group_slack: Float64[np.ndarray, "g c"]

    @cached_property
    def said_var(self) -> Float64[np.ndarray, "n c"]:
        """ηλκ/(1 − κ)²: what is left open of a bag, in units of what it says."""
        return self.coordinates.prior_var * self.slack / np.maximum(1.0 - self.slack, TINY) ** 2


@dataclass(frozen=True, eq=False)
class Settled:
    """A process at some scales, with the bag part of its own slopes.

    Attributes
    ----------
    problem : GPProblem;  kernel : SecondLevelKernel, at the scales
    state : State, what it sees;  gauss : (n, n), its Gaussian part
    bag : (n,);  slopes : (n, c), g
    found : Conditional
    moved : how far the last repetition would still have moved the bag part of a bag
    """

    problem: GPProblem
    kernel: SecondLevelKernel
    state: State
    gauss: Matrix
    bag: Vector
    slopes: Slopes
    found: Conditional
    moved: float

    @property
    def in_what_is_said(self) -> Slopes:
        """The slopes in what each bag says."""
        return self.slopes * self.state.coordinates.units * (1.0 - self.state.slack)

    @property
    def loss(self) -> float:
        """−log evidence."""
        return self.found.loss

    def gradient(self) -> dict[str, float]:
        """Return the derivatives of the loss in all scales, of real labels."""
        kernel, state, found = self.kernel, self.state, self.found
        x, alpha, var = state.inputs, found.alpha, _own_var(state)
        way = 2.0 * self.slopes * var
        towards = kernel.towards(x, way)
        R = kernel.along(x, way, towards, self.gauss)

        def back(by_bag: Vector) -> Vector:
            return found.precision @ (by_bag @ R)

        # which is near the identity, or bag parts would not settle: a few products solve it
        asked = np.diagonal(found.slope)
        system = LinearOperator(R.shape, lambda v: v + alpha * back(v.ravel()), dtype=R.dtype)
        by_bag, unsolved = gmres(system, asked, rtol=SOLVED, restart=PRODUCTS, maxiter=1)
        if unsolved:
            dense = np.eye(len(alpha)) + alpha[:, None] * (found.precision @ R.T)
            by_bag = solve(dense, asked, check_finite=False)
        p = back(by_bag)
        by_alpha = np.multiply.outer(0.5 * p, alpha)
        found = replace(
            found, slope=found.slope - by_alpha - by_alpha.T, by_noise=found.by_noise - p * alpha
        )
        by_input = kernel.gradient(x, found.slope, self.gauss)
        by_input += kernel.along_gradient(
            x, by_bag[:, None] * way, by_bag[:, None] * towards, alpha, self.gauss
        )
        by_scale = self.problem.chained(kernel.scales, state, by_input, found)
        # and of C itself, at the bag's own size: κ − 1 in log η, 1 − κ in log τ
        left = by_bag[:, None] * self.slopes**2 * var
        by_size = float(np.sum(left * (1.0 - state.slack)))
        by_scale["prior_scale"] -= by_size
        by_scale["sampling"] += by_size
        by_scale["tilt"] += float(left.sum(axis=0) @ state.coordinates.tilting)
        return by_scale


def settle(problem: GPProblem, scales: Scales, bag: Vector | None = None) -> Settled:
    """Return the process with the bag part of its own slopes.

    Parameters
    ----------
    problem : GPProblem;  scales : Scales
    bag : (n,), where to begin; by default that of the problem's slopes, or the nugget
    """
    state, kernel = problem.state(scales), SecondLevelKernel(scales)
    gauss = kernel.gauss(state.inputs, state.inputs)
    gram = gauss + kernel.exact_part(state.inputs, state.inputs)
    if problem.together is not None:
        gram += scales.group * problem.together
    average, var = np.diagonal(gram).copy(), _own_var(state)
    bag = problem.bag_var(state) if bag is None else bag
    slopes_by, tried = (
        kernel.slopes(state.inputs, state.inputs, gauss),
        list[tuple[Vector, Vector]](),
    )
    for _ in range(MOST_REPETITIONS):
        gram.flat[:: len(gram) + 1] = average + bag
        slopes = slopes_by(_alpha(problem, gram, scales))
        change = np.sum(slopes**2 * var, axis=1) - bag
        moved = float(np.abs(change).max())
        if moved < TOLERANCE:
            break
        tried = [*tried, (bag, change)]
        bag = np.maximum(extrapolated(tried, TAKEN), LEAST_LEFT * bag)
    gram.flat[:: len(gram) + 1] = average + bag
    found = problem.condition(gram, scales)
    return Settled(problem, kernel, state, gauss, bag, slopes, found, moved)


class SettledLoss:
    """−log evidence − log prior of settled processes, of bags that come group by group.

    Each begins with the bag part of the one before.
    """

    def __init__(self, problem: GPProblem) -> None:
        self.problem = problem
        self._last: tuple[Scales, Settled] | None = None

    def __call__(self, theta: Float64[np.ndarray, " h"]) -> tuple[float, Float64[np.ndarray, " h"]]:
        """Return the loss at the logs of the free scales, and its gradient."""
        value, slope = self.problem.minus_log_prior(theta)
        try:
            at = self.at(self.problem.start.moved(self.problem.free, theta))
        except np.linalg.LinAlgError:
            return HOPELESS, np.zeros_like(theta)
        by_scale = at.gradient()
        return value + at.loss, slope + np.array([by_scale[name] for name in self.problem.free])

    def at(self, scales: Scales) -> Settled:
        """Return the settled process, which is there if it was the last that was asked for."""
        if self._last is None:
            self._last = scales, settle(self.problem, scales)
        elif self._last[0] != scales:
            self._last = scales, settle(self.problem, scales, self._last[1].bag)
        return self._last[1]


def settled_curvature(problem: GPProblem) -> Curves:
    """Return the curvature of settled processes at the start, per bag, in units of the priors."""
    first = problem.take(problem.by_group)
    return first.curvature(SettledLoss(first))


def maximise_settled(
    problem: GPProblem, max_steps: int, least_gain: float
) -> tuple[GPProblem, Scales, float, Curves | None, float]:
    """Return scales of the largest evidence of settled processes, of real labels.

    Returns
    -------
    The problem with the slopes that were found, scales, −log evidence per bag and its curvature,
    and how far the last repetition still moved
    """
    order = problem.by_group
    first = problem.take(order)
    curve: Curves | None
    if problem.free:
        loss = SettledLoss(first)
        scales, least, curve = first.searched(loss, max_steps, least_gain)
        found = loss.at(scales)
    else:
        scales, curve, found = problem.start, problem.curve, settle(first, problem.start)
        least = found.loss / len(problem.labels)
    slopes = np.empty_like(found.slopes)
    slopes[order] = found.in_what_is_said
    return replace(problem, slopes=slopes), scales, least, curve, found.moved


def warn_if_moving(moved: float) -> None:
    """Warn in plain language if a process had not settled when its repetitions ended."""
    if moved > MUCH:
        warnings.warn(
            "the process had not settled when its repetitions ended: the last still moved what "
            f"labels say, or what points leave open of a bag, by {moved:.2g} (labels "
            "standardised). Predictions can be used, but may be surer than they should be; fewer "
            "landmarks or a larger bandwidth are safer.",
            BagwiseWarning,
            stacklevel=2,
        )


def _own_var(state: State) -> Float64[np.ndarray, "n c"]:
    """Return C of each bag at its own size."""
    return state.coordinates.var(state.slack)


def _alpha(problem: GPProblem, gram: Matrix, scales: Scales) -> Vector:
    """Return α alone, which of real labels is found sooner."""
    if problem.likelihood is not None:
        return problem.condition(gram, scales).alpha
    matrix = gram.copy()
    matrix.flat[:: len(matrix) + 1] += problem.noise(scales) + JITTER
    _, alpha, info = dposv(matrix.T, problem.labels, lower=True, overwrite_a=True)
    if info:
        raise np.linalg.LinAlgError
    return alpha
