"""Predictions that know the sizes of their bags: a real EmbeddingModel under a head made up here.

In the coordinates of the model the function has the weights √loadings, so that the variance by a
bag of N points is η floor + Σ_k loadings_k (1/ηλ_k + N)^-1; the floor is what landmarks do not see.
"""

from dataclasses import dataclass

import numpy as np

from bagwise.embedding.posterior import general_model
from bagwise.embedding.sums import BagStats
from bagwise.features.maps import PriorGram
from bagwise.likelihoods import Gaussian, Probit
from bagwise.predictions.latent import Latent, Query


@dataclass(frozen=True)
class Given:
    """A head of known weights (s, q), whose fixed effects (n, s) are added to the means."""

    w: np.ndarray
    noise: np.ndarray
    weights_var: float = 0.0

    def latent(self, posterior, design):
        mean, var = posterior.linear(self.w)
        weights_var = np.full(len(posterior), self.weights_var)
        return Latent(mean + design.T, var, posterior.var_of, weights_var, self.noise)


@dataclass(frozen=True)
class Sized:
    """Known loadings (s, d), λ (d,) and η (s,): one draw of the regression in each row."""

    loadings: np.ndarray
    spectrum: np.ndarray
    scale: np.ndarray
    floor: float = 0.0

    @classmethod
    def one(cls, loadings, spectrum, floor=0.0):
        """One draw, at η = 1."""
        return cls(np.array([loadings]), np.array(spectrum), np.ones(1), floor)

    @classmethod
    def random(cls, n_draws=5, d=3, seed=0):
        rng = np.random.default_rng(seed)
        spectrum = rng.gamma(1.0, size=d)
        spectrum[-1] = 0.0  # a direction that is not there
        return cls(rng.gamma(1.0, size=(n_draws, d)), spectrum, rng.gamma(2.0, size=n_draws))

    def variance(self, sizes):
        """Variance by the bag (s, n), by a dense inverse for each draw and size."""
        there = self.spectrum > 0
        loadings, spectrum = self.loadings[:, there], self.spectrum[there]
        found = np.empty((len(loadings), len(sizes)))
        for s, (g, eta) in enumerate(zip(np.sqrt(loadings), self.scale, strict=True)):
            for i, size in enumerate(np.minimum(sizes, 1e100)):
                precision = np.diag(1.0 / (eta * spectrum)) + size * np.eye(len(spectrum))
                found[s, i] = eta * self.floor + g @ np.linalg.inv(precision) @ g
        return found

    def query(self, sizes, means, noise=None, gaps=None, weights_var=0.0):
        """Bags whose embeddings are ``gaps`` (n, d) off the prior mean, by default 0; means (s, n).

        Their predictive means are ``means``, and what the shrunk gaps add to them.
        """
        d, n_draws = len(self.spectrum), len(self.loadings)
        uu = np.diag(self.spectrum)
        uz, zz = np.pad(uu, ((0, 0), (0, 1))), np.pad(uu, ((0, 1), (0, 1)))
        zz[-1, -1] = 1.0  # of a function that the landmarks do not see
        prior = PriorGram(uu, uz, zz)
        model = general_model(np.zeros(d), np.eye(d), prior, np.eye(d + 1), same_landmarks=False)
        mean = np.zeros((len(sizes), d)) if gaps is None else gaps
        stats = BagStats(mean, np.asarray(sizes, dtype=float))
        floor = np.full((n_draws, 1), np.sqrt(self.floor))
        head = Given(
            np.hstack([np.sqrt(self.loadings), floor]),
            np.zeros(n_draws) if noise is None else np.asarray(noise, dtype=float),
            weights_var,
        )
        return Query(head, model.posterior(stats, self.scale), np.transpose(means).astype(float))

    def predict(self, sizes, means, *, ids=None, **options):
        """Prediction of real labels: a Gaussian, or a mixture if there are several draws."""
        return Gaussian().predict(self.query(sizes, means, **options), sizes=sizes, ids=ids)

    def classify(self, sizes, means, *, classes, ids=None, **options):
        """Prediction of classes by the probit link."""
        query = self.query(sizes, means, **options)
        return Probit().predict(query, sizes=sizes, ids=ids, classes=np.asarray(classes))
