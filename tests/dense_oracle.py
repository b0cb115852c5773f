"""The models written out densely from the paper's formulas: a plain inverse per size, no basis.

Nothing here uses bagwise, so that it can be an oracle for it. Names are those of the paper:
landmarks u and z, prior covariance R = η r(u, u), within-bag covariance Σ, weights α.
"""

from dataclasses import dataclass, replace

import numpy as np

# Standard deviation of the log-normal priors on σ², η and ℓ, as documented for the objective.
LOG_SCALE_SD = 4.0


def rbf(x, y, bandwidth):
    """exp(−‖x − y‖²/2σ_k²), by differences of the points themselves."""
    gaps = x[:, None, :] - y[None, :, :]
    return np.exp(-np.sum(gaps**2, axis=2) / (2.0 * bandwidth**2))


def convolved(x, y, bandwidth, length):
    """The closed form of the paper without its constant, so that r(0, 0) = 1."""
    gaps, middles = x[:, None, :] - y[None, :, :], (x[:, None, :] + y[None, :, :]) / 2.0
    return np.exp(
        -np.sum(gaps**2, axis=2) / (4.0 * bandwidth**2)
        - np.sum(middles**2, axis=2) / (2.0 * (bandwidth**2 / 2.0 + length**2))
    )


def bag_moments(phi, weights=None):
    """Mean, Kish's size and unbiased covariance (None for one point) of one bag's features."""
    weights = np.ones(len(phi)) if weights is None else np.asarray(weights, dtype=float)
    total = weights.sum()
    mean = sum(w * row for w, row in zip(weights, phi, strict=True)) / total
    size = total**2 / np.sum(weights**2)
    if np.count_nonzero(weights) < 2:
        return mean, size, None
    scatter = sum(w * np.outer(row - mean, row - mean) for w, row in zip(weights, phi, strict=True))
    return mean, size, scatter / (total - np.sum(weights**2) / total)


def summary(phis, weights=None):
    """Means, sizes and average covariance of many bags of features."""
    weights = [None] * len(phis) if weights is None else weights
    moments = [bag_moments(phi, w) for phi, w in zip(phis, weights, strict=True)]
    covs = [cov for _, _, cov in moments if cov is not None]
    means, sizes = np.array([m for m, _, _ in moments]), np.array([s for _, s, _ in moments])
    return means, sizes, np.mean(covs, axis=0) if covs else None


def embedding_posterior(gap, size, within_cov, R, R_z, R_zz):
    """Section 3: mean (less m0(z)) and covariance of the embedding at z, given μ̂ − m0 at u."""
    inverse = np.linalg.inv(R + within_cov / size)
    return R_z @ inverse @ gap, R_zz - R_z @ inverse @ R_z.T


@dataclass(frozen=True)
class DenseShrinkage:
    """The shrinkage model: data of the training bags, and everything as a function of its scales.

    mean (n, d), sizes (n,), within_cov (d, d) with its floor, landmarks u and z in the units of the
    kernel, fixed effects (n, r), labels (n,), sample weights (n,); prior "kernel" or "convolved".
    """

    mean: np.ndarray
    sizes: np.ndarray
    within_cov: np.ndarray
    u: np.ndarray
    z: np.ndarray
    bandwidth: float
    effects: np.ndarray
    labels: np.ndarray
    sample_weight: np.ndarray
    prior: str = "kernel"
    prior_mean: np.ndarray | None = None

    def r(self, x, y, length):
        if self.prior == "kernel":
            return rbf(x, y, self.bandwidth)
        return convolved(x, y, self.bandwidth, length)

    def of(self, mean, sizes, effects):
        """The same model, to be asked about other bags."""
        m0 = self.mean.mean(axis=0)
        return replace(self, mean=mean, sizes=sizes, effects=effects, prior_mean=m0)

    def moments(self, alpha, gamma, noise, eta, length=None):
        """ξ and ν of every bag, with α·m0(z) counted in the intercept."""
        m0 = self.mean.mean(axis=0) if self.prior_mean is None else self.prior_mean
        R, R_z, R_zz = (
            eta * self.r(a, b, length)
            for a, b in ((self.u, self.u), (self.z, self.u), (self.z, self.z))
        )
        xi, nu = np.empty(len(self.sizes)), np.empty(len(self.sizes))
        for size in np.unique(self.sizes):
            of, gaps = self.sizes == size, (self.mean[self.sizes == size] - m0).T
            M, C = embedding_posterior(gaps, size, self.within_cov, R, R_z, R_zz)
            xi[of], nu[of] = alpha @ M, alpha @ C @ alpha + noise
        return xi + self.effects @ gamma, nu

    def log_scale_centres(self, start_length=None):
        """Centres of the priors: σ² a half, η such that a bag of median size is halfway shrunk."""
        r = self.r(self.u, self.u, start_length)
        spectrum = np.linalg.eigvals(np.linalg.solve(self.within_cov, r)).real
        eta = 1.0 / (np.prod(spectrum ** (1 / len(spectrum))) * np.median(self.sizes))
        return np.log([0.5, eta] if start_length is None else [0.5, eta, start_length])

    def objective(self, alpha, gamma, log_scales, weight_var, centres):
        """½ Σ weight {log ν + (y − ξ)²/ν} + α^T K_z α/2ρ² + the log-normal priors."""
        xi, nu = self.moments(alpha, gamma, *np.exp(log_scales))
        fit = 0.5 * np.sum(self.sample_weight * (np.log(nu) + (self.labels - xi) ** 2 / nu))
        size = alpha @ rbf(self.z, self.z, self.bandwidth) @ alpha / (2.0 * weight_var)
        away = (np.asarray(log_scales) - centres) / LOG_SCALE_SD
        return fit + size + 0.5 * np.sum(away**2)


def weighted_ridge(X, F, y, weights, penalty):
    """(β, γ) of Σ w (y − Xβ − Fγ)² + λ‖β‖², by the normal equations."""
    both = np.hstack([X, F])
    ridge = np.diag(np.r_[np.full(X.shape[1], penalty), np.zeros(F.shape[1])])
    left = both.T @ (weights[:, None] * both) + ridge
    solution = np.linalg.solve(left, both.T @ (weights * y))
    return solution[: X.shape[1]], solution[X.shape[1] :]


def bordered_kernel_ridge(K, F, y, penalty):
    """(a, γ) of ŷ = K a + F γ: kernel ridge regression with unpenalised F, by its saddle point."""
    n, r = F.shape
    system = np.block([[K + penalty * np.eye(n), F], [F.T, np.zeros((r, r))]])
    solution = np.linalg.solve(system, np.r_[y, np.zeros(r)])
    return solution[:n], solution[n:]


def gaussian_conditioning(X, F, y, noise_vars, weight_var, X_new, F_new):
    """Generalised least squares: mean and variance of x·β + f·γ at new rows, γ flat.

    y ~ N(Fγ, V) with V = ρ²XX^T + diag(noise): the universal kriging equations.
    """
    V = weight_var * X @ X.T + np.diag(noise_vars)
    cross = weight_var * X_new @ X.T
    inverse = np.linalg.inv(V)
    spread = np.linalg.inv(F.T @ inverse @ F)
    gamma = spread @ F.T @ inverse @ y
    mean = F_new @ gamma + cross @ inverse @ (y - F @ gamma)
    rest = F_new - cross @ inverse @ F
    var = weight_var * np.sum(X_new**2, axis=1) - np.sum((cross @ inverse) * cross, axis=1)
    return mean, var + np.sum((rest @ spread) * rest, axis=1)


def scale_bags(seed=0, n_bags=24, n_features=2, sizes=(2, 5, 5, 11, 30)):
    """Bags whose spread is the label, of varying sizes, and the labels."""
    rng = np.random.default_rng(seed)
    y = rng.uniform(1.0, 2.0, n_bags)
    drawn = rng.choice(sizes, n_bags)
    return [rng.normal(0.0, s, (n, n_features)) for s, n in zip(y, drawn, strict=True)], y
