"""Parts of the campaign: what a unit of each does, and the table that its units make."""

from __future__ import annotations

import atexit
import csv
import functools
import importlib
import itertools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from bagwise import (
    Bags,
    BagwiseWarning,
    BayesianLinearRegressor,
    BDRRegressor,
    DistributionGPRegressor,
    ShrinkageRegressor,
    load,
)
from benchmarks.conformal import SIZES, World

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Part:
    """One kind of campaign: so many units, what one does, and the table of those that are done."""

    title: str
    units: int
    run: Callable[[int], dict[str, Any]]
    table: Callable[[Rows], Iterator[str]]


def header(*names: str) -> list[str]:
    """Return the first two lines of a table."""
    return ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]


def row(*cells: object) -> str:
    """Return a line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


# ---- simulation-based calibration ---------------------------------------------------------------

SBC_MODELS = ("gaussian", "probit", "logistic", "gp")
SBC_REPLICATIONS = 1000
SBC_EACH = 10
GP_DRAWS = 180
GP_SCALES = ("signal", "noise", "prior_scale", "sampling")
# Ranks are 0 to 60 draws below the truth; a p-value below the second, of some fifty, is marked.
SBC_BINS = 61
SUSPECT = 1e-4


def sbc(unit: int) -> dict[str, Any]:
    """Draw parameters, labels and posteriors; of each parameter the share of draws below it."""
    model, batch = SBC_MODELS[unit % len(SBC_MODELS)], unit // len(SBC_MODELS)
    rng = np.random.default_rng([77, unit])
    if model == "gp":
        scripts = importlib.import_module("sbc_gp")
        free = tuple(name for name in scripts.Scales.names() if name in GP_SCALES)
        made = scripts.problem(free)
        found = [scripts.ranks_of_one(made, rng, GP_DRAWS, 1.0) for _ in range(SBC_EACH)]
    else:
        scripts = importlib.import_module("sbc")
        # another set of bags each time
        bagged = scripts.Bagged.random(model, batch, **scripts.SHAPE[model])
        found = [scripts.ranks_of_one(bagged, rng, 1.0, 1.0) for _ in range(SBC_EACH)]
    names = list(found[0])
    return {"model": model, "ranks": {n: [round(float(f[n]), 6) for f in found] for n in names}}


def sbc_table(rows: Rows) -> Iterator[str]:
    """Test each parameter's ranks for being uniform."""
    ranks: dict[tuple[str, str], list[float]] = defaultdict(list)
    for each in rows:
        for name, values in each["ranks"].items():
            ranks[each["model"], name] += values
    yield "Ranks of the truth among draws are uniform if the sampler is right; p by Kolmogorov and"
    yield "Smirnov. Mean and standard deviation of a uniform one are .500 and .289."
    yield ""
    yield from header("model", "parameter", "replications", "mean rank", "sd", "p")
    rng = np.random.default_rng(0)
    for (model, name), values in sorted(ranks.items()):
        below = np.array(values) * (SBC_BINS - 1)
        u = (below + rng.random(len(below))) / SBC_BINS
        p = float(stats.kstest(u, "uniform").pvalue)
        mark = " *" if p < SUSPECT else ""
        yield row(model, name, len(u), f"{u.mean():.3f}", f"{u.std():.3f}", f"{p:.3g}{mark}")


# ---- coverage over worlds -----------------------------------------------------------------------

WORLDS = 200
FIRST_WORLD = 10_000  # others were looked at while models were made
LEVELS = (0.5, 0.8, 0.95)
N_TRAIN, N_TEST = 200, 400


def worlds_models() -> dict[str, Any]:
    """Return the models whose intervals are counted, with their defaults but for the budget."""
    return {
        "gp": DistributionGPRegressor(),
        "shrinkage": ShrinkageRegressor(),
        "BDR, Laplace": BDRRegressor(inference="laplace"),
        "BLR": BayesianLinearRegressor(),
    }


def coverage(unit: int) -> dict[str, Any]:
    """Fit the models in one world; how many labels of new bags lie inside, by size."""
    rng = np.random.default_rng([78, FIRST_WORLD + unit])
    world = World.draw(rng)
    bags, y = world.bags(rng, rng.choice(SIZES, N_TRAIN))
    new, labels = world.bags(rng, rng.choice(SIZES, N_TEST))
    held: dict[str, Any] = {}
    for name, model in worlds_models().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BagwiseWarning)
            prediction = model.fit(bags, y).predict_dist(new)
        ends = np.stack([prediction.interval(level) for level in LEVELS])
        inside = (ends[:, :, 0] <= labels) & (labels <= ends[:, :, 1])
        held[name] = {
            "held": [[int(i[new.sizes == n].sum()) for n in SIZES] for i in inside],
            "nll": float(-np.mean(prediction.log_prob(labels))),
        }
    counts = [int(np.sum(new.sizes == n)) for n in SIZES]
    return {"world": vars(world), "counts": counts, "models": held}


def coverage_table(rows: Rows) -> Iterator[str]:
    """Shares over worlds, with the standard error of their mean; labels' shape apart."""
    yield "Percent of new labels inside intervals, ± the standard error over worlds; 200 training"
    yield "bags of 3, 10, 30 or 100 points in each. NLL: mean over worlds."
    yield ""
    yield from header("model", "level", *[f"N = {n}" for n in SIZES], "all", "NLL")
    counts = np.array([each["counts"] for each in rows], dtype=float)
    for name in rows[0]["models"]:
        held = np.array([each["models"][name]["held"] for each in rows], dtype=float)
        nll = np.mean([each["models"][name]["nll"] for each in rows])
        for k, level in enumerate(LEVELS):
            shares = 100 * held[:, k] / counts
            whole = 100 * held[:, k].sum(axis=1) / counts.sum(axis=1)
            cells = [_with_error(x) for x in (*shares.T, whole)]
            yield row(name, f"{100 * level:g} %", *cells, f"{nll:.3f}")
    yield ""
    yield "By what the label depends on, and the shape of its noise, 80 % intervals of all sizes:"
    yield ""
    kinds = [("label", name) for name in sorted({each["world"]["label"] for each in rows})]
    kinds += [("noise", name) for name in sorted({each["world"]["noise"] for each in rows})]
    yield from header("model", *[f"{value}" for _, value in kinds])
    for name in rows[0]["models"]:
        cells = []
        for key, value in kinds:
            mine = [each for each in rows if each["world"][key] == value]
            inside = [sum(each["models"][name]["held"][1]) / sum(each["counts"]) for each in mine]
            cells.append(_with_error(100 * np.array(inside)))
        yield row(name, *cells)


def _with_error(values: np.ndarray) -> str:
    if len(values) < 2:
        return f"{values.mean():.1f}"
    return f"{values.mean():.1f} ± {values.std(ddof=1) / np.sqrt(len(values)):.1f}"


# ---- fuzz ---------------------------------------------------------------------------------------

FUZZ_CASES = 100_000
FUZZ_EACH = 100
FIRST_CASE = 1_000_000


def fuzz(unit: int) -> dict[str, Any]:
    """Run a hundred cases, of all kinds in the shares of ``make fuzz``."""
    runner = importlib.import_module("fuzz.runner")
    kinds = list(itertools.chain.from_iterable([k] * (n // 500) for k, n in runner.FULL.items()))
    counts, findings = Counter[str](), list[str]()
    for k in range(FUZZ_EACH):
        kind, number = kinds[k % len(kinds)], FIRST_CASE + unit * FUZZ_EACH + k
        result = runner.run_one(kind, number)
        counts.update(result.counts)
        counts[f"cases of {kind}"] += 1
        said = [finding.replace(tempfile.gettempdir(), "TMP")[:200] for finding in result.findings]
        findings += [f"fuzz {kind} {number}: {finding}" for finding in said]
    return {"counts": dict(counts), "findings": findings}


def fuzz_table(rows: Rows) -> Iterator[str]:
    """Add up what cases did, and list what they found."""
    total = sum((Counter(each["counts"]) for each in rows), Counter[str]())
    findings = [finding for each in rows for finding in each["findings"]]
    yield "From case 1,013,100 on nine fits of ten have a kernel, few landmarks and no averages, of"
    yield "which several are tried by default: 70 to 100 ms of CPU a case, before 170 to 200."
    yield ""
    yield from header("what", "number")
    for name, number in sorted(total.items()):
        yield row(name, f"{number:,}")
    yield row("findings", len(findings))
    yield ""
    yield from (f"- `PYTHONPATH=tests python -m {finding}`" for finding in findings)


# ---- kills --------------------------------------------------------------------------------------

KILLS = 1080  # some updates end before they are killed
KILLS_EACH = 10
COMMANDS = ("fit", "update", "reproduce")
SLOW = ("BDR", "GP", "Optimal")  # methods of the paper, and ours
# One kill in so many is of a process as a shell starts it. The others are of processes that are
# forked from one that has everything imported: five sixths of a small fit are imports, in which
# there is nothing to lose, so their kills come where there is, and take a sixth of the time.
SHELL_EACH = 10
# A command may take this long, in all tries together.
PATIENCE = 600.0


def kills(unit: int) -> dict[str, Any]:
    """Kill a command ten times at random moments, and let it end: all has to be there, and once.

    Whatever ends before it is killed has to have the right answer, and is begun anew; an update
    that was killed is made again before the next.
    """
    rng, command, broken, wrong, early = random.Random(unit), COMMANDS[unit % 3], 0, 0, 0
    took, expected = _undisturbed(command)
    with tempfile.TemporaryDirectory() as name:
        folder, killed = Path(name) / "killed", 0
        _prepare(command, folder)
        while killed < KILLS_EACH:
            run, start = RUNS[killed % SHELL_EACH > 0], time.perf_counter()
            ended = run(_arguments(command, killed), folder, took[run] * rng.uniform(0.0, 1.0))
            if ended:  # it takes less time than it did
                took[run] = min(took[run], time.perf_counter() - start)
            broken += not _is_whole(folder)
            killed, early = killed + (not ended), early + ended
            if ended and command == "reproduce":
                wrong += _answer(command, folder) != expected
                shutil.rmtree(folder)
                _prepare(command, folder)
            elif command == "update":
                killed += ended  # each of ten tables is added once; this one had no kill
                _must_end(command, folder, killed - 1)
        _must_end(command, folder, KILLS_EACH - 1)
        wrong += _answer(command, folder) != expected
    kept = killed - (early if command == "update" else 0)
    return {"command": command, "kills": kept, "early": early, "broken": broken, "wrong": wrong}


@functools.cache
def _undisturbed(command: str) -> tuple[dict[Callable[..., bool], float], Any]:
    """Return how long a command takes that nobody kills, by how it is run, and what it makes."""
    took = dict[Callable[..., bool], float]()
    _forked(["--help"], Path(), PATIENCE)  # everything is imported with the first
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "whole"
        for run in RUNS if command != "update" else RUNS[1:]:
            shutil.rmtree(folder, ignore_errors=True)
            _prepare(command, folder)
            start = time.perf_counter()
            _must_end(command, folder, 0, run)
            took[run] = time.perf_counter() - start
        if command == "update":  # ten tables, of which each is added once
            for number in range(1, KILLS_EACH):
                run, start = RUNS[number > 1], time.perf_counter()
                _must_end(command, folder, number, run)
                took[run] = time.perf_counter() - start
        return took, _answer(command, folder)


def _table(path: Path, seed: int) -> None:
    level = np.random.default_rng(0).uniform(1, 2, 40)
    bag = np.repeat(np.arange(40), 15)
    x = level[bag] + np.random.default_rng(seed).normal(size=600)
    lines = [f"{b},{a:.6f},{level[b]:.6f}" for b, a in zip(bag, x, strict=True)]
    path.write_text("\n".join(["bag,x,y", *lines, ""]), encoding="utf-8")


def _arguments(command: str, number: int) -> list[str]:
    if command == "fit":
        return "fit 0.csv --bag bag --label y --model shrinkage --out model.bagwise --force".split()
    if command == "update":
        return ["update", "model.bagwise", "sums.bagwise", f"{number + 1}.csv"]
    return "reproduce gamma-varying --quick --out out --jobs 1".split()


def _prepare(command: str, folder: Path) -> None:
    """Make what a command starts from."""
    if command == "reproduce":
        shutil.copytree(_slow_cells(), folder)
        return
    folder.mkdir()
    for number in range(KILLS_EACH + 1):
        _table(folder / f"{number}.csv", number + 1)
    if command == "update":
        assert _forked([*_arguments("fit", 0), "--sums", "sums.bagwise"], folder, PATIENCE)


@functools.cache
def _slow_cells() -> Path:
    """Return a folder with the cells of a study that take long: kills are for the others."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _must_end("reproduce", folder, 0)
    for path in filter(Path.is_file, list(folder.rglob("*"))):
        if not path.name.startswith(SLOW):
            path.unlink()
    return folder


def _must_end(
    command: str, folder: Path, number: int, run: Callable[..., bool] | None = None
) -> None:
    ended = (run or _forked)(_arguments(command, number), folder, PATIENCE)
    assert ended, f"{command} failed by itself"


def _in_shell(arguments: list[str], folder: Path, seconds: float) -> bool:
    """Run a command for so long at most; whether it ended well by itself, or else was killed."""
    source = str(Path(importlib.import_module("bagwise").__file__ or "").parents[1])
    process = subprocess.Popen(
        [sys.executable, "-m", "bagwise", *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": source},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return False
    return process.returncode == 0


def _forked(arguments: list[str], folder: Path, seconds: float) -> bool:
    """Do the same in a process that has everything imported."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.commands_loaded"])
    process = context.Process(target=_run_loaded, args=(arguments, folder))
    process.start()
    process.join(seconds)
    process.kill()
    process.join()
    return process.exitcode == 0


def _run_loaded(arguments: list[str], folder: Path) -> None:
    importlib.import_module("benchmarks.commands_loaded").run(arguments, folder)


RUNS = (_in_shell, _forked)


def _is_whole(folder: Path) -> bool:
    """Whether all files that are there can be read, whenever the command was killed."""
    try:
        for path in folder.glob("*.bagwise"):
            load(path)
        for path in (folder / "out").rglob("*.json"):
            json.loads(path.read_text(encoding="utf-8"))
        for path in (folder / "out").rglob("*.npz"):
            with np.load(path) as arrays:
                dict(arrays)
    except Exception:
        return False
    return True


def _answer(command: str, folder: Path) -> Any:
    """Return what the command made, to be compared."""
    if command == "reproduce":
        out = folder / "out" / "quick"
        with (out / "gamma-varying.csv").open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        return [{name: each[name] for name in each if name != "seconds"} for each in rows]
    bags = Bags.from_list([[[1.0], [1.5]], [[2.0]]])
    answer = load(folder / "model.bagwise").predict(bags).round(9).tolist()
    if command == "update":
        sums = load(folder / "sums.bagwise")
        return [answer, np.round(sums.sums, 9).tolist()]
    return answer


def kills_table(rows: Rows) -> Iterator[str]:
    """Count kills, and what was not whole after them."""
    yield "Commands are killed at moments drawn from their whole duration, and then run to their"
    yield "end. Not whole: a file that cannot be read after a kill. Another answer: than that of a"
    yield "command that nobody killed. The first 230 kills are of processes as a shell starts them,"
    yield "and then one in ten; the others are forked from one that has everything imported, and"
    yield "draw no pictures: ten kills take 4, 6 and 15 seconds, where they took 50, 100 and 150."
    yield ""
    yield from header("command", "kills", "ended before", "not whole", "another answer")
    for command in COMMANDS:
        mine = [each for each in rows if each["command"] == command]
        names = ("kills", "early", "broken", "wrong")
        yield row(command, *[sum(each[name] for each in mine) for name in names])


PARTS = {
    "sbc": Part(
        "Simulation-based calibration of sampled models",
        len(SBC_MODELS) * SBC_REPLICATIONS // SBC_EACH,
        sbc,
        sbc_table,
    ),
    "coverage": Part("Coverage in simulated worlds", WORLDS, coverage, coverage_table),
    "fuzz": Part("Fuzz", FUZZ_CASES // FUZZ_EACH, fuzz, fuzz_table),
    "kills": Part("Kills at random moments", KILLS // KILLS_EACH, kills, kills_table),
}
