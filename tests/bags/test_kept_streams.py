"""Rows of short files that a stream keeps: to the last bit what reading the file again finds."""

import pickle

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal

import stream_files
from bagwise.bags.bags import Bags
from bagwise.bags.tables import reader
from bagwise.embedding.sums import summarise
from bagwise.estimators.embeddings import KernelEmbedding
from bagwise.estimators.regressors import ShrinkageRegressor
from bagwise.exceptions import InvalidBagsError

pytestmark = pytest.mark.usefixtures("kept_streams")

OPTIONS = {"bag": "bag", "features": ["x", "z"], "label": "y", "batch_rows": 101}


@pytest.fixture
def path(tmp_path):
    return stream_files.write(tmp_path / "points.parquet", stream_files.table())


def both(path, monkeypatch, **options):
    """Bags whose rows are kept, and bags whose file is read in every pass."""
    kept, y = Bags.scan_parquet(path, **OPTIONS | options)
    with monkeypatch.context() as patch:
        patch.setattr(reader, "KEPT_BYTES", 0)
        read, same = Bags.scan_parquet(path, **OPTIONS | options)
    assert_array_equal(y, same)
    assert kept._kept is not None and read._kept is None
    return kept, read, y


def assert_same_passes(one, other):
    for left, right in zip(one.batches(), other.batches(), strict=True):
        for name in ("points", "shares", "bags", "starts", "seen"):
            assert_array_equal(getattr(left, name), getattr(right, name))
    rows = np.random.default_rng(0).permutation(one.n_points)[:50]
    for left, right in zip(one.rows_at(rows), other.rows_at(rows), strict=True):
        assert_array_equal(left, right)


@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("bag", ["bag", "number", ["number", "wide"]])
def test_passes_find_the_same_rows_in_the_same_order(path, monkeypatch, bag, weights):
    kept, read, _ = both(path, monkeypatch, bag=bag, weights=weights)
    assert_same_passes(kept, read)
    some = np.random.default_rng(1).permutation(kept.n_bags)[:25]
    assert_same_passes(kept[some], read[some])
    assert_same_passes(kept[some][::-2], read[some][::-2])
    none_of_the_first = np.setdiff1d(np.arange(kept.n_bags), next(kept.batches()).bags)
    if len(none_of_the_first):
        assert_same_passes(kept[none_of_the_first], read[none_of_the_first])


def test_rows_without_values_and_bags_without_labels(tmp_path, monkeypatch):
    rows = stream_files.with_gaps(stream_files.table(), "x", [3, 500])
    path = stream_files.write(tmp_path / "points.parquet", rows)
    for missing in ("drop", "impute"):
        with pytest.warns(UserWarning, match="2 .*missing values"):
            kept, read, _ = both(path, monkeypatch, missing=missing)
        assert_same_passes(kept, read)
    few = pa.table({"bag": [f"bag {i:02}" for i in range(20)], "y": np.arange(20.0)})
    rows = stream_files.write(tmp_path / "others.parquet", stream_files.table().drop(["y"]))
    with pytest.warns(UserWarning, match="20 bags"):
        kept, read, _ = both(rows, monkeypatch, labels=few)
    assert_same_passes(kept, read)


def test_fits_and_predictions_are_the_same_to_the_last_bit(path, monkeypatch):
    kept, read, y = both(path, monkeypatch)
    one, other = (ShrinkageRegressor(KernelEmbedding(8)).fit(bags, y) for bags in (kept, read))
    assert_array_equal(one.predict(kept), other.predict(read))
    pooled = [summarise(bags, one.features_) for bags in (kept, read)]
    assert_array_equal(pooled[0].mean, pooled[1].mean)
    assert_array_equal(pooled[0].within_cov, pooled[1].within_cov)


def test_a_file_that_goes_away_is_not_missed_but_by_another_process(path):
    bags, _ = Bags.scan_parquet(path, **OPTIONS)
    sent = pickle.loads(pickle.dumps(bags))
    assert bags._kept is not None and sent._kept is None
    assert len(pickle.dumps(bags)) < bags.n_points * bags.n_features * 8
    assert_same_passes(bags, sent)
    stream_files.write(path, stream_files.table(seed=1))
    assert sum(len(batch.points) for batch in bags.batches()) == bags.n_points
    with pytest.raises(InvalidBagsError, match="has changed since it was first read"):
        list(sent.batches())


def test_long_files_are_not_kept(path, monkeypatch):
    monkeypatch.setattr(reader, "KEPT_BYTES", 900 * 2 * 8 - 1)
    assert Bags.scan_parquet(path, **OPTIONS)[0]._kept is None
    monkeypatch.setattr(reader, "KEPT_BYTES", 900 * 2 * 8)
    assert Bags.scan_parquet(path, **OPTIONS)[0]._kept is not None
