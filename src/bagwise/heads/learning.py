"""Learning by a head: what labels say of the features that it was fitted to, where it stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bagwise.bags.bags import Bags
from bagwise.features.learnable import learnable
from bagwise.features.maps import Features
from bagwise.heads.base import AnyHead, LearningStart, Task, heads_of, some_of
from bagwise.inference.learning import LearningProblem

# Parameters of which each class has its own; others are shared, and start at their average.
OF_A_CLASS = ("alpha", "gamma")

# Points by which the prior of weights of points has its scale.
TYPICAL_POINTS = 500


def learning_problem(
    head: AnyHead,
    features: Features,
    bags: Bags,
    task: Task,
    what: Sequence[str],
    floor: float,
    prior: str = "kernel",
) -> LearningProblem:
    """Return what is to be minimised to learn features, starting from a head that was fitted.

    Parameters
    ----------
    head : fitted to the features and the task
    bags : in memory, those of the task
    what : names of what is learnt
    floor : of the covariance within bags
    """
    begun = _together([each.learning_start() for each in heads_of(head)])
    return LearningProblem(
        learnable(features, _typical(bags), what, begun.length),
        begun.likelihood,
        np.array([each.labels for each in task.against_the_rest]),
        task.design,
        task.weights,
        begun.start,
        begun.weight_var,
        sampling=begun.sampling,
        shrinks=begun.shrinks,
        spreads=begun.spreads,
        ridge=begun.ridge,
        evidence=begun.evidence,
        floor=floor,
        between=begun.evidence and begun.shrinks and prior == "learnt",
    )


def _typical(bags: Bags) -> np.ndarray:
    """Return some points that count, the same for the same bags."""
    rows = np.arange(bags.n_points) if bags.weights is None else np.flatnonzero(bags.weights)
    return bags.points[rows[some_of(len(rows), TYPICAL_POINTS)]]


def _together(parts: list[LearningStart]) -> LearningStart:
    """Return where the heads of all classes stand."""
    start = {name: [part.start[name] for part in parts] for name in parts[0].start}
    return replace(
        parts[0],
        start={
            name: np.concatenate(each) if name in OF_A_CLASS else np.mean(each)
            for name, each in start.items()
        },
        weight_var=float(np.mean([part.weight_var for part in parts])),
    )
