"""Bags from Parquet and CSV files, and every way in which a file can be wrong."""

import datetime
import gzip
import os
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_array_equal

from bagwise.bags.bags import Bags
from bagwise.bags.tables.files import open_table, parquet_dataset, table_columns
from bagwise.bags.tables.reader import read_bags
from bagwise.exceptions import BagwiseError, BagwiseWarning

N_ROWS = 200
ROLES = {
    "bag": ["site", "day"],
    "features": ["x", "count", "colour"],
    "covariates": ["region"],
    "weights": "w",
    "label": "y",
    "one_hot": ["colour", "region"],
}


def frame(seed=0, gaps=False):
    """Points of two dozen bags, with an id of text and dates, in any order."""
    rng = np.random.default_rng(seed)
    site, day = rng.integers(0, 6, N_ROWS), rng.integers(1, 5, N_ROWS)
    table = pd.DataFrame(
        {
            "site": [f"s{k}" for k in site],
            "day": [datetime.date(2020, 1, int(k)) for k in day],
            "x": rng.normal(size=N_ROWS),
            "count": rng.integers(0, 100, N_ROWS),
            "colour": rng.choice(["red", "green", "blue"], N_ROWS),
            "region": np.where(site < 3, "north", "south"),
            "w": rng.uniform(0.5, 2, N_ROWS),
            "y": (site + day / 7).astype(float),
        }
    )
    if gaps:
        table["x"] = table["x"].mask(rng.random(N_ROWS) < 0.1)
        table["colour"] = table["colour"].mask(rng.random(N_ROWS) < 0.1)
    return table


def write(table, folder):
    """Write one table in every way that can be read, and return it in all forms."""
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    pq.write_table(arrow, folder / "t.parquet", row_group_size=64)
    (folder / "parts").mkdir()
    pq.write_table(arrow.slice(0, 90), folder / "parts" / "a.parquet")
    pq.write_table(arrow.slice(90), folder / "parts" / "b.pq")
    (folder / "parts" / "_SUCCESS").touch()
    table.to_csv(folder / "t.csv", index=False)
    table.to_csv(folder / "t.csv.gz", index=False)
    table.to_csv(folder / "t.tsv", index=False, sep="\t")
    table.to_csv(folder / "rows.csv")  # with the row numbers that pandas adds
    files = ("t.parquet", "parts", "t.csv", "t.csv.gz", "t.tsv", "rows.csv")
    return [folder / name for name in files] + [table, pl.from_pandas(table), arrow]


def same(first, second):
    for name in ("points", "offsets", "ids", "weights", "covariates"):
        assert_array_equal(getattr(first.bags, name), getattr(second.bags, name), strict=True)
    assert_array_equal(first.labels, second.labels, strict=True)
    assert first.bags.feature_names == second.bags.feature_names
    assert first.bags.covariate_names == second.bags.covariate_names
    assert first.schema == second.schema
    assert first.report == second.report


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_every_source_gives_the_same_bags_to_the_bit(tmp_path, missing):
    sources = write(frame(gaps=missing == "drop"), tmp_path)
    first, *others = [read_bags(source, **ROLES, missing=missing) for source in sources]
    assert first.bags.n_bags == 24
    assert first.bags.ids[0][1].year == 2020
    for other in others:
        same(first, other)


def test_default_features_are_the_same_in_every_source(tmp_path):
    for source in write(frame(), tmp_path):
        table = read_bags(source, bag="site", label="y", labels=_labels(frame()))
        assert table.bags.feature_names == ("x", "count", "w")
        rows = {"": "row numbers"} if getattr(source, "name", "") == "rows.csv" else {}
        assert table.report.left_out == table.schema.left_out
        assert table.report.left_out == rows | {
            "day": "dates",
            "colour": "text, such as 'green'",
            "region": "text, such as 'south'",
        }
        (line,) = table.report.lines()
        assert "'day' (dates), 'colour' (text, such as 'green'), 'region' (text" in line


def _labels(table):
    return table.groupby("site", as_index=False)["y"].mean()


def test_from_parquet_and_from_csv_with_labels_in_either_kind_of_file(tmp_path):
    table = frame()
    write(table, tmp_path)
    labels = table.groupby(["site", "day"], as_index=False)[["y", "region"]].first()
    labels.to_csv(tmp_path / "labels.csv", index=False)
    labels.to_parquet(tmp_path / "labels.parquet")
    table.drop(columns=["y", "region"]).to_parquet(tmp_path / "points.parquet")
    one, y = Bags.from_parquet(tmp_path / "t.parquet", **ROLES)
    for name in ("labels.csv", "labels.parquet"):
        two, y_two = Bags.from_parquet(
            str(tmp_path / "points.parquet"), labels=str(tmp_path / name), **ROLES
        )
        assert_array_equal(two.points, one.points, strict=True)
        assert_array_equal(two.covariates, one.covariates, strict=True)
        assert_array_equal(y_two, y, strict=True)
    three, _ = Bags.from_csv(tmp_path / "t.csv", labels=tmp_path / "labels.parquet", **ROLES)
    assert_array_equal(three.points, one.points, strict=True)
    alone = Bags.from_csv(tmp_path / "t.csv", bag="site", features="x")
    assert isinstance(alone, Bags)
    assert_array_equal(alone.points, Bags.from_frame(table, bag="site", features="x").points)
    four = read_bags(table, labels=tmp_path / "labels.csv", **ROLES)
    assert_array_equal(four.bags.points, one.points, strict=True)


def test_a_schema_reads_a_later_file_without_labels(tmp_path):
    write(frame(), tmp_path)
    schema = read_bags(tmp_path / "t.parquet", **ROLES).schema
    later = frame(seed=1).drop(columns="y")
    later.to_csv(tmp_path / "later.csv", index=False)
    new = read_bags(tmp_path / "later.csv", schema=schema.without_label())
    assert new.labels is None
    assert_array_equal(new.bags.points, read_bags(later, schema=new.schema).bags.points)
    with pytest.raises(BagwiseError, match=r"later\.csv has no column 'y'"):
        read_bags(tmp_path / "later.csv", schema=schema)
    with pytest.raises(TypeError, match="give a schema or roles, not both: bag"):
        read_bags(later, schema=schema, bag="site")


def test_only_the_needed_columns_are_read(tmp_path):
    write(frame(), tmp_path)
    assert table_columns(tmp_path / "parts") == list(frame().columns)
    for name in ("t.parquet", "t.csv.gz"):
        assert open_table(tmp_path / name, ["y", "site"]).num_columns == 2
    assert table_columns(tmp_path / "rows.csv") == ["", *frame().columns]


def test_ids_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    for texts, ids in (
        (["007", "7"], ["007", "7"]),
        (["10", "7"], [10, 7]),
        (["0", "-1"], [0, -1]),
        (["1.5", "0.5"], [1.5, 0.5]),
        (["1", "1.0"], ["1", "1.0"]),
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["NA", "null"], ["NA", "null"]),
        (["2020-01-02", "2020-01-01"], [datetime.date(2020, 1, 2), datetime.date(2020, 1, 1)]),
        (["a b", '"c, d"'], ["a b", "c, d"]),
    ):
        path.write_text("bag,x\n" + "".join(f"{text},1\n" for text in texts))
        assert Bags.from_csv(path, bag="bag").ids.tolist() == ids


def test_missing_values_of_a_csv_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('bag,x,kind\n1,,u\n1,NA,\n1,"",v\n2,3,NA\n')
    with pytest.warns(BagwiseWarning, match=r"Filled in 3 missing.*\(3 in column 'x'\)"):
        bags = Bags.from_csv(path, bag="bag", missing="impute")
    assert bags.points.ravel().tolist() == [3, 3, 3, 3]
    with pytest.warns(BagwiseWarning, match="1 in column 'kind'"):
        bags = Bags.from_csv(path, bag="bag", features="kind", one_hot="kind", missing="drop")
    assert bags.feature_names == ("kind=NA", "kind=u", "kind=v")
    path.write_text("bag,x,empty\n1,1,\n2,2,\n")
    with pytest.raises(BagwiseError, match="bag 1, row 0, column 'empty' is missing"):
        Bags.from_csv(path, bag="bag", features=["x", "empty"])
    with pytest.raises(BagwiseError, match="column 'empty' has no value at all"):
        Bags.from_csv(path, bag="bag", features=["x", "empty"], missing="impute")


def test_csv_as_spreadsheets_write_it(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b'\xef\xbb\xbfbag,x,note\r\n1,2,"two\r\nlines"\r\n\r\n1,3,"a,b"\r\n')
    with pytest.warns(BagwiseWarning, match=r"Left out 1 column: 'note' \(text"):
        bags = Bags.from_csv(path, bag="bag")
    assert bags[0].tolist() == [[2], [3]]


def test_numbers_that_become_text_late_in_a_long_file(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("bag,x\n" + "1,1\n" * 400_000 + "1,1.5\n")
    assert Bags.from_csv(path, bag="bag").points[-1] == 1.5


def test_folders_give_a_column(tmp_path):
    for year in (2019, 2020):
        folder = tmp_path / "a=0" / "data" / f"year={year}"
        folder.mkdir(parents=True)
        values = [1, 2] if year == 2019 else [0.5]  # whole numbers in one file only
        pq.write_table(pa.table({"x": values}), folder / "part.parquet")
    bags = Bags.from_parquet(tmp_path / "a=0" / "data", bag="year")
    assert bags.ids.tolist() == [2019, 2020]
    assert bags.points.ravel().tolist() == [1, 2, 0.5]
    assert parquet_dataset(tmp_path / "a=0" / "data").schema.names == ["x", "year"]


# ---- errors -------------------------------------------------------------------------------------


def fails(path, text, **roles):
    with pytest.raises(BagwiseError, match=text) as caught:
        read_bags(path, **{"bag": "bag", **roles})
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path):
    (tmp_path / "points.csv").write_text("bag,x\n1,2\n")
    fails(tmp_path / "point.csv", r"no file .*point\.csv; .* Did you mean points\.csv\?")
    fails(tmp_path / "q", "no file .*q; expected a Parquet or CSV file. Check the path")
    fails(tmp_path / "no" / "q.csv", "There is no folder .*no either: check the path")
    (tmp_path / "nothing").mkdir()
    fails(tmp_path / "nothing", "has no Parquet or CSV files; expected files that end in .parquet")
    fails(
        tmp_path / "points.csv", r"no column 'bags'; .*'bag', 'x'. Did you mean 'bag'\?", bag="bags"
    )
    fails(tmp_path / "points.csv", "no column 'q'; .* Check the spelling", label="q")
    with pytest.raises(BagwiseError, match="no column 'q'"):
        open_table(tmp_path / "points.csv", ["q"])
    with pytest.raises(BagwiseError, match=r"has no CSV files; expected files that end in .csv"):
        Bags.from_csv(tmp_path / "nothing", bag="bag")
    with pytest.raises(BagwiseError, match=r"has no Parquet files; .* end in .parquet or .pq"):
        Bags.from_parquet(tmp_path, bag="bag")


def test_endings(tmp_path):
    (tmp_path / "t.xlsx").write_text("bag,x\n1,2\n")
    fails(tmp_path / "t.xlsx", r"has the ending '\.xlsx'; expected one of \.parquet, \.pq, \.csv")
    (tmp_path / "t").write_text("bag,x\n1,2\n")
    fails(tmp_path / "t", "t has no ending")
    assert Bags.from_csv(tmp_path / "t", bag="bag").n_points == 1  # told what it is


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"", "is empty; expected a header"),
        (b"\n\n", "is empty; expected a header"),
        (b"bag,x\n", "has a header but no rows"),
        (b"bag,x\n1,2\n3\n", "line 3 has 1 fields; expected 2, as in the header .'bag', 'x'"),
        (b'bag,x\n1,"2\n3"\n4,5,6\n', "line 4 has 3 fields; expected 2"),
        ("bag,x\n1,2\nJosé,3\n".encode("latin1"), r"other than UTF-8 \(line 3\); expected UTF-8"),
        ("bag,é\n1,2\n".encode("latin1"), r"other than UTF-8 \(line 1\)"),
        ("bag,x\n1,2\n".encode("utf-16"), r"is encoded in UTF-16 \(line 1\)"),
        (b"bag;x\n1;2\n", "has the one column 'bag;x'; .*commas .* Say sep=';' .--sep"),
        (b"bag,x,x\n1,2,3\n", r"cannot be read .*'x'.*names are all different"),
        (b"bag,x\n1,inf\n", "bag 1, row 0, column 'x' is inf; expected a finite number"),
        (b"bag,x\n1,two\n", "no feature columns are left"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_csv_files_that_cannot_be_used(tmp_path, content, text, packed):
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    fails(path, text)


def test_damaged_gz(tmp_path):
    path = tmp_path / "t.csv.gz"
    rows = "".join(f"{i},{i * 0.37}\n" for i in range(50_000))
    packed = gzip.compress(f"bag,x\n{rows}".encode())
    path.write_bytes(packed[: len(packed) // 2])
    fails(path, "cannot be unpacked .*; expected a whole gzip file. Copy or download it again")
    path.write_text("bag,x\n1,2\n")
    fails(path, "if it is not compressed, remove .gz")


def test_damaged_parquet(tmp_path):
    path = tmp_path / "t.parquet"
    frame().to_parquet(path)
    whole = path.read_bytes()
    remedy = "cannot be read as Parquet .*expected a whole Parquet file. Copy or write it again"
    for damaged in (whole[:-20], whole[20:], b"bag,x\n1,2\n", b"PAR1"):
        path.write_bytes(damaged)
        fails(path, remedy, bag="site", features="x")
    path.write_bytes(whole[:4] + bytes(200) + whole[204:])  # the footer is whole, the rows are not
    fails(path, remedy, bag="site", features="x")
    path.write_bytes(b"")
    fails(path, "t.parquet is empty; expected a Parquet file")
    frame()[:0].to_parquet(path)
    fails(path, "has columns but no rows", bag="site")


def test_files_of_a_folder_that_do_not_fit_together(tmp_path):
    pq.write_table(pa.table({"bag": [1], "x": [1.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"bag": [1], "z": [1.0]}), tmp_path / "b.parquet")
    fails(tmp_path, r"b\.parquet and .*a\.parquet do not both have the column 'x'")
    pq.write_table(pa.table({"bag": ["one"], "x": [1.0]}), tmp_path / "b.parquet")
    fails(tmp_path, "cannot be read as Parquet")


def test_no_permission(tmp_path, monkeypatch):
    def refuse(*args, **options):
        raise PermissionError(13, "Permission denied")

    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        (tmp_path / name).write_bytes(b"bag,x\n1,2\n")
        (tmp_path / name).chmod(0)
    if os.geteuid() == 0:  # root may read everything
        monkeypatch.setattr("pathlib.Path.open", refuse)
        monkeypatch.setattr("gzip.open", refuse)
        monkeypatch.setattr("pyarrow.parquet.read_schema", refuse)
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        fails(tmp_path / name, "may not be read by this user; .* chmod u.r")


def test_no_warning_without_a_reason(tmp_path):
    frame().to_parquet(tmp_path / "t.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Bags.from_parquet(tmp_path / "t.parquet", bag="site", features=["x", "count", "w", "y"])


def test_a_column_that_is_not_there_is_not_answered_with_pages_of_names(tmp_path):
    path = tmp_path / "wide.csv"
    names = [f"measurement {k}" for k in range(400)] + ["x" * 5000]
    path.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n", encoding="utf-8")
    with pytest.raises(BagwiseError, match=r"'measurement 0'.* and 386 more") as caught:
        Bags.from_csv(path, bag="patient")
    assert len(str(caught.value)) < 1000
