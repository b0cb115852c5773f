"""Small problems of the full model, and an oracle for them: the paper's formulas, dense."""

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import expit

from bagwise.embedding.posterior import general_model, point_model, whitening
from bagwise.embedding.sums import BagStats
from bagwise.features.maps import PriorGram
from bagwise.inference.density import Model
from bagwise.inference.marginal_mode import find_marginal_mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.shrinkage import ShrinkageProblem, find_mode
from bagwise.inference.transport import Transport
from bagwise.likelihoods import Gaussian, Logistic, Probit

LIKELIHOODS = {"gaussian": Gaussian(), "probit": Probit(), "logistic": Logistic()}
UNIT = Priors(noise=1.0, weights=1.0, prior_scale=1.0, intercept=1.0)


@dataclass
class Bagged:
    """Bags in the form of the paper: mean embeddings, sizes, Σ, R0 and K."""

    mean: np.ndarray
    sizes: np.ndarray
    within_cov: np.ndarray
    gram: np.ndarray
    effects: np.ndarray
    kind: str

    @classmethod
    def random(cls, kind, seed, *, n=12, d=2, n_effects=1, sizes=(2, 8, 60)):
        rng = np.random.default_rng(seed)
        root, other = rng.normal(size=(2, d, 2 * d))
        gram, within_cov = root @ root.T / d, other @ other.T / d
        sizes = rng.choice(np.asarray(sizes, float), n)
        spread = rng.multivariate_normal(np.zeros(d), gram, n)
        noise = rng.multivariate_normal(np.zeros(d), within_cov, n) / np.sqrt(sizes)[:, None]
        effects = np.column_stack([np.ones(n), rng.normal(size=(n, n_effects - 1))])
        return cls(spread + noise, sizes, within_cov, gram, effects, kind)

    @property
    def shrinks(self):
        return self.kind != "logistic"

    @property
    def names(self):
        """Names of the scales, as sampled."""
        return {
            "gaussian": ("noise", "prior_scale", "weight_var"),
            "probit": ("prior_scale", "weight_var"),
            "logistic": ("weight_var",),
        }[self.kind]

    def model(self):
        """The prior of the embedding as the library has it, in its coordinates."""
        if not self.shrinks:
            return point_model(self.mean)
        gram, center = PriorGram(self.gram, self.gram, self.gram), self.mean.mean(axis=0)
        return general_model(center, self.within_cov, gram, whitening(self.gram))

    def problem(self, labels, sample_weight=None, model=None):
        """The problem as the library poses it; of these bags' own model, or of another."""
        weight = np.ones(len(labels)) if sample_weight is None else sample_weight
        prior = self.model() if model is None else model
        stats = BagStats(self.mean, self.sizes, self.within_cov)
        return ShrinkageProblem(prior, stats, labels, self.effects, weight, LIKELIHOODS[self.kind])

    # ------------------------------------------------------------ the oracle

    def alpha_cov(self):
        """Prior covariance of α at ρ = 1."""
        return np.linalg.inv(self.gram) if self.shrinks else np.eye(self.mean.shape[1])

    def latent(self, alpha, gamma, eta):
        """Mean and variance of each bag's value, by the paper's formulas; rows are draws."""
        center = self.mean.mean(axis=0)
        means = np.empty((len(alpha), len(self.mean)))
        variances = np.zeros_like(means)
        if not self.shrinks:
            return alpha @ (self.mean - center).T + gamma @ self.effects.T, variances
        R = eta[:, None, None] * self.gram
        for size in np.unique(self.sizes):
            bags = self.sizes == size
            solved = np.linalg.solve(R + self.within_cov / size, R)  # (R + Σ/N)^-1 R
            means[:, bags] = np.einsum("sa,sba->sb", alpha, solved) @ (self.mean[bags] - center).T
            cov = R - R @ solved
            variances[:, bags] = np.einsum("sa,sab,sb->s", alpha, cov, alpha)[:, None]
        return means + gamma @ self.effects.T, variances

    def log_likelihood(self, labels, alpha, gamma, scales):
        """Σ log p(y | θ) for rows of draws; scales by name."""
        mean, var = self.latent(alpha, gamma, scales.get("prior_scale", np.ones(len(alpha))))
        if self.kind == "gaussian":
            sd = np.sqrt(var + scales["noise"][:, None] ** 2)
            return stats.norm.logpdf(labels, mean, sd).sum(axis=1)
        if self.kind == "probit":
            return stats.norm.logcdf(labels * mean / np.sqrt(1 + var)).sum(axis=1)
        return np.log(expit(labels * mean)).sum(axis=1)

    def log_posterior(self, labels, alpha, gamma, scales, priors=UNIT):
        """Log density of (α, γ, scales), up to a constant."""
        sd = _scale_sd(priors)
        total = self.log_likelihood(labels, alpha, gamma, scales)
        for name, x in scales.items():
            total = total + stats.halfnorm.logpdf(x, scale=sd[name])
        rho = scales["weight_var"]
        whitened = np.linalg.solve(np.linalg.cholesky(self.alpha_cov()), alpha.T).T / rho[:, None]
        total = total + stats.norm.logpdf(whitened).sum(axis=1) - alpha.shape[1] * np.log(rho)
        return total + stats.norm.logpdf(gamma, scale=priors.intercept).sum(axis=1)

    def draw_prior(self, rng, priors=UNIT, weight_factor=1.0):
        """One draw of (α, γ, scales) from the prior, as rows of one."""
        sd = _scale_sd(priors)
        scales = {name: np.abs(rng.normal(0, sd[name], 1)) for name in self.names}
        root = np.linalg.cholesky(self.alpha_cov()) * np.sqrt(weight_factor)
        alpha = scales["weight_var"][:, None] * (rng.normal(size=(1, len(root))) @ root.T)
        return alpha, rng.normal(0, priors.intercept, (1, self.effects.shape[1])), scales

    def draw_labels(self, rng, alpha, gamma, scales, factor=1.0):
        """Labels from the model; ``factor`` multiplies the variance they should have."""
        mean, var = self.latent(alpha, gamma, scales.get("prior_scale", np.ones(1)))
        if self.kind == "gaussian":
            sd = np.sqrt(factor * (var[0] + scales["noise"] ** 2))
            return rng.normal(mean[0], sd)
        if self.kind == "probit":
            chance = stats.norm.cdf(mean[0] / np.sqrt(1 + var[0]))
        else:
            chance = expit(mean[0])
        return np.where(rng.random(len(chance)) < chance, 1.0, -1.0)


def _scale_sd(priors):
    return {"noise": priors.noise, "prior_scale": priors.prior_scale, "weight_var": priors.weights}


def approximation(problem, priors=UNIT):
    """Scale priors, marginal mode and transport of a problem."""
    resolved = ScalePriors.of(problem, priors)
    mode = find_marginal_mode(problem, resolved, find_mode(problem, 1.0))
    return resolved, mode, Transport.of(problem, mode)


def alpha_of(problem, w):
    """Weights α of whitened weights w (rows)."""
    return w @ problem.prior.at(None).weight_map.T


def form(problem, transport):
    """What decides the code of the density of a problem."""
    return Model(problem.likelihood, transport.rigid, problem.shrinks)
