"""Learning by a head: what labels say of the features that it was fitted to, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bagwise.exceptions import BagwiseError
from bagwise.features.learnable import learnable
from bagwise.features.maps import Features
from bagwise.heads.base import AnyHead, Task, heads_of
from bagwise.heads.gp import GPHead
from bagwise.heads.linear import LinearHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.learning import LearningProblem
from bagwise.likelihoods.base import Likelihood
from bagwise.likelihoods.gaussian import Gaussian

# Scales of the evidence where learning starts, labels of unit variance and embeddings of unit norm.
START_LINEAR, START_GAUSS = 0.3, 1.0


def learning_problem(
    head: AnyHead, features: Features, task: Task, what: Sequence[str], floor: float
) -> LearningProblem:
    """Return what is to be minimised to learn features, starting from a head that was fitted.

    Parameters
    ----------
    head : fitted to the features and the task
    what : names of what is learnt
    floor : of the covariance within bags
    """
    heads = heads_of(head)
    first, labels = heads[0], np.array([each.labels for each in task.against_the_rest])
    start: dict[str, Any]
    likelihood: Likelihood = Gaussian()
    flags = {"shrinks": True, "spreads": False, "ridge": False, "evidence": False}
    weight_var, length = 1.0, None
    if isinstance(first, ShrinkageHead):
        likelihood, length = first.likelihood, first.length
        shrinks = first.model.shrinks
        flags |= {"shrinks": shrinks, "spreads": shrinks, "ridge": not shrinks}
        start = {
            "alpha": np.array([each.model.weight_map @ each.w for each in heads]),
            "gamma": np.array([each.gamma for each in heads]),
        }
        weight_var = float(np.mean([each.mode.weight_var for each in heads]))
        if shrinks:
            start["prior_scale"] = np.mean([np.log(each.prior_scale) for each in heads])
        if likelihood.fixed_noise is None:
            start["noise"] = np.log(first.noise_var)
    elif isinstance(first, LinearHead) and first.posterior is None:
        flags |= {"shrinks": first.model.shrinks, "ridge": True}
        start = {
            "alpha": first.beta[None],
            "gamma": first.gamma[None],
            "noise": np.log(first.noise_var),
        }
        weight_var = first.noise_var / max(first.penalty, 1e-12)
        if first.model.shrinks:
            start["prior_scale"] = np.log(first.prior_scale)
    elif isinstance(first, LinearHead):
        flags |= {"shrinks": False, "evidence": True}
        start = {"linear": np.log(START_LINEAR), "noise": np.log(first.noise_var)}
    elif isinstance(first, GPHead):
        flags |= {"evidence": True}
        start = {
            "linear": np.log(START_LINEAR),
            "gauss": np.log(START_GAUSS),
            "length": 0.0,
            "noise": np.log(max(first.scales.noise, 0.01)),
            "size_noise": np.log(max(first.scales.size_noise, 0.01)),
            "prior_scale": np.log(max(first.scales.prior_scale, 1e-6)),
        }
    else:
        raise BagwiseError.because(
            f"features are to be learnt by a {type(first).__name__}",
            "a linear or shrinkage model, or a Gaussian process",
            "Leave out learn=...",
        )
    return LearningProblem(
        learnable(features, what, length),
        likelihood,
        labels,
        task.design,
        task.weights,
        start,
        weight_var,
        floor=floor,
        **flags,
    )
