import json

import numpy as np
import pytest

from benchmarks import bench
from benchmarks.bench_fit import Case, disagreement
from benchmarks.bench_plain import batched_cholesky, cholesky_per_bag, cholesky_per_size
from benchmarks.bench_report import Section, Target, interleaved


@pytest.fixture(scope="module")
def case():
    return Case.make(n_bags=40, n_landmarks=8)


def test_quick_run_prints_and_writes_every_section(tmp_path, capsys):
    out = tmp_path / "results" / "bench.json"
    assert bench.main(["--quick", "--out", str(out)]) == 0
    printed = capsys.readouterr().out
    for title in (
        "1. Shrinkage fit",
        "2. Posterior draws",
        "3. Features and pooling",
        "4a. Points",
        "4b. Bags",
        "4c. Landmarks",
        "5. A fresh process",
        "6. Out of core",
        "7a. Gaussian process",
        "7b. Gaussian process",
        "8. Gradient of features",
        "targets met",
    ):
        assert title in printed
    sections = json.loads(out.read_text())["sections"]
    assert len(sections) == 12
    assert all(line["value"] is not None for section in sections for line in section["lines"])


def test_plain_objective_agrees_with_ours_on_value_and_gradient(case):
    assert disagreement(case, case.plain(), case.halfway()) < 1e-9


def test_gradient_of_plain_objective_agrees_with_differences(case):
    plain, theta = case.plain(), case.halfway()
    steps = 1e-6 * np.eye(len(theta))
    slopes = [(plain(theta + step)[0] - plain(theta - step)[0]) / 2e-6 for step in steps]
    np.testing.assert_allclose(slopes, plain(theta)[1], rtol=1e-5, atol=1e-6)


def test_all_rivals_solve_the_same_systems():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 4))
    sizes, sides = np.array([5.0, 20.0, 5.0]), rng.normal(size=(3, 4, 2))
    expected = [
        np.linalg.solve(np.eye(4) + rows.T @ rows / size, side)
        for size, side in zip(sizes, sides, strict=True)
    ]
    for solve in (cholesky_per_bag, batched_cholesky, cholesky_per_size):
        solved = solve(np.eye(4), rows.T @ rows, sizes, sides)
        np.testing.assert_allclose(solved, expected, rtol=1e-10)


def test_section_prints_targets_and_whether_they_are_met():
    section = Section("Title", ["seconds"])
    section.add("fast", ["1.0"], 1.0, Target(2.0))
    section.add("slow", ["3.0"], 3.0, Target(2.0))
    section.add("many", ["9.0"], 9.0, Target(5.0, at_least=True, unit="×"))
    section.add("free", ["7.0"], 7.0, None)
    lines = str(section).splitlines()
    assert [line.split()[-1] for line in lines[3:]] == ["yes", "NO", "yes", "-"]
    assert "≥ 5×" in lines[5]
    assert [line["met"] for line in section.as_json()["lines"]] == [True, False, True, None]


def test_sides_are_timed_in_turn():
    order = []
    seconds = interleaved([lambda: order.append("a"), lambda: order.append("b")], repeats=2)
    assert order == ["a", "b", "a", "b"]
    assert min(seconds) >= 0.0
