"""Transport: a map from independent standard normals to the posterior, exact where it is Gaussian.

    x = x̂ u(c),   c = c̄ + L_c z_x                        the scales σ, η, ρ
    ω = A^-1 (D^T b + p) + A^-T/2 z_v                     weights and effects over their prior sds
    (w, γ) = (ρ ω_w, s ω_γ)

The coordinates c are those of :func:`.marginal_mode.relative_scales`. Given the scales, v = (w, γ)
is nearly that of a linear regression with weights Ω_i and working labels: A = I + D^T S D + E and

    S = Σ_i Ω_i X_i X_i^T,   b = Σ_i X_i (Ω_i ξ̂_i − l_i),   X_i = (m_i, f_i),   D = (ρP, s)

with m_i the posterior mean of the bag's embedding and l the slope of −log p(y | ξ); of classes Ω_i
and Ω_i ξ̂_i − l_i are s_i and n_i of expectation propagation (:mod:`.class_weights`). E and p are
what it leaves out at the mode: what the variances ν_i say of the weights. So the weights follow the
scales as far as the labels let them: there is no funnel where these are silent and no stiffness
where they are not.

Where the scales are so well known that A hardly changes, a rigid map is as good, and cheaper:

    v = v̂ + B (c − c̄) + F z_v

S and b depend on the bags only through sums over those of a size. Sizes are put into a few bins,
which makes the map a little less exact, but not the posterior: Laplace's approximation is the map
of standard normals, and NUTS corrects the density of z to the true one. The map is written once,
for arrays of NumPy and of JAX.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64

from bagwise._utils.arrays import NUMPY, ArrayLibrary
from bagwise.embedding.posterior import shrunk
from bagwise.inference.marginal_mode import MarginalMode, relative_scales
from bagwise.inference.shrinkage import LabelMoments, ShrinkageProblem

# Bins of bag sizes.
MAX_BINS = 8

# The map is rigid if, within two standard deviations of the scales, no variance of the weights
# given them changes by more than this factor.
RIGID_FACTOR = 3.0

# Rows of z mapped at once.
BLOCK_ROWS = 64


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of the module's docstring; z = (z_v, z_x), x = (free scales, ρ).

    Attributes
    ----------
    sizes : (b,), of the bins;  bag_var : (b,), variance of their bags' values at the mode
    gram : (b, d + r, d + r), Σ Ω_i (t_i, f_i)(t_i, f_i)^T;  pull : (b, d + r)
    spectrum : (d,), λ;  function_map : (d, q), P
    extra : (q + r, q + r), E over the prior standard deviations;  extra_pull : (q + r,), p likewise
    effect_sd : s
    scales : (k,), x̂;  folded, bend, center : (k,), and scale_factor : (k, k), of their coordinates
    has_noise, shrinks : whether σ and η are among the scales
    rigid : whether v follows the scales only linearly
    mean : (q + r,), v̂;  slope : (q + r, k), B;  factor : (q + r, q + r), F
    """

    sizes: Float64[np.ndarray, " b"]
    bag_var: Float64[np.ndarray, " b"]
    gram: Float64[np.ndarray, "b e e"]
    pull: Float64[np.ndarray, "b e"]
    spectrum: Float64[np.ndarray, " d"]
    function_map: Float64[np.ndarray, "d q"]
    extra: Float64[np.ndarray, "j j"]
    extra_pull: Float64[np.ndarray, " j"]
    effect_sd: float
    scales: Float64[np.ndarray, " k"]
    folded: Bool[np.ndarray, " k"]
    bend: Float64[np.ndarray, " k"]
    center: Float64[np.ndarray, " k"]
    scale_factor: Float64[np.ndarray, "k k"]
    has_noise: bool
    shrinks: bool
    rigid: bool
    mean: Float64[np.ndarray, " j"]
    slope: Float64[np.ndarray, "j k"]
    factor: Float64[np.ndarray, "j j"]

    @classmethod
    def of(cls, problem: ShrinkageProblem, mode: MarginalMode) -> Transport:
        """Make the map from what is known at the mode."""
        at = LabelMoments(problem, np.concatenate([mode.v, mode.phi[:-1]]))
        bins = _bins(problem.sizes, problem.size_of)
        rows = np.concatenate([at.posterior.t, problem.effects], axis=1)
        weight, target = mode.curve, mode.pull
        n_bins, e = int(bins.max()) + 1, rows.shape[1]
        sizes, bag_var, gram, pull = np.ones(n_bins), np.zeros(n_bins), [], []
        for b in range(n_bins):
            bags = np.flatnonzero(bins == b)
            of = problem.size_of[bags]
            share = weight[bags] / weight[bags].sum() if weight[bags].any() else None
            sizes[b] = np.exp(np.average(np.log(problem.sizes[of]), weights=share))
            bag_var[b] = np.average(at.var[of], weights=share) - at.noise
            gram.append((rows[bags].T * weight[bags]) @ rows[bags])
            pull.append(target[bags] @ rows[bags])
        j = len(mode.v)
        bare = cls(
            sizes=sizes,
            bag_var=np.maximum(bag_var, 0.0),
            gram=np.reshape(gram, (n_bins, e, e)),
            pull=np.reshape(pull, (n_bins, e)),
            spectrum=at.model.spectrum,
            function_map=at.model.function_map,
            extra=np.zeros((j, j)),
            extra_pull=np.zeros(j),
            effect_sd=mode.effect_sd,
            scales=np.exp(mode.power * mode.phi),
            folded=mode.folded,
            bend=mode.bend,
            center=mode.center,
            scale_factor=np.linalg.cholesky(mode.scale_cov),
            has_noise="noise" in problem.scale_names,
            shrinks="prior_scale" in problem.scale_names,
            rigid=False,
            mean=mode.v,
            slope=np.zeros((j, len(mode.phi))),
            factor=np.eye(j),
        )
        return bare._completed(mode)._perhaps_rigid()

    def _completed(self, mode: MarginalMode) -> Transport:
        """Add E and p, which make mean and covariance at the mode what they should be."""
        parts = vars(self)
        sd = _prior_sd(parts, self.scales, NUMPY)
        precision, pull = _scaled(parts, self.scales, sd, NUMPY)
        missing = sd[:, None] * mode.hessian * sd - precision
        values, vectors = np.linalg.eigh((missing + missing.T) / 2.0)
        missing = (vectors * np.maximum(values, 0.0)) @ vectors.T
        # Over the sds at the mode; the map multiplies by those at x.
        extra = missing / sd[:, None] / sd
        extra_pull = ((precision + missing) @ (mode.v / sd) - pull) / sd
        return replace(self, extra=extra, extra_pull=extra_pull)

    def _perhaps_rigid(self) -> Transport:
        """Make the map rigid if it would hardly bend."""
        k = len(self.scales)
        steps = self.scale_factor.T  # rows: one standard deviation along each axis
        c = self.center + np.concatenate([np.zeros((1, k)), 2.0 * steps, -2.0 * steps])
        mean, precision = self._conditional(c)
        root = np.linalg.inv(np.linalg.cholesky(precision[0]))
        changes = np.linalg.eigvalsh(root @ precision[1:] @ root.T)
        if changes.min() < 1.0 / RIGID_FACTOR or changes.max() > RIGID_FACTOR:
            return self
        along = (mean[1 : k + 1] - mean[k + 1 :]) / 4.0  # change of v per standard deviation
        slope = np.linalg.solve(steps, along).T
        return replace(self, rigid=True, mean=mean[0], slope=slope, factor=root.T)

    def _conditional(
        self, c: Float64[np.ndarray, "m k"]
    ) -> tuple[Float64[np.ndarray, "m j"], Float64[np.ndarray, "m j j"]]:
        """Return mean and precision of v given the coordinates of the scales."""
        x = self.scales * relative_scales(c, self.folded, self.bend)[0]
        sd = _prior_sd(vars(self), x, NUMPY)
        precision, pull = _scaled(vars(self), x, sd, NUMPY)
        omega = np.linalg.solve(precision, pull[:, :, None])[:, :, 0]
        return sd * omega, precision / sd[:, :, None] / sd[:, None, :]

    @property
    def size(self) -> int:
        """Number of coordinates of z."""
        return len(self.extra) + len(self.scales)

    def __call__(
        self, z: Float64[np.ndarray, "m i"]
    ) -> tuple[Float64[np.ndarray, "m q"], Float64[np.ndarray, "m r"], Float64[np.ndarray, "m k"]]:
        """Return w, γ and the absolute scales |x| for rows z."""
        q, parts = self.function_map.shape[1], vars(self)
        blocks = [z[start : start + BLOCK_ROWS] for start in range(0, len(z), BLOCK_ROWS)]
        found = [carry(parts, block, rigid=self.rigid) for block in blocks]
        v, x = (np.concatenate([each[i] for each in found]) for i in (0, 2))
        return v[:, :q], v[:, q:], np.abs(x)


# Keeps the ratio of variances finite where labels leave no noise.
LEAST_VAR = 1e-10


def carry(
    m: dict[str, Any], z: Any, *, rigid: bool, library: ArrayLibrary = NUMPY
) -> tuple[Any, Any, Any, Any]:
    """Map z (..., i): return v = (w, γ), its prior sds, x, and the log of the Jacobian.

    ``m`` has the fields of a :class:`Transport`, as arrays of the library.
    """
    xp, j = library.xp, m["extra"].shape[0]
    c = m["center"] + z[..., j:] @ m["scale_factor"].T
    u, log_slope = relative_scales(c, m["folded"], m["bend"], library)
    x, log_jacobian = m["scales"] * u, xp.sum(log_slope, axis=-1)
    sd = _prior_sd(m, x, library)
    if rigid:
        v = m["mean"] + (c - m["center"]) @ m["slope"].T + z[..., :j] @ m["factor"].T
        return v, sd, x, log_jacobian
    precision, pull = _scaled(m, x, sd, library)
    factor = xp.linalg.cholesky(precision)
    half = library.solve_triangular(factor, pull, True) + z[..., :j]
    v = sd * library.solve_triangular(xp.swapaxes(factor, -1, -2), half, False)
    diagonal = xp.diagonal(factor, axis1=-2, axis2=-1)
    log_jacobian = log_jacobian + xp.sum(xp.log(sd) - xp.log(diagonal), axis=-1)
    return v, sd, x, log_jacobian


def _prior_sd(m: dict[str, Any], x: Any, library: ArrayLibrary) -> Any:
    """Return the prior standard deviations of v (..., j): ρ for weights, s for effects."""
    xp, q = library.xp, m["function_map"].shape[1]
    weights = xp.broadcast_to(x[..., -1:], (*x.shape[:-1], q))
    effects = xp.broadcast_to(m["effect_sd"], (*x.shape[:-1], m["extra"].shape[0] - q))
    return xp.concatenate([weights, effects], axis=-1)


def _scaled(m: dict[str, Any], x: Any, sd: Any, library: ArrayLibrary) -> tuple[Any, Any]:
    """Return A = I + D^T S D + E and D^T b + p at scales x."""
    xp, P, d = library.xp, m["function_map"], m["function_map"].shape[0]
    n_effects = m["gram"].shape[1] - d
    # Flags are data, not code: so all models share these lines, compiled once.
    noise = xp.where(m["has_noise"], x[..., :1] ** 2, m["scales"][0] ** 2)
    share = (m["bag_var"] + m["scales"][0] ** 2 + LEAST_VAR) / (m["bag_var"] + noise + LEAST_VAR)
    eta = xp.abs(x[..., max(x.shape[-1] - 2, 0)])[..., None, None]
    gain = xp.where(m["shrinks"], shrunk(eta * m["sizes"][:, None], m["spectrum"]), 1.0)
    gain = xp.concatenate([gain, xp.ones((*gain.shape[:-1], n_effects))], axis=-1)
    weighted = share[..., None] * gain
    S = xp.sum(weighted[..., :, :, None] * m["gram"] * gain[..., :, None, :], axis=-3)
    b = xp.sum(weighted * m["pull"], axis=-2)
    cross = P.T @ S[..., :d, d:]
    top = xp.concatenate([P.T @ S[..., :d, :d] @ P, cross], axis=-1)
    bottom = xp.concatenate([xp.swapaxes(cross, -1, -2), S[..., d:, d:]], axis=-1)
    told = xp.concatenate([top, bottom], axis=-2) + m["extra"]
    pull = xp.concatenate([b[..., :d] @ P, b[..., d:]], axis=-1) + m["extra_pull"]
    return xp.eye(sd.shape[-1]) + sd[..., :, None] * told * sd[..., None, :], sd * pull


def _bins(sizes: Float64[np.ndarray, " m"], size_of: np.ndarray) -> np.ndarray:
    """Put each bag into one of a few bins: its size, or if there are many its log size's share."""
    if len(sizes) <= MAX_BINS:
        return size_of
    logs = np.log(sizes)
    edges = np.linspace(logs[0], logs[-1], MAX_BINS + 1)[1:-1]
    return np.unique(np.searchsorted(edges, logs)[size_of], return_inverse=True)[1]
