"""The demo does what it says, and its models are as good as they should be."""

import pytest

from bagwise.datasets import gamma_varying, load_paper_results
from bagwise.predictions.metrics import mse, nll
from benchmarks import demo

IN_SECONDS = ("RBF network", "freq-shrinkage", "BLR", "shrinkage")


@pytest.fixture(
    scope="module",
    params=[IN_SECONDS, pytest.param(tuple(demo.MODELS), marks=pytest.mark.long)],
    ids=["in-seconds", "all"],
)
def demo_predictions(request):
    from rich.console import Console

    data = gamma_varying(percent_small=25, seed=23)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "MODELS", {name: demo.MODELS[name] for name in request.param})
        predictions, _ = demo.predict_all(data, Console(quiet=True))
        yield data.test, predictions


def test_untuned_models_beat_the_authors_stored_ones(demo_predictions):
    test, predictions = demo_predictions
    compared = 0
    for method in set(predictions) & {"RBF network", "BLR", "shrinkage", "shrinkageC", "BDR"}:
        ours = {
            "mse": mse(predictions[method], test.labels),
            "nll": nll(predictions[method], test.labels),
        }
        for row in load_paper_results(experiment="gamma-varying", method=method):
            if int(row.setting) == 25 and row.metric in ours:
                assert ours[row.metric] <= row.value, row
                compared += 1
    assert compared >= len(demo.MODELS)  # an RBF network has no NLL there, freq-shrinkage nothing


def test_only_the_shrinkage_models_widen_their_intervals_for_small_bags(demo_predictions):
    test, predictions = demo_predictions
    small, large = test.bags.sizes == 5, test.bags.sizes == 1000
    widening = {name: p.std[small].mean() / p.std[large].mean() for name, p in predictions.items()}
    for name in set(widening) & {"shrinkage", "shrinkageC", "BDR"}:
        assert widening[name] > 3, name
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
