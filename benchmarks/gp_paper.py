"""The Gaussian process on the paper's data: what share of the gap to the optimum it closes.

For every setting of both studies, with the code and the protocol of ``bagwise reproduce``: choices
on the validation bags, scores on the test bags. The gap is that between the best score the authors
stored for the setting and the Bayes-optimal prediction. Prints MSE / NLL of each setting, and the
shares on average.

    python -m benchmarks.gp_paper [gamma-varying] [gamma-fixed] [--setting 25]
                                  [--ablate] [--by-size] [--quick]

``--ablate`` prints a line for the model and for each of its parts left out, with the difference
that it makes: "C = 0", the embedding taken as known (``sampling=0.0``); "τ = 1", points taken as a
sample (``sampling=1.0``); "r = k", the prior of the kernel (``prior="kernel"``); "no spread"
(``spread=False``). By default of the settings 0, 25 and 50 of varying size, and of the first draw
of fixed size.

``--by-size`` prints at each setting a line for every bag size: MSE and NLL beside those of the
optimum, and what share of the whole distance to it is in bags of that size.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bagwise.datasets.paper import load_paper_results
from bagwise.estimators.selection import FeatureCache
from bagwise.reproduce.cell import Cell, compute, load_data
from bagwise.reproduce.study import Study

METHODS = ("Optimal", "GP", "GP, range")
METRICS = ("mse", "nll")

# What is left out of the model, and the settings at which that is tried.
ABLATIONS: dict[str, dict[str, Any]] = {
    "C = 0": {"sampling": 0.0},
    "τ = 1": {"sampling": 1.0},
    "r = k": {"prior": "kernel"},
    "no spread": {"spread": False},
}
ABLATED = {"gamma-varying": [0, 25, 50], "gamma-fixed": [23]}

Cells = Mapping[str, Cell]


def ablated(study: Study) -> Study:
    """Return the study with the methods that lack a part, which are tuned as the whole one is."""
    whole = study.methods["GP"]
    fewer = {
        name: replace(whole, name=name, params={**whole.params, **params})
        for name, params in ABLATIONS.items()
    }
    return replace(study, methods={**study.methods, **fewer})


def authors_best(study: Study, setting: int, metric: str) -> float:
    """Return the best score that the authors stored for a setting."""
    rows = load_paper_results(experiment=study.name, metric=metric)
    found = [row.value for row in rows if row.setting == setting and row.method != "Optimal"]
    return min(found, default=float("nan"))


def closed(study: Study, setting: int, cells: Cells) -> Iterator[tuple[str, str, float]]:
    """Yield the share of the gap that each method closes, by metric."""
    for metric in METRICS:
        best, optimal = authors_best(study, setting, metric), cells["Optimal"].scores[metric]
        for method in fitted(cells):
            yield method, metric, (best - cells[method].scores[metric]) / (best - optimal)


def fitted(cells: Cells) -> list[str]:
    """Return the methods that have something to learn."""
    return [method for method in cells if method != "Optimal"]


def in_one_line(cells: Cells) -> str:
    """Return the scores of all methods."""
    scores = "  ".join(
        f"{method} {cell.scores['mse']:.3f} / {cell.scores['nll']:.3f}"
        for method, cell in cells.items()
    )
    return f"{scores}  ({cells['GP'].seconds['tune']:.0f} s, {cells['GP'].params})"


def by_method(cells: Cells) -> Iterator[str]:
    """Yield a line of scores for each method, with what it has more than the whole model."""
    for method, cell in cells.items():
        line = f"  {method:10s}"
        for metric in METRICS:
            more = cell.scores[metric] - cells["GP"].scores[metric]
            line += f"   {metric.upper()} {cell.scores[metric]:7.4f} ({more:+.4f})"
        yield f"{line}   {cell.seconds['tune']:5.0f} s"


def by_size(cells: Cells) -> Iterator[str]:
    """Yield a line for every bag size: scores beside the optimum, shares of the distance to it."""
    best = _losses(cells["Optimal"])
    sizes = cells["Optimal"].sizes
    yield f"  {'':10s}{'N':>6s}{'bags':>6s}" + "".join(
        f"{name:>10s}" for metric in METRICS for name in (metric.upper(), "optimal", "share")
    )
    for method in fitted(cells):
        more = {metric: loss - best[metric] for metric, loss in _losses(cells[method]).items()}
        for size in np.unique(sizes).tolist():
            some, line = sizes == size, ""
            for metric in METRICS:
                optimal, extra = best[metric][some].mean(), more[metric][some]
                share = extra.sum() / more[metric].sum()
                line += f"{optimal + extra.mean():10.4f}{optimal:10.4f}{share:10.0%}"
            yield f"  {method:10s}{size:6d}{np.count_nonzero(some):6d}{line}"


def _losses(cell: Cell) -> dict[str, np.ndarray]:
    """Return the losses of each bag, by metric."""
    return {"mse": (cell.labels - cell.mean) ** 2, "nll": -cell.log_prob}


def settings_of(study: Study, asked: Sequence[int] | None, ablate: bool) -> list[int]:
    """Return the settings to run: those asked for that the study has, or by default."""
    if asked is None:
        asked = ABLATED[study.name] if ablate else study.settings
    return [setting for setting in asked if setting in study.settings]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print scores by setting, and the shares on average."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("studies", nargs="*", default=["gamma-varying", "gamma-fixed"])
    parser.add_argument("--setting", type=int, action="append")
    parser.add_argument("--ablate", action="store_true", help="leave out parts of the model")
    parser.add_argument("--by-size", action="store_true", help="scores of bags of each size")
    parser.add_argument("--quick", action="store_true", help="one setting and few bags")
    options = parser.parse_args(arguments)
    methods = ("Optimal", "GP", *ABLATIONS) if options.ablate else METHODS
    for name in options.studies:
        study = ablated(Study.load(name, quick=options.quick))
        shares = dict[tuple[str, str], list[float]]()
        for setting in settings_of(study, options.setting, options.ablate):
            data, cache = load_data(study, setting), FeatureCache()
            cells = {m: compute(study, setting, m, data, cache) for m in methods}
            for method, metric, share in closed(study, setting, cells):
                shares.setdefault((method, metric), []).append(share)
            lines = [f"{name} {setting}: " + in_one_line(cells)]
            if options.ablate:
                lines = [f"{name} {setting}:", *by_method(cells)]
            print("\n".join([*lines, *(by_size(cells) if options.by_size else ())]), flush=True)
        for (method, metric), values in shares.items():
            print(f"{name}, {method}: {np.nanmean(values):.1%} of the gap in {metric} closed")


if __name__ == "__main__":
    main()
