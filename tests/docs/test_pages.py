"""Pages of the site: their Python runs as written, and whatever is public has its place."""

import doctest
import inspect
import re
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "_ext"))

from public_names import is_shown, public_names, returned  # noqa: E402

PAGES = sorted(
    str(path.relative_to(DOCS))
    for path in [*DOCS.glob("*.md"), *DOCS.glob("guide/*.md"), *DOCS.glob("coming_from/*.md")]
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("page", PAGES)
def test_examples_run_as_written(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some pages write files
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    outcome = doctest.testfile(str(DOCS / page), module_relative=False, optionflags=flags)
    assert outcome.attempted > 3
    assert outcome.failed == 0


def test_blocks_of_python_are_run_or_shown_on_the_first_page_only():
    """A block without prompts would be run by nobody; the landing page has that of the README."""
    for path in DOCS.rglob("*.md"):
        for block in re.findall(
            r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL
        ):
            assert block.startswith(">>>") or path == DOCS / "index.md", path


@pytest.mark.parametrize("name", sorted(public_names()))
def test_whatever_is_public_has_an_example(name):
    thing = public_names()[name]
    assert ">>>" in (inspect.getdoc(thing) or ""), f"bagwise.{name} has no example"


@pytest.mark.parametrize("name", sorted(returned()))
def test_what_is_returned_has_an_example(name):
    assert ">>>" in (inspect.getdoc(returned()[name]) or "")


def test_the_reference_lists_whatever_is_public():
    text = (DOCS / "reference/index.md").read_text(encoding="utf-8")
    listed = set()
    for module, names in re.findall(
        r"currentmodule:: bagwise(\S*)\n\n.*?:nosignatures:\n\n((?:   \S+\n)+)",
        text,
        re.DOTALL,
    ):
        listed |= {f"{module}.{name}".removeprefix(".") for name in names.split()}
    public = public_names()
    again = {name for name in public if "." in name and name.partition(".")[2] in public}
    assert set(public) - again <= listed
    assert listed <= set(public) | set(returned())


def test_every_member_that_is_shown_says_what_it_does():
    for name, thing in public_names().items():
        if inspect.isclass(thing):
            for member, value in inspect.getmembers(thing, callable):
                if is_shown(member, value):
                    assert inspect.getdoc(value), f"bagwise.{name}.{member}"


def test_the_gallery_is_in_order():
    listed = (DOCS / "gallery/order.txt").read_text(encoding="utf-8").split()
    assert sorted(listed) == sorted(path.name for path in DOCS.glob("gallery/plot_*.py"))


def test_every_command_has_a_section():
    from bagwise.cli.shell import app

    text = (DOCS / "guide/command_line.md").read_text(encoding="utf-8")
    names = [command.name or command.callback.__name__ for command in app.registered_commands]
    assert [name for name in names if f"```{{command}} {name}\n" not in text] == []
