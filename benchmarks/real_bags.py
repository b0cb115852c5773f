"""Real bags, the same folds for all models: ours beside what people use on bag moments.

Each set is cut into folds at random (seed 0); a model sees the other folds only, and has its
defaults. The rivals get of each bag the mean, standard deviation, and the quantiles 10, 50 and 90 %
of every column, the covariates and log N; a small DeepSets gets the points. Where a rival has no
predictive distribution, it is a Gaussian with the variance of its residuals out of bag or out of
fold within the training bags.

    python -m benchmarks.real_bags [radon schools …] [--models gp forest …] [--data FOLDER]

``--data`` adds the Parquet files of a folder, with columns ``bag``, ``label`` and the rest points.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from sklearn.datasets import load_digits
from sklearn.ensemble import HistGradientBoostingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Bags, datasets
from bagwise.bags.bags import as_bags
from benchmarks.deep_sets import DeepSets

N_FOLDS = 5

# The process that is told that labels are shares, where they are.
SHARES = "gp-shares"

# scikit-learn's process takes minutes for more.
MOST_GP_BAGS = 1000


@dataclass(frozen=True, eq=False)
class RealSet:
    """Bags and their labels."""

    name: str
    bags: Bags
    labels: np.ndarray


def sets(names: list[str], folder: str | None) -> Iterator[RealSet]:
    """Yield the sets asked for, or all."""
    makers: dict[str, Callable[[], RealSet]] = {
        "radon": _radon,
        "schools": _schools,
        "polls": _polls,
        "digits": _digits,
        "multilevel": _multilevel,
    }
    for file in sorted(Path(folder).glob("*.parquet")) if folder else ():
        makers[file.stem] = lambda file=file: from_file(file)  # type: ignore[misc]
    for name, make in makers.items():
        if not names or name in names:
            yield make()


def from_file(file: Path) -> RealSet:
    """Read the bags of a file."""
    bags, labels = Bags.from_frame(pq.read_table(file), bag="bag", label="label")
    return RealSet(file.stem, bags, labels)


def _radon() -> RealSet:
    radon = datasets.load_radon()
    return RealSet("radon", radon.bags, radon.labels)


def _schools() -> RealSet:
    schools = datasets.load_schools()
    return RealSet("schools", schools.bags, schools.share_academic)


def _polls() -> RealSet:
    polls = datasets.load_polls()
    return RealSet("polls", polls.bags, polls.labels)


def _digits() -> RealSet:
    """Return digits as bags of some of their pixels (column, row, ink); the figure is the label."""
    images, figure = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    chosen = rng.permutation(len(images))[:1000]
    row, column = np.divmod(np.arange(64), 8)
    bags = []
    for image in images[chosen]:
        some = rng.permutation(64)[: rng.integers(10, 64)]
        bags.append(np.column_stack([column[some], row[some], image[some]]).astype(float))
    return RealSet("digits", Bags.from_list(bags), figure[chosen].astype(float))


def _multilevel() -> RealSet:
    """Return simulated schools; the label is no linear function of level and spread of pupils."""
    rng = np.random.default_rng(0)
    sizes = np.maximum(1, rng.lognormal(2.5, 1.0, 600)).astype(int)
    level, spread = rng.normal(0, 1, 600), rng.lognormal(0, 0.4, 600)
    each = zip(level, spread, sizes, strict=True)
    bags = [rng.normal([m, 0.5 * m], [s, 1.0], (n, 2)) for m, s, n in each]
    labels = np.sin(1.5 * level) + spread**2 / (1 + spread**2) + rng.normal(0, 0.1, 600)
    return RealSet("multilevel", Bags.from_list(bags), labels)


def moments(bags: Bags) -> np.ndarray:
    """Return mean, sd and quantiles of every column, covariates and log N of each bag."""
    rows = []
    for i in range(bags.n_bags):
        x = np.asarray(bags[i])
        levels = np.quantile(x, [0.1, 0.5, 0.9], axis=0).ravel()
        rows.append(np.hstack([x.mean(axis=0), x.std(axis=0), levels, np.log(len(x))]))
    return np.hstack([np.array(rows), *([] if bags.covariates is None else [bags.covariates])])


class OnMoments:
    """A model of scikit-learn on bag moments, with a Gaussian around what it predicts."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, bags: Bags, y: np.ndarray) -> OnMoments:
        """Fit, and learn the variance of residuals out of fold."""
        x = moments(bags)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not isinstance(self.model[-1], GaussianProcessRegressor):
                self.var = np.mean((y - cross_val_predict(self.model, x, y, cv=5)) ** 2)
            elif len(x) > MOST_GP_BAGS:
                some = np.random.default_rng(0).permutation(len(x))[:MOST_GP_BAGS]
                x, y = x[some], y[some]
            self.model.fit(x, y)
        return self

    def predict(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance."""
        x = moments(bags)
        if isinstance(self.model[-1], GaussianProcessRegressor):
            mean, sd = self.model.predict(x, return_std=True)
            return mean, sd**2
        return self.model.predict(x), np.full(len(x), self.var)


class QuantileForest:
    """A forest whose prediction has the moments of the training labels that share its leaves."""

    def fit(self, bags: Bags, y: np.ndarray) -> QuantileForest:
        """Grow the forest."""
        x = moments(bags)
        self.forest = RandomForestRegressor(300, min_samples_leaf=5, random_state=0, n_jobs=2)
        self.forest.fit(x, y)
        self.leaves, self.y = self.forest.apply(x), y
        return self

    def predict(self, bags: Bags) -> tuple[np.ndarray, np.ndarray]:
        """Return mean and variance of the labels in the leaves."""
        asked = self.forest.apply(moments(bags))
        weights = np.zeros((len(asked), len(self.y)))
        for tree in range(asked.shape[1]):
            same = asked[:, tree][:, None] == self.leaves[:, tree]
            weights += same / same.sum(axis=1, keepdims=True)
        weights /= asked.shape[1]
        mean = weights @ self.y
        return mean, np.maximum(weights @ self.y**2 - mean**2, 1e-9 * self.y.var())


class Ours:
    """A model of this package."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, bags: Bags, y: np.ndarray) -> Ours:
        """Fit."""
        self.model.fit(bags, y)
        return self

    def predict(self, bags: Bags) -> Any:
        """Return the predictive distribution."""
        return self.model.predict_dist(bags)


def _scaled(model: Any) -> OnMoments:
    return OnMoments(make_pipeline(StandardScaler(), model))


def _process() -> GaussianProcessRegressor:
    kernel = ConstantKernel() * RBF(3.0, (0.1, 1e3)) + WhiteKernel(0.1, (1e-6, 10.0))
    return GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)


MODELS: dict[str, Callable[[], Any]] = {
    "gp": lambda: Ours(bagwise.DistributionGPRegressor()),
    SHARES: lambda: Ours(bagwise.DistributionGPRegressor(support=(0, 1))),
    "shrinkage": lambda: Ours(bagwise.ShrinkageRegressor()),
    "ridge": lambda: _scaled(RidgeCV(np.logspace(-3, 4, 15))),
    "forest": lambda: _scaled(RandomForestRegressor(300, random_state=0, n_jobs=2)),
    "quantile-forest": QuantileForest,
    "boosting": lambda: _scaled(HistGradientBoostingRegressor(random_state=0)),
    "moments-gp": lambda: _scaled(_process()),
    "deep-sets": DeepSets,
}


def scores(model: Any, bags: Bags, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return squared errors and minus log densities."""
    found = model.predict(bags)
    if isinstance(found, tuple):
        mean, var = found
        return (y - mean) ** 2, 0.5 * (np.log(2 * np.pi * var) + (y - mean) ** 2 / var)
    return (y - found.mean) ** 2, -found.log_prob(y)


def main() -> None:
    """Print RMSE and NLL of every model on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--data", help="folder of further sets")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="how many of the five to run")
    options = parser.parse_args()
    for real in sets(options.sets, options.data):
        bags, y = as_bags(real.bags), real.labels
        folds = list(KFold(N_FOLDS, shuffle=True, random_state=0).split(y))[: options.folds]
        print(f"{real.name}: {bags.n_bags} bags, sd {y.std():.3f}", flush=True)
        for name in options.models:
            if name == SHARES and (y.min() < 0 or y.max() > 1):
                continue
            start, squares, losses = time.perf_counter(), list[Any](), list[Any]()
            for train, test in folds:
                model = MODELS[name]().fit(bags[train], y[train])
                square, loss = scores(model, bags[test], y[test])
                squares.append(square)
                losses.append(loss)
            seconds = (time.perf_counter() - start) / len(folds)
            rmse, nll = np.sqrt(np.mean(np.hstack(squares))), np.mean(np.hstack(losses))
            print(f"  {name:16s} RMSE {rmse:8.4f}   NLL {nll:8.4f}   {seconds:5.1f} s", flush=True)


if __name__ == "__main__":
    main()
