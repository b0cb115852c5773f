"""Records: the classes that a saved model is made of, and the fields of each.

The list is closed. A name in a file picks one of these classes or is an error: nothing is imported
by name, and nothing is called but the constructors below, with values of the types below.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bagwise.features import FourierFeatures, LandmarkFeatures
from bagwise.heads import LinearHead, ShrinkageHead, ShrunkMeanHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.draws import Draws, Trajectories
from bagwise.inference.effects import FixedEffects
from bagwise.inference.evidence import WeightPosterior
from bagwise.inference.posterior_mode import Mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.settings import NUTS
from bagwise.kernels import RBF, Additive, Linear, Matern
from bagwise.likelihoods import Gaussian, Logistic, Probit
from bagwise.mean_embedding import LandmarkRidgeHead, SecondLevel
from bagwise.persistence.fields import (
    Array,
    Field,
    Flag,
    Maybe,
    Names,
    Number,
    Reader,
    Table,
    Whole,
    Writer,
    unfit,
    unsaveable,
)
from bagwise.posterior_head import PosteriorHead
from bagwise.scaling import Scaling
from bagwise.shrinkage import KernelPrior, OneBasis, ShrinkageBasis

# Records within records: the deepest of ours has 4, and additive kernels may be within each other.
MAX_NESTING = 10


class Record:
    """An object of one of some classes: {"class": its name, field: ...}."""

    def __init__(self, *classes: type) -> None:
        self.classes = {cls.__name__: cls for cls in classes}

    def owns(self, data: Any) -> bool:
        """Whether it is such an object, or stands for one."""
        if isinstance(data, dict):
            return isinstance(data.get("class"), str)
        return type(data) in self.classes.values()

    def encode(self, value: Any, path: str, writer: Writer) -> dict[str, Any]:
        """Return the fields' JSON."""
        if type(value) not in self.classes.values() or path.count(".") > MAX_NESTING:
            kinds = ", ".join(self.classes)
            raise unsaveable(path, value, f"one of {kinds}, not a class derived from them")
        fields = RECORDS[type(value)]
        parts = {
            name: field.encode(getattr(value, name), f"{path}.{name}", writer)
            for name, field in fields.items()
        }
        return {"class": type(value).__name__} | parts

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """Return the object, if every field is right."""
        if path.count(".") > MAX_NESTING:
            raise unfit(path[:80], "nested too deeply", f"at most {MAX_NESTING} levels")
        name = data.get("class") if isinstance(data, dict) else None
        cls = self.classes.get(name) if isinstance(name, str) else None
        if cls is None:
            kinds = ", ".join(self.classes)
            raise unfit(path, f"of class {name!r:.60}", f"one of {kinds}")
        fields = RECORDS[cls]
        if data.keys() != fields.keys() | {"class"}:
            raise unfit(path, f"a {name} with other fields", f"{', '.join(fields) or 'none'}")
        parts = {
            name: field.decode(data[name], f"{path}.{name}", reader)
            for name, field in fields.items()
        }
        made = _kernel_prior(**parts) if cls is KernelPrior else cls(**parts)
        _bind(made, path, reader)
        return made


def _kernel_prior(basis: ShrinkageBasis, prior_mean: np.ndarray) -> KernelPrior:
    """Return the prior with its basis, which is there already; without the training bags."""
    family = KernelPrior.__new__(KernelPrior)
    none = np.zeros((0, len(basis.spectrum)))
    OneBasis.__init__(family, basis, prior_mean, none)
    return family


def _bind(made: Any, path: str, reader: Reader) -> None:
    """Check the dimensions that are not those of a single array."""
    if isinstance(made, LandmarkFeatures):
        reader.bind("features", made.n_outputs, path)
        z = made.landmarks if made.function_landmarks is None else made.function_landmarks
        reader.bind("functionals", len(z), path)
    elif isinstance(made, FourierFeatures):
        reader.bind("features", made.n_outputs, path)
        reader.bind("functionals", made.n_outputs, path)
    elif isinstance(made, PosteriorHead):
        if tuple(made.draws.scales) != made.priors.names or "weight_var" not in made.priors.names:
            raise unfit(path, "of other scales than its priors", "the same, weight_var included")
    elif isinstance(made, Diagnostics):
        if not made.rhat or not made.rhat.keys() == made.ess_bulk.keys() == made.ess_tail.keys():
            raise unfit(path, "of other parameters in each table", "the same, and at least one")


@dataclass(frozen=True)
class Later:
    """The kernels, which may be within each other."""

    def owns(self, data: Any) -> bool:
        """As of the kernels."""
        return KERNEL.owns(data)

    def encode(self, value: Any, path: str, writer: Writer) -> Any:
        """As of the kernels."""
        return KERNEL.encode(value, path, writer)

    def decode(self, data: Any, path: str, reader: Reader) -> Any:
        """As of the kernels."""
        return KERNEL.decode(data, path, reader)


REAL = Number(real=True)
KERNEL = Record(RBF, Matern, Linear, Additive)
BANDWIDTH = Maybe(Number())
BASIS = Record(ShrinkageBasis)
LINEAR = Record(LinearHead)
CHAINS = ("chains", "draws")

# Fields in the order in which they are read: what names a dimension first decides its size.
RECORDS: dict[type, dict[str, Field]] = {
    RBF: {"bandwidth": BANDWIDTH},
    Matern: {"bandwidth": BANDWIDTH, "smoothness": Number()},
    Linear: {"bandwidth": BANDWIDTH},
    Additive: {"bandwidth": BANDWIDTH, "base": Later()},
    Scaling: {name: Array(("columns",)) for name in ("center", "scale", "reach")},
    LandmarkFeatures: {
        "kernel": KERNEL,
        "scaling": Record(Scaling),
        "landmarks": Array(("features", "columns")),
        "function_landmarks": Maybe(Array(("functionals", "columns"))),
    },
    FourierFeatures: {
        "scaling": Record(Scaling),
        "frequencies": Array(("frequencies", "columns")),
    },
    FixedEffects: {
        "center": Array(("covariates",)),
        "scale": Array(("covariates",)),
        "mixing": Array(("covariates+1", "effects")),
    },
    WeightPosterior: {
        "factor": Array(("features", "features")),
        "effects_factor": Array(("effects", "effects")),
        "adjustment": Array(("effects", "features")),
    },
    LinearHead: {
        "beta": Array(("features",)),
        "center": Array(("features",)),
        "gamma": Array(("effects",)),
        "noise_var": REAL,
        "penalty": REAL,
        "loss": REAL,
        "posterior": Maybe(Record(WeightPosterior)),
    },
    ShrinkageBasis: {
        "projection": Array(("features", "directions")),
        "spectrum": Array(("directions",)),
        "mean_map": Array(("directions", "weights")),
        "spread_map": Array(("directions", "weights")),
        "unseen": Maybe(Array(("weights", "weights"))),
        "weight_map": Array(("functionals", "weights")),
    },
    KernelPrior: {"basis": BASIS, "prior_mean": Array(("features",))},
    ShrunkMeanHead: {
        "family": Record(KernelPrior),
        "within_cov": Array(("features", "features")),
        "prior_scale": REAL,
        "linear": LINEAR,
        "loss": REAL,
    },
    Mode: {
        "theta": Array(("parameters",)),
        "weight_var": REAL,
        "value": REAL,
        "loss": REAL,
        "gradient_norm": REAL,
        "n_steps": Whole(0),
        "shortfall": REAL,
    },
    Gaussian: {},
    Probit: {},
    Logistic: {},
    ShrinkageHead: {
        "basis": BASIS,
        "prior_mean": Array(("features",)),
        "w": Array(("weights",)),
        "gamma": Array(("effects",)),
        "noise_var": REAL,
        "prior_scale": REAL,
        "length": Maybe(REAL),
        "mode": Record(Mode),
        "loss": REAL,
        "likelihood": Record(Gaussian, Probit, Logistic),
        "shrinks": Flag(),
    },
    Trajectories: {
        "diverging": Array(CHAINS, ("bool",)),
        "n_steps": Array(CHAINS, ("int64", "int32")),
        "energy": Array(CHAINS),
        "step_size": Array(("chains",)),
    },
    Draws: {
        "w": Array((*CHAINS, "weights")),
        "gamma": Array((*CHAINS, "effects")),
        "scales": Table(Array(CHAINS)),
        "trajectories": Maybe(Record(Trajectories)),
    },
    ScalePriors: {
        "names": Names("scales"),
        "power": Array(("scales",)),
        "scale": Array(("scales",)),
        "effect_sd": REAL,
    },
    PosteriorHead: {
        "start": Record(ShrinkageHead),
        "draws": Record(Draws),
        "priors": Record(ScalePriors),
        "loss": REAL,
    },
    SecondLevel: {
        "var": Maybe(REAL),
        "norms": Array(("bags",)),
        "average": Array(("bags",)),
        "dual": Array(("bags",)),
        "gamma": Array(("effects",)),
        "penalty": REAL,
        "noise": REAL,
    },
    LandmarkRidgeHead: {
        "weight_map": Array(("features", "weights")),
        "train": Array(("bags", "weights")),
        "second": Record(SecondLevel),
    },
    Priors: {
        "noise": Number(),
        "weights": Maybe(Number()),
        "prior_scale": Maybe(Number()),
        "intercept": Number(),
    },
    NUTS: {
        "chains": Whole(1),
        "draws": Whole(1),
        "warmup": Whole(0),
        "target_accept": REAL,
        "n_jobs": Maybe(Whole(1)),
        "progress": Flag(),
    },
    Diagnostics: {
        "rhat": Table(REAL),
        "ess_bulk": Table(REAL),
        "ess_tail": Table(REAL),
        "n_chains": Whole(1),
        "n_draws": Whole(1),
        "n_divergent": Whole(0),
        "n_deep": Whole(0),
        "steps_per_draw": REAL,
    },
}
