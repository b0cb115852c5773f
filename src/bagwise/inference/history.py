"""History: how the learning of features went."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class History:
    """Losses per bag of labels of unit variance, before learning and after each epoch.

    Attributes
    ----------
    train : of the bags that features are learnt from, with the priors' share
    validation : −log density of the labels of bags held out, up to a constant; empty if none were
    end : why learning ended

    Examples
    --------
    >>> History((1.0,), (1.1,), "").then(0.5, 0.9).then(0.4, 1.0).best
    1
    """

    train: tuple[float, ...]
    validation: tuple[float, ...]
    end: str

    @property
    def n_epochs(self) -> int:
        """Epochs so far."""
        return len(self.train) - 1

    @property
    def best(self) -> int:
        """Epoch whose features are kept: of the least loss on bags held out, or the last."""
        return int(np.argmin(self.validation)) if self.validation else self.n_epochs

    @property
    def since_best(self) -> int:
        """Epochs since then."""
        return self.n_epochs - self.best

    def then(self, train: float, validation: float) -> History:
        """Return the history one epoch later."""
        judged = (*self.validation, validation) if self.validation else ()
        return History((*self.train, train), judged, self.end)

    def ended(self, why: str) -> History:
        """Return the history with another end."""
        return replace(self, end=why)
