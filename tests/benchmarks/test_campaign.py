"""Campaigns go on where they were, and their tables are of what is there."""

import json
from concurrent.futures import Future
from typing import ClassVar

import pytest

from benchmarks import campaign
from benchmarks.campaign_parts import PARTS, Part


@pytest.fixture
def folder(tmp_path, monkeypatch):
    part = Part(
        "Squares", 10, lambda unit: {"square": unit**2}, lambda rows: iter([f"{len(rows)}"])
    )
    monkeypatch.setattr(campaign, "PARTS", {"squares": part})
    (tmp_path / "campaign-squares.jsonl").write_text(
        '{"unit": 3, "seconds": 1.0}\n{"unit": 4, "sec'
    )
    return tmp_path


class Here:
    """Does what it is asked for at once, in this process."""

    asked: ClassVar[list[int]] = []

    def __init__(self, *_, **__): ...
    def __enter__(self):
        return self

    def __exit__(self, *_): ...
    def submit(self, work, name, unit):
        self.asked.append(unit)
        future = Future()
        try:
            future.set_result(work(name, unit))
        except ArithmeticError as error:
            future.set_exception(error)
        return future


def test_a_unit_that_fails_ends_no_other_and_is_tried_again(folder, monkeypatch):
    def inverse(unit):
        return {"inverse": 1 / (unit - 1)}

    part = Part("Inverses", 3, inverse, lambda rows: iter([f"{len(rows)}"]))
    monkeypatch.setattr(campaign, "PARTS", {"inverses": part})
    monkeypatch.setattr(campaign, "ProcessPoolExecutor", Here)
    for _ in range(2):
        with pytest.raises(SystemExit, match="inverses 1: ZeroDivisionError"):
            campaign.main(["--out", str(folder)])
    assert sorted(campaign.done(folder / "campaign-inverses.jsonl")) == [0, 2]


def test_units_that_were_cut_are_done_again_and_others_are_not(folder, monkeypatch):
    asked = []
    monkeypatch.setattr(Here, "asked", asked)
    monkeypatch.setattr(campaign, "ProcessPoolExecutor", Here)
    campaign.main(["--out", str(folder), "--share", "0.6"])
    assert asked == [0, 1, 2, 4, 5]
    found = campaign.done(folder / "campaign-squares.jsonl")
    assert sorted(found) == list(range(6)) and found[5]["square"] == 25
    assert "6 of 10 units" in (folder / "campaign.md").read_text()
    campaign.main(["--out", str(folder)])
    assert asked == [0, 1, 2, 4, 5, 6, 7, 8, 9]


@pytest.mark.parametrize("name", PARTS)
def test_a_unit_is_a_line_of_json_and_has_a_table(name, monkeypatch):
    monkeypatch.syspath_prepend(str(campaign.TESTS))
    monkeypatch.setattr("benchmarks.campaign_parts.SBC_EACH", 2)
    monkeypatch.setattr("benchmarks.campaign_parts.FUZZ_EACH", 3)
    monkeypatch.setattr("benchmarks.campaign_parts.KILLS_EACH", 2)
    row = json.loads(json.dumps(campaign.work(name, 0)))
    assert row["unit"] == 0
    assert any(line.startswith("| ") for line in PARTS[name].table([row]))
    assert row.get("same", True) and not row.get("findings")
