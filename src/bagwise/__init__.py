"""Learning from bags of samples: one label per bag, and an answer as sure as the bag is large.

>>> import numpy as np, bagwise
>>> rng = np.random.default_rng(0)
>>> y = rng.uniform(1, 2, 60)  # a label per bag: here, the spread of its points
>>> bags = bagwise.Bags.from_list([rng.normal(0, s, (n, 1)) for s, n in zip(y, [5, 50] * 30)])
>>> model = bagwise.ShrinkageRegressor().fit(bags, y)
>>> model.predict_dist(bags[:2]).interval(0.9).shape
(2, 2)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from bagwise.bags import Bags, as_bags
    from bagwise.classifiers import (
        BayesianLogisticClassifier,
        BDRClassifier,
        ShrinkageClassifier,
    )
    from bagwise.cross_validation import cross_val_predict_dist
    from bagwise.exceptions import BagwiseError, BagwiseWarning
    from bagwise.mean_embedding import MeanEmbeddingRidge
    from bagwise.metrics import evaluate
    from bagwise.persistence import load, save
    from bagwise.pointwise import PointwiseTransformer
    from bagwise.prediction import Prediction
    from bagwise.regressors import (
        BayesianLinearRegressor,
        BDRRegressor,
        FrequentistShrinkageRegressor,
        RBFNetworkRegressor,
        ShrinkageRegressor,
    )
    from bagwise.selection import tune

# Where each public name lives. They are imported when first used: scikit-learn alone takes about a
# second, and nobody should wait for it who only wants to see the version.
_HOME = {
    "BDRClassifier": "classifiers",
    "BDRRegressor": "regressors",
    "Bags": "bags",
    "BagwiseError": "exceptions",
    "BagwiseWarning": "exceptions",
    "BayesianLinearRegressor": "regressors",
    "BayesianLogisticClassifier": "classifiers",
    "FrequentistShrinkageRegressor": "regressors",
    "MeanEmbeddingRidge": "mean_embedding",
    "PointwiseTransformer": "pointwise",
    "Prediction": "prediction",
    "RBFNetworkRegressor": "regressors",
    "ShrinkageClassifier": "classifiers",
    "ShrinkageRegressor": "regressors",
    "as_bags": "bags",
    "cross_val_predict_dist": "cross_validation",
    "evaluate": "metrics",
    "load": "persistence",
    "save": "persistence",
    "tune": "selection",
}
_SUBMODULES = (
    "datasets",
    "exceptions",
    "inference",
    "kernels",
    "metrics",
    "persistence",
    "plots",
    "pointwise",
    "report",
    "scorers",
    "selection",
)

__all__ = [
    "BDRClassifier",
    "BDRRegressor",
    "Bags",
    "BagwiseError",
    "BagwiseWarning",
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "FrequentistShrinkageRegressor",
    "MeanEmbeddingRidge",
    "PointwiseTransformer",
    "Prediction",
    "RBFNetworkRegressor",
    "ShrinkageClassifier",
    "ShrinkageRegressor",
    "as_bags",
    "cross_val_predict_dist",
    "evaluate",
    "load",
    "save",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a public name or submodule when it is first asked for (PEP 562)."""
    if name in _HOME:
        value = getattr(import_module(f"bagwise.{_HOME[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"bagwise.{name}")
    else:
        raise AttributeError(f"module 'bagwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_SUBMODULES])
