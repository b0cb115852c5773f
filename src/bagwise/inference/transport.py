"""Transport: a map from independent standard normals to the posterior, exact where it is Gaussian.

    x = x̂ u(c),   c = c̄ + L_c z_x                          the scales σ, η, ρ
    ω = (ρ (p + D δ) + √(1 + eρ²) z_w)/(1 + eρ²)           δ = (u − 1)/power, the change of φ
    w = ρ V ω                                              the weights given the scales
    γ = γ̂ + G (w − ŵ) + C δ + L_γ z_γ                      the fixed effects given both

V and e are eigenvectors and -values of what the labels say of the weights (precision), and p is
e + 1/ρ̂² times their mode. Given ρ the weights have precision e + 1/ρ² and mean p/(e + 1/ρ²), so
they follow ρ exactly as far as the labels leave them free: there is no funnel where these are
silent and no stiffness where they are not. The coordinates c of the scales are those of
:mod:`bagwise.inference.coordinates`; the sign of x means nothing.

Laplace's approximation is the map of standard normals; NUTS corrects the density of z to the true
posterior.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float64
from scipy.linalg import cho_factor, cho_solve

from bagwise.inference.coordinates import relative_scales
from bagwise.inference.marginal_mode import MarginalMode


@dataclass(frozen=True, eq=False)
class Transport:
    """The map of the module's docstring; z = (z_w, z_γ, z_x), x = (free scales, ρ).

    Attributes
    ----------
    rotation : (q, q), V;  determined : (q,), e;  pull : (q,), p;  pull_slope : (q, k), D
    weights : (q,), ŵ
    effects : (r,), γ̂;  effect_gain : (r, q), G;  effect_slope : (r, k), C
    effect_factor : (r, r), L_γ
    scales : (k,), x̂;  power : (k,)
    folded, bend : (k,);  center : (k,), c̄;  scale_factor : (k, k), L_c
    """

    rotation: Float64[np.ndarray, "q q"]
    determined: Float64[np.ndarray, " q"]
    pull: Float64[np.ndarray, " q"]
    pull_slope: Float64[np.ndarray, "q k"]
    weights: Float64[np.ndarray, " q"]
    effects: Float64[np.ndarray, " r"]
    effect_gain: Float64[np.ndarray, "r q"]
    effect_slope: Float64[np.ndarray, "r k"]
    effect_factor: Float64[np.ndarray, "r r"]
    scales: Float64[np.ndarray, " k"]
    power: Float64[np.ndarray, " k"]
    folded: Bool[np.ndarray, " k"]
    bend: Float64[np.ndarray, " k"]
    center: Float64[np.ndarray, " k"]
    scale_factor: Float64[np.ndarray, "k k"]

    @classmethod
    def of(cls, mode: MarginalMode) -> Transport:
        """Make the map from the curvatures at the mode."""
        q, precision = mode.n_weights, np.exp(-mode.phi[-1])
        ww, we, ee = mode.hessian[:q, :q], mode.hessian[:q, q:], mode.hessian[q:, q:]
        gain = -cho_solve(cho_factor(ee), we.T)
        seen = ww + we @ gain - precision * np.eye(q)
        determined, rotation = np.linalg.eigh((seen + seen.T) / 2.0)
        determined = np.maximum(determined, 0.0)
        slope = mode.weight_slope
        into_pull = (determined + precision)[:, None] * rotation.T
        pull_slope = into_pull @ slope[:q]
        pull_slope[:, -1] = 0.0  # ρ acts on the weights by itself
        return cls(
            rotation=rotation,
            determined=determined,
            pull=into_pull @ mode.v[:q],
            pull_slope=pull_slope,
            weights=mode.v[:q],
            effects=mode.v[q:],
            effect_gain=gain,
            effect_slope=slope[q:] - gain @ slope[:q],
            effect_factor=np.linalg.inv(np.linalg.cholesky(ee)).T,
            scales=np.exp(mode.power * mode.phi),
            power=mode.power,
            folded=mode.folded,
            bend=mode.bend,
            center=mode.center,
            scale_factor=np.linalg.cholesky(mode.scale_cov),
        )

    @property
    def size(self) -> int:
        """Number of coordinates of z."""
        return len(self.weights) + len(self.effects) + len(self.scales)

    def __call__(
        self, z: Float64[np.ndarray, "m j"]
    ) -> tuple[Float64[np.ndarray, "m q"], Float64[np.ndarray, "m r"], Float64[np.ndarray, "m k"]]:
        """Return w, γ and the absolute scales |x| for rows z."""
        q, r = len(self.weights), len(self.effects)
        c = self.center + z[:, q + r :] @ self.scale_factor.T
        relative, _ = relative_scales(c, self.folded, self.bend)
        x, away = self.scales * relative, (relative - 1.0) / self.power
        rho = x[:, -1:]
        held = 1.0 + self.determined * rho**2
        pull = self.pull + away @ self.pull_slope.T
        w = rho * (rho * pull / held + z[:, :q] / np.sqrt(held)) @ self.rotation.T
        effects = self.effects + (w - self.weights) @ self.effect_gain.T
        effects += away @ self.effect_slope.T + z[:, q : q + r] @ self.effect_factor.T
        return w, effects, np.abs(x)
