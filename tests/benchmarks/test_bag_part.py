"""The comparison of what a cut bag states with what is seen, where the answer is known."""

import numpy as np
import pytest

from bagwise import Bags, DistributionGPRegressor, KernelEmbedding, ShrinkageRegressor
from benchmarks import bag_part
from benchmarks.bag_part import Change, CutSet, Fold


@pytest.fixture(scope="module")
def fold():
    rng = np.random.default_rng(0)
    level, sizes = rng.normal(0, 1, 90), np.resize([4, 40], 90)
    points = [rng.normal(m, 1.0, (n, 1)) for m, n in zip(level, sizes, strict=True)]
    bags, labels = Bags.from_list(points), level + rng.normal(0, 0.1, 90)
    return Fold(bags[:60], labels[:60], bags[60:])


@pytest.fixture(scope="module")
def process(fold):
    return DistributionGPRegressor(KernelEmbedding(10, bandwidth=2.0)).fit(fold.train, fold.labels)


def test_cut_bags_have_points_of_their_own_and_keep_covariates():
    bags = Bags.from_list([[[1.0], [2.0], [3.0]], [[4.0], [5.0]]], covariates=[[7.0], [8.0]])
    fewer = bag_part.cut(bags, 2, np.random.default_rng(0))
    assert set(fewer[0].ravel()) < {1.0, 2.0, 3.0} and set(fewer[1].ravel()) == {4.0, 5.0}
    np.testing.assert_array_equal(fewer.covariates, bags.covariates)


def test_ratio_has_the_standard_error_that_it_has_over_repetitions():
    rng = np.random.default_rng(0)
    draws = rng.gamma(2.0, 1.0, (4000, 2, 80))
    found = [bag_part.ratio_of(3.0 * above, below) for above, below in draws]
    ratios, errors = np.transpose(found)
    assert ratios.mean() == pytest.approx(3.0, rel=0.02)
    assert errors.mean() == pytest.approx(ratios.std(), rel=0.05)


def test_what_a_true_model_states_is_seen():
    """Points around a level that is standard normal: k of them leave 1/(1 + k) of it open."""

    class Level:
        def predict_dist(self, bags):
            sizes = bags.sizes
            means = np.array([bag.mean() for bag in bags])
            return Answer(means * sizes / (1.0 + sizes), sizes)

        def predict(self, bags):
            return self.predict_dist(bags).mean

        head_ = None

    class Answer:
        def __init__(self, mean, sizes):
            self.mean, self.parts, self.var = mean, self, 1.0 / (1.0 + sizes)
            self.bag = self.var

        def at_size(self, k):
            return Answer(self.mean, np.full(len(self.mean), k))

    rng = np.random.default_rng(1)
    bags = Bags.from_list([rng.normal(rng.normal(), 1.0, (50, 1)) for _ in range(400)])
    change = Change.of(Level(), bags, 4, 5, rng)
    *_, ratio, error, kept, _, at_size, total, _ = change.numbers()
    assert abs(ratio - 1.0) < 3 * error < 0.4
    assert kept == ratio and at_size == pytest.approx(ratio) and total == pytest.approx(ratio)


def test_size_as_an_input_can_be_kept(fold, process):
    some = fold.test[:8]
    np.testing.assert_allclose(
        bag_part.mean_at(process, some, some.sizes), process.predict(some), rtol=1e-9
    )
    linear = ShrinkageRegressor(KernelEmbedding(5, bandwidth=2.0)).fit(fold.train, fold.labels)
    np.testing.assert_array_equal(
        bag_part.mean_at(linear, some, 2 * some.sizes), linear.predict(some)
    )


def test_every_model_and_number_of_points_has_a_row(monkeypatch, capsys, fold, process):
    def fitted():
        return type("Fitted", (), {"fit": lambda *_: process})()

    asked = CutSet(lambda: iter([fold, fold]), 40, (2, 10))
    monkeypatch.setattr(bag_part, "SETS", {"tiny": asked})
    monkeypatch.setattr(bag_part, "MODELS", {"gp": fitted})
    bag_part.main(["--models", "gp", "--cuts", "2", "--folds", "1"])
    title, columns, *rows = capsys.readouterr().out.splitlines()
    assert title == "tiny: bags of 40 points or more" and columns.split()[0] == "k"
    assert [row.split()[-len(columns.split())] for row in rows[:2]] == ["2", "10"]
    assert rows[0].split()[2] == "15"


def test_folds_are_those_of_the_real_bags():
    first = next(bag_part.SETS["schools"].folds())
    assert (first.train.n_bags, first.test.n_bags) == (128, 32)
    assert set(bag_part.SETS) == {"gamma", "polls", "radon", "schools", "multilevel", "digits"}
