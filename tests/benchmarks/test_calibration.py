"""The calibration experiment runs and says what it counts."""

import numpy as np
import pytest

from bagwise.datasets import Musk, load_musk, make_gamma
from benchmarks import calibration


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(calibration, "gamma_varying", lambda _, seed: make_gamma(seed, n_bags=30))
    monkeypatch.setattr(calibration, "QUIET", "laplace")


def test_coverage_has_a_row_for_every_model_and_size(tmp_path, capsys):
    calibration.main(["coverage", "--seeds", "1", "--out", str(tmp_path)])
    text = (tmp_path / "coverage.md").read_text()
    assert text == capsys.readouterr().out
    for name in ("BLR", "shrinkage", "BDR, Laplace", "BDR, NUTS"):
        assert text.count(f"| {name} |") >= 3


def test_classes_are_scored_by_size(tmp_path):
    calibration.main(["classes", "--seeds", "1", "--out", str(tmp_path)])
    text = (tmp_path / "classes.md").read_text()
    assert text.count("| laplace |") >= 3 and "Log loss, mean over seeds: logistic" in text


def test_shares_come_with_standard_errors():
    inside = np.arange(100) < 60
    assert calibration._share(inside, 0.5) == "60.0% (+2.0)"


def test_musk_is_cross_validated(monkeypatch, tmp_path):
    whole = load_musk()
    some = np.r_[0:12, 60:72]
    part = Musk(whole.bags[some], whole.labels[some])
    monkeypatch.setattr(calibration, "load_musk", lambda: part)
    grid = {"n_landmarks": (5,), "bandwidth": (1.0,)}
    monkeypatch.setattr(calibration, "MUSK_GRID", grid)
    monkeypatch.setattr(calibration, "N_FOLDS", 2)
    calibration.main(["musk", "--seeds", "1", "--out", str(tmp_path)])
    assert "| set kernel, published | 88.0% |" in (tmp_path / "musk.md").read_text()
