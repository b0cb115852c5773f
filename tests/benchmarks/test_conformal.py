"""The benchmark of conformal intervals counts what it says, and marks what breaks a promise."""

import numpy as np
import pytest

from bagwise.predictions.gaussian import Prediction, VarianceParts
from benchmarks import conformal


@pytest.fixture
def _small(monkeypatch):
    monkeypatch.setattr(conformal, "N_TRAIN", 44)
    monkeypatch.setattr(conformal, "N_TEST", 30)


@pytest.mark.usefixtures("_small")
def test_both_parts_have_a_row_for_every_size(capsys):
    conformal.main(["--worlds", "2", "--first", "7"])
    printed = capsys.readouterr().out
    assert "worlds: 2 worlds from seed 7" in printed and "shift: 2 worlds from seed 7" in printed
    for words in ("model itself", "plain errors, weighted", "scaled, by size", "scaled, CV+"):
        assert words in printed
    assert "(100)" in printed and "    100" in printed  # without and with a promise


def test_shares_are_counted_and_broken_promises_marked():
    shares = conformal.Shares()
    parts = VarianceParts.broadcast(4, noise=1.0)
    for y in ([0.0, 0.0, 9.0, 9.0], [0.0, 0.0, 0.0, 9.0]):
        everyone = {"all": np.ones(4, dtype=bool), "first": np.arange(4) < 2}
        shares.add("model", Prediction(np.zeros(4), parts), np.array(y), everyone)
        shares.promise("model", "all", 9)
    rows = list(shares.lines())[1:]
    assert "62.5% ± 12.5%" in rows[0] and "*" not in rows[0]  # within three standard errors
    assert "(first)" in rows[1] and "100.0% ± 0.0% " in rows[1] and "*" not in rows[1]
    shares.promise("model", "first", 9)
    assert list(shares.lines())[2].count("*") == 1  # 100 % is more than 80 + 10 %, not than 90 + 10


def test_worlds_are_drawn_from_their_seed():
    a, b = (conformal.World.draw(np.random.default_rng([3, 1])) for _ in range(2))
    assert a == b
    bags, y = a.bags(np.random.default_rng(0), np.array([3, 5]))
    assert bags.sizes.tolist() == [3, 5] and y.shape == (2,)
