"""Learning the representation: features that move with the weights and scales of a head, in JAX.

What labels say of features is the head's own model, with everything that it has found by then as a
start. For linear heads that is (:mod:`bagwise.inference.shrinkage`)

    J = −Σ_i log p(y_i | ξ_i, ν_i) + α^T K_z α/2ρ²
    ξ_i = f_i·γ + v·A_i^-1 (μ̂_i − m0)      ν_i = η α^T R_zz α − v·A_i^-1 v + σ²
    A_i = ηR + τΣ/N_i                        v = η R_uz α

with R, Σ, m0 and μ̂ all moving. J is a sum over bags, so that minibatches will do. The evidence of
Bayesian linear regression and of Gaussian processes is not: it takes all bags at once,

    y ~ N(0, a Z Z^T + b exp(−D/2ℓ²) + 10 F F^T + diag(σ²/w + c/N))

with rows z_i of Z the standardised embeddings of the process, at their posterior means, and D their
squared distances (:func:`standardised`); of Bayesian linear regression Z are the means themselves,
and b is 0. R is then the covariance between bags that the bags show, as in the process itself: it
moves with the features. Learnt by the kernel's R in its place, features gained what the process
had found already by its prior, and lost elsewhere.

What is learnt here are the features alone: the head is fitted again to them, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_factor, cho_solve

from bagwise.embedding.posterior import PSEUDO_BAGS
from bagwise.features.learnable import Learnable, Params
from bagwise.inference.density import LIBRARY
from bagwise.inference.pencil import power, solve_each, whitened
from bagwise.inference.shrinkage import LEAST_NOISE, LOG_SCALE_SD
from bagwise.likelihoods.base import Likelihood

# Prior variance of fixed effects in the evidence, labels standardised: all but flat.
EFFECTS_VAR = 10.0

# Bags whose size is 1 in effect have no covariance within.
LEAST_FREE = 1e-9

# Directions in which K vanishes, as a share of the largest.
NULL = 1e-10

# Least τ that features are learnt with: what is left open of a bag is then as good as nothing.
LEAST_SAMPLING = 1e-3

# Standard deviation of the logs of columns' scales by their prior: some columns say twice as much
# as others. Without it dozens of columns fit some hundred labels by their scales alone.
LOG_ARD_SD = 0.5

# Groups of bags of about one size, and steps, by which the covariance between bags is found.
SIZE_GROUPS = 4
EM_STEPS = 5

# Share of a minibatch in the running covariance of features.
MOVING = 0.1

Batch = dict[str, Any]
Theta = dict[str, Any]


@dataclass(frozen=True, eq=False)
class LearningProblem:
    """What features are learnt by.

    Attributes
    ----------
    features : Learnable
    likelihood : of the labels
    labels : (k, n), standardised; of many classes a row for each against the rest
    design : (n, r);  sample_weight : (n,)
    start : start of the head's own parameters; ``alpha`` (k, s), ``gamma`` (k, r), and logs of
        ``noise``, ``prior_scale``; of evidence, logs of its scales
    weight_var : ρ²;  sampling : τ
    shrinks : whether the embedding is a posterior;  spreads : whether its variance counts
    ridge : whether weights are penalised as they are, and not by K_z
    evidence : whether labels are told by the evidence of all bags
    between : whether the embedding's prior covariance is the one that the bags show
    floor : of Σ, as a share of its average
    """

    features: Learnable
    likelihood: Likelihood
    labels: np.ndarray
    design: np.ndarray
    sample_weight: np.ndarray
    start: Theta
    weight_var: float
    sampling: float
    shrinks: bool
    spreads: bool
    ridge: bool
    evidence: bool
    floor: float
    between: bool = False

    def worth(self, sizes: Any) -> Any:
        """Return N/τ, what bags are worth as samples."""
        return sizes / max(self.sampling, LEAST_SAMPLING)


def statistics(features: Learnable, params: Params, batch: Batch) -> tuple[Any, Any, Any, Any]:
    """Return mean embeddings μ̂ (n, d), sizes N (n,), their average m0 and the covariance Σ.

    Rows of the batch that are there to fill it have share 0.
    """
    n, owner = len(batch["counted"]), batch["owner"]
    phi, shares = features.phi(params, batch["points"]), batch["shares"]
    logs = features.log_weights(params, phi)
    if logs is not None:
        shares = shares * jnp.exp(logs)
        shares = shares / _sums(shares, owner, n)[owner]
    mean = _sums(shares[:, None] * phi, owner, n)
    sizes = 1.0 / jnp.maximum(_sums(shares**2, owner, n), 1e-300)
    free = 1.0 - 1.0 / sizes
    several = free > LEAST_FREE
    unbias = jnp.where(several, 1.0 / jnp.where(several, free, 1.0), 0.0)
    gaps = phi - mean[owner]
    scatter = (gaps * (shares * unbias[owner])[:, None]).T @ gaps
    within = scatter / jnp.maximum(jnp.sum(several), 1)
    return mean, sizes, mean.mean(axis=0), within


def _sums(values: Any, owner: Any, n: int) -> Any:
    return jax.ops.segment_sum(values, owner, n, indices_are_sorted=True)


def _with_floor(within: Any, floor: float) -> Any:
    average = jnp.trace(within) / len(within)
    return within + floor * jnp.where(average > 0, average, 1.0) * jnp.eye(len(within))


def log_likelihoods(
    problem: LearningProblem, params: dict[str, Any], batch: Batch, seen: tuple[Any, ...]
) -> Any:
    """Return log p(y_i | ξ_i, ν_i) (k, n), given what is known of the bags."""
    mean, sizes, center, within = seen
    theta, likelihood = params["head"], problem.likelihood
    alpha, gaps = theta["weights"] @ params["basis"].T, mean - center
    if problem.shrinks:
        R, crossed, own = problem.features.prior(params["features"])
        eta = jnp.exp(theta["prior_scale"])
        within = _with_floor(within, problem.floor)
        v = eta * alpha @ crossed.T  # (k, d)
        solve = partial(solve_each, R, within, eta, problem.worth(sizes))
        if problem.spreads:  # A_i^-1 v gives both
            solved = [solve(each[None]) for each in v]
            xi = jnp.stack([jnp.sum(each * gaps, axis=1) for each in solved])
            told = jnp.stack([each @ w for each, w in zip(solved, v, strict=True)])
            prior = eta * jnp.sum((alpha @ own) * alpha, axis=1)
            var = jnp.maximum(prior[:, None] - told, 0.0)
        else:
            xi = v @ solve(gaps).T
            var = jnp.zeros_like(xi)
    else:
        xi = alpha @ gaps.T
        var = jnp.zeros_like(xi)
    xi = xi + theta["gamma"] @ batch["design"].T
    fixed = likelihood.fixed_noise
    noise = jnp.exp(theta["noise"]) + LEAST_NOISE if fixed is None else fixed
    return likelihood.log_prob(batch["labels"], xi, var + noise, LIBRARY)


def loss_of_bags(
    problem: LearningProblem,
    params: dict[str, Any],
    batch: Batch,
    moving: tuple[Any, Any] | None = None,
) -> tuple[Any, tuple[Any, Any]]:
    """Return J per bag, of the bags that count in a batch, and its m0 and the running Σ.

    A minibatch has the value of the running average and the slope of its own.
    """
    mean, sizes, center, within = statistics(problem.features, params["features"], batch)
    if moving is not None:
        # The average bag is the minibatch's: one that lags behind the features would move all
        # predictions at once.
        later = MOVING * within + (1.0 - MOVING) * moving[1]
        within = within + jax.lax.stop_gradient(later - within)
    told = log_likelihoods(problem, params, batch, (mean, sizes, center, within))
    counted = batch["counted"]
    data = -jnp.sum(counted * told) / jnp.maximum(jnp.sum(batch["counted"] > 0), 1)
    prior = _penalty(problem, params, batch["weight_var"])
    return data + prior / batch["n_kept"], (center, within)


def _penalty(problem: LearningProblem, params: dict[str, Any], weight_var: Any) -> Any:
    """Return −log prior of weights and scales, up to a constant."""
    theta = params["head"]
    alpha = theta["weights"] @ params["basis"].T
    if problem.ridge:
        norms = jnp.sum(alpha**2)
    else:
        norms = jnp.sum((alpha @ problem.features.weight_gram(params["features"])) * alpha)
    logs = sum((theta[name] ** 2 for name in ("noise", "prior_scale") if name in theta), 0.0)
    return 0.5 * (norms / weight_var + logs / LOG_SCALE_SD**2) + _doubt(params)


def _doubt(params: dict[str, Any]) -> Any:
    """Return −log prior of what moves: weights of points (Weighing) and scales of columns.

    Of scales it is that of their differences: what they have in common is a bandwidth.
    """
    features = params["features"]
    logs, weights = (features.get(name, jnp.zeros(1)) for name in ("ard", "point_weights"))
    return 0.5 * (jnp.sum(weights**2) + jnp.sum((logs - logs.mean()) ** 2) / LOG_ARD_SD**2)


def evidence(problem: LearningProblem, params: dict[str, Any], batch: Batch) -> tuple[Any, Any]:
    """Return −log evidence of the bags that count, and −log density of the others given them.

    Both per bag; classes are the numbers −1 and 1 here.
    """
    gram, sizes = _gram(problem, params, batch)
    theta, weight = params["head"], batch["counted"]
    noise = jnp.exp(theta["noise"]) + LEAST_NOISE
    own = noise + (jnp.exp(theta["size_noise"]) / sizes if "size_noise" in theta else 0.0)
    gram = gram + EFFECTS_VAR * batch["design"] @ batch["design"].T
    known = weight > 0
    both = known[:, None] & known[None, :]
    spread = jnp.where(known, own / jnp.where(known, weight, 1.0), 1.0)
    factor = cho_factor(jnp.where(both, gram, 0.0) + jnp.diag(spread), lower=True)
    labels = jnp.where(known, batch["labels"], 0.0)
    solved = cho_solve(factor, labels.T)  # (n, k)
    logs = jnp.sum(jnp.where(known, jnp.log(jnp.diag(factor[0])), 0.0))
    n, k = jnp.sum(known), len(labels)
    told = 0.5 * jnp.sum(labels.T * solved) + k * logs
    scales = sum(theta[name] ** 2 for name in theta) / LOG_SCALE_SD**2
    crossed = jnp.where(known[None, :], gram, 0.0)
    mean = crossed @ solved
    var = jnp.diag(gram) + own - jnp.sum(crossed * cho_solve(factor, crossed.T).T, axis=1)
    var = jnp.maximum(var, LEAST_NOISE)
    out = batch["held_out"]
    missed = 0.5 * (jnp.log(var) + (batch["labels"] - mean.T) ** 2 / var)
    left = jnp.sum(out * missed) / jnp.maximum(jnp.sum(out), 1.0)
    return (told + 0.5 * scales + _doubt(params)) / n, left


def _gram(problem: LearningProblem, params: dict[str, Any], batch: Batch) -> tuple[Any, Any]:
    """Return the covariance of the latent values of all bags, and the sizes of these."""
    mean, sizes, center, within = statistics(problem.features, params["features"], batch)
    theta, gaps = params["head"], mean - center
    if not problem.shrinks:
        inner = gaps @ gaps.T
        return jnp.exp(theta["linear"]) * inner / jnp.mean(jnp.diag(inner)), sizes
    R, _, _ = problem.features.prior(params["features"])
    within = _with_floor(within, problem.floor)
    if problem.between:
        R = between_bags(R, within, gaps, sizes)
    z = standardised(R, within, gaps, problem.worth(sizes), theta)
    inner = z @ z.T
    norms = jnp.diag(inner)
    apart = jnp.maximum(norms[:, None] + norms - 2.0 * inner, 0.0)
    gauss = jnp.exp(theta["gauss"]) * jnp.exp(-0.5 * apart / jnp.exp(2.0 * theta["length"]))
    return jnp.exp(theta["linear"]) * inner + gauss, sizes


def standardised(R: Any, within: Any, gaps: Any, sizes: Any, theta: Theta) -> Any:
    """Return what a process sees of the bags, z_i (n, d), up to a rotation.

    With L L^T = Σ and C = L^-1 R L^-T, whose eigenvalues are λ,

        z_i = (L^-1 δ_i) √η (ηC + 1/N_i)^-1 C^((1−q)/2) / √tr C^-q

    which is z of :class:`bagwise.inference.second_level.Coordinates`.
    """
    root, eta, tilt = jnp.linalg.cholesky(within), jnp.exp(theta["prior_scale"]), theta["tilt"]
    C = whitened(R, root)
    solved = solve_each(R, within, eta, sizes, gaps) @ root
    total = jnp.trace(power(C, -tilt))
    return jnp.sqrt(eta / total) * solved @ power(C, 0.5 * (1.0 - tilt))


def between_bags(R: Any, within: Any, gaps: Any, sizes: Any) -> Any:
    """Return the covariance of embeddings between bags that the bags show.

    That of :func:`bagwise.embedding.posterior.learnt_model`, after some steps of its search from
    above: the covariance of the means. Bags are grouped by size, and a group has its average 1/N.
    """
    n, order = len(gaps), jax.lax.stop_gradient(jnp.argsort(sizes))
    groups = [order[part] for part in np.array_split(np.arange(n), min(SIZE_GROUPS, n))]
    factor = cho_factor(within, lower=True)
    seen, own = (jnp.trace(cho_solve(factor, each)) for each in (gaps.T @ gaps / n, R))
    center = PSEUDO_BAGS * (seen / own) * R
    scatters = [gaps[bags].T @ gaps[bags] for bags in groups]
    noises = [within * jnp.mean(1.0 / sizes[bags]) for bags in groups]
    counts = [float(len(bags)) for bags in groups]

    def step(B: Any, _: Any) -> tuple[Any, None]:
        total = center
        for scatter, noise, count in zip(scatters, noises, counts, strict=True):
            gain = cho_solve(cho_factor(B + noise, lower=True), B)  # G^T
            total = total + gain.T @ scatter @ gain + count * (B - B @ gain)
        return 0.5 * (total + total.T) / (PSEUDO_BAGS + n), None

    first = (center + gaps.T @ gaps) / (PSEUDO_BAGS + n)
    return jax.lax.scan(step, first, None, length=EM_STEPS)[0]


def start(problem: LearningProblem) -> dict[str, Any]:
    """Return the parameters where learning starts, with weights in coordinates in which K is 1."""
    head = {name: jnp.asarray(value) for name, value in problem.start.items()}
    features = {name: jnp.asarray(value) for name, value in problem.features.start.items()}
    if problem.evidence:
        return {"features": features, "head": head}
    alpha = np.asarray(head.pop("alpha"))
    basis = to_basis = np.eye(alpha.shape[1])
    if not problem.ridge:
        values, vectors = np.linalg.eigh(np.asarray(problem.features.weight_gram(features)))
        keep = values > NULL * values[-1]
        basis = vectors[:, keep] / np.sqrt(values[keep])
        to_basis = vectors[:, keep] * np.sqrt(values[keep])
    head["weights"] = jnp.asarray(alpha @ to_basis)
    return {"features": features, "head": head, "basis": jnp.asarray(basis)}
