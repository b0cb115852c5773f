"""Benchmark of the sampler against the same posterior written down as a NumPyro model.

A textbook run of the model would take days, so its speed is put together from two parts: the
seconds of a gradient of the model as written, and the effective draws per leapfrog step that
NumPyro's NUTS gets in the model's own parameters. Those are drawn with the likelihood by our
algebra: as the density is the same function, so are the trajectories.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
from threadpoolctl import threadpool_limits

from bagwise.datasets import make_gamma
from bagwise.embedding import summarise
from bagwise.exceptions import BagwiseWarning
from bagwise.experiments.bench_report import Section, Target
from bagwise.inference.diagnostics import ess_bulk, rhat
from bagwise.inference.settings import NUTS
from bagwise.inference.shrinkage_objective import LEAST_NOISE
from bagwise.progress import Progress
from bagwise.regressors import BDRRegressor
from bagwise.shrinkage import with_floor
from bagwise.shrinkage_model import COVARIANCE_FLOOR
from bagwise.task import Task

if TYPE_CHECKING:
    from bagwise.experiments.bench_numpyro import Chains, Gradient

# JAX is imported in functions: its import belongs to the first fit, which is timed.

RATIO_TARGET = Target(50, at_least=True, unit="×")
FIRST_TARGET = Target(60.0, unit=" s")

# Agreement asked of the two potentials and of their gradients before they are timed.
AGREEMENT = 1e-6

# Site of the plain model for each of our scales.
SITE_OF = {"noise": "sigma", "weight_var": "rho", "prior_scale": "eta"}


@dataclass(frozen=True)
class Plan:
    """How much to run: ours by its defaults; of the plain sampler as many draws as warm-up."""

    n_bags: int = 1000
    n_landmarks: int = 60
    settings: NUTS = field(default_factory=NUTS)
    refits: int = 2
    plain_chains: int = 4
    plain_length: int = 500
    gradients: int = 2000
    repeats: int = 5


QUICK = Plan(40, 5, NUTS(chains=2, draws=40, warmup=40), 1, 2, 50, 20, 2)


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
    kind, data, start : the density that was sampled and where from
    """

    model: BDRRegressor
    seconds: float
    warmup_seconds: float
    draw_seconds: float
    kind: str
    data: dict[str, Any]
    start: np.ndarray

    @classmethod
    def run(cls, plan: Plan, split: Any) -> Fit:
        """Fit as users do, and watch."""
        model = BDRRegressor(
            inference=plan.settings, n_landmarks=plan.n_landmarks, bandwidth_scale=1.0
        )
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
        kind, data, starts = sample.call_args.args[:3]
        parts = watches[0].seconds(plan.settings.chains * plan.settings.warmup)
        return cls(model, seconds, *parts, kind, data, starts[0])


def plain_data(model: BDRRegressor, split: Any) -> dict[str, Any]:
    """Return what the plain model needs, for the posterior that the fitted model has sampled."""
    head, task = model.head_, Task.of(split.bags, split.labels)
    stats = summarise(split.bags, model.features_, covariance=True)
    assert stats.within_cov is not None
    q, d = head.start.basis.weight_map.shape
    if q != d:
        raise AssertionError(f"{d - q} of {d} directions were dropped: the posteriors differ")
    scales = zip(head.priors.names, head.priors.scale, strict=True)
    return {
        "mean": stats.mean,
        "sizes": stats.sizes,
        "labels": task.labels,
        "within_cov": with_floor(stats.within_cov, COVARIANCE_FLOOR),
        "gram": model.features_.weight_gram(),
        "least_noise": LEAST_NOISE,
        "b": head.priors.effect_sd,
        **{SITE_OF[name]: scale for name, scale in scales},
    }


def fast_data(fit: Fit) -> dict[str, Any]:
    """Return what :func:`fast_potential` needs: our data and maps from the model's sites."""
    head = fit.model.head_
    scale = dict(zip(head.priors.names, head.priors.scale, strict=True))
    return {
        "ours": {name: value for name, value in fit.data.items() if name != "transport"},
        "whitened": np.linalg.inv(head.start.basis.weight_map),
        "effect": fit.model.effects_.unmix(np.ones(1))[0],
        "scale": np.array([scale[name] for name in ("noise", "prior_scale", "weight_var")]),
        "b": head.priors.effect_sd,
    }


def fast_potential(data: dict[str, Any], u: dict[str, Any]) -> Any:
    """Return the plain model's potential by our algebra, up to a constant.

    u holds α, b and the logs of σ, ρ and η, as NumPyro has them; w = T^-1 α, and the intercept's
    column of F is ±1.
    """
    import jax.numpy as jnp

    from bagwise.inference.density import log_likelihood

    logs = jnp.stack([u["sigma"], u["eta"], u["rho"]])
    x, w = jnp.exp(logs), data["whitened"] @ u["alpha"]
    likelihood = log_likelihood("gaussian", data["ours"], w, u["b"][None] / data["effect"], x)
    prior = -0.5 * (
        jnp.sum((w / x[2]) ** 2) + jnp.sum((x / data["scale"]) ** 2) + (u["b"] / data["b"]) ** 2
    )
    return -(likelihood + prior - w.shape[0] * logs[2] + jnp.sum(logs))


def sites_of(model: BDRRegressor, draw: int) -> dict[str, Any]:
    """Return a draw of our first chain in the plain model's unconstrained parameters."""
    shown, unit = model.draws_, model.label_scale_
    return {
        "alpha": shown["weights"][0, draw] / unit,
        "b": (shown["intercept"][0, draw] - model.label_center_) / unit,
        "sigma": np.log(shown["noise_sd"][0, draw] / unit),
        "rho": np.log(shown["weight_sd"][0, draw]),
        "eta": np.log(shown["prior_scale"][0, draw]),
    }


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


@dataclass(frozen=True)
class Speed:
    """One column of the table.

    Attributes
    ----------
    gradient : seconds of one;  steps : leapfrog steps per draw
    ess : least bulk effective sample size of any parameter;  rhat : the largest
    n_divergent : of all trajectories
    warmup, draws : seconds, of all chains on the cores that there are
    """

    gradient: float
    steps: float
    ess: float
    rhat: float
    n_divergent: int
    warmup: float
    draws: float

    @property
    def rate(self) -> float:
        """Effective draws per second, warm-up not counted."""
        return self.ess / self.draws

    @property
    def rate_with_warmup(self) -> float:
        """Effective draws per second, warm-up counted."""
        return self.ess / (self.draws + self.warmup)


def our_speed(fit: Fit, plan: Plan) -> Speed:
    """Measure our sampler."""
    import jax

    from bagwise.experiments.bench_numpyro import Gradient
    from bagwise.inference.density import potential

    data, start = jax.tree.map(jax.numpy.asarray, (fit.data, fit.start))
    found = fit.model.diagnostics_
    assert found is not None
    gradient = Gradient(partial(potential, fit.kind), data)
    return Speed(
        gradient=gradient.seconds(start, plan.gradients, plan.repeats),
        steps=found.steps_per_draw,
        ess=min(found.ess_bulk.values()),
        rhat=max(found.rhat.values()),
        n_divergent=found.n_divergent,
        warmup=fit.warmup_seconds,
        draws=fit.draw_seconds,
    )


def plain_speed(chains: Chains, gradient: float, cores: int | None = None) -> Speed:
    """Measure the plain sampler: as run, or as it would run at this cost of a gradient."""
    seconds = chains.warmup_seconds, chains.seconds
    if cores is not None:
        steps = chains.warmup_steps, int(chains.n_steps.sum())
        seconds = steps[0] * gradient / cores, steps[1] * gradient / cores
    return Speed(
        gradient=gradient,
        steps=float(chains.n_steps.mean()),
        ess=float(ess_bulk(chains.draws).min()),
        rhat=float(rhat(chains.draws).max()),
        n_divergent=int(chains.diverging.sum()),
        warmup=seconds[0],
        draws=seconds[1],
    )


def measure(fit: Fit, split: Any, plan: Plan, cores: int) -> tuple[list[Speed], float]:
    """Return the speeds of all columns, and how far the densities of the plain ones differ."""
    import jax

    from bagwise.experiments import bench_numpyro as plain

    with jax.enable_x64(True), threadpool_limits(limits=1, user_api="blas"):
        ours = our_speed(fit, plan)
        data = plain.as_arrays(plain_data(fit.model, split))
        thrifty = partial(plain.potential, moments=plain.with_two_solves)
        fast = plain.Gradient(fast_potential, plain.as_arrays(fast_data(fit)))
        gradients = [fast, plain.Gradient(plain.potential, data), plain.Gradient(thrifty, data)]
        points = [plain.as_arrays(sites_of(fit.model, draw)) for draw in (0, -1)]
        gap = disagreement(gradients, points)
        if gap > AGREEMENT:
            raise AssertionError(f"the densities differ by {gap}, more than {AGREEMENT}")
        steps = (plan.gradients, 1, 1)
        seconds = [
            gradient.seconds(points[0], n, plan.repeats)
            for gradient, n in zip(gradients, steps, strict=True)
        ]
        chains = plain.sample(
            fast,
            plan.n_landmarks,
            chains=plan.plain_chains,
            length=plan.plain_length,
            n_jobs=cores,
        )
    as_written = [plain_speed(chains, each, cores) for each in seconds[1:]]
    return [ours, plain_speed(chains, seconds[0]), *as_written], gap


def run(quick: bool) -> Section:
    """Fit ours from points, first and again; then measure the plain model."""
    plan = QUICK if quick else Plan()
    split = make_gamma(n_bags=plan.n_bags).train
    first = Fit.run(plan, split)
    again = min((Fit.run(plan, split) for _ in range(plan.refits)), key=lambda fit: fit.seconds)
    from bagwise.inference.nuts import available_cores

    cores = available_cores()
    speeds, gap = measure(again, split, plan, cores)
    section = Section(
        f"2. Posterior draws: {plan.n_bags:,} bags, {plan.n_landmarks} landmarks, BDRRegressor()",
        ["ours", "plain, our algebra", "plain model", "... without C"],
    )
    _add_speeds(section, speeds)
    _add_fits(section, first, again)
    section.notes += _notes(plan, cores, gap)
    return section


def _add_speeds(section: Section, speeds: list[Speed]) -> None:
    ours, plain = speeds[0], speeds[2]

    def add(what: str, form: str, values: list[float], target: Target | None = None) -> None:
        held = values[0] if target is None else values[2]
        section.add(what, [format(value, form) for value in values], held, target)

    add("µs per gradient", ",.0f", [1e6 * speed.gradient for speed in speeds])
    add("leapfrog steps per draw", ".1f", [speed.steps for speed in speeds])
    add("divergences", "d", [speed.n_divergent for speed in speeds])
    add("largest R-hat", ".3f", [speed.rhat for speed in speeds])
    add("least bulk ESS", ".0f", [speed.ess for speed in speeds])
    add("seconds of warm-up", ",.1f", [speed.warmup for speed in speeds])
    add("seconds of draws", ",.1f", [speed.draws for speed in speeds])
    add("ESS per second", ".3g", [speed.rate for speed in speeds])
    ratios = [ours.rate / speed.rate for speed in speeds]
    cells = [f"{ratio:,.0f}×" for ratio in ratios]
    section.add("... ours over it", cells, ours.rate / plain.rate, RATIO_TARGET)
    ratios = [ours.rate_with_warmup / speed.rate_with_warmup for speed in speeds]
    cells = [f"{ratio:,.0f}×" for ratio in ratios]
    section.add("... with the warm-up of both", cells, ratios[2], None)


def _add_fits(section: Section, first: Fit, again: Fit) -> None:
    for what, seconds, target in (
        ("seconds of the first fit, from points", first.seconds, FIRST_TARGET),
        ("... of a fit again", again.seconds, None),
        ("... of sampling in it", again.warmup_seconds + again.draw_seconds, None),
    ):
        section.add(what, [f"{seconds:.1f}", "", "", ""], seconds, target)


def _notes(plan: Plan, cores: int, gap: float) -> list[str]:
    ours, length = plan.settings, plan.plain_length
    return [
        f"Ours: {ours.chains} chains of {ours.draws} draws after {ours.warmup}, as timed in a fit "
        f"on {cores} cores. The first fit",
        "imports JAX and compiles. ESS is that of the worst of α, σ, ρ, η and b.",
        f"Plain: {plan.plain_chains} chains of {length} draws after {length} by NumPyro's NUTS with "
        "its defaults, in α, log σ, log ρ,",
        "log η and b; run with our algebra. The plain model's seconds are those leapfrog steps ×",
        "the seconds of a gradient of the model as written (one Cholesky per bag; with the",
        "covariance C of each, or without forming it), timed in one thread and shared out to",
        f"{cores} cores: as if chains run at once did not slow each other. The densities agree, with",
        f"gradients, to {gap:.0e} (asked: {AGREEMENT:.0e}).",
    ]
