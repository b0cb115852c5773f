"""The variance of a prediction by cause."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.exceptions import BagwiseError


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

    def take(self, rows: np.ndarray) -> VarianceParts:
        """Select the bags in ``rows`` (indices)."""
        return VarianceParts(**{name: part[rows] for name, part in self.to_dict().items()})


def require_variances(values: np.ndarray, name: str) -> None:
    """Raise unless ``values`` are finite and >= 0."""
    if not (np.isfinite(values) & (values >= 0)).all():
        raise BagwiseError.because(
            f"{name} is {brief(values)}", "finite and >= 0", "Check the fitted variances."
        )


def brief(values: ArrayLike) -> str:
    """``values`` on one line, as an error message shows them."""
    text = np.array2string(np.asarray(values), threshold=6, edgeitems=3, precision=4)
    return " ".join(text.split())
