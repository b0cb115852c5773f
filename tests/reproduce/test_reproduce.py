"""Reproducing the paper: studies as data, a runner that can be stopped, tables, figures, claims."""

import csv
import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from typer.testing import CliRunner

from bagwise import BagwiseError, KernelEmbedding, cli
from bagwise.datasets import simulate_faces
from bagwise.estimators.embeddings import qualified
from bagwise.estimators.regressors import BayesianLinearRegressor
from bagwise.estimators.selection import FeatureCache
from bagwise.predictions.metrics import coverage, mse, nll
from bagwise.reproduce import command, runner
from bagwise.reproduce.cell import Cell, compute, estimator_of, load_data
from bagwise.reproduce.claims import better, blind_to_size, claims_of, clear_sign
from bagwise.reproduce.runner import Work, run
from bagwise.reproduce.store import Store
from bagwise.reproduce.study import NOT_FITTED, STUDIES, Study
from bagwise.reproduce.tables import Comparison, comparison_rows, score_rows

SMALL = """
title = "Small"
data = "gamma-varying"
settings = [0, 25]
setting_name = "s5"
setting_text = "percentage of bags with 5 points"
show = 25
[grid]
n_landmarks = [5]
bandwidth = [1.0]
[methods."Optimal"]
model = "optimal"
[methods."BLR"]
model = "BayesianLinearRegressor"
grid = { weight_var = ["evidence", 1.0] }
[methods."shrinkage"]
model = "ShrinkageRegressor"
"""


def small(text=SMALL):
    return replace(Study.parse("gamma-varying", text), n_bags=24)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A store with all cells of the small study."""
    store = Store(tmp_path_factory.mktemp("cells"))
    run(small(), store, progress=False)
    return store


# ---------------------------------------------------------------- studies


@pytest.mark.parametrize("name", STUDIES)
def test_studies_have_the_papers_methods_and_settings(name):
    study = Study.load(name)
    assert len(study.methods) == (6 if name == "imdb-wiki" else 10)
    assert study.show in study.settings
    assert len(study.settings) == (11 if name == "gamma-varying" else 10)
    for method in study.methods.values():
        if method.model not in NOT_FITTED:
            estimator = estimator_of(method, {})
            assert set(qualified(estimator, method.grid)) <= set(estimator.get_params())
            one = method.name.startswith("GP") or method.name == "learnt"
            assert len(method.grid["n_landmarks"]) == (1 if one else 3)
    assert Study.load(name, quick=True).settings == [study.show]


def test_unknown_studies_are_refused():
    with pytest.raises(BagwiseError, match="there is no study 'gamma'; expected one of gamma-vary"):
        Study.load("gamma")


def test_some_settings_of_a_study():
    study = Study.load("gamma-varying").only([0, 50])
    assert (study.settings, study.show) == ([0, 50], 0)
    assert study.only([50]).fingerprint(50, "BLR") == study.fingerprint(50, "BLR")
    with pytest.raises(BagwiseError, match=r"gamma-varying has no setting 7; .*: one of 0, 50"):
        study.only([0, 7])


def test_the_fingerprint_changes_with_what_a_cell_depends_on_and_with_nothing_else():
    study, first = small(), small().fingerprint(25, "BLR")
    assert study.fingerprint(25, "BLR") == first
    assert replace(study, title="Other").fingerprint(25, "BLR") == first
    assert replace(study, sampler={"draws": 5}).fingerprint(25, "BLR") == first
    assert study.fingerprint(0, "BLR") != first
    assert study.fingerprint(25, "shrinkage") != first
    assert replace(study, n_bags=25).fingerprint(25, "BLR") != first
    assert small(SMALL.replace("1.0]\n[m", "2.0]\n[m")).fingerprint(25, "BLR") != first
    for rule, same in (("nll", True), ("mse", False)):  # the first is how BLR is chosen anyway
        methods = dict(study.methods) | {"BLR": replace(study.methods["BLR"], choose_by=rule)}
        assert (replace(study, methods=methods).fingerprint(25, "BLR") == first) is same
    bdr = SMALL.replace("ShrinkageRegressor", "BDRRegressor")
    with_bdr = small(bdr)
    more = replace(with_bdr, sampler={"draws": 5})
    assert more.fingerprint(25, "shrinkage") != with_bdr.fingerprint(25, "shrinkage")


# ---------------------------------------------------------------- cells


def test_a_cell_is_the_model_tuned_on_validation_and_scored_on_test_bags(finished):
    study, data = small(), load_data(small(), 25)
    cell = finished.load(study, 25, "BLR")
    scores = {}
    for weight_var in ("evidence", 1.0):
        model = BayesianLinearRegressor(
            KernelEmbedding(5, bandwidth=1.0), weight_var=weight_var
        ).fit(data.train.bags, data.train.labels)
        scores[weight_var] = nll(model.predict_dist(data.validation.bags), data.validation.labels)
        if weight_var == cell.params["weight_var"]:
            prediction, y = model.predict_dist(data.test.bags), data.test.labels
            assert cell.scores["mse"] == pytest.approx(mse(prediction, y))
            assert cell.scores["nll"] == pytest.approx(nll(prediction, y))
            np.testing.assert_allclose(cell.mean, prediction.mean)
            np.testing.assert_allclose(cell.intervals[2], prediction.interval(0.95))
            assert score_rows([cell])[0]["coverage95"] == pytest.approx(coverage(prediction, y))
    assert cell.scores["validation"] == pytest.approx(min(scores.values()))
    assert {"bagwise", "numpy", "python", "date"} <= set(cell.record)


def test_the_optimal_cell_knows_the_noise():
    study = replace(Study.load("gamma-fixed", quick=True), n_bags=4)
    data = load_data(study, 23)
    assert data.noise_sd == 1.0
    cell = compute(study, 23, "Optimal", data, FeatureCache())
    assert cell.scores["mse"] < 1.0
    assert cell.params == {} and len(cell.spectrum) == 0


# ---------------------------------------------------------------- the runner


def test_a_finished_study_is_not_computed_again(finished, monkeypatch):
    monkeypatch.setattr(runner, "compute", lambda *_: pytest.fail("computed"))
    assert run(small(), finished, progress=False) == Work({}, 6, 0)


def test_a_study_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    store, calls = Store(tmp_path), []

    def stops(study, setting, method, *rest):
        calls.append((setting, method))
        if len(calls) == 3:
            raise KeyboardInterrupt
        return compute(study, setting, method, *rest)

    monkeypatch.setattr(runner, "compute", stops)
    with pytest.raises(KeyboardInterrupt):
        run(small(), store, progress=False)
    work = run(small(), store, progress=False)
    assert work.n_done == 2 and work.n_todo == 4
    assert len(calls) == 7 and calls[2] == calls[3]
    assert not list(tmp_path.rglob(".*"))


def test_a_changed_configuration_is_noticed_and_computed_again(tmp_path):
    store = Store(tmp_path)
    only = SMALL[: SMALL.index('[methods."shr')].replace("settings = [0, 25]", "settings = [25]")
    run(small(only), store, progress=False)
    changed = small(only.replace('"evidence", 1.0', "3.0"))
    assert Work.of(changed, store) == Work({25: ["BLR"]}, 1, 1)
    run(changed, store, progress=False)
    assert store.load(changed, 25, "BLR").params["weight_var"] == 3.0
    assert Work.of(changed, store).todo == {}


def test_a_file_that_was_cut_off_is_computed_again(tmp_path, finished):
    study, store = small(), Store(tmp_path)
    store.save(study, finished.load(study, 25, "Optimal"))
    path = store.path(study, 25, "Optimal")
    path.write_text(path.read_text()[:50])
    assert store.status(study, 25, "Optimal") == "missing"


def test_a_failed_write_leaves_what_was_there(tmp_path, finished, monkeypatch):
    study, store = small(), Store(tmp_path)
    cell = finished.load(study, 25, "Optimal")
    store.save(study, cell)
    monkeypatch.setattr(json, "dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        store.save(study, replace(cell, params={"other": 1}))
    monkeypatch.undo()
    assert store.load(study, 25, "Optimal").params == {}
    assert len(list(tmp_path.rglob("*.*"))) == 2


@pytest.mark.long  # on a cluster: test_dask.py
@pytest.mark.slow
def test_settings_run_side_by_side_give_the_same(tmp_path, finished):
    study, store = small(), Store(tmp_path)
    run(study, store, n_jobs=2, progress=False)
    for alone, beside in zip(finished.cells(study), store.cells(study), strict=True):
        np.testing.assert_array_equal(alone.mean, beside.mean)


# ---------------------------------------------------------------- tables and claims


def cell_of(method, setting, mse=1.0, nll=1.0, std=1.0, sizes=(5, 1000)):
    n = len(sizes)
    zeros = np.zeros(n)
    return Cell(
        "gamma-varying", setting, method, {"mse": mse, "nll": nll, "validation": 0.0}, {}, {}, {},
        zeros, np.array(sizes), zeros + 1, zeros + std, zeros, np.zeros((3, n, 2)), zeros,
    )  # fmt: skip


def test_comparison_with_the_authors_is_paired():
    cells = [cell_of("BLR", setting, mse=0.5) for setting in (0, 25, 26)]  # 26 is not theirs
    found = Comparison.of(cells, "BLR", "mse")
    assert len(found.all_ours) == 3 and len(found.theirs) == 2
    row = found.row()
    assert row["we win"] == f"{np.sum(found.theirs >= 0.5)} of 2"
    assert row["difference"] == f"{np.mean(0.5 - found.theirs):+.3f}"
    assert comparison_rows([cell_of("freq-shrinkage", 0)], ["mse"])[0]["we win"] == "–"


def test_claims_hold_only_where_differences_are_clear():
    near = np.array([0.0, 0.02, -0.02])
    for gap, verdict in ((-0.5, "holds"), (0.5, "does not hold"), (0.0, "undecided")):
        cells = [cell_of("a", s, 1 + gap + near[s], 1 + gap + near[s]) for s in range(3)]
        cells += [cell_of("b", s) for s in range(3)]
        (claim,) = better("here", cells, ("a",), ("b",))
        assert claim.verdict == verdict, gap
    assert "MSE 1.000 against 1.000, lower in 1 of 3" in claim.evidence
    assert clear_sign(np.array([1.0])) == 0


def test_methods_that_were_not_run_make_no_claims():
    assert claims_of("gamma-fixed", [cell_of("BLR", 23)]) == []
    assert claims_of("gamma-varying", [cell_of("BLR", 25), cell_of("shrinkage", 25)])


def test_a_variance_that_ignores_the_size_is_told_from_one_that_does_not():
    def cells(blr):
        stds = {"BLR": blr, "shrinkage": [3.0, 1.0], "BDR": [3.0, 1.0]}
        return [replace(cell_of(m, 25), std=np.array(std)) for m, std in stds.items()]

    assert blind_to_size(cells([1.0, 1.0]))[0].verdict == "holds"
    assert blind_to_size(cells([3.0, 1.0]))[0].verdict == "does not hold"
    assert "BLR: sd ×1.00, errors ×1.00" in blind_to_size(cells([1.0, 1.0]))[0].evidence


# ---------------------------------------------------------------- the command


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the draws should not be trusted yet")
@pytest.mark.parametrize(
    ("name", "methods"),
    [
        ("gamma-varying", ["RBF network", "BLR", "shrinkage"]),
        pytest.param("gamma-varying", None, marks=pytest.mark.long),
        pytest.param("gamma-fixed", None, marks=pytest.mark.long),
    ],
    ids=["three-methods", "gamma-varying", "gamma-fixed"],
)
def test_a_quick_study_from_the_command_line(name, methods, tmp_path, monkeypatch):
    quick = replace(Study.load(name, quick=True), n_bags=80)  # of 200
    if methods is not None:  # those that take no time
        quick = replace(quick, methods={method: quick.methods[method] for method in methods})
    monkeypatch.setattr(Study, "load", lambda *_, **__: quick)
    cells = len(quick.methods)
    arguments = ["reproduce", name, "--quick", "--out", str(tmp_path), "--jobs", "1"]
    drawn = plt.get_fignums()  # by tests before this one
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert f"{name}: {cells} cells computed, 0 were there already" in result.output
    folder = tmp_path / "quick"
    with (folder / f"{name}.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["method"] for row in rows] == list(Study.load(name).methods)
    assert all(float(row["mse"]) < 1.33 for row in rows)
    page = (folder / f"{name}.html").read_text()
    assert page.count("<svg") == 4 and "What the paper claims" in page
    for figure in ("scores", "predictions", "shrinkage-factors", "calibration"):
        for kind in ("png", "svg"):
            assert (folder / f"{name}-{figure}.{kind}").stat().st_size > 5000
    assert plt.get_fignums() == drawn
    told = json.loads(CliRunner().invoke(cli.app, [*arguments, "--json"]).stdout)
    assert told["computed"] == 0 and told["there_already"] == cells
    assert told["page"].endswith(f"{name}.html")


@pytest.mark.long
def test_faces_are_simulated_where_there_are_none(tmp_path):
    arguments = ["reproduce", "imdb-wiki", "--quick", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, arguments)
    assert result.exit_code == 0, result.output
    assert "faces-simulated: 6 cells computed" in result.output
    with (tmp_path / "quick" / "faces-simulated.csv").open() as file:
        rows = {row["method"]: row for row in csv.DictReader(file)}
    assert float(rows["shrinkage"]["mse"]) < float(rows["CNN"]["mse"]) < 13.5**2
    assert (tmp_path / "quick" / "faces-0.02" / "feats.npy").exists()
    assert "faces-simulated: 0 cells computed" in CliRunner().invoke(cli.app, arguments).output


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:learning gained nothing")
def test_a_row_of_the_faces_learns_its_landmarks():
    data = simulate_faces(scale=0.004, n_features=16).split(20)
    study = Study.load("imdb-wiki", quick=True)
    cell = compute(study, 20, "learnt", data, FeatureCache())
    learn = estimator_of(study.methods["learnt"], {}).embedding.learn
    assert learn.what == ("bandwidth", "landmarks") and learn.engine == "adam"
    assert np.isfinite([cell.scores["mse"], cell.scores["nll"]]).all()
    assert len(cell.mean) == len(data.test.labels) and (cell.std > 0).all()


def test_without_faces_the_way_to_them_is_told(tmp_path):
    result = CliRunner().invoke(cli.app, ["reproduce", "imdb-wiki", "--out", str(tmp_path)])
    assert result.exit_code == 1
    assert "--simulate 1 makes data of the same shape" in result.stderr
    given = ["reproduce", "imdb-wiki", "--data", str(tmp_path), "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.app, given)
    assert result.exit_code == 1
    assert "data.csv.gz" in result.stderr


def test_an_interrupt_says_how_to_go_on(monkeypatch, tmp_path):
    def stops(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "run", stops)
    result = CliRunner().invoke(cli.app, ["reproduce", "all", "--out", str(tmp_path)])
    assert result.exit_code == 130
    assert "the same command goes on from there" in result.output


def test_errors_are_one_sentence_unless_debugging(monkeypatch, capsys):
    def fails(*_, **__):
        raise BagwiseError("the cause; the remedy")

    monkeypatch.setattr(command, "reproduce", fails)
    monkeypatch.setattr("sys.argv", ["bagwise", "reproduce", "gamma-fixed"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert capsys.readouterr().err == "bagwise: the cause; the remedy\n"
    monkeypatch.setattr("sys.argv", ["bagwise", "--debug", "reproduce", "gamma-fixed"])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    told = capsys.readouterr().err
    assert told.startswith("Traceback") and "in fails" in told and "BagwiseError" in told


def test_help_and_version():
    runner = CliRunner()
    assert "Reproduce the paper" in runner.invoke(cli.app, ["reproduce", "--help"]).output
    assert runner.invoke(cli.app, ["--version"]).output.startswith("bagwise 0.")
    assert runner.invoke(cli.app, ["reproduce", "faces"]).exit_code == 2
