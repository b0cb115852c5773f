"""Bags that err together: the effect of a group in Gaussian processes, by dense conditioning."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import bagwise
from bagwise import BagwiseError, DistributionGPClassifier, DistributionGPRegressor
from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.sums import summarise
from bagwise.estimators.embeddings import KernelEmbedding
from bagwise.heads.gp import GPHead
from bagwise.inference.gp_evidence import GPProblem
from bagwise.inference.second_level import Scales, SecondLevelKernel

EMBEDDING = KernelEmbedding(8, bandwidth=1.0)


def worlds(seed=0, n_groups=12, of_each=6, group_sd=1.0):
    """Bags whose labels are their centre, an effect of their group and a little noise."""
    rng = np.random.default_rng(seed)
    n = n_groups * of_each
    groups = np.repeat(np.arange(n_groups), of_each)
    effect = rng.normal(0, group_sd, n_groups)
    center = rng.normal(0, 1, n)
    bags = [
        rng.normal(c, 1, (int(k), 1)) for c, k in zip(center, rng.choice([5, 80], n), strict=True)
    ]
    return bags, center + effect[groups] + rng.normal(0, 0.2, n), groups, effect


def problem(scales=None, free=None, seed=0):
    bags, y, groups, _ = worlds(seed)
    bags = bagwise.as_bags(bags)
    (features,) = EMBEDDING.candidates(bags)
    stats = summarise(bags, features)
    model = kernel_prior(features, stats, 0.01)
    free = tuple(Scales.names()) if free is None else free
    start = Scales(prior_scale=0.5, group=0.3) if scales is None else scales
    ones = np.ones(len(y))
    return GPProblem(
        model,
        model.posterior(stats),
        (y - y.mean()) / y.std(),
        ones,
        ones[:, None],
        start,
        free,
        members=groups,
    )


@pytest.mark.parametrize("slopes", [False, True])
def test_the_gradient_in_the_variance_of_groups_is_that_of_differences(slopes):
    made = problem()
    if slopes:
        made = replace(made, slopes=GPHead.at(made, made.start, 0.0)._slopes_at(made))
    theta = made.start.vector(made.free)
    place, h = made.free.index("group"), 1e-5
    step = h * np.eye(len(theta))[place]
    numeric = (made.loss(theta + step)[0] - made.loss(theta - step)[0]) / (2 * h)
    assert made.loss(theta)[1][place] == pytest.approx(numeric, rel=1e-6)


def test_predictions_are_those_of_dense_conditioning_with_an_indicator_of_the_group():
    made = problem()
    scales = made.start
    head = GPHead.at(made, scales, 0.0)
    kernel, state = SecondLevelKernel(scales), made.state(scales)
    # the oracle: y = K-part + Zb + noise, written with Z, b's covariance and plain inverses
    Z = np.eye(12)[made.members]
    plain = kernel.between(state.inputs, state.inputs)
    noise = np.diag(made.bag_var(state) + made.noise(scales) + 1e-8)
    cov = plain + scales.group * Z @ Z.T + noise
    solved = np.linalg.solve(cov, made.labels)
    np.testing.assert_allclose(head.alpha, solved, atol=1e-8)
    asked = np.array([0, 30, 71])
    posterior = made.posterior.take(asked)
    posterior = head.seen(posterior)
    inputs = head._inputs(posterior, made.design[asked])
    cross = kernel.between(inputs, head.basis)
    prior = kernel.variance(inputs) - kernel.nugget(inputs)
    for known in (True, False):
        code = made.members[asked] if known else np.full(3, -1)
        design = np.column_stack([made.design[asked], code])
        k = cross + scales.group * (Z[asked] @ Z.T if known else 0.0)
        latent = head.latent(posterior, design)
        np.testing.assert_allclose(latent.mean[0], k @ solved, atol=1e-7)
        var = prior + scales.group - np.sum(k * np.linalg.solve(cov, k.T).T, axis=1)
        np.testing.assert_allclose(latent.weights_var, var, atol=1e-7)
    # without a group column, a bag is of a new group
    np.testing.assert_allclose(
        head.latent(posterior, made.design[asked]).weights_var, latent.weights_var
    )


def test_its_variance_is_found_and_new_groups_are_as_unsure_as_they_should_be():
    bags, y, groups, effect = worlds(1, n_groups=40, of_each=5)
    model = DistributionGPRegressor(EMBEDDING, spread=False, center=False)
    fitted = model.fit(bags, y, groups=groups)
    group_sd = np.sqrt(fitted.head_.scales.group) * fitted.label_scale_
    assert group_sd == pytest.approx(effect.std(), rel=0.25)
    new, labels, *_ = worlds(2, n_groups=300, of_each=2)
    inside = {}
    for name, at in (
        ("grouped", fitted),
        (
            "not",
            bagwise.DistributionGPRegressor(EMBEDDING, spread=False, center=False).fit(bags, y),
        ),
    ):
        lower, upper = at.predict_dist(new).interval(0.8).T
        inside[name] = np.mean((lower <= labels) & (labels <= upper))
    assert inside["grouped"] == pytest.approx(0.8, abs=0.06)
    known = fitted.predict_dist(bags[:5], groups=groups[:5])
    assert (known.std < 0.7 * fitted.predict_dist(bags[:5]).std).all()
    assert (
        np.abs(known.mean - y[:5]).mean()
        < np.abs(fitted.predict_dist(bags[:5]).mean - y[:5]).mean()
    )


def test_parts_add_up_and_saved_models_know_their_groups(tmp_path):
    bags, y, groups, _ = worlds(3)
    names = np.array([f"clinic {g}" for g in groups])
    model = DistributionGPRegressor(EMBEDDING).fit(bags, y, groups=names)
    bagwise.save(model, tmp_path / "m.bagwise")
    again = bagwise.load(tmp_path / "m.bagwise")
    for one in (None, names[:4], np.array(["clinic 0", "other", "clinic 1", "other"])):
        p, q = (each.predict_dist(bags[:4], groups=one) for each in (model, again))
        np.testing.assert_array_equal(p.mean, q.mean)
        np.testing.assert_array_equal(p.std, q.std)
        total = p.parts.bag + p.parts.weights + p.parts.noise
        np.testing.assert_allclose(total, p.std**2)
    assert again.groups_.tolist() == sorted(set(names))


def test_classes_in_groups():
    bags, y, groups, _ = worlds(4)
    model = DistributionGPClassifier(EMBEDDING).fit(bags, y > 0, groups=groups)
    assert model.head_.scales.group > 0
    new, known = (model.predict_dist(bags, groups=g) for g in (None, groups))
    assert bagwise.metrics.log_loss(known, y > 0) < bagwise.metrics.log_loss(new, y > 0) - 0.05


def test_folds_searches_and_conformal_models_hand_groups_to_the_model():
    bags, y, groups, _ = worlds(5)
    model = DistributionGPRegressor(EMBEDDING, center=False, inference="evidence")
    found = bagwise.cross_val_predict_dist(model, bags, y, cv=3, groups=groups, progress=False)
    bags = bagwise.as_bags(bags)
    for train, test in bagwise.estimators.folds.make_splits(model, y, 3, groups):
        assert not set(groups[train]) & set(groups[test])
        by_hand = clone(model).fit(bags[train], y[train], groups=groups[train])
        assert by_hand.head_.scales.group > 0
        np.testing.assert_allclose(found.mean[test], by_hand.predict(bags[test]), rtol=1e-8)
        np.testing.assert_allclose(found.std[test], by_hand.predict_dist(bags[test]).std, rtol=1e-8)
    calibrated = bagwise.Conformal(model, cv=3, groups=groups).fit(bags, y)
    assert calibrated.model_.groups_ is not None
    assert all(each.groups_ is not None for each in calibrated.models_)
    tuned = bagwise.tune(
        model, bags, y, grid={"bandwidth": (1.0,)}, cv=3, groups=groups, progress=False
    )
    assert tuned.estimator.groups_ is not None


def test_who_has_no_effect_of_groups_says_so():
    bags, y, groups, _ = worlds(6, n_groups=4)
    with pytest.raises(BagwiseError, match="groups of bags with a ShrinkageRegressor"):
        bagwise.ShrinkageRegressor(EMBEDDING).fit(bags, y, groups=groups)
    model = DistributionGPRegressor(EMBEDDING).fit(bags, y)
    with pytest.raises(BagwiseError, match="fitted without any"):
        model.predict_dist(bags, groups=groups)
    with pytest.raises(BagwiseError, match=r"groups have shape \(3,\)"):
        DistributionGPRegressor(EMBEDDING).fit(bags, y, groups=groups[:3])
    grouped = DistributionGPRegressor(EMBEDDING, center=False).fit(bags, y, groups=groups)
    with pytest.raises(BagwiseError, match="running sums do not know"):
        named = bagwise.Bags.from_list(bags, ids=[f"b{i}" for i in range(len(bags))])
        sums = grouped.sums(named, y)
        grouped.partial_fit(sums)
