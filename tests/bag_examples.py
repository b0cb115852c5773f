"""Bags that several test files use."""

import numpy as np
from numpy.testing import assert_array_equal

from bagwise.bags.bags import Bags


def random_arrays(seed, n_bags=12, n_features=3):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rng.integers(1, 9), n_features)) for _ in range(n_bags)]


def full_bags(seed=0):
    """Bags with ids, weights, covariates and names."""
    arrays = random_arrays(seed)
    rng = np.random.default_rng(seed)
    return Bags.from_list(
        arrays,
        ids=[f"bag {i}" for i in range(len(arrays))],
        weights=[rng.uniform(0.1, 1, len(a)) for a in arrays],
        covariates=rng.normal(size=(len(arrays), 2)),
        feature_names=["x", "y", "z"],
        covariate_names=["age", "dose"],
    )


def assert_same(a, b):
    for name in ("points", "offsets", "ids", "weights", "covariates"):
        mine, theirs = getattr(a, name), getattr(b, name)
        assert (mine is None) == (theirs is None), name
        if mine is not None:
            assert_array_equal(mine, theirs, strict=True)
    assert a.feature_names == b.feature_names
    assert a.covariate_names == b.covariate_names
