"""Worlds of classes: labels follow the odds they are drawn by, and errors are those of sets."""

import numpy as np
import pytest
from scipy.special import expit

from benchmarks import class_worlds
from benchmarks.class_worlds import LARGEST, SMALLEST, WORLDS, Draw, Told, bags_of, slope_over_sets


@pytest.mark.parametrize("name", WORLDS)
def test_the_true_odds_have_slope_one_in_every_third(name):
    draw = Draw.begin(np.random.default_rng(0), 20_000)
    points, log_odds = WORLDS[name](draw)
    assert len(points) == draw.sizes.sum() == len(draw.of)
    assert (draw.sizes.min(), draw.sizes.max()) == (SMALLEST, LARGEST)
    labels = np.random.default_rng(1).uniform(size=20_000) < expit(log_odds)
    told = Told(expit(log_odds), labels, draw.sizes)
    for k in (None, 0, 1, 2):
        part = told.third(k)
        sets = [Told(part.probability[i::5], part.labels[i::5], part.sizes[i::5]) for i in range(5)]
        value, error = slope_over_sets(sets)
        assert abs(value - 1.0) < 4 * max(error, 0.02)


def test_bags_have_the_points_of_their_draw():
    bags, labels = bags_of(WORLDS["mean"], np.random.default_rng(3), 50)
    draw = Draw.begin(np.random.default_rng(3), 50)
    points, _ = WORLDS["mean"](draw)
    np.testing.assert_array_equal(bags.sizes, draw.sizes)
    np.testing.assert_array_equal(np.vstack(list(bags)), points)
    assert labels.shape == (50,) and labels.dtype == bool


def test_a_row_for_each_world_number_of_bags_and_model(monkeypatch, capsys):
    monkeypatch.setattr(class_worlds, "N_TEST", 60)
    class_worlds.main(["mean", "--bags", "30", "40", "--sets", "2", "--models", "logistic"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        ["| mean", "30", "logistic"],
        ["| mean", "40", "logistic"],
    ]
    assert all(line.count("±") == 4 for line in lines[2:])
