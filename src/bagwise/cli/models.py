"""Models by the short names that the command line has for them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any

import numpy as np

from bagwise.exceptions import BagwiseError, InvalidLabelsError


class ModelName(StrEnum):
    """The models: a Gaussian process, and those of the paper."""

    GP = "gp"
    SHRINKAGE = "shrinkage"
    SHRINKAGE_C = "shrinkage-c"
    BDR = "bdr"
    BLR = "blr"
    FREQ_SHRINKAGE = "freq-shrinkage"
    RBF = "rbf"
    KERNEL_RIDGE = "kernel-ridge"


# The estimator of each name: for labels that are numbers, and for classes.
REGRESSORS = {
    ModelName.GP: ("DistributionGPRegressor", {}),
    ModelName.SHRINKAGE: ("ShrinkageRegressor", {}),
    ModelName.SHRINKAGE_C: ("ShrinkageRegressor", {"prior": "convolved"}),
    ModelName.BDR: ("BDRRegressor", {}),
    ModelName.BLR: ("BayesianLinearRegressor", {}),
    ModelName.FREQ_SHRINKAGE: ("FrequentistShrinkageRegressor", {}),
    ModelName.RBF: ("RBFNetworkRegressor", {}),
    ModelName.KERNEL_RIDGE: ("MeanEmbeddingRidge", {}),
}
CLASSIFIERS = {
    ModelName.GP: ("DistributionGPClassifier", {}),
    ModelName.SHRINKAGE: ("ShrinkageClassifier", {}),
    ModelName.SHRINKAGE_C: ("ShrinkageClassifier", {"prior": "convolved"}),
    ModelName.BDR: ("BDRClassifier", {}),
    ModelName.BLR: ("BayesianLogisticClassifier", {}),
}

EMBEDDINGS = {"kernel": "KernelEmbedding", "fourier": "FourierEmbedding"}

# Parameters of the calibration that --set takes along with --conformal.
CONFORMAL = ("method", "cv", "scale", "by_size", "target_sizes", "symmetric")

# Parameters that --set does not take: the seed is --seed, and what an embedding returns on its own
# does not concern a model.
NOT_SET = ("random_state", "output")


def estimator(
    name: ModelName,
    *,
    classes: bool,
    settings: Sequence[str],
    seed: int,
    also: Sequence[str] = (),
) -> Any:
    """Return the estimator of a name, with ``parameter=value`` settings, not yet fitted.

    ``also`` are parameters of something else, which an error names too.

    Examples
    --------
    >>> estimator(ModelName.SHRINKAGE, classes=False, settings=["n_landmarks=30"], seed=1)
    ShrinkageRegressor(embedding=KernelEmbedding(n_landmarks=30, random_state=1))
    """
    import bagwise

    table = CLASSIFIERS if classes else REGRESSORS
    if name not in table:
        raise BagwiseError.because(
            f"there is no model {name.value!r} for classes",
            f"one of {', '.join(known.value for known in table)}",
            "Choose another --model; or, if the labels are numbers, add --task numbers.",
        )
    class_name, preset = table[name]
    model = getattr(bagwise, class_name)(**preset).set_params(embedding__random_state=seed)
    if "random_state" in model.get_params(deep=False):
        model.set_params(random_state=seed)
    return _with_settings(model, dict(map(_setting, settings)), also)


def of_conformal(settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return those of the settings that are of the calibration, and the others as they were.

    Examples
    --------
    >>> of_conformal(["method=split", "n_landmarks=30", "by_size=3"])
    ({'method': 'split', 'by_size': 3}, ['n_landmarks=30'])
    """
    mine = [text for text in settings if _setting(text)[0] in CONFORMAL]
    return dict(map(_setting, mine)), [text for text in settings if text not in mine]


def _setting(text: str) -> tuple[str, Any]:
    """Split ``parameter=value``; the value is a number, True, False, None or a word."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise BagwiseError.because(
            f"--set has {text!r}", "parameter=value", "For example --set n_landmarks=90."
        )
    try:
        return name.strip(), ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name.strip(), value.strip()


def _with_settings(model: Any, settings: dict[str, Any], also: Sequence[str]) -> Any:
    """Set parameters of the model and its embedding; those of the sampler go to NUTS."""
    from bagwise.estimators.embeddings import qualified  # brings scikit-learn

    if "embedding" in settings:
        model.set_params(embedding=_embedding(settings.pop("embedding"), model.embedding))
    names = [name.removeprefix("embedding__") for name in model.get_params()]
    known = [name for name in dict.fromkeys(names) if name not in NOT_SET]
    settings = {name.removeprefix("embedding__"): value for name, value in settings.items()}
    sampler: dict[str, Any] = {}
    if "inference" in known:
        from bagwise.inference import NUTS

        of_nuts = [field.name for field in fields(NUTS)]
        sampler = {name: settings.pop(name) for name in of_nuts if name in settings}
        known += of_nuts
    unknown = [name for name in settings if name not in known]
    if unknown:
        raise BagwiseError.because(
            f"--set has {unknown[0]!r}, which {type(model).__name__} does not know",
            f"one of {', '.join([*known, *also])}",
            "Check the spelling."
            if unknown[0] not in CONFORMAL
            else "It is of the calibration: add --conformal.",
        )
    model.set_params(**qualified(model, settings))
    if sampler:
        if model.inference != "nuts":
            raise BagwiseError.because(
                f"--set has {next(iter(sampler))!r} with inference={model.inference!r}",
                "inference=nuts, which alone samples",
                "Leave one of the two out.",
            )
        model.set_params(inference=NUTS(**sampler))
    return model


def _embedding(name: Any, default: Any) -> Any:
    """Return the embedding of a name, with the bandwidth and the seed of another."""
    import bagwise

    if str(name) not in EMBEDDINGS:
        raise BagwiseError.because(
            f"--set has embedding={name}", " or ".join(EMBEDDINGS), "Check the spelling."
        )
    cls = getattr(bagwise, EMBEDDINGS[name])
    return cls(bandwidth=default.bandwidth, random_state=default.random_state)


def are_classes(labels: np.ndarray, task: str) -> bool:
    """Whether labels are classes: if so said, or if they are no numbers, or two numbers."""
    numeric = labels.dtype.kind in "fiu"
    if task == "numbers":
        if not numeric:
            raise InvalidLabelsError.because(
                f"the labels are {labels.dtype.name}, such as {labels[0]!r}",
                "numbers, as --task numbers says",
                "Use --task classes, or another --label.",
            )
        return False
    return task == "classes" or not numeric or len(np.unique(labels)) == 2
