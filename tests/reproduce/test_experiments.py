"""The demo does what it says, and its models are as good as they should be."""

import pytest

from bagwise.datasets import gamma_varying, load_paper_results
from bagwise.predictions.metrics import mse, nll
from benchmarks import demo


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
