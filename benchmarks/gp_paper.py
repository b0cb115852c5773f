"""The Gaussian process on the paper's data: what share of the gap to the optimum it closes.

For every setting of both studies, with the code and the protocol of ``bagwise reproduce``: choices
on the validation bags, scores on the test bags. The gap is that between the best score the authors
stored for the setting and the Bayes-optimal prediction.

    python -m benchmarks.gp_paper [gamma-varying] [gamma-fixed] [--setting 25]
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from bagwise.datasets.paper import load_paper_results
from bagwise.estimators.selection import FeatureCache
from bagwise.reproduce.cell import Cell, compute, load_data
from bagwise.reproduce.study import Study

METHODS = ("Optimal", "GP", "GP, range")
METRICS = ("mse", "nll")


def authors_best(study: Study, setting: int, metric: str) -> float:
    """Return the best score that the authors stored for a setting."""
    rows = load_paper_results(experiment=study.name, metric=metric)
    found = [row.value for row in rows if row.setting == setting and row.method != "Optimal"]
    return min(found, default=float("nan"))


def closed(study: Study, setting: int, cells: dict[str, Cell]) -> Iterator[tuple[str, str, float]]:
    """Yield the share of the gap that each method closes, by metric."""
    for metric in METRICS:
        best, optimal = authors_best(study, setting, metric), cells["Optimal"].scores[metric]
        for method in METHODS[1:]:
            yield method, metric, (best - cells[method].scores[metric]) / (best - optimal)


def main() -> None:
    """Print scores by setting, and the shares on average."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", default=["gamma-varying", "gamma-fixed"])
    parser.add_argument("--setting", type=int, action="append")
    options = parser.parse_args()
    for name in options.studies:
        study, shares = Study.load(name), dict[tuple[str, str], list[float]]()
        for setting in options.setting or study.settings:
            data, cache = load_data(study, setting), FeatureCache()
            cells = {m: compute(study, setting, m, data, cache) for m in METHODS}
            for method, metric, share in closed(study, setting, cells):
                shares.setdefault((method, metric), []).append(share)
            scores = "  ".join(
                f"{m} {cells[m].scores['mse']:.3f} / {cells[m].scores['nll']:.3f}" for m in METHODS
            )
            seconds = cells["GP"].seconds["tune"]
            print(
                f"{name} {setting}: {scores}  ({seconds:.0f} s, {cells['GP'].params})", flush=True
            )
        for (method, metric), values in shares.items():
            print(f"{name}, {method}: {np.nanmean(values):.1%} of the gap in {metric} closed")


if __name__ == "__main__":
    main()
