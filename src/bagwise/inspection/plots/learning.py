"""The picture of how features were learnt: losses by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import matplotlib.pyplot as plt
from matplotlib.ticker import MaxNLocator

from bagwise.exceptions import BagwiseError
from bagwise.inspection.plots.style import CYCLE, journal

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@journal
def learning(model: Any, *, ax: Axes | None = None) -> Axes:
    """Draw the loss on bags held out after each epoch, and that on the others, as features learn.

    Parameters
    ----------
    model : fitted estimator whose embedding has ``learn=``
    ax : where to draw, by default a new figure

    Examples
    --------
    >>> import numpy as np, bagwise
    >>> from bagwise.inference import Training
    >>> rng = np.random.default_rng(0)
    >>> y = rng.uniform(1, 2, 30)
    >>> bags = [rng.normal(0, s, (20, 2)) for s in y]
    >>> embedding = bagwise.KernelEmbedding(5, learn=Training("ard", epochs=3))
    >>> model = bagwise.ShrinkageRegressor(embedding).fit(bags, y)
    >>> type(learning(model)).__name__
    'Axes'
    """
    history = getattr(model, "history_", None)
    if history is None:
        raise BagwiseError.because(
            f"this {type(model).__name__} has learnt no features, or is not fitted",
            "a fitted model whose embedding has learn=...",
            'For example ShrinkageRegressor(KernelEmbedding(learn="landmarks")).',
        )
    if ax is None:
        _, ax = plt.subplots(figsize=(4.6, 3.0), layout="constrained")
    epochs = range(history.n_epochs + 1)
    ax.plot(epochs, history.train, color=CYCLE[0], label="learnt from")
    if history.validation:
        ax.plot(epochs, history.validation, color=CYCLE[1], label="held out")
    ax.axvline(history.best, color="0.7", linewidth=0.8, linestyle=":", zorder=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set(xlabel="epoch", ylabel="loss per bag", title=history.end)
    ax.legend(frameon=False)
    return ax
