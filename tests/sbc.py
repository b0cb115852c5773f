"""Simulations for test_sbc.py, run as a script: ``python sbc.py gaussian 2 1`` prints JSON.

Parameters from the prior, labels from them, draws given those; again and again. In an interpreter
of its own, without the checks of shapes that would make it take ten times as long.
"""

import json
import sys

import numpy as np

from bagwise.inference.density import prepare
from bagwise.inference.draws import Draws
from bagwise.inference.nuts import sample
from bagwise.inference.settings import NUTS
from posterior_problems import UNIT, Bagged, alpha_of, approximation, form

KINDS = ("gaussian", "probit", "logistic")
SETTINGS = NUTS(chains=1, draws=180, warmup=100, n_jobs=1, progress=False)
THIN = 3
RUNS = 80
SHAPE = {
    "gaussian": {"n": 12, "d": 2},
    "probit": {"n": 60, "d": 6},
    "logistic": {"n": 150, "d": 10},
}


def ranks_of_one(bagged, rng, factor, weight_factor):
    """Share of draws below the truth, for every parameter."""
    alpha, gamma, scales = bagged.draw_prior(rng, UNIT, weight_factor)
    labels = bagged.draw_labels(rng, alpha, gamma, scales, factor)
    problem = bagged.problem(labels)
    resolved, _, transport = approximation(problem)
    data = prepare(problem, resolved, transport)
    start = rng.normal(size=(1, transport.size))
    z, _ = sample(form(problem, transport), data, start, SETTINGS, [int(rng.integers(2**31))])
    draws = Draws.of(transport, resolved.names, z[:, ::THIN], None)
    names = [f"alpha {j}" for j in range(alpha.shape[1])] + ["intercept"]
    drawn = [*alpha_of(problem, draws.w[0]).T, draws.gamma[0, :, 0]]
    true = [*alpha[0], gamma[0, 0]]
    for name in resolved.names:
        names.append(name)
        drawn.append(draws.scales[name][0])
        true.append(scales[name][0])
    below = np.mean(np.array(drawn) < np.array(true)[:, None], axis=1)
    return dict(zip(names, below, strict=True))


def ranks(kind, factor=1.0, weight_factor=1.0):
    """Ranks (RUNS,) of every parameter; factors multiply the variance of labels and of weights."""
    bagged, rng = Bagged.random(kind, 0, **SHAPE[kind]), np.random.default_rng(0)
    runs = [ranks_of_one(bagged, rng, factor, weight_factor) for _ in range(RUNS)]
    return {name: [float(run[name]) for run in runs] for name in runs[0]}


if __name__ == "__main__":
    print(json.dumps(ranks(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))))
