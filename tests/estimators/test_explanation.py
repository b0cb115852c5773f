"""Explanations add up, and say what predictions of other bags confirm."""

import dataclasses
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import classifier_models
import contract_models
import dense_oracle
from bagwise import Bags, KernelEmbedding, RBFNetworkRegressor, ShrinkageRegressor
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError
from contract_models import BAGS, NEW, NEW_ARRAYS, Y, fitted

SLOW = {"bdr-convolved", "bdr-map"}  # whose heads are those of models that are tested
GAUSSIAN = ["embedding-gaussian", "embedding-landmarks"]
PROCESSES = ["gp", "gp-auto", "gp-evidence", "gp-kernel-prior", "gp-student"]  # nonlinear
LINEAR = [name for name in contract_models.MODELS if name not in {*GAUSSIAN, *PROCESSES, *SLOW}]
CLASSIFIERS = [*classifier_models.CORE, "shrinkage-fourier"]


def sums(why):
    """The three sums that must be the prediction."""
    rest = why.baseline + why.covariates.sum()
    return [
        rest + why.points.sum(),
        rest + why.landmarks.sum(),
        rest + why.reference + why.columns.sum(),
    ]


def fitted_classifier(name):
    return classifier_models.unfitted(name).fit(classifier_models.BAGS, classifier_models.Y)


@pytest.mark.parametrize("name", [*LINEAR, *GAUSSIAN, *PROCESSES])
def test_contributions_add_up_to_the_prediction(name):
    model = fitted(name)
    for bag, mean in enumerate(model.predict(NEW[:4])):
        why = model.explain(NEW, bag=bag)
        assert why.prediction == pytest.approx(mean, abs=1e-12)
        assert_allclose(sums(why), mean, atol=1e-9)
        assert_allclose(
            why.points - why.shares * why.reference, why.point_columns.sum(axis=1), atol=1e-9
        )


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_contributions_of_classifiers_add_up_to_the_latent_mean(name):
    model, new = fitted_classifier(name), classifier_models.NEW
    why = model.explain(new, bag=3)
    assert_allclose(sums(why), model.predict_dist(new).latent.mean[3], atol=1e-9)
    assert why.target == "latent value for class True"


@pytest.mark.parametrize("name", LINEAR)
def test_the_witness_is_what_a_bag_of_equal_points_adds(name):
    model, places = fitted(name), np.random.default_rng(2).normal(1.5, 1.0, (5, 2))
    why = model.explain(NEW, bag=4)
    there = [np.tile(place, (why.size, 1)) for place in places]
    assert_allclose(why.witness(places), model.predict(there) - why.baseline, atol=1e-8)


@pytest.mark.parametrize("name", ["network-loo", "bayesian", "embedding-linear"])
def test_leaving_a_point_out_leaves_the_average_of_the_others(name):
    model, points = fitted(name), NEW_ARRAYS[4]
    why = model.explain(points)
    n = len(points)
    for row in range(n):
        without = model.predict([np.delete(points, row, axis=0)])[0]
        others = why.points.sum() - why.points[row]
        assert without == pytest.approx(why.baseline + others * n / (n - 1), abs=1e-9)


@pytest.mark.parametrize("name", GAUSSIAN)
def test_the_witness_of_a_level_that_is_not_linear_is_the_average_gradient(name):
    """Along embeddings of weighted bags, which `predict` knows: ∫ d/dε F(μ(t) + ε(φ(x) − m0))."""
    model, bag, x = fitted(name), NEW_ARRAYS[4], np.array([[1.2, 1.9]])
    points = np.vstack([BAGS.points, bag, x])
    average = np.repeat(1.0 / BAGS.sizes, BAGS.sizes) / BAGS.n_bags
    own = np.full(len(bag), 1.0 / len(bag))

    def value(t, step):
        shares = np.concatenate([(1.0 - t - step) * average, t * own, [step]])
        return model.predict(Bags.from_list([points], weights=[shares]))[0]

    nodes, weights = np.polynomial.legendre.leggauss(12)
    step, total = 1e-4, 0.0
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        # one-sided, as no share may be negative, but of second order
        ends = [value(node, k * step) for k in range(3)]
        total += weight * (-1.5 * ends[0] + 2.0 * ends[1] - 0.5 * ends[2]) / step
    assert model.explain(bag).witness(x)[0] == pytest.approx(total, abs=1e-4)
    assert model.explain(bag).baseline == pytest.approx(value(0.0, 0.0), abs=1e-9)


@pytest.mark.parametrize("prior", ["kernel", "convolved"])
def test_landmarks_are_those_of_the_dense_formula(prior):
    bags, y = dense_oracle.scale_bags()
    model = ShrinkageRegressor(KernelEmbedding(5, bandwidth=0.5), weight_var=2.0, prior=prior).fit(
        bags, y
    )
    features = model.features_
    u = features.landmarks
    phis = [dense_oracle.rbf(features.scaling(bag), u, model.bandwidth_) for bag in bags]
    mean, sizes, cov = dense_oracle.summary(phis)
    cov = cov + 0.01 * np.trace(cov) / 5 * np.eye(5)
    r = dense_oracle.rbf(u, u, model.bandwidth_)
    if prior == "convolved":
        r = dense_oracle.convolved(u, u, model.bandwidth_, model.length_scale_)
    for bag in (0, 7):
        inverse = np.linalg.inv(model.prior_scale_ * r + cov / sizes[bag])
        v = inverse @ (model.prior_scale_ * r) @ model.weights_
        expected = v * (mean[bag] - mean.mean(axis=0))
        assert_allclose(model.explain(bags, bag=bag).landmarks, expected, atol=1e-7)


def test_weights_of_points_count_as_repetitions_where_size_does_not_matter():
    points, counts = NEW_ARRAYS[4], np.arange(1, len(NEW_ARRAYS[4]) + 1)
    weighted = Bags.from_list([points], weights=[counts])
    model = fitted("bayesian")
    why, repeated = model.explain(weighted), model.explain(np.repeat(points, counts, axis=0))
    summed = np.add.reduceat(repeated.points, np.r_[0, np.cumsum(counts)[:-1]])
    assert_allclose(why.points, summed, atol=1e-12)
    assert_allclose(why.columns, repeated.columns, atol=1e-10)


def test_weighted_bags_add_up_with_their_effective_size():
    weights = [np.arange(1.0, 1 + size) for size in NEW.sizes]
    weighted = Bags.from_list(NEW_ARRAYS, weights=weights)
    model = fitted("shrinkage")
    why = model.explain(weighted, bag=2)
    assert_allclose(sums(why), model.predict(weighted)[2], atol=1e-9)
    assert_allclose(why.shares, weights[2] / weights[2].sum())


def covariate_model():
    rng = np.random.default_rng(3)
    covariates = rng.normal(3.0, 2.0, (BAGS.n_bags, 2))
    given = BAGS.with_covariates(covariates, ["age", "dose"])
    model = RBFNetworkRegressor(contract_models.SMALL)
    return model.fit(given, Y + covariates @ [1.0, -0.5]), given


def test_covariates_count_from_their_average():
    model, bags = covariate_model()
    why = model.explain(bags, bag=5)
    gaps = bags.covariates[5] - bags.covariates.mean(axis=0)
    up = bags[5:6].with_covariates(bags.covariates[5:6] + np.eye(2)[:1], ["age", "dose"])
    slope = model.predict(up)[0] - why.prediction
    assert why.covariates[0] == pytest.approx(slope * gaps[0])
    assert_allclose(sums(why), model.predict(bags)[5], atol=1e-9)
    assert why.covariate_names == ("age", "dose")
    assert "Of the covariates, " in why.lines()[-1]


def test_the_baseline_is_the_average_bag_with_average_covariates():
    model, bags = covariate_model()
    points, shares = BAGS.points, np.repeat(1.0 / BAGS.sizes, BAGS.sizes)
    average = Bags.from_list(
        [points],
        weights=[shares],
        covariates=bags.covariates.mean(axis=0)[None],
        covariate_names=["age", "dose"],
    )
    assert model.explain(bags, bag=0).baseline == pytest.approx(model.predict(average)[0])


# ---------------------------------------------------------------- which bag


def test_a_bag_is_chosen_by_id_and_else_by_position():
    model = fitted("bayesian")
    named = Bags.from_list(NEW_ARRAYS, ids=[7, 5, 3, 1, 0, 11, 12, 13, 14])
    assert model.explain(named, bag=0).size == NEW.sizes[4]  # the id
    assert model.explain(named, bag=2).id == 3  # no such id
    assert model.explain(named, bag=-1).id == 14


def test_a_bag_may_be_an_array_a_list_of_rows_or_a_data_frame():
    import pandas as pd

    model, points = fitted("bayesian"), NEW_ARRAYS[1]
    given = [points, points.tolist(), pd.DataFrame(points), [points], NEW[1:2]]
    values = [model.explain(one).points for one in given]
    for value in values:
        assert_allclose(value, values[0])


@pytest.mark.parametrize(
    ("X", "bag", "text"),
    [
        (NEW, None, r"there are 9 bags; expected one, to be explained. Say which .* bag=0"),
        (NEW, "b", r"there is no bag 'b' among 9 bags; expected an id such as 0"),
        (NEW, 9, r"there is no bag 9 among 9 bags"),
        (Bags.concatenate([NEW, NEW]), 0, r"2 bags have the id 0; .* explain\(bags\[0 : 1\]\)"),
        (np.zeros((3, 5)), None, "5 features"),
    ],
)
def test_what_cannot_be_explained_is_refused(X, bag, text):
    with pytest.raises(InvalidBagsError, match=text):
        fitted("bayesian").explain(X, bag=bag)


# ---------------------------------------------------------------- how it is shown


def test_the_strongest_come_first():
    why = fitted("shrinkage").explain(NEW, bag=4)
    names, values = zip(*why.top(3), strict=True)
    order = np.argsort(-np.abs(why.points))[:3]
    assert list(names) == order.tolist()
    assert_allclose(values, why.points[order])
    assert why.top(1, of="columns")[0][0] in ("x0", "x1")
    assert why.top(1, of="landmarks")[0][0].startswith("landmark ")
    assert why.top(of="covariates") == []
    with pytest.raises(BagwiseError, match=r"of is 'rows'; expected .points. or"):
        why.top(of="rows")


def test_sentences_count_the_points_and_name_the_strongest():
    why = fitted("shrinkage").explain(NEW, bag=4)
    up = int(np.sum(why.points > 0))
    row, value = why.top(1)[0]
    first, second, third = why.lines()
    assert first.startswith(f"The predicted label of bag 4 is {why.prediction:.4g}: ")
    assert f"{up} of its {why.size} points push the prediction up" in second
    assert second.endswith(f"row {row}, by {value:+.3g}.")
    assert "from there x" in third and "then x" in third
    assert repr(why).splitlines() == ["Explanation of bag 4", first, second, third]


def test_a_bag_of_one_point_has_its_own_sentence():
    lines = fitted("shrinkage").explain(NEW_ARRAYS[0][:1]).lines()
    assert lines[1].startswith("Its only point pushes the prediction ")


def test_an_explanation_is_ready_for_json():
    model, bags = covariate_model()
    shown = json.loads(json.dumps(model.explain(bags, bag=5).to_dict()))
    total = shown["baseline"] + sum(shown["covariates"].values())
    assert total + sum(shown["points"]) == pytest.approx(shown["prediction"], abs=1e-9)
    assert total + sum(shown["landmarks"].values()) == pytest.approx(shown["prediction"], abs=1e-9)
    columns = shown["reference"] + sum(shown["columns"].values())
    assert total + columns == pytest.approx(shown["prediction"], abs=1e-9)
    assert shown["id"] == 5 and shown["size"] == BAGS.sizes[5]


def test_directions_are_named_and_have_places():
    why = fitted("shrinkage").explain(NEW, bag=0)
    assert_allclose(why.landmark_places, fitted("shrinkage").landmarks_)
    waves = fitted("shrinkage-fourier").explain(NEW, bag=0)
    assert waves.landmark_places is None and waves.landmark_names[-1] == "sine 3"
    exact = fitted("embedding-gaussian").explain(NEW, bag=0)
    assert exact.landmark_names[0] == "training bag 0"
    assert exact.landmark_names[-1] == "the bag itself"


def test_the_witness_wants_the_columns_of_the_bag():
    why = fitted("shrinkage").explain(NEW, bag=0)
    with pytest.raises(BagwiseError, match=r"points have shape \(3,\); expected \(m, 2\)"):
        why.witness([1.0, 2.0, 3.0])
    assert why.witness(np.zeros((0, 2))).shape == (0,)


def test_points_in_blocks_are_as_points_together(monkeypatch):
    why = fitted("shrinkage").explain(NEW, bag=4)
    whole = why.points
    monkeypatch.setattr("bagwise.estimators.explanation.BLOCK_ELEMENTS", 20)
    assert_allclose(fitted("shrinkage").explain(NEW, bag=4).points, whole, atol=1e-13)


def test_an_explanation_does_not_change():
    why = fitted("shrinkage").explain(NEW, bag=0)
    with pytest.raises(AttributeError):
        why.prediction = 1.0


def test_contributions_that_are_rounding_error_are_said_to_be():
    """Weights of 1e17 for bags that differ by 1e-11, as a fit to two of them may find."""
    bags, y = Bags.from_list([[[0.0], [1.0]], [[2.0]], [[3.0]]]), np.array([0.0, 1.0, 2.0])
    why = ShrinkageRegressor(KernelEmbedding(3, bandwidth=1.0)).fit(bags, y).explain(bags, bag=0)
    off = dataclasses.replace(why, prediction=why.prediction + 0.01)
    with pytest.warns(BagwiseWarning, match="contributions add up to .*, not to"):
        off.points  # noqa: B018
    assert np.isfinite(why.points).all()  # without a warning
