"""Heads of many classes: one for each, which tells its class from all others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.heads.base import Head
from bagwise.heads.task import Task


@dataclass(frozen=True, eq=False)
class ClassHeads:
    """A head for each of more than two classes, of two classes each: it, and the rest.

    Attributes
    ----------
    heads : Head of each class, in their order
    loss : sum of theirs, by which fits to other features are compared
    """

    heads: tuple[Any, ...]

    @property
    def loss(self) -> float:
        """Sum of the losses."""
        return sum(head.loss for head in self.heads)


# What a fit may give.
AnyHead = Head | ClassHeads


def heads_of(head: Any) -> tuple[Any, ...]:
    """Return the heads of the classes; of real labels and two classes, the one that there is."""
    return head.heads if isinstance(head, ClassHeads) else (head,)


def for_each_class(task: Task, fit: Callable[..., Head], *given: Any) -> Any:
    """Fit a head to each class against the rest; for two classes or real labels, one.

    Parameters
    ----------
    task : of any labels
    fit : (task of two classes or real labels, part of each of ``given``) ↦ head
    given : heads that were fitted to the same task before
    """
    parts = zip(task.against_the_rest, *map(heads_of, given), strict=True)
    heads = tuple(fit(*part) for part in parts)
    return heads[0] if len(heads) == 1 else ClassHeads(heads)


def of_each_class(head: Any, value: Callable[[Any], Any]) -> Any:
    """Return what a head has; of many classes an array with a row for each, or None."""
    values = [value(each) for each in heads_of(head)]
    if len(values) == 1 or values[0] is None:
        return values[0]
    return np.array(values)
