"""The variance of a prediction by cause."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.bags.validation import show
from bagwise.exceptions import BagwiseError

# Of many values an error message shows so many.
SHOWN = 3


@dataclass(frozen=True, eq=False)
class VarianceParts:
    """Variance of each prediction by cause; arrays (n,), all >= 0.

    var = bag + weights + noise

    Examples
    --------
    >>> parts = VarianceParts.broadcast(2, bag=np.array([0.5, 0.1]), noise=1.0)
    >>> parts.total
    array([1.5, 1.1])
    """

    bag: Float[np.ndarray, " n"]
    weights: Float[np.ndarray, " n"]
    noise: Float[np.ndarray, " n"]

    def __post_init__(self) -> None:
        for field in fields(self):
            values = np.array(getattr(self, field.name), dtype=np.float64)
            if values.ndim != 1:
                raise BagwiseError.because(
                    f"the {field.name} part has shape {values.shape}",
                    "(n_bags,)",
                    "VarianceParts.broadcast accepts scalars.",
                )
            require_variances(values, f"the {field.name} part")
            values.flags.writeable = False
            object.__setattr__(self, field.name, values)
        if not self.bag.shape == self.weights.shape == self.noise.shape:
            raise BagwiseError.because(
                f"the parts have lengths bag {self.bag.size}, weights {self.weights.size}, "
                f"noise {self.noise.size}",
                "one length",
                "Give every bag an entry in each.",
            )

    @classmethod
    def broadcast(
        cls, n_bags: int, *, bag: ArrayLike = 0.0, weights: ArrayLike = 0.0, noise: ArrayLike = 0.0
    ) -> VarianceParts:
        """Parts for ``n_bags`` bags, each given as a scalar or an array (n_bags,)."""
        bag, weights, noise = (
            np.broadcast_to(np.asarray(part, dtype=np.float64), (n_bags,))
            for part in (bag, weights, noise)
        )
        return cls(bag=bag, weights=weights, noise=noise)

    @property
    def total(self) -> Float[np.ndarray, " n"]:
        """Sum of the parts."""
        return self.bag + self.weights + self.noise

    def to_dict(self) -> dict[str, Float[np.ndarray, " n"]]:
        """Return the parts by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def take(self, rows: Any) -> VarianceParts:
        """Select the bags in ``rows`` (indices or a slice)."""
        return VarianceParts(**{name: part[rows] for name, part in self.to_dict().items()})


def require_variances(values: np.ndarray, name: str) -> None:
    """Raise unless ``values`` are finite and >= 0."""
    if not (np.isfinite(values) & (values >= 0)).all():
        raise BagwiseError.because(
            f"{name} is {brief(values)}", "finite and >= 0", "Check the fitted variances."
        )


def reals(values: Any) -> Float[np.ndarray, "..."]:
    """Return real numbers as float64; of what is none, one NaN, which no check lets pass.

    Examples
    --------
    >>> reals([1, 2]), reals("ten"), reals([[1], [1, 2]])
    (array([1., 2.]), array(nan), array(nan))
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.array(None)
    return array.astype(np.float64) if array.dtype.kind in "fiub" else np.array(np.nan)


def brief(values: Any) -> str:
    """Return ``values`` in a few words, as an error message shows them.

    Examples
    --------
    >>> brief([0.5, 2.0]), brief("ten"), brief(np.zeros(9))
    ('0.5, 2.0', "'ten'", '0.0, 0.0, 0.0 and 6 more')
    """
    if not isinstance(values, list | tuple | np.ndarray) or getattr(values, "ndim", 1) == 0:
        return show(values)
    shown = list(values)
    rest = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(map(show, shown[:SHOWN])) + rest or "nothing"
