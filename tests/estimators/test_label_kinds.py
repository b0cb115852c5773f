"""Gaussian processes for every kind of label: counts, positive numbers, heavy tails."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import bagwise
from bagwise import (
    Bags,
    DistributionGPClassifier,
    DistributionGPRegressor,
    KernelEmbedding,
    cross_val_predict_dist,
    scorers,
    tune,
)
from bagwise.exceptions import SavedModelError
from bagwise.heads import gp_fit as heads
from bagwise.inspection.report import make as make_report
from bagwise.predictions.metrics import pit
from bagwise.predictions.student import StudentPrediction
from cli_runs import bagwise as command


def gp(likelihood, **params):
    return DistributionGPRegressor(
        KernelEmbedding(10, bandwidth=1.0), likelihood=likelihood, **params
    )


def draw(kind, latent, rng, totals):
    """Labels of a kind, whose latent values are known."""
    if kind == "poisson":
        return rng.poisson(totals * np.exp(latent) / 5.0).astype(float)
    if kind == "negative-binomial":
        extra = rng.gamma(4.0, 0.25, len(latent))
        return rng.poisson(totals * extra * np.exp(latent)).astype(float)
    if kind == "binomial":
        return rng.binomial(totals.astype(int), 1.0 / (1.0 + np.exp(-latent))).astype(float)
    if kind == "positive":
        return np.exp(latent + 0.3 * rng.normal(size=len(latent)))
    noise = rng.standard_t(3, len(latent)) if kind == "student" else rng.normal(size=len(latent))
    return latent + 0.3 * noise


def data(kind, seed, n=120):
    """Bags whose mean decides the label, with totals that are known of each."""
    rng = np.random.default_rng(seed)
    means, sizes = rng.normal(size=n), rng.choice([3, 10, 40], n)
    totals = rng.integers(10, 30, n).astype(float)
    y = draw(kind, 0.3 + 0.7 * means, rng, totals)
    arrays = [rng.normal(m, 1.0, (k, 1)) for m, k in zip(means, sizes, strict=True)]
    columns = {"covariates": totals[:, None], "covariate_names": ["voters"]}
    return Bags.from_list(arrays, **columns), y


NAMES = {
    "poisson": "poisson(voters)",
    "negative-binomial": "negative-binomial(voters)",
    "binomial": "binomial(voters)",
    "positive": "positive",
    "student": "student",
}
every_kind = pytest.mark.parametrize("kind", NAMES)
counts = pytest.mark.parametrize("kind", list(NAMES)[:3])


@every_kind
def test_held_out_labels_are_covered(kind):
    bags, y = data(kind, 0)
    new, new_y = data(kind, 1, n=600)
    prediction = gp(NAMES[kind]).fit(bags, y).predict_dist(new)
    transformed = pit(prediction, new_y)
    for level in (0.5, 0.8):
        covered = np.mean(np.abs(transformed - 0.5) < level / 2.0)
        # three standard errors of the share, and as much again for what 120 bags leave open
        assert abs(covered - level) < 6.0 * np.sqrt(level * (1.0 - level) / 600)
    few = np.abs(transformed[new.sizes == 3] - 0.5) < 0.4
    assert abs(few.mean() - 0.8) < 0.1


@counts
def test_counts_are_predicted_better_as_counts(kind):
    bags, y = data(kind, 2)
    new, new_y = data(kind, 3, n=300)
    found = gp(NAMES[kind]).fit(bags, y).predict_dist(new).log_prob(new_y).mean()
    gaussian = gp("gaussian").fit(bags, y).predict_dist(new)
    within = gaussian.cdf(new_y + 0.5) - gaussian.cdf(new_y - 0.5)  # the probability of a count
    assert found > np.log(within).mean() + 0.02


def test_positive_labels_are_predicted_better_as_such():
    (bags, y), (new, new_y) = data("positive", 2), data("positive", 3, n=300)
    found, plain = (gp(kind).fit(bags, y).predict_dist(new) for kind in ("positive", "auto"))
    assert found.log_prob(new_y).mean() > plain.log_prob(new_y).mean() + 0.1
    assert (found.interval(0.99) > 0).all()


def test_heavy_tails_are_there_where_residuals_ask_for_them():
    def complete(kind, seed, n):
        """Labels of large bags: what is open of them does not hide their noise."""
        rng = np.random.default_rng(seed)
        means = rng.normal(size=n)
        arrays = [rng.normal(m, 0.5, (30, 1)) for m in means]
        return arrays, draw(kind, means, rng, np.ones(n))

    heavy, new = complete("student", 0, 200), complete("student", 1, 500)
    model, plain = gp("auto").fit(*heavy), gp("gaussian").fit(*heavy)
    assert model.likelihood_ == "student" and 3.0 <= model.dof_ < 10.0
    assert isinstance(model.predict_dist(new[0]), StudentPrediction)
    scores = [m.predict_dist(new[0]).log_prob(new[1]).mean() for m in (model, plain)]
    assert scores[0] > scores[1] + 0.02
    stays = gp("auto").fit(*complete("gaussian", 0, 200))
    assert stays.likelihood_ == "gaussian" and np.isinf(stays.dof_)
    assert not isinstance(stays.predict_dist(new[0]), StudentPrediction)


def test_a_range_keeps_predictions_gaussian():
    bags, y = data("student", 0)
    model = gp("auto", support=(y.min(), y.max())).fit(bags, y)
    assert model.likelihood_ == "gaussian"
    assert model.predict_dist(bags).support == (y.min(), y.max())


# ---- totals -------------------------------------------------------------------------------------


def changed(bags, **changes):
    """The same points, with other ids or covariates."""
    arrays = np.split(bags.points, bags.offsets[1:-1])
    columns = {"covariates": bags.covariates, "covariate_names": bags.covariate_names}
    return Bags.from_list(arrays, **(columns | changes))


def with_totals(bags, totals):
    return changed(bags, covariates=np.asarray(totals, float).reshape(-1, 1))


@counts
def test_totals_go_with_the_bags_and_have_no_effect_of_their_own(kind):
    bags, y = data(kind, 0, n=60)
    model = gp(NAMES[kind]).fit(bags, y)
    once, twice = (model.predict_dist(with_totals(bags, k * bags.covariates)) for k in (1, 2))
    assert_array_equal(once.totals, bags.covariates[:, 0])
    assert_allclose(twice.mean, 2.0 * once.mean, rtol=1e-9)
    assert_array_equal(twice.latent.mean, once.latent.mean)
    assert_allclose(once.at_total(2.0 * once.totals).var, twice.var, rtol=1e-9)
    unnamed = changed(bags, covariate_names=None)
    assert_array_equal(model.predict_dist(unnamed).mean, once.mean)


def test_one_total_for_all_is_a_number():
    bags, y = data("binomial", 0, n=20)
    same = with_totals(bags, np.full(20, 30.0))
    named = gp("binomial(voters)").fit(same, y).predict_dist(same)
    given = gp("binomial(30)").fit(same, y).predict_dist(same)
    assert_allclose(given.mean, named.mean, rtol=1e-4)


def test_other_covariates_keep_their_effect():
    bags, y = data("poisson", 0, n=100)
    rng = np.random.default_rng(5)
    age = rng.normal(size=100)
    y = rng.poisson(bags.covariates[:, 0] * np.exp(0.8 * age)).astype(float)
    both = changed(
        bags,
        covariates=np.column_stack([bags.covariates[:, 0], age]),
        covariate_names=("voters", "age"),
    )
    model = gp("poisson(voters)").fit(both, y)
    why = model.explain(both, bag=3)
    assert why.covariates[0] == 0.0
    assert_allclose(why.covariates[1], 0.8 * (age[3] - age.mean()), atol=0.15)


@pytest.mark.parametrize(
    ("kind", "label", "message"),
    [
        ("poisson(voters)", -1.0, "label of bag 'b3' .* is -1; expected a count"),
        ("negative-binomial", 2.5, r"label of bag 'b3' .* is 2\.5; expected a count"),
        ("poisson", 1e12, r"is 1e\+12; expected a count.* up to 1e\+10"),
        (
            "binomial(voters)",
            90.0,
            "label of bag 'b3' .* is 90, and its total .* no more successes",
        ),
        ("binomial(20)", 21.0, "is 21, and its total 20"),
        ("binomial(2.5)", 2.0, r"total of bag 'b0' .* is 2\.5.*whole number of trials"),
        ("poisson(-1)", 2.0, "total of bag 'b0' .* is -1.*a number > 0"),
        ("positive", 0.0, "label of bag 'b3' .* is 0 .*numbers > 0"),
        ("positive", -3.0, "label of bag 'b3' .* is -3"),
    ],
)
def test_a_label_outside_its_support_is_named(kind, label, message):
    bags, _ = data("poisson", 0, n=12)
    y = np.ones(12)
    y[3] = label
    with pytest.raises(ValueError, match=message):
        gp(kind).fit(changed(bags, ids=[f"b{i}" for i in range(12)]), y)


@pytest.mark.parametrize("total", [0.0, -2.0, 2.5])
def test_totals_of_new_bags_are_checked_too(total):
    bags, y = data("binomial", 0, n=12)
    model, totals = gp("binomial(voters)").fit(bags, y), bags.covariates.copy()
    totals[5] = total
    with pytest.raises(ValueError, match=r"total of bag 5 .* is .*expected a "):
        model.predict(with_totals(bags, totals))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"likelihood": "poison"}, "likelihood is 'poison'; expected one of \"auto\""),
        ({"likelihood": None}, "likelihood is None; expected one of"),
        ({"likelihood": "student(3)"}, r"likelihood is 'student\(3\)'"),
        ({"likelihood": "binomial"}, 'a number of trials too, as in "binomial\\(20\\)"'),
        ({"likelihood": "binomial()"}, "likelihood is 'binomial\\(\\)'"),
        ({"likelihood": "poisson(hours)"}, "no covariate 'hours'.*'voters'"),
        ({"likelihood": "poisson", "support": (0, 9)}, "support is .* and likelihood 'poisson'"),
        ({"likelihood": "student", "support": (0, 9)}, "support is .* and likelihood 'student'"),
    ],
)
def test_bad_parameters(params, message):
    bags, y = data("poisson", 0, n=12)
    with pytest.raises(ValueError, match=message):
        gp("auto").set_params(**params).fit(bags, y)


# ---- as every other model -----------------------------------------------------------------------


@every_kind
def test_contributions_add_up_on_the_scale_of_the_latent_value(kind):
    bags, y = data(kind, 0, n=40)
    model = gp(NAMES[kind]).fit(bags, y)
    why, prediction = model.explain(bags, bag=3), model.predict_dist(bags)
    said = getattr(prediction, "latent", prediction)
    assert_allclose(why.prediction, said.mean[3], rtol=1e-9)
    total = why.baseline + why.points.sum() + why.covariates.sum()
    assert_allclose(total, why.prediction, atol=1e-9)
    words = {"binomial": "log odds of success", "positive": "log label", "student": "label"}
    assert why.target == words.get(kind, "log rate")
    assert f"predicted {why.target}" in str(why)


@every_kind
def test_saved_models_predict_the_same(kind, tmp_path):
    bags, y = data(kind, 0, n=30)
    model = gp(NAMES[kind]).fit(bags, y)
    bagwise.save(model, tmp_path / "m.bagwise")
    again = bagwise.load(tmp_path / "m.bagwise")
    assert again.likelihood_ == model.likelihood_ == NAMES[kind]
    before, after = model.predict_dist(bags), again.predict_dist(bags)
    assert type(after) is type(before)
    assert_array_equal(after.mean, before.mean)
    assert_array_equal(after.interval(0.9), before.interval(0.9))


@pytest.mark.parametrize("likelihood", ["poisson(hours)", "student", "no such"])
def test_a_file_whose_likelihood_does_not_fit_is_refused(likelihood, tmp_path):
    bags, y = data("poisson", 0, n=20)
    model = gp("poisson(voters)").fit(bags, y)
    model.likelihood_ = likelihood
    bagwise.save(model, tmp_path / "m.bagwise")
    with pytest.raises(SavedModelError):
        bagwise.load(tmp_path / "m.bagwise")


def test_selection_and_scores():
    bags, y = data("binomial", 0, n=24)
    model = gp("binomial(voters)")
    joined = cross_val_predict_dist(model, bags, y, cv=2, progress=False)
    assert_allclose(joined.parts.total, joined.var)
    assert np.isfinite(joined.crps(y)).all()
    first = joined.pieces[0]
    loss = -scorers.neg_nll(first.model, bags[first.rows], y[first.rows])
    assert_allclose(loss, -joined.log_prob(y)[first.rows].mean(), rtol=1e-9)
    grid = {"likelihood": ["binomial(voters)", "gaussian"]}
    found = tune(model, bags, y, grid=grid, cv=2, progress=False)
    assert found.metric == "nll" and len(found.table) == 2 and np.isfinite(found.score)


@pytest.mark.usefixtures("undrawn")
def test_the_report_says_that_chance_has_a_part_in_the_transform_of_counts():
    bags, y = data("poisson", 0, n=24)
    page = make_report(bags, y, {"poisson": gp("poisson(voters)")}, folds=2, progress=False)
    assert "Counts lie at random between the steps" in page.html


@pytest.mark.parametrize("likelihood", ["poisson", "binomial(voters)"])
def test_at_a_shell(likelihood, tmp_path):
    bags, y = data("binomial", 0, n=24)
    row = np.repeat(np.arange(24), bags.sizes)
    columns = {"id": row, "x": bags.points[:, 0], "voters": bags.covariates[row, 0], "y": y[row]}
    pyarrow.csv.write_csv(pa.table(columns), tmp_path / "points.csv")
    given = ("points.csv", "--bag", "id", "--label", "y", "--covariates", "voters")
    sets = (f"likelihood={likelihood}", "n_landmarks=8", "bandwidth=1.0", "kernel=rbf")
    sets = [part for text in sets for part in ("--set", text)]
    fitted = command("fit", *given, "--model", "gp", *sets, "--out", "m.bagwise", cwd=tmp_path)
    assert fitted.returncode == 0, fitted.stderr
    scored = command("evaluate", "m.bagwise", "points.csv", cwd=tmp_path)
    assert scored.returncode == 0 and "crps" in scored.stdout
    predicted = command("predict", "m.bagwise", "points.csv", "--out", "p.csv", cwd=tmp_path)
    assert predicted.returncode == 0
    table = pyarrow.csv.read_csv(tmp_path / "p.csv")
    lower = np.array(table["lower"])
    assert_array_equal(lower, np.floor(lower))


def test_a_notebook_shows_what_was_used():
    bags, y = data("student", 0, n=60)
    html = gp("student").fit(bags, y)._repr_html_()
    assert "likelihood_" in html and "dof_" in html


# ---- odd labels ---------------------------------------------------------------------------------


@pytest.mark.crossed
@pytest.mark.parametrize("kind", ["poisson", "negative-binomial", "binomial(1000000000)"])
@pytest.mark.parametrize(
    "y",
    [
        np.zeros(10),
        np.full(10, 7.0),
        np.full(10, 1e9),
        np.eye(1, 10)[0],
        np.where(np.arange(10) % 2, 0.0, 1e6),
    ],
    ids=["none", "constant", "huge", "one", "none or huge"],
)
def test_odd_counts_give_sane_answers(kind, y):
    bags, _ = data("poisson", 0, n=10)
    prediction = gp(kind).fit(bags, y).predict_dist(bags[:4])
    found = prediction.mean, prediction.std, prediction.interval(0.8), prediction.log_prob(y[:4])
    assert all(np.isfinite(values).all() for values in found)
    assert np.isfinite(prediction.crps(y[:4])).all()
    if np.ptp(y) == 0:
        assert (np.abs(prediction.mean - y[0]) < 0.1 * y[0] + 0.2).all()


@pytest.mark.parametrize(
    "kind", ["poisson", "negative-binomial", "binomial(9)", "positive", "student"]
)
def test_two_bags(kind):
    bags = changed(data("poisson", 0, n=4)[0], covariates=None, covariate_names=None)
    prediction = gp(kind).fit(bags[:2], [1.0, 3.0]).predict_dist(bags)
    assert (prediction.mean > 0.5).all() and (prediction.mean < 4.0).all()
    assert np.isfinite(prediction.log_prob(np.ones(4))).all()


@pytest.mark.parametrize("kind", ["positive", "student"])
def test_constant_labels_that_are_no_counts(kind):
    bags, _ = data("poisson", 0, n=60)
    prediction = gp(kind).fit(bags, np.full(60, 5.0)).predict_dist(bags)
    assert_allclose(prediction.mean, 5.0, rtol=1e-6)
    assert (prediction.std > 0).all() and (prediction.std < 1e-3).all()


@pytest.mark.parametrize("kind", ["poisson(voters)", "student"])
def test_bags_of_weight_zero_do_not_count(kind):
    bags, y = data("poisson", 0, n=60)
    wrong, weights = y.copy(), np.ones(60)
    wrong[:6], weights[:6] = 500.0, 0.0
    model = gp(kind).fit(bags, wrong, sample_weight=weights)
    assert model.predict(bags).max() < 3.0 * y.max()


# ---- many bags ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["poisson", "student"])
def test_many_bags_have_a_basis(kind, monkeypatch):
    (bags, y), (new, _) = data(kind, 4, n=140), data(kind, 5, n=80)
    exact = gp(NAMES[kind]).fit(bags, y).predict_dist(new)
    monkeypatch.setattr(heads, "EXACT_BAGS", 100)
    monkeypatch.setattr(heads, "BASIS_BAGS", 90)
    few = gp(NAMES[kind]).fit(bags, y).predict_dist(new)
    assert np.corrcoef(exact.mean, few.mean)[0, 1] > 0.99
    assert_allclose(few.std.mean(), exact.std.mean(), rtol=0.2)
    assert type(few) is type(exact)


def test_classes_of_many_bags_are_those_of_the_exact_process(monkeypatch):
    """What is left open of bags has the same part in both."""
    bags, y = data("student", 4, n=120)
    embedding = KernelEmbedding(10, bandwidth=1.0)
    exact = DistributionGPClassifier(embedding).fit(bags, y > 0).predict_dist(bags).probability
    monkeypatch.setattr(heads, "EXACT_BAGS", 110)
    monkeypatch.setattr(heads, "BASIS_BAGS", 105)
    few = DistributionGPClassifier(embedding).fit(bags, y > 0).predict_dist(bags).probability
    assert np.abs(few - exact).max() < 0.05
