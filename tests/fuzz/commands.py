"""Command lines to try: every command on files whole and damaged, with options sound and silly."""

import contextlib
import functools
import io
import json
import os
import re
import subprocess
import sys
from unittest import mock

import typer.main

from fuzz import tables
from fuzz.models import thrift
from fuzz.trial import INTERNALS

RAW_NOTE = re.compile(r"encountered in|Warning\b|divide by zero|overflow|invalid value|deprecat")
P_APART = 0.005  # of lines that are run as by a shell, most of whose seconds are imports
CODES = (0, 1, 2)  # done, refused with a sentence, a wrong line

SETTINGS = [
    "n_landmarks=5", "bandwidth=1.0", "standardize=False", "kernel=linear", "penalty=1e-3",
    "weight_var=1.0", "n_landmarks=0", "n_landmarks=1e9", "kernel=None", "kernel=gauss", "=", "x",
    "random_state=1", "inference=laplace", "draws=-1", "kernel=[1,2", "penalty=nan", "n_landmarks=",
    "landmarks=[[1.0]]", "bandwidth=" + "9" * 400, "__class__=1", "kernel=lambda: 1",
]  # fmt: skip


def command(trial):
    """Fit at the command line, then predict, evaluate, explain and look, with what was saved."""
    table = tables.columns(trial)
    points = tables.write(trial, table, p_damage=0.15).name
    line = ["fit", points, "--bag", "bag", "--label", "y", "--out", "m.bagwise"]
    model = trial.draw("model", MODELS, ODD_MODELS, 0.08)
    line += model
    if trial.chance(0.2):
        line += ["--set", trial.draw("set", SETTINGS)]
    if model in MODELS:
        line += saving_time(trial, model, line)
    for option, good, odd in OPTIONS:
        if trial.chance(0.04):
            line += [option, *trial.draw(option, good, odd, 0.3)]
    if run(trial, line)[0] == 0:
        trial.counts["fitted"] += 1
    elif trial.chance(0.05):
        (trial.folder / "m.bagwise").write_bytes(trial.rng.bytes(300))
    else:
        return
    for what in ("predict", "evaluate", "explain", "info"):
        if trial.chance(0.7):
            follow(trial, what, points)


MODELS = [
    ["--set", "bandwidth=1.0"], [], ["--model", "blr"], ["--model", "rbf"],
    ["--model", "gp"], ["--model", "kernel-ridge"], ["--model", "freq-shrinkage"],
    ["--model", "bdr", "--set", "inference=laplace"],
]  # fmt: skip
PROCESSES = [["--set", "bandwidth=1.0"], [], ["--model", "gp"]]
ODD_MODELS = [["--model", "x"], ["--model", ""], ["--model"]]


def saving_time(trial, model, line):
    """Return settings for what takes longest by default and is not set, in most cases."""
    cheap = thrift(trial)
    if not cheap:
        return []
    cheap["inference"] = "evidence"
    names = ["n_landmarks", "bandwidth"]
    names += ["kernel", "prior", "center", "inference"] * (model in PROCESSES)
    names = [name for name in names if not any(part.startswith(f"{name}=") for part in line)]
    return [part for name in names for part in ("--set", f"{name}={cheap[name]}")]


OPTIONS = [
    ("--features", [["a"], ["a,b"]], [[""], [","], ["nobody"], ["a,a"], ["\x00"], ["y"]]),
    ("--covariates", [["c"]], [[""], ["nobody"], ["a"]]),
    ("--weights", [["b"]], [[""], ["nobody"], ["a"]]),
    ("--one-hot", [["c"]], [["nobody"], ["a"], [""]]),
    ("--missing", [["drop"], ["impute"]], [["x"], [""]]),
    ("--task", [["numbers"], ["classes"]], [["x"]]),
    ("--sep", [[","], ["tab"]], [[""], [";"], ["ab"], ['"'], ["\n"], ["\x00"]]),
    ("--decimal", [["."]], [[","], [""], ["1"], ["ab"]]),
    ("--thousands", [["'"]], [[","], ["."], [""], ["1"]]),
    ("--na", [["-999"]], [[""], ["0"], ["nan"], ["x" * 5000]]),
    ("--seed", [["1"]], [["-1"], ["1e3"], ["9" * 40], ["x"]]),
    ("--stream", [[]], [["x"]]),
    ("--json", [[]], [["x"]]),
    ("--labels", [["nobody.csv"]], [["."], [""], ["m.bagwise"], ["\x00"]]),
    ("--out", [["m.bagwise"]], [["."], ["no/such/folder/m"], [""], ["points.csv"], ["\x00"]]),
]


def follow(trial, what, points):
    """Ask the saved model something."""
    line = {
        "predict": ["predict", "m.bagwise", points, "--json"],
        "evaluate": ["evaluate", "m.bagwise", points, "--json"],
        "explain": [
            "explain",
            "m.bagwise",
            points,
            "--id",
            trial.draw("bag", ["0", "1", "\u00e9"]),
        ],
        "info": ["info", trial.draw("of", ["m.bagwise", points])],
    }[what]
    if what == "predict":
        line += trial.draw("options", [[]], PREDICT_OPTIONS, 0.3)
    code, out, _ = run(trial, line)
    if code == 0 and "--json" in line:
        check_json(trial, what, out)


PREDICT_OPTIONS = [
    ["--level", "1"], ["--level", "nan"], ["--out", "p.xyz"], ["--out", "p.csv"],
    ["--out", "m.bagwise"], ["--out", "p.parquet", "--force"], ["--out", "-"], ["--out", ""],
    ["--format", "json"], ["--labels", "nobody.csv"], ["--na", "1"], ["--sep", ";"],
]  # fmt: skip


def check_json(trial, what, text):
    """The answer for programs is JSON, and every mean in it is a number."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        trial.find(what, f"--json printed no JSON: {error}")
        return
    columns = found.get("columns", {})
    trial.counts["predictions"] += len(columns.get("mean", []))
    for name in ("mean", "std", "lower", "upper", "probability"):
        if None in columns.get(name, []):
            trial.find(what, f"a {name} that is no number")


def run(trial, line):
    """Run a line in this process or, now and then, in one of its own; check how it ended."""
    apart = trial.chance(P_APART)
    trial.drawn.append(f"line: bagwise {' '.join(map(repr, line))}"[:600])
    code, out, err = (in_process if apart else here)(line, trial.folder)
    said = err.strip().splitlines()[-1] if err.strip() else ""
    if code not in CODES:
        trial.find(line[0], f"exit code {code}: {err.strip()[-500:]}")
    if "Traceback" in err:
        trial.find(line[0], f"a traceback: {err[-500:]}")
    if code == 1:
        trial.counts["refused"] += 1
        if not said.startswith("bagwise: "):
            trial.find(line[0], f"exit code 1 without a sentence: {err[-300:]}")
        inside = INTERNALS.search(said)
        if inside:
            trial.find(line[0], f"message with internals ({inside.group()}): {said}")
        if len(said) > 1200:
            trial.find(line[0], f"message of {len(said)} characters: {said[:200]}")
    for note in err.splitlines():
        if "note:" in note and RAW_NOTE.search(note):
            trial.find(line[0], f"raw warning {note}")
    return code, out, err


@functools.cache
def parser_of(app, get_command=typer.main.get_command):
    """Return typer's parser of the command line, which takes as long as a small fit to make."""
    return get_command(app)


def here(line, folder):
    """Run the command line in this process, which is much faster."""
    from bagwise.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        mock.patch.object(sys, "argv", ["bagwise", *line]),
        mock.patch.object(typer.main, "get_command", parser_of),
    ):
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        except Exception as error:
            code = f"{type(error).__name__}: {error}"
    return code, out.getvalue(), err.getvalue()


def in_process(line, folder):
    """Run the command line as a shell would."""
    line = [part.replace("\x00", "?") for part in line]
    ended = subprocess.run(
        [sys.executable, "-m", "bagwise", *line],
        cwd=folder, env=os.environ | {"COLUMNS": "200"}, capture_output=True, text=True,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr
