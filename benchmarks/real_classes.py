"""Real bags with classes, the same folds for all models: ours beside others on bag moments.

Each set is cut into ten folds at random (seed 0); a model sees the other folds only, and has its
defaults. The rivals get of each bag what they get in :mod:`benchmarks.real_bags`.

    python -m benchmarks.real_classes [catholic musk …] [--models gp logistic …] [--data FOLDER]

``--data`` adds the Parquet files of a folder, with columns ``bag``, ``label`` and the rest points.
Prints log loss, accuracy and the slope of a recalibration: 1 if probabilities are as sure as they
should be, above 1 if they could be surer, with its standard error, of all bags and by size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logit
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, LogisticRegressionCV
from sklearn.metrics import log_loss
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import bagwise
from bagwise import Bags, datasets
from benchmarks.real_bags import RealSet, from_file, moments

N_FOLDS = 10

# Probabilities further out than this count as this far: a forest says 0 and 1.
LEAST = 1e-3


def sets(names: list[str], folder: str | None) -> Iterator[RealSet]:
    """Yield the sets asked for, or all."""
    makers: dict[str, Callable[[], RealSet]] = {"catholic": _catholic, "musk": _musk}
    for file in sorted(Path(folder).glob("*.parquet")) if folder else ():
        makers[file.stem] = lambda file=file: from_file(file)  # type: ignore[misc]
    for name, make in makers.items():
        if not names or name in names:
            yield make()


def _catholic() -> RealSet:
    schools = datasets.load_schools()
    return RealSet("catholic", schools.bags, schools.catholic)


def _musk() -> RealSet:
    musk = datasets.load_musk()
    return RealSet("musk", musk.bags, musk.labels)


class OnMoments:
    """A classifier of scikit-learn on bag moments."""

    def __init__(self, model: Any) -> None:
        self.model = make_pipeline(StandardScaler(), model)

    def fit(self, bags: Bags, y: np.ndarray) -> OnMoments:
        """Fit."""
        self.model.fit(moments(bags), y)
        return self

    def predict_proba(self, bags: Bags) -> np.ndarray:
        """Return the probabilities of the classes."""
        return self.model.predict_proba(moments(bags))


MODELS: dict[str, Callable[[], Any]] = {
    "gp": bagwise.DistributionGPClassifier,
    "shrinkage": bagwise.ShrinkageClassifier,
    "laplace": lambda: bagwise.BDRClassifier(inference="laplace"),
    "bayes-logistic": bagwise.BayesianLogisticClassifier,
    "logistic": lambda: OnMoments(LogisticRegression()),
    "logistic-cv": lambda: OnMoments(
        LogisticRegressionCV(
            Cs=10, l1_ratios=(0,), scoring="neg_log_loss", use_legacy_attributes=False
        )
    ),
    "forest": lambda: OnMoments(RandomForestClassifier(300, random_state=0, n_jobs=2)),
    "boosting": lambda: OnMoments(HistGradientBoostingClassifier(random_state=0)),
}


def slope(y: np.ndarray, probability: np.ndarray) -> tuple[float, float]:
    """Return the slope of labels on the logit of their probability, with its standard error.

    Of two classes only. Where the probabilities tell the classes apart without a mistake, the slope
    has no end and the error is as large as it.
    """
    if probability.shape[1] != 2 or len(np.unique(y)) < 2:
        return float("nan"), float("nan")
    at = logit(np.clip(probability[:, [1]], LEAST, 1 - LEAST))
    fitted = LogisticRegression(C=1e6).fit(at, y)
    p = fitted.predict_proba(at)[:, 1]
    design = np.column_stack([np.ones(len(y)), at])
    information = (design.T * (p * (1 - p))) @ design
    return float(fitted.coef_[0, 0]), float(np.sqrt(np.linalg.pinv(information)[1, 1]))


def slopes_by_size(y: np.ndarray, probability: np.ndarray, sizes: np.ndarray) -> list[str]:
    """Return the slopes of all bags and of each third of them by size, as text."""
    edges = np.quantile(sizes, [1 / 3, 2 / 3])
    third = np.searchsorted(edges, sizes)
    some = [np.ones(len(y), dtype=bool), *(third == k for k in range(3))]
    found = [slope(y[rows], probability[rows]) for rows in some]
    return ["-" if np.isnan(value) else f"{value:.2f} ± {error:.2f}" for value, error in found]


def _joined(y: np.ndarray, probability: np.ndarray, sizes: np.ndarray) -> tuple[str, str]:
    first, *thirds = slopes_by_size(y, probability, sizes)
    return first, ", ".join(thirds)


def main() -> None:
    """Print the scores of every model on every set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--data", help="folder of further sets")
    parser.add_argument("--folds", type=int, default=N_FOLDS, help="how many of the ten to run")
    parser.add_argument("--seed", type=int, default=0, help="of the folds")
    options = parser.parse_args()
    for real in sets(options.sets, options.data):
        bags, y = real.bags, real.labels.astype(np.int64)
        folds = list(KFold(N_FOLDS, shuffle=True, random_state=options.seed).split(y))
        print(f"{real.name}: {bags.n_bags} bags, classes {np.bincount(y)}", flush=True)
        for name in options.models:
            start, asked, found = time.perf_counter(), list[np.ndarray](), list[np.ndarray]()
            sizes = np.hstack([bags.sizes[test] for _, test in folds[: options.folds]])
            for train, test in folds[: options.folds]:
                model = MODELS[name]().fit(bags[train], y[train])
                found.append(model.predict_proba(bags[test]))
                asked.append(y[test])
            seconds = (time.perf_counter() - start) / options.folds
            labels, probability = np.hstack(asked), np.vstack(found)
            probability = np.clip(probability, LEAST, 1 - LEAST)
            probability /= probability.sum(axis=1, keepdims=True)
            right = np.mean(probability.argmax(axis=1) == labels)
            print(
                f"  {name:12s} log loss {log_loss(labels, probability):.4f}   accuracy {right:.1%}"
                f"   slope {', thirds by size '.join(_joined(labels, probability, sizes))}"
                f"   {seconds:5.1f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
