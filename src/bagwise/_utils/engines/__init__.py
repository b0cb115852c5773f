"""Engines: who does the work on pieces of data that lie apart, two verbs each.

    map      do something to every piece, wherever it lies, and hand on what comes of it, in order
    merge    put that together

A new engine is a file beside ``dask.py`` with a class that has ``map``, and its name in
:func:`as_engine`. What is mapped are module-level functions of pieces that say where rows lie, so
that only statistics travel.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from bagwise.exceptions import BagwiseError

__all__ = ["DaskEngine", "Engine", "LocalEngine", "as_engine"]

# Parts into which data are cut, unless an engine knows better.
PARTS = 16

T = TypeVar("T")
S = TypeVar("S")


class Engine(ABC):
    """Does work on pieces of data.

    Examples
    --------
    >>> LocalEngine().merge([1, 2, 3], lambda total, part: total + part)
    6
    """

    @abstractmethod
    def map(self, work: Callable[..., T], pieces: Sequence[S], title: str) -> Iterator[T]:
        """Yield what comes of each piece, in the order of the pieces, as it is needed."""

    @property
    def n_parts(self) -> int:
        """Parts of very large data, of which each is summed before anything travels."""
        return PARTS

    def merge(self, parts: Iterable[Any], into: Callable[[Any, Any], Any]) -> Any:
        """Put parts together in their order: the first takes in the others, one by one."""
        total: Any = None
        for part in parts:
            total = part if total is None else into(total, part)
        return total

    def rows_of(self, frame: Any) -> list[Any]:
        """Return the partitions of a data frame that lies with the workers."""
        raise BagwiseError.because(
            f"{type(self).__name__} has no data frames of its own",
            "Parquet files",
            "Use Bags.scan_parquet(..., engine=...).",
        )


class LocalEngine(Engine):
    """One piece after the other, in this process: what the others are compared with.

    Examples
    --------
    >>> list(LocalEngine().map(len, ["a", "bc"], "counting"))
    [1, 2]
    """

    def map(self, work: Callable[..., T], pieces: Sequence[S], title: str) -> Iterator[T]:
        """Yield what comes of each piece."""
        return map(work, pieces)


def __getattr__(name: str) -> Any:
    """Import DaskEngine when it is first asked for: not everybody has Dask."""
    if name == "DaskEngine":
        from bagwise._utils.engines.dask import DaskEngine

        return DaskEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_engine(value: Any) -> Engine | None:
    """Return an engine: given, by its name, or by the address or client of a Dask scheduler.

    None is this process, with the file as one piece.

    Examples
    --------
    >>> as_engine("local")
    <bagwise._utils.engines.LocalEngine object at ...>
    """
    if value is None or isinstance(value, Engine):
        return value
    if isinstance(value, str) and value == "local":
        return LocalEngine()
    if isinstance(value, str) and (value == "dask" or "://" in value):
        from bagwise._utils.engines.dask import DaskEngine

        return DaskEngine(None if value == "dask" else value)
    if type(value).__module__.partition(".")[0] == "distributed":
        from bagwise._utils.engines.dask import DaskEngine

        return DaskEngine(value)
    raise BagwiseError.because(
        f"engine is {value!r:.80}",
        '"dask" (the current client), "tcp://host:port", a distributed.Client, an Engine or None',
        'For example engine="dask" after client = distributed.Client().',
    )
