"""CSV as the world writes it: separators, marks in numbers, codes of missing values, folders."""

import gzip
import json

import numpy as np
import pandas as pd
import pytest

from bagwise.bags.bags import Bags
from bagwise.bags.tables.files import open_table, table_columns
from bagwise.bags.tables.reader import read_bags
from bagwise.exceptions import BagwiseError
from cli_runs import QUICK, bagwise, done, make_rows, refused, write

N = 40


def frame():
    rng = np.random.default_rng(0)
    bag = np.arange(N) % 8
    x = rng.uniform(0, 1e6, N).round(2)
    return pd.DataFrame({"bag": bag, "x": x, "z": rng.normal(size=N).round(4), "y": bag + 0.5})


def spelled(number, decimal, thousands):
    """Write a number with marks, as a spreadsheet does."""
    return f"{number:,.4f}".replace(",", "T").replace(".", decimal).replace("T", thousands or "")


@pytest.mark.crossed(together=2)
@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("decimal", [".", ","])
@pytest.mark.parametrize("thousands", [None, ",", ".", " ", "'", "\u00a0"])
@pytest.mark.parametrize("packed", [False, True])
def test_every_way_to_write_a_number(tmp_path, sep, decimal, thousands, packed):
    if decimal == thousands:
        with pytest.raises(BagwiseError, match="decimal and thousands are both"):
            Bags.from_csv(tmp_path, bag="bag", decimal=decimal, thousands=thousands)
        return
    table = frame()
    rows = [
        sep.join(['"bag"', "x", "z", "y"]),
        *(
            sep.join([str(row.bag)] + [f'"{spelled(v, decimal, thousands)}"' for v in row[2:]])
            for row in table.itertuples()
        ),
    ]
    text = "\n".join(rows) + "\n"
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    marks = {"sep": sep, "decimal": decimal, "thousands": thousands}
    bags, y = Bags.from_csv(path, bag="bag", label="y", **marks)
    expected, labels = Bags.from_frame(table, bag="bag", label="y")
    np.testing.assert_allclose(bags.points, expected.points, rtol=1e-12)
    np.testing.assert_array_equal(y, labels)
    again, _ = Bags.from_csv(path, bag="bag", label="y", features=["x", "z"], **marks)
    np.testing.assert_array_equal(again.points, bags.points)


def test_the_wrong_marks_are_refused_with_the_right_ones(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("bag;x\n" + "".join(f"{i % 5};{i},{i % 7}5\n" for i in range(50)))
    with pytest.raises(BagwiseError, match=r"has the one column 'bag;x'.*Say sep=';' \(--sep\)"):
        Bags.from_csv(path, bag="bag")
    with pytest.raises(BagwiseError, match=r"column 'x': 0 of 50 are .* say decimal=','\."):
        Bags.from_csv(path, bag="bag", sep=";")
    assert Bags.from_csv(path, bag="bag", sep=";", decimal=",").points[1, 0] == 5.55
    with pytest.raises(BagwiseError, match=r"has the one column.*by ',', as told. Say sep=';'"):
        Bags.from_csv(path, bag="bag", sep=",")
    path.write_text("bag,x\n" + "".join(f'{i % 5},"{i},234"\n' for i in range(1, 51)))
    with pytest.raises(BagwiseError, match=r"say thousands=',' or decimal=','"):
        Bags.from_csv(path, bag="bag")
    path.write_text("bag,x\n" + "".join(f'{i % 5},"1,{i}"\n' for i in range(1, 51)))
    with pytest.raises(BagwiseError, match=r"0 of 50 are numbers; row 0 is '1,1'"):
        Bags.from_csv(path, bag="bag", thousands=",")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"sep": ";;"}, "sep = ';;'; expected one character"),
        ({"sep": ""}, "sep = ''"),
        ({"sep": "é"}, "sep = 'é'"),
        ({"sep": '"'}, "sep = "),
        ({"decimal": "5"}, "decimal = '5'"),
        ({"thousands": "-"}, "thousands = '-'"),
        ({"thousands": "."}, "decimal and thousands are both '.'"),
        ({"na_values": [None]}, "na_values has None"),
        ({"na_values": {"x": [True]}}, "na_values has True"),
        ({"na_values": [[1]]}, r"na_values has \[1\]"),
    ],
)
def test_options_that_make_no_sense(tmp_path, options, text):
    (tmp_path / "t.csv").write_text("bag,x\n1,2\n")
    with pytest.raises(BagwiseError, match=text):
        Bags.from_csv(tmp_path / "t.csv", bag="bag", **options)


def test_names_of_a_tab(tmp_path):
    frame().to_csv(tmp_path / "t.csv", sep="\t", index=False)
    for sep in ("\t", "\\t", "tab"):
        assert Bags.from_csv(tmp_path / "t.csv", bag="bag", sep=sep, features="x").n_points == N


def test_codes_of_missing_values(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(
        "bag,x,z,kind\n1,-999,1.5,u\n1,2,n.d.,u\n-999,3,2.5,u\n2,4,-999.0,v\n2,5,1,none\n"
    )
    roles = {"bag": "bag", "one_hot": "kind", "na_values": ["-999", "n.d.", "none"]}
    found = read_bags(path, **roles, missing="drop")
    assert found.report.gaps == {"x": 1, "z": 2, "kind": 1}
    assert found.bags.ids.tolist() == [-999]  # codes are of values, not of ids
    with pytest.raises(BagwiseError, match="4 missing values: 1 in column 'x', 2 in column 'z'"):
        read_bags(path, **roles)
    again = read_bags(path, schema=found.schema)
    np.testing.assert_array_equal(again.bags.points, found.bags.points)
    only = read_bags(path, bag="bag", features="x", na_values={"x": -999}, missing="impute")
    assert only.report.n_imputed == {"x": 1} and only.schema.fill == {"x": 3.5}


def test_the_second_table_is_written_in_the_same_way(tmp_path):
    table = frame()
    labels = pd.DataFrame({"bag": np.arange(8), "y": [f"{i},25" for i in range(8)], "age": 7})
    labels.to_csv(tmp_path / "labels.csv", sep=";", index=False)
    table.drop(columns="y").to_parquet(tmp_path / "t.parquet")
    table.drop(columns="y").to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
    roles = {"bag": "bag", "label": "y", "covariates": "age", "labels": tmp_path / "labels.csv"}
    marks = {"sep": ";", "decimal": ","}
    expected = np.arange(8) + 0.25
    for bags, y in (
        Bags.from_csv(tmp_path / "t.csv", **roles, **marks),
        Bags.from_parquet(tmp_path / "t.parquet", **roles, **marks),
        Bags.scan_parquet(tmp_path / "t.parquet", **roles, **marks, progress=False),
    ):
        np.testing.assert_array_equal(y, expected)
        assert bags.covariates.tolist() == [[7.0]] * 8
    found = read_bags(table.drop(columns="y"), **roles, **marks)
    np.testing.assert_array_equal(found.labels, expected)


# ---- folders ------------------------------------------------------------------------------------


def parts(folder, table, n=3):
    folder.mkdir(parents=True, exist_ok=True)
    for i, rows in enumerate(np.array_split(np.arange(len(table)), n)):
        name = f"part-{i}.csv.gz" if i == 1 else f"part-{i}.csv"
        table.iloc[rows].to_csv(folder / name, index=False)
    return folder


def test_a_folder_of_csv_is_one_table(tmp_path):
    table = frame().assign(site=[f"{i % 8:03d}" for i in range(N)])
    folder = parts(tmp_path / "points", table)
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.csv").write_text("no,thing\n")
    (folder / "notes.txt").write_text("not a table")
    expected = read_bags(table, bag="site", label="y", features=["x", "z"])
    for found in (
        read_bags(folder, bag="site", label="y", features=["x", "z"]),
        read_bags(str(folder) + "/", bag="site", label="y", features=["x", "z"]),
    ):
        np.testing.assert_array_equal(found.bags.points, expected.bags.points)
        assert found.bags.ids.tolist() == expected.bags.ids.tolist() == sorted(set(table.site))
    assert Bags.from_csv(folder, bag="bag", features=["x"]).n_points == N
    assert table_columns(folder) == list(table.columns)
    assert open_table(folder).num_rows == N
    labels = table.groupby("bag", as_index=False)[["y"]].first()
    parts(tmp_path / "labels", labels)
    _, y = Bags.from_csv(folder, bag="bag", features="x", label="y", labels=tmp_path / "labels")
    assert sorted(y) == sorted(labels.y)


def test_types_that_differ_between_the_files_of_a_folder(tmp_path):
    folder = tmp_path / "points"
    folder.mkdir()
    (folder / "a.csv").write_text("bag,x,z,gap\n1,1,1,\n1,2,2,\n")
    (folder / "b.csv").write_text("z,bag,x,gap\n5,007,1.5,3\n2.5,1,2.5,4\n")  # another order
    found = read_bags(folder, bag="bag", missing="drop")
    assert found.bags.ids.tolist() == ["007", "1"] and found.report.gaps == {"gap": 2}
    whole = read_bags(folder, bag="bag", features=["x", "z"])
    assert whole.bags.ids.tolist() == ["1", "007"]
    assert whole.bags.points.tolist() == [[1, 1], [2, 2], [2.5, 2.5], [1.5, 5]]
    (folder / "c.csv").write_text("bag,x,z,gap\n2,n.d.,1,1\n")
    with pytest.raises(BagwiseError, match=r"column 'x': 4 of 5 are numbers; row 4 is 'n\.d\.'"):
        read_bags(folder, bag="bag")
    (folder / "c.csv").write_text("bag,x,z\n2,1,1\n")
    with pytest.raises(BagwiseError, match=r"c.csv and .*a.csv do not both have the column 'gap'"):
        read_bags(folder, bag="bag")


def test_folders_of_years_give_a_column(tmp_path):
    for year in (2019, 2020):
        parts(tmp_path / f"year={year}", frame(), n=2)
    bags = Bags.from_csv(tmp_path, bag="year", features=["x"])
    assert bags.ids.tolist() == [2019, 2020] and bags.sizes.tolist() == [N, N]


def test_folders_that_cannot_be_read(tmp_path):
    folder = parts(tmp_path / "both", frame())
    frame().to_parquet(folder / "t.parquet")
    with pytest.raises(BagwiseError, match=r"has both t.parquet and part-.*files of one kind"):
        read_bags(folder, bag="bag")
    assert Bags.from_csv(folder, bag="bag", features="x").n_points == N  # told which
    assert Bags.from_parquet(folder, bag="bag", features="x").n_points == N
    folder = parts(tmp_path / "texts", frame())
    with pytest.raises(BagwiseError, match="is a folder of CSV files; expected Parquet"):
        Bags.scan_parquet(folder, bag="bag")


# ---- at a shell ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the same points in two ways of writing, and a model fitted to each."""
    folder = tmp_path_factory.mktemp("marks")
    table = make_rows()
    write(table, folder / "plain.csv")
    table.to_pandas().to_csv(folder / "german.csv", sep=";", decimal=",", index=False)
    fit = ("--bag", "person", "--label", "age", "--features", "a,b", *QUICK, "--out")
    done(bagwise("fit", "plain.csv", *fit, "plain.bagwise", cwd=folder))
    marks = ("--sep", ";", "--decimal", ",")
    done(bagwise("fit", "german.csv", *fit, "german.bagwise", *marks, cwd=folder))
    return folder


def test_marks_on_the_line(folder):
    refused(
        bagwise("fit", "german.csv", "--bag", "person", "--label", "age", "--out", "x", cwd=folder),
        "--sep",
    )
    plain = done(bagwise("predict", "plain.bagwise", "plain.csv", "--json", cwd=folder))
    again = bagwise("predict", "german.bagwise", "german.csv", "--json", cwd=folder)
    assert done(again) == plain
    assert "read as in training (sep ';', decimal ',')" in again.stderr
    run = ("german.csv", "--sep", ";", "--decimal", ",", "--json")
    assert done(bagwise("predict", "plain.bagwise", *run, cwd=folder)) == plain
    scores = done(bagwise("evaluate", "plain.bagwise", *run, cwd=folder))
    assert scores == done(bagwise("evaluate", "german.bagwise", "german.csv", "--json", cwd=folder))
    done(bagwise("explain", "german.bagwise", "german.csv", "--id", "p003", cwd=folder))


def test_marks_of_the_line_stand_for_all_of_training(folder):
    run = ("predict", "german.bagwise", "plain.csv")
    refused(bagwise(*run, cwd=folder), "has the one column", "as told", "--sep")
    plain = done(bagwise("predict", "plain.bagwise", "plain.csv", "--json", cwd=folder))
    assert done(bagwise(*run, "--sep", ",", "--json", cwd=folder)) == plain
    write(make_rows(), folder / "points.parquet")
    told = bagwise("predict", "german.bagwise", "points.parquet", "--json", cwd=folder)
    done(told)
    assert "as in training" not in told.stderr  # Parquet has no marks


def test_info_of_a_file_with_marks(folder):
    facts = done(
        bagwise("info", "german.csv", "--sep", ";", "--decimal", ",", "--json", cwd=folder)
    )
    assert facts["rows"] == 440 and facts["columns"]["a"] == "double"
    header = done(bagwise("info", "german.bagwise", "--json", cwd=folder))
    assert header["schema"]["cells"]["sep"] == ";"


def test_codes_of_missing_values_are_remembered(folder, tmp_path):
    table = make_rows().to_pandas()
    table.loc[[3, 5], "a"] = -999.0
    table.to_csv(tmp_path / "t.csv", index=False)
    fit = ("fit", "t.csv", "--bag", "person", "--label", "age", "--features", "a,b", *QUICK)
    fit = (*fit, "--out", "m")
    told = bagwise(*fit, "--na", "-999", "--missing", "drop", cwd=tmp_path)
    done(told)
    assert "Left out 2 of 440 rows" in told.stderr
    told = bagwise("predict", "m", "t.csv", "--json", cwd=tmp_path)
    assert done(told)["bags"] == 40 and "Left out 2 of 440 rows" in told.stderr
    warned = bagwise(*fit, cwd=tmp_path)
    done(warned)
    assert "'a' has 2 values of -999.0, far from all others" in warned.stderr


def test_a_folder_of_csv_at_a_shell(folder, tmp_path):
    parts(tmp_path / "points", make_rows().to_pandas())
    run = ("--bag", "person", "--label", "age", "--features", "a,b", "--out", "m")
    done(bagwise("fit", "points", *run, *QUICK, cwd=tmp_path))
    assert done(bagwise("info", "points", "--json", cwd=tmp_path))["rows"] == 440
    told = done(bagwise("predict", "m", "points", "--json", cwd=tmp_path))
    plain = ("predict", folder / "plain.bagwise", folder / "plain.csv", "--json")
    assert told == done(bagwise(*plain, cwd=tmp_path))


@pytest.mark.usefixtures("undrawn")
def test_what_was_left_out_is_in_the_notes_the_model_and_the_page(tmp_path):
    write(make_rows(), tmp_path / "t.csv")
    run = ("t.csv", "--bag", "person", "--label", "age")
    told = bagwise("fit", *run, *QUICK, "--out", "m", cwd=tmp_path)
    done(told)
    assert "note: Left out 1 column: 'site' (text, such as 'north')" in told.stderr.replace(
        "'south'", "'north'"
    )
    header = done(bagwise("info", "m", "--json", cwd=tmp_path))
    assert list(header["schema"]["left_out"]) == ["site"]
    assert json.dumps(header["schema"]["left_out"]).count("text, such as") == 1
    done(bagwise("report", *run, "--model", "blr", "--folds", "2", cwd=tmp_path))
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "Columns that are not used" in page and "<strong>site</strong>: text, such as" in page
    quiet = bagwise("fit", *run, *QUICK, "--features", "a,b", "--out", "m", cwd=tmp_path)
    done(quiet)
    assert "Left out" not in quiet.stderr
