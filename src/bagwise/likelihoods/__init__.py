"""Likelihoods, a file each: log density, its integral over the bag, and the prediction."""

from bagwise.likelihoods.gaussian import Gaussian
from bagwise.likelihoods.logistic import Logistic
from bagwise.likelihoods.probit import Probit

__all__ = ["Gaussian", "Logistic", "Probit"]
