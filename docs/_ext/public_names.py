"""Public names: which there are, by which path users write them, and what of them is shown."""

from __future__ import annotations

import inspect
from functools import cache
from importlib import import_module
from typing import Any

import bagwise

NAMESPACES = (
    "datasets",
    "engines",
    "exceptions",
    "inference",
    "kernels",
    "metrics",
    "plots",
    "pointwise",
    "report",
    "scorers",
    "selection",
)

# What public functions return: each has a page, by the path of its module.
RETURNED = (
    "bags.bags.BagStream",
    "embedding.running.RunningSums",
    "estimators.explanation.Explanation",
    "predictions.bounded.BoundedPrediction",
    "predictions.classes.ClassPrediction",
    "predictions.classes.ManyClassPrediction",
    "predictions.conformal.ConformalPrediction",
    "predictions.counts.CountPrediction",
    "predictions.joined.JoinedPrediction",
    "predictions.linked.PositivePrediction",
    "predictions.mixture.MixturePrediction",
    "predictions.parts.VarianceParts",
    "predictions.student.StudentPrediction",
)

# What models, embeddings and bags need of each other. No user has to call these.
AMONG_THEMSELVES = {
    "fit_pooled",
    "has_shared_features",
    "make_task",
    "pooled",
    "predict_stats",
    "candidates",
    "count",
    "prepare",
    "reduced",
    "scales",
    "batches",
    "map_parts",
    "from_latent",
    "frequencies",
    "spread",
    "needs_covariance",
    "quick_inferences",
    "n_candidates",
}


def public_names() -> dict[str, Any]:
    """Return everything public, by the path under ``bagwise`` that users write."""
    found = {name: getattr(bagwise, name) for name in bagwise.__all__}
    for namespace in NAMESPACES:
        module = getattr(bagwise, namespace)
        found |= {f"{namespace}.{name}": getattr(module, name) for name in module.__all__}
    return found


def is_shown(name: str, thing: Any) -> bool:
    """Return whether a member of a class has a place in its page."""
    if name.startswith("_") or name in AMONG_THEMSELVES or name.startswith("set_"):
        return False
    thing = inspect.unwrap(getattr(thing, "fget", None) or getattr(thing, "__func__", thing))
    home = getattr(thing, "__module__", None)
    return home is None or home.startswith("bagwise")


def returned() -> dict[str, Any]:
    """Return the classes of what public functions return, by path."""
    return {path: _import(f"bagwise.{path}") for path in RETURNED}


def _import(path: str) -> Any:
    """Return what has this path, or None."""
    module, rest = path, ""
    while module:
        try:
            found: Any = import_module(module)
        except ImportError:
            module, _, last = module.rpartition(".")
            rest = f"{last}.{rest}".rstrip(".")
            continue
        for name in rest.split(".") if rest else ():
            found = getattr(found, name, None)
        return found
    return None


def exists(path: str) -> bool:
    """Return whether the package has something of this path."""
    return path.startswith("bagwise") and _import(path) is not None


@cache
def _homes() -> dict[str, str]:
    """Return the public path of each name, by the module that holds it."""
    homes = {}
    for name, thing in public_names().items():
        module = getattr(thing, "__module__", "") or ""
        called = getattr(thing, "__qualname__", None)
        if module.startswith("bagwise") and called:
            homes.setdefault(f"{module}.{called}", f"bagwise.{name}")
            homes.setdefault(called, f"bagwise.{name}")
    for path in RETURNED:
        homes[path.rpartition(".")[2]] = f"bagwise.{path}"
    for namespace in NAMESPACES:
        homes[getattr(bagwise, namespace).__name__] = f"bagwise.{namespace}"
    return homes


def public_home(target: str) -> str | None:
    """Return the public path of what a docstring names otherwise, or None."""
    homes = _homes()
    if target in homes:
        return homes[target]
    owner, _, member = target.rpartition(".")
    return f"{homes[owner]}.{member}" if owner in homes else None
