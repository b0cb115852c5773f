"""Estimators to try: every class, with parameters ordinary and odd."""

from types import FunctionType

import numpy as np

import bagwise
from bagwise.features.kernels import KERNELS, RBF, Additive, Linear, Matern
from bagwise.inference import NUTS, Priors
from fuzz.trial import KINDS

REGRESSORS = [
    "ShrinkageRegressor", "BDRRegressor", "BayesianLinearRegressor", "RBFNetworkRegressor",
    "FrequentistShrinkageRegressor", "MeanEmbeddingRidge", "DistributionGPRegressor",
]  # fmt: skip
CLASSIFIERS = [
    "ShrinkageClassifier", "BDRClassifier", "BayesianLogisticClassifier",
    "DistributionGPClassifier",
]  # fmt: skip

# What a parameter is set to: what should work, and what should be refused or else work too. What
# tests of types would not let us make is made when it is drawn.
NUMBERS = [0, 0.0, -1.0, np.nan, np.inf, "1", "", None, True, [1.0], 1j, 10**400, 1e308, 5e-324]
PARAMETERS = {
    "kernel": (
        [*KERNELS, "auto", RBF(2.0), Matern(0.5, 0.5), Additive(base=RBF(1.0)), Linear()],
        ["gauss", "", None, 3, RBF(0.0), RBF(-1.0), RBF(np.nan), RBF(1e-300), RBF(1e300),
         RBF(np.inf), lambda: RBF("a"), Additive(base=Linear(), bandwidth=2.0)],
    ),
    "landmarks": (
        ["kmeans", "random"],
        ["all", "", None, 3, [[0.0]], np.zeros((2, 2)), np.full((3, 1), np.nan), [], [["a"]],
         np.full((3, 1), 1e308), np.ones(3)],
    ),
    "n_landmarks": ([1, 2, 5, 10, 30], [0, -1, 2.5, "10", True, 100_000, np.nan, 10**400]),
    "n_features": ([1, 2, 5, 10, 30], [0, -1, 2.5, "10", True, np.nan]),
    "exact": ([True, False], ["yes", None, 1]),
    "bandwidth": (["auto", 0.1, 1.0, 2, np.float32(4.0), 100.0], [1e-12, 1e12, *NUMBERS]),
    "standardize": ([True, False], ["yes", None, 2, np.True_]),
    "penalty": (["loo", 1e-3, 1.0], [1e-12, 1e12, "validation", "cv", *NUMBERS]),
    "weight_var": (["evidence", 1.0, 100.0], [1e-12, 1e12, "loo", *NUMBERS]),
    "prior_scale": (["loo", 1.0], [1e-12, 1e12, "evidence", *NUMBERS]),
    "covariance_floor": ([1e-3, 0.1], [1e-12, 1e12, *NUMBERS]),
    "prior": (["kernel", "convolved", "learnt"], ["flat", None, 1]),
    "sampling": (["auto", 0, 0.5, 1.0], ["often", 2.0, -1, None, np.nan, "", [1.0], 1j]),
    "size": (["auto", False], ["no", None, 3]),
    "spread": (["auto", False], ["no", None, 3]),
    "support": (
        [None, (-1e9, 1e9)],
        [(0, 1), (1, 0), (0, np.inf), (np.nan, 1), "ab", (0,), 5, (-np.inf, np.inf), ("a", "b")],
    ),
    "second_level": (["linear", "gaussian"], ["rbf", None]),
    "second_scale": ([0.5, 1.0, 2.0], [1e-12, 1e12, *NUMBERS]),
    "class_weight": ([None, "balanced"], ["equal", {"a": 1.0}, {}, 1.0, {7: 1e300, -3: 1e-300}]),
    "random_state": ([0, 1, None, np.random.RandomState(0)], [-1, "x", 1.5, 2**70]),
    "priors": ([None, Priors()], ["wide", 1.0]),
}  # fmt: skip


# By default every model tries bandwidths with up to a hundred landmarks, and a process kernels and
# more, and averages over its scales. That takes most of the time: there can be more cases if nine
# of ten have something cheaper, and the tenth is left as it is.
P_THRIFT = 0.9
THRIFTY = {
    "kernel": ["rbf", "linear", "matern32", "additive-rbf"],
    "n_landmarks": [2, 5, 10],
    "bandwidth": [0.5, 1.0, 2.0],
    "prior": ["kernel", "learnt"],
    "center": [True, False],
}


def thrift(trial):
    """Return cheap values of parameters, or none; all else is drawn as if this were not there."""
    own = np.random.default_rng([KINDS.index(trial.kind), trial.number, 1])
    if own.random() > P_THRIFT:
        return {}
    return {name: options[own.integers(len(options))] for name, options in THRIFTY.items()}


def cheapened(model, cheap):
    """Return cheap values of what a model chooses by itself, by the names of its parameters."""
    found = {}
    for full, default in model.get_params().items():
        value = cheap.get(full.removeprefix("embedding__"))
        if default == "auto" and value is not None:
            found[full] = value
    return found


def estimator(trial, names):
    """Draw an estimator, most of whose parameters are as they are by default."""
    cls = getattr(bagwise, trial.draw("model", names))
    model = cls(bagwise.FourierEmbedding()) if trial.chance(0.1) else cls()
    known = model.get_params()
    settings = {}
    if "inference" in known:
        of_process = known["inference"] in ("auto", "evidence")
        good = ["auto", "evidence"] if of_process else ["map", "laplace"]
        settings["inference"] = trial.draw("inference", good, ["mcmc", None, 1], 0.03)
        if trial.chance(0.003 if of_process else 0.015):  # of a process it takes fifteen seconds
            settings["inference"] = NUTS(chains=1, draws=20, warmup=20, progress=False)
    for name, (good, odd) in PARAMETERS.items():
        for full in {name, f"embedding__{name}"} & known.keys():
            if trial.chance(0.25):
                value = trial.draw(full, good, odd, 0.15)
                settings[full] = value() if isinstance(value, FunctionType) else value
    cheap = cheapened(model, thrift(trial))
    if cheap and settings.get("inference") == "auto":
        settings["inference"] = "evidence"
    model.set_params(**cheap | settings)
    trial.drawn.append(f"to save time: {cheap}")
    return model
