"""Predictions of many classes, from latent values that are known."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, log_loss

from bagwise import metrics
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.likelihoods import Probit
from bagwise.predictions.classes import ClassPrediction, ManyClassPrediction
from bagwise.predictions.joined import Piece, joined
from bagwise.predictions.mixture import MixturePrediction

CLASSES = np.array(["a", "b", "c", "d"])


def known(latent, classes=CLASSES, **options):
    """Latent values (n, k) without any doubt."""
    each = [
        ClassPrediction(
            MixturePrediction(column[None], np.zeros(1), **{"sizes": None} | options),
            Probit(),
            [False, True],
        )
        for column in np.asarray(latent, dtype=float).T
    ]
    return ManyClassPrediction(each, classes)


@pytest.fixture(scope="module")
def some():
    rng = np.random.default_rng(0)
    prediction = known(rng.normal(size=(3000, 4)), ids=np.arange(3000), sizes=np.full(3000, 5.0))
    y = np.array([rng.choice(CLASSES, p=p / p.sum()) for p in prediction.proba])
    return prediction, y


def test_formula_in_logs_far_out():
    latent = np.array(
        [[0.0, 0.0, 0.0, 0.0], [8.0, -8.0, -9.0, -20.0], [-30.0, -31.0, -32.0, -30.5]]
    )
    prediction = known(latent)
    scores = log_ndtr(latent) - 0.5 * log_ndtr(-latent)
    for k, label in enumerate(CLASSES):
        others = np.exp(np.delete(scores, k, axis=1) - scores[:, [k]]).sum(axis=1)
        assert_allclose(prediction.log_prob([label] * 3), -np.log1p(others), rtol=1e-9)
    assert_allclose(prediction.proba.sum(axis=1), 1.0)


def test_no_class_at_all_is_any_class():
    prediction = known([[-1e3] * 4, [1e3] * 4])
    assert_allclose(prediction.proba, 0.25)
    assert np.isfinite(prediction.log_prob(["a", "b"])).all()
    assert prediction.log_prob(["a", "a"])[0] == pytest.approx(np.log(0.25))
    sure = known([[1e3, -1e3, -1e3, -1e3]])
    assert sure.log_prob(["a"])[0] == 0.0 and sure.log_prob(["b"])[0] < -700


def test_scores_are_those_of_scikit_learn(some):
    prediction, y = some
    right = y[:, None] == CLASSES
    assert metrics.log_loss(prediction, y) == pytest.approx(log_loss(y, prediction.proba))
    assert metrics.accuracy(prediction, y) == accuracy_score(y, prediction.predicted)
    brier = np.sum((prediction.proba - right) ** 2, axis=1).mean()
    assert metrics.brier(prediction, y) == pytest.approx(brier / 2.0)
    overall = metrics.evaluate(prediction, y).overall
    top = prediction.proba.max(axis=1)
    expected = (prediction.predicted == y).mean() - top.mean()
    assert overall["calibration"] == pytest.approx(expected)
    assert abs(overall["calibration"]) < 0.03  # labels were drawn from the probabilities


def test_reliability_of_the_predicted_class_and_of_one(some):
    prediction, y = some
    top = prediction.proba.max(axis=1)
    for of, hit, p in [
        (None, prediction.predicted == y, top),
        ("c", y == "c", prediction.proba[:, 2]),
    ]:
        table = metrics.reliability(prediction, y, n_bins=5, strategy="uniform", of=of)
        observed, predicted = calibration_curve(hit, p, n_bins=5)
        assert_allclose(table.observed, observed)
        assert_allclose(table.predicted, predicted)
        assert table.calibration_error < 0.05


def test_reliability_of_the_first_of_two():
    latent = MixturePrediction(np.array([[-1.0, 0.5, 2.0]]), np.zeros(1), sizes=None)
    prediction = ClassPrediction(latent, Probit(), ["no", "yes"])
    table = metrics.reliability(prediction, ["no", "yes", "yes"], of="no")
    assert_allclose(np.sort(table.predicted), np.sort(prediction.proba[:, 0]))


def test_interval_is_by_the_latent_value_of_the_predicted_class():
    rng = np.random.default_rng(1)
    draws = [rng.normal(m, 0.5, (400, 1)) for m in (1.0, -1.0, -2.0)]
    each = [
        ClassPrediction(MixturePrediction(f, np.zeros(400), sizes=None), Probit(), [False, True])
        for f in draws
    ]
    prediction = ManyClassPrediction(each, ["a", "b", "c"])
    p = np.exp(log_ndtr(draws[0][:, 0]))
    others = sum(one.probability[0] / np.sqrt(1 - one.probability[0]) for one in each[1:])
    score = p / np.sqrt(1 - p)
    expected = np.quantile(score / (score + others), [0.05, 0.95])
    assert_allclose(prediction.interval(0.9)[0], expected, atol=0.02)
    assert (
        prediction.interval(0.9)[0, 0] < prediction.probability[0] < prediction.interval(0.9)[0, 1]
    )


def test_table_has_a_column_for_each_class(some):
    prediction, _ = some
    frame = prediction[:7].to_frame()
    names = ["predicted", "probability", "lower", "upper", "bag_sd", "weights_sd"]
    assert frame.columns.tolist() == ["id", "size", *names, *(f"probability_{c}" for c in CLASSES)]
    assert_allclose(frame.filter(like="probability_").sum(axis=1), 1.0)
    assert frame["predicted"].tolist() == prediction.predicted[:7].tolist()
    assert "probability_d" in prediction._repr_html_() and "4 classes" in repr(prediction)
    assert repr(prediction[:0]) == "ManyClassPrediction(0 bags)"


def test_some_bags_and_pickles(some):
    prediction, _ = some
    assert_array_equal(prediction[[4, 2]].proba, prediction.proba[[4, 2]])
    assert_array_equal(prediction.bag(17).proba[0], prediction.proba[17])
    assert_array_equal(pickle.loads(pickle.dumps(prediction)).proba, prediction.proba)
    with pytest.raises(ValueError, match="read-only"):
        prediction.proba[0, 0] = 1.0


def test_joined_pieces_are_the_whole(some):
    prediction, y = some
    rows = np.random.default_rng(2).permutation(len(y))
    whole = joined([Piece(part, prediction[part]) for part in (rows[:900], rows[900:])])
    assert_array_equal(whole.proba, prediction.proba)
    assert_array_equal(whole.log_prob(y), prediction.log_prob(y))
    assert_array_equal(whole[[3, 5]].proba, prediction.proba[[3, 5]])
    assert_array_equal(whole.mean, whole.probability)
    assert whole.fold.max() == 1 and whole.of("a").classes.tolist() == [False, True]
    other = known([[0.0, 1.0, 2.0, 3.0]], ["a", "b", "c", "z"])
    with pytest.raises(BagwiseError, match=r"pieces predict .* the same classes"):
        joined([Piece(np.array([0]), prediction[:1]), Piece(np.array([1]), other)])


def test_labels_and_classes_are_checked(some):
    prediction, y = some
    with pytest.raises(
        InvalidLabelsError, match="y is 'x' at row 1; expected 'a', 'b', 'c' or 'd'"
    ):
        prediction.log_prob(["a", "x", *y[2:]])
    with pytest.raises(InvalidLabelsError, match="there is no class 'x'"):
        prediction.of("x")
    for classes in (["a", "b", "c"], ["a", "b", "c", "c"]):
        with pytest.raises(BagwiseError, match=r"classes are .* expected 4 different labels"):
            ManyClassPrediction(prediction.each, classes)
