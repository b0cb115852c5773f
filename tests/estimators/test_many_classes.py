"""More than two classes: what a class has for itself, what classes share, and how they add up."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.class_weight import compute_class_weight

import bagwise
from bagwise import (
    Bags,
    BayesianLogisticClassifier,
    DistributionGPClassifier,
    KernelEmbedding,
    ShrinkageClassifier,
    cross_val_predict_dist,
    scorers,
    tune,
)
from bagwise.embedding.sums import summarise
from bagwise.exceptions import BagwiseError, InvalidLabelsError
from bagwise.inference import NUTS, Priors
from bagwise.inference.diagnostics import diagnose
from classifier_models import (
    ARRAYS,
    BAGS,
    FEW,
    HEIGHTS,
    MANY,
    NEW,
    NEW_ARRAYS,
    fitted,
    many_model,
    unfitted,
)
from contract_models import few_draws

QUICK = "shrinkage-many"
one_by_one_or_together = pytest.mark.parametrize("name", [QUICK, "gp-many"])  # how heads are fitted


def coupled(p):
    """The geometric mean of p and of the odds p/(1 − p), in logs, of probabilities (n, k)."""
    logs = 0.5 * np.log(p) + 0.5 * (np.log(p) - np.log1p(-p))
    return np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)


def binary(prediction):
    return np.stack([one.probability for one in prediction.each], axis=1)


# ---- one against the rest -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["shrinkage-many", "shrinkage-convolved-many", "logistic-map-many"]
)
def test_each_class_is_a_fit_of_its_own_against_the_rest(name):
    prediction = fitted(name).predict_dist(NEW)
    for label in fitted(name).classes_:
        alone = unfitted(name).fit(BAGS, label == HEIGHTS).predict_dist(NEW)
        assert_array_equal(prediction.of(label).proba, alone.proba)
        assert_array_equal(prediction.of(label).parts.bag, alone.parts.bag)
    other = OneVsRestClassifier(unfitted(name)).fit(BAGS, HEIGHTS)
    each = np.stack([one.predict_proba(NEW)[:, 1] for one in other.estimators_], axis=1)
    assert_allclose(prediction.proba, coupled(each), rtol=1e-9)


@many_model
def test_probabilities_follow_from_those_against_the_rest(name):
    prediction = fitted(name).predict_dist(NEW)
    assert_allclose(prediction.proba, coupled(binary(prediction)), rtol=1e-9)
    assert_array_equal(prediction.probability, prediction.proba.max(axis=1))
    places = np.argmax(prediction.proba, axis=1)
    for part in ("bag", "weights"):
        parts = np.stack([getattr(one.parts, part) for one in prediction.each])
        assert_array_equal(getattr(prediction.parts, part), parts[places, np.arange(len(places))])


def test_logistic_regression_of_scikit_learn_on_the_same_features():
    model = BayesianLogisticClassifier(
        KernelEmbedding(5, bandwidth=1.0), inference="map", priors=Priors(intercept=1e3)
    ).fit(BAGS, HEIGHTS)
    train, new = (summarise(b, model.features_, covariance=False).mean for b in (BAGS, NEW))
    each = [
        LogisticRegression(C=weight_var, tol=1e-10, max_iter=10_000)
        .fit(train, label == HEIGHTS)
        .predict_proba(new)[:, 1]
        for label, weight_var in zip(model.classes_, model.weight_var_, strict=True)
    ]
    assert_allclose(model.predict_proba(NEW), coupled(np.stack(each, axis=1)), atol=5e-4)


def test_processes_share_their_scales_and_are_near_those_of_two_classes():
    model = fitted("gp-many")
    assert len({head.scales for head in model.head_.heads}) == 1
    for label, one in zip(model.classes_, model.predict_dist(NEW).each, strict=True):
        two = unfitted("gp-many").set_params(prior=model.prior_)  # each might decide for another
        alone = two.fit(BAGS, label == HEIGHTS).predict_dist(NEW)
        assert np.corrcoef(one.latent.mean, alone.latent.mean)[0, 1] > 0.9
        assert_allclose(one.probability, alone.probability, atol=0.2)


@one_by_one_or_together
def test_names_of_the_classes_do_not_matter(name):
    names = {"high": "b", "low": "c", "middle": "a"}
    other = unfitted(name).fit(BAGS, np.array([names[label] for label in HEIGHTS]))
    order = [other.classes_.tolist().index(names[label]) for label in ("high", "low", "middle")]
    found, expected = other.predict_proba(NEW)[:, order], fitted(name).predict_proba(NEW)
    assert_allclose(found, expected, atol=1e-3 if name == "gp-many" else 1e-12)


@few_draws
def test_draws_have_an_axis_of_classes():
    model = fitted("logistic-nuts-many")
    shapes = {name: draws.shape for name, draws in model.draws_.items()}
    assert shapes == {
        "weights": (2, 40, 3, 6),
        "intercept": (2, 40, 3),
        "weight_sd": (2, 40, 3),
    }
    for values in model.draws_.values():  # of independent runs
        first, second = values[:, :, 0].ravel(), values[:, :, 1].ravel()
        assert not np.allclose(first, second)
    assert model.diagnostics_.n_draws == FEW.draws
    assert model.weights_.shape == (3, 6) and model.intercept_.shape == (3,)
    assert_allclose(model.weights_, model.draws_["weights"].mean(axis=(0, 1)))
    exported = model.to_arviz()
    assert exported["posterior"]["weights"].shape == (2, 40, 3, 6)


def test_classes_have_as_many_draws_as_the_one_that_needs_most():
    """And these are enough of each class, though fewer were enough of some at first."""
    rng = np.random.default_rng(0)
    y, level = np.repeat(["a", "b", "c"], [8, 20, 20]), {"a": 0.0, "b": 1.0, "c": 3.0}
    bags = [rng.normal(level[each], 1, (6, 1)) for each in y]
    settings = NUTS(
        chains=2, warmup=60, min_draws=20, n_effective=40, max_draws=2000, progress=False
    )
    model = BayesianLogisticClassifier(KernelEmbedding(5, bandwidth=1.0), inference=settings)
    draws = model.fit(bags, y).draws_
    n_draws = {values.shape[1] for values in draws.values()}
    assert n_draws == {model.diagnostics_.n_draws} and 20 < n_draws.pop() < 2000
    for k in range(3):
        one = {name: values[:, :, k] for name, values in draws.items()}
        assert diagnose(one, model.head_.heads[k].draws.trajectories).are_enough(40)


@many_model
def test_learnt_numbers_have_a_row_for_each_class(name):
    if name == "gp-many":  # whose scales are shared
        assert isinstance(fitted(name).sampling_, float)
        return
    model = fitted(name)
    assert model.weights_.shape == (3, 6) and model.covariate_weights_.shape == (3, 0)
    assert model.intercept_.shape == model.weight_var_.shape == (3,)
    assert model.prior_scale_.shape == (3,) and (model.weight_var_ > 0).all()
    assert (model.length_scale_ is None) == ("convolved" not in name)
    assert "3 × 6" in model._repr_html_()


# ---- labels -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "classes",
    [np.array([7, 3, 5]), np.array([0.0, 1.0, 2.0]), np.array(["c", "a", "b"], dtype=object)],
    ids=["int", "whole floats", "objects"],
)
def test_labels_of_any_type(classes):
    y = classes[np.unique(HEIGHTS, return_inverse=True)[1]]
    model = unfitted(QUICK).fit(BAGS, y)
    assert_array_equal(model.classes_, np.unique(classes), strict=True)
    assert set(model.predict(NEW)) <= set(classes)
    assert np.isfinite(model.predict_dist(NEW).log_prob(model.predict(NEW))).all()
    assert model.score(NEW, model.predict(NEW)) == 1.0


@one_by_one_or_together
def test_a_class_of_one_bag(name):
    y = np.where(HEIGHTS == "middle", "low", HEIGHTS)
    y[3] = "alone"
    model = unfitted(name).fit(BAGS, y)
    p = model.predict_proba(NEW)
    assert model.classes_.tolist() == ["alone", "high", "low"]
    assert np.isfinite(p).all() and (p[:, 0] < 0.9).all()


def test_ten_classes():
    y = np.arange(len(HEIGHTS)) % 10
    p = unfitted(QUICK).fit(BAGS, y).predict_proba(NEW)
    assert p.shape == (NEW.n_bags, 10)
    assert_allclose(p.sum(axis=1), 1.0)
    assert (p < 0.7).all()  # there is nothing to know


# ---- weights ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [QUICK])
def test_class_weights_are_sample_weights(name):
    known = {"high": 1.0, "low": 2.0, "middle": 0.5}
    by_class = unfitted(name).set_params(class_weight=known).fit(BAGS, HEIGHTS)
    by_bag = unfitted(name).fit(BAGS, HEIGHTS, sample_weight=[known[y] for y in HEIGHTS])
    assert_allclose(by_class.predict_proba(NEW), by_bag.predict_proba(NEW), atol=1e-8)
    assert not np.allclose(by_class.predict_proba(NEW), fitted(name).predict_proba(NEW), atol=0.01)


def test_balanced_weights_are_those_of_scikit_learn():
    classes = np.unique(HEIGHTS)
    weights = compute_class_weight("balanced", classes=classes, y=HEIGHTS)
    given = dict(zip(classes.tolist(), weights.tolist(), strict=True))
    balanced, by_hand = (
        unfitted(QUICK).set_params(class_weight=weight).fit(BAGS, HEIGHTS).predict_proba(NEW)
        for weight in ("balanced", given)
    )
    assert_allclose(balanced, by_hand, atol=1e-8)


@one_by_one_or_together
def test_a_bag_of_weight_zero_has_no_say(name):
    weights, wrong = np.ones(len(HEIGHTS)), HEIGHTS.copy()
    weights[:8], wrong[:8] = 0.0, "low"
    right = unfitted(name).fit(BAGS, HEIGHTS, sample_weight=weights)
    model = unfitted(name).fit(BAGS, wrong, sample_weight=weights)
    assert_allclose(model.predict_proba(NEW), right.predict_proba(NEW), rtol=1e-10)


# ---- sizes --------------------------------------------------------------------------------------


@many_model
def test_at_size_asks_each_class_again(name):
    prediction = fitted(name).predict_dist(NEW)
    larger = prediction.at_size(1000)
    each = np.stack([one.at_size(1000).probability for one in prediction.each], axis=1)
    assert_allclose(larger.proba, coupled(each), rtol=1e-9)
    knows = "logistic" not in name
    assert (larger.of("low").parts.bag < prediction.of("low").parts.bag).all() == knows


# ---- scikit-learn's tools, and ours -------------------------------------------------------------


def test_cross_validation_and_its_scores():
    model = unfitted(QUICK)
    found = cross_val_predict_dist(model, BAGS, HEIGHTS, cv=3, progress=False)
    expected = cross_val_predict(model, BAGS, HEIGHTS, cv=3, method="predict_proba")
    assert_array_equal(found.proba, expected)
    assert found[:5].proba.shape == (5, 3) and found.at_size(9).fold.tolist() == found.fold.tolist()
    one_fold = np.flatnonzero(found.fold == 1)
    assert type(found[one_fold]) is type(fitted(QUICK).predict_dist(NEW))
    frame = found.to_frame()
    assert frame.columns.tolist()[-5:] == [
        *(f"probability_{label}" for label in ("high", "low", "middle")),
        "novelty",
        "fold",
    ]
    scoring = {
        "theirs": "neg_log_loss",
        "ours": scorers.neg_log_loss,
        "accuracy": scorers.accuracy,
        "auc": "roc_auc_ovr",
        "brier": scorers.neg_brier,
    }
    scores = cross_validate(model, BAGS, HEIGHTS, cv=3, scoring=scoring, error_score="raise")
    assert_allclose(scores["test_ours"], scores["test_theirs"])
    right = found.predicted == HEIGHTS
    by_fold = [right[found.fold == fold].mean() for fold in range(3)]
    assert_allclose(scores["test_accuracy"], by_fold)
    assert scores["test_auc"].min() > 0.8 and scores["test_brier"].min() > -0.3


def test_searches_and_pipelines():
    grid = {"embedding__n_landmarks": [1, 6]}
    found = tune(unfitted(QUICK), BAGS, HEIGHTS, grid=grid, cv=3, progress=False)
    assert found.params == {"embedding__n_landmarks": 6} and found.metric == "log_loss"
    six = {"n_landmarks": [6]}
    by_brier = tune(unfitted(QUICK), BAGS, HEIGHTS, grid=six, cv=2, metric="brier", progress=False)
    assert by_brier.score < 0.2
    search = GridSearchCV(unfitted(QUICK), grid, cv=2, scoring="neg_log_loss").fit(BAGS, HEIGHTS)
    assert_array_equal(search.predict_proba(NEW), found.estimator.predict_proba(NEW))
    pipeline = make_pipeline(bagwise.PointwiseTransformer(StandardScaler()), unfitted(QUICK))
    p = pipeline.fit(ARRAYS, HEIGHTS).predict_proba(NEW_ARRAYS)
    assert_allclose(p, fitted(QUICK).predict_proba(NEW), atol=1e-5)


def test_a_class_that_a_fold_would_not_know():
    y = HEIGHTS.copy()
    y[0] = "alone"
    pairs = [(np.arange(18, 36), np.arange(18)), (np.arange(18), np.arange(18, 36))]
    with pytest.raises(BagwiseError, match="fold 0 holds out all bags of class 'alone'"):
        cross_val_predict_dist(unfitted(QUICK), BAGS, y, cv=pairs, progress=False)
    with pytest.raises(BagwiseError, match="class 'alone' has one bag"):
        tune(unfitted(QUICK), BAGS, y, progress=False)


@many_model
def test_explanations_of_each_class_add_up(name):
    model, bags = fitted(name), NEW[2:3]
    prediction = model.predict_dist(bags)
    for label in model.classes_:
        why = model.explain(bags, of=label)
        latent = prediction.of(label).latent.mean[0]
        assert_allclose(why.prediction, latent, rtol=1e-9)
        assert_allclose(why.baseline + why.points.sum(), latent, rtol=1e-6, atol=1e-6)
        assert f"for class '{label}'" in why.target
    assert model.explain(bags).target.endswith(f"'{prediction.predicted[0]}'")
    with pytest.raises(InvalidLabelsError, match="no class 'tall'; expected 'high', 'low' or 'mid"):
        model.explain(bags, of="tall")


def test_the_first_of_two_classes_is_the_second_mirrored():
    model, bags = fitted("shrinkage"), NEW[2:3]
    first, second = (model.explain(bags, of=label) for label in (False, True))
    assert_array_equal(first.points, -second.points)
    assert first.prediction == -second.prediction and first.baseline == -second.baseline
    assert_array_equal(model.explain(bags).points, second.points)


# ---- what it is worth ---------------------------------------------------------------------------


def shapes(n_bags, seed):
    """Bags of one mean and one standard deviation on average: normal, uniform or of two modes."""
    rng = np.random.default_rng(seed)
    y = rng.choice(["normal", "two modes", "uniform"], n_bags)
    draw = {
        "normal": lambda n: rng.normal(size=n),
        "uniform": lambda n: rng.uniform(-np.sqrt(3), np.sqrt(3), n),
        "two modes": lambda n: 0.95 * rng.choice([-1, 1], n) + rng.normal(0, 0.3, n),
    }
    return [draw[label](rng.choice([15, 50]))[:, None] for label in y], y


def digits(seed=0):
    """Zeros, ones and twos, as bags of 20 places where there is ink."""
    rng, known = np.random.default_rng(seed), load_digits()
    keep = np.flatnonzero(known.target < 3)
    places = np.stack(np.divmod(np.arange(64), 8), axis=1)
    bags = [
        places[rng.choice(64, 20, p=known.data[i] / known.data[i].sum())]
        + rng.uniform(0, 1, (20, 2))
        for i in keep
    ]
    return bags, known.target[keep]


def against_moments(model, train, y, new, new_y):
    """Accuracy and log loss, and those of multinomial regression on means and sds of the bags."""
    model.fit(train, y)
    moments, new_moments = (
        np.array([np.concatenate([bag.mean(axis=0), bag.std(axis=0)]) for bag in bags])
        for bags in (train, new)
    )
    plain = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(moments, y)
    prediction = model.predict_dist(new)
    ours = model.score(new, new_y), -prediction.log_prob(new_y).mean()
    p = plain.predict_proba(new_moments)
    return ours, (plain.score(new_moments, new_y), log_loss(new_y, p, labels=plain.classes_))


@pytest.mark.parametrize(
    "model",
    [
        ShrinkageClassifier(KernelEmbedding(20, bandwidth=0.5), weight_var=100.0),
        DistributionGPClassifier(KernelEmbedding(12, bandwidth=0.5), sampling=1.0, size=False),
    ],
    ids=["shrinkage", "gp"],
)
def test_shapes_that_means_and_standard_deviations_do_not_tell(model):
    (accuracy, loss), (plain_accuracy, plain_loss) = against_moments(
        model, *shapes(90, 0), *shapes(400, 1)
    )
    assert accuracy > 0.75 > 0.5 > plain_accuracy
    assert loss < 0.65 < 1.0 < plain_loss


def test_digits_as_bags_of_pixels():
    bags, y = digits()
    model = ShrinkageClassifier(KernelEmbedding(30, bandwidth=0.5), weight_var=100.0)
    (accuracy, loss), (plain_accuracy, plain_loss) = against_moments(
        model, bags[:200], y[:200], bags[200:], y[200:]
    )
    assert accuracy > plain_accuracy + 0.1
    assert loss < plain_loss - 0.2


def test_every_many_model_is_of_the_contract():
    assert {type(model) for model in MANY.values()} == {
        type(unfitted(name)) for name in ("shrinkage", "bdr-laplace", "logistic-map", "gp")
    }


def test_bags_with_covariates_and_names():
    covariates = np.random.default_rng(0).normal(size=(BAGS.n_bags, 1))
    bags = Bags.from_list(ARRAYS, covariates=covariates, feature_names=["a", "b"])
    model = unfitted(QUICK).fit(bags, HEIGHTS)
    assert model.covariate_weights_.shape == (3, 1)
    why = model.explain(bags, bag=4, of="low")
    total = why.baseline + why.covariates.sum() + why.points.sum()
    assert_allclose(total, why.prediction, rtol=1e-9)
