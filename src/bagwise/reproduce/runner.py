"""Runner: computes the cells of a study that are not there yet, several settings at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from joblib import Parallel, delayed

from bagwise._utils.work import Progress
from bagwise.estimators.selection import FeatureCache
from bagwise.reproduce.cell import Cell, compute, load_data
from bagwise.reproduce.store import Store
from bagwise.reproduce.study import Study

# Seconds between two looks at what is finished.
LOOK = 0.5


@dataclass(frozen=True)
class Work:
    """What there is to do: methods by setting, and how many cells were there already.

    Attributes
    ----------
    todo : methods to compute, by setting
    n_done : cells that are there;  n_changed : cells of another configuration, to be done again
    """

    todo: dict[int, list[str]]
    n_done: int
    n_changed: int

    @classmethod
    def of(cls, study: Study, store: Store) -> Work:
        """Compare a study with what is stored."""
        status = {
            (setting, method): store.status(study, setting, method)
            for setting in study.settings
            for method in study.methods
        }
        todo: dict[int, list[str]] = {}
        for (setting, method), state in status.items():
            if state != "done":
                todo.setdefault(setting, []).append(method)
        states = list(status.values())
        return cls(todo, states.count("done"), states.count("changed"))

    @property
    def n_todo(self) -> int:
        """Number of cells to compute."""
        return sum(map(len, self.todo.values()))


def run(study: Study, store: Store, *, n_jobs: int = 1, progress: bool = True) -> Work:
    """Compute what is missing; safe to stop at any time, and to start again.

    Settings run side by side in processes of their own, or where ``joblib.parallel_config`` says,
    such as on a Dask cluster; the methods of a setting share its data and features. Each cell is
    stored as soon as it is finished, where it was computed; what is not here then is stored at the
    end of its setting.
    """
    work = Work.of(study, store)
    if not work.todo:
        return work
    with _watched(study, store, work, progress):
        jobs = (
            delayed(run_setting)(study, store, setting, methods)
            for setting, methods in work.todo.items()
        )
        parallel = Parallel(
            min(n_jobs, len(work.todo)), prefer="processes", return_as="generator_unordered"
        )
        for cells in parallel(jobs):
            for cell in cells:
                if store.status(study, cell.setting, cell.method) != "done":  # on another machine
                    store.save(study, cell)
    return work


def run_setting(study: Study, store: Store, setting: int, methods: list[str]) -> list[Cell]:
    """Compute some methods on one setting."""
    data, cache, cells = load_data(study, setting), FeatureCache(), list[Cell]()
    for method in methods:
        cells.append(compute(study, setting, method, data, cache))
        store.save(study, cells[-1])
    return cells


@contextmanager
def _watched(study: Study, store: Store, work: Work, shown: bool) -> Iterator[None]:
    """Show a bar that follows the stored cells, as other processes finish them."""
    left = {(setting, method) for setting, methods in work.todo.items() for method in methods}
    stop = threading.Event()

    def look(bar: Progress) -> None:
        while left:
            finished = {cell for cell in left if store.status(study, *cell) == "done"}
            left.difference_update(finished)
            bar.advance(len(finished))
            if stop.wait(LOOK):
                return

    with Progress(study.name, work.n_todo, shown) as bar:
        watcher = threading.Thread(target=look, args=(bar,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            stop.set()
            watcher.join()
