"""Mixtures that the tests of MixturePrediction share."""

import numpy as np

from bagwise.predictions.mixture import MixturePrediction, SizeCurves


def random_curves(n_draws=5, d=3, seed=0):
    rng = np.random.default_rng(seed)
    spectrum = rng.gamma(1.0, size=(n_draws, d))
    spectrum[:, -1] = 0.0  # a direction that is not there
    return SizeCurves(rng.gamma(1.0, size=(n_draws, d)), spectrum)


def random_mixture(n_draws=5, n_bags=7, seed=0, spread=1.0, **options):
    rng = np.random.default_rng(seed)
    options = {
        "sizes": rng.integers(1, 30, n_bags),
        "curves": random_curves(n_draws, seed=seed),
        "ids": [f"b{i}" for i in range(n_bags)],
    } | options
    means = rng.normal(size=n_bags) + spread * rng.normal(size=(n_draws, n_bags))
    return MixturePrediction(means, rng.uniform(0.2, 1.0, n_draws), **options)


def simple(means, std):
    """One bag whose components have these means and standard deviations."""
    noise = np.broadcast_to(np.square(std), np.shape(means))
    return MixturePrediction(np.array(means, dtype=float)[:, None], noise, sizes=None)
