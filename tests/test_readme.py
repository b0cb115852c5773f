"""The README's Python and its shell commands run as written."""

import doctest
import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from bagwise import DistributionGPRegressor
from cli_runs import bagwise, done

DOCUMENTS = ["README.md"]


@pytest.fixture(scope="module", autouse=True)
def fitted_once():
    """Let what is fitted again to the same data, with the same parameters, be what it was.

    The README fits the same model to the same polls in Python and at a shell, and so does the demo:
    to files that have all that is in the library's own, or this would fit again.
    """
    fit, known = DistributionGPRegressor.fit, {}

    def fit_once(model, X, y):
        arrays = X.points, X.offsets, X.ids, X.covariates, np.asarray(y)
        data = tuple((x.dtype.str, x.shape, x.tobytes()) for x in arrays)
        key = repr(model.get_params()), X.feature_names, X.covariate_names, data
        if key not in known:
            known[key] = vars(fit(model, X, y))
        vars(model).update(known[key])
        return model

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DistributionGPRegressor, "fit", fit_once)
        yield
    assert len(known) <= 1


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples_run_as_written(name: str) -> None:
    path = Path(__file__).parent.parent / name
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testfile(str(path), module_relative=False, optionflags=flags)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_the_first_shell_commands_run_as_written_and_beat_the_average(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert first is not None
    lines = [shlex.split(line) for line in first.group(1).splitlines()]
    assert len(lines) == 3 and all(line[0] == "bagwise" for line in lines)
    told, *_ = [done(bagwise(*line[1:], cwd=tmp_path)) for line in lines]
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 1 + 208
    new = ("evaluate", "margin.bagwise", "polls/new.parquet", "--labels", "polls/answers.csv")
    assert done(bagwise(*new, cwd=tmp_path)) in told  # the demo shows the same scores
    rmse = done(bagwise(*new, "--json", cwd=tmp_path))["rows"][0]["rmse"]
    average = re.search(r"plain average of the polls has rmse (\d+\.\d+)", told)
    assert average is not None and rmse < float(average[1])
