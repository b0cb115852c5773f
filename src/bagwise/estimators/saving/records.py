"""Records: the classes that a saved model is made of; their annotations say what is in each.

The list is closed. A name in a file picks one of these classes or is an error: nothing is imported
by name, and nothing is called but their constructors, with values of the annotated types.
"""

from __future__ import annotations

from functools import cache
from types import NoneType
from typing import Any, ClassVar, get_origin, get_type_hints

from sklearn.base import BaseEstimator

from bagwise.bags.bags import Bags
from bagwise.embedding.model import EmbeddingModel
from bagwise.estimators.embeddings import FourierEmbedding, KernelEmbedding
from bagwise.estimators.mean_embedding import LandmarkRidgeHead, SecondLevel
from bagwise.estimators.saving.kinds import ClassWeights, Labels, Landmarks, Range, Seed
from bagwise.estimators.saving.parts import Reader, unfit
from bagwise.features.kernels import RBF, Additive, Energy, Linear, Matern
from bagwise.features.maps import FourierFeatures, LandmarkFeatures
from bagwise.features.scaling import Scaling
from bagwise.heads.classes import ClassHeads
from bagwise.heads.gp import GPHead
from bagwise.heads.gp_draws import Drawn, GPDraws
from bagwise.heads.linear import LinearHead
from bagwise.heads.posterior import PosteriorHead
from bagwise.heads.shrinkage import ShrinkageHead
from bagwise.inference.diagnostics import Diagnostics
from bagwise.inference.draws import Draws, Trajectories
from bagwise.inference.effects import FixedEffects
from bagwise.inference.evidence import WeightPosterior
from bagwise.inference.gp_evidence import Sizing
from bagwise.inference.gp_nuts import ScaleDraws
from bagwise.inference.posterior_mode import Mode
from bagwise.inference.priors import Priors, ScalePriors
from bagwise.inference.second_level import Inputs, Scales
from bagwise.inference.settings import NUTS
from bagwise.inference.spread import Spread
from bagwise.likelihoods import Gaussian, Logistic, Probit

# What a model may hold, or have as a parameter; an estimator among them with its parameters only.
CLASSES: dict[str, type] = {
    cls.__name__: cls
    for cls in (
        *(RBF, Matern, Linear, Energy, Additive),
        *(Scaling, LandmarkFeatures, FourierFeatures, Bags),
        *(FixedEffects, WeightPosterior, EmbeddingModel, Mode, Draws, Trajectories, ScalePriors),
        *(LinearHead, ShrinkageHead, PosteriorHead, SecondLevel, LandmarkRidgeHead),
        *(GPHead, Inputs, Scales, Sizing, Spread, ClassHeads, GPDraws, Drawn, ScaleDraws),
        *(Gaussian, Probit, Logistic),
        *(Priors, NUTS, Diagnostics),
        *(KernelEmbedding, FourierEmbedding),
    )
}

# Names of dimensions in annotations, and what they are in a file, where each has one size. The
# second table is of classes in which a letter means something else; letters in neither are checked
# within their class.
DIMENSIONS = {
    "p": "columns",
    "n_features": "columns",
    "n_covariates": "covariates",
    "n": "bags",
    "n_bags": "bags",
    "n_points": "points",
    "d": "features",
    "s": "functionals",
    "q": "weights",
    "c": "directions",
    "r": "effects",
}
CHAINS = {"c": "chains", "s": "draws"}
OTHER_DIMENSIONS = {
    FixedEffects: {"c": "covariates"},
    Draws: CHAINS,
    Trajectories: CHAINS,
    ScaleDraws: CHAINS,
    LandmarkRidgeHead: {"q": "coordinates"},
}

# Parameters whose annotation is Any.
OPEN: dict[str, Any] = {
    "class_weight": (ClassWeights(), str, NoneType),
    "function_landmarks": (Landmarks(), NoneType),
    "landmarks": (Landmarks(), str),
    "random_state": Seed(),
    "support": Range(),
}


@cache
def fields_of(cls: Any) -> dict[str, Any]:
    """Return the fields of a class, or the parameters of an estimator, with their annotations.

    Examples
    --------
    >>> fields_of(Matern)
    {'bandwidth': float | None, 'smoothness': <class 'float'>}
    """
    if issubclass(cls, BaseEstimator):
        hints = get_type_hints(cls.__init__)
        found = {name: hints.get(name, Any) for name in cls._get_param_names()}
        return {name: OPEN.get(name, Any) if x is Any else x for name, x in found.items()}
    found = {
        name: hint
        for name, hint in get_type_hints(cls).items()
        if ClassVar not in (hint, get_origin(hint))
    }
    return found | {"ids": Labels("bags", as_text=True)} if cls is Bags else found


def dimension(owner: type, name: str) -> str:
    """Return what a dimension in an annotation of a class is in a file.

    Examples
    --------
    >>> dimension(Draws, "q"), dimension(Draws, "s"), dimension(Mode, "k")
    ('weights', 'draws', 'k of Mode')
    """
    known = DIMENSIONS | OTHER_DIMENSIONS.get(owner, {})
    return known.get(name, f"{name} of {owner.__name__}")


def check(made: Any, path: str, reader: Reader) -> None:
    """Check what concerns several fields of an object at once, other than shapes."""
    if isinstance(made, LandmarkFeatures | FourierFeatures):
        z = getattr(made, "function_landmarks", None)
        reader.bind("features", made.n_outputs, path)
        reader.bind("functionals", made.n_outputs if z is None else len(z), path)
    elif isinstance(made, ScalePriors):
        reader.bind(dimension(ScalePriors, "k"), len(made.names), path)
    elif isinstance(made, PosteriorHead):
        if tuple(made.draws.scales) != made.priors.names or "weight_var" not in made.priors.names:
            raise unfit(path, "of other scales than its priors", "the same, weight_var included")
    elif isinstance(made, GPDraws):
        if not made.drawn:
            raise unfit(f"{path}.drawn", "empty", "at least one draw")
    elif isinstance(made, ScaleDraws):
        if not made.scales or not made.scales.keys() <= set(Scales.names()):
            raise unfit(f"{path}.scales", f"of {', '.join(made.scales)}", "some of those there are")
    elif isinstance(made, Diagnostics):
        if not made.rhat or not made.rhat.keys() == made.ess_bulk.keys() == made.ess_tail.keys():
            raise unfit(path, "of other parameters in each table", "the same, and at least one")
