"""Models on a Dask cluster of two workers: what one machine gives, and what happens to both."""

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace

import joblib
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import bagwise
from bagwise import Bags, KernelEmbedding
from bagwise._utils.engines import Engine, as_engine
from bagwise._utils.engines.dask import DaskEngine
from bagwise.exceptions import BagwiseError
from bagwise.reproduce.runner import run as reproduce
from bagwise.reproduce.runner import run_setting
from bagwise.reproduce.store import Store
from bagwise.reproduce.study import Study
from cli_runs import bagwise as command
from cli_runs import done, refused

distributed = pytest.importorskip("distributed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("dask"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TWELVE = KernelEmbedding(12, bandwidth=1.0)
MODELS = {
    "network": bagwise.RBFNetworkRegressor(TWELVE),
    "bayesian": bagwise.BayesianLinearRegressor(TWELVE),
    "frequentist": bagwise.FrequentistShrinkageRegressor(TWELVE),
    "shrinkage-auto": bagwise.ShrinkageRegressor(KernelEmbedding(12)),
    "bdr": bagwise.BDRRegressor(TWELVE, inference="laplace"),
    "ridge": bagwise.MeanEmbeddingRidge(TWELVE, exact=False, second_level="gaussian"),
    "gp": bagwise.DistributionGPRegressor(KernelEmbedding(12, kernel="auto"), inference="evidence"),
    "logistic": bagwise.BayesianLogisticClassifier(TWELVE),
    "shrinkage-classes": bagwise.ShrinkageClassifier(TWELVE),
    "bdr-classes": bagwise.BDRClassifier(TWELVE, inference="laplace"),
    "gp-classes": bagwise.DistributionGPClassifier(TWELVE),
}
CLASSES = {name for name, model in MODELS.items() if hasattr(model, "class_weight")}
N_ROWS, N_BAGS = 50_000, 120
MANY_ROWS = 1_000_000
ROLES = {"bag": "bag", "features": ["a", "b"], "covariates": ["age"], "weights": "w"}


def write(path, n_rows=N_ROWS, seed=0):
    """Rows of all bags in any order, so that every bag is spread over all pieces."""
    rng = np.random.default_rng(seed)
    bag = np.concatenate([np.arange(N_BAGS), rng.integers(0, N_BAGS, n_rows - N_BAGS)])
    level = rng.uniform(1, 2, N_BAGS)
    columns = {
        "bag": bag,
        "a": rng.normal(0, level[bag]),
        "b": rng.normal(level[bag], 1.0),
        "w": rng.uniform(0.5, 1.5, n_rows),
        "age": 20.0 + bag,
        "y": level[bag],
        "wide": np.where(level > 1.5, "wide", "narrow")[bag],
    }
    pq.write_table(pa.table(columns), path, row_group_size=5_000)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write(tmp_path_factory.mktemp("rows") / "rows.parquet")


@pytest.fixture(scope="module")
def engine():
    with DaskEngine(workers=2) as started:
        yield started


def scan(path, engine=None, label="y", **more):
    known = {"label": label, "progress": False, "piece_rows": 10_000, **ROLES, **more}
    return Bags.scan_parquet(path, engine=engine, **known)


def assert_same(model, other, X, Z):
    found, expected = model.predict_dist(X), other.predict_dist(Z)
    names = ("proba",) if hasattr(expected, "proba") else ("mean", "std")
    for name in names:
        assert_allclose(getattr(found, name), getattr(expected, name), rtol=1e-10, atol=1e-10)


@pytest.fixture(scope="module")
def streams(path, engine):
    """The same bags far and near, with their labels, by the name of the label."""
    return {label: (scan(path, engine, label), scan(path, None, label)) for label in ("y", "wide")}


# One of each way to fit: sums alone, a search for η, kernels to choose from, classes.
QUICK = {"bayesian", "shrinkage-auto", "gp", "shrinkage-classes"}


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.long] * (n not in QUICK)) for n in MODELS]
)
def test_every_estimator_is_that_of_one_machine(streams, name):
    (far, y), (near, known) = streams["wide" if name in CLASSES else "y"]
    assert len(far._pieces) > 4
    assert_array_equal(y, known)
    model, other = (clone(MODELS[name]).fit(X, y) for X in (far, near))
    assert_same(model, other, far, near)


@pytest.fixture(scope="module")
def long_streams(tmp_path_factory, engine):
    """The same of a million points."""
    path = write(tmp_path_factory.mktemp("rows") / "many.parquet", MANY_ROWS)
    some = {"piece_rows": 100_000}
    return {
        label: (scan(path, engine, label, **some), scan(path, None, label, **some))
        for label in ("y", "wide")
    }


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_a_million_points_on_the_cluster_are_those_of_one_machine(long_streams, name):
    (far, y), (near, known) = long_streams["wide" if name in CLASSES else "y"]
    assert far.n_points == MANY_ROWS and len(far._pieces) == 10
    assert all(len(piece.bags) == N_BAGS for piece in far._pieces)  # all bags in all pieces
    assert_array_equal(y, known)
    model, other = (clone(MODELS[name]).fit(X, y) for X in (far, near))
    assert_same(model, other, far, near)


def test_sums_of_a_cluster_go_on_at_home(streams):
    (far, y), (near, _) = streams["y"]
    model = clone(MODELS["shrinkage-auto"]).fit(near, y)
    sums, expected = model.sums(far, y), model.sums(near, y)
    assert_allclose(sums.sums, expected.sums, rtol=1e-12)
    assert_allclose(sums.scatter, expected.scatter, rtol=1e-9, atol=1e-9)
    assert sums.add(0, [[1.0, 2.0]])


def test_a_dask_data_frame(path, engine, streams):
    dd = pytest.importorskip("dask.dataframe")
    _, (near, known) = streams["y"]
    frame = dd.read_parquet(path, split_row_groups=3)
    bags, y = Bags.from_dask(frame, engine=engine, label="y", progress=False, **ROLES)
    assert_array_equal(y, known)
    assert len(bags._pieces) == frame.npartitions > 2
    with pytest.raises(BagwiseError, match="are with the workers of a cluster"):
        next(bags.batches())
    model, expected = (clone(MODELS["bayesian"]).fit(X, y) for X in (bags, near))
    assert_same(model, expected, bags, near)


def test_folds_grids_and_calibration_by_joblib_on_the_cluster(engine):
    rng = np.random.default_rng(0)
    y = rng.uniform(1, 2, 30)
    bags = Bags.from_list([rng.normal(0, s, (10, 1)) for s in y])
    model = bagwise.BayesianLinearRegressor(KernelEmbedding(8, bandwidth=1.0))

    def run(n_jobs):
        shared = {"cv": 3, "n_jobs": n_jobs}
        folds = bagwise.cross_val_predict_dist(model, bags, y, **shared)
        grid = {"n_landmarks": [3, 6]}
        best = bagwise.tune(model, bags, y, grid=grid, progress=False, **shared)
        sure = bagwise.Conformal(model, method="cv+", **shared).fit(bags, y).predict_dist(bags)
        return folds.mean, [row["score"] for row in best.table], sure.interval(0.9)

    here = run(1)
    with joblib.parallel_config("dask"):
        assert joblib.parallel.get_active_backend()[0].client.id == engine.client.id
        there = run(2)
    for found, expected in zip(there, here, strict=True):
        assert_allclose(found, expected, rtol=1e-10)


def test_folds_and_grids_of_rows_that_lie_with_the_workers(streams):
    (far, y), (near, _) = streams["y"]
    model, found = MODELS["bayesian"], []
    for bags in (far, near):
        folds = bagwise.cross_val_predict_dist(model, bags, y, cv=2)
        grid = bagwise.tune(model, bags, y, grid={"n_landmarks": [3, 6]}, cv=2, progress=False)
        found.append((folds.mean, folds.std, [row["score"] for row in grid.table]))
    for there, here in zip(*found, strict=True):
        assert_allclose(there, here, rtol=1e-10)


STUDY = """
title = "Small"
data = "gamma-varying"
settings = [0, 25]
setting_name = "s5"
setting_text = "percentage of bags with 5 points"
show = 25
[grid]
n_landmarks = [5]
bandwidth = [1.0]
[methods."BLR"]
model = "BayesianLinearRegressor"
"""


def test_a_study_of_the_paper_by_joblib_on_the_cluster(tmp_path, engine, monkeypatch):
    study = replace(Study.parse("gamma-varying", STUDY), n_bags=24)
    here, there = Store(tmp_path / "here"), Store(tmp_path / "there")
    reproduce(study, here, progress=False)
    monkeypatch.setattr("bagwise.reproduce.runner.run_setting", not_called_here)
    with joblib.parallel_config("dask"):
        reproduce(study, there, n_jobs=2, progress=False)
    assert engine.client.id  # the current client, by which joblib has found the workers
    for alone, far in zip(here.cells(study), there.cells(study), strict=True):
        assert_allclose(alone.mean, far.mean, rtol=1e-10)


def not_called_here(study, store, setting, methods):
    """Compute elsewhere, on a machine whose disk is not this one."""
    assert distributed.worker.thread_state.key  # on a worker
    elsewhere = Store(store.folder.with_name("elsewhere"))
    return run_setting(study, elsewhere, setting, methods)


def test_a_worker_that_is_killed_in_the_middle_changes_nothing(path, streams):
    _, (near, y) = streams["y"]
    expected = clone(MODELS["shrinkage-auto"]).fit(near, y)
    with DaskEngine(workers=2) as own:
        far, _ = scan(path, own)
        first, *_ = own.client.run(os.getpid).values()
        killed = []

        class Killing(Engine):
            """Kills a worker when the first pieces of the sums are done."""

            def map(self, work, pieces, title):
                for k, made in enumerate(own.map(work, pieces, title)):
                    if k == 1 and not killed and "pooling" in title:
                        os.kill(first, signal.SIGKILL)
                        killed.append(first)
                    yield made

        object.__setattr__(far._passes, "engine", Killing())
        found = clone(MODELS["shrinkage-auto"]).fit(far, y)
        assert killed
        assert_same(found, expected, far, near)


def scheduler(folder):
    """Start a scheduler and a worker as processes of their own; return them and the address."""
    at = folder / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    shared = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment}
    line = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    line += ["--port", "0", "--no-dashboard", "--scheduler-file", str(at)]
    main = subprocess.Popen(line, **shared)
    for _ in range(300):
        if at.exists():
            break
        time.sleep(0.1)
    line = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(at)]
    line += ["--nthreads", "1", "--no-dashboard", "--no-nanny", "--death-timeout", "5"]
    worker = subprocess.Popen(line, cwd=folder, **shared)
    with distributed.Client(scheduler_file=str(at), set_as_default=False) as client:
        client.wait_for_workers(1, timeout=60)
        return main, worker, client.scheduler.address


def test_a_scheduler_that_is_lost_is_said_and_nothing_is_half_written(tmp_path, monkeypatch):
    main, worker, address = scheduler(tmp_path)
    plain = DaskEngine.map

    def killing(self, work, pieces, title):
        for made in plain(self, work, pieces, title):
            if "pooling" in title:
                main.kill()
            yield made

    try:
        write(tmp_path / "t.parquet")
        line = ("fit", "t.parquet", "--bag", "bag", "--label", "y", "--features", "a,b")
        line += ("--model", "shrinkage", "--set", "n_landmarks=12", "--out", "m.bagwise")
        done(command(*line, "--cluster", address, cwd=tmp_path))
        (tmp_path / "m.bagwise").rename(tmp_path / "first.bagwise")
        monkeypatch.setattr(DaskEngine, "map", killing)
        lost = command(*line, "--cluster", address, cwd=tmp_path)
        refused(lost, "the Dask scheduler at", "is gone", "nothing was written")
        left = {entry.name for entry in tmp_path.iterdir() if "bagwise" in entry.name}
        assert left == {"first.bagwise"}
    finally:
        for process in (main, worker):
            process.kill()
            process.wait()


def test_the_command_with_workers_of_its_own_and_those_of_others(tmp_path, engine):
    address = engine.client.scheduler.address
    write(tmp_path / "t.parquet", 30_000)
    line = ("fit", "t.parquet", "--bag", "bag", "--label", "y", "--features", "a,b")
    line += ("--model", "blr", "--set", "n_landmarks=12", "--set", "bandwidth=1.0")
    done(command(*line, "--out", "near", "--stream", cwd=tmp_path))
    done(command(*line, "--out", "far", "--workers", "2", "--sums", "s", cwd=tmp_path))
    told = [
        done(command("predict", *more, "--json", cwd=tmp_path))["columns"]["mean"]
        for more in (
            ("near", "t.parquet"),
            ("far", "t.parquet", "--cluster", address),
            ("far", "s"),
        )
    ]
    assert_allclose(told[1], told[0], rtol=1e-10)
    assert_allclose(told[2], told[0], rtol=1e-10)
    assert (tmp_path / "far").exists()
    both = (*line, "--out", "x", "--workers", "2")
    refused(command(*both, "--cluster", "tcp://h:1", cwd=tmp_path), "one of the two", code=2)
    refused(command(*both, "--in-memory", cwd=tmp_path), "with points in memory", code=2)


def test_updates_and_reports_by_workers_are_those_of_one_process(tmp_path, engine):
    there = ("--cluster", engine.client.scheduler.address)
    rows = pq.read_table(write(tmp_path / "t.parquet", 20_000))
    pq.write_table(rows.slice(0, 12_000), tmp_path / "first.parquet")
    pq.write_table(rows.slice(12_000), tmp_path / "then.parquet", row_group_size=2000)
    columns = ("--bag", "bag", "--label", "y", "--features", "a,b")
    told = []
    for name, where in (("near", ("--stream",)), ("far", there)):
        sums = ("--sums", f"{name}.sums", "--model", "blr", "--set", "n_landmarks=12")
        done(command("fit", "first.parquet", *columns, "--out", name, *sums, cwd=tmp_path))
        line = ("update", name, f"{name}.sums", "then.parquet", *where, "--json")
        assert done(command(*line, cwd=tmp_path))["points"] == 20_000
        found = done(command("predict", name, f"{name}.sums", "--json", cwd=tmp_path))["columns"]
        told.append(dict(zip(found["bag"], found["mean"], strict=True)))
        page = ("--model", "blr", "--folds", "2", "--out", f"{name}.html", "--json")
        done(command("report", "t.parquet", *columns, *page, *where, cwd=tmp_path))
    assert told[0].keys() == told[1].keys()
    assert_allclose([told[1][bag] for bag in told[0]], list(told[0].values()), rtol=1e-10)
    far, near = ((tmp_path / f"{name}.html").read_text() for name in ("far", "near"))
    number = re.compile(r"\d+(?:\.\d+)?")
    assert number.sub("#", far) == number.sub("#", near)  # and numbers are equal as they are shown
    found, known = (np.array(number.findall(page), float) for page in (far, near))
    assert_allclose(found, known, rtol=1e-6, atol=0.011)


def test_faults_of_a_row_come_from_the_worker_as_they_are(tmp_path, engine):
    rows = pa.table({"bag": np.arange(400) % 7, "x": np.arange(400.0)})
    rows = rows.set_column(1, "x", [np.where(np.arange(400) == 333, np.nan, 1.0)])
    pq.write_table(rows, tmp_path / "t.parquet", row_group_size=50)
    with pytest.raises(BagwiseError, match="row 333"):
        Bags.scan_parquet(tmp_path / "t.parquet", bag="bag", engine=engine, piece_rows=50)


def test_which_cluster(engine, monkeypatch):
    assert bagwise.engines.DaskEngine is DaskEngine
    assert as_engine(engine) is engine
    assert as_engine(engine.client).client is engine.client
    with engine.client.as_current():
        assert as_engine("dask").client is engine.client
    monkeypatch.setattr("bagwise._utils.engines.dask.PATIENCE", 0.5)
    with pytest.raises(BagwiseError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        DaskEngine("tcp://127.0.0.1:9")
    address = engine.client.scheduler.address
    with DaskEngine(address) as other:
        assert list(other.map(abs, [-1, 2], "trying")) == [1, 2]
