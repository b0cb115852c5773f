"""Learnt features: whether they are better than fixed ones, and what they cost.

    python -m benchmarks.learning gamma [--seeds 23 24] | attention [--draws 3] | digits | gradient

``gamma``: the paper's data, s5 = 25; the fixed grid's best bandwidth against bandwidth, scales of
columns and landmarks learnt from there, for the linear shrinkage model and the Gaussian process.
``attention``: BENCHMARKS' simulation, in which some points of a bag count more than others: rank
correlation with the truth, how well the heaviest points are found, coverage.
``digits``: sums of two digits of scikit-learn, each image a bag of 4 × 4 patches: a network against
fixed landmarks and mean-pooled Deep Sets.
``gradient``: seconds of a gradient against one Cholesky factor per bag.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import bagwise
from bagwise import Bags, KernelEmbedding, NetworkEmbedding
from bagwise.datasets.gamma import gamma_varying
from bagwise.inference import Training

Row = tuple[str, Callable[[], Any]]


def scores(model: Any, bags: Bags, labels: np.ndarray) -> tuple[float, float]:
    """Return mean squared error and −log density per bag."""
    if hasattr(model, "predict_dist"):
        found = model.predict_dist(bags)
        mean, told = found.mean, found.log_prob(labels)
    else:
        mean, var = model.predict(bags)
        told = -0.5 * (np.log(2.0 * np.pi * var) + (labels - mean) ** 2 / var)
    return float(np.mean((mean - labels) ** 2)), float(-np.mean(told))


def gamma(seeds: list[int]) -> None:
    """Print validation and test scores with fixed and learnt features."""
    learnt = {
        "bandwidth": ("bandwidth",),
        "bandwidth, ard": ("bandwidth", "ard"),
        "bandwidth, ard, landmarks": ("bandwidth", "ard", "landmarks"),
    }
    print("seed  model      features                     val MSE/NLL    test MSE/NLL   s")
    for seed in seeds:
        data = gamma_varying(seed=seed)
        for name, cls in (
            ("shrinkage", bagwise.ShrinkageRegressor),
            ("gp", bagwise.DistributionGPRegressor),
        ):
            for what, learn in {"fixed": None, **learnt}.items():
                if name == "gp" and what in ("bandwidth", "bandwidth, ard"):
                    continue
                n = 60 if name == "shrinkage" else 100
                kernel = "rbf" if name == "shrinkage" else "additive-rbf"
                start = time.perf_counter()
                model = cls(KernelEmbedding(n, kernel=kernel, learn=learn))
                model.fit(data.train.bags, data.train.labels)
                took = time.perf_counter() - start
                (a, b), (c, d) = (
                    scores(model, part.bags, part.labels) for part in (data.validation, data.test)
                )
                found = f"{a:6.3f} {b:6.3f}  {c:6.3f} {d:6.3f} {took:5.0f}"
                print(f"{seed}  {name:9s}  {what:26s} {found}", flush=True)


def attention_bags(seed: int, n: int = 1200) -> tuple[np.ndarray, ...]:
    """Draw points (n, 50, 30), counts, the truth u and the weights of points."""
    rng, size, p = np.random.default_rng(seed), 50, 30
    x = rng.normal(size=(n * size, p))
    x = (x - x.mean(axis=0)) / x.std(axis=0) / np.sqrt(p)
    logs = x @ rng.normal(size=p)
    logs = (logs * np.sqrt(0.8) / logs.std()).reshape(n, size)
    weights = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    u = np.sum(weights * (x @ rng.normal(size=p)).reshape(n, size), axis=1)
    u = (u - u.mean()) * np.sqrt(0.5) / u.std()
    y = rng.binomial(2, 1.0 / (1.0 + np.exp(1.0 - u)))
    return x.reshape(n, size, p), y.astype(float), u, weights


def attention(draws: int) -> None:
    """Print rank correlation with u, AUC of the heaviest tenth of points, and coverage."""
    from scipy.stats import spearmanr
    from sklearn.metrics import roc_auc_score

    rows = []
    for seed in range(draws):
        x, y, u, weights = attention_bags(seed)
        train, test = Bags.from_array(x[:1000]), Bags.from_array(x[1000:])
        for learn in (None, "point_weights"):
            embedding = KernelEmbedding(30, kernel="linear", learn=learn)
            start = time.perf_counter()
            model = bagwise.ShrinkageRegressor(embedding).fit(train, y[:1000])
            took, found = time.perf_counter() - start, model.predict_dist(test)
            auc, g = np.nan, model.features_.point_weights
            if g is not None:
                heavy = weights[1000:] >= np.quantile(weights[1000:], 0.9)
                auc = roc_auc_score(heavy.ravel(), model.features_(test.points) @ g)
            rho = spearmanr(found.mean, u[1000:])[0]
            low, high = found.interval(0.8).T
            cover = np.mean((low <= y[1000:]) & (y[1000:] <= high))
            rows.append((learn or "mean", rho, auc, cover))
            print(
                f"draw {seed}  {learn or 'mean pooling':14s} Spearman {rho:.3f}  AUC {auc:.3f}  "
                f"80 % cover {cover:.3f}  median size {np.median(found.sizes):.1f}  {took:.0f} s"
            )
    for name in ("mean", "point_weights"):
        each = np.array([row[1:] for row in rows if row[0] == name])
        print(f"{name:14s} on average {each.mean(axis=0).round(3)} ± {each.std(axis=0).round(3)}")


def digit_bags(seed: int) -> tuple[Bags, np.ndarray]:
    """Return images of digits as bags of patches, with the place of each, labelled by the digit."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8) / 16.0
    places = [(i, j) for i in range(0, 5) for j in range(0, 5)]
    patches = np.stack(
        [
            np.column_stack(
                [
                    images[:, i : i + 4, j : j + 4].reshape(len(images), 16),
                    np.full(len(images), i / 2.0 - 1.0),
                    np.full(len(images), j / 2.0 - 1.0),
                ]
            )
            for i, j in places
        ],
        axis=1,
    )
    order = np.random.default_rng(seed).permutation(len(images))
    return Bags.from_array(patches[order]), labels[order].astype(float)


def digits() -> None:
    """Print test scores of the digit as a number, by a network, landmarks and Deep Sets."""
    from benchmarks.deep_sets import DeepSets

    bags, y = digit_bags(0)
    train, test = slice(0, 1200), slice(1200, None)
    rows: list[Row] = [
        ("fixed landmarks", lambda: bagwise.ShrinkageRegressor(KernelEmbedding(200))),
        (
            "network",
            lambda: bagwise.ShrinkageRegressor(
                NetworkEmbedding(64, hidden=(128,), learn=Training(epochs=60, learning_rate=0.003))
            ),
        ),
        ("deep sets", lambda: DeepSets()),
    ]
    for name, make in rows:
        start = time.perf_counter()
        model = make().fit(bags[train], y[train])
        took = time.perf_counter() - start
        mse, nll = scores(model, bags[test], y[test])
        print(f"{name:16s} RMSE {mse**0.5:.3f}  NLL {nll:.3f}  {took:.0f} s")


def gradient(n: int = 1000, d: int = 90) -> None:
    """Print seconds of a gradient of A_i^-1 δ_i over n bags of distinct sizes."""
    import jax
    import jax.numpy as jnp

    from bagwise.inference.learning import solve_each

    rng = np.random.default_rng(0)
    with jax.enable_x64(True):
        root = rng.normal(size=(d, 3 * d))
        R, S = jnp.asarray(root @ root.T / d), jnp.asarray(np.eye(d) + 0.1)
        sizes, rows = jnp.asarray(np.arange(1.0, n + 1)), jnp.asarray(rng.normal(size=(n, d)))

        def ours(R: Any, S: Any) -> Any:
            return jnp.sum(solve_each(R, S, 0.7, sizes, rows) ** 2)

        def one_by_one(R: Any, S: Any) -> Any:
            def solve(size: Any, row: Any) -> Any:
                factor = jax.scipy.linalg.cho_factor(0.7 * R + S / size)
                return jnp.sum(jax.scipy.linalg.cho_solve(factor, row) ** 2)

            return jnp.sum(jax.vmap(solve)(sizes, rows))

        seconds = []
        for function in (ours, one_by_one):
            compiled = jax.jit(jax.grad(function, argnums=(0, 1)))
            found = jax.block_until_ready(compiled(R, S))
            best = np.inf
            for _ in range(3):
                start = time.perf_counter()
                jax.block_until_ready(compiled(R, S))
                best = min(best, time.perf_counter() - start)
            seconds.append(best)
            both = (found[0] + found[0].T) / 2.0  # a Cholesky factor reads one triangle alone
            print(f"{function.__name__:12s} {best:.4f} s, |gradient| {jnp.linalg.norm(both):.6g}")
        print(f"{seconds[1] / seconds[0]:.0f} times as fast")


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("gamma", "attention", "digits", "gradient"))
    parser.add_argument("--seeds", type=int, nargs="+", default=[23])
    parser.add_argument("--draws", type=int, default=3)
    given = parser.parse_args()
    {
        "gamma": lambda: gamma(given.seeds),
        "attention": lambda: attention(given.draws),
        "digits": digits,
        "gradient": gradient,
    }[given.what]()


if __name__ == "__main__":
    main()
