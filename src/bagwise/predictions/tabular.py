"""Tabular: a prediction as a table with a row per bag, and its rows by the ids of the bags."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Self

import numpy as np

from bagwise._utils.levels import LEVEL
from bagwise._utils.notebook import panel, table
from bagwise.bags.per_bag import positions_by_id, rows_by_key
from bagwise.exceptions import BagwiseError

# How each library makes a table of columns by name.
LIBRARIES = {"pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "table"}
SHOWN = 5


def frame_of(columns: Mapping[str, Sequence[Any] | np.ndarray], library: str = "pandas") -> Any:
    """Return columns as a data frame of pandas or polars, or a table of pyarrow.

    Examples
    --------
    >>> frame_of({"id": ["a"], "mean": np.array([1.5])}, "pyarrow").to_pylist()
    [{'id': 'a', 'mean': 1.5}]
    """
    if library not in LIBRARIES:
        raise BagwiseError.because(
            f"library is {library!r}", " or ".join(f'"{name}"' for name in LIBRARIES), "Try those."
        )
    try:
        module = import_module(library)
    except ImportError:
        raise BagwiseError.because(
            f"{library} is not installed",
            "the library whose table is asked for",
            f'Run pip install {library}, or ask for library="pyarrow", which bagwise brings along.',
        ) from None
    return getattr(module, LIBRARIES[library])(dict(columns))


class Tabular:
    """What predictions of real labels and of classes share: their table, and rows by id."""

    @property
    @abstractmethod
    def ids(self) -> np.ndarray | None:
        """Bag ids (n,), if known."""

    @property
    @abstractmethod
    def sizes(self) -> np.ndarray | None:
        """Bag sizes (n,), if known."""

    @property
    def novelty(self) -> np.ndarray | None:
        """How like the training bags each bag is, (n,), if the model knows them.

        The share of training bags of about its size that are at least as odd: a p-value, uniform
        for bags like those, and .01 or so for one that is unlike them, whose prediction is then an
        extrapolation. It is about the points, not about the label.
        """
        return None

    @abstractmethod
    def to_dict(self, level: float = LEVEL) -> dict[str, np.ndarray]:
        """Columns of a table, one entry per bag."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def __getitem__(self, index: Any) -> Any: ...

    def _told(self) -> dict[str, np.ndarray]:
        """Return the last columns of the table: novelty, if it is known."""
        return {} if self.novelty is None else {"novelty": self.novelty}

    def _known(self) -> dict[str, np.ndarray]:
        """Return the first columns of the table: id, and size if it is known."""
        columns = {"id": np.arange(len(self)) if self.ids is None else self.ids}
        return columns if self.sizes is None else columns | {"size": self.sizes}

    def to_frame(self, level: float = LEVEL, *, library: str = "pandas") -> Any:
        """Return the columns of :meth:`to_dict` as a data frame, a row per bag.

        The id is a column like the others (composite ids are columns ``id_0``, ``id_1``, …), and
        the index of a pandas frame is 0, 1, 2, …. Predictions out of fold have a column ``fold``.

        Parameters
        ----------
        level : probability of the interval (lower, upper)
        library : "pandas", "polars" (DataFrame) or "pyarrow" (Table)

        Examples
        --------
        >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
        >>> parts = VarianceParts.broadcast(2, bag=[3.0, 0.0], noise=1.0)
        >>> p = Prediction([0.0, 5.0], parts, ids=["a", "b"], sizes=[4, 90])
        >>> p.to_frame()[["id", "size", "mean", "std", "bag_sd"]].round(2)
          id  size  mean  std  bag_sd
        0  a     4   0.0  2.0    1.73
        1  b    90   5.0  1.0    0.00
        """
        return frame_of(self._columns(level), library)

    def _columns(self, level: float) -> dict[str, Any]:
        """Return the columns of the table, those of composite ids apart."""
        columns: dict[str, Any] = {}
        for name, column in self.to_dict(level).items():
            if column.dtype != object:
                columns[name] = np.asarray(column)
            elif len(column) and isinstance(column[0], tuple):
                parts = zip(*column.tolist(), strict=True)
                columns |= {f"{name}_{i}": list(part) for i, part in enumerate(parts)}
            else:
                columns[name] = column.tolist()
        return columns

    def bag(self, bag_id: Any) -> Self:
        """Return the prediction of the bag with this id, of any type; strings do as an index too.

        Examples
        --------
        >>> from bagwise.predictions.gaussian import Prediction, VarianceParts
        >>> p = Prediction([0.0, 5.0], VarianceParts.broadcast(2, noise=1.0), ids=[7, 0])
        >>> p.bag(7).mean, p[0].mean  # by id, by position
        (array([0.]), array([0.]))
        """
        return self[positions_by_id([bag_id], self.ids)]

    def _rows(self, index: Any) -> np.ndarray:
        """Return the positions that an integer, slice, mask, list, id or list of ids chooses."""
        return np.atleast_1d(np.arange(len(self))[rows_by_key(index, self.ids)])

    def _repr_html_(self) -> str:
        first = self[:SHOWN]
        rest = len(self) - len(first)
        more = f'<div style="opacity:.65">… and {rest} more bags</div>' if rest else ""
        columns = {name: list(column) for name, column in first._columns(LEVEL).items()}
        return panel(repr(self), table(columns) if len(first) else "", more)
