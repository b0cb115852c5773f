"""The authors' way to sample the posterior of BDR, Stan bag by bag: time per effective draw.

    python -m benchmarks.bench_stan [--bags 10 100] [--draws 200]

Needs a C++ compiler and ``pip install pystan``, which is no part of the test tools. The density is
that of :mod:`benchmarks.bench_numpyro`, written in Stan's language as the paper has it: a Cholesky
factor for each bag. Ours and Stan's run on the same bags one after the other; compiling counts for
neither.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.datasets import make_gamma
from bagwise.inference.diagnostics import ess_bulk, rhat
from bagwise.inference.settings import NUTS
from benchmarks.bench_nuts import Plan
from benchmarks.bench_report import Section

LANDMARKS = 20
CHAINS = 2

PROGRAM = """
data {
  int<lower=1> n;  int<lower=1> d;
  matrix[n, d] mean;  vector[n] sizes;  vector[n] y;
  matrix[d, d] within;  matrix[d, d] gram;
  real sigma_scale;  real rho_scale;  real eta_scale;  real b_scale;  real least_noise;
}
transformed data {
  matrix[n, d] gaps;
  vector[d] zero = rep_vector(0, d);
  for (j in 1:d) gaps[, j] = mean[, j] - sum(mean[, j]) / n;
}
parameters {
  real<lower=0> sigma;  real<lower=0> rho;  real<lower=0> eta;  real b;  vector[d] alpha;
}
model {
  matrix[d, d] R = eta * gram;
  vector[d] pull = R * alpha;
  real own = dot_product(alpha, pull);
  sigma ~ normal(0, sigma_scale);
  rho ~ normal(0, rho_scale);
  eta ~ normal(0, eta_scale);
  b ~ normal(0, b_scale);
  alpha ~ multi_normal_prec(zero, gram / square(rho));
  for (i in 1:n) {
    matrix[d, d] L = cholesky_decompose(R + within / sizes[i]);
    vector[d] u = mdivide_left_tri_low(L, pull);
    vector[d] v = mdivide_left_tri_low(L, gaps[i]');
    y[i] ~ normal(b + dot_product(u, v), sqrt(own - dot_self(u) + square(sigma) + least_noise));
  }
}
"""


def for_stan(data: dict[str, Any]) -> dict[str, Any]:
    """Return the data of the plain model under the names that the program has."""
    n, d = np.shape(data["mean"])
    given = {name: np.asarray(data[name]) for name in ("mean", "sizes", "gram")}
    scales = {f"{name}_scale": float(data[name]) for name in ("sigma", "rho", "eta", "b")}
    given |= {"y": np.asarray(data["labels"]), "within": np.asarray(data["within_cov"])}
    return given | scales | {"n": n, "d": d, "least_noise": float(data["least_noise"])}


def sample(data: dict[str, Any], draws: int) -> tuple[np.ndarray, float]:
    """Return draws of α, σ, ρ, η and b (chains, draws, parameters) and the seconds they took."""
    import stan

    posterior = stan.build(PROGRAM, data=for_stan(data), random_seed=1)
    start = time.perf_counter()
    found = posterior.sample(num_chains=CHAINS, num_samples=draws, num_warmup=draws)
    seconds = time.perf_counter() - start
    columns = np.concatenate([found[name] for name in ("alpha", "sigma", "rho", "eta", "b")])
    return columns.reshape(len(columns), draws, CHAINS).transpose(2, 1, 0), seconds


def run(n_bags: Sequence[int], draws: int) -> Section:
    """Sample the same posteriors by ours and by Stan."""
    section = Section(
        f"Milliseconds per effective draw, {LANDMARKS} landmarks: ours and the authors' Stan model",
        ["draws", "ESS", "R-hat", "seconds", "ms/draw", "ratio"],
    )
    for n in n_bags:
        plan, split = Plan(n, LANDMARKS, NUTS()), make_gamma(n_bags=n).train
        plan.fit(split)  # compiles
        fit = plan.fit(split)
        found, seconds = fit.model.diagnostics_, fit.warmup_seconds + fit.draw_seconds
        assert found is not None
        ours = 1e3 * seconds / found.min_ess
        made, worst = found.n_chains * found.n_draws, max(found.rhat.values())
        cells = [f"{made}", f"{found.min_ess:.0f}", f"{worst:.3f}", f"{seconds:.2f}"]
        section.add(f"{n:,} bags, ours", [*cells, f"{ours:.2f}", "1"], ours, None)
        drawn, seconds = sample(fit.plain_data(split), draws)
        ess, worst = float(ess_bulk(drawn).min()), float(rhat(drawn).max())
        theirs = 1e3 * seconds / ess
        cells = [f"{CHAINS * draws}", f"{ess:.0f}", f"{worst:.3f}", f"{seconds:.2f}"]
        cells += [f"{theirs:.3g}", f"{theirs / ours:.3g}×"]
        section.add(f"{n:,} bags, Stan", cells, theirs, None)
    section.notes += [
        "Seconds: warm-up and draws, on the cores there are. ESS: least of any parameter, bulk; of",
        "ours bulk or tail.",
    ]
    return section


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.bench_stan", description=__doc__)
    parser.add_argument("--bags", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--draws", type=int, default=200, help="of each of two chains")
    given = parser.parse_args(arguments)
    try:
        import stan  # noqa: F401
    except ImportError:
        parser.error("Stan is not installed: pip install pystan, and a C++ compiler")
    print(run(given.bags, given.draws))


if __name__ == "__main__":
    main()
