"""Evidence of a Gaussian process on uncertain embeddings, with exact derivatives.

The latent value of bag i is F_i + ε_i: F is the average over what is left open of the bag's
embedding of a function f with the second-level kernel κ, hence F ~ N(0, K) with K = E κ, and ε_i is
what f varies around that average. To first order its variance is

    bag_i = Σ_k g_ik² C_ik,      g_i = ∇ E[f | labels] at bag i,   C_i the variance of its embedding

the α^T C_i α of the paper's model, in which f is linear. As g is not known before f is, the prior's
average of it, κ's nugget, takes its place at first; then f is fitted again with the g just found.

Given A = K + diag(bag) and the labels, :func:`regress` and :func:`laplace` have the evidence and
its slope in A; the slopes in the scales of κ, in η and τ follow by the chain rule.

References
----------
McHutchon and Rasmussen (2011), Gaussian process training with input noise.
Rasmussen and Williams (2006), Gaussian Processes for Machine Learning, sections 3.4 and 5.4–5.5.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
from jaxtyping import Float64, Int
from scipy.linalg import cho_solve, cholesky, get_lapack_funcs, solve_triangular
from scipy.optimize import minimize

from bagwise.embedding.posterior import MAX_GROUPS, EmbeddingModel, EmbeddingPosterior, size_groups
from bagwise.inference.priors import sampling_doubt
from bagwise.inference.second_level import Coordinates, Inputs, Scales, SecondLevelKernel
from bagwise.likelihoods.base import Bend, ClassLikelihood, Linked
from bagwise.likelihoods.probit import Probit

Vector = Float64[np.ndarray, " n"]
Matrix = Float64[np.ndarray, "n n"]
Place = Float64[np.ndarray, " q"]

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
}

# Of classes the noise is that of the link, 1 and not 0.1; a signal is as much larger.
SIGNALS = ("linear", "gauss", "size")
CLASS_UNIT = 10.0

# Least standard deviation of log sizes: bags that differ less count as nearly of one size.
LEAST_SPREAD = 0.1

# Least variance added to the diagonal, for labels of variance 1: keeps A well conditioned.
JITTER = 1e-8

# Steps of the search for the scales, at most, and the relative gain after which it ends.
MAX_STEPS = 100
TOLERANCE = 1e-6

# How far scales may go from the middle of their priors, in standard deviations.
BOUND = 6.0

# Steps of Newton's method to the mode of latent values, when it ends, and how often a step that
# leads uphill is halved: rounding error does, at the mode.
NEWTON_STEPS = 50
NEWTON_TOLERANCE = 1e-9
HALVINGS = 40

# Sweeps of expectation propagation, at most, the largest change of a label's part after which they
# end, and the least share of a variance that is left without it.
SWEEPS = 60
SWEEP_TOLERANCE = 1e-6
LEAST_LEFT = 1e-10


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
class Conditional:
    """What the labels say of a process with the Gram matrix A.

    Attributes
    ----------
    loss : −log evidence
    alpha : (n,); the mean at a new bag is k·α
    precision : (n, n), P; the variance at a new bag falls by k^T P k
    slope : (n, n), of the loss in A
    by_noise : (n,), of the loss in the noise of each bag
    sites : s and ν of expectation propagation, from which it may start again
    """

    loss: float
    alpha: Vector
    precision: Matrix
    slope: Matrix
    by_noise: Vector
    sites: tuple[Vector, Vector] | None = None


def regress(gram: Matrix, noise: Vector, labels: Vector) -> Conditional:
    """Condition on real labels, y ~ N(0, A + V) with V = diag(noise).

    −log p(y) = ½ y·α + ½ log|A + V| + constant,   P = (A + V)^-1,   α = P y,   slope ½ (P − αα^T)

    Examples
    --------
    >>> fit = regress(np.eye(1), np.ones(1), np.array([2.0]))
    >>> fit.alpha.round(6), fit.slope.round(6)
    (array([1.]), array([[-0.25]]))
    """
    matrix = gram.copy()
    matrix[np.diag_indices_from(matrix)] += noise + JITTER
    factor = cholesky(matrix, lower=True, overwrite_a=True, check_finite=False)
    precision = inverse_of(factor)
    alpha = precision @ labels
    loss = 0.5 * float(labels @ alpha) + float(np.sum(np.log(np.diagonal(factor))))
    slope = _slope(precision, alpha)
    return Conditional(loss, alpha, precision, slope, np.diagonal(slope))


def _slope(precision: Matrix, alpha: Vector) -> Matrix:
    slope = np.multiply.outer(alpha, -0.5 * alpha)
    slope += 0.5 * precision
    return slope


def laplace(
    gram: Matrix, noise: Vector, weights: Vector, labels: Vector, likelihood: Linked
) -> Conditional:
    """Condition on classes or counts, by Laplace's approximation around the most probable values.

    With W the curvature of −log p there and B = I + W^½ A W^½, P = W^½ B^-1 W^½.

    Parameters
    ----------
    gram : (n, n), A
    noise : (n,), noise level of each bag, of likelihoods that have one
    weights : (n,), of the labels' log probabilities
    labels : (n,);  likelihood : Linked

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> one = np.ones(2)
    >>> laplace(np.eye(2), one, one, np.array([-1.0, 1.0]), Probit()).alpha.round(2)
    array([-0.51,  0.51])
    """
    matrix = gram + JITTER * np.eye(len(labels))

    bend_at = partial(bend_of, likelihood, labels, noise)
    alpha, _, bend, value = to_mode(bend_at, weights, Duals(matrix), np.zeros(len(labels)))
    half = np.sqrt(weights * bend.second)
    factor = _laplace_factor(matrix, half)
    precision = inverse_of(factor)
    precision *= half[:, None] * half
    through = precision @ matrix
    left_var = np.diagonal(matrix) - np.sum(through * matrix, axis=0)
    pull = 0.5 * weights * left_var * bend.third  # of ½ log|B| in the mode
    moved = pull - through @ pull  # (I + WA)^-1 of it: the mode moves with A
    slope, cross = _slope(precision, alpha), np.multiply.outer(0.5 * moved, alpha)
    slope += cross
    slope += cross.T
    by_noise = weights * (
        bend.noise_value + 0.5 * left_var * bend.noise_second - (matrix @ moved) * bend.noise_first
    )
    loss = value + float(np.sum(np.log(np.diagonal(factor))))
    return Conditional(loss, alpha, precision, slope, by_noise)


def propagate(
    gram: Matrix,
    weights: Vector,
    labels: Vector,
    likelihood: Probit,
    sites: tuple[Vector, Vector] | None = None,
) -> Conditional:
    """Condition on classes by expectation propagation, far nearer to the truth than Laplace.

    Laplace's values are those of the mode; where classes are clear the posterior is skewed, its
    mean is further out, and probabilities made of the mode are not as sure as they should be. Each
    label is replaced by exp(ν_i f − ½ s_i f²) such that mean and variance of f_i are those with the
    label itself in its place, all others being replaced. With D = diag(s), n = ν and Σ =
    (A^-1 + D)^-1,

    log p ≈ Σ_i c_i + ½ n·Σn − ½ log|I + DA|,   P = (A + D^-1)^-1,   α = n − DΣn

    and the slope is ½ (P − αα^T), as for real labels,

    where c_i is the log of what the label integrates to, less that of what replaces it. A label of
    weight w is w labels, each replaced in the same way.

    Parameters
    ----------
    gram : (n, n), A;  weights : (n,);  labels : (n,), −1 or +1
    likelihood : Probit
    sites : s and ν (n,) to start from, by default those at the mode

    References
    ----------
    Kuss and Rasmussen (2005), Assessing approximate inference for binary Gaussian process
    classification. Rasmussen and Williams (2006), section 3.6.

    Examples
    --------
    >>> from bagwise.likelihoods import Probit
    >>> one = np.ones(1)
    >>> float(np.exp(-propagate(np.eye(1), one, one, Probit()).loss).round(6))  # Φ(0)
    0.5
    """
    matrix = gram + JITTER * np.eye(len(labels))
    none = np.zeros(len(labels))
    if sites is None:
        bend_at = partial(bend_of, likelihood, labels, none)
        _, mean, bend, _ = to_mode(bend_at, weights, Duals(matrix), none)
        sites = bend.second, bend.second * mean - bend.first
    (curve, pull), before, share = sites, np.inf, 1.0
    for _ in range(SWEEPS):
        half = np.sqrt(weights * curve)
        factor = _laplace_factor(matrix, half)
        inner = solve_triangular(factor, half[:, None] * matrix, lower=True, check_finite=False)
        var = np.maximum(np.diagonal(matrix) - np.sum(inner**2, axis=0), JITTER)
        through = weights * pull
        mean = matrix @ through - inner.T @ (inner @ through)
        # what is known of f_i without one label of it
        left = np.maximum(1.0 - curve * var, LEAST_LEFT)
        around, spread = (mean - var * pull) / left, var / left
        terms = likelihood.terms(labels, around, 1.0 + spread)
        bent = np.maximum(1.0 - spread * terms.mean_mean, LEAST_LEFT)
        new = terms.mean_mean / bent, (around * terms.mean_mean - terms.by_mean) / bent
        moved = max(np.abs(new[0] - curve).max(), np.abs(new[1] - pull).max())
        if moved < SWEEP_TOLERANCE:
            break
        share, before = share if moved < before else 0.5 * share, moved  # in doubt, slower
        curve, pull = curve + share * (new[0] - curve), pull + share * (new[1] - pull)
    replaced = 0.5 * (2.0 * around * pull + pull**2 * spread - curve * around**2) / (
        1.0 + curve * spread
    ) - 0.5 * np.log1p(curve * spread)
    loss = float(weights @ (terms.value + replaced)) - 0.5 * float(through @ mean)
    loss += float(np.sum(np.log(np.diagonal(factor))))
    precision = inverse_of(factor)
    precision *= half[:, None] * half
    alpha = through - weights * curve * mean
    return Conditional(loss, alpha, precision, _slope(precision, alpha), none, (curve, pull))


def bend_of(likelihood: Linked, labels: Vector, noise: Vector, latent: Vector) -> Bend:
    """Return what a likelihood says of the labels; latent values come last."""
    return likelihood.bend(labels, latent, noise)


class Places(Protocol):
    """Coordinates in which latent values are linear."""

    def latent(self, at: Place) -> tuple[Vector, float]:
        """Return the latent values, and −log of their prior."""
        ...

    def newton(self, at: Place, slope: Vector, curve: Vector) -> Place:
        """Return the step to where the quadratic approximation is least.

        ``slope`` and ``curve`` are derivatives of −log p of the labels in the latent values.
        """
        ...


@dataclass(frozen=True, eq=False)
class Duals:
    """Latent values f = Aα, with the prior ½ α·f."""

    matrix: Matrix

    def latent(self, at: Vector) -> tuple[Vector, float]:
        """Return Aα and ½ α^T A α."""
        latent = self.matrix @ at
        return latent, 0.5 * float(at @ latent)

    def newton(self, at: Vector, slope: Vector, curve: Vector) -> Vector:
        """Return (I + WA)^-1 (−slope − α): of what is left, so that no digits cancel."""
        left, half = -slope - at, np.sqrt(curve)
        factor = _laplace_factor(self.matrix, half)
        inner = cho_solve((factor, True), half * (self.matrix @ left), check_finite=False)
        return left - half * inner


def to_mode(
    bend_at: Callable[[Vector], Bend], weights: Vector, places: Places, start: Place
) -> tuple[Place, Vector, Bend, float]:
    """Find the mode of latent values by Newton's method, with steps that lead uphill halved.

    Parameters
    ----------
    bend_at : latent values ↦ −log p of the labels and its derivatives;  weights : (n,), of the bags
    places : coordinates of latent values
    start : coordinates, at which latent values are those of the average bag

    Returns
    -------
    coordinates, latent values, their Bend, and −log of likelihood and prior
    """
    at = start
    latent, penalty = places.latent(at)
    bend = bend_at(latent)
    value = penalty + float(weights @ bend.value)
    for _ in range(NEWTON_STEPS):
        step = places.newton(at, weights * bend.first, weights * bend.second)
        before, share = value, 1.0
        for _ in range(HALVINGS):
            new = at + share * step
            latent, penalty = places.latent(new)
            bend = bend_at(latent)
            value = penalty + float(weights @ bend.value)
            if value <= before + NEWTON_TOLERANCE * len(weights):
                break
            share *= 0.5
        at = new
        if before - value < NEWTON_TOLERANCE * len(weights):
            break
    return at, latent, bend, value


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
    most_groups : of bags that count as being of one size
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
    most_groups: int = MAX_GROUPS

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
    def _sites(self) -> dict[str, tuple[Vector, Vector]]:
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
            likelihood=None if self.likelihood is None else self.likelihood.take(bags),
        )

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
        average = gauss + kernel.exact_part(state.inputs, state.inputs)
        value, slope = self._minus_log_prior(theta)
        for problem in (self, *others):
            gram = average.copy()
            gram[np.diag_indices_from(gram)] += problem.bag_var(state)
            try:
                found = problem.condition(gram, scales)
            except np.linalg.LinAlgError:
                return HOPELESS, np.zeros_like(theta)
            by_scale = problem._chain(kernel, state, found, gauss)
            value += found.loss
            slope = slope + np.array([by_scale[name] for name in self.free])
        return value, slope

    def _minus_log_prior(
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
        scales, own = kernel.scales, np.diagonal(found.slope)
        gradient = kernel.gradient(state.inputs, found.slope, gauss)
        if self.slopes is None:
            gradient += kernel.nugget_gradient(state.inputs, own)
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
        if self.slopes is not None:  # ηλκ/(1 − κ)² = τ/N/(1 − κ) has −κ and 1 + κ
            left = own[:, None] * self.slopes**2 * state.said_var
            by_scale["prior_scale"] -= float(np.sum(left * state.slack))
            by_scale["sampling"] += float(np.sum(left * (1.0 + state.slack)))
        both = 0.5 * mean.sum(axis=0) + var.sum(axis=0)
        by_scale["tilt"] = float(both @ state.coordinates.tilting)
        return by_scale

    @cached_property
    def _prior_center(self) -> Float64[np.ndarray, " h"]:
        center = self.start if self.center is None else self.center
        at = {name: PRIORS[name][0] for name in self.free}
        at["prior_scale"] = float(np.log(center.prior_scale))
        if isinstance(self.likelihood, ClassLikelihood):
            at |= {name: PRIORS[name][0] + float(np.log(CLASS_UNIT)) for name in SIGNALS}
        return np.array([at[name] for name in self.free])

    @cached_property
    def _prior_sd(self) -> Float64[np.ndarray, " h"]:
        return np.array([PRIORS[name][1] for name in self.free])

    @property
    def bounds(self) -> tuple[Float64[np.ndarray, " h"], Float64[np.ndarray, " h"]]:
        """Least and largest scales, as in their vector."""
        reach = BOUND * self._prior_sd
        return self._prior_center - reach, self._prior_center + reach

    def maximise(
        self, max_steps: int = MAX_STEPS, others: Sequence[GPProblem] = ()
    ) -> tuple[Scales, float]:
        """Return the scales of the largest evidence, and −log evidence per bag."""
        if not self.free:
            return self.start, self.fit(self.start)[1].loss / len(self.labels)
        low, high = self.bounds
        found = minimize(
            self.loss,
            np.clip(self.start.vector(self.free), low, high),
            args=(others,),
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(low, high, strict=True)),
            options={"maxiter": max_steps, "ftol": TOLERANCE},
        )
        return self.start.moved(self.free, found.x), float(found.fun) / len(self.labels)


# Least share of what a bag says that is believed.
TINY = 1e-12

# The loss where A cannot be factorised.
HOPELESS = 1e10


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


def inverse_of(factor: Matrix) -> Matrix:
    """Return the inverse of L L^T, given L."""
    (potri,) = get_lapack_funcs(("potri",), (factor,))
    inverse, info = potri(factor, lower=True)
    if info:
        raise np.linalg.LinAlgError
    inverse = np.tril(inverse)
    inverse += np.tril(inverse, -1).T
    return inverse


def _laplace_factor(matrix: Matrix, half: Vector) -> Matrix:
    """Return the Cholesky factor of I + W^½ A W^½."""
    inner = matrix * half[:, None] * half
    inner[np.diag_indices_from(inner)] += 1.0
    return cholesky(inner, lower=True, overwrite_a=True, check_finite=False)
