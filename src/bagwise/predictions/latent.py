"""Latent: what a head says of the value behind each label, by cause and by draw."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from jaxtyping import Float64, Int


@dataclass(frozen=True, eq=False)
class Latent:
    """Gaussian latent values f_i of n bags, under each of s draws of the regression.

    f_i | draw ~ N(mean_si, bag_var_s[bag_of_i] + weights_var_si),  y_i = f_i + noise of noise_var_s

    What differs between draws is what the bags leave open of the regression; what a head knows of
    it in closed form is in ``weights_var``. Of heads linear in the embedding the variance by the
    bag is that of a size: with many draws of many bags the means are the only large table. Of
    others each bag has its own.

    Attributes
    ----------
    mean : (s, n)
    bag_var : (s, l), at each distinct size, or of each bag;  bag_of : (n,), which of them each has
    weights_var : (n,), or (s, n) if it differs between draws
    noise_var : (s,), or (s, n) if it differs between bags
    """

    mean: Float64[np.ndarray, "s n"]
    bag_var: Float64[np.ndarray, "s l"]
    bag_of: Int[np.ndarray, " n"]
    weights_var: Float64[np.ndarray, " n"] | Float64[np.ndarray, "s n"]
    noise_var: Float64[np.ndarray, " s"] | Float64[np.ndarray, "s n"]

    @classmethod
    def of_points(
        cls,
        mean: Float64[np.ndarray, " n"],
        noise_var: float,
        weights_var: Float64[np.ndarray, " n"] | float = 0.0,
    ) -> Latent:
        """Return what a head says that takes embeddings for points, with one set of weights."""
        n = len(mean)
        return cls(
            mean[None],
            np.zeros((1, 1)),
            np.zeros(n, dtype=np.int64),
            np.broadcast_to(weights_var, (n,)).astype(np.float64),
            np.array([noise_var], dtype=np.float64),
        )

    def times(self, factor: Float64[np.ndarray, " n"]) -> Latent:
        """Return the values with their means, and what is unknown of these, times a factor."""
        return replace(self, mean=factor * self.mean, weights_var=factor**2 * self.weights_var)

    def scaled(self, center: float, scale: float) -> Latent:
        """Return center + scale · f: from standardised labels to their units."""
        square = scale**2
        return replace(
            self,
            mean=center + scale * self.mean,
            bag_var=square * self.bag_var,
            weights_var=square * self.weights_var,
            noise_var=square * self.noise_var,
        )


class Posterior(Protocol):
    """Posterior of the embeddings of bags, see :mod:`bagwise.embedding.posterior`."""

    def at_size(self, n_points: Any) -> Any:
        """Return what would be known with n points in each bag."""
        ...

    def take(self, bags: Any) -> Any:
        """Return that of some of the bags."""
        ...


class Head(Protocol):
    """A fitted regression on the posterior of an embedding."""

    def latent(self, posterior: Any, design: Any) -> Latent:
        """Return the latent values of bags."""
        ...


@dataclass(frozen=True, eq=False)
class Query:
    """Bags asked of a head, to be asked again as if they were larger or smaller.

    Attributes
    ----------
    head : Head;  posterior : of the bags' embeddings;  design : (n, r), their fixed effects
    center, scale : from the head's standardised labels to their units
    novelty : (n,), how unlike the training bags they are, see :mod:`bagwise.embedding.novelty`
    """

    head: Head
    posterior: Posterior
    design: Float64[np.ndarray, "n r"]
    center: float = 0.0
    scale: float = 1.0
    novelty: Float64[np.ndarray, " n"] | None = None

    def latent(self) -> Latent:
        """Return what the head says, in the units of the labels."""
        return self.head.latent(self.posterior, self.design).scaled(self.center, self.scale)

    def at_size(self, n_points: Any) -> Query:
        """Ask as if each bag had n points."""
        return replace(self, posterior=self.posterior.at_size(n_points))

    def take(self, bags: Any) -> Query:
        """Ask of some of the bags."""
        return replace(
            self,
            posterior=self.posterior.take(bags),
            design=self.design[bags],
            novelty=None if self.novelty is None else self.novelty[bags],
        )
