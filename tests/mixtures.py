"""Mixtures that the tests of MixturePrediction share."""

import numpy as np

from bagwise.predictions.mixture import MixturePrediction
from sized import Sized


def random_mixture(n_draws=5, n_bags=7, seed=0, spread=1.0, **options):
    """Return a mixture that knows the sizes of its bags, whose means are partly shrunk gaps."""
    rng = np.random.default_rng(seed)
    sizes, sized = rng.integers(1, 30, n_bags), Sized.random(n_draws, seed=seed)
    means = rng.normal(size=n_bags) + spread * rng.normal(size=(n_draws, n_bags))
    noise, gaps = rng.uniform(0.2, 1.0, n_draws), spread * rng.normal(size=(n_bags, 3))
    query = sized.query(options.get("sizes", sizes), means, noise=noise, gaps=gaps)
    options = {"sizes": sizes, "ids": [f"b{i}" for i in range(n_bags)], "query": query} | options
    return MixturePrediction.from_latent(query.latent(), **options)


def random_points(n_draws=5, n_bags=7, seed=0, **options):
    """Return a mixture of a model that takes bags for points."""
    rng = np.random.default_rng(seed)
    return MixturePrediction(
        rng.normal(size=(n_draws, n_bags)), rng.uniform(0.2, 1.0, n_draws), **options
    )


def simple(means, std):
    """One bag whose components have these means and standard deviations."""
    noise = np.broadcast_to(np.square(std), np.shape(means))
    return MixturePrediction(np.array(means, dtype=float)[:, None], noise, sizes=None)
