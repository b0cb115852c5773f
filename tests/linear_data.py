"""Data and small helpers that the tests of the linear heads share."""

import numpy as np

import dense_oracle
from bagwise import KernelEmbedding
from bagwise.embedding.posterior import point_model
from bagwise.embedding.sums import BagStats
from bagwise.heads.base import FixedEffects, Task
from bagwise.inference.ridge import RidgeProblem
from dense_oracle import (
    rbf,
)

U = np.array([[a, b] for a in (-1.5, 0.0, 1.5) for b in (-1.0, 1.0)])
FIXED = KernelEmbedding(landmarks=U, bandwidth=1.0)


class Data:
    """Random features, fixed effects, labels and weights."""

    def __init__(self, seed=0, n=30, d=5, covariates=1, weighted=True):
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(n, d)) + 3.0
        self.F = np.column_stack([np.ones(n), rng.normal(size=(n, covariates))])
        self.y = self.X @ rng.normal(size=d) + self.F @ rng.normal(size=1 + covariates)
        self.y += 0.7 * rng.normal(size=n)
        self.weights = rng.uniform(0.2, 3.0, n) if weighted else np.ones(n)
        self.weights /= self.weights.mean()
        self.n = n

    @property
    def problem(self):
        return RidgeProblem.from_features(self.X, self.F, self.y, self.weights)

    @property
    def embedded(self):
        """The features as mean embeddings, taken for the truth."""
        return points(self.X)

    @property
    def gram_problem(self):
        return RidgeProblem.from_gram(self.X @ self.X.T, self.F, self.y, self.weights)

    @property
    def task(self):
        """Labels as they are, so that a head works in their units."""
        effects = FixedEffects.fit(self.F[:, 1:], np.ones(self.n))
        design = effects.design(self.F[:, 1:], self.n)
        return Task(self.y, 0.0, 1.0, effects, design, self.weights)


def points(X):
    """Features as mean embeddings of bags, taken for the truth."""
    return point_model(X).posterior(BagStats(X, np.ones(len(X))))


def latent(head, X, design):
    """What a head fitted to points says of bags with these features."""
    return head.latent(head.embed(BagStats(X, np.ones(len(X)))), design)


def network_features(model, bags):
    """Mean embeddings of bags at the landmarks of a fitted model, by loops."""
    scaling = model.features_.scaling
    u = (model.landmarks_ - scaling.center) / scaling.scale
    phis = [rbf((bag - scaling.center) / scaling.scale, u, model.bandwidth_) for bag in bags]
    return dense_oracle.summary(phis)


def standardised(y):
    return (y - y.mean()) / y.std()
