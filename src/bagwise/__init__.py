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

__version__ = "0.2.0"

TYPE_CHECKING = False  # not typing's: nothing is imported before Ctrl-C is seen to
if TYPE_CHECKING:
    from typing import Any

    from bagwise.bags.bags import Bags, as_bags
    from bagwise.estimators.classifiers import (
        BayesianLogisticClassifier,
        BDRClassifier,
        ShrinkageClassifier,
    )
    from bagwise.estimators.conformal import Conformal
    from bagwise.estimators.cross_validation import cross_val_predict_dist
    from bagwise.estimators.embeddings import FourierEmbedding, KernelEmbedding, NetworkEmbedding
    from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
    from bagwise.estimators.pointwise import PointwiseTransformer, make_pipeline
    from bagwise.estimators.regressors import (
        BayesianLinearRegressor,
        BDRRegressor,
        FrequentistShrinkageRegressor,
        RBFNetworkRegressor,
        ShrinkageRegressor,
    )
    from bagwise.estimators.saving import load, save
    from bagwise.estimators.selection import tune
    from bagwise.exceptions import BagwiseError, BagwiseWarning
    from bagwise.predictions.gaussian import Prediction
    from bagwise.predictions.metrics import evaluate

# Where each public name lives. They are imported when first used: scikit-learn alone takes about a
# second, and nobody should wait for it who only wants to see the version.
_HOME = {
    "BDRClassifier": "estimators.classifiers",
    "BDRRegressor": "estimators.regressors",
    "Bags": "bags.bags",
    "BagwiseError": "exceptions",
    "BagwiseWarning": "exceptions",
    "BayesianLinearRegressor": "estimators.regressors",
    "BayesianLogisticClassifier": "estimators.classifiers",
    "Conformal": "estimators.conformal",
    "DistributionGPClassifier": "estimators.gp",
    "DistributionGPRegressor": "estimators.gp",
    "FourierEmbedding": "estimators.embeddings",
    "FrequentistShrinkageRegressor": "estimators.regressors",
    "KernelEmbedding": "estimators.embeddings",
    "NetworkEmbedding": "estimators.embeddings",
    "MeanEmbeddingRidge": "estimators.mean_embedding",
    "PointwiseTransformer": "estimators.pointwise",
    "Prediction": "predictions.gaussian",
    "RBFNetworkRegressor": "estimators.regressors",
    "ShrinkageClassifier": "estimators.classifiers",
    "ShrinkageRegressor": "estimators.regressors",
    "as_bags": "bags.bags",
    "cross_val_predict_dist": "estimators.cross_validation",
    "evaluate": "predictions.metrics",
    "load": "estimators.saving",
    "make_pipeline": "estimators.pointwise",
    "save": "estimators.saving",
    "tune": "estimators.selection",
}
_SUBMODULES = {
    "datasets": "datasets",
    "engines": "_utils.engines",
    "exceptions": "exceptions",
    "inference": "inference",
    "kernels": "features.kernels",
    "metrics": "predictions.metrics",
    "plots": "inspection.plots",
    "pointwise": "estimators.pointwise",
    "report": "inspection.report",
    "scorers": "estimators.scorers",
    "selection": "estimators.selection",
}

__all__ = [
    "BDRClassifier",
    "BDRRegressor",
    "Bags",
    "BagwiseError",
    "BagwiseWarning",
    "BayesianLinearRegressor",
    "BayesianLogisticClassifier",
    "Conformal",
    "DistributionGPClassifier",
    "DistributionGPRegressor",
    "FourierEmbedding",
    "FrequentistShrinkageRegressor",
    "KernelEmbedding",
    "MeanEmbeddingRidge",
    "NetworkEmbedding",
    "PointwiseTransformer",
    "Prediction",
    "RBFNetworkRegressor",
    "ShrinkageClassifier",
    "ShrinkageRegressor",
    "as_bags",
    "cross_val_predict_dist",
    "evaluate",
    "load",
    "make_pipeline",
    "save",
    "tune",
]


def __getattr__(name: str) -> Any:
    """Import a public name or submodule when it is first asked for (PEP 562)."""
    if name in _HOME:
        value = getattr(import_module(f"bagwise.{_HOME[name]}"), name)
    elif name in _SUBMODULES:
        value = import_module(f"bagwise.{_SUBMODULES[name]}")
    else:
        raise AttributeError(f"module 'bagwise' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_SUBMODULES])
