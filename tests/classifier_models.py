"""The classifiers and bags that their contract suite runs on."""

from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

from bagwise import (
    Bags,
    BayesianLogisticClassifier,
    BDRClassifier,
    DistributionGPClassifier,
    FourierEmbedding,
    KernelEmbedding,
    ShrinkageClassifier,
)
from bagwise.inference import NUTS
from contract_models import few_draws

SMALL = KernelEmbedding(6, bandwidth=1.0)
FEW = NUTS(chains=2, draws=40, warmup=120, progress=False)

CORE = {
    "shrinkage": ShrinkageClassifier(SMALL),
    "bdr-laplace": BDRClassifier(SMALL, inference="laplace"),
    "logistic-laplace": BayesianLogisticClassifier(SMALL),
    "gp": DistributionGPClassifier(SMALL),
}
MODELS = CORE | {
    "shrinkage-convolved": ShrinkageClassifier(SMALL, weight_var=10.0, prior="convolved"),
    "shrinkage-fourier": ShrinkageClassifier(FourierEmbedding(6, bandwidth=1.0), weight_var=10.0),
    "bdr-map": BDRClassifier(SMALL, inference="map"),
    "bdr-convolved": BDRClassifier(SMALL, inference="laplace", prior="convolved"),
    "logistic-map": BayesianLogisticClassifier(SMALL, inference="map"),
    "logistic-linear": BayesianLogisticClassifier(KernelEmbedding(kernel="linear")),
}
MANY = {  # of three classes
    "shrinkage-many": ShrinkageClassifier(SMALL, weight_var=10.0),
    "shrinkage-convolved-many": ShrinkageClassifier(SMALL, weight_var=10.0, prior="convolved"),
    "bdr-laplace-many": BDRClassifier(SMALL, inference="laplace"),
    "logistic-map-many": BayesianLogisticClassifier(SMALL, inference="map"),
    "gp-many": DistributionGPClassifier(SMALL, sampling=1.0, size=False),
}
SAMPLED = {  # once for all tests: the sampler compiles for seconds
    "bdr-nuts": BDRClassifier(SMALL, inference=FEW),
    "bdr-variational": BDRClassifier(SMALL, inference="variational"),
    "logistic-nuts": BayesianLogisticClassifier(SMALL, inference=FEW),
    "logistic-nuts-many": BayesianLogisticClassifier(SMALL, inference=FEW),
}
CLASSES = [BDRClassifier, BayesianLogisticClassifier, DistributionGPClassifier, ShrinkageClassifier]
SAMPLED_NAMES = [pytest.param(name, marks=few_draws) for name in SAMPLED]

refitted_model = pytest.mark.parametrize(  # of variants, what is fitted once has other tests
    "name",
    [
        pytest.param(name, marks=() if name in CORE or name == "gp-many" else pytest.mark.long)
        for name in [*MODELS, *MANY]
    ],
)
every_fitted = pytest.mark.parametrize("name", [*MODELS, *MANY, *SAMPLED_NAMES])  # needs `fitted`
core_model = pytest.mark.parametrize("name", CORE)  # where a test fits many times
tool_model = pytest.mark.parametrize(  # where what is tested is of all: BDR takes longest
    "name", [pytest.param(name, marks=[pytest.mark.long] * ("bdr" in name)) for name in CORE]
)
core_or_sampled = pytest.mark.parametrize("name", [*CORE, *SAMPLED_NAMES[:3]])
many_model = pytest.mark.parametrize("name", MANY)
every_class = pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)


def make_data(seed, n_bags=36, n_features=2):
    """Bags of 2 to 12 points; the class is whether their true mean is high, but for some noise."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(1, 2, n_bags)
    sizes = rng.integers(2, 13, n_bags)
    arrays = [rng.normal(x, 0.4, (n, n_features)) for x, n in zip(level, sizes, strict=True)]
    return arrays, level + rng.normal(0, 0.1, n_bags) > 1.5


ARRAYS, Y = make_data(0)
BAGS = Bags.from_list(ARRAYS)
NEW_ARRAYS, NEW_Y = make_data(1, n_bags=30)
NEW = Bags.from_list(NEW_ARRAYS)


def heights(arrays):
    """Three classes, by the mean of the points."""
    mean = np.array([array.mean() for array in arrays])
    return np.array(["low", "middle", "high"])[np.digitize(mean, [1.35, 1.65])]


HEIGHTS, NEW_HEIGHTS = heights(ARRAYS), heights(NEW_ARRAYS)


def unfitted(name):
    return clone((MODELS | MANY | SAMPLED)[name])


def labels(name):
    return HEIGHTS if name.endswith("many") else Y


def new_labels(name):
    return NEW_HEIGHTS if name.endswith("many") else NEW_Y


@cache
def fitted(name):
    """Model fitted to BAGS and their labels; tests that refit take `unfitted`."""
    return unfitted(name).fit(BAGS, labels(name))


def one_class(prediction):
    """Of many classes, what is said of one against the rest."""
    return prediction.of("high") if len(prediction.classes) > 2 else prediction


def knows_sizes(name):
    return not isinstance(unfitted(name), BayesianLogisticClassifier)


def proba(model, X=NEW):
    return model.predict_proba(X)[:, 1]
