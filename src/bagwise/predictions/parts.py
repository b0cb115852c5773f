"""The variance of a prediction by cause, and how the bag part falls with the size of the bag."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from bagwise.exceptions import BagwiseError

# Elements of a table (sizes or draws, spectrum) worked on at once: 8 MB of float64.
BLOCK_ELEMENTS = 2**20

# Of many values an error message shows so many, each in so many characters.
SHOWN = 3
LONGEST_WORD = 40


@dataclass(frozen=True, eq=False)
class SizeCurve:
    """Bag-sampling variance of a prediction as a function of the number of points.

    v(n) = floor + sum_k loadings_k spectrum_k / (1 + n spectrum_k)

    Parameters
    ----------
    loadings : (d,) array, squared weights of the regression in the shrinkage basis; >= 0
    spectrum : (d,) array, prior variance over within-bag variance (eta lambda_k); >= 0
    floor : variance that no number of points removes (function landmarks off the basis); >= 0

    References
    ----------
    Law et al. (2018), Bayesian Approaches to Distribution Regression, section 3.

    Examples
    --------
    >>> curve = SizeCurve(np.array([2.0]), np.array([1.0]))
    >>> curve.variance(np.array([0, 1, 3]))
    array([2. , 1. , 0.5])
    """

    loadings: Float[np.ndarray, " d"]
    spectrum: Float[np.ndarray, " d"]
    floor: float = 0.0

    def __post_init__(self) -> None:
        loadings = np.asarray(self.loadings, dtype=np.float64)
        spectrum = np.asarray(self.spectrum, dtype=np.float64)
        if loadings.ndim != 1 or loadings.shape != spectrum.shape:
            raise BagwiseError.because(
                f"loadings and spectrum have shapes {loadings.shape} and {spectrum.shape}",
                "1-D arrays of one length",
                "Give one loading per value of the spectrum.",
            )
        floor = np.asarray(self.floor, dtype=np.float64)
        for name, values in (("loadings", loadings), ("spectrum", spectrum), ("floor", floor)):
            require_variances(values, f"the {name} of a SizeCurve")
            object.__setattr__(self, name, values if values.ndim else float(values))

    def variance(self, sizes: ArrayLike) -> Float[np.ndarray, " n"]:
        """Variance at each size; ``sizes`` (n,) >= 0, infinity allowed, in bounded memory."""
        distinct, inverse = np.unique(check_sizes(sizes), return_inverse=True)
        used = self.spectrum > 0  # a zero spectrum adds nothing, and inf * 0 is not a number
        loadings, spectrum = self.loadings[used], self.spectrum[used]
        values = np.full(distinct.shape, self.floor)
        step = max(1, BLOCK_ELEMENTS // max(1, loadings.size))
        for start in range(0, distinct.size, step):
            block = slice(start, start + step)
            values[block] += (spectrum / (1.0 + distinct[block, None] * spectrum)) @ loadings
        return values[inverse]

    def scaled(self, factor: float) -> SizeCurve:
        """Return ``factor`` times this curve, as for labels in other units."""
        return SizeCurve(self.loadings * factor, self.spectrum, self.floor * factor)


@dataclass(frozen=True, eq=False)
class SizeCurves:
    """Bag-sampling variance as a function of the number of points, for each posterior draw.

    v_s(n) = sum_k loadings_sk spectrum_sk / (1 + n spectrum_sk)

    Parameters
    ----------
    loadings : (s, d) array, squared weights of each draw in the shrinkage basis; >= 0
    spectrum : (s, d) array, prior variance over within-bag variance of each draw; >= 0

    Examples
    --------
    >>> curves = SizeCurves(np.array([[2.0], [1.0]]), np.array([[1.0], [3.0]]))
    >>> curves.variance(np.array([0, 1, np.inf]))
    array([[2.  , 1.  , 0.  ],
           [3.  , 0.75, 0.  ]])
    """

    loadings: Float[np.ndarray, "s d"]
    spectrum: Float[np.ndarray, "s d"]

    def __post_init__(self) -> None:
        loadings = np.array(self.loadings, dtype=np.float64)
        spectrum = np.array(self.spectrum, dtype=np.float64)
        if loadings.ndim != 2 or loadings.shape != spectrum.shape:
            raise BagwiseError.because(
                f"loadings and spectrum have shapes {loadings.shape} and {spectrum.shape}",
                "2-D arrays of one shape",
                "Give one row per draw and one loading per value of its spectrum.",
            )
        for name, values in (("loadings", loadings), ("spectrum", spectrum)):
            require_variances(values, f"the {name} of SizeCurves")
            values.flags.writeable = False
            object.__setattr__(self, name, values)

    def __len__(self) -> int:
        return len(self.loadings)

    def variance(self, sizes: ArrayLike) -> Float[np.ndarray, "s n"]:
        """Variance of each draw at each size; ``sizes`` (n,) >= 0, infinity allowed."""
        distinct, inverse = np.unique(check_sizes(sizes), return_inverse=True)
        values = np.zeros((len(self), distinct.size))  # as it stays for an infinite size
        step = max(1, BLOCK_ELEMENTS // max(1, self.loadings.shape[1]))
        for start in range(0, len(self), step):
            rows = slice(start, start + step)
            spectrum = self.spectrum[rows]
            prior = self.loadings[rows] * spectrum
            for column in np.flatnonzero(np.isfinite(distinct)):
                shrunk = prior / (1.0 + distinct[column] * spectrum)
                values[rows, column] = shrunk.sum(axis=1)
        return values[:, inverse]

    def scaled(self, factor: float) -> SizeCurves:
        """Return ``factor`` times these curves, as for labels in other units."""
        return SizeCurves(self.loadings * factor, self.spectrum)


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


def check_sizes(sizes: ArrayLike) -> np.ndarray:
    """``sizes`` as a float64 array (n,), >= 0 and not nan; infinity is allowed."""
    values = reals(sizes)
    if values.ndim != 1 or not (values >= 0).all():  # nan is not >= 0 either
        raise BagwiseError.because(
            f"sizes are {brief(sizes)}", "a 1-D array >= 0", "Give numbers of points."
        )
    return values


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
        return _word(values)
    shown = list(values)
    rest = f" and {len(shown) - SHOWN} more" if len(shown) > SHOWN else ""
    return ", ".join(map(_word, shown[:SHOWN])) + rest or "nothing"


def _word(value: Any) -> str:
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    text = repr(value)
    return text if len(text) <= LONGEST_WORD else f"{text[:LONGEST_WORD]}…"
