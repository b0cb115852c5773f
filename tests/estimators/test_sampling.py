"""τ, sample or whole: what the linear models make of `sampling=`."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from bagwise import (
    Bags,
    BDRClassifier,
    BDRRegressor,
    KernelEmbedding,
    ShrinkageClassifier,
    ShrinkageRegressor,
)
from bagwise.embedding.posterior import kernel_prior
from bagwise.embedding.sums import summarise
from bagwise.exceptions import BagwiseError
from bagwise.heads.shrinkage import ShrinkageHead

SMALL = KernelEmbedding(10, bandwidth=1.0)
MODELS = {
    "shrinkage": ShrinkageRegressor(SMALL),
    "bdr": BDRRegressor(SMALL, inference="laplace"),
    "shrinkage-classes": ShrinkageClassifier(SMALL),
    "bdr-classes": BDRClassifier(SMALL, inference="laplace"),
}


def bags_and_labels(*, whole, n_bags=200, seed=0):
    """The label is a function of the points themselves, or of the distribution they are from."""
    rng = np.random.default_rng(seed)
    level, sizes = rng.normal(0, 1, n_bags), rng.integers(2, 30, n_bags)
    arrays = [rng.normal(x, 1, (n, 1)) for x, n in zip(level, sizes, strict=True)]
    seen = np.array([np.sin(points).mean() for points in arrays])
    meant = np.exp(-0.5) * np.sin(level)
    return Bags.from_list(arrays), (seen if whole else meant) + 0.02 * rng.normal(size=n_bags)


def labels_of(name, y):
    return y > np.median(y) if "classes" in name else y


@pytest.mark.parametrize("prior", ["kernel", "learnt"])
def test_samples_are_told_from_complete_bags(prior):
    for whole, least, most in ((True, 0.0, 0.03), (False, 1.0, 1.0)):
        bags, y = bags_and_labels(whole=whole)
        model = ShrinkageRegressor(SMALL, prior=prior, sampling="auto").fit(bags, y)
        assert least <= model.sampling_ <= most
        assert model.score(bags, y) > (0.99 if whole else 0.8)


@pytest.mark.parametrize("name", MODELS)
def test_what_is_complete_leaves_nothing_open(name):
    bags, y = bags_and_labels(whole=True)
    model = MODELS[name].set_params(sampling=0.0).fit(bags, labels_of(name, y))
    parts = model.predict_dist(bags).parts
    noise = 1.0 if "classes" in name else parts.noise.min()  # of the link, which is no part
    assert parts.bag.max() < 1e-4 * noise
    assert model.sampling_ < 1e-3


@pytest.mark.parametrize("name", MODELS)
def test_as_a_sample_is_the_default(name):
    bags, y = bags_and_labels(whole=False, n_bags=60)
    y = labels_of(name, y)
    plain, said = (MODELS[name].set_params(sampling=tau) for tau in (1.0, 1))
    a, b = (model.fit(bags, y).predict_dist(bags).parts for model in (plain, said))
    assert_allclose(a.bag, b.bag, rtol=0, atol=0)


def test_sizes_count_as_so_many_times_larger():
    """N points at τ are N/τ points at 1, in the fit, in predictions and at other sizes."""
    bags, y = bags_and_labels(whole=False, n_bags=80)
    model = ShrinkageRegressor(SMALL, sampling=0.25).fit(bags, y)
    stats = summarise(bags, model.features_)
    more = replace(stats, sizes=4.0 * stats.sizes)
    prior = kernel_prior(model.features_, stats, model.covariance_floor)
    task = model.make_task(bags, y, None)
    head = ShrinkageHead.fit(prior, more, task, None)
    assert_allclose(model.head_.w, head.w, rtol=1e-10)
    ours, theirs = model.head_.embed(stats), head.embed(more)
    assert_allclose(ours.mean, theirs.mean, rtol=1e-10)
    assert_allclose(ours.var, theirs.var, rtol=1e-10)
    assert_allclose(ours.at_size(7.0).var, theirs.at_size(28.0).var, rtol=1e-10)


@pytest.mark.parametrize("tau", [-0.1, 1.5, "some", None, True, np.nan])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_no_share_is_refused(name, tau):
    bags, y = bags_and_labels(whole=False, n_bags=20)
    with pytest.raises(BagwiseError, match="sampling"):
        MODELS[name].set_params(sampling=tau).fit(bags, labels_of(name, y))
