"""The shrinkage model: minus its log posterior density, with derivatives, and the mode of that.

A label depends on its bag through ξ_i and ν_i. With the posterior N(m_i, diag(v_i)) of its
embedding and the map P of functions (:mod:`bagwise.embedding.posterior`), and the noise σ²,

    ξ_i = f_i·γ + g·m_i         ν_i = Σ_k v_ik g_k² + η w^T S w + σ²         g = P w
    J = −Σ_i log p(y_i | ξ_i, ν_i) + ‖w‖²/2ρ² + weak priors on log σ², log η, log ℓ

The parameters are θ = (w, γ, scales). The scales are log σ², log η and log ℓ, but for those that
are fixed: σ² by the likelihood of classes, η by a point embedding, ℓ by any prior but the convolved
one. The posterior knows its derivatives in log η, so everything is in closed form. When ℓ moves, so
do R and its basis: the first derivatives are those of (R + Σ/N)^-1, written in the basis, so that
eigenvectors are never differentiated. The second derivatives in ℓ are differences of the gradient.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float64, Int
from scipy.linalg import pinvh
from scipy.optimize import minimize
from scipy.sparse import csr_array

from bagwise.embedding.posterior import ConvolvedPrior, EmbeddingPosterior, Prior
from bagwise.embedding.sums import BagStats
from bagwise.exceptions import BagwiseError, BagwiseWarning
from bagwise.likelihoods.base import Likelihood, Terms
from bagwise.likelihoods.gaussian import Gaussian

Vector = Float64[np.ndarray, " n"]
Theta = Float64[np.ndarray, " k"]
Square = Float64[np.ndarray, "k k"]
PerSize = Float64[np.ndarray, " m"]


# Standard deviation of the log-normal priors on σ², η and ℓ: a factor of e^4 up or down is not
# surprising. They keep the optimum finite where the data are silent, as on η if all bags are large.
LOG_SCALE_SD = 4.0

# Variance added to the noise σ², as a share of the labels', which have finite digits. Without it
# labels that are constant, or that covariates explain entirely, would have an infinite density.
LEAST_NOISE = 1e-10

# Step in log ℓ for second derivatives.
LENGTH_STEP = 1e-5

# Noise at the start, as a share of the variance of the (standardised) labels.
START_NOISE = 0.5

# The weight variance is sought in this range (labels standardised) and to this precision in logs,
# from 1. That is for kernels with k(x, x) = 1. Others are as large as points are, so that a usual
# weight variance may lie far from 1: the range holds so much above and below it as well, and if it
# is farther than this the search begins there.
WEIGHT_VAR_RANGE = (1e-4, 1e6)
LOG_WEIGHT_VAR_TOLERANCE = 0.02
FAR_FROM_USUAL = 1e3
MAX_ROUNDS = 50

# Bags beyond which the search begins at the mode of about so many of them.
MANY_BAGS, START_BAGS = 5000, 1000

# Norm of the gradient at which the mode is found, per bag.
GRADIENT_TOLERANCE = 1e-8

# Log density that may be missing at the end before we warn. Unlike the gradient, which is steep
# where labels leave almost no noise, it does not depend on the scale of the parameters.
SHORTFALL_WARNING = 0.1
MAX_STEPS = 500

# The largest region of trust. Of curvature so negative that the slope over it is lost in its last
# digit, no multiple of the identity makes it positive.
LARGEST_STEP = 1000.0


@dataclass(frozen=True, eq=False)
class ShrinkageProblem:
    """Data of one fit: what is known of the bags and their prior, labels, effects, weights of bags.

    Attributes
    ----------
    prior : Prior of the embedding
    stats : BagStats
    labels : (n,), standardised
    effects : (n, r), F
    sample_weight : (n,), mean 1
    likelihood : of the labels
    """

    prior: Prior
    stats: BagStats
    labels: Vector
    effects: Float64[np.ndarray, "n r"]
    sample_weight: Vector
    likelihood: Likelihood = field(default_factory=Gaussian)

    @cached_property
    def _last(self) -> dict[str, EmbeddingPosterior]:
        return {}

    def embed(self, log_length: float | None, scale: float) -> EmbeddingPosterior:
        """Return the posterior of the embeddings; bags are projected once for each model."""
        model, last = self.prior.at(log_length), self._last.get("posterior")
        if last is None or last.model is not model:
            last = self._last["posterior"] = model.posterior(self.stats)
        return replace(last, scale=np.array([scale]))

    @cached_property
    def start_embedding(self) -> EmbeddingPosterior:
        """The posterior where the search starts, at η = 1."""
        length = self.prior.start_length
        return self.embed(None if length is None else float(np.log(length)), 1.0)

    @property
    def sizes(self) -> PerSize:
        """Distinct sizes of the bags."""
        return self.start_embedding.sizes

    @property
    def size_of(self) -> Int[np.ndarray, " n"]:
        """Place of each bag's size among them."""
        return self.start_embedding.size_of

    @cached_property
    def _by_size(self) -> tuple[Int[np.ndarray, " n"], Int[np.ndarray, " starts"]]:
        """The bags ordered by size, and where each size starts among them."""
        order = np.argsort(self.size_of, kind="stable")
        starts = np.searchsorted(self.size_of[order], np.arange(len(self.sizes) + 1))
        return order.astype(np.int32), starts.astype(np.int32)

    def adding_up(self, coefficients: Vector) -> csr_array:
        """Return the matrix (m, n) that adds up rows of bags by size, with these coefficients."""
        order, starts = self._by_size
        shape = len(self.sizes), len(coefficients)
        return csr_array((coefficients[order], order, starts), shape=shape)

    def some(self, bags: Int[np.ndarray, " k"]) -> ShrinkageProblem:
        """Return the problem of some of the bags."""
        stats = replace(self.stats, mean=self.stats.mean[bags], sizes=self.stats.sizes[bags])
        return replace(
            self,
            stats=stats,
            labels=self.labels[bags],
            effects=self.effects[bags],
            sample_weight=self.sample_weight[bags],
        )

    @property
    def shrinks(self) -> bool:
        """Whether there is a prior scale η: not if the embedding is a point."""
        return self.start_embedding.model.shrinks

    @cached_property
    def scale_names(self) -> tuple[str, ...]:
        """Names of the free scales at the end of θ."""
        free = {
            "noise": self.likelihood.fixed_noise is None,
            "prior_scale": self.shrinks,
            "length": self.prior.start_length is not None,
        }
        return tuple(name for name, is_free in free.items() if is_free)

    @property
    def n_scales(self) -> int:
        """Number of free scales."""
        return len(self.scale_names)

    @cached_property
    def start(self) -> Theta:
        """θ of the constant function, with a bag of median size halfway shrunk."""
        length, model = self.prior.start_length, self.start_embedding.model
        median = float(np.median(self.sizes[self.size_of]))
        scales = {
            "noise": np.log(START_NOISE),
            "prior_scale": -np.log(model.typical() * median),
            "length": 0.0 if length is None else np.log(length),
        }
        n_weights = model.function_map.shape[1] + self.effects.shape[1]
        return np.concatenate([np.zeros(n_weights), [scales[name] for name in self.scale_names]])

    @cached_property
    def spread(self) -> float:
        """How much a function of weight variance 1 varies over the bags, as a variance."""
        start = self.start_embedding
        return float(np.mean(np.sum((start.t @ start.model.function_map) ** 2, axis=1)))

    @cached_property
    def usual_weight_var(self) -> float:
        """The weight variance at which a function varies over the bags as their labels do."""
        return 1.0 / self.spread if self.spread > 0.0 else 1.0

    @property
    def weight_var_range(self) -> tuple[float, float]:
        """The weight variance is sought between these."""
        least, most = (bound * self.usual_weight_var for bound in WEIGHT_VAR_RANGE)
        return min(WEIGHT_VAR_RANGE[0], least), max(WEIGHT_VAR_RANGE[1], most)

    @property
    def start_weight_var(self) -> float:
        """Where the search for it begins."""
        usual = self.usual_weight_var
        return 1.0 if 1.0 / FAR_FROM_USUAL <= usual <= FAR_FROM_USUAL else usual

    @property
    def units(self) -> Theta:
        """Units of θ in which it is sought: those of w are far from 1 where ρ² is."""
        n_weights = self.start_embedding.model.function_map.shape[1]
        units = np.ones_like(self.start)
        if self.start_weight_var != 1.0:
            units[:n_weights] = np.sqrt(self.usual_weight_var)
        return units

    def split(self, theta: Theta) -> tuple[np.ndarray, np.ndarray, Float64[np.ndarray, " s"]]:
        """Return w, γ and the log scales of θ."""
        at_scales = len(theta) - self.n_scales
        q = at_scales - self.effects.shape[1]
        return theta[:q], theta[q:at_scales], theta[at_scales:]


class LabelMoments:
    """ξ and ν at one θ, with first derivatives and sums of second ones.

    ν depends on a bag only through its size, so it is kept per distinct size: (m,) and (m, k).
    """

    def __init__(self, problem: ShrinkageProblem, theta: Theta) -> None:
        self.problem = problem
        self.w, self.gamma, scales = problem.split(theta)
        at = dict(zip(problem.scale_names, scales.tolist(), strict=True))
        self.eta = np.exp(at.get("prior_scale", 0.0))
        self.posterior = problem.embed(at.get("length"), self.eta)
        self.model = self.posterior.model
        self.free_noise = np.exp(at["noise"]) if "noise" in at else 0.0
        fixed = problem.likelihood.fixed_noise
        self.noise = self.free_noise + LEAST_NOISE if fixed is None else fixed
        self.bag_var = self.posterior.var
        self.g = self.model.function_map @ self.w
        self.unseen = self.eta * float(self.model.unseen_variance(self.w[None])[0])
        prior = problem.prior
        self.slope = prior.slope(at["length"]) if isinstance(prior, ConvolvedPrior) else None
        self.columns = len(self.w), len(self.w) + len(self.gamma)
        self.column_of = {name: self.columns[1] + i for i, name in enumerate(problem.scale_names)}
        self.d_mean = self._d_mean(len(theta))
        self.d_var = self._d_var(len(theta))
        self.mean = self.d_mean[:, : self.columns[1]] @ theta[: self.columns[1]]
        self.var = self.bag_var @ self.g**2 + self.unseen + self.noise

    def _d_mean(self, k: int) -> Float64[np.ndarray, "n k"]:
        """Return ∂ξ/∂θ."""
        of, (q, at_scales) = self.problem.size_of, self.columns
        slopes = np.zeros((len(of), k))
        np.matmul(self.posterior.mean, self.model.function_map, out=slopes[:, :q])
        slopes[:, q:at_scales] = self.problem.effects
        if "prior_scale" in self.column_of:
            pull = (self.posterior.slack * self.g).take(of, axis=0)
            by_eta = np.einsum("ij,ij->i", self.posterior.mean, pull)
            slopes[:, self.column_of["prior_scale"]] = by_eta
        if self.slope is not None:
            kept = (1.0 - self.posterior.slack) * self.g
            pull = self.posterior.gain * (self.slope.uz @ self.w - kept @ self.slope.uu)
            slopes[:, -1] = np.sum(self.posterior.t * pull[of], axis=1)
        return slopes

    def _d_var(self, k: int) -> Float64[np.ndarray, "m k"]:
        """Return ∂ν/∂θ per distinct size."""
        q, _ = self.columns
        slopes = np.zeros((len(self.bag_var), k))
        slopes[:, :q] = 2.0 * (self.bag_var * self.g) @ self.model.function_map
        if self.model.unseen is not None:
            slopes[:, :q] += 2.0 * self.eta * self.model.unseen @ self.w
        if "noise" in self.column_of:
            slopes[:, self.column_of["noise"]] = self.free_noise
        if "prior_scale" in self.column_of:
            by_eta = (self.bag_var * self.posterior.slack) @ self.g**2 + self.unseen
            slopes[:, self.column_of["prior_scale"]] = by_eta
        if self.slope is not None:
            kept, direct = (1.0 - self.posterior.slack) * self.g, self.slope.uz @ self.w
            slopes[:, -1] = self.eta * (
                self.w @ self.slope.zz @ self.w
                - 2.0 * kept @ direct
                + np.sum((kept @ self.slope.uu) * kept, axis=1)
            )
        return slopes

    def by_size(self, values: Vector) -> PerSize:
        """Return the weighted sum of a value over the bags of each size."""
        weighted = self.problem.sample_weight * values
        return np.bincount(self.problem.size_of, weighted, minlength=len(self.bag_var))

    def products(self, mean: Vector, cross: Vector, var: Vector) -> Square:
        """Return Σ_i weight_i of the products of first derivatives, with these coefficients."""
        weight = self.problem.sample_weight
        total = (self.d_mean * (weight * mean)[:, None]).T @ self.d_mean
        total += (self.d_var * self.by_size(var)[:, None]).T @ self.d_var
        if cross.any():
            crossed = (self.problem.adding_up(weight * cross) @ self.d_mean).T @ self.d_var
            total += crossed + crossed.T
        return total

    def curvature(self, by_mean: Vector, by_var: PerSize) -> np.ndarray:
        """Return Σ_i by_mean_i ∂²ξ_i + Σ_s by_var_s ∂²ν_s, (k, k), without the terms of ℓ."""
        q, _ = self.columns
        total = np.zeros((self.d_mean.shape[1],) * 2)
        spread = self.model.function_map
        total[:q, :q] = 2.0 * (spread.T * (by_var @ self.bag_var)) @ spread
        if self.model.unseen is not None:
            total[:q, :q] += 2.0 * self.eta * by_var.sum() * self.model.unseen
        if "noise" in self.column_of:
            noise = self.column_of["noise"]
            total[noise, noise] = by_var.sum() * self.free_noise
        if "prior_scale" in self.column_of:
            eta = self.column_of["prior_scale"]
            mixed, total[eta, eta] = self._curvature_of_eta(by_mean, by_var)
            total[:q, eta] = total[eta, :q] = mixed
        return total

    def _curvature_of_eta(
        self, by_mean: Vector, by_var: PerSize
    ) -> tuple[Float64[np.ndarray, " q"], float]:
        """Return the second derivatives in (w, log η) and in log η twice."""
        first, second = self.posterior.slopes
        function_map = self.model.function_map
        pulled = self.problem.adding_up(by_mean) @ self.posterior.mean
        mixed = function_map.T @ np.sum(pulled * first, axis=0)
        mixed += 2.0 * function_map.T @ ((by_var @ (self.bag_var * first)) * self.g)
        twice = np.sum(pulled * second, axis=0) @ self.g
        twice += by_var @ (self.bag_var * second) @ self.g**2
        if self.model.unseen is not None:
            mixed += 2.0 * self.eta * by_var.sum() * self.model.unseen @ self.w
            twice += by_var.sum() * self.unseen
        return mixed, float(twice)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """J and its gradient at one θ; matrices, which cost more, when they are asked for.

    Attributes
    ----------
    value : J;  gradient : (k,)
    at : LabelMoments there;  terms : of the likelihood
    precision : (k,), of the priors
    """

    value: float
    gradient: Theta
    at: LabelMoments
    terms: Terms
    precision: Theta | float = 0.0

    @cached_property
    def hessian(self) -> Square:
        """The Hessian, but for log ℓ."""
        terms, weight = self.terms, self.at.problem.sample_weight
        observed = self.at.products(terms.mean_mean, terms.mean_var, terms.var_var)
        observed += self.at.curvature(weight * terms.by_mean, self.at.by_size(terms.by_var))
        return self._with_priors(observed)

    @cached_property
    def fisher(self) -> Square:
        """The Fisher information."""
        terms = self.terms
        return self._with_priors(
            self.at.products(terms.fisher_mean, terms.fisher_cross, terms.fisher_var)
        )

    def _with_priors(self, matrix: Square) -> Square:
        matrix.flat[:: len(matrix) + 1] += self.precision
        return matrix


def likelihood_at(problem: ShrinkageProblem, theta: Theta) -> Evaluation:
    """Return −Σ_i weight_i log p(y_i | ξ_i, ν_i) at θ, with its derivatives."""
    at = LabelMoments(problem, theta)
    terms = problem.likelihood.terms(problem.labels, at.mean, at.var[problem.size_of])
    by_mean, by_var = problem.sample_weight * terms.by_mean, at.by_size(terms.by_var)
    value = float(problem.sample_weight @ terms.value)
    return Evaluation(value, at.d_mean.T @ by_mean + at.d_var.T @ by_var, at, terms)


class Objective:
    """J(θ) for one weight variance ρ²; remembers the last θ, for which optimisers ask thrice."""

    def __init__(self, problem: ShrinkageProblem, weight_var: float) -> None:
        self.problem = problem
        self.weight_var = weight_var
        self._theta: np.ndarray | None = None

    def __call__(self, theta: Theta) -> Evaluation:
        """Evaluate at θ."""
        if self._theta is None or not np.array_equal(theta, self._theta):
            self._theta, self._evaluation = theta.copy(), self._evaluate(theta)
        return self._evaluation

    def hessian(self, theta: Theta) -> Square:
        """Return the Hessian, with the row and column of log ℓ if there is one."""
        at = self(theta)
        if "length" not in self.problem.scale_names:
            return at.hessian
        ahead = theta.copy()
        ahead[-1] += LENGTH_STEP
        column = (self._evaluate(ahead).gradient - at.gradient) / LENGTH_STEP
        hessian = at.hessian.copy()
        hessian[-1, :] = hessian[:, -1] = column
        return hessian

    def _evaluate(self, theta: Theta) -> Evaluation:
        likelihood = likelihood_at(self.problem, theta)
        w, gamma, scales = self.problem.split(theta)
        precision = np.concatenate(
            [
                np.full(len(w), 1.0 / self.weight_var),
                np.zeros(len(gamma)),
                np.full(len(scales), LOG_SCALE_SD**-2),
            ]
        )
        away = theta.copy()
        at_scales = len(theta) - len(scales)
        away[at_scales:] -= self.problem.start[at_scales:]
        return replace(
            likelihood,
            value=likelihood.value + 0.5 * float(np.sum(precision * away**2)),
            gradient=likelihood.gradient + precision * away,
            precision=precision,
        )


@dataclass(frozen=True, eq=False)
class Mode:
    """The optimum and how it was found.

    Attributes
    ----------
    theta : (k,), (w, γ, log σ², log η[, log ℓ])
    weight_var : ρ²
    value : J at the optimum
    loss : −log evidence per bag, up to a constant that depends on the labels only
    gradient_norm, n_steps : of the optimisation
    shortfall : ½ g^T F^+ g, the log density by which the optimum is missed, but for directions of
        which the labels say nothing
    """

    theta: Theta
    weight_var: float
    value: float
    loss: float
    gradient_norm: float
    n_steps: int
    shortfall: float


def find_mode(problem: ShrinkageProblem, weight_var: float, start: Theta | None = None) -> Mode:
    """Minimise J at one weight variance, by a trust-region Newton method.

    The loss is Laplace's approximation to −log p(y | ρ²), with the Fisher information in place of
    the Hessian: J + ½ log det F + ½ q log ρ².
    """
    return _found(problem, weight_var, start)[0]


def _found(
    problem: ShrinkageProblem, weight_var: float, start: Theta | None
) -> tuple[Mode, Evaluation]:
    objective, units = Objective(problem, weight_var), problem.units
    tolerance = GRADIENT_TOLERANCE * len(problem.labels)

    def hessian(steps: Theta) -> Square:
        found = units[:, None] * objective.hessian(units * steps) * units
        slope = float(np.linalg.norm(units * objective(units * steps).gradient))
        lost = -float(np.diagonal(found).min()) * np.finfo(float).eps
        if lost * LARGEST_STEP > max(slope, tolerance):
            raise _too_far_apart()  # SciPy before 1.17 would look for it for ever
        return found

    try:
        found = minimize(
            lambda steps: objective(units * steps).value,
            (problem.start if start is None else start) / units,
            jac=lambda steps: units * objective(units * steps).gradient,
            hess=hessian,
            method="trust-exact",
            options={
                "gtol": tolerance,
                "maxiter": MAX_STEPS,
                "max_trust_radius": LARGEST_STEP,
            },
        )
    except UnboundLocalError as error:  # SciPy's, since 1.17, where no multiple is enough
        raise _too_far_apart() from error
    theta = units * found.x
    at = objective(theta)
    n_weights = len(problem.split(theta)[0])
    loss = at.value + 0.5 * np.linalg.slogdet(at.fisher)[1] + 0.5 * n_weights * np.log(weight_var)
    mode = Mode(
        theta=theta,
        weight_var=weight_var,
        value=at.value,
        # Where the information is singular there is no evidence to prefer these features for.
        loss=float(loss) / len(problem.labels) if np.isfinite(loss) else np.inf,
        gradient_norm=float(np.linalg.norm(at.gradient)),
        n_steps=int(found.nit),
        shortfall=0.5 * float(at.gradient @ pinvh(at.fisher) @ at.gradient),
    )
    return mode, at


def _too_far_apart() -> BagwiseError:
    return BagwiseError.because(
        "curvatures of the log density differ by more digits than numbers have",
        "features of ordinary size",
        "Use standardize=True, or give the columns in larger units.",
    )


def find_mode_by_evidence(problem: ShrinkageProblem, start: float | None = None) -> Mode:
    """Choose ρ² by the evidence, in MacKay's fixed-point form, and return the mode there.

    ρ² ← ‖w‖²/(q − tr(A_ww)/ρ²) with A the inverse of the Fisher information: the size of the
    weights over the number of them that the data determine.

    References
    ----------
    MacKay (1992), Bayesian interpolation.
    """
    counted = np.flatnonzero(problem.sample_weight > 0)
    theta: Theta | None = None
    if len(counted) > MANY_BAGS:  # begin where some of them lead to
        first = find_mode_by_evidence(problem.some(counted[:: len(counted) // START_BAGS]), start)
        start, theta = first.weight_var, first.theta
    start = problem.start_weight_var if start is None else start
    mode, at = _found(problem, start, theta)
    steps = mode.n_steps
    for _ in range(MAX_ROUNDS):
        weight_var = _updated_weight_var(mode.weight_var, at)
        weight_var = float(np.clip(weight_var, *problem.weight_var_range))
        if abs(np.log(weight_var / mode.weight_var)) < LOG_WEIGHT_VAR_TOLERANCE:
            break
        mode, at = _found(problem, weight_var, mode.theta)
        steps += mode.n_steps
    return replace(mode, n_steps=steps)


def _updated_weight_var(weight_var: float, mode: Evaluation) -> float:
    w = mode.at.w
    spread = np.trace(_inverse(mode.fisher)[: len(w), : len(w)])
    determined = max(len(w) - spread / weight_var, 1e-3)
    return float(w @ w / determined)


def _inverse(fisher: Square) -> Square:
    """Return F^-1; without the directions of which labels say nothing, if there are such."""
    try:
        return np.linalg.inv(fisher)
    except np.linalg.LinAlgError:
        return pinvh(fisher)


def warn_if_unfinished(mode: Mode) -> None:
    """Warn in plain language if the optimisation stopped short of the mode."""
    if mode.shortfall > SHORTFALL_WARNING:
        warnings.warn(
            f"the fit stopped after {mode.n_steps} steps before it had converged (log density "
            f"{mode.shortfall:.1e} short). Its predictions can be used, but a smaller "
            "bandwidth, fewer landmarks or a larger covariance_floor fit more cleanly.",
            BagwiseWarning,
            stacklevel=2,
        )
