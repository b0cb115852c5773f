"""Bags whose points stay on disk: what a scan finds is what reading into memory finds."""

import copy
import datetime
import warnings
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import StandardScaler

import stream_files
from bagwise._utils import work
from bagwise.bags.bags import Bags, BagStream, as_bags
from bagwise.bags.tables import reader
from bagwise.bags.tables.reader import read_bags
from bagwise.estimators.pointwise import PointwiseTransformer
from bagwise.exceptions import BagwiseError, BagwiseWarning, InvalidBagsError, InvalidLabelsError

scan_parquet = partial(Bags.scan_parquet, batch_rows=101)
scan_bags = partial(reader.scan_bags, batch_rows=101)


def caught(read, *arguments, **options):
    """What a reader returns, and what it warns of."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        result = read(*arguments, **options)
    return result, [str(warning.message) for warning in found]


def assert_same(path, batch_rows=101, **options):
    """Scan and read a file; both must find the same bags, labels and faults."""
    stream, mentioned = caught(Bags.scan_parquet, path, batch_rows=batch_rows, **options)
    bags, warned = caught(Bags.from_parquet, path, **options)
    assert mentioned == warned
    if "label" in options:
        (stream, y), (bags, expected) = stream, bags
        assert_array_equal(y, expected)
        assert y.dtype == expected.dtype
    assert isinstance(stream, BagStream)
    assert stream.ids.tolist() == bags.ids.tolist()
    assert stream.ids.dtype == bags.ids.dtype
    for name in ("offsets", "sizes", "feature_names", "covariate_names", "shape", "n_points"):
        assert_array_equal(getattr(stream, name), getattr(bags, name))
    assert_array_equal(stream.covariates, bags.covariates)
    assert_allclose(stream.effective_sizes, bags.effective_sizes, rtol=1e-13)
    counted = bags.points if bags.weights is None else bags.points[bags.weights > 0]
    center = counted.mean(axis=0, dtype=float)
    assert_allclose(stream.feature_mean, center, rtol=1e-12, atol=1e-14)
    assert_allclose(stream.feature_std, counted.std(axis=0, dtype=float), rtol=1e-12)
    assert_array_equal(stream.rows_at(np.arange(bags.n_points))[0], bags.points)
    assert repr(stream) == "BagStream" + repr(bags).removeprefix("Bags")
    return stream, bags


ALL = {"bag": "bag", "features": ["x", "z"], "label": "y"}


@pytest.mark.parametrize("order", ["sorted", "shuffled", "as drawn"])
@pytest.mark.parametrize("files", [1, 3])
def test_a_scan_finds_what_reading_finds(tmp_path, order, files):
    path = stream_files.write(
        tmp_path / "points.parquet", stream_files.table(order=order), files=files
    )
    assert_same(path, **ALL, covariates=["age"], weights="w")
    assert_same(path, bag="number", features="x")


@pytest.mark.parametrize(
    "bag", ["number", ["number", "wide"], ["wide", "bag"], "day", "time", ["day", "number"]]
)
def test_ids_of_any_type(tmp_path, bag):
    rows = stream_files.table()
    numbers = rows["number"].to_pylist()
    start = datetime.datetime(2020, 1, 1, 12)
    rows = rows.append_column(
        "time", pa.array([start + datetime.timedelta(hours=i) for i in numbers])
    )
    rows = rows.append_column("day", rows["time"].cast(pa.date32(), safe=False))
    assert_same(stream_files.write(tmp_path / "a.parquet", rows), bag=bag, features=["x", "z"])


def test_times_of_nanoseconds_are_one_bag_whatever_else_is_in_the_batch(tmp_path):
    times = np.array([0, 1_000, 1] * 40, dtype="M8[ns]")  # whole microseconds, and not
    rows = pa.table({"t": np.sort(times), "x": np.arange(120.0)})
    stream, _ = assert_same(stream_files.write(tmp_path / "a.parquet", rows), bag="t")
    assert stream.n_bags == 3


def test_one_bag_per_row_and_one_bag_of_all(tmp_path):
    rows = pa.table({"id": np.arange(100)[::-1], "one": ["same"] * 100, "x": np.arange(100.0)})
    path = stream_files.write(tmp_path / "a.parquet", rows)
    assert assert_same(path, bag="id", features="x")[0].n_bags == 100
    assert assert_same(path, bag="one", features="x")[0].n_bags == 1


def test_many_bags_need_room_that_grows(tmp_path):
    ids = np.random.default_rng(0).integers(0, 3000, 5000)
    rows = pa.table({"id": ids, "x": ids + 0.5, "y": ids})
    assert_same(stream_files.write(tmp_path / "b.parquet", rows), bag="id", label="y")


def test_float32_points_integers_and_truth_values(tmp_path):
    rng = np.random.default_rng(0)
    ids = rng.integers(0, 9, 200)
    rows = pa.table(
        {
            "id": ids,
            "x": rng.normal(size=200).astype(np.float32),
            "n": rng.integers(0, 5, 200),
            "flag": rng.random(200) < 0.5,
            "y": ids % 2 == 0,
        }
    )
    path = stream_files.write(tmp_path / "a.parquet", rows)
    assert_same(path, bag="id", features=["x"], label="y")
    assert_same(path, bag="id", features=["x", "n", "flag"], label="y")


def test_values_in_the_names_of_folders(tmp_path):
    rows = stream_files.table(200)
    for year in (2020, 2021):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(rows, tmp_path / f"year={year}" / "a.parquet")
    stream, _ = assert_same(tmp_path, bag=["bag", "year"], features=["x"], label="y")
    assert stream.ids[0][1] == 2020


def test_files_that_differ_in_type(tmp_path):
    for i, kind in enumerate((pa.int32(), pa.float64())):
        rows = pa.table({"id": [1, 2, 1], "x": pa.array([1, 2, 3], kind)})
        pq.write_table(rows, tmp_path / f"{i}.parquet")
    assert_same(tmp_path, bag="id")


@pytest.mark.parametrize("weights", [[0.0, 1.0, 1e149, 1e-200, 3.0, 0.0], [1e-300] * 6])
def test_weights_of_any_size(tmp_path, weights):
    rows = pa.table({"id": [0, 1, 0, 1, 0, 1], "x": np.arange(6.0), "w": weights})
    path = stream_files.write(tmp_path / "a.parquet", rows)
    assert_same(path, bag="id", weights="w", batch_rows=2)


# ---------------------------------------------------------------- one-hot, missing, two tables


def test_one_hot_columns_with_categories_learnt_or_given(tmp_path):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    stream, _ = assert_same(path, bag="bag", features=["x", "colour"], one_hot="colour", label="y")
    assert stream.feature_names == ("x", "colour=blue", "colour=green", "colour=red")
    given = {"colour": ["red", "green", "blue"], "wide": ["wide", "narrow"]}
    assert_same(path, bag="bag", features=["x", "colour"], covariates=["wide"], one_hot=given)
    learnt = ["colour", "wide"]
    assert_same(path, bag="bag", features=["x", "colour"], covariates=["wide"], one_hot=learnt)


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_missing_values_are_dropped_or_imputed_with_the_same_counts(tmp_path, missing):
    rows = stream_files.table()
    lost = np.flatnonzero(rows["number"].to_numpy() == 7)
    rows = stream_files.with_gaps(rows, "x", [0, 5, 36, 37, 500])
    rows = stream_files.with_gaps(rows, "w", [5, 801])
    rows = stream_files.with_gaps(rows, "age", lost)
    path = stream_files.write(tmp_path / "a.parquet", rows)
    stream, _ = assert_same(path, **ALL, covariates=["age"], weights="w", missing=missing)
    assert stream.n_bags == (39 if missing == "drop" else 40)


def test_rows_without_bag_or_label_are_dropped(tmp_path):
    rows = stream_files.with_gaps(stream_files.table(), "bag", [3, 100])
    rows = stream_files.with_gaps(rows, "y", [8, 9])
    rows = stream_files.with_gaps(rows, "x", [3, 8, 700])  # of a row without a bag nobody is told
    path = stream_files.write(tmp_path / "a.parquet", rows)
    assert_same(path, **ALL, missing="drop")


def test_integer_labels_with_gaps_are_floats_in_every_batch(tmp_path):
    rows = pa.table({"id": np.arange(120) % 5, "x": np.arange(120.0), "y": np.arange(120) % 5})
    path = stream_files.write(tmp_path / "a.parquet", stream_files.with_gaps(rows, "y", [100]))
    assert_same(path, bag="id", label="y", missing="drop")


def test_medians_of_many_rows_are_those_of_a_sample(tmp_path):
    rows = stream_files.with_gaps(stream_files.table(3000), "z", [4])
    path = stream_files.write(tmp_path / "a.parquet", rows)
    exact = read_bags(path, **ALL, missing="impute").schema.fill
    drawn = scan_bags(path, **ALL, missing="impute", sample_rows=300).schema.fill
    assert drawn != exact
    assert_allclose([drawn["x"], drawn["z"]], [exact["x"], exact["z"]], atol=0.3)
    assert scan_bags(path, **ALL, missing="impute", sample_rows=300).schema.fill == drawn
    assert scan_bags(path, **ALL, missing="impute").schema.fill == exact


@pytest.mark.parametrize("as_file", [False, True])
@pytest.mark.parametrize("missing", ["error", "drop", "impute"])
def test_two_tables(tmp_path, missing, as_file):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    ids = [f"bag {i:02}" for i in range(5, 45)]
    score = [float(i % 7) for i in range(40)]
    label = [i / 10 for i in range(40)]
    if missing != "error":
        label[3], score[9] = None, None
    labels = pa.table(
        {
            "bag": ids,
            "target": label,
            "score": score,
            "kind": [["u", "v"][i % 2] for i in range(40)],
        }
    )
    given = labels
    if as_file:
        given = tmp_path / "labels.parquet"
        pq.write_table(labels, given)
    stream, _ = assert_same(
        path,
        bag="bag",
        features=["x", "z"],
        covariates=["score", "kind", "age"],
        one_hot="kind",
        label="target",
        labels=given,
        missing=missing,
    )
    assert stream.covariate_names == ("score", "kind=u", "kind=v", "age")


def test_a_schema_of_training_reads_later_files(tmp_path):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    roles = {"bag": "bag", "features": ["x", "colour"], "one_hot": "colour", "label": "y"}
    trained = scan_bags(path, **roles)
    assert trained.schema == read_bags(path, **roles).schema
    assert trained.report == read_bags(path, **roles).report
    new = stream_files.table(500, seed=1)
    only_red = new.filter(pa.compute.equal(new["colour"], "red")).drop_columns(["y"])
    later = stream_files.write(tmp_path / "b.parquet", only_red)
    found = scan_bags(later, schema=trained.schema.without_label())
    assert found.labels is None
    assert found.bags.feature_names == trained.bags.feature_names
    with pytest.raises(TypeError, match="give a schema or roles, not both: bag"):
        scan_bags(later, schema=trained.schema, bag="bag")


# ---------------------------------------------------------------- what is refused


@pytest.fixture
def stream(tmp_path):
    path = stream_files.write(tmp_path / "points.parquet", stream_files.table())
    return scan_parquet(path, **ALL, weights="w")[0]


@pytest.mark.parametrize(
    "use",
    [
        lambda stream: stream.points,
        lambda stream: stream.weights,
        lambda stream: stream[0],
        lambda stream: list(stream),
        lambda stream: stream.with_points(np.zeros((900, 2))),
        lambda stream: Bags.concatenate([stream, stream]),
        lambda stream: PointwiseTransformer(StandardScaler()).fit(stream),
        lambda stream: BagStream.from_list([[[1.0]]]),
    ],
)
def test_what_needs_points_in_memory_says_so(stream, use):
    with pytest.raises(InvalidBagsError, match=r"Read them with Bags\.from_parquet"):
        use(stream)


def test_streams_have_the_rest_of_bags(stream):
    assert as_bags(stream) is stream
    assert len(stream) == stream.n_bags == 40
    assert stream.with_log_size().covariate_names == ("log_size",)
    assert stream.with_covariates(np.ones((40, 1))).without_covariates().covariates is None
    assert stream.weighted
    assert copy.copy(stream).n_points == 900
    with pytest.raises(AttributeError, match="no attribute 'colour'"):
        _ = stream.colour
    with pytest.raises(AttributeError, match="bags do not change"):
        stream.ids = None


def bad(tmp_path, column, position, value, **roles):
    rows = stream_files.table()
    values = rows[column].to_pylist()
    values[position] = value
    rows = rows.set_column(rows.schema.get_field_index(column), column, pa.array(values))
    path = stream_files.write(tmp_path / "a.parquet", rows)
    bags = rows["bag"].to_pylist()
    within = bags[:position].count(bags[position])
    with pytest.raises(BagwiseError) as caught:
        scan_parquet(path, **(ALL | roles))
    return str(caught.value), bags[position], within


def test_faults_are_named_by_bag_and_row(tmp_path):
    message, bag, _ = bad(tmp_path, "x", 345, float("inf"))
    assert message.startswith(f"bag {bag!r}, row 345 of the table, column 'x' is inf; expected")
    message, bag, _ = bad(tmp_path, "x", 345, None)
    assert message.startswith(f"bag {bag!r}, row 345 of the table, column 'x' is missing")
    message, bag, within = bad(tmp_path, "w", 345, -2.0, weights="w")
    assert message.startswith(f"bag {bag!r}, row {within} has weight -2.0; expected a finite")
    message, bag, within = bad(tmp_path, "y", 345, 99.0)
    assert f"label column 'y' changes within bag {bag!r}" in message
    assert f"but 99.0 in row {within}; expected one value for the whole bag" in message
    message, bag, within = bad(tmp_path, "age", 345, 99.0, covariates=["age"])
    assert f"covariate column 'age' changes within bag {bag!r}" in message
    message, _, _ = bad(tmp_path, "bag", 345, None)
    assert message.startswith("row 345 of the data frame has no bag")


def test_text_labels_may_grow_but_not_change(tmp_path):
    rows = pa.table(
        {"id": np.arange(90) // 45, "x": np.arange(90.0), "y": ["a"] * 45 + ["abc"] * 45}
    )
    path = stream_files.write(tmp_path / "a.parquet", rows)
    assert scan_parquet(path, bag="id", label="y")[1].tolist() == ["a", "abc"]
    rows = rows.set_column(2, "y", pa.array(["a"] * 45 + ["abc"] * 44 + ["abd"]))
    path = stream_files.write(tmp_path / "b.parquet", rows)
    with pytest.raises(InvalidLabelsError, match="'abc' in row 0 but 'abd' in row 44"):
        scan_parquet(path, bag="id", label="y")


def test_a_bag_of_weight_zero_is_refused(tmp_path):
    rows = pa.table({"id": [0, 1, 1], "x": [1.0, 2.0, 3.0], "w": [1.0, 0.0, 0.0]})
    path = stream_files.write(tmp_path / "a.parquet", rows)
    with pytest.raises(InvalidBagsError, match="all weights of bag 1 are 0"):
        scan_parquet(path, bag="id", weights="w")


def test_files_that_cannot_be_scanned(tmp_path):
    csv = tmp_path / "points.csv"
    csv.write_text("bag,x\na,1\n")
    with pytest.raises(BagwiseError, match=r"points\.csv is a CSV file; expected Parquet"):
        scan_parquet(csv, bag="bag")
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    with pytest.raises(BagwiseError, match=r"has no column 'bga'.*Did you mean 'bag'"):
        scan_parquet(path, bag="bga")
    with pytest.raises(BagwiseError, match="there is no file"):
        scan_parquet(tmp_path / "none.parquet", bag="bag")
    with pytest.raises(InvalidBagsError, match="'x' is used twice"):
        scan_parquet(path, bag="bag", features=["x"], label="x")


@pytest.mark.parametrize("missing", ["drop", "impute"])
def test_nothing_left_is_an_error(tmp_path, missing):
    rows = pa.table({"id": [0, 1], "x": [1.0, 2.0], "y": pa.array([None, None], pa.float64())})
    path = stream_files.write(tmp_path / "a.parquet", rows)
    with pytest.raises(InvalidBagsError, match="every one of 2 rows has a missing value"):
        scan_parquet(path, bag="id", label="y", missing=missing)


def test_a_file_that_changes_between_passes_is_noticed(tmp_path):
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    stream = scan_parquet(path, bag="number", features=["x"])
    for changed in (stream_files.table(901), stream_files.table(899)):
        stream_files.write(path, changed)
        with pytest.raises(InvalidBagsError, match="the file has changed since it was first read"):
            list(stream.batches())
    rows = stream_files.table()
    rows = rows.set_column(1, "number", pa.array(rows["number"].to_numpy() + 1))
    stream_files.write(path, rows)
    with pytest.raises(InvalidBagsError, match="the file has changed since it was first read"):
        list(stream.batches())


def test_passes_show_their_progress_by_rows(tmp_path, monkeypatch):
    bars = []

    class Watch(work.Progress):
        def __init__(self, title, total, shown=True):
            super().__init__(title, total, False)
            bars.append([title, total, shown, 0])

        def advance(self, steps=1):
            bars[-1][3] += steps

    monkeypatch.setattr(reader, "Progress", Watch)
    path = stream_files.write(tmp_path / "a.parquet", stream_files.table())
    labels = pa.table({"bag": ["bag 03", "bag 04"], "target": [1.0, 2.0]})
    roles = {"bag": "bag", "features": ["colour"], "one_hot": "colour", "label": "target"}
    with pytest.warns(BagwiseWarning, match="Left out 38 bags without a row"):
        stream, _ = scan_parquet(path, **roles, labels=labels, progress=False)
    list(stream.batches())
    titles = ["reading bag ids", "learning from rows", "reading rows", "reading points"]
    assert bars == [[title, 900, False, 900] for title in titles]
