"""Study: an experiment of the paper as data, read from a TOML file."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from typing import Any, Self

import bagwise
from bagwise.exceptions import BagwiseError

STUDIES = ("gamma-varying", "gamma-fixed", "imdb-wiki")


# Methods that are not estimators of bagwise.
NOT_FITTED = ("optimal", "cnn")


@dataclass(frozen=True)
class Method:
    """One method of a study.

    Attributes
    ----------
    name : as in the paper;  model : estimator of bagwise, "optimal" or "cnn"
    params : of the estimator;  grid : values to choose from, by parameter; empty if none
    choose_by : metric on the validation bags by which they are chosen; None for the model's own
    """

    name: str
    model: str
    params: Mapping[str, Any]
    grid: Mapping[str, list[Any]]
    choose_by: str | None = None

    def fingerprint(self) -> dict[str, Any]:
        """Return what a cell depends on; how it is chosen only if not by the model's own rule."""
        parts = asdict(self)
        own = getattr(getattr(bagwise, self.model, None), "tuning_metric", None)
        if self.choose_by in (None, own):
            del parts["choose_by"]
        return parts


@dataclass(frozen=True)
class Study:
    """Data, methods and how their parameters are chosen.

    Attributes
    ----------
    name, title : of the study
    data : "gamma-varying", "gamma-fixed" or "imdb-wiki"
    settings : draws or settings of the data, each a number;  show : the one whose predictions are
        drawn;  setting_name, setting_text : what the number is
    methods : Method by name;  metrics : of the tables;  note : on what was found
    n_bags : bags per split, or None for the paper's numbers
    sampler : settings of NUTS, or none for its defaults
    scale : of simulated faces, as a share of the real number; 0 for the real ones
    folder : where the faces are

    Examples
    --------
    >>> study = Study.load("gamma-fixed", quick=True)
    >>> study.settings, list(study.methods)[:3]
    ([23], ['Optimal', 'kernel ridge', 'RBF network'])
    """

    name: str
    title: str
    data: str
    settings: list[int]
    setting_name: str
    setting_text: str
    show: int
    methods: Mapping[str, Method]
    metrics: list[str]
    note: str
    n_bags: int | None
    sampler: Mapping[str, Any]
    scale: float = 0.0
    folder: str = ""

    @classmethod
    def load(cls, name: str, *, quick: bool = False) -> Self:
        """Read a study of bagwise; quick is one setting, few bags and one candidate."""
        if name not in STUDIES:
            raise BagwiseError.because(
                f"there is no study {name!r}", f"one of {', '.join(STUDIES)}", "Try all."
            )
        source = resources.files(__package__) / "studies" / f"{name}.toml"
        return cls.parse(name, source.read_text(encoding="utf-8"), quick=quick)

    @classmethod
    def parse(cls, name: str, text: str, *, quick: bool = False) -> Self:
        """Make a study from the text of a TOML file."""
        table = tomllib.loads(text)
        changes = table.pop("quick", {}) if quick else {}
        shared = table.pop("grid", {}) | changes.get("grid", {})
        return cls(
            name=name,
            title=table["title"],
            data=table["data"],
            settings=changes.get("settings", table["settings"]),
            setting_name=table["setting_name"],
            setting_text=table["setting_text"],
            show=changes.get("settings", [table["show"]])[0],
            methods={
                key: _method(key, row, shared, quick) for key, row in table["methods"].items()
            },
            metrics=table.get("metrics", ["mse", "nll"]),
            note="" if quick else table.get("note", ""),
            n_bags=changes.get("n_bags"),
            sampler=changes.get("sampler", {}),
        )

    def only(self, settings: list[int]) -> Self:
        """Return the study of some of its settings."""
        unknown = [setting for setting in settings if setting not in self.settings]
        if unknown:
            raise BagwiseError.because(
                f"{self.name} has no setting {unknown[0]}",
                f"{self.setting_text}: one of {', '.join(map(str, self.settings))}",
                "Leave it out for all of them.",
            )
        show = self.show if self.show in settings else settings[0]
        return replace(self, settings=settings, show=show)

    def simulated(self, scale: float) -> Self:
        """Return the study of faces on simulated ones, so many times the real number."""
        return replace(self, name="faces-simulated", title="Ages of simulated people", scale=scale)

    def fingerprint(self, setting: int, method: str) -> str:
        """Return a text that changes when anything changes that the cell depends on."""
        parts = [self.data, setting, self.n_bags, self.methods[method].fingerprint()]
        if self.scale:
            parts.append(self.scale)
        if self.methods[method].model.startswith("BDR"):
            parts.append(dict(self.sampler))
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]


def _method(name: str, row: dict[str, Any], shared: dict[str, Any], quick: bool) -> Method:
    """Return the method; with the shared part of the grid if it is a model, and quickly of one."""
    grid = {} if row["model"] in NOT_FITTED else shared | row.get("grid", {})
    if quick:
        grid = {key: values[:1] for key, values in grid.items()}
    return Method(name, row["model"], row.get("params", {}), grid, row.get("choose_by"))
