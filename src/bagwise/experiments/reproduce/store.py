"""Store: finished cells in a folder, one pair of files each, never half written."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bagwise.atomic import replacing
from bagwise.experiments.reproduce.cell import Cell
from bagwise.experiments.reproduce.study import Study

ARRAYS = ("labels", "sizes", "mean", "std", "log_prob", "intervals", "spectrum")


@dataclass(frozen=True)
class Store:
    """A folder of cells: ``<study>/<setting>/<method>.json`` beside a ``.npz`` of arrays.

    The JSON file is written last and moved into place, so that a cell is there or is not.
    """

    folder: Path

    def path(self, study: Study, setting: int, method: str) -> Path:
        """Return where the JSON file of a cell is."""
        return self.folder / study.name / str(setting) / f"{method.replace(' ', '-')}.json"

    def has(self, study: Study) -> bool:
        """Whether there is a cell of the study, of whatever configuration."""
        return next((self.folder / study.name).glob("*/*.npz"), None) is not None

    def status(self, study: Study, setting: int, method: str) -> str:
        """Return "done", "missing", or "changed" if it was computed with another configuration."""
        try:
            stored = json.loads(self.path(study, setting, method).read_text(encoding="utf-8"))
        except (FileNotFoundError, json.JSONDecodeError):
            return "missing"
        same = stored.get("fingerprint") == study.fingerprint(setting, method)
        return "done" if same else "changed"

    def save(self, study: Study, cell: Cell) -> None:
        """Write a finished cell."""
        path = self.path(study, cell.setting, cell.method)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = asdict(cell)
        arrays = {name: content.pop(name) for name in ARRAYS}
        with replacing(path.with_suffix(".npz")) as part, part.open("wb") as file:
            np.savez_compressed(file, **arrays)
        content["fingerprint"] = study.fingerprint(cell.setting, cell.method)
        with replacing(path) as part:
            part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    def load(self, study: Study, setting: int, method: str) -> Cell:
        """Read a cell."""
        path = self.path(study, setting, method)
        content = json.loads(path.read_text(encoding="utf-8"))
        del content["fingerprint"]
        with np.load(path.with_suffix(".npz")) as arrays:
            return Cell(**content, **{name: arrays[name] for name in ARRAYS})

    def cells(self, study: Study) -> Iterable[Cell]:
        """Read all finished cells of a study, setting by setting."""
        for setting in study.settings:
            for method in study.methods:
                if self.status(study, setting, method) == "done":
                    yield self.load(study, setting, method)
