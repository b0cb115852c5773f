"""Inference: from the data of a fit to weights, scales and their uncertainty.

For users: the settings of the sampler, `NUTS`, and the scales of its priors, `Priors`.
"""

from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS

__all__ = ["NUTS", "Priors"]
