"""The coverage of the Gaussian process is counted by size, with errors that clusters widen."""

from dataclasses import replace

import numpy as np
import pytest

from bagwise import DistributionGPRegressor, KernelEmbedding
from bagwise.datasets import load_polls, make_gamma
from benchmarks import gp_calibration


@pytest.fixture
def _small(monkeypatch):
    whole, some = load_polls(), np.arange(0, 1700, 25)
    changes = {name: getattr(whole, name)[some] for name in ("bags", "labels", "years", "average")}
    monkeypatch.setattr(gp_calibration, "load_polls", lambda: replace(whole, **changes))
    monkeypatch.setattr(gp_calibration, "make_gamma", lambda seed: make_gamma(seed, n_bags=24))
    embedding = KernelEmbedding(10, bandwidth=2.0)
    monkeypatch.setattr(gp_calibration, "MODEL", lambda: DistributionGPRegressor(embedding))
    monkeypatch.setattr(gp_calibration, "N_FOLDS", 2)


@pytest.mark.usefixtures("_small")
def test_every_part_has_a_row_for_every_size(capsys):
    gp_calibration.main(["gamma", "polls", "polls-years", "--seeds", "101,102"])
    printed = capsys.readouterr().out
    assert "gamma, a quarter of bags of 5, seeds 101, 102" in printed
    assert "races left out at random" in printed and "a year left out at a time" in printed
    first = [line.split()[:2] for line in printed.splitlines() if line.startswith(" ")]
    assert ["5", "12"] in first and ["1,000", "12"] in first
    assert first.count(["all", "48"]) == 1 and first.count(["all", "68"]) == 2


def test_a_share_that_is_far_away_is_marked():
    hits = np.zeros((3, 100), dtype=bool)
    hits[:, :80] = True
    cells = gp_calibration.row("5", hits)
    assert cells.count("*") == 2  # 80 % is what the second says
    assert "80.0% ± 5.0% ( +6.0)*" in cells and "80.0% ± 4.0% ( +0.0) " in cells


def test_errors_of_clusters_are_those_over_repetitions():
    rng = np.random.default_rng(0)
    years = np.repeat(np.arange(40), 10)
    shares, errors = [], []
    for _ in range(1000):
        common = rng.uniform(0.3, 0.7, 40)
        hits = rng.uniform(size=400) < common[years]
        shares.append(hits.mean())
        errors.append(gp_calibration.standard_error(hits, 0.5, years))
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.05)


def test_clusters_never_make_errors_smaller():
    hits, alone = np.resize([True, False], 100), np.repeat(np.arange(50), 2)
    assert gp_calibration.standard_error(hits, 0.5, alone) == 0.05
    assert gp_calibration.standard_error(hits, 0.5, np.zeros(100)) == 0.05
