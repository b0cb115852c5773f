"""The demo and the comparison with the paper do what they say."""

import numpy as np
import pytest

from bagwise.datasets import gamma_varying, load_paper_results
from bagwise.experiments import demo, parity
from bagwise.metrics import mse, nll


@pytest.fixture(scope="module")
def demo_predictions():
    from rich.console import Console

    data = gamma_varying(percent_small=25, seed=23)
    predictions, _ = demo.predict_all(data, Console(quiet=True))
    return data.test, predictions


@pytest.mark.parametrize("method", ["RBF network", "BLR", "shrinkage", "shrinkageC", "BDR"])
def test_untuned_models_beat_the_authors_stored_ones(demo_predictions, method):
    test, predictions = demo_predictions
    ours = {
        "mse": mse(predictions[method], test.labels),
        "nll": nll(predictions[method], test.labels),
    }
    stored = load_paper_results(experiment="gamma-varying", method=method)
    for row in stored:
        if int(row.setting) == 25 and row.metric in ours:
            assert ours[row.metric] <= row.value, row


def test_only_the_shrinkage_models_widen_their_intervals_for_small_bags(demo_predictions):
    test, predictions = demo_predictions
    small, large = test.bags.sizes == 5, test.bags.sizes == 1000
    widening = {name: p.std[small].mean() / p.std[large].mean() for name, p in predictions.items()}
    assert widening["shrinkage"] > 3
    assert widening["shrinkageC"] > 3
    assert widening["BDR"] > 3
    assert widening["RBF network"] == pytest.approx(1.0)
    assert widening["freq-shrinkage"] == pytest.approx(1.0)
    assert widening["BLR"] < 1.2


def test_nothing_beats_the_bayes_optimal_predictor(demo_predictions):
    test, predictions = demo_predictions
    optimal = predictions["Bayes-optimal"]
    for name in demo.MODELS:
        assert mse(optimal, test.labels) < mse(predictions[name], test.labels)
        assert nll(optimal, test.labels) < nll(predictions[name], test.labels)


def test_demo_prints_its_tables_and_draws_its_picture(
    demo_predictions, monkeypatch, tmp_path, capsys
):
    seconds = dict.fromkeys(demo.MODELS, 1.0)
    monkeypatch.setattr(demo, "predict_all", lambda *_: (demo_predictions[1], seconds))
    demo.main(["--picture", str(tmp_path / "picture.png")])
    printed = capsys.readouterr().out
    for expected in ("Mean squared error", "log likelihood", "95 % interval", *demo.MODELS):
        assert expected in printed
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def _rows(change: float) -> list[dict]:
    """Rows as a run makes them, each the authors' value plus a change."""
    rows = []
    for experiment, setting in parity.SETTINGS:
        for method in parity.models("random"):
            row = {"experiment": experiment, "setting": setting, "method": method}
            for metric in ("mse", "nll"):
                row[metric] = parity.theirs(experiment, method, metric).get(setting, 1.0) + change
            rows.append(row | {"coverage95": 0.95, "validation": 0, "seconds": 0, "params": ""})
    return rows


def test_parity_table_shows_differences_and_wins():
    text = parity.summary(_rows(-0.01))
    assert "| gamma-varying | BLR | NLL | 1.086 (" in text
    assert text.count("| -0.010 | 11 of 11 |") == 9
    assert text.count("| -0.010 | 10 of 10 |") == 7
    assert text.count("| -0.010 | 8 of 8 |") == 2  # the authors kept BDR for 8 of the 10 seeds


def test_parity_results_survive_being_written(tmp_path):
    rows = _rows(0.0)
    parity.write_rows(rows, tmp_path / "rows.csv")
    again = parity.read_rows(tmp_path / "rows.csv")
    assert [row["mse"] for row in again] == [row["mse"] for row in rows]
    assert parity.read_rows(tmp_path / "missing.csv") == []


def test_parity_computes_only_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(parity, "SETTINGS", parity.SETTINGS[:2])
    rows = _rows(0.0)
    parity.write_rows(rows[:5], tmp_path / "rows.csv")
    asked = []

    def run_setting(experiment, setting, methods):
        asked.append((experiment, setting, methods))
        wanted = experiment, setting
        return [
            row
            for row in rows
            if (row["experiment"], row["setting"]) == wanted and row["method"] in methods
        ]

    monkeypatch.setattr(parity, "run_setting", run_setting)
    parity.main(["--out", str(tmp_path / "rows.csv")])
    assert asked == [("gamma-varying", 5, parity.METHODS)]
    assert len(parity.read_rows(tmp_path / "rows.csv")) == 10
    assert "Ours beside" in (tmp_path / "rows.md").read_text() == capsys.readouterr().out[:-1]


def test_parity_scores_one_setting(monkeypatch, capsys):
    from bagwise.datasets import make_gamma

    small = make_gamma(seed=1, n_bags=40)
    monkeypatch.setattr(parity, "data_for", lambda *_: (small, "kmeans"))
    grid = {"n_landmarks": (5,), "bandwidth_scale": (1.0,)}
    monkeypatch.setattr(parity, "paper_grid", lambda _: grid)
    monkeypatch.setattr(parity, "SHRINKAGE_GRID", {"weight_var": (1.0,)})
    monkeypatch.setattr(parity, "BDR_GRID", {})
    monkeypatch.setattr(parity, "NUTS", lambda **_: "laplace")
    rows = parity.run_setting("gamma-varying", 25, parity.METHODS)
    assert [row["method"] for row in rows] == list(parity.models("kmeans"))
    assert all(np.isfinite(row["mse"]) and np.isfinite(row["nll"]) for row in rows)
    assert capsys.readouterr().out.count("gamma-varying 25") == 5
