"""Nothing is lost by writing: inputs stay, and what is there goes only if it is ours or may go."""

import os
import re
import shlex

import pytest

import bagwise as library
from bagwise import BagwiseError, report
from bagwise.cli import demo
from bagwise.cli.shell import Output, WrongLine
from bagwise.reproduce.command import files_of_others
from bagwise.reproduce.study import Study
from cli_runs import QUICK, bagwise, done, make_rows, refused, write

ROLES = ("--bag", "person", "--label", "age", "--features", "a,b")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Points, labels and a model, from which each test takes copies."""
    folder = tmp_path_factory.mktemp("made")
    write(make_rows(), folder / "points.parquet")
    table = make_rows(12, seed=2)
    labels = table.group_by("person").aggregate([("age", "max")]).rename_columns(["person", "age"])
    write(labels, folder / "labels.csv")
    write(table.drop_columns(["age"]), folder / "new.csv")
    done(bagwise("fit", "points.parquet", *ROLES, *QUICK, "--out", "m.bagwise", cwd=folder))
    return folder


@pytest.fixture
def folder(made, tmp_path):
    for path in made.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Every command that writes and reads, and what it reads; the option that says where it writes.
NEW = ("m.bagwise", "new.csv", "--labels", "labels.csv")
WRITERS = {
    "fit": (("fit", "new.csv", "--labels", "labels.csv", *ROLES, *QUICK), "--out", NEW[1::2]),
    "report": (("report", "new.csv", "--labels", "labels.csv", *ROLES), "--out", NEW[1::2]),
    "predict": (("predict", *NEW, "--format", "csv"), "--out", ("m.bagwise", *NEW[1::2])),
    "evaluate": (("evaluate", *NEW, "--format", "csv"), "--out", ("m.bagwise", *NEW[1::2])),
    "explain": (
        ("explain", *NEW, "--id", "p003", "--format", "csv"),
        "--out",
        ("m.bagwise", *NEW[1::2]),
    ),
}
CASES = [(name, source) for name, (_, _, sources) in WRITERS.items() for source in sources]


def symlink(path):
    link = path.with_name(f"link-{path.name}")
    link.symlink_to(path)
    return link


def hard_link(path):
    link = path.with_name(f"hard-{path.name}")
    link.hardlink_to(path)
    return link


def by_linked_folder(path):
    link = path.parent / "here"
    link.symlink_to(path.parent)
    return link / path.name


ALIASES = {
    "name": lambda path: path.name,
    "absolute": lambda path: path,
    "dots": lambda path: f"../{path.parent.name}/./{path.name}",
    "symlink": symlink,
    "hard link": hard_link,
    "linked folder": by_linked_folder,
}


@pytest.mark.parametrize(("command", "source"), CASES)
def test_no_command_writes_over_what_it_reads(folder, command, source):
    line, option, _ = WRITERS[command]
    before = contents(folder)
    for force in ((), ("--force",)):
        result = bagwise(*line, option, source, *force, cwd=folder)
        refused(result, option, source, "from which the command reads", code=2)
    assert contents(folder) == before and result.stdout == ""


@pytest.mark.parametrize("alias", ALIASES)
def test_an_input_is_known_under_any_name(folder, alias):
    path = folder / "new.csv"
    other = ALIASES[alias](path)
    before = path.read_bytes()
    for command in ("fit", "predict"):
        line, option, _ = WRITERS[command]
        refused(bagwise(*line, option, other, "--force", cwd=folder), "reads", code=2)
    assert path.read_bytes() == before


def test_pictures_do_not_replace_inputs_or_tables(folder):
    (folder / "m.png").write_bytes((folder / "m.bagwise").read_bytes())
    run = ("explain", "m.png", "new.csv", "--id", "p003", "--picture")
    refused(bagwise(*run, "m.png", "--force", cwd=folder), "--picture", "reads", code=2)
    both = bagwise(*run, "x.png", "--out", "./x.png", "--format", "csv", cwd=folder)
    refused(both, "--out and --picture are both", code=2)
    refused(bagwise(*run, "-", "--out", "-", cwd=folder), "are both -", code=2)
    assert not (folder / "x.png").exists()


def test_tables_are_not_put_into_a_folder_of_points(folder):
    (folder / "points").mkdir()
    (folder / "points.parquet").rename(folder / "points" / "a.parquet")
    before = contents(folder)
    run = ("predict", "m.bagwise", "points", "--out")
    refused(bagwise(*run, "points/p.parquet", cwd=folder), "whose tables are read", code=2)
    forced = bagwise(*run, "points/a.parquet", "--force", cwd=folder)
    refused(forced, "whose tables are read", code=2)
    assert contents(folder) == before
    done(bagwise("fit", "points", *ROLES, *QUICK, "--out", "points/m.bagwise", cwd=folder))


FOREIGN = {
    "fit": ("thesis.docx", "is no saved model"),
    "report": ("thesis.html", "is no page of bagwise"),
    "predict": ("thesis.csv", "is there already"),
    "evaluate": ("thesis.csv", "is there already"),
    "explain": ("thesis.csv", "is there already"),
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", FOREIGN)
def test_a_file_that_is_not_ours_stays_without_force(folder, command):
    line, option, _ = WRITERS[command]
    line = [*line, "--folds", "2", "--model", "rbf"] if command == "report" else line
    if command in ("predict", "explain"):  # which have no use for labels
        line = [word for word in line if word not in NEW[2:]]
    name, words = FOREIGN[command]
    thesis = folder / name
    thesis.write_text("years of work")
    refused(bagwise(*line, option, name, cwd=folder), name, words, "--force", code=2)
    assert thesis.read_text() == "years of work"
    done(bagwise(*line, option, name, "--force", cwd=folder))
    assert thesis.read_bytes() != b"years of work"
    if command in ("fit", "report"):  # which know their own
        done(bagwise(*line, option, name, cwd=folder))
    else:
        refused(bagwise(*line, option, name, cwd=folder), "is there already", code=2)


def test_a_picture_that_is_there_stays_without_force(folder):
    run = ("explain", "m.bagwise", "new.csv", "--id", "p003", "--picture", "why.svg")
    done(bagwise(*run, cwd=folder))
    before = (folder / "why.svg").read_bytes()
    refused(bagwise(*run, cwd=folder), "--picture why.svg is there already", "--force", code=2)
    assert (folder / "why.svg").read_bytes() == before
    done(bagwise(*run, "--force", cwd=folder))


def test_models_replace_damaged_models_and_empty_files_but_no_other_safetensors(folder):
    line, *_ = WRITERS["fit"]
    whole = (folder / "m.bagwise").read_bytes()
    (folder / "cut.bagwise").write_bytes(whole[:-50])
    (folder / "empty.bagwise").touch()
    for name in ("cut.bagwise", "empty.bagwise"):
        done(bagwise(*line, "--out", name, cwd=folder))
    (folder / "other.safetensors").write_bytes(whole.replace(b"bagwise", b"wisebag"))
    refused(bagwise(*line, "--out", "other.safetensors", cwd=folder), "no saved model", code=2)


def test_a_file_that_appears_during_the_work_stays(tmp_path):
    out = Output(tmp_path / "p.csv")
    out.check_replaced()
    out.path.write_text("of somebody else")
    with pytest.raises(WrongLine, match="is there already"), out.opened() as file:
        file.write(b"ours")
    assert out.path.read_text() == "of somebody else"


@pytest.mark.usefixtures("undrawn")
def test_python_does_not_replace_what_is_not_ours_either(folder):
    model = library.load(folder / "m.bagwise")
    notes = folder / "notes.txt"
    notes.write_text("notes")
    with pytest.raises(BagwiseError, match=r"notes.txt is there already and is no saved model"):
        library.save(model, notes)
    assert notes.read_text() == "notes"
    library.save(model, notes, overwrite=True)
    library.save(model, notes)  # now a model, which a model may replace
    bags, y = library.Bags.from_parquet(
        folder / "points.parquet", bag="person", features=["a"], label="age"
    )
    page = report.make(bags, y, {"rbf": library.RBFNetworkRegressor()}, folds=2, progress=False)
    with pytest.raises(BagwiseError, match=r"labels.csv is there already and is no page"):
        page.write(folder / "labels.csv")
    page.write(page.write(folder / "page.html"))
    page.write(folder / "labels.csv", overwrite=True)
    assert (folder / "labels.csv").read_text(encoding="utf-8") == page.html


# ---------------------------------------------------------------- folders


@pytest.fixture(scope="module")
def demo_scores():
    """Scores of the demo by the bytes of the files that it fits and scores: the same have the same.

    The fit takes seconds; it is made once for the demo, and once by the command line itself.
    """
    real, known = demo._scores, {}

    def scores(folder):
        files = tuple((folder / name).read_bytes() for name in demo.FILES)
        if files not in known:
            known[files] = real(folder)
        return known[files]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo, "_scores", scores)
        yield known


@pytest.mark.long
def test_the_demo_does_what_it_says(demo_scores, tmp_path):
    told = done(bagwise("demo", "--out", "some polls", cwd=tmp_path))
    lines = [line.strip() for line in told.splitlines() if line.startswith("  bagwise ")]
    assert [line.split()[1] for line in lines] == ["fit", "evaluate", "predict", "report"]
    answers = [done(bagwise(*shlex.split(line)[1:], cwd=tmp_path)) for line in lines[:3]]
    assert answers[1] in told and "coverage" in answers[1] and "95 %" in answers[1]
    shown = done(bagwise("demo", "--out", "again", "--json", cwd=tmp_path))
    score = shlex.split(lines[1])[1:]
    assert done(bagwise(*score, "--json", cwd=tmp_path))["rows"] == shown["rows"]
    assert len(demo_scores) == 1  # the files are the same wherever they are written


@pytest.fixture
def quick_demo(monkeypatch):
    """The demo with a model that is fitted at once; how its own does, the README's test says."""
    quick = library.ShrinkageRegressor(library.KernelEmbedding(8, bandwidth=1.0))
    monkeypatch.setattr(demo, "estimator", lambda *_, **__: quick)


def test_the_demo_writes_files(quick_demo, tmp_path):
    told = done(bagwise("demo", "--json", cwd=tmp_path))
    assert told["rows"][0]["bags"] == 208 and told["rmse_of_plain_average"] > 0
    names = {path.name for path in (tmp_path / "polls").iterdir()}
    assert names == {"train.parquet", "new.parquet", "answers.csv"}
    text = done(bagwise("demo", "--out", "again", cwd=tmp_path))
    assert "bagwise fit again/train.parquet" in text


def test_the_demo_keeps_files_of_others(quick_demo, tmp_path):
    (tmp_path / "polls").mkdir()
    (tmp_path / "polls" / "answers.csv").write_text("mine")
    refused(bagwise("demo", cwd=tmp_path), "answers.csv is there already", code=2)
    assert [path.name for path in (tmp_path / "polls").iterdir()] == ["answers.csv"]
    done(bagwise("demo", "--force", cwd=tmp_path))
    refused(bagwise("demo", "--out", "polls/answers.csv", cwd=tmp_path), "no folder", code=2)
    refused(bagwise("demo", "--out", "-", cwd=tmp_path), "standard output", code=2)
    assert not (tmp_path / "-").exists()


def test_reproducing_keeps_files_of_others(tmp_path):
    mine = tmp_path / "quick" / "gamma-fixed-table.md"
    mine.parent.mkdir()
    mine.write_text("mine")
    result = bagwise("reproduce", "gamma-fixed", "--quick", "--out", ".", cwd=tmp_path)
    refused(result, "gamma-fixed-table.md is there already", code=2)
    assert os.listdir(mine.parent) == [mine.name] and mine.read_text() == "mine"
    refused(bagwise("reproduce", "gamma-fixed", "--out", "-", cwd=tmp_path), "output", code=2)


def test_what_was_reproduced_may_be_reproduced_again(tmp_path):
    study = Study.load("gamma-fixed", quick=True)
    assert files_of_others(tmp_path / "new", study) == []
    (tmp_path / "gamma-fixed-table.md").write_text("a table")
    (tmp_path / "gamma-fixed.html").write_text(f"<title>{study.title}</title>")
    assert files_of_others(tmp_path, study) == []
    (tmp_path / "gamma-fixed.html").write_text("<title>Thesis</title>")
    assert files_of_others(tmp_path, study) == ["gamma-fixed-table.md", "gamma-fixed.html"]
    cells = tmp_path / "cells" / "gamma-fixed" / "23"
    cells.mkdir(parents=True)
    (cells / "BLR.npz").touch()
    assert files_of_others(tmp_path, study) == []


@pytest.mark.parametrize("command", ["fit", "predict", "evaluate", "explain", "report", "demo"])
def test_the_rule_is_in_the_help(tmp_path, command):
    told = re.sub(r"\s+", " ", done(bagwise(command, "--help", cwd=tmp_path)))
    assert "--force" in told and "a file that the command reads is never written over" in told
