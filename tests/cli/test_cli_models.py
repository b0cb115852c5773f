"""Models by their short names, and faults that are hard to bring about from outside."""

import errno

import numpy as np
import pytest

from bagwise import FourierEmbedding
from bagwise.cli import info, main
from bagwise.cli.inputs import CLASSIFIERS, REGRESSORS, ModelName, are_classes, estimator
from bagwise.exceptions import BagwiseError
from cli_runs import QUICK, bagwise, done, make_rows, refused, write

FIT = ("fit", "t.parquet", "--bag", "person", "--label", "age", "--features", "a", "--out", "m")


def make(name, *settings, classes=False):
    return estimator(ModelName(name), classes=classes, settings=settings, seed=3)


@pytest.mark.parametrize(
    ("table", "classes"), [(REGRESSORS, False), (CLASSIFIERS, True)], ids=["numbers", "classes"]
)
def test_every_name_is_an_estimator_with_the_seed(table, classes):
    for name, (kind, preset) in table.items():
        model = make(name, classes=classes)
        assert type(model).__name__ == kind
        seeds = [each for key, each in model.get_params().items() if key.endswith("random_state")]
        assert seeds == [3] * (2 if hasattr(model, "random_state") else 1)
        assert preset.items() <= model.get_params().items()


def test_settings_are_numbers_words_or_nothing():
    model = make("shrinkage", "n_landmarks=30", "bandwidth=0.5", "kernel=matern32")
    embedding = model.embedding
    assert (embedding.n_landmarks, embedding.bandwidth, embedding.kernel) == (30, 0.5, "matern32")
    model = make("shrinkage", "n_landmarks=None", "embedding__standardize=False")
    assert model.embedding.standardize is False


def test_fourier_features_by_name():
    model = make("kernel-ridge", "embedding=fourier", "n_features=30", "exact=False")
    expected = FourierEmbedding(30, bandwidth=1.0, random_state=3)
    assert repr(model.embedding) == repr(expected)
    with pytest.raises(BagwiseError, match="embedding=waves; expected kernel or fourier"):
        make("shrinkage", "embedding=waves")
    for setting in ("output=mean", "random_state=1", "n_features=30"):
        with pytest.raises(BagwiseError, match="ShrinkageRegressor does not know; expected one of"):
            make("shrinkage", setting)


def test_settings_of_the_sampler_go_to_it():
    sampler = make("bdr", "draws=50", "chains=2", "n_landmarks=9").inference
    assert (sampler.draws, sampler.chains) == (50, 2)
    with pytest.raises(BagwiseError, match="'draws' with inference='laplace'"):
        make("bdr", "draws=50", "inference=laplace")
    model = make("bdr", "inference=variational", "bandwidth=auto", "bandwidth_prior=0.5")
    assert (model.inference, model.bandwidth_prior) == ("variational", 0.5)
    with pytest.raises(BagwiseError, match="'draws' with inference='variational'"):
        make("bdr", "draws=50", "inference=variational")
    with pytest.raises(BagwiseError, match=r"no model 'rbf' for classes.*--task numbers"):
        make("rbf", classes=True)


def test_what_labels_are():
    assert are_classes(np.array(["a", "b", "c"]), "auto")
    assert are_classes(np.array([0, 1, 1]), "auto")
    assert not are_classes(np.array([0.0, 1.0, 2.0]), "auto")
    assert not are_classes(np.array([0, 1]), "numbers")
    with pytest.raises(BagwiseError, match="--task numbers says"):
        are_classes(np.array(["a", "b"]), "numbers")
    with pytest.raises(BagwiseError, match="the labels are text, such as 'xxx") as caught:
        are_classes(np.array(["x" * 10_000, "b"]), "numbers")
    assert len(str(caught.value)) < 300


def test_tuning_says_what_it_chose(tmp_path, monkeypatch):
    grid = {"embedding__n_landmarks": (5,), "embedding__bandwidth": (1.0, 2.0)}
    monkeypatch.setattr("bagwise.estimators.selection.paper_grid", lambda _: grid)
    write(make_rows(20), tmp_path / "t.parquet")
    result = bagwise(*FIT, "--model", "shrinkage", "--tune", cwd=tmp_path)
    done(result)
    assert "chosen by cross-validation: bandwidth" in result.stderr


def test_a_picture_needs_an_ending_that_can_be_drawn(tmp_path):
    write(make_rows(12), tmp_path / "t.parquet")
    done(bagwise(*FIT, *QUICK, cwd=tmp_path))
    run = ("explain", "m", "t.parquet", "--id", "p003", "--picture", "why.docx")
    refused(bagwise(*run, cwd=tmp_path), ".png, .svg or .pdf")


@pytest.mark.parametrize(
    ("fault", "code", "words"),
    [
        (OSError(errno.EIO, "Input/output error", "x.csv"), 1, ["x.csv: Input/output error"]),
        (MemoryError(), 1, ["not enough memory", "--stream"]),
        (KeyboardInterrupt(), 130, ["stopped"]),
        (RuntimeError("odd"), 70, ["RuntimeError: odd", "--debug"]),
    ],
    ids=["disk", "memory", "interrupt", "bug"],
)
def test_faults_are_sentences(fault, code, words, tmp_path, monkeypatch):
    def fails():
        raise fault

    monkeypatch.setattr(info, "_versions", fails)
    refused(bagwise("info", cwd=tmp_path), *words, code=code)


def test_an_interrupt_before_a_command_begins_is_a_sentence(monkeypatch, capsys):
    def stops(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("bagwise.cli.shell.app", stops)
    monkeypatch.setattr("sys.argv", ["bagwise", "info"])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 130
    assert "stopped" in capsys.readouterr().err


def test_info_of_text_files(tmp_path):
    write(make_rows(4), tmp_path / "t.csv")
    told = done(bagwise("info", "t.csv", "--json", cwd=tmp_path))
    assert told["rows"] == 44 and told["columns"]["person"] == "string"
