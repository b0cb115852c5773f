"""Files of odd shapes and in bad states, read in passes; and the benchmark that measures passes."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stream_files
from bagwise.bags.bags import Bags
from bagwise.bags.tables.read_report import Sample
from bagwise.estimators.mean_embedding import MeanEmbeddingRidge
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError
from benchmarks import bench_stream


def scanned(path, batch_rows=1000, **roles):
    """Bags on disk and in memory, whose points are the same."""
    stream = Bags.scan_parquet(path, **roles, batch_rows=batch_rows)
    bags = Bags.from_parquet(path, **roles)
    assert stream.ids.tolist() == bags.ids.tolist()
    assert_array_equal(stream.rows_at(np.arange(bags.n_points))[0], bags.points)
    return stream


def test_many_small_files_are_read_together(tmp_path):
    folder = stream_files.write(tmp_path / "all", stream_files.table(), files=30)
    stream = scanned(folder, bag="bag", features=["x", "z"])
    assert len(list(stream.batches())) == 1


def test_small_row_groups_and_batches_of_one_row(tmp_path):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table(60), row_group_size=7)
    assert len(list(scanned(path, batch_rows=1, bag="bag", features=["x", "z"]).batches())) == 60


def test_bags_that_are_folders(tmp_path):
    for name in ("ann", "ben", "cid"):
        (tmp_path / f"who={name}").mkdir()
        pq.write_table(pa.table({"x": np.arange(5.0)}), tmp_path / f"who={name}" / "a.parquet")
    scanned(tmp_path, bag="who")
    labels = pa.table({"who": ["ann", "cid", "dan"], "y": [1.0, 2.0, 3.0]})
    with pytest.warns(BagwiseWarning, match=r"without a row in the labels table: 'ben'.*'dan'"):
        stream, y = Bags.scan_parquet(tmp_path, bag="who", label="y", labels=labels)
    assert stream.ids.tolist() == ["ann", "cid"]
    assert y.tolist() == [1.0, 2.0]
    assert stream.sizes.tolist() == [5, 5]


def test_dictionaries_large_strings_and_dots_in_names(tmp_path):
    rows = stream_files.table(200)
    rows = rows.set_column(0, "bag.id", rows["bag"].dictionary_encode())
    rows = rows.append_column("x.1", rows["x"].cast(pa.float32()))
    rows = rows.append_column("text", rows["colour"].cast(pa.large_string()))
    path = stream_files.write(tmp_path / "a.parquet", rows)
    scanned(path, bag="bag.id", features=["x", "x.1", "text"], one_hot="text")
    scanned(path, bag=["text", "bag.id"], features=["x.1"])


def test_faults_are_named_by_the_row_of_the_file_also_if_rows_are_not_used(tmp_path):
    ids = np.arange(300) % 3
    rows = pa.table({"bag": ids, "x": np.where(np.arange(300) == 200, np.inf, 1.0 * ids)})
    path = stream_files.write(tmp_path / "a.parquet", rows)
    labels = pa.table({"bag": [1, 2], "y": [1.0, 2.0]})
    with pytest.raises(InvalidBagsError, match="bag 2, row 200 of the table, column 'x' is inf"):
        Bags.scan_parquet(path, bag="bag", label="y", labels=labels)
    with pytest.warns(BagwiseWarning, match="Left out 2 bags without a row in the labels table"):
        stream, _ = Bags.scan_parquet(path, bag="bag", label="y", labels=labels.slice(0, 1))
    assert stream.sizes.tolist() == [100]
    gappy = stream_files.with_gaps(rows, "bag", [130])
    path = stream_files.write(tmp_path / "b.parquet", gappy)
    with pytest.raises(InvalidBagsError, match="row 130 of the data frame has no bag"):
        Bags.scan_parquet(path, bag="bag", label="y", labels=labels)


def test_counts_in_messages_are_said_to_be_of_what_was_read(tmp_path):
    rows = stream_files.with_gaps(stream_files.table(200), "x", [60, 61, 150])
    path = stream_files.write(tmp_path / "a.parquet", rows)
    with pytest.raises(InvalidBagsError, match="2 missing values so far: 2 in column 'x'"):
        Bags.scan_parquet(path, bag="bag", features=["x"], batch_rows=50)


def test_damaged_and_vanished_files(tmp_path):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    stream = Bags.scan_parquet(path, bag="bag", features=["x", "z"])
    content = bytearray(path.read_bytes())
    content[500:30_000] = b"\xff" * 29_500
    path.write_bytes(content)
    with pytest.raises(BagwiseError, match=r"a\.parquet cannot be read as Parquet"):
        list(stream.batches())
    path.unlink()
    with pytest.raises(BagwiseError, match=r"a\.parquet cannot be read as Parquet"):
        list(stream.batches())


def test_exact_sums_are_refused_before_any_pass(tmp_path, monkeypatch):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    stream, y = Bags.scan_parquet(path, bag="bag", features=["x", "z"], label="y")
    monkeypatch.setattr(type(stream), "batches", None)
    with pytest.raises(InvalidBagsError, match=r"MeanEmbeddingRidge\(exact=False\)"):
        MeanEmbeddingRidge().fit(stream, y)


def test_sample_is_uniform_whatever_the_batches():
    counts = np.zeros(400)
    for seed in range(400):
        sample = Sample(20, np.random.default_rng(seed))
        for start, stop in ((0, 10), (10, 250), (250, 400)):
            sample.add(np.arange(start, stop, dtype=float)[:, None])
        counts[sample.rows()[:, 0].astype(int)] += 1
    assert counts.sum() == 400 * 20
    thirds = [counts[:10].mean(), counts[10:250].mean(), counts[250:].mean()]
    assert_allclose(thirds, 20.0, atol=4.0)


# ---------------------------------------------------------------- the benchmark


def test_points_of_the_benchmark(tmp_path):
    path = tmp_path / "points.parquet"
    bench_stream.write_points(path, 20_000, 50)
    rows = pq.read_table(path)
    ids, labels = rows["bag"].to_numpy(), rows["label"].to_numpy()
    sizes = np.bincount(ids, minlength=50)
    assert len(ids) == 20_000
    assert sizes.min() >= 1
    assert sizes.max() > 20 * sizes.min()
    assert np.count_nonzero(np.diff(ids)) > 15_000
    spread = [rows["x0"].to_numpy()[ids == i].std() for i in np.flatnonzero(sizes > 300)]
    assert_allclose(spread, [labels[ids == i][0] for i in np.flatnonzero(sizes > 300)], rtol=0.2)
    bench_stream.write_points(tmp_path / "again.parquet", 20_000, 50)
    assert pq.read_table(tmp_path / "again.parquet").equals(rows)


def test_benchmark_prints_peak_and_rows_per_second(monkeypatch, capsys):
    def fake(program, path, *others):
        assert pq.read_metadata(path).num_rows == 3000
        return [2.0, 500.0, 3.0] if others else [[1.0, 100.0, 1.5]] * 4

    monkeypatch.setattr(bench_stream, "fresh", fake)
    assert bench_stream.main(["--rows", "3000"]) == 0
    fit = next(
        line for line in capsys.readouterr().out.splitlines() if line.startswith("bagwise fit")
    )
    assert fit.split()[-8:] == ["2.0", "1,500", "500", "3.0", "≤", "2000", "MB", "yes"]
