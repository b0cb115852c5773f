"""Rivals and data of the benchmark of learnt features."""

import jax.numpy as jnp
import numpy as np
from numpy.testing import assert_allclose

from bagwise import Bags
from benchmarks.attention_mil import AttentionMIL
from benchmarks.deep_sets import DeepSets, _forward
from benchmarks.learning import PREFIXES, text_bags


def test_attention_without_a_preference_is_mean_pooling_and_else_a_weighted_mean():
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(7, 3)), jnp.float32)
    owner, extra = np.array([0, 0, 0, 1, 1, 1, 1]), jnp.zeros((2, 1))
    params = AttentionMIL()._start(rng, 3, 1)
    plain = {name: params[name] for name in ("points", "bags")}
    inner, (outer, bias) = params["attention"]
    level = params | {"attention": [inner, (0.0 * outer, bias)]}
    assert_allclose(_forward(level, x, owner, extra), _forward(plain, x, owner, extra), rtol=1e-5)
    # all weight on one point is a bag of that point
    model = AttentionMIL()
    model.params = params | {"attention": [inner, (1e4 * outer, bias)]}
    model._data = lambda bags: (x, owner, extra)
    logs = model.log_weights(None)
    heaviest = [int(np.argmax(logs[:3])), 3 + int(np.argmax(logs[3:]))]
    alone = _forward(plain, x[jnp.asarray(heaviest)], np.array([0, 1]), extra)
    assert_allclose(_forward(model.params, x, owner, extra), alone, rtol=1e-4, atol=1e-5)


def test_a_rival_is_trained():
    rng = np.random.default_rng(1)
    y = rng.normal(size=60)
    bags = Bags.from_list([rng.normal(level, 0.2, (5, 1)) for level in y])
    for make in (DeepSets, AttentionMIL):
        mean, var = make().fit(bags, y).predict(bags)
        assert np.corrcoef(mean, y)[0, 1] > 0.9 and (var > 0).all()


def test_texts_are_bags_of_hashed_words():
    bags, y = text_bags(0, 20)
    assert bags.n_bags == 20 == len(y) and bags.n_features == 64
    assert bags.sizes.min() >= 2 and bags.sizes.max() <= 5 * 40 and len(PREFIXES) == 5
    again, same = text_bags(0, 20)
    assert np.array_equal(bags.points, again.points) and np.array_equal(y, same)
