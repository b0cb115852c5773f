"""A short run of the fuzzer, and that it would see what must not happen."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

from bagwise.exceptions import BagwiseError, BagwiseWarning
from fuzz.report import rerun
from fuzz.runner import SHORT, Result
from fuzz.trial import Found, Refused, Trial

TESTS = Path(__file__).parents[1]
ROOTS = [TESTS, TESTS.parent / "src"]


def fuzz(*arguments):
    """Run the fuzzer in a process of its own, where types are as unchecked as for a user."""
    paths = [*map(str, ROOTS), os.environ.get("PYTHONPATH", "")]
    return subprocess.run(
        [sys.executable, "-m", "fuzz", *map(str, arguments)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_short_run():
    """Nothing is found in the short run; every kind has cases, and not all are refused."""
    ended = fuzz("--short", "--jobs", 1)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    rows = {line.split()[0]: line.split()[1:] for line in ended.stdout.splitlines()}
    cases, _, refused, made, fitted, predictions, findings = (
        int(number.replace(",", "")) for number in rows["all"]
    )
    assert set(SHORT) < set(rows) and cases == sum(SHORT.values()) and findings == 0
    assert min(refused, made, fitted, predictions) > 0


def test_one_case_can_be_run_again(tmp_path):
    """A finding comes with the command for its case, which draws the same numbers once more."""
    first, again, other = (Trial("bags", number, tmp_path) for number in (3, 3, 4))
    numbers = [trial.rng.integers(10**9) for trial in (first, again, other)]
    assert numbers[0] == numbers[1] != numbers[2]
    assert rerun(Result("bags", 3)).endswith("-m fuzz bags 3")
    assert fuzz("bags", 3).stdout.startswith("bags 3, ")


def fail(error):
    raise error


def warn(category):
    warnings.warn("overflow encountered in square", category, stacklevel=1)


SENTENCE = BagwiseError.because("bag 'a' is empty", "a point", "Drop it.")
INTERNALS = BagwiseError.because("the weights part is [nan nan]", "finite", "Check it.")


@pytest.mark.parametrize(
    ("call", "ends", "findings"),
    [
        (lambda: fail(SENTENCE), Refused, []),
        (lambda: fail(INTERNALS), Refused, ["message with internals"]),
        (lambda: fail(BagwiseError("no")), Refused, ["message without found"]),
        (lambda: fail(BagwiseError.because("a" * 2000, "b", "C.")), Refused, ["characters"]),
        (lambda: fail(ValueError("zero-size array")), Found, ["raw ValueError"]),
        (lambda: warn(RuntimeWarning), None, ["raw warning RuntimeWarning"]),
        (lambda: warn(BagwiseWarning), None, []),
    ],
)
def test_errors_and_warnings_are_seen(tmp_path, call, ends, findings):
    trial = Trial("fit", 0, tmp_path)
    if ends is None:
        trial.call("it", call)
    else:
        with pytest.raises(ends):
            trial.call("it", call)
    assert len(trial.findings) == len(findings)
    assert all(part in text for part, text in zip(findings, trial.findings, strict=True))


@pytest.mark.parametrize(("mean", "std", "labels", "n"), [
    ([0.5, 11.0], 1.0, [0.0, 1.0], 0),
    ([0.5, 11.1], 99.0, [0.0, 1.0], 1),
    ([-10.1], 1.0, [0.0, 1.0], 1),
    ([3.0], 0.0, [3.0, 3.0], 0),
    ([3.1], 0.0, [3.0, 3.0], 1),
    ([3.1], 0.5, [3.0, 3.0], 1),
    ([3.1], 2.0, [3.0, 3.0], 0),
])  # fmt: skip
def test_wild_predictions_are_seen(tmp_path, mean, std, labels, n):
    trial = Trial("fit", 0, tmp_path)
    trial.near_labels("it", np.array(mean), np.full(len(mean), std), np.array(labels))
    assert len(trial.findings) == n


def test_silent_nan_is_seen(tmp_path):
    trial = Trial("fit", 0, tmp_path)
    trial.finite("it", np.array([1.0]), np.array([0.0, np.nan]))
    assert trial.findings == ["it: silent nan in the answer"]
