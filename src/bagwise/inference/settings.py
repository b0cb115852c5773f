"""Settings of the sampler, and of the learning of features."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike

import numpy as np

from bagwise.exceptions import BagwiseError

# Draws of each chain where nobody looks whether they are enough.
FIXED_DRAWS = 1000


@dataclass(frozen=True)
class NUTS:
    """Settings of NUTS; pass them as ``inference`` in place of "nuts".

    Parameters
    ----------
    chains : number of chains
    draws : draws of each chain that are kept, just so many; by default as many as it takes
    warmup : draws of each chain before those, in which its step size is found
    target_accept : acceptance rate that the step size aims at; a higher one takes smaller steps
    n_jobs : chains run at once, by default as many as there are cores
    progress : whether to show a progress bar; never in a log file
    n_effective : independent draws that the draws are to be worth, all chains together, in the bulk
        and in the tails of every parameter; sampling goes on until they are, and chains agree
    min_draws : draws of each chain after which it is first looked whether they are enough
    max_draws : draws of each chain at which it ends in any case, with a warning. The scales of
        Gaussian processes are not drawn until they are enough, but 1,000 times, or ``draws``

    Examples
    --------
    >>> NUTS(n_effective=2000).max_draws
    4000
    """

    chains: int = 4
    draws: int | None = None
    warmup: int = 300
    target_accept: float = 0.9
    n_jobs: int | None = None
    progress: bool = True
    n_effective: int = 400
    min_draws: int = 240
    max_draws: int = 4000

    @property
    def fixed_draws(self) -> int:
        """Draws of each chain where nobody looks whether they are enough."""
        return FIXED_DRAWS if self.draws is None else self.draws

    def __post_init__(self) -> None:
        least = {"chains": 1, "draws": 1, "warmup": 0, "n_jobs": 1}
        least |= {"n_effective": 1, "min_draws": 1, "max_draws": 1}
        for name, least_value in least.items():
            value = getattr(self, name)
            if name in ("n_jobs", "draws") and value is None:
                continue
            _check_whole(name, value, least_value, "NUTS")
        accept: object = self.target_accept
        if not isinstance(accept, float) or not 0 < accept < 1:
            raise _wrong("target_accept", self.target_accept, "a number between 0 and 1")
        progress: object = self.progress
        if not isinstance(progress, bool):
            raise _wrong("progress", progress, "True or False")


@dataclass(frozen=True)
class Training:
    """What is learnt of features, and how; pass it as ``learn`` of an embedding.

    Parameters
    ----------
    what : names of what is learnt, see :class:`bagwise.KernelEmbedding`
    engine : "auto", "lbfgs" or "adam"
        All bags at once, or minibatches of bags. "auto": minibatches for networks and where there
        are very many points. What learns by its evidence (BLR, Gaussian processes) has all bags at
        once.
    epochs : most epochs; with all bags at once an epoch is a step
    patience : epochs without gain on bags held out after which it ends
    batch_bags : bags of a minibatch
    bag_points : points of a bag that are used at once, drawn at random from a larger bag, which
        then counts as one of that size
    learning_rate : Adam's, at the start; it falls to a twentieth along a cosine
    validation : share of the bags that is held out, or a tuple of ids of bags, to say after how
        many epochs to end; then so many epochs are made with all bags. Bags that are named and have
        sample weight 0 are for that alone. 0: none, and all bags say when to end. None: a fifth, or
        none where weights of points alone are learnt, by all bags at once: their prior keeps them
        from overfitting, and some hundred labels say too little of when to end
    precision : "float64" or "float32"
    checkpoint : file from which an interrupted search goes on, or None
    seed : of what is held out, of minibatches and of the points drawn

    Examples
    --------
    >>> Training("ard", engine="adam", epochs=50).what
    ('ard',)
    """

    what: tuple[str, ...] | str = ()
    engine: str = "auto"
    epochs: int = 150
    patience: int = 15
    batch_bags: int = 64
    bag_points: int = 200
    learning_rate: float = 0.01
    validation: float | tuple[str | int, ...] | None = None
    precision: str = "float64"
    checkpoint: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.what, str):
            named = tuple(name.strip() for name in self.what.split(","))
            object.__setattr__(self, "what", named)
        for name, least in {"epochs": 1, "patience": 1, "batch_bags": 2, "bag_points": 2}.items():
            _check_whole(name, getattr(self, name), least, "Training")
        _check_whole("seed", self.seed, 0, "Training")
        options = {"engine": ("auto", "lbfgs", "adam"), "precision": ("float64", "float32")}
        for name, known in options.items():
            if getattr(self, name) not in known:
                raise _wrong(name, getattr(self, name), f"one of {', '.join(known)}", "Training")
        rate: object = self.learning_rate
        if not isinstance(rate, int | float) or not 0 < rate < 10:
            raise _wrong("learning_rate", rate, "a number between 0 and 10", "Training")
        self._check_validation()
        if self.checkpoint is not None and not isinstance(self.checkpoint, str | PathLike):
            raise _wrong("checkpoint", self.checkpoint, "the path of a file, or None", "Training")

    def _check_validation(self) -> None:
        given: object = self.validation
        if isinstance(given, tuple | list | np.ndarray):
            ids = tuple(x.item() if isinstance(x, np.generic) else x for x in given)
            object.__setattr__(self, "validation", ids)
            right = len(ids) > 0 and all(isinstance(x, str | int) for x in ids)
        else:
            right = given is None or (isinstance(given, int | float) and 0 <= given < 1)
        if not right:
            expected = "a share from 0 to below 1, or ids of bags (texts or whole numbers)"
            raise _wrong("validation", given, expected, "Training")


def _check_whole(name: str, value: object, least: int, of: str) -> None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or value < least:  # type: ignore[operator]
        raise _wrong(name, value, f"a whole number of at least {least}", of)


def _wrong(name: str, value: object, expected: str, of: str = "NUTS") -> BagwiseError:
    remedy = f"Give {of}({name}=...) another."
    return BagwiseError.because(f"{name} is {value!r}", expected, remedy)
