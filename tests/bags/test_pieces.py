"""A table in pieces: what is merged of them is what one pass over all rows finds."""

import warnings

import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import stream_files
from bagwise import KernelEmbedding
from bagwise._utils.engines import Engine, LocalEngine, as_engine
from bagwise.bags.bags import Bags, BagStream
from bagwise.bags.tables.census import Census
from bagwise.bags.tables.files import Source
from bagwise.embedding.sums import Thrift, summarise
from bagwise.exceptions import BagwiseError, InvalidBagsError, InvalidLabelsError

ALL = {"bag": "bag", "features": ["x", "z"], "label": "y"}


def caught(read, *arguments, **options):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = read(*arguments, **options)
    return result, [str(warning.message) for warning in found]


def assert_same(path, piece_rows=60, **options):
    """Scan a file in pieces and as one: both find the same bags, labels and faults."""
    options |= {"batch_rows": 23, "progress": False}
    parts, mentioned = caught(
        Bags.scan_parquet, path, engine="local", piece_rows=piece_rows, **options
    )
    whole, warned = caught(Bags.scan_parquet, path, **options)
    assert mentioned == warned
    if "label" in options:
        (parts, y), (whole, expected) = parts, whole
        assert_array_equal(y, expected)
        assert y.dtype == expected.dtype
    assert isinstance(parts, BagStream)
    assert len(parts._pieces) > 2
    assert parts.ids.tolist() == whole.ids.tolist()
    assert parts.ids.dtype == whole.ids.dtype
    assert_array_equal(parts.offsets, whole.offsets)
    assert_array_equal(parts.covariates, whole.covariates)
    assert_array_equal(parts.feature_range, whole.feature_range)
    assert_allclose(parts.effective_sizes, whole.effective_sizes, rtol=1e-14)
    assert_allclose(parts.feature_mean, whole.feature_mean, rtol=1e-13, atol=1e-15)
    assert_allclose(parts.feature_std, whole.feature_std, rtol=1e-13)
    rows = np.random.default_rng(0).permutation(whole.n_points)[:50]
    for found, known in zip(parts.rows_at(rows), whole.rows_at(rows), strict=True):
        assert_allclose(found, known, rtol=1e-14)
    return parts, whole


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
@pytest.mark.parametrize("files", [1, 3])
def test_pieces_are_the_whole(tmp_path, order, files):
    rows = stream_files.table(order=order)
    path = stream_files.write(tmp_path / "p.parquet", rows, files=files, row_group_size=20)
    assert_same(path, **ALL, covariates=["age"], weights="w")
    assert_same(path, bag="number", features="x")
    assert_same(path, bag=["number", "wide"])  # all columns: which are numbers, which constant


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_missing_values_categories_and_medians(tmp_path, missing):
    rng = np.random.default_rng(1)
    n = 400
    ids = rng.integers(0, 30, n)
    x = rng.normal(size=n)
    x[rng.random(n) < 0.1] = np.nan
    age = (ids * 1.5)[:, None].ravel()
    rows = pa.table(
        {
            "id": ids,
            "x": x,
            "n": [str(v) for v in rng.integers(0, 900, n)],
            "kind": np.array(["a", "b", "c"])[rng.integers(0, 3, n)],
            "age": np.where(ids % 7 == 0, np.nan, age),
            "y": ids % 5,
        }
    )
    path = stream_files.write(tmp_path / "m.parquet", rows, row_group_size=37)
    options = {"bag": "id", "label": "y", "one_hot": ["kind"], "covariates": ["age"]}
    assert_same(path, **options, missing=missing)


def test_a_sample_of_rows_does_not_depend_on_pieces(tmp_path, monkeypatch):
    monkeypatch.setattr("bagwise.bags.tables.reader.SAMPLE_ROWS", 50)
    rng = np.random.default_rng(1)
    x = rng.normal(size=900)
    x[::9] = np.nan
    rows = pa.table({"id": rng.integers(0, 9, 900), "x": x, "z": rng.normal(size=900)})
    path = stream_files.write(tmp_path / "m.parquet", rows, row_group_size=50)
    from bagwise.bags.tables.reader import scan_bags

    options = {"bag": "id", "missing": "impute", "progress": False, "sample_rows": 50}
    one = scan_bags(path, **options)
    other = scan_bags(path, **options, engine="local", piece_rows=100)
    assert one.schema.fill == other.schema.fill


def test_a_second_table_of_labels(tmp_path):
    rows = stream_files.table()
    path = stream_files.write(tmp_path / "p.parquet", rows, row_group_size=20)
    bags = sorted(set(rows["bag"].to_pylist()))
    labels = pa.table({"bag": [*bags[::2], "nobody"], "score": np.arange(len(bags[::2]) + 1.0)})
    parts, whole = assert_same(path, bag="bag", features=["x"], label="score", labels=labels)
    assert parts.n_bags == len(bags[::2]) == whole.n_bags


def test_faults_are_named_as_in_one_pass(tmp_path):
    rows = stream_files.table()
    x = rows["x"].to_numpy().copy()
    x[113] = np.inf
    bad = rows.set_column(rows.column_names.index("x"), "x", [x])
    path = stream_files.write(tmp_path / "p.parquet", bad, row_group_size=20)
    errors = []
    for engine in (None, "local"):
        with pytest.raises(BagwiseError) as error:
            Bags.scan_parquet(
                path, bag="bag", features=["x"], engine=engine, piece_rows=40, progress=False
            )
        errors.append(str(error.value))
    assert errors[0] == errors[1] and "row 113" in errors[0]


@pytest.mark.parametrize(
    ("column", "role", "error"),
    [("age", "covariates", InvalidBagsError), ("y", "label", InvalidLabelsError)],
)
def test_values_that_change_from_piece_to_piece(tmp_path, column, role, error):
    rows = pa.table({"id": [1] * 30 + [2] * 30 + [1] * 30, "x": np.arange(90.0)})
    rows = rows.append_column(column, [np.repeat([5.0, 6.0, 7.0], 30)])
    path = stream_files.write(tmp_path / "p.parquet", rows, row_group_size=30)
    with pytest.raises(error, match=rf"column '{column}' changes within bag 1: 5.0 and then 7.0"):
        Bags.scan_parquet(
            path, bag="id", features=["x"], engine="local", piece_rows=30, **{role: column}
        )


def test_a_file_that_changes_is_noticed(tmp_path):
    rows = stream_files.table()
    path = stream_files.write(tmp_path / "p.parquet", rows, row_group_size=20)
    parts = Bags.scan_parquet(path, bag="bag", features=["x"], engine="local", piece_rows=40)
    stream_files.write(path, rows.take(np.arange(len(rows))[::-1]), row_group_size=20)
    with pytest.raises(InvalidBagsError, match="has changed since it was first read"):
        parts.rows_at(np.arange(3))


def test_an_empty_piece_adds_nothing():
    one, other = Census(), Census()
    assert len(one.merge(other)) == 0


def test_engines_by_name():
    assert as_engine(None) is None
    assert isinstance(as_engine("local"), LocalEngine)
    with pytest.raises(BagwiseError, match="engine is 'spark'; expected \"dask\""):
        as_engine("spark")
    with pytest.raises(BagwiseError, match="no data frames of its own"):
        LocalEngine().rows_of(None)


def test_another_engine_is_one_class(tmp_path):
    """Pieces come back in their order, whatever order they are done in."""

    class Backwards(Engine):
        def map(self, work, pieces, title):
            done = {k: work(pieces[k]) for k in reversed(range(len(pieces)))}
            return (done[k] for k in range(len(pieces)))

    path = stream_files.write(tmp_path / "p.parquet", stream_files.table(), row_group_size=20)
    known = {"bag": "bag", "features": ["x"], "piece_rows": 40, "progress": False}
    found = Bags.scan_parquet(path, engine=Backwards(), **known)
    assert found.ids.tolist() == Bags.scan_parquet(path, **known).ids.tolist()


KEYS = {
    "positions": np.array([7, 2, 30, 11, 5]),
    "mask": np.arange(40) % 3 == 1,
    "slice": slice(4, 20),
    "steps": slice(30, 3, -2),
    "ids": lambda bags: bags.ids[[9, 1, 4]].tolist(),
    "none": slice(0, 0),
}


@pytest.mark.crossed
@pytest.mark.parametrize("engine", [None, "local"])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_some_bags_of_a_file_are_those_of_the_same_bags_in_memory(tmp_path, key, engine):
    path = stream_files.write(tmp_path / "p.parquet", stream_files.table(), row_group_size=20)
    options = {"bag": "bag", "features": ["x", "z"], "covariates": ["age"], "weights": "w"}
    stream = Bags.scan_parquet(
        path, **options, engine=engine, batch_rows=23, piece_rows=60, progress=False
    )
    bags = Bags.from_parquet(path, **options)
    if callable(key):
        key = key(bags)
    if isinstance(key, np.ndarray) and key.dtype == bool:
        key = np.resize(key, bags.n_bags)
    found, expected = stream[key], bags[key]
    assert isinstance(found, BagStream)
    assert found.ids.tolist() == expected.ids.tolist()
    for name in ("offsets", "shape", "n_points", "n_features", "covariates"):
        assert_array_equal(getattr(found, name), getattr(expected, name))
    assert_allclose(found.effective_sizes, expected.effective_sizes, rtol=1e-13)
    points, shares = found.rows_at(np.arange(found.n_points))
    assert_array_equal(points, expected.points)
    assert_allclose(shares, expected.shares, rtol=1e-13)
    again = found[::-1]  # some of some
    assert_array_equal(again.rows_at(np.arange(again.n_points))[0], expected[::-1].points)


@pytest.mark.crossed(together=2)
@pytest.mark.parametrize("weights", [None, "w"])
@pytest.mark.parametrize("piece_rows", [60, 10_000])
@pytest.mark.parametrize("key", KEYS.values(), ids=KEYS)
def test_sums_of_some_bags_are_each_of_its_own_bag(tmp_path, key, piece_rows, weights):
    """Also if a piece has all of the bags, which are asked for in another order."""
    rows = stream_files.table(order="shuffled")
    path = stream_files.write(tmp_path / "p.parquet", rows, row_group_size=20)
    options = {"bag": "bag", "features": ["x", "z"], "weights": weights}
    bags = Bags.from_parquet(path, **options)
    stream = Bags.scan_parquet(
        path, **options, engine="local", piece_rows=piece_rows, progress=False
    )
    if callable(key):
        key = key(bags)
    if isinstance(key, np.ndarray) and key.dtype == bool:
        key = np.resize(key, bags.n_bags)
    if not bags[key].n_bags:
        key = slice(None, None, -1)  # none have no sums; all of them, backwards
    embedding = KernelEmbedding(5, bandwidth=1.0).fit(bags)
    found, expected = embedding.transform(stream[key]), embedding.transform(bags[key])
    assert_allclose(found, expected, rtol=1e-12)


def _rows_by_bag(part):
    """Return the numbers of the bags of a part, and of each the points in order."""
    points = {int(number): [] for number in part.numbers}
    for batch in part.batches():
        for k, bag in enumerate(batch.bags):
            points[int(part.numbers[bag])] += batch.points[slice(*batch.starts[k : k + 2])].tolist()
    return points


@pytest.mark.parametrize("chosen", [slice(None), slice(30, 3, -2)])
@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_a_piece_of_many_bags_is_worked_on_in_shards(tmp_path, order, chosen):
    rows = stream_files.table(order=order)
    path = stream_files.write(tmp_path / "p.parquet", rows, row_group_size=20)
    options = {"bag": "bag", "features": ["x", "z"], "weights": "w"}
    stream = Bags.scan_parquet(path, **options, engine="local", piece_rows=60, progress=False)
    bags, found, most = Bags.from_parquet(path, **options)[chosen], {}, 0
    for part, numbers in stream[chosen].map_parts(_rows_by_bag, shard_bags=3):
        assert list(part) == numbers.tolist()
        most = max(most, len(numbers))
        for number, points in part.items():
            found.setdefault(number, []).extend(points)
    assert most == 3
    assert sorted(found) == list(range(bags.n_bags))
    for number, points in found.items():
        assert_array_equal(points, bags[number])


@pytest.mark.parametrize("order", ["sorted", "shuffled"])
def test_statistics_travel_once_per_stretch_of_pieces(tmp_path, monkeypatch, order):
    """However many rows there are: pieces that lie one after the other are summed as one."""
    monkeypatch.setattr(LocalEngine, "n_parts", 4)
    path = stream_files.write(
        tmp_path / "p.parquet", stream_files.table(order=order), row_group_size=10
    )
    options = {"bag": "bag", "features": ["x", "z"], "weights": "w"}
    stream = Bags.scan_parquet(path, **options, engine="local", piece_rows=10, progress=False)
    bags = Bags.from_parquet(path, **options)
    assert len(stream._pieces) > 20
    parts = [numbers for _, numbers in stream.map_parts(_rows_by_bag)]
    assert len(parts) <= 4
    sharded = [numbers for _, numbers in stream.map_parts(_rows_by_bag, shard_bags=8)]
    assert max(map(len, sharded)) <= 8
    rows = np.random.default_rng(0).permutation(bags.n_points)[:50]
    assert_allclose(stream.rows_at(rows)[0], bags.points[rows], rtol=1e-14)
    features = KernelEmbedding(5, bandwidth=1.0).candidates(bags)[0]
    found, expected = summarise(stream, features), summarise(bags, features)
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert_allclose(found.within_cov, expected.within_cov, rtol=1e-10)


def test_rows_that_are_awaited_come_with_those_before_them(tmp_path, monkeypatch):
    path = stream_files.write(tmp_path / "p.parquet", stream_files.table())
    stream = Bags.scan_parquet(path, bag="bag", features=["x"], progress=False)
    few, rows = np.array([2, 5]), np.array([7, 0, 3])
    expected, points = stream.some(few, 4), stream.rows_at(rows)[0]
    stream.await_some(few, 4)
    assert_array_equal(stream[:6].rows_at(rows)[0], stream[:6].rows_at(rows)[0])  # forgotten there
    assert_array_equal(stream.rows_at(rows)[0], points)
    monkeypatch.setattr(type(stream._passes), "rows", None)  # no further pass
    assert_array_equal(stream.some(few, 4).points, expected.points)


def test_what_cannot_be_chosen_of_a_file_is_said(tmp_path):
    path = stream_files.write(tmp_path / "p.parquet", stream_files.table())
    stream = Bags.scan_parquet(path, bag="bag", features=["x"], progress=False)
    with pytest.raises(InvalidBagsError, match="the points of a single bag stay on disk"):
        stream[3]
    with pytest.raises(InvalidBagsError, match="a bag on disk was chosen twice"):
        stream[[1, 2, 1]]


@pytest.mark.parametrize("files", [1, 2])
def test_a_long_row_group_is_shared_by_several_pieces(tmp_path, files):
    """Row groups four pieces long: each piece has its rows, alone and put together again."""
    rows = stream_files.table(order="shuffled")
    n = -(-len(rows) // files)
    path = stream_files.write(tmp_path / "p.parquet", rows, files=files, row_group_size=n)
    parts, whole = assert_same(path, piece_rows=n // 4, **ALL, covariates=["age"], weights="w")
    pieces = parts._passes.source.pieces
    assert len(pieces) == 4 * files
    assert [p.first_row for p in pieces] == np.cumsum([0, *(p.n_rows for p in pieces)])[
        :-1
    ].tolist()
    expected = np.concatenate([t.floats("x") for t in whole._passes.source.batches(["x"])])
    for start in range(len(pieces)):
        for stop in range(start + 1, len(pieces) + 1):
            own = Source.joined(pieces[start:stop])
            found = np.concatenate([table.floats("x") for table in own.batches(["x"])])
            first = own.first_row
            assert_array_equal(found, expected[first : first + own.n_rows])
    features = KernelEmbedding(5, bandwidth=1.0).candidates(whole)[0]
    assert_allclose(summarise(parts, features).mean, summarise(whole, features).mean, rtol=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "mixed"])
def test_sums_in_single_precision_do_not_depend_on_pieces(tmp_path, kernel):
    """Features are rounded before they are summed, and nothing after: pieces change no digit."""
    rows = stream_files.table(order="shuffled")
    path = stream_files.write(tmp_path / "p.parquet", rows, files=1, row_group_size=20)
    parts, whole = assert_same(path, **ALL)
    features = KernelEmbedding(5, kernel=kernel, bandwidth=1.0).candidates(whole)[0]
    found, expected = (summarise(b, features, thrift=Thrift(single=True)) for b in (parts, whole))
    assert_allclose(found.mean, expected.mean, rtol=1e-13)
    scale = np.abs(expected.within_cov).max()
    assert_allclose(found.within_cov, expected.within_cov, rtol=0, atol=1e-13 * scale)
