"""Simulations for test_gp_nuts.py, run as a script: ``python sbc_gp.py 40 60 1 noise linear``.

Scales from their prior, labels of fixed bags from them, draws given those; again and again. In an
interpreter of its own, without the checks of shapes that would make it take longer.
"""

import json
import sys
from dataclasses import replace

import numpy as np

from bagwise.embedding.posterior import DOUBT, ROUND, kernel_model
from bagwise.embedding.sums import BagStats
from bagwise.inference.gp_evidence import PRIORS, GPProblem
from bagwise.inference.gp_scales import sample_scales
from bagwise.inference.second_level import Scales, SecondLevelKernel
from bagwise.inference.settings import NUTS

THIN = 3
START = Scales(prior_scale=0.1)


def problem(free, n=15, d=2):
    """Bags whose labels are still to be drawn."""
    rng = np.random.default_rng(0)
    sizes = rng.choice([2.0, 30.0], n)
    stats = BagStats(rng.normal(size=(n, d)), sizes, np.eye(d))
    model = kernel_model(stats.mean.mean(axis=0), np.eye(d), np.diag([2.0, 0.5]), 20.0)
    return GPProblem(
        model,
        model.posterior(stats),
        np.zeros(n),
        np.ones(n),
        np.column_stack([np.ones(n), rng.normal(size=n)]),
        START,
        free,
        slopes=rng.normal(size=(n, d)),
    )


def prior_draw(name, rng):
    """One draw of a scale, as in vectors of them; that of τ by the sum of its density."""
    if name == "sampling":
        grid = np.linspace(-6.0, 6.0, 20001)
        mass = np.cumsum(np.exp(-DOUBT * np.hypot(grid, ROUND)))
        return np.interp(rng.random(), mass / mass[-1], grid)
    center = np.log(START.prior_scale) if name == "prior_scale" else PRIORS[name][0]
    return rng.normal(center, PRIORS[name][1])


def covariance(made, scales, factor=1.0):
    """Covariance of the labels, from its parts; the noise has a factor, to see if it is noticed."""
    state = made.state(scales)
    gram = SecondLevelKernel(scales).between(state.inputs, state.inputs)
    return gram + np.diag(made.bag_var(state) + factor * made.noise(scales))


def ranks_of_one(made, rng, draws, factor):
    """Share of draws below the truth, for every scale."""
    theta = np.array([prior_draw(name, rng) for name in made.free])
    cov = covariance(made, made.start.moved(made.free, theta), factor)
    labels = rng.multivariate_normal(np.zeros(len(cov)), cov, method="cholesky")
    made = replace(made, labels=labels)
    begin, *_ = made.maximise()
    made = replace(made, start=begin, center=START)
    settings = NUTS(1, draws, warmup=50, target_accept=0.8, progress=False)
    drawn = sample_scales([made], settings, rng).scales
    true = vars(made.start.moved(made.free, theta))
    return {name: float(np.mean(x[0, ::THIN] < true[name])) for name, x in drawn.items()}


def ranks(runs, draws, factor, free):
    """Ranks (runs,) of every scale."""
    made, rng = problem(free), np.random.default_rng(0)
    found = [ranks_of_one(made, rng, draws, factor) for _ in range(runs)]
    return {name: [run[name] for run in found] for name in free}


if __name__ == "__main__":
    runs, draws, factor, *names = sys.argv[1:]
    free = tuple(names) or tuple(name for name in Scales.names() if name != "group")
    print(json.dumps(ranks(int(runs), int(draws), float(factor), free)))
