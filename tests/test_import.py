"""Importing bagwise is quick and changes nothing: no heavy module, no setting of anyone's.

Everything runs in a fresh interpreter, as this one has imported far too much already.
"""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import bagwise

SOURCE = str(Path(bagwise.__file__).parents[1])
MAX_SECONDS = 1.0
MAX_NAMES = 27

# Modules that nobody should wait for who only wants to see the version.
HEAVY = ("jax", "numpyro", "pandas", "polars", "matplotlib", "sklearn", "scipy", "pyarrow")

FIT = """
import numpy as np
rng = np.random.default_rng(0)
y = rng.uniform(1, 2, 20)
bags = [rng.normal(0, s, (10, 1)) for s in y]
bagwise.ShrinkageRegressor(bagwise.KernelEmbedding(5)).fit(bags, y).predict_dist(bags).interval(0.9)
bagwise.BayesianLinearRegressor(bagwise.KernelEmbedding(5)).fit(bags, y).predict(bags)
"""


def run(code):
    """Run code in a fresh interpreter; return what it prints, which must be JSON."""
    path = os.pathsep.join([SOURCE, os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_is_quick():
    code = """
import json, time
start = time.perf_counter()
import bagwise
print(json.dumps(time.perf_counter() - start))
"""
    assert min(run(code) for _ in range(3)) < MAX_SECONDS


@cache
def told():
    """What a fresh interpreter has after the import, after asking for names, and after a fit."""
    return run(f"""
import json, sys
import bagwise
told = {{"imported": sorted(sys.modules), "listed": dir(bagwise), "all": bagwise.__all__}}
submodules = [bagwise.kernels, bagwise.metrics, bagwise.datasets]
told["submodules"] = [module.__name__ for module in submodules]
told["resolved"] = [name for name in bagwise.__all__ if getattr(bagwise, name) is not None]
space = {{}}
exec("from bagwise import *", space)
told["star"] = sorted(name for name in space if not name.startswith("_"))
{FIT}
told["fitted"] = sorted(sys.modules)
print(json.dumps(told))
""")


def test_import_brings_no_heavy_module():
    assert [name for name in told()["imported"] if name.split(".")[0] in HEAVY] == []


def test_every_public_name_resolves_and_is_listed():
    assert told()["resolved"] == told()["all"]
    assert set(told()["all"]) <= set(told()["listed"])


def test_from_bagwise_import_star():
    assert told()["star"] == sorted(bagwise.__all__)


def test_submodules_come_when_asked_for():
    expected = ["bagwise.features.kernels", "bagwise.predictions.metrics", "bagwise.datasets"]
    assert told()["submodules"] == expected


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'bagwise' has no attribute 'Bag'"):
        _ = bagwise.Bag


def test_few_public_names():
    assert len(bagwise.__all__) <= MAX_NAMES
    assert len(set(bagwise.__all__)) == len(bagwise.__all__)
    assert sorted(bagwise.__all__) == bagwise.__all__
    assert all(getattr(bagwise, name).__doc__ for name in bagwise.__all__)


def test_fitting_brings_neither_jax_nor_pictures():
    loaded = {name.split(".")[0] for name in told()["fitted"]}
    assert loaded.isdisjoint({"jax", "numpyro", "matplotlib"})


def test_fitting_and_learning_leave_the_settings_of_jax_alone():
    code = f"""
import json, jax, warnings
before = dict(jax.config.values)
import bagwise
from bagwise.inference import Training
for name in bagwise.__all__:
    getattr(bagwise, name)
{FIT}
precision = [before["jax_enable_x64"], jax.config.jax_enable_x64]
warnings.simplefilter("ignore")
kinds = []
for precise in ("float64", "float32"):
    learn = Training("ard", epochs=2, precision=precise)
    embedding = bagwise.KernelEmbedding(3, bandwidth=1.0, learn=learn)
    model = bagwise.RBFNetworkRegressor(embedding).fit(bags, y)
    kinds.append(str(model.features_.landmarks.dtype))
changed = [name for name, value in jax.config.values.items() if before.get(name, value) != value]
print(json.dumps([precision, changed, str(jax.numpy.ones(1).dtype), kinds]))
"""
    precision, *after = run(code)
    assert precision[0] == precision[1]
    assert after == [[], "float32", ["float64", "float64"]]
