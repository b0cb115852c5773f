"""Draws from the posterior: of the weights, the fixed effects and the scales."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float64, Int

from bagwise.exceptions import BagwiseError
from bagwise.inference.marginal_mode import MarginalMode
from bagwise.inference.transport import Transport

# Draws from a Gaussian approximation, in pairs that mirror each other: what is linear in the
# parameters has no error from there being finitely many.
GAUSSIAN_DRAWS = 1000


def normal_pairs(size: int, rng: np.random.Generator) -> Float64[np.ndarray, "s i"]:
    """Return standard normals for the draws of a Gaussian approximation."""
    half = rng.standard_normal((GAUSSIAN_DRAWS // 2, size))
    return np.concatenate([half, -half])


@dataclass(frozen=True, eq=False)
class Trajectories:
    """How NUTS got its draws; arrays (chains, draws).

    Attributes
    ----------
    diverging : whether the trajectory ran off
    n_steps : its leapfrog steps
    energy : Hamiltonian at its end
    step_size : (chains,)
    """

    diverging: Bool[np.ndarray, "c s"]
    n_steps: Int[np.ndarray, "c s"]
    energy: Float64[np.ndarray, "c s"]
    step_size: Float64[np.ndarray, " c"]

    @classmethod
    def together(cls, runs: Sequence[Trajectories | None]) -> Trajectories | None:
        """Return independent runs as one, or None if there are none.

        Of each draw it has the longest trajectory, and whether any ran off.
        """
        known = [run for run in runs if run is not None]
        if len(known) < 2:
            return known[0] if known else None
        return cls(
            np.any([run.diverging for run in known], axis=0),
            np.max([run.n_steps for run in known], axis=0),
            np.sum([run.energy for run in known], axis=0),
            np.min([run.step_size for run in known], axis=0),
        )


@dataclass(frozen=True, eq=False)
class Draws:
    """Draws of the parameters, labels standardised; arrays (chains, draws, ...).

    Attributes
    ----------
    w : (c, s, q), whitened weights;  gamma : (c, s, r), fixed effects
    scales : σ ("noise"), η ("prior_scale") and ρ ("weight_var"), as far as they are free, (c, s)
    trajectories : of NUTS, else None
    pareto_k : of the variational approximation, else None: how far from the posterior it is
    """

    w: Float64[np.ndarray, "c s q"]
    gamma: Float64[np.ndarray, "c s r"]
    scales: dict[str, Float64[np.ndarray, "c s"]]
    trajectories: Trajectories | None = None
    pareto_k: float | None = None

    @classmethod
    def at_mode(cls, mode: MarginalMode, names: tuple[str, ...]) -> Draws:
        """Return the point estimate as a single draw."""
        q, x, v = mode.n_weights, np.exp(mode.power * mode.phi), mode.peak
        scales = {name: np.full((1, 1), value) for name, value in zip(names, x, strict=True)}
        return cls(v[None, None, :q], v[None, None, q:], scales)

    @classmethod
    def from_gaussian(
        cls, transport: Transport, names: tuple[str, ...], rng: np.random.Generator
    ) -> Draws:
        """Return draws of Laplace's approximation, as one chain."""
        return cls.of(transport, names, normal_pairs(transport.size, rng)[None])

    @classmethod
    def of(
        cls,
        transport: Transport,
        names: tuple[str, ...],
        z: Float64[np.ndarray, "c s j"],
        trajectories: Trajectories | None = None,
        pareto_k: float | None = None,
    ) -> Draws:
        """Carry draws of z to the parameters."""
        w, gamma, x = transport(z.reshape(-1, z.shape[2]))
        shape = z.shape[:2]
        scales = {name: column.reshape(shape) for name, column in zip(names, x.T, strict=True)}
        return cls(w.reshape(*shape, -1), gamma.reshape(*shape, -1), scales, trajectories, pareto_k)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of chains and of draws in each."""
        return self.w.shape[0], self.w.shape[1]

    def thinned(self, at_most: int) -> Draws:
        """Return about as many draws as asked for, evenly spaced, from all chains."""
        n_chains, n_draws = self.shape
        step = -(-n_chains * n_draws // at_most)
        if step == 1:
            return self
        scales = {name: x[:, ::step] for name, x in self.scales.items()}
        return Draws(self.w[:, ::step], self.gamma[:, ::step], scales)

    def scale(self, name: str, default: float) -> Float64[np.ndarray, " m"]:
        """Return the draws of a scale, all chains in a row; the default if it is not free."""
        n = self.shape[0] * self.shape[1]
        return self.scales[name].ravel() if name in self.scales else np.full(n, default)


def to_arviz(draws: Mapping[str, np.ndarray], trajectories: Trajectories | None) -> Any:
    """Return a DataTree with the groups ``posterior`` and, from NUTS, ``sample_stats``."""
    try:
        from arviz_base import from_dict
    except ImportError as error:
        raise BagwiseError.because(
            "ArviZ is not installed", "the extra arviz", "Run pip install 'bagwise[arviz]'."
        ) from error
    groups: dict[str, Any] = {"posterior": dict(draws)}
    if trajectories is not None:
        groups["sample_stats"] = {
            "diverging": trajectories.diverging,
            "n_steps": trajectories.n_steps,
            "tree_depth": np.ceil(np.log2(trajectories.n_steps + 1)).astype(np.int64),
            "energy": trajectories.energy,
            "step_size": np.repeat(trajectories.step_size[:, None], len(trajectories.energy[0]), 1),
        }
    return from_dict(groups)
