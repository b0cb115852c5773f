"""DaskEngine: the workers of a Dask cluster (``pip install "bagwise[dask]"``)."""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar

from bagwise._utils.engines import Engine
from bagwise.exceptions import BagwiseError

T = TypeVar("T")
S = TypeVar("S")

# Pieces that are under way for each thread of the workers: one to work on, one that waits. More
# would only let results pile up.
AHEAD = 2

# Parts of the data for each thread of the workers: of shuffled rows each part has sums of all bags,
# which travel and are merged here.
PARTS_EACH = 4

# Dask has its workers give memory back at once, by a variable of glibc: to get it again for each
# batch of rows takes as long as half of the work. Without the variable it is as in any process.
KEPT_MEMORY = {"distributed.nanny.pre-spawn-environ.MALLOC_TRIM_THRESHOLD_": None}

# Seconds to wait for a scheduler that does not answer.
PATIENCE = 20.0


class DaskEngine(Engine):
    """Work on a Dask cluster.

    Parameters
    ----------
    client : distributed.Client, the address of a scheduler ("tcp://10.0.0.1:8786"), or None for the
        current client
    workers : int, optional
        Start so many processes on this machine instead; :meth:`close` ends them, as does the end of
        a ``with`` block.

    Examples
    --------
    >>> from distributed import Client
    >>> import bagwise.datasets
    >>> path = bagwise.datasets.__path__[0] + "/polls.parquet"
    >>> options = {"bag": "race", "features": ["poll_margin"], "progress": False}
    >>> with Client(processes=False, n_workers=1, dashboard_address=None) as client:
    ...     bagwise.Bags.scan_parquet(path, engine=DaskEngine(client), **options).n_bags
    1708
    """

    def __init__(self, client: Any = None, *, workers: int | None = None) -> None:
        distributed = _distributed()
        import dask

        self._own: list[Any] = []
        if workers is not None:
            with dask.config.set(KEPT_MEMORY):
                cluster = distributed.LocalCluster(
                    n_workers=workers,
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",  # any port that is free
                )
            client = distributed.Client(cluster)
            self._own = [client, cluster]
        elif client is None:
            client = _current(distributed)
        elif isinstance(client, str):
            client = _connected(distributed, client)
            self._own = [client]
        self.client = client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """End what was started here: processes, or the connection."""
        for own in self._own:
            with suppress(Exception):  # gone already
                own.close()
        self._own = []

    @property
    def n_parts(self) -> int:
        """Some parts for each thread of the workers, so that none waits long for the last."""
        with self._reached(_distributed()):
            return PARTS_EACH * max(1, sum(self.client.nthreads().values()))

    def map(self, work: Callable[..., T], pieces: Sequence[S], title: str) -> Iterator[T]:
        """Yield what the workers make of each piece, in the order of the pieces.

        A piece whose worker dies is done again by another. It may hold what lies with the workers
        (a partition), which goes from there to there.
        """
        distributed, key = _distributed(), "bagwise-" + "-".join(title.split())
        waiting, under_way = deque(enumerate(pieces)), deque[Any]()
        with self._reached(distributed):
            try:
                while waiting or under_way:
                    most = AHEAD * max(1, sum(self.client.nthreads().values()))
                    while waiting and len(under_way) < most:
                        under_way.append(self._submit(work, *waiting.popleft(), key))
                    yield under_way.popleft().result()
            finally:
                for future in under_way:
                    with suppress(Exception):
                        future.cancel()

    def _submit(self, work: Callable[..., T], number: int, piece: S, key: str) -> Any:
        from dask.delayed import delayed

        name = f"{key}-{number}-{secrets.token_hex(8)}"
        partition = getattr(piece, "partition", None)
        if partition is None:
            return self.client.submit(work, piece, key=name, pure=False)
        with_rows = delayed(_with_partition, pure=False)(work, _emptied(piece), partition)
        return self.client.compute(with_rows)

    def rows_of(self, frame: Any) -> list[Any]:
        """Return the partitions of a Dask data frame."""
        return list(frame.to_delayed())

    @contextmanager
    def _reached(self, distributed: Any) -> Iterator[None]:
        """Say so if the scheduler, or all that could do the work, is gone."""
        try:
            yield
        except BagwiseError:
            raise
        except distributed.scheduler.KilledWorker as error:
            raise BagwiseError.because(
                f"the workers that were given a piece of the data died ({error})",
                "workers with room for a piece and its sums",
                "Give each worker more memory, or make smaller pieces with piece_rows=...",
            ) from error
        except (OSError, CancelledError, TimeoutError) as error:
            raise self._gone(error) from error
        except RuntimeError as error:  # of a client that was closed
            if self.client.status != "running":
                raise self._gone(error) from error
            raise

    def _gone(self, error: BaseException) -> BagwiseError:
        address = getattr(self.client.scheduler, "address", "") if self.client.scheduler else ""
        why = " ".join(str(error).split())[:120] or type(error).__name__
        return BagwiseError.because(
            f"the Dask scheduler{f' at {address}' if address else ''} is gone ({why})",
            "a cluster that is there until the work is done",
            "Start it and run this again; nothing was written.",
        )


def _with_partition(work: Callable[..., T], piece: Any, partition: Any) -> T:
    return work(piece.with_partition(partition))


def _emptied(piece: Any) -> Any:
    return piece.with_partition(None)


def _distributed() -> Any:
    try:
        import distributed
        import distributed.scheduler
    except ImportError as error:
        raise BagwiseError.because(
            "Dask is not installed", "dask and distributed", 'pip install "bagwise[dask]"'
        ) from error
    return distributed


def _current(distributed: Any) -> Any:
    try:
        return distributed.get_client()
    except ValueError as error:
        raise BagwiseError.because(
            "there is no Dask client",
            "a client, or the address of a scheduler",
            'Start one with client = distributed.Client(), or give engine="tcp://host:port".',
        ) from error


def _connected(distributed: Any, address: str) -> Any:
    try:
        return distributed.Client(address, timeout=PATIENCE, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        raise BagwiseError.because(
            f"no Dask scheduler answers at {address}",
            "the address of one that runs",
            "Start it with dask scheduler, and workers with dask worker ADDRESS.",
        ) from error
