"""Problems with published numbers, by one default configuration of the Gaussian process.

    python -m benchmarks.problems [modes toy-mean rotation spread musk] [--draws 5]

Each prints our score, mean and standard deviation over draws, beside the figure to beat.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

import bagwise
from bagwise.datasets import load_musk

Bag = np.ndarray


@dataclass(frozen=True, eq=False)
class Draw:
    """Training and test bags with their labels, and how a prediction is scored."""

    train: list[Bag]
    labels: np.ndarray
    test: list[Bag]
    truth: np.ndarray


def _split(bags: list[Bag], y: np.ndarray, n_test: int) -> Draw:
    return Draw(bags[:-n_test], y[:-n_test], bags[-n_test:], y[-n_test:])


def modes(seed: int, n_points: int = 50) -> Draw:
    """Return mixtures of one or two components; the label is how many, less one."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, 250)
    bags = []
    for extra in y:
        parts = []
        for _ in range(extra + 1):
            root = rng.uniform(-1, 1, (2, 2))
            cov = rng.uniform(1, 4) * root @ root.T + np.diag(rng.uniform(0, 1, 2))
            parts.append((rng.uniform(-5, 5, 2), cov))
        which = rng.integers(0, extra + 1, n_points)
        bags.append(np.array([rng.multivariate_normal(*parts[k]) for k in which]))
    return _split(bags, y.astype(float), 100)


def toy_mean(seed: int) -> Draw:
    """Return points around m; the label is (m1 − m2²)/(1 + s)."""
    rng = np.random.default_rng(seed)
    m, s = rng.uniform(0.2, 0.8, (100, 2)), rng.uniform(0.01, 0.02, 100)
    bags = [rng.normal(center, scale, (30, 2)) for center, scale in zip(m, s, strict=True)]
    return _split(bags, (m[:, 0] - m[:, 1] ** 2) / (1 + s), 50)


def rotation(seed: int, n_train: int = 128) -> Draw:
    """Return rotated Gaussians; the label is the entropy of a marginal, as the authors have it."""
    rng = np.random.default_rng(seed)
    root = np.random.RandomState(3).rand(2, 2).T

    def some(n: int) -> tuple[list[Bag], np.ndarray]:
        bags, y = [], []
        for angle in np.linspace(0, np.pi, n):
            turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
            cov = turn @ root @ root.T @ turn.T
            bags.append(rng.multivariate_normal(np.zeros(2), cov, 512))
            y.append(0.5 * np.log(2 * np.pi * np.e * cov[0, 0] ** 2))
        return bags, np.array(y)

    return Draw(*some(n_train), *some(512))


def spread(seed: int) -> Draw:
    """Return normal points; the label is the variance of the first coordinate as drawn."""
    rng = np.random.default_rng(seed)
    center, var = rng.uniform(-10, 10, (1500, 2)), rng.uniform(0, 10, (1500, 2))
    bags = [rng.normal(m, np.sqrt(v), (500, 2)) for m, v in zip(center, var, strict=True)]
    return _split(bags, np.array([bag[:, 0].var() for bag in bags]), 500)


def _rmse(draw: Draw) -> float:
    model = bagwise.DistributionGPRegressor().fit(draw.train, draw.labels)
    return float(np.sqrt(np.mean((model.predict(draw.test) - draw.truth) ** 2)))


def _class_rmse(draw: Draw) -> float:
    model = bagwise.DistributionGPClassifier().fit(draw.train, draw.labels.astype(int))
    return float(np.sqrt(np.mean((model.predict(draw.test) - draw.truth) ** 2)))


def _mse(draw: Draw) -> float:
    return _rmse(draw) ** 2


def musk(seed: int) -> float:
    """Return the accuracy of ten folds on Musk 1."""
    data = load_musk()
    folds = StratifiedKFold(10, shuffle=True, random_state=seed).split(data.labels, data.labels)
    right = 0
    for train, test in folds:
        model = bagwise.DistributionGPClassifier().fit(data.bags[train], data.labels[train])
        right += int(np.sum(model.predict(data.bags[test]) == data.labels[test]))
    return right / len(data.labels)


PROBLEMS: dict[str, tuple[str, Callable[[int], float]]] = {
    "modes": ("RMSE of the class, .40", lambda seed: _class_rmse(modes(seed))),
    "modes-250": ("RMSE of the class, .506 published", lambda seed: _class_rmse(modes(seed, 250))),
    "toy-mean": ("RMSE, .0047", lambda seed: _rmse(toy_mean(seed))),
    "rotation": ("MSE, .0041", lambda seed: _mse(rotation(seed))),
    "rotation-512": ("MSE, .0015", lambda seed: _mse(rotation(seed, 512))),
    "spread": ("MSE, 3.6e-5", lambda seed: _mse(spread(seed))),
    "musk": ("accuracy, .88", musk),
}


def _run(name: str, draws: int) -> Iterator[Any]:
    for seed in range(draws):
        yield PROBLEMS[name][1](seed)


def main() -> None:
    """Print the score of each problem."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS))
    parser.add_argument("--draws", type=int, default=5)
    options = parser.parse_args()
    for name in options.problems:
        start, found = time.perf_counter(), np.array(list(_run(name, options.draws)))
        seconds = (time.perf_counter() - start) / options.draws
        score = f"{found.mean():.3g} ± {found.std():.2g}"
        print(f"{name:14s} {score:20s} to beat: {PROBLEMS[name][0]}   {seconds:.1f} s", flush=True)


if __name__ == "__main__":
    main()
