"""Estimators in notebooks: scikit-learn's diagram, and what was learnt below it."""

import numpy as np
import pytest
from sklearn import config_context
from sklearn.pipeline import make_pipeline

from bagwise import (
    Bags,
    KernelEmbedding,
    MeanEmbeddingRidge,
    ShrinkageClassifier,
    ShrinkageRegressor,
)

RNG = np.random.default_rng(0)
Y = RNG.uniform(1, 2, 20)
BAGS = Bags.from_list([RNG.normal(0, y, (6, 1)) for y in Y], feature_names=["<x>"])
MODELS = {
    "shrinkage": (ShrinkageRegressor(KernelEmbedding(5)), Y),
    "ridge": (MeanEmbeddingRidge(), Y),
    "classes": (ShrinkageClassifier(KernelEmbedding(5)), np.where(Y > 1.5, "<high>", "low")),
}


@pytest.mark.parametrize("name", MODELS)
def test_what_was_learnt_is_shown_below_the_diagram(name):
    model, y = MODELS[name]
    assert "Learnt" not in model._repr_html_()
    model.fit(BAGS, y)
    page = model._repr_html_()
    assert "sk-top-container" in page and "Learnt" in page
    below = page[page.rindex("<b>Learnt") :]
    assert "bandwidth_" in below and f"{model.bandwidth_:.4g}" in below
    assert "<script" not in below and "<x>" not in below
    if name == "classes":
        assert "&lt;high&gt;, low" in below
    if name == "shrinkage":
        assert "array, 5" in below and f"{model.noise_var_:.4g}" in below
    bundle = model._repr_mimebundle_()
    assert "<b>Learnt" in bundle["text/html"] and bundle["text/plain"] == repr(model)
    with config_context(display="text"):
        assert not hasattr(model, "_repr_html_")
        assert "text/html" not in model._repr_mimebundle_()


def test_pipelines_keep_their_diagram():
    pipeline = make_pipeline("passthrough", ShrinkageRegressor(KernelEmbedding(5))).fit(BAGS, Y)
    assert "ShrinkageRegressor" in pipeline._repr_html_()
