"""Benchmark of the shrinkage fit against one Cholesky factorisation per bag."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from bagwise import KernelEmbedding
from bagwise.datasets import make_gamma
from bagwise.embedding.posterior import kernel_prior, with_floor
from bagwise.estimators.base import COVARIANCE_FLOOR, Pooled
from bagwise.estimators.regressors import ShrinkageRegressor
from bagwise.heads.base import Task
from bagwise.inference.shrinkage import (
    LEAST_NOISE,
    LOG_SCALE_SD,
    Objective,
    ShrinkageProblem,
)
from benchmarks.bench_plain import (
    PlainObjective,
    Solver,
    Whitened,
    batched_cholesky,
    cholesky_per_bag,
    cholesky_per_size,
)
from benchmarks.bench_report import Section, Target, interleaved

WEIGHT_VAR = 10.0

# Agreement asked of the two objectives before they are timed.
AGREEMENT = 1e-6

# The plain fit is run in full if it is expected to take no longer than this, in seconds.
PLAIN_LIMIT = 90.0

RIVALS: dict[str, Solver] = {
    "one Cholesky per bag": cholesky_per_bag,
    "batched Cholesky (NumPy)": batched_cholesky,
    "one Cholesky per distinct size": cholesky_per_size,
}
TARGET = Target(50, at_least=True, unit="×")


@dataclass(frozen=True, eq=False)
class Case:
    """Pooled bags with everything that either side needs."""

    pooled: Pooled
    bags: Any
    task: Task
    problem: ShrinkageProblem

    @classmethod
    def make(cls, n_bags: int, n_landmarks: int) -> Case:
        """Draw the paper's bags of 5, 20, 100 and 1,000 points and pool them."""
        split = make_gamma(n_bags=n_bags).train
        model = ShrinkageRegressor(KernelEmbedding(n_landmarks=n_landmarks, bandwidth=1.0))
        pooled = next(model.pooled(split.bags))
        task = Task.of(split.bags, split.labels)
        prior = kernel_prior(pooled.features, pooled.stats, COVARIANCE_FLOOR)
        problem = ShrinkageProblem(prior, pooled.stats, task.labels, task.design, task.weights)
        return cls(pooled, split.bags, task, problem)

    def fit(self) -> ShrinkageRegressor:
        """Fit as users do, from pooled features and at the given weight variance."""
        return ShrinkageRegressor(weight_var=WEIGHT_VAR).fit_pooled(
            self.pooled, self.bags, self.task
        )

    def evaluate(self, theta: np.ndarray) -> Any:
        """Return our value, gradient and Hessian, computed anew."""
        at = Objective(self.problem, WEIGHT_VAR)(theta)
        _ = at.hessian  # which is computed when it is asked for
        return at

    def plain(self) -> Whitened:
        """Return the same objective with one Cholesky per bag."""
        stats, features = self.pooled.stats, self.pooled.features
        assert stats.within_cov is not None
        objective = PlainObjective(
            mean=stats.mean,
            sizes=stats.sizes,
            labels=self.task.labels,
            within_cov=with_floor(stats.within_cov, COVARIANCE_FLOOR),
            gram=features.weight_gram(),
            weight_var=WEIGHT_VAR,
            prior_logs=self.problem.start[-2:],
            prior_sd=LOG_SCALE_SD,
            least_noise=LEAST_NOISE,
        )
        weight_map = self.problem.prior.at(None).weight_map
        return Whitened(objective, weight_map, float(self.task.design[0, 0]))

    def halfway(self) -> np.ndarray:
        """Return parameters between the start and the optimum, where every term counts."""
        return 0.5 * (self.problem.start + self.fit().head_.mode.theta)

    def with_distinct_sizes(self) -> Case:
        """Return the case with every bag of its own size, so that none share a factor table."""
        sizes = self.pooled.stats.sizes
        stats = replace(self.pooled.stats, sizes=sizes * np.linspace(1.0, 1.5, len(sizes)))
        return replace(self, pooled=replace(self.pooled, stats=stats))


def disagreement(case: Case, plain: Whitened, theta: np.ndarray) -> float:
    """Return the largest relative difference of the two values or of an entry of the gradients."""
    ours = case.evaluate(theta)
    value, gradient = plain(theta)
    return max(abs(value / ours.value - 1.0), float(np.max(np.abs(gradient / ours.gradient - 1.0))))


def run(quick: bool) -> Section:
    """Time evaluations and fits of both sides, with one thread each."""
    case = Case.make(*((40, 10) if quick else (1000, 90)))
    n, d = case.pooled.stats.mean.shape
    section = Section(
        f"1. Shrinkage fit: {n:,} bags of 5, 20, 100 or 1,000 points, {d} landmarks",
        ["seconds", "ratio to ours"],
    )
    with threadpool_limits(limits=1, user_api="blas"):
        least = _evaluations(case, section, repeats=2 if quick else 5)
        _fits(case, section, least, repeats=2 if quick else 5)
    return section


def _evaluations(case: Case, section: Section, repeats: int) -> float:
    """Time one evaluation at the same θ; return the seconds of one with a Cholesky per bag."""
    theta, plain = case.halfway(), case.plain()
    rivals = [replace(plain, plain=replace(plain.plain, solve=solve)) for solve in RIVALS.values()]
    gaps = [disagreement(case, rival, theta) for rival in rivals]
    if max(gaps) > AGREEMENT:
        raise AssertionError(f"the objectives differ by {gaps}, more than {AGREEMENT}")
    ours, *others = interleaved(
        [lambda: case.evaluate(theta), *(lambda r=r: r(theta) for r in rivals)],
        repeats,
    )
    section.add("evaluation: ours, with Hessian", [f"{ours:.4f}", "1"], ours, None)
    for name, seconds in zip(RIVALS, others, strict=True):
        cells = [f"{seconds:.4f}", f"{seconds / ours:.1f}×"]
        section.add(f"evaluation: {name}", cells, seconds / ours, None)
    section.notes.append(
        f"All agree on value and gradient to {max(gaps):.0e} (asked: {AGREEMENT:.0e})."
    )
    return others[0]


def _fits(case: Case, section: Section, per_evaluation: float, repeats: int) -> None:
    """Time our fit, and the plain objective under SciPy's L-BFGS-B from the same start."""
    ours, distinct = interleaved([case.fit, case.with_distinct_sizes().fit], repeats)
    mode = case.fit().head_.mode
    section.add("fit: ours (Newton)", [f"{ours:.3f}", "1"], ours, None)
    cells = [f"{distinct:.3f}", f"{distinct / ours:.1f}×"]
    section.add("fit: ours, if no two bags had the same size", cells, distinct / ours, None)
    quick = _minimise(lambda theta: _value_and_gradient(case, theta), case)
    expected = quick.nfev * per_evaluation
    if expected <= PLAIN_LIMIT:
        results: list[Any] = []
        (seconds,) = interleaved([lambda: results.append(_minimise(case.plain(), case))], 1)
        evaluations, reached, how = results[0].nfev, results[0].fun, "run in full"
    else:
        seconds, evaluations, reached = expected, quick.nfev, quick.fun
        how = "not run: seconds per evaluation × evaluations of L-BFGS-B on our objective"
    cells = [f"{seconds:.3f}", f"{seconds / ours:.0f}×"]
    section.add("fit: one Cholesky per bag (L-BFGS-B)", cells, seconds / ours, TARGET)
    section.notes += [
        f"Plain fit {how}; {evaluations} evaluations with SciPy's default tolerances.",
        f"Ours: {mode.n_steps} Newton steps; objective {mode.value:.6f}, gradient norm "
        f"{mode.gradient_norm:.0e}. Plain: {reached:.6f}.",
    ]


def _value_and_gradient(case: Case, theta: np.ndarray) -> tuple[float, np.ndarray]:
    at = case.evaluate(theta)
    return at.value, at.gradient


def _minimise(objective: Any, case: Case) -> Any:
    limits = {"maxiter": 10_000, "maxfun": 10_000}
    return minimize(objective, case.problem.start, jac=True, method="L-BFGS-B", options=limits)
