"""Likelihoods, a file each: log density, its integral over the bag, and the prediction."""

from bagwise.likelihoods.binomial import Binomial
from bagwise.likelihoods.gaussian import Gaussian
from bagwise.likelihoods.logistic import Logistic
from bagwise.likelihoods.negative_binomial import NegativeBinomial
from bagwise.likelihoods.poisson import Poisson
from bagwise.likelihoods.probit import Probit

__all__ = ["Binomial", "Gaussian", "Logistic", "NegativeBinomial", "Poisson", "Probit"]
