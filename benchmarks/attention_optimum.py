"""What can be had of the simulation of attention: its own model, with all of its unknowns sampled.

    python -m benchmarks.attention_optimum [--draws 5] [--first 0] [--samples 300]

Nobody who fits labels knows the simulation's own form, priors and likelihood; this does, so that
its rank correlation is about the largest there is on average:

    γ ~ N(0, 0.8),  β ~ N(0, c²),  w = softmax(Xγ),  u = Σ w Xβ + b,  y ~ Bin(2, sigmoid(u − 1))

By NumPyro's NUTS on the 1,000 training bags; predictions of 200 new ones are posterior means of u.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from benchmarks.learning import attention_bags, heavy

N_TRAIN = 1000


def pooled(x: Any, gamma: Any, beta: Any) -> tuple[Any, Any]:
    """Return Σ w Xβ of each bag, and the weights w of its points."""
    weights = jax.nn.softmax(x @ gamma, axis=1)
    return jnp.sum(weights * (x @ beta), axis=1), weights


def model(x: Any, y: Any) -> None:
    """State the simulation's own model."""
    p = x.shape[-1]
    gamma = numpyro.sample("gamma", dist.Normal(0, np.sqrt(0.8)).expand([p]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(10.0))
    beta = scale * numpyro.sample("beta", dist.Normal(0, 1).expand([p]).to_event(1))
    shift = numpyro.sample("shift", dist.Normal(0, 1))
    u = pooled(x, gamma, beta)[0] + shift
    numpyro.sample("y", dist.Binomial(2, logits=u - 1.0), obs=y)


def run(seed: int, samples: int) -> tuple[float, float]:
    """Sample, and return the rank correlation of new bags and the area of heavy points."""
    x, y, u, weights = attention_bags(seed)
    start = time.perf_counter()
    mcmc = MCMC(
        NUTS(model),
        num_warmup=samples,
        num_samples=samples,
        num_chains=2,
        chain_method="sequential",
        progress_bar=False,
    )
    mcmc.run(jax.random.PRNGKey(seed), jnp.asarray(x[:N_TRAIN]), jnp.asarray(y[:N_TRAIN]))
    drawn = mcmc.get_samples(group_by_chain=True)
    rhat = max(float(np.max(split_gelman_rubin(np.asarray(each)))) for each in drawn.values())
    least = min(float(np.min(effective_sample_size(np.asarray(each)))) for each in drawn.values())
    flat = mcmc.get_samples()
    new = jnp.asarray(x[N_TRAIN:])
    each = jax.vmap(lambda g, b, s: pooled(new, g, s * b))(
        flat["gamma"], flat["beta"], flat["scale"]
    )
    mean, found = (np.asarray(value).mean(axis=0) for value in each)
    rho = float(spearmanr(mean, u[N_TRAIN:])[0])
    area = float(roc_auc_score(heavy(weights[N_TRAIN:]), found.ravel()))
    print(
        f"draw {seed}  Spearman {rho:.3f}  AUC {area:.3f}  R-hat {rhat:.3f}  "
        f"effective {least:.0f}  {time.perf_counter() - start:.0f} s",
        flush=True,
    )
    return rho, area


def main() -> None:
    """Print each draw, and the average."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--samples", type=int, default=300, help="of each of two chains")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.draws)
    rows = np.array([run(seed, given.samples) for seed in seeds])
    print(f"on average {rows.mean(axis=0).round(3)} ± {rows.std(axis=0).round(3)}")


if __name__ == "__main__":
    main()
