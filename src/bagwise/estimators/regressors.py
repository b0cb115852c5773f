"""The linear regressors: each picks a prior, a head and an inference, and no mathematics is here.

                                weights: point estimate         weights: posterior
embedding: point                RBFNetworkRegressor             BayesianLinearRegressor
embedding: shrunk point         FrequentistShrinkageRegressor
embedding: posterior            ShrinkageRegressor              BDRRegressor

Beside them are DistributionGPRegressor in gp.py and MeanEmbeddingRidge in mean_embedding.py.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bagwise.bags.validation import number_or
from bagwise.embedding.posterior import kernel_prior, point_model
from bagwise.estimators.base import BagRegressor, Pooled, ShrinkageModel
from bagwise.estimators.embeddings import COVARIANCE_FLOOR, BagEmbedding, KernelEmbedding
from bagwise.estimators.posterior_model import PosteriorModel
from bagwise.heads.base import Head, Task
from bagwise.heads.linear import LinearHead
from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS


class RBFNetworkRegressor(BagRegressor):
    """Ridge regression on the mean embedding: the RBF network.

    ŷ_i = β·μ̂_i + c_i·γ + b, minimising Σ_i (y_i − ŷ_i)² + λ‖β‖²

    Averages the points of each bag and forgets how many there were. Its predictive standard
    deviation is the leave-one-out error, the same for all bags.

    Parameters
    ----------
    embedding : KernelEmbedding or FourierEmbedding, optional
        Features of the points; by default ``KernelEmbedding()``.
    penalty : float, "loo" or "validation"
        λ, for standardised labels: given, of the least leave-one-out error, or of the least error
        on a fifth of the bags held out at random.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 50)
    >>> bags = [rng.normal(0, scale, (30, 1)) for scale in y]
    >>> RBFNetworkRegressor().fit(bags, y).predict([rng.normal(0, 1.5, (1000, 1))]).round(1)
    array([1.6])
    """

    tuning_metric: ClassVar[str] = "mse"

    def __init__(
        self, embedding: BagEmbedding | None = None, *, penalty: float | str = "loo"
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.penalty = penalty

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        penalty = number_or("penalty", self.penalty, "loo", "validation")
        embedded = point_model(pooled.stats.mean).posterior(pooled.stats)
        if penalty is None and self.penalty == "validation":
            return LinearHead.ridge_by_validation(embedded, task)
        return LinearHead.ridge(embedded, task, penalty)

    @property
    def penalty_(self) -> float:
        """Penalty λ that was used, for standardised labels."""
        return self.head_.penalty


class BayesianLinearRegressor(BagRegressor):
    """Bayesian linear regression on the mean embedding (BLR).

    y_i ~ N(β·μ̂_i + c_i·γ + b, σ²),  β ~ N(0, ρ²I)

    Knows how unsure the weights are, but takes the average of each bag's points for the truth: it
    is no less sure of a bag of 5 points than of one of 5,000.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    weight_var : float or "evidence"
        ρ², for standardised labels: given, or that of the largest evidence. σ² always maximises it.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 50)
    >>> model = BayesianLinearRegressor().fit([rng.normal(0, s, (30, 1)) for s in y], y)
    >>> parts = model.predict_dist([rng.normal(0, 1.5, (5, 1))]).parts
    >>> parts.bag, bool(parts.weights > 0)
    (array([0.]), True)
    """

    def __init__(
        self, embedding: BagEmbedding | None = None, *, weight_var: float | str = "evidence"
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.weight_var = weight_var

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        weight_var = number_or("weight_var", self.weight_var, "evidence")
        embedded = point_model(pooled.stats.mean).posterior(pooled.stats)
        return LinearHead.bayesian(embedded, task, weight_var)

    @property
    def noise_var_(self) -> float:
        """Noise variance σ², in squared units of the label."""
        return self.head_.noise_var * self.label_scale_**2

    @property
    def weight_var_(self) -> float:
        """Weight variance ρ² that was used, for standardised labels."""
        return self.head_.noise_var / self.head_.penalty


class FrequentistShrinkageRegressor(BagRegressor):
    """Ridge regression on the shrunk mean embedding (freq-shrinkage).

    ŷ_i = β·M_i + c_i·γ + b, with M_i the posterior mean of the embedding given the bag's N_i points

    Small bags are pulled towards the average bag, as they should be, but are given the same
    standard deviation as the others: the leave-one-out error.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    penalty : float or "loo"
        λ, for standardised labels.
    prior_scale : float or "loo"
        η: the smaller, the more bags are shrunk.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 50)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 25)]
    >>> model = FrequentistShrinkageRegressor().fit(bags, y)
    >>> model.predict([[[0.0]]]).round(1)  # one point: hardly away from the average label
    array([1.5])
    """

    needs_covariance: ClassVar[bool] = True
    tuning_metric: ClassVar[str] = "mse"

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        penalty: float | str = "loo",
        prior_scale: float | str = "loo",
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.penalty = penalty
        self.prior_scale = prior_scale

    def _fit_head(self, pooled: Pooled, task: Task) -> Head:
        return LinearHead.shrunk(
            kernel_prior(pooled.features, pooled.stats, COVARIANCE_FLOOR),
            pooled.stats,
            task,
            penalty=number_or("penalty", self.penalty, "loo"),
            prior_scale=number_or("prior_scale", self.prior_scale, "loo"),
        )

    @property
    def penalty_(self) -> float:
        """Penalty λ that was used, for standardised labels."""
        return self.head_.penalty

    @property
    def prior_scale_(self) -> float:
        """Prior scale η that was used."""
        return self.head_.prior_scale


class ShrinkageRegressor(ShrinkageModel, BagRegressor):
    """Regression on the posterior of each bag's embedding (shrinkage, shrinkageC).

    y_i ~ N(α·M_i + c_i·γ + b, α^T C_i α + σ²),  α ~ N(0, ρ²K_z^-1)

    M_i and C_i are the posterior mean and covariance of bag i's embedding given its N_i points: a
    bag of 5 points gets a wider answer than one of 5,000, nearer the average. The weights α and the
    scales σ², η (and ℓ, for the convolved prior) maximise the posterior density.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    prior : "kernel", "convolved" or "learnt"
        Prior covariance of the embedding: the kernel itself, the RBF kernel convolved with
        itself under a Gaussian measure of learnt width ℓ around the average point, or the
        covariance between bags that the bags themselves show.
    sampling : float or "auto"
        τ: 1 if the points are a sample of what the bag is, 0 if they are all of it; or whichever of
        some values has the largest evidence, if that is clearly larger than at 1.
    weight_var : float or "evidence"
        ρ², for standardised labels: given, or that of the largest (Laplace) evidence.
    covariance_floor : float
        Added to the diagonal of the covariance within bags, as a share of its average.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 30)]
    >>> model = ShrinkageRegressor().fit(bags, y)
    >>> small, large = model.predict_dist([bags[1][:5], bags[1]]).std
    >>> bool(small > large)
    True
    """

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        prior: str = "kernel",
        sampling: float | str = 1.0,
        weight_var: float | str = "evidence",
        covariance_floor: float = COVARIANCE_FLOOR,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.prior = prior
        self.sampling = sampling
        self.weight_var = weight_var
        self.covariance_floor = covariance_floor


class BDRRegressor(PosteriorModel, ShrinkageModel, BagRegressor):
    """Bayesian distribution regression: posteriors of the embedding and of the weights (BDR).

    y_i ~ N(α·M_i + c_i·γ + b, α^T C_i α + σ²),  α ~ N(0, ρ²K^-1),  half-normal σ, ρ, η

    The model of :class:`ShrinkageRegressor` with everything unknown sampled, so that predictions
    know both how well the points pin down the bag and how well the bags pin down the regression.
    Predictions are mixtures over the draws.

    Parameters
    ----------
    embedding
        As in :class:`RBFNetworkRegressor`.
    inference : "nuts", "variational", "laplace", "map" or NUTS
        How the posterior is found: sampled by NUTS with 4 chains, which go on until they agree and
        are worth 400 independent draws (``bagwise.inference.NUTS(n_effective=2000)``: more of them;
        ``NUTS(draws=2000)``: just so many of each chain); the Gaussian nearest to it, whose
        ``pareto_k_`` says how near that is; a Gaussian around its mode, in about a second; or the
        mode alone, which leaves out the uncertainty of the weights. The mode is that of the scales
        with the weights integrated out, then of the weights.
    priors : bagwise.inference.Priors, optional
        Scales of the priors, for labels of unit standard deviation.
    prior, sampling, covariance_floor
        As in :class:`ShrinkageRegressor`. The length ℓ of prior="convolved" is not sampled, but
        taken at its mode, and τ is that of the largest evidence.
    bandwidth_prior : float, optional
        Standard deviation of a normal prior of the log bandwidth around the median heuristic: of
        the bandwidths that the embedding tries, that of the largest evidence times prior is taken,
        and ``bandwidth_weights_`` says how sure that is. By default that of the largest evidence.
    random_state : int, numpy Generator or RandomState
        Seed of the draws.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 60)
    >>> bags = [rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 30)]
    >>> model = BDRRegressor(inference="laplace").fit(bags, y)
    >>> parts = model.predict_dist([bags[1][:5], bags[1]]).parts
    >>> bool(parts.bag[0] > parts.bag[1]), bool((parts.weights > 0).all())
    (True, True)
    """

    def __init__(
        self,
        embedding: BagEmbedding | None = None,
        *,
        inference: NUTS | str = "nuts",
        priors: Priors | None = None,
        prior: str = "kernel",
        sampling: float | str = 1.0,
        covariance_floor: float = COVARIANCE_FLOOR,
        bandwidth_prior: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.embedding = KernelEmbedding() if embedding is None else embedding
        self.inference = inference
        self.priors = priors
        self.prior = prior
        self.sampling = sampling
        self.covariance_floor = covariance_floor
        self.bandwidth_prior = bandwidth_prior
        self.random_state = random_state
