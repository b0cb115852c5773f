"""Standard output: tables, pages and models for the next command, and text safe for a terminal."""

import csv
import gzip
import io
import json
import os
import pty
import re
import subprocess
import unicodedata

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import bagwise as library
from bagwise._utils.work import Progress, printable
from cli_runs import QUICK, bagwise, command_line, done, in_process, make_rows, refused, write

FIT = ("--bag", "person", "--label", "age", "--features", "a,b")

# Ids and a column that would clear the screen, set its title, turn text around or run a formula.
ODD_IDS = ["p\x1b[2J1", "p\x1b]0;title\x072", "p\x9b31m3", "p\u202e4", "=1+1", "-5", "+5", "@x"]
ODD_COLUMN = "b\x1b[31m"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stdout")
    write(make_rows(), folder / "points.parquet")
    write(make_rows(10, seed=1).drop_columns(["age"]), folder / "new.parquet")
    done(bagwise("fit", "points.parquet", *FIT, *QUICK, "--out", "m.bagwise", cwd=folder))
    return folder


@pytest.fixture(scope="module")
def odd(tmp_path_factory):
    """A table whose names are hostile, and a model fitted to it."""
    folder = tmp_path_factory.mktemp("odd")
    table = make_rows()
    renamed = {f"p{i:03d}": odd_id for i, odd_id in enumerate(ODD_IDS)}
    ids = [renamed.get(person, person) for person in table["person"].to_pylist()]
    columns = {"=person": ids, "a": table["a"], ODD_COLUMN: table["b"], "age": table["age"]}
    write(pa.table(columns), folder / "t.parquet")
    roles = ("--bag", "=person", "--label", "age")
    done(bagwise("fit", "t.parquet", *roles, *QUICK, "--out", "m.bagwise", cwd=folder))
    return folder


def rows(text, delimiter=","):
    return list(csv.reader(io.StringIO(text), delimiter=delimiter))


# ---------------------------------------------------------------- --out -


@pytest.mark.parametrize("form", ["csv", "tsv", "json"])
def test_a_table_on_standard_output_is_that_of_the_file(folder, tmp_path, form):
    run = ("predict", folder / "m.bagwise", folder / "new.parquet", "--out")
    done(bagwise(*run, f"p.{form}", cwd=tmp_path))
    result = bagwise(*run, "-", "--format", form, cwd=tmp_path)
    assert result.stdout == (tmp_path / f"p.{form}").read_text()
    assert result.stderr == "bagwise: 10 bags predicted\n"
    assert not (tmp_path / "-").exists()


def test_csv_is_the_format_of_standard_output(folder):
    run = ("predict", "m.bagwise", "new.parquet", "--out", "-")
    assert rows(bagwise(*run, cwd=folder).stdout)[0][:3] == ["person", "size", "mean"]


@pytest.mark.parametrize("form", ["parquet", pytest.param("csv.gz", marks=pytest.mark.long)])
def test_tables_that_are_no_text_go_through_pipes(folder, form):
    line = command_line("predict", "m.bagwise", "new.parquet", "--out", "-", "--format", form)
    found = subprocess.run(line, cwd=folder, capture_output=True, check=True).stdout
    if form == "parquet":
        table = pq.read_table(io.BytesIO(found)).to_pydict()
    else:
        table = {"person": [row[0] for row in rows(gzip.decompress(found).decode())[1:]]}
    assert sorted(table["person"]) == [f"p{i:03d}" for i in range(10)]


@pytest.mark.usefixtures("undrawn")
def test_models_and_pages_on_standard_output(folder, tmp_path):
    result = bagwise("fit", "points.parquet", *FIT, *QUICK, "--out", "-", cwd=folder, raw=True)
    (tmp_path / "m.bagwise").write_bytes(result.stdout)
    new = library.Bags.from_parquet(folder / "new.parquet", bag="person", features=["a", "b"])
    one, two = (library.load(place / "m.bagwise").predict(new) for place in (folder, tmp_path))
    assert (one == two).all() and "ShrinkageRegressor fitted" in result.stderr
    run = ("report", "points.parquet", *FIT, "--folds", "2", "--model", "rbf", "--out", "-")
    page = bagwise(*run, cwd=folder).stdout
    assert page.startswith("<!doctype html>") and page.endswith("</html>\n")


def test_scores_and_reasons_on_standard_output(folder):
    evaluate = ("evaluate", "m.bagwise", "points.parquet")
    table = rows(bagwise(*evaluate, "--out", "-", cwd=folder).stdout)
    told = done(bagwise(*evaluate, "--json", cwd=folder))
    assert table[0] == list(told["rows"][0]) and len(table) == 1 + len(told["rows"])
    assert float(table[1][2]) == told["rows"][0]["mse"]
    explain = ("explain", "m.bagwise", "new.parquet", "--id", "p003")
    result = bagwise(*explain, "--out", "-", cwd=folder)
    head, *points = rows(result.stdout)
    why = done(bagwise(*explain, "--json", cwd=folder))
    assert head == ["row", "a", "b", "contribution"] and "push" in result.stderr
    assert [float(row[-1]) for row in points] == why["points"]
    every = bagwise(*explain, "--out", "-", "--format", "json", cwd=folder)
    assert json.loads(every.stdout) == why
    drawn = bagwise(*explain, "--picture", "-", cwd=folder, raw=True)
    assert drawn.stdout.startswith(b"\x89PNG") and "push" in drawn.stderr


def test_standard_output_takes_one_answer(folder):
    for line in (
        ("predict", "m.bagwise", "new.parquet"),
        ("evaluate", "m.bagwise", "points.parquet"),
        ("fit", "points.parquet", *FIT),
        ("report", "points.parquet", *FIT),
        ("explain", "m.bagwise", "new.parquet", "--id", "p003"),
    ):
        result = bagwise(*line, "--out", "-", "--json", cwd=folder)
        refused(result, "--out - and --json", code=2)
        assert result.stdout == ""


def test_the_format_and_the_ending_agree(folder):
    run = ("predict", "m.bagwise", "new.parquet", "--out")
    refused(bagwise(*run, "p.csv", "--format", "json", cwd=folder), "agree", code=2)
    refused(bagwise(*run, "p.docx", cwd=folder), ".csv", "--format")
    for command in (run[:-1], ("evaluate", *run[1:-1]), ("explain", *run[1:-1], "--id", "p003")):
        refused(bagwise(*command, "--format", "json", cwd=folder), "without --out", code=2)
    done(bagwise(*run, "p.out", "--format", "json", cwd=folder))
    assert len(json.loads((folder / "p.out").read_text())) == 10
    done(bagwise(*run, folder / "-", "--format", "csv", cwd=folder))  # a file that is called so
    assert (folder / "-").is_file()


# ---------------------------------------------------------------- control characters


def assert_harmless(text):
    bad = {c for c in text if unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") and c != "\n"}
    assert not bad and "\u202e" not in text, (bad, text)


def test_printable_text_has_no_control_characters():
    every = "".join(map(chr, range(0x3000)))
    assert_harmless(printable(every))
    assert printable("Käse – 価格 👩‍👩‍👧 \u200d") == "Käse – 価格 👩‍👩‍👧 \u200d"
    assert printable("a\nb\x1b", keep="\n") == "a\nb\\x1b"
    assert printable("\udcff") == "\\udcff"


def test_names_in_answers_and_errors_cannot_command_the_terminal(odd, tmp_path):
    hostile = tmp_path / "x\x1b[2J.parquet"
    write(make_rows(4), hostile)
    for line in (
        ("predict", "m.bagwise", "t.parquet"),
        ("explain", "m.bagwise", "t.parquet", "--id", ODD_IDS[0]),
        ("explain", "m.bagwise", "t.parquet", "--id", "p\x1b[2J9"),
        ("info", "t.parquet"),
        ("info", "m.bagwise"),
        ("fit", "t.parquet", "--bag", ODD_COLUMN, "--label", "age", "--out", "x"),
        ("fit", "t.parquet", "--bag", "x\x1b[2J", "--label", "age", "--out", "x"),
        ("fit", hostile, *FIT, *QUICK, "--out", tmp_path / "m\x1b[2J"),
        ("predict", hostile, "t.parquet"),
        ("predict", "m.bagwise", hostile),
        ("predict", "m.bagwise", "t.parquet", "--out", hostile),
        ("predict", "m.bagwise", "t.parquet", "extra\x1b[2J"),
        ("predict", "--\x1b[2J"),
        ("\x1b[2J",),
        ("--debug", "predict", hostile, "t.parquet"),
    ):
        result = bagwise(*line, cwd=odd)
        assert_harmless(result.stdout)
        assert_harmless(result.stderr)
    shown = bagwise("info", "t.parquet", cwd=odd).stdout
    assert "b\\x1b[31m" in shown  # written out, so that two names never look the same
    write(pa.table({"a\nrows  7": [1.0]}), tmp_path / "lines.parquet")
    assert len(bagwise("info", "lines.parquet", cwd=tmp_path).stdout.splitlines()) == 3


def test_files_and_json_keep_ids_exactly(odd, tmp_path):
    run = ("predict", "m.bagwise", "t.parquet")
    result = bagwise(*run, "--json", cwd=odd)
    assert_harmless(result.stdout)
    assert set(ODD_IDS) < set(json.loads(result.stdout)["columns"]["=person"])
    for form in ("csv", "json", "parquet"):
        done(bagwise(*run, "--out", tmp_path / f"p.{form}", cwd=odd))
    ids = {
        "csv": [row[0] for row in rows((tmp_path / "p.csv").read_bytes().decode())],
        "json": [row["=person"] for row in json.loads((tmp_path / "p.json").read_text())],
        "parquet": pq.read_table(tmp_path / "p.parquet")["=person"].to_pylist(),
    }
    assert all(set(ODD_IDS) < set(found) for found in ids.values())


def in_terminal(*arguments, cwd):
    """Run the command with a terminal for both its streams; return what that shows."""
    leader, follower = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "200"}
    process = subprocess.Popen(
        command_line(*arguments), cwd=cwd, stdout=follower, stderr=follower, env=environment
    )
    os.close(follower)
    seen = b""
    while True:
        try:
            piece = os.read(leader, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
    process.wait(60)
    os.close(leader)
    return process.returncode, seen.decode()


def test_a_terminal_gets_no_control_characters_of_ours(odd):
    run = ("predict", "m.bagwise", "t.parquet", "--out", "-")
    code, seen = in_terminal(*run, cwd=odd)
    assert code == 0 and "p\\x1b[2J1" in seen and "\x1b[2J" not in seen and "\x07" not in seen
    code, seen = in_terminal(*run, "--format", "parquet", cwd=odd)
    assert code == 2 and "fill the terminal" in seen


def test_names_of_files_in_progress_are_text(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("reading [bold]a[/b]\x1b]0;x\x07.csv", 1) as progress:
        progress.advance()
    shown = screen.getvalue()
    assert "[bold]a[/b]\\x1b]0;x\\x07.csv" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert "\x07" not in shown


# ---------------------------------------------------------------- --safe-csv


def test_safe_csv_leaves_no_formula_but_every_number(odd, tmp_path):
    run = ("predict", "m.bagwise", "t.parquet", "--out")
    done(bagwise(*run, tmp_path / "plain.csv", cwd=odd))
    result = bagwise(*run, tmp_path / "safe.csv", "--safe-csv", cwd=odd)
    done(result)
    assert "note: 5 cells" in result.stderr  # four ids, and the name of their column
    plain, safe = (rows((tmp_path / f"{name}.csv").read_text()) for name in ("plain", "safe"))
    assert safe[0][0] == "'=person"
    for before, after in zip(plain, safe, strict=True):
        risky = before[0][0] in "=+-@"
        assert after[0] == ("'" + before[0] if risky else before[0])
        assert after[1:] == before[1:]  # negative means among them
        assert after[0][0] not in "=+-@\t\r"


def test_safe_csv_on_standard_output_and_of_points(odd):
    run = ("explain", "m.bagwise", "t.parquet", "--id", "=1+1", "--out", "-", "--format", "tsv")
    head = rows(bagwise(*run, "--safe-csv", cwd=odd).stdout, "\t")[0]
    assert head == ["row", "a", ODD_COLUMN, "contribution"]
    run = ("predict", "m.bagwise", "t.parquet", "--out", "-", "--safe-csv")
    assert "'=1+1" in {row[0] for row in rows(bagwise(*run, cwd=odd).stdout)}


def test_names_of_files_that_are_no_text(tmp_path):
    name = os.fsdecode(b"a\xff.csv")
    result = in_process("info", name, cwd=tmp_path)
    refused(result, "a\\udcff.csv")
