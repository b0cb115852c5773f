"""The benchmark of the Gaussian process: its bags, and growth beyond the switch."""

import numpy as np
import pytest

from benchmarks import bench_gp


def test_bags_are_small_and_always_the_same():
    bags, labels = bench_gp.draw(300)
    assert bags.n_bags == len(labels) == 300 and bags.n_features == 2
    assert (bags.sizes.min(), bags.sizes.max()) == bench_gp.SIZE_RANGE
    np.testing.assert_array_equal(bench_gp.draw(300)[1], labels)


def test_growth_is_that_beyond_the_switch(monkeypatch):
    monkeypatch.setattr(bench_gp, "fresh", lambda _, n: [1.0 + n / 1e4, n / 1e4, 50.0, n / 1e2])
    section = bench_gp._growth((100, 10_000, 100_000))
    values = {line.what: line for line in section.lines}
    line = values["growth of seconds, 10,000 to 100,000 bags"]
    assert line.value == pytest.approx(np.log10(11 / 2)) and line.met
    assert values["growth of CPU seconds, 10,000 to 100,000 bags"].value == pytest.approx(1.0)
    assert values["100 bags"].target is None


def test_quick_run_prints_both_tables(monkeypatch, capsys):
    monkeypatch.setattr(bench_gp, "fresh", lambda _, n: [1.0 * n, 1.0 * n, 50.0, 60.0])
    assert bench_gp.main(["--quick"]) == 0
    printed = capsys.readouterr().out
    assert "7a. Gaussian process: 20 bags" in printed and "ours of one kernel to it" in printed
    assert "growth of seconds, 10 to 20 bags" in printed
