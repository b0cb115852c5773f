"""Inference: from the data of a fit to weights, scales and their uncertainty.

For users: the settings of the sampler, `NUTS`, the scales of its priors, `Priors`, and how
features are learnt, `Training`.
"""

from bagwise.inference.priors import Priors
from bagwise.inference.settings import NUTS, Training

__all__ = ["NUTS", "Priors", "Training"]
