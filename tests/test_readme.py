"""The README's Python and its shell commands run as written."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from bagwise import KernelEmbedding, ShrinkageRegressor
from cli_runs import bagwise, done

DOCUMENTS = ["README.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples_run_as_written(name: str) -> None:
    path = Path(__file__).parent.parent / name
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testfile(str(path), module_relative=False, optionflags=flags)
    assert outcome.attempted > 5
    assert outcome.failed == 0


def test_the_first_shell_commands_run_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The demo fits what the second line fits; that it does is tested with the other commands.
    quick = ShrinkageRegressor(KernelEmbedding(8, bandwidth=1.0))
    monkeypatch.setattr("bagwise.cli.demo.estimator", lambda *_, **__: quick)
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```sh\n(.*?)```", text, re.DOTALL)
    assert first is not None
    lines = [shlex.split(line) for line in first.group(1).splitlines()]
    assert len(lines) == 3 and all(line[0] == "bagwise" for line in lines)
    for line in lines:
        done(bagwise(*line[1:], cwd=tmp_path))
    assert (tmp_path / "predictions.csv").read_text().count("\n") == 1 + 208
