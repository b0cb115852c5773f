"""The Gaussian process on the paper's data: whole, with parts left out, and by size."""

from dataclasses import replace

import numpy as np
import pytest

from bagwise.reproduce.study import Study
from benchmarks import gp_paper


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Quick studies of a few bags and one kernel."""
    load = Study.load

    def few(name, *, quick):
        study, methods = load(name, quick=True), {}
        for key in gp_paper.METHODS:
            method = study.methods[key]
            if key != "Optimal":
                params = {**method.params, "kernel": "rbf", "bandwidth": 1.0}
                method = replace(method, params=params, grid={"n_landmarks": [15]})
            methods[key] = method
        return replace(study, n_bags=24, methods=methods)

    monkeypatch.setattr(Study, "load", staticmethod(few))


def test_settings_have_scores_and_shares_of_the_gap(capsys):
    gp_paper.main(["--quick"])
    printed = capsys.readouterr().out
    assert "gamma-varying 25: Optimal" in printed and "gamma-fixed 23: Optimal" in printed
    assert printed.count("of the gap in nll closed") == 4


def test_parts_left_out_are_parameters_of_the_same_model():
    study = gp_paper.ablated(Study.load("gamma-varying", quick=True))
    whole = study.methods["GP"]
    assert set(gp_paper.ABLATIONS) < set(study.methods)
    for name, params in gp_paper.ABLATIONS.items():
        fewer = study.methods[name]
        assert fewer.params == {**whole.params, **params}
        assert (fewer.grid, fewer.choose_by) == (whole.grid, whole.choose_by)


def test_ablation_has_a_line_for_each_part_and_one_for_each_size(capsys):
    gp_paper.main(["gamma-varying", "--ablate", "--by-size", "--quick"])
    lines = capsys.readouterr().out.splitlines()
    for name in ("GP", *gp_paper.ABLATIONS):
        rows = [line for line in lines if line.startswith(f"  {name} ")]
        assert len(rows) == 1 + 4  # sizes 5, 20, 100 and 1,000


def test_shares_of_the_distance_add_up_to_the_scores():
    study = Study.load("gamma-varying", quick=True)
    data, cache = gp_paper.load_data(study, 25), gp_paper.FeatureCache()
    cells = {m: gp_paper.compute(study, 25, m, data, cache) for m in ("Optimal", "GP")}
    _, *rows = gp_paper.by_size(cells)
    table = np.array([[float(cell.rstrip("%")) for cell in row.split()[1:]] for row in rows])
    bags = table[:, 1]
    assert bags @ table[:, 2] / bags.sum() == pytest.approx(cells["GP"].scores["mse"], abs=1e-4)
    assert bags @ table[:, 6] / bags.sum() == pytest.approx(
        cells["Optimal"].scores["nll"], abs=1e-4
    )
    assert table[:, 4].sum() == pytest.approx(100, abs=2)


def test_settings_asked_for_are_those_that_the_study_has():
    study = replace(Study.load("gamma-varying", quick=True), settings=[0, 25, 30, 50])
    assert gp_paper.settings_of(study, None, ablate=True) == [0, 25, 50]
    assert gp_paper.settings_of(study, None, ablate=False) == study.settings
    assert gp_paper.settings_of(study, [25, 26], ablate=True) == [25]
