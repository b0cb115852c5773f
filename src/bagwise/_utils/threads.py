"""Threads of BLAS and OpenMP: one where more would only wait for each other."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread(user_api: str | None = None) -> Any:
    """Return a context in which BLAS, OpenMP or both (None) use one thread.

    Examples
    --------
    >>> with one_thread("blas"):
    ...     pass
    """
    return _controller(len(sys.modules)).limit(limits=1, user_api=user_api)


@lru_cache(maxsize=1)
def _controller(n_modules: int) -> ThreadpoolController:
    """Find the libraries that have threads, again only when something was imported since.

    To look for them takes 3 ms, as long as a small prediction; to set them takes 0.02 ms.
    """
    return ThreadpoolController()


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
