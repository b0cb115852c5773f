"""The README's Python runs as written."""

import doctest
from pathlib import Path

import pytest

DOCUMENTS = ["README.md"]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_examples_run_as_written(name: str) -> None:
    path = Path(__file__).parent.parent / name
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testfile(str(path), module_relative=False, optionflags=flags)
    assert outcome.attempted > 5
    assert outcome.failed == 0
