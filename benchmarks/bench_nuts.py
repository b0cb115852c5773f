"""Benchmark of the sampler against the same posterior written down as a NumPyro model.

A textbook run of the model would take days, so its speed is put together from two parts: the
seconds of a gradient of the model as written, and the effective draws per leapfrog step that
NumPyro's NUTS gets in the model's own parameters. Those are drawn with the likelihood by our
algebra: as the density is the same function, so are the trajectories.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from bagwise import KernelEmbedding
from bagwise.datasets import make_gamma
from bagwise.estimators.regressors import BDRRegressor
from bagwise.inference.diagnostics import ess_bulk, rhat
from bagwise.inference.settings import NUTS
from benchmarks.bench_posterior import Fit, disagreement, fast_potential
from benchmarks.bench_report import Section, Target

if TYPE_CHECKING:
    from benchmarks.bench_numpyro import Chains, Gradient

# JAX is imported in functions only: its import belongs to the first fit, which is timed.

RATIO_TARGET = Target(50, at_least=True, unit="×")
FIRST_TARGET = Target(60.0, unit=" s")

# Agreement asked of the potentials and of their gradients before they are timed.
AGREEMENT = 1e-6

COLUMNS = ("µs/gradient", "steps/draw", "divergent", "R-hat", "ESS", "ESS/s", "ratio", "all")
BLANK = ("",) * (len(COLUMNS) - 1)


@dataclass(frozen=True)
class Plan:
    """How much to run: ours by its defaults; of the plain sampler as many draws as warm-up."""

    n_bags: int = 1000
    n_landmarks: int = 60
    settings: NUTS = field(default_factory=NUTS)
    refits: int = 2
    plain_chains: int = 2
    plain_length: int = 500
    gradients: int = 2000
    repeats: int = 5
    whitened: bool = True

    def fit(self, split: Any) -> Fit:
        """Fit ours from points."""
        n, settings = self.n_landmarks, self.settings
        model = BDRRegressor(KernelEmbedding(n_landmarks=n, bandwidth=1.0), inference=settings)
        return Fit.run(model, split)


QUICK = Plan(40, 5, NUTS(chains=2, draws=40, warmup=40), 1, 2, 50, 20, 2, whitened=False)


@dataclass(frozen=True)
class Speed:
    """How fast one sampler is.

    Attributes
    ----------
    gradient : seconds of one;  steps : leapfrog steps per draw
    n_divergent : of all trajectories;  rhat : the largest
    ess : least bulk effective sample size of any parameter
    warmup, draws : seconds, of all chains on the cores that there are
    """

    gradient: float
    steps: float
    n_divergent: int
    rhat: float
    ess: float
    warmup: float
    draws: float

    @property
    def rate(self) -> float:
        """Effective draws per second, warm-up not counted."""
        return self.ess / self.draws

    @property
    def rate_of_all(self) -> float:
        """Effective draws per second, warm-up counted."""
        return self.ess / (self.draws + self.warmup)

    @classmethod
    def of_fit(cls, fit: Fit, plan: Plan) -> Speed:
        """Measure our sampler."""
        import jax

        from bagwise.inference.density import potential
        from benchmarks.bench_numpyro import Gradient

        data, start = jax.tree.map(jax.numpy.asarray, (fit.data, fit.start))
        found = fit.model.diagnostics_
        assert found is not None
        gradient = Gradient(partial(potential, fit.form), data)
        return cls(
            gradient=gradient.seconds(start, plan.gradients, plan.repeats),
            steps=found.steps_per_draw,
            n_divergent=found.n_divergent,
            rhat=max(found.rhat.values()),
            ess=min(found.ess_bulk.values()),
            warmup=fit.warmup_seconds,
            draws=fit.draw_seconds,
        )

    @classmethod
    def of_chains(
        cls, chains: Chains, gram: np.ndarray, gradient: float, cores: int | None = None
    ) -> Speed:
        """Measure the plain sampler: as it ran, or with cores as at this cost of a gradient."""
        seconds = chains.warmup_seconds, chains.seconds
        if cores is not None:
            steps = chains.warmup_steps, int(chains.n_steps.sum())
            seconds = steps[0] * gradient / cores, steps[1] * gradient / cores
        draws = chains.parameters(gram)
        return cls(
            gradient=gradient,
            steps=float(chains.n_steps.mean()),
            n_divergent=int(chains.diverging.sum()),
            rhat=float(rhat(draws).max()),
            ess=float(ess_bulk(draws).min()),
            warmup=seconds[0],
            draws=seconds[1],
        )


class Plain:
    """The plain model of the posterior that a fit has sampled; use under 64-bit precision."""

    def __init__(self, fit: Fit, split: Any, plan: Plan, cores: int) -> None:
        from benchmarks.bench_numpyro import as_arrays

        self.fit, self.plan, self.cores = fit, plan, cores
        self.data, self.fast_data = as_arrays((fit.plain_data(split), fit.fast_data()))
        self.gap = 0.0

    def speeds(self, *, whitened: bool) -> list[Speed]:
        """Measure the model by our algebra, and as written: without forming C, and with it.

        The last is left out for whitened weights, whose draws differ but whose gradient does not.
        """
        from benchmarks import bench_numpyro as plain

        plan = self.plan
        u = [plain.as_arrays(self.fit.sites(draw, whitened=whitened)) for draw in (0, -1)]
        fast = plain.Gradient(fast_potential, self.fast_data)
        thrifty = partial(plain.potential, moments=plain.with_two_solves)
        written: list[plain.Potential] = [thrifty] if whitened else [thrifty, plain.potential]
        gradients = [plain.Gradient(f, self.data) for f in written]
        self._check([fast, *gradients], u)
        seconds = fast.seconds(u[0], plan.gradients, plan.repeats)
        chains = plain.sample(
            fast, u[0], chains=plan.plain_chains, length=plan.plain_length, n_jobs=self.cores
        )
        speeds = [Speed.of_chains(chains, self.fit.gram, seconds)]
        for gradient in gradients:
            seconds = gradient.seconds(u[0], 1, plan.repeats)
            speeds.append(Speed.of_chains(chains, self.fit.gram, seconds, self.cores))
        return speeds

    def _check(self, gradients: list[Gradient], points: list[dict[str, Any]]) -> None:
        self.gap = max(self.gap, disagreement(gradients, points))
        if self.gap > AGREEMENT:
            raise AssertionError(f"the densities differ by {self.gap}, more than {AGREEMENT}")


# Bags and landmarks of the problems that are sampled.
SHAPES = ((10, 20), (100, 20), (1_000, 20), (10_000, 20), (1_000, 200))
SHAPE_COLUMNS = ("draws", "ESS", "R-hat", "seconds", "ms/draw", "NumPyro", "ratio")

# Of the plain sampler in each shape: chains, and their draws and warm-up.
SHAPE_PLAIN = 2, 200


def shapes(quick: bool) -> Section:
    """Time an effective draw in problems of several shapes, beside the plain model.

    The plain model is the best one that a user would write: whitened weights, without forming C.
    """
    import jax
    import joblib

    section = Section("2b. Milliseconds per effective draw, by shape of problem", SHAPE_COLUMNS)
    chains, length = SHAPE_PLAIN
    for n_bags, n_landmarks in SHAPES[:1] if quick else SHAPES:
        plan = Plan(n_bags, n_landmarks, NUTS(), 1, chains, length, 50, 2)
        split = make_gamma(n_bags=n_bags).train
        plan.fit(split)  # compiles
        fit = plan.fit(split)
        with jax.enable_x64(True), threadpool_limits(limits=1, user_api="blas"):
            _, plain = Plain(fit, split, plan, joblib.cpu_count()).speeds(whitened=True)
        found = fit.model.diagnostics_
        assert found is not None
        seconds = fit.warmup_seconds + fit.draw_seconds
        ours, theirs = 1e3 * seconds / found.min_ess, 1e3 / plain.rate_of_all
        cells = [
            f"{found.n_chains} × {found.n_draws}",
            f"{found.min_ess:.0f}",
            f"{max(found.rhat.values()):.3f}",
            f"{seconds:.2f}",
            f"{ours:.2f}",
            f"{theirs:.3g}",
            f"{theirs / ours:.3g}×",
        ]
        section.add(f"{n_bags:,} bags, {n_landmarks} landmarks", cells, ours, None)
    section.notes += [
        "Seconds of sampling, warm-up counted, of a second fit: compilation is not. ESS: least of",
        "any parameter, bulk or tail. NumPyro: the whitened model that never forms C, ms per",
        f"effective draw (bulk) with its warm-up; {chains} chains of {length} after {length}.",
    ]
    return section


def run(quick: bool) -> Section:
    """Fit ours from points, first and again; then measure the plain model."""
    plan = QUICK if quick else Plan()
    split = make_gamma(n_bags=plan.n_bags).train
    first = plan.fit(split)
    again = min((plan.fit(split) for _ in range(plan.refits)), key=lambda fit: fit.seconds)
    section = Section(
        f"2. Posterior draws: {plan.n_bags:,} bags, {plan.n_landmarks} landmarks, BDRRegressor()",
        COLUMNS,
    )
    _compare(section, again, split, plan)
    for what, seconds, target in (
        ("seconds of the first fit, from points", first.seconds, FIRST_TARGET),
        ("seconds of a fit again", again.seconds, None),
        ("... of which warm-up", again.warmup_seconds, None),
        ("... of which draws", again.draw_seconds, None),
    ):
        section.add(what, [f"{seconds:.1f}", *BLANK], seconds, target)
    return section


def _compare(section: Section, fit: Fit, split: Any, plan: Plan) -> None:
    """Add the lines of the samplers, with the ratio of our speed to theirs."""
    import jax
    import joblib

    cores = joblib.cpu_count()
    with jax.enable_x64(True), threadpool_limits(limits=1, user_api="blas"):
        ours = Speed.of_fit(fit, plan)
        plain = Plain(fit, split, plan, cores)
        fast, thrifty, dense = plain.speeds(whitened=False)
        _add(section, "ours", ours, ours)
        _add(section, "NumPyro model", dense, ours, RATIO_TARGET)
        _add(section, "... that never forms C", thrifty, ours)
        _add(section, "... by our algebra", fast, ours)
        if plan.whitened:
            fast, thrifty = plain.speeds(whitened=True)
            _add(section, "... whitened, that never forms C", thrifty, ours)
            _add(section, "... whitened, by our algebra", fast, ours)
    section.notes += _notes(plan, _made(fit), cores, plain.gap)


def _add(
    section: Section, what: str, speed: Speed, ours: Speed, target: Target | None = None
) -> None:
    ratio, of_all = ours.rate / speed.rate, ours.rate_of_all / speed.rate_of_all
    cells = [
        f"{1e6 * speed.gradient:,.0f}",
        f"{speed.steps:.1f}",
        f"{speed.n_divergent}",
        f"{speed.rhat:.3f}",
        f"{speed.ess:.0f}",
        f"{speed.rate:.2g}" if speed.rate < 10 else f"{speed.rate:.0f}",
        f"{ratio:,.1f}×" if ratio < 100 else f"{ratio:,.0f}×",
        f"{of_all:,.1f}×" if of_all < 100 else f"{of_all:,.0f}×",
    ]
    section.add(what, cells, ratio, target)


def _made(fit: Fit) -> str:
    """Say how many draws a fit of ours took."""
    found, warmup = fit.model.diagnostics_, fit.model.inference.warmup
    assert found is not None
    return f"{found.n_chains} chains of {found.n_draws} draws after {warmup}"


def _notes(plan: Plan, ours: str, cores: int, gap: float) -> list[str]:
    length = plan.plain_length
    return [
        "ESS: least bulk effective sample size of α, σ, ρ, η and b. Ratio: our ESS/s over this",
        "one's, not counting the warm-up of either; all: counting it. Compilation counts in the",
        "first fit only, and so does the import of JAX.",
        f"Ours: {ours}, as timed in the fit on {cores} cores. NumPyro: {plan.plain_chains} chains",
        f"of {length} after {length} by NUTS with its defaults, run by our algebra. As written, it",
        "takes those leapfrog steps × the seconds of a gradient of the model (one Cholesky per",
        f"bag) in one thread, over {cores} cores: as if chains at once did not slow each other.",
        "Whitened: α = ρL^-T ζ with ζ ~ N(0, I), as one would write it after a first bad run.",
        f"All densities agree, with gradients, to {gap:.0e} (asked: {AGREEMENT:.0e}).",
    ]
