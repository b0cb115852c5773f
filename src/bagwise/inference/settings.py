"""Settings of the sampler."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bagwise.exceptions import BagwiseError


@dataclass(frozen=True)
class NUTS:
    """Settings of NUTS; pass them as ``inference`` in place of "nuts".

    Parameters
    ----------
    chains : number of chains
    draws : draws of each chain that are kept
    warmup : draws of each chain before those, in which its step size is found
    target_accept : acceptance rate that the step size aims at; a higher one takes smaller steps
    n_jobs : chains run at once, by default as many as there are cores
    progress : whether to show a progress bar; never in a log file

    Examples
    --------
    >>> NUTS(draws=2000).warmup
    500
    """

    chains: int = 4
    draws: int = 1000
    warmup: int = 500
    target_accept: float = 0.9
    n_jobs: int | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        least = {"chains": 1, "draws": 1, "warmup": 0, "n_jobs": 1}
        for name, least_value in least.items():
            value = getattr(self, name)
            if name == "n_jobs" and value is None:
                continue
            whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
            if not whole or value < least_value:
                raise _wrong(name, value, f"a whole number of at least {least_value}")
        accept: object = self.target_accept
        if not isinstance(accept, float) or not 0 < accept < 1:
            raise _wrong("target_accept", self.target_accept, "a number between 0 and 1")
        progress: object = self.progress
        if not isinstance(progress, bool):
            raise _wrong("progress", progress, "True or False")


def _wrong(name: str, value: object, expected: str) -> BagwiseError:
    return BagwiseError.because(f"{name} is {value!r}", expected, f"Give NUTS({name}=...) another.")
