"""One posterior for the benchmark, as each side needs it.

A fit of ours is watched, its posterior handed to the plain NumPyro model, and that model's density
written once more by our algebra. JAX is imported in functions only: its import belongs to the first
fit, which is timed.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np

from bagwise._utils.work import Progress
from bagwise.embedding.posterior import with_floor
from bagwise.embedding.sums import summarise
from bagwise.estimators.base import COVARIANCE_FLOOR
from bagwise.estimators.regressors import BDRRegressor
from bagwise.exceptions import BagwiseWarning
from bagwise.heads.base import Task
from bagwise.inference.shrinkage import LEAST_NOISE
from bagwise.likelihoods import Gaussian

if TYPE_CHECKING:
    from benchmarks.bench_numpyro import Gradient

# Site of the plain model for each of our scales, in our order.
SITE_OF = {"noise": "sigma", "prior_scale": "eta", "weight_var": "rho"}


class Watch(Progress):
    """Notes when each few draws were done, in place of showing it."""

    def __init__(self, title: str, total: int, shown: bool = True) -> None:
        super().__init__(title, total, shown=False)
        self.start = time.perf_counter()
        self.ends: list[tuple[float, int]] = []

    def advance(self, steps: int = 1) -> None:
        """Note the time."""
        self.ends.append((time.perf_counter(), steps))

    def seconds(self, n: int) -> tuple[float, float]:
        """Return the seconds of the first n draws of all chains together, and of the others."""
        done = np.cumsum([steps for _, steps in self.ends])
        times = np.array([end for end, _ in self.ends]) - self.start
        first = float(times[np.searchsorted(done, n)])
        return first, float(times[-1]) - first


@dataclass(frozen=True, eq=False)
class Fit:
    """A fit of ours from points: the model, its times, and what the sampler was given.

    Attributes
    ----------
    seconds : of the whole fit
    warmup_seconds, draw_seconds : of sampling
    form, data, start : the density that was sampled, and where from
    """

    model: BDRRegressor
    seconds: float
    warmup_seconds: float
    draw_seconds: float
    form: Any
    data: dict[str, Any]
    start: np.ndarray

    @classmethod
    def run(cls, model: BDRRegressor, split: Any) -> Fit:
        """Fit as users do, and watch."""
        start = time.perf_counter()
        from bagwise.inference import nuts  # brings JAX, if this is the first fit

        watches: list[Watch] = []

        def watch(*arguments: Any) -> Watch:
            watches.append(Watch(*arguments))
            return watches[-1]

        with (
            warnings.catch_warnings(),
            patch.object(nuts, "Progress", watch),
            patch.object(nuts, "sample", wraps=nuts.sample) as sample,
        ):
            warnings.simplefilter("ignore", BagwiseWarning)  # the table says how good the draws are
            model.fit(split.bags, split.labels)
        seconds = time.perf_counter() - start
        form, data, starts, settings = sample.call_args.args[:4]
        warmup, drawing = watches[0].seconds(settings.chains * settings.warmup)
        drawing += sum(sum(more.seconds(0)) for more in watches[1:])  # until there were enough
        return cls(model, seconds, warmup, drawing, form, data, starts[0])

    @property
    def gram(self) -> np.ndarray:
        """K, (d, d), of which no direction may have been dropped: else the posteriors differ."""
        d, q = self.model.head_.start.model.weight_map.shape
        if q != d:
            raise AssertionError(f"{d - q} of {d} directions of the landmarks' kernel were dropped")
        return self.model.features_.weight_gram()

    def prior_scales(self) -> dict[str, float]:
        """Return the scales of the priors, by site."""
        priors = self.model.head_.priors
        scales = dict(zip(priors.names, priors.scale.tolist(), strict=True))
        return {site: scales[name] for name, site in SITE_OF.items()} | {"b": priors.effect_sd}

    def plain_data(self, split: Any) -> dict[str, Any]:
        """Return what the plain model needs."""
        stats = summarise(split.bags, self.model.features_, covariance=True)
        assert stats.within_cov is not None
        return {
            "mean": stats.mean,
            "sizes": stats.sizes,
            "labels": Task.of(split.bags, split.labels).labels,
            "within_cov": with_floor(stats.within_cov, COVARIANCE_FLOOR),
            "gram": self.gram,
            "least_noise": LEAST_NOISE,
            **self.prior_scales(),
        }

    def fast_data(self) -> dict[str, Any]:
        """Return what :func:`fast_potential` needs: our data, and maps from the model's sites."""
        return {
            "ours": {name: value for name, value in self.data.items() if name != "transport"},
            "into_w": np.linalg.inv(self.model.head_.start.model.weight_map),
            "from_zeta": np.linalg.inv(np.linalg.cholesky(self.gram)).T,
            "effect": self.model.effects_.unmix(np.ones(1))[0],
            **self.prior_scales(),
        }

    def sites(self, draw: int, *, whitened: bool) -> dict[str, Any]:
        """Return a draw of our first chain in the plain model's unconstrained parameters."""
        shown, unit = self.model.draws_, self.model.label_scale_
        alpha, rho = shown["weights"][0, draw] / unit, shown["weight_sd"][0, draw]
        zeta = np.linalg.cholesky(self.gram).T @ alpha / rho
        return {
            **({"zeta": zeta} if whitened else {"alpha": alpha}),
            "b": (shown["intercept"][0, draw] - self.model.label_center_) / unit,
            "sigma": np.log(shown["noise_sd"][0, draw] / unit),
            "rho": np.log(rho),
            "eta": np.log(shown["prior_scale"][0, draw]),
        }


def fast_potential(data: dict[str, Any], u: dict[str, Any]) -> Any:
    """Return the plain model's potential by our algebra, up to a constant.

    u holds α or ζ, b and the logs of σ, ρ and η. In our terms w = T^-1 α, ‖w‖ = ρ‖ζ‖, and the
    intercept's column of F is ±1.
    """
    import jax.numpy as jnp

    from bagwise.inference.density import Model, log_likelihood

    sites = tuple(SITE_OF.values())
    x = {site: jnp.exp(u[site]) for site in sites}
    whitened = "zeta" in u
    alpha = x["rho"] * (data["from_zeta"] @ u["zeta"]) if whitened else u["alpha"]
    w, effects = data["into_w"] @ alpha, u["b"][None] / data["effect"]
    scales = jnp.stack([x[site] for site in sites])
    value = log_likelihood(
        Model(Gaussian(), rigid=False, shrinks=True), data["ours"], w, effects, scales
    )
    value -= 0.5 * (jnp.sum((w / x["rho"]) ** 2) + (u["b"] / data["b"]) ** 2)
    value += sum(u[site] - 0.5 * (x[site] / data[site]) ** 2 for site in sites)
    return -value if whitened else -(value - w.shape[0] * u["rho"])


def disagreement(gradients: Sequence[Gradient], points: Sequence[dict[str, Any]]) -> float:
    """Return the largest relative difference of potentials, up to a constant, and of gradients."""
    from jax.flatten_util import ravel_pytree

    values, slopes = list[list[float]](), list[list[Any]]()
    for gradient in gradients:
        found = [gradient(u) for u in points]
        values.append([float(value) for value, _ in found])
        slopes.append([ravel_pytree(slope)[0] for _, slope in found])
    changes, along = np.diff(values, axis=1), np.asarray(slopes)
    return max(
        float(np.abs(changes - changes[0]).max() / np.abs(values[0]).max()),
        float(np.abs(along - along[0]).max() / np.abs(along[0]).max()),
    )
