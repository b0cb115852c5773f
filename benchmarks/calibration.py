"""Are the answers as sure as they should be? Coverage, classes and molecules.

    python -m benchmarks.calibration [coverage] [classes] [musk] [--seeds N] [--out PATH]

- coverage: 50, 80 and 95 % intervals by bag size on gamma bags of seeds that nothing was chosen by
- classes: log loss, reliability and the slope of a recalibration (1 if probabilities are as sure as
  they should be, above 1 if they could be surer) by bag size on the same bags, labelled y > 6
- musk: 5 × 10-fold accuracy on 92 molecules, beside published figures
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from bagwise.datasets import gamma_varying, load_musk
from bagwise.estimators.classifiers import (
    BayesianLogisticClassifier,
    BDRClassifier,
    ShrinkageClassifier,
)
from bagwise.estimators.gp import DistributionGPClassifier
from bagwise.estimators.regressors import BayesianLinearRegressor, BDRRegressor, ShrinkageRegressor
from bagwise.estimators.selection import tune
from bagwise.inference import NUTS
from bagwise.predictions.metrics import log_loss, mse, nll
from benchmarks.real_classes import slope, slopes_by_size

# The paper's experiments use seeds 23 to 32; nothing was ever chosen on these.
FIRST_SEED = 200
LEVELS = (0.5, 0.8, 0.95)
QUIET = NUTS(progress=False)

MUSK_GRID = {"n_landmarks": (30, 60, 90), "bandwidth": (0.5, 1.0, 2.0, 4.0)}
N_FOLDS = 10
PUBLISHED = {"bag mean, published": 0.832, "set kernel, published": 0.880}

Lines = Iterator[str]


def coverage(n_seeds: int) -> Lines:
    """Compare how often intervals hold the label with how often they say they do."""
    models: dict[str, Callable[[], Any]] = {
        "BLR": BayesianLinearRegressor,
        "shrinkage": ShrinkageRegressor,
        "BDR, Laplace": lambda: BDRRegressor(inference="laplace"),
        "BDR, NUTS": lambda: BDRRegressor(inference=QUIET),
    }
    hits: dict[tuple[str, int, float], list[np.ndarray]] = {}
    scores: dict[str, list[tuple[float, float, float]]] = {name: [] for name in models}
    for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
        data = gamma_varying(25, seed)
        y, sizes = data.test.labels, data.test.bags.sizes
        for name, make in models.items():
            start = time.perf_counter()
            model = make().fit(data.train.bags, data.train.labels)
            seconds = time.perf_counter() - start
            prediction = model.predict_dist(data.test.bags)
            scores[name].append((mse(prediction, y), nll(prediction, y), seconds))
            for level in LEVELS:
                lower, upper = prediction.interval(level).T
                inside = (lower <= y) & (y <= upper)
                for size in np.unique(sizes).tolist():
                    hits.setdefault((name, size, level), []).append(inside[sizes == size])
    yield f"## Coverage by bag size: {n_seeds} held-out seeds, s5 = 25, 1,000 training bags each"
    yield ""
    yield "Share of test labels inside central intervals; in brackets, standard errors away from"
    yield "what the interval says."
    yield ""
    yield "| model | N | " + " | ".join(f"{level:.0%}" for level in LEVELS) + " |"
    yield "|---|---|" + "---|" * len(LEVELS)
    for name, size in dict.fromkeys((name, size) for name, size, _ in hits):
        cells = [_share(np.concatenate(hits[name, size, level]), level) for level in LEVELS]
        yield f"| {name} | {size} | " + " | ".join(cells) + " |"
    yield ""
    yield "| model | MSE | NLL | seconds per fit |"
    yield "|---|---|---|---|"
    for name, rows in scores.items():
        error, density, seconds = np.mean(rows, axis=0)
        yield f"| {name} | {error:.3f} | {density:.3f} | {seconds:.1f} |"


def _share(inside: np.ndarray, level: float) -> str:
    share = float(inside.mean())
    error = np.sqrt(level * (1 - level) / len(inside))
    return f"{share:.1%} ({(share - level) / error:+.1f})"


CLASSIFIERS: dict[str, Callable[[], Any]] = {
    "logistic": BayesianLogisticClassifier,
    "shrinkage": ShrinkageClassifier,
    "laplace": lambda: BDRClassifier(inference="laplace"),
    "gp": DistributionGPClassifier,
    "nuts": lambda: BDRClassifier(inference=QUIET),
}


def classes(n_seeds: int, names: Sequence[str] = ()) -> Lines:
    """Compare classifiers on bags labelled by whether y > 6."""
    models = {name: CLASSIFIERS[name] for name in names or CLASSIFIERS}
    found: dict[str, list[tuple[np.ndarray, np.ndarray, np.ndarray]]] = {m: [] for m in models}
    losses: dict[str, list[float]] = {name: [] for name in models}
    for seed in range(FIRST_SEED, FIRST_SEED + n_seeds):
        data = gamma_varying(25, seed)
        labels = data.test.labels > 6
        for name, make in models.items():
            model = make().fit(data.train.bags, data.train.labels > 6)
            prediction = model.predict_dist(data.test.bags)
            losses[name].append(log_loss(prediction, labels))
            found[name].append((prediction.probability, labels, data.test.bags.sizes))
    yield f"## Classes y > 6: {n_seeds} held-out seeds, s5 = 25, 1,000 training bags each"
    yield ""
    yield "z: share of the second class less the mean probability, in standard errors, where the"
    yield "probability is below and above one half: an overconfident model is + below and − above."
    yield ""
    yield "| model | N | log loss | accuracy | z, p < ½ | z, p ≥ ½ | slope |"
    yield "|---|---|---|---|---|---|---|"
    for name, rows in found.items():
        p, y, sizes = (np.concatenate(column) for column in zip(*rows, strict=True))
        for size in ("all", *np.unique(sizes).tolist()):
            some = np.ones(len(y), bool) if size == "all" else sizes == size
            yield f"| {name} | {size} | " + " | ".join(_class_cells(p[some], y[some])) + " |"
    yield ""
    yield "Slopes of all bags, and of each third of them by size:"
    yield ""
    yield "| model | all | small | middle | large |"
    yield "|---|---|---|---|---|"
    for name, rows in found.items():
        p, y, sizes = (np.concatenate(column) for column in zip(*rows, strict=True))
        cells = slopes_by_size(y, np.column_stack([1 - p, p]), sizes)
        yield f"| {name} | " + " | ".join(cells) + " |"
    yield ""
    spread = {name: f"{np.mean(v):.4f} (sd {np.std(v):.4f})" for name, v in losses.items()}
    yield "Log loss, mean over seeds: " + ", ".join(f"{n} {text}" for n, text in spread.items())


def _class_cells(p: np.ndarray, y: np.ndarray) -> list[str]:
    loss = -np.mean(np.log(np.where(y, p, 1 - p)))
    cells = [f"{loss:.3f}", f"{np.mean((p >= 0.5) == y):.3f}"]
    for side in (p < 0.5, p >= 0.5):
        error = np.sqrt(np.sum(p[side] * (1 - p[side])))
        cells.append(f"{np.sum(y[side] - p[side]) / max(error, 1e-12):+.1f}")
    found, error = slope(y, np.column_stack([1 - p, p]))
    return [*cells, f"{found:.2f} ± {error:.2f}"]


def musk(n_repeats: int) -> Lines:
    """Cross-validate on the molecules."""
    data = load_musk()
    models: dict[str, Callable[[Any, Any], Any]] = {
        "ShrinkageClassifier, defaults": lambda X, y: ShrinkageClassifier().fit(X, y),
        "ShrinkageClassifier, tune": lambda X, y: _tuned(X, y),
        "BDRClassifier, Laplace": lambda X, y: BDRClassifier(inference="laplace").fit(X, y),
        "BayesianLogisticClassifier": lambda X, y: BayesianLogisticClassifier().fit(X, y),
    }
    yield f"## Musk 1: {n_repeats} × 10-fold accuracy over 92 molecules"
    yield ""
    yield "| model | accuracy | sd over repeats | log loss | slope |"
    yield "|---|---|---|---|---|"
    for name, fit in models.items():
        right, loss, slopes = [], [], []
        for repeat in range(n_repeats):
            p = _out_of_fold(fit, data, repeat)
            right.append(np.mean((p >= 0.5) == data.labels))
            loss.append(-np.mean(np.log(np.where(data.labels, p, 1 - p))))
            slopes.append(slope(data.labels, np.column_stack([1 - p, p]))[0])
        cells = f"{np.mean(right):.1%} | {np.std(right):.1%} | {np.mean(loss):.3f}"
        yield f"| {name} | {cells} | {np.mean(slopes):.2f} |"
    for name, accuracy in PUBLISHED.items():
        yield f"| {name} | {accuracy:.1%} | | | |"


def _tuned(X: Any, y: Any) -> Any:
    return tune(ShrinkageClassifier(), X, y, grid=MUSK_GRID, progress=False).estimator


def _out_of_fold(fit: Callable[[Any, Any], Any], data: Any, repeat: int) -> np.ndarray:
    p = np.zeros(len(data.labels))
    folds = StratifiedKFold(N_FOLDS, shuffle=True, random_state=repeat)
    for train, test in folds.split(data.labels, data.labels):
        model = fit(data.bags[train], data.labels[train])
        p[test] = model.predict_dist(data.bags[test]).probability
    return p


def main(arguments: list[str] | None = None) -> None:
    """Print the tables asked for, and write them."""
    parts: dict[str, Callable[[int], Lines]] = {
        "coverage": coverage,
        "classes": lambda seeds: classes(seeds, options.models or ()),
        "musk": musk,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help="coverage, classes, musk; by default all")
    parser.add_argument("--seeds", type=int, default=5, help="held-out seeds, or repeats on musk")
    parser.add_argument("--models", nargs="+", choices=list(CLASSIFIERS), help="of classes")
    parser.add_argument("--out", type=Path, default=Path("docs/results"), help="folder")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for part in options.parts or parts:
        lines = []
        for line in parts[part](options.seeds):
            print(line, flush=True)
            lines.append(line)
        (options.out / f"{part}.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
