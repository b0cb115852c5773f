"""Cell: one method on one setting of a study, tuned, fitted and scored."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

import bagwise
from bagwise.datasets import (
    FacesExperiment,
    bayes_optimal,
    cnn_baseline,
    load_imdb_wiki,
    make_gamma,
)
from bagwise.datasets.gamma import LARGE_SIZE, GammaExperiment
from bagwise.estimators.embeddings import qualified
from bagwise.estimators.selection import FeatureCache, tune
from bagwise.inference import NUTS, Training
from bagwise.predictions.metrics import mse, nll
from bagwise.reproduce.study import NOT_FITTED, Method, Study

# Levels of the intervals that are kept.
LEVELS = (0.5, 0.8, 0.95)

PACKAGES = ("bagwise", "numpy", "scipy", "scikit-learn", "jax", "numpyro")


@dataclass(frozen=True, eq=False)
class Cell:
    """What is kept of one method on one setting.

    Attributes
    ----------
    study, setting, method : which cell it is
    scores : "mse", "nll" and "validation", by which it was chosen
    params : that were chosen
    seconds : "tune" and "predict"
    record : versions, machine and date
    labels, sizes : (n,) of the test bags
    mean, std : (n,) of the predictions;  log_prob : (n,) at the labels
    intervals : (levels, n, 2)
    spectrum : (d,), ηλ of the shrinkage basis, empty for models without one
    """

    study: str
    setting: int
    method: str
    scores: Mapping[str, float]
    params: Mapping[str, Any]
    seconds: Mapping[str, float]
    record: Mapping[str, str]
    labels: np.ndarray
    sizes: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    log_prob: np.ndarray
    intervals: np.ndarray
    spectrum: np.ndarray


def load_data(study: Study, setting: int) -> GammaExperiment | FacesExperiment:
    """Return the data of one setting."""
    if study.data == "imdb-wiki":
        return load_imdb_wiki(study.folder).split(setting)
    if study.data == "gamma-varying":
        return make_gamma(percent_small=setting, n_bags=study.n_bags)
    return make_gamma(setting, noise_sd=1.0, fixed_size=LARGE_SIZE, n_bags=study.n_bags)


def compute(study: Study, setting: int, method: str, data: Any, cache: FeatureCache) -> Cell:
    """Choose on the validation bags, fit to the training bags, score on the test bags."""
    start = time.perf_counter()
    chosen = study.methods[method]
    if chosen.model in NOT_FITTED:
        fitted, params, validation = None, {}, float("nan")
    else:
        found = tune(
            estimator_of(chosen, study.sampler),
            data.train.bags,
            data.train.labels,
            validation=(data.validation.bags, data.validation.labels),
            grid=chosen.grid,
            metric=chosen.choose_by,
            cache=cache,
            progress=False,
        )
        params = {name.removeprefix("embedding__"): found.params[name] for name in found.params}
        params = dict(sorted(params.items()))
        fitted, validation = found.estimator, found.score
    fit_seconds = time.perf_counter() - start
    start = time.perf_counter()
    prediction = predict(chosen, fitted, data)
    y = data.test.labels
    intervals = np.stack([prediction.interval(level) for level in LEVELS])
    return Cell(
        study=study.name,
        setting=setting,
        method=method,
        scores={"mse": mse(prediction, y), "nll": nll(prediction, y), "validation": validation},
        params=params,
        seconds={"tune": fit_seconds, "predict": time.perf_counter() - start},
        record=provenance(),
        labels=y,
        sizes=np.asarray(data.test.bags.sizes),
        mean=prediction.mean,
        std=prediction.std,
        log_prob=prediction.log_prob(y),
        intervals=intervals,
        spectrum=spectrum_of(fitted),
    )


def predict(method: Method, fitted: Any, data: Any) -> Any:
    """Predict the test bags, with a fitted model or without."""
    if method.model == "optimal":
        return bayes_optimal(data.test.bags, noise_sd=data.noise_sd)
    if method.model == "cnn":
        return cnn_baseline(data.train, data.test)
    return fitted.predict_dist(data.test.bags)


def estimator_of(method: Method, sampler: Mapping[str, Any]) -> Any:
    """Return the estimator, with one thread for its chains: cells run side by side."""
    estimator = getattr(bagwise, method.model)()
    params = dict(method.params)
    if isinstance(params.get("learn"), dict):
        params["learn"] = Training(**params["learn"])
    estimator.set_params(**qualified(estimator, params))
    if estimator.get_params().get("inference") == "nuts":
        estimator.set_params(inference=NUTS(**sampler, n_jobs=1, progress=False))
    return estimator


def spectrum_of(estimator: Any) -> np.ndarray:
    """Return ηλ, largest first, of a model that shrinks embeddings."""
    model = getattr(getattr(estimator, "head_", None), "model", None)
    if model is None or not model.shrinks:
        return np.zeros(0)
    return np.sort(estimator.prior_scale_ * model.spectrum)[::-1]


def provenance() -> dict[str, str]:
    """Return versions, machine and date."""
    versions = {package: version(package) for package in PACKAGES}
    return versions | {
        "python": platform.python_version(),
        "machine": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    }
