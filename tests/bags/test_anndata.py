"""Bags of cells from AnnData, against loops over the donors; most with a stand-in, for speed.

anndata holds pandas below version 3, so it is no part of the test environment: where it is
installed, the same tests run with the real one, and files are read.
"""

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from bagwise import Bags
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

RNG = np.random.default_rng(0)
N, GENES = 40, [f"gene {j}" for j in range(5)]
DONORS = np.array(["d2", "d0", "d1", "d3"])
DONOR = np.r_[DONORS, RNG.choice(DONORS, N - 4)]
AGE = {"d0": 40.0, "d1": 50.0, "d2": 60.0, "d3": 70.0}
COUNTS = RNG.poisson(1.0, (N, 5)).astype(np.float32)
PCA = RNG.normal(size=(N, 3))


def obs():
    frame = pd.DataFrame({"donor": pd.Categorical(DONOR), "w": np.arange(N) + 1.0})
    frame["age"] = [AGE[donor] for donor in DONOR]
    frame["sex"] = pd.Categorical(np.where(frame["age"] > 45, "f", "m"))
    frame["status"] = np.where(frame["age"] > 55, "ill", "well")
    frame.index = pd.Index([f"cell{i}" for i in range(N)], dtype=object)
    return frame


def stand_in(X=COUNTS, frame=None, var_names=GENES):
    obsm = {"X_pca": PCA, "umap": pd.DataFrame(PCA[:, :2], columns=["u", "v"])}
    frame = obs() if frame is None else frame
    return SimpleNamespace(
        X=X, obs=frame, obsm=obsm, layers={"log": sp.csr_matrix(np.log1p(COUNTS))},
        var_names=pd.Index(var_names),
    )  # fmt: skip


def installed():
    """anndata, if it is there with a pandas that it knows."""
    if pd.__version__ >= "3":
        pytest.skip("anndata does not know pandas 3")
    return pytest.importorskip("anndata")


def real(X=COUNTS, frame=None, var_names=GENES):
    anndata = installed()
    fake = stand_in(X, frame, var_names)
    var = pd.DataFrame(index=pd.Index(var_names, dtype=object))
    made = anndata.AnnData(X=fake.X, obs=fake.obs, var=var, layers=fake.layers)
    for name, matrix in fake.obsm.items():
        frame = isinstance(matrix, pd.DataFrame)
        made.obsm[name] = matrix.set_axis(fake.obs.index) if frame else matrix
    return made


makers = pytest.mark.parametrize("make", [stand_in, real])


def check(bags, matrix):
    assert bags.ids.tolist() == DONORS.tolist()
    for donor in DONORS:
        assert_array_equal(bags[str(donor)], matrix[donor == DONOR])


@makers
@pytest.mark.parametrize("X", [COUNTS, sp.csr_matrix(COUNTS), sp.csc_matrix(COUNTS)], ids=type)
def test_points_are_cells(make, X):
    adata = make(X)
    bags = Bags.from_anndata(adata, bag="donor")
    check(bags, COUNTS)
    assert bags.feature_names == tuple(GENES)
    check(Bags.from_anndata(adata, bag="donor", use_rep="X"), COUNTS)
    check(Bags.from_anndata(adata, bag="donor", layer="log"), np.log1p(COUNTS))
    pca = Bags.from_anndata(adata, bag="donor", use_rep="X_pca")
    check(pca, PCA)
    assert pca.feature_names == ("X_pca_0", "X_pca_1", "X_pca_2")
    umap = Bags.from_anndata(adata, bag="donor", use_rep="umap")
    check(umap, PCA[:, :2])
    assert umap.feature_names == ("u", "v")


@makers
def test_labels_covariates_and_weights(make):
    options = {"bag": "donor", "use_rep": "X_pca", "weights": "w"}
    bags, y = Bags.from_anndata(
        make(), label="status", covariates=["age", "sex"], one_hot="sex", **options
    )
    assert y.tolist() == ["ill" if AGE[donor] > 55 else "well" for donor in DONORS]
    assert bags.covariate_names == ("age", "sex=f", "sex=m")
    assert_array_equal(bags.covariates[:, 0], [AGE[donor] for donor in DONORS])
    first = np.flatnonzero(DONOR == "d2")
    assert_array_equal(bags.weights[: len(first)], first + 1.0)
    table = pd.DataFrame({"donor": DONORS[::-1], "response": [1.0, 2.0, 3.0, 4.0]})
    _, y = Bags.from_anndata(make(), label="response", labels=table, **options)
    assert y.tolist() == [4.0, 3.0, 2.0, 1.0]
    several = Bags.from_anndata(make(), bag=["donor", "sex"], use_rep="X_pca")
    assert several["d0", "m"].tolist() == PCA[DONOR == "d0"].tolist()


@makers
def test_the_same_as_from_a_frame(make):
    frame = obs().reset_index(drop=True).assign(**{f"X_pca_{j}": PCA[:, j] for j in range(3)})
    names = [f"X_pca_{j}" for j in range(3)]
    roles = {"bag": "donor", "label": "age", "weights": "w"}
    expected, y = Bags.from_frame(frame, features=names, **roles)
    found, z = Bags.from_anndata(make(), use_rep="X_pca", **roles)
    assert_array_equal(y, z)
    for name in ("points", "offsets", "ids", "weights"):
        assert_array_equal(getattr(found, name), getattr(expected, name))


@makers
def test_missing_values_go_as_in_a_frame(make):
    frame = obs()
    frame.loc["cell5", "donor"] = np.nan
    frame.loc["cell6", "age"] = np.nan
    roles = {"bag": "donor", "label": "age", "use_rep": "X_pca"}
    with pytest.raises((InvalidBagsError, InvalidLabelsError), match="missing"):
        Bags.from_anndata(make(frame=frame), **roles)
    with pytest.warns(UserWarning, match="2 of 40 rows"):
        bags, _ = Bags.from_anndata(make(frame=frame), missing="drop", **roles)
    assert bags.n_points == N - 2
    holes = COUNTS.copy()
    holes[3, 1] = np.nan
    with pytest.raises(InvalidBagsError, match="gene 1"):
        Bags.from_anndata(make(holes), bag="donor")


@makers
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bag": "patient"}, r"obs has no column 'patient'; expected one of its columns: 'donor'"),
        ({"use_rep": "pca"}, r"adata\.obsm has no 'pca'; expected one of 'X_pca', 'umap'"),
        ({"layer": "raw"}, r"adata\.layers has no 'raw'; expected one of 'log'"),
        ({"use_rep": "umap", "layer": "log"}, "use_rep is 'umap' and layer is 'log'; expected one"),
        ({"label": "w"}, "label column 'w' changes within bag 'd2'"),
        ({"covariates": ["w"]}, "covariate column 'w' changes within bag 'd2'"),
    ],
    ids=["bag", "rep", "layer", "both", "label", "covariate"],
)
def test_what_is_not_there(make, options, message):
    with pytest.raises(BagwiseError, match=message):
        Bags.from_anndata(make(), **({"bag": "donor"} | options))


def test_names_that_are_not_one_thing():
    names = [*GENES[:4], "gene 0"]
    with pytest.raises(InvalidBagsError, match=r"'gene 0' more than once.*names_make_unique"):
        Bags.from_anndata(stand_in(var_names=names), bag="donor")
    with pytest.raises(InvalidBagsError, match="'age' is the name of a feature and of a column"):
        Bags.from_anndata(stand_in(var_names=[*GENES[:4], "age"]), bag="donor", label="age")
    with pytest.raises(InvalidBagsError, match=r"X is empty.*use_rep=, of 'X_pca', 'umap'"):
        Bags.from_anndata(stand_in(X=None), bag="donor")
    with pytest.raises(InvalidBagsError, match="got a DataFrame; expected an AnnData"):
        Bags.from_anndata(obs(), bag="donor")


def test_files_need_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(BagwiseError, match=r'pip install "bagwise\[anndata\]"'):
        Bags.from_anndata("cells.h5ad", bag="donor")


@pytest.mark.parametrize("X", [COUNTS, sp.csr_matrix(COUNTS)], ids=["dense", "sparse"])
def test_files_and_what_is_backed_by_them(tmp_path, X):
    anndata = installed()
    path = tmp_path / "cells.h5ad"
    real(X).write_h5ad(path)
    backed = anndata.read_h5ad(path, backed="r")
    for source in (path, str(path), backed, anndata.read_h5ad(path)):
        check(Bags.from_anndata(source, bag="donor"), COUNTS)
        check(Bags.from_anndata(source, bag="donor", use_rep="X_pca"), PCA)
        check(Bags.from_anndata(source, bag="donor", layer="log"), np.log1p(COUNTS))
    backed.file.close()
